//! The threads that call libvirt. Its calls block, and one that hangs keeps its thread for as long as it hangs: another
//! thread takes its place, up to a bound, so that no later call waits behind it.
use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use virt::connect::Connect;

use crate::error::HostError;

/// Threads, and with them calls at a time, while none hangs.
pub const THREADS: usize = 3;
/// Most threads, the ones that hang included. A libvirt that holds all of them gets no further call.
pub const MOST_THREADS: usize = 16;
/// From then on a call counts as one that hangs. It goes on, and its caller still gets its answer.
const SLOW: Duration = Duration::from_secs(5);

/// What a thread does with its connection, or without one.
type Work = Box<dyn FnOnce(Result<&Connect, HostError>) + Send>;

/// A call.
pub struct Job {
    /// For logs and errors.
    pub what: &'static str,
    pub run: Work,
}

/// Why a call was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AllHang;

/// The threads. They end when this is dropped, each after its call.
pub struct Workers(Arc<Pool>);

struct Pool {
    uri: String,
    slow: Duration,
    state: Mutex<State>,
    work: Condvar,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Job>,
    idle: usize,
    busy: BTreeMap<u64, Busy>,
    next: u64,
    closed: bool,
}

struct Busy {
    what: &'static str,
    since: Instant,
    reported: bool,
}

impl State {
    fn threads(&self) -> usize {
        self.idle + self.busy.len()
    }

    fn hung(&self, slow: Duration) -> usize {
        let hangs = |busy: &&Busy| busy.since.elapsed() >= slow;
        self.busy.values().filter(hangs).count()
    }
}

impl Workers {
    /// Threads for this connection; none is started before there is work.
    pub fn new(uri: &str) -> Self {
        Self::with_slow(uri, SLOW)
    }

    /// The same, with another time after which a call counts as one that hangs.
    pub fn with_slow(uri: &str, slow: Duration) -> Self {
        Self(Arc::new(Pool {
            uri: uri.to_owned(),
            slow,
            state: Mutex::default(),
            work: Condvar::new(),
        }))
    }

    /// Queues a call.
    ///
    /// # Errors
    /// Every thread there may be hangs.
    pub fn submit(&self, job: Job) -> Result<(), AllHang> {
        let pool = &self.0;
        let mut state = pool.state();
        if state.idle == 0 && state.hung(pool.slow) >= MOST_THREADS {
            return Err(AllHang);
        }
        state.queue.push_back(job);
        Pool::reinforce(pool, &mut state);
        pool.work.notify_one();
        Ok(())
    }

    /// Starts threads in place of those that hang, when calls wait. For whoever waits for its call, at each
    /// [`Workers::timeout`].
    pub fn relieve(&self) {
        let mut state = self.0.state();
        Pool::reinforce(&self.0, &mut state);
    }

    /// How long to wait for an answer before [`Workers::relieve`].
    pub fn timeout(&self) -> Duration {
        self.0.slow
    }

    /// Calls that no thread has begun.
    #[cfg(test)]
    pub fn waiting(&self) -> usize {
        self.0.state().queue.len()
    }

    /// The calls that hang now, each with its age.
    pub fn hung(&self) -> Vec<(&'static str, Duration)> {
        let state = self.0.state();
        let aged = state
            .busy
            .values()
            .map(|busy| (busy.what, busy.since.elapsed()));
        aged.filter(|(_, age)| *age >= self.0.slow).collect()
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.0.state().closed = true;
        self.0.work.notify_all();
    }
}

impl Pool {
    fn state(&self) -> MutexGuard<'_, State> {
        // no call runs under the lock, and the state is consistent between any two statements
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As many threads as calls wait for, within both bounds.
    fn reinforce(pool: &Arc<Self>, state: &mut State) {
        for busy in state.busy.values_mut() {
            if busy.since.elapsed() >= pool.slow && !busy.reported {
                busy.reported = true;
                tracing::error!(
                    call = busy.what,
                    "libvirt does not answer, another thread takes the place of the one that waits"
                );
            }
        }
        let mut idle = state.idle;
        let mut fresh = state.busy.len() - state.hung(pool.slow);
        while state.queue.len() > idle && idle + fresh < THREADS && state.threads() < MOST_THREADS {
            let worker = Arc::clone(pool);
            let started = std::thread::Builder::new()
                .name("libvirt".to_owned())
                .spawn(move || worker.serve());
            if let Err(error) = started {
                tracing::error!(%error, "cannot start a thread for libvirt");
                return;
            }
            // counted as idle from now on, so that the next call does not start another
            state.idle += 1;
            idle += 1;
            fresh = state.busy.len() - state.hung(pool.slow);
        }
    }

