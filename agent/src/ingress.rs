//! Ingress mappings of a host (J-13, L-16): ports of one public address, which the operator gave to the platform, that lead to
//! ports of VMs. The control plane says which; the journal remembers it, and the module `network` makes rules of it.
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};

use gpuaas_proto::gpuaas::agent::v1 as pb;
use gpuaas_proto::gpuaas::common::v1::IngressProtocol;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;

use crate::bounded::Bounded;
use crate::error::{HostError, HostResult};
use crate::ids::AllocationId;
use crate::ip::{Ipv4Net, PortRange};
use crate::settings;

/// Most rules of one allocation.
pub const MAX_RULES: usize = 64;
/// Most networks that one rule names.
pub const MAX_SOURCES: usize = 16;
/// Most slots of a host: each has a port of its own for SSH.
const MOST_SLOTS: u16 = 64;

/// What the platform may open on this host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owned {
    pub address: Ipv4Addr,
    pub ports: PortRange,
}

impl Owned {
    /// What the settings name; none: ingress is off.
    pub fn of(settings: &settings::Ingress) -> Option<Self> {
        Some(Self {
            address: settings.address?,
            ports: settings.ports?,
        })
    }

    /// Whether a rule is about what the platform may open.
    pub fn has(&self, rule: &Rule) -> bool {
        self.address == rule.external_address && self.ports.contains(rule.external_port)
    }

    /// As it is reported.
    pub fn to_wire(self) -> pb::IngressOwnership {
        pb::IngressOwnership {
            address: self.address.to_string(),
            first_port: self.ports.first().into(),
            last_port: self.ports.last().into(),
        }
    }
}

/// Refuses settings under which a mapping could never work, or would take a port of the agent itself.
///
/// # Errors
/// One of the two settings alone; a network that the agent makes no rules of; a port that the agent listens on, or by which the
/// host leads users to SSH of its guests.
pub fn check(
    ingress: &settings::Ingress,
    network: &settings::Network,
    access: &settings::Access,
    listens: &[SocketAddr],
) -> HostResult<()> {
    let wrong = |why: String| Err(HostError::host(ErrorReason::HostNotReady, why));
    if ingress.address.is_some() != ingress.ports.is_some() {
        return wrong("agent.ingress: address and ports must be given together".to_owned());
    }
    let Some(owned) = Owned::of(ingress) else {
        return Ok(());
    };
    if network.mode != settings::PRIVATE_NAT {
        let mode = &network.mode;
        return wrong(format!(
            "agent.ingress needs agent.network.mode \"{}\", not {mode:?}: the agent makes no rules of another network",
            settings::PRIVATE_NAT
        ));
    }
    let own = |listen: &&SocketAddr| owned.ports.contains(listen.port());
    if let Some(listen) = listens.iter().find(own) {
        return wrong(format!(
            "agent.ingress.ports {} must not include port {}, on which the agent listens",
            owned.ports,
            listen.port()
        ));
    }
    let ssh = PortRange::new(
        access.port_base,
        access.port_base.saturating_add(MOST_SLOTS - 1),
    );
    if !access.host.is_empty()
        && owned.ports.first() <= ssh.last()
        && ssh.first() <= owned.ports.last()
    {
        return wrong(format!(
            "agent.ingress.ports {} must not include ports {ssh}, which lead to SSH of the guests \
             (agent.access.port_base and {MOST_SLOTS} slots)",
            owned.ports
        ));
    }
    Ok(())
}

/// Transport protocol of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    Tcp,
    Udp,
}

impl Protocol {
    /// As nft names it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        }
    }
}

/// A way from an external port to a port of a VM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    pub protocol: Protocol,
    pub vm_port: u16,
    pub external_address: Ipv4Addr,
    pub external_port: u16,
    /// Who may connect; empty: everybody.
    pub sources: Vec<Ipv4Net>,
    /// When it ends, in milliseconds since 1970.
    pub expires_ms: Option<i64>,
}

impl Rule {
    /// Reads a rule.
    ///
    /// # Errors
    /// A field that breaks a rule.
    pub fn parse(wire: &pb::IngressRule) -> HostResult<Self> {
        let protocol = match wire.protocol() {
            IngressProtocol::Tcp => Protocol::Tcp,
            IngressProtocol::Udp => Protocol::Udp,
            IngressProtocol::Unspecified => {
                return Err(HostError::invalid("protocol", "must be TCP or UDP"));
            }
        };
        let external_address = wire
            .external_address
            .parse()
            .map_err(|_| HostError::invalid("external_address", "must be an IPv4 address"))?;
        let sources =
            Bounded::<Ipv4Net, MAX_SOURCES>::parse("source_cidrs", &wire.source_cidrs, |cidr| {
                Ok(cidr
                    .parse::<Ipv4Net>()
                    .map_err(|error| error.of("source_cidrs"))?)
            })?;
        let expires_ms = wire.expire_time.as_ref().map(milliseconds).transpose()?;
        Ok(Self {
            protocol,
            vm_port: port("vm_port", wire.vm_port)?,
            external_address,
            external_port: port("external_port", wire.external_port)?,
            sources: sources.to_vec(),
            expires_ms,
        })
    }

    /// Whether two rules are about one external port.
    pub fn is_at_port_of(&self, other: &Self) -> bool {
        (self.protocol, self.external_port) == (other.protocol, other.external_port)
    }
}

fn port(field: &'static str, number: u32) -> HostResult<u16> {
    let port = u16::try_from(number).ok().filter(|port| *port > 0);
    port.ok_or_else(|| HostError::invalid(field, "must be a port from 1 to 65535"))
}

