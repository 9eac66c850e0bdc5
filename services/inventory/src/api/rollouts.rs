//! Rollouts of the agent, as operators shape them.
use gpuaas_common::error::{Error, Result};
use gpuaas_common::select::{Selection, Wanted};
use gpuaas_common::{audit, etag, id, page};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_proto::gpuaas::inventory::v1 as api;
use gpuaas_proto::gpuaas::inventory::v1::agent_rollout_admin_service_server::AgentRolloutAdminService;
use prost::Message;
use serde_json::json;
use sqlx::PgConnection;
use tonic::{Code, Request, Response, Status};
use uuid::Uuid;

use super::rollout_request::{Limits, Package};
use super::{Mutation, Rollouts};
use crate::convert;
use crate::domain::rollout::waves;
use crate::store::rollouts::{self, NewNode, NewRollout, RolloutNodeRow, RolloutRow};

const MAX_NODES: usize = 10_000;

#[tonic::async_trait]
impl AgentRolloutAdminService for Rollouts {
    async fn create_agent_rollout(
        &self,
        request: Request<api::CreateAgentRolloutRequest>,
    ) -> Result<Response<api::AgentRollout>, Status> {
        let id = self.create(&request).await?;
        Ok(Response::new(self.get(id).await?))
    }

    async fn list_agent_rollouts(
        &self,
        request: Request<api::ListAgentRolloutsRequest>,
    ) -> Result<Response<api::ListAgentRolloutsResponse>, Status> {
        Ok(Response::new(self.list(request.get_ref()).await?))
    }

    async fn get_agent_rollout(
        &self,
        request: Request<api::GetAgentRolloutRequest>,
    ) -> Result<Response<api::AgentRollout>, Status> {
        let id = id::parse("rollout_id", &request.get_ref().rollout_id)?;
        Ok(Response::new(self.get(id).await?))
    }

    async fn pause_agent_rollout(
        &self,
        request: Request<api::PauseAgentRolloutRequest>,
    ) -> Result<Response<api::AgentRollout>, Status> {
        let desired = request.get_ref();
        let about = (
            desired.rollout_id.as_str(),
            desired.etag.as_str(),
            desired.reason.as_str(),
        );
        let id = self.change(&request, about, Change::Pause).await?;
        Ok(Response::new(self.get(id).await?))
    }

    async fn resume_agent_rollout(
        &self,
        request: Request<api::ResumeAgentRolloutRequest>,
    ) -> Result<Response<api::AgentRollout>, Status> {
        let desired = request.get_ref();
        let about = (
            desired.rollout_id.as_str(),
            desired.etag.as_str(),
            desired.reason.as_str(),
        );
        let retry = Change::Resume(desired.retry_failed);
        let id = self.change(&request, about, retry).await?;
        Ok(Response::new(self.get(id).await?))
    }

    async fn abort_agent_rollout(
        &self,
        request: Request<api::AbortAgentRolloutRequest>,
    ) -> Result<Response<api::AgentRollout>, Status> {
        let desired = request.get_ref();
        let about = (
            desired.rollout_id.as_str(),
            desired.etag.as_str(),
            desired.reason.as_str(),
        );
        let id = self.change(&request, about, Change::Abort).await?;
        Ok(Response::new(self.get(id).await?))
    }

    async fn rollback_agent_rollout(
        &self,
        request: Request<api::RollbackAgentRolloutRequest>,
    ) -> Result<Response<api::AgentRollout>, Status> {
        let id = self.roll_back(&request).await?;
        Ok(Response::new(self.get(id).await?))
    }
}

/// What an operator makes of a rollout.
#[derive(Debug, Clone, Copy)]
enum Change {
    Pause,
    /// With another turn for failed nodes, or without.
    Resume(bool),
    Abort,
}

impl Change {
    /// Method, action in the audit trail, states that it is possible in, and the state afterwards.
    fn rule(
        self,
    ) -> (
        &'static str,
        &'static str,
        &'static [&'static str],
        &'static str,
    ) {
        match self {
            Self::Pause => (
                "PauseAgentRollout",
                "agent_rollout.pause",
                &["running"],
                "paused",
            ),
            Self::Resume(_) => (
                "ResumeAgentRollout",
                "agent_rollout.resume",
                &["paused"],
                "running",
            ),
            Self::Abort => (
                "AbortAgentRollout",
                "agent_rollout.abort",
                &["running", "paused"],
                "aborted",
            ),
        }
    }
}

