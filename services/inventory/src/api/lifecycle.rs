//! The lifecycle of nodes and slots as operators shape it: labels, mode and limit, retirement, deletion.
use gpuaas_common::error::{Error, Result};
use gpuaas_common::{audit, etag, id, labels};
use gpuaas_proto::gpuaas::common::v1::SlotStatus;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_proto::gpuaas::internal::scheduler::v1 as ledger;
use gpuaas_proto::gpuaas::inventory::v1 as api;
use serde_json::json;
use tonic::{Code, Request};
use uuid::Uuid;

use super::{LEDGER, Mutation, Nodes, bad, no_node};
use crate::convert;
use crate::domain::lifecycle::Removed;
use crate::domain::names::{NodeMode, RackName};
use crate::store::ledger_sync::{self, Kind, SendLock};
use crate::store::lifecycle::{self, NodeConfig};
use crate::store::nodes::{self, NodeRow};
use crate::workflow::ledger_sync::{push_now, set_desired_node};

/// A node that is being ended is not sent to the ledger for so long: longer than its last two calls take.
const HOLD_SECONDS: u32 = 60;

impl Nodes {
    pub(super) async fn update(&self, request: &Request<api::UpdateNodeRequest>) -> Result<Uuid> {
        let mutation = Mutation::of(request, "UpdateNode")?;
        let desired = request.get_ref();
        let node_id = id::parse("node_id", &desired.node_id)?;
        let mode = match desired.mode.as_str() {
            "" => None,
            text => Some(NodeMode::parse(text).map_err(bad("mode"))?),
        };
        let limit = desired.max_vms_per_node.map(i32::try_from).transpose();
        let limit =
            limit.map_err(|_| Error::invalid("max_vms_per_node", "must be at most 2147483647"))?;
        if let Some(given) = &desired.labels {
            labels::check(&given.labels)?;
        }
        let rack = desired.rack.as_deref().map(RackName::parse).transpose();
        let rack = rack.map_err(bad("rack"))?;
        audit::check_reason(&desired.reason)?;
        if mutation.made(&self.0.pool).await?.is_some() {
            return Ok(node_id);
        }
        // read before the transaction: none is held while the ledger is asked
        let in_ledger = self.in_ledger(node_id).await?;
        let key = node_id.to_string();
        let mut tx = self.0.pool.begin().await?;
        if mutation.take_key(&mut tx, &key).await?.is_some() {
            return Ok(node_id);
        }
        let row = self.lock(&mut tx, node_id, &desired.etag).await?;
        in_service(&row)?;
        let config = NodeConfig {
            mode: match mode {
                Some(mode) => mode.as_str(),
                None => &row.mode,
            },
            max_vms_per_node: limit.unwrap_or(row.max_vms_per_node),
            labels: desired
                .labels
                .as_ref()
                .map_or(&row.labels.0, |given| &given.labels),
            rack: rack.as_ref().map_or(row.rack.as_str(), RackName::as_str),
        };
        let reconfigures =
            config.mode != row.mode || config.max_vms_per_node != row.max_vms_per_node;
        if reconfigures {
            out_of_service(&row, in_ledger.as_ref())?;
        }
        let detail = json!({
            "mode": config.mode, "max_vms_per_node": config.max_vms_per_node, "labels": config.labels,
            "rack": config.rack, "reason": desired.reason,
        });
        lifecycle::set_config(&mut tx, node_id, &config).await?;
        set_desired_node(&mut tx, node_id, self.0.config.freshness(), false).await?;
        let before = convert::node(row.clone(), None)?;
        let after = self.stored(&mut tx, node_id).await?;
        let detail = audit::with_digests(detail, Some(&before), Some(&after));
        mutation
            .audit(&mut tx, "node.update", ("node", &key), detail)
            .await?;
        tx.commit().await?;
        tracing::info!(%node_id, mode = config.mode, max_vms = config.max_vms_per_node, "update node");
        push_now(&self.0, Kind::Node, &key).await;
        Ok(node_id)
    }

    pub(super) async fn retire_node_as(
        &self,
        request: &Request<api::RetireNodeRequest>,
    ) -> Result<Uuid> {
        let mutation = Mutation::of(request, "RetireNode")?;
        let desired = request.get_ref();
        reason(&desired.reason)?;
        let end = End {
            how: Removed::Retired,
            action: "node.retire",
            etag: &desired.etag,
            reason: &desired.reason,
        };
        self.remove(&mutation, &desired.node_id, &end).await
    }

