//! A lab host that is broken by hand, one thing at a time, as operators see it: with the report that began after it, its node
//! is blocked by the check's name with what to do, nothing is placed on it, and when it is repaired the node is ready again
//! (A-79, A-86, INC-01, INC-04).
use std::collections::BTreeSet;

use gpuaas_agent::checks;
use gpuaas_dev::lab::Lab;
use gpuaas_tests::api::text;
use gpuaas_tests::runner::{Case, Place};
use gpuaas_tests::system::{System, TIMEOUT};
use gpuaas_tests::until::{until, until_ok};
use serde_json::Value;

/// The tests of this file, with the seconds that each usually takes.
pub fn cases() -> Vec<Case> {
    gpuaas_tests::cases![Place::System;
        inc_01_inc_04_a_host_that_is_broken_by_hand_is_blocked_within_one_report_and_recovers: 95,
        a_86_d_80_a_disk_that_is_gone_blocks_its_slot_within_one_report_until_it_is_wiped: 25,
    ]
}

/// Reports that are seen before the one that must tell: the last one of before, and one that had begun when it happened.
const BEFORE: usize = 2;

static NOTHING: Value = Value::Null;

/// Something of the lab host that is broken until [`Self::repair`], or until the test ends.
pub struct Broken<'a> {
    lab: &'a Lab,
    repair: String,
}

impl<'a> Broken<'a> {
    /// Breaks it by a line of a shell on the host; another one repairs it, broken or not.
    pub fn new(lab: &'a Lab, break_it: &str, repair: &str) -> Self {
        let repair = repair.to_owned();
        let broken = Self { lab, repair };
        shell(lab, break_it);
        broken
    }

    /// Repairs it.
    pub fn repair(mut self) {
        shell(self.lab, &std::mem::take(&mut self.repair));
    }
}

impl Drop for Broken<'_> {
    fn drop(&mut self) {
        if !self.repair.is_empty() {
            // a test that failed says why itself; the tests after it need the host
            let _best_effort = self.lab.exec("bash", &["-c", &self.repair]);
        }
    }
}

/// What an operator types on the lab host.
fn shell(lab: &Lab, line: &str) -> String {
    let said = lab.exec("bash", &["-c", line]);
    said.unwrap_or_else(|error| panic!("{line}: {error}"))
}

async fn node(system: &System) -> Result<Value, String> {
    let path = format!("/api/v1/admin/nodes/{}", system.node_id);
    let node = system.admin.get(&path).await;
    node.map_err(|refusal| refusal.body.to_string())
}

/// The node once it is as wanted: at the latest with the first report that began after this was called.
async fn within_one_report(
    system: &System,
    what: &str,
    wanted: impl Fn(&Value) -> Result<(), String>,
) -> Value {
    let mut reports = BTreeSet::new();
    until_ok(what, TIMEOUT, async || {
        let node = node(system).await?;
        let why = match wanted(&node) {
            Ok(()) => return Ok(node),
            Err(why) => why,
        };
        reports.insert(text(&node, "/status/last_heartbeat_time").to_owned());
        assert!(
            reports.len() <= BEFORE,
            "not {what} after the reports of {reports:?}: {why}"
        );
        Err(why)
    })
    .await
}

/// The evidence of a check.
fn evidence<'a>(node: &'a Value, check: &str) -> &'a Value {
    let all = node["status"]["evidence"].as_array();
    let mut all = all.into_iter().flatten();
    all.find(|one| one["check"] == check).unwrap_or(&NOTHING)
}

/// Whether a check fails, and says what the registry says.
fn fails(node: &Value, check: &str) -> Result<(), String> {
    let found = evidence(node, check);
    let remedy = checks::find(check).expect("a check").remedy;
    let reported = (&found["status"], &found["severity"], &found["remediation"]);
    match reported == (&"fail".into(), &"hard".into(), &remedy.into()) {
        true => Ok(()),
        false => Err(found.to_string()),
    }
}

