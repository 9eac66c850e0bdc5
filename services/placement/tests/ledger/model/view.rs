//! What the ledger says, in a form that the model can be equal to.
use std::collections::BTreeMap;

use gpuaas_placement::model::{AllocationState, ClaimState, SlotStatus};
use sqlx::PgPool;
use uuid::Uuid;

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
    pub power: Option<String>,
    /// Live claims by slot.
    pub claims: BTreeMap<Uuid, ClaimState>,
    /// Kind of the workflow that runs on it as a whole.
    pub work: Option<String>,
    /// Billable periods: all, and those that are open.
    pub periods: (i64, i64),
}

/// The ledger between two transactions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct View {
    pub slots: BTreeMap<Uuid, SlotView>,
    pub allocations: BTreeMap<Uuid, AllocationView>,
}

/// Id, node, index, status, generation, clean generation, disabled, in repair.
type SlotRow = (Uuid, Uuid, i32, SlotStatus, i64, Option<i64>, bool, bool);
/// Id, state, power, workflow, periods, open periods.
type AllocationRow = (
    Uuid,
    AllocationState,
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
}

impl View {
    pub async fn load(owner: &PgPool) -> Self {
        let slots: Vec<SlotRow> = sqlx::query_as(
            "SELECT s.id, s.node_id, s.slot_index, s.status, s.generation, s.clean_generation,
                    s.admin_state = 'disabled',
                    EXISTS (SELECT FROM workflows w WHERE w.slot_id = s.id AND w.state = 'running') FROM slots s",
        )
        .fetch_all(owner)
        .await
        .expect("slots");
        let allocations: Vec<AllocationRow> = sqlx::query_as(
            "SELECT a.id, a.state, a.power,
                    (SELECT w.kind FROM workflows w WHERE w.allocation_id = a.id AND w.slot_id IS NULL AND w.state = 'running'),
                    count(p.id), count(p.id) FILTER (WHERE p.ended_at IS NULL)
               FROM allocations a LEFT JOIN allocation_periods p ON p.allocation_id = a.id GROUP BY a.id",
        )
        .fetch_all(owner)
        .await
        .expect("allocations");
        let claims: Vec<(Uuid, Uuid, ClaimState)> = sqlx::query_as(
            "SELECT allocation_id, slot_id, state FROM claims WHERE state <> 'released'",
        )
        .fetch_all(owner)
        .await
        .expect("claims");
        let mut view = Self::default();
        for (id, node, index, status, generation, clean, disabled, repair) in slots {
            let slot = SlotView {
                node,
                index,
                status,
                generation,
                clean,
                disabled,
                repair,
            };
            view.slots.insert(id, slot);
        }
        for (id, state, power, work, all, open) in allocations {
            let allocation = AllocationView {
                state,
                power,
                claims: BTreeMap::new(),
                work,
                periods: (all, open),
            };
            view.allocations.insert(id, allocation);
        }
        for (allocation, slot, state) in claims {
            let of = view
                .allocations
                .get_mut(&allocation)
                .expect("its allocation");
            of.claims.insert(slot, state);
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

    pub fn slot(&mut self, id: Uuid) -> &mut SlotView {
        self.slots.get_mut(&id).expect("a slot")
    }

    pub fn allocation(&mut self, id: Uuid) -> &mut AllocationView {
        self.allocations.get_mut(&id).expect("an allocation")
    }
}
