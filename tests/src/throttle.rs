//! A disk that is slow for one process and every program it starts: the kernel's control groups hold their writes back, by the
//! first version of the groups (`blkio`) or the second (`io.max`), whichever the machine has.
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use uuid::Uuid;

/// Where groups are made that can hold writes back.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Groups {
    First(PathBuf),
    Second(PathBuf),
}

impl Groups {
    /// As `/proc/mounts` and the folders that it names have them.
    ///
    /// # Errors
    /// Why there are none, for people.
    fn find(mounts: &str) -> Result<Self, String> {
        let mut why = Vec::new();
        for line in mounts.lines() {
            let fields: Vec<&str> = line.split(' ').collect();
            let [_, at, kind, options, ..] = fields[..] else {
                continue;
            };
            let at = PathBuf::from(at);
            match kind {
                "cgroup" if options.split(',').any(|one| one == "blkio") => {
                    if at.join("blkio.throttle.write_bps_device").exists() {
                        return Ok(Self::First(at));
                    }
                    why.push(format!("{} has no throttle", at.display()));
                }
                "cgroup2" => match Self::second(&at) {
                    Ok(()) => return Ok(Self::Second(at)),
                    Err(one) => why.push(one),
                },
                _ => {}
            }
        }
        Err(match why.is_empty() {
            true => "no control groups are mounted".to_owned(),
            false => why.join("; "),
        })
    }

    /// Has the second version hold back what its groups write.
    fn second(at: &Path) -> Result<(), String> {
        let there = fs::read_to_string(at.join("cgroup.controllers")).unwrap_or_default();
        if !there.split_whitespace().any(|one| one == "io") {
            return Err(format!(
                "{} has no controller io, only: {}",
                at.display(),
                there.trim()
            ));
        }
        let file = at.join("cgroup.subtree_control");
        fs::write(&file, "+io").map_err(|error| format!("{}: {error}", file.display()))
    }

    fn folder(&self) -> &Path {
        match self {
            Self::First(at) | Self::Second(at) => at,
        }
    }

    /// The file that holds a device back to so many bytes a second, and what is written to it; 0: as fast as it is.
    fn limit(&self, device: &str, bytes_per_second: u64) -> (&'static str, String) {
        match (self, bytes_per_second) {
            (Self::First(_), _) => (
                "blkio.throttle.write_bps_device",
                format!("{device} {bytes_per_second}"),
            ),
            (Self::Second(_), 0) => ("io.max", format!("{device} wbps=max")),
            (Self::Second(_), _) => ("io.max", format!("{device} wbps={bytes_per_second}")),
        }
    }
}

/// The throttle of one disk, until it is dropped.
pub struct Throttle {
    groups: Groups,
    group: PathBuf,
    /// Major and minor number.
    device: String,
}

impl Throttle {
    /// Holds the writes of a process to a block device, such as `/dev/loop0`, back to so many bytes a second.
    ///
    /// # Errors
    /// Why the kernel of this machine cannot, for people.
    ///
    /// # Panics
    /// When it could and does not.
    pub fn set(pid: i32, device: &str, bytes_per_second: u64) -> Result<Self, String> {
        let mounts = fs::read_to_string("/proc/mounts").expect("mounts");
        let groups = Groups::find(&mounts)?;
        let name = device.trim_start_matches("/dev/");
        let device = fs::read_to_string(format!("/sys/block/{name}/dev")).expect("a block device");
        let group = groups
            .folder()
            .join(format!("gpuaas-slow-{}", Uuid::now_v7()));
        fs::create_dir(&group).expect("a control group");
        let throttle = Self {
            groups,
            group,
            device: device.trim().to_owned(),
        };
        throttle.limit(bytes_per_second);
        throttle.write("cgroup.procs", &pid.to_string());
        Ok(throttle)
    }

    /// Another limit; 0: as fast as it is.
    ///
    /// # Panics
    /// When the kernel does not take it.
    pub fn limit(&self, bytes_per_second: u64) {
        let (file, line) = self.groups.limit(&self.device, bytes_per_second);
        self.write(file, &line);
    }

    fn write(&self, file: &str, text: &str) {
        fs::write(self.group.join(file), text).unwrap_or_else(|error| panic!("{file}: {error}"));
    }
}

impl Drop for Throttle {
    fn drop(&mut self) {
        // a test that fails is on its way out: nothing may panic here
        let (file, line) = self.groups.limit(&self.device, 0);
        let lifted = fs::write(self.group.join(file), line);
        let all = self.groups.folder().join("cgroup.procs");
        // what is started meanwhile is in the group, too
        for _ in 0..50 {
            let procs = fs::read_to_string(self.group.join("cgroup.procs")).unwrap_or_default();
            for pid in procs.lines() {
                let _ended_is_fine = fs::write(&all, pid);
            }
            if fs::remove_dir(&self.group).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        println!("{} stays; lifted: {lifted:?}", self.group.display());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine with these files, and its `/proc/mounts`.
    fn machine(files: &[(&str, &str)]) -> (tempfile::TempDir, String) {
        let dir = tempfile::tempdir().unwrap();
        for (file, text) in files {
            let path = dir.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let at = dir.path().display();
        let mounts = format!(
            "proc /proc proc rw 0 0\ncgroup {at}/cpu cgroup rw,cpu 0 0\ncgroup {at}/blkio cgroup rw,blkio 0 0\n\
             cgroup2 {at}/unified cgroup2 rw 0 0\n"
        );
        (dir, mounts)
    }

    #[test]
    fn a_machine_with_the_first_version_uses_it() {
        let (dir, mounts) = machine(&[
            ("blkio/blkio.throttle.write_bps_device", ""),
            ("unified/cgroup.controllers", "hugetlb\n"),
        ]);
        let groups = Groups::find(&mounts).unwrap();
        assert_eq!(groups, Groups::First(dir.path().join("blkio")));
        let file = "blkio.throttle.write_bps_device";
        assert_eq!(groups.limit("7:0", 4096), (file, "7:0 4096".into()));
        assert_eq!(groups.limit("7:0", 0), (file, "7:0 0".into()));
    }

    #[test]
    fn a_machine_with_the_second_version_uses_io_max() {
        let (dir, mounts) = machine(&[
            ("unified/cgroup.controllers", "cpuset cpu io memory\n"),
            ("unified/cgroup.subtree_control", ""),
        ]);
        let groups = Groups::find(&mounts).unwrap();
        assert_eq!(groups, Groups::Second(dir.path().join("unified")));
        let enabled = fs::read_to_string(dir.path().join("unified/cgroup.subtree_control"));
        assert_eq!(enabled.unwrap(), "+io");
        assert_eq!(
            groups.limit("7:0", 4096),
            ("io.max", "7:0 wbps=4096".into())
        );
        assert_eq!(groups.limit("7:0", 0), ("io.max", "7:0 wbps=max".into()));
    }

    #[test]
    fn a_machine_with_neither_says_why() {
        let (dir, mounts) = machine(&[("unified/cgroup.controllers", "hugetlb\n")]);
        let at = dir.path().display();
        let why =
            format!("{at}/blkio has no throttle; {at}/unified has no controller io, only: hugetlb");
        assert_eq!(Groups::find(&mounts), Err(why));
        let none = "no control groups are mounted".to_owned();
        assert_eq!(Groups::find("proc /proc proc rw 0 0\n"), Err(none));
    }
}
