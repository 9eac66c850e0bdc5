//! `EventService`: the sequenced log, for consumers that keep their own position.

use std::sync::Arc;

use gpuaas_common::Error;
use gpuaas_placement::events;
use gpuaas_proto::gpuaas::internal::events::v1 as pb;
use gpuaas_proto::gpuaas::internal::events::v1::event_service_server::EventService;
use serde_json::Value;
use tonic::{Request, Response, Status};

use crate::convert;
use crate::workflow::Deps;

const DEFAULT_LIMIT: i64 = 500;
const MAX_LIMIT: i64 = 1000;

/// The service.
pub struct EventApi {
    deps: Arc<Deps>,
}

impl EventApi {
    /// A service on these parts.
    #[must_use]
    pub fn new(deps: Arc<Deps>) -> Self {
        Self { deps }
    }
}

#[tonic::async_trait]
impl EventService for EventApi {
    async fn read(
        &self,
        request: Request<pb::ReadRequest>,
    ) -> Result<Response<pb::ReadResponse>, Status> {
        let request = request.into_inner();
        if request.after_position < 0 {
            return Err(Error::invalid("after_position", "must not be negative").into());
        }
        let limit = match request.limit {
            n if n < 0 => return Err(Error::invalid("limit", "must not be negative").into()),
            0 => DEFAULT_LIMIT,
            n => i64::from(n).min(MAX_LIMIT),
        };
        let mut conn = self.deps.pool.acquire().await.map_err(Error::from)?;
        let (events, head_position) = events::read(&mut conn, request.after_position, limit)
            .await
            .map_err(Error::from)?;
        Ok(Response::new(pb::ReadResponse {
            events: events.into_iter().map(event).collect(),
            head_position,
        }))
    }
}

fn event(event: events::Event) -> pb::Event {
    pb::Event {
        position: event.position,
        r#type: event.kind,
        aggregate_id: event.aggregate_id.to_string(),
        revision: event.revision,
        time: Some(convert::time(event.at)),
        project_id: event
            .project_id
            .map(|id| id.to_string())
            .unwrap_or_default(),
        data: Some(structure(event.data)),
        traceparent: event.traceparent,
    }
}

fn structure(value: Value) -> prost_types::Struct {
    match value {
        Value::Object(fields) => prost_types::Struct {
            fields: fields
                .into_iter()
                .map(|(key, value)| (key, wire(value)))
                .collect(),
        },
        _ => prost_types::Struct::default(),
    }
}

fn wire(value: Value) -> prost_types::Value {
    use prost_types::value::Kind;
    let kind = match value {
        Value::Null => Kind::NullValue(0),
        Value::Bool(flag) => Kind::BoolValue(flag),
        Value::Number(number) => Kind::NumberValue(number.as_f64().unwrap_or_default()),
        Value::String(text) => Kind::StringValue(text),
        Value::Array(items) => Kind::ListValue(prost_types::ListValue {
            values: items.into_iter().map(wire).collect(),
        }),
        object @ Value::Object(_) => Kind::StructValue(structure(object)),
    };
    prost_types::Value { kind: Some(kind) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn event_data_keeps_its_shape() {
        let made = structure(
            json!({"sku": "lab-slice", "gpu_count": 1, "claims": [{"slot_id": "s"}], "none": null}),
        );
        assert_eq!(made.fields.len(), 4);
        assert_eq!(
            made.fields["sku"].kind,
            Some(prost_types::value::Kind::StringValue("lab-slice".into()))
        );
        assert_eq!(
            made.fields["gpu_count"].kind,
            Some(prost_types::value::Kind::NumberValue(1.0))
        );
    }
}
