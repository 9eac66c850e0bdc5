//! The commands of host preparation: flags, the plan that is printed or applied, and what they print.
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::builder::BoolishValueParser;
use clap::{Args, Subcommand, ValueEnum};
use serde::Serialize;
use serde_json::json;

use super::host_settings::HostSettings;
use super::mode::Modes;
use super::{Machine, Plan, Step, apply, bootstrap, network, removal, runtime, storage, systemd};
use crate::binding;
use crate::checks::NodeMode;
use crate::error::HostResult;
use crate::host::root::HostRoot;

/// Where the agent's settings are on a host that was set up by its package.
pub const SETTINGS_FILE: &str = "/etc/gpuaas/node-agent.toml";

/// How a command answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A line per step, for people and programs.
    Text,
    /// One object.
    Json,
}

/// What a host is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    Slice,
    Baremetal,
}

/// Flags of every command.
#[derive(Debug, Clone, Args)]
pub struct Common {
    /// Print the plan and change nothing; ends with status 1 when something is refused.
    #[arg(long)]
    pub dry_run: bool,
    /// How to answer.
    #[arg(long, value_enum, default_value = "text")]
    pub output: Format,
    /// What the host is for; without it the agent's settings and the platform say so.
    #[arg(long, value_enum, env = "GPUAAS_SLICE_HOST_MODE")]
    pub mode: Option<Mode>,
    /// Read and write the host's files below this folder.
    #[arg(long, value_name = "FOLDER", default_value = "/")]
    pub root: PathBuf,
    /// Find programs in these folders, as in PATH. Without it none is run for another root than /.
    #[arg(long, value_name = "PATH", hide = true)]
    pub programs: Option<OsString>,
}

impl Common {
    /// The host.
    pub fn machine(&self) -> Machine {
        Machine::new(HostRoot::new(&self.root), self.programs.clone())
    }

    /// What is said of the host's mode.
    pub fn modes(&self, machine: &Machine, settings: &HostSettings) -> Modes {
        let flag = self.mode.map(|mode| match mode {
            Mode::Slice => NodeMode::Slice,
            Mode::Baremetal => NodeMode::Baremetal,
        });
        Modes::of(&machine.root, &settings.state_dir, flag, settings.mode)
    }
}

/// Flags of services.
#[derive(Debug, Clone, Args)]
pub struct BaselineFlags {
    #[command(flatten)]
    common: Common,
    /// The bridge alone.
    #[arg(long)]
    bridge_only: bool,
    /// Enable and restart services; 0 in a unit, which must not (INC-02).
    #[arg(long, env = "GPUAAS_SLICE_MANAGE_SYSTEMD", value_parser = BoolishValueParser::new(), default_value = "1", action = clap::ArgAction::Set)]
    manage_systemd: bool,
    /// The tuning profile of the host's network.
    #[arg(long, env = "GPUAAS_SLICE_NETWORK_TUNING", value_parser = BoolishValueParser::new(), default_value = "0", default_missing_value = "1", num_args = 0..=1, action = clap::ArgAction::Set)]
    network_tuning: bool,
}

/// Flags of the bootstrap.
#[derive(Debug, Clone, Args)]
pub struct BootstrapFlags {
    #[command(flatten)]
    common: Common,
    /// Install packages; 0 where the image has them.
    #[arg(long, env = "GPUAAS_SLICE_INSTALL_PACKAGES", value_parser = BoolishValueParser::new(), default_value = "1", action = clap::ArgAction::Set)]
    install_packages: bool,
    /// Reserve so many hugepages of 1 GiB at boot.
    #[arg(long, value_name = "COUNT", env = "GPUAAS_SLICE_HUGEPAGES_1G", default_value = "0", value_parser = clap::value_parser!(u32).range(..=65536))]
    hugepages_1g: u32,
    /// The tuning profile of the host's network.
    #[arg(long, env = "GPUAAS_SLICE_NETWORK_TUNING", value_parser = BoolishValueParser::new(), default_value = "0", default_missing_value = "1", num_args = 0..=1, action = clap::ArgAction::Set)]
    network_tuning: bool,
    /// Keep LVM and mdadm from the disks of slots, in slice mode; 0 where the site does.
    #[arg(long, env = "GPUAAS_SLICE_LIMIT_DISK_ASSEMBLY", value_parser = BoolishValueParser::new(), default_value = "1", action = clap::ArgAction::Set)]
    limit_disk_assembly: bool,
    /// Restart the host where kernel arguments changed.
    #[arg(long, env = "GPUAAS_SLICE_REBOOT_IF_REQUIRED", value_parser = BoolishValueParser::new(), default_value = "0", default_missing_value = "1", num_args = 0..=1, action = clap::ArgAction::Set)]
    reboot_if_required: bool,
}

