//! Rates that all replicas of a process share: token buckets in Redis, taken from in one round trip (GCRA).
//!
//! Redis is no record (P8). While it does not answer, each process counts for itself: a caller may then do as much at each of
//! them, and nobody is refused because Redis is away. [`Limiter::is_shared`] says which of the two it is.
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use redis::aio::ConnectionManager;
use tokio::sync::OnceCell;

/// How long Redis is left alone after it has not answered.
const AWAY: Duration = Duration::from_secs(1);
/// Local buckets above which those that are full again are dropped, if they are not used more widely than that.
const MANY: usize = 10_000;

/// For each bucket a key; for all of them the cost; for each bucket its microseconds per token and its capacity. Takes from all or
/// from none. Answers the number of the first bucket that has too little, or 0; how long until it has enough; and for each
/// bucket what is left and when it is full again; times in microseconds.
const SCRIPT: &str = r"
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local cost = tonumber(ARGV[1])
local refused, wait, answer, after = 0, 0, {}, {}
for i = 1, #KEYS do
  local interval, capacity = tonumber(ARGV[2 * i]), tonumber(ARGV[2 * i + 1])
  local full = math.max(now, tonumber(redis.call('GET', KEYS[i]) or '0'))
  local taken = full + cost * interval
  local late = taken - now - capacity * interval
  if late > 0 and late > wait then
    refused, wait = i, late
  end
  after[i] = { full, taken, interval, capacity }
end
for i = 1, #KEYS do
  local full, taken, interval, capacity = unpack(after[i])
  if refused == 0 then
    full = taken
    redis.call('SET', KEYS[i], string.format('%.0f', full), 'PX', math.ceil((full - now) / 1000) + 1)
  end
  answer[2 * i - 1] = math.max(0, math.floor((now + capacity * interval - full) / interval))
  answer[2 * i] = math.ceil(full - now)
end
return { refused, math.ceil(wait), unpack(answer) }
";

/// A bucket: whose, of what, and how much.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// Unique.
    pub key: String,
    /// Tokens that it holds, and that flow in each minute.
    pub per_minute: u32,
}

impl Bucket {
    fn interval(&self) -> f64 {
        60_000_000.0 / f64::from(self.per_minute.max(1))
    }
}

/// What is left in a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    /// Whole tokens.
    pub left: u64,
    /// Until it is full.
    pub full_in: Duration,
}

/// What became of an attempt to take tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The index of the bucket that has too little, and how long until it has enough. Nothing was taken then.
    pub refused: Option<(usize, Duration)>,
    /// Of each bucket, in order.
    pub levels: Vec<Level>,
}

/// Takes tokens from buckets.
pub struct Limiter {
    client: Option<redis::Client>,
    /// Longest wait for Redis by one call.
    timeout: Duration,
    connection: OnceCell<(ConnectionManager, String)>,
    /// Until when Redis is left alone.
    away_until: Mutex<Option<Instant>>,
    shared: AtomicBool,
    local: Local,
}

impl Limiter {
    /// With this Redis, for which a call waits at most `timeout`; without one each process counts for itself.
    ///
    /// # Errors
    /// A malformed URL.
    pub fn new(url: Option<&str>, timeout: Duration) -> Result<Self, redis::RedisError> {
        let client = url.map(redis::Client::open).transpose()?;
        Ok(Self {
            shared: AtomicBool::new(client.is_some()),
            client,
            timeout,
            connection: OnceCell::new(),
            away_until: Mutex::new(None),
            local: Local::default(),
        })
    }

    /// Whether the last call counted in Redis.
    pub fn is_shared(&self) -> bool {
        self.shared.load(Ordering::Relaxed)
    }

