//! Files only their owner may read: keys and tokens.
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Writes a new file of mode 0600.
///
/// # Errors
/// It exists already, or cannot be written.
pub fn create(path: &Path, text: &str) -> io::Result<()> {
    let mut file = open_new(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// Writes a file of mode 0600, replacing one that exists at once and whole.
///
/// # Errors
/// It cannot be written.
pub fn replace(path: &Path, text: &str) -> io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}", std::process::id()));
    let beside = Path::new(&beside);
    create(beside, text)?;
    fs::rename(beside, path)
}

fn open_new(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
}
