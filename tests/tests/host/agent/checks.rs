//! A host that is broken by hand, one thing at a time: the very next report names it with what to do, no lease is granted,
//! the parity check fails by the same name, and when it is repaired the host is ready again (A-86, INC-01).
use std::time::Duration;

use gpuaas_agent::checks;
use gpuaas_agent::network::PROBE_PORT;
use gpuaas_dev::process::run;
use gpuaas_proto::gpuaas::agent::v1 as pb;
use gpuaas_proto::gpuaas::common::v1::{CheckSeverity, Evidence, EvidenceStatus};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_tests::runner::{Case, Place};
use nix::sys::signal::Signal;
use uuid::Uuid;

use super::host::{LabHost, until};

/// The tests of this file, with the seconds that each usually takes.
pub fn cases() -> Vec<Case> {
    gpuaas_tests::cases![Place::Host;
        inc_01_what_is_broken_by_hand_is_named_by_the_next_report: 60,
        a_dead_disk_takes_its_own_slot_out_of_service: 5,
        p7_what_a_killed_check_left_is_removed_by_the_next: 5,
    ]
}

async fn report(host: &LabHost) -> pb::ReadinessReport {
    let report = host
        .topology()
        .check_readiness(pb::CheckReadinessRequest {})
        .await;
    report.expect("a report").into_inner()
}

fn of<'a>(report: &'a pb::ReadinessReport, check: &str) -> &'a Evidence {
    let mut evidence = report.evidence.iter();
    evidence.find(|one| one.check == check).expect("evidence")
}

/// What the operator's program prints on the host, and whether it ended well.
fn parity(host: &LabHost) -> (String, bool) {
    let agent = gpuaas_dev::paths::checkout().join("target/debug/gpuaas-node-agent");
    let line = format!(
        "{} --config {} parity-check; echo status=$?",
        agent.display(),
        host.lab.agent_config().display()
    );
    let said = host.lab.exec("bash", &["-c", &line]).expect("it runs");
    let good = said.trim_end().ends_with("status=0");
    (said, good)
}

/// The line of a check.
fn line<'a>(said: &'a str, check: &str) -> &'a str {
    let named = format!(" check={check} ");
    let mut lines = said.lines();
    lines
        .find(|line| line.contains(&named))
        .unwrap_or_else(|| panic!("no {check} in {said}"))
}

fn exec(host: &LabHost, line: &str) {
    host.lab.exec("bash", &["-c", line]).expect(line);
}

/// Ways to break a host, and the check that must see each.
async fn inc_01_what_is_broken_by_hand_is_named_by_the_next_report() {
    let host = LabHost::get().await;
    let good = report(&host).await;
    assert_eq!(good.blockers, Vec::<String>::new());
    for (check, said) in [
        (
            "ip_forwarding",
            "a packet from the bridge to 192.175.48.1 went through",
        ),
        ("nat", "a packet left with another address"),
        ("dnsmasq", "it offered 10.100.0.254"),
    ] {
        let detail = &of(&good, check).detail;
        assert!(detail.contains(said), "{check}: {detail}");
    }
    let (said, fit) = parity(&host);
    assert!(fit && said.contains(" failures=0"), "{said}");

    let server = host.folder.join("lab/run/dnsmasq.pid");
    let stop = format!("kill -STOP $(cat {})", server.display());
    let go_on = format!("kill -CONT $(cat {})", server.display());
    let rules = host
        .lab
        .exec("nft", &["list", "table", "ip", "gpuaas"])
        .expect("the rules");
    let kept = host.folder.join("rules");
    std::fs::write(&kept, rules).expect("a file");
    let put_back = format!("nft -f {}", kept.display());
    // a rule stands before the one that masquerades: every name is as it was
    let shadow =
        "nft insert rule ip gpuaas postrouting ip saddr 10.100.0.0/24 ip daddr 192.175.48.1 accept";
    let put_all_back = format!("nft delete table ip gpuaas && {put_back}");
    for (check, break_it, repair_it) in [
        ("nat", "nft delete table ip gpuaas", put_back.as_str()),
        ("nat", shadow, put_all_back.as_str()),
        (
            "bridge",
            "ip address del 10.100.0.1/24 dev ovsbr0",
            "ip address add 10.100.0.1/24 dev ovsbr0",
        ),
        ("dnsmasq", stop.as_str(), go_on.as_str()),
        (
            "ip_forwarding",
            "echo 0 > /proc/sys/net/ipv4/ip_forward",
            "echo 1 > /proc/sys/net/ipv4/ip_forward",
        ),
        // the switch of the kernel is on, and a rule of the site drops what guests send
        (
            "ip_forwarding",
            "nft 'add table ip site; add chain ip site forward { type filter hook forward priority 5; }; \
             add rule ip site forward iifname \"ovsbr0\" drop'",
            "nft delete table ip site",
        ),
        // no way out
        (
            "ip_forwarding",
            "ip route delete 192.175.48.1",
            "ip route replace 192.175.48.1 dev up0",
        ),
    ] {
        exec(&host, break_it);
        let broken = report(&host).await;
        assert!(
            broken.blockers.iter().any(|one| one == check),
            "{break_it}: {:?}",
            broken.blockers
        );
        let evidence = of(&broken, check);
        assert_eq!(evidence.status(), EvidenceStatus::Fail);
        assert_eq!(evidence.severity(), CheckSeverity::Hard);
        let remedy = checks::find(check).expect("a check").remedy;
        assert_eq!(evidence.remediation, remedy, "{break_it}");
        let (said, fit) = parity(&host);
        let failed = line(&said, check);
        assert!(
            failed.contains("status=FAIL") && failed.contains(" remediation="),
            "{failed}"
        );
        assert!(!fit && !said.contains(" failures=0"), "{said}");
        let slot = host.slot(0, 1).await;
        let refused = host
            .acquire(Uuid::now_v7(), &slot, pb::LeasePurpose::Provision)
            .await;
        let refused = refused.expect_err("a lease on a broken host");
        assert_eq!(refused.reason(), ErrorReason::HostNotReady, "{break_it}");

        exec(&host, repair_it);
        let repaired = report(&host).await;
        assert_eq!(repaired.blockers, Vec::<String>::new(), "after {repair_it}");
    }
    let (said, fit) = parity(&host);
    assert!(fit, "{said}");
    assert_eq!(
        ports(&host),
        Vec::<String>::new(),
        "the checks left nothing"
    );
}

