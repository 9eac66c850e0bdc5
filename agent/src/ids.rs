//! Typed ids and addresses: values that cannot hold anything but what their name promises.
use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

use gpuaas_common::value::is_lower_hex;
pub use gpuaas_common::value::{Digest, DnsLabel, ImageSlug, Mac, ParseError, PciAddress};
use gpuaas_proto::gpuaas::agent::v1 as pb;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

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
    /// VMs of the host that may reach each other.
    NetworkGroup,
    "network group"
);
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
        format!("{PORT_PREFIX}{}", &hex[hex.len() - 12..])
    }
}

/// What every port of a VM of ours is named with.
pub const PORT_PREFIX: &str = "gs";

/// What every VM of ours is named with.
pub const VM_PREFIX: &str = "gpuaas-slice-";

gpuaas_common::text_value!(
    /// Name of a VM of ours, as libvirt knows it.
    VmName,
    "vm name",
    "\"gpuaas-slice-\" and 32 hex digits",
    |text| {
        let hex = text.strip_prefix(VM_PREFIX)?;
        (hex.len() == 32 && hex.bytes().all(is_lower_hex)).then(|| text.to_owned())
    }
);

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

/// Parses the MAC address of a guest's management interface.
///
/// # Errors
/// What is not a unicast MAC address.
pub fn management_mac(text: &str) -> Result<Mac, ParseError> {
    text.parse()
        .map_err(|error: ParseError| error.of("management_mac"))
}

/// Parses a private IPv4 address.
pub fn parse_private_ip(text: &str) -> Result<Ipv4Addr, ParseError> {
    let ip: Option<Ipv4Addr> = text.parse().ok().filter(Ipv4Addr::is_private);
    ip.ok_or(ParseError {
        what: "private_ip",
        rule: "a private IPv4 address",
    })
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
        assert!("8.8.8.8".parse::<Ipv4Addr>().is_ok() && parse_private_ip("8.8.8.8").is_err());
    }
}
