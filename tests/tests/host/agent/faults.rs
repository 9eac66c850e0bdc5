//! Guests, images and wipes that fail, and an agent that is killed everywhere.
use std::path::PathBuf;

use gpuaas_agent::journal::Kind;
use gpuaas_agent::operation::steps_of;
use gpuaas_proto::gpuaas::agent::v1 as pb;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_tests::runner::{Case, Place};
use uuid::Uuid;

use super::host::{LabHost, until};

/// The tests of this file, with the seconds that each usually takes.
pub fn cases() -> Vec<Case> {
    gpuaas_tests::cases![Place::Host;
        inc_41_a_guest_that_never_answers_fails_and_is_repaired: 25,
        d_24_an_image_with_another_content_is_never_cloned: 2,
        d_78_a_wiper_that_lies_is_caught: 24,
        d_10_the_agent_is_killed_at_every_step_of_one_slice: 46,
        inc_20_the_agent_is_killed_in_its_undo_and_still_leaves_nothing: 30,
        d_26_the_agent_is_killed_while_it_clones_and_clones_anew: 25,
    ]
}

async fn inc_41_a_guest_that_never_answers_fails_and_is_repaired() {
    let host = LabHost::get().await;
    let image = host.image("lab-mini-dead").await;
    let mut tenant = host.tenant(1, 1).await;
    let folder = host.folder.join("lab/agent/serial");
    let archived_before = entries(&folder.join("archive"));
    let failure = host.failed(host.provision(&tenant, image).await).await;
    assert_eq!(
        (failure.reason.as_str(), failure.step.as_str()),
        ("GUEST_NO_ADDRESS", "wait_address")
    );
    assert_eq!(failure.failure_class(), pb::FailureClass::Guest);
    let printed = &failure.serial_log_end;
    assert!(
        !printed.is_empty() && printed.lines().count() <= 5,
        "{printed}"
    );
    assert_eq!(
        entries(&folder),
        ["archive"],
        "the hypervisor's log goes with the VM"
    );
    let archived = entries(&folder.join("archive"));
    let new = archived
        .iter()
        .filter(|name| !archived_before.contains(name));
    assert_eq!(new.count(), 1, "what it printed stays");
    assert!(failure.host_clean);
    host.assert_no_residue().await;
    assert_eq!(
        host.holds().await.holds.len(),
        1,
        "the disk is dirty, so the hold stays"
    );
    assert!(!host.is_empty(1));

    let other = host.slot(1, 9).await;
    let refused = host
        .acquire(Uuid::now_v7(), &other, pb::LeasePurpose::Provision)
        .await
        .expect_err("held");
    assert_eq!(refused.reason(), ErrorReason::LeaseHeld);
    let repaired = host.succeeded(host.repair(&mut tenant).await).await;
    assert_eq!(repaired.wipe_evidence[0].token, tenant.slot.token);
    assert!(host.is_empty(1));
    assert_eq!(host.holds().await.holds, []);
    host.tenant(1, 9).await;
}

/// The names in a folder; none where there is no folder yet.
fn entries(folder: &std::path::Path) -> Vec<std::ffi::OsString> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    entries
        .map(|entry| entry.expect("an entry").file_name())
        .collect()
}

async fn d_24_an_image_with_another_content_is_never_cloned() {
    let host = LabHost::get().await;
    // an image that the host has not met
    let content = [uuid::Uuid::now_v7().as_bytes().as_slice(), &[7; 1 << 20]].concat();
    let good = host.push("lab-other", content).await;
    let cache = host.folder.join("lab/image-cache");
    let cached = || std::fs::read_dir(&cache).map_or(0, Iterator::count);
    let before = cached();
    let tenant = host.tenant(0, 1).await;
    // the registry hands out other bytes under this digest
    let (_, hex) = good.digest.split_once(':').expect("digest");
    let blobs = host.registry.folder().join("blobs");
    let file = find(&blobs, hex).expect("the blob");
    let mut content = std::fs::read(&file).expect("blob");
    content[4096] ^= 1;
    std::fs::write(&file, content).expect("corrupt the blob");
    let failure = host
        .failed(host.provision(&tenant, good.clone()).await)
        .await;
    assert_eq!(
        (failure.reason.as_str(), failure.step.as_str()),
        ("IMAGE_DIGEST_MISMATCH", "verify_image")
    );
    let missing = pb::ImageRef {
        digest: format!("sha256:{}", "0".repeat(64)),
        ..good
    };
    let failure = host.failed(host.provision(&tenant, missing).await).await;
    assert_eq!(failure.reason, "IMAGE_PULL_FAILED");
    assert!(host.is_empty(0), "disk untouched");
    host.assert_no_residue().await;
    assert!(cache.is_dir());
    assert_eq!(cached(), before, "no wrong byte stays in the cache");
}

