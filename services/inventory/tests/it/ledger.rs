//! The real scheduler beside the inventory under test, and what its ledger holds.
use std::path::PathBuf;

use gpuaas_common::config::DatabaseSettings;
use gpuaas_common::{CancellationToken, Context};
use gpuaas_dev::ca::{Authority, Identity};
use gpuaas_dev::postgres::TestDb;
use sqlx::{AssertSqlSafe, FromRow, PgPool};
use tokio::task::JoinHandle;
use uuid::Uuid;

use crate::world;

/// The ledger's row of a node.
#[derive(Debug, Clone, FromRow)]
pub(crate) struct Reported {
    pub(crate) agent_address: String,
    pub(crate) instance_id: Uuid,
    pub(crate) schedulable: bool,
    pub(crate) not_schedulable_reason: String,
    pub(crate) host_health: String,
    pub(crate) lab: bool,
    pub(crate) image_digests: Vec<String>,
    pub(crate) hugepages_allocated_to: Vec<Uuid>,
    pub(crate) hugepages_1g_free: i32,
    pub(crate) lost: bool,
}

pub(crate) struct Ledger {
    pub(crate) port: u16,
    pool: PgPool,
    /// Of the allocation service, which does not run here.
    allocation: PgPool,
    database: DatabaseSettings,
    identity: Identity,
    authority: PathBuf,
    running: Option<(CancellationToken, JoinHandle<anyhow::Result<()>>)>,
}

impl Ledger {
    pub(crate) async fn start(ca: &Authority, db: &TestDb) -> Self {
        let mut ledger = Self {
            port: gpuaas_dev::ports::free().expect("port"),
            pool: db.owner_pool().await,
            allocation: db.pool("gpuaas_allocation").await,
            database: world::database(db, "gpuaas_scheduler"),
            identity: ca.service("scheduler", &[]).expect("identity"),
            authority: ca.authority().certificate,
            running: None,
        };
        ledger.up();
        ledger
    }

    pub(crate) fn up(&mut self) {
        let mut settings = world::settings(&self.identity, &self.authority, self.port);
        settings.database = Some(self.database.clone());
        let ctx = Context::new("scheduler", settings).expect("context");
        let stop = CancellationToken::new();
        let running = gpuaas_scheduler::run(ctx, gpuaas_scheduler::Config::default(), stop.clone());
        self.running = Some((stop, tokio::spawn(running)));
    }

    pub(crate) async fn down(&mut self) {
        if let Some((stop, ended)) = self.running.take() {
            stop.cancel();
            ended.await.expect("no panic").expect("ended well");
        }
    }

    /// Whether a region is enabled, and why it is not.
    pub(crate) async fn region(&self, code: &str) -> Option<(bool, String)> {
        sqlx::query_as("SELECT enabled, unavailable_reason FROM placement.regions WHERE code = $1")
            .bind(code)
            .fetch_optional(&self.pool)
            .await
            .expect("regions")
    }

    pub(crate) async fn node(&self, id: &str) -> Option<Reported> {
        sqlx::query_as(
            "SELECT agent_address, instance_id, schedulable, not_schedulable_reason, host_health::text, lab,
                    image_digests, hugepages_allocated_to, hugepages_1g_free, host_lost_since IS NOT NULL AS lost
             FROM placement.nodes WHERE id = $1::uuid",
        )
        .bind(id)
        .fetch_optional(&self.pool)
        .await
        .expect("nodes")
    }

    /// Wipes what was approved on a node, as the allocation service and the host do.
    pub(crate) async fn wipe(&self, node_id: &str) {
        let node_id = node_id.parse().expect("an id");
        gpuaas_placement_testing::wipe(&self.allocation, node_id).await;
    }

    /// A tenant of the bare-metal node may have written to every disk of it.
    pub(crate) async fn retire_evidence(&self, node_id: &str) {
        let sql = format!(
            "SET LOCAL search_path = placement;
             UPDATE slots SET status = 'disabled', generation = generation + 1, revision = revision + 1
              WHERE node_id = '{node_id}'"
        );
        let mut tx = self.pool.begin().await.expect("begin");
        let done = sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut *tx).await;
        done.expect("taken out of service");
        tx.commit().await.expect("commit");
    }

    /// An operator says it of a node.
    pub(crate) async fn say(&self, node_id: &str, admin_state: &str) {
        let sql = format!(
            "SET LOCAL search_path = placement;
             UPDATE nodes SET admin_state = '{admin_state}', admin_reason = 'by the test', admin_at = clock_timestamp()
              WHERE id = '{node_id}'"
        );
        let mut tx = self.pool.begin().await.expect("begin");
        let done = sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut *tx).await;
        done.expect("said");
        tx.commit().await.expect("commit");
    }

    /// Rack of a node.
    pub(crate) async fn rack(&self, id: &str) -> String {
        sqlx::query_scalar("SELECT rack FROM placement.nodes WHERE id = $1::uuid")
            .bind(id)
            .fetch_one(&self.pool)
            .await
            .expect("nodes")
    }

    /// Mode and VM limit of a node.
    pub(crate) async fn configured(&self, id: &str) -> (String, i32) {
        sqlx::query_as("SELECT mode, max_vms FROM placement.nodes WHERE id = $1::uuid")
            .bind(id)
            .fetch_one(&self.pool)
            .await
            .expect("nodes")
    }

    pub(crate) async fn schedulable(&self, id: &str) -> bool {
        self.node(id).await.is_some_and(|node| node.schedulable)
    }
}
