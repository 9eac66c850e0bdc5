//! The virtual functions of the fabric (J-25, J-26, CON-22): as many of each card as approved slots need. They are made
//! at the start of the host and never while one of them is in use. A card that cannot have its own keeps no other card
//! from having them.
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::Approved;
use super::holders::Holders;
use crate::error::{HostError, HostResult};
use crate::host::root::HostRoot;
use crate::ids::PciAddress;
use crate::prepare::mode::Modes;
use crate::prepare::{Action, Machine, Plan, Step, apply};
use crate::settings::Fabric;
use crate::topology::pci::{self, PciDevice, PciKind};

/// What is done to one card.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Card {
    pub address: PciAddress,
    pub plan: Plan,
}

/// What is done to all, and what is not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Work {
    pub cards: Vec<Card>,
    notes: Vec<String>,
}

impl Work {
    /// As one plan.
    pub fn plan(&self) -> Plan {
        let mut whole = Plan::new(COMMAND);
        whole.notes.clone_from(&self.notes);
        for card in &self.cards {
            whole.append(card.plan.clone());
        }
        whole
    }

    /// Cards that do not get what they need.
    pub fn refused(&self) -> BTreeSet<PciAddress> {
        let refused = self.cards.iter().filter(|card| card.is_refused());
        refused.map(|card| card.address.clone()).collect()
    }

    /// The same without these cards.
    #[must_use]
    pub fn without(mut self, cards: &BTreeSet<PciAddress>) -> Self {
        self.cards.retain(|card| !cards.contains(&card.address));
        self
    }
}

impl Card {
    fn is_refused(&self) -> bool {
        !self.plan.refusals.is_empty()
    }
}

const COMMAND: &str = "fabric-vfs";

/// Plans it.
///
/// # Errors
/// Something that must be known cannot be observed, or a setting is wrong.
pub fn plan(
    machine: &Machine,
    modes: Modes,
    state_dir: &Path,
    fabric: &Fabric,
) -> HostResult<Work> {
    let mut work = Work::default();
    if let Err(why) = modes.slice() {
        work.notes
            .push(format!("no virtual function is made: {why}"));
        return Ok(work);
    }
    let root = &machine.root;
    let approved = Approved::read(machine, state_dir)?;
    let devices: Vec<PciDevice> = pci::devices(root)
        .into_iter()
        .filter(|device| device.kind == PciKind::Fabric && device.dead.is_none())
        .collect();
    let wanted = wanted(root, &devices, &approved, fabric)?;
    if wanted.is_empty() {
        let note = "no approved slot and no setting agent.fabric.virtual_functions asks for one";
        work.notes.push(note.to_owned());
    }
    for (address, count) in wanted {
        let mut plan = Plan::new(COMMAND);
        let device = devices.iter().find(|device| device.address == address);
        let planned = match device {
            Some(device) => of_device(root, &mut plan, device, count, &approved),
            None => {
                plan.refuse(format!("{address}: there is no such device of the fabric"));
                Ok(())
            }
        };
        // what cannot be observed of one card is no reason against the others
        if let Err(error) = planned {
            plan.refuse(format!("{address}: {error}"));
        }
        work.cards.push(Card { address, plan });
    }
    Ok(work)
}

/// Applies the plan of each card that is not refused, whatever became of the one before. Returns the cards whose plan
/// failed.
pub async fn apply(
    machine: &Machine,
    work: &Work,
    mut reported: impl FnMut(&Step, &HostResult<()>),
) -> BTreeSet<PciAddress> {
    let mut failed = BTreeSet::new();
    for card in work.cards.iter().filter(|card| !card.is_refused()) {
        let done = apply::apply(machine, &card.plan.steps, &mut reported).await;
        if done.is_err() {
            failed.insert(card.address.clone());
        }
    }
    failed
}

/// How many functions each device needs: the highest that a slot has, and at least what the site's settings say.
fn wanted(
    root: &HostRoot,
    devices: &[PciDevice],
    approved: &Approved,
    fabric: &Fabric,
) -> HostResult<BTreeMap<PciAddress, u32>> {
    let mut wanted: BTreeMap<PciAddress, u32> = BTreeMap::new();
    for (address, count) in &fabric.virtual_functions {
        let address = address.parse().map_err(|_| {
            HostError::invalid(
                "agent.fabric.virtual_functions",
                format!("{address:?} is no PCI address"),
            )
        })?;
        wanted.insert(address, *count);
    }
    for device in devices {
        for number in 0..number(root, device, "sriov_totalvfs").unwrap_or(0) {
            let own = function_address(root, device, number);
            if own.is_some_and(|own| approved.all.contains(&own)) {
                let count = wanted.entry(device.address.clone()).or_default();
                *count = (*count).max(number + 1);
            }
        }
    }
    Ok(wanted)
}

fn number(root: &HostRoot, device: &PciDevice, name: &str) -> Option<u32> {
    let folder = pci::folder(&device.address);
    root.read_value(format!("{folder}/{name}"))?.parse().ok()
}

/// Where a function is, or will be: the kernel tells by a link once it is there, and by offset and stride before.
fn function_address(root: &HostRoot, device: &PciDevice, index: u32) -> Option<PciAddress> {
    let folder = pci::folder(&device.address);
    if let Some(name) = root.link_name(format!("{folder}/virtfn{index}")) {
        return name.parse().ok();
    }
    let offset = number(root, device, "sriov_offset")?;
    let stride = number(root, device, "sriov_stride")?;
    let text = device.address.to_string();
    let (domain, rest) = text.split_once(':')?;
    let (bus, rest) = rest.split_once(':')?;
    let (slot, function) = rest.split_once('.')?;
    let hex = |text: &str| u32::from_str_radix(text, 16).ok();
    let id = (hex(bus)? << 8) + (hex(slot)? << 3) + hex(function)?;
    let id = id
        .checked_add(offset)?
        .checked_add(stride.checked_mul(index)?)?;
    let (bus, slot, function) = (id >> 8, id >> 3 & 0x1f, id & 7);
    format!("{domain}:{bus:02x}:{slot:02x}.{function}")
        .parse()
        .ok()
}

