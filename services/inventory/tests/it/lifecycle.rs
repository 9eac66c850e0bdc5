//! The lifecycle of a node as operators see and shape it: onboarding, configuration, retirement, deletion, history.
use gpuaas_common::Error;
use gpuaas_proto::gpuaas::agent::v1::ReadinessReport;
use gpuaas_proto::gpuaas::common::v1::SlotStatus;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_proto::gpuaas::inventory::v1::{self as api, NodeLifeState, OnboardingState};
use tonic::Code;

use crate::discovery::{discover, ended};
use crate::host::{Host, good};
use crate::ready::Ready;
use crate::world::{World, refused, until};

/// State of a node's lifecycle, and the steps of its onboarding that are done or current.
async fn lifecycle(world: &World, node_id: &str) -> (NodeLifeState, Vec<String>, String) {
    let status = world.status(node_id).await;
    assert_eq!(status.onboarding.len(), 8);
    let of = |state: OnboardingState| {
        let steps = status.onboarding.iter();
        steps
            .filter(move |step| step.state() == state)
            .map(|step| step.name.clone())
    };
    let done = of(OnboardingState::Done).collect();
    let current = of(OnboardingState::Current).next().unwrap_or_default();
    let life = status.life.expect("a life");
    (life.state(), done, current)
}

async fn update(
    world: &World,
    key: &str,
    request: api::UpdateNodeRequest,
) -> Result<api::Node, Error> {
    let answer = world.nodes().update_node(world.admin(key, request)).await;
    Ok(answer.map_err(Error::from)?.into_inner())
}

async fn retire(world: &World, node_id: &str, key: &str) -> Result<api::Node, Error> {
    let request = api::RetireNodeRequest {
        node_id: node_id.into(),
        reason: "scrapped".into(),
        ..Default::default()
    };
    let answer = world.nodes().retire_node(world.admin(key, request)).await;
    Ok(answer.map_err(Error::from)?.into_inner())
}

async fn delete(world: &World, node_id: &str, key: &str) -> Result<(), Error> {
    let request = api::DeleteNodeRequest {
        node_id: node_id.into(),
        ..Default::default()
    };
    let answer = world.nodes().delete_node(world.admin(key, request)).await;
    answer.map(|_| ()).map_err(Error::from)
}

async fn names(world: &World, include_retired: bool) -> Vec<String> {
    let request = api::ListNodesRequest {
        include_retired,
        ..Default::default()
    };
    let listed = world.nodes().list_nodes(world.admin("", request)).await;
    let nodes = listed.expect("a list").into_inner().nodes;
    nodes
        .into_iter()
        .map(|node| node.config.expect("a config").hostname)
        .collect()
}

#[tokio::test]
async fn a_22_a_23_every_step_of_the_onboarding_is_shown_and_none_is_skipped() {
    let world = World::start().await;
    let node = world.create_node("n1").await;
    let (state, done, current) = lifecycle(&world, &node.id).await;
    assert_eq!(
        (state, done.len(), current.as_str()),
        (NodeLifeState::Registered, 0, "commission")
    );
    // no step is reached by calling it
    let early = api::DiscoverTopologyRequest {
        node_id: node.id.clone(),
    };
    let early = refused(
        world
            .nodes()
            .discover_topology(world.admin("d0", early))
            .await,
    );
    assert_eq!(early.reason(), ErrorReason::HostNotReady);

    let host = Host::enrol(&world, &node.id).await;
    let (state, done, current) = lifecycle(&world, &node.id).await;
    assert_eq!(
        (state, current.as_str()),
        (NodeLifeState::Enrolled, "deploy")
    );
    assert_eq!(done, ["commission", "tag"]);
    // a host of another mode proves nothing for this one
    let other = ReadinessReport {
        host_profile: "gpuaas-profile-baremetal".into(),
        ..good()
    };
    host.heartbeat(other).await.expect("taken");
    let (state, _, current) = lifecycle(&world, &node.id).await;
    assert_eq!(
        (state, current.as_str()),
        (NodeLifeState::Validating, "tag")
    );
    let status = world.status(&node.id).await;
    assert_eq!(
        (status.schedulable, status.blockers),
        (false, vec!["profile_mismatch".to_owned()])
    );

    host.send_heartbeat().await;
    let (state, _, current) = lifecycle(&world, &node.id).await;
    assert_eq!(
        (state, current.as_str()),
        (NodeLifeState::Validating, "discover")
    );
    discover(&world, &node.id, "d1").await;
    let discovery = ended(&world, &node.id).await.id;
    assert_eq!(lifecycle(&world, &node.id).await.2, "review");
    let ready = Ready { world, host };
    ready
        .approve("a1", &discovery, &[0, 1])
        .await
        .expect("approved");
    assert_eq!(lifecycle(&ready.world, &node.id).await.2, "activate");
    ready.world.ledger.wipe(&node.id).await;
    until("the ledger has taken it in", || async {
        lifecycle(&ready.world, &node.id).await.0 == NodeLifeState::Ready
    })
    .await;
    let (state, done, current) = lifecycle(&ready.world, &node.id).await;
    assert_eq!(
        (state, done.len(), current.as_str()),
        (NodeLifeState::Ready, 8, "")
    );
    ready.world.ledger.say(&node.id, "cordoned").await;
    let (state, _, current) = lifecycle(&ready.world, &node.id).await;
    assert_eq!(
        (state, current.as_str()),
        (NodeLifeState::Cordoned, "activate")
    );
}

