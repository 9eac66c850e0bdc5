//! Table and property tests of the lease rules; the properties run against the real journal.
mod any_order;
mod devices;
mod holds;
mod leases;

use std::time::Duration;

use gpuaas_proto::gpuaas::agent::v1 as pb;
use proptest::prelude::*;
use uuid::Uuid;

use super::*;
use crate::host::clock::BootMoment;
use crate::ids::OperationId;
use crate::journal::{Journal, Kind, NewOperation};

fn slot(n: u128) -> SlotId {
    SlotId(Uuid::from_u128(0x5107_0000 + n))
}

fn allocation(n: u128) -> AllocationId {
    AllocationId(Uuid::from_u128(0xa110_0000 + n))
}

fn token(generation: u64, workflow: u64) -> Token {
    Token {
        cell_epoch: 1,
        slot_generation: generation,
        workflow_epoch: workflow,
    }
}

fn at(nanos: u64) -> BootMoment {
    BootMoment {
        boot_id: "boot".into(),
        nanos,
    }
}

fn new_operation(id: u128, who: u128) -> NewOperation {
    NewOperation {
        id: OperationId(Uuid::from_u128(id)),
        kind: Kind::Release,
        allocation: allocation(who),
        request: Vec::new(),
        request_hash: String::new(),
        lease: None,
        lease_request: pb::AcquireLeaseRequest::default(),
        plan: pb::BundlePlan::default(),
        traceparent: String::new(),
        deadline: at(u64::MAX / 2),
        started_ms: 0,
        steps: Vec::new(),
    }
}

struct Host {
    journal: Journal,
    next: u128,
}

impl Host {
    /// A host that knows the first slots: their disks were wiped on it.
    fn new() -> Self {
        let journal = Journal::in_memory().unwrap();
        for n in 0..5 {
            journal.restore_fence(slot(n), token(0, 0)).unwrap();
        }
        Self { journal, next: 0 }
    }

    fn acquire(
        &mut self,
        who: u128,
        slots: &[(u128, Token)],
        purpose: Purpose,
        now: &BootMoment,
    ) -> Result<LeaseId, ErrorReason> {
        self.acquire_with(who, slots, &[], purpose, now)
    }

    /// The same, with devices of the slots.
    fn acquire_with(
        &mut self,
        who: u128,
        slots: &[(u128, Token)],
        devices: &[(u128, &str)],
        purpose: Purpose,
        now: &BootMoment,
    ) -> Result<LeaseId, ErrorReason> {
        self.acquire_replacing(who, slots, devices, &[], (purpose, now))
    }

    /// The same, with retired slots whose devices they are.
    fn acquire_replacing(
        &mut self,
        who: u128,
        slots: &[(u128, Token)],
        devices: &[(u128, &str)],
        replaced: &[(u128, u128)],
        (purpose, now): (Purpose, &BootMoment),
    ) -> Result<LeaseId, ErrorReason> {
        self.next += 1;
        let spec = LeaseSpec {
            allocation: allocation(who),
            slots: slots
                .iter()
                .map(|(n, t)| (slot(*n), *t))
                .collect::<Vec<_>>()
                .try_into()
                .unwrap(),
            devices: devices
                .iter()
                .map(|(n, device)| (slot(*n), (*device).to_owned()))
                .collect(),
            replaced: replaced
                .iter()
                .map(|(n, old)| (slot(*n), slot(*old)))
                .collect(),
            purpose,
        };
        let expires = now.plus(Duration::from_nanos(100));
        let id = LeaseId(Uuid::from_u128(self.next));
        self.journal
            .grant_lease(
                &spec,
                id,
                &expires,
                now,
                &pb::AcquireLeaseRequest::default(),
                &pb::BundlePlan::default(),
            )
            .unwrap()
            .map(|lease| lease.id)
            .map_err(|refusal| HostError::from(refusal).reason)
    }

    /// Ends the hold with proof, as a release that succeeded does.
    fn release(&mut self, who: u128, slots: &[u128]) {
        let holds = self.journal.holds().unwrap();
        let of = |n: &u128| holds.iter().find(|hold| hold.slot == slot(*n)).unwrap();
        let slots: Vec<_> = slots.iter().map(|n| (slot(*n), of(n).token)).collect();
        let id = self.begin_release(who);
        self.journal
            .succeed(id, &pb::HostOperation::default(), 1, &slots)
            .unwrap();
    }

    /// Begins a release.
    fn begin_release(&mut self, who: u128) -> OperationId {
        self.next += 1;
        let id = OperationId(Uuid::from_u128(self.next));
        self.journal
            .start_operation(&new_operation(self.next, who))
            .unwrap();
        id
    }
}
