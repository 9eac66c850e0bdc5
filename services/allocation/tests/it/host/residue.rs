//! What is left on a host, and what is lost from it, behind its agent's back.
use std::io::Write as _;
use std::path::PathBuf;

use uuid::Uuid;

use super::Host;

impl Host {
    /// Has the journal hold a slot for an allocation behind the agent's back, with something written under it.
    pub fn leak_hold(&self, slot: Uuid, allocation: Uuid) {
        let journal = rusqlite::Connection::open(self.path("state/journal.sqlite"));
        let journal = journal.expect("a journal");
        let patience = journal.busy_timeout(std::time::Duration::from_secs(10));
        patience.expect("a timeout");
        let sql =
            "INSERT OR REPLACE INTO holds (slot_id, allocation_id, touched) VALUES (?1, ?2, 1)";
        let values = (slot.to_string(), allocation.to_string());
        journal.execute(sql, values).expect("a hold");
    }

    /// Writes to the disk of a slot behind the agent's back.
    pub fn write_to_disk(&self, index: usize) {
        let disk = std::fs::OpenOptions::new()
            .write(true)
            .open(&self.disks[index].file);
        disk.and_then(|mut disk| disk.write_all(b"a tenant's"))
            .expect("written");
    }

    pub fn disk_is_dirty(&self, index: usize) -> bool {
        self.disks[index].is_dirty()
    }

    /// Reserves an address for a VM behind the agent's back.
    pub fn leak_reservation(&self, vm: &str) {
        let file = self.path(&format!("dhcp/gpuaas-{vm}.conf"));
        std::fs::write(file, "52:54:00:00:00:07,10.100.0.7\n").expect("a reservation");
    }

    /// Removes the reservation of a VM behind the agent's back.
    pub fn lose_reservation(&self, vm: &str) {
        let file = self.path(&format!("dhcp/gpuaas-{vm}.conf"));
        std::fs::remove_file(file).expect("a reservation");
    }

    /// Leaves a seed of a VM behind the agent's back.
    pub fn leak_seed(&self, vm: &str) {
        let folder = self.path("state/seeds").join(vm);
        std::fs::create_dir(&folder).expect("a folder");
        std::fs::write(folder.join("seed.iso"), "a seed").expect("a seed");
    }

    fn nvram(&self, vm: &str) -> PathBuf {
        let folder = self.path("root/var/lib/libvirt/qemu/nvram");
        std::fs::create_dir_all(&folder).expect("a folder");
        folder.join(format!("{vm}_VARS.fd"))
    }

    /// Leaves NVRAM of a VM behind the agent's back; libvirt's in-memory driver stores none.
    pub fn leak_nvram(&self, vm: &str) {
        std::fs::write(self.nvram(vm), "variables").expect("a file");
    }

    /// The kinds of files that there are of a VM.
    pub fn files_of(&self, vm: &str) -> Vec<String> {
        let files = [
            ("reservation", self.path(&format!("dhcp/gpuaas-{vm}.conf"))),
            ("seed", self.path("state/seeds").join(vm)),
            ("nvram", self.nvram(vm)),
            ("rescue", self.path("state/rescue").join(vm)),
        ];
        let there = files.into_iter().filter(|(_, path)| path.exists());
        there.map(|(kind, _)| kind.to_owned()).collect()
    }

    /// Defines a domain behind the agent's back, unless there is one of this name.
    pub async fn leak_domain(&self, name: &str) {
        let known = self.hypervisor.state(name).await.expect("libvirt");
        if known.is_some() {
            return;
        }
        let xml = format!(
            "<domain type='test'><name>{name}</name><memory>1024</memory><os><type>hvm</type></os></domain>"
        );
        self.hypervisor.define(xml).await.expect("a domain");
    }

    /// Removes a domain behind the agent's back.
    pub async fn lose_domain(&self, name: &str) {
        self.hypervisor.destroy(name).await.expect("libvirt");
        self.hypervisor.undefine(name).await.expect("libvirt");
    }
}