fn of_device(
    root: &HostRoot,
    plan: &mut Plan,
    device: &PciDevice,
    count: u32,
    approved: &Approved,
) -> HostResult<()> {
    let address = &device.address;
    let folder = pci::folder(address);
    let made = number(root, device, "sriov_numvfs");
    let (Some(made), Some(most)) = (made, number(root, device, "sriov_totalvfs")) else {
        plan.refuse(format!(
            "{address}: the kernel shows no SR-IOV; enable it in the firmware"
        ));
        return Ok(());
    };
    if count > most {
        plan.refuse(format!(
            "{address}: {count} functions are wanted, and it can have {most}"
        ));
        return Ok(());
    }
    let write = |name: &str, value: &str| Action::WriteValue {
        path: format!("{folder}/{name}").into(),
        value: value.to_owned(),
    };
    if made < count {
        if made > 0 {
            if let Some(why) = in_use(root, device, approved)? {
                plan.refuse(format!(
                    "{address}: it has {made} functions, and {count} are wanted: {why}"
                ));
                return Ok(());
            }
            plan.step(
                write("sriov_numvfs", "0"),
                "the kernel changes the number only from none",
            );
        }
        let probes = root.read_value(format!("{folder}/sriov_drivers_autoprobe"));
        if probes.as_deref() == Some("1") {
            let reason = "no driver of the host takes the functions";
            plan.step(write("sriov_drivers_autoprobe", "0"), reason);
        }
        plan.step(
            write("sriov_numvfs", &count.to_string()),
            "a function for each slot",
        );
    } else if made > count {
        plan.note(format!(
            "{address}: it has {made} functions, and {count} are needed"
        ));
    }
    guids(root, plan, device, made.min(count));
    Ok(())
}

/// Why the functions of a device cannot be made anew.
fn in_use(root: &HostRoot, device: &PciDevice, approved: &Approved) -> HostResult<Option<String>> {
    let held = device
        .functions
        .iter()
        .find(|one| approved.held.contains(one));
    if let Some(held) = held {
        return Ok(Some(format!("an allocation holds {held}")));
    }
    // the host itself may use one: its storage or management network
    for function in &device.functions {
        let driver = root.link_name(format!("{}/driver", pci::folder(function)));
        if let Some(driver) = driver.filter(|driver| !driver.contains("vfio")) {
            return Ok(Some(format!(
                "{function} is the host's, by its driver {driver}"
            )));
        }
    }
    let holders = Holders::observe(root)?;
    let mut functions = device.functions.iter();
    let holder = functions.find_map(|function| holders.of_vfio(root, function));
    Ok(holder.map(ToString::to_string))
}

/// A function of InfiniBand without a GUID cannot join the fabric: it gets one that is made of its device's, and follows
/// the link of its port.
fn guids(root: &HostRoot, plan: &mut Plan, device: &PciDevice, count: u32) {
    let folder = pci::folder(&device.address);
    let Some(rdma) = root
        .names(format!("{folder}/infiniband"))
        .into_iter()
        .next()
    else {
        return;
    };
    let layer = root.read_value(format!("{folder}/infiniband/{rdma}/ports/1/link_layer"));
    if layer.as_deref() != Some("InfiniBand") {
        return;
    }
    let Some(own) = root.read_value(format!("{folder}/infiniband/{rdma}/node_guid")) else {
        return;
    };
    for index in 0..count {
        let of = |name: &str| format!("{folder}/sriov/{index}/{name}");
        for name in ["node", "port"] {
            let there = root.read_value(of(name));
            let is_zero = |guid: &String| guid.bytes().all(|one| matches!(one, b'0' | b':'));
            if !there.is_some_and(|guid| is_zero(&guid)) {
                continue;
            }
            let Some(value) = function_guid(&own, index) else {
                plan.refuse(format!("{}: its GUID is {own:?}", device.address));
                return;
            };
            let path = of(name).into();
            plan.step(
                Action::WriteValue { path, value },
                "the function's place in the fabric",
            );
        }
        if root
            .read_value(of("policy"))
            .is_some_and(|now| now != "Follow")
        {
            let action = Action::WriteValue {
                path: of("policy").into(),
                value: "Follow".to_owned(),
            };
            plan.step(action, "the function is up when its port is");
        }
    }
}

/// The device's GUID with the function's number in the two bytes that an EUI-64 made of a MAC has the same everywhere.
fn function_guid(own: &str, index: u32) -> Option<String> {
    let digits: String = own.chars().filter(|one| *one != ':').collect();
    let mut bytes = hex::decode(digits).ok().filter(|bytes| bytes.len() == 8)?;
    let [high, low] = u16::try_from(index + 1).ok()?.to_be_bytes();
    bytes[3] = 0x10 | high;
    bytes[4] = low;
    let bytes: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Some(bytes.join(":"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_of_every_device_has_a_guid_of_its_own() {
        let one = function_guid("a088:c203:00ab:0010", 0).unwrap();
        assert_eq!(one, "a0:88:c2:10:01:ab:00:10");
        assert_ne!(function_guid("a088:c203:00ab:0010", 1).unwrap(), one);
        assert_ne!(function_guid("a088:c203:00ab:0020", 0).unwrap(), one);
        assert_eq!(function_guid("a088:c203", 0), None);
    }
}
