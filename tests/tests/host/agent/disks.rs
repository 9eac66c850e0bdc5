//! Disks that must not be touched, on real block devices.
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use gpuaas_dev::process::run;
use gpuaas_proto::gpuaas::agent::v1 as pb;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_tests::runner::{Case, Place};
use uuid::Uuid;

use super::host::{LabHost, bindings};

/// The tests of this file, with the seconds that each usually takes.
pub fn cases() -> Vec<Case> {
    gpuaas_tests::cases![Place::Host;
        inc_12_mounted_child_partition_refused_before_anything_is_touched: 4,
        d_34_a_disk_of_another_domain_is_refused_running_and_shut_off: 2,
        d_29_a_disk_that_a_process_holds_open_or_that_changed_is_refused: 2,
        inc_20_a_stale_reservation_is_removed_unless_its_domain_lives: 15,
    ]
}

/// A domain that names a disk. It has no firmware and boots nothing.
fn foreign_domain(device: &str) -> String {
    format!(
        "<domain type='qemu'><name>foreign</name><memory unit='MiB'>64</memory><os><type arch='x86_64' \
         machine='q35'>hvm</type></os><features><acpi/></features><devices><emulator>/usr/bin/qemu-system-x86_64</emulator><disk type='block' \
         device='disk'><driver name='qemu' type='raw'/><source dev='{device}'/><target dev='vda' bus='virtio'/></disk>\
         </devices></domain>"
    )
}

/// A mount that only its own process sees. In a mount namespace that others share, a lab host that starts meanwhile would
/// copy the mount and keep it.
struct HiddenMount {
    holder: Child,
    at: PathBuf,
}

impl HiddenMount {
    fn of(partition: &str, at: &Path) -> Self {
        std::fs::create_dir_all(at).expect("folder");
        let script = "mount \"$0\" \"$1\" && echo mounted && exec cat";
        let mut holder = Command::new("unshare")
            .args(["--mount", "--propagation", "private", "sh", "-c", script])
            .arg(partition)
            .arg(at)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("unshare");
        let mut said = String::new();
        let output = holder.stdout.as_mut().expect("its output");
        BufReader::new(output)
            .read_line(&mut said)
            .expect("its output");
        assert_eq!(said, "mounted\n");
        Self {
            holder,
            at: at.to_owned(),
        }
    }

    /// A file below the mount, as its process sees it.
    fn path(&self, name: &str) -> PathBuf {
        let at = self.at.strip_prefix("/").expect("an absolute path");
        PathBuf::from(format!("/proc/{}/root", self.holder.id()))
            .join(at)
            .join(name)
    }
}

impl Drop for HiddenMount {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

async fn refused(host: &LabHost, slot: &pb::SlotGrant, expected: ErrorReason, words: &str) {
    let error = host
        .acquire(Uuid::now_v7(), slot, pb::LeasePurpose::Provision)
        .await
        .expect_err("refused");
    assert_eq!(error.reason(), expected, "{error}");
    assert!(error.message().contains(words), "{words:?} in {error}");
}

async fn inc_12_mounted_child_partition_refused_before_anything_is_touched() {
    let host = LabHost::get().await;
    let slot = host.slot(0, 1).await;
    let device = host.device(0);
    run("sgdisk", &["-n", "1:2048:+64M", &device]).expect("partition");
    run("partprobe", &[&device]).expect("partprobe");
    refused(&host, &slot, ErrorReason::DiskUnsafe, "signature gpt").await;
    let discovery = host
        .topology()
        .discover(pb::DiscoverRequest::default())
        .await;
    let candidate = discovery
        .expect("a discovery")
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
    // out of sight of the host, and on the host itself
    let hidden = HiddenMount::of(&partition, &host.folder.join("share2"));
    std::fs::write(hidden.path("precious"), "data").expect("file");
    refused(&host, &slot, ErrorReason::DiskUnsafe, "open exclusively").await;
    let tenant = Uuid::now_v7();
    host.acquire(tenant, &slot, pb::LeasePurpose::Repair)
        .await
        .expect("a lease for a repair");
    let mut held = super::host::Tenant {
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
        std::fs::read_to_string(hidden.path("precious")).expect("still there"),
        "data"
    );
    drop(hidden);

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

async fn d_34_a_disk_of_another_domain_is_refused_running_and_shut_off() {
    let host = LabHost::get().await;
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

async fn d_29_a_disk_that_a_process_holds_open_or_that_changed_is_refused() {
    let host = LabHost::get().await;
    let mut slot = host.slot(0, 1).await;
    let device = host.device(0);
    let mut holder = Command::new("nsenter");
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

/// J-15: a mapping is removed with its VM.
async fn inc_20_a_stale_reservation_is_removed_unless_its_domain_lives() {
    let host = LabHost::get().await;
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
