//! Affinity and anti-affinity between the allocations of a region, as their launches requested them.
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use gpuaas_placement_decision::AntiAffinity;
use uuid::Uuid;

use super::rows::Row;
use crate::model::Constraints;

/// What an anti-affinity names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum From<'a> {
    One(Uuid),
    /// Project, key, value.
    Label(Uuid, &'a str, &'a str),
}

/// Those named by an anti-affinity, and those that have it.
#[derive(Debug, Default)]
struct Group {
    members: Arc<BTreeSet<Uuid>>,
    avoiders: Arc<BTreeSet<Uuid>>,
}

/// All constraints between some allocations.
#[derive(Debug, Default)]
pub(super) struct Ties<'a> {
    groups: HashMap<From<'a>, Group>,
    /// Those with an affinity, and those that an affinity names.
    together: BTreeSet<Uuid>,
}

impl<'a> Ties<'a> {
    /// Those of live allocations; ended ones do not constrain any more.
    pub(super) fn of(rows: &'a [Row]) -> Self {
        let mut ties = Self::default();
        let mut by_label: HashMap<(Uuid, From<'a>), Vec<Uuid>> = HashMap::new();
        let live: BTreeSet<Uuid> = rows.iter().map(|row| row.id).collect();
        for row in rows {
            let Some(requested) = row.requested() else {
                continue;
            };
            for from in avoided(row, requested) {
                let group = ties.groups.entry(from).or_default();
                Arc::make_mut(&mut group.avoiders).insert(row.id);
                if let From::One(id) = from {
                    Arc::make_mut(&mut group.members).insert(id);
                }
            }
            if let Some(other) = requested.affinity.filter(|id| live.contains(id)) {
                ties.together.extend([row.id, other]);
            }
            if let Some((key, value)) = &requested.affinity_label {
                let label = From::Label(row.project_id, key, value);
                by_label
                    .entry((row.node_id, label))
                    .or_default()
                    .push(row.id);
            }
        }
        for row in rows {
            for label in labels(row) {
                if let Some(others) = by_label.get(&(row.node_id, label)) {
                    // those that are on its node because of its label
                    let others = others.iter().filter(|id| **id != row.id);
                    for other in others {
                        ties.together.extend([row.id, *other]);
                    }
                }
                if let Some(group) = ties.groups.get_mut(&label) {
                    Arc::make_mut(&mut group.members).insert(row.id);
                }
            }
        }
        ties
    }

    /// It is where it is because of another, or another is because of it.
    pub(super) fn bound(&self, row: &Row) -> bool {
        self.together.contains(&row.id)
    }

    /// Whom an allocation must not be on one node with.
    pub(super) fn anti_affinity(&self, row: &'a Row) -> AntiAffinity {
        let group = |from| self.groups.get(&from);
        let avoided = row
            .requested()
            .into_iter()
            .flat_map(|requested| avoided(row, requested));
        let named = std::iter::once(From::One(row.id)).chain(labels(row));
        AntiAffinity {
            from: avoided
                .filter_map(group)
                .map(|group| Arc::clone(&group.members))
                .collect(),
            by: named
                .filter_map(group)
                .map(|group| Arc::clone(&group.avoiders))
                .collect(),
        }
    }
}

fn avoided<'a>(row: &Row, requested: &'a Constraints) -> impl Iterator<Item = From<'a>> {
    let project = row.project_id;
    let label = requested.anti_affinity_label.as_ref();
    let label = label.map(|(key, value)| From::Label(project, key, value));
    requested
        .anti_affinity
        .iter()
        .copied()
        .map(From::One)
        .chain(label)
}

fn labels(row: &Row) -> impl Iterator<Item = From<'_>> {
    let label = |(key, value)| From::Label(row.project_id, key, value);
    row.labels
        .0
        .iter()
        .map(|(key, value): (&String, &String)| (key.as_str(), value.as_str()))
        .map(label)
}
