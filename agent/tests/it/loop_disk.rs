//! A disk between its proof and its use, on a real block device of this machine.
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use gpuaas_agent::disk::exclusive::is_busy;
use gpuaas_agent::disk::method::{Method, Zero};
use gpuaas_agent::disk::policy::WipePolicy;
use gpuaas_agent::disk::wipe::{HostWiper, WipeJob, Wiped, Wiper as _, zero_out};
use gpuaas_agent::disk::wipe_log::{Note, Stage, WipeLog};
use gpuaas_agent::disk::{DiskIdentity, DiskProbe, ExclusiveDisk, Intent, ProvenDisk};
use gpuaas_agent::error::{HostError, HostResult};
use gpuaas_agent::host::root::HostRoot;
use gpuaas_agent::ids::SlotId;
use gpuaas_agent::image::clone::clone_image;
use gpuaas_agent::settings::{LabDisk, Wipe};
use gpuaas_agent::vm::Hypervisor;
use gpuaas_dev::process::run;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use uuid::Uuid;

/// A loop device over a file of its own, which a probe of this machine knows as a lab disk.
pub struct LoopDisk {
    _folder: tempfile::TempDir,
    pub device: String,
    pub image: PathBuf,
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
        let backing = folder.path().to_owned();
        Self::attach_over(folder, &backing)
    }

    /// The same over a file in this folder.
    pub fn attach_in(backing: &Path) -> Self {
        Self::attach_over(tempfile::tempdir().expect("folder"), backing)
    }

    fn attach_over(folder: tempfile::TempDir, backing: &Path) -> Self {
        let file_in = |folder: &Path, name: &str| {
            let path = folder.join(name);
            let made = std::fs::File::create(&path).expect("file");
            made.set_len(LOOP_BYTES).expect("size");
            path
        };
        let file = |name| file_in(folder.path(), name);
        let (image, other) = (file("image"), file("other"));
        let backing_file = file_in(backing, "disk");
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

    /// Open exclusively, as for a clone.
    pub async fn open_exclusively(&self) -> ExclusiveDisk {
        let raw = Intent::Clone { touched: true };
        let proven = self.prove(raw).await;
        self.probe.open_exclusively(proven).await.expect("open")
    }

    async fn prove(&self, intent: Intent) -> ProvenDisk {
        let proven = self.probe.prove(&self.identity, LOOP_BYTES, intent).await;
        proven.expect("proven")
    }

    fn is_busy(&self) -> bool {
        is_busy(Path::new(&self.device)).expect("known")
    }
}

impl Drop for LoopDisk {
    fn drop(&mut self) {
        let _best_effort = run("losetup", &["-d", &self.device]);
    }
}

/// What a wipe notes.
#[derive(Default)]
struct Log {
    before: Option<Note>,
    notes: Mutex<Vec<Note>>,
}

impl Log {
    fn notes(&self) -> Vec<Note> {
        self.notes.lock().expect("notes").clone()
    }
}

impl WipeLog for Log {
    fn noted(&self) -> Option<Note> {
        self.before
    }

    fn note(&self, note: Note) -> HostResult<()> {
        self.notes.lock().expect("notes").push(note);
        Ok(())
    }

    fn progress(&self, percent: u32, _: &str) {
        assert!(percent <= 100);
    }
}

async fn wipe(
    disk: &ExclusiveDisk,
    policy: WipePolicy,
    settings: Wipe,
    log: &Log,
) -> HostResult<Wiped> {
    let job = WipeJob {
        disk,
        slot: SlotId(Uuid::nil()),
        policy,
        limit: MINUTE,
        log,
    };
    HostWiper::new(settings).wipe(job).await
}

/// A program of the site's.
fn site_command(disk: &LoopDisk, script: &str) -> Wipe {
    let site_command = disk.image.with_file_name("erase");
    std::fs::write(&site_command, format!("#!/bin/sh\n{script}\n")).expect("a script");
    let mode = std::fs::Permissions::from_mode(0o700);
    std::fs::set_permissions(&site_command, mode).expect("its mode");
    Wipe {
        site_command,
        site_limit_s: 20,
        ..Wipe::default()
    }
}

