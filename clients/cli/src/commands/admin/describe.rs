//! `admin node describe`: one node with its checks, slots, devices and history.
use gpuaas_proto::gpuaas::common::v1::{Evidence, EvidenceStatus};
use gpuaas_proto::gpuaas::inventory::v1::{
    ComparisonState, GetNodeRequest, GetTopologyDiscoveryRequest, ListNodeHistoryRequest,
    ListResourceSlotsRequest, Node, NodeHistoryEntry, OnboardingState, OnboardingStep,
    ResourceSlot, TopologyDiscovery,
};
use gpuaas_proto::gpuaas::scheduler::v1::{GetNodePlacementRequest, NodePlacement};
use serde_json::json;

use super::Session;
use super::devices::{owners, print_devices};
use super::lifecycle::by;
use crate::api::Answer;
use crate::commands::nodes::{admin_state, print_slots};
use crate::failure::Failure;
use crate::node;
use crate::output::{age, print_json, print_line, print_table, time, word};

/// Shows all that is known of a node.
///
/// # Errors
/// See [`Failure`].
pub async fn run(session: &Session, given: &str) -> Result<(), Failure> {
    let id = node::resolve(&session.api, given).await?;
    let api = &session.api;
    let node_id = id.clone();
    let mut node = api.call(&GetNodeRequest { node_id }).await?;
    // before its first report, placement does not know the node
    let node_id = id.clone();
    let placement = or_none(api.call(&GetNodePlacementRequest { node_id }).await)?;
    let node_id = id.clone();
    let request = ListResourceSlotsRequest {
        node_id,
        ..ListResourceSlotsRequest::default()
    };
    let slots = api.call_all_pages(&request, "slots").await?;
    let node_id = id.clone();
    let discovery = or_none(api.call(&GetTopologyDiscoveryRequest { node_id }).await)?;
    let history = ListNodeHistoryRequest {
        node_id: id,
        ..ListNodeHistoryRequest::default()
    };
    let history = api.call(&history).await?;
    if session.json() {
        node.json["placement"] = placement.map(|placement| placement.json).into();
        let discovery = discovery.map(|discovery| discovery.json);
        print_json(
            &json!({ "node": node.json, "slots": slots.json["slots"], "discovery": discovery, "history": history.json["entries"] }),
        );
        return Ok(());
    }
    let placement = placement.map(|placement| placement.message);
    print_node(&node.message, &placement.unwrap_or_default());
    let status = node.message.status.unwrap_or_default();
    print_onboarding(&status.onboarding);
    print_checks(&status.evidence);
    say!("\nSlots");
    let none = format!("None. Discover candidates: gpuaas admin node discover {given} --wait");
    let owners = owners(&slots.message);
    let storage = storage_rows(&slots.message.slots);
    print_slots(session, slots, &none).await;
    if !storage.is_empty() {
        say!("\nStorage");
        print_table(["SLOT", "OWNER", "MODE", "TRANSITION MANIFEST"], storage);
    }
    if let Some(Answer { message: found, .. }) = &discovery {
        print_differences(found);
        if let Some(host) = &found.host {
            print_devices(host, &owners);
        }
    }
    print_history(history.message.entries);
    Ok(())
}

/// Whose the disks of the slots are, where a storage transition took one over.
fn storage_rows(slots: &[ResourceSlot]) -> Vec<[String; 4]> {
    let shown = slots
        .iter()
        .filter(|slot| !slot.storage_transition_manifest.is_empty());
    shown
        .map(|slot| {
            [
                slot.slot_index.to_string(),
                slot.storage_ownership.clone(),
                slot.storage_mode.clone(),
                slot.storage_transition_manifest.clone(),
            ]
        })
        .collect()
}

fn print_history(entries: Vec<NodeHistoryEntry>) {
    if entries.is_empty() {
        return;
    }
    say!("\nHistory");
    let rows = entries.into_iter().map(|one| {
        [
            time(one.time),
            one.state,
            by(&one.principal).to_owned(),
            node::blocker_text(&one.reason),
        ]
    });
    print_table(["TIME", "STATE", "ACTOR", "REASON"], rows.collect());
}

/// The steps, while one of them is not done.
fn print_onboarding(steps: &[OnboardingStep]) {
    let is_over = |step: &OnboardingStep| {
        matches!(
            step.state(),
            OnboardingState::Done | OnboardingState::NotNeeded
        )
    };
    if steps.iter().all(is_over) {
        return;
    }
    say!("\nOnboarding");
    let rows = steps.iter().map(|step| {
        [
            step.number.to_string(),
            step.name.clone(),
            word(step.state()).replace('_', " "),
            step.detail.clone(),
        ]
    });
    print_table(["STEP", "NAME", "STATE", "WAITS FOR"], rows.collect());
}

