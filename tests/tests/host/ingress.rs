//! Ingress mappings on a lab host (J-13): a service of a VM is reached from outside through the port that its tenant opened, and
//! through no port that is closed, expired or somebody else's.
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;

use gpuaas_tests::api::text;
use gpuaas_tests::runner::{Case, Place};
use gpuaas_tests::system::{System, TIMEOUT};
use gpuaas_tests::until::until;
use reqwest::Method;
use serde_json::{Value, json};

/// The tests of this file, with the seconds that each usually takes.
pub fn cases() -> Vec<Case> {
    gpuaas_tests::cases![Place::System;
        j_13_l_16_a_service_of_a_vm_is_reached_through_its_open_port_and_through_no_other: 25,
    ]
}

/// Longest wait for an answer of a service that is reached.
const ANSWER: Duration = Duration::from_secs(3);
/// After it, whatever was on its way is here.
const QUIET: Duration = Duration::from_millis(500);

/// The mappings of one allocation, and where they lead.
struct Ingress<'a> {
    system: &'a System,
    allocation: String,
}

impl Ingress<'_> {
    fn path(&self, rest: &str) -> String {
        format!(
            "/api/v1/allocations/{}/ingress-mappings{rest}",
            self.allocation
        )
    }

    /// Opens port 22 of the VM, once the host has said what the platform may open, and waits until it is open.
    async fn open(&self, config: Value) -> Value {
        let made = until("ingress to be on", TIMEOUT, async || {
            let body = json!({ "config": config });
            let key = uuid::Uuid::now_v7().to_string();
            let path = self.path("");
            let call = self
                .system
                .user
                .call(Method::POST, &path, Some(&key), Some(body));
            match call.await {
                Ok(made) => Some(made),
                Err(refusal) if refusal.reason() == "INGRESS_OFF" => None,
                Err(refusal) => panic!("{}", refusal.body),
            }
        })
        .await;
        let path = self.path(&format!("/{}", text(&made, "/id")));
        until("the port to be open", TIMEOUT, async || {
            let now = self.system.user.get(&path).await.expect("the mapping");
            assert_ne!(text(&now, "/status/state"), "failed", "{now}");
            (text(&now, "/status/state") == "active").then_some(now)
        })
        .await
    }

    /// Closes a port, and waits until the host has closed it.
    async fn close(&self, mapping: &Value) {
        let id = text(mapping, "/id");
        let path = self.path(&format!("/{id}"));
        let closed = self
            .system
            .user
            .call(Method::DELETE, &path, Some(id), None)
            .await;
        closed.unwrap_or_else(|refusal| panic!("{}", refusal.body));
        until("the port to be closed", TIMEOUT, async || {
            self.system.user.get(&path).await.err().map(drop)
        })
        .await;
    }
}

/// Where a mapping is reached.
fn external(mapping: &Value) -> SocketAddr {
    let address: IpAddr = text(mapping, "/status/external_address")
        .parse()
        .expect("an address");
    let port = mapping["status"]["external_port"]
        .as_u64()
        .and_then(|port| u16::try_from(port).ok());
    SocketAddr::new(address, port.expect("a port"))
}

/// A connection to the SSH server of the VM, which speaks first; none: nothing answers there.
fn greeted(at: SocketAddr) -> Option<TcpStream> {
    let mut connection = TcpStream::connect_timeout(&at, ANSWER).ok()?;
    connection.set_read_timeout(Some(ANSWER)).expect("a time");
    let mut greeting = [0; 4];
    connection.read_exact(&mut greeting).ok()?;
    (greeting == *b"SSH-").then_some(connection)
}

/// Whether the other end of a connection gets what is sent on it: an SSH server that is sent nonsense hangs up.
fn goes_on(mut connection: TcpStream) -> bool {
    connection.set_read_timeout(Some(QUIET)).expect("a time");
    // what came before
    while matches!(connection.read(&mut [0; 1024]), Ok(1..)) {}
    connection.set_read_timeout(Some(ANSWER)).expect("a time");
    let nonsense = [b"SSH-2.0-test\r\n".as_slice(), &[0xff; 64]].concat();
    if connection.write_all(&nonsense).is_err() {
        return true;
    }
    loop {
        match connection.read(&mut [0; 1024]) {
            Ok(1..) => {}
            Ok(0) => return true,
            Err(error) => return error.kind() == ErrorKind::ConnectionReset,
        }
    }
}

/// D-80
async fn j_13_l_16_a_service_of_a_vm_is_reached_through_its_open_port_and_through_no_other() {
    let system = System::get().await;
    let lab = &system.hosts[0].lab;
    let sh = |command: &str| lab.exec("sh", &["-c", command]).expect(command);
    let allocation = system
        .user
        .launch("ingress", "lab-mini", &system.public_key)
        .await;
    system
        .user
        .wait_state(&allocation, &["active"], TIMEOUT)
        .await;
    let ingress = Ingress {
        system: &system,
        allocation,
    };

    let open = ingress
        .open(json!({ "protocol": "tcp", "vm_port": 22 }))
        .await;
    let at = external(&open);
    assert_eq!(at.ip(), lab.host_address());
    assert!(goes_on(greeted(at).expect("it is reached")));
    let beside = SocketAddr::new(at.ip(), if at.port() == 30_000 { 30_001 } else { 30_000 });
    assert!(greeted(beside).is_none(), "no mapping has it");

    // only for whom it is opened
    let foreign = ingress
        .open(json!({ "protocol": "tcp", "vm_port": 22, "source_cidrs": ["192.0.2.0/24"] }))
        .await;
    assert!(greeted(external(&foreign)).is_none());
    let machine = format!("{}/32", lab.machine_address());
    let own = ingress
        .open(json!({ "protocol": "tcp", "vm_port": 22, "source_cidrs": [machine] }))
        .await;
    assert!(greeted(external(&own)).is_some());
    ingress.close(&foreign).await;

    // another hand flushes the rules; the agent is restarted
    let restored = || {
        let metrics = sh("curl -sf http://127.0.0.1:7210/metrics");
        let line = metrics
            .lines()
            .find(|line| line.starts_with("agent_network_rules_restored_total"));
        let value = line.and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
        value.expect("the metric")
    };
    let before = restored();
    sh("nft flush chain inet gpuaas_guests ingress_ports");
    until("the rules to be restored", TIMEOUT, async || greeted(at)).await;
    until("the restoration to be counted", TIMEOUT, async || {
        (restored() > before).then_some(())
    })
    .await;
    let agent = lab.agent_process().expect("an agent");
    agent.stop(nix::sys::signal::Signal::SIGKILL, Duration::from_secs(5));
    sh("nft delete table inet gpuaas_guests");
    until("the rules to be there again", TIMEOUT, async || greeted(at)).await;

    // a connection ends with its mapping
    let connection = greeted(at).expect("it is reached");
    ingress.close(&open).await;
    assert!(!goes_on(connection), "a connection of before is cut");
    assert!(greeted(at).is_none(), "it is closed");
    let still = greeted(external(&own));
    assert!(still.is_some(), "the other one stays");

    system.user.release(&ingress.allocation).await;
    system
        .user
        .wait_state(&ingress.allocation, &["released"], TIMEOUT)
        .await;
    assert!(
        greeted(external(&own)).is_none(),
        "it ended with its allocation"
    );
    let rules = sh("nft list table inet gpuaas_guests");
    assert!(!rules.contains("dnat ip to"), "{rules}");
    system.assert_nothing_left().await;
}
