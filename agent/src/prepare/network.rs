//! The network baseline (I-69, I-89..I-103): the guests' bridge, its address, dnsmasq, NAT, forwarding, and the link to a
//! BlueField card. It never makes virtual functions and sets no QoS (I-90).
//!
//! With systemd management it also restarts and enables services. The unit `gpuaas-slice-network-baseline` runs it
//! without, and restarts dnsmasq after it: a service that enables and starts services would wait for itself (INC-02).
use super::systemd::{began_before, enable_now, unit};
use super::{Action, Machine, Plan, tuning};
use crate::error::HostResult;
use crate::host::root::HostRoot;
use crate::metadata;
use crate::settings::{BridgeKind, Dhcp, HostService, Network, PRIVATE_NAT};
use crate::topology::network::{parse_addresses, subnet};

/// dnsmasq's configuration of the guests' network (I-222).
pub const DNSMASQ_FILE: &str = "/etc/dnsmasq.d/gpu_subnet.conf";
const SYSCTL_FILE: &str = "/etc/sysctl.d/90-gpuaas-slice.conf";
const TMFIFO: &str = "tmfifo_net0";
/// This end of the link to a BlueField card (I-92, J-19).
const TMFIFO_ADDRESS: &str = "192.168.100.1/30";
const DNSMASQ: &str = "dnsmasq.service";

/// What of the baseline is planned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scope {
    /// The bridge alone: the unit `gpuaas-slice-ovs-bridge`.
    pub bridge_only: bool,
    /// Enable and restart services.
    pub manage_systemd: bool,
    /// The tuning profile, opt-in (I-74).
    pub tuning: bool,
}

/// Plans it.
///
/// # Errors
/// Something that must be known cannot be observed.
pub async fn plan(
    machine: &Machine,
    network: &Network,
    dhcp: &Dhcp,
    scope: Scope,
) -> HostResult<Plan> {
    let mut plan = Plan::new("net-baseline");
    let Some(guests) = subnet(&network.gateway) else {
        plan.refuse(format!(
            "agent.network.gateway {:?} is no address with the length of its network",
            network.gateway
        ));
        return Ok(plan);
    };
    if network.mode != PRIVATE_NAT {
        plan.note(format!(
            "agent.network.mode is {}: the site makes the guests' network",
            network.mode
        ));
        return Ok(plan);
    }
    bridge(machine, &mut plan, network, scope.manage_systemd).await?;
    if scope.bridge_only {
        return Ok(plan);
    }
    address(machine, &mut plan, &network.bridge, &network.gateway).await?;
    if metadata::is_named(network) {
        address(
            machine,
            &mut plan,
            &network.bridge,
            metadata::BRIDGE_ADDRESS,
        )
        .await?;
    }
    forwarding(machine, &mut plan)?;
    nat(machine, &mut plan, &guests).await?;
    forward(machine, &mut plan, &network.bridge).await?;
    dnsmasq(machine, &mut plan, network, dhcp, scope.manage_systemd).await?;
    tmfifo(machine, &mut plan, scope.manage_systemd).await?;
    if scope.tuning {
        tuning::plan(machine, &mut plan)?;
    }
    Ok(plan)
}

/// What `ip` says of an interface; `None` where it is not there.
pub(super) async fn link(machine: &Machine, name: &str) -> HostResult<Option<String>> {
    let arguments = ["-json", "address", "show", "dev", name];
    let output = machine.ask("ip", &arguments).await?;
    let is_there = output.status == 0 && output.stdout.contains("ifname");
    Ok(is_there.then_some(output.stdout))
}

fn is_up(link: &str) -> bool {
    let parsed: serde_json::Value = serde_json::from_str(link).unwrap_or_default();
    let flags = parsed.pointer("/0/flags").and_then(|all| all.as_array());
    flags.is_some_and(|all| all.iter().any(|flag| flag == "UP"))
}

