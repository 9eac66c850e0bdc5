//! An allocation: the parts of it that commands use, and how a user refers to one.
use jiff::Timestamp;
use serde::Deserialize;
use uuid::Uuid;

use crate::api::{Api, number, parse_all};
use crate::failure::{AllocationFailure, Failure};
use crate::resolve::{list_query, unique};
use crate::{project, suggest};

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Allocation {
    pub id: String,
    pub config: AllocationConfig,
    pub status: AllocationStatus,
    pub metadata: Metadata,
    /// Name for people; empty: the name of the config.
    pub display_name: String,
    /// Principal who launched it.
    pub creator: String,
    pub termination_protection: bool,
    pub auto_release_time: Option<Timestamp>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct AllocationConfig {
    pub project_id: String,
    pub name: String,
    pub region_code: String,
    pub sku: String,
    pub gpu_count: u32,
    pub image: String,
    pub placement: Option<Placement>,
    pub user_data: Option<UserData>,
}

/// What is shown of user data.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct UserData {
    pub digest: String,
    pub size_bytes: u32,
}

/// The placement constraints of an allocation.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Placement {
    pub affinity: String,
    pub affinity_label: String,
    pub anti_affinity: Vec<String>,
    pub anti_affinity_label: String,
    pub require_prewarmed: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct AllocationStatus {
    pub state: String,
    pub power: String,
    pub boot_id: String,
    pub billing: String,
    pub failure: Option<AllocationFailure>,
    pub progress: Option<Progress>,
    pub access: Option<Access>,
    pub active_time: Option<Timestamp>,
    pub release_time: Option<Timestamp>,
    pub lab: bool,
    pub queue: Option<Queue>,
    pub conditions: Vec<Condition>,
    pub resources: Option<Resources>,
    pub readiness_checks: Vec<ReadinessResult>,
    pub rescue_image: String,
}

/// The result of a readiness check in the VM.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ReadinessResult {
    pub check: String,
    pub passed: bool,
    pub message: String,
    pub output_end: String,
    pub time: Option<Timestamp>,
}

impl ReadinessResult {
    /// The result as one line; of the output its last line.
    pub fn text(&self) -> String {
        let word = if self.passed { "passed" } else { "failed" };
        let said = match self.output_end.lines().last() {
            None => String::new(),
            Some(line) => format!(" Last output: {line}"),
        };
        format!("{} {word}. {}{said}", self.check, self.message)
    }
}

/// What a VM has.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Resources {
    pub vcpus: u32,
    #[serde(deserialize_with = "number")]
    pub memory_mib: i64,
    pub disks: u32,
    #[serde(deserialize_with = "number")]
    pub disk_bytes: i64,
}

/// Something unusual that an allocation is in.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Condition {
    #[serde(rename = "type")]
    pub kind: String,
    pub message: String,
    pub since: Option<Timestamp>,
}

impl AllocationStatus {
    /// The state: "queued" while queued, with the power state while active, and with what is unusual.
    pub fn text(&self) -> String {
        let mut text = self.state_text();
        for condition in &self.conditions {
            text.push_str(", ");
            text.push_str(&condition.kind.replace('_', " "));
        }
        text
    }

    /// The state without what is unusual.
    pub fn state_text(&self) -> String {
        if self.queue.is_some() {
            return "queued".to_owned();
        }
        match (self.state.as_str(), self.power.as_str()) {
            ("active", power) if !matches!(power, "" | "unspecified") => format!("active, {power}"),
            (state, _) => state.to_owned(),
        }
    }

    /// Whether the VM is off, or about to be, so that nothing answers a login.
    pub fn is_off(&self) -> bool {
        matches!(self.power.as_str(), "stopping" | "stopped")
    }
}

/// The queue position of an allocation.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Queue {
    pub position: u32,
    pub message: String,
    pub since: Option<Timestamp>,
    pub deadline: Option<Timestamp>,
}

impl Queue {
    /// The position as text.
    pub fn text(&self) -> String {
        format!("queued, position {}", self.position)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Progress {
    pub step: String,
    pub percent: u32,
    pub message: String,
    pub steps_done: u32,
    pub steps_total: u32,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Access {
    pub guest_user: String,
    pub private_ip: String,
    pub ssh_port: u32,
    pub ssh_host: String,
    pub ssh_host_port: u32,
    pub ssh_host_keys: Vec<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Metadata {
    pub create_time: Option<Timestamp>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct TimelineEntry {
    #[serde(deserialize_with = "number")]
    pub sequence: i64,
    pub time: Option<Timestamp>,
    pub step: String,
    pub state: String,
    pub percent: u32,
    pub message: String,
    pub end_time: Option<Timestamp>,
    pub error: Option<EntryError>,
    pub actor: String,
    pub reason: String,
}

/// What a host saw when a step failed.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct EntryError {
    pub message: String,
}

/// The allocation of a command.
#[derive(Debug, clap::Args)]
pub struct AllocationRef {
    /// Id, unique prefix of it, or name.
    allocation: String,
    /// Project to search for the name or prefix [default: your only one].
    #[arg(long, value_name = "PROJECT")]
    project: Option<String>,
}

impl AllocationRef {
    /// Its id.
    ///
    /// # Errors
    /// Those of [`resolve`].
    pub async fn id(&self, api: &Api) -> Result<String, Failure> {
        if Uuid::parse_str(&self.allocation).is_ok() {
            return Ok(self.allocation.clone());
        }
        let project = project::given(api, self.project.clone()).await?;
        let among = Among::Project(project.as_deref());
        resolve(api, among, &self.allocation).await
    }
}

/// The allocations that a name or a beginning of an id can mean.
#[derive(Clone, Copy, Debug)]
pub enum Among<'a> {
    /// Those of the project, of the caller's only one when none is said.
    Project(Option<&'a str>),
    /// Those of all projects, whose names are not unique: only a whole id names one.
    All,
}

/// The id of an allocation. A name means the one that has not ended.
///
/// # Errors
/// Nothing matches, or several do; among all of them, what is no whole id.
pub async fn resolve(api: &Api, among: Among<'_>, given: &str) -> Result<String, Failure> {
    if Uuid::parse_str(given).is_ok() {
        return Ok(given.to_owned());
    }
    let Among::Project(project) = among else {
        return Err(Failure::Usage(format!(
            "{given:?} is not the full id of an allocation; see: gpuaas admin allocation list"
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
        (Err(Failure::NotFound(message)), None) => {
            let names = all.iter().filter(live).map(|a| a.config.name.as_str());
            Err(Failure::NotFound(suggest::with_nearest(
                message, given, names,
            )))
        }
        (found, _) => found,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d_45_a_readiness_check_is_one_line_with_the_end_of_its_output() {
        let mut check = ReadinessResult {
            check: "nvidia-smi".to_owned(),
            message: "The command ended with exit status 127.".to_owned(),
            output_end: "first\nsh: nvidia-smi: not found".to_owned(),
            ..ReadinessResult::default()
        };
        assert_eq!(
            check.text(),
            "nvidia-smi failed. The command ended with exit status 127. Last output: sh: nvidia-smi: not found"
        );
        check.passed = true;
        check.output_end.clear();
        assert!(check.text().starts_with("nvidia-smi passed. ") && check.text().ends_with("127."));
    }
}
