//! One route as an OpenAPI operation.
use http::Method;
use prost_reflect::{FieldDescriptor, Kind, MessageDescriptor};

use super::schema::{Schemas, comment};
use crate::contract::access::behavior_of;
use crate::contract::route::{Body, Route};
use crate::contract::template::Segment;
use crate::json::{Json, object};
use crate::transcode::mask::{MAX_CHARS, READ_MASK};
use gpuaas_common::access::Group;

/// The path of a route. Dotted variables become underscored: generators of clients choke on dots.
pub fn openapi_path(route: &Route) -> String {
    let mut path = String::new();
    for segment in &route.template.segments {
        path.push('/');
        match segment {
            Segment::Literal(literal) => path.push_str(literal),
            Segment::Variable(field) => path.push_str(&format!("{{{}}}", field.replace('.', "_"))),
        }
    }
    if let Some(verb) = &route.template.verb {
        path.push(':');
        path.push_str(verb);
    }
    path
}

/// The operation.
pub fn operation(route: &Route, schemas: &mut Schemas) -> Json {
    let service = route.method.parent_service();
    let description = comment(&route.method.parent_file(), route.method.path());
    let summary = description
        .split_inclusive(". ")
        .next()
        .unwrap_or_default()
        .trim()
        .trim_end_matches('.')
        .to_owned();
    let mut entries = vec![
        ("operationId".to_owned(), Json::String(route.operation_id())),
        ("summary".to_owned(), Json::String(summary)),
        (
            "description".to_owned(),
            Json::String(with_access(&description, route)),
        ),
        ("tags".to_owned(), Json::List(vec![service.name().into()])),
    ];
    if route.deprecation.is_some() {
        entries.push(("deprecated".to_owned(), Json::Bool(true)));
    }
    let parameters = parameters(route, schemas);
    if !parameters.is_empty() {
        entries.push(("parameters".to_owned(), Json::List(parameters)));
    }
    if let Some(body) = request_body(route, schemas) {
        entries.push(("requestBody".to_owned(), body));
    }
    let answer = schemas.message(&route.method.output());
    entries.push((
        "responses".to_owned(),
        object([
            (
                "200",
                object([
                    ("description", "The call succeeded.".into()),
                    (
                        "headers",
                        object([(
                            "X-Request-Id",
                            object([("$ref", "#/components/headers/RequestId".into())]),
                        )]),
                    ),
                    ("content", content(route, answer)),
                ]),
            ),
            (
                "default",
                object([("$ref", "#/components/responses/Error".into())]),
            ),
        ]),
    ));
    Json::Object(entries)
}

/// What a success carries: one object, or a stream of them in both its forms.
fn content(route: &Route, answer: Json) -> Json {
    if !route.method.is_server_streaming() {
        return object([("application/json", object([("schema", answer)]))]);
    }
    let lines = "One JSON object per line: the message, or at the end {\"error\": …}.";
    let events = "Server-sent events. `event` is the member of the message that is set, `data` the message as JSON, `id` its resume token; at the end there may be an event `error`.";
    let schema = |description: &str, answer: Json| {
        let error = object([("$ref", "#/components/schemas/Error".into())]);
        object([(
            "schema",
            object([
                ("description", description.into()),
                ("anyOf", Json::List(vec![answer, error])),
            ]),
        )])
    };
    object([
        ("application/x-ndjson", schema(lines, answer.clone())),
        ("text/event-stream", schema(events, answer)),
    ])
}

