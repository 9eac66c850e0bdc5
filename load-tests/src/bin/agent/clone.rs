//! The clone of an image onto a disk: the agent's, with its claim and its progress, next to the same program by hand and
//! next to `dd`.
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use gpuaas_agent::disk::{DiskIdentity, DiskProbe, Intent};
use gpuaas_agent::host::root::HostRoot;
use gpuaas_agent::image::clone::clone_image;
use gpuaas_agent::settings::LabDisk;
use gpuaas_agent::vm::calls::Hypervisor;
use gpuaas_dev::process::run;
use gpuaas_load_tests::measure::median;
use uuid::Uuid;

const BYTES: u64 = 1 << 30;
const ROUNDS: usize = 5;
/// The agent's, `qemu-img` and `dd`.
const WAYS: usize = 3;

/// A loop device as the lab's slots have them, and an image without a zero block.
struct Bench {
    _folder: tempfile::TempDir,
    image: PathBuf,
    device: String,
    identity: DiskIdentity,
    probe: DiskProbe,
}

/// Prints the table.
///
/// # Errors
/// A program fails; the disk cannot be proven.
pub async fn measure() -> anyhow::Result<()> {
    let bench = Bench::new()?;
    let mut rates = [const { Vec::new() }; WAYS];
    let mut proofs = Vec::new();
    for number in 0..=ROUNDS {
        // another one is the first of each round
        for way in (0..WAYS).map(|way| (way + number) % WAYS) {
            let time = match way {
                0 => {
                    let (proof, clone) = bench.agent().await?;
                    proofs.push(proof.as_secs_f64() * 1000.0);
                    clone
                }
                1 => bench.qemu_img()?,
                _ => bench.dd()?,
            };
            if number > 0 {
                rates[way].push(BYTES as f64 / (1 << 20) as f64 / time.as_secs_f64());
            }
        }
    }
    let [agent, qemu, dd] = rates.map(median);
    println!("| clone of 1 GiB | median of {ROUNDS}, MiB/s | agent to it |\n|---|---|---|");
    println!("| the agent's | {agent:.0} | 1.00 |");
    println!(
        "| `qemu-img convert -W -m 16 -t none` | {qemu:.0} | {:.2} |",
        agent / qemu
    );
    println!(
        "| `dd bs=16M iflag=direct oflag=direct` | {dd:.0} | {:.2} |",
        agent / dd
    );
    let proof = median(proofs);
    println!(
        "\nBefore it the agent proves that the disk is the approved one, empty and unused, and claims it: {proof:.0} ms."
    );
    Ok(())
}

impl Bench {
    fn new() -> anyhow::Result<Self> {
        let folder = tempfile::tempdir_in(gpuaas_dev::paths::run_dir())?;
        let file = |name: &str| folder.path().join(name);
        let (image, backing_file) = (file("image"), file("disk"));
        std::fs::File::create(&backing_file)?.set_len(BYTES)?;
        run(
            "dd",
            &[
                "if=/dev/urandom",
                &format!("of={}", image.display()),
                "bs=16M",
                "count=64",
                "status=none",
            ],
        )?;
        let device = run(
            "losetup",
            &[
                "-f",
                "--show",
                "--direct-io=on",
                &backing_file.to_string_lossy(),
            ],
        )?;
        let disk = LabDisk {
            id: Uuid::now_v7(),
            backing_file,
        };
        // what supervises this machine may have more rights than this program
        let supervisor = std::fs::read_to_string("/proc/1/comm").context("the first process")?;
        Ok(Self {
            image,
            device: device.trim().to_owned(),
            identity: DiskIdentity::Lab(disk.id),
            probe: DiskProbe::new(
                HostRoot::new("/"),
                vec![disk],
                Hypervisor::new("test:///default"),
            )
            .trusting(vec![supervisor.trim().to_owned()]),
            _folder: folder,
        })
    }

    /// An empty disk, and nothing of the image in memory.
    fn prepare(&self) -> anyhow::Result<()> {
        run("blkdiscard", &["-f", &self.device])?;
        run(
            "dd",
            &[
                "of=/dev/null",
                &format!("if={}", self.image.display()),
                "iflag=nocache",
                "count=0",
                "status=none",
            ],
        )?;
        run("sync", &[])?;
        Ok(())
    }

    /// The time of the proof with the exclusive open, and of the clone.
    async fn agent(&self) -> anyhow::Result<(Duration, Duration)> {
        self.prepare()?;
        let begun = Instant::now();
        let intent = Intent::Clone { touched: false };
        let proven = self.probe.prove(&self.identity, BYTES, intent).await?;
        let disk = self.probe.open_exclusively(proven).await?;
        let proof = begun.elapsed();
        let begun = Instant::now();
        clone_image(&self.image, &disk, Duration::from_secs(600), |_| {}).await?;
        Ok((proof, begun.elapsed()))
    }

    fn qemu_img(&self) -> anyhow::Result<Duration> {
        let (image, device) = (self.image.to_string_lossy(), &self.device);
        self.prepare()?;
        let begun = Instant::now();
        let arguments = [
            "convert", "-f", "raw", "-O", "raw", "-n", "-W", "-m", "16", "-t", "none",
        ];
        run("qemu-img", &[&arguments[..], &[&image, device]].concat())?;
        Ok(begun.elapsed())
    }

    fn dd(&self) -> anyhow::Result<Duration> {
        let source = format!("if={}", self.image.display());
        let target = format!("of={}", self.device);
        self.prepare()?;
        let begun = Instant::now();
        let arguments = [
            "bs=16M",
            "iflag=direct",
            "oflag=direct",
            "conv=fsync",
            "status=none",
        ];
        run("dd", &[&[&*source, &*target], &arguments[..]].concat())?;
        Ok(begun.elapsed())
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        if let Err(error) = run("losetup", &["-d", &self.device]) {
            eprintln!(
                "{error}: detach {} by hand",
                Path::new(&self.device).display()
            );
        }
    }
}
