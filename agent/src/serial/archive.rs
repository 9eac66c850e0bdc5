//! What one VM printed, in files of records: each has the time at which it was read, and how far the hypervisor's own log was
//! read with it. So a restart of the agent goes on where it was, and a record that a crash cut off is no record.
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, Read, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Most bytes of one record.
pub const MAX_RECORD: usize = 64 << 10;
/// Time, inode, offset, length.
const HEAD: usize = 28;

/// How far the hypervisor's log was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    /// The file, whatever it is renamed to.
    pub inode: u64,
    /// Bytes of it that were read.
    pub offset: u64,
}

/// A part of what was printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// Bytes printed before it.
    pub offset: u64,
    /// When it was read, in milliseconds since 1970.
    pub time_ms: i64,
    pub data: Vec<u8>,
}

impl Chunk {
    /// Bytes printed up to its end.
    pub fn end(&self) -> u64 {
        self.offset + self.data.len() as u64
    }
}

/// The end of an archive, where it grows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tail {
    /// Bytes printed so far.
    pub end: u64,
    /// Where to read on; none before the first record.
    pub cursor: Option<Cursor>,
}

/// The archive of one VM: a folder whose files are named by the offset of their first byte.
#[derive(Debug, Clone)]
pub struct Archive {
    folder: PathBuf,
    /// Most bytes of all files.
    max_bytes: u64,
}

impl Archive {
    /// The archive in a folder, which may not be there yet.
    pub fn new(folder: PathBuf, max_bytes: u64) -> Self {
        Self { folder, max_bytes }
    }

    /// First offsets of the files, in order.
    fn segments(&self) -> io::Result<Vec<u64>> {
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut starts = Vec::new();
        for entry in entries {
            let name = entry?.file_name();
            starts.extend(name.to_str().and_then(|name| name.parse::<u64>().ok()));
        }
        starts.sort_unstable();
        Ok(starts)
    }

    fn path(&self, start: u64) -> PathBuf {
        self.folder.join(format!("{start:020}"))
    }

