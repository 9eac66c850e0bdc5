//! `PlacementService`: reservations, and the intake of nodes, slots, regions and prices.
use gpuaas_common::select::{Selection, Wanted};
use gpuaas_common::{Error, Result, id, page};
use gpuaas_placement::model::SlotStatus;
use gpuaas_placement::reserve::{self, Call};
use gpuaas_placement::{
    catalog, claims, lifecycle, node_placement, outbox, repair, slots, workflows,
};
use gpuaas_proto::gpuaas::internal::scheduler::v1::placement_service_server::PlacementService;
use gpuaas_proto::gpuaas::internal::scheduler::v1::{
    ApproveSlotsRequest, DeleteRegionRequest, DeleteRegionResponse, GetSkuRequest, LedgerNode,
    LedgerSlot, ListNodeHistoryRequest, ListNodeHistoryResponse, ListSlotHistoryRequest,
    ListSlotHistoryResponse, ListSlotsRequest, ListSlotsResponse, PutNodeRequest, PutRegionRequest,
    PutRegionResponse, PutSkuPriceRequest, PutSkuPriceResponse, ReserveBatchRequest,
    ReserveBatchResponse, ReserveRequest, ReserveResponse, RetireNodeRequest, RetireSlotRequest,
    SetSlotAdminStateRequest,
};
use gpuaas_proto::gpuaas::scheduler::v1::Sku;
use tonic::{Request, Response, Status};

use super::{Api, convert, parse};

#[tonic::async_trait]
impl PlacementService for Api {
    async fn reserve(
        &self,
        request: Request<ReserveRequest>,
    ) -> Result<Response<ReserveResponse>, Status> {
        Ok(Response::new(
            self.reserve_slots(request.into_inner()).await?,
        ))
    }

    async fn reserve_batch(
        &self,
        request: Request<ReserveBatchRequest>,
    ) -> Result<Response<ReserveBatchResponse>, Status> {
        Ok(Response::new(
            self.reserve_several(request.into_inner()).await?,
        ))
    }

    async fn get_sku(&self, request: Request<GetSkuRequest>) -> Result<Response<Sku>, Status> {
        Ok(Response::new(self.sku(&request.get_ref().code).await?))
    }

    async fn put_node(
        &self,
        request: Request<PutNodeRequest>,
    ) -> Result<Response<LedgerNode>, Status> {
        Ok(Response::new(self.take_node(request.into_inner()).await?))
    }

    async fn put_region(
        &self,
        request: Request<PutRegionRequest>,
    ) -> Result<Response<PutRegionResponse>, Status> {
        self.take_region(request.get_ref()).await?;
        Ok(Response::new(PutRegionResponse {}))
    }

    async fn delete_region(
        &self,
        request: Request<DeleteRegionRequest>,
    ) -> Result<Response<DeleteRegionResponse>, Status> {
        let used_by = self.drop_region(&request.get_ref().code).await?;
        Ok(Response::new(DeleteRegionResponse { used_by }))
    }

    async fn approve_slots(
        &self,
        request: Request<ApproveSlotsRequest>,
    ) -> Result<Response<ListSlotsResponse>, Status> {
        Ok(Response::new(self.take_slots(request.into_inner()).await?))
    }

    async fn set_slot_admin_state(
        &self,
        request: Request<SetSlotAdminStateRequest>,
    ) -> Result<Response<LedgerSlot>, Status> {
        Ok(Response::new(
            self.set_admin_state(request.into_inner()).await?,
        ))
    }

    async fn retire_slot(
        &self,
        request: Request<RetireSlotRequest>,
    ) -> Result<Response<LedgerSlot>, Status> {
        Ok(Response::new(
            self.retire_slot_of(request.into_inner()).await?,
        ))
    }

    async fn retire_node(
        &self,
        request: Request<RetireNodeRequest>,
    ) -> Result<Response<LedgerNode>, Status> {
        Ok(Response::new(self.retire(request.into_inner()).await?))
    }

    async fn list_node_history(
        &self,
        request: Request<ListNodeHistoryRequest>,
    ) -> Result<Response<ListNodeHistoryResponse>, Status> {
        Ok(Response::new(
            self.history_of_node(request.get_ref()).await?,
        ))
    }

    async fn list_slot_history(
        &self,
        request: Request<ListSlotHistoryRequest>,
    ) -> Result<Response<ListSlotHistoryResponse>, Status> {
        Ok(Response::new(
            self.history_of_slot(request.get_ref()).await?,
        ))
    }

    async fn list_slots(
        &self,
        request: Request<ListSlotsRequest>,
    ) -> Result<Response<ListSlotsResponse>, Status> {
        Ok(Response::new(self.slots(request.get_ref()).await?))
    }

