//! The public keys of one issuer: from a file, from its JWKS address, or of the embedded issuer.
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jsonwebtoken::jwk::{Jwk, JwkSet};
use tokio::sync::Mutex;
use url::Url;

/// Keys from an address are used this long before they are fetched again.
const MAX_AGE: Duration = Duration::from_secs(3600);
/// An unknown key id causes at most one fetch in this time, so that bad tokens cannot flood the issuer.
const MIN_AGE: Duration = Duration::from_secs(60);
const FETCH_TIMEOUT: Duration = Duration::from_secs(3);
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
}

/// Where the keys are.
#[derive(Clone, Debug)]
pub struct KeySource(Arc<Source>);

#[derive(Debug)]
enum Source {
    Fixed(JwkSet),
    Remote {
        url: Url,
        client: reqwest::Client,
        cached: Mutex<Option<Cached>>,
    },
}

#[derive(Debug)]
struct Cached {
    keys: JwkSet,
    fetched: Instant,
}

impl KeySource {
    /// Keys that never change while the process runs.
    pub fn fixed(keys: JwkSet) -> Self {
        Self(Arc::new(Source::Fixed(keys)))
    }

    /// Keys from a file.
    ///
    /// # Errors
    /// The file is unreadable or no key set.
    pub fn file(path: &PathBuf) -> Result<Self, KeysError> {
        let text = std::fs::read_to_string(path).map_err(|source| KeysError::File {
            path: path.clone(),
            source,
        })?;
        Ok(Self::fixed(serde_json::from_str(&text)?))
    }

    /// Keys from an address, fetched when first needed.
    ///
    /// # Errors
    /// The HTTP client cannot be built.
    pub fn remote(url: Url) -> Result<Self, KeysError> {
        let client = reqwest::Client::builder()
            .timeout(FETCH_TIMEOUT)
            .redirect(reqwest::redirect::Policy::none())
            .build()?;
        Ok(Self(Arc::new(Source::Remote {
            url,
            client,
            cached: Mutex::default(),
        })))
    }

    /// The key of an id; without an id the only key there is. `None` when there is no such key.
    ///
    /// # Errors
    /// The address does not answer and nothing is cached.
    pub async fn find(&self, key_id: Option<&str>) -> Result<Option<Jwk>, KeysError> {
        match self.0.as_ref() {
            Source::Fixed(keys) => Ok(pick(keys, key_id)),
            Source::Remote {
                url,
                client,
                cached,
            } => {
                let mut cached = cached.lock().await;
                let from_cache = cached.as_ref().and_then(|c| pick(&c.keys, key_id));
                let age = cached.as_ref().map(|c| c.fetched.elapsed());
                let fetch = match age {
                    None => true,
                    Some(age) if from_cache.is_none() => age > MIN_AGE,
                    Some(age) => age > MAX_AGE,
                };
                if !fetch {
                    return Ok(from_cache);
                }
                match fetch_keys(client, url).await {
                    Ok(keys) => {
                        let found = pick(&keys, key_id);
                        *cached = Some(Cached {
                            keys,
                            fetched: Instant::now(),
                        });
                        Ok(found)
                    }
                    Err(error) if cached.is_some() => {
                        tracing::warn!(%url, "keep old signing keys: {error}");
                        Ok(from_cache)
                    }
                    Err(error) => Err(error),
                }
            }
        }
    }
}

async fn fetch_keys(client: &reqwest::Client, url: &Url) -> Result<JwkSet, KeysError> {
    let mut response = client.get(url.clone()).send().await?.error_for_status()?;
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        body.extend_from_slice(&chunk);
        if body.len() > MAX_JWKS_BYTES {
            return Err(KeysError::TooLarge);
        }
    }
    Ok(serde_json::from_slice(&body)?)
}

fn pick(keys: &JwkSet, key_id: Option<&str>) -> Option<Jwk> {
    match (key_id, keys.keys.as_slice()) {
        (Some(id), _) => keys.find(id).cloned(),
        (None, [only]) => Some(only.clone()),
        (None, _) => None,
    }
}
