//! Whether a host may have another certificate for its instance by proof of its key alone. Pure.
use gpuaas_common::error::{Error, Result};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use tonic::Code;

/// The latest certificate of a node's current instance, as far as known.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct LatestCertificate {
    /// SHA-256 of its public key.
    pub key_digest: Vec<u8>,
    /// It expired longer ago than the grace period of renewal.
    pub beyond_grace: bool,
}

/// Decides on a renewal by key. That the caller holds the key is proven by its request, and the certificate is for
/// that key: whoever repeats the request without the key gets nothing to use.
///
/// # Errors
/// `PEER_NOT_ALLOWED`: the instance is not the node's current one. `CREDENTIAL_INVALID`: another key.
/// `CREDENTIAL_EXPIRED`: too late.
pub fn by_key(held: Option<&LatestCertificate>, shown: &[u8; 32]) -> Result<()> {
    let held = held.ok_or_else(not_current)?;
    if held.key_digest != shown {
        return Err(Error::new(
            Code::Unauthenticated,
            ErrorReason::CredentialInvalid,
            "This is not the key of the host instance's last certificate; enrol again with a fresh token.",
        ));
    }
    if held.beyond_grace {
        return Err(Error::new(
            Code::Unauthenticated,
            ErrorReason::CredentialExpired,
            "The host's certificate expired too long ago to be renewed; enrol again with a fresh token.",
        ));
    }
    Ok(())
}

/// The refusal of any but the node's current host instance.
pub fn not_current() -> Error {
    Error::new(
        Code::PermissionDenied,
        ErrorReason::PeerNotAllowed,
        "This is not the node's current host instance; enrol again with a fresh token.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_09_only_the_current_instance_renews_with_its_own_key_and_in_time() {
        let held = |key: u8, beyond_grace| {
            Some(LatestCertificate {
                key_digest: vec![key; 32],
                beyond_grace,
            })
        };
        let cases = [
            (held(1, false), None),
            (None, Some(ErrorReason::PeerNotAllowed)),
            (held(2, false), Some(ErrorReason::CredentialInvalid)),
            (held(1, true), Some(ErrorReason::CredentialExpired)),
        ];
        for (held, expected) in cases {
            let got = by_key(held.as_ref(), &[1; 32]).err();
            assert_eq!(got.map(|error| error.reason()), expected, "{held:?}");
        }
    }
}
