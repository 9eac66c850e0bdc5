//! The JSON API as the seeding uses it: nothing that a user could not do.

use std::path::Path;
use std::time::Duration;

use reqwest::{Client, Method, RequestBuilder};
use serde_json::Value;

use crate::error::{Error, Result};

/// Longest time one call may take.
const CALL: Duration = Duration::from_secs(60);

/// Reason of a refusal that ends when the content of an image has been read.
const BEING_VERIFIED: &str = "IMAGE_BEING_VERIFIED";

/// What the API did not do.
struct Refusal {
    reason: String,
    error: Error,
}

/// One caller of the API.
#[derive(Debug, Clone)]
pub struct Api {
    base: String,
    token: String,
    http: Client,
}

impl Api {
    /// A caller with the token in a file.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn new(base: &str, token_file: &Path) -> Result<Self> {
        let token = std::fs::read_to_string(token_file).map_err(Error::file("read", token_file))?;
        let http = Client::builder().no_proxy().timeout(CALL).build();
        Ok(Self {
            base: base.to_owned(),
            token: token.trim().to_owned(),
            http: http.map_err(|error| Error::other(error.to_string()))?,
        })
    }

    /// Reads a resource.
    ///
    /// # Errors
    /// What the API answered.
    pub async fn get(&self, path: &str) -> Result<Value> {
        self.send(Method::GET, path, |request| request).await
    }

    /// Creates something; the same key never creates it twice. An image is waited for until the catalog has read its content,
    /// which each call does for a while.
    ///
    /// # Errors
    /// What the API answered.
    pub async fn post(&self, path: &str, key: &str, body: &Value) -> Result<Value> {
        loop {
            let with =
                |request: RequestBuilder| request.header("x-idempotency-key", key).json(body);
            match self.answer(Method::POST, path, with).await? {
                Err(refusal) if refusal.reason == BEING_VERIFIED => {}
                answer => return answer.map_err(|refusal| refusal.error),
            }
        }
    }

    /// Creates or replaces something.
    ///
    /// # Errors
    /// What the API answered.
    pub async fn put(&self, path: &str, key: &str, body: &Value) -> Result<Value> {
        let with = |request: RequestBuilder| request.header("x-idempotency-key", key).json(body);
        self.send(Method::PUT, path, with).await
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        with: impl FnOnce(RequestBuilder) -> RequestBuilder,
    ) -> Result<Value> {
        let answer = self.answer(method, path, with).await?;
        answer.map_err(|refusal| refusal.error)
    }

    async fn answer(
        &self,
        method: Method,
        path: &str,
        with: impl FnOnce(RequestBuilder) -> RequestBuilder,
    ) -> Result<Result<Value, Refusal>> {
        let what = format!("{method} {path}");
        let request = self
            .http
            .request(method, format!("{}{path}", self.base))
            .bearer_auth(&self.token);
        let answer = with(request).send().await;
        let answer = answer
            .map_err(|error| Error::other(format!("{what}: {}", crate::error::chain(&error))))?;
        let status = answer.status();
        let body: Value = answer.json().await.unwrap_or_default();
        if status.is_success() {
            return Ok(Ok(body));
        }
        let error = &body["error"];
        let reason = list(&error["details"])
            .iter()
            .find_map(|detail| detail["reason"].as_str());
        let fields: Vec<String> = list(&error["details"])
            .iter()
            .filter_map(|detail| detail["field_violations"].as_array())
            .flatten()
            .map(|violation| {
                format!(
                    "{} {}",
                    string(&violation["field"]),
                    string(&violation["description"])
                )
            })
            .collect();
        Ok(Err(Refusal {
            reason: reason.unwrap_or_default().to_owned(),
            error: Error::other(format!(
                "{what}: HTTP {} {} {}",
                status.as_u16(),
                string(&error["message"]),
                fields.join("; ")
            )),
        }))
    }
}

/// The text of a JSON string; empty for anything else.
pub fn string(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The elements of a JSON array; none for anything else.
pub fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}
