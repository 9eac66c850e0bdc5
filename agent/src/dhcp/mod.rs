//! Reservations of dnsmasq (D-62, D-64): one file per VM, `gpuaas-<vm name>.conf`, in its hosts directory.
//!
//! dnsmasq reads a new file by itself; a removed one only at SIGHUP, which preserves every lease. So both ways end
//! with a SIGHUP, and no other guest notices. That one is owed is noted in a file before the change and until it was
//! sent: whoever repeats a change that broke off finds the change done, and still sends the signal.
//!
//! The network group of a VM is a tag of its reservation, which dnsmasq itself has no use for: what decides on the rules of
//! the guests' network lies in one place. Beside it is the version of the change that named the group, so that no agent, also one
//! that was started since, takes an earlier change for a later one.
mod lease;

use std::fs::File;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::error::{HostError, HostResult, io_error};
use crate::host::root::HostRoot;
use crate::host::{blocking, recording};
use crate::ids::{Mac, NetworkGroup, VmName};
use crate::settings;

pub(crate) use lease::parse_lease;
pub use lease::{DhcpLease, LeaseState};

/// The file of a reservation that is no VM's.
const PROBE: &str = "gpuaas-probe.conf";

/// Reservations and leases of this host's dnsmasq. Each call waits for the disk, away from the threads that serve calls.
#[derive(Debug, Clone)]
pub struct Dhcp {
    settings: settings::Dhcp,
    /// Where its process is looked up.
    root: HostRoot,
    /// Held while reservations change, together with the lock of [`Self::alone`].
    changes: Arc<Mutex<()>>,
}

/// A reservation as its file has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reservation {
    /// Whose.
    pub vm: VmName,
    pub mac: Mac,
    /// Address.
    pub ip: Ipv4Addr,
    /// The VMs that it may reach.
    pub group: Option<NetworkGroup>,
    /// Version of the last change of the group; 0 where there was none.
    pub version: u64,
}

/// Of the tags that name the group and the version of its last change.
const GROUP_TAG: &str = "set:group-";
const VERSION_TAG: &str = "set:version-";

impl Dhcp {
    /// Over these files.
    pub fn new(settings: settings::Dhcp) -> Self {
        Self {
            settings,
            root: HostRoot::new("/"),
            changes: Arc::default(),
        }
    }

    /// The dnsmasq of another root, whose files the settings name.
    #[must_use]
    pub fn of(self, root: HostRoot) -> Self {
        Self { root, ..self }
    }

    /// Writes a VM's reservation, replacing an earlier one, and notifies dnsmasq. Whom the VM may reach stays as a later change
    /// said: the step of a launch that reserves the address may run again.
    pub fn reserve(&self, reservation: &Reservation) -> HostResult<()> {
        blocking::here(|| {
            let _alone = self.alone()?;
            let vm = &reservation.vm;
            let text = std::fs::read_to_string(self.file(vm)).unwrap_or_default();
            let before = parse_reservation(vm.clone(), &text);
            let later = before.filter(|before| before.version > reservation.version);
            let (group, version) = match later {
                Some(later) => (later.group, later.version),
                None => (reservation.group, reservation.version),
            };
            self.reserve_here(&Reservation {
                group,
                version,
                ..reservation.clone()
            })
        })
    }

    /// Changes whom a VM may reach, unless it has no reservation or was told by a later version. Returns whether it did.
    pub fn regroup(
        &self,
        vm: &VmName,
        group: Option<NetworkGroup>,
        version: u64,
    ) -> HostResult<bool> {
        blocking::here(|| {
            let _alone = self.alone()?;
            let mut reservations = self.reservations_here()?.into_iter();
            let Some(reservation) = reservations.find(|one| one.vm == *vm) else {
                return Ok(false);
            };
            if reservation.version > version {
                return Ok(false);
            }
            let differs = reservation.group != group;
            if differs || reservation.version != version {
                self.reserve_here(&Reservation {
                    group,
                    version,
                    ..reservation
                })?;
            }
            Ok(differs)
        })
    }

