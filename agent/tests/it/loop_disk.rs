//! A disk between its proof and its use, on a real block device of this machine.
use std::path::{Path, PathBuf};
use std::time::Duration;

use gpuaas_agent::disk::claim::is_claimed_by_others;
use gpuaas_agent::disk::wipe::{HostWiper, WipePolicy, Wiper as _};
use gpuaas_agent::disk::{DiskIdentity, DiskProbe, Intent, ProvenDisk};
use gpuaas_agent::host::root::HostRoot;
use gpuaas_agent::image::clone::clone_image;
use gpuaas_agent::settings::LabDisk;
use gpuaas_agent::vm::Hypervisor;
use gpuaas_dev::process::run;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use uuid::Uuid;

/// A loop device over a file of its own, which a probe of this machine knows as a lab disk.
struct LoopDisk {
    _folder: tempfile::TempDir,
    device: String,
    image: PathBuf,
    other: PathBuf,
    identity: DiskIdentity,
    probe: DiskProbe,
}

/// What supervises the machine of a test may have more rights than the test.
fn supervisor() -> String {
    let name = std::fs::read_to_string("/proc/1/comm").expect("readable");
    name.trim().to_owned()
}

const LOOP_BYTES: u64 = 8 << 20;

impl LoopDisk {
    fn attach() -> Self {
        let folder = tempfile::tempdir().expect("folder");
        let file = |name: &str| {
            let path = folder.path().join(name);
            let made = std::fs::File::create(&path).expect("file");
            made.set_len(LOOP_BYTES).expect("size");
            path
        };
        let (image, backing_file, other) = (file("image"), file("disk"), file("other"));
        std::fs::write(&image, vec![7_u8; 1 << 20]).expect("image");
        let attached = run(
            "losetup",
            &["-f", "--show", &backing_file.to_string_lossy()],
        );
        let device = attached.expect("losetup").trim().to_owned();
        let disk = LabDisk {
            id: Uuid::now_v7(),
            backing_file,
        };
        let hypervisor = Hypervisor::new("test:///default");
        Self {
            _folder: folder,
            device,
            image,
            other,
            identity: DiskIdentity::Lab(disk.id),
            probe: DiskProbe::new(HostRoot::new("/"), vec![disk], hypervisor)
                .trusting(vec![supervisor()]),
        }
    }

    async fn prove(&self, intent: Intent) -> ProvenDisk {
        let proven = self.probe.prove(&self.identity, LOOP_BYTES, intent).await;
        proven.expect("proven")
    }

    fn is_claimed(&self) -> bool {
        is_claimed_by_others(Path::new(&self.device)).expect("known")
    }
}

impl Drop for LoopDisk {
    fn drop(&mut self) {
        let _best_effort = run("losetup", &["-d", &self.device]);
    }
}

const MINUTE: Duration = Duration::from_secs(60);

/// Between the proof and the end of a clone or a wipe nobody can begin to use the disk.
#[tokio::test]
async fn inc_12_a_disk_is_claimed_while_it_is_cloned_to_and_wiped() {
    let disk = LoopDisk::attach();
    let raw = Intent::Clone { touched: false };
    let proven = disk.prove(raw).await;
    let claimed = disk.probe.claim(proven.clone()).await.expect("claimed");
    let second = disk.probe.claim(proven).await;
    assert_eq!(
        second.expect_err("refused").reason,
        ErrorReason::DiskUnsafe,
        "somebody has it already"
    );
    let mut claims = Vec::new();
    clone_image(&disk.image, &claimed, MINUTE, |_| {
        claims.push(disk.is_claimed());
    })
    .await
    .expect("cloned");
    assert!(
        !claims.is_empty() && claims.iter().all(|claimed| *claimed),
        "{claims:?}"
    );
    let first_byte = || std::fs::read(&disk.device).expect("device")[0];
    assert_eq!(first_byte(), 7);
    HostWiper
        .wipe(&claimed, WipePolicy::Blkdiscard, MINUTE)
        .await
        .expect("wiped under the claim");
    assert!(disk.is_claimed());
    drop(claimed);
    assert!(!disk.is_claimed(), "the claim ends with its value");
    assert_eq!(first_byte(), 0);
}

/// The same kernel name is another disk by the time of the claim.
#[tokio::test]
async fn d_33_a_disk_that_was_exchanged_after_its_proof_is_not_claimed() {
    let disk = LoopDisk::attach();
    let proven = disk.prove(Intent::Wipe { touched: true }).await;
    run("losetup", &["-d", &disk.device]).expect("losetup");
    let other = disk.other.to_string_lossy();
    run("losetup", &[&disk.device, &other]).expect("losetup");
    let error = disk.probe.claim(proven).await.expect_err("refused");
    assert_eq!(error.reason, ErrorReason::DiskUnsafe);
    assert!(
        error.message.contains("since it was proven"),
        "{}",
        error.message
    );
    assert!(!disk.is_claimed());
}
