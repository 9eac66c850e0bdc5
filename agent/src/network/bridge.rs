//! The rules of the switch as a document of nft, for hosts whose switch is a Linux bridge.
use std::fmt::Write as _;

use super::filter::{self, TABLE};
use super::guest::{Guest, any_port};
use crate::settings::Network;

/// The rules of the host's packet filter and of the bridge.
pub fn whole_document(network: &Network, guests: &[Guest]) -> String {
    let mut whole = filter::document(network, guests);
    whole.push_str(&document(guests));
    whole
}

/// The table of the bridge family, put in place of the one before it in one transaction.
pub fn document(guests: &[Guest]) -> String {
    let ports = any_port();
    let (mut from, mut between, mut to) = (String::new(), String::new(), String::new());
    for guest in guests {
        let Guest { port, mac, ip, .. } = guest;
        let own = format!("iifname \"{port}\" ether saddr {mac}");
        let _infallible = write!(
            from,
            r#"    {own} arp operation {{ request, reply }} arp saddr ether {mac} arp saddr ip {ip} accept
    iifname "{port}" udp sport 67 drop
    {own} ether daddr ff:ff:ff:ff:ff:ff ip saddr {{ 0.0.0.0, {ip} }} ip daddr 255.255.255.255 udp sport 68 udp dport 67 accept
    {own} ether daddr & 01:00:00:00:00:00 == 00:00:00:00:00:00 ip saddr {ip} accept
"#
        );
        // who sends is checked where a frame comes in; a later fragment has no ports, so it may be of an answer of a DHCP server
        for other in guests.iter().filter(|other| guest.is_with(other)) {
            let ways = format!("iifname \"{port}\" oifname \"{}\"", other.port);
            let _infallible = write!(
                between,
                "    {ways} arp daddr ip {to} accept\n    {ways} ip protocol udp ip frag-off & 0x3fff != 0 drop\n    \
                 {ways} ether daddr {mac} ip saddr {ip} ip daddr {to} accept\n",
                mac = other.mac,
                to = other.ip
            );
        }
        let _infallible = write!(
            to,
            r#"    oifname "{port}" arp daddr ip {ip} accept
    oifname "{port}" ether daddr {mac} ip daddr {ip} accept
    oifname "{port}" ether daddr ff:ff:ff:ff:ff:ff ip daddr 255.255.255.255 udp sport 67 udp dport 68 accept
"#
        );
    }
    format!(
        r#"add table bridge {TABLE}
delete table bridge {TABLE}
table bridge {TABLE} {{
  chain prerouting {{
    type filter hook prerouting priority -300; policy accept;
    iifname "{ports}" jump from_guest
  }}
  chain from_guest {{
    ether type {{ 8021q, 8021ad }} drop
{from}    drop
  }}
  chain forward {{
    type filter hook forward priority -300; policy accept;
{between}    iifname "{ports}" drop
    oifname "{ports}" drop
  }}
  chain output {{
    type filter hook output priority -300; policy accept;
    oifname "{ports}" jump to_guest
  }}
  chain to_guest {{
{to}    drop
  }}
}}
"#
    )
}

#[cfg(test)]
mod tests {
    use super::super::guest::guests;
    use super::*;

    #[test]
    fn p11_on_a_linux_bridge_a_port_sends_as_itself_and_the_rest_is_dropped() {
        let text = document(&guests());
        let (_, from) = text.split_once("chain from_guest {\n").unwrap();
        let (from, _) = from.split_once("\n  }\n").unwrap();
        let lines: Vec<&str> = from.lines().map(str::trim).collect();
        assert_eq!(lines.len(), 10, "{text}");
        // the kernel takes a tag off before the rules see the packet in it
        assert_eq!(lines[0], "ether type { 8021q, 8021ad } drop");
        assert_eq!(lines.last(), Some(&"drop"));
        for line in lines.iter().filter(|line| line.ends_with("accept")) {
            let first = line.contains("gs0123456789aa");
            let (mac, ip) = if first {
                ("00:0a", "10.100.0.10")
            } else {
                ("00:0b", "10.100.0.11")
            };
            assert!(
                line.contains(&format!("ether saddr 52:54:00:10:{mac}")),
                "{line}"
            );
            assert!(line.contains(ip), "{line}");
        }
    }

    /// J-14.
    #[test]
    fn p11_on_a_linux_bridge_nothing_passes_from_guest_to_guest() {
        let text = document(&[]);
        let (_, forward) = text.split_once("chain forward {\n").unwrap();
        let (forward, _) = forward.split_once("\n  }\n").unwrap();
        assert!(
            forward.contains("iifname \"gs*\" drop") && forward.contains("oifname \"gs*\" drop")
        );
        assert!(!forward.contains("accept\n"), "{forward}");
        let alone = document(&guests());
        assert_eq!(alone.matches("oifname \"gs*\" drop").count(), 1);
        assert!(
            !alone.contains("iifname \"gs0123456789aa\" oifname"),
            "{alone}"
        );
        assert!(text.contains("chain to_guest {\n    drop\n"), "{text}");
        assert!(!text.contains("accept\n  }"), "{text}");
    }

    #[test]
    fn p11_on_a_linux_bridge_guests_of_one_group_reach_each_other_alone() {
        let text = document(&super::super::guest::grouped());
        let (_, forward) = text.split_once("chain forward {\n").unwrap();
        let (forward, _) = forward.split_once("\n  }\n").unwrap();
        let lines: Vec<&str> = forward.lines().map(str::trim).skip(1).collect();
        let (one, other) = ("gs0123456789aa", "gs0123456789bb");
        let fragment = "ip protocol udp ip frag-off & 0x3fff != 0 drop";
        assert_eq!(
            lines,
            [
                &format!("iifname \"{one}\" oifname \"{other}\" arp daddr ip 10.100.0.11 accept"),
                &format!("iifname \"{one}\" oifname \"{other}\" {fragment}"),
                &format!(
                    "iifname \"{one}\" oifname \"{other}\" ether daddr 52:54:00:10:00:0b ip saddr 10.100.0.10 ip daddr 10.100.0.11 accept"
                ),
                &format!("iifname \"{other}\" oifname \"{one}\" arp daddr ip 10.100.0.10 accept"),
                &format!("iifname \"{other}\" oifname \"{one}\" {fragment}"),
                &format!(
                    "iifname \"{other}\" oifname \"{one}\" ether daddr 52:54:00:10:00:0a ip saddr 10.100.0.11 ip daddr 10.100.0.10 accept"
                ),
                "iifname \"gs*\" drop",
                "oifname \"gs*\" drop",
            ]
        );
    }
}
