"""Messages and enums of the API. An enum may get new values: take one that you do not know as such.

Generated from docs/reference/openapi.json by `make sdk`; do not edit.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

__all__ = [
    "Access",
    "Activity",
    "ActorKind",
    "AgentRollout",
    "AgentRolloutNode",
    "AgentRolloutNodeState",
    "AgentRolloutState",
    "AgentRolloutWave",
    "Allocation",
    "AllocationChange",
    "AllocationCondition",
    "AllocationConfig",
    "AllocationDetail",
    "AllocationFailure",
    "AllocationGrant",
    "AllocationMetrics",
    "AllocationPermission",
    "AllocationSshKey",
    "AllocationState",
    "AllocationStatus",
    "AllocationUserData",
    "AllowedNames",
    "ApiKey",
    "ApiKeyScope",
    "AttachedHostReport",
    "AuditChain",
    "AuditLedgerResponse",
    "AuditOutcome",
    "AuditPosition",
    "AuditRecord",
    "Availability",
    "BatchCreateAllocationsResponse",
    "BindingComparison",
    "BreakFix",
    "BreakFixAction",
    "Caller",
    "CallerOrganisation",
    "CandidateSummary",
    "CapacityBucket",
    "CapacityReservation",
    "CapacityReservationConfig",
    "CapacityReservationMetadata",
    "CapacityReservationState",
    "CapacityReservationStatus",
    "CapacityShape",
    "ChangeKind",
    "CheckSeverity",
    "Claim",
    "ComparisonCorrection",
    "ComparisonState",
    "ComparisonVerdict",
    "CreateAllocationRequest",
    "CreateTerminalSessionResponse",
    "DeactivatePartitionResponse",
    "DefragmentationStep",
    "DefragmentationSuggestion",
    "DeleteAllocationGrantResponse",
    "DeleteNodeResponse",
    "DeleteProjectSshKeyResponse",
    "DeleteRegionResponse",
    "DeleteScimGroupMappingResponse",
    "DeleteServiceAccountResponse",
    "DeleteSshKeyResponse",
    "DeleteWebhookResponse",
    "DiscoveryState",
    "DiskErase",
    "DiskHealth",
    "DiskUse",
    "DiskUseKind",
    "DriverStrategy",
    "EnrolmentToken",
    "ErrorReason",
    "EvacuatedAllocation",
    "EvacuationPlan",
    "Evidence",
    "EvidenceStatus",
    "ExchangeApiKeyResponse",
    "ExplainNodesResponse",
    "ExportAuditRecordsResponse",
    "FabricDevice",
    "FabricPort",
    "FindingSeverity",
    "FleetCounts",
    "FleetNode",
    "FleetOccupant",
    "FleetPool",
    "FleetReservation",
    "FleetRollup",
    "ForceRelease",
    "GetTerminalRecordingResponse",
    "GpuDevice",
    "GpuFabric",
    "GpuModuleSet",
    "GuestMetricsState",
    "HealthEvent",
    "HealthState",
    "HostFate",
    "HostInstance",
    "HostInventory",
    "HostLocation",
    "HostReport",
    "HostReportByHand",
    "HostReportCheck",
    "Image",
    "ImageStatus",
    "IngressMapping",
    "IngressMappingConfig",
    "IngressMappingState",
    "IngressMappingStatus",
    "IngressProtocol",
    "InspectedDevice",
    "Invitation",
    "InvitationState",
    "LaunchCapacity",
    "LedgerInvariant",
    "LinkNeighbor",
    "ListActivitiesResponse",
    "ListAgentRolloutsResponse",
    "ListAllAllocationsResponse",
    "ListAllOrganisationsResponse",
    "ListAllReservationsResponse",
    "ListAllocationGrantsResponse",
    "ListAllocationTerminalSessionsResponse",
    "ListAllocationsResponse",
    "ListApiKeysResponse",
    "ListAuditChainsResponse",
    "ListAuditRecordsResponse",
    "ListAvailabilityResponse",
    "ListBreakFixesResponse",
    "ListCapacityHistoryResponse",
    "ListCapacityReservationsResponse",
    "ListFleetNodesResponse",
    "ListHealthEventsResponse",
    "ListHostReportsResponse",
    "ListImagesResponse",
    "ListIngressMappingsResponse",
    "ListNodeFindingsResponse",
    "ListNodeHistoryResponse",
    "ListNodeImageCacheResponse",
    "ListNodePlacementsResponse",
    "ListNodesResponse",
    "ListOrganisationInvitationsResponse",
    "ListOrganisationMembersResponse",
    "ListOrganisationWebhooksResponse",
    "ListOrganisationsResponse",
    "ListPriceVersionsResponse",
    "ListPrincipalsResponse",
    "ListProjectInvitationsResponse",
    "ListProjectMembersResponse",
    "ListProjectSshKeysResponse",
    "ListProjectWebhooksResponse",
    "ListProjectsResponse",
    "ListQueueResponse",
    "ListRegionsResponse",
    "ListResourceSlotHistoryResponse",
    "ListResourceSlotsResponse",
    "ListScimGroupsResponse",
    "ListScimKeysResponse",
    "ListServiceAccountsResponse",
    "ListSkusResponse",
    "ListSlotWipeCertificatesResponse",
    "ListSshKeysResponse",
    "ListTerminalSessionsResponse",
    "ListTimelineResponse",
    "ListUsageResponse",
    "ListWebhookDeliveriesResponse",
    "ListWipeCertificatesResponse",
    "Machine",
    "Member",
    "MemberRole",
    "MetricPoint",
    "MetricSeries",
    "Money",
    "NetworkAddress",
    "NetworkAddressKind",
    "Node",
    "NodeChange",
    "NodeComparison",
    "NodeComparisonRow",
    "NodeConfig",
    "NodeDifference",
    "NodeDifferenceSubject",
    "NodeFinding",
    "NodeHistoryEntry",
    "NodeImage",
    "NodeLabels",
    "NodeLife",
    "NodeLifeState",
    "NodePlacement",
    "NodePreservation",
    "NodeState",
    "NodeStatus",
    "NodeTask",
    "NodeVerdict",
    "NumaNode",
    "NvmeDisk",
    "OnboardingState",
    "OnboardingStep",
    "Organisation",
    "OrganisationGuardrails",
    "PciFunction",
    "PciLink",
    "PlacementConstraints",
    "PlacementExplanation",
    "PlannedAllocation",
    "PlannedMove",
    "PlannedPlacement",
    "PlatformRole",
    "PowerState",
    "PreservationReport",
    "PriceVersion",
    "Principal",
    "PrincipalKind",
    "Priority",
    "Processor",
    "Progress",
    "Project",
    "ProjectAllocationLimit",
    "ProjectNetwork",
    "ProjectPriority",
    "ProjectQuota",
    "ProjectQuotas",
    "ProjectReservationLimit",
    "QueueStatus",
    "QueuedRequest",
    "ReadSerialLogResponse",
    "ReadinessCheck",
    "ReadinessResult",
    "RecoverableNode",
    "Region",
    "RemoveOrganisationMemberResponse",
    "RemoveProjectMemberResponse",
    "ResourceMetadata",
    "ResourceSlot",
    "Role",
    "RuntimeProfile",
    "ScimGroup",
    "ScimGroupMapping",
    "ScimKey",
    "ScimSettings",
    "ScimSubjectAttribute",
    "ScorePart",
    "SerialLogPart",
    "ServiceAccount",
    "Sku",
    "SlotBindings",
    "SlotCandidate",
    "SlotChange",
    "SlotChoice",
    "SlotComparison",
    "SlotDrift",
    "SlotHistoryEntry",
    "SlotRepair",
    "SlotStatus",
    "SshKey",
    "TenantAllocation",
    "TenantState",
    "TerminalKind",
    "TerminalSession",
    "TimelineEntry",
    "TimelineState",
    "TopologyDiscovery",
    "UnavailableReason",
    "UsageInterval",
    "UsageTotal",
    "VirtualFunction",
    "VmMetric",
    "VmResources",
    "Wait",
    "WatchAllocationResponse",
    "WatchAllocationsResponse",
    "WatchEnd",
    "WatchHeartbeat",
    "WatchNodesResponse",
    "WatchSynced",
    "Webhook",
    "WebhookDelivery",
    "WebhookDeliveryState",
    "WebhookState",
    "WipeCertificate",
]

ActorKind = Literal["unspecified", "user", "service_account", "operator", "platform"]
"""ActorKind is the kind of who did something.
- `user`: A person.
- `service_account`: A service account of the project or its organisation.
- `operator`: An operator of the platform, whose name is not shown.
- `platform`: The platform itself, for example at the release time of an allocation.
"""

AgentRolloutNodeState = Literal["unspecified", "pending", "updating", "succeeded", "failed", "skipped"]
"""AgentRolloutNodeState of one node of a rollout.
- `succeeded`: Its heartbeat names the version, and its readiness is as before or better.
- `skipped`: Left as it was: its host did not report, it was retired, or the rollout was aborted.
"""

AgentRolloutState = Literal["unspecified", "running", "paused", "completed", "aborted"]
"""AgentRolloutState of a rollout.
- `paused`: By an operator, or because more nodes failed than the limit: see state_reason.
- `completed`: Every wave has ended.
"""

AllocationPermission = Literal["unspecified", "terminal", "serial_log"]
"""AllocationPermission is what a grant permits on an allocation.
- `terminal`: Open terminals.
- `serial_log`: Read the serial log.
"""

AllocationState = Literal[
    "unspecified",
    "requested",
    "reserved",
    "provisioning",
    "active",
    "releasing",
    "released",
    "failed",
]
"""AllocationState (C-01, C-02).
- `requested`: Queued: nothing is reserved or billed.
- `reserved`: Slots are claimed.
"""

ApiKeyScope = Literal["unspecified", "read", "billing", "write", "terminal", "manage", "scim"]
"""ApiKeyScope says what of its service account's rights a key has.
- `read`: Reads.
- `billing`: Usage, prices and limits.
- `write`: Changes: launch, power, release, reservations, networks.
- `terminal`: Terminals and their recordings.
- `manage`: The project itself, its members, service accounts and keys.
- `scim`: SCIM for the organisation that the project is of: its people and groups at /scim/v2. Only an owner of the
organisation makes such a key.
"""

AuditOutcome = Literal["unspecified", "allowed", "denied"]
"""AuditOutcome is how an attempt ended.
- `allowed`: It was allowed, and done.
- `denied`: It was refused, and changed nothing.
"""

CapacityReservationState = Literal["unspecified", "scheduled", "gathering", "active", "ended", "canceled"]
"""CapacityReservationState of a reservation.
- `scheduled`: Not started; nothing is reserved.
- `gathering`: Started, and GPUs are missing: they are added as they become free.
- `active`: All GPUs are reserved.
- `ended`: The end time was reached, or all GPUs were released unused.
"""

CapacityShape = Literal["unspecified", "baremetal", "gpu_slice"]
"""CapacityShape of a SKU and of an allocation (B-01..B-04). The set is closed.
- `baremetal`: Bare metal: a node alone.
- `gpu_slice`: A VM with dedicated GPUs, disks and fabric functions of one node.
"""

ChangeKind = Literal["unspecified", "added", "modified", "ended"]
"""ChangeKind of a watched resource. Added and modified both contain its full state.
- `added`: New to this watch: part of the initial state, or created since.
- `modified`: Sent before, and changed.
- `ended`: Ended; this is its last state.
"""

CheckSeverity = Literal["unspecified", "hard", "warn", "info"]
"""CheckSeverity is the effect of a failed check. The checks, with what to do about each, are listed in the runbook
host-checks.
- `hard`: A failure makes what it concerns unschedulable.
- `warn`: A failure is a warning.
- `info`: Informational; neither outcome is a fault.
"""

ComparisonCorrection = Literal[
    "unspecified",
    "adopt",
    "finish",
    "undo",
    "report",
    "repair_slot",
    "deactivate_partition",
]
"""ComparisonCorrection is what an operator can have done about a row of a comparison.
- `adopt`: Record in the ledger what is there.
- `finish`: Bring it to what the ledger has, such as to start a VM that ended with its host.
- `undo`: Remove what is left over: VM, reservation, port, seed, NVRAM; never a disk's content.
- `report`: Note in the audit trail that an operator has seen it. It changes nothing; the detail has the remedy.
- `repair_slot`: Of a difference of a slot: RepairResourceSlot of that slot. What its host has of an allocation that
is over is removed, its disk is wiped and proven empty, and its devices are bound again. Never while somebody claims
it.
- `deactivate_partition`: Of a difference of an NVSwitch partition: DeactivatePartition. Never while somebody claims
it.
"""

ComparisonState = Literal["unspecified", "new", "same", "different", "not_found"]
"""ComparisonState is how a candidate and a slot compare.
- `new`: A candidate that is no slot yet.
- `same`: The candidate has what was approved.
- `not_found`: The discovery has no candidate for the slot.
"""

ComparisonVerdict = Literal["unspecified", "agrees", "adopt", "finish", "undo", "report"]
"""ComparisonVerdict is what follows from a comparison.
- `agrees`: All three have the same.
- `adopt`: The ledger takes over what is there.
- `finish`: A workflow brings it to its end, or is about to.
- `undo`: The platform removes what is there.
- `report`: The platform leaves it alone: an operator decides.
"""

DiscoveryState = Literal["unspecified", "queued", "running", "completed", "failed"]
"""DiscoveryState of a discovery."""

DiskUseKind = Literal[
    "unspecified",
    "partition",
    "mount",
    "swap",
    "lvm",
    "raid",
    "crypt",
    "multipath",
    "cache",
    "loop",
    "zfs",
    "process",
    "other",
]
"""DiskUseKind of what uses a disk.
- `process`: A process that holds it open.
- `other`: Stacked on it and of none of these kinds.
"""

DriverStrategy = Literal["unspecified", "none", "cloud_init", "preinstalled"]
"""DriverStrategy is the way a guest gets its GPU drivers (E-10, E-11).
- `none`: The image needs none.
- `cloud_init`: cloud-init installs them at first boot.
- `preinstalled`: They are in the image.
"""

ErrorReason = Literal[
    "unspecified",
    "field_invalid",
    "field_required",
    "field_unknown",
    "body_malformed",
    "body_too_large",
    "page_token_invalid",
    "route_unknown",
    "resume_token_invalid",
    "resume_token_expired",
    "idempotency_key_missing",
    "idempotency_key_reused",
    "credential_missing",
    "credential_invalid",
    "credential_expired",
    "permission_denied",
    "peer_not_allowed",
    "enrolment_token_invalid",
    "invitation_invalid",
    "second_factor_required",
    "guardrail",
    "allocation_not_found",
    "node_not_found",
    "slot_not_found",
    "sku_unknown",
    "image_unknown",
    "region_unknown",
    "project_unknown",
    "discovery_not_found",
    "not_found",
    "region_in_use",
    "gpu_count_not_allowed",
    "image_not_active",
    "image_not_compatible",
    "region_disabled",
    "quota",
    "state_conflict",
    "candidate_incomplete",
    "candidate_blocked",
    "discovery_stale",
    "already_exists",
    "etag_stale",
    "project_suspended",
    "project_closed",
    "project_in_use",
    "last_owner",
    "report_stale",
    "reservation_limit",
    "recording_required",
    "project_closing",
    "termination_protected",
    "no_capacity",
    "fragmented",
    "fabric_held",
    "incomplete_slot",
    "cleanup_blocked",
    "hugepages_missing",
    "node_draining",
    "slot_unhealthy",
    "slots_in_use",
    "affinity",
    "queued_ahead",
    "wait_expired",
    "capacity_reserved",
    "image_not_cached",
    "node_vm_limit",
    "disks_being_wiped",
    "claimed",
    "host_not_ready",
    "lease_held",
    "lease_required",
    "lease_expired",
    "fenced",
    "disk_unsafe",
    "device_missing",
    "image_digest_mismatch",
    "image_pull_failed",
    "hypervisor_failed",
    "guest_no_address",
    "guest_no_login",
    "wipe_not_proven",
    "operation_not_found",
    "operation_conflict",
    "host_unreachable",
    "host_replaced",
    "host_key_mismatch",
    "host_clock_skewed",
    "serial_log_unavailable",
    "guest_not_ready",
    "gpu_partition_unavailable",
    "metrics_unavailable",
    "device_reset_failed",
    "ingress_off",
    "device_not_bound",
    "deadline_exceeded",
    "overloaded",
    "dependency_unavailable",
    "internal",
    "rate_limited",
    "image_being_verified",
]
"""ErrorReason names why a call was refused or failed.
- `field_invalid`: The request itself is wrong.
- `resume_token_invalid`: The resume token is malformed or belongs to another watch.
- `resume_token_expired`: The changes since the resume token are no longer available: watch again without one.
- `idempotency_key_missing`: Idempotency.
- `credential_missing`: Identity.
- `invitation_invalid`: The invitation is unknown, expired, revoked, used, or for somebody else.
- `second_factor_required`: The caller may do this only after a sign-in with a second factor.
- `guardrail`: A guardrail that the owners of the organisation set forbids it, whatever the caller's role.
- `allocation_not_found`: Things that do not exist.
- `region_in_use`: Something is or was in the region, so it cannot be deleted.
- `gpu_count_not_allowed`: A rule of the product.
- `etag_stale`: The resource was changed after the caller had read it.
- `project_suspended`: The project or its organisation is suspended: what runs can be read, stopped and released.
- `project_closed`: The project or its organisation is closed.
- `project_in_use`: The project still has allocations or capacity reservations, or the organisation still has
projects.
- `last_owner`: Nobody would own it, or administer the platform, any more.
- `report_stale`: A host's report is older than the last one that was taken in.
- `reservation_limit`: The project would reserve more GPUs than its reservation limit allows.
- `recording_required`: The project's terminals must be recorded, and this one cannot be.
- `project_closing`: The project is being closed: launch again in a while.
- `termination_protected`: The allocation is protected from release.
- `no_capacity`: Unschedulable reasons (B-57, B-58).
- `queued_ahead`: Free, and goes to requests ahead in the queue.
- `wait_expired`: A queued request reached its deadline.
- `capacity_reserved`: Free, and reserved for another project.
- `image_not_cached`: Free, on a node that has not cached the required image.
- `node_vm_limit`: Free, on a node that has reached its VM limit.
- `disks_being_wiped`: Approved or repaired, and not proven empty yet.
- `claimed`: What would be removed is claimed, or held on its host.
- `host_not_ready`: Reported by a host.
- `host_replaced`: The host was installed anew since the slots were claimed: nothing of the allocation is on it.
- `host_key_mismatch`: At the guest's address another SSH host key answered than the one that was made for the
guest.
- `host_clock_skewed`: The host's clock is outside the validity of its certificate: nothing it signs can be
verified.
- `serial_log_unavailable`: The host has no serial log of the allocation: nothing was printed yet, or it is not
retained any more.
- `guest_not_ready`: The guest accepted the login and did not pass a readiness check of its image.
- `gpu_partition_unavailable`: The GPUs of the allocation cannot be connected: Fabric Manager does not offer or does
not activate their NVSwitch partition, or does not answer.
- `metrics_unavailable`: The allocation has no VM now, so it has no metrics.
- `device_reset_failed`: A GPU or function of the slot could not be reset after its last VM, or does not answer
since.
- `ingress_off`: The operator of the host gave the platform no address and ports for ingress mappings.
- `device_not_bound`: A device of the slot that another driver took could not be bound to VFIO again.
- `deadline_exceeded`: The system.
- `rate_limited`: Too many requests or streams of one caller are open at once, or too many came in a minute: try
again after the time in Retry-After.
- `image_being_verified`: The content of an image is being read and checked: repeat the request with the same
idempotency key.
"""

EvidenceStatus = Literal["unspecified", "pass", "fail", "warn", "skip"]
"""EvidenceStatus is the outcome of one check.
- `skip`: Does not apply to this host's profile; the detail has the reason.
"""

FindingSeverity = Literal["unspecified", "info", "warning", "critical"]
"""FindingSeverity of a finding.
- `warning`: To be looked at; nothing changes.
- `critical`: Disables the slot, or cordons the node.
"""

GuestMetricsState = Literal[
    "unspecified",
    "complete",
    "no_gpu_tool",
    "gpu_tool_failed",
    "no_login",
    "too_slow",
    "malformed",
    "off",
]
"""GuestMetricsState is the result of the last query of a guest. The set is closed.
- `complete`: It reported its memory and its GPUs.
- `no_gpu_tool`: It reported its memory; it has no nvidia-smi.
- `gpu_tool_failed`: It reported its memory; its nvidia-smi failed, or printed what is no table of GPUs.
- `no_login`: Nothing answers at its address, or the guest refuses the login.
- `too_slow`: It did not answer in time.
- `malformed`: Its answer is none.
- `off`: The operator of the host has turned queries of guests off.
"""

HealthState = Literal["unspecified", "healthy", "unknown", "degraded", "failed"]
"""HealthState is a slot's health. The set is closed (A-91, INC-13)."""

