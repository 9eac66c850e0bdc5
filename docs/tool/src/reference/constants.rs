//! Constants that are defaults of settings.
use std::collections::BTreeMap;
use std::path::Path;

/// The name of a file's module.
pub fn module_of(path: &Path) -> String {
    let stem = |path: &Path| path.file_stem().map(|name| name.to_string_lossy().into());
    match stem(path) {
        Some(name) if name != "mod" => name,
        _ => path.parent().and_then(stem).unwrap_or_default(),
    }
}

/// Takes in the constants of a file that are on one line.
pub fn collect(module: &str, text: &str, found: &mut BTreeMap<String, String>) {
    for line in text.lines() {
        let line = line.trim_start().trim_start_matches("pub ");
        if let Some((name, rest)) = line
            .strip_prefix("const ")
            .and_then(|rest| rest.split_once(": "))
            && let Some((_, value)) = rest.split_once(" = ")
            && let Some(value) = value.strip_suffix(';')
        {
            for key in [name.to_owned(), format!("{module}::{name}")] {
                found.insert(key, value.to_owned());
            }
        }
    }
}

/// A value with the constant that it names, if it names one, and arithmetic done.
pub fn resolved(value: &str, constants: &BTreeMap<String, String>) -> String {
    let named = value
        .trim_end_matches(".into()")
        .trim_end_matches(".unsigned_abs()");
    let segments: Vec<&str> = named.split("::").collect();
    let of_module = segments[segments.len().saturating_sub(2)..].join("::");
    if named.rsplit("::").next().is_some_and(is_constant)
        && let Some(found) = constants.get(&of_module).filter(|found| *found != value)
    {
        return resolved(found, constants);
    }
    number(value, constants).map_or_else(|| value.to_owned(), |number| number.to_string())
}

/// A number, a constant that is one, or a product or shift of such.
fn number(value: &str, constants: &BTreeMap<String, String>) -> Option<u64> {
    let number_of = |part| number(part, constants);
    if let Some((left, right)) = value.split_once(" << ") {
        return number_of(left)?.checked_shl(u32::try_from(number_of(right)?).ok()?);
    }
    if let Some((left, right)) = value.split_once(" * ") {
        return number_of(left)?.checked_mul(number_of(right)?);
    }
    match constants.get(value) {
        Some(found) => number_of(found),
        None => value.replace('_', "").parse().ok(),
    }
}

fn is_constant(name: &str) -> bool {
    let of_constant = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    name.starts_with(|c: char| c.is_ascii_uppercase()) && name.chars().all(of_constant)
}
