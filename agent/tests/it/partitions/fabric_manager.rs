//! What Fabric Manager is told, and what it answers.
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use gpuaas_agent::gpu_fabric::reconcile;
use gpuaas_agent::gpu_fabric::steps::activate;
use gpuaas_agent::journal::Kind;
use gpuaas_dev::until::until;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;

use super::World;
use crate::world::{LONG, allocation};

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
