//! `login`, `logout` and `whoami`, with an API and an identity provider that the test plays.
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{Ran, World, error};

const CONFIGURATION: &str = "/.well-known/gpuaas-configuration";
const METADATA: &str = "/.well-known/openid-configuration";
pub const SKUS: &str = "/api/v1/skus";

/// A command of a user without a profile.
pub fn plain(world: &World, arguments: &[&str]) -> Command {
    let mut command = world.command(arguments);
    command.env_remove("GPUAAS_PROFILE_FILE");
    command
}

pub fn run(world: &World, arguments: &[&str]) -> Ran {
    Ran::from(plain(world, arguments).output().expect("runs"))
}

fn login(world: &World) -> Ran {
    run(world, &["login", "--api", &world.url()])
}

pub fn granted(access: &str, refresh: &str, seconds: i64) -> Value {
    json!({ "access_token": access, "token_type": "Bearer", "expires_in": seconds, "refresh_token": refresh })
}

fn refused(error: &str) -> (u16, Value) {
    (
        400,
        json!({ "error": error, "error_description": "because" }),
    )
}

/// A code that is good for so many seconds.
fn device(expires_in: u64) -> Value {
    json!({
        "device_code": "d3vice", "user_code": "BCDF-GHJK", "verification_uri": "https://example.com/device",
        "verification_uri_complete": "https://example.com/device?user_code=BCDF-GHJK",
        "expires_in": expires_in, "interval": 0,
    })
}

/// An API with one identity provider, both at the same address, that answers requests for tokens like this.
pub fn provider(tokens: impl IntoIterator<Item = (u16, Value)>) -> World {
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
    world.on("POST", "/device", [(200, device(60))]);
    world.on("POST", "/token", tokens);
    world.on("POST", "/revoke", [(200, json!({}))]);
    world.get("/api/v1/whoami", json!({
        "principal": "user:ada", "display_name": "Ada", "issuer": url, "roles": ["platform_admin"],
        "projects": [{ "slug": "ml", "organisation": "acme" }], "expire_time": "2026-01-31T12:00:00Z",
    }));
    world.get(SKUS, json!({ "skus": [] }));
    world
}

pub fn contexts(world: &World) -> Value {
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

pub fn used(world: &World) -> Vec<String> {
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
fn a_sign_in_that_does_not_work_leaves_nothing() {
    for (answers, reported) in [
        (vec![refused("access_denied")], "was refused in the browser"),
        (
            vec![refused("authorization_pending"), refused("expired_token")],
            "nobody confirmed the code in time",
        ),
        (vec![refused("invalid_client")], "because (invalid_client)"),
        (vec![(404, json!({}))], "answered with status 404"),
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
    let begun = Instant::now();
    login(&world).ok();
    assert!(begun.elapsed() >= Duration::from_secs(5));
}

/// Where the connection of the first request breaks, and the next request gets a token.
fn breaks_once() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("listen");
    let address = listener.local_addr().expect("address");
    std::thread::spawn(move || {
        let (mut broken, _) = listener.accept().expect("a connection");
        read_form(&mut broken);
        drop(broken);
        let (mut stream, _) = listener.accept().expect("another one");
        read_form(&mut stream);
        let body = granted("acc3ss", "r3fresh", 3600).to_string();
        let length = body.len();
        let answer = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
        );
        stream.write_all(answer.as_bytes()).expect("written");
    });
    format!("http://{address}/token")
}

/// Reads a request for a token, whose last field is a parameter of the issuer.
fn read_form(stream: &mut TcpStream) {
    let mut read = Vec::new();
    let mut part = [0; 1024];
    while !read.ends_with(b"api.example.com") {
        let length = stream.read(&mut part).expect("a request");
        assert!(length > 0, "the request ends early");
        read.extend_from_slice(&part[..length]);
    }
}

#[test]
fn a_provider_that_is_away_for_a_moment_is_asked_again_until_the_code_expires() {
    let unavailable = |status: u16, error: &str| (status, json!({ "error": error }));
    let world = provider([
        unavailable(400, "temporarily_unavailable"),
        unavailable(503, "temporarily_unavailable"),
        refused("authorization_pending"),
        (502, json!("<html>bad gateway</html>")),
        (200, granted("acc3ss", "r3fresh", 3600)),
    ]);
    let begun = Instant::now();
    let ran = login(&world).ok();
    // one second, two, none, one
    assert!(begun.elapsed() >= Duration::from_secs(4), "too often");
    assert_eq!(said_to(&world, "/token").len(), 5);
    // said once each time
    let said = ran.err.matches("does not answer").count();
    assert_eq!(said, 2, "{}", ran.err);

    let world = provider([(404, json!({}))]);
    let url = world.url();
    let metadata = json!({ "issuer": url, "token_endpoint": breaks_once(),
        "device_authorization_endpoint": format!("{url}/device") });
    world.get(METADATA, metadata);
    login(&world).ok();
    assert_eq!(said_to(&world, "/token").len(), 0);

    // once the code has expired, it says why
    for (answer, reported) in [
        ((500, json!({})), "answered with status 500"),
        (
            unavailable(400, "temporarily_unavailable"),
            "temporarily_unavailable",
        ),
        (
            (429, json!({ "error": { "code": 429 } })),
            "answered with status 429",
        ),
    ] {
        let world = provider([answer]);
        world.on("POST", "/device", [(200, device(2))]);
        let begun = Instant::now();
        let ran = login(&world);
        assert!(begun.elapsed() >= Duration::from_secs(2), "too early");
        assert_eq!(ran.code, 5, "{ran:?}");
        assert!(ran.err.contains(reported), "{reported}: {}", ran.err);
        let times = said_to(&world, "/token").len();
        assert!((2..=4).contains(&times), "{times} times");
        assert!(!world.path(".config/gpuaas/contexts.json").exists());
    }
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