HostFate = Literal["unspecified", "powered_off", "disks_destroyed", "reinstalled", "written_off"]
"""HostFate is what an administrator attests of a host that is lost.
- `powered_off`: It is powered off and will stay off.
- `disks_destroyed`: Its disks are destroyed.
- `reinstalled`: It was reinstalled, and has enrolled again.
- `written_off`: Nobody can reach it; it is given up as it is.
"""

ImageStatus = Literal["unspecified", "disabled", "active"]
"""ImageStatus of an image (E-07).
- `active`: Published with a known digest (CON-10).
"""

IngressMappingState = Literal["unspecified", "pending", "active", "failed", "deleting"]
"""IngressMappingState of an ingress mapping.
- `pending`: The host has not opened the port yet.
- `active`: The host has opened the port.
- `failed`: The host refused it or does not answer.
- `deleting`: It has ended, and the host has not closed the port yet.
"""

IngressProtocol = Literal["unspecified", "tcp", "udp"]
"""IngressProtocol of an ingress mapping."""

InvitationState = Literal["unspecified", "pending", "accepted", "revoked", "expired"]
"""InvitationState is the state of an invitation."""

MemberRole = Literal["unspecified", "owner", "member", "viewer", "billing"]
"""MemberRole is a role in an organisation, where it counts in all of its projects, or in one project. Of two roles in
a project the stronger one counts; the strongest is first.
- `owner`: Manages members, keys and settings, and does what a member does.
- `member`: Launches and uses allocations.
- `viewer`: Sees everything, changes nothing.
- `billing`: Sees usage and cost.
"""

NetworkAddressKind = Literal[
    "unspecified",
    "management",
    "guests",
    "fabric",
    "bluefield",
    "link_local",
    "other",
    "overlay",
    "bmc",
]
"""NetworkAddressKind of an address.
- `management`: On the interface of the default route.
- `guests`: The gateway of the guests.
- `fabric`: IP over InfiniBand.
- `bluefield`: The link to a BlueField card.
- `link_local`: Valid on its link alone.
- `overlay`: On a tunnel: a VPN or another overlay, which leads to the host wherever it is.
- `bmc`: Of the board's management controller, which answers while the host is off. No interface of the host has it.
"""

NodeDifferenceSubject = Literal["unspecified", "binding", "disk", "network", "hold", "partition"]
"""NodeDifferenceSubject is what a difference is of.
- `binding`: A GPU or fabric function: it is there, at its place, and bound to the driver of slices.
- `disk`: A disk: it is there, the approved one, and used by nobody else.
- `network`: Addresses and rules of the guests' network.
- `hold`: A slot that the journal of the host holds for an allocation, and the ledger does not.
- `partition`: An NVSwitch partition.
"""

NodeLifeState = Literal[
    "unspecified",
    "registered",
    "enrolled",
    "validating",
    "ready",
    "cordoned",
    "draining",
    "maintenance",
    "broken",
    "retired",
    "deleted",
]
"""NodeLifeState of a node: registered → enrolled → validating → ready, which operators take out of service and return.
- `registered`: Its agent has not enrolled.
- `enrolled`: Enrolled, and its host has not reported yet (A-12).
- `validating`: It is not proven to be ready: see the reason and the onboarding steps (A-11).
- `ready`: Its slots are schedulable.
- `broken`: It has an open break-fix record.
- `retired`: Out of service for good.
- `deleted`: Registered by mistake. Only streams show it, once.
"""

NodeState = Literal["unspecified", "pending", "enrolled", "lost"]
"""NodeState of a node.
- `pending`: Registered; its agent has not enrolled.
- `lost`: Reports have stopped.
"""

OnboardingState = Literal["unspecified", "done", "current", "waiting", "not_needed"]
"""OnboardingState of a step.
- `current`: The next one.
- `waiting`: Waits for the steps before it.
- `not_needed`: Does not apply to the node's mode (A-47).
"""

PlatformRole = Literal["unspecified", "admin", "operator", "auditor"]
"""PlatformRole is a role on the whole platform.
- `admin`: May do everything.
- `operator`: Runs hosts and capacity.
- `auditor`: Reads everything, changes nothing.
"""

PowerState = Literal[
    "unspecified",
    "running",
    "stopping",
    "stopped",
    "starting",
    "rebooting",
    "rescuing",
    "rescued",
    "unrescuing",
]
"""PowerState of an active allocation. A stopped one is billed, because its GPUs stay allocated.
- `stopped`: The VM is off; it keeps its id, disk and address, and billing continues.
- `rescued`: The VM runs from a rescue image, with its own disks beside it, and is billed.
"""

PrincipalKind = Literal["unspecified", "user", "service_account"]
"""PrincipalKind says what a principal is.
- `user`: A person, who signs in with an issuer.
- `service_account`: A program. It does not sign in.
"""

Priority = Literal["unspecified", "low", "normal", "high"]
"""Priority of queued requests: higher ones are placed first. Each hour in the queue raises a request by one level.
- `normal`: The default.
"""

Role = Literal["unspecified", "platform_admin"]
"""Role of a principal on the whole platform. The set is closed.
- `platform_admin`: May call the methods of administrators.
"""

ScimSubjectAttribute = Literal["unspecified", "user_name", "external_id"]
"""ScimSubjectAttribute is the attribute of a SCIM user that is the subject in the tokens of the issuer.
- `user_name`: userName.
- `external_id`: externalId.
"""

SlotStatus = Literal[
    "unspecified",
    "available",
    "reserved",
    "provisioning",
    "active",
    "releasing",
    "cleanup",
    "cleanup_blocked",
    "disabled",
    "retired",
]
"""SlotStatus of a slot (A-90)."""

TenantState = Literal["unspecified", "active", "suspended", "closed"]
"""TenantState is the state of an organisation or a project.
- `suspended`: What runs can be read, stopped and released; nothing can be launched or started.
- `closed`: Ended for good: nothing runs, and nothing can be done.
"""

TerminalKind = Literal["unspecified", "shell", "ssh_tunnel"]
"""TerminalKind is what a session carries.
- `shell`: A shell with a terminal, which the platform logs in to.
- `ssh_tunnel`: A connection to the SSH server of the VM. The client logs in by itself, with its own key; the
platform carries what both encrypt.
"""

TimelineState = Literal["unspecified", "running", "done", "failed"]
"""TimelineState of one entry."""

VmMetric = Literal[
    "unspecified",
    "cpu_percent",
    "memory_used_bytes",
    "memory_total_bytes",
    "network_received_bytes_per_second",
    "network_sent_bytes_per_second",
    "disk_read_bytes_per_second",
    "disk_written_bytes_per_second",
    "gpu_utilization_percent",
    "gpu_memory_used_bytes",
    "gpu_memory_total_bytes",
    "gpu_temperature_celsius",
    "gpu_power_watts",
]
"""VmMetric is what is measured of a VM (D-90). The set is closed.
- `cpu_percent`: Time on CPUs, in percent of all vCPUs of the VM; of the host.
- `memory_used_bytes`: Bytes that the guest cannot give to other programs; of the guest.
- `memory_total_bytes`: Bytes that the guest has; of the guest.
- `network_received_bytes_per_second`: Bytes a second that the VM received on its network interface; of the host.
- `network_sent_bytes_per_second`: Bytes a second that the VM sent on its network interface; of the host.
- `disk_read_bytes_per_second`: Bytes a second that the VM read from its disks; of the host.
- `disk_written_bytes_per_second`: Bytes a second that the VM wrote to its disks; of the host.
- `gpu_utilization_percent`: Time in which a GPU ran a kernel, in percent; of the guest, as all that follow.
"""

WebhookDeliveryState = Literal["unspecified", "pending", "delivered", "failed"]
"""WebhookDeliveryState is how far a delivery is.
- `pending`: It is attempted until it succeeds or is too old.
"""

WebhookState = Literal["unspecified", "enabled", "disabled"]
"""WebhookState says whether a webhook gets events."""

@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Access is how the owner logs in."""
    guest_user: str = ""
    """Guest user, "u_" and 16 hex digits (C-19)."""
    private_ip: str = ""
    """Address inside the node's private network (C-16)."""
    ssh_port: int = 0
    """Port of sshd in the guest (C-16)."""
    ssh_ready: bool = False
    """A login with the relay key has succeeded (C-15)."""
    ssh_host: str = ""
    """Host and port that reach the guest from where the API is used."""
    ssh_host_port: int = 0
    ssh_host_keys: list[str] = dataclasses.field(default_factory=list)
    """Host key fingerprint lines of the guest ("ssh-ed25519 AAAA…"), to pin."""



@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """Activity is one thing that somebody did in a project, or was denied."""
    id: str = ""
    """Id of the audit record."""
    create_time: datetime | None = None
    actor: str = ""
    """Principal, for example "user:alice"; "operator": an operator of the platform; empty: the platform itself."""
    actor_kind: ActorKind = "unspecified"
    action: str = ""
    """For example "allocation.stop"."""
    summary: str = ""
    """In words, for example "Stopped the allocation" or "Denied: stop the allocation"."""
    kind: str = ""
    """Kind of thing: the first part of the action, for example "allocation"."""
    name: str = ""
    """Name of the thing, where the record has one."""
    resource: str = ""
    """Kind of the resource whose id follows, for example "allocation" or "project"."""
    resource_id: str = ""
    """Empty where the action names none."""
    allocation_id: str = ""
    """The allocation that it is about; empty: about none."""
    outcome: AuditOutcome = "unspecified"
    reason: str = ""
    """The reason that was given, for example by an operator."""



@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRollout:
    """AgentRollout."""
    id: str = ""
    version: str = ""
    """As agents report it; empty for a rollback, whose nodes each have the version before."""
    digest: str = ""
    """Of the package, "sha256:…"; empty for a rollback."""
    size_bytes: int = 0
    """Size of the package in bytes; 0 for a rollback."""
    state: AgentRolloutState = "unspecified"
    state_reason: str = ""
    """Why it is in this state."""
    rollback_of: str = ""
    """The rollout that is rolled back; empty for an update."""
    max_failures: int = 0
    """More failed nodes than these pause the rollout."""
    max_parallel: int = 0
    """Nodes that are updated at once."""
    node_timeout_seconds: int = 0
    """Time for one node from the start of its update until it is ready, in seconds."""
    current_wave: int = 0
    """Number of the wave whose turn it is."""
    waves: list[AgentRolloutWave] = dataclasses.field(default_factory=list)
    """Empty in a list."""
    total_nodes: int = 0
    succeeded_nodes: int = 0
    failed_nodes: int = 0
    principal: str = ""
    reason: str = ""
    """Of the operator who began it."""
    create_time: datetime | None = None
    end_time: datetime | None = None
    """Absent while it is not ended."""
    etag: str = ""



@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRolloutNode:
    """AgentRolloutNode."""
    node_id: str = ""
    hostname: str = ""
    rack: str = ""
    state: AgentRolloutNodeState = "unspecified"
    reason: str = ""
    """Why it is in this state, and the last report of its host."""
    version: str = ""
    """Version that it is brought to."""
    from_version: str = ""
    """Version before; empty until its turn."""
    agent_version: str = ""
    """Version that its agent reports now."""
    start_time: datetime | None = None
    end_time: datetime | None = None



@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRolloutWave:
    """AgentRolloutWave."""
    number: int = 0
    """From 1."""
    nodes: list[AgentRolloutNode] = dataclasses.field(default_factory=list)



@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """Allocation is GPU capacity that a project launched: a VM or bare metal."""
    id: str = ""
    """UUID."""
    config: AllocationConfig = dataclasses.field(default_factory=lambda: AllocationConfig())
    """The request. Never changes after creation."""
    status: AllocationStatus = dataclasses.field(default_factory=lambda: AllocationStatus())
    """The current state."""
    metadata: ResourceMetadata = dataclasses.field(default_factory=lambda: ResourceMetadata())
    placement: PlacementExplanation | None = None
    """In the answer to a dry run (validate_only): where it fits, and the unschedulable reasons of the other nodes.
    """
    display_name: str = ""
    """Name for people; empty: the name of its config."""
    creator: str = ""
    """Principal who launched it."""
    termination_protection: bool = False
    """A release by the project is refused while it is set; an operator's is not."""
    auto_release_time: datetime | None = None
    """When the platform releases it; absent: never."""
    etag: str = ""
    """Changes with what UpdateAllocation changes, and not with the state."""



@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationChange:
    """AllocationChange is an allocation as it is now."""
    kind: ChangeKind = "unspecified"
    allocation: Allocation | None = None



@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationCondition:
    """AllocationCondition is something unusual that the allocation is in."""
    type: str = ""
    """"host_lost": its host does not answer, or was installed anew. "device_drift": a device or address of it is not
    as it was approved. "stopped_by_operator" and "released_by_operator": the message has the reason.
    "no_readiness_checks": its image names none, so nothing has tried its GPUs in the guest (INC-24); a dry run has
    it, too.
    """
    message: str = ""
    """A sentence for the user."""
    since: datetime | None = None
    """Since when; for a host that does not answer, the time of its last report."""



