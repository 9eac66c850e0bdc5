//! References to resources: the id, a unique prefix of it, or the name.
use serde_json::Value;
use uuid::Uuid;

use crate::api::{Api, parse, parse_all};
use crate::failure::Failure;
use crate::model::{Allocation, CapacityReservation, Node, Slot};

/// The allocation of a command.
#[derive(Debug, clap::Args)]
pub struct AllocationRef {
    /// Id, unique prefix of it, or name.
    allocation: String,
    /// Project to search for the name or prefix [default: your only one].
    #[arg(long, value_name = "ID")]
    project: Option<String>,
}

impl AllocationRef {
    /// Its id.
    ///
    /// # Errors
    /// Those of [`allocation`].
    pub async fn id(&self, api: &Api) -> Result<String, Failure> {
        let among = Among::Project(self.project.as_deref());
        allocation(api, among, &self.allocation).await
    }
}

/// The allocations that a name or a beginning of an id can mean.
#[derive(Clone, Copy, Debug)]
pub enum Among<'a> {
    /// Those of the project, of the caller's only one when none is said.
    Project(Option<&'a str>),
    /// Those of all projects. The API lists them for nobody, so only a whole id names one.
    All,
}

/// The id of an allocation. A name means the one that has not ended.
///
/// # Errors
/// Nothing matches, or several do; among all of them, what is no whole id.
pub async fn allocation(api: &Api, among: Among<'_>, given: &str) -> Result<String, Failure> {
    if Uuid::parse_str(given).is_ok() {
        return Ok(given.to_owned());
    }
    let Among::Project(project) = among else {
        return Err(Failure::Usage(format!(
            "{given:?} is not the full id of an allocation; administrators cannot look up allocations by name or \
             prefix"
        )));
    };
    let query = list_query(project);
    let all: Vec<Allocation> =
        parse_all(&api.list(&["allocations"], &query, "allocations").await?)?;
    let live = |a: &&Allocation| !matches!(a.status.state.as_str(), "released" | "failed");
    if let Some(named) = all.iter().filter(live).find(|a| a.config.name == given) {
        return Ok(named.id.clone());
    }
    let found = unique(
        "allocation",
        given,
        all.iter().map(|a| a.id.as_str()),
        "gpuaas list --all",
    );
    let ended = all.iter().filter(|a| a.config.name == given);
    match (found, ended.max_by_key(|a| a.metadata.create_time)) {
        (Err(Failure::NotFound(_)), Some(newest)) => Err(Failure::NotFound(format!(
            "no active allocation is named {given:?}; the latest with this name is {}, which is {}",
            newest.id, newest.status.state
        ))),
        (found, _) => found,
    }
}

/// The id of a capacity reservation below a path, which `command` is about. A name means the one that is not over.
///
/// # Errors
/// Nothing matches, or several do.
pub async fn reservation(
    api: &Api,
    path: &[&str],
    command: &str,
    project: Option<&str>,
    given: &str,
) -> Result<String, Failure> {
    if Uuid::parse_str(given).is_ok() {
        return Ok(given.to_owned());
    }
    let query = list_query(project);
    let all: Vec<CapacityReservation> = parse_all(&api.list(path, &query, "reservations").await?)?;
    let live =
        |one: &&CapacityReservation| !matches!(one.status.state.as_str(), "ended" | "canceled");
    let named: Vec<_> = all
        .iter()
        .filter(live)
        .filter(|r| r.config.name == given)
        .collect();
    match named.as_slice() {
        [one] => Ok(one.id.clone()),
        [] => unique(
            "reservation",
            given,
            all.iter().map(|r| r.id.as_str()),
            &format!("{command} list --all"),
        ),
        // names are unique within a project, and an administrator sees those of all projects
        several => Err(Failure::Usage(format!(
            "{} projects have a reservation named {given:?}; choose one with --project ID",
            several.len()
        ))),
    }
}

/// A list of all that a name or a beginning of an id can mean, in a project.
fn list_query(project: Option<&str>) -> Vec<(&'static str, String)> {
    let mut query = vec![("include_ended", "true".to_owned())];
    query.extend(project.map(|id| ("project_id", id.to_owned())));
    query
}

/// A node by id, beginning of id, or hostname.
///
/// # Errors
/// Nothing matches, or several do.
pub async fn node(api: &Api, given: &str) -> Result<String, Failure> {
    if Uuid::parse_str(given).is_ok() {
        return Ok(given.to_owned());
    }
    let all: Vec<Node> = parse_all(&api.list(&["admin", "nodes"], &[], "nodes").await?)?;
    if let Some(named) = all.iter().find(|n| n.config.hostname == given) {
        return Ok(named.id.clone());
    }
    unique(
        "node",
        given,
        all.iter().map(|n| n.id.as_str()),
        "gpuaas nodes",
    )
}

/// A slot of a node by id, beginning of id, or index.
///
/// # Errors
/// Nothing matches, or several do.
pub async fn slot(api: &Api, node: &str, given: &str) -> Result<String, Failure> {
    if Uuid::parse_str(given).is_ok() {
        return Ok(given.to_owned());
    }
    let answer = api
        .get(&["admin", "nodes", node, "resource-slots"], &[])
        .await?;
    let all: Vec<Slot> = parse(answer.get("slots").unwrap_or(&Value::Array(Vec::new())))?;
    if let Some(indexed) = given
        .parse::<u32>()
        .ok()
        .and_then(|i| all.iter().find(|s| s.slot_index == i))
    {
        return Ok(indexed.id.clone());
    }
    unique(
        "slot",
        given,
        all.iter().map(|s| s.id.as_str()),
        &format!("gpuaas slots {node}"),
    )
}

fn unique<'a>(
    kind: &str,
    given: &str,
    ids: impl Iterator<Item = &'a str>,
    list: &str,
) -> Result<String, Failure> {
    let found: Vec<&str> = ids
        .filter(|id| !given.is_empty() && id.starts_with(given))
        .collect();
    match found.as_slice() {
        [one] => Ok((*one).to_owned()),
        [] => Err(Failure::NotFound(format!(
            "no {kind} matches {given:?}; see: {list}"
        ))),
        several => Err(Failure::Usage(format!(
            "{given:?} matches {} {kind}s; enter more of the id",
            several.len()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unique_beginning_is_enough() {
        let ids = || ["0193a-1", "0193b-2"].into_iter();
        assert_eq!(unique("node", "0193a", ids(), "l").expect("one"), "0193a-1");
        assert_eq!(
            unique("node", "0193", ids(), "l")
                .expect_err("two")
                .exit_code(),
            2
        );
        assert_eq!(
            unique("node", "x", ids(), "l")
                .expect_err("none")
                .exit_code(),
            3
        );
        assert_eq!(
            unique("node", "", ids(), "l")
                .expect_err("empty")
                .exit_code(),
            3
        );
    }
}
