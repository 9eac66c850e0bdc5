//! The fabric of the site: its netplan file, an address on an InfiniBand interface, a route (A-144..A-146, A-154..A-156).
//! A host that is enrolled and has a bridge may still lack all of it (INC-06).
use std::net::Ipv4Addr;

use gpuaas_proto::gpuaas::common::v1::EvidenceStatus;
use serde::de::DeserializeOwned;

use super::CheckResult;
use crate::checks::{Check, FABRIC_ADDRESS, FABRIC_ROUTE, IPOIB_NETPLAN, TMFIFO};
use crate::error::HostResult;
use crate::host::exec;
use crate::host::ip::{Link, Route, parse};
use crate::host::root::HostRoot;
use crate::node::Node;
use crate::settings::{Fabric, FabricKind, HostProfile};

/// What interfaces of IP over InfiniBand are called.
const INTERFACES: &str = "ibp";
/// The management link to a BlueField card.
const MANAGEMENT: &str = "tmfifo_net0";
const CHECKS: [&Check; 3] = [&IPOIB_NETPLAN, &FABRIC_ADDRESS, &FABRIC_ROUTE];

/// All checks of the fabric.
pub(super) async fn all(node: &Node) -> Vec<CheckResult> {
    let (profile, fabric) = (&node.settings.profile, &node.settings.fabric);
    let links: HostResult<Vec<Link>> = ask(&["-json", "address", "show"]).await;
    let mut results = match absent(profile, fabric) {
        Some(why) => CHECKS.map(|check| CheckResult::skip(check, why)).into(),
        None => {
            let routes: HostResult<Vec<Route>> = ask(&["-json", "-4", "route", "show"]).await;
            vec![
                netplan(&node.root, fabric),
                address(links.as_deref().ok(), &fabric.subnet),
                route(routes.as_deref().ok(), &fabric.subnet),
            ]
        }
    };
    let mut management = tmfifo(links.as_deref().ok());
    if node.root.is_live() && management.status == EvidenceStatus::Pass {
        management = answered(management, links.as_deref().unwrap_or_default()).await;
    }
    results.push(management);
    results
}

/// Asks the card's end of the management link (J-19).
async fn answered(found: CheckResult, links: &[Link]) -> CheckResult {
    let Some(peer) = peer(links) else {
        return found;
    };
    let peer = peer.to_string();
    let arguments = ["-n", "-c", "1", "-W", "2", "-I", MANAGEMENT, &peer];
    match exec::run("ping", &arguments, exec::PROBE_LIMIT).await {
        Ok(output) => of_ping(&found, &peer, output.status == 0),
        Err(error) => CheckResult::warn(&TMFIFO, format!("{}; {}", found.detail, error.message)),
    }
}

fn of_ping(found: &CheckResult, peer: &str, answers: bool) -> CheckResult {
    match answers {
        true => CheckResult::pass(&TMFIFO, format!("{}, and {peer} answers", found.detail)),
        false => CheckResult::warn(
            &TMFIFO,
            format!("{}, and {peer} does not answer", found.detail),
        ),
    }
}

/// The other address of the management link's network, where it has two.
fn peer(links: &[Link]) -> Option<Ipv4Addr> {
    let link = links.iter().find(|link| link.ifname == MANAGEMENT)?;
    let own = link
        .addr_info
        .iter()
        .find(|address| address.family == "inet")?;
    let address: Ipv4Addr = own.local.parse().ok()?;
    let address = u32::from(address);
    match own.prefixlen {
        31 => Some(Ipv4Addr::from(address ^ 1)),
        // of the four, the first is the network's and the last goes to all
        30 if matches!(address & 3, 1 | 2) => Some(Ipv4Addr::from(address ^ 3)),
        _ => None,
    }
}

fn absent(profile: &HostProfile, fabric: &Fabric) -> Option<&'static str> {
    match fabric.kind {
        _ if profile.lab => Some("a lab host has no fabric"),
        FabricKind::None => Some("this site has no fabric"),
        FabricKind::Ipoib => None,
    }
}

async fn ask<T: DeserializeOwned>(arguments: &[&str]) -> HostResult<Vec<T>> {
    let output = exec::run("ip", arguments, exec::PROBE_LIMIT).await?;
    Ok(parse(&output.success("ip")?.stdout))
}

