//! How enum values are spelled in JSON: lower-case, without the enum's prefix (`gpu_slice`).
use prost_reflect::{EnumDescriptor, EnumValueDescriptor};

/// The prefix of the enum's values: the zero value's name up to "UNSPECIFIED", else nothing.
fn prefix(descriptor: &EnumDescriptor) -> String {
    descriptor
        .get_value(0)
        .and_then(|zero| zero.name().strip_suffix("UNSPECIFIED").map(str::to_owned))
        .unwrap_or_default()
}

/// The JSON spelling of a value.
pub fn enum_value_name(value: &EnumValueDescriptor) -> String {
    let prefix = prefix(value.parent_enum());
    value
        .name()
        .strip_prefix(&prefix)
        .unwrap_or(value.name())
        .to_ascii_lowercase()
}

/// The JSON spellings of all values but "unspecified".
pub fn enum_value_names(descriptor: &EnumDescriptor) -> Vec<String> {
    descriptor
        .values()
        .filter(|v| v.number() != 0)
        .map(|v| enum_value_name(&v))
        .collect()
}

/// Reads a value in its JSON spelling or by its full proto name.
pub fn enum_number(descriptor: &EnumDescriptor, text: &str) -> Option<i32> {
    descriptor
        .values()
        .find(|v| v.name() == text || enum_value_name(v) == text)
        .map(|v| v.number())
}
