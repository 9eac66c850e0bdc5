//! The storage transition (I-110..I-123, A-102..A-105, A-137, INC-29): takes approved disks from the host's use over into
//! slices. It is the only command that erases anything of a host, so it does less than it is asked to rather than more:
//!
//! - only disks of the approved storage profile, by their stable identity, whatever name they are given by (CON-27);
//! - it unmounts only what the profile names, never by force, and refuses every other use: swap, LVM, RAID, device mapper,
//!   loop devices, open descriptors, anything mounted elsewhere, the disk of the operating system (I-114, I-123);
//! - before it erases a disk, it proves once more that nothing uses it (P9). `wipefs` and `blkdiscard` run without their
//!   `--force`, which is what lets them write to a disk in use (INC-12).
//!
//! A disk looks raw as soon as its signatures are gone, long before its content is. So that it was begun is noted before the
//! first of them goes ([`begun`]), and the note goes once the disk is proven raw: whoever repeats a transition that was
//! broken off erases such a disk to the end.
// partly I-118: without `--force`, which is what let the prototype erase a mounted child
// partly I-119: without `-f`, for the same reason
mod begun;
mod domains;
mod done;
mod fstab;
mod inspection;
mod manifest;
mod profile;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use self::done::LOG_FOLDER;
pub use self::done::manifests;
use self::inspection::{inspect_once_released, unsafe_disk};
pub use self::manifest::{Disk, lines};
pub use self::profile::{DEFAULT_PROFILE, Profile};
use super::mode::Modes;
use super::plan::Cause;
use super::{Action, Machine, Plan, runtime};
use crate::disk::facts::DiskFacts;
use crate::disk::identity::BY_ID;
use crate::disk::signatures::is_member;
use crate::error::{HostResult, io_error};
use crate::host::blocking;

/// What is asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Request {
    /// Disks by stable link or kernel path; empty: all of the profile.
    pub devices: Vec<String>,
    /// The approved storage profile.
    pub profile: PathBuf,
}

/// A plan, and what is on the disks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transition {
    pub plan: Plan,
    /// Every disk of the host.
    pub disks: Vec<Disk>,
    /// Where the manifest is written.
    pub manifest: PathBuf,
}

/// Plans it. `stamp` names backup and manifest, as 20260417152532.
///
/// # Errors
/// Something that must be known of a disk cannot be observed.
pub async fn plan(
    machine: &Machine,
    request: &Request,
    modes: Modes,
    state_dir: &Path,
    stamp: &str,
) -> HostResult<Transition> {
    let mut plan = Plan::new("storage-transition");
    let mut disks = manifest::disks(machine).await?;
    let manifest = Path::new(LOG_FOLDER).join(format!("{}{stamp}.txt", done::MANIFEST));
    let profile = match Profile::read(machine, &request.profile) {
        Ok(profile) => profile,
        Err(error) => {
            plan.refuse_for(Cause::Profile, error.message);
            return Ok(Transition {
                plan,
                disks,
                manifest,
            });
        }
    };
    if let Err(why) = modes.slice() {
        plan.refuse_for(Cause::Mode, why);
    }
    let chosen = choose(&mut plan, &disks, request, &profile);
    for disk in &mut disks {
        if chosen.contains(&disk.name) {
            "approved".clone_into(&mut disk.role);
        }
    }
    let chosen: Vec<&Disk> = disks
        .iter()
        .filter(|disk| chosen.contains(&disk.name))
        .collect();
    let journal = runtime::journal(machine, state_dir)?;
    let slots = match &journal {
        Some(journal) => blocking::here(|| journal.devices())?,
        None => Vec::new(),
    };
    let vms = match domains::all(machine).await {
        Ok(vms) => vms,
        Err(error) => {
            let why = format!("cannot list the VMs that name a disk: {error}");
            plan.refuse_for(Cause::Unknown, why);
            Vec::new()
        }
    };
    let mut erased = BTreeSet::new();
    for disk in &chosen {
        let parts = &disk.facts.partitions;
        for vm in domains::using(&machine.root, &vms, &disk.name, parts)? {
            let why = format!("{}: VM {vm} names it", disk.label());
            plan.refuse_for(Cause::InUse, why);
        }
        for why in blockers(disk, &profile) {
            plan.refuse_for(Cause::InUse, format!("{}: {why}", disk.label()));
        }
        let slot = slots.iter().find(|slot| disk.by_id == slot.device);
        // what a tenant has on a raw disk is not this command's either
        if slot.is_none() && (!disk.is_raw() || begun::is(machine, state_dir, &disk.by_id)) {
            erased.insert(disk.name.clone());
        }
        if let Some(slot) = slot.filter(|_| !disk.is_raw()) {
            let why = format!(
                "{}: it is the disk of slot {}, whose repair wipes it",
                disk.label(),
                slot.slot
            );
            plan.refuse_for(Cause::SlotDisk, why);
        }
    }
    let edited = fstab::plan(machine, &chosen, &profile)?;
    for why in &edited.refusals {
        plan.refuse_for(Cause::InUse, why.clone());
    }
    if plan.refusals.is_empty() {
        release(machine, &mut plan, &chosen, &edited, stamp)?;
        for disk in &chosen {
            match erased.contains(&disk.name) {
                true => erase(machine, &mut plan, disk, state_dir)?,
                false => plan.note(format!("{}: raw and unmounted already", disk.label())),
            }
        }
        if !plan.steps.is_empty() {
            record(&mut plan, &disks, &profile, &manifest);
        }
    }
    Ok(Transition {
        plan,
        disks,
        manifest,
    })
}

