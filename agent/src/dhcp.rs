//! Reservations of dnsmasq (D-62, D-64): one file per VM, `gpuaas-<vm name>.conf`, in its hosts directory.
//!
//! dnsmasq reads a new file by itself; a removed one only at SIGHUP, which preserves every lease. So both ways end
//! with a SIGHUP, and no other guest notices. That one is owed is noted in a file before the change and until it was
//! sent: whoever repeats a change that broke off finds the change done, and still sends the signal.
//!
//! The network group of a VM is a tag of its reservation, which dnsmasq itself has no use for: what decides on the rules of
//! the guests' network lies in one place.
use std::collections::BTreeMap;
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

/// The file of a reservation that is no VM's.
const PROBE: &str = "gpuaas-probe.conf";

/// Reservations and leases of this host's dnsmasq. Each call waits for the disk, away from the threads that serve calls.
#[derive(Debug, Clone)]
pub struct Dhcp {
    settings: settings::Dhcp,
    /// Where its process is looked up.
    root: HostRoot,
    /// Held while reservations change, together with the lock of [`Self::alone`]: the version of the network group that each
    /// VM was told last.
    versions: Arc<Mutex<BTreeMap<VmName, u64>>>,
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
}

/// The versions of network groups, while nobody else of this process changes a reservation.
type Versions<'a> = MutexGuard<'a, BTreeMap<VmName, u64>>;

/// Of the tag that names the group.
const GROUP_TAG: &str = "set:group-";

/// A lease as dnsmasq's file has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DhcpLease {
    /// Seconds since 1970; 0 for ever.
    pub expires: u64,
    /// Address.
    pub ip: Ipv4Addr,
}

impl Dhcp {
    /// Over these files.
    pub fn new(settings: settings::Dhcp) -> Self {
        Self {
            settings,
            root: HostRoot::new("/"),
            versions: Arc::default(),
        }
    }

    /// The dnsmasq of another root, whose files the settings name.
    #[must_use]
    pub fn of(self, root: HostRoot) -> Self {
        Self { root, ..self }
    }

    /// Writes a VM's reservation, replacing an earlier one, and notifies dnsmasq.
    pub fn reserve(&self, reservation: &Reservation) -> HostResult<()> {
        blocking::here(|| {
            let _alone = self.alone()?;
            self.reserve_here(reservation)
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
            let (mut versions, _lock) = self.alone()?;
            if versions.get(vm).is_some_and(|last| *last > version) {
                return Ok(false);
            }
            let mut reservations = self.reservations_here()?.into_iter();
            let Some(reservation) = reservations.find(|one| one.vm == *vm) else {
                return Ok(false);
            };
            versions.insert(vm.clone(), version);
            let differs = reservation.group != group;
            if differs {
                self.reserve_here(&Reservation {
                    group,
                    ..reservation
                })?;
            }
            Ok(differs)
        })
    }

    /// Nobody on this host changes reservations beside the holder of what this returns: no other call, and no other process
    /// of ours, which an operator's check is. The lock is on the folder itself, and ends with its process.
    fn alone(&self) -> HostResult<(Versions<'_>, Option<File>)> {
        let versions = self.versions.lock().unwrap_or_else(PoisonError::into_inner);
        let failed = || io_error("cannot lock the reservations");
        let folder = match File::open(&self.settings.hosts_dir) {
            // then there is nothing to change either
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            opened => Some(opened.map_err(failed())?),
        };
        if let Some(folder) = &folder {
            folder.lock().map_err(failed())?;
        }
        Ok((versions, folder))
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
        let Reservation { mac, ip, group, .. } = reservation;
        let tag = group.map(|group| format!(",{GROUP_TAG}{group}"));
        let line = format!("{mac},{ip}{}\n", tag.unwrap_or_default());
        std::fs::write(&part, line).map_err(io_error("cannot write the reservation"))?;
        std::fs::rename(&part, &file).map_err(io_error("cannot place the reservation"))?;
        self.reload(&reservation.vm)
    }