@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationConfig:
    """AllocationConfig is the request."""
    project_id: str = ""
    """Project that owns the allocation and is billed."""
    name: str = ""
    """A DNS label, unique among the project's allocations that are not released or failed."""
    region_code: str = ""
    sku: str = ""
    gpu_count: int = 0
    image: str = ""
    """Slug of the image."""
    ssh_public_keys: list[str] = dataclasses.field(default_factory=list)
    capacity_shape: CapacityShape = "unspecified"
    placement: PlacementConstraints | None = None
    """Placement constraints. Empty: none. Absent: unknown, because an older release created it without recording them.
    """
    ssh_keys: list[AllocationSshKey] = dataclasses.field(default_factory=list)
    """The keys of ssh_public_keys in their order, as people know them."""
    user_data: AllocationUserData | None = None
    """What is shown of the launch's user data; absent: it had none."""



@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationDetail:
    """AllocationDetail."""
    allocation: Allocation | None = None
    node_id: str = ""
    claims: list[Claim] = dataclasses.field(default_factory=list)
    tasks: list[NodeTask] = dataclasses.field(default_factory=list)
    timeline: list[TimelineEntry] = dataclasses.field(default_factory=list)
    """Oldest first; the latest 500."""



@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationFailure:
    """AllocationFailure of a failed allocation."""
    reason: str = ""
    """A value of gpuaas.errors.v1.ErrorReason, without prefix."""
    message: str = ""
    """A sentence for the user."""
    advice: str = ""
    """What the user can do."""
    step: str = ""
    """The step that failed."""



@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationGrant:
    """AllocationGrant is a permission of one member of a project on one of its allocations."""
    id: str = ""
    project_id: str = ""
    allocation_id: str = ""
    principal: str = ""
    """The grantee, for example "user:bob"."""
    permission: AllocationPermission = "unspecified"
    creator: str = ""
    """Principal who granted it."""
    create_time: datetime | None = None
    expire_time: datetime | None = None
    """The grant has no effect from then on, nor while the grantee is not in the project."""



@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationMetrics:
    """AllocationMetrics is what was measured of a VM over time (D-90)."""
    allocation_id: str = ""
    step_seconds: int = 0
    """Length of a step in seconds; a point is the mean of one."""
    series: list[MetricSeries] = dataclasses.field(default_factory=list)
    """By metric, then GPU; without those that nothing was measured of."""
    guest_state: GuestMetricsState = "unspecified"
    """What came of the last query of the guest, which alone knows its memory and its GPUs."""
    guest_message: str = ""
    """Why memory or GPUs are missing, as a sentence; empty when nothing is, as the GPUs of a VM that has none."""



@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationSshKey:
    """AllocationSshKey is a key that an allocation was launched with."""
    name: str = ""
    """The name by which the launch gave it; empty: the launch gave the key itself."""
    fingerprint: str = ""
    """"SHA256:…", as ssh-keygen shows it."""



@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationStatus:
    """AllocationStatus is the current state."""
    state: AllocationState = "unspecified"
    power: PowerState = "unspecified"
    """Set while active."""
    failure: AllocationFailure | None = None
    """Why it failed, for the user; set in state FAILED only (C-05)."""
    progress: Progress | None = None
    """The running step; set while provisioning, releasing, stopping, starting, rebooting, rescuing or unrescuing.
    """
    access: Access | None = None
    """Where to log in; set once active. Not set for bare metal, which has no login yet."""
    vm: str = ""
    """Domain name on the host, "gpuaas-slice-" and the id without dashes (C-17). Empty for bare metal."""
    active_time: datetime | None = None
    release_time: datetime | None = None
    deadline: datetime | None = None
    """Deadline of the current state; past it the system fails or escalates."""
    lab: bool = False
    """True when the capacity is of the lab class: emulated, no GPU."""
    boot_id: str = ""
    """Boot id of the guest's kernel, a UUID, read at the login that verified the last start: it changes with every
    start and reboot. Empty while no login has verified that the VM runs.
    """
    billing: str = ""
    """The billing state, a sentence. An active allocation is billed, running or stopped, because its GPUs stay
    allocated.
    """
    queue: QueueStatus | None = None
    """Its position in the queue; set in state REQUESTED only."""
    conditions: list[AllocationCondition] = dataclasses.field(default_factory=list)
    """What is unusual about it now; empty when nothing is."""
    resources: VmResources | None = None
    """What its VM has, as it was when its slots were claimed. Absent before that, and for bare metal."""
    readiness_checks: list[ReadinessResult] = dataclasses.field(default_factory=list)
    """Results of the readiness checks of its image, in their order; they end with the first that failed. Empty when
    the image names none.
    """
    rescue_image: str = ""
    """Slug of the image that its VM is rescued with; empty when it is not. While it is rescued, the host keys of
    `access` are those of the rescue image.
    """



@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationUserData:
    """AllocationUserData identifies user data without showing it."""
    digest: str = ""
    """"sha256:" and 64 hex digits, of the text as it was sent."""
    size_bytes: int = 0



@dataclass(frozen=True, slots=True, kw_only=True)
class AllowedNames:
    """AllowedNames is a list that can be left out."""
    names: list[str] = dataclasses.field(default_factory=list)
    """At most 100 different ones; empty: all are allowed."""



@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """ApiKey is a credential of a service account."""
    id: str = ""
    service_account_id: str = ""
    display_name: str = ""
    scopes: list[ApiKeyScope] = dataclasses.field(default_factory=list)
    prefix: str = ""
    """What a log or a scanner shows of the key: all before the secret."""
    key: str = ""
    """The whole key. Only in the answer that made it."""
    creator: str = ""
    """Principal who made it."""
    create_time: datetime | None = None
    expire_time: datetime | None = None
    """Absent: never."""
    disable_time: datetime | None = None
    """Absent while it is good."""
    last_used_time: datetime | None = None
    """To the minute; absent: never used."""
    replaces: str = ""
    """The key in whose place it came; empty for a new one."""



@dataclass(frozen=True, slots=True, kw_only=True)
class AttachedHostReport:
    """AttachedHostReport is a report with who attached it."""
    id: str = ""
    """UUID."""
    node_id: str = ""
    report: HostReport | None = None
    principal: str = ""
    """Principal who attached it."""
    attach_time: datetime | None = None



@dataclass(frozen=True, slots=True, kw_only=True)
class AuditChain:
    """AuditChain is the state of the hash chain of one source."""
    source: str = ""
    start: AuditPosition | None = None
    """What the oldest record that is kept follows: what came before was removed when its retention was over. Position
    0 and a digest of zeros where nothing was removed.
    """
    head: AuditPosition | None = None
    """The newest sealed record; the start where there is none."""
    unsealed: int = 0
    """Records that are not sealed yet."""



@dataclass(frozen=True, slots=True, kw_only=True)
class AuditLedgerResponse:
    """AuditLedgerResponse."""
    audit_time: datetime | None = None
    """When the snapshot was taken."""
    sound: bool = False
    """Every invariant holds."""
    invariants: list[LedgerInvariant] = dataclasses.field(default_factory=list)
    """Every invariant, with its violations."""



@dataclass(frozen=True, slots=True, kw_only=True)
class AuditPosition:
    """AuditPosition is a place in a hash chain."""
    position: int = 0
    digest: str = ""
    """In hex."""



@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRecord:
    """AuditRecord is one privileged action, or the denial of one. It never changes."""
    id: str = ""
    source: str = ""
    """Database schema that keeps it: "placement", "inventory", "images", "terminal", "billing" or "edge". Each has a
    hash chain.
    """
    service: str = ""
    """Service that wrote it, by its database role. Empty for a record of a release that did not store it."""
    create_time: datetime | None = None
    """When it was written, by the database."""
    principal: str = ""
    """Who: for example "user:alice", or "service:scheduler" for work of the system itself."""
    action: str = ""
    """For example "slot.approve"."""
    resource: str = ""
    """Kind of resource, for example "slot"."""
    resource_id: str = ""
    """Empty where the action names none."""
    request_id: str = ""
    """X-Request-Id of the call; empty for work of the system itself."""
    address: str = ""
    """Address of the client; empty for work of the system itself."""
    user_agent: str = ""
    """Header User-Agent of the client, at most 200 characters."""
    region: str = ""
    """Region of the gateway that took the call (setting gateway.region)."""
    outcome: AuditOutcome = "unspecified"
    detail: str = ""
    """What else matters: a JSON object, as text, byte for byte as the digest covers it."""
    position: int = 0
    """Place in the hash chain, from 1 without a gap. 0 for a record of the last moments, which is not sealed yet.
    """
    digest: str = ""
    """SHA-256, in hex, of the digest before it and of this record in canonical JSON. Empty until it is sealed."""



@dataclass(frozen=True, slots=True, kw_only=True)
class Availability:
    """Availability of one GPU count of one SKU in one region."""
    region_code: str = ""
    sku: str = ""
    gpu_count: int = 0
    fits: int = 0
    """How many such allocations fit now."""
    reasons: list[UnavailableReason] = dataclasses.field(default_factory=list)
    """Unschedulable reasons; empty when something fits."""



@dataclass(frozen=True, slots=True, kw_only=True)
class BatchCreateAllocationsResponse:
    """BatchCreateAllocationsResponse."""
    allocations: list[Allocation] = dataclasses.field(default_factory=list)
    """In the order of the request; empty with validate_only."""



@dataclass(frozen=True, slots=True, kw_only=True)
class BindingComparison:
    """BindingComparison is one field of the bindings on both sides."""
    field: str = ""
    """Name in SlotBindings."""
    approved: str = ""
    """Empty: none."""
    found: str = ""
    """Empty: none."""
    differs: bool = False



@dataclass(frozen=True, slots=True, kw_only=True)
class BreakFix:
    """BreakFix is a record of work on a broken host by hand."""
    id: str = ""
    node_id: str = ""
    slot_id: str = ""
    """Empty: the host as a whole."""
    fault: str = ""
    opened_by: str = ""
    open_time: datetime | None = None
    actions: list[BreakFixAction] = dataclasses.field(default_factory=list)
    closed_by: str = ""
    """Empty while it is open."""
    close_time: datetime | None = None
    outcome: str = ""



@dataclass(frozen=True, slots=True, kw_only=True)
class BreakFixAction:
    """BreakFixAction is something that was done in this work."""
    time: datetime | None = None
    principal: str = ""
    action: str = ""



@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Caller is a registered principal as its token proves it."""
    principal: str = ""
    """Stable name in audit trails, for example "user:alice". Empty: the identity is not registered; an invitation can
    register it.
    """
    display_name: str = ""
    issuer: str = ""
    """The token's issuer."""
    subject: str = ""
    """The issuer's name for the principal."""
    roles: list[Role] = dataclasses.field(default_factory=list)
    """Administrators of the platform have it; platform_role says more."""
    projects: list[Project] = dataclasses.field(default_factory=list)
    """Projects that the principal is a member of, by itself or by its organisation, oldest membership first; not
    closed ones. Each has the caller's role. Requests that name no project use the only one.
    """
    expire_time: datetime | None = None
    """When the token expires."""
    kind: PrincipalKind = "unspecified"
    platform_role: PlatformRole = "unspecified"
    """On the whole platform; unspecified for who is only a member."""
    organisations: list[CallerOrganisation] = dataclasses.field(default_factory=list)
    """Organisations that the principal is a member of; not closed ones."""
    principal_id: str = ""
    """UUID of the principal."""
    email: str = ""
    """As the issuer has verified it; empty otherwise."""



@dataclass(frozen=True, slots=True, kw_only=True)
class CallerOrganisation:
    """CallerOrganisation is an organisation with the caller's role in it."""
    id: str = ""
    slug: str = ""
    display_name: str = ""
    role: MemberRole = "unspecified"
    state: TenantState = "unspecified"



@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateSummary:
    """CandidateSummary counts what the host has (A-69) and lists its blockers (A-72)."""
    gpu_devices: int = 0
    fabric_devices: int = 0
    nvme_devices: int = 0
    mounted_nvme_devices: int = 0
    candidate_slots: int = 0
    blockers: list[str] = dataclasses.field(default_factory=list)
    reboot_required: bool = False
    hugepages_1g_free: int = 0



@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityBucket:
    """CapacityBucket aggregates the samples of an interval, for a region and SKU."""
    start_time: datetime | None = None
    region_code: str = ""
    sku: str = ""
    nodes: int = 0
    """Maximum nodes with slots of the SKU's class."""
    gpus: int = 0
    """Maximum GPUs, schedulable or not."""
    gpus_in_use: int = 0
    """Maximum GPUs in use by allocations of this SKU, or blocked until a repair."""
    gpus_free: int = 0
    """Minimum GPUs free for launches of this SKU, counted one by one."""
    mean_gpus: float = 0.0
    """Mean GPUs over the samples of the interval."""
    mean_gpus_in_use: float = 0.0
    """Mean GPUs in use over the samples of the interval."""



@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityReservation:
    """CapacityReservation is GPUs that only one project can launch on, for a time window. It is not billed;
    allocations are.
    """
    id: str = ""
    """UUID."""
    config: CapacityReservationConfig = dataclasses.field(default_factory=lambda: CapacityReservationConfig())
    """The request. Never changes after creation."""
    status: CapacityReservationStatus = dataclasses.field(default_factory=lambda: CapacityReservationStatus())
    """The current state."""
    metadata: CapacityReservationMetadata = dataclasses.field(default_factory=lambda: CapacityReservationMetadata())



@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityReservationConfig:
    """CapacityReservationConfig is the request."""
    project_id: str = ""
    """Project; optional for a member of exactly one."""
    name: str = ""
    """A DNS label, unique among the project's reservations that have not ended."""
    region_code: str = ""
    sku: str = ""
    gpu_count: int = 0
    """A multiple of the smallest GPU count of the SKU, at most 1024."""
    start_time: datetime | None = None
    """Start time, at most 90 days from now; absent: now."""
    end_time: datetime | None = None
    """End time, at most 90 days after the start."""
    release_unused_after_seconds: int = 0
    """Idle release: seconds after which an unused GPU is released; 0: the site's maximum for reservations of members,
    otherwise never.
    """



@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityReservationMetadata:
    """CapacityReservationMetadata."""
    create_time: datetime | None = None
    update_time: datetime | None = None
    end_time: datetime | None = None
    """When it ended or was canceled."""
    created_by: str = ""
    """Principal that created it; "operator" for an operator, whom the audit trail names."""
    made_by_project: bool = False
    """A member created it, so it counts against the reservation limit and members can cancel it."""



@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityReservationStatus:
    """CapacityReservationStatus is the current state."""
    state: CapacityReservationState = "unspecified"
    reserved_gpus: int = 0
    """Reserved GPUs: used, unused and unavailable ones."""
    used_gpus: int = 0
    """Of them, in use by allocations of the project."""
    unused_gpus: int = 0
    """Of them, free for the project to launch on."""
    unavailable_gpus: int = 0
    """Of them, not in use and not schedulable, for instance because their node does not report."""
    unused_since: datetime | None = None
    """Since when the longest unused GPU is unused; absent when all are in use."""
    released_gpus: int = 0
    """GPUs released by idle release; the reservation has shrunk by so many."""
    reason: str = ""
    """The last change, a sentence."""
    launches: list[LaunchCapacity] = dataclasses.field(default_factory=list)
    """How many launches of each size fit on the unused GPUs; in the answers of get, create and cancel only."""



@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Claim binds an allocation to a slot or a node (B-20)."""
    id: str = ""
    kind: str = ""
    """"slot" or "node_exclusive"."""
    node_id: str = ""
    slot_id: str = ""
    slot_index: int = 0
    state: str = ""
    """reserved, provisioning, active, releasing, cleanup_blocked or released."""
    slot_generation: int = 0
    bindings: SlotBindings | None = None
    create_time: datetime | None = None



@dataclass(frozen=True, slots=True, kw_only=True)
class CreateAllocationRequest:
    """CreateAllocationRequest."""
    project_id: str = ""
    """Project that is billed; optional when the caller belongs to exactly one."""
    name: str = ""
    """A DNS label of at most 63 characters."""
    region_code: str = ""
    sku: str = ""
    gpu_count: int = 0
    """One of the SKU's allowed counts."""
    image: str = ""
    """Slug of an active image that the SKU can run."""
    ssh_public_keys: list[str] = dataclasses.field(default_factory=list)
    """OpenSSH public keys: with those of ssh_key_names one to ten different ones."""
    capacity_shape: CapacityShape = "unspecified"
    """Left out: the SKU's shape."""
    scheduler_type: str = ""
    """"slice" or "baremetal"; accepted for older clients and turned into capacity_shape (B-13)."""
    labels: dict[str, str] = dataclasses.field(default_factory=dict)
    validate_only: bool = False
    """Dry run: check everything, change nothing."""
    placement: PlacementConstraints | None = None
    """Placement constraints."""
    wait: Wait | None = None
    """Queue the launch if it does not fit now, instead of refusing it; see status.queue."""
    ssh_key_names: list[str] = dataclasses.field(default_factory=list)
    """Names of stored keys: the caller's own, otherwise the project's."""
    termination_protection: bool = False
    """Refuse a release by the project. Not together with a release time."""
    auto_release_time: datetime | None = None
    """Release it then, also while it is queued; in the future."""
    user_data: str = ""
    """User data for the VM's cloud-init, as plain text: "#cloud-config", "#!" and a program, or a MIME message of
    several. At most 16384 bytes, without NUL. It is taken beside the platform's own, which stays in force. The API
    does not show it, only its digest and size; whoever is in the VM can read it. Not for bare metal.
    """



