//! Where a terminal leads, as the ledger has it, and to whom it is told.

use gpuaas_allocation::api::AccessApi;
use gpuaas_common::Error;
use gpuaas_proto::gpuaas::common::v1::CapacityShape;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_proto::gpuaas::internal::allocation::v1::access_service_server::AccessService;
use gpuaas_proto::gpuaas::internal::allocation::v1::{
    ResolveTerminalTargetRequest, ResolveTerminalTargetResponse,
};
use tonic::Request;
use uuid::Uuid;

use crate::world::World;

pub async fn resolve(
    world: &World,
    id: &str,
    projects: &[Uuid],
) -> Result<ResolveTerminalTargetResponse, Error> {
    let api = AccessApi::new(world.deps(world.pool.clone(), World::config()));
    let request = ResolveTerminalTargetRequest {
        allocation_id: id.to_owned(),
        project_ids: projects.iter().map(Uuid::to_string).collect(),
    };
    Ok(api
        .resolve_terminal_target(Request::new(request))
        .await?
        .into_inner())
}

#[tokio::test]
async fn f_02_f_10_f_11_a_target_is_of_the_ledger_and_for_the_owner_of_an_active_allocation() {
    let world = World::start().await;
    let id = world.reserve("shell").await;
    let owner = world.allocation(id).await.project_id;
    let requested = id.to_string();
    let early = resolve(&world, &requested, &[owner])
        .await
        .expect_err("not active");
    assert_eq!(early.reason(), ErrorReason::StateConflict);

    let runner = world.runner(World::config());
    world.until_state(id, "active").await;
    let target = resolve(&world, &requested, &[Uuid::now_v7(), owner])
        .await
        .expect("active");
    let allocation = world.allocation(id).await;
    let access = allocation.access.expect("access").0;
    assert_eq!(target.capacity_shape(), CapacityShape::GpuSlice);
    assert_eq!(
        (target.target_host, target.target_port),
        (access.private_ip, access.ssh_port)
    );
    assert_eq!(target.user, allocation.guest_user);
    assert_eq!(target.ssh_host_keys, access.ssh_host_keys);
    assert_eq!(target.project_id, owner.to_string());
    assert_eq!(
        target.node_id,
        allocation.node_id.expect("a node").to_string()
    );
    assert!(!target.agent_address.is_empty() && !target.instance_id.is_empty());

    for (projects, id) in [
        (vec![], requested.clone()),
        (vec![Uuid::now_v7()], requested.clone()),
        (vec![owner], Uuid::now_v7().to_string()),
    ] {
        let foreign = resolve(&world, &id, &projects).await.expect_err("foreign");
        assert_eq!(foreign.reason(), ErrorReason::AllocationNotFound);
    }
    let malformed = resolve(&world, "x", &[owner]).await.expect_err("malformed");
    assert_eq!(malformed.fields()[0].0, "allocation_id");

    world.release(id).await;
    let late = resolve(&world, &requested, &[owner])
        .await
        .expect_err("releasing");
    assert_eq!(late.reason(), ErrorReason::StateConflict);
    runner.stop().await;
}
