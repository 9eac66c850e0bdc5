//! Approving, disabling and enabling slots. The slots live in the ledger; here is the operator's decision.
use gpuaas_common::error::{Error, Result};
use gpuaas_common::{audit, id};
use gpuaas_proto::gpuaas::agent::v1::InspectedDevice;
use gpuaas_proto::gpuaas::common::v1::SlotStatus;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_proto::gpuaas::internal::scheduler::v1 as ledger;
use gpuaas_proto::gpuaas::inventory::v1 as api;
use tonic::{Code, Request};
use uuid::Uuid;

use super::approval_refusal::refused;
use super::{LEDGER, Mutation, Nodes, at_most, gone, no_node};
use crate::convert;
use crate::domain::approval::{self, ExistingSlot, Review};
use crate::domain::candidate::Candidate;
use crate::domain::choice::Choice;
use crate::domain::names::NodeMode;
use crate::domain::readiness::devices_of;
use crate::store::approvals::{self, NewApproval};
use crate::store::ledger_sync::{self, Kind};
use crate::store::tasks::TaskRow;
use crate::store::{nodes, tasks};
use crate::workflow::ledger_sync::push_now;

const MAX_REASON: usize = 200;

impl Nodes {
    pub(super) async fn approve(
        &self,
        request: &Request<api::ApproveResourceSlotsRequest>,
    ) -> Result<api::ListResourceSlotsResponse> {
        let mutation = Mutation::of(request, "ApproveResourceSlots")?;
        let node_id = id::parse("node_id", &request.get_ref().node_id)?;
        let discovery_id = id::parse("discovery_id", &request.get_ref().discovery_id)?;
        let earlier = mutation.made(&self.0.pool).await?;
        let mut conn = self.0.pool.acquire().await?;
        if let Some(earlier) = earlier {
            let approval_id: Uuid = earlier.parse().map_err(Error::internal)?;
            let approved = approvals::slot_ids(&mut conn, approval_id).await?;
            drop(conn);
            return self
                .approved_slots(node_id, &approved.ok_or_else(|| gone("the approval"))?)
                .await;
        }
        let max_age = self.0.config.discovery_max_age_seconds;
        let node = nodes::find(&mut conn, node_id, self.0.config.freshness())
            .await?
            .ok_or_else(|| no_node(&node_id))?;
        let discovery = tasks::find(&mut conn, discovery_id, max_age).await?;
        let discovery = discovery
            .filter(|found| found.node_id == node_id)
            .ok_or_else(|| {
                Error::new(
                    Code::NotFound,
                    ErrorReason::DiscoveryNotFound,
                    format!("This node has no discovery {discovery_id}."),
                )
            })?;
        let latest = tasks::latest_discovery(&mut conn, node_id, max_age).await?;
        drop(conn);

        let found = convert::report_of(&discovery)?.unwrap_or_default();
        let inspected = found.inspected_devices;
        let candidates: Vec<Candidate> = found
            .candidates
            .into_iter()
            .map(|candidate| Candidate {
                slot_index: candidate.slot_index,
                slot_class: candidate.slot_class,
                bindings: candidate.bindings.unwrap_or_default(),
                blockers: candidate.blockers,
                disk_blockers: candidate.disk_blockers,
                fabric_blockers: candidate.fabric_blockers,
            })
            .collect();
        self.ledger_knows(node_id).await?;
        let slots: Vec<ExistingSlot> = self
            .0
            .ledger_slots(node_id)
            .await?
            .slots
            .into_iter()
            .filter(|slot| slot.status() != SlotStatus::Retired)
            .map(|slot| ExistingSlot {
                slot_index: slot.slot_index,
                bindings: slot.bindings.unwrap_or_default(),
            })
            .collect();
        let report = node.report()?;
        let readiness = node.readiness(report.as_ref());
        let (observed_time, devices) = (node.observed_time, report.as_ref().and_then(devices_of));
        let choices: Vec<Choice> = request.get_ref().choices.iter().map(choice_of).collect();
        let chosen = approval::decide(Review {
            slice_mode: node.mode == NodeMode::Slice.as_str(),
            lab: node.lab.unwrap_or_default(),
            host_blockers: &readiness.blockers,
            stale: stale(&discovery, latest.map(|latest| latest.id), node.instance_id),
            discovery_blockers: &found.blockers,
            // what the host said before the discovery says nothing against it
            devices: devices
                .as_ref()
                .filter(|_| observed_time > discovery.end_time),
            inspected: &inspected,
            candidates: &candidates,
            slots: &slots,
            requested: &request.get_ref().slot_indexes,
            choices: &choices,
        })
        .map_err(refused)?;
        let approved = self
            .ledger_approves(&mutation, &discovery, (&chosen, &inspected), &choices)
            .await?;
        self.record_approval(&mutation, &discovery, &approved, &choices)
            .await?;
        Ok(api::ListResourceSlotsResponse {
            slots: approved.into_iter().map(convert::slot).collect(),
            next_page_token: String::new(),
        })
    }

