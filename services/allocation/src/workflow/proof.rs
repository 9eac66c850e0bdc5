//! The proof that slots are empty: judged when the host has wiped them, recorded, and read again for the ledger.

use gpuaas_placement::model::{EvidenceKind, SlotEvidence};
use gpuaas_proto::gpuaas::agent::v1::{FailureClass, HostOperation, WipeEvidence};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use serde_json::{Value, json};
use uuid::Uuid;

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
            "" => &proof.policy,
            done => done,
        };
        Ok(json!({
            "slot_id": expected.slot_id, "generation": expected.generation, "method": method,
            "detail": detail, "device_fault": proof.device_fault,
        }))
    };
    subject.expected_wipes().iter().map(judged).collect()
}

/// What a step recorded of the slots, for the ledger.
#[derive(Debug)]
pub struct Recorded {
    /// The evidence of those that may be allocated.
    pub proofs: Vec<SlotEvidence>,
    /// Those whose disk is empty and whose device did not come back from its reset, and why.
    pub faulty: Vec<(Uuid, String)>,
}

/// What a step recorded.
///
/// # Errors
/// The record is not as this program writes it.
pub fn recorded(work: &Work, step: &str) -> Result<Recorded, StepError> {
    work.outputs.get(step).and_then(parse).ok_or_else(|| {
        StepError::fail(
            ErrorReason::WipeNotProven,
            "the step recorded no evidence",
            FailureClass::Host,
        )
    })
}

fn parse(output: &Value) -> Option<Recorded> {
    let rows = output.get("evidence")?.as_array()?;
    let (mut proofs, mut faulty) = (Vec::new(), Vec::new());
    for row in rows {
        let slot_id = row.get("slot_id")?.as_str()?.parse().ok()?;
        // a release of before this field recorded none
        let fault = row.get("device_fault").and_then(Value::as_str);
        match fault.filter(|fault| !fault.is_empty()) {
            Some(fault) => faulty.push((slot_id, fault.to_owned())),
            None => proofs.push(SlotEvidence {
                slot_id,
                generation: row.get("generation")?.as_i64()?,
                kind: EvidenceKind::Wiped,
                method: row.get("method")?.as_str()?.to_owned(),
                detail: row.get("detail")?.clone(),
            }),
        }
    }
    (!rows.is_empty()).then_some(Recorded { proofs, faulty })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p2_a_slot_whose_device_was_not_reset_is_no_proof() {
        let (good, bad) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let row = |slot: Uuid, fault: &str| json!({ "slot_id": slot, "generation": 7, "method": "blkdiscard", "detail": {}, "device_fault": fault });
        let mut rows = json!([row(good, ""), row(bad, "DEVICE_RESET_FAILED: device X")]);
        let found = parse(&json!({ "evidence": rows })).expect("as written");
        let proven: Vec<Uuid> = found.proofs.iter().map(|proof| proof.slot_id).collect();
        assert_eq!(proven, [good]);
        assert_eq!(
            found.faulty,
            [(bad, "DEVICE_RESET_FAILED: device X".to_owned())]
        );

        // as a release of before the field recorded it
        rows[0]
            .as_object_mut()
            .expect("a row")
            .remove("device_fault");
        let older = parse(&json!({ "evidence": rows })).expect("as written before");
        assert_eq!((older.proofs.len(), older.faulty), (1, found.faulty));
        assert!(parse(&json!({ "evidence": [] })).is_none());
        rows[0]["slot_id"] = "nonsense".into();
        assert!(parse(&json!({ "evidence": rows })).is_none());
    }
}
