//! Messages from hosts: enrolment and heartbeats.
use gpuaas_common::error::{Error, Result};
use gpuaas_common::identity::Peer;
use gpuaas_common::time::{from_proto_time, proto_duration};
use gpuaas_common::{audit, digest, id};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_proto::gpuaas::internal::inventory::v1::host_service_server::HostService;
use gpuaas_proto::gpuaas::internal::inventory::v1::{
    AgentUpdate, AgentUpdateReport, AgentUpdateState, EnrolRequest, EnrolResponse,
    GetInstanceIdentityKeysRequest, GetInstanceIdentityKeysResponse, HeartbeatRequest,
    HeartbeatResponse, IssueInstanceIdentityRequest, IssueInstanceIdentityResponse,
    RenewByKeyRequest, RenewRequest, RenewResponse, SlotFence,
};
use std::time::Duration;
use tonic::{Code, Request, Response, Status};
use uuid::Uuid;

use super::renewal::certificate;
use super::{Hosts, at_most, bad, text};
use crate::authority::{HostKey, Issued};
use crate::domain::names::AgentAddress;
use crate::domain::renewal::not_current;
use crate::domain::report_digest;
use crate::domain::{report, token};
use crate::store::enrolment::{self, NewInstance, TokenUse};
use crate::store::heartbeats::{self, Repeated};
use crate::store::ledger_sync::Kind;
use crate::store::nodes;
use crate::store::reports::{self, Heartbeat, Taken};
use crate::store::rollouts::{self, Reported};
use crate::workflow::ledger_sync::{push_now, set_desired_node, update_desired_node};

const MAX_TEXT: usize = 128;
const MAX_REASON: usize = 500;

#[tonic::async_trait]
impl HostService for Hosts {
    async fn enrol(
        &self,
        request: Request<EnrolRequest>,
    ) -> Result<Response<EnrolResponse>, Status> {
        Ok(Response::new(self.take_in(request.into_inner()).await?))
    }

    async fn renew(
        &self,
        request: Request<RenewRequest>,
    ) -> Result<Response<RenewResponse>, Status> {
        let peer = Peer::of(&request)?;
        Ok(Response::new(
            self.renew_as(&peer, request.into_inner()).await?,
        ))
    }

    async fn renew_by_key(
        &self,
        request: Request<RenewByKeyRequest>,
    ) -> Result<Response<RenewResponse>, Status> {
        Ok(Response::new(
            self.renew_with_key(request.into_inner()).await?,
        ))
    }

    async fn heartbeat(
        &self,
        request: Request<HeartbeatRequest>,
    ) -> Result<Response<HeartbeatResponse>, Status> {
        let peer = Peer::of(&request)?;
        let (node_id, node_mode) = self.take_heartbeat(&peer, request.into_inner()).await?;
        let reported = rollouts::reported(&self.0.pool, node_id).await;
        Ok(Response::new(HeartbeatResponse {
            next_interval: Some(proto_duration(self.interval())),
            node_mode,
            agent_update: reported.map_err(Error::from)?.map(agent_update),
        }))
    }

    async fn issue_instance_identity(
        &self,
        request: Request<IssueInstanceIdentityRequest>,
    ) -> Result<Response<IssueInstanceIdentityResponse>, Status> {
        let peer = Peer::of(&request)?;
        Ok(Response::new(
            self.issue_identity(&peer, request.into_inner()).await?,
        ))
    }

    async fn get_instance_identity_keys(
        &self,
        _request: Request<GetInstanceIdentityKeysRequest>,
    ) -> Result<Response<GetInstanceIdentityKeysResponse>, Status> {
        Ok(Response::new(self.identity_keys()?))
    }
}

impl Hosts {
    fn interval(&self) -> Duration {
        Duration::from_secs(self.0.config.heartbeat_interval_seconds.into())
    }

