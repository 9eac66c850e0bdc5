//! The types of events that webhooks take, and the body of those of the ledger and of billing: the public part of what their logs
//! say.
use gpuaas_common::{Error, Result};
use gpuaas_proto::gpuaas::allocation::v1::{AllocationFailure, AllocationState, PowerState};
use gpuaas_proto::gpuaas::events::v1 as pb;
use gpuaas_proto::gpuaas::internal::billing::v1::UsageEvent;
use gpuaas_proto::gpuaas::internal::events::v1::Event;
use prost_reflect::DynamicMessage;
use prost_types::value::Kind;
use prost_types::{Struct, Timestamp, Value};

use crate::json::write::{Defaults, write_message};

/// The type of a ping.
pub const PING: &str = "webhook.ping";
/// The messages of the events of logs.
const ALLOCATION: &str = "gpuaas.events.v1.AllocationEvent";
const QUOTA: &str = "gpuaas.events.v1.QuotaEvent";
const USAGE: &str = "gpuaas.events.v1.UsageEvent";

/// A type with what it means.
#[derive(Clone, Copy, Debug)]
pub struct EventType {
    /// For example "allocation.active".
    pub name: &'static str,
    /// A sentence.
    pub meaning: &'static str,
    /// Name of the message of the contract that its bodies are.
    pub message: &'static str,
}

macro_rules! event_types {
    ($($message:ident { $($name:literal: $meaning:literal,)* })*) => {
        &[$($(EventType {
            name: $name,
            meaning: $meaning,
            message: concat!("gpuaas.events.v1.", stringify!($message)),
        },)*)*]
    };
}

/// The types that a webhook may name: all that the ledger emits of allocations and quotas, what billing puts on record, and what
/// the gateway itself changes.
///
/// Neither that an organisation is made nor that it is closed is among them: before the one it has no webhook, and after the
/// other none any more.
pub const EVENT_TYPES: &[EventType] = event_types! {
    AllocationEvent {
        "allocation.requested": "It is queued.",
        "allocation.reserved": "Its slots are reserved.",
        "allocation.provisioning": "Its VM is being made.",
        "allocation.active": "It is ready, and billing begins.",
        "allocation.releasing": "Its release was accepted, and billing ends.",
        "allocation.released": "Its disks are proven empty.",
        "allocation.failed": "It has failed.",
        "allocation.stopping": "Its VM is being shut down.",
        "allocation.stopped": "Its VM is off.",
        "allocation.starting": "Its VM is being started.",
        "allocation.running": "Its VM runs again.",
        "allocation.rebooting": "Its VM is being rebooted.",
        "allocation.rescuing": "Its VM is being started from a rescue image.",
        "allocation.rescued": "Its VM runs from a rescue image.",
        "allocation.unrescuing": "Its VM is being started from its own disk again.",
        "allocation.updated": "Its name, protection or time of release was changed, or its readiness checks have results.",
        "allocation.host_lost": "Its host does not answer, or was installed anew.",
        "allocation.host_found": "Its host answers again.",
        "allocation.device_drift": "The devices of its host are not as they were approved.",
        "allocation.device_drift_ended": "The devices of its host are as they were approved again.",
        "allocation.stopped_by_operator": "An operator stops it, with a reason.",
        "allocation.released_by_operator": "An operator releases it, with a reason.",
    }
    QuotaEvent {
        "quota.updated": "A limit of the project was changed.",
    }
    UsageEvent {
        "usage.closed": "The record of an allocation's usage is complete.",
        "usage.credited": "The host of an allocation was lost, and that time is not charged.",
    }
    OrganisationEvent {
        "organisation.updated": "Its name was changed.",
        "organisation.suspended": "Nothing new begins in its projects.",
        "organisation.resumed": "It is active again.",
    }
    ProjectEvent {
        "project.created": "It was created in the organisation.",
        "project.updated": "Its name was changed.",
        "project.suspended": "Nothing new begins in it.",
        "project.resumed": "It is active again.",
        "project.closed": "It has ended for good. Only webhooks of the organisation get this event.",
    }
    MemberEvent {
        "project_member.added": "Somebody is a member of the project.",
        "project_member.updated": "A member of the project has another role.",
        "project_member.removed": "Somebody is no member of the project any more.",
        "organisation_member.added": "Somebody is a member of the organisation itself.",
        "organisation_member.updated": "A member of the organisation itself has another role.",
        "organisation_member.removed": "Somebody is no member of the organisation itself any more.",
    }
    InvitationEvent {
        "invitation.created": "Somebody is invited.",
        "invitation.accepted": "Who was invited is a member.",
        "invitation.revoked": "It is of no use any more.",
    }
    ServiceAccountEvent {
        "service_account.created": "The project has one more.",
        "service_account.disabled": "Its API keys are refused.",
        "service_account.enabled": "Its API keys are good again.",
        "service_account.deleted": "It has ended for good, with its API keys.",
    }
    ApiKeyEvent {
        "api_key.created": "A service account has one more.",
        "api_key.rotated": "A new key is in the place of another one, which ends.",
        "api_key.disabled": "It is refused from now on.",
    }
};

