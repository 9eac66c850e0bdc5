//! Binds approved devices to `vfio-pci` by `driver_override`, and keeps the choice for the next start where `driverctl`
//! reads it (D-57). A device that VFIO does not take gets its former driver back, one that a process has open keeps it, and
//! one that is no approved slot's any more, or whose host went back to bare metal, is given back to its native driver.
use std::fmt::{self, Display, Formatter};
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::guard::Guard;
use super::holders::Holders;
use super::{Approved, record};
use crate::error::HostResult;
use crate::ids::PciAddress;
use crate::parity::line::escape;
use crate::prepare::mode::Modes;
use crate::prepare::{Action, Machine, Plan, Step};
use crate::settings::GpuFabric;
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
    /// Devices that this agent had bound, and that are given back.
    pub returned: Vec<Device>,
    state_dir: PathBuf,
    notes: Vec<String>,
    /// Approved devices that stay with the host.
    refusals: Vec<String>,
}

impl Work {
    /// As one plan.
    pub fn plan(&self) -> Plan {
        let devices = self.returned.iter().chain(&self.devices);
        let steps = devices.flat_map(|device| &device.steps);
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
pub fn plan(
    machine: &Machine,
    modes: Modes,
    state_dir: &Path,
    fabric: &GpuFabric,
) -> HostResult<Work> {
    let mut work = Work {
        state_dir: state_dir.to_owned(),
        ..Work::default()
    };
    let approved = Approved::find(machine, state_dir)?;
    if let Err(why) = modes.slice() {
        work.notes.push(format!("nothing is bound: {why}"));
        if modes.is_baremetal() {
            let held = approved.unwrap_or_default().held;
            let none = Approved {
                held,
                ..Approved::default()
            };
            work.give_back(machine, &none)?;
        }
        return Ok(work);
    }
    let none_yet = "nothing is bound: this host knows of no approved slot yet";
    // without a journal nobody knows what was approved, so nothing is given back either
    let Some(approved) = approved else {
        work.notes.push(none_yet.to_owned());
        return Ok(work);
    };
    work.give_back(machine, &approved)?;
    if approved.all.is_empty() {
        work.notes.push(none_yet.to_owned());
        return Ok(work);
    }
    work.bind(machine, &approved, fabric)?;
    Ok(work)
}

/// Why no device is bound now: a service of the host holds the GPUs.
pub(super) fn held_by_services(machine: &Machine, fabric: &GpuFabric) -> Option<String> {
    let services = gpu_service_holders(&machine.root, fabric);
    (!services.is_empty()).then(|| {
        format!(
            "host services hold the GPUs: {}; run runtime-prepare first",
            services.join(", ")
        )
    })
}

/// Plans the binding of one device after the other.
pub(super) struct Binder<'a> {
    machine: &'a Machine,
    guard: Guard<'a>,
    /// Observed when the first device needs it.
    holders: Option<Holders>,
}

impl<'a> Binder<'a> {
    /// Observes what the host uses.
    ///
    /// # Errors
    /// It cannot be observed.
    pub(super) fn new(machine: &'a Machine) -> HostResult<Self> {
        Ok(Self {
            machine,
            guard: Guard::new(&machine.root)?,
            holders: None,
        })
    }

