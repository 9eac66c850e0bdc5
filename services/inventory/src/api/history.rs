//! The histories of nodes and slots.
use gpuaas_common::error::Result;
use gpuaas_common::select::{Selection, Wanted};
use gpuaas_common::{id, page};
use gpuaas_proto::gpuaas::internal::scheduler::v1 as ledger;
use gpuaas_proto::gpuaas::inventory::v1 as api;
use uuid::Uuid;

use super::Nodes;
use crate::convert;
use crate::domain::history::{self, Entry, Positions};
use crate::store::lifecycle;

/// Entries of one of the lists that are merged, and whether it has more.
type Part = (Vec<Entry<api::NodeHistoryEntry>>, bool);

impl Nodes {
    /// A page of two histories that are merged: that of the ledger, and what inventory itself knows.
    pub(super) async fn history(
        &self,
        request: &api::ListNodeHistoryRequest,
    ) -> Result<api::ListNodeHistoryResponse> {
        let node_id = id::parse("node_id", &request.node_id)?;
        let key = node_id.to_string();
        let size = page::page_size(request.page_size)?;
        let selection = Selection::parse(&lifecycle::HISTORY, &request.filter, &request.order_by)?;
        let [filter, order_by] = selection.texts();
        let query = [key.as_str(), filter, order_by];
        let after = page::decode::<Positions>(&request.page_token, &query)?.unwrap_or_default();
        self.row(node_id).await?;
        let (mut all, of_ledger_more) = self.of_ledger(request, &selection, &after).await?;
        let (own, own_more) = self.own(node_id, &selection, &after, size).await?;
        all.extend(own);
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        let how = (size, selection.is_descending(), of_ledger_more || own_more);
        let (entries, next) = history::page(all, after, how);
        Ok(api::ListNodeHistoryResponse {
            entries,
            next_page_token: next.map_or_else(String::new, |next| page::encode(&next, &query)),
        })
    }

    /// What the ledger has after a position: as many as a page may need, without what is new since the first page.
    async fn of_ledger(
        &self,
        request: &api::ListNodeHistoryRequest,
        selection: &Selection,
        after: &Positions,
    ) -> Result<Part> {
        let size = page::page_size(request.page_size)?;
        let (mut kept, mut page_token) = (Vec::new(), after.ledger.clone());
        loop {
            let requested = ledger::ListNodeHistoryRequest {
                node_id: request.node_id.clone(),
                limit: u32::try_from(size).unwrap_or(u32::MAX),
                filter: request.filter.clone(),
                order_by: request.order_by.clone(),
                page_token,
            };
            let reported = self.0.ledger()?.list_node_history(requested).await?;
            let reported = reported.into_inner();
            let entries = reported.entries.into_iter().map(|entry| Entry {
                at: entry.time.map(|time| (time.seconds, time.nanos)),
                token: entry.page_token,
                of_ledger: true,
                content: api::NodeHistoryEntry {
                    time: entry.time,
                    state: entry.state,
                    reason: entry.reason,
                    principal: entry.principal,
                },
            });
            kept.extend(after.without_new(entries, selection.is_descending()));
            page_token = reported.next_page_token;
            if page_token.is_empty() || kept.len() as i64 >= size {
                return Ok((kept, !page_token.is_empty()));
            }
        }
    }

    /// The same of what inventory itself knows.
    async fn own(
        &self,
        node_id: Uuid,
        selection: &Selection,
        after: &Positions,
        size: i64,
    ) -> Result<Part> {
        let key = node_id.to_string();
        let mut conn = self.0.pool.acquire().await?;
        let (mut kept, mut page_token) = (Vec::new(), after.own.clone());
        loop {
            let wanted = Wanted {
                page_token: &page_token,
                size,
                query: &[&key],
            };
            let (found, more) = lifecycle::history(&mut conn, node_id, selection, wanted).await?;
            page_token = found
                .last()
                .map_or_else(String::new, |(_, token)| token.clone());
            let entries = found.into_iter().map(|(entry, token)| {
                let time = convert::time(entry.at);
                Entry {
                    at: Some((time.seconds, time.nanos)),
                    token,
                    of_ledger: false,
                    content: api::NodeHistoryEntry {
                        time: Some(time),
                        state: entry.state,
                        reason: entry.reason,
                        principal: entry.principal,
                    },
                }
            });
            kept.extend(after.without_new(entries, selection.is_descending()));
            if !more || kept.len() as i64 >= size {
                return Ok((kept, more));
            }
        }
    }

    pub(super) async fn slot_history(
        &self,
        request: &api::ListResourceSlotHistoryRequest,
    ) -> Result<api::ListResourceSlotHistoryResponse> {
        let limit = page::page_size(request.page_size)?;
        let requested = ledger::ListSlotHistoryRequest {
            node_id: id::parse("node_id", &request.node_id)?.to_string(),
            slot_id: id::parse("slot_id", &request.slot_id)?.to_string(),
            limit: u32::try_from(limit).unwrap_or(u32::MAX),
            filter: request.filter.clone(),
            order_by: request.order_by.clone(),
            page_token: request.page_token.clone(),
        };
        let reported = self.0.ledger()?.list_slot_history(requested).await?;
        let reported = reported.into_inner();
        let entry = |entry: ledger::SlotHistoryEntry| api::SlotHistoryEntry {
            time: entry.time,
            kind: entry.kind,
            generation: entry.generation,
            detail: entry.detail,
            allocation_id: entry.allocation_id,
            principal: entry.principal,
        };
        Ok(api::ListResourceSlotHistoryResponse {
            entries: reported.entries.into_iter().map(entry).collect(),
            next_page_token: reported.next_page_token,
        })
    }
}
