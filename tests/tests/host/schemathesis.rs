//! All operations of the real services as PyPI's `schemathesis` reads them in the OpenAPI document, for a program that owns a
//! project of its own, and for nobody. Administrators are left to the gateway's own tests, with stand-ins for the services: what
//! they may do here would end the system for the tests after this one.
use std::process::Command;

use gpuaas_tests::api::text;
use gpuaas_tests::runner::{Case, Place};
use gpuaas_tests::system::System;
use serde_json::{Value, json};
use uuid::Uuid;

/// The tests of this file, with the seconds that each usually takes.
pub fn cases() -> Vec<Case> {
    gpuaas_tests::cases![Place::System;
        every_operation_of_the_real_services_answers_as_declared_with_schemathesis: 190,
    ]
}

async fn made(system: &System, path: &str, body: Value) -> Value {
    let made = system.admin.post(path, body).await;
    made.unwrap_or_else(|refusal| panic!("{path}: {}", refusal.body))
}

async fn every_operation_of_the_real_services_answers_as_declared_with_schemathesis() {
    let system = System::get().await;
    let caller = system.admin.get("/api/v1/whoami").await;
    let caller = caller.expect("an administrator");
    // a name that no earlier run has taken
    let slug = format!("check-{}", &Uuid::new_v4().simple().to_string()[..12]);
    let body = json!({ "slug": slug, "owner": text(&caller, "/principal") });
    let organisation = made(&system, "/api/v1/admin/organisations", body).await;
    let organisation = text(&organisation, "/id");
    let body = json!({ "organisation_id": organisation, "slug": slug });
    let project = made(&system, "/api/v1/projects", body).await;
    let project = text(&project, "/id");
    let accounts = format!("/api/v1/projects/{project}/service-accounts");
    let account = made(
        &system,
        &accounts,
        json!({ "slug": "check", "role": "owner" }),
    )
    .await;
    let keys = format!("{accounts}/{}/api-keys", text(&account, "/id"));
    let scopes = ["read", "billing", "write", "terminal", "manage"];
    let key = made(&system, &keys, json!({ "scopes": scopes })).await;
    let key = text(&key, "/key");

    let folder = tempfile::tempdir().expect("a folder");
    let mut failed = Vec::new();
    for token in [Some(key), None] {
        let mut command =
            Command::new(gpuaas_dev::paths::checkout().join("gateway/tests/schemathesis.sh"));
        command
            .arg(system.stack.api_url())
            .arg(folder.path())
            .env_remove("API_TOKEN")
            .env("PROJECT_ID", project)
            .env("ORGANISATION_ID", organisation);
        if let Some(token) = token {
            command.env("API_TOKEN", token);
        }
        let checked = command.output().expect("bash starts");
        if !checked.status.success() {
            let said = String::from_utf8_lossy(&checked.stdout);
            let errors = String::from_utf8_lossy(&checked.stderr);
            failed.push(format!("{said}{errors}"));
        }
    }
    // the program was not put out by its own calls, after which there would be nothing but refusals
    let program = system.admin.with_token(key);
    let still = program.get(&format!("/api/v1/projects/{project}")).await;
    let close = |what: &str, id: &str| (format!("/api/v1/{what}/{id}:close"), json!({}));
    for (path, body) in [
        close("projects", project),
        close("admin/organisations", organisation),
    ] {
        made(&system, &path, body).await;
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    assert_eq!(text(&still.expect("its project"), "/state"), "active");
    system.assert_nothing_left().await;
}
