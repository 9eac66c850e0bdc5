//! Output formats for programs: what the API answered as JSON, YAML, JSON lines, or the names alone.
use std::fmt::Write as _;
use std::sync::OnceLock;

use serde_json::{Map, Value};

/// Output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For people, fitted into the terminal.
    Table,
    /// For people, with nothing cut.
    Wide,
    /// For programs: the answer of the API.
    Json,
    /// The answer of the API as YAML.
    Yaml,
    /// One line of JSON per item of a list.
    Jsonl,
    /// For use in other commands: the id (or code, or slug), one per line. For a new key, secret or invitation: the secret
    /// value.
    Name,
}

impl Format {
    /// Whether it is for programs, so that neither tables nor sentences are printed.
    pub fn is_data(self) -> bool {
        !matches!(self, Self::Table | Self::Wide)
    }

    /// Whether an error is printed as JSON.
    pub fn has_json_errors(self) -> bool {
        matches!(self, Self::Json | Self::Yaml | Self::Jsonl)
    }

    /// An answer in this format, without the last line end; nothing for an empty list of items.
    pub fn text(self, value: &Value) -> String {
        match self {
            Self::Yaml => yaml(value),
            Self::Jsonl => lines(items(value).into_iter().map(Value::to_string)),
            Self::Name => lines(items(value).into_iter().filter_map(name).map(str::to_owned)),
            Self::Table | Self::Wide | Self::Json => {
                serde_json::to_string_pretty(value).expect("a value always serialises")
            }
        }
    }
}

/// Format and quietness of this process; set once, before anything is printed.
static CHOSEN: OnceLock<(Format, bool)> = OnceLock::new();

/// Chooses the format, and whether progress and hints are left out.
pub fn choose(format: Format, quiet: bool) {
    let _ = CHOSEN.set((format, quiet));
}

/// The format.
pub fn chosen() -> Format {
    CHOSEN.get().map_or(Format::Table, |(format, _)| *format)
}

/// Whether progress and hints are left out.
pub fn is_quiet() -> bool {
    CHOSEN.get().is_some_and(|(_, quiet)| *quiet)
}

fn lines(items: impl Iterator<Item = String>) -> String {
    items.collect::<Vec<_>>().join("\n")
}

/// The items of a list, which is the first array of objects in an answer without a name of its own; else the answer
/// itself.
fn items(value: &Value) -> Vec<&Value> {
    if let Value::Array(all) = value {
        return all.iter().collect();
    }
    let Value::Object(fields) = value else {
        return vec![value];
    };
    if own_name(fields).is_some() {
        return vec![value];
    }
    // an answer about one thing has it beside its history
    if let Some(one) = fields.values().find(|field| {
        field
            .as_object()
            .is_some_and(|inner| own_name(inner).is_some())
    }) {
        return vec![one];
    }
    match fields.values().find_map(Value::as_array) {
        Some(list) => list.iter().collect(),
        None => vec![value],
    }
}

/// The first of these names a resource on the command line.
const NAMES: [&str; 8] = [
    "id",
    "node_id",
    "member_id",
    "code",
    "slug",
    "sku",
    "name",
    "hostname",
];

fn own_name(fields: &Map<String, Value>) -> Option<&str> {
    NAMES
        .iter()
        .find_map(|key| fields.get(*key)?.as_str())
        .filter(|text| !text.is_empty())
}

fn name(item: &Value) -> Option<&str> {
    item.as_str().or_else(|| own_name(item.as_object()?))
}

/// YAML with two spaces per level. Strings that YAML could take for something else are quoted as in JSON, of which YAML
/// is a superset.
fn yaml(value: &Value) -> String {
    let mut text = String::new();
    match value {
        Value::Object(fields) if !fields.is_empty() => mapping(fields, 0, false, &mut text),
        Value::Array(items) if !items.is_empty() => sequence(items, 0, &mut text),
        other => text.push_str(&scalar(other)),
    }
    text.truncate(text.trim_end().len());
    text
}

