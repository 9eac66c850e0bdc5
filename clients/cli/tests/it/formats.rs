//! What the formats for programs print, `--quiet`, completion, manual pages, and any method of the API.
use crate::support::{ID, World, allocation, error, explanation};
use serde_json::json;

fn world() -> World {
    let world = World::new();
    world.get(
        "/api/v1/allocations",
        json!({ "allocations": [allocation("active")] }),
    );
    world.get(
        "/api/v1/regions",
        json!({ "regions": [{ "code": "lab", "enabled": true }, { "code": "eu", "enabled": false }] }),
    );
    world
}

#[test]
fn programs_choose_among_json_yaml_lines_and_names() {
    let world = world();
    let out = |format: &str| {
        let arguments = ["region", "list", "--output", format];
        world.run(&arguments).ok().out
    };
    assert_eq!(
        out("yaml"),
        "regions:\n- code: lab\n  enabled: true\n- code: eu\n  enabled: false\n"
    );
    assert_eq!(
        out("jsonl"),
        "{\"code\":\"lab\",\"enabled\":true}\n{\"code\":\"eu\",\"enabled\":false}\n"
    );
    assert_eq!(out("name"), "lab\neu\n");
    assert_eq!(world.run(&["list", "-q"]).ok().out, format!("{ID}\n"));
    // wide is a table that no terminal cuts
    let mut narrow = world.command(&["list", "--output", "wide"]);
    let wide = narrow.env("COLUMNS", "60").output().expect("it runs");
    assert!(String::from_utf8_lossy(&wide.stdout).contains(ID));
    let mut narrow = world.command(&["list"]);
    let cut = narrow.env("COLUMNS", "60").output().expect("it runs");
    assert!(!String::from_utf8_lossy(&cut.stdout).contains(ID));
}

#[test]
fn quiet_leaves_hints_out_and_errors_in() {
    let world = world();
    world.on(
        "POST",
        "/api/v1/allocations",
        [(200, allocation("requested"))],
    );
    let ssh = world.path(".ssh");
    std::fs::create_dir_all(&ssh).expect("folder");
    std::fs::write(ssh.join("id_ed25519.pub"), "ssh-ed25519 AAAA me\n").expect("write");
    let ran = world
        .run(&["launch", "--sku", "s", "--image", "i", "-q"])
        .ok();
    assert_eq!(
        (ran.out.as_str(), ran.err.as_str()),
        (&*format!("{ID}\n"), "")
    );
    let ran = world.run(&["show", "nobody", "-q"]);
    assert!(
        ran.code == 3 && ran.err.contains("no allocation matches"),
        "{ran:?}"
    );
}

#[test]
fn a_launch_without_a_key_takes_the_public_one_that_ssh_would_offer() {
    let world = world();
    world.on(
        "POST",
        "/api/v1/allocations",
        [(200, allocation("requested"))],
    );
    let launch = ["launch", "--sku", "s", "--image", "i"];
    let ran = world.run(&launch);
    assert!(
        ran.code == 2 && ran.err.contains("ssh-keygen -t ed25519"),
        "{ran:?}"
    );
    let ssh = world.path(".ssh");
    std::fs::create_dir_all(&ssh).expect("folder");
    // a private key and other files are no choice
    std::fs::write(
        ssh.join("id_ed25519"),
        "-----BEGIN OPENSSH PRIVATE KEY-----",
    )
    .expect("write");
    std::fs::write(ssh.join("known_hosts"), "h ssh-ed25519 AAAA\n").expect("write");
    assert_eq!(world.run(&launch).code, 2);
    assert!(world.changes().is_empty());
    std::fs::write(ssh.join("id_rsa.pub"), "ssh-rsa AAAARSA me\n").expect("write");
    std::fs::write(ssh.join("id_ed25519.pub"), "ssh-ed25519 AAAAED me\n").expect("write");
    let ran = world.run(&launch).ok();
    assert!(ran.err.contains("id_ed25519.pub"), "{ran:?}");
    let sent = world.changes().pop().expect("a launch");
    assert_eq!(
        sent.body["ssh_public_keys"],
        json!(["ssh-ed25519 AAAAED me"])
    );
}

#[test]
fn names_that_are_almost_right_are_suggested() {
    let world = world();
    let ran = world.run(&["show", "frist"]);
    assert!(
        ran.code == 3 && ran.err.contains("did you mean first?"),
        "{ran:?}"
    );
    world.on(
        "POST",
        "/api/v1/allocations",
        [(
            404,
            error(404, "SKU_UNKNOWN", "There is no SKU lab-slise.", &[]),
        )],
    );
    world.get("/api/v1/skus", json!({ "skus": [{ "code": "lab-slice" }] }));
    std::fs::write(world.path("k.pub"), "ssh-ed25519 AAAA me\n").expect("write");
    let key = world.path("k.pub").display().to_string();
    let ran = world.run(&[
        "launch",
        "--sku",
        "lab-slise",
        "--image",
        "i",
        "--ssh-key",
        &key,
    ]);
    assert!(ran.err.contains("Did you mean lab-slice?"), "{ran:?}");
}

