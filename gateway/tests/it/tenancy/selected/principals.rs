//! Principals, service accounts with their keys, and webhooks.
use serde_json::json;

use super::{Case, listed};
use crate::world::{World, field};

#[tokio::test]
async fn principals_service_accounts_keys_and_webhooks_are_filtered_and_ordered() {
    let world = World::start_with(|config, _| config.webhooks.allow_insecure = true).await;
    world.users(&["olga", "max"]).await;
    let acme = world.organisation("acme", "olga").await;
    let lab = world.project(&acme, "lab", "olga").await;
    let accounts = format!("/api/v1/projects/{lab}/service-accounts");
    let mut ids = Vec::new();
    for (slug, role) in [("ci", "member"), ("backup", "viewer"), ("deploy", "member")] {
        let body = json!({ "slug": slug, "role": role, "description": format!("does {slug}") });
        let made = world.made("olga", &accounts, body).await;
        ids.push(made["id"].as_str().expect("an id").to_owned());
    }
    let disabled = format!("{accounts}/{}:disable", ids[2]);
    world.made("olga", &disabled, json!({})).await;
    let keys = format!("{accounts}/{}/api-keys", ids[0]);
    for name in ["old", "new", "spare"] {
        let body = json!({ "display_name": name, "scopes": ["read"] });
        world.made("olga", &keys, body).await;
    }
    let end =
        "UPDATE api_keys SET expire_time = now() + interval '1 day' WHERE display_name = 'old'";
    let ended = sqlx::query(end).execute(&world.pool().await).await;
    assert_eq!(ended.expect("changed").rows_affected(), 1);
    let hooks = format!("/api/v1/projects/{lab}/webhooks");
    let hooks_of_all = format!("/api/v1/organisations/{acme}/webhooks");
    for (target, name) in [
        (&hooks, "b"),
        (&hooks, "a"),
        (&hooks, "d"),
        (&hooks_of_all, "c"),
    ] {
        let body = json!({ "url": format!("http://127.0.0.1:1/{name}"), "description": name });
        world.made("olga", target, body).await;
    }

    let principals = "/api/v1/admin/principals";
    let cases: [Case<'_>; 16] = [
        (
            "admin",
            principals,
            "principals",
            "name",
            "filter=name%20%3D%20%22user%3Amax%22%20OR%20name%20%3D%20%22user%3Aolga%22&order_by=name",
            &["user:max", "user:olga"],
        ),
        (
            "admin",
            principals,
            "principals",
            "display_name",
            "filter=kind%20%3D%20service_account%20AND%20disabled%20%3D%20false&order_by=display_name",
            &["backup", "ci"],
        ),
        (
            "admin",
            principals,
            "principals",
            "display_name",
            "kind=service_account&filter=disabled%20%3D%20true",
            &["deploy"],
        ),
        (
            "olga",
            &accounts,
            "service_accounts",
            "slug",
            "",
            &["ci", "backup", "deploy"],
        ),
        (
            "olga",
            &accounts,
            "service_accounts",
            "slug",
            "order_by=slug%20desc",
            &["deploy", "ci", "backup"],
        ),
        (
            "olga",
            &accounts,
            "service_accounts",
            "slug",
            "filter=role%20%3D%20member%20AND%20NOT%20disabled%20%3D%20true",
            &["ci"],
        ),
        (
            "olga",
            &keys,
            "api_keys",
            "display_name",
            "order_by=create_time%20desc",
            &["spare", "new", "old"],
        ),
        (
            "olga",
            &keys,
            "api_keys",
            "display_name",
            "filter=expire_time%3A*%20AND%20NOT%20last_used_time%3A*",
            &["old"],
        ),
        (
            "olga",
            &hooks,
            "webhooks",
            "description",
            "",
            &["b", "a", "d"],
        ),
        (
            "olga",
            &hooks,
            "webhooks",
            "description",
            "filter=state%20%3D%20enabled&order_by=url",
            &["a", "b", "d"],
        ),
        // filtered on the second page as well
        (
            "admin",
            principals,
            "principals",
            "display_name",
            "filter=kind%20%3D%20service_account&order_by=display_name%20desc",
            &["deploy", "ci", "backup"],
        ),
        (
            "olga",
            &accounts,
            "service_accounts",
            "slug",
            "filter=description%3ADOES&order_by=slug",
            &["backup", "ci", "deploy"],
        ),
        (
            "olga",
            &keys,
            "api_keys",
            "display_name",
            "filter=creator%3Aolga%20AND%20disabled%20%3D%20false&order_by=display_name",
            &["new", "old", "spare"],
        ),
        (
            "olga",
            &hooks,
            "webhooks",
            "description",
            "filter=NOT%20disable_time%3A*&order_by=create_time%20desc",
            &["d", "a", "b"],
        ),
        (
            "olga",
            &hooks,
            "webhooks",
            "description",
            "filter=description%20%3D%20b%20AND%20NOT%20failing_time%3A*",
            &["b"],
        ),
        (
            "olga",
            &hooks_of_all,
            "webhooks",
            "description",
            "filter=url%3A127.0.0.1&order_by=create_time",
            &["c"],
        ),
    ];
    for (subject, target, list, name, query, expected) in cases {
        let found = listed(&world, subject, &format!("{target}?{query}"), list, name).await;
        assert_eq!(found, expected, "{target} {query}");
    }
    for (subject, target, query, expected) in [
        ("admin", principals, "order_by=email", "order_by"),
        ("olga", accounts.as_str(), "filter=project_id%3A*", "filter"),
        ("olga", &keys, "filter=hash%3A*", "filter"),
        ("olga", &hooks, "filter=secret%3A*", "filter"),
        ("olga", &hooks_of_all, "order_by=description", "order_by"),
    ] {
        let (status, body) = world.get(subject, &format!("{target}?{query}")).await;
        assert_eq!(
            (status, field(&body)),
            (400, expected),
            "{target} {query}: {body}"
        );
    }
}
