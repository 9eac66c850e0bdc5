//! A launch as the JSON that the HTTP API takes, and its answer as a type of this crate: all that a Rust program needs
//! besides an HTTP client of its choice.
//!
//! `cargo run -p gpuaas-proto --example launch`
use gpuaas_proto::gpuaas::allocation::v1::{Allocation, AllocationState, CreateAllocationRequest};
use prost_reflect::prost::Message;
use prost_reflect::{
    DeserializeOptions, DynamicMessage, Kind, MessageDescriptor, SerializeOptions,
};
use serde_json::Value;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn descriptor(name: &str) -> Result<MessageDescriptor> {
    let found = gpuaas_proto::pool().get_message_by_name(name);
    found.ok_or_else(|| format!("the contract has no message {name}").into())
}

/// The message as the body of a call: fields have their proto names, unset ones are left out.
fn to_json(name: &str, message: &impl Message) -> Result<Value> {
    let dynamic = DynamicMessage::decode(descriptor(name)?, message.encode_to_vec().as_slice())?;
    let options = SerializeOptions::new().use_proto_field_name(true);
    Ok(dynamic.serialize_with_options(serde_json::value::Serializer, &options)?)
}

/// The message of an answer. A field that this version does not know is ignored.
fn from_json<M: Message + Default>(name: &str, mut answer: Value) -> Result<M> {
    let descriptor = descriptor(name)?;
    long_enum_names(&mut answer, &descriptor);
    let options = DeserializeOptions::new().deny_unknown_fields(false);
    let dynamic = DynamicMessage::deserialize_with_options(descriptor, answer, &options)?;
    Ok(dynamic.transcode_to()?)
}

/// The API writes `active`, proto JSON `ALLOCATION_STATE_ACTIVE`.
fn long_enum_names(value: &mut Value, descriptor: &MessageDescriptor) {
    for field in descriptor.fields() {
        let (kind, values) = match (value.get_mut(field.name()), field.kind()) {
            (Some(Value::Object(map)), Kind::Message(entry)) if field.is_map() => (
                entry.map_entry_value_field().kind(),
                map.values_mut().collect(),
            ),
            (Some(Value::Array(list)), kind) => (kind, list.iter_mut().collect()),
            (Some(one), kind) => (kind, vec![one]),
            (None, _) => continue,
        };
        for value in values {
            match (&kind, value) {
                (Kind::Message(inner), value @ Value::Object(_)) => long_enum_names(value, inner),
                (Kind::Enum(names), Value::String(short)) => {
                    let unspecified = names.default_value().name().to_owned();
                    let prefix = unspecified.trim_end_matches("UNSPECIFIED");
                    *short = format!("{prefix}{}", short.to_uppercase());
                }
                _ => {}
            }
        }
    }
}

fn main() -> Result<()> {
    let launch = CreateAllocationRequest {
        name: "from-rust".to_owned(),
        region_code: "lab-1".to_owned(),
        sku: "lab-slice".to_owned(),
        gpu_count: 1,
        image: "lab-mini".to_owned(),
        ssh_public_keys: vec!["ssh-ed25519 AAAA… you@example.com".to_owned()],
        ..CreateAllocationRequest::default()
    };
    let body = to_json("gpuaas.allocation.v1.CreateAllocationRequest", &launch)?;
    println!("POST /api/v1/allocations with X-Idempotency-Key and {body:#}");

    let answer = serde_json::json!({
        "id": "0193", "status": {"state": "active"}, "metadata": {"revision": "7"}, "of_a_later_version": true,
    });
    let allocation: Allocation = from_json("gpuaas.allocation.v1.Allocation", answer)?;
    let state = allocation.status.unwrap_or_default().state();
    println!("{} is {}", allocation.id, state.as_str_name());
    assert_eq!(state, AllocationState::Active);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launch_is_written_and_its_answer_read() {
        main().expect("the example runs");
        let launch = CreateAllocationRequest {
            name: "a".to_owned(),
            gpu_count: 2,
            ..CreateAllocationRequest::default()
        };
        let body = to_json("gpuaas.allocation.v1.CreateAllocationRequest", &launch).expect("JSON");
        assert_eq!(body, serde_json::json!({"name": "a", "gpu_count": 2}));
    }
}
