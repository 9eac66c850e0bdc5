//! The rules of hosts whose switch is a Linux bridge, on a real one, in a network of its own without a VM: two links play
//! the guests' ports, and whoever is at their other ends sends and hears frames.
use std::path::Path;
use std::process::Command;

use gpuaas_agent::ids::NetworkGroup;
use gpuaas_agent::settings::Network;
use gpuaas_agent::wire::{Guest, document_of_linux_bridge};
use gpuaas_tests::runner::{Case, Place};

use super::attacker::frame_program;
use super::frames::{End, FORGED, forged, honest, mac};

/// The tests of this file, with the seconds that each usually takes.
pub fn cases() -> Vec<Case> {
    gpuaas_tests::cases![Place::Host;
        p11_a_linux_bridge_passes_no_forged_frame: 4,
    ]
}

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

/// Sends the forged frames and an honest one from the first guest, and one to the second. Returns what the host and the
/// second guest heard until each heard what it waits for.
fn heard(folder: &Path, rules: &str, until: [&str; 2], sender: Sender) -> [String; 2] {
    let guests = [guest("gs0123456789aa", 10), guest("gs0123456789bb", 11)];
    let [own, other] = [end(&guests[0]), end(&guests[1])];
    let program = frame_program(folder).display().to_string();
    let document = folder.join("rules.nft");
    std::fs::write(&document, rules).expect("a file");
    let forged: Vec<String> = forged(own, other, GATEWAY)
        .into_iter()
        .map(|(_, frame)| frame)
        .collect();
    let script = format!(
        "set -e\n\
         ip link add br0 address 02:00:00:00:00:01 type bridge mcast_snooping 0\n\
         for side in a b; do ip link add gs0123456789$side$side type veth peer name end-$side; \
         ip link set gs0123456789$side$side master br0 up; ip link set end-$side up; done\n\
         ip link set br0 up\n\
         nft -f {rules}\n\
         for at in br0 end-b; do {program} listen $at $([ $at = br0 ] && echo {sent} || echo {told}) 20 \
         > {folder}/$at 2>&1 & done\n\
         until grep -q listening {folder}/br0 && grep -q listening {folder}/end-b; do :; done\n\
         {program} send end-a {forged} {honest}\n\
         {program} send {sender} {answer}\n\
         wait\n",
        rules = document.display(),
        folder = folder.display(),
        sent = hex::encode(until[0]),
        told = hex::encode(until[1]),
        forged = forged.join(" "),
        honest = honest(own, GATEWAY, "honest"),
        sender = if sender == Sender::Host {
            "br0"
        } else {
            "end-a"
        },
        answer = if sender == Sender::Host {
            honest(GATEWAY, other, "answer")
        } else {
            honest(own, other, "answer")
        },
    );
    let ran = Command::new("unshare")
        .args(["--net", "sh", "-c", &script])
        .output()
        .expect("unshare");
    assert!(
        ran.status.success(),
        "{}",
        String::from_utf8_lossy(&ran.stderr)
    );
    ["br0", "end-b"].map(|name| std::fs::read_to_string(folder.join(name)).expect("what was heard"))
}

async fn p11_a_linux_bridge_passes_no_forged_frame() {
    let folder = gpuaas_dev::paths::run_dir().join("test/linux-bridge");
    gpuaas_dev::paths::ensure_dir(&folder).expect("a folder");
    let alone = [guest("gs0123456789aa", 10), guest("gs0123456789bb", 11)];
    let group = Some(NetworkGroup(uuid::Uuid::now_v7()));
    let together = alone.clone().map(|guest| Guest { group, ..guest });
    let mark = hex::encode(FORGED);
    // in one group the neighbour gets what is honest from the guest itself, and nothing else
    for (guests, sender) in [(alone, Sender::Host), (together, Sender::Guest)] {
        let rules = document_of_linux_bridge(&Network::default(), &guests);
        let all_heard = heard(&folder, &rules, ["honest", "answer"], sender);
        for (who, heard) in ["the host", "the neighbour"].iter().zip(all_heard) {
            assert!(
                heard.ends_with("end\n"),
                "{who} hears what is honest: {heard}"
            );
            let forged: Vec<_> = heard.lines().filter(|line| line.contains(&mark)).collect();
            assert!(forged.is_empty(), "{who} got {forged:#?}");
        }
    }
    // without the rules both hear it: it is the rules that drop
    for heard in heard(&folder, "", [FORGED, FORGED], Sender::Host) {
        assert!(heard.ends_with("end\n"), "{heard}");
    }
}
