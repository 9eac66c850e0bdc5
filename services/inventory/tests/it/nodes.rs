//! Regions, nodes, tokens: bad input, idempotency, pages, audit.
use gpuaas_common::Error;
use gpuaas_proto::gpuaas::agent::v1::{HostDevices, ReadinessReport};
use gpuaas_proto::gpuaas::common::v1::EvidenceStatus;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_proto::gpuaas::inventory::v1::{self as api, Region};
use tonic::Code;

use crate::host::{Host, evidence, good};
use crate::world::{REGION, World, refused, until};

fn region(code: &str, enabled: bool, reason: &str) -> api::PutRegionRequest {
    let region = Region {
        code: code.into(),
        display_name: format!("Region {code}"),
        enabled,
        unavailable_reason: reason.into(),
        ..Region::default()
    };
    api::PutRegionRequest {
        region: Some(region),
    }
}

fn node(hostname: &str, region_code: &str, mode: &str) -> api::CreateNodeRequest {
    api::CreateNodeRequest {
        hostname: hostname.into(),
        region_code: region_code.into(),
        mode: mode.into(),
        max_vms_per_node: 0,
        ..Default::default()
    }
}

#[tokio::test]
async fn a_54_disabled_regions_are_listed_with_their_reason_page_by_page() {
    let world = World::start().await;
    let future = region("region-next", false, "opens in spring");
    world
        .region_admin()
        .put_region(world.admin("k1", future))
        .await
        .expect("put");
    until("the ledger knows both", || async {
        let known = (
            world.ledger.region("region-next").await,
            world.ledger.region(REGION).await,
        );
        let closed = (false, "opens in spring".to_owned());
        known == (Some(closed), Some((true, String::new())))
    })
    .await;
    let list = |token: String| api::ListRegionsRequest {
        page_size: 1,
        page_token: token,
        ..Default::default()
    };
    let ask = |request| world.request("user:alice", false, "", request);
    let first = world
        .regions()
        .list_regions(ask(list(String::new())))
        .await
        .expect("page")
        .into_inner();
    assert_eq!(
        (first.regions.len(), first.regions[0].code.as_str()),
        (1, REGION)
    );
    let second = world
        .regions()
        .list_regions(ask(list(first.next_page_token)))
        .await
        .expect("page")
        .into_inner();
    assert_eq!(second.next_page_token, "");
    let shown = &second.regions[0];
    assert_eq!(
        (shown.enabled, shown.unavailable_reason.as_str()),
        (false, "opens in spring")
    );
    let negative = api::ListRegionsRequest {
        page_size: -1,
        ..Default::default()
    };
    let error = refused(world.regions().list_regions(ask(negative)).await);
    assert_eq!(error.fields()[0].0, "page_size");
}

#[tokio::test]
async fn regions_are_filtered_and_ordered_page_by_page() {
    let world = World::start().await;
    for (code, enabled, reason) in [
        ("north", true, ""),
        ("east", false, "opens in spring"),
        ("west", false, "fire"),
    ] {
        let put = world.admin(code, region(code, enabled, reason));
        world.region_admin().put_region(put).await.expect("put");
    }
    let list = async |filter: &str, order_by: &str, page_token: String| {
        let request = api::ListRegionsRequest {
            page_size: 1,
            page_token,
            filter: filter.to_owned(),
            order_by: order_by.to_owned(),
        };
        let request = world.request("user:alice", false, "", request);
        world.regions().list_regions(request).await
    };
    for (filter, order_by, expected) in [
        ("", "", &["east", "north", REGION, "west"][..]),
        ("enabled = false", "", &["east", "west"]),
        ("NOT enabled = true", "display_name desc", &["west", "east"]),
        (
            "unavailable_reason:SPRING OR code = north",
            "create_time",
            &["north", "east"],
        ),
    ] {
        let (mut all, mut token) = (Vec::new(), String::new());
        loop {
            let page = list(filter, order_by, token).await.expect("a page");
            let page = page.into_inner();
            all.extend(page.regions.into_iter().map(|one| one.code));
            token = page.next_page_token;
            if token.is_empty() {
                break;
            }
        }
        assert_eq!(all, expected, "{filter} {order_by}");
    }
    for (filter, order_by, field) in [("revision = 1", "", "filter"), ("", "enabled", "order_by")] {
        let error = refused(list(filter, order_by, String::new()).await);
        assert_eq!(error.fields()[0].0, field);
    }
}

