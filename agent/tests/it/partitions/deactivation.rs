//! D-82: a partition without an owner is deactivated at an operator's word, and one that is claimed never is.
use gpuaas_agent::gpu_fabric::reconcile;
use gpuaas_agent::gpu_fabric::steps::deactivate_unowned;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;

use super::World;
use crate::world::allocation;

impl World {
    async fn refusal(&self, id: u32) -> (ErrorReason, String) {
        let active = self.board.active();
        let refused = deactivate_unowned(&self.node, id).await;
        let error = refused.expect_err("it is claimed");
        assert_eq!(self.board.active(), active, "{error}");
        (error.reason, error.message)
    }
}

#[tokio::test]
async fn d_82_a_partition_of_nobody_is_deactivated_and_no_other() {
    let world = World::new();
    let vm = allocation();
    world.up(vm, &[1, 3]).await;
    world.run(vm).await;
    // somebody activates one by hand
    world.board.set("active", "3\n6\n");
    reconcile(&world.node).await.expect("reconciled");
    let fabric = world.node.gpu_fabric.as_ref().expect("a board");
    assert_eq!(fabric.differences().len(), 1);

    assert!(deactivate_unowned(&world.node, 6).await.expect("done"));
    assert_eq!(world.board.active(), [3].into());
    assert!(fabric.differences().is_empty(), "it looked again");
    // the same once more, and one that never was
    for id in [6, 5, 63] {
        let again = deactivate_unowned(&world.node, id).await;
        assert!(!again.expect("nothing to do"), "{id}");
    }

    let (reason, why) = world.refusal(3).await;
    assert_eq!(reason, ErrorReason::LeaseHeld, "{why}");
    assert!(why.contains(&vm.to_string()), "{why}");
    assert_eq!(world.owned(), [(3, vm)]);
    world.end(vm).await;
}

/// After an update, Fabric Manager may call the partitions by other numbers.
#[tokio::test]
async fn d_82_a_partition_with_a_gpu_of_somebody_is_left_whatever_its_number_is() {
    let world = World::new();
    let vm = allocation();
    world.up(vm, &[1, 3]).await;
    world.run(vm).await;
    world.board.set("swaps", "");
    // 3 is now GPUs 2 and 4, and 4 is GPUs 1 and 3
    world.board.set("active", "3\n4\n");
    for id in [3, 4] {
        let (reason, why) = world.refusal(id).await;
        assert_eq!(reason, ErrorReason::LeaseHeld, "{why}");
    }
    world.end(vm).await;
}

/// The journal was lost, or somebody started a VM by hand: which GPUs it has connected nobody knows.
#[tokio::test]
async fn d_82_no_partition_is_deactivated_while_a_vm_that_nobody_knows_runs_with_gpus() {
    let world = World::with_a_gpu();
    world.board.set("active", "6\n");
    let vm = allocation();
    world.run_with_gpu(vm).await;
    let (reason, why) = world.refusal(6).await;
    assert_eq!(reason, ErrorReason::OperationConflict, "{why}");
    assert!(why.contains(vm.vm_name().as_str()), "{why}");
    world.end(vm).await;
    assert!(deactivate_unowned(&world.node, 6).await.expect("done"));
    assert!(world.board.active().is_empty());
}

#[tokio::test]
async fn d_82_a_deactivation_is_done_when_the_table_says_so() {
    let world = World::new();
    world.board.set("active", "6\n");
    world.board.set("lies", "");
    let (reason, why) = world.refusal(6).await;
    assert_eq!(reason, ErrorReason::GpuPartitionUnavailable, "{why}");
    assert!(why.contains("still active"), "{why}");
}
