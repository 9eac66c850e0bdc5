//! The host's addresses, each with what it is for (A-04), and the switch and port at the other end of each link.
use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use gpuaas_proto::gpuaas::common::v1 as common;
use gpuaas_proto::gpuaas::common::v1::NetworkAddressKind as Kind;
use serde_json::Value;

use crate::error::HostResult;
use crate::host::ip::{self, Link, Route};
use crate::host::root::HostRoot;
use crate::host::{blocking, exec};

/// More than any host has; what is above is left out.
const MOST: usize = 1024;
const NET: &str = "/sys/class/net";
/// Hardware types of tunnels (`if_arp.h`): none at all, as of tun and WireGuard; IPIP, IP6IP6, SIT, GRE and GRE over IPv6.
const TUNNEL_TYPES: [&str; 6] = ["65534", "768", "769", "776", "778", "823"];
/// The host's way to its management controller.
const IPMI: &str = "/dev/ipmi0";

/// All addresses but those of the loopback. `bridge` is the guests'.
///
/// # Errors
/// `ip` does not run, or answers something else.
pub async fn addresses(root: &HostRoot, bridge: &str) -> HostResult<Vec<common::NetworkAddress>> {
    let run = async |arguments: &[&str]| {
        let output = exec::run("ip", arguments, exec::PROBE_LIMIT).await?;
        Ok::<_, crate::error::HostError>(output.success("ip")?.stdout)
    };
    let links = run(&["-json", "address", "show"]).await?;
    let routes = run(&["-json", "-4", "route", "show"]).await?;
    let tunnels = blocking::here(|| tunnels(root));
    Ok(parse_addresses(&links, &routes, bridge, &tunnels))
}

/// Interfaces that are ends of tunnels, by the kernel's own word: whatever a VPN calls its own.
fn tunnels(root: &HostRoot) -> BTreeSet<String> {
    let of = |name: &str, what: &str| root.read(format!("{NET}/{name}/{what}"));
    let is_tunnel = |name: &String| {
        let kind = of(name, "type").unwrap_or_default();
        let more = of(name, "uevent").unwrap_or_default();
        let mut lines = more.lines();
        TUNNEL_TYPES.contains(&kind.trim())
            || lines.any(|line| matches!(line, "DEVTYPE=vxlan" | "DEVTYPE=geneve"))
    };
    let names = root.names(NET).into_iter();
    names.filter(is_tunnel).collect()
}

/// The address of the management controller, as it tells its host; none where the host has none, or where it has no address.
///
/// # Errors
/// It is there and does not answer.
pub async fn bmc(root: &HostRoot) -> HostResult<Option<common::NetworkAddress>> {
    if !root.exists(IPMI) {
        return Ok(None);
    }
    let output = exec::run("ipmitool", &["lan", "print"], exec::PROBE_LIMIT).await?;
    Ok(parse_bmc(&output.success("ipmitool")?.stdout))
}

/// Reads what `ipmitool lan print` answered.
pub fn parse_bmc(text: &str) -> Option<common::NetworkAddress> {
    let value = |key: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once(':'));
        let (_, value) = lines.find(|(name, _)| name.trim() == key)?;
        value.trim().parse::<Ipv4Addr>().ok()
    };
    let address = value("IP Address").filter(|address| !address.is_unspecified())?;
    let mask = value("Subnet Mask").unwrap_or(Ipv4Addr::BROADCAST);
    let length = mask.to_bits().leading_ones();
    Some(common::NetworkAddress {
        interface: "bmc".to_owned(),
        address: format!("{address}/{length}"),
        kind: Kind::Bmc.into(),
    })
}

/// Reads what `ip -json` answered; what it does not know is left out.
pub fn parse_addresses(
    links: &str,
    routes: &str,
    bridge: &str,
    tunnels: &BTreeSet<String>,
) -> Vec<common::NetworkAddress> {
    let (links, routes): (Vec<Link>, Vec<Route>) = (ip::parse(links), ip::parse(routes));
    let default = routes.iter().find(|route| route.dst == "default");
    let default = default.map(|route| route.dev.as_str());
    let mut found = Vec::new();
    for link in links.iter().filter(|link| link.ifname != "lo") {
        for address in &link.addr_info {
            let kind = match link.ifname.as_str() {
                _ if address.scope == "link" => Kind::LinkLocal,
                name if name == bridge => Kind::Guests,
                name if tunnels.contains(name) => Kind::Overlay,
                name if Some(name) == default => Kind::Management,
                name if name.starts_with("ibp") => Kind::Fabric,
                name if name.starts_with("tmfifo_net") => Kind::Bluefield,
                _ => Kind::Other,
            };
            found.push(common::NetworkAddress {
                interface: link.ifname.clone(),
                address: format!("{}/{}", address.local, address.prefixlen),
                kind: kind.into(),
            });
        }
    }
    found.truncate(MOST);
    found
}

/// Neighbors by LLDP; none where no LLDP agent runs.
pub async fn neighbors() -> Vec<common::LinkNeighbor> {
    let arguments = ["-f", "json0", "show", "neighbors", "details"];
    let answer = exec::run("lldpcli", &arguments, exec::PROBE_LIMIT).await;
    match answer {
        Ok(output) if output.status == 0 => parse_neighbors(&output.stdout),
        _ => Vec::new(),
    }
}

