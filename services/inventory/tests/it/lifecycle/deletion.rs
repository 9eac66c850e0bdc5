//! Nodes that are deleted, and hosts that enrol meanwhile.
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_proto::gpuaas::inventory::v1::{self as api, NodeLifeState};

use super::{delete, names, retire};
use crate::host::Host;
use crate::ready::Ready;
use crate::world::{World, refused, until};

#[tokio::test]
async fn a_node_registered_by_mistake_is_deleted_and_shown_no_more() {
    let (ready, discovery) = Ready::start(|_| {}).await;
    ready
        .approve_and_wipe("a1", &discovery, &[0])
        .await
        .expect("approved");
    let (world, node_id) = (&ready.world, ready.host.node_id());
    let typo = world.create_node("typo").await;
    delete(world, &typo.id, "x1").await.expect("never enrolled");
    delete(world, node_id, "x2").await.expect("never used");
    delete(world, node_id, "x2").await.expect("the same key");
    assert!(names(world, true).await.is_empty());
    let get = api::GetNodeRequest {
        node_id: node_id.into(),
    };
    let gone = refused(world.nodes().get_node(world.admin("", get)).await);
    assert_eq!(gone.reason(), ErrorReason::NodeNotFound);
    let twice = delete(world, node_id, "x3").await.expect_err("gone");
    assert_eq!(twice.reason(), ErrorReason::NodeNotFound);
    assert!(world.audited().await.contains(&"node.delete".to_owned()));
}

#[tokio::test]
async fn a_removed_node_never_enters_the_ledger_late() {
    let mut world = World::start().await;
    let node = world.create_node("n1").await;
    // its host enrols while the ledger is away: what is to be sent waits
    world.ledger.down().await;
    let _host = Host::enrol(&world, &node.id).await;
    let pool = world.db.owner_pool().await;
    let set_lease = async |sql: &str| {
        let sql = format!(
            "UPDATE inventory.ledger_sync SET lease_epoch = lease_epoch + 1, {sql} WHERE key = '{}'",
            node.id
        );
        let done = sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(&pool).await;
        done.expect("set");
    };
    // somebody is sending it, and may be late
    set_lease("lease_until = clock_timestamp() + interval '1 hour'").await;
    world.ledger.up();
    until("the ledger answers", || async {
        let early = delete(&world, &node.id, "x1").await;
        let early = early.expect_err("it is under way");
        early.message().contains("is being sent to the ledger")
    })
    .await;
    assert_eq!(names(&world, false).await, ["n1"]);
    set_lease("lease_until = NULL, not_before = clock_timestamp() + interval '1 hour'").await;
    delete(&world, &node.id, "x1").await.expect("deleted");
    let pending: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM inventory.ledger_sync WHERE kind = 'node' AND pushed_version < version",
    )
    .fetch_one(&pool)
    .await
    .expect("a count");
    assert_eq!(pending, 0);
    world.restart().await;
    assert!(world.ledger.node(&node.id).await.is_none());
}

/// The node is deleted as one without a host, and its host enrols between the two looks of the deletion.
#[tokio::test]
async fn a_node_whose_host_enrols_while_it_is_deleted_never_enters_the_ledger() {
    let mut world = World::start().await;
    let node = world.create_node("n1").await;
    world.ledger.down().await;
    let host = Host::enrol(&world, &node.id).await;
    let pool = world.db.owner_pool().await;
    let sync = |set: &str| {
        let key = &node.id;
        format!(
            "UPDATE inventory.ledger_sync SET lease_epoch = lease_epoch + 1, {set} WHERE key = '{key}'"
        )
    };
    let enrolled = |state: &str, instance: &str, heartbeat: &str| {
        let id = &node.id;
        format!(
            "UPDATE inventory.nodes SET state = '{state}', current_instance_id = {instance}, last_heartbeat_time = {heartbeat}
              WHERE id = '{id}'"
        )
    };
    let run = async |conn: &mut sqlx::PgConnection, sql: String| {
        let done = sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(conn).await;
        done.expect("run");
    };
    let mut conn = pool.acquire().await.expect("connection");
    // as it was before, and what follows from the enrolment is being sent once it is there
    run(&mut conn, enrolled("pending", "NULL", "NULL")).await;
    let in_flight = "lease_until = clock_timestamp() + interval '1 hour'";
    run(&mut conn, sync(in_flight)).await;
    world.ledger.up();
    let mut enrolment = pool.begin().await.expect("begin");
    let instance = format!("'{}'", host.enrolled.instance_id);
    run(
        &mut enrolment,
        enrolled("enrolled", &instance, "clock_timestamp()"),
    )
    .await;
    let transaction: String = sqlx::query_scalar("SELECT pg_current_xact_id()::xid::text")
        .fetch_one(&mut *enrolment)
        .await
        .expect("an id");
    let (deleted, ()) = tokio::join!(delete(&world, &node.id, "x1"), async {
        until("the deletion waits for the enrolment", || async {
            sqlx::query_scalar(
                "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND transactionid::text = $1)",
            )
            .bind(&transaction)
            .fetch_one(&pool)
            .await
            .expect("locks")
        })
        .await;
        enrolment.commit().await.expect("enrolled");
    });
    deleted.expect_err("the host is being sent to the ledger, or that does not answer yet");
    assert_eq!(names(&world, false).await, ["n1"]);
    run(
        &mut conn,
        sync("lease_until = NULL, not_before = clock_timestamp() + interval '1 hour'"),
    )
    .await;
    until("it is deleted", || async {
        delete(&world, &node.id, "x1").await.is_ok()
    })
    .await;
    world.restart().await;
    assert!(world.ledger.node(&node.id).await.is_none());
}

