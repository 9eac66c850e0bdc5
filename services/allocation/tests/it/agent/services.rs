//! The host's gRPC services.

use std::pin::Pin;
use std::sync::PoisonError;

use futures::Stream;
use gpuaas_common::Error;
use gpuaas_proto::gpuaas::agent::v1 as pb;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use tonic::{Code, Request, Response, Status};

use super::{Agent, CLEAN_UP, PROVISION, REBOOT, RELEASE, REPAIR, START, STOP};

pub fn refusal(reason: ErrorReason, message: &str) -> Status {
    Error::new(Code::FailedPrecondition, reason, message).into()
}

#[tonic::async_trait]
impl pb::node_scheduler_server::NodeScheduler for Agent {
    async fn acquire_lease(
        &self,
        request: Request<pb::AcquireLeaseRequest>,
    ) -> Result<Response<pb::AcquireLeaseResponse>, Status> {
        let request = request.into_inner();
        let mut state = self.state();
        let refuse = self
            .0
            .script
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .refuse_lease;
        if let Some(reason) = refuse {
            return Err(refusal(reason, "scripted refusal"));
        }
        for slot in &request.slots {
            let holder = state.holds.get(&slot.slot_id);
            if holder.is_some_and(|holder| *holder != request.allocation_id) {
                return Err(refusal(
                    ErrorReason::LeaseHeld,
                    "held by another allocation",
                ));
            }
            let token = ordered(slot.token);
            if state
                .fences
                .get(&slot.slot_id)
                .is_some_and(|fence| token < *fence)
            {
                return Err(refusal(ErrorReason::Fenced, "a higher token was seen"));
            }
            state.fences.insert(slot.slot_id.clone(), token);
        }
        for slot in &request.slots {
            state
                .holds
                .insert(slot.slot_id.clone(), request.allocation_id.clone());
        }
        let same = state
            .leases
            .iter()
            .find(|(_, lease)| lease.allocation_id == request.allocation_id);
        let lease_id = same.map_or_else(|| uuid::Uuid::now_v7().to_string(), |(id, _)| id.clone());
        state.leases.insert(lease_id.clone(), request.clone());
        drop(state);
        self.touch();
        let slot_ids = request
            .slots
            .iter()
            .map(|slot| slot.slot_id.clone())
            .collect();
        let lease = pb::Lease {
            lease_id,
            allocation_id: request.allocation_id,
            slot_ids,
            remaining: request.duration,
        };
        Ok(Response::new(pb::AcquireLeaseResponse {
            lease: Some(lease),
            plan: Some(pb::BundlePlan::default()),
        }))
    }

    async fn renew_lease(
        &self,
        request: Request<pb::RenewLeaseRequest>,
    ) -> Result<Response<pb::Lease>, Status> {
        let lease_id = request.into_inner().lease_id;
        if !self.state().leases.contains_key(&lease_id) {
            return Err(refusal(ErrorReason::LeaseExpired, "no such lease"));
        }
        Ok(Response::new(pb::Lease {
            lease_id,
            ..pb::Lease::default()
        }))
    }

    async fn release_lease(
        &self,
        request: Request<pb::ReleaseLeaseRequest>,
    ) -> Result<Response<pb::ReleaseLeaseResponse>, Status> {
        let mut state = self.state();
        let request = request.into_inner();
        let proven = state.leases.get(&request.lease_id).is_none_or(|lease| {
            lease.slots.iter().all(|slot| {
                request.tokens.iter().any(|shown| {
                    let shown_token = ordered(shown.token);
                    shown.slot_id == slot.slot_id
                        && state
                            .fences
                            .get(&slot.slot_id)
                            .is_none_or(|fence| shown_token >= *fence)
                })
            })
        });
        if state.listed.contains(&request.lease_id) && !proven {
            return Err(refusal(
                ErrorReason::Fenced,
                "the lease may be another worker's",
            ));
        }
        state.leases.remove(&request.lease_id);
        drop(state);
        self.touch();
        Ok(Response::new(pb::ReleaseLeaseResponse {}))
    }

    async fn list_holds(
        &self,
        _request: Request<pb::ListHoldsRequest>,
    ) -> Result<Response<pb::ListHoldsResponse>, Status> {
        let mut state = self.state();
        let ids: Vec<String> = state.leases.keys().cloned().collect();
        state.listed.extend(ids);
        let hold = |(slot, owner): (&String, &String)| pb::Hold {
            slot_id: slot.clone(),
            allocation_id: owner.clone(),
            token: None,
        };
        Ok(Response::new(pb::ListHoldsResponse {
            holds: state.holds.iter().map(hold).collect(),
            leases: state
                .leases
                .iter()
                .map(|(id, lease)| pb::Lease {
                    lease_id: id.clone(),
                    allocation_id: lease.allocation_id.clone(),
                    ..pb::Lease::default()
                })
                .collect(),
            domains: state
                .domains
                .iter()
                .map(|name| pb::DomainState {
                    name: name.clone(),
                    state: if state.off.contains(name)
                        || state.unexpected_shutdown.contains_key(name)
                    {
                        "shut off"
                    } else {
                        "running"
                    }
                    .into(),
                    left_state: if state.off.contains(name) {
                        "shut off"
                    } else {
                        "running"
                    }
                    .into(),
                    host_restarted: state.unexpected_shutdown.get(name) == Some(&true),
                })
                .collect(),
            reservations: state.reservations.iter().cloned().collect(),
        }))
    }
}

