//! Where a request comes from: the address of the connection, or what a proxy in front says it was.
use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub use gpuaas_common::server::connections::Peer;
use http::{HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;
use serde::de::Error as _;

/// Where proxies write the addresses that they saw, the last one last.
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Address of the client of a request, as an extension of it.
#[derive(Clone, Copy, Debug)]
pub struct ClientAddress(pub IpAddr);

/// Addresses with a common prefix, as `10.0.0.0/8`; a single address is one of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    prefix: u8,
}

impl Network {
    /// Whether an address is one of them.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => same_prefix(
                own.to_bits().into(),
                other.to_bits().into(),
                32,
                self.prefix,
            ),
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                same_prefix(own.to_bits(), other.to_bits(), 128, self.prefix)
            }
            _ => false,
        }
    }
}

fn same_prefix(one: u128, other: u128, bits: u32, prefix: u8) -> bool {
    // all bits below the prefix: a shift by the whole width is none at all
    let rest = bits.saturating_sub(u32::from(prefix));
    one.checked_shr(rest).unwrap_or(0) == other.checked_shr(rest).unwrap_or(0)
}

/// A text that is no network.
#[derive(Debug, PartialEq, Eq)]
pub struct NotANetwork;

impl fmt::Display for NotANetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("must be an address or a network such as 10.0.0.0/8")
    }
}

impl FromStr for Network {
    type Err = NotANetwork;

    fn from_str(text: &str) -> Result<Self, NotANetwork> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| NotANetwork)?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let prefix = match prefix {
            Some(prefix) => prefix.parse().map_err(|_| NotANetwork)?,
            None => most,
        };
        if prefix > most {
            return Err(NotANetwork);
        }
        Ok(Self { address, prefix })
    }
}

impl<'de> Deserialize<'de> for Network {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}

/// The TLS proxies in front, which say whom they speak for.
#[derive(Clone, Debug, Default)]
pub struct Proxies {
    networks: Vec<Network>,
    /// Whether a proxy's header was reported.
    reported: Arc<AtomicBool>,
}

impl Proxies {
    /// Those of these networks.
    pub fn new(networks: &[Network]) -> Self {
        Self {
            networks: networks.to_vec(),
            reported: Arc::default(),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.networks.is_empty()
    }

    /// Whether an address is that of a proxy.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.networks
            .iter()
            .any(|network| network.contains(address))
    }

    /// Who a request is from that came over a connection from `address`.
    pub fn client(&self, address: IpAddr, headers: &HeaderMap) -> Peer {
        Peer::of(self.address(address, headers))
    }

    /// Address of the client behind a connection from `address`: the last address that a proxy saw and that is no proxy
    /// itself. Whatever stands before it the client may have made up.
    pub fn address(&self, address: IpAddr, headers: &HeaderMap) -> IpAddr {
        if !self.contains(address) {
            return address;
        }
        let lines: Vec<&HeaderValue> = headers.get_all(FORWARDED_FOR).iter().collect();
        let seen = lines.iter().map(|line| line.as_bytes());
        let seen = seen.flat_map(|line| line.split(|byte| *byte == b',')).rev();
        let mut client = address;
        for text in seen {
            let Some(one) = seen_address(text) else {
                self.report(client, text);
                break;
            };
            client = one;
            if !self.contains(one) {
                break;
            }
        }
        client
    }

    /// Says once that the callers behind a proxy cannot be told apart; a client may cause it too.
    fn report(&self, proxy: IpAddr, text: &[u8]) {
        if !self.reported.swap(true, Ordering::Relaxed) {
            let text = String::from_utf8_lossy(text);
            tracing::warn!(%proxy, ?text, "no address in X-Forwarded-For: count its callers as the proxy");
        }
    }
}

