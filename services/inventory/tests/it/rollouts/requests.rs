//! What is refused, and what a heartbeat tells of a build.
use gpuaas_proto::gpuaas::internal::inventory::v1::HeartbeatRequest;
use gpuaas_proto::gpuaas::inventory::v1 as api;

use super::{Fleet, NEW, OLD, request};
use crate::host::good;
use crate::world::refused;

/// What makes a good request a bad one.
type Change = fn(&mut api::CreateAgentRolloutRequest);

#[tokio::test]
async fn a_rollout_that_names_no_package_or_no_node_is_refused_by_field_and_changes_nothing() {
    let fleet = Fleet::start(&["r1"]).await;
    let table: [(Change, &str); 9] = [
        (|r| r.version.clear(), "version"),
        (|r| r.version = "a b".into(), "version"),
        (|r| r.digest.clear(), "digest"),
        (|r| r.digest = "sha256:1".into(), "digest"),
        (|r| r.size_bytes = 0, "size_bytes"),
        (|r| r.node_ids = vec!["x".into()], "node_ids"),
        (
            |r| r.node_ids = vec![uuid::Uuid::now_v7().to_string()],
            "node_ids",
        ),
        (
            |r| r.first_node_id = uuid::Uuid::now_v7().to_string(),
            "first_node_id",
        ),
        (|r| r.node_timeout_seconds = 5, "node_timeout_seconds"),
    ];
    for (at, (change, field)) in table.into_iter().enumerate() {
        let mut desired = request(0);
        change(&mut desired);
        let desired = fleet.world.admin(&format!("k{at}"), desired);
        let error = refused(fleet.client().create_agent_rollout(desired).await);
        let fields = error.fields();
        assert!(
            fields.iter().any(|(name, _)| name.starts_with(field)),
            "{field}: {error:?}"
        );
    }
    let audited = fleet.world.audited().await;
    assert!(!audited.iter().any(|one| one.starts_with("agent_rollout")));
}

#[tokio::test]
async fn a_10_a_heartbeat_tells_version_and_time_of_the_build() {
    let fleet = Fleet::start(&[""]).await;
    let built = prost_types::Timestamp {
        seconds: 1_790_000_000,
        nanos: 0,
    };
    let change = |heartbeat: &mut HeartbeatRequest| {
        heartbeat.agent_version = NEW.into();
        heartbeat.agent_built_time = Some(built);
    };
    let answer = fleet.hosts[0].heartbeat_with(good(), change).await;
    answer.expect("heartbeat");
    let instance = |status: api::NodeStatus| status.instance.expect("instance");
    let shown = instance(fleet.world.status(fleet.hosts[0].node_id()).await);
    assert_eq!(
        (shown.agent_version.as_str(), shown.agent_built_time),
        (NEW, Some(built))
    );
    // one that does not tell has not the time of another version
    fleet.heartbeat(0, OLD, None).await;
    let shown = instance(fleet.world.status(fleet.hosts[0].node_id()).await);
    assert_eq!(
        (shown.agent_version.as_str(), shown.agent_built_time),
        (OLD, None)
    );
}
