//! The reconciler against a real ledger and a host with residue.

use crate::board::Board;
use crate::expect::timeline;
use crate::world::{self, World};
use gpuaas_allocation::Config;
use gpuaas_allocation::domain::discrepancy::Discrepancy;
use gpuaas_allocation::domain::names::vm_name;
use gpuaas_allocation::reconcile::{self, Round};
use gpuaas_allocation::store::{residue, visits};
use gpuaas_common::CancellationToken;
use gpuaas_placement::model::SlotStatus;
use gpuaas_placement::power;
use gpuaas_proto::gpuaas::agent::v1::FailureClass;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use uuid::Uuid;

/// Compares the node with the ledger once, and expects these discrepancies.
async fn expect(world: &World, discrepancies: &[Discrepancy]) {
    let deps = world.deps(world.pool.clone(), World::config());
    let found = reconcile::node(&deps, world.node_id).await;
    assert_eq!(found.expect("compared"), discrepancies);
}

/// D-82
#[tokio::test]
async fn p5_residue_of_a_failed_allocation_is_found_and_removed() {
    let world = World::start().await;
    let runner = world.runner(World::config());
    world.host.script(|script| {
        script.fail = Some((
            "provision",
            "start",
            ErrorReason::HypervisorFailed,
            FailureClass::Host,
        ));
    });
    let id = world.reserve("web").await;
    world.until_state(id, "failed").await;
    world.until_idle(id).await;
    expect(&world, &[]).await;

    // the host comes back from somewhere with what had been removed
    world.host.leak_domain(&vm_name(id)).await;
    world.host.leak_reservation(&vm_name(id));
    let residue = [
        Discrepancy::LeakedDomain(id),
        Discrepancy::LeakedReservation(id),
    ];
    expect(&world, &residue).await;
    world.until_idle(id).await;
    world.host_is_clean(true, "cleaned up").await;
    expect(&world, &[]).await;
    assert_eq!(
        world.slot_of(id).await.status,
        SlotStatus::CleanupBlocked,
        "the disk still waits for its proof"
    );
    runner.stop().await;
}

#[tokio::test]
async fn p5_what_is_missing_or_nobodys_is_reported_and_left_alone() {
    let world = World::start().await;
    let runner = world.runner(World::config());
    let id = world.reserve("web").await;
    world.until_state(id, "active").await;
    world.until_idle(id).await;
    expect(&world, &[]).await;
    world.host.lose_reservation(&vm_name(id));
    expect(&world, &[Discrepancy::MissingReservation(id)]).await;
    let unknown = Uuid::now_v7();
    world.host.lose_domain(&vm_name(id)).await;
    world.host.leak_domain(&vm_name(unknown)).await;
    world.host.leak_domain("somebody-elses").await;
    let unclear = [
        Discrepancy::LeakedDomain(unknown),
        Discrepancy::MissingDomain(id),
    ];
    expect(&world, &unclear).await;
    let started: i64 = sqlx::query_scalar("SELECT count(*) FROM workflows WHERE kind = 'clean_up'")
        .fetch_one(&world.pool)
        .await
        .expect("a count");
    assert_eq!(started, 0);
    runner.stop().await;
}

#[tokio::test]
async fn p5_a_vm_that_shut_down_by_itself_is_said_to_be_stopped_and_started_again_after_its_host() {
    let world = World::start().await;
    let runner = world.runner(World::config());
    let id = world.reserve("web").await;
    world.until_state(id, "active").await;
    world.until_idle(id).await;
    let first = world.allocation(id).await;

    // the guest shuts itself down
    let vm = vm_name(id);
    let hypervisor = world.host.hypervisor();
    hypervisor.shutdown(&vm).await.expect("libvirt");
    let unexpected_shutdown = |boot_id, with_host| {
        [Discrepancy::UnexpectedShutdown {
            id,
            boot_id,
            with_host,
        }]
    };
    expect(&world, &unexpected_shutdown(first.boot_id, false)).await;
    assert_eq!(world.allocation(id).await.power.as_deref(), Some("stopped"));
    world.nothing_runs(id, "only its owner starts it").await;
    // it is known now
    expect(&world, &[]).await;
    assert_eq!(
        world.periods(id).await,
        (1, 1),
        "it is billed all the while"
    );
    world.power(id, "start").await;
    world.until_idle(id).await;
    let second = world.allocation(id).await;
    assert_eq!(second.power.as_deref(), Some("running"));
    assert_ne!(second.boot_id, first.boot_id);

    // the host is restarted
    world.host_gone().await;
    world.host.restart_machine().await;
    world.host_up().await;
    expect(&world, &unexpected_shutdown(second.boot_id, true)).await;
    world.until_idle(id).await;
    let third = world.allocation(id).await;
    assert_eq!(third.power.as_deref(), Some("running"));
    assert_ne!(third.boot_id, second.boot_id);
    assert!(world.host.state().await.off.is_empty());
    let reported: Vec<String> = timeline(&world, id)
        .await
        .into_iter()
        .map(|(_, step, _)| step)
        .collect();
    assert_eq!(reported.iter().filter(|step| *step == "stopped").count(), 2);
    runner.stop().await;
}