/// An answer, or nothing where there is nothing yet.
fn or_none<T>(answer: Result<T, Failure>) -> Result<Option<T>, Failure> {
    match answer {
        Err(failure) if failure.exit_code() == 3 => Ok(None),
        other => other.map(Some),
    }
}

fn print_node(node: &Node, placement: &NodePlacement) {
    let config = node.config.clone().unwrap_or_default();
    let status = node.status.clone().unwrap_or_default();
    print_line("Node", &config.hostname);
    print_line("ID", &node.id);
    let lab = if status.lab {
        " (lab: emulated, no GPU)"
    } else {
        ""
    };
    print_line("Mode", &format!("{}{lab}", config.mode));
    print_line("Region", &config.region_code);
    print_line("State", &node::state_text(node));
    if let Some(life) = &status.life {
        let who = match life.principal.as_str() {
            "" => "",
            principal => by(principal),
        };
        let why = [life.reason.as_str(), who];
        let why: Vec<&str> = why.into_iter().filter(|text| !text.is_empty()).collect();
        let since = format!("{} since {}", word(life.state()), time(life.since));
        print_line("Life", &[&[since.as_str()], &why[..]].concat().join(", "));
    }
    // blockers have lines of their own
    let schedulable = match status.schedulable {
        true => node::schedulable(node, placement),
        false => "no".to_owned(),
    };
    print_line("Schedulable", &schedulable);
    print_line("Admin state", &admin_state(placement));
    print_line("Profile", &status.host_profile);
    print_line("Hypervisor", &status.hypervisor);
    let instance = status.instance.clone().unwrap_or_default();
    print_line("Agent", &agent(&instance.agent_version));
    print_line("Agent built", &time(instance.agent_built_time));
    print_line("Boot", &instance.boot_id);
    print_line("Heartbeat", &time(status.last_heartbeat_time));
    for blocker in &status.blockers {
        print_line("Blocker", &node::blocker_text(blocker));
    }
}

/// A version of a checkout with changes was tried on the host, and is none of the managed environment (D-95).
fn agent(version: &str) -> String {
    match version.strip_suffix(".changed") {
        Some(commit) => format!("{version}: built from {commit} with changes that no release has"),
        None => version.to_owned(),
    }
}

/// What fails first, each with what to do about it.
fn print_checks(evidence: &[Evidence]) {
    say!("\nChecks");
    if evidence.is_empty() {
        say!("No report from the node yet. Start its agent with the enrolment token.");
        return;
    }
    let rank = |status: EvidenceStatus| {
        use EvidenceStatus::{Fail, Pass, Skip, Warn};
        [Fail, Warn, Pass, Skip]
            .iter()
            .position(|one| *one == status)
    };
    let mut sorted: Vec<&Evidence> = evidence.iter().collect();
    sorted.sort_by(|a, b| {
        let by_outcome = rank(a.status()).cmp(&rank(b.status()));
        by_outcome.then_with(|| a.check.cmp(&b.check))
    });
    let rows = sorted.iter().map(|one| {
        [
            one.check.clone(),
            word(one.status()),
            word(one.severity()),
            age(one.observed_at),
            one.detail.clone(),
        ]
    });
    print_table(
        ["CHECK", "RESULT", "SEVERITY", "AGE", "DETAILS"],
        rows.collect(),
    );
    for one in sorted {
        let is_open = matches!(one.status(), EvidenceStatus::Fail | EvidenceStatus::Warn);
        if is_open && !one.remediation.is_empty() {
            say!("To do, {}: {}", one.check, one.remediation);
        }
    }
}

fn print_differences(discovery: &TopologyDiscovery) {
    let rows: Vec<[String; 4]> = discovery
        .comparisons
        .iter()
        .filter(|one| one.state() != ComparisonState::New)
        .flat_map(|one| {
            let of_slot = one.bindings.iter().filter(|binding| binding.differs);
            of_slot.map(|binding| {
                [
                    one.slot_index.to_string(),
                    binding.field.clone(),
                    binding.approved.clone(),
                    binding.found.clone(),
                ]
            })
        })
        .collect();
    let missing = discovery
        .comparisons
        .iter()
        .filter(|one| one.state() == ComparisonState::NotFound);
    let missing: Vec<String> = missing.map(|one| one.slot_index.to_string()).collect();
    if rows.is_empty() && missing.is_empty() {
        return;
    }
    say!(
        "\nApproved and found, discovered {}",
        time(discovery.end_time)
    );
    if !rows.is_empty() {
        print_table(["SLOT", "FIELD", "APPROVED", "FOUND"], rows);
    }
    if !missing.is_empty() {
        say!("Not found: slot {}.", missing.join(", "));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d_95_an_agent_of_a_checkout_with_changes_is_not_taken_for_a_released_one() {
        assert_eq!(agent("80d8a259"), "80d8a259");
        assert_eq!(
            agent("80d8a259.changed"),
            "80d8a259.changed: built from 80d8a259 with changes that no release has"
        );
    }
}
