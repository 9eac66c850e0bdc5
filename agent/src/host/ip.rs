//! Interfaces, their addresses and routes, as `ip -json` writes them; what it leaves out is empty.
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// An interface.
#[derive(Default, Deserialize)]
#[serde(default)]
pub struct Link {
    pub ifname: String,
    pub addr_info: Vec<Address>,
}

/// An address of an interface.
#[derive(Default, Deserialize)]
#[serde(default)]
pub struct Address {
    /// "inet" or "inet6".
    pub family: String,
    pub local: String,
    pub prefixlen: u8,
    pub scope: String,
}

/// A route.
#[derive(Default, Deserialize)]
#[serde(default)]
pub struct Route {
    pub dst: String,
    pub dev: String,
}

/// Reads an answer; none of what is not one.
pub fn parse<T: DeserializeOwned>(answer: &str) -> Vec<T> {
    serde_json::from_str(answer).unwrap_or_default()
}
