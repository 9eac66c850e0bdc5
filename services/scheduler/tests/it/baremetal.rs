//! Bare-metal nodes as they are counted, explained and refused.
use gpuaas_proto::gpuaas::common::v1::{CapacityShape, SlotBindings};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_proto::gpuaas::internal::scheduler::v1::placement_service_server::PlacementService as _;
use gpuaas_proto::gpuaas::internal::scheduler::v1::{
    ApproveSlotsRequest, PutNodeRequest, PutRegionRequest, PutSkuPriceRequest, ReserveRequest,
    SlotDefinition,
};
use gpuaas_proto::gpuaas::scheduler::v1::availability_service_server::AvailabilityService as _;
use gpuaas_proto::gpuaas::scheduler::v1::node_placement_service_server::NodePlacementService as _;
use gpuaas_proto::gpuaas::scheduler::v1::sku_admin_service_server::SkuAdminService as _;
use gpuaas_proto::gpuaas::scheduler::v1::{
    Availability, CordonNodeRequest, ExplainNodesRequest, ExplainPlacementRequest,
    ListAvailabilityRequest, PutSkuRequest, Sku,
};
use tonic::{Code, Request};

use crate::world::{
    REGION, World, approval, by, lab_price, lab_sku, node, ok, refused, reservation,
};

const NODE: &str = "h200-sxm-node";
const SLICE: &str = "h200-sxm-slice";

/// Nodes of eight GPUs that are offered as slices and as bare metal, and one of two that is offered to nobody as bare metal.
async fn boards(count: usize) -> (World, Vec<String>) {
    let mut world = World::new().await;
    world.api.policy.baremetal = true;
    let region = PutRegionRequest {
        code: REGION.into(),
        enabled: true,
        ..Default::default()
    };
    ok(world.api.put_region(Request::new(region)).await);
    for (code, shape, counts) in [
        (NODE, CapacityShape::Baremetal, vec![8]),
        (SLICE, CapacityShape::GpuSlice, vec![1]),
    ] {
        let sku = Sku {
            code: code.into(),
            capacity_shape: shape.into(),
            slot_class: "h200_sxm".into(),
            allowed_gpu_counts: counts,
            ..lab_sku()
        };
        let put = PutSkuRequest { sku: Some(sku) };
        ok(world.api.put_sku(by(put, Some(code))).await);
        let price = PutSkuPriceRequest {
            sku: code.into(),
            ..lab_price(1)
        };
        ok(world.api.put_sku_price(Request::new(price)).await);
    }
    let mut nodes = Vec::new();
    for size in std::iter::repeat_n(8, count).chain([2]) {
        let board = PutNodeRequest {
            hostname: format!("board-{}", nodes.len()),
            lab: false,
            ..node()
        };
        ok(world.api.put_node(Request::new(board.clone())).await);
        world.approve(whole_board(&board.node_id, size)).await;
        nodes.push(board.node_id);
    }
    (world, nodes)
}

fn whole_board(node_id: &str, size: u32) -> ApproveSlotsRequest {
    let slot = |index: u32| SlotDefinition {
        slot_index: index,
        slot_class: "h200_sxm".into(),
        bindings: Some(SlotBindings {
            gpu_pci_address: format!("0000:{:02x}:00.0", 0x10 + index),
            gpu_module_id: Some(index + 1),
            numa_node: Some(index / 4),
            nvme_device: format!("/dev/disk/by-id/nvme-eui.{index:016x}"),
            storage_identity_kind: "nvme_wwn_by_id".into(),
            nvme_bytes: 1 << 40,
            management_mac: format!("52:54:00:00:01:{index:02x}"),
            private_ip: format!("10.78.0.{}", index + 10),
            fabric_device: "0000:1a:00.0".into(),
            fabric_vf_pci_address: format!("0000:1a:00.{index}"),
            fabric_claim_mode: "per_slot_vf".into(),
            destructive_wipe_policy: "blkdiscard".into(),
        }),
        storage_transition_manifest: String::new(),
    };
    ApproveSlotsRequest {
        slots: (0..size).map(slot).collect(),
        idempotency_key: format!("k-{node_id}"),
        ..approval(node_id, 0)
    }
}

fn bare_metal(key: &str) -> ReserveRequest {
    ReserveRequest {
        sku: NODE.into(),
        gpu_count: 8,
        ..reservation(key)
    }
}

fn requested() -> ExplainPlacementRequest {
    ExplainPlacementRequest {
        region_code: REGION.into(),
        sku: NODE.into(),
        gpu_count: 8,
        ..ExplainPlacementRequest::default()
    }
}

async fn availability(world: &World) -> Availability {
    let request = ListAvailabilityRequest {
        region_code: REGION.into(),
        sku: NODE.into(),
        project_id: String::new(),
    };
    let mut rows = ok(world.api.list_availability(by(request, None)).await).availability;
    assert_eq!((rows.len(), rows[0].gpu_count), (1, 8));
    rows.remove(0)
}

