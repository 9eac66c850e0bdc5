/** What the drawing of a node shows: its devices by memory domain, with the slots that have them. Pure. */
import type { Discovery, Slot, SlotCandidate } from "../../api/types";
import { bytes, sentence } from "../../lib/text";
import type { Tone } from "../../ui/basics";
import type { GpuDevice, FabricDevice, Host, NvmeDisk, PciFunction } from "./host";
import { slotTone, slotWord } from "./parts";

export interface Device {
  /** Unique on the node. */
  key: string;
  kind: "gpu" | "disk" | "nic" | "vf";
  /** What is drawn on it, in two short lines. */
  name: string;
  detail: string;
  /** Index of the slot that has it. */
  slot: number | undefined;
  tone: Tone;
  /** Drawn hollow: it is in no approved slot. */
  hollow: boolean;
  /** Its identity, for the one that points at it. */
  facts: [string, string][];
}

/** A slot or a candidate with its devices, which stand below each other. */
export interface Column {
  index: number;
  word: string;
  tone: Tone;
  hollow: boolean;
  devices: Device[];
}

export interface Nic {
  device: Device;
  functions: Device[];
}

/** The devices of one memory domain. */
export interface Domain {
  title: string;
  /** Processor and memory, where they are known. */
  note: string;
  columns: Column[];
  /** Devices that are in no slot. */
  rest: Device[];
  nics: Nic[];
}

interface Owner {
  index: number;
  word: string;
  tone: Tone;
  hollow: boolean;
  bindings: NonNullable<SlotCandidate["bindings"]>;
}

/** Approved slots, and candidates that are none yet. */
function ownersOf(slots: Slot[], candidates: SlotCandidate[]): Owner[] {
  const approved = slots.filter(({ status }) => status !== "retired");
  const taken = new Set(approved.map(({ slot_index }) => slot_index));
  const owners = approved.map((slot): Owner => ({ index: slot.slot_index ?? 0, word: sentence(slotWord(slot)), tone: slotTone(slot), hollow: false, bindings: slot.bindings ?? {} }));
  for (const { slot_index = 0, bindings = {}, blockers = [] } of candidates) {
    if (taken.has(slot_index)) continue;
    owners.push({ index: slot_index, word: blockers.length > 0 ? "Blocked candidate" : "Candidate", tone: blockers.length > 0 ? "warn" : "idle", hollow: true, bindings });
  }
  return owners.sort((a, b) => a.index - b.index);
}

/** The part of a PCI address that people compare. */
export function shortPci(address: string): string {
  return address.replace(/^0000:/, "");
}

const known = (facts: [string, string | number | undefined][]): [string, string][] => facts.filter(([, value]) => value !== undefined && value !== "" && value !== 0).map(([name, value]) => [name, String(value)]);

function pciFacts(f: PciFunction): [string, string | number | undefined][] {
  const link = f.link && `${f.link.speed} ×${f.link.width}${f.link.degraded ? `, could be ${f.link.max_speed} ×${f.link.max_width}` : ""}`;
  return [
    ["PCI address", f.pci_address],
    ["Model", f.model_id],
    ["Serial", f.serial],
    ["Bay", f.physical_slot],
    ["IOMMU group", f.iommu_group === undefined ? undefined : `${f.iommu_group}${f.iommu_companions?.length ? ` with ${f.iommu_companions.join(", ")}` : ""}`],
    ["Driver", f.driver],
    ["Link", link],
    ["Fault", f.fault],
  ];
}

/** A device without a slot says by its colour whether something is wrong with it. */
function toneOf(owner: Owner | undefined, f: PciFunction | undefined, fault = f?.fault): Tone {
  if (fault) return "bad";
  if (f?.link?.degraded) return "warn";
  return owner?.tone ?? "idle";
}

function gpuDevice(address: string, gpu: GpuDevice | undefined, owner: Owner | undefined): Device {
  const module = gpu?.module_id ?? owner?.bindings.gpu_module_id;
  return {
    key: `gpu ${address}`,
    kind: "gpu",
    name: module === undefined ? "GPU" : `GPU ${module}`,
    detail: shortPci(address),
    slot: owner?.index,
    tone: toneOf(owner, gpu?.function),
    hollow: owner?.hollow ?? true,
    facts: known([...(gpu?.function ? pciFacts(gpu.function) : [["PCI address", address] as [string, string]]), ["Class", gpu?.slot_class], ["UUID", gpu?.uuid], ["Firmware", gpu?.firmware_version], ["Module", module], ["NVLink domain", gpu?.nvlink_domain]]),
  };
}

