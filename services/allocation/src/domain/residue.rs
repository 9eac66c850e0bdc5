//! Comparing ledger, host and hypervisor: what is there that should not be, and the other way round.

use std::collections::{BTreeMap, BTreeSet};

use gpuaas_proto::gpuaas::agent::v1::{DomainState, ListHoldsResponse};
use gpuaas_proto::gpuaas::common::v1::GuestMetricsState;
use uuid::Uuid;

use super::discrepancy::Discrepancy;
use super::names::{allocation_of, port_name};

/// The VM of an active allocation, as the ledger knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Vm {
    /// Its power is `running` or `rescued`.
    pub running: bool,
    /// The guest's boot that was last proven.
    pub boot_id: Option<Uuid>,
}

/// The ledger's state of an allocation on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LedgerState {
    /// Active: it must have a domain.
    Active(Vm),
    /// A workflow is running for it, or about to.
    Moving,
    /// Over, with slots that wait for a repair.
    OverHeld,
    /// Over, and nothing is held for it.
    Over,
}

/// Queries without a complete answer after which a guest is not well: a boot or an update takes a few.
const UNHEALTHY_QUERIES: u32 = 3;

/// States of a domain in a host's report.
const ON: &str = "running";
const OFF: &str = "shut off";

/// What the ledger says of an allocation before and after the inspection of its host: one that moved meanwhile is moving.
#[must_use]
pub fn state_of(
    before: &BTreeMap<Uuid, LedgerState>,
    after: &BTreeMap<Uuid, LedgerState>,
    id: Uuid,
) -> LedgerState {
    // an id the ledger has never heard of on this node is as good as over
    let (was, is) = (before.get(&id).copied(), after.get(&id).copied());
    match (
        was.unwrap_or(LedgerState::Over),
        is.unwrap_or(LedgerState::Over),
    ) {
        (was, is) if was == is => is,
        _ => LedgerState::Moving,
    }
}

/// Compares the ledger before and after the inspection of the host; what moved meanwhile is no discrepancy.
#[must_use]
pub fn compare(
    before: &BTreeMap<Uuid, LedgerState>,
    after: &BTreeMap<Uuid, LedgerState>,
    host: &ListHoldsResponse,
) -> Vec<Discrepancy> {
    let state = |id: Uuid| state_of(before, after, id);
    let over = |id: &Uuid| matches!(state(*id), LedgerState::Over | LedgerState::OverHeld);
    let domains: BTreeMap<Uuid, &DomainState> = host
        .domains
        .iter()
        .filter_map(|domain| Some((allocation_of(&domain.name)?, domain)))
        .collect();
    let of_vms = |names: &[String]| -> BTreeSet<Uuid> {
        names
            .iter()
            .filter_map(|name| allocation_of(name))
            .collect()
    };
    let (reservations, seeds) = (of_vms(&host.reservations), of_vms(&host.seeds));
    let holds: BTreeSet<Uuid> = host
        .holds
        .iter()
        .filter_map(|hold| hold.allocation_id.parse().ok())
        .collect();

    let mut discrepancies: Vec<Discrepancy> = domains
        .keys()
        .copied()
        .filter(over)
        .map(Discrepancy::LeakedDomain)
        .collect();
    discrepancies.extend(
        reservations
            .iter()
            .copied()
            .filter(over)
            .map(Discrepancy::LeakedReservation),
    );
    discrepancies.extend(
        holds
            .iter()
            .copied()
            .filter(|id| state(*id) == LedgerState::Over)
            .map(Discrepancy::LeakedHold),
    );
    discrepancies.extend(after.keys().filter_map(|&id| {
        let LedgerState::Active(vm) = state(id) else {
            return None;
        };
        let Some(domain) = domains.get(&id) else {
            return Some(Discrepancy::MissingDomain(id));
        };
        let unexpected_shutdown = vm.running && domain.state == OFF && domain.left_state == ON;
        unexpected_shutdown.then_some(Discrepancy::UnexpectedShutdown {
            id,
            boot_id: vm.boot_id,
            with_host: domain.host_restarted,
        })
    }));
    let is_active = |id: &Uuid| matches!(state(*id), LedgerState::Active(_));
    let actives = domains.keys().copied().filter(is_active);
    discrepancies.extend(actives.flat_map(|id| {
        let hold = (!holds.contains(&id)).then_some(Discrepancy::MissingHold(id));
        let reservation =
            (!reservations.contains(&id)).then_some(Discrepancy::MissingReservation(id));
        hold.into_iter().chain(reservation)
    }));
    let known = before.keys().chain(after.keys()).copied();
    let has_port = |id: &Uuid| host.ports.contains(&port_name(*id));
    let with_port: BTreeSet<Uuid> = known.filter(has_port).filter(over).collect();
    discrepancies.extend(with_port.into_iter().map(Discrepancy::LeakedPort));
    let leaked_partitions = of_vms(&host.partitions).into_iter().filter(over);
    discrepancies.extend(leaked_partitions.map(Discrepancy::LeakedPartition));
    let leaked_seeds = seeds.iter().copied().filter(over);
    discrepancies.extend(leaked_seeds.map(Discrepancy::LeakedSeed));
    let leaked_nvram = of_vms(&host.nvram).into_iter().filter(over);
    discrepancies.extend(leaked_nvram.map(Discrepancy::LeakedNvram));
    let kept_seeds = seeds.iter().copied().filter(is_active);
    discrepancies.extend(kept_seeds.map(Discrepancy::KeptSeed));
    let misses = domains
        .iter()
        .filter(|(_, domain)| !domain.missing_files.is_empty());
    let misses = misses.map(|(id, _)| *id).filter(is_active);
    discrepancies.extend(misses.map(Discrepancy::MissingFiles));
    discrepancies.extend(domains.iter().filter_map(|(&id, domain)| {
        let runs = matches!(state(id), LedgerState::Active(vm) if vm.running);
        guest_discrepancy(id, domain).filter(|_| runs)
    }));
    discrepancies
}

