//! Publishes a raw disk image file as an OCI artifact. Pushing the same file twice uploads nothing.
use std::path::Path;

use futures::{StreamExt as _, TryStreamExt as _};
use oci_client::errors::OciDistributionError;
use oci_client::manifest::OciManifest;
use oci_client::{Reference, RegistryOperation};
use sha2::{Digest as _, Sha256};
use tokio::fs::File;
use tokio_util::io::ReaderStream;

use super::{Registry, RegistryError};
use crate::domain::artifact::{EMPTY_CONFIG, RawImage, manifest};
use crate::domain::source::Source;
use gpuaas_common::value::Digest;

/// Bytes read from the file at once.
const READ: usize = 1 << 20;

/// A published file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pushed {
    /// The raw disk image.
    pub image: RawImage,
    /// The reference, pinned to the manifest's digest.
    pub source: Source,
    /// Whether its bytes were uploaded; the registry had them otherwise.
    pub uploaded: bool,
}

impl Registry {
    /// Publishes a file at a tag. The file is read twice, once to hash it and once to send it, and is never in
    /// memory as a whole.
    ///
    /// # Errors
    /// [`RegistryError::File`], or why the registry did not take it.
    pub async fn push(&self, file: &Path, target: &Source) -> Result<Pushed, RegistryError> {
        let image = hash(file).await.map_err(RegistryError::File)?;
        let config = Digest::of_bytes(&Sha256::digest(EMPTY_CONFIG));
        let title = file
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default();
        let manifest = manifest(&image, &config, &title).ok_or_else(|| {
            RegistryError::File(std::io::Error::other(
                "the file is too large for the format",
            ))
        })?;
        let reference = target.to_oci();
        self.client
            .auth(&reference, &self.auth, RegistryOperation::Push)
            .await?;

        let uploaded = !self
            .client
            .blob_exists(&reference, image.digest.as_str())
            .await?;
        if uploaded {
            self.upload(file, &reference, &image).await?;
        }
        if !self.client.blob_exists(&reference, config.as_str()).await? {
            self.client
                .push_blob(&reference, EMPTY_CONFIG, config.as_str())
                .await?;
        }
        self.client
            .push_manifest(&reference, &OciManifest::Image(manifest))
            .await?;
        // asks for what was stored rather than trusting what was sent
        let resolved = self.resolve(target).await?;
        Ok(Pushed {
            image,
            source: resolved.source,
            uploaded,
        })
    }

    async fn upload(
        &self,
        file: &Path,
        reference: &Reference,
        image: &RawImage,
    ) -> Result<(), RegistryError> {
        let file = File::open(file).await.map_err(RegistryError::File)?;
        let chunks = ReaderStream::with_capacity(file, READ)
            .map_err(OciDistributionError::from)
            .boxed();
        // the registry refuses the upload when the file has changed since it was hashed
        self.client
            .push_blob_stream(reference, chunks, image.digest.as_str(), Some(image.size))
            .await?;
        Ok(())
    }
}

async fn hash(file: &Path) -> std::io::Result<RawImage> {
    let file = File::open(file).await?;
    let (hash, size) = ReaderStream::with_capacity(file, READ)
        .try_fold((Sha256::new(), 0u64), |(mut hash, size), chunk| {
            hash.update(&chunk);
            std::future::ready(Ok((hash, size + chunk.len() as u64)))
        })
        .await?;
    if size == 0 {
        return Err(std::io::Error::new(
            std::io::ErrorKind::UnexpectedEof,
            "the file is empty",
        ));
    }
    Ok(RawImage {
        digest: Digest::of_bytes(&hash.finalize()),
        size,
    })
}
