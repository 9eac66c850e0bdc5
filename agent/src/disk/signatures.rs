//! Partition tables and file systems on a disk, as `wipefs` and `blkid` see them without udev.
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use serde::Deserialize;

use crate::error::{HostError, HostResult};
use crate::host::exec;
use crate::host::output::Output;

/// A healthy disk answers in milliseconds; one whose firmware still works off a large discard takes longer.
pub const LIMIT: Duration = Duration::from_secs(30);
/// For a report: a disk that hangs is a fault of its own and delays no other's news.
pub const REPORT_LIMIT: Duration = Duration::from_secs(10);

#[derive(Deserialize)]
struct Wipefs {
    #[serde(default)]
    signatures: Vec<Signature>,
}

#[derive(Deserialize)]
struct Signature {
    #[serde(rename = "type")]
    kind: String,
}

/// Runs a program that reads a device. One that does not come back is the device's failure and names it.
async fn asked(
    program: &str,
    arguments: &[&OsStr],
    device: &Path,
    limit: Duration,
) -> HostResult<Output> {
    let asked = exec::run(program, arguments, limit).await;
    asked.map_err(|error| match error.reason {
        ErrorReason::DeadlineExceeded => HostError::device(
            error.reason,
            format!("{} does not answer: {}", device.display(), error.message),
        ),
        _ => error,
    })
}

/// Names of all signatures on a device; empty when it is raw to both programs.
pub async fn signatures(device: &Path, limit: Duration) -> HostResult<Vec<String>> {
    let path = device.as_os_str();
    let listed = asked(
        "wipefs",
        &["--json".as_ref(), "--no-act".as_ref(), path],
        device,
        limit,
    )
    .await?;
    let mut found = parse_wipefs(&listed.success("wipefs")?.stdout)?;
    let probed = asked(
        "blkid",
        &["-p".as_ref(), "-o".as_ref(), "export".as_ref(), path],
        device,
        limit,
    )
    .await?;
    found.extend(parse_blkid(probed.status, &probed.stdout)?);
    Ok(found.into_iter().collect())
}

/// Names of the signatures in a piece of a device, from `start` and `length` bytes long: a partition's, also where it
/// has no node of its own.
pub async fn signatures_within(
    device: &Path,
    (start, length): (u64, u64),
) -> HostResult<Vec<String>> {
    let (start, length) = (start.to_string(), length.to_string());
    let arguments: [&OsStr; 8] = [
        "-p".as_ref(),
        "-O".as_ref(),
        start.as_ref(),
        "-S".as_ref(),
        length.as_ref(),
        "-o".as_ref(),
        "export".as_ref(),
        device.as_os_str(),
    ];
    let probed = asked("blkid", &arguments, device, LIMIT).await?;
    let found = parse_blkid(probed.status, &probed.stdout)?;
    Ok(found.into_iter().collect())
}

/// What `blkid` finds where several signatures contradict each other: it names none of them.
const SEVERAL: &str = "ambivalent";

/// Whether a signature says that its device is a part of something else (LVM, RAID, ZFS, a cache) or holds what only its
/// owner can read (crypt, swap): in use, whether or not that something is assembled now. Several signatures of which
/// nobody knows the valid one may be such a one over an old file system.
pub fn is_member(signature: &str) -> bool {
    const OTHERS: [&str; 10] = [
        SEVERAL,
        "swap",
        "swsuspend",
        "bcache",
        "bcachefs",
        "drbd",
        "ceph_bluestore",
        "stratis",
        "vdo",
        "BitLocker",
    ];
    signature.ends_with("_member")
        || signature.starts_with("crypto_")
        || signature.starts_with("DM_")
        || OTHERS.contains(&signature)
}

pub(crate) fn parse_wipefs(text: &str) -> HostResult<BTreeSet<String>> {
    if text.trim().is_empty() {
        return Ok(BTreeSet::new());
    }
    let parsed: Wipefs = serde_json::from_str(text).map_err(|error| {
        HostError::host(
            ErrorReason::HostNotReady,
            format!("wipefs answered something else: {error}"),
        )
    })?;
    Ok(parsed
        .signatures
        .into_iter()
        .map(|signature| signature.kind)
        .collect())
}

/// `blkid -p` ends with 2 when it found nothing, and with 8 when it found several things.
pub(crate) fn parse_blkid(status: i32, text: &str) -> HostResult<BTreeSet<String>> {
    match status {
        2 => Ok(BTreeSet::new()),
        0 => Ok(text
            .lines()
            .filter_map(|line| {
                line.strip_prefix("TYPE=")
                    .or_else(|| line.strip_prefix("PTTYPE="))
            })
            .map(str::to_owned)
            .collect()),
        8 => Ok(BTreeSet::from([SEVERAL.to_owned()])),
        other => Err(HostError::host(
            ErrorReason::HostNotReady,
            format!("blkid ended with status {other}"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inc_43_a_signature_is_seen_by_either_program() {
        let wipefs = r#"{"signatures":[{"device":"loop0","offset":"0x200","type":"gpt","uuid":null},
            {"device":"loop0","offset":"0x1fe","type":"PMBR"}]}"#;
        assert_eq!(
            parse_wipefs(wipefs)
                .unwrap()
                .into_iter()
                .collect::<Vec<_>>(),
            ["PMBR", "gpt"]
        );
        assert!(parse_wipefs(r#"{"signatures": []}"#).unwrap().is_empty());
        let blkid = "DEVNAME=/dev/loop0\nPTUUID=748f\nPTTYPE=gpt\n";
        assert_eq!(
            parse_blkid(0, blkid)
                .unwrap()
                .into_iter()
                .collect::<Vec<_>>(),
            ["gpt"]
        );
        assert!(parse_blkid(2, "").unwrap().is_empty());
        assert_eq!(parse_blkid(8, "").unwrap().len(), 1);
        assert!(parse_blkid(4, "").is_err());
    }
    #[test]
    fn p9_members_of_something_else_are_told_from_file_systems() {
        for member in [
            "LVM2_member",
            "linux_raid_member",
            "zfs_member",
            "crypto_LUKS",
            "swap",
            "bcache",
            "isw_raid_member",
            "DM_integrity",
        ] {
            assert!(is_member(member), "{member}");
        }
        let several = parse_blkid(8, "").unwrap();
        assert!(
            several.iter().all(|kind| is_member(kind)),
            "a RAID's superblock over an old file system's: {several:?}"
        );
        for plain in ["ext4", "xfs", "gpt", "dos", "PMBR", "vfat"] {
            assert!(!is_member(plain), "{plain}");
        }
    }
}
