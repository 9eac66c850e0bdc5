//! The host of the database vanishes in the middle of work and closes no connection; the one that takes over has what was
//! committed. The same runner goes on, and no effect happens twice.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use gpuaas_allocation::Config;
use gpuaas_allocation::workflow::edges::Edges;
use gpuaas_allocation::workflow::failure::StepError;
use gpuaas_allocation::workflow::kill::Point;
use gpuaas_common::db::sized;
use gpuaas_dev::postgres::Vanishing;
use uuid::Uuid;

use crate::expect::{assert_active, assert_released};
use crate::runners::Runner;
use crate::world::World;

/// An edge of a step of a workflow.
type Place = (&'static str, &'static str, Point);

/// Has the host vanish at an edge of a step, once.
struct VanishesAt {
    host: Vanishing,
    place: Place,
    vanished: AtomicBool,
}

#[async_trait]
impl Edges for VanishesAt {
    async fn pass(&self, kind: &str, step: &str, point: Point) -> Result<(), StepError> {
        if (kind, step, point) == self.place && !self.vanished.swap(true, Ordering::SeqCst) {
            self.host.vanish();
        }
        Ok(())
    }
}

/// A runner with a pool as the service's own, whose host vanishes there.
fn runner_that_loses_its_database(
    world: &World,
    folder: &Path,
    place: Place,
) -> (Runner, Arc<VanishesAt>) {
    let (host, options) =
        Vanishing::to(world.db.options("gpuaas_allocation"), folder).expect("a way");
    let pool = sized(8)
        .acquire_timeout(Duration::from_secs(5))
        .connect_lazy_with(options);
    let edges = Arc::new(VanishesAt {
        host,
        place,
        vanished: AtomicBool::new(false),
    });
    // longer than a connection is asked whether it lives
    let config = Config {
        lease_seconds: 3.0,
        ..World::config()
    };
    (world.runner_at(pool, config, edges.clone()), edges)
}

/// Events that began the billing of an allocation.
async fn begins(world: &World, id: Uuid) -> i64 {
    sqlx::query_scalar(
        "SELECT count(*) FROM placement.outbox WHERE aggregate_id = $1 AND type = 'allocation.active'",
    )
    .bind(id)
    .fetch_one(&world.owner)
    .await
    .expect("events")
}

async fn launch_through(place: Place) {
    let world = World::start().await;
    let folder = tempfile::tempdir().expect("a folder");
    let (runner, edges) = runner_that_loses_its_database(&world, folder.path(), place);
    let id = world.reserve("web").await;
    world.until_state(id, "active").await;
    world.until_idle(id).await;
    assert!(edges.vanished.load(Ordering::SeqCst), "{place:?}");
    assert_active(&world, id, &format!("{place:?}")).await;
    assert_eq!(begins(&world, id).await, 1, "{place:?}");
    runner.stop().await;
}

#[tokio::test]
async fn p5_p8_a_launch_goes_on_when_the_hosts_answer_cannot_be_recorded() {
    launch_through(("provision", "provision", Point::After)).await;
}

#[tokio::test]
async fn p5_p8_a_launch_goes_on_when_the_ledger_cannot_be_written() {
    launch_through(("provision", "activate", Point::Before)).await;
}

#[tokio::test]
async fn p5_p8_a_launch_goes_on_when_nobody_knows_that_the_ledger_was_written() {
    launch_through(("provision", "activate", Point::After)).await;
}

#[tokio::test]
async fn p5_p8_a_release_goes_on_when_the_proof_of_its_wipe_cannot_be_recorded() {
    let world = World::start().await;
    let folder = tempfile::tempdir().expect("a folder");
    let place = ("release", "release", Point::After);
    let (runner, edges) = runner_that_loses_its_database(&world, folder.path(), place);
    let id = world.reserve("web").await;
    world.until_state(id, "active").await;
    world.until_idle(id).await;
    world.release(id).await;
    world.until_state(id, "released").await;
    world.until_idle(id).await;
    assert!(edges.vanished.load(Ordering::SeqCst));
    assert_released(&world, id, "vanished").await;
    assert_eq!(world.host.state().await.count("release"), 1, "one wipe");
    runner.stop().await;
}
