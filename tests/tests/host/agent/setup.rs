//! What lies on a lab host before its agent starts: settings, and what an enrolment would have left.
use std::path::Path;

use gpuaas_dev::ca::Authority;
use gpuaas_dev::lab::Lab;
use gpuaas_dev::paths;
use uuid::Uuid;

/// What enrolment would have left.
pub fn enrol(lab: &Lab, authority: &Authority, node_id: Uuid, instance_id: Uuid) {
    let identity = authority.host(node_id, instance_id).expect("identity");
    let tls = lab.agent_folder().join("tls");
    paths::ensure_dir(&tls).expect("folder");
    for (from, to) in [
        (&identity.certificate, "cert.pem"),
        (&identity.key, "key.pem"),
    ] {
        paths::write_secret(&tls.join(to), &std::fs::read(from).expect("pem")).expect("pem");
    }
    let text = format!(r#"{{"node_id":"{node_id}","instance_id":"{instance_id}"}}"#);
    paths::write_secret(&lab.agent_folder().join("identity.json"), text.as_bytes())
        .expect("identity");
}

pub fn settings(lab: &Lab, folder: &Path, ssh_port: u16) -> String {
    let state = lab.agent_folder();
    let run = folder.join("lab/run");
    let disks: String = lab
        .disks()
        .expect("disks")
        .iter()
        .map(|disk| {
            format!(
                "[[agent.lab_disks]]\nid = \"{}\"\nbacking_file = {:?}\n",
                disk.id, disk.file
            )
        })
        .collect();
    format!(
        r#"
cell = 1
[server]
listen = ["{address}"]
metrics_listen = "127.0.0.1:7210"
[tls]
ca_file = {ca:?}
cert_file = {cert:?}
key_file = {key:?}
[peers]
inventory = "https://{machine}:1"
inventory-enrolment = "https://{machine}:1"
[agent]
state_dir = {state:?}
advertised_address = "{address}"
[agent.profile]
name = "lab"
lab = true
hypervisor = "qemu"
cpu_model = "qemu64"
[agent.network]
datapath = "netdev"
host_services = ["dhcp", "metadata"]
[agent.dhcp]
hosts_dir = {hosts:?}
leases_file = {leases:?}
pid_file = {pid:?}
[agent.relay]
key_file = {relay:?}
[agent.access]
host = "127.0.0.1"
port_base = {ssh_port}
[agent.telemetry]
pause_ms = 2000
{disks}"#,
        address = lab.agent_address(),
        machine = lab.machine_address(),
        ca = folder.join("pki/ca.pem"),
        cert = state.join("tls/cert.pem"),
        key = state.join("tls/key.pem"),
        hosts = run.join("dnsmasq.d"),
        leases = run.join("dnsmasq.leases"),
        pid = run.join("dnsmasq.pid"),
        relay = folder.join("lab/terminal/id_ed25519"),
    )
}
