//! What agent and updater say to each other: two files of lines `name=value` in one folder, each replaced as a whole.
use std::path::Path;

use gpuaas_proto::gpuaas::internal::inventory::v1 as pb;

use crate::error::{HostResult, io_error};
use crate::host::blocking;

/// Longest reason that inventory takes in, in bytes.
const MAX_REASON: usize = 500;

/// The update that the updater was last given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    pub rollout_id: String,
    pub attempt: u32,
}

/// How it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    pub of: Given,
    /// The version is installed, and its agent answers.
    pub installed: bool,
    pub reason: String,
}

/// The file by which the updater is given an update. Its values were checked to be without line breaks.
pub fn request(update: &pb::AgentUpdate) -> String {
    let action = if update.rollback {
        "rollback"
    } else {
        "update"
    };
    format!(
        "rollout={}\nattempt={}\naction={action}\nversion={}\ndigest={}\nsize={}\n",
        update.rollout_id, update.attempt, update.version, update.digest, update.size_bytes
    )
}

/// Reads which update a file is about.
pub fn given(text: &str) -> Option<Given> {
    Some(Given {
        rollout_id: value(text, "rollout")?.to_owned(),
        attempt: value(text, "attempt")?.parse().ok()?,
    })
}

/// Reads what the updater has left.
pub fn outcome(text: &str) -> Option<Outcome> {
    let mut reason = value(text, "reason").unwrap_or_default().to_owned();
    while reason.len() > MAX_REASON {
        reason.pop();
    }
    Some(Outcome {
        of: given(text)?,
        installed: value(text, "state")? == "installed",
        reason,
    })
}

fn value<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = text.lines();
    lines.find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
}

/// Replaces a file as a whole: the updater never reads half of it, also after a power loss.
///
/// # Errors
/// The folder cannot be written.
pub fn replace(path: &Path, text: &str) -> HostResult<()> {
    let new = path.with_extension("new");
    let written = blocking::here(|| {
        std::fs::write(&new, text)?;
        std::fs::File::open(&new)?.sync_all()?;
        std::fs::rename(&new, path)
    });
    written.map_err(io_error(format_args!("cannot write {}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_update_is_read_back_as_it_was_given_and_halves_are_nothing() {
        let update = pb::AgentUpdate {
            rollout_id: "r".into(),
            attempt: 3,
            version: "v".into(),
            digest: "sha256:x".into(),
            size_bytes: 7,
            rollback: true,
        };
        let text = request(&update);
        assert!(text.contains("action=rollback\n"));
        let of = given(&text).unwrap();
        assert_eq!((of.rollout_id.as_str(), of.attempt), ("r", 3));
        let ended =
            outcome("rollout=r\nattempt=3\nstate=failed\nreason=no space = left\n").unwrap();
        assert_eq!(ended.of, of);
        assert_eq!(
            (ended.installed, ended.reason.as_str()),
            (false, "no space = left")
        );
        assert_eq!(outcome("rollout=r\nattempt=3\n"), None);
        let long = format!(
            "rollout=r\nattempt=3\nstate=failed\nreason={}é\n",
            "x".repeat(499)
        );
        assert_eq!(outcome(&long).unwrap().reason.len(), 499);
    }
}
