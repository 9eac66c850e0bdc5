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

/// Reads a text file.
///
/// # Errors
/// [`Error::File`].
pub fn read(path: &std::path::Path) -> Result<String> {
    std::fs::read_to_string(path).map_err(|source| Error::File {
        path: path.display().to_string(),
        source,
    })
}
