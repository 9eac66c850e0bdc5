//! NVSwitch partitions on a journal file and libvirt's test driver, with the Fabric Manager that `deploy/lab/fmpm.sh`
//! plays.
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use gpuaas_agent::gpu_fabric::reconcile;
use gpuaas_agent::gpu_fabric::steps::{Did, activate, deactivate};
use gpuaas_agent::host::clock::BootMoment;
use gpuaas_agent::host::root::HostRoot;
use gpuaas_agent::ids::{AllocationId, OperationId};
use gpuaas_agent::journal::{Kind, NewOperation, State, StepStatus};
use gpuaas_agent::node::Node;
use gpuaas_agent::vm::PowerState;
use gpuaas_dev::until::until;
use gpuaas_proto::gpuaas::agent::v1 as pb;
use gpuaas_proto::gpuaas::common::v1::SlotBindings;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use serde_json::json;
use uuid::Uuid;

use crate::world::{self, LONG, allocation};

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

#[tokio::test]
async fn d_96_a_vm_gets_the_partition_of_exactly_its_gpus_and_gives_it_back() {
    let world = World::new();
    let (pair, one) = (allocation(), allocation());
    for vm in [pair, one] {
        world.begin(Kind::Start, vm, &[]);
    }
    assert!(!world.up(pair, &[3, 1]).await.nothing);
    assert!(
        !world.up(one, &[2]).await.nothing,
        "one GPU has a partition too"
    );
    assert_eq!(world.board.active(), [3, 8].into());
    // the agent was killed after it, and does it again: whether it came that far is not known
    assert!(!world.up(pair, &[1, 3]).await.nothing);
    assert_eq!(world.owned(), [(3, pair), (8, one)]);

    assert!(!world.down(pair, &[1, 3]).await.nothing);
    assert!(world.down(pair, &[1, 3]).await.nothing);
    assert_eq!(world.board.active(), [8].into());
    assert_eq!(world.owned(), [(8, one)]);
}

#[tokio::test]
async fn d_96_gpus_that_cannot_be_connected_are_refused_and_leave_nothing() {
    let world = World::new();
    let (first, second) = (allocation(), allocation());
    let reported = world.refused(first, &[1, 2]).await;
    assert!(
        reported.contains("no partition of exactly the GPUs 1, 2"),
        "{reported}"
    );

    world.up(first, &[1, 3]).await;
    world.run(first).await;
    let reported = world.refused(second, &[1, 2, 3, 4]).await;
    assert!(
        reported.contains("partition 3, which is active"),
        "{reported}"
    );
    let reported = world.refused(second, &[1, 3]).await;
    assert!(reported.contains(&first.to_string()), "{reported}");

    world.board.set("active", "3\n6\n");
    let reported = world.refused(second, &[6, 8]).await;
    assert!(
        reported.contains("not for an allocation of this host"),
        "{reported}"
    );

    // an H200 offers the partition of a sick GPU, and does not activate it
    world.board.set("sick", "5\n");
    let reported = world.refused(second, &[5, 7]).await;
    assert!(
        reported.contains("cannot be activated") && reported.contains("fmReturn: -2"),
        "{reported}"
    );
    assert!(world.down(second, &[5, 7]).await.nothing);
    world.board.set("omits", "");
    let reported = world.refused(second, &[5, 7]).await;
    assert!(reported.contains("one of them is sick"), "{reported}");
    assert_eq!(world.owned(), [(3, first)]);
    assert_eq!(world.board.active(), [3, 6].into());
    world.end(first).await;
}

#[tokio::test]
async fn d_96_no_partition_is_deactivated_under_a_vm_that_runs() {
    let world = World::new();
    let vm = allocation();
    world.up(vm, &[4]).await;
    world.run(vm).await;
    let error = deactivate(&world.node, vm, &[4].into(), LONG).await;
    assert_eq!(
        error.expect_err("refused").reason,
        ErrorReason::HypervisorFailed
    );
    reconcile(&world.node).await.expect("reconciled");
    assert_eq!(world.board.active(), [10].into());
    // the guest shut itself down: the agent sees it, and frees the GPU
    world.end(vm).await;
    reconcile(&world.node).await.expect("reconciled");
    assert!(world.board.active().is_empty() && world.owned().is_empty());
}

