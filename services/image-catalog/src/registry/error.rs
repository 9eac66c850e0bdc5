//! Why a registry did not give or take an image, told apart by what a caller can do about it.
use oci_client::errors::{OciDistributionError, OciErrorCode};

use crate::domain::artifact::ArtifactError;
use gpuaas_common::value::Digest;

/// Why a registry did not give or take an image.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// The client cannot be made.
    #[error("{0}")]
    Settings(String),
    /// Nothing is published at the reference.
    #[error("nothing is published there")]
    Missing,
    /// Something else than a slice image is published there.
    #[error(transparent)]
    NotAnImage(#[from] ArtifactError),
    /// What the registry sent is not what its digest says.
    #[error("the content does not match its digest {expected}")]
    Corrupt {
        /// The digest it was asked for.
        expected: String,
    },
    /// The content has another length than the manifest says.
    #[error("the content of {digest} has {actual} bytes instead of {expected}")]
    Size {
        /// Of the layer.
        digest: Digest,
        /// By the manifest.
        expected: u64,
        /// As received.
        actual: u64,
    },
    /// The registry refuses us.
    #[error("the registry refuses access")]
    Refused(#[source] OciDistributionError),
    /// The registry does not answer, or not in time, or not with a certificate of its authority.
    #[error("the registry does not answer")]
    Unavailable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The registry answers nonsense.
    #[error("the registry answers something unexpected")]
    Protocol(#[source] OciDistributionError),
    /// The file to publish cannot be read.
    #[error("cannot read the image file")]
    File(#[source] std::io::Error),
}

impl From<OciDistributionError> for RegistryError {
    fn from(error: OciDistributionError) -> Self {
        use OciDistributionError as E;
        match error {
            E::RegistryError { ref envelope, .. } => {
                let is = |codes: &[OciErrorCode]| {
                    envelope.errors.iter().any(|e| codes.contains(&e.code))
                };
                if is(&[
                    OciErrorCode::ManifestUnknown,
                    OciErrorCode::NameUnknown,
                    OciErrorCode::BlobUnknown,
                    OciErrorCode::NotFound,
                ]) {
                    Self::Missing
                } else if is(&[OciErrorCode::Unauthorized, OciErrorCode::Denied]) {
                    Self::Refused(error)
                } else {
                    Self::Protocol(error)
                }
            }
            E::ImageManifestNotFoundError(_) | E::ServerError { code: 404, .. } => Self::Missing,
            E::UnauthorizedError { .. } | E::AuthenticationFailure(_) => Self::Refused(error),
            E::DigestError(oci_client::errors::DigestError::VerificationError {
                expected, ..
            }) => Self::Corrupt { expected },
            E::RequestError(error) => Self::Unavailable(error.into()),
            E::IoError(error) => Self::Unavailable(error.into()),
            E::ServerError { code: 500.., .. } => Self::Unavailable(error.into()),
            error => Self::Protocol(error),
        }
    }
}
