//! What a person sees of placement: several at once, a queue position, nodes in and out of it.
mod drain;
mod launch;
mod queue;

use serde_json::Value;

use crate::support::World;

const NODE: &str = "01930000-0009-7000-8000-000000000009";
const FIRST: &str = "01930000-0001-7000-8000-000000000001";

fn post(world: &World, path: &str, answer: Value) {
    world.on("POST", path, [(200, answer)]);
}
