//! The legal groups of a board: from the host's discovery to the ledger, which offers those and no others.
use gpuaas_common::Error;
use gpuaas_proto::gpuaas::agent::v1::{LegalGroup, ReadinessReport, TopologyReport};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_proto::gpuaas::internal::scheduler::v1 as ledger;
use gpuaas_proto::gpuaas::internal::scheduler::v1::placement_service_client::PlacementServiceClient;
use sqlx::types::Json;
use uuid::Uuid;

use crate::host::good;
use crate::ready::Ready;
use crate::world::{self, REGION, World};

/// Four GPUs of an HGX board by their module ids, in the order of their addresses.
const MODULES: [u32; 4] = [2, 4, 3, 1];

fn board(topology: &mut TopologyReport, groups: &[&[u32]]) {
    let lab = topology.candidates[0].clone();
    topology.candidates = (0..)
        .zip(MODULES)
        .map(|(index, module)| {
            let mut candidate = lab.clone();
            candidate.slot_index = index;
            candidate.slot_class = "h200_sxm".into();
            let bindings = candidate.bindings.as_mut().expect("bindings");
            bindings.gpu_pci_address = format!("0000:{:02x}:00.0", 0x1b + index);
            bindings.gpu_module_id = Some(module);
            bindings.nvme_device = format!("/dev/disk/by-id/nvme-eui.{index:032x}");
            bindings.storage_identity_kind = "nvme_wwn_by_id".into();
            bindings.management_mac = format!("52:54:00:00:00:0{index}");
            bindings.private_ip = format!("10.100.0.1{index}");
            bindings.fabric_claim_mode = "per_slot_vf".into();
            bindings.fabric_vf_pci_address = format!("0000:1a:00.{}", index + 1);
            candidate
        })
        .collect();
    let group = |modules: &&[u32]| LegalGroup {
        module_ids: modules.to_vec(),
    };
    topology.legal_groups = groups.iter().map(group).collect();
}

/// The GPUs that a launch of so many gets.
async fn reserved(world: &World, gpu_count: u32) -> Result<Vec<u32>, Error> {
    let sku = "INSERT INTO placement.skus (code, display_name, capacity_shape, slot_class, allowed_gpu_counts, profile_name,
            vcpus_per_gpu, memory_mib_per_gpu, hugepages, price_version_id, price_currency, price_nanos, price_effective_at)
        VALUES ('h200-sxm-slice', 'H200', 'gpu_slice', 'h200_sxm', '{1,2,4}', 'h200', 1, 384, false, gen_random_uuid(),
            'USD', 1, now())
        ON CONFLICT DO NOTHING";
    let owner = world.owner().await;
    sqlx::query(sku).execute(&owner).await.expect("a SKU");
    let identity = world.ca.service("allocation", &[]).expect("identity");
    let urls = [("scheduler".to_owned(), world::url(world.ledger.port))];
    let peers = world::peers(&identity, &world.ca.authority().certificate, urls);
    let key = Uuid::now_v7().to_string();
    let request = ledger::ReserveRequest {
        principal: "user:alice".into(),
        idempotency_key: key.clone(),
        request_hash: vec![1; 32],
        project_id: Uuid::now_v7().to_string(),
        name: "vm".into(),
        region_code: REGION.into(),
        sku: "h200-sxm-slice".into(),
        gpu_count,
        image: Some(ledger::Image {
            slug: "h200-base".into(),
            ..ledger::Image::default()
        }),
        ssh_public_keys: vec!["ssh-ed25519 AAAA a".into()],
        request_id: key,
        ..ledger::ReserveRequest::default()
    };
    let channel = peers.channel("scheduler").expect("channel");
    let made = PlacementServiceClient::new(channel)
        .reserve(request)
        .await?;
    let modules: Vec<i32> = sqlx::query_scalar(
        "SELECT s.gpu_module_id FROM placement.claims c JOIN placement.slots s ON s.id = c.slot_id
          WHERE c.allocation_id = $1::uuid ORDER BY 1",
    )
    .bind(made.into_inner().allocation_id)
    .fetch_all(&owner)
    .await
    .expect("claims");
    Ok(modules.into_iter().map(i32::unsigned_abs).collect())
}

async fn in_ledger(world: &World, node_id: &str) -> Vec<Vec<u32>> {
    let sql = "SELECT legal_groups FROM placement.nodes WHERE id = $1::uuid";
    let found: Json<Vec<Vec<u32>>> = sqlx::query_scalar(sql)
        .bind(node_id)
        .fetch_one(&world.owner().await)
        .await
        .expect("a node");
    found.0
}

/// A host that is no lab with a board of these groups, approved and wiped.
async fn approved(groups: &[&[u32]]) -> Ready {
    let (ready, _) = Ready::start(|_| {}).await;
    let real = ReadinessReport {
        lab: false,
        ..good()
    };
    ready.host.heartbeat(real).await.expect("taken");
    board(
        &mut ready.host.topology.lock().expect("not poisoned"),
        groups,
    );
    let discovery = ready.inspect("d2").await;
    let slots = ready
        .approve_and_wipe("a1", &discovery, &[0, 1, 2, 3])
        .await;
    assert_eq!(slots.expect("approved").len(), 4);
    ready.world.all_pushed().await;
    ready
}

#[tokio::test]
async fn b_43_the_partitions_of_a_board_reach_the_ledger_which_offers_no_other_group() {
    let ready = approved(&[&[1, 3], &[2, 4]]).await;
    let world = &ready.world;
    let groups = in_ledger(world, ready.host.node_id()).await;
    assert_eq!(groups, [vec![1, 3], vec![2, 4]]);
    // all four are free, and are no partition
    let refused = reserved(world, 4).await.expect_err("no such group");
    assert_eq!(refused.reason(), ErrorReason::Fragmented);
    let mut pairs =
        [reserved(world, 2).await, reserved(world, 2).await].map(|pair| pair.expect("allocated"));
    pairs.sort();
    assert_eq!(pairs, [vec![1, 3], vec![2, 4]]);
}

#[tokio::test]
async fn b_43_a_partition_that_a_later_discovery_lacks_is_not_allocated() {
    let ready = approved(&[&[1, 3], &[2, 4], &[1, 2, 3, 4]]).await;
    board(
        &mut ready.host.topology.lock().expect("not poisoned"),
        &[&[2, 4]],
    );
    ready.inspect("d3").await;
    ready.host.send_heartbeat().await;
    ready.world.all_pushed().await;
    let world = &ready.world;
    let groups = in_ledger(world, ready.host.node_id()).await;
    assert_eq!(groups, [vec![2, 4]]);
    assert_eq!(reserved(world, 2).await.expect("allocated"), [2, 4]);
    let refused = reserved(world, 2)
        .await
        .expect_err("1 and 3 are no group now");
    assert_eq!(refused.reason(), ErrorReason::Fragmented);
}
