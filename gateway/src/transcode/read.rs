//! JSON into messages. Every problem is collected with its field path, so one answer names all of them.
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use prost_reflect::{
    DynamicMessage, FieldDescriptor, Kind, MessageDescriptor, ReflectMessage as _, Value,
};
use tonic::Code;

use super::scalar::{map_key, scalar_from_json};
use crate::contract::access::behavior_of;
use crate::error::ApiError;
use crate::json::Json;

/// More than this many are not listed: an answer stays readable whatever was sent.
const MAX_VIOLATIONS: usize = 20;

/// The problems found in one request.
#[derive(Debug, Default)]
pub struct Violations {
    found: Vec<(ErrorReason, String, String)>,
}

impl Violations {
    /// Adds one.
    pub fn add(&mut self, reason: ErrorReason, field: impl Into<String>, rule: impl Into<String>) {
        if self.found.len() < MAX_VIOLATIONS {
            self.found.push((reason, field.into(), rule.into()));
        }
    }

    /// Adds a field that breaks a rule.
    pub fn invalid(&mut self, field: impl Into<String>, rule: impl Into<String>) {
        self.add(ErrorReason::FieldInvalid, field, rule);
    }

    /// `Ok` when nothing was found; otherwise one error, whose reason is that of the first problem.
    ///
    /// # Errors
    /// The problems.
    pub fn into_result(self) -> Result<(), ApiError> {
        let Some((reason, field, rule)) = self.found.first() else {
            return Ok(());
        };
        let more = match self.found.len() {
            1 => String::new(),
            n => format!(" ({} more)", n - 1),
        };
        let error = ApiError::new(
            Code::InvalidArgument,
            *reason,
            format!("{field}: {rule}{more}."),
        );
        Err(self.found.iter().fold(error, |error, (_, field, rule)| {
            error.violation(field.clone(), rule.clone())
        }))
    }
}

/// Joins a field path.
pub fn join(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}.{name}")
    }
}

/// Reads a message; problems go to `violations` and leave their field unset.
pub fn read_message(
    descriptor: &MessageDescriptor,
    json: &Json,
    path: &str,
    violations: &mut Violations,
) -> DynamicMessage {
    let mut message = DynamicMessage::new(descriptor.clone());
    if descriptor.full_name().starts_with("google.protobuf.") {
        match well_known(descriptor, json) {
            Ok(known) => message = known,
            Err(rule) => violations.invalid(path, rule),
        }
        return message;
    }
    let Json::Object(fields) = json else {
        violations.invalid(path, format!("must be an object, not {}", json.kind()));
        return message;
    };
    let mut seen = HashSet::new();
    let mut oneofs: HashMap<String, String> = HashMap::new();
    for (name, value) in fields {
        let field_path = join(path, name);
        if !seen.insert(name.as_str()) {
            violations.invalid(field_path, "is given more than once");
            continue;
        }
        let Some(field) = descriptor.get_field_by_name(name) else {
            violations.add(
                ErrorReason::FieldUnknown,
                field_path,
                unknown_rule(descriptor, name),
            );
            continue;
        };
        // what only the server sets is ignored, so that a resource that was read can be written back
        if matches!(value, Json::Null) || behavior_of(&field).output_only {
            continue;
        }
        if let Some(oneof) = field.containing_oneof().filter(|o| !o.is_synthetic())
            && let Some(other) = oneofs.insert(oneof.name().to_owned(), name.clone())
        {
            violations.invalid(
                field_path,
                format!("must not be given together with {other}"),
            );
            continue;
        }
        read_field(&mut message, &field, value, &field_path, violations);
    }
    message
}

/// The rule for a name that the message does not have.
pub fn unknown_rule(descriptor: &MessageDescriptor, name: &str) -> String {
    match descriptor.get_field_by_json_name(name) {
        Some(field) => format!("is not a known field; did you mean {}?", field.name()),
        None => "is not a known field".to_owned(),
    }
}

