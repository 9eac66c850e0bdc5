//! What is published at a reference, and whether it really is what its digest says.
use futures::TryStreamExt as _;
use oci_client::errors::{DigestError, OciDistributionError};
use oci_client::manifest::{OciDescriptor, OciManifest};

use super::{Registry, RegistryError};
use crate::domain::artifact::{ArtifactError, RawImage, raw_image};
use crate::domain::source::Source;

/// A published image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    /// The reference, pinned to the manifest's digest.
    pub source: Source,
    /// The raw disk image.
    pub image: RawImage,
}

impl Registry {
    /// Reads the manifest at a reference. Its own digest is checked.
    ///
    /// # Errors
    /// [`RegistryError::Missing`], [`RegistryError::NotAnImage`] or why the registry could not be asked.
    pub async fn resolve(&self, source: &Source) -> Result<Resolved, RegistryError> {
        let (manifest, digest) = self
            .client
            .pull_manifest(&source.to_oci(), &self.auth)
            .await?;
        let manifest = match manifest {
            OciManifest::Image(manifest) => manifest,
            OciManifest::ImageIndex(index) => {
                let kind = index.media_type.unwrap_or_else(|| "index".to_owned());
                return Err(ArtifactError::MediaType(kind).into());
            }
        };
        let image = raw_image(&manifest)?;
        let digest = digest.parse().map_err(|_| ArtifactError::Digest)?;
        Ok(Resolved {
            source: source.pinned(digest),
            image,
        })
    }

    /// Reads the whole raw image and checks its digest and size. Nothing is kept in memory.
    ///
    /// # Errors
    /// [`RegistryError::Corrupt`], [`RegistryError::Size`], or why it could not be read.
    pub async fn verify(&self, resolved: &Resolved) -> Result<(), RegistryError> {
        let RawImage { digest, size } = &resolved.image;
        let layer = OciDescriptor {
            digest: digest.to_string(),
            ..OciDescriptor::default()
        };
        let stream = self
            .client
            .pull_blob_stream(&resolved.source.to_oci(), &layer)
            .await?;
        let actual = stream
            .map_err(read_error)
            .try_fold(0u64, |sum, chunk| {
                std::future::ready(Ok(sum + chunk.len() as u64))
            })
            .await?;
        if actual != *size {
            return Err(RegistryError::Size {
                digest: digest.clone(),
                expected: *size,
                actual,
            });
        }
        Ok(())
    }
}

/// The client reports a digest that does not match as an I/O error at the end of the stream.
fn read_error(error: std::io::Error) -> RegistryError {
    match error.downcast::<DigestError>() {
        Ok(mismatch) => OciDistributionError::from(mismatch).into(),
        Err(error) => RegistryError::Unavailable(error.into()),
    }
}
