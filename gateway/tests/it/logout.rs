//! Back-channel logout: tokens, streams and terminals of a sign-in end when its issuer says so, and nobody else can say so.
use gpuaas_gateway::auth::logout::PATH;
use gpuaas_gateway::auth::verify::{IssuerSettings, SubjectClaim};
use jiff::Timestamp;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;

use crate::issuers::{IDP, es256, register, settings};
use crate::terminals::{answers, ended, opened, opened_by};
use crate::world::{World, answer, reason};

const CLIENT: &str = "console-at-idp";
const EVENT: &str = "http://schemas.openid.net/event/backchannel-logout";

struct Idp {
    key: EncodingKey,
    world: World,
}

fn now() -> i64 {
    Timestamp::now().as_second()
}

/// The claims of a good logout token.
fn logout() -> Value {
    json!({ "iss": IDP, "aud": CLIENT, "iat": now(), "jti": uuid::Uuid::now_v7(), "sid": "s1",
            "events": { EVENT: {} } })
}

impl Idp {
    async fn start() -> Self {
        Self::start_with(SubjectClaim::Sub).await
    }

    /// The same, which names people by this claim.
    async fn start_with(subject_claim: SubjectClaim) -> Self {
        let (key, keys) = es256("k1");
        let world = World::start_with(|config, folder| {
            let file = folder.join("jwks.json");
            std::fs::write(&file, serde_json::to_string(&keys).expect("JSON")).expect("write");
            config.stream_access_seconds = 0.1;
            config.terminal.access_seconds = 0.1;
            config.issuers.push(IssuerSettings {
                jwks_file: Some(file),
                subject_claim,
                console_client_id: Some(CLIENT.to_owned()),
                ..settings()
            });
        })
        .await;
        register(&world).await;
        let project = "INSERT INTO memberships (principal_id, project_id, role) SELECT id, $1, 'member' FROM principals WHERE name = 'user:idp'";
        let pool = world.pool().await;
        let joined = sqlx::query(project)
            .bind(world.seeded.project_id)
            .execute(&pool)
            .await;
        assert_eq!(joined.expect("joined").rows_affected(), 1);
        Self { key, world }
    }

    fn sign(&self, key: &EncodingKey, typ: &str, claims: &Value) -> String {
        let header = Header {
            kid: Some("k1".to_owned()),
            typ: Some(typ.to_owned()),
            ..Header::new(Algorithm::ES256)
        };
        assert!(!self.world.base.is_empty());
        jsonwebtoken::encode(&header, claims, key).expect("signed")
    }

    /// An access token of a sign-in, issued so many seconds ago.
    fn access(&self, sid: Option<&str>, age: i64) -> String {
        let mut claims = json!({ "iss": IDP, "aud": "api", "sub": "4711", "iat": now() - age, "exp": now() + 600 });
        if let Some(sid) = sid {
            claims["sid"] = sid.into();
        }
        self.sign(&self.key, "at+jwt", &claims)
    }

    async fn send(&self, token: &str) -> (u16, Value) {
        let body = url::form_urlencoded::Serializer::new(String::new())
            .append_pair("logout_token", token)
            .finish();
        let request = self.world.http.post(self.world.url(PATH)).body(body);
        let request = request.header("content-type", "application/x-www-form-urlencoded");
        let response = request.send().await.expect("answer");
        let status = response.status().as_u16();
        let text = response.text().await.expect("text");
        (status, serde_json::from_str(&text).unwrap_or_default())
    }

    async fn end(&self, change: impl FnOnce(&mut Value)) {
        let mut claims = logout();
        change(&mut claims);
        let token = self.sign(&self.key, "logout+jwt", &claims);
        assert_eq!(self.send(&token).await, (200, Value::Null));
    }

    async fn call(&self, token: &str) -> u16 {
        let request = self.world.http.get(self.world.url("/api/v1/whoami"));
        let (status, body) = answer(request.bearer_auth(token).send().await.expect("answer")).await;
        assert!(
            status == 200 || reason(&body) == "CREDENTIAL_INVALID",
            "{body}"
        );
        status
    }
}

