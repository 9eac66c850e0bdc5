//! The one thread that starts programs which must end with the agent.
//!
//! The kernel ties such a program to the thread that started it, not to the process: a thread of the runtime's pool ends when it had
//! nothing to do for ten seconds, and a clone that it started would be killed with it. This thread ends with the process alone.
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError, mpsc};

use tokio::runtime::Handle;
use tokio::sync::oneshot;

type Job = Box<dyn FnOnce() + Send>;

/// Where the thread takes its work from, once it runs; the sender is never dropped, so the thread waits for ever.
static JOBS: Mutex<Option<mpsc::Sender<Job>>> = Mutex::new(None);

/// Runs work that starts a program on that thread, in the caller's runtime. What it gives to a caller that is gone is dropped there.
///
/// # Errors
/// Those of the work; the thread cannot be started, or the work panicked.
pub async fn run<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let runtime = Handle::current();
    let (report, done) = oneshot::channel();
    let job = move || {
        let _entered = runtime.enter();
        let _unwanted = report.send(work());
    };
    give(Box::new(job))?;
    done.await
        .unwrap_or_else(|_| Err(io::Error::other("the start of a program was broken off")))
}

fn give(job: Job) -> io::Result<()> {
    let mut jobs = JOBS.lock().unwrap_or_else(PoisonError::into_inner);
    let sender = match &*jobs {
        Some(sender) => sender.clone(),
        None => jobs.insert(start()?).clone(),
    };
    sender
        .send(job)
        .map_err(|_| io::Error::other("the thread that starts programs is gone"))
}

fn start() -> io::Result<mpsc::Sender<Job>> {
    let (sender, jobs) = mpsc::channel::<Job>();
    let work = move || {
        for job in jobs {
            // whoever waits for it is told; the programs of others must not end with this thread
            let _told = catch_unwind(AssertUnwindSafe(job));
        }
    };
    let thread = std::thread::Builder::new().name("programs".to_owned());
    thread.spawn(work)?;
    Ok(sender)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_that_panics_is_told_and_the_thread_goes_on() {
        let id = || Ok(std::thread::current().id());
        let before = run(id).await.unwrap();
        assert_ne!(before, std::thread::current().id());
        let panicked = run(|| -> io::Result<()> { panic!("as the test wants it") }).await;
        assert!(panicked.is_err());
        assert_eq!(run(id).await.unwrap(), before);
    }
}
