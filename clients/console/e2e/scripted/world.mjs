// What the played platform has: two projects, a few allocations, a small fleet.
import { filtered } from "./filter.mjs";

const HOUR = 3_600_000;
const now = Date.now();
export const ago = (hours) => new Date(now - hours * HOUR).toISOString();
export const ahead = (hours) => new Date(now + hours * HOUR).toISOString();

export const VISION = "01930000-0000-7000-8000-00000000000a";
export const SPEECH = "01930000-0000-7000-8000-00000000000b";
const uuid = (kind, number) => `0193000${kind}-0000-7000-8000-${String(number).padStart(12, "0")}`;
export const allocationId = (number) => uuid(1, number);
export const nodeId = (number) => uuid(2, number);

export const projects = [
  { id: VISION, slug: "vision", display_name: "Vision", organisation: "acme" },
  { id: SPEECH, slug: "speech", display_name: "Speech", organisation: "acme" },
];

const euro = (amount) => ({ currency_code: "EUR", units: String(Math.trunc(amount)), nanos: Math.round((amount % 1) * 1e9) });

export const skus = [
  { code: "h200-sxm-slice", display_name: "H200 SXM slice", capacity_shape: "gpu_slice", slot_class: "h200_sxm", allowed_gpu_counts: [1, 2, 4, 8], profile: { name: "h200_1g_24c_64g", vcpus_per_gpu: 24, memory_mib_per_gpu: 65536, hugepages: true }, price_per_gpu_hour: euro(2.5), price_version_id: "price-2" },
  { code: "l40s-slice", display_name: "L40S slice", capacity_shape: "gpu_slice", slot_class: "l40s", allowed_gpu_counts: [1, 2], profile: { name: "l40s_1g_12c", vcpus_per_gpu: 12, memory_mib_per_gpu: 49152 } },
];

export const regions = [
  { code: "eu-1", display_name: "Europe 1", enabled: true },
  { code: "eu-2", display_name: "Europe 2", enabled: false, unavailable_reason: "This site is being built." },
];

export const images = [
  { slug: "ubuntu-24.04", display_name: "Ubuntu 24.04 with CUDA", status: "active", driver_strategy: "preinstalled", source_uri: "oci://r/i:1", digest: `sha256:${"a".repeat(64)}`, size_bytes: "8589934592", compatible_skus: ["h200-sxm-slice", "l40s-slice"], boot_timeout_seconds: 600 },
  { slug: "debian-12", display_name: "Debian 12", status: "disabled", driver_strategy: "none", source_uri: "oci://r/i:2", digest: `sha256:${"b".repeat(64)}`, size_bytes: "2147483648", compatible_skus: ["h200-sxm-slice"], boot_timeout_seconds: 600 },
];

export function allocation(number, { name, state = "active", power = state === "active" ? "running" : "unspecified", gpus = 1, status = {}, project_id = VISION, hours = number }) {
  return {
    id: allocationId(number),
    config: { project_id, name, region_code: "eu-1", sku: "h200-sxm-slice", gpu_count: gpus, image: "ubuntu-24.04", ssh_public_keys: ["ssh-ed25519 AAAA"], capacity_shape: "gpu_slice", placement: {} },
    status: { state, power, vm: "gpuaas-slice-x", billing: "Billed since it became active.", active_time: ago(hours), ...status },
    metadata: { create_time: ago(hours), revision: "5", labels: { team: "vision" } },
  };
}

/** What the members read of an operator's stop. */
const OPERATED = "An operator stopped this allocation. Reason: the node gets new fans.";

export const allocations = [
  allocation(1, { name: "train-large", gpus: 4, hours: 30, status: { resources: { vcpus: 96, memory_mib: "262144", disks: 4, disk_bytes: "4398046511104" }, access: { guest_user: "u_0123456789abcdef", private_ip: "10.0.0.5", ssh_port: 22, ssh_ready: true, ssh_host: "eu-1.example.com", ssh_host_port: 2201, ssh_host_keys: ["ssh-ed25519 AAAAHOST"] } } }),
  allocation(2, { name: "notebook", power: "stopped", hours: 9, status: { conditions: [{ type: "stopped_by_operator", message: OPERATED, since: ago(1) }] } }),
  allocation(3, { name: "evaluate", state: "provisioning", hours: 0.05, status: { deadline: ahead(0.3), progress: { step: "boot", percent: 40, message: "Booting the VM", steps_done: 3, steps_total: 5 } } }),
  allocation(4, { name: "sweep", state: "requested", hours: 1, status: { queue: { position: 2, reason: "SLOTS_IN_USE", message: "8 GPUs are in use on 1 node.", since: ago(1), deadline: ahead(2) } } }),
];

const PRINTED = ["[    3.1] Waiting for network...", "[    4.2] Waiting for network...", "no route to host"];

/** A launch that has failed, with what the guest said last. */
export const failed = allocation(6, { name: "broken-boot", state: "failed", hours: 2, status: { billing: "Never billed.", failure: { reason: "GUEST_NOT_READY", step: "provision.ssh", message: `The guest did not accept a login within 600 seconds.\nIts serial console ended with:\n${PRINTED.join("\n")}`, advice: "Choose another image, or launch again." } } });
export const OBSERVED = "cloud-init: no datasource found in /dev/vda";