#[tokio::test]
async fn a_logout_ends_the_tokens_of_its_sign_in() {
    let idp = Idp::start().await;
    let (first, second, plain) = (
        idp.access(Some("s1"), 5),
        idp.access(Some("s2"), 5),
        idp.access(None, 5),
    );
    for token in [&first, &second, &plain] {
        assert_eq!(idp.call(token).await, 200);
    }
    idp.end(|_| {}).await;
    assert_eq!(idp.call(&first).await, 401);
    assert_eq!(idp.call(&second).await, 200, "another sign-in goes on");
    assert_eq!(
        idp.call(&plain).await,
        200,
        "nobody said whose the sign-in was"
    );
    // with the subject known, its tokens that name no sign-in end too
    idp.end(|claims| claims["sub"] = "4711".into()).await;
    assert_eq!(idp.call(&plain).await, 401);
    assert_eq!(idp.call(&second).await, 200);
    // without a sign-in, all of them; what is issued later is good
    idp.end(|claims| {
        claims["sub"] = "4711".into();
        claims["iat"] = (now() - 3).into();
        claims.as_object_mut().expect("object").remove("sid");
    })
    .await;
    assert_eq!(idp.call(&second).await, 401);
    assert_eq!(idp.call(&idp.access(Some("s3"), 0)).await, 200);
}

#[tokio::test]
async fn a_logout_token_is_checked_and_counts_once() {
    let idp = Idp::start().await;
    let victim = idp.access(Some("s1"), 0);
    let with = |name: &str, value: Value| {
        let mut claims = logout();
        claims[name] = value;
        idp.sign(&idp.key, "logout+jwt", &claims)
    };
    let without = |name: &str| {
        let mut claims = logout();
        claims.as_object_mut().expect("object").remove(name);
        idp.sign(&idp.key, "logout+jwt", &claims)
    };
    let (foreign, _) = es256("k1");
    let mut of_dev = logout();
    of_dev["iss"] = idp.world.base.clone().into();
    for (name, token) in [
        ("nothing", String::new()),
        ("no token", "a.b.c".to_owned()),
        ("another key", idp.sign(&foreign, "logout+jwt", &logout())),
        ("another issuer", with("iss", json!("https://evil.example"))),
        (
            "an issuer without clients",
            idp.sign(&idp.key, "logout+jwt", &of_dev),
        ),
        ("the API as audience", with("aud", json!("api"))),
        ("a foreign client", with("aud", json!("other"))),
        ("no audience", without("aud")),
        ("no event", with("events", json!({}))),
        (
            "another event",
            with(
                "events",
                json!({ "http://schemas.openid.net/event/other": {} }),
            ),
        ),
        (
            "an event that is no object",
            with("events", json!({ EVENT: true })),
        ),
        ("no events", without("events")),
        ("a nonce", with("nonce", json!("n"))),
        ("an access token", idp.access(Some("s1"), 0)),
        ("another type", idp.sign(&idp.key, "at+jwt", &logout())),
        ("no jti", without("jti")),
        ("an empty jti", with("jti", json!(""))),
        ("neither sub nor sid", without("sid")),
        ("an old one", with("iat", json!(now() - 700))),
        ("one of tomorrow", with("iat", json!(now() + 86_400))),
        ("an expired one", with("exp", json!(now() - 60))),
        ("no time", without("iat")),
    ] {
        let (status, body) = idp.send(&token).await;
        assert_eq!(
            (status, &body["error"]),
            (400, &json!("invalid_request")),
            "{name}: {body}"
        );
    }
    assert_eq!(idp.call(&victim).await, 200, "nothing has ended");
    let good = idp.sign(&idp.key, "logout+jwt", &logout());
    assert_eq!(idp.send(&good).await.0, 200);
    assert_eq!(idp.send(&good).await.0, 400, "sent again");
    assert_eq!(idp.call(&good).await, 401, "it is no access token");
}

