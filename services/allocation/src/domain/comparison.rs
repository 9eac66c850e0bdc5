//! Ledger, host and hypervisor side by side: what follows for each allocation that one of the three knows. It judges by
//! what the reconciler finds, and changes nothing.
use std::collections::{BTreeMap, BTreeSet};

use gpuaas_proto::gpuaas::agent::v1::ListHoldsResponse;
use uuid::Uuid;

use super::discrepancy::Discrepancy;
use super::names::{allocation_of, port_name};
use super::residue::{LedgerState, compare, state_of};

/// What follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing: all three have the same.
    Agrees,
    /// The ledger takes over what is there.
    Adopt,
    /// A workflow brings it to its end, or is about to.
    Finish,
    /// What is there is removed.
    Undo,
    /// The platform leaves it alone: an operator decides.
    Report,
}

/// What an operator can have done about a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Correction {
    /// The ledger records what is there.
    Adopt,
    /// It is brought to what the ledger has.
    Finish,
    /// What the ledger still holds for it lets its host remove the VM and its files.
    CleanUp,
    /// Nobody holds anything for it: its host removes its files, when it has proven so itself.
    RemoveLeftovers,
    /// It is noted that an operator has seen it.
    Report,
}

impl Correction {
    /// Name in the audit trail.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Adopt => "adopt",
            Self::Finish => "finish",
            Self::CleanUp | Self::RemoveLeftovers => "undo",
            Self::Report => "report",
        }
    }
}

/// A verdict with its reason, for operators; empty where all agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Judged {
    pub verdict: Verdict,
    pub detail: &'static str,
    /// None: there is nothing for an operator to do.
    pub correction: Option<Correction>,
    /// What it was judged by.
    pub discrepancy: Option<Discrepancy>,
}

/// What is to be removed, but is claimed on a host that was installed anew since.
pub const OF_REPLACED_HOST: Judged = Judged {
    verdict: Verdict::Report,
    detail: "it was claimed before the host was installed anew: repair its slots",
    correction: Some(Correction::Report),
    discrepancy: None,
};

/// Judges every allocation that the ledger has something of, or the host, or its hypervisor. `before` and `after` are the
/// ledger around the inspection of the host: what moved meanwhile is being worked on.
#[must_use]
pub fn judge(
    before: &BTreeMap<Uuid, LedgerState>,
    after: &BTreeMap<Uuid, LedgerState>,
    host: &ListHoldsResponse,
) -> BTreeMap<Uuid, Judged> {
    let in_ledger = before.iter().chain(after);
    let in_ledger = in_ledger.filter(|(id, state)| {
        **state != LedgerState::Over || host.ports.contains(&port_name(**id))
    });
    let domains = host.domains.iter().map(|domain| &domain.name);
    let files = host.seeds.iter().chain(&host.nvram).chain(&host.partitions);
    let of_vms = domains.chain(&host.reservations).chain(files);
    let held = || {
        let holds = host.holds.iter();
        holds.filter_map(|hold| hold.allocation_id.parse::<Uuid>().ok())
    };
    let all: BTreeSet<Uuid> = in_ledger
        .map(|(id, _)| *id)
        .chain(of_vms.filter_map(|name| allocation_of(name)))
        .chain(held())
        .collect();
    let discrepancies = compare(before, after, host);
    let judged = |id: Uuid| {
        let state = state_of(before, after, id);
        let first = discrepancies.iter().find(|one| one.allocation_id() == id);
        let has_domain = host
            .domains
            .iter()
            .any(|domain| allocation_of(&domain.name) == Some(id));
        let is_bare = !has_domain && !held().any(|held| held == id);
        (id, of(state, first.copied(), is_bare))
    };
    all.into_iter().map(judged).collect()
}