    /// Takes `cost` from every bucket, or nothing from any. Never fails.
    pub async fn take(&self, buckets: &[Bucket], cost: u32) -> Taken {
        // what holds less than it costs could never be paid
        let least = buckets.iter().map(|bucket| bucket.per_minute).min();
        let cost = cost.min(least.unwrap_or(cost)).max(1);
        if let Some(client) = self.client.as_ref().filter(|_| self.may_ask()) {
            let requested = tokio::time::timeout(self.timeout, self.ask(client, buckets, cost));
            let outcome = requested.await.map_err(|_| "no answer in time".to_owned());
            match outcome.and_then(|answer| answer.map_err(|error| error.to_string())) {
                Ok(taken) => {
                    *self.away() = None;
                    if !self.shared.swap(true, Ordering::Relaxed) {
                        tracing::info!("count rates in redis again");
                    }
                    return taken;
                }
                Err(error) => {
                    *self.away() = Some(Instant::now() + AWAY);
                    if self.shared.swap(false, Ordering::Relaxed) {
                        tracing::warn!(
                            "count rates in this process alone, redis does not answer: {error}"
                        );
                    }
                }
            }
        }
        self.local.take(buckets, cost, Instant::now())
    }

    fn away(&self) -> std::sync::MutexGuard<'_, Option<Instant>> {
        self.away_until
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Of those who come while Redis is away one tries it each second, and only that one waits.
    fn may_ask(&self) -> bool {
        let mut away = self.away();
        let now = Instant::now();
        match *away {
            None => true,
            Some(until) if now < until => false,
            Some(_) => {
                *away = Some(now + AWAY);
                true
            }
        }
    }

    async fn ask(
        &self,
        client: &redis::Client,
        buckets: &[Bucket],
        cost: u32,
    ) -> redis::RedisResult<Taken> {
        let open = self
            .connection
            .get_or_try_init(|| connect(client, self.timeout))
            .await?;
        let (mut connection, hash) = open.clone();
        let mut command = redis::cmd("EVALSHA");
        command.arg(&hash);
        arguments(&mut command, buckets, cost);
        let answer: redis::RedisResult<Vec<i64>> = command.query_async(&mut connection).await;
        let answer = match answer {
            Err(error) if error.code() == Some("NOSCRIPT") => {
                // a Redis that was restarted or emptied; this gives it the script
                let mut command = redis::cmd("EVAL");
                command.arg(SCRIPT);
                arguments(&mut command, buckets, cost);
                command.query_async(&mut connection).await?
            }
            other => other?,
        };
        Ok(read(&answer, buckets.len()))
    }
}

fn arguments(command: &mut redis::Cmd, buckets: &[Bucket], cost: u32) {
    command.arg(buckets.len());
    for bucket in buckets {
        command.arg(format!("gpuaas:rate:{}", bucket.key));
    }
    command.arg(cost);
    for bucket in buckets {
        command.arg(bucket.interval()).arg(bucket.per_minute);
    }
}

async fn connect(
    client: &redis::Client,
    timeout: Duration,
) -> redis::RedisResult<(ConnectionManager, String)> {
    let config = redis::aio::ConnectionManagerConfig::new()
        .set_number_of_retries(1)
        .set_connection_timeout(Some(timeout))
        .set_response_timeout(Some(timeout));
    let mut connection = ConnectionManager::new_with_config(client.clone(), config).await?;
    let hash = redis::cmd("SCRIPT")
        .arg("LOAD")
        .arg(SCRIPT)
        .query_async(&mut connection)
        .await?;
    Ok((connection, hash))
}

fn micros(value: i64) -> Duration {
    Duration::from_micros(u64::try_from(value).unwrap_or_default())
}

fn read(answer: &[i64], buckets: usize) -> Taken {
    let at = |index: usize| answer.get(index).copied().unwrap_or_default();
    let refused = usize::try_from(at(0))
        .ok()
        .and_then(|one| one.checked_sub(1));
    Taken {
        refused: refused.map(|index| (index, micros(at(1)))),
        levels: (0..buckets)
            .map(|index| Level {
                left: u64::try_from(at(2 + 2 * index)).unwrap_or_default(),
                full_in: micros(at(3 + 2 * index)),
            })
            .collect(),
    }
}

/// The same buckets in this process.
#[derive(Default)]
struct Local(Mutex<LocalBuckets>);

#[derive(Default)]
struct LocalBuckets {
    /// By key when each is full again.
    full: HashMap<String, Instant>,
    /// How many are left by the last clearing: the next is when there are twice as many.
    kept: usize,
}

