//! The lab host's network namespace and the link that joins it to the machine.

use std::net::IpAddr;
use std::path::Path;

use crate::error::{Error, Result};
use crate::process::run;

/// The host's end of the link.
const HOST_END: &str = "up0";
/// The agent's default for `network.outside`: it proves a way out by packets to it, which are dropped before they leave.
const OUTSIDE: &str = "192.175.48.1";

/// Names of one host's namespace and link.
#[derive(Debug, Clone)]
pub struct Names {
    /// Network namespace.
    pub namespace: String,
    /// The machine's end of the link.
    pub machine: String,
}

/// Runs `ip` with arguments that have no blanks.
pub fn ip(arguments: &str) -> Result<String> {
    run("ip", &arguments.split(' ').collect::<Vec<_>>())
}

/// Makes namespace and link unless they are there. `marker` says afterwards that they belong to this stack.
pub fn up(names: &Names, machine: IpAddr, host: IpAddr, marker: &Path) -> Result<()> {
    if marker.exists() && exists(names, machine) {
        return set_link(names, true);
    }
    if !marker.exists()
        && ip(&format!("netns pids {}", names.namespace)).is_ok_and(|pids| !pids.is_empty())
    {
        return Err(Error::other(format!(
            "another checkout's stack of the same number runs on this machine (network namespace {}); end it first",
            names.namespace
        )));
    }
    let taken = ip(&format!("-o addr show to {machine}/24"))?;
    if let Some(line) = taken
        .lines()
        .find(|line| !line.contains(&format!(" {} ", names.machine)))
    {
        return Err(Error::other(format!(
            "the lab's link needs the addresses {machine}/24, which this machine uses already: {line}"
        )));
    }
    let owned = format!("{} {}\n", names.namespace, names.machine);
    std::fs::write(marker, owned).map_err(Error::file("write", marker))?;
    // what an interrupted start left is in an unknown state
    remove(names);
    let Names {
        namespace,
        machine: end,
    } = names;
    ip(&format!("netns add {namespace}"))?;
    ip(&format!(
        "link add {end} type veth peer name {HOST_END} netns {namespace}"
    ))?;
    ip(&format!("-n {namespace} addr add {host}/24 dev {HOST_END}"))?;
    set_link(names, true)?;
    ip(&format!("-n {namespace} link set lo up"))?;
    ip(&format!("link set {end} up"))?;
    // last: its presence says that all of the above was done
    ip(&format!("addr add {machine}/24 dev {end}"))?;
    Ok(())
}

/// Takes the host's end of the link up or down; addresses stay, routes go with it and come back. The machine's end stays
/// up: its packets to the host find nobody, and no way out of the machine.
pub fn set_link(names: &Names, up: bool) -> Result<()> {
    let state = if up { "up" } else { "down" };
    let namespace = &names.namespace;
    ip(&format!("-n {namespace} link set {HOST_END} {state}"))?;
    if up {
        ip(&format!(
            "-n {namespace} route replace {OUTSIDE} dev {HOST_END}"
        ))?;
    }
    Ok(())
}

/// Removes the namespace and link that a marker names. Absent is fine: they belong to no stack of this folder.
pub fn down(marker: &Path) {
    let named = std::fs::read_to_string(marker).unwrap_or_default();
    let mut named = named.split_whitespace().map(str::to_owned);
    if let (Some(namespace), Some(machine)) = (named.next(), named.next()) {
        remove(&Names { namespace, machine });
        let _checked_again_by_the_next_start = std::fs::remove_file(marker);
    }
}

fn remove(names: &Names) {
    let _absent_is_fine = ip(&format!("link del {}", names.machine));
    if Path::new("/run/netns").join(&names.namespace).exists() {
        let _reported_by_the_next_start = ip(&format!("netns del {}", names.namespace));
    }
}

fn exists(names: &Names, machine: IpAddr) -> bool {
    Path::new("/run/netns").join(&names.namespace).exists()
        && ip(&format!("-o addr show dev {}", names.machine))
            .is_ok_and(|addresses| addresses.contains(&format!(" {machine}/24 ")))
}
