//! From the ledger's log to queued deliveries.
use gpuaas_common::{Error, Result, db};
use gpuaas_proto::gpuaas::internal::events::v1::event_service_client::EventServiceClient;
use gpuaas_proto::gpuaas::internal::events::v1::{Event, ReadRequest};
use jiff_sqlx::ToSqlx as _;

use super::events;
use super::work::Work;
use crate::store::{self, Outgoing};

/// Events asked for at once.
const BATCH: i32 = 500;

/// Queues everything that the log holds now. No lock is held while the ledger is asked: of two gateways that read the same
/// events the one that commits first has moved the position, and the other writes nothing.
///
/// # Errors
/// The ledger or the database does not answer.
pub(super) async fn catch_up(work: &Work) -> Result<()> {
    loop {
        let after = db::within(db::PASS, store::webhook_position(&work.pool)).await?;
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
        let to = last.position;
        let outgoing: Vec<Outgoing> = read.events.iter().filter_map(outgoing).collect();
        let made = store::queue_deliveries(&work.pool, &work.ids, (after, to), &outgoing);
        let made = db::within(db::PASS, made).await?;
        if made > 0 {
            work.webhooks.due.notify_one();
        }
    }
}

/// What of an event is for webhooks.
fn outgoing(event: &Event) -> Option<Outgoing> {
    let at = gpuaas_common::time::from_proto_time(event.time.as_ref()?)?;
    Some(Outgoing {
        position: event.position,
        event_type: event.r#type.clone(),
        object: event.aggregate_id.parse().ok()?,
        project: event.project_id.parse().ok()?,
        at: at.to_sqlx(),
        body: events::body(event)?,
    })
}
