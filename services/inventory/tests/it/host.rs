//! A host that enrols, reports and answers as the agent does.
use std::sync::{Arc, Mutex};

use gpuaas_common::client::{GrpcChannel, Peers};
use gpuaas_common::server::Server;
use gpuaas_common::{CancellationToken, Context};
use gpuaas_dev::ca::Identity;
use gpuaas_proto::gpuaas::agent::v1::topology_server::{Topology, TopologyServer};
use gpuaas_proto::gpuaas::agent::v1::{
    CandidateSlot, CheckReadinessRequest, DiscoverRequest, InspectedDevice, ReadinessReport,
    TopologyReport,
};
use gpuaas_proto::gpuaas::common::v1::{Evidence, EvidenceStatus, SlotBindings};
use gpuaas_proto::gpuaas::internal::inventory::v1::host_service_client::HostServiceClient;
use gpuaas_proto::gpuaas::internal::inventory::v1::{
    EnrolRequest, EnrolResponse, HeartbeatRequest, HeartbeatResponse, RenewByKeyRequest,
    RenewRequest, RenewResponse,
};
use gpuaas_proto::gpuaas::inventory::v1 as api;
use tokio::sync::oneshot;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint};
use tonic::{Request, Response, Status};

use crate::world::{self, World};

pub(crate) struct Host {
    pub(crate) enrolled: EnrolResponse,
    pub(crate) identity: Identity,
    pub(crate) address: String,
    pub(crate) topology: Arc<Mutex<TopologyReport>>,
    /// The next inspection is answered when its other end is dropped.
    pub(crate) hold: Arc<Mutex<Option<oneshot::Receiver<()>>>>,
    peers: Peers,
    stop: CancellationToken,
}

impl Drop for Host {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// A fresh key and a request for its certificate, naming what it should not get.
pub(crate) fn csr() -> (rcgen::KeyPair, String) {
    let key = rcgen::KeyPair::generate().expect("key");
    let request = csr_of(&key);
    (key, request)
}

/// A request for a certificate of this key, naming what it should not get.
pub(crate) fn csr_of(key: &rcgen::KeyPair) -> String {
    let params =
        rcgen::CertificateParams::new(vec!["scheduler.gpuaas.internal".to_owned()]).expect("names");
    let request = params.serialize_request(key).expect("request");
    request.pem().expect("pem")
}

pub(crate) fn enrol_request(token: &str, csr_pem: String, address: &str) -> EnrolRequest {
    EnrolRequest {
        token: token.into(),
        csr_pem,
        boot_id: "boot-1".into(),
        machine_id: "machine-1".into(),
        agent_version: "80d8a259".into(),
        agent_built_time: Some(prost_types::Timestamp {
            seconds: 1_776_424_882,
            nanos: 0,
        }),
        agent_address: address.into(),
        host_profile: "lab".into(),
        lab: true,
        hypervisor: "qemu".into(),
    }
}

/// Calls Enrol without a certificate, verifying the server.
pub(crate) async fn enrol(
    world: &World,
    request: EnrolRequest,
) -> Result<Response<EnrolResponse>, Status> {
    stranger(world).enrol(request).await
}

/// A client that shows no certificate and verifies the server.
pub(crate) fn stranger(world: &World) -> HostServiceClient<tonic::transport::Channel> {
    let authority = Certificate::from_pem(world::read(&world.ca.authority().certificate));
    let tls = ClientTlsConfig::new()
        .ca_certificate(authority)
        .domain_name("inventory.gpuaas.internal");
    let channel = Endpoint::from_shared(world::url(world.enrolment_port))
        .expect("url")
        .tls_config(tls)
        .expect("tls")
        .connect_lazy();
    HostServiceClient::new(channel)
}

pub(crate) async fn token(world: &World, node_id: &str, key: &str) -> String {
    let request = api::CreateEnrolmentTokenRequest {
        node_id: node_id.into(),
    };
    let answer = world
        .nodes()
        .create_enrolment_token(world.admin(key, request))
        .await
        .expect("token");
    answer.into_inner().token
}

impl Host {
    /// Enrols with a fresh token and answers with two complete lab candidates.
    pub(crate) async fn enrol(world: &World, node_id: &str) -> Self {
        let instance = uuid::Uuid::new_v4().to_string();
        let token = token(world, node_id, &instance).await;
        let port = gpuaas_dev::ports::free().expect("port");
        let address = format!("127.0.0.1:{port}");
        let (key, request) = csr();
        let enrolled = enrol(world, enrol_request(&token, request, &address))
            .await
            .expect("enrolled")
            .into_inner();
        let identity = Identity {
            certificate: world.folder.path().join(format!("{instance}.pem")),
            key: world.folder.path().join(format!("{instance}.key")),
        };
        std::fs::write(&identity.certificate, &enrolled.certificate_pem).expect("write");
        std::fs::write(&identity.key, key.serialize_pem()).expect("write");
        let mode = <std::fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o600);
        std::fs::set_permissions(&identity.key, mode).expect("chmod");
        let authority = world.ca.authority().certificate;
        let urls = [("inventory".to_owned(), world::url(world.host_port))];
        let host = Self {
            peers: world::peers(&identity, &authority, urls),
            enrolled,
            identity,
            address,
            topology: Arc::new(Mutex::new(lab_topology())),
            hold: Arc::default(),
            stop: CancellationToken::new(),
        };
        let ctx = Context::new("agent", world::settings(&host.identity, &authority, port))
            .expect("context");
        let server = Server::new(&ctx).add(TopologyServer::new(Answers {
            topology: host.topology.clone(),
            hold: host.hold.clone(),
        }));
        tokio::spawn(server.run(host.stop.clone()));
        host
    }

