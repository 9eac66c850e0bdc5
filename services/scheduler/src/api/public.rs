//! `SkuService` and `AvailabilityService`: what users may see of SKUs and capacity.
use gpuaas_common::identity::Caller;
use gpuaas_common::select::{Selection, Wanted};
use gpuaas_common::{Result, page};
use gpuaas_placement::{availability, catalog, reserve};
use gpuaas_proto::gpuaas::scheduler::v1::availability_service_server::AvailabilityService;
use gpuaas_proto::gpuaas::scheduler::v1::sku_service_server::SkuService;
use gpuaas_proto::gpuaas::scheduler::v1::{
    ExplainPlacementRequest, ListAvailabilityRequest, ListAvailabilityResponse, ListSkusRequest,
    ListSkusResponse, PlacementExplanation,
};
use tonic::{Request, Response, Status};
use uuid::Uuid;

use super::{Api, convert, parse};

#[tonic::async_trait]
impl SkuService for Api {
    async fn list_skus(
        &self,
        request: Request<ListSkusRequest>,
    ) -> Result<Response<ListSkusResponse>, Status> {
        let caller = Caller::of(&request)?;
        Ok(Response::new(self.skus(&caller, request.get_ref()).await?))
    }
}

#[tonic::async_trait]
impl AvailabilityService for Api {
    async fn list_availability(
        &self,
        request: Request<ListAvailabilityRequest>,
    ) -> Result<Response<ListAvailabilityResponse>, Status> {
        let caller = Caller::of(&request)?;
        let found = self.availability(&caller, request.get_ref()).await?;
        Ok(Response::new(found))
    }

    async fn explain_placement(
        &self,
        request: Request<ExplainPlacementRequest>,
    ) -> Result<Response<PlacementExplanation>, Status> {
        let caller = Caller::of(&request)?;
        let found = self.explained(&caller, request.into_inner()).await?;
        Ok(Response::new(found))
    }
}

pub(super) fn given(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}

/// The requesting project: the given one, the caller's only one, or none in particular.
fn asking(caller: &Caller, given: &str) -> Result<Option<Uuid>> {
    match (given, caller.projects.as_slice()) {
        ("", [only]) => Ok(Some(*only)),
        ("", _) => Ok(None),
        (given, _) => Ok(Some(caller.project(given)?.id())),
    }
}

impl Api {
    async fn skus(&self, caller: &Caller, request: &ListSkusRequest) -> Result<ListSkusResponse> {
        let selection = Selection::parse(&catalog::SKUS, &request.filter, &request.order_by)?;
        let wanted = Wanted {
            page_token: &request.page_token,
            size: page::page_size(request.page_size)?,
            query: &["skus"],
        };
        let member = caller.platform_role.is_none();
        let projects = member.then_some(caller.projects.as_slice());
        let mut conn = self.pool.acquire().await?;
        let (rows, next_page_token) =
            catalog::list_skus(&mut conn, projects, &selection, wanted).await?;
        let skus = match member {
            true => rows.into_iter().map(convert::sku).collect(),
            false => convert::skus_for_operators(&mut conn, rows).await?,
        };
        Ok(ListSkusResponse {
            skus,
            next_page_token,
        })
    }

    async fn availability(
        &self,
        caller: &Caller,
        request: &ListAvailabilityRequest,
    ) -> Result<ListAvailabilityResponse> {
        let project = asking(caller, &request.project_id)?;
        let mut conn = self.pool.acquire().await?;
        let rows = availability::list(
            &mut conn,
            &self.pool.capacity,
            self.policy,
            project,
            given(&request.region_code),
            given(&request.sku),
        )
        .await?;
        Ok(ListAvailabilityResponse {
            availability: rows.into_iter().map(convert::availability).collect(),
        })
    }

    async fn explained(
        &self,
        caller: &Caller,
        request: ExplainPlacementRequest,
    ) -> Result<PlacementExplanation> {
        let project = asking(caller, &request.project_id)?;
        let requested = parse::placement(request, project)?;
        let mut conn = self.pool.acquire().await?;
        let found =
            reserve::explain(&mut conn, &self.pool.capacity, self.policy, &requested).await?;
        Ok(convert::explanation(
            &requested.region_code,
            &requested.sku,
            requested.gpu_count,
            found,
        ))
    }
}
