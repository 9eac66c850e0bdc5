//! Slots: approval, disabling and enabling, repair.
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use gpuaas_proto::gpuaas::allocation::v1::{GetSlotRepairRequest, RepairResourceSlotRequest};
use gpuaas_proto::gpuaas::inventory::v1::{
    ApproveResourceSlotsRequest, DisableResourceSlotRequest, EnableResourceSlotRequest,
    GetTopologyDiscoveryRequest, ListResourceSlotHistoryRequest, SlotChoice, TopologyDiscovery,
};

use super::{Session, done, lifecycle};
use crate::commands::admin::node::wipe_policies;
use crate::commands::nodes::print_slots;
use crate::commands::select::SelectedOf;
use crate::failure::Failure;
use crate::node;
use crate::output::word;

const POLL: Duration = Duration::from_millis(500);

/// What a slot gets in place of what its candidate has.
#[derive(Debug, clap::Args)]
pub struct Choices {
    /// Another disk for a candidate, by its identity, for example 0=/dev/disk/by-id/nvme-eui.0025385b71b0a1c2.
    #[arg(long, value_name = "INDEX=DISK", value_parser = of_slot)]
    disk: Vec<(u32, String)>,
    /// Another virtual function for a candidate, by its PCI address.
    #[arg(long, value_name = "INDEX=ADDRESS", value_parser = of_slot)]
    function: Vec<(u32, String)>,
    /// Another wipe policy for a candidate: blkdiscard, nvme_format or site_erase, if `admin node discover` lists it for the
    /// disk.
    #[arg(long, value_name = "INDEX=POLICY", value_parser = of_slot)]
    wipe_policy: Vec<(u32, String)>,
}

fn of_slot(text: &str) -> Result<(u32, String), String> {
    let (index, value) = text
        .split_once('=')
        .ok_or("must be INDEX=VALUE, with the index of a candidate")?;
    let index = index
        .parse()
        .map_err(|_| format!("{index:?} is not the index of a candidate"))?;
    Ok((index, value.to_owned()))
}

impl Choices {
    /// What is chosen for one candidate.
    fn of(&self, slot_index: u32) -> Option<SlotChoice> {
        let last = |given: &[(u32, String)]| {
            let mut own = given.iter().filter(|(index, _)| *index == slot_index);
            own.next_back().map(|(_, value)| value.clone())
        };
        let given = [
            last(&self.disk),
            last(&self.function),
            last(&self.wipe_policy),
        ];
        given.iter().any(Option::is_some).then(|| {
            let [disk, function, policy] = given.map(Option::unwrap_or_default);
            SlotChoice {
                slot_index,
                nvme_device: disk,
                fabric_vf_pci_address: function,
                destructive_wipe_policy: policy,
            }
        })
    }

    /// Refuses a wipe policy that the host has said it cannot meet on the disk that the slot gets, with those that it can.
    fn check_wipes(&self, found: &TopologyDiscovery) -> Result<(), Failure> {
        for (index, policy) in &self.wipe_policy {
            let other = self.disk.iter().rfind(|(slot, _)| slot == index);
            let candidate = found.candidates.iter().find(|one| one.slot_index == *index);
            let disk = match (other, candidate) {
                (Some((_, disk)), _) => disk.clone(),
                (None, Some(candidate)) => {
                    candidate.bindings.clone().unwrap_or_default().nvme_device
                }
                (None, None) => continue,
            };
            let possible = wipe_policies(found, &disk);
            if !possible.is_empty() && !possible.contains(policy) {
                return Err(Failure::Usage(format!(
                    "the disk of candidate {index} cannot be wiped by {policy:?}; its host can: {}",
                    possible.join(", ")
                )));
            }
        }
        Ok(())
    }

    /// All of them, by index.
    fn all(&self) -> Vec<SlotChoice> {
        let given = [&self.disk, &self.function, &self.wipe_policy];
        let indexes = given.into_iter().flatten().map(|(index, _)| *index);
        let indexes: BTreeSet<u32> = indexes.collect();
        indexes.into_iter().filter_map(|one| self.of(one)).collect()
    }
}

#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Approve candidates of the latest discovery as slots, all or none.
    Approve {
        /// Id, unique prefix of it, or hostname.
        node: String,
        /// Indexes of the candidates, for example 0,1.
        #[arg(
            long,
            value_delimiter = ',',
            value_name = "INDEXES",
            conflicts_with = "all"
        )]
        index: Vec<u32>,
        /// All approvable candidates.
        #[arg(long)]
        all: bool,
        /// The discovery that you reviewed [default: the latest].
        #[arg(long, value_name = "ID")]
        discovery: Option<String>,
        #[command(flatten)]
        choices: Choices,
    },
    /// Disable a slot. A slot in use is disabled after its release.
    Disable {
        #[command(flatten)]
        slot: SlotRef,
        /// Reason, for the audit trail.
        #[arg(long, default_value = "")]
        reason: String,
    },
    /// Enable a disabled slot.
    Enable {
        #[command(flatten)]
        slot: SlotRef,
    },
    /// Retire a slot permanently. Its devices can be discovered and approved as another slot.
    Retire {
        #[command(flatten)]
        slot: SlotRef,
        /// Reason, for the audit trail.
        #[arg(long)]
        reason: String,
    },
    /// Show the history of a slot: claims, evidence, health.
    History {
        #[command(flatten)]
        slot: SlotRef,
        #[command(flatten)]
        selected: SelectedOf<ListResourceSlotHistoryRequest>,
    },
    /// Repair a blocked slot, or a free slot with a device bound to another driver: wipe its disk, verify that it is empty,
    /// bind its devices to VFIO again and make the slot schedulable.
    Repair {
        #[command(flatten)]
        slot: SlotRef,
        /// Reason, for the audit trail.
        #[arg(long)]
        reason: String,
        /// Wait for the result.
        #[arg(long)]
        wait: bool,
        /// Maximum wait in seconds.
        #[arg(long, default_value_t = 900, value_name = "SECONDS")]
        timeout: u64,
    },
}

