//! What a published slice image looks like: a manifest with exactly one layer, the raw disk image.
use std::collections::BTreeMap;

use oci_client::manifest::{OCI_IMAGE_MEDIA_TYPE, OciDescriptor, OciImageManifest};

use gpuaas_common::value::Digest;

/// Media type of the one layer: the raw disk image, not compressed, so that its digest is the image's (E-34).
pub const RAW_MEDIA_TYPE: &str = "application/vnd.gpuaas.slice-image.raw.v1";
/// Media type of the artifact.
pub const ARTIFACT_TYPE: &str = "application/vnd.gpuaas.slice-image.v1";
/// Media type of the empty configuration that the manifest format demands.
pub const EMPTY_CONFIG_MEDIA_TYPE: &str = "application/vnd.oci.empty.v1+json";
/// The empty configuration.
pub const EMPTY_CONFIG: &[u8] = b"{}";

/// A raw disk image by digest and size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawImage {
    /// Of the raw bytes.
    pub digest: Digest,
    /// Bytes.
    pub size: u64,
}

/// Why a manifest is not a slice image.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArtifactError {
    /// Zero or several layers.
    #[error("the artifact has {0} layers; a slice image has exactly one")]
    Layers(usize),
    /// The layer is something else.
    #[error("the artifact's layer is {0:?}; a slice image has {RAW_MEDIA_TYPE:?}")]
    MediaType(String),
    /// The layer's digest is not SHA-256.
    #[error("the artifact's layer has no SHA-256 digest")]
    Digest,
    /// The layer is empty or has a negative size.
    #[error("the artifact's layer is empty")]
    Empty,
}

/// The raw image in a manifest.
///
/// # Errors
/// [`ArtifactError`] when the manifest is not a slice image.
pub fn raw_image(manifest: &OciImageManifest) -> Result<RawImage, ArtifactError> {
    let [layer] = manifest.layers.as_slice() else {
        return Err(ArtifactError::Layers(manifest.layers.len()));
    };
    if layer.media_type != RAW_MEDIA_TYPE {
        return Err(ArtifactError::MediaType(layer.media_type.clone()));
    }
    let digest = layer.digest.parse().map_err(|_| ArtifactError::Digest)?;
    match u64::try_from(layer.size) {
        Ok(size) if size > 0 => Ok(RawImage { digest, size }),
        _ => Err(ArtifactError::Empty),
    }
}

/// The manifest of a raw image. Nothing in it changes from push to push, so pushing twice changes nothing.
/// `None` when the size does not fit the format.
pub fn manifest(image: &RawImage, config: &Digest, title: &str) -> Option<OciImageManifest> {
    let layer = OciDescriptor {
        media_type: RAW_MEDIA_TYPE.to_owned(),
        digest: image.digest.to_string(),
        size: i64::try_from(image.size).ok()?,
        annotations: Some(BTreeMap::from([(
            "org.opencontainers.image.title".to_owned(),
            title.to_owned(),
        )])),
        ..OciDescriptor::default()
    };
    let config = OciDescriptor {
        media_type: EMPTY_CONFIG_MEDIA_TYPE.to_owned(),
        digest: config.to_string(),
        size: i64::try_from(EMPTY_CONFIG.len()).ok()?,
        ..OciDescriptor::default()
    };
    Some(OciImageManifest {
        media_type: Some(OCI_IMAGE_MEDIA_TYPE.to_owned()),
        artifact_type: Some(ARTIFACT_TYPE.to_owned()),
        config,
        layers: vec![layer],
        ..OciImageManifest::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> OciImageManifest {
        let digest = Digest::of_bytes(&[7; 32]);
        manifest(
            &RawImage {
                digest: digest.clone(),
                size: 512,
            },
            &digest,
            "mini.raw",
        )
        .expect("fits")
    }

    #[test]
    fn one_raw_layer_is_an_image_and_nothing_else_is() {
        assert_eq!(
            raw_image(&good()),
            Ok(RawImage {
                digest: Digest::of_bytes(&[7; 32]),
                size: 512
            })
        );

        let mut two = good();
        two.layers.push(two.layers[0].clone());
        let mut none = good();
        none.layers.clear();
        let mut tar = good();
        tar.layers[0].media_type = "application/vnd.oci.image.layer.v1.tar".to_owned();
        let mut sha512 = good();
        sha512.layers[0].digest = format!("sha512:{}", "a".repeat(128));
        let mut empty = good();
        empty.layers[0].size = 0;
        let mut negative = good();
        negative.layers[0].size = -1;
        let table = [
            (two, ArtifactError::Layers(2)),
            (none, ArtifactError::Layers(0)),
            (
                tar.clone(),
                ArtifactError::MediaType(tar.layers[0].media_type.clone()),
            ),
            (sha512, ArtifactError::Digest),
            (empty, ArtifactError::Empty),
            (negative, ArtifactError::Empty),
        ];
        for (manifest, expected) in table {
            assert_eq!(raw_image(&manifest), Err(expected));
        }
    }
}
