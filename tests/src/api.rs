//! The JSON API as a client sees it.
use std::time::Duration;

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::until::{TIMEOUT, until};

/// One caller of the JSON API.
#[derive(Clone)]
pub struct Api {
    base: String,
    token: String,
    http: reqwest::Client,
}

/// An answer that is not a success.
#[derive(Debug)]
pub struct Refusal {
    /// HTTP status.
    pub status: StatusCode,
    /// The whole body.
    pub body: Value,
}

impl Refusal {
    /// Nobody answered: the same to a client as a part of the platform that is away.
    fn away(error: &reqwest::Error) -> Self {
        Self {
            status: StatusCode::SERVICE_UNAVAILABLE,
            body: json!({ "unanswered": format!("{error:?}") }),
        }
    }

    /// `ErrorInfo.reason`.
    pub fn reason(&self) -> &str {
        self.detail("ErrorInfo")
            .and_then(|d| d["reason"].as_str())
            .unwrap_or_default()
    }

    /// Fields of `BadRequest` with their rules.
    pub fn fields(&self) -> Vec<(String, String)> {
        let text = |v: &Value, key: &str| v[key].as_str().unwrap_or_default().to_owned();
        self.detail("BadRequest")
            .and_then(|d| d["field_violations"].as_array())
            .map(|all| {
                all.iter()
                    .map(|v| (text(v, "field"), text(v, "description")))
                    .collect()
            })
            .unwrap_or_default()
    }

    /// `RequestInfo.request_id`.
    pub fn request_id(&self) -> &str {
        self.detail("RequestInfo")
            .and_then(|d| d["request_id"].as_str())
            .unwrap_or_default()
    }

    fn detail(&self, kind: &str) -> Option<&Value> {
        self.body["error"]["details"].as_array()?.iter().find(|d| {
            d["@type"]
                .as_str()
                .is_some_and(|t| t.ends_with(&format!("google.rpc.{kind}")))
        })
    }
}

impl Api {
    /// A caller with this bearer token.
    pub fn new(base: impl Into<String>, token: impl Into<String>) -> Self {
        Self {
            base: base.into(),
            token: token.into(),
            // a test that boots a VM between two calls would meet a connection that the gateway has let go
            http: reqwest::Client::builder()
                .pool_max_idle_per_host(0)
                .build()
                .expect("client"),
        }
    }

    /// The same address with another token.
    #[must_use]
    pub fn with_token(&self, token: impl Into<String>) -> Self {
        Self {
            token: token.into(),
            ..self.clone()
        }
    }

    /// A request of any form; `key` becomes the idempotency key.
    ///
    /// # Errors
    /// [`Refusal`] for every answer that is not 2xx, and when nobody answers.
    pub async fn call(
        &self,
        method: Method,
        path: &str,
        key: Option<&str>,
        body: Option<Value>,
    ) -> Result<Value, Refusal> {
        let mut request = self
            .http
            .request(method, format!("{}{path}", self.base))
            .bearer_auth(&self.token);
        if let Some(key) = key {
            request = request.header("X-Idempotency-Key", key);
        }
        if let Some(body) = body {
            request = request.json(&body);
        }
        let response = match request.send().await {
            Ok(response) => response,
            Err(error) => return Err(Refusal::away(&error)),
        };
        let status = response.status();
        let body = response.json().await.unwrap_or(Value::Null);
        if status.is_success() {
            Ok(body)
        } else {
            Err(Refusal { status, body })
        }
    }

    /// GET. A 503 is asked again.
    ///
    /// # Errors
    /// [`Refusal`].
    ///
    /// # Panics
    /// When the platform is away for longer than [`TIMEOUT`].
    pub async fn get(&self, path: &str) -> Result<Value, Refusal> {
        self.answered(Method::GET, path, None, None).await
    }

    /// POST with a fresh idempotency key. A 503 is asked again with the same key, as its message says: a service that
    /// is killed may take the answer to a request with it that it has carried out.
    ///
    /// # Errors
    /// [`Refusal`].
    ///
    /// # Panics
    /// When the platform is away for longer than [`TIMEOUT`].
    pub async fn post(&self, path: &str, body: Value) -> Result<Value, Refusal> {
        let key = uuid::Uuid::now_v7().to_string();
        self.answered(Method::POST, path, Some(&key), Some(body))
            .await
    }