/// Ports of the bridge, once no check has one.
fn ports(host: &LabHost) -> Vec<String> {
    let listed = host
        .lab
        .exec("ovs-vsctl", &["list-ports", "ovsbr0"])
        .expect("ports");
    listed
        .lines()
        .filter(|port| *port != PROBE_PORT)
        .map(str::to_owned)
        .collect()
}

async fn a_dead_disk_takes_its_own_slot_out_of_service() {
    let host = LabHost::get().await;
    let disk = host.lab.disks().expect("disks").swap_remove(1);
    let identity = format!("lab-disk:{}", disk.id);
    let device = host.device(1);
    run("losetup", &["-d", &device]).expect("detached");
    let broken = report(&host).await;
    let evidence = of(&broken, "slot_disks");
    assert_eq!(evidence.status(), EvidenceStatus::Fail, "{evidence:?}");
    assert_eq!(evidence.devices, [identity.as_str()]);
    assert_eq!(evidence.remediation, checks::SLOT_DISKS.remedy);
    assert_eq!(broken.blockers, Vec::<String>::new(), "the host is well");
    let (said, fit) = parity(&host);
    assert!(
        !fit && line(&said, "slot_disks").contains("status=FAIL"),
        "{said}"
    );
    // its slot alone
    let dead = host.slot(1, 1).await;
    let refused = host
        .acquire(Uuid::now_v7(), &dead, pb::LeasePurpose::Provision)
        .await;
    assert_eq!(
        refused.expect_err("a dead disk").reason(),
        ErrorReason::DeviceMissing
    );
    let other = host.slot(0, 1).await;
    host.acquire(Uuid::now_v7(), &other, pb::LeasePurpose::Provision)
        .await
        .expect("the other slot");

    disk.attach().expect("attached");
    let repaired = report(&host).await;
    assert_eq!(of(&repaired, "slot_disks").status(), EvidenceStatus::Pass);
    let (said, fit) = parity(&host);
    assert!(fit, "{said}");
}

async fn p7_what_a_killed_check_left_is_removed_by_the_next() {
    let host = LabHost::get().await;
    // what an agent leaves that is killed in the middle: the port, and its end of a wire whose other end is gone
    let leave = format!(
        "ovs-vsctl --may-exist add-port ovsbr0 {PROBE_PORT} -- set Interface {PROBE_PORT} ofport_request=65000; \
         ip link add {PROBE_PORT} type veth peer name gone || true"
    );
    exec(&host, &leave);
    let after = report(&host).await;
    assert_eq!(after.blockers, Vec::<String>::new());
    // the agent itself is killed while it sends
    let before = host.lab.agent_process().expect("an agent");
    let sending = tokio::spawn({
        let mut topology = host.topology();
        async move {
            topology
                .check_readiness(pb::CheckReadinessRequest {})
                .await
                .is_ok()
        }
    });
    until("the port of the check", async || {
        let listed = host.lab.exec("ovs-vsctl", &["list-ports", "ovsbr0"]).ok()?;
        (listed.contains(PROBE_PORT) || sending.is_finished()).then_some(())
    })
    .await;
    before.stop(Signal::SIGKILL, Duration::from_secs(5));
    host.wait_ready().await;
    until("nothing of the check to be left", async || {
        let ports = host.lab.exec("ovs-vsctl", &["list-ports", "ovsbr0"]).ok()?;
        let links = host.lab.exec("ip", &["-o", "link", "show"]).ok()?;
        (!ports.contains(PROBE_PORT) && !links.contains(PROBE_PORT)).then_some(())
    })
    .await;
}
