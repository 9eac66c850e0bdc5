//! Holding slots, and letting them go.
use std::collections::VecDeque;

use gpuaas_placement_decision::{Fleet, GpuCount, Rules};
use sqlx::PgConnection;
use uuid::Uuid;

use super::stored::{CapacityReservation, least};
use crate::catalog::Sku;
use crate::decision_input::decision_request;
use crate::error::{Error, Result};
use crate::model::Shape;
use crate::reserve::{Request, Search, baremetal, place};

/// What was observed while the groups of one reservation were searched, one after the other.
#[derive(Debug)]
pub(super) struct SearchState {
    /// More GPUs than these fit on no node.
    pub(super) most: u32,
    /// Bare-metal nodes that fitted and were not needed yet.
    baremetal: VecDeque<Uuid>,
}

impl SearchState {
    /// Nothing yet.
    pub(super) fn nothing() -> Self {
        Self {
            most: u32::MAX,
            baremetal: VecDeque::new(),
        }
    }
}

/// Reserves as many of the missing GPUs as fit on one node and are allocated together, and returns how many. The
/// reservation's row is locked. What was observed before is not searched again, but judged again under its node's lock.
///
/// # Errors
/// [`Error::Refused`] when nothing fits, with the reasons for the smallest count that is offered; [`Error::Busy`].
pub(super) async fn some(
    conn: &mut PgConnection,
    search: Search<'_>,
    of: &CapacityReservation,
    sku: &Sku,
    missing: u32,
    seen: &mut SearchState,
) -> Result<GpuCount> {
    let sizes = sizes(sku, missing);
    if sku.capacity_shape == Shape::GpuSlice {
        let free = |fleet: &Fleet| fleet.largest(sku.slot_class);
        let free = search.capacity.with_cached(&of.region_code, free).await?;
        seen.most = free.min(seen.most);
    }
    let mut refusal = Error::Busy { nodes: 0 };
    for (place, size) in sizes.iter().enumerate() {
        // no node has so many; the last one is tried nevertheless, for the reasons
        if size.get() > seen.most && place + 1 < sizes.len() {
            continue;
        }
        let request = Request {
            region_code: of.region_code.clone(),
            sku: of.sku.clone(),
            gpu_count: *size,
            bypasses_queue: true,
            ..Request::default()
        };
        match take(conn, search, of, &request, sku, &mut seen.baremetal).await {
            Ok((node_id, slots)) => {
                insert(conn, of, sku, node_id, &slots).await?;
                search.capacity.changed(conn, &[node_id]).await?;
                return Ok(*size);
            }
            Err(refused @ Error::Refused { .. }) => {
                seen.most = size.get() - 1;
                refusal = refused;
            }
            Err(error) => return Err(error),
        }
    }
    Err(refusal)
}

/// Counts to try, the largest first, so that the rest can be had in counts that are offered.
fn sizes(sku: &Sku, missing: u32) -> Vec<GpuCount> {
    let least = least(sku).get();
    let odd = !missing.is_multiple_of(least);
    let counts = sku.allowed_gpu_counts.iter().copied();
    let mut sizes: Vec<GpuCount> = counts
        .filter(|count| {
            count.get() <= missing && (odd || (missing - count.get()).is_multiple_of(least))
        })
        .collect();
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    sizes
}

/// A node, locked, and slots of it.
async fn take(
    conn: &mut PgConnection,
    search: Search<'_>,
    of: &CapacityReservation,
    request: &Request,
    sku: &Sku,
    baremetal: &mut VecDeque<Uuid>,
) -> Result<(Uuid, Vec<Uuid>)> {
    if sku.capacity_shape == Shape::GpuSlice {
        let spec = decision_request(sku, request.gpu_count);
        // elsewhere each time: the last bytes of an id are random
        let at = Uuid::now_v7().as_u128() as u32;
        let rules = Rules {
            packing_strategy: search.policy.packing_strategy,
            ..Rules::default()
        };
        let shortlist = |fleet: &Fleet| fleet.shortlist(&rules, &spec, at);
        let shortlist = search
            .capacity
            .with_cached(&of.region_code, shortlist)
            .await?;
        // it is not queued
        let taken = place::take(conn, search, request, sku, Some(shortlist), false).await?;
        let slots = taken.slots.iter().map(|slot| slot.id).collect();
        return Ok((taken.host.id, slots));
    }
    let node_id = baremetal::take(conn, search, request, sku, baremetal)
        .await?
        .id;
    let slots = sqlx::query_scalar(
        "SELECT id FROM slots WHERE node_id = $1 AND status = 'available' ORDER BY id FOR NO KEY UPDATE",
    )
    .bind(node_id)
    .fetch_all(conn)
    .await?;
    Ok((node_id, slots))
}

