//! Rates of requests: counted by all gateways together in a real Redis, and by each alone while it is away.
use std::time::Duration;

use gpuaas_dev::redis::TestRedis;
use gpuaas_dev::until::until;
use reqwest::{Method, Response};
use serde_json::json;
use uuid::Uuid;

use crate::world::{ISSUER, World, answer, detail, reason};

/// Milliseconds for Redis, which answers here, on a machine however busy.
const PATIENT: u32 = 20_000;

async fn redis() -> TestRedis {
    tokio::task::spawn_blocking(TestRedis::start)
        .await
        .expect("redis")
}

/// A gateway that counts changes and launches in small numbers.
async fn world(redis: &TestRedis) -> World {
    World::build_on(4, &[], Some(redis.url()), |config, _| {
        config.rates.redis_timeout_milliseconds = PATIENT;
        config.rates.read_per_principal = 0;
        config.rates.read_per_project = 0;
        config.rates.write_per_principal = 5;
        config.rates.write_per_project = 0;
        config.rates.launch_per_principal = 100;
        config.rates.launch_per_project = 2;
        config.rates.read_per_organisation = 0;
        config.rates.write_per_organisation = 0;
        config.rates.launch_per_organisation = 0;
    })
    .await
}

/// A change that finds nothing to change.
async fn change_at(world: &World, base: &str, subject: &str) -> Response {
    let request = world
        .http
        .delete(format!("{base}/api/v1/ssh-keys/{}", Uuid::new_v4()))
        .bearer_auth(world.token(subject))
        .header("x-idempotency-key", Uuid::new_v4().to_string());
    request.send().await.expect("answer")
}

fn header(response: &Response, name: &str) -> String {
    let value = response.headers().get(name);
    value
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
        .to_owned()
}

async fn local(world: &World) -> String {
    let text = world.http.get(format!("{}/metrics", world.metrics));
    let text = text
        .send()
        .await
        .expect("metrics")
        .text()
        .await
        .expect("text");
    let line = text
        .lines()
        .find(|line| line.starts_with("edge_rates_local{"));
    line.and_then(|line| line.rsplit(' ').next())
        .unwrap_or_default()
        .to_owned()
}

#[tokio::test]
async fn gateways_count_together_and_say_what_is_left() {
    let redis = redis().await;
    let world = world(&redis).await;
    let (_second, other) = world.another_gateway();
    world.until_answers(&other).await;
    for left in (0..5).rev() {
        let base = if left % 2 == 0 { &other } else { &world.base };
        let response = change_at(&world, base, "demo").await;
        assert_eq!(response.status(), 404);
        let limit = header(&response, "ratelimit");
        assert!(
            limit.starts_with(&format!("\"write_per_principal\";r={left};t=")),
            "{limit}"
        );
        assert_eq!(
            header(&response, "ratelimit-policy"),
            "\"write_per_principal\";q=5;w=60"
        );
    }
    for base in [&world.base, &other] {
        let response = change_at(&world, base, "demo").await;
        let wait: u64 = header(&response, "retry-after").parse().expect("seconds");
        assert!((1..=12).contains(&wait), "{wait}");
        assert!(header(&response, "ratelimit").contains(";r=0;"));
        let (status, body) = answer(response).await;
        assert_eq!((status, reason(&body)), (429, "RATE_LIMITED"), "{body}");
        assert_eq!(
            detail(&body, "ErrorInfo")["metadata"]["limit"],
            "write_per_principal"
        );
        assert_eq!(
            detail(&body, "RetryInfo")["retry_delay"],
            format!("{wait}s")
        );
    }
    // another principal, and another class
    assert_eq!(change_at(&world, &other, "admin").await.status(), 404);
    let (status, _) = world
        .call(Method::GET, "/api/v1/organisations", "demo")
        .await;
    assert_eq!(status, 200);
    assert_eq!(local(&world).await, "0");

    // P8: without Redis each gateway counts for itself, from the beginning; nobody is refused for that
    let redis = tokio::task::spawn_blocking(move || {
        redis.server().stop();
        redis
    })
    .await
    .expect("stopped");
    let response = change_at(&world, &world.base, "demo").await;
    assert_eq!(response.status(), 404);
    assert_eq!(local(&world).await, "1");

    // and with the others again when it is back, which gave the script away
    let redis = tokio::task::spawn_blocking(move || {
        redis.server().start().expect("starts again");
        redis
    })
    .await
    .expect("started");
    until(
        "counts with the others",
        Duration::from_secs(60),
        async || {
            if local(&world).await == "0" {
                return Some(());
            }
            change_at(&world, &world.base, "admin").await;
            None
        },
    )
    .await;
    drop(redis);
}

