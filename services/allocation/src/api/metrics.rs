//! What was measured of an allocation's VM (D-90), as its host has it. Nothing of it is kept here.
use std::time::Duration;

use gpuaas_common::identity::Caller;
use gpuaas_common::{Error, id};
use gpuaas_placement::model::{AllocationState, Shape};
use gpuaas_proto::gpuaas::agent::v1 as agent;
use gpuaas_proto::gpuaas::agent::v1::virtual_machines_client::VirtualMachinesClient;
use gpuaas_proto::gpuaas::allocation::v1 as pb;
use gpuaas_proto::gpuaas::common::v1::GuestMetricsState;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use jiff::{SignedDuration, Timestamp};
use tonic::{Code, Status};
use uuid::Uuid;

use crate::store::owned::owned;
use crate::workflow::Deps;
use crate::workflow::host::Host;

/// Longest time until a host has answered.
const ANSWER: Duration = Duration::from_secs(10);
/// Without a start.
const SPAN: SignedDuration = SignedDuration::from_hours(1);
/// Steps of an answer without a length of them, at most.
const STEPS: i64 = 240;
/// What such a length is a multiple of, in seconds.
const STEP: i64 = 15;
/// Most steps of an answer.
const MOST_STEPS: i64 = 1500;

/// A time in steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range {
    start: Timestamp,
    end: Timestamp,
    step_seconds: u32,
}

/// The series of an allocation of the caller's projects.
///
/// # Errors
/// There is no such allocation, or it has no VM; a time that is refused; the host does not answer; the database.
pub async fn get(
    deps: &Deps,
    caller: &Caller,
    request: &pb::GetAllocationMetricsRequest,
) -> Result<pb::AllocationMetrics, Error> {
    let id = id::parse("allocation_id", &request.allocation_id)?;
    let range = range(request, Timestamp::now())?;
    let (mut host, has_gpus) = host_of(deps, caller, id).await?;
    let reading = agent::ReadMetricsRequest {
        allocation_id: id.to_string(),
        start_time: Some(wire(range.start)),
        end_time: Some(wire(range.end)),
        step_seconds: range.step_seconds,
    };
    let answered = tokio::time::timeout(ANSWER, host.read_metrics(reading)).await;
    let answered = answered.unwrap_or_else(|_| Err(Status::unavailable("no answer in time")));
    let measured = answered.map_err(refused)?.into_inner();
    let state = measured.guest_state();
    Ok(pb::AllocationMetrics {
        allocation_id: id.to_string(),
        step_seconds: measured.step_seconds,
        series: measured.series,
        guest_state: state.into(),
        guest_message: guest_message(state, has_gpus).to_owned(),
    })
}

/// The host that the VM is on, and whether the VM has GPUs.
async fn host_of(
    deps: &Deps,
    caller: &Caller,
    id: Uuid,
) -> Result<
    (
        VirtualMachinesClient<gpuaas_common::client::GrpcChannel>,
        bool,
    ),
    Error,
> {
    let mut conn = deps.pool.acquire().await?;
    let (allocation, _) = owned(&mut conn, caller, id).await?;
    if allocation.capacity_shape == Shape::Baremetal {
        return Err(none(
            "The allocation is bare metal, for which there are no metrics.",
        ));
    }
    if allocation.state != AllocationState::Active {
        return Err(none(
            "The allocation is not active. Its VM is measured while it is.",
        ));
    }
    let no_vm = || none("The allocation has no VM.");
    let (host, claims) = Host::placed_on(deps, &mut conn, id, no_vm).await?;
    let has_gpus = claims
        .iter()
        .any(|claim| !claim.snapshot.bindings.gpu_pci_address.is_empty());
    Ok((host, has_gpus))
}

/// The time that a request names.
fn range(request: &pb::GetAllocationMetricsRequest, now: Timestamp) -> Result<Range, Error> {
    let end = time("end_time", request.end_time.as_ref())?.unwrap_or(now);
    let start = match time("start_time", request.start_time.as_ref())? {
        Some(start) => start,
        None => end.checked_sub(SPAN).unwrap_or(Timestamp::MIN),
    };
    let seconds = end.duration_since(start).as_secs();
    if end <= start {
        return Err(Error::invalid("start_time", "must be before the end"));
    }
    let step = match i64::from(request.step_seconds) {
        0 => {
            (seconds.div_euclid(STEPS * STEP) + i64::from(seconds % (STEPS * STEP) > 0)).max(1)
                * STEP
        }
        given => given,
    };
    if request.step_seconds > 0 && seconds / step > MOST_STEPS {
        let rule = format!("must give at most {MOST_STEPS} steps");
        return Err(Error::invalid("step_seconds", rule));
    }
    Ok(Range {
        start,
        end,
        step_seconds: u32::try_from(step).unwrap_or(u32::MAX),
    })
}

fn time(
    field: &'static str,
    given: Option<&prost_types::Timestamp>,
) -> Result<Option<Timestamp>, Error> {
    let parse = |time: &prost_types::Timestamp| Timestamp::new(time.seconds, time.nanos);
    let parsed = given.map(parse).transpose();
    parsed.map_err(|_| Error::invalid(field, "must be a time"))
}

