//! Invitations: good once, in time, for one address; and how they register who is not registered.
use gpuaas_gateway::auth::verify::IssuerSettings;
use jiff::{SignedDuration, Timestamp};
use jsonwebtoken::{Algorithm, Header};
use reqwest::Method;
use serde_json::{Value, json};

use super::{id, outcome};
use crate::issuers::{self, IDP, es256};
use crate::world::{World, field, reason};

const ACCEPT: &str = "/api/v1/invitations:accept";

async fn invite(world: &World, project: &str, body: Value) -> (String, String) {
    let target = format!("/api/v1/projects/{project}/invitations");
    let made = world.made("olga", &target, body).await;
    let token = made["token"].as_str().expect("a token").to_owned();
    assert!(token.starts_with("gpi_") && token.len() > 40, "{token}");
    (id(&made), token)
}

async fn start() -> (World, String) {
    let world = World::start().await;
    world.users(&["olga", "mia", "paul"]).await;
    let organisation = world.organisation("acme", "olga").await;
    let project = world.project(&organisation, "training", "olga").await;
    (world, project)
}

#[tokio::test]
async fn an_invitation_registers_who_is_not_registered_and_is_good_once() {
    let (world, project) = start().await;
    let mail = json!({ "email": "New@Example.com", "role": "member" });
    let (invitation, token) = invite(&world, &project, mail).await;
    let (_, listed) = world
        .get("olga", &format!("/api/v1/projects/{project}/invitations"))
        .await;
    assert_eq!(
        listed["invitations"][0]["token"], "",
        "the token is shown once"
    );
    assert_eq!(listed["invitations"][0]["email"], "new@example.com");
    assert_eq!(listed["invitations"][0]["target"], "acme/training");

    // an identity that nobody knows learns who it is, and may accept, and nothing else
    assert_eq!(world.get("new", "/api/v1/projects").await.0, 403);
    let accept = json!({ "token": token, "display_name": "Новая" });
    let (status, accepted) = world
        .send_as("new", Method::POST, ACCEPT, accept.clone(), "k")
        .await;
    assert_eq!(
        (status, &accepted["state"]),
        (200, &json!("accepted")),
        "{accepted}"
    );
    let (_, me) = world.get("new", "/api/v1/whoami").await;
    assert_eq!(me["projects"][0]["role"], "member", "{me}");
    assert_eq!(
        (&me["display_name"], &me["principal"]),
        (&json!("Новая"), &accepted["accepted_by"])
    );
    // who repeats it has it; who else comes with it has nothing
    assert_eq!(
        world
            .send_as("new", Method::POST, ACCEPT, accept.clone(), "k")
            .await
            .0,
        200
    );
    assert_eq!(world.post_by("new", ACCEPT, accept.clone()).await.0, 200);
    for who in ["mia", "another"] {
        let (status, body) = world.post_by(who, ACCEPT, accept.clone()).await;
        assert_eq!(
            (status, reason(&body)),
            (400, "INVITATION_INVALID"),
            "{who}"
        );
    }
    assert_eq!(
        world.get("another", "/api/v1/whoami").await.1["principal"],
        "",
        "not registered"
    );
    let target = format!("/api/v1/invitations/{invitation}:revoke");
    let (status, body) = world.post_by("olga", &target, json!({})).await;
    assert_eq!((status, reason(&body)), (400, "STATE_CONFLICT"));
    assert_eq!(
        world.recorded("invitation.accept").await,
        2,
        "the registration and the membership"
    );
    let kept: i64 =
        sqlx::query_scalar("SELECT count(*) FROM audit WHERE detail::text LIKE '%' || $1 || '%'")
            .bind(&token)
            .fetch_one(&world.pool().await)
            .await
            .expect("audit");
    assert_eq!(kept, 0, "no token is on record");
}

/// Two who bring the same token at once.
#[tokio::test]
async fn of_two_who_accept_one_comes_too_late() {
    let (world, project) = start().await;
    let (_, token) = invite(
        &world,
        &project,
        json!({ "email": "a@example.com", "role": "viewer" }),
    )
    .await;
    let accept = json!({ "token": token });
    let (mia, paul) = tokio::join!(
        world.post_by("mia", ACCEPT, accept.clone()),
        world.post_by("paul", ACCEPT, accept.clone()),
    );
    let mut all = [outcome(&mia), outcome(&paul)];
    all.sort_unstable();
    assert_eq!(all, [(200, ""), (400, "INVITATION_INVALID")]);
}

