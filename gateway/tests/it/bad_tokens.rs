//! Tokens that must not work, and identities that may not do what they ask. Nothing reaches a service.
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use gpuaas_gateway::auth::dev_issuer::{DevIssuer, DevIssuerSettings};
use jiff::Timestamp;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use reqwest::Method;
use serde_json::{Value, json};

use crate::world::{AUDIENCE, ISSUER, World, answer, reason};

const PATH: &str = "/api/v1/allocations";

struct Forge {
    key: EncodingKey,
    kid: String,
}

impl Forge {
    /// Signs with the real key of the embedded issuer.
    fn real(world: &World) -> Self {
        let pem = std::fs::read(world.folder.path().join("dev.key")).expect("key");
        let kid = world.dev.key_set().keys[0]
            .common
            .key_id
            .clone()
            .expect("id");
        Self {
            key: EncodingKey::from_ed_pem(&pem).expect("key"),
            kid,
        }
    }

    fn sign(&self, claims: &Value) -> String {
        self.sign_as(&self.kid, claims)
    }

    /// The same under another key id.
    fn sign_as(&self, kid: &str, claims: &Value) -> String {
        let header = Header {
            kid: Some(kid.to_owned()),
            ..Header::new(Algorithm::EdDSA)
        };
        jsonwebtoken::encode(&header, claims, &self.key).expect("signed")
    }
}

fn claims() -> Value {
    let now = Timestamp::now().as_second();
    json!({ "iss": ISSUER, "aud": AUDIENCE, "sub": "demo", "iat": now, "nbf": now, "exp": now + 600 })
}

fn with(change: impl FnOnce(&mut Value)) -> Value {
    let mut claims = claims();
    change(&mut claims);
    claims
}

fn without(name: &str) -> Value {
    with(|c| {
        c.as_object_mut().expect("object").remove(name);
    })
}

/// A token whose signature is an HMAC with a secret everybody can know.
fn hs256(secret: &[u8], kid: &str) -> String {
    let header = Header {
        kid: Some(kid.to_owned()),
        ..Header::new(Algorithm::HS256)
    };
    jsonwebtoken::encode(&header, &claims(), &EncodingKey::from_secret(secret)).expect("signed")
}

fn unsigned(header: &Value, signature: &str) -> String {
    let part = |v: &Value| URL_SAFE_NO_PAD.encode(v.to_string());
    format!("{}.{}.{signature}", part(header), part(&claims()))
}

