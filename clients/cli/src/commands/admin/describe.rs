//! `admin node describe`: one node with its checks, slots, devices and history.
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Session;
use super::devices::{Host, owners, print_devices};
use super::life::by;
use crate::api::{parse, parse_all};
use crate::commands::nodes::{admin_state, print_slots};
use crate::failure::Failure;
use crate::node::{self, Evidence, Node, OnboardingStep};
use crate::output::{age, print_json, print_line, print_table, time};

/// What the latest discovery found.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Discovery {
    end_time: Option<Timestamp>,
    comparisons: Vec<Comparison>,
    host: Option<Host>,
}

/// A slot beside what the latest discovery found.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Comparison {
    slot_index: u32,
    state: String,
    bindings: Vec<Binding>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Binding {
    field: String,
    approved: String,
    found: String,
    differs: bool,
}

/// Shows all that is known of a node.
///
/// # Errors
/// See [`Failure`].
pub async fn run(session: &Session, given: &str) -> Result<(), Failure> {
    let id = node::resolve(&session.api, given).await?;
    let mut answer = session.api.get(&["admin", "nodes", &id], &[]).await?;
    // before its first report, placement does not know the node
    let placement = ["admin", "nodes", &id, "placement"];
    answer["placement"] = or_none(session.api.get(&placement, &[]).await)?;
    let slots = session
        .api
        .get(&["admin", "nodes", &id, "resource-slots"], &[])
        .await?;
    let discovery = ["admin", "nodes", &id, "slice-topology", "discovery"];
    let discovery = or_none(session.api.get(&discovery, &[]).await)?;
    let history = session
        .api
        .get(&["admin", "nodes", &id, "history"], &[])
        .await?;
    if session.json() {
        print_json(
            &json!({ "node": answer, "slots": slots["slots"], "discovery": discovery, "history": history["entries"] }),
        );
        return Ok(());
    }
    if answer["placement"].is_null() {
        answer["placement"] = json!({});
    }
    let node: Node = parse(&answer)?;
    print_node(&node);
    print_onboarding(&node.status.onboarding);
    print_checks(&node.status.evidence);
    say!("\nSlots");
    let none = format!("None. Discover candidates: gpuaas admin node discover {given} --wait");
    print_slots(session, &slots, &none).await?;
    if !discovery.is_null() {
        let found: Discovery = parse(&discovery)?;
        print_differences(&found);
        if let Some(host) = &found.host {
            print_devices(host, &owners(&slots));
        }
    }
    let entries = history["entries"].as_array().cloned().unwrap_or_default();
    print_history(parse_all(&entries)?);
    Ok(())
}

/// Something that became of a node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct HistoryEntry {
    time: Option<Timestamp>,
    state: String,
    reason: String,
    principal: String,
}

fn print_history(entries: Vec<HistoryEntry>) {
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
    print_table(["WHEN", "STATE", "BY", "REASON"], rows.collect());
}

/// The steps, while one of them is not done.
fn print_onboarding(steps: &[OnboardingStep]) {
    let is_over = |step: &OnboardingStep| matches!(step.state.as_str(), "done" | "not_needed");
    if steps.iter().all(is_over) {
        return;
    }
    say!("\nOnboarding");
    let rows = steps.iter().map(|step| {
        [
            step.number.to_string(),
            step.name.clone(),
            step.state.replace('_', " "),
            step.detail.clone(),
        ]
    });
    print_table(["STEP", "NAME", "STATE", "WAITS FOR"], rows.collect());
}

/// An answer, or nothing where there is nothing yet.
fn or_none(answer: Result<Value, Failure>) -> Result<Value, Failure> {
    match answer {
        Err(failure) if failure.exit_code() == 3 => Ok(Value::Null),
        other => other,
    }
}

fn print_node(node: &Node) {
    let (config, status) = (&node.config, &node.status);
    print_line("Node", &config.hostname);
    print_line("ID", &node.id);
    let lab = if status.lab {
        " (lab: emulated, no GPU)"
    } else {
        ""
    };
    print_line("Mode", &format!("{}{lab}", config.mode));
    print_line("Region", &config.region_code);
    print_line("State", node.state());
    if let Some(life) = &status.life {
        let who = match life.principal.as_str() {
            "" => "",
            principal => by(principal),
        };
        let why = [life.reason.as_str(), who];
        let why: Vec<&str> = why.into_iter().filter(|text| !text.is_empty()).collect();
        let since = format!("{} since {}", life.state, time(life.since));
        print_line("Life", &[&[since.as_str()], &why[..]].concat().join(", "));
    }
    // blockers have lines of their own
    let schedulable = match status.schedulable {
        true => node.schedulable(),
        false => "no".to_owned(),
    };
    print_line("Schedulable", &schedulable);
    print_line("Admin state", &admin_state(&node.placement));
    print_line("Profile", &status.host_profile);
    print_line("Hypervisor", &status.hypervisor);
    print_line("Agent", &status.instance.agent_version);
    if status.instance.agent_built_time.is_some() {
        print_line("Agent built", &time(status.instance.agent_built_time));
    }
    print_line("Boot", &status.instance.boot_id);
    print_line("Heartbeat", &time(status.last_heartbeat_time));
    for blocker in &status.blockers {
        print_line("Blocker", &node::blocker_text(blocker));
    }
}

/// What fails first, each with what to do about it.
fn print_checks(evidence: &[Evidence]) {
    say!("\nChecks");
    if evidence.is_empty() {
        say!("No report from the node yet. Start its agent with the enrolment token.");
        return;
    }
    let rank = |status: &str| {
        let order = ["fail", "warn", "pass", "skip"];
        order.iter().position(|one| *one == status)
    };
    let mut sorted: Vec<&Evidence> = evidence.iter().collect();
    sorted.sort_by(|a, b| {
        let by_outcome = rank(&a.status).cmp(&rank(&b.status));
        by_outcome.then_with(|| a.check.cmp(&b.check))
    });
    let rows = sorted.iter().map(|one| {
        [
            one.check.clone(),
            one.status.clone(),
            one.severity.clone(),
            age(one.observed_at),
            one.detail.clone(),
        ]
    });
    print_table(
        ["CHECK", "RESULT", "SEVERITY", "AGE", "DETAILS"],
        rows.collect(),
    );
    for one in sorted {
        let is_open = one.status == "fail" || one.status == "warn";
        if is_open && !one.remediation.is_empty() {
            say!("To do, {}: {}", one.check, one.remediation);
        }
    }
}

fn print_differences(discovery: &Discovery) {
    let rows: Vec<[String; 4]> = discovery
        .comparisons
        .iter()
        .filter(|one| one.state != "new")
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
        .filter(|one| one.state == "not_found");
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
