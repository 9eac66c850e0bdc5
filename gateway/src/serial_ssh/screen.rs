//! Shows a serial log on a channel: text alone, as fast as the reader takes it, until one side ends it.
use std::time::Duration;

use gpuaas_common::CancellationToken;
use gpuaas_proto::gpuaas::allocation::v1 as pb;
use gpuaas_proto::gpuaas::allocation::v1::read_serial_log_response::Event;
use gpuaas_serial_text::PlainText;
use prost::Message as _;
use russh::ChannelWriteHalf;
use russh::server::Msg;

use super::sign_in::told;
use crate::error::ApiError;
use crate::streams::{Ended, Subscription};
use crate::upstream::Encoded;

/// Longest time in which a reader takes why it ends.
pub const GOODBYE: Duration = Duration::from_secs(2);
/// Standard error of a channel.
const STDERR: u32 = 1;

/// A channel that shows a log.
pub struct Screen {
    channel: ChannelWriteHalf<Msg>,
    /// A terminal in raw mode, which needs a carriage return for each line.
    is_terminal: bool,
    text: PlainText,
    /// The last line that was shown has not ended.
    needs_newline: bool,
    /// Offset of what comes next without a gap.
    next: Option<u64>,
}

/// How a log ended: the exit status and what the reader is told; nothing for who has left.
type End = (u32, Option<String>);

impl Screen {
    /// Shows what is sent to it on this channel.
    pub fn new(channel: ChannelWriteHalf<Msg>, is_terminal: bool) -> Self {
        Self {
            channel,
            is_terminal,
            text: PlainText::default(),
            needs_newline: false,
            next: None,
        }
    }

    /// Shows a log until it ends, or `quit`; or says why there is none.
    pub async fn run(mut self, log: Result<Subscription, ApiError>, quit: &CancellationToken) {
        let (status, message) = match log {
            Ok(mut log) => self.show(&mut log, quit).await,
            Err(error) => (1, Some(told(&error).to_owned())),
        };
        self.end(status, message).await;
    }

    /// Says one thing, and ends with this status.
    pub async fn end(&mut self, status: u32, message: Option<String>) {
        let goodbye = async {
            if let Some(message) = message {
                self.say(&message).await?;
            }
            self.channel.exit_status(status).await?;
            self.channel.eof().await?;
            self.channel.close().await
        };
        // who takes nothing is not told
        let _ = tokio::time::timeout(GOODBYE, goodbye).await;
    }

    async fn show(&mut self, log: &mut Subscription, quit: &CancellationToken) -> End {
        if self.is_terminal {
            let hint = "Serial log, to read only. Press Ctrl-C to leave.";
            // a reader that has gone is seen at the next part
            let _ = tokio::time::timeout(GOODBYE, self.say(hint)).await;
        }
        loop {
            let next = tokio::select! {
                biased;
                () = quit.cancelled() => return (0, None),
                next = log.next() => next,
            };
            let event = match next.map(|message| message.map(event)) {
                None => return self.ended(log, &Ended::Failed(ApiError::unavailable())),
                Some(Err(ended)) => return self.ended(log, &ended),
                Some(Ok(None)) => return self.ended(log, &Ended::Failed(ApiError::internal())),
                Some(Ok(Some(event))) => event,
            };
            let part = match event {
                Event::Part(part) => part,
                Event::End(_) => {
                    return (
                        0,
                        Some("The VM is gone. This is the end of its serial log.".to_owned()),
                    );
                }
                Event::Synced(_) | Event::Heartbeat(_) => continue,
            };
            let written = tokio::select! {
                biased;
                () = quit.cancelled() => return (0, None),
                ended = log.interrupted() => return self.ended(log, &ended),
                written = self.part(&part) => written,
            };
            if written.is_err() {
                return (0, None);
            }
        }
    }

    fn ended(&self, log: &Subscription, ended: &Ended) -> End {
        let (reason, message) = match ended {
            Ended::Restarting => (
                "restarting",
                "The gateway restarts. Connect again in a moment.",
            ),
            Ended::Expired => (
                "expired",
                "You were connected for very long. Connect again.",
            ),
            Ended::LostAccess => (
                "lost_access",
                "Your access has changed. Connect again to see what you still may.",
            ),
            Ended::Failed(error) => (error.reason(), told(error)),
        };
        log.note_end(reason);
        (1, Some(message.to_owned()))
    }

    async fn part(&mut self, part: &pb::SerialLogPart) -> Result<(), russh::Error> {
        if self.next.is_some_and(|next| next < part.offset) {
            self.text.skip();
            self.say("A part of the log is missing: it is no longer retained.")
                .await?;
        }
        self.next = Some(part.offset + part.data.len() as u64);
        let text = self.text.of(&part.data);
        if let Some(last) = text.chars().last() {
            self.needs_newline = last != '\n';
        }
        let text = self.lines(text);
        self.channel.data_bytes(text.into_bytes()).await
    }

    /// Says something that is not of the log, on a line of its own.
    async fn say(&mut self, message: &str) -> Result<(), russh::Error> {
        let start = if self.needs_newline { "\n" } else { "" };
        self.needs_newline = false;
        let text = self.lines(format!("{start}{message}\n"));
        let text = text.into_bytes();
        self.channel.extended_data_bytes(STDERR, text).await
    }

    fn lines(&self, text: String) -> String {
        match self.is_terminal {
            true => text.replace('\n', "\r\n"),
            false => text,
        }
    }
}

/// What a message says; nothing when it is none of a serial log.
fn event(message: Encoded) -> Option<Event> {
    let message = pb::ReadSerialLogResponse::decode(message.bytes).ok()?;
    message.event
}
