//! Allocations, with answers made for tests.
use std::sync::atomic::Ordering;

use gpuaas_common::Error;
use gpuaas_common::identity::Caller;
use gpuaas_common::origin;
use gpuaas_proto::gpuaas::allocation::v1::allocation_service_server::AllocationService;
use gpuaas_proto::gpuaas::allocation::v1::{
    Allocation, AllocationConfig, AllocationMetrics, AllocationState, AllocationStatus,
    BatchCreateAllocationsRequest, BatchCreateAllocationsResponse, CreateAllocationRequest,
    GetAllocationMetricsRequest, GetAllocationRequest, ListAllocationsRequest,
    ListAllocationsResponse, ListTimelineRequest, ListTimelineResponse,
    ListWipeCertificatesRequest, ListWipeCertificatesResponse, ReadSerialLogRequest,
    ReadSerialLogResponse, RebootAllocationRequest, ReleaseAllocationRequest,
    RescueAllocationRequest, StartAllocationRequest, StopAllocationRequest,
    UnrescueAllocationRequest, UpdateAllocationRequest, WatchAllocationRequest,
    WatchAllocationResponse, WatchAllocationsRequest, WatchAllocationsResponse,
};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Request, Response, Status};
use uuid::Uuid;

use super::record::{HELD_UP, Record, RecordedCall};
use super::serial_log::serial_log;
use crate::script;

#[derive(Clone, Debug, Default)]
pub struct Allocations(pub Record);

impl Allocations {
    fn see<T: std::fmt::Debug>(
        &self,
        rpc: &'static str,
        request: &Request<T>,
    ) -> Result<(), Status> {
        let text = |key: &str| {
            request
                .metadata()
                .get(key)
                .and_then(|v| v.to_str().ok())
                .unwrap_or_default()
                .to_owned()
        };
        self.0.calls.lock().expect("lock").push(RecordedCall {
            rpc,
            caller: Caller::of(request)?,
            traceparent: text("traceparent"),
            has_deadline: !text("grpc-timeout").is_empty(),
            origin: origin::current(),
            message: format!("{:?}", request.get_ref()),
        });
        Ok(())
    }
}

/// The id of an allocation that is in nobody's project here.
pub const FOREIGN: Uuid = Uuid::from_u128(0xf0);

/// The id of an allocation whose watch goes on until its reader is gone, as that of "silent" does.
pub const SILENT: Uuid = Uuid::from_u128(0xf2);

/// The id of an allocation whose VM has printed nothing yet.
pub const NO_LOG: Uuid = Uuid::from_u128(0xf1);

/// Allocations named "in-PROJECT" are there for who may do the action in that project.
fn of_project(caller: &Caller, id: &str) -> Result<(), Status> {
    let project = id.strip_prefix("in-").and_then(|id| id.parse().ok());
    if project.is_none_or(|project| caller.projects.contains(&project)) {
        return Ok(());
    }
    Err(no_allocation())
}

fn no_allocation() -> Status {
    Error::new(
        Code::NotFound,
        ErrorReason::AllocationNotFound,
        "No such allocation.",
    )
    .into()
}

fn allocation(id: &str, name: &str) -> Allocation {
    Allocation {
        id: id.to_owned(),
        config: Some(AllocationConfig {
            name: name.to_owned(),
            ..Default::default()
        }),
        status: Some(AllocationStatus {
            state: AllocationState::Reserved.into(),
            ..Default::default()
        }),
        ..Default::default()
    }
}

#[tonic::async_trait]
impl AllocationService for Allocations {
    type WatchAllocationsStream = ReceiverStream<Result<WatchAllocationsResponse, Status>>;
    type WatchAllocationStream = ReceiverStream<Result<WatchAllocationResponse, Status>>;
    type ReadSerialLogStream = ReceiverStream<Result<ReadSerialLogResponse, Status>>;

