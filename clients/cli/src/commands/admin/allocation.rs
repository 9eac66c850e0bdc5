//! Allocations of all projects: the claims and node tasks of one, and its end.
use gpuaas_proto::gpuaas::allocation::v1::{
    ForceReleaseAllocationRequest, GetAllocationDetailRequest, HostFate,
};
use jiff::Timestamp;

use super::tenants;
use crate::allocation::{name_of, state_of};
use crate::commands::placement;
use crate::failure::Failure;
use crate::node;
use crate::output::{print_json, print_line, print_table, stamp, time, took, word};
use crate::session::Session;

#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// List the allocations of all projects, newest first.
    List(tenants::List),
    /// Stop the VM of an allocation of any project. Members see the reason, and can start the VM again.
    Stop(tenants::Change),
    /// Release an allocation of any project: its disks are wiped. Members see the reason. This cannot be undone.
    Release(tenants::Change),
    /// Show the node, claims and node tasks of an allocation.
    Show {
        /// Name, id, or unique prefix of the id; the full id of one that has ended.
        allocation: String,
    },
    /// End an allocation whose host is lost. Its slots stay disabled until a repair has wiped their disks.
    ForceRelease(ForceRelease),
}

#[derive(Debug, clap::Args)]
pub struct ForceRelease {
    /// Name, id, or unique prefix of the id; the full id of one that has ended.
    allocation: String,
    /// State of the host, which you attest.
    #[arg(long, value_enum)]
    host: Fate,
    /// Reason, for the audit trail.
    #[arg(long)]
    reason: String,
    /// End of billing, for example 2026-01-02T03:04:05Z [default: the last report of the host, for bare metal now].
    #[arg(long, value_name = "TIME")]
    billing_end: Option<Timestamp>,
    /// Check everything, change nothing.
    #[arg(long)]
    dry_run: bool,
}

/// What became of a lost host.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Fate {
    /// The host is powered off and will stay off.
    PoweredOff,
    /// The disks of the host are destroyed.
    DisksDestroyed,
    /// The host was reinstalled and has enrolled again.
    Reinstalled,
    /// The host is unreachable and written off.
    WrittenOff,
}

impl From<Fate> for HostFate {
    fn from(fate: Fate) -> Self {
        match fate {
            Fate::PoweredOff => Self::PoweredOff,
            Fate::DisksDestroyed => Self::DisksDestroyed,
            Fate::Reinstalled => Self::Reinstalled,
            Fate::WrittenOff => Self::WrittenOff,
        }
    }
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
    let request = ForceReleaseAllocationRequest {
        allocation_id: id.clone(),
        host_fate: HostFate::from(flags.host).into(),
        reason: flags.reason.clone(),
        billing_end_time: flags.billing_end.map(stamp),
        validate_only: flags.dry_run,
    };
    let answer = session.api.apply(&request, &session.key).await?;
    if session.json() {
        print_json(&answer.json);
        return Ok(());
    }
    let released = answer.message;
    let allocation = released.allocation.unwrap_or_default();
    let state = word(state_of(&allocation));
    let node = node::hostname(&session.api, &released.node_id).await;
    let slots = node::slot_names(&session.api, &released.node_id, &released.slot_ids).await;
    let name = match name_of(&allocation) {
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
            "When the host is back, wipe its disks: gpuaas admin slot repair {node} SLOT --reason TEXT"
        );
    }
    Ok(())
}

async fn show(session: &Session, given: &str) -> Result<(), Failure> {
    let id = tenants::resolve(session, given).await?;
    let request = GetAllocationDetailRequest { allocation_id: id };
    let answer = session.api.call(&request).await?;
    if session.json() {
        print_json(&answer.json);
        return Ok(());
    }
    let detail = answer.message;
    let allocation = detail.allocation.unwrap_or_default();
    let node = node::hostname(&session.api, &detail.node_id).await;
    say!(
        "{} ({}) is {} on node {node}",
        name_of(&allocation),
        allocation.id,
        word(state_of(&allocation))
    );
    print_line("Called", &allocation.display_name);
    let config = allocation.config.unwrap_or_default();
    let constraints = config.placement.as_ref();
    print_line(
        "Placement",
        &constraints.map(placement::text).unwrap_or_default(),
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
            .map(|t| [t.r#type, t.id, t.state, took(t.create_time, t.end_time)]);
        print_table(["TASK", "ID", "STATE", "DURATION"], tasks.collect());
    }
    Ok(())
}
