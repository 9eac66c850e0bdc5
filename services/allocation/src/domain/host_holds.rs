//! Which of the slots that a host holds are nobody's by the ledger.
use std::collections::BTreeMap;

use gpuaas_placement::host_holds::{HostHold, is_free};
use gpuaas_placement::model::{Slot, SlotStatus};
use gpuaas_proto::gpuaas::agent::v1::ListHoldsResponse;
use uuid::Uuid;

use super::residue::{LedgerState, state_of};

/// What the ledger has of a node, before and after the inspection of its host.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    pub states: [BTreeMap<Uuid, LedgerState>; 2],
    pub slots: [Vec<Slot>; 2],
}

impl Ledger {
    /// The state of an allocation; one that moved meanwhile is moving.
    #[must_use]
    pub fn state(&self, id: Uuid) -> LedgerState {
        let [before, after] = &self.states;
        state_of(before, after, id)
    }

    /// A slot that has not changed hands meanwhile.
    #[must_use]
    pub fn unchanged_slot(&self, id: Uuid) -> Option<&Slot> {
        let [before, after] = &self.slots;
        let found = |slots: &[Slot]| slots.iter().position(|slot| slot.id == id);
        let (was, is) = (&before[found(before)?], &after[found(after)?]);
        let hands = |slot: &Slot| (slot.status, slot.generation, slot.allocation_id);
        (hands(was) == hands(is)).then_some(is)
    }
}

/// The slots that the host holds, each with whether that is leaked. A hold that a failed repair left on a blocked slot is not:
/// the next repair takes it up.
#[must_use]
pub fn host_holds(ledger: &Ledger, host: &ListHoldsResponse) -> BTreeMap<Uuid, HostHold> {
    let holds = host.holds.iter().filter_map(|hold| {
        let slot_id: Uuid = hold.slot_id.parse().ok()?;
        let holder: Uuid = hold.allocation_id.parse().ok()?;
        let is_over = matches!(
            ledger.state(holder),
            LedgerState::Over | LedgerState::OverHeld
        );
        let slot = ledger.unchanged_slot(slot_id).filter(|slot| {
            let by_repair = holder == slot_id && slot.status == SlotStatus::CleanupBlocked;
            is_over && is_free(slot) && !by_repair
        });
        let leaked_at = slot.map(|slot| slot.generation);
        Some((slot_id, HostHold { holder, leaked_at }))
    });
    holds.collect()
}
