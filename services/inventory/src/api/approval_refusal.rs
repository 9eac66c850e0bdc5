//! Why nothing is approved, as an error for the operator.
use gpuaas_common::drift::Drift;
use gpuaas_common::error::Error;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use tonic::Code;

use crate::domain::candidate::Refusal;

/// The error of a refusal.
pub(super) fn refused(refusal: Refusal) -> Error {
    let precondition =
        |reason, message: String| Error::new(Code::FailedPrecondition, reason, message);
    match refusal {
        Refusal::NothingChosen => Error::required("slot_indexes"),
        Refusal::ChosenTwice(index) => {
            Error::invalid("slot_indexes", format!("names {index} twice"))
        }
        Refusal::NotRequested(index) => Error::invalid(
            "choices",
            format!("must be of slots to approve, each once; slot {index} is not"),
        ),
        Refusal::NoDevice {
            choice,
            field,
            device,
        } => Error::invalid(
            format!("choices[{choice}].{field}"),
            format!("must be a device that the node reports; {device:?} is none"),
        ),
        Refusal::NoCandidate(index) => Error::invalid(
            "slot_indexes",
            format!("the discovery has no candidate {index}"),
        ),
        Refusal::NotSliceMode => precondition(
            ErrorReason::StateConflict,
            "This node is not in slice mode.".to_owned(),
        ),
        Refusal::Stale(why) => precondition(ErrorReason::DiscoveryStale, why.to_owned()),
        Refusal::HostNotReady(blockers) => precondition(
            ErrorReason::HostNotReady,
            format!(
                "The host is not ready: {}. Repair it and discover again.",
                blockers.join(", ")
            ),
        )
        .meta("blockers", blockers.join(",")),
        Refusal::Blocked {
            slot_index,
            blockers,
        } => precondition(
            ErrorReason::CandidateBlocked,
            format!(
                "Candidate {slot_index} cannot be used: {}.",
                blockers.join(", ")
            ),
        )
        .meta("slot_index", slot_index.to_string())
        .meta("blockers", blockers.join(",")),
        Refusal::Incomplete {
            slot_index,
            violations,
        } => {
            let fields: Vec<&str> = violations.iter().map(|violation| violation.field).collect();
            let error = precondition(
                ErrorReason::CandidateIncomplete,
                format!(
                    "Candidate {slot_index} is incomplete: {}.",
                    fields.join(", ")
                ),
            )
            .meta("slot_index", slot_index.to_string());
            violations.iter().fold(error, |error, violation| {
                error.field(
                    format!("candidates[{slot_index}].{}", violation.field),
                    violation.rule,
                )
            })
        }
        Refusal::NoSuchWipe {
            slot_index,
            choice,
            device,
            policy,
            possible,
        } => {
            let (can, rule) = (
                possible.join(" or "),
                format!(
                    "must be {} on disk {device}: its host cannot meet {policy}",
                    possible.join(" or ")
                ),
            );
            let field = "destructive_wipe_policy";
            let error = match choice {
                Some(at) => Error::invalid(format!("choices[{at}].{field}"), rule),
                None => precondition(
                    ErrorReason::CandidateIncomplete,
                    format!(
                        "The host proposes to wipe the disk of candidate {slot_index} by {policy}, and can only do {can}. \
                         Choose another wipe policy."
                    ),
                )
                .field(format!("candidates[{slot_index}].{field}"), rule),
            };
            error
                .meta("slot_index", slot_index.to_string())
                .meta("wipe_policies", possible.join(","))
        }
        Refusal::Changed {
            slot_index,
            differences,
        } => {
            let messages: Vec<String> = differences.iter().map(Drift::message).collect();
            let error = precondition(
                ErrorReason::DiscoveryStale,
                format!(
                    "Candidate {slot_index} is not as it was discovered: {} Discover again.",
                    messages.join(" ")
                ),
            )
            .meta("slot_index", slot_index.to_string());
            differences.iter().fold(error, |error, one| {
                error.field(
                    format!("candidates[{slot_index}].{}", one.field),
                    one.message(),
                )
            })
        }
        Refusal::Shared {
            slot_index,
            other,
            field,
        } => precondition(
            ErrorReason::CandidateBlocked,
            format!("Candidate {slot_index} and slot {other} share the same {field}."),
        )
        .meta("slot_index", slot_index.to_string())
        .field(
            format!("candidates[{slot_index}].{field}"),
            format!("must differ from that of slot {other}"),
        ),
    }
}
