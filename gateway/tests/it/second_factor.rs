//! Administrators need a second factor where the settings of their issuer ask for one (H-20, P10).
use gpuaas_gateway::auth::verify::IssuerSettings;
use jiff::Timestamp;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use reqwest::Method;
use serde_json::{Value, json};

use crate::issuers::{IDP, es256, settings};
use crate::world::{World, answer, reason};

/// A gateway with an issuer whose administrators need a second factor, and its key.
async fn world() -> (World, EncodingKey) {
    let (key, keys) = es256("k1");
    let world = World::start_with(|config, folder| {
        let file = folder.join("jwks.json");
        std::fs::write(&file, serde_json::to_string(&keys).expect("JSON")).expect("write");
        config.issuers.push(IssuerSettings {
            jwks_file: Some(file),
            admin_acr: vec!["urn:example:gold".to_owned()],
            admin_amr: vec!["mfa".to_owned(), "hwk".to_owned()],
            ..settings()
        });
    })
    .await;
    (world, key)
}

/// A principal of that issuer with this role on the platform; its subject is the role, its name `user:second-ROLE`.
async fn register(world: &World, role: &str) {
    sqlx::query(
        "INSERT INTO principals (id, name, issuer, subject, display_name, platform_role)
         VALUES ($1, 'user:second-' || $2, $3, $2, '', $2)",
    )
    .bind(uuid::Uuid::now_v7())
    .bind(role)
    .bind(IDP)
    .execute(&world.pool().await)
    .await
    .expect("registered");
}

/// Calls as that principal, with these claims of how it signed in.
async fn send(
    (world, key): &(World, EncodingKey),
    role: &str,
    proof: &Value,
    (method, path, body): (Method, &str, Option<Value>),
) -> (u16, Value) {
    let end = Timestamp::now().as_second() + 60;
    let mut claims = json!({ "iss": IDP, "aud": "api", "sub": role, "exp": end });
    for (name, value) in proof.as_object().expect("object") {
        claims[name] = value.clone();
    }
    let header = Header {
        kid: Some("k1".to_owned()),
        ..Header::new(Algorithm::ES256)
    };
    let token = jsonwebtoken::encode(&header, &claims, key).expect("signed");
    let mut request = world
        .http
        .request(method, world.url(path))
        .bearer_auth(token);
    if let Some(body) = body {
        let key = uuid::Uuid::now_v7().to_string();
        request = request.header("x-idempotency-key", key).json(&body);
    }
    answer(request.send().await.expect("answer")).await
}

/// The same, with the reason of a refusal; an empty one where the call is answered.
async fn call(
    platform: &(World, EncodingKey),
    role: &str,
    proof: &Value,
    request: (Method, &str, Option<Value>),
) -> (u16, String) {
    let (status, body) = send(platform, role, proof, request).await;
    let why = if status == 200 {
        String::new()
    } else {
        reason(&body).to_owned()
    };
    (status, why)
}

#[tokio::test]
async fn an_administrator_without_a_second_factor_does_what_a_user_may() {
    let platform = world().await;
    register(&platform.0, "admin").await;
    let refused = (403, "SECOND_FACTOR_REQUIRED".to_owned());
    for (proof, proven) in [
        (json!({}), false),
        (json!({ "amr": ["pwd"] }), false),
        (json!({ "amr": "mfa" }), false),
        (json!({ "acr": "0" }), false),
        (json!({ "acr": ["urn:example:gold"] }), false),
        (json!({ "amr": ["pwd", "mfa"] }), true),
        (json!({ "acr": "urn:example:gold", "amr": null }), true),
    ] {
        let expected = if proven {
            (200, String::new())
        } else {
            refused.clone()
        };
        let get =
            async |path: &str| call(&platform, "admin", &proof, (Method::GET, path, None)).await;
        assert_eq!(get("/api/v1/admin/projects").await, expected, "{proof}");
        assert_eq!(get("/api/v1/whoami").await.0, 200, "{proof}");
    }
    // the embedded issuer asks for none
    let (status, _) = platform
        .0
        .call(Method::GET, "/api/v1/admin/projects", "admin")
        .await;
    assert_eq!(status, 200);
}