@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTerminalSessionResponse:
    """CreateTerminalSessionResponse."""
    session_id: str = ""
    ticket: str = ""
    """64 hexadecimal digits; empty when the call is repeated. A secret: it goes into the first message of the
    WebSocket and nowhere else.
    """
    expire_time: datetime | None = None
    websocket_path: str = ""
    """Where to open the WebSocket."""
    subprotocol: str = ""
    """Subprotocol of the WebSocket."""
    recorded: bool = False
    """True when the session's output will be recorded."""
    kind: TerminalKind = "unspecified"
    """What the ticket opens."""



@dataclass(frozen=True, slots=True, kw_only=True)
class DeactivatePartitionResponse:
    """DeactivatePartitionResponse."""



@dataclass(frozen=True, slots=True, kw_only=True)
class DefragmentationStep:
    """DefragmentationStep is one node with the allocations to move off it."""
    node_id: str = ""
    hostname: str = ""
    moves: list[PlannedMove] = dataclasses.field(default_factory=list)
    gained: int = 0
    """Additional launches that fit in the region."""



@dataclass(frozen=True, slots=True, kw_only=True)
class DefragmentationSuggestion:
    """DefragmentationSuggestion is a plan of moves. Nothing is executed."""
    region_code: str = ""
    sku: str = ""
    gpu_count: int = 0
    fits_before: int = 0
    """Launches of the size that fit now, and after all steps."""
    fits_after: int = 0
    gpus_moved: int = 0
    steps: list[DefragmentationStep] = dataclasses.field(default_factory=list)
    """In order; empty when no moves within the limits help."""
    cut: bool = False
    """The search reached its limit; more moves may be possible."""
    notice: str = ""
    """Notes on the plan for operators, as sentences."""



@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteAllocationGrantResponse:
    """DeleteAllocationGrantResponse."""



@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteNodeResponse:
    """DeleteNodeResponse."""



@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteProjectSshKeyResponse:
    """DeleteProjectSshKeyResponse."""



@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRegionResponse:
    """DeleteRegionResponse."""



@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteScimGroupMappingResponse:
    """DeleteScimGroupMappingResponse."""



@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteServiceAccountResponse:
    """DeleteServiceAccountResponse."""



@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteSshKeyResponse:
    """DeleteSshKeyResponse."""



@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteWebhookResponse:
    """DeleteWebhookResponse."""



@dataclass(frozen=True, slots=True, kw_only=True)
class DiskErase:
    """DiskErase is how a disk can be erased."""
    discard: bool = False
    write_zeroes: bool = False
    format: bool = False
    format_reaches_all: bool = False
    """A format reaches all namespaces of the controller."""
    sanitize_crypto: bool = False
    sanitize_block: bool = False
    sanitize_overwrite: bool = False



@dataclass(frozen=True, slots=True, kw_only=True)
class DiskHealth:
    """DiskHealth is the health that a disk reports (SMART)."""
    critical_warning: int = 0
    """Bits of the critical warning; 0 is healthy."""
    percent_used: int = 0
    """Wear in percent of the rated life; it may exceed 100."""
    available_spare_percent: int = 0
    spare_threshold_percent: int = 0
    media_errors: int = 0
    error_log_entries: int = 0
    unsafe_shutdowns: int = 0
    power_on_hours: int = 0
    temperature_kelvin: int = 0



@dataclass(frozen=True, slots=True, kw_only=True)
class DiskUse:
    """DiskUse is one thing that uses a disk."""
    kind: DiskUseKind = "unspecified"
    device: str = ""
    """Kernel name of the partition or device that it is."""
    detail: str = ""
    """Mount point, volume name or RAID level."""



@dataclass(frozen=True, slots=True, kw_only=True)
class EnrolmentToken:
    """EnrolmentToken."""
    node_id: str = ""
    token: str = ""
    """Shown once. Empty on a replay of the same idempotency key."""
    expire_time: datetime | None = None



@dataclass(frozen=True, slots=True, kw_only=True)
class EvacuatedAllocation:
    """EvacuatedAllocation is an allocation on a node of the plan."""
    allocation: PlannedAllocation | None = None
    placement: PlannedPlacement | None = None
    """Where it would fit; absent when it fits nowhere or is being released."""
    reasons: list[UnavailableReason] = dataclasses.field(default_factory=list)
    """Unschedulable reasons over the other nodes of the region."""
    constraints_known: bool = False
    """False when its placement constraints are unknown, because an older release created it without recording them.
    """



@dataclass(frozen=True, slots=True, kw_only=True)
class EvacuationPlan:
    """EvacuationPlan simulates the evacuation of nodes. Nothing is executed."""
    region_code: str = ""
    allocations: list[EvacuatedAllocation] = dataclasses.field(default_factory=list)
    """In the order of placement: the largest first."""
    allocations_fit: int = 0
    """Allocations that fit elsewhere, and their GPUs."""
    gpus_fit: int = 0
    allocations_unplaceable: int = 0
    """Allocations that do not fit elsewhere, and their GPUs."""
    gpus_unplaceable: int = 0
    allocations_ending: int = 0
    """Allocations that are being released."""
    blocked_slots: int = 0
    """Slots of the nodes that need a repair; they prevent a node from being empty."""
    notice: str = ""
    """Notes on the plan for operators, as sentences."""



@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Evidence is one checked condition of a host, with what to do when it does not hold."""
    check: str = ""
    """Name of the check, for example "ovs_bridge"."""
    status: EvidenceStatus = "unspecified"
    """Outcome."""
    detail: str = ""
    """Details of the observation."""
    remediation: str = ""
    """What to do about a failure."""
    observed_at: datetime | None = None
    """When it was observed."""
    severity: CheckSeverity = "unspecified"
    """How much the check counts on this kind of host: a slice host, a lab host or a bare-metal host."""
    devices: list[str] = dataclasses.field(default_factory=list)
    """The devices that alone are at fault: PCI addresses and disk identities. Only the slots that have one of them are
    blocked. Empty: the outcome is the whole host's.
    """



@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeApiKeyResponse:
    """ExchangeApiKeyResponse."""
    token: str = ""
    """For the header Authorization, as "Bearer …"."""
    expire_time: datetime | None = None



@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainNodesResponse:
    """ExplainNodesResponse."""
    explanation: PlacementExplanation | None = None
    nodes: list[NodeVerdict] = dataclasses.field(default_factory=list)
    """Those that fit by score, then the others by id."""



@dataclass(frozen=True, slots=True, kw_only=True)
class ExportAuditRecordsResponse:
    """ExportAuditRecordsResponse."""
    records: list[AuditRecord] = dataclasses.field(default_factory=list)
    """Ascending by position; the last page when it is empty."""
    start: AuditPosition | None = None
    """What the first of these records follows."""
    head: AuditPosition | None = None
    """The newest sealed record of the source."""



@dataclass(frozen=True, slots=True, kw_only=True)
class FabricDevice:
    """FabricDevice is a physical InfiniBand, Ethernet or BlueField function with all its virtual ones."""
    function: PciFunction | None = None
    bluefield: bool = False
    rdma_device: str = ""
    """Name of the RDMA device, for example "mlx5_0"; empty when no driver has made one."""
    firmware_version: str = ""
    board_id: str = ""
    node_guid: str = ""
    ports: list[FabricPort] = dataclasses.field(default_factory=list)
    sriov_totalvfs: int = 0
    """Maximum number of virtual functions of the device, and how many are enabled."""
    sriov_numvfs: int = 0
    virtual_functions: list[VirtualFunction] = dataclasses.field(default_factory=list)
    interfaces: list[str] = dataclasses.field(default_factory=list)
    """Network interfaces of the physical function."""



@dataclass(frozen=True, slots=True, kw_only=True)
class FabricPort:
    """FabricPort is one port of an RDMA device."""
    number: int = 0
    link_layer: str = ""
    """"InfiniBand" or "Ethernet"."""
    state: str = ""
    """As the kernel writes it without its number, for example "ACTIVE"."""
    physical_state: str = ""
    rate: str = ""
    guid: str = ""



@dataclass(frozen=True, slots=True, kw_only=True)
class FleetCounts:
    """FleetCounts counts nodes or GPUs: delivered >= healthy >= reserved >= active."""
    delivered: int = 0
    """In the ledger and not retired."""
    healthy: int = 0
    """Delivered, and nothing says that it is not fit. A node is healthy when it and all of its GPUs are."""
    reserved: int = 0
    """Healthy, and held by an allocation, its cleanup, or a capacity reservation."""
    active: int = 0
    """Healthy, and in an active allocation."""
    reserved_unhealthy: int = 0
    """Held, and not healthy: beside `reserved`, not among it."""
    active_unhealthy: int = 0
    """In an active allocation, and not healthy: beside `active`, not among it."""



@dataclass(frozen=True, slots=True, kw_only=True)
class FleetNode:
    """FleetNode is a node of the record."""
    id: str = ""
    hostname: str = ""
    region_code: str = ""
    rack: str = ""
    """As an operator named it; empty: unknown."""
    hardware_type: str = ""
    """Class of its slots, for example "h200_sxm"; empty before the first approval."""
    mode: str = ""
    """"slice" or "baremetal", as it is now."""
    admin_state: str = ""
    """"enabled", "cordoned" or "draining"."""
    health: HealthState = "unspecified"
    """The worst of the host and its slots. Unknown of bare metal in use: its tenant is alone on it."""
    reason: str = ""
    """Why placement takes nothing there; empty when it does."""
    gpus: FleetCounts | None = None
    """Its GPUs."""
    occupants: list[FleetOccupant] = dataclasses.field(default_factory=list)
    """Projects that have allocations on it, by id."""



@dataclass(frozen=True, slots=True, kw_only=True)
class FleetOccupant:
    """FleetOccupant is a project on a node."""
    project_id: str = ""
    project: str = ""
    """Slugs of the project and its organisation; empty where the project is unknown."""
    organisation: str = ""
    allocations: int = 0
    gpus: int = 0
    since: datetime | None = None
    """Since when the first of the allocations has them."""



@dataclass(frozen=True, slots=True, kw_only=True)
class FleetPool:
    """FleetPool is the nodes of a region and hardware type."""
    region_code: str = ""
    hardware_type: str = ""
    """Empty: nodes without approved slots."""
    nodes: FleetCounts | None = None
    gpus: FleetCounts | None = None



@dataclass(frozen=True, slots=True, kw_only=True)
class FleetReservation:
    """FleetReservation is what a capacity reservation holds."""
    reservation_id: str = ""
    project_id: str = ""
    name: str = ""
    requested_gpus: int = 0
    """GPUs that it is of, without those that it has released; delivered GPUs are those that it holds by now."""
    nodes: FleetCounts | None = None
    """Nodes on which it holds GPUs; only those GPUs count."""
    gpus: FleetCounts | None = None



@dataclass(frozen=True, slots=True, kw_only=True)
class FleetRollup:
    """FleetRollup is the counters of the fleet."""
    nodes: FleetCounts | None = None
    gpus: FleetCounts | None = None
    pools: list[FleetPool] = dataclasses.field(default_factory=list)
    """By region, then hardware type."""
    reservations: list[FleetReservation] = dataclasses.field(default_factory=list)
    """Active ones, by project, then name."""



@dataclass(frozen=True, slots=True, kw_only=True)
class ForceRelease:
    """ForceRelease is the end of an allocation whose host is lost."""
    allocation: Allocation | None = None
    """As it is now; with validate_only as it would be."""
    node_id: str = ""
    host_fate: HostFate = "unspecified"
    reason: str = ""
    principal: str = ""
    """The administrator."""
    time: datetime | None = None
    host_last_heartbeat_time: datetime | None = None
    """Last proof of life of the host, as far as it is known."""
    billing_end_time: datetime | None = None
    """When billing ended; absent when the allocation was not active."""
    slot_ids: list[str] = dataclasses.field(default_factory=list)
    """The slots it had: disabled until a repair has wiped them, or retired when their disks are destroyed."""



@dataclass(frozen=True, slots=True, kw_only=True)
class GetTerminalRecordingResponse:
    """GetTerminalRecordingResponse."""
    asciicast: str = ""
    """A part of the recording in asciicast v3; the parts of all pages, one after the other, are the file."""
    next_page_token: str = ""



@dataclass(frozen=True, slots=True, kw_only=True)
class GpuDevice:
    """GpuDevice is one GPU."""
    function: PciFunction | None = None
    module_id: int | None = None
    """Place on the baseboard; absent where the hardware does not report it."""
    uuid: str = ""
    firmware_version: str = ""
    nvlink_domain: str = ""
    """Cluster UUID and clique of the NVLink domain that it joined; empty outside of one."""
    nvlink_clique: int = 0
    slot_class: str = ""
    """Class of the slots that are made of it; empty for an unsupported model."""



@dataclass(frozen=True, slots=True, kw_only=True)
class GpuFabric:
    """GpuFabric is what connects the GPUs of a board."""
    legal_groups: list[GpuModuleSet] = dataclasses.field(default_factory=list)
    """The sets of module ids that may be used together."""
    source: str = ""
    """Where they were read from; empty when there is no source."""
    missing: str = ""
    """Why there are none; empty when there are some."""



@dataclass(frozen=True, slots=True, kw_only=True)
class GpuModuleSet:
    """GpuModuleSet is a set of module ids."""
    module_ids: list[int] = dataclasses.field(default_factory=list)



@dataclass(frozen=True, slots=True, kw_only=True)
class HealthEvent:
    """HealthEvent is a time in which GPUs of an allocation were not healthy, or their host was under break-fix."""
    id: str = ""
    allocation_id: str = ""
    gpu_count: int = 0
    health: HealthState = "unspecified"
    start_time: datetime | None = None
    end_time: datetime | None = None
    """Healthy again, or no longer this allocation's; absent: it lasts."""
    message: str = ""
    """What it means for the allocation, as a sentence."""
    break_fix: bool = False
    """An operator works on the broken host of the GPUs, or on a device of them, by hand."""



@dataclass(frozen=True, slots=True, kw_only=True)
class HostInstance:
    """HostInstance is one boot of an installed image; a report of an earlier one counts for nothing (A-09)."""
    id: str = ""
    boot_id: str = ""
    agent_version: str = ""
    agent_built_time: datetime | None = None
    agent_address: str = ""
    enrol_time: datetime | None = None



@dataclass(frozen=True, slots=True, kw_only=True)
class HostInventory:
    """HostInventory is what a host consists of, as its agent observed it in one inspection. Absent values are unknown,
    for example a serial number that the firmware does not report.
    """
    machine: Machine | None = None
    processors: list[Processor] = dataclasses.field(default_factory=list)
    numa_nodes: list[NumaNode] = dataclasses.field(default_factory=list)
    gpus: list[GpuDevice] = dataclasses.field(default_factory=list)
    nvswitches: list[PciFunction] = dataclasses.field(default_factory=list)
    """NVSwitches that the host sees; none on a host whose switches are with a service VM."""
    gpu_fabric: GpuFabric | None = None
    disks: list[NvmeDisk] = dataclasses.field(default_factory=list)
    fabric_devices: list[FabricDevice] = dataclasses.field(default_factory=list)
    addresses: list[NetworkAddress] = dataclasses.field(default_factory=list)
    neighbors: list[LinkNeighbor] = dataclasses.field(default_factory=list)
    location: HostLocation | None = None
    unreadable: list[str] = dataclasses.field(default_factory=list)
    """What is there and could not be read, each as a sentence; empty when the inventory is complete."""



@dataclass(frozen=True, slots=True, kw_only=True)
class HostLocation:
    """HostLocation is the place of the host, set by the operator or MAAS."""
    rack: str = ""
    failure_domain: str = ""



@dataclass(frozen=True, slots=True, kw_only=True)
class HostReport:
    """HostReport is what `gpuaas-node-agent validate-host --report` writes, field by field."""
    schema: int = 0
    """Version of the report; 1."""
    agent_version: str = ""
    """The agent's build."""
    agent_built_at: str = ""
    time: datetime | None = None
    """When it was made."""
    kind: str = ""
    """"slice host", "lab host" or "bare-metal host"."""
    host: dict[str, str] = dataclasses.field(default_factory=dict)
    """Operating system, kernel and machine."""
    hardware: dict[str, int] = dataclasses.field(default_factory=dict)
    """Hardware by count."""
    checks: list[HostReportCheck] = dataclasses.field(default_factory=list)
    versions: dict[str, str] = dataclasses.field(default_factory=dict)
    """First line of what each program says of itself; empty: it does not answer."""
    baseline: dict[str, str] = dataclasses.field(default_factory=dict)
    """The documented baseline: "active", "NOT_ACTIVE", "present" or "missing" by unit or file."""
    blockers: list[str] = dataclasses.field(default_factory=list)
    """Checks that keep the host out of service."""
    by_hand: list[HostReportByHand] = dataclasses.field(default_factory=list)
    """What a person does on the hardware."""



