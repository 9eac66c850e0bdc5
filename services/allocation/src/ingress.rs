//! Applies ingress mappings on hosts (J-13): what begins, ends, expires or failed within a second or so, and what a host has
//! otherwise than the ledger says with the reconciler's visit (D-80).
//!
//! A call has everything that is to be open for an allocation, under the tokens of its claims and with a version, so a late call
//! changes nothing. The release of an allocation needs no call: with the VM's address the host closes what leads to it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use gpuaas_common::{Error, audit, db};
use gpuaas_placement::ingress::hosts::{self, Wanted};
use gpuaas_placement::ingress::{self, Mapping, Owner};
use gpuaas_placement::nodes;
use gpuaas_proto::gpuaas::agent::v1::{
    AllocationIngress, FencingToken, IngressOwnership, IngressRule, ListHoldsResponse,
    SetIngressRequest, SlotToken,
};
use serde_json::json;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::convert;
use crate::domain::residue::LedgerState;
use crate::workflow::Deps;
use crate::workflow::failure::StepError;
use crate::workflow::host::Host;
use crate::workflow::subject;

/// Who did it, in the audit trail.
const SYSTEM: &str = "service:allocation";
/// Longest time that one takes: the call to its host has a deadline of its own.
const LONGEST: Duration = Duration::from_secs(120);
/// Shortest time between two polls.
const SHORTEST: Duration = Duration::from_millis(50);

/// Polls at the interval of the settings until `shutdown`, and calls the hosts of all allocations with something to do: a host that
/// hangs holds up no other.
pub async fn run(deps: &Deps, shutdown: CancellationToken) {
    let mut tick =
        tokio::time::interval(Duration::from_secs_f64(deps.config.poll_seconds).max(SHORTEST));
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut calls, mut called) = (FuturesUnordered::new(), BTreeSet::new());
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            Some(id) = calls.next(), if !calls.is_empty() => {
                called.remove(&id);
            }
            _ = tick.tick() => match db::within(db::PASS, due(deps, &called)).await {
                Ok(found) => for id in found {
                    called.insert(id);
                    calls.push(apply_one(deps, id));
                },
                Err(error) => tracing::warn!(
                    "wait for the database to apply ingress mappings on hosts: {}",
                    error.chain()
                ),
            },
        }
    }
}

/// What is due and not being applied, as far as the limit of concurrent calls allows.
async fn due(deps: &Deps, called: &BTreeSet<Uuid>) -> Result<Vec<Uuid>, Error> {
    let available = deps
        .config
        .reconcile_concurrency
        .max(1)
        .saturating_sub(called.len());
    if available == 0 {
        return Ok(Vec::new());
    }
    let called: Vec<Uuid> = called.iter().copied().collect();
    let mut conn = deps.pool.acquire().await?;
    let available = i64::try_from(available).unwrap_or(i64::MAX);
    Ok(hosts::due(&mut conn, &called, available).await?)
}

async fn apply_one(deps: &Deps, id: Uuid) -> Uuid {
    if let Err(error) = db::within(LONGEST, apply(deps, id)).await {
        tracing::warn!(allocation_id = %id, "cannot apply ingress mappings on the host: {error:?}");
    }
    id
}

/// Sends the host of an allocation what is to be open, and records how that went.
///
/// # Errors
/// The host refuses or does not answer; those of the database.
pub async fn apply(deps: &Deps, allocation_id: Uuid) -> Result<(), StepError> {
    let mut tx = deps.pool.begin().await?;
    let wanted = hosts::wanted(&mut tx, allocation_id)
        .await
        .map_err(subject::ledger)?;
    tx.commit().await?;
    let Some(wanted) = wanted else { return Ok(()) };
    if let Err(error) = set_ingress(deps, &wanted).await {
        let mut tx = deps.pool.begin().await?;
        let failed = hosts::failed(&mut tx, allocation_id, sentence(&error)).await;
        failed.map_err(subject::ledger)?;
        tx.commit().await?;
        return Err(error);
    }
    let mut tx = deps.pool.begin().await?;
    let ended = hosts::done(&mut tx, &wanted)
        .await
        .map_err(subject::ledger)?;
    // whoever deletes is on record already
    for mapping in ended.iter().filter(|mapping| mapping.state != "deleting") {
        let detail =
            json!({ "allocation_id": allocation_id, "external_port": mapping.external_port });
        // it is gone
        let before = convert::ingress_mapping(mapping.clone());
        let detail = audit::with_digests(detail, Some(&before), None);
        let entry = audit::Entry {
            principal: SYSTEM,
            action: "ingress_mapping.expire",
            resource: "ingress_mapping",
            resource_id: &mapping.id.to_string(),
            request_id: "",
            detail: audit::in_project(detail, mapping.project_id),
        };
        audit::record(&mut tx, entry).await?;
    }
    tx.commit().await?;
    let (open, closed, lost) = (wanted.open.len(), ended.len(), wanted.lost.len());
    tracing::debug!(%allocation_id, open, closed, lost, "apply ingress mappings on host");
    Ok(())
}

/// Why a mapping is not open, for its owner; the log has what the host said.
fn sentence(error: &StepError) -> &'static str {
    let reason = match error {
        StepError::Retry { reason, .. } => reason.as_str(),
        StepError::Fail(failure) => failure.reason.as_str(),
        StepError::Lost => "",
    };
    match reason {
        "HOST_UNREACHABLE" => "The host does not answer. The platform tries again.",
        "HOST_REPLACED" => "The host was installed anew since the allocation was launched.",
        "OPERATION_CONFLICT" => {
            "The host has not closed the port of an earlier mapping yet. The platform tries again."
        }
        _ => {
            "The host refused the mapping. The platform tries again; an operator finds the reason in its log."
        }
    }
}