fn netplan(root: &HostRoot, fabric: &Fabric) -> CheckResult {
    let text = root.read_value(&fabric.netplan_file).unwrap_or_default();
    let file = fabric.netplan_file.display();
    let detail = match text.is_empty() {
        true => format!("{file} is missing, empty or cannot be read"),
        false => format!("{file} is there"),
    };
    CheckResult::judge(&IPOIB_NETPLAN, !text.is_empty(), detail)
}

fn address(links: Option<&[Link]>, subnet: &str) -> CheckResult {
    let own = links.unwrap_or_default().iter();
    let own = own.filter(|link| link.ifname.starts_with(INTERFACES));
    let found: Vec<String> = own
        .flat_map(|link| {
            link.addr_info
                .iter()
                .map(|address| (&link.ifname, &address.local))
        })
        .filter(|(_, address)| contains(subnet, address))
        .map(|(interface, address)| format!("{interface} has {address}"))
        .collect();
    let good = !found.is_empty();
    let detail = match good {
        true => found.join(", "),
        false => format!("no {INTERFACES}* interface has an address of {subnet}"),
    };
    CheckResult::judge(&FABRIC_ADDRESS, good, detail)
}

fn route(routes: Option<&[Route]>, subnet: &str) -> CheckResult {
    let mut own = routes.unwrap_or_default().iter();
    let found = own.find(|route| {
        let network = route.dst.split('/').next().unwrap_or_default();
        route.dev.starts_with(INTERFACES) && contains(subnet, network)
    });
    let detail = match found {
        Some(route) => format!("{} by {}", route.dst, route.dev),
        None => format!("no route to {subnet} by an {INTERFACES}* interface"),
    };
    CheckResult::judge(&FABRIC_ROUTE, found.is_some(), detail)
}

/// The management link of a BlueField card is evidence, never a condition (A-76, A-78).
fn tmfifo(links: Option<&[Link]>) -> CheckResult {
    let mut all = links.unwrap_or_default().iter();
    let Some(link) = all.find(|link| link.ifname == MANAGEMENT) else {
        return CheckResult::skip(&TMFIFO, format!("there is no {MANAGEMENT}"));
    };
    let mut addresses = link.addr_info.iter();
    match addresses.find(|address| address.family == "inet") {
        Some(address) => CheckResult::pass(&TMFIFO, format!("{MANAGEMENT} has {}", address.local)),
        None => CheckResult::warn(&TMFIFO, format!("{MANAGEMENT} has no IPv4 address")),
    }
}

/// Whether an address or the address of a network lies in a network such as "192.168.0.0/16".
fn contains(subnet: &str, address: &str) -> bool {
    let Some((network, length)) = subnet.split_once('/') else {
        return false;
    };
    let (Ok(network), Ok(address), Ok(length)) = (
        network.parse::<Ipv4Addr>(),
        address.parse::<Ipv4Addr>(),
        length.parse::<u32>(),
    ) else {
        return false;
    };
    let mask = u32::MAX.checked_shl(32 - length.min(32)).unwrap_or(0);
    length <= 32 && (u32::from(network) ^ u32::from(address)) & mask == 0
}

#[cfg(test)]
mod tests {
    use gpuaas_proto::gpuaas::common::v1::EvidenceStatus::{Fail, Pass, Skip, Warn};

    use super::*;

    const SITE: &str = "192.168.0.0/16";

