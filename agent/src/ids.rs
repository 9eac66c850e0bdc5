//! Typed ids and addresses: values that cannot hold anything but what their name says.
use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

use gpuaas_proto::gpuaas::agent::v1 as pb;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// A value that is not what its type says.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} must be {rule}")]
pub struct ParseError {
    /// Kind of value.
    pub what: &'static str,
    /// What it must look like.
    pub rule: &'static str,
}

macro_rules! uuid_id {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub Uuid);

        impl FromStr for $name {
            type Err = ParseError;

            fn from_str(text: &str) -> Result<Self, ParseError> {
                Uuid::try_parse(text).map(Self).map_err(|_| ParseError { what: $what, rule: "a UUID" })
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.hyphenated().fmt(f)
            }
        }
    };
}

uuid_id!(
    /// An allocation.
    AllocationId,
    "allocation_id"
);
uuid_id!(
    /// A slot.
    SlotId,
    "slot_id"
);
uuid_id!(
    /// A lease of this host.
    LeaseId,
    "lease_id"
);
uuid_id!(
    /// An operation; the caller gives it.
    OperationId,
    "operation_id"
);

impl AllocationId {
    /// The VM's name: `gpuaas-slice-` and the id without dashes (C-17).
    pub fn vm_name(self) -> VmName {
        VmName(format!("{VM_PREFIX}{}", self.0.simple()))
    }

    /// Whose VM has this name; none: it is none of ours.
    pub fn of_vm(name: &str) -> Option<Self> {
        let VmName(name) = name.parse().ok()?;
        Uuid::try_parse(name.strip_prefix(VM_PREFIX)?)
            .ok()
            .map(Self)
    }

    /// Name of the VM's port on the bridge: the random end of the id, within the kernel's 15 characters.
    pub fn port_name(self) -> String {
        let hex = self.0.simple().to_string();
        format!("gs{}", &hex[hex.len() - 12..])
    }
}

/// What every VM of ours is named with.
pub const VM_PREFIX: &str = "gpuaas-slice-";

/// Name of a VM of ours.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct VmName(String);

impl VmName {
    /// The name as libvirt knows it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for VmName {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        const BAD: ParseError = ParseError {
            what: "vm name",
            rule: "\"gpuaas-slice-\" and 32 hex digits",
        };
        let hex = text.strip_prefix(VM_PREFIX).ok_or(BAD)?;
        let valid = hex.len() == 32
            && hex
                .bytes()
                .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        if valid {
            Ok(Self(text.to_owned()))
        } else {
            Err(BAD)
        }
    }
}

impl fmt::Display for VmName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Fencing token: compared field by field in this order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Token {
    /// Raised when the control plane's database is restored.
    pub cell_epoch: u64,
    /// Raised with every claim and repair of the slot.
    pub slot_generation: u64,
    /// Raised with every new worker of the workflow.
    pub workflow_epoch: u64,
}

impl From<pb::FencingToken> for Token {
    fn from(token: pb::FencingToken) -> Self {
        Self {
            cell_epoch: token.cell_epoch,
            slot_generation: token.slot_generation,
            workflow_epoch: token.workflow_epoch,
        }
    }
}

impl From<Token> for pb::FencingToken {
    fn from(token: Token) -> Self {
        Self {
            cell_epoch: token.cell_epoch,
            slot_generation: token.slot_generation,
            workflow_epoch: token.workflow_epoch,
        }
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}.{}.{}",
            self.cell_epoch, self.slot_generation, self.workflow_epoch
        )
    }
}

/// MAC address, lower case with colons.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Mac(String);

