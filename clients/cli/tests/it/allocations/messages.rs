//! Output for an allocation that is stopped, has ended, or was never billed.
use serde_json::{Value, json};

use super::{ALLOCATIONS, key_pair, launch_arguments, one, timeline, watched};
use crate::support::{ID, World, allocation, changed, entries, error, stream, synced};

fn with_power(power: &str) -> Value {
    let mut active = allocation("active");
    active["status"]["power"] = json!(power);
    active
}

/// A step that is left over in the answer.
fn with_stale_step(mut allocation: Value) -> Value {
    allocation["status"]["progress"] =
        json!({ "step": "activate", "percent": 0, "message": "Handing the VM over." });
    allocation
}

#[test]
fn a_stopped_vm_is_shown_as_stopped_and_ssh_does_not_try() {
    let world = World::new();
    world.fake_program("ssh");
    world.get(
        ALLOCATIONS,
        json!({ "allocations": [with_power("stopped")], "next_page_token": "" }),
    );
    world.get(&format!("{}/timeline", one()), timeline());
    world.get("/api/v1/usage", json!({ "intervals": [], "totals": [] }));
    for power in ["stopped", "stopping"] {
        world.get(&one(), with_power(power));
        let ran = world.run(&["ssh", ID]);
        assert_eq!(
            (ran.code, ran.out.as_str(), ran.err),
            (
                2,
                "",
                format!(
                    "error: allocation {ID} is {power}; start it to log in: gpuaas start {ID}\n"
                )
            )
        );
        let shown = world.run(&["show", ID]).ok().out;
        assert!(
            shown.contains(&format!("State        active, {power}"))
                && shown.contains("Address ")
                && !shown.contains("ssh"),
            "{shown}"
        );
    }
    let listed = world.run(&["list"]).ok().out;
    assert!(listed.contains("active, stopped"), "{listed}");
    for power in ["running", "starting", "rebooting"] {
        world.get(&one(), with_power(power));
        world.run(&["ssh", ID]).ok();
        assert!(world.run(&["show", ID]).ok().out.contains("Log in "));
    }
}

#[test]
fn ssh_to_what_is_not_active_is_refused() {
    let world = World::new();
    world.get(&one(), allocation("provisioning"));
    let ran = world.run(&["ssh", ID]);
    assert_eq!(ran.code, 2);
    assert!(
        ran.err.contains("is provisioning: it has no login"),
        "{}",
        ran.err
    );
    // its address may be another tenant's by now
    let mut released = allocation("active");
    released["status"]["state"] = json!("released");
    world.get(&one(), released);
    let ran = world.run(&["ssh", ID]);
    assert!(
        ran.code == 2 && ran.err.contains("is released: it has no login"),
        "{ran:?}"
    );
}

#[test]
fn an_option_for_ssh_wins_over_our_own() {
    let world = World::new();
    world.fake_program("ssh");
    world.get(&one(), allocation("active"));
    let said = world.run(&["ssh", ID, "-o", "ConnectTimeout=3"]).ok().out;
    // the first value counts
    assert!(said.starts_with("-o\nConnectTimeout=3\n-p\n"), "{said}");
    assert!(said.contains("-o\nConnectTimeout=15\n"), "{said}");
}

#[test]
fn an_ended_launch_shows_no_running_step() {
    let world = World::new();
    let key = key_pair(&world);
    world.on("POST", ALLOCATIONS, [(200, allocation("reserved"))]);
    let mut wordless = allocation("provisioning");
    wordless["status"]["progress"] = json!({ "steps_done": 5, "steps_total": 6 });
    world.get(
        &watched(),
        stream([
            vec![
                changed(wordless, "t1"),
                changed(with_stale_step(allocation("provisioning")), "t2"),
            ],
            entries(&timeline(), "t3"),
            vec![
                synced("t4"),
                changed(with_stale_step(allocation("active")), "t5"),
            ],
        ]),
    );
    let requested = launch_arguments(&key, &["--wait"]);
    let ran = world.run(&requested).ok();
    assert!(
        ran.out.contains("State        active, running") && !ran.out.contains("activate"),
        "{}",
        ran.out
    );
    let lines: Vec<&str> = ran.err.lines().skip(1).collect();
    assert_eq!(
        lines,
        [
            "13:00:00  ok      reserve                         0.2s  1 slot on a lab host",
            "13:00:01  ok      provision.clone                 3.5s  64 MiB",
        ],
        "only what has ended, in order"
    );
    // a running step of an active allocation is shown
    world.get(&one(), with_stale_step(with_power("stopping")));
    world.get(&format!("{}/timeline", one()), timeline());
    world.get("/api/v1/usage", json!({ "intervals": [], "totals": [] }));
    let shown = world.run(&["show", ID]).ok().out;
    assert!(shown.contains("Progress     activate 0%"), "{shown}");
}

