//! Rows as messages of the contract.

use gpuaas_common::readiness::Outcome;
use gpuaas_common::time::proto_time;
use gpuaas_common::{etag, ssh};
use gpuaas_placement::ingress::Mapping;
use gpuaas_placement::model::{Allocation as Row, AllocationState as RowState};
use gpuaas_placement::queue::{QueuePosition, sentence};
use gpuaas_placement::{drift, lost, model, node_tasks, operator_actions, timeline};
use gpuaas_proto::google::rpc;
use gpuaas_proto::gpuaas::allocation::v1 as pb;
use gpuaas_proto::gpuaas::common::v1 as common;
use jiff_sqlx::Timestamp;
use prost::Message as _;

use crate::domain::names::vm_name;
use crate::store::read::Now;

/// A ledger time as proto.
pub fn time(at: Timestamp) -> prost_types::Timestamp {
    proto_time(at.to_jiff())
}

/// An allocation with what is now with it.
pub fn allocation(row: Row, now: Now) -> pb::Allocation {
    let shape: common::CapacityShape = row.capacity_shape.into();
    let released = row.state == RowState::Released;
    let conditions = conditions(&row, now.host_replaced);
    let rescue_image = rescue_image(&row);
    let rescued = row.rescued().cloned();
    let etag = self::etag(&row);
    let status = pb::AllocationStatus {
        state: state(row.state).into(),
        power: power(row.power.as_deref()).into(),
        failure: row
            .failure
            .map(|failure| failure.0)
            .map(|failure| pb::AllocationFailure {
                reason: failure.reason,
                message: failure.message,
                advice: failure.advice,
                step: failure.step,
            }),
        progress: now.progress.map(|p| pb::Progress {
            step: p.step,
            percent: p.percent,
            message: p.message,
            steps_done: p.steps_done,
            steps_total: p.steps_total,
        }),
        access: row.access.map(|access| access.0).map(|access| pb::Access {
            guest_user: row.guest_user,
            private_ip: access.private_ip,
            ssh_port: access.ssh_port,
            ssh_ready: access.ssh_ready,
            ssh_host: access.ssh_host,
            ssh_host_port: access.ssh_host_port,
            ssh_host_keys: rescued.map_or(access.ssh_host_keys, |rescue| rescue.ssh_host_keys),
        }),
        vm: match row.capacity_shape {
            model::Shape::GpuSlice => vm_name(row.id),
            model::Shape::Baremetal => String::new(),
        },
        active_time: row.active_at.map(time),
        release_time: row.ended_at.filter(|_| released).map(time),
        deadline: row.deadline_at.map(time),
        lab: row.lab,
        boot_id: row
            .boot_id
            .filter(|_| matches!(row.power.as_deref(), Some("running" | "rescued")))
            .map(|id| id.to_string())
            .unwrap_or_default(),
        billing: billing(row.state, row.active_at.is_some()).to_owned(),
        queue: now.queue_position.map(queue),
        conditions,
        resources: now.resources.map(|vm| pb::VmResources {
            vcpus: u32::try_from(vm.vcpus).unwrap_or_default(),
            memory_mib: u64::try_from(vm.memory_mib).unwrap_or_default(),
            disks: u32::try_from(vm.disks).unwrap_or_default(),
            disk_bytes: u64::try_from(vm.disk_bytes).unwrap_or_default(),
        }),
        readiness_checks: row.readiness.iter().map(Outcome::to_wire).collect(),
        rescue_image,
    };
    pb::Allocation {
        id: row.id.to_string(),
        config: Some(pb::AllocationConfig {
            project_id: row.project_id.to_string(),
            name: row.name,
            region_code: row.region_code,
            sku: row.sku,
            gpu_count: row.gpu_count.get(),
            image: row.image.0.slug,
            ssh_keys: ssh_keys(&row.ssh_public_keys, &row.ssh_key_names),
            ssh_public_keys: row.ssh_public_keys,
            capacity_shape: shape.into(),
            placement: row.constraints.map(|requested| requested.0.into()),
            user_data: user_data(row.user_data_digest, row.user_data_bytes as usize),
        }),
        status: Some(status),
        metadata: Some(common::ResourceMetadata {
            create_time: Some(time(row.created_at)),
            update_time: Some(time(row.updated_at)),
            revision: row.revision,
            labels: row.labels.0.into_iter().collect(),
        }),
        placement: None,
        display_name: row.display_name,
        creator: row.principal,
        termination_protection: row.termination_protection,
        auto_release_time: row.auto_release_at.map(time),
        etag,
    }
}

