//! Workflows as data: steps in order, what each records, how long it may take, how it is compensated.
//!
//! The engine reads nothing but these tables, and so do the tests that kill the process at every step.

use std::time::Duration;

use futures::future::BoxFuture;
use serde_json::Value;
use sqlx::PgConnection;

use super::failure::StepError;
use super::work::Work;

/// The result of an effect: what the step records, or why it failed.
pub type StepResult = Result<Value, StepError>;

/// An effect. Each may run more than once and must then lead to the same result.
#[derive(Clone, Copy)]
pub enum Effect {
    /// On a host or another service; no transaction is open meanwhile.
    Outside(for<'a> fn(&'a Work) -> BoxFuture<'a, StepResult>),
    /// The same, with a wipe of disks in it: it may take as long as the setting `allocation.wipe_seconds` says.
    Wipe(for<'a> fn(&'a Work) -> BoxFuture<'a, StepResult>),
    /// In the ledger; commits together with the step's record.
    Ledger(for<'a> fn(&'a Work, &'a mut PgConnection) -> BoxFuture<'a, StepResult>),
}

/// What follows when an effect fails for good, or its time is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnFailure {
    /// What was done so far is compensated.
    Undo,
    /// The work goes on without it.
    Ignore,
    /// It is tried again, ever more slowly, with the reason on show: giving up would leak.
    RetryUntilDone,
}

/// One step.
pub struct Step {
    /// Name, unique in its workflow.
    pub name: &'static str,
    /// What it does.
    pub effect: Effect,
    /// What its row stores afterwards.
    pub records: &'static str,
    /// How long it may take over all attempts; of a wipe, by default.
    pub deadline: Duration,
    /// What follows a failure.
    pub on_failure: OnFailure,
    /// Takes the effect back; run when the step has begun and the workflow fails.
    pub undo: Option<&'static Step>,
    /// The sentences of its own timeline entry. A step that runs a host operation has none: the operation's
    /// steps have theirs.
    pub shown: Option<Shown>,
}

/// The sentences of a timeline entry.
pub struct Shown {
    /// While the step runs.
    pub running: &'static str,
    /// When it is done, in the past tense.
    pub done: &'static str,
}

/// One workflow.
pub struct Definition {
    /// Kind of workflow, as in the table `workflows`.
    pub kind: &'static str,
    /// Steps in order.
    pub steps: &'static [Step],
    /// Steps after the undos of a failed workflow.
    pub at_failure: &'static [Step],
    /// Whether the workflow's own deadline bounds its forward steps. A release has no such bound: it must end.
    pub bounded: bool,
}

/// A step's row, as far as the order of steps cares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepOutcome {
    /// Begun, outcome unknown.
    Running,
    /// Its effect is there.
    Done,
    /// Failed for good.
    Failed,
}

/// What comes next.
pub enum Next {
    /// Run this step.
    Run(&'static Step),
    /// The goal is reached.
    Succeeded,
    /// Everything is compensated.
    Compensated,
}

impl Definition {
    /// The undo steps and the final ones of a workflow that failed, given the steps that had begun.
    pub fn undo_steps(&self, begun: impl Fn(&str) -> bool) -> Vec<&'static Step> {
        let undone = self
            .steps
            .iter()
            .rev()
            .filter(|step| begun(step.name))
            .filter_map(|step| step.undo);
        undone.chain(self.at_failure).collect()
    }

    /// Decides what comes next from the rows.
    pub fn next(&self, undoing: bool, seen: impl Fn(&str) -> Option<StepOutcome>) -> Next {
        if undoing {
            let steps = self.undo_steps(|name| seen(name).is_some());
            // an undo that failed for good was one that may be ignored
            let open = |step: &&Step| {
                !matches!(
                    seen(step.name),
                    Some(StepOutcome::Done | StepOutcome::Failed)
                )
            };
            return steps
                .into_iter()
                .find(open)
                .map_or(Next::Compensated, Next::Run);
        }
        let open = |step: &&'static Step| match seen(step.name) {
            Some(StepOutcome::Done) => false,
            Some(StepOutcome::Failed) => step.on_failure != OnFailure::Ignore,
            Some(StepOutcome::Running) | None => true,
        };
        self.steps
            .iter()
            .find(open)
            .map_or(Next::Succeeded, Next::Run)
    }
}

/// A step as exported for documentation and for generated tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepInfo {
    pub name: &'static str,
    /// True for a step that compensates or ends a failed workflow.
    pub undoing: bool,
    /// True when it commits with its record and makes no call.
    pub ledger: bool,
    /// What it records.
    pub records: &'static str,
    /// How long it may take.
    pub deadline: Duration,
    /// What follows a failure.
    pub on_failure: OnFailure,
    /// Name of its undo.
    pub undo: Option<&'static str>,
}

/// One workflow as exported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepTable {
    /// Kind of workflow.
    pub kind: &'static str,
    /// Forward steps in order, then undo and final steps in the order of a failure after the last step.
    pub steps: Vec<StepInfo>,
}

impl StepTable {
    pub(super) fn of(definition: &Definition) -> Self {
        let info = |step: &Step, undoing: bool| StepInfo {
            name: step.name,
            undoing,
            ledger: matches!(step.effect, Effect::Ledger(_)),
            records: step.records,
            deadline: step.deadline,
            on_failure: step.on_failure,
            undo: step.undo.map(|undo| undo.name),
        };
        let forward = definition.steps.iter().map(|step| info(step, false));
        let undo = definition
            .undo_steps(|_| true)
            .into_iter()
            .map(|step| info(step, true));
        Self {
            kind: definition.kind,
            steps: forward.chain(undo).collect(),
        }
    }

    /// The kill points of the forward path, `<workflow>.<step>:before` and `:after`, in order.
    #[must_use]
    pub fn kill_points(&self) -> Vec<String> {
        let forward = self.steps.iter().filter(|step| !step.undoing);
        forward
            .flat_map(|step| {
                ["before", "after"].map(|at| format!("{}.{}:{at}", self.kind, step.name))
            })
            .collect()
    }
}
