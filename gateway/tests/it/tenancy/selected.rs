//! Filters and orders of organisations, projects, members, invitations, principals, service accounts, their keys, SSH keys,
//! grants, webhooks and their deliveries.
use serde_json::{Value, json};
use uuid::Uuid;

use super::ssh_keys::ED;
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

#[tokio::test]
async fn invitations_ssh_keys_and_grants_are_filtered_and_ordered() {
    let world = World::start().await;
    world.users(&["olga", "max"]).await;
    let acme = world.organisation("acme", "olga").await;
    let lab = world.project(&acme, "lab", "olga").await;
    let pool = world.pool().await;
    let invitations = format!("/api/v1/projects/{lab}/invitations");
    let into_acme = format!("/api/v1/organisations/{acme}/invitations");
    let mut ids = Vec::new();
    for (target, email, role) in [
        (&invitations, "b@example.com", "member"),
        (&invitations, "c@example.com", "viewer"),
        (&invitations, "a@example.com", "member"),
        (&invitations, "d@example.com", "member"),
        (&into_acme, "e@example.com", "billing"),
    ] {
        let body = json!({ "email": email, "role": role });
        let made = world.made("olga", target, body).await;
        ids.push(made["id"].as_str().expect("an id").to_owned());
    }
    let revoke = format!("/api/v1/invitations/{}:revoke", ids[3]);
    world.made("olga", &revoke, json!({})).await;
    let expire = "UPDATE edge.invitations SET expire_time = clock_timestamp() WHERE id = $1::uuid";
    let expired = sqlx::query(expire)
        .bind(&ids[1])
        .execute(&world.db.owner_pool().await)
        .await;
    assert_eq!(expired.expect("changed").rows_affected(), 1);

    let keys = "/api/v1/ssh-keys";
    let of_lab = format!("/api/v1/projects/{lab}/ssh-keys");
    for (target, name) in [(keys, "b"), (keys, "c"), (keys, "a"), (&of_lab, "d")] {
        let body = json!({ "name": name, "public_key": format!("{ED} {name}@home") });
        world.made("olga", target, body).await;
    }

    let grants = format!("/api/v1/projects/{lab}/allocation-grants");
    for (number, who, permission, hours) in [
        (1, "max", "terminal", 3),
        (2, "olga", "terminal", 2),
        (3, "max", "serial_log", 1),
        (4, "max", "terminal", 4),
        (5, "max", "terminal", -1),
    ] {
        let insert = "INSERT INTO allocation_grants (id, project_id, allocation_id, principal_id, permission, creator, expire_time)
             SELECT $1, $2::uuid, $3, id, $4, 'user:olga', now() + make_interval(hours => $5) FROM principals WHERE name = $6";
        let done = sqlx::query(insert)
            .bind(Uuid::now_v7())
            .bind(&lab)
            .bind(Uuid::from_u128(number))
            .bind(permission)
            .bind(hours)
            .bind(format!("user:{who}"))
            .execute(&pool)
            .await;
        assert_eq!(done.expect("inserted").rows_affected(), 1);
    }
    let of = |number: u128| Uuid::from_u128(number).to_string();
    let (one, two, three, four) = (of(1), of(2), of(3), of(4));
    let newest: [&str; 4] = [&four, &three, &two, &one];
    let of_max: [&str; 3] = [&three, &one, &four];

    let cases: [Case<'_>; 11] = [
        (
            "olga",
            &invitations,
            "invitations",
            "email",
            "",
            &[
                "d@example.com",
                "a@example.com",
                "c@example.com",
                "b@example.com",
            ],
        ),
        (
            "olga",
            &invitations,
            "invitations",
            "email",
            "filter=role%20%3D%20member%20AND%20NOT%20accepted_by%3A*&order_by=email",
            &["a@example.com", "b@example.com", "d@example.com"],
        ),
        (
            "olga",
            &invitations,
            "invitations",
            "email",
            "filter=state%20%3D%20expired%20OR%20state%20%3D%20revoked",
            &["d@example.com", "c@example.com"],
        ),
        (
            "olga",
            &invitations,
            "invitations",
            "email",
            "state=pending&order_by=role,email%20desc",
            &["b@example.com", "a@example.com"],
        ),
        (
            "olga",
            &into_acme,
            "invitations",
            "email",
            "filter=email%3A%22%40EXAMPLE%22",
            &["e@example.com"],
        ),
        ("olga", keys, "ssh_keys", "name", "", &["a", "b", "c"]),
        (
            "olga",
            keys,
            "ssh_keys",
            "name",
            "filter=public_key%3Ahome%20AND%20NOT%20name%20%3D%20x&order_by=create_time%20desc",
            &["a", "c", "b"],
        ),
        (
            "olga",
            &of_lab,
            "ssh_keys",
            "name",
            "filter=fingerprint%3ASHA256",
            &["d"],
        ),
        ("olga", &grants, "grants", "allocation_id", "", &newest),
        (
            "olga",
            &grants,
            "grants",
            "allocation_id",
            "filter=principal%20%3D%20%22user%3Amax%22&order_by=expire_time",
            &of_max,
        ),
        (
            "olga",
            &grants,
            "grants",
            "allocation_id",
            "filter=permission%20%3D%20serial_log%20OR%20principal%3Aolga&order_by=allocation_id",
            &[&two, &three],
        ),
    ];
    for (subject, target, list, name, query, expected) in cases {
        let found = listed(&world, subject, &format!("{target}?{query}"), list, name).await;
        assert_eq!(found, expected, "{target} {query}");
    }
    for (target, query, expected) in [
        (invitations.as_str(), "filter=token_hash%3A*", "filter"),
        (&into_acme, "order_by=state", "order_by"),
        (keys, "filter=principal_id%3A*", "filter"),
        (&of_lab, "order_by=fingerprint", "order_by"),
        (&grants, "filter=project_id%3A*", "filter"),
    ] {
        let (status, body) = world.get("olga", &format!("{target}?{query}")).await;
        assert_eq!(
            (status, field(&body)),
            (400, expected),
            "{target} {query}: {body}"
        );
    }
}

