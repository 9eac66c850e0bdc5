//! `read_mask`: the fields of an answer that are wanted.
use serde_json::json;

use crate::world::{World, field};

/// `read_mask`: one object, a page of a list, a path that the answer does not have, and a stream.
#[tokio::test]
async fn an_answer_has_the_fields_that_were_asked_for_and_no_others() {
    let world = World::start().await;
    let project = format!("/api/v1/projects/{}", world.seeded.project_id);
    let (_, whole) = world.get("demo", &project).await;
    let (status, part) = world
        .get("demo", &format!("{project}?read_mask=slug,state"))
        .await;
    assert_eq!(status, 200, "{part}");
    assert_eq!(
        part,
        json!({ "slug": whole["slug"], "state": whole["state"] })
    );
    let members = format!("{project}/members?page_size=1&read_mask=members.principal");
    let (status, part) = world.get("demo", &members).await;
    assert_eq!(status, 200, "{part}");
    let member = part["members"][0].as_object().expect("a member");
    assert_eq!(member.keys().collect::<Vec<_>>(), ["principal"], "{part}");
    assert_eq!(
        part.as_object().map(serde_json::Map::len),
        Some(1),
        "{part}"
    );
    for wrong in ["nothing", "members.nothing", "members.principal.more"] {
        let target = format!("{project}/members?read_mask={wrong}");
        let (status, refused) = world.get("demo", &target).await;
        assert_eq!(
            (status, field(&refused)),
            (400, "read_mask"),
            "{wrong}: {refused}"
        );
    }
    let stream = "/api/v1/allocations/silent:watch?read_mask=allocation.id";
    let (status, refused) = world.get("demo", stream).await;
    assert_eq!((status, field(&refused)), (400, "read_mask"), "{refused}");
}
