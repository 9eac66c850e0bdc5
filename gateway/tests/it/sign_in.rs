//! Sign-in with the embedded issuer, as a browser and a command line do it: who may, what the tokens are good for, and
//! what is refused.
use std::collections::HashMap;

use gpuaas_gateway::auth::provider::clients::{CLI, CONSOLE};
use gpuaas_gateway::auth::provider::grants::challenge_of;
use reqwest::{Method, Response};
use serde_json::{Value, json};

use crate::world::{World, answer, reason};

const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
const DEVICE_CODE: &str = "urn:ietf:params:oauth:grant-type:device_code";

/// A browser or a program: it follows no redirect by itself.
struct Visitor<'a> {
    world: &'a World,
    http: reqwest::Client,
}

fn form(fields: &[(&str, &str)]) -> String {
    url::form_urlencoded::Serializer::new(String::new())
        .extend_pairs(fields)
        .finish()
}

impl<'a> Visitor<'a> {
    fn of(world: &'a World) -> Self {
        let http = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none());
        Self {
            world,
            http: http.build().expect("client"),
        }
    }

    /// What only who started the gateway can read.
    fn code(&self) -> String {
        let file = self.world.folder.path().join("dev.sign-in");
        std::fs::read_to_string(file).expect("the code")
    }

    fn callback(&self) -> String {
        self.world.url("/sign-in/callback")
    }

    async fn send(&self, path: &str, fields: &[(&str, &str)]) -> Response {
        let request = self.http.post(self.world.url(path)).body(form(fields));
        let request = request.header("content-type", "application/x-www-form-urlencoded");
        request.send().await.expect("answer")
    }

    /// The authorization endpoint, with some parameters changed; an empty one is left out.
    async fn ask(&self, changes: &[(&str, &str)]) -> Response {
        let (callback, challenge) = (self.callback(), challenge_of(VERIFIER));
        let mut fields = HashMap::from([
            ("client_id", CONSOLE),
            ("redirect_uri", &callback),
            ("response_type", "code"),
            ("scope", "openid offline_access"),
            ("state", "s"),
            ("nonce", "n"),
            ("code_challenge", &challenge),
            ("code_challenge_method", "S256"),
        ]);
        fields.extend(changes.iter().copied());
        let fields: Vec<_> = fields.into_iter().filter(|(_, v)| !v.is_empty()).collect();
        let url = self.world.url(&format!("/dev/authorize?{}", form(&fields)));
        self.http.get(url).send().await.expect("answer")
    }

    /// Opens the page and answers it.
    async fn choose(&self, fields: &[(&str, &str)]) -> Response {
        let page = self.ask(&[]).await.text().await.expect("a page");
        let request = hidden(&page, "request");
        let fields: Vec<_> = [("request", &*request)]
            .into_iter()
            .chain(fields.iter().copied())
            .collect();
        self.send("/dev/authorize", &fields).await
    }

    /// The code that the console gets.
    async fn authorized(&self, principal: &str) -> String {
        let code = self.code();
        let chosen = self
            .choose(&[("principal", principal), ("code", &code)])
            .await;
        let came = parameters(&chosen);
        assert_eq!((&*came["state"], &*came["iss"]), ("s", &*self.world.base));
        came["code"].clone()
    }

    async fn token(&self, fields: &[(&str, &str)]) -> (u16, Value) {
        let response = self.send("/dev/token", fields).await;
        assert_eq!(response.headers()["cache-control"], "no-store");
        let status = response.status().as_u16();
        (status, response.json().await.expect("JSON"))
    }

    async fn redeem(&self, code: &str, changes: &[(&str, &str)]) -> (u16, Value) {
        let callback = self.callback();
        let mut fields = HashMap::from([
            ("grant_type", "authorization_code"),
            ("client_id", CONSOLE),
            ("redirect_uri", &*callback),
            ("code_verifier", VERIFIER),
            ("code", code),
        ]);
        fields.extend(changes.iter().copied());
        self.token(&fields.into_iter().collect::<Vec<_>>()).await
    }

    async fn signed_in(&self, principal: &str) -> Value {
        let (status, tokens) = self.redeem(&self.authorized(principal).await, &[]).await;
        assert_eq!(status, 200, "{tokens}");
        tokens
    }

    async fn refresh(&self, token: &Value) -> (u16, Value) {
        let token = token.as_str().expect("a refresh token");
        let fields = [
            ("grant_type", "refresh_token"),
            ("client_id", CONSOLE),
            ("refresh_token", token),
        ];
        self.token(&fields).await
    }

    /// Status and reason of a call of the API.
    async fn call(&self, token: &Value) -> (u16, String) {
        let url = self.world.url("/api/v1/whoami");
        let request = self.http.request(Method::GET, url);
        let request = request.bearer_auth(token.as_str().expect("a token"));
        let (status, body) = answer(request.send().await.expect("answer")).await;
        let why = if status == 200 {
            String::new()
        } else {
            reason(&body).to_owned()
        };
        (status, why)
    }
}

