//! What the agent makes of an update that it is told, with a real journal and an updater that notes that it was started.
use gpuaas_dev::until::until_ok;
use uuid::Uuid;

use super::*;
use crate::host::clock::BootMoment;
use crate::ids::{AllocationId, OperationId};
use crate::journal::{Kind, NewOperation};
use gpuaas_proto::gpuaas::agent::v1 as agent;

const SOON: Duration = Duration::from_secs(20);

/// What makes a good update a bad one.
type Change = fn(&mut pb::AgentUpdate);

/// Updates whose updater is `touch`.
fn updates(folder: &Path, source: &str) -> Updates {
    let mut updates = Updates::open(folder, source, Registry::new(b""));
    let started = folder.join("started").display().to_string();
    updates.start = vec!["touch".to_owned(), started];
    updates
}

fn rollback(attempt: u32) -> pb::AgentUpdate {
    pb::AgentUpdate {
        rollout_id: Uuid::from_u128(7).to_string(),
        attempt,
        version: "80d8a259".into(),
        rollback: true,
        ..Default::default()
    }
}

fn update() -> pb::AgentUpdate {
    pb::AgentUpdate {
        rollback: false,
        digest: format!("sha256:{}", "a".repeat(64)),
        size_bytes: 10,
        ..rollback(1)
    }
}

fn operation(journal: &Journal) -> OperationId {
    let id = OperationId(Uuid::now_v7());
    let new = NewOperation {
        id,
        kind: Kind::Provision,
        allocation: AllocationId(Uuid::now_v7()),
        request: Vec::new(),
        request_hash: String::new(),
        lease: None,
        lease_request: agent::AcquireLeaseRequest::default(),
        plan: agent::BundlePlan::default(),
        traceparent: String::new(),
        deadline: BootMoment {
            boot_id: "boot".into(),
            nanos: 1,
        },
        started_ms: 0,
        steps: Vec::new(),
    };
    journal.start_operation(&new).unwrap();
    id
}

/// The state and reason that the next heartbeat says, once `wanted` does.
async fn says(updates: &Updates, wanted: State) -> String {
    until_ok(&format!("{wanted:?}"), SOON, async || {
        let said = updates.report().expect("it was told of an update");
        match said.state() == wanted {
            true => Ok(said.reason),
            false => Err(format!("{said:?}")),
        }
    })
    .await
}

#[tokio::test]
async fn a_10_an_update_begins_between_operations_and_the_next_agent_reports_its_end() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal.sqlite");
    let journal = Journal::open(&path).unwrap();
    let running = operation(&journal);
    let updates = updates(dir.path(), "");
    assert_eq!(updates.report(), None, "it was told of none");
    let shutdown = CancellationToken::new();
    let work = run(&updates, &journal, shutdown.clone());
    let reported = async {
        updates.answered(Some(&rollback(1)));
        says(&updates, State::Waiting).await;
        assert!(!dir.path().join("started").exists(), "an operation runs");
        let result = agent::HostOperation::default();
        journal.succeed(running, &result, 1, &[]).unwrap();
        says(&updates, State::Installing).await;
        // told at each heartbeat, begun once
        updates.answered(Some(&rollback(1)));
        let started = dir.path().join("started");
        until("the updater", || started.exists()).await;
        shutdown.cancel();
    };
    tokio::join!(work, reported);
    let folder = dir.path().join("update");
    let given = std::fs::read_to_string(folder.join("request")).unwrap();
    assert!(
        given.contains("action=rollback\nversion=80d8a259\n"),
        "{given}"
    );

    // the agent that was restarted: it is ready once it is heard, and has the outcome
    drop(journal);
    let next = Updates::open(dir.path(), "", Registry::new(b""));
    assert_eq!(next.report().unwrap().state(), State::Installing);
    next.answered(Some(&rollback(1)));
    let ready = std::fs::read_to_string(folder.join("ready")).unwrap();
    assert_eq!(ready.trim(), build::version());
    let id = Uuid::from_u128(7);
    let other = format!("rollout={id}\nattempt=9\nstate=installed\nreason=\n");
    std::fs::write(folder.join("outcome"), other).unwrap();
    assert_eq!(
        next.report().unwrap().state(),
        State::Installing,
        "of another turn"
    );
    let mut ended =
        format!("rollout={id}\nattempt=1\nstate=failed\nreason=not ready in time").into_bytes();
    // half a character
    ended.push(0xc3);
    std::fs::write(folder.join("outcome"), ended).unwrap();
    let said = next.report().unwrap();
    assert_eq!(
        (said.state(), said.reason.as_str()),
        (State::Failed, "not ready in time\u{fffd}")
    );
    // its journal is as it was
    let journal = Journal::open(&path).unwrap();
    assert!(journal.operation(running).unwrap().is_some());
}

#[tokio::test]
async fn a_host_without_an_approved_source_and_one_that_is_told_nonsense_begin_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let journal = Journal::in_memory().unwrap();
    let source = "oci://registry.site/gpuaas/node-agent";
    let table: [(&str, Change, &str); 6] = [
        ("", |_| (), "agent.update.source"),
        (source, |u| u.rollout_id = "../x".into(), "rollout_id"),
        (
            source,
            |u| u.version = "1\nstate=installed".into(),
            "version",
        ),
        (source, |u| u.version.clear(), "version"),
        (source, |u| u.digest = "sha256:1".into(), "sha256"),
        (source, |u| u.size_bytes = -1, "size_bytes"),
    ];
    for (source, change, named) in table {
        let updates = updates(dir.path(), source);
        let mut update = update();
        change(&mut update);
        let error = prepare(&updates, &journal, &update).await.unwrap_err();
        assert!(error.to_string().contains(named), "{named}: {error}");
        assert!(!dir.path().join("started").exists(), "{named}");
        assert!(!updates.folder.join("request").exists(), "{named}");
    }
}

