//! `admin fleet`: where every node and GPU stands, and who uses it.
use gpuaas_proto::gpuaas::scheduler::v1::{
    FleetCounts, FleetNode, GetFleetCountsRequest, ListFleetNodesRequest,
};

use crate::commands::select::SelectedOf;
use crate::failure::Failure;
use crate::output::{print_json, print_table, word};
use crate::project;
use crate::session::Session;

#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Nodes with the health and the use of their GPUs.
    #[command(subcommand)]
    Node(NodeCommand),
    /// Count nodes and GPUs by region and hardware type.
    Count {
        /// Only this region.
        #[arg(long)]
        region: Option<String>,
    },
}

#[derive(Debug, clap::Subcommand)]
pub enum NodeCommand {
    /// List the nodes with the health and the use of their GPUs, by hostname.
    List {
        /// Only this region.
        #[arg(long)]
        region: Option<String>,
        /// Only nodes with an allocation of this project.
        #[arg(long, value_name = "PROJECT")]
        project: Option<String>,
        /// Only nodes with GPUs of the capacity reservation with this id.
        #[arg(long, value_name = "ID", default_value = "", hide_default_value = true)]
        reservation: String,
        /// Only nodes with allocations.
        #[arg(long, conflicts_with = "free")]
        in_use: bool,
        /// Only nodes without allocations.
        #[arg(long)]
        free: bool,
        #[command(flatten)]
        selected: SelectedOf<ListFleetNodesRequest>,
    },
}

/// Runs it.
///
/// # Errors
/// See [`Failure`].
pub async fn run(session: &Session, command: Command) -> Result<(), Failure> {
    match command {
        Command::Node(NodeCommand::List {
            region,
            project,
            reservation,
            in_use,
            free,
            selected,
        }) => {
            let project = project::given(&session.api, project).await?;
            let request = ListFleetNodesRequest {
                region_code: region.unwrap_or_default(),
                project_id: project.unwrap_or_default(),
                reservation_id: reservation,
                in_use: (in_use || free).then_some(in_use),
                filter: selected.filter(),
                order_by: selected.order_by(),
                ..ListFleetNodesRequest::default()
            };
            nodes(session, &request).await
        }
        Command::Count { region } => counts(session, region.unwrap_or_default()).await,
    }
}

async fn nodes(session: &Session, request: &ListFleetNodesRequest) -> Result<(), Failure> {
    let listed = session.api.call_all_pages(request, "nodes").await?;
    if session.json() {
        print_json(&listed.json);
        return Ok(());
    }
    let nodes = listed.message.nodes;
    if nodes.is_empty() {
        let nothing = *request == ListFleetNodesRequest::default();
        say!(
            "{}",
            match nothing {
                true => "No nodes yet. Register one: gpuaas admin node create",
                false => "No node matches the filter.",
            }
        );
        return Ok(());
    }
    let rows = nodes.into_iter().map(|node| {
        let [delivered, healthy, reserved, active] = numbers(node.gpus);
        [
            node.hostname.clone(),
            node.region_code.clone(),
            node.rack.clone(),
            node.hardware_type.clone(),
            node.admin_state.clone(),
            word(node.health()),
            delivered,
            healthy,
            reserved,
            active,
            occupants(&node),
            node.reason,
        ]
    });
    print_table(
        [
            "NODE", "REGION", "RACK", "HARDWARE", "STATE", "HEALTH", "GPUS", "HEALTHY", "RESERVED",
            "ACTIVE", "USED BY", "REASON",
        ],
        rows.collect(),
    );
    Ok(())
}

/// The projects on a node, with their GPUs: by name where the platform knows them.
fn occupants(node: &FleetNode) -> String {
    let of = node.occupants.iter().map(|one| {
        let name = match one.project.as_str() {
            "" => one.project_id.clone(),
            project => format!("{}/{project}", one.organisation),
        };
        format!("{name}: {}", one.gpus)
    });
    of.collect::<Vec<_>>().join(", ")
}

async fn counts(session: &Session, region_code: String) -> Result<(), Failure> {
    let request = GetFleetCountsRequest { region_code };
    let answer = session.api.call(&request).await?;
    if session.json() {
        print_json(&answer.json);
        return Ok(());
    }
    let counted = answer.message;
    let pools = counted.pools.into_iter().map(|pool| {
        let name = match pool.hardware_type.as_str() {
            "" => "no slots yet".to_owned(),
            of => of.to_owned(),
        };
        (pool.region_code, name, pool.nodes, pool.gpus)
    });
    let total = ("all".to_owned(), String::new(), counted.nodes, counted.gpus);
    let rows = pools.chain([total]).map(|(region, name, nodes, gpus)| {
        let [nodes, healthy_nodes, ..] = numbers(nodes);
        let [delivered, healthy, reserved, active] = numbers(gpus);
        [
            region,
            name,
            nodes,
            healthy_nodes,
            delivered,
            healthy,
            reserved,
            active,
        ]
    });
    print_table(
        [
            "REGION",
            "HARDWARE",
            "NODES",
            "HEALTHY NODES",
            "GPUS",
            "HEALTHY",
            "RESERVED",
            "ACTIVE",
        ],
        rows.collect(),
    );
    Ok(())
}

/// Delivered, healthy, reserved and active, each of them among the one before.
fn numbers(counts: Option<FleetCounts>) -> [String; 4] {
    let counts = counts.unwrap_or_default();
    [
        counts.delivered,
        counts.healthy,
        counts.reserved,
        counts.active,
    ]
    .map(|count| count.to_string())
}
