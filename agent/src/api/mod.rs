//! The gRPC services: parse, call, answer. Who may call was decided by the server from the contract's options.
mod node_scheduler;
mod topology;
mod virtual_machines;

use std::sync::Arc;

use gpuaas_common::Error;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use tonic::{Code, Status};

pub use node_scheduler::NodeSchedulerApi;
pub use topology::{TopologyApi, discover};
pub use virtual_machines::VirtualMachinesApi;

use crate::error::HostError;
use crate::node::Node;
use crate::operation::Runner;

/// What the services share.
#[derive(Clone)]
pub struct Shared {
    /// The host.
    pub node: Arc<Node>,
    /// Its operations.
    pub runner: Arc<Runner>,
}

/// Milliseconds since 1970 as the wire has them.
pub fn timestamp(ms: i64) -> prost_types::Timestamp {
    prost_types::Timestamp {
        seconds: ms.div_euclid(1000),
        nanos: i32::try_from(ms.rem_euclid(1000) * 1_000_000).unwrap_or(0),
    }
}

/// The answer to a host error.
fn status(error: HostError) -> Status {
    let code = match error.reason {
        ErrorReason::FieldInvalid | ErrorReason::FieldRequired => Code::InvalidArgument,
        ErrorReason::OperationNotFound => Code::NotFound,
        ErrorReason::OperationConflict => Code::AlreadyExists,
        ErrorReason::Internal => return Error::internal(error).into(),
        _ => Code::FailedPrecondition,
    };
    match error.field {
        Some(field) => Error::invalid(field, error.message).into(),
        None => Error::new(code, error.reason, error.message).into(),
    }
}
