//! Topology discovery: queued, run by a worker, read back.
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_proto::gpuaas::inventory::v1::{self as api, DiscoveryState};
use tonic::Code;

use crate::host::{Host, lab_topology};
use crate::world::{World, refused, until};

pub(crate) async fn discover(world: &World, node_id: &str, key: &str) -> api::TopologyDiscovery {
    let request = api::DiscoverTopologyRequest {
        node_id: node_id.into(),
    };
    world
        .nodes()
        .discover_topology(world.admin(key, request))
        .await
        .expect("queued")
        .into_inner()
}

pub(crate) async fn latest(world: &World, node_id: &str) -> api::TopologyDiscovery {
    let request = api::GetTopologyDiscoveryRequest {
        node_id: node_id.into(),
    };
    world
        .nodes()
        .get_topology_discovery(world.admin("", request))
        .await
        .expect("there")
        .into_inner()
}

pub(crate) async fn ended(world: &World, node_id: &str) -> api::TopologyDiscovery {
    until("the discovery ends", || async {
        matches!(
            latest(world, node_id).await.state(),
            DiscoveryState::Completed | DiscoveryState::Failed
        )
    })
    .await;
    latest(world, node_id).await
}

/// C-24
#[tokio::test]
async fn a_56_discovery_is_queued_and_a_57_the_latest_is_read_back() {
    let world = World::start().await;
    let node = world.create_node("n1").await;
    let _host = Host::enrol(&world, &node.id).await;
    let queued = discover(&world, &node.id, "d1").await;
    assert_eq!(
        (queued.state(), queued.task_type.as_str()),
        (DiscoveryState::Queued, "slice.topology_discover")
    );
    let done = ended(&world, &node.id).await;
    assert_eq!(
        (done.id.as_str(), done.state()),
        (queued.id.as_str(), DiscoveryState::Completed)
    );
    let summary = done.candidate_summary.expect("summary");
    assert_eq!((summary.candidate_slots, summary.nvme_devices), (2, 2));
    assert_eq!(done.candidates.len(), 2);
    let replayed = discover(&world, &node.id, "d1").await;
    assert_eq!(
        (replayed.id.clone(), replayed.state()),
        (queued.id, DiscoveryState::Completed)
    );
}

#[tokio::test]
async fn a_57_everything_the_host_consists_of_is_read_back() {
    use gpuaas_proto::gpuaas::common::v1::{GpuDevice, HostInventory, Machine};
    let world = World::start().await;
    let node = world.create_node("n1").await;
    let host = Host::enrol(&world, &node.id).await;
    let inventory = HostInventory {
        machine: Some(Machine {
            model: "PowerEdge XE9680L".into(),
            ..Machine::default()
        }),
        gpus: vec![GpuDevice::default(); 8],
        ..HostInventory::default()
    };
    let newest = gpuaas_proto::TOPOLOGY_SCHEMA_VERSION;
    let report = |change: fn(&mut gpuaas_proto::gpuaas::agent::v1::TopologyReport)| {
        let mut report = gpuaas_proto::gpuaas::agent::v1::TopologyReport {
            schema_version: newest,
            host: Some(inventory.clone()),
            ..lab_topology()
        };
        change(&mut report);
        *host.topology.lock().expect("not poisoned") = report;
    };
    report(|_| ());
    discover(&world, &node.id, "d1").await;
    let done = ended(&world, &node.id).await;
    assert_eq!(done.state(), DiscoveryState::Completed);
    assert_eq!(
        (done.schema_version, done.host),
        (newest, Some(inventory.clone()))
    );
    assert_eq!(done.candidates[1].kernel_path, "/dev/loop1");

    // what this platform cannot read, or what no host has, is not stored in part
    for (key, why, change) in [
        (
            "d2",
            "update the platform",
            (|report| report.schema_version += 1)
                as fn(&mut gpuaas_proto::gpuaas::agent::v1::TopologyReport),
        ),
        ("d3", "host.gpus", |report| {
            let host = report.host.as_mut().expect("a host");
            host.gpus.resize(10_000, GpuDevice::default());
        }),
    ] {
        report(change);
        discover(&world, &node.id, key).await;
        let failed = ended(&world, &node.id).await;
        assert_eq!(failed.state(), DiscoveryState::Failed);
        assert!(failed.error.contains(why), "{}", failed.error);
        assert_eq!(failed.error_reason(), ErrorReason::FieldInvalid);
        assert_eq!(failed.host, None);
    }
}

