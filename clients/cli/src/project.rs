//! Projects by their names, as far as the caller may list them.
use std::collections::HashMap;

use crate::api::Api;

/// The slugs of all projects by their ids; empty for who may not list them, so that ids are shown.
pub async fn names(api: &Api) -> HashMap<String, String> {
    let found = api.list(&["admin", "projects"], &[], "projects").await;
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    found
        .unwrap_or_default()
        .iter()
        .map(|project| (text(&project["id"]), text(&project["slug"])))
        .collect()
}

/// The name of a project, else its id.
pub fn name_of(names: &HashMap<String, String>, id: &str) -> String {
    names
        .get(id)
        .filter(|name| !name.is_empty())
        .map_or_else(|| id.to_owned(), Clone::clone)
}
