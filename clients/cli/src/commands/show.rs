//! `show`: one allocation with address, cost so far and timeline.
use gpuaas_proto::gpuaas::allocation::v1::{
    Allocation, AllocationState, GetAllocationRequest, ListTimelineRequest, PowerState,
};
use gpuaas_proto::gpuaas::billing::v1::{ListUsageRequest, UsageTotal};
use serde_json::json;

use super::placement;
use super::usage::credit;
use crate::allocation::{AllocationRef, check_text, is_off, state_of, status_text};
use crate::failure::Failure;
use crate::output::{amount, print_command, print_json, print_line, size, span, time};
use crate::progress::entry_line;
use crate::session::Session;
use crate::ssh::{Login, Via};

#[derive(Debug, clap::Args)]
pub struct Flags {
    #[command(flatten)]
    of: AllocationRef,
}

/// Runs it.
///
/// # Errors
/// See [`Failure`].
pub async fn run(session: &Session, flags: &Flags) -> Result<(), Failure> {
    let id = flags.of.id(&session.api).await?;
    let api = &session.api;
    let of_one = GetAllocationRequest {
        allocation_id: id.clone(),
    };
    let answer = api.call(&of_one).await?;
    let timeline = ListTimelineRequest {
        allocation_id: id.clone(),
        ..ListTimelineRequest::default()
    };
    let timeline = api.call_all_pages(&timeline, "entries").await?;
    let allocation = &answer.message;
    let cost = ListUsageRequest {
        allocation_id: id,
        project_id: allocation.config.clone().unwrap_or_default().project_id,
        ..ListUsageRequest::default()
    };
    let usage = api.call(&cost).await?;
    if session.json() {
        let totals = usage.json.get("totals").cloned().unwrap_or(json!([]));
        print_json(
            &json!({ "allocation": answer.json, "timeline": timeline.json["entries"], "usage_totals": totals }),
        );
        return Ok(());
    }
    print_allocation(allocation);
    print_cost(&usage.message.totals);
    print_login(allocation)?;
    let entries = &timeline.message.entries;
    if !entries.is_empty() {
        say!("\nTimeline");
        for entry in entries {
            say!("{}", entry_line(entry));
        }
    }
    Ok(())
}

/// The lines about state, also used after a launch.
pub fn print_allocation(allocation: &Allocation) {
    let config = allocation.config.clone().unwrap_or_default();
    let status = allocation.status.clone().unwrap_or_default();
    print_line("ID", &allocation.id);
    print_line("Name", &config.name);
    print_line("Called", &allocation.display_name);
    let lab = if status.lab {
        " (lab: emulated, no GPU)"
    } else {
        ""
    };
    print_line(
        "Size",
        &format!(
            "{} x {}, image {}, region {}{lab}",
            config.gpu_count, config.sku, config.image, config.region_code
        ),
    );
    if let Some(vm) = &status.resources {
        let memory = size(vm.memory_mib.saturating_mul(1024 * 1024));
        let disks = if vm.disks == 1 { "disk" } else { "disks" };
        print_line(
            "VM",
            &format!(
                "{} vCPU, {memory} memory, {} {disks} with {}",
                vm.vcpus,
                vm.disks,
                size(vm.disk_bytes)
            ),
        );
    }
    print_line(
        "Placement",
        &config
            .placement
            .as_ref()
            .map(placement::text)
            .unwrap_or_default(),
    );
    if let Some(data) = &config.user_data {
        print_line(
            "User data",
            &format!("{} bytes, {}", data.size_bytes, data.digest),
        );
    }
    print_line("State", &status_text(&status));
    if let Some(queue) = &status.queue {
        print_line(
            "Queue",
            &format!("position {}. {}", queue.position, queue.message),
        );
        print_line(
            "",
            &format!(
                "waiting since {}, expires {}",
                time(queue.since),
                time(queue.deadline)
            ),
        );
    }
    for condition in &status.conditions {
        print_line(
            "Condition",
            &format!("{} Since {}.", condition.message, time(condition.since)),
        );
    }
    print_line("Billing", &status.billing);
    if allocation.termination_protection {
        print_line("Protection", "a release is refused");
    }
    print_line("Ends", &time(allocation.auto_release_time));
    print_line("Rescue image", &status.rescue_image);
    print_line("Boot", &status.boot_id);
    // the watch of a launch may still report the last step
    let steady = status.state() == AllocationState::Active
        && matches!(
            status.power(),
            PowerState::Running | PowerState::Stopped | PowerState::Rescued
        );
    if let Some(progress) = status.progress.as_ref().filter(|_| !steady) {
        print_line(
            "Progress",
            &format!(
                "{} {}%  {}",
                progress.step, progress.percent, progress.message
            ),
        );
    }
    for check in &status.readiness_checks {
        print_line("Check", &check_text(check));
    }
    if let Some(failure) = &status.failure {
        print_line(
            "Failure",
            &format!("{} ({})", failure.message, failure.reason),
        );
        print_line("Advice", &failure.advice);
    }
    let by = match allocation.creator.as_str() {
        "" => String::new(),
        creator => format!(" by {creator}"),
    };
    let metadata = allocation.metadata.clone().unwrap_or_default();
    let created = time(metadata.create_time);
    print_line("Created", &format!("{created}{by}"));
    print_line("Active", &time(status.active_time));
    print_line("Released", &time(status.release_time));
}

fn print_cost(totals: &[UsageTotal]) {
    if totals.is_empty() {
        print_line("Cost", "none so far");
    }
    for total in totals {
        print_line(
            "Cost",
            &format!(
                "{} so far, for {} of GPU time{}",
                amount(total.amount.as_ref()),
                span(total.gpu_microseconds),
                credit(total)
            ),
        );
    }
}

/// Where and how to log in; only where while the VM is off.
///
/// # Errors
/// The host keys cannot be pinned.
pub fn print_login(allocation: &Allocation) -> Result<(), Failure> {
    if state_of(allocation) != AllocationState::Active {
        return Ok(());
    }
    let status = allocation.status.clone().unwrap_or_default();
    if let Some(access) = &status.access {
        print_line("Address", &format!("{} (private)", access.private_ip));
        if access.ssh_host_keys.is_empty() {
            print_line("Log in", "not from here: no host keys are on record");
        } else if !is_off(&status) {
            print_command("Log in", &format!("gpuaas ssh {}", allocation.id));
            let login = Login::new(allocation, None, Via::Network)?;
            print_command("or", &login.command_line());
        }
    }
    Ok(())
}
