//! Binds path, query and body of a request to one message, as `google.api.http` says.
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use http::Method;
use prost_reflect::{
    DynamicMessage, FieldDescriptor, Kind, MessageDescriptor, ReflectMessage as _, Value,
};
use tonic::Code;

use super::read::{Violations, check_required, join, read_message, unknown_rule};
use super::scalar::scalar_from_text;
use crate::contract::route::{Body, Route};
use crate::contract::template::percent_decode;
use crate::error::ApiError;
use crate::json::Json;

/// Builds the request message.
///
/// # Errors
/// `BODY_MALFORMED` when the body is no JSON; otherwise every field with the rule it breaks.
pub fn bind(
    route: &Route,
    path: &[(String, String)],
    query: Option<&str>,
    body: &[u8],
) -> Result<DynamicMessage, ApiError> {
    let descriptor = route.method.input();
    let mut violations = Violations::default();
    let mut message = DynamicMessage::new(descriptor.clone());

    let json = parse_body(route, body)?;
    match (&route.body, &json) {
        (Body::Whole, Some(json)) => message = read_message(&descriptor, json, "", &mut violations),
        (Body::Field(name), Some(json)) => {
            let field = field_of(&descriptor, name)?;
            if let Kind::Message(inner) = field.kind() {
                message.set_field(
                    &field,
                    Value::Message(read_message(&inner, json, name, &mut violations)),
                );
            }
        }
        _ => {}
    }
    for (field, text) in path {
        bind_path(&mut message, field, text, &mut violations);
    }
    bind_query(
        route,
        &mut message,
        path,
        query.unwrap_or_default(),
        &mut violations,
    );
    if route.http_method == Method::PATCH {
        imply_update_mask(route, &mut message, json.as_ref());
    }
    check_required(&message, "", &mut violations);
    violations.into_result()?;
    Ok(message)
}

/// True when the request only checks and keeps nothing.
pub fn validate_only(message: &DynamicMessage) -> bool {
    message
        .get_field_by_name("validate_only")
        .and_then(|v| v.as_bool())
        .unwrap_or(false)
}

fn parse_body(route: &Route, body: &[u8]) -> Result<Option<Json>, ApiError> {
    let empty = body.iter().all(u8::is_ascii_whitespace);
    if route.body == Body::None {
        return if empty {
            Ok(None)
        } else {
            Err(ApiError::new(
                Code::InvalidArgument,
                ErrorReason::BodyMalformed,
                "This method takes no body.",
            ))
        };
    }
    if empty {
        // a verb without any field of its own needs no "{}"
        return Ok(Some(Json::Object(Vec::new())));
    }
    Json::parse(body).map(Some).map_err(|error| {
        ApiError::new(
            Code::InvalidArgument,
            ErrorReason::BodyMalformed,
            format!("The body is not valid JSON: {error}."),
        )
    })
}

fn field_of(descriptor: &MessageDescriptor, name: &str) -> Result<FieldDescriptor, ApiError> {
    descriptor
        .get_field_by_name(name)
        .ok_or_else(ApiError::internal)
}

/// Sets a path variable. A body may repeat it, but only with the same value.
fn bind_path(message: &mut DynamicMessage, path: &str, text: &str, violations: &mut Violations) {
    match locate(message, path) {
        Some((owner, field)) => match scalar_from_text(&field.kind(), text) {
            Ok(value) if owner.has_field(&field) && owner.get_field(&field).as_ref() != &value => {
                violations.invalid(path, "must equal the value in the path, or be left out");
            }
            Ok(value) => owner.set_field(&field, value),
            Err(rule) => violations.invalid(path, rule),
        },
        None => violations.invalid(path, "is not a field of the request"),
    }
}

/// Walks to the message that owns the last name of a field path, creating messages on the way.
fn locate<'a>(
    message: &'a mut DynamicMessage,
    path: &str,
) -> Option<(&'a mut DynamicMessage, FieldDescriptor)> {
    let mut owner = message;
    let mut parts = path.split('.').peekable();
    while let Some(part) = parts.next() {
        let field = owner.descriptor().get_field_by_name(part)?;
        if parts.peek().is_none() {
            return Some((owner, field));
        }
        if field.is_list() || field.is_map() {
            return None;
        }
        owner = owner.get_field_mut(&field).as_message_mut()?;
    }
    None
}

