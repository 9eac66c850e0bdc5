//! What the benchmarks share. At this level: fleets and messages as large as a real cell has them, the same at every
//! run; below: a running system, clients, a host that is played, and a peer.
pub mod envoy;
pub mod http;
pub mod measure;
pub mod memory;
pub mod plain;
pub mod slice;
pub mod socket;
pub mod stand_in;
pub mod system;

use gpuaas_placement::decision::{CandidateNode, CandidateSlot, ImageKey};
use gpuaas_placement::model::{Health, SlotClass, SlotStatus};
use gpuaas_proto::gpuaas::allocation::v1::ListAllocationsResponse;
use gpuaas_proto::gpuaas::allocation::v1::{
    Allocation, AllocationConfig, AllocationState, AllocationStatus,
};
use gpuaas_proto::gpuaas::common::v1::ResourceMetadata;
use prost_types::Timestamp;
use uuid::Uuid;

/// GPUs of an HGX board.
const GPUS: u32 = 8;

/// A fleet of `nodes` HGX nodes whose slots are held in a repeating pattern: empty, full and fragmented ones.
pub fn fleet(nodes: u32) -> Vec<CandidateNode> {
    (0..nodes).map(node).collect()
}

fn node(number: u32) -> CandidateNode {
    // every eighth node is empty; the others hold an irregular set
    let held = if number.is_multiple_of(8) {
        0
    } else {
        number.wrapping_mul(2_654_435_761) >> 24
    };
    CandidateNode {
        id: id(u128::from(number) << 8),
        enabled: !number.is_multiple_of(50),
        schedulable: true,
        hugepages_1g_free: 1800,
        max_vms: 0,
        live_vms: held.count_ones(),
        exclusively_held: false,
        images: Vec::from_iter(image().filter(|_| number.is_multiple_of(3))),
        legal_groups: groups(),
        version: "".into(),
        slots: (0..GPUS)
            .map(|index| slot(number, index, held & (1 << index) != 0))
            .collect(),
    }
}

/// The image that a third of the nodes have.
#[must_use]
pub fn image() -> Option<ImageKey> {
    ImageKey::of("sha256:6c617363617578206973206120636176652077697468207061696e74696e6773")
}

fn slot(node: u32, index: u32, held: bool) -> CandidateSlot {
    CandidateSlot {
        id: id((u128::from(node) << 8) | u128::from(index + 1)),
        index: index as i32,
        class: SlotClass::H200Sxm,
        status: if held {
            SlotStatus::Active
        } else {
            SlotStatus::Available
        },
        health: Health::Healthy,
        held,
        complete: true,
        module_id: Some(index + 1),
        numa_node: Some((index / 4) as i32),
        fabric_device: String::new(),
        own_fabric_vf: true,
        reserved: None,
    }
}

/// Single GPUs, neighbouring pairs, halves and the whole board, by module id.
fn groups() -> Vec<Vec<u32>> {
    [1, 2, 4, 8]
        .into_iter()
        .flat_map(|size| {
            (1..=GPUS)
                .step_by(size)
                .map(move |first| (first..first + size as u32).collect())
        })
        .collect()
}

fn id(number: u128) -> Uuid {
    Uuid::from_u128(0x0192_f0c1_2d3e_7001_8000_0000_0000_0000 | number)
}

/// A page of active allocations as a service answers it.
pub fn page_of_allocations(count: u32) -> ListAllocationsResponse {
    ListAllocationsResponse {
        allocations: (0..count).map(allocation).collect(),
        next_page_token: "eyJrIjpbMTc5MDAwMDAwMF0sInEiOiJ4In0".to_owned(),
    }
}

fn allocation(number: u32) -> Allocation {
    let time = Some(Timestamp {
        seconds: 1_790_000_000 + i64::from(number),
        nanos: 123_456_000,
    });
    Allocation {
        id: id(number.into()).to_string(),
        config: Some(AllocationConfig {
            project_id: id(1).to_string(),
            name: format!("train-{number}"),
            region_code: "eu-lab".to_owned(),
            sku: "h200-sxm-slice".to_owned(),
            gpu_count: 2,
            image: "ubuntu-24.04-h200-cuda".to_owned(),
            ssh_public_keys: vec![SSH_KEY.to_owned()],
            ..AllocationConfig::default()
        }),
        status: Some(AllocationStatus {
            state: AllocationState::Active.into(),
            vm: format!("gpuaas-slice-{}", id(number.into()).simple()),
            active_time: time,
            ..AllocationStatus::default()
        }),
        metadata: Some(ResourceMetadata {
            create_time: time,
            update_time: time,
            revision: 5,
            ..ResourceMetadata::default()
        }),
        ..Allocation::default()
    }
}

const SSH_KEY: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ1m8YqJ3Zr0bq6WbXg0cQmJt9r7m2oQ1vGm0lqf8y3K bench";

/// The body of a create request.
pub fn create_body() -> String {
    format!(
        r#"{{"name":"train","region_code":"eu-lab","sku":"h200-sxm-slice","gpu_count":2,
            "image":"ubuntu-24.04-h200-cuda","ssh_public_keys":["{SSH_KEY}"],
            "capacity_shape":"gpu_slice","labels":{{"team":"vision","run":"42"}}}}"#
    )
}
