//! Runs one taken workflow: step after step by its table, until it ends, must wait, or another runner has it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use gpuaas_common::{client, trace};
use gpuaas_placement::timeline::State;
use gpuaas_proto::gpuaas::agent::v1::FailureClass;
use serde_json::{Value, json};
use tracing::Instrument as _;

use super::failure::{Failure, StepError, backoff_seconds, class_name};
use super::kill::Point;
use super::places::Place;
use super::table::{Definition, Effect, Next, OnFailure, Step, StepOutcome, StepResult};
use super::work::{Deps, Work};
use crate::config::Config;
use crate::domain::advice::explain;
use crate::domain::operation::Progress;
use crate::store::workflow_rows::{self, Lost, StepRow, Taken};

/// Longest wait between attempts of a step, in seconds.
const BACKOFF_CAP: f64 = 5.0;
/// Longest wait between attempts of a step that is never given up.
const RETRY_CAP: f64 = 60.0;
/// How long a workflow waits before it asks again for a place among the wipes, in seconds.
const WIPE_WAIT: f64 = 10.0;
/// An effect may overrun its time by this much before it is cut off: the host ends at its own budget first,
/// and then reports why.
const GRACE: Duration = Duration::from_secs(15);

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The goal is reached.
    Succeeded,
    /// It failed, and everything is compensated.
    Compensated,
    /// To be taken again later.
    GivenBack,
    /// Another runner has it.
    Lost,
}

/// Runs the workflow as far as it goes.
///
/// # Errors
/// Those of the database: the lease expires by itself and another runner takes the work.
pub async fn run(
    deps: &Arc<Deps>,
    definition: &'static Definition,
    mut taken: Taken,
    place: &mut Place,
) -> sqlx::Result<Outcome> {
    let (id, epoch) = (taken.id, taken.lease_epoch);
    let started = Instant::now();
    let host_lease = Arc::new(Mutex::new(None));
    loop {
        let rows = deps.within(workflow_rows::steps(&deps.pool, id)).await?;
        let undoing = taken.direction == "undo";
        let step = match definition.next(undoing, |name| seen(&rows, name)) {
            Next::Run(step) => step,
            end => {
                let succeeded = matches!(end, Next::Succeeded);
                let finish =
                    workflow_rows::finish(&deps.pool, id, epoch, &taken.direction, succeeded);
                let lost = deps.within(finish).await?.is_err();
                return Ok(match (lost, succeeded) {
                    (true, _) => Outcome::Lost,
                    (false, true) => Outcome::Succeeded,
                    (false, false) => Outcome::Compensated,
                });
            }
        };
        // one that has begun is asked for all the same: its time passes, and it may have ended
        if matches!(step.effect, Effect::Wipe(_))
            && !place.move_to_wipes()
            && seen(&rows, step.name).is_none()
        {
            let waiting = "Waiting for other wipes to end.";
            let given = yield_waiting(deps, &taken, step, waiting, WIPE_WAIT, None);
            return deps.within(given).await;
        }
        let begin = workflow_rows::begin_step(&deps.pool, id, epoch, &taken.direction, step.name);
        let Ok(row) = deps.within(begin).await? else {
            return Ok(Outcome::Lost);
        };
        let window = (definition.bounded && !undoing)
            .then(|| taken.left_seconds - started.elapsed().as_secs_f64());
        let done = rows.iter().filter(|row| row.state == "done");
        let work = Work {
            deps: deps.clone(),
            taken: taken.clone(),
            left: left(step, &row, window, &deps.config),
            begun: Arc::new(rows.iter().map(|row| row.step.clone()).collect()),
            step: row,
            outputs: Arc::new(
                done.map(|row| (row.step.clone(), row.output.clone()))
                    .collect::<HashMap<_, _>>(),
            ),
            host_lease: host_lease.clone(),
        };
        let began = Instant::now();
        let failure = match attempt(&work, step).await {
            Ok(()) => continue,
            Err(StepError::Lost) => return Ok(Outcome::Lost),
            Err(StepError::Retry { reason, message }) => {
                if step.on_failure == OnFailure::RetryUntilDone || began.elapsed() < work.left {
                    let given = yield_workflow(&work, step, &reason, &message);
                    return deps.within(given).await;
                }
                // the error of a step past its timeout is why it never worked
                last_word(reason, message)
            }
            Err(StepError::Fail(failure)) => failure,
        };
        match deps.within(fail(&work, step, undoing, failure)).await? {
            FailureOutcome::Compensates(failure) => {
                taken.direction = "undo".into();
                taken.failure = Some(failure);
            }
            FailureOutcome::Continues => {}
            FailureOutcome::Ended(outcome) => return Ok(outcome),
        }
    }
}

fn seen(rows: &[StepRow], name: &str) -> Option<StepOutcome> {
    rows.iter()
        .find(|row| row.step == name)
        .map(|row| match row.state.as_str() {
            "done" => StepOutcome::Done,
            "failed" => StepOutcome::Failed,
            _ => StepOutcome::Running,
        })
}

