//! The rules of the host's packet filter, as a document of nft: what guests reach of the host and through it.
use std::fmt::Write as _;
use std::net::Ipv4Addr;

use super::guest::{Guest, any_port};
use crate::ids::Mac;
use crate::metadata::{self, ADDRESS as METADATA};
use crate::settings::{HostService, Network};

/// Name of our tables, in every family.
pub const TABLE: &str = "gpuaas_guests";

/// What is no address of the Internet (RFC 6890 and multicast). The host's network, other hosts and the control plane
/// are there.
const SPECIAL: &str = "0.0.0.0/8, 10.0.0.0/8, 100.64.0.0/10, 127.0.0.0/8, 169.254.0.0/16, 172.16.0.0/12, \
    192.0.0.0/24, 192.0.2.0/24, 192.88.99.0/24, 192.168.0.0/16, 198.18.0.0/15, 198.51.100.0/24, 203.0.113.0/24, \
    224.0.0.0/3";

/// The tables, each put in place of the one before it in one transaction.
pub fn document(network: &Network, guests: &[Guest]) -> String {
    let bridge = network.bridge.as_str();
    let ports = any_port();
    let mut text = String::new();
    for family in ["inet", "arp"] {
        // a table that is added first can be deleted whether or not it was there
        let _infallible = writeln!(
            text,
            "add table {family} {TABLE}\ndelete table {family} {TABLE}"
        );
    }
    let services = services(network, guests);
    let only_guests = match metadata::is_named(network) {
        // the address is the host's, and the host answers at it whichever way a packet comes
        true => format!("    iifname != \"{bridge}\" ip daddr {METADATA} drop\n"),
        false => String::new(),
    };
    // a connection is of the tenant who sends on it, and nothing of it reaches the next one at its address; 0 is of an agent that marked none
    let (mut marks, mut answers) = (String::new(), String::new());
    for guest in guests {
        let (ip, mark) = (guest.ip, mark(guest));
        let _infallible = writeln!(
            marks,
            "    ip saddr {ip} ct direction original ct mark set {mark}"
        );
        let _infallible = writeln!(
            answers,
            "    ip daddr {ip} ct direction reply ct mark != {{ 0x0, {mark} }} drop"
        );
    }
    // a kernel that shows the frames of bridges to this filter too (br_netfilter): the bridge's own rules have let them through
    let mut between = String::new();
    for guest in guests {
        let others = guests.iter().filter(|other| guest.is_with(other));
        for other in others {
            let _infallible = writeln!(
                between,
                "    ip saddr {} ip daddr {} accept",
                guest.ip, other.ip
            );
        }
    }
    let mut outward = String::new();
    for net in &network.unreachable {
        let _infallible = writeln!(outward, "    ip daddr {net} drop");
    }
    for net in &network.reachable {
        let _infallible = writeln!(outward, "    ip daddr {net} accept");
    }
    let mut inward = String::new();
    for net in &network.routed_sources {
        let _infallible = writeln!(inward, "    ip saddr {net} accept");
    }
    if !inward.is_empty() {
        // a router on the way says that an answer is too large for it
        inward.push_str("    ct state related ip protocol icmp accept\n");
    }
    let _infallible = write!(
        text,
        r#"table inet {TABLE} {{
  chain prerouting {{
    type filter hook prerouting priority raw; policy accept;
    iifname "{ports}" drop
  }}
  chain input {{
    type filter hook input priority filter - 10; policy accept;
{only_guests}    iifname "{bridge}" jump to_host
  }}
  chain to_host {{
    meta nfproto ipv6 drop
{services}    udp dport 67 drop
    ct state established,related accept
    drop
  }}
  chain forward {{
    type filter hook forward priority filter - 10; policy accept;
    iifname "{bridge}" jump through_host
    oifname "{bridge}" jump to_guests
  }}
  chain to_guests {{
    meta nfproto ipv6 drop
{answers}    ct direction reply accept
    ct status dnat accept
{inward}    drop
  }}
  chain through_host {{
    meta nfproto ipv6 drop
{between}    oifname "{bridge}" drop
{marks}    ct state established,related accept
{outward}    ip daddr {{ {SPECIAL} }} drop
  }}
}}
table arp {TABLE} {{
  chain input {{
    type filter hook input priority filter; policy accept;
    iifname "{ports}" drop
  }}
}}
"#
    );
    text
}

