//! One reader of a serial log: from where it wants to the end, or on and on until the VM is gone.
use std::sync::Arc;
use std::time::Duration;

use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::Sender;

use super::{Chunk, SerialLogs};
use crate::error::{HostError, HostResult, io_error};
use crate::host::blocking;
use crate::ids::VmName;
use crate::wall_clock::now_ms;

/// Bytes read at once.
const BATCH: usize = 256 << 10;
/// Most lines that can be counted from the end.
pub const MAX_LINES: u32 = 100_000;

/// Where a reader begins; of several the latest counts.
#[derive(Debug, Clone, Copy, Default)]
pub struct Position {
    /// Bytes printed before it.
    pub offset: u64,
    /// What was read at this time or later, in milliseconds since 1970.
    pub since_ms: Option<i64>,
    /// At most so many of the last lines.
    pub tail_lines: Option<u32>,
}

/// A reader that was let in.
pub struct Reading {
    logs: Arc<SerialLogs>,
    vm: VmName,
    next: u64,
    _permit: OwnedSemaphorePermit,
}

impl Reading {
    /// Finds where a reader begins. `is_expected` says that the VM may be about to print.
    ///
    /// # Errors
    /// There is no log of the VM (any more), an offset beyond its end, too many readers; it cannot be read.
    pub async fn open(
        logs: &Arc<SerialLogs>,
        vm: VmName,
        from: Position,
        is_expected: bool,
    ) -> HostResult<Self> {
        let permit = Arc::clone(&logs.readers).try_acquire_owned().map_err(|_| {
            HostError::host(
                ErrorReason::Overloaded,
                "too many serial logs of this host are read at once",
            )
        })?;
        if from.tail_lines > Some(MAX_LINES) {
            let rule = format!("must be at most {MAX_LINES}");
            return Err(HostError::invalid("tail_lines", rule));
        }
        let (of, name) = (Arc::clone(logs), vm.clone());
        let next = blocking::run(move || of.begin(&name, from, is_expected)).await?;
        Ok(Self {
            logs: Arc::clone(logs),
            vm,
            next,
            _permit: permit,
        })
    }

    /// What comes next; nothing when there is no more now. Second: whether more may come.
    async fn next(&mut self) -> HostResult<(Vec<Chunk>, bool)> {
        let (logs, vm, next) = (Arc::clone(&self.logs), self.vm.clone(), self.next);
        let (chunks, may_come) = blocking::run(move || {
            // before it is read: what a VM printed until it was gone is in the archive then
            let is_live = logs.is_live(&vm);
            logs.collect(&vm)?;
            let archive = logs.archive(&vm);
            let chunks = archive.read(next, BATCH).map_err(unreadable)?;
            let is_new = archive.start().map_err(unreadable)?.is_none();
            Ok((chunks, is_live || is_new))
        })
        .await?;
        if let Some(last) = chunks.last() {
            self.next = last.end();
        }
        Ok((chunks, may_come))
    }
}

impl SerialLogs {
    fn begin(&self, vm: &VmName, from: Position, is_expected: bool) -> HostResult<u64> {
        self.collect(vm)?;
        let archive = self.archive(vm);
        let Some(start) = archive.start().map_err(unreadable)? else {
            if !is_expected && !self.is_live(vm) {
                return Err(HostError::host(
                    ErrorReason::SerialLogUnavailable,
                    "this host has no serial log of the allocation, or none any more",
                ));
            }
            return beyond(from.offset, 0);
        };
        // nothing is appended meanwhile
        let growing = self.growing();
        let end = archive.open().map_err(unreadable)?.end;
        drop(growing);
        let mut next = beyond(from.offset, end)?.max(start);
        if let Some(since) = from.since_ms {
            let at = archive.offset_at(since).map_err(unreadable)?;
            next = next.max(at.unwrap_or(end));
        }
        if let Some(lines) = from.tail_lines {
            let lines = usize::try_from(lines).unwrap_or(usize::MAX);
            let at = match lines {
                0 => end,
                lines => archive.offset_of_last(lines).map_err(unreadable)?,
            };
            next = next.max(at);
        }
        Ok(next)
    }
}

fn beyond(offset: u64, end: u64) -> HostResult<u64> {
    if offset > end {
        let rule = format!("is beyond the end of the log, which has {end} bytes");
        return Err(HostError::invalid("offset", rule));
    }
    Ok(offset)
}

fn unreadable(error: std::io::Error) -> HostError {
    io_error("cannot read a serial log")(error)
}

