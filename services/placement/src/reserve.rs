//! Reserve: idempotency row, allocations, claims, slot states, workflows, timeline, events and audit rows in one
//! transaction, for one request or for a batch of them. The key is taken first: calls with the same one wait for each
//! other there, and the second finds what the first has made.
//!
//! The decision ranks nodes on a snapshot; what counts is the node under its lock: it is decided about again unless it
//! is the very version that was read. Nodes that are
//! locked by others are skipped at first, and waited for, within a bound, before the request is refused: a node
//! that is merely busy must not count as full. Contention leads to the next candidate or a retry,
//! until the placement timeout of the request. A refusal stores nothing, so its key may be used again.
mod admit;
pub(crate) mod baremetal;
mod call;
mod explain;
mod explanation;
mod now;
pub(crate) mod place;
mod queue;
mod record;

use gpuaas_common::id::IdGen;
use uuid::Uuid;

use crate::capacity::Ledger;
use crate::error::Result;

use now::{run, validate};

pub(crate) use admit::{check, over_quota, refusal};
pub(crate) use call::{Mode, in_transaction, retry};
pub(crate) use place::Search;

pub use crate::model::{Constraints, Policy, Request};
pub use call::{BATCH_METHOD, Call, Key, METHOD, WhenFull, ids_of};
pub use explain::{NodeVerdict, explain, explain_nodes};
pub use explanation::Explanation;
pub use now::check_name;
pub use queue::{Limits, MAX_QUEUED, MAX_WAIT_SECONDS, Pass, Passes, serve_queue};

/// Most requests of a batch.
pub const MAX_BATCH: usize = gpuaas_common::launch::MAX_BATCH;

/// What a call led to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reserved {
    /// In the order of the requests; empty after a dry run.
    pub allocation_ids: Vec<Uuid>,
    /// The key was used before with this very request.
    pub replayed: bool,
    /// After a dry run of one request: where it would fit now. Nowhere, when it would be queued.
    pub explanation: Option<Explanation>,
}

/// Reserves capacity for all requests of a call or for none, or queues them where the call says so. Notify
/// [`crate::workflows::TOPIC`] and [`crate::outbox::TOPIC`] afterwards.
///
/// # Errors
/// [`Error::Invalid`], [`Error::Refused`], [`Error::NameTaken`], [`Error::Busy`], a reused key from `gpuaas_common`; what
/// is about one request of a batch is [`Error::InBatch`]. Nothing was stored then.
pub async fn reserve(
    ledger: &Ledger,
    ids: IdGen,
    policy: Policy,
    call: Call<'_>,
) -> Result<Reserved> {
    match call.mode {
        Mode::Commit => {
            let (allocation_ids, replayed) = match call.when_full {
                WhenFull::Refuse => run(ledger, ids, policy, &call).await?,
                WhenFull::Queue(until) => {
                    queue::or_queue(ledger, ids, policy, &call, until).await?
                }
            };
            Ok(Reserved {
                allocation_ids,
                replayed,
                explanation: None,
            })
        }
        Mode::DryRun => {
            // whatever key the caller has, it stays free
            let own = ids.next().to_string();
            let call = Call {
                key: Key {
                    idempotency_key: &own,
                    ..call.key
                },
                ..call
            };
            let explanation = match call.when_full {
                WhenFull::Refuse => validate(ledger, ids, policy, &call).await?,
                WhenFull::Queue(until) => {
                    queue::validate_or_queue(ledger, ids, policy, &call, until).await?
                }
            };
            Ok(Reserved {
                explanation,
                ..Reserved::default()
            })
        }
    }
}
