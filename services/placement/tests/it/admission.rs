//! What a reservation is refused for, and that a refusal and a validation write nothing.
use gpuaas_common::error::reason_name;
use gpuaas_placement::model::{Shape, SlotStatus};
use gpuaas_placement::nodes::NodeSpec;
use gpuaas_placement::reserve::{self, Call, Request};
use gpuaas_placement::{Error, Reason, availability, catalog, quota};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;

use crate::reserving;
use crate::world::{
    H200, LAB, POLICY, REGION, World, closed_region, gpu_count, h200_slot, lab_slot, lab_spec,
};

/// A capability node of eight GPUs.
fn h200_spec() -> NodeSpec {
    NodeSpec {
        lab: false,
        hugepages_1g_free: 2000,
        ..lab_spec()
    }
}

fn reason(error: &Error) -> ErrorReason {
    match error {
        Error::Invalid { reason, .. } | Error::Refused { reason, .. } => *reason,
        other => panic!("{other:?}"),
    }
}

async fn validate(world: &World, request: &Request) -> Result<(), Error> {
    let call = Call::one(request);
    reserving::dry_run(&world.scheduler, world.ids, POLICY, call)
        .await
        .map(drop)
}

#[tokio::test]
async fn b_07_bad_requests_name_the_rule_and_write_nothing() {
    let (world, _) = World::with_lab_slots(1).await;
    let mut conn = world.scheduler.acquire().await.expect("connection");
    catalog::put_region(&mut conn, &closed_region("closed-1", "fire in hall 2."))
        .await
        .expect("region");
    let free = catalog::Sku {
        code: "h200-free".into(),
        ..crate::world::h200_sku()
    };
    catalog::put_sku(&mut conn, &free)
        .await
        .expect("sku without a price");
    drop(conn);
    let base = world.request(1);
    let cases = [
        (
            Request {
                sku: "nothing".into(),
                ..base.clone()
            },
            ErrorReason::SkuUnknown,
        ),
        (
            Request {
                region_code: "nowhere".into(),
                ..base.clone()
            },
            ErrorReason::RegionUnknown,
        ),
        (
            Request {
                region_code: "closed-1".into(),
                ..base.clone()
            },
            ErrorReason::RegionDisabled,
        ),
        (
            Request {
                gpu_count: gpu_count(3),
                ..base.clone()
            },
            ErrorReason::GpuCountNotAllowed,
        ),
        (
            Request {
                capacity_shape: Some(Shape::Baremetal),
                ..base.clone()
            },
            ErrorReason::FieldInvalid,
        ),
        (
            Request {
                sku: "h200-free".into(),
                ..base.clone()
            },
            ErrorReason::StateConflict,
        ),
        (
            Request {
                sku: H200.into(),
                ..base.clone()
            },
            ErrorReason::NoCapacity,
        ),
        (
            Request {
                gpu_count: gpu_count(2),
                ..base.clone()
            },
            ErrorReason::NoCapacity,
        ),
    ];
    let before = world.fingerprint().await;
    for (request, wanted) in cases {
        for error in [
            world.reserve(&request).await.expect_err("refused"),
            validate(&world, &request).await.expect_err("refused"),
        ] {
            assert_eq!(reason(&error), wanted, "{request:?}");
        }
    }
    let three = Request {
        gpu_count: gpu_count(3),
        ..base.clone()
    };
    let said = world.reserve(&three).await.expect_err("refused");
    assert!(
        matches!(&said, Error::Invalid { field: "gpu_count", rule, .. } if rule.contains("1, 2")),
        "{said}"
    );
    assert_eq!(world.fingerprint().await, before);
    // a refusal stores nothing: the same key may be used for a good request
    world
        .reserve(&base)
        .await
        .expect("same key as the refused ones");
}

#[tokio::test]
async fn validate_only_writes_nothing_and_says_what_reserve_says() {
    let (world, _) = World::with_lab_slots(1).await;
    let before = world.fingerprint().await;
    let request = world.request(1);
    validate(&world, &request).await.expect("fits");
    assert_eq!(world.fingerprint().await, before);
    world.reserve(&request).await.expect("reserve");
    let same_name = Request {
        idempotency_key: "other".into(),
        ..request
    };
    assert!(matches!(
        validate(&world, &same_name).await,
        Err(Error::NameTaken(_))
    ));
    assert!(matches!(
        world.reserve(&same_name).await,
        Err(Error::Refused { .. } | Error::NameTaken(_))
    ));
    let full = world.request(1);
    assert_eq!(
        reason(&validate(&world, &full).await.expect_err("full")),
        ErrorReason::SlotsInUse
    );
}

