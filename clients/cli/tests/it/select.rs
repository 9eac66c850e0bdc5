//! `--filter` and `--sort` of the lists, and `--etag` of what is changed.
use serde_json::{Value, json};

use crate::support::World;

const PROJECT: &str = "01930000-0007-7000-8000-000000000007";
const ACCOUNT: &str = "01930000-0004-7000-8000-000000000004";
const HOOK: &str = "01930000-0005-7000-8000-000000000005";

#[test]
fn lists_are_filtered_and_ordered_by_the_api_and_say_that_nothing_matches() {
    let world = World::new();
    let of_project = format!("/api/v1/projects/{PROJECT}");
    let whoami = json!({ "projects": [{ "id": PROJECT, "slug": "vision" }] });
    world.get("/api/v1/whoami", whoami);
    let accounts = json!({ "service_accounts": [{ "id": ACCOUNT, "slug": "ci" }] });
    world.get(&format!("{of_project}/service-accounts"), accounts);
    world.get(
        "/api/v1/organisations",
        json!({ "organisations": [{ "id": ACCOUNT, "slug": "acme" }] }),
    );
    world.get("/api/v1/admin/nodes", json!({ "nodes": [{ "id": HOOK }] }));
    let slots = format!("/api/v1/admin/nodes/{HOOK}/resource-slots");
    world.get(&slots, json!({ "slots": [{ "id": HOOK }] }));
    let lists: [(&[&str], &str, String); 30] = [
        (
            &["admin", "queue", "list", "--region", "eu"],
            "requests",
            "/api/v1/admin/queue".into(),
        ),
        (
            &["reservation", "list"],
            "reservations",
            "/api/v1/capacity-reservations".into(),
        ),
        (
            &["admin", "reservation", "list"],
            "reservations",
            "/api/v1/admin/capacity-reservations".into(),
        ),
        (
            &["admin", "agent-rollout", "list"],
            "rollouts",
            "/api/v1/admin/agent-rollouts".into(),
        ),
        (
            &["organisation", "scim", "key", "list", "acme"],
            "keys",
            format!("/api/v1/organisations/{ACCOUNT}/scim/keys"),
        ),
        (
            &["admin", "node", "history", HOOK],
            "entries",
            format!("/api/v1/admin/nodes/{HOOK}/history"),
        ),
        (
            &["admin", "slot", "history", HOOK, HOOK],
            "entries",
            format!("/api/v1/admin/nodes/{HOOK}/resource-slots/{HOOK}/history"),
        ),
        (
            &["organisation", "scim", "group", "list", "acme"],
            "groups",
            format!("/api/v1/organisations/{ACCOUNT}/scim/groups"),
        ),
        (
            &["admin", "node", "break-fix", "list", HOOK],
            "break_fixes",
            format!("/api/v1/admin/nodes/{HOOK}/break-fixes"),
        ),
        (
            &["admin", "node", "finding", "list", HOOK],
            "findings",
            format!("/api/v1/admin/nodes/{HOOK}/findings"),
        ),
        (
            &["ingress", "list", HOOK],
            "ingress_mappings",
            format!("/api/v1/allocations/{HOOK}/ingress-mappings"),
        ),
        (
            &["terminal-session", "list", HOOK],
            "sessions",
            format!("/api/v1/allocations/{HOOK}/terminal-sessions"),
        ),
        (
            &["admin", "terminal-sessions", "ls"],
            "sessions",
            "/api/v1/admin/terminal-sessions".into(),
        ),
        (
            &["health-event", "list", "--project", PROJECT],
            "events",
            "/api/v1/health-events".into(),
        ),
        (
            &["health-event", "list", "--allocation", HOOK],
            "events",
            "/api/v1/health-events".into(),
        ),
        (&["admin", "slot", "list", HOOK], "slots", slots.clone()),
        (
            &["certificate", HOOK],
            "certificates",
            format!("/api/v1/allocations/{HOOK}/wipe-certificates"),
        ),
        (
            &["admin", "certificate", "list", HOOK, HOOK],
            "certificates",
            format!("{slots}/{HOOK}/wipe-certificates"),
        ),
        (&["region", "list"], "regions", "/api/v1/regions".into()),
        (
            &["admin", "region", "list"],
            "regions",
            "/api/v1/regions".into(),
        ),
        (
            &["admin", "price", "list"],
            "price_versions",
            "/api/v1/admin/prices".into(),
        ),
        (
            &["admin", "image", "list"],
            "images",
            "/api/v1/admin/images".into(),
        ),
        (&["ssh-key", "list"], "ssh_keys", "/api/v1/ssh-keys".into()),
        (
            &["ssh-key", "list", "--project", PROJECT],
            "ssh_keys",
            format!("{of_project}/ssh-keys"),
        ),
        (
            &["grant", "list"],
            "grants",
            format!("{of_project}/allocation-grants"),
        ),
        (
            &["member", "invitation", "list"],
            "invitations",
            format!("{of_project}/invitations"),
        ),
        (
            // its former name
            &["member", "invitations"],
            "invitations",
            format!("{of_project}/invitations"),
        ),
        (
            &["api-key", "list", "ci"],
            "api_keys",
            format!("{of_project}/service-accounts/{ACCOUNT}/api-keys"),
        ),
        (
            &["webhook", "delivery", "list", HOOK],
            "deliveries",
            format!("/api/v1/webhooks/{HOOK}/deliveries"),
        ),
        (
            // its former name
            &["webhook", "deliveries", HOOK],
            "deliveries",
            format!("/api/v1/webhooks/{HOOK}/deliveries"),
        ),
    ];
    for (command, list, path) in lists {
        world.get(&path, json!({ list: [] }));
        let plain = world.run(command).ok().out;
        assert!(!plain.contains("matches"), "{command:?}: {plain}");
        let selected = ["--filter", "name = a", "--sort", "name desc"];
        let said = world.run(&[command, &selected].concat()).ok().out;
        assert!(said.contains("matches the filter"), "{command:?}: {said}");
        let asked = world.seen().pop().expect("asked").target;
        for part in [path.as_str(), "filter=name+%3D+a", "order_by=name+desc"] {
            assert!(asked.contains(part), "{command:?}: {asked}");
        }
    }
}