/// how long each step took, from the times of the history.
// partly A-21: of what MAAS, cloud-init and the site's bootstrap do, only the end is seen
#[tokio::test]
async fn a_49_labels_change_any_time_mode_and_limit_only_out_of_service() {
    let (ready, discovery) = Ready::start(|_| {}).await;
    ready
        .approve_and_wipe("a1", &discovery, &[0])
        .await
        .expect("approved");
    let (world, node_id) = (&ready.world, ready.host.node_id());
    let labels = |value: &str| api::UpdateNodeRequest {
        node_id: node_id.into(),
        labels: Some(api::NodeLabels {
            labels: [("rack".to_owned(), value.to_owned())].into(),
        }),
        ..Default::default()
    };
    let before = world.get_node(node_id).await;
    let labelled = update(world, "l1", labels("r4")).await.expect("labelled");
    assert_eq!(
        labelled.metadata.clone().expect("metadata").labels["rack"],
        "r4"
    );
    assert_ne!(labelled.etag, before.etag);
    let stale = api::UpdateNodeRequest {
        etag: before.etag.clone(),
        ..labels("r5")
    };
    let stale = update(world, "l2", stale).await.expect_err("stale");
    assert_eq!(
        (stale.code(), stale.reason()),
        (Code::Aborted, ErrorReason::EtagStale)
    );
    let again = update(world, "l1", labels("r4"))
        .await
        .expect("the same key");
    assert_eq!(again.etag, labelled.etag);
    let moved = |rack: &str| api::UpdateNodeRequest {
        node_id: node_id.into(),
        rack: Some(rack.to_owned()),
        ..Default::default()
    };
    let now = update(world, "k1", moved("hall-2.r7"))
        .await
        .expect("moved");
    assert_eq!(now.config.expect("a config").rack, "hall-2.r7");
    until("the ledger has the rack", || async {
        world.ledger.rack(node_id).await == "hall-2.r7"
    })
    .await;
    let bad = update(world, "k2", moved("r 7")).await.expect_err("bad");
    assert_eq!(bad.fields()[0].0, "rack");
    let back = update(world, "k3", moved("")).await.expect("unknown again");
    let labelled = api::Node {
        etag: back.etag,
        ..labelled
    };
    let bad = update(world, "l3", labels("a\nb")).await.expect_err("bad");
    assert_eq!(bad.fields()[0].0, "labels[rack]");

    let desired = api::UpdateNodeRequest {
        node_id: node_id.into(),
        mode: "baremetal".into(),
        max_vms_per_node: Some(3),
        reason: "retagged".into(),
        ..Default::default()
    };
    let refused = update(world, "m1", desired.clone())
        .await
        .expect_err("schedulable");
    assert_eq!(refused.reason(), ErrorReason::StateConflict);
    assert_eq!(refused.metadata()["state"], "schedulable; cordon it first");
    assert_eq!(
        world.get_node(node_id).await.etag,
        labelled.etag,
        "nothing changed"
    );
    world.ledger.say(node_id, "cordoned").await;
    let changed = update(world, "m1", desired).await.expect("out of service");
    let config = changed.config.expect("a config");
    assert_eq!(
        (config.mode.as_str(), config.max_vms_per_node),
        ("baremetal", 3)
    );
    let changes: Vec<(Option<String>, Option<String>)> = sqlx::query_as(
        "SELECT detail->>'before_digest', detail->>'after_digest' FROM inventory.audit WHERE action = 'node.update'",
    )
    .fetch_all(&world.owner().await)
    .await
    .expect("audit rows");
    assert!(!changes.is_empty());
    for (before, after) in changes {
        assert!(
            before.is_some() && after.is_some() && before != after,
            "P10"
        );
    }
    until("the ledger has it", || async {
        world.ledger.configured(node_id).await == ("baremetal".to_owned(), 3)
    })
    .await;

    let request = api::ListNodeHistoryRequest {
        node_id: node_id.into(),
        ..Default::default()
    };
    let history = world
        .nodes()
        .list_node_history(world.admin("", request))
        .await;
    let entries = history.expect("a history").into_inner().entries;
    let of = |state: &str| {
        let found = entries.iter().find(|entry| entry.state == state);
        found.unwrap_or_else(|| panic!("{state} is not in {entries:?}"))
    };
    assert_eq!(
        (
            of("configured").reason.as_str(),
            of("configured").principal.as_str()
        ),
        ("retagged", "user:root")
    );
    assert_eq!(of("registered").principal, "user:root");
    assert_eq!(of("enrolled").principal, format!("node:{node_id}"));
    assert_eq!(of("ready").principal, "");
    assert_eq!(of("cordoned").reason, "by the test");
    //
    let times = ["registered", "enrolled", "ready"].map(|state| {
        let time = of(state).time.expect("a time");
        (time.seconds, time.nanos)
    });
    assert!(times.is_sorted(), "{times:?}");
    assert!(times[0] < times[2], "{times:?}");

    // of both parts of the history, what is asked for, in the order that is
    let selected = async |filter: &str, order_by: &str| {
        let request = api::ListNodeHistoryRequest {
            node_id: node_id.into(),
            filter: filter.into(),
            order_by: order_by.into(),
            ..Default::default()
        };
        let history = world
            .nodes()
            .list_node_history(world.admin("", request))
            .await;
        history.map(|history| history.into_inner().entries)
    };
    let mut oldest = entries.clone();
    oldest.reverse();
    assert_eq!(selected("", "time").await.expect("a history"), oldest);
    // and page by page, with the entries of both parts between each other
    for (order_by, all) in [("", &entries), ("time", &oldest)] {
        let mut pages = Vec::new();
        let mut page_token = String::new();
        loop {
            let request = api::ListNodeHistoryRequest {
                node_id: node_id.into(),
                order_by: order_by.into(),
                page_size: 2,
                page_token,
                ..Default::default()
            };
            let page = world
                .nodes()
                .list_node_history(world.admin("", request))
                .await;
            let page = page.expect("a page").into_inner();
            assert!(page.next_page_token.is_empty() || page.entries.len() == 2);
            pages.extend(page.entries);
            page_token = page.next_page_token;
            if page_token.is_empty() {
                break;
            }
        }
        assert_eq!(&pages, all, "{order_by}");
    }
    // what the ledger says after a page without an entry of it is on no later page
    let mut walked = Vec::new();
    let mut request = api::ListNodeHistoryRequest {
        node_id: node_id.into(),
        filter: "state = configured OR state = cordoned OR state = draining".into(),
        page_size: 1,
        ..Default::default()
    };
    loop {
        let asked = world.admin("", request.clone());
        let page = world.nodes().list_node_history(asked).await;
        let page = page.expect("a page").into_inner();
        walked.extend(page.entries.into_iter().map(|entry| entry.state));
        if walked.len() == 1 {
            world.ledger.say(node_id, "draining").await;
        }
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() {
            break;
        }
    }
    let states = entries.iter().map(|entry| entry.state.as_str());
    let before: Vec<&str> = states
        .filter(|state| ["configured", "cordoned"].contains(state))
        .collect();
    assert_eq!(before[..2], ["configured", "cordoned"]);
    assert_eq!(walked, before);
    let newest = selected("state = draining", "").await.expect("a history");
    assert_eq!(newest.len(), 1, "of those who begin now");
    let foreign = api::ListNodeHistoryRequest {
        node_id: node_id.into(),
        page_token: "x".into(),
        ..Default::default()
    };
    let foreign = world
        .nodes()
        .list_node_history(world.admin("", foreign))
        .await;
    assert_eq!(
        crate::world::refused(foreign).reason(),
        ErrorReason::PageTokenInvalid
    );
    let some = "state = registered OR state = cordoned";
    let some = selected(some, "time").await.expect("a history");
    assert_eq!(some.first(), Some(of("registered")));
    assert!(
        some.iter().skip(1).all(|entry| entry.state == "cordoned") && some.len() > 1,
        "{some:?}"
    );
    for (filter, order_by, field) in [("seq = 1", "", "filter"), ("", "state", "order_by")] {
        let error =
            crate::world::refused(selected(filter, order_by).await.map(tonic::Response::new));
        assert_eq!(error.fields()[0].0, field);
    }
}

