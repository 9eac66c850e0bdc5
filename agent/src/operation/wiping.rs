//! Wipe and proof of the slots' disks, and the evidence and certificates that come of them (P2, D-74..D-78).
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use gpuaas_proto::gpuaas::agent::v1 as pb;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_wipe_certificate::{Device, ERASED, Statement, VERSION, Verification};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::work::{Done, Slot, Work};
use crate::disk::policy::WipePolicy;
use crate::disk::signatures::{LIMIT, signatures};
use crate::disk::verify::{CHUNK, VerifyLimits, ranges, read_zero};
use crate::disk::wipe::{WipeJob, Wiped};
use crate::disk::wipe_log::{Note, WipeLog};
use crate::disk::{ExclusiveDisk, Intent, ProvenDisk, passthrough};
use crate::error::{HostError, HostResult};
use crate::settings::WipeVerification;
use crate::wall_clock::{now_ms, timestamp};

/// How long a proven wipe waits for a clock by which it can be certified.
const CLOCK_TIMEOUT: Duration = Duration::from_secs(30 * 60);

/// What the step `wipe` has noted of every slot, by its id. It lies where the step's output comes to lie.
struct Notes<'a> {
    work: &'a Work,
    slots: Mutex<Map<String, Value>>,
}

impl<'a> Notes<'a> {
    fn of(work: &'a Work) -> Self {
        let noted = work.operation.output("wipe").as_object();
        Self {
            work,
            slots: Mutex::new(noted.cloned().unwrap_or_default()),
        }
    }

    fn get(&self, slot: &Slot, member: &str) -> Option<Value> {
        let slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        slots.get(&slot.id.to_string())?.get(member).cloned()
    }

    fn set(&self, slot: &Slot, member: &str, value: Value) -> HostResult<()> {
        let all = {
            let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
            let own = slots.entry(slot.id.to_string()).or_insert(json!({}));
            own[member] = value;
            Value::Object(slots.clone())
        };
        let Work {
            node, operation, ..
        } = self.work;
        node.journal.note(operation.id, self.work.step, &all)
    }
}

struct SlotLog<'a> {
    notes: &'a Notes<'a>,
    slot: &'a Slot,
}

impl WipeLog for SlotLog<'_> {
    fn noted(&self) -> Option<Note> {
        // what an agent of another version noted is no help
        serde_json::from_value(self.notes.get(self.slot, "note")?).ok()
    }

    fn note(&self, note: Note) -> HostResult<()> {
        self.notes.set(self.slot, "note", json!(note))
    }

    fn progress(&self, percent: u32, message: &str) {
        self.notes.work.progress(percent, message);
    }
}

/// Wipes the disk of every slot. A slot that an earlier run of this step came to the end of is not wiped again.
pub async fn wipe(work: &Work) -> HostResult<Done> {
    let notes = Notes::of(work);
    let (mut wiped, mut how) = (Vec::new(), Vec::new());
    for slot in work.slots()? {
        if let Some(done) = notes.get(&slot, "done") {
            how.push(format!("{}: wiped before", slot.bindings.nvme_device));
            passthrough::forget(&work.node, &slot.bindings.nvme_device)?;
            wiped.push(done);
            continue;
        }
        let policy: WipePolicy = slot.bindings.destructive_wipe_policy.parse()?;
        let disk = work.prove(&slot, work.wiping(&slot)?).await?;
        passthrough::check(&work.node, &disk).await?;
        let disk = work.node.probe.open_exclusively(disk).await?;
        let start = match notes.get(&slot, "start") {
            Some(start) => start,
            None => json!(now_ms()),
        };
        notes.set(&slot, "start", start.clone())?;
        let log = SlotLog {
            notes: &notes,
            slot: &slot,
        };
        let job = WipeJob {
            disk: &disk,
            slot: slot.id,
            policy,
            limit: work.remaining(),
            log: &log,
        };
        let Wiped {
            method,
            how: reported,
        } = work.node.wiper.wipe(job).await?;
        how.push(format!("{}: {reported}", disk.identity()));
        let done = json!({ "start": start, "at": now_ms(), "method": method });
        notes.set(&slot, "done", done.clone())?;
        passthrough::forget(&work.node, &slot.bindings.nvme_device)?;
        wiped.push(done);
    }
    Ok(Done::giving(how.join("; "), Value::Array(wiped)))
}

