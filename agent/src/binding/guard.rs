//! Devices that are never taken from the host, whatever was approved: the controller of a disk in use, an interface that
//! the host uses, and anything that is neither a GPU nor a virtual function.
use crate::disk::facts::attributes;
use crate::disk::mounts;
use crate::disk::stack::controllers;
use crate::error::{HostResult, io_error};
use crate::host::root::HostRoot;
use crate::ids::PciAddress;
use crate::topology::pci;

const BLOCK: &str = "/sys/class/block";

/// Finds why a device must stay with the host.
pub struct Guard<'a> {
    root: &'a HostRoot,
    /// Controllers of disks in use, with the disk and what uses it.
    storage: Vec<(PciAddress, String)>,
    /// Interfaces that a route leads through.
    routed: Vec<String>,
}

impl<'a> Guard<'a> {
    /// Observes what the host uses.
    ///
    /// # Errors
    /// A use that is there cannot be read: it could be the one that matters (P9).
    pub fn new(root: &'a HostRoot) -> HostResult<Self> {
        Ok(Self {
            root,
            storage: storage(root)?,
            routed: routed(root)?,
        })
    }

    /// Why a device must stay with the host; `None`: it may go.
    pub fn refusal(&self, address: &PciAddress) -> Option<String> {
        if let Some((_, why)) = self.storage.iter().find(|(own, _)| own == address) {
            return Some(why.clone());
        }
        let folder = pci::folder(address);
        for interface in self.root.names(format!("{folder}/net")) {
            let own = format!("{folder}/net/{interface}");
            let parts = self.root.names(&own);
            let is_part = parts
                .iter()
                .any(|name| name == "master" || name.starts_with("upper_"));
            if is_part || self.routed.contains(&interface) {
                return Some(format!("the host uses its interface {interface}"));
            }
        }
        let is_gpu = pci::devices(self.root)
            .iter()
            .any(|one| one.address == *address && one.kind == pci::PciKind::Gpu);
        let is_function = self.root.link(format!("{folder}/physfn")).is_some();
        (!is_gpu && !is_function).then(|| "it is neither a GPU nor a virtual function".to_owned())
    }
}

fn storage(root: &HostRoot) -> HostResult<Vec<(PciAddress, String)>> {
    let (mounts, swaps) = (mounts::all(root)?, mounts::swaps(root)?);
    let names = root
        .list(BLOCK)
        .map_err(io_error(format_args!("cannot list {BLOCK}")))?;
    let mut found = Vec::new();
    for name in names {
        if root.exists(format!("{BLOCK}/{name}/partition")) {
            continue;
        }
        let facts = attributes(root, &name, &mounts, &swaps)?;
        let mounted = facts
            .mounts
            .first()
            .map(|(_, at)| format!("mounted at {at}"));
        let swap = facts.swaps.first().map(|_| "swap".to_owned());
        let stacked = facts.holders.first().map(|on| format!("below {on}"));
        let Some(how) = mounted.or(swap).or(stacked) else {
            continue;
        };
        for controller in controllers(root, &name)? {
            found.push((
                controller,
                format!("it is the controller of {name}, which is {how}"),
            ));
        }
    }
    Ok(found)
}

/// Interfaces that a route leads through, but for what every IPv6 interface has.
fn routed(root: &HostRoot) -> HostResult<Vec<String>> {
    let read = |file: &str| {
        let text = root.value(file);
        text.map(Option::unwrap_or_default)
            .map_err(io_error(format!("cannot read {file}")))
    };
    let of_4 = read("/proc/net/route")?;
    let of_4 = of_4
        .lines()
        .skip(1)
        .filter_map(|line| line.split_whitespace().next());
    let of_6 = read("/proc/net/ipv6_route")?;
    let of_6 = of_6.lines().filter_map(|line| {
        let own = line.starts_with("fe80") || line.starts_with("ff0");
        let interface = line.split_whitespace().last()?;
        (!own && interface != "lo").then_some(interface)
    });
    Ok(of_4.chain(of_6).map(str::to_owned).collect())
}
