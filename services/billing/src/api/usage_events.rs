//! `UsageEventService`: the log of usage, for a consumer that keeps its own position.
use gpuaas_common::Error;
use gpuaas_common::time::proto_time;
use gpuaas_proto::gpuaas::internal::billing::v1 as pb;
use gpuaas_proto::gpuaas::internal::billing::v1::usage_event_service_server::UsageEventService;
use tonic::{Request, Response, Status};

use super::Api;
use super::usage::interval;
use crate::store::{position, usage_events};

const DEFAULT_LIMIT: i64 = 500;
const MAX_LIMIT: i64 = 1000;

#[tonic::async_trait]
impl UsageEventService for Api {
    async fn read_usage_events(
        &self,
        request: Request<pb::ReadUsageEventsRequest>,
    ) -> Result<Response<pb::ReadUsageEventsResponse>, Status> {
        let request = request.into_inner();
        if request.after_position < 0 {
            return Err(Error::invalid("after_position", "must not be negative").into());
        }
        let limit = match request.limit {
            n if n < 0 => return Err(Error::invalid("limit", "must not be negative").into()),
            0 => DEFAULT_LIMIT,
            n => i64::from(n).min(MAX_LIMIT),
        };
        let mut conn = self.pool.acquire().await.map_err(Error::from)?;
        let events = usage_events::read(&mut conn, request.after_position, limit)
            .await
            .map_err(Error::from)?;
        // after the events, so that it is never behind them
        let head = position::read(&mut *conn).await.map_err(Error::from)?;
        Ok(Response::new(pb::ReadUsageEventsResponse {
            events: events.iter().map(event).collect::<Result<_, Error>>()?,
            head_position: Some(head),
        }))
    }
}

fn event(row: &usage_events::UsageEvent) -> Result<pb::UsageEvent, Error> {
    Ok(pb::UsageEvent {
        position: row.position,
        r#type: row.event_type.clone(),
        time: Some(proto_time(row.at.to_jiff())),
        interval: Some(interval(&row.interval)?),
    })
}