#[tokio::test]
async fn a_package_that_cannot_be_fetched_fails_the_update_and_starts_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let journal = Journal::in_memory().unwrap();
    // nothing listens there, and no program of another test is ever given it
    let updates = updates(dir.path(), "oci://127.0.0.1:1/gpuaas/node-agent");
    let shutdown = CancellationToken::new();
    let work = run(&updates, &journal, shutdown.clone());
    let reported = async {
        updates.answered(Some(&update()));
        let reason = says(&updates, State::Failed).await;
        assert!(!reason.is_empty());
        shutdown.cancel();
    };
    tokio::join!(work, reported);
    assert!(!dir.path().join("started").exists());
    assert!(!updates.folder.join("package.deb").exists());
}

#[tokio::test]
async fn an_updater_that_a_power_loss_ended_is_started_again() {
    let dir = tempfile::tempdir().unwrap();
    let journal = Journal::in_memory().unwrap();
    let folder = dir.path().join("update");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("request"), request(&rollback(2))).unwrap();
    let updates = updates(dir.path(), "");
    let shutdown = CancellationToken::new();
    let stop = async {
        let started = dir.path().join("started");
        until("the updater", || started.exists()).await;
        shutdown.cancel();
    };
    tokio::join!(run(&updates, &journal, shutdown.clone()), stop);
}

/// Waits for what another task does.
async fn until(what: &str, holds: impl Fn() -> bool) {
    until_ok(what, SOON, async || {
        holds().then_some(()).ok_or_else(String::new)
    })
    .await;
}

#[tokio::test]
async fn an_update_that_is_named_no_more_is_dropped_and_named_again_it_begins() {
    let dir = tempfile::tempdir().unwrap();
    let journal = Journal::in_memory().unwrap();
    let running = operation(&journal);
    let updates = updates(dir.path(), "");
    let shutdown = CancellationToken::new();
    let work = run(&updates, &journal, shutdown.clone());
    let reported = async {
        updates.answered(Some(&rollback(1)));
        says(&updates, State::Waiting).await;
        updates.answered(None);
        // the next one waits as well, which shows that the first was dropped, and not begun
        let next = rollback(2);
        let other = pb::AgentUpdate {
            version: "other".into(),
            ..next
        };
        updates.answered(Some(&other));
        updates.answered(None);
        updates.answered(Some(&rollback(1)));
        let result = agent::HostOperation::default();
        journal.succeed(running, &result, 1, &[]).unwrap();
        says(&updates, State::Installing).await;
        until("the updater is started", || {
            dir.path().join("started").exists()
        })
        .await;
        shutdown.cancel();
    };
    tokio::join!(work, reported);
    let request = updates.read("request");
    assert!(request.contains("attempt=1\n"), "{request}");
}

#[tokio::test]
async fn an_update_that_is_withdrawn_while_an_operation_runs_never_begins() {
    let dir = tempfile::tempdir().unwrap();
    let journal = Journal::in_memory().unwrap();
    let running = operation(&journal);
    let updates = updates(dir.path(), "");
    let shutdown = CancellationToken::new();
    let work = run(&updates, &journal, shutdown.clone());
    let reported = async {
        updates.answered(Some(&rollback(1)));
        says(&updates, State::Waiting).await;
        updates.answered(None);
        let result = agent::HostOperation::default();
        journal.succeed(running, &result, 1, &[]).unwrap();
        // one that is refused at once, which comes after all that the first one did
        let bad = pb::AgentUpdate {
            version: String::new(),
            ..rollback(2)
        };
        updates.answered(Some(&bad));
        says(&updates, State::Failed).await;
        shutdown.cancel();
    };
    tokio::join!(work, reported);
    assert!(!dir.path().join("started").exists());
    assert!(!updates.folder.join("request").exists());
}

#[tokio::test]
async fn another_turn_waits_for_the_updater_and_finds_that_the_late_one_has_brought_the_version() {
    let dir = tempfile::tempdir().unwrap();
    let journal = Journal::in_memory().unwrap();
    let folder = dir.path().join("update");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("request"), request(&rollback(1))).unwrap();
    let updates = updates(dir.path(), "");
    let again = pb::AgentUpdate {
        version: build::version().to_owned(),
        ..rollback(2)
    };
    let shutdown = CancellationToken::new();
    let work = run(&updates, &journal, shutdown.clone());
    let reported = async {
        updates.answered(Some(&again));
        until("the updater is started again", || {
            dir.path().join("started").exists()
        })
        .await;
        assert_eq!(updates.report().unwrap().state(), State::Waiting);
        let ended = format!(
            "rollout={}\nattempt=1\nstate=installed\nreason=\n",
            Uuid::from_u128(7)
        );
        std::fs::write(folder.join("outcome"), ended).unwrap();
        says(&updates, State::Installed).await;
        shutdown.cancel();
    };
    tokio::join!(work, reported);
    assert!(
        updates.read("request").contains("attempt=1\n"),
        "nothing new was given"
    );
}

#[tokio::test]
async fn an_agent_that_cannot_say_that_it_is_ready_tries_at_the_next_answer() {
    let dir = tempfile::tempdir().unwrap();
    let updates = updates(dir.path(), "");
    // a folder in the place of the file
    std::fs::create_dir_all(updates.folder.join("ready")).unwrap();
    updates.answered(None);
    assert!(updates.read("ready").is_empty());
    std::fs::remove_dir(updates.folder.join("ready")).unwrap();
    updates.answered(None);
    assert_eq!(updates.read("ready").trim(), build::version());
}
