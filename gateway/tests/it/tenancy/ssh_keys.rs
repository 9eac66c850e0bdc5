//! SSH keys by name: whose they are, and what is no key.
use reqwest::Method;
use serde_json::{Value, json};

use super::id;
use crate::world::{World, field, reason};

pub const ED: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ5RIRSWuoMeRQ4lzYiAGnlZlrscLnqIWDRZpUAXh5Bl";
const OWN: &str = "/api/v1/ssh-keys";

/// An RSA public key whose modulus has so many bits.
fn rsa(bits: usize) -> String {
    use base64::Engine as _;
    let mut blob = Vec::new();
    let mut part = |bytes: &[u8]| {
        blob.extend(u32::try_from(bytes.len()).expect("short").to_be_bytes());
        blob.extend(bytes);
    };
    part(b"ssh-rsa");
    part(&[1, 0, 1]);
    let mut modulus = vec![0xff; bits / 8];
    modulus.insert(0, 0);
    part(&modulus);
    format!(
        "ssh-rsa {}",
        base64::engine::general_purpose::STANDARD.encode(blob)
    )
}

#[tokio::test]
async fn keys_are_kept_listed_and_forgotten() {
    let world = World::start().await;
    let body = json!({ "name": "laptop", "public_key": format!("  {ED} olga@home  ") });
    let (status, made) = world
        .send_as("demo", Method::POST, OWN, body.clone(), "k")
        .await;
    assert_eq!(
        (status, &made["public_key"]),
        (200, &json!(format!("{ED} olga@home"))),
        "{made}"
    );
    assert_eq!(
        made["fingerprint"],
        "SHA256:TWwegNEAEG7g5gMao2uKYqxISIwvzsy2vmcBUsnJiwU"
    );
    assert_eq!(
        world
            .send_as("demo", Method::POST, OWN, body.clone(), "k")
            .await,
        (200, made.clone())
    );
    let (status, answer) = world.post_by("demo", OWN, body).await;
    assert_eq!((status, field(&answer)), (409, "name"));
    world
        .made(
            "demo",
            OWN,
            json!({ "name": "Z.9_-", "public_key": rsa(3072) }),
        )
        .await;
    let (_, listed) = world.get("demo", &format!("{OWN}?page_size=1")).await;
    assert_eq!(listed["ssh_keys"][0]["name"], "Z.9_-", "by name");
    let token = listed["next_page_token"].as_str().expect("a token");
    let (_, next) = world
        .get("demo", &format!("{OWN}?page_size=1&page_token={token}"))
        .await;
    assert_eq!(next["ssh_keys"][0]["name"], "laptop");
    assert_eq!(
        world.get("admin", OWN).await.1["ssh_keys"],
        json!([]),
        "another's are not shown"
    );
    let one = format!("{OWN}/{}", id(&made));
    assert_eq!(
        world
            .send("admin", Method::DELETE, &one, Value::Null)
            .await
            .0,
        404
    );
    for _ in 0..2 {
        let (status, _) = world
            .send_as("demo", Method::DELETE, &one, Value::Null, "gone")
            .await;
        assert_eq!(status, 200, "a repetition with its key, too");
    }
    assert_eq!(
        world
            .send("demo", Method::DELETE, &one, Value::Null)
            .await
            .0,
        404
    );
    assert_eq!(world.recorded("ssh_key.delete").await, 1);
}

#[tokio::test]
async fn what_is_no_key_of_an_allowed_kind_is_refused() {
    let world = World::start().await;
    for bad in [
        String::new(),
        "hello".to_owned(),
        "-----BEGIN OPENSSH PRIVATE KEY-----".to_owned(),
        rsa(2048),
        rsa(3064),
        "ssh-dss AAAAB3NzaC1kc3MAAACBAP".to_owned(),
        format!("command=\"/bin/sh\" {ED}"),
        format!("no-pty,permitopen=\"x:1\" {ED}"),
        format!("{ED}\n{ED}"),
        format!("{ED} a\u{0}b"),
        format!("{ED} {}", "x".repeat(10_000)),
        ED[..40].to_owned(),
    ] {
        let body = json!({ "name": "k", "public_key": bad });
        let (status, answer) = world.post_by("demo", OWN, body).await;
        assert_eq!(
            (status, field(&answer)),
            (400, "public_key"),
            "{bad:.60}: {answer}"
        );
    }
    for bad in [
        "",
        "-a",
        ".a",
        "a b",
        "a/b",
        "ключ",
        "a\n",
        &"a".repeat(64),
        &"a".repeat(10_000),
    ] {
        let body = json!({ "name": bad, "public_key": ED });
        let (status, answer) = world.post_by("demo", OWN, body).await;
        assert_eq!(
            (status, field(&answer)),
            (400, "name"),
            "{bad:.60}: {answer}"
        );
    }
    assert_eq!(world.get("demo", OWN).await.1["ssh_keys"], json!([]));
}

#[tokio::test]
async fn a_projects_keys_are_its_members_to_read_and_its_workers_to_change() {
    let world = World::start().await;
    world.users(&["olga", "mia", "vera", "stranger"]).await;
    let organisation = world.organisation("acme", "olga").await;
    let project = world.project(&organisation, "training", "olga").await;
    world.member(&project, "mia", "member").await;
    world.member(&project, "vera", "viewer").await;
    let keys = format!("/api/v1/projects/{project}/ssh-keys");
    for (who, reads, changes) in [
        ("olga", 200, 200),
        ("mia", 200, 200),
        ("vera", 200, 403),
        ("stranger", 404, 404),
    ] {
        let (status, made) = world
            .post_by(who, &keys, json!({ "name": who, "public_key": ED }))
            .await;
        assert_eq!(status, changes, "{who}: {made}");
        assert_eq!(world.get(who, &keys).await.0, reads, "{who}");
    }
    let (_, listed) = world.get("vera", &keys).await;
    let key = &listed["ssh_keys"][0];
    assert_eq!(key["project_id"], json!(project));
    let one = format!("{keys}/{}", id(key));
    let (status, body) = world.send("vera", Method::DELETE, &one, Value::Null).await;
    assert_eq!((status, reason(&body)), (403, "PERMISSION_DENIED"));
    assert_eq!(
        world.send("mia", Method::DELETE, &one, Value::Null).await.0,
        200
    );
    // a key of a project is none of another, nor anybody's own
    let left = id(&world.get("mia", &keys).await.1["ssh_keys"][0]);
    assert_eq!(
        world
            .send(
                "olga",
                Method::DELETE,
                &format!("{OWN}/{left}"),
                Value::Null
            )
            .await
            .0,
        404
    );
}
