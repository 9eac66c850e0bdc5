//! Follows the ledger's log to end the sessions of allocations that end or lose power. It begins at the log's head: what ended
//! before finds no session, because a session is registered before its target is resolved.
use std::time::Duration;

use gpuaas_common::wake::Waiter;
use gpuaas_common::{CancellationToken, Error, Result};
use gpuaas_proto::gpuaas::internal::events::v1::ReadRequest;
use gpuaas_proto::gpuaas::internal::events::v1::event_service_client::EventServiceClient;

use crate::domain::end::End;
use crate::session::Deps;

const BATCH: i32 = 500;
/// What an event says about the sessions of its allocation; none for events that leave them alone.
fn ending(event: &str) -> Option<End> {
    match event {
        "allocation.releasing" | "allocation.released" | "allocation.failed" => Some(
            End::AllocationEnded("The allocation is being released.".to_owned()),
        ),
        "allocation.stopping" | "allocation.stopped" => Some(End::PoweredOff(
            "The allocation was stopped. Start it, then open a new terminal.",
        )),
        "allocation.rescuing" | "allocation.unrescuing" => Some(End::PoweredOff(
            "The VM is being started from another disk. Open a new terminal when it runs again.",
        )),
        "allocation.rebooting" => Some(End::PoweredOff(
            "The allocation is being rebooted. Open a new terminal when it runs again.",
        )),
        _ => None,
    }
}

/// Follows until `shutdown`.
pub(crate) async fn run(deps: Deps, waiter: Waiter, shutdown: CancellationToken) {
    let interval = Duration::from_secs_f64(deps.config.poll_seconds.max(0.01));
    let mut position = None;
    let mut silent = false;
    while !shutdown.is_cancelled() {
        let outcome = tokio::select! {
            () = shutdown.cancelled() => return,
            outcome = catch_up(&deps, &mut position) => outcome,
        };
        match (&outcome, silent) {
            (Err(error), false) => tracing::warn!("wait for the ledger: {}", error.chain()),
            (Ok(()), true) => tracing::info!("follow the ledger again"),
            _ => {}
        }
        silent = outcome.is_err();
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = waiter.wait(interval) => {}
        }
    }
}

async fn catch_up(deps: &Deps, position: &mut Option<i64>) -> Result<()> {
    let mut log = EventServiceClient::new(deps.peers.channel("allocation")?);
    loop {
        let (after_position, limit) = position.map_or((0, 1), |at| (at, BATCH));
        let read = log
            .read(ReadRequest {
                after_position,
                limit,
            })
            .await
            .map_err(Error::from)?
            .into_inner();
        let Some(at) = position else {
            *position = Some(read.head_position);
            continue;
        };
        for event in &read.events {
            if let Some(end) = ending(&event.r#type)
                && let Ok(allocation_id) = event.aggregate_id.parse()
            {
                deps.registry.end_allocation(allocation_id, &end);
            }
            *at = event.position;
        }
        if read.events.is_empty() || *at >= read.head_position {
            return Ok(());
        }
    }
}