/** Of another project, on a host that is lost. */
export const lost = allocation(9, { name: "speech-train", project_id: SPEECH, hours: 50, status: { conditions: [{ type: "host_lost", message: "Its host does not answer.", since: ago(1) }] } });

export const intervals = [
  { n: 1, name: 1, sku: "h200-sxm-slice", gpus: 4, start: 30, hours: 30, open: true },
  { n: 2, name: 2, sku: "h200-sxm-slice", gpus: 1, start: 9, hours: 9, open: true },
  { n: 3, name: 5, sku: "l40s-slice", gpus: 2, start: 120, hours: 20 },
].map(({ n, name, sku, gpus, start, hours, open }) => ({
  id: `interval-${n}`,
  allocation_id: allocationId(name),
  project_id: VISION,
  sku,
  gpu_count: gpus,
  start_time: ago(start),
  ...(open ? {} : { end_time: ago(start - hours) }),
  microseconds: String(hours * HOUR * 1000),
  seconds: String(hours * 3600),
  price_per_gpu_hour: euro(2.5),
  amount: euro(gpus * hours * 2.5),
}));

const slot = (node, index, status = "available", allocation_id = "") => ({ id: uuid(3, node * 10 + index), node_id: nodeId(node), slot_index: index, slot_class: "h200_sxm", status, health_state: "healthy", generation: "7", clean_generation: "6", bindings: { gpu_pci_address: `0000:${10 + index}:00.0`, nvme_device: `/dev/disk/by-id/nvme-eui.000000000000000${index}`, nvme_bytes: "3840755982336", private_ip: `10.0.0.${index + 5}`, management_mac: `52:54:00:00:00:0${index}` }, update_time: ago(31), allocation_id, drift: [] });
const node = (number, hostname, status) => ({
  id: nodeId(number),
  config: { hostname, region_code: "eu-1", mode: "slice" },
  status: { state: "enrolled", schedulable: true, blockers: [], evidence: [], slots: { available: 4 }, ...status },
  metadata: { create_time: ago(900), revision: "1" },
});

export const nodes = [
  node(1, "gpu-01", {}),
  node(2, "gpu-02", { schedulable: false, blockers: ["1 hugepage pool is too small", "the RDMA link is down"] }),
  node(3, "gpu-03", { schedulable: false, blockers: ["1 hugepage pool is too small"] }),
  node(4, "gpu-04", { state: "lost", schedulable: false, last_heartbeat_time: ago(1) }),
];

export const slots = [
  ...[0, 1, 2, 3].map((index) => slot(1, index, "active", allocationId(1))),
  slot(1, 4, "active", allocationId(2)),
  slot(1, 5, "provisioning", allocationId(3)),
  slot(1, 6),
  slot(1, 7, "cleanup_blocked"),
  ...[0, 1, 2, 3].map((index) => slot(2, index)),
  slot(4, 0, "active", allocationId(9)),
];

export const placements = nodes.map(({ id, config }, index) => ({
  node_id: id,
  hostname: config.hostname,
  region_code: "eu-1",
  admin_state: index === 2 ? "cordoned" : "enabled",
  admin_reason: index === 2 ? "new cables" : "",
  admin_principal: index === 2 ? "user:olga" : "",
  schedulable: index === 0,
}));

const counts = (delivered, healthy, reserved, active) => ({ delivered: String(delivered), healthy: String(healthy), reserved: String(reserved), active: String(active) });
export const fleet = {
  nodes: counts(4, 1, 1, 1),
  gpus: counts(20, 12, 8, 7),
  pools: [
    { region_code: "eu-1", hardware_type: "h200_sxm", nodes: counts(3, 1, 1, 1), gpus: counts(16, 10, 8, 7) },
    { region_code: "eu-1", hardware_type: "l40s", nodes: counts(1, 1, 0, 0), gpus: counts(4, 2, 0, 0) },
  ],
};

const fleetNode = (number, hardware_type, gpus, reason = "") => ({ id: nodeId(number), hostname: `gpu-0${number}`, region_code: "eu-1", hardware_type, mode: "slice", admin_state: reason.split(":")[0] || "enabled", reason, gpus });
export const fleetNodes = [fleetNode(1, "h200_sxm", counts(8, 8, 7, 6)), fleetNode(2, "h200_sxm", counts(4, 1, 1, 1)), fleetNode(3, "l40s", counts(4, 2, 0, 0), "cordoned: new cables")];

export const quotas = { etag: "q7", max_allocations: 32, used_allocations: 4, default_max_gpus: 0, max_reserved_gpus: 16, quotas: [{ sku: "h200-sxm-slice", max_gpus: 16, used_gpus: 6 }, { sku: "l40s-slice", max_gpus: 2, used_gpus: 2 }] };

export const healthEvents = [
  { id: "e1", allocation_id: allocationId(1), gpu_count: 1, health: "degraded", start_time: ago(3), end_time: ago(2), message: "A check of the host failed." },
  { id: "e2", allocation_id: allocationId(2), gpu_count: 1, health: "unknown", start_time: ago(1), message: "Its host does not report." },
];

