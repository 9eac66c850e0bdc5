//! Publishes a raw disk image as the OCI artifact that the catalog takes images from.
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
    /// Where to publish it: host:port/namespace/name:tag.
    #[arg(long)]
    reference: String,
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
    let reference = flags
        .reference
        .strip_prefix("oci://")
        .unwrap_or(&flags.reference);
    let target =
        Source::parse_reference(reference).with_context(|| format!("reference {reference:?}"))?;
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
        .with_context(|| format!("publish {} at {reference}", flags.file.display()))?;
    println!("digest={}", pushed.image.digest);
    println!("size_bytes={}", pushed.image.size);
    println!("source_uri={}", pushed.source);
    println!("uploaded={}", pushed.uploaded);
    Ok(())
}
