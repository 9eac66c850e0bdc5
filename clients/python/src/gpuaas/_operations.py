"""One method per operation of the API, synchronous.

Generated from docs/reference/openapi.json by `make sdk`; do not edit.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from gpuaas import _table as t
from gpuaas import models as m
from gpuaas._operation import Caller


class Operations(Caller):
    """The operations. Every argument that is `None` is not sent."""

    def add_break_fix_action(
        self,
        node_id: str,
        break_fix_id: str,
        *,
        action: str,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.BreakFix:
        """AddBreakFixAction notes what was done.

        Platform administrators only; action `break_fix.act` on `node`.

        action: What was done; at most 500 characters.
        """
        return self._call(t.ADD_BREAK_FIX_ACTION, {"node_id": node_id, "break_fix_id": break_fix_id}, {}, {"action": action}, idempotency_key, timeout)

    def approve_resource_slots(
        self,
        node_id: str,
        *,
        discovery_id: str,
        slot_indexes: list[int],
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.ListResourceSlotsResponse:
        """ApproveResourceSlots approves candidates of the latest discovery, all or none (A-116..A-130).

        Platform administrators only; action `slot.approve` on `node`.

        discovery_id: The discovery that was reviewed; a newer one makes the call fail.
        """
        return self._call(t.APPROVE_RESOURCE_SLOTS, {"node_id": node_id}, {}, {"discovery_id": discovery_id, "slot_indexes": slot_indexes}, idempotency_key, timeout)

    def audit_ledger(
        self,
        *,
        timeout: float | None = None,
    ) -> m.AuditLedgerResponse:
        """AuditLedger checks every invariant of the ledger on one snapshot. It changes nothing.

        Platform administrators only; action `ledger.audit` on `ledger`.
        """
        return self._call(t.AUDIT_LEDGER, {}, {}, None, None, timeout)

    def batch_create_allocations(
        self,
        *,
        allocations: list[m.CreateAllocationRequest],
        project_id: str | None = None,
        validate_only: bool | None = None,
        wait: m.Wait | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.BatchCreateAllocationsResponse:
        """BatchCreateAllocations reserves one to sixteen allocations of one project together, all or none. Each is
        provisioned, billed and released separately. validate_only is a dry run.

        Members of a project; action `allocation.create` on `project`.

        allocations: One to sixteen, without project_id, validate_only and wait.
        project_id: Project that is billed for all; optional when the caller belongs to exactly one.
        validate_only: Dry run: check everything, change nothing.
        wait: Queue them if they do not fit now, and place them together; all of one region and one slot class.
        """
        return self._call(t.BATCH_CREATE_ALLOCATIONS, {}, {}, {"project_id": project_id, "allocations": allocations, "validate_only": validate_only, "wait": wait}, idempotency_key, timeout)

    def cancel_capacity_reservation(
        self,
        reservation_id: str,
        *,
        reason: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.CapacityReservation:
        """CancelCapacityReservation ends a reservation that a member created. Running allocations continue.

        Members of a project; action `reservation.cancel` on `project`.

        reason: At most 500 characters.
        """
        return self._call(t.CANCEL_CAPACITY_RESERVATION, {"reservation_id": reservation_id}, {}, {"reason": reason}, idempotency_key, timeout)

    def cancel_project_reservation(
        self,
        reservation_id: str,
        *,
        reason: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.CapacityReservation:
        """CancelProjectReservation ends a reservation of any project. Running allocations continue.

        Platform administrators only; action `reservation.cancel` on `project`.

        reason: At most 500 characters.
        """
        return self._call(t.CANCEL_PROJECT_RESERVATION, {"reservation_id": reservation_id}, {}, {"reason": reason}, idempotency_key, timeout)

    def close_break_fix(
        self,
        node_id: str,
        break_fix_id: str,
        *,
        outcome: str,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.BreakFix:
        """CloseBreakFix closes a record. With the last open one the node is cordoned; UncordonNode returns it to
        service.

        Platform administrators only; action `break_fix.close` on `node`.

        outcome: How it ended; at most 500 characters.
        """
        return self._call(t.CLOSE_BREAK_FIX, {"node_id": node_id, "break_fix_id": break_fix_id}, {}, {"outcome": outcome}, idempotency_key, timeout)

    def cordon_node(
        self,
        node_id: str,
        *,
        reason: str,
        etag: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.NodePlacement:
        """CordonNode stops new allocations on a node; existing ones continue.

        Platform administrators only; action `node.cordon` on `node`.

        reason: For the other operators; at most 500 characters.
        etag: Of the placement that was read; another one makes the call fail with ABORTED. Empty: not checked.
        """
        return self._call(t.CORDON_NODE, {"node_id": node_id}, {}, {"reason": reason, "etag": etag}, idempotency_key, timeout)

    def create_allocation(
        self,
        *,
        name: str,
        region_code: str,
        sku: str,
        gpu_count: int,
        image: str,
        ssh_public_keys: list[str],
        project_id: str | None = None,
        capacity_shape: m.CapacityShape | None = None,
        scheduler_type: str | None = None,
        labels: dict[str, str] | None = None,
        validate_only: bool | None = None,
        placement: m.PlacementConstraints | None = None,
        wait: m.Wait | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.Allocation:
        """CreateAllocation reserves capacity and starts provisioning. validate_only is a dry run; with wait it can be
        queued.

        Members of a project; action `allocation.create` on `project`.

        name: A DNS label of at most 63 characters.
        gpu_count: One of the SKU's allowed counts.
        image: Slug of an active image that the SKU can run.
        ssh_public_keys: One to ten different OpenSSH public keys.
        project_id: Project that is billed; optional when the caller belongs to exactly one.
        capacity_shape: Left out: the SKU's shape.
        scheduler_type: "slice" or "baremetal"; accepted for older clients and turned into capacity_shape (B-13).
        validate_only: Dry run: check everything, change nothing.
        placement: Placement constraints.
        wait: Queue the launch if it does not fit now, instead of refusing it; see status.queue.
        """
        return self._call(t.CREATE_ALLOCATION, {}, {}, {"project_id": project_id, "name": name, "region_code": region_code, "sku": sku, "gpu_count": gpu_count, "image": image, "ssh_public_keys": ssh_public_keys, "capacity_shape": capacity_shape, "scheduler_type": scheduler_type, "labels": labels, "validate_only": validate_only, "placement": placement, "wait": wait}, idempotency_key, timeout)

    def create_capacity_reservation(
        self,
        *,
        config: m.CapacityReservationConfig,
        gather: bool | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.CapacityReservation:
        """CreateCapacityReservation reserves GPUs for the project, within the limit that an operator set for it.

        Members of a project; action `reservation.create` on `project`.

        gather: Start with the free GPUs and add more as they become free, instead of being refused.
        """
        return self._call(t.CREATE_CAPACITY_RESERVATION, {}, {}, {"config": config, "gather": gather}, idempotency_key, timeout)

    def create_enrolment_token(
        self,
        node_id: str,
        *,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.EnrolmentToken:
        """CreateEnrolmentToken returns a single-use token for a node's agent. It is shown once and stored hashed
        (A-07).

        Platform administrators only; action `node.enrol` on `node`.
        """
        return self._call(t.CREATE_ENROLMENT_TOKEN, {"node_id": node_id}, {}, {}, idempotency_key, timeout)

    def create_image(
        self,
        *,
        slug: str,
        driver_strategy: m.DriverStrategy,
        source_uri: str,
        compatible_skus: list[str],
        display_name: str | None = None,
        boot_timeout_seconds: int | None = None,
        disabled: bool | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.Image:
        """CreateImage adds an image. It becomes active when its artifact is in the registry with this digest.

        Platform administrators only; action `image.create` on `catalog`.

        slug: A DNS-like slug: lower-case letters, digits, '.' and '-'.
        source_uri: "oci://host/namespace/name:tag" or "…@sha256:…"; resolved and verified against the registry.
        boot_timeout_seconds: Default 600.
        disabled: Create it disabled.
        """
        return self._call(t.CREATE_IMAGE, {}, {}, {"slug": slug, "display_name": display_name, "driver_strategy": driver_strategy, "source_uri": source_uri, "compatible_skus": compatible_skus, "boot_timeout_seconds": boot_timeout_seconds, "disabled": disabled}, idempotency_key, timeout)

    def create_node(
        self,
        *,
        hostname: str,
        region_code: str,
        mode: str,
        max_vms_per_node: int | None = None,
        rack: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.Node:
        """CreateNode registers a node. Its agent then enrols with a token.

        Platform administrators only; action `node.create` on `region`.

        hostname: A DNS label or name, unique.
        mode: "slice" or "baremetal".
        rack: Rack or failure domain: letters, digits, dots, underscores and hyphens, at most 63; empty: unknown.
        """
        return self._call(t.CREATE_NODE, {}, {}, {"hostname": hostname, "region_code": region_code, "mode": mode, "max_vms_per_node": max_vms_per_node, "rack": rack}, idempotency_key, timeout)

    def create_price_version(
        self,
        *,
        sku: str,
        price_per_gpu_hour: m.Money,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.PriceVersion:
        """CreatePriceVersion publishes a new price of a SKU, valid from now on for new allocations.

        Platform administrators only; action `price.create` on `catalog`.
        """
        return self._call(t.CREATE_PRICE_VERSION, {}, {}, {"sku": sku, "price_per_gpu_hour": price_per_gpu_hour}, idempotency_key, timeout)

    def create_project_reservation(
        self,
        *,
        config: m.CapacityReservationConfig,
        gather: bool | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.CapacityReservation:
        """CreateProjectReservation reserves GPUs for a project. The scheduler does not check that the project exists:
        the GPUs of an unknown project are blocked until the reservation ends or is canceled.

        Platform administrators only; action `reservation.create` on `project`.

        config: project_id is required.
        gather: Start with the free GPUs and add more as they become free, instead of being refused.
        """
        return self._call(t.CREATE_PROJECT_RESERVATION, {}, {}, {"config": config, "gather": gather}, idempotency_key, timeout)

    def create_terminal_session(
        self,
        allocation_id: str,
        *,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.CreateTerminalSessionResponse:
        """CreateTerminalSession returns a ticket that opens one terminal, once, within 30 seconds, for this caller,
        into this allocation, from this origin. A repeated call with the same key shows no ticket.

        Members of a project; action `terminal.create` on `allocation`.
        """
        return self._call(t.CREATE_TERMINAL_SESSION, {"allocation_id": allocation_id}, {}, {}, idempotency_key, timeout)

    def delete_node(
        self,
        node_id: str,
        *,
        etag: str | None = None,
        reason: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.DeleteNodeResponse:
        """DeleteNode removes a node that was registered by mistake. One that ever held an allocation is retired
        instead.

        Platform administrators only; action `node.delete` on `node`.

        etag: Of the node that was read; another one makes the call fail with ABORTED. Empty: not checked.
        reason: For the other operators; at most 500 characters.
        """
        return self._call(t.DELETE_NODE, {"node_id": node_id}, {"etag": etag, "reason": reason}, {}, idempotency_key, timeout)

    def disable_resource_slot(
        self,
        node_id: str,
        slot_id: str,
        *,
        reason: str | None = None,
        etag: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.ResourceSlot:
        """DisableResourceSlot disables a slot; a slot in use is disabled after its release and wipe.

        Platform administrators only; action `slot.disable` on `slot`.

        etag: Of the slot that was read; another one makes the call fail with ABORTED. Empty: not checked.
        """
        return self._call(t.DISABLE_RESOURCE_SLOT, {"node_id": node_id, "slot_id": slot_id}, {}, {"reason": reason, "etag": etag}, idempotency_key, timeout)

    def discover_topology(
        self,
        node_id: str,
        *,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.TopologyDiscovery:
        """DiscoverTopology queues the node task slice.topology_discover (A-56, H-01).

        Platform administrators only; action `node.discover` on `node`.
        """
        return self._call(t.DISCOVER_TOPOLOGY, {"node_id": node_id}, {}, {}, idempotency_key, timeout)

    def drain_node(
        self,
        node_id: str,
        *,
        reason: str,
        etag: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.NodePlacement:
        """DrainNode stops new allocations until the node is empty. Nothing is stopped: allocations end when their
        owners release them (B-48). Watch live_claims and drained.

        Platform administrators only; action `node.drain` on `node`.

        reason: For the other operators; at most 500 characters.
        etag: Of the placement that was read; another one makes the call fail with ABORTED. Empty: not checked.
        """
        return self._call(t.DRAIN_NODE, {"node_id": node_id}, {}, {"reason": reason, "etag": etag}, idempotency_key, timeout)

    def enable_resource_slot(
        self,
        node_id: str,
        slot_id: str,
        *,
        etag: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.ResourceSlot:
        """EnableResourceSlot enables a disabled slot.

        Platform administrators only; action `slot.enable` on `slot`.

        etag: Of the slot that was read; another one makes the call fail with ABORTED. Empty: not checked.
        """
        return self._call(t.ENABLE_RESOURCE_SLOT, {"node_id": node_id, "slot_id": slot_id}, {}, {"etag": etag}, idempotency_key, timeout)

    def explain_nodes(
        self,
        *,
        region_code: str,
        sku: str,
        gpu_count: int,
        page_size: int | None = None,
        project_id: str | None = None,
        image_digest: str | None = None,
        placement_affinity: str | None = None,
        placement_anti_affinity: list[str] | None = None,
        placement_anti_affinity_label: str | None = None,
        placement_require_prewarmed: bool | None = None,
        placement_affinity_label: str | None = None,
        timeout: float | None = None,
    ) -> m.ExplainNodesResponse:
        """ExplainNodes scores the nodes for a launch, and gives the unschedulable reasons of the others.

        Platform administrators only; action `node.explain` on `region`.

        page_size: Maximum nodes in the answer, the best first. Default 50, at most 500.
        project_id: Project, for its reserved capacity, its position in the queue, and the allocations of
        `placement`. Absent: a project without reservations.
        image_digest: Digest of the image, "sha256:…", as in ListImages. Absent: all nodes count as without it.
        placement_affinity: Id of an allocation of the project that has not ended: only its node.
        placement_anti_affinity: Ids of allocations of the project: not their nodes.
        placement_anti_affinity_label: "key=value": no node with an allocation of the project that has this label
        and has not ended.
        placement_require_prewarmed: Only nodes that have cached and verified the image (CON-10). For VMs only.
        placement_affinity_label: "key=value": only nodes with an allocation of the project that has this label and
        has not ended. There must be one.
        """
        return self._call(t.EXPLAIN_NODES, {}, {"region_code": region_code, "sku": sku, "gpu_count": gpu_count, "page_size": page_size, "project_id": project_id, "image_digest": image_digest, "placement.affinity": placement_affinity, "placement.anti_affinity": placement_anti_affinity, "placement.anti_affinity_label": placement_anti_affinity_label, "placement.require_prewarmed": placement_require_prewarmed, "placement.affinity_label": placement_affinity_label}, None, None, timeout)

    def explain_placement(
        self,
        *,
        region_code: str,
        sku: str,
        gpu_count: int,
        project_id: str | None = None,
        image_digest: str | None = None,
        placement_affinity: str | None = None,
        placement_anti_affinity: list[str] | None = None,
        placement_anti_affinity_label: str | None = None,
        placement_require_prewarmed: bool | None = None,
        placement_affinity_label: str | None = None,
        timeout: float | None = None,
    ) -> m.PlacementExplanation:
        """ExplainPlacement counts the nodes on which a launch fits now, and the unschedulable reasons of the others.

        Members of a project; action `availability.explain` on `catalog`.

        project_id: Project, as in ListAvailability: for its reserved capacity, its position in the queue, and the
        allocations of `placement`.
        image_digest: Digest of the image, "sha256:…", as in ListImages. Absent: all nodes count as without it.
        placement_affinity: Id of an allocation of the project that has not ended: only its node.
        placement_anti_affinity: Ids of allocations of the project: not their nodes.
        placement_anti_affinity_label: "key=value": no node with an allocation of the project that has this label
        and has not ended.
        placement_require_prewarmed: Only nodes that have cached and verified the image (CON-10). For VMs only.
        placement_affinity_label: "key=value": only nodes with an allocation of the project that has this label and
        has not ended. There must be one.
        """
        return self._call(t.EXPLAIN_PLACEMENT, {}, {"region_code": region_code, "sku": sku, "gpu_count": gpu_count, "project_id": project_id, "image_digest": image_digest, "placement.affinity": placement_affinity, "placement.anti_affinity": placement_anti_affinity, "placement.anti_affinity_label": placement_anti_affinity_label, "placement.require_prewarmed": placement_require_prewarmed, "placement.affinity_label": placement_affinity_label}, None, None, timeout)

    def force_release_allocation(
        self,
        allocation_id: str,
        *,
        host_fate: m.HostFate,
        reason: str,
        billing_end_time: datetime | None = None,
        validate_only: bool | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.ForceRelease:
        """ForceReleaseAllocation ends an allocation whose host is lost, on the administrator's word for what became of
        the host. Its claims end; billing ends when the host was last heard, or when the administrator says; its
        slots are disabled until a repair has wiped them, or retired when their disks are destroyed. Works on a
        released or failed allocation that still holds slots, too. Refused while the host answers, except for
        destroyed disks that such an allocation holds. validate_only is a dry run.

        Platform administrators only; action `allocation.force_release` on `allocation`.

        host_fate: What became of the host.
        reason: Reason, for the audit trail.
        billing_end_time: When billing ends, for an active allocation; from its activation to now. Absent: when its
        host was last heard.
        validate_only: Dry run: check everything, change nothing.
        """
        return self._call(t.FORCE_RELEASE_ALLOCATION, {"allocation_id": allocation_id}, {}, {"host_fate": host_fate, "reason": reason, "billing_end_time": billing_end_time, "validate_only": validate_only}, idempotency_key, timeout)

    def get_allocation(
        self,
        allocation_id: str,
        *,
        timeout: float | None = None,
    ) -> m.Allocation:
        """GetAllocation returns one allocation of the caller's project.

        Members of a project; action `allocation.get` on `allocation`.
        """
        return self._call(t.GET_ALLOCATION, {"allocation_id": allocation_id}, {}, None, None, timeout)

    def get_allocation_detail(
        self,
        allocation_id: str,
        *,
        timeout: float | None = None,
    ) -> m.AllocationDetail:
        """GetAllocationDetail shows placement shape and claims (B-30, H-17).

        Platform administrators only; action `allocation.inspect` on `allocation`.
        """
        return self._call(t.GET_ALLOCATION_DETAIL, {"allocation_id": allocation_id}, {}, None, None, timeout)

    def get_caller(
        self,
        *,
        timeout: float | None = None,
    ) -> m.Caller:
        """GetCaller returns who the bearer of the token is, with its roles and its projects.

        Members of a project; action `identity.get` on `principal`.
        """
        return self._call(t.GET_CALLER, {}, {}, None, None, timeout)

    def get_capacity_reservation(
        self,
        reservation_id: str,
        *,
        timeout: float | None = None,
    ) -> m.CapacityReservation:
        """GetCapacityReservation returns a reservation of the caller's projects.

        Members of a project; action `reservation.get` on `project`.
        """
        return self._call(t.GET_CAPACITY_RESERVATION, {"reservation_id": reservation_id}, {}, None, None, timeout)

    def get_fleet_counts(
        self,
        *,
        region_code: str | None = None,
        timeout: float | None = None,
    ) -> m.FleetRollup:
        """GetFleetCounts counts nodes and GPUs, in all, by pool and by capacity reservation, at one moment.

        Platform administrators only; action `fleet.list` on `region`.

        region_code: One region; empty: all.
        """
        return self._call(t.GET_FLEET_COUNTS, {}, {"region_code": region_code}, None, None, timeout)

    def get_node(
        self,
        node_id: str,
        *,
        timeout: float | None = None,
    ) -> m.Node:
        """GetNode returns one node with its current evidence.

        Platform administrators only; action `node.get` on `node`.
        """
        return self._call(t.GET_NODE, {"node_id": node_id}, {}, None, None, timeout)

    def get_node_placement(
        self,
        node_id: str,
        *,
        timeout: float | None = None,
    ) -> m.NodePlacement:
        """GetNodePlacement returns one node; a drain waits until it has no live claims.

        Platform administrators only; action `node.get` on `node`.
        """
        return self._call(t.GET_NODE_PLACEMENT, {"node_id": node_id}, {}, None, None, timeout)

    def get_preservation_report(
        self,
        *,
        region_code: str | None = None,
        timeout: float | None = None,
    ) -> m.PreservationReport:
        """GetPreservationReport counts the nodes that are free for bare metal, and the moves that would free more.
        Nothing is executed.

        Platform administrators only; action `capacity.plan` on `region`.

        region_code: Only this region.
        """
        return self._call(t.GET_PRESERVATION_REPORT, {}, {"region_code": region_code}, None, None, timeout)

    def get_project_network(
        self,
        *,
        project_id: str | None = None,
        timeout: float | None = None,
    ) -> m.ProjectNetwork:
        """GetProjectNetwork returns the network setting of the caller's project.

        Members of a project; action `network.get` on `project`.

        project_id: Optional for a member of exactly one.
        """
        return self._call(t.GET_PROJECT_NETWORK, {}, {"project_id": project_id}, None, None, timeout)

    def get_project_priority(
        self,
        project_id: str,
        *,
        timeout: float | None = None,
    ) -> m.ProjectPriority:
        """GetProjectPriority returns the priority of a project.

        Platform administrators only; action `queue.priority` on `project`.
        """
        return self._call(t.GET_PROJECT_PRIORITY, {"project_id": project_id}, {}, None, None, timeout)

    def get_project_quotas(
        self,
        project_id: str,
        *,
        timeout: float | None = None,
    ) -> m.ProjectQuotas:
        """GetProjectQuotas returns the quotas of a project and their use. An unknown project has the site's defaults.

        Platform administrators only; action `quota.get` on `project`.
        """
        return self._call(t.GET_PROJECT_QUOTAS, {"project_id": project_id}, {}, None, None, timeout)

    def get_project_reservation(
        self,
        reservation_id: str,
        *,
        timeout: float | None = None,
    ) -> m.CapacityReservation:
        """GetProjectReservation returns a reservation of any project.

        Platform administrators only; action `reservation.get` on `project`.
        """
        return self._call(t.GET_PROJECT_RESERVATION, {"reservation_id": reservation_id}, {}, None, None, timeout)

    def get_project_reservation_limit(
        self,
        project_id: str,
        *,
        timeout: float | None = None,
    ) -> m.ProjectReservationLimit:
        """GetProjectReservationLimit returns how many GPUs the members of a project can reserve, and have reserved.

        Platform administrators only; action `reservation.get_limit` on `project`.
        """
        return self._call(t.GET_PROJECT_RESERVATION_LIMIT, {"project_id": project_id}, {}, None, None, timeout)

    def get_quotas(
        self,
        *,
        project_id: str | None = None,
        timeout: float | None = None,
    ) -> m.ProjectQuotas:
        """GetQuotas returns the quotas of the caller's project and their use.

        Members of a project; action `quota.get` on `project`.

        project_id: Optional for a member of exactly one.
        """
        return self._call(t.GET_QUOTAS, {}, {"project_id": project_id}, None, None, timeout)

    def get_slot_repair(
        self,
        node_id: str,
        slot_id: str,
        *,
        timeout: float | None = None,
    ) -> m.SlotRepair:
        """GetSlotRepair shows the latest repair of a slot.

        Platform administrators only; action `slot.get` on `slot`.
        """
        return self._call(t.GET_SLOT_REPAIR, {"node_id": node_id, "slot_id": slot_id}, {}, None, None, timeout)

    def get_terminal_recording(
        self,
        session_id: str,
        *,
        page_token: str | None = None,
        timeout: float | None = None,
    ) -> m.GetTerminalRecordingResponse:
        """GetTerminalRecording returns a part of a recording of the caller's project.

        Members of a project; action `terminal.replay` on `session`.
        """
        return self._call(t.GET_TERMINAL_RECORDING, {"session_id": session_id}, {"page_token": page_token}, None, None, timeout)

    def get_topology_discovery(
        self,
        node_id: str,
        *,
        timeout: float | None = None,
    ) -> m.TopologyDiscovery:
        """GetTopologyDiscovery returns the latest discovery (A-57, H-02).

        Platform administrators only; action `node.get` on `node`.
        """
        return self._call(t.GET_TOPOLOGY_DISCOVERY, {"node_id": node_id}, {}, None, None, timeout)

    def list_all_images(
        self,
        *,
        page_size: int | None = None,
        page_token: str | None = None,
        sku: str | None = None,
        timeout: float | None = None,
    ) -> m.ListImagesResponse:
        """ListAllImages lists images of every status.

        Platform administrators only; action `image.list_all` on `catalog`.

        sku: Only images that this SKU can run.
        """
        return self._call(t.LIST_ALL_IMAGES, {}, {"page_size": page_size, "page_token": page_token, "sku": sku}, None, None, timeout)

    def iter_all_images(
        self,
        *,
        page_size: int | None = None,
        sku: str | None = None,
        timeout: float | None = None,
    ) -> Iterator[m.Image]:
        """The items of all pages of `list_all_images`.

        sku: Only images that this SKU can run.
        """
        return self._pages(t.LIST_ALL_IMAGES, {}, {"page_size": page_size, "sku": sku}, "images", timeout)

    def list_all_reservations(
        self,
        *,
        project_id: str | None = None,
        region_code: str | None = None,
        include_ended: bool | None = None,
        page_size: int | None = None,
        page_token: str | None = None,
        timeout: float | None = None,
    ) -> m.ListAllReservationsResponse:
        """ListAllReservations lists the reservations of all projects, newest first.

        Platform administrators only; action `reservation.list` on `region`.

        project_id: Only this project.
        region_code: Only this region.
        include_ended: Include ended ones.
        page_size: Default 50, at most 500.
        """
        return self._call(t.LIST_ALL_RESERVATIONS, {}, {"project_id": project_id, "region_code": region_code, "include_ended": include_ended, "page_size": page_size, "page_token": page_token}, None, None, timeout)

    def iter_all_reservations(
        self,
        *,
        project_id: str | None = None,
        region_code: str | None = None,
        include_ended: bool | None = None,
        page_size: int | None = None,
        timeout: float | None = None,
    ) -> Iterator[m.CapacityReservation]:
        """The items of all pages of `list_all_reservations`.

        project_id: Only this project.
        region_code: Only this region.
        include_ended: Include ended ones.
        page_size: Default 50, at most 500.
        """
        return self._pages(t.LIST_ALL_RESERVATIONS, {}, {"project_id": project_id, "region_code": region_code, "include_ended": include_ended, "page_size": page_size}, "reservations", timeout)

    def list_allocation_terminal_sessions(
        self,
        allocation_id: str,
        *,
        page_size: int | None = None,
        page_token: str | None = None,
        timeout: float | None = None,
    ) -> m.ListAllocationTerminalSessionsResponse:
        """ListAllocationTerminalSessions lists the sessions of an allocation of the caller's project, newest first.

        Members of a project; action `terminal.list_own` on `allocation`.
        """
        return self._call(t.LIST_ALLOCATION_TERMINAL_SESSIONS, {"allocation_id": allocation_id}, {"page_size": page_size, "page_token": page_token}, None, None, timeout)

    def iter_allocation_terminal_sessions(
        self,
        allocation_id: str,
        *,
        page_size: int | None = None,
        timeout: float | None = None,
    ) -> Iterator[m.TerminalSession]:
        """The items of all pages of `list_allocation_terminal_sessions`."""
        return self._pages(t.LIST_ALLOCATION_TERMINAL_SESSIONS, {"allocation_id": allocation_id}, {"page_size": page_size}, "sessions", timeout)

    def list_allocations(
        self,
        *,
        project_id: str | None = None,
        page_size: int | None = None,
        page_token: str | None = None,
        include_ended: bool | None = None,
        timeout: float | None = None,
    ) -> m.ListAllocationsResponse:
        """ListAllocations lists the project's allocations, newest first.

        Members of a project; action `allocation.list` on `project`.

        page_size: Default 50, at most 500.
        include_ended: Include released and failed ones.
        """
        return self._call(t.LIST_ALLOCATIONS, {}, {"project_id": project_id, "page_size": page_size, "page_token": page_token, "include_ended": include_ended}, None, None, timeout)

    def iter_allocations(
        self,
        *,
        project_id: str | None = None,
        page_size: int | None = None,
        include_ended: bool | None = None,
        timeout: float | None = None,
    ) -> Iterator[m.Allocation]:
        """The items of all pages of `list_allocations`.

        page_size: Default 50, at most 500.
        include_ended: Include released and failed ones.
        """
        return self._pages(t.LIST_ALLOCATIONS, {}, {"project_id": project_id, "page_size": page_size, "include_ended": include_ended}, "allocations", timeout)

    def list_availability(
        self,
        *,
        region_code: str | None = None,
        sku: str | None = None,
        project_id: str | None = None,
        timeout: float | None = None,
    ) -> m.ListAvailabilityResponse:
        """ListAvailability counts, per region and SKU, how many allocations of each allowed GPU count fit now.

        Members of a project; action `availability.list` on `catalog`.

        region_code: Only this region.
        sku: Only this SKU.
        project_id: Project whose reserved capacity counts too. Optional when the caller belongs to exactly one;
        otherwise only unreserved capacity counts.
        """
        return self._call(t.LIST_AVAILABILITY, {}, {"region_code": region_code, "sku": sku, "project_id": project_id}, None, None, timeout)

    def list_break_fixes(
        self,
        node_id: str,
        *,
        page_size: int | None = None,
        timeout: float | None = None,
    ) -> m.ListBreakFixesResponse:
        """ListBreakFixes lists the records of a node, the newest first.

        Platform administrators only; action `break_fix.list` on `node`.

        page_size: Default 50, at most 500.
        """
        return self._call(t.LIST_BREAK_FIXES, {"node_id": node_id}, {"page_size": page_size}, None, None, timeout)

    def list_capacity_history(
        self,
        *,
        region_code: str | None = None,
        sku: str | None = None,
        start_time: datetime | None = None,
        end_time: datetime | None = None,
        bucket_seconds: int | None = None,
        timeout: float | None = None,
    ) -> m.ListCapacityHistoryResponse:
        """ListCapacityHistory returns the fleet's capacity over time, oldest first. A sample is taken every minute;
        minutes in which no scheduler ran are missing.

        Platform administrators only; action `capacity.history` on `region`.

        region_code: One region; empty: all.
        sku: One SKU; empty: all.
        start_time: From the minute of this time on; absent: 24 hours before the end.
        end_time: Until this time, exclusive; absent: now.
        bucket_seconds: Length of a bucket in seconds, a multiple of 60 that gives at most 1500 buckets; 0: about
        288 buckets.
        """
        return self._call(t.LIST_CAPACITY_HISTORY, {}, {"region_code": region_code, "sku": sku, "start_time": start_time, "end_time": end_time, "bucket_seconds": bucket_seconds}, None, None, timeout)

    def list_capacity_reservations(
        self,
        *,
        project_id: str | None = None,
        include_ended: bool | None = None,
        page_size: int | None = None,
        page_token: str | None = None,
        timeout: float | None = None,
    ) -> m.ListCapacityReservationsResponse:
        """ListCapacityReservations lists the reservations of a project, newest first.

        Members of a project; action `reservation.list` on `project`.

        project_id: Optional when the caller belongs to exactly one.
        include_ended: Include ended ones.
        page_size: Default 50, at most 500.
        """
        return self._call(t.LIST_CAPACITY_RESERVATIONS, {}, {"project_id": project_id, "include_ended": include_ended, "page_size": page_size, "page_token": page_token}, None, None, timeout)

    def iter_capacity_reservations(
        self,
        *,
        project_id: str | None = None,
        include_ended: bool | None = None,
        page_size: int | None = None,
        timeout: float | None = None,
    ) -> Iterator[m.CapacityReservation]:
        """The items of all pages of `list_capacity_reservations`.

        project_id: Optional when the caller belongs to exactly one.
        include_ended: Include ended ones.
        page_size: Default 50, at most 500.
        """
        return self._pages(t.LIST_CAPACITY_RESERVATIONS, {}, {"project_id": project_id, "include_ended": include_ended, "page_size": page_size}, "reservations", timeout)

    def list_fleet_nodes(
        self,
        *,
        page_size: int | None = None,
        page_token: str | None = None,
        region_code: str | None = None,
        rack: str | None = None,
        hardware_type: str | None = None,
        health: m.HealthState | None = None,
        project_id: str | None = None,
        reservation_id: str | None = None,
        in_use: bool | None = None,
        timeout: float | None = None,
    ) -> m.ListFleetNodesResponse:
        """ListFleetNodes lists the nodes that hosts have enrolled for, by host name.

        Platform administrators only; action `fleet.list` on `region`.

        region_code: One region; empty: all.
        rack: One rack; empty: all.
        hardware_type: One hardware type; empty: all.
        health: Nodes with this health; unspecified: all.
        project_id: Nodes on which this project has an allocation.
        reservation_id: Nodes on which this capacity reservation holds a GPU.
        in_use: Only nodes with allocations, or only nodes without; absent: both.
        """
        return self._call(t.LIST_FLEET_NODES, {}, {"page_size": page_size, "page_token": page_token, "region_code": region_code, "rack": rack, "hardware_type": hardware_type, "health": health, "project_id": project_id, "reservation_id": reservation_id, "in_use": in_use}, None, None, timeout)

    def iter_fleet_nodes(
        self,
        *,
        page_size: int | None = None,
        region_code: str | None = None,
        rack: str | None = None,
        hardware_type: str | None = None,
        health: m.HealthState | None = None,
        project_id: str | None = None,
        reservation_id: str | None = None,
        in_use: bool | None = None,
        timeout: float | None = None,
    ) -> Iterator[m.FleetNode]:
        """The items of all pages of `list_fleet_nodes`.

        region_code: One region; empty: all.
        rack: One rack; empty: all.
        hardware_type: One hardware type; empty: all.
        health: Nodes with this health; unspecified: all.
        project_id: Nodes on which this project has an allocation.
        reservation_id: Nodes on which this capacity reservation holds a GPU.
        in_use: Only nodes with allocations, or only nodes without; absent: both.
        """
        return self._pages(t.LIST_FLEET_NODES, {}, {"page_size": page_size, "region_code": region_code, "rack": rack, "hardware_type": hardware_type, "health": health, "project_id": project_id, "reservation_id": reservation_id, "in_use": in_use}, "nodes", timeout)

    def list_health_events(
        self,
        *,
        project_id: str | None = None,
        allocation_id: str | None = None,
        page_size: int | None = None,
        page_token: str | None = None,
        timeout: float | None = None,
    ) -> m.ListHealthEventsResponse:
        """ListHealthEvents lists the times in which GPUs of a project's allocations were not healthy, newest first. An
        event begins no earlier and ends no later than the allocation had the GPUs.

        Members of a project; action `health.list` on `project`.

        project_id: Empty: the caller's only project.
        allocation_id: One allocation of it; empty: all.
        """
        return self._call(t.LIST_HEALTH_EVENTS, {}, {"project_id": project_id, "allocation_id": allocation_id, "page_size": page_size, "page_token": page_token}, None, None, timeout)

    def iter_health_events(
        self,
        *,
        project_id: str | None = None,
        allocation_id: str | None = None,
        page_size: int | None = None,
        timeout: float | None = None,
    ) -> Iterator[m.HealthEvent]:
        """The items of all pages of `list_health_events`.

        project_id: Empty: the caller's only project.
        allocation_id: One allocation of it; empty: all.
        """
        return self._pages(t.LIST_HEALTH_EVENTS, {}, {"project_id": project_id, "allocation_id": allocation_id, "page_size": page_size}, "events", timeout)

    def list_images(
        self,
        *,
        page_size: int | None = None,
        page_token: str | None = None,
        sku: str | None = None,
        timeout: float | None = None,
    ) -> m.ListImagesResponse:
        """ListImages lists active images by slug.

        Members of a project; action `image.list` on `catalog`.

        sku: Only images that this SKU can run.
        """
        return self._call(t.LIST_IMAGES, {}, {"page_size": page_size, "page_token": page_token, "sku": sku}, None, None, timeout)

    def iter_images(
        self,
        *,
        page_size: int | None = None,
        sku: str | None = None,
        timeout: float | None = None,
    ) -> Iterator[m.Image]:
        """The items of all pages of `list_images`.

        sku: Only images that this SKU can run.
        """
        return self._pages(t.LIST_IMAGES, {}, {"page_size": page_size, "sku": sku}, "images", timeout)

    def list_node_findings(
        self,
        node_id: str,
        *,
        include_resolved: bool | None = None,
        page_size: int | None = None,
        timeout: float | None = None,
    ) -> m.ListNodeFindingsResponse:
        """ListNodeFindings lists the findings of a node, the latest first.

        Platform administrators only; action `finding.list` on `node`.

        include_resolved: Resolved ones too.
        page_size: Default 50, at most 500.
        """
        return self._call(t.LIST_NODE_FINDINGS, {"node_id": node_id}, {"include_resolved": include_resolved, "page_size": page_size}, None, None, timeout)

    def list_node_history(
        self,
        node_id: str,
        *,
        page_size: int | None = None,
        timeout: float | None = None,
    ) -> m.ListNodeHistoryResponse:
        """ListNodeHistory lists what became of a node, the newest first.

        Platform administrators only; action `node.get` on `node`.

        page_size: Default 50, at most 500.
        """
        return self._call(t.LIST_NODE_HISTORY, {"node_id": node_id}, {"page_size": page_size}, None, None, timeout)

    def list_node_image_cache(
        self,
        node_id: str,
        *,
        timeout: float | None = None,
    ) -> m.ListNodeImageCacheResponse:
        """ListNodeImageCache lists the cached images of nodes (E-03, E-04).

        Platform administrators only; action `image.cache_list` on `node`.
        """
        return self._call(t.LIST_NODE_IMAGE_CACHE, {"node_id": node_id}, {}, None, None, timeout)

    def list_node_placements(
        self,
        *,
        region_code: str | None = None,
        page_size: int | None = None,
        page_token: str | None = None,
        timeout: float | None = None,
    ) -> m.ListNodePlacementsResponse:
        """ListNodePlacements lists the ledger's nodes by id.

        Platform administrators only; action `node.list` on `region`.

        region_code: Only this region.
        page_size: Default 50, at most 500.
        """
        return self._call(t.LIST_NODE_PLACEMENTS, {}, {"region_code": region_code, "page_size": page_size, "page_token": page_token}, None, None, timeout)

    def iter_node_placements(
        self,
        *,
        region_code: str | None = None,
        page_size: int | None = None,
        timeout: float | None = None,
    ) -> Iterator[m.NodePlacement]:
        """The items of all pages of `list_node_placements`.

        region_code: Only this region.
        page_size: Default 50, at most 500.
        """
        return self._pages(t.LIST_NODE_PLACEMENTS, {}, {"region_code": region_code, "page_size": page_size}, "nodes", timeout)

    def list_nodes(
        self,
        *,
        page_size: int | None = None,
        page_token: str | None = None,
        include_retired: bool | None = None,
        timeout: float | None = None,
    ) -> m.ListNodesResponse:
        """ListNodes lists nodes by hostname.

        Platform administrators only; action `node.list` on `region`.

        include_retired: Retired ones too.
        """
        return self._call(t.LIST_NODES, {}, {"page_size": page_size, "page_token": page_token, "include_retired": include_retired}, None, None, timeout)

    def iter_nodes(
        self,
        *,
        page_size: int | None = None,
        include_retired: bool | None = None,
        timeout: float | None = None,
    ) -> Iterator[m.Node]:
        """The items of all pages of `list_nodes`.

        include_retired: Retired ones too.
        """
        return self._pages(t.LIST_NODES, {}, {"page_size": page_size, "include_retired": include_retired}, "nodes", timeout)

    def list_price_versions(
        self,
        *,
        sku: str | None = None,
        page_size: int | None = None,
        page_token: str | None = None,
        timeout: float | None = None,
    ) -> m.ListPriceVersionsResponse:
        """ListPriceVersions lists all prices ever published, newest first.

        Platform administrators only; action `price.list` on `catalog`.
        """
        return self._call(t.LIST_PRICE_VERSIONS, {}, {"sku": sku, "page_size": page_size, "page_token": page_token}, None, None, timeout)

    def iter_price_versions(
        self,
        *,
        sku: str | None = None,
        page_size: int | None = None,
        timeout: float | None = None,
    ) -> Iterator[m.PriceVersion]:
        """The items of all pages of `list_price_versions`."""
        return self._pages(t.LIST_PRICE_VERSIONS, {}, {"sku": sku, "page_size": page_size}, "price_versions", timeout)

    def list_projects(
        self,
        *,
        page_size: int | None = None,
        page_token: str | None = None,
        timeout: float | None = None,
    ) -> m.ListProjectsResponse:
        """ListProjects lists all projects, by organisation and slug.

        Platform administrators only; action `project.list` on `project`.
        """
        return self._call(t.LIST_PROJECTS, {}, {"page_size": page_size, "page_token": page_token}, None, None, timeout)

    def iter_projects(
        self,
        *,
        page_size: int | None = None,
        timeout: float | None = None,
    ) -> Iterator[m.Project]:
        """The items of all pages of `list_projects`."""
        return self._pages(t.LIST_PROJECTS, {}, {"page_size": page_size}, "projects", timeout)

    def list_queue(
        self,
        *,
        region_code: str,
        page_size: int | None = None,
        page_token: str | None = None,
        timeout: float | None = None,
    ) -> m.ListQueueResponse:
        """ListQueue lists the queued requests of a region, by slot class in queue order.

        Platform administrators only; action `queue.list` on `region`.

        page_size: Default 50, at most 500.
        """
        return self._call(t.LIST_QUEUE, {}, {"region_code": region_code, "page_size": page_size, "page_token": page_token}, None, None, timeout)

    def iter_queue(
        self,
        *,
        region_code: str,
        page_size: int | None = None,
        timeout: float | None = None,
    ) -> Iterator[m.QueuedRequest]:
        """The items of all pages of `list_queue`.

        page_size: Default 50, at most 500.
        """
        return self._pages(t.LIST_QUEUE, {}, {"region_code": region_code, "page_size": page_size}, "requests", timeout)

    def list_regions(
        self,
        *,
        page_size: int | None = None,
        page_token: str | None = None,
        timeout: float | None = None,
    ) -> m.ListRegionsResponse:
        """ListRegions lists all regions by code.

        Members of a project; action `region.list` on `catalog`.
        """
        return self._call(t.LIST_REGIONS, {}, {"page_size": page_size, "page_token": page_token}, None, None, timeout)

    def iter_regions(
        self,
        *,
        page_size: int | None = None,
        timeout: float | None = None,
    ) -> Iterator[m.Region]:
        """The items of all pages of `list_regions`."""
        return self._pages(t.LIST_REGIONS, {}, {"page_size": page_size}, "regions", timeout)

    def list_resource_slot_history(
        self,
        node_id: str,
        slot_id: str,
        *,
        page_size: int | None = None,
        timeout: float | None = None,
    ) -> m.ListResourceSlotHistoryResponse:
        """ListResourceSlotHistory lists what became of a slot, the newest first.

        Platform administrators only; action `slot.list` on `node`.

        page_size: Default 50, at most 500.
        """
        return self._call(t.LIST_RESOURCE_SLOT_HISTORY, {"node_id": node_id, "slot_id": slot_id}, {"page_size": page_size}, None, None, timeout)

    def list_resource_slots(
        self,
        node_id: str,
        *,
        timeout: float | None = None,
    ) -> m.ListResourceSlotsResponse:
        """ListResourceSlots lists a node's approved slots by index (H-16).

        Platform administrators only; action `slot.list` on `node`.
        """
        return self._call(t.LIST_RESOURCE_SLOTS, {"node_id": node_id}, {}, None, None, timeout)

    def list_skus(
        self,
        *,
        page_size: int | None = None,
        page_token: str | None = None,
        timeout: float | None = None,
    ) -> m.ListSkusResponse:
        """ListSkus lists the SKUs with their allowed GPU counts, shapes and prices. Members see those that have a
        price, administrators all.

        Members of a project; action `sku.list` on `catalog`.
        """
        return self._call(t.LIST_SKUS, {}, {"page_size": page_size, "page_token": page_token}, None, None, timeout)

    def iter_skus(
        self,
        *,
        page_size: int | None = None,
        timeout: float | None = None,
    ) -> Iterator[m.Sku]:
        """The items of all pages of `list_skus`."""
        return self._pages(t.LIST_SKUS, {}, {"page_size": page_size}, "skus", timeout)

    def list_terminal_sessions(
        self,
        *,
        page_size: int | None = None,
        page_token: str | None = None,
        allocation_id: str | None = None,
        timeout: float | None = None,
    ) -> m.ListTerminalSessionsResponse:
        """ListTerminalSessions lists sessions, newest first.

        Platform administrators only; action `terminal.list` on `session`.

        allocation_id: Only sessions into this allocation.
        """
        return self._call(t.LIST_TERMINAL_SESSIONS, {}, {"page_size": page_size, "page_token": page_token, "allocation_id": allocation_id}, None, None, timeout)

    def iter_terminal_sessions(
        self,
        *,
        page_size: int | None = None,
        allocation_id: str | None = None,
        timeout: float | None = None,
    ) -> Iterator[m.TerminalSession]:
        """The items of all pages of `list_terminal_sessions`.

        allocation_id: Only sessions into this allocation.
        """
        return self._pages(t.LIST_TERMINAL_SESSIONS, {}, {"page_size": page_size, "allocation_id": allocation_id}, "sessions", timeout)

    def list_timeline(
        self,
        allocation_id: str,
        *,
        page_size: int | None = None,
        page_token: str | None = None,
        timeout: float | None = None,
    ) -> m.ListTimelineResponse:
        """ListTimeline lists the timeline of an allocation, oldest first.

        Members of a project; action `allocation.get` on `allocation`.
        """
        return self._call(t.LIST_TIMELINE, {"allocation_id": allocation_id}, {"page_size": page_size, "page_token": page_token}, None, None, timeout)

    def iter_timeline(
        self,
        allocation_id: str,
        *,
        page_size: int | None = None,
        timeout: float | None = None,
    ) -> Iterator[m.TimelineEntry]:
        """The items of all pages of `list_timeline`."""
        return self._pages(t.LIST_TIMELINE, {"allocation_id": allocation_id}, {"page_size": page_size}, "entries", timeout)

    def list_usage(
        self,
        *,
        project_id: str | None = None,
        allocation_id: str | None = None,
        page_size: int | None = None,
        page_token: str | None = None,
        timeout: float | None = None,
    ) -> m.ListUsageResponse:
        """ListUsage lists usage intervals with exact money, newest first; open intervals count up to now.

        Members of a project; action `usage.list` on `project`.

        allocation_id: Only this allocation.
        """
        return self._call(t.LIST_USAGE, {}, {"project_id": project_id, "allocation_id": allocation_id, "page_size": page_size, "page_token": page_token}, None, None, timeout)

    def iter_usage(
        self,
        *,
        project_id: str | None = None,
        allocation_id: str | None = None,
        page_size: int | None = None,
        timeout: float | None = None,
    ) -> Iterator[m.UsageInterval]:
        """The items of all pages of `list_usage`.

        allocation_id: Only this allocation.
        """
        return self._pages(t.LIST_USAGE, {}, {"project_id": project_id, "allocation_id": allocation_id, "page_size": page_size}, "intervals", timeout)

    def open_break_fix(
        self,
        node_id: str,
        *,
        fault: str,
        slot_id: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.BreakFix:
        """OpenBreakFix opens a record: the node is broken from now on and takes no new allocations; existing ones
        continue.

        Platform administrators only; action `break_fix.open` on `node`.

        fault: What broke; at most 500 characters.
        slot_id: Only for a fault of one slot.
        """
        return self._call(t.OPEN_BREAK_FIX, {"node_id": node_id}, {}, {"slot_id": slot_id, "fault": fault}, idempotency_key, timeout)

    def plan_evacuation(
        self,
        *,
        node_ids: list[str],
        timeout: float | None = None,
    ) -> m.EvacuationPlan:
        """PlanEvacuation simulates the evacuation of nodes: where each of their allocations would fit, after those
        before it. Nothing is executed.

        Platform administrators only; action `capacity.plan` on `node`.

        node_ids: The nodes to evacuate together: 1 to 32 of one region.
        """
        return self._call(t.PLAN_EVACUATION, {}, {"node_ids": node_ids}, None, None, timeout)

    def put_project_allocation_limit(
        self,
        project_id: str,
        *,
        max_allocations: int | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.ProjectAllocationLimit:
        """PutProjectAllocationLimit sets the allocation quota of a project, over all SKUs. The scheduler does not
        check that the project exists.

        Platform administrators only; action `quota.put` on `project`.

        max_allocations: 0 allows none.
        """
        return self._call(t.PUT_PROJECT_ALLOCATION_LIMIT, {"project_id": project_id}, {}, {"max_allocations": max_allocations}, idempotency_key, timeout)

    def put_project_network(
        self,
        *,
        project_id: str | None = None,
        vms_reach_each_other: bool | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.ProjectNetwork:
        """PutProjectNetwork changes the network setting of the caller's project. VMs that run follow within about a
        minute.

        Members of a project; action `network.put` on `project`.

        project_id: Optional for a member of exactly one.
        vms_reach_each_other: As in ProjectNetwork.
        """
        return self._call(t.PUT_PROJECT_NETWORK, {}, {}, {"project_id": project_id, "vms_reach_each_other": vms_reach_each_other}, idempotency_key, timeout)

    def put_project_priority(
        self,
        project_id: str,
        *,
        priority: m.Priority,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.ProjectPriority:
        """PutProjectPriority sets the priority of a project, queued requests included. The scheduler does not check
        that the project exists.

        Platform administrators only; action `queue.prioritise` on `project`.
        """
        return self._call(t.PUT_PROJECT_PRIORITY, {"project_id": project_id}, {}, {"priority": priority}, idempotency_key, timeout)

    def put_project_quota(
        self,
        project_id: str,
        sku: str,
        *,
        max_gpus: int | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.ProjectQuota:
        """PutProjectQuota sets the GPU quota of a project for a SKU. The scheduler does not check that the project
        exists.

        Platform administrators only; action `quota.put` on `project`.
        """
        return self._call(t.PUT_PROJECT_QUOTA, {"project_id": project_id, "sku": sku}, {}, {"max_gpus": max_gpus}, idempotency_key, timeout)

    def put_project_reservation_limit(
        self,
        project_id: str,
        *,
        max_gpus: int | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.ProjectReservationLimit:
        """PutProjectReservationLimit sets how many GPUs the members of a project can reserve. The scheduler does not
        check that the project exists.

        Platform administrators only; action `reservation.limit` on `project`.

        max_gpus: Maximum GPUs of all reservations that members created and that have not ended; 0: only operators
        can reserve.
        """
        return self._call(t.PUT_PROJECT_RESERVATION_LIMIT, {"project_id": project_id}, {}, {"max_gpus": max_gpus}, idempotency_key, timeout)

    def put_region(
        self,
        region_code: str,
        *,
        region: m.Region,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.Region:
        """PutRegion creates or replaces a region.

        Platform administrators only; action `region.put` on `region`.
        """
        return self._call(t.PUT_REGION, {"region_code": region_code}, {}, region, idempotency_key, timeout)

    def put_sku(
        self,
        sku_code: str,
        *,
        sku: m.Sku,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.Sku:
        """PutSku creates or replaces a SKU.

        Platform administrators only; action `sku.put` on `catalog`.

        sku_code: Slug, for example "h200-sxm-slice".
        """
        return self._call(t.PUT_SKU, {"sku_code": sku_code}, {}, sku, idempotency_key, timeout)

    def reboot_allocation(
        self,
        allocation_id: str,
        *,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.Allocation:
        """RebootAllocation stops the VM of a running allocation and starts it again. Returns at once; watch
        status.power.

        Members of a project; action `allocation.reboot` on `allocation`.
        """
        return self._call(t.REBOOT_ALLOCATION, {"allocation_id": allocation_id}, {}, {}, idempotency_key, timeout)

    def release_allocation(
        self,
        allocation_id: str,
        *,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.Allocation:
        """ReleaseAllocation ends an allocation: billing stops, the VM is deleted, the disk is wiped and verified
        empty. A queued one leaves the queue and is released at once.

        Members of a project; action `allocation.release` on `allocation`.
        """
        return self._call(t.RELEASE_ALLOCATION, {"allocation_id": allocation_id}, {}, {}, idempotency_key, timeout)

    def repair_resource_slot(
        self,
        node_id: str,
        slot_id: str,
        *,
        reason: str,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.SlotRepair:
        """RepairResourceSlot wipes a cleanup_blocked slot, verifies it empty and makes it available again. It is the
        only way out of cleanup_blocked (CON-25). Returns at once; watch the slot's status.

        Platform administrators only; action `slot.repair` on `slot`.

        reason: Reason, for the audit trail.
        """
        return self._call(t.REPAIR_RESOURCE_SLOT, {"node_id": node_id, "slot_id": slot_id}, {}, {"reason": reason}, idempotency_key, timeout)

    def report_node_finding(
        self,
        node_id: str,
        *,
        source: str,
        code: str,
        severity: m.FindingSeverity,
        slot_id: str | None = None,
        device: str | None = None,
        message: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.NodeFinding:
        """ReportNodeFinding attaches what an outside health agent has found. The open finding of the same source, code
        and device is updated instead. A critical one disables its slot, or cordons its node.

        Platform administrators only; action `finding.report` on `node`.

        source: The agent, a DNS label: "dcgm", "nvsentinel".
        code: The agent's own name of the fault; at most 100 characters.
        slot_id: The slot that it is about; empty: the host.
        device: The device, for example its PCI address or UUID; at most 100 characters. Empty: the host.
        message: For operators; at most 500 characters.
        """
        return self._call(t.REPORT_NODE_FINDING, {"node_id": node_id}, {}, {"slot_id": slot_id, "source": source, "code": code, "device": device, "severity": severity, "message": message}, idempotency_key, timeout)

    def resolve_node_finding(
        self,
        node_id: str,
        finding_id: str,
        *,
        resolution: str,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.NodeFinding:
        """ResolveNodeFinding closes a finding. What it took out of sale stays out until an operator returns it.

        Platform administrators only; action `finding.resolve` on `node`.

        resolution: Why it is over; at most 500 characters.
        """
        return self._call(t.RESOLVE_NODE_FINDING, {"node_id": node_id, "finding_id": finding_id}, {}, {"resolution": resolution}, idempotency_key, timeout)

    def retire_node(
        self,
        node_id: str,
        *,
        reason: str,
        etag: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.Node:
        """RetireNode takes a node and all its slots out of service for good. It is drained before; its host counts for
        nothing any more.

        Platform administrators only; action `node.retire` on `node`.

        reason: For the other operators; at most 500 characters.
        etag: Of the node that was read; another one makes the call fail with ABORTED. Empty: not checked.
        """
        return self._call(t.RETIRE_NODE, {"node_id": node_id}, {}, {"etag": etag, "reason": reason}, idempotency_key, timeout)

    def retire_resource_slot(
        self,
        node_id: str,
        slot_id: str,
        *,
        reason: str,
        etag: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.ResourceSlot:
        """RetireResourceSlot takes a slot out of service for good. Its devices can be discovered and approved as
        another slot.

        Platform administrators only; action `slot.retire` on `slot`.

        reason: For the other operators; at most 500 characters.
        etag: Of the slot that was read; another one makes the call fail with ABORTED. Empty: not checked.
        """
        return self._call(t.RETIRE_RESOURCE_SLOT, {"node_id": node_id, "slot_id": slot_id}, {}, {"etag": etag, "reason": reason}, idempotency_key, timeout)

    def set_image_status(
        self,
        slug: str,
        *,
        status: m.ImageStatus,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.Image:
        """SetImageStatus enables or disables an image.

        Platform administrators only; action `image.update` on `catalog`.
        """
        return self._call(t.SET_IMAGE_STATUS, {"slug": slug}, {}, {"status": status}, idempotency_key, timeout)

    def start_allocation(
        self,
        allocation_id: str,
        *,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.Allocation:
        """StartAllocation starts the VM of a stopped allocation on its own disk and address. Returns at once; watch
        status.power.

        Members of a project; action `allocation.start` on `allocation`.
        """
        return self._call(t.START_ALLOCATION, {"allocation_id": allocation_id}, {}, {}, idempotency_key, timeout)

    def start_node_maintenance(
        self,
        node_id: str,
        *,
        reason: str,
        etag: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.NodePlacement:
        """StartNodeMaintenance takes an empty node out of service, for work on its host. UncordonNode ends it.

        Platform administrators only; action `node.maintain` on `node`.

        reason: For the other operators; at most 500 characters.
        etag: Of the placement that was read; another one makes the call fail with ABORTED. Empty: not checked.
        """
        return self._call(t.START_NODE_MAINTENANCE, {"node_id": node_id}, {}, {"reason": reason, "etag": etag}, idempotency_key, timeout)

    def stop_allocation(
        self,
        allocation_id: str,
        *,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.Allocation:
        """StopAllocation shuts the VM of a running allocation down, and stops it hard when the guest does not end in
        time. It keeps its id, disk, address and GPUs: a stopped allocation is billed like a running one. Returns at
        once; watch status.power.

        Members of a project; action `allocation.stop` on `allocation`.
        """
        return self._call(t.STOP_ALLOCATION, {"allocation_id": allocation_id}, {}, {}, idempotency_key, timeout)

    def suggest_defragmentation(
        self,
        *,
        region_code: str,
        sku: str,
        gpu_count: int,
        max_moves: int | None = None,
        timeout: float | None = None,
    ) -> m.DefragmentationSuggestion:
        """SuggestDefragmentation finds the fewest moves that let more launches of a size fit. Nothing is executed.

        Platform administrators only; action `capacity.plan` on `region`.

        sku: A SKU of shape gpu_slice.
        gpu_count: GPUs per launch.
        max_moves: Maximum allocations to move, at most 64; 0: 8.
        """
        return self._call(t.SUGGEST_DEFRAGMENTATION, {}, {"region_code": region_code, "sku": sku, "gpu_count": gpu_count, "max_moves": max_moves}, None, None, timeout)

    def uncordon_node(
        self,
        node_id: str,
        *,
        reason: str | None = None,
        etag: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.NodePlacement:
        """UncordonNode ends a cordon, a drain or a maintenance. A broken node is returned by closing its break-fix
        records.

        Platform administrators only; action `node.uncordon` on `node`.

        etag: Of the placement that was read; another one makes the call fail with ABORTED. Empty: not checked.
        """
        return self._call(t.UNCORDON_NODE, {"node_id": node_id}, {}, {"reason": reason, "etag": etag}, idempotency_key, timeout)

    def update_node(
        self,
        node_id: str,
        *,
        etag: str | None = None,
        mode: str | None = None,
        max_vms_per_node: int | None = None,
        labels: m.NodeLabels | None = None,
        reason: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.Node:
        """UpdateNode changes labels, mode or VM limit. Mode and limit change only while no slot of the node is on sale
        and nobody has anything of it: drain the node first (A-48, A-49).

        Platform administrators only; action `node.update` on `node`.

        etag: Of the node that was read; another one makes the call fail with ABORTED. Empty: not checked.
        mode: "slice" or "baremetal"; empty: unchanged.
        max_vms_per_node: Absent: unchanged; 0: no limit.
        labels: Absent: unchanged.
        reason: For the other operators; at most 500 characters.
        """
        return self._call(t.UPDATE_NODE, {"node_id": node_id}, {}, {"etag": etag, "mode": mode, "max_vms_per_node": max_vms_per_node, "labels": labels, "reason": reason}, idempotency_key, timeout)

    def watch_allocation(
        self,
        allocation_id: str,
        *,
        resume_token: str | None = None,
        timeout: float | None = None,
    ) -> Iterator[m.WatchAllocationResponse]:
        """WatchAllocation streams one allocation and its timeline: first the current state, then every change. A
        timeline entry is sent when it begins and when it changes; no entry is skipped. The stream ends with an end
        message once the allocation is released or failed and everything has been sent.

        Members of a project; action `allocation.get` on `allocation`.

        resume_token: Of the last message of an earlier stream of the same allocation: go on after it.
        """
        return self._watch(t.WATCH_ALLOCATION, {"allocation_id": allocation_id}, {"resume_token": resume_token}, timeout)

    def watch_allocations(
        self,
        *,
        project_id: str | None = None,
        resume_token: str | None = None,
        include_ended: bool | None = None,
        timeout: float | None = None,
    ) -> Iterator[m.WatchAllocationsResponse]:
        """WatchAllocations streams the project's allocations: first all of them, then every change. States can be
        skipped when they change faster than the stream is read; the last one is always sent.

        Members of a project; action `allocation.list` on `project`.

        project_id: Optional when the caller belongs to exactly one.
        resume_token: Of the last message of an earlier stream with the same project and include_ended: go on after
        it.
        include_ended: Include released and failed ones at the start. One that ends while watched is always sent.
        """
        return self._watch(t.WATCH_ALLOCATIONS, {}, {"project_id": project_id, "resume_token": resume_token, "include_ended": include_ended}, timeout)

    def watch_nodes(
        self,
        *,
        resume_token: str | None = None,
        timeout: float | None = None,
    ) -> Iterator[m.WatchNodesResponse]:
        """WatchNodes streams nodes and their slots: first all of them, then every change. A heartbeat alone is no
        change. States can be skipped; the last one is always sent.

        Platform administrators only; action `node.list` on `region`.

        resume_token: Of the last message of an earlier stream: go on after it.
        """
        return self._watch(t.WATCH_NODES, {}, {"resume_token": resume_token}, timeout)
