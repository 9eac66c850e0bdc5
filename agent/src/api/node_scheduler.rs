//! `NodeScheduler`: leases of approved slots (D-01, D-02), holds, and what is left over.
use std::collections::BTreeSet;
use std::time::Duration;

use gpuaas_proto::gpuaas::agent::v1 as pb;
use gpuaas_proto::gpuaas::agent::v1::node_scheduler_server::NodeScheduler;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use tonic::{Request, Response, Status};
use uuid::Uuid;

use super::{Shared, bindings, status};
use crate::bounded::Bounded;
use crate::dhcp::Reservation;
use crate::error::{HostError, HostResult};
use crate::gpu_fabric::{self, Difference};
use crate::host::blocking;
use crate::ids::{AllocationId, LeaseId, SlotId, Token, VM_PREFIX};
use crate::ingress::{Ingress, Owned};
use crate::journal::{LeaseRow, PowerRow};
use crate::lease::{LeaseSpec, MAX_SLOTS, Purpose};
use crate::operation::{network_group, rescue_host_key};
use crate::plan::plan;
use crate::settings::MIN_LEASE_S;
use crate::vm::{Domain, PowerState};
use crate::vm_files;
use crate::wall_clock::timestamp;

/// Shortest lease, and the default.
const MIN_LEASE: Duration = Duration::from_secs(MIN_LEASE_S);
const DEFAULT_LEASE: Duration = Duration::from_secs(300);

/// The service.
pub struct NodeSchedulerApi(pub Shared);

impl NodeSchedulerApi {
    async fn acquire(
        &self,
        request: pb::AcquireLeaseRequest,
    ) -> HostResult<pb::AcquireLeaseResponse> {
        let node = &self.0.node;
        let spec = parse_spec(&request)?;
        // Refused cheaply before the host is inspected; decided again when it is written.
        node.journal
            .check_lease(&spec, &node.clock.now())?
            .map_err(HostError::from)?;
        let holds = node.journal.holds()?;
        let touched = holds.iter().any(|hold| {
            hold.allocation == spec.allocation
                && hold.touched
                && spec.slots.iter().any(|(slot, _)| *slot == hold.slot)
        });
        let plan = plan(node, spec.allocation, &request, spec.purpose, touched).await?;
        let now = node.clock.now();
        let duration = self.duration(request.duration)?;
        let new_id = LeaseId(Uuid::now_v7());
        let granted =
            node.journal
                .grant_lease(&spec, new_id, &now.plus(duration), &now, &request, &plan)?;
        let lease = granted.map_err(HostError::from)?;
        tracing::info!(lease_id = %lease.id, allocation_id = %spec.allocation, "grant lease");
        Ok(pb::AcquireLeaseResponse {
            lease: Some(self.wire(&lease)),
            plan: Some(lease.plan),
        })
    }

    fn duration(&self, requested: Option<prost_types::Duration>) -> HostResult<Duration> {
        // at least the shortest, or the agent does not start
        let most = Duration::from_secs(self.0.node.settings.limits.max_lease_s);
        let Some(requested) = requested else {
            return Ok(DEFAULT_LEASE.min(most));
        };
        let requested = Duration::try_from(requested)
            .map_err(|_| HostError::invalid("duration", "must not be negative"))?;
        Ok(requested.clamp(MIN_LEASE, most))
    }

    fn wire(&self, lease: &LeaseRow) -> pb::Lease {
        let remaining = lease.expires.remaining(&self.0.node.clock.now());
        pb::Lease {
            lease_id: lease.id.to_string(),
            allocation_id: lease.allocation.to_string(),
            slot_ids: lease
                .request
                .slots
                .iter()
                .map(|slot| slot.slot_id.clone())
                .collect(),
            remaining: Some(gpuaas_common::time::proto_duration(remaining)),
        }
    }

    /// Changes whom a VM may reach. A VM that has no address here any more reaches nobody anyway.
    async fn set_network_group(&self, request: pb::SetNetworkGroupRequest) -> HostResult<()> {
        let node = &self.0.node;
        let wanted = request.network_group.unwrap_or_default();
        let allocation: AllocationId = wanted.allocation_id.parse()?;
        let group = network_group(&wanted.group)?;
        let vm = allocation.vm_name();
        if node.dhcp.regroup(&vm, group, request.version)? {
            tracing::info!(allocation_id = %allocation, group = wanted.group, "set network group");
        }
        node.network_rules.put().await.map(drop)
    }

