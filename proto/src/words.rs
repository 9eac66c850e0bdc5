//! How enum values are spelled in the JSON of the HTTP API: lower case, without what all values begin with (`gpu_slice`).
use prost_reflect::{EnumDescriptor, EnumValueDescriptor};

/// What the values of an enum begin with: the name of the zero value up to `UNSPECIFIED`, else nothing.
pub(crate) fn prefix(zero: &str) -> &str {
    zero.strip_suffix("UNSPECIFIED").unwrap_or_default()
}

/// The word for a name of the contract, of an enum whose zero value has this name.
pub(crate) fn word_of(name: &str, zero: &str) -> String {
    let own = name.strip_prefix(prefix(zero)).unwrap_or(name);
    own.to_ascii_lowercase()
}

/// The word for a value.
pub fn enum_value_name(value: &EnumValueDescriptor) -> String {
    word_of(value.name(), value.parent_enum().default_value().name())
}

/// The words for all values but "unspecified".
pub fn enum_value_names(descriptor: &EnumDescriptor) -> Vec<String> {
    let zero = descriptor.default_value();
    let values = descriptor.values().filter(|value| value.number() != 0);
    values
        .map(|value| word_of(value.name(), zero.name()))
        .collect()
}

/// Reads a value by its word or by its full name in the contract.
pub fn enum_number(descriptor: &EnumDescriptor, text: &str) -> Option<i32> {
    let zero = descriptor.default_value();
    let found = descriptor
        .values()
        .find(|value| value.name() == text || word_of(value.name(), zero.name()) == text);
    found.map(|value| value.number())
}
