//! `read_mask`: which fields of an answer the caller wants, as paths with commas between them.
use std::collections::BTreeMap;

use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use prost_reflect::MessageDescriptor;
use tonic::Code;

use crate::error::ApiError;
use crate::json::Json;

/// Its name among the parameters of a query.
pub const READ_MASK: &str = "read_mask";

/// Longest mask, in characters.
pub const MAX_CHARS: usize = 2000;

/// The fields of a message that are wanted; of one without fields of its own here, all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mask(BTreeMap<String, Mask>);

/// Takes the mask out of a query: what is left of it, and the fields of `answer` that are wanted.
///
/// # Errors
/// `FIELD_INVALID` that names the path which is none; a mask that is given twice or is too long.
pub fn take(
    query: Option<&str>,
    answer: &MessageDescriptor,
) -> Result<(Option<String>, Option<Mask>), ApiError> {
    let Some(query) = query else {
        return Ok((None, None));
    };
    let is_mask = |pair: &&str| {
        let name = pair.split('=').next().unwrap_or_default();
        name == READ_MASK
    };
    let (masks, rest): (Vec<&str>, Vec<&str>) = query.split('&').partition(is_mask);
    let given = match masks.as_slice() {
        [] => return Ok((Some(query.to_owned()), None)),
        [one] => one,
        _ => return Err(wrong("may be given once".to_owned())),
    };
    let mut pairs = url::form_urlencoded::parse(given.as_bytes());
    let text = pairs.next().map(|(_, value)| value.into_owned());
    let text = text.filter(|text| !text.is_empty());
    let mask = text.map(|text| Mask::parse(&text, answer)).transpose()?;
    let rest = Some(rest.join("&")).filter(|rest| !rest.is_empty());
    Ok((rest, mask))
}

fn wrong(rule: String) -> ApiError {
    ApiError::new(
        Code::InvalidArgument,
        ErrorReason::FieldInvalid,
        format!("{READ_MASK}: {rule}."),
    )
    .violation(READ_MASK, rule)
}

impl Mask {
    fn parse(text: &str, answer: &MessageDescriptor) -> Result<Self, ApiError> {
        if text.chars().count() > MAX_CHARS {
            return Err(wrong(format!("must be at most {MAX_CHARS} characters")));
        }
        let mut mask = Self::default();
        for path in text.split(',') {
            mask.add(path.trim(), answer)?;
        }
        Ok(mask)
    }

    fn add(&mut self, path: &str, answer: &MessageDescriptor) -> Result<(), ApiError> {
        let names = known(path, answer)?;
        let mut here = self;
        for name in names {
            let known = here.0.contains_key(name);
            here = here.0.entry(name.to_owned()).or_default();
            // the whole field is wanted already
            if known && here.0.is_empty() {
                return Ok(());
            }
        }
        // the whole field, whatever of it was named before
        here.0.clear();
        Ok(())
    }

    /// Leaves of a message, or of each in a list, what is wanted.
    pub fn prune(&self, json: &mut Json) {
        if self.0.is_empty() {
            return;
        }
        match json {
            Json::Object(entries) => {
                entries.retain(|(name, _)| self.0.contains_key(name));
                for (name, value) in entries {
                    if let Some(mask) = self.0.get(name) {
                        mask.prune(value);
                    }
                }
            }
            Json::List(list) => list.iter_mut().for_each(|one| self.prune(one)),
            _ => {}
        }
    }
}

/// The names of a path that leads to a field.
fn known<'a>(path: &'a str, answer: &MessageDescriptor) -> Result<Vec<&'a str>, ApiError> {
    let mut message = Some(answer.clone());
    let names: Vec<&str> = path.split('.').collect();
    for name in &names {
        let Some(of) = message else {
            return Err(wrong(format!(
                "{path:?}: there is nothing to choose below what comes before {name:?}"
            )));
        };
        let Some(field) = of.get_field_by_name(name) else {
            let all: Vec<_> = of.fields().map(|field| field.name().to_owned()).collect();
            let all = all.join(", ");
            return Err(wrong(format!(
                "{path:?}: there is no field {name:?}; there are {all}"
            )));
        };
        message = match field.kind().as_message() {
            Some(inner) if !field.is_map() && !is_well_known(inner) => Some(inner.clone()),
            _ => None,
        };
    }
    Ok(names)
}

