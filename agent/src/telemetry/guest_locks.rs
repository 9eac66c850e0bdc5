//! The right to measure a VM, which one measurement at a time has.
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::ids::AllocationId;

/// The measurements that are under way, also those that nobody waits for any more.
#[derive(Default)]
pub struct GuestLocks(Mutex<HashMap<AllocationId, Weak<()>>>);

impl GuestLocks {
    /// The right to measure a VM, until it is dropped; none while somebody has it.
    pub fn take(&self, of: AllocationId) -> Option<Arc<()>> {
        let mut guest_locks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        guest_locks.retain(|_, turn| turn.strong_count() > 0);
        if guest_locks.contains_key(&of) {
            return None;
        }
        let turn = Arc::new(());
        guest_locks.insert(of, Arc::downgrade(&turn));
        Some(turn)
    }
}
