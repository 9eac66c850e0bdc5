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

/// File of a lab host's folder that names the namespace and link it made.
const NETWORK_MARKER: &str = "network";
/// File of a lab host's folder with the number of its slots.
const SLOTS_FILE: &str = "slots";
/// Slots of a lab host, where the machine has memory for them.
pub const SLOTS: u16 = 2;
/// Lab hosts of a stack at most: their links take their addresses from one block, and their guests their ports.
pub const HOSTS: u16 = 3;
/// What a VM and what runs beside it on its host need of the machine's memory, in MiB.
const SLOT_MEMORY_MIB: u64 = 512;
/// Distance between the links of the hosts of one stack: there are as many stacks.
const LINKS: u16 = 64;
/// Port of the agent, inside the host's own network.
const AGENT_PORT: u16 = 7110;

/// Whether a file says what network a lab host has.
pub fn is_network_marker(file: &Path) -> bool {
    let folder = file.parent().and_then(Path::file_name);
    file.ends_with(NETWORK_MARKER)
        && folder.is_some_and(|folder| folder.to_string_lossy().starts_with("lab"))
}

/// The slots of each of `hosts` lab hosts: shared out by the memory that the machine has left for VMs, one each at least.
pub fn shares(hosts: u16, available_mib: u64) -> Vec<u16> {
    let hosts = hosts.max(1);
    let fit = u16::try_from(available_mib / SLOT_MEMORY_MIB).unwrap_or(u16::MAX);
    let all = fit.clamp(hosts, hosts * SLOTS);
    (0..hosts)
        .map(|host| all / hosts + u16::from(host < all % hosts))
        .collect()
}

/// One of the lab hosts of one stack.
#[derive(Debug, Clone)]
pub struct Lab {
    folder: PathBuf,
    root: PathBuf,
    instance: Instance,
    agent: PathBuf,
    /// Which one, from 0.
    number: u16,
    slots: u16,
}

impl Lab {
    /// A lab host, from 0, of the stack in `root`, running the agent program `agent`. It has as many slots as it was made
    /// with; one that is made now has `slots`.
    pub fn new(
        root: &Path,
        instance: Instance,
        agent: PathBuf,
        number: u16,
        slots: impl FnOnce() -> u16,
    ) -> Self {
        let folder = root.join(Self::folder_name(number));
        let made_with = || {
            let recorded = std::fs::read_to_string(folder.join(SLOTS_FILE)).ok()?;
            recorded.trim().parse().ok()
        };
        let slots = made_with().unwrap_or_else(slots);
        Self {
            folder,
            root: root.to_path_buf(),
            instance,
            agent,
            number,
            slots,
        }
    }

    /// Name of a lab host's folder below that of its stack.
    pub fn folder_name(number: u16) -> String {
        match number {
            0 => "lab".to_owned(),
            other => format!("lab-{}", other + 1),
        }
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Name of its node.
    pub fn hostname(&self) -> String {
        format!("lab-host-{}", self.number + 1)
    }

    /// How many slots it has.
    pub fn slots(&self) -> u16 {
        self.slots
    }

    /// Number of a slot among those of all lab hosts of the stack.
    pub fn place(&self, slot: u16) -> u16 {
        self.number * SLOTS + slot
    }

    /// The port of the host through which the guest of its first slot answers SSH.
    pub fn ssh_base(&self) -> u16 {
        self.instance.ssh_port(self.place(0))
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
        (0..self.slots)
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
        )?;
        if self.number > 0 {
            // services and registry answer at the machine's end of the first host's link
            network::ip(&format!(
                "-n {} route replace {} via {}",
                self.link_names().namespace,
                self.first_link(),
                self.machine_address()
            ))?;
        }
        Ok(())
    }

    /// The sandbox as a part of the stack. Its settings are the lab's scripts.
    pub fn part(&self) -> Part {
        let scripts = paths::checkout().join("deploy/lab");
        let run = self.run_folder();
        Part::new(
            &self.root,
            &self.part_name("lab-host"),
            scripts.join("sandbox.sh"),
            Probe::File(run.join("ready")),
        )
        .arg(self.link_names().namespace)
        .arg(&self.folder)
        .arg(scripts.join("host.sh"))
        .arg(&run)
        .arg(self.host_address().to_string())
        .arg(self.ssh_base().to_string())
        .arg(self.slots.to_string())
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
        let slots = self.slots.to_string();
        paths::write_with_mode(&self.folder.join(SLOTS_FILE), slots.as_bytes(), 0o644)?;
        for disk in self.disks()? {
            disk.attach()?;
        }
        Ok(())
    }

    /// Cuts the host off from the machine, or joins it again: everything on it keeps running meanwhile.
    ///
    /// # Errors
    /// The host has no network.
    pub fn join_network(&self, joined: bool) -> Result<()> {
        if joined {
            return self.network_up();
        }
        network::set_link(&self.link_names(), false)
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

    /// What something of this host is called; that of the first one has no number.
    pub fn part_name(&self, part: &str) -> String {
        match self.number {
            0 => part.to_owned(),
            other => format!("{part}-{}", other + 1),
        }
    }

    /// Says that namespace and link belong to this stack.
    fn network_marker(&self) -> PathBuf {
        self.folder.join(NETWORK_MARKER)
    }

    fn run_folder(&self) -> PathBuf {
        self.folder.join("run")
    }

    fn link(&self, last: u8) -> IpAddr {
        link(self.instance.number() + LINKS * self.number, last)
    }

    /// The machine's end of the first host's link.
    fn first_link(&self) -> IpAddr {
        link(self.instance.number(), 1)
    }

    fn link_names(&self) -> network::Names {
        let stack = self.instance.number();
        network::Names {
            namespace: self.part_name(&format!("gpuaas-lab-{stack}")),
            machine: self.part_name(&format!("gpl{stack}")),
        }
    }
}

fn link(number: u16, last: u8) -> IpAddr {
    let number = u8::try_from(number).unwrap_or(u8::MAX);
    IpAddr::V4(Ipv4Addr::new(100, 64, number, last))
}

/// Direct children of a process.
fn children(pid: i32) -> Vec<i32> {
    std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))
        .unwrap_or_default()
        .split_whitespace()
        .filter_map(|pid| pid.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn slots_are_shared_out_by_memory() {
        assert_eq!(shares(1, 64_000), [2]);
        assert_eq!(shares(2, 64_000), [2, 2]);
        assert_eq!(shares(2, 3 * SLOT_MEMORY_MIB), [2, 1]);
        assert_eq!(shares(3, 4 * SLOT_MEMORY_MIB), [2, 1, 1]);
        assert_eq!(shares(2, 0), [1, 1], "a host without a slot is none");
    }

    #[test]
    fn hosts_of_all_stacks_share_nothing() {
        let mut seen = BTreeSet::new();
        for stack in 0..64 {
            let instance = Instance::new(stack).unwrap();
            for number in 0..HOSTS {
                let lab = Lab::new(Path::new("/r"), instance, PathBuf::new(), number, || SLOTS);
                let names = lab.link_names();
                for own in [
                    lab.machine_address().to_string(),
                    names.machine.clone(),
                    names.namespace,
                ] {
                    assert!(seen.insert(own.clone()), "{own}");
                }
                // the kernel's limit for names of interfaces
                assert!(names.machine.len() < 16);
                for slot in 0..SLOTS {
                    let port = instance.ssh_port(lab.place(slot));
                    assert!(seen.insert(port.to_string()), "{port}");
                }
                assert!(is_network_marker(&lab.network_marker()));
            }
        }
        assert!(!is_network_marker(Path::new("/r/other/network")));
    }
}
