//! The network of the guests: forwarding, bridge, NAT, dnsmasq. What files and rules say is not enough: a packet is sent
//! as a guest would send it (INC-01).
use std::time::Duration;

use gpuaas_proto::gpuaas::common::v1::EvidenceStatus;

use super::CheckResult;
use crate::checks::{BRIDGE, DNSMASQ, GUEST_ISOLATION, IP_FORWARDING, NAT, OVS_BRIDGE, SETTINGS};
use crate::host::root::HostRoot;
use crate::metadata;
use crate::network::FOREIGN_PORT_REMEDIATION;
use crate::node::Node;
use crate::settings::{BridgeKind, Network, PRIVATE_NAT};
use crate::topology::network;
use crate::topology::packet::{Job, Outcome, Way};

/// All checks of the network, with a packet that is not older than `packet_age`.
pub(super) async fn all(node: &Node, packet_age: Duration) -> Vec<CheckResult> {
    let settings = &node.settings.network;
    let addresses = network::addresses(&settings.bridge).await;
    let has_bridge = matches!(addresses, Ok(Some(_)));
    let sent = if has_bridge && node.network_rules.is_active() {
        let state_dir = &node.settings.state_dir;
        let job = || Job::of(&node.network_rules, settings, &node.dhcp, state_dir);
        Some(node.packets.send(job, packet_age).await)
    } else {
        None
    };
    let packet = sent.as_ref().and_then(|sent| sent.as_ref().ok());
    let not_sent = sent.as_ref().and_then(|sent| sent.as_ref().err());
    // the agent's own rules drop what goes to where no guest may
    let kept_in = settings
        .unreachable
        .iter()
        .any(|network| network.contains(settings.outside));
    let way_out = packet.filter(|_| !kept_in);
    let mut results = vec![
        bridge(settings, addresses),
        ovs_bridge(settings).await,
        forwarding(&node.root, settings, way_out),
        nat(settings, way_out).await,
        guest_isolation(node).await,
        dnsmasq(node, packet),
        gateway(settings),
    ];
    if let Some(why) = not_sent {
        results.iter_mut().for_each(|result| unproven(result, why));
    }
    results
}

/// Says that a check has proven less than it does otherwise, where a packet belongs to it.
fn unproven(result: &mut CheckResult, why: &str) {
    let by_packet = [&IP_FORWARDING, &NAT, &DNSMASQ];
    let is_judged = result.status != EvidenceStatus::Skip;
    if is_judged && by_packet.iter().any(|check| check.id == result.check.id) {
        result
            .detail
            .push_str(&format!("; no packet proves it: {why}"));
    }
}

/// The rules that isolate guests, as they are in force now (J-14, P11).
async fn guest_isolation(node: &Node) -> CheckResult {
    if !node.network_rules.is_active() {
        return CheckResult::skip(&GUEST_ISOLATION, other_mode(&node.settings.network));
    }
    let (good, mut detail) = match node.network_rules.check().await {
        Ok(guests) => (true, format!("the rules of {guests} guests are in force")),
        Err(error) => (false, error.to_string()),
    };
    let alterations = node.network_rules.alterations();
    if alterations.count > 0 {
        detail.push_str(&format!(
            "; put back {} times since the agent started, at last since {} not as they must be",
            alterations.count, alterations.last
        ));
    }
    let foreign = node.network_rules.foreign_ports().await.unwrap_or_default();
    let result = CheckResult::judge(&GUEST_ISOLATION, good, detail);
    if foreign.is_empty() {
        result
    } else {
        result.advise(FOREIGN_PORT_REMEDIATION)
    }
}

fn other_mode(network: &Network) -> String {
    format!("network mode is {}", network.mode)
}

fn forwarding(root: &HostRoot, network: &Network, packet: Option<&Outcome>) -> CheckResult {
    if network.mode != PRIVATE_NAT {
        return CheckResult::skip(&IP_FORWARDING, other_mode(network));
    }
    let on = root.read_value("/proc/sys/net/ipv4/ip_forward").as_deref() == Some("1");
    let mut detail = format!("net.ipv4.ip_forward is on: {on}");
    let passed = packet.is_none_or(|packet| packet.way.is_ok());
    if let Some(packet) = packet {
        let outside = network.outside;
        detail.push_str(&match &packet.way {
            Ok(_) => format!("; a packet from the bridge to {outside} went through"),
            Err(why) => {
                format!("; a packet from the bridge to {outside} did not go through: {why}")
            }
        });
    }
    CheckResult::judge(&IP_FORWARDING, on && passed, detail)
}

