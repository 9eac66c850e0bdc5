//! Generates and checks the documentation of the product.
//!
//! | module | what it does |
//! |---|---|
//! | [`traceability`] | `docs/traceability.md`: requirement to tests, code and pages, from [`requirements`], [`scan`] and [`pages`] |
//! | [`reference`] | settings, workflows, checks of hosts, from the sources |
//! | [`links`] | relative links, anchors and the summary |
//! | [`causes`] | why slots are blocked, by the sources, and the rows of their runbook |
//! | [`claims`] | files, tests and `make` targets that a page names |
//! | [`examples`] | the runnable blocks of a page, for tests that try what the page says |
//!
//! Everything generated is a pure function of the files below the root, so a check is: generate and compare.
pub mod causes;
pub mod claims;
pub mod examples;
pub mod ids;
pub mod links;
pub mod markdown;
pub mod page;
pub mod pages;
pub mod reference;
pub mod requirements;
pub mod scan;
pub mod traceability;

use std::path::{Path, PathBuf};

/// Why a page cannot be made or checked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or folder cannot be read or written.
    #[error("{path}")]
    File {
        /// The file, relative to the root where possible.
        path: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A page or source is not what the generator expects.
    #[error("{path}: {what}")]
    Unexpected {
        /// The file.
        path: String,
        /// What is wrong with it.
        what: String,
    },
}

/// Result with [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The files below a folder whose paths are wanted, relative to the root and in order. What has a name in `skipped` is left
/// out, with all below it.
///
/// # Errors
/// [`Error::File`] for a folder that cannot be read.
pub fn files(
    root: &Path,
    below: &str,
    skipped: &[&str],
    wanted: impl Fn(&Path) -> bool,
) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::from(below)];
    while let Some(folder) = folders.pop() {
        let whole = root.join(&folder);
        let failed = |source| Error::File {
            path: whole.display().to_string(),
            source,
        };
        for entry in std::fs::read_dir(&whole).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name();
            let path = folder.join(&name);
            if skipped.iter().any(|skipped| name == *skipped) {
                continue;
            }
            if entry.file_type().map_err(failed)?.is_dir() {
                folders.push(path);
            } else if wanted(&path) {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found
        .iter()
        .map(|path| path.display().to_string())
        .collect())
}

/// Whether the file has this ending.
fn ends(path: &Path, ending: &str) -> bool {
    path.extension().is_some_and(|end| end == ending)
}

/// A name of Rust's types and variants as settings and reasons have it.
fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    for (index, letter) in name.char_indices() {
        if index > 0 && letter.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}

/// Reads a text file.
///
/// # Errors
/// [`Error::File`].
pub fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).map_err(|source| Error::File {
        path: path.display().to_string(),
        source,
    })
}

/// A folder with these files, for a test.
#[cfg(test)]
fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("temp dir");
    for (path, text) in files {
        let path = dir.path().join(path);
        std::fs::create_dir_all(path.parent().expect("has a folder")).expect("folder");
        std::fs::write(path, text).expect("write");
    }
    dir
}
