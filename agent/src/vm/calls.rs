//! How libvirt is called. The calls run on [`super::workers`], so that none of them blocks the agent; each has its time, and one
//! whose connection breaks is made again when libvirtd is back.
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use tokio::sync::oneshot;
use virt::connect::Connect;

use super::workers::{AllHang, Job, MOST_THREADS, Workers, failed};
use crate::error::{HostError, HostResult};

/// Longest waits for an answer of libvirt.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Of a call, unless another one is named.
    pub call: Duration,
    /// Of a start: libvirt resets what is passed through and the kernel pins all memory of the VM before it answers, which
    /// takes a minute and more where devices or memory are large (D-47, D-53).
    pub start: Duration,
    /// Of a report, for a libvirt that does not answer.
    pub report: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            call: Duration::from_secs(60),
            start: Duration::from_secs(300),
            report: Duration::from_secs(5),
        }
    }
}

/// How long a call waits for libvirtd to come back, and the pause between two attempts.
const COMES_BACK: Duration = Duration::from_secs(30);
const RETRY_PAUSE: Duration = Duration::from_millis(500);

tokio::task_local! {
    /// Within [`without_waiting`]: a call was not answered.
    static IS_SILENT: AtomicBool;
}

/// Runs what must not wait for a libvirt that is down, as a report: the host would count as lost before it is told why. The
/// first call that is not answered ends within seconds, and those after it at once.
pub async fn without_waiting<T>(work: impl Future<Output = T>) -> T {
    IS_SILENT.scope(AtomicBool::new(false), work).await
}

/// Why a call failed.
struct Failed {
    error: HostError,
    /// The connection broke: libvirtd restarts, and the same call may succeed then.
    lost: bool,
    /// It was not answered in time.
    late: bool,
}

/// A handle to libvirt. Clones share its threads.
#[derive(Clone)]
pub struct Hypervisor {
    workers: Arc<Workers>,
    limits: Limits,
}

impl Hypervisor {
    /// A handle to the libvirt at this URI. Threads are started, and connect, when there is work.
    pub fn new(uri: &str) -> Self {
        Self::with_limits(uri, Limits::default())
    }

    /// The same with other limits.
    pub fn with_limits(uri: &str, limits: Limits) -> Self {
        // libvirt prints every error to standard error otherwise; we return them.
        virt::error::clear_error_callback();
        Self {
            workers: Arc::new(Workers::new(uri)),
            limits,
        }
    }

    /// The calls that hang now, each with its age.
    pub fn hung(&self) -> Vec<(&'static str, Duration)> {
        self.workers.hung()
    }

    /// Calls that no thread has begun.
    #[cfg(test)]
    pub fn waiting(&self) -> usize {
        self.workers.waiting()
    }

    /// Calls libvirt; when the connection breaks, again until libvirtd is back. Every call here may run twice:
    /// it finds its effect done.
    pub(super) async fn call<T: Send + 'static>(
        &self,
        what: &'static str,
        work: impl Fn(&Connect) -> Result<T, virt::error::Error> + Send + Sync + 'static,
    ) -> HostResult<T> {
        self.call_for(self.limits.call, what, work).await
    }

    /// A start of a domain, which may take longer.
    pub(super) async fn call_start(
        &self,
        what: &'static str,
        work: impl Fn(&Connect) -> Result<(), virt::error::Error> + Send + Sync + 'static,
    ) -> HostResult<()> {
        self.call_for(self.limits.start, what, work).await
    }

    /// The same as [`Self::call`] with another limit.
    async fn call_for<T: Send + 'static>(
        &self,
        limit: Duration,
        what: &'static str,
        work: impl Fn(&Connect) -> Result<T, virt::error::Error> + Send + Sync + 'static,
    ) -> HostResult<T> {
        let work = Arc::new(work);
        let waits = IS_SILENT
            .try_with(|_| ())
            .map_or(COMES_BACK, |()| Duration::ZERO);
        let give_up = tokio::time::Instant::now() + waits;
        loop {
            match self.call_once(limit, what, Arc::clone(&work)).await {
                Ok(value) => return Ok(value),
                Err(failed) if failed.lost && tokio::time::Instant::now() < give_up => {
                    tokio::time::sleep(RETRY_PAUSE).await;
                }
                Err(failed) => return Err(failed.error),
            }
        }
    }

    async fn call_once<T: Send + 'static, F>(
        &self,
        limit: Duration,
        what: &'static str,
        work: Arc<F>,
    ) -> Result<T, Failed>
    where
        F: Fn(&Connect) -> Result<T, virt::error::Error> + Send + Sync + 'static,
    {
        let in_report = IS_SILENT.try_with(|silent| silent.load(Ordering::Relaxed));
        let limit = match in_report {
            Ok(true) => {
                let message = format!("{what}: libvirt did not answer the call before");
                return Err(Failed {
                    error: HostError::host(ErrorReason::HypervisorFailed, message),
                    lost: false,
                    late: false,
                });
            }
            Ok(false) => self.limits.report,
            Err(_) => limit,
        };
        let answered = self.call_within(what, work, limit).await;
        if let Err(failed) = &answered
            && (failed.lost || failed.late)
        {
            // nobody asks outside of a report
            let _ = IS_SILENT.try_with(|silent| silent.store(true, Ordering::Relaxed));
        }
        answered
    }

    async fn call_within<T: Send + 'static, F>(
        &self,
        what: &'static str,
        work: Arc<F>,
        limit: Duration,
    ) -> Result<T, Failed>
    where
        F: Fn(&Connect) -> Result<T, virt::error::Error> + Send + Sync + 'static,
    {
        let (answer, answered) = oneshot::channel();
        let run = Box::new(move |connection: Result<&Connect, HostError>| {
            // The caller gave up while this call was queued: what comes next must not find its effect.
            if answer.is_closed() {
                return;
            }
            let result = match connection {
                Ok(connection) => work(connection).map_err(|error| Failed {
                    error: failed(what, &error),
                    lost: !connection.is_alive().unwrap_or(false),
                    late: false,
                }),
                Err(error) => Err(Failed {
                    error,
                    lost: true,
                    late: false,
                }),
            };
            // The caller may give up meanwhile; the effect happened all the same.
            let _ = answer.send(result);
        });
        let broken = |message: String| Failed {
            error: HostError::host(ErrorReason::HypervisorFailed, message),
            lost: false,
            late: true,
        };
        self.workers.submit(Job { what, run }).map_err(|AllHang| {
            let message = format!("{what}: {MOST_THREADS} calls of libvirt hang already");
            broken(message)
        })?;
        let late = tokio::time::sleep(limit);
        tokio::pin!(answered, late);
        loop {
            tokio::select! {
                biased;
                answer = &mut answered => {
                    return answer.unwrap_or_else(|_| Err(broken(format!("{what}: the call panicked"))));
                }
                () = &mut late => {
                    return Err(broken(format!("{what}: libvirt did not answer within {limit:?}")));
                }
                // it may be queued behind calls that hang
                () = tokio::time::sleep(self.workers.timeout()) => self.workers.relieve(),
            }
        }
    }

    /// One call that does not wait for a libvirt that is down.
    pub(super) async fn once<T: Send + 'static>(
        &self,
        what: &'static str,
        work: impl Fn(&Connect) -> Result<T, virt::error::Error> + Send + Sync + 'static,
    ) -> HostResult<T> {
        let answered = self.call_once(self.limits.call, what, Arc::new(work)).await;
        answered.map_err(|failed| failed.error)
    }
}

