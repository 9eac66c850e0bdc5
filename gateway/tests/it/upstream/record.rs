//! What the service saw, and what the test says of what runs.
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gpuaas_common::identity::Caller;
use gpuaas_common::origin::Origin;
use gpuaas_dev::until::until_ok;
use tokio::sync::{Notify, watch};

/// A stream that takes nothing for so long while there is more to send is held up.
pub(super) const HELD_UP: Duration = Duration::from_millis(300);

/// One call as the service saw it.
#[derive(Clone, Debug)]
pub struct RecordedCall {
    pub rpc: &'static str,
    pub caller: Caller,
    pub traceparent: String,
    pub has_deadline: bool,
    pub origin: Arc<Origin>,
    pub message: String,
}

/// What the service saw, for the test.
#[derive(Clone, Debug, Default)]
pub struct Record {
    pub(super) calls: Arc<Mutex<Vec<RecordedCall>>>,
    pub(super) open: Arc<AtomicUsize>,
    pub(super) sent: Arc<AtomicUsize>,
    pub(super) held_up: Arc<AtomicBool>,
    running: Arc<Mutex<Running>>,
    pub(super) console: Arc<watch::Sender<Console>>,
    /// There is no allocation any more.
    pub(super) lost: Arc<AtomicBool>,
    /// Lists of allocations until one is held.
    lists: Arc<AtomicUsize>,
    /// What calls named "held", and a list that is held, wait for.
    pub release: Arc<Notify>,
}

/// The serial console of every VM.
#[derive(Debug, Default)]
pub(super) struct Console {
    pub(super) printed: Vec<u8>,
    pub(super) is_gone: bool,
}

/// What runs, as the services tell it.
#[derive(Debug, Default)]
struct Running {
    /// Project of every allocation.
    project: String,
    allocations: Vec<String>,
    reservations: Vec<String>,
    /// Begins after the next list of allocations.
    later: Vec<String>,
}

impl Record {
    /// Allocations are of this project from now on.
    pub fn owned_by(&self, project: &str) {
        project.clone_into(&mut self.running.lock().expect("lock").project);
    }

    /// Allocations and capacity reservations of these names run.
    pub fn runs(&self, allocations: &[&str], reservations: &[&str]) {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let mut running = self.running.lock().expect("lock");
        running.allocations = names(allocations);
        running.reservations = names(reservations);
        running.later.clear();
    }

    /// Nothing runs until allocations are listed once; then these do.
    pub fn runs_later(&self, allocations: &[&str]) {
        self.runs(&[], &[]);
        let later = allocations.iter().map(|name| (*name).to_owned());
        self.running.lock().expect("lock").later = later.collect();
    }

    /// No allocation is found from now on.
    pub fn lose_allocations(&self) {
        self.lost.store(true, Ordering::SeqCst);
    }

    /// VMs print this on their serial consoles.
    pub fn print(&self, bytes: &[u8]) {
        self.console
            .send_modify(|console| console.printed.extend(bytes));
    }

    /// VMs go.
    pub fn end_vms(&self) {
        self.console.send_modify(|console| console.is_gone = true);
    }

    /// The list of allocations of this number, from now on, waits to be released and then tells what runs by then.
    pub fn hold_list(&self, number: usize) {
        self.lists.store(number, Ordering::SeqCst);
    }

    pub(super) fn is_held(&self) -> bool {
        let next = |left: usize| left.checked_sub(1);
        let before = self
            .lists
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, next);
        before == Ok(1)
    }

    /// Names of the capacity reservations that run.
    pub fn reservations(&self) -> Vec<String> {
        self.running.lock().expect("lock").reservations.clone()
    }

    pub(super) fn project(&self) -> String {
        self.running.lock().expect("lock").project.clone()
    }

    /// Names of the allocations that run.
    pub(super) fn allocations(&self) -> Vec<String> {
        let mut running = self.running.lock().expect("lock");
        let listed = running.allocations.clone();
        let later = std::mem::take(&mut running.later);
        running.allocations.extend(later);
        listed
    }

    pub fn all(&self) -> Vec<RecordedCall> {
        self.calls.lock().expect("lock").clone()
    }

    /// Streams that are open.
    pub fn open(&self) -> usize {
        self.open.load(Ordering::SeqCst)
    }

    /// Returns when so many streams are open.
    pub async fn until_open(&self, expected: usize) {
        until_ok("streams", Duration::from_secs(20), async || {
            let open = self.open();
            match open == expected {
                true => Ok(()),
                false => Err(format!("{open} are open")),
            }
        })
        .await;
    }

    /// Messages of streams that were handed over to be sent.
    pub fn sent(&self) -> usize {
        self.sent.load(Ordering::SeqCst)
    }

    /// Some stream was held up: everything between the service and its reader is full.
    pub fn held_up(&self) -> bool {
        self.held_up.load(Ordering::SeqCst)
    }

    pub fn clear(&self) {
        self.calls.lock().expect("lock").clear();
    }
}
