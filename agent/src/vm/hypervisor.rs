//! What the agent asks of libvirt. The calls run on [`super::workers`], so that none of them blocks the agent.
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use virt::connect::Connect;
use virt::domain::Domain as VirtDomain;
use virt::error::ErrorNumber;
use virt::storage_pool::StoragePool;
use virt::storage_vol::StorageVol;
use virt::sys;

use super::disk_sources::sources;
use super::workers::{AllHang, Job, MOST_THREADS, Workers};
use crate::error::{HostError, HostResult};
use crate::host::recording::observe;

/// Longest wait for an answer of libvirt.
const LIMIT: Duration = Duration::from_secs(60);

/// The same of a start: libvirt resets what is passed through and the kernel pins all memory of the VM before it answers,
/// which takes a minute and more where devices or memory are large (D-47, D-53).
const START_LIMIT: Duration = Duration::from_secs(300);

/// How long a call waits for libvirtd to come back, and the pause between two attempts.
const COMES_BACK: Duration = Duration::from_secs(30);
const RETRY_PAUSE: Duration = Duration::from_millis(500);

/// Longest wait of a report for a libvirt that does not answer.
const REPORT_LIMIT: Duration = Duration::from_secs(5);

tokio::task_local! {
    /// Within [`without_waiting`]: a call was not answered.
    static IS_SILENT: AtomicBool;
}

/// Runs what must not wait for a libvirt that is down, as a report: the host would count as lost before it is told why. The
/// first call that is not answered ends within seconds, and those after it at once.
pub async fn without_waiting<T>(work: impl Future<Output = T>) -> T {
    IS_SILENT.scope(AtomicBool::new(false), work).await
}

/// What libvirt's in-memory driver calls itself.
const IN_MEMORY: &str = "TEST";

/// Why a call failed.
struct Failed {
    error: HostError,
    /// The connection broke: libvirtd restarts, and the same call may succeed then.
    lost: bool,
    /// It was not answered in time.
    late: bool,
}

/// State of a domain, as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum PowerState {
    /// Runs, or is being shut down.
    Running,
    /// Defined and not running.
    ShutOff,
    /// Paused, suspended or crashed with its process still there.
    Stuck,
}

impl PowerState {
    fn of(state: sys::virDomainState) -> Self {
        match state {
            sys::VIR_DOMAIN_SHUTOFF => Self::ShutOff,
            sys::VIR_DOMAIN_RUNNING | sys::VIR_DOMAIN_BLOCKED | sys::VIR_DOMAIN_SHUTDOWN => {
                Self::Running
            }
            _ => Self::Stuck,
        }
    }

    /// As `virsh` reports it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::ShutOff => "shut off",
            Self::Stuck => "paused",
        }
    }
}

/// A domain as libvirt knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Domain {
    pub name: String,
    pub state: PowerState,
    /// Absolute paths that its descriptions name, the running and the stored one.
    pub disk_sources: Vec<String>,
    /// Disks of it of which nobody knows where they lie: it may use any disk.
    pub untraced_sources: Vec<String>,
}

/// A handle to libvirt. Clones share its threads.
#[derive(Clone)]
pub struct Hypervisor {
    workers: Arc<Workers>,
}

impl Hypervisor {
    /// A handle to the libvirt at this URI. Threads are started, and connect, when there is work.
    pub fn new(uri: &str) -> Self {
        // libvirt prints every error to standard error otherwise; we return them.
        virt::error::clear_error_callback();
        Self {
            workers: Arc::new(Workers::new(uri)),
        }
    }

    /// The calls that hang now, each with its age.
    pub fn hung(&self) -> Vec<(&'static str, Duration)> {
        self.workers.hung()
    }