#[tokio::test]
async fn launches_of_a_project_are_counted_one_by_one_and_its_own_alone() {
    let redis = redis().await;
    let world = world(&redis).await;
    let one = |name: &str| json!({ "name": name, "region_code": "r", "sku": "s", "gpu_count": 1, "image": "i", "ssh_public_keys": ["k"] });
    let launch = async |body: serde_json::Value| {
        let request = world
            .http
            .post(world.url("/api/v1/allocations:batchCreate"))
            .bearer_auth(world.token("demo"))
            .header("x-idempotency-key", Uuid::new_v4().to_string())
            .json(&body);
        answer(request.send().await.expect("answer")).await
    };
    let project = world.seeded.project_id;
    // two of one request are two
    let both = json!({ "project_id": project, "allocations": [one("a"), one("b")] });
    let (status, body) = launch(both).await;
    assert_ne!(status, 429, "{body}");
    let third = json!({ "project_id": project, "allocations": [one("c")] });
    let (status, body) = launch(third.clone()).await;
    assert_eq!((status, reason(&body)), (429, "RATE_LIMITED"), "{body}");
    assert_eq!(
        detail(&body, "ErrorInfo")["metadata"]["limit"],
        "launch_per_project"
    );
    // what names a project that is not the caller's takes nothing from it
    let foreign = Uuid::now_v7();
    for _ in 0..5 {
        let requested = json!({ "project_id": foreign, "allocations": [one("d")] });
        let (status, body) = launch(requested).await;
        assert_ne!(status, 429, "{body}");
    }
}

/// A service takes the only project of who names none, and so does the limit.
#[tokio::test]
async fn what_names_no_project_counts_for_the_only_one() {
    let redis = redis().await;
    let world = world(&redis).await;
    let mut answers = Vec::new();
    for name in ["a", "b", "c"] {
        let request = world
            .http
            .post(world.url("/api/v1/allocations"))
            .bearer_auth(world.token("demo"))
            .header("x-idempotency-key", Uuid::new_v4().to_string())
            .json(&json!({ "name": name, "region_code": "r", "sku": "s", "gpu_count": 1, "image": "i", "ssh_public_keys": ["k"] }));
        answers.push(answer(request.send().await.expect("answer")).await);
    }
    let statuses: Vec<u16> = answers.iter().map(|(status, _)| *status).collect();
    assert_eq!(statuses, [200, 200, 429], "{answers:?}");
    let limit = &detail(&answers[2].1, "ErrorInfo")["metadata"]["limit"];
    assert_eq!(limit, "launch_per_project");
}

