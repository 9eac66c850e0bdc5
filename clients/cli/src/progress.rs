//! Live progress of an allocation while a command waits. A terminal has a bar with the step that runs; elsewhere a step
//! makes a line when it has ended.
use std::collections::{BTreeMap, HashSet};
use std::io::{IsTerminal as _, stderr};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::Value;

use crate::allocation::{Allocation, Progress, Queue, TimelineEntry};
use crate::api::{Api, parse, parse_all};
use crate::failure::Failure;
use crate::fit;
use crate::output::{clock, took};
use crate::watch::Watch;

/// What a command waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// A login works.
    Active,
    /// The capacity is free.
    Released,
    /// It is active with this power.
    Power(&'static str),
}

impl Goal {
    /// Whether waiting is over: `Some(true)` when reached, `Some(false)` when it cannot be reached any more.
    fn outcome(self, state: &str, power: &str) -> Option<bool> {
        match (self, state) {
            (Self::Power(wanted), "active") if power == wanted => Some(true),
            // what failed is running or stopped again
            (Self::Power(_), "active") if matches!(power, "running" | "stopped") => Some(false),
            (Self::Power(_), "releasing" | "released") => Some(false),
            (Self::Active, "active") | (Self::Released, "released" | "failed") => Some(true),
            (Self::Active, "failed" | "releasing" | "released") => Some(false),
            _ => None,
        }
    }
}

/// How a command waits.
#[derive(Clone, Copy, Debug)]
pub struct Wait {
    /// What for.
    pub goal: Goal,
    /// How long at most.
    pub limit: Duration,
    /// Show nothing.
    pub quiet: bool,
    /// Timeline entries up to this one are old and not shown.
    pub after: i64,
}

/// The number of the latest timeline entry; 0 without any.
///
/// # Errors
/// See [`Failure`].
pub async fn latest_entry(api: &Api, id: &str) -> Result<i64, Failure> {
    Ok(timeline(api, id)
        .await?
        .last()
        .map_or(0, |entry| entry.sequence))
}

async fn timeline(api: &Api, id: &str) -> Result<Vec<TimelineEntry>, Failure> {
    parse_all(
        &api.list(&["allocations", id, "timeline"], &[], "entries")
            .await?,
    )
}

/// Waits for a goal and shows the progress; returns the allocation as last reported.
///
/// # Errors
/// The goal cannot be reached any more, the time is up, or the API is unreachable for longer than a watch allows.
pub async fn wait(api: &Api, id: &str, wait: Wait) -> Result<Value, Failure> {
    let mut last = Value::Null;
    let limit = tokio::time::sleep(wait.limit);
    tokio::select! {
        ended = follow(api, id, &wait, &mut last) => ended?,
        () = limit => {
            let state = last["status"]["state"].as_str().unwrap_or("unknown");
            return Err(Failure::Local(format!(
                "still {state} after {} s; see: gpuaas show {id}",
                wait.limit.as_secs()
            )));
        }
    }
    Ok(last)
}

/// Watches until the goal is reached; `last` is the allocation as last reported.
async fn follow(api: &Api, id: &str, wait: &Wait, last: &mut Value) -> Result<(), Failure> {
    let mut view = View::new(wait.quiet, wait.after);
    let mut watch = Watch::new(api, &["allocations", &format!("{id}:watch")], Vec::new());
    // an allocation comes after the entries that led to it, but the first one before them
    let mut is_synced = false;
    loop {
        let mut message = watch.next().await?;
        if message["entry"].is_object() {
            view.entry(parse(&message["entry"])?);
            continue;
        }
        if message["change"].is_object() {
            *last = message["change"]["allocation"].take();
            let allocation: Allocation = parse(last)?;
            view.progress(&allocation);
        }
        is_synced = is_synced || message["synced"].is_object();
        let is_over = message["end"].is_object();
        if !is_synced && !is_over {
            continue;
        }
        let allocation: Allocation = parse(last)?;
        let status = &allocation.status;
        match wait.goal.outcome(&status.state, &status.power) {
            Some(true) => return Ok(()),
            Some(false) => return Err(missed(allocation)),
            None if is_over => return Err(missed(allocation)),
            None => {}
        }
    }
}

