//! `list`: the allocations of a project.
use serde_json::json;

use super::select::Selected;
use super::{Session, given};
use crate::allocation::Allocation;
use crate::api::parse_all;
use crate::failure::Failure;
use crate::output::{print_json, print_table, time};
use crate::project;

#[derive(Debug, clap::Args)]
pub struct Flags {
    /// Include released and failed ones.
    #[arg(long)]
    all: bool,
    /// Only this project.
    #[arg(long, value_name = "PROJECT")]
    project: Option<String>,
    #[command(flatten)]
    selected: Selected,
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
    let mut query = given([
        ("include_ended", all.then(|| "true".to_owned())),
        ("project_id", project::given(&session.api, project).await?),
    ]);
    query.extend(selected.query());
    let found = session
        .api
        .list(&["allocations"], &query, "allocations")
        .await?;
    if session.json() {
        print_json(&json!({ "allocations": found }));
        return Ok(());
    }
    let allocations: Vec<Allocation> = parse_all(&found)?;
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
        let active = a.status.state == "active";
        let address = a.status.access.as_ref().filter(|_| active).map(|s| {
            if s.ssh_host.is_empty() {
                s.private_ip.clone()
            } else {
                format!("{}:{}", s.ssh_host, s.ssh_host_port)
            }
        });
        let state = match &a.status.queue {
            Some(queue) => queue.text(),
            None => a.status.text(),
        };
        [
            a.id,
            a.config.name,
            a.config.sku,
            a.config.gpu_count.to_string(),
            a.config.image,
            a.config.region_code,
            state,
            address.unwrap_or_default(),
            time(a.metadata.create_time),
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
