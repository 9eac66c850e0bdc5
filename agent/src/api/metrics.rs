//! `ReadMetrics`: what was measured of the VM of an allocation (D-90).
use gpuaas_proto::gpuaas::agent::v1 as pb;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;

use crate::error::{HostError, HostResult};
use crate::ids::AllocationId;
use crate::node::Node;
use crate::telemetry::message;

/// Most steps of an answer.
const MOST_STEPS: i64 = 1500;

/// Answers a request.
///
/// # Errors
/// A field that is wrong; a VM that this host holds nothing for.
pub fn read(node: &Node, request: &pb::ReadMetricsRequest) -> HostResult<pb::ReadMetricsResponse> {
    let allocation: AllocationId = request.allocation_id.parse()?;
    let start_ms = milliseconds("start_time", request.start_time.as_ref())?;
    let end_ms = milliseconds("end_time", request.end_time.as_ref())?;
    if end_ms <= start_ms {
        return Err(HostError::invalid("end_time", "must be after the start"));
    }
    if request.step_seconds == 0 {
        return Err(HostError::invalid("step_seconds", "must be at least 1"));
    }
    let pause = node.telemetry.pause().as_secs();
    let step = i64::from(request.step_seconds).max(i64::try_from(pause).unwrap_or(i64::MAX));
    if end_ms.saturating_sub(start_ms) / step.saturating_mul(1000) > MOST_STEPS {
        let rule = format!("must give at most {MOST_STEPS} steps");
        return Err(HostError::invalid("step_seconds", rule));
    }
    let holds = node.journal.holds()?;
    if !holds.iter().any(|hold| hold.allocation == allocation) {
        return Err(HostError::host(
            ErrorReason::MetricsUnavailable,
            "this host holds nothing for the allocation",
        ));
    }
    let measured = node
        .telemetry
        .read(allocation, start_ms, end_ms, step.saturating_mul(1000));
    Ok(pb::ReadMetricsResponse {
        series: measured.series.into_iter().map(message).collect(),
        guest_state: measured.guest.into(),
        step_seconds: u32::try_from(step).unwrap_or(u32::MAX),
    })
}

fn milliseconds(field: &'static str, time: Option<&prost_types::Timestamp>) -> HostResult<i64> {
    let wrong = || HostError::invalid(field, "must be a time");
    let time = time.ok_or_else(wrong)?;
    jiff::Timestamp::new(time.seconds, time.nanos)
        .map(jiff::Timestamp::as_millisecond)
        .map_err(|_| wrong())
}
