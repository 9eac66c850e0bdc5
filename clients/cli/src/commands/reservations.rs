//! `reservations` and `admin reservations`: capacity reservations of a project.
use std::collections::HashMap;

use jiff::{SignedDuration, Timestamp};
use reqwest::Method;
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::catalog::{self, default_region};
use super::launch::{parse_deadline, parse_length};
use super::{Session, Side, given};
use crate::api::{Api, parse, parse_all};
use crate::failure::Failure;
use crate::output::{duration, print_json, print_line, print_table, time};
use crate::project;
use crate::resolve::{list_query, unique};

/// GPUs that only one project can launch on.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct CapacityReservation {
    pub id: String,
    pub config: ReservationConfig,
    pub status: ReservationStatus,
    pub metadata: ReservationMetadata,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ReservationConfig {
    pub project_id: String,
    pub name: String,
    pub region_code: String,
    pub sku: String,
    pub gpu_count: u32,
    pub start_time: Option<Timestamp>,
    pub end_time: Option<Timestamp>,
    pub release_unused_after_seconds: u32,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ReservationStatus {
    pub state: String,
    pub reserved_gpus: u32,
    pub used_gpus: u32,
    pub unused_gpus: u32,
    pub unavailable_gpus: u32,
    pub unused_since: Option<Timestamp>,
    pub released_gpus: u32,
    pub reason: String,
    pub launches: Vec<LaunchCapacity>,
}

/// How many launches of one size fit.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct LaunchCapacity {
    pub gpu_count: u32,
    pub fits: u32,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ReservationMetadata {
    pub created_by: String,
}

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
    /// End a reservation. Running allocations continue.
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
    /// Include ended ones.
    #[arg(long)]
    all: bool,
    /// Only this project.
    #[arg(long, value_name = "PROJECT")]
    project: Option<String>,
}

/// The reservation that a command is about.
#[derive(Debug, clap::Args)]
pub struct ReservationRef {
    /// Id, unique prefix of it, or name.
    reservation: String,
    /// Project to search for the name or prefix [default: your only one; for administrators all].
    #[arg(long, value_name = "PROJECT")]
    project: Option<String>,
}

impl ReservationRef {
    async fn id(&self, session: &Session, side: Side) -> Result<String, Failure> {
        let (path, command) = (side.path(), side.command());
        let project = project::given(&session.api, self.project.clone()).await?;
        let project = project.as_deref();
        resolve(&session.api, path, command, project, &self.reservation).await
    }
}

#[derive(Debug, clap::Args)]
pub struct Create {
    /// Name, unique in the project.
    #[arg(long)]
    name: String,
    /// SKU; see: gpuaas skus.
    #[arg(long)]
    sku: String,
    /// Number of GPUs.
    #[arg(long, value_name = "COUNT")]
    gpus: u32,
    /// Project [default: your only one].
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
    /// Release each GPU that is unused for so long, such as 30m [default: the site's maximum; for administrators never].
    #[arg(long, value_name = "LENGTH", value_parser = parse_length)]
    release_unused_after: Option<SignedDuration>,
    /// Start with the GPUs that are free now, and add more as they become free.
    #[arg(long)]
    gather: bool,
}

impl Side {
    fn path(self) -> &'static [&'static str] {
        match self {
            Self::Member => &["capacity-reservations"],
            Self::Operator => &["admin", "capacity-reservations"],
        }
    }

    fn command(self) -> &'static str {
        match self {
            Self::Member => "gpuaas reservations",
            Self::Operator => "gpuaas admin reservations",
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
            let path = [side.path(), &[id.as_str()]].concat();
            let answer = session.api.get(&path, &[]).await?;
            print_reservation(session, &answer, "").await
        }
        Common::Cancel { of, reason } => {
            let id = of.id(session, side).await?;
            let verb = format!("{id}:cancel");
            let path = [side.path(), &[verb.as_str()]].concat();
            let body = json!({ "reason": reason });
            let answer = session
                .api
                .change(Method::POST, &path, &body, &session.key)
                .await?;
            print_reservation(
                session,
                &answer,
                "The reservation has ended. Running allocations continue.",
            )
            .await
        }
    }
}

