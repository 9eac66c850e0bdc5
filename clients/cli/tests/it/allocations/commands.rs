//! What one has: list, watch, show, ssh, release, usage.
use serde_json::{Value, json};

use super::{ALLOCATIONS, key_pair, launch_arguments, one, timeline, watched};
use crate::support::{ID, World, allocation, changed, entries, error, stream, synced};

#[test]
fn an_empty_list_says_what_to_do() {
    let world = World::new();
    world.get(
        ALLOCATIONS,
        json!({ "allocations": [], "next_page_token": "" }),
    );
    let ran = world.run(&["list"]).ok();
    assert_eq!(
        ran.out,
        "No allocations now. Launch one: gpuaas launch --sku SKU --image IMAGE\n"
    );
    assert_eq!(
        world.seen()[0].authorization.as_deref(),
        Some("Bearer user-token")
    );
}

#[test]
fn a_list_shows_all_pages_in_the_users_time_zone() {
    let world = World::new();
    world.get(
        &format!("{ALLOCATIONS}?page_size=200"),
        json!({ "allocations": [allocation("active")], "next_page_token": "n" }),
    );
    let second = "01930000-0002-7000-8000-000000000002";
    let mut released = allocation("released");
    released["id"] = json!(second);
    world.get(
        &format!("{ALLOCATIONS}?page_size=200&page_token=n"),
        json!({ "allocations": [released], "next_page_token": "" }),
    );
    let ran = world.run(&["list"]).ok();
    let lines: Vec<&str> = ran.out.lines().collect();
    assert_eq!(lines.len(), 3, "{}", ran.out);
    assert!(lines[0].starts_with("ID "), "{}", ran.out);
    assert!(
        lines[1].contains("127.0.0.1:2201") && lines[1].ends_with("2026-01-31 13:00:00 CET"),
        "{}",
        ran.out
    );
    assert!(
        lines[2].starts_with(second) && lines[2].contains("released"),
        "{}",
        ran.out
    );
    assert_eq!(
        world.run(&["list", "--output", "json"]).ok().json()["allocations"]
            .as_array()
            .expect("list")
            .len(),
        2
    );
}

#[test]
fn a_watch_tells_what_changes_and_goes_on_after_a_loss() {
    let world = World::new();
    let first = vec![changed(allocation("provisioning"), "t1"), synced("t2")];
    let second = vec![
        json!({ "heartbeat": {}, "resume_token": "t3" }),
        changed(allocation("active"), "t4"),
    ];
    let too_old = error(400, "RESUME_TOKEN_EXPIRED", "Watch again without it.", &[]);
    let refused = error(404, "PROJECT_UNKNOWN", "No such project.", &[]);
    world.on(
        "GET",
        "/api/v1/allocations:watch",
        [
            (200, stream([first])),
            (200, stream([second])),
            (400, too_old),
            (200, stream([vec![changed(allocation("released"), "")]])),
            (404, refused),
        ],
    );
    let ran = world.run(&["watch"]);
    assert_eq!(ran.code, 3, "{ran:?}");
    let states: Vec<&str> = ran
        .out
        .lines()
        .skip(1)
        .filter_map(|line| line.split_whitespace().nth(4))
        .collect();
    assert_eq!(
        states,
        ["provisioning", "active", "released"],
        "{}",
        ran.out
    );
    let targets: Vec<String> = world.seen().into_iter().map(|seen| seen.target).collect();
    assert_eq!(
        targets,
        [
            "/api/v1/allocations:watch",
            "/api/v1/allocations:watch?resume_token=t2",
            "/api/v1/allocations:watch?resume_token=t4",
            "/api/v1/allocations:watch",
            "/api/v1/allocations:watch",
        ]
    );

    // for a program: what the API streamed, until it says that it is over
    let reported = vec![
        changed(allocation("released"), "t1"),
        json!({ "end": {}, "resume_token": "t1" }),
    ];
    world.get(&one(), allocation("active"));
    world.get(&watched(), stream([reported.clone()]));
    let ran = world.run(&["watch", ID, "--output", "json"]).ok();
    let lines: Vec<Value> = ran
        .out
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(lines, reported);
}

