//! A connection that can be cut from outside, whatever its owner waits for, and that is cut when its client sends more than one
//! who reads has to say.
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use gpuaas_common::CancellationToken;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;
use tokio_util::sync::WaitForCancellationFutureOwned;

/// Bytes that a client may send whatever it reads: keys that it tries, and what is typed.
const FREE: u64 = 1 << 20;
/// Bytes that it may send beside that in each second.
const PER_SECOND: u64 = 4 << 10;
/// Of so many bytes that it has taken it may acknowledge each with one.
const TAKEN: u64 = 16;

/// Fails to read and write once it is cut. The SSH server runs in a task of its own that nobody can end, and that may wait for
/// a client for ever, or work for it.
pub struct Cuttable<S> {
    stream: S,
    cut: Pin<Box<WaitForCancellationFutureOwned>>,
    since: Instant,
    received: u64,
    sent: u64,
}

impl<S> Cuttable<S> {
    /// Cut when `cut` is cancelled.
    pub fn new(stream: S, cut: CancellationToken) -> Self {
        Self {
            stream,
            cut: Box::pin(cut.cancelled_owned()),
            since: Instant::now(),
            received: 0,
            sent: 0,
        }
    }

    fn check(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        match self.cut.as_mut().poll(cx) {
            Poll::Ready(()) => Err(io::ErrorKind::ConnectionAborted.into()),
            Poll::Pending => Ok(()),
        }
    }

    /// Counts what came.
    fn receive(&mut self, bytes: usize) -> io::Result<()> {
        self.received += bytes as u64;
        if self.received > most(self.since.elapsed(), self.sent) {
            return Err(io::ErrorKind::QuotaExceeded.into());
        }
        Ok(())
    }
}

/// Bytes that a client may have sent by then.
fn most(since: Duration, sent: u64) -> u64 {
    FREE + since.as_secs() * PER_SECOND + sent / TAKEN
}

impl<S: AsyncRead + Unpin> AsyncRead for Cuttable<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check(cx)?;
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        self.receive(buffer.filled().len() - before)?;
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Cuttable<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check(cx)?;
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        if let Poll::Ready(Ok(length)) = &written {
            self.sent += *length as u64;
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check(cx)?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check(cx)?;
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn what_waits_for_a_silent_client_is_cut() {
        let (ours, mut theirs) = tokio::io::duplex(4);
        let cut = CancellationToken::new();
        let (mut read, mut write) = tokio::io::split(Cuttable::new(ours, cut.clone()));
        theirs.write_all(b"x").await.expect("written");
        assert_eq!(read.read_u8().await.expect("read"), b'x');
        // neither sends the client anything, nor does it take anything
        let waits = async { tokio::join!(read.read_u8(), write.write_all(&[0; 100])) };
        let ((read, written), ()) = tokio::join!(waits, async { cut.cancel() });
        assert!(read.is_err() && written.is_err());
    }

    #[tokio::test]
    async fn p12_a_client_that_sends_more_than_a_reader_has_to_say_is_cut() {
        let (ours, mut theirs) = tokio::io::duplex(64 << 10);
        let mut ours = Cuttable::new(ours, CancellationToken::new());
        let mut piece = vec![0; 64 << 10];
        let mut received = 0;
        let error = loop {
            theirs.write_all(&piece).await.expect("written");
            match ours.read_exact(&mut piece).await {
                Ok(length) => received += length as u64,
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::QuotaExceeded);
        assert!(received >= FREE, "{received}");
    }

    #[test]
    fn who_reads_for_long_or_much_may_say_so() {
        let day = Duration::from_secs(86_400);
        // answers to keep-alives, and leave to send on
        assert!(most(day, 0) > 4 * 86_400 / 15 * 100);
        assert!(most(Duration::ZERO, 1 << 30) > (1 << 30) / 32_768 * 100);
        assert_eq!(most(Duration::ZERO, 0), FREE);
    }
}