    /// Calls libvirt; when the connection breaks, again until libvirtd is back. Every call here may run twice:
    /// it finds its effect done.
    async fn call<T: Send + 'static>(
        &self,
        what: &'static str,
        work: impl Fn(&Connect) -> Result<T, virt::error::Error> + Send + Sync + 'static,
    ) -> HostResult<T> {
        self.call_for(LIMIT, what, work).await
    }

    /// The same with another limit than [`LIMIT`].
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
            Ok(false) => REPORT_LIMIT,
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
                    let limit = limit.as_secs();
                    return Err(broken(format!("{what}: libvirt did not answer within {limit} s")));
                }
                // it may be queued behind calls that hang
                () = tokio::time::sleep(self.workers.patience()) => self.workers.relieve(),
            }
        }
    }

    /// One call that does not wait for a libvirt that is down.
    pub(super) async fn once<T: Send + 'static>(
        &self,
        what: &'static str,
        work: impl Fn(&Connect) -> Result<T, virt::error::Error> + Send + Sync + 'static,
    ) -> HostResult<T> {
        let answered = self.call_once(LIMIT, what, Arc::new(work)).await;
        answered.map_err(|failed| failed.error)
    }

    /// libvirt's version, as proof that it answers now; it does not wait for one that is down.
    pub async fn version(&self) -> HostResult<u32> {
        observe(
            "libvirt-version",
            self.once("get version", Connect::get_lib_version),
        )
        .await
    }

    /// All domains, running and shut off.
    pub async fn domains(&self) -> HostResult<Vec<Domain>> {
        let listed = self.call("list domains", |connection| {
            let mut domains = Vec::new();
            for domain in connection.list_all_domains(0)? {
                // A domain may vanish between the list and the query; then it uses nothing.
                if let Some(domain) = found(describe(connection, &domain))? {
                    domains.push(domain);
                }
            }
            Ok(domains)
        });
        observe("libvirt-domains", listed).await
    }

    /// Names of the domains that run, each with a number that it has for this run alone; it does not wait for a libvirt that is
    /// down.
    pub async fn running(&self) -> HostResult<Vec<(String, u32)>> {
        let list = |connection: &Connect| -> Result<Vec<(String, u32)>, virt::error::Error> {
            let mut running = Vec::new();
            for domain in connection.list_all_domains(sys::VIR_CONNECT_LIST_DOMAINS_RUNNING)? {
                // none: it ended between the list and the query
                if let Some(run) = domain.get_id() {
                    running.push((domain.get_name()?, run));
                }
            }
            Ok(running)
        };
        observe("libvirt-running", self.once("list running domains", list)).await
    }

    /// State of a domain, `None` when there is none of this name.
    pub async fn state(&self, name: &str) -> HostResult<Option<PowerState>> {
        let name = name.to_owned();
        self.call("look up domain", move |connection| {
            let domain = found(VirtDomain::lookup_by_name(connection, &name))?;
            let state = domain
                .map(|domain| found(domain.get_state()))
                .transpose()?
                .flatten();
            Ok(state.map(|(state, _)| PowerState::of(state)))
        })
        .await
    }

    /// Defines a domain, or defines it again with the same name and UUID. Returns its UUID.
    pub async fn define(&self, xml: String) -> HostResult<String> {
        self.call("define domain", move |connection| {
            VirtDomain::define_xml(connection, &xml)?.get_uuid_string()
        })
        .await
    }

    /// Starts a domain; one that runs already is left alone.
    pub async fn start(&self, name: &str) -> HostResult<()> {
        let name = name.to_owned();
        self.call_for(START_LIMIT, "start domain", move |connection| {
            let domain = VirtDomain::lookup_by_name(connection, &name)?;
            if !domain.is_active()? {
                domain.create()?;
            }
            Ok(())
        })
        .await
    }

    /// Asks the guest to shut down, by its power button.
    pub async fn shutdown(&self, name: &str) -> HostResult<()> {
        let name = name.to_owned();
        self.call("shut domain down", move |connection| {
            let Some(domain) = found(VirtDomain::lookup_by_name(connection, &name))? else {
                return Ok(());
            };
            ended(domain.shutdown().map(|_| ()))
        })
        .await
    }

    /// Stops a domain hard; one that does not run or does not exist is left alone.
    pub async fn destroy(&self, name: &str) -> HostResult<()> {
        let name = name.to_owned();
        self.call("destroy domain", move |connection| {
            let Some(domain) = found(VirtDomain::lookup_by_name(connection, &name))? else {
                return Ok(());
            };
            if domain.is_active()? {
                ended(domain.destroy())
            } else {
                Ok(())
            }
        })
        .await
    }

    /// Takes what is in a CD drive out of it, now and in the stored description, also when the guest holds it; an empty
    /// drive stays empty.
    pub async fn eject(&self, name: &str, device: &str, bus: &str) -> HostResult<()> {
        let name = name.to_owned();
        let empty = format!(
            "<disk type='file' device='cdrom'><target dev='{device}' bus='{bus}'/><readonly/></disk>"
        );
        self.call("eject the seed", move |connection| {
            let Some(domain) = found(VirtDomain::lookup_by_name(connection, &name))? else {
                return Ok(());
            };
            // libvirt's in-memory driver has no drives
            if connection.get_type()? == IN_MEMORY {
                return Ok(());
            }
            let mut flags = sys::VIR_DOMAIN_AFFECT_CONFIG | sys::VIR_DOMAIN_DEVICE_MODIFY_FORCE;
            if domain.is_active()? {
                flags |= sys::VIR_DOMAIN_AFFECT_LIVE;
            }
            domain.update_device_flags(&empty, flags).map(|_| ())
        })
        .await
    }

    /// Removes a domain with its NVRAM (D-72, D-79, INC-26); one that does not exist is fine.
    pub async fn undefine(&self, name: &str) -> HostResult<()> {
        let name = name.to_owned();
        self.call("undefine domain", move |connection| {
            let Some(domain) = found(VirtDomain::lookup_by_name(connection, &name))? else {
                return Ok(());
            };
            let mut flags =
                sys::VIR_DOMAIN_UNDEFINE_MANAGED_SAVE | sys::VIR_DOMAIN_UNDEFINE_SNAPSHOTS_METADATA;
            // libvirt's in-memory driver stores no NVRAM, and refuses its configuration
            if connection.get_type()? != IN_MEMORY {
                flags |= sys::VIR_DOMAIN_UNDEFINE_NVRAM;
            }
            found(domain.undefine_flags(flags)).map(|_| ())
        })
        .await
    }
}

