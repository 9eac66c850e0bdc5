//! What others tell the ledger: nodes, slots, regions, SKUs, prices. Said twice it counts once.
use gpuaas_placement::approval::{self, Definition, Inspection};
use gpuaas_placement::model::Attribution;
use gpuaas_placement::model::{Health, Price, SlotClass, SlotStatus};
use gpuaas_placement::node_placement;
use gpuaas_placement::nodes::{self, Node, NodeSpec};
use gpuaas_placement::repair::Origin;
use gpuaas_placement::slots;
use gpuaas_placement::{Error, catalog, provision, release};
use gpuaas_placement_testing as testing;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use jiff_sqlx::ToSqlx as _;
use uuid::Uuid;

use crate::world::{
    LAB, World, access, gpu_counts, h200_sku, h200_slot, lab_sku, lab_slot, lab_spec, look_at,
    price,
};

/// Takes something away that a slot needs.
type Cripple = fn(&mut gpuaas_placement::model::Bindings);

async fn put(world: &World, spec: &NodeSpec) -> Result<Node, Error> {
    let mut tx = world.scheduler.begin().await.expect("begin");
    let node = nodes::put(&mut tx, spec).await?;
    tx.commit().await.expect("commit");
    Ok(node)
}

async fn approve(world: &World, node: Uuid, definitions: &[Definition]) -> Result<usize, Error> {
    let mut tx = world.scheduler.begin().await.expect("begin");
    let look = look_at(&world.slots(node).await);
    let origin = Origin::default();
    let rows = approval::approve(&mut tx, node, &look, definitions, origin, Uuid::now_v7).await?;
    tx.commit().await.expect("commit");
    testing::wipe(&world.allocation, node).await;
    Ok(rows.len())
}

#[tokio::test]
async fn a_node_said_twice_is_one_and_the_same() {
    let world = World::new().await;
    let spec = lab_spec();
    let first = put(&world, &spec).await.expect("new");
    assert_eq!(put(&world, &spec).await.expect("again"), first);
    let changed = NodeSpec {
        hugepages_1g_free: 9,
        legal_groups: vec![vec![1, 2]],
        ..spec.clone()
    };
    let second = put(&world, &changed).await.expect("changed");
    assert_eq!(
        (second.generation, second.hugepages_1g_free),
        (first.generation + 1, 9)
    );
    assert!(matches!(
        put(
            &world,
            &NodeSpec {
                region_code: "nowhere".into(),
                ..spec
            }
        )
        .await,
        Err(Error::NotFound { what: "region", .. })
    ));
}

#[tokio::test]
async fn host_health_bounds_the_health_of_its_slots() {
    let world = World::new().await;
    let spec = lab_spec();
    world.node(spec.clone()).await;
    world.approve(spec.id, &[lab_slot(0)]).await;
    for health in [
        Health::Unknown,
        Health::Degraded,
        Health::Failed,
        Health::Healthy,
    ] {
        put(
            &world,
            &NodeSpec {
                host_health: health,
                ..spec.clone()
            },
        )
        .await
        .expect("put");
        assert_eq!(world.slots(spec.id).await[0].health_state, health);
    }
}

#[tokio::test]
async fn b_32_the_mode_of_a_node_in_use_stays() {
    let world = World::new().await;
    let spec = lab_spec();
    world.node(spec.clone()).await;
    world.approve(spec.id, &[lab_slot(0)]).await;
    world.reserved(1).await;
    let error = put(
        &world,
        &NodeSpec {
            mode: "baremetal".into(),
            ..spec
        },
    )
    .await
    .expect_err("in use");
    assert!(matches!(error, Error::Conflict { what: "node", .. }));
}

