//! What the ledger says, in a form that the model can be equal to.
use std::collections::BTreeMap;

use gpuaas_placement::model::{AllocationState, ClaimState, SlotStatus, Stored};
use sqlx::PgPool;
use uuid::Uuid;

/// A node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeView {
    /// It is a bare-metal one now.
    pub baremetal: bool,
    /// Inventory wants it to be.
    pub meant_baremetal: bool,
    /// What the operator wants of it.
    pub intent: String,
}

/// A slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotView {
    pub node: Uuid,
    pub index: i32,
    pub status: SlotStatus,
    pub generation: i64,
    pub clean: Option<i64>,
    pub disabled: bool,
    /// A repair of it runs.
    pub repair: bool,
}

/// An allocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllocationView {
    pub state: AllocationState,
    pub node: Option<Uuid>,
    pub power: Option<String>,
    /// Live claims by slot.
    pub claims: BTreeMap<Uuid, ClaimState>,
    /// A live claim on its bare-metal node.
    pub bare_metal: Option<ClaimState>,
    /// Kind of the workflow that runs on it, not on one of its slots.
    pub work: Option<String>,
    /// Billable periods: all, and those that are open.
    pub periods: (i64, i64),
}

/// A capacity reservation that is not over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReservationView {
    pub project: Uuid,
    /// GPUs that it reserves.
    pub gpus: usize,
    /// Of bare-metal nodes.
    pub bare_metal: bool,
    /// Its window is over.
    pub overdue: bool,
}

/// A queued request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    pub id: Uuid,
    pub project: Uuid,
    /// Its allocations that wait, by id.
    pub members: Vec<Uuid>,
    /// What it waits for is its project's quota.
    pub for_quota: bool,
    /// Its deadline is over.
    pub overdue: bool,
}

/// The ledger between two transactions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct View {
    pub nodes: BTreeMap<Uuid, NodeView>,
    pub slots: BTreeMap<Uuid, SlotView>,
    pub allocations: BTreeMap<Uuid, AllocationView>,
    /// Requests that wait, the oldest first.
    pub queue: Vec<Batch>,
    /// Projects that ever waited, in the order of their turns.
    pub round_robin: Vec<Uuid>,
    /// Batch for which a node is kept.
    pub kept: BTreeMap<Uuid, Uuid>,
    pub reservations: BTreeMap<Uuid, ReservationView>,
    /// Reservation that holds a slot.
    pub held: BTreeMap<Uuid, Uuid>,
}

/// Id, node, index, status, generation, clean generation, disabled, in repair.
type SlotRow = (
    Uuid,
    Uuid,
    i32,
    Stored<SlotStatus>,
    i64,
    Option<i64>,
    bool,
    bool,
);
/// Id, state, node, power, workflow, periods, open periods.
type AllocationRow = (
    Uuid,
    AllocationState,
    Option<Uuid>,
    Option<String>,
    Option<String>,
    i64,
    i64,
);

impl AllocationView {
    /// It has not ended.
    pub fn lives(&self) -> bool {
        !matches!(
            self.state,
            AllocationState::Released | AllocationState::Failed
        )
    }

    /// It counts against a quota.
    pub fn counts(&self) -> bool {
        self.lives() && self.state != AllocationState::Requested
    }
}

