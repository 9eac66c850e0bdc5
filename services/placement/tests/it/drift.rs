//! Drift: what a host has now against what was approved for its slots (D-80).
use gpuaas_common::drift::SLICE_DRIVER;
use gpuaas_placement::audit;
use gpuaas_placement::drift::{self, Noted};
use gpuaas_placement::model::Attribution;
use gpuaas_placement::model::{Health, Slot, SlotClass, SlotStatus};
use gpuaas_placement::{Error, Scope, claims, node_placement, provision, release, repair};
use gpuaas_placement_testing as testing;
use gpuaas_proto::gpuaas::agent::v1::{HostAddress, HostDevices, HostDisk, HostFunction};
use uuid::Uuid;

use crate::world::{World, h200_slot, lab_slot, lab_spec};

/// What a host has that is as it was approved, its disks wiped under the present generations.
fn as_approved(slots: &[Slot]) -> HostDevices {
    let mut host = HostDevices::default();
    for slot in slots {
        let bindings = &slot.bindings;
        host.disks.push(HostDisk {
            identity: bindings.nvme_device.clone(),
            bytes: bindings.nvme_bytes.unsigned_abs(),
            slot_id: slot.id.to_string(),
            proven_generation: slot.generation.unsigned_abs(),
            ..HostDisk::default()
        });
        if slot.class == SlotClass::H200Sxm {
            let function = |address: &str| HostFunction {
                pci_address: address.to_owned(),
                driver: SLICE_DRIVER.to_owned(),
                ..HostFunction::default()
            };
            host.functions.push(function(&bindings.gpu_pci_address));
            host.functions
                .push(function(&bindings.fabric_vf_pci_address));
        }
    }
    host
}

async fn note(world: &World, node: Uuid, host: Option<&HostDevices>) -> Noted {
    let mut tx = world.scheduler.begin().await.expect("begin");
    let noted = drift::note(&mut tx, node, host).await.expect("noted");
    tx.commit().await.expect("commit");
    noted
}

async fn assert_clean(world: &World) {
    let mut conn = world.scheduler.acquire().await.expect("connection");
    let report = audit::ledger(&mut conn).await.expect("audited");
    let broken: Vec<_> = report.broken().map(|one| one.name).collect();
    assert!(broken.is_empty(), "{broken:?}");
}

fn kinds(slot: &Slot) -> Vec<&'static str> {
    slot.drift
        .iter()
        .map(|one| one.drift.kind.as_str())
        .collect()
}

async fn events(world: &World, like: &str) -> Vec<String> {
    sqlx::query_scalar("SELECT type FROM outbox WHERE type LIKE $1 ORDER BY seq")
        .bind(like)
        .fetch_all(&world.owner)
        .await
        .expect("events")
}

#[tokio::test]
async fn d_80_a_free_slot_that_drifts_is_not_offered_and_drift_that_ends_ends_by_itself() {
    let world = World::new().await;
    let node = world.node(lab_spec()).await;
    world.approve(node, &[h200_slot(0), h200_slot(1)]).await;
    let slots = world.slots(node).await;
    let good = as_approved(&slots);
    assert_eq!(note(&world, node, Some(&good)).await, Noted::default());

    // one dead GPU, and nothing of the other slot
    let mut bad = good.clone();
    bad.functions[0].fault = "does not answer on its bus".into();
    assert_eq!(note(&world, node, Some(&bad)).await.changed, 1);
    let now = world.slots(node).await;
    assert_eq!(kinds(&now[0]), ["gpu_faulty"]);
    assert_eq!(
        (now[0].status, now[0].health_state),
        (SlotStatus::Available, Health::Degraded)
    );
    assert_eq!(now[1].health_state, Health::Healthy);
    assert!(now[1].drift.is_empty());
    let counts = drift::counts(&mut world.scheduler.acquire().await.expect("connection")).await;
    let counts = counts.expect("counts");
    assert_eq!(
        (counts[0].kind.as_str(), counts[0].occupied, counts[0].slots),
        ("gpu_faulty", false, 1)
    );
    // the same again is no news, and what the host says of itself does not heal the slot
    assert_eq!(note(&world, node, Some(&bad)).await, Noted::default());
    world
        .node(gpuaas_placement::nodes::NodeSpec {
            id: node,
            host_health: Health::Unknown,
            ..lab_spec()
        })
        .await;
    assert_eq!(world.slots(node).await[0].health_state, Health::Degraded);
    assert_eq!(world.slots(node).await[1].health_state, Health::Unknown);

    note(&world, node, Some(&good)).await;
    let now = world.slots(node).await;
    assert!(now[0].drift.is_empty());
    assert_eq!(
        (now[0].status, now[0].health_state),
        (SlotStatus::Available, Health::Unknown)
    );
    assert_eq!(
        events(&world, "slot.drift%").await,
        ["slot.drift", "slot.drift_ended"]
    );
    assert_clean(&world).await;
}