/// `inline`: the first key stands behind the dash of its item.
fn mapping(fields: &Map<String, Value>, depth: usize, inline: bool, text: &mut String) {
    for (index, (key, value)) in fields.iter().enumerate() {
        let indent = if inline && index == 0 { 0 } else { depth };
        let _ = write!(text, "{:1$}{key}:", "", indent, key = quoted(key));
        match value {
            Value::Object(inner) if !inner.is_empty() => {
                text.push('\n');
                mapping(inner, depth + 2, false, text);
            }
            Value::Array(inner) if !inner.is_empty() => {
                text.push('\n');
                sequence(inner, depth, text);
            }
            other => {
                let _ = writeln!(text, " {}", scalar(other));
            }
        }
    }
}

fn sequence(items: &[Value], depth: usize, text: &mut String) {
    for item in items {
        let _ = write!(text, "{:1$}- ", "", depth);
        match item {
            Value::Object(inner) if !inner.is_empty() => mapping(inner, depth + 2, true, text),
            // a list in a list is rare enough for one line
            other => {
                let _ = writeln!(text, "{}", scalar(other));
            }
        }
    }
}

fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        // empty collections, and JSON itself, are YAML
        other => other.to_string(),
    }
}

/// Words that are not strings to every reader of YAML.
const TAKEN: [&str; 11] = [
    "true", "false", "null", "yes", "no", "on", "off", "y", "n", "nan", "inf",
];

fn quoted(text: &str) -> String {
    let starts = text.chars().next().is_some_and(|c| c.is_ascii_alphabetic());
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
    let taken = TAKEN.contains(&text.to_ascii_lowercase().as_str());
    if starts && !taken && text.chars().all(plain) {
        text.to_owned()
    } else {
        Value::String(text.to_owned()).to_string()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn yaml_keeps_strings_that_look_like_something_else() {
        for (value, text) in [
            (json!("plain-text_1.0/x"), "plain-text_1.0/x"),
            (json!("yes"), "\"yes\""),
            (json!("12"), "\"12\""),
            (json!("2026-01-31T12:00:00Z"), "\"2026-01-31T12:00:00Z\""),
            (json!("a: b # c"), "\"a: b # c\""),
            (json!("two\nlines"), "\"two\\nlines\""),
            (json!(""), "\"\""),
            (json!("- x"), "\"- x\""),
            (json!(1.5), "1.5"),
            (json!(null), "null"),
            (json!({}), "{}"),
            (json!([]), "[]"),
        ] {
            assert_eq!(Format::Yaml.text(&value), text);
        }
    }

    #[test]
    fn yaml_nests_by_two_spaces() {
        let value = json!({ "skus": [{ "code": "a", "counts": [1, 2], "profile": { "name": "p" } }, { "code": "b" }], "empty": {} });
        assert_eq!(
            Format::Yaml.text(&value),
            "skus:\n- code: a\n  counts:\n  - 1\n  - 2\n  profile:\n    name: p\n- code: b\nempty: {}"
        );
    }

    #[test]
    fn lines_and_names_are_of_the_items() {
        let list =
            json!({ "allocations": [{ "id": "1", "x": 1 }, { "id": "2" }], "next_page_token": "" });
        assert_eq!(
            Format::Jsonl.text(&list),
            "{\"id\":\"1\",\"x\":1}\n{\"id\":\"2\"}"
        );
        assert_eq!(Format::Name.text(&list), "1\n2");
        let shown = json!({ "allocation": { "id": "1" }, "timeline": [{ "step": "boot" }] });
        assert_eq!(Format::Name.text(&shown), "1");
        assert_eq!(
            Format::Name.text(&json!({ "regions": [{ "code": "lab" }] })),
            "lab"
        );
        assert_eq!(Format::Name.text(&json!({ "regions": [] })), "");
        assert_eq!(Format::Name.text(&json!({ "id": "1", "tags": ["x"] })), "1");
    }
}