/// What of the host the profile names.
fn services(network: &Network, guests: &[Guest]) -> String {
    let gateway = network.gateway.split('/').next().unwrap_or_default();
    let mut text = String::new();
    let mut rule = |line: &str| {
        let _infallible = writeln!(text, "    {line}");
    };
    for service in &network.host_services {
        match service {
            // for itself: not for a neighbour's hardware address, not about its lease, not as a relay
            HostService::Dhcp => guests.iter().for_each(|Guest { mac, ip, .. }| {
                rule(&format!(
                    "ether saddr {mac} udp sport 68 udp dport 67 @th,288,48 {} @th,160,32 {{ 0x0, {} }} \
                     @th,256,32 0x0 accept",
                    hex_of_mac(mac),
                    hex_of_ip(*ip)
                ));
            }),
            HostService::Dns => {
                rule(&format!("ip daddr {gateway} udp dport 53 accept"));
                rule(&format!("ip daddr {gateway} tcp dport 53 accept"));
            }
            HostService::Metadata => rule(&format!("ip daddr {METADATA} tcp dport 80 accept")),
            HostService::Ping => rule(&format!("ip daddr {gateway} icmp type echo-request accept")),
        }
    }
    text
}

/// What marks the connections of a guest: the end of its port's name, which is of its allocation. The port of the probe has
/// none.
fn mark(guest: &Guest) -> String {
    let (_, end) = guest.port.split_at(guest.port.len().saturating_sub(8));
    format!("{:#x}", u32::from_str_radix(end, 16).unwrap_or(1).max(1))
}

fn hex_of_mac(mac: &Mac) -> String {
    format!("0x{}", mac.as_str().replace(':', ""))
}

fn hex_of_ip(ip: Ipv4Addr) -> String {
    format!("0x{:08x}", u32::from(ip))
}

#[cfg(test)]
mod tests {
    use super::super::guest::{grouped, guests};
    use super::*;

    /// The rules of a chain, in order.
    fn chain(text: &str, family: &str, name: &str) -> Vec<String> {
        let (_, table) = text
            .split_once(&format!("table {family} {TABLE} {{"))
            .unwrap();
        let (_, chain) = table.split_once(&format!("chain {name} {{\n")).unwrap();
        let (chain, _) = chain
            .split_once('}')
            .filter(|(rules, _)| !rules.contains('{'))
            .unwrap_or_else(|| chain.split_once("\n  }\n").unwrap());
        chain
            .lines()
            .map(|line| line.trim().to_owned())
            .filter(|line| !line.is_empty())
            .collect()
    }

    #[test]
    fn p11_of_the_host_a_guest_reaches_what_the_profile_names() {
        let text = document(&Network::default(), &guests());
        let to_host = chain(&text, "inet", "to_host");
        assert_eq!(to_host[0], "meta nfproto ipv6 drop");
        // of an open flow too, a guest sends to the DHCP server for itself alone
        assert_eq!(
            to_host[3..],
            [
                "udp dport 67 drop",
                "ct state established,related accept",
                "drop"
            ],
            "{text}"
        );
        assert_eq!(
            to_host[1],
            "ether saddr 52:54:00:10:00:0a udp sport 68 udp dport 67 @th,288,48 0x52540010000a \
             @th,160,32 { 0x0, 0x0a64000a } @th,256,32 0x0 accept"
        );
        let all = Network {
            host_services: vec![HostService::Dns, HostService::Metadata, HostService::Ping],
            ..Network::default()
        };
        assert_eq!(
            chain(&document(&all, &[]), "inet", "to_host")[1..],
            [
                "ip daddr 10.100.0.1 udp dport 53 accept",
                "ip daddr 10.100.0.1 tcp dport 53 accept",
                "ip daddr 169.254.169.254 tcp dport 80 accept",
                "ip daddr 10.100.0.1 icmp type echo-request accept",
                "udp dport 67 drop",
                "ct state established,related accept",
                "drop"
            ]
        );
        // the host answers at the address of its metadata service to guests alone
        let only_guests = "iifname != \"ovsbr0\" ip daddr 169.254.169.254 drop";
        let input = chain(&document(&all, &[]), "inet", "input");
        assert_eq!(input[1], only_guests);
        assert!(!text.contains("169.254.169.254"), "{text}");
    }

