//! Projects by their names, as far as the caller may list them.
use std::collections::HashMap;

use gpuaas_proto::call::{IdentityAdminListProjects, Unary};
use gpuaas_proto::gpuaas::identity::v1::{GetCallerRequest, ListProjectsRequest, Project};
use serde_json::Value;
use uuid::Uuid;

use crate::api::{Answer, Api};
use crate::failure::Failure;
use crate::suggest;

/// Help of an operator's argument that is a project.
pub const PROJECT_HELP: &str =
    "Project: its name, or its id, a UUID; see: gpuaas admin project list";

/// The slugs of all projects by their ids, of the caller's own for who may not list all; empty when neither can be read,
/// so that ids are shown.
pub async fn names(api: &Api) -> HashMap<String, String> {
    let found = match all(api).await {
        Ok(all) => all,
        Err(_) => own(api).await,
    };
    let found = found.into_iter();
    found.map(|project| (project.id, project.slug)).collect()
}

/// All projects of the platform.
async fn all(api: &Api) -> Result<Vec<Project>, Failure> {
    Ok(listed(api).await?.0)
}

/// All projects of the platform, also as they were sent.
///
/// # Errors
/// See [`Failure`].
pub async fn listed(api: &Api) -> Result<(Vec<Project>, Vec<Value>), Failure> {
    let request = IdentityAdminListProjects(ListProjectsRequest::default());
    let mut listed = api.call_all_pages(&request, "projects").await?;
    let sent = listed.json["projects"].as_array_mut();
    let sent = sent.map(std::mem::take).unwrap_or_default();
    Ok((listed.message.projects, sent))
}

/// The projects that the caller is a member of.
pub async fn own(api: &Api) -> Vec<Project> {
    let caller = api.call(&GetCallerRequest {}).await;
    caller.unwrap_or_default().message.projects
}

/// Of which projects a list is.
#[derive(Debug, clap::Args)]
pub struct Which {
    /// Only this project [default: that of the context].
    #[arg(long, value_name = "PROJECT")]
    pub project: Option<String>,
    /// All of your projects, one after the other, even if the context sets a project.
    #[arg(long, conflicts_with = "project")]
    all_projects: bool,
}

impl Which {
    /// The ids of the projects, each of which has a list of its own; an empty one is the caller's only project.
    ///
    /// # Errors
    /// Those of [`id`]; who the caller is cannot be read.
    pub async fn ids(self, api: &Api) -> Result<Vec<String>, Failure> {
        let only = || vec![String::new()];
        if !self.all_projects {
            let chosen = chosen(api, self.project).await?;
            return Ok(chosen.map_or_else(only, |id| vec![id]));
        }
        let caller = api.call(&GetCallerRequest {}).await?.message;
        let ids: Vec<String> = caller.projects.into_iter().map(|one| one.id).collect();
        Ok(match ids.is_empty() {
            true => only(),
            false => ids,
        })
    }
}

/// The lists of these projects as one, whose items are in this field; of what else an answer has, that of the first project. Of
/// several projects, those that the caller may not list are left out, as with the role billing: they are named on standard error.
///
/// # Errors
/// None of them may be listed. See [`Failure`].
pub async fn list_each<C: Unary>(
    api: &Api,
    projects: &[String],
    items: &str,
    request: impl Fn(String) -> C,
) -> Result<Answer<C::Response>, Failure> {
    let mut all = Value::Null;
    let mut refused = None;
    for project in projects {
        match api.call_all_pages(&request(project.clone()), items).await {
            Ok(listed) => append(&mut all, listed.json, items),
            Err(Failure::Api(error)) if projects.len() > 1 && error.http == 403 => {
                complain!("warning: without the project {project}: {}", error.message);
                refused = Some(error);
            }
            Err(failure) => return Err(failure),
        }
    }
    match refused {
        Some(error) if all.is_null() => Err(Failure::Api(error)),
        _ => Answer::read(all),
    }
}

/// Adds the items of another answer behind those of the first.
pub fn append(all: &mut Value, mut more: Value, items: &str) {
    let Some(own) = all.get_mut(items).and_then(Value::as_array_mut) else {
        *all = more;
        return;
    };
    if let Some(others) = more.get_mut(items).and_then(Value::as_array_mut) {
        own.append(others);
    }
}

/// The id of the project of a flag, without it that of the context.
///
/// # Errors
/// Those of [`id`].
pub async fn chosen(api: &Api, flag: Option<String>) -> Result<Option<String>, Failure> {
    let found = given(api, flag).await?;
    Ok(found.or_else(|| api.project().map(str::to_owned)))
}

/// The id of the project of a flag alone: where its absence says something, and for operators, who see all projects.
///
/// # Errors
/// Those of [`id`].
pub async fn given(api: &Api, flag: Option<String>) -> Result<Option<String>, Failure> {
    match flag {
        Some(flag) => Ok(Some(id(api, &flag).await?)),
        None => Ok(None),
    }
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
        (None, _) => match suggest::nearest(given, names.values().map(String::as_str)) {
            Some(near) => Err(Failure::NotFound(format!(
                "no project is named {given:?}; did you mean {near}?"
            ))),
            None => Ok(given.to_owned()),
        },
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
