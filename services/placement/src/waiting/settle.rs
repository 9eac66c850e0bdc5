//! Nodes that are kept for the first of a line that does not fit.
use std::cmp::Reverse;
use std::collections::BTreeSet;

use sqlx::PgConnection;
use uuid::Uuid;

use super::keep::{Ask, able, asks};
use super::line::load;
use crate::decision::{CandidateNode, CandidateSlot, WholeNode, decide_by, judge_whole};
use crate::model::{Health, SlotClass, SlotStatus};
use crate::reserve::Policy;
use crate::{Result, candidates};

/// Keeps nodes for the first of a line that does not fit, as few and as free ones as will do, and no others.
pub(crate) async fn settle(
    conn: &mut PgConnection,
    policy: Policy,
    region_code: &str,
    slot_class: SlotClass,
) -> Result<()> {
    // replicas settle a line one after the other
    sqlx::query("SELECT pg_advisory_xact_lock(hashtextextended($1, 1))")
        .bind(format!("{region_code}\n{}", slot_class.as_str()))
        .execute(&mut *conn)
        .await?;
    let (line, _) = load(conn, region_code, slot_class).await?;
    let line = able(conn, policy, line).await?;
    let mut wanted = (Uuid::nil(), BTreeSet::new());
    if !line.is_empty() {
        let slices = candidates::load(conn, region_code, None).await?;
        let mut wholes = None;
        let asked = asks(conn, policy, &line).await?;
        for waiting in line {
            let ids = waiting.members.iter().map(|member| member.allocation_id);
            let asks: Vec<Ask> = ids.filter_map(|id| asked.get(&id)).cloned().collect();
            if wholes.is_none() && asks.iter().any(|ask| ask.whole) {
                wholes = Some(candidates::load_whole(conn, region_code, None).await?);
            }
            let wholes = wholes.as_deref().unwrap_or_default();
            if let Some(found) = nodes_for(&asks, &slices, wholes) {
                wanted = (waiting.ticket.id, found);
                break;
            }
            // no node could ever hold it as things are: the next one is the first that can be helped
        }
    }
    let (ticket, nodes) = wanted;
    let nodes: Vec<Uuid> = nodes.into_iter().collect();
    sqlx::query(
        "DELETE FROM kept_nodes WHERE region_code = $1 AND slot_class = $2 AND NOT (ticket = $3 AND node_id = ANY ($4))",
    )
    .bind(region_code)
    .bind(slot_class.as_str())
    .bind(ticket)
    .bind(&nodes)
    .execute(&mut *conn)
    .await?;
    sqlx::query(
        "INSERT INTO kept_nodes (region_code, slot_class, node_id, ticket)
         SELECT $1, $2, node_id, $3 FROM unnest($4::uuid[]) AS n (node_id) ON CONFLICT DO NOTHING",
    )
    .bind(region_code)
    .bind(slot_class.as_str())
    .bind(ticket)
    .bind(&nodes)
    .execute(conn)
    .await?;
    Ok(())
}

/// The nodes on which all of it would fit if everything there were free, those with most free slots first: one for each
/// whole node, and as few as will do for the slices beside them. None when there are not enough such nodes. `wholes` are
/// the nodes of every mode, `slices` those of them that are in mode slice.
fn nodes_for(
    asks: &[Ask],
    slices: &[CandidateNode],
    wholes: &[WholeNode],
) -> Option<BTreeSet<Uuid>> {
    let mut kept = BTreeSet::new();
    let mut empty: Vec<WholeNode> = freest_first(wholes, free_of_whole, |node| node.id)
        .map(emptied_whole)
        .collect();
    for ask in asks.iter().filter(|ask| ask.whole) {
        let fits = |node: &WholeNode| {
            let (fit, _) = judge_whole(&ask.rules, &ask.request, std::slice::from_ref(node));
            !fit.is_empty()
        };
        let place = empty.iter().position(fits)?;
        kept.insert(empty.remove(place).id);
    }
    let mut spare: Vec<CandidateNode> = freest_first(slices, free, |node| node.id)
        .filter(|node| !kept.contains(&node.id))
        .map(emptied)
        .collect();
    let mut chosen: Vec<CandidateNode> = Vec::new();
    for ask in asks.iter().filter(|ask| !ask.whole) {
        if let Some(node) = chosen.iter_mut().find(|node| takes(node, ask)) {
            take(node, ask);
            continue;
        }
        let place = spare.iter().position(|node| takes(node, ask))?;
        let mut node = spare.remove(place);
        take(&mut node, ask);
        chosen.push(node);
    }
    kept.extend(chosen.into_iter().map(|node| node.id));
    Some(kept)
}

fn freest_first<T>(
    nodes: &[T],
    free: fn(&T) -> usize,
    id: fn(&T) -> Uuid,
) -> impl Iterator<Item = &T> {
    let mut order: Vec<&T> = nodes.iter().collect();
    order.sort_by_key(|node| (Reverse(free(node)), id(node)));
    order.into_iter()
}

fn free(node: &CandidateNode) -> usize {
    node.slots.iter().filter(|slot| is_free(slot)).count()
}

/// The slots of a node that somebody has as a whole stay on sale until its host is touched: none of them is free.
fn free_of_whole(node: &WholeNode) -> usize {
    if node.held && !node.slots.iter().any(|slot| slot.held) {
        return 0;
    }
    node.slots.iter().filter(|slot| is_free(slot)).count()
}

fn is_free(slot: &CandidateSlot) -> bool {
    slot.status == SlotStatus::Available
        && !slot.held
        && slot.reserved.is_none()
        && slot.health == Health::Healthy
}

/// The node as it is once everybody on it has gone.
fn emptied(node: &CandidateNode) -> CandidateNode {
    let mut node = node.clone();
    node.live_vms = 0;
    node.exclusively_held = false;
    // what the VMs there have comes back with them
    node.hugepages_1g_free = u32::MAX;
    empty(&mut node.slots);
    node
}

fn emptied_whole(node: &WholeNode) -> WholeNode {
    let mut node = node.clone();
    node.held = false;
    empty(&mut node.slots);
    node
}

fn empty(slots: &mut [CandidateSlot]) {
    for slot in slots {
        if !matches!(slot.status, SlotStatus::Disabled | SlotStatus::Retired) {
            slot.status = SlotStatus::Available;
            slot.held = false;
        }
    }
}

fn takes(node: &CandidateNode, ask: &Ask) -> bool {
    let only = std::slice::from_ref(node);
    !decide_by(&ask.rules, &ask.request, only).choices.is_empty()
}

fn take(node: &mut CandidateNode, ask: &Ask) {
    let only = std::slice::from_ref(node);
    let choice = decide_by(&ask.rules, &ask.request, only)
        .choices
        .into_iter()
        .next();
    node.live_vms += 1;
    for slot in &mut node.slots {
        if choice
            .as_ref()
            .is_some_and(|choice| choice.slot_ids.contains(&slot.id))
        {
            slot.status = SlotStatus::Reserved;
            slot.held = true;
        }
    }
}