    /// Nobody on this host changes reservations beside the holder of what this returns: no other call, and no other process
    /// of ours, which an operator's check is. The lock is on the folder itself, and ends with its process.
    fn alone(&self) -> HostResult<(MutexGuard<'_, ()>, Option<File>)> {
        let changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        let failed = || io_error("cannot lock the reservations");
        let folder = match File::open(&self.settings.hosts_dir) {
            // then there is nothing to change either
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            opened => Some(opened.map_err(failed())?),
        };
        if let Some(folder) = &folder {
            folder.lock().map_err(failed())?;
        }
        Ok((changes, folder))
    }

    fn reserve_here(&self, reservation: &Reservation) -> HostResult<()> {
        let file = self.file(&reservation.vm);
        self.owe_reload(&reservation.vm)?;
        self.yield_probe(reservation.ip)?;
        // dnsmasq skips names that begin with a dot.
        let part = self
            .settings
            .hosts_dir
            .join(format!(".{}.part", reservation.vm));
        let Reservation {
            mac,
            ip,
            group,
            version,
            ..
        } = reservation;
        let group = group.map(|group| format!(",{GROUP_TAG}{group}"));
        let version = (*version > 0).then(|| format!(",{VERSION_TAG}{version}"));
        let tags = [group, version].map(Option::unwrap_or_default).concat();
        let line = format!("{mac},{ip}{tags}\n");
        std::fs::write(&part, line).map_err(io_error("cannot write the reservation"))?;
        std::fs::rename(&part, &file).map_err(io_error("cannot place the reservation"))?;
        self.reload(&reservation.vm)
    }

    /// Removes a VM's reservation; none is fine.
    pub fn remove(&self, vm: &VmName) -> HostResult<()> {
        blocking::here(|| {
            let _alone = self.alone()?;
            self.remove_here(vm)
        })
    }

