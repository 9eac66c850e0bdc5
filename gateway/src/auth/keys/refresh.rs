//! Fetches an issuer's key set in the background: at the start, when it gets old, when a key is not in it, and after a
//! failure with growing pauses. Every attempt is counted and logged.
use std::sync::Arc;
use std::time::Duration;

use gpuaas_common::time::backoff;
use jsonwebtoken::jwk::JwkSet;
use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Meter};
use serde::Deserialize;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use url::Url;

use super::set::{KeysError, MAX_JWKS_BYTES, parse};

/// Pause after the first failure; each further one doubles it.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// Longest pause after failures.
const MAX_PAUSE: Duration = Duration::from_secs(60);
/// Longest pause while no set was fetched yet: until then nobody whom the issuer knows can sign in.
const MAX_PAUSE_WITHOUT_KEYS: Duration = Duration::from_secs(5);

/// When an issuer's key set is fetched again.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RefreshSettings {
    /// Age at which the set is fetched again, in seconds. It is no limit: while attempts fail, the last set is used on until
    /// `expire_seconds`, and a key that the issuer has withdrawn meanwhile is still accepted. Watch
    /// `edge_key_fetches_total` with outcome `failed`; a restart of the gateway forgets the last set.
    pub max_age_seconds: f64,
    /// Age at which the last set is used no more, in seconds: until the issuer answers again, its tokens are answered 503.
    /// 0 for never. More than `max_age_seconds` and `timeout_seconds` together, with time for attempts that fail.
    pub expire_seconds: f64,
    /// Shortest time between two attempts that unknown keys cause, in seconds, so that bad tokens cannot flood the
    /// issuer.
    pub min_age_seconds: f64,
    /// Longest time of one attempt, in seconds.
    pub timeout_seconds: f64,
}

impl RefreshSettings {
    /// The age at which the last set is used no more, where there is one.
    pub(super) fn expires(&self) -> Option<Duration> {
        (self.expire_seconds > 0.0).then(|| seconds(self.expire_seconds))
    }
}

impl Default for RefreshSettings {
    fn default() -> Self {
        Self {
            max_age_seconds: 3600.0,
            expire_seconds: 0.0,
            min_age_seconds: 60.0,
            timeout_seconds: 3.0,
        }
    }
}

/// Counts the attempts of one issuer.
#[derive(Clone, Debug)]
pub struct Fetches {
    counter: Counter<u64>,
    issuer: String,
}

impl Fetches {
    /// Counts for this issuer.
    pub fn new(meter: &Meter, issuer: &str) -> Self {
        Self {
            counter: meter
                .u64_counter("edge_key_fetches_total")
                .with_description("Attempts to fetch an issuer's key set, by issuer and outcome")
                .build(),
            issuer: issuer.to_owned(),
        }
    }

    fn count(&self, outcome: &'static str) {
        let labels = [
            KeyValue::new("issuer", self.issuer.clone()),
            KeyValue::new("outcome", outcome),
        ];
        self.counter.add(1, &labels);
    }
}

/// What the background task has learned.
#[derive(Clone, Debug, Default)]
pub(super) struct FetchedKeys {
    /// The last set that was fetched.
    pub(super) keys: Option<Arc<JwkSet>>,
    /// When it was.
    pub(super) fetched: Option<Instant>,
    /// Attempts that have ended.
    pub(super) attempts: u64,
    /// Whether the last attempt failed.
    pub(super) failed: bool,
    /// From when on an unknown key causes an attempt; nothing while one is under way.
    pub(super) refresh_from: Option<Instant>,
}

impl FetchedKeys {
    /// Whether the last set is used no more at this age.
    pub(super) fn is_expired(&self, expires: Option<Duration>, now: Instant) -> bool {
        let age = self.fetched.map(|fetched| now.duration_since(fetched));
        age.zip(expires).is_some_and(|(age, most)| age >= most)
    }
}

/// The client that fetches; it follows no redirect.
pub(super) fn fetch_client(settings: &RefreshSettings) -> Result<reqwest::Client, reqwest::Error> {
    reqwest::Client::builder()
        .timeout(seconds(settings.timeout_seconds))
        .redirect(reqwest::redirect::Policy::none())
        .build()
}

/// The background task of one source.
pub(super) struct Refresher {
    pub(super) url: Url,
    pub(super) client: reqwest::Client,
    pub(super) settings: RefreshSettings,
    pub(super) fetches: Fetches,
    pub(super) learned: watch::Sender<FetchedKeys>,
    pub(super) unknown_key: Arc<Notify>,
}

