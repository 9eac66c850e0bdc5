//! The reconciler against a real ledger and a host with residue.

use crate::world::World;
use gpuaas_allocation::domain::names::vm_name;
use gpuaas_allocation::domain::residue::Finding;
use gpuaas_allocation::reconcile;
use gpuaas_placement::model::SlotStatus;
use gpuaas_proto::gpuaas::agent::v1::FailureClass;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use uuid::Uuid;

#[tokio::test]
async fn p5_residue_of_a_failed_allocation_is_found_and_removed() {
    let world = World::start().await;
    let runner = world.runner(World::config());
    world.agent.script(|script| {
        script.fail = Some((
            "provision",
            "start",
            ErrorReason::HypervisorFailed,
            FailureClass::Host,
        ));
    });
    let id = world.reserve("web").await;
    world.until_state(id, "failed").await;
    world.until_idle(id).await;
    let deps = world.deps(world.pool.clone(), World::config());
    assert_eq!(
        reconcile::node(&deps, world.node_id)
            .await
            .expect("compared"),
        []
    );

    // the host comes back from somewhere with what had been removed
    world.agent.state().domains.insert(vm_name(id));
    world.agent.state().reservations.insert(vm_name(id));
    let found = reconcile::node(&deps, world.node_id)
        .await
        .expect("compared");
    assert_eq!(
        found,
        [Finding::LeakedDomain(id), Finding::LeakedReservation(id)]
    );
    world.until_idle(id).await;
    world.host_is_clean(true, "discarded");
    assert_eq!(
        reconcile::node(&deps, world.node_id)
            .await
            .expect("compared"),
        []
    );
    assert_eq!(
        world.slot_of(id).await.status,
        SlotStatus::CleanupBlocked,
        "the disk still waits for its proof"
    );
    runner.stop().await;
}

#[tokio::test]
async fn p5_what_is_missing_or_nobodys_is_reported_and_left_alone() {
    let world = World::start().await;
    let runner = world.runner(World::config());
    let id = world.reserve("web").await;
    world.until_state(id, "active").await;
    world.until_idle(id).await;
    let deps = world.deps(world.pool.clone(), World::config());
    assert_eq!(
        reconcile::node(&deps, world.node_id)
            .await
            .expect("compared"),
        []
    );
    let unknown = Uuid::now_v7();
    world.agent.state().domains.clear();
    world.agent.state().domains.insert(vm_name(unknown));
    world.agent.state().domains.insert("somebody-elses".into());
    let found = reconcile::node(&deps, world.node_id)
        .await
        .expect("compared");
    assert_eq!(
        found,
        [Finding::LeakedDomain(unknown), Finding::MissingDomain(id)]
    );
    let started: i64 = sqlx::query_scalar("SELECT count(*) FROM workflows WHERE kind = 'discard'")
        .fetch_one(&world.pool)
        .await
        .expect("a count");
    assert_eq!(started, 0);
    runner.stop().await;
}
