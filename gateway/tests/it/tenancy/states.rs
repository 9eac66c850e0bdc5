//! Organisations and projects: who creates and changes them, what a suspended one allows, and what keeps one from being closed.
use reqwest::Method;
use serde_json::{Value, json};

use super::id;
use crate::world::{World, detail, field, reason};

#[tokio::test]
async fn an_administrator_creates_organisations_and_their_owners_projects() {
    let world = World::start().await;
    world.users(&["olga", "mia"]).await;
    let target = "/api/v1/admin/organisations";
    let body =
        json!({ "slug": "acme", "display_name": "Acme Ünlimited 株式会社", "owner": "user:olga" });
    assert_eq!(world.post_by("olga", target, body.clone()).await.0, 403);
    let (status, made) = world
        .send_as("admin", Method::POST, target, body.clone(), "k")
        .await;
    assert_eq!((status, &made["state"]), (200, &json!("active")), "{made}");
    assert_eq!(
        world
            .send_as("admin", Method::POST, target, body.clone(), "k")
            .await
            .1,
        made
    );
    let (status, answer) = world.post_by("admin", target, body).await;
    assert_eq!((status, field(&answer)), (409, "slug"));
    let ghost = json!({ "slug": "other", "owner": "user:ghost" });
    let (status, answer) = world.post_by("admin", target, ghost).await;
    assert_eq!((status, field(&answer)), (400, "owner"));
    let organisation = id(&made);
    let project = json!({ "organisation_id": organisation, "slug": "training" });
    for (who, expected) in [("mia", 404), ("nobody", 403), ("olga", 200)] {
        let (status, answer) = world
            .post_by(who, "/api/v1/projects", project.clone())
            .await;
        assert_eq!(status, expected, "{who}: {answer}");
    }
    let (status, answer) = world.post_by("olga", "/api/v1/projects", project).await;
    assert_eq!((status, field(&answer)), (409, "slug"));
    let (_, all) = world.get("olga", "/api/v1/projects").await;
    assert_eq!(all["projects"].as_array().map(Vec::len), Some(1));
    let (_, of_another) = world
        .get(
            "olga",
            &format!(
                "/api/v1/projects?organisation_id={}",
                world.seeded.organisation_id
            ),
        )
        .await;
    assert_eq!(of_another["projects"], json!([]));
    let (_, everybody) = world
        .get(
            "admin",
            &format!("/api/v1/admin/projects?organisation_id={organisation}"),
        )
        .await;
    assert_eq!(everybody["projects"][0]["slug"], "training");
    let (_, none) = world
        .get("admin", "/api/v1/admin/projects?state=closed")
        .await;
    assert_eq!(none["projects"], json!([]));
    let (_, organisations) = world
        .get("admin", "/api/v1/admin/organisations?page_size=1")
        .await;
    assert_eq!(organisations["organisations"][0]["slug"], "acme");
    let token = organisations["next_page_token"].as_str().expect("a token");
    let (_, next) = world
        .get(
            "admin",
            &format!("/api/v1/admin/organisations?page_size=1&page_token={token}"),
        )
        .await;
    assert_eq!(next["organisations"][0]["slug"], "lab");
    let (status, body) = world
        .get("olga", &format!("/api/v1/organisations?page_token={token}"))
        .await;
    assert_eq!(
        (status, reason(&body)),
        (400, "PAGE_TOKEN_INVALID"),
        "of another list"
    );
    assert_eq!(world.recorded("organisation.create").await, 1);
    assert_eq!(world.recorded("project.create").await, 1);
}

/// Who only looks on elsewhere names no project: the services take the one in which the caller may do it, and so does the check.
#[tokio::test]
async fn an_unnamed_project_is_the_one_in_which_the_caller_may_do_it() {
    let world = World::start().await;
    world.users(&["olga"]).await;
    let organisation = world.organisation("acme", "olga").await;
    let other = world.project(&organisation, "other", "olga").await;
    world.member(&other, "demo", "viewer").await;
    let suspend = format!("/api/v1/projects/{}:suspend", world.seeded.project_id);
    world
        .made("demo", &suspend, json!({ "reason": "Quarter is over" }))
        .await;
    let started = std::time::Instant::now();
    loop {
        let body = json!({ "vms_reach_each_other": true });
        let (status, body) = world
            .send("demo", Method::PUT, "/api/v1/project-network", body)
            .await;
        if (status, reason(&body)) == (400, "PROJECT_SUSPENDED") {
            break;
        }
        // until the gateway has heard of it
        assert!(
            started.elapsed() < std::time::Duration::from_secs(20),
            "{status} {body}"
        );
    }
}

