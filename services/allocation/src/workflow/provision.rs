//! Of a slice, from claim to a login that works: host lease, VM, image report, `active`.
//!
//! `begin` comes before the first call to the host, so a release that finds the allocation `reserved` knows that
//! no host has heard of it. Until `provision` nothing on the host is touched but its journal: a failure there
//! frees the slots again, once the host itself reports that it holds nothing. From `provision` on a disk may carry
//! tenant data: a failure leaves the slots `cleanup_blocked` (C-07, INC-14).

use std::time::Duration;

use futures::future::BoxFuture;
use gpuaas_common::readiness::{Check, MAX_CHECKS, Outcome};
use gpuaas_common::time::proto_duration;
use gpuaas_placement::model::{Failure as LedgerFailure, GuestAccess, Image};
use gpuaas_placement::node_tasks::{self, TaskType};
use gpuaas_placement::provision::{self, HostState};
use gpuaas_placement::timeline::{self, State};
use gpuaas_placement::{Scope, allocations, claims, networks, repair, user_data};
use gpuaas_proto::gpuaas::agent::v1::{
    FailureClass, HostOperation, ImageRef, LeasePurpose, OperationState, ProvisionRequest,
};
use gpuaas_proto::gpuaas::common::v1::DriverStrategy;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_proto::gpuaas::internal::images::v1::ReportNodeImageRequest;
use gpuaas_proto::gpuaas::internal::images::v1::image_catalog_service_client::ImageCatalogServiceClient;
use serde_json::{Value, json};
use sqlx::PgConnection;

use super::failure::StepError;
use super::host::Host;
use super::lease;
use super::operation::{Order, drive, output};
use super::subject::{self, ledger};
use super::table::{Definition, Effect, OnFailure, Shown, Step, StepResult};
use super::work::Work;
use crate::domain::advice::explain;

/// Time for a host's budget (C-28, INC-22); the window of the whole workflow is longer (C-30).
pub const PROVISION_BUDGET: Duration = Duration::from_secs(20 * 60);
/// Own steps before the host operation, and after it, that a user sees.
const AROUND: (u32, u32) = (1, 1);

/// The workflow.
pub static DEFINITION: Definition = Definition {
    kind: "provision",
    bounded: true,
    steps: &[
        Step {
            name: "begin",
            effect: Effect::Ledger(begin),
            records: "nothing; the ledger says provisioning",
            deadline: Duration::from_secs(300),
            on_failure: OnFailure::Undo,
            undo: None,
            shown: None,
        },
        Step {
            records: "lease id and the host's plan",
            shown: lease::REQUESTED,
            ..lease::acquire(acquire_lease, Duration::from_secs(120))
        },
        Step {
            name: "provision",
            effect: Effect::Outside(provision_vm),
            records: "the host operation with its result",
            deadline: PROVISION_BUDGET,
            on_failure: OnFailure::Undo,
            undo: Some(&Step {
                name: "clean_up",
                effect: Effect::Outside(super::clean_up::clean_up),
                records: "the host operation",
                deadline: Duration::from_secs(300),
                on_failure: OnFailure::Ignore,
                undo: None,
                shown: None,
            }),
            shown: None,
        },
        Step {
            name: "report_image",
            effect: Effect::Outside(report_image),
            records: "whether the catalog took the digest as verified",
            deadline: Duration::from_secs(15),
            // the catalog's knowledge of caches only ranks hosts; a VM that answers is not given up for it
            on_failure: OnFailure::Ignore,
            undo: None,
            shown: None,
        },
        Step {
            name: "activate",
            effect: Effect::Ledger(activate),
            records: "nothing; the ledger says active and opened the billable period",
            deadline: Duration::from_secs(300),
            on_failure: OnFailure::Undo,
            undo: None,
            shown: Some(Shown {
                running: "Activating the VM.",
                done: "Activated the VM.",
            }),
        },
        lease::RELEASE_LEASE,
    ],
    at_failure: &[Step {
        name: "fail_provision",
        effect: Effect::Ledger(fail_provision),
        records: "what became of the slots",
        deadline: Duration::from_secs(60),
        on_failure: OnFailure::RetryUntilDone,
        undo: None,
        shown: None,
    }],
};

