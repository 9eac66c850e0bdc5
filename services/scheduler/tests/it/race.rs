//! Two hundred clients at once, over the wire.
use std::collections::HashSet;
use std::time::Duration;

use gpuaas_common::Error;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_proto::gpuaas::internal::scheduler::v1::ReserveRequest;
use gpuaas_proto::gpuaas::internal::scheduler::v1::placement_service_client::PlacementServiceClient;
use gpuaas_proto::gpuaas::internal::scheduler::v1::placement_service_server::{
    PlacementService as _, PlacementServiceServer,
};
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Server;
use tonic::{Code, Request};
use uuid::Uuid;

use crate::world::{World, approval, node, ok, reservation};

const CLIENTS: usize = 200;
const SLOTS: usize = 64;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn p1_two_hundred_clients_for_sixty_four_slots_have_sixty_four_winners() {
    let (mut world, _, first) = World::with_slots(8).await;
    // who is slow on a busy machine is not turned away as busy: what is shown here is who wins
    world.api.policy.placement_timeout = Duration::from_secs(120);
    world.api.policy.node_lock_timeout = Duration::from_secs(120);
    assert_eq!(first.len(), 8);
    for number in 1..SLOTS / 8 {
        let node = node();
        ok(world.api.put_node(Request::new(node.clone())).await);
        let mut approval = approval(&node.node_id, 8);
        approval.idempotency_key = format!("k-approve-{number}");
        world.approve(approval).await;
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("listen");
    let address = format!("http://{}", listener.local_addr().expect("address"));
    let server = tokio::spawn(
        Server::builder()
            .add_service(PlacementServiceServer::new(world.api.clone()))
            .serve_with_incoming(TcpListenerStream::new(listener)),
    );

    let mut clients = tokio::task::JoinSet::new();
    let gate = std::sync::Arc::new(tokio::sync::Barrier::new(CLIENTS));
    for number in 0..CLIENTS {
        let (address, gate) = (address.clone(), gate.clone());
        clients.spawn(async move {
            let mut client = PlacementServiceClient::connect(address)
                .await
                .expect("connect");
            let request = ReserveRequest {
                project_id: Uuid::now_v7().to_string(),
                ..reservation(&format!("race-{number}"))
            };
            gate.wait().await;
            client.reserve(request).await
        });
    }
    let mut winners = HashSet::new();
    let mut refused = 0;
    while let Some(outcome) = clients.join_next().await {
        match outcome.expect("no panic") {
            Ok(answer) => assert!(winners.insert(answer.into_inner().allocation_id)),
            Err(status) => {
                // a refusal with a reason; neither a lock nor a serialization failure comes through
                assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
                let error = Error::from(status);
                assert_eq!(error.reason(), ErrorReason::SlotsInUse, "{error:?}");
                refused += 1;
            }
        }
    }
    server.abort();
    assert_eq!((winners.len(), refused), (SLOTS, CLIENTS - SLOTS));
    let distinct = "SELECT count(DISTINCT slot_id) FROM placement.claims WHERE state <> 'released'";
    assert_eq!(world.number(distinct).await, SLOTS as i64);
    let allocated = "SELECT count(*) FROM placement.slots WHERE status = 'reserved'";
    assert_eq!(world.number(allocated).await, SLOTS as i64);
    assert_eq!(
        world
            .number("SELECT count(*) FROM placement.allocations")
            .await,
        SLOTS as i64
    );
}
