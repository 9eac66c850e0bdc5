//! `VirtualMachines`: begins operations under a live lease, and reports them.
use std::pin::Pin;
use std::time::Duration;

use futures::Stream;
use gpuaas_common::readiness::{self, Outcome};
use gpuaas_common::trace;
use gpuaas_common::user_data::UserData;
use gpuaas_proto::gpuaas::agent::v1 as pb;
use gpuaas_proto::gpuaas::agent::v1::virtual_machines_server::VirtualMachines;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use prost::Message;
use sha2::{Digest as _, Sha256};
use tonic::{Request, Response, Status};

use super::serial_log::{self, SerialLogStream};
use super::{Shared, metrics, status};
use crate::bounded::Bounded;
use crate::error::{HostError, HostResult};
use crate::guest::host_key::parse_pins;
use crate::ids::{AllocationId, Digest, DnsLabel, ImageSlug, OperationId, ParseError};
use crate::image::registry::parse_source;
use crate::image::seed::{AuthorizedKey, GuestUser, hostname};
use crate::journal::{Kind, NewOperation, OperationRow, State, StepStatus};
use crate::operation::network_group;
use crate::operation::readiness::of_operation;
use crate::wall_clock::{now_ms, timestamp};

/// Most keys a guest gets.
const MAX_KEYS: usize = 64;
/// Most recorded host keys of a guest: one for each kind there is, and some more.
const MAX_HOST_KEYS: usize = 16;

/// The service.
pub struct VirtualMachinesApi(pub Shared);

/// What all requests for an operation have in common.
struct Common {
    operation_id: String,
    lease_id: String,
    allocation_id: String,
    budget: Option<prost_types::Duration>,
    /// The message, and a hash of it without lease and budget, which change when a new worker repeats it.
    message: Vec<u8>,
    hash: String,
}

macro_rules! common {
    ($request:expr) => {{
        let request = $request;
        let mut stable = request.clone();
        stable.lease_id.clear();
        stable.budget = None;
        Common {
            operation_id: request.operation_id.clone(),
            lease_id: request.lease_id.clone(),
            allocation_id: request.allocation_id.clone(),
            budget: request.budget,
            message: request.encode_to_vec(),
            hash: hex::encode(Sha256::digest(stable.encode_to_vec())),
        }
    }};
}

impl VirtualMachinesApi {
    fn begin(&self, kind: Kind, common: Common) -> HostResult<pb::HostOperation> {
        let node = &self.0.node;
        let id: OperationId = common.operation_id.parse()?;
        let allocation: AllocationId = common.allocation_id.parse()?;
        // Found without its lease, which may have ended meanwhile. A new one is checked again when it is recorded.
        match node.journal.operation(id)? {
            Some(row) if row.kind != kind || row.request_hash != common.hash => {
                let message = format!("operation {id} exists with another request");
                return Err(HostError::host(ErrorReason::OperationConflict, message));
            }
            Some(_) => {}
            None => {
                let now = node.clock.now();
                self.0.runner.begin(NewOperation {
                    id,
                    kind,
                    allocation,
                    request: common.message,
                    request_hash: common.hash,
                    deadline: now.plus(self.budget(kind, common.budget)),
                    lease: Some((common.lease_id.parse()?, now)),
                    lease_request: pb::AcquireLeaseRequest::default(),
                    plan: pb::BundlePlan::default(),
                    traceparent: trace::current_traceparent(),
                    started_ms: now_ms(),
                    steps: Vec::new(),
                })?;
            }
        }
        self.get(id)
    }

    fn budget(&self, kind: Kind, requested: Option<prost_types::Duration>) -> Duration {
        let most = self.0.node.settings.limits.budget(kind);
        requested
            .and_then(|requested| Duration::try_from(requested).ok())
            .filter(|requested| !requested.is_zero())
            .unwrap_or(most)
            .min(most)
    }

    fn get(&self, id: OperationId) -> HostResult<pb::HostOperation> {
        let row = self.0.node.journal.operation(id)?;
        row.map(wire).ok_or_else(|| {
            HostError::host(
                ErrorReason::OperationNotFound,
                format!("no operation {id} exists here"),
            )
        })
    }
}

/// Refuses a provision that could only fail later.
fn check_provision(request: &pb::ProvisionRequest, max_image_bytes: u64) -> HostResult<()> {
    let image = request
        .image
        .as_ref()
        .ok_or_else(|| HostError::invalid("image", "must be given"))?;
    check_image(image, max_image_bytes)?;
    readiness::parse(&image.readiness_checks)
        .map_err(|wrong| HostError::invalid("image", wrong.to_string()))?;
    network_group(&request.network_group)?;
    UserData::optional(&request.user_data)?;
    if !request.region_code.is_empty() {
        let _region: DnsLabel = request
            .region_code
            .parse()
            .map_err(|error: ParseError| error.of("region_code"))?;
    }
    check_account(
        &request.guest_user,
        &request.hostname,
        &request.ssh_public_keys,
    )
}

