//! Reservations and the intake of nodes and slots.
use gpuaas_proto::gpuaas::common::v1::{SlotBindings, SlotStatus};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_proto::gpuaas::internal::scheduler::v1::placement_service_server::PlacementService as _;
use gpuaas_proto::gpuaas::internal::scheduler::v1::{
    ApproveSlotsRequest, ListSlotsRequest, PutNodeRequest, PutRegionRequest, ReserveRequest,
    SetSlotAdminStateRequest,
};
use tonic::{Code, Request};
use uuid::Uuid;

use crate::world::{REGION, World, approval, node, ok, refused, reservation};

#[tokio::test]
async fn p4_a_reservation_is_made_once_per_key() {
    let (world, node_id, _) = World::with_slots(2).await;
    let first = ok(world.api.reserve(Request::new(reservation("k"))).await);
    let again = ok(world.api.reserve(Request::new(reservation("k"))).await);
    assert_eq!(
        (again.allocation_id.as_str(), first.replayed, again.replayed),
        (first.allocation_id.as_str(), false, true)
    );
    let other = ReserveRequest {
        request_hash: vec![2; 32],
        ..reservation("k")
    };
    assert_eq!(
        refused(world.api.reserve(Request::new(other)).await).reason(),
        ErrorReason::IdempotencyKeyReused
    );
    let slots = ok(world
        .api
        .list_slots(Request::new(ListSlotsRequest {
            node_id,
            ..ListSlotsRequest::default()
        }))
        .await);
    assert_eq!(slots.cell_epoch, 1);
    let held: Vec<_> = slots
        .slots
        .iter()
        .filter(|slot| slot.allocation_id == first.allocation_id)
        .collect();
    assert_eq!((held.len(), held[0].status()), (1, SlotStatus::Reserved));
    assert_eq!(
        gpuaas_common::id::cell_of(&first.allocation_id.parse().expect("id")),
        Some(7)
    );
}

#[tokio::test]
async fn validate_only_keeps_nothing() {
    let (world, ..) = World::with_slots(1).await;
    let dry = ReserveRequest {
        validate_only: true,
        idempotency_key: String::new(),
        request_hash: Vec::new(),
        ..reservation("k")
    };
    assert_eq!(
        ok(world.api.reserve(Request::new(dry)).await).allocation_id,
        ""
    );
    for table in [
        "allocations",
        "claims",
        "idempotency",
        "outbox",
        "workflows",
        "quotas",
    ] {
        let kept = if matches!(table, "idempotency") {
            2
        } else if matches!(table, "outbox" | "workflows") {
            // of the first wipe
            1
        } else {
            0
        };
        assert_eq!(
            world
                .number(&format!("SELECT count(*) FROM placement.{table}"))
                .await,
            kept,
            "{table}"
        );
    }
}

#[tokio::test]
async fn bad_reservations_name_their_field() {
    let (world, ..) = World::with_slots(1).await;
    let base = reservation("k");
    let cases = [
        (
            ReserveRequest {
                name: "Not A Label".into(),
                ..base.clone()
            },
            "name",
        ),
        (
            ReserveRequest {
                project_id: "x".into(),
                ..base.clone()
            },
            "project_id",
        ),
        (
            ReserveRequest {
                principal: String::new(),
                ..base.clone()
            },
            "principal",
        ),
        (
            ReserveRequest {
                idempotency_key: String::new(),
                ..base.clone()
            },
            "idempotency_key",
        ),
        (
            ReserveRequest {
                request_hash: vec![1],
                ..base.clone()
            },
            "request_hash",
        ),
        (
            ReserveRequest {
                image: None,
                ..base.clone()
            },
            "image",
        ),
        (
            ReserveRequest {
                ssh_public_keys: Vec::new(),
                ..base.clone()
            },
            "ssh_public_keys",
        ),
        (
            ReserveRequest {
                sku: "nothing".into(),
                ..base.clone()
            },
            "sku",
        ),
        (
            ReserveRequest {
                region_code: "nowhere".into(),
                ..base.clone()
            },
            "region_code",
        ),
        (
            ReserveRequest {
                gpu_count: 3,
                ..base.clone()
            },
            "gpu_count",
        ),
        (
            ReserveRequest {
                capacity_shape: 1,
                ..base.clone()
            },
            "capacity_shape",
        ),
    ];
    for (request, field) in cases {
        let error = refused(world.api.reserve(Request::new(request)).await);
        assert_eq!(
            (error.code(), error.fields()[0].0.as_str()),
            (Code::InvalidArgument, field)
        );
    }
    assert_eq!(
        world
            .number("SELECT count(*) FROM placement.allocations")
            .await,
        0
    );
}

