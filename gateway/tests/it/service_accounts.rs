//! Service accounts and their keys from the making to the end, as an owner and as a program use them.
use std::time::{Duration, Instant};

use gpuaas_dev::until::until;
use gpuaas_gateway::store::Role;
use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::access::join;
use crate::terminals::{ended, opened_by};
use crate::world::{ISSUER, World, answer, detail, field, reason};

struct Owner<'a> {
    world: &'a World,
    base: String,
}

impl<'a> Owner<'a> {
    fn of(world: &'a World) -> Self {
        let base = format!(
            "/api/v1/projects/{}/service-accounts",
            world.seeded.project_id
        );
        Self { world, base }
    }

    async fn send(&self, method: Method, path: &str, body: Value) -> (u16, Value) {
        let key = Uuid::new_v4().to_string();
        self.repeat(method, path, body, &key).await
    }

    async fn repeat(&self, method: Method, path: &str, body: Value, key: &str) -> (u16, Value) {
        let target = self.world.url(&format!("{}{path}", self.base));
        let token = self.world.token("demo");
        let request = self.world.http.request(method.clone(), target);
        let request = request.bearer_auth(token).header("x-idempotency-key", key);
        let request = match method {
            Method::POST => request.json(&body),
            _ => request,
        };
        answer(request.send().await.expect("answer")).await
    }

    async fn account(&self, slug: &str, role: &str) -> String {
        let body = json!({ "slug": slug, "role": role, "description": "builds" });
        let (status, made) = self.send(Method::POST, "", body).await;
        assert_eq!(status, 200, "{made}");
        made["id"].as_str().expect("id").to_owned()
    }

    async fn key(&self, account: &str, scopes: Value) -> Value {
        let body = json!({ "display_name": "ci", "scopes": scopes });
        let (status, made) = self
            .send(Method::POST, &format!("/{account}/api-keys"), body)
            .await;
        assert_eq!(status, 200, "{made}");
        made
    }
}

async fn by(world: &World, method: Method, path: &str, credential: &str) -> (u16, Value) {
    let request = world.http.request(method.clone(), world.url(path));
    let request = request.bearer_auth(credential);
    let request = match method {
        Method::POST => request
            .header("x-idempotency-key", Uuid::new_v4().to_string())
            .json(&json!({})),
        _ => request,
    };
    answer(request.send().await.expect("answer")).await
}

#[tokio::test]
async fn a_key_is_shown_once_and_exchanged_for_short_tokens() {
    let world = World::start().await;
    let owner = Owner::of(&world);
    let account = owner.account("ci", "member").await;
    let body = json!({ "display_name": "ci", "scopes": ["read", "write"] });
    let path = format!("/{account}/api-keys");
    let (_, made) = owner.repeat(Method::POST, &path, body.clone(), "k-1").await;
    let key = made["key"].as_str().expect("the key").to_owned();
    assert!(
        key.starts_with(made["prefix"].as_str().expect("prefix")),
        "{made}"
    );
    // a repeated call is the same key, and does not show it again
    let (status, again) = owner.repeat(Method::POST, &path, body, "k-1").await;
    assert_eq!(
        (status, again["id"].clone(), again["key"].clone()),
        (200, made["id"].clone(), json!(""))
    );
    let (_, listed) = owner.send(Method::GET, &path, Value::Null).await;
    assert_eq!(
        listed["api_keys"].as_array().map(Vec::len),
        Some(1),
        "{listed}"
    );
    assert!(!listed.to_string().contains(&key), "{listed}");

    assert_eq!(
        by(&world, Method::GET, "/api/v1/allocations", &key).await.0,
        200
    );
    // no idempotency key: nothing is changed
    let request = world.http.post(world.url("/api/v1/auth/token"));
    let request = request.bearer_auth(&key).json(&json!({})).send().await;
    let (status, short) = answer(request.expect("answer")).await;
    assert_eq!(status, 200, "{short}");
    let token = short["token"].as_str().expect("token").to_owned();
    assert_eq!(
        by(&world, Method::GET, "/api/v1/allocations", &token)
            .await
            .0,
        200
    );
    let (_, who) = by(&world, Method::GET, "/api/v1/whoami", &token).await;
    assert_eq!(
        (&who["kind"], &who["expire_time"]),
        (&json!("service_account"), &short["expire_time"])
    );
    for credential in [token, world.token("demo")] {
        let (status, body) = by(&world, Method::POST, "/api/v1/auth/token", &credential).await;
        assert_eq!((status, reason(&body)), (400, "STATE_CONFLICT"), "{body}");
    }
    let rows: Vec<String> =
        sqlx::query_scalar("SELECT detail::text FROM audit WHERE action IN ('service_account.create', 'api_key.create')")
            .fetch_all(&world.pool().await)
            .await
            .expect("rows");
    assert_eq!(rows.len(), 2);
    assert!(!rows.concat().contains(&key), "no secret on record");
}

