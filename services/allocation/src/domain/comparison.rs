//! Ledger, host and hypervisor side by side: what follows for each allocation that one of the three knows. It judges by
//! what the reconciler finds, and changes nothing.
use std::collections::{BTreeMap, BTreeSet};

use gpuaas_proto::gpuaas::agent::v1::ListHoldsResponse;
use uuid::Uuid;

use super::names::allocation_of;
use super::residue::{Finding, Standing, compare, settled};

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

/// A verdict with its reason, for operators; empty where all agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Judged {
    pub verdict: Verdict,
    pub detail: &'static str,
}

/// What is to be removed, but is claimed on a host that was installed anew since.
pub const OF_REPLACED_HOST: Judged = Judged {
    verdict: Verdict::Report,
    detail: "it was claimed before the host was installed anew: repair its slots",
};

/// Judges every allocation that the ledger has something of, or the host, or its hypervisor. `before` and `after` are the
/// ledger around the inspection of the host: what moved meanwhile is being worked on.
#[must_use]
pub fn judge(
    before: &BTreeMap<Uuid, Standing>,
    after: &BTreeMap<Uuid, Standing>,
    host: &ListHoldsResponse,
) -> BTreeMap<Uuid, Judged> {
    let in_ledger = before.iter().chain(after);
    let in_ledger = in_ledger.filter(|(_, standing)| **standing != Standing::Over);
    let domains = host.domains.iter().map(|domain| &domain.name);
    let of_vms = domains.chain(&host.reservations);
    let holds = host.holds.iter();
    let all: BTreeSet<Uuid> = in_ledger
        .map(|(id, _)| *id)
        .chain(of_vms.filter_map(|name| allocation_of(name)))
        .chain(holds.filter_map(|hold| hold.allocation_id.parse().ok()))
        .collect();
    let findings = compare(before, after, host);
    let judged = |id: Uuid| {
        let standing = settled(before, after, id);
        let first = findings.iter().find(|one| one.allocation_id() == id);
        (id, of(standing, first))
    };
    all.into_iter().map(judged).collect()
}

fn of(standing: Standing, finding: Option<&Finding>) -> Judged {
    let is_held = standing == Standing::OverHeld;
    let (verdict, detail) = match finding {
        None if standing == Standing::Moving => (Verdict::Finish, "a workflow works on it"),
        None => (Verdict::Agrees, ""),
        Some(Finding::LeakedDomain(_)) if is_held => (
            Verdict::Undo,
            "it is over, and its VM is there: the VM is removed",
        ),
        Some(Finding::LeakedReservation(_)) if is_held => (
            Verdict::Undo,
            "it is over, and its address is reserved: the reservation is removed",
        ),
        Some(Finding::LeakedDomain(_)) => (
            Verdict::Report,
            "the ledger holds nothing for it, and its VM is there: repair its slots",
        ),
        Some(Finding::LeakedReservation(_)) => (
            Verdict::Report,
            "the ledger holds nothing for it, and its address is reserved: run runtime-prepare on the host",
        ),
        Some(Finding::LeakedHold(_)) => (
            Verdict::Report,
            "the ledger holds nothing for it, and the host holds slots for it: repair them",
        ),
        Some(Finding::MissingDomain(_)) => (
            Verdict::Report,
            "it is active, and the hypervisor has no VM of it: release it",
        ),
        Some(Finding::UnexpectedShutdown {
            with_host: true, ..
        }) => (
            Verdict::Finish,
            "its VM ended with the host: it is started again",
        ),
        Some(Finding::UnexpectedShutdown { .. }) => (
            Verdict::Adopt,
            "its VM shut itself down: it is recorded as stopped",
        ),
    };
    Judged { verdict, detail }
}

#[cfg(test)]
mod tests {
    use gpuaas_proto::gpuaas::agent::v1::{DomainState, Hold};

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
        let active = Standing::Active(VM);
        let ledger: BTreeMap<Uuid, Standing> = [
            (well, active),
            (moving, Standing::Moving),
            (off, active),
            (with_host, active),
            (missing, active),
            (held, Standing::OverHeld),
            (over, Standing::Over),
            (gone, Standing::Over),
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
            holds: vec![Hold {
                allocation_id: over.to_string(),
                ..Hold::default()
            }],
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
        // what moved while the host was asked is nobody's residue
        let before = [(well, active)].into();
        let after = [(well, Standing::OverHeld)].into();
        let moved = judge(&before, &after, &host);
        assert_eq!(moved[&well].verdict, Verdict::Finish);
    }
}
