//! A host: the agent's own core over mutual TLS, on a journal file, on libvirt's in-memory driver, on loop devices and
//! a dnsmasq. Only what needs a machine is played: the guests, which take their address and let the agent log in.
//!
//! The agent runs in a runtime of its own, which a test can end as hard as a crash; what it works on stays, as it would
//! on a host.

mod disks;
mod functions;
mod guests;
mod residue;
mod script;
mod ssh;
mod state;
mod stopped;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use gpuaas_agent::api;
use gpuaas_agent::disk::DiskProbe;
use gpuaas_agent::enrol::Signer;
use gpuaas_agent::gpu_fabric;
use gpuaas_agent::host::root::HostRoot;
use gpuaas_agent::ids::{SlotId, Token};
use gpuaas_agent::journal::Journal;
use gpuaas_agent::node::Node;
use gpuaas_agent::operation::Runner;
use gpuaas_agent::settings::Settings;
use gpuaas_agent::telemetry;
use gpuaas_agent::vm::Hypervisor;
use gpuaas_common::{CancellationToken, Context};
use gpuaas_dev::until::until;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tokio::runtime::Runtime;
use uuid::Uuid;

pub use disks::DISK_BYTES;
pub use script::{Kill, Script};
pub use state::State;

use disks::Disk;
use guests::{Guests, Way};
use script::Director;

/// libvirt without a machine; all connections of a process see the same domains.
const LIBVIRT: &str = "test:///default";
/// Longest wait for anything.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Threads of the agent.
const WORKERS: usize = 2;
/// Between two looks at Fabric Manager.
const LOOK: Duration = Duration::from_millis(200);

pub struct Host {
    folder: tempfile::TempDir,
    disks: Vec<Disk>,
    /// Slots as the ledger names them, in order of their index.
    slots: Mutex<Vec<Uuid>>,
    hypervisor: Hypervisor,
    director: Director,
    guests: Arc<Guests>,
    machine: Option<Runtime>,
    agent: Mutex<Option<Runtime>>,
    dnsmasq: Mutex<Child>,
    /// Bytes up to which a wiped disk is read back whole.
    verify_whole: Mutex<u64>,
    /// It measures its VMs.
    measures: Mutex<bool>,
    /// It looks at Fabric Manager by itself.
    looks: Mutex<bool>,
    /// What its operator gave to the platform for ingress mappings: address and ports.
    ingress: Mutex<Option<(&'static str, &'static str)>>,
    /// Each slot has a GPU of a board that Fabric Manager connects.
    board: bool,
    /// Each slot has a virtual function of the fabric.
    functions: bool,
    /// Whether it has two processors, with every other slot at the second.
    sockets: bool,
}

/// Module ids of a board's GPUs in the order of their slots: the first two are a pair.
const MODULES: [i32; 8] = [1, 3, 2, 4, 5, 7, 6, 8];

/// Content of the one image, and what it is called by its digest.
pub fn image() -> &'static [u8] {
    static IMAGE: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
    IMAGE.get_or_init(|| b"a guest's disk. ".repeat(1 << 16))
}

/// Content of the image that VMs are rescued with.
pub fn rescue_image() -> &'static [u8] {
    static IMAGE: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
    IMAGE.get_or_init(|| b"a rescue's disk ".repeat(1 << 12))
}

pub fn rescue_digest() -> String {
    static DIGEST: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    DIGEST
        .get_or_init(|| format!("sha256:{}", hex::encode(Sha256::digest(rescue_image()))))
        .clone()
}

