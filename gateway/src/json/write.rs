//! Messages into JSON. Scalars, enums, lists and maps are always written, so a reader never has to know
//! defaults; messages and `optional` fields only when set, so that absent means absent.
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gpuaas_proto::words::enum_value_name;
use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MapKey, ReflectMessage as _, Value};
use prost_types::Any;

use super::Json;

/// Whether unset scalars, enums, lists and maps are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defaults {
    /// Write them.
    Write,
    /// Leave them out, as inside error details.
    Omit,
}

/// Writes a message.
pub fn write_message(message: &DynamicMessage, defaults: Defaults) -> Json {
    let descriptor = message.descriptor();
    if descriptor.full_name() == "google.protobuf.Any" {
        let any: Any = message.transcode_to().unwrap_or_default();
        return write_any(&any);
    }
    if descriptor.full_name().starts_with("google.protobuf.") {
        return serde_json::to_value(message).map_or(Json::Null, Into::into);
    }
    let all = descriptor.fields();
    let mut fields = Vec::with_capacity(all.len());
    for field in all {
        if message.has_field(&field) || (defaults == Defaults::Write && !field.supports_presence())
        {
            fields.push((
                field.name().to_owned(),
                write_field(&field, message.get_field(&field).as_ref(), defaults),
            ));
        }
    }
    Json::Object(fields)
}

/// Writes an `Any` with its `@type`; one of an unknown type keeps its bytes in base64.
pub fn write_any(any: &Any) -> Json {
    let mut fields = vec![("@type".to_owned(), Json::String(any.type_url.clone()))];
    let name = any.type_url.rsplit('/').next().unwrap_or_default();
    let decoded = gpuaas_proto::pool()
        .get_message_by_name(name)
        .and_then(|descriptor| DynamicMessage::decode(descriptor, any.value.as_slice()).ok());
    match decoded.map(|message| write_message(&message, Defaults::Omit)) {
        Some(Json::Object(inner)) => fields.extend(inner),
        Some(other) => fields.push(("value".to_owned(), other)),
        None => fields.push((
            "value".to_owned(),
            Json::String(STANDARD.encode(&any.value)),
        )),
    }
    Json::Object(fields)
}

fn write_field(field: &FieldDescriptor, value: &Value, defaults: Defaults) -> Json {
    match value {
        Value::List(items) => Json::List(
            items
                .iter()
                .map(|item| write_value(&field.kind(), item, defaults))
                .collect(),
        ),
        Value::Map(entries) => {
            let kind = field.kind();
            let value_kind = kind.as_message().map(|m| m.map_entry_value_field().kind());
            let mut written: Vec<(String, Json)> = entries
                .iter()
                .map(|(key, value)| {
                    (
                        key_text(key),
                        value_kind
                            .as_ref()
                            .map_or(Json::Null, |k| write_value(k, value, defaults)),
                    )
                })
                .collect();
            // a map has no order; sorted, equal answers are equal bytes
            written.sort_by(|a, b| a.0.cmp(&b.0));
            Json::Object(written)
        }
        single => write_value(&field.kind(), single, defaults),
    }
}

fn write_value(kind: &Kind, value: &Value, defaults: Defaults) -> Json {
    match value {
        Value::Bool(b) => Json::Bool(*b),
        Value::I32(i) => Json::Number((*i).into()),
        Value::U32(u) => Json::Number((*u).into()),
        // 64-bit numbers are strings: a JavaScript number would round them
        Value::I64(i) => Json::String(i.to_string()),
        Value::U64(u) => Json::String(u.to_string()),
        Value::F32(f) => float(f64::from(*f)),
        Value::F64(f) => float(*f),
        Value::String(s) => Json::String(s.clone()),
        Value::Bytes(bytes) => Json::String(STANDARD.encode(bytes)),
        Value::EnumNumber(number) => match kind.as_enum().and_then(|d| d.get_value(*number)) {
            Some(known) => Json::String(enum_value_name(&known)),
            // a newer service may know more values than this gateway
            None => Json::Number((*number).into()),
        },
        Value::Message(message) => write_message(message, defaults),
        Value::List(_) | Value::Map(_) => Json::Null,
    }
}

fn float(value: f64) -> Json {
    serde_json::Number::from_f64(value)
        .map_or_else(|| Json::String(value.to_string()), Json::Number)
}

fn key_text(key: &MapKey) -> String {
    match key {
        MapKey::Bool(b) => b.to_string(),
        MapKey::I32(i) => i.to_string(),
        MapKey::I64(i) => i.to_string(),
        MapKey::U32(u) => u.to_string(),
        MapKey::U64(u) => u.to_string(),
        MapKey::String(s) => s.clone(),
    }
}
