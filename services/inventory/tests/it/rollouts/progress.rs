//! Waves: their order, and what stops them.
use api::AgentRolloutNodeState as NodeState;
use api::AgentRolloutState as State;
use gpuaas_proto::gpuaas::common::v1::EvidenceStatus;
use gpuaas_proto::gpuaas::internal::inventory::v1::HeartbeatRequest;
use gpuaas_proto::gpuaas::inventory::v1 as api;

use super::{Fleet, NEW, OLD, waves};
use crate::host::{evidence, good};

#[tokio::test]
async fn a_10_a_rollout_goes_wave_by_wave_and_a_node_counts_when_it_is_ready_with_the_version() {
    let fleet = Fleet::start(&["r1", "r2", "r1"]).await;
    let rollout = fleet.create("k", 0).await;
    assert_eq!(waves(&rollout), [vec!["n0"], vec!["n2"], vec!["n1"]]);
    let update = fleet.reported(0).await;
    assert_eq!(
        (
            update.version.as_str(),
            update.size_bytes,
            update.rollback,
            update.attempt
        ),
        (NEW, 4096, false, 1)
    );
    // nobody else's turn it is
    assert_eq!(fleet.heartbeat(1, OLD, None).await, None);
    assert_eq!(fleet.heartbeat(2, OLD, None).await, None);
    // the version alone is not enough: the host must be as ready as it was
    let mut broken = good();
    broken.evidence = vec![evidence("ovs_bridge", EvidenceStatus::Fail)];
    let change = |heartbeat: &mut HeartbeatRequest| heartbeat.agent_version = NEW.into();
    let answer = fleet.hosts[0].heartbeat_with(broken, change).await;
    assert!(
        answer
            .expect("heartbeat")
            .into_inner()
            .agent_update
            .is_some()
    );
    assert_eq!(
        fleet.node(&rollout.id, 0).await.state(),
        NodeState::Updating
    );
    fleet.updated(0, &update).await;
    fleet
        .node_becomes(&rollout.id, 0, NodeState::Succeeded)
        .await;
    for at in [2, 1] {
        let update = fleet.reported(at).await;
        assert_eq!(
            fleet.heartbeat(0, NEW, None).await,
            None,
            "its turn has ended"
        );
        fleet.updated(at, &update).await;
    }
    let done = fleet.becomes(&rollout.id, State::Completed).await;
    assert_eq!(
        (done.succeeded_nodes, done.failed_nodes, done.total_nodes),
        (3, 0, 3)
    );
    let node = fleet.node(&rollout.id, 1).await;
    assert_eq!(
        (node.from_version.as_str(), node.agent_version.as_str()),
        (OLD, NEW)
    );
}

#[tokio::test]
async fn a_10_a_failure_stops_the_wave_and_an_operator_goes_on_or_tries_again() {
    let fleet = Fleet::start(&["r1", "r1"]).await;
    let rollout = fleet.create("k", 0).await;
    let update = fleet.reported(0).await;
    fleet.failed(0, &update, "the digest is another").await;
    let paused = fleet.becomes(&rollout.id, State::Paused).await;
    assert!(
        paused.state_reason.contains("1 nodes failed"),
        "{}",
        paused.state_reason
    );
    let node = fleet.node(&rollout.id, 0).await;
    assert_eq!(
        (node.state(), node.reason.as_str()),
        (NodeState::Failed, "the digest is another")
    );
    assert_eq!(
        fleet.heartbeat(1, OLD, None).await,
        None,
        "the second wave has not begun"
    );
    let resume = api::ResumeAgentRolloutRequest {
        rollout_id: rollout.id.clone(),
        retry_failed: true,
        ..Default::default()
    };
    let admin = |key| fleet.world.admin(key, resume.clone());
    fleet
        .client()
        .resume_agent_rollout(admin("again"))
        .await
        .expect("resumed");
    // the same key again is the same resumption
    fleet
        .client()
        .resume_agent_rollout(admin("again"))
        .await
        .expect("resumed");
    let again = fleet.reported(0).await;
    assert_eq!(again.attempt, 2);
    // what it said of its first turn counts for nothing
    fleet.failed(0, &update, "late").await;
    assert_eq!(
        fleet.node(&rollout.id, 0).await.state(),
        NodeState::Updating
    );
    fleet.updated(0, &again).await;
    let update = fleet.reported(1).await;
    fleet.updated(1, &update).await;
    fleet.becomes(&rollout.id, State::Completed).await;
    let audited = fleet.world.audited().await;
    let of = |action: &str| audited.iter().filter(|one| *one == action).count();
    assert_eq!(
        (of("agent_rollout.create"), of("agent_rollout.resume")),
        (1, 1)
    );
}

#[tokio::test]
async fn a_10_failures_within_the_limit_let_the_next_wave_begin() {
    let fleet = Fleet::start(&["r1", "r1"]).await;
    let rollout = fleet.create("k", 1).await;
    let update = fleet.reported(0).await;
    fleet.failed(0, &update, "").await;
    let update = fleet.reported(1).await;
    fleet.updated(1, &update).await;
    let done = fleet.becomes(&rollout.id, State::Completed).await;
    assert_eq!((done.succeeded_nodes, done.failed_nodes), (1, 1));
}

#[tokio::test]
async fn a_10_a_wave_whose_nodes_were_all_skipped_pauses_the_rollout() {
    let fleet = Fleet::start(&["r1", "r1"]).await;
    let silent = format!(
        "UPDATE inventory.nodes SET last_heartbeat_time = last_heartbeat_time - interval '1 hour' WHERE id = '{0}';
         UPDATE inventory.host_beats SET beat_time = beat_time - interval '1 hour'",
        fleet.hosts[0].node_id()
    );
    fleet.set(&silent).await;
    let rollout = fleet.create("k", 0).await;
    let paused = fleet.becomes(&rollout.id, State::Paused).await;
    let why = &paused.state_reason;
    assert!(why.contains("No node of wave 1 was updated"), "{why}");
    let node = fleet.node(&rollout.id, 0).await;
    assert_eq!(node.state(), NodeState::Skipped);
    assert_eq!(
        fleet.heartbeat(1, OLD, None).await,
        None,
        "nothing shows that it is good"
    );
    // it reports again, and gets its turn
    fleet.heartbeat(0, OLD, None).await;
    fleet.resume(&rollout.id, "again", true).await;
    let update = fleet.reported(0).await;
    fleet.failed(0, &update, "no").await;
    fleet.becomes(&rollout.id, State::Paused).await;
    fleet.set(&silent).await;
    fleet.resume(&rollout.id, "again2", true).await;
    let paused = fleet.becomes(&rollout.id, State::Paused).await;
    assert!(
        paused.state_reason.contains("wave 1"),
        "{}",
        paused.state_reason
    );
    // accepted as it is
    fleet.heartbeat(1, OLD, None).await;
    fleet.resume(&rollout.id, "on", false).await;
    let update = fleet.reported(1).await;
    fleet.updated(1, &update).await;
    let done = fleet.becomes(&rollout.id, State::Completed).await;
    assert_eq!((done.succeeded_nodes, done.failed_nodes), (1, 0));
}