impl Local {
    fn take(&self, buckets: &[Bucket], cost: u32, now: Instant) -> Taken {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let LocalBuckets { full: known, kept } = &mut *known;
        if known.len() > MANY.max(2 * *kept) {
            known.retain(|_, full| *full > now);
            *kept = known.len();
        }
        let mut refused: Option<(usize, Duration)> = None;
        let mut after = Vec::with_capacity(buckets.len());
        for (index, bucket) in buckets.iter().enumerate() {
            let interval = Duration::from_secs_f64(bucket.interval() / 1e6);
            let whole = interval.saturating_mul(bucket.per_minute);
            let full = known.get(&bucket.key).copied().unwrap_or(now).max(now);
            let taken = full + interval.saturating_mul(cost);
            let late = taken.duration_since(now).saturating_sub(whole);
            if !late.is_zero() && refused.is_none_or(|(_, wait)| late > wait) {
                refused = Some((index, late));
            }
            after.push((full, taken, interval, whole));
        }
        let levels = after.into_iter().zip(buckets);
        let levels = levels.map(|((full, taken, interval, whole), bucket)| {
            let full = if refused.is_none() {
                known.insert(bucket.key.clone(), taken);
                taken
            } else {
                full
            };
            let full_in = full.duration_since(now);
            let left = whole.saturating_sub(full_in).as_secs_f64() / interval.as_secs_f64();
            Level {
                // what a bucket is divided into has no exact end
                left: (left + 1e-6) as u64,
                full_in,
            }
        });
        let levels = levels.collect();
        Taken { refused, levels }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_millis(100);

    fn bucket(key: &str, per_minute: u32) -> Bucket {
        Bucket {
            key: key.to_owned(),
            per_minute,
        }
    }

    #[test]
    fn a_bucket_gives_what_it_holds_and_fills_again() {
        let local = Local::default();
        let now = Instant::now();
        let (a, b) = (bucket("a", 60), bucket("b", 2));
        let first = local.take(std::slice::from_ref(&a), 58, now);
        assert_eq!((first.refused, first.levels[0].left), (None, 2));
        let both = [a.clone(), b.clone()];
        let second = local.take(&both, 1, now);
        assert_eq!(second.refused, None);
        let left: Vec<u64> = second.levels.iter().map(|level| level.left).collect();
        assert_eq!(left, [1, 1]);
        local.take(&both, 1, now);
        // the one that takes longest says how long; nothing is taken from the other
        let refused = local.take(&both, 1, now);
        let (index, wait) = refused.refused.expect("empty");
        assert_eq!((index, wait.as_secs_f64().round()), (1, 30.0));
        let later = local.take(std::slice::from_ref(&a), 1, now + Duration::from_secs(1));
        assert_eq!(later.refused, None);
        let full = local.take(&[b], 1, now + Duration::from_secs(600));
        assert_eq!((full.refused, full.levels[0].left), (None, 1));
    }

    #[test]
    fn buckets_that_are_full_again_are_forgotten() {
        let local = Local::default();
        let now = Instant::now();
        for index in 0..=MANY {
            local.take(&[bucket(&index.to_string(), 60)], 1, now);
        }
        let later = now + Duration::from_secs(1);
        local.take(&[bucket("x", 60)], 1, later);
        let known = local.0.lock().expect("lock");
        assert_eq!((known.full.len(), known.kept), (1, 0));
    }

    #[tokio::test]
    async fn without_redis_each_process_counts_for_itself() {
        let limiter = Limiter::new(None, TIMEOUT).expect("no url");
        assert!(!limiter.is_shared());
        let one = [bucket("x", 1)];
        assert_eq!(limiter.take(&one, 1).await.refused, None);
        assert!(limiter.take(&one, 1).await.refused.is_some());
        // more than it ever holds costs all that it holds
        let big = limiter.take(&[bucket("y", 5)], 50).await;
        assert_eq!((big.refused, big.levels[0].left), (None, 0));
    }

    /// P8: nobody is refused because Redis is away, and nobody waits long for it.
    #[tokio::test]
    async fn a_redis_that_is_away_refuses_nobody() {
        let limiter = Limiter::new(Some("redis://127.0.0.1:1"), TIMEOUT).expect("url");
        for _ in 0..10 {
            let taken = limiter.take(&[bucket("x", 100)], 1).await;
            assert_eq!(taken.refused, None);
        }
        assert!(!limiter.is_shared());
    }
}
