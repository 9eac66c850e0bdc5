//! Partitions in operations on VMs.
use std::time::Duration;

use gpuaas_agent::gpu_fabric::reconcile;
use gpuaas_agent::gpu_fabric::steps::deactivate;
use gpuaas_agent::host::clock::BootMoment;
use gpuaas_agent::journal::{Kind, State, StepStatus};
use gpuaas_agent::vm::PowerState;
use gpuaas_proto::gpuaas::agent::v1 as pb;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;

use super::World;
use crate::world::{LONG, allocation};

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
