//! The network of the fabric (A-145, I-223): the netplan file of the addresses that the settings give to the interfaces of IP
//! over InfiniBand. A site whose own bootstrap renders the file names no interface, and nothing is changed.
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::path::Path;

use super::network::link;
use super::{Machine, Plan};
use crate::error::HostResult;
use crate::ip::Ipv4Net;
use crate::settings::{Fabric, FabricKind};
use crate::topology::network::parse_addresses;

/// What interfaces of IP over InfiniBand are called.
const INTERFACES: &str = "ibp";
/// The kernel's longest name of an interface.
const LONGEST_NAME: usize = 15;
/// netplan warns about a file that others may read.
const MODE: u32 = 0o600;

/// How the file begins.
const HEADER: &str = "# Written by gpuaas-node-agent deploy-bootstrap";
/// What `ip` shows of an interface that is up and not connected.
const NO_CARRIER: &str = "\"NO-CARRIER\"";
/// Kinds of interfaces of netplan that no fabric port is of.
const OTHER_KINDS: [&str; 8] = [
    "bonds",
    "bridges",
    "dummy-devices",
    "modems",
    "tunnels",
    "vlans",
    "vrfs",
    "wifis",
];

/// An address of this host on the fabric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Address {
    address: Ipv4Addr,
    length: u32,
}

/// Plans it. `stamp` names the backup of a file that says something else.
///
/// # Errors
/// Something that must be known cannot be observed.
pub async fn plan(
    machine: &Machine,
    plan: &mut Plan,
    fabric: &Fabric,
    stamp: &str,
) -> HostResult<()> {
    let file = &fabric.netplan_file;
    if fabric.kind == FabricKind::None {
        plan.note("agent.fabric.kind is none: this site has no fabric");
        return Ok(());
    }
    if fabric.interfaces.is_empty() {
        plan.note(format!(
            "agent.fabric.interfaces names none: the site's bootstrap renders {}",
            file.display()
        ));
        return Ok(());
    }
    let (subnet, interfaces) = match checked(fabric) {
        Ok(checked) => checked,
        Err(refusals) => {
            for why in refusals {
                plan.refuse(why);
            }
            return Ok(());
        }
    };
    let there = machine.root.read(file).unwrap_or_default();
    if !there.starts_with(HEADER)
        && let Some(other) = other_than_fabric(&there)
    {
        plan.refuse(format!(
            "{} configures {other}, too, and would lose it: name a file of its own in agent.fabric.netplan_file",
            file.display()
        ));
        return Ok(());
    }
    let text = text(&subnet, &interfaces);
    let backup = machine.free_path(&format!("{}.gpuaas-backup-{stamp}", file.display()));
    let reason = "the host's addresses on the fabric";
    let written = plan.file(machine, file, (&text, MODE), Some(backup), reason)?;
    // an earlier run may have been broken off between the file and this
    let mut lacking = Vec::new();
    for (name, own) in &interfaces {
        let address = format!("{}/{}", own.address, own.length);
        match link(machine, name).await? {
            None => plan.note(format!(
                "{name} is not there: it gets {address} when it comes"
            )),
            Some(found) if parse_addresses(&found).contains(&address) => {}
            // networkd gives it none before somebody connects it
            Some(found) if found.contains(NO_CARRIER) => plan.note(format!(
                "{name} is not connected: it gets {address} when it is"
            )),
            Some(_) => lacking.push(name.as_str()),
        }
    }
    if written || !lacking.is_empty() {
        plan.run("netplan", &["generate"], reason);
        plan.run("networkctl", &["reload"], reason);
    }
    for name in lacking {
        plan.run("networkctl", &["reconfigure", name], reason);
    }
    Ok(())
}

