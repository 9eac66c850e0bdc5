//! Explanations: where a launch would fit, what a refusal names as its causes, and what to do about it.
use crate::support::{World, error, explanation, refusal};
use serde_json::{Value, json};

const NODE: &str = "01930000-0009-7000-8000-000000000009";
const FIRST: &str = "01930000-0001-7000-8000-000000000001";
const PROJECT: &str = "01930000-0005-7000-8000-0000000000aa";

#[test]
fn explain_counts_what_each_constraint_removes() {
    let world = World::new();
    world.get("/api/v1/availability:explain", explanation());
    let ran = world
        .run(&[
            "explain",
            "--sku",
            "lab-slice",
            "--gpus",
            "4",
            "--region",
            "lab",
        ])
        .ok();
    assert!(
        ran.out
            .starts_with("4 GPU(s) of lab-slice in lab fit on 1 of 9 nodes."),
        "{}",
        ran.out
    );
    assert!(
        ran.out
            .contains("12 GPUs are free on 8 nodes, but no node has 4 that can be used together.")
    );
    assert!(world.seen()[0].target.contains("gpu_count=4"));
    world.get(
        "/api/v1/admin/node-placements:explain",
        json!({ "explanation": explanation(), "nodes": [
            { "node_id": NODE, "hostname": "h1", "fits": true, "slot_indexes": [0, 1, 2, 3], "score": [{ "name": "numa_nodes", "value": "1" }] },
            { "node_id": NODE, "hostname": "h2", "reasons": [{ "reason": "NODE_DRAINING", "gpus": 8, "nodes": 1, "message": "Kept off." }] }
        ] }),
    );
    let ran = world
        .run(&[
            "admin",
            "explain",
            "--sku",
            "lab-slice",
            "--gpus",
            "4",
            "--region",
            "lab",
        ])
        .ok();
    assert!(
        ran.out.contains("slots 0, 1, 2, 3")
            && ran.out.contains("numa_nodes=1")
            && ran.out.contains("Kept off.")
    );
}

#[test]
fn b_57_explain_says_all_that_a_launch_would_say() {
    let world = World::new();
    let digest = format!("sha256:{}", "a".repeat(64));
    world.get(
        "/api/v1/images",
        json!({ "images": [{ "slug": "lab-mini", "digest": digest }] }),
    );
    world.get("/api/v1/availability:explain", explanation());
    world.get(
        "/api/v1/admin/node-placements:explain",
        json!({ "explanation": explanation(), "nodes": [] }),
    );
    let said = [
        "explain",
        "--sku",
        "lab-slice",
        "--region",
        "lab",
        "--project",
        NODE,
        "--image",
        "lab-mini",
        "--affinity",
        FIRST,
        "--anti-affinity",
        FIRST,
        "--anti-affinity",
        NODE,
        "--anti-affinity-label",
        "app=db",
        "--affinity-label",
        "app=web",
        "--require-prewarmed",
    ];
    let requested = format!(
        "project_id={NODE}&image_digest={}&placement.affinity={FIRST}&placement.anti_affinity={FIRST}\
         &placement.anti_affinity={NODE}&placement.anti_affinity_label=app%3Ddb&placement.require_prewarmed=true\
         &placement.affinity_label=app%3Dweb",
        digest.replace(':', "%3A")
    );
    world.run(&said).ok();
    let admin: Vec<&str> = std::iter::once("admin").chain(said).collect();
    world.run(&admin).ok();
    let explained = |path: &str| {
        let seen = world.seen();
        let call = seen.into_iter().find(|call| call.target.starts_with(path));
        call.expect("asked").target
    };
    for path in [
        "/api/v1/availability:explain",
        "/api/v1/admin/node-placements:explain",
    ] {
        let target = explained(path);
        assert!(target.contains(&requested), "{target}");
    }
    let mut unknown = said;
    unknown[8] = "none";
    let refused = world.run(&unknown);
    assert!(
        refused.code == 2 && refused.err.contains("there is no image none"),
        "{refused:?}"
    );
}

#[test]
fn b_57_explain_of_bare_metal_shows_it_and_marks_nodes_of_another_size() {
    let world = World::new();
    let mut sum = explanation();
    sum["nodes"] = json!(2);
    let verdicts = |sum: Value| {
        json!({ "explanation": sum, "nodes": [
            { "node_id": NODE, "hostname": "h1", "fits": true },
            { "node_id": NODE, "hostname": "h2" },
        ] })
    };
    let path = "/api/v1/admin/node-placements:explain";
    let ask = [
        "admin",
        "explain",
        "--sku",
        "baremetal",
        "--gpus",
        "8",
        "--region",
        "lab",
    ];
    world.get(path, verdicts(sum.clone()));
    let ran = world.run(&ask).ok();
    let line = |host: &str| {
        let found = ran.out.lines().find(|line| line.starts_with(host));
        found
            .unwrap_or_else(|| panic!("{host}: {}", ran.out))
            .to_owned()
    };
    assert!(line("h1").contains("bare metal"), "{}", ran.out);
    assert!(
        line("h2").contains("other GPU count or slot class"),
        "{}",
        ran.out
    );
    assert!(!ran.out.contains("slots"), "{}", ran.out);
    assert!(
        !ran.out.contains("Showing the best"),
        "all of them are shown: {}",
        ran.out
    );
    sum["nodes"] = json!(501);
    world.get(path, verdicts(sum));
    let ran = world.run(&ask).ok();
    assert!(
        ran.out.contains("Showing the best 2 of 501 nodes."),
        "{}",
        ran.out
    );
}

