//! Durable workflows: provision and release of slices and of bare-metal nodes, repair, clean-up, stop, start, reboot.
//!
//! **What is durable.** A workflow is a row; each step is a row written before its effect starts and after it
//! ended, with what it yielded. Any replica can go on from there: it takes the workflow's lease (a row lock for
//! an instant, then an expiry in the row), runs the next step of the table, renews the lease meanwhile, and
//! yields the work when a step must wait.
//!
//! **What fences.** Each taking of a lease draws a new, higher epoch. Every write carries it, so a runner that
//! was gone too long changes no row and stops quietly; the same epoch is part of the token the host compares,
//! so its late calls are refused there too (P6).
//!
//! **What is repeated.** A crash after an effect and before its record repeats the effect. Host operations have
//! ids derived from workflow, step and attempt: calling again attaches to the one that runs. Ledger effects
//! commit with their record, and the ledger answers "unchanged" to a change that was made.
//!
//! **What cannot happen.** A transaction is never open across a call to a host or a service.

mod baremetal;
mod clean_up;
pub mod edges;
mod engine;
pub mod failure;
pub mod host;
pub mod kill;
mod lease;
mod operation;
mod places;
mod power;
mod power_outcome;
mod proof;
mod provision;
mod release;
mod repair;
pub mod runner;
pub(crate) mod subject;
pub mod table;
mod work;

pub use table::{StepInfo, StepTable};
pub use work::Deps;

use table::Definition;

/// All workflows.
const DEFINITIONS: [&Definition; 11] = [
    &provision::DEFINITION,
    &release::DEFINITION,
    &baremetal::PROVISION,
    &baremetal::RELEASE,
    &repair::DEFINITION,
    &clean_up::DEFINITION,
    &power::STOP,
    &power::START,
    &power::REBOOT,
    &power::RESCUE,
    &power::UNRESCUE,
];

fn definition(kind: &str) -> Option<&'static Definition> {
    DEFINITIONS
        .into_iter()
        .find(|definition| definition.kind == kind)
}

/// The tables of all workflows, as data: documentation and the tests that kill a process at every step are
/// generated from it.
#[must_use]
pub fn step_tables() -> Vec<StepTable> {
    DEFINITIONS.into_iter().map(StepTable::of).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::table::{Effect, Next, OnFailure, StepOutcome};
    use super::*;

    #[test]
    fn every_step_has_its_own_name_and_every_kind_its_table() {
        for table in step_tables() {
            let names: BTreeSet<_> = table.steps.iter().map(|step| step.name).collect();
            assert_eq!(names.len(), table.steps.len(), "{}", table.kind);
            assert!(
                table.steps.iter().all(|step| !step.records.is_empty()),
                "{}",
                table.kind
            );
            assert_eq!(
                table.kill_points().len(),
                2 * table.steps.iter().filter(|s| !s.undoing).count()
            );
        }
    }

    #[test]
    fn c_07_whatever_step_fails_the_begun_ones_are_taken_back_in_reverse() {
        for definition in DEFINITIONS {
            for failed_at in 0..definition.steps.len() {
                let begun: Vec<&str> = definition.steps[..=failed_at]
                    .iter()
                    .map(|step| step.name)
                    .collect();
                let undo = definition.undo_steps(|name| begun.contains(&name));
                let wanted: Vec<&str> = definition.steps[..=failed_at]
                    .iter()
                    .rev()
                    .filter_map(|step| step.undo)
                    .chain(definition.at_failure)
                    .map(|step| step.name)
                    .collect();
                assert_eq!(
                    undo.iter().map(|step| step.name).collect::<Vec<_>>(),
                    wanted
                );
                // the ledger is updated last, when the host is done
                let ledger = undo
                    .iter()
                    .position(|step| matches!(step.effect, Effect::Ledger(_)));
                assert!(
                    ledger.is_none_or(|at| at + 1 == undo.len()),
                    "{}",
                    definition.kind
                );
            }
        }
    }

    #[test]
    fn an_undo_never_fails_the_undoing() {
        for definition in DEFINITIONS {
            for step in definition.undo_steps(|_| true) {
                assert_ne!(
                    step.on_failure,
                    OnFailure::Undo,
                    "{}.{}",
                    definition.kind,
                    step.name
                );
            }
        }
    }

    #[test]
    fn the_order_follows_from_the_rows_alone() {
        let definition = &provision::DEFINITION;
        let mut done: Vec<&str> = Vec::new();
        loop {
            let seen = |name: &str| done.contains(&name).then_some(StepOutcome::Done);
            match definition.next(false, seen) {
                Next::Run(step) => done.push(step.name),
                Next::Succeeded => break,
                Next::Compensated => unreachable!("forward"),
            }
        }
        assert_eq!(
            done,
            definition
                .steps
                .iter()
                .map(|step| step.name)
                .collect::<Vec<_>>()
        );
        // a crash in the middle of the third step: it is run again
        let third = definition.steps[2].name;
        let seen = |name: &str| match name {
            n if n == third => Some(StepOutcome::Running),
            n if done[..2].contains(&n) => Some(StepOutcome::Done),
            _ => None,
        };
        assert!(matches!(definition.next(false, seen), Next::Run(step) if step.name == third));
    }
}
