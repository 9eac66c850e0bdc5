//! For tests of every crate that works on the ledger: the parts of a workflow runner and its host, in statements of the
//! role that they have. Panics where the ledger refuses.
use gpuaas_placement::model::{EvidenceKind, SlotEvidence};
use gpuaas_placement::{Fence, node_tasks, repair};
use serde_json::json;
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

/// Wipes the disks of a node's slots that wait for it, those that were just approved for example, and proves them empty:
/// afterwards they are available. The pool is that of the allocation service.
pub async fn wipe(allocation: &PgPool, node_id: Uuid) {
    let mut tx = allocation.begin().await.expect("begin");
    wipe_in(&mut tx, node_id).await;
    tx.commit().await.expect("commit");
}

/// The same in a transaction: with the approval in it, no service that runs meanwhile sees the slots before they are
/// available.
pub async fn wipe_in(conn: &mut PgConnection, node_id: Uuid) {
    let slots: Vec<(Uuid, i64)> = sqlx::query_as(
        "SELECT id, generation FROM slots WHERE node_id = $1 AND status = 'cleanup' ORDER BY id FOR NO KEY UPDATE",
    )
    .bind(node_id)
    .fetch_all(&mut *conn)
    .await
    .expect("slots");
    for (slot_id, generation) in slots {
        let fence = take(conn, slot_id).await;
        answered(conn, fence).await;
        let _ = repair::complete(conn, fence, slot_id, &wiped(slot_id, generation))
            .await
            .expect("a slot that is proven empty");
        finish(conn, fence).await;
    }
}

/// Evidence of a wipe.
#[must_use]
pub fn wiped(slot_id: Uuid, generation: i64) -> SlotEvidence {
    SlotEvidence {
        slot_id,
        generation,
        kind: EvidenceKind::Wiped,
        method: "blkdiscard".into(),
        detail: json!({"verified_bytes": 1024}),
    }
}

/// Takes the lease of the running workflow on an allocation or slot, as a runner does.
pub async fn take(conn: &mut PgConnection, subject: Uuid) -> Fence {
    let (workflow_id, lease_epoch) = sqlx::query_as(
        "UPDATE workflows SET lease_epoch = nextval('workflow_epochs'), lease_owner = 'test',
                lease_expires_at = clock_timestamp() + interval '1 minute'
          WHERE state = 'running' AND (allocation_id = $1 AND slot_id IS NULL OR slot_id = $1)
          RETURNING id, lease_epoch",
    )
    .bind(subject)
    .fetch_one(&mut *conn)
    .await
    .expect("one workflow runs");
    Fence {
        workflow_id,
        lease_epoch,
    }
}

/// Records the call that the workflow's host has answered with wipe evidence, if its kind makes one. Repeating it changes
/// nothing.
pub async fn answered(conn: &mut PgConnection, fence: Fence) {
    let workflow: (String, Option<Uuid>, Option<Uuid>, Option<Uuid>) = sqlx::query_as(
        "SELECT w.kind, w.allocation_id, w.slot_id,
                coalesce((SELECT node_id FROM slots WHERE id = w.slot_id),
                         (SELECT node_id FROM allocations WHERE id = w.allocation_id))
           FROM workflows w WHERE w.id = $1",
    )
    .bind(fence.workflow_id)
    .fetch_one(&mut *conn)
    .await
    .expect("the workflow");
    let (kind, allocation_id, slot_id, node_id) = workflow;
    let task_type = match kind.as_str() {
        "release" => node_tasks::TaskType::VmRelease,
        "repair" => node_tasks::TaskType::SlotRepair,
        _ => return,
    };
    let task = node_tasks::NewTask {
        // one per workflow
        id: fence.workflow_id,
        task_type,
        workflow_id: fence.workflow_id,
        allocation_id,
        slot_id,
        node_id: node_id.expect("a node"),
        payload: &json!({}),
    };
    node_tasks::begin(conn, &task).await.expect("a task");
    node_tasks::finish(conn, task.id, true, &json!({}))
        .await
        .expect("an answer");
}

/// Ends a workflow as its runner does.
pub async fn finish(conn: &mut PgConnection, fence: Fence) {
    sqlx::query("UPDATE workflows SET state = 'done', ended_at = clock_timestamp() WHERE id = $1 AND lease_epoch = $2")
        .bind(fence.workflow_id)
        .bind(fence.lease_epoch)
        .execute(conn)
        .await
        .expect("finish");
}
