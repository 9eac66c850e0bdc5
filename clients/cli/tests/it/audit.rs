//! The audit trail from the command line.
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::support::World;

const MEMBERS: [&str; 14] = [
    "action",
    "address",
    "create_time",
    "detail",
    "id",
    "position",
    "principal",
    "region",
    "request_id",
    "resource",
    "resource_id",
    "service",
    "source",
    "user_agent",
];

/// Records of a sound chain, as the API shows them.
fn records(source: &str, count: usize) -> Vec<Value> {
    let mut digest = vec![0; 32];
    let mut records = Vec::new();
    for position in 1..=count {
        let denied = position == 2;
        let mut record = json!({
            "id": format!("{source}-{position}"), "source": source, "service": source, "create_time": "2026-01-31T12:00:00Z",
            "principal": "user:alice", "action": "quota.set", "resource": "project", "resource_id": "p", "request_id": "req-1",
            "address": "192.0.2.1", "user_agent": "curl/8", "region": "", "detail": "{\"n\": 1}",
            "outcome": if denied { "denied" } else { "allowed" }, "position": position.to_string(),
        });
        // written out by hand: this is what is promised to others
        let members: Vec<String> = MEMBERS
            .iter()
            .map(|name| format!("\"{name}\":{}", record[name]))
            .collect();
        let mut hash = Sha256::new();
        hash.update(&digest);
        hash.update(format!("{{{}}}", members.join(",")));
        digest = hash.finalize().to_vec();
        record["digest"] = json!(hex::encode(&digest));
        records.push(record);
    }
    records
}

fn start() -> Value {
    json!({ "position": "0", "digest": "0".repeat(64) })
}

/// The API has these records of `edge`, and none of `billing`.
fn serve(world: &World, records: &[Value]) {
    let target = |source: &str, after: &str| {
        let after = match after {
            // where every chain begins
            "0" => String::new(),
            after => format!("after_position={after}&"),
        };
        format!("/api/v1/admin/audit/{source}:export?{after}page_size=500")
    };
    let chains = json!({ "chains": [{ "source": "edge" }, { "source": "billing" }], "unreachable_sources": [] });
    world.get("/api/v1/admin/audit/chains", chains);
    let none = json!({ "records": [], "start": start(), "head": start() });
    world.get(&target("billing", "0"), none.clone());
    // in pages of two
    let mut after = "0".to_owned();
    for page in records.chunks(2) {
        let answer = json!({ "records": page, "start": start() });
        world.get(&target("edge", &after), answer);
        let last = page.last().expect("a record");
        after = last["position"].as_str().expect("text").to_owned();
    }
    world.get(&target("edge", &after), none);
}

fn head(records: &[Value]) -> String {
    let last = records.last().expect("a record");
    let text = |name: &str| last[name].as_str().expect("text").to_owned();
    format!("edge:{}:{}", text("position"), text("digest"))
}

