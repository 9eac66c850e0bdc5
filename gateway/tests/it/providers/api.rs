//! What the API makes of tokens of identity providers that nobody here wrote.
use std::time::Duration;

use gpuaas_dev::until::until;

use super::{API, CALLBACK, Client, SCOPE, Trusting, form};
use crate::visitor::{Ended, Visitor};
use crate::world::reason;

#[tokio::test]
async fn who_signs_in_with_oidc_provider_uses_the_api_until_it_says_that_she_has_left() {
    let trusting = Trusting::oidc_provider(Client::Test).await;
    let mut browser = Visitor::new(&[("login", "ada"), ("password", "x"), ("logout", "yes")]);
    let tokens = trusting.sign_in(&mut browser).await;
    let (status, caller) = trusting.call(&tokens["access_token"]).await;
    assert_eq!(
        (status, &caller["principal"]),
        (200, &"user:ada".into()),
        "{caller}"
    );
    let (status, body) = trusting.call(&tokens["id_token"]).await;
    assert_eq!(
        (status, reason(&body)),
        (401, "CREDENTIAL_INVALID"),
        "an id token is no access token"
    );
    let refresh = tokens["refresh_token"].as_str().expect("a refresh token");
    let fields = [
        ("grant_type", "refresh_token"),
        ("client_id", "console"),
        ("refresh_token", refresh),
    ];
    let (status, renewed) = trusting.post("token_endpoint", &fields).await;
    assert_eq!(status, 200, "{renewed}");
    assert_eq!(trusting.call(&renewed["access_token"]).await.0, 200);

    let hint = tokens["id_token"].as_str().expect("an id token");
    let page = form(&[
        ("id_token_hint", hint),
        ("post_logout_redirect_uri", CALLBACK),
    ]);
    let left = browser
        .visit(
            &format!("{}?{page}", trusting.endpoint("end_session_endpoint")),
            CALLBACK,
        )
        .await;
    assert!(matches!(left, Ended::At(_)), "{left:?}");
    let (status, body) = until(
        "the gateway to hear of it",
        Duration::from_secs(20),
        async || {
            let (status, body) = trusting.call(&renewed["access_token"]).await;
            (status != 200).then_some((status, body))
        },
    )
    .await;
    assert_eq!((status, reason(&body)), (401, "CREDENTIAL_INVALID"));
}

#[tokio::test]
async fn a_program_signs_in_with_oidc_provider_by_a_code() {
    let trusting = Trusting::oidc_provider(Client::Test).await;
    let fields = [
        ("client_id", "cli"),
        ("scope", SCOPE),
        ("prompt", "consent"),
        ("resource", API),
    ];
    let (status, device) = trusting
        .post("device_authorization_endpoint", &fields)
        .await;
    assert_eq!(status, 200, "{device}");
    let code = device["device_code"].as_str().expect("a code");
    let fields = [
        ("grant_type", "urn:ietf:params:oauth:grant-type:device_code"),
        ("client_id", "cli"),
        ("device_code", code),
    ];
    let (_, early) = trusting.post("token_endpoint", &fields).await;
    assert_eq!(early["error"], "authorization_pending");
    let mut browser = Visitor::new(&[("login", "ada"), ("password", "x")]);
    let page = device["verification_uri_complete"]
        .as_str()
        .expect("a page");
    let done = browser.visit(page, CALLBACK).await;
    assert!(
        matches!(&done, Ended::Page(page) if page.contains("Success")),
        "{done:?}"
    );
    let (status, tokens) = trusting.post("token_endpoint", &fields).await;
    assert_eq!(status, 200, "{tokens}");
    assert_eq!(trusting.call(&tokens["access_token"]).await.0, 200);
}

/// It gives access tokens and id tokens of one audience, so that nothing but their claims tells them apart.
#[tokio::test]
async fn who_signs_in_with_canaille_uses_the_api_by_her_access_token_alone() {
    let trusting = Trusting::canaille(Client::Test).await;
    let answers = [
        ("login", "ada"),
        ("password", "correct-horse"),
        ("answer", "accept"),
    ];
    let tokens = trusting.sign_in(&mut Visitor::new(&answers)).await;
    let (status, caller) = trusting.call(&tokens["access_token"]).await;
    assert_eq!(
        (status, &caller["principal"]),
        (200, &"user:ada".into()),
        "{caller}"
    );
    let (status, body) = trusting.call(&tokens["id_token"]).await;
    assert_eq!((status, reason(&body)), (401, "CREDENTIAL_INVALID"));
    let refresh = tokens["refresh_token"].as_str().expect("a refresh token");
    let fields = [
        ("grant_type", "refresh_token"),
        ("client_id", "console"),
        ("refresh_token", refresh),
    ];
    let (status, renewed) = trusting.post("token_endpoint", &fields).await;
    assert_eq!(status, 200, "{renewed}");
    assert_eq!(trusting.call(&renewed["access_token"]).await.0, 200);
}