#[tokio::test]
async fn a_region_that_somebody_changed_meanwhile_is_not_replaced() {
    let world = World::start().await;
    let put = async |request: api::PutRegionRequest, etag: &str, key: &str| {
        let region = request.region.map(|region| Region {
            etag: etag.to_owned(),
            ..region
        });
        let request = world.admin(key, api::PutRegionRequest { region });
        world.region_admin().put_region(request).await
    };
    let error = refused(put(region("north", true, ""), "1", "k0").await);
    assert_eq!(error.reason(), ErrorReason::EtagStale, "there is none yet");
    let made = put(region("north", true, ""), "", "k1").await;
    let made = made.expect("put").into_inner();
    let close = || region("north", false, "fire");
    let closed = put(close(), &made.etag, "k2").await;
    let closed = closed.expect("the one that was read").into_inner();
    assert_ne!(closed.etag, made.etag);
    let audited = world.audited().await.len();
    let error = refused(put(region("north", true, ""), &made.etag, "k3").await);
    assert_eq!(
        (error.code(), error.reason(), error.fields()[0].0.as_str()),
        (Code::Aborted, ErrorReason::EtagStale, "etag")
    );
    assert_eq!(world.audited().await.len(), audited, "nothing has changed");
    // a repeat of what was done answers what is there now
    let again = put(close(), &made.etag, "k2").await;
    assert_eq!(again.expect("a repeat").into_inner(), closed);
    // who has read nothing decides nothing by it
    let opened = put(region("north", true, ""), "", "k4").await;
    assert_eq!(opened.expect("put").into_inner().etag, made.etag);
}

#[tokio::test]
async fn bad_regions_are_refused_and_change_nothing() {
    let world = World::start().await;
    let cases = [
        (api::PutRegionRequest { region: None }, "region"),
        (region("", true, ""), "region.code"),
        (region("Not_A_Label", true, ""), "region.code"),
        (region("fine", true, "why"), "region.unavailable_reason"),
        (
            region("fine", false, &"x".repeat(201)),
            "region.unavailable_reason",
        ),
        (
            region("fine", false, "fire\x1b[2J"),
            "region.unavailable_reason",
        ),
    ];
    for (number, (request, field)) in cases.into_iter().enumerate() {
        let error = refused(
            world
                .region_admin()
                .put_region(world.admin(&format!("k{number}"), request))
                .await,
        );
        assert_eq!(
            (error.code(), error.fields()[0].0.as_str()),
            (Code::InvalidArgument, field)
        );
    }
    let error = refused(
        world
            .region_admin()
            .put_region(world.admin("", region("fine", true, "")))
            .await,
    );
    assert_eq!(error.reason(), ErrorReason::IdempotencyKeyMissing);
    assert_eq!(
        world.audited().await,
        ["region.put"],
        "only the one of the start"
    );
}

#[tokio::test]
async fn users_may_not_administer() {
    let world = World::start().await;
    let request = world.request("user:alice", false, "k", node("n1", REGION, "slice"));
    let error = refused(world.nodes().create_node(request).await);
    assert_eq!(
        (error.code(), error.reason()),
        (Code::PermissionDenied, ErrorReason::PermissionDenied)
    );
}

#[tokio::test]
async fn a_01_nodes_get_ids_and_are_listed_by_name() {
    let world = World::start().await;
    for name in ["n2", "n1", "n3"] {
        world.create_node(name).await;
    }
    let page = |token: String| {
        world.admin(
            "",
            api::ListNodesRequest {
                page_size: 2,
                page_token: token,
                ..api::ListNodesRequest::default()
            },
        )
    };
    let first = world
        .nodes()
        .list_nodes(page(String::new()))
        .await
        .expect("page")
        .into_inner();
    let second = world
        .nodes()
        .list_nodes(page(first.next_page_token))
        .await
        .expect("page")
        .into_inner();
    let all: Vec<api::Node> = first.nodes.into_iter().chain(second.nodes).collect();
    let names: Vec<String> = all
        .iter()
        .filter_map(|node| node.config.clone())
        .map(|config| config.hostname)
        .collect();
    assert_eq!(
        (names, second.next_page_token.as_str()),
        (vec!["n1".into(), "n2".into(), "n3".into()], "")
    );
    for node in all {
        let id: uuid::Uuid = node.id.parse().expect("UUID");
        assert_eq!(id.get_version_num(), 7);
        let status = node.status.expect("status");
        assert_eq!(
            (status.state(), status.schedulable),
            (api::NodeState::Pending, false)
        );
        assert_eq!(status.blockers, ["not_enrolled"]);
    }
}