#[tokio::test]
async fn a_name_is_taken_until_its_allocation_has_ended() {
    let (world, _) = World::with_lab_slots(2).await;
    let request = world.request(1);
    world.reserve(&request).await.expect("reserve");
    let again = Request {
        idempotency_key: "k2".into(),
        ..request.clone()
    };
    assert!(matches!(
        world.reserve(&again).await,
        Err(Error::NameTaken(_))
    ));
    let elsewhere = Request {
        project_id: uuid::Uuid::now_v7(),
        idempotency_key: "k3".into(),
        ..request
    };
    world
        .reserve(&elsewhere)
        .await
        .expect("another project has names of its own");
}

#[tokio::test]
async fn quota_of_a_project_without_a_row_is_the_default() {
    let (world, _) = World::with_lab_slots(3).await;
    let policy = reserve::Policy {
        default_quota_gpus: 1,
        ..POLICY
    };
    reserving::one(&world.scheduler, world.ids, policy, &world.request(1))
        .await
        .expect("first");
    let error = reserving::one(&world.scheduler, world.ids, policy, &world.request(1))
        .await
        .expect_err("second");
    assert_eq!(reason(&error), ErrorReason::Quota);
    let mut conn = world.scheduler.acquire().await.expect("connection");
    quota::put(&mut conn, world.project, LAB, 2)
        .await
        .expect("raise");
    assert!(matches!(
        quota::put(&mut conn, world.project, "nothing", 2).await,
        Err(Error::NotFound { what: "sku", .. })
    ));
    reserving::one(&world.scheduler, world.ids, policy, &world.request(1))
        .await
        .expect("now");
}

