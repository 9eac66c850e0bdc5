//! What the owners of an organisation forbid binds who has a role in its projects, a grant, or a role on the platform.
use std::time::Duration;

use gpuaas_dev::until::until_ok;
use gpuaas_gateway::store::Role;
use gpuaas_gateway::store::Scope;
use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use super::grants::{last, opened};
use crate::access::key;
use crate::terminals::{answers, ended, opened_into};
use crate::upstream::SILENT;
use crate::world::{World, answer, detail, field, reason};

const VM: Uuid = Uuid::from_u128(0x81);

/// An organisation of olga, with mona as its member; in its project paula is an owner and vera a viewer. The other owner has an
/// organisation of her own.
pub(super) async fn start() -> (World, String) {
    let world = World::start_with(|config, _| config.terminal.access_seconds = 0.1).await;
    world
        .users(&["olga", "mona", "paula", "vera", "other"])
        .await;
    let organisation = world.seeded.organisation_id;
    let members = format!("/api/v1/organisations/{organisation}/members");
    for (who, role) in [("olga", "owner"), ("mona", "member")] {
        let body = json!({ "principal": format!("user:{who}"), "role": role });
        world.made("admin", &members, body).await;
    }
    let project = world.seeded.project_id.to_string();
    for (who, role) in [("paula", "owner"), ("vera", "viewer")] {
        world.member(&project, who, role).await;
    }
    world.organisation("other", "other").await;
    let guardrails = format!("/api/v1/organisations/{organisation}/guardrails");
    (world, guardrails)
}

async fn set(world: &World, target: &str, body: Value) -> Value {
    let (status, body) = world.send("olga", Method::PATCH, target, body).await;
    assert_eq!(status, 200, "{body}");
    body
}

/// Asks for a terminal at a gateway.
async fn terminal(world: &World, base: &str, who: &str) -> (u16, Value) {
    let request = world
        .http
        .post(format!("{base}/api/v1/allocations/{VM}/terminal-sessions"))
        .bearer_auth(world.token(who))
        .header("x-idempotency-key", Uuid::now_v7().to_string())
        .json(&json!({}));
    answer(request.send().await.expect("answer")).await
}

/// Repeats a try until it is answered so: gateways forget what they know of callers when they hear of a change.
async fn until(expected: u16, attempt: impl AsyncFn() -> (u16, Value)) -> Value {
    until_ok(
        "the change to be heard of",
        Duration::from_secs(20),
        async || {
            let (status, body) = attempt().await;
            match status == expected {
                true => Ok(body),
                false => Err(body.to_string()),
            }
        },
    )
    .await
}

/// A refusal names the guardrail and whose it is.
fn names(world: &World, refused: &Value, guardrail: &str) {
    assert_eq!(reason(refused), "GUARDRAIL", "{refused}");
    let metadata = &detail(refused, "ErrorInfo")["metadata"];
    assert_eq!(metadata["guardrail"], guardrail, "{refused}");
    let organisation = world.seeded.organisation_id.to_string();
    assert_eq!(metadata["organisation_id"], organisation, "{refused}");
    let message = refused["error"]["message"].as_str().expect("a message");
    assert!(
        message.contains(guardrail) && message.contains("lab"),
        "{message}"
    );
}

