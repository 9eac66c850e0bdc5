//! An allocation: the parts of it that commands use, and how a user refers to one.
use gpuaas_proto::gpuaas::allocation::v1::{
    self as contract, AllocationState, AllocationStatus, ListAllocationsRequest, PowerState,
    QueueStatus,
};
use gpuaas_proto::gpuaas::common::v1::ReadinessResult;
use uuid::Uuid;

use crate::api::Api;
use crate::failure::Failure;
use crate::output::{Moment as _, word};
use crate::resolve::unique;
use crate::{project, suggest};

/// The name that it was launched with.
pub fn name_of(allocation: &contract::Allocation) -> &str {
    let config = allocation.config.as_ref();
    config.map_or("", |config| &config.name)
}

/// The name in a table: that which commands take, with what people call it behind it.
pub fn label_of(allocation: &contract::Allocation) -> String {
    match (name_of(allocation), allocation.display_name.as_str()) {
        (name, "") => name.to_owned(),
        ("", called) => called.to_owned(),
        (name, called) => format!("{name} ({called})"),
    }
}

/// Its state.
pub fn state_of(allocation: &contract::Allocation) -> AllocationState {
    let status = allocation.status.as_ref();
    status.map_or_else(Default::default, AllocationStatus::state)
}

/// The result of a readiness check as one line; of the output its last line.
pub fn check_text(result: &ReadinessResult) -> String {
    let word = if result.passed { "passed" } else { "failed" };
    let said = match result.output_end.lines().last() {
        None => String::new(),
        Some(line) => format!(" Last output: {line}"),
    };
    format!("{} {word}. {}{said}", result.check, result.message)
}

/// The state: "queued" while queued, with the power state while active, and with what is unusual.
pub fn status_text(status: &AllocationStatus) -> String {
    let mut text = state_text(status);
    for condition in &status.conditions {
        text.push_str(", ");
        text.push_str(&condition.r#type.replace('_', " "));
    }
    text
}

/// The state without what is unusual.
pub fn state_text(status: &AllocationStatus) -> String {
    if status.queue.is_some() {
        return "queued".to_owned();
    }
    match (status.state(), status.power()) {
        (AllocationState::Active, power) if power != PowerState::Unspecified => {
            format!("active, {}", word(power))
        }
        (state, _) => word(state),
    }
}

/// Whether the VM is off, or about to be, so that nothing answers a login.
pub fn is_off(status: &AllocationStatus) -> bool {
    matches!(status.power(), PowerState::Stopping | PowerState::Stopped)
}

/// The position in the queue.
pub fn queue_text(queue: &QueueStatus) -> String {
    format!("queued, position {}", queue.position)
}

/// The allocations of a project, of the caller's only one when none is said, those that have ended, too.
///
/// # Errors
/// See [`Failure`].
pub async fn all(api: &Api, project: Option<&str>) -> Result<Vec<contract::Allocation>, Failure> {
    let request = ListAllocationsRequest {
        project_id: project.unwrap_or_default().to_owned(),
        include_ended: true,
        ..ListAllocationsRequest::default()
    };
    let listed = api.call_all_pages(&request, "allocations").await?;
    Ok(listed.message.allocations)
}

/// The allocation of a command.
#[derive(Debug, clap::Args)]
pub struct AllocationRef {
    /// Id, unique prefix of it, or name.
    allocation: String,
    /// Project to search for the name or prefix [default: that of the context, else your only one].
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
        let project = project::chosen(api, self.project.clone()).await?;
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
    let all = all(api, project).await?;
    let live = |a: &&contract::Allocation| {
        !matches!(
            state_of(a),
            AllocationState::Released | AllocationState::Failed
        )
    };
    if let Some(named) = all.iter().filter(live).find(|a| name_of(a) == given) {
        return Ok(named.id.clone());
    }
    let found = unique(
        "allocation",
        given,
        all.iter().map(|a| a.id.as_str()),
        "gpuaas list --all",
    );
    let ended = all.iter().filter(|a| name_of(a) == given);
    let created = |a: &&contract::Allocation| a.metadata.as_ref()?.create_time.moment();
    match (found, ended.max_by_key(created)) {
        (Err(Failure::NotFound(_)), Some(newest)) => Err(Failure::NotFound(format!(
            "no active allocation is named {given:?}; the latest with this name is {}, which is {}",
            newest.id,
            word(state_of(newest))
        ))),
        (Err(Failure::NotFound(message)), None) => {
            let names = all.iter().filter(live).map(name_of);
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
            check_text(&check),
            "nvidia-smi failed. The command ended with exit status 127. Last output: sh: nvidia-smi: not found"
        );
        check.passed = true;
        check.output_end.clear();
        let text = check_text(&check);
        assert!(text.starts_with("nvidia-smi passed. ") && text.ends_with("127."));
    }
}
