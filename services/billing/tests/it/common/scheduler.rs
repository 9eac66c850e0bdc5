//! A scheduler that knows two SKUs and keeps the prices it is told, over real gRPC. Only the methods that billing
//! calls exist.
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use gpuaas_common::Error;
use gpuaas_common::client::GrpcChannel;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_proto::gpuaas::internal::scheduler::v1::{
    GetSkuRequest, PutSkuPriceRequest, PutSkuPriceResponse,
};
use gpuaas_proto::gpuaas::scheduler::v1::Sku;
use prost::Message;
use tonic::server::Grpc;
use tonic::service::Routes;
use tonic::{Code, Request, Response, Status};
use tonic_prost::ProstCodec;

#[derive(Clone, Default)]
pub struct Scheduler {
    prices: Arc<Mutex<Vec<PutSkuPriceRequest>>>,
    refusing: Arc<AtomicBool>,
}

impl Scheduler {
    pub const OTHER_SKU: &str = "h200-sxm-slice";

    /// Prices in the order they were put.
    pub fn prices(&self) -> Vec<PutSkuPriceRequest> {
        self.prices.lock().expect("no panic").clone()
    }

    pub fn refuse_prices(&self, refuse: bool) {
        self.refusing.store(refuse, Ordering::SeqCst);
    }

    pub async fn channel(&self) -> GrpcChannel {
        let (known, reported) = (self.clone(), self.clone());
        let router = axum::Router::new();
        let router = route(router, "GetSku", move |request: GetSkuRequest| {
            known.get_sku(request)
        });
        let router = route(router, "PutSkuPrice", move |request: PutSkuPriceRequest| {
            reported.put_sku_price(request)
        });
        super::serve(Routes::from(router)).await
    }

    fn get_sku(&self, request: GetSkuRequest) -> Result<Sku, Status> {
        if [super::SKU, Self::OTHER_SKU].contains(&request.code.as_str()) {
            return Ok(Sku {
                code: request.code,
                ..Sku::default()
            });
        }
        Err(Error::new(Code::NotFound, ErrorReason::SkuUnknown, "no such SKU").into())
    }

    fn put_sku_price(&self, request: PutSkuPriceRequest) -> Result<PutSkuPriceResponse, Status> {
        if self.refusing.load(Ordering::SeqCst) {
            return Err(Status::unavailable("restarting"));
        }
        self.prices.lock().expect("no panic").push(request);
        Ok(PutSkuPriceResponse {})
    }
}

fn route<Q, A, F>(router: axum::Router, method: &str, answer: F) -> axum::Router
where
    Q: Message + Default + 'static,
    A: Message + Default + 'static,
    F: Fn(Q) -> Result<A, Status> + Clone + Send + Sync + 'static,
{
    let path = format!("/gpuaas.internal.scheduler.v1.PlacementService/{method}");
    let handler = axum::routing::post(move |request: axum::extract::Request| async move {
        let service = tower::service_fn(move |request: Request<Q>| {
            let answer = answer(request.into_inner()).map(Response::new);
            async move { answer }
        });
        Grpc::new(ProstCodec::<A, Q>::default())
            .unary(service, request)
            .await
    });
    router.route(&path, handler)
}
