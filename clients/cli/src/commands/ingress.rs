//! `ingress`: ports of a VM that are exposed to the outside.
use std::time::Duration;

use gpuaas_proto::gpuaas::allocation::v1::{
    CreateIngressMappingRequest, DeleteIngressMappingRequest, GetIngressMappingRequest,
    IngressMapping, IngressMappingConfig, IngressMappingState, ListIngressMappingsRequest,
    ListIngressMappingsResponse,
};
use gpuaas_proto::gpuaas::common::v1::IngressProtocol;
use gpuaas_proto::json::Enumeration as _;
use jiff::Timestamp;

use super::launch::parse_deadline;
use super::select::{Selected, SelectedOf};
use crate::allocation::AllocationRef;
use crate::api::Answer;
use crate::failure::Failure;
use crate::output::{print_json, print_table, stamp, time, word};
use crate::session::{Session, done};

/// Between two looks at a mapping that is not open yet.
const PAUSE: Duration = Duration::from_millis(500);
/// Longest wait for it.
const LONGEST: Duration = Duration::from_secs(60);

#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Expose a port of a VM.
    Create {
        #[command(flatten)]
        of: AllocationRef,
        /// Port of the VM.
        #[arg(long, value_name = "PORT")]
        port: u16,
        /// Transport protocol.
        #[arg(long, default_value = "tcp", value_parser = ["tcp", "udp"])]
        protocol: String,
        /// Port of the external address [default: any free port].
        #[arg(long, value_name = "PORT")]
        external_port: Option<u16>,
        /// IPv4 network that can connect, for example 198.51.100.0/24; repeatable [default: everybody].
        #[arg(long = "source", value_name = "NETWORK")]
        sources: Vec<String>,
        /// Close the port after a duration, or at a time: 8h, 3d, 2027-01-31T12:00:00Z [default: with the allocation].
        #[arg(long, value_name = "TIME", value_parser = parse_deadline)]
        until: Option<Timestamp>,
        /// Wait until the port is open.
        #[arg(long)]
        wait: bool,
    },
    /// List the exposed ports of a VM.
    List {
        #[command(flatten)]
        of: AllocationRef,
        #[command(flatten)]
        selected: SelectedOf<ListIngressMappingsRequest>,
    },
    /// Close a port and its open connections.
    Delete {
        #[command(flatten)]
        of: AllocationRef,
        /// Id of the ingress mapping.
        mapping: String,
    },
}

/// Runs it.
///
/// # Errors
/// See [`Failure`].
pub async fn run(session: &Session, command: Command) -> Result<(), Failure> {
    let api = &session.api;
    match command {
        Command::Create {
            of,
            port,
            protocol,
            external_port,
            sources,
            until,
            wait,
        } => {
            let id = of.id(api).await?;
            let protocol = IngressProtocol::of_word(&protocol).unwrap_or_default();
            let config = IngressMappingConfig {
                protocol: protocol.into(),
                vm_port: port.into(),
                external_port: external_port.unwrap_or_default().into(),
                source_cidrs: sources,
                expire_time: until.map(stamp),
            };
            let request = CreateIngressMappingRequest {
                allocation_id: id.clone(),
                config: Some(config),
            };
            let mut answer = api.apply(&request, &session.key).await?;
            if wait {
                answer = opened(session, &id, answer).await?;
            }
            done(session, &answer.json, &sentence(&answer.message));
        }
        Command::List { of, selected } => {
            let request = ListIngressMappingsRequest {
                allocation_id: of.id(api).await?,
                filter: selected.filter(),
                order_by: selected.order_by(),
                ..ListIngressMappingsRequest::default()
            };
            let listed = api.call_all_pages(&request, "ingress_mappings").await?;
            print(session, &listed, &selected);
        }
        Command::Delete { of, mapping } => {
            let request = DeleteIngressMappingRequest {
                allocation_id: of.id(api).await?,
                ingress_mapping_id: mapping,
            };
            let answer = api.apply(&request, &session.key).await?;
            let sentence = format!("Closing {}.", external(&answer.message));
            done(session, &answer.json, &sentence);
        }
    }
    Ok(())
}

fn state_of(mapping: &IngressMapping) -> IngressMappingState {
    mapping.status.clone().unwrap_or_default().state()
}

/// The mapping once it is open. What failed is tried again by the platform, so it is waited for, too.
async fn opened(
    session: &Session,
    id: &str,
    mut mapping: Answer<IngressMapping>,
) -> Result<Answer<IngressMapping>, Failure> {
    let request = GetIngressMappingRequest {
        allocation_id: id.to_owned(),
        ingress_mapping_id: mapping.message.id.clone(),
    };
    let started = std::time::Instant::now();
    while matches!(
        state_of(&mapping.message),
        IngressMappingState::Pending | IngressMappingState::Failed
    ) {
        if started.elapsed() >= LONGEST {
            return Err(Failure::Local(format!(
                "{} It is tried again; see: gpuaas ingress list {id}",
                sentence(&mapping.message)
            )));
        }
        tokio::time::sleep(PAUSE).await;
        mapping = session.api.call(&request).await?;
    }
    Ok(mapping)
}

fn sentence(mapping: &IngressMapping) -> String {
    let config = mapping.config.clone().unwrap_or_default();
    let (from, to) = (external(mapping), config.vm_port);
    match state_of(mapping) {
        IngressMappingState::Active => format!("{from} leads to port {to} of the VM."),
        IngressMappingState::Failed => format!(
            "{from} does not lead to port {to} of the VM yet: {}",
            mapping.status.clone().unwrap_or_default().failure
        ),
        _ => format!("{from} will lead to port {to} of the VM within seconds."),
    }
}

/// As "203.0.113.7:30017/tcp".
fn external(mapping: &IngressMapping) -> String {
    let config = mapping.config.clone().unwrap_or_default();
    let status = mapping.status.clone().unwrap_or_default();
    format!(
        "{}:{}/{}",
        status.external_address,
        status.external_port,
        word(config.protocol())
    )
}

fn print(session: &Session, answer: &Answer<ListIngressMappingsResponse>, selected: &Selected) {
    if session.json() {
        print_json(&answer.json);
        return;
    }
    let found = &answer.message.ingress_mappings;
    if found.is_empty() && selected.narrows() {
        say!("No port matches the filter.");
        return;
    }
    if found.is_empty() {
        say!("No port is exposed. Open one: gpuaas ingress create ALLOCATION --port PORT");
        return;
    }
    let rows = found.iter().map(|one| {
        let config = one.config.clone().unwrap_or_default();
        let from = if config.source_cidrs.is_empty() {
            "everybody".to_owned()
        } else {
            config.source_cidrs.join(",")
        };
        let until = match config.expire_time {
            None => "-".to_owned(),
            until => time(until),
        };
        [
            external(one),
            config.vm_port.to_string(),
            word(state_of(one)),
            from,
            until,
            one.id.clone(),
        ]
    });
    print_table(
        ["EXTERNAL", "VM PORT", "STATE", "FROM", "UNTIL", "ID"],
        rows.collect(),
    );
    let has_failed = |one: &&IngressMapping| state_of(one) == IngressMappingState::Failed;
    for one in found.iter().filter(has_failed) {
        let status = one.status.clone().unwrap_or_default();
        say!("{}: {}", external(one), status.failure);
    }
}
