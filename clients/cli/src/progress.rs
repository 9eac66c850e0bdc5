//! Live progress of an allocation while a command waits. A terminal has a bar with the step that runs; elsewhere a step
//! makes a line when it has ended.
use std::collections::{BTreeMap, HashSet};
use std::io::{IsTerminal as _, stderr};
use std::time::{Duration, Instant};

use gpuaas_proto::gpuaas::allocation::v1::watch_allocation_response::Event;
use gpuaas_proto::gpuaas::allocation::v1::{
    Allocation, AllocationState, ListTimelineRequest, PowerState, Progress, QueueStatus,
    TimelineEntry, TimelineState, WatchAllocationRequest,
};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::allocation::{queue_text, state_of};
use crate::api::{Answer, Api};
use crate::failure::Failure;
use crate::fit;
use crate::output::{clock, took, word};
use crate::watch::Watch;

/// What a command waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// A login works.
    Active,
    /// The capacity is free.
    Released,
    /// It is active with this power.
    Power(PowerState),
}

impl Goal {
    /// Whether waiting is over: `Some(true)` when reached, `Some(false)` when it cannot be reached any more.
    fn outcome(self, state: AllocationState, power: PowerState) -> Option<bool> {
        use AllocationState::{Active, Failed, Released, Releasing};
        match (self, state) {
            (Self::Power(wanted), Active) if power == wanted => Some(true),
            // what failed is running, stopped or rescued again
            (Self::Power(_), Active)
                if matches!(
                    power,
                    PowerState::Running | PowerState::Stopped | PowerState::Rescued
                ) =>
            {
                Some(false)
            }
            (Self::Power(_), Releasing | Released) => Some(false),
            (Self::Active, Active) | (Self::Released, Released | Failed) => Some(true),
            (Self::Active, Failed | Releasing | Released) => Some(false),
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
    /// Since when; several waits can have the limit together.
    pub start: Instant,
    /// Show nothing.
    pub quiet: bool,
    /// Timeline entries up to this one are old and not shown.
    pub after: i64,
    /// What is waited for was requested after that entry: a change of the power that fails is missed, also where the VM runs
    /// as it would after one.
    pub is_change: bool,
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
    let request = ListTimelineRequest {
        allocation_id: id.to_owned(),
        ..ListTimelineRequest::default()
    };
    let listed = api.call_all_pages(&request, "entries").await?;
    Ok(listed.message.entries)
}

/// Waits for a goal and shows the progress; returns the allocation as last reported.
///
/// # Errors
/// The goal cannot be reached any more, the time is up, or the API is unreachable for longer than a watch allows.
pub async fn wait(api: &Api, id: &str, wait: Wait) -> Result<Answer<Allocation>, Failure> {
    let mut last = Answer::default();
    let left = wait.limit.saturating_sub(wait.start.elapsed());
    let limit = tokio::time::sleep(left);
    tokio::select! {
        ended = follow(api, id, &wait, &mut last) => ended?,
        () = limit => {
            let state = match state_of(&last.message) {
                AllocationState::Unspecified => "unknown".to_owned(),
                state => word(state),
            };
            return Err(Failure::Local(format!(
                "still {state} after {} s; see: gpuaas show {id}",
                wait.limit.as_secs()
            )));
        }
    }
    Ok(last)
}

/// Watches until the goal is reached; `last` is the allocation as last reported.
async fn follow(
    api: &Api,
    id: &str,
    wait: &Wait,
    last: &mut Answer<Allocation>,
) -> Result<(), Failure> {
    let mut view = View::new(wait.quiet, wait.after);
    let request = WatchAllocationRequest {
        allocation_id: id.to_owned(),
        ..WatchAllocationRequest::default()
    };
    let mut watch = Watch::new(api, request);
    // an allocation comes after the entries that led to it, but the first one before them
    let mut is_synced = false;
    let mut failed = None;
    loop {
        let mut next = watch.next().await?;
        let mut is_over = false;
        match next.message.event {
            Some(Event::Entry(entry)) => {
                if wait.is_change && entry.sequence > wait.after && is_failed_change(&entry) {
                    failed = Some(Failure::Local(entry.message.clone()));
                }
                view.entry(entry);
                continue;
            }
            Some(Event::Change(change)) => {
                last.message = change.allocation.unwrap_or_default();
                last.json = next.json["change"]["allocation"].take();
                view.progress(&last.message);
            }
            Some(Event::Synced(_)) => is_synced = true,
            Some(Event::End(_)) => is_over = true,
            Some(Event::Heartbeat(_)) | None => {}
        }
        if !is_synced && !is_over {
            continue;
        }
        let status = last.message.status.clone().unwrap_or_default();
        match wait.goal.outcome(status.state(), status.power()) {
            Some(true) => return failed.map_or(Ok(()), Err),
            Some(false) => return Err(failed.unwrap_or_else(|| missed(&last.message))),
            None if is_over => return Err(missed(&last.message)),
            None => {}
        }
    }
}

/// Whether a change of the power has failed for good: its last entry is named after the power that the VM has now.
fn is_failed_change(entry: &TimelineEntry) -> bool {
    entry.state() == TimelineState::Failed
        && matches!(entry.step.as_str(), "running" | "stopped" | "rescued")
}

fn missed(allocation: &Allocation) -> Failure {
    let id = &allocation.id;
    let status = allocation.status.clone().unwrap_or_default();
    match status.failure {
        Some(failure) => Failure::Allocation(Box::new(failure)),
        None => {
            let became = match status.state() {
                AllocationState::Active => word(status.power()),
                state => word(state),
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
            if first.get().state() == TimelineState::Running {
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
        let Some(status) = &allocation.status else {
            return;
        };
        if let Some(queue) = &status.queue {
            self.queue(queue);
            return;
        }
        let progress = status.progress.as_ref();
        if let (Some(bar), Some(progress)) = (&self.bar, progress.filter(|p| !p.step.is_empty())) {
            bar.set_prefix(progress_name(progress));
            bar.set_position(whole_percent(progress));
            bar.set_message(progress.message.clone());
        }
    }

    /// Shows the queue position, each once on plain output.
    fn queue(&mut self, queue: &QueueStatus) {
        let text = format!("{}: {}", queue_text(queue), queue.message);
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
    let mark = match entry.state() {
        TimelineState::Done => "ok",
        TimelineState::Failed => "FAILED",
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
    use gpuaas_proto::json::from_json;

    use super::*;

    #[test]
    fn waiting_ends_when_it_should() {
        use AllocationState::{
            Active, Failed, Provisioning, Released, Releasing, Requested, Reserved,
        };
        for (goal, state, outcome) in [
            (Goal::Active, Requested, None),
            (Goal::Active, Reserved, None),
            (Goal::Active, Provisioning, None),
            (Goal::Active, Active, Some(true)),
            (Goal::Active, Failed, Some(false)),
            (Goal::Active, Releasing, Some(false)),
            (Goal::Released, Active, None),
            (Goal::Released, Releasing, None),
            (Goal::Released, Released, Some(true)),
            (Goal::Released, Failed, Some(true)),
        ] {
            let ended = goal.outcome(state, PowerState::Unspecified);
            assert_eq!(ended, outcome, "{goal:?} {state:?}");
        }
        use PowerState::{
            Rebooting, Rescued, Rescuing, Running, Starting, Stopped, Stopping, Unrescuing,
        };
        for (wanted, power, outcome) in [
            (Rescued, Rescuing, None),
            (Rescued, Rescued, Some(true)),
            (Running, Unrescuing, None),
            (Running, Rescued, Some(false)),
            (Stopped, Rescued, Some(false)),
            (Stopped, Stopping, None),
            (Stopped, Stopped, Some(true)),
            (Stopped, Running, Some(false)),
            (Running, Starting, None),
            (Running, Rebooting, None),
            (Running, Running, Some(true)),
            (Running, Stopped, Some(false)),
        ] {
            let goal = Goal::Power(wanted);
            assert_eq!(goal.outcome(Active, power), outcome, "{goal:?} {power:?}");
        }
    }

    #[test]
    fn a_failed_step_shows_what_was_seen_last_of_the_guest() {
        let entry: TimelineEntry = from_json(&serde_json::json!({
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
            let entry: TimelineEntry = from_json(&serde_json::json!({
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