    /// Removes a VM's reservation; none is fine.
    pub fn remove(&self, vm: &VmName) -> HostResult<()> {
        blocking::here(|| {
            let (mut versions, _lock) = self.alone()?;
            versions.remove(vm);
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
    let group = parts.find_map(|part| part.strip_prefix(GROUP_TAG)?.parse().ok());
    Some(Reservation { vm, mac, ip, group })
}

/// Lines are "expiry mac ip name client-id".
pub(crate) fn parse_lease(text: &str, mac: &Mac) -> Option<DhcpLease> {
    text.lines().find_map(|line| {
        let mut parts = line.split_whitespace();
        let expires = parts.next()?.parse().ok()?;
        let of = parts.next()?.parse::<Mac>().ok()?;
        let ip = parts.next()?.parse().ok()?;
        (of == *mac).then_some(DhcpLease { expires, ip })
    })
}

/// State of the lease report (D-65).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseState {
    /// The MAC has the expected address, leased since the VM started.
    Bound,
    /// The MAC has the expected address from before this VM.
    Stale,
    /// The MAC has another address.
    Mismatch,
    /// The MAC has no address.
    Missing,
}

impl LeaseState {
    /// The name in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Bound => "bound",
            Self::Stale => "stale",
            Self::Mismatch => "mismatch",
            Self::Missing => "missing",
        }
    }

