//! Readiness checks: what an image asks of its guest before the allocation is active, and what came of it (D-45, D-69).
//!
//! One type for the catalog that takes them, the ledger that freezes them into an allocation, and the host that runs them.
use std::time::Duration;

use gpuaas_proto::gpuaas::common::v1 as pb;
use serde::{Deserialize, Serialize};

/// Most checks of an image.
pub const MAX_CHECKS: usize = 8;
/// Name of the result that cloud-init itself gives.
pub const CLOUD_INIT: &str = "cloud-init";
/// Most bytes of the end of an output that is kept.
pub const MAX_OUTPUT_END: usize = 2048;

const MAX_NAME: usize = 32;
const MAX_COMMAND: usize = 1024;
const MAX_TEXT: usize = 128;
const MAX_LINES: u32 = 1000;
const MAX_SECONDS: u32 = 600;
const DEFAULT_SECONDS: u32 = 60;

/// A rule that a check breaks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} {rule}")]
pub struct Wrong {
    /// For example `readiness_checks[1].command`.
    pub field: String,
    /// "must be …".
    pub rule: String,
}

/// A check that keeps the rules of [`pb::ReadinessCheck`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    name: String,
    command: String,
    expected_text: String,
    min_lines: u32,
    line_per_gpu: bool,
    timeout_seconds: u32,
}

/// Reads the checks of an image.
///
/// # Errors
/// [`Wrong`], with the first field that breaks its rule.
pub fn parse(wire: &[pb::ReadinessCheck]) -> Result<Vec<Check>, Wrong> {
    let wrong = |field: String, rule: String| Err(Wrong { field, rule });
    let list = "readiness_checks";
    if wire.len() > MAX_CHECKS {
        return wrong(list.to_owned(), format!("must be at most {MAX_CHECKS}"));
    }
    let mut checks: Vec<Check> = Vec::new();
    for (index, one) in wire.iter().enumerate() {
        let check = Check::parse(one).map_err(|(field, rule)| Wrong {
            field: format!("{list}[{index}].{field}"),
            rule,
        })?;
        if checks.iter().any(|other| other.name == check.name) {
            let rule = format!("must be unique, and {:?} is there already", check.name);
            return wrong(format!("{list}[{index}].name"), rule);
        }
        checks.push(check);
    }
    let seconds: u32 = checks.iter().map(|check| check.timeout_seconds).sum();
    if seconds > MAX_SECONDS {
        let rule =
            format!("must have at most {MAX_SECONDS} timeout_seconds together, not {seconds}");
        return wrong(list.to_owned(), rule);
    }
    Ok(checks)
}

impl Check {
    fn parse(wire: &pb::ReadinessCheck) -> Result<Self, (&'static str, String)> {
        let name = &wire.name;
        let is_word = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
        if name.is_empty() || name.len() > MAX_NAME || !name.bytes().all(is_word) {
            let rule = format!("must be 1 to {MAX_NAME} lower-case letters, digits and '-'");
            return Err(("name", rule));
        }
        if name == CLOUD_INIT {
            let rule = format!("must not be {CLOUD_INIT:?}: that result comes from cloud-init");
            return Err(("name", rule));
        }
        let (command, text) = (&wire.command, &wire.expected_text);
        if command.trim().is_empty()
            || command.len() > MAX_COMMAND
            || command.contains(char::is_control)
        {
            let rule = format!("must be one line of 1 to {MAX_COMMAND} bytes");
            return Err(("command", rule));
        }
        if text.len() > MAX_TEXT || text.contains(char::is_control) {
            let rule = format!("must be at most {MAX_TEXT} bytes without control characters");
            return Err(("expected_text", rule));
        }
        if wire.min_lines > MAX_LINES {
            return Err(("min_lines", format!("must be at most {MAX_LINES}")));
        }
        if wire.line_per_gpu && wire.min_lines > 0 {
            let rule = "cannot be set together with line_per_gpu".to_owned();
            return Err(("min_lines", rule));
        }
        if wire.timeout_seconds > MAX_SECONDS {
            return Err(("timeout_seconds", format!("must be at most {MAX_SECONDS}")));
        }
        Ok(Self {
            name: name.clone(),
            command: command.clone(),
            expected_text: text.clone(),
            min_lines: wire.min_lines,
            line_per_gpu: wire.line_per_gpu,
            timeout_seconds: match wire.timeout_seconds {
                0 => DEFAULT_SECONDS,
                seconds => seconds,
            },
        })
    }

    /// Name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// One line for a shell.
    #[must_use]
    pub fn command(&self) -> &str {
        &self.command
    }