export const ACME = "01930000-0000-7000-8000-0000000000ac";
export const organisations = [
  { id: ACME, slug: "acme", display_name: "Acme Research", state: "active", etag: "o1", create_time: ago(900) },
  { id: "01930000-0000-7000-8000-0000000000ad", slug: "globex", display_name: "Globex", state: "suspended", etag: "o2", create_time: ago(800) },
];
export const members = [
  { member_id: uuid(4, 1), principal: "user:alice", display_name: "Alice", email: "alice@example.com", kind: "user", role: "owner", create_time: ago(800), etag: "m1" },
  { member_id: uuid(4, 2), principal: "user:bob", display_name: "Bob", email: "bob@example.com", kind: "user", role: "member", create_time: ago(300), etag: "m2" },
  { member_id: uuid(4, 3), principal: "user:carol", display_name: "Carol", email: "", kind: "user", role: "viewer", create_time: ago(30), etag: "m3", disabled: true },
];
export const invitations = [
  { id: uuid(5, 1), project_id: VISION, email: "dan@example.com", role: "member", state: "pending", inviter: "user:alice", create_time: ago(10), expire_time: ahead(150), target: "acme/vision" },
  { id: uuid(5, 2), project_id: VISION, email: "eve@example.com", role: "billing", state: "expired", inviter: "user:alice", create_time: ago(400), expire_time: ago(200), target: "acme/vision" },
];
const grants = [
  { id: uuid(5, 7), project_id: VISION, allocation_id: allocationId(1), principal: "user:carol", permission: "terminal", creator: "user:alice", create_time: ago(10), expire_time: ahead(150) },
];
const KEY = `ssh-ed25519 ${"A".repeat(68)} alice@laptop`;
export const ownKeys = [
  { id: uuid(6, 1), name: "laptop", public_key: KEY, fingerprint: `SHA256:${"x".repeat(43)}`, create_time: ago(100) },
  { id: uuid(6, 2), name: "workstation", public_key: KEY, fingerprint: `SHA256:${"y".repeat(43)}`, create_time: ago(50) },
];
export const projectKeys = [{ id: uuid(6, 3), name: "deploy", public_key: KEY, fingerprint: `SHA256:${"z".repeat(43)}`, create_time: ago(20), project_id: VISION }];

export const accountId = uuid(7, 1);
export const serviceAccounts = [
  { id: accountId, project_id: VISION, slug: "ci", principal: "service:ci.3f9a1c22b7d4", description: "Pipelines", role: "member", creator: "user:alice", create_time: ago(400) },
  { id: uuid(7, 2), project_id: VISION, slug: "old", principal: "service:old.1", description: "", role: "viewer", creator: "user:alice", create_time: ago(900), disable_time: ago(100) },
];
export const apiKeys = [
  { id: uuid(8, 1), service_account_id: accountId, display_name: "pipeline", scopes: ["read", "write"], prefix: "gpuaas_1_01930000", creator: "user:alice", create_time: ago(300), expire_time: ahead(900), last_used_time: ago(2) },
  { id: uuid(8, 2), service_account_id: accountId, display_name: "first", scopes: ["read"], prefix: "gpuaas_1_01930001", creator: "user:alice", create_time: ago(800), disable_time: ago(300) },
];
export const webhooks = [
  { id: uuid(9, 1), project_id: VISION, url: "https://hooks.example.com/gpuaas", event_types: ["allocation.active", "allocation.failed"], description: "Scheduler", state: "enabled", creator: "user:alice", create_time: ago(300), failing_time: ago(2), etag: "3" },
  { id: uuid(9, 2), project_id: VISION, url: "https://old.example.com/a-long-address-that-has-to-break-on-narrow-screens/and-goes-on", event_types: [], description: "", state: "disabled", disable_reason: "The endpoint answered 410 Gone.", creator: "user:alice", create_time: ago(900), disable_time: ago(40), etag: "7" },
];
export const deliveries = [
  { id: uuid(9, 13), webhook_id: uuid(9, 1), event_type: "allocation.active", object_id: allocationId(1), state: "pending", attempts: 3, response_status: 0, error: "no answer in time", create_time: ago(1), last_attempt_time: ago(0.2), next_attempt_time: ahead(0.2) },
  { id: uuid(9, 12), webhook_id: uuid(9, 1), event_type: "allocation.failed", object_id: allocationId(3), state: "failed", attempts: 30, response_status: 500, error: "the answer was 500", create_time: ago(60), last_attempt_time: ago(36) },
  { id: uuid(9, 11), webhook_id: uuid(9, 1), event_type: "allocation.active", object_id: allocationId(2), state: "delivered", attempts: 1, response_status: 204, create_time: ago(80), last_attempt_time: ago(80), deliver_time: ago(80) },
];
/** Where each allocation of the list of operators is. */
const placed = () => [...allocations, lost].map((one) => ({ allocation: { ...one, creator: "user:alice" }, node_id: one.id === lost.id ? nodeId(4) : one.status.queue ? "" : nodeId(1) }));

const total = intervals.reduce((sum, { amount }) => sum + Number(amount.units) + amount.nanos / 1e9, 0);

