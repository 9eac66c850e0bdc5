//! The gateway with identity providers that nobody here wrote.
use std::process::Stdio;
use std::time::{Duration, Instant};

use gpuaas_dev::{paths, ports};
use gpuaas_gateway::auth::keys::RefreshSettings;
use gpuaas_gateway::auth::logout::PATH;
use gpuaas_gateway::auth::provider::grants::challenge_of;
use gpuaas_gateway::auth::verify::IssuerSettings;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use crate::visitor::{Ended, Visitor};
use crate::world::{World, answer, reason};

const API: &str = "https://api.test";
const SCOPE: &str = "openid offline_access";
const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
/// Nobody listens there: the test takes what a browser would bring.
const CALLBACK: &str = "http://127.0.0.1:1/sign-in/callback";

/// A gateway that trusts a provider, and the provider.
struct Trusting {
    world: World,
    issuer: String,
    /// What the provider says of itself.
    metadata: Value,
    _provider: Child,
}

fn form(fields: &[(&str, &str)]) -> String {
    url::form_urlencoded::Serializer::new(String::new())
        .extend_pairs(fields)
        .finish()
}

/// What is different of providers.
struct Kind {
    audience: &'static str,
    /// What a sign-in of the command line adds to its requests.
    parameters: &'static [(&'static str, &'static str)],
    algorithm: &'static str,
    keys: &'static str,
}

