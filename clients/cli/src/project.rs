//! Projects by their names, as far as the caller may list them.
use std::collections::HashMap;

use uuid::Uuid;

use crate::api::Api;
use crate::failure::Failure;

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

/// The id of a project that is given by its id or its name; what is neither is for the API to refuse.
///
/// # Errors
/// Several organisations have a project of this name.
pub async fn id(api: &Api, given: &str) -> Result<String, Failure> {
    if Uuid::parse_str(given).is_ok() {
        return Ok(given.to_owned());
    }
    let names = names(api).await;
    let mut ids = names.iter().filter(|(_, slug)| *slug == given);
    match (ids.next(), ids.next()) {
        (Some((id, _)), None) => Ok(id.clone()),
        (None, _) => Ok(given.to_owned()),
        _ => Err(Failure::Usage(format!(
            "several organisations have a project {given:?}; use its id"
        ))),
    }
}

/// The name of a project, else its id.
pub fn name_of(names: &HashMap<String, String>, id: &str) -> String {
    names
        .get(id)
        .filter(|name| !name.is_empty())
        .map_or_else(|| id.to_owned(), Clone::clone)
}
