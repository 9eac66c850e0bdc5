//! `UsageService` and `UsageAdminService`: what a project used and what it costs.
use gpuaas_common::identity::{Caller, ProjectScope};
use gpuaas_common::select::{Selection, Wanted};
use gpuaas_common::time::proto_time;
use gpuaas_common::{Error, id, page};
use gpuaas_proto::gpuaas::billing::v1::usage_admin_service_server::UsageAdminService;
use gpuaas_proto::gpuaas::billing::v1::usage_service_server::UsageService;
use gpuaas_proto::gpuaas::billing::v1::{
    ListProjectUsageRequest, ListUsageRequest, ListUsageResponse, UsageInterval, UsageTotal,
};
use sqlx::Connection as _;
use tonic::{Request, Response, Status};

use super::Api;
use crate::domain::money::{line_amount, money_of};
use crate::store::usage::{self, Filter, Interval, Total};

const MICROSECONDS_PER_SECOND: i64 = 1_000_000;

#[tonic::async_trait]
impl UsageService for Api {
    async fn list_usage(
        &self,
        request: Request<ListUsageRequest>,
    ) -> Result<Response<ListUsageResponse>, Status> {
        let caller = Caller::of(&request)?;
        let request = request.into_inner();
        let project = caller.project(&request.project_id)?;
        Ok(Response::new(self.usage_of(project, &request).await?))
    }
}

#[tonic::async_trait]
impl UsageAdminService for Api {
    async fn list_project_usage(
        &self,
        request: Request<ListProjectUsageRequest>,
    ) -> Result<Response<ListUsageResponse>, Status> {
        Caller::of(&request)?;
        let request = request.into_inner();
        let project = ProjectScope::system(id::parse("project_id", &request.project_id)?);
        let request = ListUsageRequest {
            project_id: request.project_id,
            allocation_id: request.allocation_id,
            page_size: request.page_size,
            page_token: request.page_token,
            filter: request.filter,
            order_by: request.order_by,
        };
        Ok(Response::new(self.usage_of(project, &request).await?))
    }
}

impl Api {
    /// A page of the usage of a project.
    async fn usage_of(
        &self,
        project: ProjectScope,
        request: &ListUsageRequest,
    ) -> Result<ListUsageResponse, Error> {
        let allocation_id = match request.allocation_id.as_str() {
            "" => None,
            text => Some(id::parse("allocation_id", text)?),
        };
        let selection = Selection::parse(&usage::CATALOG, &request.filter, &request.order_by)?;
        let project_text = project.id().to_string();
        let allocation_text = allocation_id.map(|id| id.to_string()).unwrap_or_default();
        let query = ["usage", project_text.as_str(), allocation_text.as_str()];
        let wanted = Wanted {
            page_token: &request.page_token,
            size: page::page_size(request.page_size)?,
            query: &query,
        };

        let filter = Filter {
            project_id: project.id(),
            allocation_id,
        };
        let mut connection = self.pool.acquire().await?;
        // one snapshot and one "now" for the page and its totals
        let mut tx = connection
            .begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            .await?;
        let (rows, next_page_token) = usage::list(&mut tx, filter, &selection, wanted).await?;
        // they are of all pages, so one of them has them
        let totals = if request.page_token.is_empty() {
            usage::totals(&mut tx, filter, &selection).await?
        } else {
            Vec::new()
        };
        tx.commit().await?;

        Ok(ListUsageResponse {
            intervals: rows.iter().map(interval).collect::<Result<_, _>>()?,
            next_page_token,
            totals: totals.iter().map(total).collect::<Result<_, _>>()?,
        })
    }
}

pub(super) fn interval(row: &Interval) -> Result<UsageInterval, Error> {
    let price = row.price();
    let charged = row.microseconds - row.credited_microseconds;
    let amount = line_amount(row.gpu_count, charged, price.nanos)
        .and_then(|nanos| money_of(&price.currency, nanos))
        .ok_or_else(|| too_large("amount"))?;
    Ok(UsageInterval {
        id: row.id.to_string(),
        allocation_id: row.allocation_id.to_string(),
        project_id: row.project_id.to_string(),
        sku: row.sku.clone(),
        gpu_count: row.gpu_count,
        start_time: Some(proto_time(row.started_at.to_jiff())),
        end_time: row.ended_at.map(|at| proto_time(at.to_jiff())),
        microseconds: row.microseconds,
        seconds: row.microseconds / MICROSECONDS_PER_SECOND,
        price_version_id: row.price_version_id.to_string(),
        price_per_gpu_hour: Some(price.to_money()),
        amount: Some(amount),
        credited_microseconds: row.credited_microseconds,
    })
}

fn total(row: &Total) -> Result<UsageTotal, Error> {
    Ok(UsageTotal {
        gpu_microseconds: row
            .gpu_microseconds()
            .ok_or_else(|| too_large("gpu_microseconds"))?,
        credited_gpu_microseconds: row
            .credited_gpu_microseconds()
            .ok_or_else(|| too_large("credited_gpu_microseconds"))?,
        amount: Some(
            row.amount_nanos()
                .and_then(|nanos| money_of(&row.currency(), nanos))
                .ok_or_else(|| too_large("amount"))?,
        ),
    })
}

fn too_large(field: &'static str) -> Error {
    Error::internal(format!("{field} does not fit its wire type"))
}
