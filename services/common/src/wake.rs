//! Wake-ups over Redis Streams: "there is something new", never what. Losing Redis loses nothing (P8): every
//! waiter also wakes at its poll interval.
use std::sync::Arc;
use std::time::Duration;

use redis::AsyncCommands as _;
use redis::aio::ConnectionManager;
use redis::streams::{StreamMaxlen, StreamReadOptions, StreamReadReply};
use tokio::sync::{Notify, OnceCell};
use tokio_util::sync::{CancellationToken, DropGuard};

const RETRY: Duration = Duration::from_secs(1);
const KEEP: usize = 1000;

/// Sends and receives wake-ups.
#[derive(Clone)]
pub struct Wake {
    client: Option<redis::Client>,
    manager: Arc<OnceCell<ConnectionManager>>,
}

/// Waits for wake-ups of one topic.
pub struct Waiter {
    notify: Arc<Notify>,
    _stop: DropGuard,
}

fn key(topic: &str) -> String {
    format!("gpuaas:wake:{topic}")
}

impl Wake {
    /// Wake-ups through this Redis; `None` leaves polling alone.
    ///
    /// # Errors
    /// A malformed URL.
    pub fn new(url: Option<&str>) -> Result<Self, redis::RedisError> {
        let client = url.map(redis::Client::open).transpose()?;
        Ok(Self {
            client,
            manager: Arc::new(OnceCell::new()),
        })
    }

    /// Says that a topic has something new. Never fails and never blocks long: a lost wake-up costs at most a
    /// poll interval.
    pub async fn notify(&self, topic: &str) {
        let Some(client) = &self.client else { return };
        let send = async {
            let manager = self
                .manager
                .get_or_try_init(|| {
                    let config = redis::aio::ConnectionManagerConfig::new()
                        .set_number_of_retries(1)
                        .set_connection_timeout(Some(Duration::from_millis(500)))
                        .set_response_timeout(Some(Duration::from_millis(500)));
                    ConnectionManager::new_with_config(client.clone(), config)
                })
                .await?;
            let mut connection = manager.clone();
            connection
                .xadd_maxlen::<_, _, _, _, ()>(
                    key(topic),
                    StreamMaxlen::Approx(KEEP),
                    "*",
                    &[("n", "1")],
                )
                .await
        };
        match tokio::time::timeout(Duration::from_secs(1), send).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::debug!(topic, "skip wake-up, redis does not answer: {error}");
            }
            Err(_) => tracing::debug!(topic, "skip wake-up, redis is slow"),
        }
    }

    /// Starts to listen to a topic, from now on, until the waiter is dropped.
    pub fn subscribe(&self, topic: &str) -> Waiter {
        let notify = Arc::new(Notify::new());
        let stop = CancellationToken::new();
        if let Some(client) = self.client.clone() {
            let (notify, stop, key) = (notify.clone(), stop.clone(), key(topic));
            tokio::spawn(async move {
                let _ = stop.run_until_cancelled(listen(client, key, notify)).await;
            });
        }
        Waiter {
            notify,
            _stop: stop.drop_guard(),
        }
    }
}

async fn listen(client: redis::Client, key: String, notify: Arc<Notify>) {
    let mut connected = true;
    loop {
        if let Err(error) = follow(&client, &key, &notify).await {
            if connected {
                tracing::warn!(key, "lose wake-ups, polling goes on: {error}");
            }
            connected = false;
        } else {
            connected = true;
        }
        // what happened while nobody listened is found by reading
        notify.notify_one();
        tokio::time::sleep(RETRY).await;
    }
}

async fn follow(client: &redis::Client, key: &str, notify: &Notify) -> redis::RedisResult<()> {
    // a blocking read may be silent for its whole block time: no response timeout on this connection
    let config = redis::AsyncConnectionConfig::new()
        .set_connection_timeout(Some(RETRY))
        .set_response_timeout(Some(Duration::from_secs(15)));
    let mut connection = client
        .get_multiplexed_async_connection_with_config(&config)
        .await?;
    let options = StreamReadOptions::default().block(5000).count(KEEP);
    let mut last = "$".to_owned();
    loop {
        let reply: Option<StreamReadReply> =
            connection.xread_options(&[key], &[&last], &options).await?;
        let newest = reply
            .and_then(|r| r.keys.into_iter().next())
            .and_then(|k| k.ids.into_iter().next_back());
        if let Some(entry) = newest {
            last = entry.id;
            notify.notify_one();
        }
    }
}

impl Waiter {
    /// Returns at the next wake-up, or after `poll_interval` without one.
    pub async fn wait(&self, poll_interval: Duration) {
        let _ = tokio::time::timeout(poll_interval, self.notify.notified()).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn without_redis_a_waiter_polls() {
        let wake = Wake::new(None).expect("no url");
        let interval = Duration::from_millis(20);
        let started = std::time::Instant::now();
        wake.notify("t").await;
        wake.subscribe("t").wait(interval).await;
        assert!(started.elapsed() >= interval);
    }

    /// Longer than a sender may be kept, and than a waiter polls; a busy machine included.
    const TIMEOUT: Duration = Duration::from_secs(20);

    /// P8: one that refuses connections, and one that takes them and never answers.
    #[tokio::test]
    async fn a_dead_redis_never_fails_a_sender() {
        let silent = tokio::net::TcpListener::bind("127.0.0.1:0")
            .await
            .expect("port");
        let silent_port = silent.local_addr().expect("address").port();
        let (kept, mut connections) = tokio::sync::mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((connection, _)) = silent.accept().await {
                if kept.send(connection).is_err() {
                    break;
                }
            }
        });
        for port in [1, silent_port] {
            let url = format!("redis://127.0.0.1:{port}");
            let wake = Wake::new(Some(&url)).expect("url parses");
            let waiter = wake.subscribe("t");
            tokio::time::timeout(TIMEOUT, async {
                wake.notify("t").await;
                // again, after what the first one learned
                wake.notify("t").await;
                // who waits looks for itself
                waiter.wait(Duration::from_millis(20)).await;
            })
            .await
            .unwrap_or_else(|_| panic!("{url} keeps a sender or a waiter"));
        }
        assert!(
            connections.try_recv().is_ok(),
            "nobody called the silent one"
        );
    }
}