#[tokio::test]
async fn tokens_that_are_refused() {
    let world = World::start().await;
    let forge = Forge::real(&world);
    let now = Timestamp::now().as_second();
    let jwks = serde_json::to_string(&world.dev.key_set()).expect("JSON");
    let x = serde_json::to_value(world.dev.key_set()).expect("JSON")["keys"][0]["x"]
        .as_str()
        .expect("x")
        .to_owned();
    let foreign = DevIssuer::open_or_create(DevIssuerSettings {
        key_file: world.folder.path().join("foreign.key"),
        issuer: ISSUER.to_owned(),
        audience: AUDIENCE.to_owned(),
        ..DevIssuerSettings::default()
    })
    .expect("issuer");
    let foreign_pem = std::fs::read(world.folder.path().join("foreign.key")).expect("key");
    let stolen_kid = Forge {
        key: EncodingKey::from_ed_pem(&foreign_pem).expect("key"),
        kid: forge.kid.clone(),
    };
    let p256 = rcgen::KeyPair::generate().expect("key");
    let es256 = {
        let header = Header {
            kid: Some(forge.kid.clone()),
            ..Header::new(Algorithm::ES256)
        };
        jsonwebtoken::encode(
            &header,
            &claims(),
            &EncodingKey::from_ec_pem(p256.serialize_pem().as_bytes()).expect("key"),
        )
        .expect("signed")
    };
    let good = forge.sign(&claims());
    let (head, tail) = good.rsplit_once('.').expect("signature");
    let table = [
        ("not a token", "rubbish".to_owned(), "CREDENTIAL_INVALID"),
        (
            "id token",
            forge.sign(&with(|c| c["at_hash"] = json!("x"))),
            "CREDENTIAL_INVALID",
        ),
        (
            "id token by its own word",
            forge.sign(&with(|c| c["typ"] = json!("ID"))),
            "CREDENTIAL_INVALID",
        ),
        (
            "logout token",
            forge.sign(&with(|c| c["events"] = json!({}))),
            "CREDENTIAL_INVALID",
        ),
        (
            "key id that is a path",
            Forge {
                key: forge.key.clone(),
                kid: "../../dev.key".to_owned(),
            }
            .sign(&claims()),
            "CREDENTIAL_INVALID",
        ),
        ("three empty parts", "..".to_owned(), "CREDENTIAL_INVALID"),
        ("very long", "x".repeat(9000), "CREDENTIAL_INVALID"),
        ("no signature", format!("{head}."), "CREDENTIAL_INVALID"),
        (
            "changed signature",
            format!("{head}.{}", tail.chars().rev().collect::<String>()),
            "CREDENTIAL_INVALID",
        ),
        (
            "algorithm none",
            unsigned(&json!({ "alg": "none", "typ": "JWT" }), ""),
            "CREDENTIAL_INVALID",
        ),
        (
            "algorithm None",
            unsigned(&json!({ "alg": "None", "kid": forge.kid }), ""),
            "CREDENTIAL_INVALID",
        ),
        ("algorithm of another kind", es256, "CREDENTIAL_INVALID"),
        (
            "a key id that is a path",
            forge.sign_as("../../dev.key", &claims()),
            "CREDENTIAL_INVALID",
        ),
        (
            "a key id that is a file of every machine",
            forge.sign_as("/dev/null", &claims()),
            "CREDENTIAL_INVALID",
        ),
        (
            "a key id that is a statement",
            forge.sign_as("' OR '1'='1", &claims()),
            "CREDENTIAL_INVALID",
        ),
        (
            "a key id that is an address",
            forge.sign_as("http://127.0.0.1:1/jwks.json", &claims()),
            "CREDENTIAL_INVALID",
        ),
        (
            "an API key's short token by the issuer's key",
            forge.sign(&with(|c| c["iss"] = json!("urn:gpuaas:cell:1"))),
            "CREDENTIAL_INVALID",
        ),
        (
            "HMAC with the published key set",
            hs256(jwks.as_bytes(), &forge.kid),
            "CREDENTIAL_INVALID",
        ),
        (
            "HMAC with the published key",
            hs256(x.as_bytes(), &forge.kid),
            "CREDENTIAL_INVALID",
        ),
        (
            "HMAC with the key's bytes",
            hs256(&URL_SAFE_NO_PAD.decode(&x).expect("bytes"), &forge.kid),
            "CREDENTIAL_INVALID",
        ),
        (
            "another key",
            foreign.sign("demo", Timestamp::now(), 600).expect("signed"),
            "CREDENTIAL_INVALID",
        ),
        (
            "another key under the right id",
            stolen_kid.sign(&claims()),
            "CREDENTIAL_INVALID",
        ),
        (
            "another issuer",
            forge.sign(&with(|c| c["iss"] = json!("https://evil.test"))),
            "CREDENTIAL_INVALID",
        ),
        (
            "issuer with a slash more",
            forge.sign(&with(|c| c["iss"] = json!(format!("{ISSUER}/")))),
            "CREDENTIAL_INVALID",
        ),
        (
            "no issuer",
            forge.sign(&without("iss")),
            "CREDENTIAL_INVALID",
        ),
        (
            "another audience",
            forge.sign(&with(|c| c["aud"] = json!("someone-else"))),
            "CREDENTIAL_INVALID",
        ),
        (
            "no audience",
            forge.sign(&without("aud")),
            "CREDENTIAL_INVALID",
        ),
        (
            "an internal token's audience",
            forge.sign(&with(|c| c["aud"] = json!("allocation"))),
            "CREDENTIAL_INVALID",
        ),
        (
            "expired",
            forge.sign(&with(|c| c["exp"] = json!(now - 60))),
            "CREDENTIAL_EXPIRED",
        ),
        (
            "no expiry",
            forge.sign(&without("exp")),
            "CREDENTIAL_INVALID",
        ),
        (
            "not valid yet",
            forge.sign(&with(|c| c["nbf"] = json!(now + 300))),
            "CREDENTIAL_INVALID",
        ),
        (
            "no subject",
            forge.sign(&without("sub")),
            "CREDENTIAL_INVALID",
        ),
        (
            "empty subject",
            forge.sign(&with(|c| c["sub"] = json!(""))),
            "CREDENTIAL_INVALID",
        ),
        (
            "subject that no database text holds",
            forge.sign(&with(|c| c["sub"] = json!("demo\0"))),
            "CREDENTIAL_INVALID",
        ),
    ];
    for (name, token, expected) in table {
        let response = world
            .http
            .get(world.url(PATH))
            .bearer_auth(&token)
            .send()
            .await
            .expect("answer");
        assert_eq!(
            response.headers()["www-authenticate"],
            "Bearer error=\"invalid_token\"",
            "{name}"
        );
        let (status, body) = answer(response).await;
        assert_eq!((status, reason(&body)), (401, expected), "{name}: {body}");
        assert!(
            !body.to_string().contains(&token) || token.len() < 10,
            "{name}: the token is not repeated"
        );
    }
    assert!(world.record.all().is_empty(), "nothing reached the service");
    let response = world
        .http
        .get(world.url(PATH))
        .bearer_auth(&good)
        .send()
        .await
        .expect("answer");
    assert_eq!(
        answer(response).await.0,
        200,
        "the same token unchanged is good"
    );
}