/// Refuses an image that is none, or larger than this host takes. One without a slug has no name in the cache.
fn check_image(image: &pb::ImageRef, max_bytes: u64) -> HostResult<()> {
    if !image.slug.is_empty() {
        image
            .slug
            .parse::<ImageSlug>()
            .map_err(|error| error.of("image.slug"))?;
    }
    let _digest: Digest = image.digest.parse()?;
    parse_source(&image.source_uri)?;
    if image.size_bytes > max_bytes {
        let rule = format!("must be at most {max_bytes}");
        return Err(HostError::invalid("image.size_bytes", rule));
    }
    Ok(())
}

/// Refuses an account that nobody could log in to.
fn check_account(user: &str, name: &str, lines: &[String]) -> HostResult<()> {
    let _user: GuestUser = user.parse()?;
    hostname(name)?;
    let keys =
        Bounded::<AuthorizedKey, MAX_KEYS>::parse(
            "ssh_public_keys",
            lines,
            |key| Ok(key.parse()?),
        )?;
    if keys.is_empty() {
        return Err(HostError::invalid("ssh_public_keys", "must be given"));
    }
    Ok(())
}

/// Refuses a start whose login could never work.
fn check_login(request: &pb::PowerRequest) -> HostResult<()> {
    let _user: GuestUser = request.guest_user.parse()?;
    let pins =
        Bounded::<String, MAX_HOST_KEYS>::parse("ssh_host_keys", &request.ssh_host_keys, |line| {
            Ok(line.clone())
        })?;
    parse_pins(pins.iter().map(String::as_str))?;
    Ok(())
}

/// Refuses a rescue that could never be logged in to.
fn check_rescue(request: &pb::PowerRequest, max_image_bytes: u64) -> HostResult<()> {
    // back from it the VM is logged in to as itself
    check_login(request)?;
    let image = request
        .rescue_image
        .as_ref()
        .ok_or_else(|| HostError::invalid("rescue_image", "must be given"))?;
    check_image(image, max_image_bytes)?;
    check_account(
        &request.guest_user,
        &request.hostname,
        &request.ssh_public_keys,
    )
}

/// An operation on the wire.
fn wire(row: OperationRow) -> pb::HostOperation {
    let state = match row.state {
        State::Running => pb::OperationState::Running,
        State::Succeeded => pb::OperationState::Succeeded,
        State::Failed => pb::OperationState::Failed,
    };
    let results = of_operation(&row);
    let readiness_results = results.iter().map(Outcome::to_wire).collect();
    // A failure is reported when its undo has ended.
    let failure = row
        .failure
        .filter(|_| row.state == State::Failed)
        .map(|failure| pb::OperationFailure {
            reason: failure.reason,
            message: failure.message,
            step: failure.step,
            failure_class: failure.class,
            host_clean: failure.host_clean,
            serial_log_end: failure.serial_log_end,
        });
    let steps = row.steps.into_iter().map(|step| pb::OperationStep {
        name: step.name,
        state: match step.status {
            StepStatus::Pending => pb::StepState::Pending,
            StepStatus::Running => pb::StepState::Running,
            StepStatus::Done => pb::StepState::Done,
            StepStatus::Failed => pb::StepState::Failed,
            StepStatus::Skipped => pb::StepState::Skipped,
        }
        .into(),
        percent: step.percent,
        message: step.message,
        start_time: step.started_ms.map(timestamp),
        end_time: step.ended_ms.map(timestamp),
    });
    pb::HostOperation {
        operation_id: row.id.to_string(),
        kind: row.kind.as_str().to_owned(),
        allocation_id: row.allocation.to_string(),
        state: state.into(),
        steps: steps.collect(),
        readiness_results,
        failure,
        start_time: Some(timestamp(row.started_ms)),
        end_time: row.ended_ms.map(timestamp),
        ..row.result
    }
}

type Watch = Pin<Box<dyn Stream<Item = Result<pb::HostOperation, Status>> + Send>>;

#[tonic::async_trait]
impl VirtualMachines for VirtualMachinesApi {
    async fn provision(
        &self,
        request: Request<pb::ProvisionRequest>,
    ) -> Result<Response<pb::HostOperation>, Status> {
        let request = request.into_inner();
        let max_image_bytes = self.0.node.settings.limits.max_image_bytes;
        check_provision(&request, max_image_bytes).map_err(status)?;
        self.begin(Kind::Provision, common!(&request))
            .map(Response::new)
            .map_err(status)
    }