#[tokio::test]
async fn an_observation_that_is_old_news_changes_nothing() {
    let world = World::start().await;
    let runner = world.runner(World::config());
    let id = world.reserve("web").await;
    world.until_state(id, "active").await;
    world.until_idle(id).await;
    let before = world.allocation(id).await;
    let mut conn = world.pool.acquire().await.expect("a connection");
    let another_boot = Some(Uuid::now_v7());
    let started = power::unexpected_shutdown(&mut conn, id, another_boot, true).await;
    assert_eq!(started.expect("seen"), None);
    world.power(id, "reboot").await;
    world.until_idle(id).await;
    let started = power::unexpected_shutdown(&mut conn, id, before.boot_id, true).await;
    assert_eq!(started.expect("seen"), None, "it was rebooted meanwhile");
    assert_eq!(world.allocation(id).await.power.as_deref(), Some("running"));
    runner.stop().await;
}

#[tokio::test]
async fn p5_a_host_that_hangs_holds_up_no_other_and_is_counted() {
    let board = Board::start().await;
    let world = &board.world;
    // one host takes connections and says nothing
    let mute = tokio::net::TcpListener::bind(world::loopback(0))
        .await
        .expect("a port");
    let address = mute.local_addr().expect("an address").to_string();
    let mute_first = "UPDATE placement.nodes SET mode = 'slice',
            agent_address = CASE WHEN id = $1 THEN $2 ELSE agent_address END";
    sqlx::query(mute_first)
        .bind(world.node_id)
        .bind(address)
        .execute(&world.owner)
        .await
        .expect("nodes");
    let order = residue::slice_nodes(&world.pool).await.expect("nodes");
    assert_eq!(order, [world.node_id, board.node_id]);
    let deps = world.deps(world.pool.clone(), World::config());
    let other = deps.clone();
    let round = tokio::spawn(async move { reconcile::round(&other, "one").await });
    let (held, _) = mute.accept().await.expect("the visit");
    let visited =
        "SELECT EXISTS (SELECT FROM node_visits WHERE node_id = $1 AND expires_at IS NULL)";
    world
        .until("the other is visited", visited, board.node_id)
        .await;
    assert!(!round.is_finished(), "the mute host is still visited");
    // nobody else goes where somebody is
    let second = reconcile::round(&deps, "two").await.expect("a round");
    // on the other node nobody answers at all
    assert_eq!((second.failed, second.left), (1, 1));
    drop((held, mute));
    let round = round.await.expect("a task").expect("a round");
    assert_eq!((round.failed, round.left), (2, 0));
}

/// Nodes that are compared are left alone for the interval, but for one whose agent was started since.
#[tokio::test]
async fn d_82_a_host_is_compared_at_once_after_the_start_of_its_agent() {
    let world = World::start().await;
    let config = Config {
        reconcile_seconds: 3600.0,
        ..World::config()
    };
    let deps = world.deps(world.pool.clone(), config);
    let compared = |round: Round| (round.compared, round.failed, round.left);
    let first = reconcile::round(&deps, "one").await.expect("a round");
    assert_eq!(compared(first), (1, 0, 0));
    let again = reconcile::round(&deps, "two").await.expect("a round");
    assert_eq!(compared(again), (0, 0, 1));
    let after_starts = async || {
        let round = reconcile::after_starts(&deps, "two").await;
        compared(round.expect("a round"))
    };
    assert_eq!(after_starts().await, (0, 0, 0), "none was started");

    let start =
        "INSERT INTO placement.agent_starts (node_id, started_at) VALUES ($1, clock_timestamp())";
    let noted = sqlx::query(start).bind(world.node_id);
    noted.execute(&world.owner).await.expect("noted");
    assert_eq!(after_starts().await, (1, 0, 0));
    assert_eq!(after_starts().await, (0, 0, 0), "it was seen");
}

