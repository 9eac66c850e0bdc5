//! Simulations: evacuation, defragmentation and capacity for bare metal. None of them is carried out.
use std::collections::HashMap;

use gpuaas_proto::call::Unary;
use gpuaas_proto::gpuaas::scheduler::v1::{
    EvacuatedAllocation, GetPreservationReportRequest, PlanEvacuationRequest, PlannedMove,
    PlannedPlacement, SuggestDefragmentationRequest,
};
use jiff::Timestamp;

use crate::commands::explain;
use crate::failure::Failure;
use crate::node;
use crate::output::{Moment, duration, print_json, print_table};
use crate::project;
use crate::session::Session;

#[derive(Debug, clap::Args)]
pub struct Defragmentation {
    #[command(flatten)]
    launch: explain::Size,
    /// Maximum allocations to move.
    #[arg(long, default_value_t = 8, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=64))]
    max_moves: u32,
}

#[derive(Debug, clap::Args)]
pub struct Preservation {
    /// Only this region.
    #[arg(long)]
    region: Option<String>,
}

/// Reads a plan; none when it was printed for a program.
async fn read<C: Unary>(session: &Session, request: C) -> Result<Option<C::Response>, Failure> {
    let answer = session.api.call(&request).await?;
    if session.json() {
        print_json(&answer.json);
        return Ok(None);
    }
    Ok(Some(answer.message))
}

/// Prints where each allocation of the nodes would fit.
///
/// # Errors
/// See [`Failure`].
pub async fn evacuation(session: &Session, nodes: &[String]) -> Result<(), Failure> {
    let mut request = PlanEvacuationRequest::default();
    for node in nodes {
        let id = node::resolve(&session.api, node).await?;
        request.node_ids.push(id);
    }
    let Some(plan) = read(session, request).await? else {
        return Ok(());
    };
    say!(
        "{} allocation(s) with {} GPU(s) fit elsewhere, {} with {} GPU(s) do not.",
        plan.allocations_fit,
        plan.gpus_fit,
        plan.allocations_unplaceable,
        plan.gpus_unplaceable
    );
    if plan.allocations_ending > 0 {
        say!(
            "{} allocation(s) are being released.",
            plan.allocations_ending
        );
    }
    if plan.blocked_slots > 0 {
        say!("{} slot(s) need a repair.", plan.blocked_slots);
    }
    if !plan.allocations.is_empty() {
        let projects = project::names(&session.api).await;
        say!("");
        print_table(
            [
                "ALLOCATION",
                "NAME",
                "PROJECT",
                "SKU",
                "GPUS",
                "STATE",
                "AGE",
                "NODE",
                "PLACEMENT OR REASON",
            ],
            plan.allocations
                .iter()
                .map(|one| evacuated(one, &projects))
                .collect(),
        );
        if plan.allocations.iter().any(|one| !one.constraints_known) {
            say!(
                "\nThe placement constraints of some allocations are unknown: an older release did not record them."
            );
        }
    }
    say!("\n{}", plan.notice);
    Ok(())
}

fn evacuated(one: &EvacuatedAllocation, projects: &HashMap<String, String>) -> [String; 9] {
    let allocation = one.allocation.clone().unwrap_or_default();
    let outcome = match &one.placement {
        Some(placement) => placement_text(placement),
        None if allocation.state == "releasing" => "being released".to_owned(),
        None => {
            let why: Vec<&str> = one.reasons.iter().map(|r| r.message.as_str()).collect();
            format!("does not fit: {}", why.join(" "))
        }
    };
    [
        allocation.id,
        allocation.name,
        project::name_of(projects, &allocation.project_id),
        allocation.sku,
        allocation.gpu_count.to_string(),
        allocation.state,
        age(allocation.create_time),
        allocation.hostname,
        outcome,
    ]
}

fn age(since: impl Moment) -> String {
    since.moment().map_or_else(String::new, |since| {
        duration((Timestamp::now().as_second() - since.as_second()).max(0))
    })
}

/// A planned placement as text.
fn placement_text(placement: &PlannedPlacement) -> String {
    format!(
        "{}, {}",
        placement.hostname,
        slots_text(&placement.slot_indexes)
    )
}