#[tokio::test]
async fn a_rotated_key_is_good_for_the_overlap_and_rotated_once() {
    let world = World::start().await;
    let owner = Owner::of(&world);
    let account = owner.account("ci", "viewer").await;
    let old = owner.key(&account, json!(["read"])).await;
    let path = format!("/{account}/api-keys/{}", old["id"].as_str().expect("id"));
    let rotate = format!("{path}:rotate");
    let (status, body) = owner
        .send(Method::POST, &rotate, json!({ "overlap": "604801s" }))
        .await;
    assert_eq!((status, field(&body)), (400, "overlap"));
    let (status, new) = owner
        .send(Method::POST, &rotate, json!({ "overlap": "3600s" }))
        .await;
    assert_eq!(status, 200, "{new}");
    assert_eq!(
        (&new["replaces"], &new["scopes"]),
        (&old["id"], &old["scopes"])
    );
    for key in [&old, &new] {
        let key = key["key"].as_str().expect("key");
        assert_eq!(
            by(&world, Method::GET, "/api/v1/allocations", key).await.0,
            200
        );
    }
    let (status, body) = owner.send(Method::POST, &rotate, json!({})).await;
    assert_eq!((status, reason(&body)), (400, "STATE_CONFLICT"), "{body}");
    let next = format!(
        "/{account}/api-keys/{}:rotate",
        new["id"].as_str().expect("id")
    );
    let (_, last) = owner
        .send(Method::POST, &next, json!({ "overlap": "0s" }))
        .await;
    assert!(
        last["key"].as_str().is_some_and(|key| !key.is_empty()),
        "{last}"
    );
    let ended = new["key"].as_str().expect("key");
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        // as soon as the gateway hears of it
        let (status, body) = by(&world, Method::GET, "/api/v1/allocations", ended).await;
        if status == 401 {
            assert_eq!(reason(&body), "CREDENTIAL_EXPIRED", "{body}");
            break;
        }
        assert!(Instant::now() < deadline, "still good: {status}");
    }
}