#[test]
fn the_name_of_who_calls_is_the_principal() {
    let world = world();
    let caller = json!({ "principal": "user:alice", "principal_id": "1", "roles": ["user"], "projects": [{ "id": "p", "slug": "vision" }] });
    world.get("/api/v1/whoami", caller);
    assert_eq!(world.run(&["whoami", "-q"]).ok().out, "user:alice\n");
    let ran = world.run(&["whoami", "--output", "json"]).ok();
    assert_eq!(ran.json()["roles"], json!(["user"]));
    // whoever is not registered has none
    world.get(
        "/api/v1/whoami",
        json!({ "principal": "", "roles": ["user"] }),
    );
    assert_eq!(world.run(&["whoami", "-q"]).ok().out, "");
    world.get("/api/v1/whoami", json!({ "projects": [{ "id": "p" }] }));
    world.get(
        "/api/v1/projects/p/members",
        json!({ "members": [{ "member_id": "m1", "principal": "user:bob" }] }),
    );
    assert_eq!(world.run(&["member", "list", "-q"]).ok().out, "m1\n");
}

#[test]
fn a_project_is_named_by_its_slug_or_its_id() {
    let world = world();
    let id = "01930000-0007-7000-8000-000000000007";
    world.get(
        "/api/v1/whoami",
        json!({ "projects": [{ "id": id, "slug": "vision" }] }),
    );
    let requested = || world.seen().last().expect("asked").target.clone();
    for given in ["vision", id] {
        world.run(&["list", "--project", given]).ok();
        assert!(
            requested().contains(&format!("project_id={id}")),
            "{given}: {}",
            requested()
        );
    }
    let ran = world.run(&["list", "--project", "visoin"]);
    assert!(
        ran.code == 3 && ran.err.contains("did you mean vision?"),
        "{ran:?}"
    );
    world.get("/api/v1/availability:explain", explanation());
    world
        .run(&["explain", "--sku", "s", "--project", "vision"])
        .ok();
    assert!(requested().contains(id), "{}", requested());
}

#[test]
fn any_method_is_called_with_the_token_of_its_side() {
    let world = world();
    world.get("/api/v1/admin/nodes", json!({ "nodes": [] }));
    let ran = world
        .run(&["api", "GET", "/api/v1/allocations?page_size=10"])
        .ok();
    assert_eq!(ran.json()["allocations"][0]["id"], ID);
    world.run(&["api", "get", "admin/nodes"]).ok();
    let seen = world.seen();
    assert!(seen[0].target.ends_with("/api/v1/allocations?page_size=10"));
    let tokens: Vec<_> = seen.iter().map(|s| s.authorization.as_deref()).collect();
    assert_eq!(
        tokens,
        [Some("Bearer user-token"), Some("Bearer admin-token")]
    );
    let path = format!("/api/v1/allocations/{ID}:stop");
    world.on("POST", &path, [(200, allocation("active"))]);
    world
        .run(&[
            "api",
            "POST",
            &path,
            "--data",
            "{\"reason\":\"x\"}",
            "--idempotency-key",
            "k",
        ])
        .ok();
    let sent = world.changes().pop().expect("sent");
    assert_eq!(
        (sent.key.as_deref(), &sent.body),
        (Some("k"), &json!({ "reason": "x" }))
    );
    for wrong in [
        &["api", "GET", "/x", "--data", "{}"][..],
        &["api", "POST", "/x", "--data", "{"],
        &["api", "GET", "/api/v1/../token"],
        &["api", "BREW", "/x"],
    ] {
        assert_eq!(world.run(wrong).code, 2, "{wrong:?}");
    }
}

#[test]
fn completion_and_manual_pages_need_no_api() {
    let world = World::new();
    std::fs::remove_file(world.path("profile.toml")).expect("removed");
    for (shell, text) in [
        ("bash", "complete -F _gpuaas"),
        ("zsh", "#compdef gpuaas"),
        ("fish", "complete -c gpuaas"),
    ] {
        let ran = world.run(&["completion", shell]).ok();
        assert!(
            ran.out.contains(text) && ran.out.contains("port-forward"),
            "{shell}"
        );
        assert!(!ran.out.contains("ssh-keys"), "{shell}: a second name");
    }
    assert!(world.run(&["man"]).ok().out.contains(".TH gpuaas"));
    let folder = world.path("man");
    std::fs::create_dir(&folder).expect("folder");
    let ran = world.run(&["man", "--folder", &folder.display().to_string()]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(folder.join("gpuaas-launch.1").exists() && folder.join("gpuaas-admin-node.1").exists());
    assert!(!folder.join("gpuaas-ssh-keys.1").exists(), "a second name");
}
