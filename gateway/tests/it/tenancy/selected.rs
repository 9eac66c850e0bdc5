//! Filters and orders of organisations, projects, members, principals, service accounts, their keys, and webhooks.
use serde_json::{Value, json};

use crate::world::{World, field};

/// One field of everything that a list answers, page by page.
async fn listed(world: &World, subject: &str, target: &str, list: &str, name: &str) -> Vec<String> {
    let (mut all, mut token) = (Vec::new(), String::new());
    loop {
        let target = format!("{target}&page_size=2&page_token={token}");
        let (status, body) = world.get(subject, &target).await;
        assert_eq!(status, 200, "{target}: {body}");
        let found = body[list].as_array().expect("a list");
        assert!(found.len() <= 2, "{body}");
        let text = |one: &Value| one[name].as_str().expect("a text").to_owned();
        all.extend(found.iter().map(text));
        body["next_page_token"]
            .as_str()
            .unwrap_or_default()
            .clone_into(&mut token);
        if token.is_empty() {
            return all;
        }
    }
}

/// Who asks which list, the name of the list and of a field, the query, and the field's values that are expected.
type Case<'a> = (&'a str, &'a str, &'a str, &'a str, &'a str, &'a [&'a str]);

#[tokio::test]
async fn organisations_projects_and_members_are_filtered_and_ordered() {
    let world = World::start().await;
    world.users(&["olga", "otto", "max", "mia"]).await;
    let acme = world.organisation("acme", "olga").await;
    let tiny = world.organisation("tiny", "otto").await;
    let lab = world.project(&acme, "lab", "olga").await;
    world.project(&acme, "shop", "olga").await;
    world.project(&tiny, "lab", "otto").await;
    for (who, role) in [("otto", "viewer"), ("max", "member"), ("mia", "member")] {
        world.member(&lab, who, role).await;
    }
    let disable = "UPDATE principals SET disable_time = now() WHERE name = 'user:mia'";
    sqlx::query(disable)
        .execute(&world.pool().await)
        .await
        .expect("disabled");

    let members = format!("/api/v1/projects/{lab}/members");
    let organisations = "/api/v1/admin/organisations";
    let projects = "/api/v1/admin/projects";
    let cases: [Case<'_>; 10] = [
        (
            "olga",
            &members,
            "members",
            "principal",
            "",
            &["user:olga", "user:otto", "user:max", "user:mia"],
        ),
        (
            "olga",
            &members,
            "members",
            "principal",
            "order_by=principal%20desc",
            &["user:otto", "user:olga", "user:mia", "user:max"],
        ),
        (
            "olga",
            &members,
            "members",
            "principal",
            "filter=role%20%3D%20member%20AND%20NOT%20disabled%20%3D%20true",
            &["user:max"],
        ),
        (
            "olga",
            &members,
            "members",
            "principal",
            "filter=principal%3AO&order_by=role,create_time%20desc",
            &["user:olga", "user:otto"],
        ),
        (
            "olga",
            &members,
            "members",
            "principal",
            "filter=kind%20%3D%20service_account",
            &[],
        ),
        (
            "admin",
            organisations,
            "organisations",
            "slug",
            "filter=slug%3Am&order_by=slug%20desc",
            &["acme"],
        ),
        (
            "admin",
            projects,
            "projects",
            "organisation",
            "filter=slug%20%3D%20lab&order_by=organisation%20desc",
            &["tiny", "acme"],
        ),
        (
            "olga",
            "/api/v1/projects",
            "projects",
            "slug",
            "order_by=create_time%20desc",
            &["shop", "lab"],
        ),
        (
            "otto",
            "/api/v1/projects",
            "projects",
            "organisation",
            "filter=state%20%3D%20active%20AND%20slug%3ALA",
            &["acme", "tiny"],
        ),
        (
            "otto",
            "/api/v1/organisations",
            "organisations",
            "slug",
            "filter=NOT%20slug%20%3D%20acme",
            &["tiny"],
        ),
    ];
    for (subject, target, list, name, query, expected) in cases {
        let found = listed(&world, subject, &format!("{target}?{query}"), list, name).await;
        assert_eq!(found, expected, "{target} {query}");
    }
    for (target, query, expected) in [
        (members.as_str(), "filter=etag%20%3D%20a", "filter"),
        (&members, "order_by=email", "order_by"),
        (projects, "filter=role%20%3D%20owner", "filter"),
        (organisations, "order_by=name", "order_by"),
    ] {
        let (status, body) = world.get("admin", &format!("{target}?{query}")).await;
        assert_eq!(
            (status, field(&body)),
            (400, expected),
            "{target} {query}: {body}"
        );
    }
}

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
    for (target, name) in [(&hooks, "b"), (&hooks, "a"), (&hooks_of_all, "c")] {
        let body = json!({ "url": format!("http://127.0.0.1:1/{name}"), "description": name });
        world.made("olga", target, body).await;
    }

    let principals = "/api/v1/admin/principals";
    let cases: [Case<'_>; 12] = [
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
        ("olga", &hooks, "webhooks", "description", "", &["b", "a"]),
        (
            "olga",
            &hooks,
            "webhooks",
            "description",
            "filter=state%20%3D%20enabled&order_by=url",
            &["a", "b"],
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

/// `read_mask`: one object, a page of a list, a path that the answer does not have, and a stream.
#[tokio::test]
async fn an_answer_has_the_fields_that_were_asked_for_and_no_others() {
    let world = World::start().await;
    let project = format!("/api/v1/projects/{}", world.seeded.project_id);
    let (_, whole) = world.get("demo", &project).await;
    let (status, part) = world
        .get("demo", &format!("{project}?read_mask=slug,state"))
        .await;
    assert_eq!(status, 200, "{part}");
    assert_eq!(
        part,
        json!({ "slug": whole["slug"], "state": whole["state"] })
    );
    let members = format!("{project}/members?page_size=1&read_mask=members.principal");
    let (status, part) = world.get("demo", &members).await;
    assert_eq!(status, 200, "{part}");
    let member = part["members"][0].as_object().expect("a member");
    assert_eq!(member.keys().collect::<Vec<_>>(), ["principal"], "{part}");
    assert_eq!(
        part.as_object().map(serde_json::Map::len),
        Some(1),
        "{part}"
    );
    for wrong in ["nothing", "members.nothing", "members.principal.more"] {
        let target = format!("{project}/members?read_mask={wrong}");
        let (status, refused) = world.get("demo", &target).await;
        assert_eq!(
            (status, field(&refused)),
            (400, "read_mask"),
            "{wrong}: {refused}"
        );
    }
    let stream = "/api/v1/allocations/silent:watch?read_mask=allocation.id";
    let (status, refused) = world.get("demo", stream).await;
    assert_eq!((status, field(&refused)), (400, "read_mask"), "{refused}");
}