#[tokio::test]
async fn nodes_are_selected_by_filter_and_order() {
    let world = World::start().await;
    for name in ["n2", "n1", "n3"] {
        world.create_node(name).await;
    }
    let page = async |filter: &str, order_by: &str, page_token: &str| {
        let request = api::ListNodesRequest {
            page_size: 2,
            page_token: page_token.to_owned(),
            filter: filter.to_owned(),
            order_by: order_by.to_owned(),
            ..api::ListNodesRequest::default()
        };
        let answer = world.nodes().list_nodes(world.admin("", request)).await;
        let page = answer.map_err(Error::from)?.into_inner();
        let names = page.nodes.into_iter().filter_map(|node| node.config);
        let names: Vec<String> = names.map(|config| config.hostname).collect();
        Ok::<_, Error>((names.join(" "), page.next_page_token))
    };
    for (filter, order_by, expected) in [
        ("hostname != n2", "", "n1 n3"),
        ("hostname = n1 OR hostname = n3", "hostname desc", "n3 n1"),
        ("state = pending AND hostname:2", "", "n2"),
        ("state = enrolled", "", ""),
        (
            "lab = true OR agent_version:* OR last_heartbeat_time:*",
            "",
            "",
        ),
        ("create_time > 2099-01-01", "", ""),
        ("hostname = n2", "region_code, create_time desc", "n2"),
        ("labels:row", "", ""),
    ] {
        let (names, next) = page(filter, order_by, "").await.expect(filter);
        assert_eq!((names.as_str(), next.as_str()), (expected, ""), "{filter}");
    }
    let (names, token) = page("", "create_time", "").await.expect("the first page");
    assert_eq!(names, "n2 n1");
    let (names, end) = page("", "create_time", &token).await.expect("the rest");
    assert_eq!((names.as_str(), end.as_str()), ("n3", ""));
    for (filter, order_by, page_token, field) in [
        ("schedulable = true", "", "", "filter"),
        ("", "last_heartbeat_time", "", "order_by"),
        ("", "create_time desc", token.as_str(), "page_token"),
        ("lab = false", "create_time", &token, "page_token"),
    ] {
        let refused = page(filter, order_by, page_token).await;
        assert_eq!(refused.expect_err(field).fields()[0].0, field);
    }
}

#[tokio::test]
async fn bad_nodes_are_refused_and_change_nothing() {
    let world = World::start().await;
    let cases = [
        (
            node("", REGION, "slice"),
            Code::InvalidArgument,
            ErrorReason::FieldRequired,
            "hostname",
        ),
        (
            node("UPPER", REGION, "slice"),
            Code::InvalidArgument,
            ErrorReason::FieldInvalid,
            "hostname",
        ),
        (
            node("n1", "", "slice"),
            Code::InvalidArgument,
            ErrorReason::FieldRequired,
            "region_code",
        ),
        (
            node("n1", "nowhere", "slice"),
            Code::NotFound,
            ErrorReason::RegionUnknown,
            "region_code",
        ),
        (
            node("n1", REGION, ""),
            Code::InvalidArgument,
            ErrorReason::FieldRequired,
            "mode",
        ),
        (
            node("n1", REGION, "vm"),
            Code::InvalidArgument,
            ErrorReason::FieldInvalid,
            "mode",
        ),
    ];
    for (number, (request, code, reason, field)) in cases.into_iter().enumerate() {
        let error = refused(
            world
                .nodes()
                .create_node(world.admin(&format!("k{number}"), request))
                .await,
        );
        assert_eq!(
            (error.code(), error.reason(), error.fields()[0].0.as_str()),
            (code, reason, field)
        );
    }
    let error = refused(
        world
            .nodes()
            .get_node(world.admin(
                "",
                api::GetNodeRequest {
                    node_id: "x".into(),
                },
            ))
            .await,
    );
    assert_eq!(error.fields()[0].0, "node_id");
    let unknown = api::GetNodeRequest {
        node_id: uuid::Uuid::now_v7().to_string(),
    };
    assert_eq!(
        refused(world.nodes().get_node(world.admin("", unknown)).await).reason(),
        ErrorReason::NodeNotFound
    );
    let kept: i64 = sqlx::query_scalar("SELECT (SELECT count(*) FROM inventory.nodes) + (SELECT count(*) FROM inventory.idempotency)")
        .fetch_one(&world.owner().await)
        .await
        .expect("counts");
    assert_eq!(kept, 1, "the key of the region alone");
}

