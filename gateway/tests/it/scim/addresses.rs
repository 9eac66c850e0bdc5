//! The address that people are listed with: what their issuer has verified, as a sign-in says, whatever SCIM sends.
use std::time::Duration;

use gpuaas_dev::until::until;
use jiff::Timestamp;
use reqwest::Method;
use serde_json::{Value, json};

use super::Provider;
use crate::world::answer;

const ACTION: &str = "principal.verify_email";

/// The claims of an address in a token that was issued so many seconds ago.
fn claims(email: &str, verified: bool, ago: i64) -> Value {
    let issued = Timestamp::now().as_second() - ago;
    json!({ "email": email, "email_verified": verified, "iat": issued })
}

/// The address of somebody who calls with such a token.
async fn address(provider: &Provider, subject: &str, claims: &Value) -> Value {
    let world = &provider.world;
    let request = world.http.get(world.url("/api/v1/whoami"));
    let request = request.bearer_auth(world.token_with(subject, claims));
    let (status, body) = answer(request.send().await.expect("answer")).await;
    assert_eq!(status, 200, "{body}");
    body["email"].clone()
}

#[tokio::test]
async fn who_signs_in_is_listed_with_the_address_that_the_issuer_has_verified() {
    let provider = Provider::start().await;
    let body =
        json!({ "userName": "kim", "emails": [{ "value": "kim@corp.example", "primary": true }] });
    let kim = provider.scim(Method::POST, "/Users", body).await.id();
    let group = provider.group("ml", &[&kim]).await;
    provider.map(&group, "member").await;
    provider.world.users(&["mia"]).await;
    let long = format!("{}@example.com", "a".repeat(250));
    for (before, who) in [(0, "kim"), (2, "mia")] {
        for unproven in [
            json!({}),
            claims("eve@example.com", false, 90),
            json!({ "email_verified": true }),
            claims(&long, true, 90),
            claims("two@at@example.com", true, 90),
            json!({ "email": "eve@example.com", "email_verified": true, "iat": 0 }),
        ] {
            assert_eq!(address(&provider, who, &unproven).await, "", "{unproven}");
        }
        assert_eq!(provider.recorded(ACTION).await, before);
        let first = claims("First@Example.com", true, 60);
        for _ in 0..2 {
            let shown = address(&provider, who, &first).await;
            assert_eq!(shown, "first@example.com");
        }
        // another token that says the same changes nothing
        let same = claims("first@example.com", true, 50);
        assert_eq!(address(&provider, who, &same).await, "first@example.com");
        assert_eq!(provider.recorded(ACTION).await, before + 1);
        let second = claims("second@example.com", true, 30);
        assert_eq!(address(&provider, who, &second).await, "second@example.com");
        // nor does an older one, or one that proves nothing
        for other in [
            claims("first@example.com", true, 40),
            claims("first@example.com", false, 0),
            claims(&long, true, 0),
        ] {
            assert_eq!(address(&provider, who, &other).await, "second@example.com");
        }
        assert_eq!(provider.recorded(ACTION).await, before + 2);
    }

    let members = format!(
        "/api/v1/projects/{}/members?filter=email%20%3D%20%22second%40example.com%22",
        provider.world.seeded.project_id
    );
    let (status, listed) = provider
        .api("demo", Method::GET, &members, Value::Null)
        .await;
    assert_eq!(status, 200, "{listed}");
    let listed = listed["members"].as_array().expect("members");
    assert_eq!(listed.len(), 1, "{listed:?}");
    assert_eq!(listed[0]["email"], "second@example.com");

    // the provider's own address is the provider's, and changes nothing here
    let path = format!("/Users/{kim}");
    let other =
        json!({ "op": "replace", "value": { "emails": [{ "value": "other@corp.example" }] } });
    assert_eq!(provider.patch(&path, other).await.status, 200);
    let kept = provider.scim(Method::GET, &path, Value::Null).await.body;
    assert_eq!(kept["emails"][0]["value"], "other@corp.example");
    assert_eq!(
        address(&provider, "kim", &json!({})).await,
        "second@example.com"
    );
    // who gets another subject is another person
    let renamed = json!({ "op": "replace", "path": "userName", "value": "kit" });
    assert_eq!(provider.patch(&path, renamed).await.status, 200);
    assert_eq!(address(&provider, "kit", &json!({})).await, "");
}

/// What else is at work on a person keeps that one from nothing; the address is stored later.
#[tokio::test]
async fn a_sign_in_does_not_wait_for_who_changes_the_person() {
    const LONG: Duration = Duration::from_secs(60);
    let provider = Provider::start().await;
    provider.world.users(&["mia"]).await;
    let pool = provider.world.pool().await;
    let mut change = pool.begin().await.expect("transaction");
    let locked = sqlx::query("SELECT FROM principals WHERE name = 'user:mia' FOR UPDATE")
        .execute(&mut *change)
        .await;
    assert_eq!(locked.expect("locked").rows_affected(), 1);
    let claims = claims("mia@example.com", true, 10);
    let signed_in = tokio::time::timeout(LONG, address(&provider, "mia", &claims));
    assert_eq!(signed_in.await.expect("an answer"), "");
    change.rollback().await.expect("rolled back");
    until("the address", LONG, async || {
        let shown = address(&provider, "mia", &claims).await;
        (shown == "mia@example.com").then_some(())
    })
    .await;
}