/// What the page sends along.
fn hidden(page: &str, name: &str) -> String {
    let (_, rest) = page
        .split_once(&format!("name=\"{name}\" value=\""))
        .unwrap_or_else(|| panic!("no {name}: {page}"));
    rest.split_once('"').expect("an end").0.to_owned()
}

/// What a redirect leads back with.
fn parameters(response: &Response) -> HashMap<String, String> {
    assert_eq!(response.status(), 303, "{:?}", response.headers());
    let location = response.headers()["location"].to_str().expect("text");
    let location: url::Url = location.parse().expect("an address");
    location.query_pairs().into_owned().collect()
}

fn refused() -> (u16, String) {
    (401, "CREDENTIAL_INVALID".to_owned())
}

/// Before, any user of the machine was an administrator for the asking.
#[tokio::test]
async fn nobody_signs_in_without_the_code_of_the_stack() {
    use std::os::unix::fs::PermissionsExt as _;
    let world = World::start().await;
    let visitor = Visitor::of(&world);
    let file = world.folder.path().join("dev.sign-in");
    let mode = std::fs::metadata(file).expect("file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    for code in ["", "wrong"] {
        let chosen = visitor
            .choose(&[("principal", "user:admin"), ("code", code)])
            .await;
        assert_eq!(chosen.status(), 403);
        assert!(!chosen.headers().contains_key("location"));
        let page = chosen.text().await.expect("a page");
        assert!(page.contains("is not that of this stack"), "{page}");
        let ticket = visitor.send("/dev/ticket", &[("code", code)]).await;
        let (status, body) = answer(ticket).await;
        assert_eq!((status, reason(&body)), (403, "CREDENTIAL_INVALID"));
    }
    // what stands for the code does so once, and nothing else does
    let (_, given) = answer(
        visitor
            .send("/dev/ticket", &[("code", &visitor.code())])
            .await,
    )
    .await;
    let ticket = given["ticket"].as_str().expect("a ticket");
    for (ticket, expected) in [("nonsense", 403), (ticket, 303), (ticket, 403)] {
        let chosen = visitor
            .choose(&[("principal", "user:demo"), ("ticket", ticket)])
            .await;
        assert_eq!(chosen.status(), expected, "{ticket}");
    }
}

#[tokio::test]
async fn the_embedded_issuer_signs_in_whom_it_lists() {
    let world = World::start().await;
    let visitor = Visitor::of(&world);
    let page = visitor.ask(&[]).await.text().await.expect("a page");
    let demo = page.find("value=\"user:demo\"").expect("a user");
    let admin = page.find("value=\"user:admin\"").expect("an administrator");
    assert!(demo < admin, "users come first");
    assert!(!page[..admin].contains("administrator") && page[admin..].contains("administrator"));
    assert!(
        page[demo..admin].contains("<small>demo</small>"),
        "its project: {page}"
    );

    let tokens = visitor.signed_in("user:demo").await;
    assert_eq!(
        (&tokens["token_type"], &tokens["expires_in"]),
        (&json!("Bearer"), &json!(3600))
    );
    assert_eq!(
        visitor.call(&tokens["access_token"]).await,
        (200, String::new())
    );
    // made for the client, not for the API
    assert_eq!(visitor.call(&tokens["id_token"]).await, refused());

    // the last one is what no text of the database holds
    for unknown in ["user:nobody", "user:demo\0"] {
        let chosen = visitor
            .choose(&[("principal", unknown), ("code", &visitor.code())])
            .await;
        assert_eq!(chosen.status(), 403, "{unknown}");
        let page = chosen.text().await.expect("a page");
        assert!(
            page.contains("is not registered with the embedded issuer"),
            "{page}"
        );
    }
    let denied = parameters(&visitor.choose(&[("deny", "yes")]).await);
    assert_eq!(
        (&*denied["error"], &*denied["state"]),
        ("access_denied", "s")
    );
}

