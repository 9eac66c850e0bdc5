//! A reservation as the API shows it: for its answers, and for the digests of audit rows.
use gpuaas_common::time::proto_time;
use gpuaas_proto::gpuaas::scheduler::v1 as pb;

use super::stored::CapacityReservation;
use crate::model::ReservationState;

/// A reservation as a message, without the launches that fit on it.
#[must_use]
pub fn message(row: CapacityReservation) -> pb::CapacityReservation {
    let time = |at: jiff_sqlx::Timestamp| proto_time(at.to_jiff());
    let state = match row.state {
        ReservationState::Scheduled => pb::CapacityReservationState::Scheduled,
        ReservationState::Active if row.missing() > 0 => pb::CapacityReservationState::Gathering,
        ReservationState::Active => pb::CapacityReservationState::Active,
        ReservationState::Ended => pb::CapacityReservationState::Ended,
        ReservationState::Canceled => pb::CapacityReservationState::Canceled,
    };
    pb::CapacityReservation {
        id: row.id.to_string(),
        config: Some(pb::CapacityReservationConfig {
            project_id: row.project_id.to_string(),
            name: row.name,
            region_code: row.region_code,
            sku: row.sku,
            gpu_count: row.gpu_count,
            start_time: Some(time(row.starts_at)),
            end_time: Some(time(row.ends_at)),
            release_unused_after_seconds: row
                .release_unused_after
                .unwrap_or_default()
                .unsigned_abs(),
        }),
        status: Some(pb::CapacityReservationStatus {
            state: state.into(),
            reserved_gpus: number(row.reserved_gpus),
            used_gpus: number(row.used_gpus),
            unused_gpus: number(row.unused_gpus),
            unavailable_gpus: number(row.reserved_gpus - row.used_gpus - row.unused_gpus),
            unused_since: row.unused_since.map(time),
            released_gpus: row.released_gpus,
            reason: row.reason,
            launches: Vec::new(),
        }),
        metadata: Some(pb::CapacityReservationMetadata {
            create_time: Some(time(row.created_at)),
            update_time: Some(time(row.updated_at)),
            end_time: row.ended_at.map(time),
            created_by: row.principal,
            made_by_project: row.made_by_project,
        }),
    }
}

fn number(count: i64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
