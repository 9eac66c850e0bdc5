//! The gRPC services: parse, call, answer. Who may call was decided by the server from the contract's options.
mod bindings;
mod metrics;
mod node_scheduler;
mod serial_log;
mod topology;
mod virtual_machines;

use std::sync::Arc;

use gpuaas_common::server::Server;
use gpuaas_common::{Context, Error};
use gpuaas_proto::gpuaas::agent::v1::node_scheduler_server::NodeSchedulerServer;
use gpuaas_proto::gpuaas::agent::v1::terminal_server::TerminalServer;
use gpuaas_proto::gpuaas::agent::v1::topology_server::TopologyServer;
use gpuaas_proto::gpuaas::agent::v1::virtual_machines_server::VirtualMachinesServer;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use tonic::{Code, Status};

pub use node_scheduler::NodeSchedulerApi;
pub use topology::{TopologyApi, discover};
pub use virtual_machines::VirtualMachinesApi;

use crate::error::HostError;
use crate::node::Node;
use crate::operation::Runner;
use crate::terminal::TerminalApi;

/// What the services share.
#[derive(Clone)]
pub struct Shared {
    /// The host.
    pub node: Arc<Node>,
    /// Its operations.
    pub runner: Arc<Runner>,
}

/// A server of everything that a host is called for.
pub fn server(context: &Context, node: &Arc<Node>, runner: Arc<Runner>) -> Server {
    let shared = Shared {
        node: Arc::clone(node),
        runner,
    };
    Server::new(context)
        .add(NodeSchedulerServer::new(NodeSchedulerApi(shared.clone())))
        .add(VirtualMachinesServer::new(VirtualMachinesApi(
            shared.clone(),
        )))
        .add(TopologyServer::new(TopologyApi(shared)))
        .add(TerminalServer::new(TerminalApi::of_node(node)))
}

/// The answer to a host error.
fn status(error: HostError) -> Status {
    let code = match error.reason {
        ErrorReason::FieldInvalid | ErrorReason::FieldRequired => Code::InvalidArgument,
        ErrorReason::OperationNotFound => Code::NotFound,
        ErrorReason::OperationConflict => Code::AlreadyExists,
        ErrorReason::Overloaded => Code::ResourceExhausted,
        ErrorReason::Internal => return Error::internal(error).into(),
        _ => Code::FailedPrecondition,
    };
    match error.field {
        Some(field) => Error::invalid(field, error.message).into(),
        None => Error::new(code, error.reason, error.message).into(),
    }
}
