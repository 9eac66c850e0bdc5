//! The disks of lab slots: sparse files behind loop devices, recorded by a UUID.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use uuid::Uuid;

use crate::error::{Error, Result};
use crate::paths;
use crate::process::{run, wait_until};

/// Size of a lab disk in bytes; the file is sparse.
const SIZE: u64 = 512 << 20;

/// A file that plays an NVMe disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disk {
    /// Identity; the loop device's number is none.
    pub id: Uuid,
    /// The file.
    pub file: PathBuf,
}

impl Disk {
    /// The disk of a slot below `folder`, made if it is missing.
    pub fn open(folder: &Path, index: u16) -> Result<Self> {
        paths::ensure_dir(folder)?;
        let file = folder.join(format!("slot{index}.img"));
        let identity = folder.join(format!("slot{index}.id"));
        let recorded = std::fs::read_to_string(&identity).ok();
        let id = match recorded.and_then(|id| id.trim().parse().ok()) {
            Some(id) => id,
            None => {
                let id = Uuid::new_v4();
                paths::write_with_mode(&identity, id.to_string().as_bytes(), 0o644)?;
                id
            }
        };
        if !file.exists() {
            let made = std::fs::File::create(&file).and_then(|made| made.set_len(SIZE));
            made.map_err(Error::file("create", &file))?;
        }
        // what a tenant writes is for nobody on this machine to read; also of a file that is there already
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600))
            .map_err(Error::file("set the mode of", &file))?;
        Ok(Self { id, file })
    }

    /// The loop device the file is behind, if any.
    pub fn device(&self) -> Result<Option<String>> {
        let listed = run(
            "losetup",
            &["-n", "-O", "NAME", "-j", &self.file.to_string_lossy()],
        )?;
        Ok(listed.lines().next().map(|name| name.trim().to_owned()))
    }

    /// Puts the file behind a loop device unless it is behind one.
    pub fn attach(&self) -> Result<String> {
        if let Some(device) = self.device()? {
            return Ok(device);
        }
        let device = run("losetup", &["-f", "--show", &self.file.to_string_lossy()])?;
        let device = device.trim();
        // partitions that were probed on the file before this one stay with the device's number
        let _none_is_fine = run("partx", &["-d", device]);
        Ok(device.to_owned())
    }
}

/// Detaches every loop device whose file lies below `folder`.
pub fn detach_below(folder: &Path) {
    let devices = |detach: bool| {
        let listed = run("losetup", &["-l", "-n", "-O", "NAME,BACK-FILE"]).unwrap_or_default();
        let mut left = 0;
        for line in listed.lines() {
            let Some((device, file)) = line.trim().split_once(char::is_whitespace) else {
                continue;
            };
            if Path::new(file.trim().trim_end_matches(" (deleted)")).starts_with(folder) {
                left += 1;
                if detach {
                    let _counted_below = run("losetup", &["-d", device]);
                }
            }
        }
        left
    };
    devices(true);
    // a device that was still open when it was detached goes away with its last user
    wait_until(Duration::from_secs(10), || devices(false) == 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p2_nobody_but_its_owner_reads_a_lab_disk() {
        let folder = std::env::temp_dir().join(format!("gpuaas-disks-{}", std::process::id()));
        let made = Disk::open(&folder, 0).unwrap();
        let mode = || std::fs::metadata(&made.file).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(), 0o600);
        // one of an earlier stack, that everybody could read
        std::fs::set_permissions(&made.file, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(Disk::open(&folder, 0).unwrap(), made);
        assert_eq!(mode(), 0o600);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
