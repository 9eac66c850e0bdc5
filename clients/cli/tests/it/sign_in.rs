//! `login`, `logout`, `whoami` and contexts, with an API and an identity provider that the test plays.
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use serde_json::{Value, json};

use crate::support::{Ran, World, error, write};

const CONFIGURATION: &str = "/.well-known/gpuaas-configuration";
const METADATA: &str = "/.well-known/openid-configuration";
const SKUS: &str = "/api/v1/skus";

/// A command of a user without a profile.
fn plain(world: &World, arguments: &[&str]) -> Command {
    let mut command = world.command(arguments);
    command.env_remove("GPUAAS_PROFILE_FILE");
    command
}

fn run(world: &World, arguments: &[&str]) -> Ran {
    Ran::from(plain(world, arguments).output().expect("runs"))
}

fn login(world: &World) -> Ran {
    run(world, &["login", "--api", &world.url()])
}

fn granted(access: &str, refresh: &str, seconds: i64) -> Value {
    json!({ "access_token": access, "token_type": "Bearer", "expires_in": seconds, "refresh_token": refresh })
}

fn refused(error: &str) -> (u16, Value) {
    (
        400,
        json!({ "error": error, "error_description": "because" }),
    )
}

/// An API with one identity provider, both at the same address, that answers requests for tokens like this.
fn provider(tokens: impl IntoIterator<Item = (u16, Value)>) -> World {
    let world = World::new();
    let url = world.url();
    world.get(CONFIGURATION, json!({ "issuers": [
        { "issuer": "https://machines.example.com", "display_name": "Machines" },
        { "issuer": url, "display_name": "Example", "cli_client_id": "cli", "scopes": ["openid", "offline_access"],
          "parameters": { "resource": "https://api.example.com" } },
    ] }));
    world.get(METADATA, json!({
        "issuer": url, "token_endpoint": format!("{url}/token"),
        "device_authorization_endpoint": format!("{url}/device"), "revocation_endpoint": format!("{url}/revoke"),
    }));
    world.on("POST", "/device", [(200, json!({
        "device_code": "d3vice", "user_code": "BCDF-GHJK", "verification_uri": "https://example.com/device",
        "verification_uri_complete": "https://example.com/device?user_code=BCDF-GHJK", "expires_in": 60, "interval": 0,
    }))]);
    world.on("POST", "/token", tokens);
    world.on("POST", "/revoke", [(200, json!({}))]);
    world.get("/api/v1/whoami", json!({
        "principal": "user:ada", "display_name": "Ada", "issuer": url, "roles": ["platform_admin"],
        "projects": [{ "slug": "ml", "organisation": "acme" }], "expire_time": "2026-01-31T12:00:00Z",
    }));
    world.get(SKUS, json!({ "skus": [] }));
    world
}

fn contexts(world: &World) -> Value {
    let text = std::fs::read_to_string(world.path(".config/gpuaas/contexts.json"));
    serde_json::from_str(&text.expect("the file")).expect("JSON")
}

/// What was said to an address, in order.
fn said_to(world: &World, target: &str) -> Vec<String> {
    let seen = world
        .seen()
        .into_iter()
        .filter(|seen| seen.target == target);
    seen.map(|seen| seen.body.as_str().unwrap_or_default().to_owned())
        .collect()
}

fn used(world: &World) -> Vec<String> {
    let seen = world.seen().into_iter();
    let seen = seen.filter(|seen| seen.target.starts_with(SKUS));
    seen.map(|seen| seen.authorization.unwrap_or_default())
        .collect()
}

