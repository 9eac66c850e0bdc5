//! Rows of the ledger as messages.
use gpuaas_common::error::reason_name;
use gpuaas_common::etag;
use gpuaas_common::time::proto_time;
use gpuaas_placement::Reason;
use gpuaas_placement::availability::Availability;
use gpuaas_placement::catalog::Sku;
use gpuaas_placement::convert;
use gpuaas_placement::decision::GpuCount;
use gpuaas_placement::drift::CurrentDrift;
use gpuaas_placement::model::{Price, Slot, SlotClass};
use gpuaas_placement::node_placement::NodePlacement;
use gpuaas_placement::nodes::Node;
use gpuaas_placement::reserve::{Explanation, NodeVerdict};
use gpuaas_placement::{claims, reservations};
use gpuaas_proto::gpuaas::common::v1 as common;
use gpuaas_proto::gpuaas::internal::scheduler::v1 as internal;
use gpuaas_proto::gpuaas::scheduler::v1 as public;
use jiff_sqlx::Timestamp;
use sqlx::PgConnection;

pub(super) fn sku(sku: Sku) -> public::Sku {
    let set = public::Sku {
        code: sku.code,
        display_name: sku.display_name,
        capacity_shape: common::CapacityShape::from(sku.capacity_shape).into(),
        slot_class: sku.slot_class.to_string(),
        allowed_gpu_counts: sku
            .allowed_gpu_counts
            .iter()
            .map(|count| count.get())
            .collect(),
        profile: Some(public::RuntimeProfile {
            name: sku.profile.name,
            vcpus_per_gpu: sku.profile.vcpus_per_gpu.unsigned_abs(),
            memory_mib_per_gpu: sku.profile.memory_mib_per_gpu.unsigned_abs(),
            hugepages: sku.profile.hugepages,
            network_mbps: sku.profile.network_mbps.map(i32::unsigned_abs),
            network_burst_kb: sku.profile.network_burst_kb.map(i32::unsigned_abs),
        }),
        lab: sku.slot_class == SlotClass::Lab,
        disabled: Some(sku.disabled),
        ..public::Sku::default()
    };
    // what billing publishes, and what is reserved, is no change of the SKU
    public::Sku {
        etag: etag::of(&set),
        price_per_gpu_hour: sku.price.as_ref().map(Price::money),
        price_version_id: sku
            .price
            .map(|price| price.version_id.to_string())
            .unwrap_or_default(),
        ..set
    }
}

/// SKUs as operators see them: with the GPUs that capacity reservations have of them.
pub(super) async fn skus_for_operators(
    conn: &mut PgConnection,
    skus: Vec<Sku>,
) -> gpuaas_placement::Result<Vec<public::Sku>> {
    let codes: Vec<&str> = skus.iter().map(|sku| sku.code.as_str()).collect();
    let reserved = reservations::reserved_gpus(conn, &codes).await?;
    let with_reserved = |one: Sku| {
        let reserved_gpus = reserved.get(&one.code).copied().unwrap_or_default();
        public::Sku {
            reserved_gpus,
            ..sku(one)
        }
    };
    Ok(skus.into_iter().map(with_reserved).collect())
}

pub(super) fn availability(row: Availability) -> public::Availability {
    public::Availability {
        region_code: row.region_code,
        sku: row.sku,
        gpu_count: row.gpu_count.get(),
        fits: row.fits,
        reasons: reasons(row.reasons),
    }
}

pub(super) fn reasons(
    causes: impl IntoIterator<Item = impl Into<Reason>>,
) -> Vec<public::UnavailableReason> {
    causes
        .into_iter()
        .map(Into::into)
        .map(|cause: Reason| public::UnavailableReason {
            reason: reason_name(cause.reason).to_owned(),
            gpus: cause.gpus,
            nodes: cause.nodes,
            message: cause.message,
        })
        .collect()
}

pub(super) fn explanation(
    region_code: &str,
    sku: &str,
    gpu_count: GpuCount,
    explanation: Explanation,
) -> public::PlacementExplanation {
    public::PlacementExplanation {
        region_code: region_code.to_owned(),
        sku: sku.to_owned(),
        gpu_count: gpu_count.get(),
        nodes: explanation.nodes,
        nodes_fit: explanation.nodes_fit,
        removed: reasons(explanation.removed),
    }
}