function diskDevice(identity: string, disk: NvmeDisk | undefined, owner: Owner | undefined, size: number): Device {
  const uses = (disk?.uses ?? []).map(({ kind, device, detail }) => [sentence(kind ?? ""), device, detail].filter(Boolean).join(" "));
  const { percent_used, media_errors } = disk?.health ?? {};
  return {
    key: `disk ${identity}`,
    kind: "disk",
    name: uses.length > 0 && !owner ? "In use" : "NVMe",
    detail: size > 0 ? bytes(size) : "",
    slot: owner?.index,
    tone: toneOf(owner, disk?.controller, disk?.fault),
    hollow: owner?.hollow ?? true,
    facts: known([
      ["Identity", identity],
      ["Size", size > 0 ? bytes(size) : undefined],
      ["Model", disk?.model],
      ["Serial", disk?.serial],
      ["Kernel name", disk?.kernel_name],
      ["WWN", disk?.wwid],
      ["Controller", disk?.controller?.pci_address],
      ["Wear", percent_used === undefined ? undefined : `${percent_used} %`],
      ["Media errors", media_errors === undefined ? undefined : String(media_errors)],
      ["Used by", uses.join(", ")],
      ["Fault", disk?.fault],
    ]),
  };
}

function vfDevice(address: string, owner: Owner | undefined, f: PciFunction | undefined, more: [string, string | number | undefined][]): Device {
  return {
    key: `vf ${address}`,
    kind: "vf",
    name: "VF",
    detail: shortPci(address),
    slot: owner?.index,
    tone: toneOf(owner, f),
    hollow: owner?.hollow ?? true,
    facts: known([...(f ? pciFacts(f) : [["PCI address", address] as [string, string]]), ...more]),
  };
}

function nicOf(device: FabricDevice, host: Host, byVf: Map<string, Owner>): Nic {
  const f = device.function ?? {};
  const ports = (device.ports ?? []).map(({ number, link_layer, state, rate }) => `${number}: ${[link_layer, state, rate].filter(Boolean).join(", ")}`);
  const neighbours = (host.neighbors ?? []).filter((one) => device.interfaces?.includes(one.interface ?? ""));
  const down = (device.ports ?? []).length > 0 && device.ports?.every(({ state }) => state !== "ACTIVE");
  const virtual = device.virtual_functions ?? [];
  return {
    device: {
      key: `nic ${f.pci_address}`,
      kind: "nic",
      name: device.rdma_device || device.interfaces?.[0] || "NIC",
      detail: `${shortPci(f.pci_address ?? "")}${device.bluefield ? ", BlueField" : ""}`,
      slot: undefined,
      tone: f.fault ? "bad" : down || f.link?.degraded ? "warn" : "idle",
      hollow: true,
      facts: known([
        ...pciFacts(f),
        ["RDMA device", device.rdma_device],
        ["Interfaces", device.interfaces?.join(", ")],
        ["Ports", ports.join("; ")],
        ["GUID", device.node_guid],
        ["Firmware", device.firmware_version],
        ["Functions", device.sriov_totalvfs ? `${device.sriov_numvfs ?? 0} of ${device.sriov_totalvfs}` : undefined],
        ["Switch", neighbours.map(({ switch_name, port_id }) => `${switch_name} ${port_id}`).join(", ")],
      ]),
    },
    functions: virtual.map(({ number, function: own = {}, node_guid, port_guid, link_policy }) =>
      vfDevice(own.pci_address ?? "", byVf.get(own.pci_address ?? ""), own, [["Number", String(number ?? 0)], ["Node GUID", node_guid], ["Port GUID", port_guid], ["Link policy", link_policy]]),
    ),
  };
}

/** Without a richer report, the functions that the bindings name, by their parent. */
function nicsFromBindings(owners: Owner[]): Nic[] {
  const parents = new Map<string, Owner[]>();
  for (const owner of owners) {
    const { fabric_device = "", fabric_vf_pci_address = "" } = owner.bindings;
    if (fabric_device && fabric_vf_pci_address) parents.set(fabric_device, [...(parents.get(fabric_device) ?? []), owner]);
  }
  return [...parents].map(([name, own]) => ({
    device: { key: `nic ${name}`, kind: "nic", name, detail: "", slot: undefined, tone: "idle", hollow: true, facts: [["RDMA device", name]] },
    functions: own.map((owner) => vfDevice(owner.bindings.fabric_vf_pci_address ?? "", owner, undefined, [])),
  }));
}