/// D-75: what the site's program is told, and that its end is what counts.
#[tokio::test]
async fn d_75_the_sites_program_erases_and_its_status_counts() {
    let disk = LoopDisk::attach();
    std::fs::write(&disk.device, vec![7_u8; 1 << 20]).expect("a device");
    let proven = disk.prove(Intent::Wipe { touched: true }).await;
    let opened = disk.probe.open_exclusively(proven).await.expect("open");
    let run = |script: &'static str| {
        let (settings, opened) = (site_command(&disk, script), &opened);
        async move {
            let log = Log::default();
            wipe(opened, WipePolicy::SiteErase, settings, &log).await
        }
    };
    let refused = run("echo first; echo no erase today >&2; exit 3").await;
    let refused = refused.expect_err("its status");
    assert_eq!(refused.reason, ErrorReason::WipeNotProven);
    for part in ["status 3", "no erase today"] {
        assert!(refused.message.contains(part), "{}", refused.message);
    }
    let first_byte = || std::fs::read(&disk.device).expect("device")[0];
    assert_eq!(first_byte(), 7, "nothing else was done");
    let wiped = run("env").await.expect("wiped");
    assert_eq!(wiped.method, "site_erase");
    let reported = [
        format!("GPUAAS_DISK={}", disk.device),
        format!("GPUAAS_DISK_BYTES={LOOP_BYTES}"),
        format!("GPUAAS_SLOT_ID={}", Uuid::nil()),
    ];
    for part in &reported {
        assert!(wiped.how.contains(part), "{}", wiped.how);
    }
    assert!(!wiped.how.contains("CARGO"), "{}", wiped.how);
    assert_eq!(first_byte(), 0, "what the program left reads as zero");
    let log = Log::default();
    let refused = wipe(&opened, WipePolicy::SiteErase, Wipe::default(), &log).await;
    let refused = refused.expect_err("there is no program");
    assert!(
        refused.message.contains("agent.wipe.site_command"),
        "{}",
        refused.message
    );
    let refused = wipe(&opened, WipePolicy::NvmeFormat, Wipe::default(), &log).await;
    let refused = refused.expect_err("no NVMe disk");
    assert_eq!(refused.reason, ErrorReason::WipeNotProven);
    assert!(log.notes().is_empty(), "nothing was begun");
}

/// A site's erase that was through when the agent died is not begun again; one that was not is.
#[tokio::test]
async fn p5_what_was_noted_of_an_erase_decides_whether_it_runs_again() {
    let disk = LoopDisk::attach();
    let proven = disk.prove(Intent::Wipe { touched: true }).await;
    let opened = disk.probe.open_exclusively(proven).await.expect("open");
    let ran = disk.image.with_file_name("ran");
    let settings = site_command(
        &disk,
        &format!("echo \"$GPUAAS_DISK\" >> {}", ran.display()),
    );
    let first = Log::default();
    wipe(&opened, WipePolicy::SiteErase, settings.clone(), &first)
        .await
        .expect("wiped");
    let notes = first.notes();
    let stages: Vec<Stage> = notes.iter().map(|note| note.stage).collect();
    assert_eq!(stages, [Stage::Erasing, Stage::Zeroing(0)]);
    let runs = || {
        std::fs::read_to_string(&ran)
            .expect("a file")
            .lines()
            .count()
    };
    assert_eq!(runs(), 1);
    for (before, expected) in [(notes[1], 1), (notes[0], 2)] {
        let log = Log {
            before: Some(before),
            ..Log::default()
        };
        wipe(&opened, WipePolicy::SiteErase, settings.clone(), &log)
            .await
            .expect("wiped");
        assert_eq!(runs(), expected, "{before:?}");
    }
    // a note of another method counts for nothing
    let other = Method {
        erase: None,
        zero: Zero::Overwrite,
    };
    let log = Log {
        before: Some(Note {
            method: other,
            stage: Stage::Zeroing(LOOP_BYTES),
        }),
        ..Log::default()
    };
    wipe(&opened, WipePolicy::SiteErase, settings, &log)
        .await
        .expect("wiped");
    assert_eq!(runs(), 3);
}

