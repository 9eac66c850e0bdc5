//! What an answer says of an operation that is not to be used in new programs: since when, and until when it works.
use http::{HeaderMap, HeaderName, HeaderValue, header};

use crate::contract::deprecation::Deprecation;
use crate::reference;

/// Since when (RFC 9745).
pub const DEPRECATION: HeaderName = HeaderName::from_static("deprecation");
/// Until when (RFC 8594).
pub const SUNSET: HeaderName = HeaderName::from_static("sunset");

/// Puts it on an answer, with a link to where the reference says what to use.
pub fn put(headers: &mut HeaderMap, deprecation: &Deprecation, operation: &str) {
    let link = format!(
        "<{}#{operation}>; rel=\"deprecation\"; type=\"text/html\"",
        reference::PATH
    );
    let values = [
        (DEPRECATION, format!("@{}", deprecation.since_second())),
        (SUNSET, deprecation.sunset_date()),
        (header::LINK, link),
    ];
    for (name, value) in values {
        if let Ok(value) = HeaderValue::try_from(value) {
            headers.insert(name, value);
        }
    }
}