#[tokio::test]
async fn a_guardrail_of_an_organisation_ends_terminals_of_owners_and_grants_at_every_gateway() {
    let (world, guardrails) = start().await;
    let (_another, elsewhere) = world.another_gateway();
    world.until_answers(&elsewhere).await;
    let project = world.seeded.project_id;
    let grants = format!("/api/v1/projects/{project}/allocation-grants");
    let grant = json!({ "allocation_id": VM, "principal": "user:vera", "permission": "terminal" });
    world.made("paula", &grants, grant).await;
    for base in [&world.base, &elsewhere] {
        // sessions of the stand-in have the allocation's id, and belong to who opens the first: here to who has the grant
        for who in ["vera", "paula", "olga"] {
            until(200, async || terminal(&world, base, who).await).await;
        }
    }
    let mut open = Vec::new();
    for (who, vm) in [("paula", Uuid::from_u128(0x82)), ("vera", VM)] {
        let name = format!("user:{who}");
        let (mut one, whose) = opened_into(&world, &name, &world.token(who), vm).await;
        answers(&mut one, &whose).await;
        open.push(one);
    }

    let changed = set(&world, &guardrails, json!({ "terminals_disabled": true })).await;
    assert_eq!(changed["terminals_disabled"], true, "{changed}");
    for base in [&world.base, &elsewhere] {
        for who in ["paula", "vera", "olga"] {
            let refused = until(403, async || terminal(&world, base, who).await).await;
            names(&world, &refused, "terminals_disabled");
        }
    }
    for one in &mut open {
        ended(one).await;
    }
    let denied: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM audit WHERE action = 'terminal.create' AND detail ->> 'outcome' = 'denied'",
    )
    .fetch_one(&world.pool().await)
    .await
    .expect("rows");
    assert!(denied >= 6, "{denied} denials are on record");
    // nothing else is forbidden, until it is
    let log = format!("/api/v1/allocations/{SILENT}/serial-log?follow=true");
    let read = opened(&world, "paula", &log).await;
    world.record.until_open(1).await;
    let forbid = json!({ "serial_logs_disabled": true });
    set(&world, &guardrails, forbid).await;
    let told = last(read).await;
    assert_eq!(reason(&told), "PERMISSION_DENIED", "{told}");
    let log = format!("/api/v1/allocations/{VM}/serial-log");
    let refused = until(403, async || world.get("paula", &log).await).await;
    names(&world, &refused, "serial_logs_disabled");

    set(&world, &guardrails, json!({ "terminals_disabled": false })).await;
    for base in [&world.base, &elsewhere] {
        until(200, async || terminal(&world, base, "vera").await).await;
    }
}

