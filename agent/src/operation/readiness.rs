//! The last step before a launch ends well: the result of cloud-init, then the checks that the image names, in the guest
//! (D-45, D-69, INC-24). Passed-through devices show nothing of the drivers in the guest.
use std::time::Duration;

use gpuaas_common::readiness::{CLOUD_INIT, Check, Outcome, end_of, parse, plain};
use gpuaas_proto::gpuaas::agent::v1 as pb;
use gpuaas_proto::gpuaas::common::v1::DriverStrategy;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use serde_json::{Value, json};

use super::domain::still_running;
use super::login::{SSH_PORT, UNDO_MARGIN, not_the_guest};
use super::work::{Done, Work};
use crate::error::{HostError, HostResult};
use crate::guest::LoginError;
use crate::guest::command::{Answer, MAX_OUTPUT, run};
use crate::guest::host_key::parse_pins;
use crate::guest::login::Account;
use crate::ids::parse_private_ip;
use crate::image::seed::GuestUser;
use crate::journal::OperationRow;
use crate::wall_clock::now_ms;

/// Name of the step.
pub const STEP: &str = "check_guest";
/// Longest that cloud-init may take after the first login.
const CLOUD_INIT_LIMIT: Duration = Duration::from_secs(600);
/// What the command below prints where there is no cloud-init.
const NO_CLOUD_INIT: &str = "gpuaas-no-cloud-init";
/// Waits for cloud-init's result; 0 is done, 1 failed, 2 done with errors that it recovered from.
const CLOUD_INIT_COMMAND: &str = "command -v cloud-init >/dev/null 2>&1 || { echo gpuaas-no-cloud-init; exit 0; }; \
     cloud-init status --wait --long";

/// What is made of one answer.
enum Verdict {
    /// Its sentence.
    Passed(String),
    /// Another run may pass.
    NotYet(String),
    /// No other run gives anything else.
    Failed(String),
}

/// Waits for cloud-init and runs the checks. What a run of this step before a restart of the agent found is kept, and a check
/// that passed is not run again. Without checks, cloud-init is waited for where it installs the drivers.
pub async fn check_guest(work: &Work) -> HostResult<Done> {
    let request: pb::ProvisionRequest = work.request()?;
    let image = request.image.clone().unwrap_or_default();
    let checks = parse(&image.readiness_checks)
        .map_err(|wrong| HostError::invalid("image", wrong.to_string()))?;
    if checks.is_empty() && image.driver_strategy() != DriverStrategy::CloudInit {
        return Ok(Done::skipped("the image names no readiness check"));
    }
    let guest = Guest::of(work, &request)?;
    let mut results = Results {
        work,
        found: of_operation(&work.operation),
        of: checks.len() + 1,
    };
    if !results.has(CLOUD_INIT) {
        let outcome = guest
            .ask(CLOUD_INIT, CLOUD_INIT_COMMAND, CLOUD_INIT_LIMIT, cloud_init)
            .await?;
        results.note(outcome)?;
    }
    let gpus = work.slots()?.len();
    for check in &checks {
        if results.passed()? && !results.has(check.name()) {
            let outcome = guest
                .ask(check.name(), check.command(), check.timeout(), |answer| {
                    judge(check, answer, gpus)
                })
                .await?;
            results.note(outcome)?;
        }
    }
    results.passed()?;
    let passed = format!("{} of {} passed", results.found.len(), results.of);
    Ok(Done::giving(passed, results.output()))
}

/// What is known so far, as the journal has it.
pub fn of_operation(row: &OperationRow) -> Vec<Outcome> {
    let found = &row.output(STEP)["results"];
    serde_json::from_value(found.clone()).unwrap_or_default()
}

struct Results<'a> {
    work: &'a Work,
    found: Vec<Outcome>,
    /// How many there will be.
    of: usize,
}

impl Results<'_> {
    fn has(&self, check: &str) -> bool {
        self.found.iter().any(|one| one.check == check)
    }

    fn output(&self) -> Value {
        json!({ "results": self.found })
    }

    fn note(&mut self, outcome: Outcome) -> HostResult<()> {
        self.found.push(outcome);
        let journal = &self.work.node.journal;
        journal.note(self.work.operation.id, STEP, &self.output())?;
        let percent = self.found.len() * 100 / self.of;
        let message = format!("{} of {} passed", self.found.len(), self.of);
        self.work
            .progress(u32::try_from(percent).unwrap_or(100), &message);
        Ok(())
    }

    /// Whether all so far passed; the first that did not is the end of the launch.
    fn passed(&self) -> HostResult<bool> {
        match self.found.iter().find(|one| !one.passed) {
            None => Ok(true),
            Some(failed) => Err(HostError::guest(
                ErrorReason::GuestNotReady,
                format!("check {}: {}", failed.check, failed.message),
            )),
        }
    }
}

struct Guest<'a> {
    work: &'a Work,
    server: std::net::SocketAddr,
    host_keys: Vec<russh::keys::PublicKey>,
    user: GuestUser,
}