    /// Leads external ports to the VM of an allocation, or leads them there no more.
    async fn set_ingress(&self, request: pb::SetIngressRequest) -> HostResult<()> {
        let node = &self.0.node;
        let wanted = request.ingress.unwrap_or_default();
        let parsed = Ingress::parse(&wanted)?;
        let owned = Owned::of(&node.settings.ingress);
        if owned.is_none() && !parsed.rules.is_empty() {
            let why = "the settings of this host name no address and ports for ingress mappings";
            return Err(HostError::host(ErrorReason::IngressOff, why));
        }
        if parsed
            .rules
            .iter()
            .any(|rule| !owned.is_some_and(|owned| owned.has(rule)))
        {
            let rule = "must be a port that the settings of this host name";
            return Err(HostError::invalid("external_port", rule));
        }
        let tokens = parse_tokens(&request.tokens)?;
        node.journal.set_ingress(&wanted, &tokens)?;
        tracing::info!(allocation_id = %parsed.allocation, version = parsed.version, rules = parsed.rules.len(),
            "set ingress");
        node.network_rules.put().await.map(drop)
    }

    async fn remove_leftovers(&self, allocation_id: &str) -> HostResult<Vec<&'static str>> {
        let of: AllocationId = allocation_id.parse()?;
        let removed = vm_files::remove_leftovers(&self.0.node, of).await?;
        if !removed.is_empty() {
            tracing::warn!(allocation_id = %of, ?removed, "remove leftovers");
        }
        Ok(removed)
    }

    async fn deactivate_partition(&self, id: u32) -> HostResult<()> {
        if gpu_fabric::steps::deactivate_unowned(&self.0.node, id).await? {
            tracing::warn!(partition = id, "deactivate a partition without an owner");
        }
        Ok(())
    }

    async fn holds(&self) -> HostResult<pb::ListHoldsResponse> {
        let node = &self.0.node;
        let now = node.clock.now();
        let holds = node.journal.holds()?.into_iter().map(|hold| pb::Hold {
            slot_id: hold.slot.to_string(),
            allocation_id: hold.allocation.to_string(),
            token: Some(hold.token.into()),
        });
        let leases = node.journal.leases()?;
        let live = leases
            .iter()
            .filter(|lease| !lease.expires.remaining(&now).is_zero());
        let domains = node
            .hypervisor
            .domains()
            .await?
            .into_iter()
            .filter(|one| one.name.starts_with(VM_PREFIX));
        let reservations = node.dhcp.reservations()?;
        let left = node.journal.power()?;
        let files = blocking::here(|| vm_files::list(node))?;
        let names = |of: BTreeSet<AllocationId>| {
            let names = of.into_iter().map(|one| one.vm_name().to_string());
            names.collect::<Vec<_>>()
        };
        let seeds_dir = node.seeds_dir();
        // libvirt's in-memory driver has no drives: what one is described with is never taken out
        let has_drives = !node.settings.libvirt_uri.starts_with("test:");
        // a switch that does not answer hides no VM, hold or file
        let ports = node
            .network_rules
            .guest_ports()
            .await
            .unwrap_or_else(|error| {
                tracing::warn!(%error, "cannot list the ports of VMs");
                Vec::new()
            });
        let partitions = node.journal.partitions()?.into_iter();
        let partitions = partitions.map(|one| one.allocation).collect();
        let domains = domains.map(|domain| {
            let seeds = Some(&*seeds_dir).filter(|_| has_drives);
            let missing = vm_files::missing(&node.root, seeds, &domain);
            let rescued = AllocationId::of_vm(&domain.name).filter(|one| {
                let folder = node.rescue_dir(&one.vm_name());
                let mut named = domain.disk_sources.iter();
                named.any(|path| std::path::Path::new(path).starts_with(&folder))
            });
            let keys = rescued.map_or(Ok(None), |one| rescue_host_key(&node.journal, one))?;
            let allocation = AllocationId::of_vm(&domain.name);
            let (guest, unwell) = allocation
                .map(|one| node.telemetry.guest(one))
                .unwrap_or_default();
            let state = domain_state(domain, &left, node.clock.boot_id());
            Ok(pb::DomainState {
                is_rescued: rescued.is_some(),
                rescue_host_keys: keys.into_iter().collect(),
                missing_files: missing.into_iter().map(str::to_owned).collect(),
                guest_state: guest.into(),
                guest_unwell_queries: unwell,
                ..state
            })
        });
        Ok(pb::ListHoldsResponse {
            holds: holds.collect(),
            leases: live.map(|lease| self.wire(lease)).collect(),
            domains: domains.collect::<HostResult<_>>()?,
            seeds: names(files.seeds),
            nvram: names(files.nvram),
            partitions: names(partitions),
            ports,
            ingress_ownership: Owned::of(&node.settings.ingress).map(Owned::to_wire),
            ingress: node.journal.ingress()?,
            partition_differences: node.gpu_fabric.as_ref().map_or_else(Vec::new, |fabric| {
                let found = fabric.differences().into_iter();
                found.map(partition_difference).collect()
            }),
            network_groups: reservations.iter().filter_map(network_group_of).collect(),
            reservations: reservations
                .into_iter()
                .map(|reservation| reservation.vm.to_string())
                .collect(),
        })
    }
}

