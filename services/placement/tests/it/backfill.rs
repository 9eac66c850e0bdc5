//! Rows of the platform before this one, which knew no claims, and the function that gives them theirs (B-27).
use gpuaas_placement::reserve::Policy;
use gpuaas_placement::{audit, claims, nodes};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use uuid::Uuid;

use crate::baremetal::{bare_metal, reason, world_of};
use crate::reserving;
use crate::world::{POLICY, World};

/// What the old platform wrote: an allocation of a bare-metal node, in one of its states, and nothing that claims it.
async fn old_allocation(world: &World, node: Uuid, state: &str) -> Uuid {
    let id = Uuid::now_v7();
    world
        .run(&format!(
            "ALTER TABLE allocations DISABLE TRIGGER USER;
             INSERT INTO allocations (id, project_id, name, region_code, sku, gpu_count, capacity_shape, node_id, state,
                                      power, image, ssh_public_keys, guest_user, lab, principal, request_id, traceparent,
                                      active_at)
             SELECT '{id}', '{project}', 'old-{id}', region_code, 'h200-sxm-node', 8, 'baremetal', id, '{state}',
                    CASE '{state}' WHEN 'active' THEN 'running' END, '{{}}', ARRAY['ssh-ed25519 AAAA'],
                    'u_0123456789abcdef', false, 'old', '', '', clock_timestamp()
               FROM nodes WHERE id = '{node}';
             ALTER TABLE allocations ENABLE TRIGGER USER",
            project = world.project
        ))
        .await;
    id
}

async fn claim_old_allocations(world: &World) -> sqlx::Result<i64> {
    sqlx::query_scalar("SELECT claim_old_allocations()")
        .fetch_one(&world.owner)
        .await
}

async fn broken(world: &World) -> Vec<String> {
    let mut conn = world.allocation.acquire().await.expect("connection");
    let report = audit::ledger(&mut conn).await.expect("audited");
    report.broken().map(|one| one.name.to_owned()).collect()
}

/// C-43
#[tokio::test]
async fn b_27_old_allocations_of_bare_metal_nodes_get_their_claims() {
    let (world, specs) = world_of(5).await;
    let states = ["reserved", "provisioning", "active", "releasing"];
    let mut old = Vec::new();
    for (spec, state) in specs.iter().zip(states) {
        old.push((old_allocation(&world, spec.id, state).await, spec, state));
    }
    let ended = old_allocation(&world, specs[4].id, "active").await;
    world
        .run(&format!(
            "ALTER TABLE allocations DISABLE TRIGGER USER;
             UPDATE allocations SET state = 'released', power = NULL, ended_at = clock_timestamp() WHERE id = '{ended}';
             ALTER TABLE allocations ENABLE TRIGGER USER"
        ))
        .await;
    let holds = "allocation_has_its_claims".to_owned();
    assert!(broken(&world).await.contains(&holds), "the audit sees it");

    let made = claim_old_allocations(&world).await.expect("claimed");
    assert_eq!(made, 4);
    let made = claim_old_allocations(&world).await.expect("nothing to do");
    assert_eq!(made, 0);

    let mut conn = world.scheduler.acquire().await.expect("connection");
    for (id, spec, state) in old {
        let held = claims::of_allocation(&mut conn, id).await.expect("claims");
        assert_eq!(held.len(), 1, "{state}");
        assert_eq!(held[0].kind, "node_exclusive");
        assert_eq!(held[0].state.as_str(), state);
        assert_eq!(held[0].snapshot.instance_id, spec.instance_id);
        assert_eq!(held[0].snapshot.profile.vcpus_per_gpu, 24);
        let node = nodes::get(&mut conn, spec.id).await.expect("node");
        assert_eq!(node.mode, "baremetal");
        assert_eq!(node.intended_mode, "slice", "what it goes back to");
        assert_eq!(held[0].slot_generation, node.generation);
    }
    assert!(
        claims::of_allocation(&mut conn, ended)
            .await
            .expect("none")
            .is_empty()
    );
    assert!(!broken(&world).await.contains(&holds));
    // the only node that is left is the one whose allocation has ended
    let policy = Policy {
        baremetal: true,
        ..POLICY
    };
    let request = bare_metal(&world);
    let reserved = reserving::one(&world.scheduler, world.ids, policy, &request).await;
    let last = claims::of_allocation(&mut conn, reserved.expect("room").allocation_id).await;
    assert_eq!(last.expect("claims")[0].node_id, specs[4].id);
    let more = reserving::one(&world.scheduler, world.ids, policy, &bare_metal(&world)).await;
    let more = reason(more.map(|reserved| reserved.allocation_id));
    assert_eq!(more, ErrorReason::SlotsInUse, "every node is held");
}

#[tokio::test]
async fn b_27_what_the_rows_do_not_tell_is_not_guessed() {
    let (world, specs) = world_of(1).await;
    let first = old_allocation(&world, specs[0].id, "active").await;
    let second = old_allocation(&world, specs[0].id, "releasing").await;
    let before = world.fingerprint().await;
    let refused = claim_old_allocations(&world)
        .await
        .expect_err("two on one node")
        .to_string();
    for id in [first, second] {
        assert!(refused.contains(&id.to_string()), "{refused}");
    }
    assert_eq!(world.fingerprint().await, before);

    world
        .run(&format!(
            "ALTER TABLE allocations DISABLE TRIGGER USER;
             UPDATE allocations SET capacity_shape = 'gpu_slice' WHERE id = '{first}';
             ALTER TABLE allocations ENABLE TRIGGER USER"
        ))
        .await;
    let refused = claim_old_allocations(&world)
        .await
        .expect_err("a slice")
        .to_string();
    assert!(refused.contains(&first.to_string()), "{refused}");
    assert_eq!(world.fingerprint().await, before);
}
