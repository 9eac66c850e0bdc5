//! Who may call at all, and who runs the platform.
use reqwest::Method;
use serde_json::{Value, json};

use super::id;
use crate::world::{ISSUER, World, field, reason};

const PRINCIPALS: &str = "/api/v1/admin/principals";

async fn named(world: &World, name: &str) -> String {
    let (_, found) = world
        .get("admin", &format!("{PRINCIPALS}?name={name}"))
        .await;
    id(&found["principals"][0])
}

#[tokio::test]
async fn an_administrator_registers_users_and_gives_platform_roles() {
    let world = World::start().await;
    let body = json!({ "name": "user:nina", "issuer": ISSUER, "subject": "nina", "email": "Nina@example.com" });
    let (status, nina) = world.post_by("admin", PRINCIPALS, body.clone()).await;
    assert_eq!(
        (status, &nina["kind"], &nina["email"]),
        (200, &json!("user"), &json!("nina@example.com")),
        "{nina}"
    );
    assert_eq!(
        world.get("nina", "/api/v1/whoami").await.1["principal"],
        "user:nina"
    );
    for (change, wrong) in [
        (json!({ "name": "user:nina" }), "name"),
        (json!({ "name": "user:other" }), "subject"),
        (json!({ "name": "service:nina" }), "name"),
        (json!({ "name": "user:" }), "name"),
        (json!({ "name": "user:न" }), "name"),
        (
            json!({ "name": format!("user:{}", "a".repeat(129)) }),
            "name",
        ),
        (json!({ "name": "user:x", "subject": "a\u{0}" }), "subject"),
        (
            json!({ "name": "user:x", "issuer": "x".repeat(10_000) }),
            "issuer",
        ),
        (
            json!({ "name": "user:x", "subject": "y", "email": "no" }),
            "email",
        ),
    ] {
        let mut body = body.clone();
        for (key, value) in change.as_object().expect("fields") {
            body[key] = value.clone();
        }
        let (status, answer) = world.post_by("admin", PRINCIPALS, body).await;
        assert!(status == 400 || status == 409, "{answer}");
        assert_eq!(field(&answer), wrong, "{change}");
    }
    let target = format!("{PRINCIPALS}/{}:setPlatformRole", id(&nina));
    for role in ["operator", "auditor", "admin", "unspecified"] {
        let (status, body) = world
            .post_by("admin", &target, json!({ "platform_role": role }))
            .await;
        assert_eq!(
            (status, &body["platform_role"]),
            (200, &json!(role)),
            "{body}"
        );
        let (_, listed) = world
            .get("admin", &format!("{PRINCIPALS}?platform_role={role}"))
            .await;
        assert!(
            listed["principals"].to_string().contains("user:nina"),
            "{role}"
        );
    }
    assert_eq!(world.recorded("principal.set_platform_role").await, 4);
    for (method, target) in [(Method::GET, PRINCIPALS.to_owned()), (Method::POST, target)] {
        assert_eq!(world.send("demo", method, &target, json!({})).await.0, 403);
    }
    let absent = format!("{PRINCIPALS}/{}", uuid::Uuid::now_v7());
    assert_eq!(world.get("admin", &absent).await.0, 404);
}

#[tokio::test]
async fn an_administrator_is_left_whoever_races() {
    let world = World::start_on(8, |_, _| {}).await;
    let admin = named(&world, "user:admin").await;
    let target = |id: &str, verb: &str| format!("{PRINCIPALS}/{id}:{verb}");
    let (status, body) = world
        .post_by("admin", &target(&admin, "setPlatformRole"), json!({}))
        .await;
    assert_eq!((status, reason(&body)), (400, "LAST_OWNER"));
    let (status, body) = world
        .post_by("admin", &target(&admin, "disable"), json!({}))
        .await;
    assert_eq!(
        (status, field(&body)),
        (400, "principal_id"),
        "never oneself"
    );
    for verb in ["setPlatformRole", "disable"] {
        let pool = world.pool().await;
        let both = "UPDATE principals SET platform_role = 'admin', disable_time = NULL";
        sqlx::query(both)
            .execute(&pool)
            .await
            .expect("two administrators");
        let demo = {
            world.becomes("demo", PRINCIPALS, 200).await;
            world.becomes("admin", PRINCIPALS, 200).await;
            named(&world, "user:demo").await
        };
        let (demos, admins) = (target(&demo, verb), target(&admin, verb));
        let (first, second) = tokio::join!(
            world.post_by("admin", &demos, json!({})),
            world.post_by("demo", &admins, json!({})),
        );
        let done = [first.0, second.0]
            .iter()
            .filter(|status| **status == 200)
            .count();
        assert_eq!(done, 1, "{verb}: {first:?} {second:?}");
        let left: i64 = sqlx::query_scalar(
            "SELECT count(*) FROM principals WHERE platform_role = 'admin' AND disable_time IS NULL",
        )
        .fetch_one(&pool)
        .await
        .expect("count");
        assert_eq!(left, 1, "{verb}");
        // one of the two is an administrator still: the next round begins with both again
    }
}

#[tokio::test]
async fn a_disabled_principal_is_out_until_it_is_enabled() {
    let world = World::start().await;
    let demo = named(&world, "user:demo").await;
    assert_eq!(world.get("demo", "/api/v1/allocations").await.0, 200);
    let (status, body) = world
        .post_by(
            "admin",
            &format!("{PRINCIPALS}/{demo}:disable"),
            json!({ "reason": "left" }),
        )
        .await;
    assert!(status == 200 && body["disable_time"].is_string(), "{body}");
    world.becomes("demo", "/api/v1/allocations", 403).await;
    assert_eq!(
        world.get("demo", "/api/v1/whoami").await.0,
        403,
        "disabled is not unregistered"
    );
    let accept = json!({ "token": "gpi_x" });
    assert_eq!(
        world
            .post_by("demo", "/api/v1/invitations:accept", accept)
            .await
            .0,
        403
    );
    let (_, listed) = world
        .get("admin", &format!("{PRINCIPALS}?disabled=true"))
        .await;
    assert_eq!(
        listed["principals"].as_array().map(Vec::len),
        Some(1),
        "{listed}"
    );
    let etag = json!({ "etag": "1" });
    let (status, body) = world
        .post_by("admin", &format!("{PRINCIPALS}/{demo}:enable"), etag)
        .await;
    assert_eq!((status, reason(&body)), (409, "ETAG_STALE"));
    let (status, body) = world
        .post_by("admin", &format!("{PRINCIPALS}/{demo}:enable"), Value::Null)
        .await;
    assert_eq!(
        (status, &body["disable_time"]),
        (200, &Value::Null),
        "{body}"
    );
    world.becomes("demo", "/api/v1/allocations", 200).await;
}

#[tokio::test]
async fn a_program_has_no_role_on_the_platform() {
    let world = World::start().await;
    sqlx::query("INSERT INTO principals (id, name, issuer, subject, display_name, kind) VALUES ($1, 'service:ci', 'i', 'ci', '', 'service')")
        .bind(uuid::Uuid::now_v7())
        .execute(&world.pool().await)
        .await
        .expect("registered");
    let target = format!(
        "{PRINCIPALS}/{}:setPlatformRole",
        named(&world, "service:ci").await
    );
    for role in ["admin", "operator", "auditor"] {
        let (status, body) = world
            .post_by("admin", &target, json!({ "platform_role": role }))
            .await;
        assert_eq!((status, field(&body)), (400, "platform_role"), "{role}");
    }
}