#[tokio::test]
async fn launches_and_reservations_are_held_to_regions_and_skus() {
    let (world, guardrails) = start().await;
    let launch = |region: &str, sku: &str| json!({ "name": "a", "region_code": region, "sku": sku, "gpu_count": 1, "image": "i", "ssh_public_keys": ["k"] });
    let paths = [
        "/api/v1/allocations",
        "/api/v1/allocations:batchCreate",
        "/api/v1/capacity-reservations",
    ];
    let body = |path: &str, region: &str, sku: &str| match path {
        "/api/v1/allocations" => launch(region, sku),
        "/api/v1/allocations:batchCreate" => {
            json!({ "allocations": [launch("eu-1", "small"), launch(region, sku)] })
        }
        _ => json!({ "config": { "name": "r", "region_code": region, "sku": sku, "gpu_count": 1,
                                 "end_time": "2099-01-01T00:00:00Z" } }),
    };
    let send = async |path: &str, region: &str, sku: &str| {
        world.post_by("paula", path, body(path, region, sku)).await
    };
    // whatever the stand-ins answer, it is no refusal
    let passes = async |path: &str, region: &str, sku: &str| {
        let (status, answered) = send(path, region, sku).await;
        assert_ne!(status, 403, "{path}: {answered}");
    };
    for path in paths {
        passes(path, "us-1", "large").await;
    }
    let limits = json!({ "allowed_regions": { "names": ["eu-1", "eu-2"] }, "allowed_skus": { "names": ["small"] } });
    let changed = set(&world, &guardrails, limits).await;
    assert_eq!(changed["allowed_regions"], json!(["eu-1", "eu-2"]));
    for (path, part) in paths.iter().zip(["", "allocations[1].", "config."]) {
        let refused = until(403, async || send(path, "us-1", "small").await).await;
        names(&world, &refused, "allowed_regions");
        assert_eq!(field(&refused), format!("{part}region_code"), "{refused}");
        let violation = &detail(&refused, "BadRequest")["field_violations"][0];
        assert_eq!(violation["description"], "must be eu-1 or eu-2");
        world.record.clear();
        let (_, refused) = send(path, "eu-1", "large").await;
        names(&world, &refused, "allowed_skus");
        assert_eq!(field(&refused), format!("{part}sku"), "{refused}");
        assert!(world.record.all().is_empty(), "no service is asked");
        passes(path, "eu-2", "small").await;
    }
    // what an operator reserves for the project is, too; for one of another organisation it is not
    let reserve = "/api/v1/admin/capacity-reservations";
    let reserved = async |project: Uuid, region: &str, sku: &str| {
        let mut body = body("/api/v1/capacity-reservations", region, sku);
        body["config"]["project_id"] = json!(project);
        world.post_by("admin", reserve, body).await
    };
    for (region, sku, broken, field_name) in [
        ("us-1", "small", "allowed_regions", "config.region_code"),
        ("eu-1", "large", "allowed_skus", "config.sku"),
    ] {
        world.record.clear();
        let (status, refused) = reserved(world.seeded.project_id, region, sku).await;
        assert_eq!((status, reason(&refused)), (403, "GUARDRAIL"), "{refused}");
        names(&world, &refused, broken);
        assert_eq!(field(&refused), field_name, "{refused}");
        assert!(world.record.all().is_empty(), "no service is asked");
    }
    for (project, region) in [(world.seeded.project_id, "eu-2"), (Uuid::now_v7(), "us-1")] {
        let (status, answered) = reserved(project, region, "small").await;
        assert_ne!(status, 403, "{answered}");
    }
    // one that is named is held to them, too; a dry run as well
    let mut named = launch("us-1", "small");
    named["project_id"] = json!(world.seeded.project_id);
    named["validate_only"] = json!(true);
    let (status, refused) = world.post_by("paula", "/api/v1/allocations", named).await;
    assert_eq!((status, reason(&refused)), (403, "GUARDRAIL"), "{refused}");
    // who is in a project of another organisation is not
    let (status, all) = world.get("other", "/api/v1/organisations").await;
    assert_eq!(status, 200, "{all}");
    let other = all["organisations"][0]["id"].as_str().expect("an id");
    world.project(other, "own", "other").await;
    let allowed = async || {
        world
            .post_by("other", "/api/v1/allocations", launch("us-1", "large"))
            .await
    };
    until(200, allowed).await;
    set(
        &world,
        &guardrails,
        json!({ "allowed_regions": {}, "allowed_skus": { "names": [] } }),
    )
    .await;
    until(200, async || {
        send("/api/v1/allocations", "us-1", "large").await
    })
    .await;
}

