//! Who may use SCIM, and for which organisation.
use gpuaas_gateway::store::Role;
use gpuaas_gateway::store::Scope;
use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use super::Provider;
use crate::access::{join, key};
use crate::world::{ISSUER, World, field, reason};

#[tokio::test]
async fn only_a_key_with_the_scope_uses_scim_and_it_does_nothing_else() {
    let provider = Provider::start().await;
    let pool = provider.world.pool().await;
    let project = provider.world.seeded.project_id;
    let all = key(&pool, project, Role::Owner, &Scope::ALL).await;
    for (credential, status) in [
        (all.reveal().to_owned(), 403),
        (provider.world.token("demo"), 403),
        (provider.world.token("admin"), 403),
        (provider.world.token("stranger"), 403),
        ("nonsense".to_owned(), 401),
        (format!("{}x", provider.key), 401),
    ] {
        for path in ["/Users", "/ServiceProviderConfig", "/Groups/x"] {
            let said = provider
                .scim_with(&credential, Method::GET, path, Value::Null, &[])
                .await;
            assert_eq!(said.status, status, "{path}: {}", said.body);
            if status == 401 {
                assert!(
                    said.headers["www-authenticate"]
                        .to_str()
                        .is_ok_and(|text| text.starts_with("Bearer"))
                );
            }
        }
        let said = provider
            .scim_with(
                &credential,
                Method::POST,
                "/Users",
                json!({ "userName": "x" }),
                &[],
            )
            .await;
        assert_eq!(said.status, status);
    }
    let denied: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM audit WHERE action LIKE 'scim.%' AND detail ->> 'outcome' = 'denied'",
    )
    .fetch_one(&pool)
    .await
    .expect("audit");
    assert!(denied >= 8, "denials are on record: {denied}");

    for target in ["/api/v1/allocations", "/api/v1/organisations"] {
        let request = provider
            .world
            .http
            .get(provider.world.url(target))
            .bearer_auth(&provider.key);
        let (status, body) = crate::world::answer(request.send().await.expect("answer")).await;
        assert_eq!(
            (status, reason(&body)),
            (403, "PERMISSION_DENIED"),
            "{target}"
        );
    }
    for (method, path, status) in [
        (Method::PUT, "/Users", 405),
        (Method::POST, "/ServiceProviderConfig", 405),
        (Method::GET, "/Nothing", 404),
        (Method::POST, "/Bulk", 501),
        (Method::GET, "/Me", 501),
        (Method::GET, "/Schemas/x", 404),
        (Method::GET, "/Schemas?filter=id%20pr", 403),
    ] {
        let body = if method == Method::GET {
            Value::Null
        } else {
            json!({})
        };
        assert_eq!(
            provider.scim(method, path, body).await.status,
            status,
            "{path}"
        );
    }
}

/// A second organisation with its project, its SCIM and a user.
async fn another(world: &World) -> (Uuid, String) {
    let pool = world.pool().await;
    let (organisation, project) = (Uuid::now_v7(), Uuid::now_v7());
    sqlx::query("INSERT INTO organisations (id, slug, display_name) VALUES ($1, 'other', '')")
        .bind(organisation)
        .execute(&pool)
        .await
        .expect("organisation");
    sqlx::query(
        "INSERT INTO projects (id, organisation_id, slug, display_name) VALUES ($1, $2, 'p', '')",
    )
    .bind(project)
    .bind(organisation)
    .execute(&pool)
    .await
    .expect("project");
    sqlx::query("INSERT INTO scim_settings (organisation_id, issuer, subject_attribute) VALUES ($1, $2, 'user_name')")
        .bind(organisation)
        .bind(ISSUER)
        .execute(&pool)
        .await
        .expect("settings");
    let key = key(&pool, project, Role::Billing, &[Scope::Scim]).await;
    (organisation, key.reveal().to_owned())
}

#[tokio::test]
async fn what_is_of_another_organisation_is_as_if_it_were_not() {
    let provider = Provider::start().await;
    let ann = provider.user("ann").await;
    let group = provider.group("ml", &[&ann]).await;
    provider.map(&group, "member").await;
    let (organisation, other) = another(&provider.world).await;
    for path in [format!("/Users/{ann}"), format!("/Groups/{group}")] {
        for method in [Method::GET, Method::DELETE] {
            let said = provider
                .scim_with(&other, method, &path, Value::Null, &[])
                .await;
            assert_eq!(said.status, 404);
        }
    }
    let listed = provider
        .scim_with(&other, Method::GET, "/Users", Value::Null, &[])
        .await;
    assert_eq!(listed.body["totalResults"], 0);
    let members = json!({ "displayName": "x", "members": [{ "value": ann }] });
    let refused = provider
        .scim_with(&other, Method::POST, "/Groups", members, &[])
        .await;
    assert_eq!(refused.status, 400);

    // the same person there: putting her out there leaves her here
    let there = provider
        .scim_with(
            &other,
            Method::POST,
            "/Users",
            json!({ "userName": "ann" }),
            &[],
        )
        .await
        .id();
    let path = format!("/Users/{there}");
    assert_eq!(
        provider
            .scim_with(&other, Method::DELETE, &path, Value::Null, &[])
            .await
            .status,
        204
    );
    assert_eq!(
        provider.role("ann").await,
        Some(("member".to_owned(), true))
    );
    provider.becomes("ann", 200).await;

    // a mapping is on a project of the organisation itself
    let foreign: Uuid = sqlx::query_scalar("SELECT id FROM projects WHERE organisation_id = $1")
        .bind(organisation)
        .fetch_one(&provider.world.pool().await)
        .await
        .expect("project");
    let target = format!(
        "/api/v1/organisations/{}/scim/groups/{group}/mappings",
        provider.organisation()
    );
    let body = json!({ "target_project_id": foreign, "role": "member" });
    let (status, refused) = provider.api("demo", Method::POST, &target, body).await;
    assert_eq!(
        (status, field(&refused)),
        (404, "target_project_id"),
        "{refused}"
    );
}

