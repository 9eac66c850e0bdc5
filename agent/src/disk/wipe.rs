//! Wiping a proven disk (D-74..D-76): [`super::method`] decides how, [`super::verify`] whether it worked.
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;

use super::exclusive::ExclusiveDisk;
use super::identity::DiskIdentity;
use super::method::{Erase, NvmeFacts, WipeFacts, Zero, choose, without_erase};
use super::overwrite::overwrite;
use super::policy::WipePolicy;
use super::wipe_log::{Note, Stage, WipeLog};
use super::{nvme, sanitize};
use crate::error::{HostError, HostResult};
use crate::host::exec;
use crate::ids::SlotId;
use crate::settings::Wipe as Settings;

/// Written between two notes of an overwrite: what a crash costs at most.
const NOTE_EVERY: u64 = 1 << 30;
/// Zeroes that the device writes at one command's word, with a note after each.
const ZEROES_AT_ONCE: u64 = 16 << 30;
/// Most of what a site's command prints that is retained, in characters of its end.
const SITE_OUTPUT: usize = 2000;

/// A disk to be wiped.
pub struct WipeJob<'a> {
    pub disk: &'a ExclusiveDisk,
    /// Whose disk it is.
    pub slot: SlotId,
    pub policy: WipePolicy,
    /// Longest time of a single program.
    pub limit: Duration,
    pub log: &'a dyn WipeLog,
}

/// How a disk was wiped.
#[derive(Debug, Clone)]
pub struct Wiped {
    /// See [`Method::name`].
    pub method: &'static str,
    /// For operators.
    pub how: String,
}

/// Wipes disks.
#[async_trait]
pub trait Wiper: Send + Sync {
    /// Wipes one disk that is open exclusively.
    async fn wipe(&self, job: WipeJob<'_>) -> HostResult<Wiped>;
}

/// Wipes with the programs of the host.
#[derive(Debug, Clone, Default)]
pub struct HostWiper {
    settings: Settings,
}

impl HostWiper {
    /// With the settings of the host.
    pub fn new(settings: Settings) -> Self {
        Self { settings }
    }

    /// What is known of the disk.
    async fn facts(&self, disk: &ExclusiveDisk) -> WipeFacts {
        let name = disk.name();
        let queue = |file: &str| {
            let path = format!("/sys/class/block/{name}/queue/{file}");
            let text = std::fs::read_to_string(path).ok();
            text.and_then(|text| text.trim().parse::<u64>().ok())
                .unwrap_or(0)
        };
        let discards = queue("discard_max_bytes") > 0;
        let device = disk.device();
        // a loop device punches holes into its file; of another disk its controller says what a discarded block reads as
        let to_zero = match disk.identity() {
            DiskIdentity::Lab(_) => true,
            DiskIdentity::ByEui(_) => nvme::namespace(&device)
                .await
                .is_ok_and(|namespace| namespace.deallocates_to_zero()),
        };
        WipeFacts {
            nvme: nvme_facts(name, &device).await,
            discards_to_zero: discards && to_zero,
            discards_all: matches!(disk.identity(), DiskIdentity::Lab(_)),
            writes_zeroes: queue("write_zeroes_max_bytes") > 0,
            has_site_command: !self.settings.site_command.as_os_str().is_empty(),
        }
    }

