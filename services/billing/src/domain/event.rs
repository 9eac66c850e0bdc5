//! Parses events of the ledger's log into what billing acts on.
use gpuaas_proto::gpuaas::internal::events::v1::Event;
use jiff::Timestamp;
use prost_types::value::Kind;
use prost_types::{Struct, Value};
use serde::Deserialize;
use uuid::Uuid;

use super::inconsistency::Inconsistency;
use super::money::{Currency, Price};

/// A ledger event as billing sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct LedgerEvent {
    /// Position in the log; grows by one from event to event.
    pub position: i64,
    /// What it does to usage.
    pub change: Change,
}

/// What an event does to usage.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// `allocation.active`: the allocation is billable from here on.
    Starts(Start),
    /// `allocation.releasing`, `.released` or `.failed`: it is not billable any more, if it ever was (G-10).
    Ends {
        /// Which allocation.
        allocation_id: Uuid,
        /// Ledger time of the change, or the earlier end that a forced or a late scheduled release states.
        at: Timestamp,
    },
    /// `allocation.host_lost`: its host is silent.
    HostLost {
        /// Which allocation.
        allocation_id: Uuid,
        /// The last proof of life of the host.
        since: Timestamp,
    },
    /// `allocation.host_found`: its host is heard again.
    HostFound {
        /// Which allocation.
        allocation_id: Uuid,
        /// Ledger time.
        at: Timestamp,
    },
    /// Nothing that is billed.
    None,
}

/// Start of billable time, with all that explains its price (G-09).
#[derive(Debug, Clone, PartialEq)]
pub struct Start {
    /// The allocation (G-01).
    pub allocation_id: Uuid,
    /// Its project.
    pub project_id: Uuid,
    /// Ledger time.
    pub at: Timestamp,
    /// SKU code.
    pub sku: String,
    /// GPUs held.
    pub gpu_count: u32,
    /// The price version frozen at the reservation.
    pub price_version_id: Uuid,
    /// The price the ledger knew it by; must be the one that was published.
    pub price: Price,
    /// Immutable claim snapshot (G-05, G-06), a JSON array.
    pub claims: serde_json::Value,
    /// The last proof of life of its host, when that is lost already.
    pub host_lost_since: Option<Timestamp>,
}

/// `data` of `allocation.active`.
#[derive(Deserialize)]
struct ActiveData {
    sku: String,
    gpu_count: u32,
    price_version_id: Uuid,
    price: PriceData,
    claims: Vec<serde_json::Value>,
}

#[derive(Deserialize)]
struct PriceData {
    currency: String,
    /// Text, since numbers of an event's data are doubles.
    nanos_per_gpu_hour: String,
}

/// What tells an event from every other one of the ledger: its position, aggregate, revision and time. After a restore of the
/// ledger, another event may get the position, and one of another time the revision.
pub fn mark(event: &Event) -> String {
    let Event {
        position,
        aggregate_id,
        revision,
        ..
    } = event;
    let time = event.time.unwrap_or_default();
    format!(
        "{position}:{aggregate_id}:{revision}:{}.{:09}",
        time.seconds, time.nanos
    )
}

/// Parses an event.
///
/// # Errors
/// [`Inconsistency::Payload`] when something that billing needs is absent or wrong.
pub fn parse(event: &Event) -> Result<LedgerEvent, Inconsistency> {
    let change = match event.r#type.as_str() {
        "allocation.active" => Change::Starts(start(event)?),
        "allocation.releasing" | "allocation.released" | "allocation.failed" => Change::Ends {
            allocation_id: uuid(event, "aggregate_id", &event.aggregate_id)?,
            at: stated(event, "billed_until")?.unwrap_or(time(event)?),
        },
        "allocation.host_lost" => Change::HostLost {
            allocation_id: uuid(event, "aggregate_id", &event.aggregate_id)?,
            since: stated(event, "host_lost_since")?
                .ok_or_else(|| bad(event, "missing host_lost_since"))?,
        },
        "allocation.host_found" => Change::HostFound {
            allocation_id: uuid(event, "aggregate_id", &event.aggregate_id)?,
            at: time(event)?,
        },
        _ => Change::None,
    };
    Ok(LedgerEvent {
        position: event.position,
        change,
    })
}

