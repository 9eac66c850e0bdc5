//! What a host has: read from its journal file, its hypervisor, its files and its disks.

use std::collections::{BTreeMap, BTreeSet};

use gpuaas_agent::host::clock::BootClock;
use gpuaas_agent::host::root::HostRoot;
use gpuaas_agent::ids::VM_PREFIX;
use gpuaas_agent::vm::{Hypervisor, PowerState};
use gpuaas_proto::gpuaas::agent::v1 as pb;
use prost::Message as _;
use rusqlite::{Connection, OpenFlags, Row};
use uuid::Uuid;

use super::{Host, lock};

/// An operation of the journal.
#[derive(Debug)]
pub struct Operation {
    pub kind: String,
    pub allocation: String,
    /// Names and states of the steps, in order.
    pub steps: Vec<(String, String)>,
}

impl Operation {
    pub fn is_at(&self, step: &str) -> bool {
        let mut steps = self.steps.iter();
        steps.any(|(name, state)| name == step && state == "running")
    }
}

#[derive(Debug, Default)]
pub struct State {
    /// Slot and allocation.
    pub holds: BTreeMap<String, String>,
    /// Slot and highest token: cell epoch, slot generation, workflow epoch.
    pub fences: BTreeMap<String, (u64, u64, u64)>,
    /// Leases that have not ended.
    pub leases: BTreeMap<String, pb::AcquireLeaseRequest>,
    /// Domains of allocations.
    pub domains: BTreeSet<String>,
    /// Those that do not run.
    pub off: BTreeSet<String>,
    /// VMs that an address is reserved for.
    pub reservations: BTreeSet<String>,
    /// Slots whose disk carries something.
    pub dirty: BTreeSet<String>,
    pub operations: BTreeMap<String, Operation>,
}

impl State {
    /// How many operations of a kind there were for an allocation.
    pub fn count_of(&self, kind: &str, allocation: Uuid) -> usize {
        let allocation = allocation.to_string();
        let operations = self.operations.values();
        operations
            .filter(|operation| operation.kind == kind && operation.allocation == allocation)
            .count()
    }

    /// How many operations of a kind there were.
    pub fn count(&self, kind: &str) -> usize {
        let operations = self.operations.values();
        operations
            .filter(|operation| operation.kind == kind)
            .count()
    }
}

impl Host {
    /// What there is now.
    pub async fn state(&self) -> State {
        let mut state = State::default();
        for domain in self.hypervisor.domains().await.expect("libvirt") {
            if domain.name.starts_with(VM_PREFIX) {
                if domain.state != PowerState::Running {
                    state.off.insert(domain.name.clone());
                }
                state.domains.insert(domain.name);
            }
        }
        for entry in std::fs::read_dir(self.path("dhcp")).expect("a folder") {
            let name = entry.expect("an entry").file_name();
            let name = name.to_string_lossy();
            let vm = name.strip_prefix("gpuaas-");
            let vm = vm.and_then(|rest| rest.strip_suffix(".conf"));
            state.reservations.extend(vm.map(str::to_owned));
        }
        for (disk, slot) in self.disks.iter().zip(lock(&self.slots).iter()) {
            if disk.is_dirty() {
                state.dirty.insert(slot.to_string());
            }
        }
        let journal = self.path("state/journal.sqlite");
        let journal = Connection::open_with_flags(journal, OpenFlags::SQLITE_OPEN_READ_WRITE);
        self.read(&journal.expect("a journal"), &mut state);
        state
    }

    /// The request that launched a VM, as the journal has it; an empty one of a VM that is gone.
    pub fn launch_of(&self, allocation: Uuid) -> pb::ProvisionRequest {
        let journal = Connection::open(self.path("state/journal.sqlite")).expect("a journal");
        let sql = "SELECT request FROM operations WHERE kind = 'provision' AND allocation_id = ?1";
        let request: Vec<u8> = journal
            .query_row(sql, [allocation.to_string()], |row| row.get(0))
            .expect("a launch");
        pb::ProvisionRequest::decode(request.as_slice()).expect("a request")
    }

    pub(super) async fn own_domains(&self) -> Vec<String> {
        own_domains(&self.hypervisor).await
    }

    fn read(&self, journal: &Connection, state: &mut State) {
        let clock = BootClock::new(&HostRoot::new(self.path("root"))).expect("a boot id");
        let text = |row: &Row<'_>, at| row.get::<_, String>(at).expect("text");
        let number = |row: &Row<'_>, at| {
            let stored: i64 = row.get(at).expect("a number");
            stored.unsigned_abs()
        };
        each(journal, "SELECT slot_id, allocation_id FROM holds", |row| {
            state.holds.insert(text(row, 0), text(row, 1));
        });
        each(
            journal,
            "SELECT slot_id, cell_epoch, slot_generation, workflow_epoch FROM fences",
            |row| {
                let token = (number(row, 1), number(row, 2), number(row, 3));
                state.fences.insert(text(row, 0), token);
            },
        );
        let now = clock.now();
        each(
            journal,
            "SELECT lease_id, request, boot_id, expires_nanos FROM leases",
            |row| {
                if text(row, 2) == now.boot_id && number(row, 3) > now.nanos {
                    let request: Vec<u8> = row.get(1).expect("bytes");
                    let request = pb::AcquireLeaseRequest::decode(request.as_slice());
                    state
                        .leases
                        .insert(text(row, 0), request.expect("a request"));
                }
            },
        );
        each(
            journal,
            "SELECT operation_id, kind, allocation_id FROM operations",
            |row| {
                let operation = Operation {
                    kind: text(row, 1),
                    allocation: text(row, 2),
                    steps: Vec::new(),
                };
                state.operations.insert(text(row, 0), operation);
            },
        );
        each(
            journal,
            "SELECT operation_id, name, state FROM steps ORDER BY position",
            |row| {
                let operation = state.operations.get_mut(&text(row, 0));
                let step = (text(row, 1), text(row, 2));
                // an operation that began since the list was read is in the next one
                operation
                    .into_iter()
                    .for_each(|it| it.steps.push(step.clone()));
            },
        );
    }
}

/// Domains of allocations, running or not.
pub async fn own_domains(hypervisor: &Hypervisor) -> Vec<String> {
    let domains = hypervisor.domains().await.expect("libvirt").into_iter();
    let names = domains.map(|domain| domain.name);
    names.filter(|name| name.starts_with(VM_PREFIX)).collect()
}

fn each(journal: &Connection, sql: &str, mut see: impl FnMut(&Row<'_>)) {
    let mut statement = journal.prepare(sql).expect("a statement");
    let mut rows = statement.query([]).expect("rows");
    while let Some(row) = rows.next().expect("a row") {
        see(row);
    }
}
