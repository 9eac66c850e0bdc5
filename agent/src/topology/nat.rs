//! Whether the guests' network is masqueraded, judged by what the kernel would do and not by what a line looks like
//! (INC-01): a rule counts only in a chain that packets pass after routing, for exactly this network, not negated, and
//! with no other condition than an interface. Of iptables, whose rules nft cannot always read, the same is asked.
use std::collections::HashSet;

use serde_json::Value;

/// Whether a ruleset, as `nft --json list ruleset` writes it, masquerades the network.
pub fn nft_masquerades(ruleset: &str, subnet: &str) -> bool {
    let Ok(ruleset) = serde_json::from_str::<Value>(ruleset) else {
        return false;
    };
    let items = ruleset["nftables"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    let chains = items.iter().filter_map(|item| item.get("chain"));
    let mut bases = chains.filter(|chain| {
        chain["type"] == "nat"
            && chain["hook"] == "postrouting"
            && matches!(chain["family"].as_str(), Some("ip" | "inet"))
    });
    bases.any(|chain| {
        let walk = Walk {
            rules: items.iter().filter_map(|item| item.get("rule")).collect(),
            family: &chain["family"],
            table: &chain["table"],
            subnet,
        };
        walk.chain(&chain["name"], false, &mut HashSet::new()) == Some(true)
    })
}

/// The rules of one table, as a packet of the network meets them.
struct Walk<'a> {
    rules: Vec<&'a Value>,
    family: &'a Value,
    table: &'a Value,
    subnet: &'a str,
}

/// What a rule requires of a packet of the network.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Condition {
    Always,
    /// That it is of the network.
    Subnet,
    /// An interface, as every packet that leaves has one.
    Interface,
    /// What not every packet of the network is.
    Other,
}

impl Walk<'_> {
    /// What becomes of a packet in a chain: masqueraded, let through as it is, or nothing yet.
    fn chain(&self, name: &Value, of_subnet: bool, seen: &mut HashSet<String>) -> Option<bool> {
        if !seen.insert(name.to_string()) {
            return None;
        }
        let own = |rule: &&&Value| {
            rule["family"] == *self.family && rule["table"] == *self.table && rule["chain"] == *name
        };
        for rule in self.rules.iter().filter(own) {
            let terms = rule["expr"].as_array().map_or(&[][..], Vec::as_slice);
            let conditions: Vec<Condition> =
                terms.iter().map(|term| self.condition(term)).collect();
            if conditions.contains(&Condition::Other) {
                continue;
            }
            let of_subnet = of_subnet || conditions.contains(&Condition::Subnet);
            let always = conditions
                .iter()
                .all(|one| matches!(one, Condition::Always | Condition::Subnet));
            for term in terms {
                if term.get("masquerade").is_some() && of_subnet {
                    return Some(true);
                }
                // every packet of the network ends here
                if always
                    && ["accept", "drop"]
                        .iter()
                        .any(|verdict| term.get(verdict).is_some())
                {
                    return Some(false);
                }
                if always && term.get("return").is_some() {
                    return None;
                }
                let next = term.get("jump").or_else(|| term.get("goto"));
                if let Some(target) = next.and_then(|next| next.get("target"))
                    && let Some(end) = self.chain(target, of_subnet, seen)
                {
                    return Some(end);
                }
            }
        }
        None
    }

    fn condition(&self, term: &Value) -> Condition {
        let Some(test) = term.get("match") else {
            return match term
                .as_object()
                .and_then(|term| term.keys().next())
                .map(String::as_str)
            {
                Some(
                    "masquerade" | "accept" | "drop" | "return" | "jump" | "goto" | "counter"
                    | "comment" | "log",
                ) => Condition::Always,
                // limits, other targets, what this agent does not know
                _ => Condition::Other,
            };
        };
        let (left, right) = (&test["left"], &test["right"]);
        if matches!(
            left["meta"]["key"].as_str(),
            Some("oifname" | "oif" | "iifname" | "iif")
        ) {
            return Condition::Interface;
        }
        let is_source = left["payload"]["protocol"] == "ip" && left["payload"]["field"] == "saddr";
        let network = right["prefix"]["addr"]
            .as_str()
            .zip(right["prefix"]["len"].as_u64())
            .map(|(address, length)| format!("{address}/{length}"));
        let exact = is_source && test["op"] == "==" && network.as_deref() == Some(self.subnet);
        if exact {
            Condition::Subnet
        } else {
            Condition::Other
        }
    }
}

/// Whether rules, as `iptables-save -t nat` writes them, masquerade the network.
pub fn iptables_masquerades(rules: &str, subnet: &str) -> bool {
    rules.lines().any(|line| {
        let Some(rule) = line.strip_prefix("-A POSTROUTING ") else {
            return false;
        };
        let mut words = rule.split_whitespace();
        let (mut of_subnet, mut masquerades) = (false, false);
        let mut negated = false;
        while let Some(word) = words.next() {
            match (word, negated) {
                ("!", _) => {
                    negated = true;
                    continue;
                }
                ("-s", false) if words.next() == Some(subnet) => of_subnet = true,
                ("-o", _) => {
                    words.next();
                }
                ("-j", false) if words.next() == Some("MASQUERADE") => masquerades = true,
                // one more condition, or another target
                _ => return false,
            }
            negated = false;
        }
        of_subnet && masquerades
    })
}