/// The 60 seconds that it waits, and the list that it must get.
#[tokio::test]
async fn d_10_fabric_manager_is_told_after_its_restart_what_is_active() {
    let world = World::new();
    let (pair, one, off) = (allocation(), allocation(), allocation());
    for (vm, modules) in [(pair, &[1, 3][..]), (one, &[2]), (off, &[8])] {
        world.up(vm, modules).await;
        world.run(vm).await;
    }
    world.end(off).await;
    let running = [3, 8].into();
    world.board.restart(100);
    world.board.set("now", "160");
    reconcile(&world.node).await.expect("told in time");
    assert!(
        world
            .board
            .get("calls")
            .ends_with("--set-activated-list 3,8,14\n-d 14\n")
    );
    assert_eq!(world.board.active(), running);

    // nobody told it in time: it has exited, and whoever starts it again finds the agent
    world.board.restart(200);
    world.board.set("now", "261");
    let error = reconcile(&world.node).await.expect_err("it is gone");
    assert_eq!(error.reason, ErrorReason::GpuPartitionUnavailable);
    assert!(error.message.contains("does not answer"), "{error}");
    world.board.restart(300);
    reconcile(&world.node).await.expect("told");
    assert_eq!(world.board.active(), running);

    // started anew, it knows of no VM
    world.board.answer(&["--simulate", "start"]);
    reconcile(&world.node).await.expect("activated");
    assert_eq!(world.board.active(), running);
    for vm in [pair, one] {
        world.end(vm).await;
    }
}

/// Without a VM the call has no partition, and is made all the same.
#[tokio::test]
async fn d_10_fabric_manager_is_told_that_nothing_is_active() {
    let world = World::new();
    world.board.restart(100);
    reconcile(&world.node).await.expect("told");
    assert_eq!(world.board.get("calls"), "--set-activated-list \n");
    assert!(!world.up(allocation(), &[1]).await.nothing);
}

#[tokio::test]
async fn d_96_a_launch_waits_for_a_fabric_manager_that_starts() {
    let world = Arc::new(World::new());
    world.board.set("state", "starting\n");
    let vm = allocation();
    let modules: BTreeSet<u32> = [2, 4].into();
    let error = activate(&world.node, vm, &modules, Duration::ZERO).await;
    let error = error.expect_err("it starts");
    assert_eq!(error.reason, ErrorReason::GpuPartitionUnavailable);
    let waiting = tokio::spawn({
        let world = Arc::clone(&world);
        async move { world.up(vm, &[2, 4]).await }
    });
    // it has asked by now, and was told that it is too early
    until("the third call of Fabric Manager", LONG, async || {
        (world.board.get("calls").lines().count() >= 3).then_some(())
    })
    .await;
    assert!(!waiting.is_finished());
    world.board.set("state", "running\n");
    assert!(!waiting.await.expect("no panic").nothing);
    assert_eq!(world.board.active(), [4].into());
}

/// What an operation has in hand is left to it.
#[tokio::test]
async fn d_10_the_partition_of_an_operation_that_runs_stays() {
    let world = World::new();
    let vm = allocation();
    world.up(vm, &[1]).await;
    let begun = world.begin(Kind::Start, vm, &[1]);
    reconcile(&world.node).await.expect("reconciled");
    assert_eq!(world.board.active(), [7].into());
    let result = pb::HostOperation::default();
    world
        .node
        .journal
        .succeed(begun, &result, 1, &[])
        .expect("a journal");
    reconcile(&world.node).await.expect("reconciled");
    assert!(world.board.active().is_empty());
}

#[tokio::test]
async fn d_64_a_clean_up_stops_the_vm_then_separates_its_gpus() {
    let world = World::new();
    let vm = allocation();
    world.up(vm, &[5, 7]).await;
    world.run(vm).await;
    let row = world
        .driven(world.operation(Kind::CleanUp, vm, &[5, 7]))
        .await;
    assert_eq!(row.state, State::Succeeded, "{:?}", row.failure);
    let steps: Vec<_> = row
        .steps
        .iter()
        .map(|step| (step.name.as_str(), step.status))
        .collect();
    assert_eq!(steps[1], ("deactivate_partition", StepStatus::Done));
    assert!(world.board.active().is_empty() && world.owned().is_empty());
    let state = world.node.hypervisor.state(vm.vm_name().as_str()).await;
    assert_eq!(state.expect("libvirt"), None);
}