/// Flags of the storage transition.
#[derive(Debug, Clone, Args)]
pub struct StorageFlags {
    #[command(flatten)]
    common: Common,
    /// Change the host; without it the plan is printed.
    #[arg(long, conflicts_with = "dry_run")]
    apply: bool,
    /// Disks, by stable link or kernel path; all of the profile when none is named.
    #[arg(long, value_name = "DISK,DISK…", value_delimiter = ',')]
    devices: Vec<String>,
    /// The approved storage profile.
    #[arg(long, value_name = "FILE", default_value = storage::DEFAULT_PROFILE)]
    profile: PathBuf,
}

/// The commands.
#[derive(Debug, Clone, Subcommand)]
pub enum HostCommand {
    /// Make an installed Ubuntu capable of slices: packages, kernel arguments, modules, libvirt, units, the network of the fabric, LVM and mdadm.
    DeployBootstrap(BootstrapFlags),
    /// Set up the guests' network: bridge, address, dnsmasq, NAT, forwarding, the link to a BlueField card.
    NetBaseline(BaselineFlags),
    /// Prepare the runtime in slice mode: GPU services, libvirt's folder, stale reservations.
    RuntimePrepare(Common),
    /// Take approved NVMe disks over into slices; erases them.
    StorageTransition(StorageFlags),
    /// Bind the devices of approved slots to VFIO, in slice mode.
    BindDevices(Common),
    /// Make the virtual functions of approved slots, in slice mode.
    FabricVfs(Common),
    /// Whether the package may be removed: no VM of the platform is on this host. The package asks before it goes.
    RemovalCheck(Common),
}

impl HostCommand {
    /// The flags that every command has.
    pub fn common(&self) -> &Common {
        match self {
            Self::DeployBootstrap(flags) => &flags.common,
            Self::NetBaseline(flags) => &flags.common,
            Self::StorageTransition(flags) => &flags.common,
            Self::RuntimePrepare(common)
            | Self::BindDevices(common)
            | Self::FabricVfs(common)
            | Self::RemovalCheck(common) => common,
        }
    }

    /// Runs it. The status is 1 when something is refused or fails.
    ///
    /// # Errors
    /// What must be known of the host cannot be observed.
    pub async fn run(&self, settings: &HostSettings) -> anyhow::Result<ExitCode> {
        let common = self.common();
        let machine = common.machine();
        let modes = common.modes(&machine, settings);
        let stamp = jiff::Timestamp::now().strftime("%Y%m%d%H%M%S").to_string();
        let mut out = Outcome::new(common);
        match self {
            Self::DeployBootstrap(flags) => {
                let options = bootstrap::Options {
                    packages: flags.install_packages,
                    hugepages: flags.hugepages_1g,
                    tuning: flags.network_tuning,
                    limit_disk_assembly: flags.limit_disk_assembly,
                    reboot_if_required: flags.reboot_if_required,
                };
                let plan = bootstrap::plan(&machine, settings, modes, options, &stamp).await?;
                out.go(&machine, plan).await;
                out.facts = bootstrap::validation(&machine).await;
            }
            Self::NetBaseline(flags) => {
                let scope = network::Scope {
                    bridge_only: flags.bridge_only,
                    manage_systemd: flags.manage_systemd,
                    tuning: flags.network_tuning,
                };
                let plan =
                    network::plan(&machine, &settings.network, &settings.dhcp, scope).await?;
                out.go(&machine, plan).await;
                if flags.manage_systemd {
                    let names = [
                        "openvswitch-switch",
                        "dnsmasq",
                        "rshim",
                        "gpuaas-slice-network-baseline",
                    ];
                    out.facts = systemd::states(&machine, &names).await;
                }
            }
            Self::RuntimePrepare(_) => {
                let plan = runtime::plan(&machine, modes, settings);
                out.go(&machine, plan.await?).await;
            }
            Self::StorageTransition(flags) => {
                let request = storage::Request {
                    devices: flags.devices.clone(),
                    profile: flags.profile.clone(),
                };
                out.dry_run = !flags.apply;
                self::transition(&machine, &request, modes, settings, &stamp, &mut out).await?;
            }
            Self::BindDevices(_) => {
                let (state, fabric) = (&settings.state_dir, &settings.gpu_fabric);
                let work = binding::devices::plan(&machine, modes, state, fabric)?;
                out.begin(&work.plan());
                if !out.dry_run {
                    let failed = binding::devices::apply(&machine, &work);
                    out.devices(&failed);
                }
            }
            Self::FabricVfs(_) => self::functions(&machine, modes, settings, &mut out).await?,
            Self::RemovalCheck(_) => {
                out.begin(&removal::plan(&machine, &settings.state_dir).await?);
            }
        }
        Ok(out.end())
    }
}

