//! The running system of the tests: started as `make up` starts one, beside it, with a kill point where a file says.
use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use gpuaas_dev::lab::Lab;
use gpuaas_dev::part::Part;
use gpuaas_dev::ports::Instance;
use gpuaas_dev::seed::{self, Tokens};
use gpuaas_dev::stack::{Kind, Options, Stack};
use gpuaas_dev::{paths, process};
use serde_json::{Value, json};
use sqlx::PgConnection;

use crate::api::Api;
use crate::runner::lane;
pub use crate::until::TIMEOUT;
use crate::until::{until, until_ok};

/// Number of the tests' stack, unless `GPUAAS_TEST_INSTANCE` gives another: two checkouts on one machine need two. Measurements
/// have the next one, and the tests of the console the one after it.
const INSTANCE: u16 = 60;
/// From there to the number of the second lane.
const LANE: u16 = 3;

/// Below the folder of the stack: where a kill of the allocation service is ordered.
const KILL_FILE: &str = "kill-allocation";

fn instance() -> u16 {
    let first = std::env::var("GPUAAS_TEST_INSTANCE").map_or(INSTANCE, |number| {
        number.parse().expect("GPUAAS_TEST_INSTANCE is a number")
    });
    first + LANE * lane()
}

/// The running system, held by one test at a time.
pub struct System {
    /// Its parts.
    pub stack: Stack,
    /// A member of the project.
    pub user: Api,
    /// A platform administrator.
    pub admin: Api,
    /// Its lab hosts.
    pub hosts: Vec<Host>,
    /// The first lab host's node.
    pub node_id: String,
    /// Private key that the tests log in with.
    pub key_file: PathBuf,
    /// Its public half.
    pub public_key: String,
    _alone: File,
}

/// A lab host with its node.
pub struct Host {
    /// The host.
    pub lab: Lab,
    /// Id of its node.
    pub node_id: String,
}

impl Host {
    /// The backing file of a slot's disk.
    ///
    /// # Panics
    /// When the lab host has no such disk.
    pub fn disk_file(&self, slot_index: usize) -> PathBuf {
        let disks = self.lab.disks().expect("disks");
        disks[slot_index].file.clone()
    }

    fn path(&self, rest: &str) -> String {
        format!("/api/v1/admin/nodes/{}{rest}", self.node_id)
    }
}

/// Folder of the stack of a lane's tests.
fn root(lane: u16) -> PathBuf {
    let folder = if lane == 0 { "stack" } else { "second-stack" };
    paths::run_dir().join("test").join(folder)
}

/// Ends the system of the second lane, if it runs: the next run may not need it.
pub fn end_second() {
    gpuaas_dev::sweep::sweep(&root(1));
}

impl System {
    /// The system with one lab host, up, seeded, idle: no allocation, both slots available.
    ///
    /// # Panics
    /// When it does not come up; the message holds the log's end.
    pub async fn get() -> Self {
        Self::with_hosts(1).await
    }