    /// A node is pushed before anything of it is approved.
    async fn ledger_knows(&self, node_id: Uuid) -> Result<()> {
        let key = node_id.to_string();
        if !ledger_sync::is_confirmed(&self.0.pool, Kind::Node, &key).await? {
            push_now(&self.0, Kind::Node, &key).await;
        }
        Ok(())
    }

    /// The ledger takes all of them or none, and the same key twice as once.
    async fn ledger_approves(
        &self,
        mutation: &Mutation,
        discovery: &TaskRow,
        (chosen, inspected): (&[Candidate], &[InspectedDevice]),
        choices: &[Choice],
    ) -> Result<Vec<ledger::LedgerSlot>> {
        let seen_at = discovery
            .end_time
            .map(|at| at.to_jiff().to_string())
            .unwrap_or_default();
        let evidence = format!(
            "discovery {} of host instance {} at {seen_at}: disks raw, not mounted, not in use, without signatures{}",
            discovery.id,
            discovery.instance_id.unwrap_or_default(),
            in_words(choices),
        );
        let definition = |candidate: &Candidate| ledger::SlotDefinition {
            slot_index: candidate.slot_index,
            slot_class: candidate.slot_class.clone(),
            bindings: Some(candidate.bindings.clone()),
            // of the disk that the slot gets, whichever was proposed
            storage_transition_manifest: inspected
                .iter()
                .find(|one| one.device == candidate.bindings.nvme_device)
                .map(|one| one.storage_transition_manifest.clone())
                .unwrap_or_default(),
        };
        let request = ledger::ApproveSlotsRequest {
            node_id: discovery.node_id.to_string(),
            slots: chosen.iter().map(definition).collect(),
            principal: mutation.caller.principal.clone(),
            request_id: mutation.caller.request_id.clone(),
            evidence,
            idempotency_key: mutation.key.clone(),
            instance_id: discovery.instance_id.unwrap_or_default().to_string(),
            slot_generations: discovery.slot_generations.0.clone().into_iter().collect(),
        };
        let answer = self.0.ledger()?.approve_slots(request).await?.into_inner();
        // a retired slot may have had the index before
        let approved = |slot: &ledger::LedgerSlot| {
            slot.status() != SlotStatus::Retired
                && chosen
                    .iter()
                    .any(|chosen| chosen.slot_index == slot.slot_index)
        };
        Ok(answer.slots.into_iter().filter(approved).collect())
    }

    async fn record_approval(
        &self,
        mutation: &Mutation,
        discovery: &TaskRow,
        approved: &[ledger::LedgerSlot],
        choices: &[Choice],
    ) -> Result<()> {
        let approval_id = self.0.ids.next();
        let slot_ids = approved
            .iter()
            .map(|slot| slot.id.parse())
            .collect::<Result<Vec<Uuid>, _>>()
            .map_err(Error::internal)?;
        let slot_indexes = approved
            .iter()
            .map(|slot| i32::try_from(slot.slot_index))
            .collect::<Result<Vec<i32>, _>>()
            .map_err(Error::internal)?;
        let detail = serde_json::json!({
            "discovery_id": discovery.id, "slot_indexes": slot_indexes, "slot_ids": slot_ids,
            "choices": in_words(choices),
        });
        let detail = audit::with_digests_elsewhere(detail, LEDGER);
        let (key, node) = (approval_id.to_string(), discovery.node_id.to_string());
        let mut tx = self.0.pool.begin().await?;
        // a repeat that came while the ledger was asked, which took it once
        if mutation.take_key(&mut tx, &key).await?.is_some() {
            return Ok(());
        }
        mutation
            .audit(&mut tx, "slot.approve", ("node", &node), detail)
            .await?;
        let approval = NewApproval {
            id: approval_id,
            node_id: discovery.node_id,
            discovery_id: discovery.id,
            slot_indexes: &slot_indexes,
            slot_ids: &slot_ids,
            principal: &mutation.caller.principal,
        };
        approvals::insert(&mut tx, &approval).await?;
        tx.commit().await?;
        tracing::info!(node_id = node, discovery_id = %discovery.id, slots = ?slot_indexes, "approve slots");
        Ok(())
    }

    async fn approved_slots(
        &self,
        node_id: Uuid,
        approved: &[Uuid],
    ) -> Result<api::ListResourceSlotsResponse> {
        let slots = self.0.ledger_slots(node_id).await?.slots;
        let known = |slot: &ledger::LedgerSlot| {
            slot.id.parse().is_ok_and(|id: Uuid| approved.contains(&id))
        };
        Ok(api::ListResourceSlotsResponse {
            slots: slots.into_iter().filter(known).map(convert::slot).collect(),
            next_page_token: String::new(),
        })
    }

