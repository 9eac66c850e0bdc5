//! The types of the contract as the JSON of the HTTP API, and back: fields have their proto names, enum values are
//! words (`active`), 64-bit integers are strings.
use std::sync::LazyLock;

use prost::Name;
use prost_reflect::{
    DescriptorPool, DeserializeOptions, DynamicMessage, EnumDescriptor, Kind, MessageDescriptor,
    SerializeOptions,
};
use serde_json::Value;

use crate::words::{enum_number, prefix, word_of};

/// The messages of the contract, without what only servers need of it: a client decodes them at each start, and only
/// when it has something to read.
static MESSAGES: LazyLock<DescriptorPool> = LazyLock::new(|| {
    let encoded = include_bytes!(concat!(env!("OUT_DIR"), "/messages.bin"));
    DescriptorPool::decode(encoded.as_slice()).expect("generated descriptors decode")
});

/// The JSON is not that of the message.
#[derive(Debug)]
pub struct JsonError(String);

impl std::fmt::Display for JsonError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for JsonError {}

fn descriptor<M: Name>() -> MessageDescriptor {
    let name = M::full_name();
    let found = MESSAGES.get_message_by_name(&name);
    found.unwrap_or_else(|| panic!("{name} is not a message of the contract"))
}

/// The message as the API takes it; unset fields are left out.
///
/// # Panics
/// The type is not one of this crate.
pub fn to_json<M: Name>(message: &M) -> Value {
    let descriptor = descriptor::<M>();
    let dynamic = DynamicMessage::decode(descriptor.clone(), message.encode_to_vec().as_slice())
        .expect("a message of the contract");
    let options = SerializeOptions::new().use_proto_field_name(true);
    let mut json = dynamic
        .serialize_with_options(serde_json::value::Serializer, &options)
        .expect("a message is JSON");
    visit(&mut json, &descriptor, &|names, value| {
        if let Value::String(name) = value {
            *name = word_of(name, names.default_value().name());
        }
    });
    json
}

/// The message that the API sent. What a newer API has is no error: a field that this version does not know is
/// ignored, an enum value is unspecified. A field that is missing is unset.
///
/// # Errors
/// A field has a value of another kind.
///
/// # Panics
/// The type is not one of this crate.
pub fn from_json<M: Name + Default>(json: &Value) -> Result<M, JsonError> {
    let descriptor = descriptor::<M>();
    let mut json = json.clone();
    visit(&mut json, &descriptor, &|names, value| {
        if let Value::String(word) = value {
            *value = enum_number(names, word).unwrap_or_default().into();
        }
    });
    let options = DeserializeOptions::new().deny_unknown_fields(false);
    DynamicMessage::deserialize_with_options(descriptor, json, &options)
        .map_err(|error| JsonError(error.to_string()))?
        .transcode_to()
        .map_err(|error| JsonError(error.to_string()))
}

/// Visits the enum values in the JSON of a message, and takes out details of kinds that the contract does not have.
fn visit(
    json: &mut Value,
    message: &MessageDescriptor,
    change: &dyn Fn(&EnumDescriptor, &mut Value),
) {
    let Value::Object(fields) = json else { return };
    for (name, value) in fields {
        let Some(field) = message.get_field_by_name(name) else {
            continue;
        };
        let kind = match field.kind() {
            Kind::Message(entry) if field.is_map() => entry.map_entry_value_field().kind(),
            kind => kind,
        };
        match value {
            Value::Array(items) => {
                items.retain(|item| is_known(&kind, item));
                items
                    .iter_mut()
                    .for_each(|one| visit_value(one, &kind, change));
            }
            Value::Object(entries) if field.is_map() => entries
                .values_mut()
                .for_each(|one| visit_value(one, &kind, change)),
            one => visit_value(one, &kind, change),
        }
    }
}

fn visit_value(value: &mut Value, kind: &Kind, change: &dyn Fn(&EnumDescriptor, &mut Value)) {
    match kind {
        // the JSON of these is their own
        Kind::Message(inner) if inner.package_name() == "google.protobuf" => {}
        Kind::Message(inner) => visit(value, inner, change),
        Kind::Enum(names) => change(names, value),
        _ => {}
    }
}

