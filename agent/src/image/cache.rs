//! The image cache: one file per digest, whose digest this host computed itself (D-23, D-24).
//!
//! A file is hashed once; afterwards the journal remembers what the file was (inode, size, times), and a file
//! that is the same is not read again. Pulls go to a temporary file, are verified while they stream, and take
//! their name only then. Concurrent requests for one digest share one pull.
use std::collections::HashMap;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use sha2::{Digest as _, Sha256};
use tokio::sync::Mutex;

use super::registry::{Registry, parse_source};
use super::space::{free_bytes, leaves_enough};
use crate::error::{HostError, HostResult, io_error};
use crate::host::blocking;
use crate::ids::{Digest, ImageSlug};
use crate::journal::Journal;
use crate::settings::Limits;
use crate::wall_clock::now_ms;

/// Bytes that are written to a file without space of its own between two looks at what is free.
const LOOK: u64 = 64 << 20;

/// Where an image comes from.
#[derive(Debug, Clone)]
pub struct ImageSource {
    /// Digest of the raw disk image.
    pub digest: Digest,
    /// "oci://host/namespace/name@sha256:…".
    pub source_uri: String,
    /// Size in bytes as the catalog knows it; 0 when it does not.
    pub size_bytes: u64,
}

/// The cache of one host.
pub struct ImageCache {
    pub(super) folder: PathBuf,
    registry: Registry,
    pub(super) journal: Arc<Journal>,
    max_bytes: u64,
    /// Bytes that stay free.
    pub(super) reserve: u64,
    /// Held while room is made, and until it is taken.
    pub(super) space: Mutex<()>,
    pulls: Mutex<HashMap<Digest, Arc<Mutex<()>>>>,
}

impl ImageCache {
    /// A cache in a folder, which is made when it does not exist.
    pub fn new(
        folder: &Path,
        registry: Registry,
        journal: Arc<Journal>,
        limits: &Limits,
    ) -> HostResult<Self> {
        std::fs::create_dir_all(folder).map_err(io_error("cannot make the image cache"))?;
        Ok(Self {
            folder: folder.to_owned(),
            registry,
            journal,
            max_bytes: limits.max_image_bytes,
            reserve: limits.min_free_bytes,
            space: Mutex::default(),
            pulls: Mutex::default(),
        })
    }

    /// Removes leftovers of pulls that broke off with their agent. Only the agent that serves may do that.
    pub fn tidy(&self) -> HostResult<()> {
        for entry in std::fs::read_dir(&self.folder)
            .map_err(io_error("cannot read the image cache"))?
            .flatten()
        {
            if entry
                .path()
                .extension()
                .is_some_and(|extension| extension == "part")
            {
                std::fs::remove_file(entry.path())
                    .map_err(io_error("cannot tidy the image cache"))?;
            }
        }
        Ok(())
    }

    /// Where the file of a digest lies.
    pub fn file(&self, digest: &Digest) -> PathBuf {
        self.folder.join(format!("sha256-{}.raw", digest.hex()))
    }

    /// Makes the slug's file name a link to the file of a digest: the path that the catalog names (E-14). The files
    /// themselves are named by digest, since two versions of a slug may be in use. An image without a slug has no link.
    pub fn name(&self, slug: &str, digest: &Digest) -> HostResult<()> {
        if slug.is_empty() {
            return Ok(());
        }
        let slug = slug
            .parse::<ImageSlug>()
            .map_err(|error| error.of("image.slug"))?;
        let file = self.file(digest);
        let target = Path::new(file.file_name().unwrap_or_default());
        let link = self
            .folder
            .join(gpuaas_common::image::file_name(slug.as_str()));
        if std::fs::read_link(&link).is_ok_and(|now| now == target) {
            return Ok(());
        }
        let fresh = self.folder.join(format!("{slug}.{}.part", digest.hex()));
        // one that a crash left is as good
        let _best_effort = std::fs::remove_file(&fresh);
        std::os::unix::fs::symlink(target, &fresh)
            .and_then(|()| std::fs::rename(&fresh, &link))
            .map_err(io_error("cannot name the image"))
    }

