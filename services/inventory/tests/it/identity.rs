//! Identity tokens of VMs: of a claim on the calling host instance now, and of nothing else.
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_proto::gpuaas::internal::inventory::v1 as pb;
use gpuaas_proto::gpuaas::internal::inventory::v1::host_service_client::HostServiceClient;
use gpuaas_proto::gpuaas::internal::scheduler::v1 as ledger;
use gpuaas_proto::gpuaas::internal::scheduler::v1::placement_service_client::PlacementServiceClient;
use jsonwebtoken::jwk::JwkSet;
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use sqlx::AssertSqlSafe;
use tonic::Code;
use uuid::Uuid;

use crate::host::Host;
use crate::ready::Ready;
use crate::world::{self, ISSUER, REGION, World, refused};

const AUDIENCE: &str = "https://vault.example:8200";

async fn issue(host: &Host, allocation_id: &str, audience: &str) -> Result<String, tonic::Status> {
    let request = pb::IssueInstanceIdentityRequest {
        allocation_id: allocation_id.into(),
        audience: audience.into(),
    };
    let answer = HostServiceClient::new(host.channel())
        .issue_instance_identity(request)
        .await?;
    Ok(answer.into_inner().token)
}

/// What a verifier reads that knows the gateway's address alone.
async fn verified(world: &World, token: &str) -> serde_json::Value {
    let answer = HostServiceClient::new(world.gateway_channel())
        .get_instance_identity_keys(pb::GetInstanceIdentityKeysRequest {})
        .await
        .expect("keys")
        .into_inner();
    assert_eq!(answer.issuer, ISSUER);
    let keys: JwkSet = serde_json::from_str(&answer.key_set_json).expect("a key set");
    let kid = jsonwebtoken::decode_header(token).expect("header").kid;
    let key = keys.find(&kid.expect("a key's id")).expect("its key");
    let mut validation = Validation::new(Algorithm::ES256);
    validation.set_audience(&[AUDIENCE]);
    validation.set_issuer(&[ISSUER]);
    let key = DecodingKey::from_jwk(key).expect("a key");
    jsonwebtoken::decode(token, &key, &validation)
        .expect("valid")
        .claims
}

/// Reserves a slot for an allocation, as the allocation service does.
async fn reserve(world: &World, project: Uuid) -> String {
    let sku = "INSERT INTO placement.skus (code, display_name, capacity_shape, slot_class, allowed_gpu_counts, profile_name,
            vcpus_per_gpu, memory_mib_per_gpu, hugepages, price_version_id, price_currency, price_nanos, price_effective_at)
        VALUES ('lab-slice', 'Lab', 'gpu_slice', 'lab', '{1}', 'lab', 1, 384, false, gen_random_uuid(), 'USD', 1, now())
        ON CONFLICT DO NOTHING";
    sqlx::query(sku)
        .execute(&world.owner().await)
        .await
        .expect("a SKU");
    let identity = world.ca.service("allocation", &[]).expect("identity");
    let urls = [("scheduler".to_owned(), world::url(world.ledger.port))];
    let peers = world::peers(&identity, &world.ca.authority().certificate, urls);
    let request = ledger::ReserveRequest {
        principal: "user:alice".into(),
        idempotency_key: project.to_string(),
        request_hash: vec![1; 32],
        project_id: project.to_string(),
        name: "vm".into(),
        region_code: REGION.into(),
        sku: "lab-slice".into(),
        gpu_count: 1,
        image: Some(ledger::Image {
            slug: "lab-mini".into(),
            ..ledger::Image::default()
        }),
        ssh_public_keys: vec!["ssh-ed25519 AAAA a".into()],
        request_id: "req-1".into(),
        ..ledger::ReserveRequest::default()
    };
    let answer = PlacementServiceClient::new(peers.channel("scheduler").expect("channel"))
        .reserve(request)
        .await;
    answer.expect("reserved").into_inner().allocation_id
}

/// Brings an allocation with its claim to a state, and its slot to another, as its workflow does.
async fn bring(world: &World, allocation_id: &str, state: &str, slot: &str) {
    let sql = format!(
        "SET LOCAL search_path = placement;
         UPDATE slots SET status = '{slot}', revision = revision + 1, updated_at = now()
          WHERE id IN (SELECT slot_id FROM claims WHERE allocation_id = '{allocation_id}');
         UPDATE claims SET state = '{state}', updated_at = now(),
                released_at = CASE WHEN '{state}' = 'released' THEN now() END WHERE allocation_id = '{allocation_id}';
         UPDATE allocations SET state = '{state}', revision = revision + 1, updated_at = now(),
                power = CASE WHEN '{state}' = 'active' THEN 'running' END,
                active_at = CASE WHEN '{state}' = 'active' THEN now() ELSE active_at END,
                releasing_at = CASE WHEN '{state}' = 'releasing' THEN now() ELSE releasing_at END,
                ended_at = CASE WHEN '{state}' = 'released' THEN now() END
          WHERE id = '{allocation_id}';
         INSERT INTO allocation_periods (id, allocation_id, project_id, sku, gpu_count, price, started_at)
         SELECT gen_random_uuid(), id, project_id, sku, gpu_count, price, now() FROM allocations
          WHERE id = '{allocation_id}' AND state = 'active';
         UPDATE allocation_periods SET ended_at = now() WHERE allocation_id = '{allocation_id}' AND '{state}' = 'releasing'"
    );
    let mut tx = world.owner().await.begin().await.expect("begin");
    let done = sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut *tx).await;
    done.expect("moved");
    tx.commit().await.expect("commit");
}

