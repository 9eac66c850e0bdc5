//! What users see of allocations, and how they end them.

use gpuaas_common::Error;
use gpuaas_proto::gpuaas::allocation::v1 as pb;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use tonic::Code;
use uuid::Uuid;

use crate::platform::{Platform, good};

/// C-16, C-19
#[tokio::test]
async fn c_15_the_read_model_tells_progress_access_and_names() {
    let platform = Platform::start().await;
    platform
        .world
        .host
        .script(|script| script.stay = Some(("provision", "clone")));
    let labels = [("team".to_owned(), "ml".to_owned())].into();
    let created = platform
        .create(
            pb::CreateAllocationRequest {
                labels,
                ..good("web")
            },
            "key-1",
        )
        .await
        .expect("created");
    let id: Uuid = created.id.parse().expect("a uuid");
    let status = created.status.expect("a status");
    assert_eq!(status.vm, format!("gpuaas-slice-{}", id.simple()), "c_17");
    assert!(status.lab);
    assert_eq!(created.metadata.expect("metadata").labels["team"], "ml");
    let cloning = "SELECT coalesce(bool_or(progress ->> 'step' = 'clone'), false) FROM workflows WHERE allocation_id = $1";
    platform.world.until("clone", cloning, id).await;
    let progress = platform
        .get(&created.id)
        .await
        .status
        .expect("a status")
        .progress
        .expect("progress");
    assert_eq!(
        (
            progress.step.as_str(),
            progress.steps_done,
            progress.steps_total
        ),
        ("clone", 3, 14)
    );
    assert!(!progress.message.is_empty());
    platform.world.host.script(|script| script.stay = None);
    platform.world.until_state(id, "active").await;
    platform.world.until_idle(id).await;
    let status = platform.get(&created.id).await.status.expect("a status");
    assert_eq!(
        (status.state(), status.power()),
        (pb::AllocationState::Active, pb::PowerState::Running)
    );
    assert!(status.progress.is_none() && status.active_time.is_some());
    let access = status.access.expect("access");
    assert!(access.ssh_ready);
    assert_eq!(
        (access.ssh_port, access.private_ip.as_str()),
        (22, "10.100.0.10"),
        "c_16"
    );
    let hex = access.guest_user.strip_prefix("u_").expect("c_19");
    assert!(
        hex.len() == 16 && hex.bytes().all(|b| b.is_ascii_hexdigit()),
        "c_19: {}",
        access.guest_user
    );
}

#[tokio::test]
async fn c_05_a_failed_allocation_says_why_and_what_to_do() {
    let platform = Platform::start().await;
    platform.world.host.script(|script| {
        let class = gpuaas_proto::gpuaas::agent::v1::FailureClass::Guest;
        script.fail = Some(("provision", "wait_login", ErrorReason::GuestNoLogin, class));
    });
    let created = platform
        .create(good("web"), "key-1")
        .await
        .expect("created");
    let id: Uuid = created.id.parse().expect("a uuid");
    platform.world.until_state(id, "failed").await;
    platform.world.until_idle(id).await;
    let status = platform.get(&created.id).await.status.expect("a status");
    let failure = status.failure.expect("a failure");
    assert_eq!(
        (failure.reason.as_str(), failure.step.as_str()),
        ("GUEST_NO_LOGIN", "provision.wait_login")
    );
    assert!(
        failure.message.contains("no login succeeded"),
        "{}",
        failure.message
    );
    assert!(
        failure.advice.contains("another image") && failure.advice.contains("not billed"),
        "{}",
        failure.advice
    );
    let request = pb::ListTimelineRequest {
        allocation_id: created.id.clone(),
        ..Default::default()
    };
    let entries = platform
        .users
        .clone()
        .list_timeline(platform.user(request, None))
        .await
        .expect("entries");
    let failed = entries
        .into_inner()
        .entries
        .into_iter()
        .find(|e| e.step == "provision.wait_login")
        .expect("the step");
    assert_eq!(failed.state(), pb::TimelineState::Failed);
    let shown = failed.error.expect("an error");
    assert!(
        !shown.message.contains("scripted"),
        "c_21: what a host says is for operators: {}",
        shown.message
    );
    let again = platform
        .release(&created.id, "key-2")
        .await
        .expect_err("over");
    assert_eq!(again.reason(), ErrorReason::StateConflict);
}

