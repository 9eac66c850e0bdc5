//! PATCH (RFC 7644, 3.5.2): operations on a resource, as Entra ID and Okta send them, too.
use http::Method;
use serde_json::{Map, Value, json};

use super::apply::at;
use super::error::{Result, ScimError};
use super::filter::{Filter, Operator};
use super::schema::{Attribute, find, is_ignored, without_schema};

/// Most operations of one request.
const MAX_OPERATIONS: usize = 1000;
/// Most values that they name together.
const MAX_VALUES: usize = 1000;
/// Most comparisons that they make together: each looks at all values that its attribute has by then, with each comparison of
/// its filter.
const MAX_COMPARISONS: usize = 1_000_000;

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Add,
    Replace,
    Remove,
}

/// Where an operation does it.
#[derive(Debug)]
pub(super) struct Path {
    pub(super) attribute: String,
    pub(super) filter: Option<Filter>,
    pub(super) sub: Option<String>,
}

impl Path {
    fn parse(text: &str) -> Result<Self> {
        let wrong = || {
            ScimError::bad(
                "invalidPath",
                format!("The path {text:?} is not understood."),
            )
        };
        let plain = without_schema(text).map_or(text, |plain| plain);
        if let Some((attribute, rest)) = plain.split_once('[') {
            let (filter, after) = rest.rsplit_once(']').ok_or_else(wrong)?;
            let sub = match after {
                "" => None,
                after => Some(after.strip_prefix('.').ok_or_else(wrong)?.to_owned()),
            };
            return Ok(Self {
                attribute: attribute.to_owned(),
                filter: Some(Filter::parse(filter)?),
                sub,
            });
        }
        // the dots of a schema's name are none of an attribute's
        let (attribute, sub) = match plain.split_once('.') {
            Some((attribute, sub)) if !plain.contains(':') => (attribute, Some(sub.to_owned())),
            _ => (plain, None),
        };
        if attribute.is_empty() {
            return Err(wrong());
        }
        Ok(Self {
            attribute: attribute.to_owned(),
            filter: None,
            sub,
        })
    }
}

/// What a request does to a resource that there is.
#[derive(Debug)]
pub enum Change<T> {
    /// Removes it.
    Delete,
    /// Changes some of it.
    Patch(Patch),
    /// Puts this in its place.
    Replace(T),
}

impl<T> Change<T> {
    /// Reads a request. What is wrong with it is said before anything is locked for it.
    ///
    /// # Errors
    /// What is wrong.
    pub fn read(
        method: &Method,
        attributes: &'static [Attribute],
        body: &Value,
        replacement: impl FnOnce(&Value) -> Result<T>,
    ) -> Result<Self> {
        if method == Method::DELETE {
            return Ok(Self::Delete);
        }
        if method == Method::PATCH {
            return Patch::parse(attributes, body).map(Self::Patch);
        }
        replacement(body).map(Self::Replace)
    }
}

/// One operation.
#[derive(Debug)]
struct Operation {
    verb: Verb,
    path: Path,
    value: Value,
}

impl Operation {
    /// Removes by its name what a filter chooses by its name alone: so each of many such operations is one more value.
    fn by_name(self) -> Self {
        match self {
            Self {
                verb: Verb::Remove,
                path:
                    Path {
                        attribute,
                        filter: Some(Filter::Compare(name, Operator::Eq, Value::String(text))),
                        sub: None,
                    },
                ..
            } if name == "value" => Self {
                verb: Verb::Remove,
                path: Path {
                    attribute,
                    filter: None,
                    sub: None,
                },
                value: json!([{ "value": text }]),
            },
            other => other,
        }
    }

    /// Whether it adds values, or removes values by their names.
    fn is_of_values(&self) -> bool {
        let Path { filter, sub, .. } = &self.path;
        let adds_or_removes = self.verb != Verb::Replace && !self.value.is_null();
        adds_or_removes && filter.is_none() && sub.is_none()
    }

    /// Whether the next one does the same with more values.
    fn goes_on_with(&self, next: &Self) -> bool {
        self.verb == next.verb
            && self.is_of_values()
            && next.is_of_values()
            && self
                .path
                .attribute
                .eq_ignore_ascii_case(&next.path.attribute)
    }

    /// Does what the next one does, too.
    fn take_over(&mut self, next: Self) {
        let mut values = listed(std::mem::take(&mut self.value));
        values.extend(listed(next.value));
        self.value = Value::Array(values);
    }
}

fn listed(value: Value) -> Vec<Value> {
    match value {
        Value::Array(values) => values,
        one => vec![one],
    }
}

/// The operations of a request.
#[derive(Debug)]
pub struct Patch {
    attributes: &'static [Attribute],
    operations: Vec<Operation>,
    /// Values of all of them.
    values: usize,
}

