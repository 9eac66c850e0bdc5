//! Host preparation on the tree of a host whose programs are played: each command changes what it must, nothing else, and
//! nothing the second time.
mod assembly;
mod binding;
mod bootstrap;
mod functions;
mod ipoib;
mod network;
mod rebind;
mod removal;
mod runtime;
mod scripts;
mod site_scripts;
mod storage;
mod validate;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use gpuaas_agent::journal::Journal;
use serde_json::Value;

use super::recorded::reference_host::{Host, good};

const PROGRAMS: [&str; 19] = [
    "apt-cache",
    "apt-get",
    "blkdiscard",
    "ip",
    "iptables",
    "mdadm",
    "modprobe",
    "netplan",
    "networkctl",
    "ovs-vsctl",
    "sysctl",
    "systemctl",
    "umount",
    "update-grub",
    "update-initramfs",
    "virsh",
    "wipefs",
    "blkid",
    "dnsmasq",
];

/// A host to prepare.
pub struct TestHost {
    dir: tempfile::TempDir,
}

/// How a command ended.
#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    pub text: String,
}

impl Ran {
    /// The one object of `--output json`.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("{}", self.text))
    }

    /// The steps of a plan, as "action detail".
    pub fn steps(&self) -> Vec<String> {
        self.lines("detail=")
    }

    fn lines(&self, what: &str) -> Vec<String> {
        let plans = self.text.lines().filter_map(|line| {
            let rest = line.strip_prefix("GPUAAS_SLICE_PLAN command=")?;
            let (_, rest) = rest.split_once(" action=")?;
            let (action, rest) = rest.split_once(' ')?;
            let is_step = !matches!(action, "skip" | "refuse");
            let detail = rest.strip_prefix(what)?;
            let detail = detail.split(" reason=").next()?;
            is_step.then(|| format!("{action} {}", detail.replace('\\', "")))
        });
        plans.collect()
    }

    /// What is refused.
    pub fn refusals(&self) -> String {
        let lines = self.text.lines();
        let refused = lines.filter(|line| line.contains(" action=refuse "));
        refused
            .map(|line| line.replace('\\', ""))
            .collect::<Vec<_>>()
            .join("\n")
    }
}

impl TestHost {
    /// The good H200 host, before it is prepared in any way: no package, no unit, no bridge.
    pub fn new() -> Self {
        Self::of(&good())
    }

    pub fn of(host: &Host) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let own = Self { dir };
        host.recording.lay_out(&own.tree()).unwrap();
        for folder in ["programs", "units", "links", "signatures", "instead"] {
            fs::create_dir(own.state(folder)).unwrap();
        }
        let fake = own.state("fake.sh");
        fs::write(&fake, include_str!("fake.sh")).unwrap();
        fs::set_permissions(&fake, fs::Permissions::from_mode(0o755)).unwrap();
        for name in PROGRAMS {
            symlink(&fake, own.state("programs").join(name)).unwrap();
        }
        own.state_text("domains", "");
        own.write("/var/lib/dpkg/status", "");
        own.write("/proc/sys/net/ipv4/ip_forward", "0\n");
        own
    }

    pub fn state(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn state_text(&self, name: &str, text: &str) {
        fs::write(self.state(name), text).unwrap();
    }

    pub fn tree(&self) -> PathBuf {
        self.dir.path().join("host")
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.tree().join(path.trim_start_matches('/'))
    }

    pub fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// A program that answers otherwise than the played one.
    pub fn instead(&self, program: &str, script: &str) {
        let path = self.state("instead").join(program);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// A unit that systemd has, enabled and active.
    pub fn unit(&self, name: &str) {
        for end in ["", ".enabled", ".active"] {
            fs::write(self.state("units").join(format!("{name}{end}")), "").unwrap();
        }
    }

    /// Runs a command of the agent on this host.
    pub fn run(&self, arguments: &[&str]) -> Ran {
        self.run_with(arguments, &[])
    }

    pub fn run_with(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Ran {
        let programs = self.state("programs");
        let programs = programs.to_str().unwrap().to_owned();
        self.run_by(arguments, variables, &programs)
    }

    pub fn run_by(&self, arguments: &[&str], variables: &[(&str, &str)], path: &str) -> Ran {
        let output = agent()
            .args(arguments)
            .arg("--root")
            .arg(self.tree())
            .args(["--programs", path])
            .envs(variables.iter().copied())
            .output()
            .unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        Ran {
            code: output.status.code().unwrap_or(-1),
            text: format!("{}{error}", String::from_utf8_lossy(&output.stdout)),
        }
    }

    /// The calls of programs so far, and none from here on.
    pub fn take_calls(&self) -> Vec<String> {
        let path = self.state("calls");
        let text = fs::read_to_string(&path).unwrap_or_default();
        let _gone = fs::remove_file(path);
        text.lines().map(str::to_owned).collect()
    }

    /// Every file of the host with its text.
    pub fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut found = BTreeMap::new();
        let mut folders = vec![self.tree()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                let data = fs::symlink_metadata(&path).unwrap();
                if data.is_dir() {
                    folders.push(path);
                } else if data.is_file() {
                    let bytes = fs::read(&path).unwrap();
                    found.insert(path, bytes);
                }
            }
        }
        found
    }

    /// Lets the journal know the devices of a slot, as the first wipe of an approved slot does.
    pub fn approve(&self, slot: &str, devices: &[&str], held: bool) {
        let folder = self.path("/var/lib/gpuaas");
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("journal.sqlite");
        drop(Journal::open(&path).unwrap());
        let connection = rusqlite::Connection::open(path).unwrap();
        for device in devices {
            let sql = "INSERT INTO slot_devices (slot_id, device) VALUES (?1, ?2)";
            connection.execute(sql, (slot, device)).unwrap();
        }
        if held {
            let sql = "INSERT INTO holds (slot_id, allocation_id) VALUES (?1, ?2)";
            connection.execute(sql, (slot, HOLDER)).unwrap();
            let sql = "INSERT INTO fences (slot_id, cell_epoch, slot_generation, workflow_epoch) VALUES (?1, 1, 1, 1)";
            connection.execute(sql, (slot,)).unwrap();
        }
    }
}

/// An allocation that holds a slot.
pub const HOLDER: &str = "158ea147-0115-407f-bbd5-1850c32b9517";
pub const SLOT: &str = "0192f0c1-1111-7bbb-8ccc-000000000000";

/// The program, without what the environment of the tests would tell it.
pub fn agent() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpuaas-node-agent"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("GPUAAS_") {
            command.env_remove(name);
        }
    }
    command
}

/// The repository's root.
pub fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}
