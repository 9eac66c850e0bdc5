//! Work that blocks its thread (an `fsync` of the journal, a walk through `/proc`, a folder that is scanned), away from
//! the threads that serve calls.
use tokio::runtime::{Handle, RuntimeFlavor};

use crate::error::{HostError, HostResult};

/// Runs work on a thread of its own.
///
/// # Errors
/// Those of the work, and one when it panicked.
pub async fn run<T: Send + 'static>(
    work: impl FnOnce() -> HostResult<T> + Send + 'static,
) -> HostResult<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| HostError::internal("blocking work was broken off"))?
}

/// Runs short work here, for callers that cannot wait asynchronously: the thread stops being one that serves calls and
/// another takes its place. Outside of a runtime with several threads it simply runs.
pub fn here<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    /// The work ends when another task has run, which without `here` would wait for the only thread.
    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn work_that_blocks_keeps_no_call_waiting() {
        let caller = tokio::spawn(async {
            let (served, waits) = mpsc::channel();
            let call = tokio::spawn(async move { served.send("another call") });
            let reported = here(|| waits.recv_timeout(Duration::from_secs(60)));
            call.await.expect("it ended").expect("it is heard");
            reported
        });
        assert_eq!(caller.await.expect("it ended"), Ok("another call"));
        let thread = run(|| Ok(std::thread::current().id())).await;
        assert_ne!(thread.expect("an id"), std::thread::current().id());
    }
}
