//! The ledger and the host as terminals see them.
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};

use gpuaas_agent::error::HostResult;
use gpuaas_agent::ids::AllocationId;
use gpuaas_agent::terminal::Guests;
use gpuaas_common::Error;
use gpuaas_proto::gpuaas::common::v1::CapacityShape;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_proto::gpuaas::internal::allocation::v1 as access;
use gpuaas_proto::gpuaas::internal::allocation::v1::access_service_server::AccessService;
use gpuaas_proto::gpuaas::internal::events::v1 as events;
use gpuaas_proto::gpuaas::internal::events::v1::event_service_server::EventService;
use tonic::{Code, Request, Response, Status};
use uuid::Uuid;

const USER: &str = "u_adda9308def04a2f";

/// The ledger as far as terminals see it, and what the host knows.
#[derive(Debug, Default)]
pub struct Ledger {
    pub project_id: Uuid,
    pub allocation_id: Uuid,
    pub node_id: Uuid,
    pub instance_id: Uuid,
    pub agent_address: String,
    pub target_host: String,
    pub target_port: u32,
    /// The port of guests by the host; none: that of the ledger.
    pub ssh_port: Option<u32>,
    pub host_key: String,
    pub shape: CapacityShape,
    /// State of the allocation.
    pub state: String,
    pub events: Vec<(String, Uuid)>,
    /// What the host says is the guest's address.
    pub reserved: Option<Ipv4Addr>,
}

#[derive(Clone)]
pub struct Shared(pub Arc<Mutex<Ledger>>);

#[tonic::async_trait]
impl AccessService for Shared {
    async fn resolve_terminal_target(
        &self,
        request: Request<access::ResolveTerminalTargetRequest>,
    ) -> Result<Response<access::ResolveTerminalTargetResponse>, Status> {
        let request = request.into_inner();
        let ledger = self.0.lock().expect("lock");
        let owned = request.project_ids.contains(&ledger.project_id.to_string());
        if !owned || request.allocation_id != ledger.allocation_id.to_string() {
            return Err(Error::new(
                Code::NotFound,
                ErrorReason::AllocationNotFound,
                "There is no such allocation.",
            )
            .into());
        }
        if ledger.state != "active" {
            return Err(Error::new(
                Code::FailedPrecondition,
                ErrorReason::StateConflict,
                "The allocation is not active.",
            )
            .into());
        }
        Ok(Response::new(access::ResolveTerminalTargetResponse {
            allocation_id: request.allocation_id,
            project_id: ledger.project_id.to_string(),
            capacity_shape: ledger.shape.into(),
            target_host: ledger.target_host.clone(),
            target_port: ledger.target_port,
            user: USER.to_owned(),
            ssh_host_keys: vec![ledger.host_key.clone()],
            node_id: ledger.node_id.to_string(),
            instance_id: ledger.instance_id.to_string(),
            agent_address: ledger.agent_address.clone(),
        }))
    }
}

#[tonic::async_trait]
impl EventService for Shared {
    async fn read(
        &self,
        request: Request<events::ReadRequest>,
    ) -> Result<Response<events::ReadResponse>, Status> {
        let after = request.into_inner().after_position;
        let ledger = self.0.lock().expect("lock");
        let all = ledger.events.iter().zip(1_i64..);
        let events = all
            .filter(|(_, position)| *position > after)
            .map(|((kind, id), position)| events::Event {
                position,
                r#type: kind.clone(),
                aggregate_id: id.to_string(),
                ..events::Event::default()
            });
        Ok(Response::new(events::ReadResponse {
            events: events.collect(),
            head_position: ledger.events.len() as i64,
        }))
    }
}

impl Guests for Shared {
    fn address(&self, allocation: AllocationId) -> HostResult<Option<Ipv4Addr>> {
        let ledger = self.0.lock().expect("lock");
        Ok(ledger
            .reserved
            .filter(|_| allocation.0 == ledger.allocation_id))
    }

    fn holds(&self, allocation: AllocationId) -> HostResult<bool> {
        Ok(allocation.0 == self.0.lock().expect("lock").allocation_id)
    }

    /// Guests of tests share one address, and so have ports of their own.
    fn ssh_port(&self) -> u16 {
        let ledger = self.0.lock().expect("lock");
        ledger.ssh_port.unwrap_or(ledger.target_port) as u16
    }
}
