//! The lab host: a sandbox on this machine that plays one GPU node without a GPU.
//!
//! It has its own network, mount and PID namespaces. A veth pair with addresses of the shared address space
//! (100.64.0.0/10) joins it to the machine; the machine's own interfaces and routes are never touched.

mod disks;
mod network;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::error::{Error, Result};
use crate::health::Probe;
use crate::part::Part;
use crate::paths;
use crate::ports::Instance;
use crate::process::{self, Process};

pub use disks::{Disk, detach_below};
pub use network::down as remove_network;

/// File of a stack's folder that names the namespace and link it made.
pub const NETWORK_MARKER: &str = "lab/network";
/// Slots of a lab host.
pub const SLOTS: u16 = 2;
/// Port of the agent, inside the host's own network.
const AGENT_PORT: u16 = 7110;

/// The lab host of one stack.
#[derive(Debug, Clone)]
pub struct Lab {
    folder: PathBuf,
    root: PathBuf,
    instance: Instance,
    agent: PathBuf,
}

impl Lab {
    /// The lab host of the stack in `root`, running the agent program `agent`.
    pub fn new(root: &Path, instance: Instance, agent: PathBuf) -> Self {
        Self {
            folder: root.join("lab"),
            root: root.to_path_buf(),
            instance,
            agent,
        }
    }

    /// The machine's end of the link: what the control plane listens on for this host.
    pub fn machine_address(&self) -> IpAddr {
        self.link(1)
    }

    /// The host's end of the link.
    pub fn host_address(&self) -> IpAddr {
        self.link(2)
    }

    /// Where the agent answers.
    pub fn agent_address(&self) -> SocketAddr {
        SocketAddr::new(self.host_address(), AGENT_PORT)
    }

    /// The agent's own folder: journal, certificate, seeds.
    pub fn agent_folder(&self) -> PathBuf {
        self.folder.join("agent")
    }

    /// The agent's settings file.
    pub fn agent_config(&self) -> PathBuf {
        self.folder.join("agent.toml")
    }

    /// File with the single-use token of the agent's enrolment.
    pub fn token_file(&self) -> PathBuf {
        self.folder.join("enrolment-token")
    }

    /// Whether the agent has enrolled.
    pub fn enrolled(&self) -> bool {
        self.agent_folder().join("tls/cert.pem").exists()
    }

    /// The name in the agent's certificate, once it has enrolled.
    pub fn agent_name(&self) -> Option<String> {
        let pem = std::fs::read(self.agent_folder().join("tls/cert.pem")).ok()?;
        let (_, pem) = x509_parser::pem::parse_x509_pem(&pem).ok()?;
        let certificate = pem.parse_x509().ok()?;
        let names = certificate.subject_alternative_name().ok()??;
        names
            .value
            .general_names
            .iter()
            .find_map(|name| match name {
                x509_parser::extensions::GeneralName::DNSName(name)
                    if name.starts_with("instance-") =>
                {
                    Some((*name).to_owned())
                }
                _ => None,
            })
    }

    /// How to see that the agent serves.
    pub fn agent_probe(&self) -> Option<Probe> {
        Some(Probe::Grpc {
            address: self.agent_address(),
            name: self.agent_name()?,
        })
    }

    /// The disks of the slots, in slot order.
    ///
    /// # Errors
    /// A file that cannot be read or written.
    pub fn disks(&self) -> Result<Vec<Disk>> {
        (0..SLOTS)
            .map(|index| Disk::open(&self.folder.join("disks"), index))
            .collect()
    }

    /// Makes the network namespace and the link; keeps what is there.
    ///
    /// # Errors
    /// The link's addresses are in use, or the kernel refuses.
    pub fn network_up(&self) -> Result<()> {
        paths::ensure_dir(&self.folder)?;
        network::up(
            &self.link_names(),
            self.machine_address(),
            self.host_address(),
            &self.network_marker(),
        )
    }