#[tokio::test]
async fn a_57_before_any_discovery_there_is_none() {
    let world = World::start().await;
    let node = world.create_node("n1").await;
    let get = api::GetTopologyDiscoveryRequest {
        node_id: node.id.clone(),
    };
    let none = refused(
        world
            .nodes()
            .get_topology_discovery(world.admin("", get))
            .await,
    );
    assert_eq!(
        (none.code(), none.reason()),
        (Code::NotFound, ErrorReason::DiscoveryNotFound)
    );
    let ask = api::DiscoverTopologyRequest { node_id: node.id };
    let early = refused(
        world
            .nodes()
            .discover_topology(world.admin("d1", ask))
            .await,
    );
    assert_eq!(
        (early.code(), early.reason()),
        (Code::FailedPrecondition, ErrorReason::HostNotReady)
    );
}

/// only what an operator approved is a slot.
///
#[tokio::test]
async fn a_58_what_a_host_proposes_is_no_slot() {
    let world = World::start().await;
    let node = world.create_node("n1").await;
    let host = Host::enrol(&world, &node.id).await;
    host.send_heartbeat().await;
    discover(&world, &node.id, "d1").await;
    assert_eq!(ended(&world, &node.id).await.candidates.len(), 2);
    let list = api::ListResourceSlotsRequest {
        node_id: node.id.clone(),
        ..Default::default()
    };
    let slots = world
        .nodes()
        .list_resource_slots(world.admin("", list))
        .await
        .expect("list")
        .into_inner()
        .slots;
    assert!(slots.is_empty());
    assert!(world.status(&node.id).await.slots.is_empty());
}

#[tokio::test]
async fn an_inspection_that_cannot_be_had_fails_with_its_reason() {
    let world = World::start().await;
    let node = world.create_node("n1").await;
    let host = Host::enrol(&world, &node.id).await;
    host.topology.lock().expect("not poisoned").candidates[1].slot_index = 0;
    discover(&world, &node.id, "d1").await;
    let failed = ended(&world, &node.id).await;
    assert_eq!(failed.state(), DiscoveryState::Failed);
    assert!(failed.error.contains("index 0 again"), "{}", failed.error);
    assert_eq!(failed.error_reason(), ErrorReason::FieldInvalid);
    assert!(failed.candidates.is_empty());
    drop(host);
    discover(&world, &node.id, "d2").await;
    let failed = ended(&world, &node.id).await;
    assert_eq!(failed.state(), DiscoveryState::Failed);
    assert!(failed.error.contains("does not answer"), "{}", failed.error);
    assert_ne!(failed.error_reason(), ErrorReason::Unspecified);
}

#[tokio::test]
async fn an_inspection_whose_worker_died_is_begun_again() {
    let mut world = World::start().await;
    let node = world.create_node("n1").await;
    let _host = Host::enrol(&world, &node.id).await;
    world.stop().await;
    // what a worker leaves that was killed while it inspected
    let task = uuid::Uuid::now_v7();
    let owner = world.owner().await;
    sqlx::query(
        "INSERT INTO inventory.node_tasks (id, node_id, task_type, state, traceparent, attempts, lease_epoch, lease_until)
         VALUES ($1, $2::uuid, 'slice.topology_discover', 'running', '', 1, 1, clock_timestamp())",
    )
    .bind(task)
    .bind(&node.id)
    .execute(&owner)
    .await
    .expect("insert");
    world.start_again();
    until("answers", || async {
        world
            .nodes()
            .get_node(world.admin(
                "",
                api::GetNodeRequest {
                    node_id: node.id.clone(),
                },
            ))
            .await
            .is_ok()
    })
    .await;
    let done = ended(&world, &node.id).await;
    assert_eq!(
        (done.id.clone(), done.state()),
        (task.to_string(), DiscoveryState::Completed)
    );
    let (epoch, attempts): (i64, i32) =
        sqlx::query_as("SELECT lease_epoch, attempts FROM inventory.node_tasks WHERE id = $1")
            .bind(task)
            .fetch_one(&owner)
            .await
            .expect("row");
    assert_eq!((epoch, attempts), (2, 2));
}

