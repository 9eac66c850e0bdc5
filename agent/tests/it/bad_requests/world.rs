//! An agent on the tree of a good H200 host, called over gRPC: one slot is its own, one is a neighbour's, both are held.
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gpuaas_agent::api::{NodeSchedulerApi, Shared, VirtualMachinesApi};
use gpuaas_agent::ids::AllocationId;
use gpuaas_agent::node::Node;
use gpuaas_agent::operation::Runner;
use gpuaas_agent::terminal::TerminalApi;
use gpuaas_proto::gpuaas::agent::v1 as pb;
use gpuaas_proto::gpuaas::agent::v1::node_scheduler_client::NodeSchedulerClient;
use gpuaas_proto::gpuaas::agent::v1::node_scheduler_server::NodeSchedulerServer;
use gpuaas_proto::gpuaas::agent::v1::terminal_client::TerminalClient;
use gpuaas_proto::gpuaas::agent::v1::terminal_server::TerminalServer;
use gpuaas_proto::gpuaas::agent::v1::virtual_machines_client::VirtualMachinesClient;
use gpuaas_proto::gpuaas::agent::v1::virtual_machines_server::VirtualMachinesServer;
use gpuaas_proto::gpuaas::common::v1::{CapacityShape, SlotBindings};
use rusqlite::types::Value;
use serde_json::json;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::{Channel, Server};
use uuid::Uuid;

use crate::recorded::reference_host::{CORNERS, good};

pub const KEY: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAmxc03cp2l5BJE4mlJolCBwbNYywLgRgatR5QrcvVSv";

/// Whose corner of the host a slot is, and whom it is held by.
#[derive(Clone, Copy)]
pub struct Place {
    pub corner: usize,
    pub slot: Uuid,
    pub allocation: Uuid,
}

pub const OWN: Place = Place {
    corner: 0,
    slot: Uuid::from_u128(0x51),
    allocation: Uuid::from_u128(0xa1),
};
pub const NEIGHBOUR: Place = Place {
    corner: 1,
    slot: Uuid::from_u128(0x52),
    allocation: Uuid::from_u128(0xa2),
};

/// Everything that a request may change: rows of the journal, domains, and files below the test's folder with their bytes.
#[derive(Debug, PartialEq)]
pub struct Snapshot {
    rows: BTreeMap<String, Vec<Vec<Value>>>,
    domains: Vec<String>,
    files: BTreeMap<PathBuf, Vec<u8>>,
}

pub struct World {
    node: Arc<Node>,
    channel: Channel,
    /// Lease of the own slot.
    pub lease: String,
    folder: tempfile::TempDir,
}

impl World {
    pub async fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path();
        good()
            .recording
            .lay_out(&path.join("host"))
            .expect("a tree");
        let settings = json!({
            "state_dir": path.join("state"),
            "root": path.join("host"),
            "libvirt_uri": "test:///default",
            "profile": { "name": "h200", "hypervisor": "kvm", "cpu_model": "host-passthrough" },
            "images": { "cache_dir": path.join("cache") },
            "relay": { "key_file": path.join("id") },
            "dhcp": { "hosts_dir": path.join("dhcp"), "leases_file": path.join("leases"), "pid_file": path.join("pid") },
        });
        std::fs::create_dir(path.join("dhcp")).expect("a folder");
        let vm = AllocationId(NEIGHBOUR.allocation).vm_name();
        let reserved = path.join(format!("dhcp/gpuaas-{vm}.conf"));
        std::fs::write(reserved, "52:54:00:10:00:11,10.100.0.11\n").expect("a file");
        let settings = serde_json::from_value(settings).expect("settings");
        let node = Arc::new(Node::open(settings, b"").expect("a node"));
        let channel = serve(&node).await;
        let mut world = Self {
            node,
            channel,
            lease: String::new(),
            folder,
        };
        for place in [NEIGHBOUR, OWN] {
            let granted = world.leases().acquire_lease(repair(place)).await;
            let granted = granted.expect("a good request").into_inner();
            world.lease = granted.lease.expect("a lease").lease_id;
        }
        world
    }

    pub fn leases(&self) -> NodeSchedulerClient<Channel> {
        NodeSchedulerClient::new(self.channel.clone())
    }

    pub fn vms(&self) -> VirtualMachinesClient<Channel> {
        VirtualMachinesClient::new(self.channel.clone())
    }

    pub fn terminal(&self) -> TerminalClient<Channel> {
        TerminalClient::new(self.channel.clone())
    }

    pub async fn snapshot(&self) -> Snapshot {
        let domains = self.node.hypervisor.domains().await.expect("libvirt");
        Snapshot {
            rows: rows(&self.folder.path().join("state/journal.sqlite")),
            domains: domains.into_iter().map(|domain| domain.name).collect(),
            files: files(self.folder.path()),
        }
    }
}

