//! Inspects hosts: takes queued tasks `slice.topology_discover`, calls the agent, stores its report (A-56..A-58).
//!
//! A worker that dies leaves a lease that ends; another one begins the inspection again. It changes nothing on a host.
use std::collections::BTreeSet;
use std::time::Duration;

use gpuaas_common::error::Error;
use gpuaas_common::time::backoff;
use gpuaas_common::{CancellationToken, Result, trace};
use gpuaas_proto::TOPOLOGY_SCHEMA_VERSION;
use gpuaas_proto::gpuaas::agent::v1::topology_client::TopologyClient;
use gpuaas_proto::gpuaas::agent::v1::{DiscoverRequest, TopologyReport};
use gpuaas_proto::gpuaas::common::v1::{HostInventory, SlotStatus};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_proto::gpuaas::internal::scheduler::v1::LedgerSlot;
use prost::Message;
use tracing::Instrument as _;

use super::ledger_sync::set_desired_node;
use super::rest;
use crate::domain::report;
use crate::state::State;
use crate::store::nodes;
use crate::store::tasks::{self, ClaimedTask, Ending, Generations};

/// Hosts that one process inspects at the same time.
pub(crate) const WORKERS: usize = 4;
const MAX_ATTEMPTS: i32 = 3;
/// Pauses between two attempts.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// What a lease is longer than the inspection, in seconds.
const LEASE_MARGIN_SECONDS: u32 = 15;
/// How long to wait for the ledger before an inspection; less than that margin.
const LEDGER_TIMEOUT: Duration = Duration::from_secs(5);
/// How long an inspection may go on after the process began to stop.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);
/// No host has more slots; a longer list is a fault of the agent.
const MAX_CANDIDATES: usize = 64;
/// The same of devices of one kind, virtual functions among them.
const MAX_DEVICES: usize = 4096;

/// Works until `shutdown`. An inspection that does not end soon after it is left to its lease: another replica begins again.
pub(crate) async fn run(state: State, shutdown: CancellationToken) {
    let lease = state.config.discovery_timeout_seconds + LEASE_MARGIN_SECONDS;
    while !shutdown.is_cancelled() {
        match tasks::claim(&state.pool, lease).await {
            Ok(Some(task)) => {
                let span = tracing::info_span!("discover_topology", task_id = %task.id, node_id = %task.node_id);
                trace::set_parent(&span, &task.traceparent);
                tokio::select! {
                    biased;
                    () = work(&state, &task).instrument(span) => continue,
                    () = given_up(&shutdown) => break,
                }
            }
            Ok(None) => {}
            Err(error) => tracing::warn!("cannot claim a task: {error}"),
        }
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = rest(&state.task_due, state.config.poll_interval()) => {}
        }
    }
}

async fn given_up(shutdown: &CancellationToken) {
    shutdown.cancelled().await;
    tokio::time::sleep(SHUTDOWN_GRACE).await;
}

async fn work(state: &State, task: &ClaimedTask) {
    let report = if task.attempts > MAX_ATTEMPTS {
        Err(Failure::Final(
            "The discovery was started several times and never completed. Start it again."
                .to_owned(),
        ))
    } else {
        inspect(state, task).await
    };
    let failures = u32::try_from(task.attempts).unwrap_or_default();
    let pause = backoff(failures, FIRST_PAUSE, LONGEST_PAUSE);
    let encoded = report
        .as_ref()
        .map(|(report, before)| (report.encode_to_vec(), before));
    let ending = match (&encoded, task.attempts < MAX_ATTEMPTS) {
        (Ok((bytes, before)), _) => Ending::Completed(bytes, before),
        (Err(Failure::Transient(_)), true) => Ending::Retry(pause),
        (Err(Failure::Transient(why) | Failure::Final(why)), _) => Ending::Failed(why),
    };
    match store(state, task, ending).await {
        Ok(true) => match &report {
            Ok((report, _)) => tracing::info!(
                candidates = report.candidates.len(),
                "store topology of host"
            ),
            Err(failure) => tracing::warn!(
                attempts = task.attempts,
                "cannot inspect host: {}",
                failure.text()
            ),
        },
        Ok(false) => tracing::warn!("drop inspection: another worker has taken it over"),
        Err(error) => tracing::warn!("cannot store inspection: {error}"),
    }
}

enum Failure {
    Transient(String),
    Final(String),
}

impl Failure {
    fn text(&self) -> &str {
        match self {
            Self::Transient(text) | Self::Final(text) => text,
        }
    }
}

