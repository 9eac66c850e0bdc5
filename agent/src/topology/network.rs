//! The guests' network as it behaves: bridge and its address, NAT rule, forwarding (INC-01: a bridge and a
//! dnsmasq that live do not mean that a packet leaves).
use std::time::Duration;

use super::nat;
use crate::error::HostResult;
use crate::host::exec;
use crate::host::ip::{self, Link};

const LIMIT: Duration = Duration::from_secs(10);

/// Addresses of an interface as "10.100.0.1/24"; `None` when there is no such interface.
pub async fn addresses(interface: &str) -> HostResult<Option<Vec<String>>> {
    let output = exec::run("ip", &["-json", "address", "show", "dev", interface], LIMIT).await?;
    if output.status != 0 {
        return Ok(None);
    }
    Ok(Some(parse_addresses(&output.stdout)))
}

pub(crate) fn parse_addresses(text: &str) -> Vec<String> {
    let links: Vec<Link> = ip::parse(text);
    links
        .iter()
        .flat_map(|link| &link.addr_info)
        .map(|address| format!("{}/{}", address.local, address.prefixlen))
        .collect()
}

/// Whether the guests' network is masqueraded, by nftables or iptables.
pub async fn masquerades(subnet: &str) -> bool {
    let ran = async |program, arguments: &[&str]| {
        let output = exec::run(program, arguments, LIMIT).await;
        output.map(|output| output.stdout).unwrap_or_default()
    };
    nat::nft_masquerades(&ran("nft", &["--json", "list", "ruleset"]).await, subnet)
        || nat::iptables_masquerades(&ran("iptables-save", &["-t", "nat"]).await, subnet)
}

/// The network of "10.100.0.1/24" as rules write it, "10.100.0.0/24".
pub fn subnet(gateway: &str) -> Option<String> {
    let (ip, length) = gateway.split_once('/')?;
    let ip: std::net::Ipv4Addr = ip.parse().ok()?;
    let length: u32 = length
        .parse()
        .ok()
        .filter(|length| (1..=32).contains(length))?;
    let mask = u32::MAX << (32 - length);
    Some(format!(
        "{}/{length}",
        std::net::Ipv4Addr::from(u32::from(ip) & mask)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_networks_parse() {
        let text = r#"[{"ifname":"ovsbr0","addr_info":[{"family":"inet","local":"10.100.0.1","prefixlen":24}]}]"#;
        assert_eq!(parse_addresses(text), ["10.100.0.1/24"]);
        assert!(parse_addresses("nonsense").is_empty());
        assert_eq!(subnet("10.100.0.1/24").as_deref(), Some("10.100.0.0/24"));
        assert_eq!(subnet("10.100.0.1"), None);
        assert_eq!(subnet("10.100.0.1/0"), None);
    }
}