#[tokio::test]
async fn new_instance_distrusts_every_slot() {
    let world = World::new().await;
    let spec = lab_spec();
    world.node(spec.clone()).await;
    let definitions = [lab_slot(0), lab_slot(1)];
    world.approve(spec.id, &definitions).await;
    let id = world.reserved(1).await;
    let fence = world.take(id).await;

    let anew = NodeSpec {
        instance_id: Uuid::now_v7(),
        new_instance: true,
        ..spec.clone()
    };
    put(&world, &anew).await.expect("new instance");
    put(&world, &anew).await.expect("said again");
    let rows = world.slots(spec.id).await;
    let held = rows
        .iter()
        .find(|slot| slot.allocation_id == Some(id))
        .expect("held");
    let free = rows
        .iter()
        .find(|slot| slot.allocation_id.is_none())
        .expect("free");
    assert_eq!(
        (held.status, held.health_state),
        (SlotStatus::CleanupBlocked, Health::Failed)
    );
    // its evidence is of an earlier generation now, so enabling does not help
    assert_eq!(
        (free.status, free.generation, free.clean_generation),
        (SlotStatus::Disabled, 1, Some(0))
    );
    let mut tx = world.scheduler.begin().await.expect("begin");
    let slot = node_placement::set_slot_admin_state(
        &mut tx,
        spec.id,
        free.id,
        false,
        Attribution::of("user:test", ""),
    )
    .await
    .expect("enable");
    assert_eq!(slot.status, SlotStatus::Disabled);
    drop(tx);
    // the provision that was under way cannot go on as if nothing had happened
    let mut tx = world.allocation.begin().await.expect("begin");
    assert!(matches!(
        provision::start(&mut tx, fence, id).await,
        Err(Error::Conflict { what: "slot", .. })
    ));
    drop(tx);
    let mut tx = world.allocation.begin().await.expect("begin");
    let _ = release::begin(&mut tx, gpuaas_placement::Scope::Platform, id, "", "")
        .await
        .expect("release");
    tx.commit().await.expect("commit");
    // approving the same bindings again revalidates the free slot and leaves the blocked one
    approve(&world, spec.id, &definitions)
        .await
        .expect("revalidate");
    let rows = world.slots(spec.id).await;
    let status = |id: Uuid| rows.iter().find(|slot| slot.id == id).expect("slot").status;
    assert_eq!(
        (status(free.id), status(held.id)),
        (SlotStatus::Available, SlotStatus::CleanupBlocked)
    );
}

#[tokio::test]
async fn an_activation_after_a_reinstall_is_refused() {
    let world = World::new().await;
    let spec = lab_spec();
    world.node(spec.clone()).await;
    world.approve(spec.id, &[lab_slot(0)]).await;
    let id = world.reserved(1).await;
    let fence = world.take(id).await;
    let mut tx = world.allocation.begin().await.expect("begin");
    let _ = provision::start(&mut tx, fence, id).await.expect("start");
    tx.commit().await.expect("commit");
    put(
        &world,
        &NodeSpec {
            instance_id: Uuid::now_v7(),
            new_instance: true,
            ..spec
        },
    )
    .await
    .expect("new instance");
    let mut tx = world.allocation.begin().await.expect("begin");
    assert!(matches!(
        provision::activate(&mut tx, fence, id, Some(&access()), None).await,
        Err(Error::Conflict { what: "slot", .. })
    ));
}

#[tokio::test]
async fn a_118_incomplete_candidates_are_refused_all_or_none() {
    let world = World::new().await;
    let node = world.node(lab_spec()).await;
    let cripple = |change: fn(&mut gpuaas_placement::model::Bindings)| {
        let mut definition = h200_slot(1);
        change(&mut definition.bindings);
        definition
    };
    let cases: [(&str, Cripple); 9] = [
        ("gpu_pci_address", |b| b.gpu_pci_address.clear()),
        ("nvme_device", |b| b.nvme_device = "/dev/nvme1n1".into()),
        ("nvme_bytes", |b| b.nvme_bytes = 0),
        ("storage_identity_kind", |b| {
            b.storage_identity_kind = "lab_backing_file".into();
        }),
        ("management_mac", |b| b.management_mac.clear()),
        ("private_ip", |b| b.private_ip.clear()),
        ("fabric_claim_mode", |b| {
            b.fabric_claim_mode = "shared".into();
        }),
        ("fabric_vf_pci_address", |b| b.fabric_vf_pci_address.clear()),
        ("destructive_wipe_policy", |b| {
            b.destructive_wipe_policy.clear();
        }),
    ];
    for (field, change) in cases {
        match approve(&world, node, &[h200_slot(0), cripple(change)]).await {
            Err(Error::Invalid {
                reason: ErrorReason::CandidateIncomplete,
                rule,
                ..
            }) => assert!(rule.contains(field), "{rule}"),
            other => panic!("{field}: {other:?}"),
        }
    }
    match approve(
        &world,
        node,
        &[cripple(|b| b.management_mac = "not a mac".into())],
    )
    .await
    {
        Err(Error::Invalid {
            reason: ErrorReason::CandidateIncomplete,
            ..
        }) => {}
        other => panic!("{other:?}"),
    }
    assert!(world.slots(node).await.is_empty());
}

