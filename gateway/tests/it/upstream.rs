//! A service behind the gateway: the common server with the real access layer, and answers made for tests.
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gpuaas_common::Error;
use gpuaas_common::identity::Caller;
use gpuaas_common::origin::{self, Origin};
use gpuaas_dev::until::until_ok;
use gpuaas_proto::gpuaas::allocation::v1::SerialLogPart;
use gpuaas_proto::gpuaas::allocation::v1::allocation_service_server::AllocationService;
use gpuaas_proto::gpuaas::allocation::v1::read_serial_log_response::Event;
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
use gpuaas_proto::gpuaas::common::v1::{WatchEnd, WatchSynced};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_proto::gpuaas::internal::events::v1::event_service_server::EventService;
use gpuaas_proto::gpuaas::internal::events::v1::{Event as Logged, ReadRequest, ReadResponse};
use tokio::sync::{Notify, mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Request, Response, Status};
use uuid::Uuid;

use crate::script;

/// One call as the service saw it.
#[derive(Clone, Debug)]
pub struct RecordedCall {
    pub rpc: &'static str,
    pub caller: Caller,
    pub traceparent: String,
    pub has_deadline: bool,
    pub origin: Arc<Origin>,
    pub message: String,
}

/// A stream that takes nothing for so long while there is more to send is held up.
const HELD_UP: Duration = Duration::from_millis(300);

/// What the service saw, for the test.
#[derive(Clone, Debug, Default)]
pub struct Record {
    calls: Arc<Mutex<Vec<RecordedCall>>>,
    open: Arc<AtomicUsize>,
    sent: Arc<AtomicUsize>,
    held_up: Arc<AtomicBool>,
    running: Arc<Mutex<Running>>,
    console: Arc<watch::Sender<Console>>,
    /// There is no allocation any more.
    lost: Arc<AtomicBool>,
    /// Lists of allocations until one is held.
    lists: Arc<AtomicUsize>,
    /// What calls named "held", and a list that is held, wait for.
    pub release: Arc<Notify>,
}

/// The serial console of every VM.
#[derive(Debug, Default)]
struct Console {
    printed: Vec<u8>,
    is_gone: bool,
}

/// What runs, as the services tell it.
#[derive(Debug, Default)]
struct Running {
    /// Project of every allocation.
    project: String,
    allocations: Vec<String>,
    reservations: Vec<String>,
    /// Begins after the next list of allocations.
    later: Vec<String>,
}

impl Record {
    /// Allocations are of this project from now on.
    pub fn owned_by(&self, project: &str) {
        project.clone_into(&mut self.running.lock().expect("lock").project);
    }

    /// Allocations and capacity reservations of these names run.
    pub fn runs(&self, allocations: &[&str], reservations: &[&str]) {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let mut running = self.running.lock().expect("lock");
        running.allocations = names(allocations);
        running.reservations = names(reservations);
        running.later.clear();
    }

    /// Nothing runs until allocations are listed once; then these do.
    pub fn runs_later(&self, allocations: &[&str]) {
        self.runs(&[], &[]);
        let later = allocations.iter().map(|name| (*name).to_owned());
        self.running.lock().expect("lock").later = later.collect();
    }

    /// No allocation is found from now on.
    pub fn lose_allocations(&self) {
        self.lost.store(true, Ordering::SeqCst);
    }

    /// VMs print this on their serial consoles.
    pub fn print(&self, bytes: &[u8]) {
        self.console
            .send_modify(|console| console.printed.extend(bytes));
    }

    /// VMs go.
    pub fn end_vms(&self) {
        self.console.send_modify(|console| console.is_gone = true);
    }

    /// The list of allocations of this number, from now on, waits to be released and then tells what runs by then.
    pub fn hold_list(&self, number: usize) {
        self.lists.store(number, Ordering::SeqCst);
    }

