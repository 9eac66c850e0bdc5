//! `port-forward`: a port of this machine that leads to one of an allocation, through the system's `ssh`.
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use super::ssh::login;
use crate::allocation::AllocationRef;
use crate::failure::Failure;
use crate::session::Session;
use crate::ssh::{Via, identity_file};

#[derive(Debug, clap::Args)]
pub struct Flags {
    #[command(flatten)]
    of: AllocationRef,
    /// Port of the VM, or LOCAL:REMOTE; repeatable.
    #[arg(required = true, value_name = "PORT", value_parser = parse_ports)]
    ports: Vec<(u16, u16)>,
    /// Private key [default: the key of the launch].
    #[arg(short = 'i', long, value_name = "FILE", value_parser = identity_file())]
    identity: Option<PathBuf>,
    /// Connect through the platform, or directly over the network.
    #[arg(long, value_enum, value_name = "WAY", default_value = "platform")]
    via: Via,
}

/// The local and the remote port.
fn parse_ports(text: &str) -> Result<(u16, u16), String> {
    let (local, remote) = text.split_once(':').unwrap_or((text, text));
    let port = |part: &str| part.parse::<u16>().ok().filter(|port| *port > 0);
    port(local)
        .zip(port(remote))
        .ok_or_else(|| "must be PORT or LOCAL:REMOTE, each 1 to 65535".to_owned())
}

/// Runs it; on success it does not return.
///
/// # Errors
/// See [`Failure`]; or `ssh` is not installed.
pub async fn run(session: &Session, flags: Flags) -> Result<(), Failure> {
    let id = flags.of.id(&session.api).await?;
    let login = login(session, &id, flags.identity, flags.via).await?;
    let mut forwards = Vec::new();
    for (local, remote) in flags.ports {
        note!("http://127.0.0.1:{local} leads to port {remote}. Press Ctrl-C to end.");
        // on this machine only: another one could reach the port otherwise
        forwards.extend([
            "-L".to_owned(),
            format!("127.0.0.1:{local}:127.0.0.1:{remote}"),
        ]);
    }
    let error = Command::new("ssh")
        .envs(session.environment.clone())
        .args(["-N", "-o", "ExitOnForwardFailure=yes"])
        .args(forwards)
        .args(login.arguments(&[]))
        .exec();
    Err(Failure::Local(format!("cannot run ssh: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_one_number_or_two() {
        assert_eq!(parse_ports("8888"), Ok((8888, 8888)));
        assert_eq!(parse_ports("80:8888"), Ok((80, 8888)));
        for wrong in ["0", "x", "1:", "70000", "1:2:3"] {
            assert!(parse_ports(wrong).is_err(), "{wrong}");
        }
    }
}
