//! Allocations of all projects, and names for people.
use crate::support::{World, allocation, error};
use serde_json::{Value, json};

const PROJECT: &str = "01930000-0007-7000-8000-000000000007";
const NODE: &str = "01930000-0009-7000-8000-000000000009";
const ID: &str = "01930000-0001-7000-8000-000000000001";
const ALL: &str = "/api/v1/admin/allocations";

fn one(id: &str, name: &str, project: &str) -> Value {
    let mut one = allocation("active");
    one["id"] = json!(id);
    one["config"]["name"] = json!(name);
    one["config"]["project_id"] = json!(project);
    json!({ "allocation": one, "node_id": NODE })
}

fn world() -> World {
    let world = World::new();
    world.get(
        "/api/v1/admin/projects",
        json!({ "projects": [{ "id": PROJECT, "slug": "vision" }] }),
    );
    world.get(
        "/api/v1/admin/nodes",
        json!({ "nodes": [{ "id": NODE, "config": { "hostname": "gpu-07" }, "status": {} }] }),
    );
    world.get(
        ALL,
        json!({ "allocations": [one(ID, "trainer", PROJECT), one("0193ffff", "twin", PROJECT), one("0193eeee", "twin", "p2")] }),
    );
    world
}

#[test]
fn a_renamed_allocation_is_shown_by_both_names() {
    let world = world();
    let mut renamed = one(ID, "trainer", PROJECT);
    renamed["allocation"]["display_name"] = json!("Render farm");
    let member = renamed["allocation"].clone();
    world.get(ALL, json!({ "allocations": [renamed] }));
    world.get("/api/v1/allocations", json!({ "allocations": [member] }));
    world.get(
        "/api/v1/usage",
        json!({ "intervals": [{ "allocation_id": ID, "sku": "lab-slice", "gpu_count": 1, "microseconds": "90000000" }] }),
    );
    for list in [&["admin", "allocation", "list"][..], &["list"], &["usage"]] {
        let ran = world.run(list).ok();
        assert!(ran.out.contains("trainer (Render farm)"), "{ran:?}");
    }
}

#[test]
fn operators_read_the_usage_of_a_project_whatever_its_state() {
    let world = world();
    let usage = format!("/api/v1/admin/usage?project_id={PROJECT}");
    let money = json!({ "currency_code": "EUR", "units": "2", "nanos": 500_000_000 });
    let found = json!({ "intervals": [{ "allocation_id": ID, "sku": "lab-slice", "gpu_count": 1, "microseconds": "90000000", "amount": money }],
        "totals": [{ "gpu_microseconds": "90000000", "amount": money }] });
    world.get(&format!("{usage}&page_size=200"), found.clone());
    let one = format!("{usage}&allocation_id={ID}&page_size=200");
    world.get(&one, found);
    let list = ["admin", "usage", "list", "--project", "vision"];
    let ran = world.run(&list).ok();
    for shown in ["trainer", "lab-slice", "1m 30s", "Total: 2.50 EUR"] {
        assert!(ran.out.contains(shown), "{shown}: {}", ran.out);
    }
    world.run(&[&list[..], &["--allocation", ID]].concat()).ok();
    assert!(world.seen().iter().any(|seen| seen.target == one));
    // whose project it is, is never guessed
    assert_eq!(world.run(&["admin", "usage", "list"]).code, 2);
}

#[test]
fn a_list_of_all_projects_leaves_out_those_that_may_not_be_listed_and_names_them() {
    const ALLOCATIONS: &str = "/api/v1/allocations";
    let world = World::new();
    let projects = json!([{ "id": "p1", "slug": "audio" }, { "id": "p2", "slug": "vision" }]);
    let caller = json!({ "principal": "user:ada", "projects": projects });
    world.get("/api/v1/whoami", caller);
    let why = "The role billing may not list allocations.";
    let refused = (403, error(403, "PERMISSION_DENIED", why, &[]));
    let listed = (200, json!({ "allocations": [allocation("active")] }));
    world.on("GET", ALLOCATIONS, [refused.clone(), listed]);
    let list = ["list", "--all-projects", "--output", "name"];
    let ran = world.run(&list).ok();
    assert_eq!(ran.out.trim(), ID);
    assert!(ran.err.contains("p1") && ran.err.contains(why), "{ran:?}");
    assert!(!ran.err.contains("p2"), "{ran:?}");
    world.on("GET", ALLOCATIONS, [refused]);
    let ran = world.run(&list);
    assert!(ran.code == 4 && ran.out.is_empty(), "{ran:?}");
}

#[test]
fn operators_list_the_allocations_of_all_projects() {
    let world = world();
    let ran = world.run(&["admin", "allocation", "list"]).ok();
    for shown in ["trainer", "vision", "gpu-07", "active, running"] {
        assert!(ran.out.contains(shown), "{shown}: {}", ran.out);
    }
    let filters = [
        "--project",
        "vision",
        "--node",
        "gpu-07",
        "--state",
        "active",
        "--all",
    ];
    let list = ["admin", "allocation", "list"];
    world.run(&[&list[..], &filters].concat()).ok();
    let sent = world.seen();
    let requested = sent
        .iter()
        .rev()
        .find(|one| one.target.starts_with(&format!("{ALL}?")));
    let requested = &requested.expect("asked").target;
    for part in [
        format!("project_id={PROJECT}"),
        format!("node_id={NODE}"),
        "state=active".into(),
        "include_ended=true".into(),
    ] {
        assert!(requested.contains(&part), "{part}: {requested}");
    }
    let selected = [
        "--filter",
        "labels.team = \"ml\" AND gpu_count > 1",
        "--sort",
        "project_id, create_time desc",
    ];
    world.run(&[&list[..], &selected].concat()).ok();
    let sent = world.seen();
    let requested = sent.iter().rev().find(|one| one.target.starts_with(ALL));
    assert_eq!(
        requested
            .expect("asked")
            .target
            .replace("&page_size=200", ""),
        format!(
            "{ALL}?filter=labels.team+%3D+%22ml%22+AND+gpu_count+%3E+1&order_by=project_id%2C+create_time+desc"
        )
    );
    let ran = world.run(&[&list[..], &["--output", "name"]].concat()).ok();
    assert_eq!(ran.out.lines().next(), Some(ID));
    assert_eq!(
        world.run(&[&list[..], &["--state", "gone"]].concat()).code,
        2
    );
}