impl Trusting {
    /// Of a provider that a command starts on a port; the gateway's address for logouts is known by then.
    async fn start(kind: Kind, provider: impl AsyncFnOnce(&World, u16) -> Child) -> Self {
        let port = ports::free().expect("port");
        let issuer = format!("http://127.0.0.1:{port}");
        let world = World::start_with(|config, _| {
            config.issuers.push(IssuerSettings {
                issuer: issuer.clone(),
                audience: kind.audience.to_owned(),
                algorithms: vec![kind.algorithm.to_owned()],
                jwks_url: Some(format!("{issuer}{}", kind.keys).parse().expect("url")),
                jwks_refresh: RefreshSettings {
                    min_age_seconds: 0.0,
                    ..RefreshSettings::default()
                },
                console_client_id: Some("console".to_owned()),
                cli_client_id: Some("cli".to_owned()),
                parameters: kind
                    .parameters
                    .iter()
                    .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                    .collect(),
                ..IssuerSettings::default()
            });
        })
        .await;
        sqlx::query("INSERT INTO principals (id, name, issuer, subject, display_name) VALUES ($1, 'user:ada', $2, 'ada', '')")
            .bind(uuid::Uuid::now_v7())
            .bind(&issuer)
            .execute(&world.pool().await)
            .await
            .expect("registered");
        let mut provider = provider(&world, port).await;
        let begun = Instant::now();
        let metadata = loop {
            let waited = begun.elapsed();
            assert!(waited < Duration::from_secs(60), "the provider is silent");
            let ended = provider.try_wait().expect("a child");
            assert!(ended.is_none(), "the provider has ended");
            let found = format!("{issuer}/.well-known/openid-configuration");
            match world.http.get(found).send().await {
                Ok(answer) => break answer.json().await.expect("JSON"),
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        };
        Self {
            world,
            issuer,
            metadata,
            _provider: provider,
        }
    }

    /// Of npm's `oidc-provider`.
    async fn oidc_provider() -> Self {
        let checkout = paths::checkout();
        let libraries = Command::new(checkout.join("deploy/node-libraries.sh")).status();
        let installed = libraries.await.expect("bash starts").success();
        assert!(installed, "npm cannot install the console's libraries");
        let kind = Kind {
            audience: API,
            parameters: &[("resource", API), ("prompt", "consent")],
            algorithm: "RS256",
            keys: "/jwks",
        };
        Self::start(kind, async |world, port| {
            Command::new("node")
                .arg("e2e/oidc-provider.mjs")
                .args([&port.to_string(), CALLBACK, &world.url(PATH)])
                .current_dir(checkout.join("clients/console"))
                .stdout(Stdio::null())
                .kill_on_drop(true)
                .spawn()
                .expect("node starts")
        })
        .await
    }

    /// Of PyPI's `canaille`.
    async fn canaille() -> Self {
        let kind = Kind {
            audience: "gpuaas-api",
            parameters: &[],
            algorithm: "RS512",
            keys: "/oauth/jwks.json",
        };
        Self::start(kind, async |world, port| {
            Command::new(paths::checkout().join("gateway/tests/canaille.sh"))
                .args([&port.to_string(), CALLBACK])
                .arg(world.folder.path())
                .kill_on_drop(true)
                .spawn()
                .expect("bash starts")
        })
        .await
    }

    /// The program of the command line, for a person who has nothing but the test's folder.
    fn gpuaas(&self, arguments: &[&str]) -> Command {
        let program = paths::checkout().join("target/debug/gpuaas");
        assert!(program.exists(), "cargo build --workspace --bins builds it");
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env_clear()
            .env("HOME", self.world.folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    /// A sign-in with the provider, and not with the gateway's own issuer.
    fn login(&self) -> [&str; 5] {
        ["login", "--api", &self.world.base, "--issuer", &self.issuer]
    }

    /// What it prints, and whether it worked.
    async fn ran(&self, arguments: &[&str]) -> (bool, String) {
        let ran = self.gpuaas(arguments).output().await.expect("it starts");
        let said = [ran.stdout, ran.stderr].concat();
        let said = String::from_utf8(said).expect("text");
        (ran.status.success(), said)
    }

    fn endpoint(&self, name: &str) -> &str {
        self.metadata[name]
            .as_str()
            .unwrap_or_else(|| panic!("no {name}"))
    }

    async fn post(&self, endpoint: &str, fields: &[(&str, &str)]) -> (u16, Value) {
        let request = self.world.http.post(self.endpoint(endpoint));
        let request = request.header("content-type", "application/x-www-form-urlencoded");
        let response = request.body(form(fields)).send().await.expect("answer");
        let status = response.status().as_u16();
        (status, response.json().await.expect("JSON"))
    }

    /// Tokens of a sign-in in a browser.
    async fn sign_in(&self, browser: &mut Visitor) -> Value {
        let page = form(&[
            ("client_id", "console"),
            ("redirect_uri", CALLBACK),
            ("response_type", "code"),
            ("scope", SCOPE),
            ("prompt", "consent"),
            ("resource", API),
            ("state", "s"),
            ("nonce", "n"),
            ("code_challenge", &challenge_of(VERIFIER)),
            ("code_challenge_method", "S256"),
        ]);
        let page = format!("{}?{page}", self.endpoint("authorization_endpoint"));
        let Ended::At(back) = browser.visit(&page, CALLBACK).await else {
            panic!("no way back");
        };
        let came = |name: &str| {
            back.query_pairs()
                .find(|(n, _)| n == name)
                .map(|(_, v)| v.into_owned())
        };
        assert_eq!(
            (came("state").as_deref(), came("iss")),
            (Some("s"), Some(self.issuer.clone()))
        );
        let code = came("code").unwrap_or_else(|| panic!("no code: {back}"));
        let fields = [
            ("grant_type", "authorization_code"),
            ("client_id", "console"),
            ("redirect_uri", CALLBACK),
            ("code_verifier", VERIFIER),
            ("code", &code),
        ];
        let (status, tokens) = self.post("token_endpoint", &fields).await;
        assert_eq!(status, 200, "{tokens}");
        tokens
    }

    /// What the API says to a token, once it has the provider's keys.
    async fn call(&self, token: &Value) -> (u16, Value) {
        let begun = Instant::now();
        loop {
            let request = self.world.http.get(self.world.url("/api/v1/whoami"));
            let request = request.bearer_auth(token.as_str().expect("a token"));
            let (status, body) = answer(request.send().await.expect("answer")).await;
            if status != 503 || begun.elapsed() > Duration::from_secs(20) {
                return (status, body);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

#[tokio::test]
async fn who_signs_in_with_oidc_provider_uses_the_api_until_it_says_that_she_has_left() {
    let trusting = Trusting::oidc_provider().await;
    let mut browser = Visitor::new(&[("login", "ada"), ("password", "x"), ("logout", "yes")]);
    let tokens = trusting.sign_in(&mut browser).await;
    let (status, caller) = trusting.call(&tokens["access_token"]).await;
    assert_eq!(
        (status, &caller["principal"]),
        (200, &"user:ada".into()),
        "{caller}"
    );
    let (status, body) = trusting.call(&tokens["id_token"]).await;
    assert_eq!(
        (status, reason(&body)),
        (401, "CREDENTIAL_INVALID"),
        "an id token is no access token"
    );
    let refresh = tokens["refresh_token"].as_str().expect("a refresh token");
    let fields = [
        ("grant_type", "refresh_token"),
        ("client_id", "console"),
        ("refresh_token", refresh),
    ];
    let (status, renewed) = trusting.post("token_endpoint", &fields).await;
    assert_eq!(status, 200, "{renewed}");
    assert_eq!(trusting.call(&renewed["access_token"]).await.0, 200);

    let hint = tokens["id_token"].as_str().expect("an id token");
    let page = form(&[
        ("id_token_hint", hint),
        ("post_logout_redirect_uri", CALLBACK),
    ]);
    let left = browser
        .visit(
            &format!("{}?{page}", trusting.endpoint("end_session_endpoint")),
            CALLBACK,
        )
        .await;
    assert!(matches!(left, Ended::At(_)), "{left:?}");
    let begun = Instant::now();
    while trusting.call(&renewed["access_token"]).await.0 == 200 {
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "nobody told the gateway"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let (status, body) = trusting.call(&renewed["access_token"]).await;
    assert_eq!((status, reason(&body)), (401, "CREDENTIAL_INVALID"));
}

#[tokio::test]
async fn a_program_signs_in_with_oidc_provider_by_a_code() {
    let trusting = Trusting::oidc_provider().await;
    let fields = [
        ("client_id", "cli"),
        ("scope", SCOPE),
        ("prompt", "consent"),
        ("resource", API),
    ];
    let (status, device) = trusting
        .post("device_authorization_endpoint", &fields)
        .await;
    assert_eq!(status, 200, "{device}");
    let code = device["device_code"].as_str().expect("a code");
    let fields = [
        ("grant_type", "urn:ietf:params:oauth:grant-type:device_code"),
        ("client_id", "cli"),
        ("device_code", code),
    ];
    let (_, early) = trusting.post("token_endpoint", &fields).await;
    assert_eq!(early["error"], "authorization_pending");
    let mut browser = Visitor::new(&[("login", "ada"), ("password", "x")]);
    let page = device["verification_uri_complete"]
        .as_str()
        .expect("a page");
    let done = browser.visit(page, CALLBACK).await;
    assert!(
        matches!(&done, Ended::Page(page) if page.contains("Success")),
        "{done:?}"
    );
    let (status, tokens) = trusting.post("token_endpoint", &fields).await;
    assert_eq!(status, 200, "{tokens}");
    assert_eq!(trusting.call(&tokens["access_token"]).await.0, 200);
}

#[tokio::test]
async fn the_command_line_signs_in_and_out_with_oidc_provider() {
    let trusting = Trusting::oidc_provider().await;
    let login = trusting.login();
    let mut login = trusting.gpuaas(&login).spawn().expect("it starts");
    let said = login.stderr.take().expect("piped");
    let mut said = BufReader::new(said).lines();
    let page = loop {
        let line = said.next_line().await.expect("text");
        let line = line.expect("it names a page before it ends");
        if line.trim().starts_with(&trusting.issuer) {
            break line.trim().to_owned();
        }
    };
    let mut browser = Visitor::new(&[("login", "ada"), ("password", "x")]);
    let done = browser.visit(&page, CALLBACK).await;
    assert!(
        matches!(&done, Ended::Page(page) if page.contains("Success")),
        "{done:?}"
    );
    let ended = login.wait_with_output().await.expect("it ends");
    let text = String::from_utf8(ended.stdout).expect("text");
    assert!(
        ended.status.success() && text.contains("Signed in as user:ada"),
        "{text}"
    );
    let (worked, said) = trusting.ran(&["whoami"]).await;
    assert!(worked && said.contains("user:ada"), "{said}");

    // a token that has ended is renewed by the provider
    let file = trusting.world.folder.path();
    let file = file.join(".config/gpuaas/contexts.json");
    let read = || -> Value {
        let text = std::fs::read_to_string(&file).expect("the contexts");
        serde_json::from_str(&text).expect("JSON")
    };
    let mut contexts = read();
    let name = contexts["current"].as_str().expect("a name").to_owned();
    let tokens = contexts["contexts"][&name]["tokens"].clone();
    contexts["contexts"][&name]["tokens"]["expires"] = 1.into();
    std::fs::write(&file, contexts.to_string()).expect("written");
    let (worked, said) = trusting.ran(&["whoami"]).await;
    assert!(worked && said.contains("user:ada"), "{said}");
    let renewed = read()["contexts"][&name]["tokens"].clone();
    assert_ne!(renewed["access_token"], tokens["access_token"]);

    let (worked, said) = trusting.ran(&["logout"]).await;
    assert!(worked && !said.contains("did not revoke"), "{said}");
    let (worked, said) = trusting.ran(&["whoami"]).await;
    assert!(!worked && said.contains("gpuaas login"), "{said}");
    let refresh = renewed["refresh_token"].as_str().expect("a token");
    let fields = [
        ("grant_type", "refresh_token"),
        ("client_id", "cli"),
        ("refresh_token", refresh),
    ];
    let (status, body) = trusting.post("token_endpoint", &fields).await;
    assert_eq!(
        (status, &body["error"]),
        (400, &"invalid_grant".into()),
        "the provider has ended it, too"
    );
}

#[tokio::test]
async fn the_command_line_says_that_it_cannot_sign_in_with_canaille() {
    let trusting = Trusting::canaille().await;
    let login = trusting.login();
    let (worked, said) = trusting.ran(&login).await;
    assert!(
        !worked && said.contains("has no device authorization"),
        "{said}"
    );
    let (worked, said) = trusting.ran(&["context", "list", "--output", "json"]).await;
    assert!(worked && said.contains("\"contexts\": []"), "{said}");
}

/// It gives access tokens and id tokens of one audience, so that nothing but their claims tells them apart.
#[tokio::test]
async fn who_signs_in_with_canaille_uses_the_api_by_her_access_token_alone() {
    let trusting = Trusting::canaille().await;
    let answers = [
        ("login", "ada"),
        ("password", "correct-horse"),
        ("answer", "accept"),
    ];
    let tokens = trusting.sign_in(&mut Visitor::new(&answers)).await;
    let (status, caller) = trusting.call(&tokens["access_token"]).await;
    assert_eq!(
        (status, &caller["principal"]),
        (200, &"user:ada".into()),
        "{caller}"
    );
    let (status, body) = trusting.call(&tokens["id_token"]).await;
    assert_eq!((status, reason(&body)), (401, "CREDENTIAL_INVALID"));
    let refresh = tokens["refresh_token"].as_str().expect("a refresh token");
    let fields = [
        ("grant_type", "refresh_token"),
        ("client_id", "console"),
        ("refresh_token", refresh),
    ];
    let (status, renewed) = trusting.post("token_endpoint", &fields).await;
    assert_eq!(status, 200, "{renewed}");
    assert_eq!(trusting.call(&renewed["access_token"]).await.0, 200);
}
