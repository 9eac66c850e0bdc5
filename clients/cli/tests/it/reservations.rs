//! `reservations` and `admin reservations` against a scripted API.
use serde_json::{Value, json};

use crate::support::{World, error};

const ID: &str = "0192f0c1-2d3e-7001-8000-000000000001";
const PROJECT: &str = "0192f0c1-2d3e-7001-8000-0000000000aa";

fn reservation(state: &str) -> Value {
    json!({ "id": ID,
        "config": { "project_id": PROJECT, "name": "training", "region_code": "lab", "sku": "lab-slice", "gpu_count": 4,
            "start_time": "2026-01-31T12:00:00Z", "end_time": "2026-01-31T20:00:00Z",
            "release_unused_after_seconds": 1800 },
        "status": { "state": state, "reserved_gpus": 3, "used_gpus": 1, "unused_gpus": 1, "unavailable_gpus": 1,
            "unused_since": "2026-01-31T13:00:00Z", "released_gpus": 1,
            "reason": "1 GPU was unused for 30 minutes and was released.",
            "launches": [{ "gpu_count": 1, "fits": 1 }, { "gpu_count": 2, "fits": 0 }] },
        "metadata": { "created_by": "operator" } })
}

#[test]
fn a_member_sees_the_reservations_and_their_state() {
    let world = World::new();
    let path = "/api/v1/capacity-reservations";
    world.get(path, json!({ "reservations": [] }));
    let ran = world.run(&["reservation", "list"]).ok();
    assert!(
        ran.out
            .contains("No active reservations. Create one: gpuaas reservation create"),
        "{}",
        ran.out
    );
    world.get(path, json!({ "reservations": [reservation("gathering")] }));
    let ran = world.run(&["reservation", "list"]).ok();
    for reported in ["training", "gathering", "RESERVED", "2026-01-31"] {
        assert!(ran.out.contains(reported), "{reported}: {}", ran.out);
    }
    world.get(&format!("{path}/{ID}"), reservation("active"));
    let ran = world.run(&["reservation", "show", "training"]).ok();
    for reported in [
        "3 GPU of lab-slice in lab",
        "3 GPU: 1 used, 1 unused, 1 unavailable",
        "Fits now     1 launch of 1 GPU, or 0 of 2 GPUs",
        "after 30m 00s without use",
        "and was released.",
        "Created by   operator",
    ] {
        assert!(ran.out.contains(reported), "{reported}: {}", ran.out);
    }
    let ran = world.run(&["reservation", "show", "nothing"]);
    assert_eq!(ran.code, 3, "{}", ran.err);
    let ran = world.run(&["reservation", "cancel", "trainnig"]);
    assert!(
        ran.code == 3 && ran.err.contains("did you mean training?"),
        "{ran:?}"
    );
}

#[test]
fn an_operator_reserves_cancels_and_sets_limits() {
    let world = World::new();
    let path = "/api/v1/admin/capacity-reservations";
    world.on("POST", path, [(200, reservation("active"))]);
    let create = [
        "admin",
        "reservation",
        "create",
        "--name",
        "training",
        "--sku",
        "lab-slice",
        "--gpus",
        "4",
        "--project",
        PROJECT,
        "--region",
        "lab",
        "--start",
        "2026-01-31T12:00:00Z",
        "--end",
        "2026-01-31T20:00:00Z",
        "--release-unused-after",
        "30m",
        "--gather",
    ];
    let ran = world.run(&create).ok();
    assert!(ran.out.contains(ID), "{}", ran.out);
    let sent = world.changes().pop().expect("a change");
    assert_eq!(
        sent.body,
        json!({ "gather": true, "config": { "name": "training", "sku": "lab-slice", "gpu_count": 4,
            "region_code": "lab", "project_id": PROJECT, "start_time": "2026-01-31T12:00:00Z",
            "end_time": "2026-01-31T20:00:00Z", "release_unused_after_seconds": 1800 } })
    );
    world.on(
        "POST",
        &format!("{path}/{ID}:cancel"),
        [(200, reservation("canceled"))],
    );
    let ran = world
        .run(&["admin", "reservation", "cancel", ID, "--reason", "over"])
        .ok();
    assert!(
        ran.out
            .starts_with("The reservation has ended. Running allocations continue.")
            && ran.out.contains("canceled"),
        "{}",
        ran.out
    );
    assert_eq!(
        world.changes().pop().expect("a change").body,
        json!({ "reason": "over" })
    );
    let limit = format!("/api/v1/admin/projects/{PROJECT}/reservation-limit");
    world.on(
        "PUT",
        &limit,
        [(200, json!({ "project_id": PROJECT, "max_gpus": 8 }))],
    );
    world.get(
        &limit,
        json!({ "project_id": PROJECT, "max_gpus": 4, "reserved_gpus": 3 }),
    );
    let ran = world.run(&["admin", "reservation", "limit", PROJECT]).ok();
    assert!(ran.out.contains("is 4 GPUs; 3 reserved"), "{}", ran.out);
    let ran = world
        .run(&["admin", "reservation", "limit", PROJECT, "8"])
        .ok();
    assert!(ran.out.contains("is 8 GPUs"), "{}", ran.out);
    assert_eq!(
        world.changes().pop().expect("a change").body,
        json!({ "max_gpus": 8 })
    );
    let ran = world.run(&[
        "admin",
        "reservation",
        "create",
        "--name",
        "a",
        "--sku",
        "b",
        "--gpus",
        "1",
        "--end",
        "soon",
    ]);
    assert_eq!(ran.code, 2, "{}", ran.err);
}

