//! The terminal this program runs in: raw while a session lasts, its size, what is typed.
use std::io::{IsTerminal as _, Read as _, stdin, stdout};

use rustix::termios::{self, OptionalActions, Termios};
use tokio::sync::mpsc;

use crate::failure::Failure;

/// Keeps the terminal raw while it lives. Without a terminal it does nothing.
pub struct Raw(Option<Termios>);

impl Raw {
    /// Makes the terminal raw, so that every key reaches the shell.
    ///
    /// # Errors
    /// The terminal cannot be set.
    pub fn enter() -> Result<Self, Failure> {
        if !stdin().is_terminal() {
            return Ok(Self(None));
        }
        let failed =
            |error: std::io::Error| Failure::Local(format!("cannot set the terminal: {error}"));
        let before = termios::tcgetattr(stdin()).map_err(|error| failed(error.into()))?;
        let mut raw = before.clone();
        raw.make_raw();
        termios::tcsetattr(stdin(), OptionalActions::Flush, &raw)
            .map_err(|error| failed(error.into()))?;
        Ok(Self(Some(before)))
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            // a terminal that is gone needs no manners
            let _ = termios::tcsetattr(stdin(), OptionalActions::Flush, before);
        }
    }
}

/// Columns and rows; 80 by 24 without a terminal.
pub fn size() -> (u16, u16) {
    match termios::tcgetwinsize(stdout()) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => {
            (size.ws_col.min(1000), size.ws_row.min(500))
        }
        _ => (80, 24),
    }
}

/// What is typed, in pieces of this size at most, until the end of the input. A thread of its own reads it, since a read of
/// the terminal cannot be given up.
pub fn typed(most: usize) -> mpsc::Receiver<Vec<u8>> {
    let (send, receive) = mpsc::channel(4);
    std::thread::spawn(move || {
        let mut buffer = vec![0; most];
        while let Ok(length @ 1..) = stdin().read(&mut buffer) {
            if send.blocking_send(buffer[..length].to_vec()).is_err() {
                break;
            }
        }
    });
    receive
}

/// Finds `~.` at the beginning of a line, which ends the session whatever the shell does.
#[derive(Debug)]
pub struct Escape {
    line_start: bool,
    tilde: bool,
}

impl Default for Escape {
    fn default() -> Self {
        Self {
            line_start: true,
            tilde: false,
        }
    }
}

impl Escape {
    /// Whether this input ends the session.
    pub fn found(&mut self, data: &[u8]) -> bool {
        for byte in data {
            if self.tilde && *byte == b'.' {
                return true;
            }
            self.tilde = self.line_start && *byte == b'~';
            self.line_start = matches!(byte, b'\r' | b'\n');
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tilde_and_dot_at_the_beginning_of_a_line_end_the_session() {
        for (pieces, found) in [
            (vec!["~."], true),
            (vec!["ls\r", "~", "."], true),
            (vec!["ls ~."], false),
            (vec!["~", "x", "."], false),
            (vec!["~~."], false),
        ] {
            let mut escape = Escape::default();
            assert_eq!(
                pieces.iter().any(|piece| escape.found(piece.as_bytes())),
                found,
                "{pieces:?}"
            );
        }
    }
}
