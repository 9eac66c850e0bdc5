//! `activity`: who did what in a project.
use clap::ValueEnum;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::Session;
use super::admin::moment;
use super::given;
use super::members::Of;
use crate::failure::Failure;
use crate::output::{print_json, print_table, short, time};

/// Most activities of a page.
const PAGE: usize = 500;
/// Most pages that are read for the activities of one actor.
const MOST_PAGES: usize = 20;

#[derive(Debug, clap::Args)]
pub struct Flags {
    /// Only this kind of thing, for example allocation, project_member or api_key.
    #[arg(long)]
    kind: Option<String>,
    /// Only what this principal did, for example user:alice; operator for what operators of the platform did.
    #[arg(long, value_name = "PRINCIPAL")]
    actor: Option<String>,
    /// Only what was allowed, or what was denied.
    #[arg(long, value_enum)]
    outcome: Option<Outcome>,
    /// Only from this time on: 2026-01-31T12:00:00Z, or a date or time in your zone.
    #[arg(long, value_name = "TIME", value_parser = moment)]
    since: Option<Timestamp>,
    /// Only before this time.
    #[arg(long, value_name = "TIME", value_parser = moment)]
    until: Option<Timestamp>,
    /// Most to list.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    #[command(flatten)]
    of: Of,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Outcome {
    Allowed,
    Denied,
}

/// Lists the newest.
///
/// # Errors
/// See [`Failure`].
pub async fn run(session: &Session, flags: Flags) -> Result<(), Failure> {
    let project = flags.of.id(session).await?;
    let word = |outcome| match outcome {
        Outcome::Allowed => "allowed".to_owned(),
        Outcome::Denied => "denied".to_owned(),
    };
    let is_of_one = flags.actor.is_some();
    let query = given([
        ("kind", flags.kind),
        ("actor", flags.actor),
        ("outcome", flags.outcome.map(word)),
        ("start_time", flags.since.map(|at| at.to_string())),
        ("end_time", flags.until.map(|at| at.to_string())),
    ]);
    let most = flags.limit as usize;
    let mut pages = 0;
    let path = ["projects", &project, "activities"];
    let (mut found, mut incomplete, mut token) = (Vec::new(), false, String::new());
    while found.len() < most {
        let mut page = query.clone();
        // of one actor there may be few in many pages
        let size = match is_of_one {
            true => PAGE,
            false => (most - found.len()).min(PAGE),
        };
        page.push(("page_size", size.to_string()));
        if !token.is_empty() {
            page.push(("page_token", token));
        }
        let mut answer = session.api.get(&path, &page).await?;
        if let Value::Array(values) = answer["activities"].take() {
            found.extend(values);
        }
        incomplete |= answer["incomplete"] == true;
        token = text(&answer, "next_page_token");
        pages += 1;
        if token.is_empty() {
            break;
        }
        if is_of_one && pages == MOST_PAGES {
            complain!("warning: there is more; narrow the time with --since and --until");
            break;
        }
    }
    found.truncate(most);
    if session.json() {
        print_json(&json!({ "activities": found, "incomplete": incomplete }));
        return Ok(());
    }
    if incomplete {
        complain!("warning: a part of the platform did not answer; its activities are missing");
    }
    if found.is_empty() {
        say!("No activity matches.");
        return Ok(());
    }
    let rows = found.iter().map(|one| {
        [
            time(text(one, "create_time").parse::<jiff::Timestamp>().ok()),
            who(one),
            text(one, "summary"),
            object(one),
            text(one, "outcome"),
            text(one, "reason"),
        ]
    });
    let head = ["TIME", "ACTOR", "ACTIVITY", "OF", "OUTCOME", "REASON"];
    print_table(head, rows.collect());
    Ok(())
}

fn who(one: &Value) -> String {
    match text(one, "actor").as_str() {
        "" => "the platform".to_owned(),
        actor => actor.to_owned(),
    }
}

/// What it was done to: its name, otherwise the id that commands take.
fn object(one: &Value) -> String {
    let id = match text(one, "allocation_id") {
        id if id.is_empty() => text(one, "resource_id"),
        id => id,
    };
    match text(one, "name") {
        name if name.is_empty() => short(&id, 36),
        name => name,
    }
}

fn text(value: &Value, field: &str) -> String {
    value[field].as_str().unwrap_or_default().to_owned()
}
