//! Bare-metal nodes (B-21): from the claim on a node to its tenant, and back.
//!
//! What brings a node up and erases it is the executor that the settings name. The only one yet is simulated: it touches
//! no host, so its tenant has no login. The ledger trusts it with nothing: a node that was handed over comes back with
//! every slot unschedulable, until an operator has approved the disks anew (P2).
//!
//! The workflow checks for the executor before the ledger becomes `provisioning`, so that a node which nothing could bring up
//! is released as it was. An accepted release waits for an executor for as long as that takes: to call a node free on which a
//! tenant may still run would be a guess.

use std::time::Duration;

use futures::future::BoxFuture;
use gpuaas_placement::model::Failure as LedgerFailure;
use gpuaas_placement::provision::{self, HostState};
use gpuaas_placement::release;
use gpuaas_placement::timeline::{self, State};
use gpuaas_proto::gpuaas::agent::v1::FailureClass;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use serde_json::json;
use sqlx::PgConnection;

use super::failure::StepError;
use super::provision::PROVISION_BUDGET;
use super::subject::ledger;
use super::table::{Definition, Effect, OnFailure, Shown, Step, StepResult};
use super::work::Work;

/// A node is allocated, and nothing in this process can bring it up or erase it.
const NO_EXECUTOR: &str = "the setting allocation.baremetal names nothing that does this";

/// From the claim to the tenant.
pub static PROVISION: Definition = Definition {
    kind: "provision_node",
    bounded: true,
    steps: &[
        Step {
            name: "find_executor",
            effect: Effect::Outside(ask_executor),
            records: "the executor that the settings name",
            deadline: Duration::from_secs(60),
            on_failure: OnFailure::Undo,
            undo: None,
            shown: None,
        },
        Step {
            name: "begin",
            effect: Effect::Ledger(begin),
            records: "nothing; the ledger says provisioning, with every slot of the node unschedulable",
            deadline: Duration::from_secs(300),
            on_failure: OnFailure::Undo,
            undo: None,
            shown: None,
        },
        Step {
            name: "deploy",
            effect: Effect::Outside(ask_executor),
            records: "the executor that brought the node up",
            deadline: PROVISION_BUDGET,
            on_failure: OnFailure::Undo,
            undo: None,
            shown: Some(Shown {
                running: "Provisioning the node.",
                done: "Provisioned the node.",
            }),
        },
        Step {
            name: "activate",
            effect: Effect::Ledger(activate),
            records: "nothing; the ledger says active and opened the billable period",
            deadline: Duration::from_secs(300),
            on_failure: OnFailure::Undo,
            undo: None,
            shown: Some(Shown {
                running: "Activating the node.",
                done: "Activated the node.",
            }),
        },
    ],
    at_failure: &[Step {
        name: "fail_provision",
        effect: Effect::Ledger(fail_provision),
        records: "what became of the node",
        deadline: Duration::from_secs(60),
        on_failure: OnFailure::RetryUntilDone,
        undo: None,
        shown: None,
    }],
};

/// From the tenant to a node that waits for approval.
pub static RELEASE: Definition = Definition {
    kind: "release_node",
    bounded: false,
    steps: &[
        Step {
            name: "erase",
            effect: Effect::Outside(ask_executor),
            records: "the executor that erased the node",
            deadline: Duration::from_secs(30 * 60),
            // an accepted release must end, and only once the tenant is gone
            on_failure: OnFailure::RetryUntilDone,
            undo: None,
            shown: Some(Shown {
                running: "Erasing the node.",
                done: "Erased the node.",
            }),
        },
        Step {
            name: "complete_release",
            effect: Effect::Ledger(complete_release),
            records: "nothing; the ledger says released, and the slots wait for approval",
            deadline: Duration::from_secs(60),
            on_failure: OnFailure::RetryUntilDone,
            undo: None,
            shown: None,
        },
    ],
    at_failure: &[],
};

/// The call to the executor: whether it is there, to bring the node up, to erase it. The simulated one answers
/// each time that it is done.
fn ask_executor(work: &Work) -> BoxFuture<'_, StepResult> {
    Box::pin(async move {
        match work.deps.config.baremetal.executor() {
            Some(executor) => Ok(json!({"executor": executor})),
            None => Err(StepError::fail(
                ErrorReason::DependencyUnavailable,
                NO_EXECUTOR,
                FailureClass::Host,
            )),
        }
    })
}

fn begin<'a>(work: &'a Work, conn: &'a mut PgConnection) -> BoxFuture<'a, StepResult> {
    Box::pin(async move {
        let _ = provision::start(conn, work.fence(), work.allocation_id()?)
            .await
            .map_err(ledger)?;
        Ok(json!({}))
    })
}

fn activate<'a>(work: &'a Work, conn: &'a mut PgConnection) -> BoxFuture<'a, StepResult> {
    Box::pin(async move {
        let id = work.allocation_id()?;
        let _ = provision::activate(conn, work.fence(), id, None, None)
            .await
            .map_err(ledger)?;
        let reported = "The node is billed from now on. It is simulated: nothing is installed, and there is no login.";
        timeline::append(conn, id, "active", State::Done, reported).await?;
        Ok(json!({}))
    })
}

fn fail_provision<'a>(work: &'a Work, conn: &'a mut PgConnection) -> BoxFuture<'a, StepResult> {
    Box::pin(async move {
        let id = work.allocation_id()?;
        let failure = work.failure();
        let message = match failure.reason.as_str() {
            "DEPENDENCY_UNAVAILABLE" => {
                "Provisioning of bare metal is not available on this platform."
            }
            _ => "The node could not be provisioned.",
        };
        let reported = LedgerFailure {
            reason: failure.reason.clone(),
            message: message.to_owned(),
            advice: "Launch a virtual machine instead, and contact the operator. You are not billed for this attempt.".to_owned(),
            step: failure.step.clone(),
        };
        // whatever was begun on a host may have written to its disks
        let untouched = !work.begun.contains("deploy");
        let detail = failure.detail_of("provision");
        let state = if untouched {
            HostState::Untouched {
                detail: json!({"executor": "was asked for nothing", "cause": failure.reason}),
            }
        } else {
            HostState::Dirty {
                health_detail: &detail,
            }
        };
        let _ = provision::fail(conn, work.fence(), id, &reported, state)
            .await
            .map_err(ledger)?;
        timeline::end_running(conn, id, "Stopped.").await?;
        timeline::append(conn, id, "failed", State::Failed, &reported.message).await?;
        Ok(json!({"node": if untouched { "released" } else { "cleanup_blocked" }}))
    })
}

fn complete_release<'a>(work: &'a Work, conn: &'a mut PgConnection) -> BoxFuture<'a, StepResult> {
    Box::pin(async move {
        let id = work.allocation_id()?;
        // no report makes a slot clean here: the ledger makes them all unschedulable
        let _ = release::complete(conn, work.fence(), id, &[])
            .await
            .map_err(ledger)?;
        let reported = "The release is complete. The node stays unschedulable until an operator approves its disks again.";
        timeline::append(conn, id, "released", State::Done, reported).await?;
        Ok(json!({}))
    })
}