async fn insert(
    conn: &mut PgConnection,
    of: &CapacityReservation,
    sku: &Sku,
    node_id: Uuid,
    slots: &[Uuid],
) -> Result<()> {
    sqlx::query(
        "INSERT INTO reserved_slots (slot_id, node_id, reservation_id, project_id, hugepages_1g)
         SELECT slot_id, $2, $3, $4, $5 FROM unnest($1::uuid[]) AS s (slot_id)",
    )
    .bind(slots)
    .bind(node_id)
    .bind(of.id)
    .bind(of.project_id)
    .bind(i32::try_from(decision_request(sku, GpuCount::ONE).hugepages_1g).unwrap_or(i32::MAX))
    .execute(conn)
    .await?;
    Ok(())
}

/// Which reserved slots are released.
#[derive(Debug, Clone, Copy)]
pub(super) enum Which {
    /// All; what runs there goes on.
    All,
    /// Those that cannot be launched on any more, but for hosts that only do not report. The slots of a node that is in
    /// use as bare metal are unschedulable and stay.
    Unfit,
    /// Those that have been unused for so many seconds, though their host reports.
    Unused(i32),
    /// Unused ones on nodes with a part only of what is allocated together, being so many GPUs at least: alone
    /// they are reserved in vain.
    Parts(u32),
}

/// Held slots `h` of a reservation, their slots `s` and nodes `n`, that are let go.
macro_rules! let_go {
    ($head:literal, $tail:literal) => {
        concat!(
            $head,
            " h.reservation_id = $1 AND s.id = h.slot_id AND n.id = h.node_id AND CASE $2
                WHEN 'all' THEN true
                WHEN 'unfit' THEN NOT ",
            fits!("(SELECT region_code FROM capacity_reservations WHERE id = $1)"),
            "   WHEN 'parts' THEN h.idle_since IS NOT NULL AND (SELECT count(*) FROM reserved_slots o
                     WHERE o.reservation_id = $1 AND o.node_id = h.node_id) % $3::bigint <> 0
                ELSE n.schedulable AND h.idle_since < clock_timestamp() - make_interval(secs => $3) END",
            $tail
        )
    };
}

/// Releases reserved slots under the locks of their nodes, and returns how many.
pub(super) async fn drop(conn: &mut PgConnection, id: Uuid, which: Which) -> Result<u32> {
    let (word, number) = match which {
        Which::All => ("all", 0.0),
        Which::Unfit => ("unfit", 0.0),
        Which::Unused(seconds) => ("unused", f64::from(seconds)),
        Which::Parts(least) => ("parts", f64::from(least)),
    };
    let nodes: Vec<Uuid> = sqlx::query_scalar(let_go!(
        "SELECT id FROM nodes WHERE id IN (SELECT h.node_id FROM reserved_slots h, slots s, nodes n WHERE",
        ") ORDER BY id FOR NO KEY UPDATE"
    ))
    .bind(id)
    .bind(word)
    .bind(number)
    .fetch_all(&mut *conn)
    .await?;
    // a statement after the locks: a launch that was about to use one has it now
    let gone = sqlx::query(let_go!(
        "DELETE FROM reserved_slots h USING slots s, nodes n WHERE h.node_id = ANY ($4) AND",
        ""
    ))
    .bind(id)
    .bind(word)
    .bind(number)
    .bind(nodes)
    .execute(conn)
    .await?;
    Ok(u32::try_from(gone.rows_affected()).unwrap_or(u32::MAX))
}