/// The slots of a placement as text; without slots it is bare metal.
pub fn slots_text(slot_indexes: &[u32]) -> String {
    if slot_indexes.is_empty() {
        return "bare metal".to_owned();
    }
    let slots: Vec<String> = slot_indexes.iter().map(u32::to_string).collect();
    format!("slots {}", slots.join(", "))
}

/// Prints the fewest moves that let more launches of a size fit.
///
/// # Errors
/// See [`Failure`].
pub async fn defragmentation(session: &Session, flags: Defragmentation) -> Result<(), Failure> {
    let size = flags.launch.resolve(session).await?;
    let request = SuggestDefragmentationRequest {
        region_code: size.region_code,
        sku: size.sku,
        gpu_count: size.gpu_count,
        max_moves: flags.max_moves,
    };
    let Some(found) = read(session, request).await? else {
        return Ok(());
    };
    let launches = format!(
        "launch(es) of {} GPU(s) of {} in {}",
        found.gpu_count, found.sku, found.region_code
    );
    if found.steps.is_empty() {
        say!(
            "{} {launches} fit now. Moving up to {} allocation(s) does not increase this.",
            found.fits_before,
            flags.max_moves
        );
    } else {
        let moves: usize = found.steps.iter().map(|step| step.moves.len()).sum();
        say!(
            "{} {launches} fit now. Moving {moves} allocation(s) with {} GPU(s) increases this to {}.",
            found.fits_before,
            found.gpus_moved,
            found.fits_after
        );
        let projects = project::names(&session.api).await;
        for (number, step) in (1..).zip(&found.steps) {
            say!(
                "\n{number}. Move off node {}: {} more launch(es).",
                step.hostname,
                step.gained
            );
            print_moves(&step.moves, &projects);
        }
    }
    if found.cut {
        say!("\nThe search reached its limit. More moves may be possible.");
    }
    say!("\n{}", found.notice);
    Ok(())
}

fn print_moves(moves: &[PlannedMove], projects: &HashMap<String, String>) {
    let row = |one: &PlannedMove| {
        let allocation = one.allocation.clone().unwrap_or_default();
        [
            allocation.id,
            allocation.name,
            project::name_of(projects, &allocation.project_id),
            allocation.gpu_count.to_string(),
            placement_text(&one.placement.clone().unwrap_or_default()),
        ]
    };
    print_table(
        ["ALLOCATION", "NAME", "PROJECT", "GPUS", "PLACEMENT"],
        moves.iter().map(row).collect(),
    );
}

/// Prints the nodes that are free for bare metal, and the moves that would free more.
///
/// # Errors
/// See [`Failure`].
pub async fn preservation(session: &Session, flags: Preservation) -> Result<(), Failure> {
    let request = GetPreservationReportRequest {
        region_code: flags.region.unwrap_or_default(),
    };
    let Some(found) = read(session, request).await? else {
        return Ok(());
    };
    let share = |part: u32, all: u32| {
        let percent = (u64::from(part) * 100).checked_div(u64::from(all));
        percent.map_or_else(
            || part.to_string(),
            |percent| format!("{part} ({percent} %)"),
        )
    };
    let rows = found.nodes.iter().map(|of| {
        [
            of.region_code.clone(),
            of.slot_class.clone(),
            of.nodes.to_string(),
            share(of.baremetal_free, of.nodes),
            share(of.baremetal_allocated, of.nodes),
            share(of.clean, of.nodes),
            share(of.sliced, of.nodes),
            of.recoverable.to_string(),
        ]
    });
    print_table(
        [
            "REGION",
            "CLASS",
            "NODES",
            "BAREMETAL FREE",
            "BAREMETAL ALLOCATED",
            "UNSCHEDULABLE",
            "RUNNING VMS",
            "RECOVERABLE",
        ],
        rows.collect(),
    );
    let projects = project::names(&session.api).await;
    for of in found.nodes.iter().filter(|of| of.recoverable > 0) {
        say!(
            "\n{} in {}: {} move(s) of {} GPU(s) would free {} node(s) for bare metal.",
            of.slot_class,
            of.region_code,
            of.moves,
            of.gpus_moved,
            of.recoverable
        );
        for node in &of.easiest {
            say!("\nMove off node {}:", node.hostname);
            print_moves(&node.moves, &projects);
        }
    }
    say!("\n{}", found.notice);
    Ok(())
}
