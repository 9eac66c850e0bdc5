//! Why policies are not usable.
use std::path::PathBuf;

/// Why the policies are not usable.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// The contract and the kinds make no schema.
    #[error("schema of policies")]
    Schema(#[source] Box<cedar_policy::CedarSchemaError>),
    /// The folder cannot be read.
    #[error("setting gateway.policies: {folder}")]
    Folder {
        /// The folder or a file in it.
        folder: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Nobody could do anything.
    #[error("setting gateway.policies: {0} has no *.cedar file")]
    NoPolicies(PathBuf),
    /// What is wrong, by file, line, column and id.
    #[error("policies are wrong:\n{}", .0.join("\n"))]
    Policies(Vec<String>),
    /// The engine does not take what the schema made; our own fault.
    #[error("policy engine: {0}")]
    Engine(String),
}