impl Rollouts {
    async fn create(&self, request: &Request<api::CreateAgentRolloutRequest>) -> Result<Uuid> {
        let mutation = Mutation::of(request, "CreateAgentRollout")?;
        let desired = request.get_ref();
        let package = Package::of(desired)?;
        let limits = Limits::of(desired)?;
        audit::check_reason(&desired.reason)?;
        if desired.node_ids.len() > MAX_NODES {
            return Err(Error::invalid(
                "node_ids",
                format!("must be at most {MAX_NODES}"),
            ));
        }
        let node_ids = id::parse_all("node_ids", &desired.node_ids)?;
        let first = match desired.first_node_id.as_str() {
            "" => None,
            text => Some(id::parse("first_node_id", text)?),
        };
        let rollout_id = self.0.ids.next();
        let key = rollout_id.to_string();
        let mut tx = self.0.pool.begin().await?;
        if let Some(earlier) = mutation.take_key(&mut tx, &key).await? {
            return earlier.parse().map_err(Error::internal);
        }
        let detail = json!({
            "version": desired.version, "digest": desired.digest, "node_ids": desired.node_ids, "first_node_id": desired.first_node_id,
            "max_failures": desired.max_failures, "reason": desired.reason,
        });
        none_live(&mut tx).await?;
        let planned = rollouts::candidates(&mut tx, &node_ids).await?;
        if let Some(absent) = node_ids
            .iter()
            .find(|id| !planned.iter().any(|node| node.id == **id))
        {
            return Err(Error::invalid(
                "node_ids",
                format!("must be enrolled nodes in service, and {absent} is none"),
            ));
        }
        if first.is_some_and(|first| !planned.iter().any(|node| node.id == first)) {
            return Err(Error::invalid(
                "first_node_id",
                "must be one of the nodes of the rollout",
            ));
        }
        let nodes: Vec<NewNode> = waves(&planned, first)
            .into_iter()
            .map(|(id, wave)| NewNode {
                id,
                wave,
                version: desired.version.clone(),
            })
            .collect();
        if nodes.is_empty() {
            return Err(conflict("No enrolled node is in service.", "no_nodes"));
        }
        let new = NewRollout {
            id: rollout_id,
            version: package.version,
            digest: package.digest,
            size_bytes: package.size_bytes,
            rollback_of: None,
            max_failures: limits.max_failures,
            max_parallel: limits.max_parallel,
            node_timeout_seconds: limits.node_timeout_seconds,
            principal: &mutation.caller.principal,
            reason: &desired.reason,
        };
        rollouts::insert(&mut tx, &new, &nodes).await?;
        record_made(
            &mutation,
            &mut tx,
            rollout_id,
            "agent_rollout.create",
            detail,
        )
        .await?;
        tx.commit().await?;
        tracing::info!(%rollout_id, version = desired.version, nodes = nodes.len(), "begin rollout of agent");
        Ok(rollout_id)
    }

    async fn change<T: Message>(
        &self,
        request: &Request<T>,
        (rollout_id, given, reason): (&str, &str, &str),
        change: Change,
    ) -> Result<Uuid> {
        let (method, action, from, to) = change.rule();
        let mutation = Mutation::of(request, method)?;
        let rollout_id = id::parse("rollout_id", rollout_id)?;
        audit::check_reason(reason)?;
        let key = rollout_id.to_string();
        let mut tx = self.0.pool.begin().await?;
        if mutation.take_key(&mut tx, &key).await?.is_some() {
            return Ok(rollout_id);
        }
        let row = lock(&mut tx, rollout_id, given).await?;
        if !from.contains(&row.state.as_str()) {
            return Err(conflict(
                &format!("The rollout is {}.", row.state),
                &row.state,
            ));
        }
        let retry = matches!(change, Change::Resume(true));
        let detail = json!({ "reason": reason, "retry_failed": retry });
        let before = stored(&mut tx, rollout_id).await?;
        if let Change::Resume(retry) = change {
            rollouts::accept_failures(&mut tx, rollout_id, retry).await?;
        }
        rollouts::set_state(&mut tx, rollout_id, to, reason).await?;
        let after = stored(&mut tx, rollout_id).await?;
        let detail = audit::with_digests(detail, Some(&before), Some(&after));
        mutation
            .audit(&mut tx, action, ("agent_rollout", &key), detail)
            .await?;
        tx.commit().await?;
        tracing::info!(%rollout_id, state = to, "change rollout of agent");
        Ok(rollout_id)
    }

