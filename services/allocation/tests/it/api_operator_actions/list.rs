//! Allocations of all projects.
use gpuaas_proto::gpuaas::allocation::v1 as pb;
use tonic::Code;
use uuid::Uuid;

use super::{refused, uuid};
use crate::platform::{Platform, good};

#[tokio::test]
async fn operators_list_the_allocations_of_all_projects_by_state_project_and_node() {
    let platform = Platform::start().await;
    let first = platform.launched("web", "key-1").await;
    let request = platform.as_person(
        good("other"),
        "user:other",
        Uuid::now_v7(),
        false,
        Some("key-2"),
    );
    let second = platform.users.clone().create_allocation(request).await;
    let second = second.expect("created").into_inner();
    platform.world.until_state(uuid(&second.id), "active").await;
    platform.world.until_idle(uuid(&second.id)).await;

    let denied = platform.admins.clone();
    let denied = denied
        .clone()
        .list_all_allocations(platform.user(Default::default(), None))
        .await;
    assert_eq!(denied.expect_err("no admin").code(), Code::PermissionDenied);

    let ids = |page: pb::ListAllAllocationsResponse| -> Vec<String> {
        let of = |one: pb::TenantAllocation| one.allocation.expect("an allocation").id;
        page.allocations.into_iter().map(of).collect()
    };
    let everything = platform.all(Default::default()).await;
    let node = platform.world.node_id.to_string();
    assert!(everything.allocations.iter().all(|one| one.node_id == node));
    assert_eq!(
        ids(everything),
        [second.id.clone(), first.clone()],
        "newest first"
    );

    let one = |page_token| pb::ListAllAllocationsRequest {
        page_size: 1,
        page_token,
        ..Default::default()
    };
    let page = platform.all(one(String::new())).await;
    let token = page.next_page_token.clone();
    assert_eq!(ids(page), std::slice::from_ref(&second.id));
    let page = platform.all(one(token.clone())).await;
    assert!(page.next_page_token.is_empty());
    assert_eq!(ids(page), std::slice::from_ref(&first));

    let of_project = pb::ListAllAllocationsRequest {
        project_id: platform.world.project.to_string(),
        ..Default::default()
    };
    assert_eq!(
        ids(platform.all(of_project).await),
        std::slice::from_ref(&first)
    );
    let elsewhere = pb::ListAllAllocationsRequest {
        node_id: Uuid::now_v7().to_string(),
        ..Default::default()
    };
    assert!(ids(platform.all(elsewhere).await).is_empty());
    let here = pb::ListAllAllocationsRequest {
        node_id: node,
        ..Default::default()
    };
    assert_eq!(ids(platform.all(here).await).len(), 2);

    platform.release(&first, "key-3").await.expect("accepted");
    platform.world.until_state(uuid(&first), "released").await;
    let in_state = |state: pb::AllocationState| pb::ListAllAllocationsRequest {
        state: state.into(),
        ..Default::default()
    };
    assert_eq!(
        ids(platform.all(in_state(pb::AllocationState::Released)).await),
        std::slice::from_ref(&first)
    );
    assert_eq!(
        ids(platform.all(in_state(pb::AllocationState::Active)).await),
        std::slice::from_ref(&second.id)
    );
    assert_eq!(
        ids(platform.all(Default::default()).await),
        std::slice::from_ref(&second.id),
        "ended ones are left out"
    );
    let ended = pb::ListAllAllocationsRequest {
        include_ended: true,
        ..Default::default()
    };
    assert_eq!(ids(platform.all(ended).await).len(), 2);

    let selected = |filter: &str, order_by: &str| pb::ListAllAllocationsRequest {
        filter: filter.into(),
        order_by: order_by.into(),
        ..Default::default()
    };
    let (first_id, second_id) = (first.clone(), second.id.clone());
    for (filter, order_by, expected) in [
        // a filter that names the state finds ended ones
        ("state != requested", "", vec![&second_id, &first_id]),
        ("state:*", "create_time", vec![&first_id, &second_id]),
        (
            "NOT (state = released OR lab = false)",
            "",
            vec![&second_id],
        ),
        ("name = other", "", vec![&second_id]),
        ("name:OTH", "name, create_time desc", vec![&second_id]),
        ("power = running AND gpu_count >= 1", "", vec![&second_id]),
        ("active_time:* AND auto_release_time:*", "", vec![]),
        ("labels:team", "", vec![]),
        ("create_time < 2000-01-01", "", vec![]),
        ("creator = \"user:other\"", "project_id", vec![&second_id]),
        ("name = \"other' OR 'a' = 'a\"", "", vec![]),
    ] {
        let found = ids(platform.all(selected(filter, order_by)).await);
        assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{filter}");
    }
    let of_first = format!("state = released AND id = {first}");
    let found = ids(platform.all(selected(&of_first, "")).await);
    assert_eq!(found, std::slice::from_ref(&first));

    let bad = [
        (selected("owner = me", ""), "filter"),
        (selected("", "owner"), "order_by"),
        (
            pb::ListAllAllocationsRequest {
                page_token: token.clone(),
                ..selected("lab = true", "")
            },
            "page_token",
        ),
        (
            pb::ListAllAllocationsRequest {
                project_id: "p".into(),
                ..Default::default()
            },
            "project_id",
        ),
        (
            pb::ListAllAllocationsRequest {
                node_id: "n".into(),
                ..Default::default()
            },
            "node_id",
        ),
        (
            pb::ListAllAllocationsRequest {
                state: 99,
                ..Default::default()
            },
            "state",
        ),
        (
            pb::ListAllAllocationsRequest {
                page_size: -1,
                ..Default::default()
            },
            "page_size",
        ),
        (
            pb::ListAllAllocationsRequest {
                page_token: token,
                ..Default::default()
            }
            .include_ended(),
            "page_token",
        ),
    ];
    for (request, field) in bad {
        let mut admins = platform.admins.clone();
        let answer = admins
            .list_all_allocations(platform.admin(request, None))
            .await;
        assert_eq!(refused(answer).2, field);
    }
}

trait IncludeEnded {
    fn include_ended(self) -> Self;
}

impl IncludeEnded for pb::ListAllAllocationsRequest {
    /// Another query than that of the token.
    fn include_ended(mut self) -> Self {
        self.include_ended = true;
        self
    }
}
