//! The body of events of the ledger and of billing, as webhooks get them: the public part of what their logs say.
use gpuaas_proto::gpuaas::allocation::v1::{AllocationFailure, AllocationState, PowerState};
use gpuaas_proto::gpuaas::events::v1 as pb;
use gpuaas_proto::gpuaas::internal::billing::v1::UsageEvent;
use gpuaas_proto::gpuaas::internal::events::v1::Event;
use prost_reflect::DynamicMessage;
use prost_types::value::Kind;
use prost_types::{Struct, Timestamp, Value};

use super::event_types::find;
use crate::json::write::{Defaults, write_message};

/// The type of a ping.
pub const PING: &str = "webhook.ping";
/// The messages of the events of logs.
const ALLOCATION: &str = "gpuaas.events.v1.AllocationEvent";
const QUOTA: &str = "gpuaas.events.v1.QuotaEvent";
const USAGE: &str = "gpuaas.events.v1.UsageEvent";

/// The body of an event of the ledger's log; `None` for one that concerns no webhook. Claims, slots and devices are the platform's own.
pub fn body(event: &Event) -> Option<String> {
    match find(&event.r#type)?.message {
        ALLOCATION => Some(of_allocation(event)),
        QUOTA => Some(of_quota(event)),
        _ => None,
    }
}

/// The data of an event by the names of its fields.
struct Data<'a>(Option<&'a Struct>);

impl Data<'_> {
    fn field(&self, name: &str) -> Option<&Kind> {
        self.0?.fields.get(name)?.kind.as_ref()
    }

    fn text(&self, name: &str) -> String {
        match self.field(name) {
            Some(Kind::StringValue(text)) => text.clone(),
            _ => String::new(),
        }
    }

    fn number(&self, name: &str) -> u32 {
        match self.field(name) {
            Some(Kind::NumberValue(number)) => *number as u32,
            _ => 0,
        }
    }
}

fn of_quota(event: &Event) -> String {
    let data = Data(event.data.as_ref());
    let message = pb::QuotaEvent {
        r#type: event.r#type.clone(),
        timestamp: event.time,
        data: Some(pb::QuotaEventData {
            project_id: event.project_id.clone(),
            revision: event.revision,
            quota: data.text("quota"),
            sku: data.text("sku"),
            limit: data.number("limit"),
            previous_limit: data.number("previous_limit"),
        }),
    };
    written(&message, QUOTA)
}

fn of_allocation(event: &Event) -> String {
    let data = Data(event.data.as_ref());
    let text = |name: &str| data.text(name);
    let time = |name: &str| proto_time(&text(name));
    let state = format!("ALLOCATION_STATE_{}", text("state").to_ascii_uppercase());
    let power = format!("POWER_STATE_{}", text("power").to_ascii_uppercase());
    let message = pb::AllocationEvent {
        r#type: event.r#type.clone(),
        timestamp: event.time,
        data: Some(pb::AllocationEventData {
            allocation_id: event.aggregate_id.clone(),
            project_id: event.project_id.clone(),
            revision: event.revision,
            name: text("name"),
            display_name: text("display_name"),
            state: AllocationState::from_str_name(&state)
                .unwrap_or_default()
                .into(),
            power: PowerState::from_str_name(&power).unwrap_or_default().into(),
            region_code: text("region_code"),
            sku: text("sku"),
            gpu_count: data.number("gpu_count"),
            failure: match data.field("failure") {
                Some(Kind::StructValue(fields)) => Some(failure(fields)),
                _ => None,
            },
            host_lost_time: time("host_lost_since"),
            device_drift_time: time("device_drift_since"),
            billed_until_time: time("billed_until"),
            termination_protection: matches!(
                data.field("termination_protection"),
                Some(Kind::BoolValue(true))
            ),
            auto_release_time: time("auto_release_at"),
            operator_action: text("operator_action"),
            operator_reason: text("operator_reason"),
        }),
    };
    written(&message, ALLOCATION)
}

/// The body of an event of the log of usage; `None` for one of a type that is not known here.
pub fn usage_body(event: &UsageEvent) -> Option<String> {
    if find(&event.r#type)?.message != USAGE {
        return None;
    }
    let message = pb::UsageEvent {
        r#type: event.r#type.clone(),
        timestamp: event.time,
        data: event.interval.clone(),
    };
    Some(written(&message, USAGE))
}