async fn bridge(
    machine: &Machine,
    plan: &mut Plan,
    network: &Network,
    manage_systemd: bool,
) -> HostResult<()> {
    let name = network.bridge.as_str();
    let reason = "the guests' bridge";
    match network.bridge_kind {
        BridgeKind::Ovs => {
            if manage_systemd {
                let switch = "openvswitch-switch.service";
                enable_now(machine, plan, switch, "the switch of the guests").await?;
            }
            let known = machine
                .ask("ovs-vsctl", &["--timeout=5", "br-exists", name])
                .await?;
            match known.status {
                0 => {}
                // 2: there is none; anything else is of a switch that this plan starts first
                2 => add_ovs(plan, network),
                _ if manage_systemd => add_ovs(plan, network),
                status => {
                    let why = known.stderr.trim().to_owned();
                    plan.refuse(format!(
                        "Open vSwitch does not answer (status {status}): {why}"
                    ));
                    return Ok(());
                }
            }
        }
        BridgeKind::Linux => {
            if link(machine, name).await?.is_none() {
                plan.run(
                    "ip",
                    &["link", "add", "name", name, "type", "bridge"],
                    reason,
                );
            }
        }
    }
    if !link(machine, name).await?.is_some_and(|link| is_up(&link)) {
        plan.run("ip", &["link", "set", "dev", name, "up"], reason);
    }
    Ok(())
}

fn add_ovs(plan: &mut Plan, network: &Network) {
    let name = network.bridge.as_str();
    let mut arguments = vec!["--timeout=20", "--may-exist", "add-br", name];
    let datapath = format!("datapath_type={}", network.datapath);
    if network.passes_in_user_space() {
        arguments.extend(["--", "set", "bridge", name, &datapath]);
    }
    plan.run("ovs-vsctl", &arguments, "the guests' bridge");
}

/// Gives an interface an address that it has not (I-93).
async fn address(machine: &Machine, plan: &mut Plan, name: &str, address: &str) -> HostResult<()> {
    let found = link(machine, name).await?.unwrap_or_default();
    if !parse_addresses(&found).iter().any(|own| own == address) {
        plan.run(
            "ip",
            &["address", "replace", address, "dev", name],
            format!("the host's address at {name}"),
        );
    }
    Ok(())
}

/// Now and after the next start (I-100).
fn forwarding(machine: &Machine, plan: &mut Plan) -> HostResult<()> {
    let text = "# Written by gpuaas-node-agent net-baseline: what guests send is sent on.\nnet.ipv4.ip_forward = 1\n";
    let reason = "what guests send is sent on";
    plan.file(machine, SYSCTL_FILE, (text, 0o644), None, reason)?;
    let on = machine.root.read_value("/proc/sys/net/ipv4/ip_forward");
    if on.as_deref() != Some("1") {
        let arguments = ["--quiet", "--write", "net.ipv4.ip_forward=1"];
        plan.run("sysctl", &arguments, reason);
    }
    Ok(())
}

/// Guests leave with an address of the host (I-91, I-101).
async fn nat(machine: &Machine, plan: &mut Plan, guests: &str) -> HostResult<()> {
    let rule = ["-s", guests, "-j", "MASQUERADE"];
    let reason = "guests leave with an address of the host";
    one_rule(machine, plan, ("nat", "POSTROUTING"), &rule, reason).await
}

/// What guests send, the answers to it and what an ingress mapping leads to them is sent on also where the host's policy is
/// to drop: Docker sets it so whenever it starts. The rules come last: what the site forbids stays forbidden, and the
/// agent's own tables decide before them which mappings there are.
async fn forward(machine: &Machine, plan: &mut Plan, bridge: &str) -> HostResult<()> {
    let reason = "the policy for all other packets may be to drop them";
    let chain = ("filter", "FORWARD");
    let out = ["-i", bridge, "-j", "ACCEPT"];
    one_rule(machine, plan, chain, &out, reason).await?;
    // as `iptables -S` prints it
    let states = "RELATED,ESTABLISHED,DNAT";
    let back = [
        "-o",
        bridge,
        "-m",
        "conntrack",
        "--ctstate",
        states,
        "-j",
        "ACCEPT",
    ];
    one_rule(machine, plan, chain, &back, reason).await
}

/// Exactly one rule, as `iptables -t TABLE -S CHAIN` shows it, at the end of its chain.
async fn one_rule(
    machine: &Machine,
    plan: &mut Plan,
    (table, chain): (&str, &str),
    rule: &[&str],
    reason: &str,
) -> HostResult<()> {
    let listed = machine
        .ask("iptables", &["-t", table, "-S", chain])
        .await?
        .success("iptables")?;
    let shown = format!("-A {chain} {}", rule.join(" "));
    let lines = listed.stdout.lines();
    let count = lines.filter(|line| line.trim() == shown).count();
    let change = |way: &str| {
        let arguments = [&["-t", table, way, chain], rule].concat();
        Action::run("iptables", &arguments)
    };
    if count == 0 {
        plan.step(change("-A"), reason);
    }
    for _ in 1..count {
        plan.step(change("-D"), "one rule is enough");
    }
    Ok(())
}

