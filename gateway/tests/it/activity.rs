//! The activity of a project, as its members read it from the audit trail (P10).
use gpuaas_common::audit::{self, Entry};
use reqwest::Method;
use serde_json::{Value, json};
use sqlx::Executor as _;
use uuid::Uuid;

use crate::world::{World, field, reason};

/// A project whose owner is olga, with vera as a viewer and bill for billing.
async fn start() -> (World, String) {
    let world = World::start().await;
    world.users(&["olga", "vera", "bill", "stranger"]).await;
    let project = world.seeded.project_id.to_string();
    for (who, role) in [("olga", "owner"), ("vera", "viewer"), ("bill", "billing")] {
        world.member(&project, who, role).await;
    }
    let path = format!("/api/v1/projects/{project}/activities");
    (world, path)
}

async fn listed(world: &World, path: &str, query: &str) -> Value {
    let (status, body) = world.get("vera", &format!("{path}?{query}")).await;
    assert_eq!(status, 200, "{query}: {body}");
    body
}

fn column<'a>(page: &'a Value, name: &str) -> Vec<&'a str> {
    let all = page["activities"].as_array().expect("activities");
    let text = |one: &'a Value| one[name].as_str().expect("text");
    all.iter().map(text).collect()
}

async fn write(world: &World, principal: &str, action: &str, detail: Value) {
    let pool = world.pool().await;
    let mut conn = pool.acquire().await.expect("a connection");
    let detail = match detail["outcome"].as_str() {
        Some("denied") => detail,
        _ => audit::with_digests(detail, None, Some(&action.to_owned())),
    };
    let entry = Entry {
        principal,
        action,
        resource: "allocation",
        resource_id: "a1",
        request_id: "r",
        detail: audit::in_project(detail, world.seeded.project_id),
    };
    audit::record(&mut conn, entry).await.expect("recorded");
}

#[tokio::test]
async fn p10_members_see_who_did_what_and_not_from_where() {
    let (world, path) = start().await;
    let accounts = format!(
        "/api/v1/projects/{}/service-accounts",
        world.seeded.project_id
    );
    world
        .made("olga", &accounts, json!({ "slug": "ci", "role": "viewer" }))
        .await;
    let (status, refused) = world
        .post_by("vera", &accounts, json!({ "slug": "no", "role": "viewer" }))
        .await;
    assert_eq!((status, reason(&refused)), (403, "PERMISSION_DENIED"));
    let (_, page) = world
        .get("olga", &format!("{path}?kind=service_account"))
        .await;
    assert_eq!(
        column(&page, "summary"),
        [
            "Denied: create the service account",
            "Created the service account"
        ]
    );
    assert_eq!(column(&page, "actor"), ["user:vera", "user:olga"]);
    assert_eq!(column(&page, "actor_kind"), ["user", "user"]);
    assert_eq!(column(&page, "outcome"), ["denied", "allowed"]);
    let one = page["activities"][1].as_object().expect("an activity");
    assert!(
        one["name"]
            .as_str()
            .expect("a name")
            .starts_with("service:ci"),
        "{page}"
    );
    for hidden in [
        "address",
        "user_agent",
        "request_id",
        "region",
        "detail",
        "digest",
    ] {
        assert!(!one.contains_key(hidden), "{hidden}: {page}");
    }
    assert!(!page.to_string().contains("127.0.0.1"), "{page}");
    // no other service runs in this world
    assert_eq!(page["incomplete"], true);

    // whoever is no member, and whoever may not read, sees as much as of what does not exist, or is told so
    let absent = format!("/api/v1/projects/{}/activities", Uuid::now_v7());
    let (status, foreign) = world.get("stranger", &path).await;
    let (absent_status, nothing) = world.get("stranger", &absent).await;
    assert_eq!((status, absent_status), (404, 404));
    assert_eq!(foreign["error"]["message"], nothing["error"]["message"]);
    let (status, body) = world.get("bill", &path).await;
    assert_eq!(
        (status, reason(&body)),
        (403, "PERMISSION_DENIED"),
        "{body}"
    );
    // what a stranger tried is not for the members
    let page = listed(&world, &path, "").await;
    assert!(!column(&page, "actor").contains(&"user:stranger"), "{page}");
    assert_eq!(
        column(&page, "actor")[0],
        "user:bill",
        "a member's denial is: {page}"
    );
}

