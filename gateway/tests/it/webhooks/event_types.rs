//! The types of events.
use gpuaas_gateway::webhooks::event_types::EVENT_TYPES;
use reqwest::Method;
use serde_json::json;

use super::{target, world};
use crate::world::{field, reason};

/// The command line takes the types that the API takes, and names them.
#[test]
fn the_command_line_names_every_event_type() {
    let command = gpuaas_cli::command();
    let of_webhooks = command.find_subcommand("webhook").expect("webhook");
    for verb in ["create", "update"] {
        let verb = of_webhooks.find_subcommand(verb).expect("a verb");
        let mut all = verb.get_arguments();
        let events = all.find(|one| one.get_id() == "events").expect("--event");
        let named = events.get_possible_values();
        let named: Vec<&str> = named
            .iter()
            .map(clap::builder::PossibleValue::get_name)
            .collect();
        let known = EVENT_TYPES.iter().map(|known| known.name);
        let known: Vec<&str> = std::iter::once("*").chain(known).collect();
        assert_eq!(named, known);
    }
}

/// A webhook of a project names only types that it can get; what is refused changes nothing.
#[tokio::test]
async fn a_project_names_no_event_type_that_only_organisations_get() {
    let world = world().await;
    world.users(&["olga"]).await;
    let organisation = world.organisation("acme", "olga").await;
    let project = world.project(&organisation, "training", "olga").await;
    let of_project = format!("/api/v1/projects/{project}/webhooks");
    let of_organisation = format!("/api/v1/organisations/{organisation}/webhooks");
    let url = "https://hooks.example.com/";
    let updates = json!({ "url": url, "event_types": ["project.updated"] });
    let made = world.made("olga", &of_project, updates.clone()).await;
    let whole = world.made("olga", &of_organisation, updates).await;
    for one in [
        "project.created",
        "project.closed",
        "organisation_member.added",
        "organisation_member.updated",
        "organisation_member.removed",
    ] {
        let types = json!(["project.updated", one]);
        let new = json!({ "url": url, "event_types": types });
        let change = json!({ "event_types": types, "description": "changed" });
        for (method, path, body) in [
            (Method::POST, &of_project, new.clone()),
            (Method::PATCH, &target(&made), change.clone()),
        ] {
            let (status, refused) = world.send("olga", method, path, body).await;
            assert_eq!(
                (status, reason(&refused), field(&refused)),
                (400, "FIELD_INVALID", "event_types[1]"),
                "{refused}"
            );
            let text = refused.to_string();
            assert!(text.contains("must be one of allocation."), "{text}");
            assert!(!text.contains(one), "{text}");
        }
        for (method, path, body) in [
            (Method::POST, &of_organisation, new),
            (Method::PATCH, &target(&whole), change),
        ] {
            let (status, taken) = world.send("olga", method, path, body).await;
            assert_eq!(status, 200, "{taken}");
        }
    }
    let (_, listed) = world.get("olga", &of_project).await;
    assert_eq!(listed["webhooks"].as_array().map(Vec::len), Some(1));
    let (_, unchanged) = world.get("olga", &target(&made)).await;
    assert_eq!(unchanged["event_types"], json!(["project.updated"]));
    assert_eq!(unchanged["description"], "");
}