/// The id of a capacity reservation below a path, which `command` is about. A name means the one that is not over.
///
/// # Errors
/// Nothing matches, or several do.
async fn resolve(
    api: &Api,
    path: &[&str],
    command: &str,
    project: Option<&str>,
    given: &str,
) -> Result<String, Failure> {
    if Uuid::parse_str(given).is_ok() {
        return Ok(given.to_owned());
    }
    let query = list_query(project);
    let all: Vec<CapacityReservation> = parse_all(&api.list(path, &query, "reservations").await?)?;
    let live =
        |one: &&CapacityReservation| !matches!(one.status.state.as_str(), "ended" | "canceled");
    let named: Vec<_> = all
        .iter()
        .filter(live)
        .filter(|r| r.config.name == given)
        .collect();
    match named.as_slice() {
        [one] => Ok(one.id.clone()),
        [] => unique(
            "reservation",
            given,
            all.iter().map(|r| r.id.as_str()),
            &format!("{command} list --all"),
        ),
        // names are unique within a project, and an administrator sees those of all projects
        several => Err(Failure::Usage(format!(
            "{} projects have a reservation named {given:?}; choose one with --project PROJECT",
            several.len()
        ))),
    }
}

async fn create(session: &Session, side: Side, flags: Create) -> Result<(), Failure> {
    let region = match flags.region {
        Some(region) => region,
        None => default_region(session, &flags.sku, 0).await?,
    };
    let given = (flags.sku.clone(), region.clone());
    let mut config = json!({
        "name": flags.name, "sku": flags.sku, "gpu_count": flags.gpus, "region_code": region, "end_time": flags.end,
    });
    if let Some(project) = flags.project {
        let id = project::id(&session.api, &project).await?;
        config["project_id"] = Value::String(id);
    }
    if let Some(start) = flags.start {
        config["start_time"] = json!(start);
    }
    if let Some(length) = flags.release_unused_after {
        config["release_unused_after_seconds"] = json!(length.as_secs());
    }
    let body = json!({ "config": config, "gather": flags.gather });
    let answer = session
        .api
        .change(Method::POST, side.path(), &body, &session.key)
        .await;
    let answer = match answer {
        Ok(answer) => answer,
        Err(failure) => {
            return Err(
                catalog::nearest_names(&session.api, failure, [&given.0, "", &given.1]).await,
            );
        }
    };
    print_reservation(session, &answer, "").await
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
    let Listed { all, project } = flags;
    let project = project::given(&session.api, project).await?;
    let query = given([
        ("include_ended", all.then(|| "true".to_owned())),
        ("project_id", project),
        ("region_code", region),
    ]);
    let found = session
        .api
        .list(side.path(), &query, "reservations")
        .await?;
    if session.json() {
        print_json(&json!({ "reservations": found }));
        return Ok(());
    }
    let rows: Vec<CapacityReservation> = parse_all(&found)?;
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
        [
            one.id,
            one.config.name,
            project::name_of(&projects, &one.config.project_id),
            one.config.region_code,
            one.config.sku,
            one.status.state,
            (one.config.gpu_count - one.status.released_gpus).to_string(),
            one.status.reserved_gpus.to_string(),
            one.status.used_gpus.to_string(),
            one.status.unused_gpus.to_string(),
            time(one.status.unused_since),
            time(one.config.start_time),
            time(one.config.end_time),
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
    answer: &Value,
    sentence: &str,
) -> Result<(), Failure> {
    if session.json() {
        print_json(answer);
        return Ok(());
    }
    let one: CapacityReservation = parse(answer)?;
    if !sentence.is_empty() {
        say!("{sentence}");
    }
    let (config, status) = (&one.config, &one.status);
    print_line("ID", &one.id);
    print_line("Name", &config.name);
    let projects = project::names(&session.api).await;
    print_line("Project", &project::name_of(&projects, &config.project_id));
    print_line("State", &status.state);
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
    print_line("Created by", &one.metadata.created_by);
    Ok(())
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
