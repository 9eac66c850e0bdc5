//! A watch of the API: its messages one by one, over any number of connections. A lost connection, or a platform that
//! restarts, is opened again after the last message that came.
use std::collections::VecDeque;
use std::time::{Duration, Instant};

use gpuaas_proto::call::Streaming;
use serde_json::Value;

use crate::api::{Answer, Api};
use crate::failure::Failure;
use crate::pause::pauses;

/// How long the platform may be away.
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(60);
/// A live stream gives a sign of life more often than this.
const HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(60);
/// Pauses between attempts, the first and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));
/// Longest line: an allocation is a few kilobytes.
const MAX_LINE: usize = 4 << 20;

/// A watch.
pub struct Watch<'a, C> {
    api: &'a Api,
    call: C,
    token: String,
    open: Option<reqwest::Response>,
    /// Bytes of a line that has not ended.
    begun: Vec<u8>,
    lines: VecDeque<String>,
    /// A message came on this connection.
    is_under_way: bool,
    /// Since when nothing came; how often it was tried.
    failing: Option<(Instant, usize)>,
}

impl<'a, C: Streaming> Watch<'a, C> {
    /// A watch; nothing is sent yet.
    pub fn new(api: &'a Api, call: C) -> Self {
        Self {
            api,
            call,
            token: String::new(),
            open: None,
            begun: Vec::new(),
            lines: VecDeque::new(),
            is_under_way: false,
            failing: None,
        }
    }

    /// The next message; a sign of life is none.
    ///
    /// # Errors
    /// The API refuses, or is away for longer than a minute.
    pub async fn next(&mut self) -> Result<Answer<C::Response>, Failure> {
        loop {
            match self.receive().await {
                Ok(message) => {
                    self.failing = None;
                    if message["heartbeat"].is_object() {
                        continue;
                    }
                    return Answer::read(message);
                }
                Err(failure) => self.recover(failure).await?,
            }
        }
    }

    /// A message of the present connection; opens one when there is none.
    async fn receive(&mut self) -> Result<Value, Failure> {
        let line = self.line().await?;
        let message: Value = serde_json::from_str(&line)
            .map_err(|_| Failure::Local("the API sent something that is not JSON".to_owned()))?;
        if message["error"].is_object() {
            return Err(self.api.failure_of(&message));
        }
        self.is_under_way = true;
        if let Some(token) = message["resume_token"].as_str().filter(|t| !t.is_empty()) {
            token.clone_into(&mut self.token);
        }
        Ok(message)
    }

    async fn line(&mut self) -> Result<String, Failure> {
        loop {
            if let Some(line) = self.lines.pop_front() {
                return Ok(line);
            }
            if self.open.is_none() {
                self.open = Some(self.api.open_stream(&self.call, &self.token).await?);
            }
            let Some(open) = &mut self.open else { continue };
            let part = tokio::time::timeout(HEARTBEAT_TIMEOUT, open.chunk()).await;
            match part {
                Ok(Ok(Some(part))) => self.take(&part)?,
                Ok(Ok(None)) => return Err(self.api.unreachable("the stream ended".to_owned())),
                Ok(Err(error)) => return Err(self.api.unreachable(error.to_string())),
                Err(_) => return Err(self.api.unreachable("the stream is silent".to_owned())),
            }
        }
    }

    fn take(&mut self, part: &[u8]) -> Result<(), Failure> {
        for piece in part.split_inclusive(|byte| *byte == b'\n') {
            self.begun.extend_from_slice(piece);
            if self.begun.len() > MAX_LINE {
                return Err(Failure::Local(
                    "the API streamed a line without end".to_owned(),
                ));
            }
            if piece.ends_with(b"\n") {
                let line = String::from_utf8_lossy(&std::mem::take(&mut self.begun)).into_owned();
                if !line.trim().is_empty() {
                    self.lines.push_back(line);
                }
            }
        }
        Ok(())
    }

    /// Waits before the next attempt, or gives the failure back when another one is of no use.
    async fn recover(&mut self, failure: Failure) -> Result<(), Failure> {
        self.open = None;
        self.begun.clear();
        self.lines.clear();
        let was_under_way = std::mem::take(&mut self.is_under_way);
        match &failure {
            Failure::Unreachable { .. } | Failure::ProviderUnavailable { .. } => {}
            Failure::Api(error) if error.is_transient() => {}
            // the token has expired, which the next one has not, or the access has changed: who opens it again is told what holds
            Failure::Api(error) if was_under_way && matches!(error.http, 401 | 403) => {}
            // what was missed is not kept any more: all that is comes again
            Failure::Api(error) if error.reason == "RESUME_TOKEN_EXPIRED" => self.token.clear(),
            _ => return Err(failure),
        }
        let (since, tries) = self.failing.unwrap_or((Instant::now(), 0));
        if since.elapsed() > RECONNECT_TIMEOUT {
            return Err(failure);
        }
        self.failing = Some((since, tries + 1));
        let (first, longest) = PAUSES;
        let pause = pauses(first, longest).nth(tries).unwrap_or(longest);
        tokio::time::sleep(pause).await;
        Ok(())
    }
}
