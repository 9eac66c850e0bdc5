//! The runtime of a slice host (I-70, I-104..I-109): no host service holds the GPUs, libvirt's folder can be passed
//! through, and no reservation of a VM that is gone stays.
use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::host_settings::HostSettings;
use super::mode::Modes;
use super::systemd::unit;
use super::{Action, Machine, Plan};
use crate::error::{HostError, HostResult, io_error};
use crate::host::blocking;
use crate::ids::VmName;
use crate::journal::Journal;
use crate::settings::Dhcp;

/// It stays where the settings name it (D-96).
const FABRIC_MANAGER: &str = "nvidia-fabricmanager.service";
/// Services that hold GPUs or NVSwitches (I-104, D-59, D-96, INC-18).
// partly D-59: the driver's modules stay loaded, and each device is taken from them alone
pub const GPU_SERVICES: [&str; 4] = [
    "nvidia-persistenced.service",
    FABRIC_MANAGER,
    "nvidia-dcgm.service",
    "dcgm.service",
];
pub const LIBVIRT_FOLDER: &str = "/var/lib/libvirt";
/// Where reservations were before the agent had a folder of its own (I-106, D-63).
const FORMER_FOLDER: &str = "/etc/dnsmasq.d";

/// Plans it; outside of slice mode it is refused and changes nothing (I-108, CON-26).
///
/// # Errors
/// Something that must be known cannot be observed.
pub async fn plan(machine: &Machine, modes: Modes, settings: &HostSettings) -> HostResult<Plan> {
    let mut plan = Plan::new("runtime-prepare");
    if let Err(why) = modes.slice() {
        plan.refuse(why);
        return Ok(plan);
    }
    for name in GPU_SERVICES {
        if name == FABRIC_MANAGER && settings.gpu_fabric.runs_here() {
            continue;
        }
        let found = unit(machine, name).await?;
        if found.is_there && (found.is_active || found.is_enabled) {
            let reason = "it holds GPUs that go into VMs";
            // udev starts a static unit at the next start of the host, whether it is disabled or not
            let verb = if found.is_static { "mask" } else { "disable" };
            plan.run("systemctl", &[verb, "--now", name], reason);
        }
    }
    libvirt_folder(machine, &mut plan)?;
    reservations(machine, &mut plan, &settings.dhcp, &settings.state_dir).await?;
    Ok(plan)
}

/// The hypervisor's user reads its keys below it (I-105, D-98, INC-19).
fn libvirt_folder(machine: &Machine, plan: &mut Plan) -> HostResult<()> {
    let mode = match std::fs::metadata(machine.root.path(LIBVIRT_FOLDER)) {
        Ok(folder) => folder.permissions().mode() & 0o7777,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            plan.note(format!(
                "{LIBVIRT_FOLDER} is not there: libvirt is not installed"
            ));
            return Ok(());
        }
        Err(error) => {
            return Err(io_error(format_args!("cannot read {LIBVIRT_FOLDER}"))(
                error,
            ));
        }
    };
    if mode != 0o755 {
        let action = Action::SetMode {
            path: LIBVIRT_FOLDER.into(),
            mode: 0o755,
        };
        let reason =
            format!("the hypervisor's user reads its keys below it; its mode is {mode:04o}");
        plan.step(action, reason);
    }
    Ok(())
}

/// Reservations of VMs that are neither libvirt's nor of an allocation that the host holds (I-106, I-109). Where one of
/// the two cannot be asked, all of them stay.
async fn reservations(
    machine: &Machine,
    plan: &mut Plan,
    dhcp: &Dhcp,
    state_dir: &Path,
) -> HostResult<()> {
    let mut found = Vec::new();
    for folder in [Path::new(FORMER_FOLDER), dhcp.hosts_dir.as_path()] {
        let listed = machine.root.list(folder);
        for name in listed.map_err(io_error(format_args!("cannot list {}", folder.display())))? {
            if let Some(vm) = vm_of(&name) {
                found.push((folder.join(name), vm));
            }
        }
    }
    if found.is_empty() {
        return Ok(());
    }
    let live = match live(machine, state_dir).await {
        Ok(live) => live,
        Err(error) => {
            plan.note(format!(
                "{} reservations stay: cannot list the VMs: {error}",
                found.len()
            ));
            return Ok(());
        }
    };
    let is_stale = |vm: &VmName| !live.contains(vm.as_str());
    let stale: Vec<_> = found.into_iter().filter(|(_, vm)| is_stale(vm)).collect();
    for (path, vm) in &stale {
        let (path, backup) = (path.clone(), None);
        let reason = format!("a reservation of {vm}, which is gone");
        plan.step(Action::RemoveFile { path, backup }, reason);
    }
    if !stale.is_empty() {
        let reason = "dnsmasq forgets a reservation only when it reads them anew";
        plan.run("systemctl", &["restart", "dnsmasq.service"], reason);
    }
    Ok(())
}

/// Whose a reservation is, by the name of its file.
fn vm_of(name: &str) -> Option<VmName> {
    let vm = name.strip_prefix("gpuaas-")?.strip_suffix(".conf")?;
    vm.parse().ok()
}

/// Names of VMs that libvirt has, in any state, or whose allocation holds a slot here. A host that never had libvirt has those
/// of its journal.
///
/// # Errors
/// Libvirt or the journal does not answer.
pub async fn live(machine: &Machine, state_dir: &Path) -> HostResult<BTreeSet<String>> {
    let mut live = BTreeSet::new();
    // a link into a folder that is not mounted is one that is there
    let folder = std::fs::symlink_metadata(machine.root.path(LIBVIRT_FOLDER));
    if !folder.is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound) {
        let arguments = ["-c", "qemu:///system", "list", "--all", "--name"];
        let listed = machine.ask("virsh", &arguments).await?.success("virsh")?;
        let names = listed.stdout.lines().map(str::trim);
        live.extend(names.filter(|name| !name.is_empty()).map(str::to_owned));
    }
    if let Some(journal) = journal(machine, state_dir)? {
        for hold in blocking::here(|| journal.holds())? {
            live.insert(hold.allocation.vm_name().to_string());
        }
    }
    Ok(live)
}

/// What the agent's journal has, where there is one: a plan is made of it, and nothing of it is changed.
///
/// # Errors
/// It is there and cannot be read.
pub fn journal(machine: &Machine, state_dir: &Path) -> Result<Option<Journal>, HostError> {
    let path = machine.root.path(state_dir.join("journal.sqlite"));
    match path.exists() {
        true => Journal::read(&path).map(Some),
        false => Ok(None),
    }
}
