//! Digests of host reports: two that differ in the time alone have the same.
//!
//! Whatever differs in every report by itself (a time, an uptime) must be left out by [`timeless`]: else no report ever has the digest
//! of the one before, and each is taken in full.
//!
//! A check that was made for the report has the report's time; one that the host made earlier and repeats has its own,
//! which is part of the digest.
use gpuaas_proto::gpuaas::agent::v1::ReadinessReport;
use gpuaas_proto::gpuaas::internal::inventory::v1::HeartbeatRequest;
use prost::Message as _;
use prost_types::Timestamp;
use sha2::{Digest as _, Sha256};

/// The report without the time at which it was made.
#[must_use]
pub fn timeless(report: &ReadinessReport) -> ReadinessReport {
    let mut report = report.clone();
    let made = report.observed_time.take();
    report.observed_uptime = None;
    for evidence in &mut report.evidence {
        if evidence.observed_at == made {
            evidence.observed_at = None;
        }
    }
    report
}

/// The report as of the last time that the host repeated it.
#[must_use]
pub fn observed(mut report: ReadinessReport, at: Option<Timestamp>) -> ReadinessReport {
    report.observed_time = at.or(report.observed_time);
    for evidence in &mut report.evidence {
        evidence.observed_at = evidence.observed_at.or(report.observed_time);
    }
    report
}

/// SHA-256 of everything in a heartbeat except the time; `None` for one without a report.
#[must_use]
pub fn digest(request: &HeartbeatRequest) -> Option<[u8; 32]> {
    let report = request.readiness.as_ref()?;
    let timeless = HeartbeatRequest {
        readiness: Some(timeless(report)),
        ..request.clone()
    };
    Some(Sha256::digest(timeless.encode_to_vec()).into())
}

#[cfg(test)]
mod tests {
    use gpuaas_proto::gpuaas::common::v1::{Evidence, EvidenceStatus};

    use super::*;

    fn at(seconds: i64) -> Option<Timestamp> {
        Some(Timestamp { seconds, nanos: 7 })
    }

    fn heartbeat(seconds: i64) -> HeartbeatRequest {
        let check = |check: &str, observed_at| Evidence {
            check: check.into(),
            status: EvidenceStatus::Pass.into(),
            detail: "well".into(),
            observed_at,
            ..Evidence::default()
        };
        HeartbeatRequest {
            boot_id: "b".into(),
            agent_version: "1".into(),
            agent_address: "h:1".into(),
            readiness: Some(ReadinessReport {
                evidence: vec![check("kvm", at(seconds)), check("nat", at(3))],
                hugepages_1g_free: 5,
                observed_time: at(seconds),
                observed_uptime: Some(prost_types::Duration { seconds, nanos: 0 }),
                ..ReadinessReport::default()
            }),
            ..HeartbeatRequest::default()
        }
    }

    #[test]
    fn the_time_of_a_report_is_no_difference_and_everything_else_is() {
        let known = digest(&heartbeat(10));
        assert_eq!(known, digest(&heartbeat(20)));
        let changes: [fn(&mut HeartbeatRequest); 8] = [
            |heartbeat| heartbeat.boot_id = "other".into(),
            |heartbeat| heartbeat.agent_version = "2".into(),
            |heartbeat| heartbeat.agent_address = "h:2".into(),
            |heartbeat| report(heartbeat).hugepages_1g_free = 4,
            |heartbeat| report(heartbeat).blockers.push("kvm".into()),
            |heartbeat| report(heartbeat).evidence[0].detail = "ill".into(),
            |heartbeat| report(heartbeat).evidence[0].set_status(EvidenceStatus::Fail),
            // made again, not repeated
            |heartbeat| report(heartbeat).evidence[1].observed_at = at(4),
        ];
        for (number, change) in changes.iter().enumerate() {
            let mut other = heartbeat(20);
            change(&mut other);
            assert_ne!(known, digest(&other), "change {number}");
        }
        let silent = HeartbeatRequest::default();
        assert_eq!(digest(&silent), None);
    }

    fn report(heartbeat: &mut HeartbeatRequest) -> &mut ReadinessReport {
        heartbeat.readiness.as_mut().expect("a report")
    }

    #[test]
    fn a_stored_report_is_shown_as_of_its_last_repetition() {
        let made = heartbeat(10).readiness.expect("a report");
        let shown = observed(timeless(&made), at(30));
        assert_eq!(shown.observed_time, at(30));
        let times: Vec<_> = shown.evidence.iter().map(|one| one.observed_at).collect();
        assert_eq!(times, [at(30), at(3)]);
        let made = ReadinessReport {
            observed_uptime: None,
            ..made
        };
        assert_eq!(observed(timeless(&made), at(10)), made);
    }
}