#[tokio::test]
async fn deliveries_of_a_webhook_are_filtered_and_ordered() {
    let world = World::start_with(|config, _| config.webhooks.allow_insecure = true).await;
    world.users(&["olga"]).await;
    let acme = world.organisation("acme", "olga").await;
    let lab = world.project(&acme, "lab", "olga").await;
    let hooks = format!("/api/v1/projects/{lab}/webhooks");
    let body = json!({ "url": "http://127.0.0.1:1/" });
    let hook = world.made("olga", &hooks, body).await;
    let hook = hook["id"].as_str().expect("an id");
    let pool = world.pool().await;
    for (event, state, attempts, status) in [
        ("allocation.active", "failed", 5, 503),
        ("allocation.failed", "delivered", 1, 200),
        ("allocation.released", "failed", 3, 500),
        ("allocation.stopped", "failed", 2, 0),
        ("allocation.started", "pending", 1, 500),
    ] {
        let insert = "INSERT INTO webhook_deliveries (id, webhook_id, event_type, object_id, body, state, attempts, response_status,
                                             next_attempt_time)
             VALUES ($1, $2::uuid, $3, $1, '{}', $4, $5, $6, now() + interval '1 day')";
        sqlx::query(insert)
            .bind(Uuid::now_v7())
            .bind(hook)
            .bind(event)
            .bind(state)
            .bind(attempts)
            .bind(status)
            .execute(&pool)
            .await
            .expect("inserted");
    }
    let target = format!("/api/v1/webhooks/{hook}/deliveries");
    for (query, expected) in [
        (
            "",
            &["started", "stopped", "released", "failed", "active"][..],
        ),
        (
            "filter=state%20%3D%20failed&order_by=attempts%20desc",
            &["active", "released", "stopped"],
        ),
        (
            "filter=response_status%20%3E%3D%20500",
            &["started", "released", "active"],
        ),
        (
            "state=failed&filter=event_type%3ASTOPPED%20OR%20attempts%20%3E%204",
            &["stopped", "active"],
        ),
        ("filter=deliver_time%3A*", &[]),
    ] {
        let asked = format!("{target}?{query}");
        let found = listed(&world, "olga", &asked, "deliveries", "event_type").await;
        let expected: Vec<String> = expected
            .iter()
            .map(|one| format!("allocation.{one}"))
            .collect();
        assert_eq!(found, expected, "{query}");
    }
    for (query, expected) in [
        ("filter=body%3A*", "filter"),
        ("order_by=deliver_time", "order_by"),
    ] {
        let (status, body) = world.get("olga", &format!("{target}?{query}")).await;
        assert_eq!((status, field(&body)), (400, expected), "{query}: {body}");
    }
}

#[tokio::test]
async fn scim_groups_are_filtered_and_ordered() {
    let world = World::start().await;
    world.users(&["olga"]).await;
    let acme = world.organisation("acme", "olga").await;
    let pool = world.pool().await;
    let user = Uuid::now_v7();
    let insert = "WITH made AS (INSERT INTO scim_users (id, organisation_id, principal_id, user_name, attributes)
                               SELECT $1, $2, id, 'olga', '{}' FROM principals WHERE name = 'user:olga')
                  INSERT INTO scim_groups (id, organisation_id, display_name, external_id)
                  VALUES ($3, $2, 'ml', 'x-1'), ($4, $2, 'admins', NULL), ($5, $2, 'ml-eu', NULL)";
    let organisation: Uuid = acme.parse().expect("an id");
    let groups = [Uuid::now_v7(), Uuid::now_v7(), Uuid::now_v7()];
    sqlx::query(insert)
        .bind(user)
        .bind(organisation)
        .bind(groups[0])
        .bind(groups[1])
        .bind(groups[2])
        .execute(&pool)
        .await
        .expect("groups");
    sqlx::query("INSERT INTO scim_group_members (group_id, user_id) VALUES ($1, $2)")
        .bind(groups[1])
        .bind(user)
        .execute(&pool)
        .await
        .expect("a member");
    let target = format!("/api/v1/organisations/{acme}/scim/groups");
    let cases: [(&str, &[&str]); 5] = [
        ("", &["ml", "admins", "ml-eu"]),
        ("order_by=display_name", &["admins", "ml", "ml-eu"]),
        (
            "order_by=member_count%20desc,create_time",
            &["admins", "ml", "ml-eu"],
        ),
        (
            "filter=display_name%3AML%20AND%20NOT%20external_id%3A*",
            &["ml-eu"],
        ),
        (
            "filter=member_count%20%3E%200&order_by=update_time",
            &["admins"],
        ),
    ];
    for (query, expected) in cases {
        let target = format!("{target}?{query}");
        let found = listed(&world, "olga", &target, "groups", "display_name").await;
        assert_eq!(found, expected, "{target}");
    }
    for (query, expected) in [
        ("filter=version%20%3D%201", "filter"),
        ("order_by=external_id", "order_by"),
    ] {
        let (status, body) = world.get("olga", &format!("{target}?{query}")).await;
        assert_eq!((status, field(&body)), (400, expected), "{query}: {body}");
    }
}
