//! Regions: listed to everyone, disabled ones too, changed by administrators.
use gpuaas_common::error::{Error, Result};
use gpuaas_common::select::{Selection, Wanted};
use gpuaas_common::text::is_deceptive;
use gpuaas_common::{audit, etag, page};
use gpuaas_proto::gpuaas::inventory::v1::region_admin_service_server::RegionAdminService;
use gpuaas_proto::gpuaas::inventory::v1::region_service_server::RegionService;
use gpuaas_proto::gpuaas::inventory::v1::{
    ListRegionsRequest, ListRegionsResponse, PutRegionRequest, Region,
};
use tonic::{Request, Response, Status};

use super::{Mutation, Regions, at_most, bad, gone, text};
use crate::domain::names::RegionCode;
use crate::store::ledger_sync::Kind;
use crate::store::regions::{self, RegionRow};
use crate::workflow::ledger_sync::{push_now, set_desired_region};

const MAX_TEXT: usize = 200;

#[tonic::async_trait]
impl RegionService for Regions {
    async fn list_regions(
        &self,
        request: Request<ListRegionsRequest>,
    ) -> Result<Response<ListRegionsResponse>, Status> {
        let request = request.into_inner();
        Ok(Response::new(self.list(&request).await?))
    }
}

#[tonic::async_trait]
impl RegionAdminService for Regions {
    async fn put_region(
        &self,
        request: Request<PutRegionRequest>,
    ) -> Result<Response<Region>, Status> {
        Ok(Response::new(to_wire(self.put(&request).await?)))
    }
}

impl Regions {
    async fn list(&self, request: &ListRegionsRequest) -> Result<ListRegionsResponse> {
        let selection = Selection::parse(&regions::CATALOG, &request.filter, &request.order_by)?;
        let wanted = Wanted {
            page_token: &request.page_token,
            size: page::page_size(request.page_size)?,
            query: &["regions"],
        };
        let mut conn = self.0.pool.acquire().await?;
        let (rows, next_page_token) = regions::list(&mut conn, &selection, wanted).await?;
        Ok(ListRegionsResponse {
            regions: rows.into_iter().map(to_wire).collect(),
            next_page_token,
        })
    }

    async fn put(&self, request: &Request<PutRegionRequest>) -> Result<RegionRow> {
        let mutation = Mutation::of(request, "PutRegion")?;
        let (region, etag) = parse(request.get_ref())?;
        let mut tx = self.0.pool.begin().await?;
        if let Some(code) = mutation.earlier(&mut tx).await? {
            return regions::find(&mut tx, &code)
                .await?
                .ok_or_else(|| gone("the region"));
        }
        // a repeat of a call that is still at work waits for it, and is no change of who read what that one replaces
        mutation.take_key(&mut tx, &region.code).await?;
        let before = regions::lock(&mut tx, &region.code).await?.map(to_wire);
        etag::check(etag, before.as_ref().map_or("", |region| &region.etag))?;
        let after = to_wire(region.clone());
        let detail = serde_json::json!({ "enabled": region.enabled });
        let detail = audit::with_digests(detail, before.as_ref(), Some(&after));
        mutation
            .audit(&mut tx, "region.put", ("region", &region.code), detail)
            .await?;
        regions::put(&mut tx, &region).await?;
        let news = set_desired_region(&mut tx, &region).await?;
        tx.commit().await?;
        if news {
            push_now(&self.0, Kind::Region, &region.code).await;
        }
        tracing::info!(region = region.code, enabled = region.enabled, "put region");
        Ok(region)
    }
}

/// The region, and the etag of the one that the caller has read.
fn parse(request: &PutRegionRequest) -> Result<(RegionRow, &str)> {
    let region = request
        .region
        .as_ref()
        .ok_or_else(|| Error::required("region"))?;
    if region.code.is_empty() {
        return Err(Error::required("region.code"));
    }
    let code = RegionCode::parse(&region.code).map_err(bad("region.code"))?;
    text("region.display_name", &region.display_name, MAX_TEXT)?;
    at_most(
        "region.unavailable_reason",
        &region.unavailable_reason,
        MAX_TEXT,
    )?;
    // it is shown in terminals of those who launch
    if region.unavailable_reason.chars().any(is_deceptive) {
        return Err(Error::invalid(
            "region.unavailable_reason",
            "must not have control characters",
        ));
    }
    if region.enabled && !region.unavailable_reason.is_empty() {
        return Err(Error::invalid(
            "region.unavailable_reason",
            "An enabled region has no reason.",
        ));
    }
    let row = RegionRow {
        code: code.as_str().to_owned(),
        display_name: region.display_name.clone(),
        enabled: region.enabled,
        unavailable_reason: region.unavailable_reason.clone(),
    };
    Ok((row, &region.etag))
}

fn to_wire(row: RegionRow) -> Region {
    let region = Region {
        code: row.code,
        display_name: row.display_name,
        enabled: row.enabled,
        unavailable_reason: row.unavailable_reason,
        etag: String::new(),
    };
    Region {
        etag: etag::of(&region),
        ..region
    }
}
