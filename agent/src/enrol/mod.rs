//! Enrolment of a host instance, its certificate, and its heartbeat (A-06..A-10).
//!
//! A first start has a single-use token: the agent makes its key, requests a certificate from inventory, stores both
//! and deletes the token; when the answer is lost, it repeats the request with the same token and key. A start with
//! a certificate that is still valid requests nothing. One whose certificate has expired meanwhile gets another by proof
//! of its key, and is the same instance. After a reimage there is no state folder, hence no key: that is a new
//! instance with a new token.
mod chance;
mod files;
mod heartbeat;
mod inventory;
mod renew;
mod sign;

use anyhow::{Context as _, bail};
use gpuaas_common::CancellationToken;
use gpuaas_common::config::Settings as CommonSettings;
use gpuaas_common::time::proto_time;
use gpuaas_proto::gpuaas::internal::inventory::v1 as pb;
use jiff::Timestamp;
use rcgen::KeyPair;

pub use files::Identity;
pub use files::csr;
pub use heartbeat::{Reports, heartbeat, keep_reporting};
pub use renew::keep as keep_certificate;
pub use sign::Signer;

use self::files::Files;
pub(crate) use self::inventory::is_final;
use self::inventory::{RETRY, stranger, until_decided};
use crate::build;
use crate::ids::Token;
use crate::node::Node;

/// Makes sure that this host has a valid certificate.
///
/// # Errors
/// No certificate, no key that inventory knows and no usable token: the reason of each.
pub async fn ensure(
    node: &Node,
    common: &CommonSettings,
    shutdown: &CancellationToken,
) -> anyhow::Result<()> {
    tokio::select! {
        () = shutdown.cancelled() => bail!("stopped before the enrolment was through"),
        ensured = certified(node, common) => ensured,
    }
}

async fn certified(node: &Node, common: &CommonSettings) -> anyhow::Result<()> {
    let files = Files::of(&node.settings, common);
    let Some((identity, key)) = files.enrolled()? else {
        return enrol(node, common, &files).await;
    };
    let (node_id, instance_id) = (&identity.node_id, &identity.instance_id);
    let validity = files.validity(&key);
    if validity.is_some_and(|validity| Timestamp::now() < validity.ends) {
        tracing::info!(node_id, instance_id, "keep enrolment");
        return Ok(());
    }
    tracing::warn!(
        node_id,
        instance_id,
        "the certificate of this host has expired or is gone"
    );
    let refused = match renew::recover(&files, common, &identity, &key).await {
        Ok(()) => {
            tracing::info!(node_id, instance_id, "renew certificate by key");
            return Ok(());
        }
        Err(refused) => refused,
    };
    tracing::warn!(instance_id, "cannot stay this host instance: {refused:#}");
    enrol(node, common, &files).await.context(format!(
        "cannot stay host instance {instance_id}: {refused:#}"
    ))
}

/// Becomes a new host instance.
async fn enrol(node: &Node, common: &CommonSettings, files: &Files) -> anyhow::Result<()> {
    let token = files.token()?;
    let key = files.key_or_new()?;
    let response = call(node, common, token, &key).await?;
    for fence in &response.fences {
        let token = Token {
            cell_epoch: fence.cell_epoch,
            slot_generation: fence.slot_generation,
            workflow_epoch: fence.workflow_epoch,
        };
        node.journal.restore_fence(fence.slot_id.parse()?, token)?;
    }
    let identity = Identity {
        node_id: response.node_id,
        instance_id: response.instance_id,
    };
    files.store_enrolment(&identity, &response.certificate_pem, &key)?;
    tracing::info!(
        node_id = identity.node_id,
        instance_id = identity.instance_id,
        "enrol"
    );
    Ok(())
}

async fn call(
    node: &Node,
    common: &CommonSettings,
    token: String,
    key: &KeyPair,
) -> anyhow::Result<pb::EnrolResponse> {
    let profile = &node.settings.profile;
    let request = pb::EnrolRequest {
        token,
        csr_pem: csr(key)?,
        boot_id: node.clock.boot_id().to_owned(),
        machine_id: node.root.read_value("/etc/machine-id").unwrap_or_default(),
        agent_version: build::version().to_owned(),
        agent_built_time: build::built_at().map(proto_time),
        agent_address: node.settings.advertised_address.clone(),
        host_profile: profile.name.clone(),
        lab: profile.lab,
        hypervisor: profile.hypervisor.as_str().to_owned(),
    };
    request_enrolment(common, request).await
}

/// Asks inventory to enrol a host until it has decided.
///
/// # Errors
/// Its refusal; no URL of inventory, or no authority.
pub async fn request_enrolment(
    common: &CommonSettings,
    request: pb::EnrolRequest,
) -> anyhow::Result<pb::EnrolResponse> {
    let client = stranger(common)?;
    let answer = until_decided("enrolment", RETRY, || {
        let (mut client, request) = (client.clone(), request.clone());
        async move { client.enrol(request).await }
    });
    answer
        .await
        .map_err(|status| anyhow::anyhow!("inventory refuses the enrolment: {}", status.message()))
}