#[test]
fn a_retried_change_keeps_its_key() {
    let world = World::new();
    let busy = (503, error(503, "OVERLOADED", "The platform is busy.", &[]));
    world.on(
        "POST",
        &format!("{}:release", one()),
        [busy.clone(), busy, (200, allocation("releasing"))],
    );
    let ran = world.run(&["release", ID]).ok();
    assert_eq!(
        ran.out,
        format!("{ID} is releasing. Watch it: gpuaas watch {ID}\n")
    );
    let keys: Vec<_> = world
        .changes()
        .into_iter()
        .map(|c| c.key.expect("key"))
        .collect();
    assert_eq!(keys.len(), 3);
    assert!(keys.iter().all(|k| *k == keys[0]), "{keys:?}");
}

#[test]
fn show_has_state_address_cost_and_timeline() {
    let world = World::new();
    let mut active = allocation("active");
    active["config"]["placement"] =
        json!({ "anti_affinity_label": "app=db", "require_prewarmed": true });
    world.get(&one(), active.clone());
    world.get(&format!("{}/timeline", one()), timeline());
    world.get(
        &format!("/api/v1/usage?project_id=p&allocation_id={ID}"),
        json!({ "intervals": [], "totals": [{ "gpu_microseconds": "90000000", "amount": { "currency_code": "EUR", "units": "0", "nanos": 62_500_000 } }] }),
    );
    let ran = world.run(&["show", ID]).ok();
    for line in [
        "Placement    anti-affinity to app=db, image cached",
        "State        active, running",
        "Created      2026-01-31 13:00:00 CET",
        "Cost         0.0625 EUR so far, for 1m 30s of GPU time",
        "Address      10.0.0.5 (private)",
        "or           ssh -p 2201 -o ConnectTimeout=15 -o UserKnownHostsFile=",
        "13:00:00  ok      reserve                         0.2s  1 slot on a lab host",
    ] {
        assert!(ran.out.contains(line), "{line}: {}", ran.out);
    }
    let shown = world.run(&["show", ID, "--output", "json"]).ok().json();
    assert_eq!(shown["allocation"], active);
    assert_eq!(shown["timeline"].as_array().expect("list").len(), 2);
}

#[test]
fn names_and_unique_beginnings_stand_for_ids() {
    let world = World::new();
    let mut other = allocation("active");
    other["id"] = json!("01930000-0002-7000-8000-000000000002");
    other["config"]["name"] = json!("second");
    world.get(
        ALLOCATIONS,
        json!({ "allocations": [allocation("active"), other], "next_page_token": "" }),
    );
    world.on(
        "POST",
        &format!("{}:release", one()),
        [(200, allocation("released"))],
    );
    world.run(&["release", "first"]).ok();
    world.run(&["release", "01930000-0001"]).ok();
    assert_eq!(world.run(&["release", "01930000"]).code, 2, "two begin so");
    assert_eq!(world.run(&["release", "nobody"]).code, 3);
    assert_eq!(world.changes().len(), 2);
}

#[test]
fn a_guest_is_asked_to_shut_down_unless_forced() {
    let world = World::new();
    for verb in ["stop", "reboot"] {
        let path = format!("{}:{verb}", one());
        world.on("POST", &path, [(200, allocation("active"))]);
        world.run(&[verb, ID]).ok();
        world.run(&[verb, ID, "--force"]).ok();
    }
    let sent: Vec<_> = world.changes().into_iter().map(|s| s.body).collect();
    let (requested, forced) = (json!({}), json!({ "force": true }));
    assert_eq!(
        sent,
        [&requested, &forced, &requested, &forced].map(Clone::clone)
    );
    assert_eq!(world.run(&["start", ID, "--force"]).code, 2);
}

#[test]
fn p9_a_vm_is_rescued_with_an_image_and_comes_back() {
    let world = World::new();
    for verb in ["rescue", "unrescue"] {
        let path = format!("{}:{verb}", one());
        world.on("POST", &path, [(200, allocation("active"))]);
    }
    assert_eq!(world.run(&["rescue", ID]).code, 2, "an image is needed");
    world.run(&["rescue", ID, "--image", "tools"]).ok();
    world
        .run(&["rescue", ID, "--image", "tools", "--force"])
        .ok();
    world.run(&["unrescue", ID]).ok();
    world.run(&["unrescue", ID, "--force"]).ok();
    let sent: Vec<_> = world.changes().into_iter().map(|s| s.body).collect();
    assert_eq!(
        sent,
        [
            json!({ "image": "tools" }),
            json!({ "image": "tools", "force": true }),
            json!({}),
            json!({ "force": true })
        ]
    );
}