#[tokio::test]
async fn who_may_not_changes_nothing_and_no_key_makes_a_stronger_one() {
    let world = World::start().await;
    let owner = Owner::of(&world);
    let account = owner.account("deploy", "owner").await;
    let manager = owner.key(&account, json!(["manage", "read"])).await;
    let manager = manager["key"].as_str().expect("key").to_owned();
    let path = format!("{}/{account}/api-keys", owner.base);
    let make = async |credential: &str, scopes: Value| {
        let request = world.http.post(world.url(&path)).bearer_auth(credential);
        let request = request
            .header("x-idempotency-key", Uuid::new_v4().to_string())
            .json(&json!({ "scopes": scopes }));
        answer(request.send().await.expect("answer")).await
    };
    assert_eq!(make(&manager, json!(["read"])).await.0, 200);
    let (status, body) = make(&manager, json!(["read", "write"])).await;
    assert_eq!(
        (status, reason(&body)),
        (403, "PERMISSION_DENIED"),
        "{body}"
    );
    for (scopes, expected) in [(json!([]), "scopes"), (json!(["root"]), "scopes[0]")] {
        let (status, body) = make(&world.token("demo"), scopes).await;
        assert_eq!((status, field(&body)), (400, expected), "{body}");
    }

    let pool = world.pool().await;
    let id = Uuid::now_v7();
    sqlx::query("INSERT INTO principals (id, name, issuer, subject, display_name) VALUES ($1, 'user:m', $2, 'm', '')")
        .bind(id)
        .bind(ISSUER)
        .execute(&pool)
        .await
        .expect("registered");
    let (status, _) = make(&world.token("m"), json!(["read"])).await;
    assert_eq!(status, 404, "of what is not theirs there is none");
    join(&pool, id, world.seeded.project_id, Role::Member).await;
    let (status, body) = make(&world.token("m"), json!(["read"])).await;
    assert_eq!(
        (status, reason(&body)),
        (403, "PERMISSION_DENIED"),
        "{body}"
    );
    assert_eq!(detail(&body, "ErrorInfo")["metadata"]["roles"], "owner");
    let keys: i64 = sqlx::query_scalar("SELECT count(*) FROM api_keys")
        .fetch_one(&pool)
        .await
        .expect("rows");
    assert_eq!(keys, 2, "nothing was made");
}

#[tokio::test]
async fn no_key_puts_an_owner_out() {
    let world = World::start().await;
    let owner = Owner::of(&world);
    let account = owner.account("deploy", "owner").await;
    let key = owner
        .key(
            &account,
            json!(["read", "billing", "write", "terminal", "manage"]),
        )
        .await;
    let key = key["key"].as_str().expect("key").to_owned();
    let members = format!("/api/v1/projects/{}/members", world.seeded.project_id);
    let (_, listed) = by(&world, Method::GET, &members, &key).await;
    let listed = listed["members"].as_array().expect("members").clone();
    let person = listed.iter().find(|one| one["principal"] == "user:demo");
    let person = person.expect("the owner")["member_id"].clone();
    let person = format!("{members}/{}", person.as_str().expect("an id"));
    let change = async |method: Method, path: &str, credential: &str, body: Value| {
        let request = world.http.request(method, world.url(path));
        let request = request
            .bearer_auth(credential)
            .header("x-idempotency-key", Uuid::new_v4().to_string());
        let request = match body {
            Value::Null => request,
            body => request.json(&body),
        };
        answer(request.send().await.expect("answer")).await
    };
    let weaker = json!({ "role": "viewer" });
    for (method, body) in [
        (Method::DELETE, Value::Null),
        (Method::PATCH, weaker.clone()),
    ] {
        let (status, body) = change(method, &person, &key, body).await;
        assert_eq!(
            (status, reason(&body), field(&body)),
            (403, "PERMISSION_DENIED", "member_id"),
            "{body}"
        );
    }
    // a person who is an owner takes the account's ownership, and it is a member like others then
    let account = format!("{members}/{account}");
    let demo = world.token("demo");
    let (status, body) = change(Method::PATCH, &account, &demo, weaker).await;
    assert_eq!((status, &body["role"]), (200, &json!("viewer")), "{body}");
    let (status, body) = change(Method::DELETE, &account, &demo, Value::Null).await;
    assert_eq!(status, 200, "{body}");
}