#[tokio::test]
async fn a_suspended_project_ends_what_runs_and_begins_nothing() {
    let world = World::start().await;
    let project = world.seeded.project_id.to_string();
    world.record.owned_by(&project);
    let suspend = format!("/api/v1/projects/{project}:suspend");
    world
        .made("demo", &suspend, json!({ "reason": "Quarter is over" }))
        .await;
    let whoami =
        async || world.get("demo", "/api/v1/whoami").await.1["projects"][0]["state"].clone();
    assert_eq!(whoami().await, "suspended");
    let launch = json!({
        "name": "a", "region_code": "lab", "sku": "lab", "gpu_count": 1, "image": "i", "ssh_public_keys": ["k"],
    });
    let mut explicit = launch.clone();
    explicit["project_id"] = json!(project);
    let mut dry = launch.clone();
    dry["validate_only"] = json!(true);
    // heard of by the gateway
    let started = std::time::Instant::now();
    while world
        .post_by("demo", "/api/v1/allocations", launch.clone())
        .await
        .0
        == 200
    {
        assert!(
            started.elapsed() < std::time::Duration::from_secs(20),
            "launches go on"
        );
    }
    world.record.clear();
    for (target, body) in [
        ("/api/v1/allocations", launch.clone()),
        ("/api/v1/allocations", explicit),
        ("/api/v1/allocations", dry),
        (
            "/api/v1/allocations:batchCreate",
            json!({ "allocations": [launch] }),
        ),
        ("/api/v1/allocations/a1:start", json!({})),
        ("/api/v1/allocations/a1:reboot", json!({})),
    ] {
        let (status, answer) = world.post_by("demo", target, body).await;
        assert_eq!(
            (status, reason(&answer)),
            (400, "PROJECT_SUSPENDED"),
            "{target}: {answer}"
        );
        let said = answer["error"]["message"].as_str().expect("a message");
        assert!(said.ends_with("Reason: Quarter is over"), "{said}");
    }
    let begun = world
        .record
        .all()
        .iter()
        .filter(|seen| !["get", "list"].contains(&seen.rpc))
        .count();
    assert_eq!(begun, 0, "no service was asked to begin anything");
    for target in [
        "/api/v1/allocations/a1:stop",
        "/api/v1/allocations/a1:release",
        "/api/v1/allocations/a1/terminal-sessions/s1:end",
    ] {
        let (status, answer) = world.post_by("demo", target, json!({})).await;
        assert_eq!(status, 200, "{target}: {answer}");
    }
    let unprotect = json!({ "termination_protection": false });
    let target = "/api/v1/allocations/a1";
    let (status, answer) = world.send("demo", Method::PATCH, target, unprotect).await;
    assert_eq!(status, 200, "what protects it can be lifted: {answer}");
    for target in ["/api/v1/allocations", "/api/v1/allocations/a1"] {
        assert_eq!(world.get("demo", target).await.0, 200, "{target}");
    }
    world
        .made(
            "demo",
            &format!("/api/v1/projects/{project}:resume"),
            json!({}),
        )
        .await;
    let started = std::time::Instant::now();
    while world
        .post_by("demo", "/api/v1/allocations/a1:start", json!({}))
        .await
        .0
        != 200
    {
        assert!(
            started.elapsed() < std::time::Duration::from_secs(20),
            "not resumed"
        );
    }
}

#[tokio::test]
async fn what_the_platform_suspended_its_owners_do_not_resume() {
    let world = World::start().await;
    let project = format!("/api/v1/projects/{}", world.seeded.project_id);
    let (status, body) = world
        .post_by(
            "admin",
            &format!("{project}:suspend"),
            json!({ "reason": "Unpaid" }),
        )
        .await;
    assert_eq!(
        (status, &body["suspended_by_platform"]),
        (200, &json!(true)),
        "{body}"
    );
    let (status, body) = world
        .post_by("demo", &format!("{project}:resume"), json!({}))
        .await;
    assert_eq!((status, reason(&body)), (403, "PERMISSION_DENIED"));
    assert_eq!(
        world.get("demo", &project).await.1["state_reason"],
        "Unpaid"
    );
    let (status, body) = world
        .post_by("admin", &format!("{project}:resume"), json!({}))
        .await;
    assert_eq!((status, &body["state"]), (200, &json!("active")));

    // an organisation's state is that of its projects, too
    let organisation = format!(
        "/api/v1/admin/organisations/{}",
        world.seeded.organisation_id
    );
    let (status, body) = world
        .post_by("admin", &format!("{organisation}:suspend"), json!({}))
        .await;
    assert_eq!(
        (status, field(&body)),
        (400, "reason"),
        "others are told why"
    );
    world
        .made(
            "admin",
            &format!("{organisation}:suspend"),
            json!({ "reason": "Fraud" }),
        )
        .await;
    let (_, seen) = world.get("demo", &project).await;
    assert_eq!(
        (&seen["state"], &seen["state_reason"]),
        (&json!("suspended"), &json!("Fraud"))
    );
    let (_, suspended) = world.get("demo", "/api/v1/projects?state=suspended").await;
    assert_eq!(suspended["projects"].as_array().map(Vec::len), Some(1));
    world
        .made("admin", &format!("{organisation}:resume"), json!({}))
        .await;
    assert_eq!(world.get("demo", &project).await.1["state"], "active");
}

