//! Capacity reservations, as the scheduler tells them.
use gpuaas_common::identity::Caller;
use gpuaas_proto::gpuaas::scheduler::v1::capacity_reservation_service_server::CapacityReservationService;
use gpuaas_proto::gpuaas::scheduler::v1::{
    CancelCapacityReservationRequest, CapacityReservation, CapacityReservationConfig,
    CreateCapacityReservationRequest, GetCapacityReservationRequest,
    ListCapacityReservationsRequest, ListCapacityReservationsResponse,
};
use tonic::{Request, Response, Status};

use crate::upstream::Record;

#[derive(Clone, Debug, Default)]
pub struct Reservations(pub Record);

fn reservation(name: &str) -> CapacityReservation {
    CapacityReservation {
        id: name.to_owned(),
        config: Some(CapacityReservationConfig {
            name: name.to_owned(),
            ..Default::default()
        }),
        ..Default::default()
    }
}

#[tonic::async_trait]
impl CapacityReservationService for Reservations {
    async fn create_capacity_reservation(
        &self,
        _: Request<CreateCapacityReservationRequest>,
    ) -> Result<Response<CapacityReservation>, Status> {
        Ok(Response::new(reservation("new")))
    }

    async fn get_capacity_reservation(
        &self,
        request: Request<GetCapacityReservationRequest>,
    ) -> Result<Response<CapacityReservation>, Status> {
        Ok(Response::new(reservation(
            &request.get_ref().reservation_id,
        )))
    }

    async fn list_capacity_reservations(
        &self,
        request: Request<ListCapacityReservationsRequest>,
    ) -> Result<Response<ListCapacityReservationsResponse>, Status> {
        Caller::of(&request)?.project(&request.get_ref().project_id)?;
        let running = self.0.reservations();
        Ok(Response::new(ListCapacityReservationsResponse {
            reservations: running.iter().map(|name| reservation(name)).collect(),
            ..Default::default()
        }))
    }

    async fn cancel_capacity_reservation(
        &self,
        request: Request<CancelCapacityReservationRequest>,
    ) -> Result<Response<CapacityReservation>, Status> {
        Ok(Response::new(reservation(
            &request.get_ref().reservation_id,
        )))
    }
}
