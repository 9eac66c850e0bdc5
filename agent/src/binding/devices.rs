//! Binds approved devices to `vfio-pci` by `driver_override`, and keeps the choice for the next start where `driverctl`
//! reads it (D-57). A device that VFIO does not take gets its former driver back.
use std::fmt::{self, Display, Formatter};
use std::path::Path;

use serde::Serialize;

use super::Approved;
use super::guard::Guard;
use crate::error::HostResult;
use crate::ids::PciAddress;
use crate::parity::line::escape;
use crate::prepare::mode::Modes;
use crate::prepare::{Action, Machine, Plan, Step};
use crate::topology::pci;
use crate::topology::readiness::gpu_service_holders;

const VFIO: &str = "vfio-pci";
const DRIVERS: &str = "/sys/bus/pci/drivers";
const PROBE: &str = "/sys/bus/pci/drivers_probe";
/// What `driverctl` applies to a device when it appears: a file per device, with the name of its driver.
const OVERRIDES: &str = "/etc/driverctl.d";

/// What is done to one device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    pub address: PciAddress,
    /// What it is bound to now.
    pub former: Option<String>,
    pub steps: Vec<Step>,
}

/// What is done to all, and what is not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Work {
    pub devices: Vec<Device>,
    notes: Vec<String>,
    /// Approved devices that stay with the host.
    refusals: Vec<String>,
}

impl Work {
    /// As one plan.
    pub fn plan(&self) -> Plan {
        let steps = self.devices.iter().flat_map(|device| &device.steps);
        Plan {
            steps: steps.cloned().collect(),
            notes: self.notes.clone(),
            refusals: self.refusals.clone(),
            ..Plan::new("bind-devices")
        }
    }
}

/// Plans it. A device that is refused keeps no other from its slot.
///
/// # Errors
/// Something that must be known cannot be observed.
pub fn plan(machine: &Machine, modes: Modes, state_dir: &Path) -> HostResult<Work> {
    let mut work = Work::default();
    if let Err(why) = modes.slice() {
        work.notes.push(format!("nothing is bound: {why}"));
        return Ok(work);
    }
    let approved = Approved::read(machine, state_dir)?;
    if approved.all.is_empty() {
        let note = "nothing is bound: this host knows of no approved slot yet";
        work.notes.push(note.to_owned());
        return Ok(work);
    }
    let holders = gpu_service_holders(&machine.root);
    if !holders.is_empty() {
        work.refusals.push(format!(
            "host services hold the GPUs: {}; run runtime-prepare first",
            holders.join(", ")
        ));
        return Ok(work);
    }
    let guard = Guard::new(&machine.root)?;
    for address in &approved.all {
        let folder = pci::folder(address);
        if !pci::exists(&machine.root, address) {
            work.refusals.push(format!("{address}: it is not there"));
            continue;
        }
        if let Some(why) = guard.refusal(address) {
            work.refusals.push(format!("{address}: {why}"));
            continue;
        }
        let former = machine.root.link_name(format!("{folder}/driver"));
        let is_bound = former.as_deref() == Some(VFIO);
        if !is_bound && former.is_some() && approved.held.contains(address) {
            let driver = former.as_deref().unwrap_or_default();
            work.refusals.push(format!(
                "{address}: an allocation holds it, and {driver} has it: its slot is repaired first"
            ));
            continue;
        }
        let device = Device {
            steps: steps(machine, address, former.as_deref())?,
            address: address.clone(),
            former,
        };
        if !device.steps.is_empty() {
            work.devices.push(device);
        }
    }
    Ok(work)
}

