//! All hosts and slots at one moment, in the order of their last changes.
use std::collections::BTreeMap;

use gpuaas_proto::gpuaas::inventory::v1 as api;

/// What a watcher is shown of one thing.
#[derive(Debug, Clone)]
pub(super) enum View {
    Node(api::Node),
    Slot(api::ResourceSlot),
}

/// One thing with its position in the order.
#[derive(Debug, Clone)]
pub(super) struct Item {
    pub(super) first_position: i64,
    pub(super) view: View,
}

/// All there is at one moment.
#[derive(Debug, Default)]
pub(super) struct Snapshot {
    /// By position.
    pub(super) items: BTreeMap<i64, Item>,
    /// Everything up to here is among the items.
    pub(super) position: i64,
    /// The request it answers.
    pub(super) answers: u64,
}