fn reported(row: &Availability) -> Vec<(&str, u32, u32)> {
    row.reasons
        .iter()
        .map(|cause| (cause.reason.as_str(), cause.gpus, cause.nodes))
        .collect()
}

#[tokio::test]
async fn b_57_bare_metal_nodes_are_counted_and_what_keeps_the_others_away() {
    let (world, nodes) = boards(4).await;
    assert_eq!(availability(&world).await.fits, 4);

    let sliced = ReserveRequest {
        sku: SLICE.into(),
        ..reservation("slice")
    };
    ok(world.api.reserve(Request::new(sliced)).await);
    let cordon = CordonNodeRequest {
        node_id: nodes[3].clone(),
        reason: "fan".into(),
        ..CordonNodeRequest::default()
    };
    ok(world.api.cordon_node(by(cordon, Some("k"))).await);
    // the slice went where it broke nothing: to the small node, which nobody can have as bare metal
    let open = availability(&world).await;
    assert_eq!((open.fits, open.reasons.len()), (3, 0), "{open:?}");
    let found = ok(world.api.explain_placement(by(requested(), None)).await);
    assert_eq!((found.nodes, found.nodes_fit), (5, 3));

    for number in 0..3 {
        let key = format!("node-{number}");
        ok(world.api.reserve(Request::new(bare_metal(&key))).await);
    }
    let full = availability(&world).await;
    assert_eq!(full.fits, 0);
    assert_eq!(
        reported(&full),
        [("NODE_DRAINING", 8, 1), ("SLOTS_IN_USE", 24, 3)]
    );
    let found = ok(world.api.explain_placement(by(requested(), None)).await);
    assert_eq!((found.nodes_fit, &found.removed), (0, &full.reasons));
    let refusal = refused(world.api.reserve(Request::new(bare_metal("more"))).await);
    assert_eq!(refusal.reason(), ErrorReason::NoCapacity);
    assert_eq!(refusal.metadata()["SLOTS_IN_USE.nodes"], "3");
}

#[tokio::test]
async fn b_58_each_node_says_whether_it_can_be_had_as_bare_metal() {
    let (world, nodes) = boards(2).await;
    let cordon = CordonNodeRequest {
        node_id: nodes[0].clone(),
        reason: "fan".into(),
        ..CordonNodeRequest::default()
    };
    ok(world.api.cordon_node(by(cordon, Some("k"))).await);
    let all = ExplainNodesRequest {
        region_code: REGION.into(),
        sku: NODE.into(),
        gpu_count: 8,
        page_size: 10,
        ..ExplainNodesRequest::default()
    };
    let each = ok(world.api.explain_nodes(by(all.clone(), None)).await).nodes;
    assert_eq!(each.len(), 3);
    let of = |id: &String| each.iter().find(|node| node.node_id == *id).expect("told");
    assert_eq!(each[0].node_id, nodes[1], "what fits comes first");
    assert!(each[0].fits && each[0].slot_indexes.is_empty() && each[0].reasons.is_empty());
    assert_eq!(each[0].hostname, "board-1");
    let cordoned = of(&nodes[0]);
    assert!(!cordoned.fits);
    assert_eq!(cordoned.reasons[0].reason, "NODE_DRAINING");
    assert_eq!(
        (cordoned.reasons[0].gpus, cordoned.reasons[0].nodes),
        (8, 1)
    );
    let small = of(&nodes[2]);
    assert!(!small.fits && small.reasons.is_empty(), "of another size");
    let first = ExplainNodesRequest {
        page_size: 1,
        ..all
    };
    let first = ok(world.api.explain_nodes(by(first, None)).await).nodes;
    assert_eq!(first, each[..1]);
}

#[tokio::test]
async fn b_57_where_nothing_brings_up_bare_metal_nodes_that_is_the_reason() {
    let (mut world, _) = boards(2).await;
    world.api.policy.baremetal = false;
    let row = availability(&world).await;
    assert_eq!(row.fits, 0);
    assert_eq!(reported(&row), [("NO_CAPACITY", 0, 0)]);
    assert_eq!(
        row.reasons[0].message,
        "Bare metal is not offered on this platform."
    );
    let explained = refused(world.api.explain_placement(by(requested(), None)).await);
    let reserved = refused(world.api.reserve(Request::new(bare_metal("a"))).await);
    for refusal in [explained, reserved] {
        assert_eq!(refusal.code(), Code::InvalidArgument);
        assert_eq!(
            refusal.fields(),
            [(
                "sku".to_owned(),
                "is a bare-metal SKU, and this platform does not offer bare metal".to_owned()
            )]
        );
    }
    assert_eq!(
        world
            .number("SELECT count(*) FROM placement.allocations")
            .await,
        0
    );
}
