//! The lifecycle of nodes and slots: what an operator may make of them, what the database refuses, and what is on record.
/// Runs one call of the ledger in a transaction of the scheduler, and commits it when it went well.
macro_rules! call {
    ($world:expr, |$tx:ident| $call:expr) => {{
        let mut $tx = $world.scheduler.begin().await.expect("begin");
        let done = $call.await;
        match done {
            Ok(answer) => {
                $tx.commit().await.expect("commit");
                Ok(answer)
            }
            Err(error) => Err(error),
        }
    }};
}

mod admin_state;
mod health;
mod retirement;

use gpuaas_common::select::{Catalog, Selection, Wanted};
use gpuaas_placement::Error;
use gpuaas_placement::lifecycle::{self, NODE_HISTORY, NodeEntry, SLOT_HISTORY, SlotEntry};
use gpuaas_placement::model::Attribution;
use gpuaas_placement::node_placement::{self, Intent, NodePlacement};
use gpuaas_placement::nodes::NodeSpec;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::world::{World, lab_slot, lab_spec};

/// Everything, the newest first.
fn newest(catalog: &'static Catalog) -> Selection {
    Selection::parse(catalog, "", "").expect("nothing to refuse")
}

fn first(size: i64) -> Wanted<'static> {
    Wanted {
        page_token: "",
        size,
        query: &[],
    }
}

async fn of_node(conn: &mut PgConnection, node: Uuid, most: i64) -> Vec<NodeEntry> {
    let listed = lifecycle::of_node(conn, node, &newest(&NODE_HISTORY), first(most)).await;
    let (entries, _) = listed.expect("history");
    entries.into_iter().map(|(entry, _)| entry).collect()
}

async fn of_slot(conn: &mut PgConnection, slot: Uuid, most: i64) -> Vec<SlotEntry> {
    let listed = lifecycle::of_slot(conn, slot, &newest(&SLOT_HISTORY), first(most)).await;
    listed.expect("history").0
}

fn word(reason: &str) -> Attribution<'_> {
    Attribution::of("user:root", reason)
}

async fn become_(world: &World, node: Uuid, intent: Intent) -> Result<NodePlacement, Error> {
    call!(world, |tx| node_placement::set_intent(
        &mut tx,
        node,
        intent,
        word("test")
    ))
    .map(|(node, _)| node)
}

/// The refusal of something in the wrong state, as people read it.
fn state<T: std::fmt::Debug>(refused: Result<T, Error>) -> String {
    match refused {
        Err(Error::Conflict { state, .. }) => state,
        other => panic!("{other:?}"),
    }
}

/// The one entry of a node's history that is the latest.
async fn latest(world: &World, node: Uuid) -> (String, String, String) {
    let mut conn = world.scheduler.acquire().await.expect("connection");
    let entry = of_node(&mut conn, node, 1).await;
    let entry = entry.into_iter().next().expect("an entry");
    (entry.state, entry.reason, entry.principal)
}

/// A node of a spec that is told again, with so many slots.
async fn reported(slots: i32) -> (World, NodeSpec) {
    let world = World::new().await;
    let spec = lab_spec();
    world.node(spec.clone()).await;
    let all: Vec<_> = (0..slots).map(lab_slot).collect();
    world.approve(spec.id, &all).await;
    (world, spec)
}
