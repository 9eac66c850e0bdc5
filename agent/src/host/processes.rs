//! Processes as `/proc` shows them, for questions whose answer must not be a guess (P9).
use std::io;
use std::time::{Duration, Instant};

use nix::errno::Errno;

use super::root::HostRoot;

/// How often a process that may not be looked into is tried, and the pause between two attempts.
const ATTEMPTS: u32 = 20;
const PAUSE: Duration = Duration::from_millis(100);
/// How long one scan of all processes tries again in all, however many of them may not be looked into.
const SCAN: Duration = Duration::from_secs(5);

/// Ids of all processes.
///
/// # Errors
/// `/proc` cannot be read.
pub fn ids(root: &HostRoot) -> io::Result<Vec<u32>> {
    let names = root.list("/proc")?;
    Ok(names.iter().filter_map(|name| name.parse().ok()).collect())
}

/// Folders of all threads of a process, the main one's first. Each may have descriptors and mounts of its own, and they
/// outlive the main thread: a process whose main thread has ended looks like one that has.
///
/// # Errors
/// The process is there and its threads cannot be listed.
pub fn threads(root: &HostRoot, pid: u32) -> io::Result<Vec<String>> {
    let main = format!("/proc/{pid}");
    let listed = root.list(format!("{main}/task"));
    let listed = unless_ended(root, &main, listed)?.unwrap_or_default();
    let others = listed.iter().filter_map(|name| name.parse::<u32>().ok());
    let others = others.filter(|thread| *thread != pid);
    let others: Vec<String> = others
        .map(|thread| format!("{main}/task/{thread}"))
        .collect();
    Ok([main].into_iter().chain(others).collect())
}

/// What a read in the folder of a thread gave: `None` for one that ended meanwhile, which has nothing open and nothing
/// mounted. Every other failure stays one.
///
/// # Errors
/// The thread is there and what was read of it cannot be.
pub fn unless_ended<T>(
    root: &HostRoot,
    thread: &str,
    read: io::Result<T>,
) -> io::Result<Option<T>> {
    match read {
        Ok(value) => Ok(Some(value)),
        Err(error) if is_gone(&error) || has_ended(root, thread) => Ok(None),
        Err(error) => Err(error),
    }
}

/// One scan of all processes: what it tries again ends at one deadline.
#[derive(Debug)]
pub struct Scan {
    deadline: Instant,
    pause: Duration,
}

impl Scan {
    /// Begins now.
    #[must_use]
    pub fn begin() -> Self {
        Self::within(SCAN, PAUSE)
    }

    fn within(time: Duration, pause: Duration) -> Self {
        Self {
            deadline: Instant::now() + time,
            pause,
        }
    }

    /// Tries again what the kernel does not allow at first. What a process with more rights than the agent starts, a supervisor
    /// or the runtime of a container, has those rights until it runs its own program: nobody may look into it for that moment.
    /// Each process is read at least once, also after the deadline.
    ///
    /// # Errors
    /// That of the last attempt.
    pub fn when_allowed<T>(&self, mut read: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        for _ in 1..ATTEMPTS {
            match read() {
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    if Instant::now() + self.pause > self.deadline {
                        return Err(error);
                    }
                    std::thread::sleep(self.pause);
                }
                result => return result,
            }
        }
        read()
    }
}

fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(Errno::ESRCH as i32)
}

/// Gone, or a zombie that nobody has waited for.
fn has_ended(root: &HostRoot, thread: &str) -> bool {
    match root.read(format!("{thread}/stat")) {
        Ok(text) => {
            let state = text.rsplit(')').next().unwrap_or_default().trim_start();
            state.starts_with(['Z', 'X'])
        }
        Err(error) => is_gone(&error) && !root.exists(thread),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn denied() -> io::Error {
        io::Error::from(io::ErrorKind::PermissionDenied)
    }

    #[test]
    fn a_process_that_nobody_may_look_into_is_tried_again_and_not_for_ever() {
        let scan = Scan::within(Duration::from_secs(60), Duration::ZERO);
        let mut tries = 0;
        let read = scan.when_allowed(|| {
            tries += 1;
            if tries < 3 { Err(denied()) } else { Ok(tries) }
        });
        assert_eq!(read.expect("allowed in the end"), 3);
        let mut tries = 0;
        let refused = scan.when_allowed(|| {
            tries += 1;
            Err::<(), _>(denied())
        });
        let kind = refused.expect_err("never").kind();
        assert_eq!(kind, io::ErrorKind::PermissionDenied);
        assert_eq!(tries, ATTEMPTS);
        // every other failure is one at once
        let mut tries = 0;
        let broken = scan.when_allowed(|| {
            tries += 1;
            Err::<(), _>(io::Error::from(io::ErrorKind::InvalidData))
        });
        let kind = broken.expect_err("broken").kind();
        assert_eq!(kind, io::ErrorKind::InvalidData);
        assert_eq!(tries, 1);
    }

    #[test]
    fn all_processes_of_a_scan_have_one_deadline_and_each_is_read_once() {
        let (time, pause) = (Duration::from_millis(100), Duration::from_millis(20));
        let (begun, scan) = (Instant::now(), Scan::within(time, pause));
        let mut tries = 0;
        for process in 1..=200 {
            let before = tries;
            let refused = scan.when_allowed(|| {
                tries += 1;
                Err::<(), _>(denied())
            });
            refused.expect_err("denied");
            assert!(tries > before, "process {process} was not read");
        }
        // five pauses are as long as the scan may wait
        assert!((200..=205).contains(&tries), "{tries} attempts");
        let pauses = pause * (tries - 200);
        assert!(pauses <= time && begun.elapsed() >= pauses);
        // what is allowed after the deadline is known
        assert_eq!(scan.when_allowed(|| Ok(7)).expect("allowed"), 7);
    }
}