    /// What is to be done to a device; no step: it is bound and kept. The inner error says why it stays with the host.
    /// `is_held`: an allocation holds it, so no driver lets it go.
    ///
    /// # Errors
    /// Something that must be known cannot be observed.
    pub(super) fn plan(
        &mut self,
        address: &PciAddress,
        is_held: bool,
    ) -> HostResult<Result<Device, String>> {
        let root = &self.machine.root;
        if !pci::exists(root, address) {
            return Ok(Err("it is not there".to_owned()));
        }
        if let Some(why) = self.guard.refusal(address) {
            return Ok(Err(why));
        }
        let former = driver(self.machine, address);
        if let Some(driver) = former.as_deref().filter(|driver| *driver != VFIO) {
            if is_held {
                return Ok(Err(format!(
                    "an allocation holds it, and {driver} has it: its slot is repaired first"
                )));
            }
            if self.holders.is_none() {
                self.holders = Some(Holders::observe(root)?);
            }
            let holders = self.holders.as_ref();
            if let Some(holder) = holders.and_then(|all| all.of_native(root, address, driver)) {
                return Ok(Err(format!("{holder}; end it first")));
            }
        }
        Ok(Ok(Device {
            steps: steps(self.machine, address, former.as_deref())?,
            address: address.clone(),
            former,
        }))
    }
}

impl Work {
    fn bind(
        &mut self,
        machine: &Machine,
        approved: &Approved,
        fabric: &GpuFabric,
    ) -> HostResult<()> {
        if let Some(why) = held_by_services(machine, fabric) {
            self.refusals.push(why);
            return Ok(());
        }
        let mut binder = Binder::new(machine)?;
        for address in &approved.all {
            match binder.plan(address, approved.held.contains(address))? {
                Ok(device) if device.steps.is_empty() => {}
                Ok(device) => self.devices.push(device),
                Err(why) => self.refusals.push(format!("{address}: {why}")),
            }
        }
        Ok(())
    }