    /// The same with several lab hosts.
    ///
    /// # Panics
    /// When it does not come up; the message holds the log's end.
    pub async fn with_hosts(hosts: u16) -> Self {
        let root = root(lane());
        paths::ensure_dir(&root).expect("folder");
        let alone = File::create(root.join("test.lock")).expect("lock file");
        // two programs, or two tests of one
        alone.lock().expect("lock");
        let mut options =
            Options::beside(root.clone(), Instance::new(instance()).expect("a number"));
        options.hosts = hosts.max(running_hosts(&options));
        options.otlp_endpoint = Self::otlp_endpoint();
        let file = options.root.join(KILL_FILE).display().to_string();
        let environment = vec![("GPUAAS_KILL_FILE".into(), file)];
        options.environment.insert("allocation".into(), environment);
        // work of a killed replica rests so long
        let lease = "allocation.lease_seconds=5".into();
        let compare = "allocation.reconcile_seconds=15".into();
        let settings = vec![lease, compare];
        options.settings.insert("allocation".into(), settings);
        let stack = Stack::new(options).expect("stack");
        let quiet = |_: &str| {};
        stack
            .up(&quiet)
            .await
            .unwrap_or_else(|e| panic!("{}", gpuaas_dev::error::chain(&e)));
        seed::all(&stack, &quiet)
            .await
            .unwrap_or_else(|e| panic!("{}", gpuaas_dev::error::chain(&e)));

        let key_file = root.join("test-key");
        if !key_file.exists() {
            process::run(
                "ssh-keygen",
                &[
                    "-q",
                    "-t",
                    "ed25519",
                    "-N",
                    "",
                    "-C",
                    "test",
                    "-f",
                    &key_file.display().to_string(),
                ],
            )
            .expect("ssh-keygen");
        }
        let public_key =
            std::fs::read_to_string(key_file.with_extension("pub")).expect("public key");
        let tokens = Tokens::of(&root);
        let token = |file: &PathBuf| {
            std::fs::read_to_string(file)
                .expect("token")
                .trim()
                .to_owned()
        };
        let user = Api::new(stack.api_url(), token(&tokens.user));
        let admin = Api::new(stack.api_url(), token(&tokens.admin));
        let hosts_there = hosts_of(&stack, &admin).await;
        let mut system = Self {
            stack,
            user,
            admin,
            node_id: hosts_there[0].node_id.clone(),
            hosts: hosts_there,
            key_file,
            public_key: public_key.trim().to_owned(),
            _alone: alone,
        };
        system.tidy().await;
        while system.hosts.len() > usize::from(hosts) {
            system.rest_last_host().await;
        }
        system
    }

    /// Where the parts send their traces: an address that the lab host reaches too.
    pub fn otlp_endpoint() -> String {
        format!("http://100.64.{}.1:{}", instance(), Self::otlp_port())
    }

    /// Port of the trace collector.
    pub fn otlp_port() -> u16 {
        4317
    }

    /// A replica of the allocation service that dies where [`Self::kill_file`] says.
    ///
    /// # Panics
    /// When its settings cannot be written.
    pub fn allocation(&self, replica: u16) -> Part {
        let kind = Kind::find("allocation").expect("known");
        self.stack.service(kind, replica).expect("settings")
    }

    /// Makes a replica run, ready.
    ///
    /// # Panics
    /// When it does not get ready.
    pub async fn allocation_up(&self, replica: u16) {
        let part = self.allocation(replica);
        part.ensure().expect("starts");
        part.wait_ready(self.stack.health()).await.expect("ready");
    }

    /// Where to order a kill of the allocation service.
    pub fn kill_file(&self) -> PathBuf {
        self.stack.options().root.join(KILL_FILE)
    }

    /// Slots of the first host as the admin API shows them.
    ///
    /// # Panics
    /// When the API refuses.
    pub async fn slots(&self) -> Vec<Value> {
        self.slots_on(&self.hosts[0]).await
    }

    /// Slots of a host as the admin API shows them.
    ///
    /// # Panics
    /// When the API refuses.
    pub async fn slots_on(&self, host: &Host) -> Vec<Value> {
        let slots = self.admin.get(&host.path("/resource-slots")).await;
        let slots = slots.expect("slots");
        slots["slots"].as_array().cloned().unwrap_or_default()
    }

    /// A slot of the first host by index once it has this status.
    ///
    /// # Panics
    /// When it never does.
    pub async fn wait_slot(&self, index: usize, status: &str) -> Value {
        self.wait_slot_on(&self.hosts[0], index, status).await
    }

    /// A slot of a host by index once it has this status.
    ///
    /// # Panics
    /// When it never does.
    pub async fn wait_slot_on(&self, host: &Host, index: usize, status: &str) -> Value {
        until(
            &format!("slot {index} to be {status}"),
            TIMEOUT,
            async || {
                let slots = self.admin.get(&host.path("/resource-slots")).await.ok()?;
                let slot = slots["slots"].get(index)?.clone();
                (slot["status"] == status).then_some(slot)
            },
        )
        .await
    }

    /// Waits until launches may be placed on a host.
    ///
    /// # Panics
    /// When it is cordoned, or never gets ready.
    pub async fn wait_schedulable(&self, host: &Host) {
        until_ok("the host to take launches", TIMEOUT, async || {
            let node = self.admin.get(&host.path("/placement")).await;
            let node = node.map_err(|refusal| refusal.body.to_string())?;
            assert_eq!(node["admin_state"], "enabled", "{node}");
            match node["schedulable"] == true {
                true => Ok(()),
                false => Err(node.to_string()),
            }
        })
        .await;
    }

