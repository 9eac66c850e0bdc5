//! Names an operator gives: host names, region codes, a node's mode, an agent's address.
use std::fmt;
use std::net::IpAddr;

use gpuaas_common::value::DnsLabel;

/// Why a value is not what its type requires, as a sentence for the caller.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadName(pub &'static str);

const LABEL_RULE: &str = "A name consists of lower-case letters, digits and hyphens, begins and ends with a letter or digit, and has at most 63 characters.";
const HOSTNAME_RULE: &str = "A host name consists of DNS labels (lower-case letters, digits, hyphens) separated by dots and has at most 253 characters.";
const RACK_RULE: &str = "A rack's name consists of letters, digits, dots, underscores and hyphens, begins with a letter or digit, and has at most 63 characters.";

fn is_label(text: &str) -> bool {
    text.parse::<DnsLabel>().is_ok()
}

/// Name of a host: one DNS label or several with dots, lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hostname(String);

impl Hostname {
    /// Parses a host name.
    ///
    /// # Errors
    /// [`BadName`] with the rule.
    pub fn parse(text: &str) -> Result<Self, BadName> {
        if text.len() <= 253 && text.split('.').all(is_label) {
            Ok(Self(text.to_owned()))
        } else {
            Err(BadName(HOSTNAME_RULE))
        }
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Code of a region: one DNS label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegionCode(String);

impl RegionCode {
    /// Parses a region code.
    ///
    /// # Errors
    /// [`BadName`] with the rule.
    pub fn parse(text: &str) -> Result<Self, BadName> {
        if is_label(text) {
            Ok(Self(text.to_owned()))
        } else {
            Err(BadName(LABEL_RULE))
        }
    }

    /// The code.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Name of a rack or failure domain, as an operator writes it; empty: unknown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RackName(String);

impl RackName {
    /// Parses a name, or nothing.
    ///
    /// # Errors
    /// [`BadName`] with the rule.
    pub fn parse(text: &str) -> Result<Self, BadName> {
        let inner = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        let first = text.bytes().next();
        let named = first.is_none_or(|first| first.is_ascii_alphanumeric());
        if named && text.len() <= 63 && text.bytes().all(inner) {
            Ok(Self(text.to_owned()))
        } else {
            Err(BadName(RACK_RULE))
        }
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What a node is used for; entered intentionally by the operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeMode {
    /// Offered as slices.
    Slice,
    /// Offered as bare metal.
    Baremetal,
}

impl NodeMode {
    /// Parses `slice` or `baremetal`.
    ///
    /// # Errors
    /// [`BadName`] with the rule.
    pub fn parse(text: &str) -> Result<Self, BadName> {
        match text {
            "slice" => Ok(Self::Slice),
            "baremetal" => Ok(Self::Baremetal),
            _ => Err(BadName("The mode is one of slice, baremetal.")),
        }
    }

    /// The name on the wire and in the database.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Slice => "slice",
            Self::Baremetal => "baremetal",
        }
    }
}

/// Where an agent answers: a host name or address, and a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentAddress(String);

impl AgentAddress {
    /// Parses `host:port` or `[v6]:port`.
    ///
    /// # Errors
    /// [`BadName`] with the rule.
    pub fn parse(text: &str) -> Result<Self, BadName> {
        let bad = BadName("The address has the form host:port.");
        let (host, port) = text.rsplit_once(':').ok_or_else(|| bad.clone())?;
        let bare = host
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
            .filter(|inner| inner.parse::<std::net::Ipv6Addr>().is_ok());
        let known = bare.is_some()
            || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_ipv4())
            || Hostname::parse(host).is_ok();
        if known && port.parse::<u16>().is_ok_and(|port| port != 0) {
            Ok(Self(text.to_owned()))
        } else {
            Err(bad)
        }
    }

    /// The address.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for NodeMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_names() {
        for good in ["j22u05", "lab-host", "a.b-c.example", &"a".repeat(63)] {
            assert!(Hostname::parse(good).is_ok(), "{good}");
        }
        let long = ["abcdefg"; 40].join(".");
        for bad in [
            "",
            "-a",
            "a-",
            "A",
            "a..b",
            ".a",
            "a.",
            "a_b",
            "ä",
            &"a".repeat(64),
            &long,
        ] {
            assert!(Hostname::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_53_region_codes_are_labels() {
        assert!(RegionCode::parse("region-maas-1").is_ok());
        for bad in ["", "Region", "eu.west", "eu/west", "eu west"] {
            assert!(RegionCode::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_134_the_mode_is_explicit() {
        assert_eq!(NodeMode::parse("slice"), Ok(NodeMode::Slice));
        assert_eq!(NodeMode::parse("baremetal"), Ok(NodeMode::Baremetal));
        assert!(NodeMode::parse("").is_err());
        assert!(NodeMode::parse("Slice").is_err());
    }

    #[test]
    fn agent_addresses() {
        for good in ["10.177.36.197:7110", "lab-host:7110", "[fd00::1]:7110"] {
            assert!(AgentAddress::parse(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "10.0.0.1",
            "10.0.0.1:0",
            "10.0.0.1:99999",
            "fd00::1:7110",
            "http://h:1",
            "[x]:1",
        ] {
            assert!(AgentAddress::parse(bad).is_err(), "{bad}");
        }
    }
}