/// A ready host with an allocation that is active.
async fn with_vm() -> (Ready, String, Uuid) {
    let (ready, discovery) = Ready::start(|_| {}).await;
    let slots = ready.approve_and_wipe("a1", &discovery, &[0, 1]).await;
    assert_eq!(slots.expect("slots").len(), 2);
    ready.world.all_pushed().await;
    let project = Uuid::now_v7();
    let id = reserve(&ready.world, project).await;
    (ready, id, project)
}

fn is_no_vm(answer: Result<String, tonic::Status>) {
    let error = gpuaas_common::Error::from(answer.expect_err("no token"));
    let reported = (error.code(), error.reason());
    assert_eq!(reported, (Code::NotFound, ErrorReason::AllocationNotFound));
}

#[tokio::test]
async fn p11_an_identity_token_is_of_a_claim_that_is_on_the_host_now() {
    let (ready, id, project) = with_vm().await;
    let (world, host) = (&ready.world, &ready.host);
    // reserved: there is no VM yet
    is_no_vm(issue(host, &id, AUDIENCE).await);
    for state in ["provisioning", "active"] {
        bring(world, &id, state, state).await;
        let before = jiff::Timestamp::now().as_second();
        let token = issue(host, &id, AUDIENCE).await.expect(state);
        let claims = verified(world, &token).await;
        assert_eq!(claims["allocation_id"], id.as_str());
        assert_eq!(claims["project_id"], project.to_string());
        assert_eq!(claims["region"], REGION);
        let lifetime = claims["exp"].as_i64().expect("a time") - before;
        assert!((600..=660).contains(&lifetime), "{lifetime}");
        assert!(!token.contains(host.node_id()));
        assert!(claims.get("node_id").is_none(), "no host detail: {claims}");
    }
    let in_capitals = issue(host, &id.to_uppercase(), AUDIENCE).await;
    verified(world, &in_capitals.expect("the same")).await;

    // another host, and another allocation
    let node = world.create_node("n2").await;
    let foreign = Host::enrol(world, &node.id).await;
    foreign.send_heartbeat().await;
    world.all_pushed().await;
    is_no_vm(issue(&foreign, &id, AUDIENCE).await);
    is_no_vm(issue(host, &Uuid::now_v7().to_string(), AUDIENCE).await);
    // its end begins
    bring(world, &id, "releasing", "releasing").await;
    is_no_vm(issue(host, &id, AUDIENCE).await);
}

#[tokio::test]
async fn a_09_a_former_host_instance_gets_no_identity_token() {
    let (ready, id, _) = with_vm().await;
    bring(&ready.world, &id, "provisioning", "provisioning").await;
    issue(&ready.host, &id, AUDIENCE).await.expect("a token");
    let node_id = ready.host.node_id().to_owned();
    let second = Host::enrol(&ready.world, &node_id).await;
    let error = gpuaas_common::Error::from(
        issue(&ready.host, &id, AUDIENCE)
            .await
            .expect_err("a former instance"),
    );
    assert_eq!(error.reason(), ErrorReason::PeerNotAllowed);
    // the new one does not have the VM either: its machine was installed anew
    second.send_heartbeat().await;
    ready.world.all_pushed().await;
    is_no_vm(issue(&second, &id, AUDIENCE).await);
}

#[tokio::test]
async fn bad_requests_for_an_identity_token_name_field_and_rule() {
    let world = World::start().await;
    let node = world.create_node("n1").await;
    let host = Host::enrol(&world, &node.id).await;
    let id = Uuid::now_v7().to_string();
    let long = "a".repeat(201);
    for audience in ["", "a b", "a\"b", "a\nb", "ä", long.as_str()] {
        let error = gpuaas_common::Error::from(issue(&host, &id, audience).await.expect_err("bad"));
        assert_eq!(error.fields()[0].0, "audience", "{audience}");
    }
    let error = gpuaas_common::Error::from(issue(&host, "1", AUDIENCE).await.expect_err("bad"));
    assert_eq!(error.fields()[0].0, "allocation_id");
    // the keys are the gateway's to serve, and tokens a host's to ask for
    let keys = pb::GetInstanceIdentityKeysRequest {};
    let by_host = HostServiceClient::new(host.channel())
        .get_instance_identity_keys(keys)
        .await;
    assert_eq!(refused(by_host).reason(), ErrorReason::PeerNotAllowed);
    let request = pb::IssueInstanceIdentityRequest {
        allocation_id: id,
        audience: AUDIENCE.into(),
    };
    let by_service = HostServiceClient::new(world.gateway_channel())
        .issue_instance_identity(request)
        .await;
    assert_eq!(refused(by_service).reason(), ErrorReason::PeerNotAllowed);
}

#[tokio::test]
async fn a_platform_without_a_key_issues_no_identity_tokens() {
    let world = World::start_with(|config| config.instance_identity.key_files.clear()).await;
    let node = world.create_node("n1").await;
    let host = Host::enrol(&world, &node.id).await;
    let id = Uuid::now_v7().to_string();
    let error = gpuaas_common::Error::from(issue(&host, &id, AUDIENCE).await.expect_err("none"));
    assert_eq!(error.reason(), ErrorReason::NotFound);
}
