//! Runners of workflows that a test starts, stops and kills.

use std::sync::Arc;
use std::time::Duration;

use gpuaas_allocation::config::Config;
use gpuaas_allocation::metrics::Metrics;
use gpuaas_allocation::workflow::edges::{Edges, KillFile};
use gpuaas_allocation::workflow::{Deps, runner};
use gpuaas_common::CancellationToken;
use sqlx::PgPool;

use crate::world::{World, loopback};

/// A runner that a test can end well or badly.
pub struct Runner {
    shutdown: CancellationToken,
    task: tokio::task::JoinHandle<()>,
    runtime: Option<tokio::runtime::Runtime>,
}

impl Runner {
    /// Ends it as SIGTERM would.
    pub async fn stop(self) {
        self.shutdown.cancel();
        let _ = self.task.await;
        if let Some(runtime) = self.runtime {
            runtime.shutdown_background();
        }
    }

    /// Ends it as SIGKILL would: nothing of it runs any more, nothing is given back.
    pub fn kill(self) {
        let runtime = self.runtime.expect("of its own");
        // not from within the test's own runtime
        let ending = std::thread::spawn(move || runtime.shutdown_timeout(Duration::from_secs(5)));
        ending.join().expect("the runtime ends");
    }
}

impl World {
    pub fn config() -> Config {
        Config {
            poll_seconds: 0.05,
            lease_seconds: 2.0,
            concurrency: 8,
            graceful_stop_seconds: 1,
            reconcile_seconds: 0.0,
            watch_poll_seconds: 0.05,
            watch_heartbeat_seconds: 0.5,
            ..Config::default()
        }
    }

    /// Shared parts of a process of the allocation service.
    pub fn deps(&self, pool: PgPool, config: Config) -> Arc<Deps> {
        self.deps_at(pool, config, Arc::new(KillFile))
    }

    fn deps_at(&self, pool: PgPool, config: Config, edges: Arc<dyn Edges>) -> Arc<Deps> {
        let context = self.context("allocation", "allocation", loopback(0));
        Arc::new(Deps {
            pool,
            peers: context.peers.clone(),
            wake: context.wake().expect("no redis"),
            config,
            metrics: Metrics::new(&context.meter),
            edges,
            host_authority: std::fs::read_to_string(self.authority.host_root())
                .expect("the authority of hosts"),
        })
    }

    /// A runner in this runtime.
    pub fn runner(&self, config: Config) -> Runner {
        self.runner_at(self.pool.clone(), config, Arc::new(KillFile))
    }

    /// The same with its own connections, and somebody at the edges of its steps.
    pub fn runner_at(&self, pool: PgPool, config: Config, edges: Arc<dyn Edges>) -> Runner {
        let deps = self.deps_at(pool, config, edges);
        let shutdown = CancellationToken::new();
        let task = tokio::spawn(runner::run(deps, "test".into(), shutdown.clone()));
        Runner {
            shutdown,
            task,
            runtime: None,
        }
    }

    /// A runner in a runtime of its own, with its own connections: killing it leaves nothing running.
    pub async fn own_runner(&self, owner: &'static str, config: Config) -> Runner {
        self.own_runner_at(owner, config, Arc::new(KillFile)).await
    }

    /// The same with somebody at the edges of its steps.
    pub async fn own_runner_at(
        &self,
        owner: &str,
        config: Config,
        edges: Arc<dyn Edges>,
    ) -> Runner {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let options = self.db.options("gpuaas_allocation");
        let pool = runtime
            .spawn(async move { PgPool::connect_with(options).await.expect("a pool") })
            .await;
        let deps = {
            let _inside = runtime.enter();
            self.deps_at(pool.expect("a pool"), config, edges)
        };
        let shutdown = CancellationToken::new();
        let task = runtime.spawn(runner::run(deps, owner.into(), shutdown.clone()));
        Runner {
            shutdown,
            task,
            runtime: Some(runtime),
        }
    }
}
