//! Failures with their messages and exit codes.
use std::fmt::Write as _;

use gpuaas_proto::gpuaas::allocation::v1::AllocationFailure;
use serde_json::{Value, json};

use crate::advice;
use crate::api_failure::ApiFailure;

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
    /// The identity provider does not answer, or cannot now: the sign-in is as it was.
    #[error("the identity provider at {url} is not available: {cause}")]
    ProviderUnavailable {
        /// Where it was asked.
        url: String,
        /// Why.
        cause: String,
    },
    /// The identity provider says that the sign-in has ended: what is kept of it is worthless.
    #[error("{0}")]
    SignInEnded(String),
    /// Of several changes, one did not succeed, and those after it were not made; or of several launches one failed.
    #[error("{cause}")]
    Partly {
        /// What was changed, as it was typed.
        done: Vec<String>,
        /// What was not.
        left: Vec<String>,
        /// Why.
        cause: Box<Failure>,
    },
    /// Anything else on this machine.
    #[error("{0}")]
    Local(String),
}

impl Failure {
    /// The documented exit code.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) => 2,
            Self::NotFound(_) => 3,
            Self::SignIn(_) | Self::SignInEnded(_) => 4,
            Self::Unreachable { .. } | Self::ProviderUnavailable { .. } => 5,
            Self::Allocation(_) | Self::Local(_) => 1,
            Self::Partly { cause, .. } => cause.exit_code(),
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
        if let Self::Partly { done, left, cause } = self {
            let names = |some: &[String]| match some {
                [] => "none".to_owned(),
                some => some.join(", "),
            };
            let mut text = cause.to_text(admin);
            let _ = writeln!(text, "  done:    {}", names(done));
            let _ = writeln!(text, "  not yet: {}", names(left));
            return text;
        }
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
            Self::Partly { done, left, cause } => {
                let mut json = cause.to_json();
                if let Some(Value::Object(error)) = json.get_mut("error") {
                    error.insert("done".to_owned(), json!(done));
                    error.insert("not_done".to_owned(), json!(left));
                }
                json
            }
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
            Self::ProviderUnavailable { .. } => "Try again in a moment.",
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
            (
                Failure::ProviderUnavailable {
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
}