async fn set_ingress(deps: &Deps, wanted: &Wanted) -> Result<(), StepError> {
    let mut conn = deps.pool.acquire().await?;
    let node = nodes::get(&mut conn, wanted.node_id)
        .await
        .map_err(subject::ledger)?;
    drop(conn);
    // TLS refuses any other instance than the node's
    let is_replaced = wanted
        .claims
        .iter()
        .any(|claim| claim.snapshot.instance_id != node.instance_id);
    if is_replaced {
        return Err(StepError::replaced());
    }
    let host = Host::of_node(deps, wanted.node_id).await?;
    host.set_ingress(request(wanted)).await
}

fn request(wanted: &Wanted) -> SetIngressRequest {
    let slots = wanted
        .claims
        .iter()
        .filter_map(|claim| Some((claim.slot_id?, claim.slot_generation)));
    let tokens = slots.map(|(slot_id, generation)| SlotToken {
        slot_id: slot_id.to_string(),
        token: Some(FencingToken {
            cell_epoch: wanted.epochs.cell.cast_unsigned(),
            slot_generation: generation.cast_unsigned(),
            workflow_epoch: wanted.epochs.workflow.cast_unsigned(),
        }),
    });
    SetIngressRequest {
        ingress: Some(AllocationIngress {
            allocation_id: wanted.allocation_id.to_string(),
            version: wanted.version.cast_unsigned(),
            rules: wanted.open.iter().map(rule).collect(),
        }),
        tokens: tokens.collect(),
    }
}

fn rule(mapping: &Mapping) -> IngressRule {
    IngressRule {
        protocol: convert::ingress_protocol(&mapping.protocol).into(),
        vm_port: mapping.vm_port.cast_unsigned(),
        external_address: mapping.external_address.clone(),
        external_port: mapping.external_port.cast_unsigned(),
        source_cidrs: mapping.sources.clone(),
        expire_time: mapping.expires_at.map(convert::time),
    }
}

/// Records what a host gives to the platform, and applies again what it has otherwise than the ledger says: a host that lost its
/// mappings, and one that has some of which the ledger knows nothing.
///
/// # Errors
/// Those of the database; what fails of one host's mappings is tried again with the next visit.
pub async fn compare(
    deps: &Deps,
    node_id: Uuid,
    held: &ListHoldsResponse,
    states: &BTreeMap<Uuid, LedgerState>,
) -> Result<(), StepError> {
    let owner = held.ingress_ownership.as_ref().and_then(owner);
    let mut tx = deps.pool.begin().await?;
    ingress::put_owner(&mut tx, node_id, owner.as_ref())
        .await
        .map_err(subject::ledger)?;
    let active = ingress::active_on(&mut tx, node_id)
        .await
        .map_err(subject::ledger)?;
    tx.commit().await?;
    let mut by_ledger: BTreeMap<Uuid, BTreeSet<Port>> = BTreeMap::new();
    for mapping in &active {
        by_ledger
            .entry(mapping.allocation_id)
            .or_default()
            .insert(port_of(&rule(mapping)));
    }
    let mut on_host: BTreeMap<Uuid, BTreeSet<Port>> = BTreeMap::new();
    for set in &held.ingress {
        if let Ok(id) = set.allocation_id.parse() {
            on_host
                .entry(id)
                .or_default()
                .extend(set.rules.iter().map(port_of));
        }
    }
    let none = BTreeSet::new();
    for (&id, state) in states {
        // whoever works on it may be removing it
        if !matches!(state, LedgerState::Active(_)) {
            continue;
        }
        let (ledger, host) = (
            by_ledger.get(&id).unwrap_or(&none),
            on_host.get(&id).unwrap_or(&none),
        );
        if ledger != host {
            tracing::info!(%node_id, allocation_id = %id, "apply ingress mappings on a host again");
            if let Err(error) = apply(deps, id).await {
                tracing::warn!(%node_id, allocation_id = %id, "cannot apply ingress mappings on the host: {error:?}");
            }
        }
    }
    Ok(())
}

/// What makes two rules the same.
type Port = (i32, u32, String, u32, Vec<String>);

fn port_of(rule: &IngressRule) -> Port {
    (
        rule.protocol,
        rule.external_port,
        rule.external_address.clone(),
        rule.vm_port,
        rule.source_cidrs.clone(),
    )
}

/// What a host reports, when it makes sense.
fn owner(reported: &IngressOwnership) -> Option<Owner> {
    let address: std::net::Ipv4Addr = reported.address.parse().ok()?;
    let port = |number: u32| u16::try_from(number).ok().filter(|port| *port > 0);
    let (first, last) = (port(reported.first_port)?, port(reported.last_port)?);
    (first <= last).then(|| Owner {
        address: address.to_string(),
        first_port: first.into(),
        last_port: last.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn l_16_what_makes_no_sense_is_nothing_that_the_platform_owns() {
        let reported = |address: &str, first_port, last_port| {
            owner(&IngressOwnership {
                address: address.to_owned(),
                first_port,
                last_port,
            })
        };
        let good = reported("203.0.113.7", 30_000, 30_009).unwrap();
        assert_eq!((good.first_port, good.last_port), (30_000, 30_009));
        for (address, first, last) in [
            ("", 30_000, 30_009),
            ("fe80::1", 30_000, 30_009),
            ("203.0.113.7", 0, 30_009),
            ("203.0.113.7", 30_009, 30_000),
            ("203.0.113.7", 30_000, 65_536),
        ] {
            assert_eq!(
                reported(address, first, last),
                None,
                "{address} {first} {last}"
            );
        }
    }
}