@dataclass(frozen=True, slots=True, kw_only=True)
class HostReportByHand:
    """HostReportByHand is something that only real hardware shows."""
    id: str = ""
    why: str = ""
    """Why no lab shows it."""
    what: str = ""
    """What to do."""
    good: str = ""
    """When it is good."""
    result: str = ""
    """What an operator found, in their words; empty: not done yet."""



@dataclass(frozen=True, slots=True, kw_only=True)
class HostReportCheck:
    """HostReportCheck is one check of the registry."""
    check: str = ""
    status: str = ""
    """"PASS", "FAIL", "WARN" or "SKIP"."""
    severity: str = ""
    """"hard", "warn" or "info"; empty where the check does not apply."""
    detail: str = ""
    remediation: str = ""
    devices: list[str] = dataclasses.field(default_factory=list)



@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """Image is a guest disk image (E-02)."""
    slug: str = ""
    display_name: str = ""
    status: ImageStatus = "unspecified"
    driver_strategy: DriverStrategy = "unspecified"
    source_uri: str = ""
    """"oci://host/namespace/name@sha256:…" (E-15, E-16)."""
    digest: str = ""
    """Digest of the raw disk image, "sha256:…"."""
    size_bytes: int = 0
    compatible_skus: list[str] = dataclasses.field(default_factory=list)
    """SKUs that can run it (E-12, E-13)."""
    boot_timeout_seconds: int = 0
    """Maximum seconds from start to a working login."""
    metadata: ResourceMetadata = dataclasses.field(default_factory=lambda: ResourceMetadata())
    readiness_checks: list[ReadinessCheck] = dataclasses.field(default_factory=list)
    """What must pass in a guest before its allocation is active, in this order (INC-24)."""
    etag: str = ""
    """Another one after every change."""



@dataclass(frozen=True, slots=True, kw_only=True)
class IngressMapping:
    """IngressMapping is a port of a VM that is reached from outside. It ends when it is deleted, at its expiry, and
    with the release of its allocation.
    """
    id: str = ""
    """UUID."""
    allocation_id: str = ""
    config: IngressMappingConfig = dataclasses.field(default_factory=lambda: IngressMappingConfig())
    """The request. Never changes."""
    status: IngressMappingStatus = dataclasses.field(default_factory=lambda: IngressMappingStatus())
    """The current state."""
    metadata: ResourceMetadata = dataclasses.field(default_factory=lambda: ResourceMetadata())
    creator: str = ""
    """Principal who created it."""



@dataclass(frozen=True, slots=True, kw_only=True)
class IngressMappingConfig:
    """IngressMappingConfig is the request."""
    protocol: IngressProtocol = "unspecified"
    """Required."""
    vm_port: int = 0
    """Port of the VM, 1 to 65535. Required."""
    external_port: int = 0
    """Port of the external address. 0: the platform chooses one."""
    source_cidrs: list[str] = dataclasses.field(default_factory=list)
    """IPv4 networks that may connect, for example "198.51.100.0/24"; at most 16. Empty: everybody."""
    expire_time: datetime | None = None
    """When the mapping ends; absent: with its allocation."""



@dataclass(frozen=True, slots=True, kw_only=True)
class IngressMappingStatus:
    """IngressMappingStatus is the current state."""
    state: IngressMappingState = "unspecified"
    external_address: str = ""
    """Address at which the VM is reached."""
    external_port: int = 0
    """Port of that address at which the VM is reached."""
    failure: str = ""
    """Why it failed, a sentence; set in state FAILED only. The platform tries again."""



@dataclass(frozen=True, slots=True, kw_only=True)
class InspectedDevice:
    """InspectedDevice is a disk or a virtual function that a slot could have."""
    device: str = ""
    """Identity of the disk, or PCI address of the function, as in SlotBindings."""
    blockers: list[str] = dataclasses.field(default_factory=list)
    """Empty: it can be given to a slot."""
    wipe_policies: list[str] = dataclasses.field(default_factory=list)
    """Of a disk: the wipe policies that its host can meet on it; another one is not approved. Empty: the host does not
    report them.
    """
    storage_transition_manifest: str = ""
    """Of a disk: path on the host of the manifest of the last storage transition that took it over for slices (A-105).
    Empty: none is known: the disk was raw before, or the agent is of a release that does not report it.
    """



@dataclass(frozen=True, slots=True, kw_only=True)
class Invitation:
    """Invitation into an organisation or a project."""
    id: str = ""
    organisation_id: str = ""
    """What it is for: either this,"""
    project_id: str = ""
    """or this."""
    email: str = ""
    role: MemberRole = "unspecified"
    state: InvitationState = "unspecified"
    token: str = ""
    """Only in the first answer to its creation."""
    inviter: str = ""
    """Principal who created it."""
    accepted_by: str = ""
    """Principal who accepted it."""
    create_time: datetime | None = None
    expire_time: datetime | None = None
    accept_time: datetime | None = None
    target: str = ""
    """Slugs, for people: "organisation" or "organisation/project"."""



@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchCapacity:
    """LaunchCapacity is how many launches of one size fit; each size is counted separately."""
    gpu_count: int = 0
    fits: int = 0



@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerInvariant:
    """LedgerInvariant is a rule of the ledger, with its violations."""
    name: str = ""
    """Short name, for example "claim_matches_slot"."""
    rule: str = ""
    """The rule, a sentence."""
    broken: int = 0
    """Number of rows that violate it; 0: it holds."""
    subjects: list[str] = dataclasses.field(default_factory=list)
    """Ids of the first 20 of them: of claims, slots, nodes, allocations or projects."""



@dataclass(frozen=True, slots=True, kw_only=True)
class LinkNeighbor:
    """LinkNeighbor is the switch and the port at the other end of an interface, as reported by LLDP."""
    interface: str = ""
    switch_name: str = ""
    switch_id: str = ""
    port_id: str = ""
    port_description: str = ""



@dataclass(frozen=True, slots=True, kw_only=True)
class ListActivitiesResponse:
    """ListActivitiesResponse."""
    activities: list[Activity] = dataclasses.field(default_factory=list)
    next_page_token: str = ""
    """Empty on the last page."""
    incomplete: bool = False
    """A part of the platform did not answer: its activities are missing from this page."""



@dataclass(frozen=True, slots=True, kw_only=True)
class ListAgentRolloutsResponse:
    """ListAgentRolloutsResponse."""
    rollouts: list[AgentRollout] = dataclasses.field(default_factory=list)
    next_page_token: str = ""



@dataclass(frozen=True, slots=True, kw_only=True)
class ListAllAllocationsResponse:
    """ListAllAllocationsResponse."""
    allocations: list[TenantAllocation] = dataclasses.field(default_factory=list)
    next_page_token: str = ""



@dataclass(frozen=True, slots=True, kw_only=True)
class ListAllOrganisationsResponse:
    """ListAllOrganisationsResponse."""
    organisations: list[Organisation] = dataclasses.field(default_factory=list)
    next_page_token: str = ""



@dataclass(frozen=True, slots=True, kw_only=True)
class ListAllReservationsResponse:
    """ListAllReservationsResponse."""
    reservations: list[CapacityReservation] = dataclasses.field(default_factory=list)
    next_page_token: str = ""



@dataclass(frozen=True, slots=True, kw_only=True)
class ListAllocationGrantsResponse:
    """ListAllocationGrantsResponse."""
    grants: list[AllocationGrant] = dataclasses.field(default_factory=list)
    next_page_token: str = ""



@dataclass(frozen=True, slots=True, kw_only=True)
class ListAllocationTerminalSessionsResponse:
    """ListAllocationTerminalSessionsResponse."""
    sessions: list[TerminalSession] = dataclasses.field(default_factory=list)
    next_page_token: str = ""



@dataclass(frozen=True, slots=True, kw_only=True)
class ListAllocationsResponse:
    """ListAllocationsResponse."""
    allocations: list[Allocation] = dataclasses.field(default_factory=list)
    next_page_token: str = ""



@dataclass(frozen=True, slots=True, kw_only=True)
class ListApiKeysResponse:
    """ListApiKeysResponse."""
    api_keys: list[ApiKey] = dataclasses.field(default_factory=list)
    next_page_token: str = ""



@dataclass(frozen=True, slots=True, kw_only=True)
class ListAuditChainsResponse:
    """ListAuditChainsResponse."""
    chains: list[AuditChain] = dataclasses.field(default_factory=list)
    unreachable_sources: list[str] = dataclasses.field(default_factory=list)
    """Sources that did not answer."""



@dataclass(frozen=True, slots=True, kw_only=True)
class ListAuditRecordsResponse:
    """ListAuditRecordsResponse."""
    records: list[AuditRecord] = dataclasses.field(default_factory=list)
    next_page_token: str = ""
    unreachable_sources: list[str] = dataclasses.field(default_factory=list)
    """Sources that did not answer: their records are missing from this page."""



@dataclass(frozen=True, slots=True, kw_only=True)
class ListAvailabilityResponse:
    """ListAvailabilityResponse."""
    availability: list[Availability] = dataclasses.field(default_factory=list)



@dataclass(frozen=True, slots=True, kw_only=True)
class ListBreakFixesResponse:
    """ListBreakFixesResponse."""
    break_fixes: list[BreakFix] = dataclasses.field(default_factory=list)
    next_page_token: str = ""
    """Empty: the last page."""



@dataclass(frozen=True, slots=True, kw_only=True)
class ListCapacityHistoryResponse:
    """ListCapacityHistoryResponse."""
    bucket_seconds: int = 0
    buckets: list[CapacityBucket] = dataclasses.field(default_factory=list)
    """By time, then region, then SKU."""
    next_page_token: str = ""



@dataclass(frozen=True, slots=True, kw_only=True)
class ListCapacityReservationsResponse:
    """ListCapacityReservationsResponse."""
    reservations: list[CapacityReservation] = dataclasses.field(default_factory=list)
    next_page_token: str = ""



@dataclass(frozen=True, slots=True, kw_only=True)
class ListFleetNodesResponse:
    """ListFleetNodesResponse."""
    nodes: list[FleetNode] = dataclasses.field(default_factory=list)
    next_page_token: str = ""



@dataclass(frozen=True, slots=True, kw_only=True)
class ListHealthEventsResponse:
    """ListHealthEventsResponse."""
    events: list[HealthEvent] = dataclasses.field(default_factory=list)
    next_page_token: str = ""



@dataclass(frozen=True, slots=True, kw_only=True)
class ListHostReportsResponse:
    """ListHostReportsResponse."""
    reports: list[AttachedHostReport] = dataclasses.field(default_factory=list)
    next_page_token: str = ""



@dataclass(frozen=True, slots=True, kw_only=True)
class ListImagesResponse:
    """ListImagesResponse."""
    images: list[Image] = dataclasses.field(default_factory=list)
    next_page_token: str = ""



@dataclass(frozen=True, slots=True, kw_only=True)
class ListIngressMappingsResponse:
    """ListIngressMappingsResponse."""
    ingress_mappings: list[IngressMapping] = dataclasses.field(default_factory=list)
    next_page_token: str = ""



@dataclass(frozen=True, slots=True, kw_only=True)
class ListNodeFindingsResponse:
    """ListNodeFindingsResponse."""
    findings: list[NodeFinding] = dataclasses.field(default_factory=list)
    next_page_token: str = ""
    """Empty: the last page."""



@dataclass(frozen=True, slots=True, kw_only=True)
class ListNodeHistoryResponse:
    """ListNodeHistoryResponse."""
    entries: list[NodeHistoryEntry] = dataclasses.field(default_factory=list)
    next_page_token: str = ""



@dataclass(frozen=True, slots=True, kw_only=True)
class ListNodeImageCacheResponse:
    """ListNodeImageCacheResponse."""
    images: list[NodeImage] = dataclasses.field(default_factory=list)
    """By image."""
    next_page_token: str = ""



@dataclass(frozen=True, slots=True, kw_only=True)
class ListNodePlacementsResponse:
    """ListNodePlacementsResponse."""
    nodes: list[NodePlacement] = dataclasses.field(default_factory=list)
    next_page_token: str = ""



@dataclass(frozen=True, slots=True, kw_only=True)
class ListNodesResponse:
    """ListNodesResponse."""
    nodes: list[Node] = dataclasses.field(default_factory=list)
    next_page_token: str = ""



@dataclass(frozen=True, slots=True, kw_only=True)
class ListOrganisationInvitationsResponse:
    """ListOrganisationInvitationsResponse."""
    invitations: list[Invitation] = dataclasses.field(default_factory=list)
    next_page_token: str = ""



@dataclass(frozen=True, slots=True, kw_only=True)
class ListOrganisationMembersResponse:
    """ListOrganisationMembersResponse."""
    members: list[Member] = dataclasses.field(default_factory=list)
    next_page_token: str = ""



@dataclass(frozen=True, slots=True, kw_only=True)
class ListOrganisationWebhooksResponse:
    """ListOrganisationWebhooksResponse."""
    webhooks: list[Webhook] = dataclasses.field(default_factory=list)
    next_page_token: str = ""



@dataclass(frozen=True, slots=True, kw_only=True)
class ListOrganisationsResponse:
    """ListOrganisationsResponse."""
    organisations: list[Organisation] = dataclasses.field(default_factory=list)
    next_page_token: str = ""



@dataclass(frozen=True, slots=True, kw_only=True)
class ListPriceVersionsResponse:
    """ListPriceVersionsResponse."""
    price_versions: list[PriceVersion] = dataclasses.field(default_factory=list)
    next_page_token: str = ""



@dataclass(frozen=True, slots=True, kw_only=True)
class ListPrincipalsResponse:
    """ListPrincipalsResponse."""
    principals: list[Principal] = dataclasses.field(default_factory=list)
    next_page_token: str = ""



@dataclass(frozen=True, slots=True, kw_only=True)
class ListProjectInvitationsResponse:
    """ListProjectInvitationsResponse."""
    invitations: list[Invitation] = dataclasses.field(default_factory=list)
    next_page_token: str = ""



@dataclass(frozen=True, slots=True, kw_only=True)
class ListProjectMembersResponse:
    """ListProjectMembersResponse."""
    members: list[Member] = dataclasses.field(default_factory=list)
    next_page_token: str = ""



@dataclass(frozen=True, slots=True, kw_only=True)
class ListProjectSshKeysResponse:
    """ListProjectSshKeysResponse."""
    ssh_keys: list[SshKey] = dataclasses.field(default_factory=list)
    next_page_token: str = ""



@dataclass(frozen=True, slots=True, kw_only=True)
class ListProjectWebhooksResponse:
    """ListProjectWebhooksResponse."""
    webhooks: list[Webhook] = dataclasses.field(default_factory=list)
    next_page_token: str = ""



@dataclass(frozen=True, slots=True, kw_only=True)
class ListProjectsResponse:
    """ListProjectsResponse."""
    projects: list[Project] = dataclasses.field(default_factory=list)
    next_page_token: str = ""



@dataclass(frozen=True, slots=True, kw_only=True)
class ListQueueResponse:
    """ListQueueResponse."""
    requests: list[QueuedRequest] = dataclasses.field(default_factory=list)
    next_page_token: str = ""
    """The queue changes between two pages: a request that moved can be on both, or on none."""
    total: int = 0
    """Queued requests of the region."""



@dataclass(frozen=True, slots=True, kw_only=True)
class ListRegionsResponse:
    """ListRegionsResponse."""
    regions: list[Region] = dataclasses.field(default_factory=list)
    next_page_token: str = ""



@dataclass(frozen=True, slots=True, kw_only=True)
class ListResourceSlotHistoryResponse:
    """ListResourceSlotHistoryResponse."""
    entries: list[SlotHistoryEntry] = dataclasses.field(default_factory=list)
    next_page_token: str = ""



@dataclass(frozen=True, slots=True, kw_only=True)
class ListResourceSlotsResponse:
    """ListResourceSlotsResponse."""
    slots: list[ResourceSlot] = dataclasses.field(default_factory=list)
    next_page_token: str = ""



@dataclass(frozen=True, slots=True, kw_only=True)
class ListScimGroupsResponse:
    """ListScimGroupsResponse."""
    groups: list[ScimGroup] = dataclasses.field(default_factory=list)
    next_page_token: str = ""



@dataclass(frozen=True, slots=True, kw_only=True)
class ListScimKeysResponse:
    """ListScimKeysResponse."""
    keys: list[ScimKey] = dataclasses.field(default_factory=list)
    next_page_token: str = ""



@dataclass(frozen=True, slots=True, kw_only=True)
class ListServiceAccountsResponse:
    """ListServiceAccountsResponse."""
    service_accounts: list[ServiceAccount] = dataclasses.field(default_factory=list)
    next_page_token: str = ""



@dataclass(frozen=True, slots=True, kw_only=True)
class ListSkusResponse:
    """ListSkusResponse."""
    skus: list[Sku] = dataclasses.field(default_factory=list)
    next_page_token: str = ""



@dataclass(frozen=True, slots=True, kw_only=True)
class ListSlotWipeCertificatesResponse:
    """ListSlotWipeCertificatesResponse."""
    certificates: list[WipeCertificate] = dataclasses.field(default_factory=list)
    next_page_token: str = ""



