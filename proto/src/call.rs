//! The calls of the HTTP API: the request message of a method knows the method's address and the type of its answer.
use prost::Name;
use serde_json::{Map, Value};

use crate::json::{Enumeration, to_json};

/// A call of a method that has an HTTP rule.
pub trait Call {
    /// Its request message: itself, unless several methods have the same one.
    type Request: Name;
    /// The message of its answer, or of each line of it.
    type Response: Name + Default;
    /// The full name of the method.
    const METHOD: &'static str;
    /// The HTTP method.
    const VERB: &'static str;
    /// The template of the path, with fields of the request in braces.
    const PATH: &'static str;
    /// What of the request the body has: `*` for all that is not in the path, the name of a field, or nothing.
    const BODY: &'static str;

    /// The request.
    fn message(&self) -> &Self::Request;
}

/// A call with one answer.
pub trait Unary: Call {}

/// A call whose answer is a stream of lines.
pub trait Streaming: Call {}

/// What is sent for a call.
#[derive(Clone, Debug, PartialEq)]
pub struct HttpRequest {
    /// The HTTP method.
    pub verb: &'static str,
    /// The path: its segments, which are not percent-encoded.
    pub path: Vec<String>,
    /// The parameters of the query, which are not percent-encoded.
    pub query: Vec<(String, String)>,
    /// The body.
    pub body: Option<Value>,
}

/// The HTTP request of a call.
pub fn http_request<C: Call>(call: &C) -> HttpRequest {
    let Value::Object(mut fields) = to_json(call.message()) else {
        unreachable!("a message is an object");
    };
    let mut segment = |template: &str| match template.split_once('{') {
        None => template.to_owned(),
        Some((before, rest)) => {
            let (field, after) = rest.split_once('}').unwrap_or((rest, ""));
            format!("{before}{}{after}", taken(&mut fields, field))
        }
    };
    let path = C::PATH.trim_start_matches('/').split('/');
    let path = path.map(&mut segment).collect();
    let body = match C::BODY {
        "" => None,
        "*" => Some(Value::Object(std::mem::take(&mut fields))),
        field => Some(
            fields
                .shift_remove(field)
                .unwrap_or(Value::Object(Map::new())),
        ),
    };
    let mut query = Vec::new();
    for (name, value) in fields {
        parameters(name, value, &mut query);
    }
    HttpRequest {
        verb: C::VERB,
        path,
        query,
        body,
    }
}

/// The field of the path, which nothing else then has.
fn taken(fields: &mut Map<String, Value>, path: &str) -> String {
    match path.split_once('.') {
        None => fields.shift_remove(path).map(text).unwrap_or_default(),
        Some((outer, inner)) => match fields.get_mut(outer) {
            Some(Value::Object(fields)) => taken(fields, inner),
            _ => String::new(),
        },
    }
}

/// A field as parameters: a list has one per item, a message one per field, with a dot before its name.
fn parameters(name: String, value: Value, query: &mut Vec<(String, String)>) {
    match value {
        Value::Array(items) => items
            .into_iter()
            .for_each(|item| parameters(name.clone(), item, query)),
        Value::Object(fields) => fields
            .into_iter()
            .for_each(|(field, value)| parameters(format!("{name}.{field}"), value, query)),
        one => query.push((name, text(one))),
    }
}

fn text(value: Value) -> String {
    match value {
        Value::String(text) => text,
        other => other.to_string(),
    }
}

macro_rules! enumeration {
    ($of:ty) => {
        impl Enumeration for $of {
            fn contract_name(self) -> &'static str {
                self.as_str_name()
            }

            fn of_contract_name(name: &str) -> Option<Self> {
                Self::from_str_name(name)
            }
        }
    };
}

include!(concat!(env!("OUT_DIR"), "/calls.rs"));

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::gpuaas::allocation::v1::{
        CreateAllocationRequest, GetAllocationRequest, ListAllocationsRequest,
        StopAllocationRequest,
    };

    #[test]
    fn a_call_has_the_address_of_its_method() {
        let stop = StopAllocationRequest {
            allocation_id: "a/b".to_owned(),
            force: true,
        };
        let sent = http_request(&stop);
        assert_eq!(sent.verb, "POST");
        assert_eq!(sent.path, ["api", "v1", "allocations", "a/b:stop"]);
        assert_eq!(
            (sent.query, sent.body),
            (Vec::new(), Some(json!({ "force": true })))
        );
        let get = http_request(&GetAllocationRequest {
            allocation_id: "a".to_owned(),
        });
        assert_eq!((get.verb, get.body), ("GET", None));
        let list = http_request(&ListAllocationsRequest {
            project_id: "p".to_owned(),
            include_ended: true,
            ..ListAllocationsRequest::default()
        });
        let expected = [("project_id", "p"), ("include_ended", "true")];
        assert_eq!(
            list.query,
            expected.map(|(name, value)| (name.to_owned(), value.to_owned()))
        );
        let launch = http_request(&CreateAllocationRequest::default());
        assert_eq!(launch.body, Some(json!({})));
    }

    #[test]
    fn every_path_is_below_the_version() {
        let code = include_str!(concat!(env!("OUT_DIR"), "/calls.rs"));
        let paths = code.lines().filter(|line| line.contains("const PATH"));
        assert!(paths.clone().count() > 100);
        assert!(paths.clone().all(|line| line.contains("\"/api/v1/")));
    }
}
