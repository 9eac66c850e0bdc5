//! Capacity that is kept for projects, and how much they may reserve themselves.
use reqwest::Method;
use serde_json::json;

use super::{PROJECT_HELP, Session, done};
use crate::commands::{Side, reservations};
use crate::failure::Failure;

#[derive(Debug, clap::Subcommand)]
pub enum Command {
    #[command(flatten)]
    Common(reservations::Common),
    /// List them, newest first.
    List {
        #[command(flatten)]
        listed: reservations::Listed,
        /// Only this region.
        #[arg(long)]
        region: Option<String>,
    },
    /// Show or set how many GPUs a project may reserve without you.
    Limit {
        #[arg(help = PROJECT_HELP)]
        project: String,
        /// GPUs of all its own reservations; 0: only administrators reserve; left out: show it.
        gpus: Option<u32>,
    },
}

/// Runs it.
///
/// # Errors
/// See [`Failure`].
pub async fn run(session: &Session, command: Command) -> Result<(), Failure> {
    match command {
        Command::Common(command) => reservations::common(session, Side::Operator, command).await,
        Command::List { listed, region } => {
            reservations::list(session, Side::Operator, listed, region).await
        }
        Command::Limit { project, gpus } => {
            let path = ["admin", "projects", &project, "reservation-limit"];
            let answer = match gpus {
                None => session.api.get(&path, &[]).await?,
                Some(gpus) => {
                    let body = json!({ "max_gpus": gpus });
                    let change = session.api.change(Method::PUT, &path, &body, &session.key);
                    change.await?
                }
            };
            let [most, reserved] =
                ["max_gpus", "reserved_gpus"].map(|key| answer[key].as_u64().unwrap_or_default());
            let told = format!(
                "Project {project} may reserve {most} GPU by itself; it has reserved {reserved}."
            );
            done(session, &answer, &told);
            Ok(())
        }
    }
}
