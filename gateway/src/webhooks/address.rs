//! Where events may go: URLs of other people, which must not lead into the platform's own networks.
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use gpuaas_common::{Error, Result};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use url::{Host, Url};

const FIELD: &str = "url";
const MAX_BYTES: usize = 2000;

/// Whether an address is one of the public internet: not private, shared, loopback, link-local (where clouds serve
/// their metadata), multicast, reserved, nor an address of IPv6 that leads to such a one of IPv4.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    !matches!(
        (a, b, c),
        (0 | 10 | 127, _, _)
            | (100, 64..=127, _)
            | (169, 254, _)
            | (172, 16..=31, _)
            | (192, 0, 0 | 2)
            | (192, 88, 99)
            | (192, 168, _)
            | (198, 18..=19, _)
            | (198, 51, 100)
            | (203, 0, 113)
            | (224..=255, _, _)
    )
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let [a, b, ..] = address.segments();
    // global unicast is 2000::/3; of it Teredo, benchmarks, ORCHID, documentation and 6to4 are none
    (0x2000..=0x3fff).contains(&a)
        && !(a == 0x2001 && (b < 0x0200 || b == 0x0db8))
        && a != 0x2002
        && !(a == 0x3fff && b < 0x1000)
}

/// A URL that events may be delivered to.
///
/// # Errors
/// `FIELD_INVALID` with the rule it breaks; the URL is not repeated.
pub fn parse(text: &str, allow_insecure: bool) -> Result<Url> {
    let invalid = |rule: &str| Error::invalid(FIELD, rule.to_owned());
    if text.is_empty() {
        return Err(Error::required(FIELD));
    }
    let too_long = || invalid("must be at most 2000 bytes");
    if text.len() > MAX_BYTES {
        return Err(too_long());
    }
    let url = Url::parse(text).map_err(|_| invalid("must be a URL"))?;
    // a character that is no ASCII is three times as long in a URL
    if url.as_str().len() > MAX_BYTES {
        return Err(too_long());
    }
    let allowed = match url.scheme() {
        "https" => true,
        "http" => allow_insecure,
        _ => false,
    };
    if !allowed {
        return Err(invalid("must begin with https://"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(invalid("must not have a user or a password"));
    }
    if url.fragment().is_some() {
        return Err(invalid("must not have a fragment"));
    }
    let public = match url.host() {
        None => return Err(invalid("must have a host")),
        Some(Host::Domain(name)) => {
            let name = name.trim_end_matches('.').to_ascii_lowercase();
            name.contains('.') && !name.ends_with(".localhost")
        }
        Some(Host::Ipv4(address)) => is_public_v4(address),
        Some(Host::Ipv6(address)) => is_public_v6(address),
    };
    if !public && !allow_insecure {
        return Err(invalid("must lead to a public address"));
    }
    Ok(url)
}

/// Looks names up, and gives no address that is not public: what is checked is what is connected to.
#[derive(Clone, Copy, Debug)]
pub struct PublicOnly {
    /// All addresses.
    pub allow_insecure: bool,
}

/// All addresses of a name lead into networks that are not public.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the host has no public address")]
pub struct NotPublic;

impl Resolve for PublicOnly {
    fn resolve(&self, name: Name) -> Resolving {
        let allow_insecure = self.allow_insecure;
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let kept: Vec<SocketAddr> = found
                .filter(|address| allow_insecure || is_public(address.ip()))
                .collect();
            if kept.is_empty() {
                return Err(NotPublic.into());
            }
            Ok(Box::new(kept.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_the_public_internet_are_public() {
        for private in [
            "0.0.0.0",
            "10.1.2.3",
            "100.64.0.1",
            "127.0.0.1",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.192",
            "192.168.1.1",
            "198.18.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:10.0.0.1",
            "::ffff:169.254.169.254",
            "64:ff9b::a9fe:a9fe",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "ff02::1",
            "2001::1",
            "2001:db8::1",
            "2002:a00:1::1",
            "fec0::1",
            "3fff::1",
        ] {
            assert!(!is_public(private.parse().expect("address")), "{private}");
        }
        for public in [
            "1.1.1.1",
            "172.32.0.1",
            "100.128.0.1",
            "192.0.1.1",
            "2606:4700::1111",
            "2a00:1450::1",
        ] {
            assert!(is_public(public.parse().expect("address")), "{public}");
        }
    }

    #[test]
    fn urls_are_https_to_public_hosts() {
        assert!(parse("https://hooks.example.com/gpuaas?x=1", false).is_ok());
        for bad in [
            "",
            "x",
            "http://hooks.example.com",
            "ftp://example.com",
            "file:///etc/passwd",
            "https://user:pass@example.com",
            "https://example.com/#f",
            "https://localhost/",
            "https://127.0.0.1/",
            "https://2130706433/",
            "https://0x7f.1/",
            "https://[::1]/",
            "https://[::ffff:169.254.169.254]/",
            "https://169.254.169.254/latest/meta-data",
            "https://a.localhost",
            "https://localhost.",
            "https://10.0.0.1:8443/",
            "https://metadata/",
            "https:///x",
        ] {
            assert!(parse(bad, false).is_err(), "{bad}");
        }
        assert!(parse(&format!("https://e.com/{}", "x".repeat(2000)), false).is_err());
        assert!(parse(&format!("https://e.com/{}", "é".repeat(500)), false).is_err());
        assert!(parse("http://127.0.0.1:9/", true).is_ok());
        assert!(parse("ftp://127.0.0.1:9/", true).is_err());
    }

    /// A name that leads to a private address is refused when it is connected to, whatever it led to before.
    #[tokio::test]
    async fn a_name_of_a_private_address_is_not_called() {
        let resolve = async |allow_insecure| {
            let name: Name = "localhost".parse().expect("name");
            PublicOnly { allow_insecure }.resolve(name).await.is_ok()
        };
        assert!(!resolve(false).await);
        assert!(resolve(true).await);
    }
}
