//! Failures with their messages and exit codes.
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use gpuaas_proto::gpuaas::allocation::v1::AllocationFailure;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::advice;

#[derive(Clone, Debug, Deserialize)]
struct ErrorBody {
    error: ErrorStatus,
}

#[derive(Clone, Debug, Deserialize)]
struct ErrorStatus {
    #[serde(default)]
    message: String,
    #[serde(default)]
    details: Vec<Value>,
}

/// A command that did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The command line or a local file is wrong.
    #[error("{0}")]
    Usage(String),
    /// A reference matches nothing.
    #[error("{0}")]
    NotFound(String),
    /// The API refused or failed.
    #[error("{}", .0.message)]
    Api(Box<ApiFailure>),
    /// No answer from the API.
    #[error("the API at {url} cannot be reached: {cause}")]
    Unreachable {
        /// The base address.
        url: String,
        /// Why.
        cause: String,
    },
    /// The allocation ended as failed while it was waited for.
    #[error("{}", .0.message)]
    Allocation(Box<AllocationFailure>),
    /// Nobody is signed in, or the sign-in did not work.
    #[error("{0}")]
    SignIn(String),
    /// The identity provider says that the sign-in has ended: what is kept of it is worthless.
    #[error("{0}")]
    SignInEnded(String),
    /// Anything else on this machine.
    #[error("{0}")]
    Local(String),
}

/// An error answer of the API.
#[derive(Clone, Debug, Default)]
pub struct ApiFailure {
    /// HTTP status.
    pub http: u16,
    /// The message.
    pub message: String,
    /// `ErrorInfo.reason`.
    pub reason: String,
    /// Fields with the rule they break.
    pub fields: Vec<(String, String)>,
    /// The limit that the call would exceed.
    pub limit: Option<i64>,
    /// The roles that would allow the call, separated by commas.
    pub roles: String,
    /// The unschedulable reasons that the message does not contain.
    pub causes: Vec<String>,
    /// An existing name that is like the one that is unknown.
    pub nearest: Option<String>,
    /// Advice from what the command looked up, in place of that of the reason.
    pub advice: Option<String>,
    /// Quote it when asking for help.
    pub request_id: String,
    /// How long the API asks to wait before the next try.
    pub retry_after: Option<Duration>,
    /// The whole answer.
    pub raw: Value,
    /// The user wrote the request's fields, and not flags that stand for them.
    pub is_raw: bool,
}

impl ApiFailure {
    /// From an answer; one that is not in the API's shape keeps its status only.
    pub fn new(http: u16, request_id: String, body: &str) -> Self {
        let raw: Value = serde_json::from_str(body).unwrap_or(Value::Null);
        let Ok(parsed) = serde_json::from_value::<ErrorBody>(raw.clone()) else {
            let message = format!("the API returned status {http} without details");
            return Self {
                http,
                message,
                request_id,
                raw: json!({ "error": { "code": http } }),
                ..Self::default()
            };
        };
        let detail = |kind: &str| {
            parsed
                .error
                .details
                .iter()
                .find(|d| d["@type"].as_str().is_some_and(|t| t.ends_with(kind)))
        };
        let text = |value: Option<&Value>, key: &str| {
            value
                .and_then(|v| v[key].as_str())
                .unwrap_or_default()
                .to_owned()
        };
        let fields = detail("google.rpc.BadRequest")
            .and_then(|d| d["field_violations"].as_array())
            .map(|list| {
                list.iter()
                    .map(|v| (text(Some(v), "field"), text(Some(v), "description")))
                    .collect()
            })
            .unwrap_or_default();
        let metadata = detail("google.rpc.ErrorInfo").and_then(|info| info["metadata"].as_object());
        let limit = metadata
            .and_then(|metadata| metadata.get("limit")?.as_str())
            .and_then(|limit| limit.parse().ok());
        let roles = metadata
            .and_then(|metadata| metadata.get("roles")?.as_str())
            .unwrap_or_default()
            .to_owned();
        let causes = metadata
            .map(|metadata| causes(metadata, &parsed.error.message))
            .unwrap_or_default();
        let given_id = text(detail("google.rpc.RequestInfo"), "request_id");
        Self {
            http,
            message: parsed.error.message,
            reason: text(detail("google.rpc.ErrorInfo"), "reason"),
            fields,
            limit,
            roles,
            causes,
            nearest: None,
            advice: None,
            is_raw: false,
            retry_after: None,
            request_id: if given_id.is_empty() {
                request_id
            } else {
                given_id
            },
            raw,
        }
    }