    pub(crate) fn node_id(&self) -> &str {
        &self.enrolled.node_id
    }

    /// Asks for another certificate with the one the host has.
    pub(crate) async fn renew(&self, csr_pem: String) -> Result<Response<RenewResponse>, Status> {
        HostServiceClient::new(self.peers.channel("inventory").expect("channel"))
            .renew(RenewRequest { csr_pem })
            .await
    }

    /// Asks for another certificate by a key alone.
    pub(crate) async fn renew_by_key(
        &self,
        world: &World,
        key: &rcgen::KeyPair,
    ) -> Result<Response<RenewResponse>, Status> {
        let request = RenewByKeyRequest {
            node_id: self.enrolled.node_id.clone(),
            instance_id: self.enrolled.instance_id.clone(),
            csr_pem: csr_of(key),
        };
        stranger(world).renew_by_key(request).await
    }

    /// The host's own key.
    pub(crate) fn key(&self) -> rcgen::KeyPair {
        rcgen::KeyPair::from_pem(&world::read(&self.identity.key)).expect("key")
    }

    /// Calls with this certificate from now on; its key lies where the last one's did.
    pub(crate) fn adopt(&mut self, world: &World, answer: &RenewResponse) {
        std::fs::write(&self.identity.certificate, &answer.certificate_pem).expect("write");
        let urls = [("inventory".to_owned(), world::url(world.host_port))];
        self.peers = world::peers(&self.identity, &world.ca.authority().certificate, urls);
    }

    pub(crate) async fn heartbeat(
        &self,
        report: ReadinessReport,
    ) -> Result<Response<HeartbeatResponse>, Status> {
        self.heartbeat_with(report, |_| {}).await
    }

    pub(crate) async fn heartbeat_with(
        &self,
        report: ReadinessReport,
        change: impl FnOnce(&mut HeartbeatRequest),
    ) -> Result<Response<HeartbeatResponse>, Status> {
        let mut request = HeartbeatRequest {
            boot_id: "boot-1".into(),
            agent_version: "80d8a259".into(),
            readiness: Some(report),
            agent_address: self.address.clone(),
            ..HeartbeatRequest::default()
        };
        change(&mut request);
        HostServiceClient::new(self.peers.channel("inventory").expect("channel"))
            .heartbeat(request)
            .await
    }

    /// The host's way to inventory.
    pub(crate) fn channel(&self) -> GrpcChannel {
        self.peers.channel("inventory").expect("channel")
    }

    /// A heartbeat that says all is well.
    pub(crate) async fn send_heartbeat(&self) {
        self.heartbeat(good()).await.expect("heartbeat is taken");
    }
}

/// A report in which everything passes.
pub(crate) fn good() -> ReadinessReport {
    ReadinessReport {
        evidence: vec![evidence("ovs_bridge", EvidenceStatus::Pass)],
        hypervisor: "qemu".into(),
        host_profile: "lab".into(),
        lab: true,
        observed_time: Some(seconds_ago(0)),
        ..ReadinessReport::default()
    }
}

pub(crate) fn seconds_ago(seconds: i64) -> prost_types::Timestamp {
    prost_types::Timestamp {
        seconds: jiff::Timestamp::now().as_second() - seconds,
        nanos: 0,
    }
}

pub(crate) fn evidence(check: &str, status: EvidenceStatus) -> Evidence {
    Evidence {
        check: check.into(),
        status: status.into(),
        ..Evidence::default()
    }
}

pub(crate) fn lab_topology() -> TopologyReport {
    let candidate = |slot_index: u32| CandidateSlot {
        slot_index,
        slot_class: "lab".into(),
        bindings: Some(SlotBindings {
            nvme_device: format!("lab-disk:0190a5b0-0000-7000-8000-00000000000{slot_index}"),
            storage_identity_kind: "lab_backing_file".into(),
            management_mac: format!("52:54:00:00:00:0{slot_index}"),
            private_ip: format!("10.100.0.1{slot_index}"),
            destructive_wipe_policy: "blkdiscard".into(),
            nvme_bytes: 1 << 30,
            ..SlotBindings::default()
        }),
        kernel_path: format!("/dev/loop{slot_index}"),
        blockers: Vec::new(),
        disk_blockers: Vec::new(),
        fabric_blockers: Vec::new(),
    };
    TopologyReport {
        nvme_devices: 2,
        candidates: vec![candidate(0), candidate(1)],
        inspected_devices: ["0", "1", "f"]
            .map(|end| InspectedDevice {
                device: format!("lab-disk:0190a5b0-0000-7000-8000-00000000000{end}"),
                ..InspectedDevice::default()
            })
            .into(),
        ..TopologyReport::default()
    }
}

struct Answers {
    topology: Arc<Mutex<TopologyReport>>,
    hold: Arc<Mutex<Option<oneshot::Receiver<()>>>>,
}

#[tonic::async_trait]
impl Topology for Answers {
    async fn discover(
        &self,
        _: Request<DiscoverRequest>,
    ) -> Result<Response<TopologyReport>, Status> {
        let seen = self.topology.lock().expect("not poisoned").clone();
        let hold = self.hold.lock().expect("not poisoned").take();
        if let Some(hold) = hold {
            let _let_go = hold.await;
        }
        Ok(Response::new(seen))
    }

    async fn check_readiness(
        &self,
        _: Request<CheckReadinessRequest>,
    ) -> Result<Response<ReadinessReport>, Status> {
        Ok(Response::new(good()))
    }
}
