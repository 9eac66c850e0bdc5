//! Hosts made of the agent's code: how they enrol, what they report and when.
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use gpuaas_agent::build;
use gpuaas_agent::enrol::{Reports, csr, keep_reporting, request_enrolment};
use gpuaas_agent::host::recording::Recording;
use gpuaas_agent::recorded::Recorded;
use gpuaas_common::CancellationToken;
use gpuaas_common::client::Peers;
use gpuaas_common::config::Settings as CommonSettings;
use gpuaas_common::time::proto_time;
use gpuaas_load_tests::system::Services;
use gpuaas_proto::gpuaas::agent::v1::ReadinessReport;
use gpuaas_proto::gpuaas::internal::inventory::v1 as pb;
use tokio::task::JoinSet;
use tonic::transport::{Certificate, Identity};
use tonic::{Response, Status};

/// Hugepages that a host reports free at first.
const HUGEPAGES: u32 = 1000;
/// The host that is inspected.
const RECORDING: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../agent/recordings/xe9680l.json"
);

/// The report of a host on which everything passes.
pub struct Template {
    report: ReadinessReport,
    /// How long the inspection took.
    pub inspection: Duration,
}

impl Template {
    /// Inspects the recorded host.
    ///
    /// # Errors
    /// The recording cannot be read, or has a blocker.
    pub async fn inspect() -> anyhow::Result<Self> {
        let host = Recorded::open(Recording::load(Path::new(RECORDING))?)?;
        let began = Instant::now();
        let report = host.readiness().await;
        let inspection = began.elapsed();
        ensure!(
            report.blockers.is_empty(),
            "the recorded host is blocked: {}",
            report.blockers.join(", ")
        );
        Ok(Self { report, inspection })
    }
}

/// When hosts called.
#[derive(Default)]
pub struct Log {
    by_second: Mutex<BTreeMap<u64, usize>>,
}

impl Log {
    fn note(&self) {
        let second = jiff::Timestamp::now().as_second().unsigned_abs();
        *self.lock().entry(second).or_default() += 1;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, usize>> {
        self.by_second
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls in the second that had most.
    pub fn busiest_second(&self) -> usize {
        self.lock().values().copied().max().unwrap_or_default()
    }

    /// Counts from now on.
    pub fn forget(&self) {
        self.lock().clear();
    }
}

/// One host's reports.
struct Host {
    boot_id: String,
    address: String,
    template: Arc<Template>,
    changes: Arc<AtomicU32>,
    log: Arc<Log>,
}

impl Reports for Host {
    async fn report(&self) -> pb::HeartbeatRequest {
        self.log.note();
        let now = proto_time(jiff::Timestamp::now());
        let mut readiness = self.template.report.clone();
        readiness.observed_time = Some(now);
        for evidence in &mut readiness.evidence {
            evidence.observed_at = Some(now);
        }
        readiness.hugepages_1g_free = HUGEPAGES - self.changes.load(Ordering::Relaxed);
        pb::HeartbeatRequest {
            boot_id: self.boot_id.clone(),
            agent_version: build::version().to_owned(),
            readiness: Some(readiness),
            agent_address: self.address.clone(),
            ..pb::HeartbeatRequest::default()
        }
    }

    fn ended(&self, _: &Result<Response<pb::HeartbeatResponse>, Status>) {}
}

/// All hosts.
pub struct Fleet {
    common: CommonSettings,
    authority: String,
    template: Arc<Template>,
    /// Changes that every host has seen so far: each takes one hugepage.
    pub changes: Arc<AtomicU32>,
    /// Calls of all hosts.
    pub log: Arc<Log>,
    shutdown: CancellationToken,
    running: tokio::sync::Mutex<JoinSet<anyhow::Result<()>>>,
}

impl Fleet {
    /// A fleet without hosts.
    pub fn new(system: &Services<'_>, template: Template) -> anyhow::Result<Self> {
        let common = system.agent_settings()?;
        Ok(Self {
            authority: std::fs::read_to_string(&common.tls.ca_file)?,
            common,
            template: Arc::new(template),
            changes: Arc::default(),
            log: Arc::default(),
            shutdown: CancellationToken::new(),
            running: tokio::sync::Mutex::default(),
        })
    }

    /// Enrols a host per token, all at once, and lets each report from then on. Returns when the last one has enrolled.
    ///
    /// # Errors
    /// The first enrolment that inventory refuses.
    pub async fn enrol(&self, tokens: Vec<String>) -> anyhow::Result<()> {
        let mut enrolling = JoinSet::new();
        for (number, token) in tokens.into_iter().enumerate() {
            let (common, authority) = (self.common.clone(), self.authority.clone());
            let host = Host {
                boot_id: format!("boot-{number}"),
                address: format!("10.0.{}.{}:7110", number / 250, number % 250 + 1),
                template: Arc::clone(&self.template),
                changes: Arc::clone(&self.changes),
                log: Arc::clone(&self.log),
            };
            enrolling.spawn(async move {
                let peers = enrol_one(&common, authority, token, &host).await?;
                anyhow::Ok((host, peers))
            });
        }
        let mut running = self.running.lock().await;
        while let Some(enrolled) = enrolling.join_next().await {
            let (host, peers) = enrolled.context("an enrolment panicked")??;
            let shutdown = self.shutdown.clone();
            running.spawn(async move { keep_reporting(host, &peers, shutdown).await });
        }
        Ok(())
    }

    /// Ends all hosts.
    pub async fn stop(&self) {
        self.shutdown.cancel();
        let mut running = self.running.lock().await;
        while running.join_next().await.is_some() {}
    }
}

async fn enrol_one(
    common: &CommonSettings,
    authority: String,
    token: String,
    host: &Host,
) -> anyhow::Result<Peers> {
    let key = rcgen::KeyPair::generate()?;
    let request = pb::EnrolRequest {
        token,
        csr_pem: csr(&key)?,
        boot_id: host.boot_id.clone(),
        machine_id: host.boot_id.clone(),
        agent_version: build::version().to_owned(),
        agent_built_time: None,
        agent_address: host.address.clone(),
        host_profile: host.template.report.host_profile.clone(),
        lab: host.template.report.lab,
        hypervisor: host.template.report.hypervisor.clone(),
    };
    let enrolled = request_enrolment(common, request).await?;
    let url = common
        .peers
        .get("inventory")
        .context("a URL of inventory")?;
    Ok(Peers::new(
        [("inventory".to_owned(), url.clone())],
        Certificate::from_pem(authority),
        Identity::from_pem(enrolled.certificate_pem, key.serialize_pem()),
    ))
}
