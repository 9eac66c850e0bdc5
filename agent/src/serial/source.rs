//! The hypervisor's own log of a VM's serial console, read on from where it was: libvirt renames it to `.0`, `.1` and so on
//! when it is large, and deletes the oldest.
use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::archive::Cursor;

/// Rotated files that are looked for: libvirt keeps three unless `virtlogd.conf` says more.
const ROTATED: usize = 16;

/// A log that is being read. The open file keeps its inode from being given to another one.
#[derive(Debug)]
pub struct Source {
    log: PathBuf,
    reading: Option<(File, Cursor)>,
}

impl Source {
    /// Reads a log on from where it was read to; from its oldest file without one.
    pub fn new(log: &Path, cursor: Option<Cursor>) -> io::Result<Self> {
        let mut source = Self {
            log: log.to_owned(),
            reading: None,
        };
        if let Some(cursor) = cursor
            && let Some((file, _)) = source
                .files()?
                .into_iter()
                .find(|(_, inode)| *inode == cursor.inode)
        {
            source.reading = Some((file, cursor));
        }
        Ok(source)
    }

    /// The files that are there with their inodes, the newest first.
    fn files(&self) -> io::Result<Vec<(File, u64)>> {
        let rotated = (0..ROTATED).map(|number| {
            let mut name = self.log.clone().into_os_string();
            name.push(format!(".{number}"));
            PathBuf::from(name)
        });
        let mut files = Vec::new();
        for path in std::iter::once(self.log.clone()).chain(rotated) {
            match File::open(path) {
                Ok(file) => {
                    let inode = file.metadata()?.ino();
                    files.push((file, inode));
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(files)
    }

    /// The next bytes and where they end; none: there are no more now.
    ///
    /// # Errors
    /// The files cannot be read.
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<Option<(usize, Cursor)>> {
        loop {
            if let Some((file, cursor)) = &mut self.reading {
                if file.metadata()?.len() < cursor.offset {
                    // somebody emptied it
                    cursor.offset = 0;
                }
                file.seek(SeekFrom::Start(cursor.offset))?;
                let length = file.read(buffer)?;
                if length > 0 {
                    cursor.offset += length as u64;
                    return Ok(Some((length, *cursor)));
                }
            }
            if !self.turn_over()? {
                return Ok(None);
            }
        }
    }

    /// Goes to the file after the one that was read to its end; false when that is the newest. The end was seen before the
    /// files are looked for, and what is renamed is not written to any more: but it may have been in between, so it is
    /// read once more then.
    fn turn_over(&mut self) -> io::Result<bool> {
        let Some((_, cursor)) = &self.reading else {
            return self.go_to_oldest();
        };
        let inode = cursor.inode;
        if fs::metadata(&self.log).is_ok_and(|newest| newest.ino() == inode) {
            return Ok(false);
        }
        if let Some((file, cursor)) = &self.reading
            && file.metadata()?.len() > cursor.offset
        {
            return Ok(true);
        }
        let mut files = self.files()?;
        match files.iter().position(|(_, of)| *of == inode) {
            Some(0) => Ok(false),
            Some(older) => {
                let (file, inode) = files.swap_remove(older - 1);
                self.reading = Some((file, Cursor { inode, offset: 0 }));
                Ok(true)
            }
            // it was deleted: all that are there are newer
            None => self.go_to_oldest(),
        }
    }

    fn go_to_oldest(&mut self) -> io::Result<bool> {
        let oldest = self.files()?.pop();
        self.reading = oldest.map(|(file, inode)| (file, Cursor { inode, offset: 0 }));
        Ok(self.reading.is_some())
    }
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::io::Write as _;

    use super::*;

    struct Log {
        dir: tempfile::TempDir,
    }

    impl Log {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            Self { dir }
        }

        fn path(&self) -> PathBuf {
            self.dir.path().join("vm.log")
        }

        fn print(&self, text: &str) {
            let mut file = OpenOptions::new()
                .create(true)
                .append(true)
                .open(self.path())
                .unwrap();
            file.write_all(text.as_bytes()).unwrap();
        }

        /// As virtlogd does it, with three files.
        fn rotate(&self) {
            let named = |number: usize| self.dir.path().join(format!("vm.log.{number}"));
            for number in [1, 0] {
                let _ = fs::rename(named(number), named(number + 1));
            }
            fs::rename(self.path(), named(0)).unwrap();
        }
    }

    fn rest(source: &mut Source) -> (String, Option<Cursor>) {
        let (mut text, mut last) = (String::new(), None);
        let mut buffer = [0; 4];
        while let Some((length, cursor)) = source.read(&mut buffer).unwrap() {
            text += std::str::from_utf8(&buffer[..length]).unwrap();
            last = Some(cursor);
        }
        (text, last)
    }

    #[test]
    fn what_is_rotated_while_it_is_read_is_read_once_and_whole() {
        let log = Log::new();
        let mut source = Source::new(&log.path(), None).unwrap();
        assert_eq!(rest(&mut source), (String::new(), None), "no log yet");
        log.print("first ");
        assert_eq!(rest(&mut source).0, "first ");
        log.print("end-of-0 ");
        log.rotate();
        log.print("second ");
        log.rotate();
        log.print("third ");
        assert_eq!(rest(&mut source).0, "end-of-0 second third ");
        log.rotate();
        // the new file is not made yet
        assert_eq!(rest(&mut source).0, "");
        log.print("fourth");
        assert_eq!(rest(&mut source).0, "fourth");
    }

    #[test]
    fn a_restart_goes_on_in_the_file_that_was_read_and_with_the_oldest_when_it_is_gone() {
        let log = Log::new();
        log.print("one two");
        let mut source = Source::new(&log.path(), None).unwrap();
        let mut buffer = [0; 4];
        let (_, cursor) = source.read(&mut buffer).unwrap().unwrap();
        log.rotate();
        log.print(" three");
        let mut again = Source::new(&log.path(), Some(cursor)).unwrap();
        assert_eq!(rest(&mut again).0, "two three");
        for text in ["4", "5", "6"] {
            log.rotate();
            log.print(text);
        }
        let gone = Cursor {
            inode: 0,
            offset: 99,
        };
        let mut again = Source::new(&log.path(), Some(gone)).unwrap();
        assert_eq!(rest(&mut again).0, " three456");
    }

    #[test]
    fn a_log_that_was_emptied_is_read_from_its_beginning() {
        let log = Log::new();
        log.print("long text");
        let mut source = Source::new(&log.path(), None).unwrap();
        assert_eq!(rest(&mut source).0, "long text");
        OpenOptions::new()
            .write(true)
            .open(log.path())
            .unwrap()
            .set_len(0)
            .unwrap();
        log.print("new");
        assert_eq!(rest(&mut source).0, "new");
    }
}
