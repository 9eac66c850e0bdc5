//! `watch`: changes as they happen.
use std::collections::HashMap;

use gpuaas_proto::call::Streaming;
use gpuaas_proto::gpuaas::allocation::v1::{
    AllocationChange, WatchAllocationRequest, WatchAllocationResponse, WatchAllocationsRequest,
    WatchAllocationsResponse, watch_allocation_response as of_one,
    watch_allocations_response as of_all,
};
use jiff::Timestamp;

use crate::allocation::{self, Among};
use crate::failure::Failure;
use crate::fit::{self, ID_PREFIX, padded, short};
use crate::output::{clock, print_message, word};
use crate::progress::{entry_line, step_line};
use crate::project;
use crate::session::Session;
use crate::watch::Watch;

#[derive(Debug, clap::Args)]
pub struct Flags {
    /// Id, unique prefix of it, or name. Shows its timeline until it is released or failed [default: all allocations
    /// of the project].
    allocation: Option<String>,
    /// Include released and failed allocations.
    #[arg(long, conflicts_with = "allocation")]
    all: bool,
    /// Project [default: that of the context, else your only one].
    #[arg(long, value_name = "PROJECT")]
    project: Option<String>,
}

/// Runs it.
///
/// # Errors
/// See [`Failure`].
pub async fn run(session: &Session, flags: Flags) -> Result<(), Failure> {
    let project = project::chosen(&session.api, flags.project).await?;
    let Some(reference) = &flags.allocation else {
        let request = WatchAllocationsRequest {
            project_id: project.unwrap_or_default(),
            include_ended: flags.all,
            ..WatchAllocationsRequest::default()
        };
        return follow(session, request, false).await;
    };
    let among = Among::Project(project.as_deref());
    let request = WatchAllocationRequest {
        allocation_id: allocation::resolve(&session.api, among, reference).await?,
        ..WatchAllocationRequest::default()
    };
    follow(session, request, true).await
}

async fn follow<C>(session: &Session, request: C, of_one: bool) -> Result<(), Failure>
where
    C: Streaming<Response: Into<News>>,
{
    let mut watch = Watch::new(&session.api, request);
    let mut table = Table {
        of_one,
        width: fit::width(),
        ..Table::default()
    };
    if !session.json() {
        say!("{}", table.header());
    }
    loop {
        let next = watch.next().await?;
        let news = next.message.into();
        let is_over = matches!(news, News::End);
        if session.json() {
            print_message(&next.json);
        } else if let Some(line) = table.line(news) {
            say!("{line}");
        }
        if is_over {
            return Ok(());
        }
    }
}

/// What a message of either watch tells.
enum News {
    /// A step of the timeline, as its line.
    Step(String),
    Change(Box<AllocationChange>),
    /// There is no more.
    End,
    Nothing,
}

impl From<WatchAllocationResponse> for News {
    fn from(message: WatchAllocationResponse) -> Self {
        match message.event {
            Some(of_one::Event::Entry(entry)) => Self::Step(entry_line(&entry)),
            Some(of_one::Event::Change(change)) => Self::Change(Box::new(change)),
            Some(of_one::Event::End(_)) => Self::End,
            _ => Self::Nothing,
        }
    }
}

impl From<WatchAllocationsResponse> for News {
    fn from(message: WatchAllocationsResponse) -> Self {
        match message.event {
            Some(of_all::Event::Change(change)) => Self::Change(Box::new(change)),
            _ => Self::Nothing,
        }
    }
}

/// A line of the table. In a narrow terminal an id is cut to a beginning that commands take, and a name to its column.
fn row(cells: [&str; 6], width: Option<usize>) -> String {
    let [time, change, id, name, state, power] = cells;
    let is_narrow = width.is_some_and(|width| width < WHOLE);
    let (of_id, of_name) = if is_narrow { (ID_PREFIX, 18) } else { (36, 20) };
    let id: String = id.chars().take(of_id).collect();
    let name = if is_narrow {
        short(name, of_name)
    } else {
        name.to_owned()
    };
    let name = padded(&name, of_name);
    format!("{time:<8}  {change:<8}  {id:<of_id$}  {name}  {state:<12}  {power}")
        .trim_end()
        .to_owned()
}

