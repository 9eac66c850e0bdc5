//! Clone of an image onto a proven disk with `qemu-img`, with its progress (D-26, D-27).
//!
//! A clone that was broken off restarts from zero: the same bytes are written again. After it the rest of the
//! disk is as it was, which is zero, since only a wiped disk is cloned to.
use std::path::Path;
use std::time::Duration;

use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::disk::ExclusiveDisk;
use crate::error::{HostError, HostResult};
use crate::host::exec;

/// Raw to raw, onto the disk that is there, in any order, sixteen pieces at once, past the page cache (D-28).
const CONVERT: [&str; 12] = [
    "convert", "-p", "-f", "raw", "-O", "raw", "-n", "-W", "-m", "16", "-t", "none",
];

/// Clones an image file onto a disk within `limit`; `progress` gets percent. The disk stays open exclusively meanwhile, so that
/// nothing can begin to use it below the clone.
pub async fn clone_image(
    image: &Path,
    disk: &ExclusiveDisk,
    limit: Duration,
    progress: impl FnMut(u32),
) -> HostResult<()> {
    let size = std::fs::metadata(image)
        .map(|metadata| metadata.len())
        .unwrap_or(0);
    if size > disk.bytes() {
        return Err(HostError::device(
            ErrorReason::DiskUnsafe,
            format!(
                "disk {} has {} bytes, the image {size}",
                disk.identity(),
                disk.bytes()
            ),
        ));
    }
    let device = disk.device();
    let mut arguments: Vec<&std::ffi::OsStr> = CONVERT.iter().map(AsRef::as_ref).collect();
    arguments.extend([image.as_os_str(), device.as_os_str()]);
    let failed = |message: String| HostError::host(ErrorReason::HostNotReady, message);
    let mut child = exec::spawn_bound("qemu-img", &arguments).await?;
    let stdout = child.stdout.take();
    let stderr = child.stderr.take();
    let work = async {
        let ((), errors) = tokio::join!(follow(stdout, progress), exec::drain(stderr));
        let status = child
            .wait()
            .await
            .map_err(|error| failed(format!("cannot await qemu-img: {error}")))?;
        if status.success() {
            Ok(())
        } else {
            Err(failed(format!(
                "qemu-img convert failed: {}",
                errors.trim()
            )))
        }
    };
    tokio::time::timeout(limit, work).await.map_err(|_| {
        HostError::host(
            ErrorReason::DeadlineExceeded,
            format!("the clone did not end within {} s", limit.as_secs()),
        )
    })?
}

/// Reads "    (12.34/100%)\r" pieces.
async fn follow(stream: Option<impl AsyncRead + Unpin>, mut progress: impl FnMut(u32)) {
    let Some(mut stream) = stream else { return };
    let mut buffer = [0_u8; 512];
    let mut line = Vec::new();
    let mut last = None;
    while let Ok(read) = stream.read(&mut buffer).await {
        if read == 0 {
            return;
        }
        for byte in &buffer[..read] {
            if matches!(byte, b'\r' | b'\n') {
                let percent = parse_percent(&line);
                if percent.is_some() && percent != last {
                    last = percent;
                    progress(percent.unwrap_or(0));
                }
                line.clear();
            } else if line.len() < 64 {
                line.push(*byte);
            }
        }
    }
}

pub(crate) fn parse_percent(line: &[u8]) -> Option<u32> {
    let text = std::str::from_utf8(line).ok()?;
    let whole = text.trim().strip_prefix('(')?.split(['.', '/']).next()?;
    whole.parse().ok().filter(|percent| *percent <= 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn d_27_progress_is_parsed_and_told_once_per_percent() {
        let mut reports = Vec::new();
        let text: &[u8] =
            b"    (0.00/100%)\r    (0.51/100%)\r    (37.04/100%)\r    (100.00/100%)\r\n";
        follow(Some(text), |percent| reports.push(percent)).await;
        assert_eq!(reports, [0, 37, 100]);
    }

    #[test]
    fn d_28_a_clone_is_of_raw_bytes_in_parallel_and_past_the_page_cache() {
        let line = CONVERT.join(" ");
        for part in ["-f raw", "-O raw", "-n", "-W", "-m 16", "-t none"] {
            assert!(line.contains(part), "{part}");
        }
        assert!(!line.contains("-c "), "nothing is compressed");
    }

    #[test]
    fn noise_is_no_progress() {
        for line in [
            &b"qemu-img: error"[..],
            b"(abc/100%)",
            b"(101.0/100%)",
            b"\xff\xfe",
        ] {
            assert_eq!(parse_percent(line), None);
        }
    }
}