/// What the device was asked to write is noted piece by piece, so that a crash costs one piece.
#[tokio::test]
async fn p5_d_75_zeroes_that_the_device_writes_go_on_where_they_were() {
    const MIB: u64 = 1 << 20;
    let disk = LoopDisk::attach();
    let bytes = usize::try_from(LOOP_BYTES).expect("small");
    std::fs::write(&disk.device, vec![7_u8; bytes]).expect("a device");
    let proven = disk.prove(Intent::Wipe { touched: true }).await;
    let opened = disk.probe.open_exclusively(proven).await.expect("open");
    let zeroes = || {
        let content = std::fs::read(&disk.device).expect("a device");
        let zero = content.iter().map(|byte| u64::from(*byte == 0));
        (content[0], zero.sum::<u64>())
    };
    let noted = Mutex::new(Vec::new());
    let reached = |at| {
        noted.lock().expect("notes").push(at);
        match at {
            at if at == 5 * MIB => Err(HostError::internal("the journal cannot be written")),
            _ => Ok(()),
        }
    };
    let broken_off = zero_out(&opened, 2 * MIB, 3 * MIB, MINUTE, reached).await;
    assert!(broken_off.is_err());
    assert_eq!(
        zeroes(),
        (7, 3 * MIB),
        "nothing before the offset, and one piece"
    );
    let whole = zero_out(&opened, 5 * MIB, 2 * MIB, MINUTE, reached).await;
    whole.expect("written");
    assert_eq!(*noted.lock().expect("notes"), [5 * MIB, 7 * MIB, 8 * MIB]);
    assert_eq!(zeroes(), (7, 6 * MIB));
}

/// What a device wrote by itself may still be in a cache that a power cut empties, and reads as zero all the same.
#[tokio::test]
async fn p2_a_wipe_ends_with_a_flush_of_the_disks_cache() {
    let disk = LoopDisk::attach();
    std::fs::write(&disk.device, vec![7_u8; 1 << 20]).expect("a device");
    let proven = disk.prove(Intent::Wipe { touched: true }).await;
    let opened = disk.probe.open_exclusively(proven).await.expect("open");
    let flushes = || {
        let name = disk.device.trim_start_matches("/dev/");
        let stat = std::fs::read_to_string(format!("/sys/block/{name}/stat")).expect("sysfs");
        let count = stat.split_whitespace().nth(15).expect("flush requests");
        count.parse::<u64>().expect("a number")
    };
    let before = flushes();
    zero_out(&opened, 0, LOOP_BYTES, MINUTE, |_| Ok(()))
        .await
        .expect("written");
    assert_eq!(flushes(), before, "the device alone flushes nothing");
    let log = Log::default();
    let wiped = wipe(&opened, WipePolicy::Blkdiscard, Wipe::default(), &log).await;
    assert_eq!(wiped.expect("wiped").method, "blkdiscard");
    assert_eq!(flushes(), before + 1);
}

const MINUTE: Duration = Duration::from_secs(60);

/// Between the proof and the end of a clone or a wipe nobody can begin to use the disk.
/// D-25
#[tokio::test]
async fn inc_12_a_disk_is_open_exclusively_while_it_is_cloned_to_and_wiped() {
    let disk = LoopDisk::attach();
    let raw = Intent::Clone { touched: false };
    let proven = disk.prove(raw).await;
    let opened = disk
        .probe
        .open_exclusively(proven.clone())
        .await
        .expect("open");
    let second = disk.probe.open_exclusively(proven).await;
    assert_eq!(
        second.expect_err("refused").reason,
        ErrorReason::DiskUnsafe,
        "somebody has it already"
    );
    let mut busy = Vec::new();
    clone_image(&disk.image, &opened, MINUTE, |_| {
        busy.push(disk.is_busy());
    })
    .await
    .expect("cloned");
    assert!(
        !busy.is_empty() && busy.iter().all(|busy| *busy),
        "{busy:?}"
    );
    let first_byte = || std::fs::read(&disk.device).expect("device")[0];
    assert_eq!(first_byte(), 7);
    let log = Log::default();
    let wiped = wipe(&opened, WipePolicy::Blkdiscard, Wipe::default(), &log).await;
    assert_eq!(wiped.expect("wiped").method, "blkdiscard", "a lab disk");
    assert!(disk.is_busy());
    drop(opened);
    assert!(!disk.is_busy(), "it is open as long as its value");
    assert_eq!(first_byte(), 0);
}

/// The same kernel name is another disk by the time it is opened.
#[tokio::test]
async fn d_33_a_disk_that_was_exchanged_after_its_proof_is_not_opened() {
    let disk = LoopDisk::attach();
    let proven = disk.prove(Intent::Wipe { touched: true }).await;
    run("losetup", &["-d", &disk.device]).expect("losetup");
    let other = disk.other.to_string_lossy();
    run("losetup", &[&disk.device, &other]).expect("losetup");
    let error = disk
        .probe
        .open_exclusively(proven)
        .await
        .expect_err("refused");
    assert_eq!(error.reason, ErrorReason::DiskUnsafe);
    assert!(
        error.message.contains("since it was proven"),
        "{}",
        error.message
    );
    assert!(!disk.is_busy());
}
