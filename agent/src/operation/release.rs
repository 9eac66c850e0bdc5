//! Release, clean-up and repair: from a VM to a clean disk.
use std::time::Duration;

use futures::FutureExt;
use gpuaas_proto::gpuaas::agent::v1 as pb;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use serde_json::{Value, json};

use super::remove;
use super::work::{Done, StepDef, Work};
use crate::disk::signatures::signatures;
use crate::disk::verify::{CHUNK, VerifyLimits, ranges, read_zero};
use crate::disk::wipe::WipePolicy;
use crate::disk::{Intent, ProvenDisk};
use crate::error::{HostError, HostResult};
use crate::journal::Kind;
use crate::node::{now_ms, timestamp};
use crate::vm::PowerState;

/// A guest that still boots misses the first press of its power button.
const PRESS_AGAIN: Duration = Duration::from_secs(5);

/// Shuts the guest down, and stops it hard when it does not end in time.
pub const STOP: StepDef = StepDef {
    name: "stop",
    run: |work| stop(work).boxed(),
    undo: None,
};
const UNDEFINE: StepDef = StepDef {
    name: "undefine",
    run: |work| undefine(work).boxed(),
    undo: None,
};
const REMOVE_RESERVATION: StepDef = StepDef {
    name: "remove_reservation",
    run: |work| remove_reservation(work).boxed(),
    undo: None,
};
const WIPE: StepDef = StepDef {
    name: "wipe",
    run: |work| wipe(work).boxed(),
    undo: None,
};
const VERIFY_WIPE: StepDef = StepDef {
    name: "verify_wipe",
    run: |work| verify_wipe(work).boxed(),
    undo: None,
};

/// Stop, remove, wipe, prove.
pub const RELEASE: &[StepDef] = &[STOP, UNDEFINE, REMOVE_RESERVATION, WIPE, VERIFY_WIPE];
/// Stop hard and remove; the disk stays as it is.
pub const CLEAN_UP: &[StepDef] = &[STOP, UNDEFINE, REMOVE_RESERVATION];
/// Prove unused, wipe, prove empty (CON-25).
pub const REPAIR: &[StepDef] = &[
    StepDef {
        name: "prove_disk",
        run: |work| prove_unused(work).boxed(),
        undo: None,
    },
    REMOVE_RESERVATION,
    WIPE,
    VERIFY_WIPE,
];

/// How long the caller lets the guest shut down by itself.
fn graceful_timeout(work: &Work) -> HostResult<Option<prost_types::Duration>> {
    Ok(if work.operation.kind == Kind::Release {
        work.request::<pb::ReleaseRequest>()?.graceful_timeout
    } else {
        work.request::<pb::PowerRequest>()?.graceful_timeout
    })
}

async fn stop(work: &Work) -> HostResult<Done> {
    let name = work.vm();
    let hypervisor = &work.node.hypervisor;
    match hypervisor.state(name.as_str()).await? {
        None => return Ok(Done::skipped("there is no domain")),
        Some(PowerState::ShutOff) => return Ok(Done::skipped("the domain does not run")),
        Some(PowerState::Running) if work.operation.kind != Kind::CleanUp => {
            let signalled =
                graceful_timeout(work)?.and_then(|timeout| Duration::try_from(timeout).ok());
            let most = Duration::from_secs(work.node.settings.limits.max_graceful_s);
            // Half of the budget belongs to what comes after.
            let graceful = signalled
                .unwrap_or_default()
                .min(most)
                .min(work.remaining() / 2);
            if shut_down(work, graceful).await? {
                return Ok(Done::with("the guest shut down"));
            }
        }
        Some(_) => {}
    }
    hypervisor.destroy(name.as_str()).await?;
    match hypervisor.state(name.as_str()).await? {
        None | Some(PowerState::ShutOff) => Ok(Done::with("the domain was stopped hard")),
        Some(state) => Err(HostError::host(
            ErrorReason::HypervisorFailed,
            format!(
                "domain {name} is still {} after it was destroyed",
                state.as_str()
            ),
        )),
    }
}

