//! Names of users and groups in every script, as an organisation's identity provider sends them.
use reqwest::Method;
use serde_json::{Value, json};

use super::Provider;
use crate::tenancy::names::{BAD, GOOD};
use crate::world::ISSUER;

/// What people read of somebody, whom the issuer names so.
async fn shown(provider: &Provider, subject: &str) -> Option<String> {
    sqlx::query_scalar("SELECT display_name FROM principals WHERE issuer = $1 AND subject = $2")
        .bind(ISSUER)
        .bind(subject)
        .fetch_optional(&provider.world.pool().await)
        .await
        .expect("principals")
}

async fn count(provider: &Provider, path: &str) -> Value {
    let all = provider.scim(Method::GET, path, Value::Null).await;
    all.body["totalResults"].clone()
}

#[tokio::test]
async fn names_of_users_are_kept_in_every_script_and_hostile_ones_are_refused() {
    let provider = Provider::start().await;
    let make = async |number: usize, user_name: &str, text: &str| {
        let body = json!({ "userName": user_name, "displayName": text, "externalId": format!("e{number}") });
        provider.scim(Method::POST, "/Users", body).await
    };
    for (number, good) in GOOD.into_iter().enumerate() {
        let user_name = format!("{number}.{good}");
        let made = make(number, &user_name, good).await;
        assert_eq!(made.status, 201, "{good}: {}", made.body);
        let path = format!("/Users/{}", made.id());
        let kept = provider.scim(Method::GET, &path, Value::Null).await.body;
        assert_eq!(
            (&kept["displayName"], &kept["userName"]),
            (&json!(good), &json!(user_name)),
            "{kept}"
        );
        assert_eq!(shown(&provider, &user_name).await.as_deref(), Some(good));
    }
    let before = count(&provider, "/Users").await;
    for bad in BAD {
        for (user_name, text) in [("good", bad), (bad, "Good")] {
            let made = make(GOOD.len(), user_name, text).await;
            assert_eq!(
                (made.status, made.kind()),
                (400, "invalidValue"),
                "{bad:?}: {}",
                made.body
            );
        }
    }
    assert_eq!(count(&provider, "/Users").await, before, "nobody is kept");
}

#[tokio::test]
async fn names_of_groups_are_kept_in_every_script_and_hostile_ones_are_refused() {
    let provider = Provider::start().await;
    let ann = provider.user("ann").await;
    let make = async |text: &str| {
        let body = json!({ "displayName": text, "members": [{ "value": ann }] });
        provider.scim(Method::POST, "/Groups", body).await
    };
    let base = format!(
        "/api/v1/organisations/{}/scim/groups",
        provider.organisation()
    );
    for good in GOOD {
        let made = make(good).await;
        assert_eq!(made.status, 201, "{good}: {}", made.body);
        let path = format!("/Groups/{}", made.id());
        let kept = provider.scim(Method::GET, &path, Value::Null).await.body;
        assert_eq!(kept["displayName"], good, "{kept}");
        // as its owner reads it
        let (_, listed) = provider.api("demo", Method::GET, &base, Value::Null).await;
        let groups = listed["groups"].as_array().expect("groups");
        assert!(
            groups.iter().any(|one| one["display_name"] == good),
            "{listed}"
        );
    }
    let before = count(&provider, "/Groups").await;
    for bad in BAD {
        let made = make(bad).await;
        assert_eq!(
            (made.status, made.kind()),
            (400, "invalidValue"),
            "{bad:?}: {}",
            made.body
        );
    }
    assert_eq!(count(&provider, "/Groups").await, before, "none is kept");
}