#[tokio::test]
async fn no_token_and_other_schemes_are_refused() {
    let world = World::start().await;
    let response = world
        .http
        .get(world.url(PATH))
        .send()
        .await
        .expect("answer");
    assert_eq!(response.headers()["www-authenticate"], "Bearer");
    let (status, body) = answer(response).await;
    assert_eq!((status, reason(&body)), (401, "CREDENTIAL_MISSING"));
    for scheme in ["Basic ZGVtbzpkZW1v", "Bearer", "Bearer a b"] {
        let request = world
            .http
            .get(world.url(PATH))
            .header("authorization", scheme);
        let (status, body) = answer(request.send().await.expect("answer")).await;
        assert_eq!(
            (status, reason(&body)),
            (401, "CREDENTIAL_INVALID"),
            "{scheme}"
        );
    }
    let twice = world
        .http
        .get(world.url(PATH))
        .bearer_auth(world.token("demo"))
        .header("authorization", "Bearer other");
    assert_eq!(answer(twice.send().await.expect("answer")).await.0, 401);
    assert!(world.record.all().is_empty());
}

#[tokio::test]
async fn denials_of_known_identities_are_on_record() {
    let world = World::start().await;
    let (status, body) = world
        .call(Method::GET, "/api/v1/admin/allocations/a1", "demo")
        .await;
    assert_eq!((status, reason(&body)), (403, "PERMISSION_DENIED"));
    let (status, body) = world.call(Method::GET, PATH, "stranger").await;
    assert_eq!((status, reason(&body)), (403, "PERMISSION_DENIED"));
    assert!(world.record.all().is_empty());
    let pool = world.pool().await;
    sqlx::query("UPDATE principals SET disable_time = now() WHERE subject = 'demo'")
        .execute(&pool)
        .await
        .expect("disabled");
    // as soon as the gateway hears of it; what is kept of a caller lives longer than this waits
    let deadline = Instant::now() + Duration::from_secs(3);
    let mut begun = Instant::now();
    while world.call(Method::GET, PATH, "demo").await.0 != 403 {
        assert!(
            begun < deadline,
            "a disabled principal's token is worth something still"
        );
        begun = Instant::now();
    }
    let rows: Vec<(String, String, String)> =
        sqlx::query_as("SELECT principal, action, detail->>'outcome' FROM audit ORDER BY seq")
            .fetch_all(&pool)
            .await
            .expect("rows");
    let row = |principal: &str, action: &str| {
        (principal.to_owned(), action.to_owned(), "denied".to_owned())
    };
    assert_eq!(
        rows,
        [
            row("user:demo", "allocation.inspect"),
            row("https://dev.test stranger", "allocation.list"),
            row("https://dev.test demo", "allocation.list"),
        ]
    );
}

/// The clocks of an issuer and of the gateway differ by seconds, never by a minute.
#[tokio::test]
async fn clocks_may_differ_by_seconds_and_not_by_a_minute() {
    let world = World::start().await;
    let forge = Forge::real(&world);
    let now = Timestamp::now().as_second();
    let slack = 3;
    for (name, token, expected) in [
        (
            "expired a moment ago",
            with(|c| c["exp"] = json!(now - slack)),
            (200, ""),
        ),
        (
            "valid in a moment",
            with(|c| c["nbf"] = json!(now + slack)),
            (200, ""),
        ),
        (
            "made in a moment",
            with(|c| c["iat"] = json!(now + slack)),
            (200, ""),
        ),
        (
            "expired a minute ago",
            with(|c| c["exp"] = json!(now - 60)),
            (401, "CREDENTIAL_EXPIRED"),
        ),
        (
            "valid in a minute",
            with(|c| c["nbf"] = json!(now + 60)),
            (401, "CREDENTIAL_INVALID"),
        ),
    ] {
        let requested = world
            .http
            .get(world.url(PATH))
            .bearer_auth(forge.sign(&token));
        let (status, body) = answer(requested.send().await.expect("answer")).await;
        let why = if status == 200 { "" } else { reason(&body) };
        assert_eq!((status, why), expected, "{name}: {body}");
    }
}
