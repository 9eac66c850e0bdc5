//! Whether a host is schedulable, decided from its current evidence only.
//!
//! Enrolled and ready are two gates: an enrolled host is schedulable only while its current instance
//! reports, its evidence is fresh (INC-04) and no check fails.

use std::collections::BTreeSet;

use gpuaas_proto::gpuaas::agent::v1::{DeviceFault, HostDevices, ReadinessReport};
use gpuaas_proto::gpuaas::common::v1::EvidenceStatus;

/// Blocker: no agent has enrolled.
pub const NOT_ENROLLED: &str = "not_enrolled";
/// Blocker: reports have stopped.
pub const HOST_LOST: &str = "host_lost";
/// Blocker: the current instance has not reported how it is.
pub const NO_EVIDENCE: &str = "no_evidence";
/// Blocker: the last inspection of the host is too old to count.
pub const EVIDENCE_STALE: &str = "evidence_stale";
/// Blocker: a slot's devices are not as approved (D-80).
pub const DEVICE_DRIFT: &str = "device_drift";

/// The observations of a host at one moment.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// An agent has enrolled.
    pub enrolled: bool,
    /// The last heartbeat of the current instance is recent.
    pub heartbeat_fresh: bool,
    /// Latest report, if the current instance made it.
    pub evidence: Option<EvidenceFacts<'a>>,
}

/// The latest report of the current instance.
#[derive(Debug, Clone, Copy)]
pub struct EvidenceFacts<'a> {
    /// It is recent.
    pub fresh: bool,
    /// At least one check ran.
    pub any_check: bool,
    /// Names of checks that failed.
    pub failed_checks: &'a [String],
    /// Devices of approved slots have changed.
    pub drifted: bool,
}

/// Health of the host; no slot of it is healthier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostHealth {
    /// Nothing is wrong.
    Healthy,
    /// There is no current knowledge.
    Unknown,
    /// A check fails.
    Degraded,
}

/// The decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Readiness {
    /// Why the host is not schedulable; empty when it is. Sorted, without repetition.
    pub blockers: Vec<String>,
    /// Health of the host.
    pub health: HostHealth,
}

impl Readiness {
    /// Nothing blocks.
    #[must_use]
    pub fn schedulable(&self) -> bool {
        self.blockers.is_empty()
    }
}

/// Decides whether a host is schedulable.
#[must_use]
pub fn assess(facts: Facts<'_>) -> Readiness {
    let unknown = |blocker: &str| Readiness {
        blockers: vec![blocker.to_owned()],
        health: HostHealth::Unknown,
    };
    if !facts.enrolled {
        return unknown(NOT_ENROLLED);
    }
    if !facts.heartbeat_fresh {
        return unknown(HOST_LOST);
    }
    let Some(evidence) = facts.evidence.filter(|evidence| evidence.any_check) else {
        return unknown(NO_EVIDENCE);
    };
    if !evidence.fresh {
        return unknown(EVIDENCE_STALE);
    }
    let mut blockers = evidence.failed_checks.to_vec();
    if evidence.drifted {
        blockers.push(DEVICE_DRIFT.to_owned());
    }
    blockers.sort_unstable();
    blockers.dedup();
    let health = if blockers.is_empty() {
        HostHealth::Healthy
    } else {
        HostHealth::Degraded
    };
    Readiness { blockers, health }
}

/// What a host has, with the devices that its checks find at fault: their slots alone are not offered (D-80).
#[must_use]
pub fn devices_of(report: &ReadinessReport) -> Option<HostDevices> {
    let mut devices = report.devices.clone()?;
    let failed = report
        .evidence
        .iter()
        .filter(|one| one.status() == EvidenceStatus::Fail);
    let faults: BTreeSet<(&str, &str)> = failed
        .flat_map(|one| {
            let named = one.devices.iter();
            named.map(|device| (device.as_str(), one.check.as_str()))
        })
        .collect();
    let fault = |(device, check): (&str, &str)| DeviceFault {
        device: device.to_owned(),
        check: check.to_owned(),
    };
    devices.faults = faults.into_iter().map(fault).collect();
    Some(devices)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: EvidenceFacts<'static> = EvidenceFacts {
        fresh: true,
        any_check: true,
        failed_checks: &[],
        drifted: false,
    };

    fn with(evidence: Option<EvidenceFacts<'_>>) -> Readiness {
        assess(Facts {
            enrolled: true,
            heartbeat_fresh: true,
            evidence,
        })
    }

    #[test]
    fn a_11_enrolled_is_not_ready() {
        assert_eq!(with(None).blockers, [NO_EVIDENCE]);
        let empty = EvidenceFacts {
            any_check: false,
            ..GOOD
        };
        assert_eq!(with(Some(empty)).blockers, [NO_EVIDENCE]);
    }

    #[test]
    fn a_12_both_gates_must_pass() {
        assert!(with(Some(GOOD)).schedulable());
        let not_enrolled = assess(Facts {
            enrolled: false,
            heartbeat_fresh: true,
            evidence: Some(GOOD),
        });
        assert_eq!(not_enrolled.blockers, [NOT_ENROLLED]);
        let lost = assess(Facts {
            enrolled: true,
            heartbeat_fresh: false,
            evidence: Some(GOOD),
        });
        assert_eq!(lost.blockers, [HOST_LOST]);
        assert_eq!(lost.health, HostHealth::Unknown);
    }

    #[test]
    fn inc_04_old_evidence_is_not_readiness() {
        let old = with(Some(EvidenceFacts {
            fresh: false,
            ..GOOD
        }));
        assert_eq!(old.blockers, [EVIDENCE_STALE]);
        assert_eq!(old.health, HostHealth::Unknown);
    }

    #[test]
    fn a_86_every_failed_check_blocks_once() {
        let failed = ["ovs_bridge".to_owned(), "kvm".to_owned(), "kvm".to_owned()];
        let readiness = with(Some(EvidenceFacts {
            failed_checks: &failed,
            drifted: true,
            ..GOOD
        }));
        assert_eq!(readiness.blockers, [DEVICE_DRIFT, "kvm", "ovs_bridge"]);
        assert_eq!(readiness.health, HostHealth::Degraded);
    }
}
