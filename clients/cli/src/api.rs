//! The JSON API: one request with retries that are safe, because a change keeps its key.
use std::time::Duration;

use gpuaas_proto::call::{HttpRequest, Streaming, Unary, http_request};
use gpuaas_proto::json::from_json;
use reqwest::{Method, StatusCode};
use serde_json::Value;
use tokio_tungstenite::tungstenite::handshake::{client::generate_key, derive_accept_key};
use url::Url;
use uuid::Uuid;

use crate::advice;
use crate::api_failure::ApiFailure;
use crate::failure::Failure;
use crate::http::{self, TIMEOUT, root_cause};
use crate::pause::pauses;
use crate::profile::Target;
use crate::sign_in::credential::Credential;

/// Attempts at one request.
const ATTEMPTS: usize = 5;
/// Pause after the first one; each further one is twice as long.
const PAUSE: Duration = Duration::from_millis(250);
/// A command that would have to wait longer says so instead.
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// A WebSocket opens in this time.
const UPGRADE_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest time one stream is read; it is opened again after it.
const STREAM_TIMEOUT: Duration = Duration::from_secs(24 * 3600);
const PAGE_SIZE: &str = "200";

/// A client of one API with one credential.
pub struct Api {
    base: Url,
    credential: Credential,
    project: Option<String>,
    http: reqwest::Client,
}

/// Names one change; the same for all attempts at it.
#[derive(Clone, Debug)]
pub struct IdempotencyKey(String);

impl IdempotencyKey {
    /// The given key, else a new one.
    pub fn new(given: Option<String>) -> Self {
        Self(given.unwrap_or_else(|| format!("cli-{}", Uuid::now_v7())))
    }

    /// That of one of several changes that a command makes.
    pub fn numbered(&self, number: usize) -> Self {
        Self(format!("{}-{number}", self.0))
    }
}

/// What the API answered.
#[derive(Clone, Debug, Default)]
pub struct Answer<T> {
    /// As a message of the contract, for people.
    pub message: T,
    /// As it was sent, for programs: with what this version does not know.
    pub json: Value,
}

impl<T: prost::Name + Default> Answer<T> {
    /// Reads what the API sent.
    ///
    /// # Errors
    /// It is not that message.
    pub fn read(json: Value) -> Result<Self, Failure> {
        let message = from_json(&json).map_err(mismatch)?;
        Ok(Self { message, json })
    }
}

fn mismatch(error: impl std::fmt::Display) -> Failure {
    Failure::Local(format!(
        "the answer of the API does not match this version of gpuaas: {error}"
    ))
}

impl Api {
    /// A client.
    ///
    /// # Errors
    /// TLS cannot be set up on this machine.
    pub fn new(target: Target) -> Result<Self, Failure> {
        let http = http::client()?;
        Ok(Self {
            base: target.api,
            credential: target.credential,
            project: target.project,
            http,
        })
    }

    /// Reads.
    ///
    /// # Errors
    /// See [`Failure`].
    pub async fn call<C: Unary>(&self, call: &C) -> Result<Answer<C::Response>, Failure> {
        const { assert!(reads(C::VERB), "a change has a key: apply") }
        Answer::read(self.sent(&http_request(call), None).await?)
    }

    /// Reads what is needed as it was sent alone.
    ///
    /// # Errors
    /// See [`Failure`].
    pub async fn call_json<C: Unary>(&self, call: &C) -> Result<Value, Failure> {
        const { assert!(reads(C::VERB), "a change has a key: apply") }
        self.sent(&http_request(call), None).await
    }

    /// Reads all pages of a list, whose items are in this field; of what else an answer has, that of the first page.
    ///
    /// # Errors
    /// See [`Failure`].
    pub async fn call_all_pages<C: Unary>(
        &self,
        call: &C,
        items: &str,
    ) -> Result<Answer<C::Response>, Failure> {
        const { assert!(reads(C::VERB), "a list is read") }
        let request = http_request(call);
        let mut all = Vec::new();
        let mut first = None;
        let mut token = String::new();
        loop {
            let mut page = request.clone();
            let mut add = |name: &str, value| page.query.push((name.to_owned(), value));
            add("page_size", PAGE_SIZE.to_owned());
            if !token.is_empty() {
                add("page_token", token);
            }
            let mut page = self.sent(&page, None).await?;
            if let Value::Array(found) = page[items].take() {
                all.extend(found);
            }
            token = next_token(&page);
            let first = first.get_or_insert(page);
            if token.is_empty() {
                let mut json = first.take();
                json[items] = Value::Array(all);
                if let Value::Object(fields) = &mut json {
                    fields.shift_remove("next_page_token");
                }
                return Answer::read(json);
            }
        }
    }

    /// Changes. Repeated on connection errors and when the platform is busy, always with the same key.
    ///
    /// # Errors
    /// See [`Failure`].
    pub async fn apply<C: Unary>(
        &self,
        call: &C,
        key: &IdempotencyKey,
    ) -> Result<Answer<C::Response>, Failure> {
        const { assert!(!reads(C::VERB), "what reads has no key: call") }
        Answer::read(self.sent(&http_request(call), Some(key)).await?)
    }

