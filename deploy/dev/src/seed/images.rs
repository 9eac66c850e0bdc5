//! The guest images of the lab: built once per version of their scripts, pushed, and registered.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use super::names::{DEAD_IMAGE, DEBIAN_IMAGE, IMAGE, LAB_SKU, RESCUE_IMAGE, Tokens};
use crate::error::{Error, Result};
use crate::registry::PUSHER;
use crate::seed::api::{Api, list};
use crate::stack::{Progress, Stack};
use crate::{paths, process};

/// A script below `deploy/lab` that builds guest images.
struct Recipe {
    /// What it builds, for people.
    name: &'static str,
    script: &'static str,
    /// Files that decide what the images hold, the script among them.
    sources: &'static [&'static str],
    /// Folder below the cache.
    folder: &'static str,
}

const MINI: Recipe = Recipe {
    name: "mini",
    script: "build-mini.sh",
    sources: &["build-mini.sh", "guest/init", "guest/udhcpc.sh"],
    folder: "guest",
};

const DEBIAN: Recipe = Recipe {
    name: "Debian",
    script: "build-debian.sh",
    sources: &[
        "build-debian.sh",
        "debian/etc/cloud/cloud.cfg.d/90_guest.cfg",
        "debian/etc/fstab",
        "debian/etc/initramfs-tools/conf.d/guest.conf",
        "debian/etc/ssh/sshd_config.d/10-keys-only.conf",
        "debian/usr/share/initramfs-tools/modules.d/guest",
    ],
    folder: "debian",
};

/// An image file and how it is offered.
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

impl Recipe {
    /// Folder and version of the images, built if they are missing or older than their sources.
    fn built(&self, progress: Progress<'_>) -> Result<(PathBuf, String)> {
        let scripts = paths::checkout().join("deploy/lab");
        let mut hasher = DefaultHasher::new();
        for source in self.sources {
            let file = scripts.join(source);
            std::fs::read(&file)
                .map_err(Error::file("read", &file))?
                .hash(&mut hasher);
        }
        let tag = format!("{:016x}", hasher.finish());
        let folder = paths::run_dir().join("cache").join(self.folder);
        paths::ensure_dir(&folder)?;
        let stamp = folder.join("built");
        let lock =
            std::fs::File::create(folder.join("lock")).map_err(Error::file("create", &folder))?;
        lock.lock().map_err(Error::file("lock", &folder))?;
        if std::fs::read_to_string(&stamp).is_ok_and(|built| built == tag) {
            return Ok((folder, tag));
        }
        progress(&format!("building the {} guest image", self.name));
        process::output(Command::new(scripts.join(self.script)).arg(&folder))?;
        paths::write_with_mode(&stamp, tag.as_bytes(), 0o644)?;
        Ok((folder, tag))
    }
}

/// The mini guests, built if they are missing or older than their scripts.
///
/// # Errors
/// The build fails.
pub fn guest_images(progress: Progress<'_>) -> Result<Vec<GuestImage>> {
    let (folder, tag) = MINI.built(progress)?;
    Ok(vec![
        GuestImage {
            slug: IMAGE,
            display_name: "Mini guest (busybox, SSH)",
            file: folder.join("mini.raw"),
            tag: tag.clone(),
            boot_timeout_seconds: 180,
        },
        GuestImage {
            slug: DEAD_IMAGE,
            display_name: "Guest that never answers, to see a failed launch",
            file: folder.join("mini-dead.raw"),
            tag,
            boot_timeout_seconds: 25,
        },
    ])
}

/// The Debian guest, built if it is missing or older than its script. The build takes minutes.
fn debian_image(progress: Progress<'_>) -> Result<GuestImage> {
    let (folder, tag) = DEBIAN.built(progress)?;
    Ok(GuestImage {
        slug: DEBIAN_IMAGE,
        display_name: "Debian 12 (systemd, OpenSSH, cloud-init)",
        file: folder.join("debian.raw"),
        tag,
        // minutes on an emulated processor that others use too; a launch has 20 in all
        boot_timeout_seconds: 900,
    })
}