    /// The sandbox as a part of the stack. Its settings are the lab's scripts.
    pub fn part(&self) -> Part {
        let scripts = paths::checkout().join("deploy/lab");
        let run = self.run_folder();
        Part::new(
            &self.root,
            "lab-host",
            scripts.join("sandbox.sh"),
            Probe::File(run.join("ready")),
        )
        .arg(self.link_names().namespace)
        .arg(&self.folder)
        .arg(scripts.join("host.sh"))
        .arg(&run)
        .arg(self.host_address().to_string())
        .arg(self.instance.ssh_port(0).to_string())
        .arg(SLOTS.to_string())
        .arg(&self.agent)
        .arg(self.agent_config())
        .reads(&scripts.join("sandbox.sh"))
        .reads(&scripts.join("host.sh"))
    }

    /// Makes the host ready to be started: folders, and every disk attached.
    ///
    /// # Errors
    /// A disk cannot be made or attached.
    pub fn prepare(&self) -> Result<()> {
        paths::ensure_dir(&self.run_folder())?;
        for disk in self.disks()? {
            disk.attach()?;
        }
        Ok(())
    }

    /// Forgets that an earlier sandbox was ready.
    pub fn forget_ready(&self) {
        let _absent_is_fine = std::fs::remove_file(self.run_folder().join("ready"));
    }

    /// The running agent, if the sandbox runs and the agent is not just being restarted.
    pub fn agent_process(&self) -> Option<Process> {
        let sandbox = self.part().running()?;
        let name = self.agent.file_name()?.to_os_string();
        // sandbox → first program of the namespace → agent
        children(sandbox.pid)
            .into_iter()
            .flat_map(children)
            .find_map(|pid| {
                let program = std::fs::read_link(format!("/proc/{pid}/exe")).ok()?;
                let running = program.file_name()?.to_string_lossy().into_owned();
                let running = running.trim_end_matches(" (deleted)").to_owned();
                (running.as_str() == name.to_string_lossy())
                    .then(|| Process::of(pid))
                    .flatten()
            })
    }

    /// Runs a command inside the host, as an operator logged in there would.
    ///
    /// # Errors
    /// The sandbox does not run, or the command fails.
    pub fn exec(&self, program: &str, arguments: &[&str]) -> Result<String> {
        let sandbox = self.part().running();
        let inner = sandbox.and_then(|process| children(process.pid).first().copied());
        let inner = inner.ok_or_else(|| Error::other("the lab host does not run"))?;
        process::output(
            Command::new("nsenter")
                .args(["-t", &inner.to_string(), "-m", "-n", "-p", "--", program])
                .args(arguments),
        )
    }

    /// Ends the host like a power switch, then detaches its disks and removes its network.
    pub fn down(&self) {
        let part = self.part();
        if let Some(sandbox) = part.running() {
            if let Some(first) = children(sandbox.pid)
                .first()
                .and_then(|pid| Process::of(*pid))
            {
                first.stop(Signal::SIGTERM, Duration::from_secs(5));
            }
            process::wait_until(Duration::from_secs(5), || !sandbox.alive());
        }
        part.kill();
        self.forget_ready();
        disks::detach_below(&self.folder);
        network::down(&self.network_marker());
    }

    /// Says that namespace and link belong to this stack.
    fn network_marker(&self) -> PathBuf {
        self.root.join(NETWORK_MARKER)
    }

    fn run_folder(&self) -> PathBuf {
        self.folder.join("run")
    }

    fn link(&self, last: u8) -> IpAddr {
        let number = u8::try_from(self.instance.number()).unwrap_or(u8::MAX);
        IpAddr::V4(Ipv4Addr::new(100, 64, number, last))
    }

    fn link_names(&self) -> network::Names {
        network::Names {
            namespace: format!("gpuaas-lab-{}", self.instance.number()),
            machine: format!("gpl{}", self.instance.number()),
        }
    }
}

/// Direct children of a process.
fn children(pid: i32) -> Vec<i32> {
    std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))
        .unwrap_or_default()
        .split_whitespace()
        .filter_map(|pid| pid.parse().ok())
        .collect()
}
