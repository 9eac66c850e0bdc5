//! Rollback, abort, and one rollout at a time.
use api::AgentRolloutNodeState as NodeState;
use api::AgentRolloutState as State;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_proto::gpuaas::inventory::v1 as api;

use super::{Fleet, NEW, OLD, request, waves};
use crate::world::refused;

#[tokio::test]
async fn a_10_a_rollback_brings_what_was_changed_back_to_its_version_before() {
    let fleet = Fleet::start(&["r1", "r1"]).await;
    let rollout = fleet.create("k", 0).await;
    let update = fleet.reported(0).await;
    let rollback = api::RollbackAgentRolloutRequest {
        rollout_id: rollout.id.clone(),
        ..Default::default()
    };
    let admin = |key| fleet.world.admin(key, rollback.clone());
    // a node in the middle of its update is nobody's to roll back
    let error = refused(fleet.client().rollback_agent_rollout(admin("early")).await);
    assert_eq!(error.reason(), ErrorReason::StateConflict);
    let pause = api::PauseAgentRolloutRequest {
        rollout_id: rollout.id.clone(),
        ..Default::default()
    };
    let pause = fleet.world.admin("pause", pause);
    fleet
        .client()
        .pause_agent_rollout(pause)
        .await
        .expect("paused");
    // what has begun ends also while the rollout is paused
    fleet.updated(0, &update).await;
    fleet
        .node_becomes(&rollout.id, 0, NodeState::Succeeded)
        .await;
    assert_eq!(
        fleet.heartbeat(1, OLD, None).await,
        None,
        "nothing begins while it is paused"
    );
    let answer = fleet.client().rollback_agent_rollout(admin("back")).await;
    let back = answer.expect("rollback").into_inner();
    let answer = fleet.client().rollback_agent_rollout(admin("back")).await;
    assert_eq!(answer.expect("replay").into_inner().id, back.id);
    assert_eq!(waves(&back), [vec!["n0"]], "only what was changed");
    assert_eq!(back.rollback_of, rollout.id);
    assert_eq!(fleet.get(&rollout.id).await.state(), State::Aborted);
    let reported = fleet.told_as(0, NEW).await;
    assert_eq!(
        (
            reported.version.as_str(),
            reported.rollback,
            reported.digest.as_str()
        ),
        (OLD, true, "")
    );
    fleet.updated(0, &reported).await;
    fleet.becomes(&back.id, State::Completed).await;
}

#[tokio::test]
async fn one_rollout_runs_at_a_time_and_an_aborted_one_makes_way() {
    let fleet = Fleet::start(&["", ""]).await;
    let rollout = fleet.create("k", 0).await;
    assert_eq!(
        fleet.create("k", 0).await.id,
        rollout.id,
        "the same key is the same rollout"
    );
    let second = fleet.world.admin("k2", request(0));
    let error = refused(fleet.client().create_agent_rollout(second).await);
    assert_eq!(error.reason(), ErrorReason::StateConflict);
    let update = fleet.reported(0).await;
    let abort = |etag: &str, key: &str| {
        let abort = api::AbortAgentRolloutRequest {
            rollout_id: rollout.id.clone(),
            etag: etag.into(),
            reason: "wrong one".into(),
        };
        fleet.world.admin(key, abort)
    };
    let error = refused(fleet.client().abort_agent_rollout(abort("0", "a1")).await);
    assert_eq!(error.reason(), ErrorReason::EtagStale);
    fleet
        .client()
        .abort_agent_rollout(abort("", "a2"))
        .await
        .expect("aborted");
    assert_eq!(fleet.node(&rollout.id, 1).await.state(), NodeState::Skipped);
    // the host that has begun is brought to its end before another rollout begins
    let third = fleet.world.admin("k3", request(0));
    let error = refused(fleet.client().create_agent_rollout(third).await);
    assert_eq!(error.reason(), ErrorReason::StateConflict);
    fleet.updated(0, &update).await;
    fleet
        .node_becomes(&rollout.id, 0, NodeState::Succeeded)
        .await;
    let next = fleet.create("k4", 0).await;
    // the first has the version already, and the second is told
    assert_eq!(fleet.reported(1).await.rollout_id, next.id);
    assert_eq!(fleet.node(&next.id, 0).await.state(), NodeState::Succeeded);
    let listed = fleet
        .client()
        .list_agent_rollouts(
            fleet
                .world
                .admin("", api::ListAgentRolloutsRequest::default()),
        )
        .await
        .expect("list")
        .into_inner();
    let ids: Vec<&str> = listed.rollouts.iter().map(|one| one.id.as_str()).collect();
    assert_eq!(ids, [next.id.as_str(), rollout.id.as_str()]);

    let select = async |filter: &str, order_by: &str, page_token: &str| {
        let request = api::ListAgentRolloutsRequest {
            filter: filter.into(),
            order_by: order_by.into(),
            page_size: 1,
            page_token: page_token.into(),
        };
        let request = fleet.world.admin("", request);
        fleet.client().list_agent_rollouts(request).await
    };
    for (filter, order_by, expected) in [
        ("state = aborted", "", &rollout.id),
        ("NOT end_time:* OR rollback_of:*", "", &next.id),
        (
            "version:1F2E AND total_nodes = 2",
            "create_time",
            &rollout.id,
        ),
        ("", "state", &rollout.id),
        // equal in both: the later one first, as the order ends
        ("", "succeeded_nodes, failed_nodes desc", &next.id),
    ] {
        let page = select(filter, order_by, "").await;
        let page = page.expect(filter).into_inner();
        let found: Vec<_> = page.rollouts.iter().map(|one| &one.id).collect();
        assert_eq!(found, [expected], "{filter} by {order_by}");
    }
    for name in ["version", "principal", "total_nodes", "create_time desc"] {
        let first = select("", name, "").await.expect(name).into_inner();
        let rest = select("", name, &first.next_page_token).await;
        let rest = rest.expect(name).into_inner();
        assert_ne!(rest.rollouts[0].id, first.rollouts[0].id, "{name}");
        let other = refused(select("", "state", &first.next_page_token).await);
        assert_eq!(other.reason(), ErrorReason::PageTokenInvalid);
    }
    for (filter, order_by, field) in [("digest:*", "", "filter"), ("", "reason", "order_by")] {
        let error = refused(select(filter, order_by, "").await);
        assert_eq!(error.fields()[0].0, field);
    }
}
