//! Organisations, projects and their members.

use super::{Case, listed};
use crate::world::{World, field};

#[tokio::test]
async fn organisations_projects_and_members_are_filtered_and_ordered() {
    let world = World::start().await;
    world.users(&["olga", "otto", "max", "mia"]).await;
    let acme = world.organisation("acme", "olga").await;
    let tiny = world.organisation("tiny", "otto").await;
    let lab = world.project(&acme, "lab", "olga").await;
    world.project(&acme, "shop", "olga").await;
    world.project(&tiny, "lab", "otto").await;
    for (who, role) in [("otto", "viewer"), ("max", "member"), ("mia", "member")] {
        world.member(&lab, who, role).await;
    }
    let disable = "UPDATE principals SET disable_time = now() WHERE name = 'user:mia'";
    sqlx::query(disable)
        .execute(&world.pool().await)
        .await
        .expect("disabled");

    let members = format!("/api/v1/projects/{lab}/members");
    let organisations = "/api/v1/admin/organisations";
    let projects = "/api/v1/admin/projects";
    let cases: [Case<'_>; 10] = [
        (
            "olga",
            &members,
            "members",
            "principal",
            "",
            &["user:olga", "user:otto", "user:max", "user:mia"],
        ),
        (
            "olga",
            &members,
            "members",
            "principal",
            "order_by=principal%20desc",
            &["user:otto", "user:olga", "user:mia", "user:max"],
        ),
        (
            "olga",
            &members,
            "members",
            "principal",
            "filter=role%20%3D%20member%20AND%20NOT%20disabled%20%3D%20true",
            &["user:max"],
        ),
        (
            "olga",
            &members,
            "members",
            "principal",
            "filter=principal%3AO&order_by=role,create_time%20desc",
            &["user:olga", "user:otto"],
        ),
        (
            "olga",
            &members,
            "members",
            "principal",
            "filter=kind%20%3D%20service_account",
            &[],
        ),
        (
            "admin",
            organisations,
            "organisations",
            "slug",
            "filter=slug%3Am&order_by=slug%20desc",
            &["acme"],
        ),
        (
            "admin",
            projects,
            "projects",
            "organisation",
            "filter=slug%20%3D%20lab&order_by=organisation%20desc",
            &["tiny", "acme"],
        ),
        (
            "olga",
            "/api/v1/projects",
            "projects",
            "slug",
            "order_by=create_time%20desc",
            &["shop", "lab"],
        ),
        (
            "otto",
            "/api/v1/projects",
            "projects",
            "organisation",
            "filter=state%20%3D%20active%20AND%20slug%3ALA",
            &["acme", "tiny"],
        ),
        (
            "otto",
            "/api/v1/organisations",
            "organisations",
            "slug",
            "filter=NOT%20slug%20%3D%20acme",
            &["tiny"],
        ),
    ];
    for (subject, target, list, name, query, expected) in cases {
        let found = listed(&world, subject, &format!("{target}?{query}"), list, name).await;
        assert_eq!(found, expected, "{target} {query}");
    }
    for (target, query, expected) in [
        (members.as_str(), "filter=etag%20%3D%20a", "filter"),
        (&members, "order_by=email", "order_by"),
        (projects, "filter=role%20%3D%20owner", "filter"),
        (organisations, "order_by=name", "order_by"),
    ] {
        let (status, body) = world.get("admin", &format!("{target}?{query}")).await;
        assert_eq!(
            (status, field(&body)),
            (400, expected),
            "{target} {query}: {body}"
        );
    }
}
