//! `reservations` and `admin reservations`: capacity that is kept for one project.
use jiff::{SignedDuration, Timestamp};
use reqwest::Method;
use serde_json::{Value, json};

use super::launch::{only_region, parse_deadline};
use super::{Session, given};
use crate::api::{parse, parse_all};
use crate::failure::Failure;
use crate::model::CapacityReservation;
use crate::output::{duration, print_json, print_table, time};
use crate::resolve;

#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Reserve GPUs of a SKU for a project.
    Create(Create),
    /// List them, newest first.
    List {
        /// Also those that are over.
        #[arg(long)]
        all: bool,
        /// Only this project.
        #[arg(long, value_name = "ID")]
        project: Option<String>,
    },
    /// Show one: what it holds, what is used, what could be launched on it.
    Show {
        /// Id, unique beginning of it, or name.
        reservation: String,
    },
    /// End one; what runs on it goes on.
    Cancel {
        /// Id, unique beginning of it, or name.
        reservation: String,
        /// Why, for those who look at it later.
        #[arg(long, default_value = "")]
        reason: String,
    },
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
    /// Give back each GPU that nobody uses for so long, like 30m.
    #[arg(long, value_name = "LENGTH")]
    release_unused_after: Option<SignedDuration>,
    /// Begin with what is free, and hold more as it becomes free, instead of being refused.
    #[arg(long)]
    gather: bool,
}

/// Whose hand it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// A member of a project.
    Member,
    /// An administrator.
    Operator,
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

/// Runs it.
///
/// # Errors
/// See [`Failure`].
pub async fn run(session: &Session, side: Side, command: Command) -> Result<(), Failure> {
    match command {
        Command::Create(flags) => create(session, side, flags).await,
        Command::List { all, project } => list(session, side, all, project).await,
        Command::Show { reservation } => {
            let id = resolve::reservation(&session.api, side.path(), &reservation).await?;
            let path = [side.path(), &[id.as_str()]].concat();
            let answer = session.api.get(&path, &[]).await?;
            told(session, &answer, "")
        }
        Command::Cancel {
            reservation,
            reason,
        } => {
            let id = resolve::reservation(&session.api, side.path(), &reservation).await?;
            let verb = format!("{id}:cancel");
            let path = [side.path(), &[verb.as_str()]].concat();
            let body = json!({ "reason": reason });
            let answer = session
                .api
                .change(Method::POST, &path, &body, &session.key)
                .await?;
            told(session, &answer, "Canceled. What runs goes on.\n")
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

async fn list(
    session: &Session,
    side: Side,
    all: bool,
    project: Option<String>,
) -> Result<(), Failure> {
    let query = given([
        ("include_ended", all.then(|| "true".to_owned())),
        ("project_id", project),
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
        println!(
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
            one.status.held_gpus.to_string(),
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
    print!("{sentence}");
    let line = |name: &str, value: &str| {
        if !value.is_empty() {
            println!("{name:<10} {value}");
        }
    };
    let (config, status) = (&one.config, &one.status);
    line("Id", &one.id);
    line("Name", &config.name);
    line("Project", &config.project_id);
    line("State", &status.state);
    line(
        "Reserves",
        &format!(
            "{} GPU of {} in {}",
            config.gpu_count - status.released_gpus,
            config.sku,
            config.region_code
        ),
    );
    line(
        "Window",
        &format!("{} to {}", time(config.start_time), time(config.end_time)),
    );
    line(
        "Holds",
        &format!(
            "{} GPU: {} used, {} unused, {} unavailable",
            status.held_gpus, status.used_gpus, status.unused_gpus, status.unavailable_gpus
        ),
    );
    line("Unused", &time(status.unused_since));
    let rooms: Vec<String> = status
        .launches
        .iter()
        .map(|room| format!("{} of {} GPU", room.fits, room.gpu_count))
        .collect();
    line("Launches", &rooms.join(", or "));
    if config.release_unused_after_seconds > 0 {
        let after = duration(i64::from(config.release_unused_after_seconds));
        line("Policy", &format!("gives back what is unused for {after}"));
    }
    if status.released_gpus > 0 {
        line("Released", &format!("{} GPU", status.released_gpus));
    }
    line("Reason", &status.reason);
    line("Made by", &one.metadata.created_by);
    Ok(())
}
