//! Rows as messages of the contract.
use std::collections::BTreeMap;

use gpuaas_common::error::{Error, Result, reason_from_name};
use gpuaas_common::time::proto_time;
use gpuaas_common::value::Mac;
use gpuaas_proto::gpuaas::agent::v1::{HostDevices, InspectedDevice, TopologyReport};
use gpuaas_proto::gpuaas::common::v1::{
    Evidence, EvidenceStatus, ResourceMetadata, SlotBindings, SlotStatus,
};
use gpuaas_proto::gpuaas::internal::scheduler::v1::{LedgerSlot, ListSlotsResponse};
use gpuaas_proto::gpuaas::inventory::v1 as api;
use jiff_sqlx::Timestamp;
use prost::Message as _;

use crate::domain::lifecycle::{self, LifecycleState, Removed, StepState};
use crate::domain::names::NodeMode;
use crate::store::nodes::NodeRow;
use crate::store::rollouts::{RolloutNodeRow, RolloutRow};
use crate::store::tasks::TaskRow;

pub(crate) fn time(at: Timestamp) -> prost_types::Timestamp {
    proto_time(at.to_jiff())
}

/// A node with its slots as the ledger counts them; without an answer of the ledger the counts are absent and the
/// evidence notes it.
pub(crate) fn node(row: NodeRow, known: Option<&ListSlotsResponse>) -> Result<api::Node> {
    let slots = known.map(|known| known.slots.as_slice());
    let report = row.report()?;
    let readiness = row.readiness(report.as_ref());
    let state = match row.state.as_str() {
        "pending" => api::NodeState::Pending,
        "enrolled" => api::NodeState::Enrolled,
        _ => api::NodeState::Lost,
    };
    let (life, onboarding) = lifecycle(&row, &readiness.blockers, known);
    let etag = row.etag();
    let instance = row.instance_id.map(|id| api::HostInstance {
        id: id.to_string(),
        boot_id: row.boot_id.unwrap_or_default(),
        agent_version: row.agent_version.unwrap_or_default(),
        agent_built_time: row.agent_built_time.map(time),
        agent_address: row.agent_address.unwrap_or_default(),
        enrol_time: row.enrol_time.map(time),
    });
    let mut evidence = Vec::new();
    if let Some(report) = report {
        evidence = report.evidence;
        evidence.extend(report.devices.as_ref().and_then(unknown_domains));
    }
    if slots.is_none() {
        evidence.push(Evidence {
            check: "ledger".to_owned(),
            status: EvidenceStatus::Warn.into(),
            detail: "The scheduler does not answer: slot counts are unknown.".to_owned(),
            remediation: "Check that the scheduler is running.".to_owned(),
            ..Evidence::default()
        });
    }
    let counts = slots
        .unwrap_or_default()
        .iter()
        .fold(BTreeMap::new(), |mut counts, slot| {
            *counts.entry(status_name(slot.status())).or_default() += 1;
            counts
        });
    Ok(api::Node {
        id: row.id.to_string(),
        config: Some(api::NodeConfig {
            hostname: row.hostname,
            region_code: row.region_code,
            mode: row.mode,
            max_vms_per_node: u32::try_from(row.max_vms_per_node).unwrap_or_default(),
            rack: row.rack,
        }),
        status: Some(api::NodeStatus {
            state: state.into(),
            instance,
            last_heartbeat_time: row.last_heartbeat_time.map(time),
            schedulable: readiness.schedulable(),
            blockers: readiness.blockers,
            evidence,
            hypervisor: row.hypervisor.unwrap_or_default(),
            lab: row.lab.unwrap_or_default(),
            host_profile: row.host_profile.unwrap_or_default(),
            slots: counts,
            life: Some(life),
            onboarding,
        }),
        metadata: Some(ResourceMetadata {
            create_time: Some(time(row.create_time)),
            update_time: Some(time(row.update_time)),
            revision: row.revision,
            labels: row.labels.0,
        }),
        etag,
    })
}

