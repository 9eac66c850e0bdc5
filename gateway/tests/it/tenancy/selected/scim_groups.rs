//! Groups of SCIM.
use uuid::Uuid;

use super::listed;
use crate::world::{World, field};

#[tokio::test]
async fn scim_groups_are_filtered_and_ordered() {
    let world = World::start().await;
    world.users(&["olga"]).await;
    let acme = world.organisation("acme", "olga").await;
    let pool = world.pool().await;
    let user = Uuid::now_v7();
    let insert = "WITH made AS (INSERT INTO scim_users (id, organisation_id, principal_id, user_name, attributes)
                               SELECT $1, $2, id, 'olga', '{}' FROM principals WHERE name = 'user:olga')
                  INSERT INTO scim_groups (id, organisation_id, display_name, external_id)
                  VALUES ($3, $2, 'ml', 'x-1'), ($4, $2, 'admins', NULL), ($5, $2, 'ml-eu', NULL)";
    let organisation: Uuid = acme.parse().expect("an id");
    let groups = [Uuid::now_v7(), Uuid::now_v7(), Uuid::now_v7()];
    sqlx::query(insert)
        .bind(user)
        .bind(organisation)
        .bind(groups[0])
        .bind(groups[1])
        .bind(groups[2])
        .execute(&pool)
        .await
        .expect("groups");
    sqlx::query("INSERT INTO scim_group_members (group_id, user_id) VALUES ($1, $2)")
        .bind(groups[1])
        .bind(user)
        .execute(&pool)
        .await
        .expect("a member");
    let target = format!("/api/v1/organisations/{acme}/scim/groups");
    let cases: [(&str, &[&str]); 5] = [
        ("", &["ml", "admins", "ml-eu"]),
        ("order_by=display_name", &["admins", "ml", "ml-eu"]),
        (
            "order_by=member_count%20desc,create_time",
            &["admins", "ml", "ml-eu"],
        ),
        (
            "filter=display_name%3AML%20AND%20NOT%20external_id%3A*",
            &["ml-eu"],
        ),
        (
            "filter=member_count%20%3E%200&order_by=update_time",
            &["admins"],
        ),
    ];
    for (query, expected) in cases {
        let target = format!("{target}?{query}");
        let found = listed(&world, "olga", &target, "groups", "display_name").await;
        assert_eq!(found, expected, "{target}");
    }
    for (query, expected) in [
        ("filter=version%20%3D%201", "filter"),
        ("order_by=external_id", "order_by"),
    ] {
        let (status, body) = world.get("olga", &format!("{target}?{query}")).await;
        assert_eq!((status, field(&body)), (400, expected), "{query}: {body}");
    }
}