    async fn release(
        &self,
        request: Request<pb::ReleaseRequest>,
    ) -> Result<Response<pb::HostOperation>, Status> {
        let request = request.into_inner();
        self.begin(Kind::Release, common!(&request))
            .map(Response::new)
            .map_err(status)
    }

    async fn clean_up(
        &self,
        request: Request<pb::CleanUpRequest>,
    ) -> Result<Response<pb::HostOperation>, Status> {
        let request = request.into_inner();
        self.begin(Kind::CleanUp, common!(&request))
            .map(Response::new)
            .map_err(status)
    }

    async fn repair_slot(
        &self,
        request: Request<pb::RepairSlotRequest>,
    ) -> Result<Response<pb::HostOperation>, Status> {
        let request = request.into_inner();
        self.begin(Kind::RepairSlot, common!(&request))
            .map(Response::new)
            .map_err(status)
    }

    async fn stop(
        &self,
        request: Request<pb::PowerRequest>,
    ) -> Result<Response<pb::HostOperation>, Status> {
        let request = request.into_inner();
        self.begin(Kind::Stop, common!(&request))
            .map(Response::new)
            .map_err(status)
    }

    async fn start(
        &self,
        request: Request<pb::PowerRequest>,
    ) -> Result<Response<pb::HostOperation>, Status> {
        let request = request.into_inner();
        check_login(&request).map_err(status)?;
        self.begin(Kind::Start, common!(&request))
            .map(Response::new)
            .map_err(status)
    }

    async fn reboot(
        &self,
        request: Request<pb::PowerRequest>,
    ) -> Result<Response<pb::HostOperation>, Status> {
        let request = request.into_inner();
        check_login(&request).map_err(status)?;
        self.begin(Kind::Reboot, common!(&request))
            .map(Response::new)
            .map_err(status)
    }

    async fn rescue(
        &self,
        request: Request<pb::PowerRequest>,
    ) -> Result<Response<pb::HostOperation>, Status> {
        let request = request.into_inner();
        let max_image_bytes = self.0.node.settings.limits.max_image_bytes;
        check_rescue(&request, max_image_bytes).map_err(status)?;
        self.begin(Kind::Rescue, common!(&request))
            .map(Response::new)
            .map_err(status)
    }

    async fn get_operation(
        &self,
        request: Request<pb::GetOperationRequest>,
    ) -> Result<Response<pb::HostOperation>, Status> {
        let id = request
            .into_inner()
            .operation_id
            .parse::<OperationId>()
            .map_err(|error| status(error.into()))?;
        self.get(id).map(Response::new).map_err(status)
    }

    type WatchOperationStream = Watch;

    async fn watch_operation(
        &self,
        request: Request<pb::GetOperationRequest>,
    ) -> Result<Response<Watch>, Status> {
        let id = request
            .into_inner()
            .operation_id
            .parse::<OperationId>()
            .map_err(|error| status(error.into()))?;
        self.get(id).map_err(status)?;
        let api = Self(self.0.clone());
        let changes = self.0.node.journal.changes();
        let stream = futures::stream::unfold(Some((api, changes, None)), move |state| async move {
            let (api, mut changes, last): (Self, _, Option<pb::HostOperation>) = state?;
            loop {
                changes.mark_unchanged();
                let now = match api.get(id) {
                    Ok(now) => now,
                    Err(error) => return Some((Err(status(error)), None)),
                };
                if last.as_ref() != Some(&now) {
                    let ended = now.state() != pb::OperationState::Running;
                    let next = (!ended).then(|| (api, changes, Some(now.clone())));
                    return Some((Ok(now), next));
                }
                if changes.changed().await.is_err() {
                    return None;
                }
            }
        });
        Ok(Response::new(Box::pin(stream)))
    }

    type ReadSerialLogStream = SerialLogStream;

    async fn read_serial_log(
        &self,
        request: Request<pb::ReadSerialLogRequest>,
    ) -> Result<Response<SerialLogStream>, Status> {
        let opened = serial_log::read(&self.0.node, request.get_ref()).await;
        opened.map(Response::new).map_err(status)
    }

    async fn read_metrics(
        &self,
        request: Request<pb::ReadMetricsRequest>,
    ) -> Result<Response<pb::ReadMetricsResponse>, Status> {
        let read = metrics::read(&self.0.node, request.get_ref());
        read.map(Response::new).map_err(status)
    }
}
