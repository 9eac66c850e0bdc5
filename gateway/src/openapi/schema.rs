//! Messages and enums as JSON schemas, with their comments.
use std::collections::BTreeMap;

use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_proto::words::{enum_value_name, enum_value_names};
use prost_reflect::{
    DescriptorPool, EnumDescriptor, FieldDescriptor, FileDescriptor, Kind, MessageDescriptor,
};

use crate::contract::access::behavior_of;
use crate::error::reason_name;
use crate::json::{Json, object};

/// The schemas that operations refer to, found as they are referred to.
#[derive(Debug, Default)]
pub struct Schemas {
    messages: BTreeMap<String, MessageDescriptor>,
    enums: BTreeMap<String, EnumDescriptor>,
}

/// "gpuaas.allocation.v1.Allocation" → "allocation.Allocation"; versions are in the path of the API.
fn schema_name(full_name: &str) -> String {
    full_name.trim_start_matches("gpuaas.").replace(".v1.", ".")
}

fn reference(name: &str) -> Json {
    object([("$ref", Json::String(format!("#/components/schemas/{name}")))])
}

impl Schemas {
    /// A reference to a message's schema.
    pub fn message(&mut self, descriptor: &MessageDescriptor) -> Json {
        if let Some(known) = well_known(descriptor) {
            return known;
        }
        let name = schema_name(descriptor.full_name());
        self.messages.insert(name.clone(), descriptor.clone());
        reference(&name)
    }

    /// The schema of a field: its kind, as list or map, with its comment.
    pub fn field(&mut self, field: &FieldDescriptor) -> Json {
        let mut schema = if field.is_map() {
            let value = field
                .kind()
                .as_message()
                .map(|entry| entry.map_entry_value_field().kind());
            let value = value.map_or(Json::Bool(true), |kind| self.kind(&kind));
            object([("type", "object".into()), ("additionalProperties", value)])
        } else if field.is_list() {
            object([
                ("type", "array".into()),
                ("items", self.kind(&field.kind())),
            ])
        } else {
            self.kind(&field.kind())
        };
        if let Json::Object(entries) = &mut schema {
            let description = comment(&field.parent_message().parent_file(), field.path());
            if !description.is_empty() {
                entries.push(("description".to_owned(), Json::String(description)));
            }
            if is_deprecated(field) {
                entries.push(("deprecated".to_owned(), Json::Bool(true)));
            }
            if behavior_of(field).output_only {
                entries.push(("readOnly".to_owned(), Json::Bool(true)));
            }
            // an answer without it says that it is unset; the other scalars are always written
            if field.supports_presence() && field.kind().as_message().is_none() {
                entries.push(("x-optional".to_owned(), Json::Bool(true)));
            }
        }
        schema
    }

    /// The same in a request. A required field that is empty, or a required number that is 0, is refused as a missing one,
    /// for the wire does not tell them apart.
    pub fn field_of_request(&mut self, field: &FieldDescriptor) -> Json {
        let mut schema = self.field(field);
        let least = match field.kind() {
            _ if !behavior_of(field).required || field.is_map() => None,
            _ if field.is_list() => Some("minItems"),
            _ if field.supports_presence() => None,
            Kind::String | Kind::Bytes => Some("minLength"),
            Kind::Uint32 | Kind::Fixed32 => Some("minimum"),
            _ => None,
        };
        if let (Json::Object(entries), Some(least)) = (&mut schema, least) {
            entries.retain(|(key, _)| key != least);
            entries.push((least.to_owned(), Json::Number(1.into())));
        }
        schema
    }

