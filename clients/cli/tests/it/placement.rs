//! What a person sees of placement: several at once, a queue position, nodes in and out of it.
use crate::support::{Ran, World, error, explanation};
use serde_json::{Value, json};

const NODE: &str = "01930000-0009-7000-8000-000000000009";
const FIRST: &str = "01930000-0001-7000-8000-000000000001";

fn post(world: &World, path: &str, answer: Value) {
    world.on("POST", path, [(200, answer)]);
}

fn placement(state: &str, claims: u32) -> Value {
    json!({ "node_id": NODE, "hostname": "h1", "region_code": "lab", "mode": "slice", "admin_state": state,
            "admin_reason": "rack move", "schedulable": true, "live_claims": claims, "live_allocations": claims,
            "drained": state == "draining" && claims == 0 })
}

#[test]
fn nodes_are_cordoned_drained_and_shown() {
    let world = World::new();
    let node = json!({ "nodes": [{ "id": NODE, "config": { "hostname": "h1" }, "status": {} }] });
    world.get("/api/v1/admin/nodes", node);
    world.get(
        "/api/v1/admin/node-placements",
        json!({ "nodes": [placement("draining", 2)] }),
    );
    let ran = world.run(&["admin", "node", "list"]).ok();
    assert!(
        ran.out.contains("draining, 2 claim(s) left: rack move"),
        "{}",
        ran.out
    );
    let reported: Value = serde_json::from_str(
        &world
            .run(&["admin", "node", "list", "--output", "json"])
            .ok()
            .out,
    )
    .expect("JSON");
    assert_eq!(reported["nodes"][0]["placement"]["live_claims"], 2);

    post(
        &world,
        &format!("/api/v1/admin/nodes/{NODE}:cordon"),
        placement("cordoned", 1),
    );
    let ran = world
        .run(&["admin", "node", "cordon", "h1", "--reason", "rack move"])
        .ok();
    assert!(
        ran.out
            .starts_with("Node h1 is cordoned (rack move): it takes no new allocations;"),
        "{}",
        ran.out
    );
    let sent = world.changes().pop().expect("a change");
    assert_eq!(sent.body, json!({ "reason": "rack move" }));
    assert!(sent.key.is_some());

    post(
        &world,
        &format!("/api/v1/admin/nodes/{NODE}:drain"),
        placement("draining", 2),
    );
    world.on(
        "GET",
        &format!("/api/v1/admin/nodes/{NODE}/placement"),
        [2, 1, 1, 0].map(|claims| (200, placement("draining", claims))),
    );
    let slots = |holders: &[&str]| {
        let slots = holders.iter().map(|id| json!({ "allocation_id": id }));
        json!({ "slots": slots.collect::<Vec<_>>() })
    };
    world.on(
        "GET",
        &format!("/api/v1/admin/nodes/{NODE}/resource-slots"),
        [
            (200, slots(&[FIRST, NODE, NODE, ""])),
            (200, slots(&["", NODE, NODE, ""])),
        ],
    );
    for (id, name) in [(FIRST, "a"), (NODE, "onres")] {
        world.get(
            &format!("/api/v1/admin/allocations/{id}"),
            json!({ "allocation": { "id": id, "config": { "name": name } } }),
        );
    }
    let ran = world
        .run(&[
            "admin",
            "node",
            "drain",
            "h1",
            "--reason",
            "rack move",
            "--wait",
        ])
        .ok();
    assert!(
        ran.out
            .contains("is drained (rack move): it has no allocations."),
        "{}",
        ran.out
    );
    assert_eq!(
        ran.err,
        "2 allocations left: a, onres\n1 allocation left: onres\n"
    );
    let ran = world.run(&["admin", "node", "placement", "h1"]).ok();
    assert!(ran.out.contains("is drained"));
    post(
        &world,
        &format!("/api/v1/admin/nodes/{NODE}:uncordon"),
        placement("enabled", 1),
    );
    let ran = world.run(&["admin", "node", "uncordon", "h1"]).ok();
    assert!(
        ran.out
            .contains("takes allocations; it has 1 claim(s) of 1 allocation(s)."),
        "{}",
        ran.out
    );
    assert_eq!(
        world.run(&["admin", "node", "drain", "h1"]).code,
        2,
        "a reason is needed"
    );
}