    /// Judges a lease. `before` is the expiry of the lease that the MAC had before this VM started: an earlier
    /// tenant of the slot had the same MAC and address.
    pub fn of(lease: Option<&DhcpLease>, expected: Ipv4Addr, before: Option<u64>) -> Self {
        match lease {
            None => Self::Missing,
            Some(lease) if lease.ip != expected => Self::Mismatch,
            Some(lease) if lease.expires != 0 && Some(lease.expires) == before => Self::Stale,
            Some(_) => Self::Bound,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mac(text: &str) -> Mac {
        text.parse().unwrap()
    }

    /// What is reported of a lease (J-11, J-12).
    #[test]
    fn d_65_the_lease_of_an_earlier_guest_does_not_count() {
        let ip = Ipv4Addr::new(10, 100, 0, 10);
        let lease = |expires, ip| Some(DhcpLease { expires, ip });
        for (observed, before, expected) in [
            (None, None, LeaseState::Missing),
            (lease(100, ip), None, LeaseState::Bound),
            (lease(100, ip), Some(100), LeaseState::Stale),
            (lease(160, ip), Some(100), LeaseState::Bound),
            (
                lease(160, Ipv4Addr::new(10, 100, 0, 11)),
                Some(100),
                LeaseState::Mismatch,
            ),
        ] {
            assert_eq!(LeaseState::of(observed.as_ref(), ip, before), expected);
        }
    }

    fn here(folder: &std::path::Path) -> Dhcp {
        // a dnsmasq that lives, so that it can be notified
        let pid_file = folder.join("pid");
        std::fs::write(&pid_file, "1\n").unwrap();
        Dhcp::new(settings::Dhcp {
            hosts_dir: folder.to_owned(),
            leases_file: folder.join("leases"),
            pid_file,
        })
    }

    #[test]
    fn a_vm_is_told_by_the_latest_change_of_its_project() {
        let folder = tempfile::tempdir().unwrap();
        let dhcp = here(folder.path());
        let vm: VmName = "gpuaas-slice-0192f0c1aaaa7bbb8ccc0123456789ab"
            .parse()
            .unwrap();
        let group: NetworkGroup = "0192f0c1-aaaa-7bbb-8ccc-0123456789ab".parse().unwrap();
        std::fs::write(dhcp.file(&vm), "52:54:00:10:00:0a,10.100.0.10\n").unwrap();
        let now = || dhcp.reservations().unwrap()[0].group;
        // that dnsmasq is not there is the caller's to hear; the file is what counts here
        let _unheard = dhcp.regroup(&vm, Some(group), 7);
        assert_eq!(now(), Some(group));
        assert!(!dhcp.regroup(&vm, Some(group), 7).unwrap(), "again");
        assert!(!dhcp.regroup(&vm, None, 6).unwrap(), "an older change");
        assert_eq!(now(), Some(group));
        let _unheard = dhcp.regroup(&vm, None, 8);
        assert_eq!(now(), None);
        // a VM that was removed meanwhile gets no reservation by it
        std::fs::remove_file(dhcp.file(&vm)).unwrap();
        assert!(!dhcp.regroup(&vm, Some(group), 9).unwrap());
        assert!(dhcp.reservations().unwrap().is_empty());
    }

    #[test]
    fn a_vm_that_gets_the_address_of_the_probe_has_it_alone() {
        let folder = tempfile::tempdir().unwrap();
        let dhcp = here(folder.path());
        let ip = Ipv4Addr::new(10, 100, 0, 254);
        let probe = folder.path().join(PROBE);
        let _unheard = dhcp.reserve_probe(&mac("02:67:70:72:6f:62"), ip);
        assert!(probe.exists());
        let reservation = |last| Reservation {
            vm: "gpuaas-slice-0192f0c1aaaa7bbb8ccc0123456789ab"
                .parse()
                .unwrap(),
            mac: mac("52:54:00:10:00:0a"),
            ip: Ipv4Addr::new(10, 100, 0, last),
            group: None,
        };
        let _unheard = dhcp.reserve(&reservation(10));
        assert!(probe.exists(), "another address");
        let _unheard = dhcp.reserve(&reservation(254));
        assert!(!probe.exists());
        let error = dhcp.reserve_probe(&mac("02:67:70:72:6f:62"), ip);
        assert!(error.unwrap_err().message.contains("10.100.0.254"));
        assert!(!probe.exists());
    }

    /// An operator's check is a process of its own: it must not take the address that the agent gives to a VM just now.
    #[test]
    fn the_address_of_the_probe_is_fenced_across_the_processes_of_a_host() {
        use std::os::unix::fs::MetadataExt as _;

        let folder = tempfile::tempdir().unwrap();
        let (agent, check) = (here(folder.path()), here(folder.path()));
        let ip = Ipv4Addr::new(10, 100, 0, 254);
        let lock = agent.alone().unwrap();
        let waits = std::thread::spawn(move || {
            check
                .reserve_probe(&mac("02:67:70:72:6f:62"), ip)
                .unwrap_err()
        });
        // it waits for the lock, as the kernel shows it
        let inode = std::fs::metadata(folder.path()).unwrap().ino();
        let is_waiting = |text: &str| {
            let mut lines = text.lines().filter(|line| line.contains("-> FLOCK"));
            lines.any(|line| line.contains(&format!(":{inode} ")))
        };
        while !is_waiting(&std::fs::read_to_string("/proc/locks").unwrap()) {
            assert!(!waits.is_finished(), "it did not wait");
            std::thread::yield_now();
        }
        let vm = "gpuaas-gpuaas-slice-0192f0c1aaaa7bbb8ccc0123456789ab.conf";
        std::fs::write(folder.path().join(vm), "52:54:00:10:00:0a,10.100.0.254\n").unwrap();
        drop(lock);
        let refused = waits.join().unwrap();
        assert!(
            refused.message.contains("a VM got the address"),
            "{refused}"
        );
        assert!(!folder.path().join(PROBE).exists());
    }

    #[test]
    fn leases_and_reservations_parse() {
        let text = "1795199999 52:54:00:10:00:0B 10.100.0.11 * *\n1795200000 52:54:00:10:00:0a 10.100.0.10 guest ff:1\n";
        let found = parse_lease(text, &mac("52:54:00:10:00:0a")).unwrap();
        assert_eq!(
            found,
            DhcpLease {
                expires: 1_795_200_000,
                ip: Ipv4Addr::new(10, 100, 0, 10)
            }
        );
        assert_eq!(parse_lease(text, &mac("52:54:00:10:00:0c")), None);
        let vm: VmName = "gpuaas-slice-0192f0c1aaaa7bbb8ccc0123456789ab"
            .parse()
            .unwrap();
        let alone = parse_reservation(vm.clone(), "52:54:00:10:00:0a,10.100.0.10\n").unwrap();
        assert_eq!(alone.group, None);
        let group = "0192f0c1-aaaa-7bbb-8ccc-0123456789ab";
        let line = format!("52:54:00:10:00:0a,10.100.0.10,set:group-{group}\n");
        let grouped = parse_reservation(vm.clone(), &line).unwrap();
        assert_eq!(grouped.group, Some(group.parse().unwrap()));
        assert!(parse_reservation(vm, "nonsense").is_none());
    }

    /// D-62
    #[test]
    fn d_63_the_file_is_named_after_the_vm() {
        let dir = tempfile::tempdir().unwrap();
        let dhcp = Dhcp::new(settings::Dhcp {
            hosts_dir: dir.path().into(),
            leases_file: dir.path().join("leases"),
            pid_file: dir.path().join("pid"),
        });
        let vm: VmName = "gpuaas-slice-0192f0c1aaaa7bbb8ccc0123456789ab"
            .parse()
            .unwrap();
        let file = dhcp.file(&vm);
        assert!(file.ends_with("gpuaas-gpuaas-slice-0192f0c1aaaa7bbb8ccc0123456789ab.conf"));
        assert!(dhcp.alive().is_err());
        dhcp.remove(&vm).unwrap();
    }

    /// The removal of a reservation breaks off before dnsmasq is notified; the next try finds the file gone.
    /// D-64
    #[test]
    fn inc_20_a_signal_to_dnsmasq_that_was_lost_is_sent_by_the_next_try() {
        use std::os::unix::process::ExitStatusExt;
        let dir = tempfile::tempdir().unwrap();
        let dhcp = Dhcp::new(settings::Dhcp {
            hosts_dir: dir.path().into(),
            leases_file: dir.path().join("leases"),
            pid_file: dir.path().join("pid"),
        });
        let vm: VmName = "gpuaas-slice-0192f0c1aaaa7bbb8ccc0123456789ab"
            .parse()
            .unwrap();
        std::fs::write(dhcp.file(&vm), "52:54:00:10:00:0a,10.100.0.10\n").unwrap();
        assert!(dhcp.remove(&vm).is_err(), "dnsmasq is not there");
        assert!(!dhcp.file(&vm).exists());
        assert!(dhcp.remove(&vm).is_err(), "the signal is still owed");

        // a process that is called dnsmasq and ends by the signal
        let program = dir.path().join("dnsmasq");
        std::fs::copy("/bin/sleep", &program).unwrap();
        let mut process = std::process::Command::new(&program)
            .arg("60")
            .spawn()
            .unwrap();
        std::fs::write(dir.path().join("pid"), process.id().to_string()).unwrap();
        dhcp.remove(&vm).unwrap();
        assert_eq!(process.wait().unwrap().signal(), Some(1));
        dhcp.remove(&vm).unwrap();
        assert!(dhcp.reservations().unwrap().is_empty());
        let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().flatten().collect();
        assert_eq!(left.len(), 2, "the program and its pid: {left:?}");
    }

    /// One thread serves calls. A file that does not answer must not take it from them: here the next task on it is the one
    /// that makes the file answer.
    #[test]
    fn a_file_of_dnsmasq_that_does_not_answer_holds_up_no_other_call() {
        let dir = tempfile::tempdir().unwrap();
        let leases_file = dir.path().join("leases");
        nix::unistd::mkfifo(&leases_file, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let dhcp = Dhcp::new(settings::Dhcp {
            hosts_dir: dir.path().into(),
            leases_file: leases_file.clone(),
            pid_file: dir.path().join("pid"),
        });
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .build()
            .unwrap();
        let read = runtime.spawn(async move { dhcp.lease(&mac("52:54:00:10:00:0a")) });
        let answer = runtime.spawn(async move {
            std::fs::write(leases_file, "7 52:54:00:10:00:0a 10.100.0.10 * *\n").unwrap();
        });
        let lease = runtime.block_on(async {
            answer.await.unwrap();
            read.await.unwrap().unwrap()
        });
        assert_eq!(lease.map(|lease| lease.expires), Some(7));
    }

    #[test]
    fn the_reservation_of_the_checks_is_written_once_and_is_no_guests() {
        let dir = tempfile::tempdir().unwrap();
        let dhcp = Dhcp::new(settings::Dhcp {
            hosts_dir: dir.path().into(),
            leases_file: dir.path().join("leases"),
            pid_file: dir.path().join("pid"),
        });
        let (own, ip) = (mac("02:67:70:72:6f:62"), Ipv4Addr::new(10, 100, 0, 254));
        assert!(
            dhcp.reserve_probe(&own, ip).is_err(),
            "dnsmasq is not there"
        );
        let file = dir.path().join(PROBE);
        assert_eq!(
            std::fs::read_to_string(&file).unwrap(),
            "02:67:70:72:6f:62,10.100.0.254\n"
        );
        dhcp.reserve_probe(&own, ip).unwrap();
        assert!(dhcp.reservations().unwrap().is_empty());
    }

    #[test]
    fn a_pid_that_another_process_has_by_now_is_never_signalled() {
        let dir = tempfile::tempdir().unwrap();
        let pid_file = dir.path().join("pid");
        std::fs::write(&pid_file, std::process::id().to_string()).unwrap();
        let dhcp = Dhcp::new(settings::Dhcp {
            hosts_dir: dir.path().into(),
            leases_file: dir.path().join("leases"),
            pid_file,
        });
        let error = dhcp.alive().unwrap_err();
        assert!(error.message.contains("not dnsmasq"), "{}", error.message);
    }
}
