//! Takes due workflows and renews their leases while the engine runs them. Any number of runners may work on one
//! database.

use std::sync::Arc;
use std::time::{Duration, Instant};

use gpuaas_common::db;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::engine::{self, Outcome};
use super::places::{Place, Places};
use super::table::Definition;
use super::work::Deps;
use crate::store::workflow_rows::{self, Lost, Taken};

/// How often a run is taken up again after a database error before it is abandoned.
const DATABASE_TRIES: u32 = 5;

/// Runs workflows until `shutdown`; then gives running ones back, so that another replica goes on at once.
pub async fn run(deps: Arc<Deps>, owner: String, shutdown: CancellationToken) {
    let poll = Duration::from_secs_f64(deps.config.poll_seconds);
    let waiter = deps.wake.subscribe(gpuaas_placement::workflows::TOPIC);
    // an answer that comes later tells of work that another runner may have by then
    let lease = Duration::from_secs_f64(deps.config.lease_seconds).min(db::PASS);
    let places = Places::new(deps.config.concurrency, deps.config.wipe_concurrency);
    let running = TaskTracker::new();
    while !shutdown.is_cancelled() {
        let Some(Ok(place)) = shutdown.run_until_cancelled(places.take()).await else {
            break;
        };
        let take = workflow_rows::take(&deps.pool, &owner, deps.config.lease_seconds);
        match db::within(lease, take).await {
            Ok(Some(taken)) => {
                let (deps, shutdown) = (deps.clone(), shutdown.clone());
                running.spawn(async move { one(&deps, taken, place, shutdown).await });
            }
            Ok(None) => {
                drop(place);
                shutdown.run_until_cancelled(waiter.wait(poll)).await;
            }
            Err(error) => {
                drop(place);
                tracing::warn!("wait for the database to take work: {error}");
                shutdown.run_until_cancelled(tokio::time::sleep(poll)).await;
            }
        }
    }
    running.close();
    running.wait().await;
}

/// Runs one taken workflow under its heartbeat.
async fn one(deps: &Arc<Deps>, taken: Taken, mut place: Place, shutdown: CancellationToken) {
    let Some(definition) = super::definition(&taken.kind) else {
        tracing::error!(workflow = taken.kind, workflow_id = %taken.id, "skip a workflow of unknown kind");
        return;
    };
    let began = Instant::now();
    let ended = tokio::select! {
        ended = persist(deps, definition, taken.clone(), &mut place) => ended,
        () = heartbeat(deps, &taken) => Ok(Outcome::Lost),
        () = shutdown.cancelled() => yield_workflow(deps, &taken).await,
    };
    let seconds = taken.age_seconds + began.elapsed().as_secs_f64();
    match ended {
        Ok(Outcome::Succeeded) => {
            tracing::info!(workflow = taken.kind, workflow_id = %taken.id, "finish workflow");
            deps.metrics.workflow_end(&taken.kind, "succeeded", seconds);
        }
        Ok(Outcome::Compensated) => {
            tracing::warn!(workflow = taken.kind, workflow_id = %taken.id, "finish workflow, compensated");
            deps.metrics
                .workflow_end(&taken.kind, "taken_back", seconds);
        }
        Ok(Outcome::GivenBack) => {}
        Ok(Outcome::Lost) => {
            tracing::info!(workflow = taken.kind, workflow_id = %taken.id, "leave lost workflow");
        }
        // the lease runs out by itself
        Err(error) => {
            tracing::warn!(workflow = taken.kind, workflow_id = %taken.id, "leave workflow: {error}");
        }
    }
}

/// Runs the engine, and again when the database was unreachable meanwhile: the rows say where it was. After a few
/// failures in a row the work is left to whoever takes it next.
async fn persist(
    deps: &Arc<Deps>,
    definition: &'static Definition,
    taken: Taken,
    place: &mut Place,
) -> sqlx::Result<Outcome> {
    let (id, epoch) = (taken.id, taken.lease_epoch);
    let mut ended = engine::run(deps, definition, taken, place).await;
    for _ in 0..DATABASE_TRIES {
        let Err(error) = &ended else { break };
        tracing::warn!(workflow = definition.kind, workflow_id = %id, "go on after a database error: {error}");
        tokio::time::sleep(Duration::from_secs_f64(deps.config.poll_seconds)).await;
        let reload = workflow_rows::reload(&deps.pool, id, epoch);
        ended = match deps.within(reload).await {
            Ok(Some(taken)) => engine::run(deps, definition, taken, place).await,
            Ok(None) => Ok(Outcome::Lost),
            Err(error) => Err(error),
        };
    }
    ended
}

/// Renews the lease; returns when it is lost, or could not be renewed for as long as it lasts.
async fn heartbeat(deps: &Deps, taken: &Taken) {
    let lease = Duration::from_secs_f64(deps.config.lease_seconds);
    let mut renewed = Instant::now();
    loop {
        tokio::time::sleep(lease / 3).await;
        let renewal = workflow_rows::renew(
            &deps.pool,
            taken.id,
            taken.lease_epoch,
            deps.config.lease_seconds,
        );
        // short enough for another attempt, by another connection
        match db::within(lease / 6, renewal).await {
            Ok(Ok(())) => renewed = Instant::now(),
            Ok(Err(Lost)) => return,
            Err(error) if renewed.elapsed() < lease => {
                tracing::warn!(workflow_id = %taken.id, "retry renewal of the lease: {error}");
            }
            Err(_) => return,
        }
    }
}

async fn yield_workflow(deps: &Deps, taken: &Taken) -> sqlx::Result<Outcome> {
    let given =
        workflow_rows::yield_workflow(&deps.pool, taken.id, taken.lease_epoch, 0.0, "", None);
    let given = deps.within(given).await?;
    deps.wake.notify(gpuaas_placement::workflows::TOPIC).await;
    Ok(if given.is_ok() {
        Outcome::GivenBack
    } else {
        Outcome::Lost
    })
}