    async fn erase(&self, job: &WipeJob<'_>, erase: Erase, begun: bool) -> HostResult<String> {
        let device = job.disk.device();
        match erase {
            Erase::SanitizeCrypto | Erase::SanitizeBlock => {
                sanitize::sanitize(&device, erase, begun, job.log).await?;
                Ok(String::new())
            }
            Erase::FormatCrypto => format(job, "--ses=2").await,
            Erase::FormatUserData => format(job, "--ses=1").await,
            Erase::Site => {
                job.log.progress(0, "the site's command erases the disk");
                site(&self.settings, job).await
            }
        }
    }
}

/// What the controller of an NVMe namespace reports, or why nobody knows.
pub(super) async fn nvme_facts(name: &str, device: &Path) -> Result<NvmeFacts, String> {
    let nsid = format!("/sys/class/block/{name}/nsid");
    let text = std::fs::read_to_string(&nsid);
    let text = text.map_err(|error| format!("it is no NVMe namespace ({nsid}: {error})"))?;
    let namespace = text.trim().parse();
    let namespace = namespace.map_err(|_| format!("{nsid} is {text:?}"))?;
    let said = |error: HostError| error.message;
    Ok(NvmeFacts {
        controller: nvme::controller(device).await.map_err(said)?,
        namespace,
        namespaces: nvme::namespaces(device).await.map_err(said)?,
    })
}

#[async_trait]
impl Wiper for HostWiper {
    async fn wipe(&self, job: WipeJob<'_>) -> HostResult<Wiped> {
        let (disk, log) = (job.disk, job.log);
        let refuse =
            |why: String| HostError::wipe_not_proven(format!("disk {}: {why}", disk.identity()));
        let facts = self.facts(disk).await;
        let mut method = choose(job.policy, &facts).map_err(|error| refuse(error.to_string()))?;
        // what was begun by another method counts for nothing
        let noted = log.noted().filter(|noted| noted.method == method);
        let mut said = String::new();
        let from = match (method.erase, noted.map(|noted| noted.stage)) {
            (_, Some(Stage::Zeroing(from))) => from,
            (None, _) => 0,
            (Some(erase), stage) => {
                let begun = stage == Some(Stage::Erasing);
                let note = Note {
                    method,
                    stage: Stage::Erasing,
                };
                log.note(note)?;
                said = match self.erase(&job, erase, begun).await {
                    // the policy asks for zeroes alone: an erase that the firmware forbids does not block the slot for good
                    Err(error) if job.policy == WipePolicy::Blkdiscard => {
                        method = without_erase(&facts);
                        format!("after an erase that failed: {}", error.message)
                    }
                    done => done?,
                };
                0
            }
        };
        let at = |from| Note {
            method,
            stage: Stage::Zeroing(from),
        };
        log.note(at(from))?;
        let device = disk.device();
        match method.zero {
            Zero::Discard => discard(device.as_os_str(), &[], job.limit).await?,
            Zero::WriteZeroes => {
                let reached = |offset| {
                    log.note(at(offset))?;
                    log.progress(percent(offset, disk.bytes()), "the device writes zeroes");
                    Ok(())
                };
                log.progress(percent(from, disk.bytes()), "the device writes zeroes");
                zero_out(disk, from, ZEROES_AT_ONCE, job.limit, reached).await?;
            }
            Zero::Overwrite => write_zeroes(&job, from, |reached| log.note(at(reached))).await?,
        }
        disk.flush().await.map_err(|error| refuse(error.message))?;
        if !disk.partitions().is_empty() {
            // The kernel still shows the partitions of the table that is gone.
            let arguments = ["--delete".as_ref(), device.as_os_str()];
            exec::run("partx", &arguments, Duration::from_secs(30))
                .await?
                .success("partx")?;
        }
        let name = method.name();
        Ok(Wiped {
            method: name,
            how: format!("wiped by {name} {said}").trim_end().to_owned(),
        })
    }
}

/// Has the device write zeroes from an offset to its end, piece by piece. `reached` gets the offset after each.
///
/// # Errors
/// The device does not write them; those of `reached`, and then it ends there.
pub async fn zero_out(
    disk: &ExclusiveDisk,
    from: u64,
    piece: u64,
    limit: Duration,
    reached: impl Fn(u64) -> HostResult<()>,
) -> HostResult<()> {
    let (device, bytes) = (disk.device(), disk.bytes());
    let mut at = from;
    while at < bytes {
        let length = piece.min(bytes - at);
        let range = [format!("--offset={at}"), format!("--length={length}")];
        let flags = ["--zeroout", &range[0], &range[1]];
        discard(device.as_os_str(), &flags, limit).await?;
        at += length;
        reached(at)?;
    }
    Ok(())
}

fn percent(at: u64, of: u64) -> u32 {
    u32::try_from(at * 100 / of.max(1)).unwrap_or(100)
}

async fn discard(device: &OsStr, flags: &[&str], limit: Duration) -> HostResult<()> {
    // Without --force the program would open the device exclusively itself, which our own exclusive open forbids.
    let mut arguments: Vec<&OsStr> = vec!["--force".as_ref()];
    arguments.extend(flags.iter().map(|flag| -> &OsStr { flag.as_ref() }));
    arguments.push(device);
    let done = exec::run_bound("blkdiscard", &arguments, limit).await?;
    let done = done.success("blkdiscard");
    done.map(drop)
        .map_err(|error| HostError::wipe_not_proven(error.message))
}

async fn format(job: &WipeJob<'_>, setting: &str) -> HostResult<String> {
    let nsid = format!("/sys/class/block/{}/nsid", job.disk.name());
    let text = std::fs::read_to_string(&nsid);
    let text =
        text.map_err(|error| HostError::wipe_not_proven(format!("cannot read {nsid}: {error}")))?;
    let id = format!("--namespace-id={}", text.trim());
    job.log.progress(0, "the controller formats the namespace");
    let device = job.disk.device();
    let arguments = [
        "format".as_ref(),
        device.as_os_str(),
        id.as_ref(),
        setting.as_ref(),
        "--force".as_ref(),
    ];
    exec::run_bound("nvme", &arguments, job.limit)
        .await?
        .success("nvme format")
        .map_err(|error| HostError::wipe_not_proven(error.message))?;
    Ok(format!("(namespace {} alone)", text.trim()))
}

/// Runs the command of the site, without a shell. What it is told is in its environment, and nothing else of the agent's is.
async fn site(settings: &Settings, job: &WipeJob<'_>) -> HostResult<String> {
    let disk = match job.disk.identity() {
        identity @ DiskIdentity::ByEui(_) => PathBuf::from(identity.to_string()),
        DiskIdentity::Lab(_) => job.disk.device(),
    };
    let environment = [
        ("PATH", "/usr/sbin:/usr/bin:/sbin:/bin".to_owned()),
        ("GPUAAS_SLOT_ID", job.slot.to_string()),
        ("GPUAAS_DISK", disk.to_string_lossy().into_owned()),
        ("GPUAAS_DISK_BYTES", job.disk.bytes().to_string()),
    ];
    let program = settings.site_command.to_string_lossy();
    let limit = Duration::from_secs(settings.site_limit_s).min(job.limit);
    let done = exec::run_bound_alone(&program, &environment, limit)
        .await
        .map_err(|error| HostError::wipe_not_proven(error.message))?;
    let printed = end_of(&format!("{}\n{}", done.stdout.trim(), done.stderr.trim()));
    if done.status == 0 {
        Ok(format!("({program} printed: {printed})"))
    } else {
        Err(HostError::wipe_not_proven(format!(
            "disk {}: the site's command {program} ended with status {}: {printed}",
            job.disk.identity(),
            done.status
        )))
    }
}

/// The last characters of a text.
fn end_of(text: &str) -> String {
    let text = text.trim();
    let skip = text.chars().count().saturating_sub(SITE_OUTPUT);
    text.chars().skip(skip).collect()
}

/// Overwrites from an offset, noting how far it is. The thread that writes has the disk open for itself: it ends at its next
/// piece when nobody waits for it any more, and until then nobody else gets the disk.
async fn write_zeroes(
    job: &WipeJob<'_>,
    from: u64,
    note: impl Fn(u64) -> HostResult<()>,
) -> HostResult<()> {
    let (device, bytes) = (job.disk.device(), job.disk.bytes());
    let open = job.disk.share()?;
    let (report, mut reached) = tokio::sync::watch::channel(from);
    let writing = tokio::task::spawn_blocking(move || {
        let goes_on = || !report.is_closed();
        let written = overwrite(&device, from, bytes, NOTE_EVERY, goes_on, |at| {
            report.send_replace(at);
        });
        drop(open);
        written
    });
    while reached.changed().await.is_ok() {
        let at = *reached.borrow_and_update();
        note(at)?;
        job.log
            .progress(percent(at, bytes), "writing zeroes over the disk");
    }
    let written = writing
        .await
        .map_err(|_| HostError::internal("overwriting the disk was broken off"))?;
    written.map_err(|error| HostError::wipe_not_proven(error.message))
}

/// The wiper of this process.
pub fn host_wiper(settings: Settings) -> Box<dyn Wiper> {
    #[cfg(debug_assertions)]
    if std::env::var("GPUAAS_FAULT_WIPE").as_deref() == Ok("lie") {
        return Box::new(LyingWiper);
    }
    Box::new(HostWiper::new(settings))
}

/// Says it wiped and does nothing: what the verification must catch.
#[cfg(debug_assertions)]
struct LyingWiper;

#[cfg(debug_assertions)]
#[async_trait]
impl Wiper for LyingWiper {
    async fn wipe(&self, _: WipeJob<'_>) -> HostResult<Wiped> {
        Ok(Wiped {
            method: "blkdiscard",
            how: "nothing was done".to_owned(),
        })
    }
}