    async fn put_sku_price(
        &self,
        request: Request<PutSkuPriceRequest>,
    ) -> Result<Response<PutSkuPriceResponse>, Status> {
        self.take_price(request.get_ref()).await?;
        Ok(Response::new(PutSkuPriceResponse {}))
    }
}

impl Api {
    async fn reserve_slots(&self, request: ReserveRequest) -> Result<ReserveResponse> {
        let validate_only = request.validate_only;
        let when_full = parse::when_full(request.wait_until.as_ref())?;
        let request = parse::reserve(request)?;
        let mut call = Call::one(&request).when_full(when_full);
        if validate_only {
            call = call.dry_run();
        }
        let reserved = reserve::reserve(&self.pool, self.ids, self.policy, call).await?;
        let (region, sku) = (&request.region_code, &request.sku);
        if let Some(explanation) = reserved.explanation {
            let explanation = convert::explanation(region, sku, request.gpu_count, explanation);
            return Ok(ReserveResponse {
                explanation: Some(explanation),
                ..ReserveResponse::default()
            });
        }
        let [allocation_id] = reserved.allocation_ids[..] else {
            return Err(Error::internal("a key that led to nothing"));
        };
        if !reserved.replayed {
            tracing::info!(
                %allocation_id, project_id = %request.project_id, sku = request.sku,
                gpu_count = %request.gpu_count, "reserve"
            );
            self.wake.notify(workflows::TOPIC).await;
            self.wake.notify(outbox::TOPIC).await;
        }
        Ok(ReserveResponse {
            allocation_id: allocation_id.to_string(),
            replayed: reserved.replayed,
            explanation: None,
        })
    }

    async fn reserve_several(&self, request: ReserveBatchRequest) -> Result<ReserveBatchResponse> {
        let parsed = parse::batch(&request)?;
        let key = reserve::Key {
            principal: &request.principal,
            idempotency_key: &request.idempotency_key,
            request_hash: &request.request_hash,
        };
        let when_full = parse::when_full(request.wait_until.as_ref())?;
        let mut call = Call::batch(key, &parsed).when_full(when_full);
        if request.validate_only {
            call = call.dry_run();
        }
        let reserved = reserve::reserve(&self.pool, self.ids, self.policy, call).await?;
        if request.validate_only {
            return Ok(ReserveBatchResponse::default());
        }
        let (made, replayed) = (reserved.allocation_ids, reserved.replayed);
        if !replayed {
            tracing::info!(
                allocation_ids = ?made, project_id = %parsed[0].project_id, "reserve batch"
            );
            self.wake.notify(workflows::TOPIC).await;
            self.wake.notify(outbox::TOPIC).await;
        }
        Ok(ReserveBatchResponse {
            allocation_ids: made.iter().map(ToString::to_string).collect(),
            replayed,
        })
    }

    async fn sku(&self, code: &str) -> Result<Sku> {
        if code.is_empty() {
            return Err(Error::required("code"));
        }
        let mut conn = self.pool.acquire().await?;
        Ok(convert::sku(catalog::sku(&mut conn, code).await?))
    }

    async fn slots(&self, request: &ListSlotsRequest) -> Result<ListSlotsResponse> {
        let node_id = id::parse("node_id", &request.node_id)?;
        let selection = Selection::parse(&slots::CATALOG, &request.filter, &request.order_by)?;
        let mut conn = self.pool.acquire().await?;
        let (rows, next_page_token) = if request.page_size == 0 {
            (slots::list(&mut conn, node_id).await?, String::new())
        } else {
            let wanted = Wanted {
                page_token: &request.page_token,
                size: page::page_size(request.page_size)?,
                query: &["slots", request.node_id.as_str()],
            };
            slots::select(&mut conn, node_id, &selection, wanted).await?
        };
        let mut left_by_tenants = Vec::new();
        for slot in &rows {
            let waits = slot.status == SlotStatus::Disabled;
            if waits && repair::left_by_tenant(&mut conn, slot.id).await? {
                left_by_tenants.push(slot.bindings.nvme_device.clone());
            }
        }
        let mut answer = convert::slots(rows, claims::epochs(&mut conn).await?);
        answer.next_page_token = next_page_token;
        answer.left_by_tenants = left_by_tenants;
        answer.node = match node_placement::get(&mut conn, node_id).await {
            Ok(node) => Some(convert::node_with_admin_state(
                node,
                lifecycle::latest(&mut conn, node_id).await?,
            )),
            Err(gpuaas_placement::Error::NotFound { .. }) => None,
            Err(error) => return Err(error.into()),
        };
        Ok(answer)
    }
}
