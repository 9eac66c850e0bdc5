//! The place of a guest that is none: from its port the host sends itself packets, to see what would become of a guest's.
//!
//! Its rules are those of every guest, so what it sends goes their way, and they are always in force: a packet changes no
//! rule. At the last hook of the packet filter, behind all masquerading, what it sent is counted and dropped; nothing of
//! it leaves the host.
use std::net::Ipv4Addr;

use serde_json::Value;

use super::filter::TABLE;
use super::guest::Guest;
use crate::ip::Ipv4Net;
use crate::settings::Network;

/// Name of its port. No guest has it: what follows the prefix is no hexadecimal digit.
pub const PORT: &str = "gsprobe";
/// Number of its port on a switch, which is asked for.
pub const PORT_NUMBER: u32 = 65000;
/// Of the range that everybody may use for himself.
const MAC: &str = "02:67:70:72:6f:62";
const CHAIN: &str = "probe";
/// Behind all masquerading.
const PRIORITY: u32 = 300;
const AS_SENT: &str = "as sent";
const MASQUERADED: &str = "masqueraded";

/// The guest that is none: at the highest address of the guests' network that nobody has. None where the network has no
/// such address.
pub fn guest(network: &Network, guests: &[Guest]) -> Option<Guest> {
    let (gateway, length) = network.gateway.split_once('/')?;
    let gateway: Ipv4Addr = gateway.parse().ok()?;
    let length: u32 = length
        .parse()
        .ok()
        .filter(|length| (1..=30).contains(length))?;
    let mask = u32::MAX << (32 - length);
    let (first, last) = (u32::from(gateway) & mask, u32::from(gateway) | !mask);
    let is_free = |ip: &Ipv4Addr| *ip != gateway && guests.iter().all(|guest| guest.ip != *ip);
    let ip = (first + 1..last).rev().map(Ipv4Addr::from).find(is_free)?;
    Some(Guest {
        port: PORT.to_owned(),
        mac: MAC.parse().ok()?,
        ip,
        group: None,
    })
}

/// The chain that counts and drops what it sent, to be added to our table.
pub fn document(network: &Network, guest: &Guest) -> String {
    let Some(subnet) = subnet(network) else {
        return String::new();
    };
    // to the outside alone: an answer that there is no way is no packet that left
    let (from, to) = (guest.ip, network.outside);
    let own = format!("ct original ip saddr {from} ip daddr {to}");
    format!(
        r#"table inet {TABLE} {{
  chain {CHAIN} {{
    type filter hook postrouting priority {PRIORITY}; policy accept;
    {own} ip saddr {subnet} counter drop comment "{AS_SENT}"
    {own} counter drop comment "{MASQUERADED}"
  }}
}}
"#
    )
}

fn subnet(network: &Network) -> Option<Ipv4Net> {
    crate::topology::network::subnet(&network.gateway)?
        .parse()
        .ok()
}

/// How many packets it sent came to their end, and how.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counted {
    /// With the address they were sent from.
    pub as_sent: u64,
    /// With another one.
    pub masqueraded: u64,
}

impl Counted {
    /// Words of nft that list the counters.
    pub const LIST: [&'static str; 6] = ["--json", "list", "chain", "inet", TABLE, CHAIN];

    /// Reads what nft lists; `None` where the chain is not as this agent makes it.
    pub fn parse(listed: &str) -> Option<Self> {
        let listed: Value = serde_json::from_str(listed).ok()?;
        let rules = listed["nftables"].as_array()?;
        let count = |comment: &str| {
            let rule = rules
                .iter()
                .filter_map(|item| item.get("rule"))
                .find(|rule| rule["comment"] == comment)?;
            let terms = rule["expr"].as_array()?;
            terms
                .iter()
                .find_map(|term| term.get("counter")?["packets"].as_u64())
        };
        Some(Self {
            as_sent: count(AS_SENT)?,
            masqueraded: count(MASQUERADED)?,
        })
    }

    /// What came since. The counters begin anew when the rules are put again.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        let more = |now: u64, before: u64| now.checked_sub(before).unwrap_or(now);
        Self {
            as_sent: more(self.as_sent, before.as_sent),
            masqueraded: more(self.masqueraded, before.masqueraded),
        }
    }

    /// Anything came.
    pub fn is_any(self) -> bool {
        self != Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::super::guest::guests;
    use super::*;

    #[test]
    fn the_probe_has_an_address_that_no_guest_has() {
        let network = Network::default();
        let own = guest(&network, &guests()).unwrap();
        assert_eq!(
            (own.ip, own.port.as_str()),
            (Ipv4Addr::new(10, 100, 0, 254), "gsprobe")
        );
        assert!(own.port.starts_with(crate::ids::PORT_PREFIX));
        let mut taken = guests();
        taken[0].ip = own.ip;
        let next = guest(&network, &taken).unwrap();
        assert_eq!(next.ip, Ipv4Addr::new(10, 100, 0, 253));
        for (gateway, ip) in [
            ("10.100.0.254/24", Some("10.100.0.253")),
            ("10.1.2.1/30", Some("10.1.2.2")),
            ("10.1.2.1/31", None),
            ("10.1.2.1", None),
        ] {
            let network = Network {
                gateway: gateway.into(),
                ..Network::default()
            };
            let found = guest(&network, &[]).map(|guest| guest.ip.to_string());
            assert_eq!(found.as_deref(), ip, "{gateway}");
        }
    }

    #[test]
    fn inc_01_what_the_probe_sent_is_counted_behind_the_masquerading_and_dropped() {
        let network = Network::default();
        let own = guest(&network, &[]).unwrap();
        let text = document(&network, &own);
        let rules: Vec<&str> = text
            .lines()
            .filter(|line| line.contains("counter"))
            .collect();
        assert_eq!(rules.len(), 2, "{text}");
        for rule in rules {
            assert!(
                rule.contains("ct original ip saddr 10.100.0.254 ip daddr 192.175.48.1 "),
                "{rule}"
            );
            assert!(rule.contains("counter drop comment"), "{rule}");
        }
    }

    #[test]
    fn counters_are_read_and_compared() {
        let rule = |comment: &str, packets: u64| {
            serde_json::json!({"rule": {"family": "inet", "comment": comment, "expr": [
                {"match": {}}, {"counter": {"packets": packets, "bytes": 0}}, {"drop": null}]}})
        };
        let listed = |items: &[Value]| serde_json::json!({"nftables": items}).to_string();
        let both = listed(&[
            serde_json::json!({"chain": {}}),
            rule("as sent", 2),
            rule("masqueraded", 7),
        ]);
        let counted = Counted::parse(&both).unwrap();
        assert_eq!((counted.as_sent, counted.masqueraded), (2, 7));
        assert_eq!(Counted::parse(&listed(&[rule("as sent", 2)])), None);
        assert_eq!(Counted::parse("nonsense"), None);
        let later = Counted {
            as_sent: 0,
            masqueraded: 8,
        };
        let news = later.since(counted);
        assert_eq!(
            (news.as_sent, news.masqueraded),
            (0, 1),
            "the counters of one began anew"
        );
        assert!(!counted.since(counted).is_any());
    }
}
