//! What the reports of devices remember from one to the next.
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use gpuaas_proto::gpuaas::agent::v1 as pb;

use crate::disk::on_their_way::OnTheirWay;

/// What is remembered from one report to the next.
#[derive(Default)]
pub struct Observed {
    /// Last complete observation: what cannot be observed now is reported as it was.
    pub(super) last: Mutex<Option<pb::HostDevices>>,
    /// Content of each disk, and what had been written to it then.
    pub(super) contents: Mutex<BTreeMap<String, (String, Vec<String>)>>,
    pub(super) rules_missing_since: Mutex<Option<Instant>>,
    /// Disks that VMs gave back a moment ago.
    pub(crate) on_their_way: OnTheirWay,
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // every value is replaced as a whole
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
