//! What one operation of a PATCH makes of a resource.
use std::collections::HashSet;

use serde_json::{Map, Value};

use super::error::{Result, ScimError};
use super::patch::{Path, Verb};
use super::schema::{self, Attribute, EXTERNAL_ID, Kind, find, is_ignored, value_of};

/// Applies an operation.
///
/// # Errors
/// What is wrong with it.
pub(super) fn at(
    attributes: &'static [Attribute],
    resource: &mut Map<String, Value>,
    verb: Verb,
    path: &Path,
    value: &Value,
) -> Result<()> {
    if path.attribute.eq_ignore_ascii_case(EXTERNAL_ID) {
        resource.shift_remove(EXTERNAL_ID);
        if verb != Verb::Remove {
            let given = Map::from_iter([(EXTERNAL_ID.to_owned(), value.clone())]);
            resource.extend(schema::canonical(&[], &given)?);
        }
        return Ok(());
    }
    let Some(attribute) = find(attributes, &path.attribute) else {
        if is_ignored(&path.attribute) {
            return Ok(());
        }
        let detail = format!(
            "There is no attribute {:?} that could be changed.",
            path.attribute
        );
        let read_only = ["id", "meta", "schemas"]
            .iter()
            .any(|one| path.attribute.eq_ignore_ascii_case(one));
        return Err(match read_only {
            true => ScimError::bad("mutability", detail),
            false => ScimError::bad("invalidPath", detail),
        });
    };
    if attribute.read_only {
        let detail = format!("{} is read-only.", attribute.name);
        return Err(ScimError::bad("mutability", detail));
    }
    if attribute.required && verb == Verb::Remove {
        let detail = format!("{} is required.", attribute.name);
        return Err(ScimError::bad("mutability", detail));
    }
    if attribute.multi {
        return on_values(attribute, resource, verb, path, value);
    }
    if path.filter.is_some() {
        let detail = format!("{} has one value: no filter chooses it.", attribute.name);
        return Err(ScimError::bad("invalidPath", detail));
    }
    if let Some(sub) = &path.sub {
        let sub = sub_of(attribute, sub)?;
        let entry = resource
            .entry(attribute.name)
            .or_insert_with(|| Value::Object(Map::new()));
        set(entry, sub, verb, value)?;
        if entry.as_object().is_none_or(Map::is_empty) {
            resource.shift_remove(attribute.name);
        }
        return Ok(());
    }
    if verb == Verb::Remove {
        resource.shift_remove(attribute.name);
        return Ok(());
    }
    let value = value_of(attribute, value)?;
    match (attribute.kind, resource.get_mut(attribute.name), value) {
        (Kind::Complex, Some(Value::Object(known)), Value::Object(given)) => known.extend(given),
        (_, _, value) => {
            resource.insert(attribute.name.to_owned(), value);
        }
    }
    Ok(())
}

fn sub_of(attribute: &Attribute, name: &str) -> Result<&'static Attribute> {
    find(attribute.sub, name).ok_or_else(|| {
        let detail = format!("{} has no attribute {name:?}.", attribute.name);
        ScimError::bad("invalidPath", detail)
    })
}

fn set(target: &mut Value, sub: &Attribute, verb: Verb, value: &Value) -> Result<()> {
    let Value::Object(target) = target else {
        return Ok(());
    };
    match verb {
        Verb::Remove => {
            target.shift_remove(sub.name);
        }
        Verb::Add | Verb::Replace => {
            target.insert(sub.name.to_owned(), value_of(sub, value)?);
        }
    }
    Ok(())
}

