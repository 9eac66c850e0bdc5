//! What this program says to identity providers: where they are, device authorization, refresh, revocation.
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use reqwest::StatusCode;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use url::Url;
use url::form_urlencoded::Serializer;

use super::contexts::{Context, Tokens};
use crate::failure::Failure;
use crate::http::root_cause;

/// Grant type of RFC 8628.
const DEVICE_CODE: &str = "urn:ietf:params:oauth:grant-type:device_code";
/// What a device waits more when it is told that it asks too often (RFC 8628, 3.5).
const SLOWER: Duration = Duration::from_secs(5);
/// The shortest and the longest pause before a provider is asked again that does not answer. From the one to the other they
/// double (RFC 8628, 3.5).
const AWAY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// A provider that takes longer for new tokens hangs: a token is renewed a minute before its end, and is used when that fails.
const RENEWAL: Duration = Duration::from_secs(20);
/// Whatever a provider says, no code is waited for longer, and no pause is longer.
const DAY: u64 = 24 * 60 * 60;

/// Where the API's users sign in.
#[derive(Debug, Deserialize)]
pub struct Configuration {
    /// All of them.
    pub issuers: Vec<Issuer>,
}

/// One identity provider.
#[derive(Clone, Debug, Deserialize)]
pub struct Issuer {
    /// Its address.
    pub issuer: String,
    /// Its name for people.
    #[serde(default)]
    pub display_name: String,
    /// This program's id there.
    pub cli_client_id: Option<String>,
    /// What to ask for.
    #[serde(default)]
    pub scopes: Vec<String>,
    /// What to add to each request.
    #[serde(default)]
    pub parameters: BTreeMap<String, String>,
}

/// What an identity provider says of itself.
#[derive(Clone, Debug, Deserialize)]
pub struct Metadata {
    /// Must be the address it was asked at.
    pub issuer: String,
    /// Where tokens are given.
    pub token_endpoint: Url,
    /// Where a device begins.
    pub device_authorization_endpoint: Option<Url>,
    /// Where a token is revoked.
    pub revocation_endpoint: Option<Url>,
}

/// What a person needs to confirm a device.
#[derive(Debug, Deserialize)]
pub struct Device {
    device_code: String,
    /// To compare, or to type.
    pub user_code: String,
    /// Where.
    pub verification_uri: String,
    /// The same with the code in it.
    pub verification_uri_complete: Option<String>,
    expires_in: u64,
    interval: Option<u64>,
}

#[derive(Debug, Deserialize)]
struct Granted {
    access_token: String,
    expires_in: Option<i64>,
    refresh_token: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Refused {
    error: String,
    error_description: String,
}

/// An answer that gives nothing.
enum Outcome {
    Refused(Refused),
    /// No answer, or none now: the same request may do better later.
    Away(Failure),
    Failed(Failure),
}

impl From<Outcome> for Failure {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Refused(refused) => refused.into(),
            Outcome::Away(failure) | Outcome::Failed(failure) => failure,
        }
    }
}

impl Refused {
    /// Whether it is no answer to the request: the provider itself does not work now.
    fn is_of_now(&self, status: StatusCode) -> bool {
        match self.error.as_str() {
            // a device is told so while its code lives
            "slow_down" => false,
            "temporarily_unavailable" | "server_error" => true,
            _ => status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS,
        }
    }

    /// What it says.
    fn why(self) -> String {
        match self.error_description.is_empty() {
            true => self.error,
            false => format!("{} ({})", self.error_description, self.error),
        }
    }
}

impl From<Refused> for Failure {
    fn from(refused: Refused) -> Self {
        let why = refused.why();
        Self::SignIn(format!("the identity provider refused the sign-in: {why}"))
    }
}

/// Tokens go over TLS, or stay on this machine.
fn is_safe(url: &Url) -> bool {
    let loopback = matches!(url.host_str(), Some("127.0.0.1" | "[::1]" | "localhost"));
    url.scheme() == "https" || (url.scheme() == "http" && loopback)
}

