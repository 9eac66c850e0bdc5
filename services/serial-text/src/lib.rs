//! What a VM printed on its serial console, as text that controls no terminal.

/// Leaves text, line ends and tabs of what a VM printed. A VM controls nothing else of a terminal: also control characters
/// above ASCII, and bytes that are no text, begin escape sequences.
#[derive(Debug, Default)]
pub struct PlainText {
    /// The beginning of a letter that the next part may end.
    rest: Vec<u8>,
}

impl PlainText {
    /// The text of the next part. Parts are cut anywhere: a letter that is cut comes with the part that ends it.
    pub fn of(&mut self, data: &[u8]) -> String {
        let bytes = [std::mem::take(&mut self.rest).as_slice(), data].concat();
        let mut text = String::with_capacity(bytes.len());
        let mut chunks = bytes.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            let shown = |letter: &char| !letter.is_control() || matches!(letter, '\n' | '\t');
            text.extend(chunk.valid().chars().filter(shown));
            let wrong = chunk.invalid();
            let is_cut = std::str::from_utf8(wrong).is_err_and(|error| error.error_len().is_none());
            if chunks.peek().is_none() && is_cut {
                self.rest = wrong.to_vec();
            } else if !wrong.is_empty() {
                text.push(char::REPLACEMENT_CHARACTER);
            }
        }
        text
    }

    /// Forgets the beginning of a letter: what comes next does not follow what came before.
    pub fn skip(&mut self) {
        self.rest.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vm_controls_no_terminal() {
        let mut plain = PlainText::default();
        assert_eq!(plain.of(b"a\r\n\x1b]0;title\x07\tb"), "a\n]0;title\tb");
        // those of eight bits, as letters and as bytes
        assert_eq!(plain.of(b"c\xc2\x9b31m\x9b31m"), "c31m\u{fffd}31m");
    }

    #[test]
    fn a_letter_that_is_cut_is_whole_again() {
        let mut plain = PlainText::default();
        assert_eq!(plain.of(b"a\xc3"), "a");
        assert_eq!(plain.of(b"\xbc"), "ü");
        assert_eq!(plain.of(b"\xc3"), "");
        plain.skip();
        assert_eq!(plain.of(b"b"), "b");
    }
}