/// The causes a refused request for one or more GPUs is told.
async fn causes(world: &World, request: &Request) -> Vec<&'static str> {
    match world.reserve(request).await {
        Err(Error::Refused { causes, .. }) => causes
            .iter()
            .map(|cause| reason_name(cause.reason))
            .collect(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn b_58_causes_are_told_apart() {
    let (world, node) = World::with_lab_slots(1).await;
    let slot = world.slots(node).await[0].id;
    let reset = format!("UPDATE nodes SET admin_state = 'enabled', schedulable = true, max_vms = 0 WHERE id = '{node}';
                         UPDATE slots SET cleanup_health = 'healthy', host_health = 'healthy' WHERE id = '{slot}'");
    let cases = [
        (
            format!("UPDATE nodes SET admin_state = 'draining' WHERE id = '{node}'"),
            "NODE_DRAINING",
        ),
        (
            format!("UPDATE nodes SET admin_state = 'cordoned' WHERE id = '{node}'"),
            "NODE_DRAINING",
        ),
        (
            format!("UPDATE nodes SET schedulable = false WHERE id = '{node}'"),
            "HOST_NOT_READY",
        ),
        (
            format!("UPDATE slots SET cleanup_health = 'failed' WHERE id = '{slot}'"),
            "SLOT_UNHEALTHY",
        ),
        (
            format!("UPDATE slots SET host_health = 'unknown' WHERE id = '{slot}'"),
            "SLOT_UNHEALTHY",
        ),
        // as inventory tells it: the health of a host that is not ready is that of all its slots
        (
            format!("UPDATE nodes SET schedulable = false WHERE id = '{node}';
                     UPDATE slots SET host_health = 'unknown' WHERE id = '{slot}'"),
            "HOST_NOT_READY",
        ),
        (
            format!("UPDATE nodes SET schedulable = false, admin_state = 'draining' WHERE id = '{node}';
                     UPDATE slots SET host_health = 'degraded' WHERE id = '{slot}'"),
            "NODE_DRAINING",
        ),
    ];
    for (change, wanted) in cases {
        world.run(&change).await;
        assert_eq!(
            causes(&world, &world.request(1)).await,
            [wanted],
            "{change}"
        );
        world.run(&reset).await;
    }
    world
        .run(&format!(
            "UPDATE slots SET status = 'cleanup_blocked' WHERE id = '{slot}'"
        ))
        .await;
    assert_eq!(causes(&world, &world.request(1)).await, ["CLEANUP_BLOCKED"]);
    // a second slot in use: two causes, and none leads
    world.approve(node, &[lab_slot(1)]).await;
    world.reserved(1).await;
    let error = world.reserve(&world.request(1)).await.expect_err("refused");
    assert_eq!(reason(&error), ErrorReason::NoCapacity);
    let reported = gpuaas_common::Error::from(error);
    assert_eq!(
        reported
            .metadata()
            .get("CLEANUP_BLOCKED.gpus")
            .map(String::as_str),
        Some("1")
    );
    assert_eq!(
        reported
            .metadata()
            .get("SLOTS_IN_USE.nodes")
            .map(String::as_str),
        Some("1")
    );
}

/// A limit is not somebody's GPU: the refusal, the explanation and availability say so.
#[tokio::test]
async fn b_57_b_58_a_node_at_its_vm_limit_is_told_as_that() {
    let (world, node) = World::with_lab_slots(4).await;
    world
        .run(&format!("UPDATE nodes SET max_vms = 1 WHERE id = '{node}'"))
        .await;
    world.reserved(1).await;
    let error = world.reserve(&world.request(2)).await.expect_err("full");
    let reported = gpuaas_common::Error::from(error);
    let of = |key: &str| reported.metadata().get(key).map(String::as_str);
    assert_eq!(of("NODE_VM_LIMIT.gpus"), Some("3"));
    assert_eq!(of("SLOTS_IN_USE.gpus"), Some("1"));
    assert_eq!(
        of("NODE_VM_LIMIT.message"),
        Some("3 GPUs are free on 1 node that has reached the VM limit.")
    );
    let mut conn = world.scheduler.acquire().await.expect("connection");
    let request = world.request(1);
    let explained = reserve::explain(&mut conn, &world.capacity, POLICY, &request).await;
    let rows = availability::list(
        &mut conn,
        &world.capacity,
        POLICY,
        None,
        Some(REGION),
        Some(LAB),
    )
    .await;
    let rows = rows.expect("availability");
    let removed = explained.expect("explained").removed;
    let removed: Vec<Reason> = removed.into_iter().map(Reason::from).collect();
    for reported in [&removed, &rows[0].reasons] {
        let reported: Vec<_> = reported.iter().map(|one| (one.reason, one.gpus)).collect();
        assert_eq!(
            reported,
            [(ErrorReason::SlotsInUse, 1), (ErrorReason::NodeVmLimit, 3)]
        );
    }
}

#[tokio::test]
async fn b_11_hugepages_are_a_predicate() {
    let world = World::new().await;
    let node = world
        .node(NodeSpec {
            hugepages_1g_free: 63,
            ..h200_spec()
        })
        .await;
    world.approve(node, &[h200_slot(0)]).await;
    let request = Request {
        sku: H200.into(),
        ..world.request(1)
    };
    assert_eq!(causes(&world, &request).await, ["HUGEPAGES_MISSING"]);
    world
        .run(&format!(
            "UPDATE nodes SET hugepages_1g_free = 64 WHERE id = '{node}'"
        ))
        .await;
    world.reserve(&request).await.expect("64 GiB fit");
}

#[tokio::test]
async fn b_17_gpus_of_two_nodes_are_fragments() {
    let world = World::new().await;
    for _ in 0..2 {
        let node = world.lab_node(2).await;
        let request = world.request(1);
        world.reserve(&request).await.expect("one of each");
        assert!(world.count(node, SlotStatus::Available).await <= 2);
    }
    // best fit put both on one node; one of the other keeps two free slots apart
    world.reserved(1).await;
    let (first, second) = (world.lab_node(2).await, world.lab_node(2).await);
    for node in [first, second] {
        world.run(&format!("UPDATE slots SET status = 'cleanup_blocked' WHERE node_id = '{node}' AND slot_index = 0")).await;
    }
    let error = world
        .reserve(&world.request(2))
        .await
        .expect_err("no single node");
    assert_eq!(reason(&error), ErrorReason::Fragmented);
}

/// B-52.
/// The net below CON-02.
#[tokio::test]
async fn inc_27_duplicate_fabric_device_is_exclusive_until_functions_are_unique() {
    let world = World::new().await;
    let node = world.node(lab_spec()).await;
    let shared = |index| {
        let mut slot = lab_slot(index);
        slot.bindings.fabric_device = "0000:1a:00.0".into();
        slot
    };
    world
        .approve(node, &[shared(0), shared(1), lab_slot(2)])
        .await;
    world.reserved(1).await;
    // whichever was allocated first: at most one of the two that share, and the third that has no fabric
    world.reserved(1).await;
    assert_eq!(
        causes(&world, &world.request(1)).await,
        ["FABRIC_HELD", "SLOTS_IN_USE"]
    );
    assert_eq!(
        world
            .number("SELECT count(*) FROM claims WHERE fabric_key = '0000:1a:00.0'")
            .await,
        1
    );
    // B-55: the same address on another node is another device
    let other = world.node(lab_spec()).await;
    world.approve(other, &[shared(0)]).await;
    world.reserved(1).await;
}

#[tokio::test]
async fn b_54_unique_functions_end_the_exclusion() {
    let world = World::new().await;
    let node = world.node(h200_spec()).await;
    world.approve(node, &[h200_slot(0), h200_slot(1)]).await;
    for _ in 0..2 {
        world
            .reserve(&Request {
                sku: H200.into(),
                ..world.request(1)
            })
            .await
            .expect("one function each");
    }
    assert_eq!(
        world
            .number("SELECT count(*) FROM claims WHERE fabric_key <> ''")
            .await,
        0
    );
}

#[tokio::test]
async fn inc_40_an_incomplete_available_row_is_not_allocated() {
    let (world, node) = World::with_lab_slots(1).await;
    // the schema refuses such a row; a database restored by hand may still have it
    world.run("ALTER TABLE slots DROP CONSTRAINT slots_available_is_complete; UPDATE slots SET private_ip = ''").await;
    assert_eq!(world.count(node, SlotStatus::Available).await, 1);
    assert_eq!(causes(&world, &world.request(1)).await, ["INCOMPLETE_SLOT"]);
}

#[tokio::test]
async fn b_57_availability_counts_and_explains() {
    let world = World::new().await;
    let list = async |region: Option<&str>, sku: Option<&str>| {
        availability::list(
            &mut world.scheduler.acquire().await.expect("connection"),
            &world.capacity,
            POLICY,
            None,
            region,
            sku,
        )
        .await
    };
    let row = async |count: u32| {
        let rows = list(Some(REGION), Some(LAB)).await.expect("list");
        rows.into_iter()
            .find(|row| row.gpu_count.get() == count)
            .expect("row")
    };
    assert_eq!(row(1).await.reasons[0].reason, ErrorReason::NoCapacity);
    let node = world.lab_node(2).await;
    assert_eq!((row(1).await.fits, row(2).await.fits), (2, 1));
    assert!(row(1).await.reasons.is_empty());
    world.reserved(1).await;
    assert_eq!((row(1).await.fits, row(2).await.fits), (1, 0));
    assert_eq!(row(2).await.reasons[0].reason, ErrorReason::SlotsInUse);
    world
        .run(&format!(
            "UPDATE nodes SET host_health = 'failed', admin_state = 'draining' WHERE id = '{node}'"
        ))
        .await;
    assert!(
        row(1)
            .await
            .reasons
            .iter()
            .any(|cause| cause.reason == ErrorReason::NodeDraining && cause.gpus == 2)
    );
    // two SKUs: two and four counts
    assert_eq!(list(None, None).await.expect("all").len(), 6);
    assert_eq!(
        reason(&list(Some("nowhere"), None).await.expect_err("region")),
        ErrorReason::RegionUnknown
    );
    assert_eq!(
        reason(&list(None, Some("nothing")).await.expect_err("sku")),
        ErrorReason::SkuUnknown
    );
    let mut conn = world.scheduler.acquire().await.expect("connection");
    let disabled = catalog::Sku {
        disabled: true,
        ..crate::world::lab_sku()
    };
    catalog::put_sku(&mut conn, &disabled).await.expect("put");
    assert_eq!(
        row(1).await.reasons[0].message,
        "The SKU is not offered any more."
    );
    catalog::put_region(&mut conn, &closed_region(REGION, "fire in hall 2"))
        .await
        .expect("close");
    let closed = &row(1).await.reasons[0];
    assert_eq!(closed.reason, ErrorReason::RegionDisabled);
    assert_eq!(
        closed.message,
        format!("Region {REGION} is closed: fire in hall 2.")
    );
}
