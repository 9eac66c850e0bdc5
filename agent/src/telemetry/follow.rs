//! The measurements of all VMs, one after the other, and a task for each guest that is queried.
use std::collections::HashMap;
use std::sync::Arc;

use gpuaas_common::CancellationToken;
use tokio::time::MissedTickBehavior;
use tokio_util::task::AbortOnDropHandle;

use super::AFTER_FAILURE;
use super::guest::Guest;
use super::measure::measure;
use crate::ids::AllocationId;
use crate::node::Node;
use crate::wall_clock::now_ms;

/// Measures the VMs until `shutdown`, and hands what was measured over to the next agent.
pub async fn run(node: &Arc<Node>, shutdown: CancellationToken) {
    let mut ticks = tokio::time::interval(node.telemetry.pause);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut followed: HashMap<AllocationId, AbortOnDropHandle<()>> = HashMap::new();
    let mut was_failing = false;
    if let Err(error) = node.telemetry.take_over(&node.journal, now_ms()) {
        tracing::warn!(%error, "cannot take over what was measured before");
    }
    loop {
        let measured = async {
            ticks.tick().await;
            measure(node).await
        };
        let (answering, outcome) = tokio::select! {
            () = shutdown.cancelled() => break,
            measured = measured => measured,
        };
        // once, and not four times a minute
        match &outcome {
            Err(error) if !was_failing => tracing::warn!(%error, "cannot measure every VM"),
            Ok(()) if was_failing => tracing::info!("measure the VMs again"),
            _ => {}
        }
        was_failing = outcome.is_err();
        followed.retain(|allocation, _| answering.contains(allocation));
        for allocation in answering {
            let begin = || {
                let following = tokio::spawn(follow(Arc::clone(node), allocation));
                AbortOnDropHandle::new(following)
            };
            followed.entry(allocation).or_insert_with(begin);
        }
    }
    if let Err(error) = node.telemetry.keep(&node.journal, now_ms()) {
        tracing::warn!(%error, "cannot keep what was measured");
    }
}

/// Queries one guest until nobody wants to know any more.
async fn follow(node: Arc<Node>, allocation: AllocationId) {
    let mut guest = Guest::default();
    loop {
        let report = guest.query(&node, allocation).await;
        let pause = match report.values.is_empty() {
            true => node.telemetry.pause * AFTER_FAILURE,
            false => node.telemetry.pause,
        };
        node.telemetry.reported(allocation, report, now_ms());
        tokio::time::sleep(pause).await;
    }
}
