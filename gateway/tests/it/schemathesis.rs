//! All operations as PyPI's `schemathesis`, which nobody here wrote, reads them in the OpenAPI document: for the owner of a
//! project, for an administrator of the platform, and for nobody.
use gpuaas_dev::paths;
use gpuaas_gateway::limits::rates::RateSettings;
use gpuaas_gateway::routes;
use gpuaas_gateway::store::own_organisation;
use reqwest::Method;
use serde_json::json;
use tokio::process::Command;

use crate::world::World;

/// What is behind the gateway.
const SERVICES: [&str; 6] = [
    "allocation",
    "billing",
    "image-catalog",
    "inventory",
    "scheduler",
    "terminal-gateway",
];

/// The tool sends more in a minute than a caller may.
fn no_limits() -> RateSettings {
    RateSettings {
        read_per_principal: 0,
        write_per_principal: 0,
        launch_per_principal: 0,
        read_per_project: 0,
        write_per_project: 0,
        launch_per_project: 0,
        read_per_organisation: 0,
        write_per_organisation: 0,
        launch_per_organisation: 0,
        redis_timeout_milliseconds: 100,
    }
}

async fn check(subject: Option<&str>) {
    let world = World::build(8, &SERVICES, |config, _| config.rates = no_limits()).await;
    let organisation = world.seeded.organisation_id;
    own_organisation(&world.pool().await, organisation, "user:demo")
        .await
        .expect("an owner");
    let mut command = Command::new(paths::checkout().join("gateway/tests/schemathesis.sh"));
    command
        .arg(&world.base)
        .arg(world.folder.path())
        .env_remove("API_TOKEN")
        .env("PROJECT_ID", world.seeded.project_id.to_string())
        .env("ORGANISATION_ID", organisation.to_string());
    if let Some(subject) = subject {
        // the night's run takes longer than a token lives
        let token = world.token_with(subject, &json!({ "exp": 4_000_000_000_i64 }));
        command.env("API_TOKEN", token);
    }
    let checked = command.output().await.expect("bash starts");
    let said = String::from_utf8_lossy(&checked.stdout);
    let errors = String::from_utf8_lossy(&checked.stderr);
    assert!(checked.status.success(), "{said}{errors}");
    let all = routes().expect("served").routes().len();
    assert!(said.contains(&format!("Tested: {all}\n")), "{said}");
    // the caller was not put out by its own calls, after which there would be nothing but refusals
    if let Some(subject) = subject {
        let (status, body) = world.call(Method::GET, "/api/v1/projects", subject).await;
        assert_eq!(status, 200, "{body}");
        let found = body["projects"].as_array().expect("projects").iter();
        let mut found = found.filter(|one| one["id"] == world.seeded.project_id.to_string());
        assert_eq!(
            found.next().map(|one| &one["state"]),
            Some(&json!("active"))
        );
    }
}

#[tokio::test]
async fn every_operation_answers_an_owner_as_declared_with_schemathesis() {
    check(Some("demo")).await;
}

#[tokio::test]
async fn every_operation_answers_an_administrator_as_declared_with_schemathesis() {
    check(Some("admin")).await;
}

#[tokio::test]
async fn every_operation_answers_nobody_as_declared_with_schemathesis() {
    check(None).await;
}