#[tokio::test]
async fn b_57_a_refusal_carries_its_causes() {
    let (world, ..) = World::with_slots(1).await;
    ok(world.api.reserve(Request::new(reservation("a"))).await);
    let error = refused(world.api.reserve(Request::new(reservation("b"))).await);
    assert_eq!(
        (error.code(), error.reason()),
        (Code::ResourceExhausted, ErrorReason::SlotsInUse)
    );
    assert_eq!(
        error
            .metadata()
            .get("SLOTS_IN_USE.gpus")
            .map(String::as_str),
        Some("1")
    );
    ok(world
        .api
        .put_region(Request::new(PutRegionRequest {
            code: REGION.into(),
            enabled: false,
            unavailable_reason: "Fire in hall 2.".into(),
        }))
        .await);
    let error = refused(world.api.reserve(Request::new(reservation("c"))).await);
    assert_eq!(
        (error.code(), error.reason(), error.message()),
        (
            Code::FailedPrecondition,
            ErrorReason::RegionDisabled,
            format!("Region {REGION} is closed: Fire in hall 2.").as_str()
        )
    );
}

#[tokio::test]
async fn slots_are_approved_once_per_key_and_audited() {
    let (world, node_id, slots) = World::with_slots(2).await;
    assert!(
        slots
            .iter()
            .all(|slot| slot.status() == SlotStatus::Available
                && slot.clean_evidence == "wiped: blkdiscard")
    );
    assert_eq!(
        slots[1].bindings.as_ref().expect("bindings").management_mac,
        "52:54:00:aa:00:01"
    );
    // the same approval from a retried request starts no second wipe
    let again = ApproveSlotsRequest {
        request_id: "req-9".into(),
        ..approval(&node_id, 2)
    };
    assert_eq!(
        ok(world.api.approve_slots(Request::new(again)).await)
            .slots
            .len(),
        2
    );
    assert_eq!(
        world
            .number("SELECT count(*) FROM placement.audit WHERE action = 'slot.approve'")
            .await,
        1
    );
    assert_eq!(
        world
            .number("SELECT count(*) FROM placement.workflows WHERE kind = 'repair'")
            .await,
        2
    );
    let mut crippled = ApproveSlotsRequest {
        idempotency_key: "k2".into(),
        ..approval(&node_id, 3)
    };
    crippled.slots[2]
        .bindings
        .as_mut()
        .expect("bindings")
        .private_ip
        .clear();
    let error = refused(world.api.approve_slots(Request::new(crippled)).await);
    assert_eq!(
        (error.code(), error.reason()),
        (Code::InvalidArgument, ErrorReason::CandidateIncomplete)
    );
    let stale = ApproveSlotsRequest {
        idempotency_key: "k3".into(),
        instance_id: Uuid::now_v7().to_string(),
        ..approval(&node_id, 2)
    };
    assert_eq!(
        refused(world.api.approve_slots(Request::new(stale)).await).reason(),
        ErrorReason::DiscoveryStale
    );
}

#[tokio::test]
async fn a_116_a_slot_is_disabled_and_enabled() {
    let (world, node_id, slots) = World::with_slots(1).await;
    let set = async |slot_id: &str, disabled: bool, key: &str| {
        let request = SetSlotAdminStateRequest {
            node_id: node_id.clone(),
            slot_id: slot_id.to_owned(),
            disabled,
            reason: "fan".into(),
            principal: "user:root".into(),
            request_id: "req".into(),
            idempotency_key: key.into(),
            etag: String::new(),
        };
        world.api.set_slot_admin_state(Request::new(request)).await
    };
    let off = ok(set(&slots[0].id, true, "k1").await);
    assert!(off.disabled && off.status() == SlotStatus::Disabled);
    assert_eq!(ok(set(&slots[0].id, true, "k1").await), off);
    assert_eq!(
        ok(set(&slots[0].id, false, "k2").await).status(),
        SlotStatus::Available
    );
    assert_eq!(
        refused(set(&slots[0].id, false, "k1").await).reason(),
        ErrorReason::IdempotencyKeyReused
    );
    assert_eq!(
        refused(set(&Uuid::now_v7().to_string(), true, "k3").await).reason(),
        ErrorReason::SlotNotFound
    );
    assert_eq!(
        world
            .number("SELECT count(*) FROM placement.audit WHERE resource = 'slot'")
            .await,
        2
    );
    let chained =
        "SELECT count(*) FROM placement.audit off JOIN placement.audit on_again USING (resource_id)
         WHERE off.action = 'slot.disable' AND on_again.action = 'slot.enable'
           AND off.detail->>'after_digest' = on_again.detail->>'before_digest'
           AND off.detail->>'before_digest' <> off.detail->>'after_digest'";
    assert_eq!(
        world.number(chained).await,
        1,
        "P10: the second change found what the first had left"
    );
}

