//! One message of a stream as a piece of the answer's body.
//!
//! The streams of a project are sent the same bytes by the service, so a piece is written once and kept for a moment
//! for the others.
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, header};
use moka::sync::Cache;
use prost_reflect::{DynamicMessage, ReflectMessage as _};

use crate::error::ApiError;
use crate::json::Json;
use crate::json::write::{Defaults, write_message};
use crate::upstream::Encoded;

/// The field of a request and of a message that says where a stream goes on.
pub(crate) const RESUME_TOKEN: &str = "resume_token";
/// Longest time a piece is kept: readers of one change get it within moments of each other.
const TTL: Duration = Duration::from_secs(2);
/// Most bytes of messages and pieces that are kept.
const MAX_BYTES: u64 = 16 << 20;

/// How the stream is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Form {
    Events,
    Lines,
}

impl Form {
    pub(crate) fn requested(headers: &HeaderMap) -> Self {
        let wants_events = headers
            .get_all(header::ACCEPT)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .filter_map(|range| range.split(';').next())
            .any(|kind| kind.trim().eq_ignore_ascii_case("text/event-stream"));
        if wants_events {
            Self::Events
        } else {
            Self::Lines
        }
    }

    pub(crate) fn content_type(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Events => "text/event-stream",
            Self::Lines => "application/x-ndjson",
        })
    }

    fn message(self, message: &DynamicMessage) -> Bytes {
        let json = write_message(message, Defaults::Write).to_text();
        match self {
            Self::Lines => Bytes::from(format!("{json}\n")),
            Self::Events => {
                let token = text_field(message, RESUME_TOKEN);
                let id = match token.as_str() {
                    "" => String::new(),
                    token => format!("id: {token}\n"),
                };
                Bytes::from(format!("{id}event: {}\ndata: {json}\n\n", kind(message)))
            }
        }
    }

    pub(crate) fn error(self, error: &Json) -> Bytes {
        let json = error.to_text();
        Bytes::from(match self {
            Self::Lines => format!("{json}\n"),
            Self::Events => format!("event: error\ndata: {json}\n\n"),
        })
    }
}

/// The name of what a message holds: the member of its first oneof that is set.
fn kind(message: &DynamicMessage) -> String {
    let held = message.descriptor().oneofs().next().and_then(|oneof| {
        oneof
            .fields()
            .find(|field| message.has_field(field))
            .map(|field| field.name().to_owned())
    });
    held.unwrap_or_else(|| "message".to_owned())
}

fn text_field(message: &DynamicMessage, name: &str) -> String {
    message
        .get_field_by_name(name)
        .and_then(|value| value.as_str().map(str::to_owned))
        .unwrap_or_default()
}

/// Pieces that were written a moment ago, for all streams of a process.
#[derive(Clone, Debug)]
pub(crate) struct Pieces(Cache<(Form, Encoded), Bytes>);

impl Default for Pieces {
    fn default() -> Self {
        let weight = |(_, message): &(Form, Encoded), piece: &Bytes| {
            u32::try_from(message.bytes.len() + piece.len()).unwrap_or(u32::MAX)
        };
        Self(
            Cache::builder()
                .max_capacity(MAX_BYTES)
                .weigher(weight)
                .time_to_live(TTL)
                .build(),
        )
    }
}

impl Pieces {
    /// The piece of a message in this form.
    ///
    /// # Errors
    /// A message that is none of its method.
    pub(crate) fn of(&self, form: Form, message: Encoded) -> Result<Bytes, ApiError> {
        let key = (form, message);
        if let Some(piece) = self.0.get(&key) {
            return Ok(piece);
        }
        let piece = form.message(&key.1.decode()?);
        // what came is part of a larger buffer, which it would keep from being freed
        let message = Encoded {
            bytes: Bytes::copy_from_slice(&key.1.bytes),
            method: key.1.method,
        };
        self.0.insert((form, message), piece.clone());
        Ok(piece)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_is_that_which_is_asked_for() {
        for (accept, form) in [
            ("text/event-stream", Form::Events),
            ("application/json, text/event-stream;q=0.9", Form::Events),
            ("application/x-ndjson", Form::Lines),
            ("*/*", Form::Lines),
        ] {
            let headers =
                HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_static(accept))]);
            assert_eq!(Form::requested(&headers), form, "{accept}");
        }
        assert_eq!(Form::requested(&HeaderMap::new()), Form::Lines);
    }

    #[test]
    fn a_piece_is_that_of_its_form_and_message() {
        let method = |name| {
            let service = gpuaas_proto::pool()
                .get_service_by_name("gpuaas.allocation.v1.AllocationService")
                .expect("service");
            let method = service.methods().find(|method| method.name() == name);
            method.expect("method")
        };
        // field 1 of the one is an allocation's id, of the other a list of allocations
        let message = |name, bytes: &'static [u8]| Encoded {
            method: method(name),
            bytes: Bytes::from_static(bytes),
        };
        let pieces = Pieces::default();
        let one = || message("GetAllocation", b"\x0a\x02a1");
        for _ in 0..2 {
            let line = pieces.of(Form::Lines, one()).expect("line");
            assert!(line.starts_with(b"{") && line.ends_with(b"}\n"), "{line:?}");
            let event = pieces.of(Form::Events, one()).expect("event");
            assert!(event.starts_with(b"event: message\ndata: {"), "{event:?}");
            let other = pieces
                .of(Form::Lines, message("ListAllocations", b""))
                .expect("line");
            assert_ne!(line, other);
            pieces
                .of(Form::Lines, message("GetAllocation", b"\xff"))
                .expect_err("no message");
        }
    }
}
