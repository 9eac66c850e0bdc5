//! Bare-metal nodes with the simulated executor: allocated, billed, given back to approval, whatever is lost or killed meanwhile.

use gpuaas_allocation::config::{BaremetalExecutor, Config};
use gpuaas_common::Error;
use gpuaas_placement::model::{ClaimState, SlotStatus};
use gpuaas_proto::gpuaas::allocation::v1 as pb;
use gpuaas_proto::gpuaas::common::v1::CapacityShape;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use tonic::Code;
use uuid::Uuid;

use crate::board::{Board, NODE, SLICE};
use crate::expect::{step_names, timeline};
use crate::platform::{Platform, good};
use crate::terminal::resolve;
use crate::world::World;

fn simulated() -> Config {
    Config {
        baremetal: BaremetalExecutor::Simulated,
        ..World::config()
    }
}

fn with_bare_metal() -> gpuaas_scheduler::Config {
    gpuaas_scheduler::Config {
        baremetal: true,
        ..gpuaas_scheduler::Config::default()
    }
}

fn node(name: &str) -> pb::CreateAllocationRequest {
    pb::CreateAllocationRequest {
        sku: NODE.into(),
        gpu_count: 8,
        image: "node-base".into(),
        ..good(name)
    }
}

fn slice(name: &str) -> pb::CreateAllocationRequest {
    pb::CreateAllocationRequest {
        sku: SLICE.into(),
        image: "h200-base".into(),
        ..good(name)
    }
}

#[tokio::test]
async fn c_03_the_public_api_creates_a_slice_of_one_h200() {
    let Board { world, node_id } = Board::start().await;
    let platform = Platform::of(world, with_bare_metal(), simulated()).await;
    let made = platform.create(slice("one"), "k1").await.expect("created");
    let config = made.config.expect("a config");
    assert_eq!(
        (config.sku.as_str(), config.gpu_count),
        ("h200-sxm-slice", 1)
    );
    assert_eq!(config.capacity_shape(), CapacityShape::GpuSlice);
    let id: Uuid = made.id.parse().expect("an id");
    let claimed: Vec<(String, Uuid)> = sqlx::query_as(
        "SELECT s.class::text, c.node_id FROM claims c JOIN slots s ON s.id = c.slot_id WHERE c.allocation_id = $1",
    )
    .bind(id)
    .fetch_all(&platform.world.pool)
    .await
    .expect("claims");
    assert_eq!(claimed, [("h200_sxm".to_owned(), node_id)]);
}

