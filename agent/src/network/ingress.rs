//! The rules of ingress mappings (J-13), as a part of the packet filter's document: ports of the address that the operator gave to
//! the platform lead to ports of guests, and to no guest by anything else.
//!
//! Translation happens once for each connection, when it begins. So what is on its way to and from a guest through an external port
//! is held against the mappings too, by a mark that each such connection bears: it ends with its mapping, and reaches no other guest
//! and no other port than the mapping says, also when address and port have another owner by then, or the settings name others.
//!
//! A rule needs the guest's reservation: without it, or with the address reserved for another guest, there is none.
use std::fmt::Write as _;
use std::net::Ipv4Addr;

use gpuaas_proto::gpuaas::agent::v1 as pb;

use super::filter::TABLE;
use crate::dhcp::Reservation;
use crate::ids::AllocationId;
use crate::ingress::{Ingress, Owned, Protocol};
use crate::ip::Ipv4Net;
use crate::settings::Network;

/// Marks the connections that came in by a mapping. Those of guests have marks of their own, and are never translated so.
const MARK: &str = "0x67707561";

/// An external port that leads to a guest's port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opening {
    pub protocol: Protocol,
    pub external_port: u16,
    /// Address of the guest.
    pub ip: Ipv4Addr,
    pub vm_port: u16,
    /// Who may connect; empty: everybody.
    pub sources: Vec<Ipv4Net>,
}

/// What is open now: mappings of guests that have an address here, to what the platform owns, before their expiry.
pub fn openings(
    owned: Owned,
    wanted: &[pb::AllocationIngress],
    reservations: &[Reservation],
    now: jiff::Timestamp,
) -> Vec<Opening> {
    let address = |allocation: AllocationId| {
        let vm = allocation.vm_name();
        reservations
            .iter()
            .find(|one| one.vm == vm)
            .map(|one| one.ip)
    };
    // what does not parse was refused when it was set
    let sets = wanted.iter().filter_map(|set| Ingress::parse(set).ok());
    let open = sets.filter_map(|set| Some((address(set.allocation)?, set.rules)));
    let mut found = Vec::new();
    for (ip, rules) in open {
        let is_over = |ends: i64| ends <= now.as_millisecond();
        let rules = rules.into_iter();
        let valid = rules.filter(|rule| owned.has(rule) && !rule.expires_ms.is_some_and(is_over));
        found.extend(valid.map(|rule| Opening {
            protocol: rule.protocol,
            external_port: rule.external_port,
            ip,
            vm_port: rule.vm_port,
            sources: rule.sources,
        }));
    }
    found
}

/// The chains of these mappings, to be added to our table. Where the platform owns nothing, or nothing any more, they let nothing
/// through of what was opened before.
pub fn document(network: &Network, owned: Option<Owned>, openings: &[Opening]) -> String {
    let bridge = network.bridge.as_str();
    let (mut translated, mut open) = (String::new(), String::new());
    let way_in = owned.map_or_else(String::new, |Owned { address, .. }| {
        format!("    iifname != \"{bridge}\" ip daddr {address} jump ingress_ports\n")
    });
    let to_owned = owned.map_or_else(String::new, |Owned { address, .. }| {
        format!("ct original ip daddr {address} ")
    });
    for one in openings {
        let Opening {
            protocol,
            external_port,
            ip,
            vm_port,
            sources,
        } = one;
        let protocol = protocol.as_str();
        let (from, of) = match set_of(sources) {
            Some(set) => (
                format!("ip saddr {set} "),
                format!("ct original ip saddr {set} "),
            ),
            None => (String::new(), String::new()),
        };
        let _infallible = writeln!(
            translated,
            "    {from}{protocol} dport {external_port} ct mark set {MARK} dnat ip to {ip}:{vm_port}"
        );
        let _infallible = writeln!(
            open,
            "    meta l4proto {protocol} {to_owned}ct original proto-dst {external_port} ct reply ip saddr {ip} \
             ct reply proto-src {vm_port} {of}return"
        );
    }
    format!(
        r#"table inet {TABLE} {{
  chain ingress {{
    type nat hook prerouting priority dstnat - 1; policy accept;
{way_in}  }}
  chain ingress_ports {{
{translated}  }}
  chain ingress_forward {{
    type filter hook forward priority filter - 11; policy accept;
    ct mark {MARK} ct status dnat jump ingress_open
  }}
  chain ingress_open {{
{open}    drop
  }}
}}
"#
    )
}

/// Networks as a set of nft, which takes none that lies in another; none: everybody.
fn set_of(networks: &[Ipv4Net]) -> Option<String> {
    let mut widest: Vec<&Ipv4Net> = Vec::new();
    let lies_in = |inner: &Ipv4Net, outer: &Ipv4Net| {
        let (first, last) = inner.ends();
        outer.contains(first) && outer.contains(last)
    };
    for network in networks {
        if !widest.iter().any(|outer| lies_in(network, outer)) {
            widest.retain(|inner| !lies_in(inner, network));
            widest.push(network);
        }
    }
    let everybody = (Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST);
    if widest.is_empty() || widest.iter().any(|network| network.ends() == everybody) {
        return None;
    }
    let names: Vec<String> = widest.iter().map(ToString::to_string).collect();
    Some(format!("{{ {} }}", names.join(", ")))
}

#[cfg(test)]
mod tests {
    use gpuaas_proto::gpuaas::common::v1::IngressProtocol;
    use uuid::Uuid;

    use super::*;

    fn owned() -> Owned {
        Owned {
            address: "203.0.113.7".parse().unwrap(),
            ports: "30000-30999".parse().unwrap(),
        }
    }

