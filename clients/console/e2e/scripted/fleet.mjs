// What the pages of reservations, rollouts, capacity and single nodes show.
import { filtered } from "./filter.mjs";
import { VISION, ago, ahead, allocationId, nodeId, slots } from "./world.mjs";

export const reservationId = "01930000-000a-7000-8000-000000000001";
const reservation = (number, state, status, config = {}) => ({
  id: reservationId.replace(/1$/, number),
  config: { project_id: VISION, name: `conference-${number}`, region_code: "eu-1", sku: "h200-sxm-slice", gpu_count: 8, start_time: ago(4), end_time: ahead(20), release_unused_after_seconds: 7200, ...config },
  status: { state, reserved_gpus: 0, used_gpus: 0, unused_gpus: 0, ...status },
  metadata: { create_time: ago(30), created_by: "user:alice", made_by_project: true },
});
const reservations = [
  reservation(1, "active", { reserved_gpus: 8, used_gpus: 6, unused_gpus: 2, unused_since: ago(1), launches: [{ gpu_count: 1, fits: 2 }, { gpu_count: 2, fits: 1 }] }),
  reservation(2, "scheduled", {}, { start_time: ahead(40), end_time: ahead(90) }),
  reservation(3, "gathering", { reserved_gpus: 3, unused_gpus: 3 }),
];
const listed = (_, { searchParams }) => ({ reservations: filtered(searchParams, ["name", "project_id", "sku", "region_code", "state", "unused_gpus"], reservations, ({ config, status }) => ({ ...config, ...status })) });
const one = (_, { pathname }) => reservations.find(({ id }) => pathname.endsWith(id)) ?? reservations[0];

export const rolloutId = "01930000-000b-7000-8000-000000000001";
const updated = (number, state, change = {}) => ({ node_id: nodeId(number), hostname: `gpu-0${number}`, rack: `r${number}`, state, version: "0.9.1", from_version: "0.9.0", agent_version: state === "succeeded" ? "0.9.1" : "0.9.0", start_time: ago(1), ...change });
const rollouts = [
  { id: rolloutId, version: "0.9.1", digest: `sha256:${"c".repeat(64)}`, size_bytes: "18874368", state: "paused", state_reason: "1 node failed, 0 are allowed", max_failures: 0, max_parallel: 2, node_timeout_seconds: 900, current_wave: 2, waves: [{ number: 1, nodes: [updated(1, "succeeded", { end_time: ago(0.9) })] }, { number: 2, nodes: [updated(2, "failed", { reason: "the package has another digest", end_time: ago(0.5) }), updated(3, "pending", { start_time: undefined })] }], total_nodes: 3, succeeded_nodes: 1, failed_nodes: 1, principal: "user:olga", reason: "security update", create_time: ago(1.2), etag: "r1" },
  { id: rolloutId.replace(/1$/, "2"), version: "0.9.0", digest: `sha256:${"d".repeat(64)}`, size_bytes: "18874368", state: "completed", total_nodes: 4, succeeded_nodes: 4, failed_nodes: 0, waves: [], principal: "user:olga", reason: "first release", create_time: ago(500), end_time: ago(498), etag: "r2" },
];

const HOURS = 24;
const buckets = Array.from({ length: HOURS }, (_, hour) => ({ start_time: ago(HOURS - hour), region_code: "eu-1", sku: "h200-sxm-slice", nodes: 3, gpus: 16, gpus_in_use: 6 + (hour % 5), gpus_free: 10 - (hour % 5), mean_gpus: 16, mean_gpus_in_use: 6 + (hour % 5) }));

const disk = (name) => ({ by_id: `/dev/disk/by-id/nvme-eui.${name}`, kernel_name: `nvme${name}n1`, bytes: "3840755982336" });
const gone = "nvme1n1: its controller is dead";
const candidate = (slot_index, more = {}) => ({ slot_index, slot_class: "h200_sxm", blockers: [], bindings: { gpu_pci_address: `0000:${slot_index}b:00.0`, nvme_device: disk(slot_index).by_id, nvme_bytes: "3840755982336", private_ip: `10.100.0.${slot_index}`, fabric_vf_pci_address: `0000:5e:00.${slot_index - 10}`, destructive_wipe_policy: "blkdiscard" }, ...more });
const discovered = {
  id: "d",
  node_id: nodeId(2),
  state: "completed",
  end_time: ago(0.1),
  candidates: [candidate(11), candidate(12, { blockers: [gone], disk_blockers: [gone] })],
  host: { disks: [disk(11), disk("spare")], fabric_devices: [{ virtual_functions: [1, 2, 3].map((number) => ({ number, function: { pci_address: `0000:5e:00.${number}` } })) }] },
};