/// A VM with GPUs whose image names nothing that tries them says so, from the dry run on.
#[tokio::test]
async fn inc_24_a_slice_with_gpus_whose_image_names_no_checks_is_marked() {
    let Board { world, .. } = Board::start().await;
    let platform = Platform::of(world, with_bare_metal(), simulated()).await;
    let marked = |allocation: &pb::Allocation| -> Vec<String> {
        let status = allocation.status.clone().unwrap_or_default();
        let conditions = status.conditions.into_iter();
        conditions.map(|condition| condition.r#type).collect()
    };
    // a node without a VM has no guest to try anything in, and user data has no cloud-init
    let dry = pb::CreateAllocationRequest {
        validate_only: true,
        ..node("two")
    };
    assert!(marked(&platform.create(dry.clone(), "k0").await.expect("valid")).is_empty());
    let with_data = pb::CreateAllocationRequest {
        user_data: "#cloud-config\n".into(),
        ..dry
    };
    let refused = platform
        .create(with_data, "k0")
        .await
        .expect_err("no cloud-init");
    assert_eq!(refused.fields()[0].0, "user_data");
    let dry = pb::CreateAllocationRequest {
        validate_only: true,
        ..slice("one")
    };
    let dry = platform.create(dry, "k0").await.expect("valid");
    assert_eq!(marked(&dry), ["no_readiness_checks"]);
    let made = platform.create(slice("one"), "k1").await.expect("created");
    assert_eq!(marked(&made), ["no_readiness_checks"]);
    let conditions = made.status.expect("a status").conditions;
    assert!(conditions[0].since.is_some() && conditions[0].message.contains("no readiness checks"));
}

#[tokio::test]
async fn b_04_b_21_a_bare_metal_node_is_launched_billed_and_given_back_to_approval() {
    let Board { world, node_id } = Board::start().await;
    let platform = Platform::of(world, with_bare_metal(), simulated()).await;
    let made = platform
        .create(node("train"), "k1")
        .await
        .expect("launched");
    let config = made.config.clone().expect("a config");
    assert_eq!(config.capacity_shape(), CapacityShape::Baremetal);
    let id: Uuid = made.id.parse().expect("an id");
    platform.world.until_state(id, "active").await;
    platform.world.until_idle(id).await;

    let reported = platform.get(&made.id).await.status.expect("a status");
    assert_eq!(reported.power(), pb::PowerState::Running);
    assert_eq!((reported.access, reported.vm.as_str()), (None, ""));
    let billed: (i32, String) =
        sqlx::query_as("SELECT gpu_count, sku FROM allocation_periods WHERE allocation_id = $1")
            .bind(id)
            .fetch_one(&platform.world.pool)
            .await
            .expect("one period");
    assert_eq!(billed, (8, NODE.to_owned()));
    let why = platform.create(slice("beside"), "k2").await;
    assert_eq!(why.expect_err("held").code(), Code::ResourceExhausted);
    // what is for virtual machines is refused by name
    let stop = pb::StopAllocationRequest {
        allocation_id: made.id.clone(),
        ..Default::default()
    };
    let stopped = platform
        .users
        .clone()
        .stop_allocation(platform.user(stop, Some("k3")))
        .await;
    let refused = Error::from(stopped.expect_err("no power"));
    assert_eq!(
        (refused.reason(), refused.message()),
        (
            ErrorReason::StateConflict,
            "The allocation is bare metal, which cannot stop yet."
        )
    );
    let project = platform.world.project;
    let refused = resolve(&platform.world, &made.id, &[project]).await;
    let refused = refused.expect_err("no terminal");
    assert_eq!(refused.reason(), ErrorReason::StateConflict);
    assert!(refused.message().contains("bare metal"), "{refused}");

    platform.release(&made.id, "k4").await.expect("accepted");
    platform.world.until_state(id, "released").await;
    platform.world.until_idle(id).await;
    let entries: Vec<(String, String)> = sqlx::query_as(
        "SELECT step, message FROM timeline WHERE allocation_id = $1 ORDER BY sequence",
    )
    .bind(id)
    .fetch_all(&platform.world.pool)
    .await
    .expect("a timeline");
    let steps: Vec<&str> = entries.iter().map(|(step, _)| step.as_str()).collect();
    assert_eq!(
        steps,
        [
            "reserve",
            "provision_node.deploy",
            "provision_node.activate",
            "active",
            "releasing",
            "release_node.erase",
            "released"
        ]
    );
    assert!(entries[3].1.contains("simulated"), "{entries:?}");

    // P2: nobody's word but an approval makes its disks schedulable again
    let refused = platform.create(slice("after"), "k5").await;
    assert_eq!(
        refused.expect_err("not approved").reason(),
        ErrorReason::NoCapacity
    );
    let refused = platform.create(node("after"), "k6").await;
    assert_eq!(
        refused.expect_err("not approved").reason(),
        ErrorReason::IncompleteSlot
    );
    let world = platform.world;
    let board = Board { world, node_id };
    board.assert_waits_for_approval(id, "released").await;
    board.approve().await;
    assert_eq!(board.slots(SlotStatus::Available).await, 8);
}

#[tokio::test]
async fn a_bare_metal_node_is_refused_where_the_platform_does_not_offer_it() {
    let Board { world, .. } = Board::start().await;
    let platform = Platform::of(world, gpuaas_scheduler::Config::default(), World::config()).await;
    let before = platform.rows().await;
    for validate_only in [false, true] {
        let request = pb::CreateAllocationRequest {
            validate_only,
            ..node("train")
        };
        let refused = platform.create(request, "k1").await.expect_err("off");
        assert_eq!(refused.code(), Code::InvalidArgument);
        assert_eq!(
            refused.fields(),
            [(
                "sku".to_owned(),
                "is a bare-metal SKU, and this platform does not offer bare metal".to_owned()
            )]
        );
    }
    assert_eq!(platform.rows().await, before, "nothing was stored");
}

#[tokio::test]
async fn p7_a_bare_metal_node_that_was_allocated_without_an_executor_is_given_back_untouched() {
    let board = Board::start().await;
    let runner = board.world.runner(World::config());
    let id = board.launch("train").await;
    board.world.until_state(id, "failed").await;
    board.world.until_idle(id).await;
    let failure = board
        .world
        .allocation(id)
        .await
        .failure
        .expect("a reason")
        .0;
    assert_eq!(failure.reason, "DEPENDENCY_UNAVAILABLE");
    assert_eq!(failure.step, "provision_node.find_executor");
    assert_eq!(
        failure.message,
        "Provisioning of bare metal is not available on this platform."
    );
    assert_eq!(board.claims(id).await, [ClaimState::Released]);
    assert_eq!(board.mode().await, "slice");
    assert_eq!(board.slots(SlotStatus::Available).await, 8);
    assert_eq!(board.world.periods(id).await, (0, 0));
    board.world.nothing_runs(id, "failed").await;
    runner.stop().await;
}

#[tokio::test]
async fn p7_a_release_of_a_bare_metal_node_waits_for_an_executor_and_says_so() {
    let board = Board::start().await;
    let runner = board.world.runner(simulated());
    let id = board.launch("train").await;
    board.world.until_state(id, "active").await;
    board.world.until_idle(id).await;
    runner.stop().await;

    let runner = board.world.runner(World::config());
    board.world.release(id).await;
    let waits = "SELECT EXISTS (SELECT FROM workflow_steps s JOIN workflows w ON w.id = s.workflow_id
                  WHERE w.allocation_id = $1 AND s.step = 'erase' AND s.error ->> 'reason' = 'DEPENDENCY_UNAVAILABLE')";
    board
        .world
        .until("waiting for an executor", waits, id)
        .await;
    assert_eq!(board.claims(id).await, [ClaimState::Releasing]);
    assert_eq!(board.mode().await, "baremetal", "still the tenant's");
    assert_eq!(
        board.world.periods(id).await,
        (1, 0),
        "billing ended when the release was accepted"
    );
    runner.stop().await;

    let runner = board.world.runner(simulated());
    board.world.until_state(id, "released").await;
    board.world.until_idle(id).await;
    board.assert_waits_for_approval(id, "executor").await;
    runner.stop().await;
}

