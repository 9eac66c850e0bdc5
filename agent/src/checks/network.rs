//! Checks of the guests' network and of the fabric; and what only the parity check asks.
use super::{Check, Observer, Scope, Severities, Severity};

/// The bridge has the gateway's address (A-147, J-02).
pub const BRIDGE: Check = Check {
    id: "bridge",
    proves: "The guests' bridge exists and has the address of the gateway, and of the metadata service if the host serves it. This does not prove that packets leave the host (INC-01).",
    observed: "The addresses of the interface.",
    remedy: "Create the bridge and give it the gateway's address: restart gpuaas-slice-network-baseline.",
    steps: &[
        "`ip address show dev ovsbr0`.",
        "`systemctl restart gpuaas-slice-network-baseline`, or by hand: `ip address add 10.100.0.1/24 dev ovsbr0; ip link set ovsbr0 up`.",
    ],
    severity: Severities::VMS,
    scope: Scope::Host,
    by: Observer::Agent,
};

/// Open vSwitch knows the bridge.
pub const OVS_BRIDGE: Check = Check {
    id: "ovs_bridge",
    proves: "Open vSwitch answers and has the bridge.",
    observed: "`ovs-vsctl br-exists`. Skipped with a Linux bridge.",
    remedy: "Start ovs-vswitchd and add the bridge.",
    steps: &["`systemctl status openvswitch-switch`, `ovs-vsctl show`."],
    severity: Severities::VMS,
    scope: Scope::Host,
    by: Observer::Agent,
};

/// Packets of guests are sent on (A-75, INC-01).
pub const IP_FORWARDING: Check = Check {
    id: "ip_forwarding",
    proves: "The host forwards packets of guests: no rule of the site drops them, and there is a route.",
    observed: "net.ipv4.ip_forward is 1, and a packet from a network namespace on the bridge reaches the end of the host's packet filter on its way out, where the agent counts and drops it.",
    remedy: "Set net.ipv4.ip_forward=1, and let the site's packet filter pass what comes from the bridge.",
    steps: &[
        "`sysctl net.ipv4.ip_forward`; set it in `/etc/sysctl.d` too.",
        "If it is 1: `ip route get 192.175.48.1` must show a route (the setting `agent.network.outside` changes the address), and `nft list ruleset` must have no rule in a forward hook that drops packets from the bridge. If only the policy of `iptables` drops them, as Docker's does, `systemctl restart gpuaas-slice-network-baseline` restores the rules that accept them.",
    ],
    severity: Severities::VMS,
    scope: Scope::Host,
    by: Observer::Agent,
};

/// Guests' packets leave with the host's address (A-74, INC-01, J-06).
pub const NAT: Check = Check {
    id: "nat",
    proves: "Packets of guests leave with an address of the host, not with a private address that a firewall would drop.",
    observed: "A rule of nftables or iptables masquerades exactly the guests' network, and the test packet left with another source address.",
    remedy: "Add the masquerade rule of the guests' network: restart gpuaas-slice-network-baseline.",
    steps: &[
        "`nft list ruleset | grep masquerade` and `iptables -t nat -S POSTROUTING`.",
        "`systemctl restart gpuaas-slice-network-baseline`, or by hand: `iptables -t nat -A POSTROUTING -s 10.100.0.0/24 -j MASQUERADE`.",
        "Run discovery again afterwards; a slot that is `cleanup_blocked` needs its own repair (A-79, A-80).",
    ],
    severity: Severities::VMS,
    scope: Scope::Host,
    by: Observer::Agent,
};

/// Guests are isolated from each other (J-14).
pub const GUEST_ISOLATION: Check = Check {
    id: "guest_isolation",
    proves: "The rules that isolate guests from each other are in force as the agent made them.",
    observed: "The flows of the switch and the tables of the packet filter, compared with the reservations.",
    remedy: "The agent puts them back within seconds; if it does not, see its log.",
    steps: &[
        "`journalctl -u gpuaas-node-agent -n 100`: the log shows the differences and the errors.",
        "The bridge must have only ports of guests: `ovs-vsctl list-ports ovsbr0`.",
    ],
    severity: Severities::VMS,
    scope: Scope::Host,
    by: Observer::Agent,
};

/// Guests get their address.
pub const DNSMASQ: Check = Check {
    id: "dnsmasq",
    proves: "A guest gets its address: dnsmasq answers according to the agent's hosts directory.",
    observed: "The process of the pid file is dnsmasq, and it answers a DHCP request from a network namespace on the bridge with the reserved address.",
    remedy: "Start dnsmasq with the hosts directory of this agent; restart it when it does not answer.",
    steps: &[
        "`systemctl restart dnsmasq`; leases are kept.",
        "It must have `--dhcp-hostsdir` as the setting `agent.dhcp.hosts_dir`, listen on the bridge, and serve the range of the guests' network as `static`.",
    ],
    severity: Severities::VMS,
    scope: Scope::Host,
    by: Observer::Agent,
};

