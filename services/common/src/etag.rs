//! Etags: a caller who decides by what it has read is refused when that is not so any more.
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use tonic::Code;

use crate::{Error, Result};

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
    use super::*;

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
