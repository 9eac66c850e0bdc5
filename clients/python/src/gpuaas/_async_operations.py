"""One method per operation of the API, asynchronous.

Generated from docs/reference/openapi.json by `make sdk`; do not edit.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any

from gpuaas import _table as t
from gpuaas import models as m
from gpuaas._operation import AsyncCaller


class AsyncOperations(AsyncCaller):
    """The operations. Every argument that is `None` is not sent."""

    async def abort_agent_rollout(
        self,
        rollout_id: str,
        *,
        etag: str | None = None,
        reason: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.AgentRollout:
        """AbortAgentRollout ends a rollout. A node that has begun is brought to its end; nodes that have the version
        keep it.

        Platform administrators and operators; action `node.rollout` on `region`.

        etag: Of the rollout that was read; another one makes the call fail with ABORTED. Empty: not checked.
        reason: For the other operators; at most 500 characters.
        """
        return await self._call(t.ABORT_AGENT_ROLLOUT, {"rollout_id": rollout_id}, {}, {"etag": etag, "reason": reason}, idempotency_key, timeout)

    async def accept_invitation(
        self,
        *,
        token: str,
        display_name: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.Invitation:
        """AcceptInvitation makes the caller a member, and registers an identity that is not registered yet. Refused
        with INVITATION_INVALID for a token that is unknown, expired, revoked, used, or for another address.

        Every registered principal; action `invitation.accept` on `invitation`.

        display_name: For somebody who is not registered yet, at most 200 characters; left out: the principal's
        name.
        """
        return await self._call(t.ACCEPT_INVITATION, {}, {}, {"token": token, "display_name": display_name}, idempotency_key, timeout)

    async def add_break_fix_action(
        self,
        node_id: str,
        break_fix_id: str,
        *,
        action: str,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.BreakFix:
        """AddBreakFixAction notes what was done.

        Platform administrators and operators; action `break_fix.act` on `node`.

        action: What was done; at most 500 characters.
        """
        return await self._call(t.ADD_BREAK_FIX_ACTION, {"node_id": node_id, "break_fix_id": break_fix_id}, {}, {"action": action}, idempotency_key, timeout)

    async def add_organisation_member(
        self,
        organisation_id: str,
        *,
        principal: str,
        role: m.MemberRole,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.Member:
        """AddOrganisationMember makes a registered principal a member. A role here counts in all of its projects.

        Owners of the organisation; action `organisation_member.add` on `organisation`.

        principal: Name of a registered principal, for example "user:alice".
        """
        return await self._call(t.ADD_ORGANISATION_MEMBER, {"organisation_id": organisation_id}, {}, {"principal": principal, "role": role}, idempotency_key, timeout)

    async def add_project_member(
        self,
        project_id: str,
        *,
        principal: str,
        role: m.MemberRole,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.Member:
        """AddProjectMember makes somebody of the organisation a member; others are invited. Administrators of the
        platform add any registered principal.

        Owners of the project; action `project_member.add` on `project`.

        principal: Name of a registered principal, for example "user:alice".
        """
        return await self._call(t.ADD_PROJECT_MEMBER, {"project_id": project_id}, {}, {"principal": principal, "role": role}, idempotency_key, timeout)

    async def admin_list_projects(
        self,
        *,
        page_size: int | None = None,
        page_token: str | None = None,
        organisation_id: str | None = None,
        state: m.TenantState | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> m.ListProjectsResponse:
        """ListProjects lists all projects, by organisation and slug.

        All platform roles; action `project.list` on `project`.

        page_size: Default 50, at most 500.
        organisation_id: Only those of this organisation.
        state: Only those in this state; unspecified: all.
        filter: Only those that it is true of, for example `organisation = acme AND slug:lab`. See "Filters and
        orders" of the guide for integrators. Fields: slug, display_name, organisation, organisation_id, state,
        create_time, update_time.
        order_by: Fields with commas between them, each with ` desc` after it or not, for example `create_time
        desc`; default `organisation, slug`. Fields: slug, display_name, organisation, create_time, update_time.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return await self._call(t.ADMIN_LIST_PROJECTS, {}, {"page_size": page_size, "page_token": page_token, "organisation_id": organisation_id, "state": state, "filter": filter, "order_by": order_by, "read_mask": read_mask}, None, None, timeout)

    def iter_admin_projects(
        self,
        *,
        page_size: int | None = None,
        organisation_id: str | None = None,
        state: m.TenantState | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[m.Project]:
        """The items of all pages of `admin_list_projects`.

        page_size: Default 50, at most 500.
        organisation_id: Only those of this organisation.
        state: Only those in this state; unspecified: all.
        filter: Only those that it is true of, for example `organisation = acme AND slug:lab`. See "Filters and
        orders" of the guide for integrators. Fields: slug, display_name, organisation, organisation_id, state,
        create_time, update_time.
        order_by: Fields with commas between them, each with ` desc` after it or not, for example `create_time
        desc`; default `organisation, slug`. Fields: slug, display_name, organisation, create_time, update_time.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return self._pages(t.ADMIN_LIST_PROJECTS, {}, {"page_size": page_size, "organisation_id": organisation_id, "state": state, "filter": filter, "order_by": order_by, "read_mask": read_mask}, "projects", timeout)

    async def approve_resource_slots(
        self,
        node_id: str,
        *,
        discovery_id: str,
        slot_indexes: list[int],
        choices: list[m.SlotChoice] | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.ListResourceSlotsResponse:
        """ApproveResourceSlots approves candidates of the latest discovery, all or none (A-116..A-130).

        Platform administrators and operators; action `slot.approve` on `node`.

        discovery_id: The discovery that was reviewed; a newer one makes the call fail.
        choices: What of these slots is to be other than the candidate has it, at most one for each slot.
        """
        return await self._call(t.APPROVE_RESOURCE_SLOTS, {"node_id": node_id}, {}, {"discovery_id": discovery_id, "slot_indexes": slot_indexes, "choices": choices}, idempotency_key, timeout)

    async def attach_host_report(
        self,
        node_id: str,
        *,
        report: m.HostReport,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.AttachedHostReport:
        """AttachHostReport attaches to a node what `gpuaas-node-agent validate-host --report` wrote on its host, with
        the results that were filled in by hand. The latest ten are kept. It changes nothing of the node.

        Platform administrators and operators; action `node.attach_report` on `node`.

        report: The file as it was written, at most 256 KiB. It names the host of this node, unless it is of a lab
        host.
        """
        return await self._call(t.ATTACH_HOST_REPORT, {"node_id": node_id}, {}, {"report": report}, idempotency_key, timeout)

    async def audit_ledger(
        self,
        *,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> m.AuditLedgerResponse:
        """AuditLedger checks every invariant of the ledger on one snapshot. It changes nothing.

        All platform roles; action `ledger.audit` on `ledger`.

        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return await self._call(t.AUDIT_LEDGER, {}, {"read_mask": read_mask}, None, None, timeout)

    async def batch_create_allocations(
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

        Owners and members of the project; action `allocation.create` on `project`.

        allocations: One to sixteen, without project_id, validate_only and wait.
        project_id: Project that is billed for all; optional when the caller belongs to exactly one.
        validate_only: Dry run: check everything, change nothing.
        wait: Queue them if they do not fit now, and place them together; all of one region and one slot class.
        """
        return await self._call(t.BATCH_CREATE_ALLOCATIONS, {}, {}, {"project_id": project_id, "allocations": allocations, "validate_only": validate_only, "wait": wait}, idempotency_key, timeout)

    async def cancel_capacity_reservation(
        self,
        reservation_id: str,
        *,
        reason: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.CapacityReservation:
        """CancelCapacityReservation ends a reservation that a member created. Running allocations continue.

        Owners and members of the project; action `reservation.cancel` on `project`.

        reason: At most 500 characters.
        """
        return await self._call(t.CANCEL_CAPACITY_RESERVATION, {"reservation_id": reservation_id}, {}, {"reason": reason}, idempotency_key, timeout)

    async def cancel_project_reservation(
        self,
        reservation_id: str,
        *,
        reason: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.CapacityReservation:
        """CancelProjectReservation ends a reservation of any project. Running allocations continue.

        Platform administrators and operators; action `reservation.cancel` on `project`.

        reason: At most 500 characters.
        """
        return await self._call(t.CANCEL_PROJECT_RESERVATION, {"reservation_id": reservation_id}, {}, {"reason": reason}, idempotency_key, timeout)

    async def close_break_fix(
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

        Platform administrators and operators; action `break_fix.close` on `node`.

        outcome: How it ended; at most 500 characters.
        """
        return await self._call(t.CLOSE_BREAK_FIX, {"node_id": node_id, "break_fix_id": break_fix_id}, {}, {"outcome": outcome}, idempotency_key, timeout)

    async def close_organisation(
        self,
        organisation_id: str,
        *,
        etag: str | None = None,
        reason: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.Organisation:
        """CloseOrganisation ends an organisation for good. Refused while a project of it is not closed; the refusal
        names them.

        Platform administrators; action `organisation.close` on `organisation`.

        etag: Of the organisation that was read; another one makes the call fail with ABORTED. Empty: not checked.
        reason: Shown to its members; at most 500 characters.
        """
        return await self._call(t.CLOSE_ORGANISATION, {"organisation_id": organisation_id}, {}, {"etag": etag, "reason": reason}, idempotency_key, timeout)

    async def close_project(
        self,
        project_id: str,
        *,
        etag: str | None = None,
        reason: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.Project:
        """CloseProject ends a project for good. Refused with PROJECT_IN_USE while it has allocations or capacity
        reservations; the refusal names them. For owners.

        Owners of the project; action `project.close` on `project`.

        etag: Of the project that was read; another one makes the call fail with ABORTED. Empty: not checked.
        reason: Shown to its members; at most 500 characters.
        """
        return await self._call(t.CLOSE_PROJECT, {"project_id": project_id}, {}, {"etag": etag, "reason": reason}, idempotency_key, timeout)

    async def compare_node(
        self,
        node_id: str,
        *,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> m.NodeComparison:
        """CompareNode reads what the ledger claims on a node, what the journal of its host holds and which domains its
        hypervisor has, and shows them side by side: a row for each allocation that one of the three has something
        of, and one for each difference of a slot or an NVSwitch partition. It changes nothing. Refused with
        HOST_UNREACHABLE while the host does not answer.

        All platform roles; action `node.get` on `node`.

        filter: Only the rows and differences that it is true of, for example `verdict = report AND subject !=
        allocation`. See "Filters and orders" of the guide for integrators. Fields: subject (`allocation` of a row),
        kind, verdict, correction, allocation_id, slot_id, slot_index, since.
        order_by: Fields with commas between them, each with ` desc` after it or not; default: rows by allocation,
        differences by slot. Fields: subject, kind, verdict.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return await self._call(t.COMPARE_NODE, {"node_id": node_id}, {"filter": filter, "order_by": order_by, "read_mask": read_mask}, None, None, timeout)

    async def cordon_node(
        self,
        node_id: str,
        *,
        reason: str,
        etag: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.NodePlacement:
        """CordonNode stops new allocations on a node; existing ones continue.

        Platform administrators and operators; action `node.cordon` on `node`.

        reason: For the other operators; at most 500 characters.
        etag: Of the placement that was read; another one makes the call fail with ABORTED. Empty: not checked.
        """
        return await self._call(t.CORDON_NODE, {"node_id": node_id}, {}, {"reason": reason, "etag": etag}, idempotency_key, timeout)

    async def correct_comparison(
        self,
        node_id: str,
        allocation_id: str,
        *,
        correction: m.ComparisonCorrection,
        etag: str,
        reason: str,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.NodeComparisonRow:
        """CorrectComparison does what a row of a comparison offers as its correction, for the row as it was read. What
        is claimed is never destroyed: a disk is left to the repair of its slot. Refused with ETAG_STALE when the
        row is another one by now, with CLAIMED when something of it is claimed, with STATE_CONFLICT when it offers
        another correction, with HOST_UNREACHABLE while the host does not answer. The same key again does the same
        once more where it was broken off. Returns the row as it is afterwards.

        Platform administrators and operators; action `node.correct` on `node`.

        correction: The correction that the row offers.
        etag: The one of the row that was read.
        reason: Reason, for the audit trail.
        """
        return await self._call(t.CORRECT_COMPARISON, {"node_id": node_id, "allocation_id": allocation_id}, {}, {"correction": correction, "etag": etag, "reason": reason}, idempotency_key, timeout)

    async def create_agent_rollout(
        self,
        *,
        version: str,
        digest: str,
        size_bytes: int,
        node_ids: list[str] | None = None,
        first_node_id: str | None = None,
        max_failures: int | None = None,
        max_parallel: int | None = None,
        node_timeout_seconds: int | None = None,
        reason: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.AgentRollout:
        """CreateAgentRollout begins a rollout with its first wave. Refused while another one is not ended.

        Platform administrators and operators; action `node.rollout` on `region`.

        version: As the agent of the package reports it (its short commit).
        digest: Of the package in the hosts' approved source, "sha256:…".
        size_bytes: Size of the package in bytes.
        node_ids: Empty: every enrolled node in service.
        first_node_id: The one node of the first wave; empty: the first by hostname. The second wave is the rest of
        its rack, the third all others.
        max_failures: More failed nodes than these pause the rollout.
        max_parallel: Nodes that are updated at once; 0: 10. At most 500.
        node_timeout_seconds: Time for one node from the start of its update until it is ready, in seconds; 0: 900.
        From 60 to 86400.
        reason: For the other operators; at most 500 characters.
        """
        return await self._call(t.CREATE_AGENT_ROLLOUT, {}, {}, {"version": version, "digest": digest, "size_bytes": size_bytes, "node_ids": node_ids, "first_node_id": first_node_id, "max_failures": max_failures, "max_parallel": max_parallel, "node_timeout_seconds": node_timeout_seconds, "reason": reason}, idempotency_key, timeout)

    async def create_allocation(
        self,
        *,
        name: str,
        region_code: str,
        sku: str,
        gpu_count: int,
        image: str,
        project_id: str | None = None,
        ssh_public_keys: list[str] | None = None,
        capacity_shape: m.CapacityShape | None = None,
        scheduler_type: str | None = None,
        labels: dict[str, str] | None = None,
        validate_only: bool | None = None,
        placement: m.PlacementConstraints | None = None,
        wait: m.Wait | None = None,
        ssh_key_names: list[str] | None = None,
        termination_protection: bool | None = None,
        auto_release_time: datetime | None = None,
        user_data: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.Allocation:
        """CreateAllocation reserves capacity and starts provisioning. validate_only is a dry run; with wait it can be
        queued.

        Owners and members of the project; action `allocation.create` on `project`.

        name: A DNS label of at most 63 characters.
        gpu_count: One of the SKU's allowed counts.
        image: Slug of an active image that the SKU can run.
        project_id: Project that is billed; optional when the caller belongs to exactly one.
        ssh_public_keys: OpenSSH public keys: with those of ssh_key_names one to ten different ones.
        capacity_shape: Left out: the SKU's shape.
        scheduler_type: "slice" or "baremetal"; accepted for older clients and turned into capacity_shape (B-13).
        validate_only: Dry run: check everything, change nothing.
        placement: Placement constraints.
        wait: Queue the launch if it does not fit now, instead of refusing it; see status.queue.
        ssh_key_names: Names of stored keys: the caller's own, otherwise the project's.
        termination_protection: Refuse a release by the project. Not together with a release time.
        auto_release_time: Release it then, also while it is queued; in the future.
        user_data: User data for the VM's cloud-init, as plain text: "#cloud-config", "#!" and a program, or a MIME
        message of several. At most 16384 bytes, without NUL. It is taken beside the platform's own, which stays in
        force. The API does not show it, only its digest and size; whoever is in the VM can read it. Not for bare
        metal.
        """
        return await self._call(t.CREATE_ALLOCATION, {}, {}, {"project_id": project_id, "name": name, "region_code": region_code, "sku": sku, "gpu_count": gpu_count, "image": image, "ssh_public_keys": ssh_public_keys, "capacity_shape": capacity_shape, "scheduler_type": scheduler_type, "labels": labels, "validate_only": validate_only, "placement": placement, "wait": wait, "ssh_key_names": ssh_key_names, "termination_protection": termination_protection, "auto_release_time": auto_release_time, "user_data": user_data}, idempotency_key, timeout)

    async def create_allocation_grant(
        self,
        project_id: str,
        *,
        allocation_id: str,
        principal: str,
        permission: m.AllocationPermission,
        expire_time: datetime | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.AllocationGrant:
        """CreateAllocationGrant grants a member of the project a permission on one of its allocations. For owners.
        Refused with ALREADY_EXISTS when the member has the permission by an earlier grant. Policies of the platform
        that forbid terminals take precedence.

        Owners of the project; action `allocation_grant.create` on `project`.

        allocation_id: An allocation of the project.
        principal: A member of the project or of its organisation, for example "user:bob".
        expire_time: Left out: 7 days from now; at most 90.
        """
        return await self._call(t.CREATE_ALLOCATION_GRANT, {"project_id": project_id}, {}, {"allocation_id": allocation_id, "principal": principal, "permission": permission, "expire_time": expire_time}, idempotency_key, timeout)

    async def create_api_key(
        self,
        project_id: str,
        service_account_id: str,
        *,
        scopes: list[m.ApiKeyScope],
        display_name: str | None = None,
        expire_time: datetime | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.ApiKey:
        """CreateApiKey makes a key. Its secret is in this answer and nowhere else: a repeated call answers the key
        without it.

        Owners of the project; action `api_key.create` on `project`.

        scopes: One at least.
        display_name: At most 200 characters.
        expire_time: Left out: the key does not expire.
        """
        return await self._call(t.CREATE_API_KEY, {"project_id": project_id, "service_account_id": service_account_id}, {}, {"display_name": display_name, "scopes": scopes, "expire_time": expire_time}, idempotency_key, timeout)

    async def create_capacity_reservation(
        self,
        *,
        config: m.CapacityReservationConfig,
        gather: bool | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.CapacityReservation:
        """CreateCapacityReservation reserves GPUs for the project, within the limit that an operator set for it.

        Owners and members of the project; action `reservation.create` on `project`.

        gather: Start with the free GPUs and add more as they become free, instead of being refused.
        """
        return await self._call(t.CREATE_CAPACITY_RESERVATION, {}, {}, {"config": config, "gather": gather}, idempotency_key, timeout)

    async def create_enrolment_token(
        self,
        node_id: str,
        *,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.EnrolmentToken:
        """CreateEnrolmentToken returns a single-use token for a node's agent. It is shown once and stored hashed
        (A-07).

        Platform administrators and operators; action `node.enrol` on `node`.
        """
        return await self._call(t.CREATE_ENROLMENT_TOKEN, {"node_id": node_id}, {}, {}, idempotency_key, timeout)

    async def create_image(
        self,
        *,
        slug: str,
        driver_strategy: m.DriverStrategy,
        source_uri: str,
        compatible_skus: list[str],
        display_name: str | None = None,
        boot_timeout_seconds: int | None = None,
        disabled: bool | None = None,
        readiness_checks: list[m.ReadinessCheck] | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.Image:
        """CreateImage adds an image. It becomes active when its artifact is in the registry with this digest. As long
        as the content of a large image is being read, the answer is IMAGE_BEING_VERIFIED: repeat the request with
        the same idempotency key.

        Platform administrators and operators; action `image.create` on `catalog`.

        slug: A DNS-like slug: lower-case letters, digits, '.' and '-'.
        source_uri: "oci://host/namespace/name:tag" or "…@sha256:…"; resolved and verified against the registry.
        boot_timeout_seconds: Default 600.
        disabled: Create it disabled.
        readiness_checks: At most 8, run in this order. They never change: another list is another image.
        """
        return await self._call(t.CREATE_IMAGE, {}, {}, {"slug": slug, "display_name": display_name, "driver_strategy": driver_strategy, "source_uri": source_uri, "compatible_skus": compatible_skus, "boot_timeout_seconds": boot_timeout_seconds, "disabled": disabled, "readiness_checks": readiness_checks}, idempotency_key, timeout)

    async def create_ingress_mapping(
        self,
        allocation_id: str,
        *,
        config: m.IngressMappingConfig,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.IngressMapping:
        """CreateIngressMapping opens a port of the VM of an active slice. Returns at once, in state PENDING; within
        seconds it is active. Refused with INGRESS_OFF where the operator of the allocation's host gave the platform
        no address and ports, with QUOTA when the allocation or the project has its most, and with ALREADY_EXISTS
        when the requested port is taken.

        Owners and members of the project; action `ingress_mapping.create` on `allocation`.

        allocation_id: An active slice of the caller's project.
        """
        return await self._call(t.CREATE_INGRESS_MAPPING, {"allocation_id": allocation_id}, {}, {"config": config}, idempotency_key, timeout)

    async def create_node(
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

        Platform administrators and operators; action `node.create` on `region`.

        hostname: A DNS label or name, unique.
        mode: "slice" or "baremetal".
        rack: Rack or failure domain: letters, digits, dots, underscores and hyphens, at most 63; empty: unknown.
        """
        return await self._call(t.CREATE_NODE, {}, {}, {"hostname": hostname, "region_code": region_code, "mode": mode, "max_vms_per_node": max_vms_per_node, "rack": rack}, idempotency_key, timeout)

    async def create_organisation(
        self,
        *,
        slug: str,
        display_name: str | None = None,
        owner: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.Organisation:
        """CreateOrganisation creates an organisation, and makes a registered principal its owner.

        Platform administrators; action `organisation.create` on `platform`.

        slug: Unique: lower-case letters, digits and hyphens, at most 63.
        display_name: At most 200 characters; left out: the slug.
        owner: Name of a registered principal, for example "user:alice", who becomes its owner. Left out: nobody
        yet.
        """
        return await self._call(t.CREATE_ORGANISATION, {}, {}, {"slug": slug, "display_name": display_name, "owner": owner}, idempotency_key, timeout)

    async def create_organisation_invitation(
        self,
        organisation_id: str,
        *,
        email: str,
        role: m.MemberRole,
        expire_time: datetime | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.Invitation:
        """CreateOrganisationInvitation invites somebody into an organisation. The answer alone has the token: hand it
        to whoever is invited.

        Owners of the organisation; action `organisation_invitation.create` on `organisation`.

        email: Whom the invitation is for. An identity whose issuer has verified another address cannot accept it.
        expire_time: Left out: 7 days from now; at most 30.
        """
        return await self._call(t.CREATE_ORGANISATION_INVITATION, {"organisation_id": organisation_id}, {}, {"email": email, "role": role, "expire_time": expire_time}, idempotency_key, timeout)

    async def create_organisation_webhook(
        self,
        organisation_id: str,
        *,
        url: str,
        event_types: list[str] | None = None,
        description: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.Webhook:
        """CreateOrganisationWebhook makes a webhook for the events of an organisation and of all of its projects,
        those of later ones too. The secret is in this answer and nowhere else.

        Owners of the organisation; action `organisation_webhook.create` on `organisation`.

        url: Begins with https://, at most 2000 bytes, without user, password and fragment. It has to resolve to
        public addresses.
        event_types: Left out, or "*": all.
        description: At most 500 characters.
        """
        return await self._call(t.CREATE_ORGANISATION_WEBHOOK, {"organisation_id": organisation_id}, {}, {"url": url, "event_types": event_types, "description": description}, idempotency_key, timeout)

    async def create_price_version(
        self,
        *,
        sku: str,
        price_per_gpu_hour: m.Money,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.PriceVersion:
        """CreatePriceVersion publishes a new price of a SKU, valid from now on for new allocations.

        Platform administrators; action `price.create` on `catalog`.
        """
        return await self._call(t.CREATE_PRICE_VERSION, {}, {}, {"sku": sku, "price_per_gpu_hour": price_per_gpu_hour}, idempotency_key, timeout)

    async def create_principal(
        self,
        *,
        name: str,
        issuer: str,
        subject: str,
        display_name: str | None = None,
        email: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.Principal:
        """CreatePrincipal registers an identity of a trusted issuer, without an invitation.

        Platform administrators; action `principal.create` on `platform`.

        name: "user:" and 1 to 128 letters, digits, dots, underscores, at signs and hyphens; unique.
        issuer: The issuer's URL, exactly as in its tokens.
        subject: The issuer's name for the principal; unique for the issuer.
        display_name: At most 200 characters; left out: the name.
        """
        return await self._call(t.CREATE_PRINCIPAL, {}, {}, {"name": name, "display_name": display_name, "issuer": issuer, "subject": subject, "email": email}, idempotency_key, timeout)

    async def create_project(
        self,
        *,
        organisation_id: str,
        slug: str,
        display_name: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.Project:
        """CreateProject creates a project in an organisation. For its owners, who own the project, too.

        Owners of the organisation; action `project.create` on `organisation`.

        slug: Unique in the organisation: lower-case letters, digits and hyphens, at most 63.
        display_name: At most 200 characters; left out: the slug.
        """
        return await self._call(t.CREATE_PROJECT, {}, {}, {"organisation_id": organisation_id, "slug": slug, "display_name": display_name}, idempotency_key, timeout)

    async def create_project_invitation(
        self,
        project_id: str,
        *,
        email: str,
        role: m.MemberRole,
        expire_time: datetime | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.Invitation:
        """CreateProjectInvitation invites somebody into a project. The answer alone has the token: hand it to whoever
        is invited.

        Owners of the project; action `invitation.create` on `project`.

        email: Whom the invitation is for. An identity whose issuer has verified another address cannot accept it.
        expire_time: Left out: 7 days from now; at most 30.
        """
        return await self._call(t.CREATE_PROJECT_INVITATION, {"project_id": project_id}, {}, {"email": email, "role": role, "expire_time": expire_time}, idempotency_key, timeout)

    async def create_project_reservation(
        self,
        *,
        config: m.CapacityReservationConfig,
        gather: bool | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.CapacityReservation:
        """CreateProjectReservation reserves GPUs for a project. The scheduler does not check that the project exists:
        the GPUs of an unknown project are blocked until the reservation ends or is canceled.

        Platform administrators and operators; action `reservation.create` on `project`.

        config: project_id is required.
        gather: Start with the free GPUs and add more as they become free, instead of being refused.
        """
        return await self._call(t.CREATE_PROJECT_RESERVATION, {}, {}, {"config": config, "gather": gather}, idempotency_key, timeout)

    async def create_project_ssh_key(
        self,
        project_id: str,
        *,
        name: str,
        public_key: str,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.SshKey:
        """CreateProjectSshKey keeps a key for all members of a project. For owners and members.

        Owners and members of the project; action `project_ssh_key.create` on `project`.

        name: Unique among the owner's keys: 1 to 63 letters, digits, dots, underscores and hyphens, beginning with
        a letter or digit.
        public_key: One line of OpenSSH: type, base64 and an optional comment, which is kept; no options. Ed25519,
        ECDSA, or RSA of at least 3072 bits.
        """
        return await self._call(t.CREATE_PROJECT_SSH_KEY, {"project_id": project_id}, {}, {"name": name, "public_key": public_key}, idempotency_key, timeout)

    async def create_project_webhook(
        self,
        project_id: str,
        *,
        url: str,
        event_types: list[str] | None = None,
        description: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.Webhook:
        """CreateProjectWebhook makes a webhook for the events of a project, and for those of its organisation that
        everybody in the project may read. The secret that signs its deliveries is in this answer and nowhere else:
        a repeated call answers the webhook without it.

        Owners of the project; action `webhook.create` on `project`.

        url: Begins with https://, at most 2000 bytes, without user, password and fragment. It has to resolve to
        public addresses.
        event_types: Left out, or "*": all. Refused are those that only webhooks of organisations get:
        "project.created", "project.closed", "organisation_member.added", "organisation_member.updated" and
        "organisation_member.removed".
        description: At most 500 characters.
        """
        return await self._call(t.CREATE_PROJECT_WEBHOOK, {"project_id": project_id}, {}, {"url": url, "event_types": event_types, "description": description}, idempotency_key, timeout)

    async def create_scim_group_mapping(
        self,
        organisation_id: str,
        group_id: str,
        *,
        target_project_id: str,
        role: m.MemberRole,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.ScimGroupMapping:
        """CreateScimGroupMapping gives the members of a group a role in a project, now and from now on. A role that a
        member has there otherwise stays.

        Owners of the organisation; action `organisation_scim_mapping.create` on `organisation`.

        target_project_id: A project of the organisation.
        """
        return await self._call(t.CREATE_SCIM_GROUP_MAPPING, {"organisation_id": organisation_id, "group_id": group_id}, {}, {"target_project_id": target_project_id, "role": role}, idempotency_key, timeout)

    async def create_service_account(
        self,
        project_id: str,
        *,
        slug: str,
        role: m.MemberRole,
        description: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.ServiceAccount:
        """CreateServiceAccount makes a service account with a role in the project. It calls by its API keys.

        Owners of the project; action `service_account.create` on `project`.

        slug: Unique in the project: lower-case letters, digits and hyphens, at most 63.
        role: In the project.
        description: At most 500 characters.
        """
        return await self._call(t.CREATE_SERVICE_ACCOUNT, {"project_id": project_id}, {}, {"slug": slug, "role": role, "description": description}, idempotency_key, timeout)

    async def create_ssh_key(
        self,
        *,
        name: str,
        public_key: str,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.SshKey:
        """CreateSshKey keeps a key of the caller.

        Every registered principal; action `ssh_key.create` on `principal`.

        name: Unique among the owner's keys: 1 to 63 letters, digits, dots, underscores and hyphens, beginning with
        a letter or digit.
        public_key: One line of OpenSSH: type, base64 and an optional comment, which is kept; no options. Ed25519,
        ECDSA, or RSA of at least 3072 bits.
        """
        return await self._call(t.CREATE_SSH_KEY, {}, {}, {"name": name, "public_key": public_key}, idempotency_key, timeout)

    async def create_terminal_session(
        self,
        allocation_id: str,
        *,
        kind: m.TerminalKind | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.CreateTerminalSessionResponse:
        """CreateTerminalSession returns a ticket that opens one terminal or SSH tunnel, once, within 30 seconds, for
        this caller, into this allocation, from this origin. A repeated call with the same key shows no ticket. A
        tunnel is refused with RECORDING_REQUIRED in a project whose terminals must be recorded: the platform cannot
        read what it carries.

        Owners and members of the project; action `terminal.create` on `allocation`.
        """
        return await self._call(t.CREATE_TERMINAL_SESSION, {"allocation_id": allocation_id}, {}, {"kind": kind}, idempotency_key, timeout)

    async def deactivate_partition(
        self,
        node_id: str,
        partition_id: int,
        *,
        reason: str,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.DeactivatePartitionResponse:
        """DeactivatePartition deactivates an active NVSwitch partition without an owner: the comparison of a node
        shows it as `partition_unowned`. Its host looks again: one that it has for an allocation, and one while a VM
        runs with GPUs of which it has no partition, is refused with CLAIMED. Refused with STATE_CONFLICT when the
        comparison has no such difference, with HOST_UNREACHABLE while the host does not answer. The same key again
        does the same once more where it was broken off.

        Platform administrators and operators; action `node.deactivate_partition` on `node`.

        partition_id: Fabric Manager's number: `observed` of the difference. 0 is one, too.
        reason: Reason, for the audit trail.
        """
        return await self._call(t.DEACTIVATE_PARTITION, {"node_id": node_id, "partition_id": partition_id}, {}, {"reason": reason}, idempotency_key, timeout)

    async def delete_allocation_grant(
        self,
        project_id: str,
        grant_id: str,
        *,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.DeleteAllocationGrantResponse:
        """DeleteAllocationGrant revokes a grant. Terminals and streams that depend on it end within seconds. For
        owners.

        Owners of the project; action `allocation_grant.delete` on `project`.
        """
        return await self._call(t.DELETE_ALLOCATION_GRANT, {"project_id": project_id, "grant_id": grant_id}, {}, {}, idempotency_key, timeout)

    async def delete_ingress_mapping(
        self,
        allocation_id: str,
        ingress_mapping_id: str,
        *,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.IngressMapping:
        """DeleteIngressMapping closes the port again, open connections included. Returns at once, in state DELETING;
        once the host has closed the port, the mapping is gone and the external port free.

        Owners and members of the project; action `ingress_mapping.delete` on `allocation`.
        """
        return await self._call(t.DELETE_INGRESS_MAPPING, {"allocation_id": allocation_id, "ingress_mapping_id": ingress_mapping_id}, {}, {}, idempotency_key, timeout)

    async def delete_node(
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

        Platform administrators and operators; action `node.delete` on `node`.

        etag: Of the node that was read; another one makes the call fail with ABORTED. Empty: not checked.
        reason: For the other operators; at most 500 characters.
        """
        return await self._call(t.DELETE_NODE, {"node_id": node_id}, {"etag": etag, "reason": reason}, {}, idempotency_key, timeout)

    async def delete_project_ssh_key(
        self,
        project_id: str,
        ssh_key_id: str,
        *,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.DeleteProjectSshKeyResponse:
        """DeleteProjectSshKey forgets a key of a project. Allocations that have it keep it. For owners and members.

        Owners and members of the project; action `project_ssh_key.delete` on `project`.
        """
        return await self._call(t.DELETE_PROJECT_SSH_KEY, {"project_id": project_id, "ssh_key_id": ssh_key_id}, {}, {}, idempotency_key, timeout)

    async def delete_region(
        self,
        region_code: str,
        *,
        etag: str | None = None,
        reason: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.DeleteRegionResponse:
        """DeleteRegion removes a region that was made by mistake. Refused with REGION_IN_USE, which names them, while
        nodes are in it, and for good where a host has enrolled, or an allocation or capacity reservation was made
        in it. Such a region is disabled instead.

        Platform administrators; action `region.delete` on `region`.

        etag: Of the region that was read; another one makes the call fail with ABORTED (ETAG_STALE). Empty: not
        checked.
        reason: For the other operators; at most 500 characters.
        """
        return await self._call(t.DELETE_REGION, {"region_code": region_code}, {"etag": etag, "reason": reason}, {}, idempotency_key, timeout)

    async def delete_scim_group_mapping(
        self,
        organisation_id: str,
        group_id: str,
        mapping_id: str,
        *,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.DeleteScimGroupMappingResponse:
        """DeleteScimGroupMapping ends what a mapping gave: streams and terminals of who has no other role there end,
        too.

        Owners of the organisation; action `organisation_scim_mapping.delete` on `organisation`.
        """
        return await self._call(t.DELETE_SCIM_GROUP_MAPPING, {"organisation_id": organisation_id, "group_id": group_id, "mapping_id": mapping_id}, {}, {}, idempotency_key, timeout)

    async def delete_service_account(
        self,
        project_id: str,
        service_account_id: str,
        *,
        etag: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.DeleteServiceAccountResponse:
        """DeleteServiceAccount ends an account and all of its keys for good. What it launched stays.

        Owners of the project; action `service_account.delete` on `project`.

        etag: Of the service account that was read; another one makes the call fail with ABORTED (ETAG_STALE).
        Empty: not checked.
        """
        return await self._call(t.DELETE_SERVICE_ACCOUNT, {"project_id": project_id, "service_account_id": service_account_id}, {"etag": etag}, {}, idempotency_key, timeout)

    async def delete_ssh_key(
        self,
        ssh_key_id: str,
        *,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.DeleteSshKeyResponse:
        """DeleteSshKey forgets a key of the caller. Allocations that have it keep it.

        Every registered principal; action `ssh_key.delete` on `principal`.
        """
        return await self._call(t.DELETE_SSH_KEY, {"ssh_key_id": ssh_key_id}, {}, {}, idempotency_key, timeout)

    async def delete_webhook(
        self,
        webhook_id: str,
        *,
        etag: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.DeleteWebhookResponse:
        """DeleteWebhook ends a webhook with its deliveries.

        Owners of the project; action `webhook.delete` on `webhook`.

        etag: Refused with ETAG_STALE when the webhook has another one by now.
        """
        return await self._call(t.DELETE_WEBHOOK, {"webhook_id": webhook_id}, {"etag": etag}, {}, idempotency_key, timeout)

    async def disable_api_key(
        self,
        project_id: str,
        service_account_id: str,
        api_key_id: str,
        *,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.ApiKey:
        """DisableApiKey refuses a key, and the tokens that it was exchanged for, for good.

        Owners of the project; action `api_key.disable` on `project`.
        """
        return await self._call(t.DISABLE_API_KEY, {"project_id": project_id, "service_account_id": service_account_id, "api_key_id": api_key_id}, {}, {}, idempotency_key, timeout)

    async def disable_principal(
        self,
        principal_id: str,
        *,
        etag: str | None = None,
        reason: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.Principal:
        """DisablePrincipal refuses a principal from now on: its calls, streams and terminals end within seconds.
        Refused for the caller itself and for the last administrator.

        Platform administrators; action `principal.disable` on `principal`.

        etag: Of the principal that was read; another one makes the call fail with ABORTED. Empty: not checked.
        reason: For the audit trail; at most 500 characters.
        """
        return await self._call(t.DISABLE_PRINCIPAL, {"principal_id": principal_id}, {}, {"etag": etag, "reason": reason}, idempotency_key, timeout)

    async def disable_resource_slot(
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

        Platform administrators and operators; action `slot.disable` on `slot`.

        etag: Of the slot that was read; another one makes the call fail with ABORTED. Empty: not checked.
        """
        return await self._call(t.DISABLE_RESOURCE_SLOT, {"node_id": node_id, "slot_id": slot_id}, {}, {"reason": reason, "etag": etag}, idempotency_key, timeout)

    async def disable_service_account(
        self,
        project_id: str,
        service_account_id: str,
        *,
        etag: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.ServiceAccount:
        """DisableServiceAccount refuses all keys and tokens of an account until it is enabled again; its streams and
        terminals end.

        Owners of the project; action `service_account.disable` on `project`.

        etag: Of the service account that was read; another one makes the call fail with ABORTED (ETAG_STALE).
        Empty: not checked.
        """
        return await self._call(t.DISABLE_SERVICE_ACCOUNT, {"project_id": project_id, "service_account_id": service_account_id}, {}, {"etag": etag}, idempotency_key, timeout)

    async def discover_topology(
        self,
        node_id: str,
        *,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.TopologyDiscovery:
        """DiscoverTopology queues the node task slice.topology_discover (A-56, H-01).

        Platform administrators and operators; action `node.discover` on `node`.
        """
        return await self._call(t.DISCOVER_TOPOLOGY, {"node_id": node_id}, {}, {}, idempotency_key, timeout)

    async def drain_node(
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

        Platform administrators and operators; action `node.drain` on `node`.

        reason: For the other operators; at most 500 characters.
        etag: Of the placement that was read; another one makes the call fail with ABORTED. Empty: not checked.
        """
        return await self._call(t.DRAIN_NODE, {"node_id": node_id}, {}, {"reason": reason, "etag": etag}, idempotency_key, timeout)

    async def enable_principal(
        self,
        principal_id: str,
        *,
        etag: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.Principal:
        """EnablePrincipal enables a disabled principal again.

        Platform administrators; action `principal.enable` on `principal`.

        etag: Of the principal that was read; another one makes the call fail with ABORTED. Empty: not checked.
        """
        return await self._call(t.ENABLE_PRINCIPAL, {"principal_id": principal_id}, {}, {"etag": etag}, idempotency_key, timeout)

    async def enable_resource_slot(
        self,
        node_id: str,
        slot_id: str,
        *,
        etag: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.ResourceSlot:
        """EnableResourceSlot enables a disabled slot.

        Platform administrators and operators; action `slot.enable` on `slot`.

        etag: Of the slot that was read; another one makes the call fail with ABORTED. Empty: not checked.
        """
        return await self._call(t.ENABLE_RESOURCE_SLOT, {"node_id": node_id, "slot_id": slot_id}, {}, {"etag": etag}, idempotency_key, timeout)

    async def enable_service_account(
        self,
        project_id: str,
        service_account_id: str,
        *,
        etag: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.ServiceAccount:
        """EnableServiceAccount takes the keys of a disabled account again, those that are not disabled themselves.

        Owners of the project; action `service_account.enable` on `project`.

        etag: Of the service account that was read; another one makes the call fail with ABORTED (ETAG_STALE).
        Empty: not checked.
        """
        return await self._call(t.ENABLE_SERVICE_ACCOUNT, {"project_id": project_id, "service_account_id": service_account_id}, {}, {"etag": etag}, idempotency_key, timeout)

    async def end_tenant_terminal_session(
        self,
        session_id: str,
        *,
        reason: str,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.TerminalSession:
        """EndTenantTerminalSession ends a session of anybody, and whatever it carries, within seconds. Its user and
        the members of the project see the reason, except where its user or another operator had requested its end
        before: then only the audit trail has the reason. Of one that has ended already it changes nothing.

        Platform administrators and operators; action `terminal.operator_end` on `session`.

        reason: Shown to the user and to the members of the project, unless the end was requested before; one line
        of at most 500 characters.
        """
        return await self._call(t.END_TENANT_TERMINAL_SESSION, {"session_id": session_id}, {}, {"reason": reason}, idempotency_key, timeout)

    async def end_terminal_session(
        self,
        allocation_id: str,
        session_id: str,
        *,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.TerminalSession:
        """EndTerminalSession ends a session that the caller opened, and whatever it carries, within seconds. Of one
        that has ended already it changes nothing.

        Owners and members of the project; action `terminal.end` on `allocation`.
        """
        return await self._call(t.END_TERMINAL_SESSION, {"allocation_id": allocation_id, "session_id": session_id}, {}, {}, idempotency_key, timeout)

    async def exchange_api_key(
        self,
        *,
        timeout: float | None = None,
    ) -> m.ExchangeApiKeyResponse:
        """ExchangeApiKey returns a token of ten minutes for the API key that the call itself is made with. It does
        what the key does, and ends with it.

        Every registered principal; action `api_key.exchange` on `principal`.
        """
        return await self._call(t.EXCHANGE_API_KEY, {}, {}, {}, None, timeout)

    async def explain_nodes(
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
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> m.ExplainNodesResponse:
        """ExplainNodes scores the nodes for a launch, and gives the unschedulable reasons of the others.

        All platform roles; action `node.explain` on `region`.

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
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return await self._call(t.EXPLAIN_NODES, {}, {"region_code": region_code, "sku": sku, "gpu_count": gpu_count, "page_size": page_size, "project_id": project_id, "image_digest": image_digest, "placement.affinity": placement_affinity, "placement.anti_affinity": placement_anti_affinity, "placement.anti_affinity_label": placement_anti_affinity_label, "placement.require_prewarmed": placement_require_prewarmed, "placement.affinity_label": placement_affinity_label, "read_mask": read_mask}, None, None, timeout)

    async def explain_placement(
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
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> m.PlacementExplanation:
        """ExplainPlacement counts the nodes on which a launch fits now, and the unschedulable reasons of the others.

        Every registered principal; action `availability.explain` on `catalog`.

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
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return await self._call(t.EXPLAIN_PLACEMENT, {}, {"region_code": region_code, "sku": sku, "gpu_count": gpu_count, "project_id": project_id, "image_digest": image_digest, "placement.affinity": placement_affinity, "placement.anti_affinity": placement_anti_affinity, "placement.anti_affinity_label": placement_anti_affinity_label, "placement.require_prewarmed": placement_require_prewarmed, "placement.affinity_label": placement_affinity_label, "read_mask": read_mask}, None, None, timeout)

    async def export_audit_records(
        self,
        source: str,
        *,
        after_position: int | None = None,
        page_size: int | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> m.ExportAuditRecordsResponse:
        """ExportAuditRecords returns the sealed records of one source in the order of its hash chain.

        All platform roles; action `audit.list` on `audit`.

        after_position: Position of the last record that the caller has; 0 for all that are kept.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return await self._call(t.EXPORT_AUDIT_RECORDS, {"source": source}, {"after_position": after_position, "page_size": page_size, "read_mask": read_mask}, None, None, timeout)

    async def force_release_allocation(
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
        """ForceReleaseAllocation ends an allocation whose host is lost, on the administrator's statement of what
        became of the host. Its claims end; billing ends at the last report of the host, or at the time that the
        administrator sets; its slots are disabled until a repair has wiped them, or retired when their disks are
        destroyed. Works on a released or failed allocation that still holds slots, too. Refused while the host
        answers, except for destroyed disks that such an allocation holds. validate_only is a dry run.

        Platform administrators and operators; action `allocation.force_release` on `allocation`.

        host_fate: What became of the host.
        reason: Reason, for the audit trail.
        billing_end_time: When billing ends, for an active allocation; from its activation to now. Absent: at the
        last report of its host, for bare metal now.
        validate_only: Dry run: check everything, change nothing.
        """
        return await self._call(t.FORCE_RELEASE_ALLOCATION, {"allocation_id": allocation_id}, {}, {"host_fate": host_fate, "reason": reason, "billing_end_time": billing_end_time, "validate_only": validate_only}, idempotency_key, timeout)

    async def get_agent_rollout(
        self,
        rollout_id: str,
        *,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> m.AgentRollout:
        """GetAgentRollout returns a rollout with the state of every node.

        All platform roles; action `node.list` on `region`.

        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return await self._call(t.GET_AGENT_ROLLOUT, {"rollout_id": rollout_id}, {"read_mask": read_mask}, None, None, timeout)

    async def get_allocation(
        self,
        allocation_id: str,
        *,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> m.Allocation:
        """GetAllocation returns one allocation of the caller's project.

        Owners, members and viewers of the project; action `allocation.get` on `allocation`.

        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return await self._call(t.GET_ALLOCATION, {"allocation_id": allocation_id}, {"read_mask": read_mask}, None, None, timeout)

    async def get_allocation_detail(
        self,
        allocation_id: str,
        *,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> m.AllocationDetail:
        """GetAllocationDetail shows placement shape and claims (B-30, H-17).

        All platform roles; action `allocation.inspect` on `allocation`.

        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return await self._call(t.GET_ALLOCATION_DETAIL, {"allocation_id": allocation_id}, {"read_mask": read_mask}, None, None, timeout)

    async def get_allocation_metrics(
        self,
        allocation_id: str,
        *,
        start_time: datetime | None = None,
        end_time: datetime | None = None,
        step_seconds: int | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> m.AllocationMetrics:
        """GetAllocationMetrics returns what was measured of the VM of an active allocation: CPU, network and disk by
        its host, memory and GPUs by its guest. The host keeps it for 24 hours, in memory: a restart of its agent
        loses it. Refused with METRICS_UNAVAILABLE when the allocation has no VM, and with HOST_UNREACHABLE when its
        host does not answer.

        Owners, members and viewers of the project; action `allocation.get` on `allocation`.

        start_time: From the step of this time on; absent: one hour before the end.
        end_time: Until this time, exclusive; absent: now.
        step_seconds: Length of a step in seconds, one that gives at most 1500 steps; 0: at most 240 steps. A step
        is never shorter than the host's pause between two measurements, 15 seconds unless the operator sets
        another.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return await self._call(t.GET_ALLOCATION_METRICS, {"allocation_id": allocation_id}, {"start_time": start_time, "end_time": end_time, "step_seconds": step_seconds, "read_mask": read_mask}, None, None, timeout)

    async def get_caller(
        self,
        *,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> m.Caller:
        """GetCaller returns who the bearer of the token is, with its roles and its projects. It answers who is not
        registered, too: the principal is empty then.

        Every registered principal; action `identity.get` on `principal`.

        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return await self._call(t.GET_CALLER, {}, {"read_mask": read_mask}, None, None, timeout)

    async def get_capacity_reservation(
        self,
        reservation_id: str,
        *,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> m.CapacityReservation:
        """GetCapacityReservation returns a reservation of the caller's projects.

        Owners, members and viewers of the project; action `reservation.get` on `project`.

        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return await self._call(t.GET_CAPACITY_RESERVATION, {"reservation_id": reservation_id}, {"read_mask": read_mask}, None, None, timeout)

    async def get_fleet_counts(
        self,
        *,
        region_code: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> m.FleetRollup:
        """GetFleetCounts counts nodes and GPUs, in all, by pool and by capacity reservation, at one moment.

        All platform roles; action `fleet.list` on `region`.

        region_code: One region; empty: all.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return await self._call(t.GET_FLEET_COUNTS, {}, {"region_code": region_code, "read_mask": read_mask}, None, None, timeout)

    async def get_ingress_mapping(
        self,
        allocation_id: str,
        ingress_mapping_id: str,
        *,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> m.IngressMapping:
        """GetIngressMapping returns one ingress mapping of an allocation.

        Owners, members and viewers of the project; action `ingress_mapping.get` on `allocation`.

        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return await self._call(t.GET_INGRESS_MAPPING, {"allocation_id": allocation_id, "ingress_mapping_id": ingress_mapping_id}, {"read_mask": read_mask}, None, None, timeout)

    async def get_node(
        self,
        node_id: str,
        *,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> m.Node:
        """GetNode returns one node with its current evidence.

        All platform roles; action `node.get` on `node`.

        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return await self._call(t.GET_NODE, {"node_id": node_id}, {"read_mask": read_mask}, None, None, timeout)

    async def get_node_placement(
        self,
        node_id: str,
        *,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> m.NodePlacement:
        """GetNodePlacement returns one node; a drain waits until it has no live claims.

        All platform roles; action `node.get` on `node`.

        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return await self._call(t.GET_NODE_PLACEMENT, {"node_id": node_id}, {"read_mask": read_mask}, None, None, timeout)

    async def get_organisation(
        self,
        organisation_id: str,
        *,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> m.Organisation:
        """GetOrganisation returns an organisation that the caller is a member of, or has a project in.

        Members of the organisation; action `organisation.get` on `organisation`.

        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return await self._call(t.GET_ORGANISATION, {"organisation_id": organisation_id}, {"read_mask": read_mask}, None, None, timeout)

    async def get_organisation_guardrails(
        self,
        organisation_id: str,
        *,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> m.OrganisationGuardrails:
        """GetOrganisationGuardrails returns what the owners of an organisation forbid in all of its projects. For its
        members, and for those of its projects, whom they bind.

        Members of the organisation; action `organisation_guardrails.get` on `organisation`.

        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return await self._call(t.GET_ORGANISATION_GUARDRAILS, {"organisation_id": organisation_id}, {"read_mask": read_mask}, None, None, timeout)

    async def get_preservation_report(
        self,
        *,
        region_code: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> m.PreservationReport:
        """GetPreservationReport counts the nodes that are free for bare metal, and the moves that would free more.
        Nothing is executed.

        All platform roles; action `capacity.plan` on `region`.

        region_code: Only this region.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return await self._call(t.GET_PRESERVATION_REPORT, {}, {"region_code": region_code, "read_mask": read_mask}, None, None, timeout)

    async def get_principal(
        self,
        principal_id: str,
        *,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> m.Principal:
        """GetPrincipal returns one principal.

        All platform roles; action `principal.get` on `principal`.

        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return await self._call(t.GET_PRINCIPAL, {"principal_id": principal_id}, {"read_mask": read_mask}, None, None, timeout)

    async def get_project(
        self,
        project_id: str,
        *,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> m.Project:
        """GetProject returns a project that the caller is a member of.

        Owners, members and viewers of the project; action `project.get` on `project`.

        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return await self._call(t.GET_PROJECT, {"project_id": project_id}, {"read_mask": read_mask}, None, None, timeout)

    async def get_project_network(
        self,
        *,
        project_id: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> m.ProjectNetwork:
        """GetProjectNetwork returns the network setting of the caller's project.

        Owners, members and viewers of the project; action `network.get` on `project`.

        project_id: Optional for a member of exactly one.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return await self._call(t.GET_PROJECT_NETWORK, {}, {"project_id": project_id, "read_mask": read_mask}, None, None, timeout)

    async def get_project_priority(
        self,
        project_id: str,
        *,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> m.ProjectPriority:
        """GetProjectPriority returns the priority of a project.

        All platform roles; action `queue.priority` on `project`.

        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return await self._call(t.GET_PROJECT_PRIORITY, {"project_id": project_id}, {"read_mask": read_mask}, None, None, timeout)

    async def get_project_quotas(
        self,
        project_id: str,
        *,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> m.ProjectQuotas:
        """GetProjectQuotas returns the quotas of a project and their use. An unknown project has the site's defaults.

        All platform roles; action `quota.get` on `project`.

        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return await self._call(t.GET_PROJECT_QUOTAS, {"project_id": project_id}, {"read_mask": read_mask}, None, None, timeout)

    async def get_project_reservation(
        self,
        reservation_id: str,
        *,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> m.CapacityReservation:
        """GetProjectReservation returns a reservation of any project.

        All platform roles; action `reservation.get` on `project`.

        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return await self._call(t.GET_PROJECT_RESERVATION, {"reservation_id": reservation_id}, {"read_mask": read_mask}, None, None, timeout)

    async def get_project_reservation_limit(
        self,
        project_id: str,
        *,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> m.ProjectReservationLimit:
        """GetProjectReservationLimit returns how many GPUs the members of a project can reserve, and have reserved.

        All platform roles; action `reservation.get_limit` on `project`.

        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return await self._call(t.GET_PROJECT_RESERVATION_LIMIT, {"project_id": project_id}, {"read_mask": read_mask}, None, None, timeout)

    async def get_quotas(
        self,
        *,
        project_id: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> m.ProjectQuotas:
        """GetQuotas returns the quotas of the caller's project and their use.

        All roles in the project; action `quota.get` on `project`.

        project_id: Optional for a member of exactly one.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return await self._call(t.GET_QUOTAS, {}, {"project_id": project_id, "read_mask": read_mask}, None, None, timeout)

    async def get_scim_settings(
        self,
        organisation_id: str,
        *,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> m.ScimSettings:
        """GetScimSettings returns whether SCIM is set up for an organisation, and for which issuer.

        Members of the organisation; action `organisation_scim.get` on `organisation`.

        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return await self._call(t.GET_SCIM_SETTINGS, {"organisation_id": organisation_id}, {"read_mask": read_mask}, None, None, timeout)

    async def get_slot_repair(
        self,
        node_id: str,
        slot_id: str,
        *,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> m.SlotRepair:
        """GetSlotRepair shows the latest repair of a slot.

        All platform roles; action `slot.get` on `slot`.

        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return await self._call(t.GET_SLOT_REPAIR, {"node_id": node_id, "slot_id": slot_id}, {"read_mask": read_mask}, None, None, timeout)

    async def get_terminal_recording(
        self,
        session_id: str,
        *,
        page_token: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> m.GetTerminalRecordingResponse:
        """GetTerminalRecording returns a part of a recording of the caller's project.

        Owners and members of the project; action `terminal.replay` on `session`.

        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return await self._call(t.GET_TERMINAL_RECORDING, {"session_id": session_id}, {"page_token": page_token, "read_mask": read_mask}, None, None, timeout)

    async def get_topology_discovery(
        self,
        node_id: str,
        *,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> m.TopologyDiscovery:
        """GetTopologyDiscovery returns the latest discovery (A-57, H-02).

        All platform roles; action `node.get` on `node`.

        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return await self._call(t.GET_TOPOLOGY_DISCOVERY, {"node_id": node_id}, {"read_mask": read_mask}, None, None, timeout)

    async def get_webhook(
        self,
        webhook_id: str,
        *,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> m.Webhook:
        """GetWebhook reads a webhook.

        Owners, members and viewers of the project; action `webhook.get` on `webhook`.

        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return await self._call(t.GET_WEBHOOK, {"webhook_id": webhook_id}, {"read_mask": read_mask}, None, None, timeout)

    async def list_activities(
        self,
        project_id: str,
        *,
        kind: str | None = None,
        actor: str | None = None,
        outcome: m.AuditOutcome | None = None,
        start_time: datetime | None = None,
        end_time: datetime | None = None,
        page_size: int | None = None,
        page_token: str | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> m.ListActivitiesResponse:
        """ListActivities lists what happened in a project, and what was denied there, newest first unless the request
        says otherwise. For as long as audit records are kept.

        Owners, members and viewers of the project; action `activity.list` on `project`.

        kind: Only of this kind of resource, for example "allocation" or "api_key". Empty: of all.
        actor: Only what this principal did, for example "user:alice"; "operator" for what operators did. Empty:
        whoever did it.
        start_time: From this time on.
        end_time: Before this time.
        page_size: Default 50, at most 500. A page may have fewer though more follow.
        filter: Only those that it is true of, for example `action:terminal AND outcome = denied`. See "Filters and
        orders" of the guide for integrators. Fields: action, resource, resource_id, outcome, create_time.
        order_by: `create_time desc` (default) or `create_time`.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return await self._call(t.LIST_ACTIVITIES, {"project_id": project_id}, {"kind": kind, "actor": actor, "outcome": outcome, "start_time": start_time, "end_time": end_time, "page_size": page_size, "page_token": page_token, "filter": filter, "order_by": order_by, "read_mask": read_mask}, None, None, timeout)

    def iter_activities(
        self,
        project_id: str,
        *,
        kind: str | None = None,
        actor: str | None = None,
        outcome: m.AuditOutcome | None = None,
        start_time: datetime | None = None,
        end_time: datetime | None = None,
        page_size: int | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[m.Activity]:
        """The items of all pages of `list_activities`.

        kind: Only of this kind of resource, for example "allocation" or "api_key". Empty: of all.
        actor: Only what this principal did, for example "user:alice"; "operator" for what operators did. Empty:
        whoever did it.
        start_time: From this time on.
        end_time: Before this time.
        page_size: Default 50, at most 500. A page may have fewer though more follow.
        filter: Only those that it is true of, for example `action:terminal AND outcome = denied`. See "Filters and
        orders" of the guide for integrators. Fields: action, resource, resource_id, outcome, create_time.
        order_by: `create_time desc` (default) or `create_time`.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return self._pages(t.LIST_ACTIVITIES, {"project_id": project_id}, {"kind": kind, "actor": actor, "outcome": outcome, "start_time": start_time, "end_time": end_time, "page_size": page_size, "filter": filter, "order_by": order_by, "read_mask": read_mask}, "activities", timeout)

    async def list_agent_rollouts(
        self,
        *,
        page_size: int | None = None,
        page_token: str | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> m.ListAgentRolloutsResponse:
        """ListAgentRollouts lists rollouts without their waves, the newest first.

        All platform roles; action `node.list` on `region`.

        page_size: Default 50, at most 500.
        filter: Only those that it is true of, for example `state = paused OR failed_nodes > 0`. See "Filters and
        orders" of the guide for integrators. Fields: version, state, state_reason, rollback_of, principal, reason,
        total_nodes, succeeded_nodes, failed_nodes, create_time, end_time.
        order_by: Fields with commas between them, each with ` desc` after it or not, for example `version`; default
        newest first. Fields: version, state, principal, total_nodes, succeeded_nodes, failed_nodes, create_time.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return await self._call(t.LIST_AGENT_ROLLOUTS, {}, {"page_size": page_size, "page_token": page_token, "filter": filter, "order_by": order_by, "read_mask": read_mask}, None, None, timeout)

    def iter_agent_rollouts(
        self,
        *,
        page_size: int | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[m.AgentRollout]:
        """The items of all pages of `list_agent_rollouts`.

        page_size: Default 50, at most 500.
        filter: Only those that it is true of, for example `state = paused OR failed_nodes > 0`. See "Filters and
        orders" of the guide for integrators. Fields: version, state, state_reason, rollback_of, principal, reason,
        total_nodes, succeeded_nodes, failed_nodes, create_time, end_time.
        order_by: Fields with commas between them, each with ` desc` after it or not, for example `version`; default
        newest first. Fields: version, state, principal, total_nodes, succeeded_nodes, failed_nodes, create_time.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return self._pages(t.LIST_AGENT_ROLLOUTS, {}, {"page_size": page_size, "filter": filter, "order_by": order_by, "read_mask": read_mask}, "rollouts", timeout)

    async def list_all_allocations(
        self,
        *,
        project_id: str | None = None,
        node_id: str | None = None,
        state: m.AllocationState | None = None,
        include_ended: bool | None = None,
        page_size: int | None = None,
        page_token: str | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> m.ListAllAllocationsResponse:
        """ListAllAllocations lists the allocations of all projects, newest first.

        All platform roles; action `allocation.list` on `platform`.

        project_id: Only those of this project.
        node_id: Only those on this node.
        state: Only those in this state; unspecified: all that include_ended leaves.
        include_ended: Include released and failed ones, as a filter that names `state` does.
        page_size: Default 50, at most 500.
        filter: Only those that it is true of, for example `state = failed AND create_time > 2026-11-01`. See
        "Filters and orders" of the guide for integrators. Fields: id, name, display_name, state, power,
        region_code, sku, gpu_count, capacity_shape, image, creator, lab, termination_protection, create_time,
        update_time, active_time, auto_release_time, labels, project_id, node_id.
        order_by: Fields with commas between them, each with ` desc` after it or not, for example `project_id,
        create_time desc`; default `create_time desc`. Fields: name, state, region_code, sku, gpu_count, image,
        creator, create_time, update_time, project_id.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return await self._call(t.LIST_ALL_ALLOCATIONS, {}, {"project_id": project_id, "node_id": node_id, "state": state, "include_ended": include_ended, "page_size": page_size, "page_token": page_token, "filter": filter, "order_by": order_by, "read_mask": read_mask}, None, None, timeout)

    def iter_all_allocations(
        self,
        *,
        project_id: str | None = None,
        node_id: str | None = None,
        state: m.AllocationState | None = None,
        include_ended: bool | None = None,
        page_size: int | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[m.TenantAllocation]:
        """The items of all pages of `list_all_allocations`.

        project_id: Only those of this project.
        node_id: Only those on this node.
        state: Only those in this state; unspecified: all that include_ended leaves.
        include_ended: Include released and failed ones, as a filter that names `state` does.
        page_size: Default 50, at most 500.
        filter: Only those that it is true of, for example `state = failed AND create_time > 2026-11-01`. See
        "Filters and orders" of the guide for integrators. Fields: id, name, display_name, state, power,
        region_code, sku, gpu_count, capacity_shape, image, creator, lab, termination_protection, create_time,
        update_time, active_time, auto_release_time, labels, project_id, node_id.
        order_by: Fields with commas between them, each with ` desc` after it or not, for example `project_id,
        create_time desc`; default `create_time desc`. Fields: name, state, region_code, sku, gpu_count, image,
        creator, create_time, update_time, project_id.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return self._pages(t.LIST_ALL_ALLOCATIONS, {}, {"project_id": project_id, "node_id": node_id, "state": state, "include_ended": include_ended, "page_size": page_size, "filter": filter, "order_by": order_by, "read_mask": read_mask}, "allocations", timeout)

    async def list_all_images(
        self,
        *,
        page_size: int | None = None,
        page_token: str | None = None,
        sku: str | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> m.ListImagesResponse:
        """ListAllImages lists images of every status.

        All platform roles; action `image.list_all` on `catalog`.

        sku: Only images that this SKU can run.
        filter: Only those that it is true of, for example `display_name:ubuntu`. See "Filters and orders" of the
        guide for integrators. Fields: slug, display_name, status, driver_strategy, size_bytes, create_time,
        update_time.
        order_by: Fields with commas between them, each with ` desc` after it or not, for example `create_time
        desc`; default `slug`. Fields: slug, display_name, status, create_time, update_time.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return await self._call(t.LIST_ALL_IMAGES, {}, {"page_size": page_size, "page_token": page_token, "sku": sku, "filter": filter, "order_by": order_by, "read_mask": read_mask}, None, None, timeout)

    def iter_all_images(
        self,
        *,
        page_size: int | None = None,
        sku: str | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[m.Image]:
        """The items of all pages of `list_all_images`.

        sku: Only images that this SKU can run.
        filter: Only those that it is true of, for example `display_name:ubuntu`. See "Filters and orders" of the
        guide for integrators. Fields: slug, display_name, status, driver_strategy, size_bytes, create_time,
        update_time.
        order_by: Fields with commas between them, each with ` desc` after it or not, for example `create_time
        desc`; default `slug`. Fields: slug, display_name, status, create_time, update_time.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return self._pages(t.LIST_ALL_IMAGES, {}, {"page_size": page_size, "sku": sku, "filter": filter, "order_by": order_by, "read_mask": read_mask}, "images", timeout)

    async def list_all_organisations(
        self,
        *,
        page_size: int | None = None,
        page_token: str | None = None,
        state: m.TenantState | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> m.ListAllOrganisationsResponse:
        """ListAllOrganisations lists all organisations, by slug.

        All platform roles; action `organisation.list` on `platform`.

        page_size: Default 50, at most 500.
        state: Only those in this state; unspecified: all.
        filter: Only those that it is true of, for example `slug:acme`. See "Filters and orders" of the guide for
        integrators. Fields: slug, display_name, state, create_time, update_time.
        order_by: Fields with commas between them, each with ` desc` after it or not, for example `create_time
        desc`; default `slug`. Fields: slug, display_name, state, create_time, update_time.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return await self._call(t.LIST_ALL_ORGANISATIONS, {}, {"page_size": page_size, "page_token": page_token, "state": state, "filter": filter, "order_by": order_by, "read_mask": read_mask}, None, None, timeout)

    def iter_all_organisations(
        self,
        *,
        page_size: int | None = None,
        state: m.TenantState | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[m.Organisation]:
        """The items of all pages of `list_all_organisations`.

        page_size: Default 50, at most 500.
        state: Only those in this state; unspecified: all.
        filter: Only those that it is true of, for example `slug:acme`. See "Filters and orders" of the guide for
        integrators. Fields: slug, display_name, state, create_time, update_time.
        order_by: Fields with commas between them, each with ` desc` after it or not, for example `create_time
        desc`; default `slug`. Fields: slug, display_name, state, create_time, update_time.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return self._pages(t.LIST_ALL_ORGANISATIONS, {}, {"page_size": page_size, "state": state, "filter": filter, "order_by": order_by, "read_mask": read_mask}, "organisations", timeout)

    async def list_all_reservations(
        self,
        *,
        project_id: str | None = None,
        region_code: str | None = None,
        include_ended: bool | None = None,
        page_size: int | None = None,
        page_token: str | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> m.ListAllReservationsResponse:
        """ListAllReservations lists the reservations of all projects, newest first.

        All platform roles; action `reservation.list` on `region`.

        project_id: Only this project.
        region_code: Only this region.
        include_ended: Include ended ones.
        page_size: Default 50, at most 500.
        filter: Only those that it is true of, for example `state = gathering AND gpu_count >= 8`. See "Filters and
        orders" of the guide for integrators. Fields: project_id, name, region_code, sku, gpu_count, state,
        reserved_gpus, used_gpus, unused_gpus, created_by, made_by_project, start_time, end_time, create_time,
        update_time. A filter that names the state finds ended ones, too.
        order_by: Fields with commas between them, each with ` desc` after it or not, for example `end_time`;
        default newest first. Fields: project_id, name, region_code, sku, gpu_count, state, reserved_gpus,
        used_gpus, unused_gpus, created_by, start_time, end_time, create_time, update_time.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return await self._call(t.LIST_ALL_RESERVATIONS, {}, {"project_id": project_id, "region_code": region_code, "include_ended": include_ended, "page_size": page_size, "page_token": page_token, "filter": filter, "order_by": order_by, "read_mask": read_mask}, None, None, timeout)

    def iter_all_reservations(
        self,
        *,
        project_id: str | None = None,
        region_code: str | None = None,
        include_ended: bool | None = None,
        page_size: int | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[m.CapacityReservation]:
        """The items of all pages of `list_all_reservations`.

        project_id: Only this project.
        region_code: Only this region.
        include_ended: Include ended ones.
        page_size: Default 50, at most 500.
        filter: Only those that it is true of, for example `state = gathering AND gpu_count >= 8`. See "Filters and
        orders" of the guide for integrators. Fields: project_id, name, region_code, sku, gpu_count, state,
        reserved_gpus, used_gpus, unused_gpus, created_by, made_by_project, start_time, end_time, create_time,
        update_time. A filter that names the state finds ended ones, too.
        order_by: Fields with commas between them, each with ` desc` after it or not, for example `end_time`;
        default newest first. Fields: project_id, name, region_code, sku, gpu_count, state, reserved_gpus,
        used_gpus, unused_gpus, created_by, start_time, end_time, create_time, update_time.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return self._pages(t.LIST_ALL_RESERVATIONS, {}, {"project_id": project_id, "region_code": region_code, "include_ended": include_ended, "page_size": page_size, "filter": filter, "order_by": order_by, "read_mask": read_mask}, "reservations", timeout)

    async def list_allocation_grants(
        self,
        project_id: str,
        *,
        page_size: int | None = None,
        page_token: str | None = None,
        allocation_id: str | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> m.ListAllocationGrantsResponse:
        """ListAllocationGrants lists the grants of a project that have not expired, newest first. Who has the role
        billing gets its own alone.

        Owners, members and viewers of the project; action `allocation_grant.list` on `project`.

        page_size: Default 50, at most 500.
        allocation_id: Only those of this allocation.
        filter: Only those that it is true of, for example `permission = terminal AND expire_time < 2027-01-01`. See
        "Filters and orders" of the guide for integrators. Fields: allocation_id, principal, permission, creator,
        create_time, expire_time.
        order_by: Fields with commas between them, each with ` desc` after it or not, for example `expire_time`;
        default `create_time desc`. Fields: allocation_id, principal, permission, creator, create_time, expire_time.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return await self._call(t.LIST_ALLOCATION_GRANTS, {"project_id": project_id}, {"page_size": page_size, "page_token": page_token, "allocation_id": allocation_id, "filter": filter, "order_by": order_by, "read_mask": read_mask}, None, None, timeout)

    def iter_allocation_grants(
        self,
        project_id: str,
        *,
        page_size: int | None = None,
        allocation_id: str | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[m.AllocationGrant]:
        """The items of all pages of `list_allocation_grants`.

        page_size: Default 50, at most 500.
        allocation_id: Only those of this allocation.
        filter: Only those that it is true of, for example `permission = terminal AND expire_time < 2027-01-01`. See
        "Filters and orders" of the guide for integrators. Fields: allocation_id, principal, permission, creator,
        create_time, expire_time.
        order_by: Fields with commas between them, each with ` desc` after it or not, for example `expire_time`;
        default `create_time desc`. Fields: allocation_id, principal, permission, creator, create_time, expire_time.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return self._pages(t.LIST_ALLOCATION_GRANTS, {"project_id": project_id}, {"page_size": page_size, "allocation_id": allocation_id, "filter": filter, "order_by": order_by, "read_mask": read_mask}, "grants", timeout)

    async def list_allocation_terminal_sessions(
        self,
        allocation_id: str,
        *,
        page_size: int | None = None,
        page_token: str | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> m.ListAllocationTerminalSessionsResponse:
        """ListAllocationTerminalSessions lists the sessions of an allocation of the caller's project, newest first.

        Owners and members of the project; action `terminal.list_own` on `allocation`.

        filter: Only those that it is true of, for example `principal = "user:ada" AND NOT close_time:*`. See
        "Filters and orders" of the guide for integrators. Fields: allocation_id, project_id, principal, kind,
        open_time, close_time, close_reason, recorded, recording_bytes, end_request_time.
        order_by: Fields with commas between them, each with ` desc` after it or not, for example `open_time`;
        default newest first. Fields: allocation_id, project_id, principal, kind, open_time, recording_bytes.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return await self._call(t.LIST_ALLOCATION_TERMINAL_SESSIONS, {"allocation_id": allocation_id}, {"page_size": page_size, "page_token": page_token, "filter": filter, "order_by": order_by, "read_mask": read_mask}, None, None, timeout)

    def iter_allocation_terminal_sessions(
        self,
        allocation_id: str,
        *,
        page_size: int | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[m.TerminalSession]:
        """The items of all pages of `list_allocation_terminal_sessions`.

        filter: Only those that it is true of, for example `principal = "user:ada" AND NOT close_time:*`. See
        "Filters and orders" of the guide for integrators. Fields: allocation_id, project_id, principal, kind,
        open_time, close_time, close_reason, recorded, recording_bytes, end_request_time.
        order_by: Fields with commas between them, each with ` desc` after it or not, for example `open_time`;
        default newest first. Fields: allocation_id, project_id, principal, kind, open_time, recording_bytes.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return self._pages(t.LIST_ALLOCATION_TERMINAL_SESSIONS, {"allocation_id": allocation_id}, {"page_size": page_size, "filter": filter, "order_by": order_by, "read_mask": read_mask}, "sessions", timeout)

    async def list_allocations(
        self,
        *,
        project_id: str | None = None,
        page_size: int | None = None,
        page_token: str | None = None,
        include_ended: bool | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> m.ListAllocationsResponse:
        """ListAllocations lists the project's allocations, newest first.

        Owners, members and viewers of the project; action `allocation.list` on `project`.

        page_size: Default 50, at most 500.
        include_ended: Include released and failed ones, as a filter that names `state` does.
        filter: Only those that it is true of, for example `state = active AND labels.team = "ml"`. See "Filters and
        orders" of the guide for integrators. Fields: id, name, display_name, state, power, region_code, sku,
        gpu_count, capacity_shape, image, creator, lab, termination_protection, create_time, update_time,
        active_time, auto_release_time, labels.
        order_by: Fields with commas between them, each with ` desc` after it or not, for example `sku, create_time
        desc`; default `create_time desc`. Fields: name, state, region_code, sku, gpu_count, image, creator,
        create_time, update_time.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return await self._call(t.LIST_ALLOCATIONS, {}, {"project_id": project_id, "page_size": page_size, "page_token": page_token, "include_ended": include_ended, "filter": filter, "order_by": order_by, "read_mask": read_mask}, None, None, timeout)

    def iter_allocations(
        self,
        *,
        project_id: str | None = None,
        page_size: int | None = None,
        include_ended: bool | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[m.Allocation]:
        """The items of all pages of `list_allocations`.

        page_size: Default 50, at most 500.
        include_ended: Include released and failed ones, as a filter that names `state` does.
        filter: Only those that it is true of, for example `state = active AND labels.team = "ml"`. See "Filters and
        orders" of the guide for integrators. Fields: id, name, display_name, state, power, region_code, sku,
        gpu_count, capacity_shape, image, creator, lab, termination_protection, create_time, update_time,
        active_time, auto_release_time, labels.
        order_by: Fields with commas between them, each with ` desc` after it or not, for example `sku, create_time
        desc`; default `create_time desc`. Fields: name, state, region_code, sku, gpu_count, image, creator,
        create_time, update_time.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return self._pages(t.LIST_ALLOCATIONS, {}, {"project_id": project_id, "page_size": page_size, "include_ended": include_ended, "filter": filter, "order_by": order_by, "read_mask": read_mask}, "allocations", timeout)

    async def list_api_keys(
        self,
        project_id: str,
        service_account_id: str,
        *,
        page_size: int | None = None,
        page_token: str | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> m.ListApiKeysResponse:
        """ListApiKeys lists the keys of a service account, oldest first, the disabled and expired ones too.

        Owners, members and viewers of the project; action `api_key.list` on `project`.

        page_size: Default 50, at most 500.
        filter: Only those that it is true of, for example `disabled = false AND last_used_time < 2027-01-01`. See
        "Filters and orders" of the guide for integrators. Fields: display_name, creator, disabled, create_time,
        expire_time, last_used_time.
        order_by: Fields with commas between them, each with ` desc` after it or not, for example `create_time
        desc`; default the order in which they were made. Fields: display_name, creator, create_time.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return await self._call(t.LIST_API_KEYS, {"project_id": project_id, "service_account_id": service_account_id}, {"page_size": page_size, "page_token": page_token, "filter": filter, "order_by": order_by, "read_mask": read_mask}, None, None, timeout)

    def iter_api_keys(
        self,
        project_id: str,
        service_account_id: str,
        *,
        page_size: int | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[m.ApiKey]:
        """The items of all pages of `list_api_keys`.

        page_size: Default 50, at most 500.
        filter: Only those that it is true of, for example `disabled = false AND last_used_time < 2027-01-01`. See
        "Filters and orders" of the guide for integrators. Fields: display_name, creator, disabled, create_time,
        expire_time, last_used_time.
        order_by: Fields with commas between them, each with ` desc` after it or not, for example `create_time
        desc`; default the order in which they were made. Fields: display_name, creator, create_time.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return self._pages(t.LIST_API_KEYS, {"project_id": project_id, "service_account_id": service_account_id}, {"page_size": page_size, "filter": filter, "order_by": order_by, "read_mask": read_mask}, "api_keys", timeout)

    async def list_audit_chains(
        self,
        *,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> m.ListAuditChainsResponse:
        """ListAuditChains returns where the hash chain of each source begins and ends.

        All platform roles; action `audit.list` on `audit`.

        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return await self._call(t.LIST_AUDIT_CHAINS, {}, {"read_mask": read_mask}, None, None, timeout)

    async def list_audit_records(
        self,
        *,
        principal: str | None = None,
        action: str | None = None,
        resource: str | None = None,
        resource_id: str | None = None,
        outcome: m.AuditOutcome | None = None,
        start_time: datetime | None = None,
        end_time: datetime | None = None,
        page_size: int | None = None,
        page_token: str | None = None,
        source: str | None = None,
        request_id: str | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> m.ListAuditRecordsResponse:
        """ListAuditRecords lists the records of all sources, newest first.

        All platform roles; action `audit.list` on `audit`.

        principal: Exact matches; empty ones match all.
        start_time: Records from this time on.
        end_time: Records before this time.
        source: Only records of this source.
        filter: Only those that it is true of, for example `outcome = denied AND NOT principal:scheduler`. See
        "Filters and orders" of the guide for integrators. Fields: principal, action, resource, resource_id,
        request_id, address, user_agent, region, service, outcome, create_time.
        order_by: `create_time desc` (default) or `create_time`.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return await self._call(t.LIST_AUDIT_RECORDS, {}, {"principal": principal, "action": action, "resource": resource, "resource_id": resource_id, "outcome": outcome, "start_time": start_time, "end_time": end_time, "page_size": page_size, "page_token": page_token, "source": source, "request_id": request_id, "filter": filter, "order_by": order_by, "read_mask": read_mask}, None, None, timeout)

    def iter_audit_records(
        self,
        *,
        principal: str | None = None,
        action: str | None = None,
        resource: str | None = None,
        resource_id: str | None = None,
        outcome: m.AuditOutcome | None = None,
        start_time: datetime | None = None,
        end_time: datetime | None = None,
        page_size: int | None = None,
        source: str | None = None,
        request_id: str | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[m.AuditRecord]:
        """The items of all pages of `list_audit_records`.

        principal: Exact matches; empty ones match all.
        start_time: Records from this time on.
        end_time: Records before this time.
        source: Only records of this source.
        filter: Only those that it is true of, for example `outcome = denied AND NOT principal:scheduler`. See
        "Filters and orders" of the guide for integrators. Fields: principal, action, resource, resource_id,
        request_id, address, user_agent, region, service, outcome, create_time.
        order_by: `create_time desc` (default) or `create_time`.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return self._pages(t.LIST_AUDIT_RECORDS, {}, {"principal": principal, "action": action, "resource": resource, "resource_id": resource_id, "outcome": outcome, "start_time": start_time, "end_time": end_time, "page_size": page_size, "source": source, "request_id": request_id, "filter": filter, "order_by": order_by, "read_mask": read_mask}, "records", timeout)

    async def list_availability(
        self,
        *,
        region_code: str | None = None,
        sku: str | None = None,
        project_id: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> m.ListAvailabilityResponse:
        """ListAvailability counts, per region and SKU, how many allocations of each allowed GPU count fit now.

        Every registered principal; action `availability.list` on `catalog`.

        region_code: Only this region.
        sku: Only this SKU.
        project_id: Project whose reserved capacity counts too. Optional when the caller belongs to exactly one;
        otherwise only unreserved capacity counts.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return await self._call(t.LIST_AVAILABILITY, {}, {"region_code": region_code, "sku": sku, "project_id": project_id, "read_mask": read_mask}, None, None, timeout)

    async def list_break_fixes(
        self,
        node_id: str,
        *,
        page_size: int | None = None,
        page_token: str | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> m.ListBreakFixesResponse:
        """ListBreakFixes lists the records of a node, the newest first.

        All platform roles; action `break_fix.list` on `node`.

        page_size: Default 50, at most 500.
        page_token: Of the page before.
        filter: Only those that it is true of, for example `NOT close_time:*`. See "Filters and orders" of the guide
        for integrators. Fields: slot_id, fault, opened_by, open_time, closed_by, close_time, outcome.
        order_by: Fields with commas between them, each with ` desc` after it or not, for example `open_time`;
        default newest first. Fields: opened_by, open_time.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return await self._call(t.LIST_BREAK_FIXES, {"node_id": node_id}, {"page_size": page_size, "page_token": page_token, "filter": filter, "order_by": order_by, "read_mask": read_mask}, None, None, timeout)

    def iter_break_fixes(
        self,
        node_id: str,
        *,
        page_size: int | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[m.BreakFix]:
        """The items of all pages of `list_break_fixes`.

        page_size: Default 50, at most 500.
        filter: Only those that it is true of, for example `NOT close_time:*`. See "Filters and orders" of the guide
        for integrators. Fields: slot_id, fault, opened_by, open_time, closed_by, close_time, outcome.
        order_by: Fields with commas between them, each with ` desc` after it or not, for example `open_time`;
        default newest first. Fields: opened_by, open_time.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return self._pages(t.LIST_BREAK_FIXES, {"node_id": node_id}, {"page_size": page_size, "filter": filter, "order_by": order_by, "read_mask": read_mask}, "break_fixes", timeout)

    async def list_capacity_history(
        self,
        *,
        region_code: str | None = None,
        sku: str | None = None,
        start_time: datetime | None = None,
        end_time: datetime | None = None,
        bucket_seconds: int | None = None,
        page_size: int | None = None,
        page_token: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> m.ListCapacityHistoryResponse:
        """ListCapacityHistory returns the fleet's capacity over time, oldest first. A sample is taken every minute;
        minutes in which no scheduler ran are missing.

        All platform roles; action `capacity.history` on `region`.

        region_code: One region; empty: all.
        sku: One SKU; empty: all.
        start_time: From the minute of this time on; absent: 24 hours before the end.
        end_time: Until this time, exclusive; absent: now.
        bucket_seconds: Length of a bucket in seconds, a multiple of 60 that gives at most 1500 buckets; 0: about
        288 buckets.
        page_size: Default 500, at most 500.
        page_token: It keeps the period of the first page, also where the request leaves its end to be now.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return await self._call(t.LIST_CAPACITY_HISTORY, {}, {"region_code": region_code, "sku": sku, "start_time": start_time, "end_time": end_time, "bucket_seconds": bucket_seconds, "page_size": page_size, "page_token": page_token, "read_mask": read_mask}, None, None, timeout)

    def iter_capacity_history(
        self,
        *,
        region_code: str | None = None,
        sku: str | None = None,
        start_time: datetime | None = None,
        end_time: datetime | None = None,
        bucket_seconds: int | None = None,
        page_size: int | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[m.CapacityBucket]:
        """The items of all pages of `list_capacity_history`.

        region_code: One region; empty: all.
        sku: One SKU; empty: all.
        start_time: From the minute of this time on; absent: 24 hours before the end.
        end_time: Until this time, exclusive; absent: now.
        bucket_seconds: Length of a bucket in seconds, a multiple of 60 that gives at most 1500 buckets; 0: about
        288 buckets.
        page_size: Default 500, at most 500.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return self._pages(t.LIST_CAPACITY_HISTORY, {}, {"region_code": region_code, "sku": sku, "start_time": start_time, "end_time": end_time, "bucket_seconds": bucket_seconds, "page_size": page_size, "read_mask": read_mask}, "buckets", timeout)

    async def list_capacity_reservations(
        self,
        *,
        project_id: str | None = None,
        include_ended: bool | None = None,
        page_size: int | None = None,
        page_token: str | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> m.ListCapacityReservationsResponse:
        """ListCapacityReservations lists the reservations of a project, newest first.

        Owners, members and viewers of the project; action `reservation.list` on `project`.

        project_id: Optional when the caller belongs to exactly one.
        include_ended: Include ended ones.
        page_size: Default 50, at most 500.
        filter: Only those that it is true of, for example `state = gathering AND gpu_count >= 8`. See "Filters and
        orders" of the guide for integrators. Fields: project_id, name, region_code, sku, gpu_count, state,
        reserved_gpus, used_gpus, unused_gpus, created_by, made_by_project, start_time, end_time, create_time,
        update_time. A filter that names the state finds ended ones, too.
        order_by: Fields with commas between them, each with ` desc` after it or not, for example `end_time`;
        default newest first. Fields: project_id, name, region_code, sku, gpu_count, state, reserved_gpus,
        used_gpus, unused_gpus, created_by, start_time, end_time, create_time, update_time.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return await self._call(t.LIST_CAPACITY_RESERVATIONS, {}, {"project_id": project_id, "include_ended": include_ended, "page_size": page_size, "page_token": page_token, "filter": filter, "order_by": order_by, "read_mask": read_mask}, None, None, timeout)

    def iter_capacity_reservations(
        self,
        *,
        project_id: str | None = None,
        include_ended: bool | None = None,
        page_size: int | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[m.CapacityReservation]:
        """The items of all pages of `list_capacity_reservations`.

        project_id: Optional when the caller belongs to exactly one.
        include_ended: Include ended ones.
        page_size: Default 50, at most 500.
        filter: Only those that it is true of, for example `state = gathering AND gpu_count >= 8`. See "Filters and
        orders" of the guide for integrators. Fields: project_id, name, region_code, sku, gpu_count, state,
        reserved_gpus, used_gpus, unused_gpus, created_by, made_by_project, start_time, end_time, create_time,
        update_time. A filter that names the state finds ended ones, too.
        order_by: Fields with commas between them, each with ` desc` after it or not, for example `end_time`;
        default newest first. Fields: project_id, name, region_code, sku, gpu_count, state, reserved_gpus,
        used_gpus, unused_gpus, created_by, start_time, end_time, create_time, update_time.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return self._pages(t.LIST_CAPACITY_RESERVATIONS, {}, {"project_id": project_id, "include_ended": include_ended, "page_size": page_size, "filter": filter, "order_by": order_by, "read_mask": read_mask}, "reservations", timeout)

    async def list_fleet_nodes(
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
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> m.ListFleetNodesResponse:
        """ListFleetNodes lists the nodes that hosts have enrolled for, by host name.

        All platform roles; action `fleet.list` on `region`.

        region_code: One region; empty: all.
        rack: One rack; empty: all.
        hardware_type: One hardware type; empty: all.
        health: Nodes with this health; unspecified: all.
        project_id: Nodes on which this project has an allocation.
        reservation_id: Nodes on which this capacity reservation holds a GPU.
        in_use: Only nodes with allocations, or only nodes without; absent: both.
        filter: Only those that it is true of, for example `health = failed OR admin_state = cordoned`. See "Filters
        and orders" of the guide for integrators. Fields: hostname, region_code, rack, hardware_type, mode,
        admin_state, health, reason.
        order_by: Fields with commas between them, each with ` desc` after it or not, for example `rack, hostname`;
        default by host name. Fields: hostname, region_code, rack, hardware_type, mode, admin_state.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return await self._call(t.LIST_FLEET_NODES, {}, {"page_size": page_size, "page_token": page_token, "region_code": region_code, "rack": rack, "hardware_type": hardware_type, "health": health, "project_id": project_id, "reservation_id": reservation_id, "in_use": in_use, "filter": filter, "order_by": order_by, "read_mask": read_mask}, None, None, timeout)

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
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[m.FleetNode]:
        """The items of all pages of `list_fleet_nodes`.

        region_code: One region; empty: all.
        rack: One rack; empty: all.
        hardware_type: One hardware type; empty: all.
        health: Nodes with this health; unspecified: all.
        project_id: Nodes on which this project has an allocation.
        reservation_id: Nodes on which this capacity reservation holds a GPU.
        in_use: Only nodes with allocations, or only nodes without; absent: both.
        filter: Only those that it is true of, for example `health = failed OR admin_state = cordoned`. See "Filters
        and orders" of the guide for integrators. Fields: hostname, region_code, rack, hardware_type, mode,
        admin_state, health, reason.
        order_by: Fields with commas between them, each with ` desc` after it or not, for example `rack, hostname`;
        default by host name. Fields: hostname, region_code, rack, hardware_type, mode, admin_state.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return self._pages(t.LIST_FLEET_NODES, {}, {"page_size": page_size, "region_code": region_code, "rack": rack, "hardware_type": hardware_type, "health": health, "project_id": project_id, "reservation_id": reservation_id, "in_use": in_use, "filter": filter, "order_by": order_by, "read_mask": read_mask}, "nodes", timeout)

    async def list_health_events(
        self,
        *,
        project_id: str | None = None,
        allocation_id: str | None = None,
        page_size: int | None = None,
        page_token: str | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> m.ListHealthEventsResponse:
        """ListHealthEvents lists the times in which GPUs of a project's allocations were not healthy, newest first. An
        event begins no earlier and ends no later than the allocation had the GPUs.

        Owners, members and viewers of the project; action `health.list` on `project`.

        project_id: Empty: the caller's only project.
        allocation_id: One allocation of it; empty: all.
        filter: Only those that it is true of, for example `health = failed AND NOT end_time:*`. See "Filters and
        orders" of the guide for integrators. Fields: allocation_id, gpu_count, health, break_fix, start_time,
        end_time.
        order_by: Fields with commas between them, each with ` desc` after it or not, for example `gpu_count desc`;
        default newest first. Fields: allocation_id, gpu_count, start_time.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return await self._call(t.LIST_HEALTH_EVENTS, {}, {"project_id": project_id, "allocation_id": allocation_id, "page_size": page_size, "page_token": page_token, "filter": filter, "order_by": order_by, "read_mask": read_mask}, None, None, timeout)

    def iter_health_events(
        self,
        *,
        project_id: str | None = None,
        allocation_id: str | None = None,
        page_size: int | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[m.HealthEvent]:
        """The items of all pages of `list_health_events`.

        project_id: Empty: the caller's only project.
        allocation_id: One allocation of it; empty: all.
        filter: Only those that it is true of, for example `health = failed AND NOT end_time:*`. See "Filters and
        orders" of the guide for integrators. Fields: allocation_id, gpu_count, health, break_fix, start_time,
        end_time.
        order_by: Fields with commas between them, each with ` desc` after it or not, for example `gpu_count desc`;
        default newest first. Fields: allocation_id, gpu_count, start_time.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return self._pages(t.LIST_HEALTH_EVENTS, {}, {"project_id": project_id, "allocation_id": allocation_id, "page_size": page_size, "filter": filter, "order_by": order_by, "read_mask": read_mask}, "events", timeout)

    async def list_host_reports(
        self,
        node_id: str,
        *,
        page_size: int | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        page_token: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> m.ListHostReportsResponse:
        """ListHostReports lists the reports that are attached to a node, the newest first unless order_by says
        otherwise.

        All platform roles; action `node.get` on `node`.

        page_size: Default 1, the first of the order; at most 10, which are all that a node has.
        filter: Only those that it is true of, for example `failed_checks > 0 AND attach_time > 2027-01-01`. See
        "Filters and orders" of the guide for integrators. Fields: id, kind, agent_version, time, failed_checks,
        blocked, principal, attach_time.
        order_by: Fields with commas between them, each with ` desc` after it or not, for example `time`; default
        `attach_time desc`. Fields: kind, agent_version, time, failed_checks, principal, attach_time.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return await self._call(t.LIST_HOST_REPORTS, {"node_id": node_id}, {"page_size": page_size, "filter": filter, "order_by": order_by, "page_token": page_token, "read_mask": read_mask}, None, None, timeout)

    def iter_host_reports(
        self,
        node_id: str,
        *,
        page_size: int | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[m.AttachedHostReport]:
        """The items of all pages of `list_host_reports`.

        page_size: Default 1, the first of the order; at most 10, which are all that a node has.
        filter: Only those that it is true of, for example `failed_checks > 0 AND attach_time > 2027-01-01`. See
        "Filters and orders" of the guide for integrators. Fields: id, kind, agent_version, time, failed_checks,
        blocked, principal, attach_time.
        order_by: Fields with commas between them, each with ` desc` after it or not, for example `time`; default
        `attach_time desc`. Fields: kind, agent_version, time, failed_checks, principal, attach_time.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return self._pages(t.LIST_HOST_REPORTS, {"node_id": node_id}, {"page_size": page_size, "filter": filter, "order_by": order_by, "read_mask": read_mask}, "reports", timeout)

    async def list_images(
        self,
        *,
        page_size: int | None = None,
        page_token: str | None = None,
        sku: str | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> m.ListImagesResponse:
        """ListImages lists active images by slug.

        Every registered principal; action `image.list` on `catalog`.

        sku: Only images that this SKU can run.
        filter: Only those that it is true of, for example `display_name:ubuntu`. See "Filters and orders" of the
        guide for integrators. Fields: slug, display_name, status, driver_strategy, size_bytes, create_time,
        update_time.
        order_by: Fields with commas between them, each with ` desc` after it or not, for example `create_time
        desc`; default `slug`. Fields: slug, display_name, status, create_time, update_time.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return await self._call(t.LIST_IMAGES, {}, {"page_size": page_size, "page_token": page_token, "sku": sku, "filter": filter, "order_by": order_by, "read_mask": read_mask}, None, None, timeout)

    def iter_images(
        self,
        *,
        page_size: int | None = None,
        sku: str | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[m.Image]:
        """The items of all pages of `list_images`.

        sku: Only images that this SKU can run.
        filter: Only those that it is true of, for example `display_name:ubuntu`. See "Filters and orders" of the
        guide for integrators. Fields: slug, display_name, status, driver_strategy, size_bytes, create_time,
        update_time.
        order_by: Fields with commas between them, each with ` desc` after it or not, for example `create_time
        desc`; default `slug`. Fields: slug, display_name, status, create_time, update_time.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return self._pages(t.LIST_IMAGES, {}, {"page_size": page_size, "sku": sku, "filter": filter, "order_by": order_by, "read_mask": read_mask}, "images", timeout)

    async def list_ingress_mappings(
        self,
        allocation_id: str,
        *,
        filter: str | None = None,
        order_by: str | None = None,
        page_size: int | None = None,
        page_token: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> m.ListIngressMappingsResponse:
        """ListIngressMappings lists the ingress mappings of an allocation, oldest first.

        Owners, members and viewers of the project; action `ingress_mapping.list` on `allocation`.

        filter: Only those that it is true of, for example `state = active AND protocol = tcp`. See "Filters and
        orders" of the guide for integrators. Fields: protocol, vm_port, external_address, external_port, state,
        failure, creator, expire_time, create_time, update_time.
        order_by: Fields with commas between them, each with ` desc` after it or not, for example `vm_port`; default
        oldest first. Fields: protocol, vm_port, external_port, state, creator, create_time, update_time.
        page_size: Default 50, at most 500.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return await self._call(t.LIST_INGRESS_MAPPINGS, {"allocation_id": allocation_id}, {"filter": filter, "order_by": order_by, "page_size": page_size, "page_token": page_token, "read_mask": read_mask}, None, None, timeout)

    def iter_ingress_mappings(
        self,
        allocation_id: str,
        *,
        filter: str | None = None,
        order_by: str | None = None,
        page_size: int | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[m.IngressMapping]:
        """The items of all pages of `list_ingress_mappings`.

        filter: Only those that it is true of, for example `state = active AND protocol = tcp`. See "Filters and
        orders" of the guide for integrators. Fields: protocol, vm_port, external_address, external_port, state,
        failure, creator, expire_time, create_time, update_time.
        order_by: Fields with commas between them, each with ` desc` after it or not, for example `vm_port`; default
        oldest first. Fields: protocol, vm_port, external_port, state, creator, create_time, update_time.
        page_size: Default 50, at most 500.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return self._pages(t.LIST_INGRESS_MAPPINGS, {"allocation_id": allocation_id}, {"filter": filter, "order_by": order_by, "page_size": page_size, "read_mask": read_mask}, "ingress_mappings", timeout)

    async def list_node_findings(
        self,
        node_id: str,
        *,
        include_resolved: bool | None = None,
        page_size: int | None = None,
        page_token: str | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> m.ListNodeFindingsResponse:
        """ListNodeFindings lists the findings of a node, the latest first.

        All platform roles; action `finding.list` on `node`.

        include_resolved: Resolved ones too.
        page_size: Default 50, at most 500.
        page_token: Of the page before.
        filter: Only those that it is true of, for example `severity = critical AND source = dcgm`. See "Filters and
        orders" of the guide for integrators. Fields: slot_id, source, code, device, severity, message, reported_by,
        first_time, last_time, count, resolved_by, resolve_time, resolution.
        order_by: Fields with commas between them, each with ` desc` after it or not, for example `count desc`;
        default the latest first. Fields: source, code, device, reported_by, first_time, last_time, count.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return await self._call(t.LIST_NODE_FINDINGS, {"node_id": node_id}, {"include_resolved": include_resolved, "page_size": page_size, "page_token": page_token, "filter": filter, "order_by": order_by, "read_mask": read_mask}, None, None, timeout)

    def iter_node_findings(
        self,
        node_id: str,
        *,
        include_resolved: bool | None = None,
        page_size: int | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[m.NodeFinding]:
        """The items of all pages of `list_node_findings`.

        include_resolved: Resolved ones too.
        page_size: Default 50, at most 500.
        filter: Only those that it is true of, for example `severity = critical AND source = dcgm`. See "Filters and
        orders" of the guide for integrators. Fields: slot_id, source, code, device, severity, message, reported_by,
        first_time, last_time, count, resolved_by, resolve_time, resolution.
        order_by: Fields with commas between them, each with ` desc` after it or not, for example `count desc`;
        default the latest first. Fields: source, code, device, reported_by, first_time, last_time, count.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return self._pages(t.LIST_NODE_FINDINGS, {"node_id": node_id}, {"include_resolved": include_resolved, "page_size": page_size, "filter": filter, "order_by": order_by, "read_mask": read_mask}, "findings", timeout)

    async def list_node_history(
        self,
        node_id: str,
        *,
        page_size: int | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        page_token: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> m.ListNodeHistoryResponse:
        """ListNodeHistory lists what became of a node, the newest first.

        All platform roles; action `node.get` on `node`.

        page_size: Default 50, at most 500.
        filter: Only those that it is true of, for example `state = broken AND time > 2027-01-01`. See "Filters and
        orders" of the guide for integrators. Fields: time, state, reason, principal.
        order_by: `time desc` (default) or `time`.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return await self._call(t.LIST_NODE_HISTORY, {"node_id": node_id}, {"page_size": page_size, "filter": filter, "order_by": order_by, "page_token": page_token, "read_mask": read_mask}, None, None, timeout)

    def iter_node_history(
        self,
        node_id: str,
        *,
        page_size: int | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[m.NodeHistoryEntry]:
        """The items of all pages of `list_node_history`.

        page_size: Default 50, at most 500.
        filter: Only those that it is true of, for example `state = broken AND time > 2027-01-01`. See "Filters and
        orders" of the guide for integrators. Fields: time, state, reason, principal.
        order_by: `time desc` (default) or `time`.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return self._pages(t.LIST_NODE_HISTORY, {"node_id": node_id}, {"page_size": page_size, "filter": filter, "order_by": order_by, "read_mask": read_mask}, "entries", timeout)

    async def list_node_image_cache(
        self,
        node_id: str,
        *,
        page_size: int | None = None,
        page_token: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> m.ListNodeImageCacheResponse:
        """ListNodeImageCache lists the cached images of nodes (E-03, E-04).

        All platform roles; action `image.cache_list` on `node`.

        page_size: Default 50, at most 500.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return await self._call(t.LIST_NODE_IMAGE_CACHE, {"node_id": node_id}, {"page_size": page_size, "page_token": page_token, "read_mask": read_mask}, None, None, timeout)

    def iter_node_image_cache(
        self,
        node_id: str,
        *,
        page_size: int | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[m.NodeImage]:
        """The items of all pages of `list_node_image_cache`.

        page_size: Default 50, at most 500.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return self._pages(t.LIST_NODE_IMAGE_CACHE, {"node_id": node_id}, {"page_size": page_size, "read_mask": read_mask}, "images", timeout)

    async def list_node_placements(
        self,
        *,
        region_code: str | None = None,
        page_size: int | None = None,
        page_token: str | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> m.ListNodePlacementsResponse:
        """ListNodePlacements lists the ledger's nodes by id.

        All platform roles; action `node.list` on `region`.

        region_code: Only this region.
        page_size: Default 50, at most 500.
        filter: Only those that it is true of, for example `admin_state = draining AND live_claims > 0`. See
        "Filters and orders" of the guide for integrators. Fields: hostname, region_code, mode, admin_state,
        admin_reason, admin_principal, admin_time, schedulable, not_schedulable_reason, live_claims,
        live_allocations, available_slots.
        order_by: Fields with commas between them, each with ` desc` after it or not, for example `available_slots
        desc`; default the order in which they were enrolled. Fields: hostname, region_code, mode, admin_state,
        live_claims, live_allocations, available_slots.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return await self._call(t.LIST_NODE_PLACEMENTS, {}, {"region_code": region_code, "page_size": page_size, "page_token": page_token, "filter": filter, "order_by": order_by, "read_mask": read_mask}, None, None, timeout)

    def iter_node_placements(
        self,
        *,
        region_code: str | None = None,
        page_size: int | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[m.NodePlacement]:
        """The items of all pages of `list_node_placements`.

        region_code: Only this region.
        page_size: Default 50, at most 500.
        filter: Only those that it is true of, for example `admin_state = draining AND live_claims > 0`. See
        "Filters and orders" of the guide for integrators. Fields: hostname, region_code, mode, admin_state,
        admin_reason, admin_principal, admin_time, schedulable, not_schedulable_reason, live_claims,
        live_allocations, available_slots.
        order_by: Fields with commas between them, each with ` desc` after it or not, for example `available_slots
        desc`; default the order in which they were enrolled. Fields: hostname, region_code, mode, admin_state,
        live_claims, live_allocations, available_slots.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return self._pages(t.LIST_NODE_PLACEMENTS, {}, {"region_code": region_code, "page_size": page_size, "filter": filter, "order_by": order_by, "read_mask": read_mask}, "nodes", timeout)

    async def list_nodes(
        self,
        *,
        page_size: int | None = None,
        page_token: str | None = None,
        include_retired: bool | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> m.ListNodesResponse:
        """ListNodes lists nodes by hostname.

        All platform roles; action `node.list` on `region`.

        include_retired: Retired ones too.
        filter: Only those that it is true of, for example `state = lost AND labels.row = "7"`. See "Filters and
        orders" of the guide for integrators. Fields: id, hostname, region_code, mode, rack, state,
        max_vms_per_node, hypervisor, lab, host_profile, agent_version, last_heartbeat_time, create_time,
        update_time, labels.
        order_by: Fields with commas between them, each with ` desc` after it or not, for example `rack, hostname`;
        default `hostname`. Fields: hostname, region_code, mode, rack, state, create_time, update_time.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return await self._call(t.LIST_NODES, {}, {"page_size": page_size, "page_token": page_token, "include_retired": include_retired, "filter": filter, "order_by": order_by, "read_mask": read_mask}, None, None, timeout)

    def iter_nodes(
        self,
        *,
        page_size: int | None = None,
        include_retired: bool | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[m.Node]:
        """The items of all pages of `list_nodes`.

        include_retired: Retired ones too.
        filter: Only those that it is true of, for example `state = lost AND labels.row = "7"`. See "Filters and
        orders" of the guide for integrators. Fields: id, hostname, region_code, mode, rack, state,
        max_vms_per_node, hypervisor, lab, host_profile, agent_version, last_heartbeat_time, create_time,
        update_time, labels.
        order_by: Fields with commas between them, each with ` desc` after it or not, for example `rack, hostname`;
        default `hostname`. Fields: hostname, region_code, mode, rack, state, create_time, update_time.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return self._pages(t.LIST_NODES, {}, {"page_size": page_size, "include_retired": include_retired, "filter": filter, "order_by": order_by, "read_mask": read_mask}, "nodes", timeout)

    async def list_organisation_invitations(
        self,
        organisation_id: str,
        *,
        page_size: int | None = None,
        page_token: str | None = None,
        state: m.InvitationState | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> m.ListOrganisationInvitationsResponse:
        """ListOrganisationInvitations lists the invitations into an organisation, newest first.

        Members of the organisation; action `organisation_invitation.list` on `organisation`.

        page_size: Default 50, at most 500.
        state: Only those in this state; unspecified: all.
        filter: Only those that it is true of, for example `state = pending AND expire_time < 2027-01-01`. See
        "Filters and orders" of the guide for integrators. Fields: email, role, state, inviter, accepted_by,
        create_time, expire_time, accept_time.
        order_by: Fields with commas between them, each with ` desc` after it or not, for example `email`; default
        `create_time desc`. Fields: email, role, inviter, create_time, expire_time.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return await self._call(t.LIST_ORGANISATION_INVITATIONS, {"organisation_id": organisation_id}, {"page_size": page_size, "page_token": page_token, "state": state, "filter": filter, "order_by": order_by, "read_mask": read_mask}, None, None, timeout)

    def iter_organisation_invitations(
        self,
        organisation_id: str,
        *,
        page_size: int | None = None,
        state: m.InvitationState | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[m.Invitation]:
        """The items of all pages of `list_organisation_invitations`.

        page_size: Default 50, at most 500.
        state: Only those in this state; unspecified: all.
        filter: Only those that it is true of, for example `state = pending AND expire_time < 2027-01-01`. See
        "Filters and orders" of the guide for integrators. Fields: email, role, state, inviter, accepted_by,
        create_time, expire_time, accept_time.
        order_by: Fields with commas between them, each with ` desc` after it or not, for example `email`; default
        `create_time desc`. Fields: email, role, inviter, create_time, expire_time.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return self._pages(t.LIST_ORGANISATION_INVITATIONS, {"organisation_id": organisation_id}, {"page_size": page_size, "state": state, "filter": filter, "order_by": order_by, "read_mask": read_mask}, "invitations", timeout)

    async def list_organisation_members(
        self,
        organisation_id: str,
        *,
        page_size: int | None = None,
        page_token: str | None = None,
        principal: str | None = None,
        role: m.MemberRole | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> m.ListOrganisationMembersResponse:
        """ListOrganisationMembers lists the members of an organisation, in the order of their registration.

        Members of the organisation; action `organisation_member.list` on `organisation`.

        page_size: Default 50, at most 500.
        principal: Only this one, for example "user:alice".
        role: Only those with this role; unspecified: all.
        filter: Only those that it is true of, for example `role = owner AND NOT disabled = true`. See "Filters and
        orders" of the guide for integrators. Fields: principal, display_name, email, kind, role, disabled,
        create_time, update_time.
        order_by: Fields with commas between them, each with ` desc` after it or not, for example `role, create_time
        desc`; default the order in which the members were registered. Fields: principal, display_name, role,
        create_time, update_time.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return await self._call(t.LIST_ORGANISATION_MEMBERS, {"organisation_id": organisation_id}, {"page_size": page_size, "page_token": page_token, "principal": principal, "role": role, "filter": filter, "order_by": order_by, "read_mask": read_mask}, None, None, timeout)

    def iter_organisation_members(
        self,
        organisation_id: str,
        *,
        page_size: int | None = None,
        principal: str | None = None,
        role: m.MemberRole | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[m.Member]:
        """The items of all pages of `list_organisation_members`.

        page_size: Default 50, at most 500.
        principal: Only this one, for example "user:alice".
        role: Only those with this role; unspecified: all.
        filter: Only those that it is true of, for example `role = owner AND NOT disabled = true`. See "Filters and
        orders" of the guide for integrators. Fields: principal, display_name, email, kind, role, disabled,
        create_time, update_time.
        order_by: Fields with commas between them, each with ` desc` after it or not, for example `role, create_time
        desc`; default the order in which the members were registered. Fields: principal, display_name, role,
        create_time, update_time.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return self._pages(t.LIST_ORGANISATION_MEMBERS, {"organisation_id": organisation_id}, {"page_size": page_size, "principal": principal, "role": role, "filter": filter, "order_by": order_by, "read_mask": read_mask}, "members", timeout)

    async def list_organisation_webhooks(
        self,
        organisation_id: str,
        *,
        page_size: int | None = None,
        page_token: str | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> m.ListOrganisationWebhooksResponse:
        """ListOrganisationWebhooks lists the webhooks of an organisation, oldest first, those of its projects not.

        Members of the organisation; action `organisation_webhook.list` on `organisation`.

        page_size: Default 50, at most 500.
        filter: Only those that it is true of, for example `state = disabled OR failing_time:*`. See "Filters and
        orders" of the guide for integrators. Fields: url, description, state, creator, create_time, update_time,
        disable_time, failing_time.
        order_by: Fields with commas between them, each with ` desc` after it or not, for example `url`; default the
        order in which they were made. Fields: url, state, creator, create_time, update_time.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return await self._call(t.LIST_ORGANISATION_WEBHOOKS, {"organisation_id": organisation_id}, {"page_size": page_size, "page_token": page_token, "filter": filter, "order_by": order_by, "read_mask": read_mask}, None, None, timeout)

    def iter_organisation_webhooks(
        self,
        organisation_id: str,
        *,
        page_size: int | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[m.Webhook]:
        """The items of all pages of `list_organisation_webhooks`.

        page_size: Default 50, at most 500.
        filter: Only those that it is true of, for example `state = disabled OR failing_time:*`. See "Filters and
        orders" of the guide for integrators. Fields: url, description, state, creator, create_time, update_time,
        disable_time, failing_time.
        order_by: Fields with commas between them, each with ` desc` after it or not, for example `url`; default the
        order in which they were made. Fields: url, state, creator, create_time, update_time.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return self._pages(t.LIST_ORGANISATION_WEBHOOKS, {"organisation_id": organisation_id}, {"page_size": page_size, "filter": filter, "order_by": order_by, "read_mask": read_mask}, "webhooks", timeout)

    async def list_organisations(
        self,
        *,
        page_size: int | None = None,
        page_token: str | None = None,
        state: m.TenantState | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> m.ListOrganisationsResponse:
        """ListOrganisations lists the organisations that the caller is a member of, or has a project in, by slug.

        Members of the organisation; action `organisation.list` on `organisation`.

        page_size: Default 50, at most 500.
        state: Only those in this state; unspecified: all.
        filter: Only those that it is true of, for example `slug:acme`. See "Filters and orders" of the guide for
        integrators. Fields: slug, display_name, state, create_time, update_time.
        order_by: Fields with commas between them, each with ` desc` after it or not, for example `create_time
        desc`; default `slug`. Fields: slug, display_name, state, create_time, update_time.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return await self._call(t.LIST_ORGANISATIONS, {}, {"page_size": page_size, "page_token": page_token, "state": state, "filter": filter, "order_by": order_by, "read_mask": read_mask}, None, None, timeout)

    def iter_organisations(
        self,
        *,
        page_size: int | None = None,
        state: m.TenantState | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[m.Organisation]:
        """The items of all pages of `list_organisations`.

        page_size: Default 50, at most 500.
        state: Only those in this state; unspecified: all.
        filter: Only those that it is true of, for example `slug:acme`. See "Filters and orders" of the guide for
        integrators. Fields: slug, display_name, state, create_time, update_time.
        order_by: Fields with commas between them, each with ` desc` after it or not, for example `create_time
        desc`; default `slug`. Fields: slug, display_name, state, create_time, update_time.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return self._pages(t.LIST_ORGANISATIONS, {}, {"page_size": page_size, "state": state, "filter": filter, "order_by": order_by, "read_mask": read_mask}, "organisations", timeout)

    async def list_price_versions(
        self,
        *,
        sku: str | None = None,
        page_size: int | None = None,
        page_token: str | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> m.ListPriceVersionsResponse:
        """ListPriceVersions lists all prices ever published, newest first.

        All platform roles; action `price.list` on `catalog`.

        sku: Only those of this SKU.
        page_size: Default 50, at most 500.
        filter: Only those that it is true of, for example `currency = EUR AND effective_time >= 2027-01-01`. See
        "Filters and orders" of the guide for integrators. Fields: sku, currency, effective_time.
        order_by: Fields with commas between them, each with ` desc` after it or not, for example `sku,
        effective_time desc`; default `effective_time desc`. Fields: sku, currency, effective_time.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return await self._call(t.LIST_PRICE_VERSIONS, {}, {"sku": sku, "page_size": page_size, "page_token": page_token, "filter": filter, "order_by": order_by, "read_mask": read_mask}, None, None, timeout)

    def iter_price_versions(
        self,
        *,
        sku: str | None = None,
        page_size: int | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[m.PriceVersion]:
        """The items of all pages of `list_price_versions`.

        sku: Only those of this SKU.
        page_size: Default 50, at most 500.
        filter: Only those that it is true of, for example `currency = EUR AND effective_time >= 2027-01-01`. See
        "Filters and orders" of the guide for integrators. Fields: sku, currency, effective_time.
        order_by: Fields with commas between them, each with ` desc` after it or not, for example `sku,
        effective_time desc`; default `effective_time desc`. Fields: sku, currency, effective_time.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return self._pages(t.LIST_PRICE_VERSIONS, {}, {"sku": sku, "page_size": page_size, "filter": filter, "order_by": order_by, "read_mask": read_mask}, "price_versions", timeout)

    async def list_principals(
        self,
        *,
        page_size: int | None = None,
        page_token: str | None = None,
        name: str | None = None,
        kind: m.PrincipalKind | None = None,
        platform_role: m.PlatformRole | None = None,
        disabled: bool | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> m.ListPrincipalsResponse:
        """ListPrincipals lists all principals, in the order of their registration.

        All platform roles; action `principal.list` on `platform`.

        page_size: Default 50, at most 500.
        name: Only this one, for example "user:alice".
        kind: Only these; unspecified: all.
        platform_role: Only those with this role; unspecified: all.
        disabled: Only those that are disabled, or only those that are not; absent: all.
        filter: Only those that it is true of, for example `kind = user AND email:example.com`. See "Filters and
        orders" of the guide for integrators. Fields: name, display_name, email, kind, platform_role, issuer,
        subject, disabled, create_time, update_time.
        order_by: Fields with commas between them, each with ` desc` after it or not, for example `name`; default
        the order in which they were registered. Fields: name, display_name, create_time, update_time.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return await self._call(t.LIST_PRINCIPALS, {}, {"page_size": page_size, "page_token": page_token, "name": name, "kind": kind, "platform_role": platform_role, "disabled": disabled, "filter": filter, "order_by": order_by, "read_mask": read_mask}, None, None, timeout)

    def iter_principals(
        self,
        *,
        page_size: int | None = None,
        name: str | None = None,
        kind: m.PrincipalKind | None = None,
        platform_role: m.PlatformRole | None = None,
        disabled: bool | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[m.Principal]:
        """The items of all pages of `list_principals`.

        page_size: Default 50, at most 500.
        name: Only this one, for example "user:alice".
        kind: Only these; unspecified: all.
        platform_role: Only those with this role; unspecified: all.
        disabled: Only those that are disabled, or only those that are not; absent: all.
        filter: Only those that it is true of, for example `kind = user AND email:example.com`. See "Filters and
        orders" of the guide for integrators. Fields: name, display_name, email, kind, platform_role, issuer,
        subject, disabled, create_time, update_time.
        order_by: Fields with commas between them, each with ` desc` after it or not, for example `name`; default
        the order in which they were registered. Fields: name, display_name, create_time, update_time.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return self._pages(t.LIST_PRINCIPALS, {}, {"page_size": page_size, "name": name, "kind": kind, "platform_role": platform_role, "disabled": disabled, "filter": filter, "order_by": order_by, "read_mask": read_mask}, "principals", timeout)

    async def list_project_invitations(
        self,
        project_id: str,
        *,
        page_size: int | None = None,
        page_token: str | None = None,
        state: m.InvitationState | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> m.ListProjectInvitationsResponse:
        """ListProjectInvitations lists the invitations into a project, newest first.

        Owners, members and viewers of the project; action `invitation.list` on `project`.

        page_size: Default 50, at most 500.
        state: Only those in this state; unspecified: all.
        filter: Only those that it is true of, for example `state = pending AND expire_time < 2027-01-01`. See
        "Filters and orders" of the guide for integrators. Fields: email, role, state, inviter, accepted_by,
        create_time, expire_time, accept_time.
        order_by: Fields with commas between them, each with ` desc` after it or not, for example `email`; default
        `create_time desc`. Fields: email, role, inviter, create_time, expire_time.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return await self._call(t.LIST_PROJECT_INVITATIONS, {"project_id": project_id}, {"page_size": page_size, "page_token": page_token, "state": state, "filter": filter, "order_by": order_by, "read_mask": read_mask}, None, None, timeout)

    def iter_project_invitations(
        self,
        project_id: str,
        *,
        page_size: int | None = None,
        state: m.InvitationState | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[m.Invitation]:
        """The items of all pages of `list_project_invitations`.

        page_size: Default 50, at most 500.
        state: Only those in this state; unspecified: all.
        filter: Only those that it is true of, for example `state = pending AND expire_time < 2027-01-01`. See
        "Filters and orders" of the guide for integrators. Fields: email, role, state, inviter, accepted_by,
        create_time, expire_time, accept_time.
        order_by: Fields with commas between them, each with ` desc` after it or not, for example `email`; default
        `create_time desc`. Fields: email, role, inviter, create_time, expire_time.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return self._pages(t.LIST_PROJECT_INVITATIONS, {"project_id": project_id}, {"page_size": page_size, "state": state, "filter": filter, "order_by": order_by, "read_mask": read_mask}, "invitations", timeout)

    async def list_project_members(
        self,
        project_id: str,
        *,
        page_size: int | None = None,
        page_token: str | None = None,
        principal: str | None = None,
        role: m.MemberRole | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> m.ListProjectMembersResponse:
        """ListProjectMembers lists the members of a project, in the order of their registration.

        Owners, members and viewers of the project; action `project_member.list` on `project`.

        page_size: Default 50, at most 500.
        principal: Only this one, for example "user:alice".
        role: Only those with this role; unspecified: all.
        filter: Only those that it is true of, for example `role = owner AND NOT disabled = true`. See "Filters and
        orders" of the guide for integrators. Fields: principal, display_name, email, kind, role, disabled,
        create_time, update_time.
        order_by: Fields with commas between them, each with ` desc` after it or not, for example `role, create_time
        desc`; default the order in which the members were registered. Fields: principal, display_name, role,
        create_time, update_time.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return await self._call(t.LIST_PROJECT_MEMBERS, {"project_id": project_id}, {"page_size": page_size, "page_token": page_token, "principal": principal, "role": role, "filter": filter, "order_by": order_by, "read_mask": read_mask}, None, None, timeout)

    def iter_project_members(
        self,
        project_id: str,
        *,
        page_size: int | None = None,
        principal: str | None = None,
        role: m.MemberRole | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[m.Member]:
        """The items of all pages of `list_project_members`.

        page_size: Default 50, at most 500.
        principal: Only this one, for example "user:alice".
        role: Only those with this role; unspecified: all.
        filter: Only those that it is true of, for example `role = owner AND NOT disabled = true`. See "Filters and
        orders" of the guide for integrators. Fields: principal, display_name, email, kind, role, disabled,
        create_time, update_time.
        order_by: Fields with commas between them, each with ` desc` after it or not, for example `role, create_time
        desc`; default the order in which the members were registered. Fields: principal, display_name, role,
        create_time, update_time.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return self._pages(t.LIST_PROJECT_MEMBERS, {"project_id": project_id}, {"page_size": page_size, "principal": principal, "role": role, "filter": filter, "order_by": order_by, "read_mask": read_mask}, "members", timeout)

    async def list_project_ssh_keys(
        self,
        project_id: str,
        *,
        page_size: int | None = None,
        page_token: str | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> m.ListProjectSshKeysResponse:
        """ListProjectSshKeys lists the keys of a project, by name.

        Owners, members and viewers of the project; action `project_ssh_key.list` on `project`.

        page_size: Default 50, at most 500.
        filter: Only those that it is true of, for example `public_key:alice OR create_time > 2027-01-01`. See
        "Filters and orders" of the guide for integrators. Fields: name, public_key, fingerprint, create_time.
        order_by: Fields with commas between them, each with ` desc` after it or not, for example `create_time
        desc`; default `name`. Fields: name, create_time.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return await self._call(t.LIST_PROJECT_SSH_KEYS, {"project_id": project_id}, {"page_size": page_size, "page_token": page_token, "filter": filter, "order_by": order_by, "read_mask": read_mask}, None, None, timeout)

    def iter_project_ssh_keys(
        self,
        project_id: str,
        *,
        page_size: int | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[m.SshKey]:
        """The items of all pages of `list_project_ssh_keys`.

        page_size: Default 50, at most 500.
        filter: Only those that it is true of, for example `public_key:alice OR create_time > 2027-01-01`. See
        "Filters and orders" of the guide for integrators. Fields: name, public_key, fingerprint, create_time.
        order_by: Fields with commas between them, each with ` desc` after it or not, for example `create_time
        desc`; default `name`. Fields: name, create_time.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return self._pages(t.LIST_PROJECT_SSH_KEYS, {"project_id": project_id}, {"page_size": page_size, "filter": filter, "order_by": order_by, "read_mask": read_mask}, "ssh_keys", timeout)

    async def list_project_usage(
        self,
        *,
        project_id: str,
        allocation_id: str | None = None,
        page_size: int | None = None,
        page_token: str | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> m.ListUsageResponse:
        """ListProjectUsage lists the usage intervals of any project with exact money, newest first; open intervals
        count up to now. Of a closed project, which its members do not see any more, too.

        All platform roles; action `usage.list` on `project`.

        allocation_id: Only this allocation.
        filter: Only those that it is true of, for example `sku = h200-slice AND start_time >= 2026-05-01`; the
        totals are of these. See "Filters and orders" of the guide for integrators. Fields: id, allocation_id, sku,
        gpu_count, currency, start_time, end_time.
        order_by: Fields with commas between them, each with ` desc` after it or not, for example `gpu_count desc`;
        default `start_time desc`. Fields: allocation_id, sku, gpu_count, start_time.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return await self._call(t.LIST_PROJECT_USAGE, {}, {"project_id": project_id, "allocation_id": allocation_id, "page_size": page_size, "page_token": page_token, "filter": filter, "order_by": order_by, "read_mask": read_mask}, None, None, timeout)

    def iter_project_usage(
        self,
        *,
        project_id: str,
        allocation_id: str | None = None,
        page_size: int | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[m.UsageInterval]:
        """The items of all pages of `list_project_usage`.

        allocation_id: Only this allocation.
        filter: Only those that it is true of, for example `sku = h200-slice AND start_time >= 2026-05-01`; the
        totals are of these. See "Filters and orders" of the guide for integrators. Fields: id, allocation_id, sku,
        gpu_count, currency, start_time, end_time.
        order_by: Fields with commas between them, each with ` desc` after it or not, for example `gpu_count desc`;
        default `start_time desc`. Fields: allocation_id, sku, gpu_count, start_time.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return self._pages(t.LIST_PROJECT_USAGE, {}, {"project_id": project_id, "allocation_id": allocation_id, "page_size": page_size, "filter": filter, "order_by": order_by, "read_mask": read_mask}, "intervals", timeout)

    async def list_project_webhooks(
        self,
        project_id: str,
        *,
        page_size: int | None = None,
        page_token: str | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> m.ListProjectWebhooksResponse:
        """ListProjectWebhooks lists the webhooks of a project, oldest first.

        Owners, members and viewers of the project; action `webhook.list` on `project`.

        page_size: Default 50, at most 500.
        filter: Only those that it is true of, for example `state = disabled OR failing_time:*`. See "Filters and
        orders" of the guide for integrators. Fields: url, description, state, creator, create_time, update_time,
        disable_time, failing_time.
        order_by: Fields with commas between them, each with ` desc` after it or not, for example `url`; default the
        order in which they were made. Fields: url, state, creator, create_time, update_time.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return await self._call(t.LIST_PROJECT_WEBHOOKS, {"project_id": project_id}, {"page_size": page_size, "page_token": page_token, "filter": filter, "order_by": order_by, "read_mask": read_mask}, None, None, timeout)

    def iter_project_webhooks(
        self,
        project_id: str,
        *,
        page_size: int | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[m.Webhook]:
        """The items of all pages of `list_project_webhooks`.

        page_size: Default 50, at most 500.
        filter: Only those that it is true of, for example `state = disabled OR failing_time:*`. See "Filters and
        orders" of the guide for integrators. Fields: url, description, state, creator, create_time, update_time,
        disable_time, failing_time.
        order_by: Fields with commas between them, each with ` desc` after it or not, for example `url`; default the
        order in which they were made. Fields: url, state, creator, create_time, update_time.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return self._pages(t.LIST_PROJECT_WEBHOOKS, {"project_id": project_id}, {"page_size": page_size, "filter": filter, "order_by": order_by, "read_mask": read_mask}, "webhooks", timeout)

    async def list_projects(
        self,
        *,
        page_size: int | None = None,
        page_token: str | None = None,
        organisation_id: str | None = None,
        state: m.TenantState | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> m.ListProjectsResponse:
        """ListProjects lists the projects that the caller is a member of, by organisation and slug.

        Owners, members and viewers of the project; action `project.list` on `project`.

        page_size: Default 50, at most 500.
        organisation_id: Only those of this organisation.
        state: Only those in this state; unspecified: all.
        filter: Only those that it is true of, for example `organisation = acme AND slug:lab`. See "Filters and
        orders" of the guide for integrators. Fields: slug, display_name, organisation, organisation_id, state,
        create_time, update_time.
        order_by: Fields with commas between them, each with ` desc` after it or not, for example `create_time
        desc`; default `organisation, slug`. Fields: slug, display_name, organisation, create_time, update_time.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return await self._call(t.LIST_PROJECTS, {}, {"page_size": page_size, "page_token": page_token, "organisation_id": organisation_id, "state": state, "filter": filter, "order_by": order_by, "read_mask": read_mask}, None, None, timeout)

    def iter_projects(
        self,
        *,
        page_size: int | None = None,
        organisation_id: str | None = None,
        state: m.TenantState | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[m.Project]:
        """The items of all pages of `list_projects`.

        page_size: Default 50, at most 500.
        organisation_id: Only those of this organisation.
        state: Only those in this state; unspecified: all.
        filter: Only those that it is true of, for example `organisation = acme AND slug:lab`. See "Filters and
        orders" of the guide for integrators. Fields: slug, display_name, organisation, organisation_id, state,
        create_time, update_time.
        order_by: Fields with commas between them, each with ` desc` after it or not, for example `create_time
        desc`; default `organisation, slug`. Fields: slug, display_name, organisation, create_time, update_time.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return self._pages(t.LIST_PROJECTS, {}, {"page_size": page_size, "organisation_id": organisation_id, "state": state, "filter": filter, "order_by": order_by, "read_mask": read_mask}, "projects", timeout)

    async def list_queue(
        self,
        *,
        region_code: str,
        page_size: int | None = None,
        page_token: str | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> m.ListQueueResponse:
        """ListQueue lists the queued requests of a region, by slot class in queue order.

        All platform roles; action `queue.list` on `region`.

        page_size: Default 50, at most 500.
        filter: Only those that it is true of, for example `priority = high AND gpus > 4`. See "Filters and orders"
        of the guide for integrators. Fields: slot_class, position, project_id, priority, gpus, since, deadline,
        reason.
        order_by: Fields with commas between them, each with ` desc` after it or not, for example `since`; default
        by slot class in queue order. Fields: slot_class, position, project_id, gpus, since, deadline.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return await self._call(t.LIST_QUEUE, {}, {"region_code": region_code, "page_size": page_size, "page_token": page_token, "filter": filter, "order_by": order_by, "read_mask": read_mask}, None, None, timeout)

    def iter_queue(
        self,
        *,
        region_code: str,
        page_size: int | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[m.QueuedRequest]:
        """The items of all pages of `list_queue`.

        page_size: Default 50, at most 500.
        filter: Only those that it is true of, for example `priority = high AND gpus > 4`. See "Filters and orders"
        of the guide for integrators. Fields: slot_class, position, project_id, priority, gpus, since, deadline,
        reason.
        order_by: Fields with commas between them, each with ` desc` after it or not, for example `since`; default
        by slot class in queue order. Fields: slot_class, position, project_id, gpus, since, deadline.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return self._pages(t.LIST_QUEUE, {}, {"region_code": region_code, "page_size": page_size, "filter": filter, "order_by": order_by, "read_mask": read_mask}, "requests", timeout)

    async def list_regions(
        self,
        *,
        page_size: int | None = None,
        page_token: str | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> m.ListRegionsResponse:
        """ListRegions lists all regions by code.

        Every registered principal; action `region.list` on `catalog`.

        page_size: Default 50, at most 500.
        filter: Only those that it is true of, for example `enabled = true`. See "Filters and orders" of the guide
        for integrators. Fields: code, display_name, enabled, unavailable_reason, create_time, update_time.
        order_by: Fields with commas between them, each with ` desc` after it or not, for example `display_name`;
        default `code`. Fields: code, display_name, create_time, update_time.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return await self._call(t.LIST_REGIONS, {}, {"page_size": page_size, "page_token": page_token, "filter": filter, "order_by": order_by, "read_mask": read_mask}, None, None, timeout)

    def iter_regions(
        self,
        *,
        page_size: int | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[m.Region]:
        """The items of all pages of `list_regions`.

        page_size: Default 50, at most 500.
        filter: Only those that it is true of, for example `enabled = true`. See "Filters and orders" of the guide
        for integrators. Fields: code, display_name, enabled, unavailable_reason, create_time, update_time.
        order_by: Fields with commas between them, each with ` desc` after it or not, for example `display_name`;
        default `code`. Fields: code, display_name, create_time, update_time.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return self._pages(t.LIST_REGIONS, {}, {"page_size": page_size, "filter": filter, "order_by": order_by, "read_mask": read_mask}, "regions", timeout)

    async def list_resource_slot_history(
        self,
        node_id: str,
        slot_id: str,
        *,
        page_size: int | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        page_token: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> m.ListResourceSlotHistoryResponse:
        """ListResourceSlotHistory lists what became of a slot, the newest first.

        All platform roles; action `slot.list` on `node`.

        page_size: Default 50, at most 500.
        filter: Only those that it is true of, for example `kind = evidence AND generation > 3`. See "Filters and
        orders" of the guide for integrators. Fields: time, kind, generation, detail, allocation_id, principal.
        order_by: `time desc` (default) or `time`.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return await self._call(t.LIST_RESOURCE_SLOT_HISTORY, {"node_id": node_id, "slot_id": slot_id}, {"page_size": page_size, "filter": filter, "order_by": order_by, "page_token": page_token, "read_mask": read_mask}, None, None, timeout)

    def iter_resource_slot_history(
        self,
        node_id: str,
        slot_id: str,
        *,
        page_size: int | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[m.SlotHistoryEntry]:
        """The items of all pages of `list_resource_slot_history`.

        page_size: Default 50, at most 500.
        filter: Only those that it is true of, for example `kind = evidence AND generation > 3`. See "Filters and
        orders" of the guide for integrators. Fields: time, kind, generation, detail, allocation_id, principal.
        order_by: `time desc` (default) or `time`.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return self._pages(t.LIST_RESOURCE_SLOT_HISTORY, {"node_id": node_id, "slot_id": slot_id}, {"page_size": page_size, "filter": filter, "order_by": order_by, "read_mask": read_mask}, "entries", timeout)

    async def list_resource_slots(
        self,
        node_id: str,
        *,
        page_size: int | None = None,
        page_token: str | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> m.ListResourceSlotsResponse:
        """ListResourceSlots lists a node's approved slots, by index unless order_by says otherwise (H-16).

        All platform roles; action `slot.list` on `node`.

        page_size: Default 50, at most 500.
        filter: Only those that it is true of, for example `status = available AND health_state = healthy`. See
        "Filters and orders" of the guide for integrators. Fields: id, slot_index, slot_class, status, health_state,
        health_detail, disabled, generation, allocation_id, update_time.
        order_by: Fields with commas between them, each with ` desc` after it or not; default `slot_index`. Fields:
        slot_index, slot_class, status, health_state, generation, update_time.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return await self._call(t.LIST_RESOURCE_SLOTS, {"node_id": node_id}, {"page_size": page_size, "page_token": page_token, "filter": filter, "order_by": order_by, "read_mask": read_mask}, None, None, timeout)

    def iter_resource_slots(
        self,
        node_id: str,
        *,
        page_size: int | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[m.ResourceSlot]:
        """The items of all pages of `list_resource_slots`.

        page_size: Default 50, at most 500.
        filter: Only those that it is true of, for example `status = available AND health_state = healthy`. See
        "Filters and orders" of the guide for integrators. Fields: id, slot_index, slot_class, status, health_state,
        health_detail, disabled, generation, allocation_id, update_time.
        order_by: Fields with commas between them, each with ` desc` after it or not; default `slot_index`. Fields:
        slot_index, slot_class, status, health_state, generation, update_time.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return self._pages(t.LIST_RESOURCE_SLOTS, {"node_id": node_id}, {"page_size": page_size, "filter": filter, "order_by": order_by, "read_mask": read_mask}, "slots", timeout)

    async def list_scim_groups(
        self,
        organisation_id: str,
        *,
        page_size: int | None = None,
        page_token: str | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> m.ListScimGroupsResponse:
        """ListScimGroups lists the groups that the identity provider has sent, each with its mappings, the oldest
        first.

        Members of the organisation; action `organisation_scim_group.list` on `organisation`.

        page_size: Default 50, at most 500.
        filter: Only those that it is true of, for example `display_name:ml AND member_count > 0`. See "Filters and
        orders" of the guide for integrators. Fields: display_name, external_id, member_count, create_time,
        update_time.
        order_by: Fields with commas between them, each with ` desc` after it or not, for example `display_name`;
        default the order in which they came. Fields: display_name, member_count, create_time, update_time.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return await self._call(t.LIST_SCIM_GROUPS, {"organisation_id": organisation_id}, {"page_size": page_size, "page_token": page_token, "filter": filter, "order_by": order_by, "read_mask": read_mask}, None, None, timeout)

    def iter_scim_groups(
        self,
        organisation_id: str,
        *,
        page_size: int | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[m.ScimGroup]:
        """The items of all pages of `list_scim_groups`.

        page_size: Default 50, at most 500.
        filter: Only those that it is true of, for example `display_name:ml AND member_count > 0`. See "Filters and
        orders" of the guide for integrators. Fields: display_name, external_id, member_count, create_time,
        update_time.
        order_by: Fields with commas between them, each with ` desc` after it or not, for example `display_name`;
        default the order in which they came. Fields: display_name, member_count, create_time, update_time.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return self._pages(t.LIST_SCIM_GROUPS, {"organisation_id": organisation_id}, {"page_size": page_size, "filter": filter, "order_by": order_by, "read_mask": read_mask}, "groups", timeout)

    async def list_scim_keys(
        self,
        organisation_id: str,
        *,
        page_size: int | None = None,
        page_token: str | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> m.ListScimKeysResponse:
        """ListScimKeys lists the API keys with the scope scim of all projects of an organisation, oldest first, the
        disabled and expired ones too. DisableApiKey ends one.

        Members of the organisation; action `organisation_scim_key.list` on `organisation`.

        page_size: Default 50, at most 500.
        filter: Only those that it is true of, for example `disabled = false AND last_used_time < 2027-01-01`. See
        "Filters and orders" of the guide for integrators. Fields: display_name, project, service_account, creator,
        disabled, create_time, expire_time, last_used_time.
        order_by: Fields with commas between them, each with ` desc` after it or not, for example `create_time
        desc`; default the order in which they were made. Fields: display_name, project, service_account, creator,
        create_time.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return await self._call(t.LIST_SCIM_KEYS, {"organisation_id": organisation_id}, {"page_size": page_size, "page_token": page_token, "filter": filter, "order_by": order_by, "read_mask": read_mask}, None, None, timeout)

    def iter_scim_keys(
        self,
        organisation_id: str,
        *,
        page_size: int | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[m.ScimKey]:
        """The items of all pages of `list_scim_keys`.

        page_size: Default 50, at most 500.
        filter: Only those that it is true of, for example `disabled = false AND last_used_time < 2027-01-01`. See
        "Filters and orders" of the guide for integrators. Fields: display_name, project, service_account, creator,
        disabled, create_time, expire_time, last_used_time.
        order_by: Fields with commas between them, each with ` desc` after it or not, for example `create_time
        desc`; default the order in which they were made. Fields: display_name, project, service_account, creator,
        create_time.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return self._pages(t.LIST_SCIM_KEYS, {"organisation_id": organisation_id}, {"page_size": page_size, "filter": filter, "order_by": order_by, "read_mask": read_mask}, "keys", timeout)

    async def list_service_accounts(
        self,
        project_id: str,
        *,
        page_size: int | None = None,
        page_token: str | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> m.ListServiceAccountsResponse:
        """ListServiceAccounts lists the service accounts of a project, oldest first.

        Owners, members and viewers of the project; action `service_account.list` on `project`.

        page_size: Default 50, at most 500.
        filter: Only those that it is true of, for example `role = member AND NOT disabled = true`. See "Filters and
        orders" of the guide for integrators. Fields: slug, principal, description, role, creator, disabled,
        create_time.
        order_by: Fields with commas between them, each with ` desc` after it or not, for example `slug`; default
        the order in which they were made. Fields: slug, principal, creator, create_time.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return await self._call(t.LIST_SERVICE_ACCOUNTS, {"project_id": project_id}, {"page_size": page_size, "page_token": page_token, "filter": filter, "order_by": order_by, "read_mask": read_mask}, None, None, timeout)

    def iter_service_accounts(
        self,
        project_id: str,
        *,
        page_size: int | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[m.ServiceAccount]:
        """The items of all pages of `list_service_accounts`.

        page_size: Default 50, at most 500.
        filter: Only those that it is true of, for example `role = member AND NOT disabled = true`. See "Filters and
        orders" of the guide for integrators. Fields: slug, principal, description, role, creator, disabled,
        create_time.
        order_by: Fields with commas between them, each with ` desc` after it or not, for example `slug`; default
        the order in which they were made. Fields: slug, principal, creator, create_time.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return self._pages(t.LIST_SERVICE_ACCOUNTS, {"project_id": project_id}, {"page_size": page_size, "filter": filter, "order_by": order_by, "read_mask": read_mask}, "service_accounts", timeout)

    async def list_skus(
        self,
        *,
        page_size: int | None = None,
        page_token: str | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> m.ListSkusResponse:
        """ListSkus lists the SKUs with their allowed GPU counts, shapes and prices. Members see those that have a
        price, administrators all.

        Every registered principal; action `sku.list` on `catalog`.

        filter: Only those that it is true of, for example `capacity_shape = gpu_slice AND NOT lab = true`. See
        "Filters and orders" of the guide for integrators. Fields: code, display_name, capacity_shape, slot_class,
        lab, disabled, create_time, update_time.
        order_by: Fields with commas between them, each with ` desc` after it or not, for example `create_time
        desc`; default `code`. Fields: code, display_name, capacity_shape, create_time, update_time.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return await self._call(t.LIST_SKUS, {}, {"page_size": page_size, "page_token": page_token, "filter": filter, "order_by": order_by, "read_mask": read_mask}, None, None, timeout)

    def iter_skus(
        self,
        *,
        page_size: int | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[m.Sku]:
        """The items of all pages of `list_skus`.

        filter: Only those that it is true of, for example `capacity_shape = gpu_slice AND NOT lab = true`. See
        "Filters and orders" of the guide for integrators. Fields: code, display_name, capacity_shape, slot_class,
        lab, disabled, create_time, update_time.
        order_by: Fields with commas between them, each with ` desc` after it or not, for example `create_time
        desc`; default `code`. Fields: code, display_name, capacity_shape, create_time, update_time.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return self._pages(t.LIST_SKUS, {}, {"page_size": page_size, "filter": filter, "order_by": order_by, "read_mask": read_mask}, "skus", timeout)

    async def list_slot_wipe_certificates(
        self,
        node_id: str,
        slot_id: str,
        *,
        page_size: int | None = None,
        page_token: str | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> m.ListSlotWipeCertificatesResponse:
        """ListSlotWipeCertificates lists the certificates of the wipes of a slot's disk, newest first.

        All platform roles; action `slot.get` on `slot`.

        page_size: Default 50, at most 500.
        filter: Only those that it is true of, for example `accept_time > 2026-11-01`. See "Filters and orders" of
        the guide for integrators. Fields: slot_generation, policy, erase_method, accept_time.
        order_by: Fields with commas between them, each with ` desc` after it or not; default `slot_generation
        desc`. Fields: slot_generation, accept_time.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return await self._call(t.LIST_SLOT_WIPE_CERTIFICATES, {"node_id": node_id, "slot_id": slot_id}, {"page_size": page_size, "page_token": page_token, "filter": filter, "order_by": order_by, "read_mask": read_mask}, None, None, timeout)

    def iter_slot_wipe_certificates(
        self,
        node_id: str,
        slot_id: str,
        *,
        page_size: int | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[m.WipeCertificate]:
        """The items of all pages of `list_slot_wipe_certificates`.

        page_size: Default 50, at most 500.
        filter: Only those that it is true of, for example `accept_time > 2026-11-01`. See "Filters and orders" of
        the guide for integrators. Fields: slot_generation, policy, erase_method, accept_time.
        order_by: Fields with commas between them, each with ` desc` after it or not; default `slot_generation
        desc`. Fields: slot_generation, accept_time.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return self._pages(t.LIST_SLOT_WIPE_CERTIFICATES, {"node_id": node_id, "slot_id": slot_id}, {"page_size": page_size, "filter": filter, "order_by": order_by, "read_mask": read_mask}, "certificates", timeout)

    async def list_ssh_keys(
        self,
        *,
        page_size: int | None = None,
        page_token: str | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> m.ListSshKeysResponse:
        """ListSshKeys lists the caller's keys, by name.

        Every registered principal; action `ssh_key.list` on `principal`.

        page_size: Default 50, at most 500.
        filter: Only those that it is true of, for example `public_key:alice OR create_time > 2027-01-01`. See
        "Filters and orders" of the guide for integrators. Fields: name, public_key, fingerprint, create_time.
        order_by: Fields with commas between them, each with ` desc` after it or not, for example `create_time
        desc`; default `name`. Fields: name, create_time.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return await self._call(t.LIST_SSH_KEYS, {}, {"page_size": page_size, "page_token": page_token, "filter": filter, "order_by": order_by, "read_mask": read_mask}, None, None, timeout)

    def iter_ssh_keys(
        self,
        *,
        page_size: int | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[m.SshKey]:
        """The items of all pages of `list_ssh_keys`.

        page_size: Default 50, at most 500.
        filter: Only those that it is true of, for example `public_key:alice OR create_time > 2027-01-01`. See
        "Filters and orders" of the guide for integrators. Fields: name, public_key, fingerprint, create_time.
        order_by: Fields with commas between them, each with ` desc` after it or not, for example `create_time
        desc`; default `name`. Fields: name, create_time.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return self._pages(t.LIST_SSH_KEYS, {}, {"page_size": page_size, "filter": filter, "order_by": order_by, "read_mask": read_mask}, "ssh_keys", timeout)

    async def list_terminal_sessions(
        self,
        *,
        page_size: int | None = None,
        page_token: str | None = None,
        allocation_id: str | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> m.ListTerminalSessionsResponse:
        """ListTerminalSessions lists sessions, newest first.

        All platform roles; action `terminal.list` on `session`.

        allocation_id: Only sessions into this allocation.
        filter: Only those that it is true of, for example `principal = "user:ada" AND NOT close_time:*`. See
        "Filters and orders" of the guide for integrators. Fields: allocation_id, project_id, principal, kind,
        open_time, close_time, close_reason, recorded, recording_bytes, end_request_time.
        order_by: Fields with commas between them, each with ` desc` after it or not, for example `open_time`;
        default newest first. Fields: allocation_id, project_id, principal, kind, open_time, recording_bytes.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return await self._call(t.LIST_TERMINAL_SESSIONS, {}, {"page_size": page_size, "page_token": page_token, "allocation_id": allocation_id, "filter": filter, "order_by": order_by, "read_mask": read_mask}, None, None, timeout)

    def iter_terminal_sessions(
        self,
        *,
        page_size: int | None = None,
        allocation_id: str | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[m.TerminalSession]:
        """The items of all pages of `list_terminal_sessions`.

        allocation_id: Only sessions into this allocation.
        filter: Only those that it is true of, for example `principal = "user:ada" AND NOT close_time:*`. See
        "Filters and orders" of the guide for integrators. Fields: allocation_id, project_id, principal, kind,
        open_time, close_time, close_reason, recorded, recording_bytes, end_request_time.
        order_by: Fields with commas between them, each with ` desc` after it or not, for example `open_time`;
        default newest first. Fields: allocation_id, project_id, principal, kind, open_time, recording_bytes.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return self._pages(t.LIST_TERMINAL_SESSIONS, {}, {"page_size": page_size, "allocation_id": allocation_id, "filter": filter, "order_by": order_by, "read_mask": read_mask}, "sessions", timeout)

    async def list_timeline(
        self,
        allocation_id: str,
        *,
        page_size: int | None = None,
        page_token: str | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> m.ListTimelineResponse:
        """ListTimeline lists the timeline of an allocation, oldest first unless the request says otherwise.

        Owners, members and viewers of the project; action `allocation.get` on `allocation`.

        filter: Only those that it is true of, for example `state = failed OR step:provision`. See "Filters and
        orders" of the guide for integrators. Fields: sequence, time, end_time, step, state, message, actor, reason.
        order_by: Fields with commas between them, each with ` desc` after it or not, for example `time desc`;
        default `sequence`. Fields: sequence, time, step, state.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return await self._call(t.LIST_TIMELINE, {"allocation_id": allocation_id}, {"page_size": page_size, "page_token": page_token, "filter": filter, "order_by": order_by, "read_mask": read_mask}, None, None, timeout)

    def iter_timeline(
        self,
        allocation_id: str,
        *,
        page_size: int | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[m.TimelineEntry]:
        """The items of all pages of `list_timeline`.

        filter: Only those that it is true of, for example `state = failed OR step:provision`. See "Filters and
        orders" of the guide for integrators. Fields: sequence, time, end_time, step, state, message, actor, reason.
        order_by: Fields with commas between them, each with ` desc` after it or not, for example `time desc`;
        default `sequence`. Fields: sequence, time, step, state.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return self._pages(t.LIST_TIMELINE, {"allocation_id": allocation_id}, {"page_size": page_size, "filter": filter, "order_by": order_by, "read_mask": read_mask}, "entries", timeout)

    async def list_usage(
        self,
        *,
        project_id: str | None = None,
        allocation_id: str | None = None,
        page_size: int | None = None,
        page_token: str | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> m.ListUsageResponse:
        """ListUsage lists usage intervals with exact money, newest first; open intervals count up to now.

        All roles in the project; action `usage.list` on `project`.

        allocation_id: Only this allocation.
        filter: Only those that it is true of, for example `sku = h200-slice AND start_time >= 2026-05-01`; the
        totals are of these. See "Filters and orders" of the guide for integrators. Fields: id, allocation_id, sku,
        gpu_count, currency, start_time, end_time.
        order_by: Fields with commas between them, each with ` desc` after it or not, for example `gpu_count desc`;
        default `start_time desc`. Fields: allocation_id, sku, gpu_count, start_time.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return await self._call(t.LIST_USAGE, {}, {"project_id": project_id, "allocation_id": allocation_id, "page_size": page_size, "page_token": page_token, "filter": filter, "order_by": order_by, "read_mask": read_mask}, None, None, timeout)

    def iter_usage(
        self,
        *,
        project_id: str | None = None,
        allocation_id: str | None = None,
        page_size: int | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[m.UsageInterval]:
        """The items of all pages of `list_usage`.

        allocation_id: Only this allocation.
        filter: Only those that it is true of, for example `sku = h200-slice AND start_time >= 2026-05-01`; the
        totals are of these. See "Filters and orders" of the guide for integrators. Fields: id, allocation_id, sku,
        gpu_count, currency, start_time, end_time.
        order_by: Fields with commas between them, each with ` desc` after it or not, for example `gpu_count desc`;
        default `start_time desc`. Fields: allocation_id, sku, gpu_count, start_time.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return self._pages(t.LIST_USAGE, {}, {"project_id": project_id, "allocation_id": allocation_id, "page_size": page_size, "filter": filter, "order_by": order_by, "read_mask": read_mask}, "intervals", timeout)

    async def list_webhook_deliveries(
        self,
        webhook_id: str,
        *,
        state: m.WebhookDeliveryState | None = None,
        page_size: int | None = None,
        page_token: str | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> m.ListWebhookDeliveriesResponse:
        """ListWebhookDeliveries lists the deliveries of a webhook of the last 30 days, newest first.

        Owners, members and viewers of the project; action `webhook_delivery.list` on `webhook`.

        state: Left out: all.
        page_size: Default 50, at most 500.
        filter: Only those that it is true of, for example `state = failed AND response_status >= 500`. See "Filters
        and orders" of the guide for integrators. Fields: id, event_type, object_id, state, attempts,
        response_status, error, create_time, last_attempt_time, deliver_time.
        order_by: Fields with commas between them, each with ` desc` after it or not, for example `create_time`;
        default `id desc`. Fields: id, event_type, state, attempts, response_status, create_time.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return await self._call(t.LIST_WEBHOOK_DELIVERIES, {"webhook_id": webhook_id}, {"state": state, "page_size": page_size, "page_token": page_token, "filter": filter, "order_by": order_by, "read_mask": read_mask}, None, None, timeout)

    def iter_webhook_deliveries(
        self,
        webhook_id: str,
        *,
        state: m.WebhookDeliveryState | None = None,
        page_size: int | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[m.WebhookDelivery]:
        """The items of all pages of `list_webhook_deliveries`.

        state: Left out: all.
        page_size: Default 50, at most 500.
        filter: Only those that it is true of, for example `state = failed AND response_status >= 500`. See "Filters
        and orders" of the guide for integrators. Fields: id, event_type, object_id, state, attempts,
        response_status, error, create_time, last_attempt_time, deliver_time.
        order_by: Fields with commas between them, each with ` desc` after it or not, for example `create_time`;
        default `id desc`. Fields: id, event_type, state, attempts, response_status, create_time.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return self._pages(t.LIST_WEBHOOK_DELIVERIES, {"webhook_id": webhook_id}, {"state": state, "page_size": page_size, "filter": filter, "order_by": order_by, "read_mask": read_mask}, "deliveries", timeout)

    async def list_wipe_certificates(
        self,
        allocation_id: str,
        *,
        page_size: int | None = None,
        page_token: str | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> m.ListWipeCertificatesResponse:
        """ListWipeCertificates lists the certificates of the wipes that ended an allocation, one per slot in order of
        the slots' index; none while its disks are not wiped yet, and none of bare metal.

        Owners, members and viewers of the project; action `allocation.get` on `allocation`.

        page_size: Default 50, at most 500.
        filter: Only those that it is true of, for example `erase_method = blkdiscard`. See "Filters and orders" of
        the guide for integrators. Fields: slot_id, slot_generation, policy, erase_method, accept_time.
        order_by: Fields with commas between them, each with ` desc` after it or not; default: by the slots' index.
        Fields: slot_generation, accept_time.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return await self._call(t.LIST_WIPE_CERTIFICATES, {"allocation_id": allocation_id}, {"page_size": page_size, "page_token": page_token, "filter": filter, "order_by": order_by, "read_mask": read_mask}, None, None, timeout)

    def iter_wipe_certificates(
        self,
        allocation_id: str,
        *,
        page_size: int | None = None,
        filter: str | None = None,
        order_by: str | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[m.WipeCertificate]:
        """The items of all pages of `list_wipe_certificates`.

        page_size: Default 50, at most 500.
        filter: Only those that it is true of, for example `erase_method = blkdiscard`. See "Filters and orders" of
        the guide for integrators. Fields: slot_id, slot_generation, policy, erase_method, accept_time.
        order_by: Fields with commas between them, each with ` desc` after it or not; default: by the slots' index.
        Fields: slot_generation, accept_time.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return self._pages(t.LIST_WIPE_CERTIFICATES, {"allocation_id": allocation_id}, {"page_size": page_size, "filter": filter, "order_by": order_by, "read_mask": read_mask}, "certificates", timeout)

    async def open_break_fix(
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

        Platform administrators and operators; action `break_fix.open` on `node`.

        fault: What broke; at most 500 characters.
        slot_id: Only for a fault of one slot.
        """
        return await self._call(t.OPEN_BREAK_FIX, {"node_id": node_id}, {}, {"slot_id": slot_id, "fault": fault}, idempotency_key, timeout)

    async def pause_agent_rollout(
        self,
        rollout_id: str,
        *,
        etag: str | None = None,
        reason: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.AgentRollout:
        """PauseAgentRollout begins no further node. A node that has begun is brought to its end.

        Platform administrators and operators; action `node.rollout` on `region`.

        etag: Of the rollout that was read; another one makes the call fail with ABORTED. Empty: not checked.
        reason: For the other operators; at most 500 characters.
        """
        return await self._call(t.PAUSE_AGENT_ROLLOUT, {"rollout_id": rollout_id}, {}, {"etag": etag, "reason": reason}, idempotency_key, timeout)

    async def ping_webhook(
        self,
        webhook_id: str,
        *,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.WebhookDelivery:
        """PingWebhook queues a delivery of the type "webhook.ping", whatever event types the webhook takes.

        Owners of the project; action `webhook.ping` on `webhook`.
        """
        return await self._call(t.PING_WEBHOOK, {"webhook_id": webhook_id}, {}, {}, idempotency_key, timeout)

    async def plan_evacuation(
        self,
        *,
        node_ids: list[str],
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> m.EvacuationPlan:
        """PlanEvacuation simulates the evacuation of nodes: where each of their allocations would fit, after those
        before it. Nothing is executed.

        All platform roles; action `capacity.plan` on `node`.

        node_ids: The nodes to evacuate together: 1 to 32 of one region.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return await self._call(t.PLAN_EVACUATION, {}, {"node_ids": node_ids, "read_mask": read_mask}, None, None, timeout)

    async def put_project_allocation_limit(
        self,
        project_id: str,
        *,
        max_allocations: int | None = None,
        etag: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.ProjectAllocationLimit:
        """PutProjectAllocationLimit sets the allocation quota of a project, over all SKUs. The scheduler does not
        check that the project exists.

        Platform administrators; action `quota.put` on `project`.

        max_allocations: 0 allows none.
        etag: Of the ProjectQuotas that was read; another one makes the call fail with ABORTED (ETAG_STALE). Empty:
        not checked.
        """
        return await self._call(t.PUT_PROJECT_ALLOCATION_LIMIT, {"project_id": project_id}, {}, {"max_allocations": max_allocations, "etag": etag}, idempotency_key, timeout)

    async def put_project_network(
        self,
        *,
        project_id: str | None = None,
        vms_reach_each_other: bool | None = None,
        etag: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.ProjectNetwork:
        """PutProjectNetwork changes the network setting of the caller's project. VMs that run follow within about a
        minute.

        Owners and members of the project; action `network.put` on `project`.

        project_id: Optional for a member of exactly one.
        vms_reach_each_other: As in ProjectNetwork.
        etag: Of the ProjectNetwork that was read; another one makes the call fail with ABORTED (ETAG_STALE). Empty:
        not checked.
        """
        return await self._call(t.PUT_PROJECT_NETWORK, {}, {}, {"project_id": project_id, "vms_reach_each_other": vms_reach_each_other, "etag": etag}, idempotency_key, timeout)

    async def put_project_priority(
        self,
        project_id: str,
        *,
        priority: m.Priority,
        etag: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.ProjectPriority:
        """PutProjectPriority sets the priority of a project, queued requests included. The scheduler does not check
        that the project exists.

        Platform administrators and operators; action `queue.prioritise` on `project`.

        etag: Of the ProjectPriority that was read; another one makes the call fail with ABORTED (ETAG_STALE).
        Empty: not checked.
        """
        return await self._call(t.PUT_PROJECT_PRIORITY, {"project_id": project_id}, {}, {"priority": priority, "etag": etag}, idempotency_key, timeout)

    async def put_project_quota(
        self,
        project_id: str,
        sku: str,
        *,
        max_gpus: int | None = None,
        etag: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.ProjectQuota:
        """PutProjectQuota sets the GPU quota of a project for a SKU. The scheduler does not check that the project
        exists.

        Platform administrators; action `quota.put` on `project`.

        etag: Of the ProjectQuotas that was read; another one makes the call fail with ABORTED (ETAG_STALE). Empty:
        not checked.
        """
        return await self._call(t.PUT_PROJECT_QUOTA, {"project_id": project_id, "sku": sku}, {}, {"max_gpus": max_gpus, "etag": etag}, idempotency_key, timeout)

    async def put_project_reservation_limit(
        self,
        project_id: str,
        *,
        max_gpus: int | None = None,
        etag: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.ProjectReservationLimit:
        """PutProjectReservationLimit sets how many GPUs the members of a project can reserve. The scheduler does not
        check that the project exists.

        Platform administrators; action `reservation.limit` on `project`.

        max_gpus: Maximum GPUs of all reservations that members created and that have not ended; 0: only operators
        can reserve.
        etag: Of the ProjectReservationLimit that was read; another one makes the call fail with ABORTED
        (ETAG_STALE). Empty: not checked.
        """
        return await self._call(t.PUT_PROJECT_RESERVATION_LIMIT, {"project_id": project_id}, {}, {"max_gpus": max_gpus, "etag": etag}, idempotency_key, timeout)

    async def put_region(
        self,
        region_code: str,
        *,
        region: m.Region,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.Region:
        """PutRegion creates or replaces a region. One with an etag is replaced only if it is the one that was read.

        Platform administrators; action `region.put` on `region`.
        """
        return await self._call(t.PUT_REGION, {"region_code": region_code}, {}, region, idempotency_key, timeout)

    async def put_scim_settings(
        self,
        organisation_id: str,
        *,
        issuer: str,
        subject_attribute: m.ScimSubjectAttribute | None = None,
        etag: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.ScimSettings:
        """PutScimSettings sets the issuer of an organisation's users. The issuer stays while there are SCIM users.

        Platform administrators; action `organisation_scim.put` on `organisation`.

        issuer: Exactly as in the tokens; the gateway must trust it.
        subject_attribute: Unspecified: userName.
        etag: Refused when the settings have changed since; empty: not checked.
        """
        return await self._call(t.PUT_SCIM_SETTINGS, {"organisation_id": organisation_id}, {}, {"issuer": issuer, "subject_attribute": subject_attribute, "etag": etag}, idempotency_key, timeout)

    async def put_sku(
        self,
        sku_code: str,
        *,
        sku: m.Sku,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.Sku:
        """PutSku creates or replaces a SKU. One with an etag is replaced only if it is the one that was read.

        Platform administrators; action `sku.put` on `catalog`.

        sku_code: Slug, for example "h200-sxm-slice".
        """
        return await self._call(t.PUT_SKU, {"sku_code": sku_code}, {}, sku, idempotency_key, timeout)

    def read_serial_log(
        self,
        allocation_id: str,
        *,
        resume_token: str | None = None,
        follow: bool | None = None,
        since_time: datetime | None = None,
        tail_lines: int | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[m.ReadSerialLogResponse]:
        """ReadSerialLog streams what the VM printed on its serial console: what is retained, and with follow what it
        prints, until it is gone. It can be read after the allocation has failed or ended for as long as its host
        retains it (30 days unless the operator sets another time). The stream ends with an end message. Refused
        with SERIAL_LOG_UNAVAILABLE when there is none.

        Owners and members of the project; action `serial_log.read` on `allocation`.

        resume_token: Of the last message of an earlier stream of the same allocation: go on after it.
        follow: Go on with what the VM prints, until it is gone.
        since_time: Only what was printed since.
        tail_lines: Only so many of the last lines; at most 100,000.
        """
        return self._watch(t.READ_SERIAL_LOG, {"allocation_id": allocation_id}, {"resume_token": resume_token, "follow": follow, "since_time": since_time, "tail_lines": tail_lines}, timeout)

    async def reboot_allocation(
        self,
        allocation_id: str,
        *,
        force: bool | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.Allocation:
        """RebootAllocation stops the VM of a running allocation and starts it again. Returns at once; watch
        status.power.

        Owners and members of the project; action `allocation.reboot` on `allocation`.

        force: Reset the VM: stop it at once, without asking its guest to shut down; what the guest did not write to
        its disk is lost.
        """
        return await self._call(t.REBOOT_ALLOCATION, {"allocation_id": allocation_id}, {}, {"force": force}, idempotency_key, timeout)

    async def redeliver_webhook_delivery(
        self,
        webhook_id: str,
        delivery_id: str,
        *,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.WebhookDelivery:
        """RedeliverWebhookDelivery queues a delivery again, with the same id and body, that has succeeded or failed.

        Owners of the project; action `webhook_delivery.redeliver` on `webhook`.
        """
        return await self._call(t.REDELIVER_WEBHOOK_DELIVERY, {"webhook_id": webhook_id, "delivery_id": delivery_id}, {}, {}, idempotency_key, timeout)

    async def release_allocation(
        self,
        allocation_id: str,
        *,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.Allocation:
        """ReleaseAllocation ends an allocation: billing stops, the VM is deleted, the disk is wiped and verified
        empty. A queued one leaves the queue and is released at once. Refused with TERMINATION_PROTECTED while it is
        protected.

        Owners and members of the project; action `allocation.release` on `allocation`.
        """
        return await self._call(t.RELEASE_ALLOCATION, {"allocation_id": allocation_id}, {}, {}, idempotency_key, timeout)

    async def release_tenant_allocation(
        self,
        allocation_id: str,
        *,
        reason: str,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.Allocation:
        """ReleaseTenantAllocation ends an allocation of any project like a release by its members, who see the reason:
        billing stops, the VM is deleted, the disk is wiped and verified empty. It cannot be undone.

        Platform administrators and operators; action `allocation.operator_release` on `allocation`.

        reason: Shown to the members of the project; one line of at most 500 characters.
        """
        return await self._call(t.RELEASE_TENANT_ALLOCATION, {"allocation_id": allocation_id}, {}, {"reason": reason}, idempotency_key, timeout)

    async def remove_organisation_member(
        self,
        organisation_id: str,
        member_id: str,
        *,
        etag: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.RemoveOrganisationMemberResponse:
        """RemoveOrganisationMember ends a membership: the principal's streams and terminals there end, too.

        Owners of the organisation; action `organisation_member.remove` on `organisation`.

        etag: Of the member that was read; another one makes the call fail with ABORTED. Empty: not checked.
        """
        return await self._call(t.REMOVE_ORGANISATION_MEMBER, {"organisation_id": organisation_id, "member_id": member_id}, {"etag": etag}, {}, idempotency_key, timeout)

    async def remove_project_member(
        self,
        project_id: str,
        member_id: str,
        *,
        etag: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.RemoveProjectMemberResponse:
        """RemoveProjectMember ends a membership: the principal's streams and terminals there end, too.

        Owners of the project; action `project_member.remove` on `project`.

        etag: Of the member that was read; another one makes the call fail with ABORTED. Empty: not checked.
        """
        return await self._call(t.REMOVE_PROJECT_MEMBER, {"project_id": project_id, "member_id": member_id}, {"etag": etag}, {}, idempotency_key, timeout)

    async def repair_resource_slot(
        self,
        node_id: str,
        slot_id: str,
        *,
        reason: str,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.SlotRepair:
        """RepairResourceSlot wipes a cleanup_blocked slot, verifies it empty and makes it available again. It is the
        only way out of cleanup_blocked (CON-25). A free slot with the drift driver_rebound is repaired in the same
        way: its devices are bound to vfio-pci again. Returns at once; watch the slot's status.

        Platform administrators and operators; action `slot.repair` on `slot`.

        reason: Reason, for the audit trail.
        """
        return await self._call(t.REPAIR_RESOURCE_SLOT, {"node_id": node_id, "slot_id": slot_id}, {}, {"reason": reason}, idempotency_key, timeout)

    async def report_node_finding(
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

        Platform administrators and operators; action `finding.report` on `node`.

        source: The agent, a DNS label: "dcgm", "nvsentinel".
        code: The agent's own name of the fault; at most 100 characters.
        slot_id: The slot that it is about; empty: the host.
        device: The device, for example its PCI address or UUID; at most 100 characters. Empty: the host.
        message: For operators; at most 500 characters.
        """
        return await self._call(t.REPORT_NODE_FINDING, {"node_id": node_id}, {}, {"slot_id": slot_id, "source": source, "code": code, "device": device, "severity": severity, "message": message}, idempotency_key, timeout)

    async def rescue_allocation(
        self,
        allocation_id: str,
        *,
        image: str,
        force: bool | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.Allocation:
        """RescueAllocation starts the VM of a running or stopped allocation from a rescue image, with its own disks
        beside that, untouched: the rescue disk is the first, and nothing on it is kept. The owner's keys log in.
        Billing continues. Returns at once; watch status.power. UnrescueAllocation ends it, as do a stop and a
        start.

        Owners and members of the project; action `allocation.rescue` on `allocation`.

        image: Slug of the image to start from: an active one that is compatible with the SKU and not the
        allocation's own, because the guest could not distinguish the two disks.
        force: Stop the VM at once, without asking its guest to shut down.
        """
        return await self._call(t.RESCUE_ALLOCATION, {"allocation_id": allocation_id}, {}, {"image": image, "force": force}, idempotency_key, timeout)

    async def resolve_node_finding(
        self,
        node_id: str,
        finding_id: str,
        *,
        resolution: str,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.NodeFinding:
        """ResolveNodeFinding closes a finding. What it made unschedulable stays so until an operator returns it.

        Platform administrators and operators; action `finding.resolve` on `node`.

        resolution: Why it is over; at most 500 characters.
        """
        return await self._call(t.RESOLVE_NODE_FINDING, {"node_id": node_id, "finding_id": finding_id}, {}, {"resolution": resolution}, idempotency_key, timeout)

    async def resume_agent_rollout(
        self,
        rollout_id: str,
        *,
        etag: str | None = None,
        reason: str | None = None,
        retry_failed: bool | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.AgentRollout:
        """ResumeAgentRollout goes on with a paused rollout. Earlier failures no longer count against its limit.
        Skipped nodes are accepted with them.

        Platform administrators and operators; action `node.rollout` on `region`.

        etag: Of the rollout that was read; another one makes the call fail with ABORTED. Empty: not checked.
        reason: For the other operators; at most 500 characters.
        retry_failed: Failed and skipped nodes are retried. Without it they stay as they are.
        """
        return await self._call(t.RESUME_AGENT_ROLLOUT, {"rollout_id": rollout_id}, {}, {"etag": etag, "reason": reason, "retry_failed": retry_failed}, idempotency_key, timeout)

    async def resume_organisation(
        self,
        organisation_id: str,
        *,
        etag: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.Organisation:
        """ResumeOrganisation makes a suspended organisation active again.

        Platform administrators; action `organisation.resume` on `organisation`.

        etag: Of the organisation that was read; another one makes the call fail with ABORTED. Empty: not checked.
        """
        return await self._call(t.RESUME_ORGANISATION, {"organisation_id": organisation_id}, {}, {"etag": etag}, idempotency_key, timeout)

    async def resume_project(
        self,
        project_id: str,
        *,
        etag: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.Project:
        """ResumeProject makes a suspended project active again. For owners; one that an administrator of the platform
        suspended only an administrator resumes.

        Owners of the project; action `project.resume` on `project`.

        etag: Of the project that was read; another one makes the call fail with ABORTED. Empty: not checked.
        """
        return await self._call(t.RESUME_PROJECT, {"project_id": project_id}, {}, {"etag": etag}, idempotency_key, timeout)

    async def retire_node(
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

        Platform administrators and operators; action `node.retire` on `node`.

        reason: For the other operators; at most 500 characters.
        etag: Of the node that was read; another one makes the call fail with ABORTED. Empty: not checked.
        """
        return await self._call(t.RETIRE_NODE, {"node_id": node_id}, {}, {"etag": etag, "reason": reason}, idempotency_key, timeout)

    async def retire_resource_slot(
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

        Platform administrators and operators; action `slot.retire` on `slot`.

        reason: For the other operators; at most 500 characters.
        etag: Of the slot that was read; another one makes the call fail with ABORTED. Empty: not checked.
        """
        return await self._call(t.RETIRE_RESOURCE_SLOT, {"node_id": node_id, "slot_id": slot_id}, {}, {"etag": etag, "reason": reason}, idempotency_key, timeout)

    async def revoke_invitation(
        self,
        invitation_id: str,
        *,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.Invitation:
        """RevokeInvitation makes an invitation that is not accepted worthless. For owners of what it is for.

        Owners of the project; action `invitation.revoke` on `invitation`.
        """
        return await self._call(t.REVOKE_INVITATION, {"invitation_id": invitation_id}, {}, {}, idempotency_key, timeout)

    async def rollback_agent_rollout(
        self,
        rollout_id: str,
        *,
        etag: str | None = None,
        reason: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.AgentRollout:
        """RollbackAgentRollout begins a rollout that brings every node that this one has changed back to the version
        before, and ends this one. Refused while a node of it is being updated.

        Platform administrators and operators; action `node.rollout` on `region`.

        etag: Of the rollout that was read; another one makes the call fail with ABORTED. Empty: not checked.
        reason: For the other operators; at most 500 characters.
        """
        return await self._call(t.ROLLBACK_AGENT_ROLLOUT, {"rollout_id": rollout_id}, {}, {"etag": etag, "reason": reason}, idempotency_key, timeout)

    async def rotate_api_key(
        self,
        project_id: str,
        service_account_id: str,
        api_key_id: str,
        *,
        overlap: str | None = None,
        expire_time: datetime | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.ApiKey:
        """RotateApiKey makes a key with the same name and scopes, and lets the old one expire after an overlap in
        which both are valid. The secret is in this answer and nowhere else. A key is rotated once.

        Owners of the project; action `api_key.rotate` on `project`.

        overlap: How long the old key is good still, at most 7 days; left out: one day.
        expire_time: Of the new key; left out: as long after now as the old key's expiry was after its creation.
        """
        return await self._call(t.ROTATE_API_KEY, {"project_id": project_id, "service_account_id": service_account_id, "api_key_id": api_key_id}, {}, {"overlap": overlap, "expire_time": expire_time}, idempotency_key, timeout)

    async def rotate_webhook_secret(
        self,
        webhook_id: str,
        *,
        overlap: str | None = None,
        etag: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.Webhook:
        """RotateWebhookSecret makes a new secret. Until the overlap ends deliveries are signed with both. The new
        secret is in this answer and nowhere else.

        Owners of the project; action `webhook.rotate_secret` on `webhook`.

        overlap: How long deliveries are signed with the old secret as well, at most 7 days; left out: one day.
        etag: Refused with ETAG_STALE when the webhook has another one by now.
        """
        return await self._call(t.ROTATE_WEBHOOK_SECRET, {"webhook_id": webhook_id}, {}, {"overlap": overlap, "etag": etag}, idempotency_key, timeout)

    async def set_image_status(
        self,
        slug: str,
        *,
        status: m.ImageStatus,
        etag: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.Image:
        """SetImageStatus enables or disables an image. One that was published after it was added is read first, as by
        CreateImage.

        Platform administrators and operators; action `image.update` on `catalog`.

        etag: Of the image that was read; another one makes the call fail with ABORTED (ETAG_STALE). Empty: not
        checked.
        """
        return await self._call(t.SET_IMAGE_STATUS, {"slug": slug}, {}, {"status": status, "etag": etag}, idempotency_key, timeout)

    async def set_platform_role(
        self,
        principal_id: str,
        *,
        platform_role: m.PlatformRole | None = None,
        etag: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.Principal:
        """SetPlatformRole gives a principal a role on the whole platform, or takes it. Refused for a service account
        as an administrator, and when no administrator would be left.

        Platform administrators; action `principal.set_platform_role` on `principal`.

        platform_role: Unspecified: none.
        etag: Of the principal that was read; another one makes the call fail with ABORTED. Empty: not checked.
        """
        return await self._call(t.SET_PLATFORM_ROLE, {"principal_id": principal_id}, {}, {"platform_role": platform_role, "etag": etag}, idempotency_key, timeout)

    async def start_allocation(
        self,
        allocation_id: str,
        *,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.Allocation:
        """StartAllocation starts the VM of a stopped allocation on its own disk and address. Returns at once; watch
        status.power.

        Owners and members of the project; action `allocation.start` on `allocation`.
        """
        return await self._call(t.START_ALLOCATION, {"allocation_id": allocation_id}, {}, {}, idempotency_key, timeout)

    async def start_node_maintenance(
        self,
        node_id: str,
        *,
        reason: str,
        etag: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.NodePlacement:
        """StartNodeMaintenance takes an empty node out of service, for work on its host. UncordonNode ends it.

        Platform administrators and operators; action `node.maintain` on `node`.

        reason: For the other operators; at most 500 characters.
        etag: Of the placement that was read; another one makes the call fail with ABORTED. Empty: not checked.
        """
        return await self._call(t.START_NODE_MAINTENANCE, {"node_id": node_id}, {}, {"reason": reason, "etag": etag}, idempotency_key, timeout)

    async def stop_allocation(
        self,
        allocation_id: str,
        *,
        force: bool | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.Allocation:
        """StopAllocation shuts the VM of a running allocation down, and stops it hard when the guest does not end in
        time. It keeps its id, disk, address and GPUs: a stopped allocation is billed like a running one. Returns at
        once; watch status.power.

        Owners and members of the project; action `allocation.stop` on `allocation`.

        force: Stop the VM at once, without asking its guest to shut down; what the guest did not write to its disk
        is lost.
        """
        return await self._call(t.STOP_ALLOCATION, {"allocation_id": allocation_id}, {}, {"force": force}, idempotency_key, timeout)

    async def stop_tenant_allocation(
        self,
        allocation_id: str,
        *,
        reason: str,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.Allocation:
        """StopTenantAllocation shuts the VM of a running allocation of any project down. Its members see the reason,
        and can start it again.

        Platform administrators and operators; action `allocation.operator_stop` on `allocation`.

        reason: Shown to the members of the project; one line of at most 500 characters.
        """
        return await self._call(t.STOP_TENANT_ALLOCATION, {"allocation_id": allocation_id}, {}, {"reason": reason}, idempotency_key, timeout)

    async def suggest_defragmentation(
        self,
        *,
        region_code: str,
        sku: str,
        gpu_count: int,
        max_moves: int | None = None,
        read_mask: str | None = None,
        timeout: float | None = None,
    ) -> m.DefragmentationSuggestion:
        """SuggestDefragmentation finds the fewest moves that let more launches of a size fit. Nothing is executed.

        All platform roles; action `capacity.plan` on `region`.

        sku: A SKU of shape gpu_slice.
        gpu_count: GPUs per launch.
        max_moves: Maximum allocations to move, at most 64; 0: 8.
        read_mask: Fields of the answer that are wanted, as paths with commas between them; in a list, of each of
        its items: `allocations.id,next_page_token`. Absent: all.
        """
        return await self._call(t.SUGGEST_DEFRAGMENTATION, {}, {"region_code": region_code, "sku": sku, "gpu_count": gpu_count, "max_moves": max_moves, "read_mask": read_mask}, None, None, timeout)

    async def suspend_organisation(
        self,
        organisation_id: str,
        *,
        reason: str,
        etag: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.Organisation:
        """SuspendOrganisation stops launches and starts in all projects of an organisation.

        Platform administrators; action `organisation.suspend` on `organisation`.

        reason: Shown to its members; at most 500 characters.
        etag: Of the organisation that was read; another one makes the call fail with ABORTED. Empty: not checked.
        """
        return await self._call(t.SUSPEND_ORGANISATION, {"organisation_id": organisation_id}, {}, {"etag": etag, "reason": reason}, idempotency_key, timeout)

    async def suspend_project(
        self,
        project_id: str,
        *,
        etag: str | None = None,
        reason: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.Project:
        """SuspendProject stops launches and starts; what runs goes on, and can be read, stopped and released. For
        owners.

        Owners of the project; action `project.suspend` on `project`.

        etag: Of the project that was read; another one makes the call fail with ABORTED. Empty: not checked.
        reason: Shown to its members; at most 500 characters.
        """
        return await self._call(t.SUSPEND_PROJECT, {"project_id": project_id}, {}, {"etag": etag, "reason": reason}, idempotency_key, timeout)

    async def uncordon_node(
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

        Platform administrators and operators; action `node.uncordon` on `node`.

        etag: Of the placement that was read; another one makes the call fail with ABORTED. Empty: not checked.
        """
        return await self._call(t.UNCORDON_NODE, {"node_id": node_id}, {}, {"reason": reason, "etag": etag}, idempotency_key, timeout)

    async def unrescue_allocation(
        self,
        allocation_id: str,
        *,
        force: bool | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.Allocation:
        """UnrescueAllocation starts the VM of a rescued allocation from its own disk again. Returns at once; watch
        status.power.

        Owners and members of the project; action `allocation.unrescue` on `allocation`.

        force: Stop the rescue at once, without asking its guest to shut down.
        """
        return await self._call(t.UNRESCUE_ALLOCATION, {"allocation_id": allocation_id}, {}, {"force": force}, idempotency_key, timeout)

    async def update_allocation(
        self,
        allocation_id: str,
        *,
        display_name: str | None = None,
        termination_protection: bool | None = None,
        auto_release_time: datetime | None = None,
        no_auto_release: bool | None = None,
        etag: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.Allocation:
        """UpdateAllocation changes the display name, the protection from release, and the time of release. Its name
        stays, which is the VM's host name.

        Owners and members of the project; action `allocation.update` on `allocation`.

        display_name: One line of at most 200 characters; empty: the name is shown again.
        termination_protection: Refuse a release by the project. Not together with a release time.
        auto_release_time: Release it then; in the future.
        no_auto_release: Do not release it by itself any more.
        etag: Of the allocation that was read; another one makes the call fail with ABORTED (ETAG_STALE). Empty: not
        checked.
        """
        return await self._call(t.UPDATE_ALLOCATION, {"allocation_id": allocation_id}, {}, {"display_name": display_name, "termination_protection": termination_protection, "auto_release_time": auto_release_time, "no_auto_release": no_auto_release, "etag": etag}, idempotency_key, timeout)

    async def update_node(
        self,
        node_id: str,
        *,
        etag: str | None = None,
        mode: str | None = None,
        max_vms_per_node: int | None = None,
        labels: m.NodeLabels | None = None,
        reason: str | None = None,
        rack: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.Node:
        """UpdateNode changes labels, mode or VM limit. Mode and limit change only while no slot of the node is
        schedulable and nobody has anything of it: drain the node first (A-48, A-49).

        Platform administrators and operators; action `node.update` on `node`.

        etag: Of the node that was read; another one makes the call fail with ABORTED. Empty: not checked.
        mode: "slice" or "baremetal"; empty: unchanged.
        max_vms_per_node: Absent: unchanged; 0: no limit.
        labels: Absent: unchanged.
        reason: For the other operators; at most 500 characters.
        rack: Absent: unchanged. Rack or failure domain: letters, digits, dots, underscores and hyphens, at most 63;
        empty: unknown.
        """
        return await self._call(t.UPDATE_NODE, {"node_id": node_id}, {}, {"etag": etag, "mode": mode, "max_vms_per_node": max_vms_per_node, "labels": labels, "reason": reason, "rack": rack}, idempotency_key, timeout)

    async def update_organisation(
        self,
        organisation_id: str,
        *,
        display_name: str,
        etag: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.Organisation:
        """UpdateOrganisation changes the display name. For owners.

        Owners of the organisation; action `organisation.update` on `organisation`.

        display_name: At most 200 characters.
        etag: Of the organisation that was read; another one makes the call fail with ABORTED. Empty: not checked.
        """
        return await self._call(t.UPDATE_ORGANISATION, {"organisation_id": organisation_id}, {}, {"etag": etag, "display_name": display_name}, idempotency_key, timeout)

    async def update_organisation_guardrails(
        self,
        organisation_id: str,
        *,
        etag: str | None = None,
        terminals_disabled: bool | None = None,
        serial_logs_disabled: bool | None = None,
        ingress_mappings_disabled: bool | None = None,
        webhooks_disabled: bool | None = None,
        api_keys_disabled: bool | None = None,
        max_api_key_days: int | None = None,
        allowed_regions: m.AllowedNames | None = None,
        allowed_skus: m.AllowedNames | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.OrganisationGuardrails:
        """UpdateOrganisationGuardrails changes those that are given. In force within seconds, whoever asks: no role in
        a project and no grant lifts them. For owners.

        Owners of the organisation; action `organisation_guardrails.update` on `organisation`.

        etag: Of the guardrails that were read; another one makes the call fail with ABORTED (ETAG_STALE). Empty:
        not checked.
        webhooks_disabled: True disables all webhooks of the organisation and its projects. False enables none of
        them.
        max_api_key_days: At most 3650; 0: no limit.
        """
        return await self._call(t.UPDATE_ORGANISATION_GUARDRAILS, {"organisation_id": organisation_id}, {}, {"etag": etag, "terminals_disabled": terminals_disabled, "serial_logs_disabled": serial_logs_disabled, "ingress_mappings_disabled": ingress_mappings_disabled, "webhooks_disabled": webhooks_disabled, "api_keys_disabled": api_keys_disabled, "max_api_key_days": max_api_key_days, "allowed_regions": allowed_regions, "allowed_skus": allowed_skus}, idempotency_key, timeout)

    async def update_organisation_member(
        self,
        organisation_id: str,
        member_id: str,
        *,
        role: m.MemberRole,
        etag: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.Member:
        """UpdateOrganisationMember changes the role of a member.

        Owners of the organisation; action `organisation_member.update` on `organisation`.

        etag: Of the member that was read; another one makes the call fail with ABORTED. Empty: not checked.
        """
        return await self._call(t.UPDATE_ORGANISATION_MEMBER, {"organisation_id": organisation_id, "member_id": member_id}, {}, {"role": role, "etag": etag}, idempotency_key, timeout)

    async def update_project(
        self,
        project_id: str,
        *,
        display_name: str,
        etag: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.Project:
        """UpdateProject changes the display name. For owners.

        Owners of the project; action `project.update` on `project`.

        display_name: At most 200 characters.
        etag: Of the project that was read; another one makes the call fail with ABORTED. Empty: not checked.
        """
        return await self._call(t.UPDATE_PROJECT, {"project_id": project_id}, {}, {"etag": etag, "display_name": display_name}, idempotency_key, timeout)

    async def update_project_member(
        self,
        project_id: str,
        member_id: str,
        *,
        role: m.MemberRole,
        etag: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.Member:
        """UpdateProjectMember changes the role of a member.

        Owners of the project; action `project_member.update` on `project`.

        etag: Of the member that was read; another one makes the call fail with ABORTED. Empty: not checked.
        """
        return await self._call(t.UPDATE_PROJECT_MEMBER, {"project_id": project_id, "member_id": member_id}, {}, {"role": role, "etag": etag}, idempotency_key, timeout)

    async def update_webhook(
        self,
        webhook_id: str,
        *,
        url: str | None = None,
        event_types: list[str] | None = None,
        description: str | None = None,
        disabled: bool | None = None,
        etag: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> m.Webhook:
        """UpdateWebhook changes what is given. Disabling a webhook ends its pending deliveries; enabling it again
        begins with the events from then on.

        Owners of the project; action `webhook.update` on `webhook`.

        url: As in CreateProjectWebhook.
        event_types: Left out: unchanged; "*": all. As in CreateProjectWebhook for a webhook of a project.
        description: At most 500 characters.
        disabled: True ends its deliveries, false begins anew with the next event.
        etag: Refused with ETAG_STALE when the webhook has another one by now.
        """
        return await self._call(t.UPDATE_WEBHOOK, {"webhook_id": webhook_id}, {}, {"url": url, "event_types": event_types, "description": description, "disabled": disabled, "etag": etag}, idempotency_key, timeout)

    def watch_allocation(
        self,
        allocation_id: str,
        *,
        resume_token: str | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[m.WatchAllocationResponse]:
        """WatchAllocation streams one allocation and its timeline: first the current state, then every change. A
        timeline entry is sent when it begins and when it changes; no entry is skipped. The stream ends with an end
        message once the allocation is released or failed and everything has been sent.

        Owners, members and viewers of the project; action `allocation.get` on `allocation`.

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
    ) -> AsyncIterator[m.WatchAllocationsResponse]:
        """WatchAllocations streams the project's allocations: first all of them, then every change. States can be
        skipped when they change faster than the stream is read; the last one is always sent.

        Owners, members and viewers of the project; action `allocation.list` on `project`.

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
    ) -> AsyncIterator[m.WatchNodesResponse]:
        """WatchNodes streams nodes and their slots: first all of them, then every change. A heartbeat alone is no
        change. States can be skipped; the last one is always sent.

        All platform roles; action `node.list` on `region`.

        resume_token: Of the last message of an earlier stream: go on after it.
        """
        return self._watch(t.WATCH_NODES, {}, {"resume_token": resume_token}, timeout)
