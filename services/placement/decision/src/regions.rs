//! The fleets of all regions, brought up to date node by node.
use std::collections::{HashMap, HashSet};
use std::ops::Deref;
use std::sync::Arc;

use uuid::Uuid;

use crate::{CandidateNode, Fleet};

/// The fleets by region code. A clone shares every fleet until one of the two changes it.
#[derive(Debug, Default, Clone)]
pub struct Regions {
    fleets: HashMap<String, Arc<Fleet>>,
    /// Changes only when a node comes, goes or moves: clones share it.
    region_of: Arc<HashMap<Uuid, String>>,
}

impl Regions {
    /// Replaces the nodes with these ids by `nodes`, each with its region; an id without a node is one that
    /// is gone.
    pub fn replace(&mut self, ids: Vec<Uuid>, nodes: Vec<(String, CandidateNode)>) {
        let mut gone: HashSet<Uuid> = ids.into_iter().collect();
        for (region_code, node) in nodes {
            gone.remove(&node.id);
            if self.region_of.get(&node.id) != Some(&region_code) {
                self.remove(node.id);
                Arc::make_mut(&mut self.region_of).insert(node.id, region_code.clone());
            }
            Arc::make_mut(self.fleets.entry(region_code).or_default()).put(&node);
        }
        gone.into_iter().for_each(|id| self.remove(id));
    }

    /// The fleet of a region, shared; empty where no node of the region is known.
    #[must_use]
    pub fn fleet(&self, region_code: &str) -> Arc<Fleet> {
        self.fleets
            .get(region_code)
            .map(Arc::clone)
            .unwrap_or_default()
    }

    fn remove(&mut self, id: Uuid) {
        if !self.region_of.contains_key(&id) {
            return;
        }
        let region_code = Arc::make_mut(&mut self.region_of).remove(&id);
        if let Some(fleet) = region_code.and_then(|code| self.fleets.get_mut(&code)) {
            Arc::make_mut(fleet).remove(id);
        }
    }
}

/// Read by region code.
impl Deref for Regions {
    type Target = HashMap<String, Arc<Fleet>>;

    fn deref(&self) -> &Self::Target {
        &self.fleets
    }
}
