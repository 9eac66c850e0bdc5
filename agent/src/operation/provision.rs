//! Provision: from image to a login that works. The image is verified and the disk proven before a byte is cloned (D-23,
//! D-25); the boot slot's address, a login and the checks of the image are what ends it well (D-67..D-69).
use std::path::PathBuf;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use gpuaas_proto::gpuaas::agent::v1 as pb;
use gpuaas_proto::gpuaas::common::v1::DriverStrategy;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use serde_json::json;

use super::partition;
use super::readiness;
use super::remove;
use super::seed::{self, Guest};
use super::work::{Done, StepDef, Work};
use crate::dhcp::{LeaseState, Reservation};
use crate::disk::{Intent, passthrough};
use crate::error::{HostError, HostResult};
use crate::guest::host_key::parse_pins;
use crate::guest::login::Account;
use crate::guest::{LoginError, log_in};
use crate::host::blocking;
use crate::host::clock::BootMoment;
use crate::ids::{NetworkGroup, management_mac, parse_private_ip};
use crate::image::ImageSource;
use crate::image::clone::clone_image;
use crate::settings::NvmeAttachment;
use crate::vm::PowerState;
use crate::vm::domain_xml::{DomainSpec, SEED_DEVICE, domain_xml};
use crate::vm::locality::{SlotDevices, locality};
use crate::vm::serial_log;

/// Left of the budget for the undo when a guest never answers.
pub const UNDO_MARGIN: Duration = Duration::from_secs(10);
/// Where sshd listens in the guest.
pub const SSH_PORT: u16 = 22;

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

/// The group of a request; none when it is empty.
pub fn network_group(text: &str) -> HostResult<Option<NetworkGroup>> {
    let group = (!text.is_empty()).then(|| text.parse());
    Ok(group.transpose()?)
}

async fn reserve_address(work: &Work) -> HostResult<Done> {
    let group = network_group(&work.request::<pb::ProvisionRequest>()?.network_group)?;
    let desired = free_reservation(work, group).await?;
    let before = work
        .node
        .dhcp
        .lease(&desired.mac)?
        .map(|lease| lease.expires);
    work.node.dhcp.reserve(&desired)?;
    Ok(Done::giving(
        format!("{} is {}", desired.mac, desired.ip),
        json!({ "before": before }),
    ))
}

/// Reserves the address of a VM whose reservation was lost. It is alone until the control plane says again with whom it is.
pub async fn reserve_again(work: &Work) -> HostResult<()> {
    let vm = work.vm();
    if work
        .node
        .dhcp
        .reservations()?
        .iter()
        .any(|one| one.vm == vm)
    {
        return Ok(());
    }
    let desired = free_reservation(work, None).await?;
    tracing::warn!(%vm, ip = %desired.ip, "reserve the address of a VM again");
    work.node.dhcp.reserve(&desired)
}

