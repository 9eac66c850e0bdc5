/** What was approved beside what is there. Pure. */
import type { Discovery, Slot, SlotCandidate } from "../../api/types";
import { sentence } from "../../lib/text";

export interface BindingComparison {
  field?: string;
  approved?: string;
  found?: string;
  differs?: boolean;
}
export interface SlotComparison {
  slot_index?: number;
  slot_id?: string;
  state?: string;
  bindings?: BindingComparison[];
}

const COMPARED = ["gpu_pci_address", "nvme_device", "fabric_device", "fabric_vf_pci_address", "management_mac", "private_ip"] as const;

/** Each slot and each candidate of a completed discovery, side by side. */
export function comparisonsOf(slots: Slot[], discovery: Discovery | null | undefined): SlotComparison[] {
  if (discovery?.state !== "completed") return [];
  const candidates = new Map((discovery.candidates ?? []).map((candidate) => [candidate.slot_index ?? 0, candidate]));
  const approved = new Map(slots.filter(({ status }) => status !== "retired").map((slot) => [slot.slot_index ?? 0, slot]));
  const indexes = [...new Set([...candidates.keys(), ...approved.keys()])].sort((a, b) => a - b);
  return indexes.map((slot_index) => {
    const [slot, candidate] = [approved.get(slot_index), candidates.get(slot_index)];
    const bindings = COMPARED.map((field) => {
      const [before, found] = [slot?.bindings?.[field] ?? "", candidate?.bindings?.[field] ?? ""];
      return { field, approved: before, found, differs: !!slot && !!candidate && before !== found };
    }).filter((one) => one.approved || one.found);
    const state = !slot ? "new" : !candidate ? "not_found" : bindings.some(({ differs }) => differs) ? "different" : "same";
    return { slot_index, slot_id: slot?.id ?? "", state, bindings };
  });
}

const FIELDS: Record<string, string> = {
  gpu_pci_address: "GPU",
  gpu_module_id: "GPU module",
  nvme_device: "Disk",
  nvme_bytes: "Disk size",
  fabric_device: "Fabric device",
  fabric_vf_pci_address: "Fabric function",
  management_mac: "MAC",
  private_ip: "Address",
  destructive_wipe_policy: "Wipe policy",
  numa_node: "NUMA node",
};

/** A field of the bindings by its name for people. */
export function fieldName(field = ""): string {
  return FIELDS[field] ?? sentence(field);
}

/** A sentence for each difference of one slot. */
export function differencesOf({ state, bindings = [] }: SlotComparison): string[] {
  if (state === "not_found") return ["The latest discovery does not contain this slot."];
  return bindings.filter(({ differs }) => differs).map(({ field, approved, found }) => `${fieldName(field)} has drifted: approved ${approved || "none"}, found ${found || "none"}.`);
}

/** Candidates that are not slots yet. */
export function isNew(candidate: SlotCandidate, slots: Slot[]): boolean {
  return !slots.some((slot) => slot.slot_index === candidate.slot_index && slot.status !== "retired");
}
