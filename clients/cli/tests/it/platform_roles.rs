//! `admin principal` and `admin organisation` against a scripted API.
use serde_json::json;

use crate::support::World;

const ALICE: &str = "01930000-0000-7000-8000-00000000000a";
const ACME: &str = "01930000-0000-7000-8000-0000000000ac";
const PRINCIPALS: &str = "/api/v1/admin/principals";
const ORGANISATIONS: &str = "/api/v1/admin/organisations";

fn world() -> World {
    let world = World::new();
    let alice = json!({ "id": ALICE, "name": "user:alice", "display_name": "Alice", "kind": "user",
        "platform_role": "operator", "issuer": "https://login.example", "subject": "a-1" });
    let bob = json!({ "id": "01930000-0000-7000-8000-00000000000b", "name": "user:bob", "kind": "user",
        "platform_role": "unspecified", "disable_time": "2026-01-31T12:00:00Z" });
    world.get(PRINCIPALS, json!({ "principals": [alice, bob] }));
    world.get(&format!("{PRINCIPALS}/{ALICE}"), alice);
    let acme = json!({ "id": ACME, "slug": "acme", "display_name": "Acme", "state": "suspended", "state_reason": "unpaid" });
    world.get(ORGANISATIONS, json!({ "organisations": [acme] }));
    world.get(&format!("/api/v1/organisations/{ACME}"), acme);
    world.get(
        "/api/v1/admin/projects",
        json!({ "projects": [
            { "slug": "vision", "organisation_id": ACME, "state": "active" },
            { "slug": "old", "organisation_id": ACME, "state": "closed" }] }),
    );
    world
}

#[test]
fn principals_are_listed_and_described() {
    let world = world();
    let ran = world.run(&["admin", "principal", "list"]).ok();
    for part in ["user:alice", "operator", "user:bob", "disabled", ALICE] {
        assert!(ran.out.contains(part), "{part}: {}", ran.out);
    }
    assert!(!ran.out.contains("unspecified"), "{}", ran.out);
    let ran = world
        .run(&["admin", "principal", "show", "user:alice"])
        .ok();
    for part in ["Alice", "https://login.example", "a-1", "enabled"] {
        assert!(ran.out.contains(part), "{part}: {}", ran.out);
    }
    let flags = [
        "--kind",
        "service-account",
        "--role",
        "auditor",
        "--disabled",
    ];
    world
        .run(&[&["admin", "principal", "list"][..], &flags].concat())
        .ok();
    let asked = world.seen().pop().expect("asked").target;
    for part in [
        "kind=service_account",
        "platform_role=auditor",
        "disabled=true",
    ] {
        assert!(asked.contains(part), "{part}: {asked}");
    }
    let ran = world.run(&["admin", "principal", "show", "user:nobody"]);
    assert_eq!(ran.code, 3, "{ran:?}");
}

#[test]
fn principals_are_registered_disabled_and_given_roles() {
    let world = world();
    world.on("POST", PRINCIPALS, [(200, json!({}))]);
    let create = [
        "admin",
        "principal",
        "create",
        "user:dan",
        "--issuer",
        "https://login.example",
        "--subject",
        "d-1",
    ];
    world.run(&create).ok();
    let sent = world.changes().pop().expect("sent");
    let expected =
        json!({ "name": "user:dan", "issuer": "https://login.example", "subject": "d-1" });
    assert_eq!(sent.body, expected);
    assert!(sent.key.is_some());
    for (arguments, verb, body, sentence) in [
        (
            &["disable", "user:alice", "--reason", "left"][..],
            "disable",
            json!({ "reason": "left" }),
            "user:alice is disabled.",
        ),
        (&["enable", ALICE], "enable", json!({}), "is enabled."),
        (
            &["set-role", "user:alice", "auditor"],
            "setPlatformRole",
            json!({ "platform_role": "auditor" }),
            "has the role auditor",
        ),
        (
            &["set-role", "user:alice", "none"],
            "setPlatformRole",
            json!({}),
            "has no role",
        ),
    ] {
        let path = format!("{PRINCIPALS}/{ALICE}:{verb}");
        world.on("POST", &path, [(200, json!({}))]);
        let ran = world
            .run(&[&["admin", "principal"], arguments].concat())
            .ok();
        assert!(ran.out.contains(sentence), "{ran:?}");
        let sent = world.changes().pop().expect("sent");
        assert_eq!((sent.target, sent.body), (path, body));
    }
}

#[test]
fn organisations_are_listed_described_and_their_state_is_changed() {
    let world = world();
    let ran = world
        .run(&["admin", "organisation", "list", "--state", "suspended"])
        .ok();
    assert!(
        ran.out.contains("acme") && ran.out.contains("unpaid"),
        "{}",
        ran.out
    );
    let ran = world.run(&["admin", "organization", "show", "acme"]).ok();
    for part in ["suspended: unpaid", "vision, old (closed)", ACME] {
        assert!(ran.out.contains(part), "{part}: {}", ran.out);
    }
    let of_it = format!("organisation_id={ACME}");
    assert!(
        world.seen().iter().any(|sent| sent.target.contains(&of_it)),
        "the projects of other organisations are not read"
    );
    for (arguments, verb, body) in [
        (
            &["suspend", "acme", "--reason", "unpaid"][..],
            "suspend",
            json!({ "reason": "unpaid" }),
        ),
        (&["resume", "acme"], "resume", json!({})),
        (
            &["close", ACME, "--reason", "ended"],
            "close",
            json!({ "reason": "ended" }),
        ),
    ] {
        let path = format!("{ORGANISATIONS}/{ACME}:{verb}");
        world.on("POST", &path, [(200, json!({}))]);
        world
            .run(&[&["admin", "organisation"], arguments].concat())
            .ok();
        let sent = world.changes().pop().expect("sent");
        assert_eq!((sent.target, sent.body), (path, body));
    }
    world.on("POST", ORGANISATIONS, [(200, json!({}))]);
    world
        .run(&[
            "admin",
            "organisation",
            "create",
            "new",
            "--owner",
            "user:alice",
        ])
        .ok();
    let sent = world.changes().pop().expect("sent");
    assert_eq!(sent.body, json!({ "slug": "new", "owner": "user:alice" }));
    let ran = world.run(&["admin", "organisation", "show", "acmee"]);
    assert!(
        ran.code == 3 && ran.err.contains("did you mean acme?"),
        "{ran:?}"
    );
}