/// Domains that nobody allocated. Only slots whose devices they have are not offered.
fn unknown_domains(devices: &HostDevices) -> Option<Evidence> {
    (!devices.unknown_domains.is_empty()).then(|| Evidence {
        check: "unknown_domains".to_owned(),
        status: EvidenceStatus::Warn.into(),
        detail: format!(
            "The hypervisor has domains that are not an allocation of this host: {}.",
            devices.unknown_domains.join(", ")
        ),
        remediation: "Find out whose they are, and remove them.".to_owned(),
        observed_at: None,
        ..Evidence::default()
    })
}

/// Where a node is in its lifecycle and in its onboarding, by what its host proves and what the ledger tells.
fn lifecycle(
    row: &NodeRow,
    blockers: &[String],
    known: Option<&ListSlotsResponse>,
) -> (api::NodeLife, Vec<api::OnboardingStep>) {
    let in_ledger = known.and_then(|known| known.node.as_ref());
    let facts = lifecycle::Facts {
        removed: row.removed.as_deref().and_then(Removed::parse),
        mode: NodeMode::parse(&row.mode).unwrap_or(NodeMode::Slice),
        enrolled: row.instance_id.is_some(),
        host_profile: row.host_profile.as_deref().unwrap_or_default(),
        blockers,
        discovered: row.discovered,
        reviewed: row.reviewed,
        slots: known.map(|known| slots(&known.slots)),
        admin_state: in_ledger.map_or("", |node| node.admin_state.as_str()),
        ledger_blocker: match in_ledger {
            None => Some("not_taken_in"),
            Some(node) if node.schedulable => None,
            Some(node) => Some(node.not_schedulable_reason.as_str()),
        },
    };
    let now = lifecycle::lifecycle(&facts);
    let state = match now.state {
        LifecycleState::Registered => api::NodeLifeState::Registered,
        LifecycleState::Enrolled => api::NodeLifeState::Enrolled,
        LifecycleState::Validating => api::NodeLifeState::Validating,
        LifecycleState::Ready => api::NodeLifeState::Ready,
        LifecycleState::Cordoned => api::NodeLifeState::Cordoned,
        LifecycleState::Draining => api::NodeLifeState::Draining,
        LifecycleState::Maintenance => api::NodeLifeState::Maintenance,
        LifecycleState::Broken => api::NodeLifeState::Broken,
        LifecycleState::Retired => api::NodeLifeState::Retired,
        LifecycleState::Deleted => api::NodeLifeState::Deleted,
    };
    let derived = matches!(
        now.state,
        LifecycleState::Registered
            | LifecycleState::Enrolled
            | LifecycleState::Validating
            | LifecycleState::Ready
    );
    let said = in_ledger.filter(|_| !derived).cloned().unwrap_or_default();
    let derived_since = match now.state {
        LifecycleState::Registered => Some(time(row.create_time)),
        _ => in_ledger
            .and_then(|node| node.history_time)
            .or(row.enrol_time.map(time)),
    };
    let life = api::NodeLife {
        state: state.into(),
        reason: if derived {
            now.waits_for
        } else {
            said.admin_reason
        },
        principal: said.admin_principal,
        since: if derived {
            derived_since
        } else {
            said.admin_time.or(row.remove_time.map(time))
        },
    };
    let steps = lifecycle::onboarding(&facts).into_iter().zip(1..);
    let steps = steps.map(|(step, number)| api::OnboardingStep {
        number,
        name: step.name.to_owned(),
        state: match step.state {
            StepState::Done => api::OnboardingState::Done,
            StepState::Current => api::OnboardingState::Current,
            StepState::Waiting => api::OnboardingState::Waiting,
            StepState::NotNeeded => api::OnboardingState::NotNeeded,
        }
        .into(),
        detail: step.detail,
    });
    (life, steps.collect())
}

