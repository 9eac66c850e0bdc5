"""Every operation as data, for the synchronous and the asynchronous client.

Generated from docs/reference/openapi.json by `make sdk`; do not edit.
"""

from __future__ import annotations

from typing import Any

from gpuaas import models as m
from gpuaas._operation import Operation

ABORT_AGENT_ROLLOUT: Operation[m.AgentRollout] = Operation(
    "POST", "/api/v1/admin/agent-rollouts/{rollout_id}:abort", m.AgentRollout, keyed=True
)
ACCEPT_INVITATION: Operation[m.Invitation] = Operation(
    "POST", "/api/v1/invitations:accept", m.Invitation, keyed=True
)
ADD_BREAK_FIX_ACTION: Operation[m.BreakFix] = Operation(
    "POST", "/api/v1/admin/nodes/{node_id}/break-fixes/{break_fix_id}:addAction", m.BreakFix, keyed=True
)
ADD_ORGANISATION_MEMBER: Operation[m.Member] = Operation(
    "POST", "/api/v1/organisations/{organisation_id}/members", m.Member, keyed=True
)
ADD_PROJECT_MEMBER: Operation[m.Member] = Operation(
    "POST", "/api/v1/projects/{project_id}/members", m.Member, keyed=True
)
ADMIN_LIST_PROJECTS: Operation[m.ListProjectsResponse] = Operation(
    "GET", "/api/v1/admin/projects", m.ListProjectsResponse
)
APPROVE_RESOURCE_SLOTS: Operation[m.ListResourceSlotsResponse] = Operation(
    "POST", "/api/v1/admin/nodes/{node_id}/resource-slots:approve", m.ListResourceSlotsResponse, keyed=True
)
ATTACH_HOST_REPORT: Operation[m.AttachedHostReport] = Operation(
    "POST", "/api/v1/admin/nodes/{node_id}/host-reports", m.AttachedHostReport, keyed=True
)
AUDIT_LEDGER: Operation[m.AuditLedgerResponse] = Operation(
    "GET", "/api/v1/admin/ledger:audit", m.AuditLedgerResponse
)
BATCH_CREATE_ALLOCATIONS: Operation[m.BatchCreateAllocationsResponse] = Operation(
    "POST", "/api/v1/allocations:batchCreate", m.BatchCreateAllocationsResponse, keyed=True
)
CANCEL_CAPACITY_RESERVATION: Operation[m.CapacityReservation] = Operation(
    "POST", "/api/v1/capacity-reservations/{reservation_id}:cancel", m.CapacityReservation, keyed=True
)
CANCEL_PROJECT_RESERVATION: Operation[m.CapacityReservation] = Operation(
    "POST", "/api/v1/admin/capacity-reservations/{reservation_id}:cancel", m.CapacityReservation, keyed=True
)
CLOSE_BREAK_FIX: Operation[m.BreakFix] = Operation(
    "POST", "/api/v1/admin/nodes/{node_id}/break-fixes/{break_fix_id}:close", m.BreakFix, keyed=True
)
CLOSE_ORGANISATION: Operation[m.Organisation] = Operation(
    "POST", "/api/v1/admin/organisations/{organisation_id}:close", m.Organisation, keyed=True
)
CLOSE_PROJECT: Operation[m.Project] = Operation(
    "POST", "/api/v1/projects/{project_id}:close", m.Project, keyed=True
)
COMPARE_NODE: Operation[m.NodeComparison] = Operation(
    "GET", "/api/v1/admin/nodes/{node_id}/comparison", m.NodeComparison
)
CORDON_NODE: Operation[m.NodePlacement] = Operation(
    "POST", "/api/v1/admin/nodes/{node_id}:cordon", m.NodePlacement, keyed=True
)
CORRECT_COMPARISON: Operation[m.NodeComparisonRow] = Operation(
    "POST", "/api/v1/admin/nodes/{node_id}/comparison/{allocation_id}:correct", m.NodeComparisonRow, keyed=True
)
CREATE_AGENT_ROLLOUT: Operation[m.AgentRollout] = Operation(
    "POST", "/api/v1/admin/agent-rollouts", m.AgentRollout, keyed=True
)
CREATE_ALLOCATION: Operation[m.Allocation] = Operation(
    "POST", "/api/v1/allocations", m.Allocation, keyed=True
)
CREATE_ALLOCATION_GRANT: Operation[m.AllocationGrant] = Operation(
    "POST", "/api/v1/projects/{project_id}/allocation-grants", m.AllocationGrant, keyed=True
)
CREATE_API_KEY: Operation[m.ApiKey] = Operation(
    "POST", "/api/v1/projects/{project_id}/service-accounts/{service_account_id}/api-keys", m.ApiKey, keyed=True
)
CREATE_CAPACITY_RESERVATION: Operation[m.CapacityReservation] = Operation(
    "POST", "/api/v1/capacity-reservations", m.CapacityReservation, keyed=True
)
CREATE_ENROLMENT_TOKEN: Operation[m.EnrolmentToken] = Operation(
    "POST", "/api/v1/admin/nodes/{node_id}/enrolment-tokens", m.EnrolmentToken, keyed=True
)
CREATE_IMAGE: Operation[m.Image] = Operation(
    "POST", "/api/v1/admin/images", m.Image, keyed=True
)
CREATE_INGRESS_MAPPING: Operation[m.IngressMapping] = Operation(
    "POST", "/api/v1/allocations/{allocation_id}/ingress-mappings", m.IngressMapping, keyed=True
)
CREATE_NODE: Operation[m.Node] = Operation(
    "POST", "/api/v1/admin/nodes", m.Node, keyed=True
)
CREATE_ORGANISATION: Operation[m.Organisation] = Operation(
    "POST", "/api/v1/admin/organisations", m.Organisation, keyed=True
)
CREATE_ORGANISATION_INVITATION: Operation[m.Invitation] = Operation(
    "POST", "/api/v1/organisations/{organisation_id}/invitations", m.Invitation, keyed=True
)
CREATE_ORGANISATION_WEBHOOK: Operation[m.Webhook] = Operation(
    "POST", "/api/v1/organisations/{organisation_id}/webhooks", m.Webhook, keyed=True
)
CREATE_PRICE_VERSION: Operation[m.PriceVersion] = Operation(
    "POST", "/api/v1/admin/prices", m.PriceVersion, keyed=True
)
CREATE_PRINCIPAL: Operation[m.Principal] = Operation(
    "POST", "/api/v1/admin/principals", m.Principal, keyed=True
)
CREATE_PROJECT: Operation[m.Project] = Operation(
    "POST", "/api/v1/projects", m.Project, keyed=True
)
CREATE_PROJECT_INVITATION: Operation[m.Invitation] = Operation(
    "POST", "/api/v1/projects/{project_id}/invitations", m.Invitation, keyed=True
)
CREATE_PROJECT_RESERVATION: Operation[m.CapacityReservation] = Operation(
    "POST", "/api/v1/admin/capacity-reservations", m.CapacityReservation, keyed=True
)
CREATE_PROJECT_SSH_KEY: Operation[m.SshKey] = Operation(
    "POST", "/api/v1/projects/{project_id}/ssh-keys", m.SshKey, keyed=True
)
CREATE_PROJECT_WEBHOOK: Operation[m.Webhook] = Operation(
    "POST", "/api/v1/projects/{project_id}/webhooks", m.Webhook, keyed=True
)
CREATE_SCIM_GROUP_MAPPING: Operation[m.ScimGroupMapping] = Operation(
    "POST", "/api/v1/organisations/{organisation_id}/scim/groups/{group_id}/mappings", m.ScimGroupMapping, keyed=True
)
CREATE_SERVICE_ACCOUNT: Operation[m.ServiceAccount] = Operation(
    "POST", "/api/v1/projects/{project_id}/service-accounts", m.ServiceAccount, keyed=True
)
CREATE_SSH_KEY: Operation[m.SshKey] = Operation(
    "POST", "/api/v1/ssh-keys", m.SshKey, keyed=True
)
CREATE_TERMINAL_SESSION: Operation[m.CreateTerminalSessionResponse] = Operation(
    "POST", "/api/v1/allocations/{allocation_id}/terminal-sessions", m.CreateTerminalSessionResponse, keyed=True
)
DEACTIVATE_PARTITION: Operation[m.DeactivatePartitionResponse] = Operation(
    "POST", "/api/v1/admin/nodes/{node_id}/partitions/{partition_id}:deactivate", m.DeactivatePartitionResponse, keyed=True
)
DELETE_ALLOCATION_GRANT: Operation[m.DeleteAllocationGrantResponse] = Operation(
    "DELETE", "/api/v1/projects/{project_id}/allocation-grants/{grant_id}", m.DeleteAllocationGrantResponse, keyed=True
)
DELETE_INGRESS_MAPPING: Operation[m.IngressMapping] = Operation(
    "DELETE", "/api/v1/allocations/{allocation_id}/ingress-mappings/{ingress_mapping_id}", m.IngressMapping, keyed=True
)
DELETE_NODE: Operation[m.DeleteNodeResponse] = Operation(
    "DELETE", "/api/v1/admin/nodes/{node_id}", m.DeleteNodeResponse, keyed=True
)
DELETE_PROJECT_SSH_KEY: Operation[m.DeleteProjectSshKeyResponse] = Operation(
    "DELETE", "/api/v1/projects/{project_id}/ssh-keys/{ssh_key_id}", m.DeleteProjectSshKeyResponse, keyed=True
)
DELETE_REGION: Operation[m.DeleteRegionResponse] = Operation(
    "DELETE", "/api/v1/admin/regions/{region_code}", m.DeleteRegionResponse, keyed=True
)
DELETE_SCIM_GROUP_MAPPING: Operation[m.DeleteScimGroupMappingResponse] = Operation(
    "DELETE", "/api/v1/organisations/{organisation_id}/scim/groups/{group_id}/mappings/{mapping_id}", m.DeleteScimGroupMappingResponse, keyed=True
)
DELETE_SERVICE_ACCOUNT: Operation[m.DeleteServiceAccountResponse] = Operation(
    "DELETE", "/api/v1/projects/{project_id}/service-accounts/{service_account_id}", m.DeleteServiceAccountResponse, keyed=True
)
DELETE_SSH_KEY: Operation[m.DeleteSshKeyResponse] = Operation(
    "DELETE", "/api/v1/ssh-keys/{ssh_key_id}", m.DeleteSshKeyResponse, keyed=True
)
DELETE_WEBHOOK: Operation[m.DeleteWebhookResponse] = Operation(
    "DELETE", "/api/v1/webhooks/{webhook_id}", m.DeleteWebhookResponse, keyed=True
)
DISABLE_API_KEY: Operation[m.ApiKey] = Operation(
    "POST", "/api/v1/projects/{project_id}/service-accounts/{service_account_id}/api-keys/{api_key_id}:disable", m.ApiKey, keyed=True
)
DISABLE_PRINCIPAL: Operation[m.Principal] = Operation(
    "POST", "/api/v1/admin/principals/{principal_id}:disable", m.Principal, keyed=True
)
DISABLE_RESOURCE_SLOT: Operation[m.ResourceSlot] = Operation(
    "POST", "/api/v1/admin/nodes/{node_id}/resource-slots/{slot_id}:disable", m.ResourceSlot, keyed=True
)
DISABLE_SERVICE_ACCOUNT: Operation[m.ServiceAccount] = Operation(
    "POST", "/api/v1/projects/{project_id}/service-accounts/{service_account_id}:disable", m.ServiceAccount, keyed=True
)
DISCOVER_TOPOLOGY: Operation[m.TopologyDiscovery] = Operation(
    "POST", "/api/v1/admin/nodes/{node_id}/slice-topology/discovery", m.TopologyDiscovery, keyed=True
)
DRAIN_NODE: Operation[m.NodePlacement] = Operation(
    "POST", "/api/v1/admin/nodes/{node_id}:drain", m.NodePlacement, keyed=True
)
ENABLE_PRINCIPAL: Operation[m.Principal] = Operation(
    "POST", "/api/v1/admin/principals/{principal_id}:enable", m.Principal, keyed=True
)
ENABLE_RESOURCE_SLOT: Operation[m.ResourceSlot] = Operation(
    "POST", "/api/v1/admin/nodes/{node_id}/resource-slots/{slot_id}:enable", m.ResourceSlot, keyed=True
)
ENABLE_SERVICE_ACCOUNT: Operation[m.ServiceAccount] = Operation(
    "POST", "/api/v1/projects/{project_id}/service-accounts/{service_account_id}:enable", m.ServiceAccount, keyed=True
)
END_TENANT_TERMINAL_SESSION: Operation[m.TerminalSession] = Operation(
    "POST", "/api/v1/admin/terminal-sessions/{session_id}:end", m.TerminalSession, keyed=True
)
END_TERMINAL_SESSION: Operation[m.TerminalSession] = Operation(
    "POST", "/api/v1/allocations/{allocation_id}/terminal-sessions/{session_id}:end", m.TerminalSession, keyed=True
)
EXCHANGE_API_KEY: Operation[m.ExchangeApiKeyResponse] = Operation(
    "POST", "/api/v1/auth/token", m.ExchangeApiKeyResponse
)
EXPLAIN_NODES: Operation[m.ExplainNodesResponse] = Operation(
    "GET", "/api/v1/admin/node-placements:explain", m.ExplainNodesResponse
)
EXPLAIN_PLACEMENT: Operation[m.PlacementExplanation] = Operation(
    "GET", "/api/v1/availability:explain", m.PlacementExplanation
)
EXPORT_AUDIT_RECORDS: Operation[m.ExportAuditRecordsResponse] = Operation(
    "GET", "/api/v1/admin/audit/{source}:export", m.ExportAuditRecordsResponse
)
FORCE_RELEASE_ALLOCATION: Operation[m.ForceRelease] = Operation(
    "POST", "/api/v1/admin/allocations/{allocation_id}:forceRelease", m.ForceRelease, keyed=True
)
GET_AGENT_ROLLOUT: Operation[m.AgentRollout] = Operation(
    "GET", "/api/v1/admin/agent-rollouts/{rollout_id}", m.AgentRollout
)
GET_ALLOCATION: Operation[m.Allocation] = Operation(
    "GET", "/api/v1/allocations/{allocation_id}", m.Allocation
)
GET_ALLOCATION_DETAIL: Operation[m.AllocationDetail] = Operation(
    "GET", "/api/v1/admin/allocations/{allocation_id}", m.AllocationDetail
)
GET_ALLOCATION_METRICS: Operation[m.AllocationMetrics] = Operation(
    "GET", "/api/v1/allocations/{allocation_id}/metrics", m.AllocationMetrics
)
GET_CALLER: Operation[m.Caller] = Operation(
    "GET", "/api/v1/whoami", m.Caller
)
GET_CAPACITY_RESERVATION: Operation[m.CapacityReservation] = Operation(
    "GET", "/api/v1/capacity-reservations/{reservation_id}", m.CapacityReservation
)
GET_FLEET_COUNTS: Operation[m.FleetRollup] = Operation(
    "GET", "/api/v1/admin/fleet:counts", m.FleetRollup
)
GET_INGRESS_MAPPING: Operation[m.IngressMapping] = Operation(
    "GET", "/api/v1/allocations/{allocation_id}/ingress-mappings/{ingress_mapping_id}", m.IngressMapping
)
GET_NODE: Operation[m.Node] = Operation(
    "GET", "/api/v1/admin/nodes/{node_id}", m.Node
)
GET_NODE_PLACEMENT: Operation[m.NodePlacement] = Operation(
    "GET", "/api/v1/admin/nodes/{node_id}/placement", m.NodePlacement
)
GET_ORGANISATION: Operation[m.Organisation] = Operation(
    "GET", "/api/v1/organisations/{organisation_id}", m.Organisation
)
GET_ORGANISATION_GUARDRAILS: Operation[m.OrganisationGuardrails] = Operation(
    "GET", "/api/v1/organisations/{organisation_id}/guardrails", m.OrganisationGuardrails
)
GET_PRESERVATION_REPORT: Operation[m.PreservationReport] = Operation(
    "GET", "/api/v1/admin/capacity:preservation", m.PreservationReport
)
GET_PRINCIPAL: Operation[m.Principal] = Operation(
    "GET", "/api/v1/admin/principals/{principal_id}", m.Principal
)
GET_PROJECT: Operation[m.Project] = Operation(
    "GET", "/api/v1/projects/{project_id}", m.Project
)
GET_PROJECT_NETWORK: Operation[m.ProjectNetwork] = Operation(
    "GET", "/api/v1/project-network", m.ProjectNetwork
)
GET_PROJECT_PRIORITY: Operation[m.ProjectPriority] = Operation(
    "GET", "/api/v1/admin/projects/{project_id}/priority", m.ProjectPriority
)
GET_PROJECT_QUOTAS: Operation[m.ProjectQuotas] = Operation(
    "GET", "/api/v1/admin/projects/{project_id}/quotas", m.ProjectQuotas
)
GET_PROJECT_RESERVATION: Operation[m.CapacityReservation] = Operation(
    "GET", "/api/v1/admin/capacity-reservations/{reservation_id}", m.CapacityReservation
)
GET_PROJECT_RESERVATION_LIMIT: Operation[m.ProjectReservationLimit] = Operation(
    "GET", "/api/v1/admin/projects/{project_id}/reservation-limit", m.ProjectReservationLimit
)
GET_QUOTAS: Operation[m.ProjectQuotas] = Operation(
    "GET", "/api/v1/quotas", m.ProjectQuotas
)
GET_SCIM_SETTINGS: Operation[m.ScimSettings] = Operation(
    "GET", "/api/v1/organisations/{organisation_id}/scim", m.ScimSettings
)
GET_SLOT_REPAIR: Operation[m.SlotRepair] = Operation(
    "GET", "/api/v1/admin/nodes/{node_id}/resource-slots/{slot_id}/repair", m.SlotRepair
)
GET_TERMINAL_RECORDING: Operation[m.GetTerminalRecordingResponse] = Operation(
    "GET", "/api/v1/terminal-sessions/{session_id}/recording", m.GetTerminalRecordingResponse
)
GET_TOPOLOGY_DISCOVERY: Operation[m.TopologyDiscovery] = Operation(
    "GET", "/api/v1/admin/nodes/{node_id}/slice-topology/discovery", m.TopologyDiscovery
)
GET_WEBHOOK: Operation[m.Webhook] = Operation(
    "GET", "/api/v1/webhooks/{webhook_id}", m.Webhook
)
LIST_ACTIVITIES: Operation[m.ListActivitiesResponse] = Operation(
    "GET", "/api/v1/projects/{project_id}/activities", m.ListActivitiesResponse
)
LIST_AGENT_ROLLOUTS: Operation[m.ListAgentRolloutsResponse] = Operation(
    "GET", "/api/v1/admin/agent-rollouts", m.ListAgentRolloutsResponse
)
LIST_ALL_ALLOCATIONS: Operation[m.ListAllAllocationsResponse] = Operation(
    "GET", "/api/v1/admin/allocations", m.ListAllAllocationsResponse
)
LIST_ALL_IMAGES: Operation[m.ListImagesResponse] = Operation(
    "GET", "/api/v1/admin/images", m.ListImagesResponse
)
LIST_ALL_ORGANISATIONS: Operation[m.ListAllOrganisationsResponse] = Operation(
    "GET", "/api/v1/admin/organisations", m.ListAllOrganisationsResponse
)
LIST_ALL_RESERVATIONS: Operation[m.ListAllReservationsResponse] = Operation(
    "GET", "/api/v1/admin/capacity-reservations", m.ListAllReservationsResponse
)
LIST_ALLOCATION_GRANTS: Operation[m.ListAllocationGrantsResponse] = Operation(
    "GET", "/api/v1/projects/{project_id}/allocation-grants", m.ListAllocationGrantsResponse
)
LIST_ALLOCATION_TERMINAL_SESSIONS: Operation[m.ListAllocationTerminalSessionsResponse] = Operation(
    "GET", "/api/v1/allocations/{allocation_id}/terminal-sessions", m.ListAllocationTerminalSessionsResponse
)
LIST_ALLOCATIONS: Operation[m.ListAllocationsResponse] = Operation(
    "GET", "/api/v1/allocations", m.ListAllocationsResponse
)
LIST_API_KEYS: Operation[m.ListApiKeysResponse] = Operation(
    "GET", "/api/v1/projects/{project_id}/service-accounts/{service_account_id}/api-keys", m.ListApiKeysResponse
)
LIST_AUDIT_CHAINS: Operation[m.ListAuditChainsResponse] = Operation(
    "GET", "/api/v1/admin/audit/chains", m.ListAuditChainsResponse
)
LIST_AUDIT_RECORDS: Operation[m.ListAuditRecordsResponse] = Operation(
    "GET", "/api/v1/admin/audit", m.ListAuditRecordsResponse
)
LIST_AVAILABILITY: Operation[m.ListAvailabilityResponse] = Operation(
    "GET", "/api/v1/availability", m.ListAvailabilityResponse
)
LIST_BREAK_FIXES: Operation[m.ListBreakFixesResponse] = Operation(
    "GET", "/api/v1/admin/nodes/{node_id}/break-fixes", m.ListBreakFixesResponse
)
LIST_CAPACITY_HISTORY: Operation[m.ListCapacityHistoryResponse] = Operation(
    "GET", "/api/v1/admin/capacity:history", m.ListCapacityHistoryResponse
)
LIST_CAPACITY_RESERVATIONS: Operation[m.ListCapacityReservationsResponse] = Operation(
    "GET", "/api/v1/capacity-reservations", m.ListCapacityReservationsResponse
)
LIST_FLEET_NODES: Operation[m.ListFleetNodesResponse] = Operation(
    "GET", "/api/v1/admin/fleet/nodes", m.ListFleetNodesResponse
)
LIST_HEALTH_EVENTS: Operation[m.ListHealthEventsResponse] = Operation(
    "GET", "/api/v1/health-events", m.ListHealthEventsResponse
)
LIST_HOST_REPORTS: Operation[m.ListHostReportsResponse] = Operation(
    "GET", "/api/v1/admin/nodes/{node_id}/host-reports", m.ListHostReportsResponse
)
LIST_IMAGES: Operation[m.ListImagesResponse] = Operation(
    "GET", "/api/v1/images", m.ListImagesResponse
)
LIST_INGRESS_MAPPINGS: Operation[m.ListIngressMappingsResponse] = Operation(
    "GET", "/api/v1/allocations/{allocation_id}/ingress-mappings", m.ListIngressMappingsResponse
)
LIST_NODE_FINDINGS: Operation[m.ListNodeFindingsResponse] = Operation(
    "GET", "/api/v1/admin/nodes/{node_id}/findings", m.ListNodeFindingsResponse
)
LIST_NODE_HISTORY: Operation[m.ListNodeHistoryResponse] = Operation(
    "GET", "/api/v1/admin/nodes/{node_id}/history", m.ListNodeHistoryResponse
)
LIST_NODE_IMAGE_CACHE: Operation[m.ListNodeImageCacheResponse] = Operation(
    "GET", "/api/v1/admin/nodes/{node_id}/image-cache", m.ListNodeImageCacheResponse
)
LIST_NODE_PLACEMENTS: Operation[m.ListNodePlacementsResponse] = Operation(
    "GET", "/api/v1/admin/node-placements", m.ListNodePlacementsResponse
)
LIST_NODES: Operation[m.ListNodesResponse] = Operation(
    "GET", "/api/v1/admin/nodes", m.ListNodesResponse
)
LIST_ORGANISATION_INVITATIONS: Operation[m.ListOrganisationInvitationsResponse] = Operation(
    "GET", "/api/v1/organisations/{organisation_id}/invitations", m.ListOrganisationInvitationsResponse
)
LIST_ORGANISATION_MEMBERS: Operation[m.ListOrganisationMembersResponse] = Operation(
    "GET", "/api/v1/organisations/{organisation_id}/members", m.ListOrganisationMembersResponse
)
LIST_ORGANISATION_WEBHOOKS: Operation[m.ListOrganisationWebhooksResponse] = Operation(
    "GET", "/api/v1/organisations/{organisation_id}/webhooks", m.ListOrganisationWebhooksResponse
)
LIST_ORGANISATIONS: Operation[m.ListOrganisationsResponse] = Operation(
    "GET", "/api/v1/organisations", m.ListOrganisationsResponse
)
LIST_PRICE_VERSIONS: Operation[m.ListPriceVersionsResponse] = Operation(
    "GET", "/api/v1/admin/prices", m.ListPriceVersionsResponse
)
LIST_PRINCIPALS: Operation[m.ListPrincipalsResponse] = Operation(
    "GET", "/api/v1/admin/principals", m.ListPrincipalsResponse
)
LIST_PROJECT_INVITATIONS: Operation[m.ListProjectInvitationsResponse] = Operation(
    "GET", "/api/v1/projects/{project_id}/invitations", m.ListProjectInvitationsResponse
)
LIST_PROJECT_MEMBERS: Operation[m.ListProjectMembersResponse] = Operation(
    "GET", "/api/v1/projects/{project_id}/members", m.ListProjectMembersResponse
)
LIST_PROJECT_SSH_KEYS: Operation[m.ListProjectSshKeysResponse] = Operation(
    "GET", "/api/v1/projects/{project_id}/ssh-keys", m.ListProjectSshKeysResponse
)
LIST_PROJECT_USAGE: Operation[m.ListUsageResponse] = Operation(
    "GET", "/api/v1/admin/usage", m.ListUsageResponse
)
LIST_PROJECT_WEBHOOKS: Operation[m.ListProjectWebhooksResponse] = Operation(
    "GET", "/api/v1/projects/{project_id}/webhooks", m.ListProjectWebhooksResponse
)
LIST_PROJECTS: Operation[m.ListProjectsResponse] = Operation(
    "GET", "/api/v1/projects", m.ListProjectsResponse
)
LIST_QUEUE: Operation[m.ListQueueResponse] = Operation(
    "GET", "/api/v1/admin/queue", m.ListQueueResponse
)
LIST_REGIONS: Operation[m.ListRegionsResponse] = Operation(
    "GET", "/api/v1/regions", m.ListRegionsResponse
)
LIST_RESOURCE_SLOT_HISTORY: Operation[m.ListResourceSlotHistoryResponse] = Operation(
    "GET", "/api/v1/admin/nodes/{node_id}/resource-slots/{slot_id}/history", m.ListResourceSlotHistoryResponse
)
LIST_RESOURCE_SLOTS: Operation[m.ListResourceSlotsResponse] = Operation(
    "GET", "/api/v1/admin/nodes/{node_id}/resource-slots", m.ListResourceSlotsResponse
)
LIST_SCIM_GROUPS: Operation[m.ListScimGroupsResponse] = Operation(
    "GET", "/api/v1/organisations/{organisation_id}/scim/groups", m.ListScimGroupsResponse
)
LIST_SCIM_KEYS: Operation[m.ListScimKeysResponse] = Operation(
    "GET", "/api/v1/organisations/{organisation_id}/scim/keys", m.ListScimKeysResponse
)
LIST_SERVICE_ACCOUNTS: Operation[m.ListServiceAccountsResponse] = Operation(
    "GET", "/api/v1/projects/{project_id}/service-accounts", m.ListServiceAccountsResponse
)
LIST_SKUS: Operation[m.ListSkusResponse] = Operation(
    "GET", "/api/v1/skus", m.ListSkusResponse
)
LIST_SLOT_WIPE_CERTIFICATES: Operation[m.ListSlotWipeCertificatesResponse] = Operation(
    "GET", "/api/v1/admin/nodes/{node_id}/resource-slots/{slot_id}/wipe-certificates", m.ListSlotWipeCertificatesResponse
)
LIST_SSH_KEYS: Operation[m.ListSshKeysResponse] = Operation(
    "GET", "/api/v1/ssh-keys", m.ListSshKeysResponse
)
LIST_TERMINAL_SESSIONS: Operation[m.ListTerminalSessionsResponse] = Operation(
    "GET", "/api/v1/admin/terminal-sessions", m.ListTerminalSessionsResponse
)
LIST_TIMELINE: Operation[m.ListTimelineResponse] = Operation(
    "GET", "/api/v1/allocations/{allocation_id}/timeline", m.ListTimelineResponse
)
LIST_USAGE: Operation[m.ListUsageResponse] = Operation(
    "GET", "/api/v1/usage", m.ListUsageResponse
)
LIST_WEBHOOK_DELIVERIES: Operation[m.ListWebhookDeliveriesResponse] = Operation(
    "GET", "/api/v1/webhooks/{webhook_id}/deliveries", m.ListWebhookDeliveriesResponse
)
LIST_WIPE_CERTIFICATES: Operation[m.ListWipeCertificatesResponse] = Operation(
    "GET", "/api/v1/allocations/{allocation_id}/wipe-certificates", m.ListWipeCertificatesResponse
)
OPEN_BREAK_FIX: Operation[m.BreakFix] = Operation(
    "POST", "/api/v1/admin/nodes/{node_id}/break-fixes", m.BreakFix, keyed=True
)
PAUSE_AGENT_ROLLOUT: Operation[m.AgentRollout] = Operation(
    "POST", "/api/v1/admin/agent-rollouts/{rollout_id}:pause", m.AgentRollout, keyed=True
)
PING_WEBHOOK: Operation[m.WebhookDelivery] = Operation(
    "POST", "/api/v1/webhooks/{webhook_id}:ping", m.WebhookDelivery, keyed=True
)
PLAN_EVACUATION: Operation[m.EvacuationPlan] = Operation(
    "GET", "/api/v1/admin/capacity:evacuationPlan", m.EvacuationPlan
)
PUT_PROJECT_ALLOCATION_LIMIT: Operation[m.ProjectAllocationLimit] = Operation(
    "PUT", "/api/v1/admin/projects/{project_id}/allocation-limit", m.ProjectAllocationLimit, keyed=True
)
PUT_PROJECT_NETWORK: Operation[m.ProjectNetwork] = Operation(
    "PUT", "/api/v1/project-network", m.ProjectNetwork, keyed=True
)
PUT_PROJECT_PRIORITY: Operation[m.ProjectPriority] = Operation(
    "PUT", "/api/v1/admin/projects/{project_id}/priority", m.ProjectPriority, keyed=True
)
PUT_PROJECT_QUOTA: Operation[m.ProjectQuota] = Operation(
    "PUT", "/api/v1/admin/projects/{project_id}/quotas/{sku}", m.ProjectQuota, keyed=True
)
PUT_PROJECT_RESERVATION_LIMIT: Operation[m.ProjectReservationLimit] = Operation(
    "PUT", "/api/v1/admin/projects/{project_id}/reservation-limit", m.ProjectReservationLimit, keyed=True
)
PUT_REGION: Operation[m.Region] = Operation(
    "PUT", "/api/v1/admin/regions/{region_code}", m.Region, keyed=True
)
PUT_SCIM_SETTINGS: Operation[m.ScimSettings] = Operation(
    "PUT", "/api/v1/admin/organisations/{organisation_id}/scim", m.ScimSettings, keyed=True
)
PUT_SKU: Operation[m.Sku] = Operation(
    "PUT", "/api/v1/admin/skus/{sku_code}", m.Sku, keyed=True
)
READ_SERIAL_LOG: Operation[m.ReadSerialLogResponse] = Operation(
    "GET", "/api/v1/allocations/{allocation_id}/serial-log", m.ReadSerialLogResponse, stream=True
)
REBOOT_ALLOCATION: Operation[m.Allocation] = Operation(
    "POST", "/api/v1/allocations/{allocation_id}:reboot", m.Allocation, keyed=True
)
REDELIVER_WEBHOOK_DELIVERY: Operation[m.WebhookDelivery] = Operation(
    "POST", "/api/v1/webhooks/{webhook_id}/deliveries/{delivery_id}:redeliver", m.WebhookDelivery, keyed=True
)
RELEASE_ALLOCATION: Operation[m.Allocation] = Operation(
    "POST", "/api/v1/allocations/{allocation_id}:release", m.Allocation, keyed=True
)
RELEASE_TENANT_ALLOCATION: Operation[m.Allocation] = Operation(
    "POST", "/api/v1/admin/allocations/{allocation_id}:release", m.Allocation, keyed=True
)
REMOVE_ORGANISATION_MEMBER: Operation[m.RemoveOrganisationMemberResponse] = Operation(
    "DELETE", "/api/v1/organisations/{organisation_id}/members/{member_id}", m.RemoveOrganisationMemberResponse, keyed=True
)
REMOVE_PROJECT_MEMBER: Operation[m.RemoveProjectMemberResponse] = Operation(
    "DELETE", "/api/v1/projects/{project_id}/members/{member_id}", m.RemoveProjectMemberResponse, keyed=True
)
REPAIR_RESOURCE_SLOT: Operation[m.SlotRepair] = Operation(
    "POST", "/api/v1/admin/nodes/{node_id}/resource-slots/{slot_id}:repair", m.SlotRepair, keyed=True
)
REPORT_NODE_FINDING: Operation[m.NodeFinding] = Operation(
    "POST", "/api/v1/admin/nodes/{node_id}/findings", m.NodeFinding, keyed=True
)
RESCUE_ALLOCATION: Operation[m.Allocation] = Operation(
    "POST", "/api/v1/allocations/{allocation_id}:rescue", m.Allocation, keyed=True
)
RESOLVE_NODE_FINDING: Operation[m.NodeFinding] = Operation(
    "POST", "/api/v1/admin/nodes/{node_id}/findings/{finding_id}:resolve", m.NodeFinding, keyed=True
)
RESUME_AGENT_ROLLOUT: Operation[m.AgentRollout] = Operation(
    "POST", "/api/v1/admin/agent-rollouts/{rollout_id}:resume", m.AgentRollout, keyed=True
)
RESUME_ORGANISATION: Operation[m.Organisation] = Operation(
    "POST", "/api/v1/admin/organisations/{organisation_id}:resume", m.Organisation, keyed=True
)
RESUME_PROJECT: Operation[m.Project] = Operation(
    "POST", "/api/v1/projects/{project_id}:resume", m.Project, keyed=True
)
RETIRE_NODE: Operation[m.Node] = Operation(
    "POST", "/api/v1/admin/nodes/{node_id}:retire", m.Node, keyed=True
)
RETIRE_RESOURCE_SLOT: Operation[m.ResourceSlot] = Operation(
    "POST", "/api/v1/admin/nodes/{node_id}/resource-slots/{slot_id}:retire", m.ResourceSlot, keyed=True
)
REVOKE_INVITATION: Operation[m.Invitation] = Operation(
    "POST", "/api/v1/invitations/{invitation_id}:revoke", m.Invitation, keyed=True
)
ROLLBACK_AGENT_ROLLOUT: Operation[m.AgentRollout] = Operation(
    "POST", "/api/v1/admin/agent-rollouts/{rollout_id}:rollback", m.AgentRollout, keyed=True
)
ROTATE_API_KEY: Operation[m.ApiKey] = Operation(
    "POST", "/api/v1/projects/{project_id}/service-accounts/{service_account_id}/api-keys/{api_key_id}:rotate", m.ApiKey, keyed=True
)
ROTATE_WEBHOOK_SECRET: Operation[m.Webhook] = Operation(
    "POST", "/api/v1/webhooks/{webhook_id}:rotateSecret", m.Webhook, keyed=True
)
SET_IMAGE_STATUS: Operation[m.Image] = Operation(
    "POST", "/api/v1/admin/images/{slug}:setStatus", m.Image, keyed=True
)
SET_PLATFORM_ROLE: Operation[m.Principal] = Operation(
    "POST", "/api/v1/admin/principals/{principal_id}:setPlatformRole", m.Principal, keyed=True
)
START_ALLOCATION: Operation[m.Allocation] = Operation(
    "POST", "/api/v1/allocations/{allocation_id}:start", m.Allocation, keyed=True
)
START_NODE_MAINTENANCE: Operation[m.NodePlacement] = Operation(
    "POST", "/api/v1/admin/nodes/{node_id}:startMaintenance", m.NodePlacement, keyed=True
)
STOP_ALLOCATION: Operation[m.Allocation] = Operation(
    "POST", "/api/v1/allocations/{allocation_id}:stop", m.Allocation, keyed=True
)
STOP_TENANT_ALLOCATION: Operation[m.Allocation] = Operation(
    "POST", "/api/v1/admin/allocations/{allocation_id}:stop", m.Allocation, keyed=True
)
SUGGEST_DEFRAGMENTATION: Operation[m.DefragmentationSuggestion] = Operation(
    "GET", "/api/v1/admin/capacity:defragmentation", m.DefragmentationSuggestion
)
SUSPEND_ORGANISATION: Operation[m.Organisation] = Operation(
    "POST", "/api/v1/admin/organisations/{organisation_id}:suspend", m.Organisation, keyed=True
)
SUSPEND_PROJECT: Operation[m.Project] = Operation(
    "POST", "/api/v1/projects/{project_id}:suspend", m.Project, keyed=True
)
UNCORDON_NODE: Operation[m.NodePlacement] = Operation(
    "POST", "/api/v1/admin/nodes/{node_id}:uncordon", m.NodePlacement, keyed=True
)
UNRESCUE_ALLOCATION: Operation[m.Allocation] = Operation(
    "POST", "/api/v1/allocations/{allocation_id}:unrescue", m.Allocation, keyed=True
)
UPDATE_ALLOCATION: Operation[m.Allocation] = Operation(
    "PATCH", "/api/v1/allocations/{allocation_id}", m.Allocation, keyed=True
)
UPDATE_NODE: Operation[m.Node] = Operation(
    "PATCH", "/api/v1/admin/nodes/{node_id}", m.Node, keyed=True
)
UPDATE_ORGANISATION: Operation[m.Organisation] = Operation(
    "PATCH", "/api/v1/organisations/{organisation_id}", m.Organisation, keyed=True
)
UPDATE_ORGANISATION_GUARDRAILS: Operation[m.OrganisationGuardrails] = Operation(
    "PATCH", "/api/v1/organisations/{organisation_id}/guardrails", m.OrganisationGuardrails, keyed=True
)
UPDATE_ORGANISATION_MEMBER: Operation[m.Member] = Operation(
    "PATCH", "/api/v1/organisations/{organisation_id}/members/{member_id}", m.Member, keyed=True
)
UPDATE_PROJECT: Operation[m.Project] = Operation(
    "PATCH", "/api/v1/projects/{project_id}", m.Project, keyed=True
)
UPDATE_PROJECT_MEMBER: Operation[m.Member] = Operation(
    "PATCH", "/api/v1/projects/{project_id}/members/{member_id}", m.Member, keyed=True
)
UPDATE_WEBHOOK: Operation[m.Webhook] = Operation(
    "PATCH", "/api/v1/webhooks/{webhook_id}", m.Webhook, keyed=True
)
WATCH_ALLOCATION: Operation[m.WatchAllocationResponse] = Operation(
    "GET", "/api/v1/allocations/{allocation_id}:watch", m.WatchAllocationResponse, stream=True
)
WATCH_ALLOCATIONS: Operation[m.WatchAllocationsResponse] = Operation(
    "GET", "/api/v1/allocations:watch", m.WatchAllocationsResponse, stream=True
)
WATCH_NODES: Operation[m.WatchNodesResponse] = Operation(
    "GET", "/api/v1/admin/nodes:watch", m.WatchNodesResponse, stream=True
)
