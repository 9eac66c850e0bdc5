//! The services of this process, one thin method per RPC: parse, check ownership, call, map the error.

mod access;
mod admin;
mod allocations;
mod certificates;
mod comparison;
mod comparison_correction;
mod comparison_filter;
mod create;
mod differences;
mod errors;
mod events;
mod force_release;
mod ingress;
mod metrics;
mod network;
mod operator_actions;
mod partition_deactivation;
mod power;
mod rescue;
mod update;

pub use access::AccessApi;
pub use admin::AdminApi;
pub use allocations::AllocationApi;
pub use events::EventApi;
pub use ingress::IngressApi;
pub use network::NetworkApi;
