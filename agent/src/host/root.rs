//! Files of the host below a configurable root, so that recorded hosts run through the very code that runs on
//! live ones.
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use nix::errno::Errno;
use nix::fcntl::AtFlags;
use nix::sys::stat::{FileStat, fstatat};

use super::recorder::PathsRead;

/// The name of a link, and what was asked of it.
type Link<T> = (String, io::Result<T>);

/// The root under which `/proc`, `/sys`, `/dev` and `/etc` are read.
#[derive(Debug, Clone)]
pub struct HostRoot {
    root: PathBuf,
    /// Notes what is read, while the host is recorded.
    seen: Option<Arc<PathsRead>>,
}

impl HostRoot {
    /// A root; `/` is the live host.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self {
            root: root.into(),
            seen: None,
        }
    }

    /// The same root, noting what is read.
    #[must_use]
    pub fn noting(self, seen: Arc<PathsRead>) -> Self {
        let seen = Some(seen);
        Self { seen, ..self }
    }

    /// Whether this is the live host and not a recording.
    pub fn is_live(&self) -> bool {
        self.root == Path::new("/")
    }

    /// Where an absolute path of the host lies.
    pub fn path(&self, absolute: impl AsRef<Path>) -> PathBuf {
        if let Some(seen) = &self.seen {
            seen.note(absolute.as_ref());
        }
        let relative: PathBuf = absolute
            .as_ref()
            .components()
            .filter(|part| matches!(part, Component::Normal(_)))
            .collect();
        self.root.join(relative)
    }

    /// Text of a file; bytes that are no text become replacement characters.
    pub fn read(&self, absolute: impl AsRef<Path>) -> io::Result<String> {
        let bytes = self.bytes(absolute)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Bytes of a file.
    pub fn bytes(&self, absolute: impl AsRef<Path>) -> io::Result<Vec<u8>> {
        std::fs::read(self.path(absolute))
    }

    /// Trimmed text of a file, `None` when it cannot be read.
    pub fn read_value(&self, absolute: impl AsRef<Path>) -> Option<String> {
        self.read(absolute).ok().map(|text| text.trim().to_owned())
    }

    /// Whether a path exists; a dangling symlink does not.
    pub fn exists(&self, absolute: impl AsRef<Path>) -> bool {
        self.path(absolute).exists()
    }

    /// Sorted names in a folder, symlinks included (INC-16); empty when it does not exist.
    pub fn names(&self, absolute: impl AsRef<Path>) -> Vec<String> {
        self.note_list(absolute.as_ref());
        let Ok(entries) = std::fs::read_dir(self.path(absolute)) else {
            return Vec::new();
        };
        let mut names: Vec<String> = entries
            .flatten()
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect();
        names.sort();
        names
    }

    /// The same for whoever must not take "cannot be read" for "empty" (P9): only a folder that is not there is empty.
    ///
    /// # Errors
    /// The folder or an entry of it cannot be read.
    pub fn list(&self, absolute: impl AsRef<Path>) -> io::Result<Vec<String>> {
        self.note_list(absolute.as_ref());
        let entries = match std::fs::read_dir(self.path(absolute)) {
            Ok(entries) => entries,
            Err(error) if is_gone(&error) => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        match names_of(entries) {
            Err(error) if is_gone(&error) => Ok(Vec::new()),
            names => names,
        }
    }

    /// The links in a folder with where each leads to. Empty when the folder is not there.
    ///
    /// # Errors
    /// The folder cannot be read; each link has an error of its own.
    pub fn links(&self, absolute: impl AsRef<Path>) -> io::Result<Vec<Link<PathBuf>>> {
        self.each_link(absolute.as_ref(), |folder, name| {
            nix::fcntl::readlinkat(folder, name).map(PathBuf::from)
        })
    }

    /// The links in a folder with the status of the file that each leads to, asked through the link itself: a node of
    /// another name or namespace has the same number. Empty when the folder is not there.
    ///
    /// # Errors
    /// The folder cannot be read; each link has an error of its own.
    pub fn files(&self, absolute: impl AsRef<Path>) -> io::Result<Vec<Link<FileStat>>> {
        self.each_link(absolute.as_ref(), |folder, name| {
            fstatat(folder, name, AtFlags::empty())
        })
    }

    /// From the folder itself: of the thousands of descriptors that processes have open that costs less than a walk down to
    /// each.
    fn each_link<T>(
        &self,
        absolute: &Path,
        read: impl Fn(&File, &str) -> nix::Result<T>,
    ) -> io::Result<Vec<Link<T>>> {
        let folder = match File::open(self.path(absolute)) {
            Ok(folder) => folder,
            Err(error) if is_gone(&error) => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        self.note_list(absolute);
        // of the very folder that is open: the id of a process that ends is given to another
        let listed = std::fs::read_dir(format!("/proc/self/fd/{}", folder.as_raw_fd()));
        let names = match listed.and_then(names_of) {
            Err(error) if is_gone(&error) => Vec::new(),
            names => names?,
        };
        let link = |name: String| {
            if let Some(seen) = &self.seen {
                seen.note(&absolute.join(&name));
            }
            let read = read(&folder, &name).map_err(io::Error::from);
            (name, read)
        };
        Ok(names.into_iter().map(link).collect())
    }

    fn note_list(&self, folder: &Path) {
        if let Some(seen) = &self.seen {
            seen.note_list(folder);
        }
    }

    /// Trimmed text of a file, `None` only when it does not exist.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn value(&self, absolute: impl AsRef<Path>) -> io::Result<Option<String>> {
        match self.read(absolute) {
            Ok(text) => Ok(Some(text.trim().to_owned())),
            Err(error) if is_gone(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Last component of where a symlink points to.
    pub fn link_name(&self, absolute: impl AsRef<Path>) -> Option<String> {
        let target = std::fs::read_link(self.path(absolute)).ok()?;
        Some(target.file_name()?.to_string_lossy().into_owned())
    }

    /// The target of a symlink, unresolved.
    pub fn link(&self, absolute: impl AsRef<Path>) -> Option<PathBuf> {
        std::fs::read_link(self.path(absolute)).ok()
    }
}

/// Sorted names of the entries of a folder.
fn names_of(entries: std::fs::ReadDir) -> io::Result<Vec<String>> {
    let name = |entry: std::fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
    let mut names: Vec<String> = entries
        .map(|entry| entry.map(name))
        .collect::<io::Result<_>>()?;
    names.sort();
    Ok(names)
}

/// Whether an error says that a file is not there. The kernel says `ENODEV` of an attribute whose device was taken away
/// after the attribute was opened.
fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(Errno::ENODEV as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p9_what_went_away_while_it_was_read_is_not_there_and_nothing_else_is() {
        for (errno, gone) in [
            (Errno::ENOENT, true),
            (Errno::ENODEV, true),
            (Errno::EACCES, false),
            (Errno::EIO, false),
            (Errno::ENXIO, false),
            (Errno::ENOMEM, false),
        ] {
            assert_eq!(is_gone(&errno.into()), gone, "{errno}");
        }
    }
}
