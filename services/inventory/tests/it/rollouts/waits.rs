//! The time of a turn, which stands still while a host waits for its operations.
use gpuaas_proto::gpuaas::internal::inventory::v1::AgentUpdateState;
use gpuaas_proto::gpuaas::inventory::v1 as api;

use super::{Fleet, NodeState, OLD, State};

/// As if all turns had begun a day before, and the waits in them.
const A_DAY_LATER: &str = "UPDATE inventory.agent_rollout_nodes
    SET start_time = start_time - interval '1 day', wait_time = wait_time - interval '1 day' WHERE state = 'updating'";
/// The same by two thirds of the time of a turn.
const TEN_MINUTES_LATER: &str = "UPDATE inventory.agent_rollout_nodes
    SET start_time = start_time - interval '10 minutes', wait_time = wait_time - interval '10 minutes' WHERE state = 'updating'";
/// As a process of the release before leaves it: the time of an earlier wait.
const OF_AN_EARLIER_WAIT: &str = "UPDATE inventory.agent_rollout_nodes
    SET wait_time = start_time - interval '1 day' WHERE state = 'updating'";

#[tokio::test]
async fn a_10_the_time_of_a_turn_runs_from_the_end_of_its_wait_for_operations() {
    let fleet = Fleet::start(&["r1", "r2", "r2"]).await;
    let rollout = fleet.create("k", 1).await;
    let update = fleet.reported(0).await;
    fleet.updated(0, &update).await;
    let (busy, slow) = (fleet.reported(1).await, fleet.reported(2).await);
    let says = async |at, update, state| fleet.heartbeat(at, OLD, Some((update, state, ""))).await;
    says(1, &busy, AgentUpdateState::Waiting).await;
    says(2, &slow, AgentUpdateState::Fetching).await;
    fleet.set(A_DAY_LATER).await;
    fleet.node_becomes(&rollout.id, 2, NodeState::Failed).await;
    // judged in the same step
    assert_eq!(
        fleet.node(&rollout.id, 1).await.state(),
        NodeState::Updating
    );
    fleet.set(OF_AN_EARLIER_WAIT).await;
    says(1, &busy, AgentUpdateState::Fetching).await;
    let begun = fleet.node(&rollout.id, 1).await.start_time.expect("start");
    let node = fleet.node(&rollout.id, 2).await;
    assert!(
        begun.seconds > node.end_time.expect("end").seconds - 60,
        "a day ago"
    );
    let now = jiff::Timestamp::now().as_second();
    assert!(begun.seconds <= now, "{begun:?}, now {now}");
    fleet.updated(1, &busy).await;
    fleet.becomes(&rollout.id, State::Completed).await;
}

/// Before, every wait began the time of the turn anew, and a host that waited again and again held up all rollouts.
#[tokio::test]
async fn a_10_a_host_that_waits_again_and_again_has_the_time_of_one_turn_beside_its_waits() {
    let fleet = Fleet::start(&["r1", "r2"]).await;
    let rollout = fleet.create("k", 0).await;
    let update = fleet.reported(0).await;
    let says = async |state| fleet.heartbeat(0, OLD, Some((&update, state, ""))).await;
    for round in 1..=2 {
        assert!(says(AgentUpdateState::Waiting).await.is_some(), "{round}");
        fleet.set(A_DAY_LATER).await;
        // a day of waiting is no time of its turn
        assert!(says(AgentUpdateState::Fetching).await.is_some(), "{round}");
        fleet.set(TEN_MINUTES_LATER).await;
    }
    fleet.node_becomes(&rollout.id, 0, NodeState::Failed).await;
    let paused = fleet.becomes(&rollout.id, State::Paused).await;
    assert_eq!(paused.failed_nodes, 1);
}

#[tokio::test]
async fn a_10_after_an_abort_the_time_of_a_turn_runs_also_while_a_host_waits() {
    let fleet = Fleet::start(&["r1", "r2"]).await;
    let rollout = fleet.create("k", 0).await;
    let update = fleet.reported(0).await;
    let says = async |state| fleet.heartbeat(0, OLD, Some((&update, state, ""))).await;
    let abort = api::AbortAgentRolloutRequest {
        rollout_id: rollout.id.clone(),
        reason: "wrong one".into(),
        ..Default::default()
    };
    let abort = fleet.world.admin("abort", abort);
    let aborted = fleet.client().abort_agent_rollout(abort).await;
    aborted.expect("aborted");
    for _ in 0..2 {
        says(AgentUpdateState::Waiting).await;
        fleet.set(TEN_MINUTES_LATER).await;
        says(AgentUpdateState::Fetching).await;
    }
    fleet.node_becomes(&rollout.id, 0, NodeState::Failed).await;
    // it makes way for the next one
    fleet.create("k2", 0).await;
}