fn acquire_lease(work: &Work) -> BoxFuture<'_, StepResult> {
    Box::pin(async move {
        let granted = lease::of_allocation(work, LeasePurpose::Provision).await?;
        let plan = granted.plan.unwrap_or_default();
        let disks: Vec<Value> = plan
            .disks
            .iter()
            .map(|disk| json!({"slot_id": disk.slot_id, "identity": disk.identity, "bytes": disk.bytes}))
            .collect();
        Ok(json!({
            "lease_id": work.lease(),
            "plan": {
                "vm_name": plan.vm_name, "mac": plan.mac, "private_ip": plan.private_ip, "bridge": plan.bridge,
                "hypervisor": plan.hypervisor, "gpu_pci_addresses": plan.gpu_pci_addresses, "disks": disks,
            },
        }))
    })
}

fn begin<'a>(work: &'a Work, conn: &'a mut PgConnection) -> BoxFuture<'a, StepResult> {
    Box::pin(async move {
        let id = work.allocation_id()?;
        let started = provision::start(conn, work.fence(), id).await;
        // P2: a disk was out of sight, or is in doubt, since its slot was reserved
        if matches!(started, Err(gpuaas_placement::Error::Conflict { .. }))
            && claims::are_blocked(conn, id).await.map_err(ledger)?
            && !claims::on_replaced_host(conn, id).await.map_err(ledger)?
        {
            return Err(StepError::fail(
                ErrorReason::DeviceMissing,
                "a disk of the slots was in doubt before the launch began",
                FailureClass::Device,
            ));
        }
        let _ = unless_replaced(conn, id, started).await?;
        Ok(json!({}))
    })
}

fn provision_vm(work: &Work) -> BoxFuture<'_, StepResult> {
    Box::pin(async move {
        let (allocation, subject) = subject::of_allocation(work).await?;
        let image = &allocation.image;
        let project_id = allocation.project_id;
        let stored = async {
            let mut conn = work.conn().await?;
            let reach_each_other = networks::vms_reach_each_other(&mut conn, project_id).await;
            let user_data = match allocation.user_data_bytes {
                0 => Ok(String::new()),
                _ => user_data::get(&mut conn, allocation.id).await,
            };
            Ok::<_, StepError>((
                reach_each_other.map_err(ledger)?,
                user_data.map_err(ledger)?,
            ))
        };
        let (reach_each_other, user_data) = work.deps.within(stored).await?;
        let network_group = if reach_each_other {
            project_id.to_string()
        } else {
            String::new()
        };
        let request = ProvisionRequest {
            user_data,
            operation_id: String::new(),
            lease_id: String::new(),
            allocation_id: allocation.id.to_string(),
            image: Some(image_ref(image)),
            guest_user: allocation.guest_user.clone(),
            ssh_public_keys: allocation.ssh_public_keys.clone(),
            hostname: allocation.name.clone(),
            budget: Some(proto_duration(work.left)),
            network_group,
            region_code: allocation.region_code.clone(),
        };
        let strategy =
            DriverStrategy::try_from(image.driver_strategy).unwrap_or(DriverStrategy::Unspecified);
        let host = Host::of_subject(&work.deps, &subject)?;
        let order = Order {
            task_type: TaskType::VmProvision,
            purpose: LeasePurpose::Provision,
            payload: json!({
                "image": image.slug, "image_path": gpuaas_common::image::path(&image.slug),
                "source_uri": image.source_uri, "digest": image.digest,
                "driver_strategy":
                    strategy.as_str_name().trim_start_matches("DRIVER_STRATEGY_").to_lowercase(),
                "budget_seconds": work.left.as_secs(),
            }),
            start: &|host: &Host, operation_id, lease_id| {
                let request = ProvisionRequest {
                    operation_id,
                    lease_id,
                    ..request.clone()
                };
                let mut vms = host.vms.clone();
                Box::pin(async move { vms.provision(request).await })
            },
            around: AROUND,
        };
        let operation = drive(work, &host, &subject, &order).await?;
        record_readiness(work, allocation.id, &operation).await?;
        judge(&operation, image)?;
        Ok(output(&operation))
    })
}

/// Keeps what came of the readiness checks: of a launch that fails nothing else is left to look at (INC-24).
async fn record_readiness(
    work: &Work,
    id: uuid::Uuid,
    operation: &HostOperation,
) -> Result<(), StepError> {
    let found: Vec<Outcome> = operation
        .readiness_results
        .iter()
        .take(MAX_CHECKS + 1)
        .map(Outcome::from_wire)
        .collect();
    if found.is_empty() {
        return Ok(());
    }
    let record = async {
        let mut tx = work.deps.pool.begin().await?;
        let recorded = provision::record_readiness(&mut tx, work.fence(), id, &found).await;
        let _ = unless_replaced(&mut tx, id, recorded).await?;
        tx.commit().await.map_err(StepError::from)
    };
    work.deps.within(record).await
}

