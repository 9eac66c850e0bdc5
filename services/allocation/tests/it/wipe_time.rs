//! A wipe is given the time that its disk needs and keeps no other work waiting, and a host's clock is no fault of a disk.

use gpuaas_allocation::Config;
use gpuaas_placement::model::SlotStatus;
use gpuaas_proto::gpuaas::agent::v1::FailureClass;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use uuid::Uuid;

use crate::expect::assert_released;
use crate::runners::Runner;
use crate::world::World;

/// As if all that is under way for an allocation or slot had begun three hours ago.
async fn three_hours_later(world: &World, subject: Uuid) {
    for sql in [
        "UPDATE placement.workflow_steps SET started_at = started_at - interval '3 hours' WHERE workflow_id IN
             (SELECT id FROM placement.workflows WHERE state = 'running' AND $1 IN (allocation_id, slot_id))",
        "UPDATE placement.workflows SET deadline_at = clock_timestamp() - interval '2 hours'
          WHERE state = 'running' AND $1 IN (allocation_id, slot_id)",
    ] {
        let moved = sqlx::query(sql).bind(subject).execute(&world.owner).await;
        assert!(moved.expect("moved").rows_affected() > 0);
    }
}

async fn budget(world: &World, subject: Uuid, kind: &str) -> i64 {
    sqlx::query_scalar(
        "SELECT (payload ->> 'budget_seconds')::bigint FROM node_tasks
          WHERE $1 IN (allocation_id, slot_id) AND type = $2",
    )
    .bind(subject)
    .bind(kind)
    .fetch_one(&world.pool)
    .await
    .expect("one task")
}

const WIPING: &str = "SELECT EXISTS (SELECT FROM node_tasks WHERE $1 IN (allocation_id, slot_id) AND state = 'running'
                                        AND type IN ('slice.vm_release', 'slice.slot_repair'))";

#[tokio::test]
async fn p2_a_wipe_that_takes_hours_is_waited_for_and_the_slot_is_not_withheld() {
    let world = World::start().await;
    let runner = world.runner(World::config());
    let id = world.reserve("web").await;
    world.until_state(id, "active").await;
    world.until_idle(id).await;
    world
        .host
        .script(|script| script.stay = Some(("release", "wipe")));
    world.release(id).await;
    world.until("at the host", WIPING, id).await;
    // a replica of the service takes it over, hours later
    runner.stop().await;
    three_hours_later(&world, id).await;
    let runner = world.runner(World::config());
    world.host.script(|script| script.stay = None);
    world.until_state(id, "released").await;
    world.until_idle(id).await;
    assert_released(&world, id, "after hours").await;
    assert!(budget(&world, id, "slice.vm_release").await > 5 * 3600);

    // the same for a repair, whose later steps have their own time
    let next = world.reserve("next").await;
    world.until_state(next, "active").await;
    world.until_idle(next).await;
    world.host.script(|script| {
        let reason = ErrorReason::WipeNotProven;
        script.fail = Some(("release", "verify_wipe", reason, FailureClass::Device));
        script.stay = Some(("repair_slot", "wipe"));
    });
    world.release(next).await;
    world.until_state(next, "released").await;
    world.until_idle(next).await;
    world.host.script(|script| script.fail = None);
    let slot = world.slot_of(next).await.id;
    world.repair(slot).await;
    world.until("at the host", WIPING, slot).await;
    runner.stop().await;
    three_hours_later(&world, slot).await;
    let runner = world.runner(World::config());
    world.host.script(|script| script.stay = None);
    world.until_idle(slot).await;
    assert_eq!(world.slot_of(next).await.status, SlotStatus::Available);
    runner.stop().await;
}

/// More often than a release is tried for any other reason.
const FOUR_TIMES: &str =
    "SELECT count(*) >= 4 FROM node_tasks WHERE $1 IN (allocation_id, slot_id) AND state = 'failed'
         AND output -> 'failure' ->> 'reason' = 'HOST_CLOCK_SKEWED'";