    async fn answered(
        &self,
        method: Method,
        path: &str,
        key: Option<&str>,
        body: Option<Value>,
    ) -> Result<Value, Refusal> {
        until(
            &format!("an answer to {method} {path}"),
            TIMEOUT,
            async || {
                let answer = self.call(method.clone(), path, key, body.clone()).await;
                let away = |refusal: &Refusal| refusal.status == StatusCode::SERVICE_UNAVAILABLE;
                (!answer.as_ref().is_err_and(away)).then_some(answer)
            },
        )
        .await
    }

    /// Creates an allocation of the lab SKU and returns its id.
    ///
    /// # Panics
    /// When it is refused.
    pub async fn launch(&self, name: &str, image: &str, ssh_public_key: &str) -> String {
        let created = self
            .post(
                "/api/v1/allocations",
                launch_body(name, image, ssh_public_key),
            )
            .await
            .unwrap_or_else(|refusal| panic!("launch refused: {}", refusal.body));
        created["id"].as_str().expect("an id").to_owned()
    }

    /// Every entry of an allocation's timeline, in order.
    ///
    /// # Panics
    /// When it is refused.
    pub async fn timeline(&self, id: &str) -> Vec<Value> {
        let mut entries = Vec::new();
        let mut token = String::new();
        loop {
            // small pages, so that paging is used
            let path = format!("/api/v1/allocations/{id}/timeline?page_size=3&page_token={token}");
            let page = self.get(&path).await.expect("timeline");
            entries.extend(page["entries"].as_array().cloned().unwrap_or_default());
            token = text(&page, "/next_page_token").to_owned();
            if token.is_empty() {
                return entries;
            }
        }
    }

    /// Asks for release.
    ///
    /// # Panics
    /// When it is refused.
    pub async fn release(&self, id: &str) {
        self.post(&format!("/api/v1/allocations/{id}:release"), json!({}))
            .await
            .unwrap_or_else(|refusal| panic!("release refused: {}", refusal.body));
    }

    /// Stops, starts or reboots (`verb`) and returns the allocation once its power is as wanted.
    ///
    /// # Panics
    /// When it is refused, the deadline passes, or it ends in another power state.
    pub async fn power(&self, id: &str, verb: &str, wanted: &str) -> Value {
        self.post(&format!("/api/v1/allocations/{id}:{verb}"), json!({}))
            .await
            .unwrap_or_else(|refusal| panic!("{verb} refused: {}", refusal.body));
        until(&format!("{verb} to end"), TIMEOUT, async || {
            let allocation = self.get(&format!("/api/v1/allocations/{id}")).await.ok()?;
            let now = allocation["status"]["power"].as_str()?.to_owned();
            assert!(
                ["stopping", "starting", "rebooting", "unrescuing", wanted].contains(&now.as_str()),
                "{verb} ended {now}: {allocation}"
            );
            (now == wanted).then_some(allocation)
        })
        .await
    }

    /// The allocation once it is in one of these states.
    ///
    /// # Panics
    /// When the deadline passes or it ends in another final state.
    pub async fn wait_state(&self, id: &str, states: &[&str], deadline: Duration) -> Value {
        until(
            &format!("allocation {id} to be {states:?}"),
            deadline,
            async || {
                let allocation = self.get(&format!("/api/v1/allocations/{id}")).await.ok()?;
                let state = allocation["status"]["state"].as_str()?.to_owned();
                if states.contains(&state.as_str()) {
                    return Some(allocation);
                }
                assert!(
                    !["failed", "released"].contains(&state.as_str()),
                    "allocation {id} ended {state}: {allocation}"
                );
                None
            },
        )
        .await
    }
}

/// The text at a JSON pointer; empty when there is none.
pub fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// A valid request for one lab slice.
pub fn launch_body(name: &str, image: &str, ssh_public_key: &str) -> Value {
    json!({
        "name": name,
        "region_code": "lab-1",
        "sku": "lab-slice",
        "gpu_count": 1,
        "image": image,
        "ssh_public_keys": [ssh_public_key],
    })
}