/// The disks that are meant, by kernel name. Each must be there, and in the profile (I-121, INC-29).
fn choose(
    plan: &mut Plan,
    disks: &[Disk],
    request: &Request,
    profile: &Profile,
) -> BTreeSet<String> {
    let requested = match request.devices.is_empty() {
        true => &profile.devices,
        false => &request.devices,
    };
    let mut chosen = BTreeSet::new();
    for device in requested {
        let found = disks
            .iter()
            .find(|disk| disk.by_id == *device || *device == format!("/dev/{}", disk.name));
        match found {
            None => {
                let why = format!("{device}: there is no such disk");
                plan.refuse_for(Cause::NoSuchDisk, why);
            }
            Some(disk) if disk.is_of_system() => {
                let why = format!("{}: it is the disk of the operating system", disk.label());
                plan.refuse_for(Cause::SystemDisk, why);
            }
            Some(disk) if disk.by_id.is_empty() => {
                let why = format!("{}: it has no stable identity below {BY_ID}", disk.label());
                plan.refuse_for(Cause::NoIdentity, why);
            }
            Some(disk) if !profile.devices.contains(&disk.by_id) => {
                let why = format!(
                    "{}: the approved storage profile does not name it",
                    disk.label()
                );
                plan.refuse_for(Cause::NotApproved, why);
            }
            Some(disk) => {
                chosen.insert(disk.name.clone());
            }
        }
    }
    chosen
}

/// What stands against a disk beyond the mounts that the profile gives up.
fn blockers(disk: &Disk, profile: &Profile) -> Vec<String> {
    let mut found = uses(&disk.facts, |at| profile.gives_up(at));
    let members = disk.signatures.iter().filter(|(_, kind)| is_member(kind));
    found.extend(
        members.map(|(device, kind)| format!("{device} is in use by its signature {kind}")),
    );
    found
}

/// Everything that uses a disk, but mounts that `is_given_up`.
fn uses(facts: &DiskFacts, is_given_up: impl Fn(&str) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    for (device, at) in facts.mounts.iter().filter(|(_, at)| !is_given_up(at)) {
        found.push(format!("{device} is mounted at {at}"));
    }
    found.extend(facts.swaps.iter().map(|device| format!("{device} is swap")));
    let holders = facts.holders.iter();
    found.extend(holders.map(|holder| format!("{holder} is stacked on it")));
    let untraced = facts.untraced.iter();
    found.extend(untraced.map(|one| format!("nobody can tell what {one} stands on")));
    if facts.read_only {
        found.push("the kernel refuses writes to it".to_owned());
    }
    // a mount that is given up is held open by nobody the kernel shows; what is shown is a program
    let open = facts.descriptor_holders.iter();
    found.extend(open.map(|one| format!("process {} ({}) holds it open", one.pid, one.program)));
    found
}

