//! API keys: what they are good for, and the right refusal when they are not.
use std::time::Duration;

use gpuaas_dev::until::until_ok;
use gpuaas_gateway::auth::api_keys::ApiKey;
use gpuaas_gateway::auth::short_tokens::{ShortTokens, issuer_of};
use gpuaas_gateway::store::Role;
use gpuaas_gateway::store::Scope;
use jiff::Timestamp;
use reqwest::Method;
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, PgPool};
use uuid::Uuid;

use crate::access::{another_key, key};
use crate::terminals::{answers, ended, opened_by};
use crate::world::{CELL, World, answer, reason};

const PATH: &str = "/api/v1/allocations";

async fn call(world: &World, method: Method, path: &str, credential: &str) -> (u16, Value) {
    let request = world
        .http
        .request(method.clone(), world.url(path))
        .bearer_auth(credential)
        .header("x-idempotency-key", Uuid::new_v4().to_string());
    let request = match method {
        Method::POST => request.json(&json!({})),
        _ => request,
    };
    answer(request.send().await.expect("answer")).await
}

async fn run(pool: &PgPool, statement: String) {
    let done = sqlx::query(AssertSqlSafe(statement)).execute(pool).await;
    assert!(done.expect("done").rows_affected() > 0);
}

#[tokio::test]
async fn a_key_does_what_its_scopes_and_its_account_allow() {
    let world = World::start().await;
    let pool = world.pool().await;
    let project = world.seeded.project_id;
    let reader = key(&pool, project, Role::Member, &[Scope::Read]).await;
    assert_eq!(
        call(&world, Method::GET, PATH, reader.reveal()).await.0,
        200
    );
    let seen = world.record.all()[0].caller.clone();
    assert_eq!(seen.projects, [project]);
    assert!(seen.principal.starts_with("service:"), "{}", seen.principal);
    let stop = "/api/v1/allocations/a1:stop";
    let (status, body) = call(&world, Method::POST, stop, reader.reveal()).await;
    assert_eq!((status, reason(&body)), (403, "PERMISSION_DENIED"));
    let message = body["error"]["message"].as_str().expect("message");
    assert_eq!(message, "The API key lacks the scope write.");
    let writer = key(&pool, project, Role::Member, &[Scope::Read, Scope::Write]).await;
    assert_eq!(
        call(&world, Method::POST, stop, writer.reveal()).await.0,
        200
    );
    // the account's role bounds the key
    let viewer = key(&pool, project, Role::Viewer, &Scope::ALL).await;
    let (status, body) = call(&world, Method::POST, stop, viewer.reveal()).await;
    assert_eq!((status, reason(&body)), (403, "PERMISSION_DENIED"));
    let (_, who) = call(&world, Method::GET, "/api/v1/whoami", reader.reveal()).await;
    assert_eq!(who["kind"], "service_account", "{who}");
    assert!(who["expire_time"].is_null(), "{who}");
    let used: Option<bool> = sqlx::query_scalar(
        "SELECT last_used_time = date_trunc('minute', last_used_time) FROM api_keys WHERE id = $1",
    )
    .bind(reader.id)
    .fetch_one(&pool)
    .await
    .expect("row");
    assert_eq!(used, Some(true), "used, to the minute");
}

#[tokio::test]
async fn keys_that_are_refused() {
    let world = World::start().await;
    let pool = world.pool().await;
    let project = world.seeded.project_id;
    let good = key(&pool, project, Role::Member, &[Scope::Read]).await;
    let expired = key(&pool, project, Role::Member, &[Scope::Read]).await;
    let end = "UPDATE api_keys SET expire_time = now() - interval '1 second'";
    run(&pool, format!("{end} WHERE id = '{}'", expired.id)).await;
    let disabled = key(&pool, project, Role::Member, &[Scope::Read]).await;
    let end = "UPDATE api_keys SET disable_time = now() - interval '1 second'";
    run(&pool, format!("{end} WHERE id = '{}'", disabled.id)).await;
    let orphan = key(&pool, project, Role::Member, &[Scope::Read]).await;
    let end =
        "UPDATE principals SET disable_time = now() WHERE id = (SELECT principal_id FROM api_keys";
    run(&pool, format!("{end} WHERE id = '{}')", orphan.id)).await;
    let text = good.reveal();
    let unknown = ApiKey::new(CELL, Uuid::now_v7(), &[7; 32]);
    let guessed = ApiKey::new(CELL, good.id, &[7; 32]);
    let foreign = ApiKey::new(CELL + 1, good.id, &[7; 32]);
    for (name, credential, expected, why) in [
        (
            "cut short",
            &text[..text.len() - 1],
            "CREDENTIAL_INVALID",
            "not complete",
        ),
        (
            "cut to its prefix",
            "gpuaas_",
            "CREDENTIAL_INVALID",
            "not complete",
        ),
        (
            "unknown",
            unknown.reveal(),
            "CREDENTIAL_INVALID",
            "no such key",
        ),
        (
            "another secret",
            guessed.reveal(),
            "CREDENTIAL_INVALID",
            "no such key",
        ),
        (
            "disabled a second ago",
            disabled.reveal(),
            "CREDENTIAL_INVALID",
            "it is disabled",
        ),
        (
            "of an account that is disabled",
            orphan.reveal(),
            "CREDENTIAL_INVALID",
            "it is disabled",
        ),
        (
            "another cell",
            foreign.reveal(),
            "CREDENTIAL_INVALID",
            "of cell 2",
        ),
        (
            "expired",
            expired.reveal(),
            "CREDENTIAL_EXPIRED",
            "has expired",
        ),
    ] {
        let (status, body) = call(&world, Method::GET, PATH, credential).await;
        assert_eq!((status, reason(&body)), (401, expected), "{name}: {body}");
        let message = body["error"]["message"].as_str().expect("message");
        assert!(message.contains(why), "{name}: {message}");
        assert!(!body.to_string().contains(credential) || credential == "gpuaas_");
    }
    assert!(world.record.all().is_empty(), "nothing reached the service");
    assert_eq!(call(&world, Method::GET, PATH, text).await.0, 200);
}