#[tokio::test]
async fn two_who_end_a_node_end_it_once() {
    let (ready, _) = Ready::start(|_| {}).await;
    let (world, node_id) = (&ready.world, ready.host.node_id());
    world.ledger.say(node_id, "draining").await;
    let (one, other) = tokio::join!(retire(world, node_id, "r1"), retire(world, node_id, "r2"));
    let (ended, refused) = match (one, other) {
        (Ok(ended), Err(refused)) | (Err(refused), Ok(ended)) => (ended, refused),
        both => panic!("{both:?}"),
    };
    assert_eq!(refused.reason(), ErrorReason::StateConflict, "{refused:?}");
    let life = ended.status.expect("a status").life.expect("a life");
    assert_eq!(life.state(), NodeLifeState::Retired);
    let audited = world.audited().await;
    let times = audited.iter().filter(|action| *action == "node.retire");
    assert_eq!(times.count(), 1);
}

/// Before, it was refused as stale then: ended in the ledger, and in service here.
#[tokio::test]
async fn a_node_whose_host_enrols_anew_while_it_is_retired_is_retired_all_the_same() {
    let (ready, _) = Ready::start(|_| {}).await;
    let (world, node_id) = (&ready.world, ready.host.node_id());
    let second = Host::enrol(world, node_id).await;
    second.send_heartbeat().await;
    until("the ledger knows the second host", || async {
        let known = world.ledger.node(node_id).await;
        known.is_some_and(|known| known.instance_id.to_string() == second.enrolled.instance_id)
    })
    .await;
    world.ledger.say(node_id, "draining").await;
    let pool = world.db.owner_pool().await;
    let enrolled = |instance: &str| {
        let sql = format!(
            "UPDATE inventory.nodes SET current_instance_id = '{instance}', revision = revision + 1 WHERE id = '{node_id}'"
        );
        sqlx::AssertSqlSafe(sql)
    };
    // as it was before the second one came
    let first = enrolled(&ready.host.enrolled.instance_id);
    sqlx::raw_sql(first).execute(&pool).await.expect("run");
    let read = world.get_node(node_id).await;
    let retire_as = async |etag: &str, key: &str| {
        let request = api::RetireNodeRequest {
            node_id: node_id.into(),
            etag: etag.into(),
            reason: "scrapped".into(),
        };
        world.nodes().retire_node(world.admin(key, request)).await
    };
    let stale = refused(retire_as("0", "r0").await);
    assert_eq!(stale.reason(), ErrorReason::EtagStale);
    let mut enrolment = pool.begin().await.expect("begin");
    let anew = enrolled(&second.enrolled.instance_id);
    let done = sqlx::raw_sql(anew).execute(&mut *enrolment).await;
    done.expect("run");
    let transaction: String = sqlx::query_scalar("SELECT pg_current_xact_id()::xid::text")
        .fetch_one(&mut *enrolment)
        .await
        .expect("an id");
    let (retired, ()) = tokio::join!(retire_as(&read.etag, "r1"), async {
        until("the retirement waits for the enrolment", || async {
            sqlx::query_scalar(
                "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND transactionid::text = $1)",
            )
            .bind(&transaction)
            .fetch_one(&pool)
            .await
            .expect("locks")
        })
        .await;
        enrolment.commit().await.expect("enrolled");
    });
    let status = retired.expect("retired").into_inner().status;
    let life = status.expect("a status").life.expect("a life");
    assert_eq!(life.state(), NodeLifeState::Retired);
    assert!(names(world, false).await.is_empty());
    let audited = world.audited().await;
    let times = audited.iter().filter(|action| *action == "node.retire");
    assert_eq!(times.count(), 1);
}
