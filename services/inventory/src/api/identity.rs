//! Identity tokens of VMs: a host asks, and what the ledger and the node's row say decides.
use gpuaas_common::error::{Error, Result};
use gpuaas_common::id;
use gpuaas_common::identity::Peer;
use gpuaas_proto::gpuaas::common::v1::SlotStatus;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_proto::gpuaas::internal::inventory::v1::{
    GetInstanceIdentityKeysResponse, IssueInstanceIdentityRequest, IssueInstanceIdentityResponse,
};
use jiff::Timestamp;
use tonic::Code;

use super::Hosts;
use crate::domain::renewal::not_current;
use crate::instance_identity::{InstanceIdentity, Vm};
use crate::store::nodes;

/// Longest audience, in bytes.
const MAX_AUDIENCE: usize = 200;
/// The statuses of a slot in which its VM may run and its claim has not begun to end.
const WITH_VM: [SlotStatus; 2] = [SlotStatus::Provisioning, SlotStatus::Active];

impl Hosts {
    /// The claim is read from the ledger at each call: a claim that ended, or that is another node's, gets nothing.
    pub(super) async fn issue_identity(
        &self,
        peer: &Peer,
        request: IssueInstanceIdentityRequest,
    ) -> Result<IssueInstanceIdentityResponse> {
        let Peer::Host {
            node_id,
            instance_id,
        } = peer
        else {
            return Err(not_current());
        };
        let allocation_id = id::parse("allocation_id", &request.allocation_id)?;
        check_audience(&request.audience)?;
        let identity = self.identity()?;
        let slots = self.0.ledger_slots(*node_id).await?.slots;
        // after the ledger: an instance that was replaced meanwhile is none that it speaks of
        let region = nodes::region_of_current(&self.0.pool, *node_id, *instance_id)
            .await?
            .ok_or_else(not_current)?;
        let of_vm = request.allocation_id.to_lowercase();
        let claimed = slots
            .iter()
            .find(|slot| slot.allocation_id == of_vm && WITH_VM.contains(&slot.status()));
        let claimed = claimed.ok_or_else(no_vm)?;
        let vm = Vm {
            allocation_id,
            project_id: id::parse("project_id", &claimed.project_id).map_err(Error::internal)?,
            region: &region,
        };
        let now = Timestamp::now().as_second();
        let token = identity
            .issue(vm, &request.audience, self.0.ids.next(), now)
            .map_err(Error::internal)?;
        tracing::info!(%node_id, %allocation_id, audience = request.audience, "issue identity token of a VM");
        Ok(IssueInstanceIdentityResponse { token })
    }

    pub(super) fn identity_keys(&self) -> Result<GetInstanceIdentityKeysResponse> {
        let identity = self.identity()?;
        Ok(GetInstanceIdentityKeysResponse {
            issuer: identity.issuer().to_owned(),
            key_set_json: identity.key_set_json().to_owned(),
        })
    }

    fn identity(&self) -> Result<&InstanceIdentity> {
        self.0.instance_identity.as_ref().ok_or_else(|| {
            Error::new(
                Code::NotFound,
                ErrorReason::NotFound,
                "This platform issues no identity tokens to VMs.",
            )
        })
    }
}

fn check_audience(audience: &str) -> Result<()> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:/@".contains(&byte);
    if (1..=MAX_AUDIENCE).contains(&audience.len()) && audience.bytes().all(is_plain) {
        return Ok(());
    }
    Err(Error::invalid(
        "audience",
        "must be 1 to 200 letters, digits and \"-._~:/@\"",
    ))
}

fn no_vm() -> Error {
    Error::new(
        Code::NotFound,
        ErrorReason::AllocationNotFound,
        "The allocation has no VM on this node now.",
    )
}