    async fn read_serial_log(
        &self,
        request: Request<ReadSerialLogRequest>,
    ) -> Result<Response<Self::ReadSerialLogStream>, Status> {
        self.see("read serial log", &request)?;
        // who is in no project has no allocation
        if Caller::of(&request)?.projects.is_empty() {
            return Err(no_allocation());
        }
        let request = request.into_inner();
        if request.allocation_id == FOREIGN.to_string() {
            return Err(no_allocation());
        }
        if request.allocation_id == NO_LOG.to_string() {
            return Err(Error::new(
                Code::FailedPrecondition,
                ErrorReason::SerialLogUnavailable,
                "The allocation has no serial log.",
            )
            .into());
        }
        let (sender, receiver) = mpsc::channel(1);
        if request.follow {
            tokio::spawn(serial_log(self.0.clone(), sender));
        }
        Ok(Response::new(ReceiverStream::new(receiver)))
    }

    async fn batch_create_allocations(
        &self,
        request: Request<BatchCreateAllocationsRequest>,
    ) -> Result<Response<BatchCreateAllocationsResponse>, Status> {
        self.see("create several", &request)?;
        Ok(Response::new(BatchCreateAllocationsResponse::default()))
    }

    async fn watch_allocations(
        &self,
        request: Request<WatchAllocationsRequest>,
    ) -> Result<Response<Self::WatchAllocationsStream>, Status> {
        self.see("watch all", &request)?;
        let (sender, receiver) = mpsc::channel(1);
        drop(sender);
        Ok(Response::new(ReceiverStream::new(receiver)))
    }

    async fn watch_allocation(
        &self,
        request: Request<WatchAllocationRequest>,
    ) -> Result<Response<Self::WatchAllocationStream>, Status> {
        self.see("watch", &request)?;
        let request = request.into_inner();
        if request.allocation_id == "foreign" {
            return Err(Error::new(
                Code::NotFound,
                ErrorReason::AllocationNotFound,
                "No such allocation.",
            )
            .into());
        }
        let (sender, receiver) = mpsc::channel(1);
        let record = self.0.clone();
        record.open.fetch_add(1, Ordering::SeqCst);
        tokio::spawn(async move {
            for message in script::of(&request) {
                let place = match tokio::time::timeout(HELD_UP, sender.reserve()).await {
                    Ok(place) => place,
                    Err(_) => {
                        record.held_up.store(true, Ordering::SeqCst);
                        sender.reserve().await
                    }
                };
                let Ok(place) = place else { break };
                place.send(message);
                record.sent.fetch_add(1, Ordering::SeqCst);
            }
            if request.allocation_id == "silent" || request.allocation_id == SILENT.to_string() {
                sender.closed().await;
            }
            record.open.fetch_sub(1, Ordering::SeqCst);
        });
        Ok(Response::new(ReceiverStream::new(receiver)))
    }

    async fn create_allocation(
        &self,
        request: Request<CreateAllocationRequest>,
    ) -> Result<Response<Allocation>, Status> {
        self.see("create", &request)?;
        match request.get_ref().name.as_str() {
            "quota" => Err(Error::new(
                Code::ResourceExhausted,
                ErrorReason::Quota,
                "The project may hold 2 GPUs of lab-slice.",
            )
            .field("gpu_count", "at most 2")
            .meta("max_gpus", "2")
            .into()),
            "broken" => Err(Error::internal("password=hunter2").into()),
            "bare" => Err(Status::unknown("password=hunter2")),
            "slow" => std::future::pending().await,
            "held" => {
                self.0.release.notified().await;
                Ok(Response::new(allocation("a1", "held")))
            }
            name => Ok(Response::new(allocation("a1", name))),
        }
    }