#[test]
fn a_change_names_the_etag_that_was_read() {
    let world = World::new();
    let of_project = format!("/api/v1/admin/projects/{PROJECT}");
    world.get("/api/v1/regions", json!({ "regions": [] }));
    world.get("/api/v1/skus", json!({ "skus": [] }));
    let sku = [
        "admin",
        "sku",
        "set",
        "lab-slice",
        "--slot-class",
        "lab",
        "--gpu-counts",
        "1",
        "--profile",
        "p",
        "--vcpus",
        "1",
        "--memory",
        "1024",
    ];
    let changes: [(&[&str], &str, String); 8] = [
        (
            &["admin", "region", "set", "eu"],
            "PUT",
            "/api/v1/admin/regions/eu".into(),
        ),
        (&sku, "PUT", "/api/v1/admin/skus/lab-slice".into()),
        (
            &["admin", "image", "set-status", "cuda", "active"],
            "POST",
            "/api/v1/admin/images/cuda:setStatus".into(),
        ),
        (
            &[
                "admin",
                "quota",
                "set",
                PROJECT,
                "lab-slice",
                "--max-gpus",
                "1",
            ],
            "PUT",
            format!("{of_project}/quotas/lab-slice"),
        ),
        (
            &["admin", "quota", "set-allocations", PROJECT, "--max", "1"],
            "PUT",
            format!("{of_project}/allocation-limit"),
        ),
        (
            &["admin", "queue", "set-priority", PROJECT, "high"],
            "PUT",
            format!("{of_project}/priority"),
        ),
        (
            &["admin", "reservation", "limit", PROJECT, "4"],
            "PUT",
            format!("{of_project}/reservation-limit"),
        ),
        (
            &["network", "--project", PROJECT, "--between-vms", "allow"],
            "PUT",
            "/api/v1/project-network".into(),
        ),
    ];
    for (command, verb, path) in changes {
        world.on(verb, &path, [(200, json!({})), (200, json!({}))]);
        for (flags, expected) in [
            (&["--output", "table"][..], Value::Null),
            (&["--etag", "1f"], json!("1f")),
        ] {
            world.run(&[command, flags].concat()).ok();
            let sent = world.changes().pop().expect("a change");
            assert_eq!(
                (&sent.target, &sent.body["etag"]),
                (&path, &expected),
                "{command:?}"
            );
        }
    }
}
