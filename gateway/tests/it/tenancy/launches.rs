//! Launches by names of SSH keys, and streams that end with the membership they were opened by.
use reqwest::Method;
use serde_json::{Value, json};

use super::ssh_keys::ED;
use crate::terminals::{answers, ended, opened_by};
use crate::world::{World, answer, detail, field, reason};

const ED2: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEXhDfdPuDb0l/3O6T0SgTTFj0h+iPyq+bfYcGYnAcMz";

fn launch(change: &Value) -> Value {
    let mut body =
        json!({ "name": "a", "region_code": "lab", "sku": "lab", "gpu_count": 1, "image": "i" });
    for (key, value) in change.as_object().expect("fields") {
        body[key] = value.clone();
    }
    body
}

#[tokio::test]
async fn a_launch_names_keys_and_the_service_gets_them() {
    let world = World::start().await;
    let keys = format!("/api/v1/projects/{}/ssh-keys", world.seeded.project_id);
    world
        .made(
            "demo",
            "/api/v1/ssh-keys",
            json!({ "name": "laptop", "public_key": format!("{ED} own") }),
        )
        .await;
    world
        .made(
            "demo",
            &keys,
            json!({ "name": "laptop", "public_key": format!("{ED2} project") }),
        )
        .await;
    world
        .made(
            "demo",
            &keys,
            json!({ "name": "team", "public_key": format!("{ED2} team") }),
        )
        .await;
    for extra in [
        json!({}),
        json!({ "validate_only": true }),
        json!({ "project_id": world.seeded.project_id }),
    ] {
        world.record.clear();
        let mut body =
            launch(&json!({ "ssh_key_names": ["team", "laptop"], "ssh_public_keys": ["given"] }));
        for (key, value) in extra.as_object().expect("fields") {
            body[key] = value.clone();
        }
        let (status, made) = world.post_by("demo", "/api/v1/allocations", body).await;
        assert_eq!(status, 200, "{made}");
        let seen = world.record.all().pop().expect("a launch").message;
        let keys = format!("ssh_public_keys: [\"given\", \"{ED2} team\", \"{ED} own\"]");
        assert!(seen.contains(&keys), "the caller's own key wins: {seen}");
        assert!(
            seen.contains("ssh_key_names: [\"team\", \"laptop\"]"),
            "{seen}"
        );
    }
    let batch = json!({ "allocations": [launch(&json!({ "ssh_key_names": ["team"] }))] });
    assert_eq!(
        world
            .post_by("demo", "/api/v1/allocations:batchCreate", batch)
            .await
            .0,
        200
    );
    let seen = world.record.all().pop().expect("a launch").message;
    assert!(seen.contains(&format!("[\"{ED2} team\"]")), "{seen}");
    world.record.clear();
    let long = "x".repeat(10_000);
    for (names, wrong) in [
        (json!(["nothing"]), "ssh_key_names[0]"),
        (json!(["team", "Team"]), "ssh_key_names[1]"),
        (json!(["team", "team"]), "ssh_key_names[1]"),
        (json!([""]), "ssh_key_names[0]"),
        (json!([long]), "ssh_key_names[0]"),
    ] {
        for dry in [false, true] {
            let body = launch(&json!({ "ssh_key_names": names, "validate_only": dry }));
            let (status, answer) = world.post_by("demo", "/api/v1/allocations", body).await;
            assert_eq!((status, field(&answer)), (400, wrong), "{answer}");
        }
    }
    let batch = json!({ "allocations": [launch(&json!({})), launch(&json!({ "ssh_key_names": ["nothing"] }))] });
    let (_, body) = world
        .post_by("demo", "/api/v1/allocations:batchCreate", batch)
        .await;
    assert_eq!(field(&body), "allocations[1].ssh_key_names[0]");
    assert!(
        body.to_string().contains("nothing"),
        "the name is told: {body}"
    );
    assert!(world.record.all().is_empty(), "no service was asked");
    // a name of another's key is no name
    world
        .made(
            "admin",
            "/api/v1/ssh-keys",
            json!({ "name": "private", "public_key": ED }),
        )
        .await;
    let body = launch(&json!({ "ssh_key_names": ["private"] }));
    assert_eq!(
        field(&world.post_by("demo", "/api/v1/allocations", body).await.1),
        "ssh_key_names[0]"
    );
}

/// Before, each name was compared with all names before it, while a connection to the database was held, and policies were
/// asked of each allocation.
#[tokio::test]
async fn a_launch_of_too_many_is_refused_as_a_whole() {
    let world = World::start().await;
    let names = |count: usize| {
        let names = (0..count).map(|number| format!("k{number}"));
        launch(&json!({ "ssh_key_names": names.collect::<Vec<_>>() }))
    };
    let rule = |answer: &Value| {
        let refused = &detail(answer, "BadRequest")["field_violations"];
        let text = |name: &str| refused[0][name].as_str().unwrap_or_default().to_owned();
        (text("field"), text("description"))
    };
    let expected = |field: &str, rule: &str| (field.to_owned(), rule.to_owned());
    // whose names are asked for, each of them is unknown
    for (count, field) in [
        (10, "ssh_key_names[0]"),
        (11, "ssh_key_names"),
        (100_000, "ssh_key_names"),
    ] {
        let path = "/api/v1/allocations";
        let (status, answer) = world.post_by("demo", path, names(count)).await;
        let (found, rule) = rule(&answer);
        assert_eq!((status, found.as_str()), (400, field), "{count}: {answer}");
        assert_eq!(rule == "must be at most 10 names", count > 10, "{rule}");
    }
    let path = "/api/v1/allocations:batchCreate";
    let batch = |of: Vec<Value>| json!({ "allocations": of });
    for (body, refused) in [
        (
            batch(vec![names(1); 17]),
            expected("allocations", "must be one to 16 allocations"),
        ),
        (
            batch(vec![launch(&json!({})); 8_000]),
            expected("allocations", "must be one to 16 allocations"),
        ),
        (
            batch(vec![names(0), names(50_000)]),
            expected("allocations[1].ssh_key_names", "must be at most 10 names"),
        ),
    ] {
        let (status, answer) = world.post_by("demo", path, body).await;
        assert_eq!((status, rule(&answer)), (400, refused), "{answer}");
    }
    assert!(world.record.all().is_empty(), "no service was asked");
    let full = batch(vec![launch(&json!({})); 16]);
    assert_eq!(world.post_by("demo", path, full).await.0, 200);
}

