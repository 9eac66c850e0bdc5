//! Hosts and their slots: discovery, approval, repair, proof.
mod list_and_show;
mod lost_hosts;
mod slots;

use serde_json::{Value, json};

const NODE: &str = "01930000-0009-7000-8000-000000000009";
const SLOT: &str = "01930000-0008-7000-8000-000000000008";

fn discovery(state: &str) -> Value {
    json!({ "id": "d1", "node_id": NODE, "state": state, "error": "the host is away", "candidates": [
        { "slot_index": 0, "slot_class": "lab", "blockers": [] },
        { "slot_index": 1, "slot_class": "lab", "blockers": ["disk is mounted"] },
    ] })
}