/// What is not for administrators alone, yet shows or gives them more than others, takes the second factor, too.
#[tokio::test]
async fn without_a_second_factor_no_platform_role_reaches_foreign_projects() {
    let platform = world().await;
    let seeded = &platform.0.seeded;
    let project = format!("/api/v1/projects/{}", seeded.project_id);
    let organisation = format!("/api/v1/organisations/{}", seeded.organisation_id);
    let (none, second) = (json!({ "amr": ["pwd"] }), json!({ "amr": ["mfa"] }));
    let changes = [
        (
            Method::PATCH,
            project.clone(),
            json!({ "display_name": "Ours" }),
        ),
        (
            Method::POST,
            format!("{project}/members"),
            json!({ "principal": "user:second-admin", "role": "owner" }),
        ),
        (
            Method::POST,
            format!("{project}:suspend"),
            json!({ "reason": "By role" }),
        ),
        (
            Method::PATCH,
            organisation.clone(),
            json!({ "display_name": "Ours" }),
        ),
    ];
    let reads = [
        project.clone(),
        format!("{project}/members"),
        organisation.clone(),
        format!("{organisation}/members"),
    ];
    for role in ["admin", "operator", "auditor"] {
        register(&platform.0, role).await;
        for path in &reads {
            let get = async |proof| call(&platform, role, proof, (Method::GET, path, None)).await;
            assert_eq!(get(&none).await.0, 404, "{role} {path}");
            assert_eq!(get(&second).await, (200, String::new()), "{role} {path}");
        }
        for (method, path, body) in &changes {
            let change = (method.clone(), path.as_str(), Some(body.clone()));
            let (status, why) = call(&platform, role, &none, change.clone()).await;
            assert_eq!(status, 404, "{role} {path}: {why}");
            if role != "admin" {
                let (status, why) = call(&platform, role, &second, change).await;
                assert_eq!(
                    (status, why.as_str()),
                    (403, "PERMISSION_DENIED"),
                    "{role} {path}"
                );
            }
        }
    }
    // nor has a mere viewer of the project more of it by its role on the platform
    platform
        .0
        .member(&seeded.project_id.to_string(), "second-admin", "viewer")
        .await;
    for (method, path, body) in &changes[..3] {
        let change = (method.clone(), path.as_str(), Some(body.clone()));
        let (status, why) = call(&platform, "admin", &none, change).await;
        assert_eq!(status, 403, "{path}: {why}");
    }
    // with it, all but to become a member a second time
    for (method, path, body) in changes
        .iter()
        .filter(|(_, path, _)| !path.ends_with("members"))
    {
        let change = (method.clone(), path.as_str(), Some(body.clone()));
        let (status, why) = call(&platform, "admin", &second, change).await;
        assert_eq!(status, 200, "{path}: {why}");
    }
}

/// What everybody may ask for shows no more by a role whose second factor is missing, and the role adds nothing to that of a
/// member. Who lacks it learns that, to sign in again.
#[tokio::test]
async fn without_a_second_factor_a_platform_role_reads_what_a_member_reads() {
    let platform = world().await;
    let world = &platform.0;
    let project = world.seeded.project_id.to_string();
    let webhooks = format!("/api/v1/projects/{project}/webhooks");
    // whoever sees all SKUs finds one more page
    let skus = "/api/v1/skus?page_token=1";
    let of_a_member = world.call(Method::GET, skus, "demo").await;
    assert_eq!(of_a_member.0, 200, "{}", of_a_member.1);
    let (none, second) = (json!({ "amr": ["pwd"] }), json!({ "amr": ["mfa"] }));
    for role in ["admin", "operator", "auditor"] {
        register(world, role).await;
        world
            .member(&project, &format!("second-{role}"), "billing")
            .await;
        let get = async |proof: &Value, path: &str| {
            send(&platform, role, proof, (Method::GET, path, None)).await
        };
        assert_eq!(get(&none, skus).await, of_a_member, "{role}");
        let (status, all) = get(&second, skus).await;
        assert_eq!(status, 200, "{role}: {all}");
        assert_ne!(all, of_a_member.1, "{role}");

        let (status, refused) = get(&none, &webhooks).await;
        assert_eq!(
            (status, reason(&refused)),
            (403, "PERMISSION_DENIED"),
            "{role}: {refused}"
        );
        assert_eq!(get(&second, &webhooks).await.0, 200, "{role}");

        let (_, caller) = get(&none, "/api/v1/whoami").await;
        assert_eq!(caller["platform_role"], role, "{caller}");
        let (status, refused) = get(&none, "/api/v1/admin/projects").await;
        assert_eq!(
            (status, reason(&refused)),
            (403, "SECOND_FACTOR_REQUIRED"),
            "{role}: {refused}"
        );
    }
}
