//! Why a launch does not fit.
use serde::Deserialize;

/// An unschedulable reason with its counts.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct UnavailableReason {
    pub reason: String,
    pub gpus: u32,
    pub nodes: u32,
    pub message: String,
}
