//! Creating an allocation: parse, answer a replay, hold against catalog and SKU, reserve.

use gpuaas_common::identity::Caller;
use gpuaas_common::time::proto_time;
use gpuaas_common::value::ImageSlug;
use gpuaas_common::{Error, idempotency, trace};
use gpuaas_placement::reserve;
use gpuaas_proto::gpuaas::allocation::v1 as pb;
use gpuaas_proto::gpuaas::common::v1::CapacityShape;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_proto::gpuaas::images::v1::Image;
use gpuaas_proto::gpuaas::internal::images::v1::GetImageRequest;
use gpuaas_proto::gpuaas::internal::images::v1::image_catalog_service_client::ImageCatalogServiceClient;
use gpuaas_proto::gpuaas::internal::scheduler::v1 as scheduler;
use gpuaas_proto::gpuaas::internal::scheduler::v1::placement_service_client::PlacementServiceClient;
use gpuaas_proto::gpuaas::scheduler::v1::Sku;
use jiff::Timestamp;
use sha2::{Digest as _, Sha256};
use tonic::Code;
use uuid::Uuid;

use crate::convert::{ssh_keys, unchecked, user_data};
use crate::domain::request::{CreateRequest, RELEASE_TIME, Refusal, wait_until};
use crate::workflow::Deps;

/// Most allocations of a batch.
const MAX_BATCH: usize = gpuaas_placement::reserve::MAX_BATCH;

/// What a create led to.
pub enum Created {
    /// An allocation, new or created before.
    Allocation(Uuid),
    /// Everything was checked, nothing is stored.
    Validated(Box<pb::Allocation>),
}

/// Creates an allocation, or answers what the key led to before.
///
/// # Errors
/// The first broken rule with its field; why no capacity fits.
pub async fn create(
    deps: &Deps,
    caller: &Caller,
    request: &pb::CreateAllocationRequest,
) -> Result<Created, Error> {
    let project = caller.project(&request.project_id)?;
    let key = key_of(caller, request.validate_only)?;
    let parsed = CreateRequest::parse(request)?;
    let project_text = project.id().to_string();
    let hash = parsed.hash(&project_text);
    let hashes = [hash, parsed.former_hash(&project_text)];
    // looked for before the key, so that a name that this very request has taken meanwhile is not held against it
    let free = free_name(deps, &parsed, project.id()).await;
    if !request.validate_only
        && let Some(made) = replayed(deps, caller, reserve::METHOD, key, &hashes).await?
    {
        let id = made.first().copied();
        return Ok(Created::Allocation(
            id.ok_or_else(|| Error::internal("a key that led to nothing"))?,
        ));
    }
    free?;
    let checked = check(deps, &parsed, project.id()).await?;
    let request = scheduler::ReserveRequest {
        principal: caller.principal.clone(),
        idempotency_key: key.to_owned(),
        request_hash: hash.to_vec(),
        validate_only: request.validate_only,
        request_id: caller.request_id.clone(),
        ..checked.reservation
    };
    let validate_only = request.validate_only;
    let mut placement = PlacementServiceClient::new(deps.peers.channel("scheduler")?);
    let reserved = placement.reserve(request).await.map_err(unknown_region)?;
    let reserved = reserved.into_inner();
    if validate_only {
        return Ok(Created::Validated(Box::new(pb::Allocation {
            config: Some(config(&parsed, project.id(), checked.shape)),
            placement: reserved.explanation,
            status: checked.warning.map(|warning| pb::AllocationStatus {
                conditions: vec![warning],
                ..pb::AllocationStatus::default()
            }),
            ..pb::Allocation::default()
        })));
    }
    wake(deps).await;
    Ok(Created::Allocation(
        reserved.allocation_id.parse().map_err(Error::internal)?,
    ))
}

