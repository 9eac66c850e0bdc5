//! Issuers besides the embedded one: keys from a file, keys from an address, settings that are refused.
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use futures::FutureExt as _;
use gpuaas_dev::until::until;
use gpuaas_gateway::auth::keys::{Fetches, KeySource, KeysError, RefreshSettings};
use gpuaas_gateway::auth::verify::{IssuerSettings, SubjectClaim, Verifier};
use jiff::Timestamp;
use jsonwebtoken::jwk::{Jwk, JwkSet, PublicKeyUse};
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::json;
use tokio::sync::watch;

use crate::world::{AUDIENCE, ISSUER, World, answer, reason};

pub const IDP: &str = "https://idp.test/realm";

pub fn es256(kid: &str) -> (EncodingKey, JwkSet) {
    let pair = rcgen::KeyPair::generate().expect("key");
    let key = EncodingKey::from_ec_pem(pair.serialize_pem().as_bytes()).expect("key");
    let mut jwk = Jwk::from_encoding_key(&key, Algorithm::ES256).expect("public half");
    jwk.common.key_id = Some(kid.to_owned());
    (key, JwkSet { keys: vec![jwk] })
}

fn token(key: &EncodingKey, kid: &str) -> String {
    token_for(key, kid, 60)
}

fn token_for(key: &EncodingKey, kid: &str, seconds: i64) -> String {
    let now = Timestamp::now().as_second();
    let header = Header {
        kid: Some(kid.to_owned()),
        ..Header::new(Algorithm::ES256)
    };
    jsonwebtoken::encode(
        &header,
        &json!({ "iss": IDP, "aud": "api", "sub": "4711", "exp": now + seconds }),
        key,
    )
    .expect("signed")
}

pub fn settings() -> IssuerSettings {
    IssuerSettings {
        issuer: IDP.to_owned(),
        audience: "api".to_owned(),
        algorithms: vec!["ES256".to_owned()],
        ..IssuerSettings::default()
    }
}

