//! A whole stack below one folder: database, Redis, registry, services, gateway and one lab host.
//!
//! `make up` runs the one of instance 0 in `.run`; tests run others beside it with [`Stack::new`] and another folder
//! and instance number. Starting is repeatable at any point: what runs as wanted is left alone, what does not is
//! started, what runs from an older program or other settings is restarted.

mod database;
mod host;
mod services;
mod status;

use std::collections::BTreeMap;
use std::fs::File;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use crate::ca::Authority;
use crate::error::{Error, Result};
use crate::health::{Health, Probe};
use crate::lab::{self, Lab};
use crate::part::{Change, Part};
use crate::paths;
use crate::ports::{Instance, Service};
use crate::postgres::{Access, Server};
use crate::process::PidFile;
use crate::redis::Redis;
use crate::registry::{self, Registry};

pub use services::{GATEWAY, Kind, SERVICES, Setting};
pub use status::{Row, table as status_table};

/// Name of the database.
pub const DATABASE: &str = "gpuaas";
/// Region of the lab host.
pub const REGION: &str = "lab-1";

/// What a stack is made of.
#[derive(Debug, Clone)]
pub struct Options {
    /// Folder of everything that the stack keeps.
    pub root: PathBuf,
    /// Decides ports, addresses and interface names.
    pub instance: Instance,
    /// Number of the cell.
    pub cell: u16,
    /// Folders with the programs; the first that has one wins.
    pub programs: Vec<PathBuf>,
    /// Whether there are lab hosts.
    pub lab: bool,
    /// How many lab hosts are started; see [`Stack::lab_hosts`] for those of earlier starts.
    pub hosts: u16,
    /// Slots of each lab host that is made; absent, they are shared out by the machine's memory.
    pub slots: Option<u16>,
    /// Whether the slots of the lab host are approved; else they wait for an operator.
    pub approve: bool,
    /// Collector of traces; empty exports none.
    pub otlp_endpoint: String,
    /// Settings beyond the generated files, `section.key=value`, by part name.
    pub settings: BTreeMap<String, Vec<String>>,
    /// Environment variables of a service, by part name.
    pub environment: BTreeMap<String, Vec<(String, String)>>,
}

impl Options {
    /// The stack of `make up`.
    pub fn main() -> Self {
        Self::beside(paths::run_dir(), Instance::MAIN)
    }

    /// A stack of its own below `root`.
    pub fn beside(root: PathBuf, instance: Instance) -> Self {
        Self {
            root,
            instance,
            cell: 1,
            programs: vec![paths::checkout().join("target/debug")],
            lab: true,
            hosts: 1,
            slots: None,
            approve: true,
            otlp_endpoint: String::new(),
            settings: BTreeMap::new(),
            environment: BTreeMap::new(),
        }
    }
}

/// A stack. Dropping it leaves everything running.
#[derive(Debug)]
pub struct Stack {
    options: Options,
    authority: Authority,
    health: Health,
}

/// Told about every part that was started or restarted.
pub type Progress<'a> = &'a (dyn Fn(&str) + Sync);

impl Stack {
    /// A stack; nothing is started.
    ///
    /// # Errors
    /// A key or folder cannot be made.
    pub fn new(options: Options) -> Result<Self> {
        for folder in ["logs", "pids", "config", "secrets"] {
            paths::ensure_dir(&options.root.join(folder))?;
        }
        let authority = Authority::open(&options.root.join("pki"), options.cell)?;
        let health = Health::new(&authority)?;
        Ok(Self {
            options,
            authority,
            health,
        })
    }

    /// What it is made of.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Its certificates and keys.
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// Probes parts.
    pub fn health(&self) -> &Health {
        &self.health
    }

