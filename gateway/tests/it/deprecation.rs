//! What an operation that is to go says of itself: in the document, and at every answer.
use std::fs;
use std::path::Path;

use gpuaas_gateway::contract::deprecation::Deprecation;
use gpuaas_gateway::contract::route::{Lookup, RouteTable};
use gpuaas_gateway::http::deprecation;
use gpuaas_gateway::openapi::document;
use http::{HeaderMap, Method};
use prost_reflect::DescriptorPool;
use serde_json::Value;

/// A contract with an operation that is to go, which has these options.
fn pool(options: &str) -> DescriptorPool {
    let contract = format!(
        r#"
syntax = "proto3";
package zoo.v1;
import "google/api/annotations.proto";
import "gpuaas/options/v1/options.proto";
service Zoo {{
  // GetAnimal shows an animal.
  rpc GetAnimal(GetRequest) returns (Animal) {{
    option (google.api.http) = {{get: "/v1/animals/{{id}}"}};
    option (gpuaas.options.v1.access) = {{action: "a.get" resource: "a" audience: AUDIENCE_USER}};
  }}
  // ShowAnimal shows an animal.
  rpc ShowAnimal(GetRequest) returns (Animal) {{
    option (google.api.http) = {{get: "/v1/animals/{{id}}:show"}};
    option (gpuaas.options.v1.access) = {{action: "a.get" resource: "a" audience: AUDIENCE_USER}};
    {options}
  }}
}}
message GetRequest {{ string id = 1; }}
message Animal {{
  string id = 1;
  string title = 2 [deprecated = true];
}}
"#
    );
    let dir = tempfile::tempdir().expect("temp dir");
    fs::write(dir.path().join("zoo.proto"), contract).expect("write");
    let proto = Path::new(env!("CARGO_MANIFEST_DIR")).join("../proto");
    let mut compiler = protox::Compiler::new([dir.path(), &proto, &proto.join("third_party")])
        .expect("include paths");
    compiler.include_imports(true).include_source_info(true);
    compiler
        .open_file(dir.path().join("zoo.proto"))
        .unwrap_or_else(|error| panic!("{error:?}"));
    let set = compiler.encode_file_descriptor_set();
    DescriptorPool::decode(set.as_slice()).expect("decodes")
}

fn option(since: &str, sunset: &str, replacement: &str) -> String {
    format!(
        r#"option deprecated = true;
           option (gpuaas.options.v1.deprecation) = {{since: "{since}" sunset: "{sunset}" replacement: "{replacement}"}};"#
    )
}

#[test]
fn a_deprecated_operation_says_so_in_the_document_and_at_its_answers() {
    let pool = pool(&option("2027-01-01", "2027-07-01", "zoo.v1.Zoo.GetAnimal"));
    let table = RouteTable::build(&pool, |_| Some("zoo")).expect("served");
    let text = document(&pool, &table).to_text();
    let document: Value = serde_json::from_str(&text).expect("JSON");
    let shown = &document["paths"]["/v1/animals/{id}:show"]["get"];
    assert_eq!(shown["deprecated"], true);
    let description = shown["description"].as_str().expect("text");
    let expected = "Deprecated: it works until 2027-07-01; use `Zoo_GetAnimal`.";
    assert!(description.ends_with(expected), "{description}");
    let other = &document["paths"]["/v1/animals/{id}"]["get"];
    assert!(other.get("deprecated").is_none());
    let fields = &document["components"]["schemas"]["zoo.Animal"]["properties"];
    assert_eq!(fields["title"]["deprecated"], true, "{fields}");
    assert!(fields["id"].get("deprecated").is_none());

    let Lookup::Found(route, _) = table.lookup(&Method::GET, "/v1/animals/7:show") else {
        panic!("a route");
    };
    let mut headers = HeaderMap::new();
    let known: &Deprecation = route.deprecation.as_ref().expect("deprecated");
    deprecation::put(&mut headers, known, &route.operation_id());
    for (name, value) in [
        ("deprecation", "@1798761600"),
        ("sunset", "Thu, 01 Jul 2027 00:00:00 GMT"),
        (
            "link",
            "</reference#Zoo_ShowAnimal>; rel=\"deprecation\"; type=\"text/html\"",
        ),
    ] {
        assert_eq!(headers[name], value);
    }
}

#[test]
fn half_a_deprecation_or_too_little_time_stops_the_gateway_from_starting() {
    let only =
        r#"option (gpuaas.options.v1.deprecation) = {since: "2027-01-01" sunset: "2027-12-01"};"#;
    for (options, expected) in [
        (
            "option deprecated = true;".to_owned(),
            "no option says until when",
        ),
        (only.to_owned(), "not marked as deprecated"),
        (option("soon", "2027-12-01", ""), "since must be a day"),
        (
            option("2027-01-01", "2027-02-30", ""),
            "sunset must be a day",
        ),
        (
            option("2027-01-01", "2027-06-29", ""),
            "179 days from since to sunset",
        ),
        (option("2027-12-01", "2027-01-01", ""), "-334 days"),
        (
            option("2027-01-01", "2027-12-01", "zoo.v1.Zoo.Gone"),
            "there is no zoo.v1.Zoo.Gone",
        ),
    ] {
        let refused = RouteTable::build(&pool(&options), |_| Some("zoo"));
        let text = refused.expect_err(expected).to_string();
        assert!(text.contains(expected), "{text}");
        assert!(text.contains("zoo.v1.Zoo.ShowAnimal"), "{text}");
    }
    let enough = option("2027-01-01", "2027-06-30", "");
    RouteTable::build(&pool(&enough), |_| Some("zoo")).expect("180 days are enough");
}
