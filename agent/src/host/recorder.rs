//! Notes what is read of a host, and makes a tree of it: nothing else of the host, and nothing secret.
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use sha2::{Digest, Sha256};

use super::recording::Entry;
use super::secrets::without_secrets;

/// Larger files are no facts about a host.
const MAX_FILE: u64 = 1 << 20;
/// More links than any path of a host leads over.
const MAX_LINKS: usize = 40;
/// Of a device's configuration, what tells whether it answers.
const CONFIG_BYTES: usize = 64;
/// Known to identify an installation to everybody who can compare it.
const MACHINE_ID: &str = "/etc/machine-id";
/// What no recording has, by folder or by the end of the name.
const SECRET_FOLDERS: [&str; 5] = [
    "/root",
    "/home",
    "/etc/ssh",
    "/etc/ssl/private",
    "/run/credentials",
];
const SECRET_ENDS: [&str; 5] = [".key", ".pem", "shadow", "id_ed25519", "token"];
/// What a process may hold open that says something about a disk, a GPU or the fabric.
const DEVICES: [&str; 9] = [
    "/dev/nvme",
    "/dev/nvidia",
    "/dev/vfio",
    "/dev/loop",
    "/dev/dm-",
    "/dev/mapper",
    "/dev/md",
    "/dev/sd",
    "/dev/infiniband",
];
/// Programs that checks ask for by name.
const PROGRAMS: [&str; 5] = [
    "dnsmasq",
    "libvirtd",
    "netdata",
    "nvidia-persiste",
    "nv-fabricmanage",
];

/// What was read.
#[derive(Debug, Default)]
pub struct PathsRead {
    paths: Mutex<BTreeMap<PathBuf, bool>>,
}

impl PathsRead {
    /// A path was looked at.
    pub fn note(&self, path: &Path) {
        let mut paths = self.paths.lock().unwrap_or_else(PoisonError::into_inner);
        paths.entry(path.to_owned()).or_insert(false);
    }

    /// A folder was listed.
    pub fn note_list(&self, path: &Path) {
        let mut paths = self.paths.lock().unwrap_or_else(PoisonError::into_inner);
        paths.insert(path.to_owned(), true);
    }

    /// The tree of what was looked at, as it is now, below `root`. What has gone meanwhile is not in it.
    pub fn tree(&self, root: &Path) -> BTreeMap<PathBuf, Entry> {
        let paths = self.paths.lock().unwrap_or_else(PoisonError::into_inner);
        let mut tree = Tree {
            root,
            processes: BTreeMap::new(),
            own_mounts: mounted_devices(root, "self"),
            entries: BTreeMap::new(),
        };
        for (path, listed) in paths.iter() {
            tree.take(path, *listed);
        }
        tree.entries
    }
}

struct Tree<'a> {
    root: &'a Path,
    /// Whether a process says something about the host's devices, by its id.
    processes: BTreeMap<String, bool>,
    own_mounts: BTreeSet<String>,
    entries: BTreeMap<PathBuf, Entry>,
}