#[tokio::test]
async fn a_126_slots_of_a_node_share_nothing() {
    let world = World::new().await;
    let node = world.node(lab_spec()).await;
    world.approve(node, &[h200_slot(0)]).await;
    let changes: [fn(&mut gpuaas_placement::model::Bindings, &gpuaas_placement::model::Bindings);
        5] = [
        |b, first| b.gpu_pci_address.clone_from(&first.gpu_pci_address),
        |b, first| b.nvme_device.clone_from(&first.nvme_device),
        |b, first| b.management_mac.clone_from(&first.management_mac),
        |b, first| b.private_ip.clone_from(&first.private_ip),
        |b, first| {
            b.fabric_vf_pci_address
                .clone_from(&first.fabric_vf_pci_address);
        },
    ];
    for change in changes {
        let mut twin = h200_slot(1);
        change(&mut twin.bindings, &h200_slot(0).bindings);
        let error = approve(&world, node, &[twin]).await.expect_err("shared");
        assert!(
            matches!(
                error,
                Error::Invalid {
                    reason: ErrorReason::CandidateBlocked,
                    ..
                }
            ),
            "{error:?}"
        );
    }
    assert_eq!(world.slots(node).await.len(), 1);
}

#[tokio::test]
async fn approval_is_repeatable_but_not_replaceable() {
    let (world, node) = World::with_lab_slots(0).await;
    let definition = lab_slot(0);
    assert_eq!(
        approve(&world, node, std::slice::from_ref(&definition))
            .await
            .expect("first"),
        1
    );
    let before = world.fingerprint().await;
    assert_eq!(
        approve(&world, node, std::slice::from_ref(&definition))
            .await
            .expect("again"),
        1
    );
    assert_eq!(world.fingerprint().await, before);
    let error = approve(&world, node, &[lab_slot(0)])
        .await
        .expect_err("another disk");
    assert!(matches!(
        error,
        Error::Invalid {
            reason: ErrorReason::AlreadyExists,
            ..
        }
    ));
    let mut tx = world.scheduler.begin().await.expect("begin");
    let stale = approval::approve(
        &mut tx,
        node,
        &Inspection {
            instance_id: Some(Uuid::now_v7()),
            ..Inspection::default()
        },
        &[lab_slot(1)],
        Origin::default(),
        Uuid::now_v7,
    )
    .await;
    assert!(
        matches!(stale, Err(Error::Common(error)) if error.reason() == ErrorReason::DiscoveryStale)
    );
    drop(tx);
    assert!(matches!(
        approve(&world, Uuid::now_v7(), &[lab_slot(0)]).await,
        Err(Error::NotFound { what: "node", .. })
    ));
}