    async fn get_allocation(
        &self,
        request: Request<GetAllocationRequest>,
    ) -> Result<Response<Allocation>, Status> {
        self.see("get", &request)?;
        of_project(&Caller::of(&request)?, &request.get_ref().allocation_id)?;
        let id = &request.get_ref().allocation_id;
        if self.0.lost.load(Ordering::SeqCst) || id == "foreign" || *id == FOREIGN.to_string() {
            return Err(no_allocation());
        }
        let mut found = allocation(id, "first");
        if let Some(config) = &mut found.config {
            config.project_id = self.0.project();
        }
        Ok(Response::new(found))
    }

    async fn list_allocations(
        &self,
        request: Request<ListAllocationsRequest>,
    ) -> Result<Response<ListAllocationsResponse>, Status> {
        self.see("list", &request)?;
        if self.0.is_held() {
            self.0.release.notified().await;
        }
        let running = self.0.allocations();
        Ok(Response::new(ListAllocationsResponse {
            allocations: running.iter().map(|name| allocation(name, name)).collect(),
            ..ListAllocationsResponse::default()
        }))
    }

    async fn update_allocation(
        &self,
        request: Request<UpdateAllocationRequest>,
    ) -> Result<Response<Allocation>, Status> {
        self.see("update", &request)?;
        let request = request.get_ref();
        Ok(Response::new(Allocation {
            display_name: request.display_name.clone().unwrap_or_default(),
            ..allocation(&request.allocation_id, "first")
        }))
    }

    async fn release_allocation(
        &self,
        request: Request<ReleaseAllocationRequest>,
    ) -> Result<Response<Allocation>, Status> {
        self.see("release", &request)?;
        Ok(Response::new(allocation(
            &request.get_ref().allocation_id,
            "first",
        )))
    }

    async fn stop_allocation(
        &self,
        request: Request<StopAllocationRequest>,
    ) -> Result<Response<Allocation>, Status> {
        self.see("stop", &request)?;
        of_project(&Caller::of(&request)?, &request.get_ref().allocation_id)?;
        Ok(Response::new(allocation(
            &request.get_ref().allocation_id,
            "first",
        )))
    }

    async fn start_allocation(
        &self,
        request: Request<StartAllocationRequest>,
    ) -> Result<Response<Allocation>, Status> {
        self.see("start", &request)?;
        Ok(Response::new(allocation(
            &request.get_ref().allocation_id,
            "first",
        )))
    }

    async fn reboot_allocation(
        &self,
        request: Request<RebootAllocationRequest>,
    ) -> Result<Response<Allocation>, Status> {
        self.see("reboot", &request)?;
        Ok(Response::new(allocation(
            &request.get_ref().allocation_id,
            "first",
        )))
    }

    async fn rescue_allocation(
        &self,
        request: Request<RescueAllocationRequest>,
    ) -> Result<Response<Allocation>, Status> {
        self.see("rescue", &request)?;
        Ok(Response::new(allocation(
            &request.get_ref().allocation_id,
            "first",
        )))
    }

    async fn unrescue_allocation(
        &self,
        request: Request<UnrescueAllocationRequest>,
    ) -> Result<Response<Allocation>, Status> {
        self.see("unrescue", &request)?;
        Ok(Response::new(allocation(
            &request.get_ref().allocation_id,
            "first",
        )))
    }

    async fn list_timeline(
        &self,
        request: Request<ListTimelineRequest>,
    ) -> Result<Response<ListTimelineResponse>, Status> {
        self.see("timeline", &request)?;
        Ok(Response::new(ListTimelineResponse::default()))
    }

    async fn get_allocation_metrics(
        &self,
        request: Request<GetAllocationMetricsRequest>,
    ) -> Result<Response<AllocationMetrics>, Status> {
        self.see("get metrics", &request)?;
        Ok(Response::new(AllocationMetrics::default()))
    }

    async fn list_wipe_certificates(
        &self,
        request: Request<ListWipeCertificatesRequest>,
    ) -> Result<Response<ListWipeCertificatesResponse>, Status> {
        self.see("wipe_certificates", &request)?;
        Ok(Response::new(ListWipeCertificatesResponse::default()))
    }
}
