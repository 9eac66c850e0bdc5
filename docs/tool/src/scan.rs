//! Finds requirement ids in source files: in names of tests, in comments of tests, in comments of code.
use std::path::Path;

use crate::Result;
use crate::ids::{self, Id};

/// Folders that hold no source of ours. `docs` names ids as examples and in the generated page itself.
const SKIPPED: [&str; 6] = [
    ".git",
    ".run",
    "docs",
    "node_modules",
    "target",
    "third_party",
];

/// A place that names an id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mention {
    /// What is named.
    pub id: Id,
    /// File below the root.
    pub file: String,
    /// The test that names it; `None` for code.
    pub test: Option<String>,
}

/// A comment that says what is missing of a requirement.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Partly {
    /// The requirement.
    pub id: Id,
    /// In its own words.
    pub missing: String,
}

/// What the sources say of requirements.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// In order and each once.
    pub mentions: Vec<Mention>,
    /// In order and each once.
    pub partly: Vec<Partly>,
}

/// All that is said below the root.
///
/// # Errors
/// [`crate::Error::File`] for what cannot be read.
pub fn tree(root: &Path) -> Result<Found> {
    let mut found = Found::default();
    for file in files(root)? {
        let text = crate::read(&root.join(&file))?;
        found.mentions.extend(source(&file, &text));
        found.partly.extend(partly(&file, &text));
    }
    found.mentions.sort();
    found.mentions.dedup();
    found.partly.sort();
    found.partly.dedup();
    Ok(found)
}

/// What one source file says is missing.
pub fn partly(file: &str, text: &str) -> Vec<Partly> {
    let Some(language) = language(Path::new(file)) else {
        return Vec::new();
    };
    let comments = text
        .lines()
        .filter_map(|line| comment(language, line.trim_start()));
    comments
        .filter_map(ids::partly)
        .map(|(id, missing)| Partly {
            id,
            missing: missing.to_owned(),
        })
        .collect()
}

/// All source files below the root, in order.
///
/// # Errors
/// [`crate::Error::File`] for a folder that cannot be read.
pub fn files(root: &Path) -> Result<Vec<String>> {
    crate::files(root, "", &SKIPPED, |path| language(path).is_some())
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Language {
    #[default]
    Rust,
    Sql,
    Shell,
    Proto,
    TypeScript,
}

fn language(path: &Path) -> Option<Language> {
    if path.file_name()? == "Makefile" {
        return Some(Language::Shell);
    }
    match path.extension()?.to_str()? {
        "rs" => Some(Language::Rust),
        "sql" => Some(Language::Sql),
        "sh" | "service" => Some(Language::Shell),
        "proto" => Some(Language::Proto),
        "ts" | "tsx" | "mjs" => Some(Language::TypeScript),
        _ => None,
    }
}

/// Mentions in one source file, in order.
pub fn source(file: &str, text: &str) -> Vec<Mention> {
    let Some(language) = language(Path::new(file)) else {
        return Vec::new();
    };
    let mut scan = Scan {
        file,
        language,
        listed: listed(text),
        tests_only: is_test_file(file),
        ..Scan::default()
    };
    let lines: Vec<&str> = text.lines().collect();
    for (number, line) in lines.iter().enumerate() {
        scan.line(line, lines.get(number + 1).copied().unwrap_or_default());
    }
    let above = std::mem::take(&mut scan.above);
    scan.name(&above);
    scan.mentions.sort();
    scan.mentions
}

/// Names of the tests that a file lists with `cases!`: they have no attribute.
fn listed(text: &str) -> Vec<&str> {
    let lists = text.split("cases![").skip(1);
    let entries =
        lists.flat_map(|list| list.split(']').next().unwrap_or_default().split([';', ',']));
    let names = entries.filter_map(|entry| entry.trim().split_once(": "));
    names
        .filter(|(_, usual)| usual.parse::<u64>().is_ok())
        .map(|(name, _)| name)
        .collect()
}

/// Whether everything in the file is there for tests.
fn is_test_file(file: &str) -> bool {
    let path = Path::new(file);
    let stem = path
        .file_stem()
        .and_then(|s| s.to_str())
        .unwrap_or_default();
    path.components()
        .any(|part| part.as_os_str() == "tests" || part.as_os_str() == "e2e")
        || matches!(stem, "tests" | "test")
        || stem.ends_with("_test")
        || stem.ends_with("_tests")
        || stem.ends_with(".test")
        || stem.ends_with(".spec")
}

/// State of a scan. It relies on formatted sources: a block ends at a brace as deep as its beginning.
#[derive(Default)]
struct Scan<'a> {
    file: &'a str,
    language: Language,
    /// Tests without an attribute.
    listed: Vec<&'a str>,
    /// The whole file is for tests.
    tests_only: bool,
    /// Ids in the comment block that ends on the line before.
    above: Vec<Id>,
    /// The attributes above say that the next function is a test.
    marked: bool,
    /// Inside an attribute that spans lines.
    in_attribute: bool,
    /// Closing line of the test module the scan is in.
    module_end: Option<String>,
    /// Name and closing line of the test the scan is in.
    test: Option<(String, String)>,
    mentions: Vec<Mention>,
}

