//! Time from `POST /api/v1/allocations` to the first login, next to the same VM made by a plain script on the
//! same host in the same run; then the idle memory of every process. Prints Markdown.
//!
//! usage: make bench-login
//!        first_login [ROUNDS]
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context as _, bail};
use gpuaas_dev::seed::{IMAGE, guest_images};
use gpuaas_dev::{paths, process};
use gpuaas_load_tests::measure::{circumstances, median, memory_kib};
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
    let bench = Bench::new(system)?;
    let (mut plain, mut product) = (Vec::new(), Vec::new());
    for round in 1..=rounds {
        // alternating, so that a slow minute of the machine hits both
        plain.push(bench.plain()?);
        product.push(bench.slice().await?);
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

struct Bench<'a> {
    system: &'a System<'a>,
    image: PathBuf,
    disk: String,
    work: PathBuf,
}

impl<'a> Bench<'a> {
    fn new(system: &'a System<'a>) -> anyhow::Result<Self> {
        let root = system.root();
        let image = guest_images(&|_| {})?
            .into_iter()
            .find(|i| i.slug == IMAGE)
            .context("the mini image")?
            .file;
        // a disk of its own, like a slot's; `down` detaches it with the others
        let folder = root.join("lab/disks");
        let file = folder.join("plain.img");
        std::fs::File::create(&file)?.set_len(512 << 20)?;
        let disk = process::run(
            "losetup",
            &[
                "-f",
                "--show",
                "--direct-io=on",
                &file.display().to_string(),
            ],
        )?;
        Ok(Self {
            system,
            image,
            disk: disk.trim().to_owned(),
            work: root.join("lab/plain"),
        })
    }

    /// One VM by the plain script, in seconds.
    fn plain(&self) -> anyhow::Result<f64> {
        let script = paths::checkout().join("load-tests/plain-vm.sh");
        let arguments = [
            script.display().to_string(),
            self.image.display().to_string(),
            self.disk.clone(),
            self.work.display().to_string(),
        ];
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let said = self.system.stack.lab().exec("bash", &arguments)?;
        said.trim()
            .parse()
            .with_context(|| format!("the plain script said {said:?}"))
    }

    /// One slice through the API, in seconds from the request to a login with the shown connection.
    async fn slice(&self) -> anyhow::Result<f64> {
        let begun = Instant::now();
        let slice = Slice::launch(self.system).await?;
        let login = slice.ssh(&[]).arg("true").status()?;
        let took = begun.elapsed().as_secs_f64();
        if !login.success() {
            bail!("the login failed");
        }
        slice.release().await?;
        Ok(took)
    }
}
