//! Reads policies and refuses those that are wrong, each by its id and its place in its file.
use std::path::{Path, PathBuf};

use cedar_policy::{PolicyId, PolicySet, Schema, ValidationMode, Validator};
use miette::Diagnostic;

use super::error::PolicyError;

/// The policies by which the guardrails of organisations bind: what their owners are shown to be in force is in force, also
/// beside a folder that was copied from a release before.
const GUARDRAILS: (&str, &str) = (
    "organisation-guardrails.cedar",
    include_str!("../../../deploy/policies/organisation-guardrails.cedar"),
);
/// The other policies of the platform, which count when no folder is set.
const EMBEDDED: [(&str, &str); 3] = [
    (
        "roles.cedar",
        include_str!("../../../deploy/policies/roles.cedar"),
    ),
    (
        "platform.cedar",
        include_str!("../../../deploy/policies/platform.cedar"),
    ),
    (
        "scopes.cedar",
        include_str!("../../../deploy/policies/scopes.cedar"),
    ),
];

/// One file of policies.
#[derive(Clone, Debug)]
pub struct Source {
    /// Where it is, for people.
    pub name: String,
    /// What it says.
    pub text: String,
}

/// The embedded policies, or all `*.cedar` files of a folder in their place; those of [`GUARDRAILS`] unless the folder has a file
/// of that name.
///
/// # Errors
/// A folder that cannot be read or has no policies.
pub fn sources(folder: Option<&Path>) -> Result<Vec<Source>, PolicyError> {
    let Some(folder) = folder else {
        let all = EMBEDDED.into_iter().chain([GUARDRAILS]);
        return Ok(all.map(Source::embedded).collect());
    };
    let unreadable = |source| PolicyError::Folder {
        folder: folder.to_owned(),
        source,
    };
    let mut files: Vec<PathBuf> = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.extension().is_some_and(|kind| kind == "cedar") {
            files.push(path);
        }
    }
    if files.is_empty() {
        return Err(PolicyError::NoPolicies(folder.to_owned()));
    }
    files.sort();
    let has_own = files.iter().any(|path| path.ends_with(GUARDRAILS.0));
    let mut sources = Vec::new();
    if !has_own {
        sources.push(Source::embedded(GUARDRAILS));
    }
    for path in files {
        let text = std::fs::read_to_string(&path).map_err(unreadable)?;
        let name = path.display().to_string();
        sources.push(Source { name, text });
    }
    Ok(sources)
}

/// The policies of all sources in one set, each known by its `@id`, checked against the schema.
///
/// # Errors
/// All that is wrong with them.
pub fn policies(sources: &[Source], schema: &Schema) -> Result<PolicySet, PolicyError> {
    let mut all = PolicySet::new();
    let mut wrong = Vec::new();
    let validator = Validator::new(schema.clone());
    for source in sources {
        let parsed: PolicySet = match source.text.parse() {
            Ok(parsed) => parsed,
            Err(error) => {
                let errors: &cedar_policy::ParseErrors = &error;
                wrong.extend(errors.iter().map(|error| source.problem(error, error)));
                continue;
            }
        };
        if parsed.templates().next().is_some() {
            wrong.push(format!("{}: has a template; policies only", source.name));
        }
        let mut named = PolicySet::new();
        for policy in parsed.policies() {
            let Some(id) = policy.annotation("id").filter(|id| !id.is_empty()) else {
                let text = policy.to_string();
                let start = text.lines().next().unwrap_or_default();
                wrong.push(format!(
                    "{}: the policy that begins {start:?} needs an @id",
                    source.name
                ));
                continue;
            };
            let policy = policy.new_id(PolicyId::new(id));
            if all.add(policy.clone()).is_err() {
                wrong.push(format!("{}: the id {id:?} is used twice", source.name));
            } else if let Err(error) = named.add(policy) {
                wrong.push(format!("{}: {error}", source.name));
            }
        }
        let result = validator.validate(&named, ValidationMode::Strict);
        wrong.extend(
            result
                .validation_errors()
                .map(|error| source.problem(error, error)),
        );
    }
    if wrong.is_empty() {
        Ok(all)
    } else {
        Err(PolicyError::Policies(wrong))
    }
}

impl Source {
    fn embedded((name, text): (&str, &str)) -> Self {
        Self {
            name: name.to_owned(),
            text: text.to_owned(),
        }
    }

    /// File, line and column of a problem, and what it is.
    fn problem(&self, error: &dyn std::fmt::Display, place: &dyn Diagnostic) -> String {
        let offset = place
            .labels()
            .and_then(|mut labels| labels.next())
            .map(|label| label.offset().min(self.text.len()));
        let Some(before) = offset.and_then(|offset| self.text.get(..offset)) else {
            return format!("{}: {error}", self.name);
        };
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().len() + 1;
        format!("{}:{line}:{column}: {error}", self.name)
    }
}
