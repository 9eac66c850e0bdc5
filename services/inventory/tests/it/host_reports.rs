//! Reports of validate-host that operators attach to nodes.
use gpuaas_common::Error;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_proto::gpuaas::inventory::v1 as api;
use tonic::Code;

use crate::world::{World, refused};

fn report(hostname: &str, version: &str) -> api::HostReport {
    api::HostReport {
        schema: 1,
        agent_version: version.into(),
        time: Some(prost_types::Timestamp {
            seconds: 1_790_000_000,
            nanos: 0,
        }),
        kind: "slice host".into(),
        host: [("hostname".to_owned(), hostname.to_owned())].into(),
        checks: vec![api::HostReportCheck {
            check: "iommu".into(),
            status: "FAIL".into(),
            severity: "hard".into(),
            ..Default::default()
        }],
        blockers: vec!["iommu".into()],
        ..Default::default()
    }
}

fn attach(node_id: &str, report: api::HostReport) -> api::AttachHostReportRequest {
    api::AttachHostReportRequest {
        node_id: node_id.into(),
        report: Some(report),
    }
}

async fn list(world: &World, node_id: &str, page_size: i32) -> Vec<api::AttachedHostReport> {
    let request = api::ListHostReportsRequest {
        node_id: node_id.into(),
        page_size,
        ..Default::default()
    };
    let mut nodes = world.nodes();
    let listed = nodes.list_host_reports(world.admin("", request)).await;
    listed.expect("a list").into_inner().reports
}

#[tokio::test]
async fn i_219_a_report_is_kept_with_who_attached_it_and_when() {
    let world = World::start().await;
    let node = world.create_node("gpu-07").await;
    assert!(list(&world, &node.id, 0).await.is_empty());
    let first = world
        .nodes()
        .attach_host_report(world.admin("a1", attach(&node.id, report("gpu-07", "1.0"))))
        .await
        .expect("attached")
        .into_inner();
    assert_eq!(first.report, Some(report("gpu-07", "1.0")));
    assert!(!first.principal.is_empty() && first.attach_time.is_some());
    // the same key again, and with another report
    let again = world
        .nodes()
        .attach_host_report(world.admin("a1", attach(&node.id, report("gpu-07", "1.0"))))
        .await;
    assert_eq!(again.expect("replayed").into_inner(), first);
    let other = world
        .nodes()
        .attach_host_report(world.admin("a1", attach(&node.id, report("gpu-07", "2.0"))))
        .await;
    assert_eq!(refused(other).reason(), ErrorReason::IdempotencyKeyReused);
    assert_eq!(
        list(&world, &node.id, 0).await,
        std::slice::from_ref(&first)
    );
    let (principal, detail): (String, serde_json::Value) = sqlx::query_as(
        "SELECT principal, detail FROM inventory.audit WHERE action = 'node.attach_report' AND resource_id = $1",
    )
    .bind(&node.id)
    .fetch_one(&world.owner().await)
    .await
    .expect("one audit row");
    assert_eq!(principal, first.principal);
    assert_eq!(
        (&detail["failed"], &detail["agent_version"]),
        (&1.into(), &"1.0".into())
    );

    for number in 0..11 {
        let version = format!("3.{number}");
        let key = format!("b{number}");
        let answer = world
            .nodes()
            .attach_host_report(world.admin(&key, attach(&node.id, report("gpu-07", &version))))
            .await;
        answer.expect("attached");
    }
    let versions = |all: Vec<api::AttachedHostReport>| -> Vec<String> {
        let version = |one: api::AttachedHostReport| one.report.expect("a report").agent_version;
        all.into_iter().map(version).collect()
    };
    assert_eq!(versions(list(&world, &node.id, 0).await), ["3.10"]);
    let kept = versions(list(&world, &node.id, 10).await);
    assert_eq!(
        (kept.len(), kept[9].as_str()),
        (10, "3.1"),
        "the latest ten stay"
    );
}

