//! The agent dies.

use gpuaas_agent::journal::Kind;

use super::{Death, Lives, of_agent, of_agent_undoing};
use crate::world::World;

#[tokio::test]
async fn p5_agent_killed_in_provision_and_release() {
    let world = World::with_board().await;
    let mut lives = Lives::in_world(&world, World::config()).await;
    let (mut up, mut down) = (
        of_agent(Kind::Provision).into_iter(),
        of_agent(Kind::Release).into_iter(),
    );
    loop {
        let (rise, fall) = (up.next(), down.next());
        if (&rise, &fall) == (&None, &None) {
            break;
        }
        let id = lives.active(rise).await;
        lives.released(id, fall).await;
    }
    lives.end().await;
}

/// The rounds, each of which kills once in every kind of operation, are shared among so many tests.
const SHARES: usize = 3;

async fn killed_in_power(share: usize) {
    let world = World::with_board().await;
    let mut lives = Lives::in_world(&world, World::config()).await;
    let id = lives.active(None).await;
    let kills = [Kind::Stop, Kind::Start, Kind::Reboot, Kind::Rescue].map(of_agent);
    let rounds = kills.iter().map(Vec::len).max().unwrap_or_default();
    assert!(rounds > SHARES, "each share has some");
    for round in (share..rounds).step_by(SHARES) {
        for (kills, verb) in kills.iter().zip(["stop", "start", "reboot", "rescue"]) {
            Box::pin(lives.power(id, verb, kills.get(round).cloned())).await;
        }
        Box::pin(lives.power(id, "unrescue", None)).await;
    }
    lives.released(id, None).await;
    lives.end().await;
}

#[tokio::test]
async fn p5_agent_killed_in_power_first_share() {
    Box::pin(killed_in_power(0)).await;
}

#[tokio::test]
async fn p5_agent_killed_in_power_second_share() {
    Box::pin(killed_in_power(1)).await;
}

#[tokio::test]
async fn p5_agent_killed_in_power_third_share() {
    Box::pin(killed_in_power(2)).await;
}

/// Its function went back to the host's driver while nobody had it.
#[tokio::test]
async fn p5_agent_killed_while_a_device_is_bound_again() {
    let world = World::with_functions().await;
    let mut lives = Lives::in_world(&world, World::config()).await;
    for death in of_agent(Kind::CleanUp)
        .into_iter()
        .chain(of_agent(Kind::RepairSlot))
    {
        lives.rebound(death).await;
    }
    lives.end().await;
}

/// The guest of each never lets anybody in; what that leaves is removed, and the slot repaired.
#[tokio::test]
async fn p5_agent_killed_in_undo_clean_up_and_repair() {
    let world = World::with_board().await;
    let mut lives = Lives::in_world(&world, World::config()).await;
    let undo = of_agent_undoing(Kind::Provision);
    let (clean_up, repair) = (of_agent(Kind::CleanUp), of_agent(Kind::RepairSlot));
    // clean-up is a step of each repair
    let repairs: Vec<Death> = clean_up.into_iter().chain(repair).collect();
    for round in 0..undo.len().max(repairs.len()) {
        let id = lives.failed(undo.get(round).cloned()).await;
        lives.repaired(id, repairs.get(round).cloned()).await;
    }
    lives.end().await;
}
