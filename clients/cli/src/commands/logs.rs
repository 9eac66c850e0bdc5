//! `logs`: what a VM prints on its serial console, live and after it is gone.
use std::io::{IsTerminal as _, Write as _, stdout};

use gpuaas_proto::gpuaas::allocation::v1::read_serial_log_response::Event;
use gpuaas_proto::gpuaas::allocation::v1::{ReadSerialLogRequest, SerialLogPart};
use gpuaas_serial_text::PlainText;
use jiff::{SignedDuration, Timestamp};

use super::launch::parse_length;
use crate::allocation::AllocationRef;
use crate::failure::Failure;
use crate::output::{Moment as _, print_message, stamp, written};
use crate::session::Session;
use crate::watch::Watch;

#[derive(Debug, clap::Args)]
pub struct Flags {
    #[command(flatten)]
    of: AllocationRef,
    /// Continue with new output, until the VM is deleted.
    #[arg(long, short)]
    follow: bool,
    /// Only output of the last duration, such as 10m, 2h or 3d.
    #[arg(long, value_name = "LENGTH", value_parser = parse_length)]
    since: Option<SignedDuration>,
    /// Only the last LINES lines.
    #[arg(long, value_name = "LINES", value_parser = clap::value_parser!(u32).range(..=100_000))]
    tail: Option<u32>,
    /// Print the time before each line, accurate to about a second.
    #[arg(long, short)]
    timestamps: bool,
}

/// Runs it.
///
/// # Errors
/// See [`Failure`].
pub async fn run(session: &Session, flags: &Flags) -> Result<(), Failure> {
    let id = flags.of.id(&session.api).await?;
    let since = flags.since.map(since).transpose()?;
    let request = ReadSerialLogRequest {
        allocation_id: id,
        follow: flags.follow,
        since_time: since.map(stamp),
        tail_lines: flags.tail,
        ..ReadSerialLogRequest::default()
    };
    let mut watch = Watch::new(&session.api, request);
    let mut shown = Shown {
        is_plain: stdout().is_terminal(),
        has_times: flags.timestamps,
        is_in_line: false,
        next: None,
        text: PlainText::default(),
    };
    loop {
        let next = watch.next().await?;
        if session.whole() {
            print_message(&next.json);
        } else if let Some(Event::Part(part)) = &next.message.event {
            write(&shown.part(part));
        }
        if matches!(next.message.event, Some(Event::End(_))) {
            if shown.is_in_line {
                write(b"\n");
            }
            return Ok(());
        }
    }
}

fn since(length: SignedDuration) -> Result<Timestamp, Failure> {
    let wrong = || Failure::Usage("--since is a length such as 10m, not a negative one".to_owned());
    if length.is_negative() {
        return Err(wrong());
    }
    Timestamp::now().checked_sub(length).map_err(|_| wrong())
}

/// Writes to standard output, as [`crate::output::answer`] does with lines.
fn write(text: &[u8]) {
    let mut out = stdout().lock();
    written(out.write_all(text).and_then(|()| out.flush()));
}

/// What was shown so far.
struct Shown {
    /// On a terminal a VM controls nothing but lines and tabs.
    is_plain: bool,
    has_times: bool,
    /// The last line has not ended.
    is_in_line: bool,
    /// Offset of what comes next without a gap.
    next: Option<u64>,
    text: PlainText,
}

impl Shown {
    /// A part as it is shown.
    fn part(&mut self, part: &SerialLogPart) -> Vec<u8> {
        let (data, offset) = (&part.data, part.offset);
        let mut text = Vec::with_capacity(data.len());
        if self.next.is_some_and(|next| next < offset) {
            note!("A part of the log is missing: it is no longer retained.");
            self.text.skip();
        }
        self.next = Some(offset + data.len() as u64);
        let time = part.print_time.moment();
        let time = time.map(|at| at.to_string()).unwrap_or_default();
        let data = match self.is_plain {
            true => self.text.of(data).into_bytes(),
            false => data.clone(),
        };
        for byte in data {
            if self.has_times && !self.is_in_line {
                text.extend_from_slice(time.as_bytes());
                text.push(b' ');
            }
            self.is_in_line = byte != b'\n';
            text.push(byte);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(offset: u64, data: impl AsRef<[u8]>) -> SerialLogPart {
        let at = "2026-01-31T12:00:00Z".parse().expect("a time");
        SerialLogPart {
            offset,
            print_time: Some(stamp(at)),
            data: data.as_ref().to_vec(),
        }
    }

    #[test]
    fn a_vm_controls_no_terminal() {
        let mut shown = Shown {
            is_plain: true,
            has_times: false,
            is_in_line: false,
            next: None,
            text: PlainText::default(),
        };
        let text = shown.part(&part(0, "a\r\n\u{1b}]0;title\u{7}\tb"));
        assert_eq!(text, b"a\n]0;title\tb");
        // those of eight bits, as letters and as bytes; a letter that is cut is whole again
        let text = shown.part(&part(0, b"c\xc2\x9b31m\x9b31m\xc3"));
        assert_eq!(text, "c31m\u{fffd}31m".as_bytes());
        let text = shown.part(&part(0, b"\xbc"));
        assert_eq!(text, "ü".as_bytes());
        let mut raw = Shown {
            is_plain: false,
            ..shown
        };
        let text = raw.part(&part(0, "\u{1b}[1m"));
        assert_eq!(text, b"\x1b[1m");
    }

    #[test]
    fn every_line_has_its_time_wherever_parts_are_cut() {
        let mut shown = Shown {
            is_plain: false,
            has_times: true,
            is_in_line: false,
            next: None,
            text: PlainText::default(),
        };
        let mut text = shown.part(&part(0, "one\ntw"));
        text.extend(shown.part(&part(6, "o\n")));
        let text = String::from_utf8(text).expect("text");
        assert_eq!(text, "2026-01-31T12:00:00Z one\n2026-01-31T12:00:00Z two\n");
    }
}