#[tokio::test]
async fn d_80_an_occupied_slot_and_its_allocation_are_marked_until_it_ends() {
    let (world, node) = World::with_lab_slots(2).await;
    let id = world.active(1).await;
    let slots = world.slots(node).await;
    let good = as_approved(&slots);
    let held = slots
        .iter()
        .position(|slot| slot.allocation_id == Some(id))
        .expect("held");
    let mut bad = good.clone();
    bad.disks.remove(held);
    note(&world, node, Some(&bad)).await;
    let now = world.slots(node).await;
    assert_eq!(kinds(&now[held]), ["disk_missing"]);
    assert_eq!(now[held].status, SlotStatus::Active, "it stays the owner's");
    assert!(now[1 - held].drift.is_empty());
    let marked = world.get(id).await;
    assert!(marked.device_drift_since.is_some());
    assert!(marked.device_drift.contains("disk"), "{marked:?}");
    assert!(
        !marked.device_drift.contains("lab-disk"),
        "nothing of the host"
    );
    // rules that are not in force are the guests'
    bad.unprotected_allocations = vec![id.to_string()];
    note(&world, node, Some(&bad)).await;
    assert_eq!(
        kinds(&world.slots(node).await[held]),
        ["disk_missing", "rules_missing"]
    );
    assert!(world.get(id).await.device_drift.contains("network"));

    note(&world, node, Some(&good)).await;
    let now = world.get(id).await;
    assert_eq!(
        (now.device_drift_since, now.device_drift.as_str()),
        (None, "")
    );
    assert_eq!(
        events(&world, "allocation.device%").await,
        [
            "allocation.device_drift",
            "allocation.device_drift",
            "allocation.device_drift_ended"
        ]
    );
    assert_clean(&world).await;
}

/// A-80, A-135, A-136: a host that is as it was leaves the slot to its own repair.
#[tokio::test]
async fn p2_a_free_disk_that_somebody_used_takes_a_repair_although_the_drift_ends() {
    type Change = fn(&mut HostDisk);
    let changes: [(Change, &str); 3] = [
        (
            |disk| disk.uses = vec!["nvme1n1 is mounted at /mnt".into()],
            "disk_in_use",
        ),
        (
            |disk| disk.content = vec!["signature ext4".into()],
            "disk_content",
        ),
        (|disk| disk.bytes += 512, "disk_replaced"),
    ];
    let (world, node) = World::with_lab_slots(4).await;
    for (index, (change, kind)) in changes.into_iter().enumerate() {
        let slot = world.slots(node).await[index].clone();
        let good = as_approved(&world.slots(node).await);
        let mut bad = good.clone();
        change(&mut bad.disks[index]);
        note(&world, node, Some(&bad)).await;
        let now = world.slots(node).await[index].clone();
        assert_eq!(kinds(&now), [kind]);
        assert_eq!(
            (now.status, now.health_state),
            (SlotStatus::CleanupBlocked, Health::Failed)
        );
        assert!(!now.health_detail.is_empty());
        // INC-03: the host is as it was, the slot is not
        note(&world, node, Some(&good)).await;
        let now = world.slots(node).await[index].clone();
        assert!(now.drift.is_empty());
        assert_eq!(now.status, SlotStatus::CleanupBlocked);
        let mut tx = world.allocation.begin().await.expect("begin");
        let begun = repair::begin(&mut tx, node, slot.id, "", "").await;
        begun.expect("repaired by an operator");
        tx.commit().await.expect("commit");
        testing::wipe(&world.allocation, node).await;
        let now = world.slots(node).await[index].clone();
        assert_eq!(now.status, SlotStatus::Available);
        assert_eq!(now.clean_generation, Some(slot.generation + 1));
        // what was observed before that wipe does not block the slot: at most it waits for the next report
        note(&world, node, Some(&bad)).await;
        let now = world.slots(node).await[index].clone();
        assert_eq!(now.status, SlotStatus::Available, "{kind}");
        let says_nothing = kind == "disk_content";
        assert_eq!(now.health_state == Health::Healthy, says_nothing, "{kind}");
        let noted = note(&world, node, Some(&as_approved(&world.slots(node).await))).await;
        assert_eq!(noted.wipes, 0, "{kind}");
        let now = world.slots(node).await[index].clone();
        assert_eq!(
            (now.status, now.health_state),
            (SlotStatus::Available, Health::Healthy),
            "{kind}"
        );
    }
    assert_clean(&world).await;
}