#[tokio::test]
async fn one_key_makes_one_node_and_one_name_belongs_to_one() {
    let world = World::start().await;
    let first = world.create_node("n1").await;
    assert_eq!(
        world.create_node("n1").await.id,
        first.id,
        "the same key and request"
    );
    let other = refused(
        world
            .nodes()
            .create_node(world.admin("n1", node("n2", REGION, "slice")))
            .await,
    );
    assert_eq!(
        (other.code(), other.reason()),
        (Code::AlreadyExists, ErrorReason::IdempotencyKeyReused)
    );
    let taken = refused(
        world
            .nodes()
            .create_node(world.admin("k2", node("n1", REGION, "slice")))
            .await,
    );
    assert_eq!(
        (taken.code(), taken.reason()),
        (Code::AlreadyExists, ErrorReason::AlreadyExists)
    );
    assert_eq!(taken.fields()[0].0, "hostname");
    assert_eq!(world.audited().await, ["region.put", "node.create"]);
}

#[tokio::test]
async fn a_node_is_shown_while_the_ledger_does_not_answer() {
    let mut world = World::start().await;
    let node = world.create_node("n1").await;
    world.ledger.down().await;
    let status = world.status(&node.id).await;
    assert!(
        status
            .evidence
            .iter()
            .any(|evidence| evidence.check == "ledger"),
        "{:?}",
        status.evidence
    );
}

#[tokio::test]
async fn a_request_sent_three_times_at_once_makes_one_node() {
    let world = World::start().await;
    let send = || async {
        let request = world.admin("k", node("n1", REGION, "slice"));
        // who comes later waits for the first
        let made = world.nodes().create_node(request).await;
        made.expect("made once").into_inner().id
    };
    let (one, two, three) = tokio::join!(send(), send(), send());
    assert_eq!((&one, &one), (&two, &three));
    assert_eq!(world.audited().await, ["region.put", "node.create"]);
}

/// Before, each of these was answered as a fault of ours.
#[tokio::test]
async fn a_text_that_the_database_cannot_hold_is_a_bad_request() {
    let world = World::start().await;
    let put = region("fine", false, "down\0");
    let error = refused(
        world
            .region_admin()
            .put_region(world.admin("k1", put))
            .await,
    );
    assert_eq!(
        (error.code(), error.reason()),
        (Code::InvalidArgument, ErrorReason::FieldInvalid)
    );
    let page = api::ListRegionsRequest {
        page_token: gpuaas_common::page::encode(&["a\0", "a\0"], &["regions", "", "code"]),
        ..Default::default()
    };
    let error = refused(
        world
            .regions()
            .list_regions(world.request("user:a", false, "", page))
            .await,
    );
    assert_eq!(error.reason(), ErrorReason::PageTokenInvalid);
}

/// The first answer, and the one to a report that says what is known.
#[tokio::test]
async fn inc_07_a_host_is_told_the_mode_of_its_node() {
    let world = World::start().await;
    for mode in ["slice", "baremetal"] {
        let request = world.admin(mode, node(mode, REGION, mode));
        let node = world.nodes().create_node(request).await.expect("a node");
        let host = Host::enrol(&world, &node.into_inner().id).await;
        for _ in 0..3 {
            let answer = host.heartbeat(good()).await.expect("taken");
            assert_eq!(answer.into_inner().node_mode, mode);
        }
    }
}

#[tokio::test]
async fn d_80_a_check_that_names_devices_is_of_their_slots_and_not_of_the_host() {
    let world = World::start().await;
    let node = world.create_node("n1").await;
    let host = Host::enrol(&world, &node.id).await;
    let report = |devices: Vec<String>| {
        let mut disks = evidence("slot_disks", EvidenceStatus::Fail);
        disks.devices = devices;
        let mut report: ReadinessReport = good();
        report.evidence.push(disks);
        report
    };
    let mut of_a_slot = report(vec!["lab-disk:0190a5b0-0000-7000-8000-000000000001".into()]);
    // without the host's devices nobody could tell whose slot it is
    host.heartbeat(of_a_slot.clone()).await.expect("taken");
    assert_eq!(world.status(&node.id).await.blockers, ["slot_disks"]);
    of_a_slot.devices = Some(HostDevices::default());
    host.heartbeat(of_a_slot).await.expect("taken");
    let status = world.status(&node.id).await;
    assert_eq!(status.blockers, Vec::<String>::new());
    let shown = status.evidence.iter().find(|one| one.check == "slot_disks");
    assert_eq!(shown.map(|one| one.devices.len()), Some(1));
    host.heartbeat(report(Vec::new())).await.expect("taken");
    assert_eq!(world.status(&node.id).await.blockers, ["slot_disks"]);
}
