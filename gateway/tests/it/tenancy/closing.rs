//! How many projects an organisation has; and that nothing begins in a project between the last look at it and its end.
use std::time::Duration;

use gpuaas_dev::until::until;
use reqwest::{Method, Response};
use serde_json::{Value, json};

use super::{id, outcome};
use crate::world::{World, answer, detail, field, reason};

const CREATE: &str = "/api/v1/allocations";

fn launch(name: &str) -> Value {
    json!({ "name": name, "region_code": "lab", "sku": "lab", "gpu_count": 1, "image": "i",
            "ssh_public_keys": ["k"] })
}

/// A call that goes on while the test does something else.
fn start(world: &World, target: &str, body: &Value) -> tokio::task::JoinHandle<Response> {
    let request = world
        .http
        .post(world.url(target))
        .bearer_auth(world.token("demo"))
        .header("x-idempotency-key", uuid::Uuid::now_v7().to_string())
        .json(body);
    tokio::spawn(async move { request.send().await.expect("answer") })
}

async fn until_called(world: &World, rpc: &str, times: usize) {
    until(rpc, Duration::from_secs(20), async || {
        let all = world.record.all();
        let called = all.iter().filter(|seen| seen.rpc == rpc).count();
        (called >= times).then_some(())
    })
    .await;
}

async fn rows(world: &World) -> (i64, i64) {
    sqlx::query_as(
        "SELECT (SELECT count(*) FROM project_launches), (SELECT count(*) FROM project_closings)",
    )
    .fetch_one(&world.pool().await)
    .await
    .expect("rows")
}

#[tokio::test]
async fn a_launch_that_is_under_way_keeps_its_project_open() {
    let world = World::start_on(8, |_, _| {}).await;
    let project = format!("/api/v1/projects/{}", world.seeded.project_id);
    let close = format!("{project}:close");
    let held = start(&world, CREATE, &launch("held"));
    until_called(&world, "create", 1).await;
    let (status, body) = world.post_by("demo", &close, json!({})).await;
    assert_eq!((status, reason(&body)), (400, "PROJECT_IN_USE"), "{body}");
    let named = detail(&body, "BadRequest")["field_violations"].to_string();
    assert!(named.contains("under way"), "{named}");
    assert_eq!(rows(&world).await, (1, 0), "nothing is left of the closing");
    world.record.release.notify_one();
    assert_eq!(answer(held.await.expect("no panic")).await.0, 200);
    world.record.runs(&["held"], &[]);
    let (status, body) = world.post_by("demo", &close, json!({})).await;
    assert_eq!((status, reason(&body)), (400, "PROJECT_IN_USE"), "{body}");
    // a launch that is refused, or only tried, leaves nothing behind either
    let mut dry = launch("dry");
    dry["validate_only"] = json!(true);
    for body in [launch("quota"), dry] {
        world.post_by("demo", CREATE, body).await;
    }
    assert_eq!(rows(&world).await, (0, 0));
    assert_eq!(world.get("demo", &project).await.1["state"], "active");
    // what a service did not answer may be under way still, for a while
    let (status, body) = world.post_by("demo", CREATE, launch("broken")).await;
    assert_eq!(status, 500, "{body}");
    world.record.runs(&[], &[]);
    let (status, body) = world.post_by("demo", &close, json!({})).await;
    assert_eq!((status, reason(&body)), (400, "PROJECT_IN_USE"), "{body}");
    sqlx::query("UPDATE edge.project_launches SET expire_time = clock_timestamp()")
        .execute(&world.db.owner_pool().await)
        .await
        .expect("its time is over");
    let (status, body) = world.post_by("demo", &close, json!({})).await;
    assert_eq!((status, &body["state"]), (200, &json!("closed")), "{body}");
    assert_eq!(rows(&world).await, (0, 0));
    // what the gateway remembers of its members lets nothing in
    world.record.clear();
    let mut body = launch("late");
    body["project_id"] = json!(world.seeded.project_id);
    let (status, body) = world.post_by("demo", CREATE, body).await;
    let refused = status == 400 && reason(&body) == "PROJECT_CLOSED";
    // who is looked up anew has no such project, and the service is told so
    let seen = world.record.all();
    let for_nobody = seen.iter().all(|one| one.caller.projects.is_empty());
    assert!(refused || for_nobody, "{body}");
}

