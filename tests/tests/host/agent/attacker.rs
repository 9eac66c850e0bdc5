//! What a tenant does with root in its own VM: programs brought along, run, and heard.
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use gpuaas_dev::{paths, process};
use gpuaas_proto::gpuaas::agent::v1 as pb;
use uuid::Uuid;

use super::frames::{End, mac};
use super::host::{LabHost, Tenant, until};

/// Where the program is in a guest.
const PROGRAM: &str = "/tmp/frame";

/// The program that sends and hears frames, built into this folder unless it is there.
pub fn frame_program(folder: &Path) -> PathBuf {
    let program = folder.join("frame");
    if !program.exists() {
        let source = paths::checkout().join("tests/guest/frame.c");
        let (source, out) = (source.display().to_string(), program.display().to_string());
        let arguments = [
            "-static",
            "-O2",
            "-Wall",
            "-Werror",
            "-D_GNU_SOURCE",
            "-o",
            &out,
            &source,
        ];
        process::run("cc", &arguments).expect("a C compiler");
    }
    program
}

impl LabHost {
    fn frame_program(&self) -> PathBuf {
        frame_program(&self.folder)
    }

    /// Brings the program into a guest.
    pub fn arm(&self, tenant: &Tenant) {
        let program = std::fs::read(self.frame_program()).expect("the program");
        let take = format!("cat > {PROGRAM} && chmod 755 {PROGRAM}");
        let output = self.ssh_with(tenant, &take, &program);
        assert!(output.status.success(), "{output:?}");
    }

    fn ssh_with(&self, tenant: &Tenant, command: &str, input: &[u8]) -> Output {
        let mut ssh = self.ssh_command(tenant, command);
        ssh.stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = ssh.spawn().expect("ssh");
        let mut stdin = child.stdin.take().expect("a pipe");
        stdin.write_all(input).expect("the guest reads");
        drop(stdin);
        child.wait_with_output().expect("ssh")
    }

    /// What a command says that the tenant runs as root.
    pub fn root(&self, tenant: &Tenant, command: &str) -> String {
        // by its path: the shell's own su has no rights to give. The words come by standard input: no quotes of ours meet
        // those of a shell
        let output = self.ssh_with(tenant, "/bin/su -c sh", command.as_bytes());
        assert!(output.status.success(), "{command}: {output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Sends frames from a guest.
    pub fn send<'a>(&self, tenant: &Tenant, frames: impl IntoIterator<Item = &'a String>) {
        let frames: Vec<&str> = frames.into_iter().map(String::as_str).collect();
        self.root(tenant, &format!("{PROGRAM} send eth0 {}", frames.join(" ")));
    }

    /// Sends a frame from the host's end of the switch.
    pub fn send_from_host(&self, frame: &str) {
        let program = self.frame_program().display().to_string();
        let sent = self.lab.exec(&program, &["send", "ovsbr0", frame]);
        sent.expect("the host sends");
    }

    /// Begins to hear all that comes to a guest, until a frame holds this text.
    pub async fn hear_in_guest(&self, tenant: &Tenant, text: &str) {
        let hex = hex::encode(text);
        self.root(
            tenant,
            &format!(
                "rm -f /tmp/heard; {PROGRAM} listen eth0 {hex} 60 > /tmp/heard 2>&1 < /dev/null &\n"
            ),
        );
        let listens = "cat /tmp/heard";
        until("the guest to listen", async || {
            self.root(tenant, listens)
                .contains("listening")
                .then_some(())
        })
        .await;
    }

    /// All that came to a guest, once what it waited for has come.
    pub async fn heard_in_guest(&self, tenant: &Tenant) -> String {
        until("the guest to hear the end", async || {
            let heard = self.root(tenant, "cat /tmp/heard");
            assert!(
                !heard.contains("in vain"),
                "the guest heard nothing of the host: {heard}"
            );
            heard.contains("end\n").then_some(heard)
        })
        .await
    }

    /// Begins to hear all that comes to the host from its switch.
    pub async fn hear_on_host(&self, text: &str) {
        let heard = self.folder.join("heard");
        let _absent_is_fine = std::fs::remove_file(&heard);
        let line = format!(
            "{} listen ovsbr0 {} 60 > {} 2>&1 < /dev/null &",
            self.frame_program().display(),
            hex::encode(text),
            heard.display()
        );
        self.lab
            .exec("sh", &["-c", &line])
            .expect("the host listens");
        until("the host to listen", async || {
            std::fs::read_to_string(&heard)
                .ok()?
                .contains("listening")
                .then_some(())
        })
        .await;
    }

    /// All that came to the host.
    pub async fn heard_on_host(&self) -> String {
        until("the host to hear the end", async || {
            let heard = std::fs::read_to_string(self.folder.join("heard")).ok()?;
            assert!(
                !heard.contains("in vain"),
                "the host heard nothing of the guest: {heard}"
            );
            heard.contains("end\n").then_some(heard)
        })
        .await
    }

    /// What a guest finds open, refused or silent: "open 10.100.0.1:22".
    pub fn scan(&self, tenant: &Tenant, targets: &[String]) -> Vec<String> {
        let reported = self.root(tenant, &format!("{PROGRAM} scan 4 {}", targets.join(" ")));
        reported.lines().map(str::to_owned).collect()
    }

    /// The guest's end of the wire.
    pub fn end_of(&self, tenant: &Tenant) -> End {
        let bindings = tenant.slot.bindings.clone().expect("bindings");
        End {
            mac: mac(&bindings.management_mac),
            ip: bindings.private_ip.parse().expect("an address"),
        }
    }

    /// Hardware address of a device of the host: the bridge, or a guest's port on it.
    pub fn device_mac(&self, device: &str) -> [u8; 6] {
        let file = format!("/sys/class/net/{device}/address");
        mac(&self.lab.exec("cat", &[&file]).expect("an address"))
    }

    /// The host keys that whoever answers at the tenant's port shows.
    pub fn host_keys(&self, tenant: &Tenant) -> Vec<String> {
        let port = self.ssh_port(tenant.slot.slot_index);
        let host = self.lab.host_address().to_string();
        let shown =
            process::run("ssh-keyscan", &["-T", "20", "-p", &port, &host]).expect("ssh-keyscan");
        let keys = shown.lines().filter_map(|line| line.split_once(' '));
        keys.map(|(_, key)| key.trim().to_owned()).collect()
    }

    /// Begins a reboot of the VM by the host, which must meet these host keys after it.
    pub async fn reboot(&self, tenant: &Tenant, ssh_host_keys: &[String]) -> Uuid {
        let lease_id = self
            .leased(tenant.allocation, &tenant.slot, pb::LeasePurpose::Power)
            .await;
        let operation = Uuid::now_v7();
        let request = pb::PowerRequest {
            operation_id: operation.to_string(),
            lease_id,
            allocation_id: tenant.allocation.to_string(),
            graceful_timeout: Some(prost_types::Duration {
                seconds: 20,
                nanos: 0,
            }),
            guest_user: super::host::USER.to_owned(),
            boot_timeout: Some(prost_types::Duration {
                seconds: 120,
                nanos: 0,
            }),
            budget: Some(prost_types::Duration {
                seconds: 300,
                nanos: 0,
            }),
            ssh_host_keys: ssh_host_keys.to_vec(),
            ..pb::PowerRequest::default()
        };
        self.vms().reboot(request).await.expect("reboot begins");
        operation
    }

    fn ssh_command(&self, tenant: &Tenant, command: &str) -> Command {
        let mut ssh = Command::new("ssh");
        ssh.args(self.ssh_arguments(tenant)).arg(command);
        ssh
    }
}
