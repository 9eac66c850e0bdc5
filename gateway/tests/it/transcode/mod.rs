//! Binding and writing over a contract made for the test, with every shape that `google.api.http` allows here.
mod binding;
mod refusals;
mod writing;

use std::fs;
use std::path::Path;

use gpuaas_gateway::contract::route::{Lookup, RouteTable};
use gpuaas_gateway::error::ApiError;
use gpuaas_gateway::json::write::{Defaults, write_message};
use gpuaas_gateway::transcode::request::bind;
use http::Method;
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
