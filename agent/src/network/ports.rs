//! The ports of the switch: those of guests, and those that nobody may cut off from the network.
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use serde::Deserialize;
use serde_json::Value;

use super::probe;
use crate::error::{HostError, HostResult};
use crate::ids::PORT_PREFIX;

/// What `ovs-vsctl list Interface` is asked for.
pub const COLUMNS: &str = "--columns=name,ofport,type";
/// What to do about a port that is not a guest's.
pub const REMEDIATION: &str = "Give the VMs a bridge of their own: move the port to another bridge, or point \
    agent.network.bridge at one without it. A VM of an earlier agent: stop and start it, after all others of its kind \
    are stopped.";

/// An interface of the switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    name: String,
    /// None while it is not up.
    number: Option<u32>,
    /// Of the host itself: it has no other end.
    is_internal: bool,
}

#[derive(Deserialize)]
struct Rows {
    data: Vec<(String, Value, String)>,
}

/// Reads what the switch lists with [`COLUMNS`].
pub fn parse(json: &str) -> HostResult<Vec<Interface>> {
    let rows: Rows = serde_json::from_str(json).map_err(|error| {
        HostError::host(
            ErrorReason::HostNotReady,
            format!("ovs-vsctl lists its interfaces in an unknown way: {error}"),
        )
    })?;
    let interface = |(name, number, kind): (String, Value, String)| Interface {
        name,
        number: number
            .as_u64()
            .and_then(|number| u32::try_from(number).ok()),
        is_internal: kind == "internal",
    };
    Ok(rows.data.into_iter().map(interface).collect())
}

/// The number of a guest's port; a port that is not up has none.
pub fn number_of(interfaces: &[Interface], port: &str) -> Option<u32> {
    interfaces
        .iter()
        .find(|one| one.name == port)
        .and_then(|one| one.number)
}

/// Whether a number is another port's than this one: switches give numbers in a circle.
pub fn is_anothers(interfaces: &[Interface], port: &str, number: u32) -> bool {
    interfaces
        .iter()
        .any(|one| one.number == Some(number) && one.name != port)
}

/// Which of these ports, one a line, are neither a guest's nor internal: an uplink, a bond, a patch to another bridge,
/// another's VM. The rules pass nothing of theirs, so a host that is reached through one would be lost.
pub fn foreign(ports: &str, interfaces: &[Interface]) -> Vec<String> {
    let is_internal = |port: &str| {
        interfaces
            .iter()
            .any(|one| one.name == port && one.is_internal)
    };
    ports
        .lines()
        .map(str::trim)
        .filter(|port| !port.is_empty() && !port.starts_with(PORT_PREFIX) && !is_internal(port))
        .map(str::to_owned)
        .collect()
}

/// Which of these ports, one a line, are guests'.
pub fn of_guests(ports: &str) -> Vec<String> {
    let named = ports.lines().map(str::trim);
    let of_guests = named.filter(|port| port.starts_with(PORT_PREFIX) && *port != probe::PORT);
    of_guests.map(str::to_owned).collect()
}

/// Refuses rules for a bridge with such ports.
pub fn refuse(bridge: &str, foreign: &[String]) -> HostResult<()> {
    if foreign.is_empty() {
        return Ok(());
    }
    Err(HostError::host(
        ErrorReason::HostNotReady,
        format!(
            "no rules are put on the bridge {bridge}, since they would cut off a port that is not a VM's: {}",
            foreign.join(", ")
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d_82_ports_of_guests_are_told_from_the_hosts_own_and_the_probes() {
        let listed = format!(
            "gs0123456789aa\n eth1\nvnet0\n{}\n\n gs0123456789bb \n",
            probe::PORT
        );
        assert_eq!(of_guests(&listed), ["gs0123456789aa", "gs0123456789bb"]);
        assert!(of_guests("").is_empty());
    }

    const LISTED: &str = r#"{"data":[["ovsbr0",65534,"internal"],["gs0123456789aa",3,""],
        ["gs0123456789bb",["set",[]],""],["gs0123456789cc",-1,""],["eth1",1,""],["eth2",2,""],["uplink",4,""],
        ["mgmt0",5,"internal"],["to-other",6,"patch"],["vnet0",7,""]],"headings":["name","ofport","type"]}"#;

    #[test]
    fn a_port_that_is_not_up_has_no_number() {
        let all = parse(LISTED).unwrap();
        assert_eq!(number_of(&all, "gs0123456789aa"), Some(3));
        for port in ["gs0123456789bb", "gs0123456789cc", "gs0123456789dd"] {
            assert_eq!(number_of(&all, port), None, "{port}");
        }
        assert!(parse("nonsense").is_err());
    }

    #[test]
    fn p11_a_guest_that_got_the_number_of_the_checks_does_not_get_their_rules() {
        let all = parse(LISTED).unwrap();
        assert!(is_anothers(&all, "gsprobe", 3));
        assert!(!is_anothers(&all, "gs0123456789aa", 3));
        assert!(!is_anothers(&all, "gsprobe", 65000));
    }

    #[test]
    fn p11_a_port_of_nobody_we_know_is_foreign() {
        let all = parse(LISTED).unwrap();
        let ports = "bond0\ngs0123456789aa\ngs0123456789bb\nmgmt0\nto-other\nuplink\nvnet0\n";
        assert_eq!(
            foreign(ports, &all),
            ["bond0", "to-other", "uplink", "vnet0"]
        );
        assert!(foreign("gs0123456789aa\nmgmt0\n", &all).is_empty());
        assert!(foreign("", &all).is_empty());
    }
}