/// Starts the services of a host and connects to them.
async fn serve(node: &Arc<Node>) -> Channel {
    let shared = Shared {
        node: Arc::clone(node),
        runner: Runner::new(Arc::clone(node)),
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await;
    let listener = listener.expect("a port");
    let address = listener.local_addr().expect("an address");
    let server = Server::builder()
        .add_service(NodeSchedulerServer::new(NodeSchedulerApi(shared.clone())))
        .add_service(VirtualMachinesServer::new(VirtualMachinesApi(shared)))
        .add_service(TerminalServer::new(TerminalApi::of_node(node)))
        .serve_with_incoming(TcpListenerStream::new(listener));
    tokio::spawn(server);
    let endpoint = Channel::from_shared(format!("http://{address}"));
    let channel = endpoint.expect("an address").connect().await;
    channel.expect("a server")
}

fn rows(journal: &Path) -> BTreeMap<String, Vec<Vec<Value>>> {
    let connection = rusqlite::Connection::open(journal).expect("a journal");
    let all = |sql: &str| -> Vec<Vec<Value>> {
        let mut statement = connection.prepare(sql).expect("a statement");
        let columns = statement.column_count();
        let rows = statement.query_map([], |row| (0..columns).map(|at| row.get(at)).collect());
        rows.expect("rows").collect::<Result<_, _>>().expect("rows")
    };
    let tables = all("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name");
    let tables = tables.into_iter().filter_map(|row| match &row[..] {
        [Value::Text(name)] => Some(name.clone()),
        _ => None,
    });
    tables
        .map(|name| {
            let found = all(&format!("SELECT * FROM {name} ORDER BY 1, 2"));
            (name, found)
        })
        .collect()
}

/// Every file but the journal's, which its rows stand for.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let data = std::fs::symlink_metadata(&path).expect("a file");
            let is_journal = path.to_string_lossy().contains("journal.sqlite");
            if data.is_dir() {
                folders.push(path.clone());
                found.insert(path, Vec::new());
            } else if data.is_symlink() {
                let target = std::fs::read_link(&path).expect("a link");
                found.insert(path, target.into_os_string().into_encoded_bytes());
            } else if !is_journal {
                let bytes = std::fs::read(&path).expect("a file");
                found.insert(path, bytes);
            }
        }
    }
    found
}

pub fn eui(corner: usize) -> String {
    format!("/dev/disk/by-id/nvme-eui.{corner:016x}")
}

/// A good request of a slot's first wipe.
pub fn repair(place: Place) -> pb::AcquireLeaseRequest {
    let corner = &CORNERS[place.corner];
    let slot = pb::SlotGrant {
        slot_id: place.slot.to_string(),
        slot_class: "h200".into(),
        token: Some(pb::FencingToken {
            cell_epoch: 1,
            slot_generation: 1,
            workflow_epoch: 1,
        }),
        bindings: Some(SlotBindings {
            gpu_pci_address: corner.gpu_address(),
            fabric_vf_pci_address: corner.function_address(),
            nvme_device: eui(place.corner),
            nvme_bytes: 1 << 40,
            management_mac: format!("52:54:00:10:00:1{}", place.corner),
            private_ip: format!("10.100.0.1{}", place.corner),
            destructive_wipe_policy: "blkdiscard".into(),
            ..SlotBindings::default()
        }),
        ..pb::SlotGrant::default()
    };
    pb::AcquireLeaseRequest {
        allocation_id: place.allocation.to_string(),
        slots: vec![slot],
        shape: Some(pb::VmShape {
            vcpus: 2,
            memory_mib: 1024,
            ..pb::VmShape::default()
        }),
        purpose: pb::LeasePurpose::Repair.into(),
        ..pb::AcquireLeaseRequest::default()
    }
}

impl World {
    /// A good request for a VM. The registry that it names is nobody's.
    pub fn provision(&self) -> pb::ProvisionRequest {
        let hex = "0123456789abcdef".repeat(4);
        pb::ProvisionRequest {
            operation_id: Uuid::from_u128(0x01).to_string(),
            lease_id: self.lease.clone(),
            allocation_id: OWN.allocation.to_string(),
            image: Some(pb::ImageRef {
                slug: "ubuntu-24.04".into(),
                digest: format!("sha256:{hex}"),
                source_uri: format!("oci://127.0.0.1:1/gpu/ubuntu@sha256:{hex}"),
                ..pb::ImageRef::default()
            }),
            guest_user: "u_adda9308def04a2f".into(),
            ssh_public_keys: vec![KEY.into()],
            hostname: "guest".into(),
            region_code: "eu-north".into(),
            network_group: Uuid::from_u128(0x91).to_string(),
            user_data: "#cloud-config\n".into(),
            budget: None,
        }
    }

    /// A good request for a start, or a rescue.
    pub fn power(&self) -> pb::PowerRequest {
        let launch = self.provision();
        pb::PowerRequest {
            operation_id: launch.operation_id,
            lease_id: launch.lease_id,
            allocation_id: launch.allocation_id,
            guest_user: launch.guest_user,
            ssh_host_keys: vec![KEY.into()],
            rescue_image: launch.image,
            ssh_public_keys: launch.ssh_public_keys,
            hostname: launch.hostname,
            ..pb::PowerRequest::default()
        }
    }
}

/// A good first message of a shell.
pub fn shell() -> pb::TerminalStart {
    pb::TerminalStart {
        session_id: Uuid::from_u128(0x71).to_string(),
        allocation_id: OWN.allocation.to_string(),
        capacity_shape: CapacityShape::GpuSlice.into(),
        target_host: "10.100.0.10".into(),
        target_port: 22,
        user: "u_adda9308def04a2f".into(),
        ssh_host_keys: vec![KEY.into()],
        size: Some(pb::TerminalSize { cols: 80, rows: 24 }),
        term: "xterm".into(),
        output_window: 65536,
        ssh_tunnel: false,
    }
}
