//! Regions: listed to everyone, disabled ones too, changed by administrators.
use gpuaas_common::error::{Error, Result};
use gpuaas_common::select::{Selection, Wanted};
use gpuaas_common::text::is_deceptive;
use gpuaas_common::{audit, etag, page};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_proto::gpuaas::internal::scheduler::v1 as ledger;
use gpuaas_proto::gpuaas::inventory::v1::region_admin_service_server::RegionAdminService;
use gpuaas_proto::gpuaas::inventory::v1::region_service_server::RegionService;
use gpuaas_proto::gpuaas::inventory::v1::{
    DeleteRegionRequest, DeleteRegionResponse, ListRegionsRequest, ListRegionsResponse,
    PutRegionRequest, Region,
};
use sqlx::PgConnection;
use tonic::{Code, Request, Response, Status};

use super::{Mutation, Regions, at_most, bad, text};
use crate::domain::names::RegionCode;
use crate::store::ledger_sync::{self, Kind, SendLock};
use crate::store::regions::{self, RegionRow};
use crate::workflow::ledger_sync::{push_now, set_desired_region};

const MAX_TEXT: usize = 200;
/// A region that is being deleted is not sent to the ledger for so long: longer than its last calls take.
const HOLD_SECONDS: u32 = 60;

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
        Ok(Response::new(to_region(self.put(&request).await?)))
    }

    async fn delete_region(
        &self,
        request: Request<DeleteRegionRequest>,
    ) -> Result<Response<DeleteRegionResponse>, Status> {
        self.delete(&request).await?;
        Ok(Response::new(DeleteRegionResponse {}))
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
            regions: rows.into_iter().map(to_region).collect(),
            next_page_token,
        })
    }

    async fn put(&self, request: &Request<PutRegionRequest>) -> Result<RegionRow> {
        let mutation = Mutation::of(request, "PutRegion")?;
        let (region, etag) = parse(request.get_ref())?;
        let mut tx = self.0.pool.begin().await?;
        // a repeat of a call that is still at work waits for it, and is no change of who read what that one replaces
        if let Some(code) = mutation.take_key(&mut tx, &region.code).await? {
            // it may have been deleted since
            let found = regions::find(&mut tx, &code).await?;
            return found.ok_or_else(|| unknown(&code));
        }
        let before = regions::lock(&mut tx, &region.code).await?.map(to_region);
        etag::check(etag, before.as_ref().map_or("", |region| &region.etag))?;
        let after = to_region(region.clone());
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

/// Deletion. The ledger, which knows what was placed in the region, loses it first: afterwards nothing can be placed there.
/// From then on nobody sends it to the ledger, unless the deletion is not finished within the hold.
impl Regions {
    async fn delete(&self, request: &Request<DeleteRegionRequest>) -> Result<()> {
        let mutation = Mutation::of(request, "DeleteRegion")?;
        let desired = request.get_ref();
        if desired.region_code.is_empty() {
            return Err(Error::required("region_code"));
        }
        let code = RegionCode::parse(&desired.region_code).map_err(bad("region_code"))?;
        audit::check_reason(&desired.reason)?;
        if mutation.made(&self.0.pool).await?.is_some() {
            return Ok(());
        }
        let mut conn = self.0.pool.acquire().await?;
        let found = regions::find(&mut conn, code.as_str()).await?;
        unused(&mut conn, found, desired).await?;
        drop(conn);

        let this = (Kind::Region, code.as_str());
        let held = match ledger_sync::hold(&self.0.pool, this, HOLD_SECONDS).await? {
            SendLock::Ours(epoch) => epoch,
            SendLock::InFlight => return Err(in_flight(code.as_str())),
        };
        if let Some(epoch) = held {
            ledger_sync::send_again(&self.0.pool, this, epoch).await?;
        }
        let deleted = self.delete_held(&mutation, desired, held).await;
        if let (Err(_), Some(epoch)) = (&deleted, held) {
            ledger_sync::let_go(&self.0.pool, this, epoch).await?;
            self.0.push_due.notify_one();
        }
        deleted
    }

    async fn delete_held(
        &self,
        mutation: &Mutation,
        desired: &DeleteRegionRequest,
        held: Option<i64>,
    ) -> Result<()> {
        let code = desired.region_code.as_str();
        let request = ledger::DeleteRegionRequest {
            code: code.to_owned(),
        };
        let answer = self.0.ledger()?.delete_region(request).await?.into_inner();
        if !answer.used_by.is_empty() {
            return Err(in_use(code, &answer.used_by));
        }
        let mut tx = self.0.pool.begin().await?;
        if mutation.take_key(&mut tx, code).await?.is_some() {
            return Ok(());
        }
        let found = regions::lock(&mut tx, code).await?;
        // somebody may have changed it since, or put a node into it
        let before = unused(&mut tx, found, desired).await?;
        let detail = serde_json::json!({ "reason": desired.reason });
        let detail = audit::with_digests(detail, Some(&before), None::<&Region>);
        regions::delete(&mut tx, code).await?;
        if let Some(epoch) = held
            && !ledger_sync::forget(&mut tx, (Kind::Region, code), epoch).await?
        {
            return Err(in_flight(code));
        }
        mutation
            .audit(&mut tx, "region.delete", ("region", code), detail)
            .await?;
        tx.commit().await?;
        tracing::info!(region = code, "delete region");
        Ok(())
    }
}

/// A region as the caller has read it, if there is one and no node is in it.
async fn unused(
    conn: &mut PgConnection,
    found: Option<RegionRow>,
    desired: &DeleteRegionRequest,
) -> Result<Region> {
    let code = desired.region_code.as_str();
    let region = to_region(found.ok_or_else(|| unknown(code))?);
    etag::check(&desired.etag, &region.etag)?;
    let nodes = regions::nodes(conn, code).await?;
    if !nodes.is_empty() {
        return Err(in_use(code, &nodes));
    }
    Ok(region)
}

fn unknown(code: &str) -> Error {
    let text = format!("There is no region {code}.");
    Error::new(Code::NotFound, ErrorReason::RegionUnknown, text)
}

fn in_flight(code: &str) -> Error {
    let text = format!("Region {code} is being sent to the ledger. Try again in a few seconds.");
    Error::new(Code::Unavailable, ErrorReason::DependencyUnavailable, text)
}

/// Something is or was in a region, by name.
fn in_use(code: &str, names: &[String]) -> Error {
    let text = format!(
        "Region {code} cannot be deleted; disable it instead. In it are or were: {}.",
        names.join(", ")
    );
    let error = Error::new(Code::FailedPrecondition, ErrorReason::RegionInUse, text);
    names.iter().fold(error, |error, name| {
        error.field(name.clone(), "is or was in the region")
    })
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

fn to_region(row: RegionRow) -> Region {
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
