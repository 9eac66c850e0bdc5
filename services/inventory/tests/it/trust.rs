//! Two authorities: what signs hosts vouches for no service, and each listener hears those it is for and nobody else.
use std::path::Path;

use gpuaas_common::client::Peers;
use gpuaas_common::identity::{service_dns, service_uri};
use gpuaas_dev::ca::Identity;
use gpuaas_proto::gpuaas::agent::v1::DiscoverRequest;
use gpuaas_proto::gpuaas::agent::v1::topology_client::TopologyClient;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_proto::gpuaas::internal::inventory::v1::HeartbeatRequest;
use gpuaas_proto::gpuaas::internal::inventory::v1::host_service_client::HostServiceClient;
use gpuaas_proto::gpuaas::inventory::v1::ListRegionsRequest;
use gpuaas_proto::gpuaas::inventory::v1::region_service_client::RegionServiceClient;
use rcgen::{CertificateParams, Issuer, KeyPair, SanType};
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint};
use tonic::{Code, Response, Status};

use crate::host::{Host, csr, enrol_request, token};
use crate::world::{self, CELL, World, refused};

/// A certificate of a service that the hosts' authority has signed.
fn forged(world: &World, service: &str) -> Identity {
    let own = world.ca.host_authority();
    let key = KeyPair::from_pem(&world::read(&own.key)).expect("key");
    let chain = world::read(&own.certificate);
    let issuer = Issuer::from_ca_cert_pem(&chain, key).expect("issuer");
    let mut params = CertificateParams::new(vec![service_dns(service)]).expect("names");
    let uri = service_uri(CELL, service).try_into().expect("uri");
    params.subject_alt_names.push(SanType::URI(uri));
    let key = KeyPair::generate().expect("key");
    let signed = params.signed_by(&key, &issuer).expect("signed");
    let file = |kind: &str| world.folder.path().join(format!("forged-{service}.{kind}"));
    let identity = Identity {
        certificate: file("pem"),
        key: file("key"),
    };
    std::fs::write(&identity.certificate, signed.pem() + &chain).expect("write");
    std::fs::write(&identity.key, key.serialize_pem()).expect("write");
    identity
}

/// Calls inventory at one of its ports as somebody.
fn at(world: &World, port: u16, identity: &Identity) -> Peers {
    let urls = [("inventory".to_owned(), world::url(port))];
    world::peers(identity, &world.ca.authority().certificate, urls)
}

async fn list_regions(world: &World, port: u16, identity: &Identity) -> Result<(), Status> {
    let channel = at(world, port, identity).channel("inventory");
    let mut client = RegionServiceClient::new(channel.expect("channel"));
    let request = world.request("user:a", false, "", ListRegionsRequest::default());
    client.list_regions(request).await.map(|_| ())
}

async fn heartbeat(world: &World, port: u16, identity: &Identity) -> Result<(), Status> {
    let channel = at(world, port, identity).channel("inventory");
    let mut client = HostServiceClient::new(channel.expect("channel"));
    client
        .heartbeat(HeartbeatRequest::default())
        .await
        .map(|_| ())
}

/// No handshake: the answer is none of the service.
fn no_handshake(answer: Result<(), Status>, what: &str) {
    let status = answer.expect_err(what);
    let transport = matches!(status.code(), Code::Unavailable | Code::Unknown);
    assert!(
        transport && status.details().is_empty(),
        "{what}: {status:?}"
    );
}

fn reason(answer: Result<(), Status>) -> ErrorReason {
    refused(answer.map(Response::new)).reason()
}

/// Before, every service took a handshake without a certificate.
#[tokio::test]
async fn a_stranger_shakes_hands_where_hosts_enrol_and_nowhere_else() {
    let world = World::start().await;
    let node = world.create_node("n1").await;
    let secret = token(&world, &node.id, "t1").await;
    let authority = Certificate::from_pem(world::read(&world.ca.authority().certificate));
    let (_, request) = csr();
    let enrol = async |port: u16| {
        let tls = ClientTlsConfig::new()
            .ca_certificate(authority.clone())
            .domain_name("inventory.gpuaas.internal");
        let endpoint = Endpoint::from_shared(world::url(port)).expect("url");
        let channel = endpoint.tls_config(tls).expect("tls").connect_lazy();
        let request = enrol_request(&secret, request.clone(), "127.0.0.1:7110");
        HostServiceClient::new(channel)
            .enrol(request)
            .await
            .map(|_| ())
    };
    no_handshake(enrol(world.port).await, "where services call");
    no_handshake(enrol(world.host_port).await, "where hosts call");
    enrol(world.enrolment_port).await.expect("enrolled");
}

#[tokio::test]
async fn each_listener_hears_its_own_callers_only() {
    let world = World::start().await;
    let node = world.create_node("n1").await;
    let host = Host::enrol(&world, &node.id).await;
    let gateway = world.ca.service("gateway", &[]).expect("identity");

    list_regions(&world, world.port, &gateway)
        .await
        .expect("served");
    host.send_heartbeat().await;
    no_handshake(
        heartbeat(&world, world.port, &host.identity).await,
        "a host among services",
    );
    no_handshake(
        list_regions(&world, world.host_port, &gateway).await,
        "a service among hosts",
    );
    // a certificate counts for nothing where none is asked for
    let enrolling = world.enrolment_port;
    let answer = heartbeat(&world, enrolling, &host.identity).await;
    assert_eq!(reason(answer), ErrorReason::PeerNotAllowed);
    let answer = list_regions(&world, enrolling, &gateway).await;
    assert_eq!(reason(answer), ErrorReason::PeerNotAllowed);
}