impl Scan<'_> {
    fn line(&mut self, line: &str, next: &str) {
        let trimmed = line.trim_start();
        let comment = comment(self.language, trimmed);
        let ids = comment.map(ids::mentioned).unwrap_or_default();
        let whole = comment.is_some_and(|text| trimmed.len() - text.len() <= 3);
        if whole && self.test.is_none() {
            self.above.extend(ids);
            return;
        }
        self.name(&ids);
        if whole || self.attribute(trimmed) {
            return;
        }
        let indent = &line[..line.len() - trimmed.len()];
        if let Some(name) = self.function(trimmed) {
            let mut ids = std::mem::take(&mut self.above);
            ids.extend(ids::of_test_name(&name));
            ids.extend(ids::mentioned(&name));
            self.test = Some((name, format!("{indent}{}", self.closing())));
            self.name(&ids);
        }
        let above = std::mem::take(&mut self.above);
        self.name(&above);
        self.marked = false;
        if trimmed == "#[cfg(test)]" && next.trim_end().ends_with('{') {
            self.module_end = Some(format!("{indent}}}"));
        }
        if self.test.as_ref().is_some_and(|(_, end)| end == line) {
            self.test = None;
        }
        if self.module_end.as_deref() == Some(line) {
            self.module_end = None;
        }
    }

    /// Records ids for the test the scan is in, or for code; helpers of tests count for nothing.
    fn name(&mut self, ids: &[Id]) {
        let test = self.test.as_ref().map(|(name, _)| name.clone());
        if test.is_none() && (self.tests_only || self.module_end.is_some()) {
            return;
        }
        self.mentions.extend(ids.iter().map(|id| Mention {
            id: *id,
            file: self.file.to_owned(),
            test: test.clone(),
        }));
    }

    /// Whether the line is part of an attribute; notes those that mark a test.
    fn attribute(&mut self, trimmed: &str) -> bool {
        if self.language != Language::Rust || trimmed == "#[cfg(test)]" {
            return false;
        }
        if let Some(attribute) = trimmed.strip_prefix("#[") {
            let path = attribute.split(['(', ']', ' ']).next().unwrap_or_default();
            let last = path.rsplit("::").next().unwrap_or_default();
            self.marked |= last == "test" || last.ends_with("_test");
            self.in_attribute = !trimmed.ends_with(']');
            return true;
        }
        let inside = self.in_attribute;
        if inside && trimmed.ends_with(")]") {
            self.in_attribute = false;
        }
        inside
    }

    /// Name of the test that begins on this line.
    fn function(&self, trimmed: &str) -> Option<String> {
        match self.language {
            Language::Rust => {
                let after = trimmed
                    .strip_prefix("fn ")
                    .or_else(|| trimmed.split_once(" fn ").map(|(_, after)| after))?;
                let name = identifier(after)?;
                (self.marked || self.listed.contains(&name.as_str())).then_some(name)
            }
            Language::Shell => {
                let (name, _) = trimmed.split_once("()")?;
                (!ids::of_test_name(name).is_empty()).then(|| name.to_owned())
            }
            Language::TypeScript => {
                let call = trimmed.strip_prefix("await ").unwrap_or(trimmed);
                let call = call
                    .strip_prefix("test(")
                    .or_else(|| trimmed.strip_prefix("it("))?;
                let quote = call
                    .chars()
                    .next()
                    .filter(|c| matches!(c, '"' | '\'' | '`'))?;
                call[1..].split(quote).next().map(str::to_owned)
            }
            _ => None,
        }
    }

    /// How a test's block ends.
    fn closing(&self) -> &'static str {
        match self.language {
            Language::TypeScript => "});",
            _ => "}",
        }
    }
}

fn identifier(text: &str) -> Option<String> {
    let name: String = text
        .chars()
        .take_while(|c| c.is_alphanumeric() || *c == '_')
        .collect();
    (!name.is_empty()).then_some(name)
}

