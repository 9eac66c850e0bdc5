//! Invitations, SSH keys and grants for allocations.
use serde_json::json;
use uuid::Uuid;

use super::{Case, listed};
use crate::tenancy::ssh_keys::ED;
use crate::world::{World, field};

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
