//! `network` against a scripted API.
use serde_json::json;

use crate::support::World;

#[test]
fn a_member_sees_and_changes_whether_vms_reach_each_other() {
    let world = World::new();
    let answer = |reach: bool| {
        if reach {
            json!({ "project_id": "p1", "vms_reach_each_other": true })
        } else {
            json!({ "project_id": "p1" })
        }
    };
    let path = "/api/v1/project-network";
    world.get(&format!("{path}?project_id=p1"), answer(false));
    let ran = world.run(&["network", "--project", "p1"]).ok();
    assert_eq!(
        ran.out.trim(),
        "VMs of the project on the same host cannot connect to each other."
    );
    world.on("PUT", path, [(200, answer(true))]);
    let ran = world
        .run(&["network", "--project", "p1", "--between-vms", "allow"])
        .ok();
    assert_eq!(
        ran.out.trim(),
        "VMs of the project on the same host can connect to each other. Running VMs change within a minute."
    );
    let sent = world.changes().pop().expect("a change");
    assert_eq!(
        sent.body,
        json!({ "project_id": "p1", "vms_reach_each_other": true })
    );
}
