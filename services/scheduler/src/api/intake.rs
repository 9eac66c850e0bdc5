//! What other services report to the ledger: nodes, regions and slots by inventory, prices by billing. Repeating it
//! changes nothing.
use gpuaas_common::idempotency::{self, Lookup, Scope};
use gpuaas_common::time::from_proto_time;
use gpuaas_common::{Error, Result, audit, id, trace};
use gpuaas_placement::model::Attribution;
use gpuaas_placement::repair::Origin;
use gpuaas_placement::{
    agent_starts, approval, catalog, claims, drift, node_placement, nodes, outbox, slots, workflows,
};
use gpuaas_proto::gpuaas::agent::v1::HostDevices;
use gpuaas_proto::gpuaas::internal::scheduler::v1::{
    ApproveSlotsRequest, LedgerNode, LedgerSlot, ListSlotsResponse, PutNodeRequest,
    PutRegionRequest, PutSkuPriceRequest, SetSlotAdminStateRequest,
};
use jiff_sqlx::{Timestamp, ToSqlx};
use serde_json::json;
use sqlx::PgConnection;
use uuid::Uuid;

use super::{Api, convert, parse, parse_sku};

impl Api {
    pub(super) async fn take_node(&self, mut request: PutNodeRequest) -> Result<LedgerNode> {
        let devices = request.devices.take();
        let started = request.agent_started_time.as_ref();
        let started = started.and_then(from_proto_time).map(ToSqlx::to_sqlx);
        let spec = parse::node(request)?;
        let mut tx = self.pool.begin().await?;
        let put = nodes::put(&mut tx, &spec).await;
        let node = match put {
            Ok(node) => node,
            Err(conflict @ gpuaas_placement::Error::Conflict { .. }) => {
                tx.rollback().await?;
                let devices = devices.as_ref();
                return self.hold_back(&spec, devices, started, conflict).await;
            }
            Err(error) => return Err(error.into()),
        };
        let noted = drift::note(&mut tx, node.id, devices.as_ref()).await?;
        let is_started = agent_starts::note(&mut tx, node.id, started).await?;
        tx.commit().await?;
        if is_started {
            self.wake.notify(agent_starts::TOPIC).await;
        }
        if noted.changed > 0 {
            tracing::warn!(node_id = %node.id, slots = noted.changed, "note drift of slots");
        }
        if noted.wipes > 0 {
            self.wake.notify(workflows::TOPIC).await;
        }
        self.wake.notify(outbox::TOPIC).await;
        tracing::info!(
            node_id = %node.id, generation = node.generation, schedulable = node.schedulable,
            reason = node.not_schedulable_reason, "take in node"
        );
        Ok(convert::node(node))
    }

    /// Takes everything of a node in but the mode or limit that has to wait, and says so: inventory tells it again until it
    /// is taken in.
    async fn hold_back(
        &self,
        spec: &nodes::NodeSpec,
        devices: Option<&HostDevices>,
        started: Option<Timestamp>,
        conflict: gpuaas_placement::Error,
    ) -> Result<LedgerNode> {
        let mut tx = self.pool.begin().await?;
        nodes::put_held_back(&mut tx, spec).await?;
        let noted = drift::note(&mut tx, spec.id, devices).await?;
        let is_started = agent_starts::note(&mut tx, spec.id, started).await?;
        tx.commit().await?;
        if is_started {
            self.wake.notify(agent_starts::TOPIC).await;
        }
        if noted.wipes > 0 {
            self.wake.notify(workflows::TOPIC).await;
        }
        self.wake.notify(outbox::TOPIC).await;
        tracing::warn!(node_id = %spec.id, "hold back the configuration of a node: {conflict}");
        Err(conflict.into())
    }

    pub(super) async fn take_region(&self, request: &PutRegionRequest) -> Result<()> {
        parse::label("code", &request.code)?;
        let mut conn = self.pool.acquire().await?;
        let region = catalog::Region {
            code: request.code.clone(),
            enabled: request.enabled,
            unavailable_reason: request.unavailable_reason.clone(),
        };
        catalog::put_region(&mut conn, &region).await?;
        // queued requests may be served now
        self.wake.notify(outbox::TOPIC).await;
        tracing::info!(
            region_code = request.code,
            enabled = request.enabled,
            "take in region"
        );
        Ok(())
    }

    pub(super) async fn drop_region(&self, code: &str) -> Result<Vec<String>> {
        parse::label("code", code)?;
        let mut tx = self.pool.begin().await?;
        let used_by = catalog::delete_region(&mut tx, code).await?;
        tx.commit().await?;
        if used_by.is_empty() {
            tracing::info!(region_code = code, "delete region");
        }
        Ok(used_by)
    }

