//! The audit trail of the whole cell, as administrators read it (P10).
use std::time::Duration;

use gpuaas_cli::audit_chain::{Chain, Place};
use gpuaas_common::audit::{self, Entry};
use gpuaas_dev::until::until_ok;
use reqwest::Method;
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Executor as _};

use crate::world::{World, answer, field, reason};

const PATH: &str = "/api/v1/admin/audit";
/// Longer than a few rounds of the sealer on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(20);

async fn list(world: &World, query: &str) -> Value {
    let (status, body) = world
        .call(Method::GET, &format!("{PATH}?{query}"), "admin")
        .await;
    assert_eq!(status, 200, "{query}: {body}");
    body
}

fn column<'a>(page: &'a Value, name: &str) -> Vec<&'a str> {
    let records = page["records"].as_array().expect("records");
    let text = |one: &'a Value| one[name].as_str().expect("text");
    records.iter().map(text).collect()
}

async fn record(world: &World, role: &str, principal: &str) {
    let pool = world.db.pool(role).await;
    let mut conn = pool.acquire().await.expect("a connection");
    let entry = Entry {
        principal,
        action: "price.put",
        resource: "thing",
        resource_id: "x",
        request_id: "r",
        detail: audit::with_digests(json!({}), None, Some(&String::new())),
    };
    audit::record(&mut conn, entry).await.expect("recorded");
}

/// All sealed records of a source, in pages, and what the first of them follows.
async fn export(world: &World, source: &str, wanted: usize) -> (Place, Vec<Value>) {
    until_ok("the records to be sealed", TIMEOUT, async || {
        let mut records: Vec<Value> = Vec::new();
        let mut start = None;
        loop {
            let after = records
                .last()
                .map_or("0", |last| last["position"].as_str().expect("a position"));
            let target = format!("{PATH}/{source}:export?after_position={after}&page_size=2");
            let (status, body) = world.call(Method::GET, &target, "admin").await;
            assert_eq!(status, 200, "{body}");
            start.get_or_insert(Place::read(&body["start"]).expect("a start"));
            let page = body["records"].as_array().expect("records");
            if page.is_empty() {
                break;
            }
            records.extend(page.iter().cloned());
        }
        match records.len() >= wanted {
            true => Ok((start.expect("a page"), records)),
            false => Err(format!("only {} are sealed", records.len())),
        }
    })
    .await
}

fn findings(start: &Place, records: &[Value]) -> Vec<String> {
    let mut chain = Chain::new("edge", start.clone(), &[]);
    for record in records {
        chain.add(record);
    }
    chain.finish().findings
}

#[tokio::test]
async fn p10_a_denial_says_who_from_where_and_is_found() {
    let world = World::start_with(|config, _| config.region = "r1".to_owned()).await;
    let denied = world
        .http
        .get(world.url(&format!("{PATH}/chains")))
        .bearer_auth(world.token("demo"))
        .header("user-agent", "curl/8.5 (x)")
        .header("x-request-id", "req-7")
        // whoever is no proxy speaks for himself
        .header("x-forwarded-for", "198.51.100.7")
        .header("x-client-address", "198.51.100.7");
    let (status, body) = answer(denied.send().await.expect("answer")).await;
    assert_eq!((status, reason(&body)), (403, "PERMISSION_DENIED"));

    let page = list(&world, "outcome=denied&source=edge").await;
    let one = &page["records"][0];
    for (name, value) in [
        ("principal", "user:demo"),
        ("action", "audit.list"),
        ("resource", "audit"),
        ("outcome", "denied"),
        ("request_id", "req-7"),
        ("address", "127.0.0.1"),
        ("user_agent", "curl/8.5 (x)"),
        ("region", "r1"),
        ("source", "edge"),
        ("service", "edge"),
    ] {
        assert_eq!(one[name], value, "{name}: {page}");
    }
    assert_eq!(
        list(&world, "outcome=allowed&source=edge").await["records"],
        json!([])
    );
    assert_eq!(list(&world, "request_id=req-8").await["records"], json!([]));
    assert_eq!(one["resource_id"], "", "the path names nothing");

    // whatever the path says it was about
    let node = "01a2b6f0-0000-7000-8000-0000000000aa";
    let long = "x".repeat(2_000);
    for (id, recorded) in [(node, node), (&long, &long[..200])] {
        let path = format!("/api/v1/admin/nodes/{id}:drain");
        let (status, body) = world.call(Method::POST, &path, "demo").await;
        assert_eq!(status, 403, "{body}");
        let page = list(&world, "outcome=denied&action=node.drain").await;
        assert_eq!(page["records"][0]["resource_id"], recorded, "{page}");
    }
}

#[tokio::test]
async fn p10_a_service_gets_where_a_call_comes_from() {
    let world = World::start_with(|config, _| config.region = "r1".to_owned()).await;
    let call = world
        .http
        .get(world.url("/api/v1/allocations"))
        .bearer_auth(world.token("demo"))
        .header("user-agent", "é".repeat(300));
    assert_eq!(answer(call.send().await.expect("answer")).await.0, 200);
    let seen = world.record.all();
    let origin = &seen.last().expect("a call").origin;
    assert_eq!(
        (origin.address.as_str(), origin.region.as_str()),
        ("127.0.0.1", "r1")
    );
    assert_eq!(origin.user_agent, "?".repeat(200));
}

