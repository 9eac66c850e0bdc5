//! Messages of the protocol: what clients may say, and how answers are written.
use gpuaas_common::id;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use super::end::End;

/// Longest text message.
pub(crate) const MAX_TEXT: usize = 4096;
/// Most input in one message.
pub(crate) const MAX_INPUT: usize = 16 << 10;
/// Most output in one message.
pub(crate) const MAX_OUTPUT: usize = 32 << 10;
const OFFSET: usize = 8;
const DEFAULT_TERM: &str = "xterm-256color";

/// Size of a terminal in characters, within its bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) cols: u32,
    pub(crate) rows: u32,
}

/// SHA-256 of a ticket or resume token; equal only for the same secret.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct SecretHash(pub(crate) [u8; 32]);

impl SecretHash {
    pub(crate) fn of(secret: &str) -> Self {
        Self(Sha256::digest(secret).into())
    }
}

impl std::fmt::Debug for SecretHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SecretHash")
    }
}

/// The first message.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum First {
    Attach {
        ticket: SecretHash,
        allocation_id: Uuid,
        size: Size,
        term: String,
    },
    Resume {
        session_id: Uuid,
        token: SecretHash,
        received: u64,
        size: Size,
    },
}

/// Every later message.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Frame {
    Input { offset: u64, data: Vec<u8> },
    Ack(u64),
    Resize(Size),
    Ping(u64),
    Close,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
enum Wire {
    Attach {
        ticket: String,
        allocation_id: String,
        cols: u32,
        rows: u32,
        #[serde(default)]
        term: Option<String>,
    },
    Resume {
        session_id: String,
        resume_token: String,
        received: u64,
        cols: u32,
        rows: u32,
    },
    Ack {
        received: u64,
    },
    Resize {
        cols: u32,
        rows: u32,
    },
    Ping {
        id: u64,
    },
    Close {},
}

fn broken(rule: impl Into<String>) -> End {
    End::ProtocolError(rule.into())
}

fn wire(text: &str) -> Result<Wire, End> {
    if text.len() > MAX_TEXT {
        return Err(broken(format!(
            "a text message is longer than {MAX_TEXT} bytes"
        )));
    }
    // what serde says quotes the message, and the message may hold a ticket
    serde_json::from_str(text).map_err(|_| broken("a text message is malformed or unknown"))
}

fn size(cols: u32, rows: u32) -> Result<Size, End> {
    if (1..=1000).contains(&cols) && (1..=500).contains(&rows) {
        Ok(Size { cols, rows })
    } else {
        Err(broken("cols must be 1 to 1000 and rows 1 to 500"))
    }
}

fn uuid(field: &str, text: &str) -> Result<Uuid, End> {
    id::parse(field, text).map_err(|_| broken(format!("{field} must be a UUID")))
}

/// Reads the first message.
///
/// # Errors
/// [`End::ProtocolError`].
pub(crate) fn first(text: &str) -> Result<First, End> {
    match wire(text)? {
        Wire::Attach {
            ticket,
            allocation_id,
            cols,
            rows,
            term,
        } => {
            let term = term.unwrap_or_else(|| DEFAULT_TERM.to_owned());
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.+".contains(&byte);
            if !(1..=64).contains(&term.len()) || !term.bytes().all(plain) {
                return Err(broken(
                    "term must be 1 to 64 letters, digits, '-', '_', '.' or '+'",
                ));
            }
            Ok(First::Attach {
                ticket: SecretHash::of(&ticket),
                allocation_id: uuid("allocation_id", &allocation_id)?,
                size: size(cols, rows)?,
                term,
            })
        }
        Wire::Resume {
            session_id,
            resume_token,
            received,
            cols,
            rows,
        } => Ok(First::Resume {
            session_id: uuid("session_id", &session_id)?,
            token: SecretHash::of(&resume_token),
            received,
            size: size(cols, rows)?,
        }),
        _ => Err(broken("the first message must be attach or resume")),
    }
}

/// Reads a later text message.
///
/// # Errors
/// [`End::ProtocolError`].
pub(crate) fn text(text: &str) -> Result<Frame, End> {
    match wire(text)? {
        Wire::Ack { received } => Ok(Frame::Ack(received)),
        Wire::Resize { cols, rows } => Ok(Frame::Resize(size(cols, rows)?)),
        Wire::Ping { id } => Ok(Frame::Ping(id)),
        Wire::Close {} => Ok(Frame::Close),
        Wire::Attach { .. } | Wire::Resume { .. } => {
            Err(broken("attach and resume come first and once"))
        }
    }
}

