//! A host whose shells echo what is typed, and as much of the allocation service as says that it is there: what
//! hundreds of terminals lead to, when it is not the guest that is measured.
use std::net::SocketAddr;

use futures::Stream;
use gpuaas_common::config::{ServerSettings, Settings, TlsSettings};
use gpuaas_common::id::IdGen;
use gpuaas_common::server::Server;
use gpuaas_common::{CancellationToken, Context};
use gpuaas_dev::ca::Identity;
use gpuaas_dev::ports;
use gpuaas_proto::gpuaas::agent::v1 as agent;
use gpuaas_proto::gpuaas::agent::v1::open_request::Message as Incoming;
use gpuaas_proto::gpuaas::agent::v1::open_response::Message as Outgoing;
use gpuaas_proto::gpuaas::agent::v1::terminal_server::{Terminal, TerminalServer};
use gpuaas_proto::gpuaas::common::v1::CapacityShape;
use gpuaas_proto::gpuaas::internal::allocation::v1 as access;
use gpuaas_proto::gpuaas::internal::allocation::v1::access_service_server::{
    AccessService, AccessServiceServer,
};
use gpuaas_proto::gpuaas::internal::events::v1 as events;
use gpuaas_proto::gpuaas::internal::events::v1::event_service_server::{
    EventService, EventServiceServer,
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};
use uuid::Uuid;

use crate::system::System;

/// The host and its one allocation.
#[derive(Debug, Clone)]
pub struct Host {
    /// The allocation that terminals are opened into.
    pub allocation_id: Uuid,
    project_id: String,
    node_id: Uuid,
    instance_id: Uuid,
    address: SocketAddr,
}

/// Starts host and allocation service; the latter on `port`.
///
/// # Errors
/// A certificate cannot be made.
pub fn start(system: &System<'_>, port: u16, stop: &CancellationToken) -> anyhow::Result<Host> {
    let ids = IdGen::new(system.stack.options().cell);
    let host = Host {
        allocation_id: ids.next(),
        project_id: system.project.clone(),
        node_id: ids.next(),
        instance_id: ids.next(),
        address: ([127, 0, 0, 1], ports::free()?).into(),
    };
    let authority = system.stack.authority();
    let identity = authority.host(host.node_id, host.instance_id)?;
    let context = Context::new("agent", settings(system, &identity, host.address)?)?;
    let server = Server::new(&context).add(TerminalServer::new(Echo));
    spawn(server, stop);

    let identity = authority.service("allocation", &[])?;
    let address = ([127, 0, 0, 1], port).into();
    let context = Context::new("allocation", settings(system, &identity, address)?)?;
    let server = Server::new(&context)
        .add(AccessServiceServer::new(host.clone()))
        .add(EventServiceServer::new(host.clone()));
    spawn(server, stop);
    Ok(host)
}

fn spawn(server: Server, stop: &CancellationToken) {
    let running = server.run(stop.clone());
    tokio::spawn(async move {
        if let Err(failure) = running.await {
            eprintln!("the host that is played has ended: {failure:#}");
        }
    });
}

fn settings(system: &System<'_>, own: &Identity, listen: SocketAddr) -> anyhow::Result<Settings> {
    let authority = system.stack.authority().authority();
    Ok(Settings {
        cell: system.stack.options().cell,
        server: ServerSettings {
            listen: vec![listen],
            metrics_listen: ([127, 0, 0, 1], ports::free()?).into(),
            request_timeout_seconds: 60,
            concurrency_per_connection: 4096,
            shutdown_grace_seconds: 1,
        },
        tls: TlsSettings {
            ca_file: authority.certificate,
            host_ca_file: Some(system.stack.authority().host_root()),
            cert_file: own.certificate.clone(),
            key_file: own.key.clone(),
        },
        token: Default::default(),
        database: None,
        redis: Default::default(),
        telemetry: Default::default(),
        audit: Default::default(),
        peers: Default::default(),
    })
}

#[tonic::async_trait]
impl AccessService for Host {
    async fn resolve_terminal_target(
        &self,
        request: Request<access::ResolveTerminalTargetRequest>,
    ) -> Result<Response<access::ResolveTerminalTargetResponse>, Status> {
        if request.get_ref().allocation_id != self.allocation_id.to_string() {
            return Err(Status::not_found("no such allocation"));
        }
        Ok(Response::new(access::ResolveTerminalTargetResponse {
            allocation_id: self.allocation_id.to_string(),
            project_id: self.project_id.clone(),
            capacity_shape: CapacityShape::GpuSlice.into(),
            target_host: "10.100.0.10".to_owned(),
            target_port: 22,
            user: "u_0000000000000000".to_owned(),
            ssh_host_keys: Vec::new(),
            node_id: self.node_id.to_string(),
            instance_id: self.instance_id.to_string(),
            agent_address: self.address.to_string(),
        }))
    }
}

#[tonic::async_trait]
impl EventService for Host {
    async fn read(
        &self,
        _: Request<events::ReadRequest>,
    ) -> Result<Response<events::ReadResponse>, Status> {
        Ok(Response::new(events::ReadResponse::default()))
    }
}

/// Shells that say what is typed.
struct Echo;

#[tonic::async_trait]
impl Terminal for Echo {
    type OpenStream =
        std::pin::Pin<Box<dyn Stream<Item = Result<agent::OpenResponse, Status>> + Send>>;

    async fn open(
        &self,
        request: Request<Streaming<agent::OpenRequest>>,
    ) -> Result<Response<Self::OpenStream>, Status> {
        let (answers, stream) = mpsc::channel(2);
        tokio::spawn(echo(request.into_inner(), answers));
        Ok(Response::new(Box::pin(ReceiverStream::new(stream))))
    }
}

async fn echo(
    mut requests: Streaming<agent::OpenRequest>,
    answers: mpsc::Sender<Result<agent::OpenResponse, Status>>,
) {
    let answer = |message| agent::OpenResponse {
        message: Some(message),
    };
    let mut taken = 0;
    while let Ok(Some(request)) = requests.message().await {
        let said = match request.message {
            Some(Incoming::Start(_)) => vec![Outgoing::Started(agent::TerminalStarted {
                input_window: 64 << 10,
                ssh_tunnel: false,
            })],
            Some(Incoming::Input(data)) => {
                taken += data.len() as u64;
                vec![Outgoing::Output(data), Outgoing::InputAck(taken)]
            }
            _ => Vec::new(),
        };
        for message in said {
            if answers.send(Ok(answer(message))).await.is_err() {
                return;
            }
        }
    }
}
