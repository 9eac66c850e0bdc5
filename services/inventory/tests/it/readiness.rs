//! Readiness follows the current evidence and nothing else.
use gpuaas_proto::gpuaas::agent::v1::ReadinessReport;
use gpuaas_proto::gpuaas::common::v1::EvidenceStatus;
use gpuaas_proto::gpuaas::inventory::v1::NodeState;
use uuid::Uuid;

use crate::host::{Host, evidence, good, seconds_ago};
use crate::world::{World, refused, until};

///
#[tokio::test]
async fn a_11_a_node_is_schedulable_when_enrolled_and_proven() {
    let world = World::start().await;
    let node = world.create_node("n1").await;
    let host = Host::enrol(&world, &node.id).await;
    assert!(!world.status(&node.id).await.schedulable);
    let answer = host.heartbeat(good()).await.expect("taken").into_inner();
    assert_eq!(
        answer.next_interval.map(|interval| interval.seconds),
        Some(10)
    );
    let status = world.status(&node.id).await;
    assert!(status.schedulable && status.blockers.is_empty());
    assert_eq!(
        (
            status.hypervisor.as_str(),
            status.host_profile.as_str(),
            status.lab
        ),
        ("qemu", "lab", true)
    );
    until("the ledger knows", || async {
        world.ledger.schedulable(&node.id).await
    })
    .await;
    assert_eq!(
        world.ledger.node(&node.id).await.expect("node").host_health,
        "healthy"
    );
}

/// a repaired host counts with the next report of it, and not before.
#[tokio::test]
async fn a_12_a_failing_check_closes_the_second_gate_and_a_repair_opens_it() {
    let world = World::start().await;
    let node = world.create_node("n1").await;
    let host = Host::enrol(&world, &node.id).await;
    host.send_heartbeat().await;
    until("ready", || async {
        world.ledger.schedulable(&node.id).await
    })
    .await;
    let broken = ReadinessReport {
        evidence: vec![
            evidence("nat", EvidenceStatus::Fail),
            evidence("tmfifo", EvidenceStatus::Warn),
        ],
        ..good()
    };
    host.heartbeat(broken).await.expect("taken");
    let status = world.status(&node.id).await;
    assert_eq!(
        (status.state(), status.blockers),
        (NodeState::Enrolled, vec!["nat".to_owned()])
    );
    until("the ledger knows", || async {
        !world.ledger.schedulable(&node.id).await
    })
    .await;
    let reported = world.ledger.node(&node.id).await.expect("node");
    assert_eq!(
        (
            reported.not_schedulable_reason.as_str(),
            reported.host_health.as_str()
        ),
        ("nat", "degraded")
    );
    until("ready again", || async {
        host.send_heartbeat().await;
        world.ledger.schedulable(&node.id).await
    })
    .await;
}

#[tokio::test]
async fn inc_04_evidence_that_ages_ends_readiness_although_heartbeats_go_on() {
    let world = World::start_with(|config| config.evidence_max_age_seconds = 2).await;
    let node = world.create_node("n1").await;
    let host = Host::enrol(&world, &node.id).await;
    let seen = || ReadinessReport {
        observed_time: Some(seconds_ago(0)),
        ..good()
    };
    until("ready", || async {
        host.heartbeat(seen()).await.expect("taken");
        world.ledger.schedulable(&node.id).await
    })
    .await;
    let seen = seen();
    until(
        "the ledger stops to trust the same old inspection",
        || async {
            host.heartbeat(seen.clone()).await.expect("taken");
            !world.ledger.schedulable(&node.id).await
        },
    )
    .await;
    let status = world.status(&node.id).await;
    assert_eq!(
        (status.state(), status.blockers),
        (NodeState::Enrolled, vec!["evidence_stale".to_owned()])
    );
}

#[tokio::test]
async fn inc_04_a_clock_that_is_ahead_does_not_make_evidence_live_longer() {
    let world = World::start_with(|config| config.evidence_max_age_seconds = 2).await;
    let node = world.create_node("n1").await;
    let host = Host::enrol(&world, &node.id).await;
    until("ready", || async {
        host.heartbeat(ReadinessReport {
            observed_time: Some(seconds_ago(-86_400)),
            ..good()
        })
        .await
        .expect("taken");
        world.ledger.schedulable(&node.id).await
    })
    .await;
    until("aged", || async {
        !world.ledger.schedulable(&node.id).await
    })
    .await;
}

#[tokio::test]
async fn a_host_without_heartbeats_is_lost_and_comes_back() {
    let mut world = World::start_with(|config| config.heartbeat_timeout_seconds = 2).await;
    world.run_replica();
    let node = world.create_node("n1").await;
    let host = Host::enrol(&world, &node.id).await;
    until("ready", || async {
        host.send_heartbeat().await;
        world.ledger.schedulable(&node.id).await
    })
    .await;
    until("lost", || async {
        world.status(&node.id).await.state() == NodeState::Lost
    })
    .await;
    until("the ledger knows", || async {
        !world.ledger.schedulable(&node.id).await
    })
    .await;
    assert_eq!(world.status(&node.id).await.blockers, ["host_lost"]);
    assert_eq!(
        world.ledger.node(&node.id).await.expect("node").host_health,
        "unknown"
    );
    // the ledger knows since when, to tell those who are on it
    let last_seen: (jiff_sqlx::Timestamp, jiff_sqlx::Timestamp) = sqlx::query_as(
        "SELECT l.host_lost_since, i.last_heartbeat_time FROM placement.nodes l JOIN inventory.nodes i USING (id)",
    )
    .fetch_one(&world.owner().await)
    .await
    .expect("a lost node");
    assert_eq!(last_seen.0, last_seen.1);
    host.send_heartbeat().await;
    assert_eq!(world.status(&node.id).await.state(), NodeState::Enrolled);
    until("ready again", || async {
        world.ledger.schedulable(&node.id).await
    })
    .await;
    assert!(!world.ledger.node(&node.id).await.expect("node").lost);
}

