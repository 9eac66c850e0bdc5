//! Rescue: the VM is stopped and started from a rescue image, with its own disks beside it, untouched. The image is copied to a
//! file of its own, of which nothing is kept: a start, a reboot or a release of the VM ends the rescue and removes the file.
use std::ffi::OsStr;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use futures::FutureExt;
use gpuaas_proto::gpuaas::agent::v1 as pb;
use gpuaas_proto::gpuaas::common::v1::DriverStrategy;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;

use super::domain::{Disks, define_on, still_off};
use super::partition;
use super::power;
use super::provision::{detach_seed, image};
use super::release;
use super::seed::{self, Guest};
use super::work::{Done, StepDef, Work};
use crate::error::{HostError, HostResult, io_error};
use crate::host::{blocking, exec};
use crate::ids::Digest;
use crate::image::seed::make_folder;
use crate::vm::PowerState;

/// Verify and stop, then copy the image, write its seed, define, start and log in.
pub const RESCUE: &[StepDef] = &[
    StepDef {
        name: "verify_image",
        run: |work| verify_image(work).boxed(),
        undo: None,
    },
    partition::FIND,
    release::STOP,
    partition::DEACTIVATE,
    power::PROVE_DISK,
    StepDef {
        name: "copy_image",
        run: |work| copy_image(work).boxed(),
        undo: Some(|work| back_to_own_disks(work).boxed()),
    },
    StepDef {
        name: "seed",
        run: |work| write_seed(work).boxed(),
        undo: None,
    },
    StepDef {
        name: "define",
        run: |work| define(work).boxed(),
        undo: None,
    },
    partition::ACTIVATE,
    power::START_VM,
    power::WAIT_LOGIN,
    StepDef {
        name: "detach_seed",
        run: |work| detach_seed(work).boxed(),
        undo: None,
    },
];

/// Before the VM is stopped: an image that cannot be had leaves it running.
async fn verify_image(work: &Work) -> HostResult<Done> {
    let source = image(work.request::<pb::PowerRequest>()?.rescue_image)?;
    // a slow registry leaves the time for what comes after the stop
    let timeout = work.remaining() / 2;
    let pull = work.node.images.ensure(&source, |percent| {
        work.progress(percent, "pulling the image");
    });
    let pulled = tokio::time::timeout(timeout, pull).await;
    pulled.map_err(|_| {
        let why = format!("the image was not pulled within {} s", timeout.as_secs());
        HostError::host(ErrorReason::DeadlineExceeded, why)
    })??;
    make_room(work, &source.digest).await?;
    Ok(Done::with(format!("{} is in the cache", source.digest)))
}

/// Makes room for a copy that leaves the agent enough space for its journal: the guest may fill it up to its last byte. What a
/// copy that was broken off takes already counts as free.
async fn make_room(work: &Work, digest: &Digest) -> HostResult<()> {
    let (image, before) = (work.node.images.file(digest), rescue_disk(work));
    let bytes = blocking::here(|| {
        let bytes = std::fs::metadata(&image).map(|found| found.len());
        let bytes = bytes.map_err(io_error("cannot read the size of the image"))?;
        let taken = std::fs::metadata(&before).map_or(0, |found| found.blocks() * 512);
        HostResult::Ok(bytes.saturating_sub(taken))
    })?;
    let folder = &work.node.settings.state_dir;
    work.node.images.make_room(folder, bytes).await
}

/// A copy in a file of the VM: what the guest writes to it is nobody's image.
async fn copy_image(work: &Work) -> HostResult<Done> {
    still_off(work).await?;
    let source = image(work.request::<pb::PowerRequest>()?.rescue_image)?;
    let (folder, file) = (work.node.rescue_dir(&work.vm()), rescue_disk(work));
    blocking::here(|| make_folder(&folder))?;
    make_room(work, &source.digest).await?;
    let from = work.node.images.file(&source.digest);
    blocking::here(|| make_disk(&file, &from))?;
    // onto the file that is there, and whole from the beginning: it does not grow while it is used
    let mut arguments: Vec<&OsStr> = ["convert", "-n", "-f", "raw", "-O", "raw", "-S", "0"]
        .iter()
        .map(AsRef::as_ref)
        .collect();
    arguments.extend([from.as_os_str(), file.as_os_str()]);
    exec::run("qemu-img", &arguments, work.remaining())
        .await?
        .success("qemu-img")?;
    Ok(Done::with(format!("{} is copied", source.digest)))
}

/// Makes the file, as large as the image. What the guest writes there is its owner's: the agent alone reads it, and libvirt gives it to
/// the hypervisor's user while the VM has it. What is left of a copy that was broken off goes, with whoever has it open.
fn make_disk(file: &Path, image: &Path) -> HostResult<()> {
    let failed = || io_error("cannot make the rescue disk");
    let bytes = std::fs::metadata(image).map_err(failed())?.len();
    match std::fs::remove_file(file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed()(error)),
        _ => {}
    }
    let made = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(file);
    made.and_then(|made| made.set_len(bytes)).map_err(failed())
}

fn rescue_disk(work: &Work) -> PathBuf {
    work.node.rescue_dir(&work.vm()).join("disk.raw")
}

/// The rescue image boots for the first time, as a launched one does. It needs no GPU, so it gets no drivers.
async fn write_seed(work: &Work) -> HostResult<Done> {
    let request: pb::PowerRequest = work.request()?;
    let guest = Guest {
        hostname: &request.hostname,
        user: &request.guest_user,
        ssh_public_keys: &request.ssh_public_keys,
        drivers: DriverStrategy::None,
        user_data: "",
    };
    seed::write(work, guest).await
}

/// The rescue disk is the first, so that it boots; the VM's own follow.
async fn define(work: &Work) -> HostResult<Done> {
    if power::runs(work).await? {
        return Ok(Done::skipped("the domain runs already"));
    }
    let disks = Disks {
        rescue: Some(rescue_disk(work)),
        own: power::prove(work).await?,
    };
    let seed = work.node.seed_iso(&work.vm());
    define_on(work, disks, Some(seed)).await?;
    Ok(Done::with(format!(
        "domain {} is defined on the rescue image",
        work.vm()
    )))
}

/// Nothing of a rescue that failed is kept: neither its disk nor the seed with the private key. A VM that runs from the image is its
/// owner's, who may log in to it as soon as it answers; its next start ends the rescue.
async fn back_to_own_disks(work: &Work) -> HostResult<()> {
    let (hypervisor, vm) = (&work.node.hypervisor, work.vm());
    match hypervisor.state(vm.as_str()).await? {
        None | Some(PowerState::ShutOff) => {
            // a start whose time was over may still be on its way
            hypervisor.destroy(vm.as_str()).await?;
            power::define(work).await.map(drop)
        }
        Some(_) => Ok(()),
    }
}
