//! Renewal of host certificates: before they expire, after they did, and by whom not.
use gpuaas_common::identity::Peer;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use tonic::Code;

use crate::host::{Host, csr, csr_of};
use crate::world::{CELL, World, refused};

/// The peer that the first certificate of a chain names, its public key, and when it expires.
fn named(pem: &str) -> (Option<Peer>, Vec<u8>, i64) {
    let (_, pem) = x509_parser::pem::parse_x509_pem(pem.as_bytes()).expect("pem");
    let parsed = pem.parse_x509().expect("certificate");
    (
        Peer::from_certificate(CELL, &pem.contents),
        parsed.public_key().raw.to_vec(),
        parsed.validity().not_after.timestamp(),
    )
}

/// SHA-256 of the certificate and of the key that inventory has of the only instance.
async fn stored(world: &World) -> (Vec<u8>, Vec<u8>) {
    sqlx::query_as(
        "SELECT certificate_digest, public_key_digest FROM inventory.host_instances ORDER BY enrol_time DESC LIMIT 1",
    )
    .fetch_one(&world.owner().await)
    .await
    .expect("instance")
}

#[tokio::test]
async fn a_09_a_host_renews_its_certificate_and_stays_the_instance_it_is() {
    let world = World::start().await;
    let node = world.create_node("n1").await;
    let mut host = Host::enrol(&world, &node.id).await;
    let (peer, key, _) = named(&host.enrolled.certificate_pem);
    let before = stored(&world).await;

    let same_key = host.renew(csr_of(&host.key())).await.expect("renewed");
    let same_key = same_key.into_inner();
    let (again, kept, expires) = named(&same_key.certificate_pem);
    assert_eq!((again, kept), (peer.clone(), key.clone()));
    assert_eq!(same_key.expire_time.expect("time").seconds, expires);
    let after = stored(&world).await;
    assert_ne!(before.0, after.0, "the latest certificate is on record");
    assert_eq!(before.1, after.1);
    host.adopt(&world, &same_key);
    host.send_heartbeat().await;

    let (fresh, request) = csr();
    let new_key = host.renew(request).await.expect("renewed").into_inner();
    let (again, changed, _) = named(&new_key.certificate_pem);
    assert_eq!(again, peer, "the request decides no name");
    assert_ne!(changed, key);
    std::fs::write(&host.identity.key, fresh.serialize_pem()).expect("write");
    host.adopt(&world, &new_key);
    host.send_heartbeat().await;
    assert!(world.status(&node.id).await.schedulable);
    assert_eq!(
        world.audited().await.last().map(String::as_str),
        Some("host.renew")
    );
}

#[tokio::test]
async fn a_09_an_instance_that_was_replaced_renews_nothing() {
    let world = World::start().await;
    let node = world.create_node("n1").await;
    let first = Host::enrol(&world, &node.id).await;
    let _second = Host::enrol(&world, &node.id).await;
    for answer in [
        first.renew(csr_of(&first.key())).await,
        first.renew_by_key(&world, &first.key()).await,
    ] {
        let error = refused(answer);
        assert_eq!(
            (error.code(), error.reason()),
            (Code::PermissionDenied, ErrorReason::PeerNotAllowed)
        );
    }
    let malformed = refused(first.renew("nonsense".into()).await);
    assert_eq!(malformed.fields()[0].0, "csr_pem");
}

#[tokio::test]
async fn a_host_whose_certificate_has_expired_comes_back_as_itself_by_its_key() {
    let world = World::start_with(|config| config.host_certificate_days = 0).await;
    let node = world.create_node("n1").await;
    let host = Host::enrol(&world, &node.id).await;
    let (peer, key, expires) = named(&host.enrolled.certificate_pem);
    assert!(expires <= jiff::Timestamp::now().as_second());

    let answer = host.renew_by_key(&world, &host.key()).await;
    let (again, kept, _) = named(&answer.expect("renewed").into_inner().certificate_pem);
    assert_eq!((again, kept), (peer, key));
    let status = world.status(&node.id).await;
    assert_eq!(
        status.instance.expect("instance").id,
        host.enrolled.instance_id
    );

    let (foreign, _) = csr();
    let error = refused(host.renew_by_key(&world, &foreign).await);
    assert_eq!(
        (error.code(), error.reason()),
        (Code::Unauthenticated, ErrorReason::CredentialInvalid)
    );
}

#[tokio::test]
async fn a_host_that_was_away_too_long_needs_a_token() {
    let world = World::start_with(|config| {
        config.host_certificate_days = 0;
        config.host_certificate_grace_days = 0;
    })
    .await;
    let node = world.create_node("n1").await;
    let host = Host::enrol(&world, &node.id).await;
    let error = refused(host.renew_by_key(&world, &host.key()).await);
    assert_eq!(
        (error.code(), error.reason()),
        (Code::Unauthenticated, ErrorReason::CredentialExpired)
    );
    assert!(error.to_string().contains("token"), "{error}");
}
