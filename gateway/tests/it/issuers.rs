//! Issuers besides the embedded one: keys from a file, keys from an address, settings that are refused.
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::routing::get;
use gpuaas_gateway::auth::keys::KeySource;
use gpuaas_gateway::auth::verify::{IssuerSettings, Verifier};
use jiff::Timestamp;
use jsonwebtoken::jwk::{Jwk, JwkSet};
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::json;

use crate::world::{World, answer};

const IDP: &str = "https://idp.test/realm";

fn es256(kid: &str) -> (EncodingKey, JwkSet) {
    let pair = rcgen::KeyPair::generate().expect("key");
    let key = EncodingKey::from_ec_pem(pair.serialize_pem().as_bytes()).expect("key");
    let mut jwk = Jwk::from_encoding_key(&key, Algorithm::ES256).expect("public half");
    jwk.common.key_id = Some(kid.to_owned());
    (key, JwkSet { keys: vec![jwk] })
}

fn token(key: &EncodingKey, kid: &str) -> String {
    let now = Timestamp::now().as_second();
    let header = Header {
        kid: Some(kid.to_owned()),
        ..Header::new(Algorithm::ES256)
    };
    jsonwebtoken::encode(
        &header,
        &json!({ "iss": IDP, "aud": "api", "sub": "4711", "exp": now + 60 }),
        key,
    )
    .expect("signed")
}

fn settings() -> IssuerSettings {
    IssuerSettings {
        issuer: IDP.to_owned(),
        audience: "api".to_owned(),
        algorithms: vec!["ES256".to_owned()],
        jwks_file: None,
        jwks_url: None,
    }
}

#[tokio::test]
async fn keys_of_a_file_are_trusted_for_their_issuer_only() {
    let (key, keys) = es256("k1");
    let world = World::start_with(|config, folder| {
        let file = folder.join("jwks.json");
        std::fs::write(&file, serde_json::to_string(&keys).expect("JSON")).expect("write");
        config.issuers.push(IssuerSettings {
            jwks_file: Some(file),
            ..settings()
        });
    })
    .await;
    sqlx::query("INSERT INTO principals (id, name, issuer, subject, display_name, platform_admin) VALUES ($1, 'user:idp', $2, '4711', '', false)")
        .bind(uuid::Uuid::now_v7())
        .bind(IDP)
        .execute(&world.pool().await)
        .await
        .expect("registered");
    let send = |token: String| async {
        answer(
            world
                .http
                .get(world.url("/api/v1/allocations"))
                .bearer_auth(token)
                .send()
                .await
                .expect("answer"),
        )
        .await
    };
    assert_eq!(send(token(&key, "k1")).await.0, 200);
    assert_eq!(send(token(&key, "k2")).await.0, 401, "unknown key id");
    // a subject of one issuer is nobody at another
    assert_eq!(send(world.token("4711")).await.0, 403);
}

#[tokio::test]
async fn keys_of_an_address_are_fetched_once_and_kept() {
    let (_, keys) = es256("k1");
    let fetched = Arc::new(AtomicUsize::new(0));
    let text = serde_json::to_string(&keys).expect("JSON");
    let count = fetched.clone();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("listen");
    let url = format!("http://{}/jwks", listener.local_addr().expect("address"))
        .parse()
        .expect("url");
    let serve = move || {
        count.fetch_add(1, Ordering::SeqCst);
        let text = text.clone();
        async move { text }
    };
    let server = tokio::spawn(async move {
        axum::serve(listener, Router::new().route("/jwks", get(serve))).await
    });
    let source = KeySource::remote(url).expect("client");
    for _ in 0..5 {
        assert!(source.find(Some("k1")).await.expect("fetched").is_some());
        assert!(
            source
                .find(Some("unknown"))
                .await
                .expect("fetched")
                .is_none()
        );
    }
    assert_eq!(
        fetched.load(Ordering::SeqCst),
        1,
        "bad key ids do not flood the issuer"
    );
    server.abort();
    assert!(source.find(Some("k1")).await.expect("kept").is_some());
}

#[tokio::test]
async fn settings_that_prove_nothing_are_refused() {
    let url = |text: &str| Some(text.parse().expect("url"));
    let good = || IssuerSettings {
        jwks_url: url("https://idp.test/jwks"),
        ..settings()
    };
    assert!(Verifier::new(&[good()], None).is_ok());
    for (name, bad) in [
        (
            "symmetric",
            IssuerSettings {
                algorithms: vec!["HS256".to_owned()],
                ..good()
            },
        ),
        (
            "no algorithm",
            IssuerSettings {
                algorithms: Vec::new(),
                ..good()
            },
        ),
        (
            "none",
            IssuerSettings {
                algorithms: vec!["none".to_owned()],
                ..good()
            },
        ),
        ("no keys", settings()),
        (
            "two sources",
            IssuerSettings {
                jwks_file: Some("x".into()),
                ..good()
            },
        ),
        (
            "plain http",
            IssuerSettings {
                jwks_url: url("http://idp.test/jwks"),
                ..settings()
            },
        ),
        (
            "no audience",
            IssuerSettings {
                audience: String::new(),
                ..good()
            },
        ),
        (
            "missing file",
            IssuerSettings {
                jwks_file: Some("/nowhere".into()),
                ..settings()
            },
        ),
    ] {
        assert!(Verifier::new(&[bad], None).is_err(), "{name}");
    }
    assert!(Verifier::new(&[good(), good()], None).is_err(), "twice");
}