/// With the key end its short tokens; with the account end all.
#[tokio::test]
async fn a_key_that_is_disabled_is_worth_nothing_at_once() {
    let world = World::start().await;
    let pool = world.pool().await;
    let pem =
        std::fs::read_to_string(world.folder.path().join("ca/internal-token.key")).expect("key");
    for what in ["key", "account"] {
        let key = key(&pool, world.seeded.project_id, Role::Member, &[Scope::Read]).await;
        let account: Uuid = sqlx::query_scalar("SELECT principal_id FROM api_keys WHERE id = $1")
            .bind(key.id)
            .fetch_one(&pool)
            .await
            .expect("row");
        let tokens = ShortTokens::from_pem(&pem, CELL).expect("key");
        let now = Timestamp::now().as_second();
        let signed = tokens.sign(&account.to_string(), key.id, i64::MAX, now);
        let credentials = [key.reveal().to_owned(), signed.expect("signed").0];
        assert_eq!(issuer_of(CELL), "urn:gpuaas:cell:1");
        for credential in &credentials {
            let (status, body) = call(&world, Method::GET, PATH, credential).await;
            assert_eq!(status, 200, "{what}: {body}");
        }
        let statement = match what {
            "key" => format!(
                "UPDATE api_keys SET disable_time = now() WHERE id = '{}'",
                key.id
            ),
            _ => format!("UPDATE principals SET disable_time = now() WHERE id = '{account}'"),
        };
        run(&pool, statement).await;
        for credential in &credentials {
            // as soon as the gateway hears of it; what is kept of a caller lives longer than this waits
            let refused = until_ok(what, Duration::from_secs(3), async || {
                let (status, body) = call(&world, Method::GET, PATH, credential).await;
                match status {
                    401 => Ok(body),
                    _ => Err(format!("still good: {status}")),
                }
            })
            .await;
            assert_eq!(reason(&refused), "CREDENTIAL_INVALID", "{what}: {refused}");
        }
    }
    // who found it does not get it back
    let again =
        sqlx::query("UPDATE api_keys SET disable_time = NULL WHERE disable_time IS NOT NULL");
    assert!(again.execute(&pool).await.is_err());
}

/// What was opened by one key of an account ends with that key, though another one is good.
#[tokio::test]
async fn a_key_takes_its_streams_and_terminals_with_it_and_no_others() {
    let world = World::start_with(|config, _| {
        config.stream_access_seconds = 0.1;
        config.terminal.access_seconds = 0.1;
    })
    .await;
    let pool = world.pool().await;
    let scopes = [Scope::Read, Scope::Terminal];
    let first = key(&pool, world.seeded.project_id, Role::Member, &scopes).await;
    let account: Uuid = sqlx::query_scalar("SELECT principal_id FROM api_keys WHERE id = $1")
        .bind(first.id)
        .fetch_one(&pool)
        .await
        .expect("row");
    let second = another_key(&pool, account, &scopes).await;
    let (_, who) = call(&world, Method::GET, "/api/v1/whoami", first.reveal()).await;
    let name = who["principal"].as_str().expect("a name").to_owned();
    let open = async |key: &ApiKey| {
        let url = world.url("/api/v1/allocations/silent:watch");
        let request = world.http.get(url).bearer_auth(key.reveal());
        let mut stream = request.send().await.expect("answer");
        stream.chunk().await.expect("open").expect("a message");
        stream
    };
    let (stream, _going_on) = (open(&first).await, open(&second).await);
    let (mut ending, _) = opened_by(&world, &name, first.reveal()).await;
    let (mut staying, whose) = opened_by(&world, &name, second.reveal()).await;
    let disable = format!(
        "UPDATE api_keys SET disable_time = now() WHERE id = '{}'",
        first.id
    );
    run(&pool, disable).await;
    let rest = stream.text().await.expect("it ends");
    assert!(rest.contains("PERMISSION_DENIED"), "{rest}");
    ended(&mut ending).await;
    answers(&mut staying, &whose).await;
    // the other stream goes on
    world.record.until_open(1).await;
}
