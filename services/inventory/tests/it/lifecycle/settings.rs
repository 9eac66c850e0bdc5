//! Labels, mode and limit of a node.
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_proto::gpuaas::inventory::v1 as api;
use tonic::Code;

use super::update;
use crate::ready::Ready;
use crate::world::{World, until};

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

/// A repeat asks the ledger nothing: it has its answer.
#[tokio::test]
async fn p4_a_repeated_change_of_a_node_needs_no_ledger() {
    let mut world = World::start().await;
    let node = world.create_node("n1").await;
    let moved = |rack: &str| api::UpdateNodeRequest {
        node_id: node.id.clone(),
        rack: Some(rack.to_owned()),
        ..Default::default()
    };
    update(&world, "k1", moved("r1")).await.expect("moved");
    world.ledger.down().await;
    update(&world, "k2", moved("r2"))
        .await
        .expect_err("the ledger is away");
    let again = update(&world, "k1", moved("r1")).await;
    let again = again.expect("the same key");
    assert_eq!(again.config.expect("a config").rack, "r1");
    let other = update(&world, "k1", moved("r2")).await;
    let other = other.expect_err("another request");
    assert_eq!(other.reason(), ErrorReason::IdempotencyKeyReused);
    let moves = world.audited().await;
    let moves = moves.iter().filter(|action| *action == "node.update");
    assert_eq!(moves.count(), 1);
}