#[tokio::test]
async fn an_account_is_disabled_enabled_and_deleted_with_its_keys() {
    let world = World::start_with(|config, _| config.terminal.access_seconds = 0.1).await;
    let owner = Owner::of(&world);
    let account = owner.account("ci", "member").await;
    let (status, body) = owner
        .send(Method::POST, "", json!({ "slug": "ci", "role": "viewer" }))
        .await;
    assert_eq!((status, field(&body)), (409, "slug"), "{body}");
    let key = owner.key(&account, json!(["read", "terminal"])).await;
    let key = key["key"].as_str().expect("key").to_owned();
    let status_of = async || by(&world, Method::GET, "/api/v1/skus", &key).await.0;
    let until = async |refused: bool| {
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(3);
        let mut begun = std::time::Instant::now();
        while (status_of().await == 401) != refused {
            assert!(begun < deadline, "not heard of");
            begun = std::time::Instant::now();
        }
    };
    until(false).await;
    let (_, who) = by(&world, Method::GET, "/api/v1/whoami", &key).await;
    let name = who["principal"].as_str().expect("a name");
    let (mut terminal, _) = opened_by(&world, name, &key).await;
    for (verb, refused) in [("disable", true), ("enable", false)] {
        let path = format!("/{account}:{verb}");
        let (status, shown) = owner.send(Method::POST, &path, json!({})).await;
        assert_eq!(status, 200, "{shown}");
        assert_eq!(!shown["disable_time"].is_null(), refused, "{shown}");
        until(refused).await;
        if refused {
            ended(&mut terminal).await;
        }
    }
    let (status, _) = owner
        .send(Method::DELETE, &format!("/{account}"), Value::Null)
        .await;
    assert_eq!(status, 200);
    until(true).await;
    let (_, left) = owner.send(Method::GET, "", Value::Null).await;
    assert_eq!(left["service_accounts"], json!([]), "{left}");
    // its slug is free again
    assert_ne!(owner.account("ci", "member").await, account);
}

/// Who disabled an account decides who may enable it again.
#[tokio::test]
async fn an_account_that_the_platform_disabled_is_not_enabled_by_its_owners() {
    let world = World::start().await;
    let owner = Owner::of(&world);
    let account = owner.account("ci", "member").await;
    let admin = world.token("admin");
    let by_platform = async |verb: &str| {
        let path = format!("/api/v1/admin/principals/{account}:{verb}");
        let (status, body) = by(&world, Method::POST, &path, &admin).await;
        assert_eq!(status, 200, "{body}");
    };
    let in_project = format!("{}/{account}:disable", owner.base);
    let own = async |verb: &str| {
        let path = format!("/{account}:{verb}");
        owner.send(Method::POST, &path, json!({})).await
    };
    for before in ["enable", "disable"] {
        // also what its owners have disabled already
        let (status, shown) = own(before).await;
        assert_eq!(
            (status, &shown["disabled_by_platform"]),
            (200, &json!(false))
        );
        by_platform("disable").await;
        let (status, body) = own("enable").await;
        assert_eq!(
            (status, reason(&body), field(&body)),
            (403, "PERMISSION_DENIED", "service_account_id"),
            "{body}"
        );
        // to disable it once more takes nothing from the platform
        let (status, shown) = own("disable").await;
        assert_eq!(
            (status, &shown["disabled_by_platform"]),
            (200, &json!(true)),
            "{shown}"
        );
        assert_eq!(own("enable").await.0, 403);
        by_platform("enable").await;
        let (_, listed) = owner.send(Method::GET, "", Value::Null).await;
        assert!(
            listed["service_accounts"][0]["disable_time"].is_null(),
            "{listed}"
        );
    }
    // an administrator who takes the way of owners is the platform still
    assert_eq!(by(&world, Method::POST, &in_project, &admin).await.0, 200);
    assert_eq!(own("enable").await.0, 403);
    let way_back = in_project.replace(":disable", ":enable");
    assert_eq!(by(&world, Method::POST, &way_back, &admin).await.0, 200);
    for verb in ["disable", "enable"] {
        assert_eq!(own(verb).await.0, 200, "{verb}");
    }
    // a gateway of the release before knows nothing of who disabled it: the database forgets with it
    by_platform("disable").await;
    let pool = world.pool().await;
    sqlx::query("UPDATE principals SET disable_time = NULL WHERE id = $1::uuid")
        .bind(&account)
        .execute(&pool)
        .await
        .expect("enabled");
    let (_, shown) = own("disable").await;
    assert_eq!(shown["disabled_by_platform"], json!(false));
}

