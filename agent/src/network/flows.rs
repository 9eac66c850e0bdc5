//! The rules as OpenFlow flows, for Open vSwitch on any datapath.
//!
//! No flow learns and none floods: each names the one port that a frame may go to. So there is no table of addresses that
//! a guest could fill or lie to.
use super::guest::Guest;

/// Of a frame without a tag, as the switch itself writes it: another way to say it would look like a difference.
const UNTAGGED: &str = "vlan_tci=0x0000/0x1fff";

/// All flows of the bridge, one a line: the guests with the numbers of their ports. A guest without a port has none.
pub fn flows(guests: &[(u32, Guest)]) -> String {
    let mut lines = vec!["table=0, priority=0, actions=drop".to_owned()];
    for (port, guest) in guests {
        lines.extend(from_guest(*port, guest));
        lines.extend(to_guest(*port, guest));
        let others = guests.iter().filter(|(_, other)| guest.is_with(other));
        lines.extend(others.flat_map(|(to, other)| between((*port, guest), (*to, other))));
    }
    if !guests.is_empty() {
        // an answer to a client that cannot take it at its address yet; clients know their own by its transaction
        let outputs: Vec<String> = guests
            .iter()
            .map(|(port, _)| format!("output:{port}"))
            .collect();
        lines.push(format!(
            "table=0, priority=100, in_port=LOCAL, {UNTAGGED}, dl_dst=ff:ff:ff:ff:ff:ff, udp, \
             nw_dst=255.255.255.255, tp_src=67, tp_dst=68, actions={}",
            outputs.join(",")
        ));
    }
    lines.push(String::new());
    lines.join("\n")
}

/// What a guest may send: to the host, as itself, untagged.
fn from_guest(port: u32, Guest { mac, ip, .. }: &Guest) -> Vec<String> {
    let own = format!("in_port={port}, {UNTAGGED}, dl_src={mac}");
    let dhcp = "dl_dst=ff:ff:ff:ff:ff:ff, udp, nw_dst=255.255.255.255, tp_src=68, tp_dst=67";
    vec![
        format!(
            "table=0, priority=100, {own}, arp, arp_op=1, arp_sha={mac}, arp_spa={ip}, actions=LOCAL"
        ),
        format!(
            "table=0, priority=100, {own}, arp, arp_op=2, arp_sha={mac}, arp_spa={ip}, actions=LOCAL"
        ),
        format!("table=0, priority=100, {own}, {dhcp}, nw_src=0.0.0.0, actions=LOCAL"),
        format!("table=0, priority=100, {own}, {dhcp}, nw_src={ip}, actions=LOCAL"),
        // to one receiver: what is sent to all is for nobody here
        format!(
            "table=0, priority=100, {own}, dl_dst=00:00:00:00:00:00/01:00:00:00:00:00, ip, nw_src={ip}, actions=LOCAL"
        ),
        // no guest serves addresses, whatever it sends as
        format!("table=0, priority=200, in_port={port}, udp, tp_src=67, actions=drop"),
    ]
}

/// What a guest may send to another one of its group: as itself, to that one's address and port alone.
fn between((port, guest): (u32, &Guest), (to, other): (u32, &Guest)) -> [String; 4] {
    let Guest { mac, ip, .. } = guest;
    let own = format!("table=0, priority=150, in_port={port}, {UNTAGGED}, dl_src={mac}");
    let arp = |operation: u8| {
        format!(
            "{own}, arp, arp_op={operation}, arp_sha={mac}, arp_spa={ip}, arp_tpa={}, actions=output:{to}",
            other.ip
        )
    };
    let packet = format!(
        "{own}, dl_dst={}, ip, nw_src={ip}, nw_dst={}, actions=output:{to}",
        other.mac, other.ip
    );
    // a fragment has no ports to the switch, so it may be of an answer of a DHCP server
    let fragment = format!(
        "table=0, priority=160, in_port={port}, dl_dst={}, udp, ip_frag=yes, actions=drop",
        other.mac
    );
    [arp(1), arp(2), packet, fragment]
}

