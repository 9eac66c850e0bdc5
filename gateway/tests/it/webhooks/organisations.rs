//! Webhooks of an organisation.
use gpuaas_proto::gpuaas::internal::events::v1::Event;
use reqwest::Method;
use serde_json::json;
use uuid::Uuid;

use super::receiver::Receiver;
use super::{all_in, change, create, deliveries, event, world};

#[tokio::test]
async fn an_organisations_webhook_gets_the_events_of_all_of_its_projects() {
    let world = world().await;
    let mut receiver = Receiver::start().await;
    let mut own = Receiver::start().await;
    let pool = world.pool().await;
    sqlx::query(
        "INSERT INTO organisation_memberships (principal_id, organisation_id, role)
         SELECT id, $1, 'owner' FROM principals WHERE name = 'user:demo'
         ON CONFLICT (principal_id, organisation_id) DO UPDATE SET role = 'owner'",
    )
    .bind(world.seeded.organisation_id)
    .execute(&pool)
    .await
    .expect("an owner");
    let other = Uuid::now_v7();
    sqlx::query("INSERT INTO projects (id, organisation_id, slug, display_name) VALUES ($1, $2, 'other', '')")
        .bind(other)
        .bind(world.seeded.organisation_id)
        .execute(&pool)
        .await
        .expect("project");
    let collection = format!(
        "/api/v1/organisations/{}/webhooks",
        world.seeded.organisation_id
    );
    let (status, made) = change(
        &world,
        Method::POST,
        &collection,
        json!({ "url": receiver.url }),
    )
    .await;
    assert_eq!(status, 200, "{made}");
    create(&world, json!({ "url": own.url })).await;
    let elsewhere = Event {
        project_id: other.to_string(),
        ..event(&world, "allocation.active", Uuid::now_v7(), 1)
    };
    world.log.append(elsewhere);
    world
        .log
        .append(event(&world, "allocation.active", Uuid::now_v7(), 1));
    let mut projects = [
        receiver.next().await.json()["data"]["project_id"].clone(),
        receiver.next().await.json()["data"]["project_id"].clone(),
    ];
    projects.sort_by_key(ToString::to_string);
    let mut expected = [json!(other), json!(world.seeded.project_id)];
    expected.sort_by_key(ToString::to_string);
    assert_eq!(projects, expected);
    let alone = own.next().await.json();
    assert_eq!(
        alone["data"]["project_id"],
        world.seeded.project_id.to_string()
    );
    deliveries(&world, &made, all_in("delivered", 2)).await;
    assert!(own.arrived.try_recv().is_err(), "only its own project's");
}
