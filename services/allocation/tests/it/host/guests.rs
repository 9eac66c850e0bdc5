//! The guests of a host: a domain that runs takes the address reserved for it, and answers at it as the operating system
//! on its disk would.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use gpuaas_agent::dhcp::{Dhcp, Reservation};
use gpuaas_agent::guest::GuestNetwork;
use gpuaas_agent::guest::network::Connection;
use gpuaas_agent::settings;
use gpuaas_agent::vm::Hypervisor;
use tokio::runtime::{Handle, Runtime};
use uuid::Uuid;

use super::lock;
use super::script::Director;
use super::ssh;

/// Between two looks at what runs.
const LOOK: Duration = Duration::from_millis(5);

/// A guest that runs: which run of its domain, which boot, where.
struct Guest {
    /// Whose seed its disk had.
    disk: String,
    run: u32,
    boot_id: Uuid,
    ip: Ipv4Addr,
}

pub struct Guests {
    folder: PathBuf,
    director: Director,
    handle: Handle,
    running: Mutex<BTreeMap<String, Guest>>,
    /// Boots that VMs were at last.
    boots: Mutex<BTreeMap<String, Uuid>>,
    /// What VMs were told at the first boot of a disk: they have it there.
    seeds: Mutex<BTreeMap<String, Vec<u8>>>,
}

impl Guests {
    /// Brings guests up and down with their domains, on the machine's runtime.
    pub fn start(
        machine: &Runtime,
        folder: &Path,
        hypervisor: Hypervisor,
        director: Director,
    ) -> Arc<Self> {
        let guests = Arc::new(Self {
            folder: folder.to_owned(),
            director,
            handle: machine.handle().clone(),
            running: Mutex::default(),
            boots: Mutex::default(),
            seeds: Mutex::default(),
        });
        let follow = Arc::clone(&guests);
        machine.spawn(async move {
            loop {
                let running = hypervisor.running().await.expect("libvirt");
                follow.see(&running);
                tokio::time::sleep(LOOK).await;
            }
        });
        guests
    }

    pub fn boot_id(&self, vm: &str) -> Option<Uuid> {
        lock(&self.running).get(vm).map(|guest| guest.boot_id)
    }

    fn see(&self, domains: &[(String, u32)]) {
        let mut running = lock(&self.running);
        running.retain(|vm, guest| domains.contains(&(vm.clone(), guest.run)));
        if domains.iter().all(|(vm, _)| running.contains_key(vm)) {
            return;
        }
        let dhcp = Dhcp::new(settings::Dhcp {
            hosts_dir: self.folder.join("dhcp"),
            ..settings::Dhcp::default()
        });
        for reservation in dhcp.reservations().expect("a folder") {
            let vm = reservation.vm.to_string();
            let domain = domains.iter().find(|(name, _)| *name == vm);
            let Some((_, run)) = domain.filter(|_| !running.contains_key(&vm)) else {
                continue;
            };
            let boot_id = self.boots(&vm);
            let state = self.folder.join("state");
            let disk = match state.join("rescue").join(&vm).exists() {
                true => format!("{vm} rescued"),
                false => vm.clone(),
            };
            if let Ok(seed) = std::fs::read(state.join("seeds").join(&vm).join("seed.iso")) {
                lock(&self.seeds).insert(disk.clone(), seed);
            }
            self.take_address(&reservation);
            let ip = reservation.ip;
            running.insert(
                vm,
                Guest {
                    disk,
                    run: *run,
                    boot_id,
                    ip,
                },
            );
        }
    }

    /// Which boot a VM that starts is at.
    fn boots(&self, vm: &str) -> Uuid {
        let mut boots = lock(&self.boots);
        let before = boots
            .get(vm)
            .filter(|_| self.director.read(|script| script.same_boot));
        let boot_id = before.copied().unwrap_or_else(Uuid::new_v4);
        boots.insert(vm.to_owned(), boot_id);
        boot_id
    }

    /// Writes the lease as dnsmasq would, with an end that no earlier lease had.
    fn take_address(&self, reservation: &Reservation) {
        let file = self.folder.join("dhcp.leases");
        let known = std::fs::read_to_string(&file).unwrap_or_default();
        let mac = reservation.mac.to_string();
        let others: Vec<&str> = known.lines().filter(|line| !line.contains(&mac)).collect();
        let ends = known
            .lines()
            .filter_map(|line| line.split(' ').next()?.parse::<u64>().ok());
        let expires = ends.max().unwrap_or(1_795_200_000) + 1;
        let own = format!("{expires} {mac} {} * *", reservation.ip);
        let text = [others, vec![&own, ""]].concat().join("\n");
        let part = file.with_extension("part");
        std::fs::write(&part, text).expect("a file");
        std::fs::rename(part, file).expect("a file");
    }
}

/// The agent's way to the guests.
pub struct Way(pub Arc<Guests>);

#[async_trait]
impl GuestNetwork for Way {
    async fn connect(&self, server: SocketAddr) -> io::Result<Box<dyn Connection>> {
        let guests = &self.0;
        let found = {
            let running = lock(&guests.running);
            let guest = running.iter().find(|(_, guest)| guest.ip == server.ip());
            guest.map(|(_, guest)| (guest.disk.clone(), guest.boot_id))
        };
        let (disk, boot_id) = found.ok_or(io::ErrorKind::ConnectionRefused)?;
        let seed = lock(&guests.seeds).get(&disk).cloned().unwrap_or_default();
        let (no_login, other) = guests
            .director
            .read(|script| (script.no_login, script.other_host_key));
        let own = ssh::key_of(&seed).filter(|_| !other);
        let key = own.unwrap_or_else(ssh::other_key);
        let seed = if no_login { Vec::new() } else { seed };
        let (near, far) = tokio::io::duplex(64 << 10);
        let director = guests.director.clone();
        guests
            .handle
            .spawn(ssh::serve(far, key, seed, boot_id, director));
        Ok(Box::new(near))
    }
}
