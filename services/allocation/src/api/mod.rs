//! The services of this process, one thin method per RPC: parse, check ownership, call, map the error.

mod access;
mod admin;
mod allocations;
mod certificates;
mod comparison;
mod comparison_filter;
mod comparison_repair;
pub(crate) mod convert;
mod create;
mod differences;
mod events;
mod force_release;
mod ingress;
mod metrics;
mod network;
pub(crate) mod owned;
mod partition_repair;
mod power;
mod rescue;
mod tenants;
mod update;

pub use access::AccessApi;
pub use admin::AdminApi;
pub use allocations::AllocationApi;
pub use events::EventApi;
pub use ingress::IngressApi;
pub use network::NetworkApi;

use gpuaas_common::Error;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;

use crate::domain::FieldError;

impl From<FieldError> for Error {
    fn from(error: FieldError) -> Self {
        if error.missing {
            Self::required(error.field)
        } else {
            Self::invalid(error.field, error.rule)
        }
    }
}

/// A statement that failed by a deadlock or contention may be retried.
fn worth_repeating(error: &Error) -> bool {
    error.code() == tonic::Code::Aborted && error.reason() == ErrorReason::Overloaded
}
