//! `list`: the allocations of a project.
use gpuaas_proto::gpuaas::allocation::v1::{AllocationState, ListAllocationsRequest};

use super::select::SelectedOf;
use crate::allocation::{label_of, queue_text, status_text};
use crate::failure::Failure;
use crate::output::{print_json, print_table, time};
use crate::project::{self, Which};
use crate::session::Session;

#[derive(Debug, clap::Args)]
pub struct Flags {
    /// Include released and failed ones.
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    project: Which,
    #[command(flatten)]
    selected: SelectedOf<ListAllocationsRequest>,
}

/// Runs it.
///
/// # Errors
/// See [`Failure`].
pub async fn run(session: &Session, flags: Flags) -> Result<(), Failure> {
    let Flags {
        all,
        project,
        selected,
    } = flags;
    let projects = project.ids(&session.api).await?;
    let request = |project_id| ListAllocationsRequest {
        project_id,
        include_ended: all,
        filter: selected.filter(),
        order_by: selected.order_by(),
        ..ListAllocationsRequest::default()
    };
    let listed = project::list_each(&session.api, &projects, "allocations", request).await?;
    if session.json() {
        print_json(&listed.json);
        return Ok(());
    }
    let allocations = listed.message.allocations;
    if allocations.is_empty() && selected.narrows() {
        say!("No allocation matches the filter.");
        return Ok(());
    }
    if allocations.is_empty() {
        say!(
            "No allocations{}. Launch one: gpuaas launch --sku SKU --image IMAGE",
            if all { " yet" } else { " now" }
        );
        return Ok(());
    }
    let rows = allocations.into_iter().map(|a| {
        let label = label_of(&a);
        let (config, status) = (a.config.unwrap_or_default(), a.status.unwrap_or_default());
        let active = status.state() == AllocationState::Active;
        let address = status.access.as_ref().filter(|_| active).map(|s| {
            if s.ssh_host.is_empty() {
                s.private_ip.clone()
            } else {
                format!("{}:{}", s.ssh_host, s.ssh_host_port)
            }
        });
        let state = match &status.queue {
            Some(queue) => queue_text(queue),
            None => status_text(&status),
        };
        [
            a.id,
            label,
            config.sku,
            config.gpu_count.to_string(),
            config.image,
            config.region_code,
            state,
            address.unwrap_or_default(),
            time(a.metadata.unwrap_or_default().create_time),
        ]
    });
    print_table(
        [
            "ID", "NAME", "SKU", "GPUS", "IMAGE", "REGION", "STATE", "ADDRESS", "CREATED",
        ],
        rows.collect(),
    );
    Ok(())
}