pub(super) fn verdict(verdict: NodeVerdict) -> public::NodeVerdict {
    let (node_id, hostname) = (verdict.node_id.to_string(), verdict.hostname);
    match verdict.outcome {
        Ok(None) => public::NodeVerdict {
            node_id,
            hostname,
            fits: true,
            ..public::NodeVerdict::default()
        },
        Ok(Some(choice)) => public::NodeVerdict {
            node_id,
            hostname,
            fits: true,
            slot_indexes: choice
                .score
                .indexes
                .iter()
                .map(|index| index.unsigned_abs())
                .collect(),
            score: choice
                .score
                .parts()
                .into_iter()
                .map(|(name, value)| public::ScorePart {
                    name: name.to_owned(),
                    value,
                })
                .collect(),
            reasons: Vec::new(),
        },
        Err(causes) => public::NodeVerdict {
            node_id,
            hostname,
            reasons: reasons(causes),
            ..public::NodeVerdict::default()
        },
    }
}

pub(super) fn placement(node: NodePlacement) -> public::NodePlacement {
    let number = |count: i64| u32::try_from(count).unwrap_or(u32::MAX);
    let etag = node.etag();
    public::NodePlacement {
        node_id: node.id.to_string(),
        drained: node.drained(),
        hostname: node.hostname,
        region_code: node.region_code,
        mode: node.mode,
        admin_state: node.admin_state,
        admin_reason: node.admin_reason,
        admin_time: node.admin_at.map(|at| proto_time(at.to_jiff())),
        schedulable: node.schedulable,
        not_schedulable_reason: node.not_schedulable_reason,
        live_claims: number(node.live_claims),
        live_allocations: number(node.live_allocations),
        available_slots: number(node.available_slots),
        generation: node.generation,
        admin_principal: node.admin_by,
        etag,
    }
}

pub(super) fn node(node: Node) -> internal::LedgerNode {
    internal::LedgerNode {
        node_id: node.id.to_string(),
        mode: node.mode,
        admin_state: node.admin_state,
        generation: node.generation,
        ..internal::LedgerNode::default()
    }
}

/// A node with the administrative state that operators gave it.
pub(super) fn node_with_admin_state(
    node: NodePlacement,
    history_at: Option<Timestamp>,
) -> internal::LedgerNode {
    internal::LedgerNode {
        node_id: node.id.to_string(),
        mode: node.mode,
        admin_state: node.admin_state,
        generation: node.generation,
        admin_reason: node.admin_reason,
        admin_principal: node.admin_by,
        admin_time: node.admin_at.map(time),
        live_claims: u32::try_from(node.live_claims).unwrap_or(u32::MAX),
        history_time: history_at.map(time),
        schedulable: node.schedulable,
        not_schedulable_reason: node.not_schedulable_reason,
    }
}

pub(super) fn time(at: Timestamp) -> prost_types::Timestamp {
    proto_time(at.to_jiff())
}

pub(super) fn slot(slot: Slot) -> internal::LedgerSlot {
    let etag = slot.etag();
    internal::LedgerSlot {
        id: slot.id.to_string(),
        node_id: slot.node_id.to_string(),
        slot_index: slot.slot_index.unsigned_abs(),
        slot_class: slot.class.to_string(),
        status: convert::slot_status(slot.status).into(),
        health_state: convert::health_state(slot.health_state).into(),
        health_detail: slot.health_detail,
        disabled: slot.disabled,
        generation: slot.generation,
        bindings: Some(slot.bindings.into()),
        allocation_id: slot
            .allocation_id
            .map(|id| id.to_string())
            .unwrap_or_default(),
        update_time: Some(proto_time(slot.updated_at.to_jiff())),
        clean_evidence: slot.clean_evidence.unwrap_or_default(),
        clean_generation: slot.clean_generation.unwrap_or_default(),
        drift: slot.drift.iter().map(CurrentDrift::to_proto).collect(),
        etag,
        project_id: slot.project_id.map(|id| id.to_string()).unwrap_or_default(),
        storage_ownership: slot.storage_ownership,
        storage_mode: slot.storage_mode,
        storage_transition_manifest: slot.storage_transition_manifest,
    }
}

pub(super) fn slots(rows: Vec<Slot>, epochs: claims::Epochs) -> internal::ListSlotsResponse {
    internal::ListSlotsResponse {
        node: None,
        slots: rows.into_iter().map(slot).collect(),
        cell_epoch: epochs.cell.unsigned_abs(),
        workflow_epoch: epochs.workflow.unsigned_abs(),
        left_by_tenants: Vec::new(),
        next_page_token: String::new(),
    }
}
