//! `quota` and `admin quota` against a scripted API.
use serde_json::json;

use crate::support::World;

#[test]
fn members_and_administrators_see_the_quotas_of_a_project() {
    let world = World::new();
    let reported = json!({ "project_id": "p1", "max_allocations": 5, "used_allocations": 2, "default_max_gpus": 64,
        "quotas": [{ "project_id": "p1", "sku": "lab-slice", "max_gpus": 8, "used_gpus": 3 },
                   { "project_id": "p1", "sku": "old-slice", "used_gpus": 1 }] });
    world.get("/api/v1/quotas?project_id=p1", reported.clone());
    world.get("/api/v1/admin/projects/p1/quotas", reported.clone());
    for command in [
        &["quota", "--project", "p1"][..],
        &["admin", "quota", "show", "p1"],
    ] {
        let ran = world.run(command).ok();
        let cells: Vec<Vec<&str>> = ran
            .out
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        for row in [
            &["allocations", "5", "2", "3"][..],
            &["GPUs", "of", "lab-slice", "8", "3", "5"],
            // more than it may: the limit was lowered
            &["GPUs", "of", "old-slice", "0", "1", "0"],
        ] {
            assert!(cells.iter().any(|cells| cells == row), "{row:?}: {ran:?}");
        }
        assert!(ran.out.contains("every other SKU is 64 GPUs"), "{ran:?}");
        let json = [command, &["--output", "json"]].concat();
        assert_eq!(world.run(&json).ok().json(), reported);
    }
}

#[test]
fn an_administrator_sets_the_allocation_quota_of_a_project() {
    let world = World::new();
    let path = "/api/v1/admin/projects/p1/allocation-limit";
    let answer = json!({ "project_id": "p1", "max_allocations": 5, "used_allocations": 2 });
    world.on("PUT", path, [(200, answer)]);
    let ran = world
        .run(&["admin", "quota", "set-allocations", "p1", "--max", "5"])
        .ok();
    assert_eq!(
        ran.out.trim(),
        "The quota of project p1 is 5 allocations; 2 in use."
    );
    let sent = world.changes().pop().expect("a change");
    assert_eq!(sent.target, path);
    assert_eq!(sent.body, json!({ "max_allocations": 5 }));
}
