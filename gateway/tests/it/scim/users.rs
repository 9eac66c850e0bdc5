//! Users: what is kept of them, and what becomes of the people.
use reqwest::Method;
use serde_json::{Value, json};

use super::Provider;
use crate::terminals::{ended, opened_by};
use crate::world::{ISSUER, reason};

#[tokio::test]
async fn a_user_is_kept_as_the_provider_says() {
    let provider = Provider::start().await;
    let body = json!({
        "schemas": ["urn:ietf:params:scim:schemas:core:2.0:User", "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User"],
        "userName": "Ann@Example.com", "externalId": "e-1", "name": { "givenName": "Ann", "familyName": "Lee" },
        "emails": [{ "value": "ann@example.com", "type": "work", "primary": true }],
        "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User": { "department": "R" },
    });
    let made = provider.scim(Method::POST, "/Users", body.clone()).await;
    assert_eq!(
        (made.status, &made.body["active"]),
        (201, &json!(true)),
        "{}",
        made.body
    );
    let location = made.headers["location"].to_str().expect("text").to_owned();
    assert_eq!(
        location,
        provider.world.url(&format!("/scim/v2/Users/{}", made.id()))
    );
    let again = provider
        .scim(
            Method::POST,
            "/Users",
            json!({ "userName": "ANN@example.com" }),
        )
        .await;
    assert_eq!((again.status, again.kind()), (409, "uniqueness"));

    let path = format!("/Users/{}", made.id());
    let first = made.etag();
    let unchanged = provider
        .scim_with(
            &provider.key,
            Method::GET,
            &path,
            Value::Null,
            &[("if-none-match", &first)],
        )
        .await;
    assert_eq!(unchanged.status, 304);
    // of two who change the same version one is told to read again
    let change =
        json!({ "Operations": [{ "op": "replace", "path": "name.familyName", "value": "Li" }] });
    let with = [("if-match", first.as_str())];
    let one = provider
        .scim_with(&provider.key, Method::PATCH, &path, change.clone(), &with)
        .await;
    let other = provider
        .scim_with(&provider.key, Method::PATCH, &path, change.clone(), &with)
        .await;
    assert_eq!((one.status, other.status), (200, 412));
    assert_eq!(one.body["name"]["familyName"], "Li");
    assert_ne!(one.etag(), first);
    // the same again changes nothing, and is not on record
    let same = provider.scim(Method::PATCH, &path, change).await;
    assert_eq!((same.status, same.etag()), (200, one.etag()));
    assert_eq!(provider.recorded("scim_user.update").await, 1);

    let shown: (String, String) =
        sqlx::query_as("SELECT display_name, email FROM principals WHERE issuer = $1 AND subject = 'Ann@Example.com'")
            .bind(ISSUER)
            .fetch_one(&provider.world.pool().await)
            .await
            .expect("registered");
    // members read an address that the issuer has verified, or none
    assert_eq!(shown, ("Ann Li".to_owned(), String::new()));
    let address = json!([{ "value": "ann@example.com", "type": "work", "primary": true }]);
    assert_eq!(one.body["emails"], address, "{}", one.body);

    let replaced = provider
        .scim(Method::PUT, &path, json!({ "userName": "ann@example.com" }))
        .await;
    assert_eq!(replaced.status, 200, "{}", replaced.body);
    assert_eq!(
        (&replaced.body["name"], &replaced.body["active"]),
        (&Value::Null, &json!(true))
    );
    let token = provider.world.token("ann@example.com");
    assert!(!token.is_empty());
    provider.becomes("ann@example.com", 200).await;
    provider.becomes("Ann@Example.com", 403).await;

    assert_eq!(
        provider
            .scim(Method::DELETE, &path, Value::Null)
            .await
            .status,
        204
    );
    assert_eq!(
        provider.scim(Method::GET, &path, Value::Null).await.status,
        404
    );
    assert_eq!(
        provider
            .scim(Method::DELETE, &path, Value::Null)
            .await
            .status,
        404
    );
    provider.becomes("ann@example.com", 403).await;
    // who comes back is the same person
    provider.user("ann@example.com").await;
    provider.becomes("ann@example.com", 200).await;
    for (action, count) in [
        ("scim_user.create", 2),
        ("scim_user.update", 2),
        ("scim_user.delete", 1),
    ] {
        assert_eq!(provider.recorded(action).await, count, "{action}");
    }
}

