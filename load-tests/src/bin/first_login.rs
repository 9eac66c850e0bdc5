//! Time from `POST /api/v1/allocations` to the first login, next to the same VM made by a plain script on the
//! same host in the same run; then the idle memory of every process. Prints Markdown.
//!
//! usage: cargo run -p gpuaas-load-tests --bin first_login [ROUNDS]
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use gpuaas_dev::ports::Instance;
use gpuaas_dev::seed::{self, Api, IMAGE, LAB_SKU, REGION, Tokens, guest_images, string};
use gpuaas_dev::stack::{Options, Stack};
use gpuaas_dev::{paths, process};
use serde_json::{Value, json};

const INSTANCE: u16 = 61;
const PATIENCE: Duration = Duration::from_secs(180);

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let rounds: usize = std::env::args().nth(1).map_or(Ok(5), |text| text.parse())?;
    let root = paths::run_dir().join("bench/stack");
    let stack = Stack::new(Options::beside(root.clone(), Instance::new(INSTANCE)?))?;
    let quiet = |line: &str| eprintln!("{line}");
    stack.up(&quiet).await?;
    seed::all(&stack, &quiet).await?;
    let outcome = measure(&stack, &root, rounds).await;
    stack.down()?;
    outcome
}

async fn measure(stack: &Stack, root: &Path, rounds: usize) -> anyhow::Result<()> {
    let bench = Bench::new(stack, root)?;
    let (mut plain, mut product) = (Vec::new(), Vec::new());
    for round in 1..=rounds {
        // alternating, so that a slow minute of the machine hits both
        plain.push(bench.plain()?);
        product.push(bench.slice(round).await?);
        eprintln!(
            "round {round}: plain {:.2} s, slice {:.2} s",
            plain[round - 1],
            product[round - 1]
        );
    }
    let (plain, product) = (median(plain), median(product));
    println!("| from request to first login | median of {rounds}, s | ratio |\n|---|---|---|");
    println!("| plain script | {plain:.2} | 1.00 |");
    println!(
        "| `POST /api/v1/allocations` | {product:.2} | {:.2} |",
        product / plain
    );
    println!("\n| idle process | resident memory, MiB |\n|---|---|");
    for row in stack.status().await? {
        if let Some(bytes) = row.process.as_ref().and_then(process::Process::memory) {
            println!(
                "| {} | {:.1} |",
                row.part,
                bytes as f64 / f64::from(1 << 20)
            );
        }
    }
    Ok(())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

struct Bench<'a> {
    stack: &'a Stack,
    user: Api,
    key: PathBuf,
    image: PathBuf,
    disk: String,
    work: PathBuf,
}

impl<'a> Bench<'a> {
    fn new(stack: &'a Stack, root: &Path) -> anyhow::Result<Self> {
        let key = root.join("bench-key");
        if !key.exists() {
            process::run(
                "ssh-keygen",
                &[
                    "-q",
                    "-t",
                    "ed25519",
                    "-N",
                    "",
                    "-f",
                    &key.display().to_string(),
                ],
            )?;
        }
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
            stack,
            user: Api::new(&stack.api_url(), &Tokens::of(root).user)?,
            key,
            image,
            disk: disk.trim().to_owned(),
            work: root.join("lab/plain"),
        })
    }

    /// One VM by the plain script, in seconds.
    fn plain(&self) -> anyhow::Result<f64> {
        let script = paths::checkout().join("load-tests/plain-vm.sh");
        let run = self.stack.options().root.join("lab/run");
        let arguments = [
            script.display().to_string(),
            self.image.display().to_string(),
            self.disk.clone(),
            self.work.display().to_string(),
            run.join("dnsmasq.d").display().to_string(),
            run.join("dnsmasq.pid").display().to_string(),
        ];
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let said = self.stack.lab()?.exec("bash", &arguments)?;
        said.trim()
            .parse()
            .with_context(|| format!("the plain script said {said:?}"))
    }

    /// One slice through the API, in seconds from the request to a login with the shown connection.
    async fn slice(&self, round: usize) -> anyhow::Result<f64> {
        let public = std::fs::read_to_string(self.key.with_extension("pub"))?;
        let body = json!({
            "name": format!("bench-{round}"), "region_code": REGION, "sku": LAB_SKU, "gpu_count": 1,
            "image": IMAGE, "ssh_public_keys": [public.trim()],
        });
        let unique = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)?
            .as_nanos();
        let begun = Instant::now();
        let created = self
            .user
            .post("/api/v1/allocations", &format!("bench-{unique}"), &body)
            .await?;
        let id = string(&created["id"]).to_owned();
        let active = self.wait(&id, "active").await?;
        let access = &active["status"]["access"];
        let login = Command::new("ssh")
            .arg("-i")
            .arg(&self.key)
            .args([
                "-o",
                "StrictHostKeyChecking=no",
                "-o",
                "UserKnownHostsFile=/dev/null",
            ])
            .args([
                "-o",
                "LogLevel=ERROR",
                "-o",
                "BatchMode=yes",
                "-p",
                &access["ssh_host_port"].to_string(),
            ])
            .arg(format!(
                "{}@{}",
                string(&access["guest_user"]),
                string(&access["ssh_host"])
            ))
            .arg("true")
            .status()?;
        let took = begun.elapsed().as_secs_f64();
        if !login.success() {
            bail!("the login failed");
        }
        let path = format!("/api/v1/allocations/{id}:release");
        self.user
            .post(&path, &format!("bench-release-{unique}"), &json!({}))
            .await?;
        self.wait(&id, "released").await?;
        Ok(took)
    }

    async fn wait(&self, id: &str, state: &str) -> anyhow::Result<Value> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let allocation = self.user.get(&format!("/api/v1/allocations/{id}")).await?;
            match string(&allocation["status"]["state"]) {
                now if now == state => return Ok(allocation),
                "failed" => bail!(
                    "allocation {id} failed: {}",
                    allocation["status"]["failure"]
                ),
                _ if Instant::now() > deadline => {
                    bail!("allocation {id} is not {state} after {PATIENCE:?}")
                }
                _ => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    }
}