#[tokio::test]
async fn a_retired_node_is_gone_for_good_and_its_name_is_free() {
    let (ready, discovery) = Ready::start(|_| {}).await;
    ready
        .approve_and_wipe("a1", &discovery, &[0])
        .await
        .expect("approved");
    let (world, node_id) = (&ready.world, ready.host.node_id());
    let in_service = retire(world, node_id, "r1").await.expect_err("in service");
    assert_eq!(in_service.metadata()["state"], "in service; drain it first");
    world.ledger.say(node_id, "draining").await;
    let gone = retire(world, node_id, "r1").await.expect("retired");
    let life = gone.status.expect("a status").life.expect("a life");
    assert_eq!(
        (life.state(), life.reason.as_str(), life.principal.as_str()),
        (NodeLifeState::Retired, "scrapped", "user:root")
    );
    retire(world, node_id, "r1").await.expect("the same key");
    assert!(
        ready
            .slots()
            .await
            .iter()
            .all(|slot| slot.status() == SlotStatus::Retired)
    );
    // its host counts for nothing, and no other one enrols for it
    let heartbeat = refused(ready.host.heartbeat(good()).await);
    assert_eq!(heartbeat.code(), Code::PermissionDenied, "{heartbeat:?}");
    let request = api::CreateEnrolmentTokenRequest {
        node_id: node_id.into(),
    };
    let token = world
        .nodes()
        .create_enrolment_token(world.admin("t9", request))
        .await;
    assert_eq!(refused(token).reason(), ErrorReason::StateConflict);
    assert!(names(world, false).await.is_empty());
    assert_eq!(names(world, true).await, ["n1"]);
    let request = api::CreateNodeRequest {
        hostname: "n1".into(),
        region_code: crate::world::REGION.into(),
        mode: "slice".into(),
        ..Default::default()
    };
    let next = world
        .nodes()
        .create_node(world.admin("again", request))
        .await;
    assert_ne!(next.expect("the name is free").into_inner().id, node_id);
    assert_eq!(names(world, true).await, ["n1", "n1"]);
}