fn missed(allocation: Allocation) -> Failure {
    let id = allocation.id;
    match allocation.status.failure {
        Some(failure) => Failure::Allocation(Box::new(failure)),
        None => {
            let status = &allocation.status;
            let became = match status.state.as_str() {
                "active" => &status.power,
                _ => &status.state,
            };
            Failure::Local(format!(
                "the allocation became {became}; see: gpuaas show {id}"
            ))
        }
    }
}

/// Shows each ended step once, and the running one as it goes.
struct View {
    bar: Option<ProgressBar>,
    quiet: bool,
    shown: i64,
    /// Entries that are not shown yet.
    pending: BTreeMap<i64, TimelineEntry>,
    /// Queue positions that were shown on plain output.
    positions: HashSet<String>,
}

impl View {
    fn new(quiet: bool, shown: i64) -> Self {
        let bar = (!quiet && stderr().is_terminal()).then(|| {
            let bar = ProgressBar::with_draw_target(Some(100), ProgressDrawTarget::stderr());
            let style = ProgressStyle::with_template(
                "{spinner} {prefix} {bar:20} {percent:>3}%  {wide_msg}",
            );
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar.enable_steady_tick(Duration::from_millis(120));
            bar
        });
        Self {
            bar,
            quiet,
            shown,
            pending: BTreeMap::new(),
            positions: HashSet::new(),
        }
    }

    fn entry(&mut self, entry: TimelineEntry) {
        if self.quiet || entry.sequence <= self.shown {
            return;
        }
        self.pending.insert(entry.sequence, entry);
        // an entry that still runs holds back those after it, so that lines stay in order
        while let Some(first) = self.pending.first_entry() {
            if first.get().state == "running" {
                break;
            }
            let entry = first.remove();
            self.shown = entry.sequence;
            self.line(&entry_line(&entry));
        }
    }

    fn progress(&mut self, allocation: &Allocation) {
        if self.quiet {
            return;
        }
        if let Some(queue) = &allocation.status.queue {
            self.queue(queue);
            return;
        }
        let progress = allocation.status.progress.as_ref();
        if let (Some(bar), Some(progress)) = (&self.bar, progress.filter(|p| !p.step.is_empty())) {
            bar.set_prefix(progress_name(progress));
            bar.set_position(whole_percent(progress));
            bar.set_message(progress.message.clone());
        }
    }

    /// Shows the queue position, each once on plain output.
    fn queue(&mut self, queue: &Queue) {
        let text = format!("{}: {}", queue.text(), queue.message);
        match &self.bar {
            Some(bar) => {
                bar.set_prefix("queued");
                bar.set_message(format!("position {}: {}", queue.position, queue.message));
            }
            None if self.positions.insert(text.clone()) => {
                self.line(&format!("          {text}"));
            }
            None => {}
        }
    }

    fn line(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.println(text),
            None => note!("{text}"),
        }
    }
}

