//! The one error of this crate: what was attempted, on what, and why it did not work.

use std::path::{Path, PathBuf};

/// What can go wrong while parts are prepared, started or stopped.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or folder could not be read, written or created.
    #[error("cannot {action} {path}")]
    File {
        /// Verb, for example `write`.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// A program that this machine should have is missing.
    #[error("{program} is not installed; run deploy/install.sh")]
    Missing {
        /// Name of the program.
        program: String,
    },
    /// A program ran and failed.
    #[error("{program} failed ({status}): {output}")]
    Program {
        /// Name of the program.
        program: String,
        /// Exit status in words.
        status: String,
        /// The end of what it printed.
        output: String,
    },
    /// A part did not become ready in time or ended while it started.
    #[error("{part} did not become ready: {reason}; see {log}\n{tail}")]
    NotReady {
        /// Name of the part.
        part: String,
        /// What was observed last.
        reason: String,
        /// Its log file.
        log: PathBuf,
        /// The last lines of that file.
        tail: String,
    },
    /// The database refused.
    #[error("database")]
    Database(#[from] sqlx::Error),
    /// A certificate or key could not be made.
    #[error("certificate")]
    Certificate(#[from] rcgen::Error),
    /// Anything else that has a sentence of its own.
    #[error("{0}")]
    Other(String),
}

/// Result with this crate's [`enum@Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Names the attempted action and the file for an input or output error.
    pub fn file(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::File {
            action,
            path: path.to_path_buf(),
            source,
        }
    }

    /// An error that is a sentence of its own.
    pub fn other(message: impl Into<String>) -> Self {
        Self::Other(message.into())
    }
}

/// An error with everything that caused it, on one line.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        // some errors already print their source
        if !text.ends_with(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}
