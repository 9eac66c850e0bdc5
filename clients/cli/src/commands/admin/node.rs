//! Nodes: registration, enrolment, discovery.
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use gpuaas_proto::gpuaas::allocation::v1::CompareNodeRequest;
use gpuaas_proto::gpuaas::inventory::v1::{
    CreateEnrolmentTokenRequest, CreateNodeRequest, DiscoverTopologyRequest, DiscoveryState,
    GetTopologyDiscoveryRequest, ListNodeHistoryRequest, TopologyDiscovery,
};
use serde_json::{Value, json};

use super::nodes;
use super::placement::{self, Verb};
use super::{comparison, describe, host_report, lifecycle, node_health, plans};
use crate::api::Answer;
use crate::commands::select::SelectedOf;
use crate::failure::Failure;
use crate::node;
use crate::output::{print_json, print_table, word};
use crate::session::{Session, done};

const POLL: Duration = Duration::from_millis(500);

#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// List the nodes with their health, and find them.
    List(nodes::NodeFlags),
    /// Register a node. Then its agent enrols with a token.
    Create {
        /// Unique hostname.
        #[arg(long)]
        hostname: String,
        /// Region of the node.
        #[arg(long)]
        region: String,
        /// Mode: slice (VMs) or baremetal.
        #[arg(long, default_value = "slice", value_parser = ["slice", "baremetal"])]
        mode: String,
        /// Maximum VMs on the node; 0: no limit.
        #[arg(long, default_value_t = 0, value_name = "COUNT")]
        max_vms: u32,
        /// Rack of the node; the second wave of an agent rollout is the rest of a rack.
        #[arg(long, default_value = "")]
        rack: String,
    },
    /// Create a single-use enrolment token and write it to a file. It is never printed.
    EnrolToken {
        /// Id, unique prefix of it, or hostname.
        node: String,
        /// File for the token, mode 0600; it must not exist.
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
    },
    /// Discover the devices of a node and propose slots.
    Discover {
        /// Id, unique prefix of it, or hostname.
        node: String,
        /// Wait for the result.
        #[arg(long)]
        wait: bool,
        /// Maximum wait in seconds.
        #[arg(long, default_value_t = 120, value_name = "SECONDS")]
        timeout: u64,
    },
    /// Cordon a node: it takes no new allocations, existing ones continue.
    Cordon {
        /// Id, unique prefix of it, or hostname.
        node: String,
        /// Reason.
        #[arg(long)]
        reason: String,
    },
    /// Uncordon a node: ends a cordon, a drain or maintenance.
    Uncordon {
        /// Id, unique prefix of it, or hostname.
        node: String,
        /// Reason.
        #[arg(long, default_value = "")]
        reason: String,
    },
    /// Drain a node: it takes no new allocations until it is empty. Nothing is stopped; allocations end when their
    /// owners release them.
    Drain {
        /// Id, unique prefix of it, or hostname.
        node: String,
        /// Reason.
        #[arg(long)]
        reason: String,
        /// Wait until the node is empty.
        #[arg(long)]
        wait: bool,
        /// Maximum wait in seconds.
        #[arg(long, default_value_t = 3600, value_name = "SECONDS")]
        timeout: u64,
    },
    /// Start maintenance of an empty node; uncordon ends it.
    Maintenance {
        /// Id, unique prefix of it, or hostname.
        node: String,
        /// Reason.
        #[arg(long)]
        reason: String,
    },
    /// Change labels, mode or VM limit of a node.
    Update(lifecycle::UpdateFlags),
    /// Retire a node permanently, with all its slots. Drain the node first.
    Retire {
        /// Id, unique prefix of it, or hostname.
        node: String,
        /// Reason.
        #[arg(long)]
        reason: String,
    },
    /// Delete a node that was registered by mistake and never had an allocation.
    Delete {
        /// Id, unique prefix of it, or hostname.
        node: String,
        /// Reason.
        #[arg(long, default_value = "")]
        reason: String,
    },
    /// Show the history of a node.
    History {
        /// Id, unique prefix of it, or hostname.
        node: String,
        #[command(flatten)]
        selected: SelectedOf<ListNodeHistoryRequest>,
    },
    /// Break-fix records of a node.
    #[command(subcommand)]
    BreakFix(node_health::BreakFixCommand),
    /// Findings of outside health agents.
    #[command(subcommand)]
    Finding(node_health::FindingCommand),
    /// Plan the evacuation of nodes: where each of their allocations would fit. Nothing is moved.
    EvacuationPlan {
        /// Id, unique prefix of it, or hostname; several nodes are evacuated together.
        #[arg(required = true, num_args = 1..=32)]
        nodes: Vec<String>,
    },
    /// Show a node: its checks with their remedies, slots, devices, and differences from the approval.
    Show {
        /// Id, unique prefix of it, or hostname.
        node: String,
    },
    /// Compare ledger, host and hypervisor of a node for each allocation, with a verdict. Nothing is changed.
    Compare {
        /// Id, unique prefix of it, or hostname.
        node: String,
        #[command(flatten)]
        selected: SelectedOf<CompareNodeRequest>,
    },
    /// Reports of validate-host that are attached to a node.
    #[command(subcommand)]
    Report(host_report::Command),
    /// Correct a row of the comparison: adopt, finish, undo, or acknowledge a report. Nothing with a claim is removed.
    Correct(comparison::CorrectFlags),
    /// Deactivate an NVSwitch partition that the comparison shows as active without an owner. Refused while an allocation has it, or a
    /// VM may have its GPUs.
    DeactivatePartition(comparison::PartitionFlags),
    /// Show whether a node takes allocations, and its claims.
    Placement {
        /// Id, unique prefix of it, or hostname.
        node: String,
    },
}

