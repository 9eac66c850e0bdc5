//! The ledger's invariants as queries, each written once: for the operator's check, for the tests of the whole
//! system and for the model-based test.
//!
//! Most of them are held up by a constraint or trigger already, and then an audit shows that the database was not
//! edited past it. The others (an allocation has claimed the GPUs that it was launched with, each state has its event, what is on
//! its way is worked on) hold because every change is one transaction, and nothing but an audit would show a
//! transaction that forgot a part. Reads only; all predicates see one snapshot.
use std::fmt::Write as _;
use std::sync::LazyLock;

use jiff_sqlx::Timestamp;
use sqlx::{AssertSqlSafe, PgConnection};

use crate::error::Result;

/// Most ids that a check names.
pub const SUBJECTS: usize = 20;

/// Something that always holds between transactions.
#[derive(Debug, Clone, Copy)]
pub struct Invariant {
    /// Short name, for programs.
    pub name: &'static str,
    /// What holds, as a sentence part.
    pub rule: &'static str,
    /// Selects the ids of the rows that break it, as text.
    query: &'static str,
}

/// Every invariant of the ledger.
pub const INVARIANTS: [Invariant; 24] = [
    Invariant {
        name: "claim_matches_slot",
        rule: "the slot of a live claim is there, of the claim's generation and in the matching status",
        query: "SELECT c.id::text FROM claims c LEFT JOIN slots s ON s.id = c.slot_id
                 WHERE c.kind = 'slot' AND c.state <> 'released' AND (CASE
                   WHEN c.state IN ('reserved', 'provisioning', 'active')
                   THEN s.status = c.state AND s.generation = c.slot_generation
                   WHEN c.state = 'releasing'
                   THEN s.status IN ('releasing', 'cleanup') AND s.generation = c.slot_generation
                   ELSE s.status IN ('cleanup_blocked', 'cleanup') AND s.generation >= c.slot_generation
                   END) IS NOT TRUE",
    },
    Invariant {
        name: "slot_has_its_claim",
        rule: "a slot in use has exactly one live claim, a slot out of use has none",
        query: "SELECT s.id::text FROM slots s LEFT JOIN claims c ON c.slot_id = s.id AND c.state <> 'released'
                 GROUP BY s.id HAVING NOT CASE
                   WHEN s.status IN ('reserved', 'provisioning', 'active', 'releasing') THEN count(c.id) = 1
                   WHEN s.status IN ('cleanup', 'cleanup_blocked') THEN count(c.id) <= 1
                   ELSE count(c.id) = 0 END",
    },
    Invariant {
        name: "node_has_one_kind",
        rule: "the live claims of a node are of the kind of its mode, and a bare-metal node has one claim",
        query: "SELECT c.node_id::text FROM claims c LEFT JOIN nodes n ON n.id = c.node_id
                 WHERE c.state <> 'released' GROUP BY c.node_id, n.mode
                HAVING bool_and(n.mode IS NOT NULL AND (c.kind = 'slot') = (n.mode = 'slice')) IS NOT TRUE
                    OR count(*) FILTER (WHERE c.kind = 'node_exclusive') > 1",
    },
    Invariant {
        name: "claim_matches_allocation",
        rule: "a claim belongs to an allocation of its node and SKU, and a live one is in that allocation's state",
        query: "SELECT c.id::text FROM claims c LEFT JOIN allocations a ON a.id = c.allocation_id
                 WHERE (a.node_id = c.node_id AND a.sku = c.sku AND CASE c.state
                   WHEN 'released' THEN true WHEN 'cleanup_blocked' THEN a.state <> 'requested'
                   ELSE a.state = c.state END) IS NOT TRUE",
    },
    Invariant {
        name: "allocation_has_its_claims",
        rule: "an allocation that has not ended has claimed one slot per GPU, or its bare-metal node",
        query: "SELECT a.id::text FROM allocations a LEFT JOIN claims c ON c.allocation_id = a.id AND c.state <> 'released'
                 WHERE a.state NOT IN ('released', 'failed') GROUP BY a.id
                HAVING count(c.id) <> CASE WHEN a.state = 'requested' THEN 0
                                           WHEN a.capacity_shape = 'gpu_slice' THEN a.gpu_count ELSE 1 END",
    },
    Invariant {
        name: "quota_counts_claims",
        rule: "the GPUs and allocations that count against a project's quota are those that it has claimed",
        query: "SELECT project_id || '/' || sku FROM
                  (SELECT project_id, sku, sum(gpu_count) AS gpus, count(*) AS allocations FROM allocations
                    WHERE capacity_shape = 'gpu_slice' AND state NOT IN ('requested', 'released', 'failed')
                    GROUP BY project_id, sku) u
                  FULL JOIN
                  (SELECT a.project_id, c.sku, count(*) AS gpus, count(DISTINCT a.id) AS allocations FROM claims c JOIN allocations a ON a.id = c.allocation_id
                    WHERE c.kind = 'slot' AND c.state <> 'released' AND a.state NOT IN ('released', 'failed')
                    GROUP BY a.project_id, c.sku) h USING (project_id, sku)
                 WHERE (u.gpus, u.allocations) IS DISTINCT FROM (h.gpus, h.allocations)",
    },
    Invariant {
        name: "reserved_slot_is_its_projects",
        rule: "a slot that is reserved for a project, and a node with one, is claimed for no other project",
        query: "SELECT DISTINCT h.slot_id::text FROM reserved_slots h
                  JOIN claims c ON c.node_id = h.node_id AND (c.slot_id = h.slot_id OR c.kind = 'node_exclusive')
                  JOIN allocations a ON a.id = c.allocation_id
                 WHERE c.state <> 'released' AND a.project_id <> h.project_id",
    },
    Invariant {
        name: "reserved_slot_matches_reservation",
        rule: "a reserved slot is not retired, and of the class and project of an active reservation",
        query: "SELECT h.slot_id::text FROM reserved_slots h LEFT JOIN capacity_reservations r ON r.id = h.reservation_id
                  LEFT JOIN skus k ON k.code = r.sku LEFT JOIN slots s ON s.id = h.slot_id AND s.node_id = h.node_id
                 WHERE (r.state = 'active' AND r.project_id = h.project_id AND s.class = k.slot_class
                        AND s.status <> 'retired') IS NOT TRUE",
    },
    Invariant {
        name: "reserved_slot_idle_matches_claims",
        rule: "a reserved slot is idle when no live claim is on it, and only then",
        query: "SELECT h.slot_id::text FROM reserved_slots h WHERE (h.idle_since IS NULL) <> EXISTS
                  (SELECT FROM claims c WHERE c.node_id = h.node_id AND c.state <> 'released'
                      AND (c.slot_id = h.slot_id OR c.kind = 'node_exclusive'))",
    },
    Invariant {
        name: "reservation_not_exceeded",
        rule: "a reservation has no more slots than it reserves, and none before its window or once it has ended",
        query: "SELECT r.id::text FROM capacity_reservations r LEFT JOIN reserved_slots h ON h.reservation_id = r.id
                 GROUP BY r.id HAVING count(h.slot_id) > CASE r.state WHEN 'active' THEN r.gpu_count - r.released_gpus
                                                                      ELSE 0 END",
    },
    Invariant {
        name: "available_slot_is_clean",
        rule: "a schedulable slot has evidence of its own generation, of a device that can be offered, and no cleanup failed on it",
        query: "SELECT s.id::text FROM slots s WHERE s.status = 'available' AND NOT (s.cleanup_health = 'healthy' AND EXISTS
                  (SELECT FROM clean_evidence e WHERE e.slot_id = s.id AND e.generation = s.generation AND e.reusable))",
    },
    Invariant {
        name: "available_slot_is_complete",
        rule: "a schedulable slot has every binding that its class needs",
        query: "SELECT s.id::text FROM slots s WHERE s.status = 'available' AND (s.management_mac <> ''
                   AND s.private_ip <> '' AND s.destructive_wipe_policy <> '' AND s.nvme_bytes > 0 AND CASE s.class
                   WHEN 'lab' THEN s.storage_identity_kind = 'lab_backing_file' AND s.nvme_device LIKE 'lab-disk:%'
                   ELSE s.storage_identity_kind = 'nvme_wwn_by_id' AND s.nvme_device LIKE '/dev/disk/by-id/%'
                        AND s.gpu_pci_address <> '' AND s.fabric_claim_mode = 'per_slot_vf'
                        AND s.fabric_vf_pci_address <> '' END) IS NOT TRUE",
    },
    Invariant {
        name: "blocked_slot_is_failed",
        rule: "a slot that waits for a repair has health failed",
        query: "SELECT s.id::text FROM slots s WHERE s.status = 'cleanup_blocked' AND s.health_state <> 'failed'",
    },
    Invariant {
        name: "period_matches_allocation",
        rule: "an allocation is billable once, from its activation to the acceptance of its release, or to the earlier end that is on record",
        query: "SELECT a.id::text FROM allocations a LEFT JOIN allocation_periods p ON p.allocation_id = a.id
                 GROUP BY a.id
                HAVING count(p.id) <> (a.active_at IS NOT NULL)::int
                    OR count(p.id) FILTER (WHERE p.ended_at IS NULL) <> (a.state = 'active')::int
                    OR bool_or(p.started_at <> a.active_at) OR bool_or(p.ended_at <> coalesce(a.billed_until, a.releasing_at))",
    },
    Invariant {
        name: "moving_allocation_is_worked_on",
        rule: "an allocation on its way to another state has a workflow that runs",
        query: "SELECT a.id::text FROM allocations a
                 WHERE (a.state IN ('reserved', 'provisioning', 'releasing')
                        OR a.power IN ('stopping', 'starting', 'rebooting', 'rescuing', 'unrescuing'))
                   AND NOT EXISTS (SELECT FROM workflows w
                        WHERE w.allocation_id = a.id AND w.slot_id IS NULL AND w.state = 'running')",
    },
    Invariant {
        name: "queued_allocation_is_complete",
        rule: "a queued allocation has its batch, a fair share of its project, and no node",
        query: "SELECT a.id::text FROM allocations a LEFT JOIN queued_allocations w ON w.allocation_id = a.id
                  LEFT JOIN fair_share t ON t.region_code = a.region_code AND t.slot_class = w.slot_class
                                   AND t.project_id = a.project_id
                 WHERE a.state = 'requested' AND (w.batch_id IS NULL OR t.last_served IS NULL OR a.node_id IS NOT NULL)",
    },
    Invariant {
        name: "batch_is_placed_together",
        rule: "of the allocations of one batch none is queued while another is placed",
        query: "SELECT w.batch_id::text FROM queued_allocations w JOIN allocations a ON a.id = w.allocation_id
                 GROUP BY w.batch_id HAVING bool_or(a.state = 'requested') AND bool_or(a.node_id IS NOT NULL)",
    },
    Invariant {
        name: "backfill_reservation_of_one_batch",
        rule: "a queue has backfill reservations for one batch, and no more than that has allocations",
        query: "SELECT k.region_code || '/' || k.slot_class FROM backfill_reservations k GROUP BY k.region_code, k.slot_class
                HAVING count(DISTINCT k.batch_id) > 1 OR count(*) > (SELECT count(*) FROM queued_allocations w WHERE w.batch_id = min(k.batch_id::text)::uuid)",
    },
    Invariant {
        name: "slot_in_cleanup_is_worked_on",
        rule: "a slot in cleanup has a repair that runs",
        query: "SELECT s.id::text FROM slots s WHERE s.status = 'cleanup' AND NOT EXISTS
                  (SELECT FROM workflows w WHERE w.slot_id = s.id AND w.kind = 'repair' AND w.state = 'running')",
    },
    Invariant {
        name: "event_explains_allocation",
        rule: "the last event of an allocation is of its present revision and names its present state",
        // what has not changed since the oldest event that is retained may have lost its own
        query: "SELECT a.id::text FROM allocations a CROSS JOIN kept LEFT JOIN LATERAL
                  (SELECT type, revision FROM outbox WHERE aggregate_id = a.id ORDER BY revision DESC LIMIT 1) e ON true
                 WHERE (CASE WHEN e.revision IS NULL THEN kept.swept AND a.updated_at < kept.since
                   ELSE e.revision = a.revision AND (e.type = 'allocation.' || a.power
                        OR e.type = 'allocation.' || a.state AND coalesce(a.power, 'running') = 'running'
                        OR e.type = CASE WHEN a.host_lost_since IS NULL THEN 'allocation.host_found' ELSE 'allocation.host_lost' END
                        OR e.type = CASE WHEN a.device_drift_since IS NULL THEN 'allocation.device_drift_ended'
                                         ELSE 'allocation.device_drift' END
                        OR e.type = 'allocation.updated')
                   END) IS NOT TRUE",
    },
    Invariant {
        name: "allocation_events_are_all_there",
        rule: "the events of an allocation are numbered without gaps",
        query: "SELECT o.aggregate_id::text FROM outbox o CROSS JOIN kept WHERE o.type LIKE 'allocation.%'
                 GROUP BY o.aggregate_id, kept.swept
                HAVING count(*) <> max(o.revision) - min(o.revision) + 1 OR NOT kept.swept AND min(o.revision) <> 1",
    },
    Invariant {
        name: "event_explains_slot",
        rule: "the last event of a slot says how it came into its present status",
        query: "SELECT s.id::text FROM slots s CROSS JOIN kept LEFT JOIN LATERAL
                  (SELECT type FROM outbox WHERE aggregate_id = s.id AND type IN ('slot.available', 'slot.cleanup_blocked',
                        'slot.disabled', 'slot.retired') ORDER BY revision DESC LIMIT 1) e ON true
                 WHERE (CASE
                   WHEN e.type IS NULL THEN kept.swept OR s.status IN ('disabled', 'cleanup') AND s.clean_generation IS NULL
                   WHEN s.status IN ('reserved', 'provisioning', 'active', 'releasing') THEN e.type = 'slot.available'
                   WHEN s.status = 'cleanup' THEN e.type IN ('slot.cleanup_blocked', 'slot.disabled')
                   ELSE e.type = 'slot.' || s.status END) IS NOT TRUE",
    },
    Invariant {
        name: "events_have_no_gap",
        rule: "the positions of events have no gap and end at the head",
        query: "SELECT 'head ' || h.position FROM outbox_head h CROSS JOIN
                  (SELECT count(position) AS n, min(position) AS low, max(position) AS high FROM outbox) o
                 WHERE coalesce(o.high, h.position) <> h.position OR o.n > 0 AND o.n <> o.high - o.low + 1",
    },
    Invariant {
        name: "events_are_in_order",
        rule: "the events of one allocation or slot have positions in the order of their revisions",
        query: "SELECT DISTINCT aggregate_id::text FROM (SELECT aggregate_id, revision,
                        lag(revision) OVER (PARTITION BY aggregate_id ORDER BY position) AS before
                   FROM outbox WHERE position IS NOT NULL) o WHERE revision <= before",
    },
];

