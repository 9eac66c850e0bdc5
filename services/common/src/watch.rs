//! Watching: what every server stream that follows changes needs. Resume [`token`]s, a [`notifier`] that wakes streams, and
//! the frame that streams run in.
//!
//! A stream keeps a position and reads on from it when it is notified. It never has a queue of its own: a reader that is
//! slow is behind, and what it is behind by lies in the database.
pub mod notifier;
pub mod token;

use std::future::Future;
use std::time::Duration;

use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use opentelemetry::KeyValue;
use opentelemetry::metrics::{Meter, UpDownCounter};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::{Code, Status};

use crate::error::Error;

pub use notifier::{Notifier, Subscription};

/// What a handler of a watch answers.
pub type Stream<T> = ReceiverStream<Result<T, Status>>;

/// Messages that may wait for a reader. The rest of a stream's state is its position.
const WAITING: usize = 1;
/// How long a stream that ends waits for its reader to take the reason.
const END_TIMEOUT: Duration = Duration::from_secs(1);

/// Why a stream stops before it has come to its end.
#[derive(Debug)]
pub enum Stop {
    /// Nobody reads it any more.
    Gone,
    /// The reader receives this.
    Because(Error),
}

impl<E: Into<Error>> From<E> for Stop {
    fn from(error: E) -> Self {
        Self::Because(error.into())
    }
}

/// The way out of a stream.
#[derive(Debug)]
pub struct Sink<T> {
    sender: mpsc::Sender<Result<T, Status>>,
}

impl<T> Sink<T> {
    /// Sends a message as soon as the reader has taken the one before.
    ///
    /// # Errors
    /// [`Stop::Gone`].
    pub async fn send(&self, message: T) -> Result<(), Stop> {
        self.sender.send(Ok(message)).await.map_err(|_| Stop::Gone)
    }
}

/// Opens the streams of one process, counts them, and ends them when the process does.
#[derive(Clone, Debug)]
pub struct Streams {
    open: UpDownCounter<i64>,
    shutdown: CancellationToken,
}

impl Streams {
    /// Streams that end at `shutdown`.
    #[must_use]
    pub fn new(meter: &Meter, shutdown: CancellationToken) -> Self {
        let open = meter
            .i64_up_down_counter("watch_streams_open")
            .with_description("Open watch streams, by method")
            .build();
        Self { open, shutdown }
    }

    /// Runs `follow` until it ends, its reader goes, or the process shuts down; the reader of an ended process is asked
    /// to resume.
    pub fn open<T, F, R>(&self, method: &'static str, follow: F) -> Stream<T>
    where
        T: Send + 'static,
        F: FnOnce(Sink<T>) -> R,
        R: Future<Output = Result<(), Stop>> + Send + 'static,
    {
        let (sender, receiver) = mpsc::channel(WAITING);
        let running = follow(Sink {
            sender: sender.clone(),
        });
        let counted = Counted::new(self.open.clone(), method);
        let shutdown = self.shutdown.clone();
        tokio::spawn(async move {
            let _counted = counted;
            let ended = tokio::select! {
                ended = running => ended,
                () = sender.closed() => Err(Stop::Gone),
                () = shutdown.cancelled() => Err(Stop::Because(restarting())),
            };
            if let Err(Stop::Because(error)) = ended {
                let sent = sender.send(Err(error.into()));
                let _ = tokio::time::timeout(END_TIMEOUT, sent).await;
            }
        });
        ReceiverStream::new(receiver)
    }
}

/// The process ends; another one goes on.
fn restarting() -> Error {
    Error::new(
        Code::Unavailable,
        ErrorReason::DependencyUnavailable,
        "The service restarts. Watch again with the last resume token.",
    )
}

/// Counts one stream while it lives.
struct Counted {
    open: UpDownCounter<i64>,
    labels: [KeyValue; 1],
}

impl Counted {
    fn new(open: UpDownCounter<i64>, method: &'static str) -> Self {
        let labels = [KeyValue::new("method", method)];
        open.add(1, &labels);
        Self { open, labels }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.open.add(-1, &self.labels);
    }
}

#[cfg(test)]
mod tests {
    use tokio_stream::StreamExt as _;

    use super::*;

    fn streams() -> (Streams, CancellationToken, prometheus::Registry) {
        let (meter, meters, registry) = crate::telemetry::meter("test").expect("meter");
        // the instruments live as long as their provider
        std::mem::forget(meters);
        let shutdown = CancellationToken::new();
        (Streams::new(&meter, shutdown.clone()), shutdown, registry)
    }

    #[tokio::test]
    async fn a_reader_that_goes_ends_the_stream() {
        let (streams, _shutdown, _registry) = streams();
        let (ended, end) = tokio::sync::oneshot::channel::<()>();
        let stream = streams.open::<u8, _, _>("t", |sink| async move {
            let _ended = ended;
            sink.send(1).await?;
            std::future::pending().await
        });
        drop(stream);
        // the follower is dropped, and its end of the channel with it
        assert!(end.await.is_err());
    }

    #[tokio::test]
    async fn shutdown_asks_the_reader_to_resume() {
        let (streams, shutdown, registry) = streams();
        let mut stream = streams.open::<u8, _, _>("t", |sink| async move {
            sink.send(1).await?;
            std::future::pending().await
        });
        assert_eq!(stream.next().await.expect("open").expect("message"), 1);
        let shown = || {
            prometheus::TextEncoder::new()
                .encode_to_string(&registry.gather())
                .expect("text")
        };
        assert!(
            shown().contains("watch_streams_open{method=\"t\""),
            "{}",
            shown()
        );
        shutdown.cancel();
        let status = stream
            .next()
            .await
            .expect("a message")
            .expect_err("the end");
        assert_eq!(status.code(), Code::Unavailable);
        assert!(stream.next().await.is_none());
    }

    #[tokio::test]
    async fn a_reader_that_does_not_read_holds_the_stream_up() {
        let (streams, _shutdown, _registry) = streams();
        let sent = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(0));
        let count = sent.clone();
        let mut stream = streams.open::<u32, _, _>("t", |sink| async move {
            for n in 0..1000 {
                sink.send(n).await?;
                count.store(n, std::sync::atomic::Ordering::SeqCst);
            }
            Ok(())
        });
        assert_eq!(stream.next().await.expect("open").expect("message"), 0);
        tokio::task::yield_now().await;
        assert!(sent.load(std::sync::atomic::Ordering::SeqCst) <= 3);
        let rest: Vec<_> = stream.collect().await;
        assert_eq!(rest.len(), 999);
    }
}