fn describe(connection: &Connect, domain: &VirtDomain) -> Result<Domain, virt::error::Error> {
    let (state, _) = domain.get_state()?;
    let mut found = vec![sources(&domain.get_xml_desc(0)?)];
    if domain.is_persistent()? {
        let stored = domain.get_xml_desc(sys::VIR_DOMAIN_XML_INACTIVE)?;
        found.push(sources(&stored));
    }
    let (mut paths, mut untraced) = (BTreeSet::new(), BTreeSet::new());
    for one in found {
        match one {
            Ok(one) => {
                paths.extend(one.paths);
                untraced.extend(one.untraced);
                for (pool, volume) in one.volumes {
                    match path_of(connection, &pool, &volume) {
                        Ok(path) => paths.insert(path),
                        Err(_) => untraced.insert(format!("volume {volume} of pool {pool}")),
                    };
                }
            }
            Err(error) => {
                untraced.insert(format!("a description that cannot be read ({error})"));
            }
        }
    }
    Ok(Domain {
        name: domain.get_name()?,
        state: PowerState::of(state),
        disk_sources: paths.into_iter().collect(),
        untraced_sources: untraced.into_iter().collect(),
    })
}

/// Where a volume lies; a pool that is not active has none.
fn path_of(connection: &Connect, pool: &str, volume: &str) -> Result<String, virt::error::Error> {
    let pool = StoragePool::lookup_by_name(connection, pool)?;
    StorageVol::lookup_by_name(&pool, volume)?.get_path()
}

/// Turns "no such domain" into `None`.
pub(super) fn found<T>(
    result: Result<T, virt::error::Error>,
) -> Result<Option<T>, virt::error::Error> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.code() == ErrorNumber::NoDomain => Ok(None),
        Err(error) => Err(error),
    }
}

/// Stopping a domain that has just ended by itself is no error.
fn ended(result: Result<(), virt::error::Error>) -> Result<(), virt::error::Error> {
    match result {
        Err(error)
            if matches!(
                error.code(),
                ErrorNumber::NoDomain | ErrorNumber::OperationInvalid
            ) =>
        {
            Ok(())
        }
        other => other,
    }
}