#[test]
fn a_member_of_several_projects_chooses_the_project_of_a_name() {
    let world = World::new();
    let several = "must be given: you belong to several projects";
    let unsaid = error(
        400,
        "FIELD_INVALID",
        &format!("project_id: {several}"),
        &[("project_id", several)],
    );
    world.on("GET", ALLOCATIONS, [(400, unsaid.clone())]);
    world.on("GET", "/api/v1/usage", [(400, unsaid)]);
    let listed = format!("{ALLOCATIONS}?project_id=p&include_ended=true&page_size=200");
    world.get(&listed, json!({ "allocations": [allocation("active")] }));
    let usage = format!("/api/v1/usage?project_id=p&allocation_id={ID}");
    let none = json!({ "intervals": [], "totals": [] });
    world.get(&usage, none.clone());
    world.get(&format!("{usage}&page_size=200"), none);
    world.get(&one(), allocation("active"));
    world.get(&format!("{}/timeline", one()), timeline());
    world.get(&watched(), stream([vec![json!({ "end": {} })]]));
    world.get("/api/v1/availability:explain", json!({}));
    world.fake_program("ssh");
    for verb in ["release", "stop", "start", "reboot"] {
        world.on(
            "POST",
            &format!("{}:{verb}", one()),
            [(200, allocation("active"))],
        );
    }
    world.on("POST", ALLOCATIONS, [(200, allocation("reserved"))]);
    let key = key_pair(&world);
    let requested = launch_arguments(&key, &["--affinity", "first"]);
    let explain = [
        "explain",
        "--region",
        "lab",
        "--sku",
        "s",
        "--anti-affinity",
        "first",
    ];
    for arguments in [
        &["show", "first"][..],
        &["ssh", "first"],
        &["watch", "first"],
        &["usage", "--allocation", "first"],
        &["release", "first"],
        &["stop", "first"],
        &["start", "first"],
        &["reboot", "first"],
        &requested,
        &explain,
    ] {
        let ran = world.run(arguments);
        assert!(ran.code == 2 && ran.err.contains(several), "{ran:?}");
        world.run(&[arguments, &["--project", "p"]].concat()).ok();
    }
    // an id needs no project, also where the API wants one: it is the allocation's
    world.run(&["show", ID]).ok();
    world.run(&["usage", "--allocation", ID]).ok();
    let ran = world.run(&["terminal", "first"]);
    assert!(ran.err.contains(several), "{ran:?}");
    let ran = world.run(&["terminal", "first", "--project", "p"]);
    assert!(
        ran.err.contains("terminal-sessions"),
        "not scripted: {ran:?}"
    );
}

#[test]
fn ssh_pins_the_host_keys_and_uses_the_key_of_the_launch() {
    let world = World::new();
    let key = key_pair(&world);
    world.fake_program("ssh");
    world.on("POST", ALLOCATIONS, [(200, allocation("reserved"))]);
    world.get(&one(), allocation("active"));
    world.run(&launch_arguments(&key, &[])).ok();
    let ran = world.run(&["ssh", ID, "--", "nvidia-smi", "-L"]).ok();
    let known_hosts = world.path(&format!(".local/state/gpuaas/{ID}.known_hosts"));
    let identity = world.path("id").canonicalize().expect("key");
    let expected = format!(
        "-p\n2201\n-o\nConnectTimeout=15\n-o\nUserKnownHostsFile={}\n-o\nGlobalKnownHostsFile=/dev/null\n-o\nStrictHostKeyChecking=yes\n-o\nIdentitiesOnly=yes\n-i\n{}\nu_0123456789abcdef@127.0.0.1\n--\nnvidia-smi\n-L\n",
        known_hosts.display(),
        identity.display()
    );
    assert_eq!(ran.out, expected);
    assert_eq!(
        std::fs::read_to_string(known_hosts).expect("written"),
        "[127.0.0.1]:2201 ssh-ed25519 AAAAHOST\n"
    );
    let ran = world.run(&["ssh", ID, "-i", "/other"]).ok();
    assert!(ran.out.contains("-i\n/other\n"), "{}", ran.out);
}

