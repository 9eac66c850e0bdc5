//! `admin`: commands of administrators.
mod agent_rollout;
pub mod allocation;
pub mod audit;
mod capacity;
mod catalog;
pub mod certificate;
mod comparison;
mod describe;
mod devices;
mod fleet;
mod host_report;
pub mod lifecycle;
pub mod node;
pub mod node_health;
mod nodes;
mod organisations;
pub mod placement;
mod plans;
mod principals;
mod projects;
mod queue;
mod quota;
mod reservations;
mod scim;
mod slots;
mod tenants;
pub mod trail;
mod usage;

use super::terminal_sessions;
use crate::failure::Failure;
use crate::session::Session;
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Regions.
    #[command(subcommand)]
    Region(catalog::Region),
    /// SKUs.
    #[command(subcommand)]
    Sku(catalog::Sku),
    /// Quotas of projects.
    #[command(subcommand)]
    Quota(quota::Command),
    /// Prices.
    #[command(subcommand)]
    Price(catalog::Price),
    /// Images.
    #[command(subcommand)]
    Image(catalog::Image),
    /// Nodes.
    #[command(subcommand)]
    Node(node::Command),
    /// Rollouts of the node agent, wave by wave.
    #[command(subcommand)]
    AgentRollout(agent_rollout::Command),
    /// The fleet record: health and use of nodes and GPUs, and their projects.
    #[command(subcommand)]
    Fleet(fleet::Command),
    /// Slots of a node.
    #[command(subcommand)]
    Slot(slots::Command),
    /// Show used and free capacity over time.
    Capacity(capacity::Flags),
    /// Find the fewest moves that let more launches of a size fit. A simulation; nothing is moved.
    Defragmentation(plans::Defragmentation),
    /// Show the nodes that are free for bare metal, and the moves that would free more. A simulation; nothing is moved.
    BareMetalCapacity(plans::Preservation),
    /// Explain for each node whether a launch fits on it.
    Explain(super::explain::Flags),
    /// Allocations of all projects, with their node, claims and tasks.
    #[command(subcommand)]
    Allocation(allocation::Command),
    /// Queued launch requests.
    #[command(subcommand)]
    Queue(queue::Command),
    /// Capacity reservations of all projects.
    #[command(subcommand)]
    Reservation(reservations::Command),
    /// Wipe certificates of slots' disks.
    #[command(subcommand)]
    Certificate(certificate::Command),
    /// Principals (people and programs), and their roles on the platform.
    #[command(subcommand)]
    Principal(principals::Command),
    /// Organisations of the platform.
    #[command(subcommand)]
    Organisation(organisations::Command),
    /// Projects of all organisations.
    #[command(subcommand)]
    Project(projects::Command),
    /// Usage of projects, also of closed ones.
    #[command(subcommand)]
    Usage(usage::Command),
    /// SCIM users and groups of organisations.
    #[command(subcommand)]
    Scim(scim::Command),
    /// Terminal sessions of all projects.
    #[command(subcommand)]
    TerminalSession(terminal_sessions::AdminCommand),
    /// The audit trail, and audits of the ledger.
    #[command(subcommand)]
    Audit(audit::Command),
}

/// Runs it.
///
/// # Errors
/// See [`Failure`].
pub async fn run(session: &Session, command: Command) -> Result<(), Failure> {
    match command {
        Command::Region(command) => catalog::region(session, command).await,
        Command::Sku(command) => catalog::sku(session, command).await,
        Command::Quota(command) => quota::run(session, command).await,
        Command::Price(command) => catalog::price(session, command).await,
        Command::Image(command) => catalog::image(session, command).await,
        Command::Explain(flags) => placement::explain(session, flags).await,
        Command::Capacity(flags) => capacity::run(session, flags).await,
        Command::Defragmentation(flags) => plans::defragmentation(session, flags).await,
        Command::BareMetalCapacity(flags) => plans::preservation(session, flags).await,
        Command::Node(command) => node::run(session, command).await,
        Command::AgentRollout(command) => agent_rollout::run(session, command).await,
        Command::Fleet(command) => fleet::run(session, command).await,
        Command::Slot(command) => slots::run(session, command).await,
        Command::Allocation(command) => allocation::run(session, command).await,
        Command::Queue(command) => queue::run(session, command).await,
        Command::Reservation(command) => reservations::run(session, command).await,
        Command::Certificate(command) => certificate::run(session, command).await,
        Command::Principal(command) => principals::run(session, command).await,
        Command::Organisation(command) => organisations::run(session, command).await,
        Command::Project(command) => projects::run(session, command).await,
        Command::Usage(command) => usage::run(session, command).await,
        Command::Scim(command) => scim::run(session, command).await,
        Command::TerminalSession(command) => terminal_sessions::admin(session, command).await,
        Command::Audit(command) => audit::run(session, command).await,
    }
}
