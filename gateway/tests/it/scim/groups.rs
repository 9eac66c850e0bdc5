//! Groups: what they give, to whom, and who can change that.
use std::time::Duration;

use gpuaas_gateway::store;
use reqwest::Method;
use serde_json::{Value, json};

use super::Provider;
use crate::access::join;
use crate::world::{detail, field, reason};

#[tokio::test]
async fn a_group_gives_the_role_that_it_is_mapped_on_and_nothing_else() {
    let provider = Provider::start().await;
    let (ann, bob) = (provider.user("ann").await, provider.user("bob").await);
    let group = provider.group("ml", &[&ann]).await;
    assert_eq!(provider.role("ann").await, None, "no mapping yet");
    let mapping = provider.map(&group, "viewer").await;
    let viewer = Some(("viewer".to_owned(), true));
    assert_eq!(provider.role("ann").await, viewer);
    assert_eq!(provider.role("bob").await, None);
    let path = format!("/Groups/{group}");
    let added = provider
        .patch(
            &path,
            json!({ "op": "Add", "path": "members", "value": [{ "value": bob }] }),
        )
        .await;
    assert_eq!(
        added.body["members"].as_array().map(Vec::len),
        Some(2),
        "{}",
        added.body
    );
    assert_eq!(provider.role("bob").await, viewer);
    let shown = provider
        .scim(Method::GET, &format!("/Users/{bob}"), Value::Null)
        .await;
    assert_eq!(shown.body["groups"][0]["value"], json!(group));

    // of two groups the stronger role counts
    let strong = provider.group("leads", &[&ann]).await;
    provider.map(&strong, "owner").await;
    assert_eq!(provider.role("ann").await, Some(("owner".to_owned(), true)));
    assert_eq!(
        provider
            .scim(Method::DELETE, &format!("/Groups/{strong}"), Value::Null)
            .await
            .status,
        204
    );
    assert_eq!(provider.role("ann").await, viewer);

    let removed = provider
        .patch(
            &path,
            json!({ "op": "remove", "path": format!("members[value eq \"{ann}\"]") }),
        )
        .await;
    assert_eq!(removed.status, 200, "{}", removed.body);
    assert_eq!(provider.role("ann").await, None);
    let organisation = provider.organisation();
    let base = format!("/api/v1/organisations/{organisation}/scim/groups");
    let (_, listed) = provider.api("demo", Method::GET, &base, Value::Null).await;
    let listed = &listed["groups"][0];
    assert_eq!(
        (
            &listed["display_name"],
            &listed["member_count"],
            &listed["mappings"][0]["role"]
        ),
        (&json!("ml"), &json!("1"), &json!("viewer")),
        "{listed}"
    );
    let target = format!("{base}/{group}/mappings/{mapping}");
    let (status, body) = provider
        .api("demo", Method::DELETE, &target, Value::Null)
        .await;
    assert_eq!(status, 200, "{body}");
    assert_eq!(provider.role("bob").await, None);
    for (action, count) in [
        ("scim_group.create", 2),
        ("scim_group.update", 2),
        ("scim_group.delete", 1),
        ("organisation_scim_mapping.create", 2),
        ("organisation_scim_mapping.delete", 1),
    ] {
        assert_eq!(provider.recorded(action).await, count, "{action}");
    }
}

#[tokio::test]
async fn what_a_group_gives_no_hand_changes_and_what_a_hand_gave_no_group_does() {
    let provider = Provider::start().await;
    let (ann, bob) = (provider.user("ann").await, provider.user("bob").await);
    let pool = provider.world.pool().await;
    let project = provider.world.seeded.project_id;
    let of_bob: uuid::Uuid = sqlx::query_scalar("SELECT id FROM principals WHERE subject = 'bob'")
        .fetch_one(&pool)
        .await
        .expect("registered");
    join(&pool, of_bob, project, gpuaas_gateway::store::Role::Billing).await;
    let group = provider.group("ml", &[&ann, &bob]).await;
    provider.map(&group, "member").await;
    assert_eq!(
        provider.role("bob").await,
        Some(("billing".to_owned(), false)),
        "given by hand"
    );

    let base = format!("/api/v1/projects/{project}/members");
    let (_, members) = provider.api("demo", Method::GET, &base, Value::Null).await;
    let members = members["members"].as_array().expect("members").clone();
    let marked: Vec<&Value> = members.iter().filter(|one| one["scim"] == true).collect();
    assert_eq!(marked.len(), 1, "{members:?}");
    let target = format!("{base}/{}", marked[0]["member_id"].as_str().expect("an id"));
    for (method, body) in [
        (Method::PATCH, json!({ "role": "owner" })),
        (Method::DELETE, Value::Null),
    ] {
        let (status, refused) = provider.api("demo", method, &target, body).await;
        assert_eq!(
            (status, reason(&refused), field(&refused)),
            (400, "STATE_CONFLICT", "member_id"),
            "{refused}"
        );
        assert_eq!(
            detail(&refused, "ErrorInfo")["metadata"]["given_by"],
            "scim"
        );
        assert!(
            refused["error"]["message"]
                .as_str()
                .expect("why")
                .contains("identity provider")
        );
    }
    assert_eq!(
        provider.role("ann").await,
        Some(("member".to_owned(), true))
    );

    // when the hand takes its own back, what the group gives counts
    let (status, body) = provider
        .api(
            "demo",
            Method::DELETE,
            &format!("{base}/{of_bob}"),
            Value::Null,
        )
        .await;
    assert_eq!(status, 200, "{body}");
    assert_eq!(
        provider.role("bob").await,
        Some(("member".to_owned(), true))
    );
}