fn bridge(
    network: &Network,
    addresses: crate::error::HostResult<Option<Vec<String>>>,
) -> CheckResult {
    let (good, detail) = match addresses {
        Ok(Some(addresses)) => (
            addresses.contains(&network.gateway)
                && (!metadata::is_named(network)
                    || addresses.iter().any(|own| own == metadata::BRIDGE_ADDRESS)),
            format!("{} has {}", network.bridge, list(&addresses)),
        ),
        Ok(None) => (false, format!("{} does not exist", network.bridge)),
        Err(error) => (false, error.to_string()),
    };
    CheckResult::judge(&BRIDGE, good, detail)
}

fn list(addresses: &[String]) -> String {
    if addresses.is_empty() {
        return "no address".to_owned();
    }
    addresses.join(", ")
}

async fn ovs_bridge(network: &Network) -> CheckResult {
    if network.bridge_kind != BridgeKind::Ovs {
        return CheckResult::skip(&OVS_BRIDGE, "the profile uses a Linux bridge");
    }
    let limit = Duration::from_secs(10);
    let arguments = ["--timeout=5", "br-exists", network.bridge.as_str()];
    let output = crate::host::exec::run("ovs-vsctl", &arguments, limit).await;
    let good = output.as_ref().is_ok_and(|output| output.status == 0);
    let detail = format!("Open vSwitch knows {}: {good}", network.bridge);
    CheckResult::judge(&OVS_BRIDGE, good, detail)
}

async fn nat(network: &Network, packet: Option<&Outcome>) -> CheckResult {
    match (network.mode.as_str(), network::subnet(&network.gateway)) {
        (PRIVATE_NAT, Some(subnet)) => {
            let rule = network::masquerades(&subnet).await;
            of_nat(rule, &subnet, packet)
        }
        (PRIVATE_NAT, None) => CheckResult::skip(&NAT, "the gateway's network is unknown"),
        _ => CheckResult::skip(&NAT, other_mode(network)),
    }
}

/// By the rule, and by what became of the packet: a rule that stands before the good one, or on another host's network,
/// shows there alone.
fn of_nat(rule: bool, subnet: &str, packet: Option<&Outcome>) -> CheckResult {
    let mut detail = format!("a rule masquerades {subnet}: {rule}");
    let mut good = rule;
    match packet.map(|packet| &packet.way) {
        Some(Ok(Way::Masqueraded)) => detail.push_str("; a packet left with another address"),
        Some(Ok(Way::AsSent)) => {
            good = false;
            detail.push_str("; a packet left with its private address");
        }
        // that it did not come through is for ip_forwarding to say
        Some(Err(_)) | None => {}
    }
    CheckResult::judge(&NAT, good, detail)
}

fn dnsmasq(node: &Node, packet: Option<&Outcome>) -> CheckResult {
    let alive = node
        .dhcp
        .alive()
        .and_then(|pid| node.dhcp.reservations().map(|list| (pid, list.len())));
    let (alive, detail) = match alive {
        Ok((pid, reservations)) => (
            true,
            format!("process {pid} lives, {reservations} reservations"),
        ),
        Err(error) => (false, error.to_string()),
    };
    of_dnsmasq(alive, detail, packet)
}

fn of_dnsmasq(alive: bool, mut detail: String, packet: Option<&Outcome>) -> CheckResult {
    let requested = packet.and_then(|packet| packet.dhcp.as_ref());
    match requested {
        Some(Ok(ip)) => detail.push_str(&format!("; it offered {ip} to a request on the bridge")),
        Some(Err(why)) => detail.push_str(&format!("; a request on the bridge: {why}")),
        None => {}
    }
    let answered = requested.is_none_or(Result::is_ok);
    CheckResult::judge(&DNSMASQ, alive && answered, detail)
}

