//! The heartbeat: that this host lives, and how it is.
//!
//! A fleet must not call as one. A host reports a little earlier than it was asked to, by chance; after an outage it takes a
//! new place anywhere in the interval. So hosts that were brought together by one event are spread again within one
//! interval, and inventory that comes back meets no more calls per second than usual. Every report says everything: one
//! that was not taken in is made up for by the next.
use std::future::Future;
use std::time::Duration;

use gpuaas_common::client::Peers;
use gpuaas_common::time::proto_time;
use gpuaas_common::{CancellationToken, Context};
use gpuaas_proto::gpuaas::internal::inventory::v1 as pb;
use gpuaas_proto::gpuaas::internal::inventory::v1::host_service_client::HostServiceClient;
use tonic::{Response, Status};

use crate::build;
use crate::node::Node;
use crate::topology::readiness;

/// Heartbeat when inventory names no interval.
const DEFAULT_HEARTBEAT: Duration = Duration::from_secs(10);

/// What a host reports each time.
pub trait Reports {
    /// Inspects the host.
    fn report(&self) -> impl Future<Output = pb::HeartbeatRequest> + Send;

    /// How the last call ended, for whoever counts.
    fn ended(&self, _answer: &Result<Response<pb::HeartbeatResponse>, Status>) {}
}

impl Reports for &Node {
    async fn report(&self) -> pb::HeartbeatRequest {
        pb::HeartbeatRequest {
            boot_id: self.clock.boot_id().to_owned(),
            agent_version: build::version().to_owned(),
            readiness: Some(readiness::report(self).await),
            agent_address: self.settings.advertised_address.clone(),
            agent_built_time: build::built_at().map(proto_time),
            agent_update: self.updates.report(),
        }
    }

    fn ended(&self, answer: &Result<Response<pb::HeartbeatResponse>, Status>) {
        if let Ok(response) = answer {
            let reported = response.get_ref();
            self.assigned_mode.tell(&reported.node_mode);
            self.updates.answered(reported.agent_update.as_ref());
        }
    }
}

/// Tells inventory that this host lives and how it is, until `shutdown`, which also ends a call that hangs.
///
/// # Errors
/// No URL of inventory.
pub async fn heartbeat(
    node: &Node,
    context: &Context,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    keep_reporting(node, &context.peers, shutdown).await
}

/// The same for whatever reports.
///
/// # Errors
/// No URL of inventory.
pub async fn keep_reporting(
    host: impl Reports,
    peers: &Peers,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    let mut interval = DEFAULT_HEARTBEAT;
    let mut answered = true;
    loop {
        // requested for at each beat: the certificate may be another by now
        let mut client = HostServiceClient::new(peers.channel("inventory")?);
        let beat = async { client.heartbeat(host.report().await).await };
        let answer: Result<Response<pb::HeartbeatResponse>, Status> = tokio::select! {
            () = shutdown.cancelled() => return Ok(()),
            answer = beat => answer,
        };
        host.ended(&answer);
        let last = match answer {
            Ok(response) => {
                interval = next_interval(response.into_inner().next_interval);
                let again = !answered;
                answered = true;
                if again {
                    tracing::info!("heartbeat is answered again");
                    Last::AnsweredAgain
                } else {
                    Last::Answered
                }
            }
            Err(status) => {
                report_loss(&mut answered, &status);
                Last::Lost
            }
        };
        tokio::select! {
            () = shutdown.cancelled() => return Ok(()),
            () = tokio::time::sleep(pause(interval, last, super::chance::chance())) => {}
        }
    }
}

/// How the last call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Last {
    Answered,
    /// For the first time since calls were lost.
    AnsweredAgain,
    Lost,
}

/// The pause until the next report; `chance` is anywhere from 0 to 1.
fn pause(interval: Duration, last: Last, chance: f64) -> Duration {
    let share = match last {
        Last::Answered => 0.9 + 0.1 * chance,
        Last::AnsweredAgain => chance,
        Last::Lost => 0.5 + 0.5 * chance,
    };
    interval.mul_f64(share)
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

    /// How many of a thousand hosts call in the busiest tenth of an interval, when all of them came together at one moment.
    fn busiest(last: Last) -> usize {
        let mut calls = [0; 11];
        for host in 0..1000 {
            let interval = Duration::from_secs(10);
            let at = pause(interval, last, f64::from(host) / 999.0);
            assert!(at <= interval, "never later than inventory asked for");
            calls[at.as_millis() as usize / 1000] += 1;
        }
        calls.into_iter().max().unwrap_or_default()
    }

    #[test]
    fn hosts_that_an_outage_brought_together_are_spread_within_one_interval() {
        assert!(busiest(Last::AnsweredAgain) <= 101);
        // who is not answered calls no more than twice as often as usual, and not with all the others
        assert!(busiest(Last::Lost) <= 201);
        // who is answered stays about where it is
        assert_eq!(
            pause(Duration::from_secs(10), Last::Answered, 0.0),
            Duration::from_secs(9)
        );
    }
}