#[tokio::test]
async fn api_keys_end_in_time_or_are_none() {
    let (world, guardrails) = start().await;
    let project = world.seeded.project_id;
    let accounts = format!("/api/v1/projects/{project}/service-accounts");
    let account = world
        .made(
            "paula",
            &accounts,
            json!({ "slug": "ci", "role": "member" }),
        )
        .await;
    let keys = format!(
        "{accounts}/{}/api-keys",
        account["id"].as_str().expect("id")
    );
    let in_days = |days: i64| {
        let at = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(24 * days);
        json!({ "scopes": ["read"], "expire_time": at.to_string() })
    };
    let old = world.made("paula", &keys, in_days(365)).await;
    set(&world, &guardrails, json!({ "max_api_key_days": 30 })).await;
    let rotate = format!("{keys}/{}:rotate", old["id"].as_str().expect("id"));
    for (target, body) in [
        (&keys, json!({ "scopes": ["read"] })),
        (&keys, in_days(31)),
        // as long as the one before
        (&rotate, json!({})),
    ] {
        for who in ["paula", "olga", "admin"] {
            let (status, refused) = world.post_by(who, target, body.clone()).await;
            assert_eq!(status, 403, "{refused}");
            names(&world, &refused, "max_api_key_days");
            assert_eq!(field(&refused), "expire_time", "{refused}");
        }
    }
    let (_, listed) = world.get("paula", &keys).await;
    assert_eq!(listed["api_keys"].as_array().map(Vec::len), Some(1));
    world.made("paula", &keys, in_days(30)).await;

    let pool = world.pool().await;
    let in_use = key(&pool, project, Role::Owner, &[Scope::Read]).await;
    let list = async || {
        let request = world.http.get(world.url("/api/v1/allocations"));
        answer(
            request
                .bearer_auth(in_use.reveal())
                .send()
                .await
                .expect("answer"),
        )
        .await
    };
    until(200, &list).await;
    set(&world, &guardrails, json!({ "api_keys_disabled": true })).await;
    let refused = until(403, &list).await;
    names(&world, &refused, "api_keys_disabled");
    let organisation = world.seeded.organisation_id;
    for target in [
        "/api/v1/projects".to_owned(),
        format!("/api/v1/projects?organisation_id={organisation}"),
        format!("/api/v1/projects?organisation_id={organisation}&filter=slug:*"),
        format!("/api/v1/organisations/{organisation}"),
    ] {
        let request = world.http.get(world.url(&target));
        let request = request.bearer_auth(in_use.reveal());
        let (status, refused) = answer(request.send().await.expect("answer")).await;
        assert_eq!(
            (status, reason(&refused)),
            (403, "GUARDRAIL"),
            "{target}: {refused}"
        );
        names(&world, &refused, "api_keys_disabled");
    }
    let (status, refused) = world.post_by("paula", &keys, in_days(1)).await;
    assert_eq!(status, 403, "{refused}");
    names(&world, &refused, "api_keys_disabled");
    // a person goes on
    assert_eq!(world.get("paula", "/api/v1/allocations").await.0, 200);
    set(&world, &guardrails, json!({ "api_keys_disabled": false })).await;
    until(200, &list).await;
}

#[tokio::test]
async fn webhooks_are_disabled_and_stay_so_until_they_may_be() {
    let (world, guardrails) = start().await;
    let organisation = world.seeded.organisation_id;
    let of = [
        format!("/api/v1/projects/{}/webhooks", world.seeded.project_id),
        format!("/api/v1/organisations/{organisation}/webhooks"),
    ];
    let body = json!({ "url": "https://hooks.example.com/", "event_types": ["allocation.active"] });
    let mut made = Vec::new();
    for target in &of {
        let webhook = world.made("olga", target, body.clone()).await;
        made.push(format!(
            "/api/v1/webhooks/{}",
            webhook["id"].as_str().expect("id")
        ));
    }
    set(&world, &guardrails, json!({ "webhooks_disabled": true })).await;
    for one in &made {
        let (_, webhook) = world.get("olga", one).await;
        assert_eq!(webhook["state"], "disabled", "{webhook}");
        let why = webhook["disable_reason"].as_str().expect("a reason");
        assert!(why.contains("webhooks_disabled"), "{why}");
        let enable = json!({ "disabled": false });
        let (status, refused) = world.send("olga", Method::PATCH, one, enable).await;
        assert_eq!(status, 403, "{refused}");
        names(&world, &refused, "webhooks_disabled");
    }
    for target in &of {
        for who in ["olga", "admin"] {
            let (status, refused) = world.post_by(who, target, body.clone()).await;
            assert_eq!(status, 403, "{refused}");
            names(&world, &refused, "webhooks_disabled");
        }
        let (status, listed) = world.get("olga", target).await;
        assert_eq!(status, 200, "{listed}");
        assert_eq!(listed["webhooks"].as_array().map(Vec::len), Some(1));
    }
    // nobody is kept from deleting one
    let (status, body) = world
        .send("olga", Method::DELETE, &made[0], Value::Null)
        .await;
    assert_eq!(status, 200, "{body}");
    set(&world, &guardrails, json!({ "webhooks_disabled": false })).await;
    let (_, still) = world.get("olga", &made[1]).await;
    assert_eq!(still["state"], "disabled", "{still}");
    let enable = async || {
        let body = json!({ "disabled": false });
        world.send("olga", Method::PATCH, &made[1], body).await
    };
    let enabled = until(200, enable).await;
    assert_eq!(enabled["state"], "enabled", "{enabled}");
}

