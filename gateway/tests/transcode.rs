//! Binding and writing over a contract made for the test, with every shape that `google.api.http` allows here.
use std::fs;
use std::path::Path;

use gpuaas_gateway::contract::route::{Lookup, RouteTable};
use gpuaas_gateway::error::ApiError;
use gpuaas_gateway::transcode::json::Json;
use gpuaas_gateway::transcode::request::bind;
use gpuaas_gateway::transcode::write::{Defaults, write_message};
use http::Method;
use proptest::prelude::*;
use prost_reflect::{DescriptorPool, DynamicMessage};

const CONTRACT: &str = r#"
syntax = "proto3";
package zoo.v1;
import "google/api/annotations.proto";
import "google/api/field_behavior.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/field_mask.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/timestamp.proto";
import "gpuaas/options/v1/options.proto";

service Zoo {
  rpc Get(GetRequest) returns (Animal) {
    option (google.api.http) = {
      get: "/v1/animals/{id}"
      additional_bindings: {get: "/v1/cages/{filter.cage}/animals/{id}"}
    };
    option (gpuaas.options.v1.access) = {action: "a.get" resource: "a" audience: AUDIENCE_USER};
  }
  rpc Put(PutRequest) returns (Animal) {
    option (google.api.http) = {put: "/v1/animals/{animal.id}" body: "animal"};
    option (gpuaas.options.v1.access) = {action: "a.put" resource: "a" audience: AUDIENCE_USER};
  }
  rpc Update(UpdateRequest) returns (Animal) {
    option (google.api.http) = {patch: "/v1/animals/{animal.id}" body: "animal"};
    option (gpuaas.options.v1.access) = {action: "a.patch" resource: "a" audience: AUDIENCE_USER};
  }
  rpc Feed(FeedRequest) returns (Animal) {
    option (google.api.http) = {post: "/v1/animals/{id}:feed" body: "*"};
    option (gpuaas.options.v1.access) = {action: "a.feed" resource: "a" audience: AUDIENCE_USER};
  }
}

message GetRequest {
  message Filter { string cage = 1; repeated Diet diets = 2; google.protobuf.Timestamp since = 3; }
  string id = 1;
  Filter filter = 2;
  repeated uint32 pages = 3;
  google.protobuf.FieldMask read_mask = 4;
  bool deep = 5;
}
message PutRequest { Animal animal = 1 [(google.api.field_behavior) = REQUIRED]; bool validate_only = 2; }
message UpdateRequest { Animal animal = 1; google.protobuf.FieldMask update_mask = 2; }
message FeedRequest {
  string id = 1 [(google.api.field_behavior) = REQUIRED];
  string food_name = 2 [(google.api.field_behavior) = REQUIRED];
  oneof amount { uint32 grams = 3; uint32 pieces = 4; }
  google.protobuf.Duration pause = 5;
  google.protobuf.Struct notes = 6;
}
enum Diet { DIET_UNSPECIFIED = 0; DIET_MEAT = 1; DIET_PLANTS_ONLY = 2; }
message Animal {
  string id = 1;
  string name = 2 [(google.api.field_behavior) = REQUIRED];
  Diet diet = 3;
  int64 weight_mg = 4;
  uint64 steps = 5;
  double speed = 6;
  bytes tag = 7;
  optional uint32 age = 8;
  repeated string names = 9;
  map<string, int32> counts = 10;
  Animal mother = 11;
  google.protobuf.Timestamp born = 12;
  string seen_by = 13 [(google.api.field_behavior) = OUTPUT_ONLY];
  int32 legs = 14;
  bool tame = 15;
  float size = 16;
}
"#;

fn table() -> (DescriptorPool, RouteTable) {
    let dir = tempfile::tempdir().expect("temp dir");
    fs::write(dir.path().join("zoo.proto"), CONTRACT).expect("write");
    let proto = Path::new(env!("CARGO_MANIFEST_DIR")).join("../proto");
    let mut compiler = protox::Compiler::new([dir.path(), &proto, &proto.join("third_party")])
        .expect("include paths");
    compiler.include_imports(true).include_source_info(true);
    compiler
        .open_file(dir.path().join("zoo.proto"))
        .unwrap_or_else(|e| panic!("{e:?}"));
    let pool =
        DescriptorPool::decode(compiler.encode_file_descriptor_set().as_slice()).expect("decodes");
    let table = RouteTable::build(&pool, |_| Some("zoo")).expect("served");
    (pool, table)
}

