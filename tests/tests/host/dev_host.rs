//! Lab hosts come up as GPU nodes do, each for itself, keep what a host keeps, and leave nothing behind.
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gpuaas_dev::health::Health;
use gpuaas_dev::lab::{Lab, SLOTS};
use gpuaas_dev::part::Change;
use gpuaas_dev::ports::ClaimedInstance;
use gpuaas_dev::process::{run, wait_until};
use gpuaas_dev::{ca, paths};
use gpuaas_tests::runner::{Case, Place};
use nix::sys::signal::Signal;

/// The tests of this file, with the seconds that each usually takes.
pub fn cases() -> Vec<Case> {
    gpuaas_tests::cases![Place::Host;
        lab_hosts_come_up_restart_their_agent_and_leave_nothing: 7,
    ]
}

/// Stands in for the agent: the host only has to start it and start it again.
fn agent(folder: &Path) -> PathBuf {
    let (program, script) = (folder.join("bin/agent"), folder.join("agent"));
    paths::ensure_dir(&folder.join("bin")).unwrap();
    std::fs::copy("/bin/sleep", &program).unwrap();
    // the host calls it with --config FILE, which sleep does not know
    std::fs::write(
        &script,
        format!("#!/bin/sh\nexec {} 600\n", program.display()),
    )
    .unwrap();
    for file in [&program, &script] {
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    script
}

/// Ends the hosts also when the test fails.
struct Down<'a>(&'a [Lab]);

impl Drop for Down<'_> {
    fn drop(&mut self) {
        self.0.iter().for_each(Lab::down);
    }
}

async fn lab_hosts_come_up_restart_their_agent_and_leave_nothing() {
    let claimed = ClaimedInstance::claim().unwrap();
    let root = paths::run_dir().join(format!("test/lab-{}", claimed.instance().number()));
    paths::ensure_dir(&root.join("pids")).unwrap();
    let health = Health::new(&ca::Authority::open(&root.join("pki"), 1).unwrap()).unwrap();
    let program = agent(&root);
    let lab = |number| Lab::new(&root, claimed.instance(), program.clone(), number, || SLOTS);
    let labs = [lab(0), lab(1)];
    let [lab, second] = &labs;
    // a test that was killed may have left this instance's hosts
    let _down = Down(&labs);
    labs.iter().for_each(Lab::down);

    // links of other lab hosts come and go beside this one
    let number = claimed.instance().number();
    let own = [format!(" gpl{number} "), format!(" gpl{number}-2 ")];
    let interfaces = || {
        let all = run("ip", &["-o", "-4", "addr", "show", "scope", "global"]).unwrap();
        let ours = |line: &&str| !line.contains(" gpl") || own.iter().any(|own| line.contains(own));
        all.lines()
            .filter(ours)
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let before = interfaces();
    lab.network_up().unwrap();
    lab.network_up().unwrap();
    lab.prepare().unwrap();
    let part = lab.part();
    assert_eq!(part.ensure().unwrap(), Change::Started);
    part.wait_ready(&health).await.unwrap();
    assert_eq!(part.ensure().unwrap(), Change::Unchanged);

    assert!(
        lab.exec("ovs-vsctl", &["list-br"])
            .unwrap()
            .contains("ovsbr0")
    );
    assert!(
        lab.exec("ip", &["-o", "addr", "show", "dev", "ovsbr0"])
            .unwrap()
            .contains("10.100.0.1/24")
    );
    assert!(
        lab.exec("nft", &["list", "ruleset"])
            .unwrap()
            .contains("masquerade")
    );
    lab.exec("virsh", &["-q", "-c", "qemu:///system", "version"])
        .unwrap();
    let listener = TcpListener::bind((lab.machine_address(), 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let connect = format!("exec 3<>/dev/tcp/{}/{port}", lab.machine_address());
    lab.exec("bash", &["-c", &connect]).unwrap();
    a_second_host_is_apart(lab, second, &health, &connect).await;

    assert!(wait_until(Duration::from_secs(10), || lab
        .agent_process()
        .is_some()));
    let first = lab.agent_process().unwrap();
    first.stop(Signal::SIGKILL, Duration::from_secs(5));
    let restarted = || lab.agent_process().is_some_and(|agent| agent != first);
    assert!(
        wait_until(Duration::from_secs(10), restarted),
        "the host starts its agent again"
    );

    for disk in lab.disks().unwrap() {
        assert!(disk.device().unwrap().is_some());
    }

    lab.down();
    second.down();
    assert!(part.running().is_none());
    for disk in lab.disks().unwrap() {
        assert_eq!(disk.device().unwrap(), None);
    }
    assert_eq!(interfaces(), before);
    std::fs::remove_dir_all(&root).unwrap();
}

/// A second host has what the first has, but nothing of it; it reaches the machine where the first does, unless it is cut
/// off.
async fn a_second_host_is_apart(first: &Lab, second: &Lab, health: &Health, connect: &str) {
    second.network_up().unwrap();
    second.prepare().unwrap();
    second.part().start().unwrap();
    second.part().wait_ready(health).await.unwrap();
    let define = "virsh -q -c qemu:///system define /dev/stdin <<< \"<domain type='qemu'><name>only-here</name>\
        <memory unit='MiB'>64</memory><os><type arch='x86_64'>hvm</type></os></domain>\"";
    first.exec("bash", &["-c", define]).unwrap();
    let domains = ["-q", "-c", "qemu:///system", "list", "--all", "--name"];
    let [of_first, of_second] = [first, second].map(|lab| lab.exec("virsh", &domains).unwrap());
    assert_eq!([of_first.trim(), of_second.trim()], ["only-here", ""]);
    first.exec("ovs-vsctl", &["add-br", "only-here"]).unwrap();
    let bridges = second.exec("ovs-vsctl", &["list-br"]).unwrap();
    assert_eq!(bridges.trim(), "ovsbr0");
    assert_ne!(first.disks().unwrap(), second.disks().unwrap());

    second.exec("bash", &["-c", connect]).unwrap();
    second.join_network(false).unwrap();
    second
        .exec("timeout", &["1", "bash", "-c", connect])
        .unwrap_err();
    second.network_up().unwrap();
    second.exec("bash", &["-c", connect]).unwrap();
    first.exec("bash", &["-c", connect]).unwrap();
}