#[test]
fn a_drain_that_does_not_end_in_time_says_what_is_left() {
    let world = World::new();
    post(
        &world,
        &format!("/api/v1/admin/nodes/{NODE}:drain"),
        placement("draining", 3),
    );
    // bare metal has no slots that name their allocations
    let slots = format!("/api/v1/admin/nodes/{NODE}/resource-slots");
    world.get(&slots, json!({}));
    let ran = world.run(&[
        "admin",
        "node",
        "drain",
        NODE,
        "--reason",
        "r",
        "--wait",
        "--timeout",
        "0",
    ]);
    assert_eq!(ran.code, 1);
    assert!(
        ran.err.starts_with("3 allocations left\n")
            && ran.err.contains("is not empty after 0 s: 3 claim(s)"),
        "{}",
        ran.err
    );
}

#[test]
fn several_are_launched_in_one_call_with_anti_affinity() {
    let world = World::new();
    let key = world.home.path().join("k.pub");
    std::fs::write(&key, "ssh-ed25519 AAAA me\n").expect("write");
    let key = key.to_str().expect("path");
    let launch = |more: &[&str]| {
        let mut arguments = vec![
            "launch",
            "--sku",
            "lab-slice",
            "--image",
            "i",
            "--ssh-key",
            key,
            "--region",
            "lab",
            "--name",
            "web",
        ];
        arguments.extend(more);
        world.run(&arguments)
    };
    post(
        &world,
        "/api/v1/allocations:batchCreate",
        json!({ "allocations": [
            { "id": FIRST, "config": { "name": "web-1" }, "status": { "state": "reserved" } },
            { "id": NODE, "config": { "name": "web-2" }, "status": { "state": "reserved" } }
        ] }),
    );
    let ran = launch(&[
        "--count",
        "2",
        "--anti-affinity",
        FIRST,
        "--anti-affinity-label",
        "app=web",
    ])
    .ok();
    assert!(
        ran.err.contains("Launched web-1") && ran.err.contains("Launched web-2"),
        "{}",
        ran.err
    );
    let sent = world.changes().pop().expect("a change");
    let names: Vec<&Value> = sent.body["allocations"]
        .as_array()
        .expect("batch")
        .iter()
        .map(|a| &a["name"])
        .collect();
    assert_eq!(names, ["web-1", "web-2"]);
    assert_eq!(
        sent.body["allocations"][1]["placement"],
        json!({ "anti_affinity": [FIRST], "anti_affinity_label": "app=web" })
    );
    assert!(sent.body["allocations"][0].get("validate_only").is_none());

    post(
        &world,
        "/api/v1/allocations",
        json!({ "config": { "name": "web" }, "placement": explanation() }),
    );
    let ran = launch(&["--dry-run", "--affinity", FIRST]).ok();
    assert!(ran.out.contains("fit on 1 of 9 nodes"), "{}", ran.out);
    let sent = world.changes().pop().expect("a change");
    assert_eq!(sent.body["placement"], json!({ "affinity": FIRST }));
    launch(&["--dry-run", "--require-prewarmed"]).ok();
    let sent = world.changes().pop().expect("a change");
    assert_eq!(sent.body["placement"], json!({ "require_prewarmed": true }));
    assert_eq!(launch(&["--count", "17"]).code, 2);
    let ruled_out = error(409, "AFFINITY", "Ruled out.", &[]);
    world.on("POST", "/api/v1/allocations", [(409, ruled_out)]);
    let ran = launch(&[]);
    assert!(
        ran.code == 4 && ran.err.contains("gpuaas explain with the same"),
        "{}",
        ran.err
    );
}