#[test]
fn p10_a_chain_is_verified_from_the_api_and_from_a_file() {
    let world = World::new();
    let sound = records("edge", 5);
    serve(&world, &sound);
    let ran = world.run(&["admin", "audit", "verify"]).ok();
    assert!(
        ran.out.contains(&head(&sound)) && ran.out.contains("All chains are intact."),
        "{ran:?}"
    );
    let file = world.path("audit.jsonl");
    let file = file.to_str().expect("text");
    let ran = world
        .run(&["admin", "audit", "export", "--file", file])
        .ok();
    assert!(ran.err.contains("Exported 5 records."), "{ran:?}");
    let ran = world
        .run(&[
            "admin",
            "audit",
            "verify",
            file,
            "--expect",
            &head(&sound),
            "--output",
            "json",
        ])
        .ok();
    let edge = &ran.json()["chains"][1];
    assert_eq!(
        (&edge["source"], &edge["records"]),
        (&json!("edge"), &json!(5))
    );

    // somebody changed a row: in what the API shows, and in the file
    let mut changed = sound.clone();
    changed[2]["principal"] = json!("user:mallory");
    serve(&world, &changed);
    let ran = world.run(&["admin", "audit", "verify"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(
        ran.err
            .contains("record edge-3 at position 3 does not match"),
        "{ran:?}"
    );
    let text = std::fs::read_to_string(file).expect("read");
    let without: Vec<&str> = text
        .lines()
        .filter(|line| !line.contains("edge-4"))
        .collect();
    std::fs::write(file, without.join("\n")).expect("write");
    let ran = world.run(&["admin", "audit", "verify", file]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(
        ran.err
            .contains("the record at position 4 is missing; the next one is edge-5"),
        "{ran:?}"
    );

    // the newest were cut off: the chain looks sound to who does not know its head
    serve(&world, &sound[..4]);
    world.run(&["admin", "audit", "verify"]).ok();
    let ran = world.run(&["admin", "audit", "verify", "--expect", &head(&sound)]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(
        ran.err
            .contains("ends at position 4, but position 5 is expected"),
        "{ran:?}"
    );
    let ran = world.run(&[
        "admin",
        "audit",
        "verify",
        "--source",
        "billing",
        "--expect",
        &head(&sound),
    ]);
    assert!(
        ran.code == 1 && ran.err.contains("the chain is missing"),
        "{ran:?}"
    );
}

#[test]
fn p10_a_file_is_verified_where_no_platform_is_known() {
    let world = World::new();
    serve(&world, &records("edge", 3));
    let path = world.path("audit.jsonl");
    let file = path.to_str().expect("text");
    world
        .run(&["admin", "audit", "export", "--file", file])
        .ok();
    std::fs::remove_file(world.path("profile.toml")).expect("removed");
    let ran = world.run(&["admin", "audit", "verify", file]).ok();
    assert!(ran.out.contains("All chains are intact."), "{ran:?}");
    let ran = world.run(&["admin", "audit", "verify"]);
    assert_ne!(ran.code, 0, "{ran:?}");
}

#[test]
fn an_export_is_continued_and_is_one_chain() {
    let world = World::new();
    let all = records("edge", 4);
    serve(&world, &all[..2]);
    let file = world.path("audit.jsonl");
    let file = file.to_str().expect("text");
    let export = [
        "admin", "audit", "export", "--source", "edge", "--file", file,
    ];
    world.run(&export).ok();
    let on =
        json!({ "records": all[2..], "start": { "position": "2", "digest": all[1]["digest"] } });
    let end = json!({ "records": [], "start": start() });
    world.get(
        "/api/v1/admin/audit/edge:export?after_position=2&page_size=500",
        on.clone(),
    );
    world.get(
        "/api/v1/admin/audit/edge:export?after_position=4&page_size=500",
        end,
    );
    world.run(&[&export[..], &["--after", "2"]].concat()).ok();
    let ran = world
        .run(&["admin", "audit", "verify", file, "--expect", &head(&all)])
        .ok();
    assert!(ran.out.contains(&head(&all)), "{ran:?}");
    let ran = world.run(&["admin", "audit", "export", "--after", "2"]);
    assert!(ran.code == 2 && ran.err.contains("--source"), "{ran:?}");
}

#[test]
fn what_proves_nothing_is_not_called_sound() {
    let world = World::new();
    let missing = json!({ "chains": [], "unreachable_sources": ["billing"] });
    world.get("/api/v1/admin/audit/chains", missing);
    let ran = world.run(&["admin", "audit", "verify"]);
    assert!(
        ran.code == 1 && ran.err.contains("billing did not answer"),
        "{ran:?}"
    );
    let file = world.path("bad.jsonl");
    for (text, problem) in [
        ("nonsense", "line 1: is not JSON"),
        ("{}", "line 1: names no source"),
        (
            "{\"source\": \"edge\", \"start\": {}}",
            "line 1: has a start without position or digest",
        ),
        (
            "{\"source\": \"edge\", \"id\": \"a\"}",
            "line 1: comes before the start of its source",
        ),
    ] {
        std::fs::write(&file, text).expect("write");
        let ran = world.run(&["admin", "audit", "verify", file.to_str().expect("text")]);
        assert!(
            ran.code == 2 && ran.err.contains(problem),
            "{text}: {ran:?}"
        );
    }
    // no chain, or another one than the asked, and a chain that is there beside it
    let begin = json!({ "source": "edge", "start": start() }).to_string();
    for (text, source, finding) in [
        ("", None, "no chain was read, which proves nothing"),
        ("", Some("edge"), "edge: the chain is missing"),
        (&*begin, Some("billing"), "billing: the chain is missing"),
        (&*begin, Some("edge"), ""),
    ] {
        std::fs::write(&file, text).expect("write");
        let verify = ["admin", "audit", "verify", file.to_str().expect("text")];
        let source = source.map_or(Vec::new(), |source| vec!["--source", source]);
        let ran = world.run(&[&verify[..], &source].concat());
        let is_sound = ran.out.contains("All chains are intact.");
        assert_eq!(
            (ran.code == 0, is_sound),
            (finding.is_empty(), finding.is_empty()),
            "{text} {source:?}: {ran:?}"
        );
        assert!(ran.err.contains(finding), "{finding}: {ran:?}");
    }
    let ran = world.run(&["admin", "audit", "verify", "--expect", "edge:x:y"]);
    assert!(
        ran.code == 2 && ran.err.contains("SOURCE:POSITION:DIGEST"),
        "{ran:?}"
    );
    // a source that gives the same page again and again is not read for ever
    let page = json!({ "records": records("edge", 1), "start": start() });
    world.get("/api/v1/admin/audit/edge:export", page);
    let ran = world.run(&["admin", "audit", "verify", "--source", "edge"]);
    assert!(ran.code == 1 && ran.err.contains("out of order"), "{ran:?}");
}

#[test]
fn records_are_listed_with_who_from_where() {
    let world = World::new();
    let found = json!({ "records": records("edge", 2), "next_page_token": "", "unreachable_sources": ["billing"] });
    world.get("/api/v1/admin/audit", found);
    let list = ["admin", "audit", "list"];
    let flags = [
        "--principal",
        "user:alice",
        "--outcome",
        "denied",
        "--since",
        "2026-01-31",
        "--limit",
        "7",
    ];
    let ran = world.run(&[&list[..], &flags].concat()).ok();
    assert!(ran.err.contains("billing did not answer"), "{ran:?}");
    for part in ["user:alice", "quota.set", "denied", "192.0.2.1", "req-1"] {
        assert!(ran.out.contains(part), "{part}: {ran:?}");
    }
    let seen = world.seen();
    let target = &seen[0].target;
    for part in [
        "principal=user%3Aalice",
        "outcome=denied",
        "start_time=2026-01-30T23%3A00%3A00Z",
        "page_size=7",
    ] {
        assert!(target.contains(part), "{part}: {target}");
    }
    let ran = world.run(&[&list[..], &["--output", "json"]].concat()).ok();
    assert_eq!(ran.json()["unreachable_sources"], json!(["billing"]));
    world.get(
        "/api/v1/admin/audit",
        json!({ "records": [], "next_page_token": "" }),
    );
    assert!(
        world
            .run(&list)
            .ok()
            .out
            .contains("No audit records match.")
    );
    let ran = world.run(&["admin", "audit", "list", "--since", "yesterday"]);
    assert!(
        ran.code == 2 && ran.err.contains("must be a time"),
        "{ran:?}"
    );
}

#[test]
fn a_list_is_read_page_by_page_up_to_its_limit() {
    let world = World::new();
    let all = records("edge", 3);
    let page = |records: &[Value], next: &str| json!({ "records": records, "next_page_token": next, "unreachable_sources": [] });
    world.get("/api/v1/admin/audit?page_size=3", page(&all[..2], "t"));
    world.get(
        "/api/v1/admin/audit?page_size=1&page_token=t",
        page(&all[2..], "u"),
    );
    let ran = world
        .run(&["admin", "audit", "list", "--limit", "3", "--output", "json"])
        .ok();
    assert_eq!(ran.json()["records"].as_array().expect("records").len(), 3);
}
