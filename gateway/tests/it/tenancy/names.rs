//! Names in every script are kept as they are; what would deceive a reader or a program is refused.
use reqwest::Method;
use serde_json::json;

use crate::world::{World, field};

#[tokio::test]
async fn names_of_every_script_are_kept_and_hostile_ones_are_refused() {
    let world = World::start().await;
    let organisation = format!("/api/v1/organisations/{}", world.seeded.organisation_id);
    let project = format!("/api/v1/projects/{}", world.seeded.project_id);
    for good in [
        "Müller & Söhne",
        "株式会社アクメ",
        "شركة أكمي",
        "חברת אקמי",
        "अक्मे प्राइवेट लिमिटेड",
        "ბანკი 🏦",
        "<script>alert(1)</script>",
        "'; DROP TABLE projects; --",
        "{{7*7}}${jndi:ldap://x}",
        &"名".repeat(200),
    ] {
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
    for bad in [
        "",
        "   ",
        "a\u{0}b",
        "a\nb",
        "a\u{1b}[31mb",
        "a\u{7f}",
        "a\u{85}b",
        "a\u{202e}b",
        "a\u{2066}b",
        "a\u{2028}b",
        &"x".repeat(201),
        &"x".repeat(10_000),
    ] {
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
