//! What fits into a terminal of 80 columns.
use serde_json::json;

use crate::allocations::{ALLOCATIONS, key_pair, launch_arguments, watched};
use crate::support::{ID, Ran, World, allocation, changed, entries, stream, synced};

#[test]
fn a_narrow_terminal_shows_what_usage_costs() {
    let world = World::new();
    let money = |nanos: u32| json!({ "currency_code": "EUR", "units": "2", "nanos": nanos });
    world.get(
        "/api/v1/usage",
        json!({ "intervals": [{ "allocation_id": ID, "sku": "lab-slice", "gpu_count": 1, "start_time": "2026-01-02T03:04:05Z",
            "microseconds": "90000000", "price_per_gpu_hour": money(0), "amount": money(500_000_000) }] }),
    );
    world.get(
        ALLOCATIONS,
        json!({ "allocations": [allocation("active")] }),
    );
    let ran = world.command(&["usage"]).env("COLUMNS", "80").output();
    let reported = String::from_utf8(ran.expect("runs").stdout).expect("text");
    assert!(
        reported.contains("AMOUNT") && reported.contains("2.50 EUR"),
        "{reported}"
    );
    assert!(
        reported.lines().all(|line| line.chars().count() <= 80),
        "{reported}"
    );
}

#[test]
fn a_narrow_terminal_shows_an_allocation_and_its_timeline_and_a_command_stays_whole() {
    let world = World::new();
    let one = format!("{ALLOCATIONS}/{ID}");
    let mut shown = allocation("active");
    shown["status"]["failure"] = json!({
        "reason": "BOOT_TIMEOUT",
        "message": "No login succeeded within the boot timeout, though the VM had its address and answered on its port.\nIts serial console ended with:\n[ 1.0] one\n[ 2.0] two",
        "advice": "Look at its serial console, then launch another one; tell the operator when that one fails too.",
    });
    world.get(&one, shown);
    let message = "No login succeeded within the boot timeout of the image, which is ten minutes.";
    world.get(
        &format!("{one}/timeline"),
        json!({ "entries": [{ "sequence": "1", "time": "2026-01-31T12:00:00Z", "end_time": "2026-01-31T12:10:00Z",
            "step": "provision.wait_login", "state": "failed", "message": message }] }),
    );
    world.get("/api/v1/usage", json!({ "intervals": [], "totals": [] }));
    let ran = world.command(&["show", ID]).env("COLUMNS", "80").output();
    let reported = String::from_utf8(ran.expect("runs").stdout).expect("text");
    let (commands, text): (Vec<&str>, Vec<&str>) =
        reported.lines().partition(|line| line.contains("ssh -"));
    assert_eq!(commands.len(), 1, "{reported}");
    assert!(
        text.iter().all(|line| line.chars().count() <= 80),
        "{reported}"
    );
    assert!(reported.contains("\n[ 1.0] one\n[ 2.0] two"), "{reported}");
    let words: Vec<&str> = reported.split_whitespace().collect();
    let words = words.join(" ");
    for all in [
        message,
        "launch another one; tell the operator when that one fails too.",
    ] {
        assert!(words.contains(all), "{reported}");
    }
}

/// A watch of one allocation with a step that says more than fits, up to its login.
fn long_watch(world: &World) {
    let said = "No login succeeded within the boot timeout of the image, which is ten minutes.";
    let timeline = json!({ "entries": [
        { "sequence": "1", "time": "2026-01-31T12:00:00Z", "end_time": "2026-01-31T12:00:00Z", "step": "provision.wait_login", "state": "done", "message": said },
    ] });
    let mut messages = entries(&timeline, "t1");
    messages.extend([changed(allocation("active"), "t2"), synced("t3")]);
    messages.push(json!({ "end": {}, "resume_token": "t4" }));
    world.on("GET", &watched(), [(200, stream([messages]))]);
}

fn narrow(world: &World, arguments: &[&str]) -> Ran {
    let ran = world.command(arguments).env("COLUMNS", "80").output();
    Ran::from(ran.expect("runs")).ok()
}

fn assert_fits(text: &str, steps: bool) {
    let (commands, lines): (Vec<&str>, Vec<&str>) =
        text.lines().partition(|line| line.contains("ssh -"));
    assert!(commands.len() <= 1, "{text}");
    assert!(
        lines.iter().all(|line| line.chars().count() <= 80),
        "{text}"
    );
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let said = "No login succeeded within the boot timeout of the image, which is ten minutes.";
    assert_eq!(words.contains(said), steps, "{text}");
}

#[test]
fn a_watch_of_one_allocation_fits_into_eighty_columns() {
    let world = World::new();
    world.get(
        ALLOCATIONS,
        json!({ "allocations": [allocation("active")] }),
    );
    long_watch(&world);
    let ran = narrow(&world, &["watch", ID]);
    assert_fits(&ran.out, true);
    assert!(ran.out.starts_with("TIME      RESULT  STEP"), "{}", ran.out);
}

#[test]
fn a_launch_that_is_waited_for_fits_into_eighty_columns() {
    let world = World::new();
    let key = key_pair(&world);
    world.on("POST", ALLOCATIONS, [(200, allocation("reserved"))]);
    long_watch(&world);
    let ran = narrow(&world, &launch_arguments(&key, &["--wait"]));
    assert_fits(&ran.err, true);
    assert_fits(&ran.out, false);
}

#[test]
fn help_and_hints_fit_into_eighty_columns() {
    let world = World::new();
    let node = json!({ "id": ID, "config": { "hostname": "gpu-01", "region_code": "eu-central-1", "mode": "slice" },
        "status": { "state": "enrolled", "slots": { "available": 8 } } });
    world.get("/api/v1/admin/nodes", json!({ "nodes": [node] }));
    world.get("/api/v1/admin/node-placements", json!({}));
    for command in [
        &["--help"][..],
        &["admin", "--help"],
        &["launch", "--help"],
        &["admin", "node", "list"],
    ] {
        let ran = narrow(&world, command);
        for line in ran.out.lines().chain(ran.err.lines()) {
            assert!(line.chars().count() <= 80, "{command:?}: {line}");
        }
        assert_eq!(
            command == ["admin", "node", "list"],
            ran.err.contains("Not shown")
        );
    }
}