fn names(node: &Value) -> BTreeSet<&str> {
    let blockers = node["status"]["blockers"].as_array();
    blockers
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

/// Whether the host proves all that it has to, device by device.
fn is_ready(node: &Value) -> Result<(), String> {
    let all = node["status"]["evidence"].as_array();
    let failed = all.into_iter().flatten();
    let mut failed = failed.filter(|one| one["status"] == "fail");
    match (&node["status"]["schedulable"], failed.next()) {
        (Value::Bool(true), None) => Ok(()),
        (_, failed) => Err(format!("blocked by {:?}: {failed:?}", names(node))),
    }
}

/// Waits until the node is in a state of its lifecycle.
async fn wait_for_state(system: &System, state: &str) {
    until_ok(&format!("the node to be {state}"), TIMEOUT, async || {
        let node = node(system).await?;
        match text(&node, "/status/life/state") == state {
            true => Ok(()),
            false => Err(node["status"]["life"].to_string()),
        }
    })
    .await;
}

async fn inc_01_inc_04_a_host_that_is_broken_by_hand_is_blocked_within_one_report_and_recovers() {
    let system = System::get().await;
    let host = &system.hosts[0];
    let lab = &host.lab;
    wait_for_state(&system, "ready").await;
    let folder = lab.folder().join("run");
    let kept = folder.join("rules.kept").display().to_string();
    shell(lab, &format!("nft list table ip gpuaas > {kept}"));
    let pid = folder.join("dnsmasq.pid").display().to_string();
    // its whole command line, as a shell reads it
    let server = format!("xargs --null printf '%q ' < /proc/$(cat {pid})/cmdline");
    let server = shell(lab, &server);
    let stop = format!("kill $(cat {pid})");
    for (check, break_it, repair_it) in [
        (
            "nat",
            "nft delete table ip gpuaas",
            format!("nft list table ip gpuaas > /dev/null 2>&1 || nft -f {kept}"),
        ),
        (
            "bridge",
            "ip address del 10.100.0.1/24 dev ovsbr0",
            "ip address replace 10.100.0.1/24 dev ovsbr0".to_owned(),
        ),
        ("dnsmasq", stop.as_str(), server.clone()),
        (
            "ip_forwarding",
            "echo 0 > /proc/sys/net/ipv4/ip_forward",
            "echo 1 > /proc/sys/net/ipv4/ip_forward".to_owned(),
        ),
    ] {
        let broken = Broken::new(lab, break_it, &repair_it);
        let what = format!("blocked by {check} after {break_it}");
        let blocked = within_one_report(&system, &what, |node| {
            let is_blocked = node["status"]["schedulable"] == false && names(node).contains(check);
            match is_blocked {
                true => Ok(()),
                false => Err(format!("{:?}", names(node))),
            }
        })
        .await;
        fails(&blocked, check).expect("evidence with severity and remedy");
        assert_eq!(
            text(&blocked, "/status/life/state"),
            "validating",
            "{check}"
        );
        // enrolled and alive all the same
        assert_eq!(text(&blocked, "/status/state"), "enrolled");
        let path = format!("/api/v1/admin/nodes/{}/placement", host.node_id);
        until_ok("nothing to be placed on it", TIMEOUT, async || {
            let placement = system.admin.get(&path).await;
            let placement = placement.map_err(|refusal| refusal.body.to_string())?;
            match placement["schedulable"] == false {
                true => Ok(()),
                false => Err(placement.to_string()),
            }
        })
        .await;

        broken.repair();
        let what = format!("ready again after {repair_it}");
        let repaired = within_one_report(&system, &what, is_ready).await;
        let found = evidence(&repaired, check);
        assert_eq!(found["status"], "pass", "{check}");
        assert_eq!(text(found, "/remediation"), "", "{check}");
        system.wait_schedulable(host).await;
        wait_for_state(&system, "ready").await;
    }
    system.assert_nothing_left().await;
}

/// The host is well, and one slot of it is not: the node stays ready, and the slot comes back with the proof of a wipe.
async fn a_86_d_80_a_disk_that_is_gone_blocks_its_slot_within_one_report_until_it_is_wiped() {
    let system = System::get().await;
    let lab = &system.hosts[0].lab;
    let before = system.slots().await.swap_remove(1);
    let disk = lab.disks().expect("disks").swap_remove(1);
    let identity = format!("lab-disk:{}", disk.id);
    let device = disk.device().expect("losetup").expect("it is attached");
    let attach = format!("losetup {device} {}", disk.file.display());
    let broken = Broken::new(lab, &format!("losetup -d {device}"), &attach);
    let reported = within_one_report(&system, "told of its disk", |node| {
        fails(node, "slot_disks")
    })
    .await;
    assert_eq!(
        evidence(&reported, "slot_disks")["devices"],
        Value::from(vec![identity.as_str()])
    );
    assert_eq!(names(&reported), BTreeSet::new(), "the host is well");
    let gone = until("the slot to be out of service", TIMEOUT, async || {
        let slot = system.slots().await.swap_remove(1);
        (text(&slot, "/drift/0/kind") == "disk_missing").then_some(slot)
    })
    .await;
    assert_eq!(gone["health_state"], "degraded");
    assert!(!text(&gone, "/drift/0/remediation").is_empty(), "{gone}");
    let other = system.slots().await.swap_remove(0);
    assert_eq!(
        (&other["status"], &other["health_state"]),
        (&"available".into(), &"healthy".into())
    );

    broken.repair();
    within_one_report(&system, "ready again with its disk", is_ready).await;
    let back = until("the disk to be wiped", TIMEOUT, async || {
        let slot = system.slots().await.swap_remove(1);
        let wiped = slot["generation"] != before["generation"] && slot["status"] == "available";
        (wiped && slot["health_state"] == "healthy").then_some(slot)
    })
    .await;
    assert_eq!(back["generation"], back["clean_generation"]);
    assert!(
        text(&back, "/clean_evidence").starts_with("wiped: "),
        "{back}"
    );
    system.assert_nothing_left().await;
}