    /// The verified file of an image, pulled when it is missing. A cached file with another content is removed
    /// and pulled again. A pull makes room for itself ([`Self::make_room`]). `progress` gets percent.
    pub async fn ensure(
        &self,
        source: &ImageSource,
        progress: impl Fn(u32) + Send,
    ) -> HostResult<PathBuf> {
        let lock = self.turn(&source.digest).await;
        let _one_at_a_time = lock.lock().await;
        let file = self.file(&source.digest);
        if !self.is_verified(&source.digest, &file).await? {
            self.pull(source, &file, progress).await?;
        }
        // it decides only which image goes first
        if let Err(error) = self.journal.use_image(&source.digest, now_ms()) {
            tracing::warn!(digest = %source.digest, %error, "cannot note the use of an image");
        }
        Ok(file)
    }

    /// The digests, in order, whose files are as they were when this host verified them. Nothing is read but what the
    /// files are: one that was changed since is hashed by whoever uses it next, and not reported until then.
    pub fn verified(&self) -> HostResult<Vec<Digest>> {
        let cached = self.journal.images()?.into_iter();
        let as_it_was = cached.filter(|(digest, verified)| {
            fingerprint(&self.file(digest)).as_ref() == Some(verified)
        });
        Ok(as_it_was.map(|(digest, _)| digest).collect())
    }

    /// The lock of one digest. Those that are no longer in use are dropped here, and not where they are released:
    /// a pull may be dropped half-way.
    pub(super) async fn turn(&self, digest: &Digest) -> Arc<Mutex<()>> {
        let mut pulls = self.pulls.lock().await;
        pulls.retain(|_, lock| Arc::strong_count(lock) > 1);
        Arc::clone(pulls.entry(digest.clone()).or_default())
    }

    async fn is_verified(&self, digest: &Digest, file: &Path) -> HostResult<bool> {
        let Some(before) = fingerprint(file) else {
            return Ok(false);
        };
        if self.journal.image_fingerprint(digest)?.as_deref() == Some(&before) {
            return Ok(true);
        }
        let found = hash_file(file).await?;
        if found != *digest {
            tracing::warn!(%digest, %found, "remove a cached image with another content");
            blocking::here(|| std::fs::remove_file(file))
                .map_err(io_error("cannot remove a bad image"))?;
            return Ok(false);
        }
        if fingerprint(file).as_deref() != Some(&before) {
            return Err(HostError::host(
                ErrorReason::ImageDigestMismatch,
                "the cached image changes while it is read",
            ));
        }
        self.journal.record_image(digest, &before)?;
        Ok(true)
    }

    async fn pull(
        &self,
        source: &ImageSource,
        file: &Path,
        progress: impl Fn(u32) + Send,
    ) -> HostResult<()> {
        let limit = if source.size_bytes == 0 {
            self.max_bytes
        } else {
            source.size_bytes
        };
        if limit > self.max_bytes {
            return Err(HostError::invalid(
                "image.size_bytes",
                format!("must be at most {}", self.max_bytes),
            ));
        }
        parse_source(&source.source_uri)?;
        let part = Part(file.with_extension("part"));
        self.pull_to(source, &part.0, limit, progress).await?;
        blocking::here(|| std::fs::rename(&part.0, file))
            .map_err(io_error("cannot name the pulled image"))?;
        if let Some(fingerprint) = fingerprint(file) {
            self.journal.record_image(&source.digest, &fingerprint)?;
        }
        Ok(())
    }

    async fn pull_to(
        &self,
        source: &ImageSource,
        part: &Path,
        limit: u64,
        progress: impl Fn(u32) + Send,
    ) -> HostResult<()> {
        // made here: one that is made elsewhere could come after a pull that was given up
        let made = blocking::here(|| std::fs::File::create(part));
        let made = made.map_err(io_error("cannot store the image"))?;
        let mut out = tokio::fs::File::from_std(made);
        let has_room = self.take_room(&out, source.size_bytes).await?;
        let mut looked = 0;
        let report = |written: u64| -> HostResult<()> {
            if let Some(percent) = (written * 100).checked_div(source.size_bytes) {
                progress(u32::try_from(percent).unwrap_or(100).min(100));
            }
            if !has_room && written - looked >= LOOK {
                looked = written;
                let free = blocking::here(|| free_bytes(&self.folder))?;
                return leaves_enough(&self.folder, 0, free, self.reserve);
            }
            Ok(())
        };
        let written = self
            .registry
            .pull(&source.source_uri, &source.digest, limit, &mut out, report)
            .await?;
        // an image that is smaller than the catalog says
        out.set_len(written)
            .await
            .map_err(io_error("cannot store the image"))?;
        out.sync_all()
            .await
            .map_err(io_error("cannot store the image"))
    }
}

