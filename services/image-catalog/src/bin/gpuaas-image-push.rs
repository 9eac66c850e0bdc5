//! Publishes a raw disk image as the OCI artifact that the catalog takes images from (E-15, I-139).
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::Parser;
use gpuaas_common::config::read_secret;
use gpuaas_image_catalog::domain::source::{Source, Version};
use gpuaas_image_catalog::registry::Registry;

/// Publishes a raw disk image file in an OCI registry and prints its digest, its size and the reference to give
/// to the catalog. Uploads nothing that the registry already has.
#[derive(Parser)]
#[command(version)]
struct Flags {
    /// The raw disk image.
    #[arg(long)]
    file: PathBuf,
    /// Where to publish it: host:port/namespace/name:tag. Or name registry and image.
    #[arg(
        long,
        conflicts_with = "registry",
        required_unless_present = "registry"
    )]
    reference: Option<String>,
    /// The registry as hosts and the catalog reach it, host:port.
    #[arg(long, requires = "image")]
    registry: Option<String>,
    /// Name of the image below the namespace.
    #[arg(long, requires = "registry")]
    image: Option<String>,
    /// Namespace of the registry that images are in.
    #[arg(
        long,
        env = "GPUAAS_SLICE_IMAGE_REGISTRY_NAMESPACE",
        default_value = "slice-guest-images"
    )]
    namespace: String,
    /// The tag; the time of now in UTC, as 20260421T101500Z, without it.
    #[arg(long, env = "GPUAAS_SLICE_IMAGE_REGISTRY_TAG")]
    tag: Option<String>,
    /// Send the image to this address of the registry, host:port, which need not be open to all; what is printed stays
    /// the public reference.
    #[arg(long, env = "GPUAAS_SLICE_IMAGE_REGISTRY_PUSH_HOST")]
    push_host: Option<String>,
    /// Certificates (PEM) that the registry must be signed by; the system's without it.
    #[arg(long)]
    ca_file: Option<PathBuf>,
    /// User of the registry; anonymous without it.
    #[arg(long, requires = "password_file")]
    user: Option<String>,
    /// File with the user's password, mode 0600.
    #[arg(long, requires = "user")]
    password_file: Option<PathBuf>,
    /// Seconds after which a registry that sends nothing has failed.
    #[arg(long, default_value_t = 60)]
    timeout_seconds: u64,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let flags = Flags::parse();
    let reference = flags.reference(jiff::Timestamp::now());
    let public =
        Source::parse_reference(&reference).with_context(|| format!("reference {reference:?}"))?;
    let target = match &flags.push_host {
        Some(host) => public
            .at(host)
            .with_context(|| format!("--push-host {host:?}"))?,
        None => public.clone(),
    };
    if matches!(target.version(), Version::Digest(_)) {
        bail!("reference {reference:?}: must end with a tag, the digest follows from the file");
    }
    let mut registry = Registry::new(
        flags.ca_file.as_deref(),
        Duration::from_secs(flags.timeout_seconds),
    )?;
    if let (Some(user), Some(file)) = (&flags.user, &flags.password_file) {
        registry = registry.as_user(user, &read_secret("--password-file", file)?);
    }
    let pushed = registry
        .push(&flags.file, &target)
        .await
        .with_context(|| format!("publish {} at {}", flags.file.display(), target.registry()))?;
    let source = pushed.source.at(public.registry())?;
    println!("digest={}", pushed.image.digest);
    println!("size_bytes={}", pushed.image.size);
    println!("source_uri={source}");
    println!("uploaded={}", pushed.uploaded);
    Ok(())
}

impl Flags {
    /// Where the image is published, without the scheme (E-17, E-18, I-149, I-150).
    fn reference(&self, now: jiff::Timestamp) -> String {
        if let Some(reference) = &self.reference {
            return reference
                .strip_prefix("oci://")
                .unwrap_or(reference)
                .to_owned();
        }
        let tag = self.tag.clone();
        let tag = tag.unwrap_or_else(|| now.strftime("%Y%m%dT%H%M%SZ").to_string());
        let (registry, image) = (self.registry.as_deref(), self.image.as_deref());
        format!(
            "{}/{}/{}:{tag}",
            registry.unwrap_or_default(),
            self.namespace,
            image.unwrap_or_default()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reference(arguments: &[&str]) -> Result<String, String> {
        let all = ["gpuaas-image-push", "--file", "x.raw"]
            .iter()
            .chain(arguments);
        let flags = Flags::try_parse_from(all).map_err(|error| error.to_string())?;
        let now = "2026-04-21T10:15:00Z".parse().expect("a time");
        Ok(flags.reference(now))
    }

    #[test]
    fn e_17_e_18_i_149_i_150_namespace_and_tag_have_defaults() {
        for (arguments, expected) in [
            (
                &["--registry", "r:5000", "--image", "ubuntu-24.04-h200-cuda"][..],
                "r:5000/slice-guest-images/ubuntu-24.04-h200-cuda:20260421T101500Z",
            ),
            (
                &[
                    "--registry",
                    "r:5000",
                    "--image",
                    "a",
                    "--namespace",
                    "n",
                    "--tag",
                    "v1",
                ],
                "r:5000/n/a:v1",
            ),
            (&["--reference", "oci://r:5000/b/c:v2"], "r:5000/b/c:v2"),
        ] {
            assert_eq!(reference(arguments).as_deref(), Ok(expected));
        }
        for bad in [
            &[][..],
            &["--registry", "r:5000"],
            &["--image", "a"],
            &["--reference", "r/a:v1", "--registry", "r", "--image", "a"],
        ] {
            assert!(reference(bad).is_err(), "{bad:?}");
        }
    }
}