    async fn take_in(&self, request: EnrolRequest) -> Result<EnrolResponse> {
        text("token", &request.token, MAX_TEXT)?;
        text("boot_id", &request.boot_id, MAX_TEXT)?;
        text("machine_id", &request.machine_id, MAX_TEXT)?;
        text("agent_version", &request.agent_version, MAX_TEXT)?;
        at_most("host_profile", &request.host_profile, MAX_TEXT)?;
        at_most("hypervisor", &request.hypervisor, MAX_TEXT)?;
        text("agent_address", &request.agent_address, 2 * MAX_TEXT)?;
        let address = AgentAddress::parse(&request.agent_address).map_err(bad("agent_address"))?;

        let key = self.host_key(&request.csr_pem)?;
        let digest = token::digest(&request.token);
        let mut conn = self.0.pool.acquire().await?;
        let redeemable = enrolment::peek_token(&mut conn, &digest, &key.digest()).await?;
        drop(conn);
        let (node_id, enrolled_before) = redeemable.ok_or_else(bad_token)?;
        // checked before the token is used up: a host whose journal may be lost must not start without its fences
        let fences = if enrolled_before {
            self.fences(node_id).await?
        } else {
            Vec::new()
        };

        let instance = NewInstance {
            id: self.0.ids.next(),
            boot_id: &request.boot_id,
            machine_id: &request.machine_id,
            agent_version: &request.agent_version,
            agent_built_time: request.agent_built_time.as_ref().and_then(from_proto_time),
            agent_address: address.as_str(),
            host_profile: &request.host_profile,
            lab: request.lab,
            hypervisor: &request.hypervisor,
        };
        let (instance_id, issued) = self.store(node_id, &digest, &instance, &key).await?;
        push_now(&self.0, Kind::Node, &node_id.to_string()).await;
        Ok(EnrolResponse {
            node_id: node_id.to_string(),
            instance_id: instance_id.to_string(),
            certificate_pem: issued.chain_pem,
            ca_pem: self.0.trust_pem.clone(),
            fences,
            cell: self.0.cell.to_string(),
            heartbeat_interval: Some(proto_duration(self.interval())),
        })
    }

    /// Uses the token up for a new instance, or finds the one that it gave to the same key before.
    async fn store(
        &self,
        node_id: Uuid,
        digest: &[u8; 32],
        instance: &NewInstance<'_>,
        key: &HostKey,
    ) -> Result<(Uuid, Issued)> {
        let mut tx = self.0.pool.begin().await?;
        let used = enrolment::use_token(&mut tx, digest, node_id, &key.digest())
            .await?
            .ok_or_else(bad_token)?;
        let (instance_id, issued, detail) = match used {
            TokenUse::Fresh { token_id, reimaged } => {
                let issued = self.sign(node_id, instance.id, key)?;
                let stored = certificate(&issued, key);
                enrolment::insert_instance(&mut tx, token_id, node_id, instance, &stored).await?;
                set_desired_node(&mut tx, node_id, self.0.config.freshness(), reimaged).await?;
                let detail = serde_json::json!({
                    "instance_id": instance.id, "agent_version": instance.agent_version, "reimaged": reimaged,
                });
                (instance.id, issued, detail)
            }
            TokenUse::Again { instance_id } => {
                let issued = self.recertify(&mut tx, node_id, instance_id, key).await?;
                let detail = serde_json::json!({ "instance_id": instance_id, "again": true });
                (instance_id, issued, detail)
            }
        };
        // of the certificate that it gets
        let detail = audit::with_digests(detail, None, Some(&issued.chain_pem));
        let node = node_id.to_string();
        let entry = audit::Entry {
            principal: &format!("node:{node}"),
            action: "host.enrol",
            resource: "node",
            resource_id: &node,
            request_id: "",
            detail,
        };
        audit::record(&mut tx, entry).await?;
        tx.commit().await?;
        tracing::info!(%node_id, %instance_id, how = ?used, "enrol host");
        Ok((instance_id, issued))
    }