fn request(method: &Method, target: &str, body: &str) -> Result<DynamicMessage, ApiError> {
    let (_pool, table) = table();
    let (path, query) = target
        .split_once('?')
        .map_or((target, None), |(p, q)| (p, Some(q)));
    match table.lookup(method, path) {
        Lookup::Found(route, bound) => bind(route, &bound, query, body.as_bytes()),
        other => panic!("{target}: {other:?}"),
    }
}

fn shown(message: &DynamicMessage) -> String {
    write_message(message, Defaults::Omit).to_text()
}

#[test]
fn what_binds() {
    let table: &[(Method, &str, &str, &str)] = &[
        (Method::GET, "/v1/animals/a%20b", "", r#"{"id":"a b"}"#),
        (
            Method::GET,
            "/v1/cages/c1/animals/a1",
            "",
            r#"{"id":"a1","filter":{"cage":"c1"}}"#,
        ),
        (
            Method::GET,
            "/v1/animals/a1?filter.cage=c+1&filter.diets=meat&filter.diets=DIET_PLANTS_ONLY&pages=1&pages=2&deep=true",
            "",
            r#"{"id":"a1","filter":{"cage":"c 1","diets":["meat","plants_only"]},"pages":[1,2],"deep":true}"#,
        ),
        (
            Method::GET,
            "/v1/animals/a1?filter.since=2026-01-31T12:00:00Z",
            "",
            r#"{"id":"a1","filter":{"since":"2026-01-31T12:00:00Z"}}"#,
        ),
        (
            Method::GET,
            "/v1/animals/a1?read_mask=name,diet",
            "",
            r#"{"id":"a1","read_mask":"name,diet"}"#,
        ),
        (
            Method::PUT,
            "/v1/animals/a1",
            r#"{"name":"Leo"}"#,
            r#"{"animal":{"id":"a1","name":"Leo"}}"#,
        ),
        (
            Method::PUT,
            "/v1/animals/a1?validate_only=true",
            r#"{"id":"a1","name":"Leo"}"#,
            r#"{"animal":{"id":"a1","name":"Leo"},"validate_only":true}"#,
        ),
        (
            Method::PUT,
            "/v1/animals/a1",
            r#"{"name":"Leo","seen_by":"me","age":null}"#,
            r#"{"animal":{"id":"a1","name":"Leo"}}"#,
        ),
        (
            Method::PUT,
            "/v1/animals/a1",
            r#"{"name":"L","diet":"meat","weight_mg":"-5","steps":18446744073709551615,"speed":1.5,"tag":"AQI=","age":0,"names":["x"],"counts":{"b":1,"a":-2},"mother":{"name":"M"},"born":"2026-01-01T00:00:00.5Z","legs":4.0}"#,
            r#"{"animal":{"id":"a1","name":"L","diet":"meat","weight_mg":"-5","steps":"18446744073709551615","speed":1.5,"tag":"AQI=","age":0,"names":["x"],"counts":{"a":-2,"b":1},"mother":{"name":"M"},"born":"2026-01-01T00:00:00.500Z","legs":4}}"#,
        ),
        (
            Method::PATCH,
            "/v1/animals/a1",
            r#"{"name":"L","mother":{"name":"M"}}"#,
            r#"{"animal":{"id":"a1","name":"L","mother":{"name":"M"}},"update_mask":"name,mother.name"}"#,
        ),
        (
            Method::PATCH,
            "/v1/animals/a1?update_mask=diet,name",
            r#"{"name":"L"}"#,
            r#"{"animal":{"id":"a1","name":"L"},"update_mask":"diet,name"}"#,
        ),
        (
            Method::POST,
            "/v1/animals/a1:feed",
            r#"{"food_name":"hay","grams":0,"pause":"1.5s","notes":{"a":[1,null]}}"#,
            r#"{"id":"a1","food_name":"hay","grams":0,"pause":"1.500s","notes":{"a":[1.0,null]}}"#,
        ),
    ];
    for (method, target, body, expected) in table {
        let message = request(method, target, body)
            .unwrap_or_else(|e| panic!("{method} {target}: {} {:?}", e.message(), e.violations()));
        assert_eq!(shown(&message), *expected, "{method} {target}");
    }
}

#[test]
fn what_is_refused_and_how_it_is_named() {
    let long = "1".repeat(400);
    let table: &[(Method, &str, &str, &str, &str, &str)] = &[
        (
            Method::GET,
            "/v1/animals/a1?colour=red",
            "",
            "FIELD_UNKNOWN",
            "colour",
            "is not a known query parameter",
        ),
        (
            Method::GET,
            "/v1/animals/a1?readMask=name",
            "",
            "FIELD_UNKNOWN",
            "readMask",
            "did you mean read_mask?",
        ),
        (
            Method::GET,
            "/v1/animals/a1?id=b",
            "",
            "FIELD_UNKNOWN",
            "id",
            "must not be given in the query",
        ),
        (
            Method::GET,
            "/v1/animals/a1?filter.diets=fish",
            "",
            "FIELD_INVALID",
            "filter.diets",
            "must be one of meat, plants_only",
        ),
        (
            Method::GET,
            "/v1/animals/a1?deep=yes",
            "",
            "FIELD_INVALID",
            "deep",
            "must be true or false",
        ),
        (
            Method::GET,
            "/v1/animals/a1?deep=true&deep=false",
            "",
            "FIELD_INVALID",
            "deep",
            "is given more than once",
        ),
        (
            Method::GET,
            "/v1/animals/a1?pages=-1",
            "",
            "FIELD_INVALID",
            "pages",
            "must be a whole number from 0 to 4294967295",
        ),
        (
            Method::GET,
            "/v1/animals/a1?deep=%zz",
            "",
            "FIELD_INVALID",
            "deep",
            "is not correctly percent-encoded",
        ),
        (
            Method::GET,
            "/v1/animals/a1?filter.since=monday",
            "",
            "FIELD_INVALID",
            "filter.since",
            "RFC 3339",
        ),
        (
            Method::GET,
            "/v1/animals/a1",
            "{}",
            "BODY_MALFORMED",
            "",
            "",
        ),
        (Method::PUT, "/v1/animals/a1", "{", "BODY_MALFORMED", "", ""),
        (
            Method::PUT,
            "/v1/animals/a1",
            "{} {}",
            "BODY_MALFORMED",
            "",
            "",
        ),
        (
            Method::PUT,
            "/v1/animals/a1",
            "\u{feff}{}",
            "BODY_MALFORMED",
            "",
            "",
        ),
        (
            Method::PUT,
            "/v1/animals/a1",
            "[]",
            "FIELD_INVALID",
            "animal",
            "must be an object, not a list",
        ),
        (
            Method::PUT,
            "/v1/animals/a1",
            "",
            "FIELD_REQUIRED",
            "animal.name",
            "is required",
        ),
        (
            Method::PUT,
            "/v1/animals/a1",
            r#"{"name":"L","mother":{}}"#,
            "FIELD_REQUIRED",
            "animal.mother.name",
            "is required",
        ),
        (
            Method::PUT,
            "/v1/animals/a1",
            r#"{"name":"L","colour":1}"#,
            "FIELD_UNKNOWN",
            "animal.colour",
            "is not a known field",
        ),
        (
            Method::PUT,
            "/v1/animals/a1",
            r#"{"name":"L","weightMg":1}"#,
            "FIELD_UNKNOWN",
            "animal.weightMg",
            "did you mean weight_mg?",
        ),
        (
            Method::PUT,
            "/v1/animals/a1",
            r#"{"name":"L","name":"M"}"#,
            "FIELD_INVALID",
            "animal.name",
            "is given more than once",
        ),
        (
            Method::PUT,
            "/v1/animals/a1",
            r#"{"name":"L","counts":{"a":1,"a":2}}"#,
            "FIELD_INVALID",
            "animal.counts.a",
            "is given more than once",
        ),
        (
            Method::PUT,
            "/v1/animals/a1",
            r#"{"name":"L","id":"a2"}"#,
            "FIELD_INVALID",
            "animal.id",
            "must equal the value in the path",
        ),
        (
            Method::PUT,
            "/v1/animals/a1?animal.name=x",
            r#"{"name":"L"}"#,
            "FIELD_UNKNOWN",
            "animal.name",
            "must not be given in the query",
        ),
        (
            Method::PUT,
            "/v1/animals/a1",
            r#"{"name":7}"#,
            "FIELD_INVALID",
            "animal.name",
            "must be a string, not a number",
        ),
        (
            Method::PUT,
            "/v1/animals/a1",
            r#"{"name":"a\u0000b"}"#,
            "FIELD_INVALID",
            "animal.name",
            "NUL",
        ),
        (
            Method::PUT,
            "/v1/animals/a1",
            r#"{"name":"L","diet":"fish"}"#,
            "FIELD_INVALID",
            "animal.diet",
            "must be one of meat, plants_only",
        ),
        (
            Method::PUT,
            "/v1/animals/a1",
            r#"{"name":"L","diet":"Meat"}"#,
            "FIELD_INVALID",
            "animal.diet",
            "must be one of",
        ),
        (
            Method::PUT,
            "/v1/animals/a1",
            r#"{"name":"L","diet":1}"#,
            "FIELD_INVALID",
            "animal.diet",
            "must be one of",
        ),
        (
            Method::PUT,
            "/v1/animals/a1",
            r#"{"name":"L","names":"x"}"#,
            "FIELD_INVALID",
            "animal.names",
            "must be a list, not a string",
        ),
        (
            Method::PUT,
            "/v1/animals/a1",
            r#"{"name":"L","names":["x",null]}"#,
            "FIELD_INVALID",
            "animal.names[1]",
            "must be a string, not null",
        ),
        (
            Method::PUT,
            "/v1/animals/a1",
            r#"{"name":"L","counts":[]}"#,
            "FIELD_INVALID",
            "animal.counts",
            "must be an object, not a list",
        ),
        (
            Method::PUT,
            "/v1/animals/a1",
            r#"{"name":"L","legs":1.5}"#,
            "FIELD_INVALID",
            "animal.legs",
            "must be a whole number",
        ),
        (
            Method::PUT,
            "/v1/animals/a1",
            r#"{"name":"L","legs":2147483648}"#,
            "FIELD_INVALID",
            "animal.legs",
            "must be a whole number",
        ),
        (
            Method::PUT,
            "/v1/animals/a1",
            r#"{"name":"L","legs":"+4"}"#,
            "FIELD_INVALID",
            "animal.legs",
            "must be a whole number",
        ),
        (
            Method::PUT,
            "/v1/animals/a1",
            r#"{"name":"L","tame":"true"}"#,
            "FIELD_INVALID",
            "animal.tame",
            "must be true or false, not a string",
        ),
        (
            Method::PUT,
            "/v1/animals/a1",
            r#"{"name":"L","tag":"***"}"#,
            "FIELD_INVALID",
            "animal.tag",
            "must be a base64 string",
        ),
        (
            Method::PUT,
            "/v1/animals/a1",
            r#"{"name":"L","born":"yesterday"}"#,
            "FIELD_INVALID",
            "animal.born",
            "RFC 3339",
        ),
        (
            Method::POST,
            "/v1/animals/a1:feed",
            r#"{"food_name":"hay","grams":1,"pieces":2}"#,
            "FIELD_INVALID",
            "pieces",
            "must not be given together with grams",
        ),
        (
            Method::POST,
            "/v1/animals/a1:feed?food_name=hay",
            "{}",
            "FIELD_UNKNOWN",
            "food_name",
            "must not be given in the query",
        ),
        (
            Method::POST,
            "/v1/animals/a1:feed",
            &format!(r#"{{"food_name":"hay","grams":{long}}}"#),
            "BODY_MALFORMED",
            "",
            "",
        ),
    ];
    for (method, target, body, reason, field, rule) in table {
        let error = request(method, target, body).expect_err(&format!("{method} {target} {body}"));
        assert_eq!(
            error.reason(),
            *reason,
            "{method} {target} {body}: {}",
            error.message()
        );
        assert_eq!(error.http_status().as_u16(), 400);
        if !field.is_empty() {
            let (got_field, got_rule) = &error.violations()[0];
            assert_eq!(got_field, field, "{method} {target} {body}");
            assert!(
                got_rule.contains(rule),
                "{method} {target} {body}: {got_rule}"
            );
        }
    }
}

#[test]
fn deep_nesting_is_refused_not_followed() {
    let body = format!(
        "{}{}",
        r#"{"name":"L","mother":"#.repeat(5000),
        "}".repeat(5000)
    );
    assert_eq!(
        request(&Method::PUT, "/v1/animals/a1", &body)
            .expect_err("refused")
            .reason(),
        "BODY_MALFORMED"
    );
}

#[test]
fn all_problems_are_named_at_once_up_to_a_limit() {
    let error =
        request(&Method::PUT, "/v1/animals/a1", r#"{"legs":"x","colour":1}"#).expect_err("refused");
    let fields: Vec<&str> = error.violations().iter().map(|(f, _)| f.as_str()).collect();
    assert_eq!(fields, ["animal.legs", "animal.colour", "animal.name"]);
    assert!(
        error.message().ends_with("(2 more)."),
        "{}",
        error.message()
    );
    let many: String = (0..100).map(|i| format!(r#""x{i}":1,"#)).collect();
    let error = request(
        &Method::PUT,
        "/v1/animals/a1",
        &format!(r#"{{{many}"name":"L"}}"#),
    )
    .expect_err("refused");
    assert_eq!(error.violations().len(), 20);
}

#[test]
fn defaults_are_written_but_absent_messages_are_not() {
    let (pool, _) = table();
    let empty = DynamicMessage::new(pool.get_message_by_name("zoo.v1.Animal").expect("exists"));
    assert_eq!(
        write_message(&empty, Defaults::Write).to_text(),
        r#"{"id":"","name":"","diet":"unspecified","weight_mg":"0","steps":"0","speed":0.0,"tag":"","names":[],"counts":{},"seen_by":"","legs":0,"tame":false,"size":0.0}"#
    );
    assert_eq!(write_message(&empty, Defaults::Omit).to_text(), "{}");
}

fn json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        any::<bool>().prop_map(|b| b.to_string()),
        any::<i64>().prop_map(|i| i.to_string()),
        any::<f64>()
            .prop_filter("finite", |f| f.is_finite())
            .prop_map(|f| format!("{f:e}")),
        ".*".prop_map(|s| Json::String(s).to_text()),
    ];
    let key = prop_oneof![
        "name|diet|legs|names|counts|mother|tag|born|age|weight_mg",
        ".{0,8}"
    ];
    leaf.prop_recursive(4, 32, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(|l| format!("[{}]", l.join(","))),
            prop::collection::vec((key.clone(), inner), 0..6).prop_map(|o| format!(
                "{{{}}}",
                o.into_iter()
                    .map(|(k, v)| format!("{}:{v}", Json::String(k).to_text()))
                    .collect::<Vec<_>>()
                    .join(",")
            )),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    /// Whatever is sent, the answer is a message or a refusal that names fields; what was understood and
    /// written again is understood as the same.
    #[test]
    fn any_body_is_understood_or_refused(body in json()) {
        match request(&Method::PUT, "/v1/animals/a1", &body) {
            Ok(message) => {
                let animal = message.get_field_by_name("animal").and_then(|v| v.as_message().cloned()).expect("set");
                let again = write_message(&animal, Defaults::Omit).to_text();
                let read = request(&Method::PUT, "/v1/animals/a1", &again).expect("own output is understood");
                prop_assert_eq!(shown(&read), shown(&message));
            }
            Err(error) => prop_assert!(error.http_status().as_u16() == 400 && (!error.violations().is_empty() || error.reason() == "BODY_MALFORMED")),
        }
    }
}