fn start(event: &Event) -> Result<Start, Inconsistency> {
    let data = event.data.as_ref().map_or(serde_json::Value::Null, object);
    let data: ActiveData =
        serde_json::from_value(data).map_err(|error| bad(event, error.to_string()))?;
    if data.sku.is_empty() {
        return Err(bad(event, "empty sku"));
    }
    if !(1..=1024).contains(&data.gpu_count) {
        return Err(bad(event, "gpu_count out of range"));
    }
    let currency =
        Currency::parse(&data.price.currency).ok_or_else(|| bad(event, "malformed currency"))?;
    let nanos = data
        .price
        .nanos_per_gpu_hour
        .parse()
        .map_err(|_| bad(event, "malformed price"))?;
    Ok(Start {
        allocation_id: uuid(event, "aggregate_id", &event.aggregate_id)?,
        project_id: uuid(event, "project_id", &event.project_id)?,
        at: time(event)?,
        sku: data.sku,
        gpu_count: data.gpu_count,
        price_version_id: data.price_version_id,
        price: Price { currency, nanos },
        claims: data.claims.into(),
        host_lost_since: stated(event, "host_lost_since")?,
    })
}

fn bad(event: &Event, problem: impl Into<String>) -> Inconsistency {
    Inconsistency::Payload {
        position: event.position,
        problem: problem.into(),
    }
}

fn uuid(event: &Event, field: &str, text: &str) -> Result<Uuid, Inconsistency> {
    Uuid::try_parse(text).map_err(|_| bad(event, format!("malformed {field}")))
}

/// Ledger time, in the microseconds the database counts in.
fn time(event: &Event) -> Result<Timestamp, Inconsistency> {
    let time = event
        .time
        .as_ref()
        .ok_or_else(|| bad(event, "missing time"))?;
    Timestamp::new(time.seconds, time.nanos)
        .and_then(|time| Timestamp::from_microsecond(time.as_microsecond()))
        .map_err(|_| bad(event, "malformed time"))
}

/// A time that an event states of itself, as text.
fn stated(event: &Event, field: &str) -> Result<Option<Timestamp>, Inconsistency> {
    let value = event.data.as_ref().and_then(|data| data.fields.get(field));
    match value.and_then(|value| value.kind.as_ref()) {
        None | Some(Kind::NullValue(_)) => Ok(None),
        Some(Kind::StringValue(text)) => text
            .parse()
            .map(Some)
            .map_err(|_| bad(event, format!("malformed {field}"))),
        Some(_) => Err(bad(event, format!("malformed {field}"))),
    }
}

fn object(fields: &Struct) -> serde_json::Value {
    fields
        .fields
        .iter()
        .map(|(name, value)| (name.clone(), json(value)))
        .collect()
}

/// A protobuf `Value` as JSON. Numbers that are whole stay whole.
fn json(value: &Value) -> serde_json::Value {
    match &value.kind {
        None | Some(Kind::NullValue(_)) => serde_json::Value::Null,
        Some(Kind::BoolValue(b)) => (*b).into(),
        Some(Kind::StringValue(s)) => s.clone().into(),
        Some(Kind::NumberValue(n)) if n.fract() == 0.0 && n.abs() <= 9_007_199_254_740_992.0 => {
            (*n as i64).into()
        }
        Some(Kind::NumberValue(n)) => (*n).into(),
        Some(Kind::ListValue(list)) => list.values.iter().map(json).collect(),
        Some(Kind::StructValue(fields)) => object(fields),
    }
}

#[cfg(test)]
mod tests {
    use prost_types::ListValue;

    use super::*;

    const ID: &str = "0192f0c1-2d3e-7001-8001-0123456789ab";

    fn value(kind: Kind) -> Value {
        Value { kind: Some(kind) }
    }

    fn text(text: &str) -> Value {
        value(Kind::StringValue(text.to_owned()))
    }

