//! Administrators sign in with a second factor, where their issuer's settings ask for one.
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use tonic::Code;

use super::verify::Identity;
use crate::contract::access::Audience;
use crate::error::ApiError;

/// Whether this sign-in may do what is for this audience.
///
/// # Errors
/// `SECOND_FACTOR_REQUIRED`.
pub fn check(identity: &Identity, audience: Audience) -> Result<(), ApiError> {
    if audience != Audience::Admin || identity.second_factor {
        return Ok(());
    }
    Err(ApiError::new(
        Code::PermissionDenied,
        ErrorReason::SecondFactorRequired,
        "This needs a sign-in with a second factor. Sign in again with one.",
    ))
}