    pub(super) async fn take_slots(
        &self,
        request: ApproveSlotsRequest,
    ) -> Result<ListSlotsResponse> {
        let node_id = id::parse("node_id", &request.node_id)?;
        // The same approval sent again comes with another request id.
        let hash = idempotency::hash(&ApproveSlotsRequest {
            request_id: String::new(),
            ..request.clone()
        });
        let definitions = parse::definitions(request.slots)?;
        let instance_id = match request.instance_id.as_str() {
            "" => None,
            text => Some(id::parse("instance_id", text)?),
        };
        let generations = request.slot_generations.iter();
        let inspection = approval::Inspection {
            instance_id,
            generations: generations
                .map(|(index, generation)| {
                    Ok((parse::signed("slot_generations", *index)?, *generation))
                })
                .collect::<Result<_>>()?,
        };
        if request.evidence.is_empty() {
            return Err(Error::required("evidence"));
        }
        let scope = scope(&request.principal, "ApproveSlots", &request.idempotency_key)?;
        let mut tx = self.pool.begin().await?;
        let taken = idempotency::take(&mut tx, scope, &hash, &request.node_id).await?;
        if taken != Lookup::Fresh {
            return listed(&mut tx, node_id).await;
        }
        let indexes: Vec<i32> = definitions
            .iter()
            .map(|definition| definition.slot_index)
            .collect();
        node_placement::lock(&mut tx, node_id).await?;
        let before = listed(&mut tx, node_id).await?;
        let rows = approval::approve(
            &mut tx,
            node_id,
            &inspection,
            &definitions,
            Origin {
                traceparent: &trace::current_traceparent(),
                request_id: &request.request_id,
            },
            || self.ids.next(),
        )
        .await?;
        let epochs = claims::epochs(&mut tx).await?;
        let approved = convert::slots(rows, epochs);
        let detail = json!({ "slot_indexes": indexes, "evidence": request.evidence });
        let entry = audit::Entry {
            principal: &request.principal,
            action: "slot.approve",
            resource: "node",
            resource_id: &request.node_id,
            request_id: &request.request_id,
            detail: audit::with_digests(detail, Some(&before), Some(&approved)),
        };
        audit::record(&mut tx, entry).await?;
        tx.commit().await?;
        self.wake.notify(workflows::TOPIC).await;
        self.wake.notify(outbox::TOPIC).await;
        tracing::info!(%node_id, slots = ?indexes, "approve slots");
        Ok(approved)
    }

    pub(super) async fn set_admin_state(
        &self,
        request: SetSlotAdminStateRequest,
    ) -> Result<LedgerSlot> {
        let node_id = id::parse("node_id", &request.node_id)?;
        let slot_id = id::parse("slot_id", &request.slot_id)?;
        let hash = idempotency::hash(&SetSlotAdminStateRequest {
            request_id: String::new(),
            ..request.clone()
        });
        let scope = scope(
            &request.principal,
            "SetSlotAdminState",
            &request.idempotency_key,
        )?;
        let mut tx = self.pool.begin().await?;
        let taken = idempotency::take(&mut tx, scope, &hash, &request.slot_id).await?;
        if taken != Lookup::Fresh {
            return Ok(convert::slot(slots::get(&mut tx, node_id, slot_id).await?));
        }
        slots::expect(&mut tx, node_id, slot_id, &request.etag).await?;
        let before = convert::slot(slots::get(&mut tx, node_id, slot_id).await?);
        let by = Attribution::of(&request.principal, &request.reason);
        let slot =
            node_placement::set_slot_admin_state(&mut tx, node_id, slot_id, request.disabled, by)
                .await?;
        let slot = convert::slot(slot);
        let detail = json!({ "node_id": node_id, "reason": request.reason });
        let entry = audit::Entry {
            principal: &request.principal,
            action: if request.disabled {
                "slot.disable"
            } else {
                "slot.enable"
            },
            resource: "slot",
            resource_id: &request.slot_id,
            request_id: &request.request_id,
            detail: audit::with_digests(detail, Some(&before), Some(&slot)),
        };
        audit::record(&mut tx, entry).await?;
        tx.commit().await?;
        // a slot that was never wiped is wiped now
        self.wake.notify(workflows::TOPIC).await;
        self.wake.notify(outbox::TOPIC).await;
        tracing::info!(%node_id, %slot_id, disabled = request.disabled, "set intent of slot");
        Ok(slot)
    }

    pub(super) async fn take_price(&self, request: &PutSkuPriceRequest) -> Result<()> {
        let price = parse_sku::price(
            &request.price_version_id,
            request.price_per_gpu_hour.as_ref(),
        )?;
        let effective_at = request
            .effective_time
            .as_ref()
            .and_then(from_proto_time)
            .ok_or_else(|| Error::required("effective_time"))?;
        let mut tx = self.pool.begin().await?;
        catalog::put_price(&mut tx, &request.sku, &price, effective_at.to_sqlx()).await?;
        tx.commit().await?;
        tracing::info!(sku = request.sku, price_version_id = %price.version_id, "take in price");
        Ok(())
    }
}

/// The slots of a node as this service shows them.
async fn listed(conn: &mut PgConnection, node_id: Uuid) -> Result<ListSlotsResponse> {
    let rows = slots::list(conn, node_id).await?;
    Ok(convert::slots(rows, claims::epochs(conn).await?))
}

pub(super) fn scope<'a>(principal: &'a str, method: &'a str, key: &'a str) -> Result<Scope<'a>> {
    if principal.is_empty() {
        return Err(Error::required("principal"));
    }
    if key.is_empty() {
        return Err(Error::required("idempotency_key"));
    }
    Ok(Scope {
        principal,
        method,
        key,
    })
}