/// The wipe policies that the host can meet on a disk; none: it reports none.
pub fn wipe_policies<'a>(discovery: &'a TopologyDiscovery, disk: &str) -> &'a [String] {
    let mut inspected = discovery.inspected_devices.iter();
    let found = inspected.find(|one| one.device == disk);
    found.map_or(&[], |one| &one.wipe_policies)
}

pub async fn run(session: &Session, command: Command) -> Result<(), Failure> {
    match command {
        Command::List(flags) => nodes::nodes(session, &flags).await,
        Command::Create {
            hostname,
            region,
            mode,
            max_vms,
            rack,
        } => {
            let request = CreateNodeRequest {
                hostname: hostname.clone(),
                region_code: region,
                mode,
                max_vms_per_node: max_vms,
                rack,
            };
            let answer = session.api.apply(&request, &session.key).await?;
            let id = answer.message.id;
            let sentence = format!(
                "Node {hostname} is registered as {id}. Next: gpuaas admin node enrol-token {id} --out FILE"
            );
            done(session, &answer.json, &sentence);
            Ok(())
        }
        Command::Cordon { node, reason } => {
            placement::change(session, &node, Verb::Cordon, &reason, None).await
        }
        Command::Uncordon { node, reason } => {
            placement::change(session, &node, Verb::Uncordon, &reason, None).await
        }
        Command::Drain {
            node,
            reason,
            wait,
            timeout,
        } => {
            let wait = wait.then(|| Duration::from_secs(timeout));
            placement::change(session, &node, Verb::Drain, &reason, wait).await
        }
        Command::Maintenance { node, reason } => {
            placement::change(session, &node, Verb::Maintain, &reason, None).await
        }
        Command::Update(flags) => lifecycle::update(session, flags).await,
        Command::Retire { node, reason } => lifecycle::retire(session, &node, &reason).await,
        Command::Delete { node, reason } => lifecycle::delete(session, &node, &reason).await,
        Command::History { node, selected } => lifecycle::history(session, &node, &selected).await,
        Command::BreakFix(command) => node_health::break_fix(session, command).await,
        Command::Finding(command) => node_health::finding(session, command).await,
        Command::EvacuationPlan { nodes } => plans::evacuation(session, &nodes).await,
        Command::Show { node } => describe::run(session, &node).await,
        Command::Compare { node, selected } => comparison::run(session, &node, &selected).await,
        Command::Report(command) => host_report::run(session, command).await,
        Command::Correct(flags) => comparison::correct(session, &flags).await,
        Command::DeactivatePartition(flags) => {
            comparison::deactivate_partition(session, &flags).await
        }
        Command::Placement { node } => placement::show(session, &node).await,
        Command::EnrolToken { node, out } => enrol_token(session, &node, &out).await,
        Command::Discover {
            node,
            wait,
            timeout,
        } => discover(session, &node, wait, Duration::from_secs(timeout)).await,
    }
}