/// Since when events are retained, and whether earlier ones were removed by age.
const KEPT: &str = "kept AS MATERIALIZED
    (SELECT h.position > 0 AND NOT EXISTS (SELECT FROM outbox WHERE position = 1) AS swept,
            coalesce((SELECT at FROM outbox WHERE position IS NOT NULL ORDER BY position LIMIT 1), 'infinity') AS since
       FROM outbox_head h)";

/// All predicates in one statement, which therefore sees one snapshot: the number of the invariant, how many rows
/// break it, and the first ids.
static STATEMENT: LazyLock<String> = LazyLock::new(|| {
    let mut found = String::new();
    for (number, invariant) in INVARIANTS.iter().enumerate() {
        let or = if number == 0 { "" } else { " UNION ALL " };
        let _infallible = write!(
            found,
            "{or}SELECT {number}::int AS invariant, subject FROM ({}) AS q{number} (subject)",
            invariant.query
        );
    }
    format!(
        "WITH {KEPT}, found AS ({found})
         SELECT invariant, count(*), (array_agg(subject ORDER BY subject))[1:{SUBJECTS}]
           FROM found GROUP BY invariant"
    )
});

/// How an invariant fared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvariantCheck {
    /// Name of the invariant.
    pub name: &'static str,
    /// What should hold.
    pub rule: &'static str,
    /// How many rows break it; 0: it holds.
    pub broken: u64,
    /// Ids of the first [`SUBJECTS`] of them.
    pub subjects: Vec<String>,
}