    /// The host of an allocation.
    ///
    /// # Panics
    /// When it has none.
    pub async fn host_of(&self, allocation: &str) -> &Host {
        let path = format!("/api/v1/admin/allocations/{allocation}");
        let detail = self.admin.get(&path).await.expect("the allocation");
        let node = detail["node_id"].as_str().expect("a node");
        let host = self.hosts.iter().find(|host| host.node_id == node);
        host.expect("one of the hosts")
    }

    /// Starts the repair of a slot.
    ///
    /// # Panics
    /// When it is refused.
    pub async fn repair(&self, slot: &Value) {
        let id = slot["id"].as_str().expect("an id");
        let node = slot["node_id"].as_str().expect("a node");
        let path = format!("/api/v1/admin/nodes/{node}/resource-slots/{id}:repair");
        self.admin
            .post(&path, json!({"reason": "test"}))
            .await
            .unwrap_or_else(|refusal| panic!("repair refused: {}", refusal.body));
    }

    /// Runs a command in a guest, as its owner would with the connection the API shows.
    ///
    /// # Panics
    /// When ssh cannot be started.
    pub fn ssh(&self, allocation: &Value, command: &str) -> Output {
        let access = &allocation["status"]["access"];
        let text = |key: &str| access[key].as_str().unwrap_or_default().to_owned();
        Command::new("ssh")
            .args(["-i", &self.key_file.display().to_string()])
            .args([
                "-o",
                "StrictHostKeyChecking=no",
                "-o",
                "UserKnownHostsFile=/dev/null",
            ])
            .args([
                "-o",
                "LogLevel=ERROR",
                "-o",
                "BatchMode=yes",
                "-o",
                "ConnectTimeout=20",
            ])
            .args(["-p", &access["ssh_host_port"].to_string()])
            .arg(format!("{}@{}", text("guest_user"), text("ssh_host")))
            .arg(command)
            .output()
            .expect("ssh starts")
    }

    /// What a guest answers to a command of its owner.
    ///
    /// # Panics
    /// When it says nothing.
    pub fn said(&self, allocation: &Value, command: &str) -> String {
        let login = self.ssh(allocation, command);
        let said = String::from_utf8_lossy(&login.stdout).trim().to_owned();
        assert!(!said.is_empty(), "{login:?}");
        said
    }

    /// Runs `gpuaas terminal` as a user at a pipe would.
    ///
    /// # Panics
    /// When the program is not built or does not listen.
    pub fn terminal(&self, id: &str, typed: &str) -> Output {
        let mut child = self
            .cli()
            .args(["terminal", id])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program is built");
        let mut stdin = child.stdin.take().expect("a pipe");
        stdin.write_all(typed.as_bytes()).expect("it listens");
        drop(stdin);
        child.wait_with_output().expect("it ends")
    }

    /// The serial log of an allocation's VM, by `gpuaas logs` with these flags.
    ///
    /// # Panics
    /// When it is refused.
    pub fn logs(&self, id: &str, flags: &[&str]) -> String {
        let said = self.cli().args(["logs", id]).args(flags).output();
        let said = said.expect("the program is built");
        assert!(said.status.success(), "{said:?}");
        String::from_utf8_lossy(&said.stdout).into_owned()
    }

    /// The program `gpuaas` as the user.
    pub fn cli(&self) -> Command {
        let mut command = Command::new(self.stack.program("gpuaas"));
        command
            .args(["--api", &self.stack.api_url()])
            .arg("--token-file")
            .arg(Tokens::of(&self.stack.options().root).user);
        command
    }

    /// Index of the slot of the first host that an allocation holds.
    ///
    /// # Panics
    /// When it holds none.
    pub async fn slot_of(&self, allocation: &str) -> usize {
        self.slot_on(&self.hosts[0], allocation).await
    }