    fn serve(&self) {
        let mut connection: Option<Connect> = None;
        while let Some((id, job)) = self.next() {
            let what = job.what;
            let whole = catch_unwind(AssertUnwindSafe(|| {
                if !connection.as_ref().is_some_and(is_alive) {
                    connection = None;
                }
                match &connection {
                    Some(open) => (job.run)(Ok(open)),
                    None => match Connect::open(Some(&self.uri)) {
                        Ok(open) => (job.run)(Ok(connection.insert(open))),
                        Err(error) => (job.run)(Err(failed("connect", &error))),
                    },
                }
            }));
            if whole.is_err() {
                tracing::error!(call = what, "a call of libvirt panicked");
                connection = None;
            }
            if !self.ended(id) {
                return;
            }
        }
    }

    /// The next call; none when the threads shall end.
    fn next(&self) -> Option<(u64, Job)> {
        let mut state = self.state();
        loop {
            if let Some(job) = state.queue.pop_front() {
                let id = state.next;
                state.next += 1;
                state.idle -= 1;
                let busy = Busy {
                    what: job.what,
                    since: Instant::now(),
                    reported: false,
                };
                state.busy.insert(id, busy);
                return Some((id, job));
            }
            if state.closed {
                state.idle -= 1;
                return None;
            }
            state = self
                .work
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Ends a call; false when the thread has had its place taken and shall end too.
    fn ended(&self, id: u64) -> bool {
        let mut state = self.state();
        if let Some(busy) = state.busy.remove(&id).filter(|busy| busy.reported) {
            let seconds = busy.since.elapsed().as_secs();
            tracing::warn!(call = busy.what, seconds, "libvirt answers at last");
        }
        let others = state.threads() - state.hung(self.slow);
        let stays = others < THREADS;
        state.idle += usize::from(stays);
        stays
    }
}

fn is_alive(connection: &Connect) -> bool {
    connection.is_alive().unwrap_or(false)
}

/// What libvirt says of a call that failed.
pub(super) fn failed(what: &str, error: &virt::error::Error) -> HostError {
    HostError::host(
        ErrorReason::HypervisorFailed,
        format!("{what}: {}", error.message()),
    )
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    fn job(run: impl FnOnce() + Send + 'static) -> Job {
        Job {
            what: "test",
            run: Box::new(move |_| run()),
        }
    }

    /// Calls that hang until the sender is dropped.
    fn hang(workers: &Workers, count: usize) -> Sender<()> {
        let (release, gate) = channel::<()>();
        let gate: Arc<Mutex<Receiver<()>>> = Arc::new(Mutex::new(gate));
        let (began, begun) = channel();
        for _ in 0..count {
            let (gate, began) = (Arc::clone(&gate), began.clone());
            let wait = move || {
                began.send(()).unwrap();
                // an error: the sender is gone
                while gate
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .recv()
                    .is_ok()
                {}
            };
            workers.submit(job(wait)).unwrap();
        }
        for _ in 0..count {
            while begun.recv_timeout(Duration::from_millis(5)).is_err() {
                workers.relieve();
            }
        }
        release
    }

    /// Runs one call to its end.
    fn answered(workers: &Workers) {
        let (done, finished) = channel();
        workers.submit(job(move || done.send(()).unwrap())).unwrap();
        while finished.recv_timeout(Duration::from_millis(5)).is_err() {
            workers.relieve();
        }
    }

    #[test]
    fn a_thread_that_hangs_is_replaced_and_nobody_waits_behind_it() {
        let workers = Workers::with_slow("test:///default", Duration::ZERO);
        let release = hang(&workers, THREADS);
        answered(&workers);
        assert!(workers.hung().len() >= THREADS, "they still hang");
        drop(release);
        answered(&workers);
    }

    #[test]
    fn a_libvirt_that_hangs_is_called_no_more_than_so_often_at_once() {
        let workers = Workers::with_slow("test:///default", Duration::ZERO);
        let release = hang(&workers, MOST_THREADS);
        assert_eq!(workers.submit(job(|| {})), Err(AllHang));
        assert_eq!(workers.0.state().threads(), MOST_THREADS);
        drop(release);
        while !workers.0.state().busy.is_empty() {
            std::thread::yield_now();
        }
        answered(&workers);
        assert!(workers.0.state().threads() <= THREADS, "the others ended");
    }

    #[test]
    fn a_call_that_panics_takes_no_thread_with_it() {
        let workers = Workers::new("test:///default");
        for _ in 0..=THREADS {
            workers
                .submit(job(|| panic!("a call of a test panics")))
                .unwrap();
        }
        answered(&workers);
    }
}
