//! Messages by chance.
use bytes::Bytes;
use gpuaas_gateway::contract::access::behavior_of;
use proptest::prelude::Rng as _;
use proptest::test_runner::TestRng;
use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MapKey, MessageDescriptor, Value};

/// Messages in messages.
pub const DEPTH: usize = 4;

/// The gateway takes control characters, which the last one has, in bodies only.
const TEXTS: [&str; 7] = [
    "a",
    "a b&c=d/e?f#g%h+i",
    "\"quoted\" \\",
    "日本語 é 🚀",
    "'; DROP TABLE x; --",
    "a:b.c~d",
    "\u{7} \n",
];

pub struct Chance(pub TestRng);

impl Chance {
    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.0.next_u32()).expect("64 bits") % limit
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    /// `in_query`: only what a query can say.
    pub fn message(
        &mut self,
        of: &MessageDescriptor,
        depth: usize,
        in_query: bool,
    ) -> DynamicMessage {
        let mut message = DynamicMessage::new(of.clone());
        for field in of.fields() {
            let behavior = behavior_of(&field);
            let is_message = field.kind().as_message().is_some();
            let of_its_own = is_message && !is_scalar(&field);
            if (depth == 0 && of_its_own && !behavior.required)
                || (in_query && (field.is_map() || (of_its_own && field.is_list())))
                || !can_be_said(&field)
                || (!behavior.required && self.below(3) == 0)
            {
                continue;
            }
            let value = if field.is_map() {
                let entry = field.kind();
                let value = entry
                    .as_message()
                    .expect("an entry")
                    .map_entry_value_field();
                let entries = (0..2).map(|number| {
                    let key = MapKey::String(format!("k{number}"));
                    (key, self.value(&value, depth, in_query))
                });
                Value::Map(entries.collect())
            } else if field.is_list() {
                let many = 1 + self.below(3);
                Value::List(
                    (0..many)
                        .map(|_| self.value(&field, depth, in_query))
                        .collect(),
                )
            } else {
                self.value(&field, depth, in_query)
            };
            message.set_field(&field, value);
        }
        message
    }

    pub fn value(&mut self, field: &FieldDescriptor, depth: usize, in_query: bool) -> Value {
        match field.kind() {
            Kind::Bool => Value::Bool(true),
            Kind::String => {
                let known = if in_query { &TEXTS[..6] } else { &TEXTS };
                Value::String(self.one(known).to_owned())
            }
            Kind::Bytes => Value::Bytes(Bytes::from_static(b"\x00\xff~bytes")),
            Kind::Double => Value::F64(self.one(&[0.5, -1.0e-9, 1.0e21, f64::MAX])),
            Kind::Float => Value::F32(self.one(&[0.5, 1.25e10, -3.0])),
            Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => {
                Value::I32(self.one(&[1, -1, i32::MIN, i32::MAX]))
            }
            Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => {
                Value::I64(self.one(&[1, -1, i64::MIN, i64::MAX, 1 << 53]))
            }
            Kind::Uint32 | Kind::Fixed32 => Value::U32(self.one(&[1, u32::MAX])),
            Kind::Uint64 | Kind::Fixed64 => Value::U64(self.one(&[1, u64::MAX])),
            Kind::Enum(of) => {
                let numbers: Vec<i32> = of.values().map(|value| value.number()).collect();
                // the first is the one that is not given
                let given = if numbers.len() > 1 {
                    &numbers[1..]
                } else {
                    &numbers
                };
                Value::EnumNumber(self.one(given))
            }
            Kind::Message(of) if of.full_name() == "google.protobuf.Timestamp" => {
                let seconds = self.one(&[0, 1_700_000_000, 253_402_300_799]);
                self.time(&of, seconds)
            }
            Kind::Message(of) if of.full_name() == "google.protobuf.Duration" => {
                let seconds = self.one(&[0, 90, 315_576_000]);
                self.time(&of, seconds)
            }
            Kind::Message(of) => {
                Value::Message(self.message(&of, depth.saturating_sub(1), in_query))
            }
        }
    }

    fn time(&mut self, of: &MessageDescriptor, seconds: i64) -> Value {
        let mut time = DynamicMessage::new(of.clone());
        time.set_field_by_name("seconds", Value::I64(seconds));
        let nanos = self.one(&[0, 250_000_000, 123_456_000, 1]);
        time.set_field_by_name("nanos", Value::I32(nanos));
        Value::Message(time)
    }
}

/// It has a JSON form that is no object.
fn is_scalar(field: &FieldDescriptor) -> bool {
    let kind = field.kind();
    let name = kind.as_message().map(|of| of.full_name().to_owned());
    matches!(
        name.as_deref(),
        Some("google.protobuf.Timestamp" | "google.protobuf.Duration")
    )
}

/// What the server sets is not asked; messages of any form are in errors only.
fn can_be_said(field: &FieldDescriptor) -> bool {
    let kind = field.kind();
    let name = kind.as_message().map(|of| of.full_name().to_owned());
    !behavior_of(field).output_only
        && !matches!(
            name.as_deref(),
            Some("google.protobuf.Any" | "google.protobuf.Struct")
        )
}