/// What of a netplan file is no interface of the fabric. One that is written in another way than line by line is not
/// understood, and counts as that.
fn other_than_fabric(text: &str) -> Option<String> {
    let mut ethernets = None;
    let mut of_names = None;
    for line in text.lines() {
        let key = line.trim();
        if key.is_empty() || key.starts_with('#') {
            continue;
        }
        let indent = line.len() - line.trim_start().len();
        if ethernets.is_some_and(|outer| indent <= outer) {
            (ethernets, of_names) = (None, None);
        }
        let key = key.split(':').next().unwrap_or_default();
        let key = key.trim_matches(['"', '\'']);
        if OTHER_KINDS.contains(&key) || line.contains('{') {
            return Some(key.to_owned());
        }
        if ethernets.is_some()
            && *of_names.get_or_insert(indent) == indent
            && !key.starts_with(INTERFACES)
        {
            return Some(key.to_owned());
        }
        if key == "ethernets" {
            ethernets = Some(indent);
        }
    }
    None
}

/// The settings as they are meant, or all that is wrong with them.
fn checked(fabric: &Fabric) -> Result<(Ipv4Net, BTreeMap<String, Address>), Vec<String>> {
    let mut wrong = Vec::new();
    let file = &fabric.netplan_file;
    if !file.is_absolute() || file.extension() != Some(Path::new("yaml").as_os_str()) {
        wrong.push(format!(
            "agent.fabric.netplan_file {:?} is no absolute path of a .yaml file, and netplan reads no other",
            file.display()
        ));
    }
    let Ok(subnet) = fabric.subnet.parse::<Ipv4Net>() else {
        wrong.push(format!(
            "agent.fabric.subnet {:?} is no network like 192.168.0.0/16",
            fabric.subnet
        ));
        return Err(wrong);
    };
    let mut interfaces = BTreeMap::new();
    let mut taken = BTreeSet::new();
    for (name, given) in &fabric.interfaces {
        let setting = format!("agent.fabric.interfaces.{name}");
        let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if !is_plain || !name.starts_with(INTERFACES) || name.len() > LONGEST_NAME {
            wrong.push(format!("{setting:?} is no interface {INTERFACES}*"));
        }
        match of_host(given, &subnet) {
            None => wrong.push(format!(
                "{setting} = {given:?} is no address of a host in agent.fabric.subnet {subnet} with the length of its network, \
                 like 192.168.0.17/16"
            )),
            Some(own) if !taken.insert(own.address) => {
                wrong.push(format!("{setting} = {given:?} is another interface's, too"));
            }
            Some(own) => {
                interfaces.insert(name.clone(), own);
            }
        }
    }
    match wrong.is_empty() {
        true => Ok((subnet, interfaces)),
        false => Err(wrong),
    }
}

/// An address with the length of its network: of the fabric, and neither the first nor the last of its network.
fn of_host(text: &str, subnet: &Ipv4Net) -> Option<Address> {
    let (address, length) = text.split_once('/')?;
    let address: Ipv4Addr = address.parse().ok()?;
    let length: u32 = length
        .parse()
        .ok()
        .filter(|length| (1..=30).contains(length))?;
    let host_bits = u32::MAX.checked_shr(length)?;
    let host = u32::from(address) & host_bits;
    let is_host = host != 0 && host != host_bits && subnet.contains(address);
    is_host.then_some(Address { address, length })
}

