//! Two tenants on one switch, one of them hostile, with root and every tool (P11): it cannot reach the other, be taken
//! for it, or reach what is not for guests. Tried while its neighbour is being provisioned, while it runs, and after
//! restarts of the VM, the agent and the switch.
use std::net::TcpListener;

use gpuaas_proto::gpuaas::agent::v1 as pb;
use gpuaas_tests::runner::{Case, Place};
use nix::sys::signal::Signal;
use uuid::Uuid;

use super::frames::{End, FORGED, decline, forged, fragments, honest, over_own_renewal};
use super::host::{LabHost, Tenant, until};
use super::{network_former, network_ipv6};

/// The tests of this file, with the seconds that each usually takes.
pub fn cases() -> Vec<Case> {
    gpuaas_tests::cases![Place::Host;
        p11_a_neighbour_is_neither_reached_nor_taken_for: 180,
    ]
}

/// Where guests ask for their metadata.
const METADATA: &str = "169.254.169.254:80";

/// The hostile tenant and its neighbour.
pub struct Pair<'a> {
    pub host: &'a LabHost,
    pub hostile: Tenant,
    pub other: Tenant,
}

impl Pair<'_> {
    fn gateway(&self) -> End {
        End {
            mac: self.host.device_mac("ovsbr0"),
            ip: "10.100.0.1".parse().expect("an address"),
        }
    }

    /// Adds the neighbour's address in the hostile guest and claims it on the network, again and again.
    fn claim_address(&self) {
        let other = self.host.end_of(&self.other).ip;
        let line = format!(
            "ip addr add {other}/24 dev eth0\n\
             (while :; do arping -q -U -c 1 -I eth0 -s {other} {other}; arping -q -A -c 1 -I eth0 -s {other} {other}; \
             arping -q -c 1 -w 1 -I eth0 -s {other} 10.100.0.1; done) > /dev/null 2>&1 < /dev/null &\n\
             echo $! > /tmp/claims\n"
        );
        self.host.root(&self.hostile, &line);
    }

    fn give_address_back(&self) {
        let other = self.host.end_of(&self.other).ip;
        let line = format!("kill $(cat /tmp/claims); ip addr del {other}/24 dev eth0");
        self.host.root(&self.hostile, &line);
    }

    /// Sends everything that must reach nobody. What was honest comes after it: once that is there, so would the rest.
    async fn forge(&self, moment: &str) {
        let host = self.host;
        let (own, other, gateway) = (
            host.end_of(&self.hostile),
            host.end_of(&self.other),
            self.gateway(),
        );
        let (sent, pinged) = (format!("honest-{moment}"), format!("ping-{moment}"));
        host.hear_in_guest(&self.other, &pinged).await;
        host.hear_on_host(&sent).await;
        let forged = forged(own, other, gateway);
        let fragments = fragments(own, other);
        host.send(&self.hostile, forged.iter().map(|(_, frame)| frame));
        host.send(&self.hostile, &fragments);
        host.send(&self.hostile, [&honest(own, gateway, &sent)]);
        let on_host = host.heard_on_host().await;
        host.send_from_host(&honest(gateway, other, &pinged));
        let in_guest = host.heard_in_guest(&self.other).await;
        let mark = hex::encode(FORGED);
        for (who, heard) in [("the host", on_host), ("the neighbour", in_guest)] {
            let may = |line: &str| {
                who == "the host" && fragments.iter().any(|frame| line.starts_with(frame))
            };
            let got = heard
                .lines()
                .find(|line| line.contains(&mark) && !may(line));
            let what = got.and_then(|line| {
                let mut all = forged.iter();
                all.find(|(_, frame)| line.starts_with(frame.as_str()))
            });
            let name = what.map(|(name, _)| name);
            assert_eq!(got, None, "{moment}: {who} got {name:?}");
        }
        let target = other.ip.to_string();
        let claimed = host
            .lab
            .exec("ip", &["neigh", "show", &target])
            .expect("neighbours");
        let hostile_mac = bindings_mac(&self.hostile);
        assert!(!claimed.contains(&hostile_mac), "{moment}: {claimed}");
    }

    /// While their project says so the two reach each other, and what the rest of the test tries is closed again after it.
    async fn in_one_group_and_apart_again(&self) {
        let login = [format!("{}:22", self.host.end_of(&self.other).ip)];
        let one_group = Uuid::now_v7().to_string();
        for (group, found) in [(one_group.as_str(), "open"), ("", "silent")] {
            for tenant in [&self.hostile, &self.other] {
                let network_group = pb::NetworkGroup {
                    allocation_id: tenant.allocation.to_string(),
                    group: group.to_owned(),
                };
                let request = pb::SetNetworkGroupRequest {
                    network_group: Some(network_group),
                    version: 0,
                };
                self.host
                    .leases()
                    .set_network_group(request)
                    .await
                    .expect("set");
            }
            let reported = self.host.scan(&self.hostile, &login);
            assert_eq!(reported, [format!("{found} {}", login[0])]);
            // what is forged reaches nobody, also in one group
            self.forge(&format!("{found}-to-each-other")).await;
        }
    }

    /// Nothing of the platform answers a guest, whichever way it takes.
    async fn scan(&self, moment: &str, registry: u16, inventory: u16) {
        let host = self.host;
        let other = host.end_of(&self.other).ip;
        let (link, machine) = (host.lab.host_address(), host.lab.machine_address());
        let targets = [
            format!("{link}:7110"),
            "10.100.0.1:7110".to_owned(),
            "10.100.0.1:22".to_owned(),
            "10.100.0.1:53".to_owned(),
            format!("{link}:{}", host.ssh_port(self.other.slot.slot_index)),
            format!("{machine}:{registry}"),
            format!("{machine}:{inventory}"),
            format!("{other}:22"),
            METADATA.to_owned(),
        ];
        let silent = |reported: Vec<String>, count: usize, way: &str| {
            assert_eq!(reported.len(), count, "{reported:?}");
            for line in reported {
                assert!(line.starts_with("silent "), "{moment}, {way}: {line}");
            }
        };
        let routed = host.scan(&self.hostile, &targets);
        let (metadata, routed): (Vec<_>, Vec<_>) =
            routed.into_iter().partition(|line| line.contains(METADATA));
        assert_eq!(metadata, [format!("open {METADATA}")], "{moment}");
        silent(routed, targets.len() - 1, "as routed");
        // past the switch: to the kernel's own end of the guest's port
        let port = port_of(&self.hostile);
        let tap = text_of(host.device_mac(&port));
        let other_mac = text_of(host.end_of(&self.other).mac);
        let program = format!("/tmp/frame scan 4 {}", targets.join(" "));
        let line = format!(
            "(arp -s 10.100.0.1 {tap}\n\
             arp -s {other} {other_mac}\n\
             {program}\n\
             arp -d 10.100.0.1; arp -d {other}; echo end) > /tmp/scanned 2>&1 < /dev/null &"
        );
        host.root(&self.hostile, &line);
        let reported = until("the scan past the switch", async || {
            let output = host.ssh(&self.hostile, "cat /tmp/scanned").ok()?;
            let reported = String::from_utf8_lossy(&output.stdout).into_owned();
            reported.contains("end\n").then_some(reported)
        })
        .await;
        let reported = reported
            .lines()
            .filter(|line| line.contains(':'))
            .map(str::to_owned);
        silent(reported.collect(), targets.len(), "past the switch");
    }

    fn closed_to_ipv6(&self, beyond: &network_ipv6::Beyond, moment: &str) {
        let port = port_of(&self.hostile);
        network_ipv6::closed(
            self.host,
            &self.hostile,
            &self.other,
            (&port, beyond),
            moment,
        );
    }
}

