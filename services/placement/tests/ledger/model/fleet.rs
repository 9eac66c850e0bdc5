//! What the model knows besides the ledger's own states: nodes, projects, and what was asked for.
use std::collections::HashMap;

use gpuaas_placement::model::Health;
use gpuaas_placement::nodes::NodeSpec;
use gpuaas_placement::reserve::Request;
use gpuaas_placement::slots::Definition;
use uuid::Uuid;

use super::calls::{NODES, PROJECTS};
use crate::world::{H200, POLICY, h200_slot, lab_spec};

/// What every run sells.
pub const SKU: &str = H200;

/// Pairs, halves and the board, by module id.
pub const GROUPS: [&[u32]; 7] = [
    &[1, 2],
    &[3, 4],
    &[5, 6],
    &[7, 8],
    &[1, 2, 3, 4],
    &[5, 6, 7, 8],
    &[1, 2, 3, 4, 5, 6, 7, 8],
];

/// A node with what its host and operator want.
pub struct FleetNode {
    pub id: Uuid,
    pub hostname: String,
    pub instance: Uuid,
    pub definitions: Vec<Definition>,
    pub max_vms: usize,
    pub draining: bool,
    pub schedulable: bool,
    pub healthy: bool,
}

/// What the model knows besides the ledger's own states.
pub struct Fleet {
    pub nodes: Vec<FleetNode>,
    pub projects: Vec<Uuid>,
    pub quotas: Vec<u32>,
    /// Project and GPUs of each allocation.
    pub sold: HashMap<Uuid, (usize, u32)>,
    pub requests: HashMap<Uuid, Request>,
}

impl Fleet {
    pub fn new() -> Self {
        let node = |max_vms| {
            let id = Uuid::now_v7();
            FleetNode {
                id,
                hostname: format!("gpu-{}", id.simple()),
                instance: Uuid::now_v7(),
                definitions: (0..8).map(h200_slot).collect(),
                max_vms,
                draining: false,
                schedulable: true,
                healthy: true,
            }
        };
        Self {
            nodes: (0..NODES).map(|number| node(number * 3)).collect(),
            projects: (0..PROJECTS).map(|_| Uuid::now_v7()).collect(),
            quotas: vec![POLICY.default_quota_gpus; PROJECTS],
            sold: HashMap::new(),
            requests: HashMap::new(),
        }
    }

    pub fn slot_id(&self, node: usize, index: i32) -> Uuid {
        Uuid::from_u128((self.nodes[node].id.as_u128() & !0xff) | index.unsigned_abs() as u128)
    }

    pub fn spec(&self, node: usize) -> NodeSpec {
        let node = &self.nodes[node];
        NodeSpec {
            id: node.id,
            hostname: node.hostname.clone(),
            instance_id: node.instance,
            schedulable: node.schedulable,
            hugepages_1g_free: 2000,
            max_vms: i32::try_from(node.max_vms).expect("few"),
            legal_groups: GROUPS.iter().map(|group| group.to_vec()).collect(),
            lab: false,
            host_health: if node.healthy {
                Health::Healthy
            } else {
                Health::Failed
            },
            ..lab_spec()
        }
    }
}
