//! Text that people read.

/// Whether a character changes how the text around it is shown, so that a name or a reason looks like another one: control
/// characters, separators of lines, and marks that change the direction of text.
pub fn is_deceptive(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}' | '\u{FEFF}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_every_script_are_text_and_marks_of_direction_are_not() {
        for name in ["Zoë", "训练 7", "обучение", "تدريب", "अभ्यास", "👩‍🔬 lab"]
        {
            assert!(!name.chars().any(is_deceptive), "{name}");
        }
        for mark in [
            '\n', '\u{7}', '\u{9b}', '\u{2028}', '\u{202e}', '\u{2066}', '\u{feff}',
        ] {
            assert!(is_deceptive(mark), "{mark:?}");
        }
    }
}
