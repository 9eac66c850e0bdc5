//! Disks of a host: loop devices, which end with the process however it ends.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use uuid::Uuid;

/// Larger than what the agent reads back whole whatever its settings say, so that a test can have it read samples.
pub const DISK_BYTES: u64 = 24 << 20;

pub struct Disk {
    pub id: Uuid,
    pub file: PathBuf,
    /// The device is detached when nobody has it open any more.
    _device: File,
}

impl Disk {
    pub fn attach(file: &Path) -> Self {
        File::create(file)
            .and_then(|made| made.set_len(DISK_BYTES))
            .expect("a file");
        let shown = losetup(&["--find", "--show", &file.to_string_lossy()]);
        let name = shown.trim();
        let device = File::open(name).expect("a device");
        losetup(&["--detach", name]);
        Self {
            id: Uuid::now_v7(),
            file: file.to_owned(),
            _device: device,
        }
    }

    /// Whether anything but zeros is on it.
    pub fn is_dirty(&self) -> bool {
        const PIECE: usize = 1 << 20;
        let mut file = File::open(&self.file).expect("a file");
        let (mut piece, zeros) = (vec![0; PIECE], vec![0; PIECE]);
        for _ in 0..DISK_BYTES / PIECE as u64 {
            file.read_exact(&mut piece).expect("a disk");
            if piece != zeros {
                return true;
            }
        }
        false
    }
}

fn losetup(arguments: &[&str]) -> String {
    let ran = Command::new("losetup").args(arguments).output();
    let ran = ran.expect("losetup");
    assert!(ran.status.success(), "losetup {arguments:?}: {ran:?}");
    String::from_utf8(ran.stdout).expect("text")
}
