//! One thin method per RPC: parse, read the key, call the ledger, record, map.
mod admin;
mod capacity;
mod convert;
mod fleet;
mod intake;
mod ledger;
mod lifecycle;
mod node_health;
mod nodes;
mod parse;
mod parse_sku;
mod placement;
mod public;
pub mod queue;
mod quotas;
mod reports;
mod reservations;
mod suspensions;

use gpuaas_common::id::IdGen;
use gpuaas_common::wake::Wake;
use gpuaas_placement::capacity::Ledger;
use gpuaas_placement::reserve::Policy;

/// All services of the scheduler.
#[derive(Clone)]
pub struct Api {
    /// Database, as the scheduler's own role, with the nodes in memory.
    pub pool: Ledger,
    /// Makes ids of allocations, claims and slots.
    pub ids: IdGen,
    /// Wakes workflow runners and the sequencer.
    pub wake: Wake,
    /// How reservations are decided.
    pub policy: Policy,
}
