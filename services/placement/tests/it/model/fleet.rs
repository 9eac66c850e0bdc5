//! What the model knows besides the ledger's own states: hosts, projects, and what was asked for.
use std::collections::HashMap;
use std::sync::Arc;

use gpuaas_placement::approval::Definition;
use gpuaas_placement::model::{Health, Priority};
use gpuaas_placement::nodes::NodeSpec;
use gpuaas_placement::reserve::{Policy, Request};
use uuid::Uuid;

use super::calls::Place;
use super::draw::{NODES, PROJECTS};
use super::view::View;
use crate::world::{H200, POLICY, h200_slot, lab_spec};

/// Slices that every run offers.
pub const SKU: &str = H200;
/// Bare-metal nodes of the same class.
pub const NODE_SKU: &str = "h200-sxm-node";
/// GPUs of a node.
pub const GPUS: u32 = 8;
/// As if something were there that brings up bare-metal nodes.
pub const MODEL_POLICY: Policy = Policy {
    baremetal: true,
    ..POLICY
};

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

/// A node with what its host tells.
pub struct FleetNode {
    pub id: Uuid,
    pub hostname: String,
    pub instance: Uuid,
    pub definitions: Vec<Definition>,
    pub max_vms: usize,
    pub schedulable: bool,
    pub healthy: bool,
}

/// What an allocation was asked for as.
#[derive(Debug, Clone)]
pub struct Launched {
    pub project: usize,
    pub name: String,
    pub gpus: u32,
    pub bare_metal: bool,
    pub place: Place,
}

/// A request that was accepted, to ask it again.
#[derive(Debug)]
pub struct Requested {
    pub requests: Vec<Request>,
    pub wait: bool,
    pub made: Vec<Uuid>,
}

/// What the model knows besides the ledger's own states.
pub struct Fleet {
    pub nodes: Vec<FleetNode>,
    pub projects: Vec<Uuid>,
    /// Slices that a project may hold.
    pub quotas: Vec<u32>,
    pub priorities: Vec<Priority>,
    pub launched: HashMap<Uuid, Launched>,
    pub requested: HashMap<Uuid, Arc<Requested>>,
}

impl Fleet {
    pub fn new() -> Self {
        let node = |max_vms| {
            // the ids of its slots differ in the last byte
            let id = Uuid::from_u128(Uuid::now_v7().as_u128() | 0xff);
            FleetNode {
                id,
                hostname: format!("gpu-{}", id.simple()),
                instance: Uuid::now_v7(),
                definitions: (0..8).map(h200_slot).collect(),
                max_vms,
                schedulable: true,
                healthy: true,
            }
        };
        Self {
            nodes: (0..NODES).map(|number| node(number % 2 * 3)).collect(),
            projects: (0..PROJECTS).map(|_| Uuid::now_v7()).collect(),
            quotas: vec![POLICY.default_quota_gpus; PROJECTS],
            priorities: vec![Priority::Normal; PROJECTS],
            launched: HashMap::new(),
            requested: HashMap::new(),
        }
    }

    pub fn slot_id(&self, node: usize, index: i32) -> Uuid {
        Uuid::from_u128((self.nodes[node].id.as_u128() & !0xff) | index.unsigned_abs() as u128)
    }

    /// The number of a project.
    pub fn project(&self, id: Uuid) -> usize {
        let place = self.projects.iter().position(|project| *project == id);
        place.expect("a project of the run")
    }

    /// GPUs of a SKU that a project may hold.
    pub fn quota(&self, project: usize, bare_metal: bool) -> u32 {
        if bare_metal {
            POLICY.default_quota_gpus
        } else {
            self.quotas[project]
        }
    }

    /// GPUs of a SKU that a project holds.
    pub fn used(&self, view: &View, project: usize, bare_metal: bool) -> u32 {
        view.allocations
            .iter()
            .filter(|(_, one)| one.counts())
            .map(|(id, _)| &self.launched[id])
            .filter(|launched| launched.project == project && launched.bare_metal == bare_metal)
            .map(|launched| launched.gpus)
            .sum()
    }

    pub fn spec(&self, node: usize, baremetal: bool) -> NodeSpec {
        let node = &self.nodes[node];
        NodeSpec {
            id: node.id,
            hostname: node.hostname.clone(),
            mode: if baremetal { "baremetal" } else { "slice" }.to_owned(),
            instance_id: node.instance,
            schedulable: node.schedulable,
            hugepages_1g_free: 2000,
            max_vms: i32::try_from(node.max_vms).expect("few"),
            legal_groups: GROUPS.iter().map(|group| group.to_vec()).collect(),
            lab: false,
            host_health: match (node.healthy, node.schedulable) {
                (true, true) => Health::Healthy,
                // it only does not report
                (true, false) => Health::Unknown,
                (false, _) => Health::Failed,
            },
            ..lab_spec()
        }
    }
}
