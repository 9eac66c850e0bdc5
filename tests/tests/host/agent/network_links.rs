//! The rules of each kind of switch on a real one, in a network of its own without a VM: two links play the guests' ports,
//! and whoever is at their other ends sends and hears frames.
use std::path::Path;
use std::process::Command;

use gpuaas_agent::ids::NetworkGroup;
use gpuaas_agent::network::{Guest, document_of_linux_bridge, flows_of_open_vswitch};
use gpuaas_agent::settings::Network;
use gpuaas_tests::runner::{Case, Place};

use super::attacker::frame_program;
use super::frames::{End, FORGED, forged, fragments, honest, mac};

/// The tests of this file, with the seconds that each usually takes.
pub fn cases() -> Vec<Case> {
    gpuaas_tests::cases![Place::Host;
        p11_a_linux_bridge_passes_no_forged_frame: 4,
        p11_open_vswitch_in_user_space_passes_no_forged_frame: 5,
        p11_open_vswitch_of_the_kernel_passes_no_forged_frame: 5,
    ]
}

const PORTS: [&str; 2] = ["gs0123456789aa", "gs0123456789bb"];

const GATEWAY: End = End {
    mac: [2, 0, 0, 0, 0, 1],
    ip: std::net::Ipv4Addr::new(10, 100, 0, 1),
};

fn guest(port: &str, last: u8) -> Guest {
    Guest {
        port: port.to_owned(),
        mac: format!("52:54:00:10:00:{last:02x}").parse().expect("a MAC"),
        ip: std::net::Ipv4Addr::new(10, 100, 0, last),
        group: None,
    }
}

fn end(guest: &Guest) -> End {
    End {
        mac: mac(guest.mac.as_str()),
        ip: guest.ip,
    }
}

/// Who sends the second guest what it waits for: the host, or the first guest.
#[derive(Clone, Copy, PartialEq)]
enum Sender {
    Host,
    Guest,
}

/// A kind of switch.
#[derive(Debug, Clone, Copy)]
enum Switch {
    LinuxBridge,
    /// With the name of its datapath.
    OpenVswitch(&'static str),
}

impl Switch {
    /// Makes the switch `br0` with both ports. Ends with what has to be undone.
    fn made(self, folder: &str) -> String {
        let [a, b] = PORTS;
        match self {
            Self::LinuxBridge => format!(
                "ip link add br0 address 02:00:00:00:00:01 type bridge mcast_snooping 0\n\
                 for port in {a} {b}; do ip link set $port master br0; done\n"
            ),
            Self::OpenVswitch(datapath) => format!(
                "export OVS_RUNDIR={folder} OVS_LOGDIR={folder}\n\
                 trap 'kill $(cat {folder}/ovs-vswitchd.pid {folder}/ovsdb-server.pid)' EXIT\n\
                 ovsdb-tool create {folder}/conf.db /usr/share/openvswitch/vswitch.ovsschema\n\
                 ovsdb-server {folder}/conf.db --remote=punix:{folder}/db.sock --pidfile --detach --no-chdir --log-file\n\
                 ovs-vsctl --no-wait init\n\
                 ovs-vswitchd --pidfile --detach --no-chdir --log-file\n\
                 ovs-vsctl --timeout=20 add-br br0 -- set bridge br0 datapath_type={datapath} fail-mode=secure \
                 other-config:hwaddr=02:00:00:00:00:01 \
                 -- add-port br0 {a} -- set interface {a} ofport_request=1 \
                 -- add-port br0 {b} -- set interface {b} ofport_request=2\n"
            ),
        }
    }

    /// The rules of these guests; without guests those of a switch that passes everything.
    fn rules(self, guests: &[Guest]) -> String {
        match (self, guests) {
            (Self::LinuxBridge, []) => String::new(),
            (Self::LinuxBridge, _) => document_of_linux_bridge(&Network::default(), guests),
            (Self::OpenVswitch(_), []) => "actions=NORMAL\n".to_owned(),
            (Self::OpenVswitch(_), _) => {
                let numbered: Vec<_> = (1..).zip(guests.iter().cloned()).collect();
                flows_of_open_vswitch(&numbered)
            }
        }
    }

