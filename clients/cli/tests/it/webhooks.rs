//! Webhooks: made, changed, watched; a secret is alone on standard output, once.
use serde_json::{Value, json};

use crate::support::{World, error};

const PROJECT: &str = "01930000-0007-7000-8000-000000000007";
const WEBHOOK: &str = "01930000-0005-7000-8000-000000000005";

fn world() -> World {
    let world = World::new();
    world.get(
        "/api/v1/whoami",
        json!({ "projects": [{ "id": PROJECT, "slug": "vision" }] }),
    );
    world
}

fn last(world: &World) -> (String, String, Value) {
    let sent = world.changes().pop().expect("sent");
    assert!(sent.key.is_some());
    (sent.method, sent.target, sent.body)
}

#[test]
fn a_secret_is_printed_alone_and_once() {
    let world = world();
    let collection = format!("/api/v1/projects/{PROJECT}/webhooks");
    let made = json!({ "id": WEBHOOK, "secret": "whsec_eA==" });
    let again = json!({ "id": WEBHOOK, "secret": "" });
    world.on("POST", &collection, [(200, made.clone()), (200, again)]);
    let create = [
        "webhook",
        "create",
        "https://hooks.example.com/",
        "--event",
        "allocation.active",
        "--project",
        "vision",
    ];
    let ran = world.run(&create).ok();
    assert_eq!(ran.out, "whsec_eA==\n");
    let body = json!({ "url": "https://hooks.example.com/", "event_types": ["allocation.active"] });
    assert_eq!(last(&world), ("POST".to_owned(), collection, body));
    let named = [&create[..], &["--output", "name"]].concat();
    let whole = [&create[..], &["--output", "jsonl"]].concat();
    for again in [&create[..], &named, &whole] {
        let ran = world.run(again);
        assert!(
            ran.code == 1 && ran.out.is_empty() && ran.err.contains("not shown again"),
            "{ran:?}"
        );
    }

    let rotate = format!("/api/v1/webhooks/{WEBHOOK}:rotateSecret");
    world.on("POST", &rotate, [(200, made)]);
    let ran = world
        .run(&["webhook", "rotate-secret", WEBHOOK, "--overlap", "1h"])
        .ok();
    assert_eq!(ran.out, "whsec_eA==\n");
    assert_eq!(last(&world).2, json!({ "overlap": "3600s" }));
    let rotate = ["webhook", "rotate-secret", WEBHOOK, "-q"];
    let ran = world.run(&rotate).ok();
    assert_eq!(
        (ran.out.as_str(), ran.err.as_str()),
        ("whsec_eA==\n", ""),
        "a script keeps the secret itself"
    );
}

#[test]
fn webhooks_and_deliveries_are_listed_and_delivered_again() {
    let world = world();
    world.get(
        &format!("/api/v1/projects/{PROJECT}/webhooks"),
        json!({ "webhooks": [
            { "id": WEBHOOK, "url": "https://hooks.example.com/", "event_types": [], "state": "enabled",
              "failing_time": "2026-01-31T12:00:00Z" },
            { "id": "w2", "url": "https://old.example.com/", "event_types": ["allocation.failed"], "state": "disabled",
              "disable_reason": "The endpoint answered 410 Gone." },
        ] }),
    );
    let ran = world.run(&["webhook", "list"]).ok();
    for part in ["failing", "all", "410 Gone", "allocation.failed"] {
        assert!(ran.out.contains(part), "{part}: {ran:?}");
    }
    world.get(
        &format!("/api/v1/webhooks/{WEBHOOK}/deliveries"),
        json!({ "deliveries": [
            { "id": "d1", "event_type": "allocation.active", "state": "pending", "attempts": 2, "response_status": 500,
              "error": "the answer was 500" },
        ] }),
    );
    let ran = world.run(&["webhook", "delivery", "list", WEBHOOK]).ok();
    assert!(ran.out.contains("the answer was 500"), "{ran:?}");
    let redeliver = format!("/api/v1/webhooks/{WEBHOOK}/deliveries/d1:redeliver");
    world.on("POST", &redeliver, [(200, json!({ "id": "d1" }))]);
    world.run(&["webhook", "redeliver", WEBHOOK, "d1"]).ok();
    let one = format!("/api/v1/webhooks/{WEBHOOK}");
    world.on("PATCH", &one, [(200, json!({})), (200, json!({}))]);
    world.run(&["webhook", "disable", WEBHOOK]).ok();
    assert_eq!(last(&world).2, json!({ "disabled": true }));
    world
        .run(&["webhook", "update", WEBHOOK, "--event", "*"])
        .ok();
    assert_eq!(last(&world).2, json!({ "event_types": ["*"] }));
}

/// A newer platform has types that this program does not know; of those that there are not, it suggests the nearest.
#[test]
fn the_platform_decides_which_events_there_are() {
    let world = world();
    let collection = format!("/api/v1/projects/{PROJECT}/webhooks");
    let one = format!("/api/v1/webhooks/{WEBHOOK}");
    let made = json!({ "id": WEBHOOK, "secret": "whsec_eA==" });
    world.on("POST", &collection, [(200, made)]);
    let create = ["webhook", "create", "https://hooks.example.com/"];
    let newer = ["--event", "allocation.active", "--event", "volume.attached"];
    world.run(&[&create[..], &newer].concat()).ok();
    let types = json!(["allocation.active", "volume.attached"]);
    assert_eq!(last(&world).2["event_types"], types);

    let rule = "must be one of allocation.active, volume.attached";
    let message = format!("event_types[1]: {rule}");
    let refused = error(400, "FIELD_INVALID", &message, &[("event_types[1]", rule)]);
    world.on("POST", &collection, [(400, refused.clone())]);
    world.on("PATCH", &one, [(400, refused)]);
    let update = ["webhook", "update", WEBHOOK];
    for command in [&create[..], &update] {
        for (typed, near) in [("allocation.actve", true), ("volume.atached", false)] {
            let events = ["--event", "allocation.active", "--event", typed];
            let ran = world.run(&[command, &events].concat());
            assert!(ran.code == 2 && ran.err.contains(rule), "{ran:?}");
            let suggests = ran.err.contains("Did you mean allocation.active?");
            assert_eq!(suggests, near, "{ran:?}");
        }
    }

    // what a webhook of a project never gets is neither taken nor suggested
    let rule =
        "is only for webhooks of organisations; must be one of allocation.active, project.updated";
    let message = format!("event_types[0]: {rule}");
    let refused = error(400, "FIELD_INVALID", &message, &[("event_types[0]", rule)]);
    world.on("POST", &collection, [(400, refused.clone())]);
    world.on("PATCH", &one, [(400, refused)]);
    for command in [&create[..], &update] {
        for (typed, near) in [
            ("project.created", None),
            ("organisation_member.aded", None),
            ("project.update", Some("Did you mean project.updated?")),
        ] {
            let ran = world.run(&[command, &["--event", typed]].concat());
            assert!(ran.code == 2 && ran.err.contains(rule), "{ran:?}");
            assert_eq!(ran.err.contains("Did you mean"), near.is_some(), "{ran:?}");
            assert!(near.is_none_or(|near| ran.err.contains(near)), "{ran:?}");
        }
    }
    let help = world.run(&["webhook", "create", "--help"]).ok();
    assert!(help.out.contains("allocation.device_drift"), "{help:?}");
}