/// What an audit saw.
#[derive(Debug, Clone)]
pub struct Report {
    /// Database time just before the snapshot.
    pub at: Timestamp,
    /// Every invariant, in the order of [`INVARIANTS`].
    pub checks: Vec<InvariantCheck>,
}

impl Report {
    /// The invariants that do not hold.
    pub fn broken(&self) -> impl Iterator<Item = &InvariantCheck> {
        self.checks.iter().filter(|check| check.broken > 0)
    }
}

/// Evaluates every invariant on one snapshot. It reads the ledger completely, so its time grows with what is stored.
///
/// # Errors
/// Those of the database.
pub async fn ledger(conn: &mut PgConnection) -> Result<Report> {
    let at = sqlx::query_scalar("SELECT clock_timestamp()")
        .fetch_one(&mut *conn)
        .await?;
    let rows: Vec<(i32, i64, Vec<String>)> = sqlx::query_as(AssertSqlSafe(STATEMENT.as_str()))
        .fetch_all(conn)
        .await?;
    let checks = INVARIANTS
        .iter()
        .enumerate()
        .map(|(number, invariant)| {
            let row = rows
                .iter()
                .find(|(found, _, _)| usize::try_from(*found) == Ok(number));
            InvariantCheck {
                name: invariant.name,
                rule: invariant.rule,
                broken: row.map_or(0, |(_, broken, _)| broken.unsigned_abs()),
                subjects: row.map_or_else(Vec::new, |(_, _, subjects)| subjects.clone()),
            }
        })
        .collect();
    Ok(Report { at, checks })
}