/// A token as a host compares it.
fn ordered(token: Option<pb::FencingToken>) -> (u64, u64, u64) {
    let token = token.unwrap_or_default();
    (
        token.cell_epoch,
        token.slot_generation,
        token.workflow_epoch,
    )
}

type Watch = Pin<Box<dyn Stream<Item = Result<pb::HostOperation, Status>> + Send>>;

#[tonic::async_trait]
impl pb::virtual_machines_server::VirtualMachines for Agent {
    type WatchOperationStream = Watch;

    async fn provision(
        &self,
        request: Request<pb::ProvisionRequest>,
    ) -> Result<Response<pb::HostOperation>, Status> {
        let r = request.into_inner();
        self.begin(
            "provision",
            &PROVISION,
            &r.operation_id,
            &r.lease_id,
            &r.allocation_id,
        )
    }

    async fn release(
        &self,
        request: Request<pb::ReleaseRequest>,
    ) -> Result<Response<pb::HostOperation>, Status> {
        let r = request.into_inner();
        self.begin(
            "release",
            &RELEASE,
            &r.operation_id,
            &r.lease_id,
            &r.allocation_id,
        )
    }

    async fn clean_up(
        &self,
        request: Request<pb::CleanUpRequest>,
    ) -> Result<Response<pb::HostOperation>, Status> {
        let r = request.into_inner();
        self.begin(
            "clean_up",
            &CLEAN_UP,
            &r.operation_id,
            &r.lease_id,
            &r.allocation_id,
        )
    }

    async fn repair_slot(
        &self,
        request: Request<pb::RepairSlotRequest>,
    ) -> Result<Response<pb::HostOperation>, Status> {
        let r = request.into_inner();
        self.begin(
            "repair_slot",
            &REPAIR,
            &r.operation_id,
            &r.lease_id,
            &r.allocation_id,
        )
    }

    async fn stop(
        &self,
        request: Request<pb::PowerRequest>,
    ) -> Result<Response<pb::HostOperation>, Status> {
        let r = request.into_inner();
        self.begin(
            "stop",
            &STOP,
            &r.operation_id,
            &r.lease_id,
            &r.allocation_id,
        )
    }

    async fn start(
        &self,
        request: Request<pb::PowerRequest>,
    ) -> Result<Response<pb::HostOperation>, Status> {
        let r = request.into_inner();
        self.begin(
            "start",
            &START,
            &r.operation_id,
            &r.lease_id,
            &r.allocation_id,
        )
    }

    async fn reboot(
        &self,
        request: Request<pb::PowerRequest>,
    ) -> Result<Response<pb::HostOperation>, Status> {
        let r = request.into_inner();
        self.begin(
            "reboot",
            &REBOOT,
            &r.operation_id,
            &r.lease_id,
            &r.allocation_id,
        )
    }

    async fn get_operation(
        &self,
        request: Request<pb::GetOperationRequest>,
    ) -> Result<Response<pb::HostOperation>, Status> {
        let operation = self
            .state()
            .operations
            .get(&request.get_ref().operation_id)
            .cloned();
        let unknown = || {
            Error::new(
                Code::NotFound,
                ErrorReason::OperationNotFound,
                "no such operation",
            )
            .into()
        };
        operation.map(Response::new).ok_or_else(unknown)
    }

    async fn watch_operation(
        &self,
        request: Request<pb::GetOperationRequest>,
    ) -> Result<Response<Self::WatchOperationStream>, Status> {
        let (agent, id) = (self.clone(), request.into_inner().operation_id);
        let down = self
            .0
            .down
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let (send, receive) = tokio::sync::mpsc::channel(16);
        tokio::spawn(async move {
            let mut changed = agent.0.changed.subscribe();
            loop {
                changed.borrow_and_update();
                let Some(operation) = agent.state().operations.get(&id).cloned() else {
                    return;
                };
                let ended = operation.state() != pb::OperationState::Running;
                if send.send(Ok(operation)).await.is_err() || ended {
                    return;
                }
                tokio::select! {
                    _ = changed.changed() => {}
                    () = send.closed() => return,
                    () = down.cancelled() => {
                        let _ = send.send(Err(Status::unavailable("the host goes away"))).await;
                        return;
                    }
                }
            }
        });
        Ok(Response::new(Box::pin(
            tokio_stream::wrappers::ReceiverStream::new(receive),
        )))
    }
}