/// How the step `wipe` ended for a slot. An agent of before it told of methods recorded the time alone.
struct WipeRecord {
    start_ms: i64,
    end_ms: i64,
    method: String,
}

impl WipeRecord {
    fn of(work: &Work, index: usize) -> HostResult<Self> {
        let value = &work.operation.output("wipe")[index];
        let end_ms = value.as_i64().or_else(|| value["at"].as_i64());
        let end_ms = end_ms.ok_or_else(|| HostError::internal("journal holds no end of a wipe"))?;
        Ok(Self {
            start_ms: value["start"].as_i64().unwrap_or(end_ms),
            end_ms,
            method: value["method"].as_str().unwrap_or_default().to_owned(),
        })
    }
}

/// Proves the disk of every slot empty, and certifies that.
pub async fn verify_wipe(work: &Work) -> HostResult<Done> {
    let mut evidence = Vec::new();
    for (index, slot) in work.slots()?.into_iter().enumerate() {
        let disk = work.prove(&slot, Intent::Verify).await?;
        let opened = work.node.probe.open_exclusively(disk.clone()).await?;
        let verified = verify(work, &opened).await?;
        drop(opened);
        until_clock_counts(work).await?;
        let at = now_ms();
        let record = WipeRecord::of(work, index)?;
        let certificate = certify(work, &slot, &disk, &record, verified, at);
        evidence.push(json!({
            "bytes": disk.bytes(), "verified": verified, "at": at, "certificate": certificate,
        }));
    }
    Ok(Done::giving(
        "the disk is proven empty",
        Value::Array(evidence),
    ))
}

/// Waits until what this host signs counts: a clock that stands outside the time of its certificate is a condition of the
/// host, and most often one that its time service ends. A host without a certificate signs nothing and waits for nothing.
async fn until_clock_counts(work: &Work) -> HostResult<()> {
    let Some(signer) = &work.node.signer else {
        return Ok(());
    };
    let clock = &work.node.clock;
    let timeout = clock.now().plus(CLOCK_TIMEOUT.min(work.remaining() / 2));
    while let Some(why) = signer
        .validity()
        .and_then(|validity| validity.refuses(Timestamp::now()))
    {
        if timeout.remaining(&clock.now()).is_zero() {
            return Err(HostError::host(ErrorReason::HostClockSkewed, why));
        }
        work.progress(100, &why);
        tokio::time::sleep(work.node.settings.polling.undo()).await;
    }
    Ok(())
}

/// The certificate of a wipe that was proven. One that cannot be signed is no reason to withhold a clean disk: the proof
/// goes to the control plane all the same, on this host's own connection.
fn certify(
    work: &Work,
    slot: &Slot,
    disk: &ProvenDisk,
    record: &WipeRecord,
    verified: u64,
    verified_ms: i64,
) -> String {
    let Some(signer) = &work.node.signer else {
        return String::new();
    };
    let read = |file: &str| {
        let path = format!("/sys/class/block/{}/{file}", disk.name());
        work.node.root.read_value(path).unwrap_or_default()
    };
    let at = |ms| Timestamp::from_millisecond(ms).unwrap_or_default();
    // a clock that was set back meanwhile must not make the order of things a lie
    let end_ms = record.end_ms.max(record.start_ms);
    let verified_ms = verified_ms.max(end_ms);
    let whole = verified == disk.bytes();
    let statement = Statement {
        version: VERSION,
        slot_id: slot.id.to_string(),
        generation: slot.token.slot_generation,
        allocation_id: work.operation.allocation.to_string(),
        node_id: String::new(),
        instance_id: String::new(),
        device: Device {
            identity: slot.bindings.nvme_device.clone(),
            serial: read("device/serial").trim().to_owned(),
            model: read("device/model").trim().to_owned(),
            wwid: read("wwid").trim().to_owned(),
            bytes: disk.bytes(),
        },
        policy: slot.bindings.destructive_wipe_policy.clone(),
        method: record.method.clone(),
        start_time: at(record.start_ms),
        end_time: at(end_ms),
        verification: Verification {
            scope: if whole { "whole" } else { "samples" }.to_owned(),
            verified_bytes: verified,
            no_signatures: true,
            end_time: at(verified_ms),
        },
        result: ERASED.to_owned(),
        sign_time: at(now_ms().max(verified_ms)),
        key_id: String::new(),
    };
    signer.certify(statement).unwrap_or_else(|error| {
        tracing::error!(operation_id = %work.operation.id, slot_id = %slot.id,
            "cannot certify the wipe: {error:#}");
        String::new()
    })
}