impl Refresher {
    pub(super) async fn run(self) {
        let mut failures: u32 = 0;
        loop {
            self.learned.send_modify(|known| known.refresh_from = None);
            let fetched = self.fetch().await;
            let failed = fetched.is_err();
            let pause = match &fetched {
                Ok(_) => {
                    failures = 0;
                    jittered(seconds(self.settings.max_age_seconds), random())
                }
                Err(_) => {
                    failures = failures.saturating_add(1);
                    let longest = match self.has_keys() {
                        true => MAX_PAUSE,
                        false => MAX_PAUSE_WITHOUT_KEYS,
                    };
                    pause_after(failures, longest, random())
                }
            };
            self.record(&fetched, failures, pause);
            // a new key is no reason to ask an issuer sooner that has just failed
            let wait = match failed {
                true => pause,
                false => seconds(self.settings.min_age_seconds).min(pause),
            };
            let refresh_from = Instant::now() + wait;
            self.learned.send_modify(|known| {
                if let Ok(keys) = fetched {
                    known.keys = Some(Arc::new(keys));
                    known.fetched = Some(Instant::now());
                }
                known.attempts += 1;
                known.failed = failed;
                known.refresh_from = Some(refresh_from);
            });
            let again = Instant::now() + pause;
            let requested = async {
                tokio::time::sleep_until(refresh_from).await;
                self.unknown_key.notified().await;
            };
            tokio::select! {
                () = tokio::time::sleep_until(again) => {}
                () = requested => {}
            }
        }
    }

    /// Whether there is a set that is used: the next attempt is not urgent.
    fn has_keys(&self) -> bool {
        let known = self.learned.borrow();
        let expires = self.settings.expires();
        known.keys.is_some() && !known.is_expired(expires, Instant::now())
    }

    fn record(&self, fetched: &Result<JwkSet, KeysError>, failures: u32, pause: Duration) {
        let issuer = &self.fetches.issuer;
        let pause_ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
        match fetched {
            Ok(keys) => {
                self.fetches.count("fetched");
                let keys = keys.keys.len();
                tracing::info!(issuer, url = %self.url, keys, "fetch signing keys");
            }
            Err(error) => {
                self.fetches.count("failed");
                let cause = std::error::Error::source(error).map(ToString::to_string);
                let cause = cause.unwrap_or_default();
                tracing::warn!(issuer, url = %self.url, failures, pause_ms, cause, "keep the last signing keys: {error}");
            }
        }
    }

    async fn fetch(&self) -> Result<JwkSet, KeysError> {
        let request = self.client.get(self.url.clone());
        let mut response = request.send().await?.error_for_status()?;
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await? {
            body.extend_from_slice(&chunk);
            if body.len() > MAX_JWKS_BYTES {
                return Err(KeysError::TooLarge);
            }
        }
        parse(&body)
    }
}

/// Pause after so many failures in a row: between half and the whole of a time that doubles up to the longest, so that
/// the gateways of a fleet do not ask at once. `random` is from 0 to 1.
fn pause_after(failures: u32, longest: Duration, random: f64) -> Duration {
    jittered(backoff(failures, FIRST_PAUSE, longest), random)
}

fn jittered(whole: Duration, random: f64) -> Duration {
    whole.mul_f64(0.5 + random / 2.0)
}

fn seconds(value: f64) -> Duration {
    Duration::try_from_secs_f64(value.max(0.0)).unwrap_or(MAX_PAUSE)
}

fn random() -> f64 {
    let mut bytes = [0; 4];
    // without randomness gateways merely ask at the same time
    let _filled = aws_lc_rs::rand::fill(&mut bytes);
    f64::from(u32::from_be_bytes(bytes)) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_are_spread_over_half_of_their_length() {
        for (failures, longest, least, most) in [
            (1, MAX_PAUSE, 500, 1000),
            (2, MAX_PAUSE, 1000, 2000),
            (4, MAX_PAUSE, 4000, 8000),
            (7, MAX_PAUSE, 30_000, 60_000),
            (u32::MAX, MAX_PAUSE, 30_000, 60_000),
            (1, MAX_PAUSE_WITHOUT_KEYS, 500, 1000),
            (4, MAX_PAUSE_WITHOUT_KEYS, 2500, 5000),
            (u32::MAX, MAX_PAUSE_WITHOUT_KEYS, 2500, 5000),
        ] {
            let pause = |random| pause_after(failures, longest, random).as_millis();
            assert_eq!((pause(0.0), pause(1.0)), (least, most), "{failures}");
        }
    }
}
