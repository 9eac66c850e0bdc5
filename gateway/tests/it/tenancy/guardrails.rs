//! What an organisation's guardrails forbid, they forbid to who runs the platform, too.
use std::fs;
use std::path::Path;

use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use super::refusal;
use crate::world::{World, reason};

const GUARDED: Uuid = Uuid::from_u128(0x6a11);
const OPEN: Uuid = Uuid::from_u128(0x09e4);

/// The policies of the release, and one that nobody manages anything of the organisation.
fn policies(folder: &Path) -> std::path::PathBuf {
    let own = folder.join("policies");
    fs::create_dir(&own).expect("a folder");
    let released = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/policies");
    for entry in fs::read_dir(released).expect("policies") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|kind| kind == "cedar") {
            fs::copy(&path, own.join(path.file_name().expect("a name"))).expect("copied");
        }
    }
    let guardrail = format!(
        "@id(\"frozen\") forbid (principal, action in [Action::\"manage\", Action::\"organisation_manage\"], resource)
         when {{ resource in Organisation::\"{GUARDED}\" }};"
    );
    fs::write(own.join("guardrails.cedar"), guardrail).expect("written");
    own
}

#[tokio::test]
async fn a_guardrail_binds_administrators_who_are_no_members() {
    let world = World::start_with(|config, folder| config.policies = Some(policies(folder))).await;
    world.users(&["stranger", "operator"]).await;
    let pool = world.pool().await;
    sqlx::query("UPDATE principals SET platform_role = 'operator' WHERE name = 'user:operator'")
        .execute(&pool)
        .await
        .expect("an operator");
    for (id, slug) in [(GUARDED, "guarded"), (OPEN, "open")] {
        for statement in [
            "INSERT INTO organisations (id, slug, display_name) VALUES ($1, $2, $2)",
            "INSERT INTO projects (id, organisation_id, slug, display_name) VALUES ($1, $1, $2, $2)",
        ] {
            let made = sqlx::query(statement).bind(id).bind(slug);
            made.execute(&pool).await.expect(statement);
        }
    }
    let denials = async || -> i64 {
        sqlx::query_scalar("SELECT count(*) FROM audit WHERE detail ->> 'outcome' = 'denied'")
            .fetch_one(&pool)
            .await
            .expect("rows")
    };
    let calls = [
        (
            Method::POST,
            "/api/v1/projects/ID:suspend",
            json!({ "reason": "x" }),
        ),
        (
            Method::PATCH,
            "/api/v1/projects/ID",
            json!({ "display_name": "x" }),
        ),
        (
            Method::POST,
            "/api/v1/projects/ID/members",
            json!({ "principal": "user:stranger", "role": "owner" }),
        ),
        (
            Method::POST,
            "/api/v1/projects/ID/invitations",
            json!({ "email": "a@b.c", "role": "owner" }),
        ),
        (
            Method::POST,
            "/api/v1/projects/ID/service-accounts",
            json!({ "slug": "ci", "role": "owner" }),
        ),
        (
            Method::POST,
            "/api/v1/organisations/ID/invitations",
            json!({ "email": "a@b.c", "role": "owner" }),
        ),
        (
            Method::PATCH,
            "/api/v1/organisations/ID",
            json!({ "display_name": "x" }),
        ),
    ];
    for (method, path, body) in calls {
        let send = async |who: &str, id: Uuid| {
            let target = path.replace("ID", &id.to_string());
            world.send(who, method.clone(), &target, body.clone()).await
        };
        // to who sees neither, foreign and absent are the same
        let (status, foreign) = send("stranger", GUARDED).await;
        let (_, absent) = send("stranger", Uuid::now_v7()).await;
        assert_eq!(
            (status, refusal(&foreign)),
            (404, refusal(&absent)),
            "{path}"
        );
        let before = denials().await;
        let (status, refused) = send("admin", GUARDED).await;
        assert_eq!(
            (status, reason(&refused)),
            (403, "PERMISSION_DENIED"),
            "{path}: {refused}"
        );
        let message = refused["error"]["message"].as_str().expect("a message");
        assert!(message.contains("frozen"), "{path}: {message}");
        assert_eq!(denials().await, before + 1, "{path}: on record");
        let (status, body) = send("admin", OPEN).await;
        assert_eq!(status, 200, "{path}: {body}");
    }
    let create = |id: Uuid| json!({ "organisation_id": id, "slug": "new" });
    for (id, expected) in [(GUARDED, 403), (OPEN, 200)] {
        let (status, body) = world.post_by("admin", "/api/v1/projects", create(id)).await;
        assert_eq!(status, expected, "{body}");
    }
    let changed: i64 = sqlx::query_scalar(
        "SELECT (SELECT count(*) FROM projects j WHERE organisation_id = $1 AND (state <> 'active' OR version > 1 OR id <> $1))
              + (SELECT count(*) FROM memberships WHERE project_id = $1)
              + (SELECT count(*) FROM invitations WHERE project_id = $1 OR organisation_id = $1)
              + (SELECT count(*) FROM service_accounts WHERE project_id = $1)
              + (SELECT count(*) FROM organisations WHERE id = $1 AND version > 1)",
    )
    .bind(GUARDED)
    .fetch_one(&pool)
    .await
    .expect("count");
    assert_eq!(changed, 0, "what is forbidden has changed nothing");
    // what is not forbidden goes on
    for who in ["admin", "operator"] {
        let target = format!("/api/v1/projects/{GUARDED}");
        let (status, body) = world.send(who, Method::GET, &target, Value::Null).await;
        assert_eq!(status, 200, "{who}: {body}");
    }
}