/// Before, an owner who enabled it while the platform disabled it had the last word.
#[tokio::test]
async fn an_account_that_the_platform_disables_just_now_is_not_enabled_by_its_owners() {
    let world = World::start().await;
    let owner = Owner::of(&world);
    let account = owner.account("ci", "member").await;
    let disable = format!("/{account}:disable");
    let (status, body) = owner.send(Method::POST, &disable, json!({})).await;
    assert_eq!(status, 200, "{body}");
    let pool = world.pool().await;
    let mut change = pool.begin().await.expect("transaction");
    let by_platform = "UPDATE principals SET disabled_by_platform = true WHERE id = $1::uuid";
    let changed = sqlx::query(by_platform)
        .bind(&account)
        .execute(&mut *change)
        .await;
    assert_eq!(changed.expect("changed").rows_affected(), 1);
    let enable = format!("/{account}:enable");
    let enabled = owner.send(Method::POST, &enable, json!({}));
    let end = async {
        until("the owner to wait", Duration::from_secs(60), async || {
            let waiting: i64 = sqlx::query_scalar(
                "SELECT count(*) FROM pg_stat_activity
                  WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%principals%'",
            )
            .fetch_one(&pool)
            .await
            .expect("count");
            (waiting > 0).then_some(())
        })
        .await;
        change.commit().await.expect("committed");
    };
    let ((status, body), ()) = tokio::join!(enabled, end);
    assert_eq!(
        (status, reason(&body)),
        (403, "PERMISSION_DENIED"),
        "{body}"
    );
    let (_, listed) = owner.send(Method::GET, "", Value::Null).await;
    let shown = &listed["service_accounts"][0];
    assert_eq!(shown["disabled_by_platform"], true, "{listed}");
    assert!(!shown["disable_time"].is_null(), "{listed}");
}

#[tokio::test]
async fn an_account_that_somebody_changed_meanwhile_is_left_as_it_is() {
    let world = World::start().await;
    let owner = Owner::of(&world);
    let account = owner.account("ci", "member").await;
    let read = async || {
        let (_, listed) = owner.send(Method::GET, "", Value::Null).await;
        let etag = listed["service_accounts"][0]["etag"].as_str();
        etag.expect("an etag").to_owned()
    };
    let first = read().await;
    let disable = format!("/{account}:disable");
    let body = json!({ "etag": first });
    let (status, disabled) = owner.send(Method::POST, &disable, body.clone()).await;
    assert_eq!(status, 200, "{disabled}");
    let second = read().await;
    assert_eq!(disabled["etag"], json!(second));
    assert_ne!(second, first);
    let delete = format!("/{account}?etag={first}");
    for (method, path, body) in [
        (Method::POST, &format!("/{account}:enable"), body.clone()),
        (Method::POST, &disable, body),
        (Method::DELETE, &delete, Value::Null),
    ] {
        let (status, body) = owner.send(method, path, body).await;
        assert_eq!(
            (status, reason(&body), field(&body)),
            (409, "ETAG_STALE", "etag"),
            "{path}: {body}"
        );
    }
    assert_eq!(read().await, second, "nothing has changed");
    // its role is a part of it
    let role = "UPDATE memberships SET role = 'viewer' WHERE principal_id = $1::uuid";
    let pool = world.pool().await;
    let changed = sqlx::query(role).bind(&account).execute(&pool).await;
    assert_eq!(changed.expect("changed").rows_affected(), 1);
    let third = read().await;
    assert_ne!(third, second);
    let delete = format!("/{account}?etag={third}");
    let (status, body) = owner.send(Method::DELETE, &delete, Value::Null).await;
    assert_eq!(status, 200, "{body}");
}