#[tokio::test]
async fn what_is_no_report_of_the_node_is_refused_and_changes_nothing() {
    let world = World::start().await;
    let node = world.create_node("gpu-07").await;
    let before = world.audited().await;
    let refuse = async |request: api::AttachHostReportRequest| -> Error {
        refused(
            world
                .nodes()
                .attach_host_report(world.admin("k", request))
                .await,
        )
    };
    let none = api::AttachHostReportRequest {
        node_id: node.id.clone(),
        report: None,
    };
    assert_eq!(refuse(none).await.fields()[0].0, "report");
    let other = refuse(attach(&node.id, report("gpu-08", "1.0"))).await;
    assert_eq!(other.fields()[0].0, "report.host.hostname");
    let newer = api::HostReport {
        schema: 2,
        ..report("gpu-07", "1.0")
    };
    assert_eq!(
        refuse(attach(&node.id, newer)).await.fields()[0].0,
        "report.schema"
    );
    let unknown = uuid::Uuid::now_v7().to_string();
    let unknown = refuse(attach(&unknown, report("gpu-07", "1.0"))).await;
    assert_eq!(
        (unknown.code(), unknown.reason()),
        (Code::NotFound, ErrorReason::NodeNotFound)
    );
    assert_eq!(world.audited().await, before);
    assert!(list(&world, &node.id, 10).await.is_empty());
    let size = api::ListHostReportsRequest {
        node_id: node.id.clone(),
        page_size: -1,
        ..Default::default()
    };
    let size = refused(world.nodes().list_host_reports(world.admin("", size)).await);
    assert_eq!(size.fields()[0].0, "page_size");
}

#[tokio::test]
async fn the_reports_of_a_node_are_selected_by_what_they_say() {
    let world = World::start().await;
    let node = world.create_node("gpu-07").await;
    let good = api::HostReport {
        checks: vec![api::HostReportCheck {
            check: "iommu".into(),
            status: "PASS".into(),
            ..Default::default()
        }],
        blockers: vec![],
        time: Some(prost_types::Timestamp {
            seconds: 1_780_000_000,
            nanos: 123,
        }),
        ..report("gpu-07", "2.0")
    };
    let of_lab = api::HostReport {
        kind: "lab host".into(),
        ..report("gpu-07", "3.0")
    };
    for (key, report) in [
        ("a", report("gpu-07", "1.0")),
        ("b", good),
        ("c", of_lab),
        ("d", report("gpu-07", "10.0")),
    ] {
        let answer = world
            .nodes()
            .attach_host_report(world.admin(key, attach(&node.id, report)))
            .await;
        answer.expect("attached");
    }
    let ask = async |filter: &str, order_by: &str, page_size: i32| {
        let request = api::ListHostReportsRequest {
            node_id: node.id.clone(),
            page_size,
            filter: filter.into(),
            order_by: order_by.into(),
            ..Default::default()
        };
        let mut nodes = world.nodes();
        nodes.list_host_reports(world.admin("", request)).await
    };
    let versions = async |filter: &str, order_by: &str| -> Vec<String> {
        let answer = ask(filter, order_by, 10).await.expect(filter);
        let reports = answer.into_inner().reports.into_iter();
        let version = |one: api::AttachedHostReport| one.report.expect("a report").agent_version;
        reports.map(version).collect()
    };
    assert_eq!(versions("", "").await, ["10.0", "3.0", "2.0", "1.0"]);
    // more than a node has are all, and pages are of those that are selected
    let all = ask("", "", 500).await.expect("all").into_inner();
    assert_eq!((all.reports.len(), all.next_page_token.as_str()), (4, ""));
    let request = |page_token| api::ListHostReportsRequest {
        node_id: node.id.clone(),
        page_size: 3,
        order_by: "attach_time".into(),
        page_token,
        ..Default::default()
    };
    let (mut found, mut page_token) = (Vec::new(), String::new());
    loop {
        let request = world.admin("", request(page_token));
        let page = world.nodes().list_host_reports(request).await;
        let page = page.expect("a page").into_inner();
        found.push(page.reports.len());
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    assert_eq!(found, [3, 1]);
    assert_eq!(
        versions(
            "failed_checks > 0 AND NOT kind = \"lab host\"",
            "attach_time"
        )
        .await,
        ["1.0", "10.0"]
    );
    assert_eq!(versions("blocked = false", "").await, ["2.0"]);
    assert_eq!(versions("time < 2026-07-01", "").await, ["2.0"]);
    assert_eq!(
        versions("", "time, attach_time desc").await,
        ["2.0", "10.0", "3.0", "1.0"]
    );
    // one, unless more are asked for: the first of those that match
    let first = ask("agent_version:\".0\" AND blocked = true", "attach_time", 0).await;
    let first = first.expect("a list").into_inner().reports;
    assert_eq!(first.len(), 1);
    let own = ask(&format!("id = {}", first[0].id), "", 10).await;
    assert_eq!(own.expect("a list").into_inner().reports, first);
    assert!(versions("principal = nobody", "").await.is_empty());
    assert_eq!(versions("attach_time > 2020-01-01", "").await.len(), 4);
    let unknown = refused(ask("hostname = gpu-07", "", 1).await);
    assert_eq!(unknown.fields()[0].0, "filter");
    let unsortable = refused(ask("", "blocked", 1).await);
    assert_eq!(unsortable.fields()[0].0, "order_by");
}
