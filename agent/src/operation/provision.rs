//! Provision: from image to a login that works. The image is verified and the disk proven before a byte is cloned (D-23,
//! D-25); the boot slot's address, a login and the checks of the image are what ends it well (D-67..D-69).
use futures::FutureExt;
use futures::future::BoxFuture;
use gpuaas_proto::gpuaas::agent::v1 as pb;
use gpuaas_proto::gpuaas::common::v1::DriverStrategy;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use serde_json::json;

use super::address::reserve_address;
use super::domain::{Disks, define_on, start_apart};
use super::login::{SSH_PORT, wait_address, wait_login, with_serial_log};
use super::partition;
use super::readiness;
use super::remove;
use super::seed::{self, Guest};
use super::work::{Done, StepDef, Work};
use crate::disk::{Intent, passthrough};
use crate::error::{HostError, HostResult};
use crate::host::blocking;
use crate::image::ImageSource;
use crate::image::clone::clone_image;
use crate::vm::PowerState;
use crate::vm::domain_xml::SEED_DEVICE;

/// The steps.
pub const STEPS: &[StepDef] = &[
    StepDef {
        name: "verify_image",
        run: |work| verify_image(work).boxed(),
        undo: None,
    },
    StepDef {
        name: "prove_disk",
        run: |work| prove_disk(work).boxed(),
        undo: None,
    },
    StepDef {
        name: "clone",
        run: |work| clone(work).boxed(),
        undo: None,
    },
    StepDef {
        name: "seed",
        run: |work| write_seed(work).boxed(),
        undo: Some(undo_seed),
    },
    StepDef {
        name: "reserve_address",
        run: |work| reserve_address(work).boxed(),
        undo: Some(undo_reservation),
    },
    StepDef {
        name: "define",
        run: |work| define(work).boxed(),
        undo: Some(undo_define),
    },
    StepDef {
        undo: Some(partition::undo_activate),
        ..partition::ACTIVATE
    },
    StepDef {
        name: "start",
        run: |work| start(work).boxed(),
        undo: Some(undo_start),
    },
    StepDef {
        name: "wait_address",
        run: |work| with_serial_log(work, wait_address(work)).boxed(),
        undo: None,
    },
    StepDef {
        name: "wait_login",
        run: |work| with_serial_log(work, wait_login(work)).boxed(),
        undo: None,
    },
    StepDef {
        name: readiness::STEP,
        run: |work| readiness::check_guest(work).boxed(),
        undo: None,
    },
    StepDef {
        name: "detach_seed",
        run: |work| detach_seed(work).boxed(),
        undo: None,
    },
];

fn undo_seed(work: &Work) -> BoxFuture<'_, HostResult<()>> {
    remove::seed(&work.node, work.operation.allocation).boxed()
}

fn undo_reservation(work: &Work) -> BoxFuture<'_, HostResult<()>> {
    remove::reservation(&work.node, work.operation.allocation).boxed()
}

fn undo_define(work: &Work) -> BoxFuture<'_, HostResult<()>> {
    remove::undefine(&work.node, work.operation.allocation).boxed()
}

fn undo_start(work: &Work) -> BoxFuture<'_, HostResult<()>> {
    remove::destroy(&work.node, work.operation.allocation).boxed()
}

/// The image that a request names.
pub fn image(named: Option<pb::ImageRef>) -> HostResult<ImageSource> {
    let image = named.unwrap_or_default();
    Ok(ImageSource {
        digest: image.digest.parse()?,
        source_uri: image.source_uri,
        size_bytes: image.size_bytes,
    })
}

async fn verify_image(work: &Work) -> HostResult<Done> {
    let source = image(work.request::<pb::ProvisionRequest>()?.image)?;
    let file = work
        .node
        .images
        .ensure(&source, |percent| {
            work.progress(percent, "pulling the image");
        })
        .await?;
    let slug = work.request::<pb::ProvisionRequest>()?.image;
    let slug = slug.unwrap_or_default().slug;
    blocking::here(|| work.node.images.name(&slug, &source.digest))?;
    Ok(Done::giving(
        format!("{} is in the cache", source.digest),
        json!({ "file": file }),
    ))
}

async fn prove_disk(work: &Work) -> HostResult<Done> {
    let mut fingerprints = Vec::new();
    for slot in work.slots()? {
        let disk = work
            .prove(
                &slot,
                Intent::Clone {
                    touched: work.touched(slot.id)?,
                },
            )
            .await?;
        fingerprints.push(format!(
            "{} is {}",
            disk.identity(),
            disk.device().display()
        ));
    }
    Ok(Done::with(fingerprints.join(", ")))
}

