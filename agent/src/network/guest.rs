//! A guest as the rules of its network know it.
use std::net::Ipv4Addr;

use crate::dhcp::Reservation;
use crate::ids::{AllocationId, Mac, NetworkGroup, PORT_PREFIX};

/// A guest as the rules know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guest {
    /// Its port on the switch.
    pub port: String,
    pub mac: Mac,
    pub ip: Ipv4Addr,
    /// Guests of one group reach each other.
    pub group: Option<NetworkGroup>,
}

impl Guest {
    pub(super) fn of(reservation: &Reservation) -> Option<Self> {
        Some(Self {
            port: AllocationId::of_vm(reservation.vm.as_str())?.port_name(),
            mac: reservation.mac.clone(),
            ip: reservation.ip,
            group: reservation.group,
        })
    }

    /// Whether it and another guest may reach each other.
    pub(super) fn is_with(&self, other: &Self) -> bool {
        self.group.is_some() && self.group == other.group && self.port != other.port
    }
}

/// Every port that a guest can have, as a pattern of nft.
pub fn any_port() -> String {
    format!("{PORT_PREFIX}*")
}

#[cfg(test)]
pub fn guests() -> Vec<Guest> {
    [(10, "0123456789aa"), (11, "0123456789bb")]
        .map(|(last, port)| Guest {
            port: format!("gs{port}"),
            mac: format!("52:54:00:10:00:{last:02x}").parse().unwrap(),
            ip: Ipv4Addr::new(10, 100, 0, last),
            group: None,
        })
        .to_vec()
}

/// The two guests in one group, and a third one of another.
#[cfg(test)]
pub fn grouped() -> Vec<Guest> {
    let mut all = guests();
    all.push(Guest {
        port: "gs0123456789cc".to_owned(),
        mac: "52:54:00:10:00:0c".parse().unwrap(),
        ip: Ipv4Addr::new(10, 100, 0, 12),
        group: None,
    });
    for (guest, group) in all.iter_mut().zip([1, 1, 2]) {
        guest.group = Some(NetworkGroup(uuid::Uuid::from_u128(group)));
    }
    all
}
