//! The keys that inventory signs identity tokens of VMs with, as it last said them.
use std::time::{Duration, Instant};

use gpuaas_common::client::Peers;
use gpuaas_proto::gpuaas::internal::inventory::v1::host_service_client::HostServiceClient;
use gpuaas_proto::gpuaas::internal::inventory::v1::{
    GetInstanceIdentityKeysRequest, GetInstanceIdentityKeysResponse,
};
use tokio::sync::Mutex;
use tonic::{Request, Status};

/// How long inventory's answer counts, and a failure: nobody has to prove who he is, and each must not cost a call.
const FRESH: Duration = Duration::from_secs(30);
const FAILED: Duration = Duration::from_secs(2);
/// Longest wait for inventory.
const ANSWER: Duration = Duration::from_secs(5);

type Answer = Result<GetInstanceIdentityKeysResponse, Status>;

/// Inventory's latest answer.
#[derive(Default)]
pub struct Keys(Mutex<Option<(Instant, Answer)>>);

impl Keys {
    /// The keys, at most half a minute old.
    ///
    /// # Errors
    /// Inventory does not answer, or did not two seconds ago.
    pub async fn get(&self, peers: &Peers) -> Result<GetInstanceIdentityKeysResponse, Status> {
        let mut latest = self.0.lock().await;
        if let Some((since, answer)) = latest.as_ref()
            && since.elapsed() < if answer.is_ok() { FRESH } else { FAILED }
        {
            return answer.clone();
        }
        let answer = ask(peers).await;
        *latest = Some((Instant::now(), answer.clone()));
        answer
    }
}

async fn ask(peers: &Peers) -> Answer {
    let channel = peers.channel("inventory")?;
    let mut request = Request::new(GetInstanceIdentityKeysRequest {});
    request.set_timeout(ANSWER);
    let answer = HostServiceClient::new(channel)
        .get_instance_identity_keys(request)
        .await?;
    Ok(answer.into_inner())
}
