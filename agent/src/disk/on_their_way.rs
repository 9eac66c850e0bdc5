//! Disks that VMs gave back a moment ago: their controllers are with no VM, and their disks are not there yet.
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::ids::PciAddress;

/// Since when controllers that were given are with no VM, while their disks are not there yet.
#[derive(Debug, Default)]
pub struct OnTheirWay(Mutex<BTreeMap<PciAddress, Instant>>);

impl OnTheirWay {
    /// Since when a controller is on its way; `now` for one that was not yet.
    pub(super) fn since(&self, controller: &PciAddress, now: Instant) -> Instant {
        *self.controllers().entry(controller.clone()).or_insert(now)
    }

    /// A VM has it.
    pub(super) fn arrived(&self, controller: &PciAddress) {
        self.controllers().remove(controller);
    }

    fn controllers(&self) -> MutexGuard<'_, BTreeMap<PciAddress, Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
