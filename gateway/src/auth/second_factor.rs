//! Roles on the platform take a sign-in with a second factor, where the settings of its issuer ask for one.
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use tonic::Code;

use super::sessions::Session;
use crate::contract::access::Audience;
use crate::contract::route::Route;
use crate::error::ApiError;
use crate::policy::Policies;

/// Refuses who signed in without one what is for those who run the platform, where policies would allow it with one.
///
/// # Errors
/// `SECOND_FACTOR_REQUIRED`.
pub fn check(session: &Session, policies: &Policies, route: &Route) -> Result<(), ApiError> {
    if route.access.audience != Audience::Admin || session.identity.second_factor {
        return Ok(());
    }
    let proven = session.principal.clone().with_second_factor();
    if policies.grant(&proven, route).is_err() {
        return Ok(());
    }
    Err(ApiError::new(
        Code::PermissionDenied,
        ErrorReason::SecondFactorRequired,
        "This needs a sign-in with a second factor. Sign in again with one.",
    ))
}