/// The reservation of the boot slot's address, which nobody has any more: a stale one of a VM that is gone is removed.
async fn free_reservation(work: &Work, group: Option<NetworkGroup>) -> HostResult<Reservation> {
    let bindings = work.boot_slot()?.bindings;
    let desired = Reservation {
        vm: work.vm(),
        mac: bindings.management_mac.parse()?,
        ip: parse_private_ip(&bindings.private_ip)?,
        group,
    };
    let in_the_way = work.node.dhcp.reservations()?.into_iter().filter(|other| {
        other.vm != desired.vm && (other.mac == desired.mac || other.ip == desired.ip)
    });
    for stale in in_the_way {
        // The hold proves that the slot is ours; the domain that had this address is gone, or something is wrong.
        if let Some(state) = work.node.hypervisor.state(stale.vm.as_str()).await? {
            return Err(HostError::host(
                ErrorReason::HostNotReady,
                format!(
                    "{} is reserved for domain {}, which is {}",
                    stale.ip,
                    stale.vm,
                    state.as_str()
                ),
            ));
        }
        if let Some(holder) = work.node.holder(&stale.vm)? {
            let message = format!(
                "{} belongs to allocation {holder}, which holds a slot",
                stale.ip
            );
            return Err(HostError::host(ErrorReason::LeaseHeld, message));
        }
        tracing::warn!(vm = %stale.vm, ip = %stale.ip, "remove a stale reservation");
        work.node.dhcp.remove(&stale.vm)?;
    }
    Ok(desired)
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

/// What a domain is defined on.
pub struct Disks {
    /// A file that is booted from in place of the first of its own.
    pub rescue: Option<PathBuf>,
    /// Devices of its slots, in their order.
    pub own: Vec<PathBuf>,
}

/// Defines the allocation's domain on these disks, or defines it again under the same name and UUID, which preserves
/// its NVRAM. The seed is there for the first boot alone. Returns the UUID.
pub async fn define_on(work: &Work, disks: Disks, seed: Option<PathBuf>) -> HostResult<String> {
    let plan = &work.operation.plan;
    let shape = plan.shape.unwrap_or_default();
    let passed = match work.node.settings.profile.nvme {
        NvmeAttachment::Passthrough => {
            passthrough::prepare(&work.node, &work.vm(), &disks.own).await?
        }
        NvmeAttachment::Virtio => Vec::new(),
    };
    let mut devices = Vec::new();
    for (index, slot) in work.slots()?.into_iter().enumerate() {
        let bindings = &slot.bindings;
        let functions = [&bindings.gpu_pci_address, &bindings.fabric_vf_pci_address];
        let functions = functions.into_iter().filter(|address| !address.is_empty());
        let mut functions = functions
            .map(|address| address.parse())
            .collect::<Result<Vec<_>, _>>()?;
        functions.extend(passed.get(index).cloned());
        devices.push(SlotDevices {
            numa_node: bindings.numa_node,
            functions,
        });
    }
    let serial_log = work.node.serial.of_vm(&work.vm());
    let locality = blocking::here(|| {
        serial_log::prepare(&serial_log)?;
        locality(
            &work.node.root,
            &devices,
            shape.vcpus,
            shape.memory_mib,
            shape.hugepages,
        )
    })?;
    let spec = DomainSpec {
        name: work.vm(),
        uuid: work.operation.allocation.0,
        vcpus: shape.vcpus,
        memory_mib: shape.memory_mib,
        hugepages: shape.hugepages,
        boots_from: passed.first().filter(|_| disks.rescue.is_none()).cloned(),
        rescue: disks.rescue,
        disks: if passed.is_empty() {
            disks.own
        } else {
            Vec::new()
        },
        seed,
        mac: plan.mac.parse()?,
        port: work.operation.allocation.port_name(),
        locality,
        serial_log,
    };
    let xml = domain_xml(
        &spec,
        &work.node.settings.profile,
        &work.node.settings.network,
    )?;
    work.node.hypervisor.define(xml).await
}

async fn start(work: &Work) -> HostResult<Done> {
    start_apart(work).await?;
    let now = work.node.clock.now();
    Ok(Done::giving(
        "domain started",
        json!({ "nanos": now.nanos }),
    ))
}

/// Starts the VM with its neighbours' rules in force and its own from its first frame on: a port that has none yet
/// passes nothing (P11). Its port is a new one, so that it has its limits (D-60).
pub async fn start_apart(work: &Work) -> HostResult<()> {
    let network = &work.node.settings.network;
    let state = work.node.hypervisor.state(work.vm().as_str()).await?;
    if network.vm_bandwidth_mbits.is_some() && matches!(state, None | Some(PowerState::ShutOff)) {
        remove::port(&work.node, work.operation.allocation).await?;
    }
    work.node.network_rules.put().await?;
    work.node.hypervisor.start(work.vm().as_str()).await?;
    work.node.network_rules.put().await?;
    Ok(())
}

/// When the guest must have answered: its boot timeout from the start, within the budget.
fn boot_deadline(work: &Work) -> HostResult<BootMoment> {
    let request: pb::ProvisionRequest = work.request()?;
    let timeout = request.image.and_then(|image| image.boot_timeout);
    let timeout = timeout
        .and_then(|timeout| Duration::try_from(timeout).ok())
        .filter(|timeout| !timeout.is_zero());
    let timeout = timeout.unwrap_or(Duration::from_secs(
        work.node.settings.limits.boot_timeout_s,
    ));
    let now = work.node.clock.now();
    let nanos = work.operation.output("start")["nanos"]
        .as_u64()
        .unwrap_or(now.nanos);
    let by_boot = BootMoment {
        boot_id: now.boot_id.clone(),
        nanos,
    }
    .plus(timeout);
    let by_budget = now.plus(work.remaining().saturating_sub(UNDO_MARGIN));
    Ok(if by_boot.nanos < by_budget.nanos {
        by_boot
    } else {
        by_budget
    })
}

/// What a running VM has open is not written to.
pub async fn still_off(work: &Work) -> HostResult<()> {
    match work.node.hypervisor.state(work.vm().as_str()).await? {
        None | Some(PowerState::ShutOff) => Ok(()),
        Some(state) => Err(HostError::host(
            ErrorReason::HypervisorFailed,
            format!("the domain is {} again", state.as_str()),
        )),
    }
}

/// A guest that ended will not answer any more.
pub async fn still_running(work: &Work, reason: ErrorReason) -> HostResult<()> {
    match work.node.hypervisor.state(work.vm().as_str()).await? {
        Some(PowerState::Running) => Ok(()),
        Some(state) => Err(HostError::guest(
            reason,
            format!("the guest is {}", state.as_str()),
        )),
        None => Err(HostError::host(
            ErrorReason::HypervisorFailed,
            "the domain is gone",
        )),
    }
}

/// Adds to a guest's failure what it printed last: whoever launched it cannot see its console (it is gone with the VM).
async fn with_serial_log(
    work: &Work,
    waiting: impl Future<Output = HostResult<Done>>,
) -> HostResult<Done> {
    let mut outcome = waiting.await;
    if let Err(error) = &mut outcome
        && error.class == pb::FailureClass::Guest
    {
        let log = work.node.serial.of_vm(&work.vm());
        error.serial_log_end = blocking::here(|| serial_log::end_of(&log));
    }
    outcome
}

async fn wait_address(work: &Work) -> HostResult<Done> {
    let bindings = work.boot_slot()?.bindings;
    let mac = management_mac(&bindings.management_mac)?;
    let expected = parse_private_ip(&bindings.private_ip)?;
    let before = work.operation.output("reserve_address")["before"].as_u64();
    let deadline = boot_deadline(work)?;
    loop {
        let lease = work.node.dhcp.lease(&mac)?;
        let state = LeaseState::of(lease.as_ref(), expected, before);
        if state == LeaseState::Bound {
            let actual = lease.map(|lease| lease.ip.to_string());
            let report = json!({ "actual_ip": actual, "lease_state": state.as_str() });
            return Ok(Done::giving(format!("{mac} has {expected}"), report));
        }
        if deadline.remaining(&work.node.clock.now()).is_zero() {
            return Err(HostError::guest(
                ErrorReason::GuestNoAddress,
                format!(
                    "the guest did not take its address {expected} in time, its lease is {}",
                    state.as_str()
                ),
            ));
        }
        still_running(work, ErrorReason::GuestNoAddress).await?;
        tokio::time::sleep(work.node.settings.polling.guest()).await;
    }
}

async fn wait_login(work: &Work) -> HostResult<Done> {
    let request: pb::ProvisionRequest = work.request()?;
    let user = request.guest_user.parse()?;
    let host_keys = parse_pins(work.operation.output("seed")["host_key"].as_str())?;
    let ip = parse_private_ip(&work.boot_slot()?.bindings.private_ip)?;
    let account = Account {
        server: (ip, SSH_PORT).into(),
        host_keys: &host_keys,
        user: &user,
    };
    let deadline = boot_deadline(work)?;
    let nonce = format!("gpuaas-{}", uuid::Uuid::new_v4().simple());
    let mut last = LoginError::TooSlow;
    loop {
        let left = deadline.remaining(&work.node.clock.now());
        if left.is_zero() {
            return Err(HostError::guest(
                ErrorReason::GuestNoLogin,
                format!("no login as {} in time: {last}", request.guest_user),
            ));
        }
        match log_in(&*work.node.guests, account, &work.node.relay, &nonce, left).await {
            Ok(login) => {
                return Ok(Done::giving(
                    "the guest runs commands",
                    json!({ "boot_id": login.boot_id }),
                ));
            }
            Err(error @ LoginError::HostKey) => return Err(not_the_guest(account, &error)),
            Err(error) => last = error,
        }
        still_running(work, ErrorReason::GuestNoLogin).await?;
        work.progress(0, &last.to_string());
        tokio::time::sleep(work.node.settings.polling.guest()).await;
    }
}

/// Another key is no guest that is slow: whoever answers there is somebody else, or an image that took no key.
pub fn not_the_guest(account: Account<'_>, error: &LoginError) -> HostError {
    HostError::guest(
        ErrorReason::HostKeyMismatch,
        format!("at {}: {error}", account.server),
    )
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