    fn is_held(&self) -> bool {
        let next = |left: usize| left.checked_sub(1);
        let before = self
            .lists
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, next);
        before == Ok(1)
    }

    /// Names of the capacity reservations that run.
    pub fn reservations(&self) -> Vec<String> {
        self.running.lock().expect("lock").reservations.clone()
    }

    fn project(&self) -> String {
        self.running.lock().expect("lock").project.clone()
    }

    /// Names of the allocations that run.
    fn allocations(&self) -> Vec<String> {
        let mut running = self.running.lock().expect("lock");
        let listed = running.allocations.clone();
        let later = std::mem::take(&mut running.later);
        running.allocations.extend(later);
        listed
    }

    pub fn all(&self) -> Vec<RecordedCall> {
        self.calls.lock().expect("lock").clone()
    }

    /// Streams that are open.
    pub fn open(&self) -> usize {
        self.open.load(Ordering::SeqCst)
    }

    /// Returns when so many streams are open.
    pub async fn until_open(&self, expected: usize) {
        until_ok("streams", Duration::from_secs(20), async || {
            let open = self.open();
            match open == expected {
                true => Ok(()),
                false => Err(format!("{open} are open")),
            }
        })
        .await;
    }

    /// Messages of streams that were handed over to be sent.
    pub fn sent(&self) -> usize {
        self.sent.load(Ordering::SeqCst)
    }

    /// Some stream was held up: everything between the service and its reader is full.
    pub fn held_up(&self) -> bool {
        self.held_up.load(Ordering::SeqCst)
    }

    pub fn clear(&self) {
        self.calls.lock().expect("lock").clear();
    }
}

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

/// Bytes of one part.
const PART: usize = 16 << 10;

/// Sends what was printed and what is, until the VM or the reader is gone.
async fn serial_log(record: Record, sender: mpsc::Sender<Result<ReadSerialLogResponse, Status>>) {
    record.open.fetch_add(1, Ordering::SeqCst);
    let mut console = record.console.subscribe();
    let (mut sent, mut is_synced) = (0, false);
    loop {
        let (part, is_gone) = {
            let console = console.borrow_and_update();
            let rest = &console.printed[sent..];
            (rest[..rest.len().min(PART)].to_vec(), console.is_gone)
        };
        let event = if !part.is_empty() {
            let offset = sent as u64;
            sent += part.len();
            Some(Event::Part(SerialLogPart {
                offset,
                data: part,
                ..SerialLogPart::default()
            }))
        } else if !is_synced {
            is_synced = true;
            Some(Event::Synced(WatchSynced {}))
        } else if is_gone {
            Some(Event::End(WatchEnd {}))
        } else {
            None
        };
        let Some(event) = event else {
            tokio::select! {
                changed = console.changed() => if changed.is_err() { break },
                () = sender.closed() => break,
            }
            continue;
        };
        let is_end = matches!(event, Event::End(_));
        let place = match tokio::time::timeout(HELD_UP, sender.reserve()).await {
            Ok(place) => place,
            Err(_) => {
                record.held_up.store(true, Ordering::SeqCst);
                sender.reserve().await
            }
        };
        let Ok(place) = place else { break };
        place.send(Ok(ReadSerialLogResponse {
            event: Some(event),
            ..ReadSerialLogResponse::default()
        }));
        if is_end {
            break;
        }
    }
    record.open.fetch_sub(1, Ordering::SeqCst);
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

/// The log of a ledger that the test writes.
#[derive(Clone, Debug, Default)]
pub struct Log(Arc<Mutex<Vec<Logged>>>);

impl Log {
    /// Adds an event, which gets the next position.
    pub fn append(&self, event: Logged) {
        let mut events = self.0.lock().expect("lock");
        let position = events.len() as i64 + 1;
        events.push(Logged { position, ..event });
    }

    /// Keeps the first ones, as a restored ledger does.
    pub fn keep(&self, count: usize) {
        self.0.lock().expect("lock").truncate(count);
    }
}

#[tonic::async_trait]
impl EventService for Log {
    async fn read(&self, request: Request<ReadRequest>) -> Result<Response<ReadResponse>, Status> {
        let request = request.into_inner();
        let all = self.0.lock().expect("lock");
        let events = all
            .iter()
            .filter(|one| one.position > request.after_position);
        Ok(Response::new(ReadResponse {
            events: events.take(request.limit as usize).cloned().collect(),
            head_position: all.len() as i64,
        }))
    }
}
