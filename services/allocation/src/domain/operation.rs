//! The progress of a host operation, turned into what a user sees: timeline changes and progress.

use std::collections::HashMap;

use gpuaas_proto::gpuaas::agent::v1::{HostOperation, StepState};
use serde::{Deserialize, Serialize};

use super::advice::{done_sentence, step_sentence};

/// How far a percentage must move to be worth telling.
const PERCENT_STEP: u32 = 5;

/// State of a timeline entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reported {
    /// It runs.
    Running,
    Done,
    Failed,
}

/// A change of the timeline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Host step.
    pub step: String,
    pub state: Reported,
    /// 0 to 100.
    pub percent: u32,
    /// A sentence.
    pub message: String,
}

/// What was last reported of each step.
pub type ReportedSteps = HashMap<String, (Reported, u32)>;

/// The running step, for the read model; stored as `workflows.progress`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    pub step: String,
    /// 0 to 100.
    pub percent: u32,
    /// A sentence.
    pub message: String,
    /// Steps that are done.
    pub steps_done: u32,
    /// All steps.
    pub steps_total: u32,
}

/// What to report, given what was reported; a percentage only when it moved by a step. A step that failed is reported with
/// its reason, which the host sends when its undo has ended. Updates `seen`.
pub fn changes(seen: &mut ReportedSteps, operation: &HostOperation) -> Vec<Change> {
    let mut reported = Vec::new();
    for step in &operation.steps {
        let state = match step.state() {
            StepState::Running => Reported::Running,
            StepState::Done => Reported::Done,
            // it had begun, and there was nothing to do after all: its entry must not run for ever
            StepState::Skipped if seen.contains_key(&step.name) => Reported::Done,
            StepState::Failed if operation.failure.is_some() => Reported::Failed,
            StepState::Failed
            | StepState::Pending
            | StepState::Skipped
            | StepState::Unspecified => continue,
        };
        let percent = if state == Reported::Done {
            100
        } else {
            step.percent.min(100)
        };
        let news = match seen.get(&step.name) {
            Some((was, at)) => {
                *was != state || (state == Reported::Running && percent >= at + PERCENT_STEP)
            }
            None => true,
        };
        if news {
            seen.insert(step.name.clone(), (state, percent));
            let message = match state {
                Reported::Done => done_sentence(&step.name),
                Reported::Running | Reported::Failed => step_sentence(&step.name),
            };
            reported.push(Change {
                step: step.name.clone(),
                state,
                percent,
                message: message.to_owned(),
            });
        }
    }
    reported
}

/// Progress of an operation that has `before` own steps in front of it and `after` behind it.
#[must_use]
pub fn progress(operation: &HostOperation, before: u32, after: u32) -> Progress {
    let count = |wanted: &[StepState]| {
        operation
            .steps
            .iter()
            .filter(|s| wanted.contains(&s.state()))
            .count() as u32
    };
    let running = operation
        .steps
        .iter()
        .find(|s| s.state() == StepState::Running);
    let next = running.or_else(|| {
        operation
            .steps
            .iter()
            .find(|s| s.state() == StepState::Pending)
    });
    Progress {
        step: next.map(|s| s.name.clone()).unwrap_or_default(),
        percent: running.map_or(0, |s| s.percent.min(100)),
        message: next
            .map(|s| step_sentence(&s.name).to_owned())
            .unwrap_or_default(),
        steps_done: before + count(&[StepState::Done, StepState::Skipped]),
        steps_total: before + operation.steps.len() as u32 + after,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuaas_proto::gpuaas::agent::v1::{OperationFailure, OperationStep};

    fn operation(steps: &[(&str, StepState, u32)]) -> HostOperation {
        let step = |(name, state, percent): &(&str, StepState, u32)| OperationStep {
            name: (*name).into(),
            state: (*state).into(),
            percent: *percent,
            ..OperationStep::default()
        };
        HostOperation {
            steps: steps.iter().map(step).collect(),
            ..HostOperation::default()
        }
    }

    /// C-38
    #[test]
    fn c_40_progress_is_told_when_it_moves() {
        let mut seen = ReportedSteps::new();
        let reported = |seen: &mut ReportedSteps, op: &HostOperation| {
            changes(seen, op)
                .into_iter()
                .map(|c| (c.step, c.state, c.percent))
                .collect::<Vec<_>>()
        };
        let op = operation(&[
            ("clone", StepState::Running, 0),
            ("seed", StepState::Pending, 0),
        ]);
        assert_eq!(
            reported(&mut seen, &op),
            [("clone".into(), Reported::Running, 0)]
        );
        assert!(reported(&mut seen, &op).is_empty());
        let op = operation(&[
            ("clone", StepState::Running, 4),
            ("seed", StepState::Pending, 0),
        ]);
        assert!(reported(&mut seen, &op).is_empty());
        let op = operation(&[
            ("clone", StepState::Running, 40),
            ("seed", StepState::Pending, 0),
        ]);
        assert_eq!(
            reported(&mut seen, &op),
            [("clone".into(), Reported::Running, 40)]
        );
        let op = operation(&[
            ("clone", StepState::Done, 100),
            ("seed", StepState::Skipped, 0),
        ]);
        assert_eq!(
            reported(&mut seen, &op),
            [("clone".into(), Reported::Done, 100)]
        );
        assert!(reported(&mut seen, &op).is_empty());
    }

    #[test]
    fn a_step_that_began_and_had_nothing_to_do_is_told_to_be_done() {
        let mut seen = ReportedSteps::new();
        let op = |state| operation(&[("stop", state, 0)]);
        assert!(changes(&mut seen, &op(StepState::Skipped)).is_empty());
        assert_eq!(changes(&mut seen, &op(StepState::Running)).len(), 1);
        let reported = changes(&mut seen, &op(StepState::Skipped));
        assert_eq!(reported[0].state, Reported::Done);
        assert!(changes(&mut seen, &op(StepState::Skipped)).is_empty());
    }

    #[test]
    fn c_05_a_step_that_failed_is_told_with_its_reason() {
        let mut seen = ReportedSteps::new();
        let undoing = operation(&[("wait_login", StepState::Failed, 0)]);
        assert!(changes(&mut seen, &undoing).is_empty());
        let ended = HostOperation {
            failure: Some(OperationFailure::default()),
            ..undoing
        };
        assert_eq!(changes(&mut seen, &ended)[0].state, Reported::Failed);
    }

    #[test]
    fn progress_counts_own_steps_too() {
        let op = operation(&[
            ("clone", StepState::Done, 100),
            ("seed", StepState::Running, 30),
            ("start", StepState::Pending, 0),
        ]);
        let progress = progress(&op, 1, 2);
        assert_eq!((progress.step.as_str(), progress.percent), ("seed", 30));
        assert_eq!((progress.steps_done, progress.steps_total), (2, 6));
    }
}
