//! The requirement list, read from its page.
use crate::ids::Id;
use crate::{Error, Result};

/// Path of the list below the root.
pub const PATH: &str = "docs/requirements.md";

/// One line of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// Its id.
    pub id: Id,
    /// Its text without id and document numbers.
    pub text: String,
}

/// Parses the page.
///
/// # Errors
/// [`Error::Unexpected`] for an id of an unknown group or one that is there twice.
pub fn parse(page: &str) -> Result<Vec<Requirement>> {
    let mut found: Vec<Requirement> = Vec::new();
    for line in page.lines() {
        let Some((name, text)) = line
            .strip_prefix("- ")
            .and_then(|line| line.split_once(": "))
        else {
            continue;
        };
        // prose may be a list item with a colon too
        if name.contains(' ') || !name.starts_with(|c: char| c.is_ascii_uppercase()) {
            continue;
        }
        let unexpected = |what: &str| Error::Unexpected {
            path: PATH.to_owned(),
            what: format!("{name}: {what}"),
        };
        let id = Id::parse(name).ok_or_else(|| unexpected("not an id of a known group"))?;
        if found.iter().any(|requirement| requirement.id == id) {
            return Err(unexpected("is there twice"));
        }
        found.push(Requirement {
            id,
            text: without_documents(text).to_owned(),
        });
    }
    found.sort_by_key(|requirement| requirement.id);
    Ok(found)
}

/// Cuts the trailing document numbers, "[000] [002]".
fn without_documents(text: &str) -> &str {
    let mut text = text.trim_end();
    while let Some(cut) = text.strip_suffix(']').and_then(|text| text.rfind('[')) {
        let tag = &text[cut + 1..text.len() - 1];
        if tag.len() != 3 || !tag.chars().all(|c| c.is_ascii_digit()) {
            break;
        }
        text = text[..cut].trim_end();
    }
    text
}

/// The beginning of a text: whole words, at most `limit` characters, code spans closed.
pub fn short(text: &str, limit: usize) -> String {
    let text = text
        .strip_prefix("(told) ")
        .or_else(|| text.strip_prefix("(warned) "))
        .unwrap_or(text);
    if text.chars().count() <= limit {
        return text.to_owned();
    }
    let mut cut = String::new();
    for word in text.split(' ') {
        if cut.chars().count() + 1 + word.chars().count() > limit {
            break;
        }
        if !cut.is_empty() {
            cut.push(' ');
        }
        cut.push_str(word);
    }
    let mut cut = cut.trim_end_matches([',', ':', ';', '.', '(']).to_owned();
    if cut.matches('`').count() % 2 == 1 {
        cut.push('`');
    }
    cut.push('…');
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_requirements_in_order() {
        let page = "# Requirements\n- The ids: stable\n## A\n- A-02: Two `x`. [000] [004]\n- A-01: One [x]. [001]\n";
        let found = parse(page).expect("parses");
        let texts: Vec<_> = found
            .iter()
            .map(|r| (r.id.to_string(), r.text.as_str()))
            .collect();
        assert_eq!(
            texts,
            [
                ("A-01".to_owned(), "One [x]."),
                ("A-02".to_owned(), "Two `x`.")
            ]
        );
    }

    #[test]
    fn a_doubled_id_is_refused() {
        let error = parse("- A-01: One.\n- A-01: Two.\n").expect_err("refused");
        assert!(error.to_string().contains("A-01"), "{error}");
    }

    #[test]
    fn short_text_keeps_words_and_code_whole() {
        assert_eq!(short("(told) one `two three` four", 14), "one `two`…");
        assert_eq!(short("(warned) one", 14), "one");
    }
}