/// Fabric Manager says "active" of what it was told: nobody connected the GPUs since the host was restarted.
#[tokio::test]
async fn d_10_a_partition_that_was_only_told_is_activated_before_its_vm_starts() {
    let world = World::new();
    let vm = allocation();
    world.up(vm, &[1, 3]).await;
    world.begin(Kind::Start, vm, &[1, 3]);
    world.board.restart(100);
    assert!(!world.up(vm, &[1, 3]).await.nothing);
    assert!(
        world
            .board
            .get("calls")
            .ends_with("--set-activated-list 3\n-d 3\n-a 3\n")
    );
    world.run(vm).await;
    assert!(world.up(vm, &[1, 3]).await.nothing, "its VM has it");
    world.end(vm).await;
}

/// What is not in the list is separated: a list of half of the VMs is worse than none.
#[tokio::test]
async fn d_10_fabric_manager_is_not_told_a_list_without_a_vm_that_runs() {
    let (world, vm, stranger) = (World::with_a_gpu(), allocation(), allocation());
    world.up(vm, &[2]).await;
    world.run(vm).await;
    world.run_with_gpu(stranger).await;
    world.board.restart(100);
    let before = world.board.get("calls");
    let error = reconcile(&world.node).await.expect_err("refused");
    assert_eq!(error.reason, ErrorReason::GpuPartitionUnavailable);
    assert!(
        error.message.contains(stranger.vm_name().as_str()),
        "{error}"
    );
    assert_eq!(world.board.get("calls"), before);
    world.end(stranger).await;
    reconcile(&world.node).await.expect("told");
    assert_eq!(world.board.active(), [8].into());
    world.end(vm).await;
}

#[tokio::test]
async fn d_64_a_repair_and_a_clean_up_leave_the_partition_of_a_vm_they_do_not_know() {
    let (world, stranger) = (World::with_a_gpu(), allocation());
    world.run_with_gpu(stranger).await;
    world.board.set("active", "10\n");
    assert!(world.down(allocation(), &[4]).await.nothing);
    assert_eq!(world.board.active(), [10].into());
    world.end(stranger).await;
    // of a repair no GPU counts, whoever has it
    let repair = world.operation(Kind::RepairSlot, allocation(), &[4]);
    assert!(world.step(repair, "deactivate_partition").await.is_ok());
    assert_eq!(world.board.active(), [10].into());
    assert!(!world.down(allocation(), &[4]).await.nothing);
    assert!(world.board.active().is_empty());
}

#[tokio::test]
async fn d_10_a_reboot_without_fabric_manager_leaves_the_vm_running() {
    let world = World::new();
    let vm = allocation();
    world.up(vm, &[5, 7]).await;
    world.run(vm).await;
    world.board.set("state", "down\n");
    let mut new = world.operation(Kind::Reboot, vm, &[5, 7]);
    new.deadline = BootMoment::plus(&world.node.clock.now(), Duration::from_secs(6));
    let row = world.driven(new).await;
    let failure = row.failure.expect("failed");
    assert_eq!(failure.step, "find_partition");
    assert!(
        failure.message.contains("does not answer"),
        "{}",
        failure.message
    );
    let state = world.node.hypervisor.state(vm.vm_name().as_str()).await;
    assert_eq!(state.expect("libvirt"), Some(PowerState::Running));

    let row = world.driven(world.operation(Kind::Stop, vm, &[5, 7])).await;
    assert_eq!(row.state, State::Succeeded, "{:?}", row.failure);
    assert_eq!(row.steps[1].status, StepStatus::Skipped);
    world.board.set("state", "running\n");
    reconcile(&world.node).await.expect("reconciled");
    assert!(world.board.active().is_empty() && world.owned().is_empty());
}

#[tokio::test]
async fn d_10_an_answer_of_success_is_believed_when_the_table_says_the_same() {
    let world = World::new();
    let vm = allocation();
    world.up(vm, &[6]).await;
    world.board.set("lies", "");
    reconcile(&world.node).await.expect("reconciled");
    assert_eq!(world.owned(), [(12, vm)], "it is active still");
    world.board.remove("lies");
    reconcile(&world.node).await.expect("reconciled");
    assert!(world.board.active().is_empty() && world.owned().is_empty());
}