    /// A-145, A-146
    #[test]
    fn inc_06_a_host_with_a_bridge_and_without_a_fabric_is_not_ready() {
        let dir = tempfile::tempdir().unwrap();
        let root = HostRoot::new(dir.path());
        let fabric = Fabric::default();
        assert_eq!(netplan(&root, &fabric).status, Fail);
        std::fs::create_dir_all(dir.path().join("etc/netplan")).unwrap();
        let file = dir.path().join("etc/netplan/60-ipoib.yaml");
        std::fs::write(&file, "").unwrap();
        assert_eq!(netplan(&root, &fabric).status, Fail, "an empty file");
        std::fs::write(&file, "network: {version: 2}\n").unwrap();
        assert_eq!(netplan(&root, &fabric).status, Pass);

        let links: Vec<Link> = parse(
            r#"[{"ifname":"ovsbr0","addr_info":[{"family":"inet","local":"10.100.0.1"}]},{"ifname":"ibp12s0"}]"#,
        );
        assert_eq!(address(Some(&links), SITE).status, Fail);
        assert_eq!(address(None, SITE).status, Fail, "ip did not answer");
        let routes: Vec<Route> =
            parse(r#"[{"dst":"default","dev":"eno1"},{"dst":"192.168.4.0/24","dev":"eno2"}]"#);
        assert_eq!(route(Some(&routes), SITE).status, Fail);
        assert_eq!(route(None, SITE).status, Fail, "ip did not answer");
    }

    /// J-18.
    #[test]
    fn a_155_a_156_an_address_and_a_route_of_the_fabric_pass() {
        let links: Vec<Link> = parse(
            r#"[{"ifname":"ibp12s0","addr_info":[{"family":"inet6","local":"fe80::1"},{"family":"inet","local":"192.168.4.11"}]}]"#,
        );
        let found = address(Some(&links), SITE);
        assert_eq!(
            (found.status, found.detail.as_str()),
            (Pass, "ibp12s0 has 192.168.4.11")
        );
        for dst in ["192.168.0.0/16", "192.168.4.0/24"] {
            let routes: Vec<Route> = parse(&format!(r#"[{{"dst":"{dst}","dev":"ibp12s0"}}]"#));
            let found = route(Some(&routes), SITE);
            assert_eq!(found.status, Pass);
            assert_eq!(found.detail, format!("{dst} by ibp12s0"));
        }
    }

    /// A-76
    #[test]
    fn a_78_the_link_to_a_bluefield_card_is_never_a_blocker() {
        let with = |addresses: &str| {
            let links: Vec<Link> = parse(&format!(
                r#"[{{"ifname":"tmfifo_net0","addr_info":[{addresses}]}}]"#
            ));
            tmfifo(Some(&links)).status
        };
        assert_eq!(tmfifo(Some(&[])).status, Skip);
        assert_eq!(with(r#"{"family":"inet6","local":"fe80::1"}"#), Warn);
        assert_eq!(with(r#"{"family":"inet","local":"192.168.100.1"}"#), Pass);
    }

    /// A ping of the peer is part of the validation (I-92, J-07).
    #[test]
    fn j_19_the_cards_end_of_the_link_is_asked() {
        let links = |address: &str, length: u32| {
            parse::<Link>(&format!(
                r#"[{{"ifname":"tmfifo_net0","addr_info":[{{"family":"inet","local":"{address}","prefixlen":{length}}}]}}]"#
            ))
        };
        let of = |address: &str, length| peer(&links(address, length)).map(|peer| peer.to_string());
        assert_eq!(of("192.168.100.1", 30).as_deref(), Some("192.168.100.2"));
        assert_eq!(of("192.168.100.2", 30).as_deref(), Some("192.168.100.1"));
        assert_eq!(of("192.168.100.1", 31).as_deref(), Some("192.168.100.0"));
        assert_eq!(of("192.168.100.1", 24), None);
        let found = tmfifo(Some(&links("192.168.100.1", 30)));
        assert_eq!(of_ping(&found, "192.168.100.2", true).status, Pass);
        let silent = of_ping(&found, "192.168.100.2", false);
        assert_eq!(silent.status, Warn);
        assert!(
            silent.detail.ends_with("192.168.100.2 does not answer"),
            "{}",
            silent.detail
        );
    }

    #[test]
    fn j_20_the_route_of_the_management_link_is_none_of_the_fabric() {
        let both: Vec<Route> = parse(
            r#"[{"dst":"192.168.100.0/30","dev":"tmfifo_net0"},{"dst":"192.168.0.0/16","dev":"ibp12s0"}]"#,
        );
        assert_eq!(route(Some(&both), SITE).detail, "192.168.0.0/16 by ibp12s0");
        assert_eq!(route(Some(&both[..1]), SITE).status, Fail);
    }

    #[test]
    fn addresses_lie_in_networks_or_not() {
        for (subnet, address, inside) in [
            (SITE, "192.168.255.1", true),
            (SITE, "192.169.0.1", false),
            ("10.0.0.0/8", "10.9.9.9", true),
            ("0.0.0.0/0", "1.2.3.4", true),
            ("10.1.2.3/32", "10.1.2.3", true),
            ("10.1.2.3/32", "10.1.2.4", false),
            ("10.1.2.3/33", "10.1.2.3", false),
            ("10.1.2.3", "10.1.2.3", false),
            (SITE, "default", false),
        ] {
            assert_eq!(contains(subnet, address), inside, "{subnet} {address}");
        }
    }
}
