//! OpenAPI 3.1 from the descriptors: the document cannot disagree with what is served, because both come
//! from the same route table.
pub mod asyncapi;
mod operation;
mod schema;

use std::collections::BTreeMap;

use prost_reflect::DescriptorPool;

use crate::contract::route::RouteTable;
use crate::json::{Json, object};

/// Builds the document.
pub fn document(pool: &DescriptorPool, table: &RouteTable) -> Json {
    let mut schemas = schema::Schemas::default();
    let mut paths: Vec<(String, Vec<(String, Json)>)> = Vec::new();
    let mut tags: BTreeMap<String, String> = BTreeMap::new();
    for route in table.routes() {
        let service = route.method.parent_service();
        tags.entry(service.name().to_owned())
            .or_insert_with(|| schema::comment(&service.parent_file(), service.path()));
        let path = operation::openapi_path(route);
        let verb = route.http_method.as_str().to_ascii_lowercase();
        let operation = operation::operation(route, &mut schemas);
        match paths.iter_mut().find(|(known, _)| *known == path) {
            Some((_, operations)) => operations.push((verb, operation)),
            None => paths.push((path, vec![(verb, operation)])),
        }
    }
    paths.sort_by(|a, b| a.0.cmp(&b.0));
    let components = schemas.finish(pool);
    object([
        ("openapi", "3.1.0".into()),
        (
            "info",
            object([
                ("title", "GPUaaS".into()),
                ("version", "v1".into()),
                ("description", INTRODUCTION.into()),
                (
                    "license",
                    object([
                        ("name", "Apache-2.0".into()),
                        ("identifier", "Apache-2.0".into()),
                    ]),
                ),
            ]),
        ),
        ("servers", Json::List(vec![object([("url", "/".into())])])),
        (
            "security",
            Json::List(vec![object([("bearer", Json::List(Vec::new()))])]),
        ),
        (
            "tags",
            Json::List(
                tags.into_iter()
                    .map(|(name, description)| {
                        object([
                            ("name", Json::String(name)),
                            ("description", Json::String(description)),
                        ])
                    })
                    .collect(),
            ),
        ),
        (
            "paths",
            Json::Object(
                paths
                    .into_iter()
                    .map(|(path, operations)| (path, Json::Object(operations)))
                    .collect(),
            ),
        ),
        (
            "components",
            object([
                (
                    "securitySchemes",
                    object([(
                        "bearer",
                        object([
                            ("type", "http".into()),
                            ("scheme", "bearer".into()),
                            ("bearerFormat", "JWT".into()),
                            (
                                "description",
                                "A token of a configured issuer, with this API as its audience."
                                    .into(),
                            ),
                        ]),
                    )]),
                ),
                (
                    "headers",
                    object([("RequestId", operation::request_id_header())]),
                ),
                (
                    "parameters",
                    object([
                        ("IdempotencyKey", operation::idempotency_parameter()),
                        ("ReadMask", operation::read_mask_parameter()),
                    ]),
                ),
                (
                    "responses",
                    object([("Error", operation::error_response())]),
                ),
                ("schemas", components),
            ]),
        ),
    ])
}

const INTRODUCTION: &str = "Launch, use and release GPU capacity.\n\n\
Fields keep their proto names. Enum values are lower-case. 64-bit integers are strings; in a request they may be numbers, \
too. In a request `null` is the same as leaving the field out. Unknown fields and unknown query \
parameters are refused by name. Every call that changes something needs `X-Idempotency-Key`; the same key with the same \
request answers with the same resource, with another request it is refused. Every answer carries `X-Request-Id`.";
