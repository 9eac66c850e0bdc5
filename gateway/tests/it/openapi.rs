//! The OpenAPI document: well-formed, complete, no dangling reference, and the committed copy is current.
use std::collections::BTreeSet;

use gpuaas_gateway::openapi::document;
use gpuaas_gateway::routes;
use serde_json::Value;

fn parsed() -> Value {
    let text = document(gpuaas_proto::pool(), &routes().expect("served")).to_text();
    serde_json::from_str(&text).expect("valid JSON")
}

fn walk<'a>(value: &'a Value, visit: &mut impl FnMut(&'a serde_json::Map<String, Value>)) {
    match value {
        Value::Object(map) => {
            visit(map);
            map.values().for_each(|v| walk(v, visit));
        }
        Value::Array(list) => list.iter().for_each(|v| walk(v, visit)),
        _ => {}
    }
}

#[test]
fn every_route_is_in_the_document_and_nothing_else() {
    let document = parsed();
    let written: BTreeSet<String> = document["paths"]
        .as_object()
        .expect("paths")
        .iter()
        .flat_map(|(path, item)| {
            item.as_object()
                .expect("item")
                .keys()
                .map(move |verb| format!("{} {path}", verb.to_uppercase()))
        })
        .collect();
    let served: BTreeSet<String> = routes()
        .expect("served")
        .routes()
        .iter()
        .map(|r| {
            format!(
                "{} {}",
                r.http_method,
                r.pattern
                    .replace("{region.code}", "{region_code}")
                    .replace("{sku.code}", "{sku_code}")
            )
        })
        .collect();
    assert_eq!(written, served);
}

#[test]
fn every_reference_leads_somewhere() {
    let document = parsed();
    let mut references = BTreeSet::new();
    walk(&document, &mut |map| {
        if let Some(Value::String(reference)) = map.get("$ref") {
            references.insert(reference.clone());
        }
    });
    assert!(references.len() > 10);
    for reference in references {
        let pointer = reference.strip_prefix('#').expect("a local reference");
        assert!(document.pointer(pointer).is_some(), "{reference}");
    }
}