@dataclass(frozen=True, slots=True, kw_only=True)
class ListSshKeysResponse:
    """ListSshKeysResponse."""
    ssh_keys: list[SshKey] = dataclasses.field(default_factory=list)
    next_page_token: str = ""



@dataclass(frozen=True, slots=True, kw_only=True)
class ListTerminalSessionsResponse:
    """ListTerminalSessionsResponse."""
    sessions: list[TerminalSession] = dataclasses.field(default_factory=list)
    next_page_token: str = ""



@dataclass(frozen=True, slots=True, kw_only=True)
class ListTimelineResponse:
    """ListTimelineResponse."""
    entries: list[TimelineEntry] = dataclasses.field(default_factory=list)
    next_page_token: str = ""



@dataclass(frozen=True, slots=True, kw_only=True)
class ListUsageResponse:
    """ListUsageResponse."""
    intervals: list[UsageInterval] = dataclasses.field(default_factory=list)
    next_page_token: str = ""
    totals: list[UsageTotal] = dataclasses.field(default_factory=list)
    """Sum over all matching intervals, not only this page, per currency. On the first page alone."""



@dataclass(frozen=True, slots=True, kw_only=True)
class ListWebhookDeliveriesResponse:
    """ListWebhookDeliveriesResponse."""
    deliveries: list[WebhookDelivery] = dataclasses.field(default_factory=list)
    next_page_token: str = ""



@dataclass(frozen=True, slots=True, kw_only=True)
class ListWipeCertificatesResponse:
    """ListWipeCertificatesResponse."""
    certificates: list[WipeCertificate] = dataclasses.field(default_factory=list)
    next_page_token: str = ""



@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Machine is the hardware and the firmware around the devices."""
    vendor: str = ""
    model: str = ""
    """Model as DMI names it, for example "PowerEdge XE9680L"."""
    system_serial: str = ""
    chassis_serial: str = ""
    board_serial: str = ""
    bios_vendor: str = ""
    bios_version: str = ""
    bios_date: str = ""
    kernel_release: str = ""
    operating_system: str = ""
    memory_bytes: int = 0



@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """Member is a principal with its role in one organisation or project."""
    member_id: str = ""
    """UUID of the principal."""
    principal: str = ""
    """Its stable name, for example "user:alice"."""
    display_name: str = ""
    email: str = ""
    """As its issuer has verified it; empty otherwise."""
    kind: PrincipalKind = "unspecified"
    role: MemberRole = "unspecified"
    create_time: datetime | None = None
    update_time: datetime | None = None
    etag: str = ""
    """Changes with every change of the membership."""
    disabled: bool = False
    """The principal is disabled: it can do nothing."""
    scim: bool = False
    """The membership comes from a group of the organisation's identity provider: it is changed there."""



@dataclass(frozen=True, slots=True, kw_only=True)
class MetricPoint:
    """MetricPoint is the mean of a step."""
    time: datetime | None = None
    """Start of the step."""
    value: float = 0.0
    """In the unit of the metric."""



@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSeries:
    """MetricSeries is one metric of a VM over time."""
    metric: VmMetric = "unspecified"
    gpu: int | None = None
    """Index of the GPU as the guest counts them; of metrics of GPUs."""
    points: list[MetricPoint] = dataclasses.field(default_factory=list)
    """By time. A step without a measurement has none."""



@dataclass(frozen=True, slots=True, kw_only=True)
class Money:
    """Represents an amount of money with its currency type."""
    currency_code: str = ""
    """The three-letter currency code defined in ISO 4217."""
    units: int = 0
    """The whole units of the amount. For example if `currencyCode` is `"USD"`, then 1 unit is one US dollar."""
    nanos: int = 0
    """Number of nano (10^-9) units of the amount. The value must be between -999,999,999 and +999,999,999 inclusive.
    If `units` is positive, `nanos` must be positive or zero. If `units` is zero, `nanos` can be positive, zero, or
    negative. If `units` is negative, `nanos` must be negative or zero. For example $-1.75 is represented as
    `units`=-1 and `nanos`=-750,000,000.
    """



@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkAddress:
    """NetworkAddress is one address of the host."""
    interface: str = ""
    """"bmc" for the address of the management controller."""
    address: str = ""
    """With its prefix length, "10.100.0.1/24"."""
    kind: NetworkAddressKind = "unspecified"



@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """Node is a physical host."""
    id: str = ""
    config: NodeConfig = dataclasses.field(default_factory=lambda: NodeConfig())
    status: NodeStatus = dataclasses.field(default_factory=lambda: NodeStatus())
    metadata: ResourceMetadata = dataclasses.field(default_factory=lambda: ResourceMetadata())
    etag: str = ""
    """Another one after every change of the node; what its host reports again is no change."""



@dataclass(frozen=True, slots=True, kw_only=True)
class NodeChange:
    """NodeChange is the current state of a node; one that is retired or deleted has ended."""
    kind: ChangeKind = "unspecified"
    node: Node | None = None



@dataclass(frozen=True, slots=True, kw_only=True)
class NodeComparison:
    """NodeComparison has ledger, host and hypervisor of a node side by side."""
    node_id: str = ""
    rows: list[NodeComparisonRow] = dataclasses.field(default_factory=list)
    """By allocation."""
    differences: list[NodeDifference] = dataclasses.field(default_factory=list)
    """What of slots and NVSwitch partitions differs, by slot; those of no slot come last."""



@dataclass(frozen=True, slots=True, kw_only=True)
class NodeComparisonRow:
    """NodeComparisonRow is one allocation as each of the three has it."""
    allocation_id: str = ""
    ledger_state: str = ""
    """State in the ledger; empty: the ledger has no such allocation on the node, or none that ended within a week.
    """
    has_claims: bool = False
    """It has a claim that is not released."""
    journal_slot_ids: list[str] = dataclasses.field(default_factory=list)
    """Slots that the journal of the host holds for it."""
    has_reservation: bool = False
    """The host reserves an address for its VM."""
    domain_state: str = ""
    """State of its domain: "running", "shut off" or "paused"; empty: the hypervisor has none."""
    verdict: ComparisonVerdict = "unspecified"
    """What follows."""
    detail: str = ""
    """Why, for operators; empty where all agree."""
    has_seed: bool = False
    """The host has a seed of its VM, which is there for a first boot alone."""
    has_nvram: bool = False
    """The host has a file of NVRAM of its VM."""
    missing_files: list[str] = dataclasses.field(default_factory=list)
    """"seed", "nvram": files that its domain names and the host has not."""
    correction: ComparisonCorrection = "unspecified"
    """What a correction of this row does; unspecified: there is nothing for an operator to do."""
    etag: str = ""
    """Another one for every other row."""
    has_port: bool = False
    """The bridge of the host has a port of its VM."""
    has_partition: bool = False
    """The journal of the host has an NVSwitch partition of it."""
    guest_state: GuestMetricsState = "unspecified"
    """What came of the host's last query to its guest (D-80)."""



@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConfig:
    """NodeConfig is the operator's intent."""
    hostname: str = ""
    region_code: str = ""
    mode: str = ""
    """"slice" or "baremetal": MAAS tags express the same intent (A-42..A-44)."""
    max_vms_per_node: int = 0
    """0: no limit."""
    rack: str = ""
    """Rack or failure domain; empty: unknown."""



@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDifference:
    """NodeDifference is one thing of a slot or an NVSwitch partition that the host has otherwise than the ledger.
    """
    subject: NodeDifferenceSubject = "unspecified"
    kind: str = ""
    """As of SlotDrift; "held_on_host" of a hold; "partition_unmatched", "partition_unknown" or "partition_unowned" of
    a partition.
    """
    slot_id: str = ""
    """Empty: it is of no slot."""
    slot_index: int = 0
    allocation_id: str = ""
    """Whose it is: by the ledger, or by the host where the ledger has it for nobody."""
    approved: str = ""
    observed: str = ""
    message: str = ""
    """What is wrong."""
    since: datetime | None = None
    """Since when it is known; absent: it was found just now."""
    remediation: str = ""
    """What to do about the cause."""
    verdict: ComparisonVerdict = "unspecified"
    correction: ComparisonCorrection = "unspecified"
    """COMPARISON_CORRECTION_REPAIR_SLOT, COMPARISON_CORRECTION_DEACTIVATE_PARTITION, or unspecified where no call
    corrects it.
    """
    detail: str = ""
    """What the correction does, or why there is none."""



@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFinding:
    """NodeFinding is what an outside health agent has found."""
    id: str = ""
    node_id: str = ""
    slot_id: str = ""
    """Empty: the host."""
    source: str = ""
    code: str = ""
    device: str = ""
    severity: FindingSeverity = "unspecified"
    message: str = ""
    reported_by: str = ""
    first_time: datetime | None = None
    last_time: datetime | None = None
    count: int = 0
    """How often it was reported."""
    resolved_by: str = ""
    """Empty while it is open."""
    resolve_time: datetime | None = None
    resolution: str = ""



@dataclass(frozen=True, slots=True, kw_only=True)
class NodeHistoryEntry:
    """NodeHistoryEntry is a change of a node."""
    time: datetime | None = None
    state: str = ""
    """"registered", "enrolled", "configured", "validating", "ready", "enabled", "cordoned", "draining", "maintenance",
    "broken", "retired".
    """
    reason: str = ""
    principal: str = ""
    """Empty: the host's own report."""



@dataclass(frozen=True, slots=True, kw_only=True)
class NodeImage:
    """NodeImage is an image in a node's cache (E-04, E-05)."""
    node_id: str = ""
    image_slug: str = ""
    status: str = ""
    """"verified" or "absent"."""
    digest: str = ""
    verified_time: datetime | None = None



@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLabels:
    """NodeLabels are all labels of a node: at most 32, keys of at most 63 characters, values of at most 255."""
    labels: dict[str, str] = dataclasses.field(default_factory=dict)



@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLife:
    """NodeLife is where a node is in its life, and why."""
    state: NodeLifeState = "unspecified"
    reason: str = ""
    """The operator's reason, or what the host does not prove."""
    principal: str = ""
    """The operator; empty: the host's own report."""
    since: datetime | None = None



@dataclass(frozen=True, slots=True, kw_only=True)
class NodePlacement:
    """NodePlacement is the placement state of a node."""
    node_id: str = ""
    hostname: str = ""
    region_code: str = ""
    mode: str = ""
    """"slice" or "baremetal"."""
    admin_state: str = ""
    """"enabled", "cordoned", "draining", "maintenance", "broken" or "retired"."""
    admin_reason: str = ""
    """The operator's reason."""
    admin_time: datetime | None = None
    """When admin_state last changed; absent: never."""
    schedulable: bool = False
    """The host is ready."""
    not_schedulable_reason: str = ""
    """Why it is not."""
    live_claims: int = 0
    """Claims that have not ended; a drain waits for them."""
    live_allocations: int = 0
    """Allocations that have not ended."""
    available_slots: int = 0
    """Available slots."""
    drained: bool = False
    """Draining, and without claims."""
    generation: int = 0
    """Grows with every change."""
    admin_principal: str = ""
    """Who set admin_state; empty: never set, or by a release before this field."""
    etag: str = ""
    """Of admin_state: another one after every change of it."""



@dataclass(frozen=True, slots=True, kw_only=True)
class NodePreservation:
    """NodePreservation counts the nodes of a region and slot class by their use for bare metal. Each node counts in
    exactly one of baremetal_free, baremetal_allocated, clean and sliced.
    """
    region_code: str = ""
    slot_class: str = ""
    """"h200_sxm" or "lab"."""
    nodes: int = 0
    baremetal_free: int = 0
    """Free for bare metal: no allocation, and every slot is schedulable."""
    baremetal_allocated: int = 0
    """Allocated as bare metal, or in mode baremetal."""
    clean: int = 0
    """Empty but unschedulable: cordoned, not ready, or with an unschedulable slot."""
    sliced: int = 0
    """With at least one VM."""
    recoverable: int = 0
    """Sliced nodes that could all be freed by moving their allocations to other sliced nodes, and the moves for it.
    """
    moves: int = 0
    gpus_moved: int = 0
    easiest: list[RecoverableNode] = dataclasses.field(default_factory=list)
    """The first 50 of them, each after those before it: the fewest GPUs first."""



@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStatus:
    """NodeStatus is the observed state of the host."""
    state: NodeState = "unspecified"
    instance: HostInstance | None = None
    last_heartbeat_time: datetime | None = None
    schedulable: bool = False
    """Both gates: enrolled and reporting, and slice-ready (A-11, A-12)."""
    blockers: list[str] = dataclasses.field(default_factory=list)
    evidence: list[Evidence] = dataclasses.field(default_factory=list)
    hypervisor: str = ""
    """"kvm" or "qemu"."""
    lab: bool = False
    """Emulated host without GPU."""
    host_profile: str = ""
    slots: dict[str, int] = dataclasses.field(default_factory=dict)
    """Slot counts by status."""
    life: NodeLife | None = None
    onboarding: list[OnboardingStep] = dataclasses.field(default_factory=list)
    """The steps of onboarding in their order (A-22); one is done only when all before it are (A-23)."""



@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTask:
    """NodeTask is the durable record of one call to a host (C-22..C-27, C-33)."""
    id: str = ""
    type: str = ""
    """"slice.vm_provision", "slice.vm_release", "slice.vm_clean_up", "slice.vm_stop", "slice.vm_start",
    "slice.vm_reboot", "slice.vm_rescue", "slice.slot_repair".
    """
    state: str = ""
    output: str = ""
    create_time: datetime | None = None
    end_time: datetime | None = None



@dataclass(frozen=True, slots=True, kw_only=True)
class NodeVerdict:
    """NodeVerdict is the result of placement on one node."""
    node_id: str = ""
    hostname: str = ""
    fits: bool = False
    slot_indexes: list[int] = dataclasses.field(default_factory=list)
    """Slots that the launch would use, when it fits. Empty for bare metal."""
    score: list[ScorePart] = dataclasses.field(default_factory=list)
    """The score, part by part; less is better, the first difference decides. Empty for bare metal."""
    reasons: list[UnavailableReason] = dataclasses.field(default_factory=list)
    """Unschedulable reasons; `nodes` is 1. Empty for a node of another GPU count or slot class than the bare-metal
    SKU.
    """



@dataclass(frozen=True, slots=True, kw_only=True)
class NumaNode:
    """NumaNode is one memory domain."""
    id: int = 0
    cpus: str = ""
    """As the kernel writes it, for example "0-31,64-95"."""
    memory_bytes: int = 0
    hugepages_1g: int = 0
    hugepages_1g_free: int = 0
    distances: list[int] = dataclasses.field(default_factory=list)
    """To each node, in the order of their ids; 10 is local."""



@dataclass(frozen=True, slots=True, kw_only=True)
class NvmeDisk:
    """NvmeDisk is one NVMe namespace."""
    kernel_name: str = ""
    """Kernel name at the time of the inspection; it changes with reboots."""
    by_id: str = ""
    """Stable link, "/dev/disk/by-id/nvme-eui.…"; empty when it has none."""
    wwid: str = ""
    """World wide name as the kernel writes it."""
    model: str = ""
    serial: str = ""
    firmware_version: str = ""
    bytes_: int = 0
    controller: PciFunction | None = None
    namespace_id: int = 0
    """Namespace id, and how many namespaces its controller has."""
    namespaces: int = 0
    erase: DiskErase | None = None
    health: DiskHealth | None = None
    """Absent when the disk did not report it."""
    uses: list[DiskUse] = dataclasses.field(default_factory=list)
    """Everything that uses the disk, at any height."""
    fault: str = ""
    """Why it cannot be read; empty when it can."""



@dataclass(frozen=True, slots=True, kw_only=True)
class OnboardingStep:
    """OnboardingStep is a step from bare machine to schedulable node (A-22)."""
    number: int = 0
    """1 to 8."""
    name: str = ""
    """"commission", "tag", "deploy", "enrol", "discover", "review", "approve" or "activate"."""
    state: OnboardingState = "unspecified"
    detail: str = ""
    """What it waits for."""



@dataclass(frozen=True, slots=True, kw_only=True)
class Organisation:
    """Organisation owns projects."""
    id: str = ""
    slug: str = ""
    """Unique: lower-case letters, digits and hyphens, at most 63."""
    display_name: str = ""
    state: TenantState = "unspecified"
    state_reason: str = ""
    """Why it is suspended or closed, as whoever did it wrote."""
    role: MemberRole = "unspecified"
    """The caller's role in it; unspecified for who is only in projects of it, or in none."""
    create_time: datetime | None = None
    update_time: datetime | None = None
    etag: str = ""
    """Changes with every change of the organisation."""