#[tokio::test]
async fn pages_of_other_hosts_cannot_sign_in() {
    let world = World::start().await;
    let visitor = Visitor::of(&world);
    for (header, value) in [
        ("host", "evil.example"),
        ("origin", "https://evil.example"),
        ("origin", "null"),
    ] {
        for path in [
            "/dev/authorize",
            "/dev/ticket",
            "/dev/token",
            "/dev/device",
            "/dev/revoke",
        ] {
            let request = visitor
                .http
                .post(world.url(path))
                .header(header, value)
                .header("content-type", "application/x-www-form-urlencoded")
                .body(form(&[
                    ("principal", "user:demo"),
                    ("code", &visitor.code()),
                ]));
            let response = request.send().await.expect("answer");
            assert_eq!(response.status(), 403, "{path} {header}: {value}");
        }
    }
}

#[tokio::test]
async fn its_pages_have_no_script_and_stand_in_no_frame() {
    let world = World::start().await;
    let visitor = Visitor::of(&world);
    let device = world.url("/dev/device");
    for response in [
        visitor.ask(&[]).await,
        visitor.http.get(device).send().await.expect("answer"),
    ] {
        assert_eq!(response.status(), 200);
        let headers = response.headers();
        let policy = headers["content-security-policy"].to_str().expect("text");
        assert!(
            policy.starts_with("default-src 'none'; style-src 'self';"),
            "{policy}"
        );
        assert!(
            policy.contains("frame-ancestors 'none'") && !policy.contains("script-src"),
            "{policy}"
        );
        assert_eq!(headers["x-frame-options"], "DENY");
        let page = response.text().await.expect("a page").to_lowercase();
        assert!(
            !page.contains("<script")
                && !page.contains(" onclick")
                && !page.contains("javascript:"),
            "{page}"
        );
    }
}

#[tokio::test]
async fn what_a_client_may_not_ask_for() {
    let world = World::start().await;
    let visitor = Visitor::of(&world);
    // nothing is sent to an address that is not the client's
    for change in [
        ("client_id", "other"),
        ("client_id", ""),
        ("client_id", CLI),
        ("redirect_uri", "https://evil.example/sign-in/callback"),
        ("redirect_uri", ""),
    ] {
        let response = visitor.ask(&[change]).await;
        assert_eq!(response.status(), 400, "{change:?}");
        assert!(!response.headers().contains_key("location"), "{change:?}");
    }
    for (change, error) in [
        (("response_type", "token"), "unsupported_response_type"),
        (("response_mode", "fragment"), "invalid_request"),
        (("code_challenge", ""), "invalid_request"),
        (("code_challenge", "short"), "invalid_request"),
        (("code_challenge_method", "plain"), "invalid_request"),
        (("code_challenge_method", ""), "invalid_request"),
        (("scope", "profile"), "invalid_scope"),
        (("prompt", "none"), "login_required"),
        (("request", "eyJ"), "request_not_supported"),
    ] {
        let came = parameters(&visitor.ask(&[change]).await);
        assert_eq!(came["error"], error, "{change:?}");
        assert_eq!((&*came["state"], &came["iss"]), ("s", &world.base));
        assert!(!came.contains_key("code"));
    }
    let twice = world.url(&format!(
        "/dev/authorize?client_id={CONSOLE}&client_id={CLI}"
    ));
    let twice = visitor.http.get(twice).send().await.expect("answer");
    assert_eq!(twice.status(), 400);
}

