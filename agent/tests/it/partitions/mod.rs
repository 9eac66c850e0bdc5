//! NVSwitch partitions on a journal file and libvirt's test driver, with the Fabric Manager that `deploy/lab/fmpm.sh`
//! plays.
mod deactivation;
mod differences;
mod fabric_manager;
mod operations;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use gpuaas_agent::gpu_fabric::steps::{Did, activate, deactivate};
use gpuaas_agent::host::root::HostRoot;
use gpuaas_agent::ids::{AllocationId, OperationId};
use gpuaas_agent::journal::{Kind, NewOperation};
use gpuaas_agent::node::Node;
use gpuaas_proto::gpuaas::agent::v1 as pb;
use gpuaas_proto::gpuaas::common::v1::SlotBindings;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use serde_json::json;
use uuid::Uuid;

use crate::world::{self, LONG};

/// An HGX H200 behind a Fabric Manager.
pub struct Board(tempfile::TempDir);

impl Board {
    pub fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    fn program() -> PathBuf {
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../deploy/lab/fmpm.sh")
    }

    /// What `fmpm` answers.
    pub fn answer(&self, arguments: &[&str]) -> String {
        let output = Command::new(Self::program())
            .arg("--unix-domain-socket")
            .arg(self.0.path())
            .args(arguments)
            .output()
            .expect("a program");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("text")
    }

    pub fn set(&self, file: &str, text: &str) {
        std::fs::write(self.0.path().join(file), text).expect("a file");
    }

    fn remove(&self, file: &str) {
        std::fs::remove_file(self.0.path().join(file)).expect("a file");
    }

    fn get(&self, file: &str) -> String {
        std::fs::read_to_string(self.0.path().join(file)).unwrap_or_default()
    }

    pub fn active(&self) -> BTreeSet<u32> {
        let active = self.get("active");
        active
            .lines()
            .map(|id| id.parse().expect("a number"))
            .collect()
    }

    /// Fabric Manager ends and is started again with `--restart`, at this second.
    fn restart(&self, now: u32) {
        self.set("now", &now.to_string());
        self.answer(&["--simulate", "restart"]);
    }
}

/// A host with the board, whose domains are gone when it is.
pub struct World {
    pub board: Board,
    pub node: Arc<Node>,
    _folder: tempfile::TempDir,
}

impl World {
    pub fn new() -> Self {
        let (board, folder) = (Board::new(), tempfile::tempdir().expect("a folder"));
        let mut settings = world::settings(folder.path());
        settings["gpu_fabric"] = json!({
            "manager": "fabric_manager", "program": Board::program(), "address": board.0.path(),
        });
        Self {
            board,
            node: world::node(settings),
            _folder: folder,
        }
    }

    /// A host whose sysfs has one GPU.
    pub fn with_a_gpu() -> Self {
        let mut world = Self::new();
        let root = world._folder.path().join("root");
        let gpu = root.join("sys/bus/pci/devices/0000:1b:00.0");
        std::fs::create_dir_all(&gpu).expect("a folder");
        for (file, text) in [("vendor", "0x10de\n"), ("class", "0x030200\n")] {
            std::fs::write(gpu.join(file), text).expect("a file");
        }
        let node = Arc::get_mut(&mut world.node).expect("nobody else has it");
        node.root = HostRoot::new(root);
        world
    }

    pub async fn up(&self, allocation: AllocationId, modules: &[u32]) -> Did {
        let done = self.try_up(allocation, modules).await;
        done.expect("activated")
    }

    async fn try_up(
        &self,
        allocation: AllocationId,
        modules: &[u32],
    ) -> gpuaas_agent::error::HostResult<Did> {
        let modules = modules.iter().copied().collect();
        activate(&self.node, allocation, &modules, LONG).await
    }

    /// Why nothing is activated.
    async fn refused(&self, allocation: AllocationId, modules: &[u32]) -> String {
        let error = self.try_up(allocation, modules).await.expect_err("refused");
        assert_eq!(error.reason, ErrorReason::GpuPartitionUnavailable);
        error.message
    }

    async fn down(&self, allocation: AllocationId, modules: &[u32]) -> Did {
        let modules = modules.iter().copied().collect();
        let done = deactivate(&self.node, allocation, &modules, LONG).await;
        done.expect("deactivated")
    }

    /// The VM of an allocation runs.
    pub async fn run(&self, allocation: AllocationId) {
        world::run_vm(&self.node, allocation, "").await;
    }

    pub async fn run_with_gpu(&self, allocation: AllocationId) {
        let gpu = "<devices><hostdev mode='subsystem' type='pci' managed='no'><source>\
            <address domain='0' bus='0x1b' slot='0' function='0'/></source></hostdev></devices>";
        world::run_vm(&self.node, allocation, gpu).await;
    }

    pub async fn end(&self, allocation: AllocationId) {
        let name = allocation.vm_name();
        self.node
            .hypervisor
            .destroy(name.as_str())
            .await
            .expect("libvirt");
    }

    pub fn owned(&self) -> Vec<(u32, AllocationId)> {
        let rows = self.node.journal.partitions().expect("a journal");
        rows.into_iter()
            .map(|row| (row.id, row.allocation))
            .collect()
    }

    fn operation(&self, kind: Kind, allocation: AllocationId, modules: &[u32]) -> NewOperation {
        let slot = |module: &u32| pb::SlotGrant {
            slot_id: Uuid::now_v7().to_string(),
            bindings: Some(SlotBindings {
                gpu_module_id: Some(*module),
                ..SlotBindings::default()
            }),
            ..pb::SlotGrant::default()
        };
        let slots = modules.iter().map(slot).collect();
        world::operation(&self.node, kind, allocation, slots)
    }

    /// Journals an operation that nobody drives.
    fn begin(&self, kind: Kind, allocation: AllocationId, modules: &[u32]) -> OperationId {
        let new = self.operation(kind, allocation, modules);
        let begun = self.node.journal.start_operation(&new);
        assert!(begun.expect("a journal"));
        new.id
    }

    /// Drives an operation to its end.
    async fn driven(&self, new: NewOperation) -> gpuaas_agent::journal::OperationRow {
        world::driven(&self.node, new).await
    }

    /// Runs one step of an operation alone.
    async fn step(
        &self,
        new: NewOperation,
        step: &str,
    ) -> gpuaas_agent::error::HostResult<gpuaas_agent::operation::Done> {
        self.node.journal.start_operation(&new)?;
        world::step(&self.node, new.id, step).await
    }
}
