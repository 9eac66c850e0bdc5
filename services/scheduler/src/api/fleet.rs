//! `FleetAdminService` and `HealthEventService`: the fleet record for programs, and what a project reads of the health of
//! what it has.
use gpuaas_common::identity::Caller;
use gpuaas_common::select::{Selection, Wanted};
use gpuaas_common::time::proto_time;
use gpuaas_common::{Error, Result, id, page};
use gpuaas_placement::convert;
use gpuaas_placement::fleet::{self, EventQuery, Query, ReservationCounts};
use gpuaas_placement::model::Health;
use gpuaas_proto::gpuaas::common::v1::HealthState;
use gpuaas_proto::gpuaas::scheduler::v1 as pb;
use gpuaas_proto::gpuaas::scheduler::v1::fleet_admin_service_server::FleetAdminService;
use gpuaas_proto::gpuaas::scheduler::v1::health_event_service_server::HealthEventService;
use jiff_sqlx::Timestamp;
use tonic::{Request, Response, Status};
use uuid::Uuid;

use super::Api;
use super::public::given;

#[tonic::async_trait]
impl FleetAdminService for Api {
    async fn list_fleet_nodes(
        &self,
        request: Request<pb::ListFleetNodesRequest>,
    ) -> Result<Response<pb::ListFleetNodesResponse>, Status> {
        Caller::of(&request)?;
        Ok(Response::new(self.fleet_nodes(request.get_ref()).await?))
    }

    async fn get_fleet_counts(
        &self,
        request: Request<pb::GetFleetCountsRequest>,
    ) -> Result<Response<pb::FleetRollup>, Status> {
        Caller::of(&request)?;
        let region = given(&request.get_ref().region_code);
        let mut conn = self.pool.acquire().await.map_err(Error::from)?;
        let rollup = fleet::rollup(&mut conn, region)
            .await
            .map_err(Error::from)?;
        Ok(Response::new(counted(rollup)))
    }
}

#[tonic::async_trait]
impl HealthEventService for Api {
    async fn list_health_events(
        &self,
        request: Request<pb::ListHealthEventsRequest>,
    ) -> Result<Response<pb::ListHealthEventsResponse>, Status> {
        let caller = Caller::of(&request)?;
        Ok(Response::new(
            self.health_events(&caller, request.get_ref()).await?,
        ))
    }
}

/// An id that filters, if it is given.
fn filter(field: &str, text: &str) -> Result<Option<Uuid>> {
    given(text).map(|text| id::parse(field, text)).transpose()
}

impl Api {
    async fn fleet_nodes(
        &self,
        request: &pb::ListFleetNodesRequest,
    ) -> Result<pb::ListFleetNodesResponse> {
        let selection = Selection::parse(&fleet::NODES, &request.filter, &request.order_by)?;
        let health = HealthState::try_from(request.health)
            .map_err(|_| Error::invalid("health", "is not a health state"))?;
        let in_use = request
            .in_use
            .map_or("", |in_use| if in_use { "1" } else { "0" });
        let selects = [
            "fleet-nodes",
            &request.region_code,
            &request.rack,
            &request.hardware_type,
            health.as_str_name(),
            &request.project_id,
            &request.reservation_id,
            in_use,
        ];
        let wanted = Wanted {
            page_token: &request.page_token,
            size: page::page_size(request.page_size)?,
            query: &selects,
        };
        let query = Query {
            region_code: given(&request.region_code),
            rack: given(&request.rack),
            hardware_type: given(&request.hardware_type),
            health: (health != HealthState::Unspecified).then(|| convert::health(health)),
            project_id: filter("project_id", &request.project_id)?,
            reservation_id: filter("reservation_id", &request.reservation_id)?,
            in_use: request.in_use,
        };
        let mut conn = self.pool.acquire().await?;
        let (rows, next_page_token) = fleet::list(&mut conn, &query, &selection, wanted).await?;
        Ok(pb::ListFleetNodesResponse {
            nodes: rows.into_iter().map(node).collect(),
            next_page_token,
        })
    }

