//! The heartbeat: that this host lives, and how it is.
use std::time::Duration;

use gpuaas_common::{CancellationToken, Context};
use gpuaas_proto::gpuaas::internal::inventory::v1 as pb;
use gpuaas_proto::gpuaas::internal::inventory::v1::host_service_client::HostServiceClient;
use tonic::{Response, Status};

use crate::build;
use crate::node::Node;
use crate::topology::readiness;

/// Heartbeat when inventory names no interval.
const DEFAULT_HEARTBEAT: Duration = Duration::from_secs(10);

/// Tells inventory that this host lives and how it is, until `shutdown`, which also ends a call that hangs.
///
/// # Errors
/// No URL of inventory.
pub async fn heartbeat(
    node: &Node,
    context: &Context,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    let mut interval = DEFAULT_HEARTBEAT;
    let mut answered = true;
    loop {
        // requested for at each beat: the certificate may be another by now
        let mut client = HostServiceClient::new(context.peers.channel("inventory")?);
        let beat = async { client.heartbeat(request(node).await).await };
        let answer: Result<Response<pb::HeartbeatResponse>, Status> = tokio::select! {
            () = shutdown.cancelled() => return Ok(()),
            answer = beat => answer,
        };
        match answer {
            Ok(response) => {
                if !answered {
                    tracing::info!("heartbeat is answered again");
                    answered = true;
                }
                interval = next_interval(response.into_inner().next_interval);
            }
            Err(status) => report_loss(&mut answered, &status),
        }
        tokio::select! {
            () = shutdown.cancelled() => return Ok(()),
            () = tokio::time::sleep(interval) => {}
        }
    }
}

async fn request(node: &Node) -> pb::HeartbeatRequest {
    pb::HeartbeatRequest {
        boot_id: node.clock.boot_id().to_owned(),
        agent_version: build::version().to_owned(),
        readiness: Some(readiness::report(node).await),
        agent_address: node.settings.advertised_address.clone(),
    }
}

fn report_loss(answered: &mut bool, status: &Status) {
    if *answered {
        tracing::warn!(code = ?status.code(), message = status.message(), "heartbeat is not answered");
        *answered = false;
    }
}

fn next_interval(requested: Option<prost_types::Duration>) -> Duration {
    let requested = requested.map(|requested| gpuaas_common::time::from_proto_duration(&requested));
    requested
        .filter(|requested| !requested.is_zero())
        .unwrap_or(DEFAULT_HEARTBEAT)
        .clamp(Duration::from_secs(1), Duration::from_secs(300))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heartbeat_interval_is_kept_within_reason() {
        let seconds = |seconds| Some(prost_types::Duration { seconds, nanos: 0 });
        assert_eq!(next_interval(None), DEFAULT_HEARTBEAT);
        assert_eq!(next_interval(seconds(0)), DEFAULT_HEARTBEAT);
        assert_eq!(next_interval(seconds(5)), Duration::from_secs(5));
        assert_eq!(next_interval(seconds(9999)), Duration::from_secs(300));
    }
}
