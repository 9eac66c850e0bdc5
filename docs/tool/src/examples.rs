//! Runnable examples of a page: a marker line, a fenced block, and what its output must contain.
//!
//! ````text
//! <!-- example: regions -->
//! ```sh
//! a command as a reader would type it
//! ```
//! <!-- expect: part of the output -->
//! ````
//!
//! A test runs the blocks of a page in one shell, as a reader would, each as it stands. A block must succeed and its
//! output must contain every expected part, so a page cannot say what is not so.
use crate::{Error, Result};

/// One runnable block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Example {
    /// Its name, unique on the page.
    pub name: String,
    /// Line of the marker, from 1.
    pub line: usize,
    /// The block.
    pub script: String,
    /// Parts that the output must contain.
    pub expect: Vec<String>,
}

/// The examples of a page, in order.
///
/// # Errors
/// [`Error::Unexpected`] for a marker without a block, an expectation without an example, or a doubled name.
pub fn parse(path: &str, page: &str) -> Result<Vec<Example>> {
    let mut found: Vec<Example> = Vec::new();
    let mut lines = page.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        let unexpected = |what: String| Error::Unexpected {
            path: format!("{path}:{}", number + 1),
            what,
        };
        if let Some(name) = marker(line, "example") {
            if found.iter().any(|example| example.name == name) {
                return Err(unexpected(format!("example {name} is there twice")));
            }
            if !lines
                .next()
                .is_some_and(|(_, line)| line.starts_with("```"))
            {
                return Err(unexpected(format!("no block follows the marker of {name}")));
            }
            let mut script = String::new();
            for (_, line) in lines.by_ref().take_while(|(_, line)| *line != "```") {
                script.push_str(line);
                script.push('\n');
            }
            found.push(Example {
                name: name.to_owned(),
                line: number + 1,
                script,
                expect: Vec::new(),
            });
        } else if let Some(part) = marker(line, "expect") {
            match found.last_mut() {
                Some(example) => example.expect.push(part.to_owned()),
                None => return Err(unexpected("expectation without an example".to_owned())),
            }
        }
    }
    Ok(found)
}

/// One shell script of all examples: it stops at the first block that fails, and says before each which one it is.
pub fn script(examples: &[Example]) -> String {
    let mut script = String::from("set -euo pipefail\n");
    for example in examples {
        script.push_str(&format!(
            "echo '{}'\n{}",
            begin(&example.name),
            example.script
        ));
    }
    script
}

/// Sentences about expected parts that the output of [`script`] lacks, and about blocks that did not run.
pub fn missing(examples: &[Example], output: &str) -> Vec<String> {
    let mut missing = Vec::new();
    for example in examples {
        let (line, name) = (example.line, &example.name);
        let Some((_, rest)) = output.split_once(&begin(name)) else {
            missing.push(format!("line {line}: {name} did not run"));
            continue;
        };
        let own = rest.split(MARK).next().unwrap_or_default();
        for part in example.expect.iter().filter(|part| !own.contains(*part)) {
            missing.push(format!("line {line}: {name} does not print {part:?}"));
        }
    }
    missing
}

const MARK: &str = "=== example ";

fn begin(name: &str) -> String {
    format!("{MARK}{name} ===")
}

fn marker<'a>(line: &'a str, kind: &str) -> Option<&'a str> {
    line.strip_prefix("<!-- ")?
        .strip_prefix(kind)?
        .strip_prefix(": ")?
        .strip_suffix(" -->")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_come_with_what_they_expect() {
        let page = "text\n<!-- example: one -->\n```sh\na \\\n  b\n```\n<!-- expect: x y -->\n<!-- expect: z -->\n```sh\nnot one\n```\n";
        assert_eq!(
            parse("p.md", page).expect("parses"),
            [Example {
                name: "one".to_owned(),
                line: 2,
                script: "a \\\n  b\n".to_owned(),
                expect: vec!["x y".to_owned(), "z".to_owned()],
            }]
        );
    }

    #[test]
    fn each_block_is_held_to_its_own_output() {
        let page = "<!-- example: one -->\n```sh\nA=1\n```\n<!-- expect: x -->\n<!-- example: two -->\n```sh\necho $A\n```\n<!-- expect: 1 -->\n<!-- example: three -->\n```sh\ntrue\n```\n";
        let examples = parse("p.md", page).expect("parses");
        assert_eq!(
            script(&examples),
            "set -euo pipefail\necho '=== example one ==='\nA=1\necho '=== example two ==='\necho $A\necho '=== example three ==='\ntrue\n"
        );
        let output = "=== example one ===\n=== example two ===\n1 x\n";
        assert_eq!(
            missing(&examples, output),
            [
                "line 1: one does not print \"x\"",
                "line 11: three did not run"
            ]
        );
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        for (page, expected) in [
            (
                "<!-- example: one -->\ntext\n",
                "p.md:1: no block follows the marker of one",
            ),
            (
                "<!-- expect: x -->\n",
                "p.md:1: expectation without an example",
            ),
            (
                "<!-- example: one -->\n```\n```\n<!-- expect: x -->\n<!-- example: one -->\n",
                "p.md:5: example one is there twice",
            ),
        ] {
            assert_eq!(
                parse("p.md", page).expect_err("refused").to_string(),
                expected
            );
        }
    }
}
