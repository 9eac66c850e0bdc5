//! What still runs in a project, asked of the services that know.
use gpuaas_common::{Error, Result};
use gpuaas_proto::gpuaas::allocation::v1 as allocation;
use gpuaas_proto::gpuaas::allocation::v1::allocation_service_client::AllocationServiceClient;
use gpuaas_proto::gpuaas::scheduler::v1 as scheduler;
use gpuaas_proto::gpuaas::scheduler::v1::capacity_reservation_service_client::CapacityReservationServiceClient;
use tonic::Request;
use tonic::metadata::{Ascii, MetadataValue};
use uuid::Uuid;

use super::call::Call;

/// Most of each kind that are named.
const NAMED: i32 = 20;

/// Names of the allocations and capacity reservations of a project that have not ended, some of them when they are many.
pub(super) async fn names(call: &Call<'_>, project: Uuid) -> Result<Vec<String>> {
    let project_id = project.to_string();
    let mut allocations = AllocationServiceClient::new(call.app.peers.channel("allocation")?);
    let request = allocation::ListAllocationsRequest {
        project_id: project_id.clone(),
        page_size: NAMED,
        ..Default::default()
    };
    let request = signed(call, "allocation", &[project], request)?;
    let running = allocations.list_allocations(request).await?.into_inner();
    let mut reservations =
        CapacityReservationServiceClient::new(call.app.peers.channel("scheduler")?);
    let request = scheduler::ListCapacityReservationsRequest {
        project_id,
        page_size: NAMED,
        ..Default::default()
    };
    let request = signed(call, "scheduler", &[project], request)?;
    let reserved = reservations
        .list_capacity_reservations(request)
        .await?
        .into_inner();
    let running = running.allocations.into_iter().map(|one| {
        let name = one.config.map(|config| config.name).unwrap_or_default();
        format!("allocation {name} ({})", one.id)
    });
    let reserved = reserved.reservations.into_iter().map(|one| {
        let name = one.config.map(|config| config.name).unwrap_or_default();
        format!("capacity reservation {name} ({})", one.id)
    });
    Ok(running.chain(reserved).collect())
}

/// A request with an internal token for these projects alone: an administrator who closes one is no member of it.
pub(super) fn signed<M>(
    call: &Call<'_>,
    service: &str,
    projects: &[Uuid],
    message: M,
) -> Result<Request<M>> {
    signed_as(call, service, (projects, false), message)
}

/// The same, as an administrator or not.
pub(super) fn signed_as<M>(
    call: &Call<'_>,
    service: &str,
    (projects, admin): (&[Uuid], bool),
    message: M,
) -> Result<Request<M>> {
    let now = jiff::Timestamp::now().as_second();
    let name = &call.principal().name;
    let token = call.app.minter.mint(service, name, projects, admin, now);
    let token = token.map_err(Error::internal)?;
    let value = MetadataValue::<Ascii>::try_from(format!("Bearer {token}"));
    let mut request = Request::new(message);
    let metadata = request.metadata_mut();
    metadata.insert("authorization", value.map_err(Error::internal)?);
    request.set_timeout(call.app.request_timeout);
    Ok(request)
}
