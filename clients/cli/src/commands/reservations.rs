//! `reservation` and `admin reservation`: capacity reservations of a project.
use std::collections::HashMap;

use gpuaas_proto::gpuaas::scheduler::v1::{
    CancelCapacityReservationRequest, CancelProjectReservationRequest, CapacityReservation,
    CapacityReservationConfig, CapacityReservationState, CreateCapacityReservationRequest,
    CreateProjectReservationRequest, GetCapacityReservationRequest, GetProjectReservationRequest,
    LaunchCapacity, ListAllReservationsRequest, ListCapacityReservationsRequest,
};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use uuid::Uuid;

use super::catalog::{self, default_region};
use super::launch::{parse_deadline, parse_length};
use super::select::{Selected, SelectedOf};
use crate::api::{Answer, Api};
use crate::failure::Failure;
use crate::output::{duration, print_json, print_line, print_table, stamp, time, word};
use crate::project::{self, Which};
use crate::resolve::unique_or_near;
use crate::session::{Session, Side};

/// Commands of a member.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    #[command(flatten)]
    Common(Common),
    /// List reservations, newest first.
    List(Listed),
}

/// Commands of members and administrators alike.
#[derive(Debug, clap::Subcommand)]
pub enum Common {
    /// Reserve GPUs of a SKU for a project.
    Create(Create),
    /// Show a reservation, its use and the launches that fit on it.
    Show {
        #[command(flatten)]
        of: ReservationRef,
    },
    /// Cancel a reservation. Running allocations continue.
    Cancel {
        #[command(flatten)]
        of: ReservationRef,
        /// Reason.
        #[arg(long, default_value = "")]
        reason: String,
    },
}

/// Filters of a list.
#[derive(Debug, clap::Args)]
pub struct Listed {
    /// Include ended reservations.
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    project: Which,
    #[command(flatten)]
    selected: SelectedOf<ListCapacityReservationsRequest>,
}

/// The reservation that a command is about.
#[derive(Debug, clap::Args)]
pub struct ReservationRef {
    /// Id, unique prefix of it, or name.
    reservation: String,
    /// Project to search for the name or prefix [default: that of the context, else your only one; for administrators all].
    #[arg(long, value_name = "PROJECT")]
    project: Option<String>,
}

impl ReservationRef {
    async fn id(&self, session: &Session, side: Side) -> Result<String, Failure> {
        let project = side.project(&session.api, self.project.clone()).await?;
        resolve(&session.api, side, project, &self.reservation).await
    }
}

#[derive(Debug, clap::Args)]
pub struct Create {
    /// Name, unique in the project.
    #[arg(long)]
    name: String,
    /// SKU; see: gpuaas sku list.
    #[arg(long)]
    sku: String,
    /// Number of GPUs.
    #[arg(long, value_name = "COUNT")]
    gpus: u32,
    /// Project [default: that of the context, else your only one; administrators name one].
    #[arg(long, value_name = "PROJECT")]
    project: Option<String>,
    /// Region [default: one where the SKU fits now].
    #[arg(long)]
    region: Option<String>,
    /// Start, such as 2h (from now) or 2026-01-31T12:00:00Z [default: now].
    #[arg(long, value_name = "TIME", value_parser = parse_deadline)]
    start: Option<Timestamp>,
    /// End, such as 8h (from now) or 2026-01-31T20:00:00Z.
    #[arg(long, value_name = "TIME", value_parser = parse_deadline)]
    end: Timestamp,
    /// Release each GPU after this time without use, such as 30m [default: the site's maximum; for administrators never].
    #[arg(long, value_name = "LENGTH", value_parser = parse_length)]
    release_unused_after: Option<SignedDuration>,
    /// Start with the GPUs that are free now, and add more as they become free.
    #[arg(long)]
    gather: bool,
}

impl Side {
    /// The project of a flag; for members without it that of the context.
    async fn project(self, api: &Api, flag: Option<String>) -> Result<Option<String>, Failure> {
        match self {
            Self::Member => project::chosen(api, flag).await,
            Self::Operator => project::given(api, flag).await,
        }
    }

    /// Reservations as messages, and as they were sent.
    async fn list(
        self,
        api: &Api,
        projects: Vec<String>,
        region: Option<String>,
        include_ended: bool,
        selected: &Selected,
    ) -> Result<(Vec<CapacityReservation>, Value), Failure> {
        match self {
            Self::Member => {
                let request = |project_id| ListCapacityReservationsRequest {
                    project_id,
                    include_ended,
                    filter: selected.filter(),
                    order_by: selected.order_by(),
                    ..ListCapacityReservationsRequest::default()
                };
                let listed = project::list_each(api, &projects, "reservations", request).await?;
                Ok((listed.message.reservations, listed.json))
            }
            Self::Operator => {
                let request = ListAllReservationsRequest {
                    project_id: projects.into_iter().next().unwrap_or_default(),
                    region_code: region.unwrap_or_default(),
                    include_ended,
                    filter: selected.filter(),
                    order_by: selected.order_by(),
                    ..ListAllReservationsRequest::default()
                };
                let listed = api.call_all_pages(&request, "reservations").await?;
                Ok((listed.message.reservations, listed.json))
            }
        }
    }