#[tokio::test]
async fn a_foreign_allocation_does_not_exist() {
    let platform = Platform::start().await;
    let id = platform
        .create(good("web"), "key-1")
        .await
        .expect("created")
        .id;
    let stranger = Uuid::now_v7();
    let mut users = platform.users.clone();
    let get = pb::GetAllocationRequest {
        allocation_id: id.clone(),
    };
    let release = pb::ReleaseAllocationRequest {
        allocation_id: id.clone(),
    };
    let list = pb::ListTimelineRequest {
        allocation_id: id.clone(),
        ..Default::default()
    };
    let foreign = "user:stranger";
    let answers = [
        users
            .get_allocation(platform.as_person(get, foreign, stranger, false, None))
            .await
            .map(drop),
        users
            .release_allocation(platform.as_person(release, foreign, stranger, false, Some("k")))
            .await
            .map(drop),
        users
            .list_timeline(platform.as_person(list, foreign, stranger, false, None))
            .await
            .map(drop),
    ];
    for answer in answers {
        let error = Error::from(answer.expect_err("foreign"));
        assert_eq!(
            (error.code(), error.reason()),
            (Code::NotFound, ErrorReason::AllocationNotFound)
        );
    }
    let malformed = pb::GetAllocationRequest {
        allocation_id: "7".into(),
    };
    let error = Error::from(
        users
            .get_allocation(platform.user(malformed, None))
            .await
            .expect_err("malformed"),
    );
    assert_eq!(error.fields()[0].0, "allocation_id");
    let unknown = pb::GetAllocationRequest {
        allocation_id: Uuid::now_v7().to_string(),
    };
    let error = Error::from(
        users
            .get_allocation(platform.user(unknown, None))
            .await
            .expect_err("unknown"),
    );
    assert_eq!(error.reason(), ErrorReason::AllocationNotFound);
}

#[tokio::test]
async fn a_release_asked_twice_is_one_release() {
    let platform = Platform::start().await;
    let id = platform
        .create(good("web"), "key-1")
        .await
        .expect("created")
        .id;
    let uuid: Uuid = id.parse().expect("a uuid");
    platform.world.until_state(uuid, "active").await;
    platform
        .world
        .host
        .script(|script| script.stay = Some(("release", "wipe")));
    for key in ["key-2", "key-2", "key-3"] {
        let released = platform.release(&id, key).await.expect("accepted");
        assert_eq!(
            released.status.expect("a status").state(),
            pb::AllocationState::Releasing,
            "{key}"
        );
    }
    platform.world.host.script(|script| script.stay = None);
    platform.world.until_state(uuid, "released").await;
    platform.world.until_idle(uuid).await;
    let status = platform
        .release(&id, "key-2")
        .await
        .expect("replayed")
        .status
        .expect("a status");
    assert_eq!(status.state(), pb::AllocationState::Released);
    assert!(status.release_time.is_some());
    let workflows: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM workflows WHERE allocation_id = $1 AND kind = 'release'",
    )
    .bind(uuid)
    .fetch_one(&platform.world.pool)
    .await
    .expect("a count");
    assert_eq!(workflows, 1);
    let audits: i64 =
        sqlx::query_scalar("SELECT count(*) FROM audit WHERE action = 'allocation.release'")
            .fetch_one(&platform.world.pool)
            .await
            .expect("a count");
    assert_eq!(audits, 2, "one per call with an effect of its own key");
}