/// The body of a ping.
pub fn ping(webhook: &str, now: Timestamp) -> String {
    let message = pb::PingEvent {
        r#type: PING.to_owned(),
        timestamp: Some(now),
        data: Some(pb::PingEventData {
            webhook_id: webhook.to_owned(),
        }),
    };
    written(&message, "gpuaas.events.v1.PingEvent")
}

fn failure(fields: &Struct) -> AllocationFailure {
    let text = |name: &str| match fields.fields.get(name) {
        Some(Value {
            kind: Some(Kind::StringValue(text)),
        }) => text.clone(),
        _ => String::new(),
    };
    AllocationFailure {
        reason: text("reason"),
        message: text("message"),
        advice: text("advice"),
        step: text("step"),
    }
}

fn proto_time(text: &str) -> Option<Timestamp> {
    let at: jiff::Timestamp = text.parse().ok()?;
    Some(gpuaas_common::time::proto_time(at))
}

/// As the API writes messages.
pub(crate) fn written(message: &impl prost::Message, name: &str) -> String {
    let descriptor = gpuaas_proto::pool()
        .get_message_by_name(name)
        .expect("a message of the contract");
    let mut dynamic = DynamicMessage::new(descriptor);
    dynamic
        .transcode_from(message)
        .expect("the message of this name");
    write_message(&dynamic, Defaults::Write).to_text()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_was_changed_is_told_with_what_it_was() {
        let value = |kind: Kind| Value { kind: Some(kind) };
        let fields = [
            ("quota", value(Kind::StringValue("gpus".to_owned()))),
            ("sku", value(Kind::StringValue("h200-slice".to_owned()))),
            ("limit", value(Kind::NumberValue(16.0))),
            ("previous_limit", value(Kind::NumberValue(64.0))),
        ];
        let event = Event {
            r#type: "quota.updated".to_owned(),
            project_id: "p".to_owned(),
            revision: 2,
            data: Some(Struct {
                fields: fields.map(|(name, value)| (name.to_owned(), value)).into(),
            }),
            ..Event::default()
        };
        let body = body(&event).expect("for webhooks");
        let read: serde_json::Value = serde_json::from_str(&body).expect("JSON");
        assert_eq!(
            read["data"],
            serde_json::json!({
                "project_id": "p", "revision": "2", "quota": "gpus", "sku": "h200-slice", "limit": 16, "previous_limit": 64,
            })
        );
    }

    /// H-14: claims name nodes and slots, drift names devices.
    #[test]
    fn a_body_has_no_detail_of_hosts() {
        let string = |text: &str| Value {
            kind: Some(Kind::StringValue(text.to_owned())),
        };
        let claim = Struct {
            fields: [("node_id".to_owned(), string("node-secret"))].into(),
        };
        let claims = Value {
            kind: Some(Kind::ListValue(prost_types::ListValue {
                values: vec![Value {
                    kind: Some(Kind::StructValue(claim)),
                }],
            })),
        };
        let event = Event {
            r#type: "allocation.active".to_owned(),
            aggregate_id: "a".to_owned(),
            revision: 3,
            time: proto_time("2026-01-02T03:04:05Z"),
            data: Some(Struct {
                fields: [
                    ("claims".to_owned(), claims),
                    ("device_drift".to_owned(), string("0000:17:00.0")),
                    ("state".to_owned(), string("active")),
                    ("power".to_owned(), string("running")),
                    ("billed_until".to_owned(), string("2026-01-02T03:04:05Z")),
                ]
                .into(),
            }),
            ..Event::default()
        };
        let body = body(&event).expect("for webhooks");
        let read: serde_json::Value = serde_json::from_str(&body).expect("JSON");
        assert_eq!(read["type"], "allocation.active");
        assert_eq!(read["timestamp"], "2026-01-02T03:04:05Z");
        assert_eq!(read["data"]["state"], "active");
        assert_eq!(read["data"]["power"], "running");
        assert_eq!(read["data"]["revision"], "3");
        assert_eq!(read["data"]["billed_until_time"], "2026-01-02T03:04:05Z");
        assert!(
            !body.contains("node-secret") && !body.contains("0000:17"),
            "{body}"
        );
        // the ledger emits nothing of members, whatever its log says
        for other in ["slot.available", "project_member.added"] {
            let other = Event {
                r#type: other.to_owned(),
                ..event.clone()
            };
            assert_eq!(super::body(&other), None);
        }
    }
}