#[tokio::test]
async fn guardrails_are_changed_by_owners_and_read_by_whom_they_bind() {
    let (world, guardrails) = start().await;
    let (_, none) = world.get("olga", &guardrails).await;
    assert_eq!(none["etag"], "0", "{none}");
    assert!(none["update_time"].is_null(), "{none}");
    for who in ["mona", "paula", "vera", "admin"] {
        assert_eq!(world.get(who, &guardrails).await.0, 200, "{who}");
    }
    let forbid = json!({ "webhooks_disabled": true });
    for who in ["mona", "paula", "vera"] {
        let (status, refused) = world
            .send(who, Method::PATCH, &guardrails, forbid.clone())
            .await;
        assert_eq!(
            (status, reason(&refused)),
            (403, "PERMISSION_DENIED"),
            "{who}"
        );
    }
    let absent = format!("/api/v1/organisations/{}/guardrails", Uuid::now_v7());
    for target in [&guardrails, &absent] {
        assert_eq!(world.get("other", target).await.0, 404);
        let (status, _) = world
            .send("other", Method::PATCH, target, forbid.clone())
            .await;
        assert_eq!(status, 404);
    }
    let too_many: Vec<String> = (0..101).map(|number| format!("r{number}")).collect();
    for (bad, of) in [
        (json!({ "max_api_key_days": 3651 }), "max_api_key_days"),
        (
            json!({ "allowed_regions": { "names": ["eu-1", "EU"] } }),
            "allowed_regions.names[1]",
        ),
        (
            json!({ "allowed_skus": { "names": ["a", "a"] } }),
            "allowed_skus.names[1]",
        ),
        (
            json!({ "allowed_regions": { "names": too_many } }),
            "allowed_regions.names",
        ),
    ] {
        let mut bad = bad;
        bad["terminals_disabled"] = json!(true);
        let (status, refused) = world.send("olga", Method::PATCH, &guardrails, bad).await;
        assert_eq!((status, field(&refused)), (400, of), "{refused}");
        assert_eq!(reason(&refused), "FIELD_INVALID", "{refused}");
    }
    assert_eq!(
        world.get("olga", &guardrails).await.1,
        none,
        "nothing has changed"
    );
    assert_eq!(world.recorded("organisation_guardrails.update").await, 0);

    let first = json!({ "etag": "0", "serial_logs_disabled": true, "allowed_skus": { "names": ["small", "large"] } });
    let key = Uuid::now_v7().to_string();
    for _ in 0..2 {
        let (status, body) = world
            .send_as("olga", Method::PATCH, &guardrails, first.clone(), &key)
            .await;
        assert_eq!((status, &body["etag"]), (200, &json!("1")), "{body}");
        assert_eq!(body["allowed_skus"], json!(["large", "small"]), "{body}");
    }
    let (status, refused) = world
        .send("olga", Method::PATCH, &guardrails, first.clone())
        .await;
    assert_eq!((status, reason(&refused)), (409, "ETAG_STALE"), "{refused}");
    let more = json!({ "max_api_key_days": 7 });
    let (status, body) = world.send("admin", Method::PATCH, &guardrails, more).await;
    assert_eq!(status, 200, "{body}");
    assert_eq!(
        (&body["serial_logs_disabled"], &body["max_api_key_days"]),
        (&json!(true), &json!(7)),
        "what is left out stays"
    );
    let details: Vec<Value> = sqlx::query_scalar(
        "SELECT detail FROM audit WHERE action = 'organisation_guardrails.update' AND detail ->> 'outcome' IS NULL ORDER BY seq",
    )
    .fetch_all(&world.pool().await)
    .await
    .expect("rows");
    assert_eq!(details.len(), 2, "{details:?}");
    assert_eq!(details[1]["before"]["max_api_key_days"], 0, "{details:?}");
    assert_eq!(details[1]["after"]["max_api_key_days"], 7, "{details:?}");
}
