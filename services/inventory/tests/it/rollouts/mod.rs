//! Rollouts of the agent: waves, failures, pause, rollback, and what hosts are told.
mod ends;
mod progress;
mod requests;
mod waits;

use api::AgentRolloutNodeState as NodeState;
use api::AgentRolloutState as State;
use gpuaas_proto::gpuaas::internal::inventory::v1::{
    AgentUpdate, AgentUpdateReport, AgentUpdateState, HeartbeatRequest,
};
use gpuaas_proto::gpuaas::inventory::v1 as api;
use gpuaas_proto::gpuaas::inventory::v1::agent_rollout_admin_service_client::AgentRolloutAdminServiceClient;

use crate::host::{Host, good};
use crate::world::{World, until};

const OLD: &str = "80d8a259";
const NEW: &str = "1f2e3d4c";

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
