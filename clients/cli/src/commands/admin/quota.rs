//! Quotas of a project: GPUs of each SKU, and allocations over all SKUs.
use reqwest::Method;
use serde_json::{Value, json};

use super::{PROJECT_HELP, Session, done};
use crate::commands::quotas;
use crate::failure::Failure;
use crate::output::{print_json, print_table};
use crate::project;

#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// List the quotas of all projects and their use.
    List,
    /// Show the quotas of a project and their use.
    Get {
        #[arg(help = PROJECT_HELP)]
        project: String,
    },
    /// Set the GPU quota of a project for a SKU.
    Put {
        #[arg(help = PROJECT_HELP)]
        project: String,
        /// The SKU.
        sku: String,
        /// Maximum GPUs; 0 allows none.
        #[arg(long, value_name = "COUNT")]
        max_gpus: u32,
    },
    /// Set the allocation quota of a project, over all SKUs.
    Allocations {
        #[arg(help = PROJECT_HELP)]
        project: String,
        /// Maximum allocations; 0 allows none.
        #[arg(long, value_name = "COUNT")]
        max: u32,
    },
}

/// Runs it.
///
/// # Errors
/// See [`Failure`].
pub async fn run(session: &Session, command: Command) -> Result<(), Failure> {
    match command {
        Command::List => list(session).await,
        Command::Get { project } => {
            let project = project::id(&session.api, &project).await?;
            quotas::show(session, &["admin", "projects", &project, "quotas"], &[]).await
        }
        Command::Put {
            project,
            sku,
            max_gpus,
        } => {
            let id = project::id(&session.api, &project).await?;
            let path = ["admin", "projects", &id, "quotas", &sku];
            let body = json!({ "max_gpus": max_gpus });
            let answer = session
                .api
                .change(Method::PUT, &path, &body, &session.key)
                .await?;
            let used = answer["used_gpus"].as_u64().unwrap_or_default();
            let sentence = format!(
                "The quota of project {project} is {max_gpus} GPUs of {sku}; {used} in use."
            );
            done(session, &answer, &sentence);
            Ok(())
        }
        Command::Allocations { project, max } => {
            let id = project::id(&session.api, &project).await?;
            let path = ["admin", "projects", &id, "allocation-limit"];
            let body = json!({ "max_allocations": max });
            let answer = session
                .api
                .change(Method::PUT, &path, &body, &session.key)
                .await?;
            let used = answer["used_allocations"].as_u64().unwrap_or_default();
            let sentence =
                format!("The quota of project {project} is {max} allocations; {used} in use.");
            done(session, &answer, &sentence);
            Ok(())
        }
    }
}

/// Most projects of one list; each is a request.
const MOST_PROJECTS: usize = 200;

async fn list(session: &Session) -> Result<(), Failure> {
    let projects = session
        .api
        .list(&["admin", "projects"], &[], "projects")
        .await?;
    let mut found = Vec::new();
    for project in projects.iter().take(MOST_PROJECTS) {
        let id = project["id"].as_str().unwrap_or_default();
        let path = ["admin", "projects", id, "quotas"];
        let mut quotas = session.api.get(&path, &[]).await?;
        quotas["project"] = project.clone();
        found.push(quotas);
    }
    if projects.len() > MOST_PROJECTS {
        note!(
            "Only the first {MOST_PROJECTS} of {} projects are listed. One of the others: gpuaas admin quota get PROJECT",
            projects.len()
        );
    }
    if session.json() {
        print_json(&json!({ "quotas": found }));
        return Ok(());
    }
    let number = |value: &Value| value.as_u64().unwrap_or_default();
    let mut rows = Vec::new();
    for quotas in &found {
        let project = quotas["project"]["slug"].as_str().unwrap_or_default();
        let mut row = |resource: String, limit: u64, used: u64| {
            rows.push([
                project.to_owned(),
                resource,
                limit.to_string(),
                used.to_string(),
                limit.saturating_sub(used).to_string(),
            ]);
        };
        let (limit, used) = (&quotas["max_allocations"], &quotas["used_allocations"]);
        row("allocations".to_owned(), number(limit), number(used));
        for quota in quotas["quotas"].as_array().into_iter().flatten() {
            let sku = quota["sku"].as_str().unwrap_or_default();
            let (limit, used) = (&quota["max_gpus"], &quota["used_gpus"]);
            row(format!("GPUs of {sku}"), number(limit), number(used));
        }
    }
    print_table(["PROJECT", "RESOURCE", "LIMIT", "USED", "AVAILABLE"], rows);
    Ok(())
}