fn with_access(description: &str, route: &Route) -> String {
    let who = match route.group {
        Group::Own | Group::OwnWrite | Group::Catalog => "Every registered principal",
        Group::OrganisationRead => "Members of the organisation",
        Group::OrganisationManage => "Owners of the organisation",
        Group::Scim => "Keys for SCIM of the organisation",
        Group::Read => "Owners, members and viewers of the project",
        Group::Billing => "All roles in the project",
        Group::Write | Group::Terminal => "Owners and members of the project",
        Group::Manage => "Owners of the project",
        Group::AdminRead => "All platform roles",
        Group::AdminOperate => "Platform administrators and operators",
        Group::AdminManage => "Platform administrators",
    };
    let over = route.deprecation.as_ref().map(|deprecation| {
        let instead = match &deprecation.replacement {
            Some(method) => {
                let mut names = method.rsplit('.');
                let name = names.next().unwrap_or_default();
                let service = names.next().unwrap_or_default();
                format!("; use `{service}_{name}`")
            }
            None => String::new(),
        };
        format!(
            "\n\nDeprecated: it works until {}{instead}.",
            deprecation.sunset_day()
        )
    });
    format!(
        "{description}\n\n{who}; action `{}` on `{}`.{}",
        route.access.action,
        route.access.resource,
        over.unwrap_or_default()
    )
}

fn parameters(route: &Route, schemas: &mut Schemas) -> Vec<Json> {
    let mut found = Vec::new();
    for variable in route.template.variables() {
        let Some(field) = field_at(&route.method.input(), variable) else {
            continue;
        };
        found.push(parameter(
            &variable.replace('.', "_"),
            "path",
            true,
            &field,
            schemas,
        ));
    }
    if route.body != Body::Whole {
        for field in route.method.input().fields() {
            let in_path = route.template.variables().any(|v| v == field.name());
            let in_body = matches!(&route.body, Body::Field(name) if name == field.name());
            if !in_path && !in_body {
                query_parameters(field.name(), &field, schemas, &mut found);
            }
        }
    }
    if route.method.is_server_streaming() {
        found.push(object([
            ("name", "Last-Event-ID".into()),
            ("in", "header".into()),
            ("required", Json::Bool(false)),
            (
                "description",
                "What a browser sends when it opens the events again; taken as `resume_token`."
                    .into(),
            ),
            ("schema", object([("type", "string".into())])),
        ]));
    }
    if route.http_method == Method::GET && !route.method.is_server_streaming() {
        found.push(object([(
            "$ref",
            "#/components/parameters/ReadMask".into(),
        )]));
    }
    if route.http_method != Method::GET && !route.access.no_effect {
        found.push(object([(
            "$ref",
            "#/components/parameters/IdempotencyKey".into(),
        )]));
    }
    found
}

/// A field as it is given in a query; of a message each of its fields, as `field.its_field`.
fn query_parameters(
    name: &str,
    field: &FieldDescriptor,
    schemas: &mut Schemas,
    found: &mut Vec<Json>,
) {
    if field.is_map() {
        return;
    }
    match field.kind() {
        Kind::Message(inner) if !inner.full_name().starts_with("google.protobuf.") => {
            if !field.is_list() {
                for one in inner.fields() {
                    let name = format!("{name}.{}", one.name());
                    query_parameters(&name, &one, schemas, found);
                }
            }
        }
        _ => {
            let required = behavior_of(field).required;
            found.push(parameter(name, "query", required, field, schemas));
        }
    }
}

fn parameter(
    name: &str,
    place: &str,
    required: bool,
    field: &FieldDescriptor,
    schemas: &mut Schemas,
) -> Json {
    let mut schema = schemas.field_of_request(field);
    let mut description = None;
    if let Json::Object(entries) = &mut schema {
        entries.retain(|(key, value)| {
            let is_description = key == "description";
            if is_description {
                description = Some(value.clone());
            }
            !is_description
        });
    }
    let mut entries = vec![
        ("name".to_owned(), Json::from(name)),
        ("in".to_owned(), Json::from(place)),
        ("required".to_owned(), Json::Bool(required)),
    ];
    entries.extend(description.map(|d| ("description".to_owned(), d)));
    entries.push(("schema".to_owned(), schema));
    Json::Object(entries)
}

