//! Why an action is not allowed, as its caller gets it.
use gpuaas_common::Error;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use tonic::Code;
use uuid::Uuid;

use super::request::{REGION, SKU};
use crate::error::ApiError;
use crate::store::{Guardrails, Role};

/// What the ids of policies for guardrails of organisations begin with; the guardrail's name is next, up to a hyphen.
const OF_ORGANISATION: &str = "organisation-guardrail-";

/// Why an action is not allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub(super) action: String,
    pub(super) message: String,
    pub(super) roles: Vec<&'static str>,
    pub(super) guardrail: Option<Box<Broken>>,
}

/// A guardrail that forbids it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    pub(super) name: String,
    pub(super) organisation: Uuid,
    /// What of the request, and the rule that it breaks.
    pub(super) field: Option<(String, String)>,
}

impl Refusal {
    /// As the caller gets it.
    pub fn into_error(self) -> ApiError {
        let (reason, metadata, field) = self.details();
        let mut error = ApiError::new(Code::PermissionDenied, reason, self.message);
        for (key, value) in metadata {
            error = error.meta(key, value);
        }
        match field {
            Some((field, rule)) => error.violation(field, rule),
            None => error,
        }
    }

    /// The same where the gateway answers itself.
    pub fn into_own_error(self) -> Error {
        let (reason, metadata, field) = self.details();
        let mut error = Error::new(Code::PermissionDenied, reason, self.message);
        for (key, value) in metadata {
            error = error.meta(key, value);
        }
        match field {
            Some((field, rule)) => error.field(field, rule),
            None => error,
        }
    }

    fn details(&self) -> Details {
        let mut metadata = vec![("action", self.action.clone())];
        if !self.roles.is_empty() {
            metadata.push(("roles", self.roles.join(",")));
        }
        let Some(broken) = &self.guardrail else {
            return (ErrorReason::PermissionDenied, metadata, None);
        };
        metadata.push(("guardrail", broken.name.clone()));
        metadata.push(("organisation_id", broken.organisation.to_string()));
        (ErrorReason::Guardrail, metadata, broken.field.clone())
    }

    /// The same where what breaks it is in a part of the request.
    pub(super) fn within(mut self, part: &str) -> Self {
        let field = self.guardrail.as_mut().and_then(|it| it.field.as_mut());
        if let Some((field, _)) = field {
            field.insert_str(0, part);
        }
        self
    }
}

/// Reason, metadata and field of a refusal.
type Details = (
    ErrorReason,
    Vec<(&'static str, String)>,
    Option<(String, String)>,
);

/// The guardrail of an organisation that one of these policies stands for, with its name.
pub(super) fn broken<'a>(
    policies: &'a [String],
    guardrails: &Guardrails,
) -> Option<(&'a str, Broken)> {
    let mut own = policies
        .iter()
        .filter_map(|id| id.strip_prefix(OF_ORGANISATION));
    let name = own.next()?.split('-').next()?;
    let one_of = |names: &[String]| {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        format!("must be {}", any_of(&names))
    };
    let field = match name {
        "allowed_regions" => Some((REGION, one_of(&guardrails.allowed_regions))),
        "allowed_skus" => Some((SKU, one_of(&guardrails.allowed_skus))),
        "max_api_key_days" => {
            let days = guardrails.max_api_key_days;
            Some(("expire_time", format!("must be in the next {days} days")))
        }
        _ => None,
    };
    let broken = Broken {
        name: name.to_owned(),
        organisation: guardrails.organisation_id,
        field: field.map(|(field, rule)| (field.to_owned(), rule)),
    };
    Some((name, broken))
}

/// That one of these roles is needed.
pub(super) fn needs(roles: &[&str], what: &str, role: Option<Role>) -> String {
    let own = match role {
        Some(role) => format!("; yours is {}", role.as_str()),
        None => String::new(),
    };
    format!("This needs the role {} in the {what}{own}.", any_of(roles))
}

/// Names, as a sentence has them.
pub(super) fn any_of(roles: &[&str]) -> String {
    match roles {
        [] => "of nobody".to_owned(),
        [one] => (*one).to_owned(),
        [others @ .., last] => format!("{} or {last}", others.join(", ")),
    }
}