/// What is left of the step's time; a step that is retried until done is bounded per attempt only.
fn left(step: &Step, row: &StepRow, window_seconds: Option<f64>, config: &Config) -> Duration {
    let deadline = match step.effect {
        Effect::Wipe(_) => config.wipe_deadline(),
        Effect::Outside(_) | Effect::Ledger(_) => step.deadline,
    };
    if step.on_failure == OnFailure::RetryUntilDone {
        return deadline;
    }
    let own = deadline.saturating_sub(Duration::from_secs_f64(row.age_seconds.max(0.0)));
    window_seconds.map_or(own, |window| {
        own.min(Duration::from_secs_f64(window.max(0.0)))
    })
}

/// One attempt of a step, in a span of the trace the workflow belongs to.
async fn attempt(work: &Work, step: &'static Step) -> Result<(), StepError> {
    let span = tracing::info_span!(
        "workflow step",
        otel.name = format!("{}.{}", work.taken.kind, step.name),
        workflow_id = %work.taken.id,
        allocation_id = work.taken.allocation_id.map(tracing::field::display),
        attempt = work.step.attempts,
    );
    trace::set_parent(&span, &work.taken.traceparent);
    let request_id = client::RequestId(work.taken.request_id.clone());
    client::REQUEST_ID
        .scope(request_id, Box::pin(effect(work, step)))
        .instrument(span)
        .await
}

async fn effect(work: &Work, step: &'static Step) -> Result<(), StepError> {
    let kind = work.taken.kind.as_str();
    if work.left.is_zero() {
        return Err(StepError::Fail(out_of_time(work.step.error.as_ref())));
    }
    if let Some(shown) = &step.shown {
        let progress = Progress {
            step: step.name.into(),
            message: shown.running.into(),
            ..Progress::default()
        };
        // in one transaction: whoever takes the work over waits for it and ends what it reported
        let begins = async {
            let mut tx = work.deps.pool.begin().await?;
            work.progress(&mut tx, &progress).await?;
            work.record_timeline(&mut tx, step.name, State::Running, 0, shown.running, None)
                .await?;
            tx.commit().await.map_err(StepError::from)
        };
        work.deps.within(begins).await?;
    }
    let edges = &work.deps.edges;
    edges.pass(kind, step.name, Point::Before).await?;
    match step.effect {
        Effect::Outside(run) | Effect::Wipe(run) => {
            let output = within(work, run(work)).await?;
            edges.pass(kind, step.name, Point::After).await?;
            let ends = async {
                let mut tx = work.deps.pool.begin().await?;
                record(work, step, &mut tx, &output).await?;
                tx.commit().await.map_err(StepError::from)
            };
            work.deps.within(ends).await?;
        }
        Effect::Ledger(run) => {
            let changes = async {
                let mut tx = work.deps.pool.begin().await?;
                let output = run(work, &mut tx).await?;
                record(work, step, &mut tx, &output).await?;
                tx.commit().await.map_err(StepError::from)
            };
            work.deps.within(changes).await?;
            edges.pass(kind, step.name, Point::After).await?;
            work.deps.wake.notify(gpuaas_placement::outbox::TOPIC).await;
        }
    }
    tracing::info!(
        workflow = kind,
        step = step.name,
        attempt = work.step.attempts,
        "end step"
    );
    Ok(())
}

async fn within(work: &Work, effect: impl Future<Output = StepResult>) -> StepResult {
    tokio::time::timeout(work.left + GRACE, effect)
        .await
        .unwrap_or_else(|_| Err(overdue("the step did not end in time")))
}

fn overdue(message: &str) -> StepError {
    StepError::Fail(last_word("DEADLINE_EXCEEDED".into(), message.into()))
}

/// Why a step past its timeout never worked: the error of its last attempt, when there was one.
fn out_of_time(last: Option<&Value>) -> Failure {
    let over = "the time of the step is over";
    let said = |key: &str| last.and_then(|error| error.get(key)?.as_str());
    match (said("reason"), said("message")) {
        (Some(reason), Some(message)) => {
            last_word(reason.into(), format!("{over}; last: {message}"))
        }
        _ => last_word("DEADLINE_EXCEEDED".into(), over.into()),
    }
}

/// Records success under the fence, taken last: the ledger's locks come first.
async fn record(
    work: &Work,
    step: &Step,
    tx: &mut sqlx::PgConnection,
    output: &Value,
) -> Result<(), StepError> {
    let id = work.taken.id;
    workflow_rows::hold(tx, id, work.taken.lease_epoch)
        .await?
        .map_err(|Lost| StepError::Lost)?;
    if !workflow_rows::end_step(tx, id, step.name, true, output, None).await? {
        return Err(StepError::Lost);
    }
    if let Some(shown) = &step.shown {
        work.record_timeline(tx, step.name, State::Done, 100, shown.done, None)
            .await?;
    }
    Ok(())
}