    pub(super) async fn disable(
        &self,
        request: &Request<api::DisableResourceSlotRequest>,
    ) -> Result<api::ResourceSlot> {
        let mutation = Mutation::of(request, "DisableResourceSlot")?;
        let request = request.get_ref();
        at_most("reason", &request.reason, MAX_REASON)?;
        self.set_disabled(
            &mutation,
            &request.node_id,
            &request.slot_id,
            Some(&request.reason),
            &request.etag,
        )
        .await
    }

    pub(super) async fn enable(
        &self,
        request: &Request<api::EnableResourceSlotRequest>,
    ) -> Result<api::ResourceSlot> {
        let mutation = Mutation::of(request, "EnableResourceSlot")?;
        let request = request.get_ref();
        let (node_id, slot_id) = (&request.node_id, &request.slot_id);
        self.set_disabled(&mutation, node_id, slot_id, None, &request.etag)
            .await
    }

    /// Disables with a reason, enables without one.
    async fn set_disabled(
        &self,
        mutation: &Mutation,
        node_id: &str,
        slot_id: &str,
        reason: Option<&str>,
        etag: &str,
    ) -> Result<api::ResourceSlot> {
        let node_id = id::parse("node_id", node_id)?;
        let slot_id = id::parse("slot_id", slot_id)?.to_string();
        let no_slot = || {
            Error::new(
                Code::NotFound,
                ErrorReason::SlotNotFound,
                format!("This node has no slot {slot_id}."),
            )
        };
        if mutation.made(&self.0.pool).await?.is_some() {
            return self
                .0
                .ledger_slot(node_id, &slot_id)
                .await?
                .map(convert::slot)
                .ok_or_else(no_slot);
        }
        self.row(node_id).await?;
        let request = ledger::SetSlotAdminStateRequest {
            node_id: node_id.to_string(),
            slot_id: slot_id.clone(),
            disabled: reason.is_some(),
            reason: reason.unwrap_or_default().to_owned(),
            principal: mutation.caller.principal.clone(),
            request_id: mutation.caller.request_id.clone(),
            idempotency_key: mutation.key.clone(),
            etag: etag.to_owned(),
        };
        let slot = self
            .0
            .ledger()?
            .set_slot_admin_state(request)
            .await?
            .into_inner();
        let action = if reason.is_some() {
            "slot.disable"
        } else {
            "slot.enable"
        };
        let detail = serde_json::json!({ "node_id": node_id, "reason": reason });
        let detail = audit::with_digests_elsewhere(detail, LEDGER);
        let mut tx = self.0.pool.begin().await?;
        if mutation.take_key(&mut tx, &slot_id).await?.is_none() {
            mutation
                .audit(&mut tx, action, ("slot", &slot_id), detail)
                .await?;
            tx.commit().await?;
            tracing::info!(%node_id, slot_id, action, "set intent of slot");
        }
        Ok(convert::slot(slot))
    }
}

/// What an operator has chosen, for the records; empty when nothing was.
fn in_words(choices: &[Choice]) -> String {
    let of = |choice: &Choice| {
        let given = [
            ("disk", &choice.nvme_device),
            ("function", &choice.fabric_vf_pci_address),
            ("wipe policy", &choice.destructive_wipe_policy),
        ];
        let given = given.iter().filter(|(_, value)| !value.is_empty());
        let given: Vec<String> = given
            .map(|(what, value)| format!("{what} {value}"))
            .collect();
        format!(
            "; chosen for slot {}: {}",
            choice.slot_index,
            given.join(", ")
        )
    };
    choices.iter().map(of).collect()
}

fn choice_of(choice: &api::SlotChoice) -> Choice {
    Choice {
        slot_index: choice.slot_index,
        nvme_device: choice.nvme_device.clone(),
        fabric_vf_pci_address: choice.fabric_vf_pci_address.clone(),
        destructive_wipe_policy: choice.destructive_wipe_policy.clone(),
    }
}

/// Why a discovery no longer describes the host.
fn stale(
    discovery: &TaskRow,
    latest: Option<Uuid>,
    instance: Option<Uuid>,
) -> Option<&'static str> {
    match discovery.state.as_str() {
        "completed" => {}
        "failed" => return Some("The discovery has failed; start another one."),
        _ => return Some("The discovery has not completed yet; wait for it."),
    }
    if latest != Some(discovery.id) {
        return Some("There is a newer discovery; review that one.");
    }
    if instance != discovery.instance_id {
        return Some("The host was reimaged after the discovery; start another one.");
    }
    (!discovery.fresh).then_some("The discovery is too old; start another one.")
}
