//! The system's `ssh`, with pinned host keys and one identity.
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::builder::{PathBufValueParser, TypedValueParser};
use gpuaas_proto::gpuaas::allocation::v1::{Access, Allocation, AllocationState};

use crate::allocation::is_off;
use crate::failure::Failure;
use crate::output::word;
use crate::state;

/// The way to the SSH server of a VM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Via {
    /// Through the API, like a terminal; needs no way to the VM's network.
    Platform,
    /// Directly, over the network.
    Network,
}

/// An active guest answers at once; one that shut down meanwhile never does.
const CONNECT_TIMEOUT: &str = "ConnectTimeout=15";
/// Longer than the platform waits for the host of a VM: it is the one to say why there is no tunnel.
const TUNNEL_TIMEOUT: &str = "ConnectTimeout=75";

/// Why a key cannot be used where it is.
const EXPANDED: &str = "ssh expands % and ${…} in the path of a key, and would look for another file; copy or link the key to a path without them";

/// Takes the file of a private key that can be named to `ssh`.
pub fn identity_file() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|file| match is_expanded(&file) {
        true => Err(EXPANDED.to_owned()),
        false => Ok(file),
    })
}

/// Refuses a private key that cannot be named to `ssh`, wherever its path comes from.
///
/// # Errors
/// It is such a key.
pub fn check_identity(file: &Path) -> Result<(), Failure> {
    if !is_expanded(file) {
        return Ok(());
    }
    let file = file.display();
    Err(Failure::Usage(format!(
        "the key {file} cannot be used: {EXPANDED}, and name it with -i FILE"
    )))
}

/// Whether `ssh` takes a part of the path of a key for a token or an environment variable. Tokens could be escaped, but then
/// it warns that the file is missing; variables cannot.
fn is_expanded(file: &Path) -> bool {
    let path = file.as_os_str().as_encoded_bytes();
    path.contains(&b'%') || path.windows(2).any(|two| two == b"${")
}

/// How to reach one allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Login {
    id: String,
    user: String,
    host: String,
    port: u32,
    known_hosts: PathBuf,
    identity: Option<PathBuf>,
    via: Via,
}

impl Login {
    /// From an active allocation. Its host keys are pinned in a file of their own; none is ever learned from who answers (P11).
    ///
    /// # Errors
    /// The allocation has no address or no host keys on record, its VM is off, or the pin cannot be written.
    pub fn new(
        allocation: &Allocation,
        identity: Option<PathBuf>,
        via: Via,
    ) -> Result<Self, Failure> {
        let status = allocation.status.clone().unwrap_or_default();
        let ends = [AllocationState::Releasing, AllocationState::Released];
        let Some(access) = status
            .access
            .as_ref()
            .filter(|a| !a.guest_user.is_empty())
            // its address may be another tenant's by now
            .filter(|_| !ends.contains(&status.state()))
        else {
            let state = word(status.state());
            return Err(Failure::Usage(format!(
                "allocation {} is {state}: it has no login",
                allocation.id
            )));
        };
        if is_off(&status) {
            let (id, power) = (&allocation.id, word(status.power()));
            return Err(Failure::Usage(format!(
                "allocation {id} is {power}; start it to log in: gpuaas start {id}"
            )));
        }
        let (host, port) = address(access);
        if access.ssh_host_keys.is_empty() {
            let user = &access.guest_user;
            return Err(Failure::Usage(format!(
                "the host keys of allocation {} are not on record, so another machine could answer for it; once you know its key, log in by yourself: ssh -p {port} {user}@{host}",
                allocation.id
            )));
        }
        let lines = known_hosts_lines(&host, port, &access.ssh_host_keys);
        let known_hosts = state::pin_host_keys(&allocation.id, &lines).map_err(|error| {
            Failure::Local(format!("cannot write the known host keys: {error}"))
        })?;
        let identity = identity.or_else(|| state::identity(&allocation.id));
        Ok(Self {
            user: access.guest_user.clone(),
            host,
            port,
            known_hosts,
            identity,
            via,
            id: allocation.id.clone(),
        })
    }

    /// The arguments of `ssh`.
    pub fn arguments(&self, command: &[OsString]) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = vec!["-p".into(), self.port.to_string().into()];
        arguments.extend(self.secured());
        arguments.push(self.target().into());
        if !command.is_empty() {
            arguments.push("--".into());
            arguments.extend_from_slice(command);
        }
        arguments
    }

    /// The options that `ssh` and `scp` both take, with the port.
    pub fn options(&self) -> Vec<OsString> {
        let mut options = vec!["-o".into(), format!("Port={}", self.port).into()];
        options.extend(self.secured());
        options
    }

    /// User and host.
    pub fn target(&self) -> String {
        format!("{}@{}", self.user, self.host)
    }

    /// User and host before a path of scp, to which an IPv6 address is one only in brackets.
    pub fn copy_target(&self) -> String {
        match self.host.contains(':') {
            true => format!("{}@[{}]:", self.user, self.host),
            false => format!("{}:", self.target()),
        }
    }

    /// The options that pin the host keys and offer one identity.
    fn secured(&self) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = Vec::new();
        let mut option = |text: OsString| arguments.extend(["-o".into(), text]);
        let timeout = match self.via {
            Via::Platform => TUNNEL_TIMEOUT,
            Via::Network => CONNECT_TIMEOUT,
        };
        option(timeout.into());
        option(known_hosts_file(&self.known_hosts));
        option("GlobalKnownHostsFile=/dev/null".into());
        option("StrictHostKeyChecking=yes".into());
        if self.via == Via::Platform {
            option(proxy_command(&self.id));
        }
        if let Some(identity) = &self.identity {
            option("IdentitiesOnly=yes".into());
            arguments.extend(["-i".into(), identity.clone().into()]);
        }
        arguments
    }

    /// The command as a line that works when pasted into a shell.
    pub fn command_line(&self) -> String {
        let quoted = self
            .arguments(&[])
            .iter()
            .map(|a| quote(&a.to_string_lossy()))
            .collect::<Vec<_>>();
        format!("ssh {}", quoted.join(" "))
    }
}

