//! Nobody becomes a member without having agreed, and nobody gives more than they have: not by an invitation that outlives its
//! sender's rights, not by an API key.
use std::time::Duration;

use gpuaas_dev::until::until_ok;
use gpuaas_gateway::auth::api_keys::ApiKey;
use gpuaas_gateway::store::Role;
use gpuaas_gateway::store::Scope;
use reqwest::Method;
use serde_json::{Value, json};
use sqlx::AssertSqlSafe;

use super::{id, outcome, refusal};
use crate::access::key;
use crate::world::{World, answer, detail, field, reason};

const ACCEPT: &str = "/api/v1/invitations:accept";

async fn start() -> (World, String, String) {
    let world = World::start_on(8, |_, _| {}).await;
    world.users(&["olga", "paul", "mia", "stranger"]).await;
    let organisation = world.organisation("acme", "olga").await;
    let project = world.project(&organisation, "training", "olga").await;
    (world, organisation, project)
}

/// An invitation of a project: its id and its token.
async fn invite(world: &World, by: &str, project: &str, role: &str) -> (String, String) {
    let target = format!("/api/v1/projects/{project}/invitations");
    let body = json!({ "email": "mia@example.com", "role": role });
    let made = world.made(by, &target, body).await;
    (
        id(&made),
        made["token"].as_str().expect("a token").to_owned(),
    )
}

async fn count(world: &World, table: &str) -> i64 {
    let sql = format!("SELECT count(*) FROM {table}");
    sqlx::query_scalar(AssertSqlSafe(sql))
        .fetch_one(&world.pool().await)
        .await
        .expect("count")
}

#[tokio::test]
async fn who_is_not_in_the_organisation_is_invited_and_never_added() {
    let (world, organisation, project) = start().await;
    let of_project = format!("/api/v1/projects/{project}/members");
    let of_organisation = format!("/api/v1/organisations/{organisation}/members");
    let before = count(&world, "memberships").await;
    for members in [&of_project, &of_organisation] {
        let add = |who: &str| json!({ "principal": format!("user:{who}"), "role": "viewer" });
        let (status, registered) = world.post_by("olga", members, add("stranger")).await;
        assert_eq!(
            (status, field(&registered)),
            (400, "principal"),
            "{registered}"
        );
        // whether somebody is registered is nobody's business
        let (_, unknown) = world.post_by("olga", members, add("ghost")).await;
        assert_eq!(refusal(&registered), refusal(&unknown));
    }
    assert_eq!(count(&world, "memberships").await, before);
    assert_eq!(count(&world, "organisation_memberships").await, 1);
    // who has accepted an invitation into the organisation's project may be in its others, too
    let (_, token) = invite(&world, "olga", &project, "viewer").await;
    world.made("mia", ACCEPT, json!({ "token": token })).await;
    let other = world.project(&organisation, "research", "olga").await;
    let add = json!({ "principal": "user:mia", "role": "member" });
    let others = format!("/api/v1/projects/{other}/members");
    assert_eq!(world.post_by("olga", &others, add).await.0, 200);
    // the platform adds whom it likes
    let add = json!({ "principal": "user:stranger", "role": "viewer" });
    assert_eq!(world.post_by("admin", &of_project, add).await.0, 200);
}

#[tokio::test]
async fn an_invitation_is_void_while_its_sender_may_not_give_the_role() {
    let (world, _, project) = start().await;
    let paul = world.member(&project, "paul", "owner").await;
    let member = format!("/api/v1/projects/{project}/members/{paul}");
    let pool = world.pool().await;
    let run = async |statement: String| {
        let done = sqlx::query(AssertSqlSafe(statement)).execute(&pool).await;
        assert!(done.expect("done").rows_affected() > 0);
    };
    let own = |set: &str| format!("UPDATE memberships SET {set} WHERE principal_id = '{paul}'");
    let himself = |set: &str| format!("UPDATE principals SET {set} WHERE id = '{paul}'");
    let (_, token) = invite(&world, "paul", &project, "owner").await;
    let accept = json!({ "token": token });
    for (what, takes, gives) in [
        (
            "less of a role",
            own("role = 'member'"),
            own("role = 'owner'"),
        ),
        (
            "disabled",
            himself("disable_time = now()"),
            himself("disable_time = NULL"),
        ),
    ] {
        run(takes).await;
        let (status, body) = world.post_by("mia", ACCEPT, accept.clone()).await;
        assert_eq!(
            (status, reason(&body), field(&body)),
            (400, "INVITATION_INVALID", "token"),
            "{what}: {body}"
        );
        let message = body["error"]["message"].as_str().expect("a message");
        assert!(message.contains("void"), "{what}: {message}");
        run(gives).await;
    }
    let seen = format!("/api/v1/projects/{project}");
    assert_eq!(world.get("mia", &seen).await.0, 404, "no member");
    // of who was removed, an administrator's who is none any more, and of who may
    let (status, _) = world
        .send("olga", Method::DELETE, &member, Value::Null)
        .await;
    assert_eq!(status, 200);
    let (status, body) = world.post_by("mia", ACCEPT, accept).await;
    assert_eq!((status, reason(&body)), (400, "INVITATION_INVALID"));
    run(himself("platform_role = 'admin'")).await;
    world.becomes("paul", "/api/v1/admin/projects", 200).await;
    let (_, token) = invite(&world, "paul", &project, "viewer").await;
    let accept = json!({ "token": token });
    run(himself("platform_role = 'operator'")).await;
    let (status, body) = world.post_by("mia", ACCEPT, accept.clone()).await;
    assert_eq!((status, reason(&body)), (400, "INVITATION_INVALID"));
    run(himself("platform_role = 'admin'")).await;
    assert_eq!(world.post_by("mia", ACCEPT, accept).await.0, 200);
}

