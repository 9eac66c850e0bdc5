//! Retention of the journal: old operations are deleted, so that it does not grow for ever.
use std::time::Duration;

use gpuaas_common::CancellationToken;

use crate::journal::Journal;
use crate::wall_clock::now_ms;

/// Between two runs.
pub const INTERVAL: Duration = Duration::from_secs(6 * 3600);
/// Operations deleted at a time: the journal's other users wait no longer than for these.
const BATCH: u32 = 200;

/// Deletes operations that ended longer ago than `retention`, now and after every `interval`, until `shutdown`.
pub async fn run(
    journal: &Journal,
    retention: Duration,
    interval: Duration,
    shutdown: CancellationToken,
) {
    let retention = i64::try_from(retention.as_millis()).unwrap_or(i64::MAX);
    loop {
        let mut count = 0;
        loop {
            match journal.prune(now_ms().saturating_sub(retention), BATCH) {
                Ok(0) => break,
                Ok(deleted) => count += deleted,
                Err(error) => {
                    tracing::warn!(%error, "cannot delete old operations");
                    break;
                }
            }
            tokio::task::yield_now().await;
        }
        if count > 0 {
            tracing::info!(count, "delete old operations");
        }
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(interval) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use gpuaas_dev::until::until;
    use gpuaas_proto::gpuaas::agent::v1 as pb;
    use uuid::Uuid;

    use super::*;
    use crate::host::clock::BootMoment;
    use crate::ids::{AllocationId, OperationId};
    use crate::journal::{Kind, NewOperation};

    fn ended(journal: &Journal, ended_ms: i64) -> OperationId {
        let id = OperationId(Uuid::now_v7());
        let new = NewOperation {
            id,
            kind: Kind::Stop,
            allocation: AllocationId(Uuid::now_v7()),
            request: Vec::new(),
            request_hash: String::new(),
            lease: None,
            lease_request: pb::AcquireLeaseRequest::default(),
            plan: pb::BundlePlan::default(),
            traceparent: String::new(),
            deadline: BootMoment {
                boot_id: "boot".into(),
                nanos: 1,
            },
            started_ms: 0,
            steps: Vec::new(),
        };
        journal.start_operation(&new).unwrap();
        let result = pb::HostOperation::default();
        journal.succeed(id, &result, ended_ms, &[]).unwrap();
        id
    }

    #[tokio::test]
    async fn old_operations_are_deleted_also_while_the_agent_runs() {
        let journal = Journal::in_memory().unwrap();
        let recent = ended(&journal, now_ms());
        let (first, shutdown) = (ended(&journal, 1), CancellationToken::new());
        let day = Duration::from_secs(24 * 3600);
        let work = run(&journal, day, Duration::from_millis(5), shutdown.clone());
        let deleted = async |id| {
            until("the deletion", Duration::from_secs(20), async || {
                journal.operation(id).unwrap().is_none().then_some(())
            })
            .await;
        };
        let watch = async {
            deleted(first).await;
            deleted(ended(&journal, 1)).await;
            assert!(journal.operation(recent).unwrap().is_some());
            shutdown.cancel();
        };
        tokio::join!(work, watch);
    }

    #[test]
    fn old_operations_are_deleted_in_batches_the_oldest_first() {
        let journal = Journal::in_memory().unwrap();
        let ids: Vec<_> = [3, 1, 2].map(|ended_ms| ended(&journal, ended_ms)).into();
        assert_eq!(journal.prune(10, 2).unwrap(), 2);
        assert!(journal.operation(ids[0]).unwrap().is_some(), "the youngest");
        assert_eq!(journal.prune(10, 2).unwrap(), 1);
        assert_eq!(journal.prune(10, 2).unwrap(), 0);
    }
}
