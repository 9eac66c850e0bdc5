//! `watch`: changes as they happen.
use std::collections::HashMap;

use jiff::Timestamp;
use serde_json::Value;

use super::{Session, given};
use crate::allocation::{self, Allocation, Among, TimelineEntry};
use crate::api::parse;
use crate::failure::Failure;
use crate::fit::{self, ID_PREFIX};
use crate::output::{clock, print_message, short};
use crate::progress::{entry_line, step_line};
use crate::project;
use crate::watch::Watch;

#[derive(Debug, clap::Args)]
pub struct Flags {
    /// Id, unique prefix of it, or name. Shows its timeline until it is released or failed [default: all allocations
    /// of the project].
    allocation: Option<String>,
    /// Include released and failed allocations.
    #[arg(long, conflicts_with = "allocation")]
    all: bool,
    /// Project [default: your only one].
    #[arg(long, value_name = "PROJECT")]
    project: Option<String>,
}

/// Runs it.
///
/// # Errors
/// See [`Failure`].
pub async fn run(session: &Session, flags: Flags) -> Result<(), Failure> {
    let project = project::given(&session.api, flags.project).await?;
    let mut watch = match &flags.allocation {
        Some(reference) => {
            let among = Among::Project(project.as_deref());
            let id = allocation::resolve(&session.api, among, reference).await?;
            Watch::new(
                &session.api,
                &["allocations", &format!("{id}:watch")],
                Vec::new(),
            )
        }
        None => {
            let query = given([
                ("include_ended", flags.all.then(|| "true".to_owned())),
                ("project_id", project),
            ]);
            Watch::new(&session.api, &["allocations:watch"], query)
        }
    };
    let mut table = Table {
        of_one: flags.allocation.is_some(),
        width: fit::width(),
        ..Table::default()
    };
    if !session.json() {
        say!("{}", table.header());
    }
    loop {
        let message = watch.next().await?;
        let is_over = message["end"].is_object();
        if session.json() {
            print_message(&message);
        } else if let Some(line) = table.line(&message)? {
            say!("{line}");
        }
        if is_over {
            return Ok(());
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
    format!("{time:<8}  {change:<8}  {id:<of_id$}  {name:<of_name$}  {state:<12}  {power}")
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
    shown: HashMap<String, (String, String)>,
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
    fn line(&mut self, message: &Value) -> Result<Option<String>, Failure> {
        if message["entry"].is_object() {
            let entry: TimelineEntry = parse(&message["entry"])?;
            return Ok(Some(entry_line(&entry)));
        }
        if !message["change"].is_object() {
            return Ok(None);
        }
        let allocation: Allocation = parse(&message["change"]["allocation"])?;
        let kind = message["change"]["kind"].as_str().unwrap_or_default();
        let state = allocation.status.state;
        let power = match allocation.status.power.as_str() {
            "unspecified" => String::new(),
            power => power.to_owned(),
        };
        let now = (state.clone(), power.clone());
        let before = self.shown.insert(allocation.id.clone(), now.clone());
        if before.as_ref() == Some(&now) {
            return Ok(None);
        }
        let at = clock(Some(Timestamp::now()));
        if self.of_one {
            let text = [state, power].join(" ");
            return Ok(Some(step_line(&at, "--", "state", "", text.trim_end())));
        }
        let cells = [
            &at,
            kind,
            &allocation.id,
            &allocation.config.name,
            &state,
            &power,
        ];
        Ok(Some(row(cells, self.width)))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_watch_of_one_allocation_has_one_format() {
        let mut table = Table {
            of_one: true,
            ..Table::default()
        };
        let entry = json!({ "entry": { "sequence": "1", "step": "provision.start", "state": "done", "message": "Started the VM." } });
        let change = json!({ "change": { "allocation": { "id": "a", "status": { "state": "active", "power": "running" } } } });
        let header = table.header();
        let lines =
            [entry, change].map(|message| table.line(&message).expect("read").expect("a line"));
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
        let first = table.line(&change("reserved")).expect("read").expect("new");
        assert!(first.ends_with("reserved"), "{first}");
        assert_eq!(table.line(&change("reserved")).expect("read"), None);
        assert!(table.line(&change("active")).expect("read").is_some());
        assert_eq!(table.line(&json!({ "synced": {} })).expect("read"), None);
    }
}
