//! Rollouts of the agent: waves, failures, pause, rollback, and what hosts are told.
mod waits;

use gpuaas_proto::gpuaas::common::v1::EvidenceStatus;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_proto::gpuaas::internal::inventory::v1::{
    AgentUpdate, AgentUpdateReport, AgentUpdateState, HeartbeatRequest,
};
use gpuaas_proto::gpuaas::inventory::v1 as api;
use gpuaas_proto::gpuaas::inventory::v1::agent_rollout_admin_service_client::AgentRolloutAdminServiceClient;

use crate::host::{Host, evidence, good};
use crate::world::{World, refused, until};
use api::AgentRolloutNodeState as NodeState;
use api::AgentRolloutState as State;

const OLD: &str = "80d8a259";
const NEW: &str = "1f2e3d4c";

/// What makes a good request a bad one.
type Change = fn(&mut api::CreateAgentRolloutRequest);

/// A fleet of ready hosts with their racks.
struct Fleet {
    world: World,
    hosts: Vec<Host>,
}

impl Fleet {
    async fn start(racks: &[&str]) -> Self {
        let world = World::start().await;
        let mut hosts = Vec::new();
        for (at, rack) in racks.iter().enumerate() {
            let node = world.create_node(&format!("n{at}")).await;
            let moved = api::UpdateNodeRequest {
                node_id: node.id.clone(),
                rack: Some((*rack).to_owned()),
                ..Default::default()
            };
            let key = format!("rack-{at}");
            let answer = world.nodes().update_node(world.admin(&key, moved)).await;
            answer.expect("rack");
            let host = Host::enrol(&world, &node.id).await;
            host.send_heartbeat().await;
            hosts.push(host);
        }
        Self { world, hosts }
    }

    fn client(&self) -> AgentRolloutAdminServiceClient<gpuaas_common::client::GrpcChannel> {
        AgentRolloutAdminServiceClient::new(self.world.gateway_channel())
    }

    async fn create(&self, key: &str, max_failures: u32) -> api::AgentRollout {
        let answer = self
            .client()
            .create_agent_rollout(self.world.admin(key, request(max_failures)))
            .await;
        answer.expect("rollout").into_inner()
    }

    async fn get(&self, rollout_id: &str) -> api::AgentRollout {
        let get = api::GetAgentRolloutRequest {
            rollout_id: rollout_id.into(),
        };
        let answer = self
            .client()
            .get_agent_rollout(self.world.admin("", get))
            .await;
        answer.expect("rollout").into_inner()
    }

    /// What a host is told as it sends a heartbeat with this version, having said this of its update.
    async fn heartbeat(
        &self,
        at: usize,
        version: &str,
        said: Option<(&AgentUpdate, AgentUpdateState, &str)>,
    ) -> Option<AgentUpdate> {
        let change = |heartbeat: &mut HeartbeatRequest| {
            heartbeat.agent_version = version.into();
            heartbeat.agent_update = said.map(|(update, state, reason)| AgentUpdateReport {
                rollout_id: update.rollout_id.clone(),
                attempt: update.attempt,
                state: state.into(),
                reason: reason.into(),
            });
        };
        let answer = self.hosts[at].heartbeat_with(good(), change).await;
        answer.expect("heartbeat").into_inner().agent_update
    }

    /// Sends heartbeats with the old version until the host is told of its turn.
    async fn reported(&self, at: usize) -> AgentUpdate {
        self.told_as(at, OLD).await
    }

    async fn told_as(&self, at: usize, version: &str) -> AgentUpdate {
        until("the host is told of its turn", || async {
            self.heartbeat(at, version, None).await.is_some()
        })
        .await;
        self.heartbeat(at, version, None).await.expect("told")
    }

    /// Comes back with the version that it was told.
    async fn updated(&self, at: usize, update: &AgentUpdate) {
        let said = Some((update, AgentUpdateState::Installed, ""));
        self.heartbeat(at, &update.version, said).await;
    }

    async fn failed(&self, at: usize, update: &AgentUpdate, reason: &str) {
        let said = Some((update, AgentUpdateState::Failed, reason));
        self.heartbeat(at, OLD, said).await;
    }

    async fn resume(&self, rollout_id: &str, key: &str, retry_failed: bool) {
        let resume = api::ResumeAgentRolloutRequest {
            rollout_id: rollout_id.into(),
            retry_failed,
            ..Default::default()
        };
        let resume = self.world.admin(key, resume);
        let answer = self.client().resume_agent_rollout(resume).await;
        answer.expect("resumed");
    }

    /// Changes what is stored, as time would.
    async fn set(&self, statement: &str) {
        sqlx::raw_sql(sqlx::AssertSqlSafe(statement.to_owned()))
            .execute(&self.world.owner().await)
            .await
            .expect("set");
    }

    async fn becomes(&self, rollout_id: &str, state: State) -> api::AgentRollout {
        until(&format!("rollout becomes {state:?}"), || async {
            self.get(rollout_id).await.state() == state
        })
        .await;
        self.get(rollout_id).await
    }

    async fn node_becomes(&self, rollout_id: &str, at: usize, state: NodeState) {
        until(&format!("node {at} becomes {state:?}"), || async {
            self.node(rollout_id, at).await.state() == state
        })
        .await;
    }

    async fn node(&self, rollout_id: &str, at: usize) -> api::AgentRolloutNode {
        let rollout = self.get(rollout_id).await;
        let mut nodes = rollout.waves.into_iter().flat_map(|wave| wave.nodes);
        let id = self.hosts[at].node_id();
        nodes.find(|node| node.node_id == id).expect("node")
    }
}

fn request(max_failures: u32) -> api::CreateAgentRolloutRequest {
    api::CreateAgentRolloutRequest {
        version: NEW.into(),
        digest: format!("sha256:{}", "a".repeat(64)),
        size_bytes: 4096,
        max_failures,
        reason: "fix".into(),
        ..Default::default()
    }
}

fn waves(rollout: &api::AgentRollout) -> Vec<Vec<&str>> {
    let mut waves = Vec::new();
    for wave in &rollout.waves {
        waves.push(
            wave.nodes
                .iter()
                .map(|node| node.hostname.as_str())
                .collect(),
        );
    }
    waves
}

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
