//! Readings of whole images that outlive the calls that ask for them: an image of gigabytes takes longer than a call may last.
//! Nothing of it is durable: a process that ends forgets its readings, and the next call begins one anew.
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Semaphore, watch};

use super::{Registry, RegistryError, Resolved};

/// Readings at once; others wait for their turn.
const AT_ONCE: usize = 2;
/// Readings that run, wait for their turn, or have a result that is kept.
const MOST: usize = 64;
/// How long a result is kept for the call that asks again.
const KEPT: Duration = Duration::from_mins(10);
/// Longest reading. One that stands still ends sooner, by the timeout of the registry.
const LONGEST: Duration = Duration::from_hours(2);

/// Why it is not known that a published image is what its digest says.
#[derive(Debug, Clone)]
pub enum Unverified {
    /// It is not, or could not be read.
    Failed(Arc<RegistryError>),
    /// It is being read: ask again.
    Reading,
    /// As many are being read as may be: ask again.
    TooMany,
}

impl Unverified {
    /// Nothing is published there.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Failed(error) if matches!(**error, RegistryError::Missing))
    }
}

impl From<RegistryError> for Unverified {
    fn from(error: RegistryError) -> Self {
        Self::Failed(Arc::new(error))
    }
}

/// When a reading ended and how; none as long as it runs.
type Outcome = Option<(Instant, Result<(), Arc<RegistryError>>)>;

/// The readings of this process, one at a time of each manifest. Clones share them.
#[derive(Clone)]
pub struct Verifications {
    /// By the source that is pinned to the manifest.
    readings: Arc<Mutex<HashMap<String, watch::Receiver<Outcome>>>>,
    turns: Arc<Semaphore>,
    patience: Duration,
}

impl Verifications {
    /// `patience` is how long a call waits for its reading.
    pub fn new(patience: Duration) -> Self {
        Self {
            readings: Arc::default(),
            turns: Arc::new(Semaphore::new(AT_ONCE)),
            patience,
        }
    }

    /// Whether the content is what its digest says, as [`Registry::verify`] reads it. The reading goes on when this ends.
    ///
    /// # Errors
    /// See [`Unverified`]. A failure is told once; who asks again has the image read again.
    pub async fn verify(&self, registry: &Registry, resolved: &Resolved) -> Result<(), Unverified> {
        let key = resolved.source.to_string();
        let mut reading = self
            .reading(&key, registry, resolved)
            .ok_or(Unverified::TooMany)?;
        let outcome = tokio::time::timeout(self.patience, reading.wait_for(Option::is_some))
            .await
            .ok()
            .and_then(Result::ok)
            .and_then(|outcome| outcome.clone());
        match outcome {
            // not yet; or its task is gone, and the next call begins another one
            None => Err(Unverified::Reading),
            Some((_, Ok(()))) => Ok(()),
            Some((_, Err(error))) => {
                self.forget(&key, &reading);
                Err(Unverified::Failed(error))
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, watch::Receiver<Outcome>>> {
        self.readings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The reading that there is, or a new one; none where there are too many.
    fn reading(
        &self,
        key: &str,
        registry: &Registry,
        resolved: &Resolved,
    ) -> Option<watch::Receiver<Outcome>> {
        let now = Instant::now();
        let mut readings = self.lock();
        readings.retain(|_, reading| is_kept(reading, now));
        if let Some(reading) = readings.get(key) {
            return Some(reading.clone());
        }
        if readings.len() >= MOST {
            readings.retain(|_, reading| reading.borrow().is_none());
        }
        if readings.len() >= MOST {
            return None;
        }
        let (end, reading) = watch::channel(None);
        let turns = self.turns.clone();
        tokio::spawn(read(registry.clone(), resolved.clone(), turns, end));
        readings.insert(key.to_owned(), reading.clone());
        Some(reading)
    }

    fn forget(&self, key: &str, told: &watch::Receiver<Outcome>) {
        let mut readings = self.lock();
        if readings
            .get(key)
            .is_some_and(|reading| reading.same_channel(told))
        {
            readings.remove(key);
        }
    }
}

/// Whether a reading runs, or its result is kept still.
fn is_kept(reading: &watch::Receiver<Outcome>, now: Instant) -> bool {
    match &*reading.borrow() {
        Some((ended, _)) => now.saturating_duration_since(*ended) < KEPT,
        // its task may be gone without an end
        None => reading.has_changed().is_ok(),
    }
}

async fn read(
    registry: Registry,
    resolved: Resolved,
    turns: Arc<Semaphore>,
    end: watch::Sender<Outcome>,
) {
    // the semaphore is never closed
    let _turn = turns.acquire().await;
    let began = Instant::now();
    let read = tokio::time::timeout(LONGEST, registry.verify(&resolved)).await;
    let outcome = read.unwrap_or_else(|_| {
        let cause = format!("the image was not read within {LONGEST:?}");
        Err(RegistryError::Unavailable(cause.into()))
    });
    tracing::info!(
        source_uri = %resolved.source,
        size_bytes = resolved.image.size,
        seconds = began.elapsed().as_secs(),
        is_good = outcome.is_ok(),
        "verify image content"
    );
    end.send_replace(Some((Instant::now(), outcome.map_err(Arc::new))));
}
