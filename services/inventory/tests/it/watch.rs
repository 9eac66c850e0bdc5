//! Watching hosts and slots: what is, what changes, and what changed while nobody watched.
use std::time::Duration;

use gpuaas_common::Error;
use gpuaas_proto::gpuaas::common::v1::{ChangeKind, SlotStatus};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_proto::gpuaas::inventory::v1 as api;
use gpuaas_proto::gpuaas::inventory::v1::watch_nodes_response::Event;
use tonic::{Code, Streaming};

use crate::discovery::{discover, ended};
use crate::host::Host;
use crate::world::{World, refused};

async fn watch(world: &World, token: &str) -> Result<Streaming<api::WatchNodesResponse>, Error> {
    let request = api::WatchNodesRequest {
        resume_token: token.to_owned(),
    };
    let opened = world.nodes().watch_nodes(world.admin("", request)).await;
    Ok(opened.map_err(Error::from)?.into_inner())
}

async fn next(stream: &mut Streaming<api::WatchNodesResponse>) -> api::WatchNodesResponse {
    tokio::time::timeout(Duration::from_secs(30), stream.message())
        .await
        .expect("a message in time")
        .expect("no error")
        .expect("not the end")
}

/// What comes until the stream is up to date, and its token: hostnames with their kind.
async fn until_synced(
    stream: &mut Streaming<api::WatchNodesResponse>,
) -> (Vec<(String, ChangeKind)>, String) {
    let mut seen = Vec::new();
    loop {
        let message = next(stream).await;
        match message.event.expect("an event") {
            Event::Node(change) => {
                let config = change.node.clone().and_then(|node| node.config);
                seen.push((config.expect("a config").hostname, change.kind()));
            }
            Event::Synced(_) => {
                seen.sort();
                return (seen, message.resume_token);
            }
            Event::Slot(_) | Event::Heartbeat(_) => {}
        }
    }
}

fn named(hostname: &str, kind: ChangeKind) -> (String, ChangeKind) {
    (hostname.to_owned(), kind)
}

#[tokio::test]
async fn nodes_are_watched_and_a_resumed_watch_gets_what_happened_meanwhile() {
    let mut world = World::start().await;
    world.create_node("n1").await;
    let mut stream = watch(&world, "").await.expect("opened");
    let (seen, _) = until_synced(&mut stream).await;
    assert_eq!(seen, [named("n1", ChangeKind::Added)]);

    let node = world.create_node("n2").await;
    let added = next_node(&mut stream).await;
    assert_eq!((added.1, added.2), (ChangeKind::Added, "n2".to_owned()));
    let token = added.0;
    // only a heartbeat comes while nothing changes
    let message = next(&mut stream).await;
    assert!(
        matches!(message.event, Some(Event::Heartbeat(_))),
        "{message:?}"
    );
    drop(stream);

    // while nobody watches, and over a restart
    let host = Host::enrol(&world, &node.id).await;
    host.send_heartbeat().await;
    world.create_node("n3").await;
    world.restart().await;
    let mut stream = watch(&world, &token).await.expect("resumed");
    let (seen, token) = until_synced(&mut stream).await;
    let wanted = [
        named("n2", ChangeKind::Modified),
        named("n3", ChangeKind::Added),
    ];
    assert_eq!(seen, wanted);

    // a sign of life is no change
    host.send_heartbeat().await;
    let mut stream = watch(&world, &token).await.expect("resumed");
    assert_eq!(until_synced(&mut stream).await.0, []);
}

/// The next change of a node as (token, kind, hostname).
async fn next_node(
    stream: &mut Streaming<api::WatchNodesResponse>,
) -> (String, ChangeKind, String) {
    loop {
        let message = next(stream).await;
        if let Some(Event::Node(change)) = message.event {
            let config = change.node.clone().and_then(|node| node.config);
            let hostname = config.expect("a config").hostname;
            return (message.resume_token, change.kind(), hostname);
        }
    }
}

#[tokio::test]
async fn a_slot_is_told_when_it_is_approved() {
    let world = World::start().await;
    let node = world.create_node("n1").await;
    let host = Host::enrol(&world, &node.id).await;
    host.send_heartbeat().await;
    let mut stream = watch(&world, "").await.expect("opened");
    until_synced(&mut stream).await;
    discover(&world, &node.id, "d1").await;
    let approve = api::ApproveResourceSlotsRequest {
        node_id: node.id.clone(),
        discovery_id: ended(&world, &node.id).await.id,
        slot_indexes: vec![0],
        choices: Vec::new(),
    };
    let approved = world
        .nodes()
        .approve_resource_slots(world.admin("a1", approve))
        .await
        .expect("approved")
        .into_inner();
    world.ledger.wipe(&node.id).await;
    let slot = loop {
        if let Some(Event::Slot(change)) = next(&mut stream).await.event {
            let slot = change.slot.expect("a slot");
            if slot.status() == SlotStatus::Available {
                break slot;
            }
        }
    };
    assert_eq!(slot.id, approved.slots[0].id);
}

#[tokio::test]
async fn only_administrators_watch_nodes_and_only_by_their_own_tokens() {
    let world = World::start().await;
    let request = world.request("user:alice", false, "", api::WatchNodesRequest::default());
    let error = refused(world.nodes().watch_nodes(request).await);
    assert_eq!(error.reason(), ErrorReason::PermissionDenied);

    let error = watch(&world, "?").await.expect_err("no token");
    assert_eq!(error.reason(), ErrorReason::ResumeTokenInvalid);
    assert_eq!(error.fields()[0].0, "resume_token");
    let never = gpuaas_common::watch::token::encode(&1_000_000_i64, &["nodes"]);
    let error = watch(&world, &never).await.expect_err("of another time");
    assert_eq!(
        (error.code(), error.reason()),
        (Code::OutOfRange, ErrorReason::ResumeTokenExpired)
    );
}
