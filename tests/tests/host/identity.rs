//! The identity token of a real VM: the guest gets it from its host, and anybody verifies it by what the public API serves.
use gpuaas_tests::api::text;
use gpuaas_tests::system::System;
use jsonwebtoken::jwk::JwkSet;
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use serde_json::Value;

const AUDIENCE: &str = "https://vault.example";

/// The token says which VM it is, for its audience alone.
pub async fn is_verified(system: &System, allocation: &Value) {
    let (head, token) = asked(system, allocation);
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    let documents = "/instance-identity";
    let of = async |path: &str| {
        let found = system.user.get(&format!("{documents}{path}")).await;
        found.unwrap_or_else(|refusal| panic!("{path}: {}", refusal.body))
    };
    let issuer = of("/.well-known/openid-configuration").await;
    let keys: JwkSet = serde_json::from_value(of("/jwks.json").await).expect("a key set");
    let kid = decode_header(&token).expect("a token").kid.expect("a kid");
    let key = DecodingKey::from_jwk(keys.find(&kid).expect("its key")).expect("a key");
    let for_audience = |audience: &str| {
        let mut validation = Validation::new(Algorithm::ES256);
        validation.set_audience(&[audience]);
        validation.set_issuer(&[text(&issuer, "/issuer")]);
        decode::<Value>(&token, &key, &validation)
    };
    let claims = for_audience(AUDIENCE).expect("verified").claims;
    let id = text(allocation, "/id");
    assert_eq!(claims["allocation_id"], id, "{claims}");
    let project = text(allocation, "/config/project_id");
    assert_eq!(claims["project_id"], project, "{claims}");
    assert_eq!(claims["region"], "lab-1", "{claims}");
    assert_eq!(
        claims["sub"],
        format!("project:{project}:allocation:{id}"),
        "{claims}"
    );
    for_audience("https://another.example").expect_err("another's audience");
}

/// Head and body of the host's answer, as a program in the guest gets it.
fn asked(system: &System, allocation: &Value) -> (String, String) {
    let script = format!(
        r#"ask() {{ printf '%s HTTP/1.1\r\nHost: metadata\r\n%s\r\n\r\n' "$1" "$2" | timeout 8 nc -w 4 169.254.169.254 80; }}
           session=$(ask 'PUT /latest/api/token' 'X-aws-ec2-metadata-token-ttl-seconds: 60' | sed -n '$p')
           ask 'GET /latest/identity?audience={AUDIENCE}' "X-aws-ec2-metadata-token: $session""#
    );
    let heard = system.said(allocation, &script);
    let (head, body) = heard.split_once("\r\n\r\n").expect(&heard);
    (head.to_owned(), body.trim().to_owned())
}