/// A reader of a stream is checked as soon as its access changes, not only now and then.
#[tokio::test]
async fn a_removed_member_loses_its_open_stream_at_once() {
    // the regular check is too rare to end it
    let world = World::start_with(|config, _| config.stream_access_seconds = 3600.0).await;
    world.users(&["mia", "paul"]).await;
    let project = world.seeded.project_id.to_string();
    let mia = world.member(&project, "mia", "member").await;
    let paul = world.member(&project, "paul", "member").await;
    let open = async || {
        let request = world
            .http
            .get(world.url("/api/v1/allocations/silent:watch"));
        request
            .bearer_auth(world.token("mia"))
            .send()
            .await
            .expect("answer")
    };
    let mut stream = open().await;
    stream.chunk().await.expect("open").expect("a message");
    let member = |id: &str| format!("/api/v1/projects/{project}/members/{id}");
    // what happens to others ends nothing
    assert_eq!(
        world
            .send("demo", Method::DELETE, &member(&paul), Value::Null)
            .await
            .0,
        200
    );
    assert_eq!(
        world
            .send("demo", Method::DELETE, &member(&mia), Value::Null)
            .await
            .0,
        200
    );
    let text = tokio::time::timeout(std::time::Duration::from_secs(20), stream.text()).await;
    let text = text.expect("the stream ends").expect("text");
    let last: Value =
        serde_json::from_str(text.lines().last().expect("a last line")).expect("JSON");
    assert_eq!(reason(&last), "PERMISSION_DENIED", "{text}");

    // the same when the principal is disabled
    world.member(&project, "mia", "member").await;
    world.becomes("mia", "/api/v1/allocations", 200).await;
    let mut stream = open().await;
    assert_eq!(stream.status(), 200);
    stream.chunk().await.expect("open").expect("a message");
    let disable = format!("/api/v1/admin/principals/{mia}:disable");
    world.made("admin", &disable, json!({})).await;
    let text = tokio::time::timeout(std::time::Duration::from_secs(20), stream.text()).await;
    assert!(
        text.expect("the stream ends")
            .expect("text")
            .contains("PERMISSION_DENIED")
    );
    let refused = world
        .http
        .get(world.url("/api/v1/whoami"))
        .bearer_auth(world.token("mia"));
    assert_eq!(answer(refused.send().await.expect("answer")).await.0, 403);
}

/// Whoever opened a terminal loses it with the membership, with a role that is too weak for it, and when disabled: long
/// before anybody looks again. Who kept all three goes on.
#[tokio::test]
async fn p10_a_terminal_ends_with_the_membership_or_the_role_of_its_user() {
    let world = World::start_with(|config, _| config.terminal.access_seconds = 0.1).await;
    let project = world.seeded.project_id.to_string();
    let mut opened = Vec::new();
    for who in ["removed", "lowered", "disabled", "stays"] {
        world.users(&[who]).await;
        let id = world.member(&project, who, "member").await;
        world.becomes(who, "/api/v1/allocations", 200).await;
        let name = format!("user:{who}");
        opened.push((opened_by(&world, &name, &world.token(who)).await, id));
    }
    let member = |id: &str| format!("/api/v1/projects/{project}/members/{id}");
    let viewer = json!({ "role": "viewer" });
    let [removed, lowered, disabled, _] = [0, 1, 2, 3].map(|index: usize| opened[index].1.clone());
    for (who, method, target, body) in [
        ("demo", Method::DELETE, member(&removed), Value::Null),
        ("demo", Method::PATCH, member(&lowered), viewer),
        (
            "admin",
            Method::POST,
            format!("/api/v1/admin/principals/{disabled}:disable"),
            json!({}),
        ),
    ] {
        let (status, answer) = world.send(who, method, &target, body).await;
        assert_eq!(status, 200, "{target}: {answer}");
    }
    let ((mut stays, whose), _) = opened.pop().expect("four");
    for ((mut terminal, _), _) in opened {
        ended(&mut terminal).await;
    }
    answers(&mut stays, &whose).await;
    // nor does the gateway take another of theirs
    for who in ["lowered", "disabled"] {
        let target = format!(
            "/api/v1/allocations/{}/terminal-sessions",
            uuid::Uuid::now_v7()
        );
        let (status, answer) = world.post_by(who, &target, json!({})).await;
        assert_eq!(status, 403, "{who}: {answer}");
    }
}
