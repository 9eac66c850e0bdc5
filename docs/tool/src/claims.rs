//! Checks what pages say of the repository: paths in code spans, names of tests, `make` targets.
//!
//! A page may name a file as `` `services/common/src/error.rs` ``, tests as a list item
//! `` - `tests/tests/x.rs`: `one`, `two` `` and a target as `` `make up` ``. All three must be there.
use std::collections::BTreeSet;
use std::path::Path;

use crate::{Result, scan};

/// Folders and files that a code span with a slash is taken to be below.
const TOP: [&str; 11] = [
    ".ci/",
    "agent/",
    "clients/",
    "deploy/",
    "docs/",
    "gateway/",
    "load-tests/",
    "migrations/",
    "proto/",
    "services/",
    "tests/",
];

/// Sentences about claims of a page that do not hold.
///
/// # Errors
/// [`crate::Error::File`] when a named file cannot be read.
pub fn broken(root: &Path, page: &str, text: &str) -> Result<Vec<String>> {
    let targets = make_targets(root);
    let mut broken = Vec::new();
    let mut in_block = false;
    for (number, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
            continue;
        }
        let spans: Vec<&str> = line.split('`').skip(1).step_by(2).collect();
        let mut complain = |what: String| broken.push(format!("{page}:{}: {what}", number + 1));
        for target in make_calls(line, in_block) {
            if !targets.contains(target) {
                complain(format!("make {target}: there is no such target"));
            }
        }
        for span in &spans {
            if is_path(span) && !root.join(span).exists() {
                complain(format!("{span}: there is no such file"));
            }
        }
        let Some((file, tests)) = spans.split_first().filter(|_| names_tests(line)) else {
            continue;
        };
        let source = match root.join(file) {
            path if path.is_file() => crate::read(&path)?,
            // complained of above
            _ => continue,
        };
        for test in tests {
            let define = format!("fn {test}(");
            if !source.contains(&define) {
                let place = match file_of(root, &define)? {
                    Some(place) => format!("it is in {place}"),
                    None => "nor anywhere else".to_owned(),
                };
                complain(format!("{file}: there is no test {test}, {place}"));
            }
        }
    }
    Ok(broken)
}

/// The source file with this text.
fn file_of(root: &Path, text: &str) -> Result<Option<String>> {
    for file in scan::files(root)? {
        if crate::read(&root.join(&file))?.contains(text) {
            return Ok(Some(file));
        }
    }
    Ok(None)
}

/// Whether the line is a list item of the form "file: tests".
fn names_tests(line: &str) -> bool {
    let item = line.trim_start().strip_prefix("- `");
    item.and_then(|item| item.split_once('`'))
        .is_some_and(|(file, rest)| file.ends_with(".rs") && rest.starts_with(": `"))
}

fn is_path(span: &str) -> bool {
    TOP.iter().any(|top| span.starts_with(top))
        && !span.contains(|c: char| c.is_whitespace() || "*<>{}…$".contains(c))
}

/// Targets of `make` calls in code spans, and of a command line in a block.
fn make_calls(line: &str, in_block: bool) -> Vec<&str> {
    let spans = line.split('`').skip(1).step_by(2);
    let command = Some(line).filter(|_| in_block);
    spans.chain(command).filter_map(make_call).collect()
}

fn make_call(text: &str) -> Option<&str> {
    let call = text.trim_start().strip_prefix("make ")?;
    let target = call.split([' ', '#']).next()?;
    let named = target.starts_with(|c: char| c.is_ascii_lowercase());
    named.then_some(target)
}

fn make_targets(root: &Path) -> BTreeSet<String> {
    let makefile = std::fs::read_to_string(root.join("Makefile")).unwrap_or_default();
    let rules = makefile
        .lines()
        .filter(|line| !line.starts_with(['\t', '#', ' ', '.']));
    let names = rules.filter_map(|line| line.split_once(':').map(|(names, _)| names));
    names
        .flat_map(str::split_whitespace)
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_passes_and_what_is_not_is_named() {
        let dir = crate::tree(&[
            ("Makefile", ".PHONY: up\nup down: x\n\tmake y\n"),
            ("tests/a.rs", "#[test]\nfn one() {}\n"),
            ("tests/b.rs", "#[test]\nfn two() {}\n"),
        ]);
        let page = "`make up` `make nothing` `agent/x.rs` `services/{a}/b` `up`\n- `tests/a.rs`: `one`, `two`, `six`\n- `tests/a.rs`, see `three`\n```sh\nmake up\nmake no # x\n```\n";
        assert_eq!(
            broken(dir.path(), "p.md", page).expect("checks"),
            [
                "p.md:1: make nothing: there is no such target",
                "p.md:1: agent/x.rs: there is no such file",
                "p.md:2: tests/a.rs: there is no test two, it is in tests/b.rs",
                "p.md:2: tests/a.rs: there is no test six, nor anywhere else",
                "p.md:6: make no: there is no such target",
            ]
        );
    }
}