    pub(super) async fn delete(&self, request: &Request<api::DeleteNodeRequest>) -> Result<Uuid> {
        let mutation = Mutation::of(request, "DeleteNode")?;
        let desired = request.get_ref();
        audit::check_reason(&desired.reason)?;
        let end = End {
            how: Removed::Deleted,
            action: "node.delete",
            etag: &desired.etag,
            reason: &desired.reason,
        };
        self.remove(&mutation, &desired.node_id, &end).await
    }

    /// The ledger first: it knows what is on the node. It takes the same key twice as once.
    async fn remove(&self, mutation: &Mutation, node_id: &str, end: &End<'_>) -> Result<Uuid> {
        let node_id = id::parse("node_id", node_id)?;
        if mutation.made(&self.0.pool).await?.is_some() {
            return Ok(node_id);
        }
        let mut has_begun = false;
        loop {
            let row = self.row(node_id).await?;
            in_service(&row)?;
            // once the ledger may have ended the node, there is no way back to what the caller has read
            if !has_begun {
                etag::check(end.etag, &row.etag())?;
            }
            has_begun |= row.instance_id.is_some();
            self.end_row_in_ledger(&row, mutation, end).await?;
            if self.remove_unless_enrolled(&row, mutation, end).await? {
                return Ok(node_id);
            }
        }
    }

    /// Ends a node in the ledger, where a host of it ever could have entered it.
    async fn end_row_in_ledger(
        &self,
        row: &NodeRow,
        mutation: &Mutation,
        end: &End<'_>,
    ) -> Result<()> {
        if row.instance_id.is_none() {
            return Ok(());
        }
        let request = ledger::RetireNodeRequest {
            node_id: row.id.to_string(),
            reason: end.reason.to_owned(),
            principal: mutation.caller.principal.clone(),
            request_id: mutation.caller.request_id.clone(),
            idempotency_key: mutation.key.clone(),
            never_used: end.how == Removed::Deleted,
        };
        self.end_in_ledger(row, request).await
    }

    /// Removes a node that was ended in the ledger as it was read. False, and nothing changed: a host has enrolled since,
    /// and the ledger is told of that one.
    async fn remove_unless_enrolled(
        &self,
        row: &NodeRow,
        mutation: &Mutation,
        end: &End<'_>,
    ) -> Result<bool> {
        let (node_id, key) = (row.id, row.id.to_string());
        let mut tx = self.0.pool.begin().await?;
        if mutation.take_key(&mut tx, &key).await?.is_some() {
            return Ok(true);
        }
        nodes::lock(&mut tx, node_id).await?;
        // somebody else may have ended it since
        let now = nodes::find(&mut tx, node_id, self.0.config.freshness()).await?;
        let now = now.ok_or_else(|| no_node(&node_id))?;
        in_service(&now)?;
        if now.instance_id != row.instance_id {
            return Ok(false);
        }
        let detail = json!({ "reason": end.reason, "hostname": row.hostname });
        let before = convert::node(now, None)?;
        lifecycle::remove(&mut tx, node_id, end.how).await?;
        let after = match end.how {
            Removed::Deleted => None,
            _ => Some(self.stored(&mut tx, node_id).await?),
        };
        let detail = audit::with_digests(detail, Some(&before), after.as_ref());
        mutation
            .audit(&mut tx, end.action, ("node", &key), detail)
            .await?;
        ledger_sync::give_up(&mut tx, Kind::Node, &key).await?;
        tx.commit().await?;
        tracing::info!(%node_id, how = end.how.as_str(), "remove node");
        Ok(true)
    }

    /// Ends a node in the ledger. One that the ledger does not know yet must not enter it afterwards, so nothing of it may
    /// be under way by then.
    async fn end_in_ledger(&self, row: &NodeRow, request: ledger::RetireNodeRequest) -> Result<()> {
        if self.retire_in_ledger(request.clone()).await? {
            return Ok(());
        }
        let key = request.node_id.clone();
        let this = (Kind::Node, key.as_str());
        let epoch = match ledger_sync::hold(&self.0.pool, this, HOLD_SECONDS).await? {
            SendLock::Ours(epoch) => epoch,
            SendLock::InFlight => {
                let text = format!(
                    "Node {} is being sent to the ledger. Try again in a few seconds.",
                    row.hostname
                );
                return Err(Error::new(
                    Code::Unavailable,
                    ErrorReason::DependencyUnavailable,
                    text,
                ));
            }
        };
        // it may have arrived since
        let ended = self.retire_in_ledger(request).await;
        if let (Err(_), Some(epoch)) = (&ended, epoch) {
            ledger_sync::let_go(&self.0.pool, this, epoch).await?;
        }
        ended.map(drop)
    }