/// The file of a pull, removed when this is dropped: by an error, or by whoever gives the pull up. One that has become an image has
/// another name by then.
struct Part(PathBuf);

impl Drop for Part {
    fn drop(&mut self) {
        // What is left is only in the way; why the pull ended is what matters.
        let _best_effort = blocking::here(|| std::fs::remove_file(&self.0));
    }
}

/// What a file is: device, inode, size, times of content and of inode.
fn fingerprint(file: &Path) -> Option<String> {
    let metadata = blocking::here(|| std::fs::metadata(file)).ok()?;
    Some(format!(
        "{}:{}:{}:{}.{}:{}.{}",
        metadata.dev(),
        metadata.ino(),
        metadata.size(),
        metadata.mtime(),
        metadata.mtime_nsec(),
        metadata.ctime(),
        metadata.ctime_nsec()
    ))
}

/// Hashes a file on a thread of its own: tens of gigabytes keep it busy for a minute.
async fn hash_file(file: &Path) -> HostResult<Digest> {
    let file = file.to_owned();
    // a caller that is gone needs no hash
    let unwanted = Arc::new(AtomicBool::new(false));
    let _set_when_dropped = OnDrop(Arc::clone(&unwanted));
    blocking::run(move || hash_here(&file, &unwanted)).await
}

fn hash_here(file: &Path, unwanted: &AtomicBool) -> HostResult<Digest> {
    let failed = || io_error("cannot read the image");
    let mut file = std::fs::File::open(file).map_err(failed())?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0_u8; 4 << 20];
    while !unwanted.load(Ordering::Relaxed) {
        let read = file.read(&mut buffer).map_err(failed())?;
        if read == 0 {
            return Ok(Digest::of_bytes(&hash.finalize()));
        }
        hash.update(&buffer[..read]);
    }
    Err(HostError::internal("nobody waits for the hash any more"))
}