#[tokio::test]
async fn an_invitation_that_is_not_good_says_the_same_whatever_is_wrong() {
    let (world, project) = start().await;
    let mail = json!({ "email": "a@example.com", "role": "viewer" });
    let (expired, late) = invite(&world, &project, mail.clone()).await;
    sqlx::query("UPDATE edge.invitations SET expire_time = clock_timestamp() WHERE id = $1::uuid")
        .bind(&expired)
        .execute(&world.db.owner_pool().await)
        .await
        .expect("expired");
    let (revoked, withdrawn) = invite(&world, &project, mail.clone()).await;
    world
        .made(
            "olga",
            &format!("/api/v1/invitations/{revoked}:revoke"),
            json!({}),
        )
        .await;
    let (_, good) = invite(&world, &project, mail.clone()).await;
    let organisation = world.organisation("gone", "olga").await;
    let target = format!("/api/v1/organisations/{organisation}/invitations");
    let made = world.made("olga", &target, mail).await;
    world
        .made(
            "admin",
            &format!("/api/v1/admin/organisations/{organisation}:close"),
            json!({}),
        )
        .await;
    let of_closed = made["token"].as_str().expect("a token").to_owned();
    let mut refusals = Vec::new();
    for token in [
        &late,
        &withdrawn,
        &of_closed,
        &good[..20].to_owned(),
        &"gpi_".to_owned(),
        &"x".repeat(10_000),
    ] {
        let (status, body) = world
            .post_by("mia", ACCEPT, json!({ "token": token }))
            .await;
        assert_eq!((status, field(&body)), (400, "token"), "{body}");
        refusals.push(super::refusal(&body));
    }
    refusals.dedup();
    assert_eq!(refusals.len(), 1, "{refusals:?}");
    let (_, listed) = world
        .get(
            "olga",
            &format!("/api/v1/projects/{project}/invitations?state=expired"),
        )
        .await;
    assert_eq!(
        listed["invitations"].as_array().map(Vec::len),
        Some(1),
        "{listed}"
    );
    assert_eq!(
        world
            .get("mia", &format!("/api/v1/projects/{project}"))
            .await
            .0,
        404,
        "no member"
    );
}

/// The address that an issuer has verified decides; one that says nothing leaves it to the token.
#[tokio::test]
async fn an_invitation_for_another_address_is_refused() {
    let (world, project) = start().await;
    let mail = json!({ "email": "mia@example.com", "role": "viewer" });
    let (_, token) = invite(&world, &project, mail).await;
    let accept = async |subject: &str, email: Value, verified: Value| {
        let claims = json!({ "email": email, "email_verified": verified });
        let bearer = world.token_with(subject, &claims);
        let request = world
            .http
            .post(world.url(ACCEPT))
            .bearer_auth(bearer)
            .header("x-idempotency-key", uuid::Uuid::now_v7().to_string())
            .json(&json!({ "token": token }));
        crate::world::answer(request.send().await.expect("answer")).await
    };
    for (email, verified) in [
        ("eve@example.com", json!(true)),
        ("eve@example.com", json!("true")),
    ] {
        let (status, body) = accept("eve", json!(email), verified).await;
        assert_eq!((status, reason(&body)), (400, "INVITATION_INVALID"));
    }
    let (status, body) = accept("sub-of-mia", json!("MIA@example.com"), json!(true)).await;
    assert_eq!(status, 200, "{body}");
    assert_eq!(body["accepted_by"], "user:MIA@example.com");
}

