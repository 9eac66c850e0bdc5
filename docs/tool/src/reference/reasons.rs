//! What each error reason means to whoever gets it, and what to do: for `reference/errors.md`.

/// Reason, cause, remedy.
type Row = (&'static str, &'static str, &'static str);

/// In the order of the contract.
const REASONS: &[Row] = &[
    (
        "FIELD_INVALID",
        "A field breaks its rule.",
        "Correct the field that `field_violations` names.",
    ),
    (
        "FIELD_REQUIRED",
        "A required field is missing; a number that is 0 counts as missing.",
        "Give the field that `field_violations` names.",
    ),
    (
        "FIELD_UNKNOWN",
        "The body or the query has a field that the method does not know.",
        "Check its spelling: names are `snake_case`.",
    ),
    (
        "BODY_MALFORMED",
        "The body is not JSON, or not UTF-8.",
        "Send one JSON object.",
    ),
    (
        "BODY_TOO_LARGE",
        "The body is larger than the gateway accepts.",
        "Send less, or raise `gateway.max_body_bytes`.",
    ),
    (
        "PAGE_TOKEN_INVALID",
        "The page token is not one of this list.",
        "Begin again with the first page.",
    ),
    (
        "ROUTE_UNKNOWN",
        "No method has this path and HTTP method.",
        "Check both against the HTTP API.",
    ),
    (
        "RESUME_TOKEN_INVALID",
        "The resume token is malformed, or belongs to another watch.",
        "Watch again without a token.",
    ),
    (
        "RESUME_TOKEN_EXPIRED",
        "The changes since the resume token are not kept any more.",
        "Watch again without a token.",
    ),
    (
        "IDEMPOTENCY_KEY_MISSING",
        "A change came without `X-Idempotency-Key`.",
        "Send a key of your own.",
    ),
    (
        "IDEMPOTENCY_KEY_REUSED",
        "The key was used for another request.",
        "Repeat exactly the first request, or use another key.",
    ),
    (
        "CREDENTIAL_MISSING",
        "There is no bearer token.",
        "Sign in, or set the token file.",
    ),
    (
        "CREDENTIAL_INVALID",
        "The token is malformed, forged, of an unknown issuer, or for another audience.",
        "Get a token for this API.",
    ),
    (
        "CREDENTIAL_EXPIRED",
        "The token has expired.",
        "Get a new token.",
    ),
    (
        "PERMISSION_DENIED",
        "The caller may not do this: it is not a member of the project, or not an administrator.",
        "Use a token of a member, or of an administrator; `GET /api/v1/whoami` says whose it is.",
    ),
    (
        "PEER_NOT_ALLOWED",
        "A service called another one that does not take calls from it.",
        "Operators: check the certificates and `peers` in the settings.",
    ),
    (
        "ENROLMENT_TOKEN_INVALID",
        "The enrolment token is unknown, used or expired.",
        "Operators: create a new one with `gpuaas admin node enrol-token`.",
    ),
    (
        "INVITATION_INVALID",
        "The invitation is unknown, expired, revoked, used, or for another address.",
        "Ask whoever invited you for a new one.",
    ),
    (
        "SECOND_FACTOR_REQUIRED",
        "The identity provider did not say that this administrator's sign-in had a second factor, and the settings ask for one.",
        "Sign in again with a second factor.",
    ),
    (
        "ALLOCATION_NOT_FOUND",
        "No allocation has this id in the caller's projects.",
        "List them: `gpuaas list --all`.",
    ),
    (
        "NODE_NOT_FOUND",
        "No node has this id.",
        "List them: `gpuaas nodes`.",
    ),
    (
        "SLOT_NOT_FOUND",
        "The node has no such slot.",
        "List them: `gpuaas slots NODE`.",
    ),
    (
        "SKU_UNKNOWN",
        "No SKU has this code.",
        "List them: `gpuaas skus`.",
    ),
    (
        "IMAGE_UNKNOWN",
        "No image has this slug.",
        "List them: `gpuaas images`.",
    ),
    (
        "REGION_UNKNOWN",
        "No region has this code.",
        "List them: `gpuaas regions`.",
    ),
    (
        "PROJECT_UNKNOWN",
        "No project has this id, or the caller has several and named none.",
        "Name a project that `GET /api/v1/whoami` lists.",
    ),
    (
        "DISCOVERY_NOT_FOUND",
        "The node has no such discovery.",
        "Discover: `gpuaas admin node discover NODE --wait`.",
    ),
    ("NOT_FOUND", "The resource does not exist.", "Check the id."),
    (
        "GPU_COUNT_NOT_ALLOWED",
        "The SKU does not allow this count.",
        "Choose a count that `gpuaas skus` lists.",
    ),
    (
        "IMAGE_NOT_ACTIVE",
        "The image is disabled, or not in the registry yet.",
        "Choose an active image.",
    ),
    (
        "IMAGE_NOT_COMPATIBLE",
        "The image does not run on the SKU.",
        "Choose an image of `gpuaas images --sku SKU`.",
    ),
    (
        "REGION_DISABLED",
        "The region takes no new allocations.",
        "Choose another region.",
    ),
    (
        "QUOTA",
        "The project would exceed a quota.",
        "Release something, or ask an operator to raise it.",
    ),
    (
        "RESERVATION_LIMIT",
        "The project would reserve more GPUs than its reservation limit allows; `limit` of the details is the limit.",
        "End a reservation, or ask an operator to raise the reservation limit.",
    ),
    (
        "STATE_CONFLICT",
        "The resource is in a state that does not allow this.",
        "Read it again, and decide anew.",
    ),
    (
        "CANDIDATE_INCOMPLETE",
        "A candidate lacks a part that a slot needs.",
        "Operators: see the named fields, repair the host, discover again. With `wipe_policies` in the metadata: choose one of those.",
    ),
    (
        "CANDIDATE_BLOCKED",
        "A candidate has blockers, such as a mounted disk.",
        "Operators: see its blockers, repair the host, discover again.",
    ),
    (
        "DISCOVERY_STALE",
        "There is a later discovery, or a tenant had the node since.",
        "Operators: discover again and review the new candidates.",
    ),
    (
        "ALREADY_EXISTS",
        "The name is taken.",
        "Choose another name.",
    ),
    (
        "ETAG_STALE",
        "The resource was changed after the caller had read the etag that it sent.",
        "Read it again, and decide anew.",
    ),
    (
        "PROJECT_SUSPENDED",
        "The project or its organisation is suspended: nothing can be launched or started in it.",
        "Read, stop and release what runs. Ask its owner, or an administrator, to resume it.",
    ),
    (
        "PROJECT_CLOSED",
        "The project or its organisation is closed.",
        "None: a closed one stays closed. Use another project.",
    ),
    (
        "PROJECT_CLOSING",
        "The project is being closed, which takes seconds: nothing begins in it meanwhile.",
        "Try again with the same key; when the project is closed by then, use another project.",
    ),
    (
        "PROJECT_IN_USE",
        "The project still has allocations or capacity reservations, or the organisation still has projects that are not closed.",
        "Release, cancel or close what `field_violations` names.",
    ),
    (
        "LAST_OWNER",
        "Nobody would own the organisation or project, or administer the platform, any more.",
        "Give somebody else the role first.",
    ),
    (
        "REPORT_STALE",
        "A host's report was observed before the last one that was taken in.",
        "None: the agent sends a newer one with its next heartbeat.",
    ),
    (
        "TERMINATION_PROTECTED",
        "The allocation is protected from release.",
        "Remove the protection with UpdateAllocation (`gpuaas update ID --unprotect`), then release it.",
    ),
    (
        "NO_CAPACITY",
        "No node in the region has free GPUs of this class.",
        "Queue the launch, choose another region or SKU, or wait.",
    ),
    (
        "FRAGMENTED",
        "Enough GPUs are free, but not together on one node.",
        "Request fewer GPUs per allocation, or queue the launch.",
    ),
    (
        "FABRIC_HELD",
        "The slot's fabric device is still held.",
        "Queue the launch; operators: see the node's checks.",
    ),
    (
        "INCOMPLETE_SLOT",
        "A slot lacks a part of its bindings.",
        "Choose others; operators: approve the slot again.",
    ),
    (
        "CLEANUP_BLOCKED",
        "The slot's disk could not be proven empty.",
        "Choose others; operators: repair the slot.",
    ),
    (
        "HUGEPAGES_MISSING",
        "The host has too few free hugepages.",
        "Queue the launch; operators: see the node's checks.",
    ),
    (
        "NODE_DRAINING",
        "The node is cordoned or draining.",
        "Wait, or choose another region.",
    ),
    (
        "SLOT_UNHEALTHY",
        "The slot failed a check.",
        "Choose others; operators: see the node's checks.",
    ),
    (
        "DISKS_BEING_WIPED",
        "The GPUs of the class that nobody has are not proven empty yet: their disks are being wiped.",
        "Launch again in a few minutes, or queue the launch.",
    ),
    (
        "CLAIMED",
        "What would be removed is claimed by an allocation, or held for one on its host.",
        "Release the allocation, or repair its slots.",
    ),
    (
        "SLOTS_IN_USE",
        "All GPUs of the class are in use.",
        "Queue the launch, or wait.",
    ),
    (
        "AFFINITY",
        "The placement constraints exclude every node with capacity.",
        "Remove or change a constraint.",
    ),
    (
        "QUEUED_AHEAD",
        "The free GPUs go to requests ahead in the queue.",
        "Queue the launch.",
    ),
    (
        "WAIT_EXPIRED",
        "A queued request reached its deadline.",
        "Launch again, with a longer wait.",
    ),
    (
        "CAPACITY_RESERVED",
        "The free GPUs are reserved for another project.",
        "Queue the launch, or reserve capacity.",
    ),
    (
        "IMAGE_NOT_CACHED",
        "Free nodes lack the cached image that the launch requires.",
        "Launch without `require_prewarmed`.",
    ),
    (
        "NODE_VM_LIMIT",
        "The node runs as many VMs as it may.",
        "Queue the launch; operators: raise `max_vms` of the node.",
    ),
    (
        "HOST_NOT_READY",
        "The host fails a readiness check.",
        "Try again later; operators: `gpuaas nodes` lists the blockers.",
    ),
    (
        "LEASE_HELD",
        "Another operation holds the slot on the host.",
        "It is tried again by itself; if it persists, contact the operator.",
    ),
    (
        "LEASE_REQUIRED",
        "A host operation came without a lease of its slot.",
        "A fault of the platform: report the request id.",
    ),
    (
        "LEASE_EXPIRED",
        "The lease of the slot ran out before the operation.",
        "It is tried again by itself.",
    ),
    (
        "FENCED",
        "A newer operation has the slot.",
        "It ends by itself: the newer one counts.",
    ),
    (
        "DISK_UNSAFE",
        "The slot's disk is in use on the host, so nothing was written.",
        "Launch again; operators: see the node's checks.",
    ),
    (
        "DEVICE_MISSING",
        "A device of the slot is gone from the host.",
        "Launch again; operators: discover and compare.",
    ),
    (
        "IMAGE_DIGEST_MISMATCH",
        "The pulled image is not the published one.",
        "Choose another image; operators: publish it again.",
    ),
    (
        "IMAGE_PULL_FAILED",
        "The host could not fetch the image.",
        "Launch again; operators: check the registry from the host.",
    ),
    (
        "HYPERVISOR_FAILED",
        "The host could not start, stop or change the VM.",
        "Launch again; operators: see the agent's log.",
    ),
    (
        "GUEST_NO_ADDRESS",
        "The VM never took its address.",
        "Try another image.",
    ),
    (
        "GUEST_NO_LOGIN",
        "No login succeeded within the boot timeout of the image.",
        "Try another image.",
    ),
    (
        "DEVICE_RESET_FAILED",
        "A GPU or function of the slot could not be reset after its last VM, or does not answer since. The slot is unschedulable.",
        "Operators: see [a slot is cleanup_blocked](../runbooks/slot-cleanup-blocked.md).",
    ),
    (
        "GPU_PARTITION_UNAVAILABLE",
        "The host could not connect the GPUs of the VM: Fabric Manager does not offer or activate their NVSwitch partition, or does not answer.",
        "Launch again; operators: see [a partition is sick](../runbooks/gpu-partition.md).",
    ),
    (
        "GUEST_NOT_READY",
        "The VM let the platform log in, and did not pass a readiness check of its image.",
        "Read the output of the check (`gpuaas show`); try another image.",
    ),
    (
        "WIPE_NOT_PROVEN",
        "The disk could not be verified empty.",
        "Nothing to do for users; operators: repair the slot.",
    ),
    (
        "OPERATION_NOT_FOUND",
        "The host does not know the operation.",
        "A fault of the platform: report the request id.",
    ),
    (
        "OPERATION_CONFLICT",
        "Another operation runs on the slot.",
        "It is tried again by itself.",
    ),
    (
        "HOST_KEY_MISMATCH",
        "At the VM's address nobody shows an SSH host key that is recorded for the VM: another key answers, or none was recorded.",
        "Do not log in; operators: find out who answers at that address.",
    ),
    (
        "HOST_REPLACED",
        "The host was installed anew since the slots were claimed: nothing of the allocation is on it.",
        "Launch again; operators: see the runbook of a lost host.",
    ),
    (
        "HOST_CLOCK_SKEWED",
        "The host's clock stands outside the time in which its certificate counts, so nothing it signs can be verified. \
         It says nothing about a disk.",
        "Operators: set the host's clock (`timedatectl`, the site's time servers); what waits for it goes on by itself.",
    ),
    (
        "METRICS_UNAVAILABLE",
        "The allocation has no VM that is measured: it is not active, it is bare metal, or its host's agent is too old.",
        "Read them while the allocation is active.",
    ),
    (
        "SERIAL_LOG_UNAVAILABLE",
        "The host has no serial log of the allocation: its VM has printed nothing yet, or what it printed is not retained any \
         more.",
        "Read it again once the VM has started.",
    ),
    (
        "HOST_UNREACHABLE",
        "The host does not answer.",
        "Try again later; operators: see the runbook of a lost host.",
    ),
    (
        "DEADLINE_EXCEEDED",
        "The call or the step took too long.",
        "Try again with the same key.",
    ),
    (
        "OVERLOADED",
        "The platform has reached a limit for all.",
        "Try again after the time in `Retry-After`.",
    ),
    (
        "DEPENDENCY_UNAVAILABLE",
        "A part of the platform does not answer.",
        "Try again with the same key.",
    ),
    (
        "INTERNAL",
        "A fault of the platform.",
        "Try again with the same key; if it persists, report the request id.",
    ),
    (
        "RATE_LIMITED",
        "The caller has too many requests or streams open, or has asked for too much in a minute.",
        "Try again after the time in `Retry-After`.",
    ),
];

/// Cause and remedy of a reason; dashes for one that nobody described yet.
pub fn of(reason: &str) -> (&'static str, &'static str) {
    let row = REASONS.iter().find(|(name, ..)| *name == reason);
    row.map_or(("–", "–"), |(_, cause, remedy)| (cause, remedy))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::contract::enum_values;

    #[test]
    fn every_reason_has_a_cause_and_a_remedy() {
        let reasons = gpuaas_proto::pool()
            .get_enum_by_name("gpuaas.errors.v1.ErrorReason")
            .expect("part of the contract");
        let bare: Vec<String> = enum_values(&reasons)
            .into_iter()
            .map(|(name, _)| name.to_uppercase())
            .filter(|name| of(name).0 == "–")
            .collect();
        assert_eq!(bare, [""; 0], "describe them in REASONS");
    }
}