/// Reads a JSON document.
///
/// # Errors
/// No answer, another status than 200, or something else than what was expected.
pub async fn read<T: DeserializeOwned>(http: &reqwest::Client, url: Url) -> Result<T, Failure> {
    let address = url.to_string();
    let unreachable = |error: &reqwest::Error| Failure::Unreachable {
        url: address.clone(),
        cause: root_cause(error),
    };
    let response = http.get(url).send().await.map_err(|e| unreachable(&e))?;
    let status = response.status();
    if !status.is_success() {
        let status = status.as_u16();
        return Err(Failure::SignIn(format!(
            "{address} answered with status {status}"
        )));
    }
    let text = response.text().await.map_err(|e| unreachable(&e))?;
    serde_json::from_str(&text)
        .map_err(|_| Failure::SignIn(format!("{address} is not what a sign-in needs")))
}

/// Asks an identity provider where its endpoints are.
///
/// # Errors
/// See [`read`]; one that calls itself by another name, or would have tokens sent in the clear.
pub async fn discover(http: &reqwest::Client, issuer: &str) -> Result<Metadata, Failure> {
    let base = issuer.trim_end_matches('/');
    let url = format!("{base}/.well-known/openid-configuration");
    let url: Url = url.parse().ok().filter(is_safe).ok_or_else(|| {
        Failure::SignIn(format!(
            "the identity provider {issuer} has no https address"
        ))
    })?;
    let found: Metadata = read(http, url).await?;
    if found.issuer != issuer {
        return Err(Failure::SignIn(format!(
            "the identity provider at {issuer} calls itself {}",
            found.issuer
        )));
    }
    let others = [
        &found.device_authorization_endpoint,
        &found.revocation_endpoint,
    ];
    let are_safe = is_safe(&found.token_endpoint) && others.into_iter().flatten().all(is_safe);
    if !are_safe {
        return Err(Failure::SignIn(format!(
            "the identity provider {issuer} has an endpoint without https"
        )));
    }
    Ok(found)
}

async fn post<T: DeserializeOwned>(
    http: &reqwest::Client,
    url: &Url,
    fields: &[(&str, &str)],
    parameters: &BTreeMap<String, String>,
) -> Result<T, Outcome> {
    let body = Serializer::new(String::new())
        .extend_pairs(fields)
        .extend_pairs(parameters)
        .finish();
    let away = |cause: String| {
        Outcome::Away(Failure::ProviderUnavailable {
            url: url.to_string(),
            cause,
        })
    };
    let unreachable = |error: &reqwest::Error| away(root_cause(error));
    let request = http
        .post(url.clone())
        .header("content-type", "application/x-www-form-urlencoded")
        .header("accept", "application/json")
        .body(body);
    let response = request.send().await.map_err(|e| unreachable(&e))?;
    let status = response.status();
    let text = response.text().await.map_err(|e| unreachable(&e))?;
    // an empty body is what revocation may answer
    let value: Value = serde_json::from_str(&text).unwrap_or_default();
    if !status.is_success() {
        let refused: Refused = serde_json::from_value(value).unwrap_or_default();
        let code = status.as_u16();
        return Err(
            match (refused.is_of_now(status), refused.error.is_empty()) {
                (true, true) => away(format!("it answered with status {code}")),
                (true, false) => away(refused.why()),
                (false, true) => {
                    let text = format!("{url} answered with status {code}");
                    Outcome::Failed(Failure::SignIn(text))
                }
                (false, false) => Outcome::Refused(refused),
            },
        );
    }
    serde_json::from_value(value).map_err(|_| {
        let text = format!("{url} answered with something else than a sign-in needs");
        Outcome::Failed(Failure::SignIn(text))
    })
}

/// Begins the sign-in of a device.
///
/// # Errors
/// No answer, or a refusal.
pub async fn begin(
    http: &reqwest::Client,
    issuer: &Issuer,
    client_id: &str,
    endpoint: &Url,
) -> Result<Device, Failure> {
    let scope = issuer.scopes.join(" ");
    let fields = [("client_id", client_id), ("scope", &*scope)];
    Ok(post(http, endpoint, &fields, &issuer.parameters).await?)
}