#[tokio::test]
async fn a_code_is_good_once_and_for_who_asked() {
    let world = World::start().await;
    let visitor = Visitor::of(&world);
    let other = "y".repeat(43);
    for change in [
        ("code_verifier", &*other),
        ("code_verifier", ""),
        ("redirect_uri", "http://127.0.0.1:1/sign-in/callback"),
        ("client_id", CLI),
        ("code", "guessed"),
    ] {
        let code = visitor.authorized("user:demo").await;
        let (status, body) = visitor.redeem(&code, &[change]).await;
        assert_eq!(
            (status, &body["error"]),
            (400, &json!("invalid_grant")),
            "{change:?}"
        );
    }
    let code = visitor.authorized("user:demo").await;
    let (status, body) = visitor.redeem(&code, &[("client_id", "other")]).await;
    assert_eq!((status, &body["error"]), (400, &json!("invalid_client")));
    let (status, tokens) = visitor.redeem(&code, &[]).await;
    assert_eq!(status, 200);
    // of two who bring the same code one has stolen it: neither keeps anything
    let (status, body) = visitor.redeem(&code, &[]).await;
    assert_eq!((status, &body["error"]), (400, &json!("invalid_grant")));
    assert_eq!(visitor.call(&tokens["access_token"]).await, refused());
    assert_eq!(visitor.refresh(&tokens["refresh_token"]).await.0, 400);
}

#[tokio::test]
async fn a_refresh_token_is_good_once() {
    let world = World::start().await;
    let visitor = Visitor::of(&world);
    let first = visitor.signed_in("user:demo").await;
    let (status, second) = visitor.refresh(&first["refresh_token"]).await;
    assert_eq!(status, 200);
    assert_ne!(first["refresh_token"], second["refresh_token"]);
    assert_eq!(visitor.call(&second["access_token"]).await.0, 200);
    let (status, body) = visitor.refresh(&first["refresh_token"]).await;
    assert_eq!((status, &body["error"]), (400, &json!("invalid_grant")));
    assert_eq!(visitor.refresh(&second["refresh_token"]).await.0, 400);
    assert_eq!(visitor.call(&second["access_token"]).await, refused());

    let tokens = visitor.signed_in("user:demo").await;
    sqlx::query("UPDATE edge.principals SET disable_time = now() WHERE name = 'user:demo'")
        .execute(&world.db.owner_pool().await)
        .await
        .expect("disabled");
    assert_eq!(visitor.refresh(&tokens["refresh_token"]).await.0, 400);
}

#[tokio::test]
async fn a_program_signs_in_by_a_code_that_somebody_confirms() {
    let world = World::start().await;
    let visitor = Visitor::of(&world);
    let begin = async |client| {
        let fields = [("client_id", client), ("scope", "openid offline_access")];
        let begun = visitor.send("/dev/device/authorize", &fields).await;
        (
            begun.status().as_u16(),
            begun.json::<Value>().await.expect("JSON"),
        )
    };
    let poll = async |codes: &Value, client| {
        let code = codes["device_code"].as_str().expect("a code");
        let fields = [
            ("grant_type", DEVICE_CODE),
            ("client_id", client),
            ("device_code", code),
        ];
        let (status, body) = visitor.token(&fields).await;
        (status, body)
    };
    let error = |(status, body): (u16, Value)| (status, body["error"].clone());
    assert_eq!(begin(CONSOLE).await.0, 400, "the console has a browser");
    let (status, codes) = begin(CLI).await;
    assert_eq!((status, &codes["interval"]), (200, &json!(5)));
    assert_eq!(codes["verification_uri"], world.url("/dev/device"));
    let user_code = codes["user_code"].as_str().expect("a code");

    assert_eq!(
        error(poll(&codes, CLI).await),
        (400, json!("authorization_pending"))
    );
    assert_eq!(error(poll(&codes, CLI).await), (400, json!("slow_down")));
    assert_eq!(
        error(poll(&codes, CONSOLE).await),
        (400, json!("invalid_grant"))
    );
    let page = world.url(&format!("/dev/device?user_code={user_code}"));
    let page = visitor.http.get(page).send().await.expect("a page");
    let page = page.text().await.expect("text");
    assert!(
        page.contains(user_code) && page.contains("the command line"),
        "{page}"
    );

    let (_, codes) = begin(CLI).await;
    let user_code = codes["user_code"].as_str().expect("a code");
    let decide = async |user_code, more: (&str, &str)| {
        let fields = [("user_code", user_code), ("principal", "user:demo"), more];
        visitor.send("/dev/device", &fields).await.status().as_u16()
    };
    let code = visitor.code();
    assert_eq!(decide(user_code, ("code", "wrong")).await, 403);
    assert_eq!(
        decide("BBBB-BBBB", ("code", &code)).await,
        400,
        "nobody waits"
    );
    assert_eq!(decide(user_code, ("code", &code)).await, 200);
    assert_eq!(decide(user_code, ("code", &code)).await, 400, "decided");
    let (status, tokens) = poll(&codes, CLI).await;
    assert_eq!(status, 200, "{tokens}");
    assert_eq!(visitor.call(&tokens["access_token"]).await.0, 200);
    assert_eq!(
        error(poll(&codes, CLI).await),
        (400, json!("invalid_grant")),
        "once"
    );

    let (_, codes) = begin(CLI).await;
    let user_code = codes["user_code"].as_str().expect("a code");
    assert_eq!(decide(user_code, ("deny", "yes")).await, 200);
    assert_eq!(
        error(poll(&codes, CLI).await),
        (400, json!("access_denied"))
    );
}

