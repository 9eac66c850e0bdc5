//! How much a project may hold: GPUs of each SKU, and allocations of all of them together.
use reqwest::Method;
use serde_json::json;

use super::{PROJECT_HELP, Session, done};
use crate::commands::quotas;
use crate::failure::Failure;

#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Show how much a project may hold, and holds.
    Get {
        #[arg(help = PROJECT_HELP)]
        project: String,
    },
    /// Set how many GPUs of a SKU a project may hold.
    Put {
        #[arg(help = PROJECT_HELP)]
        project: String,
        /// The SKU.
        sku: String,
        /// 0 lets it hold none.
        #[arg(long, value_name = "COUNT")]
        max_gpus: u32,
    },
    /// Set how many allocations, of all SKUs together, a project may hold.
    Allocations {
        #[arg(help = PROJECT_HELP)]
        project: String,
        /// 0 lets it hold none.
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
            quotas::show(session, &["admin", "projects", &project, "quotas"], &[]).await
        }
        Command::Put {
            project,
            sku,
            max_gpus,
        } => {
            let path = ["admin", "projects", &project, "quotas", &sku];
            let body = json!({ "max_gpus": max_gpus });
            let answer = session
                .api
                .change(Method::PUT, &path, &body, &session.key)
                .await?;
            let used = answer["used_gpus"].as_u64().unwrap_or_default();
            let told =
                format!("Project {project} may hold {max_gpus} GPUs of {sku}; it holds {used}.");
            done(session, &answer, &told);
            Ok(())
        }
        Command::Allocations { project, max } => {
            let path = ["admin", "projects", &project, "allocation-limit"];
            let body = json!({ "max_allocations": max });
            let answer = session
                .api
                .change(Method::PUT, &path, &body, &session.key)
                .await?;
            let used = answer["used_allocations"].as_u64().unwrap_or_default();
            let told = format!("Project {project} may hold {max} allocations; it holds {used}.");
            done(session, &answer, &told);
            Ok(())
        }
    }
}
