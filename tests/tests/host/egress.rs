//! The way out of a VM as its guest sees it (J-27): by its own packet it reaches an address beyond the host, which sees the host,
//! and without the host's NAT the check of its image fails and says so.
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex};

use gpuaas_dev::lab::Lab;
use gpuaas_dev::process;
use gpuaas_tests::api::text;
use gpuaas_tests::runner::{Case, Place};
use gpuaas_tests::system::{System, TIMEOUT};
use gpuaas_tests::until::until;
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::broken::Broken;
use crate::slice::register_checked;

/// The tests of this file, with the seconds that each usually takes.
pub fn cases() -> Vec<Case> {
    gpuaas_tests::cases![Place::System;
        j_27_a_guest_reaches_the_outside_by_its_own_packet_and_is_not_ready_without_nat: 50,
    ]
}

/// An address that guests may reach: of no private network. The machine has it while the test runs.
const ADDRESS: Ipv4Addr = Ipv4Addr::new(25, 11, 0, 2);
/// The same in every run, since the image that asks there stays.
const PORT: u16 = 5027;

/// A server beyond the host, which says to each caller with which address it came.
struct Outside<'a> {
    lab: &'a Lab,
    seen: Arc<Mutex<Vec<IpAddr>>>,
    serving: JoinHandle<()>,
}

impl<'a> Outside<'a> {
    async fn listen(lab: &'a Lab) -> Self {
        let address = format!("{ADDRESS}/32");
        process::run("ip", &["addr", "replace", &address, "dev", "lo"]).expect("an address");
        let machine = lab.machine_address().to_string();
        let route = ["route", "replace", address.as_str(), "via", &machine];
        lab.exec("ip", &route).expect("a way to it");
        let listener = TcpListener::bind((ADDRESS, PORT)).await.expect("a port");
        let seen = Arc::new(Mutex::new(Vec::new()));
        let callers = Arc::clone(&seen);
        let serving = tokio::spawn(async move {
            while let Ok((mut caller, from)) = listener.accept().await {
                callers.lock().expect("not poisoned").push(from.ip());
                let said = caller.write_all(seen_as(from.ip()).as_bytes()).await;
                drop(said.and(Ok(caller)));
            }
        });
        Self { lab, seen, serving }
    }

    /// With which addresses it was called since the last time.
    fn take_seen(&self) -> Vec<IpAddr> {
        std::mem::take(&mut *self.seen.lock().expect("not poisoned"))
    }
}

impl Drop for Outside<'_> {
    fn drop(&mut self) {
        self.serving.abort();
        let address = format!("{ADDRESS}/32");
        let _gone_is_fine = process::run("ip", &["addr", "del", &address, "dev", "lo"]);
        let _gone_is_fine = self.lab.exec("ip", &["route", "del", &address]);
    }
}

fn seen_as(address: IpAddr) -> String {
    format!("seen as {address}\n")
}

async fn j_27_a_guest_reaches_the_outside_by_its_own_packet_and_is_not_ready_without_nat() {
    let system = System::get().await;
    let host = &system.hosts[0];
    let outside = Outside::listen(&host.lab).await;
    let of_host = host.lab.host_address();
    let ask = format!("nc -w 5 {ADDRESS} {PORT} < /dev/null");
    let expected = seen_as(of_host).trim().to_owned();
    let check = json!({
        "name": "egress", "command": ask, "expected_text": expected, "timeout_seconds": 15,
    });
    let image = "lab-egress";
    register_checked(&system, image, json!([check])).await;

    let id = system.user.launch("out", image, &system.public_key).await;
    let active = system
        .user
        .wait_state(&id, &["active", "failed"], TIMEOUT)
        .await;
    assert_eq!(active["status"]["state"], "active", "{active}");
    let results = active["status"]["readiness_checks"].to_string();
    assert!(results.contains(&expected), "{results}");
    assert!(outside.take_seen().contains(&of_host));
    // its owner tries it, too: the guest has another address
    let own = system.said(&active, "ip -4 -o addr show dev eth0");
    assert!(own.contains(" 10.100.0."), "{own}");
    assert_eq!(system.said(&active, &ask), expected);
    assert_eq!(outside.take_seen(), [of_host]);
    system.user.release(&id).await;
    system.user.wait_state(&id, &["released"], TIMEOUT).await;

    // the host was well when the VM was placed on it
    let id = system.user.launch("shut", image, &system.public_key).await;
    let provisioning = system
        .user
        .wait_state(&id, &["provisioning"], TIMEOUT)
        .await;
    let vm = text(&provisioning, "/status/vm");
    // and when its VM started: a host that is not well is given no lease
    until("the VM to start", TIMEOUT, async || {
        let names = ["-q", "-c", "qemu:///system", "list", "--name"];
        let running = host.lab.exec("virsh", &names).ok()?;
        running.lines().any(|name| name == vm).then_some(())
    })
    .await;
    let broken = Broken::new(
        &host.lab,
        "nft flush chain ip gpuaas postrouting",
        "nft list chain ip gpuaas postrouting | grep -q masquerade ||
         nft add rule ip gpuaas postrouting ip saddr 10.100.0.0/24 oifname != ovsbr0 masquerade",
    );
    let failed = system
        .user
        .wait_state(&id, &["active", "failed"], TIMEOUT)
        .await;
    assert_eq!(
        text(&failed, "/status/failure/reason"),
        "GUEST_NOT_READY",
        "{failed}"
    );
    let message = text(&failed, "/status/failure/message");
    assert!(
        message.contains("Check egress: The command ended with exit status 1."),
        "{message}"
    );
    assert_eq!(outside.take_seen(), Vec::<IpAddr>::new());

    broken.repair();
    system.wait_schedulable(host).await;
    let slots = system.slots().await;
    let index = slots
        .iter()
        .position(|slot| slot["status"] == "cleanup_blocked")
        .expect("one slot is blocked");
    system.repair(&slots[index]).await;
    system.wait_slot(index, "available").await;
    system.assert_nothing_left().await;
}