/// The body's schema. Fields that the path binds are not demanded of the body.
fn request_body(route: &Route, schemas: &mut Schemas) -> Option<Json> {
    let (schema, required) = match &route.body {
        Body::None => return None,
        Body::Field(name) => {
            let field = route.method.input().get_field_by_name(name)?;
            (schemas.message(field.kind().as_message()?), true)
        }
        Body::Whole => {
            let in_path: Vec<&str> = route.template.variables().collect();
            let fields: Vec<FieldDescriptor> = route
                .method
                .input()
                .fields()
                .filter(|f| !in_path.contains(&f.name()))
                .collect();
            let required: Vec<Json> = fields
                .iter()
                .filter(|f| behavior_of(f).required)
                .map(|f| f.name().into())
                .collect();
            let demanded = !required.is_empty();
            let mut entries = vec![("type".to_owned(), Json::from("object"))];
            if demanded {
                entries.push(("required".to_owned(), Json::List(required)));
            }
            let properties = fields
                .iter()
                .map(|f| (f.name().to_owned(), schemas.field_of_request(f)))
                .collect();
            entries.push(("properties".to_owned(), Json::Object(properties)));
            entries.push(("additionalProperties".to_owned(), Json::Bool(false)));
            (Json::Object(entries), demanded)
        }
    };
    let mut media = vec![("schema".to_owned(), schema)];
    media.extend(example(route).map(|e| ("example".to_owned(), e)));
    Some(object([
        ("required", Json::Bool(required)),
        (
            "content",
            object([("application/json", Json::Object(media))]),
        ),
    ]))
}

/// An example that works on a fresh development stack, for the call everybody makes first.
fn example(route: &Route) -> Option<Json> {
    (route.method.full_name() == "gpuaas.allocation.v1.AllocationService.CreateAllocation").then(|| {
        object([
            ("name", "first".into()),
            ("region_code", "lab".into()),
            ("sku", "lab-slice".into()),
            ("gpu_count", Json::Number(1.into())),
            ("image", "lab-mini".into()),
            ("ssh_public_keys", Json::List(vec!["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEXAMPLEEXAMPLEEXAMPLEEXAMPLEEXAMPLEEXAM you@example.com".into()])),
        ])
    })
}

fn field_at(descriptor: &MessageDescriptor, path: &str) -> Option<FieldDescriptor> {
    let mut message = descriptor.clone();
    let mut parts = path.split('.').peekable();
    while let Some(part) = parts.next() {
        let field = message.get_field_by_name(part)?;
        if parts.peek().is_none() {
            return Some(field);
        }
        message = field.kind().as_message()?.clone();
    }
    None
}

/// The idempotency header of every call that changes something.
pub fn idempotency_parameter() -> Json {
    object([
        ("name", "X-Idempotency-Key".into()),
        ("in", "header".into()),
        ("required", Json::Bool(false)),
        (
            "description",
            "Names this attempt: 1 to 128 visible ASCII characters. A repeated call with the same key has one effect. Required, except when `validate_only` is true.".into(),
        ),
        (
            "schema",
            object([
                ("type", "string".into()),
                ("minLength", Json::Number(1.into())),
                ("maxLength", Json::Number(128.into())),
                ("pattern", "^[!-~]+$".into()),
            ]),
        ),
    ])
}

/// The field mask of every read.
pub fn read_mask_parameter() -> Json {
    object([
        ("name", READ_MASK.into()),
        ("in", "query".into()),
        ("required", Json::Bool(false)),
        (
            "description",
            "Fields of the answer that are wanted, as paths with commas between them; in a list, of each of its items: `allocations.id,next_page_token`. Absent: all.".into(),
        ),
        (
            "schema",
            object([
                ("type", "string".into()),
                ("maxLength", Json::Number(MAX_CHARS.into())),
            ]),
        ),
    ])
}

/// The request id that every answer carries.
pub fn request_id_header() -> Json {
    object([
        (
            "description",
            "Names this request in logs and traces; quote it when asking for help.".into(),
        ),
        ("schema", object([("type", "string".into())])),
    ])
}

/// The answer of every failure.
pub fn error_response() -> Json {
    object([
        ("description", "The call was refused or failed.".into()),
        (
            "headers",
            object([(
                "X-Request-Id",
                object([("$ref", "#/components/headers/RequestId".into())]),
            )]),
        ),
        (
            "content",
            object([(
                "application/json",
                object([(
                    "schema",
                    object([("$ref", "#/components/schemas/Error".into())]),
                )]),
            )]),
        ),
    ])
}
