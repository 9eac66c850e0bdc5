//! Retention of the journal: old operations are deleted, so that it does not grow for ever.
use std::time::Duration;

use gpuaas_common::CancellationToken;

use crate::journal::Journal;
use crate::node::now_ms;

/// How long an ended operation is retained: thirty days.
const RETENTION_MS: i64 = 30 * 24 * 3600 * 1000;
/// Between two runs.
pub const INTERVAL: Duration = Duration::from_secs(6 * 3600);

/// Deletes now and after every `interval`, until `shutdown`.
pub async fn run(journal: &Journal, interval: Duration, shutdown: CancellationToken) {
    loop {
        match journal.prune(now_ms() - RETENTION_MS) {
            Ok(0) => {}
            Ok(count) => tracing::info!(count, "delete old operations"),
            Err(error) => tracing::warn!(%error, "cannot delete old operations"),
        }
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(interval) => {}
        }
    }
}

#[cfg(test)]
mod tests {
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
        let work = run(&journal, Duration::from_millis(5), shutdown.clone());
        let deleted = async |id| {
            let deadline = std::time::Instant::now() + Duration::from_secs(20);
            while journal.operation(id).unwrap().is_some() {
                assert!(std::time::Instant::now() < deadline, "still there");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let watch = async {
            deleted(first).await;
            deleted(ended(&journal, 1)).await;
            assert!(journal.operation(recent).unwrap().is_some());
            shutdown.cancel();
        };
        tokio::join!(work, watch);
    }
}