impl View {
    pub async fn load(owner: &PgPool) -> Self {
        let mut conn = owner.acquire().await.expect("connection");
        let nodes: Vec<(Uuid, bool, bool, String)> = sqlx::query_as(
            "SELECT id, mode = 'baremetal', coalesce(intended_mode, mode) = 'baremetal', admin_state FROM nodes",
        )
        .fetch_all(&mut *conn)
        .await
        .expect("nodes");
        let slots: Vec<SlotRow> = sqlx::query_as(
            "SELECT s.id, s.node_id, s.slot_index, s.status, s.generation, s.clean_generation,
                    s.admin_state = 'disabled',
                    EXISTS (SELECT FROM workflows w WHERE w.slot_id = s.id AND w.state = 'running') FROM slots s",
        )
        .fetch_all(&mut *conn)
        .await
        .expect("slots");
        let allocations: Vec<AllocationRow> = sqlx::query_as(
            "SELECT a.id, a.state, a.node_id, a.power,
                    (SELECT w.kind FROM workflows w WHERE w.allocation_id = a.id AND w.slot_id IS NULL AND w.state = 'running'),
                    count(p.id), count(p.id) FILTER (WHERE p.ended_at IS NULL)
               FROM allocations a LEFT JOIN allocation_periods p ON p.allocation_id = a.id GROUP BY a.id",
        )
        .fetch_all(&mut *conn)
        .await
        .expect("allocations");
        let claims: Vec<(Uuid, Option<Uuid>, ClaimState)> = sqlx::query_as(
            "SELECT allocation_id, slot_id, state FROM claims WHERE state <> 'released'",
        )
        .fetch_all(&mut *conn)
        .await
        .expect("claims");
        let queue: Vec<(Uuid, Uuid, Vec<Uuid>, bool, bool)> = sqlx::query_as(
            "SELECT w.batch_id, a.project_id, array_agg(a.id ORDER BY a.id), bool_or(w.reason = 'QUOTA'),
                    bool_or(a.deadline_at <= clock_timestamp())
               FROM allocations a JOIN queued_allocations w ON w.allocation_id = a.id WHERE a.state = 'requested'
              GROUP BY w.batch_id, a.project_id ORDER BY min(a.created_at), w.batch_id",
        )
        .fetch_all(&mut *conn)
        .await
        .expect("queue");
        let round_robin =
            sqlx::query_scalar("SELECT project_id FROM fair_share ORDER BY last_served")
                .fetch_all(&mut *conn)
                .await
                .expect("round robin");
        let kept: Vec<(Uuid, Uuid)> =
            sqlx::query_as("SELECT node_id, batch_id FROM backfill_reservations")
                .fetch_all(&mut *conn)
                .await
                .expect("kept nodes");
        let reservations: Vec<(Uuid, Uuid, i64, bool, bool)> = sqlx::query_as(
            "SELECT id, project_id, (gpu_count - released_gpus)::bigint, sku = 'h200-sxm-node',
                    ends_at <= clock_timestamp()
               FROM capacity_reservations WHERE ended_at IS NULL",
        )
        .fetch_all(&mut *conn)
        .await
        .expect("reservations");
        let held: Vec<(Uuid, Uuid)> =
            sqlx::query_as("SELECT slot_id, reservation_id FROM reserved_slots")
                .fetch_all(&mut *conn)
                .await
                .expect("held slots");
        let mut view = Self {
            reservations: reservations
                .into_iter()
                .map(|(id, project, gpus, bare_metal, overdue)| {
                    let of = ReservationView {
                        project,
                        gpus: usize::try_from(gpus).expect("few"),
                        bare_metal,
                        overdue,
                    };
                    (id, of)
                })
                .collect(),
            held: held.into_iter().collect(),
            queue: queue
                .into_iter()
                .map(|(id, project, members, for_quota, overdue)| Batch {
                    id,
                    project,
                    members,
                    for_quota,
                    overdue,
                })
                .collect(),
            round_robin,
            kept: kept.into_iter().collect(),
            ..Self::default()
        };
        for (id, baremetal, meant_baremetal, intent) in nodes {
            let node = NodeView {
                baremetal,
                meant_baremetal,
                intent,
            };
            view.nodes.insert(id, node);
        }
        for (id, node, index, status, generation, clean, disabled, repair) in slots {
            let slot = SlotView {
                node,
                index,
                status: status.0,
                generation,
                clean,
                disabled,
                repair,
            };
            view.slots.insert(id, slot);
        }
        for (id, state, node, power, work, all, open) in allocations {
            let allocation = AllocationView {
                state,
                node,
                power,
                claims: BTreeMap::new(),
                bare_metal: None,
                work,
                periods: (all, open),
            };
            view.allocations.insert(id, allocation);
        }
        for (allocation, slot, state) in claims {
            let of = view.allocation(allocation);
            match slot {
                Some(slot) => drop(of.claims.insert(slot, state)),
                None => of.bare_metal = Some(state),
            }
        }
        view
    }

    /// The allocation with a live claim on a slot.
    pub fn holder(&self, slot: Uuid) -> Option<(Uuid, &AllocationView)> {
        self.allocations
            .iter()
            .find(|(_, one)| one.claims.contains_key(&slot))
            .map(|(id, one)| (*id, one))
    }

    /// Allocations with a live claim on a node or on one of its slots.
    pub fn holders(&self, node: Uuid) -> impl Iterator<Item = (&Uuid, &AllocationView)> {
        self.allocations.iter().filter(move |(_, one)| {
            one.node == Some(node) && (one.bare_metal.is_some() || !one.claims.is_empty())
        })
    }

    /// The project that a slot is held for.
    pub fn held_for(&self, slot: Uuid) -> Option<Uuid> {
        let reservation = self.held.get(&slot)?;
        Some(self.reservations[reservation].project)
    }

    /// Somebody has a slot, or the bare-metal node it is on.
    pub fn in_use(&self, slot: Uuid) -> bool {
        let node = self.slots[&slot].node;
        self.holder(slot).is_some() || self.holders(node).any(|(_, one)| one.bare_metal.is_some())
    }

    /// How many slots a reservation holds.
    pub fn holds(&self, reservation: Uuid) -> usize {
        self.held.values().filter(|of| **of == reservation).count()
    }

    pub fn node(&mut self, id: Uuid) -> &mut NodeView {
        self.nodes.get_mut(&id).expect("a node")
    }

    pub fn slot(&mut self, id: Uuid) -> &mut SlotView {
        self.slots.get_mut(&id).expect("a slot")
    }

    pub fn allocation(&mut self, id: Uuid) -> &mut AllocationView {
        self.allocations.get_mut(&id).expect("an allocation")
    }

    /// What differs, this one being what was foretold.
    pub fn difference(&self, after: &Self) -> String {
        let mut found = Vec::new();
        differ("node", &self.nodes, &after.nodes, &mut found);
        differ("slot", &self.slots, &after.slots, &mut found);
        differ(
            "allocation",
            &self.allocations,
            &after.allocations,
            &mut found,
        );
        differ("kept", &self.kept, &after.kept, &mut found);
        differ(
            "reservation",
            &self.reservations,
            &after.reservations,
            &mut found,
        );
        differ("held", &self.held, &after.held, &mut found);
        if (&self.queue, &self.round_robin) != (&after.queue, &after.round_robin) {
            found.push(format!(
                "queue: foretold {:#?} {:?}, is {:#?} {:?}",
                self.queue, self.round_robin, after.queue, after.round_robin
            ));
        }
        found.join("\n")
    }
}

fn differ<T: PartialEq + std::fmt::Debug>(
    what: &str,
    foretold: &BTreeMap<Uuid, T>,
    after: &BTreeMap<Uuid, T>,
    found: &mut Vec<String>,
) {
    let ids = foretold.keys().chain(after.keys());
    for id in ids.collect::<std::collections::BTreeSet<_>>() {
        let (was, is) = (foretold.get(id), after.get(id));
        if was != is {
            found.push(format!("{what} {id}: foretold {was:?}, is {is:?}"));
        }
    }
}