pub(super) fn failed(what: &str, error: &virt::error::Error) -> HostError {
    HostError::host(
        ErrorReason::HypervisorFailed,
        format!("{what}: {}", error.message()),
    )
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc::{Receiver, channel};
    use std::sync::{Mutex, MutexGuard, PoisonError};

    use futures::FutureExt;

    use super::*;
    use crate::vm::workers::THREADS;

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
        let (release, gate) = channel::<()>();
        let gate = Arc::new(Mutex::new(gate));
        let (began, mut begun) = tokio::sync::mpsc::unbounded_channel();
        let busy = || {
            let (hypervisor, gate, began) = (hypervisor.clone(), Arc::clone(&gate), began.clone());
            tokio::spawn(async move {
                let wait = move |_: &Connect| {
                    began.send(()).ok();
                    let _opened = gate.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    Ok(())
                };
                hypervisor.call("wait", wait).await
            })
        };
        let busy: Vec<_> = (0..THREADS).map(|_| busy()).collect();
        for _ in 0..THREADS {
            begun.recv().await.unwrap();
        }
        let ran = Arc::new(AtomicBool::new(false));
        let mark = Arc::clone(&ran);
        let late = hypervisor.call("late", move |_| {
            mark.store(true, Ordering::SeqCst);
            Ok(())
        });
        assert!(late.now_or_never().is_none(), "every thread is busy");
        drop(release);
        for one in busy {
            one.await.unwrap().unwrap();
        }
        assert!(hypervisor.version().await.is_ok());
        assert!(!ran.load(Ordering::SeqCst));
    }

    /// The virtual slice host needed 69 seconds for a start, and real ones with hundreds of GiB to pin need as long.
    #[tokio::test]
    async fn d_47_a_start_has_more_time_than_a_question() {
        const { assert!(START_LIMIT.as_secs() >= 4 * LIMIT.as_secs()) };
        let hypervisor = Hypervisor::new("test:///default");
        let (release, gate) = channel::<()>();
        let gate = Arc::new(Mutex::new(gate));
        let work = |gate: Arc<Mutex<_>>| {
            move |_: &Connect| {
                let gate: MutexGuard<'_, Receiver<()>> =
                    gate.lock().unwrap_or_else(PoisonError::into_inner);
                let _opened = gate.recv();
                Ok(())
            }
        };
        let short = Duration::from_millis(20);
        let late = hypervisor.call_for(short, "start domain", work(Arc::clone(&gate)));
        let late = late.await.unwrap_err();
        assert!(late.message.contains("did not answer within"), "{late}");
        drop(release);
        let start = hypervisor.call_for(START_LIMIT, "start domain", work(gate));
        start.await.unwrap();
    }

    #[tokio::test]
    async fn the_life_of_a_domain_on_libvirts_test_driver() {
        let hypervisor = Hypervisor::new("test:///default");
        assert!(hypervisor.version().await.unwrap() > 0);
        let xml = "<domain type='test'><name>gpuaas-slice-t</name><memory>1024</memory><os><type>hvm</type></os></domain>";
        assert_eq!(hypervisor.state("gpuaas-slice-t").await.unwrap(), None);
        hypervisor.define(xml.to_owned()).await.unwrap();
        assert_eq!(
            hypervisor.state("gpuaas-slice-t").await.unwrap(),
            Some(PowerState::ShutOff)
        );
        hypervisor.start("gpuaas-slice-t").await.unwrap();
        hypervisor.start("gpuaas-slice-t").await.unwrap();
        assert_eq!(
            hypervisor.state("gpuaas-slice-t").await.unwrap(),
            Some(PowerState::Running)
        );
        assert!(
            hypervisor
                .domains()
                .await
                .unwrap()
                .iter()
                .any(|domain| domain.name == "gpuaas-slice-t")
        );
        hypervisor.destroy("gpuaas-slice-t").await.unwrap();
        hypervisor.destroy("gpuaas-slice-t").await.unwrap();
        assert_eq!(
            hypervisor.state("gpuaas-slice-t").await.unwrap(),
            Some(PowerState::ShutOff)
        );
        hypervisor.undefine("gpuaas-slice-t").await.unwrap();
        hypervisor.undefine("gpuaas-slice-t").await.unwrap();
        assert_eq!(hypervisor.state("gpuaas-slice-t").await.unwrap(), None);
    }
}