fn gateway(network: &Network) -> CheckResult {
    if network.mode != PRIVATE_NAT {
        return CheckResult::skip(&SETTINGS, other_mode(network));
    }
    match network::subnet(&network.gateway) {
        Some(subnet) => CheckResult::pass(&SETTINGS, format!("the guests' network is {subnet}")),
        None => {
            let detail = format!("agent.network.gateway {:?} is no network", network.gateway);
            CheckResult::judge(&SETTINGS, false, detail)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use gpuaas_proto::gpuaas::common::v1::EvidenceStatus::{Fail, Pass, Skip};

    use super::*;
    use crate::settings::HostService;

    const SUBNET: &str = "10.100.0.0/24";

    fn outcome(way: Result<Way, &str>, dhcp: Option<Result<Ipv4Addr, &str>>) -> Outcome {
        Outcome {
            way: way.map_err(str::to_owned),
            dhcp: dhcp.map(|dhcp| dhcp.map_err(str::to_owned)),
        }
    }

    /// Behaviour and not presence (I-15, J-08).
    #[test]
    fn inc_01_a_bridge_a_rule_and_a_process_are_no_proof_without_a_packet() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("proc/sys/net/ipv4/ip_forward");
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, "1\n").unwrap();
        let root = HostRoot::new(dir.path());
        let network = Network::default();
        let found = |packet: Option<&Outcome>| forwarding(&root, &network, packet).status;
        let good = outcome(Ok(Way::Masqueraded), None);
        let lost = outcome(Err("it never came"), None);
        assert_eq!(
            (found(None), found(Some(&good)), found(Some(&lost))),
            (Pass, Pass, Fail)
        );
        std::fs::write(&file, "0\n").unwrap();
        assert_eq!((found(None), found(Some(&good))), (Fail, Fail));

        let plain = outcome(Ok(Way::AsSent), None);
        for (rule, packet, status) in [
            (true, None, Pass),
            (false, None, Fail),
            (true, Some(&good), Pass),
            (true, Some(&plain), Fail),
            (false, Some(&good), Fail),
            // told by ip_forwarding
            (true, Some(&lost), Pass),
        ] {
            let result = of_nat(rule, SUBNET, packet);
            assert_eq!(result.status, status, "{}", result.detail);
        }

        let ip = Ipv4Addr::new(10, 100, 0, 254);
        for (alive, dhcp, status) in [
            (true, Some(Ok(ip)), Pass),
            (true, None, Pass),
            (true, Some(Err("no answer")), Fail),
            (false, Some(Ok(ip)), Fail),
        ] {
            let packet = outcome(Ok(Way::Masqueraded), dhcp);
            let result = of_dnsmasq(alive, "process".into(), Some(&packet));
            assert_eq!(result.status, status, "{}", result.detail);
        }
    }

    #[test]
    fn a_host_whose_guests_have_every_address_is_told_what_no_packet_proves() {
        let network = Network::default();
        let said = |mut result: CheckResult| {
            let status = result.status;
            unproven(&mut result, "every address is taken");
            assert_eq!(result.status, status, "it blocks nothing");
            result.detail
        };
        let dnsmasq = of_dnsmasq(true, "process".into(), None);
        assert!(said(dnsmasq).ends_with("; no packet proves it: every address is taken"));
        let nat = of_nat(true, SUBNET, None);
        assert!(said(nat).ends_with("; no packet proves it: every address is taken"));
        let bridge = bridge(&network, Ok(Some(vec!["10.100.0.1/24".into()])));
        assert!(!said(bridge).contains("no packet"));
    }

    #[test]
    fn a_74_a_site_that_makes_the_network_itself_is_not_asked_for_nat() {
        let dir = tempfile::tempdir().unwrap();
        let root = HostRoot::new(dir.path());
        let network = Network {
            mode: "site".into(),
            ..Network::default()
        };
        assert_eq!(forwarding(&root, &network, None).status, Skip);
        assert_eq!(gateway(&network).status, Skip);
        let wrong = Network {
            gateway: "10.100.0.1".into(),
            ..Network::default()
        };
        assert_eq!(gateway(&wrong).status, Fail);
    }

    #[test]
    fn a_147_a_bridge_without_the_gateways_address_is_none() {
        let network = Network::default();
        let found = |addresses: &[&str]| {
            bridge(
                &network,
                Ok(Some(
                    addresses.iter().map(|one| (*one).to_owned()).collect(),
                )),
            )
        };
        assert_eq!(found(&["10.100.0.1/24"]).status, Pass);
        assert_eq!(found(&["10.100.0.2/24"]).status, Fail);
        assert_eq!(found(&[]).detail, "ovsbr0 has no address");
        assert_eq!(bridge(&network, Ok(None)).status, Fail);
    }

    #[test]
    fn a_bridge_without_the_address_of_a_service_that_it_has_is_none() {
        let network = Network {
            host_services: vec![HostService::Metadata],
            ..Network::default()
        };
        let gateway = network.gateway.clone();
        let without = bridge(&network, Ok(Some(vec![gateway.clone()])));
        assert_eq!(without.status, Fail);
        let with = vec![gateway, "169.254.169.254/32".to_owned()];
        assert_eq!(bridge(&network, Ok(Some(with))).status, Pass);
    }
}
