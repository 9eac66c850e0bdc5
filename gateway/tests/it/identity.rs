//! Who calls, and which projects there are.
use reqwest::Method;
use serde_json::{Value, json};

use crate::world::{ISSUER, World, answer, field, reason};

#[tokio::test]
async fn whoami_tells_the_caller_from_its_token() {
    let world = World::start().await;
    let (status, body) = world.call(Method::GET, "/api/v1/whoami", "demo").await;
    assert_eq!(status, 200, "{body}");
    assert!(body["expire_time"].is_string(), "{body}");
    let created = &body["projects"][0]["create_time"];
    assert!(
        created.is_string() && body["principal_id"].is_string(),
        "{body}"
    );
    let project = json!({
        "id": world.seeded.project_id, "slug": "demo", "display_name": "demo", "organisation": "lab",
        "organisation_id": world.seeded.organisation_id, "state": "active", "state_reason": "",
        "suspended_by_platform": false, "role": "owner", "create_time": created,
        "update_time": body["projects"][0]["update_time"], "etag": "1",
    });
    let expected = json!({
        "principal": "user:demo", "display_name": "user:demo", "issuer": ISSUER, "subject": "demo",
        "roles": [], "projects": [project], "expire_time": body["expire_time"],
        "kind": "user", "platform_role": "unspecified", "organisations": [], "principal_id": body["principal_id"], "email": "",
    });
    assert_eq!(body, expected);
    let (_, admin) = world.call(Method::GET, "/api/v1/whoami", "admin").await;
    assert_eq!(admin["roles"], json!(["platform_admin"]), "{admin}");
    assert_eq!(admin["platform_role"], "admin");
    // who is not registered learns as whom an invitation would register it, and nothing else
    let (status, body) = world.call(Method::GET, "/api/v1/whoami", "nobody").await;
    assert_eq!((status, &body["principal"]), (200, &json!("")), "{body}");
    assert_eq!(
        (&body["subject"], &body["projects"]),
        (&json!("nobody"), &json!([]))
    );
    let (status, body) = world
        .call(Method::GET, "/api/v1/allocations", "nobody")
        .await;
    assert_eq!((status, reason(&body)), (403, "PERMISSION_DENIED"));
    sqlx::query("UPDATE principals SET disable_time = now() WHERE subject = 'demo'")
        .execute(&world.pool().await)
        .await
        .expect("disabled");
    let refused = async || {
        let (status, body) = world.call(Method::GET, "/api/v1/whoami", "demo").await;
        (status == 403).then_some(body)
    };
    let started = std::time::Instant::now();
    let body = loop {
        if let Some(body) = refused().await {
            break body;
        }
        assert!(
            started.elapsed() < std::time::Duration::from_secs(20),
            "let in"
        );
    };
    assert_eq!(
        reason(&body),
        "PERMISSION_DENIED",
        "disabled is not unregistered"
    );
    assert_eq!(world.record.all().len(), 0, "no service is asked");
}

#[tokio::test]
async fn an_administrator_lists_all_projects_page_by_page() {
    let world = World::start().await;
    for slug in ["alpha", "zeta"] {
        sqlx::query("INSERT INTO projects (id, organisation_id, slug, display_name) VALUES ($1, $2, $3, upper($3))")
            .bind(uuid::Uuid::now_v7())
            .bind(world.seeded.organisation_id)
            .bind(slug)
            .execute(&world.pool().await)
            .await
            .expect("inserted");
    }
    let list = async |query: &str, subject| {
        let target = format!("/api/v1/admin/projects{query}");
        world.call(Method::GET, &target, subject).await
    };
    let slugs = |page: &Value| -> Vec<String> {
        let projects = page["projects"].as_array().expect("projects");
        let slug = |one: &Value| one["slug"].as_str().expect("slug").to_owned();
        projects.iter().map(slug).collect()
    };
    let (status, first) = list("?page_size=2", "admin").await;
    assert_eq!(status, 200, "{first}");
    assert_eq!(slugs(&first), ["alpha", "demo"]);
    assert_eq!(first["projects"][0]["display_name"], "ALPHA");
    let token = first["next_page_token"].as_str().expect("a token");
    let (_, second) = list(&format!("?page_size=2&page_token={token}"), "admin").await;
    assert_eq!(slugs(&second), ["zeta"]);
    assert_eq!(second["next_page_token"], "");
    let (status, body) = list("?page_token=x", "admin").await;
    assert_eq!((status, field(&body)), (400, "page_token"));
    assert_eq!(list("", "demo").await.0, 403);
}

/// Every method that no service serves is answered by the gateway.
#[tokio::test]
async fn no_method_of_the_gateway_itself_is_left_out() {
    let world = World::start().await;
    let table = gpuaas_gateway::routes().expect("served");
    let own: Vec<_> = table
        .routes()
        .iter()
        .filter(|route| route.service == gpuaas_gateway::contract::route::GATEWAY)
        .collect();
    assert!(!own.is_empty());
    for route in own {
        let request = world
            .http
            .request(route.http_method.clone(), world.url(&route.pattern))
            .bearer_auth(world.token("admin"))
            .header("x-idempotency-key", uuid::Uuid::now_v7().to_string());
        let (status, body) = answer(request.send().await.expect("answer")).await;
        assert!(
            [200, 400, 404].contains(&status),
            "{}: {body}",
            route.pattern
        );
    }
}
