//! SQL of schema `billing`, run as the role `gpuaas_billing`.
pub mod credits;
pub mod position;
pub mod prices;
pub mod usage;
pub mod usage_events;