    async fn get(
        self,
        api: &Api,
        reservation_id: String,
    ) -> Result<Answer<CapacityReservation>, Failure> {
        match self {
            Self::Member => {
                api.call(&GetCapacityReservationRequest { reservation_id })
                    .await
            }
            Self::Operator => {
                api.call(&GetProjectReservationRequest { reservation_id })
                    .await
            }
        }
    }

    async fn create(
        self,
        session: &Session,
        config: CapacityReservationConfig,
        gather: bool,
    ) -> Result<Answer<CapacityReservation>, Failure> {
        let (api, key, config) = (&session.api, &session.key, Some(config));
        match self {
            Self::Member => {
                let request = CreateCapacityReservationRequest { config, gather };
                api.apply(&request, key).await
            }
            Self::Operator => {
                let request = CreateProjectReservationRequest { config, gather };
                api.apply(&request, key).await
            }
        }
    }

    async fn cancel(
        self,
        session: &Session,
        reservation_id: String,
        reason: String,
    ) -> Result<Answer<CapacityReservation>, Failure> {
        let (api, key) = (&session.api, &session.key);
        match self {
            Self::Member => {
                let request = CancelCapacityReservationRequest {
                    reservation_id,
                    reason,
                };
                api.apply(&request, key).await
            }
            Self::Operator => {
                let request = CancelProjectReservationRequest {
                    reservation_id,
                    reason,
                };
                api.apply(&request, key).await
            }
        }
    }

    fn command(self) -> &'static str {
        match self {
            Self::Member => "gpuaas reservation",
            Self::Operator => "gpuaas admin reservation",
        }
    }
}

/// Runs it for a member.
///
/// # Errors
/// See [`Failure`].
pub async fn run(session: &Session, command: Command) -> Result<(), Failure> {
    match command {
        Command::Common(command) => common(session, Side::Member, command).await,
        Command::List(flags) => list(session, Side::Member, flags, None).await,
    }
}

/// Runs what both do.
///
/// # Errors
/// See [`Failure`].
pub async fn common(session: &Session, side: Side, command: Common) -> Result<(), Failure> {
    match command {
        Common::Create(flags) => create(session, side, flags).await,
        Common::Show { of } => {
            let id = of.id(session, side).await?;
            let answer = side.get(&session.api, id).await?;
            print_reservation(session, &answer, "").await;
            Ok(())
        }
        Common::Cancel { of, reason } => {
            let id = of.id(session, side).await?;
            let answer = side.cancel(session, id, reason).await?;
            let sentence = "The reservation has ended. Running allocations continue.";
            print_reservation(session, &answer, sentence).await;
            Ok(())
        }
    }
}

/// The id of a capacity reservation. A name means the one that is not over.
///
/// # Errors
/// Nothing matches, or several do.
async fn resolve(
    api: &Api,
    side: Side,
    project: Option<String>,
    given: &str,
) -> Result<String, Failure> {
    if Uuid::parse_str(given).is_ok() {
        return Ok(given.to_owned());
    }
    let everything = Selected::default();
    let projects = vec![project.unwrap_or_default()];
    let (all, _) = side.list(api, projects, None, true, &everything).await?;
    let is_live = |one: &&CapacityReservation| {
        let status = one.status.clone().unwrap_or_default();
        !matches!(
            status.state(),
            CapacityReservationState::Ended | CapacityReservationState::Canceled
        )
    };
    let is_named = |one: &&CapacityReservation| name_of(one) == given;
    let named: Vec<_> = all.iter().filter(is_live).filter(is_named).collect();
    match named.as_slice() {
        [one] => Ok(one.id.clone()),
        [] => unique_or_near(
            "reservation",
            given,
            all.iter().map(|r| r.id.as_str()),
            all.iter().filter(is_live).map(name_of),
            &format!("{} list --all", side.command()),
        ),
        // names are unique within a project, and an administrator sees those of all projects
        several => Err(Failure::Usage(format!(
            "{} projects have a reservation named {given:?}; choose one with --project PROJECT",
            several.len()
        ))),
    }
}

fn name_of(reservation: &CapacityReservation) -> &str {
    let config = reservation.config.as_ref();
    config.map_or("", |config| &config.name)
}

