//! Reflection: what a tool learns of a service without any file of ours.
use std::collections::BTreeSet;

use prost::Message as _;
use prost_types::FileDescriptorProto;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

use crate::world::{self, World};

async fn ask(world: &World, question: MessageRequest) -> MessageResponse {
    let operator = world.ca.service("operator", &[]).expect("identity");
    let authority = world::read(&world.ca.authority().certificate);
    let own = Identity::from_pem(
        world::read(&operator.certificate),
        world::read(&operator.key),
    );
    let tls = ClientTlsConfig::new()
        .ca_certificate(Certificate::from_pem(authority))
        .identity(own)
        .domain_name("inventory.gpuaas.internal");
    let endpoint = Endpoint::from_shared(world::url(world.port)).expect("url");
    let channel = endpoint.tls_config(tls).expect("tls").connect_lazy();
    let question = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(question),
    };
    let answers = ServerReflectionClient::new(channel)
        .server_reflection_info(futures::stream::iter([question]))
        .await;
    let answer = answers.expect("served").into_inner().message().await;
    let answer = answer.expect("served").expect("an answer");
    answer.message_response.expect("an answer")
}

/// Before, each service listed those of all.
#[tokio::test]
async fn a_service_lists_what_it_serves() {
    let world = World::start().await;
    let answer = ask(&world, MessageRequest::ListServices(String::new())).await;
    let MessageResponse::ListServicesResponse(listed) = answer else {
        panic!("{answer:?}");
    };
    let names: BTreeSet<_> = listed.service.into_iter().map(|one| one.name).collect();
    let expected = [
        "gpuaas.inventory.v1.RegionService",
        "gpuaas.inventory.v1.RegionAdminService",
        "gpuaas.inventory.v1.AgentRolloutAdminService",
        "gpuaas.inventory.v1.NodeAdminService",
        "gpuaas.internal.inventory.v1.HostService",
        "gpuaas.internal.audit.v1.AuditService",
        "grpc.health.v1.Health",
        "grpc.reflection.v1.ServerReflection",
    ];
    assert_eq!(names, expected.map(str::to_owned).into());
}

/// A tool that knows these shows the details of an error as they are, and not as base64.
#[tokio::test]
async fn the_details_of_errors_can_be_read() {
    let world = World::start().await;
    for symbol in [
        "google.rpc.Status",
        "google.rpc.ErrorInfo",
        "google.rpc.BadRequest",
        "google.rpc.RequestInfo",
    ] {
        let question = MessageRequest::FileContainingSymbol(symbol.to_owned());
        let answer = ask(&world, question).await;
        let MessageResponse::FileDescriptorResponse(files) = answer else {
            panic!("{symbol}: {answer:?}");
        };
        let name = symbol.rsplit('.').next();
        let found = files.file_descriptor_proto.iter().any(|file| {
            let file = FileDescriptorProto::decode(file.as_slice()).expect("a descriptor");
            file.message_type
                .iter()
                .any(|one| one.name.as_deref() == name)
        });
        assert!(found, "{symbol}");
    }
}
