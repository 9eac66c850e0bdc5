//! The peer of every measurement of a launch: the same VM made by a plain script (`plain-vm.sh`) on the lab host of a
//! system, in the same run.
use std::path::PathBuf;

use anyhow::Context as _;
use gpuaas_dev::seed::{IMAGE, guest_images};
use gpuaas_dev::{paths, process};

use crate::system::System;

/// Size of its disk, as a lab slot has it.
const DISK_BYTES: u64 = 512 << 20;

/// What the script needs.
pub struct PlainVm<'a> {
    system: &'a System<'a>,
    image: PathBuf,
    disk: String,
    work: PathBuf,
}

impl<'a> PlainVm<'a> {
    /// Makes its disk. It lies beside those of the slots, so that `down` detaches it with them.
    ///
    /// # Errors
    /// The image is missing; there is no loop device.
    pub fn new(system: &'a System<'a>) -> anyhow::Result<Self> {
        let root = system.root();
        let image = guest_images(&|_| {})?
            .into_iter()
            .find(|image| image.slug == IMAGE)
            .context("the mini image")?
            .file;
        let file = root.join("lab/disks/plain.img");
        std::fs::File::create(&file)?.set_len(DISK_BYTES)?;
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

    /// Makes the VM and removes it again; the seconds from its clone to a login.
    ///
    /// # Errors
    /// The script fails.
    pub fn launch(&self) -> anyhow::Result<f64> {
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
}
