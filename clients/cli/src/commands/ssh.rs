//! `ssh`: runs the system's `ssh`, logged in to an allocation.
use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use gpuaas_proto::gpuaas::allocation::v1::GetAllocationRequest;

use crate::allocation::{AllocationRef, name_of};
use crate::failure::Failure;
use crate::session::Session;
use crate::ssh::{Login, Via, check_identity, identity_file};
use crate::state;

#[derive(Debug, clap::Args)]
pub struct Flags {
    #[command(flatten)]
    of: AllocationRef,
    /// Private key [default: the key of the launch].
    #[arg(short = 'i', long, value_name = "FILE", value_parser = identity_file())]
    identity: Option<PathBuf>,
    /// Connect through the platform, or directly over the network.
    #[arg(long, value_enum, value_name = "WAY", default_value = "network")]
    via: Via,
    /// Option for ssh; overrides the options of this command; repeatable.
    #[arg(short = 'o', long = "ssh-option", value_name = "OPTION")]
    options: Vec<OsString>,
    /// Command to run, after "--".
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Runs it; on success it does not return.
///
/// # Errors
/// See [`Failure`]; or `ssh` is not installed.
pub async fn run(session: &Session, flags: Flags) -> Result<(), Failure> {
    let id = flags.of.id(&session.api).await?;
    let login = login(session, &id, flags.identity, flags.via).await?;
    // ssh takes the first value that it is given
    let options = flags.options.into_iter().flat_map(|o| ["-o".into(), o]);
    let error = Command::new("ssh")
        .envs(session.environment.clone())
        .args(options)
        .args(login.arguments(&flags.command))
        .exec();
    Err(Failure::Local(format!("cannot run ssh: {error}")))
}

/// How to log in to an allocation; hints say what is not known.
///
/// # Errors
/// See [`Failure`]; or it has no login now, or ssh cannot be given the key.
pub async fn login(
    session: &Session,
    id: &str,
    identity: Option<PathBuf>,
    via: Via,
) -> Result<Login, Failure> {
    let identity = identity
        .or_else(|| state::identity(id))
        .or_else(|| session.identity.clone());
    if let Some(file) = &identity {
        check_identity(file)?;
    }
    let of_one = GetAllocationRequest {
        allocation_id: id.to_owned(),
    };
    let allocation = session.api.call(&of_one).await?.message;
    let is_known = identity.is_some();
    let login = Login::new(&allocation, identity, via)?;
    if !is_known {
        note!(
            "The key of this launch is not known on this machine; ssh offers your own keys. If it is refused: gpuaas ssh {name} -i FILE, or without a key: gpuaas terminal {name}",
            name = name_of(&allocation)
        );
    }
    Ok(login)
}