    fn fields<const N: usize>(fields: [(&str, Value); N]) -> Struct {
        Struct {
            fields: fields.map(|(name, value)| (name.to_owned(), value)).into(),
        }
    }

    fn active() -> Event {
        let price = fields([
            ("currency", text("EUR")),
            ("nanos_per_gpu_hour", text("9007199254740993")),
        ]);
        let claim = fields([
            ("slot_generation", text("3")),
            ("exclusive", value(Kind::BoolValue(false))),
        ]);
        let claims = ListValue {
            values: vec![value(Kind::StructValue(claim))],
        };
        Event {
            position: 7,
            r#type: "allocation.active".to_owned(),
            aggregate_id: ID.to_owned(),
            project_id: ID.to_owned(),
            time: Some(prost_types::Timestamp {
                seconds: 1_790_000_000,
                nanos: 5_000,
            }),
            data: Some(fields([
                ("sku", text("lab-slice")),
                ("gpu_count", value(Kind::NumberValue(2.0))),
                ("price_version_id", text(ID)),
                ("price", value(Kind::StructValue(price))),
                ("claims", value(Kind::ListValue(claims))),
                ("something_new", value(Kind::NullValue(0))),
            ])),
            ..Event::default()
        }
    }

    #[test]
    fn g_09_a_start_carries_all_that_explains_its_price() {
        let parsed = parse(&active()).expect("parses");
        let Change::Starts(start) = parsed.change else {
            panic!("{parsed:?}")
        };
        assert_eq!(
            (parsed.position, start.gpu_count, start.sku.as_str()),
            (7, 2, "lab-slice")
        );
        // beyond what a double can hold
        assert_eq!(start.price.nanos, 9_007_199_254_740_993);
        assert_eq!(
            start.claims,
            serde_json::json!([{ "slot_generation": "3", "exclusive": false }])
        );
        assert_eq!(
            start.at,
            Timestamp::new(1_790_000_000, 5_000).expect("in range")
        );
    }

    #[test]
    fn what_billing_needs_is_demanded() {
        type Change = fn(&mut Event);
        let table: [(&str, Change); 9] = [
            ("aggregate_id", |e| e.aggregate_id.clear()),
            ("project_id", |e| "x".clone_into(&mut e.project_id)),
            ("time", |e| e.time = None),
            ("time", |e| e.time = Some(END_OF_TIME)),
            ("sku", |e| remove(e, "sku")),
            ("price", |e| remove(e, "price")),
            ("gpu_count", |e| set(e, "gpu_count", Kind::NumberValue(0.0))),
            ("u32", |e| set(e, "gpu_count", Kind::NumberValue(1.5))),
            ("sequence", |e| set(e, "claims", Kind::BoolValue(true))),
        ];
        for (names, change) in table {
            let mut event = active();
            change(&mut event);
            match parse(&event) {
                Err(Inconsistency::Payload {
                    position: 7,
                    problem,
                }) => {
                    assert!(problem.contains(names), "{problem:?} does not name {names}");
                }
                other => panic!("{names}: {other:?}"),
            }
        }
        assert!(
            parse(&Event {
                data: None,
                ..active()
            })
            .is_err()
        );
    }

    const END_OF_TIME: prost_types::Timestamp = prost_types::Timestamp {
        seconds: i64::MAX,
        nanos: 0,
    };

    fn set(event: &mut Event, field: &str, kind: Kind) {
        let data = event.data.as_mut().expect("data");
        data.fields.insert(field.to_owned(), value(kind));
    }

    fn remove(event: &mut Event, field: &str) {
        let data = event.data.as_mut().expect("data");
        data.fields.remove(field).expect("was there");
    }

    #[test]
    fn other_events_are_nothing_to_billing() {
        for kind in [
            "allocation.reserved",
            "allocation.provisioning",
            "slot.available",
            "",
        ] {
            let event = Event {
                position: 1,
                r#type: kind.to_owned(),
                ..Event::default()
            };
            assert_eq!(parse(&event).expect("parses").change, Change::None);
        }
    }
}