#[tokio::test]
async fn p10_an_operator_is_not_named_and_cannot_be_guessed() {
    let (world, path) = start().await;
    // runs the platform, and belongs to no project
    world.users(&["root"]).await;
    sqlx::query("UPDATE principals SET platform_role = 'operator' WHERE name = 'user:root'")
        .execute(&world.pool().await)
        .await
        .expect("an operator");
    write(&world, "user:root", "reservation.create", json!({})).await;
    write(
        &world,
        "user:olga",
        "allocation.operator_stop",
        json!({ "reason": "maintenance" }),
    )
    .await;
    write(
        &world,
        "service:allocation",
        "allocation.auto_release",
        json!({}),
    )
    .await;
    write(&world, "user:olga", "allocation.stop", json!({})).await;
    let page = listed(&world, &path, "kind=allocation").await;
    assert_eq!(column(&page, "actor"), ["user:olga", "", "operator"]);
    assert_eq!(
        column(&page, "actor_kind"),
        ["user", "platform", "operator"]
    );
    assert_eq!(page["activities"][2]["reason"], "maintenance");
    assert_eq!(page["activities"][0]["allocation_id"], "a1");
    let page = listed(&world, &path, "kind=reservation").await;
    assert_eq!(column(&page, "actor"), ["operator"], "{page}");
    let page = listed(&world, &path, "actor=user:root").await;
    assert_eq!(column(&page, "actor"), Vec::<&str>::new(), "{page}");
    // nor by whether there is another page
    write(&world, "user:root", "reservation.create", json!({})).await;
    for guess in ["root", "nobody"] {
        let query = format!("actor=user:{guess}&kind=reservation&page_size=1");
        let page = listed(&world, &path, &query).await;
        assert_eq!(column(&page, "actor"), Vec::<&str>::new(), "{page}");
        let token = page["next_page_token"].as_str().unwrap_or_default();
        assert!(!token.is_empty(), "the same for every guess: {page}");
    }
    let page = listed(&world, &path, "actor=user:olga&kind=allocation").await;
    assert_eq!(column(&page, "action"), ["allocation.stop"], "{page}");
    let page = listed(&world, &path, "actor=operator&kind=allocation").await;
    assert_eq!(column(&page, "action"), ["allocation.operator_stop"]);
}

#[tokio::test]
async fn activities_are_paged_and_filtered_and_bad_ones_refused_by_field() {
    let (world, path) = start().await;
    for number in 1..=5 {
        write(
            &world,
            "user:olga",
            "allocation.stop",
            json!({ "name": format!("n{number}") }),
        )
        .await;
    }
    let first = listed(&world, &path, "kind=allocation&page_size=2").await;
    assert_eq!(column(&first, "name"), ["n5", "n4"]);
    let token = first["next_page_token"].as_str().expect("a token");
    let second = listed(
        &world,
        &path,
        &format!("kind=allocation&page_size=2&page_token={token}"),
    )
    .await;
    assert_eq!(column(&second, "name"), ["n3", "n2"]);
    let start = second["activities"][0]["create_time"]
        .as_str()
        .expect("a time");
    let since = listed(
        &world,
        &path,
        &format!("kind=allocation&start_time={start}"),
    )
    .await;
    assert_eq!(column(&since, "name"), ["n5", "n4", "n3"]);
    let until = listed(&world, &path, &format!("kind=allocation&end_time={start}")).await;
    assert_eq!(column(&until, "name"), ["n2", "n1"]);
    assert_eq!(
        column(
            &listed(&world, &path, "kind=allocation&outcome=denied").await,
            "name"
        ),
        [""; 0]
    );

    let other_query = format!("page_token={token}");
    for (query, expected) in [
        ("kind=A", "kind"),
        ("actor=%00", "actor"),
        ("page_size=-1", "page_size"),
        ("page_token=x", "page_token"),
        (&other_query, "page_token"),
        (
            "start_time=2026-01-02T00:00:00Z&end_time=2026-01-01T00:00:00Z",
            "end_time",
        ),
    ] {
        let target = format!("{path}?{query}");
        let (status, body) = world.send("vera", Method::GET, &target, Value::Null).await;
        assert_eq!((status, field(&body)), (400, expected), "{query}: {body}");
    }
}