/// The control plane's own check of what the host reports as a success: a VM that nobody can log in to is none
/// (C-04, INC-41), nor is one from another image.
fn judge(operation: &HostOperation, image: &Image) -> Result<(), StepError> {
    if operation.state() == OperationState::Failed {
        return Err(StepError::of_operation(
            "provision",
            operation.failure.as_ref().unwrap_or(&Default::default()),
        ));
    }
    let result = operation.provision_result.clone().unwrap_or_default();
    if !result.ssh_ready {
        return Err(StepError::fail(
            ErrorReason::GuestNoLogin,
            "the host reported success without a login that works",
            FailureClass::Guest,
        ));
    }
    if result.actual_ip != result.expected_ip || result.actual_ip.is_empty() {
        return Err(StepError::fail(
            ErrorReason::GuestNoAddress,
            "the guest has another address than the one reserved for it",
            FailureClass::Guest,
        ));
    }
    if result.image_digest != image.digest {
        return Err(StepError::fail(
            ErrorReason::ImageDigestMismatch,
            format!("the host booted {:?}", result.image_digest),
            FailureClass::Host,
        ));
    }
    // INC-24: an agent that knows nothing of checks shows nothing of the drivers in the guest
    let passed = |check: &&Check| {
        let results = &operation.readiness_results;
        results
            .iter()
            .any(|one| one.check == check.name() && one.passed)
    };
    if let Some(missing) = image.readiness_checks.iter().find(|check| !passed(check)) {
        return Err(StepError::fail(
            ErrorReason::GuestNotReady,
            format!(
                "the host reported success without the check {}",
                missing.name()
            ),
            FailureClass::Guest,
        ));
    }
    Ok(())
}

fn report_image(work: &Work) -> BoxFuture<'_, StepResult> {
    Box::pin(async move {
        let (allocation, subject) = subject::of_allocation(work).await?;
        let mut catalog = ImageCatalogServiceClient::new(work.deps.peers.channel("image-catalog")?);
        let mut request = tonic::Request::new(ReportNodeImageRequest {
            node_id: subject.node_id.to_string(),
            image_slug: allocation.image.slug.clone(),
            digest: allocation.image.digest.clone(),
        });
        request.set_timeout(Duration::from_secs(5));
        let response = catalog
            .report_node_image(request)
            .await
            .map_err(gpuaas_common::Error::from)?
            .into_inner();
        Ok(json!({"verified": response.verified}))
    })
}

fn activate<'a>(work: &'a Work, conn: &'a mut PgConnection) -> BoxFuture<'a, StepResult> {
    Box::pin(async move {
        let result = work
            .outputs
            .get("provision")
            .and_then(|output| output.get("provision_result"));
        let result = result.unwrap_or(&Value::Null);
        let access = access(result);
        let boot_id = result["boot_id"].as_str().and_then(|id| id.parse().ok());
        let id = work.allocation_id()?;
        let activated = provision::activate(conn, work.fence(), id, Some(&access), boot_id).await;
        let _ = unless_replaced(conn, id, activated).await?;
        timeline::append(
            conn,
            id,
            "active",
            State::Done,
            "The VM is ready and billed from now on.",
        )
        .await?;
        Ok(json!({}))
    })
}

/// A change that the ledger refused because the host was installed anew failed for that reason.
async fn unless_replaced<T>(
    conn: &mut PgConnection,
    id: uuid::Uuid,
    outcome: gpuaas_placement::Result<T>,
) -> Result<T, StepError> {
    let refused = matches!(outcome, Err(gpuaas_placement::Error::Conflict { .. }));
    if refused && claims::on_replaced_host(conn, id).await.map_err(ledger)? {
        return Err(StepError::replaced());
    }
    outcome.map_err(ledger)
}

