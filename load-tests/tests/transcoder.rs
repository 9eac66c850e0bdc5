//! The gateway's transcoder beside Envoy's: the same requests become the same messages, and the same messages the same answers, for
//! every method of the contract, and of a stream its first message. Envoy is a release of its makers (`load-tests/envoy.sh`), with a service behind
//! it that keeps what it is asked, and answers what the test says.
//!
//! Both take the proto names of enum values; the gateway also takes, and always writes, their short names.
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::{BufMut as _, Bytes};
use gpuaas_dev::ports;
use gpuaas_gateway::contract::access::behavior_of;
use gpuaas_gateway::contract::route::{Body as Bound, Lookup, Route, RouteTable};
use gpuaas_gateway::contract::template::Segment;
use gpuaas_gateway::json::write::{Defaults, write_message};
use gpuaas_gateway::transcode::request::bind;
use gpuaas_load_tests::envoy::Envoy;
use gpuaas_proto::words::enum_value_name;
use http::{HeaderMap, HeaderValue, Method};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use proptest::prelude::Rng as _;
use proptest::test_runner::{RngAlgorithm, TestRng};
use prost::Message as _;
use prost_reflect::{
    DynamicMessage, EnumDescriptor, FieldDescriptor, Kind, MapKey, MessageDescriptor,
    ReflectMessage as _, SerializeOptions, Value,
};
use serde_json::{Map, Value as Json, json};
use tonic::body::Body;
use tonic::server::NamedService;

/// Requests of each method.
const ROUNDS: usize = 6;
/// Messages in messages.
const DEPTH: usize = 4;
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

// ── the service behind Envoy ──

#[derive(Debug, Default)]
struct Exchange {
    called: String,
    request: Vec<u8>,
    answer: Vec<u8>,
}

#[derive(Clone, Debug, Default)]
struct StandIn(Arc<Mutex<Exchange>>);

impl NamedService for StandIn {
    // a pattern of the router: every name
    const NAME: &'static str = "{service}";
}

impl StandIn {
    fn with<T>(&self, act: impl FnOnce(&mut Exchange) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl tower::Service<http::Request<Body>> for StandIn {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let own = self.clone();
        Box::pin(async move {
            let called = request.uri().path().trim_start_matches('/').to_owned();
            // Envoy ends the call of a request that it refuses
            let Ok(body) = request.into_body().collect().await else {
                return Ok(http::Response::new(Body::empty()));
            };
            // after one byte for compression and four for the length
            let message = body.to_bytes().slice(5..).to_vec();
            let answer = own.with(|exchange| {
                exchange.called = called;
                exchange.request = message;
                exchange.answer.clone()
            });
            let mut frame = Vec::new();
            frame.put_u8(0);
            frame.put_u32(u32::try_from(answer.len()).expect("short"));
            frame.extend(answer);
            let end = HeaderMap::from_iter([(
                http::HeaderName::from_static("grpc-status"),
                HeaderValue::from_static("0"),
            )]);
            let frames = [
                Ok::<_, Infallible>(Frame::data(Bytes::from(frame))),
                Ok(Frame::trailers(end)),
            ];
            let body = Body::new(StreamBody::new(futures::stream::iter(frames)));
            let mut response = http::Response::new(body);
            response.headers_mut().insert(
                http::header::CONTENT_TYPE,
                HeaderValue::from_static("application/grpc"),
            );
            Ok(response)
        })
    }
}

// ── messages by chance ──

struct Chance(TestRng);

impl Chance {
    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.0.next_u32()).expect("64 bits") % limit
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    /// `in_query`: only what a query can say.
    fn message(&mut self, of: &MessageDescriptor, depth: usize, in_query: bool) -> DynamicMessage {
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

    fn value(&mut self, field: &FieldDescriptor, depth: usize, in_query: bool) -> Value {
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

// ── a message as a request ──

struct Requested {
    method: Method,
    target: String,
    body: Option<String>,
}

fn proto_json(message: &DynamicMessage) -> Json {
    let options = SerializeOptions::new().use_proto_field_name(true);
    message
        .serialize_with_options(serde_json::value::Serializer, &options)
        .expect("JSON")
}

fn escaped(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                char::from(byte).to_string()
            }
            _ => format!("%{byte:02X}"),
        })
        .collect()
}