#[tokio::test]
async fn activities_are_filtered_and_ordered_and_never_by_what_members_do_not_see() {
    let (world, path) = start().await;
    for (name, action) in [
        ("n1", "allocation.stop"),
        ("n2", "terminal.open"),
        ("n3", "allocation.start"),
    ] {
        write(&world, "user:olga", action, json!({ "name": name })).await;
    }
    for (query, expected) in [
        ("filter=action:allocation", &["n3", "n1"][..]),
        (
            "filter=action:allocation&order_by=create_time",
            &["n1", "n3"],
        ),
        (
            "filter=NOT+action%3Dterminal.open+AND+resource_id%3Da1",
            &["n3", "n1"],
        ),
        ("filter=outcome%3Ddenied", &[]),
        ("kind=terminal&filter=action:open", &["n2"]),
    ] {
        let page = listed(&world, &path, query).await;
        assert_eq!(column(&page, "name"), expected, "{query}: {page}");
    }
    let query = "filter=resource_id%3Da1&order_by=create_time&page_size=2";
    let first = listed(&world, &path, query).await;
    assert_eq!(column(&first, "name"), ["n1", "n2"]);
    let token = first["next_page_token"].as_str().expect("a token");
    let next = listed(&world, &path, &format!("{query}&page_token={token}")).await;
    assert_eq!(column(&next, "name"), ["n3"]);
    let newest = format!("{path}?filter=resource_id%3Da1&page_size=2&page_token={token}");
    let (status, body) = world.get("vera", &newest).await;
    assert_eq!((status, field(&body)), (400, "page_token"), "{body}");
    // who an operator is, and from where somebody called, is not found out by asking
    for (name, value) in [
        ("filter", "principal%3D%22user:root%22"),
        ("filter", "address:192"),
        ("filter", "user_agent:curl"),
        ("filter", "request_id%3Dr"),
        ("order_by", "action"),
    ] {
        let (status, body) = world.get("vera", &format!("{path}?{name}={value}")).await;
        assert_eq!((status, field(&body)), (400, name), "{value}: {body}");
    }
}

#[tokio::test]
async fn the_activity_of_a_project_is_read_by_an_index() {
    let (world, _) = start().await;
    let mut superuser = world
        .db
        .server()
        .superuser(world.db.name())
        .await
        .expect("superuser");
    let fill = "INSERT INTO edge.audit (id, principal, action, resource, resource_id, request_id, detail)
                SELECT gen_random_uuid(), 'user:x', 'a.b', 'thing', 'x', 'r', jsonb_build_object('project_id', n % 500)
                  FROM generate_series(1, 5000) n";
    for sql in [fill, "ANALYZE edge.audit"] {
        superuser.execute(sql).await.expect("done");
    }
    let plan: Vec<String> = sqlx::query_scalar(
        "EXPLAIN SELECT id FROM edge.audit WHERE detail->>'project_id' = '7' ORDER BY id DESC LIMIT 50",
    )
    .fetch_all(&mut superuser)
    .await
    .expect("a plan");
    assert!(plan.join("\n").contains("audit_project"), "{plan:?}");
}