#[test]
fn a_person_signs_in_with_a_code_and_the_commands_after_it_need_no_token() {
    let world = provider([
        refused("authorization_pending"),
        (200, granted("acc3ss", "r3fresh", 3600)),
    ]);
    let ran = login(&world).ok();
    let name = world.url().replace("http://", "");
    assert_eq!(
        ran.out,
        format!("Signed in as user:ada (context {name}).\n")
    );
    for reported in [
        "https://example.com/device?user_code=BCDF-GHJK",
        "BCDF-GHJK.",
    ] {
        assert!(ran.err.contains(reported), "{}", ran.err);
    }
    assert_eq!(
        said_to(&world, "/device"),
        ["client_id=cli&scope=openid+offline_access&resource=https%3A%2F%2Fapi.example.com"]
    );
    let requested = said_to(&world, "/token");
    assert_eq!(requested.len(), 2);
    assert!(
        requested[1].contains("device_code=d3vice")
            && requested[1].contains("device_code&client_id=cli"),
        "{requested:?}"
    );
    let file = world.path(".config/gpuaas/contexts.json");
    let mode = std::fs::metadata(file).expect("file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    run(&world, &["sku", "list"]).ok();
    assert_eq!(used(&world), ["Bearer acc3ss"]);
    let ran = run(&world, &["whoami"]).ok();
    for line in [
        "Principal    user:ada",
        "Name         Ada",
        "Roles        platform_admin",
        "Projects     ml (acme)",
    ] {
        assert!(ran.out.contains(line), "{}", ran.out);
    }
    let listed = run(&world, &["context", "list"]).ok();
    assert!(
        listed.out.contains("user:ada") && listed.out.contains("yes"),
        "{}",
        listed.out
    );
    let listed = run(&world, &["context", "list", "--output", "json"]).ok();
    assert!(
        !listed.out.contains("acc3ss") && !listed.out.contains("r3fresh"),
        "{}",
        listed.out
    );

    let ran = run(&world, &["logout"]).ok();
    assert_eq!(ran.out, format!("Signed out of {name}.\n"));
    let revoked = said_to(&world, "/revoke");
    assert_eq!(
        revoked,
        ["client_id=cli&token=r3fresh&token_type_hint=refresh_token"]
    );
    let ran = run(&world, &["sku", "list"]);
    assert_eq!(ran.code, 4);
    assert!(ran.err.contains("gpuaas login"), "{}", ran.err);
    assert!(!contexts(&world).to_string().contains("r3fresh"));
}

#[test]
fn a_token_that_ends_is_renewed_silently_and_once() {
    let world = provider([
        (200, granted("old", "first", 1)),
        (200, granted("new", "second", 3600)),
        refused("invalid_grant"),
    ]);
    login(&world).ok();
    // several at once: who comes later takes what the first one got
    let children: Vec<_> = (0..6)
        .map(|_| {
            let mut command = plain(&world, &["sku", "list"]);
            command.stdout(std::process::Stdio::null());
            command.spawn().expect("starts")
        })
        .collect();
    for mut child in children {
        assert!(child.wait().expect("ends").success());
    }
    assert_eq!(used(&world), ["Bearer new"; 6]);
    let renewed: Vec<_> = said_to(&world, "/token")
        .into_iter()
        .filter(|body| body.contains("grant_type=refresh_token"))
        .collect();
    assert_eq!(
        renewed,
        [
            "grant_type=refresh_token&client_id=cli&refresh_token=first&resource=https%3A%2F%2Fapi.example.com"
        ]
    );
}

#[test]
fn a_sign_in_that_has_ended_says_what_to_do() {
    let world = provider([(200, granted("old", "first", 1)), refused("invalid_grant")]);
    login(&world).ok();
    let ran = run(&world, &["sku", "list"]);
    assert_eq!(ran.code, 4);
    assert!(
        ran.err.contains("your sign-in has ended") && ran.err.contains("gpuaas login"),
        "{}",
        ran.err
    );
    assert!(used(&world).is_empty());
}

#[test]
fn a_provider_that_is_away_for_a_moment_ends_no_sign_in() {
    let world = provider([
        (200, granted("old", "first", 1)),
        (503, json!({})),
        (200, granted("new", "second", 3600)),
    ]);
    login(&world).ok();
    let ran = run(&world, &["sku", "list"]);
    assert!(ran.err.contains("answered with status 503"), "{}", ran.err);
    run(&world, &["sku", "list"]).ok();
    assert_eq!(used(&world), ["Bearer new"]);
}

#[test]
fn a_sign_in_that_does_not_work_leaves_nothing() {
    for (answers, reported) in [
        (vec![refused("access_denied")], "was refused in the browser"),
        (
            vec![refused("authorization_pending"), refused("expired_token")],
            "nobody confirmed the code in time",
        ),
        (vec![refused("invalid_client")], "because (invalid_client)"),
        (vec![(500, json!({}))], "answered with status 500"),
        (
            vec![(200, json!({ "token": "x" }))],
            "something else than a sign-in needs",
        ),
    ] {
        let world = provider(answers);
        let ran = login(&world);
        assert_eq!(ran.code, 4, "{ran:?}");
        assert!(ran.err.contains(reported), "{reported}: {}", ran.err);
        assert!(!world.path(".config/gpuaas/contexts.json").exists());
    }
    // who is nobody here is not signed in
    let world = provider([(200, granted("acc3ss", "r3fresh", 3600))]);
    let denied = error(
        403,
        "PERMISSION_DENIED",
        "This identity is not registered here.",
        &[],
    );
    world.on("GET", "/api/v1/whoami", [(403, denied)]);
    let ran = login(&world);
    assert!(
        ran.code == 4 && ran.err.contains("is not registered here"),
        "{ran:?}"
    );
    assert!(!world.path(".config/gpuaas/contexts.json").exists());
}

#[test]
fn who_is_told_to_slow_down_does() {
    let world = provider([refused("slow_down"), (200, granted("acc3ss", "r", 3600))]);
    let begun = std::time::Instant::now();
    login(&world).ok();
    assert!(begun.elapsed() >= std::time::Duration::from_secs(5));
}

#[test]
fn a_provider_that_is_not_what_it_says_gets_nothing() {
    for (change, reported) in [
        (
            json!({ "issuer": "https://evil.example" }),
            "calls itself https://evil.example",
        ),
        (
            json!({ "token_endpoint": "http://evil.example/token" }),
            "without https",
        ),
        (
            json!({ "device_authorization_endpoint": null }),
            "has no device authorization",
        ),
    ] {
        let world = provider([(200, granted("acc3ss", "r", 3600))]);
        let url = world.url();
        let mut metadata = json!({ "issuer": url, "token_endpoint": format!("{url}/token"),
            "device_authorization_endpoint": format!("{url}/device") });
        for (name, value) in change.as_object().expect("object") {
            metadata[name] = value.clone();
        }
        world.get(METADATA, metadata);
        let ran = login(&world);
        assert!(
            ran.code == 4 && ran.err.contains(reported),
            "{reported}: {ran:?}"
        );
        assert!(world.changes().is_empty());
    }
}

#[test]
fn of_several_providers_one_is_named() {
    let world = provider([(200, granted("acc3ss", "r", 3600))]);
    let one = |name: &str, url: &str| json!({ "issuer": url, "display_name": name, "cli_client_id": "cli" });
    world.get(
        CONFIGURATION,
        json!({ "issuers": [one("Example", &world.url()), one("Other", "https://other.example")] }),
    );
    let ran = login(&world);
    assert_eq!(ran.code, 2);
    assert!(
        ran.err.contains("--issuer: \"Example\", \"Other\""),
        "{}",
        ran.err
    );
    let ran = run(
        &world,
        &["login", "--api", &world.url(), "--issuer", "nobody"],
    );
    assert!(
        ran.code == 2 && ran.err.contains("no identity provider is \"nobody\""),
        "{ran:?}"
    );
    run(
        &world,
        &[
            "login",
            "--api",
            &world.url(),
            "--issuer",
            "example",
            "--context",
            "work",
        ],
    )
    .ok();
    assert_eq!(contexts(&world)["current"], "work");
    world.get(CONFIGURATION, json!({ "issuers": [] }));
    assert!(
        login(&world)
            .err
            .contains("has no identity provider for the command line")
    );
}

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

    // a list may still be of all of them
    const ALLOCATIONS: &str = "/api/v1/allocations";
    world.get(ALLOCATIONS, json!({ "allocations": [] }));
    run(&world, &["list"]).ok();
    run(&world, &["list", "--all-projects"]).ok();
    let both = world.seen().into_iter();
    let both: Vec<bool> = both
        .filter(|seen| seen.target.starts_with(ALLOCATIONS))
        .map(|seen| seen.target.contains(PROJECT))
        .collect();
    assert_eq!(both, [true, false]);

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
