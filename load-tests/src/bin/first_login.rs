//! Time from `POST /api/v1/allocations` to the first login, next to the same VM made by a plain script on the
//! same host in the same run; then the idle memory of every process. Prints Markdown.
//!
//! usage: make bench-login
//!        first_login [ROUNDS]
use std::time::Instant;

use anyhow::bail;
use gpuaas_load_tests::measure::{circumstances, median, memory_kib};
use gpuaas_load_tests::plain::PlainVm;
use gpuaas_load_tests::slice::{self, Slice};
use gpuaas_load_tests::system::{self, Hosts, System};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let rounds: usize = std::env::args().nth(1).map_or(Ok(5), |text| text.parse())?;
    system::with(Hosts::Lab, &[], async |system| {
        slice::release_all(&system.user).await?;
        measure(system, rounds).await
    })
    .await
}

async fn measure(system: &System<'_>, rounds: usize) -> anyhow::Result<()> {
    let circumstances = circumstances();
    let plain_vm = PlainVm::new(system)?;
    let (mut plain, mut product) = (Vec::new(), Vec::new());
    for round in 1..=rounds {
        // alternating, so that a slow minute of the machine hits both
        plain.push(plain_vm.launch()?);
        product.push(first_login(system).await?);
        eprintln!(
            "round {round}: plain {:.2} s, slice {:.2} s",
            plain[round - 1],
            product[round - 1]
        );
    }
    let (plain, product) = (median(plain), median(product));
    println!("{circumstances}\n");
    println!("| from request to first login | median of {rounds}, s | ratio |\n|---|---|---|");
    println!("| plain script | {plain:.2} | 1.00 |");
    println!(
        "| `POST /api/v1/allocations` | {product:.2} | {:.2} |",
        product / plain
    );
    println!("\n| idle process | resident memory, MiB |\n|---|---|");
    for row in system.stack.status().await? {
        if let Some(process) = &row.process {
            println!("| {} | {:.1} |", row.part, memory_kib(process) / 1024.0);
        }
    }
    Ok(())
}

/// One slice through the API, in seconds from the request to a login with the shown connection.
async fn first_login(system: &System<'_>) -> anyhow::Result<f64> {
    let begun = Instant::now();
    let slice = Slice::launch(system).await?;
    let login = slice.ssh(&[]).arg("true").status()?;
    let took = begun.elapsed().as_secs_f64();
    if !login.success() {
        bail!("the login failed");
    }
    slice.release().await?;
    Ok(took)
}
