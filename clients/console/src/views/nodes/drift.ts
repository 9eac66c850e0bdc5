/** What was approved beside what is there, as the platform compares it. Pure. */
import type { Slot, SlotCandidate } from "../../api/types";
import { sentence } from "../../lib/text";

const FIELDS: Record<string, string> = {
  gpu_pci_address: "GPU",
  gpu_module_id: "GPU module",
  nvme_device: "Disk",
  nvme_bytes: "Disk size",
  storage_identity_kind: "Disk identity",
  fabric_device: "Fabric device",
  fabric_vf_pci_address: "Fabric function",
  fabric_claim_mode: "Fabric assignment",
  management_mac: "MAC",
  private_ip: "Address",
  destructive_wipe_policy: "Wipe policy",
  numa_node: "NUMA node",
};

/** A field of the bindings by its name for people. */
export function fieldName(field = ""): string {
  return FIELDS[field] ?? sentence(field);
}

/** Candidates that are not slots yet. */
export function isNew(candidate: SlotCandidate, slots: Slot[]): boolean {
  return !slots.some((slot) => slot.slot_index === candidate.slot_index && slot.status !== "retired");
}