/// Raises a flag when it goes out of scope.
struct OnDrop(Arc<AtomicBool>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use gpuaas_dev::until::until;

    use super::*;

    fn cache(folder: &Path) -> ImageCache {
        let journal = Arc::new(Journal::in_memory().unwrap());
        let limits = Limits {
            min_free_bytes: 0,
            ..Limits::default()
        };
        ImageCache::new(folder, Registry::new(b""), journal, &limits).unwrap()
    }

    /// The same as `sha256sum` (E-34).
    #[tokio::test]
    async fn d_24_only_a_file_with_the_digest_is_an_image() {
        let dir = tempfile::tempdir().unwrap();
        let digest = Digest::of_bytes(&Sha256::digest(b"image"));
        let cache = cache(dir.path());
        let file = cache.file(&digest);
        std::fs::write(&file, b"image").unwrap();
        let source = ImageSource {
            digest: digest.clone(),
            source_uri: String::new(),
            size_bytes: 5,
        };
        assert_eq!(cache.ensure(&source, |_| {}).await.unwrap(), file);
        std::fs::write(&file, b"imagE").unwrap();
        let error = cache.ensure(&source, |_| {}).await.unwrap_err();
        assert_eq!(
            error.field,
            Some("image.source_uri"),
            "it was not used, a pull was tried: {error:?}"
        );
        assert!(!file.exists());
    }

    /// A thread that serves calls has nothing to do for it but to wait: it looks at the start and at the end.
    #[tokio::test]
    async fn a_large_image_is_hashed_away_from_the_threads_that_serve_calls() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("image");
        std::fs::File::create(&file)
            .unwrap()
            .set_len(24 << 20)
            .unwrap();
        let mut hash = std::pin::pin!(hash_file(&file));
        let mut looks = 0;
        let digest = std::future::poll_fn(|context| {
            looks += 1;
            hash.as_mut().poll(context)
        });
        let expected = Digest::of_bytes(&Sha256::digest(vec![0; 24 << 20]));
        assert_eq!(digest.await.unwrap(), expected);
        assert_eq!(looks, 2);
    }

    #[test]
    fn a_hash_that_nobody_waits_for_ends() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("image");
        std::fs::write(&file, b"image").unwrap();
        let unwanted = Arc::new(AtomicBool::new(false));
        drop(OnDrop(Arc::clone(&unwanted)));
        assert!(hash_here(&file, &unwanted).is_err());
    }

    #[test]
    fn e_14_a_slug_names_the_file_of_its_digest() {
        let dir = tempfile::tempdir().unwrap();
        let cache = cache(dir.path());
        let named = dir.path().join("lab-mini.raw");
        for content in [b"first", b"other"] {
            let digest = Digest::of_bytes(&Sha256::digest(content));
            std::fs::write(cache.file(&digest), content).unwrap();
            cache.name("lab-mini", &digest).unwrap();
            cache.name("lab-mini", &digest).unwrap();
            assert_eq!(std::fs::read(&named).unwrap(), content);
        }
        let digest = Digest::of_bytes(&Sha256::digest(b"first"));
        for slug in ["../up", "a/b", ".hidden", "sha256-0", "A"] {
            assert!(cache.name(slug, &digest).is_err(), "{slug}");
        }
        cache.name("", &digest).unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 3);
    }

    /// E-22.
    #[tokio::test]
    async fn e_05_e_06_only_files_that_are_as_they_were_verified_are_told_of() {
        let dir = tempfile::tempdir().unwrap();
        let cache = cache(dir.path());
        let put = |content: &[u8]| {
            let digest = Digest::of_bytes(&Sha256::digest(content));
            std::fs::write(cache.file(&digest), content).unwrap();
            digest
        };
        let [one, two] = [put(b"one"), put(b"two")];
        assert!(cache.verified().unwrap().is_empty(), "nobody has read them");
        for digest in [&one, &two] {
            let source = ImageSource {
                digest: digest.clone(),
                source_uri: String::new(),
                size_bytes: 3,
            };
            cache.ensure(&source, |_| {}).await.unwrap();
        }
        let mut both = vec![one.clone(), two.clone()];
        both.sort_by(|a, b| a.as_str().cmp(b.as_str()));
        assert_eq!(cache.verified().unwrap(), both);
        std::fs::write(cache.file(&one), b"another").unwrap();
        assert_eq!(cache.verified().unwrap(), std::slice::from_ref(&two));
        std::fs::remove_file(cache.file(&two)).unwrap();
        assert!(cache.verified().unwrap().is_empty());
    }

    #[tokio::test]
    async fn locks_of_digests_that_nobody_pulls_are_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let cache = cache(dir.path());
        let digest = |name: &[u8]| Digest::of_bytes(&Sha256::digest(name));
        let held = cache.turn(&digest(b"held")).await;
        for name in [b"a", b"b", b"c"] {
            drop(cache.turn(&digest(name)).await);
        }
        assert_eq!(cache.pulls.lock().await.len(), 2, "the held and the last");
        drop(held);
    }

    #[tokio::test]
    async fn p5_a_pull_that_is_given_up_leaves_nothing_of_itself() {
        let dir = tempfile::tempdir().unwrap();
        let cache = cache(dir.path());
        // a registry that takes a connection and never says anything
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let digest = Digest::of_bytes(&Sha256::digest(b"image"));
        let source = ImageSource {
            digest: digest.clone(),
            source_uri: format!("oci://{}/lab/image@{digest}", silent.local_addr().unwrap()),
            size_bytes: 5,
        };
        let part = cache.file(&digest).with_extension("part");
        let begun = until("the pull", Duration::from_secs(20), async || {
            part.exists().then_some(())
        });
        tokio::select! {
            pulled = cache.ensure(&source, |_| {}) => panic!("{pulled:?}"),
            () = begun => {}
        }
        assert!(!part.exists());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn leftovers_of_a_broken_pull_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let part = dir.path().join("sha256-00.part");
        std::fs::write(&part, b"x").unwrap();
        cache(dir.path()).tidy().unwrap();
        assert!(!part.exists());
    }
}
