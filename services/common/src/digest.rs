//! Digests of images in requests.
use crate::error::{Error, Result};
use crate::value::Digest;

/// Most images of a node.
const MOST: usize = 1000;

/// Refuses what is not a list of at most 1000 digests, "sha256:" and 64 lower-case hex digits each; the error names the
/// field.
///
/// # Errors
/// `INVALID_ARGUMENT` naming `field`.
pub fn check_images(field: &str, digests: &[String]) -> Result<()> {
    if digests.len() <= MOST
        && digests
            .iter()
            .all(|digest| digest.parse::<Digest>().is_ok())
    {
        return Ok(());
    }
    Err(Error::invalid(
        field,
        format!("must be at most {MOST} digests, each {}", Digest::RULE),
    ))
}

/// Refuses what is not the digest of an image; the error names the field.
///
/// # Errors
/// `INVALID_ARGUMENT` naming `field`.
pub fn check_image(field: &str, digest: &str) -> Result<()> {
    match digest.parse::<Digest>() {
        Ok(_) => Ok(()),
        Err(_) => Err(Error::invalid(field, format!("must be {}", Digest::RULE))),
    }
}