    /// A field as the user gave it: as a flag where one stands for it.
    fn shown_field<'a>(&self, field: &'a str) -> &'a str {
        given_as(field).filter(|_| !self.is_raw).unwrap_or(field)
    }

    /// Whether the same call may succeed later.
    pub fn is_transient(&self) -> bool {
        matches!(self.http, 502..=504) || self.reason == "RATE_LIMITED"
    }
}

/// The unschedulable reasons in a refusal's metadata, under `REASON.message`, in the order of their reasons, since a map
/// has none; without those that `message` contains.
fn causes(details: &Map<String, Value>, message: &str) -> Vec<String> {
    let reasons = details.iter().filter(|(key, _)| key.ends_with(".message"));
    let sorted: BTreeMap<_, _> = reasons.collect();
    let texts = sorted.into_values().filter_map(Value::as_str);
    texts
        .filter(|text| !message.contains(text))
        .map(str::to_owned)
        .collect()
}

/// How a person gives a field of the API to this program; none for a field that has no flag.
fn given_as(field: &str) -> Option<&'static str> {
    let own = ["config.", "sku.", "region."]
        .iter()
        .find_map(|prefix| field.strip_prefix(prefix))
        .unwrap_or(field);
    let own = own.split_once("].").map_or(own, |(_, rest)| rest);
    Some(match own.split('[').next().unwrap_or_default() {
        "gpu_count" => "--gpus",
        "region_code" => "--region",
        "sku" => "--sku",
        "image" | "image_digest" => "--image",
        "ssh_public_keys" => "--ssh-key",
        "labels" => "--label",
        "name" => "--name",
        "wait.deadline" => "--wait-for-capacity",
        "user_data" => "--user-data",
        "project_id" => "--project",
        "start_time" => "--start",
        "end_time" => "--end",
        "release_unused_after_seconds" => "--release-unused-after",
        "placement.affinity" | "placement.affinity_label" => "--affinity",
        "placement.anti_affinity" | "placement.anti_affinity_label" => "--anti-affinity",
        "placement.require_prewarmed" => "--require-prewarmed",
        "display_name" => "--name",
        "allowed_gpu_counts" => "--gpu-counts",
        "capacity_shape" => "--shape",
        "slot_class" => "--slot-class",
        "profile.name" => "--profile",
        "profile.vcpus_per_gpu" => "--vcpus",
        "profile.memory_mib_per_gpu" => "--memory",
        _ => return None,
    })
}