#[tokio::test]
async fn users_are_found_by_filters_page_by_page() {
    let provider = Provider::start().await;
    for (name, family, kind) in [
        ("ann", "Lee", "work"),
        ("bob", "Lee", "home"),
        ("cy", "Poe", "work"),
    ] {
        let body = json!({
            "userName": name, "externalId": format!("E-{name}"), "name": { "familyName": family },
            "emails": [{ "value": format!("{name}@example.com"), "type": kind }], "active": name != "bob",
        });
        provider.scim(Method::POST, "/Users", body).await.id();
    }
    let names = async |query: &str| {
        let query = query.replace(' ', "%20").replace('"', "%22");
        let found = provider
            .scim(Method::GET, &format!("/Users?{query}"), Value::Null)
            .await;
        assert_eq!(found.status, 200, "{query}: {}", found.body);
        let all = found.body["Resources"].as_array().expect("a list").clone();
        let names = all
            .iter()
            .map(|one| one["userName"].as_str().unwrap_or_default().to_owned());
        (
            names.collect::<Vec<_>>().join(" "),
            found.body["totalResults"].as_i64().expect("a number"),
        )
    };
    for (filter, expected) in [
        ("userName eq \"ANN\"", "ann"),
        ("externalId eq \"E-ann\"", "ann"),
        ("externalId eq \"e-ann\"", ""),
        ("name.familyName eq \"lee\" and active eq true", "ann"),
        ("active eq false", "bob"),
        ("emails[type eq \"work\" and value sw \"cy\"]", "cy"),
        ("emails.value co \"B@\"", "bob"),
        ("emails eq \"ann@example.com\"", "ann"),
        ("not (userName sw \"a\" or userName ew \"y\")", "bob"),
        ("displayName pr", ""),
        ("meta.created gt \"2020-01-01T00:00:00Z\"", "ann bob cy"),
        ("userName co \"%\"", ""),
        ("id eq \"x\"", ""),
    ] {
        let (found, _) = names(&format!("filter={}", filter.replace('%', "%25"))).await;
        assert_eq!(found, expected, "{filter}");
    }
    assert_eq!(
        names("sortBy=userName&sortOrder=descending").await,
        ("cy bob ann".to_owned(), 3)
    );
    assert_eq!(names("startIndex=2&count=1").await, ("bob".to_owned(), 3));
    assert_eq!(names("count=0").await, (String::new(), 3));
    let search = json!({ "filter": "userName eq \"cy\"", "attributes": ["userName"] });
    let found = provider.scim(Method::POST, "/Users/.search", search).await;
    let one = &found.body["Resources"][0];
    assert_eq!(
        (&one["userName"], &one["emails"]),
        (&json!("cy"), &Value::Null)
    );
    assert_eq!(provider.recorded("scim_user.update").await, 0);
}

#[tokio::test]
async fn p_10_who_is_not_active_is_out_at_once_with_streams_and_terminals() {
    let provider = Provider::start().await;
    let world = &provider.world;
    let user = provider.user("dora").await;
    let group = provider.group("ml", &[&user]).await;
    provider.map(&group, "member").await;
    provider.becomes("dora", 200).await;
    let name: String = sqlx::query_scalar("SELECT name FROM principals WHERE subject = 'dora'")
        .fetch_one(&world.pool().await)
        .await
        .expect("registered");

    let token = world.token("dora");
    let open = world
        .http
        .get(world.url("/api/v1/allocations/silent:watch"));
    let mut stream = open.bearer_auth(&token).send().await.expect("answer");
    stream.chunk().await.expect("open").expect("a message");
    let (mut terminal, _) = opened_by(world, &name, &token).await;

    let path = format!("/Users/{user}");
    let out = provider
        .patch(
            &path,
            json!({ "op": "Replace", "path": "active", "value": "False" }),
        )
        .await;
    assert_eq!(
        (out.status, &out.body["active"]),
        (200, &json!(false)),
        "{}",
        out.body
    );
    let rest = stream.text().await.expect("it ends");
    let last: Value = serde_json::from_str(rest.lines().last().expect("a message")).expect("JSON");
    assert_eq!(reason(&last), "PERMISSION_DENIED");
    ended(&mut terminal).await;
    provider.becomes("dora", 403).await;
    assert_eq!(provider.role("dora").await, None);

    // a provider that does not speak of it lets nobody in again
    let replaced = provider
        .scim(Method::PUT, &path, json!({ "userName": "dora" }))
        .await;
    assert_eq!(replaced.body["active"], false);
    provider.becomes("dora", 403).await;
    let back = provider
        .patch(
            &path,
            json!({ "op": "replace", "value": { "active": true } }),
        )
        .await;
    assert_eq!(back.status, 200);
    provider.becomes("dora", 200).await;
    assert_eq!(
        provider.role("dora").await,
        Some(("member".to_owned(), true))
    );
}