/// Reads the disk back; returns how many bytes were zero. Nothing may use a disk that is being proven empty.
async fn verify(work: &Work, disk: &ExclusiveDisk) -> HostResult<u64> {
    let not_proven = |what: String| {
        HostError::device(
            ErrorReason::WipeNotProven,
            format!("disk {}: {what}", disk.identity()),
        )
    };
    let found = signatures(&disk.device(), LIMIT).await?;
    if !found.is_empty() {
        return Err(not_proven(format!(
            "signatures are left: {}",
            found.join(", ")
        )));
    }
    if !disk.partitions().is_empty() {
        return Err(not_proven(format!(
            "partitions are left: {}",
            disk.partitions().join(", ")
        )));
    }
    let settings = &work.node.settings;
    let limits = VerifyLimits {
        full_bytes: match settings.wipe.verify {
            WipeVerification::Samples => settings.limits.full_verify_bytes,
            WipeVerification::Whole => u64::MAX,
        },
        sample_bytes: settings.limits.sample_verify_bytes,
    };
    let pieces = ranges(disk.bytes(), limits, random_places(limits.sample_bytes)?);
    let open = disk.share()?;
    let (report, mut progress) = tokio::sync::watch::channel(0_u32);
    let reading = tokio::task::spawn_blocking(move || {
        read_zero(&open, &pieces, |percent| {
            report.send_if_modified(|last| std::mem::replace(last, percent) != percent);
            !report.is_closed()
        })
    });
    while progress.changed().await.is_ok() {
        let percent = *progress.borrow_and_update();
        work.progress(percent, "reading the disk back");
    }
    let verified = reading
        .await
        .map_err(|_| HostError::internal("reading the disk back was broken off"))?;
    verified.map_err(|error| HostError {
        message: format!("disk {}: {error}", disk.identity()),
        ..error
    })
}

/// The evidence that the steps' outputs add up to.
pub fn result(work: &Work) -> HostResult<pb::HostOperation> {
    let verified = work.operation.output("verify_wipe");
    let faults = work.operation.output("reset_devices");
    let mut wipe_evidence = Vec::new();
    for (index, slot) in work.slots()?.into_iter().enumerate() {
        let proof = &verified[index];
        let record = WipeRecord::of(work, index)?;
        wipe_evidence.push(pb::WipeEvidence {
            slot_id: slot.id.to_string(),
            token: Some(slot.token.into()),
            policy: slot.bindings.destructive_wipe_policy.clone(),
            disk_identity: slot.bindings.nvme_device.clone(),
            disk_bytes: proof["bytes"].as_u64().unwrap_or(0),
            verified_bytes: proof["verified"].as_u64().unwrap_or(0),
            no_signatures: true,
            wipe_time: Some(timestamp(record.end_ms)),
            verify_time: proof["at"].as_i64().map(timestamp),
            erase_method: record.method,
            certificate: proof["certificate"].as_str().unwrap_or_default().to_owned(),
            device_fault: faults[slot.id.to_string()]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
        });
    }
    Ok(pb::HostOperation {
        wipe_evidence,
        ..pb::HostOperation::default()
    })
}

/// Random offsets for samples, since guessable ones would let a cheating disk blank only those. Twice as many as
/// samples, since some repeat.
fn random_places(sample_bytes: u64) -> HostResult<Vec<u64>> {
    let count = usize::try_from(sample_bytes / CHUNK * 2).unwrap_or(0);
    let mut bytes = vec![0_u8; count * 8];
    getrandom::fill(&mut bytes)
        .map_err(|error| HostError::internal(format!("no randomness: {error}")))?;
    let (words, _) = bytes.as_chunks::<8>();
    Ok(words.iter().map(|word| u64::from_le_bytes(*word)).collect())
}
