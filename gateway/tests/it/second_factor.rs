//! Administrators need a second factor where the settings of their issuer ask for one.
use gpuaas_gateway::auth::verify::IssuerSettings;
use jiff::Timestamp;
use jsonwebtoken::{Algorithm, Header};
use serde_json::{Value, json};

use crate::issuers::{IDP, es256, settings};
use crate::world::{World, answer, reason};

#[tokio::test]
async fn an_administrator_without_a_second_factor_does_what_a_user_may() {
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
    sqlx::query("INSERT INTO principals (id, name, issuer, subject, display_name, platform_role) VALUES ($1, 'user:boss', $2, '1', '', 'admin')")
        .bind(uuid::Uuid::now_v7())
        .bind(IDP)
        .execute(&world.pool().await)
        .await
        .expect("registered");
    let call = async |path: &str, proof: &Value| {
        let end = Timestamp::now().as_second() + 60;
        let mut claims = json!({ "iss": IDP, "aud": "api", "sub": "1", "exp": end });
        for (name, value) in proof.as_object().expect("object") {
            claims[name] = value.clone();
        }
        let header = Header {
            kid: Some("k1".to_owned()),
            ..Header::new(Algorithm::ES256)
        };
        let token = jsonwebtoken::encode(&header, &claims, &key).expect("signed");
        let request = world.http.get(world.url(path)).bearer_auth(token);
        let (status, body) = answer(request.send().await.expect("answer")).await;
        let why = if status == 200 {
            String::new()
        } else {
            reason(&body).to_owned()
        };
        (status, why)
    };
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
        assert_eq!(
            call("/api/v1/admin/projects", &proof).await,
            expected,
            "{proof}"
        );
        assert_eq!(call("/api/v1/whoami", &proof).await.0, 200, "{proof}");
    }
    // the embedded issuer asks for none
    let (status, _) = world
        .call(reqwest::Method::GET, "/api/v1/admin/projects", "admin")
        .await;
    assert_eq!(status, 200);
}
