//! The command line.
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::commands::{
    admin, catalog, explain, hosts, launch, list, network, power, quotas, release, reservations,
    show, ssh, terminal, usage, watch,
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
4 refused, 5 the API is unreachable or busy.";

/// Flags of every command.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Global options")]
pub struct Global {
    /// Address of the API, for example https://api.example.com.
    #[arg(long, env = "GPUAAS_API", value_name = "URL", global = true)]
    pub api: Option<String>,
    /// File with the token.
    #[arg(long, env = "GPUAAS_TOKEN_FILE", value_name = "FILE", global = true)]
    pub token_file: Option<PathBuf>,
    /// Profile with the API address and token files [default: ~/.config/gpuaas/profile.toml].
    #[arg(long, env = "GPUAAS_PROFILE_FILE", value_name = "FILE", global = true)]
    pub profile_file: Option<PathBuf>,
    /// Output format.
    #[arg(long, value_enum, default_value_t = Format::Table, global = true)]
    pub output: Format,
    /// Idempotency key of this change, to repeat it safely from a script [default: a new key per command].
    #[arg(long, value_name = "KEY", global = true)]
    pub idempotency_key: Option<String>,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Launch an allocation.
    Launch(launch::Flags),
    /// List your allocations, newest first.
    List(list::Flags),
    /// Show an allocation with its state, address, cost and timeline.
    Show(show::Flags),
    /// Watch changes of your allocations, or of one with its timeline.
    Watch(watch::Flags),
    /// Log in to an allocation, or run a command on it.
    Ssh(ssh::Flags),
    /// Open a terminal to an allocation, without an SSH key.
    Terminal(terminal::Flags),
    /// Stop the VM of an allocation. It keeps its disk, address and GPUs; billing continues.
    Stop(power::Flags),
    /// Start the VM of a stopped allocation.
    Start(power::Flags),
    /// Reboot the VM of an allocation.
    Reboot(power::Flags),
    /// Release an allocation. Billing stops, the VM is deleted and its disk is wiped.
    Release(release::Flags),
    /// Show usage and cost.
    Usage(usage::Flags),
    /// Show the quotas of your project and their use.
    Quota(quotas::Flags),
    /// Show or change whether the VMs of your project reach each other.
    Network(network::Flags),
    /// List the SKUs.
    Skus,
    /// List the images.
    Images(catalog::ImageFlags),
    /// List the regions.
    Regions,
    /// Show how many launches fit now, and the unschedulable reasons.
    Availability(catalog::AvailabilityFlags),
    /// Explain on how many nodes a launch fits now, and why not on the others.
    Explain(explain::Flags),
    /// Capacity reservations of your project.
    #[command(subcommand)]
    Reservations(reservations::Command),
    /// List the nodes with their health, and find them (administrators).
    Nodes(hosts::NodeFlags),
    /// List the slots of a node (administrators).
    Slots(hosts::SlotFlags),
    /// Set up and operate the platform (administrators).
    #[command(subcommand)]
    Admin(admin::Command),
}

impl Command {
    /// Whether an administrator's token is needed.
    pub fn is_admin(&self) -> bool {
        matches!(self, Self::Nodes(_) | Self::Slots(_) | Self::Admin(_))
    }
}