#[tokio::test]
async fn an_organisations_last_owner_is_not_removed() {
    let provider = Provider::start().await;
    let user = provider.user("demo").await;
    let path = format!("/Users/{user}");
    for refused in [
        provider
            .patch(
                &path,
                json!({ "op": "replace", "path": "active", "value": false }),
            )
            .await,
        provider
            .patch(&path, json!({ "op": "remove", "path": "active" }))
            .await,
        provider
            .scim(
                Method::PUT,
                &path,
                json!({ "userName": "demo", "active": false }),
            )
            .await,
        provider.scim(Method::DELETE, &path, Value::Null).await,
    ] {
        assert_eq!(refused.status, 403, "{}", refused.body);
        let detail = refused.body["detail"].as_str().expect("why");
        assert!(detail.contains("last owner"), "{detail}");
    }
    provider.becomes("demo", 200).await;

    // another owner: the first may go, out of the organisation and not out of the platform
    let pool = provider.world.pool().await;
    gpuaas_gateway::store::own_organisation(&pool, provider.organisation(), "user:admin")
        .await
        .expect("an owner");
    let out = provider
        .patch(
            &path,
            json!({ "op": "replace", "path": "active", "value": false }),
        )
        .await;
    assert_eq!(out.status, 200, "{}", out.body);
    assert_eq!(provider.role("demo").await, None);
    let disabled: bool = sqlx::query_scalar(
        "SELECT disable_time IS NOT NULL FROM principals WHERE subject = 'demo'",
    )
    .fetch_one(&pool)
    .await
    .expect("registered");
    assert!(!disabled, "SCIM did not register this person");
}

#[tokio::test]
async fn no_payload_makes_an_administrator_or_touches_one() {
    let provider = Provider::start().await;
    let body = json!({
        "userName": "eve", "roles": [{ "value": "admin", "primary": true }], "entitlements": [{ "value": "owner" }],
        "platform_role": "admin", "platformRole": "admin", "userType": "admin", "kind": "service",
        "groups": [{ "value": "admins" }], "id": "00000000-0000-0000-0000-000000000000", "principal": "user:admin",
        "meta": { "resourceType": "Admin" }, "urn:x:Admin": { "admin": true },
    });
    let eve = provider.scim(Method::POST, "/Users", body).await;
    let pool = provider.world.pool().await;
    let roles: (Option<String>, String, i64) = sqlx::query_as(
        "SELECT platform_role, kind, (SELECT count(*) FROM access_of(p.id)) FROM principals p WHERE subject = 'eve'",
    )
    .fetch_one(&pool)
    .await
    .expect("registered");
    assert_eq!(roles, (None, "user".to_owned(), 0));
    for attribute in ["roles", "platform_role", "groups", "meta"] {
        let operation = json!({ "op": "add", "path": attribute, "value": [{ "value": "admin" }] });
        provider
            .patch(&format!("/Users/{}", eve.id()), operation)
            .await;
    }
    assert_eq!(provider.becomes("eve", 200).await["allocations"], json!([]));

    // an administrator of the platform who is in the organisation keeps the platform, and the name
    let admin = provider.user("admin").await;
    let path = format!("/Users/{admin}");
    let renamed = provider
        .scim(
            Method::PUT,
            &path,
            json!({ "userName": "mallory", "active": true }),
        )
        .await;
    assert_eq!((renamed.status, renamed.kind()), (400, "mutability"));
    let out = provider
        .patch(
            &path,
            json!({ "op": "replace", "path": "active", "value": false }),
        )
        .await;
    assert_eq!(out.status, 200, "{}", out.body);
    let (status, _) = provider
        .api(
            "admin",
            Method::GET,
            "/api/v1/admin/organisations",
            Value::Null,
        )
        .await;
    assert_eq!(status, 200, "still an administrator");
    assert_eq!(provider.role("admin").await, None);
}