function columnOf(owner: Owner, gpus: Map<string, GpuDevice>, disks: Map<string, NvmeDisk>, functions: Map<string, Device>): Column {
  const { gpu_pci_address = "", nvme_device = "", nvme_bytes, fabric_vf_pci_address = "" } = owner.bindings;
  const devices: Device[] = [];
  if (gpu_pci_address) devices.push(gpuDevice(gpu_pci_address, gpus.get(gpu_pci_address), owner));
  if (nvme_device) devices.push(diskDevice(nvme_device, disks.get(nvme_device), owner, Number(nvme_bytes ?? disks.get(nvme_device)?.bytes ?? 0)));
  const vf = functions.get(fabric_vf_pci_address);
  if (vf) devices.push({ ...vf, key: `own ${vf.key}` });
  return { index: owner.index, word: owner.word, tone: owner.tone, hollow: owner.hollow, devices };
}

/** Processor, memory and free pages of a domain. */
function noteOf(id: number | undefined, host: Host | undefined): string {
  const numa = host?.numa_nodes?.find((one) => (one.id ?? 0) === id);
  if (!numa) return "";
  const processors = host?.processors ?? [];
  // one domain for each socket is how these hosts are set up; otherwise nobody can say which is whose
  const processor = processors.length === host?.numa_nodes?.length ? processors.find(({ socket }) => (socket ?? 0) === id)?.model : undefined;
  const pages = numa.hugepages_1g ? `${numa.hugepages_1g_free ?? 0} of ${numa.hugepages_1g} pages of 1 GiB free` : undefined;
  return [processor, numa.cpus && `CPUs ${numa.cpus}`, Number(numa.memory_bytes ?? 0) > 0 ? bytes(Number(numa.memory_bytes)) : undefined, pages].filter(Boolean).join(" · ");
}

/** The node in its memory domains, by their numbers; devices whose domain nobody tells come last. */
export function drawingOf(slots: Slot[], discovery: Discovery | null | undefined, host: Host | undefined): Domain[] {
  const owners = ownersOf(slots, discovery?.candidates ?? []);
  const gpus = new Map((host?.gpus ?? []).map((gpu) => [gpu.function?.pci_address ?? "", gpu]));
  const disks = new Map((host?.disks ?? []).map((disk) => [disk.by_id || disk.kernel_name || "", disk]));
  const by = (field: "gpu_pci_address" | "nvme_device" | "fabric_vf_pci_address") => new Map(owners.map((owner) => [owner.bindings[field] ?? "", owner]));
  const [byGpu, byDisk, byVf] = [by("gpu_pci_address"), by("nvme_device"), by("fabric_vf_pci_address")];
  const told = host?.fabric_devices ?? [];
  const nics = told.length > 0 && host ? told.map((device) => ({ nic: nicOf(device, host, byVf), numa: device.function?.numa_node })) : nicsFromBindings(owners).map((nic) => ({ nic, numa: owners.find(({ bindings }) => bindings.fabric_device === nic.device.name)?.bindings.numa_node }));
  const functions = new Map(nics.flatMap(({ nic }) => nic.functions.map((device) => [device.key.slice(3), device])));

  const domains = new Map<number | undefined, Domain>();
  const at = (numa: number | undefined): Domain => {
    const found = domains.get(numa) ?? { title: numa === undefined ? "NUMA node unknown" : `NUMA node ${numa}`, note: noteOf(numa, host), columns: [], rest: [], nics: [] };
    domains.set(numa, found);
    return found;
  };
  for (const { id } of host?.numa_nodes ?? []) at(id ?? 0);
  const numaOf = ({ bindings }: Owner) => gpus.get(bindings.gpu_pci_address ?? "")?.function?.numa_node ?? bindings.numa_node ?? disks.get(bindings.nvme_device ?? "")?.controller?.numa_node;
  for (const owner of owners) at(numaOf(owner)).columns.push(columnOf(owner, gpus, disks, functions));
  for (const [address, gpu] of gpus) if (!byGpu.has(address)) at(gpu.function?.numa_node).rest.push(gpuDevice(address, gpu, undefined));
  for (const [identity, disk] of disks) if (!byDisk.has(identity)) at(disk.controller?.numa_node).rest.push(diskDevice(identity, disk, undefined, Number(disk.bytes ?? 0)));
  for (const { nic, numa } of nics) at(numa).nics.push(nic);
  const order = (numa: number | undefined) => numa ?? Number.POSITIVE_INFINITY;
  const shown = [...domains].sort(([a], [b]) => order(a) - order(b)).map(([, domain]) => domain);
  // a host without memory domains, such as the lab's, has one place
  const only = shown[0];
  return shown.length === 1 && only?.title === "NUMA node unknown" ? [{ ...only, title: "Devices" }] : shown;
}

/** What a screen reader says of a device. */
export function deviceText({ kind, name, detail, slot }: Device): string {
  const what = { gpu: "", disk: "Disk, ", nic: "NIC, ", vf: "" }[kind];
  return `${what}${[name, detail].filter(Boolean).join(" ")}, ${slot === undefined ? "in no slot" : `slot ${slot}`}`;
}