#[tokio::test]
async fn nothing_begins_while_a_project_is_closed_and_its_suspension_stays() {
    let world = World::start_on(8, |_, _| {}).await;
    let project = format!("/api/v1/projects/{}", world.seeded.project_id);
    let reservation = json!({ "config": { "project_id": world.seeded.project_id, "name": "r", "region_code": "lab",
        "sku": "lab", "gpu_count": 1, "start_time": "2099-01-01T00:00:00Z", "end_time": "2099-01-02T00:00:00Z" } });
    // the last look takes its time
    world.record.hold_list(2);
    let closing = start(&world, &format!("{project}:close"), &json!({}));
    until_called(&world, "list", 2).await;
    for (target, body) in [
        (CREATE, launch("late")),
        (
            "/api/v1/allocations:batchCreate",
            json!({ "allocations": [launch("late")] }),
        ),
        ("/api/v1/capacity-reservations", reservation),
    ] {
        let (status, body) = world.post_by("demo", target, body).await;
        assert_eq!(
            (status, reason(&body)),
            (503, "PROJECT_CLOSING"),
            "{target}: {body}"
        );
    }
    assert!(world.record.all().iter().all(|seen| seen.rpc == "list"));
    let suspend = json!({ "reason": "Unpaid" });
    world
        .made("admin", &format!("{project}:suspend"), suspend.clone())
        .await;
    world.record.runs(&["found"], &[]);
    world.record.release.notify_one();
    let (status, body) = answer(closing.await.expect("no panic")).await;
    assert_eq!((status, reason(&body)), (400, "PROJECT_IN_USE"), "{body}");
    let suspended = async |state: &str| {
        let (_, seen) = world.get("demo", &project).await;
        assert_eq!(
            (&seen["state"], &seen["suspended_by_platform"]),
            (&json!(state), &json!(true)),
            "{seen}"
        );
    };
    suspended("suspended").await;
    assert_eq!(
        world.get("demo", &project).await.1["state_reason"],
        "Unpaid"
    );
    assert_eq!(rows(&world).await, (0, 0));
    // the caller decided on the project as it was: a suspension in between is for it to see
    world
        .made("admin", &format!("{project}:resume"), json!({}))
        .await;
    world.record.runs(&[], &[]);
    world.record.clear();
    world.record.hold_list(2);
    let closing = start(&world, &format!("{project}:close"), &json!({}));
    until_called(&world, "list", 2).await;
    world
        .made("admin", &format!("{project}:suspend"), suspend)
        .await;
    world.record.release.notify_one();
    let (status, body) = answer(closing.await.expect("no panic")).await;
    assert_eq!((status, reason(&body)), (409, "ETAG_STALE"), "{body}");
    suspended("suspended").await;
    world
        .made("demo", &format!("{project}:close"), json!({}))
        .await;
    suspended("closed").await;
}

#[tokio::test]
async fn a_closing_whose_client_goes_away_leaves_the_project_open() {
    let world = World::start_on(8, |_, _| {}).await;
    let close = format!("/api/v1/projects/{}:close", world.seeded.project_id);
    world.record.hold_list(2);
    let closing = start(&world, &close, &json!({}));
    until_called(&world, "list", 2).await;
    assert_eq!(rows(&world).await.1, 1, "nothing begins meanwhile");
    // the same launch again and again: it is answered by what the project is in the end
    let again = async || {
        let request = world
            .http
            .post(world.url(CREATE))
            .bearer_auth(world.token("demo"))
            .header("x-idempotency-key", "the-same")
            .json(&launch("web"));
        answer(request.send().await.expect("answer")).await
    };
    let (status, body) = again().await;
    assert_eq!((status, reason(&body)), (503, "PROJECT_CLOSING"), "{body}");
    closing.abort();
    until(
        "the end of the closing",
        Duration::from_secs(20),
        async || (rows(&world).await.1 == 0).then_some(()),
    )
    .await;
    let (status, body) = again().await;
    assert_eq!(status, 200, "{body}");
    world.record.release.notify_one();
}

#[tokio::test]
async fn an_organisation_has_so_many_projects_and_no_more() {
    let world = World::start_on(8, |config, _| config.max_projects_per_organisation = 2).await;
    world.users(&["olga"]).await;
    let organisation = world.organisation("acme", "olga").await;
    let first = world.project(&organisation, "first", "olga").await;
    let create = |slug: &str| {
        let body = json!({ "organisation_id": organisation, "slug": slug });
        world.post_by("olga", "/api/v1/projects", body)
    };
    // of two at once one is the last
    let (second, third) = tokio::join!(create("second"), create("third"));
    let mut all = [outcome(&second), outcome(&third)];
    all.sort_unstable();
    assert_eq!(all, [(200, ""), (403, "QUOTA")]);
    let (status, body) = create("fourth").await;
    assert_eq!(
        (status, reason(&body), field(&body)),
        (403, "QUOTA", "organisation_id"),
        "{body}"
    );
    assert_eq!(detail(&body, "ErrorInfo")["metadata"]["max_projects"], "2");
    assert_eq!(world.recorded("project.create").await, 2);
    // one that is closed counts no more, and an administrator may do it all the same
    world
        .made(
            "olga",
            &format!("/api/v1/projects/{first}:close"),
            json!({}),
        )
        .await;
    assert_eq!(create("fourth").await.0, 200);
    assert_eq!(create("fifth").await.0, 403);
    let body = json!({ "organisation_id": organisation, "slug": "fifth" });
    let made = world.made("admin", "/api/v1/projects", body).await;
    let (status, _) = world
        .send(
            "olga",
            Method::GET,
            &format!("/api/v1/projects/{}", id(&made)),
            Value::Null,
        )
        .await;
    assert_eq!(status, 200);
}
