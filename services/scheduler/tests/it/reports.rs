//! Planning reports as an administrator asks for them.
use gpuaas_proto::gpuaas::common::v1::CapacityShape;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_proto::gpuaas::internal::scheduler::v1::placement_service_server::PlacementService as _;
use gpuaas_proto::gpuaas::scheduler::v1::capacity_admin_service_server::CapacityAdminService as _;
use gpuaas_proto::gpuaas::scheduler::v1::{
    GetPreservationReportRequest, PlanEvacuationRequest, SuggestDefragmentationRequest,
};
use tonic::{Code, Request};
use uuid::Uuid;

use crate::world::{LAB, REGION, World, approval, by, node, ok, refused, reservation};

/// A second node with so many slots.
async fn another(world: &World, slots: u32) -> String {
    let mut other = node();
    other.hostname = "lab-host-2".into();
    ok(world.api.put_node(Request::new(other.clone())).await);
    let mut approved = approval(&other.node_id, slots);
    approved.idempotency_key = "k-approve-2".into();
    world.approve(approved).await;
    other.node_id
}

#[tokio::test]
async fn b_49_an_evacuation_plan_counts_what_fits_and_says_that_nothing_is_done() {
    let (world, node_id, _) = World::with_slots(2).await;
    for key in ["a", "b"] {
        ok(world.api.reserve(Request::new(reservation(key))).await);
    }
    let other = another(&world, 1).await;
    let requested = || PlanEvacuationRequest {
        node_ids: vec![node_id.clone()],
    };
    let plan = ok(world.api.plan_evacuation(by(requested(), None)).await);
    assert_eq!(
        (
            plan.allocations_fit,
            plan.gpus_fit,
            plan.allocations_unplaceable,
            plan.gpus_unplaceable
        ),
        (1, 1, 1, 1)
    );
    assert_eq!(
        (
            plan.region_code.as_str(),
            plan.allocations_ending,
            plan.blocked_slots
        ),
        (REGION, 0, 0)
    );
    assert!(
        plan.notice.contains("Nothing was or will be executed")
            && plan.notice.contains("no live migration")
    );
    let (fits, waits) = (&plan.allocations[0], &plan.allocations[1]);
    let placement = fits.placement.as_ref().expect("a placement");
    assert_eq!(
        (
            &placement.node_id,
            placement.hostname.as_str(),
            &placement.slot_indexes
        ),
        (&other, "lab-host-2", &vec![0])
    );
    let held = fits.allocation.as_ref().expect("told");
    assert_eq!(
        (&held.node_id, held.sku.as_str(), held.gpu_count),
        (&node_id, LAB, 1)
    );
    assert_eq!(
        (held.state.as_str(), held.capacity_shape),
        ("reserved", CapacityShape::GpuSlice.into())
    );
    assert!(held.create_time.is_some() && held.name.starts_with("vm-"));
    assert_eq!(held.project_id, Uuid::from_u128(5).to_string());
    assert!(
        waits.placement.is_none() && waits.reasons[0].reason == "SLOTS_IN_USE",
        "{waits:?}"
    );
    assert_eq!(
        plan,
        ok(world.api.plan_evacuation(by(requested(), None)).await),
        "the same fleet, the same plan"
    );

    let cases = [
        (
            Vec::new(),
            Code::InvalidArgument,
            ErrorReason::FieldRequired,
        ),
        (
            vec!["n1".to_owned()],
            Code::InvalidArgument,
            ErrorReason::FieldInvalid,
        ),
        (
            vec![Uuid::now_v7().to_string()],
            Code::NotFound,
            ErrorReason::NodeNotFound,
        ),
    ];
    for (node_ids, code, reason) in cases {
        let request = PlanEvacuationRequest { node_ids };
        let error = refused(world.api.plan_evacuation(by(request, None)).await);
        assert_eq!((error.code(), error.reason()), (code, reason), "{error}");
    }
}

#[tokio::test]
async fn b_49_a_defragmentation_of_what_does_not_run_is_empty_and_its_fields_are_checked() {
    let (world, _, _) = World::with_slots(2).await;
    ok(world.api.reserve(Request::new(reservation("a"))).await);
    another(&world, 2).await;
    let requested = SuggestDefragmentationRequest {
        region_code: REGION.into(),
        sku: LAB.into(),
        gpu_count: 2,
        max_moves: 0,
    };
    let found = ok(world
        .api
        .suggest_defragmentation(by(requested.clone(), None))
        .await);
    assert_eq!(
        (found.fits_before, found.fits_after, found.gpus_moved),
        (1, 1, 0)
    );
    assert!(found.steps.is_empty() && !found.cut && found.notice.contains("no live migration"));
    for (request, field) in [
        (
            SuggestDefragmentationRequest {
                region_code: String::new(),
                ..requested.clone()
            },
            "region_code",
        ),
        (
            SuggestDefragmentationRequest {
                region_code: "nowhere".into(),
                ..requested.clone()
            },
            "region_code",
        ),
        (
            SuggestDefragmentationRequest {
                sku: String::new(),
                ..requested.clone()
            },
            "sku",
        ),
        (
            SuggestDefragmentationRequest {
                gpu_count: 0,
                ..requested.clone()
            },
            "gpu_count",
        ),
        (
            SuggestDefragmentationRequest {
                gpu_count: 7,
                ..requested.clone()
            },
            "gpu_count",
        ),
        (
            SuggestDefragmentationRequest {
                max_moves: 65,
                ..requested.clone()
            },
            "max_moves",
        ),
    ] {
        let error = refused(world.api.suggest_defragmentation(by(request, None)).await);
        assert_eq!(
            (error.code(), error.fields()[0].0.as_str()),
            (Code::InvalidArgument, field)
        );
    }
}

#[tokio::test]
async fn b_47_preservation_is_told_per_region_and_class() {
    let (world, _, _) = World::with_slots(2).await;
    another(&world, 2).await;
    ok(world.api.reserve(Request::new(reservation("a"))).await);
    let requested = |region: &str| GetPreservationReportRequest {
        region_code: region.into(),
    };
    let report = ok(world
        .api
        .get_preservation_report(by(requested(""), None))
        .await);
    let [nodes] = &report.nodes[..] else {
        panic!("{report:?}");
    };
    assert_eq!(
        (nodes.region_code.as_str(), nodes.slot_class.as_str()),
        (REGION, "lab")
    );
    assert_eq!(
        (
            nodes.nodes,
            nodes.baremetal_free,
            nodes.sliced,
            nodes.baremetal_allocated,
            nodes.clean
        ),
        (2, 1, 1, 0, 0)
    );
    assert_eq!((nodes.recoverable, nodes.moves), (0, 0));
    assert!(report.notice.contains("Nothing was or will be executed"));
    let error = refused(
        world
            .api
            .get_preservation_report(by(requested("nowhere"), None))
            .await,
    );
    assert_eq!(error.fields()[0].0, "region_code");
}