    /// Keeps a second starter of the same stack out until the value is dropped.
    ///
    /// # Errors
    /// Another one is at work.
    pub fn lock(&self) -> Result<File> {
        let path = self.options.root.join("lock");
        let file = File::create(&path).map_err(Error::file("create", &path))?;
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(_) => Err(Error::other(
                "another command is working on this stack; wait for it to end",
            )),
        }
    }

    /// Starts database, Redis, registry, services and gateway as wanted, and returns once all are ready.
    ///
    /// # Errors
    /// The first part that does not get ready, with the end of its log.
    pub async fn up(&self, progress: Progress<'_>) -> Result<()> {
        for lab in self.labs() {
            lab.network_up()?;
        }
        let all: Vec<Kind> = SERVICES.into_iter().chain([GATEWAY]).collect();
        self.up_with(&all, progress).await
    }

    /// Starts database, Redis, registry and these services alone.
    ///
    /// # Errors
    /// As [`Self::up`].
    pub async fn up_with(&self, kinds: &[Kind], progress: Progress<'_>) -> Result<()> {
        self.engines(progress).await?;
        let mut parts = Vec::new();
        for kind in kinds {
            let part = self.service(*kind, 1)?;
            ensure(&part, progress)?;
            parts.push(part);
        }
        for part in parts {
            part.wait_ready(&self.health).await?;
        }
        Ok(())
    }

    /// Ends everything and gives back loop devices, namespaces and links. The data stays.
    ///
    /// # Errors
    /// A pid file or folder cannot be read.
    pub fn down(&self) -> Result<()> {
        for number in 0..self.lab_hosts() {
            self.lab_numbered(number).down();
        }
        for replica in (1..=crate::ports::REPLICAS).rev() {
            for kind in [GATEWAY].into_iter().chain(SERVICES) {
                self.unconfigured(kind, replica).stop();
            }
        }
        self.registry()?.stop();
        self.push_registry()?.stop();
        self.redis()?.stop();
        self.postgres()?.stop();
        Ok(())
    }

    /// Removes the data of a stack that is down. What was built for all stacks stays.
    ///
    /// # Errors
    /// A folder cannot be removed.
    pub fn purge(&self) -> Result<()> {
        let moved = [
            self.postgres()?.folder().to_path_buf(),
            self.redis()?.folder().to_path_buf(),
        ];
        let hosts = (0..lab::HOSTS).map(Lab::folder_name);
        let hosts = hosts.map(|folder| self.options.root.join(folder));
        let own = [
            "registry", "postgres", "redis", "logs", "pids", "config", "secrets", "tokens", "pki",
            "ssh",
        ];
        let own = own.into_iter().map(|folder| self.options.root.join(folder));
        for folder in own
            .chain(hosts)
            .chain(moved)
            .chain([self.registry()?.folder().to_path_buf()])
        {
            if folder.exists() {
                std::fs::remove_dir_all(&folder).map_err(Error::file("remove", &folder))?;
            }
        }
        Ok(())
    }

    /// The first lab host.
    pub fn lab(&self) -> Lab {
        self.lab_numbered(0)
    }

    /// The lab hosts that are started, in order.
    pub fn labs(&self) -> Vec<Lab> {
        let hosts = if self.options.lab {
            self.options.hosts
        } else {
            0
        };
        (0..hosts).map(|number| self.lab_numbered(number)).collect()
    }

    /// How many lab hosts there are: those that are started, and those that an earlier start has made.
    pub fn lab_hosts(&self) -> u16 {
        if !self.options.lab {
            return 0;
        }
        let is_there = |number: &u16| {
            let folder = Lab::folder_name(*number);
            self.options.root.join(folder).exists()
        };
        let last = (0..lab::HOSTS).rev().find(is_there);
        last.map_or(0, |last| last + 1).max(self.options.hosts)
    }

    /// A lab host, from 0.
    pub fn lab_numbered(&self, number: u16) -> Lab {
        let wanted = self.options.hosts.max(number + 1);
        let shares = || lab::shares(wanted, available_memory_mib())[usize::from(number)];
        let share = || self.options.slots.unwrap_or_else(shares);
        Lab::new(
            &self.options.root,
            self.options.instance,
            self.program("gpuaas-node-agent"),
            number,
            share,
        )
    }

    /// The database server.
    ///
    /// # Errors
    /// Its folder cannot be made.
    pub fn postgres(&self) -> Result<Server> {
        let (log, pid) = self.files("postgres");
        let port = self.options.instance.port(Service::Postgres);
        Server::new(
            &self.options.root.join("postgres"),
            port,
            Access::Durable,
            &log,
            pid,
        )
    }

    /// Redis.
    ///
    /// # Errors
    /// Its folder cannot be made.
    pub fn redis(&self) -> Result<Redis> {
        let (log, pid) = self.files("redis");
        let port = self.options.instance.port(Service::Redis);
        Redis::new(&self.options.root.join("redis"), port, &log, pid)
    }

    /// The registry of guest images, to read; reached by services and hosts at the same address.
    ///
    /// # Errors
    /// Its folder cannot be made.
    pub fn registry(&self) -> Result<Registry> {
        let (log, pid) = self.files("registry");
        let address = match self.options.lab {
            true => self.lab().machine_address(),
            false => IpAddr::from([127, 0, 0, 1]),
        };
        let port = self.options.instance.port(Service::Registry);
        let folder = self.options.root.join("registry");
        let access = registry::Access::ReadOnly;
        Registry::new(&folder, address, port, &self.authority, access, &log, pid)
    }

    /// Where guest images are pushed: the same blobs, on loopback, for who knows the password.
    ///
    /// # Errors
    /// Its folder cannot be made.
    pub fn push_registry(&self) -> Result<Registry> {
        let (log, pid) = self.files("registry-push");
        let address = IpAddr::from([127, 0, 0, 1]);
        let port = self.options.instance.port(Service::RegistryPush);
        let folder = self.options.root.join("registry");
        let access = registry::Access::Pusher(self.push_password());
        Registry::new(&folder, address, port, &self.authority, access, &log, pid)
    }

    /// File with the password of who may push guest images.
    pub fn push_password(&self) -> PathBuf {
        self.options.root.join("secrets/registry-push.password")
    }

    /// A replica of a service, with its settings file written. Replica 1 is what [`Self::up`] starts.
    ///
    /// # Errors
    /// The settings cannot be written.
    pub fn service(&self, kind: Kind, replica: u16) -> Result<Part> {
        let redis = self.redis()?;
        let secrets = self.options.root.join("secrets");
        let setting = self.setting(&secrets, redis.url_file())?;
        let file = self.config_file(&replica_name(kind, replica));
        paths::write_with_mode(&file, setting.file(kind, replica)?.as_bytes(), 0o644)?;
        let mut part = self
            .unconfigured(kind, replica)
            .arg("--config")
            .arg(&file)
            .reads(&file);
        part = part.reads(&self.authority.certificate_of(kind.name));
        for set in self.options.settings.get(kind.name).into_iter().flatten() {
            part = part.arg("--set").arg(set);
        }
        for (name, value) in self
            .options
            .environment
            .get(kind.name)
            .into_iter()
            .flatten()
        {
            part = part.env(name, value);
        }
        Ok(part)
    }

    /// Base URL of the JSON API.
    pub fn api_url(&self) -> String {
        format!("http://{}", GATEWAY.address(self.options.instance, 1))
    }

    /// Address of the console, with the code that signs in at the embedded issuer; nothing before the gateway's first
    /// start.
    pub fn sign_in_link(&self) -> Option<String> {
        let code = self.options.root.join("pki/dev-issuer.sign-in");
        let code = std::fs::read_to_string(code).ok()?;
        Some(format!("{}/#sign-in={}", self.api_url(), code.trim()))
    }

    /// Path of a program of this stack.
    pub fn program(&self, name: &str) -> PathBuf {
        let mut places = self.options.programs.iter().map(|folder| folder.join(name));
        let first = places.next().unwrap_or_else(|| PathBuf::from(name));
        if first.exists() {
            return first;
        }
        places.find(|place| place.exists()).unwrap_or(first)
    }

    /// Settings file of a part.
    pub fn config_file(&self, name: &str) -> PathBuf {
        self.options
            .root
            .join("config")
            .join(format!("{name}.toml"))
    }

    async fn engines(&self, progress: Progress<'_>) -> Result<()> {
        let (postgres, redis) = (self.postgres()?, self.redis()?);
        let (registry, pushes) = (self.registry()?, self.push_registry()?);
        for (name, running) in [
            ("postgres", postgres.running()),
            ("redis", redis.running()),
            ("registry", registry.running()),
            ("registry-push", pushes.running()),
        ] {
            if running.is_none() {
                progress(&format!("{name} started"));
            }
        }
        // both wait on threads of their own while the database comes up
        let others = tokio::task::spawn_blocking(move || {
            redis.start()?;
            registry.start()?;
            pushes.start()
        });
        postgres.start().await?;
        database::prepare(&postgres, &self.options.root.join("secrets")).await?;
        others
            .await
            .map_err(|error| Error::other(error.to_string()))??;
        Ok(())
    }

    fn setting<'a>(&'a self, secrets: &'a Path, redis_url_file: PathBuf) -> Result<Setting<'a>> {
        Ok(Setting {
            cell: self.options.cell,
            instance: self.options.instance,
            authority: &self.authority,
            database_port: self.options.instance.port(Service::Postgres),
            secrets,
            redis_url_file,
            host_facing: match self.options.lab {
                true => Some(self.lab().machine_address()),
                false => None,
            },
            registry: self.registry()?.host(),
            otlp_endpoint: &self.options.otlp_endpoint,
        })
    }

    fn unconfigured(&self, kind: Kind, replica: u16) -> Part {
        let address = kind.address(self.options.instance, replica);
        let probe = if kind == GATEWAY {
            Probe::Http {
                url: format!("http://{address}/readyz"),
            }
        } else {
            Probe::Grpc {
                address,
                name: format!("{}.gpuaas.internal", kind.name),
            }
        };
        let program = self.program(&format!("gpuaas-{}", kind.name));
        Part::new(
            &self.options.root,
            &replica_name(kind, replica),
            program,
            probe,
        )
    }

    fn files(&self, name: &str) -> (PathBuf, PidFile) {
        let root = &self.options.root;
        (
            root.join("logs").join(format!("{name}.log")),
            PidFile::new(root.join("pids").join(format!("{name}.pid"))),
        )
    }
}

/// Starts a part unless it runs as wanted, and tells what was done.
fn ensure(part: &Part, progress: Progress<'_>) -> Result<()> {
    match part.ensure()? {
        Change::Unchanged => {}
        Change::Started => progress(&format!("{} started", part.name)),
        Change::Restarted => progress(&format!(
            "{} restarted: its program or settings changed",
            part.name
        )),
    }
    Ok(())
}

/// What the machine has left for VMs; without limit when it does not say.
fn available_memory_mib() -> u64 {
    let read = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = read
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.map_or(u64::MAX, |kib| kib / 1024)
}

fn replica_name(kind: Kind, replica: u16) -> String {
    match replica {
        1 => kind.name.to_owned(),
        other => format!("{}-{other}", kind.name),
    }
}