    /// Changes, with a body that somebody else wrote.
    ///
    /// # Errors
    /// See [`Failure`].
    pub async fn apply_body<C: Unary>(
        &self,
        call: &C,
        body: Value,
        key: &IdempotencyKey,
    ) -> Result<Answer<C::Response>, Failure> {
        const { assert!(!reads(C::VERB), "what reads has no body") }
        let mut request = http_request(call);
        request.body = Some(body);
        Answer::read(self.sent(&request, Some(key)).await?)
    }

    async fn sent(
        &self,
        request: &HttpRequest,
        key: Option<&IdempotencyKey>,
    ) -> Result<Value, Failure> {
        let method = Method::from_bytes(request.verb.as_bytes()).expect("a verb of the contract");
        let (path, query) = parts(request);
        self.send(method, &path, &query, request.body.as_ref(), key)
            .await
    }

    /// Opens a stream of lines. It may last as long as it likes.
    ///
    /// # Errors
    /// See [`Failure`]; nothing is repeated.
    pub async fn open_stream<C: Streaming>(
        &self,
        call: &C,
        resume_token: &str,
    ) -> Result<reqwest::Response, Failure> {
        let mut request = http_request(call);
        if !resume_token.is_empty() {
            let token = ("resume_token".to_owned(), resume_token.to_owned());
            request.query.push(token);
        }
        let (path, query) = parts(&request);
        self.open(&path, &query).await
    }

    /// Calls any method; one that may change something carries the key.
    ///
    /// # Errors
    /// See [`Failure`].
    pub async fn request(
        &self,
        method: Method,
        path: &[&str],
        query: &[(&str, String)],
        body: Option<&Value>,
        key: &IdempotencyKey,
    ) -> Result<Value, Failure> {
        let key = (method != Method::GET).then_some(key);
        self.send(method, path, query, body, key).await
    }

    async fn open(
        &self,
        path: &[&str],
        query: &[(&str, String)],
    ) -> Result<reqwest::Response, Failure> {
        let url = self.url(path)?;
        let mut request = self
            .http
            .get(url.clone())
            .query(query)
            .timeout(STREAM_TIMEOUT)
            .header("accept", "application/x-ndjson");
        if let Some(token) = self.credential.token(&self.http).await? {
            request = request.bearer_auth(token);
        }
        let opened = tokio::time::timeout(TIMEOUT, request.send()).await;
        let response = opened
            .map_err(|_| self.unreachable("no answer in time".to_owned()))?
            .map_err(|error| self.unreachable(root_cause(&error)))?;
        if response.status() == StatusCode::OK {
            return Ok(response);
        }
        Err(self.refused(response, (&url, query, None)).await)
    }

    /// What an answer says that refuses.
    async fn refused(
        &self,
        response: reqwest::Response,
        request: (&Url, &[(&str, String)], Option<&Value>),
    ) -> Failure {
        let status = response.status().as_u16();
        let request_id = request_id(&response);
        let retry_after = retry_after(&response);
        let text = match response.text().await {
            Ok(text) => text,
            Err(error) => return self.unreachable(root_cause(&error)),
        };
        let error = ApiFailure {
            retry_after,
            ..ApiFailure::new(status, request_id, &text)
        };
        self.refusal(error, request)
    }

    /// What the API refused. Of the project of the context it says where it comes from: the command does not name it.
    fn refusal(
        &self,
        mut error: ApiFailure,
        (url, query, body): (&Url, &[(&str, String)], Option<&Value>),
    ) -> Failure {
        let named = |project: &str| {
            url.path().contains(project)
                || query.iter().any(|(_, value)| value == project)
                || body.is_some_and(|body| body.to_string().contains(project))
        };
        if error.reason == "PROJECT_UNKNOWN" && self.project().is_some_and(named) {
            error.advice = Some(advice::PROJECT_OF_CONTEXT.to_owned());
        }
        Failure::Api(Box::new(error))
    }

    /// The failure that a stream ended with.
    pub fn failure_of(&self, message: &Value) -> Failure {
        let status = message["error"]["code"].as_u64();
        let status = status.and_then(|code| u16::try_from(code).ok());
        Failure::Api(Box::new(ApiFailure::new(
            status.unwrap_or_default(),
            String::new(),
            &message.to_string(),
        )))
    }

    /// No answer.
    pub fn unreachable(&self, cause: String) -> Failure {
        Failure::Unreachable {
            url: self.base.to_string(),
            cause,
        }
    }

    /// The id of the project that is meant where none is named.
    pub fn project(&self) -> Option<&str> {
        self.project.as_deref()
    }

    /// The base address.
    pub fn base(&self) -> &Url {
        &self.base
    }

