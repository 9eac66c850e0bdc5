//! Sign-in with the embedded issuer: who is offered, what the token is good for, and whom it refuses.
use reqwest::Method;
use serde_json::{Value, json};

use crate::world::{World, answer, field, reason};

const SIGN_IN: &str = "/dev/sign-in";

async fn sign_in(world: &World, body: &Value) -> (u16, Value) {
    let request = world.http.post(world.url(SIGN_IN)).json(body);
    answer(request.send().await.expect("answer")).await
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

    let (status, signed) = sign_in(&world, &json!({ "principal": "user:demo" })).await;
    assert_eq!(status, 200);
    let token = signed["token"].as_str().expect("token");
    let call = world
        .http
        .request(Method::GET, world.url("/api/v1/allocations"))
        .bearer_auth(token);
    assert_eq!(call.send().await.expect("answer").status(), 200);

    // the last one is what no text of the database holds
    for unknown in ["user:nobody", "user:demo\0"] {
        let (status, body) = sign_in(&world, &json!({ "principal": unknown })).await;
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
            .json(&json!({ "principal": "user:demo" }));
        let (status, body) = answer(request.send().await.expect("answer")).await;
        assert_eq!(
            (status, reason(&body)),
            (403, "PERMISSION_DENIED"),
            "{header}: {value}"
        );
    }
}
