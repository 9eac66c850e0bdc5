//! What is written, and that it is understood again.
use gpuaas_gateway::json::Json;
use gpuaas_gateway::json::write::{Defaults, write_message};
use http::Method;
use proptest::prelude::*;
use prost_reflect::DynamicMessage;

use super::{request, shown, table};

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
