//! A scheduler that knows some SKUs, over real gRPC. Only the method that the catalog calls exists.
use std::sync::Arc;

use gpuaas_common::Error;
use gpuaas_common::client::{GrpcChannel, Propagate};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_proto::gpuaas::internal::scheduler::v1::GetSkuRequest;
use gpuaas_proto::gpuaas::scheduler::v1::Sku;
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::server::Grpc;
use tonic::service::Routes;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Endpoint;
use tonic::{Code, Request, Response, Status};
use tonic_prost::ProstCodec;

/// A channel to a scheduler that knows these SKUs.
pub async fn channel(skus: &[&str]) -> GrpcChannel {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
    let address = listener.local_addr().expect("bound");
    let skus: Arc<[String]> = skus.iter().map(|sku| (*sku).to_owned()).collect();
    let get_sku = axum::routing::post(move |request: axum::extract::Request| async move {
        let answer = tower::service_fn(move |request: Request<GetSkuRequest>| {
            let answer = answer(&skus, request.into_inner());
            async move { answer }
        });
        Grpc::new(ProstCodec::<Sku, GetSkuRequest>::default())
            .unary(answer, request)
            .await
    });
    let router = axum::Router::new().route(
        "/gpuaas.internal.scheduler.v1.PlacementService/GetSku",
        get_sku,
    );
    tokio::spawn(
        tonic::transport::Server::builder()
            .add_routes(Routes::from(router))
            .serve_with_incoming(TcpListenerStream::new(listener)),
    );
    let channel = Endpoint::from_shared(format!("http://{address}"))
        .expect("address")
        .connect_lazy();
    InterceptedService::new(channel, Propagate)
}

fn answer(skus: &[String], request: GetSkuRequest) -> Result<Response<Sku>, Status> {
    if skus.contains(&request.code) {
        return Ok(Response::new(Sku {
            code: request.code,
            ..Sku::default()
        }));
    }
    Err(Error::new(Code::NotFound, ErrorReason::SkuUnknown, "no such SKU").into())
}
