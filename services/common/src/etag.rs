//! Etags: a caller who decides by what it has read is refused when that is not so any more.
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use tonic::Code;

use crate::error::{Error, Result};
use crate::idempotency;

/// Bytes of a digest that tell two states of one resource apart.
const BYTES: usize = 12;

/// The etag of what calls change of a resource: another one when that is another, and after nothing else. A resource that counts
/// its changes has that number as its etag instead.
pub fn of(changed: &impl prost::Message) -> String {
    hex::encode(&idempotency::hash(changed)[..BYTES])
}

/// Refuses a given etag that is not the one of the resource as it is now, read under its lock. An empty one is not checked.
///
/// # Errors
/// `ETAG_STALE`, `ABORTED`.
pub fn check(given: &str, now: &str) -> Result<()> {
    if given.is_empty() || given == now {
        return Ok(());
    }
    Err(Error::new(
        Code::Aborted,
        ErrorReason::EtagStale,
        "It was changed after you read it. Read it again, and decide anew.",
    )
    .field("etag", "must be the one of the resource as it is now"))
}

#[cfg(test)]
mod tests {
    use gpuaas_proto::gpuaas::allocation::v1::ProjectNetwork;

    use super::*;

    #[test]
    fn an_etag_is_of_what_is_changed() {
        let network = |vms_reach_each_other| ProjectNetwork {
            vms_reach_each_other,
            ..ProjectNetwork::default()
        };
        assert_eq!(of(&network(true)), of(&network(true)));
        assert_ne!(of(&network(true)), of(&network(false)));
        // not empty, which nobody checks, for a message that is
        assert_eq!(of(&network(false)).len(), 2 * BYTES);
    }

    #[test]
    fn a_stale_etag_is_refused_and_not_worth_repeating() {
        assert!(check("", "2").is_ok() && check("2", "2").is_ok());
        let error = check("1", "2").expect_err("stale");
        assert_eq!(
            (error.code(), error.reason()),
            (Code::Aborted, ErrorReason::EtagStale)
        );
        assert!(!error.is_transient(), "the same call fails again");
    }
}
