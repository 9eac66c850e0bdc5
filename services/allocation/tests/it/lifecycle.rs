//! The good path, and what is kept of it.

use gpuaas_agent::journal::Kind;
use gpuaas_placement::catalog;
use gpuaas_placement::model::{Health, Image, Profile, SlotStatus};
use gpuaas_proto::gpuaas::agent::v1::VmShape;
use gpuaas_proto::gpuaas::common::v1::DriverStrategy;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use uuid::Uuid;

use crate::expect::{assert_active, assert_released, host_steps, may_be_skipped, timeline};
use crate::host::State;
use crate::world::World;

/// C-09
#[tokio::test]
async fn c_01_an_allocation_lives_from_reserved_to_released() {
    let world = World::start().await;
    let runner = world.runner(World::config());
    let id = world.reserve("web").await;
    world.until_state(id, "active").await;
    world.until_idle(id).await;
    assert_active(&world, id, "active").await;
    assert_eq!(world.slot_of(id).await.health_state, Health::Healthy);
    let reported: Vec<String> = timeline(&world, id)
        .await
        .into_iter()
        .map(|(_, step, _)| step)
        .filter(|step| !may_be_skipped(step))
        .collect();
    let mut wanted = vec!["reserve".to_owned(), "provision.acquire_lease".to_owned()];
    let mut steps = host_steps(Kind::Provision);
    steps.retain(|step| !may_be_skipped(step));
    wanted.extend(steps.iter().map(|step| format!("provision.{step}")));
    wanted.extend(["provision.activate".to_owned(), "active".to_owned()]);
    // the hand-over is told when it is done, the state as soon as it is
    wanted.sort();
    let mut sorted = reported.clone();
    sorted.sort();
    assert_eq!(sorted, wanted);

    world.release(id).await;
    world.until_state(id, "released").await;
    world.until_idle(id).await;
    assert_released(&world, id, "released").await;
    let entries = timeline(&world, id).await;
    assert!(
        entries.iter().all(|(_, _, state)| state == "done"),
        "{entries:?}"
    );
    assert!(
        entries
            .iter()
            .enumerate()
            .all(|(at, (sequence, ..))| *sequence == at as i64 + 1),
        "{entries:?}"
    );
    let mut steps = host_steps(Kind::Release);
    steps.retain(|step| !may_be_skipped(step));
    for step in steps {
        assert!(
            entries
                .iter()
                .any(|(_, reported, _)| *reported == format!("release.{step}")),
            "{step}"
        );
    }
    runner.stop().await;
}

/// C-22, C-23, C-27, D-68
// partly C-22: the control plane calls the agent, which claims nothing
#[tokio::test]
async fn c_31_calls_to_the_host_are_kept_with_payload_and_output() {
    let world = World::start().await;
    let runner = world.runner(World::config());
    let id = world.reserve("web").await;
    world.until_state(id, "active").await;
    let (kind, state, payload, output): (String, String, serde_json::Value, serde_json::Value) =
        sqlx::query_as(
            "SELECT type, state, payload, output FROM node_tasks WHERE allocation_id = $1",
        )
        .bind(id)
        .fetch_one(&world.pool)
        .await
        .expect("one task");
    assert_eq!(
        (kind.as_str(), state.as_str()),
        ("slice.vm_provision", "done")
    );
    assert_eq!(payload["driver_strategy"], "none");
    assert!(
        payload["source_uri"]
            .as_str()
            .expect("text")
            .starts_with("oci://")
    );
    // C-31, E-14: the file that the host keeps, by the name of its folder there
    assert_eq!(
        payload["image_path"],
        "/var/lib/gpuaas/slice-images/lab-mini.raw"
    );
    let kept = world.host.image_named("lab-mini.raw");
    assert_eq!(kept.expect("the agent keeps it"), crate::host::image());
    let budget = payload["budget_seconds"].as_u64().expect("a number");
    assert!(
        (1190..=1200).contains(&budget),
        "inc_22: the host gets twenty minutes, not {budget} s"
    );
    assert_eq!(output["provision_result"]["ssh_ready"], true);
    assert!(
        !payload.to_string().contains("ssh-ed25519"),
        "keys are no part of the record"
    );
    runner.stop().await;
}

