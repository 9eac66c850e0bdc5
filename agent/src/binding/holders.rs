//! Processes that have a device of the host open: what somebody uses is not taken from them.
use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use nix::sys::stat::SFlag;

use crate::error::{HostResult, io_error};
use crate::host::processes;
use crate::host::root::HostRoot;
use crate::ids::PciAddress;
use crate::topology::pci;

/// Where the nodes of GPUs, of the fabric and of VFIO are.
const FOLDERS: [&str; 4] = ["/dev", "/dev/dri", "/dev/infiniband", "/dev/vfio"];
/// What the nodes of NVIDIA's driver begin with. The kernel shows none of them at its device.
const NVIDIA: &str = "/dev/nvidia";
/// Classes of sysfs by which a driver makes nodes for a function.
const CLASSES: [&str; 3] = ["drm", "infiniband_mad", "infiniband_verbs"];

/// A process with a device node open.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Holder {
    pub pid: u32,
    /// Name of its program, without arguments: they may be anybody's secret.
    pub program: String,
    pub node: PathBuf,
}

impl Display for Holder {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (pid, program, node) = (self.pid, &self.program, self.node.display());
        write!(f, "process {pid} ({program}) has {node} open")
    }
}

/// All of them.
pub struct Holders(Vec<Holder>);

impl Holders {
    /// As the processes are now, this one excepted.
    ///
    /// # Errors
    /// A process is there whose descriptors cannot be read: it could have the device that matters (P9).
    pub fn observe(root: &HostRoot) -> HostResult<Self> {
        let numbers = match root.is_live() {
            true => numbers(root)?,
            false => BTreeMap::new(),
        };
        let own = std::process::id();
        let scan = processes::Scan::begin();
        let mut found = Vec::new();
        for pid in processes::ids(root).map_err(io_error("cannot list /proc"))? {
            if root.is_live() && pid == own {
                continue;
            }
            let program = root
                .read_value(format!("/proc/{pid}/comm"))
                .unwrap_or_default();
            let nodes = scan.when_allowed(|| open_nodes(root, pid, &numbers));
            let nodes = nodes.map_err(io_error(format_args!(
                "cannot read what process {pid} ({program}) holds open"
            )))?;
            found.extend(nodes.into_iter().map(|node| Holder {
                pid,
                program: program.clone(),
                node,
            }));
        }
        found.sort();
        found.dedup();
        Ok(Self(found))
    }

    /// The first that has one of these nodes open.
    pub fn of(&self, is_meant: impl Fn(&Path) -> bool) -> Option<&Holder> {
        self.0.iter().find(|holder| is_meant(&holder.node))
    }

    /// Who uses a function by its native driver. The nodes of NVIDIA's driver are those of all its GPUs: a process that
    /// computes has several of them open, and which GPU it computes on nobody else can tell.
    pub fn of_native(
        &self,
        root: &HostRoot,
        address: &PciAddress,
        driver: &str,
    ) -> Option<&Holder> {
        let own = nodes_of(root, address);
        let is_nvidia = driver.starts_with("nvidia");
        self.of(|node| {
            let of_driver = node.to_str().is_some_and(|node| node.starts_with(NVIDIA));
            own.iter().any(|own| own == node) || is_nvidia && of_driver
        })
    }

    /// Who has a function by VFIO.
    pub fn of_vfio(&self, root: &HostRoot, address: &PciAddress) -> Option<&Holder> {
        let group = root.link_name(format!("{}/iommu_group", pci::folder(address)))?;
        let own = Path::new("/dev/vfio").join(group);
        self.of(|node| node == own)
    }
}

/// Nodes that a driver made for a function.
fn nodes_of(root: &HostRoot, address: &PciAddress) -> Vec<PathBuf> {
    let folder = pci::folder(address);
    let mut found = Vec::new();
    for class in CLASSES {
        for name in root.names(format!("{folder}/{class}")) {
            let text = root.read_value(format!("{folder}/{class}/{name}/uevent"));
            let text = text.unwrap_or_default();
            let node = text.lines().find_map(|line| line.strip_prefix("DEVNAME="));
            found.extend(node.map(|node| Path::new("/dev").join(node)));
        }
    }
    found
}

fn open_nodes(
    root: &HostRoot,
    pid: u32,
    numbers: &BTreeMap<u64, PathBuf>,
) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for thread in processes::threads(root, pid)? {
        let folder = format!("{thread}/fd");
        if root.is_live() {
            let listed = processes::unless_ended(root, &thread, root.files(folder))?;
            for (_, file) in listed.unwrap_or_default() {
                let file = processes::unless_ended(root, &thread, file)?;
                let node =
                    file.and_then(|file| numbers.get(&number_of(file.st_mode, file.st_rdev)?));
                found.extend(node.cloned());
            }
        } else {
            let listed = processes::unless_ended(root, &thread, root.links(folder))?;
            for (_, target) in listed.unwrap_or_default() {
                let target = processes::unless_ended(root, &thread, target)?;
                // a socket, a pipe: none is a device
                found.extend(target.filter(|target| target.is_absolute()));
            }
        }
    }
    Ok(found)
}

/// The device nodes of the live host, by their number.
fn numbers(root: &HostRoot) -> HostResult<BTreeMap<u64, PathBuf>> {
    let mut found = BTreeMap::new();
    for folder in FOLDERS {
        let listed = root.list(folder);
        for name in listed.map_err(io_error(format_args!("cannot list {folder}")))? {
            let path = Path::new(folder).join(name);
            let is_meant = folder != "/dev" || path.to_string_lossy().starts_with(NVIDIA);
            // one that went away meanwhile is open by nobody who matters
            let metadata = std::fs::symlink_metadata(&path).ok();
            if let Some(number) = metadata.and_then(|data| number_of(data.mode(), data.rdev()))
                && is_meant
            {
                found.insert(number, path);
            }
        }
    }
    Ok(found)
}

/// The number of a character device.
fn number_of(mode: u32, number: u64) -> Option<u64> {
    let kind = SFlag::from_bits_truncate(mode) & SFlag::S_IFMT;
    (kind == SFlag::S_IFCHR).then_some(number)
}