#[test]
fn a_launch_is_queued_and_shows_its_position() {
    let world = World::new();
    let key = world.home.path().join("k.pub");
    std::fs::write(&key, "ssh-ed25519 AAAA me\n").expect("write");
    let key = key.to_str().expect("path");
    let waiting = json!({ "id": FIRST, "config": { "name": "web", "sku": "lab-slice", "gpu_count": 1 },
        "status": { "state": "requested", "queue": { "position": 3, "reason": "SLOTS_IN_USE",
            "message": "2 GPUs are in use on 1 node.",
            "since": "2026-01-31T12:00:00Z", "deadline": "2026-01-31T14:00:00Z" } } });
    post(&world, "/api/v1/allocations", waiting.clone());
    let launch = |more: &[&str]| {
        let mut arguments = vec![
            "launch",
            "--sku",
            "lab-slice",
            "--image",
            "lab-mini",
            "--ssh-key",
            key,
            "--region",
            "lab",
            "--name",
            "web",
            "--wait-for-capacity",
            "2026-01-31T14:00:00Z",
        ];
        arguments.extend(more);
        world.run(&arguments)
    };
    let ran = launch(&[]).ok();
    assert!(
        ran.err
            .contains("is queued, position 3: 2 GPUs are in use on 1 node."),
        "{}",
        ran.err
    );
    assert!(ran.out.contains("expires 2026-01-31"), "{}", ran.out);
    let sent = world.changes().pop().expect("a change");
    assert_eq!(
        sent.body["wait"],
        json!({ "deadline": "2026-01-31T14:00:00Z" })
    );
    world.get(
        "/api/v1/allocations",
        json!({ "allocations": [waiting.clone()] }),
    );
    let ran = world.run(&["list"]).ok();
    assert!(ran.out.contains("queued, position 3"), "{}", ran.out);

    post(
        &world,
        "/api/v1/allocations:batchCreate",
        json!({ "allocations": [waiting] }),
    );
    launch(&["--count", "2"]).ok();
    let sent = world.changes().pop().expect("a change");
    assert_eq!(
        sent.body["wait"],
        json!({ "deadline": "2026-01-31T14:00:00Z" })
    );
    assert!(sent.body["allocations"][0].get("wait").is_none());

    let rule = "must be in the future, at most seven days from now";
    let message = format!("wait.deadline: {rule}");
    let too_long = error(400, "FIELD_INVALID", &message, &[("wait.deadline", rule)]);
    world.on("POST", "/api/v1/allocations", [(400, too_long)]);
    let ran = launch(&[]);
    assert_eq!(ran.code, 2);
    assert!(
        ran.err
            .starts_with(&format!("error: --wait-for-capacity: {rule}\n")),
        "{}",
        ran.err
    );
}

#[test]
fn a_launch_is_protected_or_ends_at_a_time() {
    let world = World::new();
    let key = world.home.path().join("k.pub");
    std::fs::write(&key, "ssh-ed25519 AAAA me\n").expect("write");
    let key = key.to_str().expect("path");
    let made = json!({ "id": FIRST, "config": { "name": "web", "sku": "lab-slice", "gpu_count": 1 },
        "status": { "state": "reserved" } });
    post(&world, "/api/v1/allocations", made.clone());
    let launch = |more: &[&str]| {
        let mut arguments = vec!["launch", "--sku", "lab-slice", "--image", "lab-mini"];
        arguments.extend(["--ssh-key", key, "--region", "lab", "--name", "web"]);
        arguments.extend(more);
        world.run(&arguments)
    };
    launch(&["--protect"]).ok();
    let sent = world.changes().pop().expect("a change").body;
    assert_eq!(sent["termination_protection"], json!(true));
    assert!(sent.get("auto_release_time").is_none());
    let time = "2027-01-31T12:00:00Z";
    launch(&["--release-at", time]).ok();
    let sent = world.changes().pop().expect("a change").body;
    assert_eq!(sent["auto_release_time"], json!(time));
    assert!(sent.get("termination_protection").is_none());
    let both = launch(&["--protect", "--release-at", time]);
    assert_eq!(both.code, 2, "{}", both.err);
    // of several each
    let all = json!({ "allocations": [made] });
    post(&world, "/api/v1/allocations:batchCreate", all);
    launch(&["--count", "2", "--protect"]).ok();
    let sent = world.changes().pop().expect("a change").body;
    assert_eq!(
        sent["allocations"][1]["termination_protection"],
        json!(true)
    );
}

