//! What the parts of the service share.
use std::sync::Arc;

use gpuaas_common::client::{GrpcChannel, Peers};
use gpuaas_common::id::IdGen;
use gpuaas_proto::gpuaas::internal::scheduler::v1::placement_service_client::PlacementServiceClient;
use gpuaas_proto::gpuaas::internal::scheduler::v1::{
    LedgerSlot, ListSlotsRequest, ListSlotsResponse,
};
use sqlx::PgPool;
use tokio::sync::Notify;
use uuid::Uuid;

use crate::authority::HostAuthority;
use crate::config::Config;
use crate::instance_identity::InstanceIdentity;
use crate::refusals::Refusals;

/// Shared by all clones.
#[derive(Clone, Debug)]
pub(crate) struct State(Arc<Shared>);

pub(crate) struct Shared {
    pub(crate) pool: PgPool,
    pub(crate) peers: Peers,
    pub(crate) ids: IdGen,
    pub(crate) cell: u16,
    pub(crate) config: Config,
    pub(crate) authority: HostAuthority,
    /// Issues identity tokens of VMs, where the settings name a key.
    pub(crate) instance_identity: Option<InstanceIdentity>,
    /// What enrolling hosts shall trust, in PEM.
    pub(crate) trust_pem: String,
    /// Rings when there may be something to push to the ledger.
    pub(crate) push_due: Notify,
    /// Rings when there may be a task to begin.
    pub(crate) task_due: Notify,
    /// Counts what is refused.
    pub(crate) refusals: Refusals,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State")
            .field("cell", &self.cell)
            .finish_non_exhaustive()
    }
}

impl std::ops::Deref for State {
    type Target = Shared;
    fn deref(&self) -> &Shared {
        &self.0
    }
}

impl State {
    pub(crate) fn new(shared: Shared) -> Self {
        Self(Arc::new(shared))
    }

    /// A client of the ledger's intake.
    pub(crate) fn ledger(&self) -> gpuaas_common::Result<PlacementServiceClient<GrpcChannel>> {
        Ok(PlacementServiceClient::new(
            self.peers.channel("scheduler")?,
        ))
    }

    /// A node's slots, by index, with the cell epoch.
    pub(crate) async fn ledger_slots(
        &self,
        node_id: Uuid,
    ) -> gpuaas_common::Result<ListSlotsResponse> {
        let request = ListSlotsRequest {
            node_id: node_id.to_string(),
            ..ListSlotsRequest::default()
        };
        Ok(self.ledger()?.list_slots(request).await?.into_inner())
    }

    /// One slot of a node.
    pub(crate) async fn ledger_slot(
        &self,
        node_id: Uuid,
        slot_id: &str,
    ) -> gpuaas_common::Result<Option<LedgerSlot>> {
        Ok(self
            .ledger_slots(node_id)
            .await?
            .slots
            .into_iter()
            .find(|slot| slot.id == slot_id))
    }
}
