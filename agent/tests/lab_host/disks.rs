//! Disks that must not be touched, on real block devices.
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
use gpuaas_proto::gpuaas::agent::v1 as pb;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use uuid::Uuid;

use crate::host::{LabHost, bindings};

/// A domain that names a disk. It has no firmware and boots nothing.
fn foreign_domain(device: &str) -> String {
    format!(
        "<domain type='qemu'><name>foreign</name><memory unit='MiB'>64</memory><os><type arch='x86_64' \
         machine='q35'>hvm</type></os><features><acpi/></features><devices><emulator>/usr/bin/qemu-system-x86_64</emulator><disk type='block' \
         device='disk'><driver name='qemu' type='raw'/><source dev='{device}'/><target dev='vda' bus='virtio'/></disk>\
         </devices></domain>"
    )
}

async fn refused(host: &LabHost, slot: &pb::SlotGrant, expected: ErrorReason, words: &str) {
    let error = host
        .acquire(Uuid::now_v7(), slot, pb::LeasePurpose::Provision)
        .await
        .expect_err("refused");
    assert_eq!(error.reason(), expected, "{error}");
    assert!(error.message().contains(words), "{words:?} in {error}");
}

#[tokio::test]
async fn inc_12_mounted_child_partition_refused_before_anything_is_touched() {
    let host = LabHost::start().await;
    let slot = host.slot(0, 1).await;
    let device = host.device(0);
    run("sgdisk", &["-n", "1:2048:+64M", &device]).expect("partition");
    run("partprobe", &[&device]).expect("partprobe");
    refused(&host, &slot, ErrorReason::DiskUnsafe, "signature gpt").await;
    let looked = host.topology().discover(pb::DiscoverRequest {}).await;
    let candidate = looked
        .expect("a look")
        .into_inner()
        .candidates
        .swap_remove(0);
    assert!(
        candidate
            .blockers
            .iter()
            .any(|blocker| blocker.contains("signature gpt")),
        "a disk that is not raw is not approved as clean: {:?}",
        candidate.blockers
    );

    let partition = format!("{device}p1");
    run("mkfs.ext4", &["-q", &partition]).expect("file system");
    let mount = host.folder.join("share2");
    std::fs::create_dir_all(&mount).expect("folder");
    // on the machine, out of sight of the host's mount namespace, and on the host itself
    run("mount", &[&partition, &mount.to_string_lossy()]).expect("mount");
    std::fs::write(mount.join("precious"), "data").expect("file");
    refused(&host, &slot, ErrorReason::DiskUnsafe, "claimed").await;
    let tenant = Uuid::now_v7();
    host.acquire(tenant, &slot, pb::LeasePurpose::Repair)
        .await
        .expect("a lease for a repair");
    let mut held = crate::host::Tenant {
        allocation: tenant,
        slot: slot.clone(),
        lease: String::new(),
    };
    let failure = host.failed(host.repair(&mut held).await).await;
    assert_eq!(
        (failure.reason.as_str(), failure.step.as_str()),
        ("DISK_UNSAFE", "prove_disk")
    );
    assert_eq!(
        std::fs::read_to_string(mount.join("precious")).expect("still there"),
        "data"
    );
    run("umount", &[&mount.to_string_lossy()]).expect("umount");

    let inside = "/var/lib/libvirt/images";
    host.lab
        .exec("mount", &[&partition, inside])
        .expect("mount in the host");
    let failure = host.failed(host.repair(&mut held).await).await;
    assert!(
        failure.message.contains("p1 is mounted at"),
        "{}",
        failure.message
    );
    host.lab
        .exec("umount", &[inside])
        .expect("umount in the host");
    host.succeeded(host.repair(&mut held).await).await;
}