/// Threads of libvirt that a test keeps busy.
#[cfg(test)]
pub mod busy {
    use std::sync::mpsc::{Sender, channel};
    use std::sync::{Arc, Mutex, PoisonError};

    use tokio::task::JoinHandle;
    use virt::connect::Connect;

    use super::Hypervisor;
    use crate::error::HostResult;
    use crate::vm::workers::THREADS;

    /// Dropped, it lets the threads go on.
    pub struct Busy {
        gate: Option<Sender<()>>,
        calls: Vec<JoinHandle<HostResult<()>>>,
    }

    impl Busy {
        /// Every thread there is has begun a call that does not end.
        pub async fn all(hypervisor: &Hypervisor) -> Self {
            let (gate, shut) = channel::<()>();
            let shut = Arc::new(Mutex::new(shut));
            let (began, mut begun) = tokio::sync::mpsc::unbounded_channel();
            let call = |_| {
                let (hypervisor, shut, began) =
                    (hypervisor.clone(), Arc::clone(&shut), began.clone());
                tokio::spawn(async move {
                    let wait = move |_: &Connect| {
                        began.send(()).ok();
                        let _opened = shut.lock().unwrap_or_else(PoisonError::into_inner).recv();
                        Ok(())
                    };
                    hypervisor.call_start("wait", wait).await
                })
            };
            let calls = (0..THREADS).map(call).collect();
            for _ in 0..THREADS {
                begun.recv().await.unwrap();
            }
            Self {
                gate: Some(gate),
                calls,
            }
        }

        /// Lets the threads go on, and waits until they have.
        pub async fn end(mut self) {
            drop(self.gate.take());
            for call in self.calls.drain(..) {
                call.await.unwrap().unwrap();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::busy::Busy;
    use super::*;

    #[tokio::test]
    async fn a_report_asks_a_libvirt_that_is_down_once() {
        let hypervisor = Hypervisor::new("test:///no/such/file");
        without_waiting(async {
            let first = hypervisor.domains().await.unwrap_err();
            assert!(!first.message.contains("the call before"), "{first}");
            let next = hypervisor.running().await.unwrap_err();
            assert!(
                next.message.contains("did not answer the call before"),
                "{next}"
            );
        })
        .await;
        // one that answers is asked as ever
        let answers = Hypervisor::new("test:///default");
        let listed = without_waiting(async {
            answers.version().await.unwrap();
            answers.domains().await.unwrap()
        });
        assert!(!listed.await.is_empty());
    }

    #[tokio::test]
    async fn a_call_that_was_given_up_before_its_turn_has_no_effect() {
        let hypervisor = Hypervisor::new("test:///default");
        let busy = Busy::all(&hypervisor).await;
        let ran = Arc::new(AtomicBool::new(false));
        let mark = Arc::clone(&ran);
        let late = hypervisor.call("late", move |_| {
            mark.store(true, Ordering::SeqCst);
            Ok(())
        });
        assert!(late.now_or_never().is_none(), "every thread is busy");
        busy.end().await;
        assert!(hypervisor.version().await.is_ok());
        assert!(!ran.load(Ordering::SeqCst));
    }
}