    fn kind(&mut self, kind: &Kind) -> Json {
        let typed = |name: &str, format: Option<&str>| {
            let mut entries = vec![("type".to_owned(), Json::from(name))];
            entries.extend(format.map(|f| ("format".to_owned(), Json::from(f))));
            Json::Object(entries)
        };
        let whole = |format: &str, pattern: &str| {
            object([
                ("type", "string".into()),
                ("format", format.into()),
                ("pattern", pattern.into()),
            ])
        };
        match kind {
            Kind::Bool => typed("boolean", None),
            Kind::String => typed("string", None),
            Kind::Bytes => typed("string", Some("byte")),
            Kind::Double => typed("number", Some("double")),
            Kind::Float => typed("number", Some("float")),
            Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => object([
                ("type", "integer".into()),
                ("format", "int32".into()),
                ("minimum", Json::Number(i32::MIN.into())),
                ("maximum", Json::Number(i32::MAX.into())),
            ]),
            Kind::Uint32 | Kind::Fixed32 => object([
                ("type", "integer".into()),
                ("minimum", Json::Number(0.into())),
                ("maximum", Json::Number(u32::MAX.into())),
            ]),
            Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => whole("int64", "^-?[0-9]+$"),
            Kind::Uint64 | Kind::Fixed64 => whole("uint64", "^[0-9]+$"),
            Kind::Message(descriptor) => self.message(descriptor),
            Kind::Enum(descriptor) => {
                let name = schema_name(descriptor.full_name());
                self.enums.insert(name.clone(), descriptor.clone());
                reference(&name)
            }
        }
    }

    /// All schemas, those that others refer to included.
    pub fn finish(mut self, pool: &DescriptorPool) -> Json {
        if let Some(status) = pool.get_message_by_name("google.rpc.Status") {
            self.message(&status);
        }
        let mut written = self.written();
        written.insert("Error".to_owned(), error_schema());
        Json::Object(written.into_iter().collect())
    }

    /// All schemas of a document that has no errors.
    pub fn alone(mut self) -> Json {
        Json::Object(self.written().into_iter().collect())
    }

    fn written(&mut self) -> BTreeMap<String, Json> {
        let mut written: BTreeMap<String, Json> = BTreeMap::new();
        // writing one schema may refer to new ones
        while let Some((name, descriptor)) = self
            .messages
            .iter()
            .find(|(n, _)| !written.contains_key(*n))
            .map(|(n, d)| (n.clone(), d.clone()))
        {
            let schema = self.message_schema(&descriptor);
            written.insert(name, schema);
        }
        for (name, descriptor) in &self.enums {
            written.insert(name.clone(), enum_schema(descriptor));
        }
        written
    }

    fn message_schema(&mut self, descriptor: &MessageDescriptor) -> Json {
        let properties: Vec<(String, Json)> = descriptor
            .fields()
            .map(|f| (f.name().to_owned(), self.field(&f)))
            .collect();
        let required: Vec<Json> = descriptor
            .fields()
            .filter(|f| behavior_of(f).required)
            .map(|f| Json::String(f.name().to_owned()))
            .collect();
        let mut entries = vec![("type".to_owned(), Json::from("object"))];
        let description = comment(&descriptor.parent_file(), descriptor.path());
        if !description.is_empty() {
            entries.push(("description".to_owned(), Json::String(description)));
        }
        if !required.is_empty() {
            entries.push(("required".to_owned(), Json::List(required)));
        }
        entries.push(("properties".to_owned(), Json::Object(properties)));
        Json::Object(entries)
    }
}

fn enum_schema(descriptor: &EnumDescriptor) -> Json {
    let mut lines = vec![comment(&descriptor.parent_file(), descriptor.path())];
    for value in descriptor.values() {
        let text = comment(&descriptor.parent_file(), value.path());
        if !text.is_empty() && value.number() != 0 {
            lines.push(format!("- `{}`: {text}", enum_value_name(&value)));
        }
    }
    let mut names = vec![Json::from("unspecified")];
    names.extend(enum_value_names(descriptor).into_iter().map(Json::String));
    object([
        ("type", "string".into()),
        (
            "description",
            Json::String(
                lines
                    .into_iter()
                    .filter(|l| !l.is_empty())
                    .collect::<Vec<_>>()
                    .join("\n"),
            ),
        ),
        ("enum", Json::List(names)),
    ])
}

fn is_deprecated(field: &FieldDescriptor) -> bool {
    let options = field.field_descriptor_proto().options.as_ref();
    options.is_some_and(prost_types::FieldOptions::deprecated)
}