impl<'a> Guest<'a> {
    fn of(work: &'a Work, request: &pb::ProvisionRequest) -> HostResult<Self> {
        let ip = parse_private_ip(&work.boot_slot()?.bindings.private_ip)?;
        Ok(Self {
            work,
            server: (ip, SSH_PORT).into(),
            host_keys: parse_pins(work.operation.output("seed")["host_key"].as_str())?,
            user: request.guest_user.parse()?,
        })
    }

    /// Runs a command until it passes, is known never to, or `limit` is over; within what is left of the budget.
    async fn ask(
        &self,
        check: &str,
        command: &str,
        limit: Duration,
        judge: impl Fn(&Answer) -> Verdict,
    ) -> HostResult<Outcome> {
        let (node, account) = (
            &self.work.node,
            Account {
                server: self.server,
                host_keys: &self.host_keys,
                user: &self.user,
            },
        );
        let limit = limit.min(self.work.remaining().saturating_sub(UNDO_MARGIN));
        let deadline = node.clock.now().plus(limit);
        let outcome = |passed, exit_status, message: String, output: &[u8]| Outcome {
            check: check.to_owned(),
            passed,
            exit_status,
            message,
            output_end: end_of(output),
            at_ms: now_ms(),
        };
        let mut last = None;
        loop {
            let left = deadline.remaining(&node.clock.now());
            if left.is_zero() {
                let late = format!("No result within {} seconds.", limit.as_secs());
                return Ok(last.unwrap_or_else(|| outcome(false, None, late, &[])));
            }
            match run(&*node.guests, account, &node.relay, command, left).await {
                Ok(answer) => {
                    let (status, output) = (answer.exit_status, &answer.output);
                    match judge(&answer) {
                        Verdict::Passed(message) => {
                            return Ok(outcome(true, status, message, output));
                        }
                        Verdict::Failed(message) => {
                            return Ok(outcome(false, status, message, output));
                        }
                        Verdict::NotYet(message) => {
                            last = Some(outcome(false, status, message, output));
                        }
                    }
                }
                Err(error @ LoginError::HostKey) => return Err(not_the_guest(account, &error)),
                // it restarts, or the command takes all of its time: what it said before says more
                Err(error) => {
                    let message = format!("No result: {error}.");
                    last = last.or_else(|| match error {
                        LoginError::TooSlow => None,
                        _ => Some(outcome(false, None, message, &[])),
                    });
                }
            }
            still_running(self.work, ErrorReason::GuestNotReady).await?;
            tokio::time::sleep(node.settings.polling.guest()).await;
        }
    }
}

fn too_long() -> Verdict {
    Verdict::Failed(format!("The output is longer than {MAX_OUTPUT} bytes."))
}

fn judge(check: &Check, answer: &Answer, gpus: usize) -> Verdict {
    if answer.cut {
        return too_long();
    }
    let output = plain(&String::from_utf8_lossy(&answer.output));
    match check.judge(answer.exit_status, &output, gpus) {
        Ok(message) => Verdict::Passed(message),
        Err(message) => Verdict::NotYet(message),
    }
}

fn cloud_init(answer: &Answer) -> Verdict {
    if answer.cut {
        return too_long();
    }
    let none = answer.output.trim_ascii() == NO_CLOUD_INIT.as_bytes();
    match answer.exit_status {
        Some(0) if none => Verdict::Passed("The guest has no cloud-init.".to_owned()),
        Some(0) => Verdict::Passed("cloud-init is done.".to_owned()),
        Some(2) => {
            let message = "cloud-init is done, with errors that it recovered from.";
            Verdict::Passed(message.to_owned())
        }
        Some(1) => Verdict::Failed("cloud-init failed.".to_owned()),
        _ => Verdict::NotYet("cloud-init gave no result.".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inc_24_only_a_result_of_cloud_init_ends_the_wait_for_it() {
        let of = |exit_status, output: &str, cut| {
            let answer = Answer {
                exit_status,
                output: output.into(),
                cut,
            };
            match cloud_init(&answer) {
                Verdict::Passed(message) => ("passed", message),
                Verdict::NotYet(message) => ("not yet", message),
                Verdict::Failed(message) => ("failed", message),
            }
        };
        assert_eq!(
            of(Some(0), "gpuaas-no-cloud-init\n", false),
            ("passed", "The guest has no cloud-init.".to_owned())
        );
        assert_eq!(
            of(Some(0), "status: done", false),
            ("passed", "cloud-init is done.".to_owned())
        );
        assert_eq!(of(Some(2), "status: done", false).0, "passed");
        assert_eq!(of(Some(1), "status: error", false).0, "failed");
        assert_eq!(of(None, "", false).0, "not yet");
        assert_eq!(of(Some(0), "status: done", true).0, "failed");
        assert!(CLOUD_INIT_COMMAND.contains(NO_CLOUD_INIT));
    }
}
