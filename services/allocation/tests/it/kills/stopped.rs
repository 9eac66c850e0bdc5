//! The agent stands still beyond its lease, at every edge of every step of a provision and of a release (D-10). What it had begun
//! it ends when it goes on, and a newer worker meets nothing of it that it does not know: the work is done once, and a release
//! that came meanwhile leaves an empty disk and nothing else.
//!
//! The agent's threads stand still together, so it begins nothing and answers nobody; only the time is left out, in which its
//! leases end.

use std::sync::atomic::Ordering;

use gpuaas_agent::journal::Kind;
use gpuaas_dev::until::until;
use gpuaas_placement::model::SlotStatus;

use super::{Death, Lives, TIMEOUT, of_agent, owner_name};
use crate::host::Kill;
use crate::world::World;

/// Both edges of every step.
fn places(kind: Kind) -> Vec<Kill> {
    let all = of_agent(kind).into_iter();
    all.map(|death| match death {
        Death::Agent(place) => place,
        other => panic!("{other:?}"),
    })
    .collect()
}

impl Lives<'_> {
    /// Waits until the agent stands where it is to stand still, lets its leases end and another worker take the work over, and
    /// lets it go on.
    pub(super) async fn agent_stands_still(&mut self, at: &Kill) {
        let context = format!("{at:?}");
        let stopped = self.world.host.until_stopped(&context).await;
        let late = self.world.host.outlive_leases().await;
        assert_eq!(late.len(), 1, "{context}: a lease");
        self.runner.take().expect("a runner").kill();
        self.new_runner().await;
        self.until_taken().await;
        self.world.host.goes_on(stopped);
    }

    /// Waits until the service that lives has the work.
    async fn until_taken(&self) {
        let own = owner_name(self.living.load(Ordering::SeqCst));
        until("another worker", TIMEOUT, async || {
            let sql = "SELECT EXISTS (SELECT FROM placement.workflows WHERE state = 'running' AND lease_owner = $1)";
            let found = sqlx::query_scalar(sql).bind(&own);
            let found: bool = found.fetch_one(&self.world.owner).await.expect("a ledger");
            found.then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn d_10_an_agent_that_outlives_its_lease_in_any_step_ends_it_once() {
    let world = World::with_board().await;
    let mut lives = Lives::in_world(&world, World::config()).await;
    let (up, down) = (places(Kind::Provision), places(Kind::Release));
    for round in 0..up.len().max(down.len()) {
        let [rise, fall] = [&up, &down].map(|all| all.get(round).cloned().map(Death::Stopped));
        let id = lives.active(rise).await;
        lives.released(id, fall).await;
    }
    lives.end().await;
}

#[tokio::test]
async fn d_10_p2_a_provision_that_outlives_its_lease_in_any_step_leaves_nothing_to_the_release() {
    let world = World::with_board().await;
    let mut lives = Lives::in_world(&world, World::config()).await;
    for at in places(Kind::Provision) {
        let context = format!("{at:?}");
        world.host.script(|script| script.stop = Some(at.clone()));
        let id = lives.launch(None).await;
        let stopped = world.host.until_stopped(&context).await;
        assert_eq!(world.host.outlive_leases().await.len(), 1, "{context}");
        world.release(id).await;
        lives.until_taken().await;
        world.host.goes_on(stopped);
        world.until_state(id, "released").await;
        world.until_idle(id).await;
        let slot = world.slot_of(id).await;
        assert_eq!(slot.status, SlotStatus::Available, "{context}");
        assert_eq!(slot.clean_generation, Some(slot.generation), "{context}");
        assert!(world.host.state().await.dirty.is_empty(), "{context}");
        world.host_is_clean(false, &context).await;
        lives.assert_nothing_left(id, &context).await;
    }
    lives.end().await;
}
