//! `ssh`: become the system's `ssh`, logged in to an allocation.
use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use super::Session;
use crate::api::parse;
use crate::failure::Failure;
use crate::model::Allocation;
use crate::resolve::AllocationRef;
use crate::ssh::Login;

#[derive(Debug, clap::Args)]
pub struct Flags {
    #[command(flatten)]
    of: AllocationRef,
    /// Private key to log in with [default: the one it was launched with].
    #[arg(short = 'i', long, value_name = "FILE")]
    identity: Option<PathBuf>,
    /// Option of the system's ssh, which wins over what this command says; may be given several times.
    #[arg(short = 'o', long = "ssh-option", value_name = "OPTION")]
    options: Vec<OsString>,
    /// Command to run there, after "--".
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Runs it; on success it does not return.
///
/// # Errors
/// See [`Failure`]; or `ssh` is not installed.
pub async fn run(session: &Session, flags: Flags) -> Result<(), Failure> {
    let id = flags.of.id(&session.api).await?;
    let allocation: Allocation = parse(&session.api.get(&["allocations", &id], &[]).await?)?;
    let login = Login::new(&allocation, flags.identity)?;
    if !login.is_pinned() {
        note!(
            "The platform does not know this guest's host keys; ssh will trust the first one it sees."
        );
    }
    // ssh takes the first value that it is given
    let options = flags.options.into_iter().flat_map(|o| ["-o".into(), o]);
    let error = Command::new("ssh")
        .args(options)
        .args(login.arguments(&flags.command))
        .exec();
    Err(Failure::Local(format!("cannot run ssh: {error}")))
}