#[tokio::test]
async fn a_node_registered_by_mistake_is_deleted_and_shown_no_more() {
    let (ready, discovery) = Ready::start(|_| {}).await;
    ready
        .approve_and_wipe("a1", &discovery, &[0])
        .await
        .expect("approved");
    let (world, node_id) = (&ready.world, ready.host.node_id());
    let typo = world.create_node("typo").await;
    delete(world, &typo.id, "x1").await.expect("never enrolled");
    delete(world, node_id, "x2").await.expect("never used");
    delete(world, node_id, "x2").await.expect("the same key");
    assert!(names(world, true).await.is_empty());
    let get = api::GetNodeRequest {
        node_id: node_id.into(),
    };
    let gone = refused(world.nodes().get_node(world.admin("", get)).await);
    assert_eq!(gone.reason(), ErrorReason::NodeNotFound);
    let twice = delete(world, node_id, "x3").await.expect_err("gone");
    assert_eq!(twice.reason(), ErrorReason::NodeNotFound);
    assert!(world.audited().await.contains(&"node.delete".to_owned()));
}

#[tokio::test]
async fn a_115_a_slot_is_retired_once_and_keeps_its_history() {
    let (ready, discovery) = Ready::start(|_| {}).await;
    let slots = ready
        .approve_and_wipe("a1", &discovery, &[0, 1])
        .await
        .expect("approved");
    let (world, node_id, slot) = (&ready.world, ready.host.node_id(), &slots[0]);
    let request = |etag: &str| api::RetireResourceSlotRequest {
        node_id: node_id.into(),
        slot_id: slot.id.clone(),
        etag: etag.into(),
        reason: "disk worn out".into(),
    };
    let stale = world
        .nodes()
        .retire_resource_slot(world.admin("s0", request("0")))
        .await;
    assert_eq!(refused(stale).code(), Code::Aborted);
    for _ in 0..2 {
        let requested = world.admin("s1", request(&slot.etag));
        let gone = world.nodes().retire_resource_slot(requested).await;
        assert_eq!(
            gone.expect("retired").into_inner().status(),
            SlotStatus::Retired
        );
    }
    let request = api::ListResourceSlotHistoryRequest {
        node_id: node_id.into(),
        slot_id: slot.id.clone(),
        ..Default::default()
    };
    let reported = world
        .nodes()
        .list_resource_slot_history(world.admin("", request))
        .await;
    let entries = reported.expect("a history").into_inner().entries;
    let first = &entries[0];
    assert_eq!(
        (
            first.kind.as_str(),
            first.detail.as_str(),
            first.principal.as_str()
        ),
        ("retired", "disk worn out", "user:root")
    );
    assert!(
        entries.iter().any(|entry| entry.kind == "evidence"),
        "{entries:?}"
    );
    let request = api::ListResourceSlotHistoryRequest {
        node_id: node_id.into(),
        slot_id: slot.id.clone(),
        filter: "NOT kind = evidence".into(),
        order_by: "time".into(),
        ..Default::default()
    };
    let selected = world
        .nodes()
        .list_resource_slot_history(world.admin("", request))
        .await;
    let selected = selected.expect("a history").into_inner().entries;
    let mut others: Vec<_> = entries
        .iter()
        .filter(|entry| entry.kind != "evidence")
        .collect();
    others.reverse();
    assert_eq!(selected.iter().collect::<Vec<_>>(), others);
    let (mut pages, mut page_token) = (Vec::new(), String::new());
    loop {
        let request = api::ListResourceSlotHistoryRequest {
            node_id: node_id.into(),
            slot_id: slot.id.clone(),
            page_size: 1,
            page_token,
            ..Default::default()
        };
        let page = world
            .nodes()
            .list_resource_slot_history(world.admin("", request))
            .await;
        let page = page.expect("a page").into_inner();
        assert_eq!(page.entries.len(), 1);
        pages.extend(page.entries);
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    assert_eq!(pages, entries);
    // its place is free for what is discovered there now
    let again = ready.inspect("d2").await;
    let more = ready
        .approve_and_wipe("a2", &again, &[slot.slot_index])
        .await
        .expect("another slot");
    assert!(more.iter().all(|other| other.id != slot.id), "{more:?}");
    let retired = world.audited().await;
    assert_eq!(
        retired
            .iter()
            .filter(|action| *action == "slot.retire")
            .count(),
        1
    );
}

#[tokio::test]
async fn a_removed_node_never_enters_the_ledger_late() {
    let mut world = World::start().await;
    let node = world.create_node("n1").await;
    // its host enrols while the ledger is away: what is to be sent waits
    world.ledger.down().await;
    let _host = Host::enrol(&world, &node.id).await;
    let pool = world.db.owner_pool().await;
    let set_lease = async |sql: &str| {
        let sql = format!(
            "UPDATE inventory.ledger_sync SET lease_epoch = lease_epoch + 1, {sql} WHERE key = '{}'",
            node.id
        );
        let done = sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(&pool).await;
        done.expect("set");
    };
    // somebody is sending it, and may be late
    set_lease("lease_until = clock_timestamp() + interval '1 hour'").await;
    world.ledger.up();
    until("the ledger answers", || async {
        let early = delete(&world, &node.id, "x1").await;
        let early = early.expect_err("it is under way");
        early.message().contains("is being sent to the ledger")
    })
    .await;
    assert_eq!(names(&world, false).await, ["n1"]);
    set_lease("lease_until = NULL, not_before = clock_timestamp() + interval '1 hour'").await;
    delete(&world, &node.id, "x1").await.expect("deleted");
    let pending: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM inventory.ledger_sync WHERE kind = 'node' AND pushed_version < version",
    )
    .fetch_one(&pool)
    .await
    .expect("a count");
    assert_eq!(pending, 0);
    world.restart().await;
    assert!(world.ledger.node(&node.id).await.is_none());
}