fn partition_difference(one: Difference) -> pb::PartitionDifference {
    pb::PartitionDifference {
        kind: one.kind.as_str().to_owned(),
        partition_id: one.id,
        allocation_id: one.allocation.map(|id| id.to_string()).unwrap_or_default(),
        message: one.message,
        since: Some(timestamp(one.since_ms)),
    }
}

/// The network group of a VM of ours.
fn network_group_of(reservation: &Reservation) -> Option<pb::NetworkGroup> {
    let allocation = AllocationId::of_vm(reservation.vm.as_str())?;
    let group = reservation.group.map(|group| group.to_string());
    Some(pb::NetworkGroup {
        allocation_id: allocation.to_string(),
        group: group.unwrap_or_default(),
    })
}

/// A domain, with what the last operation left it in.
fn domain_state(domain: Domain, left: &[PowerRow], boot_id: &str) -> pb::DomainState {
    let row = left
        .iter()
        .find(|row| row.allocation.vm_name().as_str() == domain.name);
    let left_state = match row {
        Some(row) if row.running => PowerState::Running.as_str(),
        Some(_) => PowerState::ShutOff.as_str(),
        None => "",
    };
    pb::DomainState {
        name: domain.name,
        state: domain.state.as_str().to_owned(),
        left_state: left_state.to_owned(),
        host_restarted: row.is_some_and(|row| row.boot_id != boot_id),
        missing_files: Vec::new(),
        is_rescued: false,
        rescue_host_keys: Vec::new(),
        guest_state: 0,
        guest_unwell_queries: 0,
    }
}

/// Reads the tokens of a caller that works under a lease.
fn parse_tokens(tokens: &[pb::SlotToken]) -> HostResult<Bounded<(SlotId, Token), MAX_SLOTS>> {
    if tokens.is_empty() {
        return Err(HostError::invalid("tokens", "must be given"));
    }
    Bounded::parse("tokens", tokens, |one| {
        let token = one
            .token
            .ok_or_else(|| HostError::invalid("tokens.token", "must be given"))?;
        Ok((one.slot_id.parse()?, Token::from(token)))
    })
}

/// Most retired slots that had a device of one slot.
const MAX_REPLACED: usize = 64;

/// Reads a spec; every slot needs a token.
fn parse_spec(request: &pb::AcquireLeaseRequest) -> HostResult<LeaseSpec> {
    let mut devices = Vec::new();
    let mut replaced = Vec::new();
    let slots = Bounded::parse("slots", &request.slots, |slot| {
        let token = slot
            .token
            .ok_or_else(|| HostError::invalid("slots.token", "must be given"))?;
        let id: SlotId = slot.slot_id.parse()?;
        let named = bindings::devices(slot)?;
        devices.extend(named.into_iter().map(|device| (id, device)));
        if slot.replaced_slot_ids.len() > MAX_REPLACED {
            let rule = "must name at most 64 slots";
            return Err(HostError::invalid("slots.replaced_slot_ids", rule));
        }
        for other in &slot.replaced_slot_ids {
            replaced.push((id, other.parse()?));
        }
        Ok((id, Token::from(token)))
    })?;
    let allocation: AllocationId = request.allocation_id.parse()?;
    Ok(LeaseSpec {
        allocation,
        slots,
        devices,
        replaced,
        purpose: Purpose::from_wire(request.purpose)?,
    })
}

#[tonic::async_trait]
impl NodeScheduler for NodeSchedulerApi {
    async fn acquire_lease(
        &self,
        request: Request<pb::AcquireLeaseRequest>,
    ) -> Result<Response<pb::AcquireLeaseResponse>, Status> {
        self.acquire(request.into_inner())
            .await
            .map(Response::new)
            .map_err(status)
    }