/// Before, one authority vouched for both, and its key lay with inventory: who had it was any service.
#[tokio::test]
async fn the_authority_of_hosts_vouches_for_no_service() {
    let world = World::start().await;
    let node = world.create_node("n1").await;
    let host = Host::enrol(&world, &node.id).await;
    let gateway = forged(&world, "gateway");
    no_handshake(
        list_regions(&world, world.port, &gateway).await,
        "a service",
    );
    // hosts trust it to name hosts, and a service is none
    let answer = list_regions(&world, world.host_port, &gateway).await;
    assert_eq!(reason(answer), ErrorReason::PeerNotAllowed);

    let discover = async |identity: &Identity| {
        let peers = at(&world, world.port, identity);
        let hosts = world::read(&world.ca.host_root());
        let peers = peers.and_hosts(Certificate::from_pem(hosts));
        let id = |text: &str| text.parse().expect("id");
        let (node, instance) = (id(host.node_id()), id(&host.enrolled.instance_id));
        let channel = peers.host_channel(&host.address, &node, &instance);
        let mut client = TopologyClient::new(channel.expect("channel"));
        client
            .discover(DiscoverRequest::default())
            .await
            .map(|_| ())
    };
    let inventory = world.ca.service("inventory", &[]).expect("identity");
    discover(&inventory).await.expect("the host answers");
    no_handshake(discover(&forged(&world, "inventory")).await, "an agent");
}

#[tokio::test]
async fn inventory_takes_no_root_to_sign_hosts_with() {
    let mut config = None;
    let world = World::start_with(|found| config = Some(found.clone())).await;
    let root = world.ca.host_root();
    let key: &Path = &root.with_extension("key");
    let config = gpuaas_inventory::Config {
        host_ca_cert_file: root.clone(),
        host_ca_key_file: key.to_owned(),
        ..config.expect("settings")
    };
    let ended = world.run_with(config).await;
    let said = format!("{:#}", ended.expect_err("refused"));
    assert!(said.contains("inventory.host_ca_cert_file"), "{said}");
}

/// Before, any certificate that was no root would do, one of the services' own authority too.
#[tokio::test]
async fn inventory_takes_no_intermediate_of_another_authority() {
    let mut config = None;
    let world = World::start_with(|found| config = Some(found.clone())).await;
    let config = config.expect("settings");
    let folder = tempfile::tempdir().expect("folder");
    let foreign = gpuaas_dev::ca::Authority::open(folder.path(), crate::world::CELL);
    let foreign = foreign.expect("authority").host_authority();
    let of_services = world.ca.service("inventory", &[]).expect("identity");
    for other in [foreign, of_services] {
        let config = gpuaas_inventory::Config {
            host_ca_cert_file: other.certificate,
            host_ca_key_file: other.key,
            ..config.clone()
        };
        let ended = world.run_with(config).await;
        let said = format!("{:#}", ended.expect_err("refused"));
        assert!(
            said.contains("not signed by the authority of tls.host_ca_file"),
            "{said}"
        );
    }
}

/// A connection that has shaken hands and says nothing.
async fn silent(world: &World) -> tokio_rustls::client::TlsStream<tokio::net::TcpStream> {
    use rustls::pki_types::pem::PemObject as _;
    let mut roots = rustls::RootCertStore::empty();
    let pem = world::read(&world.ca.authority().certificate);
    let root = rustls::pki_types::CertificateDer::from_pem_slice(pem.as_bytes());
    roots.add(root.expect("PEM")).expect("a root");
    let provider = std::sync::Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols.push(b"h2".to_vec());
    let stream = tokio::net::TcpStream::connect(("127.0.0.1", world.enrolment_port));
    tokio_rustls::TlsConnector::from(std::sync::Arc::new(config))
        .connect(
            "inventory.gpuaas.internal".try_into().expect("a name"),
            stream.await.expect("TCP"),
        )
        .await
        .expect("a handshake")
}

#[tokio::test]
async fn strangers_who_stay_silent_where_hosts_enrol_make_place_for_hosts() {
    use tokio::io::AsyncReadExt as _;
    let world = World::start_with(|config| config.enrolment_max_connections_per_peer = 2).await;
    let node = world.create_node("n1").await;
    world::until("inventory listens", || async {
        tokio::net::TcpStream::connect(("127.0.0.1", world.enrolment_port))
            .await
            .is_ok()
    })
    .await;
    let mut oldest = silent(&world).await;
    let _others = [silent(&world).await, silent(&world).await];
    Host::enrol(&world, &node.id).await;
    // ended by the server: without the limit it stays open for as long as its owner likes
    let mut rest = Vec::new();
    let ended = tokio::time::timeout(
        std::time::Duration::from_secs(10),
        oldest.read_to_end(&mut rest),
    );
    let _either_way = ended.await.expect("the oldest connection has ended");
}
