//! A report of validate-host as an operator attaches it: whether it is one, and of which host. Its values are the host's and
//! the operator's, and are shown as texts alone.
use gpuaas_common::error::{Error, Result};
use gpuaas_common::time::from_proto_time;
use gpuaas_proto::gpuaas::inventory::v1::{AttachedHostReport, HostReport};
use jiff::{SignedDuration, Timestamp};
use prost::Message as _;
use serde_json::{Value, json};

/// The version that is known.
const SCHEMA: u32 = 1;
/// Most bytes as it is stored.
pub const MAX_BYTES: usize = 256 << 10;
/// How far a host's clock may be ahead.
const AHEAD: SignedDuration = SignedDuration::from_mins(5);
/// Most checks, entries done by hand and entries of a table.
const MAX_ENTRIES: usize = 500;
/// Kinds of hosts, as the agent names them.
pub const KINDS: [&str; 3] = ["slice host", LAB, "bare-metal host"];
/// It is on a machine of development, whose name is its own.
const LAB: &str = "lab host";

/// Checks a report for a node with this hostname.
///
/// # Errors
/// The first field that breaks its rule.
pub fn check(report: &HostReport, hostname: &str, now: Timestamp) -> Result<()> {
    if report.encoded_len() > MAX_BYTES {
        return Err(Error::invalid("report", "must be at most 262144 bytes"));
    }
    if report.schema != SCHEMA {
        let rule = "must be 1, the version that gpuaas-node-agent validate-host writes";
        return Err(Error::invalid("report.schema", rule));
    }
    if report.agent_version.is_empty() {
        return Err(Error::required("report.agent_version"));
    }
    let Some(time) = &report.time else {
        return Err(Error::required("report.time"));
    };
    let time = from_proto_time(time);
    let time = time.ok_or_else(|| Error::invalid("report.time", "must be a time"))?;
    if time > now + AHEAD {
        return Err(Error::invalid("report.time", "must not be in the future"));
    }
    if !KINDS.contains(&report.kind.as_str()) {
        let rule = format!("must be one of: {}", KINDS.join(", "));
        return Err(Error::invalid("report.kind", rule));
    }
    let tables = [
        ("report.host", report.host.len()),
        ("report.hardware", report.hardware.len()),
        ("report.versions", report.versions.len()),
        ("report.baseline", report.baseline.len()),
        ("report.checks", report.checks.len()),
        ("report.blockers", report.blockers.len()),
        ("report.by_hand", report.by_hand.len()),
    ];
    for (field, entries) in tables {
        if entries > MAX_ENTRIES {
            return Err(Error::invalid(
                field,
                format!("must be at most {MAX_ENTRIES} entries"),
            ));
        }
    }
    check_entries(report)?;
    of_host(report, hostname)
}

fn check_entries(report: &HostReport) -> Result<()> {
    if report.checks.is_empty() {
        return Err(Error::required("report.checks"));
    }
    let one_of = |field: String, value: &str, known: &[&str]| match known.contains(&value) {
        true => Ok(()),
        false => Err(Error::invalid(
            field,
            format!("must be one of: {}", known.join(", ")),
        )),
    };
    for (at, one) in report.checks.iter().enumerate() {
        let field = |name: &str| format!("report.checks[{at}].{name}");
        if one.check.is_empty() {
            return Err(Error::required(field("check")));
        }
        one_of(
            field("status"),
            &one.status,
            &["PASS", "FAIL", "WARN", "SKIP"],
        )?;
        one_of(
            field("severity"),
            &one.severity,
            &["hard", "warn", "info", ""],
        )?;
    }
    for (at, one) in report.by_hand.iter().enumerate() {
        if one.id.is_empty() {
            return Err(Error::required(format!("report.by_hand[{at}].id")));
        }
    }
    Ok(())
}

/// A report of another host would vouch for a machine that nobody has looked at.
fn of_host(report: &HostReport, hostname: &str) -> Result<()> {
    if report.kind == LAB {
        return Ok(());
    }
    let label = |name: &str| {
        let first = name.split('.').next().unwrap_or_default();
        first.to_ascii_lowercase()
    };
    let named = report.host.get("hostname").map_or("", String::as_str);
    if label(named) != label(hostname) {
        let rule = format!(
            "must be {hostname}, the hostname of the node: this is the report of another host"
        );
        return Err(Error::invalid("report.host.hostname", rule));
    }
    Ok(())
}

