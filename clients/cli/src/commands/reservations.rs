//! `reservations` and `admin reservations`: capacity that is kept for one project.
use jiff::{SignedDuration, Timestamp};
use reqwest::Method;
use serde_json::{Value, json};

use super::catalog::only_region;
use super::launch::{parse_deadline, parse_length};
use super::{Session, Side, given};
use crate::api::{parse, parse_all};
use crate::failure::Failure;
use crate::model::{CapacityReservation, LaunchCapacity};
use crate::output::{duration, print_json, print_line, print_table, time};
use crate::resolve;

/// What a member does.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    #[command(flatten)]
    Common(Common),
    /// List them, newest first.
    List(Listed),
}

/// What a member does, and an administrator in the same words.
#[derive(Debug, clap::Subcommand)]
pub enum Common {
    /// Reserve GPUs of a SKU for a project.
    Create(Create),
    /// Show one: what it holds, what is used, what could be launched on it.
    Show {
        #[command(flatten)]
        of: ReservationRef,
    },
    /// End one; what runs on it goes on.
    Cancel {
        #[command(flatten)]
        of: ReservationRef,
        /// Why, for those who look at it later.
        #[arg(long, default_value = "")]
        reason: String,
    },
}

/// Which are listed.
#[derive(Debug, clap::Args)]
pub struct Listed {
    /// Also those that are over.
    #[arg(long)]
    all: bool,
    /// Only this project.
    #[arg(long, value_name = "ID")]
    project: Option<String>,
}

/// The reservation that a command is about.
#[derive(Debug, clap::Args)]
pub struct ReservationRef {
    /// Id, unique beginning of it, or name.
    reservation: String,
    /// Project in which a name or a beginning is looked for [default: your only one; for administrators all].
    #[arg(long, value_name = "ID")]
    project: Option<String>,
}

impl ReservationRef {
    async fn id(&self, session: &Session, side: Side) -> Result<String, Failure> {
        let (path, command) = (side.path(), side.command());
        let project = self.project.as_deref();
        resolve::reservation(&session.api, path, command, project, &self.reservation).await
    }
}

#[derive(Debug, clap::Args)]
pub struct Create {
    /// A name, to tell it from the project's others.
    #[arg(long)]
    name: String,
    /// What to reserve; see: gpuaas skus.
    #[arg(long)]
    sku: String,
    /// How many GPUs.
    #[arg(long, value_name = "COUNT")]
    gpus: u32,
    /// Project whose members draw on it [default: your only one].
    #[arg(long, value_name = "ID")]
    project: Option<String>,
    /// Where [default: the only enabled region].
    #[arg(long)]
    region: Option<String>,
    /// Begin, like 2h (from now) or 2026-01-31T12:00:00Z [default: now].
    #[arg(long, value_name = "TIME", value_parser = parse_deadline)]
    start: Option<Timestamp>,
    /// End, like 8h (from now) or 2026-01-31T20:00:00Z.
    #[arg(long, value_name = "TIME", value_parser = parse_deadline)]
    end: Timestamp,
    /// Give back each GPU that nobody uses for so long, like 30m [default: a project's own as the site says, else never].
    #[arg(long, value_name = "LENGTH", value_parser = parse_length)]
    release_unused_after: Option<SignedDuration>,
    /// Begin with what is free, and hold more as it becomes free, instead of being refused.
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
            told(session, &answer, "")
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
            told(session, &answer, "Canceled. What runs goes on.")
        }
    }
}

async fn create(session: &Session, side: Side, flags: Create) -> Result<(), Failure> {
    let region = match flags.region {
        Some(region) => region,
        None => only_region(session).await?,
    };
    let mut config = json!({
        "name": flags.name, "sku": flags.sku, "gpu_count": flags.gpus, "region_code": region, "end_time": flags.end,
    });
    if let Some(project) = flags.project {
        config["project_id"] = Value::String(project);
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
        .await?;
    told(session, &answer, "")
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
            "Nothing is reserved{}. Reserve capacity: {} create --name NAME --sku SKU --gpus COUNT --end TIME",
            if all { " yet" } else { " now" },
            side.command()
        );
        return Ok(());
    }
    let rows = rows.into_iter().map(|one| {
        [
            one.id,
            one.config.name,
            one.config.project_id,
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
            "HELD",
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

/// A reservation in lines, after a sentence.
fn told(session: &Session, answer: &Value, sentence: &str) -> Result<(), Failure> {
    if session.json() {
        print_json(answer);
        return Ok(());
    }
    let one: CapacityReservation = parse(answer)?;
    if !sentence.is_empty() {
        say!("{sentence}");
    }
    let (config, status) = (&one.config, &one.status);
    print_line("Id", &one.id);
    print_line("Name", &config.name);
    print_line("Project", &config.project_id);
    print_line("State", &status.state);
    print_line(
        "Reserves",
        &format!(
            "{} GPU of {} in {}",
            config.gpu_count - status.released_gpus,
            config.sku,
            config.region_code
        ),
    );
    print_line(
        "Window",
        &format!("{} to {}", time(config.start_time), time(config.end_time)),
    );
    print_line(
        "Holds",
        &format!(
            "{} GPU: {} used, {} unused, {} unavailable",
            status.reserved_gpus, status.used_gpus, status.unused_gpus, status.unavailable_gpus
        ),
    );
    print_line("Unused", &time(status.unused_since));
    print_line("Fits now", &room(&status.launches));
    if config.release_unused_after_seconds > 0 {
        let after = duration(i64::from(config.release_unused_after_seconds));
        print_line("Policy", &format!("gives back what is unused for {after}"));
    }
    if status.released_gpus > 0 {
        print_line("Released", &format!("{} GPU", status.released_gpus));
    }
    print_line("Reason", &status.reason);
    print_line("Made by", &one.metadata.created_by);
    Ok(())
}

/// How many launches of each size would fit, as part of a sentence.
fn room(launches: &[LaunchCapacity]) -> String {
    let each = launches.iter().enumerate().map(|(at, room)| {
        let word = match (at, room.fits) {
            (0, 1) => " launch",
            (0, _) => " launches",
            _ => "",
        };
        let plural = if room.gpu_count == 1 { "" } else { "s" };
        format!("{}{word} of {} GPU{plural}", room.fits, room.gpu_count)
    });
    each.collect::<Vec<_>>().join(", or ")
}