/// The host's report, and the ledger's slots of it before the inspection.
async fn inspect(
    state: &State,
    task: &ClaimedTask,
) -> Result<(TopologyReport, Generations), Failure> {
    let (before, left_by_tenants) = slots_before(state, task).await;
    let limit = Duration::from_secs(state.config.discovery_timeout_seconds.into());
    let request = async {
        let channel =
            state
                .peers
                .host_channel(&task.agent_address, &task.node_id, &task.instance_id)?;
        let report = TopologyClient::new(channel)
            .discover(DiscoverRequest { left_by_tenants })
            .await?;
        Ok::<_, Error>(report.into_inner())
    };
    let report = match tokio::time::timeout(limit, request).await {
        Ok(Ok(report)) => report,
        Ok(Err(error)) if error.is_transient() => {
            return Err(Failure::Transient(format!(
                "The host does not answer: {}.",
                error.message()
            )));
        }
        Ok(Err(error)) => {
            return Err(Failure::Final(format!(
                "The host refused: {}.",
                error.message()
            )));
        }
        Err(_elapsed) => {
            return Err(Failure::Transient(
                "The host did not answer in time.".to_owned(),
            ));
        }
    };
    match fault(&report).or_else(|| malformed(&report)) {
        None => Ok((report, before)),
        Some(why) => {
            state.refusals.count("Discover", ErrorReason::FieldInvalid);
            Err(Failure::Final(why))
        }
    }
}

/// Generations of the node's slots now, and the disks that a tenant was the last to have. An inspection is worth having
/// without them, too: only slots that the ledger has already are then not approved from it.
async fn slots_before(state: &State, task: &ClaimedTask) -> (Generations, Vec<String>) {
    let ledger = tokio::time::timeout(LEDGER_TIMEOUT, state.ledger_slots(task.node_id)).await;
    match ledger.unwrap_or_else(|elapsed| Err(Error::unavailable("the ledger", elapsed))) {
        Ok(ledger) => {
            let of = |slot: LedgerSlot| (slot.slot_index, slot.generation);
            let in_service = |slot: &LedgerSlot| slot.status() != SlotStatus::Retired;
            let slots = ledger.slots.into_iter().filter(in_service);
            (slots.map(of).collect(), ledger.left_by_tenants)
        }
        // a node that never reached the ledger has no slots
        Err(error) if error.reason() == ErrorReason::NodeNotFound => Default::default(),
        Err(error) => {
            tracing::warn!("cannot read the generations of the host's slots: {error}");
            Default::default()
        }
    }
}

/// Why a report cannot be used, if so.
fn fault(report: &TopologyReport) -> Option<String> {
    if report.schema_version > TOPOLOGY_SCHEMA_VERSION {
        return Some(format!(
            "The host reports its topology in version {}, and this platform reads versions up to \
             {TOPOLOGY_SCHEMA_VERSION}. Update the platform before the agents.",
            report.schema_version
        ));
    }
    if report.candidates.len() > MAX_CANDIDATES {
        return Some(format!(
            "The host reports more than {MAX_CANDIDATES} candidates."
        ));
    }
    if let Some(why) = report.host.as_ref().and_then(too_many) {
        return Some(why);
    }
    let mut seen = BTreeSet::new();
    report
        .candidates
        .iter()
        .find(|candidate| !seen.insert(candidate.slot_index))
        .map(|candidate| {
            format!(
                "The host reports slot index {} twice.",
                candidate.slot_index
            )
        })
}

/// No host has so many devices of one kind.
fn too_many(host: &HostInventory) -> Option<String> {
    let functions = host.fabric_devices.iter();
    let functions: usize = functions.map(|device| device.virtual_functions.len()).sum();
    let counts = [
        ("processors", host.processors.len()),
        ("NUMA nodes", host.numa_nodes.len()),
        ("GPUs", host.gpus.len()),
        ("NVSwitches", host.nvswitches.len()),
        ("disks", host.disks.len()),
        ("fabric devices", host.fabric_devices.len()),
        ("virtual functions", functions),
        ("addresses", host.addresses.len()),
        ("neighbors", host.neighbors.len()),
        ("unreadable facts", host.unreadable.len()),
    ];
    let (what, count) = counts.into_iter().find(|(_, count)| *count > MAX_DEVICES)?;
    Some(format!(
        "The host reports {count} {what}, and no host has more than {MAX_DEVICES}."
    ))
}