#[test]
fn operations_are_complete() {
    let document = parsed();
    let mut ids = BTreeSet::new();
    for (path, item) in document["paths"].as_object().expect("paths") {
        for (verb, operation) in item.as_object().expect("item") {
            let name = format!("{verb} {path}");
            let id = operation["operationId"].as_str().expect("operationId");
            assert!(ids.insert(id.to_owned()), "{name}: {id} is used twice");
            assert!(
                operation["summary"].as_str().is_some_and(|s| s.len() > 5),
                "{name} has a summary"
            );
            let content = &operation["responses"]["200"]["content"];
            let is_stream = path.ends_with(":watch") || path.ends_with("/serial-log");
            let forms: &[&str] = if is_stream {
                &["application/x-ndjson", "text/event-stream"]
            } else {
                &["application/json"]
            };
            for form in forms {
                assert!(content[form]["schema"].is_object(), "{name}: {form}");
            }
            assert_eq!(
                content.as_object().map(serde_json::Map::len),
                Some(forms.len())
            );
            assert!(
                operation["responses"]["default"].is_object(),
                "{name} documents errors"
            );
            let parameters = operation["parameters"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            let key = parameters
                .iter()
                .any(|p| p["$ref"] == "#/components/parameters/IdempotencyKey");
            // a POST that changes nothing needs none
            let changes = verb != "get" && path != "/api/v1/auth/token";
            assert_eq!(key, changes, "{name} documents the idempotency key");
            for part in path
                .split('/')
                .filter_map(|p| p.strip_prefix('{'))
                .filter_map(|p| p.split('}').next())
            {
                let found = parameters
                    .iter()
                    .any(|p| p["name"] == part && p["in"] == "path" && p["required"] == true);
                assert!(found, "{name} documents {part}");
                assert!(
                    !part.contains('.'),
                    "{name}: generators choke on dotted parameters"
                );
            }
        }
    }
}

#[test]
fn required_fields_and_enum_values_are_documented() {
    let document = parsed();
    let body = &document["paths"]["/api/v1/allocations"]["post"]["requestBody"]["content"]["application/json"];
    let required: Vec<&str> = body["schema"]["required"]
        .as_array()
        .expect("required")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    assert_eq!(
        required,
        ["name", "region_code", "sku", "gpu_count", "image",]
    );
    assert!(body["example"].is_object());
    let shape = &document["components"]["schemas"]["common.CapacityShape"]["enum"];
    assert_eq!(
        *shape,
        serde_json::json!(["unspecified", "baremetal", "gpu_slice"])
    );
    assert_eq!(
        document["components"]["securitySchemes"]["bearer"]["scheme"],
        "bearer"
    );
    assert_eq!(document["openapi"], "3.1.0");
}

/// Fields of a message are given in a query one by one, as the gateway reads them (B-57).
#[test]
fn a_scalar_that_may_be_unset_is_told_from_one_that_is_always_written() {
    let document = parsed();
    let schemas = &document["components"]["schemas"];
    let module = &schemas["common.GpuDevice"]["properties"]["module_id"];
    assert_eq!(module["x-optional"], true);
    let id = &schemas["allocation.Allocation"]["properties"]["id"];
    assert_eq!(id["type"], "string");
    assert!(id["x-optional"].is_null());
}

#[test]
fn b_57_a_query_names_the_fields_of_a_message() {
    let document = parsed();
    for path in [
        "/api/v1/availability:explain",
        "/api/v1/admin/node-placements:explain",
    ] {
        let parameters = document["paths"][path]["get"]["parameters"].as_array();
        let names: BTreeSet<&str> = parameters
            .expect("parameters")
            .iter()
            .filter(|one| one["in"] == "query")
            .filter_map(|one| one["name"].as_str())
            .filter(|name| name.starts_with("placement"))
            .collect();
        let expected = [
            "placement.require_prewarmed",
            "placement.affinity",
            "placement.affinity_label",
            "placement.anti_affinity",
            "placement.anti_affinity_label",
        ];
        assert_eq!(names, BTreeSet::from(expected), "{path}");
    }
}

/// Clients may refuse before they ask what the gateway would refuse for its kind alone.
#[test]
fn the_limits_of_fields_are_documented() {
    let document = parsed();
    let body = &document["paths"]["/api/v1/allocations"]["post"]["requestBody"]["content"]["application/json"];
    let launch = &body["schema"]["properties"];
    assert_eq!(launch["name"]["minLength"], 1, "required");
    assert_eq!(launch["project_id"]["type"], "string");
    assert!(launch["project_id"]["minLength"].is_null(), "not required");
    assert_eq!(launch["gpu_count"]["minimum"], 1, "required");
    assert_eq!(launch["gpu_count"]["maximum"], u32::MAX);
    let list = &document["paths"]["/api/v1/allocations"]["get"]["parameters"];
    let mut parameters = list.as_array().expect("parameters").iter();
    let size = parameters.find(|one| one["name"] == "page_size");
    let size = &size.expect("a page's size")["schema"];
    assert_eq!(size["minimum"], i32::MIN);
    assert_eq!(size["maximum"], i32::MAX);
    let mut wide = 0;
    walk(&document, &mut |map| {
        let pattern = match map.get("format").and_then(Value::as_str) {
            Some("int64") => "^-?[0-9]+$",
            Some("uint64") => "^[0-9]+$",
            _ => return,
        };
        assert_eq!(map["pattern"], pattern);
        wide += 1;
    });
    assert!(wide > 10);
    let code =
        &document["components"]["schemas"]["Error"]["properties"]["error"]["properties"]["code"];
    assert_eq!(
        (&code["minimum"], &code["maximum"]),
        (&400.into(), &599.into())
    );
}

#[test]
fn users_schemas_carry_no_pci_detail() {
    let document = parsed();
    let allocation = document["components"]["schemas"]["allocation.Allocation"].to_string();
    assert!(!allocation.contains("pci"));
}

#[test]
fn the_committed_document_is_current() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../docs/reference/openapi.json"
    );
    let committed =
        std::fs::read_to_string(path).expect("docs/reference/openapi.json is committed");
    let current = gpuaas_gateway::openapi_text().expect("served");
    assert!(
        committed.trim_end() == current,
        "docs/reference/openapi.json is stale: run gpuaas-gateway openapi > docs/reference/openapi.json"
    );
}

#[test]
fn the_committed_document_of_events_is_current_and_names_every_type() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../docs/reference/asyncapi.json"
    );
    let committed =
        std::fs::read_to_string(path).expect("docs/reference/asyncapi.json is committed");
    let current = gpuaas_gateway::asyncapi_text().expect("written");
    assert!(
        committed.trim_end() == current,
        "docs/reference/asyncapi.json is stale: run gpuaas-gateway asyncapi > docs/reference/asyncapi.json"
    );
    let document: Value = serde_json::from_str(&current).expect("JSON");
    assert_eq!(document["asyncapi"], "3.0.0");
    let messages = document["components"]["messages"]
        .as_object()
        .expect("messages");
    let types = gpuaas_gateway::webhooks::event_types::EVENT_TYPES;
    assert_eq!(messages.len(), types.len() + 1, "and the ping");
    // every reference leads somewhere
    let mut open = vec![&document];
    while let Some(value) = open.pop() {
        match value {
            Value::Object(fields) => {
                if let Some(to) = fields.get("$ref").and_then(Value::as_str) {
                    let pointer = to.strip_prefix('#').expect("in the document");
                    assert!(document.pointer(pointer).is_some(), "{to}");
                }
                open.extend(fields.values());
            }
            Value::Array(items) => open.extend(items),
            _ => {}
        }
    }
}
