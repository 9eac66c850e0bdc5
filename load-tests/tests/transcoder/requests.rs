//! A message as a request by its route.
use gpuaas_gateway::contract::route::{Body as Bound, Route};
use gpuaas_gateway::contract::template::Segment;
use http::Method;
use prost_reflect::{DynamicMessage, ReflectMessage as _, SerializeOptions, Value};
use serde_json::{Value as Json, json};

use crate::chance::{Chance, DEPTH};

pub struct Requested {
    pub method: Method,
    pub target: String,
    pub body: Option<String>,
}

pub fn proto_json(message: &DynamicMessage) -> Json {
    let options = SerializeOptions::new().use_proto_field_name(true);
    message
        .serialize_with_options(serde_json::value::Serializer, &options)
        .expect("JSON")
}

fn escaped(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                char::from(byte).to_string()
            }
            _ => format!("%{byte:02X}"),
        })
        .collect()
}

fn text(json: &Json) -> String {
    match json {
        Json::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Takes a field out of an object by its path.
fn take(json: &mut Json, path: &str) -> Option<Json> {
    let object = json.as_object_mut()?;
    match path.split_once('.') {
        Some((first, rest)) => take(object.get_mut(first)?, rest),
        None => object.remove(path),
    }
}

fn parameters(prefix: &str, json: &Json, out: &mut Vec<String>) {
    match json {
        Json::Object(fields) => {
            for (name, value) in fields {
                let name = match prefix {
                    "" => name.clone(),
                    prefix => format!("{prefix}.{name}"),
                };
                parameters(&name, value, out);
            }
        }
        Json::Array(list) => list.iter().for_each(|one| parameters(prefix, one, out)),
        value => out.push(format!("{prefix}={}", escaped(&text(value)))),
    }
}

pub fn requested(route: &Route, message: &DynamicMessage) -> Requested {
    let mut json = proto_json(message);
    let mut path = String::new();
    for segment in &route.template.segments {
        path.push('/');
        match segment {
            Segment::Literal(literal) => path.push_str(literal),
            Segment::Variable(field) => {
                let value = take(&mut json, field).expect("set");
                path.push_str(&escaped(&text(&value)));
            }
        }
    }
    if let Some(verb) = &route.template.verb {
        path.push(':');
        path.push_str(verb);
    }
    let body = match &route.body {
        Bound::None => None,
        Bound::Whole => Some(std::mem::replace(&mut json, json!({}))),
        Bound::Field(field) => Some(take(&mut json, field).unwrap_or_else(|| json!({}))),
    };
    let mut query = Vec::new();
    parameters("", &json, &mut query);
    let target = match query.is_empty() {
        true => path,
        false => format!("{path}?{}", query.join("&")),
    };
    Requested {
        method: route.http_method.clone(),
        target,
        body: body.map(|body| body.to_string()),
    }
}

/// A message for a request by this route: with its path variables, and nothing in the query that a query cannot say.
pub fn for_request(route: &Route, chance: &mut Chance) -> DynamicMessage {
    let input = route.method.input();
    let in_query = route.body != Bound::Whole;
    let mut message = chance.message(&input, DEPTH, in_query);
    for variable in route.template.variables() {
        let (owner, name) = match variable.split_once('.') {
            Some((owner, name)) => {
                let field = input.get_field_by_name(owner).expect("a field");
                let inner = message.get_field_mut(&field).as_message_mut();
                (inner.expect("a message"), name)
            }
            None => (&mut message, variable),
        };
        let field = owner.descriptor().get_field_by_name(name).expect("a field");
        let value = chance.value(&field, 0, true);
        owner.set_field(&field, value);
    }
    if let Bound::Field(name) = &route.body {
        let field = input.get_field_by_name(name).expect("a field");
        let value = chance.value(&field, DEPTH, false);
        let mut inner = value.as_message().expect("a message").clone();
        // a variable of the path is in it, too
        if let Some(of_before) = message.get_field(&field).as_message() {
            for variable in route.template.variables() {
                if let Some((_, part)) = variable.split_once('.') {
                    let part = of_before
                        .descriptor()
                        .get_field_by_name(part)
                        .expect("a field");
                    inner.set_field(&part, of_before.get_field(&part).into_owned());
                }
            }
        }
        message.set_field(&field, Value::Message(inner));
    }
    message
}