/// The fabric's netplan file (A-145, I-223, INC-06).
pub const IPOIB_NETPLAN: Check = Check {
    id: "ipoib_netplan",
    proves: "The network of the fabric was rendered.",
    observed: "The file of the setting `agent.fabric.netplan_file` exists and is not empty. Skipped if the site has no fabric.",
    remedy: "render /etc/netplan/60-ipoib.yaml from site/profile bootstrap",
    steps: &[
        "If the setting `agent.fabric.interfaces` has the interfaces and addresses of the host, `gpuaas-node-agent deploy-bootstrap` renders the file.",
        "Otherwise run the site's InfiniBand baseline again, or set them.",
    ],
    severity: Severities::GPUS,
    scope: Scope::Host,
    by: Observer::Agent,
};

/// An address on the fabric (A-145, J-18).
pub const FABRIC_ADDRESS: Check = Check {
    id: "fabric_address",
    proves: "The host has an address on the fabric.",
    observed: "An interface ibp* has an address of the setting `agent.fabric.subnet`.",
    remedy: "Run netplan apply, and look at the link of the InfiniBand ports.",
    steps: &["`netplan apply`, `ip address`, `ibstat`."],
    severity: Severities::GPUS,
    scope: Scope::Host,
    by: Observer::Agent,
};

/// A route to the fabric (A-146, J-18, J-20).
pub const FABRIC_ROUTE: Check = Check {
    id: "fabric_route",
    proves: "The host reaches the fabric.",
    observed: "A route to the setting `agent.fabric.subnet`, or to a part of it, by an interface ibp*.",
    remedy: "Run netplan apply, and look at the link of the InfiniBand ports.",
    steps: &[
        "`ip -4 route`: a route of `192.168.0.0/16` and the narrower one of `tmfifo_net0` can coexist.",
    ],
    severity: Severities::GPUS,
    scope: Scope::Host,
    by: Observer::Agent,
};

/// The management link to a BlueField card (A-76, A-78, J-19).
pub const TMFIFO: Check = Check {
    id: "tmfifo",
    proves: "The management link of the BlueField card works, if there is one.",
    observed: "`tmfifo_net0` has an IPv4 address, and the other end of its network answers a ping. Skipped without the interface.",
    remedy: "Give it an address if the card is managed from this host, and see whether rshim runs.",
    steps: &[
        "`ip address add 192.168.100.1/30 dev tmfifo_net0`, `systemctl status rshim`, `ping 192.168.100.2`.",
    ],
    severity: Severities::GPUS.warn(),
    scope: Scope::Host,
    by: Observer::Agent,
};

/// The former service (A-87, I-17, INC-05).
pub const HISTORICAL_NETWORK_SERVICE: Check = Check {
    id: "historical_network_service",
    proves: "The service with the former name of the network baseline is removed.",
    observed: "systemd has no unit gpuaas-slice-host-net-baseline.",
    remedy: "remove it; gpuaas-slice-network-baseline does its work",
    steps: &[
        "`gpuaas-node-agent deploy-bootstrap` disables the service and removes its unit file, with a backup.",
    ],
    severity: Severities::all(Severity::Warn),
    scope: Scope::Host,
    by: Observer::Parity,
};

/// The platform's view (I-18).
pub const API_TOPOLOGY: Check = Check {
    id: "api_topology",
    proves: "The platform has a completed discovery of this node, without a blocker.",
    observed: "The discovery in the API, as an administrator sees it. A warning without token and node id (I-19).",
    remedy: "correct what the blockers name, then run discovery again: gpuaas admin node discover ID",
    steps: &["`gpuaas admin node discover ID`, and read its blockers."],
    severity: Severities::EVERYWHERE,
    scope: Scope::Host,
    by: Observer::Parity,
};

/// The way to the host (I-02, I-03).
pub const SSH: Check = Check {
    id: "ssh",
    proves: "The checks ran completely at the other end of the SSH connection.",
    observed: "The summary of the other end arrived.",
    remedy: "log in by ssh, with a key and without a password, and install the agent there",
    steps: &["`ssh USER@HOST sudo -n gpuaas-node-agent --version`."],
    severity: Severities::EVERYWHERE,
    scope: Scope::Host,
    by: Observer::Parity,
};