#[tokio::test]
async fn a_change_during_an_outage_of_the_ledger_arrives_after_it() {
    let mut world = World::start().await;
    let node = world.create_node("n1").await;
    let host = Host::enrol(&world, &node.id).await;
    until("ready", || async {
        host.send_heartbeat().await;
        world.ledger.schedulable(&node.id).await
    })
    .await;
    world.ledger.down().await;
    let broken = ReadinessReport {
        blockers: vec!["kvm".into()],
        ..good()
    };
    host.heartbeat(broken)
        .await
        .expect("heartbeats do not need the ledger");
    assert!(
        world.ledger.schedulable(&node.id).await,
        "it does not know yet"
    );
    world.ledger.up();
    until("it knows", || async {
        !world.ledger.schedulable(&node.id).await
    })
    .await;
}

#[tokio::test]
async fn a_heartbeat_without_an_address_is_refused() {
    let world = World::start().await;
    let node = world.create_node("n1").await;
    let mut host = Host::enrol(&world, &node.id).await;
    host.address = "nowhere".into();
    assert_eq!(
        refused(host.heartbeat(good()).await).fields()[0].0,
        "agent_address"
    );
}

#[tokio::test]
async fn e_05_con_10_the_ledger_knows_which_images_the_current_host_has_verified() {
    let world = World::start().await;
    let node = world.create_node("n1").await;
    let host = Host::enrol(&world, &node.id).await;
    let digest = |start: &str| format!("sha256:{start:0<64}");
    let with = |images: &[&str]| ReadinessReport {
        cached_image_digests: images.iter().map(|start| digest(start)).collect(),
        ..good()
    };
    let knows = async |images: &[&str]| {
        let images: Vec<String> = images.iter().map(|start| digest(start)).collect();
        until("it knows the images", || async {
            let reported = world.ledger.node(&node.id).await;
            reported.is_some_and(|reported| reported.image_digests == images)
        })
        .await;
    };
    // told in any order, and twice
    host.heartbeat(with(&["b", "a", "b"])).await.expect("taken");
    knows(&["a", "b"]).await;
    host.heartbeat(with(&["b"])).await.expect("taken");
    knows(&["b"]).await;
    for bad in [
        "sha256:b",
        "",
        &digest("B"),
        &digest("b").replace("256", "512"),
    ] {
        let report = ReadinessReport {
            cached_image_digests: vec![digest("a"), bad.to_owned()],
            ..good()
        };
        assert_eq!(
            refused(host.heartbeat(report).await).fields()[0].0,
            "readiness.cached_image_digests",
            "{bad}"
        );
    }
    knows(&["b"]).await;
    // what an earlier image of the machine had is nothing
    Host::enrol(&world, &node.id).await;
    knows(&[]).await;
}

#[tokio::test]
async fn b_11_the_ledger_knows_whose_vms_had_hugepages_when_the_free_ones_were_counted() {
    let world = World::start().await;
    let node = world.create_node("n1").await;
    let host = Host::enrol(&world, &node.id).await;
    let ids: Vec<Uuid> = (0..2).map(|_| Uuid::now_v7()).collect();
    let with = |free: u32, held_by: &[Uuid]| ReadinessReport {
        hugepages_1g_free: free,
        hugepages_allocated_to: held_by.iter().map(ToString::to_string).collect(),
        ..good()
    };
    let knows = async |free: i32, held_by: &[Uuid]| {
        until("it knows whose pages are taken", || async {
            let reported = world.ledger.node(&node.id).await;
            reported.is_some_and(|reported| {
                reported.hugepages_1g_free == free && reported.hugepages_allocated_to == held_by
            })
        })
        .await;
    };
    // told in any order, and twice
    let report = with(128, &[ids[1], ids[0], ids[1]]);
    host.heartbeat(report).await.expect("taken");
    knows(128, &ids).await;
    // as many are free, others have theirs: one ended as another began
    host.heartbeat(with(128, &ids[1..])).await.expect("taken");
    knows(128, &ids[1..]).await;
    let bad = ReadinessReport {
        hugepages_allocated_to: vec!["vm-1".into()],
        ..good()
    };
    assert_eq!(
        refused(host.heartbeat(bad).await).fields()[0].0,
        "readiness.hugepages_allocated_to"
    );
    knows(128, &ids[1..]).await;
    // what an earlier image of the machine had is nothing
    Host::enrol(&world, &node.id).await;
    knows(0, &[]).await;
}

#[tokio::test]
async fn con_06_a_host_may_get_another_address_and_is_called_there() {
    let world = World::start().await;
    let node = world.create_node("n1").await;
    let mut host = Host::enrol(&world, &node.id).await;
    until("ready", || async {
        host.send_heartbeat().await;
        world.ledger.schedulable(&node.id).await
    })
    .await;
    host.address = "10.177.36.171:7110".into();
    host.send_heartbeat().await;
    until("the ledger knows", || async {
        let reported = world.ledger.node(&node.id).await.expect("node");
        reported.agent_address == "10.177.36.171:7110" && reported.schedulable
    })
    .await;
}