/// The data file of a blob below the registry's folder.
fn find(folder: &std::path::Path, hex: &str) -> Option<PathBuf> {
    for entry in std::fs::read_dir(folder).ok()?.flatten() {
        let path = entry.path();
        if path.is_dir() {
            if path.ends_with(hex) && path.join("data").exists() {
                return Some(path.join("data"));
            }
            if let Some(found) = find(&path, hex) {
                return Some(found);
            }
        }
    }
    None
}

/// D-74: what is left on the disk is found by reading it.
async fn d_78_a_wiper_that_lies_is_caught() {
    let host = LabHost::get().await;
    let image = host.image("lab-mini").await;
    let mut tenant = host.tenant(0, 1).await;
    host.succeeded(host.provision(&tenant, image).await).await;
    let canary = "printf canary-%s bird | dd of=/dev/vda bs=1M seek=200; sync";
    assert!(host.ssh(&tenant, canary).expect("ssh").status.success());
    host.restart_agent("GPUAAS_FAULT_WIPE=lie\n").await;
    let failure = host.failed(host.release(&tenant).await).await;
    assert_eq!(
        (failure.reason.as_str(), failure.step.as_str()),
        ("WIPE_NOT_PROVEN", "verify_wipe")
    );
    assert_eq!(failure.failure_class(), pb::FailureClass::Device);
    assert_eq!(host.occurrences(0, b"canary-bird"), 1);
    assert_eq!(host.holds().await.holds.len(), 1);
    host.restart_agent("").await;
    host.succeeded(host.repair(&mut tenant).await).await;
    assert_eq!(host.occurrences(0, b"canary-bird"), 0);
    assert_eq!(host.holds().await.holds, []);
}

/// Orders the agent to kill itself at a point and begins to wait for it.
struct Kill<'a> {
    host: &'a LabHost,
    point: String,
}

impl<'a> Kill<'a> {
    fn arm(host: &'a LabHost, point: &str) -> Self {
        let _absent_is_fine = std::fs::remove_file(Self::proof(host));
        Self::order(host, point)
    }

    fn proof(host: &LabHost) -> PathBuf {
        host.lab.agent_folder().join("killed-at")
    }

    fn order(host: &'a LabHost, point: &str) -> Self {
        let folder = host.lab.agent_folder();
        std::fs::write(folder.join("kill-at.new"), point).expect("order");
        std::fs::rename(folder.join("kill-at.new"), folder.join("kill-at")).expect("order");
        Self {
            host,
            point: point.to_owned(),
        }
    }

    async fn seen(&self) {
        let proof = Self::proof(self.host);
        let text = until(&format!("the kill at {}", self.point), async || {
            std::fs::read_to_string(&proof)
                .ok()
                .filter(|text| !text.is_empty())
        })
        .await;
        assert_eq!(text, self.point);
    }

    async fn hit(self) {
        self.seen().await;
        std::fs::remove_file(Self::proof(self.host)).expect("the proof");
    }

    /// The agent that is back waits for the next order as long as the proof of this one is there.
    async fn hit_and_next(self, point: &str) -> Self {
        self.seen().await;
        let next = Self::order(self.host, point);
        std::fs::remove_file(Self::proof(self.host)).expect("the proof");
        next
    }
}

fn points(kind: Kind) -> Vec<String> {
    steps_of(kind)
        .iter()
        .flat_map(|step| ["before", "after"].map(|at| format!("{}:{at}", step.name)))
        .collect()
}

