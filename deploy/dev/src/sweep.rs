//! Ends what tests left: processes whose pid files lie below a folder, loop devices, namespaces.
//!
//! A test ends its own parts; this is for those that were killed before they could, and for servers that tests share.

use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::lab;
use crate::process::{PidFile, Process};

/// How deep below the folder pid files may lie.
const DEPTH: usize = 4;

/// What was started below `folder` and runs.
pub fn running(folder: &Path) -> Vec<Process> {
    let files = files(folder, DEPTH).into_iter();
    files
        .filter(|file| file.extension().is_some_and(|extension| extension == "pid"))
        .filter_map(|file| PidFile::new(file).running())
        .collect()
}

/// Ends everything that was started below `folder`. Its files stay.
pub fn sweep(folder: &Path) {
    for process in running(folder) {
        process.stop(Signal::SIGTERM, Duration::from_secs(1));
    }
    lab::detach_below(folder);
    for file in files(folder, DEPTH) {
        if lab::is_network_marker(&file) {
            lab::remove_network(&file);
        }
    }
}

/// Every file below a folder, down to a depth. A folder that cannot be read holds none of ours.
fn files(folder: &Path, depth: usize) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_file() => found.push(path),
            Ok(kind) if kind.is_dir() && depth > 0 => found.extend(files(&path, depth - 1)),
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::process::spawn_detached;

    #[test]
    fn processes_below_the_folder_end_and_others_live() {
        let folder = std::env::temp_dir().join(format!("gpuaas-sweep-{}", std::process::id()));
        let mut sleep = Command::new("sleep");
        sleep.arg("600");
        let start = |part: &str| {
            let place = folder.join(part);
            crate::paths::ensure_dir(&place).unwrap();
            spawn_detached(
                &sleep,
                &place.join("log"),
                &PidFile::new(place.join("a.pid")),
            )
            .unwrap()
        };
        let (ours, other) = (start("ours/deep"), start("other"));
        sweep(&folder.join("ours"));
        assert!(!ours.alive());
        assert!(other.alive());
        other.stop(Signal::SIGKILL, Duration::from_secs(5));
        std::fs::remove_dir_all(folder).unwrap();
    }
}
