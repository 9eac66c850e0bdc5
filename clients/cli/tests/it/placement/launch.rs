//! Launches: several in one call, queued, protected, with user data.
use serde_json::{Value, json};

use super::{FIRST, NODE, post};
use crate::support::{Ran, World, changed, error, explanation, stream, synced};

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
fn one_of_several_that_fails_hides_none_of_the_others() {
    let world = World::new();
    let key = world.home.path().join("k.pub");
    std::fs::write(&key, "ssh-ed25519 AAAA me\n").expect("write");
    std::fs::write(world.home.path().join("k"), "private").expect("write");
    let key = key.to_str().expect("path");
    let launched = |id: &str, name: &str, state: &str| json!({ "id": id, "config": { "name": name }, "status": { "state": state } });
    let all = [
        launched(FIRST, "web-1", "reserved"),
        launched(NODE, "web-2", "reserved"),
    ];
    post(
        &world,
        "/api/v1/allocations:batchCreate",
        json!({ "allocations": all }),
    );
    let mut failed = launched(FIRST, "web-1", "failed");
    failed["status"]["failure"] =
        json!({ "reason": "GUEST_NO_LOGIN", "message": "The image never answered." });
    for (id, now) in [(FIRST, failed), (NODE, launched(NODE, "web-2", "active"))] {
        let news = stream([vec![changed(now, "t1"), synced("t2")]]);
        world.get(&format!("/api/v1/allocations/{id}:watch"), news);
    }
    let launch = [
        "launch",
        "--sku",
        "s",
        "--image",
        "i",
        "--ssh-key",
        key,
        "--region",
        "lab",
        "--name",
        "web",
        "--count",
        "2",
        "--wait",
    ];
    let ran = world.run(&launch);
    assert_eq!((ran.code, ran.out.as_str()), (1, ""), "{ran:?}");
    for reported in [
        "Launched web-2",
        "error: The image never answered.",
        "done:    web-2",
        "not yet: web-1",
    ] {
        assert!(ran.err.contains(reported), "{reported}: {ran:?}");
    }
    // whose key is known here
    assert!(
        world
            .path(&format!(".local/state/gpuaas/{NODE}.identity"))
            .exists()
    );
    let ran = world.run(&[&launch[..], &["--output", "json"]].concat());
    assert_eq!(ran.code, 1, "{ran:?}");
    let states: Vec<Value> = ran.json()["allocations"]
        .as_array()
        .expect("list")
        .iter()
        .map(|one| one["status"]["state"].clone())
        .collect();
    assert_eq!(states, ["reserved", "active"]);
}

#[test]
fn several_launches_that_are_late_name_the_whole_timeout() {
    let world = World::new();
    let key = world.home.path().join("k.pub");
    std::fs::write(&key, "ssh-ed25519 AAAA me\n").expect("write");
    let key = key.to_str().expect("path");
    let one = |id: &str, name: &str, state: &str| json!({ "id": id, "config": { "name": name }, "status": { "state": state } });
    let launched = json!([
        one(FIRST, "web-1", "reserved"),
        one(NODE, "web-2", "reserved")
    ]);
    post(
        &world,
        "/api/v1/allocations:batchCreate",
        json!({ "allocations": launched }),
    );
    // some of the time has passed when the second one is waited for
    for (id, name, state) in [(FIRST, "web-1", "active"), (NODE, "web-2", "reserved")] {
        world.get(
            &format!("/api/v1/allocations/{id}:watch"),
            stream([vec![changed(one(id, name, state), "t1"), synced("t2")]]),
        );
    }
    let launch = [
        "launch",
        "--sku",
        "s",
        "--image",
        "i",
        "--ssh-key",
        key,
        "--region",
        "lab",
        "--name",
        "web",
        "--count",
        "2",
        "--wait",
        "--timeout",
        "2",
    ];
    let ran = world.run(&launch);
    assert_eq!((ran.code, ran.out.as_str()), (1, ""), "{ran:?}");
    for reported in [
        &format!("error: still reserved after 2 s; see: gpuaas show {NODE}"),
        "done:    web-1",
        "not yet: web-2",
    ] {
        assert!(ran.err.contains(reported), "{reported}: {ran:?}");
    }
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
