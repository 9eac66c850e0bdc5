//! The result of one check, and what it means for a kind of host.
use gpuaas_proto::gpuaas::common::v1::{CheckSeverity, Evidence, EvidenceStatus};

use crate::checks::{Check, HostKind, Scope, Severity};

/// Longest detail that is reported, in bytes.
const MAX_DETAIL: usize = 4000;

/// Outcome of one check, before it is judged for a kind of host and gets its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckResult {
    pub check: &'static Check,
    /// Outcome as if the check were hard.
    pub status: EvidenceStatus,
    /// The observation.
    pub detail: String,
    /// What to do.
    pub remediation: &'static str,
    /// The devices that alone are at fault; empty: the host.
    pub devices: Vec<String>,
}

impl CheckResult {
    fn new(check: &'static Check, status: EvidenceStatus, detail: impl Into<String>) -> Self {
        let bad = matches!(status, EvidenceStatus::Fail | EvidenceStatus::Warn);
        Self {
            check,
            status,
            detail: detail.into(),
            remediation: if bad { check.remedy } else { "" },
            devices: Vec::new(),
        }
    }

    pub(super) fn pass(check: &'static Check, detail: impl Into<String>) -> Self {
        Self::new(check, EvidenceStatus::Pass, detail)
    }

    /// Of what this host does not have, by its settings.
    pub(super) fn skip(check: &'static Check, detail: impl Into<String>) -> Self {
        Self::new(check, EvidenceStatus::Skip, detail)
    }

    /// Of something that is not as it should be and does no harm yet.
    pub(super) fn warn(check: &'static Check, detail: impl Into<String>) -> Self {
        Self::new(check, EvidenceStatus::Warn, detail)
    }

    pub(super) fn judge(check: &'static Check, good: bool, detail: impl Into<String>) -> Self {
        let status = if good {
            EvidenceStatus::Pass
        } else {
            EvidenceStatus::Fail
        };
        Self::new(check, status, detail)
    }

    /// Of a check whose scope is the slots: `bad` are devices with what is wrong with each, `good` is said when there are
    /// none.
    pub(super) fn of_devices(
        check: &'static Check,
        bad: Vec<(String, String)>,
        good: impl Into<String>,
    ) -> Self {
        if bad.is_empty() {
            return Self::pass(check, good);
        }
        let details: Vec<String> = bad
            .iter()
            .map(|(device, what)| format!("{device} {what}"))
            .collect();
        let mut result = Self::judge(check, false, details.join("; "));
        result.devices = bad.into_iter().map(|(device, _)| device).collect();
        result.devices.dedup();
        result
    }

    /// With another advice than the check's own.
    pub(super) fn advise(mut self, remediation: &'static str) -> Self {
        if !self.remediation.is_empty() {
            self.remediation = remediation;
        }
        self
    }

    /// As evidence of a kind of host, observed now.
    pub(super) fn evidence(self, kind: HostKind, now: prost_types::Timestamp) -> Evidence {
        let severity = self.check.severity(kind);
        let (status, detail) = judged(self.status, self.detail, severity, kind);
        let bad = matches!(status, EvidenceStatus::Fail | EvidenceStatus::Warn);
        Evidence {
            check: self.check.id.to_owned(),
            status: status.into(),
            detail: clip(&detail),
            remediation: if bad { self.remediation } else { "" }.to_owned(),
            observed_at: Some(now),
            severity: severity
                .map_or(CheckSeverity::Unspecified, Into::into)
                .into(),
            devices: if bad { self.devices } else { Vec::new() },
        }
    }
}

/// At most as much as inventory takes in.
fn clip(text: &str) -> String {
    let end = text.floor_char_boundary(MAX_DETAIL);
    text[..end].replace(char::is_control, " ")
}

/// What an outcome means where the check has this severity. A pure function.
fn judged(
    status: EvidenceStatus,
    detail: String,
    severity: Option<Severity>,
    kind: HostKind,
) -> (EvidenceStatus, String) {
    use EvidenceStatus::{Fail, Pass, Skip, Warn};
    match (severity, status) {
        (None, _) => {
            let detail = if status == Skip {
                detail
            } else {
                format!("nothing to a {}: {detail}", kind.as_str())
            };
            (Skip, detail)
        }
        (Some(Severity::Info), Fail | Warn) => (Pass, detail),
        (Some(Severity::Warn), Fail) => (Warn, detail),
        _ => (status, detail),
    }
}

/// Whether evidence takes the whole host out of service.
pub(super) fn blocks_host(evidence: &Evidence) -> bool {
    evidence.status() == EvidenceStatus::Fail && evidence.devices.is_empty()
}

/// Whether evidence fails without naming the devices that it must name.
pub(super) fn names_its_devices(result: &CheckResult) -> bool {
    result.check.scope == Scope::Host
        || result.status != EvidenceStatus::Fail
        || !result.devices.is_empty()
}

/// The checks that failed.
#[cfg(test)]
pub(super) fn failed(results: &[CheckResult]) -> Vec<&str> {
    results
        .iter()
        .filter(|f| f.status == EvidenceStatus::Fail)
        .map(|f| f.check.id)
        .collect()
}

#[cfg(test)]
mod tests {
    use EvidenceStatus::{Fail, Pass, Skip, Warn};

    use super::*;
    use crate::checks::{API_TOPOLOGY, GPU_SERVICES, NAT, SLOT_DISKS, TMFIFO};

    fn on(result: CheckResult, kind: HostKind) -> Evidence {
        result.evidence(kind, prost_types::Timestamp::default())
    }

    #[test]
    fn inc_07_the_same_observation_is_judged_by_what_the_host_is_for() {
        let bad = |check| CheckResult::judge(check, false, "it is not there");
        for (check, kind, status, severity) in [
            (&NAT, HostKind::Slice, Fail, CheckSeverity::Hard),
            (&NAT, HostKind::Lab, Fail, CheckSeverity::Hard),
            (&NAT, HostKind::BareMetal, Skip, CheckSeverity::Unspecified),
            (&TMFIFO, HostKind::Slice, Warn, CheckSeverity::Warn),
            (
                &GPU_SERVICES,
                HostKind::BareMetal,
                Pass,
                CheckSeverity::Info,
            ),
            (
                &API_TOPOLOGY,
                HostKind::BareMetal,
                Fail,
                CheckSeverity::Hard,
            ),
        ] {
            let evidence = on(bad(check), kind);
            assert_eq!(evidence.status(), status, "{} {kind:?}", check.id);
            assert_eq!(evidence.severity(), severity, "{} {kind:?}", check.id);
            let reported = matches!(status, Fail | Warn);
            assert_eq!(
                !evidence.remediation.is_empty(),
                reported,
                "{} {kind:?}",
                check.id
            );
            assert!(evidence.detail.ends_with("it is not there"));
        }
    }

    #[test]
    fn a_device_that_fails_does_not_block_the_host() {
        let of_slots =
            CheckResult::of_devices(&SLOT_DISKS, vec![("d1".into(), "is dead".into())], "");
        assert!(names_its_devices(&of_slots));
        let evidence = on(of_slots, HostKind::Slice);
        assert_eq!((evidence.status(), evidence.devices.len()), (Fail, 1));
        assert_eq!(evidence.detail, "d1 is dead");
        assert!(!blocks_host(&evidence));
        assert!(blocks_host(&on(
            CheckResult::judge(&NAT, false, "gone"),
            HostKind::Slice
        )));
        let good = CheckResult::of_devices(&SLOT_DISKS, Vec::new(), "2 disks");
        assert_eq!((good.status, good.detail.as_str()), (Pass, "2 disks"));
    }
}
