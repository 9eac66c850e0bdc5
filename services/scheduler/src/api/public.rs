//! `SkuService` and `AvailabilityService`: what users may see of what is sold.
use gpuaas_kit::identity::Caller;
use gpuaas_kit::{Result, page};
use gpuaas_placement::{availability, catalog, reserve};
use gpuaas_proto::gpuaas::scheduler::v1::availability_service_server::AvailabilityService;
use gpuaas_proto::gpuaas::scheduler::v1::sku_service_server::SkuService;
use gpuaas_proto::gpuaas::scheduler::v1::{
    ExplainPlacementRequest, ListAvailabilityRequest, ListAvailabilityResponse, ListSkusRequest,
    ListSkusResponse, PlacementExplanation,
};
use tonic::{Request, Response, Status};

use super::{Api, parse, wire};

#[tonic::async_trait]
impl SkuService for Api {
    async fn list_skus(
        &self,
        request: Request<ListSkusRequest>,
    ) -> Result<Response<ListSkusResponse>, Status> {
        Caller::of(&request)?;
        Ok(Response::new(self.skus(request.get_ref()).await?))
    }
}

#[tonic::async_trait]
impl AvailabilityService for Api {
    async fn list_availability(
        &self,
        request: Request<ListAvailabilityRequest>,
    ) -> Result<Response<ListAvailabilityResponse>, Status> {
        Caller::of(&request)?;
        Ok(Response::new(self.availability(request.get_ref()).await?))
    }

    async fn explain_placement(
        &self,
        request: Request<ExplainPlacementRequest>,
    ) -> Result<Response<PlacementExplanation>, Status> {
        Caller::of(&request)?;
        Ok(Response::new(self.explained(request.into_inner()).await?))
    }
}

pub(super) fn given(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}

impl Api {
    async fn skus(&self, request: &ListSkusRequest) -> Result<ListSkusResponse> {
        let size = page::page_size(request.page_size)?;
        let after: Option<String> = page::decode(&request.page_token, &["skus"])?;
        let mut conn = self.pool.acquire().await?;
        // one more than asked for says whether there is a next page
        let mut rows =
            catalog::skus(&mut conn, after.as_deref().unwrap_or_default(), size + 1).await?;
        let shown = usize::try_from(size).unwrap_or(usize::MAX);
        let more = rows.len() > shown;
        rows.truncate(shown);
        let next_page_token = match rows.last() {
            Some(last) if more => page::encode(&last.code, &["skus"]),
            _ => String::new(),
        };
        Ok(ListSkusResponse {
            skus: rows.into_iter().map(wire::sku).collect(),
            next_page_token,
        })
    }

    async fn availability(
        &self,
        request: &ListAvailabilityRequest,
    ) -> Result<ListAvailabilityResponse> {
        let mut conn = self.pool.acquire().await?;
        let rows = availability::list(
            &mut conn,
            &self.capacity,
            given(&request.region_code),
            given(&request.sku),
        )
        .await?;
        Ok(ListAvailabilityResponse {
            availability: rows.into_iter().map(wire::availability).collect(),
        })
    }

    async fn explained(&self, request: ExplainPlacementRequest) -> Result<PlacementExplanation> {
        let asked = parse::placement(request.region_code, request.sku, request.gpu_count)?;
        let mut conn = self.pool.acquire().await?;
        let found = reserve::explain(&mut conn, &self.capacity, self.policy, &asked).await?;
        Ok(wire::explanation(
            &asked.region_code,
            &asked.sku,
            asked.gpu_count,
            found,
        ))
    }
}