fn bindings_mac(tenant: &Tenant) -> String {
    tenant
        .slot
        .bindings
        .clone()
        .expect("bindings")
        .management_mac
}

fn text_of(mac: [u8; 6]) -> String {
    mac.map(|octet| format!("{octet:02x}")).join(":")
}

fn port_of(tenant: &Tenant) -> String {
    gpuaas_agent::ids::AllocationId(tenant.allocation).port_name()
}

/// What the host says of the rules, which are in force.
async fn evidence(host: &LabHost) -> String {
    until("the rules to be in force", async || {
        let report = host
            .topology()
            .check_readiness(pb::CheckReadinessRequest {})
            .await
            .ok()?
            .into_inner();
        let found = report
            .evidence
            .into_iter()
            .find(|one| one.check == "guest_isolation")?;
        let passes = found.status() == gpuaas_proto::gpuaas::common::v1::EvidenceStatus::Pass;
        passes.then_some(found.detail)
    })
    .await
}

/// Waits until the host says that it put rules back.
async fn put_back(host: &LabHost) {
    until("the rules to be put back", async || {
        evidence(host).await.contains("; put back ").then_some(())
    })
    .await;
}

/// The switch's flows, in an order of their own.
fn flows(host: &LabHost) -> String {
    let shown = host
        .lab
        .exec("ovs-ofctl", &["--no-stats", "dump-flows", "ovsbr0"])
        .expect("flows");
    let mut lines: Vec<&str> = shown.lines().collect();
    lines.sort_unstable();
    lines.join("\n")
}