/// Reads `lldpcli -f json0 show neighbors`, in which everything is a list; of several neighbors of an interface each is
/// one.
pub fn parse_neighbors(text: &str) -> Vec<common::LinkNeighbor> {
    let Ok(all) = serde_json::from_str::<Value>(text) else {
        return Vec::new();
    };
    let interfaces = list(&all["lldp"]).flat_map(|lldp| list(&lldp["interface"]));
    let one = |interface: &Value| {
        let (chassis, port) = (&interface["chassis"][0], &interface["port"][0]);
        let value = |of: &Value, what: &str| {
            let text = of[what][0]["value"].as_str().unwrap_or_default();
            text.chars().take(256).collect::<String>()
        };
        common::LinkNeighbor {
            interface: interface["name"].as_str().unwrap_or_default().to_owned(),
            switch_name: value(chassis, "name"),
            switch_id: value(chassis, "id"),
            port_id: value(port, "id"),
            port_description: value(port, "descr"),
        }
    };
    let known = interfaces.map(one).filter(|one| !one.interface.is_empty());
    known.take(MOST).collect()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().map_or(&[][..], Vec::as_slice).iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_04_each_address_has_its_kind() {
        let links = r#"[{"ifname":"lo","addr_info":[{"local":"127.0.0.1","prefixlen":8,"scope":"host"}]},
            {"ifname":"eno1","addr_info":[{"local":"10.4.0.7","prefixlen":22,"scope":"global"},
                {"local":"fe80::1","prefixlen":64,"scope":"link"}]},
            {"ifname":"ovsbr0","addr_info":[{"local":"10.100.0.1","prefixlen":24,"scope":"global"}]},
            {"ifname":"ibp26s0","addr_info":[{"local":"192.168.4.7","prefixlen":16,"scope":"global"}]},
            {"ifname":"tmfifo_net0","addr_info":[{"local":"192.168.100.1","prefixlen":30,"scope":"global"}]},
            {"ifname":"tailscale0","addr_info":[{"local":"100.127.75.81","prefixlen":32,"scope":"global"},
                {"local":"fe80::2","prefixlen":64,"scope":"link"}]},
            {"ifname":"eno2"}]"#;
        let routes = r#"[{"dst":"default","dev":"eno1"},{"dst":"10.4.0.0/22","dev":"eno1"}]"#;
        let tunnels = BTreeSet::from(["tailscale0".to_owned()]);
        let found = parse_addresses(links, routes, "ovsbr0", &tunnels);
        let kinds: Vec<(&str, Kind)> = found
            .iter()
            .map(|one| (one.interface.as_str(), one.kind()))
            .collect();
        let expected = [
            ("eno1", Kind::Management),
            ("eno1", Kind::LinkLocal),
            ("ovsbr0", Kind::Guests),
            ("ibp26s0", Kind::Fabric),
            ("tmfifo_net0", Kind::Bluefield),
            ("tailscale0", Kind::Overlay),
            ("tailscale0", Kind::LinkLocal),
        ];
        assert_eq!(kinds, expected);
        assert!(parse_addresses("nonsense", "nonsense", "ovsbr0", &tunnels).is_empty());
    }

    #[test]
    fn a_04_a_tunnel_is_known_by_what_the_kernel_says_it_is() {
        let dir = tempfile::tempdir().unwrap();
        for (name, kind, more) in [
            ("tailscale0", "65534", "INTERFACE=tailscale0\n"),
            ("site", "65534", "DEVTYPE=wireguard\nINTERFACE=site\n"),
            ("vx7", "1", "DEVTYPE=vxlan\nINTERFACE=vx7\n"),
            ("eno1", "1", "INTERFACE=eno1\n"),
            ("ibp26s0", "32", "INTERFACE=ibp26s0\n"),
        ] {
            let folder = dir.path().join("sys/class/net").join(name);
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("type"), format!("{kind}\n")).unwrap();
            std::fs::write(folder.join("uevent"), more).unwrap();
        }
        let found = tunnels(&HostRoot::new(dir.path()));
        assert_eq!(
            found.iter().collect::<Vec<_>>(),
            ["site", "tailscale0", "vx7"]
        );
    }

    #[test]
    fn a_04_the_management_controller_tells_its_address() {
        let said = "Set in Progress         : Set Complete\nIP Address Source       : Static Address\n\
            IP Address              : 10.177.3.241\nSubnet Mask             : 255.255.252.0\n\
            MAC Address             : c4:cb:e1:00:00:01\nDefault Gateway IP      : 10.177.0.1\n";
        let found = parse_bmc(said).unwrap();
        assert_eq!(found.address, "10.177.3.241/22");
        assert_eq!((found.kind(), found.interface.as_str()), (Kind::Bmc, "bmc"));
        for none in [
            "",
            "IP Address : 0.0.0.0\n",
            "IP Address Source : DHCP Address\n",
        ] {
            assert_eq!(parse_bmc(none), None, "{none}");
        }
    }

    #[test]
    fn the_switch_behind_each_link_is_read() {
        let text = r#"{"lldp":[{"interface":[{"name":"eno1","via":"LLDP",
            "chassis":[{"id":[{"type":"mac","value":"ec:0d:9a:00:00:01"}],"name":[{"value":"leaf-7"}]}],
            "port":[{"id":[{"type":"ifname","value":"swp12"}],"descr":[{"value":"gpu-07 eno1"}]}]},
            {"name":"eno2","chassis":[],"port":"?"},{"via":"LLDP"}]}]}"#;
        let found = parse_neighbors(text);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].switch_name, "leaf-7");
        assert_eq!(found[0].port_id, "swp12");
        assert_eq!(found[1].switch_name, "");
        for other in ["", "[]", "{\"lldp\":7}", "nonsense"] {
            assert!(parse_neighbors(other).is_empty(), "{other}");
        }
    }
}
