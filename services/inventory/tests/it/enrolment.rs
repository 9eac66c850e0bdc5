//! Enrolment: single-use tokens, names in certificates, reimages.
use gpuaas_common::identity::Peer;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_proto::gpuaas::internal::inventory::v1::EnrolRequest;
use gpuaas_proto::gpuaas::inventory::v1 as api;
use tonic::Code;

use crate::host::{self, Host, csr, enrol, enrol_request, token};
use crate::world::{CELL, World, refused, until};

fn der(pem: &str) -> Vec<u8> {
    let (_, pem) = x509_parser::pem::parse_x509_pem(pem.as_bytes()).expect("pem");
    pem.contents
}

#[tokio::test]
async fn a_07_a_token_works_once_and_is_kept_hashed() {
    let world = World::start().await;
    let node = world.create_node("n1").await;
    let secret = token(&world, &node.id, "t1").await;
    let mut nodes = world.nodes();
    let again = nodes.create_enrolment_token(world.admin(
        "t1",
        api::CreateEnrolmentTokenRequest {
            node_id: node.id.clone(),
        },
    ));
    assert_eq!(
        again.await.expect("replay").into_inner().token,
        "",
        "a secret is shown once"
    );
    let stored: String = sqlx::query_scalar(
        "SELECT string_agg(t::text, ' ') || (SELECT string_agg(a::text, ' ') FROM inventory.audit a)
         FROM inventory.enrolment_tokens t",
    )
    .fetch_one(&world.owner().await)
    .await
    .expect("rows");
    assert!(!stored.contains(&secret));

    let request = || enrol_request(&secret, csr().1, "127.0.0.1:7110");
    // both at once: one gets it
    let (one, two) = tokio::join!(enrol(&world, request()), enrol(&world, request()));
    assert_eq!(
        [&one, &two].iter().filter(|answer| answer.is_ok()).count(),
        1
    );
    let used = refused(enrol(&world, request()).await);
    assert_eq!(
        (used.code(), used.reason()),
        (Code::Unauthenticated, ErrorReason::EnrolmentTokenInvalid)
    );
}

#[tokio::test]
async fn a_07_a_lost_answer_costs_no_token_and_another_key_gets_nothing() {
    let world = World::start().await;
    let node = world.create_node("n1").await;
    let secret = token(&world, &node.id, "t1").await;
    let (_, request) = csr();
    let request = || enrol_request(&secret, request.clone(), "127.0.0.1:7110");
    // both at once, as when the first answer is slow: both get the same instance
    let (one, two) = tokio::join!(enrol(&world, request()), enrol(&world, request()));
    let first = one.expect("enrolled").into_inner();
    assert_eq!(
        two.expect("again").into_inner().instance_id,
        first.instance_id
    );
    let again = enrol(&world, request()).await.expect("again").into_inner();
    assert_eq!(again.instance_id, first.instance_id);
    assert_eq!(
        Peer::from_certificate(CELL, &der(&again.certificate_pem)),
        Peer::from_certificate(CELL, &der(&first.certificate_pem))
    );
    let instances: i64 = sqlx::query_scalar("SELECT count(*) FROM inventory.host_instances")
        .fetch_one(&world.owner().await)
        .await
        .expect("count");
    assert_eq!(instances, 1);

    let other = enrol_request(&secret, csr().1, "127.0.0.1:7110");
    assert_eq!(
        refused(enrol(&world, other).await).reason(),
        ErrorReason::EnrolmentTokenInvalid
    );
    // once another instance has taken the node over, the first one's token and key are worth nothing
    Host::enrol(&world, &node.id).await;
    assert_eq!(
        refused(enrol(&world, request()).await).reason(),
        ErrorReason::EnrolmentTokenInvalid
    );
}

#[tokio::test]
async fn a_07_unknown_expired_and_superseded_tokens_are_refused() {
    let world = World::start_with(|config| config.enrolment_token_seconds = 0).await;
    let node = world.create_node("n1").await;
    let expired = token(&world, &node.id, "t1").await;
    let attempt = |token: &str| enrol_request(token, csr().1, "127.0.0.1:7110");
    for bad in [expired.as_str(), "unknown"] {
        let error = refused(enrol(&world, attempt(bad)).await);
        assert_eq!(error.reason(), ErrorReason::EnrolmentTokenInvalid);
    }
    let world = World::start().await;
    let node = world.create_node("n1").await;
    let first = token(&world, &node.id, "t1").await;
    let second = token(&world, &node.id, "t2").await;
    assert_eq!(
        refused(enrol(&world, attempt(&first)).await).reason(),
        ErrorReason::EnrolmentTokenInvalid
    );
    enrol(&world, attempt(&second))
        .await
        .expect("the newest token works");
}

