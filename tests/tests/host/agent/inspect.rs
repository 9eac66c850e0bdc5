//! Inspects, past the agent, what is really on a lab host: bytes of its disks, residue of VMs.
use std::path::PathBuf;

use gpuaas_agent::network::PROBE_PORT;
use gpuaas_proto::gpuaas::agent::v1 as pb;

use super::host::LabHost;

impl LabHost {
    pub fn backing_file(&self, index: usize) -> PathBuf {
        self.lab.disks().expect("disks")[index].file.clone()
    }

    pub fn device(&self, index: usize) -> String {
        self.lab.disks().expect("disks")[index]
            .device()
            .expect("losetup")
            .expect("a loop device")
    }

    /// How often a needle occurs on disk `index`, aligned or not, but not across two MiB.
    pub fn occurrences(&self, index: usize, needle: &[u8]) -> usize {
        let mut count = 0;
        self.blocks(index, |block| {
            count += block
                .windows(needle.len())
                .filter(|window| *window == needle)
                .count();
        });
        count
    }

    /// Whether disk `index` is all zero.
    pub fn is_empty(&self, index: usize) -> bool {
        let mut empty = true;
        self.blocks(index, |_| empty = false);
        empty
    }

    /// Calls `visit` with every MiB of a disk that is not all zero.
    fn blocks(&self, index: usize, mut visit: impl FnMut(&[u8])) {
        use std::io::Read;
        let mut file = std::fs::File::open(self.backing_file(index)).expect("backing file");
        let (mut block, zeros) = (vec![0_u8; 1 << 20], vec![0_u8; 1 << 20]);
        loop {
            let read = file.read(&mut block).expect("backing file");
            if read == 0 {
                return;
            }
            if block[..read] != zeros[..read] {
                visit(&block[..read]);
            }
        }
    }

    pub async fn holds(&self) -> pb::ListHoldsResponse {
        self.leases()
            .list_holds(pb::ListHoldsRequest {})
            .await
            .expect("holds")
            .into_inner()
    }

    /// Nothing of any VM is left on the host: no domain, NVRAM, reservation, seed or port.
    pub async fn assert_no_residue(&self) {
        let holds = self.holds().await;
        assert_eq!(holds.domains, [], "domains");
        assert_eq!(holds.reservations, Vec::<String>::new(), "reservations");
        let empty = |path: PathBuf| {
            let names: Vec<_> = std::fs::read_dir(&path)
                .into_iter()
                .flatten()
                .flatten()
                .map(|e| e.path())
                .collect();
            assert_eq!(names, Vec::<PathBuf>::new());
        };
        empty(self.lab.agent_folder().join("seeds"));
        empty(self.folder.join("lab/var-lib-libvirt/qemu/nvram"));
        let ports = self
            .lab
            .exec("ovs-vsctl", &["list-ports", "ovsbr0"])
            .expect("ports");
        // the agent sends itself a packet from a port of its own, now and then
        let of_vms: Vec<&str> = ports.lines().filter(|port| *port != PROBE_PORT).collect();
        assert_eq!(of_vms, Vec::<&str>::new(), "ports on the bridge");
    }
}