#[tokio::test]
async fn a_logout_ends_open_streams_and_terminals() {
    let idp = Idp::start().await;
    let url = idp.world.url("/api/v1/allocations/silent:watch");
    let request = idp
        .world
        .http
        .get(url)
        .bearer_auth(idp.access(Some("s1"), 0));
    let mut stream = request.send().await.expect("answer");
    stream.chunk().await.expect("open").expect("a message");
    let whose = format!("user:idp {}", idp.world.seeded.project_id);
    let (mut terminal, _, _) = opened(&idp.world, [127, 0, 0, 1], &whose).await;
    idp.end(|claims| claims["sub"] = "4711".into()).await;
    let rest = stream.text().await.expect("it ends");
    let last = rest.lines().last().expect("a last message");
    let last: Value = serde_json::from_str(last).expect("JSON");
    assert_eq!(reason(&last), "PERMISSION_DENIED");
    let mut said = Vec::new();
    terminal.read_to_end(&mut said).await.expect("it ends");
    assert!(said.ends_with(b"access_lost"), "{said:?}");
}

/// One sign-in of two ends; its subject is not named.
#[tokio::test]
async fn a_logout_of_one_sign_in_ends_its_stream_and_terminal_and_no_other() {
    let idp = Idp::start().await;
    let [first, second] = ["s1", "s2"].map(|sid| idp.access(Some(sid), 5));
    let open = async |token: &str| {
        let url = idp.world.url("/api/v1/allocations/silent:watch");
        let request = idp.world.http.get(url).bearer_auth(token);
        let mut stream = request.send().await.expect("answer");
        stream.chunk().await.expect("open").expect("a message");
        stream
    };
    let (one, other) = (open(&first).await, open(&second).await);
    let (mut ending, _) = opened_by(&idp.world, "user:idp", &first).await;
    let (mut staying, whose) = opened_by(&idp.world, "user:idp", &second).await;
    idp.end(|_| {}).await;
    let last = async |stream: reqwest::Response| {
        let rest = stream.text().await.expect("it ends");
        let last = rest.lines().last().expect("a last message").to_owned();
        serde_json::from_str::<Value>(&last).expect("JSON")
    };
    assert_eq!(reason(&last(one).await), "PERMISSION_DENIED");
    ended(&mut ending).await;
    assert_eq!(idp.call(&second).await, 200);
    answers(&mut staying, &whose).await;
    // the other stream goes on
    idp.world.record.until_open(1).await;
    // and ends with its own
    idp.end(|claims| claims["sid"] = "s2".into()).await;
    assert_eq!(reason(&last(other).await), "PERMISSION_DENIED");
    ended(&mut staying).await;
}

/// Before, the logout of an issuer that names people by their object id ended nobody's sign-in.
#[tokio::test]
async fn a_logout_names_somebody_by_the_claim_of_the_issuers_tokens() {
    let idp = Idp::start_with(SubjectClaim::Oid).await;
    let token = json!({
        "iss": IDP, "aud": "api", "sub": "pairwise", "oid": "4711", "iat": now() - 5, "exp": now() + 600,
    });
    let token = idp.sign(&idp.key, "at+jwt", &token);
    assert_eq!(idp.call(&token).await, 200);
    let send = async |named: Value| {
        let mut claims = logout();
        let fields = claims.as_object_mut().expect("object");
        fields.remove("sid");
        fields.extend(named.as_object().expect("claims").clone());
        let sent = idp.sign(&idp.key, "logout+jwt", &claims);
        idp.send(&sent).await
    };
    // the sub is not taken in place of the object id
    for named in [
        json!({ "sub": "pairwise" }),
        json!({ "sub": "4711" }),
        json!({ "sub": "4711", "oid": "" }),
    ] {
        let (status, body) = send(named.clone()).await;
        assert_eq!((status, &body["error"]), (400, &json!("invalid_request")));
        let why = body["error_description"].as_str().expect("why");
        assert!(why.contains("neither oid nor sid"), "{named}: {why}");
    }
    for of_others in [
        json!({ "sub": "4711", "oid": "4712" }),
        json!({ "sub": "4711", "sid": "s2" }),
    ] {
        assert_eq!(send(of_others).await.0, 200);
    }
    assert_eq!(idp.call(&token).await, 200, "it has not ended");
    let own = json!({ "sub": "of the console", "oid": "4711" });
    assert_eq!(send(own).await.0, 200);
    assert_eq!(idp.call(&token).await, 401);
}