/// It has a JSON form of its own.
fn is_well_known(message: &MessageDescriptor) -> bool {
    message.full_name().starts_with("google.protobuf.")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list() -> MessageDescriptor {
        let name = "gpuaas.allocation.v1.ListAllocationsResponse";
        let found = gpuaas_proto::pool().get_message_by_name(name);
        found.expect("the contract has it")
    }

    fn kept(query: &str) -> String {
        let (_, mask) = take(Some(query), &list()).expect("a mask");
        let body = r#"{"allocations":[{"id":"a","config":{"name":"x","sku":"s","region_code":"r"},
            "metadata":{"labels":{"team":"ml","id":"7"},"revision":"3"}},{"id":"b","config":{"name":"y"}}],"next_page_token":"t"}"#;
        let mut json = Json::parse(body.as_bytes()).expect("JSON");
        mask.expect("given").prune(&mut json);
        json.to_text()
    }

    #[test]
    fn what_a_mask_names_stays_in_each_row_and_in_its_order() {
        for (query, expected) in [
            ("read_mask=next_page_token", r#"{"next_page_token":"t"}"#),
            (
                "read_mask=allocations.config.name,allocations.id",
                r#"{"allocations":[{"id":"a","config":{"name":"x"}},{"id":"b","config":{"name":"y"}}]}"#,
            ),
            (
                "page_size=2&read_mask=allocations.metadata.labels%2C%20next_page_token",
                r#"{"allocations":[{"metadata":{"labels":{"team":"ml","id":"7"}}},{}],"next_page_token":"t"}"#,
            ),
            // a whole field and a part of it are the whole, in either order
            (
                "read_mask=allocations.config.name,allocations.config",
                r#"{"allocations":[{"config":{"name":"x","sku":"s","region_code":"r"}},{"config":{"name":"y"}}]}"#,
            ),
            (
                "read_mask=allocations.config,allocations.config.name",
                r#"{"allocations":[{"config":{"name":"x","sku":"s","region_code":"r"}},{"config":{"name":"y"}}]}"#,
            ),
        ] {
            assert_eq!(kept(query), expected, "{query}");
        }
    }

    #[test]
    fn a_mask_is_taken_out_of_the_query_and_nothing_else() {
        for (query, rest) in [
            ("read_mask=allocations", None),
            ("a=1&read_mask=allocations&b=%26", Some("a=1&b=%26")),
            ("read_mask=", None),
            ("a=read_mask", Some("a=read_mask")),
            ("read_mask_of=a", Some("read_mask_of=a")),
        ] {
            let (left, mask) = take(Some(query), &list()).expect("taken");
            assert_eq!(left.as_deref(), rest, "{query}");
            assert_eq!(mask.is_some(), query.contains("read_mask=all"), "{query}");
        }
    }

    #[test]
    fn what_is_no_path_of_the_answer_is_refused_by_name() {
        let long = format!("read_mask={}", "a".repeat(MAX_CHARS + 1));
        for (query, expected) in [
            (
                "read_mask=,",
                "there is no field \"\"; there are allocations, next_page_token",
            ),
            ("read_mask=allocations,", "there is no field \"\""),
            ("read_mask=*", "there is no field \"*\""),
            ("read_mask=id", "there is no field \"id\""),
            ("read_mask=allocations.ID", "there is no field \"ID\""),
            (
                "read_mask=allocations,allocations.colour",
                "there is no field \"colour\"",
            ),
            ("read_mask=allocations.id.x", "nothing to choose below"),
            (
                "read_mask=allocations.metadata.labels.team",
                "nothing to choose below",
            ),
            (
                "read_mask=allocations.metadata.create_time.seconds",
                "nothing to choose below",
            ),
            (
                "read_mask=allocations&read_mask=allocations",
                "may be given once",
            ),
            (&long, "must be at most 2000 characters"),
        ] {
            let error = take(Some(query), &list()).expect_err(query);
            assert_eq!(error.reason(), "FIELD_INVALID");
            let text = error.message();
            assert!(text.contains(expected), "{query}: {text}");
        }
    }
}