#[tokio::test]
async fn whom_the_platform_has_disabled_no_provider_lets_in() {
    let provider = Provider::start().await;
    let user = provider.user("fay").await;
    let pool = provider.world.pool().await;
    sqlx::query("UPDATE principals SET disable_time = now(), disabled_by_platform = true WHERE subject = 'fay'")
        .execute(&pool)
        .await
        .expect("disabled");
    let path = format!("/Users/{user}");
    for active in [false, true] {
        provider
            .patch(
                &path,
                json!({ "op": "replace", "path": "active", "value": active }),
            )
            .await;
    }
    provider.becomes("fay", 403).await;
    assert_eq!(
        provider
            .scim(Method::DELETE, &path, Value::Null)
            .await
            .status,
        204
    );
    provider.user("fay").await;
    provider.becomes("fay", 403).await;
}

#[tokio::test]
async fn what_is_wrong_with_a_user_is_said_and_changes_nothing() {
    let provider = Provider::start().await;
    let user = provider.user("gil").await;
    let path = format!("/Users/{user}");
    for (body, kind) in [
        (json!({}), "invalidValue"),
        (json!({ "userName": "" }), "invalidValue"),
        (json!({ "userName": " " }), "invalidValue"),
        (json!({ "userName": 7 }), "invalidValue"),
        (json!({ "userName": "a\u{0}" }), "invalidValue"),
        (json!({ "userName": "x".repeat(257) }), "invalidValue"),
        (
            json!({ "userName": "x", "active": "maybe" }),
            "invalidValue",
        ),
        (json!({ "userName": "x", "name": "X" }), "invalidValue"),
        (json!({ "userName": "x", "emails": [1] }), "invalidValue"),
        (
            json!({ "userName": "x", "emails": [{ "value": "a", "primary": true }, { "value": "b", "primary": true }] }),
            "invalidValue",
        ),
        (json!([]), "invalidSyntax"),
    ] {
        for (method, path) in [(Method::POST, "/Users"), (Method::PUT, path.as_str())] {
            let refused = provider.scim(method, path, body.clone()).await;
            assert_eq!(
                (refused.status, refused.kind()),
                (400, kind),
                "{body}: {}",
                refused.body
            );
        }
    }
    for name in [
        "иван",
        "अनुज",
        "a'; DROP TABLE scim_users; --",
        "%",
        "\\",
        "x".repeat(256).as_str(),
    ] {
        let id = provider.user(name).await;
        let found = provider
            .scim(Method::GET, &format!("/Users/{id}"), Value::Null)
            .await;
        assert_eq!(found.body["userName"], name);
    }
    for (query, kind) in [
        ("filter=userName", "invalidFilter"),
        ("filter=password%20eq%20%22x%22", "invalidFilter"),
        ("filter=userName%20eq%201", "invalidFilter"),
        ("filter=userName%20eq%20%22%5Cu0000%22", "invalidFilter"),
        ("filter=active%20co%20true", "invalidFilter"),
        ("count=many", "invalidValue"),
        ("sortBy=emails", "invalidValue"),
    ] {
        let refused = provider
            .scim(Method::GET, &format!("/Users?{query}"), Value::Null)
            .await;
        assert_eq!((refused.status, refused.kind()), (400, kind), "{query}");
    }
    let url = provider.world.url("/scim/v2/Users");
    let request = provider.world.http.post(url).bearer_auth(&provider.key);
    let plain = request.header("content-type", "text/plain").body("{}");
    assert_eq!(plain.send().await.expect("answer").status(), 415);
    assert_eq!(provider.recorded("scim_user.update").await, 0);
}
