//! One thin method per RPC: parse, look the key up, call the ledger, record, map.
mod admin;
mod capacity;
mod intake;
mod ledger;
mod nodes;
mod parse;
mod placement;
mod public;
mod queue;
mod reports;
mod reservations;
mod wire;

use std::sync::Arc;

use gpuaas_kit::id::IdGen;
use gpuaas_kit::wake::Wake;
use gpuaas_placement::capacity::Capacity;
use gpuaas_placement::reserve::Policy;
use sqlx::PgPool;

/// All services of the scheduler.
#[derive(Clone)]
pub struct Api {
    /// Database, as the scheduler's own role.
    pub pool: PgPool,
    /// Makes ids of allocations, claims and slots.
    pub ids: IdGen,
    /// Wakes workflow runners and the stamper.
    pub wake: Wake,
    /// How reservations are decided.
    pub policy: Policy,
    /// The nodes in memory, for availability and explanations.
    pub capacity: Arc<Capacity>,
}
