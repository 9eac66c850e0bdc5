//! Names in every script are kept as they are; what would deceive a reader or a program is refused.
use reqwest::Method;
use serde_json::{Value, json};

use crate::world::{ISSUER, World, field};

/// Names as people write them, or as those who try things do.
pub const GOOD: [&str; 9] = [
    "Müller & Söhne",
    "株式会社アクメ",
    "شركة أكمي",
    "חברת אקמי",
    "अक्मे प्राइवेट लिमिटेड",
    "ბანკი 🏦",
    "<script>alert(1)</script>",
    "'; DROP TABLE projects; --",
    "{{7*7}}${jndi:ldap://x}",
];

/// What a terminal or a page would not show as it is.
pub const BAD: [&str; 8] = [
    "a\u{0}b",
    "a\nb",
    "a\u{1b}[31mb",
    "a\u{7f}",
    "a\u{85}b",
    "a\u{202e}b",
    "a\u{2066}b",
    "a\u{2028}b",
];

#[tokio::test]
async fn names_of_every_script_are_kept_and_hostile_ones_are_refused() {
    let world = World::start().await;
    let organisation = format!("/api/v1/organisations/{}", world.seeded.organisation_id);
    let project = format!("/api/v1/projects/{}", world.seeded.project_id);
    for good in GOOD
        .map(str::to_owned)
        .into_iter()
        .chain(["名".repeat(200)])
    {
        for target in [&organisation, &project] {
            let (status, body) = world
                .send(
                    "admin",
                    Method::PATCH,
                    target,
                    json!({ "display_name": good }),
                )
                .await;
            assert_eq!(
                (status, &body["display_name"]),
                (200, &json!(good)),
                "{body}"
            );
        }
    }
    let (_, before) = world.get("admin", &project).await;
    for bad in BAD
        .map(str::to_owned)
        .into_iter()
        .chain([201, 10_000].map(|n| "x".repeat(n)))
        .chain([String::new(), "   ".to_owned()])
    {
        for target in [&organisation, &project] {
            let (status, body) = world
                .send(
                    "admin",
                    Method::PATCH,
                    target,
                    json!({ "display_name": bad }),
                )
                .await;
            assert_eq!(
                (status, field(&body)),
                (400, "display_name"),
                "{bad:?}: {body}"
            );
        }
    }
    for bad in [
        "",
        "Acme",
        "-a",
        "a-",
        "a b",
        "a/b",
        "ä",
        &"a".repeat(64),
        "a\u{0}",
    ] {
        let (status, body) = world
            .post_by(
                "admin",
                "/api/v1/admin/organisations",
                json!({ "slug": bad }),
            )
            .await;
        assert_eq!((status, field(&body)), (400, "slug"), "{bad:?}: {body}");
        let body = json!({ "slug": bad, "organisation_id": world.seeded.organisation_id });
        let (status, body) = world.post_by("admin", "/api/v1/projects", body).await;
        assert_eq!((status, field(&body)), (400, "slug"), "{bad:?}: {body}");
    }
    assert_eq!(
        world.get("admin", &project).await.1,
        before,
        "nothing changed"
    );
}

/// So are those of what a project's owner makes: a service account, its keys, a webhook.
#[tokio::test]
async fn the_descriptions_of_a_projects_things_are_kept_or_refused_alike() {
    let world = World::start_with(|config, _| config.webhooks.allow_insecure = true).await;
    let project = format!("/api/v1/projects/{}", world.seeded.project_id);
    let accounts = format!("{project}/service-accounts");
    let account = json!({ "slug": "first", "role": "member" });
    let account = world.made("demo", &accounts, account).await;
    let keys = format!(
        "{accounts}/{}/api-keys",
        account["id"].as_str().expect("an id")
    );
    let webhooks = format!("{project}/webhooks");
    let all = [
        (
            &accounts,
            "description",
            json!({ "slug": "a", "role": "member" }),
        ),
        (&keys, "display_name", json!({ "scopes": ["read"] })),
        (
            &webhooks,
            "description",
            json!({ "url": "http://127.0.0.1:1/hook" }),
        ),
    ];
    let make = async |(target, name, body): &(&String, &str, Value), index: usize, text: &str| {
        let mut body = body.clone();
        body[*name] = json!(text);
        if body["slug"].is_string() {
            body["slug"] = json!(format!("a{index}"));
        }
        world.post_by("demo", target, body).await
    };
    for one in &all {
        for (index, good) in GOOD.iter().enumerate() {
            let (status, body) = make(one, index, good).await;
            let made = if body["api_key"].is_object() {
                &body["api_key"]
            } else {
                &body
            };
            assert_eq!(
                (status, &made[one.1]),
                (200, &json!(good)),
                "{}: {body}",
                one.0
            );
        }
        let (_, before) = world.get("demo", one.0).await;
        let long = "x".repeat(10_000);
        for (index, bad) in BAD.iter().copied().chain([long.as_str()]).enumerate() {
            let (status, body) = make(one, GOOD.len() + index, bad).await;
            assert_eq!(
                (status, field(&body)),
                (400, one.1),
                "{} {bad:?}: {body}",
                one.0
            );
        }
        assert_eq!(world.get("demo", one.0).await.1, before, "nothing changed");
    }
}

/// So are those of people: what an administrator registers.
#[tokio::test]
async fn the_names_of_principals_are_kept_or_refused_alike() {
    const PRINCIPALS: &str = "/api/v1/admin/principals";
    let world = World::start().await;
    let make = async |number: usize, text: &str| {
        let body = json!({ "name": format!("user:p{number}"), "issuer": ISSUER, "subject": format!("p{number}"), "display_name": text });
        world.post_by("admin", PRINCIPALS, body).await
    };
    for (number, good) in GOOD.into_iter().enumerate() {
        let (status, body) = make(number, good).await;
        assert_eq!(
            (status, &body["display_name"]),
            (200, &json!(good)),
            "{body}"
        );
        let (_, whoami) = world.get(&format!("p{number}"), "/api/v1/whoami").await;
        assert_eq!(whoami["display_name"], good, "{whoami}");
    }
    let (_, before) = world.get("admin", PRINCIPALS).await;
    let long = "x".repeat(201);
    for bad in BAD.into_iter().chain([long.as_str(), "   "]) {
        let (status, body) = make(GOOD.len(), bad).await;
        assert_eq!(
            (status, field(&body)),
            (400, "display_name"),
            "{bad:?}: {body}"
        );
    }
    assert_eq!(
        world.get("admin", PRINCIPALS).await.1,
        before,
        "nobody is registered"
    );
}