#[tokio::test]
async fn inc_04_a_second_request_while_one_waits_joins_it_and_a_later_one_inspects_again() {
    let world = World::start().await;
    let node = world.create_node("n1").await;
    let host = Host::enrol(&world, &node.id).await;
    let first = discover(&world, &node.id, "d1").await;
    ended(&world, &node.id).await;
    *host.topology.lock().expect("not poisoned") =
        gpuaas_proto::gpuaas::agent::v1::TopologyReport {
            blockers: vec!["nat".into()],
            ..lab_topology()
        };
    let second = discover(&world, &node.id, "d2").await;
    assert_ne!(first.id, second.id);
    let done = ended(&world, &node.id).await;
    assert_eq!(done.candidate_summary.expect("summary").blockers, ["nat"]);
}

#[tokio::test]
async fn a_worker_that_comes_late_changes_nothing() {
    let mut world = World::start().await;
    let node = world.create_node("n1").await;
    let host = Host::enrol(&world, &node.id).await;
    let (let_go, held) = tokio::sync::oneshot::channel();
    *host.hold.lock().expect("not poisoned") = Some(held);
    discover(&world, &node.id, "d1").await;
    until("the first inspection has begun", || async {
        host.hold.lock().expect("not poisoned").is_none()
    })
    .await;
    // its lease ends while the host thinks, and another worker sees another topology
    host.topology
        .lock()
        .expect("not poisoned")
        .candidates
        .truncate(1);
    sqlx::query("UPDATE inventory.node_tasks SET lease_until = clock_timestamp()")
        .execute(&world.owner().await)
        .await
        .expect("update");
    assert_eq!(ended(&world, &node.id).await.candidates.len(), 1);
    drop(let_go);
    // stopping waits for work that has begun
    world.restart().await;
    until("answers", || async {
        let get = api::GetNodeRequest {
            node_id: node.id.clone(),
        };
        world.nodes().get_node(world.admin("", get)).await.is_ok()
    })
    .await;
    assert_eq!(latest(&world, &node.id).await.candidates.len(), 1);
}

/// The running service removes what is old at its start; what an approval names and the latest of a node stay.
#[tokio::test]
async fn old_discoveries_go_but_for_those_that_something_rests_on() {
    let (mut ready, approved) = crate::ready::Ready::start(|_| {}).await;
    ready
        .approve("a1", &approved, &[0])
        .await
        .expect("approved");
    let node = ready.host.node_id().to_owned();
    let mut ids = vec![approved];
    for key in ["d2", "d3", "d4"] {
        discover(&ready.world, &node, key).await;
        ids.push(ended(&ready.world, &node).await.id);
    }
    let owner = ready.world.owner().await;
    let left = async || -> Vec<String> {
        sqlx::query_scalar("SELECT id::text FROM inventory.node_tasks ORDER BY create_time, id")
            .fetch_all(&owner)
            .await
            .expect("read")
    };
    assert_eq!(left().await, ids);
    // all but the third are from before the retention
    sqlx::query(
        "UPDATE inventory.node_tasks SET end_time = end_time - interval '91 days' WHERE id <> $1::uuid",
    )
    .bind(&ids[2])
    .execute(&owner)
    .await
    .expect("aged");
    ready.world.restart().await;
    until("the old discovery goes", || async {
        !left().await.contains(&ids[1])
    })
    .await;
    assert_eq!(left().await, [&ids[0], &ids[2], &ids[3]].map(Clone::clone));

    // no caller shortens it to nothing
    let service = ready.world.db.pool("gpuaas_inventory").await;
    let refused = sqlx::query("SELECT sweep_discoveries(interval '1 hour', 10)");
    let refused = refused.execute(&service).await.expect_err("refused");
    assert!(refused.to_string().contains("at least a day"), "{refused}");
    assert_eq!(left().await.len(), 3);
}
