//! An error that the API answered.
use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value, json};

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
    pub fn shown_field<'a>(&self, field: &'a str) -> &'a str {
        given_as(field).filter(|_| !self.is_raw).unwrap_or(field)
    }

    /// Whether the same call may succeed in a moment.
    pub fn is_transient(&self) -> bool {
        let may_pass = matches!(self.http, 502..=504) || self.reason == "RATE_LIMITED";
        may_pass && !self.is_being_verified()
    }

    /// The catalog is reading the content of an image: the same call succeeds or fails once that is done.
    pub fn is_being_verified(&self) -> bool {
        self.reason == "IMAGE_BEING_VERIFIED"
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
        "profile.network_mbps" => "--network-mbps",
        "profile.network_burst_kb" => "--network-burst-kb",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
