//! One module per command, or per family of small ones.
pub mod activity;
pub mod admin;
pub mod api;
pub mod api_keys;
pub mod catalog;
pub mod certificate;
pub mod completion;
pub mod context;
pub mod cp;
mod event_types;
pub mod explain;
pub mod grants;
pub mod guardrails;
pub mod health_events;
pub mod ingress;
pub mod launch;
pub mod list;
pub mod login;
pub mod logs;
pub mod members;
pub mod metrics;
pub mod network;
pub mod nodes;
pub mod organisations;
pub mod placement;
pub mod port_forward;
pub mod power;
pub mod projects;
pub mod quotas;
pub mod release;
pub mod rename;
pub mod reservations;
mod scim;
pub mod select;
pub mod service_accounts;
pub mod show;
pub mod ssh;
pub mod ssh_keys;
pub mod terminal;
pub mod terminal_sessions;
pub mod tunnel;
pub mod update;
pub mod usage;
mod user_data;
pub mod wait;
pub mod watch;
pub mod webhooks;
mod whose;

use std::ffi::OsString;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::api::{Api, IdempotencyKey};
use crate::failure::Failure;
use crate::formats::Format;
use crate::output::print_json;

/// The context of every command.
pub struct Session {
    /// The API.
    pub api: Api,
    /// Output format.
    pub format: Format,
    /// Idempotency key of the change that this command makes.
    pub key: IdempotencyKey,
    /// Private key for logins whose own is unknown.
    pub identity: Option<PathBuf>,
    /// What a program that calls this one again needs to call the same API as the same caller.
    pub environment: Vec<(&'static str, OsString)>,
}

impl Session {
    /// Whether the output is for programs.
    pub fn json(&self) -> bool {
        self.format.is_data()
    }

    /// Whether the answer is printed with all that it has, also what is shown only once. The names alone have none of that:
    /// what is to be kept is then printed itself.
    pub fn whole(&self) -> bool {
        self.json() && self.format != Format::Name
    }
}

/// Fails for an answer without what is shown once: an earlier attempt had it, whose answer got lost, or that was another command
/// with the same idempotency key. `instead` is the command that helps.
///
/// # Errors
/// The secret is empty.
fn shown_once(secret: &str, made: &str, instead: impl Fn() -> String) -> Result<(), Failure> {
    if !secret.is_empty() {
        return Ok(());
    }
    Err(Failure::Local(format!(
        "{made} was made by an earlier attempt at this command, and its secret is not shown again; get another one: {}",
        instead()
    )))
}

/// Who runs the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// A member of a project.
    Member,
    /// An administrator.
    Operator,
}

/// Prints the result as a sentence, or the answer for programs.
pub fn done(session: &Session, answer: &Value, sentence: &str) {
    if session.json() {
        print_json(answer);
    } else {
        say!("{sentence}");
    }
}

/// Makes the change of each, which has the name that was typed, until one fails, and prints the results: a sentence each, or the
/// answers for programs as a list of this name; that of a single one as it is. All that were typed are in it, also those that
/// need no change any more: a repeated command gives each the idempotency key that it had.
///
/// # Errors
/// That of the first which failed, and of several which of them are done.
pub async fn each<T>(
    session: &Session,
    list: &str,
    of: Vec<(T, String)>,
    change: impl AsyncFn(T, &str, &IdempotencyKey) -> Result<(Value, String), Failure>,
) -> Result<(), Failure> {
    let is_single = of.len() == 1;
    let names: Vec<String> = of.iter().map(|(_, name)| name.clone()).collect();
    let mut answers = Vec::new();
    let mut outcome = Ok(());
    for (at, (one, name)) in of.into_iter().enumerate() {
        let key = match is_single {
            true => session.key.clone(),
            false => session.key.numbered(at + 1),
        };
        match change(one, &name, &key).await {
            Ok((answer, _)) if session.json() => answers.push(answer),
            Ok((_, sentence)) => say!("{sentence}"),
            Err(failure) if is_single => outcome = Err(failure),
            Err(cause) => {
                let (done, left) = names.split_at(at);
                outcome = Err(Failure::Partly {
                    done: done.to_vec(),
                    left: left.to_vec(),
                    cause: Box::new(cause),
                });
                break;
            }
        }
    }
    match answers.as_slice() {
        [] => {}
        [answer] if is_single => print_json(answer),
        answers => print_json(&json!({ list: answers })),
    }
    outcome
}