async fn enrol_token(session: &Session, node: &str, out: &Path) -> Result<(), Failure> {
    let node = node::resolve(&session.api, node).await?;
    // opened first: a token that cannot be written must not be created
    let unwritable =
        |error: std::io::Error| Failure::Usage(format!("cannot write {}: {error}", out.display()));
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(out)
        .map_err(unwritable)?;
    let request = CreateEnrolmentTokenRequest { node_id: node };
    let made = session.api.apply(&request, &session.key).await;
    let made = made.map(|answer| answer.json);
    let written = made.and_then(|mut answer| match answer["token"].take() {
        Value::String(token) if !token.is_empty() => {
            file.write_all(token.as_bytes())
                .and_then(|()| file.sync_all())
                .map_err(unwritable)?;
            Ok(answer)
        }
        _ => Err(Failure::Local(
            "an enrolment token was made by an earlier attempt at this command, and is not shown again: run the command again, with \
             another --idempotency-key where one is given, for a token that replaces it"
                .to_owned(),
        )),
    });
    let mut answer = match written {
        Ok(answer) => answer,
        Err(failure) => {
            // an empty file would stand in the way of the next attempt
            let _ = std::fs::remove_file(out);
            return Err(failure);
        }
    };
    if let Value::Object(fields) = &mut answer {
        fields.remove("token");
        fields.insert("token_file".to_owned(), json!(out));
    }
    done(
        session,
        &answer,
        &format!(
            "The token is in {}. It works once; pass it to the agent of the node.",
            out.display()
        ),
    );
    Ok(())
}

async fn discover(
    session: &Session,
    node: &str,
    wait: bool,
    limit: Duration,
) -> Result<(), Failure> {
    let node = node::resolve(&session.api, node).await?;
    let request = DiscoverTopologyRequest {
        node_id: node.clone(),
    };
    let mut answer = session.api.apply(&request, &session.key).await?;
    let started = Instant::now();
    loop {
        let is_open = match answer.message.state() {
            DiscoveryState::Failed => {
                return Err(Failure::Local(format!(
                    "the discovery failed: {}",
                    answer.message.error
                )));
            }
            DiscoveryState::Queued | DiscoveryState::Running => wait,
            _ => false,
        };
        if !is_open {
            show_discovery(session, &answer, &node);
            return Ok(());
        }
        if started.elapsed() >= limit {
            return Err(Failure::Local(format!(
                "the discovery is still running after {} s",
                limit.as_secs()
            )));
        }
        tokio::time::sleep(POLL).await;
        let request = GetTopologyDiscoveryRequest {
            node_id: node.clone(),
        };
        answer = session.api.call(&request).await?;
    }
}

fn show_discovery(session: &Session, answer: &Answer<TopologyDiscovery>, node: &str) {
    if session.json() {
        print_json(&answer.json);
        return;
    }
    let discovery = &answer.message;
    let state = word(discovery.state());
    say!("Discovery {} is {state}.", discovery.id);
    for blocker in discovery.candidate_summary.iter().flat_map(|s| &s.blockers) {
        say!("  blocker: {blocker}");
    }
    if discovery.state() != DiscoveryState::Completed {
        say!("Run it again with --wait to wait for the result.");
    } else if discovery.candidates.is_empty() {
        say!("The node has no candidates for slots.");
    } else {
        let rows = discovery.candidates.iter().map(|c| {
            let blockers = if c.blockers.is_empty() {
                "approvable".to_owned()
            } else {
                c.blockers.join("; ")
            };
            let bindings = c.bindings.clone().unwrap_or_default();
            let own = &bindings.destructive_wipe_policy;
            let possible = wipe_policies(discovery, &bindings.nvme_device).iter();
            let others: Vec<&str> = possible
                .filter(|one| *one != own)
                .map(String::as_str)
                .collect();
            let wipe = match others.is_empty() {
                true => own.clone(),
                false => format!("{own}, or {}", others.join(", ")),
            };
            [
                c.slot_index.to_string(),
                c.slot_class.clone(),
                blockers,
                wipe,
            ]
        });
        print_table(["INDEX", "CLASS", "STATE", "DISK WIPE"], rows.collect());
        say!("Approve the candidates: gpuaas admin slot approve {node} --all");
    }
}