/// What in a report is not of its form, if so.
fn malformed(report: &TopologyReport) -> Option<String> {
    let fault = report::check_topology(report).err()?;
    Some(format!(
        "The host reports a topology whose {} is wrong: it {}.",
        fault.field, fault.rule
    ))
}

async fn store(state: &State, task: &ClaimedTask, ending: Ending<'_>) -> sqlx::Result<bool> {
    let mut tx = state.pool.begin().await?;
    nodes::lock(&mut tx, task.node_id).await?;
    let stored = tasks::finish(&mut tx, task, ending).await?;
    // the host's legal GPU groups come with its topology
    let news =
        stored && set_desired_node(&mut tx, task.node_id, state.config.freshness(), false).await?;
    tx.commit().await?;
    if news {
        state.push_due.notify_one();
    }
    Ok(stored)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuaas_proto::gpuaas::agent::v1::CandidateSlot;

    fn report(indexes: impl IntoIterator<Item = u32>) -> TopologyReport {
        let candidates = indexes.into_iter().map(|slot_index| CandidateSlot {
            slot_index,
            ..Default::default()
        });
        TopologyReport {
            candidates: candidates.collect(),
            ..Default::default()
        }
    }

    #[test]
    fn a_topology_with_impossible_values_or_paths_that_escape_is_refused_by_its_field() {
        use gpuaas_proto::gpuaas::agent::v1::LegalGroup;
        use gpuaas_proto::gpuaas::common::v1::{Evidence, SlotBindings};

        assert_eq!(malformed(&report(0..8)), None);
        type Change = fn(&mut TopologyReport);
        let table: [(&str, Change); 12] = [
            ("gpu_devices", |r| r.gpu_devices = u32::MAX),
            ("hugepages_1g_free", |r| r.hugepages_1g_free = u32::MAX),
            ("candidates[0].kernel_path", |r| {
                r.candidates[0].kernel_path = "/dev/../etc/shadow".into();
            }),
            ("candidates[0].kernel_path", |r| {
                r.candidates[0].kernel_path = "/etc/shadow".into();
            }),
            ("candidates[0].slot_class", |r| {
                r.candidates[0].slot_class = "../h200".into();
            }),
            ("candidates[0].blockers", |r| {
                r.candidates[0].blockers = vec!["\u{1b}[2J".into()];
            }),
            ("legal_groups", |r| {
                r.legal_groups = vec![LegalGroup::default(); 10_000];
            }),
            ("evidence", |r| {
                r.evidence = vec![Evidence::default(); 10_000];
            }),
            ("candidates[0].nvme_device", |r| {
                r.candidates[0].bindings = Some(SlotBindings {
                    nvme_device: "/dev/disk/by-id/nvme-eui.00/../../sda".into(),
                    ..SlotBindings::default()
                });
            }),
            ("candidates[0].gpu_pci_address", |r| {
                r.candidates[0].bindings = Some(SlotBindings {
                    gpu_pci_address: "0000:1b:00.0/..".into(),
                    ..SlotBindings::default()
                });
            }),
            ("candidates[0].nvme_bytes", |r| {
                r.candidates[0].bindings = Some(SlotBindings {
                    nvme_bytes: u64::MAX,
                    ..SlotBindings::default()
                });
            }),
            ("candidates[0].numa_node", |r| {
                r.candidates[0].bindings = Some(SlotBindings {
                    numa_node: Some(u32::MAX),
                    ..SlotBindings::default()
                });
            }),
        ];
        for (field, change) in table {
            let mut bad = report(0..8);
            change(&mut bad);
            let why = malformed(&bad);
            assert!(
                why.as_ref().is_some_and(|why| why.contains(field)),
                "{field}: {why:?}"
            );
        }
    }

    #[test]
    fn an_ambiguous_report_is_not_stored() {
        assert_eq!(fault(&report(0..8)), None);
        assert!(fault(&report([0, 1, 0])).is_some_and(|why| why.contains("index 0")));
        assert!(fault(&report(0..65)).is_some());
    }

    #[test]
    fn a_report_in_a_newer_version_is_refused_and_an_older_one_is_read() {
        let of = |schema_version| TopologyReport {
            schema_version,
            ..report(0..8)
        };
        for version in 0..=TOPOLOGY_SCHEMA_VERSION {
            assert_eq!(fault(&of(version)), None);
        }
        let why = fault(&of(TOPOLOGY_SCHEMA_VERSION + 1)).unwrap();
        assert!(why.contains("Update the platform"), "{why}");
    }
}