/// How many slots a node has, and how many of them are of use.
fn slots(of_ledger: &[LedgerSlot]) -> lifecycle::Slots {
    let is_usable = |slot: &&LedgerSlot| match slot.status() {
        SlotStatus::Available
        | SlotStatus::Reserved
        | SlotStatus::Provisioning
        | SlotStatus::Active
        | SlotStatus::Releasing => true,
        // not its first wipe
        SlotStatus::Cleanup => !slot.clean_evidence.is_empty(),
        _ => false,
    };
    lifecycle::Slots {
        approved: of_ledger
            .iter()
            .filter(|slot| slot.status() != SlotStatus::Retired)
            .count(),
        usable: of_ledger.iter().filter(is_usable).count(),
    }
}

/// A slot status as the JSON API spells it.
fn status_name(status: SlotStatus) -> String {
    status
        .as_str_name()
        .trim_start_matches("SLOT_STATUS_")
        .to_lowercase()
}

/// What a task's host reported, if it completed.
pub(crate) fn report_of(task: &TaskRow) -> Result<Option<TopologyReport>> {
    let decode = |bytes: &Vec<u8>| TopologyReport::decode(bytes.as_slice());
    task.output
        .as_ref()
        .map(decode)
        .transpose()
        .map_err(Error::internal)
}

/// A discovery as an operator reads it.
pub(crate) fn discovery(task: TaskRow) -> Result<api::TopologyDiscovery> {
    let report = report_of(&task)?;
    let state = match task.state.as_str() {
        "queued" => api::DiscoveryState::Queued,
        "running" => api::DiscoveryState::Running,
        "completed" => api::DiscoveryState::Completed,
        _ => api::DiscoveryState::Failed,
    };
    let summary = report.as_ref().map(|report| api::CandidateSummary {
        gpu_devices: report.gpu_devices,
        fabric_devices: report.fabric_devices,
        nvme_devices: report.nvme_devices,
        mounted_nvme_devices: report.mounted_nvme_devices,
        candidate_slots: u32::try_from(report.candidates.len()).unwrap_or(u32::MAX),
        blockers: report.blockers.clone(),
        reboot_required: report.reboot_required,
        hugepages_1g_free: report.hugepages_1g_free,
    });
    let report = report.unwrap_or_default();
    let candidate =
        |candidate: gpuaas_proto::gpuaas::agent::v1::CandidateSlot| api::SlotCandidate {
            slot_index: candidate.slot_index,
            slot_class: candidate.slot_class,
            ovs_interface_id: interface_id(candidate.bindings.as_ref()),
            bindings: candidate.bindings,
            blockers: candidate.blockers,
            kernel_path: candidate.kernel_path,
            disk_blockers: candidate.disk_blockers,
            fabric_blockers: candidate.fabric_blockers,
        };
    Ok(api::TopologyDiscovery {
        id: task.id.to_string(),
        node_id: task.node_id.to_string(),
        task_type: task.task_type,
        state: state.into(),
        error: task.error,
        candidate_summary: summary,
        candidates: report.candidates.into_iter().map(candidate).collect(),
        evidence: report.evidence,
        create_time: Some(time(task.create_time)),
        end_time: task.end_time.map(time),
        comparisons: Vec::new(),
        host: report.host,
        schema_version: report.schema_version,
        error_reason: reason_from_name(&task.error_reason).into(),
        inspected_devices: report
            .inspected_devices
            .into_iter()
            .map(inspected)
            .collect(),
    })
}

/// Identity of a slot's port on the switch; empty without a MAC.
fn interface_id(bindings: Option<&SlotBindings>) -> String {
    let mac = bindings.and_then(|bindings| bindings.management_mac.parse::<Mac>().ok());
    mac.map_or_else(String::new, |mac| mac.ovs_interface_id().to_string())
}

fn inspected(device: InspectedDevice) -> api::InspectedDevice {
    api::InspectedDevice {
        device: device.device,
        blockers: device.blockers,
        wipe_policies: device.wipe_policies,
        storage_transition_manifest: device.storage_transition_manifest,
    }
}

