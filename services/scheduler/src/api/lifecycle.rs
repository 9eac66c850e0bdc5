//! The end of nodes and slots, and their history, for inventory.
use gpuaas_common::idempotency::{self, Lookup};
use gpuaas_common::select::{Selection, Wanted};
use gpuaas_common::{Error, Result, audit, id};
use gpuaas_placement::model::Attribution;
use gpuaas_placement::{lifecycle, node_placement, outbox, slots};
use gpuaas_proto::gpuaas::internal::scheduler::v1::{
    LedgerNode, LedgerSlot, ListNodeHistoryRequest, ListNodeHistoryResponse,
    ListSlotHistoryRequest, ListSlotHistoryResponse, NodeHistoryEntry, RetireNodeRequest,
    RetireSlotRequest, SlotHistoryEntry,
};
use serde_json::json;

use super::intake::scope;
use super::{Api, convert};

/// Most entries of a history.
const ENTRIES: u32 = 500;

impl Api {
    pub(super) async fn retire_slot_of(&self, request: RetireSlotRequest) -> Result<LedgerSlot> {
        let node_id = id::parse("node_id", &request.node_id)?;
        let slot_id = id::parse("slot_id", &request.slot_id)?;
        said(&request.reason)?;
        // the same order sent again comes with another request id
        let hash = idempotency::hash(&RetireSlotRequest {
            request_id: String::new(),
            ..request.clone()
        });
        let scope = scope(&request.principal, "RetireSlot", &request.idempotency_key)?;
        let mut tx = self.pool.begin().await?;
        let taken = idempotency::take(&mut tx, scope, &hash, &request.slot_id).await?;
        if taken != Lookup::Fresh {
            return Ok(convert::slot(slots::get(&mut tx, node_id, slot_id).await?));
        }
        slots::expect(&mut tx, node_id, slot_id, &request.etag).await?;
        let before = convert::slot(slots::get(&mut tx, node_id, slot_id).await?);
        let by = Attribution::of(&request.principal, &request.reason);
        let (slot, _) = slots::retire(&mut tx, node_id, slot_id, by).await?;
        let slot = convert::slot(slot);
        let detail = json!({ "node_id": node_id, "reason": request.reason });
        let entry = audit::Entry {
            principal: &request.principal,
            action: "slot.retire",
            resource: "slot",
            resource_id: &request.slot_id,
            request_id: &request.request_id,
            detail: audit::with_digests(detail, Some(&before), Some(&slot)),
        };
        audit::record(&mut tx, entry).await?;
        tx.commit().await?;
        self.wake.notify(outbox::TOPIC).await;
        tracing::info!(%node_id, %slot_id, "retire slot");
        Ok(slot)
    }

    pub(super) async fn retire(&self, request: RetireNodeRequest) -> Result<LedgerNode> {
        let node_id = id::parse("node_id", &request.node_id)?;
        if !request.never_used {
            said(&request.reason)?;
        }
        let hash = idempotency::hash(&RetireNodeRequest {
            request_id: String::new(),
            ..request.clone()
        });
        let scope = scope(&request.principal, "RetireNode", &request.idempotency_key)?;
        let mut tx = self.pool.begin().await?;
        let taken = idempotency::take(&mut tx, scope, &hash, &request.node_id).await?;
        if taken != Lookup::Fresh {
            let node = node_placement::get(&mut tx, node_id).await?;
            return Ok(convert::node_with_admin_state(node, None));
        }
        node_placement::lock(&mut tx, node_id).await?;
        let before =
            convert::node_with_admin_state(node_placement::get(&mut tx, node_id).await?, None);
        let by = Attribution::of(&request.principal, &request.reason);
        let (node, _) = node_placement::retire(&mut tx, node_id, by, request.never_used).await?;
        let node = convert::node_with_admin_state(node, None);
        let detail = json!({ "reason": request.reason });
        let entry = audit::Entry {
            principal: &request.principal,
            action: if request.never_used {
                "node.delete"
            } else {
                "node.retire"
            },
            resource: "node",
            resource_id: &request.node_id,
            request_id: &request.request_id,
            detail: audit::with_digests(detail, Some(&before), Some(&node)),
        };
        audit::record(&mut tx, entry).await?;
        tx.commit().await?;
        self.wake.notify(outbox::TOPIC).await;
        tracing::info!(%node_id, never_used = request.never_used, "retire node");
        Ok(node)
    }

    pub(super) async fn history_of_node(
        &self,
        request: &ListNodeHistoryRequest,
    ) -> Result<ListNodeHistoryResponse> {
        let node_id = id::parse("node_id", &request.node_id)?;
        let mut conn = self.pool.acquire().await?;
        let selection =
            Selection::parse(&lifecycle::NODE_HISTORY, &request.filter, &request.order_by)?;
        let wanted = Wanted {
            page_token: &request.page_token,
            size: limit(request.limit),
            query: &[&request.node_id],
        };
        let (entries, more) = lifecycle::of_node(&mut conn, node_id, &selection, wanted).await?;
        let last = entries.last().filter(|_| more);
        Ok(ListNodeHistoryResponse {
            next_page_token: last.map(|(_, token)| token.clone()).unwrap_or_default(),
            entries: entries
                .into_iter()
                .map(|(entry, page_token)| NodeHistoryEntry {
                    time: Some(convert::time(entry.at)),
                    state: entry.state,
                    reason: entry.reason,
                    principal: entry.principal,
                    page_token,
                })
                .collect(),
        })
    }

    pub(super) async fn history_of_slot(
        &self,
        request: &ListSlotHistoryRequest,
    ) -> Result<ListSlotHistoryResponse> {
        let node_id = id::parse("node_id", &request.node_id)?;
        let slot_id = id::parse("slot_id", &request.slot_id)?;
        let mut conn = self.pool.acquire().await?;
        slots::get(&mut conn, node_id, slot_id).await?;
        let selection =
            Selection::parse(&lifecycle::SLOT_HISTORY, &request.filter, &request.order_by)?;
        let wanted = Wanted {
            page_token: &request.page_token,
            size: limit(request.limit),
            query: &[&request.slot_id],
        };
        let (entries, next_page_token) =
            lifecycle::of_slot(&mut conn, slot_id, &selection, wanted).await?;
        Ok(ListSlotHistoryResponse {
            next_page_token,
            entries: entries
                .into_iter()
                .map(|entry| SlotHistoryEntry {
                    time: Some(convert::time(entry.at)),
                    kind: entry.kind,
                    generation: entry.generation.unwrap_or_default(),
                    detail: entry.detail,
                    allocation_id: entry
                        .allocation_id
                        .map(|id| id.to_string())
                        .unwrap_or_default(),
                    principal: entry.principal,
                })
                .collect(),
        })
    }
}

fn limit(given: u32) -> i64 {
    match given {
        0 => i64::from(ENTRIES),
        some => i64::from(some.min(ENTRIES)),
    }
}

/// A reason that must be given.
pub(super) fn said(reason: &str) -> Result<()> {
    if reason.trim().is_empty() {
        return Err(Error::required("reason"));
    }
    audit::check_reason(reason)
}
