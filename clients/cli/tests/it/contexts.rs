//! Contexts: which sign-in, which API and which project a command is for.
use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;

use crate::sign_in::{SKUS, contexts, granted, plain, provider, run, used};
use crate::support::{Ran, World, write};

#[test]
fn a_token_that_is_given_wins_and_that_of_a_context_goes_nowhere_else() {
    let world = provider([(200, granted("acc3ss", "r", 3600))]);
    run(
        &world,
        &["login", "--api", &world.url(), "--context", "work"],
    )
    .ok();
    write(&world.path("other"), "from-file");
    let other = world.path("other").display().to_string();
    run(&world, &["sku", "list", "--token-file", &other]).ok();
    let from_environment = plain(&world, &["sku", "list"])
        .env("GPUAAS_TOKEN", "from-env")
        .output();
    Ran::from(from_environment.expect("runs")).ok();
    // the profile that the environment names has a token of its own
    world.run(&["sku", "list"]).ok();
    world.run(&["sku", "list", "--context", "work"]).ok();
    let api = format!("api = \"{}\"\n", world.url());
    write(&world.path("profile.toml"), &api);
    world.run(&["sku", "list"]).ok();
    assert_eq!(
        used(&world),
        [
            "Bearer from-file",
            "Bearer from-env",
            "Bearer user-token",
            "Bearer acc3ss",
            "Bearer acc3ss"
        ]
    );
    let elsewhere = World::new();
    elsewhere.get(SKUS, json!({ "skus": [] }));
    run(&world, &["sku", "list", "--api", &elsewhere.url()]).ok();
    assert_eq!(used(&elsewhere), [""], "no token of another API");
    let ran = run(
        &world,
        &[
            "sku",
            "list",
            "--api",
            &elsewhere.url(),
            "--context",
            "work",
        ],
    );
    assert!(
        ran.code == 2 && ran.err.contains("the context work is for"),
        "{ran:?}"
    );
}

#[test]
fn contexts_are_listed_chosen_and_deleted() {
    let world = provider([
        (200, granted("one", "r", 3600)),
        (200, granted("two", "r", 3600)),
    ]);
    for name in ["first", "second"] {
        run(&world, &["login", "--api", &world.url(), "--context", name]).ok();
    }
    run(&world, &["context", "use", "first"]).ok();
    run(&world, &["sku", "list"]).ok();
    let second = plain(&world, &["sku", "list"])
        .env("GPUAAS_CONTEXT", "second")
        .output();
    Ran::from(second.expect("runs")).ok();
    assert_eq!(used(&world), ["Bearer one", "Bearer two"]);
    let ran = run(&world, &["context", "use", "third"]);
    assert!(
        ran.code == 3 && ran.err.contains("there are: first, second"),
        "{ran:?}"
    );
    run(&world, &["context", "delete", "first"]).ok();
    let ran = run(&world, &["sku", "list"]);
    assert!(ran.code == 2 && ran.err.contains("gpuaas login"), "{ran:?}");

    let file = world.path(".config/gpuaas/contexts.json");
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o644)).expect("chmod");
    let ran = run(&world, &["sku", "list", "--context", "second"]);
    assert!(
        ran.code == 1 && ran.err.contains("others may read it"),
        "{ran:?}"
    );
}