#[tokio::test]
async fn a_newer_price_wins_and_an_older_one_changes_nothing() {
    let world = World::new().await;
    let mut conn = world.scheduler.acquire().await.expect("connection");
    let now = jiff::Timestamp::now();
    let newer = Price {
        version_id: Uuid::now_v7(),
        nanos_per_gpu_hour: 5,
        ..price()
    };
    let later = now + jiff::SignedDuration::from_secs(10);
    catalog::put_price(&mut conn, LAB, &newer, later.to_sqlx())
        .await
        .expect("newer");
    catalog::put_price(&mut conn, LAB, &price(), now.to_sqlx())
        .await
        .expect("older, late");
    assert_eq!(
        catalog::sku(&mut conn, LAB).await.expect("sku").price,
        Some(newer.clone())
    );
    // replacing the SKU leaves its price
    catalog::put_sku(&mut conn, &lab_sku())
        .await
        .expect("replace");
    assert_eq!(
        catalog::sku(&mut conn, LAB).await.expect("sku").price,
        Some(newer)
    );
    let error = catalog::put_price(&mut conn, "nothing", &price(), now.to_sqlx())
        .await
        .expect_err("unknown");
    assert!(matches!(error, Error::NotFound { what: "sku", .. }));
    let first = catalog::skus(&mut conn, None, 1).await.expect("first");
    assert_eq!(
        (first.len(), &first[0].allowed_gpu_counts),
        (1, &gpu_counts(&[1, 2, 4, 8]))
    );
    let unpriced = catalog::Sku {
        code: "h200-new".into(),
        slot_class: SlotClass::H200Sxm,
        ..lab_sku()
    };
    catalog::put_sku(&mut conn, &unpriced)
        .await
        .expect("without a price");
    let count = async |conn: &mut _, projects| {
        let found = catalog::skus(conn, projects, 9).await;
        found.expect("listed").len()
    };
    assert_eq!(count(&mut conn, None).await, 3);
    assert_eq!(count(&mut conn, Some(&[])).await, 2);
    // nor is what was disabled, until it is enabled again
    for (disabled, offered) in [(true, 1), (false, 2)] {
        let lab = catalog::Sku {
            disabled,
            ..lab_sku()
        };
        let put = catalog::put_sku(&mut conn, &lab).await.expect("put");
        assert_eq!((put.disabled, put.price.is_some()), (disabled, true));
        assert_eq!(count(&mut conn, None).await, 3);
        assert_eq!(count(&mut conn, Some(&[])).await, offered);
    }
}

#[tokio::test]
async fn only_lab_slice_offers_the_lab_class() {
    let world = World::new().await;
    let mut conn = world.scheduler.acquire().await.expect("connection");
    for sku in [
        catalog::Sku {
            code: "cheap".into(),
            ..lab_sku()
        },
        catalog::Sku {
            slot_class: SlotClass::H200Sxm,
            ..lab_sku()
        },
        catalog::Sku {
            allowed_gpu_counts: Vec::new(),
            ..h200_sku()
        },
    ] {
        let error = catalog::put_sku(&mut conn, &sku)
            .await
            .expect_err("refused");
        assert!(
            matches!(error, Error::Invalid { field: "sku", .. }),
            "{error:?}"
        );
    }
}

#[tokio::test]
async fn a_new_slot_names_the_retired_slots_whose_devices_it_has() {
    let world = World::new().await;
    let node = world.node(lab_spec()).await;
    let other = world.node(lab_spec()).await;
    let old = lab_slot(0);
    let mut new = lab_slot(1);
    new.bindings.nvme_device = old.bindings.nvme_device.clone();
    let retired = world.approve(node, std::slice::from_ref(&old)).await[0].id;
    // the same disk at another node is another disk
    let elsewhere = world.approve(other, &[old]).await[0].id;
    let sql =
        format!("UPDATE slots SET status = 'retired' WHERE id IN ('{retired}', '{elsewhere}')");
    world.run_past_guards(&sql).await;
    let slots = world.approve(node, &[new, lab_slot(2)]).await;
    let [_, one, two] = slots.as_slice() else {
        panic!("three slots: {slots:?}");
    };
    let mut conn = world.allocation.acquire().await.expect("connection");
    let replaced = slots::replaced(&mut conn, &[one.id, two.id]).await;
    let replaced = replaced.expect("replaced");
    assert_eq!(replaced.get(&one.id), Some(&vec![retired]));
    assert_eq!(replaced.get(&two.id), None);
}
