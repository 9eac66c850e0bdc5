//! Stores what a session shows, in parts, in the database.
use std::time::{Duration, Instant};

use sqlx::PgPool;
use uuid::Uuid;

use crate::config::{Policy, Recording};
use crate::domain::asciicast::Encoder;
use crate::domain::end::End;
use crate::domain::message::Size;
use crate::store::recordings;

/// A part is stored when it is this long, or this old.
const PART: usize = 128 << 10;
const AGE: Duration = Duration::from_secs(1);
/// Longest time to store a part.
const STORE: Duration = Duration::from_secs(5);

/// Records one session.
pub(crate) struct Recorder {
    pool: PgPool,
    session_id: Uuid,
    encoder: Encoder,
    began: Instant,
    part: String,
    since: Option<Instant>,
    seq: i32,
    bytes: u64,
    max_bytes: u64,
    required: bool,
    stopped: bool,
}

impl Recorder {
    /// Begins a recording by storing its header; none when the policy says so.
    ///
    /// # Errors
    /// [`End::RecordingFailed`] when the policy demands it and it cannot be stored.
    pub(crate) async fn begin(
        pool: &PgPool,
        session_id: Uuid,
        (policy, settings): (Policy, &Recording),
        size: Size,
        term: &str,
    ) -> Result<Option<Self>, End> {
        if policy == Policy::Off {
            return Ok(None);
        }
        let mut recorder = Self {
            pool: pool.clone(),
            session_id,
            encoder: Encoder::default(),
            began: Instant::now(),
            part: Encoder::header(size, term, jiff::Timestamp::now().as_second()),
            since: None,
            seq: 0,
            bytes: 0,
            max_bytes: settings.max_bytes,
            required: policy == Policy::Required,
            stopped: false,
        };
        recorder.store().await?;
        Ok(Some(recorder))
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// Records output. When the policy demands recordings it is stored before this returns.
    ///
    /// # Errors
    /// [`End::RecordingFailed`] when the policy demands it and it cannot be stored.
    pub(crate) async fn output(&mut self, data: &[u8]) -> Result<(), End> {
        let line = self.encoder.output(self.now(), data);
        self.add(&line);
        if self.required || self.part.len() >= PART {
            self.store().await?;
        }
        Ok(())
    }

    /// Records a new size.
    pub(crate) fn resize(&mut self, size: Size) {
        let line = self.encoder.resize(self.now(), size);
        self.add(&line);
    }

    /// Records the end.
    pub(crate) async fn exit(&mut self, status: Option<u32>) {
        let line = self.encoder.exit(self.now(), status);
        self.add(&line);
        // the session ends anyway, and its reason is known
        let _ = self.store().await;
    }

    fn add(&mut self, line: &str) {
        if !self.stopped && !line.is_empty() {
            self.part.push_str(line);
            self.since.get_or_insert_with(Instant::now);
        }
    }

    /// When [`Self::store`] is due.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.since.map(|since| since + AGE)
    }

    /// Stores what is waiting.
    ///
    /// # Errors
    /// [`End::RecordingFailed`] when the policy demands it and it cannot be stored.
    pub(crate) async fn store(&mut self) -> Result<(), End> {
        self.since = None;
        let part = std::mem::take(&mut self.part);
        if self.stopped || part.is_empty() {
            return Ok(());
        }
        if self.bytes + part.len() as u64 > self.max_bytes {
            return self.stop("it is as large as allowed");
        }
        let stored = recordings::append(&self.pool, self.session_id, self.seq, &part);
        match tokio::time::timeout(STORE, stored).await {
            Ok(Ok(())) => {
                self.seq += 1;
                self.bytes += part.len() as u64;
                Ok(())
            }
            Ok(Err(error)) => self.stop(&error.to_string()),
            Err(_) => self.stop("the database is slow"),
        }
    }

    fn stop(&mut self, why: &str) -> Result<(), End> {
        self.stopped = true;
        tracing::error!(session_id = %self.session_id, required = self.required, "stop recording: {why}");
        if self.required {
            Err(End::RecordingFailed)
        } else {
            Ok(())
        }
    }
}