/// Presses the power button until the guest is off or the time is over (D-71).
async fn shut_down(work: &Work, graceful: Duration) -> HostResult<bool> {
    let name = work.vm();
    let deadline = work.node.clock.now().plus(graceful);
    let mut press_at = work.node.clock.now();
    loop {
        let now = work.node.clock.now();
        if deadline.remaining(&now).is_zero() {
            return Ok(false);
        }
        if press_at.remaining(&now).is_zero() {
            work.node.hypervisor.shutdown(name.as_str()).await?;
            press_at = now.plus(PRESS_AGAIN);
        }
        match work.node.hypervisor.state(name.as_str()).await? {
            None | Some(PowerState::ShutOff) => return Ok(true),
            // paused, by an error of its disk for example: it will never shut down, and it is not off
            Some(PowerState::Stuck) => return Ok(false),
            Some(PowerState::Running) => {}
        }
        tokio::time::sleep(work.node.settings.polling.shutdown()).await;
    }
}

async fn undefine(work: &Work) -> HostResult<Done> {
    remove::undefine(&work.node, work.operation.allocation).await?;
    Ok(Done::with("no domain of this name is left"))
}

async fn remove_reservation(work: &Work) -> HostResult<Done> {
    remove::reservation(&work.node, work.operation.allocation).await?;
    remove::seed(&work.node, work.operation.allocation)?;
    Ok(Done::with("no reservation, port or seed is left"))
}

async fn prove_unused(work: &Work) -> HostResult<Done> {
    for slot in work.slots()? {
        work.prove(&slot, work.wiping(&slot)?).await?;
    }
    Ok(Done::with("nobody uses the disk"))
}

async fn wipe(work: &Work) -> HostResult<Done> {
    let (mut times, mut how) = (Vec::new(), Vec::new());
    for slot in work.slots()? {
        let policy: WipePolicy = slot.bindings.destructive_wipe_policy.parse()?;
        let disk = work.prove(&slot, work.wiping(&slot)?).await?;
        let disk = work.node.probe.claim(disk).await?;
        let done = work
            .node
            .wiper
            .wipe(&disk, policy, work.remaining())
            .await?;
        how.push(format!("{}: {done}", disk.identity()));
        times.push(json!(now_ms()));
    }
    Ok(Done::giving(how.join("; "), Value::Array(times)))
}

async fn verify_wipe(work: &Work) -> HostResult<Done> {
    let mut evidence = Vec::new();
    for slot in work.slots()? {
        let disk = work.prove(&slot, Intent::Verify).await?;
        let verified = verify(work, &disk).await?;
        evidence.push(json!({ "bytes": disk.bytes(), "verified": verified, "at": now_ms() }));
    }
    Ok(Done::giving(
        "the disk is proven empty",
        Value::Array(evidence),
    ))
}

/// Reads the disk back; returns how many bytes were zero.
async fn verify(work: &Work, disk: &ProvenDisk) -> HostResult<u64> {
    let not_proven = |what: String| {
        HostError::device(
            ErrorReason::WipeNotProven,
            format!("disk {}: {what}", disk.identity()),
        )
    };
    let found = signatures(&disk.device()).await?;
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
    let limits = VerifyLimits {
        full_bytes: work.node.settings.limits.full_verify_bytes,
        sample_bytes: work.node.settings.limits.sample_verify_bytes,
    };
    let pieces = ranges(disk.bytes(), limits, random_places(limits.sample_bytes)?);
    let device = disk.device();
    let (report, mut progress) = tokio::sync::watch::channel(0_u32);
    let reading = tokio::task::spawn_blocking(move || {
        read_zero(&device, &pieces, |percent| {
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
    let wiped = work.operation.output("wipe");
    let verified = work.operation.output("verify_wipe");
    let mut wipe_evidence = Vec::new();
    for (index, slot) in work.slots()?.into_iter().enumerate() {
        let proof = &verified[index];
        wipe_evidence.push(pb::WipeEvidence {
            slot_id: slot.id.to_string(),
            token: Some(slot.token.into()),
            method: slot.bindings.destructive_wipe_policy.clone(),
            disk_identity: slot.bindings.nvme_device.clone(),
            disk_bytes: proof["bytes"].as_u64().unwrap_or(0),
            verified_bytes: proof["verified"].as_u64().unwrap_or(0),
            no_signatures: true,
            wipe_time: wiped[index].as_i64().map(timestamp),
            verify_time: proof["at"].as_i64().map(timestamp),
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