/// What dnsmasq serves on the bridge.
fn dnsmasq_text(network: &Network, dhcp: &Dhcp) -> Option<String> {
    let guests = subnet(&network.gateway)?;
    let (first, length) = guests.split_once('/')?;
    let (gateway, _) = network.gateway.split_once('/')?;
    let length: u32 = length.parse().ok()?;
    let mask = std::net::Ipv4Addr::from(u32::MAX.checked_shl(32 - length).unwrap_or(0));
    let bridge = &network.bridge;
    // another dnsmasq of the host, or a resolver, has port 53 unless guests are to be given names
    let port = match network.host_services.contains(&HostService::Dns) {
        true => "",
        false => "port=0\n",
    };
    Some(format!(
        "# Written by gpuaas-node-agent net-baseline: addresses of the guests, each reserved by the agent.\n\
         {port}interface={bridge}\nexcept-interface=lo\nbind-dynamic\n\
         dhcp-range={first},static,{mask},1h\ndhcp-option=option:router,{gateway}\n\
         dhcp-authoritative\nno-ping\ndhcp-ignore-clid\ndhcp-hostsdir={}\ndhcp-leasefile={}\n",
        dhcp.hosts_dir.display(),
        dhcp.leases_file.display()
    ))
}

async fn dnsmasq(
    machine: &Machine,
    plan: &mut Plan,
    network: &Network,
    dhcp: &Dhcp,
    manage_systemd: bool,
) -> HostResult<()> {
    let reason = "addresses of the guests";
    if !machine.root.exists(&dhcp.hosts_dir) {
        let (path, mode) = (dhcp.hosts_dir.clone(), 0o755);
        plan.step(
            Action::MakeFolder { path, mode },
            "the agent's reservations",
        );
    }
    let text = dnsmasq_text(network, dhcp).unwrap_or_default();
    let written = plan.file(machine, DNSMASQ_FILE, (&text, 0o644), None, reason)?;
    if !manage_systemd {
        return Ok(());
    }
    let found = unit(machine, DNSMASQ).await?;
    if !found.is_enabled {
        plan.run("systemctl", &["enable", DNSMASQ], reason);
    }
    // an earlier run may have been broken off between the file and the restart
    if written || !found.is_active || began_before(machine, DNSMASQ, DNSMASQ_FILE).await {
        plan.run("systemctl", &["restart", DNSMASQ], reason);
    }
    Ok(())
}

/// The link to a BlueField card, where there is one (I-92).
async fn tmfifo(machine: &Machine, plan: &mut Plan, manage_systemd: bool) -> HostResult<()> {
    if manage_systemd {
        let rshim = "rshim.service";
        if unit(machine, rshim).await?.is_there {
            enable_now(machine, plan, rshim, "the link to the BlueField card").await?;
        }
    }
    match link(machine, TMFIFO).await? {
        None => plan.note(format!("{TMFIFO} is not there: no BlueField card to reach")),
        Some(found) => {
            address(machine, plan, TMFIFO, TMFIFO_ADDRESS).await?;
            if !is_up(&found) {
                let arguments = ["link", "set", "dev", TMFIFO, "up"];
                plan.run("ip", &arguments, "the link to the BlueField card");
            }
        }
    }
    Ok(())
}

/// Whether the configuration of dnsmasq is there (A-148, A-157).
pub fn has_dnsmasq_file(root: &HostRoot) -> bool {
    root.exists(DNSMASQ_FILE)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of the subnet of J-03.
    #[test]
    fn i_222_dnsmasq_serves_reserved_addresses_on_the_bridge_alone() {
        let text = dnsmasq_text(&Network::default(), &Dhcp::default()).unwrap();
        for line in [
            "interface=ovsbr0",
            "except-interface=lo",
            "port=0",
            "dhcp-range=10.100.0.0,static,255.255.255.0,1h",
            "dhcp-option=option:router,10.100.0.1",
            "dhcp-hostsdir=/etc/dnsmasq.d/gpuaas-hosts",
            // P11: a lease is found by the hardware address, which the rules of the network bind, and by nothing else
            "dhcp-ignore-clid",
        ] {
            assert!(text.lines().any(|own| own == line), "{line} in {text}");
        }
        let with_names = Network {
            host_services: vec![HostService::Dhcp, HostService::Dns],
            ..Network::default()
        };
        let text = dnsmasq_text(&with_names, &Dhcp::default()).unwrap();
        assert!(!text.contains("port=0"));
    }
}