#[tokio::test]
async fn p2_a_wrong_clock_of_a_host_is_waited_for_and_withholds_no_disk() {
    let world = World::start().await;
    let runner = world.runner(World::config());
    let id = world.reserve("web").await;
    world.until_state(id, "active").await;
    world.until_idle(id).await;
    let reason = ErrorReason::HostClockSkewed;
    world.host.script(|script| {
        script.fail = Some(("release", "verify_wipe", reason, FailureClass::Host));
    });
    world.release(id).await;
    world.until("tried four times", FOUR_TIMES, id).await;
    assert_ne!(world.slot_of(id).await.status, SlotStatus::CleanupBlocked);
    // somebody sets the clock
    world.host.script(|script| script.fail = None);
    world.until_state(id, "released").await;
    world.until_idle(id).await;
    assert_eq!(world.slot_of(id).await.status, SlotStatus::Available);
    runner.stop().await;
}

/// A world with three slots, whose host never ends a wipe; two allocations are being released.
async fn two_endless_wipes(config: Config) -> (World, Runner, [Uuid; 2]) {
    let world = World::with_slots(3).await;
    let runner = world.runner(config);
    let ids = [world.reserve("one").await, world.reserve("two").await];
    for id in ids {
        world.until_state(id, "active").await;
        world.until_idle(id).await;
    }
    world
        .host
        .script(|script| script.stay = Some(("release", "wipe")));
    for id in ids {
        world.release(id).await;
    }
    (world, runner, ids)
}

#[tokio::test]
async fn p7_wipes_that_do_not_end_keep_no_launch_waiting() {
    let config = Config {
        concurrency: 2,
        ..World::config()
    };
    let (world, runner, wiping) = two_endless_wipes(config).await;
    for id in wiping {
        world.until("at the host", WIPING, id).await;
    }
    let next = world.reserve("next").await;
    world.until_state(next, "active").await;
    world.until_idle(next).await;
    world.host.script(|script| script.stay = None);
    for id in wiping {
        world.until_state(id, "released").await;
        world.until_idle(id).await;
        let takings: i32 = sqlx::query_scalar(
            "SELECT s.attempts FROM workflow_steps s JOIN workflows w ON w.id = s.workflow_id
              WHERE w.allocation_id = $1 AND s.step = 'release'",
        )
        .bind(id)
        .fetch_one(&world.pool)
        .await
        .expect("the step");
        assert_eq!(takings, 1, "its lease was renewed all the while");
    }
    runner.stop().await;
}

#[tokio::test]
async fn p7_more_wipes_than_there_are_places_wait_in_sight_for_one() {
    let config = Config {
        wipe_concurrency: 1,
        ..World::config()
    };
    let (world, runner, [one, two]) = two_endless_wipes(config).await;
    let waiting =
        "SELECT count(*) = 1 FROM workflows WHERE state = 'running' AND $1::uuid IS NOT NULL
                      AND progress ->> 'message' = 'Waiting for other wipes to end.'";
    world.until("one waits", waiting, one).await;
    world.host.script(|script| script.stay = None);
    for id in [one, two] {
        world.until_state(id, "released").await;
        world.until_idle(id).await;
        assert_eq!(world.slot_of(id).await.status, SlotStatus::Available);
    }
    runner.stop().await;
}

#[tokio::test]
async fn p7_a_wipe_that_has_begun_is_asked_for_without_a_place_too() {
    let world = World::start().await;
    let runner = world.runner(World::config());
    let begun = world.reserve("begun").await;
    world.until_state(begun, "active").await;
    world.until_idle(begun).await;
    world
        .host
        .script(|script| script.stay = Some(("release", "wipe")));
    world.release(begun).await;
    world.until("at the host", WIPING, begun).await;
    runner.stop().await;
    // the host ends it while nobody waits for it; the replica that takes it over has no place left
    world.host.script(|script| script.stay = None);
    let runner = world.runner(Config {
        wipe_concurrency: 0,
        ..World::config()
    });
    world.until_state(begun, "released").await;
    world.until_idle(begun).await;
    assert_released(&world, begun, "without a place").await;
    // while one that has not begun waits
    let fresh = world.reserve("fresh").await;
    world.until_state(fresh, "active").await;
    world.until_idle(fresh).await;
    world.release(fresh).await;
    let waiting =
        "SELECT EXISTS (SELECT FROM workflows WHERE allocation_id = $1 AND state = 'running'
                           AND progress ->> 'message' = 'Waiting for other wipes to end.')";
    world.until("it waits", waiting, fresh).await;
    assert_ne!(world.slot_of(fresh).await.status, SlotStatus::Available);
    runner.stop().await;
}