    fn remove_here(&self, vm: &VmName) -> HostResult<()> {
        let file = self.file(vm);
        if file.exists() {
            self.owe_reload(vm)?;
        } else if !self.owed(vm).exists() {
            return Ok(());
        }
        match std::fs::remove_file(file) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(io_error("cannot remove the reservation")(error))
            }
            _ => self.reload(vm),
        }
    }

    /// Reserves an address for the packets that this host sends itself, which are no guest's. It stays until a VM gets the
    /// address.
    ///
    /// # Errors
    /// A VM has it.
    pub fn reserve_probe(&self, mac: &Mac, ip: Ipv4Addr) -> HostResult<()> {
        let _alone = self.alone()?;
        if self.reservations_here()?.iter().any(|one| one.ip == ip) {
            return Err(HostError::internal(format!(
                "a VM got the address {ip} meanwhile"
            )));
        }
        let text = format!("{mac},{ip}\n");
        let file = self.settings.hosts_dir.join(PROBE);
        if std::fs::read_to_string(&file).is_ok_and(|found| found == text) {
            return Ok(());
        }
        let part = self.settings.hosts_dir.join(format!(".{PROBE}.part"));
        std::fs::write(&part, text)
            .and_then(|()| std::fs::rename(&part, &file))
            .map_err(io_error("cannot write the reservation of the checks"))?;
        self.hang_up()
    }

    /// A VM gets the address: dnsmasq would not give it to two. The next packet is sent from another one.
    fn yield_probe(&self, ip: Ipv4Addr) -> HostResult<()> {
        let file = self.settings.hosts_dir.join(PROBE);
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        let has_it = text.trim().split(',').nth(1) == Some(ip.to_string().as_str());
        if has_it {
            std::fs::remove_file(&file)
                .map_err(io_error("cannot remove the reservation of the checks"))?;
        }
        Ok(())
    }

    /// All reservations of VMs of ours.
    pub fn reservations(&self) -> HostResult<Vec<Reservation>> {
        blocking::here(|| self.reservations_here())
    }

    fn reservations_here(&self) -> HostResult<Vec<Reservation>> {
        let entries = std::fs::read_dir(&self.settings.hosts_dir)
            .map_err(io_error("cannot list the reservations"))?;
        let mut found = Vec::new();
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let vm = name
                .strip_prefix("gpuaas-")
                .and_then(|rest| rest.strip_suffix(".conf"));
            let Some(vm) = vm.and_then(|vm| vm.parse().ok()) else {
                continue;
            };
            let text = std::fs::read_to_string(entry.path()).unwrap_or_default();
            found.extend(parse_reservation(vm, &text));
        }
        found.sort_by(|one, other| one.vm.cmp(&other.vm));
        Ok(found)
    }

    /// The lease of a MAC, if it has one.
    pub fn lease(&self, mac: &Mac) -> HostResult<Option<DhcpLease>> {
        blocking::here(|| self.lease_here(mac))
    }

    fn lease_here(&self, mac: &Mac) -> HostResult<Option<DhcpLease>> {
        match std::fs::read_to_string(&self.settings.leases_file) {
            Ok(text) => Ok(parse_lease(&text, mac)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(io_error("cannot read the DHCP leases")(error)),
        }
    }

    /// Process id of a dnsmasq that lives. The pid may be another process's by now, which a signal would end.
    pub fn alive(&self) -> HostResult<i32> {
        blocking::here(|| self.alive_here())
    }

    fn alive_here(&self) -> HostResult<i32> {
        let text = std::fs::read_to_string(&self.settings.pid_file)
            .map_err(io_error("cannot read dnsmasq's pid"))?;
        let pid: i32 = text
            .trim()
            .parse()
            .ok()
            .filter(|pid| *pid > 1)
            .ok_or_else(|| {
                HostError::host(
                    ErrorReason::HostNotReady,
                    "dnsmasq's pid file does not hold a process id",
                )
            })?;
        let dead = |why: String| {
            let message = format!("dnsmasq (process {pid}) does not live: {why}");
            HostError::host(ErrorReason::HostNotReady, message)
        };
        let comm = format!("/proc/{pid}/comm");
        let program = if recording::is_replay() {
            if !self.root.exists(format!("/proc/{pid}")) {
                return Err(dead("it is not there".to_owned()));
            }
            self.root.read(comm)
        } else {
            kill(Pid::from_raw(pid), None).map_err(|error| dead(error.to_string()))?;
            std::fs::read_to_string(comm)
        };
        let program = program.unwrap_or_default();
        if program.trim() != "dnsmasq" {
            return Err(HostError::host(
                ErrorReason::HostNotReady,
                format!("process {pid} is {:?}, not dnsmasq", program.trim()),
            ));
        }
        Ok(pid)
    }

    /// Where it is noted that dnsmasq is owed a signal for a VM; dnsmasq skips names that begin with a dot.
    fn owed(&self, vm: &VmName) -> PathBuf {
        self.settings.hosts_dir.join(format!(".{vm}.reload"))
    }

    fn owe_reload(&self, vm: &VmName) -> HostResult<()> {
        std::fs::write(self.owed(vm), b"").map_err(io_error("cannot note a change of dnsmasq"))
    }

    fn reload(&self, vm: &VmName) -> HostResult<()> {
        self.hang_up()?;
        std::fs::remove_file(self.owed(vm)).map_err(io_error("cannot note a change of dnsmasq"))
    }

    fn hang_up(&self) -> HostResult<()> {
        let pid = self.alive_here()?;
        kill(Pid::from_raw(pid), Signal::SIGHUP).map_err(|error| {
            HostError::host(
                ErrorReason::HostNotReady,
                format!("cannot signal dnsmasq: {error}"),
            )
        })
    }

    fn file(&self, vm: &VmName) -> PathBuf {
        self.settings.hosts_dir.join(format!("gpuaas-{vm}.conf"))
    }
}

pub(crate) fn parse_reservation(vm: VmName, text: &str) -> Option<Reservation> {
    let mut parts = text.trim().split(',');
    let mac = parts.next()?.parse().ok()?;
    let ip = parts.next()?.parse().ok()?;
    let tags: Vec<&str> = parts.collect();
    let tag = |name: &str| tags.iter().find_map(|tag| tag.strip_prefix(name));
    Some(Reservation {
        vm,
        mac,
        ip,
        group: tag(GROUP_TAG).and_then(|group| group.parse().ok()),
        version: tag(VERSION_TAG)
            .and_then(|version| version.parse().ok())
            .unwrap_or(0),
    })
}

#[cfg(test)]
mod tests;