#[tokio::test]
async fn a_project_is_closed_only_when_nothing_runs_and_the_refusal_names_what_does() {
    let world = World::start().await;
    let project = format!("/api/v1/projects/{}", world.seeded.project_id);
    let close = format!("{project}:close");
    world.record.runs(&["first", "second"], &["spring"]);
    let (status, body) = world.post_by("demo", &close, json!({})).await;
    assert_eq!((status, reason(&body)), (400, "PROJECT_IN_USE"), "{body}");
    let named = detail(&body, "BadRequest")["field_violations"].to_string();
    for one in [
        "allocation first",
        "allocation second",
        "capacity reservation spring",
    ] {
        assert!(named.contains(one), "{one}: {named}");
    }
    assert_eq!(
        world.get("demo", &project).await.1["state"],
        "active",
        "nothing changed"
    );
    // something that begins between the two looks
    world.record.runs_later(&["late"]);
    let (status, body) = world.post_by("demo", &close, json!({})).await;
    assert_eq!((status, reason(&body)), (400, "PROJECT_IN_USE"), "{body}");
    assert_eq!(world.get("demo", &project).await.1["state"], "active");
    world.record.runs(&[], &[]);
    let (status, body) = world.post_by("demo", &close, json!({ "etag": "0" })).await;
    assert_eq!((status, reason(&body)), (409, "ETAG_STALE"), "{body}");
    let organisation = format!(
        "/api/v1/admin/organisations/{}",
        world.seeded.organisation_id
    );
    let (status, body) = world
        .post_by("admin", &format!("{organisation}:close"), json!({}))
        .await;
    assert_eq!(
        (status, reason(&body), field(&body)),
        (400, "PROJECT_IN_USE", "demo")
    );
    let etag = world.get("demo", &project).await.1["etag"].clone();
    let (status, body) = world
        .send_as("demo", Method::POST, &close, json!({ "etag": etag }), "k")
        .await;
    assert_eq!((status, &body["state"]), (200, &json!("closed")), "{body}");
    let (status, again) = world
        .send_as("demo", Method::POST, &close, json!({ "etag": etag }), "k")
        .await;
    assert_eq!((status, again), (200, body));

    // for good: nothing can be done in it, and it is nobody's to launch in
    for (target, body) in [
        (format!("{project}:resume"), json!({})),
        (format!("{project}:suspend"), json!({})),
        (close.clone(), json!({})),
        (
            format!("{project}/members"),
            json!({ "principal": "user:admin", "role": "owner" }),
        ),
        (
            format!("{project}/invitations"),
            json!({ "email": "a@b.c", "role": "owner" }),
        ),
        (
            format!("{project}/ssh-keys"),
            json!({ "name": "k", "public_key": super::ssh_keys::ED }),
        ),
    ] {
        let (status, answer) = world.post_by("demo", &target, body).await;
        assert_eq!(
            (status, reason(&answer)),
            (400, "PROJECT_CLOSED"),
            "{target}: {answer}"
        );
    }
    assert_eq!(
        world.get("demo", "/api/v1/whoami").await.1["projects"],
        json!([])
    );
    let started = std::time::Instant::now();
    loop {
        world.record.clear();
        world.get("demo", "/api/v1/allocations").await;
        if world
            .record
            .all()
            .iter()
            .all(|seen| seen.caller.projects.is_empty())
        {
            break;
        }
        assert!(
            started.elapsed() < std::time::Duration::from_secs(20),
            "still its project"
        );
    }
    let reopened = sqlx::query("UPDATE projects SET state = 'active'")
        .execute(&world.pool().await)
        .await;
    assert!(reopened.is_err(), "the database keeps it closed");
    world
        .made("admin", &format!("{organisation}:close"), Value::Null)
        .await;
    let (status, body) = world
        .post_by("admin", &format!("{organisation}:resume"), json!({}))
        .await;
    assert_eq!((status, reason(&body)), (400, "PROJECT_CLOSED"));
}
