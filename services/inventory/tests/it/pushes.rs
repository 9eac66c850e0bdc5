//! Nodes are handed to the ledger beside each other.
use gpuaas_proto::gpuaas::common::v1::EvidenceStatus;
use sqlx::{AssertSqlSafe, PgPool};

use crate::host::{Host, good};
use crate::world::{World, until};

/// Whether a statement about the push of a node holds.
async fn push(owner: &PgPool, node_id: &str, holds: &str) -> bool {
    let sql = format!(
        "SELECT {holds} FROM inventory.ledger_sync WHERE kind = 'node' AND key = '{node_id}'"
    );
    sqlx::query_scalar(AssertSqlSafe(sql))
        .fetch_one(owner)
        .await
        .expect("one push")
}

#[tokio::test]
async fn a_push_that_hangs_holds_up_no_other_node() {
    let world = World::start().await;
    let (held, free) = (world.create_node("n1").await, world.create_node("n2").await);
    let hosts = [
        Host::enrol(&world, &held.id).await,
        Host::enrol(&world, &free.id).await,
    ];
    let owner = world.owner().await;
    for host in &hosts {
        host.send_heartbeat().await;
        until("the ledger has it", || async {
            world.ledger.schedulable(host.node_id()).await
                && push(&owner, host.node_id(), "lease_until IS NULL").await
        })
        .await;
    }
    let mut tx = owner.begin().await.expect("begin");
    sqlx::query("SELECT FROM placement.nodes WHERE id = $1::uuid FOR UPDATE")
        .bind(&held.id)
        .execute(&mut *tx)
        .await
        .expect("locked");
    let mut broken = good();
    broken.evidence[0].set_status(EvidenceStatus::Fail);
    let under_way = "coalesce(lease_until > clock_timestamp(), false) AND attempts = 1";
    hosts[0].heartbeat(broken.clone()).await.expect("taken");
    until("its push is under way", || {
        push(&owner, &held.id, under_way)
    })
    .await;
    hosts[1].heartbeat(broken).await.expect("taken");
    until("the other node is out of service", || async {
        !world.ledger.schedulable(&free.id).await
    })
    .await;
    assert!(
        push(&owner, &held.id, under_way).await,
        "while the first push still hangs"
    );
    tx.rollback().await.expect("rolled back");
    until("it arrives too", || async {
        !world.ledger.schedulable(&held.id).await
    })
    .await;
}
