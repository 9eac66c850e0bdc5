//! A lease in dnsmasq's file, and what it says of the guest that waits for its address.
use std::net::Ipv4Addr;

use crate::ids::Mac;

/// A lease as dnsmasq's file has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DhcpLease {
    /// Seconds since 1970; 0 for ever.
    pub expires: u64,
    /// Address.
    pub ip: Ipv4Addr,
}

/// Lines are "expiry mac ip name client-id".
pub(crate) fn parse_lease(text: &str, mac: &Mac) -> Option<DhcpLease> {
    text.lines().find_map(|line| {
        let mut parts = line.split_whitespace();
        let expires = parts.next()?.parse().ok()?;
        let of = parts.next()?.parse::<Mac>().ok()?;
        let ip = parts.next()?.parse().ok()?;
        (of == *mac).then_some(DhcpLease { expires, ip })
    })
}

/// State of the lease report (D-65).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseState {
    /// The MAC has the expected address, leased since the VM started.
    Bound,
    /// The MAC has the expected address from before this VM.
    Stale,
    /// The MAC has another address.
    Mismatch,
    /// The MAC has no address.
    Missing,
}

impl LeaseState {
    /// The name in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Bound => "bound",
            Self::Stale => "stale",
            Self::Mismatch => "mismatch",
            Self::Missing => "missing",
        }
    }

    /// Judges a lease. `before` is the expiry of the lease that the MAC had before this VM started: an earlier
    /// tenant of the slot had the same MAC and address.
    pub fn of(lease: Option<&DhcpLease>, expected: Ipv4Addr, before: Option<u64>) -> Self {
        match lease {
            None => Self::Missing,
            Some(lease) if lease.ip != expected => Self::Mismatch,
            Some(lease) if lease.expires != 0 && Some(lease.expires) == before => Self::Stale,
            Some(_) => Self::Bound,
        }
    }
}
