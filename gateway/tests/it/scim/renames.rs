//! Whom an organisation's identity provider may give other names: nobody who has more than SCIM gave.
use reqwest::Method;
use serde_json::{Value, json};

use super::Provider;
use crate::world::ISSUER;

/// What people read of somebody whom the issuer names so, and whether that one is disabled.
async fn person(provider: &Provider, subject: &str) -> Option<(String, String, bool)> {
    sqlx::query_as(
        "SELECT display_name, email, disable_time IS NOT NULL FROM principals WHERE issuer = $1 AND subject = $2",
    )
    .bind(ISSUER)
    .bind(subject)
    .fetch_optional(&provider.world.pool().await)
    .await
    .expect("principals")
}

#[tokio::test]
async fn p_10_who_is_somebody_elsewhere_is_not_renamed_and_only_leaves() {
    let provider = Provider::start().await;
    let pool = provider.world.pool().await;
    let gus = provider.user("gus").await;
    let other = sqlx::query(
        "WITH o AS (INSERT INTO organisations (id, slug, display_name) VALUES ($1, 'elsewhere', 'Elsewhere') RETURNING id)
         INSERT INTO organisation_memberships (organisation_id, principal_id, role)
         SELECT o.id, p.id, 'viewer' FROM o, principals p WHERE p.subject = 'gus'",
    );
    other
        .bind(uuid::Uuid::now_v7())
        .execute(&pool)
        .await
        .expect("a member elsewhere");
    let path = format!("/Users/{gus}");
    let renamed = json!({ "op": "replace", "path": "userName", "value": "mallory" });
    let refused = provider.patch(&path, renamed.clone()).await;
    assert_eq!((refused.status, refused.kind()), (400, "mutability"));
    let called = json!({ "op": "replace", "value": {
        "displayName": "Mallory", "emails": [{ "value": "mallory@example.com", "primary": true }],
    } });
    let before = person(&provider, "gus").await;
    let kept = provider.patch(&path, called.clone()).await;
    // the provider reads what it wrote, and nobody else
    assert_eq!(
        (kept.status, &kept.body["displayName"]),
        (200, &json!("Mallory"))
    );
    assert_eq!(kept.body["emails"][0]["value"], "mallory@example.com");
    assert!(before.is_some() && person(&provider, "gus").await == before);
    let out = json!({ "op": "replace", "path": "active", "value": false });
    let out = provider.patch(&path, out).await;
    assert_eq!((out.status, &out.body["active"]), (200, &json!(false)));
    let disabled: bool =
        sqlx::query_scalar("SELECT disable_time IS NOT NULL FROM principals WHERE subject = 'gus'")
            .fetch_one(&pool)
            .await
            .expect("registered");
    assert!(!disabled, "the other organisation keeps its member");

    // nor is who owns the organisation
    let hal = provider.user("hal").await;
    let name: String = sqlx::query_scalar("SELECT name FROM principals WHERE subject = 'hal'")
        .fetch_one(&pool)
        .await
        .expect("registered");
    gpuaas_gateway::store::own_organisation(&pool, provider.organisation(), &name)
        .await
        .expect("an owner");
    let path = format!("/Users/{hal}");
    let refused = provider.patch(&path, renamed.clone()).await;
    assert_eq!((refused.status, refused.kind()), (400, "mutability"));
    let before = person(&provider, "hal").await;
    assert_eq!(provider.patch(&path, called.clone()).await.status, 200);
    assert!(before.is_some() && person(&provider, "hal").await == before);

    // all others are
    let ida = provider.user("ida").await;
    let done = provider.patch(&format!("/Users/{ida}"), renamed).await;
    assert_eq!(
        (done.status, &done.body["userName"]),
        (200, &json!("mallory"))
    );
    let called = provider.patch(&format!("/Users/{ida}"), called).await;
    assert_eq!(called.status, 200, "{}", called.body);
    let shown = ("Mallory".to_owned(), String::new(), false);
    assert_eq!(person(&provider, "mallory").await, Some(shown));
}

/// Who is another subject is another person at the issuer, who would sign in with all that this one has.
#[tokio::test]
async fn p_10_who_has_rights_by_hand_gets_no_other_subject() {
    let provider = Provider::start().await;
    let pool = provider.world.pool().await;
    let project = provider.world.seeded.project_id;
    let renamed = json!({ "op": "replace", "path": "userName", "value": "mallory" });
    for (subject, given) in [
        (
            "ida",
            "INSERT INTO memberships (project_id, principal_id, role)
             SELECT $1, id, 'owner' FROM principals WHERE subject = $2",
        ),
        (
            "ivo",
            "INSERT INTO organisation_memberships (organisation_id, principal_id, role)
             SELECT j.organisation_id, p.id, 'viewer' FROM projects j, principals p WHERE j.id = $1 AND p.subject = $2",
        ),
        (
            "ian",
            "INSERT INTO allocation_grants (id, project_id, allocation_id, principal_id, permission, creator, expire_time)
             SELECT gen_random_uuid(), $1, gen_random_uuid(), id, 'terminal', 'user:demo', now() + interval '1 hour'
               FROM principals WHERE subject = $2",
        ),
        (
            "ira",
            "INSERT INTO ssh_keys (id, principal_id, name, public_key, fingerprint)
             SELECT gen_random_uuid(), p.id, 'laptop', 'ssh-ed25519 A', 'SHA256:A'
               FROM projects j, principals p WHERE j.id = $1 AND p.subject = $2",
        ),
    ] {
        let path = format!("/Users/{}", provider.user(subject).await);
        let done = sqlx::query(given).bind(project).bind(subject);
        let done = done.execute(&pool).await.expect("given");
        assert_eq!(done.rows_affected(), 1, "{subject}");
        let before = person(&provider, subject).await;
        let refused = provider.patch(&path, renamed.clone()).await;
        assert_eq!(
            (refused.status, refused.kind()),
            (400, "mutability"),
            "{subject}: {}",
            refused.body
        );
        assert!(before.is_some() && person(&provider, subject).await == before);
        assert_eq!(person(&provider, "mallory").await, None, "{subject}");
        let kept = provider.scim(Method::GET, &path, Value::Null).await.body;
        assert_eq!(kept["userName"], subject, "{kept}");
    }

    // a role that a group gives goes with the person
    let kim = provider.user("kim").await;
    let group = provider.group("ml", &[&kim]).await;
    provider.map(&group, "member").await;
    let done = provider.patch(&format!("/Users/{kim}"), renamed).await;
    assert_eq!(done.status, 200, "{}", done.body);
    let role = provider.role("mallory").await;
    assert_eq!(role, Some(("member".to_owned(), true)));
}
