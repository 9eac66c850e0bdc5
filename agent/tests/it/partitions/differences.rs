//! What the comparison with the ledger shows of partitions.
use gpuaas_agent::gpu_fabric::reconcile;

use super::World;
use crate::world::allocation;

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
