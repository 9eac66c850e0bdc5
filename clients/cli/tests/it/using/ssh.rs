//! SSH keys, and the host keys of VMs.
use serde_json::json;

use crate::allocations::ALLOCATIONS;
use crate::support::{ID, World, allocation, write};

#[test]
fn only_a_public_key_leaves_this_machine() {
    for (text, sent) in [
        ("root:x:0:0:root:/root:/bin/bash\n", false),
        ("", false),
        ("ssh-ed25519 AAAAC3Nz me\nroot:x:0:0\n", false),
        (
            "# two\nssh-ed25519 AAAAC3Nz me\n\nssh-rsa AAAAB3Nz+/= you\n",
            true,
        ),
    ] {
        let world = World::new();
        write(&world.path("file"), text);
        let file = world.path("file").display().to_string();
        world.on("POST", ALLOCATIONS, [(200, allocation("reserved"))]);
        let ran = world.run(&[
            "launch",
            "--region",
            "lab",
            "--sku",
            "s",
            "--image",
            "i",
            "--ssh-key",
            &file,
        ]);
        assert_eq!(
            (ran.code == 0, world.seen().is_empty()),
            (sent, !sent),
            "{text:?}: {ran:?}"
        );
        assert!(
            sent || ran.err.contains("is not an OpenSSH public key"),
            "{}",
            ran.err
        );
    }
}

#[test]
fn p11_no_host_key_is_learned_from_whoever_answers() {
    let world = World::new();
    world.fake_program("ssh");
    let mut unknown = allocation("active");
    unknown["status"]["access"]["ssh_host_keys"] = json!([]);
    world.get(&format!("{ALLOCATIONS}/{ID}"), unknown);
    let ran = world.run(&["ssh", ID, "-i", "key"]);
    assert_eq!((ran.code, ran.out.as_str()), (2, ""));
    assert!(ran.err.contains("host keys of allocation"), "{}", ran.err);
    world.get(
        &format!("{ALLOCATIONS}/{ID}/timeline"),
        json!({ "entries": [] }),
    );
    world.get("/api/v1/usage", json!({ "intervals": [], "totals": [] }));
    let shown = world.run(&["show", ID]).ok();
    assert!(!shown.out.contains("gpuaas ssh"), "{}", shown.out);
    assert!(
        shown.out.contains("no host keys are on record"),
        "{shown:?}"
    );
}

#[test]
fn ssh_without_a_known_key_says_what_to_do() {
    let world = World::new();
    world.fake_program("ssh");
    world.get(&format!("{ALLOCATIONS}/{ID}"), allocation("active"));
    let ran = world.run(&["ssh", ID]).ok();
    assert!(
        ran.err
            .contains("gpuaas ssh first -i FILE, or without a key: gpuaas terminal first"),
        "{}",
        ran.err
    );
    // the profile of a development stack names the key of its first slice
    write(&world.path("key"), "");
    let profile = std::fs::read_to_string(world.path("profile.toml")).expect("profile");
    write(
        &world.path("profile.toml"),
        &format!("{profile}identity_file = \"key\"\n"),
    );
    let ran = world.run(&["ssh", ID]).ok();
    assert_eq!(ran.err, "");
    assert!(
        ran.out.contains(&world.path("key").display().to_string()),
        "{}",
        ran.out
    );
}
