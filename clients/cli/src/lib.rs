//! `gpuaas`: launch, use and release GPU capacity from a terminal.
//!
//! It talks to the JSON API and to nothing else; what it prints with `--output json` is what the API
//! answered. Answers go to standard output, progress and errors to standard error.
//!
//! Exit codes: 0 success, 1 anything else, 2 wrong usage or a malformed value, 3 not found, 4 refused,
//! 5 the API or the identity provider is unreachable or busy, 141 the output was closed.
// a closed pipe makes the standard macros panic
#![deny(clippy::print_stdout, clippy::print_stderr)]

#[macro_use]
mod output;

mod advice;
mod aliases;
mod allocation;
mod api;
mod api_failure;
mod args;
pub mod audit_chain;
mod commands;
mod failure;
mod fit;
mod formats;
mod global;
mod http;
mod keys;
mod node;
mod organisation;
mod owners;
#[cfg(test)]
mod pages_tests;
mod pause;
mod profile;
mod progress;
mod project;
mod resolve;
mod run;
mod session;
mod sign_in;
mod socket;
mod ssh;
mod state;
mod suggest;
mod transfer;
mod tty;
mod watch;

use std::process::ExitCode;

pub use aliases::command;

/// Runs the command line of this process.
pub fn run() -> ExitCode {
    let cli = match aliases::parse() {
        Ok(cli) => cli,
        Err(error) => {
            // an argument need not be text
            let arguments = std::env::args_os().skip(1);
            let arguments = arguments.map(|one| one.to_string_lossy().into_owned());
            suggest::better(error, aliases::command(), arguments).exit()
        }
    };
    let format = cli.global.format();
    formats::choose(format, cli.global.quiet);
    let is_admin = profile::is_admin(&cli.global, cli.command.is_admin());
    let outcome = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| failure::Failure::Local(format!("cannot start: {error}")))
        .and_then(|runtime| runtime.block_on(run::run(cli)));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if format.has_json_errors() {
                complain!("{}", failure.to_json());
            } else {
                complain!("{}", failure.to_text(is_admin).trim_end());
            }
            ExitCode::from(failure.exit_code())
        }
    }
}