#[tokio::test]
async fn d_34_a_disk_of_another_domain_is_refused_running_and_shut_off() {
    let host = LabHost::start().await;
    let slot = host.slot(0, 1).await;
    let xml = host.folder.join("foreign.xml");
    std::fs::write(&xml, foreign_domain(&host.device(0))).expect("xml");
    let virsh = |arguments: &[&str]| {
        let mut all = vec!["-q", "-c", "qemu:///system"];
        all.extend(arguments);
        host.lab.exec("virsh", &all).expect("virsh")
    };
    virsh(&["define", &xml.to_string_lossy()]);
    refused(
        &host,
        &slot,
        ErrorReason::DiskUnsafe,
        "domain foreign (shut off)",
    )
    .await;
    virsh(&["start", "foreign"]);
    refused(
        &host,
        &slot,
        ErrorReason::DiskUnsafe,
        "domain foreign (running)",
    )
    .await;
    virsh(&["destroy", "foreign"]);
    virsh(&["undefine", "foreign"]);
    host.acquire(Uuid::now_v7(), &slot, pb::LeasePurpose::Provision)
        .await
        .expect("free again");
}

#[tokio::test]
async fn d_29_a_disk_that_a_process_holds_open_or_that_changed_is_refused() {
    let host = LabHost::start().await;
    let mut slot = host.slot(0, 1).await;
    let device = host.device(0);
    let mut holder = std::process::Command::new("nsenter");
    let first = host.lab.agent_process().expect("agent").pid;
    let mut holder = holder
        .args([
            "-t",
            &first.to_string(),
            "-m",
            "-n",
            "-p",
            "--",
            "sleep",
            "1000",
        ])
        .stdin(std::fs::File::open(&device).expect("device"))
        .spawn()
        .expect("a process");
    refused(
        &host,
        &slot,
        ErrorReason::DiskUnsafe,
        "(sleep) holds it open",
    )
    .await;
    // the command was forked by nsenter; both end with this
    host.lab.exec("pkill", &["-x", "sleep"]).expect("end it");
    holder.wait().expect("ended");

    bindings(&mut slot).nvme_bytes += 512;
    refused(&host, &slot, ErrorReason::DiskUnsafe, "approved were").await;
    bindings(&mut slot).nvme_device = format!("lab-disk:{}", Uuid::new_v4());
    refused(
        &host,
        &slot,
        ErrorReason::DeviceMissing,
        "no device has this identity",
    )
    .await;
}

#[tokio::test]
async fn inc_20_a_stale_reservation_is_removed_unless_its_domain_lives() {
    let host = LabHost::start().await;
    let image = host.image("lab-mini").await;
    let tenant = host.tenant(0, 1).await;
    let bindings = tenant.slot.bindings.clone().expect("bindings");
    let stale = host.folder.join(format!(
        "lab/run/dnsmasq.d/gpuaas-gpuaas-slice-{}.conf",
        Uuid::now_v7().simple()
    ));
    std::fs::write(
        &stale,
        format!("52:54:00:99:99:99,{}\n", bindings.private_ip),
    )
    .expect("reservation");
    host.succeeded(host.provision(&tenant, image).await).await;
    assert!(!stale.exists());
    host.succeeded(host.release(&tenant).await).await;
    host.assert_no_residue().await;
}

/// A loop device over a file of its own, which a probe of this machine knows as a lab disk.
struct LoopDisk {
    _folder: tempfile::TempDir,
    device: String,
    image: PathBuf,
    other: PathBuf,
    identity: DiskIdentity,
    probe: DiskProbe,
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
            probe: DiskProbe::new(HostRoot::new("/"), vec![disk], hypervisor),
        }
    }

    async fn prove(&self, intent: Intent) -> ProvenDisk {
        let proven = self.probe.prove(&self.identity, LOOP_BYTES, intent).await;
        proven.expect("proven")
    }

    fn is_claimed(&self) -> bool {
        is_claimed_by_others(Path::new(&self.device))
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
    let mut looked = Vec::new();
    clone_image(&disk.image, &claimed, MINUTE, |_| {
        looked.push(disk.is_claimed());
    })
    .await
    .expect("cloned");
    assert!(
        !looked.is_empty() && looked.iter().all(|claimed| *claimed),
        "{looked:?}"
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
    let proven = disk.prove(Intent::Wipe).await;
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
