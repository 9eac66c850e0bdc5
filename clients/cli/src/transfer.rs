//! What a terminal's client keeps of both directions, so that a cut connection loses nothing. Pure.
use std::collections::VecDeque;

use serde_json::{Value, json};

/// Most input in one message.
const PIECE: usize = 16 << 10;
/// Input that may wait here before no more is read, unless the window is larger.
const WAITING: usize = 64 << 10;

/// Offsets of one session.
#[derive(Debug, Default)]
pub struct Transfer {
    /// Offset of the next output byte.
    received: u64,
    /// Input that the shell may not have; its first byte is at `confirmed`.
    unconfirmed: VecDeque<u8>,
    confirmed: u64,
    /// Offset of the next input byte to send on this connection.
    next: u64,
    window: u64,
}

impl Transfer {
    /// Offset of the next output byte.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// A connection is ready, as the platform says.
    pub fn ready(&mut self, ready: &Value) {
        self.received = ready["output_offset"].as_u64().unwrap_or(self.received);
        self.window = ready["input_window"].as_u64().unwrap_or_default();
        // what the platform has need not be sent again, and what it never got must be
        let has = ready["input_offset"].as_u64().unwrap_or_default();
        self.next = has.max(self.confirmed);
    }

    /// Takes input.
    pub fn type_in(&mut self, data: &[u8]) {
        self.unconfirmed.extend(data);
    }

    /// Whether more input may be taken.
    pub fn takes_input(&self) -> bool {
        let window = usize::try_from(self.window).unwrap_or(usize::MAX);
        self.unconfirmed.len() < WAITING.max(window)
    }

    /// Whether the other end has all input.
    pub fn is_confirmed(&self) -> bool {
        self.unconfirmed.is_empty()
    }

    /// The next message of input, when one may be sent.
    pub fn next_message(&mut self) -> Option<Vec<u8>> {
        let end = self.confirmed + self.unconfirmed.len() as u64;
        let limit = end.min(self.confirmed + self.window);
        let length = usize::try_from(limit.checked_sub(self.next)?)
            .ok()?
            .min(PIECE);
        if length == 0 {
            return None;
        }
        let from = usize::try_from(self.next - self.confirmed).ok()?;
        let mut message = self.next.to_be_bytes().to_vec();
        message.extend(self.unconfirmed.range(from..from + length));
        self.next += length as u64;
        Some(message)
    }

    /// The shell has all input before `offset`.
    pub fn confirm(&mut self, offset: u64) {
        let end = self.confirmed + self.unconfirmed.len() as u64;
        let offset = offset.clamp(self.confirmed, end);
        self.unconfirmed
            .drain(..usize::try_from(offset - self.confirmed).unwrap_or(0));
        self.confirmed = offset;
        self.next = self.next.max(offset);
    }

    /// Output to show and the acknowledgement to send afterwards; `None` when the message is not the next one.
    pub fn output<'a>(&mut self, message: &'a [u8]) -> Option<(&'a [u8], Value)> {
        let (offset, data) = message.split_first_chunk::<8>()?;
        if u64::from_be_bytes(*offset) != self.received {
            return None;
        }
        self.received += data.len() as u64;
        Some((data, json!({"type": "ack", "received": self.received})))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready(output: u64, input: u64) -> Value {
        json!({"output_offset": output, "input_offset": input, "input_window": 10})
    }

    #[test]
    fn input_keeps_to_the_window() {
        let mut transfer = Transfer::default();
        transfer.ready(&ready(0, 0));
        transfer.type_in(b"0123456789abc");
        assert_eq!(
            transfer.next_message().as_deref(),
            Some(&b"\0\0\0\0\0\0\0\x000123456789"[..])
        );
        assert_eq!(transfer.next_message(), None);
        transfer.confirm(4);
        assert_eq!(
            transfer.next_message().as_deref(),
            Some(&b"\0\0\0\0\0\0\0\x0aabc"[..])
        );
        assert_eq!(transfer.next_message(), None);
    }

    #[test]
    fn after_a_cut_only_what_is_missing_is_sent_again() {
        let mut transfer = Transfer::default();
        transfer.ready(&ready(0, 0));
        transfer.type_in(b"abcdef");
        transfer.next_message();
        transfer.confirm(2);
        // the platform has four bytes, of which the shell has confirmed two
        transfer.ready(&ready(0, 4));
        assert_eq!(
            transfer.next_message().as_deref(),
            Some(&b"\0\0\0\0\0\0\0\x04ef"[..])
        );
        assert!(!transfer.is_confirmed());
        transfer.confirm(6);
        assert!(
            transfer.is_confirmed() && transfer.takes_input() && transfer.next_message().is_none()
        );
    }

    #[test]
    fn output_comes_in_order_or_not_at_all() {
        let mut transfer = Transfer::default();
        let (data, ack) = transfer.output(b"\0\0\0\0\0\0\0\0hi").expect("the next");
        assert_eq!(
            (data, ack),
            (&b"hi"[..], json!({"type": "ack", "received": 2}))
        );
        assert!(transfer.output(b"\0\0\0\0\0\0\0\0hi").is_none());
        assert!(transfer.output(b"short").is_none());
        // a gap is told before the output that follows it
        transfer.ready(&ready(100, 0));
        assert!(transfer.output(b"\0\0\0\0\0\0\0\x64!").is_some());
        assert_eq!(transfer.received(), 101);
    }
}