#[cfg(test)]
#[allow(
    clippy::needless_pass_by_value,
    reason = "the documents are written where they are passed"
)]
mod tests {
    use serde_json::json;

    use super::*;

    const SUBNET: &str = "10.100.0.0/24";

    fn base() -> Value {
        json!({"chain": {"family": "ip", "table": "nat", "name": "post", "type": "nat", "hook": "postrouting", "prio": 100}})
    }

    fn source(op: &str, address: &str, length: u64) -> Value {
        json!({"match": {"op": op, "left": {"payload": {"protocol": "ip", "field": "saddr"}},
            "right": {"prefix": {"addr": address, "len": length}}}})
    }

    fn rule(chain: &str, terms: Value) -> Value {
        json!({"rule": {"family": "ip", "table": "nat", "chain": chain, "handle": 3, "expr": terms}})
    }

    fn masquerades(items: Value) -> bool {
        nft_masquerades(&json!({"nftables": items}).to_string(), SUBNET)
    }

    #[test]
    fn inc_01_a_rule_of_exactly_our_network_in_a_hooked_chain_counts() {
        let not_to_bridge =
            json!({"match": {"op": "!=", "left": {"meta": {"key": "oifname"}}, "right": "ovsbr0"}});
        let good = json!([source("==", "10.100.0.0", 24), not_to_bridge, {"counter": {"packets": 0, "bytes": 0}}, {"masquerade": null}]);
        assert!(masquerades(json!([base(), rule("post", good.clone())])));
        // through a chain of its own, as firewalls write it
        let jump = json!([source("==", "10.100.0.0", 24), {"jump": {"target": "guests"}}]);
        assert!(masquerades(json!([
            base(),
            rule("post", jump),
            rule("guests", json!([{"masquerade": {}}]))
        ])));
        // a chain that no packet passes
        let unhooked = json!({"chain": {"family": "ip", "table": "nat", "name": "post"}});
        assert!(!masquerades(json!([unhooked, rule("post", good.clone())])));
        let filter = json!({"chain": {"family": "ip", "table": "nat", "name": "post", "type": "filter", "hook": "forward"}});
        assert!(!masquerades(json!([filter, rule("post", good)])));
    }

    #[test]
    fn inc_01_another_network_a_negation_or_one_more_condition_does_not() {
        let port = json!({"match": {"op": "==", "left": {"payload": {"protocol": "tcp", "field": "dport"}}, "right": 80}});
        for terms in [
            json!([source("!=", "10.100.0.0", 24), {"masquerade": null}]),
            json!([source("==", "10.100.0.0", 16), {"masquerade": null}]),
            json!([source("==", "110.100.0.0", 24), {"masquerade": null}]),
            json!([source("==", "10.100.0.0", 24), port, {"masquerade": null}]),
            json!([source("==", "10.100.0.0", 24), {"limit": {"rate": 1}}, {"masquerade": null}]),
            json!([source("==", "10.100.0.0", 24), {"accept": null}]),
            json!([{"masquerade": null}]),
        ] {
            assert!(
                !masquerades(json!([base(), rule("post", terms.clone())])),
                "{terms}"
            );
        }
    }

    #[test]
    fn inc_01_a_rule_that_no_packet_comes_to_does_not() {
        let good = json!([source("==", "10.100.0.0", 24), {"masquerade": null}]);
        for before in [
            json!([{"accept": null}]),
            json!([source("==", "10.100.0.0", 24), {"return": null}]),
        ] {
            assert!(!masquerades(json!([
                base(),
                rule("post", before),
                rule("post", good.clone())
            ])));
        }
        // of other packets it may say what it likes
        let of_others = json!([source("==", "10.200.0.0", 24), {"return": null}]);
        assert!(masquerades(json!([
            base(),
            rule("post", of_others),
            rule("post", good.clone())
        ])));
        let circle = json!([{"jump": {"target": "post"}}]);
        assert!(masquerades(json!([
            base(),
            rule("post", circle),
            rule("post", good)
        ])));
        assert!(!nft_masquerades("nonsense", SUBNET));
    }

    #[test]
    fn inc_01_of_iptables_the_same_is_asked() {
        for good in [
            "-A POSTROUTING -s 10.100.0.0/24 ! -o ovsbr0 -j MASQUERADE",
            "-A POSTROUTING -s 10.100.0.0/24 -j MASQUERADE",
        ] {
            assert!(iptables_masquerades(good, SUBNET), "{good}");
        }
        for bad in [
            "-A POSTROUTING ! -s 10.100.0.0/24 -j MASQUERADE",
            "-A POSTROUTING -s 110.100.0.0/24 -j MASQUERADE",
            "-A POSTROUTING -s 10.100.0.0/24 -p tcp -j MASQUERADE",
            "-A POSTROUTING -s 10.100.0.0/24 -j ACCEPT",
            "-A POSTROUTING -d 10.100.0.0/24 -j MASQUERADE",
            "-A UNUSED -s 10.100.0.0/24 -j MASQUERADE",
            "# -A POSTROUTING -s 10.100.0.0/24 -j MASQUERADE",
        ] {
            assert!(!iptables_masquerades(bad, SUBNET), "{bad}");
        }
    }
}
