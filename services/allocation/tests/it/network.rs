//! Whether VMs of a project reach each other: asked for over gRPC, carried to the host with a start and by the reconciler.
use gpuaas_allocation::domain::names::vm_name;
use gpuaas_allocation::reconcile;
use gpuaas_common::Error;
use gpuaas_common::client::GrpcChannel;
use gpuaas_proto::gpuaas::allocation::v1 as pb;
use gpuaas_proto::gpuaas::allocation::v1::project_network_service_client::ProjectNetworkServiceClient;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use uuid::Uuid;

use crate::platform::{Platform, good, port};
use crate::world::World;

fn networks(platform: &Platform) -> ProjectNetworkServiceClient<GrpcChannel> {
    let context = platform.world.context("gateway", "gateway", port());
    ProjectNetworkServiceClient::new(context.peers.channel("allocation").expect("a channel"))
}

async fn active(platform: &Platform, name: &str) -> Uuid {
    let made = platform.create(good(name), name).await.expect("launched");
    let id = made.id.parse().expect("an id");
    platform.world.until_state(id, "active").await;
    platform.world.until_idle(id).await;
    id
}

/// The groups of these VMs after the reconciler has been there.
async fn reconciled<const N: usize>(world: &World, ids: [Uuid; N]) -> [Option<Uuid>; N] {
    let deps = world.deps(world.pool.clone(), World::config());
    reconcile::node(&deps, world.node_id)
        .await
        .expect("compared");
    ids.map(|id| world.host.network_group(&vm_name(id)))
}

#[tokio::test]
async fn p11_vms_of_a_project_reach_each_other_only_while_the_project_says_so() {
    let platform = Platform::start().await;
    let world = &platform.world;
    let mut networks = networks(&platform);
    let first = active(&platform, "first").await;
    assert_eq!(reconciled(world, [first]).await, [None], "alone by default");
    let mut put = async |allowed: bool, key: &str| {
        let request = pb::PutProjectNetworkRequest {
            project_id: world.project.to_string(),
            vms_reach_each_other: allowed,
            ..pb::PutProjectNetworkRequest::default()
        };
        let reported = networks
            .put_project_network(platform.user(request, Some(key)))
            .await;
        assert_eq!(
            reported.expect("put").into_inner().vms_reach_each_other,
            allowed
        );
    };

    put(true, "allow").await;
    let second = active(&platform, "second").await;
    let both = [first, second];
    let project = Some(world.project);
    let started = world.host.network_group(&vm_name(second));
    assert_eq!(started, project, "the new one with its start");
    assert_eq!(reconciled(world, both).await, [project, project]);
    put(false, "deny").await;
    // said again it is the same change, made once
    put(false, "deny").await;
    assert_eq!(reconciled(world, both).await, [None, None]);
    let written: Vec<(String, String)> = sqlx::query_as(
        "SELECT principal, detail->>'vms_reach_each_other' FROM placement.audit WHERE action = 'network.put' ORDER BY at",
    )
    .fetch_all(&world.owner)
    .await
    .expect("the audit");
    let by_user = |allowed: &str| ("user:test".to_owned(), allowed.to_owned());
    assert_eq!(written, [by_user("true"), by_user("false")]);
}

#[tokio::test]
async fn a_setting_that_somebody_changed_meanwhile_is_not_put() {
    let platform = Platform::start().await;
    let mut networks = networks(&platform);
    let get = pb::GetProjectNetworkRequest::default();
    let read = networks.get_project_network(platform.user(get, None)).await;
    let read = read.expect("shown").into_inner().etag;
    let mut put = async |allowed: bool, etag: &str, key: &str| {
        let request = pb::PutProjectNetworkRequest {
            vms_reach_each_other: allowed,
            etag: etag.to_owned(),
            ..pb::PutProjectNetworkRequest::default()
        };
        let request = platform.user(request, Some(key));
        let answer = networks.put_project_network(request).await;
        answer.map(tonic::Response::into_inner).map_err(Error::from)
    };
    let allowed = put(true, &read, "k1").await.expect("put");
    assert_ne!(allowed.etag, read);
    let late = put(false, &read, "k2").await.expect_err("late");
    assert_eq!(
        (late.reason(), late.fields()[0].0.as_str()),
        (ErrorReason::EtagStale, "etag")
    );
    // a repeat finds what it did, and what was refused changed nothing
    assert_eq!(put(true, &read, "k1").await.expect("a repeat"), allowed);
    let denied = put(false, &allowed.etag, "k2b").await.expect("put");
    assert!(!denied.vms_reach_each_other);
}

#[tokio::test]
async fn nobody_decides_for_the_project_of_others() {
    let platform = Platform::start().await;
    let request = pb::PutProjectNetworkRequest {
        project_id: Uuid::now_v7().to_string(),
        vms_reach_each_other: true,
        ..pb::PutProjectNetworkRequest::default()
    };
    let refused = networks(&platform)
        .put_project_network(platform.user(request, Some("key")))
        .await;
    let refused = Error::from(refused.expect_err("another's"));
    assert_eq!(refused.reason(), ErrorReason::ProjectUnknown);
    let set: i64 = sqlx::query_scalar("SELECT count(*) FROM placement.project_networks")
        .fetch_one(&platform.world.owner)
        .await
        .expect("a count");
    assert_eq!(set, 0);
}