/// Ends the switch as hard as a crash and starts it anew, as its service would.
async fn restart_switch(host: &LabHost) {
    let exec = |program: &str, arguments: &[&str]| {
        host.lab.exec(program, arguments).expect("it runs");
    };
    let pid = host
        .lab
        .exec("cat", &["/run/openvswitch/ovs-vswitchd.pid"])
        .expect("a process");
    exec("kill", &["-9", pid.trim()]);
    until("the switch to end", async || {
        host.lab.exec("kill", &["-0", pid.trim()]).err()
    })
    .await;
    let log = "--log-file=/var/log/openvswitch/ovs-vswitchd.log";
    exec(
        "ovs-vswitchd",
        &["--pidfile", "--detach", "--no-chdir", log],
    );
    exec("ip", &["addr", "replace", "10.100.0.1/24", "dev", "ovsbr0"]);
    exec(
        "ip",
        &["addr", "replace", "169.254.169.254/32", "dev", "ovsbr0"],
    );
    exec("ip", &["link", "set", "ovsbr0", "up"]);
}

async fn p11_a_neighbour_is_neither_reached_nor_taken_for() {
    let host = LabHost::get().await;
    // it counts what it puts back from its start on, and an earlier test may have ended the switch
    host.restart_agent("").await;
    let image = host.image("lab-mini").await;
    let hostile = host.tenant(1, 1).await;
    host.succeeded(host.provision(&hostile, image.clone()).await)
        .await;
    host.arm(&hostile);
    let other = host.tenant(0, 1).await;
    let pair = Pair {
        host: &host,
        hostile,
        other,
    };

    // while the neighbour is being provisioned, the other one has its address and answers for it
    pair.claim_address();
    let provision = host.provision(&pair.other, image.clone()).await;
    let result = host
        .succeeded(provision)
        .await
        .provision_result
        .expect("a result");
    let [host_key] = result.ssh_host_keys.as_slice() else {
        panic!("one key: {result:?}");
    };
    assert_eq!(
        host.host_keys(&pair.other),
        std::slice::from_ref(host_key),
        "its owner meets the key that was recorded"
    );
    assert_ne!(
        host.host_keys(&pair.hostile),
        std::slice::from_ref(host_key)
    );
    let boot_id = "cat /proc/sys/kernel/random/boot_id";
    let boot = host.ssh(&pair.other, boot_id).expect("ssh").stdout;
    assert_eq!(
        String::from_utf8_lossy(&boot).trim(),
        result.boot_id,
        "its owner lands in it"
    );
    pair.give_address_back();
    // the seed is gone, from the host and from the VM
    let seeds = host.lab.agent_folder().join("seeds");
    assert_eq!(
        std::fs::read_dir(&seeds).map_or(0, Iterator::count),
        0,
        "no private key is left"
    );
    for tenant in [&pair.hostile, &pair.other] {
        let command = "blkid | grep -ci cidata; blockdev --getsize64 /dev/sr0";
        assert_eq!(
            host.root(tenant, &format!("{command}; true"))
                .lines()
                .next(),
            Some("0")
        );
    }

    host.arm(&pair.other);
    let plays_inventory = TcpListener::bind((host.lab.machine_address(), 0)).expect("a port");
    let inventory = plays_inventory.local_addr().expect("a port").port();
    let registry: u16 = host
        .registry
        .host()
        .rsplit(':')
        .next()
        .and_then(|port| port.parse().ok())
        .expect("a port");
    for (address, port) in [
        (host.lab.host_address(), 7110),
        (host.lab.machine_address(), registry),
        (host.lab.machine_address(), inventory),
    ] {
        std::net::TcpStream::connect((address, port)).expect("it answers whom it may");
    }
    pair.forge("running").await;
    pair.scan("running", registry, inventory).await;
    let beyond = network_ipv6::Beyond::listen(&host).await;
    pair.closed_to_ipv6(&beyond, "running");
    pair.metadata();

    // of DHCP it has its own, and nobody else's
    let (own, neighbour) = (host.end_of(&pair.hostile), host.end_of(&pair.other));
    host.send(&pair.hostile, [&decline(own, neighbour, pair.gateway())]);
    let requested = "udhcpc -i eth0 -n -q -t 5 -s /usr/share/udhcpc/default.script";
    host.root(&pair.hostile, requested);
    let log = || std::fs::read_to_string(host.folder.join("lab/run/dnsmasq.log")).expect("log");
    let answered = || log().matches("DHCPACK").count();
    let (before, read) = (answered(), log().lines().count());
    assert!(before > 0);
    assert!(!log().contains("DHCPDECLINE"));
    // an answer opens a flow, over which nothing else comes either
    let [renewal, rest @ ..] = over_own_renewal(own, neighbour, pair.gateway());
    host.send(&pair.hostile, [&renewal]);
    until("the renewal to be answered", async || {
        (answered() > before).then_some(())
    })
    .await;
    host.send(&pair.hostile, &rest);
    // what came before it has been read
    host.root(&pair.hostile, requested);
    let reported = log();
    let taken = ["DHCPDECLINE", "DHCPRELEASE"];
    let found = reported
        .lines()
        .skip(read)
        .find(|line| taken.iter().any(|kind| line.contains(kind)));
    assert_eq!(found, None);
    assert!(
        flows(&host).contains("arp_spa=10.100.0.1"),
        "the flows name addresses"
    );
    assert_eq!(evidence(&host).await, "the rules of 2 guests are in force");
    pair.in_one_group_and_apart_again().await;

    // another hand opens the switch and the filter, and the agent that would put the rules back stands still: what the
    // scan finds closed is there to be found
    let agent = host.lab.agent_process().expect("an agent");
    agent.signal(Signal::SIGSTOP);
    network_ipv6::open(&host);
    let port = port_of(&pair.hostile);
    network_ipv6::open_without_rules(&host, &pair.hostile, &pair.other, (&port, &beyond));
    agent.signal(Signal::SIGCONT);
    put_back(&host).await;
    assert!(!flows(&host).contains("NORMAL"));
    pair.closed_to_ipv6(&beyond, "put-back");

    // the rules stay in force while no agent runs, and after it is back
    let before = flows(&host);
    host.lab
        .agent_process()
        .expect("an agent")
        .signal(Signal::SIGSTOP);
    pair.forge("agent-stopped").await;
    host.lab
        .agent_process()
        .expect("an agent")
        .signal(Signal::SIGCONT);
    host.restart_agent("").await;
    assert_eq!(flows(&host), before);

    // the neighbour is started anew by the host: another port, the same key and address
    pair.claim_address();
    host.succeeded(host.reboot(&pair.other, &result.ssh_host_keys).await)
        .await;
    assert_eq!(host.host_keys(&pair.other), std::slice::from_ref(host_key));
    pair.give_address_back();
    host.arm(&pair.other);
    let wrong = [host.host_keys(&pair.hostile)[0].clone()];
    let failure = host.failed(host.reboot(&pair.other, &wrong).await).await;
    assert_eq!(
        (failure.reason.as_str(), failure.step.as_str()),
        ("HOST_KEY_MISMATCH", "wait_login")
    );
    host.arm(&pair.other);

    restart_switch(&host).await;
    put_back(&host).await;
    until("the guests to be reached", async || {
        let answers = |tenant| {
            host.ssh(tenant, "true")
                .is_ok_and(|output| output.status.success())
        };
        (answers(&pair.hostile) && answers(&pair.other)).then_some(())
    })
    .await;
    pair.forge("switch-restarted").await;
    pair.scan("switch-restarted", registry, inventory).await;
    pair.closed_to_ipv6(&beyond, "switch-restarted");
    pair.metadata();

    let gateway = pair.gateway();
    let next =
        network_former::nothing_of_the_former_tenant(&host, pair.other, gateway, image).await;
    put_back(&host).await;

    for tenant in [&next, &pair.hostile] {
        host.succeeded(host.release(tenant).await).await;
    }
    host.assert_no_residue().await;
    assert_eq!(
        flows(&host)
            .lines()
            .filter(|line| line.contains("actions"))
            // what the agent's own check may send stays; its port is there only while it sends
            .filter(|line| !line.contains("65000") && !line.contains("10.100.0.254"))
            .count(),
        1,
        "{}",
        flows(&host)
    );
}
