//! Answers on their way to a client: what they keep until they are taken, and since when nothing was taken of them.
use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{self, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use gpuaas_common::CancellationToken;
use gpuaas_common::server::connections::Running;
use hyper::body::{Frame, SizeHint};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// Most that is handed out of an answer at once, so that a client which takes only a little has only a little buffered.
const PIECE: usize = 16 << 10;

/// Marks an answer that is a stream, as an extension of it: when nothing of it is taken there may be nothing to take, until
/// it is over.
#[derive(Clone, Debug)]
pub struct IsStream {
    /// There is something to take: why the stream ends.
    pub over: CancellationToken,
    /// All of it was taken, or nobody wants it any more.
    pub gone: CancellationToken,
}

impl IsStream {
    /// Counts the stream among the answers that are not taken from the moment it is over.
    pub async fn watch(self, untaken: Untaken) {
        tokio::select! {
            () = self.gone.cancelled() => {}
            () = self.over.cancelled() => {
                let _progress = untaken.begin();
                self.gone.cancelled().await;
            }
        }
    }
}

/// The same body, which keeps something until the last of it is taken, or nobody wants it any more.
pub fn keep<T: Send + Unpin + 'static>(body: Body, kept: T) -> Body {
    Body::new(Keeping { body, _kept: kept })
}

struct Keeping<T> {
    body: Body,
    _kept: T,
}

impl<T: Unpin> hyper::body::Body for Keeping<T> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut task::Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The answers of one connection that are not taken yet, each with the time of its last progress. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Untaken(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    answers: Mutex<Answers>,
    more: Notify,
}

#[derive(Debug, Default)]
struct Answers {
    last: u64,
    progress: HashMap<u64, Instant>,
}

/// One answer that is not taken yet; forgotten when dropped.
#[derive(Debug)]
struct Progress {
    id: u64,
    of: Untaken,
}

impl Untaken {
    fn answers(&self) -> MutexGuard<'_, Answers> {
        let answers = self.0.answers.lock();
        answers.unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self) -> Progress {
        let mut answers = self.answers();
        answers.last += 1;
        let id = answers.last;
        answers.progress.insert(id, Instant::now());
        drop(answers);
        self.0.more.notify_one();
        Progress {
            id,
            of: self.clone(),
        }
    }

    /// Returns when nothing was taken of an answer for so long.
    pub async fn stalled(&self, limit: Duration) {
        loop {
            let oldest = self.answers().progress.values().min().copied();
            match oldest.map(|at| at + limit) {
                None => self.0.more.notified().await,
                Some(deadline) if deadline <= Instant::now() => return,
                Some(deadline) => sleep_until(deadline).await,
            }
        }
    }
}

impl Progress {
    fn made(&self) {
        let mut answers = self.of.answers();
        answers.progress.insert(self.id, Instant::now());
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.of.answers().progress.remove(&self.id);
    }
}

/// The body of an answer, in pieces; its connection is busy until the last of it is taken, or nobody wants it any more.
pub struct Answer {
    body: Body,
    /// What the body gave and the client has not taken.
    rest: Bytes,
    /// Nothing for a stream.
    progress: Option<Progress>,
    _running: Running,
}

impl Answer {
    /// The body of an answer that is a stream or not.
    pub fn new(body: Body, is_stream: bool, untaken: &Untaken, running: Running) -> Self {
        Self {
            body,
            rest: Bytes::new(),
            progress: (!is_stream).then(|| untaken.begin()),
            _running: running,
        }
    }
}

impl hyper::body::Body for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut task::Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = &mut *self;
        if this.rest.is_empty() {
            let frame = match ready!(Pin::new(&mut this.body).poll_frame(cx)) {
                Some(Ok(frame)) => frame.into_data(),
                ended => return Poll::Ready(ended),
            };
            match frame {
                Ok(data) => this.rest = data,
                Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
            }
        }
        if let Some(progress) = &this.progress {
            progress.made();
        }
        let piece = this.rest.split_to(this.rest.len().min(PIECE));
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let rest = self.rest.len() as u64;
        let of_body = self.body.size_hint();
        let mut hint = SizeHint::new();
        hint.set_lower(of_body.lower() + rest);
        if let Some(upper) = of_body.upper() {
            hint.set_upper(upper + rest);
        }
        hint
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use gpuaas_common::server::connections::Connections;
    use http_body_util::BodyExt as _;
    use hyper::body::Body as _;

    use super::*;

    #[tokio::test]
    async fn an_answer_is_handed_out_in_pieces_and_counts_until_its_last() {
        let place = Connections::new(1, 0).enter(None).expect("place");
        let untaken = Untaken::default();
        let kept = Arc::new(());
        let text = vec![b'a'; 2 * PIECE + 1];
        let body = keep(Body::from(text), kept.clone());
        let mut answer = Answer::new(body, false, &untaken, place.starter()());
        for (left, piece) in [(2 * PIECE + 1, PIECE), (PIECE + 1, PIECE), (1, 1)] {
            assert_eq!(answer.size_hint().exact(), Some(left as u64));
            assert!(!answer.is_end_stream());
            assert!(untaken.stalled(Duration::ZERO).now_or_never().is_some());
            let frame = answer.frame().await.expect("a piece").expect("good");
            assert_eq!(frame.data_ref().map(Bytes::len), Some(piece));
        }
        assert!(answer.is_end_stream());
        assert_eq!(Arc::strong_count(&kept), 2, "kept as long as the answer");
        drop(answer);
        assert_eq!(Arc::strong_count(&kept), 1);
        assert!(untaken.stalled(Duration::ZERO).now_or_never().is_none());
    }

    #[tokio::test]
    async fn a_stream_of_which_nothing_is_taken_does_not_stall() {
        let place = Connections::new(1, 0).enter(None).expect("place");
        let untaken = Untaken::default();
        let running = place.starter()();
        let _answer = Answer::new(Body::from("quiet"), true, &untaken, running);
        assert!(untaken.stalled(Duration::ZERO).now_or_never().is_none());
    }
}