    /// Tokens that none ever issued for the node's slots is above.
    async fn fences(&self, node_id: Uuid) -> Result<Vec<SlotFence>> {
        let ledger = match self.0.ledger_slots(node_id).await {
            Ok(ledger) => ledger,
            // a node that never reached the ledger has no slots
            Err(error) if error.reason() == ErrorReason::NodeNotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let fence = |slot: gpuaas_proto::gpuaas::internal::scheduler::v1::LedgerSlot| SlotFence {
            slot_id: slot.id,
            cell_epoch: ledger.cell_epoch,
            slot_generation: u64::try_from(slot.generation).unwrap_or_default(),
            workflow_epoch: ledger.workflow_epoch,
        };
        Ok(ledger.slots.into_iter().map(fence).collect())
    }

    /// Takes in a heartbeat; returns the node and its mode, which its host judges itself by (INC-07).
    async fn take_heartbeat(
        &self,
        peer: &Peer,
        request: HeartbeatRequest,
    ) -> Result<(Uuid, String)> {
        let Peer::Host {
            node_id,
            instance_id,
        } = peer
        else {
            return Err(not_current());
        };
        text("boot_id", &request.boot_id, MAX_TEXT)?;
        text("agent_version", &request.agent_version, MAX_TEXT)?;
        text("agent_address", &request.agent_address, 2 * MAX_TEXT)?;
        let address = AgentAddress::parse(&request.agent_address).map_err(bad("agent_address"))?;
        let update = request
            .agent_update
            .as_ref()
            .map(CheckedUpdate::of)
            .transpose()?;
        let readiness = request.readiness.as_ref();
        if let Some(report) = readiness {
            report::check(report).map_err(|fault| {
                Error::invalid(format!("readiness.{}", fault.field), fault.rule)
            })?;
        }
        let images = readiness.map_or(&[][..], |report| &report.cached_image_digests);
        digest::check_images("readiness.cached_image_digests", images)?;
        let held_by = readiness.map_or(&[][..], |report| &report.hugepages_allocated_to);
        id::parse_all("readiness.hugepages_allocated_to", held_by)?;
        let observed_time = readiness
            .and_then(|report| report.observed_time.as_ref())
            .and_then(from_proto_time);
        let observed_uptime = readiness
            .and_then(|report| report.observed_uptime.as_ref())
            .map(report::nanos);
        let freshness = self.0.config.freshness();
        let digest = report_digest::digest(&request);
        if let Some(digest) = &digest {
            let report = Repeated {
                node_id: *node_id,
                instance_id: *instance_id,
                digest,
                observed_time,
                observed_uptime,
            };
            if let Some(mode) = heartbeats::repeat(&self.0.pool, report, freshness).await? {
                return Ok((*node_id, mode));
            }
        }
        let heartbeat = Heartbeat {
            node_id: *node_id,
            instance_id: *instance_id,
            boot_id: &request.boot_id,
            agent_version: &request.agent_version,
            agent_built_time: request.agent_built_time.as_ref().and_then(from_proto_time),
            agent_address: address.as_str(),
            readiness,
            observed_time,
            observed_uptime,
        };
        let mut tx = self.0.pool.begin().await?;
        match reports::heartbeat(&mut tx, heartbeat).await? {
            Taken::In => {}
            Taken::NotCurrent => return Err(not_current()),
            Taken::Outdated => return Err(outdated()),
        }
        if let Some(said) = &update {
            let about = (said.rollout_id, said.attempt);
            rollouts::note_report(&mut tx, *node_id, about, said.state, said.reason).await?;
        }
        let observed = readiness.map(|_| observed_time);
        heartbeats::note(
            &mut tx,
            *node_id,
            *instance_id,
            observed,
            digest.as_ref(),
            (&request.boot_id, observed_uptime),
            freshness,
        )
        .await?;
        let news = update_desired_node(&mut tx, *node_id, freshness, false).await?;
        let mode = nodes::mode(&mut tx, *node_id).await?;
        tx.commit().await?;
        if news {
            tracing::info!(%node_id, %instance_id, "note change of host");
            self.0.push_due.notify_one();
        }
        Ok((*node_id, mode))
    }
}

/// What a host says of the update of its agent, checked.
struct CheckedUpdate<'a> {
    rollout_id: Uuid,
    attempt: i32,
    state: &'static str,
    reason: &'a str,
}

impl<'a> CheckedUpdate<'a> {
    fn of(report: &'a AgentUpdateReport) -> Result<Self> {
        at_most("agent_update.reason", &report.reason, MAX_REASON)?;
        let state = match report.state() {
            AgentUpdateState::Waiting => "waiting",
            AgentUpdateState::Fetching => "fetching",
            AgentUpdateState::Installing => "installing",
            AgentUpdateState::Installed => "installed",
            AgentUpdateState::Failed => "failed",
            AgentUpdateState::Unspecified => {
                return Err(Error::invalid("agent_update.state", "must be a state"));
            }
        };
        Ok(Self {
            rollout_id: id::parse("agent_update.rollout_id", &report.rollout_id)?,
            attempt: i32::try_from(report.attempt).map_err(|_| {
                Error::invalid("agent_update.attempt", "must be at most 2147483647")
            })?,
            state,
            reason: &report.reason,
        })
    }
}

fn agent_update(reported: Reported) -> AgentUpdate {
    AgentUpdate {
        rollout_id: reported.rollout_id.to_string(),
        attempt: u32::try_from(reported.attempt).unwrap_or_default(),
        version: reported.version,
        digest: reported.digest,
        size_bytes: reported.size_bytes,
        rollback: reported.rollback,
    }
}

fn outdated() -> Error {
    Error::new(
        Code::FailedPrecondition,
        ErrorReason::ReportStale,
        "The report was observed before the last one of this boot; send a newer one.",
    )
}

fn bad_token() -> Error {
    Error::new(
        Code::Unauthenticated,
        ErrorReason::EnrolmentTokenInvalid,
        "The enrolment token is unknown, used or expired; create a new one.",
    )
}
