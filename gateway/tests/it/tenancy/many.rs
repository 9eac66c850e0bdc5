//! Somebody who is in a thousand projects: the internal token stays small, and nothing is lost of what it is for.
use reqwest::Method;
use serde_json::{Value, json};

use super::outcome;
use crate::world::{World, field, reason};

fn project(number: u32) -> String {
    uuid::Uuid::from_u128(u128::from(number)).to_string()
}

#[tokio::test]
async fn a_member_of_a_thousand_projects_is_served_and_no_token_names_them_all() {
    let world = World::start().await;
    world.users(&["busy"]).await;
    let pool = world.pool().await;
    for statement in [
        "INSERT INTO projects (id, organisation_id, slug, display_name)
         SELECT lpad(to_hex(n), 32, '0')::uuid, o.id, 'p' || n, '' FROM generate_series(1, 1000) AS n, organisations o",
        // in the last one it only reads
        "INSERT INTO memberships (principal_id, project_id, role)
         SELECT p.id, lpad(to_hex(n), 32, '0')::uuid, CASE n WHEN 1000 THEN 'viewer' ELSE 'member' END
           FROM generate_series(1, 1000) AS n, principals p WHERE p.name = 'user:busy'",
        "UPDATE projects SET state = 'suspended' WHERE slug = 'p998'",
    ] {
        sqlx::query(statement).execute(&pool).await.expect(statement);
    }
    let tokens = || -> Vec<usize> {
        let seen = world.record.all();
        seen.iter().map(|one| one.caller.projects.len()).collect()
    };
    // by its name, one project alone
    for number in [1, 500, 999] {
        world.record.clear();
        let target = format!("/api/v1/allocations?project_id={}", project(number));
        assert_eq!(world.get("busy", &target).await.0, 200);
        let seen = world.record.all();
        assert_eq!(seen[0].caller.projects[0].to_string(), project(number));
        assert_eq!(tokens(), [1]);
    }
    let launch = json!({ "project_id": project(777), "name": "a", "region_code": "r", "sku": "s", "gpu_count": 1,
                         "image": "i", "ssh_public_keys": ["k"] });
    world.record.clear();
    assert_eq!(
        world.post_by("busy", "/api/v1/allocations", launch).await.0,
        200
    );
    assert_eq!(tokens(), [1]);
    // by the id of something in it, part by part
    world.record.owned_by(&project(999));
    for (number, method, verb) in [
        (1, Method::GET, ""),
        (999, Method::GET, ""),
        (999, Method::POST, ":stop"),
        (999, Method::POST, ":start"),
        (250, Method::POST, ":stop"),
    ] {
        world.record.clear();
        let target = format!("/api/v1/allocations/in-{}{verb}", project(number));
        let body = match method {
            Method::POST => json!({}),
            _ => Value::Null,
        };
        let (status, body) = world.send("busy", method, &target, body).await;
        assert_eq!(status, 200, "{target}: {body}");
        assert!(tokens().iter().all(|count| *count <= 200), "{:?}", tokens());
    }
    // what it lacks in one of them, and what is nobody's
    let stop = |number: u32| format!("/api/v1/allocations/in-{}:stop", project(number));
    let (status, body) = world.post_by("busy", &stop(1000), json!({})).await;
    assert_eq!(
        (status, reason(&body)),
        (403, "PERMISSION_DENIED"),
        "{body}"
    );
    let absent = world.post_by("busy", &stop(1001), json!({})).await;
    assert_eq!(outcome(&absent), (404, "ALLOCATION_NOT_FOUND"));
    world.record.owned_by(&project(998));
    let start = format!("/api/v1/allocations/in-{}:start", project(998));
    let (status, body) = world.post_by("busy", &start, json!({})).await;
    assert_eq!(
        (status, reason(&body)),
        (400, "PROJECT_SUSPENDED"),
        "{body}"
    );
    // who does not say which, is asked: a list of some of them would look like all
    let (status, body) = world.get("busy", "/api/v1/capacity-reservations").await;
    assert_eq!((status, field(&body)), (400, "project_id"), "{body}");
    let (_, me) = world.get("busy", "/api/v1/whoami").await;
    assert_eq!(me["projects"].as_array().map(Vec::len), Some(1000));
}