    /// How long it may take to pass.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout_seconds.into())
    }

    /// To the wire.
    #[must_use]
    pub fn to_wire(&self) -> pb::ReadinessCheck {
        pb::ReadinessCheck {
            name: self.name.clone(),
            command: self.command.clone(),
            expected_text: self.expected_text.clone(),
            min_lines: self.min_lines,
            line_per_gpu: self.line_per_gpu,
            timeout_seconds: self.timeout_seconds,
        }
    }

    /// Judges one run of the command in a VM with so many GPUs. Both verdicts are sentences.
    ///
    /// # Errors
    /// What is missing.
    pub fn judge(
        &self,
        exit_status: Option<u32>,
        output: &str,
        gpus: usize,
    ) -> Result<String, String> {
        match exit_status {
            Some(0) => {}
            Some(status) => return Err(format!("The command ended with exit status {status}.")),
            None => return Err("The command ended without an exit status.".to_owned()),
        }
        let text = &self.expected_text;
        let least = match (self.line_per_gpu, self.min_lines) {
            (true, _) => gpus,
            (false, 0) => usize::from(!text.is_empty()),
            (false, lines) => usize::try_from(lines).unwrap_or(usize::MAX),
        };
        let found = output.lines().filter(|line| line.contains(text)).count();
        let with = if text.is_empty() {
            String::new()
        } else {
            format!(" with {text:?}")
        };
        if found < least {
            return Err(format!(
                "The output has {found} {}{with}, and not {least} or more.",
                lines(found)
            ));
        }
        Ok(if least == 0 {
            "The command succeeded.".to_owned()
        } else {
            format!(
                "The command succeeded, with {found} {}{with}.",
                lines(found)
            )
        })
    }
}

fn lines(count: usize) -> &'static str {
    if count == 1 { "line" } else { "lines" }
}

/// What came of a check in one guest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// Name of the check, or [`CLOUD_INIT`].
    pub check: String,
    pub passed: bool,
    /// None: the command gave none.
    pub exit_status: Option<u32>,
    /// A sentence.
    pub message: String,
    /// Plain text of the guest, at most [`MAX_OUTPUT_END`] bytes.
    pub output_end: String,
    /// Milliseconds since 1970.
    pub at_ms: i64,
}

impl Outcome {
    /// From the wire, held to the bounds: a host is believed in what it found, not in how long it talks.
    #[must_use]
    pub fn from_wire(wire: &pb::ReadinessResult) -> Self {
        let time = wire.time.unwrap_or_default();
        Self {
            check: wire.check.chars().take(MAX_NAME).collect(),
            passed: wire.passed,
            exit_status: wire.exit_status,
            message: wire.message.chars().take(512).collect(),
            output_end: end_of(wire.output_end.as_bytes()),
            at_ms: time.seconds.saturating_mul(1000) + i64::from(time.nanos / 1_000_000),
        }
    }

    /// To the wire.
    #[must_use]
    pub fn to_wire(&self) -> pb::ReadinessResult {
        let millis = i32::try_from(self.at_ms.rem_euclid(1000)).unwrap_or_default();
        pb::ReadinessResult {
            check: self.check.clone(),
            passed: self.passed,
            exit_status: self.exit_status,
            message: self.message.clone(),
            output_end: self.output_end.clone(),
            time: Some(prost_types::Timestamp {
                seconds: self.at_ms.div_euclid(1000),
                nanos: millis * 1_000_000,
            }),
        }
    }

    /// Why it failed, in words that name it: the verdict, and below it the end of its output.
    #[must_use]
    pub fn explain(&self) -> String {
        let mut text = format!("Check {}: {}", self.check, self.message);
        if !self.output_end.is_empty() {
            text.push_str("\nIts output ended with:\n");
            text.push_str(&self.output_end);
        }
        text
    }
}

/// The end of what a guest printed, as plain text: a guest prints what it likes, so escape sequences and control characters
/// are left out.
#[must_use]
pub fn end_of(output: &[u8]) -> String {
    let text = plain(&String::from_utf8_lossy(output));
    let text = text.trim();
    let mut from = text.len().saturating_sub(MAX_OUTPUT_END);
    while !text.is_char_boundary(from) {
        from += 1;
    }
    text[from..].to_owned()
}