/// The file. A start of the host does not wait for a port that nobody connected (INC-33).
fn text(subnet: &Ipv4Net, interfaces: &BTreeMap<String, Address>) -> String {
    let mut text = String::from(
        "# Written by gpuaas-node-agent deploy-bootstrap from the settings agent.fabric: change them, not this file.\n\
         network:\n  version: 2\n  ethernets:\n",
    );
    for (name, Address { address, length }) in interfaces {
        let _ = write!(
            text,
            "    {name}:\n      optional: true\n      dhcp4: false\n      dhcp6: false\n      addresses:\n        - {address}/{length}\n"
        );
        if *length > subnet.length() {
            let _ = write!(
                text,
                "      routes:\n        - to: {subnet}\n          scope: link\n"
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fabric(interfaces: &[(&str, &str)]) -> Fabric {
        let named = interfaces.iter();
        Fabric {
            interfaces: named
                .map(|(name, address)| ((*name).to_owned(), (*address).to_owned()))
                .collect(),
            ..Fabric::default()
        }
    }

    fn refusals(fabric: &Fabric) -> String {
        checked(fabric).expect_err("wrong").join("\n")
    }

    /// an address of the fabric, and a way to all of it.
    #[test]
    fn i_223_the_file_has_each_interface_and_a_route_where_its_network_is_smaller() {
        let (subnet, interfaces) = checked(&fabric(&[
            ("ibp26s0", "192.168.4.7/16"),
            ("ibp60s0", "192.168.9.1/24"),
        ]))
        .expect("good");
        assert_eq!(
            text(&subnet, &interfaces),
            "# Written by gpuaas-node-agent deploy-bootstrap from the settings agent.fabric: change them, not this file.
network:
  version: 2
  ethernets:
    ibp26s0:
      optional: true
      dhcp4: false
      dhcp6: false
      addresses:
        - 192.168.4.7/16
    ibp60s0:
      optional: true
      dhcp4: false
      dhcp6: false
      addresses:
        - 192.168.9.1/24
      routes:
        - to: 192.168.0.0/16
          scope: link
"
        );
    }

    /// P9: the way to the host may be in the same file.
    #[test]
    fn i_223_a_file_with_other_interfaces_is_known() {
        let of_fabric = "network:\n  version: 2\n  ethernets:\n    ibp26s0:\n      addresses: [192.168.4.7/16]\n    # spare\n    ibp60s0:\n      optional: true\n";
        assert_eq!(other_than_fabric(of_fabric), None);
        assert_eq!(other_than_fabric(""), None);
        for (more, other) in [
            ("    eno1:\n      dhcp4: true\n", "eno1"),
            ("  bonds:\n    bond0:\n      interfaces: [eno1]\n", "bonds"),
            ("    \"eno2\":\n      dhcp4: true\n", "eno2"),
            ("    eno3: {dhcp4: true}\n", "eno3"),
        ] {
            assert_eq!(
                other_than_fabric(&format!("{of_fabric}{more}")).as_deref(),
                Some(other)
            );
        }
    }

    #[test]
    fn i_223_what_is_malformed_is_named() {
        for (name, address) in [
            ("ibp26s0", "192.168.4.7"),
            ("ibp26s0", "192.168.0.0/16"),
            ("ibp26s0", "192.168.255.255/16"),
            ("ibp26s0", "10.0.0.7/16"),
            ("ibp26s0", "192.168.4.7/33"),
            ("ibp26s0", "192.168.4.7/32"),
            ("ibp26s0", "192.168.4.7/0"),
            ("ibp26s0", "192.168.4.7/16\n      gateway4: 192.168.0.1"),
            ("eno1", "192.168.4.7/16"),
            ("ibp26s0:\n    eno1", "192.168.4.7/16"),
            ("ibp0123456789abcd", "192.168.4.7/16"),
        ] {
            let said = refusals(&fabric(&[(name, address)]));
            assert!(said.contains("agent.fabric.interfaces."), "{said}");
        }
        let twice = refusals(&fabric(&[
            ("ibp1", "192.168.4.7/16"),
            ("ibp2", "192.168.4.7/24"),
        ]));
        assert!(twice.contains("ibp2") && twice.contains("too"), "{twice}");
        let mut bad = fabric(&[("ibp1", "192.168.4.7/16")]);
        bad.netplan_file = "60-ipoib.conf".into();
        bad.subnet = "192.168.1.0/16".into();
        let said = refusals(&bad);
        for setting in ["agent.fabric.netplan_file", "agent.fabric.subnet"] {
            assert!(said.contains(setting), "{said}");
        }
    }
}