#[derive(Debug, clap::Args)]
pub struct SlotRef {
    /// Node: id, unique prefix of it, or hostname.
    node: String,
    /// Slot: id, unique prefix of it, or index.
    slot: String,
}

impl SlotRef {
    /// As the operator named it.
    fn name(&self) -> String {
        format!("{} of {}", self.slot, self.node)
    }

    /// Ids of the node and of the slot.
    ///
    /// # Errors
    /// See [`Failure`].
    pub async fn resolve(&self, session: &Session) -> Result<(String, String), Failure> {
        let node = node::resolve(&session.api, &self.node).await?;
        let slot = node::resolve_slot(&session.api, &node, &self.slot).await?;
        Ok((node, slot))
    }
}

pub async fn run(session: &Session, command: Command) -> Result<(), Failure> {
    match command {
        Command::Approve {
            node,
            index,
            all,
            discovery,
            choices,
        } => approve(session, &node, index, all, discovery, &choices).await,
        Command::Disable { slot, reason } => {
            let name = slot.name();
            let (node, slot) = slot.resolve(session).await?;
            let request = DisableResourceSlotRequest {
                node_id: node,
                slot_id: slot,
                reason,
                ..DisableResourceSlotRequest::default()
            };
            let answer = session.api.apply(&request, &session.key).await?;
            let status = word(answer.message.status());
            let sentence = format!("Slot {name} is {status} and unschedulable.");
            done(session, &answer.json, &sentence);
            Ok(())
        }
        Command::Enable { slot } => {
            let name = slot.name();
            let (node, slot) = slot.resolve(session).await?;
            let request = EnableResourceSlotRequest {
                node_id: node,
                slot_id: slot,
                ..EnableResourceSlotRequest::default()
            };
            let answer = session.api.apply(&request, &session.key).await?;
            let status = word(answer.message.status());
            done(session, &answer.json, &format!("Slot {name} is {status}."));
            Ok(())
        }
        Command::Retire { slot, reason } => {
            let (node, slot) = slot.resolve(session).await?;
            lifecycle::retire_slot(session, &node, &slot, &reason).await
        }
        Command::History { slot, selected } => {
            let (node, slot) = slot.resolve(session).await?;
            lifecycle::slot_history(session, (&node, &slot), &selected).await
        }
        Command::Repair {
            slot,
            reason,
            wait,
            timeout,
        } => {
            repair(
                session,
                &slot,
                &reason,
                wait.then(|| Duration::from_secs(timeout)),
            )
            .await
        }
    }
}

async fn approve(
    session: &Session,
    node: &str,
    index: Vec<u32>,
    all: bool,
    discovery: Option<String>,
    choices: &Choices,
) -> Result<(), Failure> {
    let node = node::resolve(&session.api, node).await?;
    let request = GetTopologyDiscoveryRequest {
        node_id: node.clone(),
    };
    let latest = session.api.call(&request).await?.message;
    let approvable = || {
        latest
            .candidates
            .iter()
            .filter(|c| c.blockers.is_empty() || choices.of(c.slot_index).is_some())
            .map(|c| c.slot_index)
            .collect::<Vec<_>>()
    };
    let indexes = if all { approvable() } else { index };
    if indexes.is_empty() {
        let can = approvable()
            .iter()
            .map(u32::to_string)
            .collect::<Vec<_>>()
            .join(",");
        return Err(Failure::Usage(format!(
            "choose candidates with --index or --all; approvable: {}",
            if can.is_empty() { "none" } else { &can }
        )));
    }
    choices.check_wipes(&latest)?;
    let request = ApproveResourceSlotsRequest {
        node_id: node,
        discovery_id: discovery.unwrap_or(latest.id),
        slot_indexes: indexes,
        choices: choices.all(),
    };
    let answer = session.api.apply(&request, &session.key).await?;
    print_slots(session, answer, "No slot was approved.").await;
    Ok(())
}

async fn repair(
    session: &Session,
    given: &SlotRef,
    reason: &str,
    wait: Option<Duration>,
) -> Result<(), Failure> {
    let (node, slot) = given.resolve(session).await?;
    let request = RepairResourceSlotRequest {
        node_id: node.clone(),
        slot_id: slot.clone(),
        reason: reason.to_owned(),
    };
    let mut answer = session.api.apply(&request, &session.key).await?;
    let started = Instant::now();
    loop {
        let repair = &answer.message;
        let (status, health) = (word(repair.slot_status()), word(repair.health_state()));
        match (repair.state.as_str(), wait) {
            ("failed", _) => {
                return Err(Failure::Local(format!(
                    "the repair failed, the slot is still {status}: {}",
                    repair.detail
                )));
            }
            ("running", Some(limit)) if started.elapsed() < limit => {
                tokio::time::sleep(POLL).await;
                let request = GetSlotRepairRequest {
                    node_id: node.clone(),
                    slot_id: slot.clone(),
                };
                answer = session.api.call(&request).await?;
            }
            ("running", Some(limit)) => {
                return Err(Failure::Local(format!(
                    "the repair is still running after {} s",
                    limit.as_secs()
                )));
            }
            (state, _) => {
                let sentence = if state == "done" {
                    format!("Slot {} is {status} and {health}.", given.name())
                } else {
                    format!("The repair is {state}. See: gpuaas slots {}", given.node)
                };
                done(session, &answer.json, &sentence);
                return Ok(());
            }
        }
    }
}
