//! Differences of a slot from what was approved.
use gpuaas_common::drift::Drift;
use gpuaas_common::time::proto_time;
use gpuaas_proto::gpuaas::common::v1::SlotDrift;
use serde::{Deserialize, Serialize};

/// A difference that is there now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CurrentDrift {
    /// The difference.
    #[serde(flatten)]
    pub drift: Drift,
    /// Since when, by the ledger's clock.
    pub since: jiff::Timestamp,
}

impl CurrentDrift {
    /// As a message.
    #[must_use]
    pub fn to_proto(&self) -> SlotDrift {
        self.drift.to_proto(Some(proto_time(self.since)))
    }
}
