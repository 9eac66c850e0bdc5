//! The lab host as part of a stack: its agent's settings and its start.

use std::path::PathBuf;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::lab::Lab;
use crate::part::{Change, file_identity};
use crate::paths;
use crate::stack::services::in_toml;
use crate::stack::{Progress, Stack};

impl Stack {
    /// Starts a lab host and its agent as wanted, and returns once the host is ready. The agent enrols by itself
    /// with the token in [`Lab::token_file`].
    ///
    /// # Errors
    /// The host does not get ready; the error shows the end of its log.
    pub async fn lab_up(&self, lab: &Lab, progress: Progress<'_>) -> Result<()> {
        lab.network_up()?;
        lab.prepare()?;
        self.write_agent_config(lab)?;
        let part = lab.part();
        if part.running().is_none() {
            lab.forget_ready();
        }
        match part.ensure()? {
            Change::Unchanged => self.refresh_agent(lab, progress)?,
            Change::Started => progress(&format!("{} started", lab.hostname())),
            Change::Restarted => progress(&format!(
                "{} restarted: its scripts changed",
                lab.hostname()
            )),
        }
        self.remember_agent(lab)?;
        part.wait_ready(&self.health).await
    }

    fn write_agent_config(&self, lab: &Lab) -> Result<()> {
        let secrets = self.options.root.join("secrets");
        let setting = self.setting(&secrets, PathBuf::new())?;
        let folder = lab.folder();
        let mut file = setting.agent(lab.agent_address(), &lab.agent_folder());
        let disks = lab.disks()?.into_iter();
        let disks: Vec<Value> = disks
            .map(|disk| json!({"id": disk.id.to_string(), "backing_file": disk.file}))
            .collect();
        file["agent"] = json!({
            "state_dir": lab.agent_folder(),
            "advertised_address": lab.agent_address(),
            "profile": {"name": "lab", "lab": true, "hypervisor": "qemu", "cpu_model": "qemu64"},
            "network": {
                "bridge": "ovsbr0",
                "bridge_kind": "ovs",
                "datapath": "netdev",
                "gateway": "10.100.0.1/24",
                "host_services": ["dhcp", "metadata"],
            },
            // the link between this machine and the host is nobody else's
            "ingress": {"address": lab.host_address(), "ports": "30000-30099"},
            "dhcp": {
                "hosts_dir": folder.join("run/dnsmasq.d"),
                "leases_file": folder.join("run/dnsmasq.leases"),
                "pid_file": folder.join("run/dnsmasq.pid"),
            },
            "relay": {"key_file": folder.join("terminal/id_ed25519")},
            "access": {"host": lab.host_address(), "port_base": lab.ssh_base()},
            "enrolment": {"token_file": lab.token_file()},
            "lab_disks": disks,
        });
        let text = in_toml(&file)?;
        paths::write_with_mode(&lab.agent_config(), text.as_bytes(), 0o644)
    }

    /// Restarts the agent alone when only its program or settings changed: guests keep running.
    fn refresh_agent(&self, lab: &Lab, progress: Progress<'_>) -> Result<()> {
        let recorded = std::fs::read_to_string(self.agent_stamp(lab)).unwrap_or_default();
        if recorded == self.agent_fingerprint(lab)? {
            return Ok(());
        }
        if let Some(agent) = lab.agent_process() {
            agent.stop(Signal::SIGTERM, Duration::from_secs(15));
            progress("agent restarted: its program or settings changed");
        }
        Ok(())
    }

    fn remember_agent(&self, lab: &Lab) -> Result<()> {
        let fingerprint = self.agent_fingerprint(lab)?;
        paths::write_with_mode(&self.agent_stamp(lab), fingerprint.as_bytes(), 0o644)
    }

    fn agent_fingerprint(&self, lab: &Lab) -> Result<String> {
        let config = lab.agent_config();
        let config = std::fs::read_to_string(&config).map_err(Error::file("read", &config))?;
        let program = file_identity(&self.program("gpuaas-node-agent"))?;
        Ok(format!("{program:?}\n{config}"))
    }

    fn agent_stamp(&self, lab: &Lab) -> PathBuf {
        let name = format!("{}.stamp", lab.part_name("agent"));
        self.options.root.join("pids").join(name)
    }
}