/** What operators see of an allocation beside itself. */
const DETAIL = {
  claims: [{ id: uuid(9, 1), kind: "slot", node_id: nodeId(1), slot_id: slots[0].id, slot_index: 1, state: "active", slot_generation: "7", bindings: { gpu_pci_address: "0000:1b:00.0", nvme_device: "/dev/disk/by-id/nvme-eui.0000000000000001", nvme_bytes: "3840755982336" }, create_time: ago(31) }],
  tasks: [{ id: uuid(9, 2), type: "slice.vm_provision", state: "done", output: "{}", create_time: ago(31), end_time: ago(30) }],
  timeline: [{ sequence: "1", time: ago(31), step: "reserve", state: "done", message: "Reserved 4 GPU of h200-sxm-slice in eu-1.", end_time: ago(31) }, { sequence: "2", time: ago(30), step: "provision.boot", state: "done", message: "Started the VM.", end_time: ago(30) }],
};

/** Ledger, host and hypervisor of a node: one agrees, one ends by itself, three wait for an operator. */
const comparison = (id) => ({
  node_id: id,
  rows: [
    { allocation_id: allocationId(1), ledger_state: "active", has_claims: true, journal_slot_ids: [slots[0].id], has_reservation: true, domain_state: "running", verdict: "agrees", detail: "" },
    { allocation_id: allocationId(3), ledger_state: "releasing", has_claims: true, journal_slot_ids: [], has_reservation: false, domain_state: "", verdict: "finish", detail: "a workflow works on it" },
    { allocation_id: allocationId(2), ledger_state: "active", has_claims: true, journal_slot_ids: [], has_reservation: false, domain_state: "", verdict: "report", detail: "it is active, and the hypervisor has no VM of it: release it", correction: "report", etag: "2a" },
    { allocation_id: allocationId(98), ledger_state: "", has_claims: false, journal_slot_ids: [], has_reservation: false, has_seed: true, has_nvram: true, domain_state: "", verdict: "report", detail: "the ledger holds nothing for it, and its seed is there: the correction removes the seed", correction: "undo", etag: "62b" },
    { allocation_id: allocationId(99), ledger_state: "", has_claims: false, journal_slot_ids: slots.filter(({ node_id, status }) => node_id === id && status === "cleanup_blocked").map((one) => one.id), has_reservation: false, domain_state: "", verdict: "report", detail: "the ledger holds nothing for it, and the host holds slots for it: repair them" },
  ],
  differences: [
    { subject: "disk", kind: "disk_missing", slot_id: slots[0].id, slot_index: slots[0].slot_index, message: "No disk of the host has the identity /dev/disk/by-id/nvme-eui.0000000000000001.", since: ago(3), remediation: "Look for the disk in the host's kernel log.", verdict: "report", correction: "unspecified", detail: "an allocation has the slot, and nothing is touched: it is repaired after its release" },
    { subject: "partition", kind: "partition_unowned", observed: "6", message: "Partition 6 of the GPUs 5, 7 is active, and no VM of this host has it.", since: ago(1), remediation: "See Fabric Manager's table (`fmpm -l`) and the agent's log.", verdict: "report", correction: "deactivate_partition", detail: "the correction deactivates it; its host refuses that while a VM may have its GPUs" },
  ],
});

const printed = ["Linux version 6.1.0 (debian-kernel)\r\n", ...Array.from({ length: 60 }, (_, n) => `[    ${n}.25] pci 0000:00:${String(n).padStart(2, "0")}.0: BAR 0\r\n`), "[  \u001b[32mOK\u001b[0m  ] Reached target Multi-User System.\r\n", "train-large login: "];

/** What a VM printed: in a stream that stays open with follow, and that ends without. */
function serialLog(_, { searchParams }) {
  let offset = 0;
  const parts = printed.map((text) => {
    const part = { offset: String(offset), print_time: ago(1), data: Buffer.from(text).toString("base64") };
    offset += text.length;
    return { part };
  });
  return searchParams.has("follow") ? parts : [...parts, { end: {} }];
}

/** What a VM uses: waves over the time that is asked for, with a gap; two GPUs. */
function metrics(_, { searchParams }) {
  const [start, end] = ["start_time", "end_time"].map((name) => Date.parse(searchParams.get(name)));
  const step = end - start > 2 * HOUR ? 360 : 15;
  const steps = Math.floor((end - start) / step / 1000);
  const wave = (low, high, turns, shift = 0) =>
    Array.from({ length: steps }, (_, n) => n)
      .filter((n) => n < steps * 0.55 || n > steps * 0.65)
      .map((n) => ({ time: new Date(start + n * step * 1000).toISOString(), value: low + ((high - low) * (1 + Math.sin((n / steps) * turns * 2 * Math.PI + shift))) / 2 }));
  const GIB = 2 ** 30;
  const series = [
    { metric: "cpu_percent", points: wave(20, 85, 3) },
    { metric: "memory_used_bytes", points: wave(180 * GIB, 220 * GIB, 1) },
    { metric: "memory_total_bytes", points: wave(480 * GIB, 480 * GIB, 1) },
    { metric: "network_received_bytes_per_second", points: wave(2 ** 20, 90 * 2 ** 20, 4) },
    { metric: "network_sent_bytes_per_second", points: wave(0, 2 ** 20, 2) },
    { metric: "disk_read_bytes_per_second", points: wave(0, 800 * 2 ** 20, 5) },
    { metric: "disk_written_bytes_per_second", points: wave(0, 120 * 2 ** 20, 2, 1) },
    ...[0, 1].flatMap((gpu) => [
      { metric: "gpu_utilization_percent", gpu, points: wave(60, 99, 3, gpu) },
      { metric: "gpu_memory_used_bytes", gpu, points: wave(90 * GIB, 130 * GIB, 1, gpu) },
      { metric: "gpu_temperature_celsius", gpu, points: wave(48, 66, 2, gpu) },
      { metric: "gpu_power_watts", gpu, points: wave(420, 690, 3, gpu) },
    ]),
  ];
  return { allocation_id: allocationId(1), step_seconds: step, series, guest_state: "complete" };
}

