//! The service dies at work on a bare-metal node.

use gpuaas_allocation::config::{BaremetalExecutor, Config};

use super::{Lives, of_service};
use crate::board::Board;
use crate::world::World;

/// Workflows whose deaths are here.
pub const KINDS: [&str; 2] = ["provision_node", "release_node"];

#[tokio::test]
async fn p5_service_killed_in_bare_metal_nodes() {
    let board = Board::start().await;
    let config = Config {
        baremetal: BaremetalExecutor::Simulated,
        ..World::config()
    };
    let mut lives = Lives::in_world(&board.world, config).await;
    let [up, down] = KINDS.map(|kind| of_service(kind, false));
    for round in 0..up.len().max(down.len()) {
        let (rise, fall) = (up.get(round).cloned(), down.get(round).cloned());
        let context = format!("{rise:?} {fall:?}");
        let name = format!("node-{round}");
        let id = lives.through(rise, Box::pin(board.launch(&name))).await;
        board.world.until_state(id, "active").await;
        board.world.until_idle(id).await;
        board.assert_active(id, &context).await;
        lives.assert_sound(&context).await;
        lives.through(fall, board.world.release(id)).await;
        board.world.until_state(id, "released").await;
        board.world.until_idle(id).await;
        board.assert_waits_for_approval(id, &context).await;
        lives.assert_sound(&context).await;
        board.approve().await;
    }
    lives.end().await;
}
