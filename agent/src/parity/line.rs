//! The one line per condition that programs read (I-08..I-12).
use std::fmt::{self, Display, Formatter};

use gpuaas_proto::gpuaas::common::v1::EvidenceStatus;

/// What every line begins with.
pub const PREFIX: &str = "GPUAAS_SLICE_PARITY";

/// Outcome of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    Pass,
    Fail,
    /// Not counted as a failure (I-22).
    Warn,
}

impl Status {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pass => "PASS",
            Self::Fail => "FAIL",
            Self::Warn => "WARN",
        }
    }

    /// That of a readiness check; `None` when it was skipped, since it is no condition of this host then.
    pub fn of(status: EvidenceStatus) -> Option<Self> {
        match status {
            EvidenceStatus::Pass => Some(Self::Pass),
            EvidenceStatus::Warn => Some(Self::Warn),
            EvidenceStatus::Skip => None,
            EvidenceStatus::Fail | EvidenceStatus::Unspecified => Some(Self::Fail),
        }
    }
}

/// How many conditions failed.
pub fn failures(lines: &[Line]) -> usize {
    let failed = lines.iter().filter(|line| line.status == Status::Fail);
    failed.count()
}

/// The last line (I-21).
pub fn summary(lines: &[Line]) -> String {
    let count = |status| lines.iter().filter(|line| line.status == status).count();
    format!(
        "{PREFIX} summary checks={} warnings={} failures={}",
        lines.len(),
        count(Status::Warn),
        failures(lines)
    )
}

/// A condition and its outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    pub status: Status,
    pub check: String,
    pub detail: String,
    /// What to do; shown unless it passed.
    pub remediation: String,
}

impl Line {
    pub fn new(status: Status, check: &str, detail: impl Into<String>, remediation: &str) -> Self {
        Self {
            status,
            check: check.to_owned(),
            detail: detail.into(),
            remediation: remediation.to_owned(),
        }
    }

    /// Reads a line that another run printed; `None` when it is none.
    pub fn parse(text: &str) -> Option<Self> {
        let mut fields = words(text.strip_prefix(PREFIX)?.strip_prefix(' ')?);
        let mut field = |name: &str| {
            let value = fields.next()?;
            value
                .strip_prefix(name)?
                .strip_prefix('=')
                .map(str::to_owned)
        };
        let status = match field("status")?.as_str() {
            "PASS" => Status::Pass,
            "FAIL" => Status::Fail,
            "WARN" => Status::Warn,
            _ => return None,
        };
        Some(Self {
            status,
            check: field("check")?,
            detail: field("detail")?,
            remediation: field("remediation").unwrap_or_default(),
        })
    }
}

impl Display for Line {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{PREFIX} status={} check={} detail={}",
            self.status.as_str(),
            escape(&self.check),
            escape(&self.detail)
        )?;
        if self.status != Status::Pass && !self.remediation.is_empty() {
            write!(f, " remediation={}", escape(&self.remediation))?;
        }
        Ok(())
    }
}

/// A value as a shell reads it back as one word, with backslashes (I-11). Control characters become spaces, so that a
/// line stays one line.
pub fn escape(value: &str) -> String {
    if value.is_empty() {
        return "''".into();
    }
    let mut escaped = String::with_capacity(value.len());
    for one in value.chars() {
        let one = if one.is_control() { ' ' } else { one };
        let plain = one.is_alphanumeric() || "/._-+=:,@%".contains(one);
        if !plain {
            escaped.push('\\');
        }
        escaped.push(one);
    }
    escaped
}

/// The words of an escaped line, unescaped.
fn words(text: &str) -> std::vec::IntoIter<String> {
    let mut words = vec![String::new()];
    let mut rest = text.trim_end().chars();
    while let Some(one) = rest.next() {
        let word = words.last_mut().expect("one at least");
        match one {
            ' ' => words.push(String::new()),
            '\\' => word.extend(rest.next()),
            '\'' => {}
            one => word.push(one),
        }
    }
    words.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn i_08_i_11_lines_are_those_of_the_runbook() {
        let passed = Line::new(Status::Pass, "node_agent", "active/running", "never shown");
        assert_eq!(
            passed.to_string(),
            "GPUAAS_SLICE_PARITY status=PASS check=node_agent detail=active/running"
        );
        let failed = Line::new(
            Status::Fail,
            "ipoib_netplan",
            "command exited with 1",
            "render /etc/netplan/60-ipoib.yaml from site/profile bootstrap",
        );
        assert_eq!(
            failed.to_string(),
            r"GPUAAS_SLICE_PARITY status=FAIL check=ipoib_netplan detail=command\ exited\ with\ 1 remediation=render\ /etc/netplan/60-ipoib.yaml\ from\ site/profile\ bootstrap"
        );
    }

    #[test]
    fn i_11_a_shell_reads_back_what_was_escaped() {
        for value in [
            "plain",
            "two words",
            "it's \"so\" \\ $HOME `id` $(id) !x",
            "a;b|c&d<e>f(g)*?[h]{i}~#",
            "",
            "größer",
        ] {
            let read = std::process::Command::new("sh")
                .args(["-c", &format!("printf %s {}", escape(value))])
                .output()
                .expect("a shell");
            assert_eq!(
                String::from_utf8_lossy(&read.stdout),
                value,
                "{}",
                escape(value)
            );
            let line = Line::new(Status::Warn, "a_check", value, value);
            assert_eq!(Line::parse(&line.to_string()), Some(line));
        }
        assert_eq!(escape("two\nlines\u{1b}[31m"), r"two\ lines\ \[31m");
    }

    #[test]
    fn i_12_a_line_of_another_kind_is_none() {
        for text in [
            "",
            "GPUAAS_SLICE_PARITY",
            "GPUAAS_SLICE_PARITY failures=0",
            "GPUAAS_SLICE_PARITY status=MAYBE check=a detail=b",
            "GPUAAS_SLICE_PARITY check=a status=PASS detail=b",
            "Last login: today",
        ] {
            assert_eq!(Line::parse(text), None, "{text}");
        }
    }
}