/// A slot as the ledger has it, for operators.
pub(crate) fn slot(slot: LedgerSlot) -> api::ResourceSlot {
    api::ResourceSlot {
        id: slot.id,
        node_id: slot.node_id,
        slot_index: slot.slot_index,
        slot_class: slot.slot_class,
        status: slot.status,
        health_state: slot.health_state,
        health_detail: slot.health_detail,
        ovs_interface_id: interface_id(slot.bindings.as_ref()),
        disabled: slot.disabled,
        generation: slot.generation,
        bindings: slot.bindings,
        allocation_id: slot.allocation_id,
        update_time: slot.update_time,
        clean_evidence: slot.clean_evidence,
        clean_generation: slot.clean_generation,
        drift: slot.drift,
        etag: slot.etag,
        storage_ownership: slot.storage_ownership,
        storage_mode: slot.storage_mode,
        storage_transition_manifest: slot.storage_transition_manifest,
    }
}

fn count(number: i64) -> u32 {
    u32::try_from(number).unwrap_or_default()
}

/// A rollout with the nodes of its waves.
pub(crate) fn rollout(row: RolloutRow, nodes: Vec<RolloutNodeRow>) -> api::AgentRollout {
    let etag = row.etag();
    let state = match row.state.as_str() {
        "running" => api::AgentRolloutState::Running,
        "paused" => api::AgentRolloutState::Paused,
        "completed" => api::AgentRolloutState::Completed,
        _ => api::AgentRolloutState::Aborted,
    };
    let mut waves: Vec<api::AgentRolloutWave> = Vec::new();
    for node in nodes {
        let number = count(node.wave.into());
        if waves.last().is_none_or(|last| last.number != number) {
            waves.push(api::AgentRolloutWave {
                number,
                nodes: Vec::new(),
            });
        }
        if let Some(wave) = waves.last_mut() {
            wave.nodes.push(rollout_node(node));
        }
    }
    api::AgentRollout {
        id: row.id.to_string(),
        version: row.version,
        digest: row.digest,
        size_bytes: row.size_bytes,
        state: state.into(),
        state_reason: row.state_reason,
        rollback_of: row.rollback_of.map(|id| id.to_string()).unwrap_or_default(),
        max_failures: count(row.max_failures.into()),
        max_parallel: count(row.max_parallel.into()),
        node_timeout_seconds: count(row.node_timeout_seconds.into()),
        current_wave: count(row.current_wave.into()),
        waves,
        total_nodes: count(row.total),
        succeeded_nodes: count(row.succeeded),
        failed_nodes: count(row.failed),
        principal: row.principal,
        reason: row.reason,
        create_time: Some(time(row.create_time)),
        end_time: row.end_time.map(time),
        etag,
    }
}

fn rollout_node(node: RolloutNodeRow) -> api::AgentRolloutNode {
    let state = match node.state.as_str() {
        "pending" => api::AgentRolloutNodeState::Pending,
        "updating" => api::AgentRolloutNodeState::Updating,
        "succeeded" => api::AgentRolloutNodeState::Succeeded,
        "failed" => api::AgentRolloutNodeState::Failed,
        _ => api::AgentRolloutNodeState::Skipped,
    };
    let reason = match (node.reason.as_str(), node.reported_state.as_str()) {
        ("", "") => String::new(),
        ("", said) if node.reported_reason.is_empty() => format!("The host reports: {said}."),
        ("", said) => format!("The host reports: {said}: {}", node.reported_reason),
        _ => node.reason,
    };
    api::AgentRolloutNode {
        node_id: node.node_id.to_string(),
        hostname: node.hostname,
        rack: node.rack,
        state: state.into(),
        reason,
        version: node.version,
        from_version: node.from_version,
        agent_version: node.agent_version,
        start_time: node.start_time.map(time),
        end_time: node.end_time.map(time),
    }
}
