//! Quotas of a project: GPUs of each SKU, and allocations over all SKUs.
use reqwest::Method;
use serde_json::json;

use super::{PROJECT_HELP, Session, done};
use crate::commands::quotas;
use crate::failure::Failure;
use crate::project;

#[derive(Debug, clap::Subcommand)]
pub enum Command {
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
