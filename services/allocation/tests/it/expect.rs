//! What must hold after a workflow.

use gpuaas_agent::journal::Kind;
use gpuaas_agent::operation::steps_of;
use gpuaas_allocation::step_tables;
use gpuaas_placement::model::SlotStatus;
use std::time::Duration;
use uuid::Uuid;

use crate::world::World;

/// The timeline as (sequence, step, state).
pub async fn timeline(world: &World, id: Uuid) -> Vec<(i64, String, String)> {
    sqlx::query_as(
        "SELECT sequence, step, state FROM timeline WHERE allocation_id = $1 ORDER BY sequence",
    )
    .bind(id)
    .fetch_all(&world.pool)
    .await
    .expect("a timeline")
}

pub fn step_names(kind: &str, undoing: bool) -> Vec<&'static str> {
    let tables = step_tables();
    let table = tables
        .iter()
        .find(|table| table.kind == kind)
        .expect("the table");
    table
        .steps
        .iter()
        .filter(|step| step.undoing == undoing)
        .map(|step| step.name)
        .collect()
}

/// Names of the steps of an operation on the host.
pub fn host_steps(kind: Kind) -> Vec<&'static str> {
    steps_of(kind).iter().map(|step| step.name).collect()
}

/// A step without work on this host and for this image, which is told only when it was seen to begin.
pub fn may_be_skipped(step: &str) -> bool {
    let skipped = [
        "check_guest",
        "find_partition",
        "activate_partition",
        "deactivate_partition",
        "rebind_devices",
        "reset_devices",
    ];
    skipped.iter().any(|name| step.ends_with(name))
}

/// After a provision that worked.
pub async fn assert_active(world: &World, id: Uuid, context: &str) {
    let allocation = world.allocation(id).await;
    let access = allocation.access.expect("access").0;
    assert!(access.ssh_ready, "{context}");
    assert_eq!(
        (access.ssh_port, access.ssh_host_port),
        (22, 2222),
        "{context}"
    );
    assert_eq!(
        world.slot_of(id).await.status,
        SlotStatus::Active,
        "{context}"
    );
    assert_eq!(world.periods(id).await, (1, 1), "{context}");
    let state = world.host.state().await;
    assert_eq!(
        state.domains.iter().collect::<Vec<_>>(),
        [&allocation.id.simple().to_string()]
            .map(|i| format!("gpuaas-slice-{i}"))
            .iter()
            .collect::<Vec<_>>(),
        "{context}"
    );
    assert_eq!(
        state.count("provision"),
        1,
        "{context}: one operation however often it was asked for"
    );
}

/// After a release that worked.
pub async fn assert_released(world: &World, id: Uuid, context: &str) {
    let slot = world.slot_of(id).await;
    assert_eq!(slot.status, SlotStatus::Available, "{context}");
    assert_eq!(slot.clean_generation, Some(slot.generation), "{context}");
    assert_eq!(
        slot.clean_evidence.as_deref(),
        Some("wiped: blkdiscard"),
        "{context}"
    );
    assert_eq!(world.periods(id).await, (1, 0), "{context}");
    assert!(world.host.state().await.dirty.is_empty(), "{context}");
    world.host_is_clean(false, context).await;
}

impl World {
    /// Waits until a query about the database says true.
    pub async fn until(&self, what: &str, sql: &'static str, id: Uuid) {
        let check = async {
            loop {
                let holds: bool = sqlx::query_scalar(sql)
                    .bind(id)
                    .fetch_one(&self.pool)
                    .await
                    .expect("the query runs");
                if holds {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        if tokio::time::timeout(Duration::from_secs(100), check)
            .await
            .is_err()
        {
            let steps: Vec<(String, String, i32, Option<serde_json::Value>)> = sqlx::query_as(
                "SELECT s.step, s.state, s.attempts, s.error FROM workflow_steps s JOIN workflows w ON w.id = s.workflow_id
                  WHERE w.allocation_id = $1 OR w.slot_id = $1 ORDER BY s.started_at",
            )
            .bind(id)
            .fetch_all(&self.pool)
            .await
            .expect("steps");
            let tasks: Vec<String> = sqlx::query_scalar(
                "SELECT concat_ws(' ', type, state, output) FROM node_tasks WHERE allocation_id = $1 OR slot_id = $1 ORDER BY id",
            )
            .bind(id)
            .fetch_all(&self.pool)
            .await
            .expect("tasks");
            // only a superuser sees what sessions of other roles wait for
            let mut superuser = self
                .db
                .server()
                .superuser(self.db.name())
                .await
                .expect("superuser");
            let sessions: Vec<String> = sqlx::query_scalar(
                "SELECT concat_ws(' ', pid, usename, state, wait_event_type, wait_event, pg_blocking_pids(pid)::text,
                                  now() - state_change, left(query, 160))
                   FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()",
            )
            .fetch_all(&mut superuser)
            .await
            .expect("sessions");
            let operations = format!("{:?}", self.host.state().await.operations);
            panic!("never {what}: {steps:#?}\n{tasks:#?}\n{sessions:#?}\n{operations}");
        }
    }

    pub async fn until_state(&self, id: Uuid, state: &'static str) {
        let sql = match state {
            "active" => "SELECT state = 'active' FROM allocations WHERE id = $1",
            "failed" => "SELECT state = 'failed' FROM allocations WHERE id = $1",
            "released" => "SELECT state = 'released' FROM allocations WHERE id = $1",
            "provisioning" => "SELECT state = 'provisioning' FROM allocations WHERE id = $1",
            other => panic!("no query for {other}"),
        };
        self.until(state, sql, id).await;
    }

    /// Waits until no workflow of the allocation runs any more.
    pub async fn until_idle(&self, id: Uuid) {
        let sql = "SELECT NOT EXISTS (SELECT FROM workflows WHERE (allocation_id = $1 OR slot_id = $1) AND state = 'running')";
        self.until("idle", sql, id).await;
    }

    /// Billable periods of an allocation: (all, open).
    pub async fn periods(&self, id: Uuid) -> (i64, i64) {
        sqlx::query_as(
            "SELECT count(*), count(*) FILTER (WHERE ended_at IS NULL) FROM allocation_periods WHERE allocation_id = $1",
        )
        .bind(id)
        .fetch_one(&self.pool)
        .await
        .expect("periods")
    }

    /// Asserts that the host has nothing of an allocation but, at most, the hold of a slot that waits for repair.
    pub async fn host_is_clean(&self, held: bool, context: &str) {
        let state = self.host.state().await;
        assert!(
            state.domains.is_empty(),
            "{context}: domains {:?}",
            state.domains
        );
        assert!(
            state.reservations.is_empty(),
            "{context}: reservations {:?}",
            state.reservations
        );
        assert!(
            state.leases.is_empty(),
            "{context}: leases {:?}",
            state.leases.keys()
        );
        assert_eq!(
            !state.holds.is_empty(),
            held,
            "{context}: holds {:?}",
            state.holds
        );
    }

    /// Asserts that nothing says of itself that it still runs.
    pub async fn nothing_runs(&self, id: Uuid, context: &str) {
        let running: Vec<String> = sqlx::query_scalar(
            "SELECT type FROM node_tasks WHERE allocation_id = $1 AND state = 'running'
             UNION ALL SELECT step FROM timeline WHERE allocation_id = $1 AND state = 'running'",
        )
        .bind(id)
        .fetch_all(&self.pool)
        .await
        .expect("what runs");
        assert!(running.is_empty(), "{context}: {running:?}");
    }
}
