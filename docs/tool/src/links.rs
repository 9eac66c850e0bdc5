//! Checks relative links and anchors of the pages, what they claim, and that the summary has every page.
use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use crate::Result;
use crate::claims;
use crate::markdown::{prose, slug};

/// Folder of the pages; the readme of the repository is checked with them.
const DOCS: &str = "docs";
const README: &str = "README.md";
const SUMMARY: &str = "docs/SUMMARY.md";
/// Pages that name files and commands of other repositories and of the past.
const HISTORY: [&str; 2] = ["docs/requirements.md", "docs/traceability.md"];

/// Sentences about links that lead nowhere and pages that nothing leads to; empty when all is well.
///
/// # Errors
/// [`crate::Error::File`] for what cannot be read.
pub fn broken(root: &Path) -> Result<Vec<String>> {
    let docs = crate::files(root, DOCS, &[], |path| crate::ends(path, "md"))?;
    let pages = [README.to_owned()].into_iter().chain(docs);
    let pages: Vec<PathBuf> = pages.map(PathBuf::from).collect();
    let mut broken = Vec::new();
    let mut listed = BTreeSet::new();
    for page in &pages {
        let text = crate::read(&root.join(page))?;
        let name = page.display().to_string();
        if !HISTORY.contains(&name.as_str()) {
            broken.extend(claims::broken(root, &name, &text)?);
        }
        for (line, target) in targets(&text) {
            match resolve(root, page, &target) {
                Ok(file) => {
                    if page == Path::new(SUMMARY) {
                        listed.insert(file);
                    }
                }
                Err(why) => broken.push(format!("{}:{line}: {target}: {why}", page.display())),
            }
        }
    }
    for page in &pages {
        if page != Path::new(SUMMARY) && page != Path::new(README) && !listed.contains(page) {
            broken.push(format!("{}: is not in {SUMMARY}", page.display()));
        }
    }
    Ok(broken)
}

/// The file that a link leads to, or why it leads nowhere.
fn resolve(root: &Path, page: &Path, target: &str) -> Result<PathBuf, String> {
    let (path, anchor) = match target.split_once('#') {
        Some((path, anchor)) => (path, Some(anchor)),
        None => (target, None),
    };
    let file = if path.is_empty() {
        page.to_owned()
    } else {
        let folder = page.parent().unwrap_or(Path::new(""));
        normal(&folder.join(path)).ok_or("leads out of the repository")?
    };
    let full = root.join(&file);
    if !full.exists() {
        return Err("there is no such file".to_owned());
    }
    let Some(anchor) = anchor.filter(|_| crate::ends(&file, "md")) else {
        return Ok(file);
    };
    let text = crate::read(&full).map_err(|error| error.to_string())?;
    if anchors(&text).contains(anchor) {
        Ok(file)
    } else {
        Err("there is no such heading".to_owned())
    }
}

/// Takes `.` and `..` out of a relative path; `None` when it leaves the root.
fn normal(path: &Path) -> Option<PathBuf> {
    let mut clean = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => clean.push(name),
            Component::CurDir => {}
            Component::ParentDir => {
                if !clean.pop() {
                    return None;
                }
            }
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(clean)
}

/// Anchors of a page's headings; a repeated heading gets a number.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    for (_, line) in prose(text) {
        let title = line.trim_start_matches('#');
        if title.len() == line.len() || !title.starts_with(' ') {
            continue;
        }
        let anchor = slug(title);
        let mut unique = anchor.clone();
        let mut number = 0;
        while !anchors.insert(unique.clone()) {
            number += 1;
            unique = format!("{anchor}-{number}");
        }
    }
    anchors
}

/// Relative link targets with their line numbers.
fn targets(text: &str) -> Vec<(usize, String)> {
    let mut targets = Vec::new();
    for (number, line) in prose(text) {
        let line = without_code(line);
        for (at, _) in line.match_indices("](") {
            let rest = &line[at + 2..];
            let Some(end) = rest.find(')') else { continue };
            let target = rest[..end].split(' ').next().unwrap_or_default();
            let elsewhere = target.contains("://") || target.starts_with("mailto:");
            if !target.is_empty() && !elsewhere {
                targets.push((number, target.to_owned()));
            }
        }
    }
    targets
}

/// The line with code spans blanked.
fn without_code(line: &str) -> String {
    let mut code = false;
    line.chars()
        .map(|c| {
            if c == '`' {
                code = !code;
            }
            if code { ' ' } else { c }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree;

    #[test]
    fn good_links_pass() {
        let dir = tree(&[
            (
                "README.md",
                "[docs](docs/a.md#two-words) `[x](nothing)` [web](https://example.com/#x)",
            ),
            ("docs/SUMMARY.md", "- [A](a.md)\n- [B](how/b.md)\n"),
            (
                "docs/a.md",
                "# A\n## Two words\n## Two words\n[again](#two-words-1)\n```\n[x](no)\n```\n",
            ),
            ("docs/how/b.md", "[up](../a.md) [code](../../README.md)"),
        ]);
        assert_eq!(broken(dir.path()).expect("checks"), Vec::<String>::new());
    }

    #[test]
    fn bad_links_are_named_with_their_line() {
        let dir = tree(&[
            (
                "README.md",
                "\n[a](docs/none.md) [b](docs/a.md#none) [c](../x.md)",
            ),
            ("docs/SUMMARY.md", ""),
            ("docs/a.md", "# A"),
        ]);
        assert_eq!(
            broken(dir.path()).expect("checks"),
            [
                "README.md:2: docs/none.md: there is no such file",
                "README.md:2: docs/a.md#none: there is no such heading",
                "README.md:2: ../x.md: leads out of the repository",
                "docs/a.md: is not in docs/SUMMARY.md",
            ]
        );
    }
}