    /// Plans the return of every device that this agent had bound and that is not approved.
    fn give_back(&mut self, machine: &Machine, approved: &Approved) -> HostResult<()> {
        let own = record::read(machine, &self.state_dir)?;
        let mut holders = None;
        for address in own.difference(&approved.all) {
            if approved.held.contains(address) {
                self.refusals.push(format!(
                    "{address}: an allocation holds it, so it stays bound"
                ));
                continue;
            }
            let folder = pci::folder(address);
            let former = machine.root.link_name(format!("{folder}/driver"));
            let is_bound = former.as_deref() == Some(VFIO);
            if is_bound && holders.is_none() {
                holders = Some(Holders::observe(&machine.root)?);
            }
            let holder = holders.as_ref().filter(|_| is_bound);
            let holder = holder.and_then(|all| all.of_vfio(&machine.root, address));
            if let Some(holder) = holder {
                self.refusals
                    .push(format!("{address}: {holder}, so it stays bound"));
                continue;
            }
            self.returned.push(Device {
                steps: return_steps(machine, address, former.as_deref()),
                address: address.clone(),
                former,
            });
        }
        Ok(())
    }
}

fn write(path: String, value: &str) -> Action {
    Action::WriteValue {
        path: path.into(),
        value: value.to_owned(),
    }
}

fn override_file(address: &PciAddress) -> PathBuf {
    Path::new(OVERRIDES).join(format!("pci-{address}"))
}

/// Whether the choice for the next start is what this agent writes.
pub(super) fn is_kept(machine: &Machine, address: &PciAddress) -> bool {
    let text = machine.root.read(override_file(address));
    text.is_ok_and(|text| text == format!("{VFIO}\n"))
}

/// Undoes what [`steps`] does, from wherever an earlier return was broken off. What somebody chose in its place stays.
fn return_steps(machine: &Machine, address: &PciAddress, former: Option<&str>) -> Vec<Step> {
    let mut plan = Plan::new("bind-devices");
    if is_kept(machine, address) {
        let action = Action::RemoveFile {
            path: override_file(address),
            backup: None,
        };
        plan.step(action, "no approved slot has the device any more");
    }
    let folder = pci::folder(address);
    let chosen = machine.root.read_value(format!("{folder}/driver_override"));
    let chosen = chosen.unwrap_or_default();
    // the kernel says that nothing is chosen in either way
    if !matches!(chosen.as_str(), VFIO | "" | "(null)") || !pci::exists(&machine.root, address) {
        return plan.steps;
    }
    if former == Some(VFIO) {
        let path = format!("{DRIVERS}/{VFIO}/unbind");
        plan.step(write(path, &address.to_string()), "VFIO lets it go");
    }
    if chosen == VFIO {
        // a line end alone clears it
        let path = format!("{folder}/driver_override");
        plan.step(write(path, "\n"), "any driver may take the device");
    }
    if matches!(former, None | Some(VFIO)) {
        let reason = "its native driver takes it";
        plan.step(write(PROBE.to_owned(), &address.to_string()), reason);
    }
    plan.steps
}

fn steps(machine: &Machine, address: &PciAddress, former: Option<&str>) -> HostResult<Vec<Step>> {
    let mut plan = Plan::new("bind-devices");
    let folder = pci::folder(address);
    plan.file(
        machine,
        override_file(address),
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
    /// Why it is not bound to VFIO, or not given back.
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

/// Gives back and binds each device, whatever became of the one before. One that is not bound has its former driver again.
pub fn apply(machine: &Machine, work: &Work) -> Vec<Outcome> {
    let outcome = |device: &Device, done: Result<(), String>| Outcome {
        device: device.address.to_string(),
        driver: driver(machine, &device.address).unwrap_or_default(),
        error: done.err(),
    };
    let returned = work.returned.iter();
    let returned = returned.map(|one| outcome(one, give_back(machine, &work.state_dir, one)));
    let bound = work.devices.iter();
    let bound = bound.map(|one| outcome(one, bind(machine, &work.state_dir, one)));
    returned.chain(bound).collect()
}

fn driver(machine: &Machine, address: &PciAddress) -> Option<String> {
    machine
        .root
        .link_name(format!("{}/driver", pci::folder(address)))
}

fn give_back(machine: &Machine, state_dir: &Path, device: &Device) -> Result<(), String> {
    let address = &device.address;
    if device.former.as_deref() == Some(VFIO) {
        // a VM may have started since it was planned
        let holders = Holders::observe(&machine.root).map_err(|error| error.message)?;
        if let Some(holder) = holders.of_vfio(&machine.root, address) {
            return Err(format!("{holder}, so it stays bound"));
        }
    }
    for step in &device.steps {
        let done = match &step.action {
            Action::WriteValue { path, value } => machine.write_value(path, value),
            Action::RemoveFile { path, .. } => remove(&machine.root.path(path)),
            _ => Ok(()),
        };
        done.map_err(|error| format!("{}: {error}", step.action))?;
    }
    record::change(machine, state_dir, |devices| devices.remove(address))
        .map_err(|error| error.message)
}

fn remove(file: &Path) -> io::Result<()> {
    match std::fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Binds a device as it was planned. One that VFIO does not take has its former driver again.
///
/// # Errors
/// Why it is not bound, and what has it now.
pub(super) fn bind(machine: &Machine, state_dir: &Path, device: &Device) -> Result<(), String> {
    if let Some(driver) = device.former.as_deref().filter(|driver| *driver != VFIO) {
        // somebody may have opened it since it was planned
        let holders = Holders::observe(&machine.root).map_err(|error| error.message)?;
        if let Some(holder) = holders.of_native(&machine.root, &device.address, driver) {
            return Err(format!("{holder}; {driver} keeps it"));
        }
    }
    let written = device.steps.iter().try_for_each(|step| match &step.action {
        Action::WriteValue { path, value } => machine
            .write_value(path, value)
            .map_err(|error| format!("{}: {error}", path.display())),
        // after the binding: one that fails is not repeated at every start
        _ => Ok(()),
    });
    let bound = driver(machine, &device.address);
    if written.is_ok() && bound.as_deref() == Some(VFIO) {
        return keep(machine, state_dir, device);
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

fn keep(machine: &Machine, state_dir: &Path, device: &Device) -> Result<(), String> {
    let address = &device.address;
    // what says the same already is somebody else's, unless it is on record
    if is_kept(machine, address) {
        return Ok(());
    }
    let not_kept =
        |why: &dyn Display| format!("it is bound, and not kept for the next start: {why}");
    record::change(machine, state_dir, |devices| {
        devices.insert(address.clone())
    })
    .map_err(|error| not_kept(&error))?;
    let path = override_file(address);
    let write = || {
        std::fs::create_dir_all(machine.root.path(OVERRIDES))?;
        std::fs::write(machine.root.path(&path), format!("{VFIO}\n"))
    };
    write().map_err(|error| not_kept(&format_args!("{}: {error}", path.display())))
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