/// Changes with what a project changes of an allocation; not with its state, which changes by itself.
pub fn etag(row: &Row) -> String {
    etag::of(&pb::UpdateAllocationRequest {
        display_name: Some(row.display_name.clone()),
        termination_protection: Some(row.termination_protection),
        auto_release_time: row.auto_release_at.map(time),
        ..pb::UpdateAllocationRequest::default()
    })
}

/// Slug of the image that the VM is rescued with.
fn rescue_image(row: &Row) -> String {
    let is_of_rescue = matches!(
        row.power.as_deref(),
        Some("rescuing" | "rescued" | "unrescuing")
    );
    let rescue = row.rescue.as_ref().filter(|_| is_of_rescue);
    rescue.map_or_else(String::new, |rescue| rescue.image.slug.clone())
}

/// What is shown of user data; none: there is none.
pub fn user_data(digest: String, bytes: usize) -> Option<pb::AllocationUserData> {
    let size_bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
    (!digest.is_empty()).then_some(pb::AllocationUserData { digest, size_bytes })
}

/// The keys as people know them.
pub fn ssh_keys(lines: &[String], names: &[String]) -> Vec<pb::AllocationSshKey> {
    let key = |(index, line): (usize, &String)| pb::AllocationSshKey {
        name: names.get(index).cloned().unwrap_or_default(),
        fingerprint: ssh::fingerprint_of(line),
    };
    lines.iter().enumerate().map(key).collect()
}

fn conditions(row: &Row, host_replaced: bool) -> Vec<pb::AllocationCondition> {
    let lost = row
        .host_lost_since
        .map(|since| host_lost(since, host_replaced));
    let drift = row.device_drift_since.map(|since| pb::AllocationCondition {
        r#type: drift::DEVICE_DRIFT.to_owned(),
        message: row.device_drift.clone(),
        since: Some(time(since)),
    });
    let by_operator =
        operator_actions::message(row).map(|(condition, message)| pb::AllocationCondition {
            r#type: condition.to_owned(),
            message,
            since: row.operator_at.map(time),
        });
    let is_slice = row.capacity_shape == model::Shape::GpuSlice;
    let ended = matches!(row.state, RowState::Released | RowState::Failed);
    let unchecked = unchecked(is_slice && !row.lab && !ended, &row.image.readiness_checks);
    let unchecked = unchecked.map(|condition| pb::AllocationCondition {
        since: Some(time(row.created_at)),
        ..condition
    });
    let all = lost.into_iter().chain(drift).chain(by_operator);
    all.chain(unchecked).collect()
}

/// The warning about a slice with GPUs whose image names no readiness checks: its VM is active when a login works, whether or
/// not its GPUs do (INC-24).
pub fn unchecked<T>(has_gpus: bool, checks: &[T]) -> Option<pb::AllocationCondition> {
    (has_gpus && checks.is_empty()).then(|| pb::AllocationCondition {
        r#type: "no_readiness_checks".to_owned(),
        message: "Its image names no readiness checks: the VM counts as active although nothing has tried its GPUs. Try them \
                  yourself, or launch with an image that has checks."
            .to_owned(),
        since: None,
    })
}

fn host_lost(since: Timestamp, replaced: bool) -> pb::AllocationCondition {
    let message = if replaced {
        lost::REPLACED
    } else {
        lost::SILENT
    };
    pb::AllocationCondition {
        r#type: lost::HOST_LOST.to_owned(),
        message: message.to_owned(),
        since: Some(time(since)),
    }
}

fn queue(at: QueuePosition) -> pb::QueueStatus {
    pb::QueueStatus {
        position: at.position,
        message: sentence(&at.reason).to_owned(),
        reason: at.reason,
        since: Some(proto_time(at.since)),
        deadline: Some(proto_time(at.deadline)),
    }
}

fn state(state: RowState) -> pb::AllocationState {
    match state {
        RowState::Requested => pb::AllocationState::Requested,
        RowState::Reserved => pb::AllocationState::Reserved,
        RowState::Provisioning => pb::AllocationState::Provisioning,
        RowState::Active => pb::AllocationState::Active,
        RowState::Releasing => pb::AllocationState::Releasing,
        RowState::Released => pb::AllocationState::Released,
        RowState::Failed => pb::AllocationState::Failed,
    }
}

/// What is billed now. Power makes no difference: the GPUs of a stopped allocation are held for it.
fn billing(state: RowState, was_active: bool) -> &'static str {
    match state {
        RowState::Requested | RowState::Reserved | RowState::Provisioning => {
            "Not billed yet. Billing starts when the allocation is active."
        }
        RowState::Active => {
            "Billed, running or stopped, because its GPUs stay allocated. Release it to stop billing."
        }
        RowState::Releasing | RowState::Released if was_active => {
            "Not billed. Billing ended when the release was accepted."
        }
        RowState::Releasing | RowState::Released | RowState::Failed => "Never billed.",
    }
}