/// Width of a line with a whole id.
const WHOLE: usize = 105;

/// What was shown last of each allocation: other changes are not shown.
#[derive(Default)]
struct Table {
    /// Of one allocation: its steps, and its state in the same columns.
    of_one: bool,
    /// Of the terminal.
    width: Option<usize>,
    shown: HashMap<String, [String; 3]>,
}

impl Table {
    fn header(&self) -> String {
        if self.of_one {
            step_line("TIME", "RESULT", "STEP", "TOOK", "MESSAGE")
        } else {
            row(
                ["TIME", "CHANGE", "ID", "NAME", "STATE", "POWER"],
                self.width,
            )
        }
    }

    /// A message as a line.
    fn line(&mut self, news: News) -> Option<String> {
        let change = match news {
            News::Step(line) => return Some(line),
            News::Change(change) => change,
            News::End | News::Nothing => return None,
        };
        let kind = word(change.kind());
        let allocation = change.allocation.unwrap_or_default();
        let status = allocation.status.clone().unwrap_or_default();
        let (state, power) = (word(status.state()), word(status.power()));
        // a watch of one allocation shows no name
        let name = match self.of_one {
            true => String::new(),
            false => allocation::label_of(&allocation),
        };
        let now = [name.clone(), state.clone(), power.clone()];
        let before = self.shown.insert(allocation.id.clone(), now.clone());
        if before.as_ref() == Some(&now) {
            return None;
        }
        let at = clock(Some(Timestamp::now()));
        if self.of_one {
            let text = [state, power].join(" ");
            return Some(step_line(&at, "--", "state", "", text.trim_end()));
        }
        let cells = [&at, &kind, &allocation.id, &name, &state, &power].map(String::as_str);
        Some(row(cells, self.width))
    }
}

#[cfg(test)]
mod tests {
    use gpuaas_proto::json::from_json;
    use serde_json::{Value, json};

    use super::*;

    fn news(message: &Value) -> News {
        let message: WatchAllocationResponse = from_json(message).expect("a message");
        message.into()
    }

    #[test]
    fn the_watch_of_one_allocation_has_one_format() {
        let mut table = Table {
            of_one: true,
            ..Table::default()
        };
        let entry = json!({ "entry": { "sequence": "1", "step": "provision.start", "state": "done", "message": "Started the VM." } });
        let change = json!({ "change": { "allocation": { "id": "a", "status": { "state": "active", "power": "running" } } } });
        let header = table.header();
        let lines = [entry, change].map(|message| table.line(news(&message)).expect("a line"));
        for (title, cells) in [
            ("STEP", ["provision.start", "state"]),
            ("MESSAGE", ["Started the VM.", "active running"]),
        ] {
            let at = header.find(title).expect("a column");
            for (line, cell) in lines.iter().zip(cells) {
                assert!(line[at..].starts_with(cell), "{header}\n{line}");
            }
        }
    }

    #[test]
    fn only_what_is_shown_anew_makes_a_line() {
        let change = |state: &str| json!({ "change": { "kind": "modified", "allocation": { "id": "a", "config": { "name": "web" }, "status": { "state": state, "power": "unspecified" } } } });
        let mut table = Table::default();
        let first = table.line(news(&change("reserved"))).expect("new");
        assert!(first.ends_with("reserved"), "{first}");
        assert_eq!(table.line(news(&change("reserved"))), None);
        assert!(table.line(news(&change("active"))).is_some());
        let mut renamed = change("active");
        renamed["change"]["allocation"]["display_name"] = json!("Render farm");
        let line = table.line(news(&renamed)).expect("a name");
        assert!(line.contains("web (Render farm)"), "{line}");
        assert_eq!(table.line(news(&json!({ "synced": {} }))), None);
    }
}