    async fn roll_back(&self, request: &Request<api::RollbackAgentRolloutRequest>) -> Result<Uuid> {
        let mutation = Mutation::of(request, "RollbackAgentRollout")?;
        let desired = request.get_ref();
        let earlier_id = id::parse("rollout_id", &desired.rollout_id)?;
        audit::check_reason(&desired.reason)?;
        let rollout_id = self.0.ids.next();
        let key = rollout_id.to_string();
        let mut tx = self.0.pool.begin().await?;
        if let Some(earlier) = mutation.take_key(&mut tx, &key).await? {
            return earlier.parse().map_err(Error::internal);
        }
        let row = lock(&mut tx, earlier_id, &desired.etag).await?;
        if row.rollback_of.is_some() {
            return Err(conflict(
                "A rollback has no version before; begin a rollout of the version that the nodes shall have.",
                "rollback",
            ));
        }
        if row.updating > 0 {
            let text = format!(
                "{} nodes are being updated. Pause the rollout, and roll back when they have ended; or abort it, so that \
                 hosts that wait for operations are given up when the time of their turn is over.",
                row.updating
            );
            return Err(conflict(&text, "updating"));
        }
        let nodes = before(rollouts::nodes(&mut tx, earlier_id, false).await?);
        if nodes.is_empty() {
            return Err(conflict(
                "The rollout has changed no node.",
                "nothing_to_roll_back",
            ));
        }
        let detail =
            json!({ "rollback_of": earlier_id, "nodes": nodes.len(), "reason": desired.reason });
        if row.end_time.is_none() {
            let reason = format!("Rolled back by {rollout_id}.");
            rollouts::set_state(&mut tx, earlier_id, "aborted", &reason).await?;
        }
        none_live(&mut tx).await?;
        let new = NewRollout {
            id: rollout_id,
            version: "",
            digest: "",
            size_bytes: 0,
            rollback_of: Some(earlier_id),
            max_failures: row.max_failures,
            max_parallel: row.max_parallel,
            node_timeout_seconds: row.node_timeout_seconds,
            principal: &mutation.caller.principal,
            reason: &desired.reason,
        };
        rollouts::insert(&mut tx, &new, &nodes).await?;
        record_made(
            &mutation,
            &mut tx,
            rollout_id,
            "agent_rollout.rollback",
            detail,
        )
        .await?;
        tx.commit().await?;
        tracing::info!(%rollout_id, rollback_of = %earlier_id, nodes = nodes.len(), "roll agent back");
        Ok(rollout_id)
    }

    async fn get(&self, id: Uuid) -> Result<api::AgentRollout> {
        let mut tx = self.0.pool.begin().await?;
        stored(&mut tx, id).await
    }

    async fn list(
        &self,
        request: &api::ListAgentRolloutsRequest,
    ) -> Result<api::ListAgentRolloutsResponse> {
        let selection = Selection::parse(&rollouts::ROLLOUTS, &request.filter, &request.order_by)?;
        let wanted = Wanted {
            page_token: &request.page_token,
            size: page::page_size(request.page_size)?,
            query: &["agent_rollouts"],
        };
        let mut conn = self.0.pool.acquire().await?;
        let (rows, next_page_token) = rollouts::list(&mut conn, &selection, wanted).await?;
        Ok(api::ListAgentRolloutsResponse {
            rollouts: rows
                .into_iter()
                .map(|row| convert::rollout(row, Vec::new()))
                .collect(),
            next_page_token,
        })
    }
}

/// The nodes that a rollout has changed, each with its version before, in the order of their waves.
fn before(nodes: Vec<RolloutNodeRow>) -> Vec<NewNode> {
    let changed: Vec<RolloutNodeRow> = nodes
        .into_iter()
        .filter(|node| !node.from_version.is_empty() && node.agent_version == node.version)
        .collect();
    let mut numbers: Vec<i32> = changed.iter().map(|node| node.wave).collect();
    numbers.dedup();
    let number = |wave| {
        let at = numbers.iter().position(|number| *number == wave);
        i32::try_from(at.unwrap_or_default()).unwrap_or_default() + 1
    };
    changed
        .iter()
        .map(|node| NewNode {
            id: node.node_id,
            wave: number(node.wave),
            version: node.from_version.clone(),
        })
        .collect()
}

async fn lock(conn: &mut PgConnection, id: Uuid, given: &str) -> Result<RolloutRow> {
    let row = rollouts::find(conn, id, true)
        .await?
        .ok_or_else(|| absent(id))?;
    etag::check(given, &row.etag())?;
    Ok(row)
}

/// A rollout with its nodes, as the API shows it.
async fn stored(conn: &mut PgConnection, id: Uuid) -> Result<api::AgentRollout> {
    let row = rollouts::find(conn, id, false).await?;
    let row = row.ok_or_else(|| absent(id))?;
    Ok(convert::rollout(
        row,
        rollouts::nodes(conn, id, false).await?,
    ))
}

/// The audit row of a rollout that was made.
async fn record_made(
    mutation: &Mutation,
    conn: &mut PgConnection,
    id: Uuid,
    action: &str,
    detail: serde_json::Value,
) -> Result<()> {
    let made = stored(conn, id).await?;
    let detail = audit::with_digests(detail, None, Some(&made));
    let about = ("agent_rollout", made.id.as_str());
    mutation.audit(conn, action, about, detail).await
}

async fn none_live(conn: &mut PgConnection) -> Result<()> {
    if rollouts::live(conn).await? {
        return Err(conflict(
            "Another rollout of the agent is not ended. Wait for it, or abort it.",
            "live",
        ));
    }
    Ok(())
}

fn absent(id: Uuid) -> Error {
    Error::new(
        Code::NotFound,
        ErrorReason::NotFound,
        format!("There is no rollout {id} of the agent."),
    )
}

fn conflict(text: &str, state: &str) -> Error {
    Error::new(
        Code::FailedPrecondition,
        ErrorReason::StateConflict,
        text.to_owned(),
    )
    .meta("state", state)
}
