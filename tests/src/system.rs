//! The running system of the tests: started as `make up` starts one, beside it, with a kill point where a file says.
use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use gpuaas_dev::part::Part;
use gpuaas_dev::ports::Instance;
use gpuaas_dev::seed::{self, Tokens};
use gpuaas_dev::stack::{Kind, Options, Stack};
use gpuaas_dev::{paths, process};
use serde_json::{Value, json};
use sqlx::PgConnection;

use crate::api::Api;
use crate::invariants;
use crate::until::until;

/// Number of the tests' stack, unless `GPUAAS_TEST_INSTANCE` gives another: two checkouts on one machine need two.
const INSTANCE: u16 = 60;

/// Below the folder of the stack: where a kill of the allocation service is ordered.
const KILL_FILE: &str = "kill-allocation";

fn instance() -> u16 {
    std::env::var("GPUAAS_TEST_INSTANCE").map_or(INSTANCE, |number| {
        number.parse().expect("GPUAAS_TEST_INSTANCE is a number")
    })
}
/// Time for one launch or release on a busy machine.
pub const TIMEOUT: Duration = Duration::from_secs(150);

/// The running system, held by one test at a time.
pub struct System {
    /// Its parts.
    pub stack: Stack,
    /// A member of the project.
    pub user: Api,
    /// A platform administrator.
    pub admin: Api,
    /// The lab host's node.
    pub node_id: String,
    /// Private key that the tests log in with.
    pub key_file: PathBuf,
    /// Its public half.
    pub public_key: String,
    _alone: File,
}

/// Folder of the tests' stack.
pub fn root() -> PathBuf {
    paths::run_dir().join("test/stack")
}

impl System {
    /// The system, up, seeded, idle: no allocation, both slots available.
    ///
    /// # Panics
    /// When it does not come up; the message holds the log's end.
    pub async fn get() -> Self {
        let root = root();
        paths::ensure_dir(&root).expect("folder");
        let alone = File::create(root.join("test.lock")).expect("lock file");
        // two programs, or two tests of one
        alone.lock().expect("lock");
        let mut options =
            Options::beside(root.clone(), Instance::new(instance()).expect("a number"));
        options.otlp_endpoint = Self::otlp_endpoint();
        let file = options.root.join(KILL_FILE).display().to_string();
        let environment = vec![("GPUAAS_KILL_FILE".into(), file)];
        options.environment.insert("allocation".into(), environment);
        // work of a killed replica rests so long
        let lease = vec!["allocation.lease_seconds=5".into()];
        options.settings.insert("allocation".into(), lease);
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
        let nodes = admin.get("/api/v1/admin/nodes").await.expect("nodes");
        let node_id = nodes["nodes"][0]["id"].as_str().expect("a node").to_owned();
        let system = Self {
            stack,
            user,
            admin,
            node_id,
            key_file,
            public_key: public_key.trim().to_owned(),
            _alone: alone,
        };
        system.tidy().await;
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

    /// Slots as the admin API shows them.
    ///
    /// # Panics
    /// When the API refuses.
    pub async fn slots(&self) -> Vec<Value> {
        let path = format!("/api/v1/admin/nodes/{}/resource-slots", self.node_id);
        let slots = self.admin.get(&path).await.expect("slots");
        slots["slots"].as_array().cloned().unwrap_or_default()
    }

    /// A slot by index once it has this status.
    ///
    /// # Panics
    /// When it never does.
    pub async fn wait_slot(&self, index: usize, status: &str) -> Value {
        until(
            &format!("slot {index} to be {status}"),
            TIMEOUT,
            async || {
                let path = format!("/api/v1/admin/nodes/{}/resource-slots", self.node_id);
                let slots = self.admin.get(&path).await.ok()?;
                let slot = slots["slots"].get(index)?.clone();
                (slot["status"] == status).then_some(slot)
            },
        )
        .await
    }

    /// Starts the repair of a slot.
    ///
    /// # Panics
    /// When it is refused.
    pub async fn repair(&self, slot: &Value) {
        let id = slot["id"].as_str().expect("an id");
        let path = format!(
            "/api/v1/admin/nodes/{}/resource-slots/{id}:repair",
            self.node_id
        );
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
        let mut child = Command::new(self.stack.program("gpuaas"))
            .args(["--api", &self.stack.api_url()])
            .arg("--token-file")
            .arg(Tokens::of(&root()).user)
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

    /// Index of the slot that an allocation holds.
    ///
    /// # Panics
    /// When it holds none.
    pub async fn slot_of(&self, allocation: &str) -> usize {
        let slots = self.slots().await;
        let held = slots.iter().position(|s| s["allocation_id"] == allocation);
        held.expect("a slot is held")
    }

    /// The backing file of a slot's disk.
    ///
    /// # Panics
    /// When the lab host has no such disk.
    pub fn disk_file(&self, slot_index: usize) -> PathBuf {
        let disks = self.stack.lab().and_then(|lab| lab.disks()).expect("disks");
        disks[slot_index].file.clone()
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

    /// After a test: ledger, host and hypervisor agree, and nothing is left over.
    ///
    /// # Panics
    /// Naming what is left.
    pub async fn assert_nothing_left(&self) {
        for index in 0..2 {
            self.wait_slot(index, "available").await;
        }
        invariants::check(self).await;
        let leftovers = invariants::leftovers(self).await;
        assert!(leftovers.is_empty(), "left over: {leftovers:#?}");
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
        let mut repaired = std::collections::BTreeSet::new();
        for index in 0..2 {
            loop {
                let slot = self.slots().await[index].clone();
                if slot["status"] == "available" {
                    break;
                }
                if slot["status"] == "cleanup_blocked" && repaired.insert(index) {
                    self.repair(&slot).await;
                }
                let now = slot["status"].clone();
                until(
                    &format!("slot {index} to leave {now}"),
                    TIMEOUT,
                    async || (self.slots().await[index]["status"] != now).then_some(()),
                )
                .await;
            }
        }
    }
}