fn access(result: &Value) -> GuestAccess {
    let text = |key: &str| {
        result
            .get(key)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let number = |key: &str| {
        result
            .get(key)
            .and_then(Value::as_u64)
            .and_then(|n| u32::try_from(n).ok())
            .unwrap_or_default()
    };
    let keys = result.get("ssh_host_keys").and_then(Value::as_array);
    GuestAccess {
        private_ip: text("actual_ip"),
        ssh_port: number("ssh_port"),
        ssh_ready: result
            .get("ssh_ready")
            .and_then(Value::as_bool)
            .unwrap_or_default(),
        ssh_host: text("access_host"),
        ssh_host_port: number("access_port"),
        ssh_host_keys: keys
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect(),
    }
}

fn fail_provision<'a>(work: &'a Work, conn: &'a mut PgConnection) -> BoxFuture<'a, StepResult> {
    Box::pin(async move {
        let id = work.allocation_id()?;
        let failure = work.failure();
        let allocation = allocations::get(conn, Scope::Platform, id)
            .await
            .map_err(ledger)?;
        let words = explain(&failure.reason, Some(allocation.image.boot_timeout_seconds));
        let has_user_data = allocation.user_data_bytes > 0;
        // what user data prints may be a secret of the tenant; the serial log has readers of its own
        let message = match &*failure.serial_log_end {
            _ if has_user_data && is_of_guest(&failure.reason) => format!(
                "{}\nIts user data may be the cause. Read its serial console: gpuaas logs {id}",
                words.message
            ),
            "" => words.message.clone(),
            _ if has_user_data => words.message.clone(),
            end => format!("{}\nIts serial console ended with:\n{end}", words.message),
        };
        let failed = allocation.readiness.iter().find(|one| !one.passed);
        let message = match failed.filter(|_| failure.reason == "GUEST_NOT_READY") {
            Some(check) => format!("{message}\n{}", check.explain()),
            None => message,
        };
        let shown = LedgerFailure {
            reason: failure.reason.clone(),
            message,
            advice: words.advice.to_owned(),
            step: failure.step.clone(),
        };
        let returned = work.outputs.get("return_lease");
        let untouched =
            host_is_untouched(&failure.reason, |step| work.begun.contains(step), returned);
        let detail = failure.detail_of("provision");
        let state = if untouched {
            HostState::Untouched {
                detail: json!({"host": "holds nothing for the allocation", "cause": failure.reason}),
            }
        } else {
            HostState::Dirty {
                health_detail: &detail,
            }
        };
        let outcome = provision::fail(conn, work.fence(), id, &shown, state)
            .await
            .map_err(ledger)?;
        // a tenant's program, and not the slot, may have kept the guest from being ready: what it left is wiped like after a release
        let is_of_tenant = has_user_data && is_of_guest(&failure.reason);
        if is_of_tenant && !untouched && outcome == gpuaas_placement::Outcome::Changed {
            for claim in claims::of_allocation(conn, id).await.map_err(ledger)? {
                if let Some(slot_id) = claim.slot_id {
                    let node_id = claim.node_id;
                    repair::begin(conn, node_id, slot_id, &allocation.traceparent, "")
                        .await
                        .map_err(ledger)?;
                }
            }
        }
        node_tasks::abandon(conn, Some(id), None).await?;
        timeline::end_running(conn, id, "Stopped.").await?;
        timeline::append(conn, id, "failed", State::Failed, &words.message).await?;
        let slots = match (untouched, is_of_tenant) {
            (true, _) => "available",
            (false, true) => "cleanup",
            (false, false) => "cleanup_blocked",
        };
        Ok(json!({ "slots": slots }))
    })
}

/// Whether a program in the guest can be the cause of a failure.
fn is_of_guest(reason: &str) -> bool {
    matches!(reason, "GUEST_NO_LOGIN" | "GUEST_NOT_READY")
}

/// Whether the slots may be allocated again without a wipe: no effect on the host was requested, the host itself reports
/// that it holds nothing for the allocation, and the failure does not speak against the slot.
fn host_is_untouched(reason: &str, begun: impl Fn(&str) -> bool, returned: Option<&Value>) -> bool {
    let held = returned
        .and_then(|output| output.get("held"))
        .and_then(Value::as_bool);
    let holds_nothing = !begun("acquire_lease") || held == Some(false);
    let against_slot = matches!(
        reason,
        "DISK_UNSAFE" | "DEVICE_MISSING" | "LEASE_HELD" | "FENCED"
    );
    !begun("provision") && holds_nothing && !against_slot
}

/// An image as a host gets it.
pub fn image_ref(image: &Image) -> ImageRef {
    ImageRef {
        slug: image.slug.clone(),
        digest: image.digest.clone(),
        source_uri: image.source_uri.clone(),
        size_bytes: image.size_bytes,
        driver_strategy: image.driver_strategy,
        boot_timeout: Some(proto_duration(Duration::from_secs(
            image.boot_timeout_seconds.into(),
        ))),
        readiness_checks: image.readiness_checks.iter().map(Check::to_wire).collect(),
    }
}

#[cfg(test)]
#[path = "provision_tests.rs"]
mod tests;
