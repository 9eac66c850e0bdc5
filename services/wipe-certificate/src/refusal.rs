//! Why a certificate is refused.
use jiff::Timestamp;

/// Why a certificate proves nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Not a wipe certificate.
    #[error("this is no wipe certificate: {0}")]
    Malformed(&'static str),
    /// Of a later version.
    #[error("the certificate is of version {0}, which this program does not know")]
    Version(u64),
    /// What people read is not what was signed.
    #[error("the certificate was changed: what it says of {0} is not what the host signed")]
    Changed(String),
    /// Changed, or signed by another key than the certificate chain's.
    #[error("the signature is not of this statement and key: the certificate was changed")]
    Signature,
    /// The authority to check against is none.
    #[error("the authority's certificate cannot be read")]
    Authority,
    /// The chain does not lead to the authority.
    #[error("the certificate was not signed by a host of this authority ({0})")]
    ForeignAuthority(String),
    /// The chain did not count when the host signed.
    #[error(
        "the host's certificate did not count when it signed, at {0}: it had expired or not begun"
    )]
    ExpiredAtSigning(Timestamp),
    /// A host signed for another one.
    #[error("the host that signed is not the one that the statement names")]
    OtherHost,
    /// The statement contradicts itself.
    #[error("the statement proves no wipe: {0}")]
    ProvesNothing(&'static str),
}