/// Not a `google.protobuf.Any` of something that the contract does not have.
fn is_known(kind: &Kind, item: &Value) -> bool {
    let is_any = matches!(kind, Kind::Message(inner) if inner.full_name() == "google.protobuf.Any");
    let url = item
        .get("@type")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let name = url.rsplit('/').next().unwrap_or_default();
    !is_any || MESSAGES.get_message_by_name(name).is_some()
}

/// An enum of the contract.
pub trait Enumeration: Copy + Default + PartialEq + 'static {
    /// Its name in the contract.
    fn contract_name(self) -> &'static str;

    /// The value with a name of the contract.
    fn of_contract_name(name: &str) -> Option<Self>;

    /// The word that the API has for it: `active`.
    fn word(self) -> String {
        word_of(self.contract_name(), Self::default().contract_name())
    }

    /// The value that the API has this word for.
    fn of_word(word: &str) -> Option<Self> {
        let prefix = prefix(Self::default().contract_name());
        let found = Self::of_contract_name(&format!("{prefix}{}", word.to_ascii_uppercase()))?;
        (found.word() == word).then_some(found)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::gpuaas::allocation::v1::{
        Allocation, AllocationState, PowerState, TimelineEntry, TimelineState,
    };
    use crate::gpuaas::scheduler::v1::Sku;

    #[test]
    fn what_a_newer_api_sends_is_read_as_far_as_it_is_known() {
        let answer = json!({
            "id": "0193", "of_a_later_version": { "state": "active" }, "metadata": { "revision": "7", "labels": { "a": "b" } },
            "status": { "state": "hibernating", "power": "running", "also_later": [1] },
        });
        let allocation: Allocation = from_json(&answer).expect("read");
        let status = allocation.status.expect("a status");
        assert_eq!(
            (status.state(), status.power()),
            (AllocationState::Unspecified, PowerState::Running)
        );
        assert_eq!(allocation.metadata.expect("metadata").revision, 7);
        let entry = json!({ "sequence": 3, "state": 99, "error": { "message": "seen", "details": [
            { "@type": "type.googleapis.com/gpuaas.later.v9.Detail", "x": 1 },
            { "@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "X", "later": 1 },
        ] } });
        let entry: TimelineEntry = from_json(&entry).expect("read");
        assert_eq!(entry.state(), TimelineState::Unspecified);
        assert_eq!(entry.error.expect("an error").details.len(), 1);
    }

    #[test]
    fn what_is_missing_or_null_is_unset() {
        assert_eq!(
            from_json::<Allocation>(&json!({})).expect("read"),
            Allocation::default()
        );
        let nulls = json!({ "id": null, "status": null, "metadata": null });
        assert_eq!(
            from_json::<Allocation>(&nulls).expect("read"),
            Allocation::default()
        );
        let wrong = from_json::<Allocation>(&json!({ "id": 7 })).expect_err("not a string");
        assert!(wrong.to_string().contains("integer"), "{wrong}");
    }

    #[test]
    fn a_message_is_the_same_after_its_json() {
        let answer = json!({ "id": "a", "status": { "state": "active", "active_time": "2026-01-31T12:01:00Z",
            "resources": { "vcpus": 2, "memory_mib": "4096", "disks": 1, "disk_bytes": "9007199254740993" } } });
        let allocation: Allocation = from_json(&answer).expect("read");
        assert_eq!(to_json(&allocation), answer);
        let sku =
            json!({ "code": "s", "allowed_gpu_counts": [1, 2], "capacity_shape": "gpu_slice" });
        let read: Sku = from_json(&sku).expect("read");
        assert_eq!(to_json(&read), sku);
    }

    #[test]
    fn words_of_enums_are_those_of_the_json() {
        assert_eq!(PowerState::Running.word(), "running");
        assert_eq!(PowerState::of_word("running"), Some(PowerState::Running));
        for unknown in ["", "RUNNING", "POWER_STATE_RUNNING", "hibernating"] {
            assert_eq!(PowerState::of_word(unknown), None, "{unknown}");
        }
    }
}