/// Reads a binary message.
///
/// # Errors
/// [`End::ProtocolError`].
pub(crate) fn binary(message: &[u8]) -> Result<Frame, End> {
    let (offset, data) = message
        .split_first_chunk::<OFFSET>()
        .filter(|(_, data)| (1..=MAX_INPUT).contains(&data.len()))
        .ok_or_else(|| {
            broken(format!(
                "a binary message must be an offset and 1 to {MAX_INPUT} bytes"
            ))
        })?;
    Ok(Frame::Input {
        offset: u64::from_be_bytes(*offset),
        data: data.to_vec(),
    })
}

/// Writes output.
pub(crate) fn output(offset: u64, data: &[u8]) -> Vec<u8> {
    let mut message = Vec::with_capacity(OFFSET + data.len());
    message.extend_from_slice(&offset.to_be_bytes());
    message.extend_from_slice(data);
    message
}

/// What the platform says.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Say {
    SessionReady {
        kind: &'static str,
        session_id: Uuid,
        allocation_id: Uuid,
        resumed: bool,
        resume_token: String,
        resume_seconds: u64,
        output_offset: u64,
        input_offset: u64,
        output_window: u64,
        input_window: u64,
        recorded: bool,
        idle_seconds: u64,
        end_time: String,
    },
    Gap {
        from: u64,
        to: u64,
    },
    InputAck {
        offset: u64,
    },
    Pong {
        id: u64,
    },
    Exit {
        #[serde(skip_serializing_if = "Option::is_none")]
        status: Option<u32>,
    },
    Closed {
        reason: &'static str,
        message: String,
    },
}

impl Say {
    /// As a text message.
    pub(crate) fn to_text(&self) -> String {
        serde_json::to_string(self).expect("plain data")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ATTACH: &str = r#"{"type":"attach","ticket":"s3cret","allocation_id":"0193a5c0-0000-7000-8000-000000000001","cols":80,"rows":24}"#;

    #[test]
    fn messages_are_read_as_documented() {
        let First::Attach {
            ticket, size, term, ..
        } = first(ATTACH).expect("good")
        else {
            panic!("attach")
        };
        assert_eq!(ticket, SecretHash::of("s3cret"));
        assert_eq!(
            (size, term.as_str()),
            (Size { cols: 80, rows: 24 }, "xterm-256color")
        );
        assert_eq!(text(r#"{"type":"ack","received":7}"#), Ok(Frame::Ack(7)));
        assert_eq!(text(r#"{"type":"close"}"#), Ok(Frame::Close));
        assert_eq!(text(r#"{"type":"ping","id":3}"#), Ok(Frame::Ping(3)));
        let input = binary(b"\0\0\0\0\0\0\x01\x02ls\n");
        assert_eq!(
            input,
            Ok(Frame::Input {
                offset: 258,
                data: b"ls\n".to_vec()
            })
        );
        assert_eq!(output(258, b"ls"), b"\0\0\0\0\0\0\x01\x02ls");
    }

    #[test]
    fn f_10_a_client_cannot_name_a_target() {
        let with = ATTACH.replace("\"cols\"", "\"target_host\":\"10.0.0.1\",\"cols\"");
        assert!(matches!(first(&with), Err(End::ProtocolError(_))));
    }

    #[test]
    fn broken_messages_are_refused_without_repeating_them() {
        let long = format!(r#"{{"type":"ack","received":{}}}"#, " ".repeat(MAX_TEXT));
        let cases = [
            "",
            "{}",
            "null",
            "[]",
            "attach",
            r#"{"type":"shell"}"#,
            r#"{"type":"ack"}"#,
            r#"{"type":"ack","received":-1}"#,
            r#"{"type":"ack","received":1,"more":2}"#,
            r#"{"type":"resize","cols":0,"rows":24}"#,
            r#"{"type":"resize","cols":80,"rows":501}"#,
            r#"{"type":"ping","id":"x"}"#,
            ATTACH,
            &long,
            "\u{0}",
        ];
        for case in cases {
            assert!(matches!(text(case), Err(End::ProtocolError(_))), "{case}");
        }
        let secret = ATTACH.replace("80", "\"s3cret\"");
        let Err(error) = first(&secret) else {
            panic!("refused")
        };
        assert!(!error.message().contains("s3cret"));
        assert!(matches!(
            first(r#"{"type":"close"}"#),
            Err(End::ProtocolError(_))
        ));
        for case in [
            &b""[..],
            b"1234567",
            b"12345678",
            &[0; OFFSET + MAX_INPUT + 1],
        ] {
            assert!(matches!(binary(case), Err(End::ProtocolError(_))));
        }
    }
}
