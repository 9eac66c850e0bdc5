//! A host that slots can be approved on.
use gpuaas_common::Error;
use gpuaas_proto::gpuaas::agent::v1::TopologyReport;
use gpuaas_proto::gpuaas::inventory::v1 as api;

use crate::discovery::{discover, ended};
use crate::host::Host;
use crate::world::World;

/// A ready lab host whose topology was discovered.
pub(crate) struct Ready {
    pub(crate) world: World,
    pub(crate) host: Host,
}

impl Ready {
    /// A ready lab host whose topology was discovered after `change`.
    pub(crate) async fn start(change: impl FnOnce(&mut TopologyReport)) -> (Self, String) {
        let world = World::start().await;
        let node = world.create_node("n1").await;
        let host = Host::enrol(&world, &node.id).await;
        host.send_heartbeat().await;
        change(&mut host.topology.lock().expect("not poisoned"));
        let ready = Self { world, host };
        let discovery = ready.inspect("d1").await;
        (ready, discovery)
    }

    pub(crate) async fn inspect(&self, key: &str) -> String {
        discover(&self.world, self.host.node_id(), key).await;
        ended(&self.world, self.host.node_id()).await.id
    }

    pub(crate) fn request(
        &self,
        discovery_id: &str,
        indexes: &[u32],
    ) -> api::ApproveResourceSlotsRequest {
        api::ApproveResourceSlotsRequest {
            node_id: self.host.node_id().into(),
            discovery_id: discovery_id.into(),
            slot_indexes: indexes.into(),
            choices: Vec::new(),
        }
    }

    pub(crate) async fn approve(
        &self,
        key: &str,
        discovery_id: &str,
        indexes: &[u32],
    ) -> Result<Vec<api::ResourceSlot>, Error> {
        let request = self.world.admin(key, self.request(discovery_id, indexes));
        Ok(self
            .world
            .nodes()
            .approve_resource_slots(request)
            .await?
            .into_inner()
            .slots)
    }

    /// Approves, and returns the slots as they are when their disks are wiped.
    pub(crate) async fn approve_and_wipe(
        &self,
        key: &str,
        discovery_id: &str,
        indexes: &[u32],
    ) -> Result<Vec<api::ResourceSlot>, Error> {
        let approved = self.approve(key, discovery_id, indexes).await?;
        self.world.ledger.wipe(self.host.node_id()).await;
        let of = |slot: &api::ResourceSlot| approved.iter().any(|other| other.id == slot.id);
        Ok(self.slots().await.into_iter().filter(of).collect())
    }

    pub(crate) async fn slots(&self) -> Vec<api::ResourceSlot> {
        let list = api::ListResourceSlotsRequest {
            node_id: self.host.node_id().into(),
            ..api::ListResourceSlotsRequest::default()
        };
        self.world
            .nodes()
            .list_resource_slots(self.world.admin("", list))
            .await
            .expect("list")
            .into_inner()
            .slots
    }

    /// Nothing was approved and nothing was recorded.
    pub(crate) async fn assert_nothing(&self) {
        assert!(self.slots().await.is_empty());
        assert!(
            !self
                .world
                .audited()
                .await
                .contains(&"slot.approve".to_owned())
        );
    }
}