/** Who is registered: an administrator, a member, somebody who is disabled, a program. */
export const principals = [
  { id: uuid(7, 1), name: "user:olga", display_name: "Olga", email: "olga@example.com", kind: "user", platform_role: "admin", issuer: "https://login.acme.example", subject: "u-1", etag: "p1", create_time: ago(9000) },
  { id: uuid(7, 2), name: "user:alice", display_name: "Alice", email: "alice@example.com", kind: "user", platform_role: "unspecified", issuer: "https://login.acme.example", subject: "u-2", etag: "p2", create_time: ago(800) },
  { id: uuid(7, 3), name: "user:carol", display_name: "Carol", kind: "user", platform_role: "auditor", issuer: "https://login.partners.example/a/long/path/of/an/issuer", subject: "auth0|5f7c8ec7c33c6c004bbafe82", disable_time: ago(3), etag: "p3", create_time: ago(700) },
  { id: uuid(7, 4), name: "sa:vision/ci", display_name: "ci", kind: "service_account", platform_role: "unspecified", etag: "p4", create_time: ago(20) },
];

/** Groups of the organisation's identity provider: one that is mapped, one that is not. */
export const groups = [
  { id: uuid(6, 1), display_name: "ml-engineers", member_count: 17, mappings: [{ id: uuid(6, 4), group_id: uuid(6, 1), project_id: VISION, project: "vision", role: "member" }] },
  { id: uuid(6, 2), display_name: "finance-and-controlling", member_count: 3, mappings: [] },
];

/** Terminals of all projects: one that is open, one of another program, one that ended. */
const terminals = [
  { id: uuid(8, 11), allocation_id: allocationId(1), project_id: VISION, principal: "user:alice", kind: "shell", open_time: ago(0.5), recorded: true, recording_bytes: "0" },
  { id: uuid(8, 12), allocation_id: allocationId(1), project_id: VISION, principal: "service:ci.3f9a1c22b7d4", kind: "ssh_tunnel", open_time: ago(5), close_time: ago(4), close_reason: "closed_by_client", recorded: false },
  { id: uuid(8, 13), allocation_id: allocationId(2), project_id: VISION, principal: "user:bob", kind: "shell", open_time: ago(30), close_time: ago(29.5), close_reason: "powered_off", recorded: true },
];

/** The network setting of the project, as it was put last. */
const network = { project_id: VISION, vms_reach_each_other: false, etag: "n1" };

// what an operator's list of allocations is searched by (services/placement/src/allocations.rs)
const ALLOCATION_FIELDS = ["id", "name", "display_name", "state", "power", "sku", "image", "creator", "project_id", "node_id"];