fn bind_query(
    route: &Route,
    message: &mut DynamicMessage,
    path: &[(String, String)],
    query: &str,
    violations: &mut Violations,
) {
    let mut seen = std::collections::HashSet::new();
    for pair in query.split('&').filter(|p| !p.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (Some(name), Some(value)) = (decode_query(name), decode_query(value)) else {
            violations.invalid(name, "is not correctly percent-encoded");
            continue;
        };
        let covered = path.iter().any(|(bound, _)| *bound == name)
            || match &route.body {
                Body::None => false,
                Body::Whole => true,
                Body::Field(field) => name == *field || name.starts_with(&format!("{field}.")),
            };
        let kind = field_by_path(&route.method.input(), &name);
        let Some(field) = kind.filter(|_| !covered) else {
            violations.add(
                ErrorReason::FieldUnknown,
                &name,
                query_rule(route, &name, covered),
            );
            continue;
        };
        if !seen.insert(name.clone()) && !field.is_list() {
            violations.invalid(&name, "is given more than once");
            continue;
        }
        match query_value(&field, &value) {
            Ok(value) => {
                if let Some((owner, field)) = locate(message, &name) {
                    match value {
                        Value::List(mut items) => {
                            if let Some(list) = owner.get_field_mut(&field).as_list_mut() {
                                list.append(&mut items);
                            }
                        }
                        single => owner.set_field(&field, single),
                    }
                }
            }
            Err(rule) => violations.invalid(&name, rule),
        }
    }
}

fn query_rule(route: &Route, name: &str, covered: bool) -> String {
    if covered && field_by_path(&route.method.input(), name).is_some() {
        "must not be given in the query".to_owned()
    } else {
        unknown_rule(&route.method.input(), name).replace("known field", "known query parameter")
    }
}

fn query_value(field: &FieldDescriptor, text: &str) -> Result<Value, String> {
    let kind = field.kind();
    if field.is_list() {
        return scalar_from_text(&kind, text).map(|value| Value::List(vec![value]));
    }
    match &kind {
        Kind::Message(descriptor) if descriptor.full_name() == "google.protobuf.FieldMask" => {
            Ok(Value::Message(mask(descriptor, text.split(','))))
        }
        Kind::Message(descriptor) if descriptor.full_name().starts_with("google.protobuf.") => {
            let mut violations = Violations::default();
            let message = read_message(
                descriptor,
                &Json::String(text.to_owned()),
                field.name(),
                &mut violations,
            );
            match violations.into_result() {
                Ok(()) => Ok(Value::Message(message)),
                Err(error) => Err(error
                    .violations()
                    .first()
                    .map(|(_, rule)| rule.clone())
                    .unwrap_or_default()),
            }
        }
        kind => scalar_from_text(kind, text),
    }
}

/// The field at a path, when a query parameter may set it.
fn field_by_path(descriptor: &MessageDescriptor, path: &str) -> Option<FieldDescriptor> {
    let mut message = descriptor.clone();
    let mut parts = path.split('.').peekable();
    while let Some(part) = parts.next() {
        let field = message.get_field_by_name(part)?;
        if parts.peek().is_none() {
            let settable = match field.kind() {
                Kind::Message(inner) => {
                    !field.is_list()
                        && !field.is_map()
                        && inner.full_name().starts_with("google.protobuf.")
                }
                _ => !field.is_map(),
            };
            return settable.then_some(field);
        }
        if field.is_list() || field.is_map() {
            return None;
        }
        message = field.kind().as_message()?.clone();
    }
    None
}

fn decode_query(text: &str) -> Option<String> {
    percent_decode(&text.replace('+', " "))
}

/// A PATCH without a mask changes exactly the fields that its body has (AIP-134).
fn imply_update_mask(route: &Route, message: &mut DynamicMessage, body: Option<&Json>) {
    let Some(field) = message.descriptor().get_field_by_name("update_mask") else {
        return;
    };
    let Kind::Message(descriptor) = field.kind() else {
        return;
    };
    if message.has_field(&field) {
        return;
    }
    let (Body::Field(name), Some(body)) = (&route.body, body) else {
        return;
    };
    let Some(resource) = message
        .descriptor()
        .get_field_by_name(name)
        .and_then(|f| f.kind().as_message().cloned())
    else {
        return;
    };
    let mut paths = Vec::new();
    leaf_paths(&resource, body, "", &mut paths);
    message.set_field(
        &field,
        Value::Message(mask(&descriptor, paths.iter().map(String::as_str))),
    );
}

fn leaf_paths(descriptor: &MessageDescriptor, json: &Json, path: &str, out: &mut Vec<String>) {
    let Json::Object(fields) = json else { return };
    for (name, value) in fields {
        let Some(field) = descriptor.get_field_by_name(name) else {
            continue;
        };
        let here = join(path, name);
        match field.kind() {
            Kind::Message(inner)
                if !field.is_list()
                    && !field.is_map()
                    && matches!(value, Json::Object(_))
                    && !inner.full_name().starts_with("google.protobuf.") =>
            {
                leaf_paths(&inner, value, &here, out);
            }
            _ => out.push(here),
        }
    }
}

fn mask<'a>(
    descriptor: &MessageDescriptor,
    paths: impl Iterator<Item = &'a str>,
) -> DynamicMessage {
    let mut message = DynamicMessage::new(descriptor.clone());
    let paths = paths
        .filter(|p| !p.is_empty())
        .map(|p| Value::String(p.trim().to_owned()))
        .collect();
    message.set_field_by_name("paths", Value::List(paths));
    message
}
