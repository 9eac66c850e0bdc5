//! What an operator sees of plans: they are shown with their unschedulable reasons, and say that nothing is done.
use crate::support::World;
use serde_json::{Value, json};

const NODE: &str = "01930000-0009-7000-8000-000000000009";
const OTHER: &str = "01930000-0009-7000-8000-00000000000a";

fn planned(name: &str, gpus: u32, state: &str) -> Value {
    json!({ "id": "01930000-0001-7000-8000-000000000001", "project_id": "p-1", "name": name, "sku": "lab-slice",
            "gpu_count": gpus, "capacity_shape": "gpu_slice", "state": state, "create_time": "2026-01-01T00:00:00Z",
            "node_id": NODE, "hostname": "h1" })
}

fn a_move() -> Value {
    json!({ "allocation": planned("web", 2, "active"),
            "placement": { "node_id": OTHER, "hostname": "h2", "slot_indexes": [4, 5] } })
}

#[test]
fn b_49_an_evacuation_plan_shows_each_placement_or_why_there_is_none() {
    let world = World::new();
    let nodes = json!({ "nodes": [{ "id": NODE, "config": { "hostname": "h1" } }, { "id": OTHER, "config": { "hostname": "h2" } }] });
    world.get("/api/v1/admin/nodes", nodes);
    let plan = json!({
        "region_code": "lab", "allocations_fit": 1, "gpus_fit": 2, "allocations_unplaceable": 1,
        "gpus_unplaceable": 4, "allocations_ending": 1, "blocked_slots": 1, "notice": "Nothing was executed.",
        "allocations": [
            { "allocation": planned("db", 4, "active"), "constraints_known": true,
              "reasons": [{ "reason": "SLOTS_IN_USE", "gpus": 8, "nodes": 1, "message": "8 GPUs are in use on 1 node." }] },
            { "allocation": planned("web", 2, "active"), "placement": { "node_id": OTHER, "hostname": "h9", "slot_indexes": [4, 5] } },
            { "allocation": planned("old", 1, "releasing") },
        ]
    });
    world.get("/api/v1/admin/capacity:evacuationPlan", plan.clone());
    let ran = world
        .run(&["admin", "node", "evacuation-plan", "h1", "h2"])
        .ok();
    for part in [
        "1 allocation(s) with 2 GPU(s) fit elsewhere, 1 with 4 GPU(s) do not.",
        "1 allocation(s) are being released.",
        "1 slot(s) need a repair.",
        "does not fit: 8 GPUs are in use on 1 node.",
        "h9, slots 4, 5",
        "being released",
        "placement constraints of some allocations are unknown",
        "Nothing was executed.",
    ] {
        assert!(ran.out.contains(part), "{part}: {}", ran.out);
    }
    let seen = world.seen().into_iter();
    let mut plans = seen.filter(|one| one.target.contains("/admin/capacity:"));
    let requested = plans.next_back().expect("asked").target;
    assert!(
        requested.contains(&format!("node_ids={NODE}&node_ids={OTHER}")),
        "{requested}"
    );
    let ran = world
        .run(&["admin", "node", "evacuation-plan", NODE, "--output", "json"])
        .ok();
    assert_eq!(
        serde_json::from_str::<Value>(&ran.out).expect("JSON"),
        plan,
        "programs get the API's answer"
    );
    assert_eq!(world.run(&["admin", "node", "evacuation-plan"]).code, 2);
    assert!(world.changes().is_empty(), "a plan changes nothing");
}

#[test]
fn a_defragmentation_lists_its_steps_or_reports_that_no_move_helps() {
    let world = World::new();
    world.get(
        "/api/v1/admin/capacity:defragmentation",
        json!({ "region_code": "lab", "sku": "lab-slice", "gpu_count": 8, "fits_before": 2, "fits_after": 3,
                "gpus_moved": 2, "cut": true, "notice": "Nothing was executed.",
                "steps": [{ "node_id": NODE, "hostname": "h1", "moves": [a_move()], "gained": 1 }] }),
    );
    let run = |more: &[&str]| {
        let mut arguments = vec![
            "admin",
            "defragmentation",
            "--sku",
            "lab-slice",
            "--gpus",
            "8",
            "--region",
            "lab",
        ];
        arguments.extend(more);
        world.run(&arguments)
    };
    let ran = run(&["--max-moves", "3"]).ok();
    for part in [
        "2 launch(es) of 8 GPU(s) of lab-slice in lab fit now. Moving 1 allocation(s) with 2 GPU(s) increases this to 3.",
        "1. Move off node h1: 1 more launch(es).",
        "h2, slots 4, 5",
        "reached its limit",
        "Nothing was executed.",
    ] {
        assert!(ran.out.contains(part), "{part}: {}", ran.out);
    }
    let seen = world.seen().into_iter();
    let mut plans = seen.filter(|one| one.target.contains("/admin/capacity:"));
    let requested = plans.next_back().expect("asked").target;
    assert!(requested.contains("gpu_count=8") && requested.contains("max_moves=3"));
    world.get(
        "/api/v1/admin/capacity:defragmentation",
        json!({ "region_code": "lab", "sku": "lab-slice", "gpu_count": 8, "fits_before": 2, "fits_after": 2 }),
    );
    let ran = run(&[]).ok();
    assert!(
        ran.out
            .contains("Moving up to 8 allocation(s) does not increase this."),
        "{}",
        ran.out
    );
    assert_eq!(run(&["--max-moves", "65"]).code, 2);
}

#[test]
fn b_47_preservation_shows_shares_and_the_moves_that_free_nodes_for_bare_metal() {
    let world = World::new();
    world.get(
        "/api/v1/admin/capacity:preservation",
        json!({ "notice": "Nothing was executed.", "nodes": [
            { "region_code": "lab", "slot_class": "h200_sxm", "nodes": 8, "baremetal_free": 2, "baremetal_allocated": 1, "clean": 1,
              "sliced": 4, "recoverable": 1, "moves": 1, "gpus_moved": 2,
              "easiest": [{ "node_id": NODE, "hostname": "h1", "moves": [a_move()] }] },
        ] }),
    );
    let ran = world
        .run(&["admin", "bare-metal-capacity", "--region", "lab"])
        .ok();
    for part in [
        "2 (25 %)",
        "4 (50 %)",
        "h200_sxm in lab: 1 move(s) of 2 GPU(s) would free 1 node(s) for bare metal.",
        "Move off node h1:",
        "h2, slots 4, 5",
        "Nothing was executed.",
    ] {
        assert!(ran.out.contains(part), "{part}: {}", ran.out);
    }
    assert!(world.seen()[0].target.contains("region_code=lab"));
}
