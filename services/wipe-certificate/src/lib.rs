//! Wipe certificates (P2): a host instance states how it wiped a slot's disk and how it proved that, and signs that with the
//! key it enrolled with. Whoever has the certificate of the hosts' authority verifies it without the platform.
//!
//! A certificate is one JSON document of two members: `statement`, for people, and `jws`, the same statement as a JSON Web
//! Signature in compact form (RFC 7515) whose header carries the host's certificate chain (`x5c`). Any JOSE library checks the
//! signature; [`verify`] checks all of it.
#![forbid(unsafe_code)]

mod chain;
mod refusal;
mod sign;
mod verify;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use refusal::Refusal;
pub use sign::{SignError, sign};
pub use verify::verify;

/// Version of the statement that this program writes.
pub const VERSION: u32 = 1;
/// `result` of a statement: nothing else is certified.
pub const ERASED: &str = "erased";
/// `typ` of the signature's header.
const TYPE: &str = "gpuaas-wipe+jws";

/// What a host states. Members are added, never changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statement {
    /// [`VERSION`].
    pub version: u32,
    pub slot_id: String,
    /// Of the slot, while this wipe was its proof.
    pub generation: u64,
    /// For which the host held the slot; at the first wipe of a slot, the id that the wipe was ordered under.
    pub allocation_id: String,
    pub node_id: String,
    /// Host instance, which signs.
    pub instance_id: String,
    pub device: Device,
    /// Wipe policy of the slot, the least that was to be done (D-75).
    pub policy: String,
    /// How the disk was wiped.
    pub method: String,
    pub start_time: Timestamp,
    pub end_time: Timestamp,
    pub verification: Verification,
    /// [`ERASED`].
    pub result: String,
    pub sign_time: Timestamp,
    /// SHA-256 of the signing key, in hex; see [`key_id`].
    pub key_id: String,
}

/// Which disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// Stable identity by which the slot was approved.
    pub identity: String,
    /// As the controller reports it; empty where there is none.
    pub serial: String,
    /// As the controller reports it; empty where there is none.
    pub model: String,
    /// World-wide name of the namespace (EUI-64 or NGUID), as the kernel reports it; empty where there is none.
    pub wwid: String,
    pub bytes: u64,
}

/// How the wipe was proven.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verification {
    /// "whole" or "samples".
    pub scope: String,
    /// Bytes read back as zero.
    pub verified_bytes: u64,
    /// No partition and no signature of a file system or volume was left.
    pub no_signatures: bool,
    pub end_time: Timestamp,
}

/// A certificate as it is written.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    statement: Value,
    jws: String,
}

/// Id of a key: SHA-256 of its public half (SubjectPublicKeyInfo in DER), in hex.
#[must_use]
pub fn key_id(public_key_info: &[u8]) -> String {
    use sha2::{Digest as _, Sha256};
    hex::encode(Sha256::digest(public_key_info))
}

#[cfg(test)]
mod tests;