    /// Where the archive begins: what was printed before is not kept any more. None: there is nothing.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn start(&self) -> io::Result<Option<u64>> {
        Ok(self.segments()?.first().copied())
    }

    /// Finds the end, and cuts off what is no whole record.
    ///
    /// # Errors
    /// Its files cannot be read.
    pub fn open(&self) -> io::Result<Tail> {
        let Some(start) = self.segments()?.last().copied() else {
            return Ok(Tail::default());
        };
        let path = self.path(start);
        let mut tail = Tail {
            end: start,
            cursor: None,
        };
        let mut whole = 0;
        for record in Records::open(&path, start)? {
            let (chunk, cursor) = record?;
            tail.end = chunk.end();
            tail.cursor = Some(cursor);
            whole += (HEAD + chunk.data.len()) as u64;
        }
        let file = OpenOptions::new().write(true).open(&path)?;
        if file.metadata()?.len() > whole {
            file.set_len(whole)?;
        }
        Ok(tail)
    }

    /// Adds a record of at most [`MAX_RECORD`] bytes, in a new file when the last one is full, and deletes the oldest files
    /// beyond the bound.
    ///
    /// # Errors
    /// It cannot be written: the tail stays, and the next [`Archive::open`] cuts off what is left of it.
    pub fn append(
        &self,
        tail: &mut Tail,
        time_ms: i64,
        cursor: Cursor,
        data: &[u8],
    ) -> io::Result<()> {
        let mut segments = self.segments()?;
        let last = match segments.last() {
            Some(start) if fs::metadata(self.path(*start))?.len() < self.segment_bytes() => *start,
            _ => {
                let folder = fs::DirBuilder::new()
                    .recursive(true)
                    .mode(0o700)
                    .create(&self.folder);
                folder?;
                segments.push(tail.end);
                tail.end
            }
        };
        let mut record = Vec::with_capacity(HEAD + data.len());
        record.extend(time_ms.to_le_bytes());
        record.extend(cursor.inode.to_le_bytes());
        record.extend(cursor.offset.to_le_bytes());
        // at most MAX_RECORD
        record.extend((data.len() as u32).to_le_bytes());
        record.extend(data);
        OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(self.path(last))?
            .write_all(&record)?;
        tail.end += data.len() as u64;
        tail.cursor = Some(cursor);
        self.keep_within_bound(&segments)
    }

    /// Size from which on a file is full.
    fn segment_bytes(&self) -> u64 {
        (self.max_bytes / 8).min(1 << 20)
    }

    fn keep_within_bound(&self, segments: &[u64]) -> io::Result<()> {
        let mut sizes = Vec::with_capacity(segments.len());
        for start in segments {
            sizes.push(fs::metadata(self.path(*start))?.len());
        }
        let mut total: u64 = sizes.iter().sum();
        // the one that grows stays
        let others = segments.len().saturating_sub(1);
        for (start, size) in segments.iter().zip(sizes).take(others) {
            if total <= self.max_bytes {
                break;
            }
            fs::remove_file(self.path(*start))?;
            total -= size;
        }
        Ok(())
    }

    /// Deletes files to which nothing was added for longer than `retention`, and the folder with the last one. The one that
    /// grows stays while the VM `is_live`, since it says how far the log was read. Returns how many.
    ///
    /// # Errors
    /// They cannot be read or deleted.
    pub fn prune(&self, now: SystemTime, retention: Duration, is_live: bool) -> io::Result<usize> {
        let segments = self.segments()?;
        let prunable = segments.len().saturating_sub(usize::from(is_live));
        let mut deleted = 0;
        for start in &segments[..prunable] {
            let path = self.path(*start);
            let written = fs::metadata(&path)?.modified()?;
            if now.duration_since(written).unwrap_or_default() <= retention {
                break;
            }
            fs::remove_file(path)?;
            deleted += 1;
        }
        if deleted == segments.len() && !is_live {
            match fs::remove_dir(&self.folder) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(deleted)
    }

    /// What was printed from an offset on, from the beginning of the archive when that is later; of whole records at most
    /// about `max` bytes.
    ///
    /// # Errors
    /// The files cannot be read.
    pub fn read(&self, from: u64, max: usize) -> io::Result<Vec<Chunk>> {
        let (mut chunks, mut bytes) = (Vec::new(), 0);
        self.each_from(from, |mut chunk, _| {
            let skipped = usize::try_from(from.saturating_sub(chunk.offset)).unwrap_or(0);
            if skipped > 0 {
                chunk.data.drain(..skipped);
                chunk.offset = from;
            }
            bytes += chunk.data.len();
            chunks.push(chunk);
            bytes < max
        })?;
        Ok(chunks)
    }

    /// Offset of the first record that was read at a time or later; none: there is no such record.
    ///
    /// # Errors
    /// The files cannot be read.
    pub fn offset_at(&self, time_ms: i64) -> io::Result<Option<u64>> {
        let mut found = None;
        self.each_from(0, |chunk, _| {
            found = (chunk.time_ms >= time_ms).then_some(chunk.offset);
            found.is_none()
        })?;
        Ok(found)
    }

    /// Offset at which the last `lines` lines begin, at least one.
    ///
    /// # Errors
    /// The files cannot be read.
    pub fn offset_of_last(&self, lines: usize) -> io::Result<u64> {
        let mut starts = std::collections::VecDeque::new();
        let mut is_start = true;
        self.each_from(0, |chunk, _| {
            for (index, byte) in chunk.data.iter().enumerate() {
                if is_start {
                    if starts.len() == lines {
                        starts.pop_front();
                    }
                    starts.push_back(chunk.offset + index as u64);
                }
                is_start = *byte == b'\n';
            }
            true
        })?;
        Ok(starts.front().copied().unwrap_or(0))
    }

    /// Visits the records that end after an offset, until the visitor has enough.
    fn each_from(&self, from: u64, mut visit: impl FnMut(Chunk, Cursor) -> bool) -> io::Result<()> {
        let segments = self.segments()?;
        let first = segments.partition_point(|start| *start <= from);
        for start in &segments[first.saturating_sub(1)..] {
            let records = match Records::open(&self.path(*start), *start) {
                // it was the oldest, and its time is over
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                records => records?,
            };
            for record in records {
                let (chunk, cursor) = record?;
                if chunk.end() > from && !visit(chunk, cursor) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

/// The whole records of one file.
struct Records {
    file: BufReader<File>,
    offset: u64,
}

impl Records {
    fn open(path: &Path, start: u64) -> io::Result<Self> {
        let mut file = File::open(path)?;
        file.seek(SeekFrom::Start(0))?;
        Ok(Self {
            file: BufReader::new(file),
            offset: start,
        })
    }

    /// The next one; none at the end, and where what follows is no whole record.
    fn next_record(&mut self) -> io::Result<Option<(Chunk, Cursor)>> {
        let mut head = [0; HEAD];
        if !fill(&mut self.file, &mut head)? {
            return Ok(None);
        }
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&head[at..at + 8]);
            word
        };
        let length = u32::from_le_bytes([head[24], head[25], head[26], head[27]]) as usize;
        if length == 0 || length > MAX_RECORD {
            return Ok(None);
        }
        let mut data = vec![0; length];
        if !fill(&mut self.file, &mut data)? {
            return Ok(None);
        }
        let chunk = Chunk {
            offset: self.offset,
            time_ms: i64::from_le_bytes(word(0)),
            data,
        };
        self.offset = chunk.end();
        let cursor = Cursor {
            inode: u64::from_le_bytes(word(8)),
            offset: u64::from_le_bytes(word(16)),
        };
        Ok(Some((chunk, cursor)))
    }
}

impl Iterator for Records {
    type Item = io::Result<(Chunk, Cursor)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_record().transpose()
    }
}

/// Fills a buffer; false when the file ends before.
fn fill(file: &mut impl Read, buffer: &mut [u8]) -> io::Result<bool> {
    match file.read_exact(buffer) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        read => read.map(|()| true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANY: Cursor = Cursor {
        inode: 7,
        offset: 0,
    };

    fn archive(max_bytes: u64) -> (tempfile::TempDir, Archive) {
        let dir = tempfile::tempdir().unwrap();
        let archive = Archive::new(dir.path().join("vm"), max_bytes);
        (dir, archive)
    }

    fn text(chunks: &[Chunk]) -> String {
        chunks
            .iter()
            .map(|chunk| String::from_utf8_lossy(&chunk.data))
            .collect()
    }

    #[test]
    fn it_is_read_from_an_offset_from_a_time_and_from_its_last_lines() {
        let (_dir, archive) = archive(1 << 20);
        assert_eq!(archive.start().unwrap(), None);
        assert_eq!(archive.read(0, 100).unwrap(), []);
        assert_eq!(archive.offset_of_last(3).unwrap(), 0);
        let mut tail = archive.open().unwrap();
        for (time_ms, line) in [(10, "one\n"), (20, "two\nth"), (30, "ree\n"), (40, "end")] {
            archive
                .append(&mut tail, time_ms, ANY, line.as_bytes())
                .unwrap();
        }
        assert_eq!(tail.end, 17);
        assert_eq!(
            text(&archive.read(0, 1000).unwrap()),
            "one\ntwo\nthree\nend"
        );
        let middle = archive.read(6, 1000).unwrap();
        assert_eq!((middle[0].offset, middle[0].time_ms), (6, 20));
        assert_eq!(text(&middle), "o\nthree\nend");
        assert_eq!(archive.read(17, 1000).unwrap(), [], "at the end");
        assert_eq!(
            text(&archive.read(0, 5).unwrap()),
            "one\ntwo\nth",
            "bounded"
        );
        assert_eq!(archive.offset_at(0).unwrap(), Some(0));
        assert_eq!(archive.offset_at(21).unwrap(), Some(10));
        assert_eq!(archive.offset_at(41).unwrap(), None);
        assert_eq!(archive.offset_of_last(1).unwrap(), 14);
        assert_eq!(archive.offset_of_last(2).unwrap(), 8);
        assert_eq!(archive.offset_of_last(100).unwrap(), 0);
    }

    #[test]
    fn a_record_that_a_crash_cut_off_is_none_and_the_archive_goes_on_before_it() {
        let (_dir, archive) = archive(1 << 20);
        let mut tail = Tail::default();
        let cursor = Cursor {
            inode: 3,
            offset: 5,
        };
        archive.append(&mut tail, 1, cursor, b"whole").unwrap();
        let path = archive.path(0);
        let whole = fs::read(&path).unwrap();
        for torn in [&[1_u8; 11][..], &[0; HEAD + 9][..], &whole[..HEAD + 2]] {
            let mut file = OpenOptions::new().append(true).open(&path).unwrap();
            file.write_all(torn).unwrap();
            assert_eq!(text(&archive.read(0, 100).unwrap()), "whole");
            assert_eq!(archive.open().unwrap(), tail);
            assert_eq!(fs::read(&path).unwrap(), whole);
        }
        let mut tail = archive.open().unwrap();
        archive.append(&mut tail, 2, cursor, b" again").unwrap();
        assert_eq!(text(&archive.read(0, 100).unwrap()), "whole again");
    }

    #[test]
    fn it_is_bounded_by_size_and_offsets_stay_what_they_are() {
        let (_dir, archive) = archive(8000);
        let mut tail = Tail::default();
        for n in 0..200_u32 {
            let line = format!("{n:099}\n");
            archive
                .append(&mut tail, i64::from(n), ANY, line.as_bytes())
                .unwrap();
            let size: u64 = fs::read_dir(&archive.folder)
                .unwrap()
                .map(|entry| entry.unwrap().metadata().unwrap().len())
                .sum();
            assert!(size <= 8000 + 2 * 1128, "{size}");
        }
        let start = archive.start().unwrap().unwrap();
        assert!(start > 12_000 && start % 100 == 0, "{start}");
        let all = archive.read(0, usize::MAX).unwrap();
        assert_eq!(all[0].offset, start, "what was before is gone");
        assert_eq!(all.last().unwrap().end(), 20_000);
        assert_eq!(archive.open().unwrap().end, 20_000);
        assert_eq!(text(&archive.read(19_950, 100).unwrap()).len(), 50);
    }

    #[test]
    fn p2_it_goes_when_its_time_is_over() {
        let (_dir, archive) = archive(8000);
        let mut tail = Tail::default();
        let day = Duration::from_secs(86_400);
        let now = SystemTime::now();
        for age in [3, 2, 0] {
            // each in a file of its own
            archive.append(&mut tail, 1, ANY, &[b'x'; 1200]).unwrap();
            let path = archive.path(tail.end - 1200);
            let file = OpenOptions::new().append(true).open(path).unwrap();
            file.set_modified(now - day * age).unwrap();
        }
        assert_eq!(archive.prune(now, day * 5 / 2, true).unwrap(), 1);
        assert_eq!(archive.start().unwrap(), Some(1200));
        assert_eq!(archive.prune(now + day * 9, day, true).unwrap(), 1);
        assert_eq!(archive.open().unwrap(), tail, "where it goes on stays");
        assert_eq!(archive.prune(now + day * 9, day, false).unwrap(), 1);
        assert!(!archive.folder.exists());
        assert_eq!(archive.prune(now, day, false).unwrap(), 0);
    }
}