impl Tree<'_> {
    fn at(&self, path: &Path) -> PathBuf {
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// Takes a path with the links that lead to it.
    fn take(&mut self, path: &Path, listed: bool) {
        let mut left: Vec<String> = parts(path);
        left.reverse();
        let (mut done, mut links) = (PathBuf::from("/"), 0);
        while let Some(part) = left.pop() {
            let here = done.join(&part);
            if !self.is_recorded(&here) {
                return;
            }
            let Ok(metadata) = std::fs::symlink_metadata(self.at(&here)) else {
                return;
            };
            if metadata.is_symlink() && !(here == Path::new("/proc/self") || is_magic(&here)) {
                links += 1;
                let Some(target) = self.link(&here).filter(|_| links < MAX_LINKS) else {
                    return;
                };
                // what a process holds open is not followed
                if target.is_absolute() {
                    return;
                }
                let mut next = parts(&normal(&done, &target));
                next.reverse();
                left.extend(next);
                done = PathBuf::from("/");
                continue;
            }
            if left.is_empty() {
                self.leaf(&here, listed);
            }
            done = here;
        }
    }

    /// Notes a link; one that is absolute becomes one that stays in the tree.
    fn link(&mut self, path: &Path) -> Option<PathBuf> {
        let target = std::fs::read_link(self.at(path)).ok()?;
        let is_descriptor = path.starts_with("/proc");
        let target = match target.is_absolute() && !is_descriptor {
            true => {
                let up = parts(path).len().saturating_sub(1);
                let below = target.strip_prefix("/").unwrap_or(&target).to_owned();
                (0..up).map(|_| "..").collect::<PathBuf>().join(below)
            }
            false => target,
        };
        self.entries
            .insert(path.to_owned(), Entry::Link(target.clone()));
        Some(target)
    }

    fn leaf(&mut self, path: &Path, listed: bool) {
        let at = self.at(path);
        if is_magic(path) {
            if let Ok(target) = std::fs::read_link(&at) {
                self.entries.insert(path.to_owned(), Entry::Link(target));
            }
            return;
        }
        let Ok(metadata) = std::fs::metadata(&at) else {
            return;
        };
        if metadata.is_dir() {
            let mode = metadata.permissions().mode() & 0o777;
            self.entries.insert(path.to_owned(), Entry::Folder(mode));
            if listed {
                self.children(path);
            }
        } else if !metadata.is_file() {
            // a device node: that it is there is what counts
            self.entries
                .insert(path.to_owned(), Entry::Text(String::new()));
        } else if let Some(entry) = content(path, &at, metadata.len()) {
            self.entries.insert(path.to_owned(), entry);
        }
    }

    /// That they are there; what is in them is taken when it was read.
    fn children(&mut self, folder: &Path) {
        let Ok(listed) = std::fs::read_dir(self.at(folder)) else {
            return;
        };
        for child in listed.flatten() {
            let path = folder.join(child.file_name());
            let Ok(kind) = child.file_type() else {
                continue;
            };
            if !self.is_recorded(&path) || self.entries.contains_key(&path) {
                continue;
            }
            if is_magic(&path) {
                self.leaf(&path, false);
            } else if kind.is_symlink() {
                self.link(&path);
            } else if kind.is_dir() {
                self.entries.insert(path, Entry::Folder(0o755));
            } else {
                self.entries.insert(path, Entry::Text(String::new()));
            }
        }
    }

    /// Nothing secret, and of processes only those that say something about the host's devices.
    fn is_recorded(&mut self, path: &Path) -> bool {
        if SECRET_FOLDERS.iter().any(|folder| path.starts_with(folder)) {
            return false;
        }
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if SECRET_ENDS.iter().any(|end| name.ends_with(end)) {
            return false;
        }
        let mut below = path
            .strip_prefix("/proc")
            .into_iter()
            .flat_map(Path::components);
        let Some(Component::Normal(process)) = below.next() else {
            return true;
        };
        let process = process.to_string_lossy().into_owned();
        if !process.bytes().all(|byte| byte.is_ascii_digit()) {
            return true;
        }
        if let Some(known) = self.processes.get(&process) {
            return *known && !is_foreign_descriptor(self.root, path);
        }
        let tells = self.tells(&process);
        self.processes.insert(process, tells);
        tells && !is_foreign_descriptor(self.root, path)
    }

    fn tells(&self, process: &str) -> bool {
        let folder = self.root.join("proc").join(process);
        let program = std::fs::read_to_string(folder.join("comm")).unwrap_or_default();
        if PROGRAMS.contains(&program.trim()) {
            return true;
        }
        let open = std::fs::read_dir(folder.join("fd"))
            .into_iter()
            .flatten()
            .flatten();
        let mut open = open.filter_map(|one| std::fs::read_link(one.path()).ok());
        open.any(|target| is_device(&target))
            || !mounted_devices(self.root, process).is_subset(&self.own_mounts)
    }
}

/// A link that is no path: `/proc/7/ns/mnt`, `/proc/7/fd/3`.
fn is_magic(path: &Path) -> bool {
    let up = path.parent().and_then(Path::file_name).unwrap_or_default();
    path.starts_with("/proc") && (up == "ns" || up == "fd")
}

fn is_device(target: &Path) -> bool {
    let target = target.to_string_lossy();
    DEVICES.iter().any(|device| target.starts_with(device))
}

/// What a process holds open that says nothing about a device: the names of its files are its own.
fn is_foreign_descriptor(root: &Path, path: &Path) -> bool {
    let up = path.parent().and_then(Path::file_name).unwrap_or_default();
    let target = || std::fs::read_link(root.join(path.strip_prefix("/").unwrap_or(path)));
    up == "fd" && !target().is_ok_and(|target| is_device(&target))
}

/// Lines of a process' mounts that are of a device.
fn mounted_devices(root: &Path, process: &str) -> BTreeSet<String> {
    let text = std::fs::read_to_string(root.join("proc").join(process).join("mountinfo"));
    let text = text.unwrap_or_default();
    let device = |line: &&str| {
        line.split(" - ")
            .nth(1)
            .is_some_and(|right| right.contains(" /dev/"))
    };
    // the first two numbers are of the namespace
    let own = |line: &str| line.splitn(3, ' ').nth(2).unwrap_or_default().to_owned();
    text.lines().filter(device).map(own).collect()
}