#[test]
fn a_queued_request_is_not_billed() {
    let world = World::new();
    world.on(
        "POST",
        &format!("{}:release", one()),
        [(200, allocation("released"))],
    );
    let ran = world.run(&["release", ID]).ok();
    assert_eq!(ran.out, format!("{ID} is released. It was not billed.\n"));
}

#[test]
fn a_name_of_an_ended_allocation_leads_to_the_latest_with_that_name() {
    let world = World::new();
    let ended = |number: u32, hour: u32, state: &str| {
        let mut one = allocation(state);
        one["id"] = json!(format!("01930000-000{number}-7000-8000-000000000001"));
        one["metadata"]["create_time"] = json!(format!("2026-01-31T{hour}:00:00Z"));
        one
    };
    world.get(
        ALLOCATIONS,
        json!({ "allocations": [ended(2, 11, "released"), ended(3, 13, "failed"), ended(1, 12, "released")] }),
    );
    let ran = world.run(&["show", "first"]);
    assert_eq!(ran.code, 3, "{ran:?}");
    assert!(
        ran.err.contains("no active allocation is named")
            && ran
                .err
                .contains("01930000-0003-7000-8000-000000000001, which is failed"),
        "{}",
        ran.err
    );
    let ran = world.run(&["show", "nobody"]);
    assert!(
        ran.code == 3 && ran.err.contains("see: gpuaas list --all"),
        "{ran:?}"
    );
}

#[test]
fn a_change_of_power_that_failed_is_a_failure_though_the_vm_runs() {
    let world = World::new();
    let message = "The reboot is not verified: the VM is running, but no login succeeded.";
    let told = |state: &str| {
        let entry = json!({ "sequence": "3", "step": "running", "state": state, "message": message, "time": "2026-01-31T12:00:09Z" });
        let news = stream([
            vec![changed(with_power("rebooting"), "t1"), synced("t2")],
            entries(&json!({ "entries": [entry] }), "t3"),
            vec![changed(with_power("running"), "t4")],
        ]);
        world.get(&watched(), news);
    };
    world.get(&format!("{}/timeline", one()), timeline());
    let reboot = format!("{}:reboot", one());
    world.on("POST", &reboot, [(200, with_power("rebooting"))]);
    for format in ["table", "json"] {
        let arguments = ["reboot", ID, "--wait", "--output", format];
        told("done");
        world.run(&arguments).ok();
        told("failed");
        let ran = world.run(&arguments);
        assert!(
            ran.code == 1 && ran.out.is_empty() && ran.err.contains(message),
            "{ran:?}"
        );
    }
    // one before the change says nothing of it
    let mut old = timeline();
    old["entries"][1]["sequence"] = json!("3");
    world.get(&format!("{}/timeline", one()), old);
    world.run(&["reboot", ID, "--wait"]).ok();
}

#[test]
fn a_watch_outlives_its_token_and_a_change_of_access() {
    let world = World::new();
    let expired = error(401, "CREDENTIAL_EXPIRED", "The token has expired.", &[]);
    let changed_access = error(403, "PERMISSION_DENIED", "Your access has changed.", &[]);
    let began = |state: &str, token: &str| vec![changed(allocation(state), token), synced(token)];
    world.on(
        "GET",
        &watched(),
        [
            (
                200,
                stream([began("reserved", "t1"), vec![expired.clone()]]),
            ),
            (200, stream([began("reserved", "t2"), vec![changed_access]])),
            (200, stream([began("active", "t3")])),
        ],
    );
    world.get(&format!("{}/timeline", one()), timeline());
    world.run(&["wait", ID]).ok();
    let targets: Vec<String> = world
        .seen()
        .into_iter()
        .filter_map(|seen| Some(seen.target.strip_prefix(&watched())?.to_owned()))
        .collect();
    assert_eq!(targets, ["", "?resume_token=t1", "?resume_token=t2"]);
    // who opens one with such a token is refused
    world.on("GET", &watched(), [(401, expired)]);
    let ran = world.run(&["wait", ID]);
    assert!(
        ran.code == 4 && ran.err.contains("The token has expired."),
        "{ran:?}"
    );
}