/// From a file and from standard input; what the API would not take is not sent.
#[test]
fn a_launch_carries_user_data() {
    let world = World::new();
    let file = |name: &str, bytes: &[u8]| {
        let path = world.home.path().join(name);
        std::fs::write(&path, bytes).expect("write");
        path.to_str().expect("path").to_owned()
    };
    let key = file("k.pub", b"ssh-ed25519 AAAA me\n");
    let digest = format!("sha256:{}", "0".repeat(64));
    let config = json!({ "name": "web", "sku": "lab-slice", "gpu_count": 1,
        "user_data": { "digest": digest, "size_bytes": 21 } });
    let made = json!({ "id": FIRST, "config": config, "status": { "state": "reserved" } });
    post(&world, "/api/v1/allocations", made);
    let command = |data: &str| {
        let mut command = world.command(&[
            "launch",
            "--sku",
            "lab-slice",
            "--image",
            "lab-mini",
            "--ssh-key",
            &key,
            "--region",
            "lab",
            "--name",
            "web",
        ]);
        command.args(["--user-data", data]);
        command
    };
    let text = "#cloud-config\n# \u{e4}\n";
    let good = file("user-data", text.as_bytes());
    let ran = Ran::from(command(&good).output().expect("the program runs")).ok();
    assert!(
        ran.out
            .contains(&format!("User data    21 bytes, {digest}")),
        "{}",
        ran.out
    );
    let sent = world.changes().pop().expect("a change").body;
    assert_eq!(sent["user_data"], json!(text));
    let mut piped = command("-")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("the program runs");
    let mut input = piped.stdin.take().expect("standard input");
    std::io::Write::write_all(&mut input, b"#!/bin/sh\n").expect("written");
    drop(input);
    assert!(piped.wait().expect("it ends").success());
    let sent = world.changes().pop().expect("a change").body;
    assert_eq!(sent["user_data"], json!("#!/bin/sh\n"));

    let before = world.changes().len();
    let long = file("long", "#".repeat(16385).as_bytes());
    let binary = file("binary", b"#!/bin/sh\n\xff");
    for (data, rule) in [
        (long.as_str(), "is longer than 16384 bytes"),
        (binary.as_str(), "is not UTF-8 text"),
        ("none", "cannot read none"),
    ] {
        let ran = Ran::from(command(data).output().expect("the program runs"));
        assert_eq!(ran.code, 2, "{}", ran.err);
        assert!(
            ran.err.contains("--user-data: ") && ran.err.contains(rule),
            "{}",
            ran.err
        );
    }
    assert_eq!(world.changes().len(), before, "nothing was sent");
    let rule = "must be plain text";
    let refusal = error(
        400,
        "FIELD_INVALID",
        &format!("user_data: {rule}"),
        &[("user_data", rule)],
    );
    world.on("POST", "/api/v1/allocations", [(400, refusal)]);
    let ran = Ran::from(command(&good).output().expect("the program runs"));
    assert!(
        ran.err
            .starts_with(&format!("error: --user-data: {rule}\n")),
        "{}",
        ran.err
    );
}

#[test]
fn an_operator_sees_the_queue_and_sets_priorities() {
    let world = World::new();
    world.get(
        "/api/v1/admin/queue",
        json!({ "requests": [{ "slot_class": "lab", "position": 1, "project_id": NODE, "priority": "high",
            "allocation_ids": [FIRST], "gpus": 2, "reason": "SLOTS_IN_USE", "backfill_node_ids": [NODE] }] }),
    );
    world.get(
        "/api/v1/admin/nodes",
        json!({ "nodes": [{ "id": NODE, "config": { "hostname": "h1" } }] }),
    );
    let ran = world
        .run(&["admin", "queue", "list", "--region", "lab"])
        .ok();
    assert!(
        ran.out.contains("high") && ran.out.contains("SLOTS_IN_USE  h1  "),
        "{}",
        ran.out
    );
    // all pages of a long queue
    let page = |position: u32, next: &str| {
        let request = json!({ "slot_class": "lab", "position": position, "priority": "low" });
        (
            200,
            json!({ "requests": [request], "total": 2, "next_page_token": next }),
        )
    };
    world.on("GET", "/api/v1/admin/queue", [page(1, "t"), page(2, "")]);
    let ran = world
        .run(&[
            "admin", "queue", "list", "--region", "lab", "--output", "json",
        ])
        .ok();
    let reported: Value = serde_json::from_str(&ran.out).expect("JSON");
    assert_eq!(reported["requests"].as_array().map(Vec::len), Some(2));
    // of every region, also of a closed one
    let regions = [("lab", true), ("old", false)]
        .map(|(code, enabled)| json!({ "code": code, "enabled": enabled }));
    world.get("/api/v1/regions", json!({ "regions": regions }));
    world.on("GET", "/api/v1/admin/queue", [page(1, ""), page(1, "")]);
    let ran = world
        .run(&["admin", "queue", "list", "--output", "json"])
        .ok();
    let reported: Value = serde_json::from_str(&ran.out).expect("JSON");
    let of = [0, 1].map(|at| reported["requests"][at]["region_code"].clone());
    assert_eq!(of, ["lab", "old"]);
    let path = format!("/api/v1/admin/projects/{NODE}/priority");
    world.on(
        "PUT",
        &path,
        [(200, json!({ "project_id": NODE, "priority": "low" }))],
    );
    world.get(&path, json!({ "project_id": NODE, "priority": "high" }));
    let ran = world.run(&["admin", "queue", "priority", NODE]).ok();
    assert!(ran.out.contains("has high priority"), "{}", ran.out);
    let ran = world
        .run(&["admin", "queue", "set-priority", NODE, "low"])
        .ok();
    assert!(ran.out.contains("has low priority"), "{}", ran.out);
    let sent = world.changes().pop().expect("a change");
    assert_eq!(sent.body, json!({ "priority": "low" }));
    assert_eq!(
        world
            .run(&["admin", "queue", "set-priority", NODE, "vip"])
            .code,
        2
    );
}