fn text(json: &Json) -> String {
    match json {
        Json::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Takes a field out of an object by its path.
fn take(json: &mut Json, path: &str) -> Option<Json> {
    let object = json.as_object_mut()?;
    match path.split_once('.') {
        Some((first, rest)) => take(object.get_mut(first)?, rest),
        None => object.remove(path),
    }
}

fn parameters(prefix: &str, json: &Json, out: &mut Vec<String>) {
    match json {
        Json::Object(fields) => {
            for (name, value) in fields {
                let name = match prefix {
                    "" => name.clone(),
                    prefix => format!("{prefix}.{name}"),
                };
                parameters(&name, value, out);
            }
        }
        Json::Array(list) => list.iter().for_each(|one| parameters(prefix, one, out)),
        value => out.push(format!("{prefix}={}", escaped(&text(value)))),
    }
}

fn requested(route: &Route, message: &DynamicMessage) -> Requested {
    let mut json = proto_json(message);
    let mut path = String::new();
    for segment in &route.template.segments {
        path.push('/');
        match segment {
            Segment::Literal(literal) => path.push_str(literal),
            Segment::Variable(field) => {
                let value = take(&mut json, field).expect("set");
                path.push_str(&escaped(&text(&value)));
            }
        }
    }
    if let Some(verb) = &route.template.verb {
        path.push(':');
        path.push_str(verb);
    }
    let body = match &route.body {
        Bound::None => None,
        Bound::Whole => Some(std::mem::replace(&mut json, json!({}))),
        Bound::Field(field) => Some(take(&mut json, field).unwrap_or_else(|| json!({}))),
    };
    let mut query = Vec::new();
    parameters("", &json, &mut query);
    let target = match query.is_empty() {
        true => path,
        false => format!("{path}?{}", query.join("&")),
    };
    Requested {
        method: route.http_method.clone(),
        target,
        body: body.map(|body| body.to_string()),
    }
}

/// A message for a request by this route: with its path variables, and nothing in the query that a query cannot say.
fn for_request(route: &Route, chance: &mut Chance) -> DynamicMessage {
    let input = route.method.input();
    let in_query = route.body != Bound::Whole;
    let mut message = chance.message(&input, DEPTH, in_query);
    for variable in route.template.variables() {
        let (owner, name) = match variable.split_once('.') {
            Some((owner, name)) => {
                let field = input.get_field_by_name(owner).expect("a field");
                let inner = message.get_field_mut(&field).as_message_mut();
                (inner.expect("a message"), name)
            }
            None => (&mut message, variable),
        };
        let field = owner.descriptor().get_field_by_name(name).expect("a field");
        let value = chance.value(&field, 0, true);
        owner.set_field(&field, value);
    }
    if let Bound::Field(name) = &route.body {
        let field = input.get_field_by_name(name).expect("a field");
        let value = chance.value(&field, DEPTH, false);
        let mut inner = value.as_message().expect("a message").clone();
        // a variable of the path is in it, too
        if let Some(of_before) = message.get_field(&field).as_message() {
            for variable in route.template.variables() {
                if let Some((_, part)) = variable.split_once('.') {
                    let part = of_before
                        .descriptor()
                        .get_field_by_name(part)
                        .expect("a field");
                    inner.set_field(&part, of_before.get_field(&part).into_owned());
                }
            }
        }
        message.set_field(&field, Value::Message(inner));
    }
    message
}

// ── the two answers ──

/// The gateway's short names in place of the proto names of enum values.
fn with_short_names(json: &mut Json, of: &MessageDescriptor) {
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
fn plain(json: Json) -> Json {
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

struct Pair {
    envoy: Envoy,
    behind: StandIn,
    http: reqwest::Client,
    routes: RouteTable,
}

impl Pair {
    async fn start(folder: &std::path::Path) -> Self {
        let routes = gpuaas_gateway::routes().expect("served");
        let mut services: Vec<String> = routes.routes().iter().map(service).collect();
        services.sort();
        services.dedup();
        let behind = StandIn::default();
        let port = ports::free().expect("a port");
        let at = std::net::SocketAddr::from(([127, 0, 0, 1], port));
        let server = tonic::transport::Server::builder().add_service(behind.clone());
        tokio::spawn(server.serve(at));
        let folder = folder.to_owned();
        let envoy = tokio::task::spawn_blocking(move || {
            Envoy::transcoder_to(&folder, &services, at).expect("Envoy")
        });
        Self {
            envoy: envoy.await.expect("Envoy"),
            behind,
            http: reqwest::Client::new(),
            routes,
        }
    }

    /// What Envoy answers.
    async fn send(&self, requested: &Requested) -> (u16, String) {
        let url = format!("http://{}{}", self.envoy.address, requested.target);
        let mut request = self.http.request(requested.method.clone(), url);
        if let Some(body) = &requested.body {
            request = request
                .header("content-type", "application/json")
                .body(body.clone());
        }
        let answer = request.send().await.expect("an answer");
        (answer.status().as_u16(), answer.text().await.expect("text"))
    }

    /// What the gateway makes of a request.
    fn bound(&self, requested: &Requested) -> Result<DynamicMessage, String> {
        let (path, query) = match requested.target.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (requested.target.as_str(), None),
        };
        let Lookup::Found(route, variables) = self.routes.lookup(&requested.method, path) else {
            return Err(format!("no route {}", requested.target));
        };
        let body = requested.body.as_deref().unwrap_or_default();
        bind(route, &variables, query, body.as_bytes()).map_err(|error| error.message().to_owned())
    }
}

/// As it goes over the wire, which does not tell a zero from what is not set.
fn sent(message: &DynamicMessage) -> DynamicMessage {
    let bytes = message.encode_to_vec();
    DynamicMessage::decode(message.descriptor(), bytes.as_slice()).expect("a message")
}

fn service(route: &Route) -> String {
    route.method.parent_service().full_name().to_owned()
}

/// H-24: what is bound and written is what another transcoder of the same contract binds and writes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h_24_every_method_is_transcoded_as_by_envoy() {
    let folder = tempfile::tempdir().expect("a folder");
    let pair = Pair::start(folder.path()).await;
    let mut chance = Chance(TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let mut compared = 0;
    let mut wrong = Vec::new();
    for route in pair.routes.routes() {
        for _ in 0..ROUNDS {
            let message = for_request(route, &mut chance);
            let output = route.method.output();
            let answer = chance.message(&output, DEPTH, false);
            let requested = requested(route, &message);
            pair.behind.with(|exchange| {
                *exchange = Exchange {
                    answer: answer.encode_to_vec(),
                    ..Exchange::default()
                };
            });
            let (status, text) = pair.send(&requested).await;
            let name = format!(
                "{} {} {:?}",
                requested.method, requested.target, requested.body
            );
            let (called, request) = pair
                .behind
                .with(|exchange| (exchange.called.clone(), exchange.request.clone()));
            let expected = format!("{}/{}", service(route), route.method.name());
            if status != 200 || called != expected {
                wrong.push(format!(
                    "{name}: Envoy answers {status} {text}, calls {called:?}"
                ));
                continue;
            }
            let by_envoy = DynamicMessage::decode(route.method.input(), request.as_slice());
            // it writes zeros of times
            let by_envoy = sent(&by_envoy.expect("a message"));
            match pair.bound(&requested) {
                Ok(own) if sent(&own) == by_envoy && by_envoy == sent(&message) => {}
                Ok(own) => wrong.push(format!(
                    "{name}\n asked {}\n Envoy {}\n own   {}",
                    proto_json(&message),
                    proto_json(&by_envoy),
                    proto_json(&own)
                )),
                Err(refused) => wrong.push(format!("{name}: {refused}")),
            }
            // a message of a stream is an event
            let other = match route.method.is_server_streaming() {
                true => text.strip_prefix("data: ").expect("an event"),
                false => &text,
            };
            let mut other: Json = serde_json::from_str(other).expect("JSON");
            with_short_names(&mut other, &output);
            let own = write_message(&answer, Defaults::Write).to_text();
            let own: Json = serde_json::from_str(&own).expect("JSON");
            if plain(own.clone()) != plain(other.clone()) {
                wrong.push(format!("answer of {name}\n Envoy {other}\n own   {own}"));
            }
            compared += 1;
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {compared}:\n{}",
        wrong.len(),
        wrong.iter().take(8).cloned().collect::<Vec<_>>().join("\n")
    );
    assert!(compared > 500, "{compared}");
}

/// Unknown fields of a body are not among them: Envoy leaves them out, the gateway refuses them by name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_request_is_refused_as_by_envoy() {
    let folder = tempfile::tempdir().expect("a folder");
    let pair = Pair::start(folder.path()).await;
    for (method, target, body) in [
        (Method::POST, "/api/v1/allocations", Some("{")),
        (Method::POST, "/api/v1/allocations", Some("[]")),
        (
            Method::POST,
            "/api/v1/allocations",
            Some(r#"{"gpu_count": -1}"#),
        ),
        (
            Method::POST,
            "/api/v1/allocations",
            Some(r#"{"gpu_count": 4294967296}"#),
        ),
        (
            Method::POST,
            "/api/v1/allocations",
            Some(r#"{"gpu_count": 1.5}"#),
        ),
        (
            Method::POST,
            "/api/v1/allocations",
            Some(r#"{"gpu_count": "x"}"#),
        ),
        (Method::POST, "/api/v1/allocations", Some(r#"{"name": 7}"#)),
        (
            Method::POST,
            "/api/v1/allocations",
            Some(r#"{"labels": ["a"]}"#),
        ),
        (
            Method::POST,
            "/api/v1/allocations",
            Some(r#"{"wait": {"deadline": "soon"}}"#),
        ),
        (Method::GET, "/api/v1/allocations?page_size=x", None),
        (
            Method::GET,
            "/api/v1/allocations?page_size=2147483648",
            None,
        ),
        (Method::GET, "/api/v1/allocations?colour=red", None),
        (Method::GET, "/api/v1/allocations?include_ended=maybe", None),
    ] {
        let requested = Requested {
            method,
            target: target.to_owned(),
            body: body.map(str::to_owned),
        };
        let (status, text) = pair.send(&requested).await;
        assert_eq!(status, 400, "{target} {body:?}: Envoy answers {text}");
        assert!(pair.bound(&requested).is_err(), "{target} {body:?}");
    }
}