/// Makes the functions of every card that can have them, and names the others in the end.
async fn functions(
    machine: &Machine,
    modes: Modes,
    settings: &HostSettings,
    out: &mut Outcome,
) -> HostResult<()> {
    let mut bad = BTreeSet::new();
    // the functions' own attributes are there only once the functions are
    for _ in 0..2 {
        let state = &settings.state_dir;
        let work = binding::functions::plan(machine, modes, state, &settings.fabric)?;
        let work = work.without(&bad);
        let plan = work.plan();
        out.begin(&plan);
        bad.extend(work.refused());
        if out.dry_run || plan.steps.is_empty() {
            break;
        }
        let failed = binding::functions::apply(machine, &work, |step, done| {
            out.reported(&plan.command, step, done);
        });
        bad.extend(failed.await);
    }
    if !bad.is_empty() {
        out.failed = true;
        let names: Vec<String> = bad.iter().map(ToString::to_string).collect();
        out.facts = vec![("failed_devices".to_owned(), names.join(","))];
    }
    Ok(())
}

async fn transition(
    machine: &Machine,
    request: &storage::Request,
    modes: Modes,
    settings: &HostSettings,
    stamp: &str,
    out: &mut Outcome,
) -> HostResult<()> {
    let found = storage::plan(machine, request, modes, &settings.state_dir, stamp).await?;
    out.disks(&found.disks);
    let is_recorded = found.plan.refusals.is_empty() && !found.plan.steps.is_empty();
    out.go(machine, found.plan).await;
    let done = out.done.clone();
    if is_recorded && !out.dry_run {
        storage::conclude(machine, &found.manifest, &done)?;
        let path = found.manifest.display().to_string();
        out.facts = vec![("storage_transition_manifest".to_owned(), path)];
        if done.is_ok() {
            for key in ["storage_ownership", "storage_mode"] {
                out.facts.push((key.to_owned(), "slice".to_owned()));
            }
        }
    }
    Ok(())
}

/// What a command prints, as it goes or as one object in the end.
struct Outcome {
    format: Format,
    dry_run: bool,
    failed: bool,
    /// How the last plan that was applied ended.
    done: HostResult<()>,
    facts: Vec<(String, String)>,
    disks: Vec<storage::Disk>,
    plans: Vec<Plan>,
    applied: Vec<serde_json::Value>,
}

impl Outcome {
    fn new(common: &Common) -> Self {
        Self {
            format: common.output,
            dry_run: common.dry_run,
            failed: false,
            done: Ok(()),
            facts: Vec::new(),
            disks: Vec::new(),
            plans: Vec::new(),
            applied: Vec::new(),
        }
    }

    fn disks(&mut self, disks: &[storage::Disk]) {
        if self.format == Format::Text {
            print!("{}", storage::lines(disks));
        }
        self.disks = disks.to_vec();
    }

    /// Prints a plan, and notes whether it is refused.
    fn begin(&mut self, plan: &Plan) {
        if self.format == Format::Text {
            print!("{}", plan.text());
        }
        self.failed |= !plan.refusals.is_empty();
        self.plans.push(plan.clone());
    }

    /// Prints a plan, and applies it unless it is refused or a dry run.
    async fn go(&mut self, machine: &Machine, plan: Plan) {
        self.begin(&plan);
        if self.dry_run || self.failed {
            return;
        }
        let reported =
            |step: &Step, done: &HostResult<()>| self.reported(&plan.command, step, done);
        let done = apply::apply(machine, &plan.steps, reported).await;
        self.failed |= done.is_err();
        self.done = done;
    }

    fn reported(&mut self, command: &str, step: &Step, done: &HostResult<()>) {
        if self.format == Format::Text {
            println!("{}", apply::line(command, step, done));
        }
        self.applied.push(json!({
            "step": step,
            "error": done.as_ref().err().map(ToString::to_string),
        }));
    }

    fn devices(&mut self, outcomes: &[binding::devices::Outcome]) {
        for one in outcomes {
            self.failed |= one.error.is_some();
            if self.format == Format::Text {
                println!("{one}");
            }
            self.applied.push(json!(one));
        }
    }

    fn end(self) -> ExitCode {
        #[derive(Serialize)]
        struct Whole {
            dry_run: bool,
            failed: bool,
            plans: Vec<Plan>,
            disks: Vec<storage::Disk>,
            applied: Vec<serde_json::Value>,
            facts: std::collections::BTreeMap<String, String>,
        }
        let code = u8::from(self.failed);
        if self.format == Format::Text {
            for (key, value) in &self.facts {
                println!("{key}={value}");
            }
        } else {
            let whole = Whole {
                dry_run: self.dry_run,
                failed: self.failed,
                plans: self.plans,
                disks: self.disks,
                applied: self.applied,
                facts: self.facts.into_iter().collect(),
            };
            println!("{}", json!(whole));
        }
        ExitCode::from(code)
    }
}

/// The configuration files of a command: those that are named, else the package's where it is there.
pub fn files(named: &[PathBuf], root: &Path) -> Vec<PathBuf> {
    let own = HostRoot::new(root).path(SETTINGS_FILE);
    match named.is_empty() && own.exists() {
        true => vec![own],
        false => named.to_vec(),
    }
}