#[test]
fn d_82_a_node_is_shown_and_repaired_as_ledger_host_and_hypervisor_have_it() {
    let world = World::new();
    let node = json!({ "nodes": [{ "id": NODE, "config": { "hostname": "h1" }, "status": {} }] });
    world.get("/api/v1/admin/nodes", node);
    let path = format!("/api/v1/admin/nodes/{NODE}/comparison");
    let rows = json!([
        { "allocation_id": FIRST, "ledger_state": "active", "has_claims": true, "journal_slot_ids": ["a", "b"],
          "has_reservation": true, "domain_state": "running", "guest_state": "no_login", "verdict": "agrees", "repair": "unspecified", "detail": "" },
        { "allocation_id": NODE, "domain_state": "shut off", "verdict": "report", "repair": "report", "etag": "1f",
          "has_seed": true, "has_nvram": true, "missing_files": ["nvram"], "detail": "repair its slots" },
    ]);
    let differences = json!([
        { "subject": "binding", "kind": "driver_rebound", "slot_id": FIRST, "slot_index": 3, "message": "It is bound to nvidia.",
          "since": "2026-11-29T10:00:00Z", "remediation": "Find out why.", "verdict": "report", "repair": "slot", "detail": "a repair binds it" },
        { "subject": "partition", "kind": "partition_unowned", "observed": "6", "message": "Partition 6 is active.",
          "remediation": "Look.", "verdict": "report", "repair": "partition", "detail": "a repair deactivates it" },
    ]);
    let whole = json!({ "node_id": NODE, "rows": rows, "differences": differences });
    world.on(
        "GET",
        &path,
        [200, 200, 200, 200, 200].map(|code| (code, whole.clone())),
    );
    let ran = world.run(&["admin", "node", "compare", "h1"]).ok();
    let lines: Vec<String> = ran
        .out
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    assert_eq!(
        lines[0],
        "ALLOCATION LEDGER HOST HYPERVISOR VERDICT REPAIR DETAIL"
    );
    assert_eq!(
        lines[1],
        format!(
            "{FIRST} active 2 slot(s), address running; guest is not reached, or refuses the login agrees - -"
        )
    );
    let leaked =
        format!("{NODE} none seed, NVRAM shut off, without nvram report report repair its slots");
    assert_eq!(lines[2], leaked);
    assert_eq!(lines[4], "SLOT OF SINCE VERDICT REPAIR DETAIL");
    assert!(lines[5].starts_with("3 binding 2026-11-29"), "{lines:?}");
    assert!(
        lines[5].ends_with("report slot It is bound to nvidia. Find out why. (a repair binds it)"),
        "{lines:?}"
    );
    assert_eq!(
        lines[6],
        "- partition just now report partition Partition 6 is active. Look. (a repair deactivates it)"
    );
    assert!(lines[7].contains("slot repair h1 3"), "{lines:?}");
    assert!(lines[8].contains("node repair-partition h1 6"), "{lines:?}");
    let ran = world.run(&["admin", "node", "compare", "h1", "--output", "json"]);
    let reported: Value = serde_json::from_str(&ran.ok().out).expect("JSON");
    assert_eq!(reported["rows"][1]["verdict"], "report");

    // d_82: the repair of a row is that of the row which was read
    let repair = format!("{path}/{NODE}:repair");
    world.on("POST", &repair, [(200, json!({ "verdict": "agrees" }))]);
    let flags = ["admin", "node", "repair", "h1", NODE, "--reason", "seen"];
    let ran = world.run(&flags).ok();
    assert!(
        ran.out.contains("Repair \"report\" of allocation"),
        "{}",
        ran.out
    );
    let sent = world.changes().pop().expect("a change");
    assert_eq!(
        sent.body,
        json!({ "repair": "report", "etag": "1f", "reason": "seen" })
    );
    let agrees = ["admin", "node", "repair", "h1", FIRST, "--reason", "seen"];
    let ran = world.run(&agrees);
    assert!(
        ran.code == 1 && ran.err.contains("nothing to repair"),
        "{ran:?}"
    );
    assert_eq!(world.changes().len(), 1);
    let partition = format!("/api/v1/admin/nodes/{NODE}/partitions/6:repair");
    world.on("POST", &partition, [(200, json!({}))]);
    let ran = world.run(&[
        "admin",
        "node",
        "repair-partition",
        "h1",
        "6",
        "--reason",
        "by hand",
    ]);
    assert_eq!(ran.ok().out, "Partition 6 is deactivated.\n");
    let sent = world.changes().pop().expect("a change");
    assert_eq!(sent.body, json!({ "reason": "by hand" }));
}