#[test]
fn release_waits_for_the_wipe_and_shows_only_what_is_new() {
    let world = World::new();
    world.on(
        "POST",
        &format!("{}:release", one()),
        [(200, allocation("releasing"))],
    );
    let mut released = allocation("released");
    released["status"]["active_time"] = json!("2026-01-31T12:01:00Z");
    let mut longer = timeline();
    longer["entries"].as_array_mut().expect("list").push(json!({
        "sequence": "3", "time": "2026-01-31T12:10:00Z", "end_time": "2026-01-31T12:10:01Z",
        "step": "release.wipe", "state": "done", "percent": 100, "message": "64 MiB",
    }));
    world.get(&format!("{}/timeline", one()), timeline());
    world.get(
        &watched(),
        stream([
            vec![changed(allocation("releasing"), "t1")],
            entries(&longer, "t2"),
            vec![synced("t2"), changed(released, "t3")],
        ]),
    );
    let ran = world.run(&["release", ID, "--wait"]).ok();
    assert_eq!(
        ran.out,
        format!("{ID} is released. Show its cost: gpuaas usage --allocation {ID}\n")
    );
    assert!(
        ran.err.contains("release.wipe") && !ran.err.contains("provision.clone"),
        "{}",
        ran.err
    );
}

#[test]
fn a_wait_ends_when_the_state_is_reached_or_cannot_be_any_more() {
    let world = World::new();
    world.get(&format!("{}/timeline", one()), timeline());
    let with_power = |power: &str| {
        let mut active = allocation("active");
        active["status"]["power"] = json!(power);
        active
    };
    for (wanted, states, code, said) in [
        (
            "active",
            [allocation("provisioning"), with_power("running")],
            0,
            format!("{ID} is active, its VM is running.\n"),
        ),
        (
            "stopped",
            [with_power("stopping"), with_power("stopped")],
            0,
            format!("{ID} is active, its VM is stopped.\n"),
        ),
        (
            "released",
            [allocation("releasing"), allocation("released")],
            0,
            format!("{ID} is released.\n"),
        ),
        (
            "running",
            [with_power("starting"), with_power("stopped")],
            1,
            String::new(),
        ),
        (
            "active",
            [allocation("provisioning"), allocation("releasing")],
            1,
            String::new(),
        ),
    ] {
        let [before, after] = states;
        world.get(
            &watched(),
            stream([vec![
                changed(before, "t1"),
                synced("t1"),
                changed(after, "t2"),
            ]]),
        );
        let ran = world.run(&["wait", ID, "--for", wanted]);
        assert_eq!((ran.code, ran.out), (code, said), "{wanted}: {}", ran.err);
    }
    assert_eq!(world.changes().len(), 0, "it only reads");
    let ran = world.run(&["wait", ID, "--for", "gone"]);
    assert!(
        ran.code == 2
            && ran
                .err
                .contains("[possible values: active, running, stopped, rescued, released]"),
        "{}",
        ran.err
    );
}

#[test]
fn usage_shows_seconds_and_exact_money() {
    let world = World::new();
    world.get(
        "/api/v1/usage",
        json!({
            "intervals": [{
                "allocation_id": ID, "sku": "lab-slice", "gpu_count": 1, "start_time": "2026-01-31T12:01:00Z", "seconds": "3661", "microseconds": "3661000000",
                "price_per_gpu_hour": { "currency_code": "EUR", "units": "2", "nanos": 500_000_000 },
                "amount": { "currency_code": "EUR", "units": "2", "nanos": 542_361_111 },
            }],
            "totals": [{ "gpu_microseconds": "3661000000", "amount": { "currency_code": "EUR", "units": "2", "nanos": 542_361_111 } }],
            "next_page_token": "",
        }),
    );
    let ran = world.run(&["usage"]).ok();
    assert!(
        ran.out
            .contains("1h 01m 01s  2.50 EUR      2.54 EUR  2026-01-31 13:01:00 CET  running"),
        "{}",
        ran.out
    );
    assert!(
        ran.out
            .ends_with("Total: 2.54 EUR for 1h 01m 01s of GPU time\n"),
        "{}",
        ran.out
    );
    assert!(!ran.out.contains("CREDITED"), "{}", ran.out);
    let exact = world.run(&["usage", "--output", "json"]).ok().json();
    assert_eq!(
        exact["totals"][0]["amount"]["nanos"], 542_361_111,
        "every digit is for programs"
    );
    world.get(
        "/api/v1/usage",
        json!({ "intervals": [{ "seconds": "0", "microseconds": "640000" }], "totals": [] }),
    );
    assert!(world.run(&["usage"]).ok().out.contains(" 0.6s "));
    world.get("/api/v1/usage", json!({ "intervals": [], "totals": [] }));
    assert!(world.run(&["usage"]).ok().out.starts_with("No usage yet."));
}