/// What is wrong with the guest of a VM that runs; nothing of one that its host does not query.
fn guest_discrepancy(id: Uuid, domain: &DomainState) -> Option<Discrepancy> {
    if domain.state != ON || domain.guest_unwell_queries < UNHEALTHY_QUERIES {
        return None;
    }
    match domain.guest_state() {
        GuestMetricsState::NoLogin | GuestMetricsState::TooSlow | GuestMetricsState::Malformed => {
            Some(Discrepancy::UnresponsiveGuest(id))
        }
        GuestMetricsState::GpuToolFailed => Some(Discrepancy::GuestGpusFailed(id)),
        GuestMetricsState::Unspecified
        | GuestMetricsState::Complete
        | GuestMetricsState::NoGpuTool
        | GuestMetricsState::Off => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::discrepancy::{GUEST_KINDS, KINDS};
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
            ..ListHoldsResponse::default()
        }
    }

    /// D-72, INC-26
    #[test]
    fn d_82_ports_partitions_seeds_and_nvram_that_are_left_over_or_missing_are_found_and_named() {
        let [active, moving, blocked, over, unknown] = [1, 2, 3, 4, 5].map(Uuid::from_u128);
        let ledger: BTreeMap<Uuid, LedgerState> = [
            (active, LedgerState::Active(VM)),
            (moving, LedgerState::Moving),
            (blocked, LedgerState::OverHeld),
            (over, LedgerState::Over),
        ]
        .into();
        let names = |ids: &[Uuid]| -> Vec<String> { ids.iter().map(|id| vm_name(*id)).collect() };
        let well = ListHoldsResponse {
            nvram: names(&[active, moving]),
            seeds: names(&[moving]),
            partitions: names(&[active, moving]),
            ports: vec![port_name(active), port_name(moving)],
            ..host(&[active, moving], &[active], &[active])
        };
        assert_eq!(compare(&ledger, &ledger, &well), []);
        let mut residue = ListHoldsResponse {
            nvram: names(&[blocked, unknown]),
            seeds: names(&[over, active]),
            partitions: names(&[active, blocked]),
            // the port of an allocation that the ledger does not know has no name that could be told
            ports: vec![port_name(active), port_name(over), port_name(unknown)],
            ..host(&[active, moving], &[active], &[active])
        };
        // also of one that is worked on, which is no discrepancy
        for domain in &mut residue.domains {
            domain.missing_files = vec!["nvram".into()];
        }
        let found = compare(&ledger, &ledger, &residue);
        assert_eq!(
            found,
            [
                Discrepancy::LeakedPort(over),
                Discrepancy::LeakedPartition(blocked),
                Discrepancy::LeakedSeed(over),
                Discrepancy::LeakedNvram(blocked),
                Discrepancy::LeakedNvram(unknown),
                Discrepancy::KeptSeed(active),
                Discrepancy::MissingFiles(active),
            ]
        );
        let kinds: BTreeSet<&str> = found.iter().map(Discrepancy::kind).collect();
        assert!(kinds.iter().all(|kind| KINDS.contains(kind)), "{kinds:?}");
    }

    #[test]
    fn d_80_a_guest_that_stays_silent_or_whose_gpus_fail_is_found_and_one_that_just_boots_is_not() {
        use GuestMetricsState as State;
        let id = Uuid::from_u128(1);
        let found = |of_ledger, domain: &str, state: State, unwell| {
            let ledger = [(id, of_ledger)].into();
            let mut host = host(&[id], &[id], &[id]);
            host.domains[0].state = domain.into();
            host.domains[0].guest_state = state.into();
            host.domains[0].guest_unwell_queries = unwell;
            let found = compare(&ledger, &ledger, &host);
            assert!(
                found
                    .iter()
                    .all(|one| one.is_of_guest() && GUEST_KINDS.contains(&one.kind()))
            );
            found
        };
        let active = LedgerState::Active(VM);
        for state in [State::NoLogin, State::TooSlow, State::Malformed] {
            assert_eq!(
                found(active, ON, state, UNHEALTHY_QUERIES),
                [Discrepancy::UnresponsiveGuest(id)],
                "{state:?}"
            );
            assert_eq!(
                found(active, ON, state, UNHEALTHY_QUERIES - 1),
                [],
                "{state:?}"
            );
        }
        let failed = found(active, ON, State::GpuToolFailed, UNHEALTHY_QUERIES);
        assert_eq!(failed, [Discrepancy::GuestGpusFailed(id)]);
        for state in [
            State::Unspecified,
            State::Complete,
            State::NoGpuTool,
            State::Off,
        ] {
            assert_eq!(found(active, ON, state, UNHEALTHY_QUERIES), [], "{state:?}");
        }
        // of one that nobody expects to run, or that somebody works on, nothing follows
        let stopped = LedgerState::Active(Vm {
            running: false,
            ..VM
        });
        assert_eq!(found(stopped, ON, State::NoLogin, UNHEALTHY_QUERIES), []);
        assert_eq!(found(active, OFF, State::NoLogin, UNHEALTHY_QUERIES), []);
        assert_eq!(
            found(LedgerState::Moving, ON, State::NoLogin, UNHEALTHY_QUERIES),
            []
        );
    }

    /// D-82
    #[test]
    fn differences_are_found_and_named() {
        let [active, moving, blocked, over, unknown] = [1, 2, 3, 4, 5].map(Uuid::from_u128);
        let ledger: BTreeMap<Uuid, LedgerState> = [
            (active, LedgerState::Active(VM)),
            (moving, LedgerState::Moving),
            (blocked, LedgerState::OverHeld),
            (over, LedgerState::Over),
        ]
        .into();
        let all_well = host(&[active, moving], &[active], &[active, moving, blocked]);
        assert_eq!(compare(&ledger, &ledger, &all_well), []);
        let lost = host(&[active, moving], &[], &[]);
        assert_eq!(
            compare(&ledger, &ledger, &lost),
            [
                Discrepancy::MissingHold(active),
                Discrepancy::MissingReservation(active)
            ]
        );
        let residue = host(&[moving, blocked, over, unknown], &[over], &[over]);
        assert_eq!(
            compare(&ledger, &ledger, &residue),
            [
                Discrepancy::LeakedDomain(blocked),
                Discrepancy::LeakedDomain(over),
                Discrepancy::LeakedDomain(unknown),
                Discrepancy::LeakedReservation(over),
                Discrepancy::LeakedHold(over),
                Discrepancy::MissingDomain(active),
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
            let ledger = [(id, LedgerState::Active(vm))].into();
            compare(&ledger, &ledger, &said)
        };
        let unexpected_shutdown = |with_host| {
            [Discrepancy::UnexpectedShutdown {
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
            [(id, LedgerState::Active(VM))].into(),
            [(id, LedgerState::Over)].into(),
        );
        assert_eq!(compare(&active, &over, &host(&[id], &[], &[])), []);
        assert_eq!(compare(&over, &active, &host(&[], &[], &[])), []);
    }
}