/// Pushes an image to the stack's registry; returns the reference to register it with, which ends with its digest.
/// Nothing is uploaded twice.
fn push(stack: &Stack, image: &GuestImage) -> Result<String> {
    let (registry, pushes) = (stack.registry()?, stack.push_registry()?);
    let reference = format!("{}/lab/{}:{}", pushes.host(), image.slug, image.tag);
    let said = process::output(
        Command::new(stack.program("gpuaas-image-push"))
            .arg("--file")
            .arg(&image.file)
            .arg("--reference")
            .arg(&reference)
            .arg("--ca-file")
            .arg(pushes.ca_file())
            .args(["--user", PUSHER])
            .arg("--password-file")
            .arg(stack.push_password()),
    )?;
    let source = said
        .lines()
        .find_map(|line| line.strip_prefix("source_uri="));
    let source = source.ok_or_else(|| Error::other(format!("no source_uri in {said:?}")))?;
    // hosts read it where nobody can push
    Ok(source.replace(&pushes.host(), &registry.host()))
}

/// Builds, pushes and registers what the catalog does not know.
pub(super) async fn seed(stack: &Stack, admin: &Api, progress: Progress<'_>) -> Result<()> {
    let registered = list_images(admin).await?;
    let is_registered = |slug: &str| registered.iter().any(|image| image["slug"] == slug);
    if [IMAGE, DEAD_IMAGE].into_iter().all(is_registered) {
        return Ok(());
    }
    for image in guest_images(progress)? {
        if !is_registered(image.slug) {
            let source = push(stack, &image)?;
            register(admin, &image, &source, progress).await?;
        }
    }
    Ok(())
}

/// The mini guest once more, with another digest.
fn rescue_image(progress: Progress<'_>) -> Result<GuestImage> {
    let (folder, tag) = MINI.built(progress)?;
    let (own, file) = (folder.join("mini.raw"), folder.join("mini-rescue.raw"));
    let mut image = std::fs::read(&own).map_err(Error::file("read", &own))?;
    let mut sector = b"an image to rescue VMs with".to_vec();
    sector.resize(512, 0);
    image.extend(sector);
    paths::write_with_mode(&file, &image, 0o644)?;
    Ok(GuestImage {
        slug: RESCUE_IMAGE,
        display_name: "Mini guest, to rescue VMs with",
        file,
        tag,
        boot_timeout_seconds: 180,
    })
}

/// Adds the Debian guest to a running stack: builds it if need be, pushes and registers it unless the catalog has it.
///
/// # Errors
/// The build fails, the registry or the API refuses, or the catalog has it from an older build: what is registered
/// never changes.
pub async fn add_debian(stack: &Stack, progress: Progress<'_>) -> Result<()> {
    add(stack, debian_image(progress)?, progress).await
}

/// Adds an image to rescue mini guests with, as [`add_debian`] does its own.
///
/// # Errors
/// As [`add_debian`].
pub async fn add_rescue(stack: &Stack, progress: Progress<'_>) -> Result<()> {
    add(stack, rescue_image(progress)?, progress).await
}

async fn add(stack: &Stack, image: GuestImage, progress: Progress<'_>) -> Result<()> {
    let tokens = Tokens::of(&stack.options().root);
    let admin = Api::new(&stack.api_url(), &tokens.admin)?;
    let source = push(stack, &image)?;
    let registered = list_images(&admin).await?;
    let Some(found) = registered.iter().find(|one| one["slug"] == image.slug) else {
        return register(&admin, &image, &source, progress).await;
    };
    if found["source_uri"] == source {
        return Ok(());
    }
    Err(Error::other(format!(
        "{} is registered from an older build, and a registered image never changes; end this stack with \
         `gpuaas-dev down --purge` and start it anew",
        image.slug
    )))
}

/// Every image of the catalog.
async fn list_images(admin: &Api) -> Result<Vec<Value>> {
    let images = admin.get("/api/v1/admin/images?page_size=500").await?;
    Ok(list(&images["images"]).to_vec())
}

async fn register(
    admin: &Api,
    image: &GuestImage,
    source: &str,
    progress: Progress<'_>,
) -> Result<()> {
    let desired = json!({
        "slug": image.slug,
        "display_name": image.display_name,
        "driver_strategy": "none",
        "source_uri": source,
        "compatible_skus": [LAB_SKU],
        "boot_timeout_seconds": image.boot_timeout_seconds,
    });
    let key = format!("seed-image-{}", image.slug);
    admin.post("/api/v1/admin/images", &key, &desired).await?;
    progress(&format!("image {} pushed and registered", image.slug));
    Ok(())
}
