//! Allocations of all projects: the claims and node tasks of one, and its end.
use jiff::Timestamp;
use reqwest::Method;
use serde::Deserialize;
use serde_json::json;

use super::{Session, tenants};
use crate::allocation::Allocation;
use crate::api::{number, parse};
use crate::commands::place;
use crate::failure::Failure;
use crate::node;
use crate::output::{print_json, print_line, print_table, time, took};

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct AllocationDetail {
    pub allocation: Allocation,
    pub node_id: String,
    pub claims: Vec<Claim>,
    pub tasks: Vec<NodeTask>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Claim {
    pub kind: String,
    pub slot_id: String,
    pub slot_index: u32,
    pub state: String,
    #[serde(deserialize_with = "number")]
    pub slot_generation: i64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodeTask {
    pub id: String,
    #[serde(rename = "type")]
    pub kind: String,
    pub state: String,
    pub create_time: Option<Timestamp>,
    pub end_time: Option<Timestamp>,
}

#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// List the allocations of all projects, newest first.
    List(tenants::List),
    /// Stop the VM of an allocation of any project. Its members see the reason, and can start it again.
    Stop(tenants::Change),
    /// Release an allocation of any project: its disks are wiped. Its members see the reason. This cannot be undone.
    Release(tenants::Change),
    /// Show the node, claims and node tasks of an allocation.
    Show {
        /// Name, id, or unique prefix of the id; the full id of one that has ended.
        allocation: String,
    },
    /// End an allocation whose host is lost. Its slots stay disabled until a repair has wiped them.
    ForceRelease(ForceRelease),
}

#[derive(Debug, clap::Args)]
pub struct ForceRelease {
    /// Name, id, or unique prefix of the id; the full id of one that has ended.
    allocation: String,
    /// What became of the host; you attest it.
    #[arg(long, value_enum)]
    host: Fate,
    /// Reason, for the audit trail.
    #[arg(long)]
    reason: String,
    /// When billing ends, for example 2026-01-02T03:04:05Z [default: when the host was last heard].
    #[arg(long, value_name = "TIME")]
    billing_end: Option<Timestamp>,
    /// Check everything, change nothing.
    #[arg(long)]
    dry_run: bool,
}

/// What became of a lost host.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Fate {
    /// It is powered off and will stay off.
    PoweredOff,
    /// Its disks are destroyed.
    DisksDestroyed,
    /// It was reinstalled, and has enrolled again.
    Reinstalled,
    /// Nobody can reach it; it is given up as it is.
    WrittenOff,
}

impl Fate {
    fn wire(self) -> &'static str {
        match self {
            Self::PoweredOff => "powered_off",
            Self::DisksDestroyed => "disks_destroyed",
            Self::Reinstalled => "reinstalled",
            Self::WrittenOff => "written_off",
        }
    }
}

/// The answer to a forced release.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Released {
    allocation: Allocation,
    node_id: String,
    billing_end_time: Option<Timestamp>,
    slot_ids: Vec<String>,
}

pub async fn run(session: &Session, command: Command) -> Result<(), Failure> {
    match command {
        Command::List(flags) => tenants::list(session, flags).await,
        Command::Stop(flags) => tenants::change(session, &flags, tenants::Verb::Stop).await,
        Command::Release(flags) => tenants::change(session, &flags, tenants::Verb::Release).await,
        Command::Show { allocation } => show(session, &allocation).await,
        Command::ForceRelease(flags) => force_release(session, &flags).await,
    }
}

async fn force_release(session: &Session, flags: &ForceRelease) -> Result<(), Failure> {
    let id = tenants::resolve(session, &flags.allocation).await?;
    let mut body = json!({ "host_fate": flags.host.wire(), "reason": flags.reason });
    if let Some(end) = flags.billing_end {
        body["billing_end_time"] = end.to_string().into();
    }
    if flags.dry_run {
        body["validate_only"] = true.into();
    }
    let verb = format!("{id}:forceRelease");
    let path = ["admin", "allocations", &verb];
    let answer = session
        .api
        .change(Method::POST, &path, &body, &session.key)
        .await?;
    if session.json() {
        print_json(&answer);
        return Ok(());
    }
    let released: Released = parse(&answer)?;
    let state = &released.allocation.status.state;
    let node = node::hostname(&session.api, &released.node_id).await;
    let slots = node::slot_names(&session.api, &released.node_id, &released.slot_ids).await;
    let name = match released.allocation.config.name.as_str() {
        "" => id,
        name => name.to_owned(),
    };
    if flags.dry_run {
        say!("{name} would be {state}. Nothing was changed.");
    } else {
        say!("{name} is {state}.");
    }
    print_line(
        "Billing",
        &released
            .billing_end_time
            .map(|end| format!("ends {}", time(Some(end))))
            .unwrap_or_default(),
    );
    print_line("Node", &node);
    for slot in &slots {
        print_line("Disabled", &format!("slot {slot}"));
    }
    if !flags.dry_run && !released.slot_ids.is_empty() {
        say!(
            "When the host is back, wipe its disks: gpuaas admin slots repair {node} SLOT --reason TEXT"
        );
    }
    Ok(())
}

async fn show(session: &Session, given: &str) -> Result<(), Failure> {
    let id = tenants::resolve(session, given).await?;
    let answer = session.api.get(&["admin", "allocations", &id], &[]).await?;
    if session.json() {
        print_json(&answer);
        return Ok(());
    }
    let detail: AllocationDetail = parse(&answer)?;
    let node = node::hostname(&session.api, &detail.node_id).await;
    say!(
        "{} ({}) is {} on node {node}",
        detail.allocation.config.name,
        detail.allocation.id,
        detail.allocation.status.state
    );
    let constraints = detail.allocation.config.placement.as_ref();
    print_line(
        "Placement",
        &constraints.map(place::text).unwrap_or_default(),
    );
    let claims = detail.claims.into_iter().map(|c| {
        [
            c.kind,
            c.slot_index.to_string(),
            c.slot_id,
            c.slot_generation.to_string(),
            c.state,
        ]
    });
    print_table(
        ["CLAIM", "SLOT", "SLOT ID", "GENERATION", "STATE"],
        claims.collect(),
    );
    if !detail.tasks.is_empty() {
        say!("");
        let tasks = detail
            .tasks
            .into_iter()
            .map(|t| [t.kind, t.id, t.state, took(t.create_time, t.end_time)]);
        print_table(["TASK", "ID", "STATE", "DURATION"], tasks.collect());
    }
    Ok(())
}
