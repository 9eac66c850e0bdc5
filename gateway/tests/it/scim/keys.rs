//! The keys that an identity provider may call with, as an organisation lists them.
use gpuaas_gateway::store::{Role, Scope};
use reqwest::Method;
use serde_json::{Value, json};

use super::Provider;
use crate::access::key;
use crate::world::{field, reason};

#[tokio::test]
async fn an_organisation_lists_the_keys_for_scim_of_all_of_its_projects_and_no_secret() {
    let provider = Provider::start().await;
    let world = &provider.world;
    let pool = world.pool().await;
    world.users(&["olga", "otto"]).await;
    let organisation = provider.organisation().to_string();
    let path = format!("/api/v1/organisations/{organisation}/scim/keys");
    let second = world.project(&organisation, "people", "demo").await;
    let second = key(
        &pool,
        second.parse().expect("an id"),
        Role::Billing,
        &[Scope::Scim],
    )
    .await;
    // neither one of another scope nor one of another organisation
    let other = world.seeded.project_id;
    key(&pool, other, Role::Member, &[Scope::Read]).await;
    let foreign = world.organisation("foreign", "otto").await;
    let foreign = world.project(&foreign, "people", "otto").await;
    key(
        &pool,
        foreign.parse().expect("an id"),
        Role::Billing,
        &[Scope::Scim],
    )
    .await;

    let list = async |query: &str| {
        let target = format!("{path}?{query}");
        provider
            .api("demo", Method::GET, &target, Value::Null)
            .await
    };
    // who uses one sees that
    provider.user("ann").await;
    let (status, listed) = list("").await;
    assert_eq!(status, 200, "{listed}");
    let keys = listed["keys"].as_array().expect("keys");
    assert_eq!(keys.len(), 2, "{listed}");
    assert_eq!(keys[1]["project"], "people", "{listed}");
    let (one, two) = (&keys[0]["api_key"], &keys[1]["api_key"]);
    assert_eq!(two["id"], json!(second.id));
    assert!(
        one["creator"].is_string() && one["create_time"].is_string(),
        "{one}"
    );
    assert!(one["last_used_time"].is_string(), "{one}");
    assert!(
        two.get("last_used_time").is_none_or(Value::is_null),
        "{two}"
    );
    let text = listed.to_string();
    for secret in [provider.key.as_str(), second.reveal()] {
        assert!(!text.contains(secret), "a secret in {text}");
    }

    for (query, expected) in [
        ("filter=last_used_time:*", vec![&one["id"]]),
        ("filter=project%3Dpeople", vec![&two["id"]]),
        ("order_by=create_time+desc", vec![&two["id"], &one["id"]]),
        ("filter=disabled%3Dtrue", vec![]),
    ] {
        let (status, found) = list(query).await;
        assert_eq!(status, 200, "{query}: {found}");
        let found = found["keys"].as_array().cloned().unwrap_or_default();
        let ids: Vec<_> = found.iter().map(|one| &one["api_key"]["id"]).collect();
        assert_eq!(ids, expected, "{query}");
    }
    let (status, refused) = list("filter=hash:*").await;
    assert_eq!((status, field(&refused)), (400, "filter"), "{refused}");

    // an owner of the organisation ends one with what the list says of it
    let target = format!(
        "/api/v1/projects/{}/service-accounts/{}/api-keys/{}:disable",
        keys[1]["project_id"].as_str().expect("id"),
        two["service_account_id"].as_str().expect("id"),
        two["id"].as_str().expect("id"),
    );
    let (status, ended) = provider.api("demo", Method::POST, &target, json!({})).await;
    assert_eq!(status, 200, "{ended}");
    let (_, found) = list("filter=disabled%3Dtrue").await;
    assert_eq!(found["keys"][0]["api_key"]["id"], two["id"], "{found}");

    // to who has nothing to do with the organisation there is none
    let (status, nothing) = world.get("otto", &path).await;
    assert_eq!((status, reason(&nothing)), (404, "NOT_FOUND"), "{nothing}");
}
