//! Origins of web pages that may call the API.
use std::fmt;

use http::HeaderValue;
use serde::Deserialize;
use serde::de::Error as _;
use url::{Host, Url};

/// An origin, exactly as browsers send it: `https://console.example.com`, with a port only where it is not the usual one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageOrigin(HeaderValue);

impl PageOrigin {
    /// As the header `Origin` has it.
    pub fn header(&self) -> HeaderValue {
        self.0.clone()
    }
}

/// A text that is no origin that can be allowed.
#[derive(Debug, PartialEq, Eq)]
pub struct NotAnOrigin;

impl fmt::Display for NotAnOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "must be an origin as browsers send it, such as https://app.example.com: lower-case, with https (http on \
             loopback only), without a path or the usual port; * and null are not allowed",
        )
    }
}

impl TryFrom<String> for PageOrigin {
    type Error = NotAnOrigin;

    fn try_from(text: String) -> Result<Self, NotAnOrigin> {
        let url = Url::parse(&text).map_err(|_| NotAnOrigin)?;
        let is_safe = match url.scheme() {
            "https" => true,
            "http" => url.host().is_some_and(|host| is_loopback(&host)),
            _ => false,
        };
        // what the parser has to change, a browser would send in another way; a pattern would match nothing
        if !is_safe || text.contains('*') || url.origin().ascii_serialization() != text {
            return Err(NotAnOrigin);
        }
        let value = HeaderValue::try_from(text).map_err(|_| NotAnOrigin)?;
        Ok(Self(value))
    }
}

/// Nobody on the way can put a page there.
fn is_loopback(host: &Host<&str>) -> bool {
    match host {
        Host::Domain(name) => *name == "localhost",
        Host::Ipv4(address) => address.is_loopback(),
        Host::Ipv6(address) => address.is_loopback(),
    }
}

impl<'de> Deserialize<'de> for PageOrigin {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::try_from(text).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_browser_would_send_is_an_origin() {
        for good in [
            "https://app.example.com",
            "https://app.example.com:8443",
            "http://localhost:5173",
            "http://127.0.0.1:8080",
            "http://[::1]:8080",
            "https://xn--bcher-kva.example",
        ] {
            assert!(PageOrigin::try_from(good.to_owned()).is_ok(), "{good}");
        }
        for bad in [
            "",
            "*",
            "null",
            "app.example.com",
            "https://",
            "https://*.example.com",
            "https://app.example.com/",
            "https://app.example.com/path",
            "https://app.example.com:443",
            "http://app.example.com",
            "http://localhost.example.com",
            "https://APP.example.com",
            "https://user@app.example.com",
            "https://bücher.example",
            "ftp://app.example.com",
            "file:///etc/passwd",
            "chrome-extension://abcdef",
            " https://app.example.com",
        ] {
            let refused = PageOrigin::try_from(bad.to_owned());
            assert_eq!(refused, Err(NotAnOrigin), "{bad}");
        }
    }
}