#[tokio::test]
async fn c_32_the_host_is_told_that_the_cuda_image_has_its_drivers() {
    let world = World::start().await;
    let runner = world.runner(World::config());
    let image = Image {
        slug: "ubuntu-24.04-h200-cuda".into(),
        driver_strategy: DriverStrategy::Preinstalled.into(),
        ..crate::ledger::image(&[])
    };
    let id = world.reserve_image("cuda", image).await;
    world.until_state(id, "active").await;
    let payload: serde_json::Value =
        sqlx::query_scalar("SELECT payload FROM node_tasks WHERE allocation_id = $1")
            .bind(id)
            .fetch_one(&world.pool)
            .await
            .expect("one task");
    assert_eq!(payload["driver_strategy"], "preinstalled");
    assert_eq!(
        payload["image_path"],
        "/var/lib/gpuaas/slice-images/ubuntu-24.04-h200-cuda.raw"
    );
    runner.stop().await;
}

#[tokio::test]
async fn c_26_c_33_every_kind_of_work_on_a_host_has_a_type_of_its_own() {
    let world = World::start().await;
    let runner = world.runner(World::config());
    let types = async |id: Uuid| {
        let sql = "SELECT type FROM node_tasks WHERE allocation_id = $1 ORDER BY created_at, id";
        let found = sqlx::query_scalar::<_, String>(sql).bind(id);
        found.fetch_all(&world.pool).await.expect("tasks")
    };
    let id = world.reserve("web").await;
    world.until_state(id, "active").await;
    world.until_idle(id).await;
    world.release(id).await;
    world.until_state(id, "released").await;
    world.until_idle(id).await;
    assert_eq!(
        types(id).await,
        ["slice.vm_provision", "slice.vm_release"],
        "once each"
    );
    runner.stop().await;
    // the database knows the types, and no other
    let check: String = sqlx::query_scalar(
        "SELECT string_agg(pg_get_constraintdef(oid), ' ') FROM pg_constraint
          WHERE conrelid = 'placement.node_tasks'::regclass AND contype = 'c'",
    )
    .fetch_one(&world.owner)
    .await
    .expect("constraints");
    for kind in [
        "vm_provision",
        "vm_release",
        "vm_clean_up",
        "slot_repair",
        "vm_stop",
        "vm_start",
        "vm_reboot",
        "vm_rescue",
    ] {
        assert!(
            check.contains(&format!("'slice.{kind}'")),
            "{kind}: {check}"
        );
    }
}

#[tokio::test]
async fn inc_22_the_host_gets_no_more_than_what_is_left_of_the_window() {
    let world = World::start().await;
    let id = world.reserve("web").await;
    sqlx::query("UPDATE placement.workflows SET deadline_at = clock_timestamp() + interval '100 seconds' WHERE allocation_id = $1")
        .bind(id)
        .execute(&world.owner)
        .await
        .expect("a shorter window");
    let runner = world.runner(World::config());
    world.until_state(id, "active").await;
    let budget: i64 = sqlx::query_scalar(
        "SELECT (payload ->> 'budget_seconds')::bigint FROM node_tasks WHERE allocation_id = $1",
    )
    .bind(id)
    .fetch_one(&world.pool)
    .await
    .expect("one task");
    assert!((80..=100).contains(&budget), "{budget}");
    runner.stop().await;
}

#[tokio::test]
async fn c_01_a_release_ends_a_running_provision() {
    for step in ["verify_image", "clone", "wait_login"] {
        let world = World::start().await;
        world
            .host
            .script(|script| script.stay = Some(("provision", step)));
        let runner = world.runner(World::config());
        let id = world.reserve("web").await;
        let running = move |state: &State| state.operations.values().any(|op| op.is_at(step));
        world.host.until(step, running).await;
        world.release(id).await;
        world.until_state(id, "released").await;
        world.until_idle(id).await;
        assert_eq!(
            world.slot_of(id).await.status,
            SlotStatus::Available,
            "{step}"
        );
        assert_eq!(
            world.periods(id).await,
            (0, 0),
            "g_10: {step} was never active"
        );
        world.host_is_clean(false, step).await;
        world.nothing_runs(id, step).await;
        let entries = timeline(&world, id).await;
        assert!(
            entries.iter().all(|(_, _, state)| state != "running"),
            "{step}: {entries:?}"
        );
        runner.stop().await;
    }
}

