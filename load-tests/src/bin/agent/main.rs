//! What a host spends: the clone of an image next to `qemu-img` and `dd`, launches at once on one host, memory and
//! processor time of the agent with and without VMs, the comparison of a host with one and with eight, and a provision next
//! to a plain script. Prints Markdown.
//!
//! usage: make bench-agent
//!        agent [provision]    all of it, or the provision alone
mod clone;
mod comparison;
mod provision;

use std::time::{Duration, Instant};

use anyhow::Context as _;
use comparison::Compared;
use futures::future::try_join_all;
use gpuaas_dev::process::Process;
use gpuaas_load_tests::measure::{circumstances, cpu_seconds};
use gpuaas_load_tests::memory::Memory;
use gpuaas_load_tests::slice::{self, Slice};
use gpuaas_load_tests::system::{self, Hosts, System};

/// Slots of the host, each with a GPU of its own: as many as an H200 node has GPUs.
const SLOTS: u16 = 8;
/// How long the agent is watched while nobody asks it for anything: several passes of its reconcile.
const QUIET: Duration = Duration::from_secs(90);

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let part = std::env::args().nth(1);
    let all = match part.as_deref() {
        None => true,
        Some("provision") => false,
        Some(other) => anyhow::bail!("there is no part {other}; the usage is agent [provision]"),
    };
    println!("{}\n", circumstances());
    if all {
        clone::measure().await?;
    }
    system::with(Hosts::LabOf(SLOTS), &[], async |system| {
        slice::release_all(&system.user).await?;
        if all {
            measure(system).await?;
        }
        provision::measure(system).await
    })
    .await
}

async fn measure(system: &System<'_>) -> anyhow::Result<()> {
    let agent = system.process("agent").await?;
    let mut at_rest = vec![(0, watch(&agent).await?)];
    println!("\n| launches at once | until all are active, s | to one | released again after, s |");
    println!("|---|---|---|---|");
    let mut compared = Compared::of(system, &agent).await?;
    let mut comparisons = Vec::new();
    let mut alone = None;
    for at_once in [1, 2, 4, usize::from(SLOTS)] {
        let begun = Instant::now();
        let slices = try_join_all((0..at_once).map(|_| Slice::launch(system))).await?;
        let launched = begun.elapsed().as_secs_f64();
        if [1, usize::from(SLOTS)].contains(&at_once) {
            comparisons.push(compared.measure(at_once).await?);
        }
        if at_once == usize::from(SLOTS) {
            at_rest.push((at_once, watch(&agent).await?));
        }
        let begun = Instant::now();
        try_join_all(slices.into_iter().map(Slice::release)).await?;
        let released = begun.elapsed().as_secs_f64();
        let alone = *alone.get_or_insert(launched);
        println!(
            "| {at_once} | {launched:.1} | {:.2} | {released:.1} |",
            launched / alone
        );
    }
    at_rest.push((0, watch(&agent).await?));
    println!(
        "\n| VMs | agent's memory, MiB | anonymous | its program | other files | threads | agent and its programs, CPU ms/s |"
    );
    println!("|---|---|---|---|---|---|---|");
    for (vms, (memory, cpu)) in at_rest {
        println!(
            "| {vms} | {:.1} | {:.1} | {:.1} | {:.1} | {} | {cpu:.2} |",
            memory.all(),
            memory.anonymous,
            memory.program,
            memory.libraries,
            memory.threads
        );
    }
    comparison::print(&comparisons);
    Ok(())
}

/// Resident memory, and processor time in milliseconds a second with that of the programs it runs.
async fn watch(agent: &Process) -> anyhow::Result<(Memory, f64)> {
    let before = cpu_seconds(agent).context("the agent runs")?;
    tokio::time::sleep(QUIET).await;
    let used = cpu_seconds(agent).context("the agent runs")? - before;
    let each_second = used * 1000.0 / QUIET.as_secs_f64();
    let memory = Memory::of(agent).context("the agent runs")?;
    Ok((memory, each_second))
}