/// One slice with the agent killed at every point of its lifecycle, one after the other: what was done is not done twice,
/// what was not is.
async fn d_10_the_agent_is_killed_at_every_step_of_one_slice() {
    let host = LabHost::get().await;
    let image = host.image("lab-mini").await;
    let tenant = host.tenant(0, 1).await;
    let mut kills = points(Kind::Provision).into_iter();
    let mut kill = Kill::arm(&host, &kills.next().expect("a point"));
    let provision = host.provision(&tenant, image).await;
    for next in kills {
        kill = kill.hit_and_next(&next).await;
    }
    kill.hit().await;
    host.succeeded(provision).await;
    assert!(host.ssh(&tenant, "true").expect("ssh").status.success());
    let same = host
        .vms()
        .get_operation(pb::GetOperationRequest {
            operation_id: provision.to_string(),
        })
        .await;
    for step in same.expect("operation").into_inner().steps {
        // the image names no check, and the host has no Fabric Manager
        let expected = match step.name.as_str() {
            "check_guest" | "activate_partition" => pb::StepState::Skipped,
            _ => pb::StepState::Done,
        };
        assert_eq!(step.state(), expected, "{}", step.name);
    }

    let mut kills = points(Kind::Release).into_iter();
    let mut kill = Kill::arm(&host, &kills.next().expect("a point"));
    let release = host.release(&tenant).await;
    for next in kills {
        kill = kill.hit_and_next(&next).await;
    }
    kill.hit().await;
    host.succeeded(release).await;
    assert!(host.is_empty(0));
    host.assert_no_residue().await;
    assert_eq!(host.holds().await.holds, []);
}

/// D-79: the variables of its firmware go with a VM.
async fn inc_20_the_agent_is_killed_in_its_undo_and_still_leaves_nothing() {
    let host = LabHost::get().await;
    let image = host.image("lab-mini-dead").await;
    let tenant = host.tenant(0, 1).await;
    let undone: Vec<String> = steps_of(Kind::Provision)
        .iter()
        .rev()
        .filter(|step| step.undo.is_some())
        .flat_map(|step| ["before", "after"].map(|at| format!("undo_{}:{at}", step.name)))
        .collect();
    let mut kills = undone.into_iter();
    let mut kill = Kill::arm(&host, &kills.next().expect("a point"));
    let provision = host.provision(&tenant, image).await;
    for next in kills {
        kill = kill.hit_and_next(&next).await;
    }
    kill.hit().await;
    let failure = host.failed(provision).await;
    assert_eq!(failure.reason, "GUEST_NO_ADDRESS");
    assert!(failure.host_clean);
    host.assert_no_residue().await;
}

async fn d_26_the_agent_is_killed_while_it_clones_and_clones_anew() {
    let host = LabHost::get().await;
    let small = host.image("lab-mini").await;
    // a guest with a long tail of bytes that do not compress, so that the clone takes a while
    let images = gpuaas_dev::seed::guest_images(&|_| {}).expect("guest images");
    let mut content = std::fs::read(&images[0].file).expect("image");
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut tail = vec![0_u8; 440 << 20];
    for word in tail.chunks_exact_mut(8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        word.copy_from_slice(&state.to_le_bytes());
    }
    content.extend_from_slice(&tail);
    let image = pb::ImageRef {
        boot_timeout: small.boot_timeout,
        ..host.push("lab-long", content.clone()).await
    };
    let tenant = host.tenant(0, 1).await;
    let operation = host.provision(&tenant, image).await;
    let agent = host.lab.agent_process().expect("an agent");
    let request = pb::GetOperationRequest {
        operation_id: operation.to_string(),
    };
    let mut watch = host
        .vms()
        .watch_operation(request)
        .await
        .expect("a stream")
        .into_inner();
    while let Some(update) = watch.message().await.expect("an update") {
        let clone = &update.steps[2];
        assert_ne!(
            clone.state(),
            pb::StepState::Done,
            "the clone was too fast to be killed in"
        );
        if clone.state() == pb::StepState::Running && clone.percent > 0 {
            break;
        }
    }
    agent.signal(nix::sys::signal::Signal::SIGKILL);
    host.succeeded(operation).await;
    let mut written = vec![0_u8; content.len()];
    let mut file = std::fs::File::open(host.backing_file(0)).expect("backing file");
    std::io::Read::read_exact(&mut file, &mut written).expect("backing file");
    assert!(
        written[64 << 20..] == content[64 << 20..],
        "every byte of the image is there"
    );
    host.succeeded(host.release(&tenant).await).await;
    assert!(host.is_empty(0));
}