/// D-56, A-80: an operator's repair, and only of what it ends.
#[tokio::test]
async fn d_80_a_free_slot_whose_device_another_driver_took_is_repaired() {
    let world = World::new().await;
    let node = world.node(lab_spec()).await;
    world.approve(node, &[h200_slot(0), h200_slot(1)]).await;
    let slot = world.slots(node).await[0].clone();
    let good = as_approved(&world.slots(node).await);
    let mut bad = good.clone();
    bad.functions[0].driver = "nvidia".into();

    // what a domain has stays with it, a disk that is away comes first, and another drift is no reason
    let refused: [fn(&mut HostDevices); 3] = [
        |host| host.functions[0].used_by = "stranger".into(),
        |host| {
            host.disks.remove(0);
        },
        |host| {
            host.functions[0].driver = SLICE_DRIVER.into();
            host.functions[0].fault = "does not answer on its bus".into();
        },
    ];
    for change in refused {
        let mut host = bad.clone();
        change(&mut host);
        note(&world, node, Some(&host)).await;
        let mut tx = world.allocation.begin().await.expect("begin");
        let begun = repair::begin(&mut tx, node, slot.id, "", "").await;
        let drift = kinds(&world.slots(node).await[0]).join(", ");
        assert!(
            matches!(begun, Err(Error::Conflict { what: "slot", .. })),
            "{drift}: {begun:?}"
        );
        drop(tx);
        // a disk that is back is wiped
        note(&world, node, Some(&good)).await;
        testing::wipe(&world.allocation, node).await;
    }

    let before = world.slots(node).await[0].clone();
    note(&world, node, Some(&bad)).await;
    let mut tx = world.allocation.begin().await.expect("begin");
    let other = world.slots(node).await[1].id;
    assert!(matches!(
        repair::begin(&mut tx, node, other, "", "").await,
        Err(Error::Conflict { what: "slot", .. })
    ));
    let begun = repair::begin(&mut tx, node, slot.id, "", "").await;
    let begun = begun.expect("its repair");
    assert!(begun.started && begun.allocation_id.is_none());
    assert_eq!(
        (begun.slot.status, begun.slot.generation),
        (SlotStatus::Cleanup, before.generation + 1)
    );
    let again = repair::begin(&mut tx, node, slot.id, "", "").await;
    let again = again.expect("the same");
    assert_eq!(
        (again.started, again.workflow_id),
        (false, begun.workflow_id)
    );
    tx.commit().await.expect("commit");
    assert_clean(&world).await;
    testing::wipe(&world.allocation, node).await;
    let now = world.slots(node).await[0].clone();
    assert_eq!(
        (now.status, now.health_state, now.clean_generation),
        (
            SlotStatus::Available,
            Health::Degraded,
            Some(now.generation)
        ),
        "until the host reports the device as approved"
    );
    note(&world, node, Some(&as_approved(&world.slots(node).await))).await;
    assert_eq!(world.slots(node).await[0].health_state, Health::Healthy);

    // one that an operator took out stays out
    let mut tx = world.scheduler.begin().await.expect("begin");
    let by = Attribution::of("user:test", "");
    node_placement::set_slot_admin_state(&mut tx, node, slot.id, true, by)
        .await
        .expect("disabled");
    tx.commit().await.expect("commit");
    note(&world, node, Some(&bad)).await;
    let mut tx = world.allocation.begin().await.expect("begin");
    repair::begin(&mut tx, node, slot.id, "", "")
        .await
        .expect("its repair");
    tx.commit().await.expect("commit");
    testing::wipe(&world.allocation, node).await;
    assert_eq!(world.slots(node).await[0].status, SlotStatus::Disabled);
    assert_clean(&world).await;
}

#[tokio::test]
async fn p2_a_free_disk_that_was_out_of_sight_is_wiped_before_it_is_offered_again() {
    let (world, node) = World::with_lab_slots(2).await;
    let slots = world.slots(node).await;
    let good = as_approved(&slots);
    let mut bad = good.clone();
    bad.disks.remove(0);
    assert_eq!(
        note(&world, node, Some(&bad)).await,
        Noted {
            changed: 1,
            wipes: 0
        }
    );
    let now = world.slots(node).await;
    assert_eq!(
        (now[0].status, now[0].health_state),
        (SlotStatus::Available, Health::Degraded)
    );
    assert_eq!(
        now[1].health_state,
        Health::Healthy,
        "one dead disk is one slot's"
    );
    assert_eq!(
        note(&world, node, Some(&good)).await,
        Noted {
            changed: 1,
            wipes: 1
        }
    );
    let now = world.slots(node).await;
    assert_eq!(
        (now[0].status, now[0].generation),
        (SlotStatus::Cleanup, slots[0].generation + 1)
    );
    assert_eq!(note(&world, node, Some(&good)).await, Noted::default());
    testing::wipe(&world.allocation, node).await;
    let now = world.slots(node).await;
    assert_eq!(
        (now[0].status, now[0].health_state),
        (SlotStatus::Available, Health::Healthy)
    );
    assert_clean(&world).await;
}