impl Failure {
    /// The documented exit code.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) => 2,
            Self::NotFound(_) => 3,
            Self::SignIn(_) | Self::SignInEnded(_) => 4,
            Self::Unreachable { .. } => 5,
            Self::Allocation(_) | Self::Local(_) => 1,
            Self::Api(error) => match (error.http, error.reason.as_str()) {
                (400 | 413 | 415, reason)
                    if reason.starts_with("FIELD_")
                        || reason.starts_with("BODY_")
                        || reason == "PAGE_TOKEN_INVALID" =>
                {
                    2
                }
                (404 | 405, _) => 3,
                (502..=504, _) | (429, "RATE_LIMITED") => 5,
                (400..=499, _) => 4,
                _ => 1,
            },
        }
    }

    /// For people: message, fields, causes, advice and request id. `admin`: they are administrators themselves.
    pub fn to_text(&self, admin: bool) -> String {
        let mut text = format!("error: {}\n", self.message());
        if let Self::Api(error) = self {
            let fields = error.fields.iter();
            for (field, rule) in fields.filter(|(_, rule)| !error.message.contains(rule)) {
                let _ = writeln!(text, "  {}: {rule}", error.shown_field(field));
            }
            for cause in &error.causes {
                let _ = writeln!(text, "  cause:   {cause}");
            }
        }
        if let Some(advice) = self.advice(admin) {
            let _ = writeln!(text, "  advice:  {advice}");
        }
        match self {
            Self::Api(error) => {
                if !error.reason.is_empty() {
                    let _ = writeln!(text, "  reason:  {}", error.reason);
                }
                if !error.request_id.is_empty() {
                    let _ = writeln!(text, "  request: {}", error.request_id);
                }
            }
            Self::Allocation(failure) if !failure.reason.is_empty() => {
                let _ = writeln!(text, "  reason:  {}", failure.reason);
            }
            _ => {}
        }
        text
    }

    /// The message, with the flag in place of a leading name of a field.
    fn message(&self) -> String {
        let message = self.to_string();
        let Self::Api(error) = self else {
            return message;
        };
        let named = error.fields.iter().find_map(|(field, _)| {
            let rest = message.strip_prefix(field.as_str())?.strip_prefix(": ")?;
            Some(format!("{}: {rest}", error.shown_field(field)))
        });
        named.unwrap_or(message)
    }

    /// For programs: the API's own error, or one in its shape.
    pub fn to_json(&self) -> Value {
        match self {
            Self::Api(error) => error.raw.clone(),
            other => {
                json!({ "error": { "message": other.to_string(), "exit_code": other.exit_code() } })
            }
        }
    }

    fn advice(&self, admin: bool) -> Option<String> {
        let text = match self {
            Self::Allocation(failure) => {
                return Some(failure.advice.clone()).filter(|a| !a.is_empty());
            }
            Self::SignIn(_) | Self::SignInEnded(_) => "Sign in: gpuaas login",
            Self::Unreachable { .. } => {
                "Check that the API is running at this address; set it with --api, GPUAAS_API or the profile."
            }
            Self::Api(error) => return advice::of(error, admin),
            _ => return None,
        };
        Some(text.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn api(http: u16, reason: &str) -> Failure {
        Failure::Api(Box::new(ApiFailure {
            http,
            reason: reason.to_owned(),
            ..ApiFailure::default()
        }))
    }

    #[test]
    fn exit_codes_table() {
        for (failure, code) in [
            (Failure::Usage(String::new()), 2),
            (Failure::NotFound(String::new()), 3),
            (Failure::SignIn(String::new()), 4),
            (
                Failure::Unreachable {
                    url: String::new(),
                    cause: String::new(),
                },
                5,
            ),
            (Failure::Local(String::new()), 1),
            (api(400, "FIELD_INVALID"), 2),
            (api(413, "BODY_TOO_LARGE"), 2),
            (api(400, "GPU_COUNT_NOT_ALLOWED"), 4),
            (api(403, "QUOTA"), 4),
            (api(401, "CREDENTIAL_EXPIRED"), 4),
            (api(403, "PERMISSION_DENIED"), 4),
            (api(404, "ALLOCATION_NOT_FOUND"), 3),
            (api(409, "ALREADY_EXISTS"), 4),
            (api(409, "NO_CAPACITY"), 4),
            (api(429, "RATE_LIMITED"), 5),
            (api(500, "INTERNAL"), 1),
            (api(503, "OVERLOADED"), 5),
            (api(504, "DEADLINE_EXCEEDED"), 5),
        ] {
            assert_eq!(failure.exit_code(), code, "{failure:?}");
        }
    }

    #[test]
    fn an_answer_of_something_else_is_told_apart() {
        let failure = ApiFailure::new(502, "r1".to_owned(), "<html>bad gateway</html>");
        assert_eq!(
            failure.message,
            "the API returned status 502 without details"
        );
        assert!(failure.is_transient());
    }
}
