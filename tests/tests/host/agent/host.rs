//! The lab host that the tests of the agent share: brought up by the first of them, spoken to over mutual TLS.
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::{Duration, Instant};

use gpuaas_common::client::{GrpcChannel, Peers};
use gpuaas_dev::ca::Authority;
use gpuaas_dev::lab::{Lab, SLOTS};
use gpuaas_dev::paths;
use gpuaas_dev::ports::{ClaimedInstance, Service};
use gpuaas_dev::process::{self, PidFile};
use gpuaas_dev::registry::Registry;
use gpuaas_proto::gpuaas::agent::v1 as pb;
use gpuaas_proto::gpuaas::agent::v1::node_scheduler_client::NodeSchedulerClient;
use gpuaas_proto::gpuaas::agent::v1::topology_client::TopologyClient;
use gpuaas_proto::gpuaas::agent::v1::virtual_machines_client::VirtualMachinesClient;
use tonic::transport::{Certificate, Identity};
use uuid::Uuid;

use super::setup::{enrol, settings};

pub use super::calls::{Tenant, bindings};

/// Longest wait for anything; a boot under emulation beside other tests takes a while.
pub const TIMEOUT: Duration = Duration::from_secs(120);
pub const USER: &str = "u_adda9308def04a2f";

/// Polls until `poll` returns something.
pub async fn until<T>(what: &str, mut poll: impl AsyncFnMut() -> Option<T>) -> T {
    let started = Instant::now();
    let mut ticks = tokio::time::interval(Duration::from_millis(100));
    loop {
        ticks.tick().await;
        if let Some(found) = poll().await {
            return found;
        }
        assert!(
            started.elapsed() < TIMEOUT,
            "waited {TIMEOUT:?} in vain for {what}"
        );
    }
}

/// A running lab host.
pub struct LabHost {
    pub lab: Lab,
    pub registry: Registry,
    pub folder: PathBuf,
    /// As allocation, which leases and runs VMs.
    channel: GrpcChannel,
    /// As inventory, which discovers.
    inventory: GrpcChannel,
    pub client_key: PathBuf,
    /// Generations of a test begin above this.
    base: AtomicU64,
    /// A test failed on it.
    spoiled: AtomicBool,
    _claimed: ClaimedInstance,
}

static SHARED: tokio::sync::Mutex<Option<Arc<LabHost>>> = tokio::sync::Mutex::const_new(None);

/// The shared host while a test has it.
pub struct SharedHost(Arc<LabHost>);

impl std::ops::Deref for SharedHost {
    type Target = LabHost;

    fn deref(&self) -> &LabHost {
        &self.0
    }
}

impl Drop for SharedHost {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("log of the host:\n{}", self.log());
            self.spoiled.store(true, SeqCst);
        }
    }
}

impl LabHost {
    /// The host for one test: idle, with a generation that no test had before. The test before this one may have left
    /// slots held; a host on which a test failed is replaced.
    pub async fn get() -> SharedHost {
        let mut shared = SHARED.lock().await;
        if shared
            .as_ref()
            .is_some_and(|host| host.spoiled.load(SeqCst))
        {
            shared.take();
        }
        let host = match shared.take() {
            Some(host) => host,
            None => Arc::new(Self::start().await),
        };
        let _kept_for_the_next_test = shared.insert(Arc::clone(&host));
        host.give_slots_back().await;
        host.base.fetch_add(100, SeqCst);
        SharedHost(host)
    }

    /// Ends the shared host, if there is one.
    pub fn end() {
        SHARED.blocking_lock().take();
    }

    /// A generation of a slot, counted from this test's first.
    pub fn generation(&self, number: u64) -> u64 {
        self.base.load(SeqCst) + number
    }

    /// Repairs what a test left held, as the control plane would, and the slots of a host that nobody used yet: each begins with
    /// the wipe of its disk.
    async fn give_slots_back(&self) {
        let held = self.holds().await;
        assert_eq!(held.domains, [], "a test left a VM");
        for index in 0..usize::from(SLOTS) {
            // above all that the test before used: its own stay below
            let slot = self.slot(index, 90).await;
            let of_slot = |hold: &&pb::Hold| hold.slot_id == slot.slot_id;
            let holder = held.holds.iter().find(of_slot);
            let holder = holder.map(|hold| hold.allocation_id.clone());
            let is_new = self.base.load(SeqCst) == 0;
            if let Some(holder) = holder.or_else(|| is_new.then(|| slot.slot_id.clone())) {
                let mut tenant = Tenant {
                    allocation: holder.parse().expect("a uuid"),
                    slot: slot.clone(),
                    lease: String::new(),
                };
                self.succeeded(self.repair(&mut tenant).await).await;
            }
        }
    }

