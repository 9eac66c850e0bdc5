//! Regions that were made by mistake are deleted, those that anything was in are not.
use gpuaas_common::Error;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_proto::gpuaas::inventory::v1::{self as api, Region};
use tonic::Code;

use crate::host::Host;
use crate::world::{REGION, World, refused, until};

const SLIP: &str = "region-mass-1";

async fn put(world: &World, key: &str) -> Result<Region, Error> {
    let region = Region {
        code: SLIP.into(),
        display_name: "Test region".into(),
        enabled: true,
        ..Region::default()
    };
    let put = api::PutRegionRequest {
        region: Some(region),
    };
    let answer = world.region_admin().put_region(world.admin(key, put)).await;
    Ok(answer?.into_inner())
}

async fn delete(world: &World, key: &str, code: &str, etag: &str) -> Result<(), Error> {
    let request = api::DeleteRegionRequest {
        region_code: code.into(),
        etag: etag.into(),
        reason: "a slip of the pen".into(),
    };
    let request = world.admin(key, request);
    let answer = world.region_admin().delete_region(request).await;
    answer.map(|_| ()).map_err(Error::from)
}

async fn listed(world: &World) -> Vec<String> {
    let request = world.admin("", api::ListRegionsRequest::default());
    let answer = world.regions().list_regions(request).await;
    let regions = answer.expect("a list").into_inner().regions;
    regions.into_iter().map(|one| one.code).collect()
}

async fn create_node(world: &World, key: &str, hostname: &str) -> Result<api::Node, Error> {
    let request = api::CreateNodeRequest {
        hostname: hostname.into(),
        region_code: SLIP.into(),
        mode: "slice".into(),
        ..Default::default()
    };
    let answer = world.nodes().create_node(world.admin(key, request)).await;
    Ok(answer?.into_inner())
}

async fn delete_node(world: &World, node_id: &str) {
    let request = api::DeleteNodeRequest {
        node_id: node_id.into(),
        ..Default::default()
    };
    let request = world.admin(&format!("delete-{node_id}"), request);
    world.nodes().delete_node(request).await.expect("deleted");
}

/// Everything about regions has reached the ledger.
async fn until_sent(world: &World) {
    let owner = world.owner().await;
    until("nothing is to be sent", || async {
        let due: i64 = sqlx::query_scalar(
            "SELECT count(*) FROM inventory.ledger_sync WHERE kind = 'region' AND pushed_version < version",
        )
        .fetch_one(&owner)
        .await
        .expect("a count");
        due == 0
    })
    .await;
}

#[tokio::test]
async fn a_region_made_by_mistake_is_deleted_and_its_code_is_free() {
    let world = World::start().await;
    let made = put(&world, "p1").await.expect("put");
    let node = create_node(&world, "n1", "gpu-07").await.expect("a node");
    let audited = world.audited().await;
    let used = delete(&world, "d1", SLIP, "").await.expect_err("a node");
    assert_eq!(
        (used.code(), used.reason()),
        (Code::FailedPrecondition, ErrorReason::RegionInUse)
    );
    let named = format!("node gpu-07 ({})", node.id);
    assert_eq!(used.fields()[0].0, named);
    assert!(used.message().contains(&named), "{}", used.message());
    let stale = delete(&world, "d2", SLIP, "1f").await.expect_err("stale");
    assert_eq!(
        (stale.code(), stale.reason()),
        (Code::Aborted, ErrorReason::EtagStale)
    );
    assert_eq!(world.audited().await, audited, "nothing has changed");
    assert_eq!(listed(&world).await, [REGION, SLIP]);
    assert!(world.ledger.region(SLIP).await.is_some());

    // what was deleted before it does not keep it
    delete_node(&world, &node.id).await;
    delete(&world, "d3", SLIP, &made.etag)
        .await
        .expect("unused");
    delete(&world, "d3", SLIP, &made.etag)
        .await
        .expect("the same key");
    assert_eq!(listed(&world).await, [REGION]);
    assert!(world.ledger.region(SLIP).await.is_none());
    for twice in [
        delete(&world, "d4", SLIP, "").await.expect_err("gone"),
        create_node(&world, "n2", "gpu-08").await.expect_err("gone"),
        put(&world, "p1")
            .await
            .expect_err("a repeat of what is gone"),
    ] {
        assert_eq!(
            (twice.code(), twice.reason()),
            (Code::NotFound, ErrorReason::RegionUnknown)
        );
    }
    let owner = world.owner().await;
    let (detail, count): (serde_json::Value, i64) = sqlx::query_as(
        "SELECT max(detail::text)::jsonb, count(*) FROM inventory.audit
          WHERE action = 'region.delete' AND resource = 'region' AND resource_id = $1",
    )
    .bind(SLIP)
    .fetch_one(&owner)
    .await
    .expect("a record");
    assert_eq!(
        (count, &detail["reason"]),
        (1, &serde_json::json!("a slip of the pen"))
    );
    assert!(detail["before_digest"].is_string(), "{detail}");
    assert!(detail["after_digest"].is_null(), "{detail}");

    // nothing of it comes back by itself, and the same may be made anew
    until_sent(&world).await;
    assert!(world.ledger.region(SLIP).await.is_none());
    assert_eq!(put(&world, "p2").await.expect("put"), made);
    until("the ledger has it", || async {
        world.ledger.region(SLIP).await.is_some()
    })
    .await;
    create_node(&world, "n3", "gpu-09").await.expect("a node");
}

