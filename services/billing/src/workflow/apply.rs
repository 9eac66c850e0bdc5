//! Applies events to usage: effects and position in one transaction, so each event has its effect exactly once
//! whatever is killed when.
use gpuaas_common::id::IdGen;
use gpuaas_proto::gpuaas::internal::events::v1::Event;
use sqlx::{Connection as _, PgConnection, PgPool};
use uuid::Uuid;

use crate::config::HostLost;
use crate::domain::event::{self, Change, LedgerEvent, Start};
use crate::domain::inconsistency::Inconsistency;
use crate::domain::usage::{self, Effect, EventOrder, Recorded};
use crate::store::{self, credits};

/// What a batch came to.
#[derive(Debug, PartialEq, Eq)]
pub struct Applied {
    /// Position after it.
    pub position: i64,
    /// Events that were new.
    pub events: u64,
    /// Why it ended before its last event. What came before is committed.
    pub stopped: Option<Inconsistency>,
}

/// Applies a batch in one transaction. Replicas may do so at once: the position's row lock orders them, and
/// what another one has applied is skipped.
///
/// # Errors
/// Database errors; nothing of the batch is then committed.
pub async fn apply(
    pool: &PgPool,
    ids: &IdGen,
    policy: HostLost,
    events: &[Event],
) -> sqlx::Result<Applied> {
    let mut tx = pool.begin().await?;
    let start = store::position::lock(&mut tx).await?;
    let mut position = start;
    let mut stopped = None;
    let mut mark = String::new();
    for event in events {
        match apply_one(&mut tx, ids, policy, position, event).await {
            Ok(reached) => {
                if reached > position {
                    mark = event::mark(event);
                }
                position = reached;
            }
            Err(Failure::Inconsistent(cause)) => {
                stopped = Some(cause);
                break;
            }
            Err(Failure::Store(error)) => return Err(error),
        }
    }
    if position > start {
        store::position::store(&mut tx, position, &mark).await?;
    }
    tx.commit().await?;
    let events = u64::try_from(position - start).unwrap_or_default();
    Ok(Applied {
        position,
        events,
        stopped,
    })
}

enum Failure {
    Inconsistent(Inconsistency),
    Store(sqlx::Error),
}

impl From<Inconsistency> for Failure {
    fn from(cause: Inconsistency) -> Self {
        Self::Inconsistent(cause)
    }
}

impl From<sqlx::Error> for Failure {
    fn from(error: sqlx::Error) -> Self {
        Self::Store(error)
    }
}

/// Applies one event; returns the position after it.
async fn apply_one(
    conn: &mut PgConnection,
    ids: &IdGen,
    policy: HostLost,
    after: i64,
    event: &Event,
) -> Result<i64, Failure> {
    if usage::event_order(after, event.position)? == EventOrder::Applied {
        return Ok(after);
    }
    let event = event::parse(event)?;
    let (recorded, published) = match &event.change {
        Change::None => return Ok(event.position),
        Change::HostLost {
            allocation_id,
            since,
        } => {
            // heard in between, which the ledger was not told
            credits::close_earlier(conn, *allocation_id, *since, event.position).await?;
            if policy == HostLost::Credit {
                credits::open(conn, ids.next(), *allocation_id, *since, event.position).await?;
            }
            return Ok(event.position);
        }
        // also when the policy changed meanwhile: what was begun ends
        Change::HostFound { allocation_id, at } => {
            credits::close(conn, *allocation_id, *at, event.position).await?;
            return Ok(event.position);
        }
        Change::Ends { allocation_id, .. } => {
            (store::usage::recorded(conn, *allocation_id).await?, None)
        }
        Change::Starts(start) => {
            let version = store::prices::get(&mut *conn, start.price_version_id).await?;
            let recorded = store::usage::recorded(conn, start.allocation_id).await?;
            (
                recorded,
                version.map(|version| (version.sku.clone(), version.price())),
            )
        }
    };
    write(conn, ids, policy, &event, &recorded, published.as_ref()).await?;
    Ok(event.position)
}

/// Writes the effect behind a savepoint: what a constraint refuses must not undo the events before it.
async fn write(
    conn: &mut PgConnection,
    ids: &IdGen,
    policy: HostLost,
    event: &LedgerEvent,
    recorded: &Recorded,
    published: Option<&(String, crate::domain::money::Price)>,
) -> Result<(), Failure> {
    let effect = usage::decide(recorded, published, event)?;
    let mut savepoint = conn.begin().await?;
    let written = match effect {
        Effect::None => Ok(()),
        Effect::Open(start) => begin(&mut savepoint, ids, policy, start, event.position).await,
        Effect::Close { interval_id, at } => end(&mut savepoint, event, interval_id, at).await,
    };
    match written {
        Ok(()) => Ok(savepoint.commit().await?),
        Err(error) => {
            savepoint.rollback().await?;
            Err(refusal(event.position, error))
        }
    }
}

/// Begins an interval, and to credit it where the host is lost from its start on.
async fn begin(
    conn: &mut PgConnection,
    ids: &IdGen,
    policy: HostLost,
    start: &Start,
    position: i64,
) -> sqlx::Result<()> {
    store::usage::open(&mut *conn, ids.next(), start, position).await?;
    match start.host_lost_since {
        Some(since) if policy == HostLost::Credit => {
            credits::open(conn, ids.next(), start.allocation_id, since, position).await
        }
        _ => Ok(()),
    }
}

/// Ends what is being credited of the allocation, and then the interval.
async fn end(
    conn: &mut PgConnection,
    event: &LedgerEvent,
    interval_id: Uuid,
    at: jiff::Timestamp,
) -> sqlx::Result<()> {
    if let Change::Ends { allocation_id, .. } = &event.change {
        credits::close(&mut *conn, *allocation_id, at, event.position).await?;
    }
    store::usage::close(conn, interval_id, at, event.position).await
}

/// An integrity violation (class 23) is an inconsistency of the log; anything else is trouble with the database.
fn refusal(position: i64, error: sqlx::Error) -> Failure {
    let violated = error.as_database_error().and_then(|database| {
        let integrity = database.code().is_some_and(|code| code.starts_with("23"));
        integrity.then(|| database.constraint().unwrap_or("a trigger").to_owned())
    });
    match violated {
        Some(constraint) => Failure::Inconsistent(Inconsistency::Refused {
            position,
            constraint,
        }),
        None => Failure::Store(error),
    }
}