#[tokio::test]
async fn p6_epochs_only_grow_and_the_host_refuses_a_lower_one() {
    let world = World::start().await;
    let runner = world.runner(World::config());
    let id = world.reserve("web").await;
    world.until_state(id, "active").await;
    world.until_idle(id).await;
    let fence = async || {
        let state = world.host.state().await;
        state.fences.values().next().copied().expect("a fence")
    };
    let provisioned = fence().await;
    let behind = |(cell, generation, epoch): (u64, u64, u64)| {
        [
            (cell, generation, epoch - 1),
            (cell, generation - 1, epoch + 1),
            (cell - 1, generation + 1, epoch + 1),
        ]
    };
    for token in behind(provisioned) {
        assert_fenced(&world, id, token).await;
    }
    // one that is not behind is let in
    let granted = world.acquire_on_host(id, provisioned).await;
    world
        .end_on_host(id, granted.expect("a lease"), provisioned)
        .await;

    world.release(id).await;
    world.until_state(id, "released").await;
    world.until_idle(id).await;
    let released = fence().await;
    assert!(released > provisioned, "{released:?} {provisioned:?}");
    assert_eq!(
        (released.0, released.1),
        (1, 1),
        "cell epoch and generation of the claim"
    );
    // after the proof too, for whoever it is
    for token in behind(released).into_iter().chain([provisioned]) {
        assert_fenced(&world, id, token).await;
        assert_fenced(&world, Uuid::now_v7(), token).await;
    }
    runner.stop().await;
}

/// Shows the host a token that is behind: it says so, and nothing of it changes.
async fn assert_fenced(world: &World, allocation: Uuid, token: (u64, u64, u64)) {
    let before = format!("{:?}", world.host.state().await);
    let refused = world.acquire_on_host(allocation, token).await;
    let error = gpuaas_common::Error::from(refused.expect_err("behind"));
    assert_eq!(error.reason(), ErrorReason::Fenced, "{token:?}");
    assert_eq!(error.code(), tonic::Code::FailedPrecondition);
    assert!(error.message().contains("is behind"), "{}", error.message());
    assert_eq!(format!("{:?}", world.host.state().await), before);
}

/// The shape of the VM that the host was told to make for an allocation.
fn told_shape(state: &State, id: Uuid) -> Option<VmShape> {
    let mut leases = state.leases.values();
    leases
        .find(|lease| lease.allocation_id == id.to_string())?
        .shape
}

/// G-03: data and not code.
#[tokio::test]
async fn b_09_a_profile_that_is_edited_shapes_what_is_launched_next_and_nothing_else() {
    let world = World::start().await;
    world
        .host
        .script(|script| script.stay = Some(("provision", "wait_login")));
    let runner = world.runner(World::config());
    let first = world.reserve("before").await;
    let leased = |id| move |state: &State| told_shape(state, id).is_some();
    world
        .host
        .until("a lease of the first", leased(first))
        .await;

    let mut conn = world.scheduler.acquire().await.expect("a connection");
    let mut sku = catalog::sku(&mut conn, "lab-slice").await.expect("the SKU");
    sku.profile = Profile {
        name: "lab_3c_768m".into(),
        vcpus_per_gpu: 3,
        memory_mib_per_gpu: 768,
        hugepages: true,
        network_mbps: Some(2500),
        network_burst_kb: Some(320),
    };
    catalog::put_sku(&mut conn, &sku).await.expect("edited");
    drop(conn);
    // the lab host has no hugepages unless it says so
    sqlx::query("UPDATE placement.nodes SET hugepages_1g_free = 64")
        .execute(&world.owner)
        .await
        .expect("hugepages");
    let second = world.reserve("after").await;
    world
        .host
        .until("a lease of the second", leased(second))
        .await;
    let first_shape = VmShape {
        vcpus: 1,
        memory_mib: 256,
        ..VmShape::default()
    };
    let second_shape = VmShape {
        vcpus: 3,
        memory_mib: 768,
        hugepages: true,
        network_mbps: Some(2500),
        network_burst_kb: Some(320),
    };
    let state = world.host.state().await;
    let (was, is) = (told_shape(&state, first), told_shape(&state, second));
    assert_eq!(was, Some(first_shape));
    assert_eq!(is, Some(second_shape));
    // the first goes on as what it was launched as
    world.host.script(|script| script.stay = None);
    for id in [first, second] {
        world.until_state(id, "active").await;
    }
    let skus: Vec<String> = sqlx::query_scalar(
        "SELECT snapshot -> 'profile' ->> 'name' FROM placement.claims ORDER BY created_at",
    )
    .fetch_all(&world.owner)
    .await
    .expect("claims");
    assert_eq!(skus, ["lab", "lab_3c_768m"]);
    runner.stop().await;
}