/// The text without escape sequences and control characters; a carriage return ends a line.
#[must_use]
pub fn plain(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\u{1b}' if characters.next_if_eq(&'[').is_some() => {
                let is_final = |character: &char| ('@'..='~').contains(character);
                characters.by_ref().find(is_final);
            }
            '\r' if characters.peek() == Some(&'\n') => {}
            '\n' | '\r' => clean.push('\n'),
            '\t' => clean.push(' '),
            other if other.is_control() => {}
            other => clean.push(other),
        }
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wire(name: &str, command: &str) -> pb::ReadinessCheck {
        pb::ReadinessCheck {
            name: name.to_owned(),
            command: command.to_owned(),
            ..pb::ReadinessCheck::default()
        }
    }

    #[test]
    fn d_69_a_check_that_breaks_a_rule_is_refused_with_field_and_rule() {
        let with = |change: &dyn Fn(&mut pb::ReadinessCheck)| {
            let mut check = wire("gpu", "nvidia-smi");
            change(&mut check);
            vec![wire("first", "true"), check]
        };
        let table = [
            (with(&|c| c.name = String::new()), "[1].name"),
            (with(&|c| c.name = "x".repeat(33)), "[1].name"),
            (with(&|c| c.name = "GPU".into()), "[1].name"),
            (with(&|c| c.name = "first".into()), "[1].name"),
            (with(&|c| c.name = CLOUD_INIT.into()), "[1].name"),
            (with(&|c| c.command = " ".into()), "[1].command"),
            (with(&|c| c.command = "a\nb".into()), "[1].command"),
            (with(&|c| c.command = "x".repeat(1025)), "[1].command"),
            (
                with(&|c| c.expected_text = "\u{1b}".into()),
                "[1].expected_text",
            ),
            (
                with(&|c| c.expected_text = "x".repeat(129)),
                "[1].expected_text",
            ),
            (with(&|c| c.min_lines = 1001), "[1].min_lines"),
            (
                with(&|c| (c.min_lines, c.line_per_gpu) = (1, true)),
                "[1].min_lines",
            ),
            (with(&|c| c.timeout_seconds = 601), "[1].timeout_seconds"),
            // 60 of the first are the default
            (with(&|c| c.timeout_seconds = 541), ""),
            (
                (0..9)
                    .map(|n| wire(&format!("check-{n}"), "true"))
                    .collect(),
                "",
            ),
        ];
        for (checks, field) in table {
            let wrong = parse(&checks).expect_err(field);
            assert_eq!(wrong.field, format!("readiness_checks{field}"));
            assert!(wrong.rule.starts_with("must ") || wrong.rule.starts_with("cannot "));
        }
        let good = parse(&with(&|c| c.timeout_seconds = 540)).unwrap();
        assert_eq!(good[0].timeout(), Duration::from_secs(60));
        assert_eq!(
            parse(&[good[0].to_wire(), good[1].to_wire()]),
            Ok(good),
            "what is stored is what is read"
        );
    }

    #[test]
    fn d_45_a_check_passes_with_exit_status_zero_and_the_lines_that_it_names() {
        let smi = "GPU 0: NVIDIA H200 (UUID: a)\nGPU 1: NVIDIA H200 (UUID: b)\n";
        let check = |text: &str, min_lines, line_per_gpu| {
            let wire = pb::ReadinessCheck {
                expected_text: text.to_owned(),
                min_lines,
                line_per_gpu,
                ..wire("gpu", "nvidia-smi -L")
            };
            parse(&[wire]).unwrap().remove(0)
        };
        for (check, gpus, passes) in [
            (check("", 0, false), 1, true),
            (check("NVIDIA H200", 0, false), 4, true),
            (check("NVIDIA B200", 0, false), 1, false),
            (check("NVIDIA H200", 2, false), 1, true),
            (check("NVIDIA H200", 3, false), 1, false),
            (check("NVIDIA H200", 0, true), 2, true),
            (check("NVIDIA H200", 0, true), 4, false),
            (check("", 0, true), 2, true),
        ] {
            let verdict = check.judge(Some(0), smi, gpus);
            assert_eq!(verdict.is_ok(), passes, "{check:?}: {verdict:?}");
            assert!(check.judge(Some(9), smi, gpus).is_err());
            assert!(check.judge(None, smi, gpus).is_err());
        }
        assert_eq!(
            check("NVIDIA H200", 0, true).judge(Some(0), smi, 4),
            Err("The output has 2 lines with \"NVIDIA H200\", and not 4 or more.".to_owned())
        );
    }

    #[test]
    fn what_a_guest_prints_is_kept_as_plain_text_of_a_bounded_length() {
        assert_eq!(
            end_of(b"\x1b[1;31mno\tdevice\x07\x1b[0m\r\nend\r\n"),
            "no device\nend"
        );
        let long = end_of("é".repeat(5000).as_bytes());
        assert!(long.len() <= MAX_OUTPUT_END && long.chars().all(|one| one == 'é'));
        assert_eq!(end_of(&[0xff, b'a', 0]), "\u{fffd}a");
        let outcome = Outcome {
            check: "gpu".to_owned(),
            passed: false,
            exit_status: Some(127),
            message: "The command ended with exit status 127.".to_owned(),
            output_end: "nvidia-smi: not found".to_owned(),
            at_ms: 1_700_000_000_123,
        };
        assert_eq!(Outcome::from_wire(&outcome.to_wire()), outcome);
        let flood = pb::ReadinessResult {
            output_end: "\u{1b}[2Jx\n".repeat(9000),
            message: "m".repeat(9000),
            ..outcome.to_wire()
        };
        let kept = Outcome::from_wire(&flood);
        assert!(kept.output_end.len() <= MAX_OUTPUT_END && !kept.output_end.contains('\u{1b}'));
        assert_eq!(kept.message.len(), 512);
    }
}