fn content(path: &Path, at: &Path, bytes: u64) -> Option<Entry> {
    if bytes > MAX_FILE {
        return None;
    }
    let mut bytes = std::fs::read(at).ok()?;
    if path == Path::new(MACHINE_ID) {
        let hash = hex::encode(Sha256::digest(&bytes));
        return Some(Entry::Text(hash[..32].to_owned()));
    }
    if path.ends_with("config") && path.starts_with("/sys") {
        bytes.truncate(CONFIG_BYTES);
    }
    match String::from_utf8(bytes) {
        Ok(text) if !text.contains('\0') => Some(Entry::Text(without_secrets(&text))),
        Ok(text) => Some(Entry::Bytes(hex::encode(text))),
        Err(error) => Some(Entry::Bytes(hex::encode(error.into_bytes()))),
    }
}

fn parts(path: &Path) -> Vec<String> {
    let normal = path.components().filter_map(|part| match part {
        Component::Normal(part) => Some(part.to_string_lossy().into_owned()),
        _ => None,
    });
    normal.collect()
}

/// Where a relative link in a folder leads to.
fn normal(folder: &Path, target: &Path) -> PathBuf {
    let mut at = folder.to_owned();
    for part in target.components() {
        match part {
            Component::ParentDir => {
                at.pop();
            }
            Component::Normal(part) => at.push(part),
            _ => {}
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::host::recording::Recording;
    use crate::host::root::HostRoot;

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn link(root: &Path, path: &str, target: &str) {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(target, path).unwrap();
    }

    #[test]
    fn what_was_read_is_read_again_from_the_tree_and_nothing_else_is_in_it() {
        let (host, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let at = host.path();
        write(at, "sys/devices/pci0000:15/0000:1b:00.0/vendor", "0x10de\n");
        write(
            at,
            "sys/devices/pci0000:15/0000:1b:00.0/other",
            "not read\n",
        );
        link(
            at,
            "sys/bus/pci/devices/0000:1b:00.0",
            "../../../devices/pci0000:15/0000:1b:00.0",
        );
        write(at, "run/x", "reached\n");
        link(at, "var/run", "/run");
        write(at, "etc/netplan/60.yaml", "network:\n  password: hunter2\n");
        write(at, "etc/machine-id", "4c4c\n");
        write(at, "root/notes", "private\n");
        write(at, "etc/host.key", "private\n");
        for (pid, target) in [(7, "/home/u/love-letter"), (8, "/dev/nvme1n1")] {
            write(at, &format!("proc/{pid}/comm"), "program\n");
            link(at, &format!("proc/{pid}/fd/3"), target);
            link(at, &format!("proc/{pid}/fd/4"), "/home/u/diary");
        }
        let seen = Arc::new(PathsRead::default());
        let root = HostRoot::new(at).noting(Arc::clone(&seen));
        root.names("/sys/bus/pci/devices");
        root.read_value("/sys/bus/pci/devices/0000:1b:00.0/vendor")
            .unwrap();
        root.exists("/sys/bus/pci/devices/0000:1b:00.0/physfn");
        for path in [
            "/var/run/x",
            "/etc/netplan/60.yaml",
            "/etc/machine-id",
            "/root/notes",
            "/etc/host.key",
        ] {
            root.read_value(path);
        }
        for pid in root.names("/proc") {
            for fd in root.names(format!("/proc/{pid}/fd")) {
                root.link(format!("/proc/{pid}/fd/{fd}"));
            }
            root.read_value(format!("/proc/{pid}/comm"));
        }
        let recording = Recording {
            entries: seen.tree(at),
            ..Recording::default()
        };
        recording.lay_out(copy.path()).unwrap();
        let again = HostRoot::new(copy.path());
        assert_eq!(again.names("/sys/bus/pci/devices"), ["0000:1b:00.0"]);
        let vendor = again.read_value("/sys/bus/pci/devices/0000:1b:00.0/vendor");
        assert_eq!(vendor.as_deref(), Some("0x10de"));
        // an absolute link leads to the same place in the tree
        assert_eq!(again.read_value("/var/run/x").as_deref(), Some("reached"));
        assert_eq!(again.names("/proc"), ["8"]);
        assert_eq!(again.names("/proc/8/fd"), ["3"]);
        let text = recording.to_text().unwrap();
        for never in [
            "hunter2",
            "private",
            "love-letter",
            "diary",
            "not read",
            "4c4c\\n",
        ] {
            assert!(!text.contains(never), "{never}: {text}");
        }
    }
}