#[test]
fn an_operator_stops_and_releases_with_a_reason() {
    let world = world();
    for (verb, state) in [("stop", "active"), ("release", "releasing")] {
        let path = format!("{ALL}/{ID}:{verb}");
        world.on("POST", &path, [(200, allocation(state))]);
        assert_eq!(
            world.run(&["admin", "allocation", verb, "trainer"]).code,
            2,
            "no reason"
        );
        let ran = world
            .run(&[
                "admin",
                "allocation",
                verb,
                "trainer",
                "--reason",
                "new fans",
            ])
            .ok();
        assert!(
            ran.out.contains(state) && ran.out.contains("see the reason"),
            "{ran:?}"
        );
        let sent = world.changes().pop().expect("sent");
        assert!(sent.key.is_some());
        assert_eq!(sent.authorization.as_deref(), Some("Bearer admin-token"));
        assert_eq!(
            (sent.target, sent.body),
            (path, json!({ "reason": "new fans" }))
        );
    }
    let ran = world.run(&["admin", "allocation", "stop", "twin", "--reason", "r"]);
    assert!(
        ran.code == 2 && ran.err.contains("several projects"),
        "{ran:?}"
    );
    let ran = world.run(&["admin", "allocation", "stop", "trainre", "--reason", "r"]);
    assert!(
        ran.code == 3 && ran.err.contains("did you mean trainer?"),
        "{ran:?}"
    );
    let ran = world.run(&["admin", "allocation", "show", "0193"]);
    assert!(
        ran.code == 2 && ran.err.contains("enter more of the id"),
        "{ran:?}"
    );
    let path = format!("{ALL}/0193ffff:stop");
    world.on("POST", &path, [(200, allocation("active"))]);
    world
        .run(&["admin", "allocation", "stop", "0193f", "--reason", "r"])
        .ok();
}

#[test]
fn an_allocation_is_protected_from_release_or_ends_at_a_time() {
    let world = World::new();
    let path = format!("/api/v1/allocations/{ID}");
    let mut answer = allocation("active");
    answer["termination_protection"] = json!(true);
    world.on("PATCH", &path, [(200, answer)]);
    let ran = world.run(&["update", ID, "--protect"]).ok();
    assert!(ran.out.contains("is protected from release"), "{ran:?}");
    let body = || world.changes().pop().expect("sent").body;
    assert_eq!(body(), json!({ "termination_protection": true }));
    world
        .run(&[
            "update",
            ID,
            "--unprotect",
            "--release-at",
            "2027-01-31T12:00:00Z",
        ])
        .ok();
    assert_eq!(
        body(),
        json!({ "termination_protection": false, "auto_release_time": "2027-01-31T12:00:00Z" })
    );
    world.run(&["update", ID, "--no-release"]).ok();
    assert_eq!(body(), json!({ "no_auto_release": true }));
    for bad in [
        &["update", ID][..],
        &["update", ID, "--protect", "--unprotect"],
        &["update", ID, "--protect", "--release-at", "8h"],
    ] {
        assert_eq!(world.run(bad).code, 2, "{bad:?}");
    }
}

#[test]
fn an_allocation_is_renamed_and_shows_who_launched_it_and_what_it_has() {
    let world = World::new();
    let path = format!("/api/v1/allocations/{ID}");
    let mut shown = allocation("active");
    shown["id"] = json!(ID);
    shown["display_name"] = json!("Run 7");
    shown["creator"] = json!("user:alice");
    shown["status"]["resources"] =
        json!({ "vcpus": 24, "memory_mib": "65536", "disks": 1, "disk_bytes": "1073741824" });
    world.on("PATCH", &path, [(200, shown.clone())]);
    let ran = world.run(&["rename", ID, "Run 7"]).ok();
    assert!(ran.out.contains("is now called Run 7"), "{ran:?}");
    let sent = world.changes().pop().expect("sent");
    assert_eq!(
        (sent.method.as_str(), sent.body),
        ("PATCH", json!({ "display_name": "Run 7" }))
    );
    world.get(&path, shown);
    world.get(
        &format!("{path}/timeline"),
        json!({ "entries": [{ "sequence": "1", "step": "stopping", "state": "done", "message": "Accepted.", "actor": "operator", "reason": "new fans" }] }),
    );
    world.get("/api/v1/usage", json!({ "totals": [] }));
    let ran = world.run(&["show", ID]).ok();
    for text in [
        "Run 7",
        "by user:alice",
        "24 vCPU, 64.0 GiB memory, 1 disk with 1.0 GiB",
        "(by an operator: new fans)",
    ] {
        assert!(ran.out.contains(text), "{text}: {}", ran.out);
    }
}
