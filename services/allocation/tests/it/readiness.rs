//! The checks that an image names, in its guest: passed, failed, and found again by an agent that was killed (D-45, D-69).

use gpuaas_agent::faults::Edge;
use gpuaas_common::readiness::Outcome;
use gpuaas_placement::model::SlotStatus;
use uuid::Uuid;

use crate::expect::assert_active;
use crate::host::Kill;
use crate::ledger::image;
use crate::world::World;

const NO_CLOUD_INIT: (&str, bool) = ("cloud-init", true);

fn verdicts(found: &[Outcome]) -> Vec<(&str, bool)> {
    found
        .iter()
        .map(|one| (one.check.as_str(), one.passed))
        .collect()
}

async fn requested(world: &World) -> Vec<String> {
    let mut requested = Vec::new();
    world
        .host
        .script(|script| requested = script.requested.clone());
    requested.retain(|command| !command.contains("cloud-init"));
    requested
}

/// D-69: after the login, in their order, each until it passes.
#[tokio::test]
async fn d_45_an_allocation_is_active_when_the_checks_of_its_image_passed() {
    let world = World::start().await;
    world.host.script(|script| {
        script.answers.insert(
            "nvidia-smi",
            vec![
                (9, "no device yet"),
                (0, "GPU 0: \u{1b}[1mNVIDIA H200\u{7}\r\n"),
            ],
        );
        script.answers.insert("ibv-devinfo", vec![(0, "ibp6s0\n")]);
    });
    let runner = world.runner(World::config());
    let checks = [("nvidia-smi", "H200"), ("ibv-devinfo", "ibp")];
    let id = world.reserve_image("gpu", image(&checks)).await;
    world.until_state(id, "active").await;
    world.until_idle(id).await;
    assert_active(&world, id, "checked").await;
    let found = world.allocation(id).await.readiness.0;
    assert_eq!(
        verdicts(&found),
        [NO_CLOUD_INIT, ("nvidia-smi", true), ("ibv-devinfo", true)]
    );
    assert_eq!(
        (found[1].exit_status, found[1].output_end.as_str()),
        (Some(0), "GPU 0: NVIDIA H200"),
        "without control characters"
    );
    assert_eq!(
        requested(&world).await,
        ["nvidia-smi", "nvidia-smi", "ibv-devinfo"]
    );
    runner.stop().await;
}

#[tokio::test]
async fn inc_24_a_guest_that_does_not_pass_fails_its_launch_with_the_output_of_the_check() {
    let world = World::start().await;
    world.host.script(|script| {
        let said = "sh: nvidia-smi: not found\n";
        script.answers.insert("nvidia-smi", vec![(127, said)]);
    });
    let runner = world.runner(World::config());
    let checks = [("true", ""), ("nvidia-smi", ""), ("never-run", "")];
    let id = world.reserve_image("gpu", image(&checks)).await;
    world.until_state(id, "failed").await;
    world.until_idle(id).await;
    let allocation = world.allocation(id).await;
    let failure = allocation.failure.expect("a reason").0;
    assert_eq!(
        (failure.reason.as_str(), failure.step.as_str()),
        ("GUEST_NOT_READY", "provision.check_guest")
    );
    assert!(
        failure.message.ends_with(
            "\nCheck nvidia-smi: The command ended with exit status 127.\nIts output ended with:\nsh: nvidia-smi: not found"
        ),
        "{}",
        failure.message
    );
    assert_eq!(
        verdicts(&allocation.readiness.0),
        [NO_CLOUD_INIT, ("true", true), ("nvidia-smi", false)]
    );
    assert!(!requested(&world).await.contains(&"never-run".to_owned()));
    assert_eq!(world.periods(id).await, (0, 0), "not billed");
    assert_eq!(world.slot_of(id).await.status, SlotStatus::CleanupBlocked);
    world.host_is_clean(true, "a failed check").await;
    runner.stop().await;
}

/// An image that names no check, and whose drivers cloud-init does not install, has nothing to wait for.
#[tokio::test]
async fn d_69_a_guest_without_checks_is_asked_nothing() {
    let world = World::start().await;
    let runner = world.runner(World::config());
    let id = world.reserve_image("plain", image(&[])).await;
    world.until_state(id, "active").await;
    let mut requested = Vec::new();
    world
        .host
        .script(|script| requested = script.requested.clone());
    assert_eq!(requested, [""; 0]);
    assert_eq!(world.allocation(id).await.readiness.0, []);
    runner.stop().await;
}

#[tokio::test]
async fn d_10_a_check_that_passed_is_not_run_again_by_an_agent_that_was_killed() {
    let world = World::start().await;
    world.host.script(|script| {
        script.kill = Some(Kill {
            kind: "provision",
            step: "check_guest".to_owned(),
            edge: Edge::After,
        });
    });
    let runner = world.runner(World::config());
    let id: Uuid = world.reserve("web").await;
    world.host.until_killed("check_guest:after").await;
    world.host_up().await;
    world.until_state(id, "active").await;
    world.until_idle(id).await;
    assert_eq!(requested(&world).await, ["true"]);
    let found = world.allocation(id).await.readiness.0;
    assert_eq!(verdicts(&found), [NO_CLOUD_INIT, ("true", true)]);
    runner.stop().await;
}