/// The comment on a line, without its marker.
fn comment(language: Language, trimmed: &str) -> Option<&str> {
    let marker = match language {
        Language::Rust | Language::Proto | Language::TypeScript => "//",
        Language::Sql => "--",
        Language::Shell => "#",
    };
    // "https://" is not a comment
    let start = if trimmed.starts_with(marker) {
        0
    } else {
        trimmed.find(&format!(" {marker}"))? + 1
    };
    let text = &trimmed[start + marker.len()..];
    Some(text.strip_prefix(['/', '!']).unwrap_or(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(file: &str, text: &str) -> Vec<String> {
        source(file, text)
            .into_iter()
            .map(|mention| match mention.test {
                Some(test) => format!("{} {test}", mention.id),
                None => mention.id.to_string(),
            })
            .collect()
    }

    #[test]
    fn tests_that_a_file_lists_are_tests() {
        let text = r#"
pub fn cases() -> Vec<Case> {
    cases![Place::System;
        a_01_is_listed: 20,
        other: 5,
    ]
}

async fn a_01_is_listed() {
    // and A-02
}

async fn a_03_helps() {}
"#;
        assert_eq!(
            found("tests/tests/host/x.rs", text),
            ["A-01 a_01_is_listed", "A-02 a_01_is_listed"]
        );
    }

    #[test]
    fn each_language_says_what_is_missing() {
        for (file, text) in [
            (
                "a.rs",
                "/// The rule.\n///\n/// partly A-01: more\nfn rule() {}\n",
            ),
            ("a.rs", "let a = 1; // partly A-01: more\n"),
            ("1.sql", "-- partly A-01: more\n"),
            ("x.sh", "# partly A-01: more\n"),
        ] {
            let found = partly(file, text);
            let found: Vec<_> = found
                .iter()
                .map(|it| (it.id.to_string(), &*it.missing))
                .collect();
            assert_eq!(found, [("A-01".to_owned(), "more")], "{file}");
        }
        assert_eq!(partly("a.rs", "let text = \"partly A-01: more\";\n"), []);
    }

    #[test]
    fn a_range_names_none_of_its_ids() {
        let text = "//! A rule (A-01..A-03, A-05).\n\n/// B-01..B-02\n#[test]\nfn holds() {\n}\n";
        assert_eq!(found("services/x/src/a.rs", text), ["A-05"]);
    }

    #[test]
    fn rust_code_and_tests_are_told_apart() {
        let text = r#"
//! The rule (A-01).
/// Follows B-02.
pub fn rule() {
    let url = "https://A-03"; // C-04
}

#[cfg(test)]
mod tests {
    /// A helper about A-05.
    fn helper() {}

    /// Pins A-06.
    #[tokio::test(
        flavor = "multi_thread"
    )]
    async fn inc_12_d_62_refused() {
        // and A-07
        helper();
    }

    fn d_01_not_a_test() {}
}

/// Back in code: A-08.
pub fn code() {}
"#;
        assert_eq!(
            found("services/x/src/a.rs", text),
            [
                "INC-12 inc_12_d_62_refused",
                "A-01",
                "A-06 inc_12_d_62_refused",
                "A-07 inc_12_d_62_refused",
                "A-08",
                "B-02",
                "C-04",
                "D-62 inc_12_d_62_refused",
            ]
        );
    }

    #[test]
    fn a_test_module_in_another_file_does_not_hide_code() {
        let text = "#[cfg(test)]\nmod tests;\n\n/// A-01\npub fn code() {}\n";
        assert_eq!(found("services/x/src/a.rs", text), ["A-01"]);
    }

    #[test]
    fn helpers_of_test_files_count_for_nothing() {
        let text = "/// A-01\nfn helper() {}\n\n#[test]\nfn a_02_holds() {\n}\n";
        assert_eq!(found("tests/tests/x.rs", text), ["A-02 a_02_holds"]);
    }

    #[test]
    fn other_languages_are_read_by_their_comments() {
        for (file, text, expected) in [
            ("m/1.sql", "-- A-01\nselect 'A-02'; -- A-03\n", "A-01 A-03"),
            (
                "d/x.sh",
                "# A-01\ninc_28_lints() {\n  true # A-02\n}\n# A-03\n",
                "INC-28 inc_28_lints|A-01 inc_28_lints|A-02 inc_28_lints|A-03",
            ),
            ("p/x.proto", "// A-01\nstring a = 1; // A-02\n", "A-01 A-02"),
            (
                "c/x.test.ts",
                "test(\"INC-12 is refused\", () => {\n  // A-02\n});\n// A-03\n",
                "INC-12 INC-12 is refused|A-02 INC-12 is refused",
            ),
            (
                "c/e2e/run.mjs",
                "// A-01\ntry {\n  await test(\"h_04_is_shown\", async () => {\n    page.on(); // A-02\n  });\n}\n",
                "A-02 h_04_is_shown|H-04 h_04_is_shown",
            ),
            ("d/x.service", "# A-01\n[Unit]\n", "A-01"),
            ("Makefile", "# A-01\nup: a\n\ttrue\n", "A-01"),
            ("c/x.txt", "A-01", ""),
        ] {
            let separator = if expected.contains('|') { "|" } else { " " };
            assert_eq!(found(file, text).join(separator), expected, "{file}");
        }
    }
}
