//! What a guest may send and reach (J-14, P11): rules of the host's switch and of its packet filter, made by the agent.
//!
//! Two layers, each closed by default, so that what was forgotten, lost or not yet written passes nothing:
//!
//! - The **switch** ([`flows`] for Open vSwitch, [`bridge`] for a Linux bridge) joins each guest's port with the host
//!   alone. A port may send as its own MAC and IPv4 address, ARP included, and ask for an address by DHCP; every other
//!   frame is dropped: other senders, other kinds, answers of a DHCP server, router advertisements, all of IPv6, which
//!   guests have no address of. No frame goes from one guest to another, unless both are in one group: then each reaches
//!   the other's one address by IPv4 and ARP, still as itself.
//! - The **host's packet filter** ([`filter`]) names what of the host a guest may reach, drops the rest, and drops what is
//!   sent on to other guests or to private networks that the profile does not name. Answers to connections of the host,
//!   or to those that came in through it, pass. From beyond the host a guest gets answers and what the host translates for it,
//!   by the site's rules or by an ingress mapping ([`ingress`]), and nothing else, unless the settings name from where; without
//!   ingress in the settings there is no rule of it.
//!
//! The rules follow from the reservations of addresses, the ports of the switch and the journal's ingress mappings, and from
//! nothing else, so there is nothing more to remember: [`NetworkRules::put`] brings the host to what they say, at the start of the agent, around every start and
//! removal of a VM, and every few seconds ([`watch`]), which restores and reports what another hand changed. They stay in
//! force while no agent runs. After a restart of the switch its ports carry nothing until the rules are there again.
mod bridge;
mod filter;
mod flows;
mod guest;
mod host;
mod ingress;
pub(crate) mod ports;
pub(crate) mod probe;
mod watch;

pub use guest::Guest;
pub use host::{NetworkRules, ovs_vsctl};
pub use ingress::Opening;
pub use ports::REMEDIATION as FOREIGN_PORT_REMEDIATION;
pub use probe::{Counted, PORT as PROBE_PORT, PORT_NUMBER as PROBE_PORT_NUMBER};
pub use watch::watch;

use crate::ingress::Owned;
use crate::settings::Network;

/// The rules of a Linux bridge and of the host behind it, as one document of nft.
#[must_use]
pub fn document_of_linux_bridge(network: &Network, guests: &[Guest]) -> String {
    bridge::whole_document(network, guests)
}

/// The rules of ingress mappings, to be added to those of the packet filter.
#[must_use]
pub fn document_of_ingress(network: &Network, owned: Owned, openings: &[Opening]) -> String {
    ingress::document(network, Some(owned), openings)
}

/// The rules of an Open vSwitch bridge: the guests with the numbers of their ports.
#[must_use]
pub fn flows_of_open_vswitch(guests: &[(u32, Guest)]) -> String {
    flows::flows(guests)
}