/// Waits until so many connections of the gateway wait for a lock.
async fn until_waiting(world: &World, expected: i64) {
    let pool = world.pool().await;
    until_ok("connections that wait", Duration::from_secs(20), async || {
        let waiting: i64 = sqlx::query_scalar(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'",
        )
        .fetch_one(&pool)
        .await
        .expect("count");
        match waiting == expected {
            true => Ok(()),
            false => Err(format!("{waiting} wait, not {expected}")),
        }
    })
    .await;
}

/// Who revokes and who accepts take the same locks in the same order: the second waits, and sees what the first did.
#[tokio::test]
async fn an_invitation_is_revoked_and_accepted_at_once_and_nobody_waits_for_who_waits() {
    let (world, _, project) = start().await;
    let pool = world.pool().await;
    for revoke_first in [true, false] {
        let (invitation, token) = invite(&world, "olga", &project, "viewer").await;
        let mut held = pool.begin().await.expect("transaction");
        sqlx::query("SELECT FROM projects WHERE id = $1::uuid FOR UPDATE")
            .bind(&project)
            .execute(&mut *held)
            .await
            .expect("locked");
        let target = format!("/api/v1/invitations/{invitation}:revoke");
        let after = async |first: bool| {
            if !first {
                until_waiting(&world, 1).await;
            }
        };
        let revoke = async {
            after(revoke_first).await;
            world.post_by("olga", &target, json!({})).await
        };
        let accept = async {
            after(!revoke_first).await;
            world
                .post_by("mia", ACCEPT, json!({ "token": token }))
                .await
        };
        let release = async {
            until_waiting(&world, 2).await;
            held.rollback().await.expect("released");
        };
        let (revoked, accepted, ()) = tokio::join!(revoke, accept, release);
        let expected = match revoke_first {
            true => [(200, ""), (400, "INVITATION_INVALID")],
            false => [(400, "STATE_CONFLICT"), (200, "")],
        };
        assert_eq!([outcome(&revoked), outcome(&accepted)], expected);
    }
}

/// What a key could give by a role is no more than its scopes.
#[tokio::test]
async fn a_key_gives_no_role_above_its_scopes() {
    let (world, _, project) = start().await;
    let mia = world.member(&project, "mia", "billing").await;
    let in_project = project.parse().expect("an id");
    let pool = world.pool().await;
    let send = async |by: &ApiKey, method: Method, target: String, body: Value| {
        let request = world
            .http
            .request(method, world.url(&target))
            .bearer_auth(by.reveal())
            .header("x-idempotency-key", uuid::Uuid::now_v7().to_string())
            .json(&body);
        answer(request.send().await.expect("answer")).await
    };
    use Scope::{Billing, Manage, Read, Terminal, Write};
    for (scopes, highest) in [
        (vec![Manage], None),
        (vec![Manage, Billing], Some("billing")),
        (vec![Manage, Billing, Read], Some("viewer")),
        (vec![Manage, Billing, Read, Write], Some("viewer")),
        (vec![Billing, Read, Write, Terminal], None),
        (Scope::ALL.to_vec(), Some("owner")),
    ] {
        let by = key(&pool, in_project, Role::Owner, &scopes).await;
        let mut allowed = highest.is_some();
        for role in ["billing", "viewer", "member", "owner"] {
            let base = format!("/api/v1/projects/{project}");
            let slug = format!("a{}", uuid::Uuid::now_v7().simple());
            for (method, target, body) in [
                (
                    Method::POST,
                    format!("{base}/invitations"),
                    json!({ "email": "x@example.com", "role": role }),
                ),
                (
                    Method::PATCH,
                    format!("{base}/members/{mia}"),
                    json!({ "role": role }),
                ),
                (
                    Method::POST,
                    format!("{base}/service-accounts"),
                    json!({ "slug": slug, "role": role }),
                ),
            ] {
                let (status, body) = send(&by, method, target.clone(), body).await;
                let expected = if allowed { 200 } else { 403 };
                assert_eq!(status, expected, "{scopes:?} {role} {target}: {body}");
                if !allowed {
                    assert_eq!(reason(&body), "PERMISSION_DENIED", "{body}");
                }
                if !allowed && scopes.contains(&Manage) {
                    assert_eq!(field(&body), "role", "{body}");
                    let action = &detail(&body, "ErrorInfo")["metadata"]["action"];
                    assert!(action.is_string(), "{body}");
                }
            }
            allowed = allowed && highest != Some(role);
        }
    }
    // nor does it open a terminal to anybody that it could not open itself
    let grants = format!("/api/v1/projects/{project}/allocation-grants");
    let grant = json!({ "allocation_id": uuid::Uuid::from_u128(7), "principal": "user:mia", "permission": "terminal" });
    let by = key(&pool, in_project, Role::Owner, &[Manage, Read, Write]).await;
    let (status, body) = send(&by, Method::POST, grants.clone(), grant.clone()).await;
    assert_eq!((status, field(&body)), (403, "permission"), "{body}");
    let by = key(&pool, in_project, Role::Owner, &[Manage, Terminal]).await;
    let (status, body) = send(&by, Method::POST, grants, grant).await;
    assert_eq!(status, 200, "{body}");
    // a key of an account that is no owner gives nothing, whatever its scopes
    let weak = key(&pool, in_project, Role::Member, &Scope::ALL).await;
    let target = format!("/api/v1/projects/{project}/invitations");
    let body = json!({ "email": "x@example.com", "role": "billing" });
    assert_eq!(send(&weak, Method::POST, target, body).await.0, 403);
}