#[tokio::test]
async fn a_node_is_known_before_its_first_instance() {
    let (world, ..) = World::with_slots(1).await;
    let bare = PutNodeRequest {
        instance_id: String::new(),
        agent_address: String::new(),
        schedulable: false,
        ..node()
    };
    assert_eq!(
        ok(world.api.put_node(Request::new(bare.clone())).await).admin_state,
        "enabled"
    );
    let error = refused(
        world
            .api
            .put_node(Request::new(PutNodeRequest {
                schedulable: true,
                ..bare.clone()
            }))
            .await,
    );
    assert_eq!(error.fields()[0].0, "schedulable");
    for (bad, field) in [
        (
            PutNodeRequest {
                mode: "both".into(),
                ..bare.clone()
            },
            "mode",
        ),
        (
            PutNodeRequest {
                hostname: String::new(),
                ..bare.clone()
            },
            "hostname",
        ),
        (
            PutNodeRequest {
                node_id: "x".into(),
                ..bare.clone()
            },
            "node_id",
        ),
        (
            PutNodeRequest {
                image_digests: vec!["sha256:ab".into()],
                ..bare.clone()
            },
            "image_digests",
        ),
        (
            PutNodeRequest {
                hugepages_allocated_to: vec![bare.node_id.clone(), String::new()],
                ..bare.clone()
            },
            "hugepages_allocated_to",
        ),
    ] {
        assert_eq!(
            refused(world.api.put_node(Request::new(bad)).await).fields()[0].0,
            field
        );
    }
    let elsewhere = refused(
        world
            .api
            .put_node(Request::new(PutNodeRequest {
                region_code: "nowhere".into(),
                ..bare
            }))
            .await,
    );
    assert_eq!(elsewhere.reason(), ErrorReason::RegionUnknown);
}

/// A node of a region with lab slots, by its id.
async fn node_in(world: &World, region: &str, slots: u32) -> String {
    let spec = PutNodeRequest {
        region_code: region.into(),
        ..node()
    };
    ok(world.api.put_node(Request::new(spec.clone())).await);
    let approved = ApproveSlotsRequest {
        idempotency_key: spec.node_id.clone(),
        ..approval(&spec.node_id, slots)
    };
    world.approve(approved).await;
    spec.node_id
}

/// A request names region and SKU, and no node: which one it gets is the scheduler's to say.
///
#[tokio::test]
async fn b_15_the_scheduler_chooses_the_node_within_region_and_pool() {
    let (world, here, _) = World::with_slots(1).await;
    for (code, enabled) in [("lab-2", true), ("lab-3", false)] {
        let region = PutRegionRequest {
            code: code.into(),
            enabled,
            ..Default::default()
        };
        ok(world.api.put_region(Request::new(region)).await);
    }
    let there = node_in(&world, "lab-2", 2).await;
    node_in(&world, "lab-3", 2).await;
    // another pool of the region: what its node has is free, and not allocated as lab slices
    let other_pool = PutNodeRequest {
        lab: false,
        hugepages_1g_free: 1000,
        ..node()
    };
    ok(world.api.put_node(Request::new(other_pool.clone())).await);
    let mut slots = approval(&other_pool.node_id, 2);
    slots.idempotency_key = other_pool.node_id.clone();
    for slot in &mut slots.slots {
        slot.slot_class = "h200_sxm".into();
        let index = slot.slot_index;
        let bindings = slot.bindings.as_mut().expect("bindings");
        *bindings = SlotBindings {
            gpu_pci_address: format!("0000:{:02x}:00.0", 0x10 + index),
            gpu_module_id: Some(index + 1),
            numa_node: Some(0),
            nvme_device: format!("/dev/disk/by-id/nvme-eui.{index:016x}"),
            storage_identity_kind: "nvme_wwn_by_id".into(),
            fabric_device: "0000:1a:00.0".into(),
            fabric_vf_pci_address: format!("0000:1a:00.{}", index + 1),
            fabric_claim_mode: "per_slot_vf".into(),
            ..bindings.clone()
        };
    }
    world.approve(slots).await;
    let requested = |key: &str, region: &str| ReserveRequest {
        region_code: region.into(),
        ..reservation(key)
    };
    let holders = async |node_id: &str| -> Vec<String> {
        let list = ListSlotsRequest {
            node_id: node_id.to_owned(),
            ..ListSlotsRequest::default()
        };
        let slots = ok(world.api.list_slots(Request::new(list)).await).slots;
        let held = slots.into_iter().map(|slot| slot.allocation_id);
        held.filter(|id| !id.is_empty()).collect()
    };
    let far = ok(world
        .api
        .reserve(Request::new(requested("a", "lab-2")))
        .await);
    assert_eq!(holders(&there).await, [far.allocation_id]);
    assert!(holders(&here).await.is_empty());
    let near = ok(world
        .api
        .reserve(Request::new(requested("b", REGION)))
        .await);
    assert_eq!(holders(&here).await, [near.allocation_id]);
    // a full region is full, whatever is free in others
    let full = refused(
        world
            .api
            .reserve(Request::new(requested("c", REGION)))
            .await,
    );
    assert_eq!(full.reason(), ErrorReason::SlotsInUse);
    let closed = refused(
        world
            .api
            .reserve(Request::new(requested("d", "lab-3")))
            .await,
    );
    assert_eq!(closed.reason(), ErrorReason::RegionDisabled);
    ok(world
        .api
        .reserve(Request::new(requested("e", "lab-2")))
        .await);
    assert_eq!(holders(&there).await.len(), 2);
}
