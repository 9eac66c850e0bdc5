//! The file in which the hypervisor keeps what a VM prints on its serial console. libvirt rotates it by size.
use std::fs;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use crate::error::{HostResult, io_error};

/// Lines and bytes of the end that a failure names.
const LINES: usize = 5;
const BYTES: u64 = 4096;
/// Longest line that is shown, in characters.
const WIDTH: usize = 200;

/// Makes the folder, for this host's administrator alone.
///
/// # Errors
/// It cannot be made.
pub fn prepare(log: &Path) -> HostResult<()> {
    let Some(folder) = log.parent() else {
        return Ok(());
    };
    let made = fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder);
    made.map_err(io_error(format_args!("cannot make {}", folder.display())))
}

/// The last lines as plain text; empty when there is nothing to read.
pub fn end_of(log: &Path) -> String {
    read_end(log).map(|bytes| plain(&bytes)).unwrap_or_default()
}

fn read_end(log: &Path) -> io::Result<Vec<u8>> {
    let mut file = fs::File::open(log)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(BYTES)))?;
    let mut bytes = Vec::new();
    file.take(BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A guest prints what it likes: escape sequences and control characters are left out.
fn plain(bytes: &[u8]) -> String {
    let clean = gpuaas_common::readiness::plain(&String::from_utf8_lossy(bytes));
    let lines: Vec<String> = clean
        .lines()
        .map(str::trim_end)
        .filter(|line| !line.is_empty())
        .map(|line| line.chars().take(WIDTH).collect())
        .collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}

/// Removes the log and what it was rotated to: it is the tenant's.
///
/// # Errors
/// A file of it cannot be removed.
pub fn remove(log: &Path) -> HostResult<()> {
    let failed = || io_error("cannot remove a serial log");
    let (Some(folder), Some(name)) = (log.parent(), log.file_name().and_then(|name| name.to_str()))
    else {
        return Ok(());
    };
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(failed())?,
    };
    for entry in entries {
        let entry = entry.map_err(failed())?;
        let file = entry.file_name();
        let is_log = file.to_str().is_some_and(|file| {
            let rotated = file.strip_prefix(name);
            rotated.is_some_and(|number| number.is_empty() || number.starts_with('.'))
        });
        if is_log {
            match fs::remove_file(entry.path()) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(failed()(error));
                }
                _ => {}
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_shows_the_end_of_what_a_guest_printed_as_plain_text() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("vm.log");
        assert_eq!(end_of(&log), "", "no log");
        let mut printed = "x".repeat(9000) + "\n1\n2\n\n3\r\n\u{1b}[1;31mpanic\u{7}\u{1b}[0m\n";
        printed += &"y".repeat(300);
        fs::write(&log, printed).unwrap();
        let wide = "y".repeat(WIDTH);
        assert_eq!(end_of(&log), format!("1\n2\n3\npanic\n{wide}"));
        fs::write(&log, [0xff, b'a', 0, b'\n']).unwrap();
        assert_eq!(end_of(&log), "\u{fffd}a");
    }

    #[test]
    fn p2_a_serial_log_goes_with_its_vm_and_no_other_does() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("serial/vm-1.log");
        remove(&log).unwrap();
        prepare(&log).unwrap();
        for name in [
            "vm-1.log",
            "vm-1.log.0",
            "vm-1.log.1",
            "vm-12.log",
            "vm-1.login",
        ] {
            fs::write(log.with_file_name(name), "x").unwrap();
        }
        remove(&log).unwrap();
        let left = crate::host::root::HostRoot::new(dir.path()).names("/serial");
        assert_eq!(left, ["vm-1.login", "vm-12.log"]);
    }
}
