//! What is worked out once per equivalence class of nodes: a fleet of thousands has some hundreds of classes.
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use super::Rules;
use super::compiled_node::CompiledNode;

/// Results for the nodes of one fleet, while it does not change.
pub(super) struct EquivalenceClasses<'a, T> {
    rules: &'a Rules,
    all: Vec<T>,
    /// Place of the result by the address of what nodes have in common.
    places: HashMap<usize, usize, BuildHasherDefault<Address>>,
}

impl<'a, T> EquivalenceClasses<'a, T> {
    pub(super) fn new(rules: &'a Rules) -> Self {
        Self {
            rules,
            all: Vec::new(),
            places: HashMap::default(),
        }
    }

    /// The result for a node: what was worked out for its class, unless the rules name this very node.
    pub(super) fn of(
        &mut self,
        compiled: &CompiledNode,
        work_out: impl FnOnce(&CompiledNode) -> T,
    ) -> &mut T {
        let new = self.all.len();
        let place = if self.rules.name(compiled.id) {
            new
        } else {
            let address = Arc::as_ptr(compiled.state()).addr();
            *self.places.entry(address).or_insert(new)
        };
        if place == new {
            self.all.push(work_out(compiled));
        }
        &mut self.all[place]
    }

    /// Every result once.
    pub(super) fn into_all(self) -> Vec<T> {
        self.all
    }
}

/// Hashes addresses, which no caller can choose.
#[derive(Default)]
struct Address(u64);

impl Hasher for Address {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_usize(usize::from(*byte));
        }
    }

    fn write_usize(&mut self, address: usize) {
        // Fibonacci hashing; the upper half is the better one, and both are used
        let mixed = (self.0 ^ address as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ mixed >> 32;
    }
}