@dataclass(frozen=True, slots=True, kw_only=True)
class OrganisationGuardrails:
    """OrganisationGuardrails is what the owners of an organisation forbid in all of its projects."""
    organisation_id: str = ""
    terminals_disabled: bool = False
    """Nobody opens terminals or SSH through the platform; those that are open end."""
    serial_logs_disabled: bool = False
    """Nobody reads the serial logs of VMs."""
    ingress_mappings_disabled: bool = False
    """Nobody creates ingress mappings. Those that there are stay until they are deleted or expire."""
    webhooks_disabled: bool = False
    """All webhooks of the organisation and its projects are disabled; nobody creates or enables one."""
    api_keys_disabled: bool = False
    """Nobody creates or rotates API keys, and calls that are made with one are refused in the organisation; those of
    SCIM are not.
    """
    max_api_key_days: int = 0
    """Days after which API keys that are created or rotated expire at the latest; 0: no limit."""
    allowed_regions: list[str] = dataclasses.field(default_factory=list)
    """Codes of the regions in which the projects launch and reserve; empty: all."""
    allowed_skus: list[str] = dataclasses.field(default_factory=list)
    """Slugs of the SKUs that the projects launch and reserve; empty: all."""
    update_time: datetime | None = None
    """Absent: they were never changed."""
    etag: str = ""
    """Changes with every change of them."""



@dataclass(frozen=True, slots=True, kw_only=True)
class PciFunction:
    """PciFunction is one PCI function."""
    pci_address: str = ""
    model_id: str = ""
    """"10de:2335"."""
    numa_node: int | None = None
    driver: str = ""
    """Driver that is bound now."""
    native_driver: str = ""
    """Driver that serves the device outside of passthrough."""
    iommu_group: int | None = None
    iommu_companions: list[str] = dataclasses.field(default_factory=list)
    """Other functions of its IOMMU group: they can only be given away together."""
    link: PciLink | None = None
    bar_bytes: list[int] = dataclasses.field(default_factory=list)
    """Sizes of its memory and I/O regions in bytes, by BAR; 0 is unused."""
    fault: str = ""
    """Why it cannot be used; empty when it can."""
    serial: str = ""
    physical_slot: str = ""
    """Label of the slot it is in, as the platform names it."""



@dataclass(frozen=True, slots=True, kw_only=True)
class PciLink:
    """PciLink is the link of a function to its bus: the current and the maximum one."""
    speed: str = ""
    """As the kernel writes it, for example "32.0 GT/s PCIe"."""
    width: int = 0
    max_speed: str = ""
    max_width: int = 0
    degraded: bool = False
    """It runs with fewer lanes than the device has. A lower speed alone may be power saving."""



@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementConstraints:
    """PlacementConstraints restrict the nodes of a launch; all of them must hold."""
    affinity: str = ""
    """Id of an allocation of the project that has not ended: only its node."""
    anti_affinity: list[str] = dataclasses.field(default_factory=list)
    """Ids of allocations of the project: not their nodes."""
    anti_affinity_label: str = ""
    """"key=value": no node with an allocation of the project that has this label and has not ended."""
    require_prewarmed: bool = False
    """Only nodes that have cached and verified the image (CON-10). For VMs only."""
    affinity_label: str = ""
    """"key=value": only nodes with an allocation of the project that has this label and has not ended. There must be
    one.
    """



@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementExplanation:
    """PlacementExplanation counts the nodes on which a launch fits, and the unschedulable reasons of the others."""
    region_code: str = ""
    sku: str = ""
    gpu_count: int = 0
    nodes: int = 0
    """Nodes of the region with schedulable GPUs of the SKU's class, free or not; for bare metal all nodes of the
    region.
    """
    nodes_fit: int = 0
    """Nodes on which it fits."""
    removed: list[UnavailableReason] = dataclasses.field(default_factory=list)
    """Unschedulable reasons with their nodes and GPUs; a node with several reasons counts for each."""



@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedAllocation:
    """PlannedAllocation is an allocation of a plan."""
    id: str = ""
    project_id: str = ""
    name: str = ""
    sku: str = ""
    gpu_count: int = 0
    capacity_shape: CapacityShape = "unspecified"
    state: str = ""
    """"reserved", "provisioning", "active" or "releasing"."""
    create_time: datetime | None = None
    node_id: str = ""
    """The node it is on."""
    hostname: str = ""



@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedMove:
    """PlannedMove is an allocation and its planned placement."""
    allocation: PlannedAllocation | None = None
    placement: PlannedPlacement | None = None



@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedPlacement:
    """PlannedPlacement is the node and slots that placement would choose."""
    node_id: str = ""
    hostname: str = ""
    slot_indexes: list[int] = dataclasses.field(default_factory=list)
    """Empty for bare metal."""



@dataclass(frozen=True, slots=True, kw_only=True)
class PreservationReport:
    """PreservationReport."""
    nodes: list[NodePreservation] = dataclasses.field(default_factory=list)
    """By region, then class."""
    notice: str = ""
    """Notes on the plan for operators, as sentences."""



@dataclass(frozen=True, slots=True, kw_only=True)
class PriceVersion:
    """PriceVersion is an immutable price."""
    id: str = ""
    sku: str = ""
    price_per_gpu_hour: Money | None = None
    effective_time: datetime | None = None



@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Principal is a user or a service account that may call."""
    id: str = ""
    name: str = ""
    """Stable name in audit trails, for example "user:alice"."""
    display_name: str = ""
    email: str = ""
    """As the issuer has verified it; empty otherwise."""
    kind: PrincipalKind = "unspecified"
    platform_role: PlatformRole = "unspecified"
    """Unspecified: none."""
    issuer: str = ""
    """Who proves that it is the principal, and under which name."""
    subject: str = ""
    disable_time: datetime | None = None
    """Set: every call of it is refused."""
    create_time: datetime | None = None
    update_time: datetime | None = None
    etag: str = ""
    """Changes with every change of the principal."""



@dataclass(frozen=True, slots=True, kw_only=True)
class Processor:
    """Processor is one socket."""
    socket: int = 0
    model: str = ""
    cores: int = 0
    threads: int = 0
    microcode: str = ""
    serial: str = ""
    """Empty on most machines: few firmwares report it."""
    virtualization: bool = False
    """The processor has VMX or SVM and the firmware has not disabled it."""



@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Progress of the work that runs now."""
    step: str = ""
    """Name of the step, for example "clone"."""
    percent: int = 0
    """0 to 100, of the step."""
    message: str = ""
    """A sentence."""
    steps_done: int = 0
    """Steps that are done, and all steps."""
    steps_total: int = 0



@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """Project is what allocations belong to."""
    id: str = ""
    slug: str = ""
    """Unique in its organisation."""
    display_name: str = ""
    organisation: str = ""
    """Slug of the organisation."""
    organisation_id: str = ""
    state: TenantState = "unspecified"
    """That of the project itself, or of its organisation when that is further from active."""
    state_reason: str = ""
    """Why it is suspended or closed, as whoever did it wrote."""
    suspended_by_platform: bool = False
    """An administrator of the platform suspended it, and only one can resume it."""
    role: MemberRole = "unspecified"
    """The caller's role in it; unspecified for who is no member."""
    create_time: datetime | None = None
    update_time: datetime | None = None
    etag: str = ""
    """Changes with every change of the project."""



@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectAllocationLimit:
    """ProjectAllocationLimit is the allocation quota of a project, over all SKUs."""
    project_id: str = ""
    max_allocations: int = 0
    used_allocations: int = 0
    """Allocations that have not ended and are not queued."""
    etag: str = ""
    """That of the project's ProjectQuotas."""



@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectNetwork:
    """ProjectNetwork is the network setting of a project."""
    project_id: str = ""
    vms_reach_each_other: bool = False
    """VMs of the project that are on one host reach each other by IPv4. False unless it was changed. VMs of other
    projects never reach them.
    """
    etag: str = ""
    """Another one after every change."""



@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectPriority:
    """ProjectPriority."""
    project_id: str = ""
    priority: Priority = "unspecified"
    etag: str = ""
    """Another one after every change."""



@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectQuota:
    """ProjectQuota is the GPU quota of a project for a SKU."""
    project_id: str = ""
    sku: str = ""
    max_gpus: int = 0
    used_gpus: int = 0
    """GPUs of allocations that have not ended and are not queued."""
    etag: str = ""
    """That of the project's ProjectQuotas."""



@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectQuotas:
    """ProjectQuotas are the quotas of a project and their use. An allocation counts from its placement to its end;
    queued ones do not count.
    """
    project_id: str = ""
    max_allocations: int = 0
    """Over all SKUs."""
    used_allocations: int = 0
    quotas: list[ProjectQuota] = dataclasses.field(default_factory=list)
    """SKUs that the project has a quota for or has launched; others have the site's default."""
    default_max_gpus: int = 0
    """GPU quota of every SKU that is not in `quotas`."""
    max_reserved_gpus: int = 0
    """GPUs that members of the project can reserve; with 0, only operators can reserve for it."""
    reserved_gpus: int = 0
    """GPUs of the active reservations that members created."""
    etag: str = ""
    """Of all limits of the project together: another one after a change of any of them, and not after a change of what
    is used.
    """



@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectReservationLimit:
    """ProjectReservationLimit."""
    project_id: str = ""
    max_gpus: int = 0
    reserved_gpus: int = 0
    """GPUs that count against the limit."""
    etag: str = ""
    """Another one after every change of max_gpus."""



@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStatus:
    """QueueStatus is the position of an allocation in the queue."""
    position: int = 0
    """1: next. The allocations of one batch have one position. Others can be placed first if they fit on capacity that
    this one cannot use.
    """
    reason: str = ""
    """The unschedulable reason: a value of gpuaas.errors.v1.ErrorReason, without prefix."""
    message: str = ""
    """The same as a sentence for the user."""
    since: datetime | None = None
    """When it was queued."""
    deadline: datetime | None = None
    """When the request expires: the allocation fails then, unbilled."""



@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedRequest:
    """QueuedRequest is one queued request: an allocation, or a batch of them."""
    slot_class: str = ""
    """"h200_sxm" or "lab": its queue."""
    position: int = 0
    """1: next."""
    project_id: str = ""
    priority: Priority = "unspecified"
    """The priority now, raised by its age."""
    allocation_ids: list[str] = dataclasses.field(default_factory=list)
    gpus: int = 0
    """GPUs of all its allocations."""
    since: datetime | None = None
    deadline: datetime | None = None
    reason: str = ""
    """The last unschedulable reason: a value of gpuaas.errors.v1.ErrorReason, without prefix."""
    backfill_node_ids: list[str] = dataclasses.field(default_factory=list)
    """Nodes of its backfill reservation."""



@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSerialLogResponse:
    """ReadSerialLogResponse."""
    part: SerialLogPart | None = None
    synced: WatchSynced | None = None
    """Everything that was printed so far has been sent; only with follow."""
    heartbeat: WatchHeartbeat | None = None
    end: WatchEnd | None = None
    resume_token: str = ""
    """Goes on after this message."""



@dataclass(frozen=True, slots=True, kw_only=True)
class ReadinessCheck:
    """ReadinessCheck is a command that must succeed in a guest before its allocation is active (D-45, D-69). It is
    repeated until it passes or its time is over.
    """
    name: str = ""
    """Lower-case letters, digits and '-', at most 32; unique in its image."""
    command: str = ""
    """One line for the shell of the guest user, at most 1024 bytes. It may run more than once."""
    expected_text: str = ""
    """Text that the output must contain, at most 128 bytes. Empty: any output."""
    min_lines: int = 0
    """Least number of output lines with expected_text, at most 1000; not together with line_per_gpu. Default: one with
    expected_text, none without.
    """
    line_per_gpu: bool = False
    """As many output lines with expected_text as the VM has GPUs, at least."""
    timeout_seconds: int = 0
    """Seconds until it must have passed, at most 600, which is also the most of all checks of an image together.
    Default 60.
    """



@dataclass(frozen=True, slots=True, kw_only=True)
class ReadinessResult:
    """ReadinessResult is the result of a readiness check in one guest."""
    check: str = ""
    """Name of the check; "cloud-init" for the result of cloud-init."""
    passed: bool = False
    exit_status: int | None = None
    """Exit status of the command; absent when it gave none."""
    message: str = ""
    """A sentence."""
    output_end: str = ""
    """End of the output as plain text, at most 2048 bytes. It is the guest's."""
    time: datetime | None = None
    """When the check ended."""



@dataclass(frozen=True, slots=True, kw_only=True)
class RecoverableNode:
    """RecoverableNode is a sliced node that some moves would free."""
    node_id: str = ""
    hostname: str = ""
    moves: list[PlannedMove] = dataclasses.field(default_factory=list)



@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """Region is a location with its own capacity (A-54)."""
    code: str = ""
    display_name: str = ""
    enabled: bool = False
    unavailable_reason: str = ""
    """Shown when it is not enabled."""
    etag: str = ""
    """Another one after every change. In PutRegion that of the region that was read; another one makes the call fail
    with ABORTED (ETAG_STALE). Empty there: not checked.
    """



@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveOrganisationMemberResponse:
    """RemoveOrganisationMemberResponse."""



@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveProjectMemberResponse:
    """RemoveProjectMemberResponse."""



@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceMetadata:
    """ResourceMetadata is on every resource."""
    create_time: datetime | None = None
    """When the resource was created."""
    update_time: datetime | None = None
    """When it last changed."""
    revision: int = 0
    """Grows by one with every change."""
    labels: dict[str, str] = dataclasses.field(default_factory=dict)
    """The caller's own labels."""



@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceSlot:
    """ResourceSlot is an approved schedulable bundle of one host (A-88)."""
    id: str = ""
    node_id: str = ""
    slot_index: int = 0
    slot_class: str = ""
    status: SlotStatus = "unspecified"
    health_state: HealthState = "unspecified"
    health_detail: str = ""
    disabled: bool = False
    generation: int = 0
    bindings: SlotBindings | None = None
    allocation_id: str = ""
    update_time: datetime | None = None
    clean_evidence: str = ""
    """How and when it was last verified clean."""
    clean_generation: int = 0
    drift: list[SlotDrift] = dataclasses.field(default_factory=list)
    """Differences between what was approved and what the host has now, by its last report (D-80)."""
    etag: str = ""
    """Another one after every change of the slot."""
    ovs_interface_id: str = ""
    """As in SlotCandidate."""
    storage_ownership: str = ""
    """To whom the disk belongs: "slice" (A-102)."""
    storage_mode: str = ""
    """What the disk is used for: "slice" (A-103)."""
    storage_transition_manifest: str = ""
    """Path on the host of the manifest of the storage transition that took the disk over, as of the approval (A-105).
    Empty: none was known, of a disk that was raw before, an older agent, or a slot that an earlier release
    approved.
    """



@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeProfile:
    """RuntimeProfile is the shape of the VM per GPU (B-08..B-11)."""
    name: str = ""
    """For example "h200_1g_24c_64g"."""
    vcpus_per_gpu: int = 0
    memory_mib_per_gpu: int = 0
    hugepages: bool = False
    network_mbps: int | None = None
    """What the VM may send, and what it may receive, in megabits per second, with any number of GPUs (D-60). Absent:
    the setting of its host. Not for bare metal.
    """
    network_burst_kb: int | None = None
    """What may pass at once before that limit, in kilobytes. Absent: what the host's switch takes. Only with a limit.
    """



@dataclass(frozen=True, slots=True, kw_only=True)
class ScimGroup:
    """ScimGroup is a group that the identity provider has sent."""
    id: str = ""
    display_name: str = ""
    external_id: str = ""
    """The identity provider's own id; empty: it sent none."""
    member_count: int = 0
    mappings: list[ScimGroupMapping] = dataclasses.field(default_factory=list)
    """Without one the group gives nothing."""
    create_time: datetime | None = None
    update_time: datetime | None = None



@dataclass(frozen=True, slots=True, kw_only=True)
class ScimGroupMapping:
    """ScimGroupMapping gives the members of a group a role in a project."""
    id: str = ""
    group_id: str = ""
    project_id: str = ""
    project: str = ""
    """Slug of the project."""
    role: MemberRole = "unspecified"
    creator: str = ""
    """Principal who made it."""
    create_time: datetime | None = None



@dataclass(frozen=True, slots=True, kw_only=True)
class ScimKey:
    """ScimKey is an API key that the identity provider may call with."""
    api_key: ApiKey | None = None
    """Never with the key itself."""
    project_id: str = ""
    """Of the service account."""
    project: str = ""
    """Slug of the project."""
    service_account: str = ""
    """Slug of the service account."""
    account_disabled: bool = False
    """The service account is disabled, and so the key is refused."""



@dataclass(frozen=True, slots=True, kw_only=True)
class ScimSettings:
    """ScimSettings is how users that SCIM registers sign in."""
    organisation_id: str = ""
    issuer: str = ""
    """Exactly as in the tokens; empty: SCIM is not set up."""
    subject_attribute: ScimSubjectAttribute = "unspecified"
    user_count: int = 0
    """SCIM users, active or not."""
    group_count: int = 0
    create_time: datetime | None = None
    update_time: datetime | None = None
    etag: str = ""
    """Changes with every change of the settings."""



@dataclass(frozen=True, slots=True, kw_only=True)
class ScorePart:
    """ScorePart."""
    name: str = ""
    value: int = 0



@dataclass(frozen=True, slots=True, kw_only=True)
class SerialLogPart:
    """SerialLogPart is a part of what a VM printed, as it printed it: with control characters, and cut anywhere."""
    offset: int = 0
    """Bytes printed before it. More than where the part before ended: what was between is not retained any more."""
    print_time: datetime | None = None
    """When it was printed, to about a second."""
    data: bytes = b""