    /// Brings a host up and waits until it is ready.
    async fn start() -> Self {
        let claimed = ClaimedInstance::claim().expect("an instance number");
        let instance = claimed.instance();
        let folder = paths::run_dir().join(format!("test/agent-{}", instance.number()));
        let program = paths::checkout().join("target/debug/gpuaas-node-agent");
        assert!(program.exists(), "run `make build` first");
        let lab = Lab::new(&folder, instance, program, 0, || SLOTS);
        // a run that was killed may have left this instance's host
        lab.down();
        let _absent_is_fine = std::fs::remove_dir_all(&folder);
        for sub in ["pids", "logs", "lab"] {
            paths::ensure_dir(&folder.join(sub)).expect("folder");
        }
        lab.network_up().expect("network");
        let authority = Authority::open(&folder.join("pki"), 1).expect("authority");
        let registry = Registry::new(
            &folder.join("registry"),
            lab.machine_address(),
            instance.port(Service::Registry),
            &authority,
            gpuaas_dev::registry::Access::Open,
            &folder.join("logs/registry.log"),
            PidFile::new(folder.join("pids/registry.pid")),
        )
        .expect("registry");
        registry.start().expect("registry starts");

        let (node_id, instance_id) = (Uuid::now_v7(), Uuid::now_v7());
        enrol(&lab, &authority, node_id, instance_id);
        lab.prepare().expect("disks");
        std::fs::write(
            lab.agent_config(),
            settings(&lab, &folder, instance.ssh_port(0)),
        )
        .expect("settings");
        lab.part().start().expect("sandbox");

        let channel_of = |service: &str| {
            let caller = authority.service(service, &[]).expect("identity");
            let read = |path: &Path| std::fs::read_to_string(path).expect("pem");
            let peers = Peers::new(
                [],
                Certificate::from_pem(read(&authority.authority().certificate)),
                Identity::from_pem(read(&caller.certificate), read(&caller.key)),
            )
            .and_hosts(Certificate::from_pem(read(&authority.host_root())));
            peers
                .host_channel(&lab.agent_address().to_string(), &node_id, &instance_id)
                .expect("channel")
        };
        let (channel, inventory) = (channel_of("allocation"), channel_of("inventory"));
        let client_key = folder.join("tenant");
        process::run(
            "ssh-keygen",
            &[
                "-q",
                "-t",
                "ed25519",
                "-N",
                "",
                "-f",
                &client_key.to_string_lossy(),
            ],
        )
        .expect("ssh-keygen");
        let host = Self {
            lab,
            registry,
            folder,
            channel,
            inventory,
            client_key,
            base: AtomicU64::new(0),
            spoiled: AtomicBool::new(false),
            _claimed: claimed,
        };
        host.wait_ready().await;
        host
    }

    /// Waits until the agent answers and no check fails.
    pub async fn wait_ready(&self) {
        until("the host to be ready", async || {
            let report = self
                .topology()
                .check_readiness(pb::CheckReadinessRequest {})
                .await
                .ok()?
                .into_inner();
            report.blockers.is_empty().then_some(())
        })
        .await;
    }

    pub fn topology(&self) -> TopologyClient<GrpcChannel> {
        TopologyClient::new(self.inventory.clone())
    }

    pub fn leases(&self) -> NodeSchedulerClient<GrpcChannel> {
        NodeSchedulerClient::new(self.channel.clone())
    }

    pub fn vms(&self) -> VirtualMachinesClient<GrpcChannel> {
        VirtualMachinesClient::new(self.channel.clone())
    }

    /// Runs a command in the guest, as its tenant.
    pub fn ssh(&self, tenant: &Tenant, command: &str) -> std::io::Result<std::process::Output> {
        std::process::Command::new("ssh")
            .args(self.ssh_arguments(tenant))
            .arg(command)
            .output()
    }

    /// The words of ssh up to its command.
    pub fn ssh_arguments(&self, tenant: &Tenant) -> Vec<String> {
        let key = self.client_key.display().to_string();
        let port = self.ssh_port(tenant.slot.slot_index);
        let mut arguments: Vec<String> = ["-i", &key, "-p", &port].map(str::to_owned).into();
        for option in [
            "StrictHostKeyChecking=no",
            "UserKnownHostsFile=/dev/null",
            "LogLevel=ERROR",
            "BatchMode=yes",
            "ConnectTimeout=10",
        ] {
            arguments.extend(["-o".to_owned(), option.to_owned()]);
        }
        arguments.push(format!("{USER}@{}", self.lab.host_address()));
        arguments
    }

    pub fn ssh_port(&self, index: u32) -> String {
        (u32::from(self._claimed.instance().ssh_port(0)) + index).to_string()
    }

    /// Ends the agent; its host starts it again, with these variables.
    pub async fn restart_agent(&self, environment: &str) {
        std::fs::write(self.folder.join("lab/run/agent.env"), environment).expect("environment");
        let before = self.lab.agent_process().expect("an agent");
        before.stop(nix::sys::signal::Signal::SIGKILL, Duration::from_secs(5));
        self.wait_ready().await;
    }

    /// The end of the host's log.
    pub fn log(&self) -> String {
        process::tail(&self.folder.join("logs/lab-host.log"))
    }
}

impl Drop for LabHost {
    fn drop(&mut self) {
        self.lab.down();
        self.registry.stop();
        let _best_effort = std::fs::remove_dir_all(self.registry.folder());
        let _best_effort = std::fs::remove_dir_all(&self.folder);
    }
}