#[tokio::test]
async fn groups_have_users_of_the_organisation_alone() {
    let provider = Provider::start().await;
    let ann = provider.user("ann").await;
    let group = provider.group("ml", &[&ann]).await;
    let path = format!("/Groups/{group}");
    let again = provider
        .scim(Method::POST, "/Groups", json!({ "displayName": "ML" }))
        .await;
    assert_eq!((again.status, again.kind()), (409, "uniqueness"));
    let stranger = uuid::Uuid::now_v7().to_string();
    for members in [
        json!([{ "value": stranger }]),
        json!([{ "value": "x" }]),
        json!([{ "value": group, "type": "Group" }]),
        json!(["x"]),
        json!([{}]),
    ] {
        let body = json!({ "displayName": "ml", "members": members });
        let refused = provider.scim(Method::PUT, &path, body).await;
        assert_eq!(
            (refused.status, refused.kind()),
            (400, "invalidValue"),
            "{members}"
        );
    }
    let kept = provider.scim(Method::GET, &path, Value::Null).await;
    assert_eq!(kept.body["members"][0]["value"], json!(ann));
    let without = provider
        .scim(
            Method::GET,
            &format!("{path}?excludedAttributes=members"),
            Value::Null,
        )
        .await;
    assert_eq!(without.body["members"], Value::Null);
    let filter = format!(
        "/Groups?filter=members.value%20eq%20%22{ann}%22%20and%20displayName%20sw%20%22M%22"
    );
    let found = provider.scim(Method::GET, &filter, Value::Null).await;
    assert_eq!(found.body["totalResults"], 1, "{}", found.body);

    // a user that goes leaves its groups, whose versions change
    let before = kept.etag();
    provider
        .scim(Method::DELETE, &format!("/Users/{ann}"), Value::Null)
        .await;
    let after = provider.scim(Method::GET, &path, Value::Null).await;
    assert_eq!(after.body["members"], Value::Null);
    assert_ne!(after.etag(), before);
}

/// Before, operations were read while the organisation and its projects were locked for their changes.
#[tokio::test]
async fn a_change_that_is_wrong_waits_for_no_other() {
    let provider = Provider::start().await;
    let ann = provider.user("ann").await;
    let group = provider.group("ml", &[&ann]).await;
    let pool = provider.world.pool().await;
    let mut other = pool.begin().await.expect("a transaction");
    store::lock_organisation(&mut other, provider.organisation())
        .await
        .expect("locked");
    let members: Vec<Value> = (0..1001).map(|_| json!({ "value": ann })).collect();
    for (path, operation, kind) in [
        (
            format!("/Groups/{group}"),
            json!({ "op": "add", "path": "members", "value": members }),
            "tooMany",
        ),
        (
            format!("/Groups/{group}"),
            json!({ "op": "remove", "path": "members[value" }),
            "invalidPath",
        ),
        (
            format!("/Users/{ann}"),
            json!({ "op": "move", "path": "active" }),
            "invalidSyntax",
        ),
    ] {
        let refused = provider.patch(&path, operation);
        let refused = tokio::time::timeout(Duration::from_secs(60), refused).await;
        let refused = refused.expect("it waits for nothing");
        assert_eq!((refused.status, refused.kind()), (400, kind), "{path}");
    }
    other.rollback().await.expect("rolled back");
    let body = json!({ "op": "remove", "path": "members", "value": [{ "value": ann }] });
    let made = provider.patch(&format!("/Groups/{group}"), body).await;
    assert_eq!(made.body["members"], Value::Null, "{}", made.body);
}
