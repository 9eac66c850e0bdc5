//! Wiping a proven disk by its slot's policy (D-74..D-76). [`super::verify`] decides whether it worked.
use std::ffi::OsStr;
use std::str::FromStr;
use std::time::Duration;

use async_trait::async_trait;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;

use super::claim::ClaimedDisk;
use super::nvme;
use crate::error::{HostError, HostResult};
use crate::host::exec;
use crate::ids::ParseError;

/// How a slot's disk is wiped (D-75).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WipePolicy {
    /// Discard of all blocks.
    Blkdiscard,
    /// NVMe format with user-data erase.
    NvmeFormat,
    /// A tool of the operator's.
    SiteErase,
}

impl WipePolicy {
    /// The name in bindings and evidence.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Blkdiscard => "blkdiscard",
            Self::NvmeFormat => "nvme_format",
            Self::SiteErase => "site_erase",
        }
    }
}

impl FromStr for WipePolicy {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        [Self::Blkdiscard, Self::NvmeFormat, Self::SiteErase]
            .into_iter()
            .find(|policy| policy.as_str() == text)
            .ok_or(ParseError {
                what: "destructive_wipe_policy",
                rule: "blkdiscard, nvme_format or site_erase",
            })
    }
}

/// Wipes disks.
#[async_trait]
pub trait Wiper: Send + Sync {
    /// Wipes one claimed disk within `limit`. Returns how it did, for the record.
    async fn wipe(
        &self,
        disk: &ClaimedDisk,
        policy: WipePolicy,
        limit: Duration,
    ) -> HostResult<String>;
}

/// Wipes with the programs of the host.
pub struct HostWiper;

#[async_trait]
impl Wiper for HostWiper {
    async fn wipe(
        &self,
        disk: &ClaimedDisk,
        policy: WipePolicy,
        limit: Duration,
    ) -> HostResult<String> {
        let path = disk.device();
        let device = path.as_os_str();
        let how = match policy {
            WipePolicy::Blkdiscard => {
                discard(device, limit).await?;
                "all blocks were discarded".to_owned()
            }
            WipePolicy::NvmeFormat => {
                let namespace = check_nvme(disk).await?;
                let id = format!("--namespace-id={namespace}");
                let arguments = [
                    "format".as_ref(),
                    device,
                    id.as_ref(),
                    "--ses=1".as_ref(),
                    "--force".as_ref(),
                ];
                exec::run_bound("nvme", &arguments, limit)
                    .await?
                    .success("nvme format")
                    .map_err(|error| failed(error.message))?;
                // what an erase leaves to be read is the disk's own affair; blocks without content read as zero
                discard(device, limit).await?;
                format!("namespace {namespace} alone was formatted with user-data erase")
            }
            WipePolicy::SiteErase => {
                return Err(HostError::device(
                    ErrorReason::WipeNotProven,
                    format!(
                        "disk {}: this host has no erase tool of its site",
                        disk.identity()
                    ),
                ));
            }
        };
        if !disk.partitions().is_empty() {
            // The kernel still shows the partitions of the table that is gone.
            let arguments = ["--delete".as_ref(), device];
            exec::run("partx", &arguments, Duration::from_secs(30))
                .await?
                .success("partx")?;
        }
        Ok(how)
    }
}

async fn discard(device: &OsStr, limit: Duration) -> HostResult<()> {
    // Without --force the program would claim the device itself, which our own claim forbids.
    let done = exec::run_bound("blkdiscard", &["--force".as_ref(), device], limit).await?;
    let done = done.success("blkdiscard");
    done.map(drop).map_err(|error| failed(error.message))
}

/// The id of the disk's namespace, when a format reaches it alone.
async fn check_nvme(disk: &ClaimedDisk) -> HostResult<u32> {
    let refuse = |why: String| failed(format!("disk {}: {why}", disk.identity()));
    let path = disk.device();
    let nsid = format!("/sys/class/block/{}/nsid", disk.name());
    let text = std::fs::read_to_string(&nsid);
    let text =
        text.map_err(|error| refuse(format!("it is no NVMe namespace ({nsid}: {error})")))?;
    let namespace = text.trim().parse();
    let namespace = namespace.map_err(|_| refuse(format!("{nsid} is {text:?}")))?;
    let controller = nvme::controller(&path).await?;
    let namespaces = nvme::namespaces(&path).await?;
    nvme::check_format(&controller, namespaces.as_deref(), namespace)
        .map_err(|error| refuse(error.to_string()))?;
    Ok(namespace)
}

pub(super) fn failed(message: String) -> HostError {
    HostError::device(ErrorReason::WipeNotProven, message)
}

/// The wiper of this process.
pub fn host_wiper() -> Box<dyn Wiper> {
    #[cfg(debug_assertions)]
    if std::env::var("GPUAAS_FAULT_WIPE").as_deref() == Ok("lie") {
        return Box::new(LyingWiper);
    }
    Box::new(HostWiper)
}

/// Says it wiped and does nothing: what the verification must catch.
#[cfg(debug_assertions)]
struct LyingWiper;

#[cfg(debug_assertions)]
#[async_trait]
impl Wiper for LyingWiper {
    async fn wipe(&self, _: &ClaimedDisk, _: WipePolicy, _: Duration) -> HostResult<String> {
        Ok("nothing was done".to_owned())
    }
}