/// Yields the work for a while; past the step's timeout the wait is a failure.
async fn yield_workflow(
    work: &Work,
    step: &'static Step,
    reason: &str,
    message: &str,
) -> sqlx::Result<Outcome> {
    let attempts = work.step.attempts;
    let cap = if step.on_failure == OnFailure::RetryUntilDone && attempts > 8 {
        RETRY_CAP
    } else {
        BACKOFF_CAP
    };
    let wait = backoff_seconds(attempts, cap);
    tracing::warn!(
        workflow = work.taken.kind, workflow_id = %work.taken.id, step = step.name, attempt = attempts, reason,
        "retry step in {wait} s: {message}"
    );
    work.deps.metrics.step_retry(&work.taken.kind, step.name);
    let waiting = waiting_sentence(reason);
    let error = json!({"reason": reason, "message": message});
    yield_waiting(&work.deps, &work.taken, step, waiting, wait, Some(&error)).await
}

/// Says what the work waits for, and yields it for so many seconds.
async fn yield_waiting(
    deps: &Deps,
    taken: &Taken,
    step: &Step,
    waiting: &str,
    seconds: f64,
    error: Option<&Value>,
) -> sqlx::Result<Outcome> {
    let progress = Progress {
        step: step.name.into(),
        message: waiting.into(),
        ..Progress::default()
    };
    let (id, epoch) = (taken.id, taken.lease_epoch);
    let mut conn = deps.pool.acquire().await?;
    if workflow_rows::set_progress(&mut conn, id, epoch, &json!(progress))
        .await?
        .is_err()
    {
        return Ok(Outcome::Lost);
    }
    drop(conn);
    let given =
        workflow_rows::yield_workflow(&deps.pool, id, epoch, seconds, step.name, error).await?;
    Ok(if given.is_ok() {
        Outcome::GivenBack
    } else {
        Outcome::Lost
    })
}

fn waiting_sentence(reason: &str) -> &'static str {
    match reason {
        "HOST_UNREACHABLE" => "The host does not answer. Retrying.",
        "HOST_CLOCK_SKEWED" => "The host's clock is wrong. Retrying.",
        "LEASE_HELD" | "OPERATION_CONFLICT" => "Waiting for another operation on the host.",
        _ => "A service does not answer. Retrying.",
    }
}

/// What became of a failure.
enum FailureOutcome {
    /// The workflow is compensated from here on; the failure as stored.
    Compensates(Value),
    /// It goes on as the rows say: without the step, or with it, when it was done after all.
    Continues,
    /// This runner has it no more.
    Ended(Outcome),
}

/// Handles a failure: compensates, goes on without the step, or retries until done.
async fn fail(
    work: &Work,
    step: &'static Step,
    undoing: bool,
    failure: Failure,
) -> sqlx::Result<FailureOutcome> {
    let (id, epoch) = (work.taken.id, work.taken.lease_epoch);
    let own_step = if failure.step.is_empty() {
        format!("{}.{}", work.taken.kind, step.name)
    } else {
        failure.step
    };
    let failure = Failure {
        step: own_step,
        ..failure
    };
    // what is retried until done is given up only when the host that it is for is no more
    let retries = step.on_failure == OnFailure::RetryUntilDone;
    if retries && !failure.of_replaced_host() {
        return Ok(FailureOutcome::Ended(
            yield_workflow(work, step, &failure.reason, &failure.message).await?,
        ));
    }
    tracing::warn!(
        workflow = work.taken.kind, workflow_id = %id, step = step.name, reason = failure.reason,
        failure_class = failure.failure_class, "fail step: {}", failure.message
    );
    let stored = json!(failure);
    let error = json!({"reason": failure.reason, "message": failure.message});
    let mut tx = work.deps.pool.begin().await?;
    if workflow_rows::hold(&mut tx, id, epoch).await?.is_err() {
        return Ok(FailureOutcome::Ended(Outcome::Lost));
    }
    if !workflow_rows::end_step(&mut tx, id, step.name, false, &json!({}), Some(&error)).await? {
        // the attempt did commit, and only the answer was lost: what is done is not compensated
        tx.rollback().await?;
        tracing::info!(workflow = work.taken.kind, workflow_id = %id, step = step.name, "go on after a step that is done");
        return Ok(FailureOutcome::Continues);
    }
    if step.shown.is_some() {
        let explained = explain(&failure.reason, None);
        work.record_timeline(
            &mut tx,
            step.name,
            State::Failed,
            0,
            &explained.message,
            Some(&error),
        )
        .await?;
    }
    let turn = !undoing && (retries || step.on_failure == OnFailure::Undo);
    if turn
        && workflow_rows::turn_to_undo(&mut tx, id, epoch, &stored)
            .await?
            .is_err()
    {
        return Ok(FailureOutcome::Ended(Outcome::Lost));
    }
    tx.commit().await?;
    Ok(if turn {
        FailureOutcome::Compensates(stored)
    } else {
        FailureOutcome::Continues
    })
}

fn last_word(reason: String, message: String) -> Failure {
    Failure {
        reason,
        message,
        step: String::new(),
        failure_class: class_name(FailureClass::Host).to_owned(),
        host_clean: false,
        serial_log_end: Box::default(),
    }
}