pub async fn register(world: &World) {
    sqlx::query("INSERT INTO principals (id, name, issuer, subject, display_name) VALUES ($1, 'user:idp', $2, '4711', '')")
        .bind(uuid::Uuid::now_v7())
        .bind(IDP)
        .execute(&world.pool().await)
        .await
        .expect("registered");
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
    register(&world).await;
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

/// Entra ID's `sub` is another one for each client; what its SCIM can send is the object id.
#[tokio::test]
async fn an_issuer_may_name_people_by_their_object_id() {
    let (key, keys) = es256("k1");
    let world = World::start_with(|config, folder| {
        let file = folder.join("jwks.json");
        std::fs::write(&file, serde_json::to_string(&keys).expect("JSON")).expect("write");
        config.issuers.push(IssuerSettings {
            jwks_file: Some(file),
            subject_claim: SubjectClaim::Oid,
            ..settings()
        });
    })
    .await;
    register(&world).await;
    let exp = Timestamp::now().as_second() + 60;
    for (named, status) in [
        (json!({ "sub": "pairwise", "oid": "4711" }), 200),
        // the object id of nobody, none, an empty one: the sub is not taken in its place
        (json!({ "sub": "4711", "oid": "4712" }), 403),
        (json!({ "sub": "4711" }), 401),
        (json!({ "sub": "4711", "oid": "" }), 401),
    ] {
        let mut claims = json!({ "iss": IDP, "aud": "api", "exp": exp });
        claims
            .as_object_mut()
            .expect("claims")
            .extend(named.as_object().expect("claims").clone());
        let header = Header {
            kid: Some("k1".to_owned()),
            ..Header::new(Algorithm::ES256)
        };
        let token = jsonwebtoken::encode(&header, &claims, &key).expect("signed");
        let request = world
            .http
            .get(world.url("/api/v1/allocations"))
            .bearer_auth(token);
        let (got, body) = answer(request.send().await.expect("answer")).await;
        assert_eq!(got, status, "{claims}: {body}");
    }
}

/// Two issuers are trusted, and neither signs for the other, whichever key id and audience a token claims.
#[tokio::test]
async fn no_issuer_signs_for_another() {
    let (idp, keys) = es256("k1");
    let world = World::start_with(|config, folder| {
        let file = folder.join("jwks.json");
        std::fs::write(&file, serde_json::to_string(&keys).expect("JSON")).expect("write");
        config.issuers.push(IssuerSettings {
            jwks_file: Some(file),
            ..settings()
        });
    })
    .await;
    register(&world).await;
    let pem = std::fs::read(world.folder.path().join("dev.key")).expect("key");
    let dev = EncodingKey::from_ed_pem(&pem).expect("key");
    let own = world.dev.key_set().keys[0].common.key_id.clone();
    let own = own.expect("id");
    let of_idp = (Algorithm::ES256, &idp);
    let of_dev = (Algorithm::EdDSA, &dev);
    let sign = |(algorithm, key): (Algorithm, &EncodingKey), kid: &str, iss: &str, aud: &str| {
        let header = Header {
            kid: Some(kid.to_owned()),
            ..Header::new(algorithm)
        };
        let subject = if iss == IDP { "4711" } else { "demo" };
        let end = Timestamp::now().as_second() + 60;
        let claims = json!({ "iss": iss, "aud": aud, "sub": subject, "exp": end });
        jsonwebtoken::encode(&header, &claims, key).expect("signed")
    };
    let send = async |token: String| {
        let request = world.http.get(world.url("/api/v1/whoami"));
        answer(request.bearer_auth(token).send().await.expect("answer")).await
    };
    for (name, token) in [
        (
            "as the embedded issuer",
            sign(of_idp, "k1", ISSUER, AUDIENCE),
        ),
        ("under its key id", sign(of_idp, &own, ISSUER, AUDIENCE)),
        ("as the provider", sign(of_dev, &own, IDP, "api")),
        ("under its key id", sign(of_dev, "k1", IDP, "api")),
        ("the other's audience", sign(of_idp, "k1", IDP, AUDIENCE)),
        ("the other's audience", sign(of_dev, &own, ISSUER, "api")),
    ] {
        let (status, body) = send(token).await;
        assert_eq!(
            (status, reason(&body)),
            (401, "CREDENTIAL_INVALID"),
            "{name}: {body}"
        );
    }
    assert_eq!(send(sign(of_idp, "k1", IDP, "api")).await.0, 200);
    assert_eq!(send(sign(of_dev, &own, ISSUER, AUDIENCE)).await.0, 200);
}

/// An issuer that answers its first request for keys and none after it.
struct Hanging {
    url: url::Url,
    /// Requests that have arrived.
    requested: watch::Receiver<usize>,
    server: tokio::task::JoinHandle<std::io::Result<()>>,
}

impl Hanging {
    async fn start(keys: &JwkSet) -> Self {
        let text = serde_json::to_string(keys).expect("JSON");
        let (count, requested) = watch::channel(0);
        let serve = move || {
            let mut turn = 0;
            count.send_modify(|requested| {
                *requested += 1;
                turn = *requested;
            });
            let text = text.clone();
            async move {
                if turn > 1 {
                    std::future::pending::<()>().await;
                }
                text
            }
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
            .await
            .expect("listen");
        let address = listener.local_addr().expect("address");
        let router = Router::new().route("/jwks", get(serve));
        Self {
            url: format!("http://{address}/jwks").parse().expect("url"),
            requested,
            server: tokio::spawn(async move { axum::serve(listener, router).await }),
        }
    }

    async fn until_asked(&mut self, times: usize) {
        let requested = self
            .requested
            .wait_for(|requested| *requested >= times)
            .await;
        requested.expect("the issuer serves");
    }

    fn source(&self, refresh: &RefreshSettings) -> KeySource {
        let fetches = Fetches::new(&opentelemetry::global::meter("test"), IDP);
        KeySource::remote(self.url.clone(), refresh, fetches).expect("client")
    }
}

/// Every unknown key may cause a fetch, which lasts as long as the test.
fn eager() -> RefreshSettings {
    RefreshSettings {
        min_age_seconds: 0.0,
        timeout_seconds: 3600.0,
        ..RefreshSettings::default()
    }
}

#[tokio::test]
async fn keys_of_an_address_are_fetched_once_and_kept() {
    let (_, keys) = es256("k1");
    let issuer = Hanging::start(&keys).await;
    let source = issuer.source(&RefreshSettings::default());
    for _ in 0..5 {
        assert!(source.find(Some("k1")).await.expect("fetched").is_some());
        let unknown = source.find(Some("unknown")).await.expect("fetched");
        assert!(unknown.is_none());
    }
    let requested = *issuer.requested.borrow();
    assert_eq!(requested, 1, "bad key ids do not flood the issuer");
    issuer.server.abort();
    assert!(source.find(Some("k1")).await.expect("kept").is_some());
}

/// Before, the first reader of an old set waited for the issuer, and all others for that reader.
#[tokio::test]
async fn an_issuer_that_hangs_keeps_no_reader_waiting() {
    let (_, keys) = es256("k1");
    let mut issuer = Hanging::start(&keys).await;
    let source = issuer.source(&eager());
    assert!(source.find(Some("k1")).await.expect("fetched").is_some());
    source.find(Some("k2")).await.expect_err("may be new");
    issuer.until_asked(2).await;
    for _ in 0..1000 {
        let known = source.find(Some("k1")).now_or_never();
        assert!(known.expect("at once").expect("kept").is_some());
        let unknown = source.find(Some("k2")).now_or_never();
        let refused = unknown.expect("at once").expect_err("may be new");
        assert!(matches!(refused, KeysError::Outdated), "{refused}");
    }
    assert_eq!(*issuer.requested.borrow(), 2, "one attempt at a time");
}

/// A key that the issuer has withdrawn is not in the last set for ever.
#[tokio::test]
async fn a_set_that_is_too_old_is_used_no_more_where_the_settings_say_so() {
    let (_, keys) = es256("k1");
    let mut issuer = Hanging::start(&keys).await;
    let expiring = RefreshSettings {
        max_age_seconds: 0.1,
        expire_seconds: 2.0,
        ..eager()
    };
    let source = issuer.source(&expiring);
    assert!(source.find(Some("k1")).await.expect("fetched").is_some());
    issuer.until_asked(2).await;
    let refused = until(
        "keys that are too old",
        Duration::from_secs(30),
        async || source.find(Some("k1")).await.err(),
    )
    .await;
    assert!(matches!(refused, KeysError::Expired), "{refused}");
    // it would be too old before it is fetched again
    let odd = IssuerSettings {
        jwks_url: Some(issuer.url.clone()),
        jwks_refresh: RefreshSettings {
            expire_seconds: 60.0,
            ..RefreshSettings::default()
        },
        ..settings()
    };
    let refused = Verifier::new(&[odd], None, &opentelemetry::global::meter("test"));
    let refused = refused.expect_err("below max_age_seconds").to_string();
    assert!(refused.contains("expire_seconds"), "{refused}");
}

/// The rate of served requests does not fall: all of them are answered while one attempt to fetch keys hangs.
#[tokio::test]
async fn requests_are_served_while_their_issuer_hangs() {
    const REQUESTS: usize = 100;
    let (key, keys) = es256("k1");
    let mut issuer = Hanging::start(&keys).await;
    let url = issuer.url.clone();
    let world = World::start_with(|config, _| {
        config.issuers.push(IssuerSettings {
            jwks_url: Some(url),
            jwks_refresh: eager(),
            ..settings()
        });
    })
    .await;
    register(&world).await;
    let send = |token: String| {
        let request = world.http.get(world.url("/api/v1/allocations"));
        async move { answer(request.bearer_auth(token).send().await.expect("answer")).await }
    };
    assert_eq!(send(token(&key, "k1")).await.0, 200);
    let (status, body) = send(token(&key, "k2")).await;
    assert_eq!((status, reason(&body)), (503, "DEPENDENCY_UNAVAILABLE"));
    issuer.until_asked(2).await;
    let mut served = 0;
    for turn in 0..REQUESTS {
        let lives = 60 + i64::try_from(turn).expect("few");
        // a token of its own for each, so that none is answered for from the session of another
        let good = send(token_for(&key, "k1", lives));
        let (good, unknown) = tokio::join!(good, send(token_for(&key, "k2", lives)));
        served += usize::from(good.0 == 200);
        assert_eq!(unknown.0, 503, "{}", unknown.1);
    }
    assert_eq!(served, REQUESTS);
    assert_eq!(*issuer.requested.borrow(), 2, "the attempt still hangs");
    let metrics = reqwest::get(format!("{}/metrics", world.metrics)).await;
    let metrics = metrics.expect("metrics").text().await.expect("text");
    let counted = metrics.lines().any(|line| {
        line.starts_with("edge_key_fetches_total{") && line.contains("outcome=\"fetched\"")
    });
    assert!(counted, "{metrics}");
}

/// Before, an issuer that answered with an empty set took all its keys from the gateway.
#[tokio::test]
async fn a_set_without_a_usable_key_does_not_replace_good_keys() {
    let (_, good) = es256("k1");
    let mut for_encryption = good.clone();
    for_encryption.keys[0].common.public_key_use = Some(PublicKeyUse::Encryption);
    let secret = json!({ "keys": [{ "kty": "oct", "k": "c2VjcmV0", "kid": "k1" }] });
    let useless = [json!({ "keys": [] }), json!(for_encryption), secret];
    for useless in useless {
        let (count, mut requested) = watch::channel(0);
        let (first, later) = (json!(good).to_string(), useless.to_string());
        let serve = move || {
            let mut answer = later.clone();
            count.send_modify(|requested| {
                *requested += 1;
                if *requested == 1 {
                    answer.clone_from(&first);
                }
            });
            async move { answer }
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.expect("listen");
        let address = listener.local_addr().expect("address");
        let router = Router::new().route("/jwks", get(serve));
        let server = tokio::spawn(async move { axum::serve(listener, router).await });
        let refresh = RefreshSettings {
            max_age_seconds: 0.0,
            ..eager()
        };
        let fetches = Fetches::new(&opentelemetry::global::meter("test"), IDP);
        let url = format!("http://{address}/jwks").parse().expect("url");
        let source = KeySource::remote(url, &refresh, fetches).expect("client");
        // the third attempt begins when what the second brought is known
        requested
            .wait_for(|requested| *requested >= 3)
            .await
            .expect("serves");
        let kept = source.find(Some("k1")).await.expect("kept");
        assert_eq!(kept.as_ref(), good.keys.first(), "{useless}");
        let refused = source.find(Some("k2")).await.expect_err("may be new");
        assert!(matches!(refused, KeysError::Outdated), "{refused}");
        server.abort();
    }
}

#[tokio::test]
async fn settings_that_prove_nothing_are_refused() {
    let meter = opentelemetry::global::meter("test");
    let url = |text: &str| Some(text.parse().expect("url"));
    let good = || IssuerSettings {
        jwks_url: url("https://idp.test/jwks"),
        ..settings()
    };
    assert!(Verifier::new(&[good()], None, &meter).is_ok());
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
        assert!(Verifier::new(&[bad], None, &meter).is_err(), "{name}");
    }
    assert!(
        Verifier::new(&[good(), good()], None, &meter).is_err(),
        "twice"
    );
}
