//! The command line.
use std::path::PathBuf;

use clap::{Parser, Subcommand};

use crate::commands::{
    activity, admin, api, api_keys, catalog, certificate, context, cp, explain, grants,
    health_events, ingress, launch, list, login, logs, members, metrics, network, organisations,
    port_forward, power, projects, quotas, release, rename, reservations, service_accounts, show,
    ssh, ssh_keys, terminal, terminal_sessions, tunnel, update, usage, wait, watch, webhooks,
};
use crate::global::Global;

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
4 refused, 5 the API or the identity provider is unreachable or busy.";

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Sign in with your identity provider.
    Login(login::Flags),
    /// Sign out, here and at the identity provider.
    Logout,
    /// Show who you are signed in as, with roles and projects.
    Whoami,
    /// The APIs that you are signed in to.
    #[command(subcommand)]
    Context(context::Command),
    /// Launch an allocation.
    Launch(launch::Flags),
    /// List your allocations, newest first.
    List(list::Flags),
    /// Show an allocation with its state, address, cost and timeline.
    Show(show::Flags),
    /// Watch changes of your allocations, or of one with its timeline.
    Watch(watch::Flags),
    /// Wait until an allocation is active, stopped, released or in another state, with its progress.
    Wait(wait::Flags),
    /// Log in to an allocation, or run a command on it.
    Ssh(ssh::Flags),
    /// Open a terminal to an allocation, without an SSH key.
    Terminal(terminal::Flags),
    /// Terminal sessions of an allocation, and their recordings.
    #[command(subcommand)]
    TerminalSession(terminal_sessions::Command),
    /// Connect standard input and output to the SSH server of an allocation, through the platform: a ProxyCommand of ssh.
    Tunnel(tunnel::Flags),
    /// Show the serial log of an allocation, also after its VM is deleted.
    Logs(logs::Flags),
    /// Show the resource use of the VM of an allocation: CPU, memory, network, disk and GPUs.
    Metrics(metrics::Flags),
    /// Copy files to or from an allocation with scp.
    Cp(cp::Flags),
    /// Forward a local port to a port of an allocation over SSH, through the platform, until it is interrupted.
    #[command(name = "port-forward")]
    PortForward(port_forward::Flags),
    /// Stop the VM of an allocation. It keeps its disk, address and GPUs; billing continues.
    Stop(power::Forced),
    /// Start the VM of a stopped allocation.
    Start(power::Flags),
    /// Reboot the VM of an allocation.
    Reboot(power::Forced),
    /// Start the VM from a rescue image, with its own disks attached and unchanged. Billing continues.
    Rescue(power::Rescue),
    /// End the rescue: start the VM from its own disk again.
    Unrescue(power::Forced),
    /// Release an allocation. Billing stops, the VM is deleted and its disk is wiped.
    Release(release::Flags),
    /// Change the display name of an allocation. The hostname does not change.
    Rename(rename::Flags),
    /// Protect an allocation from release, or schedule its release.
    Update(update::Flags),
    /// Show the wipe certificates of a released allocation, and save them.
    Certificate(certificate::Flags),
    /// SSH keys, stored by name.
    #[command(subcommand)]
    SshKey(ssh_keys::Command),
    /// Your projects.
    #[command(subcommand)]
    Project(projects::Command),
    /// Members of a project or an organisation, and invitations.
    #[command(subcommand)]
    Member(members::Command),
    /// Grants: access of a member to one allocation, independent of the role.
    #[command(subcommand)]
    Grant(grants::Command),
    /// Your organisations.
    #[command(subcommand)]
    Organisation(organisations::Command),
    /// Service accounts of a project: programs that call the API with keys.
    #[command(subcommand)]
    ServiceAccount(service_accounts::Command),
    /// API keys of service accounts.
    #[command(subcommand)]
    ApiKey(api_keys::Command),
    /// Webhooks: deliver events to an HTTPS endpoint.
    #[command(subcommand)]
    Webhook(webhooks::Command),
    /// Show who did what in a project, newest first.
    Activity(activity::Flags),
    /// GPU faults of your allocations, and work on their broken hosts (break-fix).
    #[command(subcommand)]
    HealthEvent(health_events::Command),
    /// Show usage and cost.
    Usage(usage::Flags),
    /// Show the quotas of your project and their use.
    Quota(quotas::Flags),
    /// Ingress ports: ports of a VM that are exposed to the outside.
    #[command(subcommand)]
    Ingress(ingress::Command),
    /// Show or change whether VMs of your project can connect to each other.
    Network(network::Flags),
    /// SKUs: what can be launched.
    #[command(subcommand)]
    Sku(catalog::SkuCommand),
    /// Images for VMs.
    #[command(subcommand)]
    Image(catalog::ImageCommand),
    /// Regions.
    #[command(subcommand)]
    Region(catalog::RegionCommand),
    /// Show how many launches fit now, and why no more fit.
    Availability(catalog::AvailabilityFlags),
    /// Explain on how many nodes a launch fits now, and why it does not fit on other nodes.
    Explain(explain::Flags),
    /// Capacity reservations of your project.
    #[command(subcommand)]
    Reservation(reservations::Command),
    /// Set up and operate the platform (administrators).
    #[command(subcommand)]
    Admin(admin::Command),
    /// Call a method of the HTTP API with your token, and print its answer.
    Api(api::Flags),
    /// Print the completion script of a shell.
    Completion {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Print the manual page, or write one page per command into a folder.
    Man {
        /// Folder for the pages; it must exist.
        #[arg(long, value_name = "FOLDER")]
        folder: Option<PathBuf>,
    },
}

impl Command {
    /// Whether an administrator's token is needed.
    pub fn is_admin(&self) -> bool {
        match self {
            Self::Admin(_) => true,
            Self::Api(flags) => flags.is_admin(),
            _ => false,
        }
    }
}
