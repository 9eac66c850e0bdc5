//! What is on a host that is lost: it does not become active, and since when it is lost.
use gpuaas_placement::force_release::{self, Attestation, Fate};
use gpuaas_placement::model::AllocationState;
use gpuaas_placement::nodes::NodeSpec;
use gpuaas_placement::{Error, Outcome, provision};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use jiff_sqlx::{Timestamp, ToSqlx as _};

use crate::world::{World, access, lab_slot, lab_spec};

#[tokio::test]
async fn p3_a_launch_on_a_lost_host_becomes_active_and_billed_when_the_host_is_back() {
    let (world, spec) = (World::new().await, lab_spec());
    let node = world.node(spec.clone()).await;
    world.approve(node, &[lab_slot(0), lab_slot(1)]).await;
    // one began before the host was lost, one after it
    let (begun, late) = (world.reserved(1).await, world.reserved(1).await);
    let fences = [world.take(begun).await, world.take(late).await];
    let silent = NodeSpec {
        host_lost_since: Some(jiff::Timestamp::now().to_sqlx()),
        ..spec.clone()
    };
    for (index, id) in [begun, late].into_iter().enumerate() {
        if index == 1 {
            world.node(silent.clone()).await;
        }
        let mut tx = world.allocation.begin().await.expect("begin");
        let _ = provision::start(&mut tx, fences[index], id)
            .await
            .expect("start");
        tx.commit().await.expect("commit");
    }
    let periods = "SELECT count(*) FROM allocation_periods";
    for (fence, id) in fences.into_iter().zip([begun, late]) {
        let mut tx = world.allocation.begin().await.expect("begin");
        let refused = provision::activate(&mut tx, fence, id, Some(&access()), None).await;
        match refused {
            Err(Error::Common(error)) => {
                assert_eq!(error.reason(), ErrorReason::HostUnreachable);
                assert!(error.is_transient(), "the workflow tries again");
            }
            other => panic!("{other:?}"),
        }
        drop(tx);
        assert_eq!(world.get(id).await.state, AllocationState::Provisioning);
    }
    assert_eq!(world.number(periods).await, 0);

    world.node(spec).await;
    for (fence, id) in fences.into_iter().zip([begun, late]) {
        let mut tx = world.allocation.begin().await.expect("begin");
        let activated = provision::activate(&mut tx, fence, id, Some(&access()), None).await;
        assert_eq!(activated.expect("the host is back"), Outcome::Changed);
        tx.commit().await.expect("commit");
    }
    assert_eq!(world.number(periods).await, 2);
}

/// The host was heard between two losses, and the ledger learnt of both at once.
#[tokio::test]
async fn p3_a_later_loss_is_noted_and_a_forced_release_is_billed_until_it() {
    let (world, spec) = (World::new().await, lab_spec());
    let node = world.node(spec.clone()).await;
    world.approve(node, &[lab_slot(0)]).await;
    let id = world.active(1).await;
    let silent = |since: Timestamp| NodeSpec {
        host_lost_since: Some(since),
        ..spec.clone()
    };
    let now = async || -> Timestamp {
        sqlx::query_scalar("SELECT clock_timestamp()")
            .fetch_one(&world.owner)
            .await
            .expect("a time")
    };
    let first = now().await;
    world.node(silent(first)).await;
    // told again, it is no news
    world.node(silent(first)).await;
    assert_eq!(world.get(id).await.host_lost_since, Some(first));
    let second = now().await;
    world.node(silent(second)).await;
    assert_eq!(world.get(id).await.host_lost_since, Some(second));
    // nor is what another replica of inventory tells late
    world.node(silent(first)).await;
    let told: Vec<String> = sqlx::query_scalar(
        "SELECT data ->> 'host_lost_since' FROM outbox
          WHERE aggregate_id = $1 AND type = 'allocation.host_lost' ORDER BY revision",
    )
    .bind(id)
    .fetch_all(&world.owner)
    .await
    .expect("events");
    let text = |at: Timestamp| at.to_jiff().to_string();
    assert_eq!(told, [text(first), text(second)]);

    let attested = Attestation {
        principal: "user:root",
        fate: Fate::PoweredOff,
        reason: "it does not answer",
        billing_end: None,
    };
    let mut tx = world.allocation.begin().await.expect("begin");
    let forced = force_release::force(&mut tx, id, &attested).await;
    tx.commit().await.expect("commit");
    assert_eq!(forced.expect("forced").billed_until, Some(second));
}
