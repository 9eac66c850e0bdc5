//! Capacity reservations of all projects, and the reservation limits of projects.
use reqwest::Method;
use serde_json::json;

use super::{PROJECT_HELP, Session, done};
use crate::commands::{Side, reservations};
use crate::failure::Failure;
use crate::project;

#[derive(Debug, clap::Subcommand)]
pub enum Command {
    #[command(flatten)]
    Common(reservations::Common),
    /// List reservations, newest first.
    List {
        #[command(flatten)]
        listed: reservations::Listed,
        /// Only this region.
        #[arg(long)]
        region: Option<String>,
    },
    /// Show or set how many GPUs the members of a project can reserve.
    Limit {
        #[arg(help = PROJECT_HELP)]
        project: String,
        /// Maximum reserved GPUs; 0: only administrators can reserve; omit it to show the limit.
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
            let id = project::id(&session.api, &project).await?;
            let path = ["admin", "projects", &id, "reservation-limit"];
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
            let sentence = format!(
                "The reservation limit of project {project} is {most} GPUs; {reserved} reserved."
            );
            done(session, &answer, &sentence);
            Ok(())
        }
    }
}
