//! From the logs of the ledger and of billing to queued deliveries.
use gpuaas_common::time::from_proto_time;
use gpuaas_common::{Error, Result, db};
use gpuaas_proto::gpuaas::internal::billing::v1::usage_event_service_client::UsageEventServiceClient;
use gpuaas_proto::gpuaas::internal::billing::v1::{ReadUsageEventsRequest, UsageEvent};
use gpuaas_proto::gpuaas::internal::events::v1::event_service_client::EventServiceClient;
use gpuaas_proto::gpuaas::internal::events::v1::{Event, ReadRequest};
use jiff_sqlx::ToSqlx as _;

use super::events;
use super::work::Work;
use crate::store::{self, Outgoing, Source};

/// Events asked for at once.
const BATCH: i32 = 500;

/// Queues everything that the ledger's log holds now. No lock is held while the ledger is asked: of two gateways that read the
/// same events the one that commits first has moved the position, and the other writes nothing.
///
/// # Errors
/// The ledger or the database does not answer.
pub(super) async fn catch_up(work: &Work) -> Result<()> {
    loop {
        let position = store::webhook_position(&work.pool, Source::Ledger);
        let after = db::within(db::PASS, position).await?;
        let request = ReadRequest {
            after_position: after,
            limit: BATCH,
        };
        let read = EventServiceClient::new(work.peers.channel("allocation")?)
            .read(request)
            .await
            .map_err(Error::from)?
            .into_inner();
        work.meters.lag.record(read.head_position - after, &[]);
        if read.head_position < after {
            tracing::warn!(
                after,
                head = read.head_position,
                "the ledger's log is shorter than what was read of it: go on at its end"
            );
            let rewound = store::rewind_webhooks(&work.pool, after, read.head_position);
            db::within(db::PASS, rewound).await?;
            continue;
        }
        let Some(last) = read.events.last() else {
            return Ok(());
        };
        let moved = (Source::Ledger, after, last.position);
        let outgoing: Vec<Outgoing> = read.events.iter().filter_map(outgoing).collect();
        queue(work, moved, &outgoing).await?;
    }
}

/// The same for billing's log of usage.
///
/// # Errors
/// Billing or the database does not answer.
pub(super) async fn catch_up_with_usage(work: &Work) -> Result<()> {
    loop {
        let position = store::webhook_position(&work.pool, Source::Usage);
        let after = db::within(db::PASS, position).await?;
        let request = ReadUsageEventsRequest {
            after_position: after,
            limit: BATCH,
        };
        let read = UsageEventServiceClient::new(work.peers.channel("billing")?)
            .read_usage_events(request)
            .await
            .map_err(Error::from)?
            .into_inner();
        // billing of an earlier release does not say where its log ends
        if let Some(head) = read.head_position
            && head < after
        {
            tracing::warn!(
                after,
                head,
                "billing's log of usage is shorter than what was read of it: go on at its end"
            );
            let rewound = store::rewind_usage(&work.pool, after, head);
            db::within(db::PASS, rewound).await?;
            continue;
        }
        let Some(last) = read.events.last() else {
            return Ok(());
        };
        let moved = (Source::Usage, after, last.position);
        let outgoing: Vec<Outgoing> = read.events.iter().filter_map(of_usage).collect();
        queue(work, moved, &outgoing).await?;
    }
}

async fn queue(work: &Work, moved: (Source, i64, i64), events: &[Outgoing]) -> Result<()> {
    let made = store::queue_deliveries(&work.pool, &work.ids, moved, events);
    if db::within(db::PASS, made).await? > 0 {
        work.webhooks.due.notify_one();
    }
    Ok(())
}

/// What of an event is for webhooks.
fn outgoing(event: &Event) -> Option<Outgoing> {
    let at = from_proto_time(event.time.as_ref()?)?;
    Some(Outgoing {
        position: Some(event.position),
        event_type: event.r#type.clone(),
        object: event.aggregate_id.parse().ok()?,
        project: event.project_id.parse().ok()?,
        at: at.to_sqlx(),
        body: events::body(event)?,
    })
}

/// The same; it is about the interval.
fn of_usage(event: &UsageEvent) -> Option<Outgoing> {
    let at = from_proto_time(event.time.as_ref()?)?;
    let interval = event.interval.as_ref()?;
    Some(Outgoing {
        position: None,
        event_type: event.r#type.clone(),
        object: interval.id.parse().ok()?,
        project: interval.project_id.parse().ok()?,
        at: at.to_sqlx(),
        body: events::usage_body(event)?,
    })
}