/// Waits until somebody has confirmed the device. A provider that does not answer, or cannot now, is asked again, less and less
/// often, until the code has expired.
///
/// # Errors
/// Refused or too late; what the provider answered last, when that was no answer.
pub async fn wait(
    http: &reqwest::Client,
    issuer: &Issuer,
    client_id: &str,
    endpoint: &Url,
    device: &Device,
) -> Result<Tokens, Failure> {
    let end = Instant::now() + Duration::from_secs(device.expires_in.min(DAY));
    // without a word of the provider, five seconds (RFC 8628, 3.2)
    let mut interval = Duration::from_secs(device.interval.unwrap_or(5).min(DAY));
    let fields = [
        ("grant_type", DEVICE_CODE),
        ("client_id", client_id),
        ("device_code", &*device.device_code),
    ];
    let late = || Failure::SignIn("nobody confirmed the code in time".to_owned());
    let (shortest, longest) = AWAY;
    let mut pause = interval;
    let mut away = None;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(away.unwrap_or_else(late));
        }
        tokio::time::sleep(pause.min(left)).await;
        let given = post::<Granted>(http, endpoint, &fields, &issuer.parameters).await;
        match given {
            Ok(granted) => return Ok(tokens(granted, None)),
            Err(Outcome::Refused(refused)) => match refused.error.as_str() {
                "authorization_pending" => {}
                "slow_down" => interval += SLOWER,
                "expired_token" => return Err(late()),
                "access_denied" => {
                    return Err(Failure::SignIn(
                        "the sign-in was refused in the browser".into(),
                    ));
                }
                _ => return Err(refused.into()),
            },
            Err(Outcome::Away(failure)) => {
                if away.is_none() {
                    note!("The identity provider does not answer. Trying again …");
                }
                away = Some(failure);
                pause = (pause * 2).clamp(shortest, longest).max(interval);
                continue;
            }
            Err(Outcome::Failed(failure)) => return Err(failure),
        }
        away = None;
        pause = interval;
    }
}

/// New tokens for the refresh token of a context.
///
/// # Errors
/// [`Failure::SignInEnded`] when the sign-in has ended; [`Failure::ProviderUnavailable`] when there is no answer, or none now;
/// another refusal.
pub async fn refresh(
    http: &reqwest::Client,
    context: &Context,
    refresh_token: &str,
) -> Result<Tokens, Failure> {
    let fields = [
        ("grant_type", "refresh_token"),
        ("client_id", &*context.client_id),
        ("refresh_token", refresh_token),
    ];
    let given = post::<Granted>(http, &context.token_endpoint, &fields, &context.parameters);
    let Ok(given) = tokio::time::timeout(RENEWAL, given).await else {
        return Err(Failure::ProviderUnavailable {
            url: context.token_endpoint.to_string(),
            cause: format!("no answer within {} s", RENEWAL.as_secs()),
        });
    };
    match given {
        Ok(granted) => Ok(tokens(granted, Some(refresh_token))),
        Err(Outcome::Refused(refused)) if refused.error == "invalid_grant" => {
            Err(Failure::SignInEnded("your sign-in has ended".to_owned()))
        }
        Err(outcome) => Err(outcome.into()),
    }
}

/// Ends the sign-in that a token belongs to.
///
/// # Errors
/// No answer, or a refusal.
pub async fn revoke(
    http: &reqwest::Client,
    context: &Context,
    endpoint: &Url,
    tokens: &Tokens,
) -> Result<(), Failure> {
    let (token, hint) = match &tokens.refresh_token {
        Some(token) => (token, "refresh_token"),
        None => (&tokens.access_token, "access_token"),
    };
    let fields = [
        ("client_id", &*context.client_id),
        ("token", &**token),
        ("token_type_hint", hint),
    ];
    post::<Value>(http, endpoint, &fields, &BTreeMap::new()).await?;
    Ok(())
}

/// A provider that does not rotate refresh tokens gives none again.
fn tokens(granted: Granted, former: Option<&str>) -> Tokens {
    let now = Timestamp::now().as_second();
    Tokens {
        access_token: granted.access_token,
        // without a word of the provider it is tried until the API refuses it
        expires: now + granted.expires_in.unwrap_or(3600),
        refresh_token: granted.refresh_token.or_else(|| former.map(str::to_owned)),
    }
}
