//! Modes, limits and maintenance: what an operator may change of a node, and when.
use gpuaas_placement::model::SlotStatus;
use gpuaas_placement::node_placement::{self, Intent};
use gpuaas_placement::nodes::{self, NodeSpec};
use gpuaas_placement::{Outcome, approval};
use uuid::Uuid;

use super::{become_, latest, reported, state, word};
use crate::world::lab_slot;

#[tokio::test]
async fn a_48_a_49_mode_and_limit_change_only_out_of_service_and_never_with_a_claim() {
    let (world, spec) = reported(1).await;
    let limit = NodeSpec {
        max_vms: 1,
        ..spec.clone()
    };
    let mode = NodeSpec {
        mode: "baremetal".into(),
        ..spec.clone()
    };
    for desired in [&limit, &mode] {
        let refused = call!(world, |tx| nodes::put(&mut tx, desired));
        assert_eq!(state(refused), "schedulable; cordon it first");
    }
    // the database refuses as well, whatever the code of the service asks
    for sql in [
        "UPDATE nodes SET max_vms = 9",
        "UPDATE nodes SET mode = 'baremetal', intended_mode = 'baremetal'",
    ] {
        let refused = sqlx::query(sql).execute(&*world.scheduler).await;
        let code = refused
            .expect_err(sql)
            .as_database_error()
            .and_then(|e| e.code().map(std::borrow::Cow::into_owned));
        assert_eq!(code.as_deref(), Some("23514"), "{sql}");
    }
    let id = world.reserved(1).await;
    become_(&world, spec.id, Intent::Cordoned)
        .await
        .expect("cordoned");
    for desired in [&limit, &mode] {
        let refused = call!(world, |tx| nodes::put(&mut tx, desired));
        assert_eq!(state(refused), "in use in mode slice");
    }
    // what waits keeps the node out of service, and everything else of it counts
    let news = NodeSpec {
        hugepages_1g_free: 7,
        ..limit.clone()
    };
    let held = call!(world, |tx| nodes::put_held_back(&mut tx, &news)).expect("held back");
    assert_eq!(
        (held.max_vms, held.hugepages_1g_free, held.schedulable),
        (0, 7, false)
    );
    assert_eq!(held.not_schedulable_reason, nodes::CONFIG_WAITS);
    world
        .run_past_guards(&format!(
            "UPDATE claims SET state = 'released', released_at = now() WHERE allocation_id = '{id}'"
        ))
        .await;
    let now = call!(world, |tx| nodes::put(&mut tx, &limit)).expect("empty and out of service");
    assert_eq!((now.max_vms, now.schedulable), (1, true));
    let now = call!(world, |tx| nodes::put(
        &mut tx,
        &NodeSpec {
            max_vms: 1,
            ..mode.clone()
        }
    ))
    .expect("the same");
    assert_eq!(now.mode, "baremetal");
}

#[tokio::test]
async fn maintenance_needs_an_empty_node_and_retirement_is_the_end() {
    let (world, spec) = reported(2).await;
    let node = spec.id;
    let id = world.active(1).await;
    assert_eq!(
        state(become_(&world, node, Intent::Maintenance).await),
        "in use; drain it first"
    );
    assert_eq!(
        state(become_(&world, node, Intent::Retired).await),
        "in service; drain it first"
    );
    become_(&world, node, Intent::Draining)
        .await
        .expect("draining");
    let refused = state(become_(&world, node, Intent::Retired).await);
    assert!(refused.starts_with("holding claims"), "{refused}");
    assert_eq!(
        state(become_(&world, node, Intent::Broken).await),
        "without a break-fix record"
    );
    let mut tx = world.allocation.begin().await.expect("begin");
    gpuaas_placement::release::begin(&mut tx, gpuaas_placement::Scope::Platform, id, "", "")
        .await
        .expect("released");
    tx.commit().await.expect("commit");
    let fence = world.take(id).await;
    let wiped = world.wiped(id).await;
    let mut tx = world.allocation.begin().await.expect("begin");
    let _ = gpuaas_placement::release::complete(&mut tx, fence, id, &wiped)
        .await
        .expect("wiped");
    tx.commit().await.expect("commit");
    world.finish(fence).await;

    let now = become_(&world, node, Intent::Maintenance)
        .await
        .expect("empty");
    assert_eq!(
        (now.admin_state.as_str(), now.admin_by.as_str()),
        ("maintenance", "user:root")
    );
    assert_eq!(
        latest(&world, node).await,
        ("maintenance".into(), "test".into(), "user:root".into())
    );
    let (_, outcome) = call!(world, |tx| node_placement::retire(
        &mut tx,
        node,
        word("scrapped"),
        false
    ))
    .expect("retired");
    assert_eq!(outcome, Outcome::Changed);
    let (_, again) = call!(world, |tx| node_placement::retire(
        &mut tx,
        node,
        word("scrapped"),
        false
    ))
    .expect("again");
    assert_eq!(again, Outcome::Unchanged);
    assert_eq!(world.count(node, SlotStatus::Retired).await, 2);
    assert_eq!(
        state(become_(&world, node, Intent::Enabled).await),
        "retired"
    );
    let refused = sqlx::query("UPDATE nodes SET admin_state = 'enabled'")
        .execute(&*world.scheduler)
        .await;
    assert!(refused.is_err(), "the database refuses as well");
    let look = approval::Inspection::default();
    let more = [lab_slot(5)];
    let origin = gpuaas_placement::repair::Origin::default();
    let refused = call!(world, |tx| approval::approve(
        &mut tx,
        node,
        &look,
        &more,
        origin,
        Uuid::now_v7
    ));
    assert_eq!(state(refused), "retired");
}
