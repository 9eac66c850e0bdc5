//! What a time cost: processor time of inventory and its database, rows and bytes written.
use std::time::Instant;

use anyhow::Context as _;
use gpuaas_dev::process::Process;
use gpuaas_load_tests::measure::{cpu_seconds, cpu_seconds_with_children};
use gpuaas_load_tests::system::Services;
use sqlx::PgPool;

use crate::INVENTORY;

/// Counters at one moment.
pub struct Sample {
    at: Instant,
    /// Seconds of processor time.
    inventory: f64,
    scheduler: f64,
    postgres: f64,
    rows: i64,
    commits: i64,
    wal_bytes: i64,
}

impl Sample {
    /// Reads all counters.
    ///
    /// # Errors
    /// A process is gone; the database does not answer.
    pub async fn take(system: &Services<'_>, pool: &PgPool) -> anyhow::Result<Self> {
        let (rows, commits, wal_bytes): (i64, i64, i64) = sqlx::query_as(
            "SELECT sum(tup_inserted + tup_updated + tup_deleted)::bigint, sum(xact_commit)::bigint,
                    pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint FROM pg_stat_database",
        )
        .fetch_one(pool)
        .await?;
        Ok(Self {
            at: Instant::now(),
            inventory: seconds(&system.process(INVENTORY).await?)?,
            scheduler: seconds(&system.process("scheduler").await?)?,
            postgres: of_postgres(system)?,
            rows,
            commits,
            wal_bytes,
        })
    }
}

fn seconds(process: &Process) -> anyhow::Result<f64> {
    cpu_seconds(process).with_context(|| format!("process {} is gone", process.pid))
}

/// Processor time of the server: of its first process, of those that have ended, and of those that run.
fn of_postgres(system: &Services<'_>) -> anyhow::Result<f64> {
    let server = system.stack.postgres()?;
    let first = server.running().context("PostgreSQL does not run")?;
    cpu_seconds_with_children(&first).context("PostgreSQL is gone")
}

/// What happened between two samples.
pub struct Cost {
    seconds: f64,
    inventory: f64,
    scheduler: f64,
    postgres: f64,
    rows: f64,
    commits: f64,
    wal_bytes: f64,
}

impl Cost {
    /// The difference of two samples.
    pub fn between(before: &Sample, after: &Sample) -> Self {
        Self {
            seconds: after.at.duration_since(before.at).as_secs_f64(),
            inventory: after.inventory - before.inventory,
            scheduler: after.scheduler - before.scheduler,
            postgres: after.postgres - before.postgres,
            rows: (after.rows - before.rows) as f64,
            commits: (after.commits - before.commits) as f64,
            wal_bytes: (after.wal_bytes - before.wal_bytes) as f64,
        }
    }

    /// A table of several times.
    pub fn table(costs: &[(&str, Self)], hosts: usize) -> String {
        let hosts = hosts as f64;
        let mut table = String::from(
            "| time | s | inventory, cores | PostgreSQL, cores | scheduler, cores | CPU of all per host, ms/s | rows/s | \
             commits/s | WAL, KiB/s | WAL per host, bytes/s |\n|---|---|---|---|---|---|---|---|---|---|\n",
        );
        for (name, cost) in costs {
            let each = |sum: f64| sum / cost.seconds;
            let all = cost.inventory + cost.scheduler + cost.postgres;
            table += &format!(
                "| {name} | {:.1} | {:.2} | {:.2} | {:.2} | {:.3} | {:.0} | {:.0} | {:.1} | {:.1} |\n",
                cost.seconds,
                each(cost.inventory),
                each(cost.postgres),
                each(cost.scheduler),
                each(all) * 1000.0 / hosts,
                each(cost.rows),
                each(cost.commits),
                each(cost.wal_bytes) / 1024.0,
                each(cost.wal_bytes) / hosts,
            );
        }
        table
    }
}
