//! What anyone reads of the issuer of VMs' identity tokens.
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use gpuaas_common::server::Server;
use gpuaas_common::{CancellationToken, Context};
use gpuaas_dev::ca::Authority;
use gpuaas_dev::ports;
use gpuaas_proto::gpuaas::internal::inventory::v1 as pb;
use gpuaas_proto::gpuaas::internal::inventory::v1::host_service_server::{
    HostService, HostServiceServer,
};
use tonic::{Request, Response, Status};

use crate::world::{CELL, Service, World, settings};

const ISSUER: &str = "https://api.example/instance-identity";
const KEYS: &str = r#"{"keys":[{"kty":"EC","kid":"one"}]}"#;

/// Inventory as the gateway sees it; counts its calls.
#[derive(Default)]
struct Inventory(Arc<AtomicU64>);

fn no<T>() -> Result<Response<T>, Status> {
    Err(Status::unimplemented("not the gateway's"))
}

#[tonic::async_trait]
impl HostService for Inventory {
    async fn get_instance_identity_keys(
        &self,
        _: Request<pb::GetInstanceIdentityKeysRequest>,
    ) -> Result<Response<pb::GetInstanceIdentityKeysResponse>, Status> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(Response::new(pb::GetInstanceIdentityKeysResponse {
            issuer: ISSUER.to_owned(),
            key_set_json: KEYS.to_owned(),
        }))
    }

    async fn enrol(
        &self,
        _: Request<pb::EnrolRequest>,
    ) -> Result<Response<pb::EnrolResponse>, Status> {
        no()
    }

    async fn renew(
        &self,
        _: Request<pb::RenewRequest>,
    ) -> Result<Response<pb::RenewResponse>, Status> {
        no()
    }

    async fn renew_by_key(
        &self,
        _: Request<pb::RenewByKeyRequest>,
    ) -> Result<Response<pb::RenewResponse>, Status> {
        no()
    }

    async fn heartbeat(
        &self,
        _: Request<pb::HeartbeatRequest>,
    ) -> Result<Response<pb::HeartbeatResponse>, Status> {
        no()
    }

    async fn issue_instance_identity(
        &self,
        _: Request<pb::IssueInstanceIdentityRequest>,
    ) -> Result<Response<pb::IssueInstanceIdentityResponse>, Status> {
        no()
    }
}

#[tokio::test]
async fn anyone_reads_the_issuer_of_vms_and_its_keys() {
    let world = World::start().await;
    let ca = Authority::open(&world.folder.path().join("ca"), CELL).expect("authority");
    let port = ports::free().expect("port");
    let context = Context::new(
        "inventory",
        settings(&ca.service("inventory", &[]).expect("identity"), &ca, port),
    );
    let calls = Arc::new(AtomicU64::new(0));
    let inventory = Inventory(Arc::clone(&calls));
    let server = Server::new(&context.expect("context")).add(HostServiceServer::new(inventory));
    let _inventory = Service::run(server.run(CancellationToken::new()));
    let (_gateway, base) = world.another_gateway_with(|settings| {
        let address = format!("https://127.0.0.1:{port}");
        settings.peers.insert("inventory".to_owned(), address);
    });
    world.until_answers(&base).await;

    let get = async |base: &str, path: &str| {
        let url = format!("{base}/instance-identity/{path}");
        world.http.get(url).send().await.expect("an answer")
    };
    let found = get(&base, ".well-known/openid-configuration").await;
    assert_eq!(found.status(), 200);
    let found: serde_json::Value = found.json().await.expect("JSON");
    assert_eq!(found["issuer"], ISSUER);
    assert_eq!(found["jwks_uri"], format!("{ISSUER}/jwks.json"));
    for _ in 0..20 {
        let keys = get(&base, "jwks.json").await;
        let header = |name: &str| keys.headers()[name].to_str().expect("text").to_owned();
        assert_eq!(header("content-type"), "application/json");
        assert_eq!(header("cache-control"), "public, max-age=300");
        assert_eq!(keys.text().await.expect("text"), KEYS);
    }
    assert_eq!(calls.load(Ordering::Relaxed), 1, "not a call for each");
    // the inventory of this one does not answer
    let (_another, base) = world.another_gateway_without("inventory");
    world.until_answers(&base).await;
    let closed = get(&base, "jwks.json").await;
    assert_eq!(closed.status(), 503);
}