/// Sends what was printed, and goes on until the VM is gone when it `follows`; `is_expected` says whether a VM that has
/// printed nothing yet may still come. A part without data says once that all was sent that was printed so far. Ends with
/// its receiver.
///
/// # Errors
/// The log cannot be read.
pub async fn follow(
    mut reading: Reading,
    follows: bool,
    poll: Duration,
    is_expected: impl Fn() -> HostResult<bool>,
    to: &Sender<HostResult<Chunk>>,
) -> HostResult<()> {
    let mut caught_up = false;
    loop {
        let (chunks, may_come) = reading.next().await?;
        let is_all = chunks.is_empty();
        for chunk in chunks {
            if to.send(Ok(chunk)).await.is_err() {
                return Ok(());
            }
        }
        if !is_all {
            continue;
        }
        let is_live = reading.logs.is_live(&reading.vm);
        if !follows || !may_come || (!is_live && !is_expected()?) {
            return Ok(());
        }
        if !caught_up {
            caught_up = true;
            let nothing = Chunk {
                offset: reading.next,
                time_ms: now_ms(),
                data: Vec::new(),
            };
            if to.send(Ok(nothing)).await.is_err() {
                return Ok(());
            }
        }
        tokio::select! {
            () = to.closed() => return Ok(()),
            () = tokio::time::sleep(poll) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc::{Receiver, channel};

    use super::super::tests::{logs, print, vm};
    use super::*;

    const POLL: Duration = Duration::from_millis(5);

    async fn open(logs: &Arc<SerialLogs>, n: u128, from: Position) -> HostResult<Reading> {
        Reading::open(logs, vm(n), from, false).await
    }

    /// What arrives until the text ends so, or the stream does.
    async fn until(received: &mut Receiver<HostResult<Chunk>>, end: &str) -> String {
        let mut text = String::new();
        let hear = async {
            while let Some(chunk) = received.recv().await {
                text += &String::from_utf8(chunk.unwrap().data).unwrap();
                if !end.is_empty() && text.ends_with(end) {
                    break;
                }
            }
        };
        let heard = tokio::time::timeout(Duration::from_secs(20), hear).await;
        assert!(heard.is_ok(), "received only {text:?}");
        text
    }

    fn spawn(reading: Reading, follows: bool) -> Receiver<HostResult<Chunk>> {
        let (to, received) = channel(1);
        tokio::spawn(async move {
            if let Err(error) = follow(reading, follows, POLL, || Ok(true), &to).await {
                let _ = to.send(Err(error)).await;
            }
        });
        received
    }

    #[tokio::test]
    async fn it_is_followed_over_a_rotation_until_its_vm_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        let logs = logs(dir.path());
        print(&logs, &vm(1), "one\n");
        let reading = open(&logs, 1, Position::default()).await.unwrap();
        let mut received = spawn(reading, true);
        assert_eq!(until(&mut received, "\n").await, "one\n");
        print(&logs, &vm(1), "two\n");
        let log = logs.of_vm(&vm(1));
        let mut rotated = log.clone().into_os_string();
        rotated.push(".0");
        std::fs::rename(&log, rotated).unwrap();
        print(&logs, &vm(1), "three\n");
        assert_eq!(until(&mut received, "three\n").await, "two\nthree\n");
        std::fs::write(&log, "").unwrap();
        print(&logs, &vm(1), "new\n");
        assert_eq!(until(&mut received, "new\n").await, "new\n");
        print(&logs, &vm(1), "bye\n");
        logs.end(&vm(1)).unwrap();
        assert_eq!(until(&mut received, "").await, "bye\n");

        let reading = open(&logs, 1, Position::default()).await.unwrap();
        let all = until(&mut spawn(reading, true), "").await;
        assert_eq!(all, "one\ntwo\nthree\nnew\nbye\n", "after it is gone");
    }

    #[tokio::test]
    async fn it_begins_where_it_is_wanted() {
        let dir = tempfile::tempdir().unwrap();
        let logs = logs(dir.path());
        print(&logs, &vm(1), "one\ntwo\nthree\n");
        let from = |offset, since_ms, tail_lines| Position {
            offset,
            since_ms,
            tail_lines,
        };
        let later = now_ms() + 3_600_000;
        for (position, text) in [
            (from(0, None, None), "one\ntwo\nthree\n"),
            (from(5, None, None), "wo\nthree\n"),
            (from(14, None, None), ""),
            (from(0, Some(0), None), "one\ntwo\nthree\n"),
            (from(0, Some(later), None), ""),
            (from(0, None, Some(1)), "three\n"),
            (from(9, None, Some(2)), "hree\n"),
            (from(0, Some(0), Some(0)), ""),
        ] {
            let reading = open(&logs, 1, position).await.unwrap();
            assert_eq!(
                until(&mut spawn(reading, false), "").await,
                text,
                "{position:?}"
            );
        }
        let refused = async |n, position| {
            let error = open(&logs, n, position).await.err().unwrap();
            (error.reason, error.field)
        };
        let invalid = ErrorReason::FieldInvalid;
        assert_eq!(
            refused(1, from(15, None, None)).await,
            (invalid, Some("offset"))
        );
        assert_eq!(
            refused(1, from(0, None, Some(MAX_LINES + 1))).await,
            (invalid, Some("tail_lines"))
        );
        // p2: there is none by another name
        assert_eq!(
            refused(2, Position::default()).await,
            (ErrorReason::SerialLogUnavailable, None)
        );
    }

    #[tokio::test]
    async fn a_vm_that_has_printed_nothing_yet_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let logs = logs(dir.path());
        let reading = Reading::open(&logs, vm(1), Position::default(), true)
            .await
            .unwrap();
        let mut received = spawn(reading, true);
        let synced = received.recv().await.unwrap().unwrap();
        assert_eq!((synced.offset, synced.data.len()), (0, 0), "all so far");
        print(&logs, &vm(1), "first\n");
        assert_eq!(until(&mut received, "\n").await, "first\n");
        let beyond = Position {
            offset: 1,
            ..Position::default()
        };
        let error = Reading::open(&logs, vm(3), beyond, true).await.err();
        assert_eq!(error.unwrap().field, Some("offset"));
    }

    #[tokio::test]
    async fn readers_are_bounded_and_a_reader_that_goes_frees_its_place() {
        let dir = tempfile::tempdir().unwrap();
        let logs = logs(dir.path());
        print(&logs, &vm(1), "x");
        let mut readers = Vec::new();
        for _ in 0..super::super::READERS {
            readers.push(open(&logs, 1, Position::default()).await.unwrap());
        }
        let error = open(&logs, 1, Position::default()).await.err().unwrap();
        assert_eq!(error.reason, ErrorReason::Overloaded);
        let received = spawn(readers.pop().unwrap(), true);
        drop(received);
        gpuaas_dev::until::until("its place", Duration::from_secs(20), async || {
            open(&logs, 1, Position::default())
                .await
                .is_ok()
                .then_some(())
        })
        .await;
    }
}