/** The answers that all chapters share. */
export const answers = {
  "GET /api/v1/allocations:watch": allocations.map((one) => ({ change: { kind: "added", allocation: one } })),
  "GET /api/v1/allocations": { allocations: [...allocations, failed] },
  [`GET /api/v1/allocations/${failed.id}:watch`]: [{ change: { kind: "added", allocation: failed } }, { entry: { sequence: "1", time: ago(2), step: "provision.boot", state: "done", message: "Started the VM.", end_time: ago(1.9) } }, { entry: { sequence: "2", time: ago(1.9), step: "provision.ssh", state: "failed", message: "The guest did not accept a login.", error: { code: 4, message: OBSERVED }, end_time: ago(1.7) } }],
  "GET /api/v1/allocations/*:watch": [{ change: { kind: "added", allocation: { ...allocations[0], creator: "user:alice" } } }, { entry: { sequence: "1", time: ago(30), step: "provision.boot", state: "done", message: "Started the VM.", end_time: ago(29.9) } }, { entry: { sequence: "2", time: ago(2), step: "rebooting", state: "done", message: "The reboot is accepted.", end_time: ago(2), actor: "operator", reason: "new firmware" } }],
  "GET /api/v1/allocations/*/terminal-sessions": { sessions: [] },
  [`GET /api/v1/allocations/${allocationId(2)}/metrics`]: { allocation_id: allocationId(2), step_seconds: 15, series: [], guest_state: "no_gpu_tool", guest_message: "No GPU metrics: nvidia-smi is not installed in the VM. Install the NVIDIA driver, or launch an image that has it." },
  "GET /api/v1/allocations/*/metrics": metrics,
  "GET /api/v1/allocations/*/serial-log": serialLog,
  "POST /api/v1/allocations/*/terminal-sessions": { ticket: "t", websocket_path: "/terminal-played" },
  "GET /api/v1/usage": (_, address) => {
    const own = address.searchParams.get("project_id") === SPEECH ? [] : intervals;
    return { intervals: own, totals: own.length ? [{ gpu_microseconds: String(169 * HOUR * 1000), amount: euro(total) }] : [], next_page_token: "" };
  },
  "GET /api/v1/quotas": quotas,
  "GET /api/v1/project-network": network,
  "PUT /api/v1/project-network": (body) => Object.assign(network, body),
  "GET /api/v1/health-events": (_, { searchParams }) => ({ events: filtered(searchParams, ["allocation_id", "health", "break_fix", "start_time", "end_time"], healthEvents.filter((one) => [null, one.allocation_id].includes(searchParams.get("allocation_id")))) }),
  "GET /api/v1/skus": { skus },
  "GET /api/v1/regions": { regions },
  "GET /api/v1/images": { images: images.slice(0, 1) },
  "GET /api/v1/availability": { availability: skus.flatMap(({ code, allowed_gpu_counts }) => allowed_gpu_counts.map((gpu_count) => ({ region_code: "eu-1", sku: code, gpu_count, fits: gpu_count > 2 ? 0 : 2, reasons: [] }))) },
  "GET /api/v1/availability:explain": { region_code: "eu-1", sku: "h200-sxm-slice", gpu_count: 1, nodes: 4, nodes_fit: 1, removed: [] },
  "POST /api/v1/allocations": (body) => (body.validate_only ? { ...allocations[0], placement: { nodes: 4, nodes_fit: 1, removed: [] } } : allocations[2]),
  "POST /api/v1/allocations/*:stop": allocations[0],
  "POST /api/v1/allocations/*:reboot": allocations[0],
  "POST /api/v1/allocations/*:release": allocations[0],
  "GET /api/v1/admin/projects": { projects },
  "GET /api/v1/admin/nodes:watch": [...nodes.map((one) => ({ node: { kind: "added", node: one } })), ...slots.map((one) => ({ slot: { kind: "added", slot: one } }))],
  "GET /api/v1/admin/node-placements": { nodes: placements },
  "GET /api/v1/admin/fleet:counts": fleet,
  "GET /api/v1/admin/fleet/nodes": { nodes: fleetNodes },
  "GET /api/v1/admin/allocations": (_, { searchParams }) => {
    const [project, node, state] = ["project_id", "node_id", "state"].map((name) => searchParams.get(name) ?? "");
    const own = placed().filter(({ allocation: { config, status }, node_id }) => (!project || config.project_id === project) && (!node || node_id === node) && (!state || status.state === state));
    return { allocations: filtered(searchParams, ALLOCATION_FIELDS, own, ({ allocation, node_id }) => ({ ...allocation, ...allocation.config, state: allocation.status.state, power: allocation.status.power, node_id })), next_page_token: "" };
  },
  "POST /api/v1/admin/nodes/*:cordon": (_, { pathname }) => ({ node_id: pathname.split("/")[5].split(":")[0], admin_state: "cordoned", etag: "q" }),
  "POST /api/v1/admin/allocations/*:stop": allocations[0],
  "POST /api/v1/admin/allocations/*:release": allocations[0],
  "PATCH /api/v1/allocations/*": (body) => ({ ...allocations[0], display_name: body.display_name }),
  "GET /api/v1/projects/*/activities": {
    activities: [
      { id: uuid(9, 3), create_time: ago(2), actor: "user:olga", actor_kind: "user", action: "allocation.stop", summary: "Stopped the allocation", kind: "allocation", resource: "allocation", resource_id: allocationId(1), allocation_id: allocationId(1), outcome: "allowed" },
      { id: uuid(9, 2), create_time: ago(20), actor: "user:vera", actor_kind: "user", action: "service_account.create", summary: "Denied: create the service account", kind: "service_account", resource: "project", outcome: "denied" },
      { id: uuid(9, 1), create_time: ago(200), actor: "operator", actor_kind: "operator", action: "allocation.operator_stop", summary: "Stopped the allocation", kind: "allocation", resource: "allocation", resource_id: allocationId(2), allocation_id: allocationId(2), reason: "Maintenance of the node", outcome: "allowed" },
    ],
  },
  "GET /api/v1/projects/*/service-accounts": (_, { searchParams }) => ({ service_accounts: filtered(searchParams, ["slug", "principal", "description"], serviceAccounts) }),
  "POST /api/v1/projects/*/service-accounts": serviceAccounts[0],
  "POST /api/v1/projects/*/service-accounts/*:disable": serviceAccounts[1],
  "GET /api/v1/projects/*/service-accounts/*/api-keys": (_, { pathname }) => ({ api_keys: pathname.includes(accountId) ? apiKeys : [] }),
  "POST /api/v1/projects/*/service-accounts/*/api-keys": { ...apiKeys[0], key: "gpuaas_1_shown_once" },
  "POST /api/v1/projects/*/service-accounts/*/api-keys/*:rotate": { ...apiKeys[0], key: "gpuaas_1_rotated" },
  "POST /api/v1/projects/*/service-accounts/*/api-keys/*:disable": apiKeys[1],
  "GET /api/asyncapi.json": { components: { messages: { a: { name: "allocation.active", summary: "It is ready." }, f: { name: "allocation.failed", summary: "It has failed." }, p: { name: "webhook.ping", summary: "A test." } } } },
  "GET /api/v1/projects/*/webhooks": (_, { searchParams }) => ({ webhooks: filtered(searchParams, ["url", "description"], webhooks) }),
  "POST /api/v1/projects/*/webhooks": { ...webhooks[0], secret: "whsec_shown_once" },
  "POST /api/v1/webhooks/*:rotateSecret": { ...webhooks[0], secret: "whsec_rotated" },
  "POST /api/v1/webhooks/*:ping": deliveries[0],
  "PATCH /api/v1/webhooks/*": webhooks[0],
  "GET /api/v1/webhooks/*/deliveries": (_, { pathname, searchParams }) => ({ deliveries: pathname.includes(webhooks[0].id) ? filtered(searchParams, ["id", "event_type", "object_id", "error"], deliveries.filter((one) => one.state === (searchParams.get("state") ?? one.state))) : [] }),
  "POST /api/v1/webhooks/*/deliveries/*:redeliver": { ...deliveries[1], state: "pending" },
  "GET /api/v1/organisations": { organisations: [{ ...organisations[0], role: "owner" }, { ...organisations[1], role: "unspecified" }] },
  "PATCH /api/v1/organisations/*": organisations[0],
  "GET /api/v1/organisations/*/members": { members },
  "POST /api/v1/organisations/*/members": members[1],
  "GET /api/v1/organisations/*/invitations": { invitations: [] },
  "GET /api/v1/organisations/*/guardrails": { organisation_id: ACME, etag: "g1" },
  "PATCH /api/v1/organisations/*/guardrails": { organisation_id: ACME, etag: "g3" },
  "GET /api/v1/organisations/*/scim": { organisation_id: ACME, issuer: "https://login.acme.example", subject_attribute: "user_name", user_count: "42", group_count: "2", create_time: ago(900), update_time: ago(400), etag: "s1" },
  "PUT /api/v1/admin/organisations/*/scim": (body) => ({ organisation_id: ACME, ...body, etag: "s2" }),
  "POST /api/v1/admin/terminal-sessions/*:end": ({ reason }, { pathname }) => Object.assign(terminals.find(({ id }) => pathname.includes(id)), { end_request_time: ago(0), end_reason: reason }),
  "GET /api/v1/admin/terminal-sessions": (_, { searchParams }) => ({ sessions: filtered(searchParams, ["allocation_id", "project_id", "principal", "close_time", "close_reason"], terminals.filter((one) => [null, one.allocation_id].includes(searchParams.get("allocation_id")))) }),
  "GET /api/v1/organisations/*/scim/groups": { groups },
  "GET /api/v1/organisations/*/scim/keys": { keys: [] },
  "POST /api/v1/organisations/*/scim/groups/*/mappings": { id: uuid(6, 3), group_id: uuid(6, 2), project_id: SPEECH, project: "speech", role: "viewer" },
  "DELETE /api/v1/organisations/*/scim/groups/*/mappings/*": {},
  "GET /api/v1/projects": (_, { searchParams }) => ({ projects: filtered(searchParams, ["slug", "display_name"], projects.map((one) => ({ ...one, state: "active", role: "owner" }))) }),
  "GET /api/v1/admin/allocations/*": (_, address) => {
    const one = [...allocations, lost].find(({ id }) => address.pathname.endsWith(id));
    return one ? { allocation: one, node_id: nodeId(1), ...DETAIL } : { error: { code: 404, status: "NOT_FOUND", message: "There is no such allocation.", details: [] } };
  },
  "GET /api/v1/admin/nodes/*": (_, { pathname }) => nodes.find(({ id }) => pathname.endsWith(id)) ?? nodes[0],
  "GET /api/v1/admin/nodes/*/comparison": (_, { pathname }) => comparison(pathname.split("/")[5]),
  "POST /api/v1/admin/nodes/*/resource-slots/*:repair": { state: "running" },
  "POST /api/v1/admin/nodes/*/comparison/*:correct": { verdict: "agrees" },
  "POST /api/v1/admin/nodes/*/partitions/*:deactivate": {},
  "GET /api/v1/admin/images": (_, { searchParams }) => {
    const filter = searchParams.get("filter") ?? "";
    const [text, status] = [/slug:"([^"]*)"/, /status = (\w+)/].map((pattern) => pattern.exec(filter)?.[1] ?? "");
    return { images: images.filter((one) => one.slug.includes(text) && (!status || one.status === status)) };
  },
  "GET /api/v1/admin/prices": (_, { searchParams }) => ({ price_versions: [{ id: "price-2", sku: "h200-sxm-slice", price_per_gpu_hour: euro(2.5), effective_time: ago(200) }, { id: "price-1", sku: "h200-sxm-slice", price_per_gpu_hour: euro(2.912345678), effective_time: ago(2000) }, { id: "price-0", sku: "l40s-slice", price_per_gpu_hour: euro(0.04), effective_time: ago(3000) }].filter(({ sku }) => [null, sku].includes(searchParams.get("sku"))) }),
  "GET /api/v1/admin/projects/*/quotas": quotas,
  "GET /api/v1/admin/projects/*/priority": (_, { pathname }) => ({ project_id: pathname.split("/")[5], priority: "normal", etag: "1" }),
  "PUT /api/v1/admin/projects/*/priority": (body, { pathname }) => ({ project_id: pathname.split("/")[5], priority: body.priority, etag: "3" }),
  "GET /api/v1/admin/projects/*/reservation-limit": (_, { pathname }) => ({ project_id: pathname.split("/")[5], max_gpus: 16, reserved_gpus: 6, etag: "l1" }),
  "PUT /api/v1/admin/projects/*/reservation-limit": (body, { pathname }) => ({ project_id: pathname.split("/")[5], max_gpus: body.max_gpus, reserved_gpus: 6, etag: "l2" }),
  "PUT /api/v1/admin/regions/*": (body) => body,
  "PUT /api/v1/admin/skus/*": (body) => body,
  "POST /api/v1/admin/prices": (body) => ({ id: "price-3", ...body }),
  "POST /api/v1/admin/images": images[0],
  "POST /api/v1/admin/images/*:setStatus": images[0],
  "PUT /api/v1/admin/projects/*/quotas/*": { max_gpus: 4 },
  "PUT /api/v1/admin/projects/*/allocation-limit": { max_allocations: 4 },
  "GET /api/v1/ssh-keys": { ssh_keys: ownKeys },
  "POST /api/v1/ssh-keys": ownKeys[0],
  "DELETE /api/v1/ssh-keys/*": {},
  "GET /api/v1/projects/*/ssh-keys": { ssh_keys: projectKeys },
  "GET /api/v1/projects/*": { ...projects[0], state: "active", role: "owner", etag: "p1", create_time: ago(900) },
  "PATCH /api/v1/projects/*": projects[0],
  "POST /api/v1/projects/*:suspend": { ...projects[0], state: "suspended" },
  "POST /api/v1/projects/*:resume": { ...projects[0], state: "active" },
  "POST /api/v1/projects/*:close": { ...projects[0], state: "closed" },
  "GET /api/v1/projects/*/members": { members },
  "POST /api/v1/projects/*/members": members[1],
  "PATCH /api/v1/projects/*/members/*": members[1],
  "DELETE /api/v1/projects/*/members/*": {},
  "GET /api/v1/projects/*/allocation-grants": (_, { searchParams }) => ({ grants: filtered(searchParams, ["principal", "creator"], grants) }),
  "GET /api/v1/projects/*/invitations": (_, { searchParams }) => ({ invitations: filtered(searchParams, ["email", "inviter", "state"], invitations) }),
  "POST /api/v1/projects/*/invitations": (body) => ({ ...invitations[0], id: uuid(5, 9), email: body.email, token: "invite-once-42" }),
  "POST /api/v1/invitations/*:revoke": { ...invitations[0], state: "revoked" },
  "POST /api/v1/invitations:accept": (body) =>
    body.token === "good" ? { ...invitations[0], state: "accepted" } : { error: { code: 403, status: "PERMISSION_DENIED", message: "This invitation has expired.", details: [{ "@type": "type.googleapis.com/google.rpc.ErrorInfo", reason: "INVITATION_INVALID", domain: "gpuaas" }] } },
  "GET /api/v1/admin/principals": (_, { searchParams }) => {
    const [role, disabled] = ["platform_role", "disabled"].map((field) => searchParams.get(field));
    return { principals: filtered(searchParams, ["name", "display_name", "email"], principals).filter((one) => (!role || one.platform_role === role) && (disabled === null || String(!!one.disable_time) === disabled)) };
  },
  "POST /api/v1/admin/principals": principals[0],
  "POST /api/v1/admin/principals/*:setPlatformRole": principals[1],
  "POST /api/v1/admin/principals/*:disable": principals[1],
  "POST /api/v1/admin/principals/*:enable": principals[2],
  "GET /api/v1/organisations/*/webhooks": { webhooks: webhooks.slice(0, 1) },
  "POST /api/v1/organisations/*/webhooks": { ...webhooks[0], secret: "whsec_shown_once" },
  "POST /api/v1/admin/nodes/*:retire": (_, { pathname }) => nodes.find(({ id }) => pathname.includes(id)),
  "DELETE /api/v1/admin/nodes/*": {},
  "GET /api/v1/admin/organisations": { organisations },
  "GET /api/v1/organisations/*": (_, { pathname }) => organisations.find(({ id }) => pathname.endsWith(id)) ?? organisations[0],
  "POST /api/v1/admin/organisations": organisations[0],
  "POST /api/v1/admin/organisations/*:suspend": organisations[1],
  "POST /api/v1/projects": projects[0],
  "POST /api/v1/admin/nodes": { id: nodeId(7) },
  "POST /api/v1/admin/nodes/*/enrolment-tokens": { node_id: nodeId(7), token: "enrol-once-0123456789", expire_time: ahead(1) },
};
