//! One thin method per RPC: parse, scope, call the store, map.
mod prices;
mod usage;
mod usage_events;

use gpuaas_common::client::GrpcChannel;
use gpuaas_common::id::IdGen;
use gpuaas_common::wake::Wake;
use sqlx::PgPool;

use crate::workflow::publisher::Publisher;

/// The public services of billing.
#[derive(Clone)]
pub struct Api {
    /// Database of this service.
    pub pool: PgPool,
    /// Makes price version ids.
    pub ids: IdGen,
    /// The service that knows SKUs.
    pub scheduler: GrpcChannel,
    /// Tries at once to publish a new price.
    pub publisher: Publisher,
    /// Tells other replicas of a new price.
    pub wake: Wake,
}
