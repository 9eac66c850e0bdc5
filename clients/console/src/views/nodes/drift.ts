/** Drift of a slot: the latest discovery compared with the approved bindings. */
import type { Discovery, Slot, SlotCandidate } from "../../api/types";

const COMPARED = [
  ["gpu_pci_address", "GPU"],
  ["nvme_device", "Disk"],
  ["fabric_device", "Fabric device"],
  ["fabric_vf_pci_address", "Fabric function"],
  ["management_mac", "MAC"],
  ["private_ip", "Address"],
] as const;

/** Sentences about each difference; none when they agree or when nothing was discovered. */
export function drift(slot: Slot, discovery: Discovery | undefined): string[] {
  if (discovery?.state !== "completed") return [];
  const seen = discovery.candidates?.find((candidate) => candidate.slot_index === slot.slot_index);
  if (!seen) return ["The latest discovery does not contain this slot."];
  return COMPARED.flatMap(([field, name]) => {
    const [approved, found] = [slot.bindings?.[field] ?? "", seen.bindings?.[field] ?? ""];
    return approved === found ? [] : [`${name} has drifted: approved ${approved || "none"}, found ${found || "none"}.`];
  });
}

/** Candidates that are not slots yet. */
export function isNew(candidate: SlotCandidate, slots: Slot[]): boolean {
  return !slots.some((slot) => slot.slot_index === candidate.slot_index && slot.status !== "retired");
}