/// `is_bare`: the host holds no slot for it, and its hypervisor has no VM of it.
fn of(state: LedgerState, discrepancy: Option<Discrepancy>, is_bare: bool) -> Judged {
    let is_held = state == LedgerState::OverHeld;
    let undo = |detail| (Verdict::Undo, detail, Some(Correction::CleanUp));
    let report = |detail| (Verdict::Report, detail, Some(Correction::Report));
    // files alone are removed at an operator's word, when nobody holds anything for it
    let leftover = |removed, held| match is_bare {
        true => (Verdict::Report, removed, Some(Correction::RemoveLeftovers)),
        false => report(held),
    };
    let (verdict, detail, correction) = match discrepancy {
        None if state == LedgerState::Moving => (Verdict::Finish, "a workflow works on it", None),
        None => (Verdict::Agrees, "", None),
        Some(Discrepancy::LeakedDomain(_)) if is_held => {
            undo("it is over, and its VM is there: the VM is removed")
        }
        Some(Discrepancy::LeakedReservation(_)) if is_held => {
            undo("it is over, and its address is reserved: the reservation is removed")
        }
        Some(Discrepancy::LeakedSeed(_)) if is_held => {
            undo("it is over, and its seed is there: the seed is removed")
        }
        Some(Discrepancy::LeakedNvram(_)) if is_held => {
            undo("it is over, and its NVRAM is there: the NVRAM is removed")
        }
        Some(Discrepancy::LeakedPort(_)) if is_held => {
            undo("it is over, and its port is on the bridge: the port is removed")
        }
        Some(Discrepancy::LeakedPartition(_)) if is_held => {
            undo("it is over, and its partition of GPUs is connected: the partition is taken apart")
        }
        Some(Discrepancy::LeakedPort(_)) => leftover(
            "the ledger holds nothing for it, and its port is on the bridge: the correction removes the port",
            "the ledger holds nothing for it, and its port and more is on the host: repair its slots",
        ),
        Some(Discrepancy::LeakedPartition(_)) => report(
            "the ledger holds nothing for it, and its partition of GPUs is connected: see the runbook of GPU partitions",
        ),
        Some(Discrepancy::LeakedDomain(_)) => {
            report("the ledger holds nothing for it, and its VM is there: repair its slots")
        }
        Some(Discrepancy::LeakedReservation(_)) => leftover(
            "the ledger holds nothing for it, and its address is reserved: the correction removes the reservation",
            "the ledger holds nothing for it, and its address is reserved and slots are held on the host: repair them",
        ),
        Some(Discrepancy::LeakedSeed(_)) => leftover(
            "the ledger holds nothing for it, and its seed is there: the correction removes the seed",
            "the ledger holds nothing for it, and its seed and more is on the host: repair its slots",
        ),
        Some(Discrepancy::LeakedNvram(_)) => leftover(
            "the ledger holds nothing for it, and its NVRAM is there: the correction removes the NVRAM",
            "the ledger holds nothing for it, and its NVRAM and more is on the host: repair its slots",
        ),
        Some(Discrepancy::LeakedHold(_)) => {
            report("the ledger holds nothing for it, and the host holds slots for it: repair them")
        }
        Some(Discrepancy::MissingDomain(_)) => {
            report("it is active, and the hypervisor has no VM of it: release it")
        }
        Some(Discrepancy::MissingHold(_)) => report(
            "it is active, and its host does not hold its slots: drain the node, and ask its owner to launch it anew elsewhere",
        ),
        Some(Discrepancy::MissingReservation(_)) => report(
            "it is active, and its address is not reserved on its host, whose rules let no VM without one use the network: stop and start it, which reserves the address again",
        ),
        Some(Discrepancy::KeptSeed(_)) => report(
            "it is active, and its seed with the private host key is still there: stop and start it, which removes the seed",
        ),
        Some(Discrepancy::MissingFiles(_)) => report(
            "it is active, and its VM names a seed or NVRAM that is not there: stop and start it, which makes the VM anew on its disk",
        ),
        Some(Discrepancy::UnresponsiveGuest(_)) => report(
            "it is active and its VM runs, and its guest has not answered its host for some time: see its serial log, and ask its owner before a reboot",
        ),
        Some(Discrepancy::GuestGpusFailed(_)) => report(
            "it is active and its VM runs, and nvidia-smi fails in its guest: see the slot's health and the findings of its node, and ask its owner",
        ),
        Some(Discrepancy::UnexpectedShutdown {
            with_host: true, ..
        }) => (
            Verdict::Finish,
            "its VM ended with the host: it is started again",
            Some(Correction::Finish),
        ),
        Some(Discrepancy::UnexpectedShutdown { .. }) => (
            Verdict::Adopt,
            "its VM shut itself down: it is recorded as stopped",
            Some(Correction::Adopt),
        ),
    };
    Judged {
        verdict,
        detail,
        correction,
        discrepancy,
    }
}

#[cfg(test)]
mod tests {
    use gpuaas_proto::gpuaas::agent::v1::{DomainState, Hold};
    use gpuaas_proto::gpuaas::common::v1::GuestMetricsState;

    use super::*;
    use crate::domain::names::vm_name;
    use crate::domain::residue::Vm;

    const VM: Vm = Vm {
        running: true,
        boot_id: None,
    };

    fn domain(id: Uuid, state: &str, host_restarted: bool) -> DomainState {
        DomainState {
            name: vm_name(id),
            state: state.into(),
            left_state: "running".into(),
            host_restarted,
            ..DomainState::default()
        }
    }

    fn hold(id: Uuid) -> Hold {
        Hold {
            allocation_id: id.to_string(),
            ..Hold::default()
        }
    }

