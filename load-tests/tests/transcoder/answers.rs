//! The two answers in one form: short names of enum values, and numbers as floating point.
use gpuaas_proto::words::enum_value_name;
use prost_reflect::{EnumDescriptor, Kind, MessageDescriptor};
use serde_json::{Map, Value as Json, json};

/// The gateway's short names in place of the proto names of enum values.
pub fn with_short_names(json: &mut Json, of: &MessageDescriptor) {
    let Some(fields) = json.as_object_mut() else {
        return;
    };
    for (name, value) in fields {
        let field = of.get_field_by_name(name).expect("a field");
        let kind = match field.is_map() {
            true => {
                let entry = field.kind();
                entry
                    .as_message()
                    .expect("an entry")
                    .map_entry_value_field()
                    .kind()
            }
            false => field.kind(),
        };
        let each: Vec<&mut Json> = match value {
            Json::Array(list) => list.iter_mut().collect(),
            Json::Object(map) if field.is_map() => map.values_mut().collect(),
            one => vec![one],
        };
        for one in each {
            match &kind {
                Kind::Enum(of) => *one = json!(short(of, one)),
                Kind::Message(of) => with_short_names(one, of),
                _ => {}
            }
        }
    }
}

fn short(of: &EnumDescriptor, name: &Json) -> String {
    let value = of.get_value_by_name(name.as_str().expect("a name"));
    enum_value_name(&value.expect("a value"))
}

/// Numbers as floating point: 5e-1 is 0.5.
pub fn plain(json: Json) -> Json {
    match json {
        Json::Number(number) => json!(number.as_f64().expect("a number")),
        Json::Array(list) => list.into_iter().map(plain).collect(),
        Json::Object(fields) => {
            let fields = fields.into_iter().map(|(name, value)| (name, plain(value)));
            Json::Object(fields.collect::<Map<_, _>>())
        }
        other => other,
    }
}
