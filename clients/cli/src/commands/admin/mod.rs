//! `admin`: what an administrator sets up and operates.
mod audit;
mod capacity;
mod catalog;
mod node;
pub mod placement;
mod plans;
mod queue;
mod quota;
mod reservations;
mod slots;

use serde_json::Value;

use super::Session;
use crate::failure::Failure;
use crate::output::print_json;

/// The help of an argument that is a project: the API has no list of them to find its id in.
const PROJECT_HELP: &str = "Id of the project, a UUID: `project_id` of what `gpuaas list --output json` prints for a \
member; also in the column PROJECT of `gpuaas admin reservations list`, `gpuaas admin queue list` and \
`gpuaas admin node evacuation-plan`";

#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Regions: where capacity is sold.
    #[command(subcommand)]
    Region(catalog::Region),
    /// SKUs: what is sold.
    #[command(subcommand)]
    Sku(catalog::Sku),
    /// Quotas: how much a project may hold.
    #[command(subcommand)]
    Quota(quota::Command),
    /// Prices.
    #[command(subcommand)]
    Price(catalog::Price),
    /// Guest images.
    #[command(subcommand)]
    Image(catalog::Image),
    /// Hosts.
    #[command(subcommand)]
    Node(node::Command),
    /// Slots of a host.
    #[command(subcommand)]
    Slots(slots::Command),
    /// How much of the fleet was in use, and free, over time.
    Capacity(capacity::Flags),
    /// Suggest which few allocations would have to be elsewhere for more launches of a size to fit. Nothing is done.
    Defragmentation(plans::Defragmentation),
    /// How many hosts could be sold whole, and which could be again. Nothing is done.
    Preservation(plans::Preservation),
    /// What placement would make of each node for a launch.
    Explain(super::explain::Flags),
    /// Allocations with their placement.
    #[command(subcommand)]
    Allocation(node::AllocationCommand),
    /// Requests that wait for capacity.
    #[command(subcommand)]
    Queue(queue::Command),
    /// Capacity that is kept for projects.
    #[command(subcommand)]
    Reservations(reservations::Command),
    /// Proof that the platform's records are sound.
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
        Command::Preservation(flags) => plans::preservation(session, flags).await,
        Command::Node(command) => node::run(session, command).await,
        Command::Slots(command) => slots::run(session, command).await,
        Command::Allocation(command) => node::allocation(session, command).await,
        Command::Queue(command) => queue::run(session, command).await,
        Command::Reservations(command) => reservations::run(session, command).await,
        Command::Audit(command) => audit::run(session, command).await,
    }
}

/// Says what was done, or gives the answer to a program.
fn done(session: &Session, answer: &Value, sentence: &str) {
    if session.json() {
        print_json(answer);
    } else {
        say!("{sentence}");
    }
}