#[tokio::test]
async fn p2_a_disk_that_was_used_and_whose_wipe_its_host_cannot_prove_any_more_takes_a_repair() {
    let (world, node) = World::with_lab_slots(1).await;
    let slots = world.slots(node).await;
    let mut host = as_approved(&slots);
    // the host has lost what it knew of the slot
    host.disks[0].slot_id = String::new();
    host.disks[0].proven_generation = 0;
    assert_eq!(note(&world, node, Some(&host)).await, Noted::default());
    let mut used = host.clone();
    used.disks[0].uses = vec!["nvme1n1 is mounted at /mnt".into()];
    note(&world, node, Some(&used)).await;
    let now = world.slots(node).await;
    assert_eq!(
        (now[0].status, now[0].health_state),
        (SlotStatus::Available, Health::Degraded)
    );
    // what is on it may be somebody's data: nothing is wiped by itself
    assert_eq!(note(&world, node, Some(&host)).await.wipes, 0);
    assert_eq!(
        world.slots(node).await[0].status,
        SlotStatus::CleanupBlocked
    );
    assert_clean(&world).await;
}

#[tokio::test]
async fn p2_a_disk_that_comes_back_in_use_takes_a_repair_whatever_its_host_can_prove() {
    let (world, node) = World::with_lab_slots(1).await;
    let good = as_approved(&world.slots(node).await);
    let mut away = good.clone();
    away.disks.clear();
    note(&world, node, Some(&away)).await;
    let mut used = good.clone();
    used.disks[0].slot_id = String::new();
    used.disks[0].proven_generation = 0;
    used.disks[0].uses = vec!["nvme1n1 is mounted at /mnt".into()];
    assert_eq!(note(&world, node, Some(&used)).await.wipes, 0);
    note(&world, node, Some(&good)).await;
    assert_eq!(
        world.slots(node).await[0].status,
        SlotStatus::CleanupBlocked
    );
    assert_clean(&world).await;
}

#[tokio::test]
async fn p2_a_disk_in_doubt_while_its_slot_is_reserved_is_wiped_before_anybody_gets_it() {
    type Change = fn(&mut HostDevices, usize);
    let changes: [(Change, &str); 4] = [
        (|host, index| drop(host.disks.remove(index)), "disk_missing"),
        (
            |host, index| host.disks[index].fault = "input/output error".into(),
            "disk_faulty",
        ),
        (
            |host, index| host.disks[index].uses = vec!["nvme1n1 is mounted at /mnt".into()],
            "disk_in_use",
        ),
        (
            |host, index| host.disks[index].content = vec!["signature ext4".into()],
            "disk_content",
        ),
    ];
    for (change, kind) in changes {
        let (world, node) = World::with_lab_slots(2).await;
        let good = as_approved(&world.slots(node).await);
        note(&world, node, Some(&good)).await;
        let id = world.reserved(1).await;
        let slots = world.slots(node).await;
        let held = slots
            .iter()
            .position(|slot| slot.allocation_id == Some(id))
            .expect("held");
        // what was reported before the last wipe is of another time, and its host is as it was
        let mut bad = good.clone();
        change(&mut bad, held);
        note(&world, node, Some(&bad)).await;
        note(&world, node, Some(&good)).await;
        let now = world.slots(node).await[held].clone();
        assert_eq!(now.status, SlotStatus::CleanupBlocked, "{kind}");

        // its launch does not begin
        let fence = world.take(id).await;
        let mut tx = world.allocation.begin().await.expect("begin");
        let refused = provision::start(&mut tx, fence, id).await;
        assert!(
            matches!(refused, Err(Error::Conflict { what: "slot", .. })),
            "{kind}: {refused:?}"
        );
        assert!(claims::are_blocked(&mut tx, id).await.expect("claims"));
        drop(tx);
        // released, it is not free again, and only a repair with its wipe makes it so
        let mut tx = world.allocation.begin().await.expect("begin");
        release::begin(&mut tx, Scope::Platform, id, "", "")
            .await
            .expect("released");
        tx.commit().await.expect("commit");
        let now = world.slots(node).await[held].clone();
        assert_eq!(now.status, SlotStatus::CleanupBlocked, "{kind}");
        assert_clean(&world).await;
        let mut tx = world.allocation.begin().await.expect("begin");
        repair::begin(&mut tx, node, now.id, "", "")
            .await
            .expect("repaired by an operator");
        tx.commit().await.expect("commit");
        testing::wipe(&world.allocation, node).await;
        assert_eq!(world.count(node, SlotStatus::Available).await, 2, "{kind}");
        assert_clean(&world).await;
    }
}