/// Where the issuer's settings ask for it, the link alone makes nobody a member.
#[tokio::test]
async fn who_has_no_verified_address_accepts_nothing_where_the_settings_ask_for_one() {
    let (key, keys) = es256("k1");
    let world = World::start_with(|config, folder| {
        let file = folder.join("jwks.json");
        std::fs::write(&file, serde_json::to_string(&keys).expect("JSON")).expect("write");
        config.issuers.push(IssuerSettings {
            jwks_file: Some(file),
            require_verified_email: true,
            ..issuers::settings()
        });
    })
    .await;
    world.users(&["olga", "mia"]).await;
    let organisation = world.organisation("acme", "olga").await;
    let project = world.project(&organisation, "training", "olga").await;
    let mail = json!({ "email": "mia@example.com", "role": "viewer" });
    let (_, token) = invite(&world, &project, mail.clone()).await;
    let accept = async |token: &str, more: Value| {
        let exp = Timestamp::now().as_second() + 60;
        let mut claims = json!({ "iss": IDP, "aud": "api", "sub": "4711", "exp": exp });
        for (name, value) in more.as_object().expect("claims") {
            claims[name] = value.clone();
        }
        let header = Header {
            kid: Some("k1".to_owned()),
            ..Header::new(Algorithm::ES256)
        };
        let request = world
            .http
            .post(world.url(ACCEPT))
            .bearer_auth(jsonwebtoken::encode(&header, &claims, &key).expect("signed"))
            .header("x-idempotency-key", uuid::Uuid::now_v7().to_string())
            .json(&json!({ "token": token }));
        crate::world::answer(request.send().await.expect("answer")).await
    };
    let unverified = json!({ "email": "mia@example.com", "email_verified": false });
    for (token, claims) in [
        (&*token, json!({})),
        (&*token, unverified),
        // nor is anybody told whether there is such an invitation
        ("gpi_nothing", json!({})),
    ] {
        let (status, body) = accept(token, claims).await;
        assert_eq!((status, reason(&body)), (400, "INVITATION_INVALID"));
        let message = body["error"]["message"].as_str().expect("a message");
        assert!(message.contains("has verified"), "{message}");
    }
    let verified = json!({ "email": "mia@example.com", "email_verified": true });
    assert_eq!(accept(&token, verified).await.0, 200);
    // the setting is of one issuer
    let (_, token) = invite(&world, &project, mail).await;
    world.made("mia", ACCEPT, json!({ "token": token })).await;
}

#[tokio::test]
async fn an_invitation_makes_nobody_weaker() {
    let (world, project) = start().await;
    world.member(&project, "mia", "member").await;
    for (role, then) in [("billing", "member"), ("owner", "owner")] {
        let mail = json!({ "email": "mia@example.com", "role": role });
        let (_, token) = invite(&world, &project, mail).await;
        world.made("mia", ACCEPT, json!({ "token": token })).await;
        let (_, seen) = world
            .get("mia", &format!("/api/v1/projects/{project}"))
            .await;
        assert_eq!(seen["role"], then, "invited as {role}");
    }
}

#[tokio::test]
async fn an_invitation_has_one_address_a_role_and_an_end() {
    let (world, project) = start().await;
    let target = format!("/api/v1/projects/{project}/invitations");
    let later = |hours| (Timestamp::now() + SignedDuration::from_hours(hours)).to_string();
    for (body, wrong) in [
        (json!({ "role": "member" }), "email"),
        (json!({ "email": "a@example.com" }), "role"),
        (json!({ "email": "a@example.com", "role": "king" }), "role"),
        (json!({ "email": "a", "role": "member" }), "email"),
        (json!({ "email": "a@b@c", "role": "member" }), "email"),
        (
            json!({ "email": "a@example.com\nBcc: all@example.com", "role": "member" }),
            "email",
        ),
        (
            json!({ "email": format!("{}@x.org", "a".repeat(300)), "role": "member" }),
            "email",
        ),
        (
            json!({ "email": "a@x.org", "role": "member", "expire_time": later(-1) }),
            "expire_time",
        ),
        (
            json!({ "email": "a@x.org", "role": "member", "expire_time": later(31 * 24) }),
            "expire_time",
        ),
    ] {
        let (status, answer) = world.post_by("olga", &target, body.clone()).await;
        assert_eq!((status, field(&answer)), (400, wrong), "{body}");
    }
    assert_eq!(world.recorded("invitation.create").await, 0);
    let key = "once";
    let mail = json!({ "email": "a@x.org", "role": "member", "expire_time": later(1) });
    let (_, first) = world
        .send_as("olga", Method::POST, &target, mail.clone(), key)
        .await;
    let (status, again) = world
        .send_as("olga", Method::POST, &target, mail, key)
        .await;
    assert_eq!(
        (status, &again["id"], &again["token"]),
        (200, &first["id"], &json!(""))
    );
}