fn milliseconds(time: &prost_types::Timestamp) -> HostResult<i64> {
    jiff::Timestamp::new(time.seconds, time.nanos)
        .map(jiff::Timestamp::as_millisecond)
        .map_err(|_| HostError::invalid("expire_time", "must be a time"))
}

/// What leads to the VM of one allocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ingress {
    pub allocation: AllocationId,
    /// Grows with every change by the control plane.
    pub version: u64,
    pub rules: Vec<Rule>,
}

impl Ingress {
    /// Reads what is to be in force.
    ///
    /// # Errors
    /// A field that breaks a rule; two rules at one external port.
    pub fn parse(wire: &pb::AllocationIngress) -> HostResult<Self> {
        let rules = Bounded::<Rule, MAX_RULES>::parse("rules", &wire.rules, Rule::parse)?.to_vec();
        let ports: BTreeSet<_> = rules
            .iter()
            .map(|rule| (rule.protocol, rule.external_port))
            .collect();
        if ports.len() < rules.len() {
            let rule = "must have each external port of a protocol once";
            return Err(HostError::invalid("rules", rule));
        }
        Ok(Self {
            allocation: wire.allocation_id.parse()?,
            version: wire.version,
            rules,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wire() -> pb::IngressRule {
        pb::IngressRule {
            protocol: IngressProtocol::Tcp.into(),
            vm_port: 22,
            external_address: "203.0.113.7".into(),
            external_port: 30_000,
            source_cidrs: vec!["198.51.100.0/24".into()],
            expire_time: None,
        }
    }

    #[test]
    fn j_13_a_rule_names_the_field_that_it_breaks() {
        assert!(Rule::parse(&wire()).is_ok());
        type Break = fn(&mut pb::IngressRule);
        let breaks: [(&str, Break); 7] = [
            ("protocol", |rule| rule.protocol = 0),
            ("vm_port", |rule| rule.vm_port = 0),
            ("vm_port", |rule| rule.vm_port = 65_536),
            ("external_port", |rule| rule.external_port = 0),
            ("external_address", |rule| {
                rule.external_address = "1.2.3.4; drop".into();
            }),
            ("source_cidrs", |rule| {
                rule.source_cidrs = vec!["10.0.0.1/8".into()];
            }),
            ("source_cidrs", |rule| {
                rule.source_cidrs = vec!["10.0.0.0/8".into(); 17];
            }),
        ];
        for (field, change) in breaks {
            let mut rule = wire();
            change(&mut rule);
            let error = Rule::parse(&rule).unwrap_err();
            assert_eq!(error.field, Some(field), "{error}");
        }
        let twice = pb::AllocationIngress {
            allocation_id: uuid::Uuid::now_v7().to_string(),
            version: 1,
            rules: vec![wire(), wire()],
        };
        assert_eq!(Ingress::parse(&twice).unwrap_err().field, Some("rules"));
    }

    /// L-16: nobody owns what is not named.
    #[test]
    fn l_16_the_platform_owns_nothing_unless_address_and_ports_are_named() {
        let named = |address: Option<&str>, ports: Option<&str>| settings::Ingress {
            address: address.map(|text| text.parse().unwrap()),
            ports: ports.map(|text| text.parse().unwrap()),
        };
        let (address, ports) = (Some("203.0.113.7"), Some("30000-30009"));
        assert_eq!(Owned::of(&named(None, None)), None);
        assert_eq!(Owned::of(&named(address, None)), None);
        let owned = Owned::of(&named(address, ports)).unwrap();
        let rule = Rule::parse(&wire()).unwrap();
        assert!(owned.has(&rule));
        for other in [
            Rule {
                external_port: 30_010,
                ..rule.clone()
            },
            Rule {
                external_address: Ipv4Addr::LOCALHOST,
                ..rule
            },
        ] {
            assert!(!owned.has(&other));
        }
    }

    /// What the operator gives away must be free: not the agent's own ports, and not those of SSH to its guests.
    #[test]
    fn l_16_ports_that_the_host_uses_itself_are_refused() {
        let listens = ["0.0.0.0:7200", "127.0.0.1:7210"].map(|text| text.parse().unwrap());
        let checked = |address: Option<&str>, ports: Option<&str>, host: &str| {
            let ingress = settings::Ingress {
                address: address.map(|text| text.parse().unwrap()),
                ports: ports.map(|text| text.parse().unwrap()),
            };
            let access = settings::Access {
                host: host.to_owned(),
                port_base: 22_000,
            };
            check(&ingress, &settings::Network::default(), &access, &listens)
        };
        let address = Some("203.0.113.7");
        for (ports, access, named) in [
            ("30000-30999", "ssh.example", None),
            ("22064-22999", "ssh.example", None),
            // without forwarded ports they are nobody's
            ("22000-22063", "", None),
            ("7000-7209", "", Some("7200")),
            ("7201-7999", "", Some("7210")),
            ("21000-22000", "ssh.example", Some("22000-22063")),
            ("22063-30000", "ssh.example", Some("22000-22063")),
        ] {
            match (checked(address, Some(ports), access), named) {
                (Ok(()), None) => {}
                (Err(error), Some(named)) => {
                    assert!(error.to_string().contains(named), "{ports}: {error}");
                }
                (other, _) => panic!("{ports} {access}: {other:?}"),
            }
        }
        assert!(checked(None, Some("30000-30999"), "").is_err());
        assert!(checked(None, None, "ssh.example").is_ok());
    }
}