/// Creates several allocations of one project, all or none, or answers what the key led to before. Empty when only
/// validating.
///
/// # Errors
/// As [`create`]; fields carry the index of the allocation in the batch.
pub async fn create_all(
    deps: &Deps,
    caller: &Caller,
    request: &pb::BatchCreateAllocationsRequest,
) -> Result<Vec<Uuid>, Error> {
    let project = caller.project(&request.project_id)?.id();
    let key = key_of(caller, request.validate_only)?;
    if !(1..=MAX_BATCH).contains(&request.allocations.len()) {
        let rule = format!("must be one to {MAX_BATCH} allocations");
        return Err(Error::invalid("allocations", rule));
    }
    let mut parsed = Vec::with_capacity(request.allocations.len());
    for (index, one) in request.allocations.iter().enumerate() {
        let own = parse_one(one);
        parsed.push(own.map_err(|error| gpuaas_placement::of_batch(index, &error))?);
    }
    let wait_until = wait_until(request.wait.as_ref())?;
    let project_text = project.to_string();
    let hash = hash_of_all(
        parsed.iter().map(|one| one.hash(&project_text)),
        wait_until.as_ref(),
    );
    let former = parsed.iter().map(|one| one.former_hash(&project_text));
    let hashes = [hash, hash_of_all(former, wait_until.as_ref())];
    // looked for before the key, as in `create`
    let free = free_names(deps, &parsed, project).await;
    if !request.validate_only
        && let Some(made) = replayed(deps, caller, reserve::BATCH_METHOD, key, &hashes).await?
    {
        return Ok(made);
    }
    free?;
    let mut reservations = Vec::with_capacity(parsed.len());
    for (index, one) in parsed.iter().enumerate() {
        let checked = check(deps, one, project).await;
        let checked = checked.map_err(|error| gpuaas_placement::of_batch(index, &error))?;
        reservations.push(scheduler::ReserveRequest {
            request_id: caller.request_id.clone(),
            ..checked.reservation
        });
    }
    let mut placement = PlacementServiceClient::new(deps.peers.channel("scheduler")?);
    let reserved = placement
        .reserve_batch(scheduler::ReserveBatchRequest {
            principal: caller.principal.clone(),
            idempotency_key: key.to_owned(),
            request_hash: hash.to_vec(),
            reservations,
            validate_only: request.validate_only,
            wait_until,
        })
        .await?
        .into_inner();
    if !request.validate_only {
        wake(deps).await;
    }
    reserved
        .allocation_ids
        .iter()
        .map(|id| id.parse().map_err(Error::internal))
        .collect()
}

/// The hash of a batch, from those of its allocations.
fn hash_of_all(
    hashes: impl Iterator<Item = [u8; 32]>,
    wait_until: Option<&prost_types::Timestamp>,
) -> [u8; 32] {
    let mut hasher = Sha256::new();
    for hash in hashes {
        hasher.update(hash);
    }
    if let Some(until) = wait_until {
        hasher.update(format!("wait {}.{}", until.seconds, until.nanos));
    }
    hasher.finalize().into()
}

/// One allocation of a batch, without what holds for the batch.
fn parse_one(request: &pb::CreateAllocationRequest) -> Result<CreateRequest, Error> {
    let left_out = "must be left out; set it once for the batch";
    if !request.project_id.is_empty() {
        return Err(Error::invalid("project_id", left_out));
    }
    if request.validate_only {
        return Err(Error::invalid("validate_only", left_out));
    }
    if request.wait.is_some() {
        return Err(Error::invalid("wait", left_out));
    }
    Ok(CreateRequest::parse(request)?)
}

/// The caller's key; a dry run needs none, since there is nothing to repeat.
fn key_of(caller: &Caller, validate_only: bool) -> Result<&str, Error> {
    if validate_only {
        Ok("")
    } else {
        caller.idempotency_key()
    }
}

/// What a key led to before, with the request of this hash, or of the one that the release before made of it. Asked before
/// anything is checked that may have changed since (P4).
async fn replayed(
    deps: &Deps,
    caller: &Caller,
    method: &'static str,
    key: &str,
    [hash, former]: &[[u8; 32]; 2],
) -> Result<Option<Vec<Uuid>>, Error> {
    let scope = idempotency::Scope {
        principal: &caller.principal,
        method,
        key,
    };
    let mut conn = deps.pool.acquire().await?;
    let known = match idempotency::lookup(&mut conn, scope, hash).await {
        Err(error) if error.reason() == ErrorReason::IdempotencyKeyReused => {
            idempotency::lookup(&mut conn, scope, former).await?
        }
        known => known?,
    };
    Ok(match known {
        idempotency::Lookup::Fresh => None,
        idempotency::Lookup::Replay { resource_id } => Some(reserve::ids_of(&resource_id)?),
    })
}

/// Refuses a taken name before capacity is looked for, so that it is not reported only once there is some.
async fn free_name(deps: &Deps, parsed: &CreateRequest, project_id: Uuid) -> Result<(), Error> {
    let mut conn = deps.pool.acquire().await?;
    Ok(reserve::check_name(&mut conn, project_id, parsed.name.as_str()).await?)
}

/// The same for a batch.
async fn free_names(deps: &Deps, parsed: &[CreateRequest], project_id: Uuid) -> Result<(), Error> {
    for (index, one) in parsed.iter().enumerate() {
        let free = free_name(deps, one, project_id).await;
        free.map_err(|error| gpuaas_placement::of_batch(index, &error))?;
    }
    Ok(())
}

/// A request that SKU and image allow.
struct Checked {
    reservation: scheduler::ReserveRequest,
    shape: CapacityShape,
    /// What is legal, and worth a word before it is launched.
    warning: Option<pb::AllocationCondition>,
}

