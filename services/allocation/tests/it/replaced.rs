//! A host that is installed anew under what runs on it: what was claimed was its former instance.

use gpuaas_placement::claims;
use gpuaas_placement::model::{ClaimState, SlotStatus};

use crate::host::State;
use crate::world::World;

/// Nobody asked this host for anything.
async fn is_untouched(world: &World, context: &str) {
    let state = world.host.state().await;
    assert!(state.operations.is_empty(), "{context}: {state:?}");
    assert!(state.holds.is_empty(), "{context}: {state:?}");
    world.host_is_clean(false, context).await;
}

async fn is_blocked(world: &World, id: uuid::Uuid) {
    assert_eq!(world.slot_of(id).await.status, SlotStatus::CleanupBlocked);
    let mut conn = world.pool.acquire().await.expect("a connection");
    let held = claims::of_allocation(&mut conn, id).await.expect("claims");
    assert_eq!(held[0].state, ClaimState::CleanupBlocked);
}

#[tokio::test]
async fn a_09_a_host_installed_anew_in_the_middle_of_a_provision_does_not_get_the_vm() {
    let mut world = World::start().await;
    world
        .host
        .script(|script| script.stay = Some(("provision", "clone")));
    let runner = world.runner(World::config());
    let id = world.reserve("web").await;
    let cloning = |state: &State| state.operations.values().any(|op| op.is_at("clone"));
    world.host.until("clone", cloning).await;
    world.host_gone().await;
    world.host.script(|script| script.stay = None);
    world.reinstall_host().await;
    world.until_state(id, "failed").await;
    world.until_idle(id).await;
    let failure = world.allocation(id).await.failure.expect("a failure").0;
    assert_eq!(failure.reason, "HOST_REPLACED", "{}", failure.message);
    is_untouched(&world, "provision").await;
    is_blocked(&world, id).await;
    assert_eq!(world.periods(id).await, (0, 0));

    // the repair is for the host that is there now
    let slot_id = world.slot_of(id).await.id;
    world.repair(slot_id).await;
    world.until_idle(slot_id).await;
    assert_eq!(world.slot_of(id).await.status, SlotStatus::Available);
    world.host_is_clean(false, "repaired").await;
    runner.stop().await;
}

#[tokio::test]
async fn a_09_a_claim_of_the_former_instance_never_begins_on_the_next() {
    let mut world = World::start().await;
    let id = world.reserve("web").await;
    world.host_gone().await;
    world.reinstall_host().await;
    let runner = world.runner(World::config());
    world.until_state(id, "failed").await;
    world.until_idle(id).await;
    let failure = world.allocation(id).await.failure.expect("a failure").0;
    assert_eq!(failure.reason, "HOST_REPLACED", "{}", failure.message);
    is_untouched(&world, "reserved").await;
    runner.stop().await;
}

#[tokio::test]
async fn a_09_release_and_power_touch_nothing_on_another_instance() {
    let mut world = World::start().await;
    let runner = world.runner(World::config());
    let id = world.reserve("web").await;
    world.until_state(id, "active").await;
    world.until_idle(id).await;
    world.host_gone().await;
    world.reinstall_host().await;

    world.power(id, "reboot").await;
    world.until_idle(id).await;
    is_untouched(&world, "reboot").await;
    let reported: String = sqlx::query_scalar(
        "SELECT message FROM timeline WHERE allocation_id = $1 AND step = 'running' ORDER BY sequence DESC LIMIT 1",
    )
    .bind(id)
    .fetch_one(&world.pool)
    .await
    .expect("an entry");
    assert!(reported.contains("installed anew"), "{reported}");

    world.release(id).await;
    world.until_state(id, "released").await;
    world.until_idle(id).await;
    is_untouched(&world, "release").await;
    is_blocked(&world, id).await;
    assert_eq!(world.periods(id).await, (1, 0));
    runner.stop().await;
}

/// The node's agent answers at its address, but its certificate names an instance that the ledger has not heard of: every
/// call goes to the instance of the claim, so none is made.
#[tokio::test]
async fn a_09_an_instance_that_the_ledger_does_not_know_yet_is_not_called() {
    let mut world = World::start().await;
    let id = world.reserve("web").await;
    world.host_gone().await;
    world.host.reinstall().await;
    world.instance_id = uuid::Uuid::now_v7();
    world.host_up().await;
    let runner = world.runner(World::config());
    let refused = "SELECT coalesce(max(s.attempts), 0) >= 3 FROM workflow_steps s JOIN workflows w ON w.id = s.workflow_id
                    WHERE w.allocation_id = $1";
    world
        .until("three calls that were not made", refused, id)
        .await;
    is_untouched(&world, "before the ledger knows").await;
    let spec = gpuaas_placement::nodes::NodeSpec {
        new_instance: true,
        ..world.spec()
    };
    world.put_node(&spec).await;
    world.until_state(id, "failed").await;
    world.until_idle(id).await;
    let failure = world.allocation(id).await.failure.expect("a failure").0;
    assert_eq!(failure.reason, "HOST_REPLACED", "{}", failure.message);
    is_untouched(&world, "after").await;
    runner.stop().await;
}