@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceAccount:
    """ServiceAccount is a program of a project."""
    id: str = ""
    project_id: str = ""
    slug: str = ""
    """Unique in the project."""
    principal: str = ""
    """Stable name in audit trails, for example "service:ci.3f9a1c22b7d4"."""
    description: str = ""
    role: MemberRole = "unspecified"
    """In the project."""
    creator: str = ""
    """Principal who made it."""
    create_time: datetime | None = None
    disable_time: datetime | None = None
    """Absent while it is enabled."""
    disabled_by_platform: bool = False
    """An administrator of the platform disabled it: only one enables it again."""
    etag: str = ""
    """Another one after every change, of its role too."""



@dataclass(frozen=True, slots=True, kw_only=True)
class Sku:
    """Sku is what can be launched."""
    code: str = ""
    """Slug, for example "h200-sxm-slice"."""
    display_name: str = ""
    capacity_shape: CapacityShape = "unspecified"
    slot_class: str = ""
    """"h200_sxm" or "lab"."""
    allowed_gpu_counts: list[int] = dataclasses.field(default_factory=list)
    profile: RuntimeProfile | None = None
    price_per_gpu_hour: Money | None = None
    """Price per GPU-hour; absent until billing has published one."""
    price_version_id: str = ""
    lab: bool = False
    disabled: bool | None = None
    """It is not offered any more: what runs goes on, nobody reserves more of it, and queued launches of it end. A
    project with a capacity reservation of it can launch on the GPUs that are reserved, until the reservation ends,
    and nobody else can. Members do not see it. PutSku without it leaves it as it is; a new SKU is offered then.
    """
    reserved_gpus: int = 0
    """GPUs that capacity reservations of the SKU reserve now, in use or not. For operators; 0 in answers to others.
    """
    etag: str = ""
    """Another one after every change by PutSku; a new price leaves it. In PutSku that of the SKU that was read;
    another one makes the call fail with ABORTED (ETAG_STALE). Empty there: not checked.
    """



@dataclass(frozen=True, slots=True, kw_only=True)
class SlotBindings:
    """SlotBindings are the devices and addresses a slot owns on its host (A-95..A-99, A-102..A-108)."""
    gpu_pci_address: str = ""
    """Sorted PCI addresses are never invented: they come from the host's report."""
    gpu_module_id: int | None = None
    """Module id of the GPU on its baseboard; legal groups are sets of these."""
    numa_node: int | None = None
    """NUMA node of the GPU."""
    nvme_device: str = ""
    """Stable identity of the disk: "/dev/disk/by-id/nvme-eui.…" or, class lab, "lab-disk:<uuid>"."""
    storage_identity_kind: str = ""
    """"nvme_wwn_by_id" or, class lab, "lab_backing_file" (A-106)."""
    management_mac: str = ""
    """MAC of the management vNIC."""
    private_ip: str = ""
    """Address reserved for that MAC."""
    fabric_device: str = ""
    """Parent fabric device; equal values on one node exclude each other (B-52)."""
    fabric_vf_pci_address: str = ""
    """The slot's own data-plane function (A-108)."""
    fabric_claim_mode: str = ""
    """"per_slot_vf" for a whole-GPU slot (A-107)."""
    destructive_wipe_policy: str = ""
    """"blkdiscard", "nvme_format" or "site_erase" (D-75)."""
    nvme_bytes: int = 0
    """Size of the disk in bytes."""



@dataclass(frozen=True, slots=True, kw_only=True)
class SlotCandidate:
    """SlotCandidate is a proposed slot. It is not schedulable before approval."""
    slot_index: int = 0
    slot_class: str = ""
    bindings: SlotBindings | None = None
    blockers: list[str] = dataclasses.field(default_factory=list)
    """Blockers of the approval; empty when it can be approved."""
    kernel_path: str = ""
    """Kernel path of the disk at the time of the inspection; advisory, it changes with reboots."""
    disk_blockers: list[str] = dataclasses.field(default_factory=list)
    """Those of the blockers that are about the disk: with another disk they do not block the slot."""
    fabric_blockers: list[str] = dataclasses.field(default_factory=list)
    """Those of the blockers that are about the fabric function."""
    ovs_interface_id: str = ""
    """Identity of the slot's port on the guests' bridge, where that is an Open vSwitch: external_ids:iface-id of its
    interface (A-68). It follows from the MAC, and is the same whichever VM has the slot.
    """



@dataclass(frozen=True, slots=True, kw_only=True)
class SlotChange:
    """SlotChange is the current state of a slot; a retired one has ended."""
    kind: ChangeKind = "unspecified"
    slot: ResourceSlot | None = None



@dataclass(frozen=True, slots=True, kw_only=True)
class SlotChoice:
    """SlotChoice is what an operator chooses for a slot in place of what its candidate has; what is empty stays. A
    device is chosen from those that the node reports now; it may belong to no other slot, and must be sound and
    unused.
    """
    slot_index: int = 0
    """One of the indexes to approve."""
    nvme_device: str = ""
    """Identity of another disk, as in SlotBindings.nvme_device."""
    fabric_vf_pci_address: str = ""
    """PCI address of another virtual function."""
    destructive_wipe_policy: str = ""
    """"blkdiscard", "nvme_format" or "site_erase" (D-75): one that the host can meet on the disk, by
    InspectedDevice.wipe_policies.
    """



@dataclass(frozen=True, slots=True, kw_only=True)
class SlotComparison:
    """SlotComparison shows an approved slot beside what a discovery found at its index (A-111)."""
    slot_index: int = 0
    slot_id: str = ""
    """Approved slot; empty: there is none."""
    state: ComparisonState = "unspecified"
    bindings: list[BindingComparison] = dataclasses.field(default_factory=list)
    """One per field of the bindings that approved or found has a value of."""



@dataclass(frozen=True, slots=True, kw_only=True)
class SlotDrift:
    """SlotDrift is a difference between what was approved for a slot and what its host has now (D-80)."""
    kind: str = ""
    """"gpu_missing", "disk_in_use", "duplicate_mac" and others."""
    field: str = ""
    """Field of SlotBindings."""
    approved: str = ""
    observed: str = ""
    message: str = ""
    remediation: str = ""
    since: datetime | None = None
    needs_wipe: bool = False
    """The content of the disk is unknown: the slot stays unschedulable until it is wiped, also when the drift has
    ended.
    """



@dataclass(frozen=True, slots=True, kw_only=True)
class SlotHistoryEntry:
    """SlotHistoryEntry is a change of a slot: of its claims, evidence or health, or an operator's decision."""
    time: datetime | None = None
    kind: str = ""
    """"claimed", "released", "evidence", "health", "enabled", "disabled" or "retired"."""
    generation: int = 0
    """Of a claim and of evidence; 0 otherwise."""
    detail: str = ""
    allocation_id: str = ""
    """The allocation that the slot was claimed for."""
    principal: str = ""



@dataclass(frozen=True, slots=True, kw_only=True)
class SlotRepair:
    """SlotRepair is the state of one repair."""
    id: str = ""
    slot_id: str = ""
    state: str = ""
    """running, done or failed."""
    slot_status: SlotStatus = "unspecified"
    health_state: HealthState = "unspecified"
    detail: str = ""
    create_time: datetime | None = None
    end_time: datetime | None = None



@dataclass(frozen=True, slots=True, kw_only=True)
class SshKey:
    """SshKey is an SSH public key with a name."""
    id: str = ""
    name: str = ""
    public_key: str = ""
    """In canonical form: type, base64 and comment, single spaces."""
    fingerprint: str = ""
    """"SHA256:…", as ssh-keygen shows it."""
    create_time: datetime | None = None
    project_id: str = ""
    """Project that owns it; empty: it is the caller's own."""



@dataclass(frozen=True, slots=True, kw_only=True)
class TenantAllocation:
    """TenantAllocation is an allocation and where it is."""
    allocation: Allocation | None = None
    node_id: str = ""
    """Empty while it is queued, and where it was never placed."""



@dataclass(frozen=True, slots=True, kw_only=True)
class TerminalSession:
    """TerminalSession is one terminal into one allocation."""
    id: str = ""
    allocation_id: str = ""
    project_id: str = ""
    principal: str = ""
    open_time: datetime | None = None
    close_time: datetime | None = None
    close_reason: str = ""
    recorded: bool = False
    """True when output was recorded and the recording is still stored."""
    recording_bytes: int = 0
    """Bytes of the recording."""
    kind: TerminalKind = "unspecified"
    end_request_time: datetime | None = None
    """When its end was requested by its user or an operator; unset when it was not. It ends within seconds."""
    end_reason: str = ""
    """Why an operator ended it; empty otherwise, also where its user had requested its end before the operator did.
    """



@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineEntry:
    """TimelineEntry is one event of an allocation (C-37..C-40)."""
    sequence: int = 0
    """Grows within one allocation, no gaps."""
    time: datetime | None = None
    step: str = ""
    """Step or event, for example "provision.clone"."""
    state: TimelineState = "unspecified"
    percent: int = 0
    """0 to 100 while running."""
    message: str = ""
    """A sentence for the user."""
    end_time: datetime | None = None
    error: dict[str, Any] | None = None
    """Set when the step failed."""
    actor: str = ""
    """Principal at whose request it happened; "operator": an operator of the platform; empty: the platform itself.
    """
    reason: str = ""
    """The reason that an operator gave."""



@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyDiscovery:
    """TopologyDiscovery is one advisory inspection of a host (A-56..A-58)."""
    id: str = ""
    node_id: str = ""
    task_type: str = ""
    """Type of the node task, "slice.topology_discover"."""
    state: DiscoveryState = "unspecified"
    error: str = ""
    candidate_summary: CandidateSummary | None = None
    candidates: list[SlotCandidate] = dataclasses.field(default_factory=list)
    evidence: list[Evidence] = dataclasses.field(default_factory=list)
    create_time: datetime | None = None
    end_time: datetime | None = None
    host: HostInventory | None = None
    """Everything the host consists of; absent until an agent reported it."""
    schema_version: int = 0
    """Version of the host's report; 0 is an agent from before versions."""
    comparisons: list[SlotComparison] = dataclasses.field(default_factory=list)
    """Every candidate beside the slot that is approved at its index, and every slot without a candidate, by index.
    Empty before the discovery has completed, and while the scheduler does not answer.
    """
    error_reason: ErrorReason = "unspecified"
    """Why it failed, for programs; unspecified: it did not."""
    inspected_devices: list[InspectedDevice] = dataclasses.field(default_factory=list)
    """Every disk and every virtual function that a slot could have, also those of no candidate."""



@dataclass(frozen=True, slots=True, kw_only=True)
class UnavailableReason:
    """UnavailableReason is one unschedulable reason with the GPUs and nodes that it affects (B-57, B-58)."""
    reason: str = ""
    """A value of gpuaas.errors.v1.ErrorReason, without prefix."""
    gpus: int = 0
    nodes: int = 0
    message: str = ""
    """A sentence for the user."""



@dataclass(frozen=True, slots=True, kw_only=True)
class UsageInterval:
    """UsageInterval is time in which an allocation was billable (G-01, G-09)."""
    id: str = ""
    allocation_id: str = ""
    project_id: str = ""
    sku: str = ""
    gpu_count: int = 0
    start_time: datetime | None = None
    end_time: datetime | None = None
    """Absent while open."""
    microseconds: int = 0
    """Length so far in microseconds."""
    seconds: int = 0
    """Whole seconds so far, rounded down, for people."""
    price_version_id: str = ""
    price_per_gpu_hour: Money | None = None
    amount: Money | None = None
    """gpu_count x charged time x price, rounded once, half-even, to the currency's nano-unit."""
    credited_microseconds: int = 0
    """What of the time is not charged: the host was lost, and the setting billing.host_lost credits that."""



@dataclass(frozen=True, slots=True, kw_only=True)
class UsageTotal:
    """UsageTotal sums the matching intervals of one currency."""
    gpu_microseconds: int = 0
    amount: Money | None = None
    credited_gpu_microseconds: int = 0
    """What of it is not charged."""



@dataclass(frozen=True, slots=True, kw_only=True)
class VirtualFunction:
    """VirtualFunction is an SR-IOV function."""
    number: int = 0
    function: PciFunction | None = None
    node_guid: str = ""
    port_guid: str = ""
    link_policy: str = ""
    """"Follow", "Up" or "Down", where the device has a policy."""



@dataclass(frozen=True, slots=True, kw_only=True)
class VmResources:
    """VmResources is what a VM has."""
    vcpus: int = 0
    memory_mib: int = 0
    disks: int = 0
    """One per GPU, each used by this VM alone."""
    disk_bytes: int = 0
    """Bytes of all disks together."""



@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Wait is how long a launch can stay queued."""
    deadline: datetime | None = None
    """When the request expires; in the future, at most seven days from now."""



@dataclass(frozen=True, slots=True, kw_only=True)
class WatchAllocationResponse:
    """WatchAllocationResponse."""
    change: AllocationChange | None = None
    entry: TimelineEntry | None = None
    """New, or changed since it was sent; its sequence identifies it."""
    synced: WatchSynced | None = None
    heartbeat: WatchHeartbeat | None = None
    end: WatchEnd | None = None
    resume_token: str = ""
    """Goes on after this message."""



@dataclass(frozen=True, slots=True, kw_only=True)
class WatchAllocationsResponse:
    """WatchAllocationsResponse."""
    change: AllocationChange | None = None
    synced: WatchSynced | None = None
    heartbeat: WatchHeartbeat | None = None
    resume_token: str = ""
    """Goes on after this message. Empty until the first state is complete."""



@dataclass(frozen=True, slots=True, kw_only=True)
class WatchEnd:
    """WatchEnd: the resource cannot change any more. It is the last message."""



@dataclass(frozen=True, slots=True, kw_only=True)
class WatchHeartbeat:
    """WatchHeartbeat: the watch is alive and nothing has changed."""



@dataclass(frozen=True, slots=True, kw_only=True)
class WatchNodesResponse:
    """WatchNodesResponse."""
    node: NodeChange | None = None
    slot: SlotChange | None = None
    synced: WatchSynced | None = None
    heartbeat: WatchHeartbeat | None = None
    resume_token: str = ""
    """Goes on after this message."""



@dataclass(frozen=True, slots=True, kw_only=True)
class WatchSynced:
    """WatchSynced: everything before the watch started, or since its token, has been sent."""



@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """Webhook is an HTTPS endpoint that events are delivered to."""
    id: str = ""
    project_id: str = ""
    """Whose events it gets: either this project's,"""
    organisation_id: str = ""
    """or those of this organisation and of all of its projects."""
    url: str = ""
    event_types: list[str] = dataclasses.field(default_factory=list)
    """Sorted; empty: all."""
    description: str = ""
    state: WebhookState = "unspecified"
    disable_reason: str = ""
    """Why it is disabled; empty while it is not."""
    disable_time: datetime | None = None
    failing_time: datetime | None = None
    """Since when no delivery has succeeded and one at least has failed; absent otherwise."""
    secret: str = ""
    """Signs deliveries. Only in the answer that made it."""
    previous_secret_expire_time: datetime | None = None
    """Until when deliveries are signed with the secret before as well; absent: it has none."""
    creator: str = ""
    """Principal who made it."""
    create_time: datetime | None = None
    update_time: datetime | None = None
    etag: str = ""
    """Changes with every change of a caller."""



@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookDelivery:
    """WebhookDelivery is one event for one webhook."""
    id: str = ""
    """The header webhook-id of every attempt."""
    webhook_id: str = ""
    event_type: str = ""
    object_id: str = ""
    """What the event is about, for example an allocation or a member; of a ping the webhook itself."""
    state: WebhookDeliveryState = "unspecified"
    attempts: int = 0
    response_status: int = 0
    """HTTP status of the last answer; 0: there was none."""
    error: str = ""
    """Why the last attempt failed; empty when it did not."""
    create_time: datetime | None = None
    last_attempt_time: datetime | None = None
    """Absent: not attempted yet."""
    next_attempt_time: datetime | None = None
    """Absent: there will be none."""
    deliver_time: datetime | None = None
    """Absent: it has not succeeded."""



@dataclass(frozen=True, slots=True, kw_only=True)
class WipeCertificate:
    """WipeCertificate is the record of one wipe of a slot's disk that was proven, with what its host signed (P2).
    """
    slot_id: str = ""
    slot_generation: int = 0
    """Of the slot, while the wipe was its proof."""
    policy: str = ""
    """Wipe policy of the slot, which names the least that was done: "blkdiscard", "nvme_format" or "site_erase"."""
    erase_method: str = ""
    """How it was wiped: "sanitize_crypto_erase", "sanitize_block_erase", "format_crypto_erase",
    "format_user_data_erase", "site_erase", "blkdiscard", "write_zeroes" or "overwrite"; empty when the host did not
    report it.
    """
    accept_time: datetime | None = None
    """When the platform accepted the proof."""
    document: str = ""
    """JSON document that the host signed: device, method, times and verification. `gpuaas admin certificate verify`
    verifies it without the platform. Empty when the host signed none.
    """
