//! Identity tokens: signed by the control plane, which decides whether the VM is what this host says.
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use gpuaas_common::client::Peers;
use gpuaas_proto::gpuaas::internal::inventory::v1 as pb;
use gpuaas_proto::gpuaas::internal::inventory::v1::host_service_client::HostServiceClient;

use crate::enrol::is_final;
use crate::ids::AllocationId;

/// Longest wait for the control plane.
const ANSWER: Duration = Duration::from_secs(8);
/// Identity tokens of one VM in a minute.
const MOST: u32 = 30;
const MINUTE: Duration = Duration::from_secs(60);

/// Why there is no token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// The control plane says that the VM is not what this host says.
    Decided,
    /// The control plane does not answer.
    NotNow,
}

/// Issues identity tokens.
#[async_trait]
pub trait Identity: Send + Sync {
    /// A token of this allocation's VM for this audience.
    ///
    /// # Errors
    /// [`Refused`].
    async fn issue(&self, of: AllocationId, audience: &str) -> Result<String, Refused>;
}

/// Asks inventory, by this host's certificate.
pub struct OfInventory {
    peers: Peers,
}

impl OfInventory {
    pub fn new(peers: Peers) -> Self {
        Self { peers }
    }
}

#[async_trait]
impl Identity for OfInventory {
    async fn issue(&self, of: AllocationId, audience: &str) -> Result<String, Refused> {
        let channel = self.peers.channel("inventory").map_err(|error| {
            tracing::warn!(%error, "cannot ask for an identity token");
            Refused::NotNow
        })?;
        let mut client = HostServiceClient::new(channel);
        let request = pb::IssueInstanceIdentityRequest {
            allocation_id: of.to_string(),
            audience: audience.to_owned(),
        };
        let answer = tokio::time::timeout(ANSWER, client.issue_instance_identity(request)).await;
        match answer {
            Ok(Ok(answer)) => Ok(answer.into_inner().token),
            Ok(Err(status)) => {
                tracing::warn!(allocation_id = %of, code = ?status.code(), message = status.message(),
                    "get no identity token");
                Err(match is_final(&status) {
                    true => Refused::Decided,
                    false => Refused::NotNow,
                })
            }
            Err(_) => Err(Refused::NotNow),
        }
    }
}

/// Bounds what a VM can make the control plane do.
#[derive(Default)]
pub struct Limiter(Mutex<HashMap<AllocationId, (Instant, u32)>>);

impl Limiter {
    /// Whether this VM may ask once more. VMs that are not among `present` are forgotten.
    pub fn admits(&self, of: AllocationId, present: &[AllocationId], now: Instant) -> bool {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|id, _| present.contains(id));
        let (since, count) = all.entry(of).or_insert((now, 0));
        if now >= *since + MINUTE {
            (*since, *count) = (now, 0);
        }
        *count += 1;
        *count <= MOST
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn a_vm_asks_the_control_plane_a_bounded_number_of_times_a_minute() {
        let (limiter, now) = (Limiter::default(), Instant::now());
        let all = [1, 2].map(|number| AllocationId(Uuid::from_u128(number)));
        let admitted = (0..100)
            .filter(|_| limiter.admits(all[0], &all, now))
            .count();
        assert_eq!(admitted, 30);
        assert!(
            limiter.admits(all[1], &all, now),
            "the other VM is not disturbed"
        );
        assert!(limiter.admits(all[0], &all, now + MINUTE));
    }
}