/// What reaches a guest: from the host alone, for it alone.
fn to_guest(port: u32, Guest { mac, ip, .. }: &Guest) -> [String; 2] {
    [
        format!(
            "table=0, priority=100, in_port=LOCAL, {UNTAGGED}, arp, arp_tpa={ip}, actions=output:{port}"
        ),
        format!(
            "table=0, priority=100, in_port=LOCAL, {UNTAGGED}, dl_dst={mac}, ip, nw_dst={ip}, actions=output:{port}"
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::guest::guests;
    use super::*;

    fn both() -> Vec<(u32, Guest)> {
        [3, 7].into_iter().zip(guests()).collect()
    }

    #[test]
    fn p11_a_switch_without_guests_passes_nothing() {
        assert_eq!(flows(&[]), "table=0, priority=0, actions=drop\n");
    }

    #[test]
    fn p11_a_port_sends_as_itself_and_to_the_host_alone() {
        let text = flows(&both());
        let from: Vec<&str> = text
            .lines()
            .filter(|line| line.contains("in_port=3,"))
            .collect();
        assert_eq!(from.len(), 6, "{text}");
        for line in from {
            let drops = line.ends_with("actions=drop");
            assert!(drops || line.ends_with("actions=LOCAL"), "{line}");
            assert!(drops || line.contains("dl_src=52:54:00:10:00:0a"), "{line}");
            assert!(drops || line.contains(UNTAGGED), "{line}");
            // who sends an ARP packet or an IPv4 packet says whose address it is
            let named = [
                "arp_spa=10.100.0.10",
                "nw_src=10.100.0.10",
                "nw_src=0.0.0.0",
            ];
            assert!(
                drops || named.iter().any(|name| line.contains(name)),
                "{line}"
            );
            assert!(
                !line.contains("10.100.0.11") && !line.contains("00:0b"),
                "{line}"
            );
        }
        let arp = text
            .lines()
            .filter(|line| line.contains("arp_spa=10.100.0.10"));
        assert!(
            arp.clone().count() == 2
                && arp
                    .clone()
                    .all(|line| line.contains("arp_sha=52:54:00:10:00:0a"))
        );
    }

    /// J-14.
    #[test]
    fn p11_nothing_passes_from_guest_to_guest() {
        let text = flows(&both());
        for line in text.lines().filter(|line| line.contains("output:")) {
            assert!(line.contains("in_port=LOCAL"), "{line}");
        }
        for forbidden in [
            "NORMAL", "FLOOD", "ALL", "IN_PORT,", "ipv6", "icmp6", "learn",
        ] {
            assert!(!text.contains(forbidden), "{forbidden}: {text}");
        }
    }

    #[test]
    fn p11_guests_of_one_group_reach_each_other_as_themselves_and_nobody_else() {
        let all: Vec<(u32, Guest)> = [3, 7, 9]
            .into_iter()
            .zip(super::super::guest::grouped())
            .collect();
        let text = flows(&all);
        let direct: Vec<&str> = text
            .lines()
            .filter(|line| line.contains("output:") && !line.contains("in_port=LOCAL"))
            .collect();
        assert_eq!(direct.len(), 6, "{text}");
        for line in direct {
            let (own, other) = if line.contains("in_port=3,") {
                (("0a", "10.100.0.10"), ("0b", "10.100.0.11", "output:7"))
            } else {
                assert!(line.contains("in_port=7,"), "{line}");
                (("0b", "10.100.0.11"), ("0a", "10.100.0.10", "output:3"))
            };
            assert!(
                line.contains(&format!("dl_src=52:54:00:10:00:{}", own.0)),
                "{line}"
            );
            let from = [format!("nw_src={}", own.1), format!("arp_spa={}", own.1)];
            assert!(from.iter().any(|from| line.contains(from)), "{line}");
            assert!(line.ends_with(other.2) && line.contains(UNTAGGED), "{line}");
            let packet = format!("dl_dst=52:54:00:10:00:{}, ip", other.0);
            let to = [
                format!("arp_tpa={}", other.1),
                format!("nw_dst={}", other.1),
            ];
            assert!(to.iter().any(|to| line.contains(to)), "{line}");
            assert!(line.contains("arp_op=") || line.contains(&packet), "{line}");
        }
        // no guest serves addresses, also to its own, and in fragments
        assert!(text.contains("table=0, priority=160, in_port=3, dl_dst=52:54:00:10:00:0b, udp, ip_frag=yes, actions=drop"));
        assert!(text.contains("table=0, priority=200, in_port=3, udp, tp_src=67, actions=drop"));
    }

    #[test]
    fn p11_a_guest_gets_what_is_for_its_address() {
        let text = flows(&both());
        let to: Vec<&str> = text
            .lines()
            .filter(|line| line.ends_with("actions=output:7"))
            .collect();
        assert_eq!(to.len(), 2, "{text}");
        assert!(to[0].contains("arp_tpa=10.100.0.11"));
        assert!(to[1].contains("dl_dst=52:54:00:10:00:0b, ip, nw_dst=10.100.0.11"));
    }

    #[test]
    fn p11_only_the_host_answers_dhcp() {
        let text = flows(&both());
        let answers: Vec<&str> = text
            .lines()
            .filter(|line| line.contains("tp_src=67"))
            .collect();
        for line in &answers {
            assert!(
                line.contains("in_port=LOCAL")
                    || line.contains("priority=200") && line.ends_with("actions=drop"),
                "{line}"
            );
        }
        assert_eq!(answers.len(), 3);
    }

    /// Open vSwitch itself reads the flows, where it is installed.
    #[test]
    fn p11_the_flows_are_what_open_vswitch_understands() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("flows");
        let guests: Vec<(u32, Guest)> = [3, 7, 9]
            .into_iter()
            .zip(super::super::guest::grouped())
            .collect();
        let text = flows(&guests);
        std::fs::write(&file, &text).unwrap();
        let parsed = std::process::Command::new("ovs-ofctl")
            .arg("parse-flows")
            .arg(&file)
            .output();
        match parsed {
            Ok(parsed) => {
                assert!(
                    parsed.status.success(),
                    "{}",
                    String::from_utf8_lossy(&parsed.stderr)
                );
                // two per guest could be one to the switch if they said the same
                let lines = String::from_utf8_lossy(&parsed.stdout)
                    .lines()
                    .filter(|line| line.contains("actions"))
                    .count();
                assert_eq!(lines, text.lines().count());
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                eprintln!("skipped: ovs-ofctl is not installed, so nothing read the flows");
            }
            Err(error) => panic!("ovs-ofctl: {error}"),
        }
    }
}