fn on_values(
    attribute: &'static Attribute,
    resource: &mut Map<String, Value>,
    verb: Verb,
    path: &Path,
    value: &Value,
) -> Result<()> {
    let mut values = match resource.shift_remove(attribute.name) {
        Some(Value::Array(values)) => values,
        _ => Vec::new(),
    };
    let sub = path
        .sub
        .as_deref()
        .map(|sub| sub_of(attribute, sub))
        .transpose()?;
    // decided once: a filter may be long, and the values many
    let chosen = values.iter().map(|one| match &path.filter {
        None => true,
        Some(filter) => one.as_object().is_some_and(|one| filter.holds(one)),
    });
    let chosen: Vec<bool> = chosen.collect();
    let any = chosen.contains(&true);
    match (verb, &path.filter, sub) {
        (Verb::Add, None, None) => {
            let given = given(attribute, value)?;
            let mut known: HashSet<&Value> = values.iter().collect();
            let new = given.iter().filter(|one| known.insert(*one)).cloned();
            let new: Vec<Value> = new.collect();
            values.extend(new);
        }
        (Verb::Replace, None, None) => values = given(attribute, value)?,
        (Verb::Remove, None, None) if !value.is_null() => {
            // as Entra ID removes members
            let gone = given(attribute, value)?;
            let gone: HashSet<Option<String>> = gone.iter().map(name_of).collect();
            values.retain(|one| !gone.contains(&name_of(one)));
        }
        (Verb::Remove, _, None) => {
            let mut chosen = chosen.iter();
            values.retain(|_| chosen.next() != Some(&true));
        }
        (Verb::Remove, _, Some(sub)) => {
            for one in those(&mut values, &chosen) {
                set(one, sub, verb, value)?;
            }
        }
        (Verb::Add, Some(filter), _) if !any => {
            let mut one = filter.equalities().ok_or_else(nothing)?;
            match (sub, value) {
                (Some(sub), value) => {
                    one.insert(sub.name.to_owned(), value.clone());
                }
                (None, Value::Object(given)) => one.extend(given.clone()),
                (None, _) => {
                    return Err(ScimError::invalid_value(
                        attribute.name,
                        "must be an object",
                    ));
                }
            }
            values.extend(given(attribute, &Value::Object(one))?);
        }
        _ if !any => return Err(nothing()),
        (_, _, Some(sub)) => {
            for one in those(&mut values, &chosen) {
                set(one, sub, verb, value)?;
            }
        }
        (Verb::Add | Verb::Replace, _, None) => {
            let Value::Object(new) = value_of(
                &Attribute {
                    multi: false,
                    ..*attribute
                },
                value,
            )?
            else {
                return Err(ScimError::invalid_value(
                    attribute.name,
                    "must be an object",
                ));
            };
            for one in those(&mut values, &chosen) {
                match one {
                    Value::Object(known) if verb == Verb::Add => known.extend(new.clone()),
                    other => *other = Value::Object(new.clone()),
                }
            }
        }
    }
    one_primary(&mut values);
    // a value of which nothing is left is none
    values.retain(|one| one.as_object().is_none_or(|one| !one.is_empty()));
    if !values.is_empty() {
        resource.insert(attribute.name.to_owned(), Value::Array(values));
    }
    Ok(())
}

/// The values that are chosen.
fn those<'a>(values: &'a mut [Value], chosen: &'a [bool]) -> impl Iterator<Item = &'a mut Value> {
    let all = values.iter_mut().zip(chosen);
    all.filter(|(_, chosen)| **chosen).map(|(one, _)| one)
}

/// What a value goes by, whatever its case.
fn name_of(value: &Value) -> Option<String> {
    value["value"].as_str().map(str::to_lowercase)
}

fn given(attribute: &Attribute, value: &Value) -> Result<Vec<Value>> {
    Ok(match value_of(attribute, value)? {
        Value::Array(values) => values,
        one => vec![one],
    })
}

fn nothing() -> ScimError {
    ScimError::bad("noTarget", "The filter of the path chooses no value.")
}

/// The last value that is said to be primary is (RFC 7644, 3.5.2).
fn one_primary(values: &mut [Value]) {
    let last = values.iter().rposition(|one| one["primary"] == true);
    for (at, one) in values.iter_mut().enumerate() {
        if Some(at) != last && one["primary"] == true {
            one["primary"] = false.into();
        }
    }
}
