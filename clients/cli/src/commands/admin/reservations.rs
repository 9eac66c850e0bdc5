//! Capacity that is kept for projects, and how much they may reserve themselves.
use reqwest::Method;
use serde_json::json;

use super::{Session, done};
use crate::commands::reservations::{self, Side};
use crate::failure::Failure;

#[derive(Debug, clap::Subcommand)]
pub enum Command {
    #[command(flatten)]
    Common(reservations::Command),
    /// Set how many GPUs a project may reserve without you.
    Limit {
        /// Id of the project.
        project: String,
        /// GPUs of all its own reservations; 0: only administrators reserve.
        gpus: u32,
    },
}

/// Runs it.
///
/// # Errors
/// See [`Failure`].
pub async fn run(session: &Session, command: Command) -> Result<(), Failure> {
    match command {
        Command::Common(command) => reservations::run(session, Side::Operator, command).await,
        Command::Limit { project, gpus } => {
            let path = ["admin", "projects", &project, "reservation-limit"];
            let body = json!({ "max_gpus": gpus });
            let answer = session
                .api
                .change(Method::PUT, &path, &body, &session.key)
                .await?;
            let told = format!("Project {project} may reserve {gpus} GPU by itself.");
            done(session, &answer, &told);
            Ok(())
        }
    }
}