/// After an update, Fabric Manager may call the partitions by other numbers.
#[tokio::test]
async fn d_10_a_table_with_other_numbers_is_noticed() {
    let world = World::new();
    let (vm, off) = (allocation(), allocation());
    for (vm, modules) in [(vm, [1, 3]), (off, [6, 8])] {
        world.up(vm, &modules).await;
        world.run(vm).await;
    }
    world.end(off).await;
    world.board.set("swaps", "");
    // 3 is now GPUs 2 and 4, and 4 is GPUs 1 and 3
    world.board.set("active", "3\n6\n");
    let calls = world.board.get("calls");
    reconcile(&world.node).await.expect("reconciled");
    assert_eq!(world.board.get("calls"), format!("{calls}-d 6\n"));
    assert_eq!(
        world.board.active(),
        [3].into(),
        "nothing is done under a VM"
    );
    assert_eq!(world.owned(), [(3, vm)]);
    let reported = world.refused(allocation(), &[1, 3]).await;
    assert!(reported.contains(&vm.to_string()), "{reported}");
    world.end(vm).await;
    reconcile(&world.node).await.expect("reconciled");
    assert!(world.owned().is_empty());
}

/// What the comparison with the ledger shows of partitions.
#[tokio::test]
async fn d_80_d_82_a_partition_that_is_not_as_the_journal_has_it_is_told_until_it_is() {
    let world = World::new();
    let fabric = world.node.gpu_fabric.as_ref().expect("a board");
    let found = || {
        let told = fabric.differences().into_iter();
        told.map(|one| (one.kind.as_str(), one.id, one.allocation))
            .collect::<Vec<_>>()
    };
    let vm = allocation();
    world.up(vm, &[1, 3]).await;
    world.run(vm).await;
    reconcile(&world.node).await.expect("reconciled");
    assert!(found().is_empty());

    // somebody activates one by hand
    world.board.set("active", "3\n6\n");
    reconcile(&world.node).await.expect("reconciled");
    assert_eq!(found(), [("partition_unowned", 6, None)]);
    let first = fabric.differences()[0].clone();
    assert!(first.message.contains("GPUs 6, 8 is active"), "{first:?}");
    reconcile(&world.node).await.expect("reconciled");
    assert_eq!(fabric.differences(), [first], "since it was found");

    // it forgot the VM's, and cannot activate it
    world.board.set("active", "");
    world.board.set("sick", "1\n");
    reconcile(&world.node).await.expect("reconciled");
    assert_eq!(found(), [("partition_unmatched", 3, Some(vm))]);

    // it does not answer
    world.board.restart(100);
    world.board.set("now", "161");
    reconcile(&world.node).await.expect_err("it is gone");
    assert_eq!(found(), [("partition_unknown", 3, Some(vm))]);
    world.board.remove("sick");
    world.board.answer(&["--simulate", "start"]);
    reconcile(&world.node).await.expect("activated");
    assert!(found().is_empty());
    world.end(vm).await;
}

#[tokio::test]
async fn d_80_a_look_that_fails_once_fabric_manager_has_answered_leaves_what_was_found() {
    let world = World::new();
    let fabric = world.node.gpu_fabric.as_ref().expect("a board");
    let vm = allocation();
    world.up(vm, &[1, 3]).await;
    world.run(vm).await;
    world.board.set("active", "3\n6\n");
    reconcile(&world.node).await.expect("reconciled");
    let found = fabric.differences();
    assert_eq!(found.len(), 1, "{found:?}");
    let journal = world._folder.path().join("journal.sqlite");
    let journal = rusqlite::Connection::open(journal).expect("a journal");
    let rename = |from: &str, to: &str| {
        let sql = format!("ALTER TABLE {from} RENAME TO {to}");
        journal.execute_batch(&sql).expect("renamed");
    };
    rename("operations", "away");
    reconcile(&world.node)
        .await
        .expect_err("which operations run is not known");
    assert_eq!(fabric.differences(), found);
    rename("away", "operations");
    world.end(vm).await;
}