/// Checks a request against SKU and image, and makes the reservation of it; the principal is left out.
async fn check(deps: &Deps, parsed: &CreateRequest, project_id: Uuid) -> Result<Checked, Error> {
    // a repeat, which may come after that time, was answered before
    if parsed
        .auto_release
        .is_some_and(|time| time <= Timestamp::now())
    {
        return Err(Error::invalid(RELEASE_TIME, "must be in the future"));
    }
    let mut placement = PlacementServiceClient::new(deps.peers.channel("scheduler")?);
    let sku = placement
        .get_sku(scheduler::GetSkuRequest {
            code: parsed.sku.as_str().to_owned(),
        })
        .await;
    let sku: Sku = sku
        .map_err(|status| unknown(status.into(), ErrorReason::SkuUnknown, "sku"))?
        .into_inner();
    let shape = parsed.check_sku(&sku).map_err(refused)?;
    let image = catalog_image(deps, &parsed.image).await?;
    parsed.check_image(&image).map_err(refused)?;
    let has_gpus = shape == CapacityShape::GpuSlice && !sku.lab;
    let warning = unchecked(has_gpus, &image.readiness_checks);
    let reservation = scheduler::ReserveRequest {
        project_id: project_id.to_string(),
        name: parsed.name.to_string(),
        region_code: parsed.region.as_str().to_owned(),
        sku: parsed.sku.as_str().to_owned(),
        gpu_count: parsed.gpu_count.get(),
        capacity_shape: shape.into(),
        image: Some(frozen(image)),
        ssh_public_keys: parsed.ssh_keys.lines().to_vec(),
        ssh_key_names: parsed.ssh_keys.names().to_vec(),
        labels: parsed.labels.as_map().clone().into_iter().collect(),
        traceparent: trace::current_traceparent(),
        placement: parsed.placement.clone(),
        wait_until: parsed.wait_until,
        termination_protection: parsed.termination_protection,
        auto_release_time: parsed.auto_release.map(proto_time),
        user_data: parsed
            .user_data
            .as_ref()
            .map_or_else(String::new, |data| data.as_str().to_owned()),
        ..scheduler::ReserveRequest::default()
    };
    Ok(Checked {
        reservation,
        shape,
        warning,
    })
}

/// An image of the catalog.
///
/// # Errors
/// There is none of this name; the catalog does not answer.
pub(super) async fn catalog_image(deps: &Deps, slug: &ImageSlug) -> Result<Image, Error> {
    let mut catalog = ImageCatalogServiceClient::new(deps.peers.channel("image-catalog")?);
    let request = GetImageRequest {
        slug: slug.as_str().to_owned(),
    };
    let image = catalog.get_image(request).await;
    let image =
        image.map_err(|status| unknown(status.into(), ErrorReason::ImageUnknown, "image"))?;
    Ok(image.into_inner())
}

async fn wake(deps: &Deps) {
    deps.wake.notify(gpuaas_placement::workflows::TOPIC).await;
    deps.wake.notify(gpuaas_placement::outbox::TOPIC).await;
}

fn unknown_region(status: tonic::Status) -> Error {
    unknown(status.into(), ErrorReason::RegionUnknown, "region_code")
}

/// The image as it is frozen into the allocation.
pub(super) fn frozen(image: Image) -> scheduler::Image {
    scheduler::Image {
        slug: image.slug,
        digest: image.digest,
        source_uri: image.source_uri,
        driver_strategy: image.driver_strategy,
        size_bytes: image.size_bytes,
        boot_timeout_seconds: image.boot_timeout_seconds,
        readiness_checks: image.readiness_checks,
    }
}

fn config(parsed: &CreateRequest, project_id: Uuid, shape: CapacityShape) -> pb::AllocationConfig {
    pb::AllocationConfig {
        project_id: project_id.to_string(),
        name: parsed.name.to_string(),
        region_code: parsed.region.as_str().to_owned(),
        sku: parsed.sku.as_str().to_owned(),
        gpu_count: parsed.gpu_count.get(),
        image: parsed.image.as_str().to_owned(),
        ssh_public_keys: parsed.ssh_keys.lines().to_vec(),
        capacity_shape: shape.into(),
        placement: Some(parsed.placement.clone().unwrap_or_default()),
        ssh_keys: ssh_keys(parsed.ssh_keys.lines(), parsed.ssh_keys.names()),
        user_data: parsed
            .user_data
            .as_ref()
            .and_then(|data| user_data(data.digest(), data.bytes())),
    }
}

/// A name in the request that nothing answers to is a fault of that field, not a missing allocation.
fn unknown(error: Error, reason: ErrorReason, field: &'static str) -> Error {
    if error.reason() != reason {
        return error;
    }
    let rule = match field {
        "sku" => "must be a SKU of this platform",
        "image" => "must be an image of this platform",
        _ => "must be a region of this platform",
    };
    Error::new(Code::InvalidArgument, reason, format!("{field}: {rule}")).field(field, rule)
}

pub(super) fn refused(refusal: Refusal) -> Error {
    // a request that is right in itself, and refused because of how a thing is now
    let code = if refusal.reason == ErrorReason::ImageNotActive {
        Code::FailedPrecondition
    } else {
        Code::InvalidArgument
    };
    Error::new(code, refusal.reason, refusal.to_string()).field(refusal.field, refusal.rule)
}
