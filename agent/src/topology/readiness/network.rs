//! The network of the guests: forwarding, bridge, NAT, dnsmasq.
use super::Finding;
use crate::host::root::HostRoot;
use crate::node::Node;
use crate::settings::{BridgeKind, Network};
use crate::topology::network;
use crate::wire::FOREIGN_PORT_REMEDIATION;

/// All checks of the network.
pub(super) async fn all(node: &Node) -> Vec<Finding> {
    let mut findings = vec![forwarding(&node.root, &node.settings.network)];
    findings.extend(live_network(node).await);
    findings.push(guests_apart(node).await);
    findings.push(dnsmasq(node));
    findings
}

/// The rules that keep guests apart, as they are in force now (J-14, P11).
async fn guests_apart(node: &Node) -> Finding {
    const CHECK: &str = "guests_apart";
    if !node.wire.is_active() {
        let mode = &node.settings.network.mode;
        return Finding::skip(CHECK, format!("network mode is {mode}"));
    }
    let (good, mut detail) = match node.wire.check().await {
        Ok(guests) => (true, format!("the rules of {guests} guests are in force")),
        Err(error) => (false, error.to_string()),
    };
    let repairs = node.wire.repairs();
    if repairs.count > 0 {
        detail.push_str(&format!(
            "; put back {} times since the agent started, at last since {} not as they must be",
            repairs.count, repairs.last
        ));
    }
    let foreign = node.wire.foreign_ports().await.unwrap_or_default();
    let remediation = if foreign.is_empty() {
        "The agent puts them back within seconds; if it does not, see its log."
    } else {
        FOREIGN_PORT_REMEDIATION
    };
    Finding::judge(CHECK, good, detail, remediation)
}

fn forwarding(root: &HostRoot, network: &Network) -> Finding {
    if network.mode != "private-nat" {
        return Finding::skip("ip_forwarding", format!("network mode is {}", network.mode));
    }
    let on = root.read_value("/proc/sys/net/ipv4/ip_forward").as_deref() == Some("1");
    Finding::judge(
        "ip_forwarding",
        on,
        format!("net.ipv4.ip_forward is on: {on}"),
        "Set net.ipv4.ip_forward=1.",
    )
}

async fn live_network(node: &Node) -> Vec<Finding> {
    let network = &node.settings.network;
    let bridge = match network::addresses(&network.bridge).await {
        Ok(Some(addresses)) => Finding::judge(
            "bridge",
            addresses.contains(&network.gateway),
            format!("{} has {}", network.bridge, addresses.join(", ")),
            "Give the bridge the gateway's address.",
        ),
        Ok(None) => {
            let detail = format!("{} does not exist", network.bridge);
            Finding::judge(
                "bridge",
                false,
                detail,
                "Create the bridge before VMs are launched.",
            )
        }
        Err(error) => Finding::judge("bridge", false, error.to_string(), "Install iproute2."),
    };
    let ovs = if network.bridge_kind == BridgeKind::Ovs {
        let limit = std::time::Duration::from_secs(10);
        let output = crate::host::exec::run(
            "ovs-vsctl",
            &["--timeout=5", "br-exists", network.bridge.as_str()],
            limit,
        )
        .await;
        let good = output.as_ref().is_ok_and(|output| output.status == 0);
        let detail = format!("Open vSwitch knows {}: {good}", network.bridge);
        Finding::judge(
            "ovs_bridge",
            good,
            detail,
            "Start ovs-vswitchd and add the bridge.",
        )
    } else {
        Finding::skip("ovs_bridge", "the profile uses a Linux bridge")
    };
    let nat = match (network.mode.as_str(), network::subnet(&network.gateway)) {
        ("private-nat", Some(subnet)) => {
            let good = network::masquerades(&subnet).await;
            let detail = format!("a rule masquerades {subnet}: {good}");
            Finding::judge(
                "nat",
                good,
                detail,
                "Add the masquerade rule of the guests' network.",
            )
        }
        ("private-nat", None) => {
            let detail = format!("{} is no network", network.gateway);
            Finding::judge(
                "nat",
                false,
                detail,
                "Correct the setting agent.network.gateway.",
            )
        }
        (mode, _) => Finding::skip("nat", format!("network mode is {mode}")),
    };
    vec![bridge, ovs, nat]
}

fn dnsmasq(node: &Node) -> Finding {
    let alive = node
        .dhcp
        .alive()
        .and_then(|pid| node.dhcp.reservations().map(|list| (pid, list.len())));
    let (good, detail) = match alive {
        Ok((pid, reservations)) => (
            true,
            format!("process {pid} lives, {reservations} reservations"),
        ),
        Err(error) => (false, error.to_string()),
    };
    Finding::judge(
        "dnsmasq",
        good,
        detail,
        "Start dnsmasq with the hosts directory of this agent.",
    )
}