/// The ledger keeps what was ever in it: the region stays with its history.
#[tokio::test]
async fn a_region_in_which_a_host_enrolled_is_kept() {
    let world = World::start().await;
    put(&world, "p1").await.expect("put");
    let node = create_node(&world, "n1", "gpu-07").await.expect("a node");
    let host = Host::enrol(&world, &node.id).await;
    host.send_heartbeat().await;
    until("the ledger has the node", || async {
        world.ledger.node(&node.id).await.is_some()
    })
    .await;
    delete_node(&world, &node.id).await;
    let used = delete(&world, "d1", SLIP, "").await.expect_err("history");
    assert_eq!(used.reason(), ErrorReason::RegionInUse);
    let named = format!("node gpu-07 ({}, retired)", node.id);
    assert_eq!(used.fields()[0].0, named);
    assert_eq!(listed(&world).await, [REGION, SLIP]);
    until_sent(&world).await;
    let known = world.ledger.region(SLIP).await;
    assert_eq!(known, Some((true, String::new())));
}

#[tokio::test]
async fn a_region_is_not_deleted_while_the_ledger_does_not_answer() {
    let mut world = World::start().await;
    put(&world, "p1").await.expect("put");
    until_sent(&world).await;
    world.ledger.down().await;
    let error = delete(&world, "d1", SLIP, "").await.expect_err("down");
    assert_eq!(error.code(), Code::Unavailable);
    assert_eq!(listed(&world).await, [REGION, SLIP]);
    world.ledger.up();
    until("it answers", || async {
        delete(&world, "d1", SLIP, "").await.is_ok()
    })
    .await;
    assert!(world.ledger.region(SLIP).await.is_none());
}

/// The first try ended after the ledger had lost the region: nobody went on with it, so the region is sent again.
#[tokio::test]
async fn a_deletion_that_was_cut_off_leaves_the_region_as_it_was() {
    let world = World::start().await;
    put(&world, "p1").await.expect("put");
    until_sent(&world).await;
    let owner = world.owner().await;
    for sql in [
        "DELETE FROM placement.regions WHERE code = $1",
        "UPDATE inventory.ledger_sync SET version = version + 1, lease_epoch = lease_epoch + 1,
                lease_until = clock_timestamp() + interval '1 second' WHERE key = $1",
    ] {
        let done = sqlx::query(sql).bind(SLIP).execute(&owner).await;
        assert_eq!(done.expect("done").rows_affected(), 1);
    }
    let busy = delete(&world, "d1", SLIP, "").await.expect_err("at work");
    assert_eq!(busy.code(), Code::Unavailable);
    until("the ledger has it again", || async {
        world.ledger.region(SLIP).await.is_some()
    })
    .await;
}

#[tokio::test]
async fn bad_deletions_of_regions_are_refused() {
    let world = World::start().await;
    for (code, reason, field) in [
        ("", String::new(), "region_code"),
        ("Not_A_Label", String::new(), "region_code"),
        (REGION, "x".repeat(501), "reason"),
    ] {
        let request = api::DeleteRegionRequest {
            region_code: code.into(),
            reason,
            ..Default::default()
        };
        let request = world.admin("d1", request);
        let error = refused(world.region_admin().delete_region(request).await);
        assert_eq!(
            (error.code(), error.fields()[0].0.as_str()),
            (Code::InvalidArgument, field)
        );
    }
    assert_eq!(listed(&world).await, [REGION]);
}