#[test]
fn b_57_an_administrator_names_allocations_by_their_full_id() {
    let world = World::new();
    let refused = |arguments: &[&str]| {
        let ran = world.run(arguments);
        assert_eq!(ran.code, 2, "{ran:?}");
        assert!(
            ran.err.contains("is not the full id of an allocation"),
            "{}",
            ran.err
        );
    };
    let explain = ["admin", "explain", "--sku", "s", "--region", "lab"];
    refused(&[&explain[..], &["--affinity", "web-1"]].concat());
    refused(
        &[
            &explain[..],
            &["--project", PROJECT, "--anti-affinity", "web-1"],
        ]
        .concat(),
    );
    assert!(world.seen().is_empty(), "no list of a member is asked for");
    world.get(
        &format!("/api/v1/admin/allocations/{FIRST}"),
        json!({ "allocation": { "id": FIRST, "config": { "placement": { "affinity_label": "app=db" } },
                                "status": { "state": "active" } },
                "node_id": NODE, "claims": [{ "kind": "slot", "slot_index": 3, "state": "active" }] }),
    );
    let ran = world.run(&["admin", "allocation", "show", FIRST]).ok();
    assert!(
        ran.out.contains(&format!("on node {NODE}"))
            && ran.out.contains("Placement    affinity to app=db"),
        "{}",
        ran.out
    );
}

#[test]
fn h_33_a_refusal_prints_each_cause_once_and_what_to_do() {
    let world = World::new();
    let key = world.home.path().join("k.pub");
    std::fs::write(&key, "ssh-ed25519 AAAA me\n").expect("write");
    let key = key.to_str().expect("path");
    let launch = |answer: Value| {
        world.on("POST", "/api/v1/allocations", [(409, answer)]);
        let ran = world.run(&[
            "launch",
            "--sku",
            "s",
            "--image",
            "i",
            "--ssh-key",
            key,
            "--region",
            "lab",
        ]);
        assert_eq!(ran.code, 4, "{ran:?}");
        ran.err
    };
    let in_use = "8 GPUs are in use on 1 node.";
    let unready = "8 GPUs are on 1 node that is not ready.";
    let printed = launch(refusal(
        "NO_CAPACITY",
        "No capacity is free.",
        &[("SLOTS_IN_USE", in_use), ("HOST_NOT_READY", unready)],
    ));
    assert_eq!(
        printed,
        format!(
            "error: No capacity is free.\n  cause:   {unready}\n  cause:   {in_use}\n  advice:  See the reasons by node count: gpuaas explain with the same flags. If the GPUs are in use, queue the launch: \
             gpuaas launch … --wait-for-capacity 2h\n  \
             reason:  NO_CAPACITY\n  request: req-1\n"
        )
    );
    let printed = launch(refusal("SLOTS_IN_USE", in_use, &[("SLOTS_IN_USE", in_use)]));
    assert_eq!(printed.matches(in_use).count(), 1, "{printed}");
    for (reason, advice) in [
        ("AFFINITY", "gpuaas explain with the same flags"),
        ("HOST_NOT_READY", "Try again in a few minutes"),
        ("CLEANUP_BLOCKED", "Only an operator can repair these GPUs"),
    ] {
        let printed = launch(refusal(reason, "No.", &[]));
        assert!(printed.contains(advice), "{printed}");
    }
}

#[test]
fn c_34_a_key_that_was_used_otherwise_does_not_lead_to_a_second_one() {
    let world = World::new();
    let reused = error(409, "IDEMPOTENCY_KEY_REUSED", "The key was used.", &[]);
    world.on("POST", "/api/v1/capacity-reservations", [(409, reused)]);
    let ran = world.run(&[
        "reservation",
        "create",
        "--name",
        "a",
        "--sku",
        "s",
        "--gpus",
        "1",
        "--region",
        "lab",
        "--end",
        "8h",
        "--idempotency-key",
        "k",
    ]);
    assert_eq!(ran.code, 4, "{ran:?}");
    for part in [
        "exactly the same flags",
        "instead of durations such as 2h",
        "gpuaas reservation list --all",
    ] {
        assert!(ran.err.contains(part), "{part}: {}", ran.err);
    }
    assert!(
        !ran.err.contains("leave --idempotency-key out"),
        "{}",
        ran.err
    );
}