#[tokio::test]
async fn p2_a_report_from_before_the_wipe_ends_no_launch() {
    let (world, node) = World::with_lab_slots(1).await;
    let good = as_approved(&world.slots(node).await);
    let mut stale = good.clone();
    stale.disks[0].slot_id = String::new();
    stale.disks[0].proven_generation = 0;
    stale.disks[0].uses = vec!["nvme1n1 is mounted at /mnt".into()];
    let id = world.reserved(1).await;
    note(&world, node, Some(&stale)).await;
    assert_eq!(world.slots(node).await[0].status, SlotStatus::Reserved);
    note(&world, node, Some(&good)).await;
    world.activate(id).await;
    assert_eq!(world.slots(node).await[0].status, SlotStatus::Active);
}

/// A-85: what the host says of MAC, virtual function and disk is held against the slot before it is schedulable.
#[tokio::test]
async fn a_58_a_slot_is_compared_when_it_is_approved() {
    let world = World::new().await;
    let node = world.node(lab_spec()).await;
    let definitions = [lab_slot(0), lab_slot(1)];
    // reported before, and nothing new since
    let mut host = HostDevices::default();
    host.disks.push(HostDisk {
        identity: definitions[0].bindings.nvme_device.clone(),
        bytes: definitions[0].bindings.nvme_bytes.unsigned_abs(),
        ..HostDisk::default()
    });
    note(&world, node, Some(&host)).await;
    world.approve(node, &definitions).await;
    let slots = world.slots(node).await;
    assert!(slots[0].drift.is_empty());
    assert_eq!(kinds(&slots[1]), ["disk_missing"]);
    assert_eq!(slots[1].health_state, Health::Degraded);
}

#[tokio::test]
async fn a_reservation_of_somebody_else_is_a_duplicate_and_an_earlier_tenants_is_not() {
    let (world, node) = World::with_lab_slots(1).await;
    let id = world.active(1).await;
    let slot = world.slots(node).await[0].clone();
    let reserved = |allocation: Uuid| HostAddress {
        allocation_id: allocation.to_string(),
        mac: slot.bindings.management_mac.clone(),
        ip: slot.bindings.private_ip.clone(),
        ..HostAddress::default()
    };
    let mut host = as_approved(std::slice::from_ref(&slot));
    host.addresses = vec![reserved(id)];
    assert_eq!(note(&world, node, Some(&host)).await, Noted::default());
    host.addresses.push(reserved(Uuid::now_v7()));
    note(&world, node, Some(&host)).await;
    assert_eq!(
        kinds(&world.slots(node).await[0]),
        ["duplicate_mac", "duplicate_address"]
    );
    // what differed stands until a report says otherwise
    note(&world, node, None).await;
    assert_eq!(world.slots(node).await[0].drift.len(), 2);
    host.addresses.truncate(1);
    note(&world, node, Some(&host)).await;
    assert!(world.slots(node).await[0].drift.is_empty());
}

#[tokio::test]
async fn a_slot_that_its_operator_disabled_is_not_enabled_with_a_disk_in_doubt() {
    let (world, node) = World::with_lab_slots(1).await;
    let slot = world.slots(node).await[0].clone();
    let set = async |disabled| {
        let mut tx = world.scheduler.begin().await.expect("begin");
        let slot = node_placement::set_slot_admin_state(
            &mut tx,
            node,
            slot.id,
            disabled,
            Attribution::of("user:test", "r"),
        )
        .await;
        tx.commit().await.expect("commit");
        slot.expect("set")
    };
    set(true).await;
    let mut bad = as_approved(std::slice::from_ref(&slot));
    bad.disks[0].content = vec!["signature ext4".into()];
    note(&world, node, Some(&bad)).await;
    let good = as_approved(std::slice::from_ref(&slot));
    note(&world, node, Some(&good)).await;
    assert_eq!(set(false).await.status, SlotStatus::CleanupBlocked);
    assert_clean(&world).await;
}
