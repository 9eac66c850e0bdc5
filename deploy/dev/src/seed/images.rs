//! The guest images of the lab: built once per version of their scripts, pushed, and registered.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use crate::error::{Error, Result};
use crate::seed::api::{Api, list};
use crate::seed::{DEAD_IMAGE, IMAGE, LAB_SKU};
use crate::stack::{Progress, Stack};
use crate::{paths, process};

/// Files that decide what a guest image holds, below `deploy/lab`.
const SOURCES: [&str; 3] = ["build-mini.sh", "guest/init", "guest/udhcpc.sh"];

/// An image file and how it is sold.
#[derive(Debug, Clone)]
pub struct GuestImage {
    /// Slug in the catalog.
    pub slug: &'static str,
    /// Name for people.
    pub display_name: &'static str,
    /// Raw disk image.
    pub file: PathBuf,
    /// Version in the registry.
    pub tag: String,
    /// How long the guest may take to answer, in seconds.
    pub boot_timeout_seconds: u32,
}

/// The images, built if they are missing or older than their scripts.
///
/// # Errors
/// The build fails.
pub fn guest_images(progress: Progress<'_>) -> Result<Vec<GuestImage>> {
    let scripts = paths::checkout().join("deploy/lab");
    let mut hasher = DefaultHasher::new();
    for source in SOURCES {
        let file = scripts.join(source);
        std::fs::read(&file)
            .map_err(Error::file("read", &file))?
            .hash(&mut hasher);
    }
    let tag = format!("{:016x}", hasher.finish());
    let folder = paths::run_dir().join("cache/guest");
    paths::ensure_dir(&folder)?;
    let stamp = folder.join("built");
    let lock =
        std::fs::File::create(folder.join("lock")).map_err(Error::file("create", &folder))?;
    lock.lock().map_err(Error::file("lock", &folder))?;
    if std::fs::read_to_string(&stamp).is_ok_and(|built| built == tag) {
        return Ok(images(&folder, &tag));
    }
    progress("building the mini guest image");
    process::output(Command::new(scripts.join("build-mini.sh")).arg(&folder))?;
    paths::write_with_mode(&stamp, tag.as_bytes(), 0o644)?;
    Ok(images(&folder, &tag))
}

/// Pushes an image to the stack's registry; returns the reference to register it with.
///
/// # Errors
/// The registry refuses.
pub fn push(stack: &Stack, image: &GuestImage) -> Result<String> {
    let registry = stack.registry()?;
    let reference = format!("{}/lab/{}:{}", registry.host(), image.slug, image.tag);
    process::output(
        Command::new(stack.program("gpuaas-image-push"))
            .arg("--file")
            .arg(&image.file)
            .arg("--reference")
            .arg(&reference)
            .arg("--ca-file")
            .arg(registry.ca_file()),
    )?;
    Ok(format!("oci://{reference}"))
}

/// Builds, pushes and registers what the catalog does not know.
pub(super) async fn seed(stack: &Stack, admin: &Api, progress: Progress<'_>) -> Result<()> {
    let known = admin.get("/api/v1/admin/images?page_size=500").await?;
    let known: Vec<&str> = list(&known["images"])
        .iter()
        .filter_map(|image| image["slug"].as_str())
        .collect();
    if [IMAGE, DEAD_IMAGE].iter().all(|slug| known.contains(slug)) {
        return Ok(());
    }
    for image in guest_images(progress)? {
        if known.contains(&image.slug) {
            continue;
        }
        let source = push(stack, &image)?;
        let wanted = json!({
            "slug": image.slug,
            "display_name": image.display_name,
            "driver_strategy": "none",
            "source_uri": source,
            "compatible_skus": [LAB_SKU],
            "boot_timeout_seconds": image.boot_timeout_seconds,
        });
        admin
            .post(
                "/api/v1/admin/images",
                &format!("seed-image-{}", image.slug),
                &wanted,
            )
            .await?;
        progress(&format!("image {} pushed and registered", image.slug));
    }
    Ok(())
}

fn images(folder: &Path, tag: &str) -> Vec<GuestImage> {
    vec![
        GuestImage {
            slug: IMAGE,
            display_name: "Mini guest (busybox, SSH)",
            file: folder.join("mini.raw"),
            tag: tag.to_owned(),
            boot_timeout_seconds: 180,
        },
        GuestImage {
            slug: DEAD_IMAGE,
            display_name: "Guest that never answers, to see a failed launch",
            file: folder.join("mini-dead.raw"),
            tag: tag.to_owned(),
            boot_timeout_seconds: 25,
        },
    ]
}