/// Who runs the platform finds things of all projects by their ids: they are not of the project and the organisation that it is
/// a member of itself.
#[tokio::test]
async fn what_an_operator_finds_by_its_id_counts_for_no_project_of_its_own() {
    let world = World::start_with(|config, _| {
        config.rates.write_per_project = 2;
        config.rates.write_per_organisation = 2;
    })
    .await;
    let delete = async |subject: &str| {
        let webhook = world.url(&format!("/api/v1/webhooks/{}", Uuid::new_v4()));
        let request = world.http.delete(webhook).bearer_auth(world.token(subject));
        let request = request.header("x-idempotency-key", Uuid::new_v4().to_string());
        let response = request.send().await.expect("answer");
        let policy = header(&response, "ratelimit-policy");
        let counted = ["write_per_project", "write_per_organisation"].map(|of| policy.contains(of));
        (response.status().as_u16(), counted)
    };
    for turn in 0..4 {
        assert_eq!(delete("admin").await, (404, [false, false]), "{turn}");
    }
    assert_eq!(delete("demo").await, (404, [true, true]), "as a member");
}

/// What is refused before it is counted as a request is counted all the same: of a principal, of an identity that is none here, of
/// SCIM, and of what cannot be read. Above the limit nothing is put on record.
#[tokio::test]
async fn who_is_refused_again_and_again_is_limited_and_leaves_few_records() {
    const TRIES: usize = 12;
    let world = World::start_with(|config, _| {
        config.rates.read_per_principal = 6;
        config.rates.launch_per_principal = 6;
    })
    .await;
    world.users(&["nora", "nils", "nina", "nick"]).await;
    let project = world.seeded.project_id.to_string();
    world.member(&project, "nick", "viewer").await;
    world.member(&project, "nina", "member").await;
    let launches = "/api/v1/allocations";
    let identity = format!("{ISSUER} stranger");
    // one of operators, one of nobody's, one of SCIM, one that the role lacks, and one that cannot be read
    let own = json!({ "project_id": project, "name": "a", "region_code": "r", "sku": "s", "gpu_count": 1, "image": "i", "ssh_public_keys": ["k"] });
    let unread = json!({ "no_such_field": 1 });
    for (subject, name, target, body, first) in [
        (
            "nora",
            "user:nora",
            "/api/v1/admin/allocations/a1",
            None,
            403,
        ),
        ("stranger", &*identity, "/api/v1/organisations", None, 403),
        ("nils", "user:nils", "/scim/v2/Users", None, 403),
        ("nick", "user:nick", launches, Some(&own), 403),
        ("nina", "user:nina", launches, Some(&unread), 400),
    ] {
        let mut refused = 0;
        let mut limited = 0;
        for _ in 0..TRIES {
            let request = match body {
                Some(body) => world.http.post(world.url(target)).json(body),
                None => world.http.get(world.url(target)),
            };
            let request = request
                .bearer_auth(world.token(subject))
                .header("x-idempotency-key", Uuid::new_v4().to_string());
            let response = request.send().await.expect("answer");
            if response.status() == 429 {
                assert!(!header(&response, "retry-after").is_empty(), "{name}");
                limited += 1;
            } else {
                assert_eq!(response.status(), first, "{name}");
                refused += 1;
            }
        }
        // a slow machine gets some of the next minute
        assert!(refused >= 6 && limited >= 3, "{name}: {refused} {limited}");
        let rows: i64 = sqlx::query_scalar(
            "SELECT count(*) FROM audit WHERE principal = $1 AND detail ->> 'outcome' = 'denied'",
        )
        .bind(name)
        .fetch_one(&world.pool().await)
        .await
        .expect("audit");
        let wanted = if first == 403 { refused } else { 0 };
        assert_eq!(rows, wanted, "{name}");
    }
}

/// Two principals of one organisation, none of whom names it.
#[tokio::test]
async fn who_belongs_to_one_organisation_counts_for_it() {
    let world = World::start_with(|config, _| config.rates.write_per_organisation = 4).await;
    world.users(&["nora"]).await;
    let project = world.seeded.project_id.to_string();
    // the first one
    world.member(&project, "nora", "member").await;
    for subject in ["demo", "nora", "demo"] {
        let response = change_at(&world, &world.base, subject).await;
        assert_eq!(response.status(), 404);
        let policy = header(&response, "ratelimit-policy");
        assert!(
            policy.contains("\"write_per_organisation\";q=4;w=60"),
            "{policy}"
        );
    }
    for subject in ["nora", "demo"] {
        let response = change_at(&world, &world.base, subject).await;
        assert!(!header(&response, "retry-after").is_empty());
        let (status, body) = answer(response).await;
        assert_eq!((status, reason(&body)), (429, "RATE_LIMITED"), "{body}");
        let limit = &detail(&body, "ErrorInfo")["metadata"]["limit"];
        assert_eq!(limit, "write_per_organisation");
        let message = body["error"]["message"].as_str().expect("text");
        assert!(message.contains("of your organisation"), "{message}");
    }
}

