//! Networks and ranges of ports as settings name them.
use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::ids::ParseError;

/// Below are the ports of a host's own services.
const FIRST_PORT: u16 = 1024;

/// An IPv4 network, "10.20.0.0/16".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct Ipv4Net {
    address: Ipv4Addr,
    length: u32,
}

impl Ipv4Net {
    /// Its first and its last address: its own, and that of its broadcasts.
    pub fn ends(&self) -> (Ipv4Addr, Ipv4Addr) {
        let host_bits = u32::MAX.checked_shr(self.length).unwrap_or(0);
        let last = u32::from(self.address) | host_bits;
        (self.address, Ipv4Addr::from(last))
    }

    /// The length of its prefix.
    pub fn length(&self) -> u32 {
        self.length
    }

    /// Whether an address lies in it.
    pub fn contains(&self, address: Ipv4Addr) -> bool {
        let host_bits = u32::MAX.checked_shr(self.length).unwrap_or(0);
        u32::from(address) & !host_bits == u32::from(self.address)
    }
}

impl FromStr for Ipv4Net {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        const BAD: ParseError = ParseError {
            what: "network",
            rule: "an IPv4 network like 10.20.0.0/16, without bits of a host",
        };
        let (address, length) = text.split_once('/').ok_or(BAD)?;
        let address: Ipv4Addr = address.parse().map_err(|_| BAD)?;
        let length: u32 = length.parse().map_err(|_| BAD)?;
        let host_bits = u32::MAX.checked_shr(length).unwrap_or(0);
        if length > 32 || u32::from(address) & host_bits != 0 {
            return Err(BAD);
        }
        Ok(Self { address, length })
    }
}

impl TryFrom<String> for Ipv4Net {
    type Error = ParseError;

    fn try_from(text: String) -> Result<Self, ParseError> {
        text.parse()
    }
}

impl From<Ipv4Net> for String {
    fn from(net: Ipv4Net) -> Self {
        net.to_string()
    }
}

impl fmt::Display for Ipv4Net {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

/// Ports from one to another, both included: "30000-30999".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct PortRange {
    first: u16,
    last: u16,
}

impl PortRange {
    /// From `first` to `last`.
    pub fn new(first: u16, last: u16) -> Self {
        Self { first, last }
    }

    /// The lowest of them.
    pub fn first(self) -> u16 {
        self.first
    }

    /// The highest of them.
    pub fn last(self) -> u16 {
        self.last
    }

    /// Whether a port is one of them.
    pub fn contains(self, port: u16) -> bool {
        (self.first..=self.last).contains(&port)
    }
}

impl FromStr for PortRange {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        const BAD: ParseError = ParseError {
            what: "range of ports",
            rule: "two ports from 1024 on, the lower one first, like 30000-30999",
        };
        let (first, last) = text.split_once('-').ok_or(BAD)?;
        let (first, last) = (
            first.parse().map_err(|_| BAD)?,
            last.parse().map_err(|_| BAD)?,
        );
        if first < FIRST_PORT || last < first {
            return Err(BAD);
        }
        Ok(Self { first, last })
    }
}

impl TryFrom<String> for PortRange {
    type Error = ParseError;

    fn try_from(text: String) -> Result<Self, ParseError> {
        text.parse()
    }
}

impl From<PortRange> for String {
    fn from(range: PortRange) -> Self {
        range.to_string()
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_lies_in_its_network_alone() {
        let lies = |network: &str, address: &str| {
            let network: Ipv4Net = network.parse().unwrap();
            network.contains(address.parse().unwrap())
        };
        assert!(lies("10.20.0.0/16", "10.20.255.1") && !lies("10.20.0.0/16", "10.21.0.0"));
        assert!(lies("0.0.0.0/0", "192.175.48.1"));
        assert!(lies("10.0.0.7/32", "10.0.0.7") && !lies("10.0.0.7/32", "10.0.0.6"));
    }

    #[test]
    fn a_network_has_no_bits_of_a_host() {
        for good in ["10.20.0.0/16", "0.0.0.0/0", "192.0.2.1/32", "100.64.0.0/10"] {
            assert_eq!(good.parse::<Ipv4Net>().unwrap().to_string(), good);
        }
        for bad in [
            "10.20.0.1/16",
            "10.20.0.0",
            "10.20.0.0/33",
            "10.20/16",
            "fe80::/10",
            "1.2.3.4/32; drop",
        ] {
            assert!(bad.parse::<Ipv4Net>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_range_of_ports_has_its_lower_end_first_and_none_of_the_hosts_own() {
        let range: PortRange = "30000-30999".parse().unwrap();
        assert_eq!(range.to_string(), "30000-30999");
        assert!(range.contains(30_000) && range.contains(30_999) && !range.contains(31_000));
        for bad in ["30000", "22-80", "31000-30000", "1024-70000", "a-b", ""] {
            assert!(bad.parse::<PortRange>().is_err(), "{bad}");
        }
    }
}
