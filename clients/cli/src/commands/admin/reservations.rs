//! Capacity reservations of all projects, and the reservation limits of projects.
use gpuaas_proto::gpuaas::scheduler::v1::{
    GetProjectReservationLimitRequest, PutProjectReservationLimitRequest,
};

use crate::commands::reservations;
use crate::commands::select::Read;
use crate::failure::Failure;
use crate::project;
use crate::project::PROJECT_HELP;
use crate::session::{Session, Side, done};

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
        #[command(flatten)]
        read: Read,
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
        Command::Limit {
            project,
            gpus,
            read,
        } => {
            let project_id = project::id(&session.api, &project).await?;
            let answer = match gpus {
                None => {
                    let request = GetProjectReservationLimitRequest { project_id };
                    session.api.call(&request).await?
                }
                Some(max_gpus) => {
                    let request = PutProjectReservationLimitRequest {
                        project_id,
                        max_gpus,
                        etag: read.etag,
                    };
                    session.api.apply(&request, &session.key).await?
                }
            };
            let (most, reserved) = (answer.message.max_gpus, answer.message.reserved_gpus);
            let sentence = format!(
                "The reservation limit of project {project} is {most} GPUs; {reserved} reserved."
            );
            done(session, &answer.json, &sentence);
            Ok(())
        }
    }
}
