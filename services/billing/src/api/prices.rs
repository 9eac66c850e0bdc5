//! `PriceAdminService`: publishing prices.
use gpuaas_common::idempotency::{self, Lookup, Scope};
use gpuaas_common::identity::Caller;
use gpuaas_common::select::{Selection, Wanted};
use gpuaas_common::time::proto_time;
use gpuaas_common::{Error, audit, id, page};
use gpuaas_proto::gpuaas::billing::v1::price_admin_service_server::PriceAdminService;
use gpuaas_proto::gpuaas::billing::v1::{
    CreatePriceVersionRequest, ListPriceVersionsRequest, ListPriceVersionsResponse, PriceVersion,
};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_proto::gpuaas::internal::scheduler::v1::GetSkuRequest;
use gpuaas_proto::gpuaas::internal::scheduler::v1::placement_service_client::PlacementServiceClient;
use tonic::{Code, Request, Response, Status};
use uuid::Uuid;

use super::Api;
use crate::domain::money::Price;
use crate::store::prices;
use crate::workflow::publisher;

const CREATE: &str = "CreatePriceVersion";

#[tonic::async_trait]
impl PriceAdminService for Api {
    async fn create_price_version(
        &self,
        request: Request<CreatePriceVersionRequest>,
    ) -> Result<Response<PriceVersion>, Status> {
        let caller = Caller::of(&request)?;
        Ok(Response::new(
            self.create_price(&caller, request.get_ref()).await?,
        ))
    }

    async fn list_price_versions(
        &self,
        request: Request<ListPriceVersionsRequest>,
    ) -> Result<Response<ListPriceVersionsResponse>, Status> {
        Caller::of(&request)?;
        Ok(Response::new(self.list_prices(request.get_ref()).await?))
    }
}

impl Api {
    async fn create_price(
        &self,
        caller: &Caller,
        request: &CreatePriceVersionRequest,
    ) -> Result<PriceVersion, Error> {
        let scope = Scope {
            principal: &caller.principal,
            method: CREATE,
            key: caller.idempotency_key()?,
        };
        let hash = idempotency::hash(request);
        let price = parse(request)?;
        if let Some(replayed) = self.replayed(scope, &hash).await? {
            return Ok(replayed);
        }
        self.check_sku(&request.sku).await?;

        let mut tx = self.pool.begin().await?;
        if let Lookup::Replay { resource_id } = idempotency::lookup(&mut tx, scope, &hash).await? {
            drop(tx);
            return self.price(&resource_id).await;
        }
        let version = prices::insert(&mut tx, self.ids.next(), &request.sku, &price).await?;
        let version_id = version.id.to_string();
        idempotency::record(&mut tx, scope, &hash, &version_id).await?;
        let detail = serde_json::json!({
            "sku": version.sku, "currency": price.currency.as_str(), "price_nanos": price.nanos,
        });
        let made = to_proto(&version);
        audit::record(
            &mut tx,
            audit::Entry {
                principal: &caller.principal,
                action: "price.create",
                resource: "price_version",
                resource_id: &version_id,
                request_id: &caller.request_id,
                detail: audit::with_digests(detail, None, Some(&made)),
            },
        )
        .await?;
        tx.commit().await?;
        tracing::info!(
            price_version_id = version_id,
            sku = version.sku,
            "create price version"
        );

        // the row is the record: what does not reach the ledger now is pushed by the publisher's next round
        if let Err(error) = self.publisher.publish().await {
            tracing::warn!(
                price_version_id = version_id,
                "publish price later: {}",
                error.chain()
            );
            self.wake.notify(publisher::TOPIC).await;
        }
        Ok(made)
    }

    async fn replayed(&self, scope: Scope<'_>, hash: &[u8]) -> Result<Option<PriceVersion>, Error> {
        let mut connection = self.pool.acquire().await?;
        let lookup = idempotency::lookup(&mut connection, scope, hash).await?;
        drop(connection);
        match lookup {
            Lookup::Fresh => Ok(None),
            Lookup::Replay { resource_id } => self.price(&resource_id).await.map(Some),
        }
    }

    async fn price(&self, version_id: &str) -> Result<PriceVersion, Error> {
        let version_id: Uuid = id::parse("id", version_id)?;
        let version = prices::get(&self.pool, version_id).await?;
        version
            .as_ref()
            .map(to_proto)
            .ok_or_else(|| Error::internal("an idempotency key points to no price version"))
    }

    /// G-03: SKUs are data of the scheduler; billing only prices what exists.
    async fn check_sku(&self, sku: &str) -> Result<(), Error> {
        let request = GetSkuRequest {
            code: sku.to_owned(),
        };
        match PlacementServiceClient::new(self.scheduler.clone())
            .get_sku(request)
            .await
        {
            Ok(_) => Ok(()),
            Err(status) if status.code() == Code::NotFound => Err(Error::new(
                Code::NotFound,
                ErrorReason::SkuUnknown,
                format!("there is no SKU {sku:?}"),
            )
            .field("sku", "must be the code of an existing SKU")),
            Err(status) => Err(status.into()),
        }
    }

    async fn list_prices(
        &self,
        request: &ListPriceVersionsRequest,
    ) -> Result<ListPriceVersionsResponse, Error> {
        let selection = Selection::parse(&prices::CATALOG, &request.filter, &request.order_by)?;
        let wanted = Wanted {
            page_token: &request.page_token,
            size: page::page_size(request.page_size)?,
            query: &["prices", request.sku.as_str()],
        };
        let sku = Some(request.sku.as_str()).filter(|sku| !sku.is_empty());
        let mut conn = self.pool.acquire().await?;
        let (rows, next_page_token) = prices::list(&mut conn, sku, &selection, wanted).await?;
        Ok(ListPriceVersionsResponse {
            price_versions: rows.iter().map(to_proto).collect(),
            next_page_token,
        })
    }
}

fn parse(request: &CreatePriceVersionRequest) -> Result<Price, Error> {
    if request.sku.is_empty() {
        return Err(Error::required("sku"));
    }
    let money = request
        .price_per_gpu_hour
        .as_ref()
        .ok_or_else(|| Error::required("price_per_gpu_hour"))?;
    Price::parse(money).map_err(|error| {
        let field = format!("price_per_gpu_hour.{}", error.field());
        Error::invalid(field, error.to_string())
    })
}

fn to_proto(version: &prices::PriceVersion) -> PriceVersion {
    PriceVersion {
        id: version.id.to_string(),
        sku: version.sku.clone(),
        price_per_gpu_hour: Some(version.price().to_money()),
        effective_time: Some(proto_time(version.effective_at.to_jiff())),
    }
}