impl Mac {
    /// The address as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Mac {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let lower = text.to_ascii_lowercase();
        let octets: Vec<&str> = lower.split(':').collect();
        let valid = octets.len() == 6
            && octets
                .iter()
                .all(|o| o.len() == 2 && o.bytes().all(|b| b.is_ascii_hexdigit()));
        let multicast =
            valid && u8::from_str_radix(octets[0], 16).is_ok_and(|first| first & 1 == 1);
        if valid && !multicast {
            Ok(Self(lower))
        } else {
            Err(ParseError {
                what: "management_mac",
                rule: "a unicast MAC address like 52:54:00:10:00:10",
            })
        }
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Parses a private IPv4 address.
pub fn parse_private_ip(text: &str) -> Result<Ipv4Addr, ParseError> {
    let ip: Option<Ipv4Addr> = text.parse().ok().filter(Ipv4Addr::is_private);
    ip.ok_or(ParseError {
        what: "private_ip",
        rule: "a private IPv4 address",
    })
}

/// SHA-256 digest as `sha256:` and 64 lower-case hex digits.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Digest(String);

impl Digest {
    /// The digest with its prefix.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The digest of 32 bytes.
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Self(format!("sha256:{}", hex::encode(bytes)))
    }

    /// The hex digits.
    pub fn hex(&self) -> &str {
        &self.0["sha256:".len()..]
    }
}

impl FromStr for Digest {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let hex = text.strip_prefix("sha256:").unwrap_or_default();
        if hex.len() == 64
            && hex
                .bytes()
                .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
        {
            Ok(Self(text.to_owned()))
        } else {
            Err(ParseError {
                what: "digest",
                rule: "\"sha256:\" and 64 lower-case hex digits",
            })
        }
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// PCI address with domain, like `0000:1b:00.0`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PciAddress(String);

impl PciAddress {
    /// The address as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Domain, bus, slot and function as libvirt wants them, in hex digits.
    pub fn parts(&self) -> (&str, &str, &str, &str) {
        (
            &self.0[0..4],
            &self.0[5..7],
            &self.0[8..10],
            &self.0[11..12],
        )
    }
}

impl FromStr for PciAddress {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let shape = |(index, byte): (usize, u8)| match index {
            4 | 7 => byte == b':',
            10 => byte == b'.',
            11 => (b'0'..=b'7').contains(&byte),
            _ => byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte),
        };
        if text.len() == 12 && text.bytes().enumerate().all(shape) {
            Ok(Self(text.to_owned()))
        } else {
            Err(ParseError {
                what: "pci address",
                rule: "like 0000:1b:00.0",
            })
        }
    }
}

impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c_17_vm_name_is_prefix_and_allocation_without_dashes() {
        let id: AllocationId = "0192f0c1-aaaa-7bbb-8ccc-0123456789ab".parse().unwrap();
        assert_eq!(
            id.vm_name().as_str(),
            "gpuaas-slice-0192f0c1aaaa7bbb8ccc0123456789ab"
        );
        assert_eq!(
            id.vm_name().as_str().parse::<VmName>().unwrap(),
            id.vm_name()
        );
        assert_eq!(id.port_name(), "gs0123456789ab");
    }

    #[test]
    fn tokens_compare_field_by_field() {
        let token = |c, g, w| Token {
            cell_epoch: c,
            slot_generation: g,
            workflow_epoch: w,
        };
        assert!(token(1, 0, 0) > token(0, 9, 9));
        assert!(token(1, 2, 0) > token(1, 1, 9));
        assert!(token(1, 2, 1) > token(1, 2, 0));
    }

    #[test]
    fn malformed_values_are_refused() {
        assert!("gpuaas-slice-../../etc".parse::<VmName>().is_err());
        assert!("01:00:00:00:00:00".parse::<Mac>().is_err(), "multicast");
        assert!("52:54:00:10:00".parse::<Mac>().is_err());
        assert!("8.8.8.8".parse::<Ipv4Addr>().is_ok() && parse_private_ip("8.8.8.8").is_err());
        assert!("sha256:ABC".parse::<Digest>().is_err());
        assert!("0000:1b:00.8".parse::<PciAddress>().is_err());
        assert!("1b:00.0".parse::<PciAddress>().is_err());
        assert_eq!(
            "0000:1b:00.0".parse::<PciAddress>().unwrap().parts(),
            ("0000", "1b", "00", "0")
        );
    }
}
