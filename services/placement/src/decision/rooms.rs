//! Where there is room: the nodes to look at first, found without looking at the others.
use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;

use super::board::Board;
use crate::model::SlotClass;

/// Nodes of one kind that are looked at.
const OF_A_KIND: usize = 4;
/// Nodes with so many slots that are reserved for who asks that are looked at.
const RESERVED: usize = 8;

/// Nodes by what they have to offer. Those of one kind lie in an order that has nothing to do with age or name, so that
/// requests of one moment, each of which begins at a place of its own, look at different ones.
#[derive(Debug, Clone, Default)]
pub(super) struct Rooms {
    open: BTreeMap<Kind, Ring>,
    reserved: BTreeMap<Own, Ring>,
}

/// Class, whether nobody has anything of the node, and how many slots are free for everybody.
type Kind = (SlotClass, bool, u32);
/// Project, class, and how many free slots only this project may have.
type Own = (Uuid, SlotClass, u32);
type Ring = BTreeSet<(u32, Uuid)>;

/// Where a node lies in its ring.
fn place(id: Uuid) -> u32 {
    let (high, low) = id.as_u64_pair();
    // the bits of any id are spread over all places: Fibonacci hashing
    ((high ^ low).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
}

/// The first of a ring from a place on.
fn from(ring: &Ring, at: u32, most: usize) -> impl Iterator<Item = Uuid> {
    let begin = (at, Uuid::nil());
    let ring = ring.range(begin..).chain(ring.range(..begin));
    ring.take(most).map(|(_, id)| *id)
}

impl Rooms {
    pub(super) fn add(&mut self, board: &Board) {
        let node = (place(board.id), board.id);
        for kind in board.rooms() {
            self.open.entry(kind).or_default().insert(node);
        }
        for of in board.reserved_rooms() {
            self.reserved.entry(of).or_default().insert(node);
        }
    }

    pub(super) fn remove(&mut self, board: &Board) {
        let node = (place(board.id), board.id);
        for kind in board.rooms() {
            take(&mut self.open, &kind, node);
        }
        for of in board.reserved_rooms() {
            take(&mut self.reserved, &of, node);
        }
    }

    /// The most slots of a class that are free on one node.
    pub(super) fn most_free(&self, class: SlotClass) -> u32 {
        let most = |clean| {
            let kinds = self
                .open
                .range((class, clean, 0)..=(class, clean, u32::MAX));
            kinds.last().map_or(0, |((_, _, free), _)| *free)
        };
        most(false).max(most(true))
    }

    /// A few nodes with so many free slots of a class or more: of each number some that are in use and some that are not;
    /// and some with slots that are reserved for the project. Their number does not grow with the fleet.
    pub(super) fn likely(
        &self,
        class: SlotClass,
        count: u32,
        project_id: Option<Uuid>,
        at: u32,
    ) -> BTreeSet<Uuid> {
        let mut found = BTreeSet::new();
        for clean in [false, true] {
            let kinds = (class, clean, count.max(1))..=(class, clean, u32::MAX);
            for (_, ring) in self.open.range(kinds) {
                found.extend(from(ring, at, OF_A_KIND));
            }
        }
        if let Some(id) = project_id {
            let own = (id, class, count.max(1))..=(id, class, u32::MAX);
            for (_, ring) in self.reserved.range(own) {
                found.extend(from(ring, at, RESERVED));
            }
        }
        found
    }
}

fn take<K: Ord>(rings: &mut BTreeMap<K, Ring>, of: &K, node: (u32, Uuid)) {
    if let Some(ring) = rings.get_mut(of) {
        ring.remove(&node);
        if ring.is_empty() {
            rings.remove(of);
        }
    }
}