pub fn digest() -> String {
    static DIGEST: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    DIGEST
        .get_or_init(|| format!("sha256:{}", hex::encode(Sha256::digest(image()))))
        .clone()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Host {
    /// A host whose agent is not started yet.
    pub async fn new(slots: usize) -> Self {
        // nothing here outlives the process, so nothing waits for a disk to write it
        let folder = tempfile::tempdir_in("/dev/shm").expect("a folder");
        let path = folder.path();
        for sub in ["state", "images", "dhcp", "disks"] {
            std::fs::create_dir(path.join(sub)).expect("a folder");
        }
        machine_files(&path.join("root"));
        let image_file = format!("images/{}.raw", digest().replace(':', "-"));
        std::fs::write(path.join(image_file), image()).expect("an image");
        let rescue_file = format!("images/{}.raw", rescue_digest().replace(':', "-"));
        std::fs::write(path.join(rescue_file), rescue_image()).expect("an image");
        let disks = (0..slots).map(|index| Disk::attach(&path.join(format!("disks/{index}.img"))));
        let disks = disks.collect();
        let dnsmasq = Mutex::new(dnsmasq(path));
        let machine = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("machine")
            .enable_all()
            .build()
            .expect("a runtime");
        let director = Director::default();
        // its connection keeps the domains while no agent runs
        let hypervisor = Hypervisor::new(LIBVIRT);
        hypervisor.version().await.expect("libvirt");
        let guests = Guests::start(&machine, path, hypervisor.clone(), director.clone());
        let host = Self {
            disks,
            slots: Mutex::default(),
            hypervisor,
            director,
            guests,
            machine: Some(machine),
            agent: Mutex::new(None),
            dnsmasq,
            verify_whole: Mutex::new(DISK_BYTES),
            measures: Mutex::new(false),
            looks: Mutex::new(false),
            ingress: Mutex::default(),
            board: false,
            functions: false,
            sockets: false,
            folder,
        };
        host.wait_for("dnsmasq", || host.path("dnsmasq.pid").exists())
            .await;
        host
    }

    /// Gives each slot a GPU. The host's Fabric Manager is played by the lab's `fmpm`.
    pub fn with_board(mut self) -> Self {
        std::fs::create_dir(self.path("board")).expect("a folder");
        self.board = true;
        self
    }

    /// Gives it two processors, each with its own memory; every other slot lies at the second.
    pub fn with_sockets(mut self) -> Self {
        for (node, cpus, distance) in [(0, "0-31,64-95", "10 21"), (1, "32-63", "21 10")] {
            let node = format!("sys/devices/system/node/node{node}");
            self.write_root(&format!("{node}/cpulist"), &format!("{cpus}\n"));
            self.write_root(&format!("{node}/distance"), &format!("{distance}\n"));
        }
        self.sockets = true;
        self
    }

    /// NUMA node of a slot's devices.
    pub fn numa_node(&self, index: i32) -> Option<i32> {
        self.sockets.then_some(index % 2)
    }

    /// A VM as libvirt describes it.
    pub fn description(&self, vm: &str) -> String {
        let connection = virt::connect::Connect::open(Some(LIBVIRT)).expect("libvirt");
        let domain = virt::domain::Domain::lookup_by_name(&connection, vm).expect("a domain");
        domain.get_xml_desc(0).expect("a description")
    }

    /// Module id of a slot's GPU.
    pub fn module(&self, index: usize) -> Option<i32> {
        self.board.then(|| MODULES[index])
    }

    /// Numbers of the partitions that are active.
    pub fn partitions(&self) -> Vec<String> {
        let active = std::fs::read_to_string(self.path("board/active")).unwrap_or_default();
        active.lines().map(str::to_owned).collect()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Identities of the slots' disks, in order of the slots' index.
    pub fn disks(&self) -> Vec<String> {
        let identity = |disk: &Disk| format!("lab-disk:{}", disk.id);
        self.disks.iter().map(identity).collect()
    }

    /// Tells how the ledger calls the slots. Their disks were wiped on this host, so it knows them.
    pub fn name_slots(&self, ids: &[Uuid]) {
        *lock(&self.slots) = ids.to_vec();
        let journal = Journal::open(&self.path("state/journal.sqlite")).expect("a journal");
        let first = Token {
            cell_epoch: 0,
            slot_generation: 0,
            workflow_epoch: 0,
        };
        for id in ids {
            journal.restore_fence(SlotId(*id), first).expect("a fence");
        }
    }

    /// The hypervisor, for a test that does something behind the agent's back.
    pub fn hypervisor(&self) -> &Hypervisor {
        &self.hypervisor
    }

    /// Starts the agent.
    pub fn up(&self, node_id: Uuid, instance_id: Uuid, context: impl FnOnce() -> Context) {
        let settings = self.settings();
        let context = context();
        let mut node = Node::open(settings, b"").expect("a node");
        // it has enrolled: its key and certificate are those it is reached by
        self.write_identity(node_id, instance_id);
        node.signer = Some(Signer::of(&node.settings, &context.settings));
        // disks are those of this machine; all else that is read of the host lies in the host's own folder
        node.probe = DiskProbe::new(
            HostRoot::new("/"),
            node.settings.lab_disks.clone(),
            node.hypervisor.clone(),
        )
        // what supervises the machine of a test may have more rights than the test
        .trusting(vec![
            std::fs::read_to_string("/proc/1/comm")
                .expect("readable")
                .trim()
                .to_owned(),
        ]);
        node.wiper = Box::new(self.director.clone());
        node.edges = Box::new(self.director.clone());
        node.guests = Box::new(Way(Arc::clone(&self.guests)));
        node.kernel = Arc::new(functions::Drivers);
        let node = Arc::new(node);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(WORKERS)
            .thread_name("agent")
            .enable_all()
            .build()
            .expect("a runtime");
        // on a thread of its own: the test's runtime has one thread, which must not be held up for the agent's
        std::thread::scope(|scope| {
            let start = || {
                let _inside = runtime.enter();
                let runner = Runner::new(Arc::clone(&node));
                runner.resume().expect("a journal");
                let server = api::server(&context, &node, runner);
                if *lock(&self.measures) {
                    let node = Arc::clone(&node);
                    runtime.spawn(async move {
                        telemetry::follow::run(&node, CancellationToken::new()).await;
                    });
                }
                if *lock(&self.looks) {
                    let node = Arc::clone(&node);
                    runtime.spawn(async move {
                        gpu_fabric::run(&node, LOOK, CancellationToken::new()).await;
                    });
                }
                runtime.spawn(async move {
                    let ended = server.run(CancellationToken::new()).await;
                    panic!("the agent's server ended: {ended:?}");
                });
            };
            scope.spawn(start).join().expect("an agent");
        });
        let before = lock(&self.agent).replace(runtime);
        assert!(before.is_none(), "one agent at a time");
    }

    fn write_identity(&self, node_id: Uuid, instance_id: Uuid) {
        let identity = json!({ "node_id": node_id, "instance_id": instance_id });
        let enrolled = std::fs::write(self.path("state/identity.json"), identity.to_string());
        enrolled.expect("an identity");
    }

    /// Which instance the agent says that it is, when it signs from now on.
    pub fn sign_as(&self, instance_id: Uuid) {
        let text = std::fs::read_to_string(self.path("state/identity.json")).expect("an identity");
        let identity: serde_json::Value = serde_json::from_str(&text).expect("json");
        let node_id = identity["node_id"].as_str().and_then(|id| id.parse().ok());
        self.write_identity(node_id.expect("a node"), instance_id);
    }

    /// Ends the agent as SIGKILL would: nothing of it runs any more, nothing is finished.
    pub fn down(&self) {
        let runtime = lock(&self.agent).take().expect("an agent");
        end(runtime);
    }

    /// Waits until the agent was killed where the script says, and ends it there.
    pub async fn until_killed(&self, place: &str) {
        self.wait_for(place, || self.director.was_hit()).await;
        self.down();
        self.director.forget_hit();
    }

    /// What a restart of the machine leaves: the disks and the journal. The agent is down.
    pub async fn restart_machine(&self) {
        for domain in self.own_domains().await {
            self.hypervisor.destroy(&domain).await.expect("libvirt");
        }
        boot(&self.path("root"));
    }

    /// What a new installation of the machine leaves: the disks. The agent is down.
    pub async fn reinstall(&self) {
        self.restart_machine().await;
        for domain in self.own_domains().await {
            self.hypervisor.undefine(&domain).await.expect("libvirt");
        }
        for folder in ["state", "dhcp"] {
            std::fs::remove_dir_all(self.path(folder)).expect("a folder");
            std::fs::create_dir(self.path(folder)).expect("a folder");
        }
    }

    /// Changes what goes wrong.
    pub fn script(&self, change: impl FnOnce(&mut Script)) {
        self.director.change(change);
    }

    /// Reads back only samples of disks that are larger than this, from the agent's next start on.
    pub fn verify_whole_up_to(&self, bytes: u64) {
        *lock(&self.verify_whole) = bytes;
    }

    /// Measures the VMs, from the agent's next start on.
    pub fn measure(&self) {
        *lock(&self.measures) = true;
    }

    /// Looks at Fabric Manager by itself, from the agent's next start on.
    pub fn look(&self) {
        *lock(&self.looks) = true;
    }

    /// Somebody activates these partitions by hand, and no others.
    pub fn set_partitions(&self, active: &[u32]) {
        let text: String = active.iter().map(|id| format!("{id}\n")).collect();
        std::fs::write(self.path("board/active"), text).expect("a board");
    }

    /// Gives ports of an address to the platform, or takes them back, from the agent's next start on.
    pub fn give_ingress(&self, owned: Option<(&'static str, &'static str)>) {
        *lock(&self.ingress) = owned;
    }

    /// Ends dnsmasq, without which a host is not ready.
    pub fn end_dnsmasq(&self) {
        let mut process = lock(&self.dnsmasq);
        process.kill().expect("a process");
        process.wait().expect("a process");
    }

    /// Fills a slot's disk with somebody's bytes, without partition table or signature.
    pub fn fill_disk(&self, index: usize) {
        let file = self.path(&format!("disks/{index}.img"));
        let bytes = b"somebody's bytes ".repeat(usize::try_from(DISK_BYTES).expect("small") / 17);
        let written = std::fs::File::options().write(true).open(file);
        let written = written.and_then(|mut file| file.write_all(&bytes));
        written.expect("a disk");
    }

    /// Gives a slot's disk the signature of somebody's swap space.
    pub fn sign_disk(&self, index: usize) {
        let file = self.path(&format!("disks/{index}.img"));
        let made = Command::new("mkswap").arg(file).output().expect("mkswap");
        assert!(made.status.success(), "{made:?}");
    }

    /// Content of a file in the folder of images.
    pub fn image_named(&self, name: &str) -> std::io::Result<Vec<u8>> {
        std::fs::read(self.path("images").join(name))
    }

    /// Which boot a VM's guest is at.
    pub fn boot_id(&self, vm: &str) -> Option<Uuid> {
        self.guests.boot_id(vm)
    }

    /// The network group that a VM's reservation is tagged with.
    pub fn network_group(&self, vm: &str) -> Option<Uuid> {
        let file = self.path(&format!("dhcp/gpuaas-{vm}.conf"));
        let line = std::fs::read_to_string(file).expect("a reservation");
        let mut tags = line.trim().split(',');
        let group = tags.find_map(|tag| tag.strip_prefix("set:group-"))?;
        Some(group.parse().expect("a group"))
    }

    fn serial_log(&self, allocation: Uuid) -> (PathBuf, String) {
        let vm = gpuaas_agent::ids::AllocationId(allocation).vm_name();
        (self.path("state/serial"), vm.to_string())
    }

    /// Prints on the serial console of a VM, as libvirt writes it.
    pub fn print(&self, allocation: Uuid, text: &str) {
        let (folder, vm) = self.serial_log(allocation);
        let mut file = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(folder.join(format!("{vm}.log")))
            .expect("a log");
        file.write_all(text.as_bytes()).expect("written");
    }

    /// Deletes what the host keeps of a serial log.
    pub fn forget_serial_log(&self, allocation: Uuid) {
        let (folder, vm) = self.serial_log(allocation);
        std::fs::remove_dir_all(folder.join("archive").join(vm)).expect("an archive");
    }

    /// Waits until the host is in this state.
    pub async fn until(&self, what: &str, mut holds: impl FnMut(&State) -> bool) {
        until(what, TIMEOUT, async || {
            holds(&self.state().await).then_some(())
        })
        .await;
    }

    async fn wait_for(&self, what: &str, holds: impl Fn() -> bool) {
        let wait = async {
            while !holds() {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(TIMEOUT, wait)
            .await
            .unwrap_or_else(|_| panic!("never: {what}"));
    }

    fn settings(&self) -> Settings {
        let disks: Vec<_> = self
            .disks
            .iter()
            .map(|disk| json!({"id": disk.id, "backing_file": disk.file}))
            .collect();
        let ingress = match *lock(&self.ingress) {
            Some((address, ports)) => json!({ "address": address, "ports": ports }),
            None => json!({}),
        };
        let settings = json!({
            "ingress": ingress,
            "state_dir": self.path("state"),
            "root": self.path("root"),
            "libvirt_uri": LIBVIRT,
            "profile": {
                "name": "lab", "lab": true, "hypervisor": "qemu", "cpu_model": "qemu64", "hugepages": true,
                "mode": self.functions.then_some("slice"), "firmware_code": "/firmware", "firmware_vars_template": "/firmware-vars", "emulator": "/emulator",
            },
            // a bridge that every machine has
            "network": {"bridge": "lo", "bridge_kind": "linux", "gateway": "127.0.0.1/8", "mode": "routed"},
            "dhcp": {
                "hosts_dir": self.path("dhcp"), "leases_file": self.path("dhcp.leases"),
                "pid_file": self.path("dnsmasq.pid"),
            },
            "images": {"cache_dir": self.path("images")},
            "relay": {"key_file": self.path("relay")},
            "access": {"host": "127.0.0.1", "port_base": 2222},
            "lab_disks": disks,
            "gpu_fabric": {
                "manager": if self.board { "fabric_manager" } else { "none" },
                "program": concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/lab/fmpm.sh"),
                "address": self.path("board"),
            },
            // its folder is in memory, of which a machine may have little
            "limits": {"full_verify_bytes": *lock(&self.verify_whole), "sample_verify_bytes": 0, "min_free_bytes": 0},
            // what it waits for happens within milliseconds here
            "polling": {"guest_ms": 10, "shutdown_ms": 10, "undo_ms": 10, "serial_ms": 10},
            "telemetry": {"pause_ms": 50},
        });
        serde_json::from_value(settings).expect("settings")
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if let Some(agent) = lock(&self.agent).take() {
            end(agent);
        }
        let process = self.dnsmasq.get_mut();
        let process = process.unwrap_or_else(PoisonError::into_inner);
        let _it_may_have_ended = process.kill();
        let _it_may_have_ended = process.wait();
        // the next host of this process sees the same libvirt
        let (hypervisor, machine) = (self.hypervisor.clone(), self.machine.take());
        let clean = std::thread::spawn(move || {
            let Some(machine) = machine else { return };
            machine.block_on(async {
                for domain in state::own_domains(&hypervisor).await {
                    let _best_effort = hypervisor.destroy(&domain).await;
                    let _best_effort = hypervisor.undefine(&domain).await;
                }
            });
            machine.shutdown_timeout(Duration::from_secs(1));
        });
        let _best_effort = clean.join();
    }
}

/// Drops all tasks of a runtime; not from within the test's own.
fn end(runtime: Runtime) {
    let ending = std::thread::spawn(move || runtime.shutdown_timeout(Duration::from_secs(5)));
    ending.join().expect("the runtime ends");
}

/// What the agent reads of a machine that is fit for VMs.
fn machine_files(root: &Path) {
    let pages = "sys/kernel/mm/hugepages/hugepages-1048576kB";
    let files: BTreeMap<String, &str> = [
        (format!("{pages}/nr_hugepages"), "64\n"),
        (format!("{pages}/free_hugepages"), "64\n"),
        ("firmware".into(), ""),
        ("firmware-vars".into(), ""),
        ("emulator".into(), ""),
        ("var/lib/libvirt/keys".into(), ""),
    ]
    .into();
    for (file, content) in files {
        let file = root.join(file);
        std::fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
        std::fs::write(file, content).expect("a file");
    }
    let open = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(root.join("var/lib/libvirt"), open).expect("a folder");
    boot(root);
}

/// Begins a boot of the machine.
fn boot(root: &Path) {
    let folder = root.join("proc/sys/kernel/random");
    std::fs::create_dir_all(&folder).expect("a folder");
    let boot_id = format!("{}\n", Uuid::new_v4());
    std::fs::write(folder.join("boot_id"), boot_id).expect("a file");
}

/// A dnsmasq that gives nobody an address: it has a process id, and reads its files when it is told to.
fn dnsmasq(folder: &Path) -> Child {
    Command::new("setpriv")
        .args([
            "--pdeathsig",
            "KILL",
            "--",
            "dnsmasq",
            "--keep-in-foreground",
        ])
        .args(["--conf-file=/dev/null", "--port=0", "--user=root"])
        .arg(format!(
            "--pid-file={}",
            folder.join("dnsmasq.pid").display()
        ))
        .arg(format!("--dhcp-hostsdir={}", folder.join("dhcp").display()))
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("dnsmasq")
}