/// Nor where something says who made it, or why it is disabled. A member keeps the name, whatever role that one has on the platform.
#[tokio::test]
async fn p10_members_do_not_read_which_operator_made_something() {
    let (world, _) = start().await;
    // runs the platform, and belongs to nothing
    world.users(&["root"]).await;
    sqlx::query("UPDATE principals SET platform_role = 'admin' WHERE name = 'user:root'")
        .execute(&world.pool().await)
        .await
        .expect("an administrator");
    let project = &world.seeded.project_id.to_string();
    let of_project = format!("/api/v1/projects/{project}");
    let webhooks = format!("{of_project}/webhooks");
    let hook = json!({ "url": "https://hooks.example.com/x" });
    let grant = json!({
        "allocation_id": Uuid::from_u128(0x71), "principal": "user:olga", "permission": "terminal",
    });
    let things = [
        (webhooks.clone(), hook, "creator", "webhooks"),
        (
            format!("{of_project}/service-accounts"),
            json!({ "slug": "ci", "role": "viewer" }),
            "creator",
            "service_accounts",
        ),
        (
            format!("{of_project}/invitations"),
            json!({ "email": "eve@example.com", "role": "viewer" }),
            "inviter",
            "invitations",
        ),
        (
            format!("{of_project}/allocation-grants"),
            grant,
            "creator",
            "grants",
        ),
    ];
    for (target, body, field, list) in &things {
        world.made("root", target, body.clone()).await;
        let (status, seen) = world.get("olga", target).await;
        assert_eq!(status, 200, "{seen}");
        assert_eq!(seen[list][0][field], "operator", "{list}: {seen}");
        // nor is the name found by a filter
        let guess = format!("{target}?filter={field}%20%3D%20%22user:root%22");
        let (status, seen) = world.get("olga", &guess).await;
        assert_eq!((status, &seen[list]), (200, &json!([])), "{list}: {seen}");
    }
    let (_, accounts) = world
        .get("olga", &format!("{of_project}/service-accounts"))
        .await;
    let account = accounts["service_accounts"][0]["id"]
        .as_str()
        .expect("an id");
    let keys = format!("{of_project}/service-accounts/{account}/api-keys");
    world
        .made("root", &keys, json!({ "scopes": ["read"] }))
        .await;
    let (_, seen) = world.get("olga", &keys).await;
    assert_eq!(seen["api_keys"][0]["creator"], "operator", "{seen}");

    let (_, seen) = world.get("olga", &webhooks).await;
    let id = seen["webhooks"][0]["id"].as_str().expect("an id");
    let one = format!("/api/v1/webhooks/{id}");
    for (subject, reason) in [
        ("root", "An operator disabled it."),
        ("olga", "user:olga disabled it."),
    ] {
        for disabled in [true, false] {
            let change = json!({ "disabled": disabled });
            let (status, body) = world.send(subject, Method::PATCH, &one, change).await;
            assert_eq!(status, 200, "{body}");
            if disabled {
                let (_, seen) = world.get("olga", &one).await;
                assert_eq!(seen["disable_reason"], reason, "{seen}");
            }
        }
    }

    // as a member it has a name
    world.member(project, "root", "owner").await;
    world
        .made(
            "root",
            &webhooks,
            json!({ "url": "https://hooks.example.com/y" }),
        )
        .await;
    let (_, seen) = world.get("olga", &webhooks).await;
    assert_eq!(seen["webhooks"][1]["creator"], "user:root", "{seen}");

    // what it did before it did as an operator, also when it is none any more
    sqlx::query("UPDATE principals SET platform_role = NULL WHERE name = 'user:root'")
        .execute(&world.pool().await)
        .await
        .expect("an operator no more");
    let invitations = format!("{of_project}/invitations");
    let (_, seen) = world.get("olga", &invitations).await;
    assert_eq!(seen["invitations"][0]["inviter"], "operator", "{seen}");
}