#[test]
fn a_refusal_names_the_limit_that_it_is_about() {
    let world = World::new();
    let limit = "The project may reserve 4 GPUs and has reserved 3.";
    let quota = "The quota of lab-slice is 4 GPUs and 3 are in use.";
    let create = [
        "reservation",
        "create",
        "--name",
        "a",
        "--sku",
        "lab-slice",
        "--gpus",
        "2",
        "--region",
        "lab",
        "--end",
        "3d",
    ];
    for (reason, message, of, advice) in [
        ("RESERVATION_LIMIT", limit, 4, "End a reservation, or raise"),
        ("RESERVATION_LIMIT", limit, 0, "Raise the reservation limit"),
        ("QUOTA", quota, 4, "Release an allocation"),
    ] {
        let mut refused = error(403, reason, message, &[]);
        refused["error"]["details"][0]["metadata"] = json!({ "limit": of.to_string() });
        world.on("POST", "/api/v1/capacity-reservations", [(403, refused)]);
        let ran = world.run(&create);
        assert!(ran.code == 4 && ran.err.contains(advice), "{ran:?}");
    }
}

#[test]
fn a_name_is_resolved_in_the_given_project() {
    let world = World::new();
    let path = "/api/v1/capacity-reservations";
    let several = "must be given: you belong to several projects";
    let unsaid = error(
        400,
        "FIELD_INVALID",
        &format!("project_id: {several}"),
        &[("project_id", several)],
    );
    world.on("GET", path, [(400, unsaid)]);
    let listed = format!("{path}?project_id={PROJECT}&include_ended=true&page_size=200");
    world.get(&listed, json!({ "reservations": [reservation("active")] }));
    world.get(&format!("{path}/{ID}"), reservation("active"));
    world.on(
        "POST",
        &format!("{path}/{ID}:cancel"),
        [(200, reservation("canceled"))],
    );
    for verb in ["show", "cancel"] {
        let ran = world.run(&["reservation", verb, "training"]);
        assert!(ran.code == 2 && ran.err.contains(several), "{ran:?}");
        let said = ["reservation", verb, "training", "--project", PROJECT];
        world.run(&said).ok();
    }
    assert_eq!(world.changes().len(), 1);
}

#[test]
fn an_operator_chooses_one_of_several_projects_and_lists_a_region() {
    let world = World::new();
    let path = "/api/v1/admin/capacity-reservations";
    let mut other = reservation("active");
    other["id"] = json!("0192f0c1-2d3e-7001-8000-000000000002");
    world.get(
        path,
        json!({ "reservations": [reservation("active"), other] }),
    );
    let ran = world.run(&["admin", "reservation", "show", "training"]);
    assert!(
        ran.code == 2 && ran.err.contains("choose one with --project PROJECT"),
        "{ran:?}"
    );
    let ran = world.run(&["admin", "reservation", "show", "nothing"]);
    assert!(
        ran.code == 3 && ran.err.contains("see: gpuaas admin reservation list --all"),
        "{ran:?}"
    );
    let listed = format!("{path}?project_id={PROJECT}&include_ended=true&page_size=200");
    world.get(&listed, json!({ "reservations": [reservation("active")] }));
    world.get(&format!("{path}/{ID}"), reservation("active"));
    let show = [
        "admin",
        "reservation",
        "show",
        "training",
        "--project",
        PROJECT,
    ];
    world.get(
        "/api/v1/admin/projects?page_size=200",
        json!({ "projects": [{ "id": PROJECT, "slug": "vision" }] }),
    );
    let ran = world.run(&show).ok();
    assert!(
        ran.out.contains("vision") && !ran.out.contains(PROJECT),
        "a project stands with its name: {}",
        ran.out
    );
    let of_region = json!({ "reservations": [reservation("gathering")] });
    world.get(&format!("{path}?region_code=lab&page_size=200"), of_region);
    let ran = world
        .run(&["admin", "reservation", "list", "--region", "lab"])
        .ok();
    assert!(ran.out.contains("gathering"), "{}", ran.out);
    let refused = world.run(&["reservation", "list", "--region", "lab"]);
    assert_eq!(refused.code, 2, "a member's list has no such filter");
}
