//! The finding of one check.
use gpuaas_proto::gpuaas::common::v1::EvidenceStatus;

/// Outcome of one check before it gets its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Name.
    pub check: &'static str,
    /// Outcome.
    pub status: EvidenceStatus,
    /// The observation.
    pub detail: String,
    /// What to do.
    pub remediation: &'static str,
}

impl Finding {
    pub(super) fn pass(check: &'static str, detail: impl Into<String>) -> Self {
        Self {
            check,
            status: EvidenceStatus::Pass,
            detail: detail.into(),
            remediation: "",
        }
    }

    pub(super) fn skip(check: &'static str, detail: impl Into<String>) -> Self {
        Self {
            check,
            status: EvidenceStatus::Skip,
            detail: detail.into(),
            remediation: "",
        }
    }

    pub(super) fn warn(
        check: &'static str,
        detail: impl Into<String>,
        remediation: &'static str,
    ) -> Self {
        Self {
            check,
            status: EvidenceStatus::Warn,
            detail: detail.into(),
            remediation,
        }
    }

    pub(super) fn judge(
        check: &'static str,
        good: bool,
        detail: impl Into<String>,
        remediation: &'static str,
    ) -> Self {
        let status = if good {
            EvidenceStatus::Pass
        } else {
            EvidenceStatus::Fail
        };
        Self {
            check,
            status,
            detail: detail.into(),
            remediation: if good { "" } else { remediation },
        }
    }
}

/// The checks that failed.
#[cfg(test)]
pub(super) fn failed(findings: &[Finding]) -> Vec<&str> {
    findings
        .iter()
        .filter(|f| f.status == EvidenceStatus::Fail)
        .map(|f| f.check)
        .collect()
}
