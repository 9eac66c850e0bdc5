//! The gateway with identity providers that nobody here wrote.
mod api;
mod browser;
mod command_line;

use std::process::Stdio;
use std::time::Duration;

use gpuaas_dev::until::until;
use gpuaas_dev::{paths, ports};
use gpuaas_gateway::auth::keys::RefreshSettings;
use gpuaas_gateway::auth::logout::PATH;
use gpuaas_gateway::auth::provider::grants::challenge_of;
use gpuaas_gateway::auth::verify::IssuerSettings;
use serde_json::Value;
use tokio::process::{Child, Command};

use crate::visitor::{Ended, Visitor};
use crate::world::{World, answer};

const API: &str = "https://api.test";
const SCOPE: &str = "openid offline_access";
const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
/// Nobody listens there: the test takes what a browser would bring.
const CALLBACK: &str = "http://127.0.0.1:1/sign-in/callback";

/// Who signs in with a provider in a browser.
#[derive(Clone, Copy)]
enum Client {
    /// The test, which takes what a browser would bring.
    Test,
    /// The console of the gateway; its access tokens live so many seconds.
    Console(u32),
}

impl Client {
    /// Where the provider leads back to, and how long access tokens live.
    fn settings(self, world: &World) -> [String; 2] {
        match self {
            Self::Test => [CALLBACK.to_owned(), 600.to_string()],
            Self::Console(seconds) => [world.url("/sign-in/callback"), seconds.to_string()],
        }
    }
}

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
    name: &'static str,
    audience: &'static str,
    /// What a sign-in adds to its requests.
    parameters: &'static [(&'static str, &'static str)],
    algorithm: &'static str,
    keys: &'static str,
    /// What administrators need.
    admin_acr: &'static [&'static str],
}

impl Trusting {
    /// Of a provider that a command starts on a port; the gateway's address for logouts is known by then.
    async fn start(kind: Kind, provider: impl AsyncFnOnce(&World, u16) -> Child) -> Self {
        let port = ports::free().expect("port");
        let issuer = format!("http://127.0.0.1:{port}");
        let world = World::start_with(|config, _| {
            config.issuers.push(IssuerSettings {
                issuer: issuer.clone(),
                display_name: kind.name.to_owned(),
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
                admin_acr: kind.admin_acr.iter().map(ToString::to_string).collect(),
                ..IssuerSettings::default()
            });
        })
        .await;
        let (pool, ada) = (world.pool().await, uuid::Uuid::now_v7());
        sqlx::query("INSERT INTO principals (id, name, issuer, subject, display_name) VALUES ($1, 'user:ada', $2, 'ada', '')")
            .bind(ada)
            .bind(&issuer)
            .execute(&pool)
            .await
            .expect("registered");
        sqlx::query(
            "INSERT INTO memberships (principal_id, project_id, role) VALUES ($1, $2, 'owner')",
        )
        .bind(ada)
        .bind(world.seeded.project_id)
        .execute(&pool)
        .await
        .expect("joined");
        let mut provider = provider(&world, port).await;
        let answer = until("the provider", Duration::from_secs(60), async || {
            let ended = provider.try_wait().expect("a child");
            assert!(ended.is_none(), "the provider has ended");
            let found = format!("{issuer}/.well-known/openid-configuration");
            world.http.get(found).send().await.ok()
        })
        .await;
        let metadata = answer.json().await.expect("JSON");
        Self {
            world,
            issuer,
            metadata,
            _provider: provider,
        }
    }

    /// Of npm's `oidc-provider`.
    async fn oidc_provider(client: Client) -> Self {
        let checkout = paths::checkout();
        let libraries = Command::new(checkout.join("deploy/node-libraries.sh")).status();
        let installed = libraries.await.expect("bash starts").success();
        assert!(installed, "npm cannot install the console's libraries");
        let kind = Kind {
            name: "oidc-provider",
            audience: API,
            parameters: &[("resource", API), ("prompt", "consent")],
            algorithm: "RS256",
            keys: "/jwks",
            admin_acr: &["urn:example:gold"],
        };
        Self::start(kind, async |world, port| {
            let [callback, seconds] = client.settings(world);
            Command::new("node")
                .arg("e2e/oidc-provider.mjs")
                .args([port.to_string(), callback, world.url(PATH), seconds])
                .current_dir(checkout.join("clients/console"))
                .stdout(Stdio::null())
                .kill_on_drop(true)
                .spawn()
                .expect("node starts")
        })
        .await
    }

    /// Of PyPI's `canaille`.
    async fn canaille(client: Client) -> Self {
        let kind = Kind {
            name: "canaille",
            audience: "gpuaas-api",
            parameters: &[],
            algorithm: "RS512",
            keys: "/oauth/jwks.json",
            admin_acr: &[],
        };
        Self::start(kind, async |world, port| {
            let [callback, seconds] = client.settings(world);
            Command::new(paths::checkout().join("gateway/tests/canaille.sh"))
                .args([port.to_string(), callback, seconds])
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
        until("the provider's keys", Duration::from_secs(20), async || {
            let request = self.world.http.get(self.world.url("/api/v1/whoami"));
            let request = request.bearer_auth(token.as_str().expect("a token"));
            let (status, body) = answer(request.send().await.expect("answer")).await;
            (status != 503).then_some((status, body))
        })
        .await
    }
}
