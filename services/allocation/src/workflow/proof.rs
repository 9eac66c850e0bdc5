//! The proof that slots are empty: judged when the host has wiped them, recorded, and read again for the ledger.

use gpuaas_placement::model::{EvidenceKind, SlotEvidence};
use gpuaas_proto::gpuaas::agent::v1::{FailureClass, HostOperation, WipeEvidence};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use serde_json::{Value, json};

use super::failure::StepError;
use super::operation::evidence;
use super::subject::Subject;
use super::work::Work;
use crate::domain::wipe::{self, Certificate};

/// The evidence of every slot, judged by the control plane (P2, C-10, C-11).
///
/// # Errors
/// A slot is not proven empty.
pub fn proven(
    work: &Work,
    subject: &Subject,
    operation: &HostOperation,
) -> Result<Vec<Value>, StepError> {
    let thoroughness = work.deps.config.thoroughness();
    let judged = |expected: &wipe::ExpectedWipe| -> Result<Value, StepError> {
        let refuse = |why: String| {
            let message = format!("slot {}: {why}", expected.slot_id);
            StepError::fail(ErrorReason::WipeNotProven, message, FailureClass::Device)
        };
        let proof: &WipeEvidence =
            wipe::judge(expected, thoroughness, &operation.wipe_evidence).map_err(refuse)?;
        let certificate =
            wipe::check_certificate(expected, proof, &work.deps.host_authority).map_err(refuse)?;
        let mut detail = evidence(proof);
        match certificate {
            Certificate::None => {}
            Certificate::Verified => detail["certificate"] = proof.certificate.as_str().into(),
            Certificate::OfWrongClock(why) => {
                tracing::warn!(workflow_id = %work.taken.id, slot_id = expected.slot_id, "drop a wipe certificate: {why}");
                detail["certificate_refused"] = why.into();
            }
        }
        // what was done; an agent of before it told of that did what the policy names
        let method = match proof.erase_method.as_str() {
            "" => &proof.method,
            done => done,
        };
        Ok(json!({
            "slot_id": expected.slot_id, "generation": expected.generation, "method": method,
            "detail": detail,
        }))
    };
    subject.expected_wipes().iter().map(judged).collect()
}

/// The evidence a step recorded, for the ledger.
///
/// # Errors
/// The record is not as this program writes it.
pub fn recorded(work: &Work, step: &str) -> Result<Vec<SlotEvidence>, StepError> {
    let rows = work
        .outputs
        .get(step)
        .and_then(|output| output.get("evidence"))
        .and_then(Value::as_array);
    let parse = |row: &Value| {
        Some(SlotEvidence {
            slot_id: row.get("slot_id")?.as_str()?.parse().ok()?,
            generation: row.get("generation")?.as_i64()?,
            kind: EvidenceKind::Wiped,
            method: row.get("method")?.as_str()?.to_owned(),
            detail: row.get("detail")?.clone(),
        })
    };
    rows.and_then(|rows| rows.iter().map(parse).collect::<Option<Vec<_>>>())
        .filter(|rows| !rows.is_empty())
        .ok_or_else(|| {
            StepError::fail(
                ErrorReason::WipeNotProven,
                "the step recorded no evidence",
                FailureClass::Host,
            )
        })
}