#[tokio::test]
async fn a_bad_enrolment_leaves_the_token_usable() {
    let world = World::start().await;
    let node = world.create_node("n1").await;
    let secret = token(&world, &node.id, "t1").await;
    let good = || enrol_request(&secret, csr().1, "127.0.0.1:7110");
    type Change = fn(&mut EnrolRequest);
    let changes: [(Change, &str); 5] = [
        (|r| r.csr_pem = "nonsense".into(), "csr_pem"),
        (|r| r.csr_pem.clear(), "csr_pem"),
        (|r| r.boot_id.clear(), "boot_id"),
        (|r| r.agent_address = "nowhere".into(), "agent_address"),
        (|r| r.agent_version = "x".repeat(200), "agent_version"),
    ];
    for (change, field) in changes {
        let mut request = good();
        change(&mut request);
        let error = refused(enrol(&world, request).await);
        assert_eq!(
            (error.code(), error.fields()[0].0.as_str()),
            (Code::InvalidArgument, field)
        );
    }
    enrol(&world, good())
        .await
        .expect("the token is still good");
}

#[tokio::test]
async fn a_06_the_certificate_names_node_and_instance_and_nothing_the_host_asked_for() {
    let world = World::start().await;
    let node = world.create_node("n1").await;
    let host = Host::enrol(&world, &node.id).await;
    let answer = &host.enrolled;
    let expected = Peer::Host {
        node_id: node.id.parse().expect("id"),
        instance_id: answer.instance_id.parse().expect("id"),
    };
    assert_eq!(
        Peer::from_certificate(CELL, &der(&answer.certificate_pem)),
        Some(expected)
    );
    assert_eq!((answer.cell.as_str(), answer.fences.len()), ("1", 0));
    assert_eq!(
        answer.ca_pem,
        crate::world::read(&world.ca.authority().certificate)
    );
    let status = world.status(&node.id).await;
    assert_eq!(
        (status.state(), status.schedulable),
        (api::NodeState::Enrolled, false)
    );
    assert_eq!(status.blockers, ["no_evidence"]);
    let instance = status.instance.expect("instance");
    assert_eq!(
        (instance.id.as_str(), instance.agent_version.as_str()),
        (answer.instance_id.as_str(), "80d8a259")
    );
    assert_eq!(
        world.audited().await.last().map(String::as_str),
        Some("host.enrol")
    );
    until("the ledger knows the node", || async {
        world.ledger.node(&node.id).await.is_some()
    })
    .await;
    let reported = world.ledger.node(&node.id).await.expect("node");
    assert_eq!(
        (reported.agent_address, reported.instance_id.to_string()),
        (host.address.clone(), answer.instance_id.clone())
    );
    assert!(!reported.schedulable && reported.lab);
}

#[tokio::test]
async fn a_09_an_earlier_instance_is_not_heard() {
    let world = World::start().await;
    let node = world.create_node("n1").await;
    let first = Host::enrol(&world, &node.id).await;
    first.send_heartbeat().await;
    until("ready", || async {
        world.ledger.schedulable(&node.id).await
    })
    .await;

    let second = Host::enrol(&world, &node.id).await;
    assert_eq!(
        world.status(&node.id).await.blockers,
        ["no_evidence"],
        "what the earlier image said counts for nothing"
    );
    until("the ledger is told of the reimage", || async {
        let reported = world.ledger.node(&node.id).await.expect("node");
        reported.instance_id.to_string() == second.enrolled.instance_id
    })
    .await;
    assert!(!world.ledger.schedulable(&node.id).await);
    let late = refused(first.heartbeat(host::good()).await);
    assert_eq!(
        (late.code(), late.reason()),
        (Code::PermissionDenied, ErrorReason::PeerNotAllowed)
    );
    assert!(!world.status(&node.id).await.schedulable);

    second.send_heartbeat().await;
    until("ready again", || async {
        world.ledger.schedulable(&node.id).await
    })
    .await;
}

#[tokio::test]
async fn a_host_of_another_node_cannot_speak_for_this_one() {
    let world = World::start().await;
    let (a, b) = (world.create_node("a").await, world.create_node("b").await);
    let (host_a, _host_b) = (
        Host::enrol(&world, &a.id).await,
        Host::enrol(&world, &b.id).await,
    );
    host_a.send_heartbeat().await;
    assert!(world.status(&a.id).await.schedulable);
    assert!(!world.status(&b.id).await.schedulable);
}

#[tokio::test]
async fn enrolment_is_not_lost_while_the_ledger_does_not_answer() {
    let mut world = World::start().await;
    let node = world.create_node("n1").await;
    world.ledger.down().await;
    let host = Host::enrol(&world, &node.id).await;
    host.send_heartbeat().await;
    // a host that may hold slots must get their fences: without the ledger its token stays unused
    let secret = token(&world, &node.id, "again").await;
    let error = refused(enrol(&world, enrol_request(&secret, csr().1, "127.0.0.1:7110")).await);
    assert_eq!(error.code(), Code::Unavailable);

    world.restart().await;
    world.ledger.up();
    until("the ledger is told after the outage", || async {
        host.send_heartbeat().await;
        world.ledger.schedulable(&node.id).await
    })
    .await;
    enrol(&world, enrol_request(&secret, csr().1, "127.0.0.1:7110"))
        .await
        .expect("the token is still good");
}