#[tokio::test]
async fn a_key_for_scim_is_made_by_an_owner_of_the_organisation_alone() {
    let provider = Provider::start().await;
    let pool = provider.world.pool().await;
    let project = provider.world.seeded.project_id;
    sqlx::query("INSERT INTO principals (id, name, issuer, subject, display_name) VALUES ($1, 'user:olga', $2, 'olga', '')")
        .bind(Uuid::now_v7())
        .bind(ISSUER)
        .execute(&pool)
        .await
        .expect("registered");
    let olga: Uuid = sqlx::query_scalar("SELECT id FROM principals WHERE subject = 'olga'")
        .fetch_one(&pool)
        .await
        .expect("registered");
    join(&pool, olga, project, Role::Owner).await;
    let base = format!("/api/v1/projects/{project}/service-accounts");
    let (status, account) = provider
        .api(
            "demo",
            Method::POST,
            &base,
            json!({ "slug": "idp", "role": "billing" }),
        )
        .await;
    assert_eq!(status, 200, "{account}");
    let keys = format!("{base}/{}/api-keys", account["id"].as_str().expect("an id"));
    let body = json!({ "display_name": "scim", "scopes": ["scim"] });
    let (status, refused) = provider
        .api("olga", Method::POST, &keys, body.clone())
        .await;
    assert_eq!(
        (status, reason(&refused), field(&refused)),
        (403, "PERMISSION_DENIED", "scopes"),
        "{refused}"
    );
    let (status, made) = provider.api("demo", Method::POST, &keys, body).await;
    assert_eq!((status, &made["scopes"]), (200, &json!(["scim"])), "{made}");
    let secret = made["key"].as_str().expect("the key").to_owned();
    let said = provider
        .scim_with(&secret, Method::GET, "/Users", Value::Null, &[])
        .await;
    assert_eq!(said.status, 200, "{}", said.body);
    // whoever rotates it gets the new one
    let rotate = format!("{keys}/{}:rotate", made["id"].as_str().expect("an id"));
    let (status, _) = provider.api("olga", Method::POST, &rotate, json!({})).await;
    assert_eq!(status, 403);
}

#[tokio::test]
async fn scim_is_set_up_by_administrators_and_for_an_issuer_that_is_trusted() {
    let provider = Provider::start().await;
    let target = format!(
        "/api/v1/admin/organisations/{}/scim",
        provider.organisation()
    );
    let (status, refused) = provider
        .api(
            "admin",
            Method::PUT,
            &target,
            json!({ "issuer": "https://evil.example" }),
        )
        .await;
    assert_eq!((status, field(&refused)), (400, "issuer"), "{refused}");
    let (status, _) = provider
        .api("demo", Method::PUT, &target, json!({ "issuer": ISSUER }))
        .await;
    assert_eq!(status, 403);
    // while there are users they stay who they are
    provider.user("ann").await;
    let by_external = json!({ "issuer": ISSUER, "subject_attribute": "external_id" });
    let (status, refused) = provider
        .api("admin", Method::PUT, &target, by_external)
        .await;
    assert_eq!(
        (status, reason(&refused)),
        (400, "STATE_CONFLICT"),
        "{refused}"
    );
    let shown = format!("/api/v1/organisations/{}/scim", provider.organisation());
    let (_, settings) = provider.api("demo", Method::GET, &shown, Value::Null).await;
    assert_eq!(
        (&settings["issuer"], &settings["user_count"]),
        (&json!(ISSUER), &json!("1")),
        "{settings}"
    );
    sqlx::query("DELETE FROM edge.scim_settings")
        .execute(&provider.world.db.pool("gpuaas_owner").await)
        .await
        .expect("deleted");
    let refused = provider.scim(Method::GET, "/Users", Value::Null).await;
    assert_eq!(refused.status, 403);
    assert!(
        refused.body["detail"]
            .as_str()
            .expect("why")
            .contains("not set up")
    );
}

#[tokio::test]
async fn a_provider_has_the_rates_of_its_organisation() {
    // the administrator, who sets SCIM up, counts for no organisation
    let world = World::start_with(|config, _| config.rates.write_per_organisation = 3).await;
    let provider = Provider::in_world(world).await;
    for name in ["ann", "ben", "cleo"] {
        provider.user(name).await;
    }
    let user = json!({
        "schemas": ["urn:ietf:params:scim:schemas:core:2.0:User"], "userName": "dora",
    });
    let refused = provider.scim(Method::POST, "/Users", user).await;
    assert_eq!(refused.status, 429, "{}", refused.body);
    assert!(refused.headers.contains_key("retry-after"));
    assert_eq!(
        refused.body["schemas"],
        json!(["urn:ietf:params:scim:api:messages:2.0:Error"])
    );
    // reads have rates of their own
    let read = provider.scim(Method::GET, "/Users", Value::Null).await;
    assert_eq!(
        (read.status, &read.body["totalResults"]),
        (200, &json!(3)),
        "{}",
        read.body
    );
    assert!(read.headers.contains_key("ratelimit"));
}
