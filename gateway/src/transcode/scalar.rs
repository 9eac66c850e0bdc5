//! One scalar from JSON or from text (path, query), with the rule it breaks when it cannot be.
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use gpuaas_proto::words::{enum_number, enum_value_names};
use prost_reflect::{Kind, MapKey, Value};

use crate::json::Json;

/// Reads a scalar of a kind from JSON; `Err` is the broken rule.
///
/// # Errors
/// The rule, for the field's violation.
pub fn scalar_from_json(kind: &Kind, json: &Json) -> Result<Value, String> {
    match (kind, json) {
        (Kind::Bool, Json::Bool(b)) => Ok(Value::Bool(*b)),
        (Kind::String | Kind::Bytes | Kind::Enum(_), Json::String(s)) => scalar_from_text(kind, s),
        (Kind::Double | Kind::Float, Json::Number(n)) => {
            let number = n.as_f64().ok_or_else(|| expected(kind))?;
            Ok(if matches!(kind, Kind::Float) {
                Value::F32(number as f32)
            } else {
                Value::F64(number)
            })
        }
        (
            Kind::Bool
            | Kind::String
            | Kind::Bytes
            | Kind::Enum(_)
            | Kind::Double
            | Kind::Float
            | Kind::Message(_),
            other,
        ) => Err(format!("{}, not {}", expected(kind), other.kind())),
        (_, Json::Number(n)) => integer(
            kind,
            &whole_number(n).ok_or_else(|| expected(kind))?.to_string(),
        ),
        (_, Json::String(s)) => integer(kind, s),
        (_, other) => Err(format!("{}, not {}", expected(kind), other.kind())),
    }
}

/// Reads a scalar of a kind from a path segment or a query parameter.
///
/// # Errors
/// The rule, for the field's violation.
pub fn scalar_from_text(kind: &Kind, text: &str) -> Result<Value, String> {
    match kind {
        Kind::Bool => match text {
            "true" => Ok(Value::Bool(true)),
            "false" => Ok(Value::Bool(false)),
            _ => Err(expected(kind)),
        },
        // PostgreSQL text cannot hold it, and nothing we name needs it
        Kind::String if text.contains('\0') => Err("must not contain the NUL character".to_owned()),
        Kind::String => Ok(Value::String(text.to_owned())),
        Kind::Bytes => STANDARD
            .decode(text)
            .or_else(|_| URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')))
            .map(|bytes| Value::Bytes(bytes.into()))
            .map_err(|_| expected(kind)),
        Kind::Enum(descriptor) => enum_number(descriptor, text)
            .map(Value::EnumNumber)
            .ok_or_else(|| expected(kind)),
        Kind::Double => finite(text).map(Value::F64).ok_or_else(|| expected(kind)),
        Kind::Float => finite(text)
            .map(|f| Value::F32(f as f32))
            .ok_or_else(|| expected(kind)),
        Kind::Message(_) => Err("must be an object in the body".to_owned()),
        _ => integer(kind, text),
    }
}

/// Reads a map key, which JSON always writes as a string.
///
/// # Errors
/// The rule, for the field's violation.
pub fn map_key(kind: &Kind, text: &str) -> Result<MapKey, String> {
    scalar_from_text(kind, text)?
        .into_map_key()
        .ok_or_else(|| expected(kind))
}

fn finite(text: &str) -> Option<f64> {
    text.parse::<f64>().ok().filter(|f| f.is_finite())
}

/// Proto JSON takes `1.0` for an integer; a fraction or more than a double holds exactly is refused.
fn whole_number(number: &serde_json::Number) -> Option<i128> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if let Some(i) = number.as_i64() {
        return Some(i.into());
    }
    if let Some(u) = number.as_u64() {
        return Some(u.into());
    }
    let float = number.as_f64()?;
    (float.fract() == 0.0 && float.abs() <= EXACT).then_some(float as i128)
}

fn integer(kind: &Kind, text: &str) -> Result<Value, String> {
    // "+5" and "" parse in no mapping we know; Rust accepts the first
    let plain = !text.starts_with('+');
    let value = match kind {
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => text.parse().ok().map(Value::I32),
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => text.parse().ok().map(Value::I64),
        Kind::Uint32 | Kind::Fixed32 => text.parse().ok().map(Value::U32),
        Kind::Uint64 | Kind::Fixed64 => text.parse().ok().map(Value::U64),
        _ => None,
    };
    value.filter(|_| plain).ok_or_else(|| expected(kind))
}

fn expected(kind: &Kind) -> String {
    match kind {
        Kind::Bool => "must be true or false".to_owned(),
        Kind::String => "must be a string".to_owned(),
        Kind::Bytes => "must be a base64 string".to_owned(),
        Kind::Double | Kind::Float => "must be a number".to_owned(),
        Kind::Enum(descriptor) => {
            format!("must be one of {}", enum_value_names(descriptor).join(", "))
        }
        Kind::Uint32 | Kind::Fixed32 => format!("must be a whole number from 0 to {}", u32::MAX),
        Kind::Uint64 | Kind::Fixed64 => format!("must be a whole number from 0 to {}", u64::MAX),
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => {
            format!("must be a whole number from {} to {}", i32::MIN, i32::MAX)
        }
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => {
            format!("must be a whole number from {} to {}", i64::MIN, i64::MAX)
        }
        Kind::Message(_) => "must be an object".to_owned(),
    }
}
