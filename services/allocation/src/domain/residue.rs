//! Comparing ledger, host and hypervisor: what is there that should not be, and the other way round.

use std::collections::{BTreeMap, BTreeSet};

use gpuaas_proto::gpuaas::agent::v1::{DomainState, ListHoldsResponse};
use uuid::Uuid;

use super::names::allocation_of;

/// The VM of an active allocation, as the ledger knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Vm {
    /// Its power is `running`.
    pub running: bool,
    /// The guest's boot that was last proven.
    pub boot_id: Option<Uuid>,
}

/// The ledger's state of an allocation on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Active: it must have a domain.
    Active(Vm),
    /// A workflow is running for it, or about to.
    Moving,
    /// Over, with slots that wait for a repair.
    OverHeld,
    /// Over, and nothing is held for it.
    Over,
}

/// One difference.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Finding {
    /// A domain of an allocation that is over.
    LeakedDomain(Uuid),
    /// A DHCP reservation of an allocation that is over.
    LeakedReservation(Uuid),
    /// A hold of an allocation for which the ledger holds nothing.
    LeakedHold(Uuid),
    /// An active allocation without a domain.
    MissingDomain(Uuid),
    /// A VM that ought to run and is shut off.
    UnexpectedShutdown {
        /// The allocation.
        id: Uuid,
        /// The boot that ended.
        boot_id: Option<Uuid>,
        /// The host was restarted; otherwise the guest shut itself down.
        with_host: bool,
    },
}

impl Finding {
    /// Name of the kind, for metric and log.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::LeakedDomain(_) => "leaked_domain",
            Self::LeakedReservation(_) => "leaked_reservation",
            Self::LeakedHold(_) => "leaked_hold",
            Self::MissingDomain(_) => "missing_domain",
            Self::UnexpectedShutdown { .. } => "unexpected_shutdown",
        }
    }

    /// The allocation.
    #[must_use]
    pub fn allocation_id(&self) -> Uuid {
        match self {
            Self::LeakedDomain(id)
            | Self::LeakedReservation(id)
            | Self::LeakedHold(id)
            | Self::MissingDomain(id)
            | Self::UnexpectedShutdown { id, .. } => *id,
        }
    }
}

/// All kinds, so that a metric shows zero too.
pub const KINDS: [&str; 5] = [
    "leaked_domain",
    "leaked_reservation",
    "leaked_hold",
    "missing_domain",
    "unexpected_shutdown",
];

/// States of a domain in a host's report.
const ON: &str = "running";
const OFF: &str = "shut off";

/// What the ledger says of an allocation before and after the inspection of its host: one that moved meanwhile is moving.
#[must_use]
pub fn settled(
    before: &BTreeMap<Uuid, Standing>,
    after: &BTreeMap<Uuid, Standing>,
    id: Uuid,
) -> Standing {
    // an id the ledger has never heard of on this node is as good as over
    let (was, is) = (before.get(&id).copied(), after.get(&id).copied());
    match (was.unwrap_or(Standing::Over), is.unwrap_or(Standing::Over)) {
        (was, is) if was == is => is,
        _ => Standing::Moving,
    }
}