/// The type of this name.
pub fn find(name: &str) -> Option<&'static EventType> {
    EVENT_TYPES.iter().find(|known| known.name == name)
}

/// Types that a caller names, sorted; empty for all.
///
/// # Errors
/// `FIELD_INVALID` naming the type that there is not.
pub fn parse_types(given: &[String]) -> Result<Vec<String>> {
    if given.iter().any(|one| one == "*") {
        return if given.len() == 1 {
            Ok(Vec::new())
        } else {
            Err(Error::invalid(
                "event_types",
                "must be \"*\" alone, or types",
            ))
        };
    }
    for (index, one) in given.iter().enumerate() {
        if find(one).is_none() {
            let known: Vec<&str> = EVENT_TYPES.iter().map(|known| known.name).collect();
            return Err(Error::invalid(
                format!("event_types[{index}]"),
                format!("must be one of {}", known.join(", ")),
            ));
        }
    }
    let mut types = given.to_vec();
    types.sort();
    types.dedup();
    Ok(types)
}

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

    fn word(name: &str, prefix: &str) -> String {
        let word = name.trim_start_matches(prefix).to_ascii_lowercase();
        format!("allocation.{word}")
    }

    /// The ledger names events by the states that they lead to.
    #[test]
    fn every_state_of_an_allocation_has_its_event_type() {
        let states = (1..).map_while(|number| AllocationState::try_from(number).ok());
        let states = states.map(|one| word(one.as_str_name(), "ALLOCATION_STATE_"));
        let powers = (1..).map_while(|number| PowerState::try_from(number).ok());
        let powers = powers.map(|one| word(one.as_str_name(), "POWER_STATE_"));
        let mut seen = 0;
        for name in states.chain(powers) {
            assert!(find(&name).is_some(), "{name}");
            seen += 1;
        }
        assert_eq!(seen, 15);
    }

    #[test]
    fn types_are_known_ones_or_all() {
        let parse = |given: &[&str]| {
            parse_types(
                &given
                    .iter()
                    .map(|one| (*one).to_owned())
                    .collect::<Vec<_>>(),
            )
        };
        assert_eq!(parse(&[]).expect("all"), Vec::<String>::new());
        assert_eq!(parse(&["*"]).expect("all"), Vec::<String>::new());
        let two = parse(&[
            "allocation.failed",
            "allocation.active",
            "allocation.failed",
        ]);
        assert_eq!(
            two.expect("two"),
            ["allocation.active", "allocation.failed"]
        );
        for bad in [
            &["*", "allocation.active"][..],
            &["allocation.x"],
            &["slot.available"],
            &[PING],
            &[""],
        ] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
        let refused = parse(&["allocation.x"]).expect_err("no type");
        let rule = &refused.fields()[0].1;
        for known in EVENT_TYPES {
            assert!(rule.contains(known.name), "{rule}");
        }
    }

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

    #[test]
    fn every_type_has_its_message_in_the_contract_and_no_other_has_its_name() {
        for (index, one) in EVENT_TYPES.iter().enumerate() {
            let message = gpuaas_proto::pool().get_message_by_name(one.message);
            let message = message.unwrap_or_else(|| panic!("{}", one.message));
            for field in ["type", "timestamp", "data"] {
                assert!(message.get_field_by_name(field).is_some(), "{}", one.name);
            }
            assert!(
                !EVENT_TYPES[..index]
                    .iter()
                    .any(|other| other.name == one.name)
            );
        }
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