/// The host lets go of the disks: now, and at its next start.
fn release(
    machine: &Machine,
    plan: &mut Plan,
    chosen: &[&Disk],
    edited: &fstab::Edit,
    stamp: &str,
) -> HostResult<()> {
    // the deepest first; a mount that is used ends the run here, and is there after the next start
    let mounts = chosen.iter().flat_map(|disk| &disk.facts.mounts);
    let mut points: Vec<&String> = mounts.map(|(_, at)| at).collect();
    points.sort_by_key(|at| std::cmp::Reverse((at.matches('/').count(), (*at).clone())));
    points.dedup();
    for at in points {
        plan.run("umount", &[at], "the profile gives this mount up");
    }
    if let Some(text) = &edited.text {
        let backup = format!("{}.gpuaas-slice-storage-backup-{stamp}", fstab::FILE);
        let backup = machine.free_path(&backup);
        let reason = "the disks are not mounted at the next start";
        plan.file(machine, fstab::FILE, (text, 0o644), Some(backup), reason)?;
    }
    Ok(())
}

fn erase(machine: &Machine, plan: &mut Plan, disk: &Disk, state_dir: &Path) -> HostResult<()> {
    let (identity, name) = (disk.by_id.clone(), disk.name.clone());
    let device = format!("/dev/{name}");
    let prove = Action::ProveUnused {
        identity: identity.clone(),
        name: name.clone(),
    };
    plan.step(prove, "nothing uses the disk");
    begun::note(machine, plan, state_dir, &disk.by_id)?;
    for partition in &disk.facts.partitions {
        let partition = format!("/dev/{partition}");
        plan.run(
            "wipefs",
            &["--all", &partition],
            "signatures of a partition",
        );
    }
    plan.run("wipefs", &["--all", &device], "the partition table");
    plan.run("blkdiscard", &[&device], "the content of the disk");
    plan.step(Action::ProveRaw { identity, name }, "the disk is raw");
    begun::end(plan, state_dir, &disk.by_id);
    Ok(())
}

/// The manifest is on disk before anything is erased.
fn record(plan: &mut Plan, disks: &[Disk], profile: &Profile, path: &Path) {
    let text = manifest::text(disks, profile, &plan.steps);
    let (folder, mode) = (PathBuf::from(LOG_FOLDER), 0o755);
    let mut steps = std::mem::take(&mut plan.steps);
    plan.step(
        Action::MakeFolder { path: folder, mode },
        "records of transitions",
    );
    plan.step(
        Action::WriteFile {
            path: path.to_owned(),
            text,
            mode: 0o644,
            backup: None,
        },
        "what was on every disk, and what is done",
    );
    plan.steps.append(&mut steps);
}

/// What a transition ended with, at the end of its manifest.
///
/// # Errors
/// The manifest cannot be written.
pub fn conclude(machine: &Machine, path: &Path, outcome: &HostResult<()>) -> HostResult<()> {
    use std::io::Write as _;
    let line = match outcome {
        Ok(()) => "outcome=done\nstorage_ownership=slice\nstorage_mode=slice\n".to_owned(),
        Err(error) => format!("outcome=failed {error}\n"),
    };
    let append = || {
        let file = std::fs::OpenOptions::new()
            .append(true)
            .open(machine.root.path(path))?;
        (&file).write_all(line.as_bytes())?;
        file.sync_all()
    };
    append().map_err(io_error(format_args!("cannot write {}", path.display())))
}

/// Proves that a disk is still the one that was planned for, and that nothing uses it.
///
/// # Errors
/// It is another one, or something uses it.
pub async fn prove_unused(machine: &Machine, identity: &str, name: &str) -> HostResult<()> {
    let (facts, _) = inspect_once_released(machine, identity, name).await?;
    let mut found = uses(&facts, |_| false);
    let vms = domains::all(machine).await?;
    let vms = domains::using(&machine.root, &vms, name, &facts.partitions)?;
    found.extend(vms.iter().map(|vm| format!("VM {vm} names it")));
    if found.is_empty() {
        return Ok(());
    }
    Err(unsafe_disk(format!(
        "disk {identity}: {}",
        found.join("; ")
    )))
}

/// Proves that a disk is unused, without partitions and without signatures (I-122).
///
/// # Errors
/// It is not.
pub async fn prove_raw(machine: &Machine, identity: &str, name: &str) -> HostResult<()> {
    let (facts, signatures) = inspect_once_released(machine, identity, name).await?;
    let mut found = uses(&facts, |_| false);
    let partitions = facts.partitions.iter();
    found.extend(partitions.map(|partition| format!("partition {partition} exists")));
    found.extend(
        signatures
            .iter()
            .map(|kind| format!("signature {kind} found")),
    );
    if found.is_empty() {
        return Ok(());
    }
    Err(unsafe_disk(format!(
        "disk {identity}: {}",
        found.join("; ")
    )))
}