/// The node is deleted as one without a host, and its host enrols between the two looks of the deletion.
#[tokio::test]
async fn a_node_whose_host_enrols_while_it_is_deleted_never_enters_the_ledger() {
    let mut world = World::start().await;
    let node = world.create_node("n1").await;
    world.ledger.down().await;
    let host = Host::enrol(&world, &node.id).await;
    let pool = world.db.owner_pool().await;
    let sync = |set: &str| {
        let key = &node.id;
        format!(
            "UPDATE inventory.ledger_sync SET lease_epoch = lease_epoch + 1, {set} WHERE key = '{key}'"
        )
    };
    let enrolled = |state: &str, instance: &str, heartbeat: &str| {
        let id = &node.id;
        format!(
            "UPDATE inventory.nodes SET state = '{state}', current_instance_id = {instance}, last_heartbeat_time = {heartbeat}
              WHERE id = '{id}'"
        )
    };
    let run = async |conn: &mut sqlx::PgConnection, sql: String| {
        let done = sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(conn).await;
        done.expect("run");
    };
    let mut conn = pool.acquire().await.expect("connection");
    // as it was before, and what follows from the enrolment is being sent once it is there
    run(&mut conn, enrolled("pending", "NULL", "NULL")).await;
    let in_flight = "lease_until = clock_timestamp() + interval '1 hour'";
    run(&mut conn, sync(in_flight)).await;
    world.ledger.up();
    let mut enrolment = pool.begin().await.expect("begin");
    let instance = format!("'{}'", host.enrolled.instance_id);
    run(
        &mut enrolment,
        enrolled("enrolled", &instance, "clock_timestamp()"),
    )
    .await;
    let transaction: String = sqlx::query_scalar("SELECT pg_current_xact_id()::xid::text")
        .fetch_one(&mut *enrolment)
        .await
        .expect("an id");
    let (deleted, ()) = tokio::join!(delete(&world, &node.id, "x1"), async {
        until("the deletion waits for the enrolment", || async {
            sqlx::query_scalar(
                "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND transactionid::text = $1)",
            )
            .bind(&transaction)
            .fetch_one(&pool)
            .await
            .expect("locks")
        })
        .await;
        enrolment.commit().await.expect("enrolled");
    });
    deleted.expect_err("the host is being sent to the ledger, or that does not answer yet");
    assert_eq!(names(&world, false).await, ["n1"]);
    run(
        &mut conn,
        sync("lease_until = NULL, not_before = clock_timestamp() + interval '1 hour'"),
    )
    .await;
    until("it is deleted", || async {
        delete(&world, &node.id, "x1").await.is_ok()
    })
    .await;
    world.restart().await;
    assert!(world.ledger.node(&node.id).await.is_none());
}

#[tokio::test]
async fn two_who_end_a_node_end_it_once() {
    let (ready, _) = Ready::start(|_| {}).await;
    let (world, node_id) = (&ready.world, ready.host.node_id());
    world.ledger.say(node_id, "draining").await;
    let (one, other) = tokio::join!(retire(world, node_id, "r1"), retire(world, node_id, "r2"));
    let (ended, refused) = match (one, other) {
        (Ok(ended), Err(refused)) | (Err(refused), Ok(ended)) => (ended, refused),
        both => panic!("{both:?}"),
    };
    assert_eq!(refused.reason(), ErrorReason::StateConflict, "{refused:?}");
    let life = ended.status.expect("a status").life.expect("a life");
    assert_eq!(life.state(), NodeLifeState::Retired);
    let audited = world.audited().await;
    let times = audited.iter().filter(|action| *action == "node.retire");
    assert_eq!(times.count(), 1);
}
