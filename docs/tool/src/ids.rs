//! Requirement ids, and where they are named in text.
use std::fmt;

/// Groups of requirement ids with their titles, in the order of the traceability page: incidents first.
pub const GROUPS: [(&str, &str); 16] = [
    ("INC", "Incidents"),
    ("A", "Inventory"),
    ("B", "Scheduler"),
    ("C", "Allocation"),
    ("D", "Node-scheduler boundary and host agent"),
    ("E", "Image catalog"),
    ("F", "Terminal gateway"),
    ("G", "Billing"),
    ("H", "Gateway, API, UI, SDK"),
    ("I", "Operations artefacts"),
    ("J", "Networking"),
    ("K", "Lab, development and CI"),
    ("L", "Deferred and explicit non-goals"),
    ("CON", "Contradictions, settled in decisions"),
    ("GAP", "Text lost from the documents"),
    ("REF", "Documents referred to"),
];

/// A requirement id, for example INC-12. Orders by group as in [`GROUPS`], then by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id {
    group: usize,
    number: u16,
}

impl Id {
    /// The id of a group and a number; `None` for an unknown group.
    pub fn new(group: &str, number: u16) -> Option<Self> {
        let group = GROUPS.iter().position(|(known, _)| *known == group)?;
        Some(Self { group, number })
    }

    /// Parses "INC-12".
    pub fn parse(text: &str) -> Option<Self> {
        let (group, number) = text.split_once('-')?;
        Self::new(group, number.parse().ok()?)
    }

    /// Name of the group, for example "INC".
    pub fn group(self) -> &'static str {
        GROUPS[self.group].0
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{:02}", self.group(), self.number)
    }
}

/// Ids that the name of a test starts with: `inc_12_d_62_refuses` names INC-12 and D-62.
pub fn of_test_name(name: &str) -> Vec<Id> {
    let mut ids = Vec::new();
    let mut parts = name.split('_');
    while let (Some(group), Some(number)) = (parts.next(), parts.next()) {
        let lower = group.chars().all(|c| c.is_ascii_lowercase());
        let id = number
            .parse()
            .ok()
            .filter(|_| lower && is_digits(number))
            .and_then(|number| Id::new(&group.to_ascii_uppercase(), number));
        match id {
            Some(id) => ids.push(id),
            None => break,
        }
    }
    ids
}

/// Ids named in prose. A range such as `A-56..A-58` names none: it says what a file is about, not what stands behind
/// each line.
pub fn mentioned(text: &str) -> Vec<Id> {
    let mut ids: Vec<Id> = Vec::new();
    let mut rest = text;
    let mut before = None;
    while let Some(start) = rest.find(|c: char| c.is_ascii_uppercase()) {
        before = rest[..start].chars().next_back().or(before);
        let word = &rest[start..];
        let joined = before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '-');
        match leading(word).filter(|_| !joined) {
            Some((first, length)) => {
                rest = &word[length..];
                before = word[..length].chars().next_back();
                let last = rest
                    .strip_prefix("..")
                    .and_then(leading)
                    .filter(|(last, _)| last.group == first.group && last.number > first.number);
                match last {
                    Some((_, length)) => rest = &rest[2 + length..],
                    None => ids.push(first),
                }
            }
            None => {
                before = word.chars().next();
                rest = &word[1..];
            }
        }
    }
    ids
}

/// What a comment says is missing of a requirement that is only partly there: `partly A-12: what is missing`.
pub fn partly(comment: &str) -> Option<(Id, &str)> {
    reason(comment, "partly ")
}

/// Why a page says that a requirement is deliberately not built: `not built A-12: why`.
pub fn not_built(item: &str) -> Option<(Id, &str)> {
    reason(item, "not built ")
}

fn reason<'a>(text: &'a str, mark: &str) -> Option<(Id, &'a str)> {
    let rest = text.trim_start().strip_prefix(mark)?;
    let (id, length) = leading(rest)?;
    let reason = rest[length..].strip_prefix(':')?.trim();
    (!reason.is_empty()).then_some((id, reason))
}

/// The id that `text` starts with, and its length.
fn leading(text: &str) -> Option<(Id, usize)> {
    let letters = text.chars().take_while(char::is_ascii_uppercase).count();
    let number = text[letters..].strip_prefix('-')?;
    let digits = number.chars().take_while(char::is_ascii_digit).count();
    let ends = !number[digits..].starts_with(|c: char| c.is_alphanumeric() || c == '_');
    let id = Id::new(&text[..letters], number[..digits].parse().ok()?)?;
    (ends && (2..=3).contains(&digits)).then_some((id, letters + 1 + digits))
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comment_says_what_is_missing_of_one_requirement() {
        let known = |text| partly(text).map(|(id, missing)| (id.to_string(), missing));
        assert_eq!(
            known(" partly A-12: no page shows it "),
            Some(("A-12".to_owned(), "no page shows it"))
        );
        for other in [
            "partly A-12",
            "partly A-12:",
            "partly there: A-12",
            "A-12 is partly there: no page shows it",
            "partly X-12: unknown",
        ] {
            assert_eq!(known(other), None, "{other}");
        }
        let not_built = not_built("not built L-12: nobody needs it");
        assert_eq!(not_built.map(|(id, _)| id), Id::parse("L-12"));
        assert_eq!(super::not_built("partly L-12: x"), None);
    }

    fn names(ids: &[Id]) -> String {
        ids.iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn test_names_carry_leading_ids() {
        for (name, expected) in [
            ("inc_12_mounted_child_partition_refused", "INC-12"),
            ("inc_12_d_62_refused", "INC-12 D-62"),
            ("a_07_token_is_not_in_the_image", "A-07"),
            ("a_token_works_once", ""),
            ("refuses_inc_12", ""),
            ("z_12_unknown_group", ""),
            ("c_", ""),
            ("INC_12_upper_case", ""),
        ] {
            assert_eq!(names(&of_test_name(name)), expected, "{name}");
        }
    }

    #[test]
    fn prose_names_ids_one_by_one() {
        for (text, expected) in [
            ("refused (INC-12, D-62).", "INC-12 D-62"),
            ("advisory (A-56..A-58, A-60)", "A-60"),
            ("UTF-8 and SHA-256, P-256, XA-12", ""),
            ("A-12b B-1 A-1234", ""),
            ("/A-117/", "A-117"),
            ("A-58..B-60", "A-58 B-60"),
            ("größe A-02", "A-02"),
        ] {
            assert_eq!(names(&mentioned(text)), expected, "{text}");
        }
    }

    #[test]
    fn incidents_come_first() {
        let mut ids = [
            Id::parse("CON-01").expect("id"),
            Id::parse("A-100").expect("id"),
            Id::parse("A-11").expect("id"),
            Id::parse("INC-43").expect("id"),
        ];
        ids.sort();
        assert_eq!(names(&ids), "INC-43 A-11 A-100 CON-01");
    }
}