impl Patch {
    /// Reads the operations of a request, for which the resource need not be known.
    ///
    /// # Errors
    /// What is wrong with the first one that is; there are too many.
    pub fn parse(attributes: &'static [Attribute], request: &Value) -> Result<Self> {
        let operations = member(request, "Operations").and_then(Value::as_array);
        let operations = operations.filter(|all| !all.is_empty()).ok_or_else(|| {
            ScimError::bad(
                "invalidSyntax",
                "Operations must be a list of at least one operation.",
            )
        })?;
        if operations.len() > MAX_OPERATIONS {
            return Err(too_many(format!(
                "At most {MAX_OPERATIONS} operations are taken at once."
            )));
        }
        let mut patch = Self {
            attributes,
            operations: Vec::new(),
            values: 0,
        };
        for operation in operations {
            patch.read(operation)?;
        }
        Ok(patch)
    }

    fn read(&mut self, operation: &Value) -> Result<()> {
        let verb = member(operation, "op").and_then(Value::as_str);
        let verb = match verb.map(str::to_ascii_lowercase).as_deref() {
            Some("add") => Verb::Add,
            Some("replace") => Verb::Replace,
            Some("remove") => Verb::Remove,
            _ => {
                return Err(ScimError::bad(
                    "invalidSyntax",
                    "op must be add, replace or remove.",
                ));
            }
        };
        let value = match member(operation, "value") {
            Some(value) => value,
            None if verb == Verb::Add => {
                return Err(ScimError::invalid_value("value", "is required to add"));
            }
            None => &Value::Null,
        };
        match member(operation, "path") {
            None | Some(Value::Null) => {
                let Value::Object(values) = value else {
                    return Err(match verb {
                        Verb::Remove => ScimError::bad("noTarget", "remove needs a path."),
                        _ => ScimError::invalid_value(
                            "value",
                            "must be an object where there is no path",
                        ),
                    });
                };
                if verb == Verb::Remove {
                    return Err(ScimError::bad("noTarget", "remove needs a path."));
                }
                for (name, value) in values {
                    if !name.eq_ignore_ascii_case("schemas") {
                        self.add(verb, name, value)?;
                    }
                }
                Ok(())
            }
            Some(Value::String(path)) => self.add(verb, path, value),
            Some(_) => Err(ScimError::bad("invalidPath", "path must be a string.")),
        }
    }

    fn add(&mut self, verb: Verb, path: &str, value: &Value) -> Result<()> {
        if is_ignored(path) {
            return Ok(());
        }
        self.values += value.as_array().map_or(1, Vec::len);
        if self.values > MAX_VALUES {
            return Err(too_many(format!(
                "At most {MAX_VALUES} values are taken at once."
            )));
        }
        let next = Operation {
            verb: if value.is_null() { Verb::Remove } else { verb },
            path: Path::parse(path)?,
            value: value.clone(),
        };
        let attribute = find(self.attributes, &next.path.attribute);
        if attribute.is_none_or(|found| !found.multi || found.is_kept_whole()) {
            self.operations.push(next);
            return Ok(());
        }
        let next = next.by_name();
        match self.operations.last_mut() {
            Some(last) if last.goes_on_with(&next) => last.take_over(next),
            _ => self.operations.push(next),
        }
        Ok(())
    }

    /// Applies the operations, in their order, to a resource under the right names of its attributes.
    ///
    /// # Errors
    /// What is wrong with the first one that is.
    pub fn apply(&self, resource: &mut Map<String, Value>) -> Result<()> {
        let mut comparisons = 0;
        for Operation { verb, path, value } in &self.operations {
            let attribute = find(self.attributes, &path.attribute);
            let known = attribute.and_then(|found| resource.get(found.name));
            let values = known.and_then(Value::as_array).map_or(0, Vec::len);
            comparisons += values * path.filter.as_ref().map_or(1, Filter::comparisons);
            if comparisons > MAX_COMPARISONS {
                return Err(too_many(
                    "These are too many operations, or too long filters, for so many values: send them in several requests, with shorter filters.",
                ));
            }
            at(self.attributes, resource, *verb, path, value)?;
        }
        Ok(())
    }
}

fn too_many(detail: impl Into<String>) -> ScimError {
    ScimError::bad("tooMany", detail)
}

/// A member of an object, whatever the case of its name.
pub fn member<'a>(object: &'a Value, name: &str) -> Option<&'a Value> {
    let mut all = object.as_object()?.iter();
    all.find(|(known, _)| known.eq_ignore_ascii_case(name))
        .map(|(_, value)| value)
}

#[cfg(test)]
#[path = "patch_tests.rs"]
mod tests;
