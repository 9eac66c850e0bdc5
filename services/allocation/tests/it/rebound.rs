//! D-80: a free slot whose function another driver took is repaired at an operator's word, by the agent's own core.

use gpuaas_placement::model::{Health, SlotStatus};
use gpuaas_placement::slots;
use gpuaas_proto::gpuaas::allocation::v1 as pb;
use gpuaas_proto::gpuaas::common::v1::SlotStatus as Status;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use uuid::Uuid;

use crate::platform::Platform;
use crate::world::World;

fn request(world: &World) -> pb::RepairResourceSlotRequest {
    pb::RepairResourceSlotRequest {
        node_id: world.node_id.to_string(),
        slot_id: world.slot_ids[0].to_string(),
        reason: "mlx5_core took the function".into(),
    }
}

async fn repaired(platform: &Platform, key: &str) -> pb::SlotRepair {
    let world = &platform.world;
    let mut admins = platform.admins.clone();
    let repair = platform.admin(request(world), Some(key));
    admins.repair_resource_slot(repair).await.expect("accepted");
    world.until_idle(world.slot_ids[0]).await;
    let get = pb::GetSlotRepairRequest {
        node_id: world.node_id.to_string(),
        slot_id: world.slot_ids[0].to_string(),
    };
    let ended = admins.get_slot_repair(platform.admin(get, None)).await;
    ended.expect("the repair").into_inner()
}

#[tokio::test]
async fn d_56_d_80_a_function_that_another_driver_took_is_bound_again_by_a_repair() {
    let platform = Platform::of(
        World::with_functions().await,
        gpuaas_scheduler::Config::default(),
        World::config(),
    )
    .await;
    let world = &platform.world;
    let mut admins = platform.admins.clone();
    world.report_devices().await;
    // nothing differs, so nothing of a free slot is repaired
    let early = platform.admin(request(world), Some("early"));
    let refused = admins.repair_resource_slot(early).await;
    let refused = gpuaas_common::Error::from(refused.expect_err("as it was approved"));
    assert_eq!(refused.reason(), ErrorReason::StateConflict);

    assert!(platform.differences().await.is_empty());
    for index in [0, 1] {
        world.host.bind_function(index, "mlx5_core");
    }
    world.report_devices().await;
    let rows = platform.differences().await;
    assert_eq!(rows.len(), 2, "{rows:?}");
    for (row, slot_id) in rows.iter().zip(&world.slot_ids) {
        assert_eq!(row.subject(), pb::NodeDifferenceSubject::Binding);
        assert_eq!(
            (&*row.kind, &row.slot_id),
            ("driver_rebound", &slot_id.to_string())
        );
        assert_eq!((&*row.approved, &*row.observed), ("vfio-pci", "mlx5_core"));
        assert_eq!(row.correction(), pb::ComparisonCorrection::RepairSlot);
        assert!(
            row.since.is_some() && row.message.contains("mlx5_core"),
            "{row:?}"
        );
    }
    let select = async |filter: &str, order_by: &str| {
        let request = pb::CompareNodeRequest {
            node_id: world.node_id.to_string(),
            filter: filter.into(),
            order_by: order_by.into(),
        };
        let mut admins = platform.admins.clone();
        let compared = admins.compare_node(platform.admin(request, None)).await;
        let compared = compared.map_err(gpuaas_common::Error::from)?.into_inner();
        let indices = compared.differences.iter().map(|row| row.slot_index);
        Ok::<_, gpuaas_common::Error>((compared.rows.len(), indices.collect::<Vec<_>>()))
    };
    for (filter, order_by, expected) in [
        (
            "subject = binding AND slot_index = 1 AND correction = repair_slot",
            "",
            vec![1],
        ),
        (
            "subject = allocation OR since < 2020-01-01",
            "kind desc",
            vec![],
        ),
        ("NOT subject = disk", "verdict, kind", vec![0, 1]),
    ] {
        let selected = select(filter, order_by).await.expect("selected");
        assert_eq!(selected, (0, expected), "{filter}");
    }
    let unknown = select("bytes > 1", "").await.expect_err("no such field");
    assert_eq!(unknown.fields()[0].0, "filter");
    world.host.use_function(0, true);
    let failed = repaired(&platform, "used").await;
    assert_eq!(
        (failed.state.as_str(), failed.slot_status()),
        ("failed", Status::CleanupBlocked)
    );
    for part in ["ib_write_bw", "/dev/infiniband/uverbs0"] {
        assert!(failed.detail.contains(part), "{}", failed.detail);
    }
    assert_eq!(
        world.host.function_driver(0),
        "mlx5_core",
        "somebody uses it"
    );
    let mut conn = world.pool.acquire().await.expect("a connection");
    let slot = slots::get(&mut conn, world.node_id, world.slot_ids[0]).await;
    let slot = slot.expect("the slot");
    assert!(
        slot.health_detail.contains("DEVICE_NOT_BOUND"),
        "{}",
        slot.health_detail
    );
    assert!(!slot.drift.is_empty(), "it still differs");

    world.host.use_function(0, false);
    let done = repaired(&platform, "free").await;
    assert_eq!(
        (done.state.as_str(), done.slot_status()),
        ("done", Status::Available)
    );
    assert_eq!(world.host.function_driver(0), "vfio-pci");
    assert_eq!(
        world.host.function_driver(1),
        "mlx5_core",
        "it is another slot's"
    );
    // until the host has said so, the slot is not offered
    let of = |index: usize| {
        let pool = world.pool.clone();
        async move {
            let mut conn = pool.acquire().await.expect("a connection");
            let slot = slots::get(&mut conn, world.node_id, world.slot_ids[index]).await;
            let slot = slot.expect("the slot");
            (slot.status, slot.health_state)
        }
    };
    assert_eq!(of(0).await, (SlotStatus::Available, Health::Degraded));
    world.report_devices().await;
    assert_eq!(of(0).await, (SlotStatus::Available, Health::Healthy));
    let rows = platform.differences().await;
    let left: Vec<_> = rows.iter().map(|row| row.slot_index).collect();
    assert_eq!(left, [1], "the other slot still differs");
    assert_eq!(of(1).await, (SlotStatus::Available, Health::Degraded));
}

/// The first repair is under the hold already.
#[tokio::test]
async fn d_80_d_82_a_function_that_another_driver_took_hides_no_hold_of_the_host() {
    let platform = Platform::of(
        World::with_functions().await,
        gpuaas_scheduler::Config::default(),
        World::config(),
    )
    .await;
    let world = &platform.world;
    world.report_devices().await;
    world.host.bind_function(0, "mlx5_core");
    world.report_devices().await;
    world.host.leak_hold(world.slot_ids[0], Uuid::now_v7());
    let done = repaired(&platform, "held").await;
    assert_eq!(
        (done.state.as_str(), done.slot_status()),
        ("done", Status::Available),
        "{}",
        done.detail
    );
    assert_eq!(world.host.function_driver(0), "vfio-pci");
    assert!(world.holds().await.holds.is_empty());
}
