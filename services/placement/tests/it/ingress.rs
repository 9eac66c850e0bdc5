//! Ingress mappings in the ledger: each port of a host once, and none without an active slice that it leads to.
use gpuaas_placement::ingress::{self, Limits, New, Owner, hosts};
use gpuaas_placement::{Error, Scope, release};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use sqlx::AssertSqlSafe;
use uuid::Uuid;

use crate::world::World;

const LIMITS: Limits = Limits {
    per_allocation: 16,
    per_project: 100,
};

fn owner(last_port: i32) -> Owner {
    Owner {
        address: "203.0.113.7".to_owned(),
        first_port: 30_000,
        last_port,
    }
}

async fn give(world: &World, node: Uuid, owner: Option<&Owner>) {
    let mut tx = world.allocation.begin().await.expect("begin");
    ingress::put_owner(&mut tx, node, owner)
        .await
        .expect("an owner");
    tx.commit().await.expect("commit");
}

async fn create(
    world: &World,
    allocation_id: Uuid,
    port: Option<u16>,
) -> Result<ingress::Mapping, Error> {
    let new = New {
        id: Uuid::now_v7(),
        allocation_id,
        protocol: "tcp",
        vm_port: 443,
        external_port: port,
        sources: &[],
        expires_at: None,
        creator: "user:alice",
    };
    let mut tx = world.allocation.begin().await.expect("begin");
    let made = ingress::create(&mut tx, Scope::Platform, &new, LIMITS).await?;
    tx.commit().await.expect("commit");
    Ok(made)
}

fn reason(refused: Error) -> ErrorReason {
    gpuaas_common::Error::from(refused).reason()
}

/// What a statement of the owner is refused with.
async fn refused(world: &World, sql: &str) -> String {
    let done = sqlx::raw_sql(AssertSqlSafe(sql.to_owned()))
        .execute(&world.owner)
        .await;
    let error = done.expect_err(sql);
    let error = error.as_database_error().expect("of the database");
    error
        .constraint()
        .map_or_else(|| error.message().to_owned(), str::to_owned)
}

#[tokio::test]
async fn j_13_the_database_gives_each_port_of_a_host_once_whoever_asks_at_once() {
    let (world, node) = World::with_lab_slots(2).await;
    give(&world, node, Some(&owner(30_003))).await;
    let (one, two) = (world.active(1).await, world.active(1).await);
    let asked = [one, two].map(|id| create(&world, id, Some(30_002)));
    let asked = futures::future::join_all(asked).await;
    let (good, bad): (Vec<_>, Vec<_>) = asked.into_iter().partition(Result::is_ok);
    assert_eq!((good.len(), bad.len()), (1, 1));
    for error in bad.into_iter().filter_map(Result::err) {
        assert_eq!(reason(error), ErrorReason::AlreadyExists);
    }
    let any = (0..4).map(|number| create(&world, [one, two][number % 2], None));
    let any = futures::future::join_all(any).await;
    let (good, bad): (Vec<_>, Vec<_>) = any.into_iter().partition(Result::is_ok);
    let mut ports: Vec<i32> = good
        .into_iter()
        .flatten()
        .map(|one| one.external_port)
        .collect();
    ports.sort_unstable();
    assert_eq!(
        ports,
        [30_000, 30_001, 30_003],
        "all that are left, and no other"
    );
    for error in bad.into_iter().filter_map(Result::err) {
        assert_eq!(reason(error), ErrorReason::NoCapacity);
    }
    // whatever the code does
    let copy = "INSERT INTO ingress_mappings (id, project_id, allocation_id, node_id, protocol, vm_port, requested_port,
                                              external_address, external_port, sources, creator)
                SELECT gen_random_uuid(), project_id, allocation_id, node_id, protocol, 22, 0, external_address, external_port,
                       sources, creator FROM ingress_mappings LIMIT 1";
    assert_eq!(refused(&world, copy).await, "ingress_mappings_one_per_port");
}

/// J-15: NAT to a released VM ends with it.
#[tokio::test]
async fn j_13_a_mapping_ends_with_its_allocation_whoever_ends_it_and_none_begins_without_it() {
    let (world, node) = World::with_lab_slots(2).await;
    let id = world.active(1).await;
    assert_eq!(
        reason(create(&world, id, None).await.expect_err("off")),
        ErrorReason::IngressOff
    );
    give(&world, node, Some(&owner(30_003))).await;
    let made = create(&world, id, None).await.expect("made");
    let mut tx = world.allocation.begin().await.expect("begin");
    let wanted = hosts::wanted(&mut tx, id)
        .await
        .expect("read")
        .expect("active");
    assert_eq!(
        (wanted.open.len(), wanted.ended.len(), wanted.lost.len()),
        (1, 0, 0)
    );
    hosts::done(&mut tx, &wanted).await.expect("recorded");
    tx.commit().await.expect("commit");

    let state = "SELECT count(*) FROM ingress_mappings WHERE state = 'deleting'";
    let mut tx = world.allocation.begin().await.expect("begin");
    release::begin(&mut tx, Scope::Platform, id, "", "")
        .await
        .expect("a release");
    tx.commit().await.expect("commit");
    assert_eq!(
        world.number(state).await,
        1,
        "its port is nobody's before its host has closed it"
    );
    let mut conn = world.allocation.acquire().await.expect("connection");
    assert!(hosts::wanted(&mut conn, id).await.expect("read").is_none());
    assert_eq!(
        hosts::due(&mut conn, &[], 10).await.expect("read"),
        Vec::<Uuid>::new()
    );
    drop(conn);
    let late = create(&world, id, None).await.expect_err("releasing");
    assert_eq!(reason(late), ErrorReason::StateConflict);
    let fence = world.take(id).await;
    let evidence = world.wiped(id).await;
    let mut tx = world.allocation.begin().await.expect("begin");
    let _ = release::complete(&mut tx, fence, id, &evidence)
        .await
        .expect("released");
    tx.commit().await.expect("commit");
    assert_eq!(
        world.number("SELECT count(*) FROM ingress_mappings").await,
        0
    );
    let insert = format!(
        "INSERT INTO ingress_mappings (id, project_id, allocation_id, node_id, protocol, vm_port, requested_port,
                                       external_address, external_port, sources, creator)
         VALUES (gen_random_uuid(), '{}', '{id}', '{node}', 'tcp', 22, 0, '203.0.113.7', {}, '{{}}', 'user:a')",
        world.project, made.external_port
    );
    assert!(
        refused(&world, &insert)
            .await
            .contains("is no active slice")
    );
}

/// A cell that was restored from a backup gives out what it gave out before.
#[tokio::test]
async fn versions_for_hosts_grow_also_after_a_restore() {
    let (world, node) = World::with_lab_slots(1).await;
    give(&world, node, Some(&owner(30_003))).await;
    let id = world.active(1).await;
    let version = async || {
        let mut tx = world.allocation.begin().await.expect("begin");
        let wanted = hosts::wanted(&mut tx, id)
            .await
            .expect("read")
            .expect("active");
        tx.commit().await.expect("commit");
        wanted.version
    };
    let (first, second) = (version().await, version().await);
    assert!(second > first);
    world
        .run("SELECT setval('ingress_versions', 1, false)")
        .await;
    world.run("UPDATE cell SET epoch = epoch + 1").await;
    assert!(version().await > second);
}