    async fn renew_lease(
        &self,
        request: Request<pb::RenewLeaseRequest>,
    ) -> Result<Response<pb::Lease>, Status> {
        let request = request.into_inner();
        let renew = || -> HostResult<pb::Lease> {
            let id: LeaseId = request.lease_id.parse()?;
            let duration = self.duration(request.duration)?;
            let now = self.0.node.clock.now();
            let tokens = parse_tokens(&request.tokens)?;
            match self
                .0
                .node
                .journal
                .renew_lease(id, &tokens, duration, &now)?
            {
                Some(lease) => Ok(self.wire(&lease)),
                None => Err(HostError::host(
                    ErrorReason::LeaseExpired,
                    format!("lease {id} has ended"),
                )),
            }
        };
        renew().map(Response::new).map_err(status)
    }

    async fn release_lease(
        &self,
        request: Request<pb::ReleaseLeaseRequest>,
    ) -> Result<Response<pb::ReleaseLeaseResponse>, Status> {
        let request = request.into_inner();
        let release = || -> HostResult<()> {
            self.0.node.journal.end_lease(
                request.lease_id.parse()?,
                request.allocation_id.parse()?,
                &parse_tokens(&request.tokens)?,
            )
        };
        release().map_err(status)?;
        tracing::info!(
            lease_id = request.lease_id,
            allocation_id = request.allocation_id,
            "release lease"
        );
        Ok(Response::new(pb::ReleaseLeaseResponse {}))
    }

    async fn set_network_group(
        &self,
        request: Request<pb::SetNetworkGroupRequest>,
    ) -> Result<Response<pb::SetNetworkGroupResponse>, Status> {
        let set = Self::set_network_group(self, request.into_inner()).await;
        set.map_err(status)?;
        Ok(Response::new(pb::SetNetworkGroupResponse {}))
    }

    async fn set_ingress(
        &self,
        request: Request<pb::SetIngressRequest>,
    ) -> Result<Response<pb::SetIngressResponse>, Status> {
        let set = Self::set_ingress(self, request.into_inner()).await;
        set.map_err(status)?;
        Ok(Response::new(pb::SetIngressResponse {}))
    }

    async fn remove_leftovers(
        &self,
        request: Request<pb::RemoveLeftoversRequest>,
    ) -> Result<Response<pb::RemoveLeftoversResponse>, Status> {
        let removed = Self::remove_leftovers(self, &request.into_inner().allocation_id).await;
        let removed = removed.map_err(status)?.into_iter();
        let removed = removed.map(str::to_owned).collect();
        Ok(Response::new(pb::RemoveLeftoversResponse { removed }))
    }

    async fn deactivate_partition(
        &self,
        request: Request<pb::DeactivatePartitionRequest>,
    ) -> Result<Response<pb::DeactivatePartitionResponse>, Status> {
        let done = Self::deactivate_partition(self, request.into_inner().partition_id).await;
        done.map_err(status)?;
        Ok(Response::new(pb::DeactivatePartitionResponse {}))
    }

    async fn list_holds(
        &self,
        _: Request<pb::ListHoldsRequest>,
    ) -> Result<Response<pb::ListHoldsResponse>, Status> {
        self.holds().await.map(Response::new).map_err(status)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vm_that_shut_down_with_its_host_is_told_from_one_that_was_shut_down() {
        let allocation = AllocationId(Uuid::now_v7());
        let domain = |state| Domain {
            name: allocation.vm_name().to_string(),
            state,
            disk_sources: Vec::new(),
            untraced_sources: Vec::new(),
        };
        let row = |running, boot: &str| {
            vec![PowerRow {
                allocation,
                running,
                boot_id: boot.into(),
            }]
        };
        let said = |state, left: &[PowerRow]| {
            let said = domain_state(domain(state), left, "now");
            (said.left_state, said.host_restarted)
        };
        let off = PowerState::ShutOff;
        assert_eq!(said(off, &row(true, "before")), ("running".into(), true));
        assert_eq!(said(off, &row(true, "now")), ("running".into(), false));
        assert_eq!(said(off, &row(false, "before")), ("shut off".into(), true));
        assert_eq!(said(off, &[]), (String::new(), false));
    }

    #[test]
    fn a_request_with_too_many_slots_is_refused_by_name() {
        let slots = vec![pb::SlotGrant::default(); 10_000];
        let request = pb::AcquireLeaseRequest {
            slots,
            ..Default::default()
        };
        let error = parse_spec(&request).unwrap_err();
        assert_eq!(error.field, Some("slots"));
        assert_eq!(error.message, "must have at most 64 entries, not 10000");
        let error = parse_tokens(&vec![pb::SlotToken::default(); 65]).unwrap_err();
        assert_eq!(error.field, Some("tokens"));
    }
}
