//! `cp` and `port-forward`: what the system's programs are given.
use crate::support::{ID, World, allocation};

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
