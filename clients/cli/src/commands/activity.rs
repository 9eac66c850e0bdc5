//! `activity`: who did what in a project.
use clap::ValueEnum;
use gpuaas_proto::gpuaas::audit::v1::{Activity, AuditOutcome, ListActivitiesRequest};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::Session;
use super::admin::moment;
use super::select::SelectedOf;
use super::whose::Of;
use crate::failure::Failure;
use crate::fit::short;
use crate::output::{print_json, print_table, stamp, time, word};

/// Most activities of a page.
const PAGE: usize = 500;
/// Most pages that are read for the activities of one actor.
const MOST_PAGES: usize = 20;

#[derive(Debug, clap::Args)]
pub struct Flags {
    /// Only activities of this kind of resource, for example allocation, project_member or api_key.
    #[arg(long)]
    kind: Option<String>,
    /// Only activities of this principal, for example user:alice; "operator": of operators of the platform.
    #[arg(long, value_name = "PRINCIPAL")]
    actor: Option<String>,
    /// Only allowed, or only denied activities.
    #[arg(long, value_enum)]
    outcome: Option<Outcome>,
    /// Only activities from this time on: 2026-01-31T12:00:00Z, or a date or time in your zone.
    #[arg(long, value_name = "TIME", value_parser = moment)]
    since: Option<Timestamp>,
    /// Only activities before this time.
    #[arg(long, value_name = "TIME", value_parser = moment)]
    until: Option<Timestamp>,
    /// Maximum number of activities.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    #[command(flatten)]
    selected: SelectedOf<ListActivitiesRequest>,
    #[command(flatten)]
    of: Of,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Outcome {
    Allowed,
    Denied,
}

impl From<Outcome> for AuditOutcome {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Allowed => Self::Allowed,
            Outcome::Denied => Self::Denied,
        }
    }
}

/// Lists the newest.
///
/// # Errors
/// See [`Failure`].
pub async fn run(session: &Session, flags: Flags) -> Result<(), Failure> {
    let is_of_one = flags.actor.is_some();
    let outcome = flags.outcome.map(AuditOutcome::from);
    let mut request = ListActivitiesRequest {
        project_id: flags.of.id(session).await?,
        kind: flags.kind.unwrap_or_default(),
        actor: flags.actor.unwrap_or_default(),
        outcome: outcome.unwrap_or_default().into(),
        start_time: flags.since.map(stamp),
        end_time: flags.until.map(stamp),
        filter: flags.selected.filter(),
        order_by: flags.selected.order_by(),
        ..ListActivitiesRequest::default()
    };
    let most = flags.limit as usize;
    let mut pages = 0;
    let (mut found, mut sent, mut incomplete) = (Vec::new(), Vec::new(), false);
    while found.len() < most {
        // of one actor there may be few in many pages
        let size = match is_of_one {
            true => PAGE,
            false => (most - found.len()).min(PAGE),
        };
        request.page_size = i32::try_from(size).unwrap_or(i32::MAX);
        let mut answer = session.api.call(&request).await?;
        if let Value::Array(values) = answer.json["activities"].take() {
            sent.extend(values);
        }
        found.extend(answer.message.activities);
        incomplete |= answer.message.incomplete;
        request.page_token = answer.message.next_page_token;
        pages += 1;
        if request.page_token.is_empty() {
            break;
        }
        if is_of_one && pages == MOST_PAGES {
            complain!("warning: there is more; narrow the time with --since and --until");
            break;
        }
    }
    found.truncate(most);
    sent.truncate(most);
    if session.json() {
        print_json(&json!({ "activities": sent, "incomplete": incomplete }));
        return Ok(());
    }
    if incomplete {
        complain!("warning: a part of the platform did not answer; its activities are missing");
    }
    if found.is_empty() {
        say!("No activity matches.");
        return Ok(());
    }
    let rows = found.into_iter().map(|one| {
        [
            time(one.create_time),
            who(&one),
            one.summary.clone(),
            object(&one),
            word(one.outcome()),
            one.reason,
        ]
    });
    let head = ["TIME", "ACTOR", "ACTIVITY", "OF", "OUTCOME", "REASON"];
    print_table(head, rows.collect());
    Ok(())
}

fn who(one: &Activity) -> String {
    match one.actor.as_str() {
        "" => "the platform".to_owned(),
        actor => actor.to_owned(),
    }
}

/// What it was done to: its name, otherwise the id that commands take.
fn object(one: &Activity) -> String {
    let id = match one.allocation_id.as_str() {
        "" => &one.resource_id,
        id => id,
    };
    match one.name.as_str() {
        "" => short(id, 36),
        name => name.to_owned(),
    }
}