fn steps(machine: &Machine, address: &PciAddress, former: Option<&str>) -> HostResult<Vec<Step>> {
    let mut plan = Plan::new("bind-devices");
    let write = |path: String, value: &str| Action::WriteValue {
        path: path.into(),
        value: value.to_owned(),
    };
    let folder = pci::folder(address);
    plan.file(
        machine,
        format!("{OVERRIDES}/pci-{address}"),
        (&format!("{VFIO}\n"), 0o644),
        None,
        "the same at the next start",
    )?;
    let chosen = machine.root.read_value(format!("{folder}/driver_override"));
    if chosen.as_deref() != Some(VFIO) {
        let path = format!("{folder}/driver_override");
        plan.step(write(path, VFIO), "VFIO alone may take the device");
    }
    if former == Some(VFIO) {
        return Ok(plan.steps);
    }
    if let Some(driver) = former {
        let path = format!("{DRIVERS}/{driver}/unbind");
        plan.step(
            write(path, &address.to_string()),
            format!("{driver} lets it go"),
        );
    }
    plan.step(
        write(PROBE.to_owned(), &address.to_string()),
        "VFIO takes it",
    );
    Ok(plan.steps)
}

/// What became of a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Outcome {
    pub device: String,
    /// What it is bound to now; empty: nothing.
    pub driver: String,
    /// Why it is not bound to VFIO.
    pub error: Option<String>,
}

impl Display for Outcome {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let status = if self.error.is_some() {
            "FAILED"
        } else {
            "DONE"
        };
        let prefix = crate::prepare::apply::PREFIX;
        write!(
            f,
            "{prefix} status={status} command=bind-devices device={} driver={}",
            escape(&self.device),
            escape(&self.driver)
        )?;
        match &self.error {
            Some(error) => write!(f, " error={}", escape(error)),
            None => Ok(()),
        }
    }
}

/// Binds each device, whatever became of the one before. One that fails has its former driver again.
pub fn apply(machine: &Machine, work: &Work) -> Vec<Outcome> {
    let each = work.devices.iter();
    each.map(|device| {
        let done = bind(machine, device);
        let driver = driver(machine, &device.address).unwrap_or_default();
        Outcome {
            device: device.address.to_string(),
            driver,
            error: done.err(),
        }
    })
    .collect()
}

fn driver(machine: &Machine, address: &PciAddress) -> Option<String> {
    machine
        .root
        .link_name(format!("{}/driver", pci::folder(address)))
}

fn bind(machine: &Machine, device: &Device) -> Result<(), String> {
    let written = device.steps.iter().try_for_each(|step| match &step.action {
        Action::WriteValue { path, value } => machine
            .write_value(path, value)
            .map_err(|error| format!("{}: {error}", path.display())),
        // after the binding: one that fails is not repeated at every start
        _ => Ok(()),
    });
    let bound = driver(machine, &device.address);
    if written.is_ok() && bound.as_deref() == Some(VFIO) {
        return keep(machine, device);
    }
    let why = written
        .err()
        .unwrap_or_else(|| format!("{VFIO} did not take it"));
    restore(machine, device);
    let now = driver(machine, &device.address);
    let now = match (&now, &device.former) {
        (Some(now), _) => format!("{now} has it"),
        (None, Some(former)) => format!("{former} has not taken it back"),
        (None, None) => "no driver has it, as before".to_owned(),
    };
    Err(format!("{why}; {now}"))
}

fn keep(machine: &Machine, device: &Device) -> Result<(), String> {
    let path = Path::new(OVERRIDES).join(format!("pci-{}", device.address));
    let write = || {
        let path = machine.root.path(&path);
        std::fs::create_dir_all(machine.root.path(OVERRIDES))?;
        std::fs::write(path, format!("{VFIO}\n"))
    };
    write().map_err(|error| {
        format!(
            "it is bound, and not kept for the next start: {}: {error}",
            path.display()
        )
    })
}

/// As it was: any driver may take it, and the former one is asked to. What the kernel refuses shows in what has it then.
fn restore(machine: &Machine, device: &Device) {
    let folder = pci::folder(&device.address);
    let address = device.address.to_string();
    let write = |path: String, value: &str| {
        if let Err(error) = machine.write_value(Path::new(&path), value) {
            tracing::warn!(%error, path, "cannot undo a binding");
        }
    };
    // a line end alone clears it
    write(format!("{folder}/driver_override"), "\n");
    if driver(machine, &device.address).is_some() {
        return;
    }
    match &device.former {
        Some(former) => write(format!("{DRIVERS}/{former}/bind"), &address),
        None => write(PROBE.to_owned(), &address),
    }
}