impl Drop for View {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// How far all steps are, in percent.
fn whole_percent(progress: &Progress) -> u64 {
    let of_step = u64::from(progress.percent.min(100));
    match u64::from(progress.steps_total) {
        0 => of_step,
        all => (100 * u64::from(progress.steps_done) + of_step) / all,
    }
    .min(100)
}

fn progress_name(progress: &Progress) -> String {
    if progress.steps_total > 0 {
        format!(
            "{}/{} {}",
            (progress.steps_done + 1).min(progress.steps_total),
            progress.steps_total,
            progress.step
        )
    } else {
        progress.step.clone()
    }
}

/// One ended step: time, outcome, name, duration, sentence.
pub fn entry_line(entry: &TimelineEntry) -> String {
    let mark = match entry.state.as_str() {
        "done" => "ok",
        "failed" => "FAILED",
        _ => "..",
    };
    let took = took(entry.time, entry.end_time);
    let observed = entry.error.as_ref().map(|error| error.message.as_str());
    let mut message = match observed.filter(|text| !text.is_empty()) {
        Some(observed) => format!("{} Last observed: {observed}", entry.message),
        None => entry.message.clone(),
    };
    let who = match entry.actor.as_str() {
        "operator" => "an operator",
        actor => actor,
    };
    match (who, entry.reason.as_str()) {
        ("", _) => {}
        (who, "") => message.push_str(&format!(" (by {who})")),
        (who, reason) => message.push_str(&format!(" (by {who}: {reason})")),
    }
    step_line(&clock(entry.time), mark, &entry.step, &took, &message)
}

/// Where a message goes on that does not fit behind its step: under the step.
const MARGIN: usize = 18;

/// The columns of a timeline.
pub fn step_line(time: &str, mark: &str, step: &str, took: &str, message: &str) -> String {
    let line = format!("{time:<8}  {mark:<6}  {step:<28} {took:>7}  {message}");
    fit::wrapped(line.trim_end(), MARGIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_ends_when_it_should() {
        for (goal, state, outcome) in [
            (Goal::Active, "requested", None),
            (Goal::Active, "reserved", None),
            (Goal::Active, "provisioning", None),
            (Goal::Active, "active", Some(true)),
            (Goal::Active, "failed", Some(false)),
            (Goal::Active, "releasing", Some(false)),
            (Goal::Released, "active", None),
            (Goal::Released, "releasing", None),
            (Goal::Released, "released", Some(true)),
            (Goal::Released, "failed", Some(true)),
        ] {
            assert_eq!(goal.outcome(state, ""), outcome, "{goal:?} {state}");
        }
        for (wanted, power, outcome) in [
            ("stopped", "stopping", None),
            ("stopped", "stopped", Some(true)),
            ("stopped", "running", Some(false)),
            ("running", "starting", None),
            ("running", "rebooting", None),
            ("running", "running", Some(true)),
            ("running", "stopped", Some(false)),
        ] {
            let goal = Goal::Power(wanted);
            assert_eq!(goal.outcome("active", power), outcome, "{goal:?} {power}");
        }
    }

    #[test]
    fn a_failed_step_shows_what_was_seen_last_of_the_guest() {
        let entry: TimelineEntry = serde_json::from_value(serde_json::json!({
            "sequence": "7", "step": "provision.wait_login", "state": "failed", "message": "No login.",
            "error": { "message": "no connection: refused" }
        }))
        .expect("an entry");
        let line = entry_line(&entry);
        assert!(
            line.ends_with("No login. Last observed: no connection: refused"),
            "{line}"
        );
    }

    #[test]
    fn an_entry_says_who_asked_for_it_and_why() {
        for (actor, reason, end) in [
            ("user:alice", "", "Accepted. (by user:alice)"),
            (
                "operator",
                "new fans",
                "Accepted. (by an operator: new fans)",
            ),
            ("", "", "Accepted."),
        ] {
            let entry: TimelineEntry = serde_json::from_value(serde_json::json!({
                "step": "stopping", "state": "done", "message": "Accepted.", "actor": actor, "reason": reason
            }))
            .expect("an entry");
            assert!(entry_line(&entry).ends_with(end), "{}", entry_line(&entry));
        }
    }

    #[test]
    fn steps_are_counted_from_one() {
        let progress = |steps_done, steps_total| Progress {
            step: "clone".to_owned(),
            steps_done,
            steps_total,
            ..Progress::default()
        };
        assert_eq!(progress_name(&progress(2, 9)), "3/9 clone");
        assert_eq!(progress_name(&progress(9, 9)), "9/9 clone");
        assert_eq!(progress_name(&progress(0, 0)), "clone");
    }
}
