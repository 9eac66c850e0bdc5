//! The command line.
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::commands::{
    admin, explain, launch, power, release, reservations, show, ssh, terminal, watch,
};
use crate::output::Format;

/// Launch, use and release GPU capacity.
#[derive(Debug, Parser)]
#[command(name = "gpuaas", version, after_help = EXIT_CODES)]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

const EXIT_CODES: &str = "Exit codes: 0 success, 1 anything else, 2 wrong usage or a malformed value, 3 not found, \
4 refused, 5 the platform cannot be reached or is busy.";

/// Flags of every command.
#[derive(Clone, Debug, Args)]
pub struct Global {
    /// Address of the API, for example https://api.example.com.
    #[arg(long, env = "GPUAAS_API", value_name = "URL", global = true)]
    pub api: Option<String>,
    /// File with the token.
    #[arg(long, env = "GPUAAS_TOKEN_FILE", value_name = "FILE", global = true)]
    pub token_file: Option<PathBuf>,
    /// File that names API and tokens [default: ~/.config/gpuaas/profile.toml].
    #[arg(long, env = "GPUAAS_PROFILE_FILE", value_name = "FILE", global = true)]
    pub profile_file: Option<PathBuf>,
    /// How answers are printed.
    #[arg(long, value_enum, default_value_t = Format::Table, global = true)]
    pub output: Format,
    /// Name this change yourself, to repeat it safely from a script [default: a new name per command].
    #[arg(long, value_name = "KEY", global = true)]
    pub idempotency_key: Option<String>,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Launch an allocation.
    Launch(launch::Flags),
    /// List your allocations, newest first.
    List {
        /// Also those that are released or failed.
        #[arg(long)]
        all: bool,
        /// Only this project.
        #[arg(long, value_name = "ID")]
        project: Option<String>,
    },
    /// Show an allocation: state, address, cost so far, timeline.
    Show(show::Flags),
    /// Show changes of your allocations, or of one with its timeline, as they happen.
    Watch(watch::Flags),
    /// Log in to an allocation, or run a command there.
    Ssh(ssh::Flags),
    /// Open a shell in an allocation through the platform, without an SSH key.
    Terminal(terminal::Flags),
    /// Shut the VM of an allocation down; disk, address and GPUs are kept, and billing goes on.
    Stop(power::Flags),
    /// Start the VM of a stopped allocation.
    Start(power::Flags),
    /// Shut the VM of an allocation down and start it again.
    Reboot(power::Flags),
    /// Release an allocation: billing stops, the VM goes, its disk is wiped.
    Release(release::Flags),
    /// Show what was used and what it costs.
    Usage {
        /// Only this allocation.
        #[arg(long, value_name = "ID")]
        allocation: Option<String>,
        /// Only this project.
        #[arg(long, value_name = "ID")]
        project: Option<String>,
    },
    /// Show how much your project may hold, and holds.
    Quota {
        /// The project [default: your only one].
        #[arg(long, value_name = "ID")]
        project: Option<String>,
    },
    /// List what is sold.
    Skus,
    /// List the images an allocation can boot.
    Images {
        /// Only images that this SKU can run.
        #[arg(long)]
        sku: Option<String>,
    },
    /// List the regions.
    Regions,
    /// Show how much could be launched now, and why not more.
    Availability {
        /// Only this region.
        #[arg(long)]
        region: Option<String>,
        /// Only this SKU.
        #[arg(long)]
        sku: Option<String>,
        /// For this project, with what is reserved for it [default: your only one].
        #[arg(long, value_name = "ID")]
        project: Option<String>,
    },
    /// Explain where a launch would fit now, and what removes the other nodes.
    Explain(explain::Flags),
    /// Capacity that is kept for your project.
    #[command(subcommand)]
    Reservations(reservations::Command),
    /// List the nodes (administrators).
    Nodes,
    /// List the slots of a node (administrators).
    Slots {
        /// Id, unique beginning of it, or hostname.
        node: String,
    },
    /// Set up and operate the platform (administrators).
    #[command(subcommand)]
    Admin(admin::Command),
}

impl Command {
    /// Whether an administrator's token is needed.
    pub fn is_admin(&self) -> bool {
        matches!(self, Self::Nodes | Self::Slots { .. } | Self::Admin(_))
    }
}