/// Compares the ledger before and after the inspection of the host; what moved meanwhile is no finding.
#[must_use]
pub fn compare(
    before: &BTreeMap<Uuid, Standing>,
    after: &BTreeMap<Uuid, Standing>,
    host: &ListHoldsResponse,
) -> Vec<Finding> {
    let standing = |id: Uuid| settled(before, after, id);
    let over = |id: &Uuid| matches!(standing(*id), Standing::Over | Standing::OverHeld);
    let domains: BTreeMap<Uuid, &DomainState> = host
        .domains
        .iter()
        .filter_map(|domain| Some((allocation_of(&domain.name)?, domain)))
        .collect();
    let reservations: BTreeSet<Uuid> = host
        .reservations
        .iter()
        .filter_map(|name| allocation_of(name))
        .collect();
    let holds: BTreeSet<Uuid> = host
        .holds
        .iter()
        .filter_map(|hold| hold.allocation_id.parse().ok())
        .collect();

    let mut findings: Vec<Finding> = domains
        .keys()
        .copied()
        .filter(over)
        .map(Finding::LeakedDomain)
        .collect();
    findings.extend(
        reservations
            .into_iter()
            .filter(over)
            .map(Finding::LeakedReservation),
    );
    findings.extend(
        holds
            .into_iter()
            .filter(|id| standing(*id) == Standing::Over)
            .map(Finding::LeakedHold),
    );
    findings.extend(after.keys().filter_map(|&id| {
        let Standing::Active(vm) = standing(id) else {
            return None;
        };
        let Some(domain) = domains.get(&id) else {
            return Some(Finding::MissingDomain(id));
        };
        let unexpected_shutdown = vm.running && domain.state == OFF && domain.left_state == ON;
        unexpected_shutdown.then_some(Finding::UnexpectedShutdown {
            id,
            boot_id: vm.boot_id,
            with_host: domain.host_restarted,
        })
    }));
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::names::vm_name;
    use gpuaas_proto::gpuaas::agent::v1::Hold;

    const VM: Vm = Vm {
        running: true,
        boot_id: Some(Uuid::from_u128(7)),
    };

    fn host(domains: &[Uuid], reservations: &[Uuid], holds: &[Uuid]) -> ListHoldsResponse {
        ListHoldsResponse {
            domains: domains
                .iter()
                .map(|id| DomainState {
                    name: vm_name(*id),
                    state: "running".into(),
                    ..DomainState::default()
                })
                .collect(),
            reservations: reservations.iter().map(|id| vm_name(*id)).collect(),
            holds: holds
                .iter()
                .map(|id| Hold {
                    allocation_id: id.to_string(),
                    ..Hold::default()
                })
                .collect(),
            leases: Vec::new(),
            network_groups: Vec::new(),
        }
    }

    /// D-82
    #[test]
    fn differences_are_found_and_named() {
        let [active, moving, blocked, over, unknown] = [1, 2, 3, 4, 5].map(Uuid::from_u128);
        let ledger: BTreeMap<Uuid, Standing> = [
            (active, Standing::Active(VM)),
            (moving, Standing::Moving),
            (blocked, Standing::OverHeld),
            (over, Standing::Over),
        ]
        .into();
        let all_well = host(&[active, moving], &[active], &[active, moving, blocked]);
        assert_eq!(compare(&ledger, &ledger, &all_well), []);
        let residue = host(&[moving, blocked, over, unknown], &[over], &[over]);
        assert_eq!(
            compare(&ledger, &ledger, &residue),
            [
                Finding::LeakedDomain(blocked),
                Finding::LeakedDomain(over),
                Finding::LeakedDomain(unknown),
                Finding::LeakedReservation(over),
                Finding::LeakedHold(over),
                Finding::MissingDomain(active),
            ]
        );
    }

    #[test]
    fn a_vm_that_ought_to_run_and_is_off_is_found() {
        let id = Uuid::from_u128(1);
        let found = |vm: Vm, state: &str, left: &str, host_restarted| {
            let mut said = host(&[id], &[id], &[id]);
            said.domains[0].state = state.into();
            said.domains[0].left_state = left.into();
            said.domains[0].host_restarted = host_restarted;
            let ledger = [(id, Standing::Active(vm))].into();
            compare(&ledger, &ledger, &said)
        };
        let unexpected_shutdown = |with_host| {
            [Finding::UnexpectedShutdown {
                id,
                boot_id: VM.boot_id,
                with_host,
            }]
        };
        assert_eq!(found(VM, OFF, ON, false), unexpected_shutdown(false));
        assert_eq!(found(VM, OFF, ON, true), unexpected_shutdown(true));
        assert_eq!(found(VM, ON, ON, true), []);
        assert_eq!(found(VM, OFF, OFF, true), [], "the host shut it off itself");
        assert_eq!(found(VM, OFF, "", false), [], "the host does not know");
        let stopped = Vm {
            running: false,
            ..VM
        };
        assert_eq!(found(stopped, OFF, ON, false), []);
    }

    #[test]
    fn what_moved_meanwhile_is_no_finding() {
        let id = Uuid::from_u128(1);
        let (active, over): (BTreeMap<_, _>, BTreeMap<_, _>) = (
            [(id, Standing::Active(VM))].into(),
            [(id, Standing::Over)].into(),
        );
        assert_eq!(compare(&active, &over, &host(&[id], &[], &[])), []);
        assert_eq!(compare(&over, &active, &host(&[], &[], &[])), []);
    }
}