/** What the API answers. */
export const fleetAnswers = {
  "GET /api/v1/allocations/*/wipe-certificates": { certificates: [] },
  "GET /api/v1/allocations/*/ingress-mappings": {
    ingress_mappings: [
      { id: "m1", config: { protocol: "tcp", vm_port: 443, source_cidrs: ["198.51.100.0/24"] }, status: { state: "active", external_address: "203.0.113.7", external_port: 30017 } },
      { id: "m2", config: { protocol: "udp", vm_port: 53 }, status: { state: "failed", external_address: "203.0.113.7", external_port: 30018, failure: "The host does not answer. The platform tries again." } },
    ],
  },
  "GET /api/v1/capacity-reservations": listed,
  "GET /api/v1/capacity-reservations/*": one,
  "GET /api/v1/admin/capacity-reservations": listed,
  "GET /api/v1/admin/capacity-reservations/*": one,
  "GET /api/v1/admin/agent-rollouts": (_, { searchParams }) => ({ rollouts: filtered(searchParams, ["version", "principal", "reason", "state"], rollouts) }),
  "GET /api/v1/admin/agent-rollouts/*": (_, { pathname }) => rollouts.find(({ id }) => pathname.endsWith(id)) ?? rollouts[0],
  "POST /api/v1/admin/agent-rollouts/*:resume": { ...rollouts[0], state: "running" },
  "GET /api/v1/admin/capacity:history": { buckets, bucket_seconds: "3600" },
  "GET /api/v1/admin/capacity:preservation": { nodes: [] },
  "GET /api/v1/admin/queue": { total: 1, requests: [{ slot_class: "h200_sxm", position: 1, project_id: VISION, priority: "normal", allocation_ids: [allocationId(4)], gpus: 2, since: ago(1), deadline: ahead(2), reason: "SLOTS_IN_USE", backfill_node_ids: [nodeId(1)] }] },
  "GET /api/v1/admin/nodes/*/placement": (_, { pathname }) => ({ node_id: pathname.split("/")[5], hostname: "gpu-01", region_code: "eu-1", admin_state: "enabled", schedulable: true, live_allocations: 3, live_claims: 6, etag: "p" }),
  "GET /api/v1/admin/nodes/*/history": { entries: [{ time: ago(2), state: "ready" }, { time: ago(90), state: "cordoned", reason: "new cables", principal: "user:olga" }] },
  "GET /api/v1/admin/nodes/*/image-cache": { images: [] },
  "GET /api/v1/admin/nodes/*/break-fixes": { break_fixes: [] },
  "POST /api/v1/admin/nodes/*/resource-slots/*:disable": {},
  "GET /api/v1/admin/nodes/*/findings": { findings: [] },
  "GET /api/v1/admin/nodes/*/resource-slots/*/repair": {},
  "GET /api/v1/admin/nodes/*/resource-slots/*/history": { entries: [{ time: ago(31), kind: "claim_created", generation: "7", allocation_id: slots[0].allocation_id, principal: "user:alice" }] },
  "GET /api/v1/admin/nodes/*/slice-topology/discovery": (_, { pathname }) => (pathname.includes(nodeId(2)) ? discovered : { ...discovered, candidates: [], host: undefined }),
  "GET /api/v1/admin/nodes/*/host-reports": () => ({ reports: [] }),
  "POST /api/v1/admin/nodes/*/slice-topology/discovery": { ...discovered, state: "queued", candidates: [] },
  "POST /api/v1/admin/nodes/*/resource-slots:approve": { slots: [] },
  "GET /api/v1/admin/capacity:evacuationPlan": { allocations: [] },
  "GET /api/v1/admin/capacity:defragmentation": { moves: [] },
};
