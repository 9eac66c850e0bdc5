//! `ssh`, `cp` and `port-forward`: what the system's programs are given.
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use crate::support::{ID, World, allocation, write};

fn world() -> World {
    let world = World::new();
    world.get(&format!("/api/v1/allocations/{ID}"), allocation("active"));
    world.get(
        "/api/v1/allocations",
        serde_json::json!({ "allocations": [allocation("active")] }),
    );
    world.fake_program("scp");
    world.fake_program("ssh");
    world
}

#[test]
fn a_copy_uses_the_pinned_login_of_the_allocation() {
    let world = world();
    let ran = world.run(&["cp", "-r", "data", "first:/tmp/in"]).ok();
    let arguments: Vec<&str> = ran.out.lines().collect();
    assert!(arguments.contains(&"Port=2201") && arguments.contains(&"StrictHostKeyChecking=yes"));
    let count = arguments.len();
    assert_eq!(
        arguments[count - 4..],
        ["-r", "--", "data", "u_0123456789abcdef@127.0.0.1:/tmp/in"]
    );
    let ran = world.run(&["cp", "first:out.csv", "a:b"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    let ran = world.run(&["cp", "first:out.csv", "./a:b"]).ok();
    assert!(ran.out.ends_with("@127.0.0.1:out.csv\n./a:b\n"), "{ran:?}");
}

#[test]
fn a_name_that_is_no_text_is_copied_or_refused_and_no_panic() {
    let world = world();
    let odd = OsStr::from_bytes(b"caf\xe9.txt");
    let mut command = world.command(&["cp"]);
    let ran = command.arg(odd).arg("first:in").output().expect("runs");
    assert!(ran.status.success(), "{ran:?}");
    let end = b"--\ncaf\xe9.txt\nu_0123456789abcdef@127.0.0.1:in\n";
    assert!(ran.stdout.ends_with(end), "{ran:?}");
    let mut command = world.command(&["show"]);
    let ran = command.arg(odd).output().expect("runs");
    assert_eq!(ran.status.code(), Some(2), "{ran:?}");
}

#[test]
fn a_forwarded_port_is_of_this_machine_only() {
    let world = world();
    let ran = world.run(&["port-forward", ID, "8888", "80:8080"]).ok();
    let arguments: Vec<&str> = ran.out.lines().collect();
    assert!(
        arguments.contains(&"127.0.0.1:8888:127.0.0.1:8888"),
        "{ran:?}"
    );
    assert!(
        arguments.contains(&"127.0.0.1:80:127.0.0.1:8080"),
        "{ran:?}"
    );
    assert!(arguments.contains(&"-N") && arguments.contains(&"ExitOnForwardFailure=yes"));
    assert_eq!(arguments.last(), Some(&"u_0123456789abcdef@127.0.0.1"));
    world.get(
        &format!("/api/v1/allocations/{ID}"),
        allocation("requested"),
    );
    assert_eq!(world.run(&["port-forward", ID, "80"]).code, 2);
}

#[test]
fn a_key_whose_path_ssh_expands_is_refused_before_anything_is_done() {
    let world = world();
    let folder = world.path("100%");
    std::fs::create_dir(&folder).expect("folder");
    let percent = folder.join("id").display().to_string();
    write(&folder.join("id"), "private");
    for key in [percent.as_str(), "/keys/${USER}/id"] {
        for arguments in [
            &["ssh", "-i", key, ID][..],
            &["ssh", "--via", "platform", "--identity", key, ID],
            &["cp", "-i", key, "data", "first:in"],
            &["port-forward", "-i", key, ID, "8888"],
        ] {
            let ran = world.run(arguments);
            assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{ran:?}");
            for reported in [key, "ssh expands % and ${…}", "copy or link the key"] {
                assert!(ran.err.contains(reported), "{reported}: {ran:?}");
            }
        }
    }
    // that of the launch
    let state = world.path(".local/state/gpuaas");
    std::fs::create_dir_all(&state).expect("folder");
    write(&state.join(format!("{ID}.identity")), &percent);
    let ran = world.run(&["ssh", ID]);
    assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{ran:?}");
    assert!(
        ran.err.contains(&percent) && ran.err.contains("name it with -i FILE"),
        "{ran:?}"
    );
    assert!(world.seen().is_empty(), "{:?}", world.seen());
    assert!(!state.join(format!("{ID}.known_hosts")).exists());
    world.run(&["ssh", "-i", "/keys/$USER/id", ID]).ok();
}

/// The command that ssh or scp speaks through.
fn proxy(arguments: &str) -> Option<&str> {
    arguments
        .lines()
        .find_map(|line| line.strip_prefix("ProxyCommand="))
}

#[test]
fn through_the_platform_the_programs_speak_through_a_tunnel() {
    let world = world();
    for (arguments, through) in [
        (&["port-forward", ID, "80"][..], true),
        (&["port-forward", "--via", "network", ID, "80"], false),
        (&["ssh", ID], false),
        (&["ssh", "--via", "platform", ID, "--", "uname"], true),
        (&["cp", "a", "first:b"], false),
        (&["cp", "--via", "platform", "a", "first:b"], true),
    ] {
        let ran = world.run(arguments).ok();
        let found = proxy(&ran.out);
        assert_eq!(found.is_some(), through, "{arguments:?}: {ran:?}");
        if let Some(command) = found {
            assert!(
                command.ends_with(&format!("/gpuaas tunnel {ID}")),
                "{command}"
            );
        }
        // the key of the VM is pinned on either way
        assert!(ran.out.contains("StrictHostKeyChecking=yes"), "{ran:?}");
    }
    assert_eq!(world.run(&["ssh", "--via", "pigeon", ID]).code, 2);
}

#[test]
fn a_tunnel_calls_the_same_api_as_the_same_caller() {
    let world = world();
    let script = "#!/bin/sh\nenv\nprintf '%s\\n' \"$@\"\n";
    crate::support::write(&world.path("bin/ssh"), script);
    let profile = world.path("profile.toml");
    let profile = profile.display().to_string();
    let mut command = world.command(&["--profile-file", &profile, "ssh", "--via", "platform", ID]);
    command.env_remove("GPUAAS_PROFILE_FILE");
    let ran = crate::support::Ran::from(command.output().expect("runs")).ok();
    let variable = format!("GPUAAS_PROFILE_FILE={profile}");
    assert!(ran.out.lines().any(|line| line == variable), "{ran:?}");
    assert!(
        !ran.out.contains("user-token"),
        "no secret is handed on: {ran:?}"
    );
}