/// The option that has ssh speak through this program.
fn proxy_command(id: &str) -> OsString {
    let program = std::env::current_exe().unwrap_or_else(|_| "gpuaas".into());
    // ssh replaces %, and hands the rest to a shell
    let program = quote(&program.to_string_lossy()).replace('%', "%%");
    format!("ProxyCommand={program} tunnel {id}").into()
}

/// The option that names the file of the pinned keys. ssh splits its value at spaces, takes quotes out of it, and replaces %.
fn known_hosts_file(path: &Path) -> OsString {
    let mut text = OsString::from("UserKnownHostsFile=");
    match path.to_str() {
        Some(path) if path.contains([' ', '\t', '%', '"', '\'', '\\']) => {
            let escaped = path
                .replace('\\', r"\\")
                .replace('"', r#"\""#)
                .replace('%', "%%");
            text.push(format!("\"{escaped}\""));
        }
        _ => text.push(path),
    }
    text
}

/// The address that works from where the API is used, else the one inside the node's network.
fn address(access: &Access) -> (String, u32) {
    let port = |given: u32| if given == 0 { 22 } else { given };
    if access.ssh_host.is_empty() {
        (access.private_ip.clone(), port(access.ssh_port))
    } else {
        (access.ssh_host.clone(), port(access.ssh_host_port))
    }
}

fn known_hosts_lines(host: &str, port: u32, keys: &[String]) -> String {
    let name = if port == 22 {
        host.to_owned()
    } else {
        format!("[{host}]:{port}")
    };
    keys.iter()
        .map(|key| format!("{name} {}\n", key.trim()))
        .collect()
}

fn quote(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:@,+".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login() -> Login {
        Login {
            id: "0193-id".to_owned(),
            via: Via::Network,
            user: "u_1".to_owned(),
            host: "127.0.0.1".to_owned(),
            port: 2201,
            known_hosts: PathBuf::from("/k n/x"),
            identity: Some(PathBuf::from("/id")),
        }
    }

    #[test]
    fn host_keys_are_pinned_and_one_identity_is_offered() {
        assert_eq!(
            login().command_line(),
            "ssh -p 2201 -o ConnectTimeout=15 -o 'UserKnownHostsFile=\"/k n/x\"' -o GlobalKnownHostsFile=/dev/null -o StrictHostKeyChecking=yes -o IdentitiesOnly=yes -i /id u_1@127.0.0.1"
        );
    }

    #[test]
    fn scp_tells_an_ipv6_address_from_a_path() {
        assert_eq!(login().copy_target(), "u_1@127.0.0.1:");
        let login = Login {
            host: "2001:db8::5".to_owned(),
            ..login()
        };
        assert_eq!(login.copy_target(), "u_1@[2001:db8::5]:");
        assert_eq!(login.target(), "u_1@2001:db8::5");
    }

    #[test]
    fn ssh_takes_a_path_as_one_whatever_is_in_it() {
        for (path, option) in [
            ("/k/x", "/k/x"),
            ("/k n/x", r#""/k n/x""#),
            ("/100%/x", r#""/100%%/x""#),
            ("/o'neill/x", r#""/o'neill/x""#),
            (r#"/a"\b"#, r#""/a\"\\b""#),
        ] {
            let given = known_hosts_file(Path::new(path));
            assert_eq!(
                given,
                OsString::from(format!("UserKnownHostsFile={option}"))
            );
        }
    }

    #[test]
    fn through_the_platform_the_same_keys_are_pinned() {
        let login = Login {
            via: Via::Platform,
            ..login()
        };
        let line = login.command_line();
        assert!(line.contains("StrictHostKeyChecking=yes"), "{line}");
        // the platform says later than a network why there is no connection
        assert!(line.contains("ConnectTimeout=75"), "{line}");
        let proxy = login.options().into_iter().find_map(|option| {
            let option = option.into_string().ok()?;
            option.strip_prefix("ProxyCommand=").map(str::to_owned)
        });
        let proxy = proxy.expect("a proxy");
        assert!(proxy.ends_with(" tunnel 0193-id"), "{proxy}");
    }

    #[test]
    fn a_command_follows_a_separator() {
        let arguments = login().arguments(&["ls".into(), "-l".into()]);
        assert_eq!(
            arguments[arguments.len() - 4..],
            ["u_1@127.0.0.1", "--", "ls", "-l"].map(OsString::from)
        );
    }

    #[test]
    fn known_hosts_name_the_port_unless_it_is_the_usual_one() {
        let keys = ["ssh-ed25519 AAAA\n".to_owned()];
        assert_eq!(known_hosts_lines("h", 22, &keys), "h ssh-ed25519 AAAA\n");
        assert_eq!(
            known_hosts_lines("h", 2201, &keys),
            "[h]:2201 ssh-ed25519 AAAA\n"
        );
    }
}
