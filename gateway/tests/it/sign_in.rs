//! Sign-in with the embedded issuer: who is offered, what the token is good for, and whom it refuses.
use reqwest::Method;
use serde_json::{Value, json};

use crate::world::{World, answer, field, reason};

const SIGN_IN: &str = "/dev/sign-in";

async fn sign_in(world: &World, body: &Value) -> (u16, Value) {
    let request = world.http.post(world.url(SIGN_IN)).json(body);
    answer(request.send().await.expect("answer")).await
}

/// What only who started the gateway can read.
fn code(world: &World) -> String {
    let file = world.folder.path().join("dev.sign-in");
    std::fs::read_to_string(file).expect("the code")
}

/// Before, any user of the machine was an administrator for the asking.
#[tokio::test]
async fn nobody_signs_in_without_the_code_of_the_stack() {
    use std::os::unix::fs::PermissionsExt as _;
    let world = World::start().await;
    let file = world.folder.path().join("dev.sign-in");
    let mode = std::fs::metadata(file).expect("file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    for code in [json!(null), json!(""), json!("wrong")] {
        let mut body = json!({ "principal": "user:admin" });
        if !code.is_null() {
            body["code"] = code;
        }
        let (status, body) = sign_in(&world, &body).await;
        assert_eq!((status, reason(&body)), (403, "CREDENTIAL_INVALID"));
    }
    // a session goes on by its own token, and becomes nobody else by it
    for (principal, token, expected) in [
        ("user:demo", world.token("demo"), 200),
        ("user:admin", world.token("demo"), 403),
        ("user:demo", "nonsense".to_owned(), 403),
    ] {
        let request = world.http.post(world.url(SIGN_IN)).bearer_auth(token);
        let request = request.json(&json!({ "principal": principal })).send();
        let (status, body) = answer(request.await.expect("answer")).await;
        assert_eq!(status, expected, "{principal}: {body}");
    }
}

#[tokio::test]
async fn the_embedded_issuer_signs_in_whom_it_lists() {
    let world = World::start().await;
    let listed = world.http.get(world.url("/dev/identities")).send().await;
    let (status, listed) = answer(listed.expect("answer")).await;
    assert_eq!(status, 200);
    let project = json!([{ "id": world.seeded.project_id, "slug": "demo" }]);
    let wanted = json!({ "identities": [
        { "principal": "user:demo", "admin": false, "projects": project },
        { "principal": "user:admin", "admin": true, "projects": project },
    ] });
    assert_eq!(listed, wanted);

    let wanted = json!({ "principal": "user:demo", "code": code(&world) });
    let (status, signed) = sign_in(&world, &wanted).await;
    assert_eq!(status, 200);
    let token = signed["token"].as_str().expect("token");
    let call = world
        .http
        .request(Method::GET, world.url("/api/v1/allocations"))
        .bearer_auth(token);
    assert_eq!(call.send().await.expect("answer").status(), 200);

    // the last one is what no text of the database holds
    for unknown in ["user:nobody", "user:demo\0"] {
        let (status, body) = sign_in(
            &world,
            &json!({ "principal": unknown, "code": code(&world) }),
        )
        .await;
        assert_eq!(
            (status, reason(&body), field(&body)),
            (400, "FIELD_INVALID", "principal")
        );
    }
}

#[tokio::test]
async fn pages_of_other_hosts_cannot_sign_in() {
    let world = World::start().await;
    for (header, value) in [
        ("host", "evil.example"),
        ("origin", "https://evil.example"),
        ("origin", "null"),
    ] {
        let request = world
            .http
            .post(world.url(SIGN_IN))
            .header(header, value)
            .json(&json!({ "principal": "user:demo", "code": code(&world) }));
        let (status, body) = answer(request.send().await.expect("answer")).await;
        assert_eq!(
            (status, reason(&body)),
            (403, "PERMISSION_DENIED"),
            "{header}: {value}"
        );
    }
}
