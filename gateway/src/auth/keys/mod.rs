//! The public keys of one issuer: from a file, from its JWKS address, or of the embedded issuer.
//!
//! Who checks a token never waits for the issuer while any of its keys is known: [`refresh`] fetches in the
//! background, and what it brings is read here. Only before the first attempt has ended is there nothing to read, and
//! a reader waits for that one attempt alone.
mod refresh;
mod set;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jsonwebtoken::jwk::{Jwk, JwkSet};
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use tokio::time::Instant;
use url::Url;

use refresh::{FetchedKeys, Refresher, fetch_client};
pub use refresh::{Fetches, RefreshSettings};
pub use set::KeysError;
use set::{parse, pick};

/// Where the keys are.
#[derive(Clone, Debug)]
pub struct KeySource(Source);

#[derive(Clone, Debug)]
enum Source {
    Fixed(Arc<JwkSet>),
    Remote(Arc<Remote>),
}

#[derive(Debug)]
struct Remote {
    known: watch::Receiver<FetchedKeys>,
    /// Age at which the last set is used no more.
    expires: Option<Duration>,
    /// Tells the background task that somebody came with a key that is not in the set.
    unknown_key: Arc<Notify>,
    task: AbortHandle,
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl KeySource {
    /// Keys that never change while the process runs.
    pub fn fixed(keys: JwkSet) -> Self {
        Self(Source::Fixed(Arc::new(keys)))
    }

    /// Keys from a file.
    ///
    /// # Errors
    /// The file is unreadable or no key set, or has no usable key.
    pub fn file(path: &PathBuf) -> Result<Self, KeysError> {
        let text = std::fs::read_to_string(path).map_err(|source| KeysError::File {
            path: path.clone(),
            source,
        })?;
        Ok(Self::fixed(parse(text.as_bytes())?))
    }

    /// Keys from an address, fetched by a task of the runtime from now on until the last clone is dropped.
    ///
    /// # Errors
    /// The HTTP client cannot be built.
    pub fn remote(
        url: Url,
        settings: &RefreshSettings,
        fetches: Fetches,
    ) -> Result<Self, KeysError> {
        let client = fetch_client(settings)?;
        let (learned, known) = watch::channel(FetchedKeys::default());
        let unknown_key = Arc::new(Notify::new());
        let refresher = Refresher {
            url,
            client,
            settings: settings.clone(),
            fetches,
            learned,
            unknown_key: unknown_key.clone(),
        };
        Ok(Self(Source::Remote(Arc::new(Remote {
            known,
            expires: settings.expires(),
            unknown_key,
            task: tokio::spawn(refresher.run()).abort_handle(),
        }))))
    }

    /// The key of an id; without an id the only key there is. `None` when there is no such key. Waits for the first
    /// attempt to fetch keys, and never after it.
    ///
    /// # Errors
    /// [`KeysError::None`], [`KeysError::Expired`], [`KeysError::Outdated`].
    pub async fn find(&self, key_id: Option<&str>) -> Result<Option<Jwk>, KeysError> {
        match &self.0 {
            Source::Fixed(keys) => Ok(pick(keys, key_id)),
            Source::Remote(remote) => {
                let mut known = remote.known.borrow().clone();
                if known.attempts == 0 {
                    let mut learned = remote.known.clone();
                    // the task ends with the last clone of this source only
                    let first = learned.wait_for(|known| known.attempts > 0).await;
                    known = first.map_err(|_| KeysError::None)?.clone();
                }
                remote.pick(&known, key_id)
            }
        }
    }
}

impl Remote {
    fn pick(&self, known: &FetchedKeys, key_id: Option<&str>) -> Result<Option<Jwk>, KeysError> {
        let keys = known.keys.as_deref().ok_or(KeysError::None)?;
        if known.is_expired(self.expires, Instant::now()) {
            return Err(KeysError::Expired);
        }
        if let Some(key) = pick(keys, key_id) {
            return Ok(Some(key));
        }
        match known.refresh_from {
            Some(from) if from > Instant::now() && !known.failed => return Ok(None),
            Some(from) if from <= Instant::now() => self.unknown_key.notify_one(),
            _ => {}
        }
        Err(KeysError::Outdated)
    }
}
