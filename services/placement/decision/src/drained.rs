//! Where a request would fit once the node is drained: which nodes a backfill reservation may take.
use std::cmp::Reverse;

use uuid::Uuid;

use super::compiled_node::CompiledNode;
use super::{Fleet, Request, Rules};
use crate::model::SlotClass;

impl Fleet {
    /// The nodes on which a request may fit once they are drained, those with most free slots first. On no other node
    /// would it; whether it does on one of these is decided by [`super::decide_by`] on the node as it is then.
    #[must_use]
    pub fn fits_when_drained(&self, rules: &Rules, request: &Request) -> Vec<Uuid> {
        let compiled_nodes = self.compiled_nodes.iter();
        let mut could: Vec<&CompiledNode> = compiled_nodes
            .filter(|compiled| compiled.could_take(rules, request))
            .collect();
        could.sort_by_key(|compiled| (Reverse(compiled.free_for_all()), compiled.id));
        could.into_iter().map(|compiled| compiled.id).collect()
    }
}

impl CompiledNode {
    /// Slots of every class that everybody may have.
    fn free_for_all(&self) -> u32 {
        let free = |class: &SlotClass| self.usable(*class).count_ones();
        SlotClass::ALL.iter().map(free).sum()
    }
}