/// Types with a JSON form of their own.
fn well_known(descriptor: &MessageDescriptor) -> Option<Json> {
    Some(match descriptor.full_name() {
        "google.protobuf.Timestamp" => {
            object([("type", "string".into()), ("format", "date-time".into())])
        }
        "google.protobuf.Duration" => object([
            ("type", "string".into()),
            ("pattern", r"^-?\d+(\.\d{1,9})?s$".into()),
        ]),
        "google.protobuf.FieldMask" => object([("type", "string".into())]),
        "google.protobuf.Empty" | "google.protobuf.Struct" => object([("type", "object".into())]),
        "google.protobuf.Any" => object([
            ("type", "object".into()),
            (
                "properties",
                object([("@type", object([("type", "string".into())]))]),
            ),
            ("required", Json::List(vec!["@type".into()])),
        ]),
        _ => return None,
    })
}

fn error_schema() -> Json {
    let string = || object([("type", "string".into())]);
    let reasons = (0..=i32::from(u8::MAX))
        .filter_map(|n| ErrorReason::try_from(n).ok())
        .filter(|r| *r != ErrorReason::Unspecified)
        .map(|r| format!("`{}`", reason_name(r)))
        .collect::<Vec<_>>()
        .join(", ");
    object([
        ("type", "object".into()),
        (
            "description",
            "What went wrong, as google.rpc.Status.".into(),
        ),
        ("required", Json::List(vec!["error".into()])),
        (
            "properties",
            object([(
                "error",
                object([
                    ("type", "object".into()),
                    (
                        "required",
                        Json::List(vec![
                            "code".into(),
                            "status".into(),
                            "message".into(),
                            "details".into(),
                        ]),
                    ),
                    (
                        "properties",
                        object([
                            (
                                "code",
                                object([
                                    ("type", "integer".into()),
                                    ("minimum", Json::Number(400.into())),
                                    ("maximum", Json::Number(599.into())),
                                    ("description", "The HTTP status.".into()),
                                ]),
                            ),
                            (
                                "status",
                                object([
                                    ("type", "string".into()),
                                    ("description", "The google.rpc.Code by name.".into()),
                                ]),
                            ),
                            (
                                "message",
                                object([
                                    ("type", "string".into()),
                                    ("description", "A sentence for people.".into()),
                                ]),
                            ),
                            (
                                "details",
                                object([
                                    ("type", "array".into()),
                                    (
                                        "description",
                                        Json::String(format!(
                                            "Always a google.rpc.ErrorInfo and a google.rpc.RequestInfo; a google.rpc.BadRequest when fields are wrong. Reasons: {reasons}."
                                        )),
                                    ),
                                    (
                                        "items",
                                        object([
                                            ("type", "object".into()),
                                            ("required", Json::List(vec!["@type".into()])),
                                            (
                                                "properties",
                                                object([
                                                    ("@type", string()),
                                                    ("reason", string()),
                                                    ("domain", string()),
                                                    (
                                                        "metadata",
                                                        object([
                                                            ("type", "object".into()),
                                                            ("additionalProperties", string()),
                                                        ]),
                                                    ),
                                                    (
                                                        "field_violations",
                                                        object([
                                                            ("type", "array".into()),
                                                            (
                                                                "items",
                                                                object([
                                                                    ("type", "object".into()),
                                                                    (
                                                                        "properties",
                                                                        object([
                                                                            ("field", string()),
                                                                            (
                                                                                "description",
                                                                                string(),
                                                                            ),
                                                                        ]),
                                                                    ),
                                                                ]),
                                                            ),
                                                        ]),
                                                    ),
                                                    ("request_id", string()),
                                                ]),
                                            ),
                                        ]),
                                    ),
                                ]),
                            ),
                        ]),
                    ),
                ]),
            )]),
        ),
    ])
}

/// The leading comment of an element, unwrapped to paragraphs.
pub fn comment(file: &FileDescriptor, path: &[i32]) -> String {
    file.file_descriptor_proto()
        .source_code_info
        .as_ref()
        .and_then(|info| info.location.iter().find(|l| l.path == path))
        .map(|location| {
            location
                .leading_comments()
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" ")
        })
        .unwrap_or_default()
}