/// An agent says that it was started before it answers everything: nobody waits for the next round then.
#[tokio::test]
async fn d_82_a_comparison_that_fails_after_a_start_is_tried_again_soon_and_not_for_ever() {
    let world = World::start().await;
    let config = Config {
        reconcile_seconds: 3600.0,
        ..World::config()
    };
    let deps = world.deps(world.pool.clone(), config);
    let sql = async |statement: &'static str| {
        let query = sqlx::query(statement).bind(world.node_id);
        query.execute(&world.owner).await.expect(statement)
    };
    let address: String =
        sqlx::query_scalar("SELECT agent_address FROM placement.nodes WHERE id = $1")
            .bind(world.node_id)
            .fetch_one(&world.owner)
            .await
            .expect("an address");
    // a port that no test can be given
    let dead = "127.0.0.1:1".to_owned();
    let move_to = async |to: &str| {
        let moved = "UPDATE placement.nodes SET agent_address = $2 WHERE id = $1";
        let query = sqlx::query(moved).bind(world.node_id).bind(to);
        query.execute(&world.owner).await.expect("moved");
    };
    let after_starts = async || {
        let round = reconcile::after_starts(&deps, "one")
            .await
            .expect("a round");
        (round.compared, round.failed, round.left)
    };
    let retry = async || visits::next_retry(&world.pool).await.expect("a time");
    move_to(&dead).await;
    // of a host that was not started nobody asks sooner
    let round = reconcile::round(&deps, "one").await.expect("a round");
    assert_eq!((round.failed, retry().await), (1, None));

    sql("INSERT INTO placement.agent_starts (node_id, started_at) VALUES ($1, clock_timestamp())")
        .await;
    for pause in [1.0, 2.0, 4.0, 8.0, 16.0] {
        assert_eq!(after_starts().await, (0, 1, 0), "{pause}");
        // from the end of the visit on
        let waits: f64 = sqlx::query_scalar(
            "SELECT extract(epoch FROM retry_at - visited_at)::float8 FROM placement.node_visits WHERE node_id = $1",
        )
        .bind(world.node_id)
        .fetch_one(&world.owner)
        .await
        .expect("it is due again");
        let left = retry().await.expect("it is due again");
        assert!(
            waits >= pause && left <= pause,
            "{waits}, {left} of {pause}"
        );
        // a minute ahead, so that a slow machine changes nothing
        sql("UPDATE placement.node_visits SET retry_at = clock_timestamp() + interval '1 min' WHERE node_id = $1").await;
        assert_eq!(after_starts().await, (0, 0, 0), "not yet");
        sql("UPDATE placement.node_visits SET retry_at = clock_timestamp() WHERE node_id = $1")
            .await;
    }
    assert_eq!(after_starts().await, (0, 1, 0));
    assert_eq!(retry().await, None, "the rounds go on");
    assert_eq!(after_starts().await, (0, 0, 0));

    // another start begins anew, and one that gets through is the last
    sql("UPDATE placement.agent_starts SET noted_at = clock_timestamp() WHERE node_id = $1").await;
    assert_eq!(after_starts().await, (0, 1, 0));
    assert!(retry().await.is_some());
    move_to(&address).await;
    let shutdown = CancellationToken::new();
    let (stop, other) = (shutdown.clone(), deps.clone());
    let running = tokio::spawn(async move { reconcile::run(&other, "two", stop).await });
    let well = "SELECT EXISTS (SELECT FROM node_visits WHERE node_id = $1 AND failures = 0 AND expires_at IS NULL)";
    world.until("the retry", well, world.node_id).await;
    assert_eq!(retry().await, None);
    shutdown.cancel();
    running.await.expect("it ends");

    // of one that failed in a round long after, nobody asks sooner
    move_to(&dead).await;
    sql("UPDATE placement.node_visits SET visited_at = visited_at - interval '1 day' WHERE node_id = $1").await;
    sql("UPDATE placement.agent_starts SET noted_at = noted_at - interval '2 days' WHERE node_id = $1").await;
    let round = reconcile::round(&deps, "one").await.expect("a round");
    assert_eq!((round.failed, retry().await), (1, None));
}

/// A replica that starts knows nothing of what happened while there was none.
#[tokio::test]
async fn d_82_hosts_are_compared_when_the_service_starts() {
    let world = World::start().await;
    let config = Config {
        reconcile_seconds: 3600.0,
        ..World::config()
    };
    let deps = world.deps(world.pool.clone(), config);
    let shutdown = CancellationToken::new();
    let stop = shutdown.clone();
    let running = tokio::spawn(async move { reconcile::run(&deps, "one", stop).await });
    let visited = "SELECT EXISTS (SELECT FROM node_visits WHERE node_id = $1)";
    world.until("the first visit", visited, world.node_id).await;
    shutdown.cancel();
    running.await.expect("it ends");
}
