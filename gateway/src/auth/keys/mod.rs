//! The public keys of one issuer: from a file, from its JWKS address, or of the embedded issuer.
//!
//! Who checks a token never waits for the issuer while any of its keys is known: [`refresh`] fetches in the
//! background, and what it brings is read here. Only before the first attempt has ended is there nothing to read, and
//! a reader waits for that one attempt alone.
mod refresh;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jsonwebtoken::DecodingKey;
use jsonwebtoken::jwk::{AlgorithmParameters, Jwk, JwkSet, PublicKeyUse};
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use tokio::time::Instant;
use url::Url;

pub use refresh::{Fetches, RefreshSettings};
use refresh::{Refresher, fetch_client};

const MAX_JWKS_BYTES: usize = 256 * 1024;

/// Why an issuer's keys are not usable.
#[derive(Debug, thiserror::Error)]
pub enum KeysError {
    /// The file cannot be read.
    #[error("cannot read the key set {path}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// What was read is no key set.
    #[error("the key set is malformed")]
    Malformed(#[from] serde_json::Error),
    /// The address does not answer.
    #[error("cannot fetch the key set")]
    Fetch(#[from] reqwest::Error),
    /// The answer is far larger than a key set.
    #[error("the key set has more than {MAX_JWKS_BYTES} bytes")]
    TooLarge,
    /// Nothing in the set verifies a token.
    #[error("the key set has no key that verifies a token")]
    Empty,
    /// No key of the issuer is known yet.
    #[error("no key set was fetched yet")]
    None,
    /// The last set is too old to be used.
    #[error("the last key set is older than its expire_seconds")]
    Expired,
    /// The key is not in the set, and a newer set is being fetched or could not be fetched.
    #[error("the key is not in the last key set, which may be outdated")]
    Outdated,
}

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

/// What the background task has learned.
#[derive(Clone, Debug, Default)]
struct FetchedKeys {
    /// The last set that was fetched.
    keys: Option<Arc<JwkSet>>,
    /// When it was.
    fetched: Option<Instant>,
    /// Attempts that have ended.
    attempts: u64,
    /// Whether the last attempt failed.
    failed: bool,
    /// From when on an unknown key causes an attempt; nothing while one is under way.
    refresh_from: Option<Instant>,
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
        if is_expired(known.fetched, self.expires, Instant::now()) {
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

/// Whether a set that was fetched then is used no more.
fn is_expired(fetched: Option<Instant>, expires: Option<Duration>, now: Instant) -> bool {
    let age = fetched.map(|fetched| now.duration_since(fetched));
    age.zip(expires).is_some_and(|(age, most)| age >= most)
}

/// Reads a key set with at least one key that verifies a token.
fn parse(text: &[u8]) -> Result<JwkSet, KeysError> {
    let keys: JwkSet = serde_json::from_slice(text)?;
    if keys.keys.iter().any(is_usable) {
        Ok(keys)
    } else {
        Err(KeysError::Empty)
    }
}

/// Whether a key may verify a token: it is public, not meant for something else, and well-formed.
fn is_usable(key: &Jwk) -> bool {
    let is_public = !matches!(key.algorithm, AlgorithmParameters::OctetKey(_));
    let meant_for = key.common.public_key_use.as_ref();
    is_public
        && meant_for.is_none_or(|usage| *usage == PublicKeyUse::Signature)
        && DecodingKey::from_jwk(key).is_ok()
}

fn pick(keys: &JwkSet, key_id: Option<&str>) -> Option<Jwk> {
    match (key_id, keys.keys.as_slice()) {
        (Some(id), _) => keys.find(id).cloned(),
        (None, [only]) => Some(only.clone()),
        (None, _) => None,
    }
}