async fn create(session: &Session, side: Side, flags: Create) -> Result<(), Failure> {
    let region = match flags.region {
        Some(region) => region,
        None => default_region(session, &flags.sku, 0).await?,
    };
    let given = (flags.sku.clone(), region.clone());
    let project = side.project(&session.api, flags.project).await?;
    let unused = flags.release_unused_after.map(|length| length.as_secs());
    let config = CapacityReservationConfig {
        project_id: project.unwrap_or_default(),
        name: flags.name,
        region_code: region,
        sku: flags.sku,
        gpu_count: flags.gpus,
        start_time: flags.start.map(stamp),
        end_time: Some(stamp(flags.end)),
        release_unused_after_seconds: match unused {
            None => 0,
            Some(seconds) => u32::try_from(seconds).map_err(|_| {
                Failure::Usage("--release-unused-after is too long, or negative".to_owned())
            })?,
        },
    };
    let answer = side.create(session, config, flags.gather).await;
    let answer = match answer {
        Ok(answer) => answer,
        Err(failure) => {
            return Err(
                catalog::nearest_names(&session.api, failure, [&given.0, "", &given.1]).await,
            );
        }
    };
    print_reservation(session, &answer, "").await;
    Ok(())
}

/// Lists them; of one region only for an administrator.
///
/// # Errors
/// See [`Failure`].
pub async fn list(
    session: &Session,
    side: Side,
    flags: Listed,
    region: Option<String>,
) -> Result<(), Failure> {
    let Listed {
        all,
        project,
        selected,
    } = flags;
    let projects = match side {
        Side::Member => project.ids(&session.api).await?,
        // who sees all projects is shown all of them
        Side::Operator => {
            let given = project::given(&session.api, project.project).await?;
            vec![given.unwrap_or_default()]
        }
    };
    let (rows, json) = side
        .list(&session.api, projects, region, all, &selected)
        .await?;
    if session.json() {
        print_json(&json);
        return Ok(());
    }
    if rows.is_empty() && selected.narrows() {
        say!("No reservation matches the filter.");
        return Ok(());
    }
    if rows.is_empty() {
        say!(
            "No{} reservations. Create one: {} create --name NAME --sku SKU --gpus COUNT --end TIME",
            if all { "" } else { " active" },
            side.command()
        );
        return Ok(());
    }
    let projects = match side {
        Side::Operator => project::names(&session.api).await,
        Side::Member => HashMap::new(),
    };
    let rows = rows.into_iter().map(|one| {
        let (config, status) = (
            one.config.unwrap_or_default(),
            one.status.unwrap_or_default(),
        );
        [
            one.id,
            config.name,
            project::name_of(&projects, &config.project_id),
            config.region_code,
            config.sku,
            word(status.state()),
            (config.gpu_count - status.released_gpus).to_string(),
            status.reserved_gpus.to_string(),
            status.used_gpus.to_string(),
            status.unused_gpus.to_string(),
            time(status.unused_since),
            time(config.start_time),
            time(config.end_time),
        ]
    });
    print_table(
        [
            "ID",
            "NAME",
            "PROJECT",
            "REGION",
            "SKU",
            "STATE",
            "GPUS",
            "RESERVED",
            "USED",
            "UNUSED",
            "UNUSED SINCE",
            "START",
            "END",
        ],
        rows.collect(),
    );
    Ok(())
}

/// Prints a reservation after a sentence.
async fn print_reservation(
    session: &Session,
    answer: &Answer<CapacityReservation>,
    sentence: &str,
) {
    if session.json() {
        print_json(&answer.json);
        return;
    }
    let one = &answer.message;
    if !sentence.is_empty() {
        say!("{sentence}");
    }
    let config = one.config.clone().unwrap_or_default();
    let status = one.status.clone().unwrap_or_default();
    print_line("ID", &one.id);
    print_line("Name", &config.name);
    let projects = project::names(&session.api).await;
    print_line("Project", &project::name_of(&projects, &config.project_id));
    print_line("State", &word(status.state()));
    print_line(
        "Size",
        &format!(
            "{} GPU of {} in {}",
            config.gpu_count - status.released_gpus,
            config.sku,
            config.region_code
        ),
    );
    print_line(
        "Time",
        &format!("{} to {}", time(config.start_time), time(config.end_time)),
    );
    print_line(
        "Reserved",
        &format!(
            "{} GPU: {} used, {} unused, {} unavailable",
            status.reserved_gpus, status.used_gpus, status.unused_gpus, status.unavailable_gpus
        ),
    );
    print_line("Unused since", &time(status.unused_since));
    print_line("Fits now", &fits_text(&status.launches));
    if config.release_unused_after_seconds > 0 {
        let after = duration(i64::from(config.release_unused_after_seconds));
        print_line("Idle release", &format!("after {after} without use"));
    }
    if status.released_gpus > 0 {
        print_line("Released", &format!("{} GPU", status.released_gpus));
    }
    print_line("Reason", &status.reason);
    let metadata = one.metadata.clone().unwrap_or_default();
    print_line("Created by", &metadata.created_by);
}

/// How many launches of each size fit, as text.
fn fits_text(launches: &[LaunchCapacity]) -> String {
    let each = launches.iter().enumerate().map(|(at, size)| {
        let word = match (at, size.fits) {
            (0, 1) => " launch",
            (0, _) => " launches",
            _ => "",
        };
        let plural = if size.gpu_count == 1 { "" } else { "s" };
        format!("{}{word} of {} GPU{plural}", size.fits, size.gpu_count)
    });
    each.collect::<Vec<_>>().join(", or ")
}