    #[test]
    fn p11_through_the_host_a_guest_reaches_neither_guests_nor_private_networks() {
        let network = Network {
            reachable: vec!["10.20.0.0/16".parse().unwrap()],
            unreachable: vec!["203.0.114.0/24".parse().unwrap()],
            ..Network::default()
        };
        let rules = chain(&document(&network, &guests()), "inet", "through_host");
        assert_eq!(
            rules[..7],
            [
                "meta nfproto ipv6 drop",
                "oifname \"ovsbr0\" drop",
                "ip saddr 10.100.0.10 ct direction original ct mark set 0x456789aa",
                "ip saddr 10.100.0.11 ct direction original ct mark set 0x456789bb",
                "ct state established,related accept",
                "ip daddr 203.0.114.0/24 drop",
                "ip daddr 10.20.0.0/16 accept",
            ]
        );
        assert!(rules[7].starts_with("ip daddr { 0.0.0.0/8,") && rules[7].ends_with("} drop"));
        assert_eq!(rules.len(), 8);
    }

    /// A host with br_netfilter, as Docker needs it, asks these rules about frames between guests of a Linux bridge.
    #[test]
    fn p11_frames_of_a_bridge_pass_between_guests_of_one_group_alone() {
        let rules = chain(
            &document(&Network::default(), &grouped()),
            "inet",
            "through_host",
        );
        assert_eq!(
            rules[1..4],
            [
                "ip saddr 10.100.0.10 ip daddr 10.100.0.11 accept",
                "ip saddr 10.100.0.11 ip daddr 10.100.0.10 accept",
                "oifname \"ovsbr0\" drop",
            ]
        );
    }

    #[test]
    fn p11_from_outside_a_guest_is_reached_by_answers_and_translated_ports_alone() {
        let rules = |network: &Network| chain(&document(network, &guests()), "inet", "to_guests");
        let always = [
            "meta nfproto ipv6 drop",
            "ip daddr 10.100.0.10 ct direction reply ct mark != { 0x0, 0x456789aa } drop",
            "ip daddr 10.100.0.11 ct direction reply ct mark != { 0x0, 0x456789bb } drop",
            "ct direction reply accept",
            "ct status dnat accept",
        ];
        let default = rules(&Network::default());
        assert_eq!(default[..5], always);
        assert_eq!(default[5..], ["drop"]);
        let routed = rules(&Network {
            routed_sources: vec!["10.30.0.0/16".parse().unwrap()],
            ..Network::default()
        });
        assert_eq!(routed[..5], always);
        assert_eq!(
            routed[5..],
            [
                "ip saddr 10.30.0.0/16 accept",
                "ct state related ip protocol icmp accept",
                "drop"
            ]
        );
    }

    /// A switch in user space reads a guest's frames beside the kernel, which would take them for its own.
    #[test]
    fn p11_the_kernel_takes_nothing_from_a_guests_port() {
        let text = document(&Network::default(), &[]);
        for (family, name) in [("inet", "prerouting"), ("arp", "input")] {
            let rules = chain(&text, family, name);
            assert_eq!(rules.last().unwrap(), "iifname \"gs*\" drop", "{family}");
            assert_eq!(rules.len(), 2, "{family}");
        }
    }

    /// nft itself reads the document, where it is installed.
    #[test]
    fn p11_the_documents_are_what_nft_understands() {
        let dir = tempfile::tempdir().unwrap();
        let network = Network {
            host_services: vec![
                HostService::Dhcp,
                HostService::Dns,
                HostService::Metadata,
                HostService::Ping,
            ],
            reachable: vec!["10.20.0.0/16".parse().unwrap()],
            unreachable: vec!["203.0.114.0/24".parse().unwrap()],
            routed_sources: vec!["10.30.0.0/16".parse().unwrap()],
            ..Network::default()
        };
        let mut all = guests();
        all.extend(super::super::probe::guest(&network, &all));
        let text = [
            document(&network, &all),
            super::super::bridge::document(&super::super::guest::grouped()),
        ]
        .concat();
        let file = dir.path().join("rules");
        std::fs::write(&file, &text).unwrap();
        let found = std::process::Command::new("nft").arg("--version").output();
        if found.is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound) {
            eprintln!("skipped: nft is not installed, so nothing read the documents");
            return;
        }
        // in a network of its own, whoever runs this: nothing of this machine is read or changed
        let run = std::process::Command::new("unshare")
            .args(["--map-root-user", "--net", "nft", "--check", "--file"])
            .arg(&file)
            .output()
            .unwrap();
        let reported = String::from_utf8_lossy(&run.stderr);
        assert!(run.status.success(), "{reported}\n{text}");
    }
}