/// H-18, CON-19.
#[tokio::test]
async fn c_37_lists_and_timelines_come_in_pages() {
    let platform = Platform::start().await;
    let first = platform
        .create(good("one"), "key-1")
        .await
        .expect("created")
        .id;
    let second = platform
        .create(good("two"), "key-2")
        .await
        .expect("created")
        .id;
    for id in [&first, &second] {
        platform
            .world
            .until_state(id.parse().expect("a uuid"), "active")
            .await;
        platform.world.until_idle(id.parse().expect("a uuid")).await;
    }
    let mut users = platform.users.clone();
    let mut seen = Vec::new();
    let mut page_token = String::new();
    loop {
        let request = pb::ListAllocationsRequest {
            page_size: 1,
            page_token,
            ..Default::default()
        };
        let page = users
            .list_allocations(platform.user(request, None))
            .await
            .expect("a page")
            .into_inner();
        seen.extend(page.allocations.into_iter().map(|allocation| allocation.id));
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    assert_eq!(seen, [second, first.clone()], "newest first");

    let (mut sequences, mut page_token) = (Vec::new(), String::new());
    loop {
        let request = pb::ListTimelineRequest {
            allocation_id: first.clone(),
            page_size: 4,
            page_token,
            ..Default::default()
        };
        let page = users
            .list_timeline(platform.user(request, None))
            .await
            .expect("a page")
            .into_inner();
        assert!(page.entries.len() <= 4);
        sequences.extend(page.entries.iter().map(|entry| entry.sequence));
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    assert_eq!(
        sequences,
        (1..=sequences.len() as i64).collect::<Vec<_>>(),
        "no gap"
    );
    assert!(sequences.len() > 8);
    timeline_is_selected(&platform, &first, &sequences).await;
    // nothing of another project, whatever the filter says
    for (filter, expected) in [
        ("state = active OR NOT state = active", 2),
        ("state = released", 0),
        ("NOT lab = true AND NOT lab = false", 0),
    ] {
        let request = pb::ListAllocationsRequest {
            filter: filter.into(),
            order_by: "name desc".into(),
            ..Default::default()
        };
        let page = users.list_allocations(platform.user(request, None)).await;
        let found = page.expect(filter).into_inner().allocations;
        assert_eq!(found.len(), expected, "{filter}");
        let names: Vec<_> = found.into_iter().filter_map(|one| one.config).collect();
        assert!(names.is_sorted_by(|one, other| one.name >= other.name));
    }
    for (filter, order_by, field) in [
        (
            "project_id = \"00000000-0000-0000-0000-000000000000\"",
            "",
            "filter",
        ),
        ("node_id:*", "", "filter"),
        ("", "node_id", "order_by"),
    ] {
        let request = pb::ListAllocationsRequest {
            filter: filter.into(),
            order_by: order_by.into(),
            ..Default::default()
        };
        let refused = users.list_allocations(platform.user(request, None)).await;
        let error = Error::from(refused.expect_err(filter));
        assert_eq!(error.fields()[0].0, field);
    }
    for (page_size, page_token, field) in [(-1, "", "page_size"), (1, "rubbish", "page_token")] {
        let request = pb::ListAllocationsRequest {
            page_size,
            page_token: page_token.into(),
            ..Default::default()
        };
        let error = Error::from(
            users
                .list_allocations(platform.user(request, None))
                .await
                .expect_err(field),
        );
        assert_eq!(error.fields()[0].0, field);
    }
}

/// The entries of a timeline by filter and order, page by page.
async fn timeline_is_selected(platform: &Platform, allocation_id: &str, sequences: &[i64]) {
    let users = &platform.users;
    let request = |filter: &str, order_by: &str, page_token: String| pb::ListTimelineRequest {
        allocation_id: allocation_id.to_owned(),
        page_size: 3,
        page_token,
        filter: filter.to_owned(),
        order_by: order_by.to_owned(),
    };
    let selected = async |filter: &str, order_by: &str| {
        let (mut found, mut token) = (Vec::new(), String::new());
        loop {
            let request = request(filter, order_by, token);
            let page = users
                .clone()
                .list_timeline(platform.user(request, None))
                .await;
            let page = page.expect(filter).into_inner();
            found.extend(page.entries);
            token = page.next_page_token;
            if token.is_empty() {
                return found;
            }
        }
    };
    let newest: Vec<i64> = selected("", "time desc")
        .await
        .iter()
        .map(|e| e.sequence)
        .collect();
    let mut backwards = sequences.to_vec();
    backwards.reverse();
    assert_eq!(newest, backwards);
    let provisioned = selected("step:provision. AND state = done", "").await;
    assert!(!provisioned.is_empty() && provisioned.len() < sequences.len());
    for entry in &provisioned {
        assert!(entry.step.starts_with("provision."), "{entry:?}");
    }
    assert!(selected("state = failed", "").await.is_empty());
    for (filter, order_by, field) in [("error:*", "", "filter"), ("", "message", "order_by")] {
        let request = request(filter, order_by, String::new());
        let refused = users
            .clone()
            .list_timeline(platform.user(request, None))
            .await;
        let error = Error::from(refused.expect_err("refused"));
        assert_eq!(error.fields()[0].0, field);
    }
}