#[tokio::test]
async fn inc_14_a_bare_metal_node_whose_deployment_had_begun_and_failed_stays_held() {
    let board = Board::start().await;
    board.world.overdue_at("deploy").await;
    let runner = board.world.runner(simulated());
    let id = board.launch("train").await;
    board.world.until_state(id, "failed").await;
    board.world.until_idle(id).await;
    let failure = board
        .world
        .allocation(id)
        .await
        .failure
        .expect("a reason")
        .0;
    assert_eq!(failure.reason, "DEADLINE_EXCEEDED");
    assert_eq!(board.claims(id).await, [ClaimState::CleanupBlocked]);
    assert_eq!(board.mode().await, "baremetal");
    assert_eq!(board.slots(SlotStatus::Disabled).await, 8);
    assert_eq!(board.world.periods(id).await, (0, 0));
    runner.stop().await;
}

#[tokio::test]
async fn p5_every_step_of_a_bare_metal_node_whose_record_is_lost_is_run_again_with_one_effect() {
    for step in step_names("provision_node", false) {
        let board = Board::start().await;
        board.world.lose_record_of(step).await;
        let runner = board.world.runner(simulated());
        let id = board.launch("train").await;
        board.world.until_state(id, "active").await;
        board.world.until_idle(id).await;
        board.assert_active(id, step).await;
        assert_eq!(attempts(&board, id, step).await, 2, "{step}");
        runner.stop().await;
    }
    for step in step_names("release_node", false) {
        let board = Board::start().await;
        let runner = board.world.runner(simulated());
        let id = board.launch("train").await;
        board.world.until_state(id, "active").await;
        board.world.until_idle(id).await;
        board.world.lose_record_of(step).await;
        board.world.release(id).await;
        board.world.until_state(id, "released").await;
        board.world.until_idle(id).await;
        board.assert_waits_for_approval(id, step).await;
        assert_eq!(attempts(&board, id, step).await, 2, "{step}");
        runner.stop().await;
    }
}

async fn attempts(board: &Board, id: Uuid, step: &str) -> i32 {
    sqlx::query_scalar(
        "SELECT s.attempts FROM workflow_steps s JOIN workflows w ON w.id = s.workflow_id
          WHERE w.allocation_id = $1 AND s.step = $2",
    )
    .bind(id)
    .bind(step)
    .fetch_one(&board.world.pool)
    .await
    .expect("the step")
}

#[tokio::test]
async fn p5_a_bare_metal_node_of_a_killed_runner_is_finished_by_another() {
    let board = Board::start().await;
    let id = board.launch("train").await;
    // whoever tells the timeline of anything stands still: the runner is killed between begin and deploy
    let mut teller = board.world.owner.begin().await.expect("a transaction");
    sqlx::query("SELECT last FROM placement.timeline_heads WHERE allocation_id = $1 FOR UPDATE")
        .bind(id)
        .fetch_one(&mut *teller)
        .await
        .expect("a head");
    let first = board.world.own_runner("first", simulated()).await;
    let stands = "SELECT state = 'provisioning' AND EXISTS
                    (SELECT FROM pg_locks l JOIN pg_stat_activity a USING (pid)
                      WHERE NOT l.granted AND a.datname = current_database()) FROM allocations WHERE id = $1";
    board.world.until("at the deployment", stands, id).await;
    first.kill();
    teller.rollback().await.expect("rollback");
    let second = board.world.own_runner("second", simulated()).await;
    board.world.until_state(id, "active").await;
    board.world.until_idle(id).await;
    board.assert_active(id, "second").await;
    let owner: String =
        sqlx::query_scalar("SELECT lease_owner FROM workflows WHERE allocation_id = $1")
            .bind(id)
            .fetch_one(&board.world.pool)
            .await
            .expect("the workflow");
    assert_eq!(owner, "second");
    let entries = timeline(&board.world, id).await;
    assert!(
        entries.iter().all(|(_, _, state)| state == "done"),
        "{entries:?}"
    );
    second.stop().await;
}