fn power(word: Option<&str>) -> pb::PowerState {
    match word {
        Some("running") => pb::PowerState::Running,
        Some("stopping") => pb::PowerState::Stopping,
        Some("stopped") => pb::PowerState::Stopped,
        Some("starting") => pb::PowerState::Starting,
        Some("rebooting") => pb::PowerState::Rebooting,
        Some("rescuing") => pb::PowerState::Rescuing,
        Some("rescued") => pb::PowerState::Rescued,
        Some("unrescuing") => pb::PowerState::Unrescuing,
        _ => pb::PowerState::Unspecified,
    }
}

/// A timeline entry.
pub fn timeline_entry(entry: timeline::Entry) -> pb::TimelineEntry {
    let state = match entry.state.as_str() {
        "running" => pb::TimelineState::Running,
        "failed" => pb::TimelineState::Failed,
        _ => pb::TimelineState::Done,
    };
    let failed = state == pb::TimelineState::Failed;
    let reason = entry
        .error
        .as_ref()
        .and_then(|error| error.get("reason")?.as_str().map(str::to_owned));
    let error = reason
        .filter(|_| failed)
        .map(|reason| failure_status(reason, &entry.message));
    pb::TimelineEntry {
        sequence: entry.sequence,
        time: Some(time(entry.at)),
        step: entry.step,
        state: state.into(),
        percent: u32::try_from(entry.percent).unwrap_or_default(),
        message: entry.message,
        end_time: entry.ended_at.map(time),
        error,
        actor: entry.actor,
        reason: entry.reason,
    }
}

/// The failure of a step with its closed reason. A host's text for operators stays with them (C-21).
fn failure_status(reason: String, message: &str) -> rpc::Status {
    let info = rpc::ErrorInfo {
        reason,
        domain: gpuaas_common::error::DOMAIN.to_owned(),
        metadata: Default::default(),
    };
    let detail = prost_types::Any {
        type_url: "type.googleapis.com/google.rpc.ErrorInfo".to_owned(),
        value: info.encode_to_vec(),
    };
    rpc::Status {
        code: tonic::Code::FailedPrecondition as i32,
        message: message.to_owned(),
        details: vec![detail],
    }
}

/// A mapping as the API shows it.
pub fn ingress_mapping(row: Mapping) -> pb::IngressMapping {
    let state = match row.state.as_str() {
        "active" => pb::IngressMappingState::Active,
        "failed" => pb::IngressMappingState::Failed,
        "deleting" => pb::IngressMappingState::Deleting,
        _ => pb::IngressMappingState::Pending,
    };
    pb::IngressMapping {
        id: row.id.to_string(),
        allocation_id: row.allocation_id.to_string(),
        config: Some(pb::IngressMappingConfig {
            protocol: ingress_protocol(&row.protocol).into(),
            vm_port: row.vm_port.cast_unsigned(),
            external_port: row.requested_port.cast_unsigned(),
            source_cidrs: row.sources,
            expire_time: row.expires_at.map(time),
        }),
        status: Some(pb::IngressMappingStatus {
            state: state.into(),
            external_address: row.external_address,
            external_port: row.external_port.cast_unsigned(),
            failure: row.failure,
        }),
        metadata: Some(common::ResourceMetadata {
            create_time: Some(time(row.created_at)),
            update_time: Some(time(row.updated_at)),
            revision: row.revision,
            labels: Default::default(),
        }),
        creator: row.creator,
    }
}

/// A protocol by its name in the ledger.
pub fn ingress_protocol(name: &str) -> common::IngressProtocol {
    match name {
        "udp" => common::IngressProtocol::Udp,
        _ => common::IngressProtocol::Tcp,
    }
}

/// A claim for administrators (B-30).
pub fn claim(row: model::Claim) -> pb::Claim {
    pb::Claim {
        id: row.id.to_string(),
        kind: row.kind,
        node_id: row.node_id.to_string(),
        slot_id: row.slot_id.map(|id| id.to_string()).unwrap_or_default(),
        slot_index: row
            .slot_index
            .and_then(|n| u32::try_from(n).ok())
            .unwrap_or_default(),
        state: row.state.as_str().to_owned(),
        slot_generation: row.slot_generation,
        bindings: Some(row.snapshot.0.bindings.into()),
        create_time: Some(time(row.created_at)),
    }
}

/// A call to a host for administrators (C-27).
pub fn node_task(row: node_tasks::Task) -> pb::NodeTask {
    pb::NodeTask {
        id: row.id.to_string(),
        r#type: row.task_type,
        state: row.state,
        output: row.output.to_string(),
        create_time: Some(time(row.created_at)),
        end_time: row.ended_at.map(time),
    }
}