    /// Whether the ledger knows the node, which it has ended then.
    async fn retire_in_ledger(&self, request: ledger::RetireNodeRequest) -> Result<bool> {
        match self.0.ledger()?.retire_node(request).await {
            Ok(_) => Ok(true),
            Err(status) => match Error::from(status) {
                unknown if unknown.reason() == ErrorReason::NodeNotFound => Ok(false),
                refused => Err(refused),
            },
        }
    }

    pub(super) async fn retire_slot(
        &self,
        request: &Request<api::RetireResourceSlotRequest>,
    ) -> Result<api::ResourceSlot> {
        let mutation = Mutation::of(request, "RetireResourceSlot")?;
        let desired = request.get_ref();
        let node_id = id::parse("node_id", &desired.node_id)?;
        let slot_id = id::parse("slot_id", &desired.slot_id)?.to_string();
        reason(&desired.reason)?;
        // a repeated call is answered by the ledger, which knows the key
        if mutation.made(&self.0.pool).await?.is_none() {
            self.row(node_id).await?;
        }
        let request = ledger::RetireSlotRequest {
            node_id: node_id.to_string(),
            slot_id: slot_id.clone(),
            reason: desired.reason.clone(),
            principal: mutation.caller.principal.clone(),
            request_id: mutation.caller.request_id.clone(),
            idempotency_key: mutation.key.clone(),
            etag: desired.etag.clone(),
        };
        let slot = self.0.ledger()?.retire_slot(request).await?.into_inner();
        let mut tx = self.0.pool.begin().await?;
        if mutation.take_key(&mut tx, &slot_id).await?.is_none() {
            let detail = json!({ "node_id": node_id, "reason": desired.reason });
            let detail = audit::with_digests_elsewhere(detail, LEDGER);
            let about = ("slot", slot_id.as_str());
            mutation
                .audit(&mut tx, "slot.retire", about, detail)
                .await?;
            tx.commit().await?;
            tracing::info!(%node_id, slot_id, "retire slot");
        }
        Ok(convert::slot(slot))
    }

    /// A node as digests are of it: without what the ledger has of it.
    pub(super) async fn stored(
        &self,
        conn: &mut sqlx::PgConnection,
        node_id: Uuid,
    ) -> Result<api::Node> {
        let row = nodes::find(conn, node_id, self.0.config.freshness()).await?;
        convert::node(row.ok_or_else(|| no_node(&node_id))?, None)
    }

    /// The row of a node, locked, if it is what the caller has read.
    async fn lock(
        &self,
        conn: &mut sqlx::PgConnection,
        node_id: Uuid,
        given: &str,
    ) -> Result<NodeRow> {
        nodes::lock(&mut *conn, node_id).await?;
        let row = nodes::find(conn, node_id, self.0.config.freshness())
            .await?
            .filter(NodeRow::is_shown)
            .ok_or_else(|| no_node(&node_id))?;
        etag::check(given, &row.etag())?;
        Ok(row)
    }

    /// What the ledger has of a node; none: it does not know it.
    async fn in_ledger(&self, node_id: Uuid) -> Result<Option<ledger::ListSlotsResponse>> {
        match self.0.ledger_slots(node_id).await {
            Ok(answer) => Ok(Some(answer)),
            Err(error) if error.reason() == ErrorReason::NodeNotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// How a node ends.
struct End<'a> {
    how: Removed,
    action: &'static str,
    etag: &'a str,
    reason: &'a str,
}

/// A reason that must be given.
fn reason(text: &str) -> Result<()> {
    if text.trim().is_empty() {
        return Err(Error::required("reason"));
    }
    audit::check_reason(text)
}

fn conflict(row: &NodeRow, why: &str) -> Error {
    Error::new(
        Code::FailedPrecondition,
        ErrorReason::StateConflict,
        format!("Node {} is {why}.", row.hostname),
    )
    .meta("state", why)
}

/// Refuses what is done to a node that is gone.
pub(super) fn in_service(row: &NodeRow) -> Result<()> {
    match &row.removed {
        None => Ok(()),
        Some(how) => Err(conflict(row, how)),
    }
}

/// Refuses another mode or limit while anything of the node is schedulable or in use. The ledger has the last word:
/// what it refuses keeps the node out of service until it is taken in.
fn out_of_service(row: &NodeRow, known: Option<&ledger::ListSlotsResponse>) -> Result<()> {
    let Some(known) = known else { return Ok(()) };
    let node = known.node.clone().unwrap_or_default();
    if node.live_claims > 0 {
        return Err(conflict(row, "in use; drain it first"));
    }
    let schedulable = known
        .slots
        .iter()
        .any(|slot| slot.status() == SlotStatus::Available);
    if schedulable && node.admin_state == "enabled" {
        return Err(conflict(row, "schedulable; cordon it first"));
    }
    Ok(())
}