fn wire(time: Timestamp) -> prost_types::Timestamp {
    prost_types::Timestamp {
        seconds: time.as_second(),
        nanos: time.subsec_nanosecond(),
    }
}

fn none(message: &str) -> Error {
    Error::new(
        Code::FailedPrecondition,
        ErrorReason::MetricsUnavailable,
        message,
    )
}

/// A host's refusal as its tenant gets it.
fn refused(status: Status) -> Error {
    if status.code() == Code::Unimplemented {
        return none("The agent of the allocation's host is too old to measure VMs.");
    }
    let error = Error::from(status);
    match error.reason() {
        ErrorReason::MetricsUnavailable => none("The allocation's host has no VM of it."),
        ErrorReason::FieldInvalid | ErrorReason::Overloaded => error,
        _ => {
            tracing::warn!("cannot read the metrics of a VM: {}", error.chain());
            Error::new(
                Code::Unavailable,
                ErrorReason::HostUnreachable,
                "The allocation's host does not answer. Try again later.",
            )
        }
    }
}

/// Why memory or GPUs are missing. A VM that has no GPUs lacks nothing where its guest reports none.
fn guest_message(state: GuestMetricsState, has_gpus: bool) -> &'static str {
    match state {
        GuestMetricsState::Complete => "",
        GuestMetricsState::NoGpuTool | GuestMetricsState::GpuToolFailed if !has_gpus => "",
        GuestMetricsState::Unspecified => {
            "The VM was not queried for its memory and GPUs yet. This takes about a minute after its start."
        }
        GuestMetricsState::NoGpuTool => {
            "No GPU metrics: nvidia-smi is not installed in the VM. Install the NVIDIA driver, or launch an image that has it."
        }
        GuestMetricsState::GpuToolFailed => {
            "No GPU metrics: nvidia-smi fails in the VM. Run it there to see why."
        }
        GuestMetricsState::NoLogin => {
            "No memory and GPU metrics: the VM does not let its host log in. Its user and the platform's key must stay in the VM."
        }
        GuestMetricsState::TooSlow => {
            "No memory and GPU metrics: the VM does not answer its host in time. Check its load."
        }
        GuestMetricsState::Malformed => {
            "No memory and GPU metrics: the VM's answer to its host cannot be read. The shell of its user must run commands and print nothing of its own."
        }
        GuestMetricsState::Off => {
            "No memory and GPU metrics: the operator of the host has turned them off."
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_800_000_000;

    fn at(second: i64) -> prost_types::Timestamp {
        prost_types::Timestamp {
            seconds: second,
            nanos: 0,
        }
    }

    fn of(start: Option<i64>, end: Option<i64>, step_seconds: u32) -> Result<Range, Error> {
        let request = pb::GetAllocationMetricsRequest {
            allocation_id: String::new(),
            start_time: start.map(at),
            end_time: end.map(at),
            step_seconds,
        };
        range(&request, Timestamp::from_second(NOW).expect("a time"))
    }

    #[test]
    fn d_90_without_a_time_it_is_the_last_hour_in_at_most_240_steps() {
        let hour = of(None, None, 0).expect("a range");
        assert_eq!(hour.start.as_second(), NOW - 3600);
        assert_eq!((hour.end.as_second(), hour.step_seconds), (NOW, 15));
        for (seconds, step) in [(1, 15), (900, 15), (3600, 15), (3601, 30), (86_400, 360)] {
            let range = of(Some(NOW - seconds), None, 0).expect("a range");
            assert_eq!(range.step_seconds, step, "{seconds}");
        }
        let long = of(Some(0), None, 0).expect("a range");
        assert!(i64::from(long.step_seconds) * STEPS >= NOW);
    }

    #[test]
    fn d_90_a_time_that_is_wrong_is_refused_by_field() {
        let field = |refused: Result<Range, Error>| {
            let refused = refused.expect_err("refused");
            assert_eq!(refused.reason(), ErrorReason::FieldInvalid);
            refused.fields()[0].0.clone()
        };
        assert_eq!(field(of(Some(NOW), None, 0)), "start_time");
        assert_eq!(field(of(Some(NOW + 5), None, 0)), "start_time");
        assert_eq!(field(of(Some(i64::MAX), None, 0)), "start_time");
        assert_eq!(field(of(None, Some(i64::MIN), 0)), "end_time");
        assert_eq!(field(of(None, None, 2)), "step_seconds");
        assert!(of(None, None, 3).is_ok());
    }

    #[test]
    fn d_90_every_state_of_a_guest_but_a_complete_one_says_what_is_missing() {
        for number in 0.. {
            let Ok(state) = GuestMetricsState::try_from(number) else {
                assert!(number > 7);
                break;
            };
            let message = guest_message(state, true);
            assert_eq!(message.is_empty(), state == GuestMetricsState::Complete);
        }
    }

    #[test]
    fn d_90_a_vm_without_gpus_gets_no_note_about_their_tool() {
        for number in 0..=7 {
            let state = GuestMetricsState::try_from(number).expect("a state");
            let message = guest_message(state, false);
            assert!(!message.contains("nvidia-smi"), "{message}");
            let of_gpus = [
                GuestMetricsState::NoGpuTool,
                GuestMetricsState::GpuToolFailed,
            ];
            if !of_gpus.contains(&state) {
                assert_eq!(message, guest_message(state, true));
            }
        }
    }
}