    fn take(self, rules: &str) -> String {
        match self {
            Self::LinuxBridge => format!("nft -f {rules}"),
            Self::OpenVswitch(_) => format!("ovs-ofctl --bundle replace-flows br0 {rules}"),
        }
    }
}

/// Sends the forged frames and an honest one from the first guest, and one to the second. Returns what the host and the
/// second guest heard until each heard what it waits for.
fn heard(switch: Switch, guests: &[Guest], until: [&str; 2], sender: Sender) -> [String; 2] {
    let runs = gpuaas_dev::paths::run_dir().join("test");
    gpuaas_dev::paths::ensure_dir(&runs).expect("a folder");
    let folder = tempfile::Builder::new()
        .prefix("links-")
        .tempdir_in(&runs)
        .expect("a folder");
    let program = frame_program(&runs).display().to_string();
    let [own, other] = ends();
    let rules = folder.path().join("rules");
    std::fs::write(&rules, switch.rules(guests)).expect("a file");
    let mut frames: Vec<String> = forged(own, other, GATEWAY)
        .into_iter()
        .map(|(_, frame)| frame)
        .collect();
    frames.extend(fragments(own, other));
    let name = folder.path().display().to_string();
    let [a, b] = PORTS;
    let script = format!(
        "set -e\n\
         ip link set lo up\n\
         ip link add {a} type veth peer name end-a\n\
         ip link add {b} type veth peer name end-b\n\
         {switch}\
         for link in {a} {b} end-a end-b br0; do ip link set $link up; done\n\
         {rules}\n\
         {program} listen br0 {sent} 20 > {name}/br0 2>&1 & host=$!\n\
         {program} listen end-b {reported} 20 > {name}/end-b 2>&1 & guest=$!\n\
         until grep -q listening {name}/br0 && grep -q listening {name}/end-b; do :; done\n\
         {program} send end-a {forged} {honest}\n\
         {program} send {sender} {answer}\n\
         wait $host $guest\n",
        switch = switch.made(&name),
        rules = switch.take(&rules.display().to_string()),
        sent = hex::encode(until[0]),
        reported = hex::encode(until[1]),
        forged = frames.join(" "),
        honest = honest(own, GATEWAY, "honest"),
        sender = match sender {
            Sender::Host => "br0",
            Sender::Guest => "end-a",
        },
        answer = match sender {
            Sender::Host => honest(GATEWAY, other, "answer"),
            Sender::Guest => honest(own, other, "answer"),
        },
    );
    let ran = Command::new("unshare")
        .args(["--net", "sh", "-c", &script])
        .output()
        .expect("unshare");
    assert!(
        ran.status.success(),
        "{switch:?}: {}",
        String::from_utf8_lossy(&ran.stderr)
    );
    ["br0", "end-b"]
        .map(|name| std::fs::read_to_string(folder.path().join(name)).expect("what was heard"))
}

fn ends() -> [End; 2] {
    [end(&guest(PORTS[0], 10)), end(&guest(PORTS[1], 11))]
}

/// Nothing forged comes through, of one group or not; without the rules it does.
fn passes_no_forged_frame(switch: Switch) {
    let alone = [guest(PORTS[0], 10), guest(PORTS[1], 11)];
    let group = Some(NetworkGroup(uuid::Uuid::now_v7()));
    let together = alone.clone().map(|guest| Guest { group, ..guest });
    let mark = hex::encode(FORGED);
    let [own, other] = ends();
    let to_host_too = fragments(own, other);
    // in one group the neighbour gets what is honest from the guest itself, and nothing else
    for (guests, sender) in [(alone, Sender::Host), (together, Sender::Guest)] {
        let all_heard = heard(switch, &guests, ["honest", "answer"], sender);
        for (who, heard) in ["the host", "the neighbour"].iter().zip(all_heard) {
            assert!(
                heard.ends_with("end\n"),
                "{switch:?}: {who} hears what is honest: {heard}"
            );
            let may = |line: &&str| {
                *who == "the host" && to_host_too.iter().any(|frame| line.starts_with(frame))
            };
            let forged: Vec<_> = heard
                .lines()
                .filter(|line| line.contains(&mark) && !may(line))
                .collect();
            assert!(forged.is_empty(), "{switch:?}: {who} got {forged:#?}");
        }
    }
    for heard in heard(switch, &[], [FORGED, FORGED], Sender::Host) {
        assert!(heard.ends_with("end\n"), "{switch:?}: {heard}");
    }
}

async fn p11_a_linux_bridge_passes_no_forged_frame() {
    passes_no_forged_frame(Switch::LinuxBridge);
}

async fn p11_open_vswitch_in_user_space_passes_no_forged_frame() {
    passes_no_forged_frame(Switch::OpenVswitch("netdev"));
}

async fn p11_open_vswitch_of_the_kernel_passes_no_forged_frame() {
    let _absent_is_told_below = Command::new("modprobe").arg("openvswitch").output();
    if !Path::new("/sys/module/openvswitch").exists() {
        println!("skipped: the kernel of this machine has no Open vSwitch");
        return;
    }
    passes_no_forged_frame(Switch::OpenVswitch("system"));
}