#[test]
fn the_project_of_a_context_is_that_of_commands_which_name_none() {
    const PROJECT: &str = "01930000-0007-7000-8000-000000000007";
    const OTHER: &str = "01930000-0008-7000-8000-000000000008";
    const QUOTAS: &str = "/api/v1/quotas";
    let world = provider([
        (200, granted("one", "r", 3600)),
        (200, granted("two", "r", 3600)),
    ]);
    let project = |id: &str, slug: &str| json!({ "id": id, "slug": slug, "organisation": "acme" });
    let own = json!({ "projects": [project(PROJECT, "vision"), project(OTHER, "speech")] });
    world.get("/api/v1/projects", own.clone());
    world.get("/api/v1/admin/projects", own);
    world.get(QUOTAS, json!({ "quotas": [] }));
    world.get("/api/v1/ssh-keys", json!({ "ssh_keys": [] }));
    world.get("/api/v1/admin/allocations", json!({ "allocations": [] }));
    let asked = |world: &World| {
        let seen = world.seen().into_iter().rev();
        let mut seen = seen.filter(|seen| seen.target.starts_with(QUOTAS));
        seen.next().expect("asked").target
    };
    let login = |name: &str| run(&world, &["login", "--api", &world.url(), "--context", name]).ok();
    login("work");
    run(&world, &["quota"]).ok();
    assert!(!asked(&world).contains("project_id"), "{}", asked(&world));

    let ran = run(&world, &["context", "set", "--project", "visoin"]);
    assert!(
        ran.code == 3 && ran.err.contains("did you mean vision?"),
        "{ran:?}"
    );
    let set = ["context", "set", "--project", "vision"];
    let said = run(&world, &set).ok().out;
    assert!(said.contains("vision"), "{said}");
    assert_eq!(
        contexts(&world)["contexts"]["work"]["project"]["id"],
        PROJECT
    );
    let listed = run(&world, &["context", "list"]).ok().out;
    assert!(
        listed.contains("PROJECT") && listed.contains("vision"),
        "{listed}"
    );
    let listed = run(&world, &["context", "list", "--output", "json"]).json();
    assert_eq!(
        (
            &listed["contexts"][0]["project"],
            &listed["contexts"][0]["project_id"]
        ),
        (&json!("vision"), &json!(PROJECT))
    );
    run(&world, &["quota"]).ok();
    assert!(asked(&world).contains(PROJECT), "{}", asked(&world));
    run(&world, &["quota", "--project", "speech"]).ok();
    assert!(asked(&world).contains(OTHER), "{}", asked(&world));

    // one that the API does not know any more is named by the context alone
    let gone = crate::support::error(404, "PROJECT_UNKNOWN", "no such project", &[]);
    world.on("GET", QUOTAS, [(404, gone.clone()), (404, gone)]);
    let hint = "gpuaas context set --no-project";
    let ran = run(&world, &["quota"]);
    assert!(ran.code == 3 && ran.err.contains(hint), "{ran:?}");
    let ran = run(&world, &["quota", "--project", "speech"]);
    assert!(ran.code == 3 && !ran.err.contains(hint), "{ran:?}");
    world.get(QUOTAS, json!({ "quotas": [] }));
    let members = format!("/api/v1/projects/{PROJECT}/members");
    let gone = crate::support::error(404, "PROJECT_UNKNOWN", "no such project", &[]);
    world.on("GET", &members, [(404, gone)]);
    let ran = run(&world, &["member", "list"]);
    assert!(ran.code == 3 && ran.err.contains(hint), "{ran:?}");

    // a list may still be of all of them, each of which the API lists by itself
    const ALLOCATIONS: &str = "/api/v1/allocations";
    world.get(ALLOCATIONS, json!({ "allocations": [] }));
    world.get("/api/v1/whoami", json!({ "principal": "user:ada", "roles": ["platform_admin"], "projects": [project(PROJECT, "vision"), project(OTHER, "speech")] }));
    run(&world, &["list"]).ok();
    run(&world, &["list", "--all-projects"]).ok();
    let listed = world.seen().into_iter();
    let listed: Vec<bool> = listed
        .filter(|seen| seen.target.starts_with(ALLOCATIONS))
        .map(|seen| seen.target.contains(PROJECT))
        .collect();
    assert_eq!(listed, [true, true, false]);

    // whoever is somebody else there has other projects
    let given = plain(&world, &["quota"])
        .env("GPUAAS_TOKEN", "another")
        .output();
    Ran::from(given.expect("runs")).ok();
    assert!(!asked(&world).contains("project_id"), "{}", asked(&world));
    // where the absence of a project says something else
    run(&world, &["ssh-key", "list"]).ok();
    run(&world, &["admin", "allocation", "list"]).ok();
    let elsewhere = world.seen().into_iter().filter(|seen| {
        seen.target.starts_with("/api/v1/ssh-keys")
            || seen.target.starts_with("/api/v1/admin/allocations")
    });
    let elsewhere: Vec<String> = elsewhere.map(|seen| seen.target).collect();
    assert_eq!(elsewhere.len(), 2);
    assert!(
        elsewhere.iter().all(|target| !target.contains(PROJECT)),
        "{elsewhere:?}"
    );

    // the same person again
    login("work");
    run(&world, &["quota"]).ok();
    assert!(asked(&world).contains(PROJECT), "{}", asked(&world));
    run(&world, &["context", "set", "work", "--no-project"]).ok();
    run(&world, &["quota"]).ok();
    assert!(!asked(&world).contains("project_id"), "{}", asked(&world));
    for wrong in [
        &["context", "set", "work"][..],
        &["context", "set", "--project", "vision", "--no-project"],
    ] {
        assert_eq!(run(&world, wrong).code, 2);
    }
    let ran = run(&world, &["context", "set", "other", "--project", "vision"]);
    assert_eq!(ran.code, 3, "{ran:?}");
}
