//! An absence of inventory is not one of the hosts.
use gpuaas_proto::gpuaas::inventory::v1::NodeState;

use crate::host::Host;
use crate::world::{World, until};

#[tokio::test]
async fn a_host_is_not_lost_because_inventory_was_away() {
    let mut world = World::start_with(|config| config.heartbeat_timeout_seconds = 5).await;
    let node = world.create_node("n1").await;
    let host = Host::enrol(&world, &node.id).await;
    until("ready", || async {
        host.send_heartbeat().await;
        world.ledger.schedulable(&node.id).await
    })
    .await;
    world.stop().await;
    // nobody listened for an hour
    let owner = world.owner().await;
    for sql in [
        "UPDATE inventory.nodes SET last_heartbeat_time = last_heartbeat_time - interval '1 hour'",
        "UPDATE inventory.host_beats SET beat_time = beat_time - interval '1 hour', observed_time = observed_time - interval '1 hour'",
        "UPDATE inventory.node_evidence SET observed_time = observed_time - interval '1 hour'",
    ] {
        sqlx::query(sql).execute(&owner).await.expect("an hour ago");
    }
    world.start_again();
    // the first sweep has been: what the host proved is too old, and that is all that is known
    until("swept", || async {
        !world.ledger.schedulable(&node.id).await
    })
    .await;
    let status = world.status(&node.id).await;
    assert_eq!(status.state(), NodeState::Enrolled);
    assert_eq!(status.blockers, ["evidence_stale"]);
    assert!(!world.ledger.node(&node.id).await.expect("node").lost);
    until("ready again", || async {
        host.send_heartbeat().await;
        world.ledger.schedulable(&node.id).await
    })
    .await;
    // silence that it did listen to is judged
    until("lost", || async {
        world.status(&node.id).await.state() == NodeState::Lost
    })
    .await;
    until("the ledger knows", || async {
        world
            .ledger
            .node(&node.id)
            .await
            .is_some_and(|reported| reported.lost)
    })
    .await;
}
