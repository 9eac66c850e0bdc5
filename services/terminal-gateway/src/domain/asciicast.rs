//! Recordings in asciicast v3: a header line, then one line per event with the time since the event before.
use serde_json::json;

use super::message::Size;

/// Writes the lines of one recording. Times are microseconds since the session began.
#[derive(Debug, Default)]
pub(crate) struct Encoder {
    last: u64,
    /// The beginning of a character whose end has not come yet.
    partial: Vec<u8>,
}

impl Encoder {
    /// The first line.
    pub(crate) fn header(size: Size, term: &str, unix_seconds: i64) -> String {
        let header = json!({
            "version": 3,
            "term": { "cols": size.cols, "rows": size.rows, "type": term },
            "timestamp": unix_seconds,
        });
        format!("{header}\n")
    }

    /// Output; empty when it ends within its first character.
    pub(crate) fn output(&mut self, at: u64, data: &[u8]) -> String {
        let mut bytes = std::mem::take(&mut self.partial);
        bytes.extend_from_slice(data);
        let mut text = String::with_capacity(bytes.len());
        let mut rest = bytes.as_slice();
        loop {
            match std::str::from_utf8(rest) {
                Ok(valid) => {
                    text.push_str(valid);
                    break;
                }
                Err(error) => {
                    let (valid, bad) = rest.split_at(error.valid_up_to());
                    text.push_str(&String::from_utf8_lossy(valid));
                    match error.error_len() {
                        Some(length) => {
                            text.push(char::REPLACEMENT_CHARACTER);
                            rest = &bad[length..];
                        }
                        None => {
                            self.partial = bad.to_vec();
                            break;
                        }
                    }
                }
            }
        }
        if text.is_empty() {
            return text;
        }
        self.event(at, 'o', &text)
    }

    /// A new size.
    pub(crate) fn resize(&mut self, at: u64, size: Size) -> String {
        self.event(at, 'r', &format!("{}x{}", size.cols, size.rows))
    }

    /// The end.
    pub(crate) fn exit(&mut self, at: u64, status: Option<u32>) -> String {
        let status = status.map_or_else(String::new, |status| status.to_string());
        self.event(at, 'x', &status)
    }

    fn event(&mut self, at: u64, code: char, data: &str) -> String {
        let since = at.saturating_sub(self.last);
        self.last = self.last.max(at);
        let data = serde_json::Value::from(data);
        format!(
            "[{}.{:06}, \"{code}\", {data}]\n",
            since / 1_000_000,
            since % 1_000_000
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_asciicast_v3() {
        let size = Size { cols: 80, rows: 24 };
        let header: serde_json::Value =
            serde_json::from_str(&Encoder::header(size, "vt100", 1_700_000_000)).expect("json");
        assert_eq!(
            header,
            json!({"version": 3, "term": {"cols": 80, "rows": 24, "type": "vt100"}, "timestamp": 1_700_000_000})
        );
        let mut encoder = Encoder::default();
        assert_eq!(
            encoder.output(1_500_000, b"a\x1b[1m\"\n"),
            "[1.500000, \"o\", \"a\\u001b[1m\\\"\\n\"]\n"
        );
        assert_eq!(
            encoder.resize(
                1_500_250,
                Size {
                    cols: 100,
                    rows: 30
                }
            ),
            "[0.000250, \"r\", \"100x30\"]\n"
        );
        assert_eq!(
            encoder.exit(4_000_000, Some(3)),
            "[2.499750, \"x\", \"3\"]\n"
        );
    }

    #[test]
    fn characters_are_whole_whatever_the_pieces() {
        let text = "aé€😀z".as_bytes();
        for cut in 0..text.len() {
            let mut encoder = Encoder::default();
            let lines = encoder.output(0, &text[..cut]) + &encoder.output(0, &text[cut..]);
            let joined: String = lines
                .lines()
                .map(|line| {
                    serde_json::from_str::<(f64, String, String)>(line)
                        .expect("json")
                        .2
                })
                .collect();
            assert_eq!(joined, "aé€😀z");
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_replaced() {
        let mut encoder = Encoder::default();
        assert_eq!(
            encoder.output(0, b"\xff\xfea"),
            "[0.000000, \"o\", \"\u{fffd}\u{fffd}a\"]\n"
        );
        assert_eq!(encoder.output(0, b"\xe2\x82"), "");
        assert_eq!(
            encoder.output(0, b"x"),
            "[0.000000, \"o\", \"\u{fffd}x\"]\n"
        );
    }
}