    /// Opens the connection of a WebSocket at a path that the API named.
    ///
    /// # Errors
    /// See [`Failure`]; nothing is repeated.
    pub async fn upgrade(
        &self,
        path: &str,
        subprotocol: &str,
    ) -> Result<reqwest::Upgraded, Failure> {
        let mut url = self.base.clone();
        url.path_segments_mut()
            .map_err(|()| Failure::Usage("the API's address has no path".to_owned()))?
            .pop_if_empty()
            .extend(path.split('/').filter(|part| !part.is_empty()));
        let key = generate_key();
        let mut request = http::upgrading_client()?
            .get(url.clone())
            .timeout(UPGRADE_TIMEOUT)
            .header("connection", "Upgrade")
            .header("upgrade", "websocket")
            .header("sec-websocket-version", "13")
            .header("sec-websocket-key", &key)
            .header("sec-websocket-protocol", subprotocol);
        if let Some(token) = self.credential.token(&self.http).await? {
            request = request.bearer_auth(token);
        }
        let unreachable = |error: &reqwest::Error| self.unreachable(root_cause(error));
        let response = request.send().await.map_err(|error| unreachable(&error))?;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            return Err(self.refused(response, (&url, &[], None)).await);
        }
        let is = |name: &str, value: &str| {
            let header = response.headers().get(name);
            header.is_some_and(|given| given.as_bytes() == value.as_bytes())
        };
        if !is("sec-websocket-accept", &derive_accept_key(key.as_bytes()))
            || !is("sec-websocket-protocol", subprotocol)
        {
            return Err(self.unreachable("the answer is not that of a WebSocket".to_owned()));
        }
        let upgraded = response.upgrade().await;
        upgraded.map_err(|error| unreachable(&error))
    }

    async fn send(
        &self,
        method: Method,
        path: &[&str],
        query: &[(&str, String)],
        body: Option<&Value>,
        key: Option<&IdempotencyKey>,
    ) -> Result<Value, Failure> {
        let url = self.url(path)?;
        let mut waits = pauses(PAUSE, LONGEST_WAIT).take(ATTEMPTS - 1);
        loop {
            let failure = match self
                .attempt(method.clone(), url.clone(), query, body, key)
                .await
            {
                Ok(value) => return Ok(value),
                Err(failure) => failure,
            };
            let again = match &failure {
                Failure::Unreachable { .. } | Failure::ProviderUnavailable { .. } => true,
                Failure::Api(error) => error.is_transient(),
                _ => false,
            };
            let requested = match &failure {
                Failure::Api(error) => error.retry_after.unwrap_or_default(),
                _ => Duration::ZERO,
            };
            match waits.next() {
                Some(wait) if again && requested <= LONGEST_WAIT => {
                    tokio::time::sleep(requested.max(wait)).await;
                }
                _ => return Err(failure),
            }
        }
    }

    async fn attempt(
        &self,
        method: Method,
        url: Url,
        query: &[(&str, String)],
        body: Option<&Value>,
        key: Option<&IdempotencyKey>,
    ) -> Result<Value, Failure> {
        let mut request = self.http.request(method, url.clone()).query(query);
        if let Some(token) = self.credential.token(&self.http).await? {
            request = request.bearer_auth(token);
        }
        if let Some(IdempotencyKey(key)) = key {
            request = request.header("X-Idempotency-Key", key);
        }
        if let Some(body) = body {
            request = request.json(body);
        }
        let unreachable = |error: &reqwest::Error| self.unreachable(root_cause(error));
        let response = request.send().await.map_err(|error| unreachable(&error))?;
        if response.status() != StatusCode::OK {
            return Err(self.refused(response, (&url, query, body)).await);
        }
        let text = response.text().await.map_err(|error| unreachable(&error))?;
        serde_json::from_str(&text).map_err(|_| {
            Failure::Local(format!(
                "{} returned something that is not JSON; check that it is the API",
                self.base
            ))
        })
    }

    /// The address below `/api/v1`; each part is one segment, whatever characters it has. A `:verb` goes into
    /// the last part unescaped.
    fn url(&self, path: &[&str]) -> Result<Url, Failure> {
        let mut url = self.base.clone();
        url.path_segments_mut()
            .map_err(|()| Failure::Usage("the API's address has no path".to_owned()))?
            .pop_if_empty()
            .extend(["api", "v1"])
            .extend(path);
        Ok(url)
    }
}

/// Whether a call of this HTTP method changes nothing.
const fn reads(verb: &str) -> bool {
    matches!(verb.as_bytes(), b"GET")
}

/// The path below `/api/v1`, where all calls are, and the query.
fn parts(request: &HttpRequest) -> (Vec<&str>, Vec<(&str, String)>) {
    let path = request.path.iter().skip(2).map(String::as_str);
    let query = request.query.iter();
    let query = query.map(|(name, value)| (name.as_str(), value.clone()));
    (path.collect(), query.collect())
}

fn next_token(page: &Value) -> String {
    let token = page["next_page_token"].as_str();
    token.unwrap_or_default().to_owned()
}

/// Seconds of `Retry-After`.
fn retry_after(response: &reqwest::Response) -> Option<Duration> {
    let header = response.headers().get(reqwest::header::RETRY_AFTER)?;
    let seconds = header.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds))
}

fn request_id(response: &reqwest::Response) -> String {
    let header = response.headers().get("x-request-id");
    let text = header.and_then(|value| value.to_str().ok());
    text.unwrap_or_default().to_owned()
}