async fn clone(work: &Work) -> HostResult<Done> {
    let source = image(work.request::<pb::ProvisionRequest>()?.image)?;
    let slots = work.slots()?;
    let boot = work.boot_slot()?;
    let disk = work
        .prove(
            &boot,
            Intent::Clone {
                touched: work.touched(boot.id)?,
            },
        )
        .await?;
    let ids: Vec<_> = slots.iter().map(|slot| slot.id).collect();
    work.node.journal.mark_touched(&ids)?;
    let file = work.node.images.file(&source.digest);
    let disk = work.node.probe.open_exclusively(disk).await?;
    clone_image(&file, &disk, work.remaining(), |percent| {
        work.progress(percent, "cloning the image");
    })
    .await?;
    Ok(Done::with(format!("cloned onto {}", disk.identity())))
}

async fn write_seed(work: &Work) -> HostResult<Done> {
    let request: pb::ProvisionRequest = work.request()?;
    let drivers = request.image.unwrap_or_default().driver_strategy();
    let guest = Guest {
        hostname: &request.hostname,
        user: &request.guest_user,
        ssh_public_keys: &request.ssh_public_keys,
        user_data: &request.user_data,
        drivers: match work.node.settings.profile.lab {
            true => DriverStrategy::None,
            false => drivers,
        },
    };
    seed::write(work, guest).await
}

async fn define(work: &Work) -> HostResult<Done> {
    let running = work.node.hypervisor.state(work.vm().as_str()).await?;
    if running == Some(PowerState::Running) {
        return Err(HostError::host(
            ErrorReason::HypervisorFailed,
            "a domain of this name runs already",
        ));
    }
    if running.is_some() {
        // Our own definition from before a restart; without it the disks have no owner and can be proven.
        remove::undefine(&work.node, work.operation.allocation).await?;
    }
    let mut disks = Vec::new();
    for slot in work.slots()? {
        let disk = work.prove(&slot, Intent::Clone { touched: true }).await?;
        passthrough::check(&work.node, &disk).await?;
        disks.push(disk.device());
    }
    let seed = work.node.seed_iso(&work.vm());
    let disks = Disks {
        rescue: None,
        own: disks,
    };
    let uuid = define_on(work, disks, Some(seed)).await?;
    Ok(Done::giving(
        format!("domain {} is defined", work.vm()),
        json!({ "uuid": uuid }),
    ))
}

async fn start(work: &Work) -> HostResult<Done> {
    start_apart(work).await?;
    let now = work.node.clock.now();
    Ok(Done::giving(
        "domain started",
        json!({ "nanos": now.nanos }),
    ))
}

/// Takes the seed from the VM and removes it with the private host key in it: the guest has both by now.
pub async fn detach_seed(work: &Work) -> HostResult<Done> {
    let bus = &work.node.settings.profile.seed_bus;
    work.node
        .hypervisor
        .eject(work.vm().as_str(), SEED_DEVICE, bus)
        .await?;
    remove::seed(&work.node, work.operation.allocation).await?;
    Ok(Done::with("the seed is removed"))
}

/// The result that the steps' outputs add up to.
pub fn result(work: &Work) -> HostResult<pb::HostOperation> {
    let boot = work.boot_slot()?;
    let bindings = &boot.bindings;
    let access = &work.node.settings.access;
    let (access_host, access_port) = if access.host.is_empty() {
        (bindings.private_ip.clone(), u32::from(SSH_PORT))
    } else {
        (
            access.host.clone(),
            u32::from(access.port_base) + boot.index,
        )
    };
    let text = |step: &str, key: &str| {
        work.operation.output(step)[key]
            .as_str()
            .map(str::to_owned)
            .unwrap_or_default()
    };
    let provisioned = pb::ProvisionResult {
        mac: bindings.management_mac.clone(),
        expected_ip: bindings.private_ip.clone(),
        actual_ip: text("wait_address", "actual_ip"),
        lease_state: text("wait_address", "lease_state"),
        ssh_ready: true,
        ssh_port: u32::from(SSH_PORT),
        access_host,
        access_port,
        ssh_host_keys: vec![text("seed", "host_key")],
        domain_uuid: text("define", "uuid"),
        image_digest: image(work.request::<pb::ProvisionRequest>()?.image)?
            .digest
            .to_string(),
        boot_id: text("wait_login", "boot_id"),
    };
    Ok(pb::HostOperation {
        provision_result: Some(provisioned),
        ..pb::HostOperation::default()
    })
}
