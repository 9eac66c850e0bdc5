//! Wiping a proven disk by its slot's policy (D-74..D-76). [`super::verify`] decides whether it worked.
use std::str::FromStr;
use std::time::Duration;

use async_trait::async_trait;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;

use super::claim::ClaimedDisk;
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
    /// Wipes one claimed disk within `limit`.
    async fn wipe(&self, disk: &ClaimedDisk, policy: WipePolicy, limit: Duration)
    -> HostResult<()>;
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
    ) -> HostResult<()> {
        let device = disk.device();
        let device = device.as_os_str();
        match policy {
            WipePolicy::Blkdiscard => {
                // Without --force the program would claim the device itself, which our own claim forbids.
                exec::run_bound("blkdiscard", &["--force".as_ref(), device], limit)
                    .await?
                    .success("blkdiscard")
                    .map_err(failed)?;
            }
            WipePolicy::NvmeFormat => {
                let arguments = [
                    "format".as_ref(),
                    "--ses=1".as_ref(),
                    "--force".as_ref(),
                    device,
                ];
                exec::run_bound("nvme", &arguments, limit)
                    .await?
                    .success("nvme format")
                    .map_err(failed)?;
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
        }
        if !disk.partitions().is_empty() {
            // The kernel still shows the partitions of the table that is gone.
            let arguments = ["--delete".as_ref(), device];
            exec::run("partx", &arguments, Duration::from_secs(30))
                .await?
                .success("partx")?;
        }
        Ok(())
    }
}

fn failed(error: HostError) -> HostError {
    HostError::device(ErrorReason::WipeNotProven, error.message)
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
    async fn wipe(&self, _: &ClaimedDisk, _: WipePolicy, _: Duration) -> HostResult<()> {
        Ok(())
    }
}
