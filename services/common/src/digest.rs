//! Digests of images in requests.

/// Most images of a node.
const MOST: usize = 1000;

/// Refuses what is not a list of at most 1000 digests, "sha256:" and 64 lower-case hex digits each; the error names the
/// field.
///
/// # Errors
/// `INVALID_ARGUMENT` naming `field`.
pub fn check_images(field: &str, digests: &[String]) -> crate::Result<()> {
    if digests.len() <= MOST && digests.iter().all(|digest| is_legal(digest)) {
        return Ok(());
    }
    Err(crate::Error::invalid(
        field,
        format!("must be at most {MOST} digests, each \"sha256:\" and 64 lower-case hex digits"),
    ))
}

/// Refuses what is not the digest of an image; the error names the field.
///
/// # Errors
/// `INVALID_ARGUMENT` naming `field`.
pub fn check_image(field: &str, digest: &str) -> crate::Result<()> {
    if is_legal(digest) {
        return Ok(());
    }
    let rule = "must be \"sha256:\" and 64 lower-case hex digits";
    Err(crate::Error::invalid(field, rule))
}

fn is_legal(digest: &str) -> bool {
    let digit = |byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let hex = digest.strip_prefix("sha256:").unwrap_or_default();
    hex.len() == 64 && hex.bytes().all(digit)
}