    /// Index of the slot of a host that an allocation holds.
    ///
    /// # Panics
    /// When it holds none.
    pub async fn slot_on(&self, host: &Host, allocation: &str) -> usize {
        let slots = self.slots_on(host).await;
        let held = slots.iter().position(|s| s["allocation_id"] == allocation);
        held.expect("a slot is held")
    }

    /// The backing file of the disk of a slot of the first host.
    ///
    /// # Panics
    /// When the lab host has no such disk.
    pub fn disk_file(&self, slot_index: usize) -> PathBuf {
        self.hosts[0].disk_file(slot_index)
    }

    /// A connection to the database that may look at everything.
    ///
    /// # Panics
    /// When the database does not answer.
    pub async fn database(&self) -> PgConnection {
        let postgres = self.stack.postgres().expect("postgres");
        postgres
            .superuser(gpuaas_dev::stack::DATABASE)
            .await
            .expect("database")
    }

    /// Ends what an earlier test left behind, so that one failure does not become many.
    async fn tidy(&self) {
        self.allocation_up(1).await;
        self.allocation(2).stop();
        let _ = std::fs::remove_file(self.kill_file());
        let live = self
            .user
            .get("/api/v1/allocations")
            .await
            .expect("allocations");
        for allocation in live["allocations"].as_array().into_iter().flatten() {
            let id = allocation["id"].as_str().expect("an id");
            if !["released", "failed"]
                .contains(&allocation["status"]["state"].as_str().unwrap_or_default())
            {
                self.user.release(id).await;
            }
        }
        for host in &self.hosts {
            self.admit(host).await;
            for index in 0..usize::from(host.lab.slots()) {
                self.tidy_slot(host, index).await;
            }
        }
    }

    /// Makes a slot available, repaired if that is what it needs.
    async fn tidy_slot(&self, host: &Host, index: usize) {
        let mut repaired = false;
        loop {
            let slot = self.slots_on(host).await[index].clone();
            let now = slot["status"].as_str().expect("a status").to_owned();
            if now == "available" {
                return;
            }
            if ["cleanup_blocked", "disabled"].contains(&now.as_str()) && !repaired {
                self.repair(&slot).await;
                repaired = true;
            }
            let what = format!("slot {index} to leave {now}");
            until(&what, TIMEOUT, async || {
                (self.slots_on(host).await[index]["status"] != now).then_some(())
            })
            .await;
        }
    }

    /// Lets launches be placed on a host that rested.
    async fn admit(&self, host: &Host) {
        let node = self.admin.get(&host.path("/placement")).await;
        if node.expect("the node")["admin_state"] != "enabled" {
            let path = host.path(":uncordon");
            let admitted = self.admin.post(&path, json!({})).await;
            admitted.unwrap_or_else(|refusal| panic!("{}", refusal.body));
        }
        self.wait_schedulable(host).await;
    }

    /// Ends the last host, which is idle, until a test needs several. Nothing is placed on it meanwhile.
    async fn rest_last_host(&mut self) {
        let host = self.hosts.pop().expect("a host");
        let path = host.path(":cordon");
        let cordoned = self.admin.post(&path, json!({"reason": "it rests"})).await;
        cordoned.unwrap_or_else(|refusal| panic!("{}", refusal.body));
        host.lab.down();
    }
}

/// How many hosts an earlier test has left running.
fn running_hosts(options: &Options) -> u16 {
    let stack = Stack::new(options.clone()).expect("stack");
    let runs = |number: &u16| stack.lab_numbered(*number).part().running().is_some();
    let last = (0..stack.lab_hosts()).rev().find(runs);
    last.map_or(0, |last| last + 1)
}

/// The started lab hosts, each with its node.
async fn hosts_of(stack: &Stack, admin: &Api) -> Vec<Host> {
    let nodes = admin.get("/api/v1/admin/nodes").await.expect("nodes");
    let nodes = nodes["nodes"].as_array().expect("nodes");
    let with_node = |lab: Lab| {
        let node = nodes
            .iter()
            .find(|node| node["config"]["hostname"] == lab.hostname().as_str());
        let node_id = node.expect("a node")["id"].as_str().expect("an id");
        let node_id = node_id.to_owned();
        Host { lab, node_id }
    };
    stack.labs().into_iter().map(with_node).collect()
}