    #[test]
    fn p5_every_row_has_a_verdict_and_only_what_is_provably_over_is_undone() {
        let [
            well,
            moving,
            off,
            with_host,
            missing,
            held,
            over,
            unknown,
            gone,
        ] = [1, 2, 3, 4, 5, 6, 7, 8, 9].map(Uuid::from_u128);
        let active = LedgerState::Active(VM);
        let ledger: BTreeMap<Uuid, LedgerState> = [
            (well, active),
            (moving, LedgerState::Moving),
            (off, active),
            (with_host, active),
            (missing, active),
            (held, LedgerState::OverHeld),
            (over, LedgerState::Over),
            (gone, LedgerState::Over),
        ]
        .into();
        let host = ListHoldsResponse {
            domains: vec![
                domain(well, "running", false),
                domain(off, "shut off", false),
                domain(with_host, "shut off", true),
                domain(held, "running", false),
                domain(unknown, "running", false),
            ],
            holds: vec![hold(over), hold(well)],
            reservations: vec![vm_name(well)],
            ..ListHoldsResponse::default()
        };
        let judged = judge(&ledger, &ledger, &host);
        let verdicts: Vec<_> = judged.iter().map(|(id, one)| (*id, one.verdict)).collect();
        assert_eq!(
            verdicts,
            [
                (well, Verdict::Agrees),
                (moving, Verdict::Finish),
                (off, Verdict::Adopt),
                (with_host, Verdict::Finish),
                (missing, Verdict::Report),
                (held, Verdict::Undo),
                (over, Verdict::Report),
                (unknown, Verdict::Report),
            ],
            "what is over and has left nothing has no row"
        );
        for (id, one) in &judged {
            assert_eq!(one.detail.is_empty(), *id == well, "{one:?}");
        }
        let corrections: Vec<_> = judged.values().map(|one| one.correction).collect();
        assert_eq!(
            corrections,
            [
                None,
                None,
                Some(Correction::Adopt),
                Some(Correction::Finish),
                Some(Correction::Report),
                Some(Correction::CleanUp),
                Some(Correction::Report),
                Some(Correction::Report),
            ]
        );
        // D-80: a guest that does not answer is reported to an operator, and nothing is done to it
        let mut unresponsive = host.clone();
        unresponsive.domains[0].set_guest_state(GuestMetricsState::NoLogin);
        unresponsive.domains[0].guest_unwell_queries = 9;
        let of_unresponsive = judge(&ledger, &ledger, &unresponsive)[&well];
        assert_eq!(
            (
                of_unresponsive.verdict,
                of_unresponsive.correction,
                of_unresponsive.discrepancy
            ),
            (
                Verdict::Report,
                Some(Correction::Report),
                Some(Discrepancy::UnresponsiveGuest(well))
            )
        );
        // of what an active VM has lost, too
        for (change, discrepancy) in [
            (
                ListHoldsResponse {
                    holds: vec![],
                    ..host.clone()
                },
                Discrepancy::MissingHold(well),
            ),
            (
                ListHoldsResponse {
                    reservations: vec![],
                    ..host.clone()
                },
                Discrepancy::MissingReservation(well),
            ),
        ] {
            let of_lost = judge(&ledger, &ledger, &change)[&well];
            assert_eq!(
                (of_lost.verdict, of_lost.discrepancy),
                (Verdict::Report, Some(discrepancy))
            );
        }
        // what moved while the host was read is nobody's residue
        let before = [(well, active)].into();
        let after = [(well, LedgerState::OverHeld)].into();
        let moved = judge(&before, &after, &host);
        assert_eq!(moved[&well].verdict, Verdict::Finish);
    }

    /// D-72
    #[test]
    fn p5_seeds_and_nvram_are_rows_and_removed_by_a_correction_only_where_nothing_else_is_held() {
        let [held, over, unknown, claimed, kept, moving] = [1, 2, 3, 4, 5, 6].map(Uuid::from_u128);
        let ledger: BTreeMap<Uuid, LedgerState> = [
            (held, LedgerState::OverHeld),
            (over, LedgerState::Over),
            (claimed, LedgerState::Over),
            (kept, LedgerState::Active(VM)),
            (moving, LedgerState::Moving),
        ]
        .into();
        let names = |ids: &[Uuid]| -> Vec<String> { ids.iter().map(|id| vm_name(*id)).collect() };
        let host = ListHoldsResponse {
            domains: vec![domain(kept, "running", false)],
            holds: vec![hold(claimed), hold(kept)],
            reservations: vec![vm_name(kept)],
            seeds: names(&[held, over, kept, moving]),
            nvram: names(&[unknown, claimed, kept]),
            ..ListHoldsResponse::default()
        };
        let judged = judge(&ledger, &ledger, &host);
        let found = |id| (judged[&id].verdict, judged[&id].correction);
        assert_eq!(found(held), (Verdict::Undo, Some(Correction::CleanUp)));
        let leftover = (Verdict::Report, Some(Correction::RemoveLeftovers));
        assert_eq!([found(over), found(unknown)], [leftover, leftover]);
        // the host holds a slot for it: its files go with the repair of the slot
        assert_eq!(found(claimed), (Verdict::Report, Some(Correction::Report)));
        assert_eq!(found(kept), (Verdict::Report, Some(Correction::Report)));
        assert_eq!(found(moving), (Verdict::Finish, None));
        // a VM that is there is no leftover either
        let with_vm = ListHoldsResponse {
            domains: vec![domain(unknown, "shut off", false)],
            ..host
        };
        let judged = judge(&ledger, &ledger, &with_vm);
        assert_eq!(judged[&unknown].correction, Some(Correction::Report));
    }
}
