//! The gateway's transcoder beside Envoy's: the same requests become the same messages, and the same messages the same answers, for
//! every method of the contract, and of a stream its first message. Envoy is a release of its makers (`load-tests/envoy.sh`), with a service behind
//! it that keeps what it is asked, and answers what the test says.
//!
//! Both take the proto names of enum values; the gateway also takes, and always writes, their short names.
mod answers;
mod chance;
mod pair;
mod requests;
mod stand_in;

use gpuaas_gateway::json::write::{Defaults, write_message};
use http::Method;
use proptest::test_runner::{RngAlgorithm, TestRng};
use prost::Message as _;
use prost_reflect::{DynamicMessage, ReflectMessage as _};
use serde_json::Value as Json;

use crate::answers::{plain, with_short_names};
use crate::chance::{Chance, DEPTH};
use crate::pair::{Pair, service};
use crate::requests::{Requested, for_request, proto_json, requested};
use crate::stand_in::Exchange;

/// Requests of each method.
const ROUNDS: usize = 6;

/// As it goes over the wire, which does not tell a zero from what is not set.
fn sent(message: &DynamicMessage) -> DynamicMessage {
    let bytes = message.encode_to_vec();
    DynamicMessage::decode(message.descriptor(), bytes.as_slice()).expect("a message")
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