/// How many checks came out so.
fn count(report: &HostReport, status: &str) -> usize {
    let checks = report.checks.iter();
    checks.filter(|one| one.status == status).count()
}

/// What an attached report can be selected by.
pub fn facts(attached: &AttachedHostReport) -> Value {
    let report = attached.report.clone().unwrap_or_default();
    let text = |time: &Option<_>| {
        let time = time.as_ref().and_then(from_proto_time);
        time.map(|time| time.to_string())
    };
    json!({
        "id": attached.id, "principal": attached.principal, "attach_time": text(&attached.attach_time),
        "kind": report.kind, "agent_version": report.agent_version, "time": text(&report.time),
        "failed_checks": count(&report, "FAIL"), "blocked": !report.blockers.is_empty(),
    })
}

/// What the audit trail has of a report.
pub fn summary(report: &HostReport) -> Value {
    let done = report
        .by_hand
        .iter()
        .filter(|one| !one.result.trim().is_empty())
        .count();
    json!({
        "agent_version": report.agent_version, "kind": report.kind,
        "passed": count(report, "PASS"), "failed": count(report, "FAIL"), "warned": count(report, "WARN"),
        "skipped": count(report, "SKIP"),
        "by_hand_done": done, "by_hand": report.by_hand.len(), "blockers": report.blockers,
    })
}

#[cfg(test)]
mod tests {
    use gpuaas_common::time::proto_time;
    use gpuaas_proto::gpuaas::inventory::v1::{HostReportByHand, HostReportCheck};

    use super::*;

    fn now() -> Timestamp {
        "2026-11-29T00:00:00Z".parse().expect("a time")
    }

    fn good() -> HostReport {
        HostReport {
            schema: 1,
            agent_version: "1.4.0".into(),
            time: Some(proto_time(now())),
            kind: "slice host".into(),
            host: [("hostname".to_owned(), "gpu-07".to_owned())].into(),
            checks: vec![HostReportCheck {
                check: "iommu".into(),
                status: "PASS".into(),
                severity: "hard".into(),
                ..Default::default()
            }],
            by_hand: vec![HostReportByHand {
                id: "first_slice".into(),
                result: "done, 2026-11-28".into(),
                ..Default::default()
            }],
            ..Default::default()
        }
    }

    #[test]
    fn what_the_agent_wrote_of_this_host_is_taken() {
        for hostname in ["gpu-07", "gpu-07.rack2.example.com", "GPU-07"] {
            check(&good(), hostname, now()).expect(hostname);
        }
        let lab = HostReport {
            kind: "lab host".into(),
            host: Default::default(),
            ..good()
        };
        check(&lab, "lab-1", now()).expect("a lab host has the name of its machine");
        let shown = summary(&good());
        assert_eq!(
            (&shown["passed"], &shown["by_hand_done"]),
            (&json!(1), &json!(1))
        );
    }

    #[test]
    fn what_is_no_report_of_this_host_is_refused_by_field() {
        type Change = fn(&mut HostReport);
        let changes: [(&str, Change); 11] = [
            ("report", |r| {
                r.versions = [("qemu".into(), "x".repeat(MAX_BYTES))].into();
            }),
            ("report.schema", |r| r.schema = 2),
            ("report.agent_version", |r| r.agent_version.clear()),
            ("report.time", |r| r.time = None),
            ("report.time", |r| {
                r.time = Some(proto_time(now() + SignedDuration::from_hours(1)));
            }),
            ("report.kind", |r| r.kind = "toaster".into()),
            ("report.checks", |r| r.checks.clear()),
            ("report.checks[0].status", |r| {
                r.checks[0].status = "fine".into();
            }),
            ("report.by_hand[0].id", |r| r.by_hand[0].id.clear()),
            ("report.by_hand", |r| {
                r.by_hand = vec![
                    HostReportByHand {
                        id: "a".into(),
                        ..Default::default()
                    };
                    501
                ];
            }),
            ("report.host.hostname", |r| {
                r.host = [("hostname".into(), "gpu-08".into())].into();
            }),
        ];
        for (field, change) in changes {
            let mut report = good();
            change(&mut report);
            let error = check(&report, "gpu-07", now()).expect_err(field);
            assert_eq!(error.fields()[0].0, field);
        }
    }
}