fn read_field(
    message: &mut DynamicMessage,
    field: &FieldDescriptor,
    json: &Json,
    path: &str,
    violations: &mut Violations,
) {
    let value = if field.is_map() {
        read_map(field, json, path, violations)
    } else if field.is_list() {
        read_list(field, json, path, violations)
    } else {
        read_value(&field.kind(), json, path, violations)
    };
    if let Some(value) = value {
        message.set_field(field, value);
    }
}

fn read_value(kind: &Kind, json: &Json, path: &str, violations: &mut Violations) -> Option<Value> {
    if let Kind::Message(descriptor) = kind {
        return Some(Value::Message(read_message(
            descriptor, json, path, violations,
        )));
    }
    match scalar_from_json(kind, json) {
        Ok(value) => Some(value),
        Err(rule) => {
            violations.invalid(path, rule);
            None
        }
    }
}

fn read_list(
    field: &FieldDescriptor,
    json: &Json,
    path: &str,
    violations: &mut Violations,
) -> Option<Value> {
    let Json::List(items) = json else {
        violations.invalid(path, format!("must be a list, not {}", json.kind()));
        return None;
    };
    let kind = field.kind();
    let values = items
        .iter()
        .enumerate()
        .filter_map(|(i, item)| read_value(&kind, item, &format!("{path}[{i}]"), violations));
    Some(Value::List(values.collect()))
}

fn read_map(
    field: &FieldDescriptor,
    json: &Json,
    path: &str,
    violations: &mut Violations,
) -> Option<Value> {
    let Json::Object(entries) = json else {
        violations.invalid(path, format!("must be an object, not {}", json.kind()));
        return None;
    };
    let entry = field.kind().as_message()?.clone();
    let (key_kind, value_kind) = (
        entry.map_entry_key_field().kind(),
        entry.map_entry_value_field().kind(),
    );
    let mut map = HashMap::new();
    for (name, value) in entries {
        let entry_path = join(path, name);
        let key = match map_key(&key_kind, name) {
            Ok(key) => key,
            Err(rule) => {
                violations.invalid(entry_path, format!("key {rule}"));
                continue;
            }
        };
        match map.entry(key) {
            Entry::Occupied(_) => violations.invalid(entry_path, "is given more than once"),
            Entry::Vacant(free) => {
                if let Some(value) = read_value(&value_kind, value, &entry_path, violations) {
                    free.insert(value);
                }
            }
        }
    }
    Some(Value::Map(map))
}

/// Timestamps, durations, masks and structs in their own JSON form.
fn well_known(descriptor: &MessageDescriptor, json: &Json) -> Result<DynamicMessage, String> {
    let text = json.to_text();
    let mut reader = serde_json::Deserializer::from_str(&text);
    DynamicMessage::deserialize(descriptor.clone(), &mut reader).map_err(|_| {
        match descriptor.name() {
            "Timestamp" => "must be an RFC 3339 time such as 2026-01-31T12:00:00Z".to_owned(),
            "Duration" => "must be a number of seconds such as 1.5s".to_owned(),
            "FieldMask" => "must be a comma-separated list of fields".to_owned(),
            other => format!("must be a valid {other}"),
        }
    })
}

/// Adds a violation for every REQUIRED field that is unset, also inside messages that are set.
///
/// A boolean has no "unset" on the wire, so REQUIRED on one demands nothing.
pub fn check_required(message: &DynamicMessage, path: &str, violations: &mut Violations) {
    for field in message.descriptor().fields() {
        let field_path = join(path, field.name());
        if !message.has_field(&field) {
            if behavior_of(&field).required && !matches!(field.kind(), Kind::Bool) {
                let rule = match field.kind() {
                    // 0 is what an absent number looks like
                    Kind::Uint32 | Kind::Uint64 if !field.is_list() => {
                        "is required and must be at least 1"
                    }
                    _ => "is required",
                };
                violations.add(ErrorReason::FieldRequired, field_path, rule);
            }
            continue;
        }
        match message.get_field(&field).as_ref() {
            Value::Message(inner) => check_required(inner, &field_path, violations),
            Value::List(items) => {
                for (i, item) in items.iter().enumerate() {
                    if let Value::Message(inner) = item {
                        check_required(inner, &format!("{field_path}[{i}]"), violations);
                    }
                }
            }
            _ => {}
        }
    }
}
