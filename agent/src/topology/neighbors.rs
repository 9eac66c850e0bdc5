//! The host's addresses, each with what it is for (A-04), and the switch and port at the other end of each link.
use gpuaas_proto::gpuaas::common::v1 as common;
use gpuaas_proto::gpuaas::common::v1::NetworkAddressKind as Kind;
use serde::Deserialize;
use serde_json::Value;

use crate::error::HostResult;
use crate::host::exec;

/// More than any host has; what is above is left out.
const MOST: usize = 1024;

#[derive(Deserialize)]
struct Link {
    #[serde(default)]
    ifname: String,
    #[serde(default)]
    addr_info: Vec<Address>,
}

#[derive(Deserialize)]
struct Address {
    #[serde(default)]
    local: String,
    #[serde(default)]
    prefixlen: u8,
    #[serde(default)]
    scope: String,
}

#[derive(Deserialize)]
struct Route {
    #[serde(default)]
    dst: String,
    #[serde(default)]
    dev: String,
}

/// All addresses but those of the loopback. `bridge` is the guests'.
///
/// # Errors
/// `ip` does not run, or answers something else.
pub async fn addresses(bridge: &str) -> HostResult<Vec<common::NetworkAddress>> {
    let run = async |arguments: &[&str]| {
        let output = exec::run("ip", arguments, exec::PROBE_LIMIT).await?;
        Ok::<_, crate::error::HostError>(output.success("ip")?.stdout)
    };
    let links = run(&["-json", "address", "show"]).await?;
    let routes = run(&["-json", "-4", "route", "show"]).await?;
    Ok(parse_addresses(&links, &routes, bridge))
}

/// Reads what `ip -json` answered; what it does not know is left out.
pub fn parse_addresses(links: &str, routes: &str, bridge: &str) -> Vec<common::NetworkAddress> {
    let links: Vec<Link> = serde_json::from_str(links).unwrap_or_default();
    let routes: Vec<Route> = serde_json::from_str(routes).unwrap_or_default();
    let default = routes.iter().find(|route| route.dst == "default");
    let default = default.map(|route| route.dev.as_str());
    let mut found = Vec::new();
    for link in links.iter().filter(|link| link.ifname != "lo") {
        for address in &link.addr_info {
            let kind = match link.ifname.as_str() {
                _ if address.scope == "link" => Kind::LinkLocal,
                name if name == bridge => Kind::Guests,
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

    /// A-04
    // partly A-04: the address of the BMC is not known, and an overlay's address has no kind of its own
    #[test]
    fn each_address_has_its_kind() {
        let links = r#"[{"ifname":"lo","addr_info":[{"local":"127.0.0.1","prefixlen":8,"scope":"host"}]},
            {"ifname":"eno1","addr_info":[{"local":"10.4.0.7","prefixlen":22,"scope":"global"},
                {"local":"fe80::1","prefixlen":64,"scope":"link"}]},
            {"ifname":"ovsbr0","addr_info":[{"local":"10.100.0.1","prefixlen":24,"scope":"global"}]},
            {"ifname":"ibp26s0","addr_info":[{"local":"192.168.4.7","prefixlen":16,"scope":"global"}]},
            {"ifname":"tmfifo_net0","addr_info":[{"local":"192.168.100.1","prefixlen":30,"scope":"global"}]},
            {"ifname":"eno2"}]"#;
        let routes = r#"[{"dst":"default","dev":"eno1"},{"dst":"10.4.0.0/22","dev":"eno1"}]"#;
        let found = parse_addresses(links, routes, "ovsbr0");
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
        ];
        assert_eq!(kinds, expected);
        assert!(parse_addresses("nonsense", "nonsense", "ovsbr0").is_empty());
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