    async fn health_events(
        &self,
        caller: &Caller,
        request: &pb::ListHealthEventsRequest,
    ) -> Result<pb::ListHealthEventsResponse> {
        let project = caller.project(&request.project_id)?.id();
        let selection = Selection::parse(&fleet::EVENTS, &request.filter, &request.order_by)?;
        let project_text = project.to_string();
        let selects = [
            "health-events",
            project_text.as_str(),
            &request.allocation_id,
        ];
        let wanted = Wanted {
            page_token: &request.page_token,
            size: page::page_size(request.page_size)?,
            query: &selects,
        };
        let query = EventQuery {
            project_id: project,
            allocation_id: filter("allocation_id", &request.allocation_id)?,
        };
        let mut conn = self.pool.acquire().await?;
        let (rows, next_page_token) =
            fleet::health_events(&mut conn, query, &selection, wanted).await?;
        Ok(pb::ListHealthEventsResponse {
            events: rows.iter().map(event).collect(),
            next_page_token,
        })
    }
}

fn time(at: Timestamp) -> prost_types::Timestamp {
    proto_time(at.to_jiff())
}

fn number(number: i64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn counts(counts: fleet::Counts) -> pb::FleetCounts {
    pb::FleetCounts {
        delivered: counts.delivered,
        healthy: counts.healthy,
        reserved: counts.reserved,
        active: counts.active,
        reserved_unhealthy: counts.reserved_unhealthy,
        active_unhealthy: counts.active_unhealthy,
    }
}

fn node(node: fleet::FleetNode) -> pb::FleetNode {
    let occupant = |one: fleet::Occupant| pb::FleetOccupant {
        project_id: one.project_id.to_string(),
        // of the gateway, which alone knows projects
        project: String::new(),
        organisation: String::new(),
        allocations: number(one.allocations),
        gpus: number(one.gpus),
        since: Some(time(one.since)),
    };
    pb::FleetNode {
        id: node.id.to_string(),
        hostname: node.hostname,
        region_code: node.region_code,
        rack: node.rack,
        hardware_type: node.hardware_type,
        mode: node.mode,
        admin_state: node.admin_state,
        health: convert::health_state(node.health).into(),
        reason: node.reason,
        gpus: Some(counts(node.counts.gpus)),
        occupants: node.occupants.into_iter().map(occupant).collect(),
    }
}

fn counted(rollup: fleet::Rollup) -> pb::FleetRollup {
    let reservation = |one: ReservationCounts| pb::FleetReservation {
        reservation_id: one.id.to_string(),
        project_id: one.project_id.to_string(),
        name: one.name,
        requested_gpus: one.gpus,
        nodes: Some(counts(one.counts.nodes)),
        gpus: Some(counts(one.counts.gpus)),
    };
    let pools = rollup
        .pools
        .into_iter()
        .map(|(pool, counted)| pb::FleetPool {
            region_code: pool.region_code,
            hardware_type: pool.hardware_type,
            nodes: Some(counts(counted.nodes)),
            gpus: Some(counts(counted.gpus)),
        });
    pb::FleetRollup {
        nodes: Some(counts(rollup.total.nodes)),
        gpus: Some(counts(rollup.total.gpus)),
        pools: pools.collect(),
        reservations: rollup.reservations.into_iter().map(reservation).collect(),
    }
}

fn event(event: &fleet::HealthEvent) -> pb::HealthEvent {
    let message = match event.health {
        _ if event.break_fix => {
            "An operator works on the host of the GPUs (break-fix). It takes no new allocations meanwhile."
        }
        Health::Healthy => "",
        Health::Unknown => "The host did not report: whether the GPUs were reachable is unknown.",
        Health::Degraded => "A check of the host failed: the GPUs may have been impaired.",
        Health::Failed => "The GPUs were out of service until a repair.",
    };
    pb::HealthEvent {
        id: event.id.to_string(),
        allocation_id: event.allocation_id.to_string(),
        gpu_count: number(event.gpus),
        health: convert::health_state(event.health).into(),
        start_time: Some(time(event.started_at)),
        end_time: event.ended_at.map(time),
        message: message.to_owned(),
        break_fix: event.break_fix,
    }
}