/// The address that a proxy saw, with or without the port that it saw it at.
fn seen_address(text: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(text).ok()?.trim();
    if let Ok(address) = text.parse() {
        return Some(address);
    }
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Some(address.ip());
    }
    let six = text.strip_prefix('[')?.strip_suffix(']')?;
    six.parse::<Ipv6Addr>().ok().map(IpAddr::V6)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("address")
    }

    #[test]
    fn networks_hold_the_addresses_of_their_prefix() {
        for (network, address, inside) in [
            ("10.0.0.0/8", "10.255.0.1", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("10.0.0.0/8", "::ffff:10.1.2.3", true),
            ("10.0.0.7", "10.0.0.7", true),
            ("10.0.0.7", "10.0.0.8", false),
            ("0.0.0.0/0", "192.0.2.1", true),
            ("0.0.0.0/0", "2001:db8::1", false),
            ("2001:db8::/32", "2001:db8:ffff::1", true),
            ("2001:db8::/32", "2001:db9::1", false),
            ("::/0", "2001:db9::1", true),
        ] {
            let parsed: Network = network.parse().expect("network");
            assert_eq!(parsed.contains(ip(address)), inside, "{network} {address}");
        }
        for bad in ["", "10.0.0.0/33", "10.0.0.0/", "10.0/8", "::/129", "all"] {
            assert_eq!(bad.parse::<Network>(), Err(NotANetwork), "{bad}");
        }
    }

    #[test]
    fn a_client_cannot_make_up_another_address() {
        let proxies = Proxies::new(&["10.0.0.0/8".parse().expect("network")]);
        for (from, forwarded, client) in [
            // no proxy: whatever it says counts for nothing
            ("192.0.2.1", "198.51.100.7", "192.0.2.1"),
            ("10.0.0.1", "198.51.100.7", "198.51.100.7"),
            // the client has written the first one itself
            ("10.0.0.1", "203.0.113.9, 198.51.100.7", "198.51.100.7"),
            // two proxies
            ("10.0.0.1", "198.51.100.7, 10.0.0.2", "198.51.100.7"),
            ("10.0.0.1", "203.0.113.9, nonsense, 10.0.0.2", "10.0.0.2"),
            ("10.0.0.1", "", "10.0.0.1"),
            // a proxy that writes the port as well
            ("10.0.0.1", "198.51.100.7:40112", "198.51.100.7"),
            (
                "10.0.0.1",
                "198.51.100.7:40112, 10.0.0.2:80",
                "198.51.100.7",
            ),
            ("10.0.0.1", "[2001:db8::1]:443", "2001:db8::1"),
            ("10.0.0.1", "[2001:db8::1]", "2001:db8::1"),
            ("10.0.0.1", "203.0.113.9, 198.51.100.7:99999", "10.0.0.1"),
        ] {
            let mut headers = HeaderMap::new();
            let value = HeaderValue::from_static(forwarded);
            headers.append(FORWARDED_FOR, value);
            let found = proxies.client(ip(from), &headers);
            assert_eq!(found, Peer::of(ip(client)), "{from} {forwarded}");
        }
        assert_eq!(
            proxies.client(ip("10.0.0.1"), &HeaderMap::new()),
            Peer::of(ip("10.0.0.1"))
        );
    }

    #[test]
    fn an_entry_that_is_no_text_hides_none_after_it() {
        let proxies = Proxies::new(&["10.0.0.0/8".parse().expect("network")]);
        let mut headers = HeaderMap::new();
        for line in [&b"203.0.113.9"[..], b"\xff, 198.51.100.7"] {
            let value = HeaderValue::from_bytes(line).expect("a value");
            headers.append(FORWARDED_FOR, value);
        }
        let found = proxies.client(ip("10.0.0.1"), &headers);
        assert_eq!(found, Peer::of(ip("198.51.100.7")));
    }

    #[test]
    fn a_proxy_that_names_nobody_is_reported_once() {
        let proxies = Proxies::new(&["10.0.0.0/8".parse().expect("network")]);
        let reported = |proxies: &Proxies| proxies.reported.load(Ordering::Relaxed);
        for (forwarded, is_reported) in [("198.51.100.7:1", false), ("unknown", true)] {
            let mut headers = HeaderMap::new();
            headers.append(FORWARDED_FOR, HeaderValue::from_static(forwarded));
            proxies.clone().client(ip("10.0.0.1"), &headers);
            assert_eq!(reported(&proxies), is_reported, "{forwarded}");
        }
    }
}