/// A read is counted while it is answered. Who has read too much gets no answer, and asks no service for a moment.
#[tokio::test]
async fn reads_above_the_limit_are_refused_and_soon_reach_no_service() {
    let redis = redis().await;
    let world = World::build_on(4, &[], Some(redis.url()), |config, _| {
        config.rates.redis_timeout_milliseconds = PATIENT;
        config.rates.read_per_principal = 6;
    })
    .await;
    let read = async || {
        let target = format!("/api/v1/allocations/{}", Uuid::from_u128(7));
        let request = world.http.get(world.url(&target));
        let request = request.bearer_auth(world.token("demo"));
        request.send().await.expect("answer")
    };
    // the world read for itself, once or more
    for turn in 0.. {
        let response = read().await;
        if response.status() == 429 {
            break;
        }
        assert!(response.status() == 200 && turn < 6, "{turn}");
        let limit = header(&response, "ratelimit");
        assert!(limit.starts_with("\"read_per_principal\";r="), "{limit}");
    }
    let refused = async || {
        let response = read().await;
        let id = header(&response, "x-request-id");
        let (status, body) = answer(response).await;
        assert_eq!((status, reason(&body)), (429, "RATE_LIMITED"), "{body}");
        id
    };
    let first = refused().await;
    world.record.clear();
    for _ in 0..20 {
        refused().await;
    }
    // that of the first was on its way when it was refused, and may come now
    let mut seen = world.record.all();
    seen.retain(|seen| seen.caller.request_id != first);
    // a machine that stood still for the moment lets one more through
    assert!(seen.len() < 5, "{seen:?}");
}

/// The same for all that a limit counts for: once one principal of an organisation has read too much, another one of it asks no
/// service either.
#[tokio::test]
async fn reads_above_an_organisations_limit_reach_no_service_whoever_reads() {
    const READERS: usize = 10;
    // which counts while the service answers
    let redis = redis().await;
    let world = World::build_on(4, &[], Some(redis.url()), |config, _| {
        config.rates.redis_timeout_milliseconds = PATIENT;
        config.rates.read_per_organisation = 3;
    })
    .await;
    let project = world.seeded.project_id.to_string();
    let names: Vec<String> = (0..READERS)
        .map(|number| format!("reader{number}"))
        .collect();
    let subjects: Vec<&str> = names.iter().map(String::as_str).collect();
    world.users(&subjects).await;
    for name in &subjects {
        world.member(&project, name, "viewer").await;
    }
    let read = async |subject: &str| {
        let target = format!("/api/v1/allocations/{}", Uuid::from_u128(7));
        let request = world.http.get(world.url(&target));
        let request = request.bearer_auth(world.token(subject));
        answer(request.send().await.expect("answer")).await
    };
    // until there is no more
    while read("demo").await.0 == 200 {}
    world.record.clear();
    for subject in &subjects {
        let (status, body) = read(subject).await;
        assert_eq!((status, reason(&body)), (429, "RATE_LIMITED"), "{body}");
        let limit = &detail(&body, "ErrorInfo")["metadata"]["limit"];
        assert_eq!(limit, "read_per_organisation");
    }
    // a machine that stood still for the moment lets one more through
    let seen = world.record.all();
    assert!(seen.len() < 5, "{seen:?}");
}