    fn opening(sources: &[&str]) -> Opening {
        Opening {
            protocol: Protocol::Tcp,
            external_port: 30_000,
            ip: Ipv4Addr::new(10, 100, 0, 10),
            vm_port: 22,
            sources: sources.iter().map(|text| text.parse().unwrap()).collect(),
        }
    }

    #[test]
    fn j_13_an_external_port_leads_to_the_port_of_its_guest_and_nowhere_else() {
        let udp = Opening {
            protocol: Protocol::Udp,
            external_port: 30_001,
            vm_port: 53,
            ..opening(&["198.51.100.0/24", "192.0.2.1/32"])
        };
        let text = document(&Network::default(), Some(owned()), &[opening(&[]), udp]);
        for line in [
            r#"iifname != "ovsbr0" ip daddr 203.0.113.7 jump ingress_ports"#,
            "tcp dport 30000 ct mark set 0x67707561 dnat ip to 10.100.0.10:22",
            "ip saddr { 198.51.100.0/24, 192.0.2.1/32 } udp dport 30001 ct mark set 0x67707561 dnat ip to 10.100.0.10:53",
            "meta l4proto tcp ct original ip daddr 203.0.113.7 ct original proto-dst 30000 ct reply ip saddr 10.100.0.10 ct reply proto-src 22 return",
            "meta l4proto udp ct original ip daddr 203.0.113.7 ct original proto-dst 30001 ct reply ip saddr 10.100.0.10 ct reply proto-src 53 \
             ct original ip saddr { 198.51.100.0/24, 192.0.2.1/32 } return",
        ] {
            assert_eq!(text.matches(line).count(), 1, "{line} in {text}");
        }
        // what no mapping lets through any more is dropped, of connections too
        for owned in [Some(owned()), None] {
            let none = document(&Network::default(), owned, &[]);
            assert!(
                none.contains("ct mark 0x67707561 ct status dnat jump ingress_open")
                    && none.contains("chain ingress_open {\n    drop\n"),
                "{none}"
            );
            assert!(!none.contains("dnat ip to"), "{none}");
            assert_eq!(none.contains("jump ingress_ports"), owned.is_some());
        }
    }

    #[test]
    fn networks_that_lie_in_others_are_not_named_twice() {
        let set = |networks: &[&str]| set_of(&opening(networks).sources);
        assert_eq!(set(&[]), None);
        assert_eq!(set(&["10.0.0.0/8", "0.0.0.0/0"]), None);
        assert_eq!(
            set(&[
                "10.1.0.0/16",
                "10.0.0.0/8",
                "10.2.0.0/16",
                "192.0.2.0/24",
                "10.0.0.0/8"
            ])
            .unwrap(),
            "{ 10.0.0.0/8, 192.0.2.0/24 }"
        );
    }

    #[test]
    fn j_13_a_mapping_is_open_while_its_guest_has_its_address_and_until_it_expires() {
        let [one, two] = [1, 2].map(|id| AllocationId(Uuid::from_u128(id)));
        let rule = |port, seconds: Option<i64>| pb::IngressRule {
            protocol: IngressProtocol::Tcp.into(),
            vm_port: 22,
            external_address: "203.0.113.7".into(),
            external_port: port,
            source_cidrs: Vec::new(),
            expire_time: seconds.map(|seconds| prost_types::Timestamp { seconds, nanos: 0 }),
        };
        let set = |allocation: AllocationId, rules| pb::AllocationIngress {
            allocation_id: allocation.to_string(),
            version: 1,
            rules,
        };
        let reserved = |allocation: AllocationId| Reservation {
            vm: allocation.vm_name(),
            mac: "52:54:00:10:00:0a".parse().unwrap(),
            ip: Ipv4Addr::new(10, 100, 0, 10),
            group: None,
            version: 0,
        };
        let wanted = [
            set(
                one,
                vec![
                    rule(30_000, None),
                    rule(30_001, Some(10)),
                    rule(31_000, None),
                ],
            ),
            set(two, vec![rule(30_002, None)]),
        ];
        let open = |of: AllocationId, second| {
            let now = jiff::Timestamp::from_second(second).unwrap();
            let found = openings(owned(), &wanted, &[reserved(of)], now);
            found
                .iter()
                .map(|one| one.external_port)
                .collect::<Vec<_>>()
        };
        // the last one is not what the platform owns
        assert_eq!(open(one, 9), [30_000, 30_001]);
        assert_eq!(open(one, 10), [30_000]);
        // the next guest has the address now, and its own mappings alone
        assert_eq!(open(two, 10), [30_002]);
    }

    /// nft itself reads the document, where it is installed.
    #[test]
    fn the_document_is_what_nft_understands() {
        let found = std::process::Command::new("nft").arg("--version").output();
        if found.is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound) {
            eprintln!("skipped: nft is not installed, so nothing read the document");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("rules");
        let network = Network::default();
        let udp = Opening {
            protocol: Protocol::Udp,
            ..opening(&["198.51.100.0/24", "192.0.2.1/32"])
        };
        let mut text = super::super::filter::document(&network, &super::super::guest::guests());
        text.push_str(&document(&network, Some(owned()), &[opening(&[]), udp]));
        std::fs::write(&file, &text).unwrap();
        let run = std::process::Command::new("unshare")
            .args(["--map-root-user", "--net", "nft", "--check", "--file"])
            .arg(&file)
            .output()
            .unwrap();
        let reported = String::from_utf8_lossy(&run.stderr);
        assert!(run.status.success(), "{reported}\n{text}");
    }
}