#[tokio::test]
async fn p10_the_trail_of_all_sources_is_one_list_and_names_who_did_not_answer() {
    let world = World::start().await;
    for (role, principal) in [
        ("gpuaas_billing", "user:1"),
        ("gpuaas_edge", "user:2"),
        ("gpuaas_billing", "user:3"),
        ("gpuaas_edge", "user:4"),
        ("gpuaas_billing", "user:5"),
    ] {
        record(&world, role, principal).await;
    }
    let first = list(&world, "page_size=2").await;
    assert_eq!(column(&first, "principal"), ["user:5", "user:4"]);
    assert_eq!(column(&first, "source"), ["billing", "edge"]);
    // there is no such process in this world
    assert_eq!(
        first["unreachable_sources"],
        json!(["placement", "inventory", "images", "terminal"])
    );
    let next = |page: &Value, query: &str| {
        let token = page["next_page_token"].as_str().expect("a token");
        format!("page_size=2&{query}page_token={token}")
    };
    let second = list(&world, &next(&first, "")).await;
    assert_eq!(column(&second, "principal"), ["user:3", "user:2"]);
    let third = list(&world, &next(&second, "")).await;
    assert_eq!(column(&third, "principal"), ["user:1"]);
    assert_eq!(third["next_page_token"], "");

    let of_one = list(&world, "source=billing&principal=user:3").await;
    assert_eq!(column(&of_one, "principal"), ["user:3"]);
    assert_eq!(of_one["unreachable_sources"], json!([]));

    let target = format!("{PATH}?{}", next(&first, "principal=user:1&"));
    let (status, body) = world.call(Method::GET, &target, "admin").await;
    assert_eq!(
        (status, field(&body)),
        (400, "page_token"),
        "of another query"
    );
}

#[tokio::test]
async fn p10_an_export_is_verified_and_what_a_superuser_did_is_named() {
    let world = World::start().await;
    for number in 1..=6 {
        record(&world, "gpuaas_edge", &format!("user:{number}")).await;
        record(&world, "gpuaas_billing", &format!("user:{number}")).await;
    }
    // the same by the gateway itself and through a service
    let (start, _) = export(&world, "billing", 6).await;
    assert_eq!((start.position, start.digest), (0, "0".repeat(64)));
    let (start, sound) = export(&world, "edge", 6).await;
    assert_eq!(findings(&start, &sound), Vec::<String>::new());
    let (status, chains) = world
        .call(Method::GET, &format!("{PATH}/chains"), "admin")
        .await;
    assert_eq!(status, 200, "{chains}");
    let edge = chains["chains"].as_array().expect("chains");
    let edge = edge
        .iter()
        .find(|one| one["source"] == "edge")
        .expect("edge");
    assert_eq!(edge["head"]["digest"], sound[5]["digest"]);

    let mut superuser = world
        .db
        .server()
        .superuser(world.db.name())
        .await
        .expect("superuser");
    let id = |position: usize| {
        sound[position - 1]["id"]
            .as_str()
            .expect("an id")
            .to_owned()
    };
    // each is done to what the one before has left
    let table = [
        (
            "UPDATE edge.audit SET principal = 'user:mallory' WHERE position = 2",
            vec![format!("record {} at position 2 does not match", id(2))],
        ),
        (
            "UPDATE edge.audit SET principal = 'user:2' WHERE position = 2; DELETE FROM edge.audit WHERE position = 4",
            vec![format!(
                "the record at position 4 is missing; the next one is {}",
                id(5)
            )],
        ),
        (
            "UPDATE edge.audit SET position = 4 WHERE position = 6",
            vec![
                format!("record {} at position 4 does not match", id(6)),
                // what follows is compared with what now stands before it
                format!("record {} at position 5 does not match", id(5)),
            ],
        ),
    ];
    for (sql, expected) in table {
        let sql = format!("SET session_replication_role = replica; {sql}");
        superuser
            .execute(AssertSqlSafe(sql.clone()))
            .await
            .expect("done");
        let (start, records) = export(&world, "edge", 1).await;
        let found = findings(&start, &records);
        assert_eq!(found.len(), expected.len(), "{sql}: {found:?}");
        for (found, expected) in found.iter().zip(expected) {
            assert!(found.contains(&expected), "{sql}: {found}");
        }
    }
}

#[tokio::test]
async fn bad_reads_of_the_trail_are_refused_by_field() {
    let world = World::start().await;
    for (target, expected) in [
        ("?source=nothing", "source"),
        ("?outcome=perhaps", "outcome"),
        ("?page_size=-1", "page_size"),
        ("?page_token=x", "page_token"),
        (
            "?start_time=2026-01-02T00:00:00Z&end_time=2026-01-01T00:00:00Z",
            "end_time",
        ),
        ("?principal=%00", "principal"),
        ("/nothing:export", "source"),
        ("/edge:export?after_position=-1", "after_position"),
        ("/edge:export?after_position=99", "after_position"),
        ("/billing:export?after_position=99", "after_position"),
    ] {
        let (status, body) = world
            .call(Method::GET, &format!("{PATH}{target}"), "admin")
            .await;
        assert_eq!((status, field(&body)), (400, expected), "{target}: {body}");
    }
    let (status, body) = world
        .call(Method::GET, &format!("{PATH}/images:export"), "admin")
        .await;
    assert_eq!(
        (status, reason(&body)),
        (503, "DEPENDENCY_UNAVAILABLE"),
        "{body}"
    );
    for target in ["", "/chains", "/edge:export"] {
        let (status, _) = world
            .call(Method::GET, &format!("{PATH}{target}"), "demo")
            .await;
        assert_eq!(status, 403, "{target}");
    }
}