#[tokio::test]
async fn who_signs_out_leaves_no_token_behind() {
    let world = World::start().await;
    let visitor = Visitor::of(&world);
    let home = world.url("/");
    let tokens = visitor.signed_in("user:demo").await;
    let other = visitor.signed_in("user:demo").await;
    let end = async |hint: &str, to: &str, state: &str| {
        let fields = [
            ("id_token_hint", hint),
            ("post_logout_redirect_uri", to),
            ("state", state),
        ];
        let url = world.url(&format!("/dev/end-session?{}", form(&fields)));
        visitor.http.get(url).send().await.expect("answer")
    };
    assert_eq!(end("nonsense", &home, "x").await.status(), 400);
    assert_eq!(visitor.call(&tokens["access_token"]).await.0, 200);
    let hint = tokens["id_token"].as_str().expect("an id token");
    for (state, to) in [("x", format!("{home}?state=x")), ("", home.clone())] {
        let left = end(hint, &home, state).await;
        assert_eq!(left.headers()["location"], to);
    }
    assert_eq!(visitor.call(&tokens["access_token"]).await, refused());
    assert_eq!(visitor.refresh(&tokens["refresh_token"]).await.0, 400);
    assert_eq!(
        visitor.call(&other["access_token"]).await.0,
        200,
        "another sign-in goes on"
    );
    let elsewhere = end(hint, "https://evil.example/", "x").await;
    assert!(elsewhere.status() == 200 && !elsewhere.headers().contains_key("location"));

    let token = other["refresh_token"].as_str().expect("a token");
    for (client, after) in [(CLI, 200), (CONSOLE, 401)] {
        let revoked = visitor
            .send("/dev/revoke", &[("client_id", client), ("token", token)])
            .await;
        assert_eq!(revoked.status(), 200);
        assert_eq!(
            visitor.call(&other["access_token"]).await.0,
            after,
            "{client}"
        );
    }
}

#[tokio::test]
async fn it_says_where_to_sign_in() {
    let world = World::start().await;
    let get = async |path: &str| -> Value {
        let got = world
            .http
            .get(world.url(path))
            .send()
            .await
            .expect("answer");
        got.json().await.expect("JSON")
    };
    let found = get("/.well-known/openid-configuration").await;
    assert_eq!(found["issuer"], world.base);
    assert_eq!(found["code_challenge_methods_supported"], json!(["S256"]));
    let keys = found["jwks_uri"].as_str().expect("an address");
    let keys: Value = world
        .http
        .get(keys)
        .send()
        .await
        .expect("answer")
        .json()
        .await
        .expect("JSON");
    assert_eq!(keys["keys"][0]["alg"], "EdDSA");
    let offered = get("/.well-known/gpuaas-configuration").await;
    assert_eq!(
        offered,
        json!({ "issuers": [{
            "issuer": world.base, "display_name": "Development sign-in", "development": true,
            "console_client_id": CONSOLE, "cli_client_id": CLI,
            "scopes": ["openid", "offline_access"], "parameters": {},
        }] })
    );
}
