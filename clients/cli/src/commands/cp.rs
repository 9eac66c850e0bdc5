//! `cp`: runs the system's `scp` with the login of an allocation.
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use super::ssh::login;
use crate::failure::Failure;
use crate::session::Session;
use crate::ssh::{Via, identity_file};
use crate::{allocation, project};

#[derive(Debug, clap::Args)]
pub struct Flags {
    /// Sources and, last, the destination. Write paths on the allocation as ALLOCATION:PATH.
    #[arg(required = true, num_args = 2.., value_name = "PATH")]
    paths: Vec<OsString>,
    /// Copy folders recursively.
    #[arg(long, short)]
    recursive: bool,
    /// Private key [default: the key of the launch].
    #[arg(short = 'i', long, value_name = "FILE", value_parser = identity_file())]
    identity: Option<PathBuf>,
    /// Connect through the platform, or directly over the network.
    #[arg(long, value_enum, value_name = "WAY", default_value = "network")]
    via: Via,
    /// Project to search for the name or prefix [default: that of the context, else your only one].
    #[arg(long, value_name = "PROJECT")]
    project: Option<String>,
}

/// Runs it; on success it does not return.
///
/// # Errors
/// See [`Failure`]; or `scp` is not installed.
pub async fn run(session: &Session, flags: Flags) -> Result<(), Failure> {
    let name = only_allocation(&flags.paths)?;
    let project = project::chosen(&session.api, flags.project).await?;
    let among = allocation::Among::Project(project.as_deref());
    let id = allocation::resolve(&session.api, among, name).await?;
    let login = login(session, &id, flags.identity, flags.via).await?;
    let paths = flags.paths.iter().map(|path| match remote(path) {
        Some((_, file)) => joined(&login.copy_target(), file),
        // a local name with a colon is not a host to scp
        None if is_taken_for_a_host(path) => joined("./", path),
        None => path.clone(),
    });
    let error = Command::new("scp")
        .envs(session.environment.clone())
        .args(login.options())
        .args(flags.recursive.then_some("-r"))
        .arg("--")
        .args(paths)
        .exec();
    Err(Failure::Local(format!("cannot run scp: {error}")))
}

fn joined(before: &str, path: &OsStr) -> OsString {
    let mut text = OsString::from(before);
    text.push(path);
    text
}

fn is_taken_for_a_host(path: &OsStr) -> bool {
    let path = path.as_bytes();
    path.contains(&b':') && !matches!(path.first(), Some(b'/' | b'.'))
}

/// The allocation and the file of a path on it, which need not be text. A path with a slash before the colon is local.
fn remote(path: &OsStr) -> Option<(&str, &OsStr)> {
    let mut parts = path.as_bytes().splitn(2, |byte| *byte == b':');
    let name = parts.next().filter(|name| !name.contains(&b'/'))?;
    let file = OsStr::from_bytes(parts.next()?);
    let name = std::str::from_utf8(name).ok()?;
    (!name.is_empty()).then_some((name, file))
}

/// The allocation that a copy is to or from.
fn only_allocation(paths: &[OsString]) -> Result<&str, Failure> {
    let (to, from) = paths.split_last().expect("two at least");
    let sources: Vec<_> = from.iter().map(|path| remote(path)).collect();
    let wrong = |text: &str| Err(Failure::Usage(text.to_owned()));
    match (remote(to), sources.iter().flatten().count()) {
        (Some((name, _)), 0) => Ok(name),
        (Some(_), _) => wrong("a copy is to or from an allocation, not between two"),
        (None, 0) => wrong("name the allocation as ALLOCATION:PATH, for example web:results.csv"),
        (None, count) if count < sources.len() => {
            wrong("files of an allocation cannot be copied together with local ones")
        }
        (None, _) => {
            let (first, _) = sources[0].expect("all are remote");
            if sources.iter().flatten().any(|(name, _)| *name != first) {
                return wrong("all files must be of one allocation");
            }
            Ok(first)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_side_is_one_allocation() {
        let judged = |paths: &[&str]| {
            let paths: Vec<OsString> = paths.iter().map(OsString::from).collect();
            only_allocation(&paths)
                .map(str::to_owned)
                .map_err(|e| e.exit_code())
        };
        assert_eq!(judged(&["a.txt", "web:"]), Ok("web".to_owned()));
        assert_eq!(judged(&["web:a", "web:b", "."]), Ok("web".to_owned()));
        assert_eq!(judged(&["./x:y", "web:z"]), Ok("web".to_owned()));
        for wrong in [
            &["a", "b"][..],
            &["web:a", "db:b"],
            &["web:a", "b", "c"],
            &["web:a", "db:b", "."],
        ] {
            assert_eq!(judged(wrong), Err(2), "{wrong:?}");
        }
    }
}
