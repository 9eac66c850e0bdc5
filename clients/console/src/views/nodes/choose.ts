/** What an operator may choose for a slot in place of what the host proposed. Pure. */
import type { Discovery, Slot, SlotCandidate } from "../../api/types";
import { bytes, sentence } from "../../lib/text";

/** What is chosen for one candidate; what is absent or empty stays. */
export interface SlotChoice {
  nvme_device?: string;
  fabric_vf_pci_address?: string;
  destructive_wipe_policy?: string;
}

/** The fields of a choice, in the order in which they are shown. */
export const CHOICES = ["nvme_device", "fabric_vf_pci_address", "destructive_wipe_policy"] as const;

/** What is chosen, by the index of its candidate. */
export type Chosen = Readonly<Record<number, SlotChoice>>;

export interface Option {
  value: string;
  label: string;
}

const POLICIES = ["blkdiscard", "nvme_format", "site_erase"];

/** How the host can wipe the disk that a candidate gets; every way where it does not tell. */
function policiesOf(candidate: SlotCandidate, discovery: Discovery, choice: SlotChoice): string[] {
  const disk = choice.nvme_device || candidate.bindings?.nvme_device;
  const told = discovery.inspected_devices?.find((one) => one.device === disk)?.wipe_policies ?? [];
  return told.length > 0 ? told : POLICIES;
}

/** What can be chosen for a candidate, its own first; devices of other slots are left out, and ways to wipe that its disk cannot. */
export function optionsOf(candidate: SlotCandidate, discovery: Discovery, slots: Slot[], choice: SlotChoice = {}): Record<keyof Required<SlotChoice>, Option[]> {
  const own = candidate.bindings ?? {};
  const others = slots.filter((slot) => slot.status !== "retired" && slot.slot_index !== candidate.slot_index).map((slot) => slot.bindings ?? {});
  const withOwn = (value: string, rest: Option[]): Option[] => [{ value: "", label: value || "none" }, ...rest.filter((option) => option.value !== value)];
  const disks = (discovery.host?.disks ?? [])
    .filter((disk) => disk.by_id && !disk.fault && !disk.uses?.length)
    .filter((disk) => !others.some((slot) => slot.nvme_device === disk.by_id))
    .map((disk) => ({ value: disk.by_id ?? "", label: `${disk.by_id} (${bytes(Number(disk.bytes ?? 0))})` }));
  const functions = (discovery.host?.fabric_devices ?? [])
    .flatMap((device) => device.virtual_functions ?? [])
    .map((one) => one.function?.pci_address ?? "")
    .filter((address) => address && !others.some((slot) => slot.fabric_vf_pci_address === address))
    .map((address) => ({ value: address, label: address }));
  const policies = policiesOf(candidate, discovery, choice).map((policy) => ({ value: policy, label: sentence(policy) }));
  return {
    nvme_device: withOwn(own.nvme_device ?? "", disks),
    fabric_vf_pci_address: withOwn(own.fabric_vf_pci_address ?? "", functions),
    destructive_wipe_policy: [{ value: "", label: sentence(own.destructive_wipe_policy ?? "") }, ...policies.filter((policy) => policy.value !== own.destructive_wipe_policy)],
  };
}

/** What stands against a candidate beside what is chosen anew. The platform has the last word. */
export function blockersOf(candidate: SlotCandidate, discovery: Discovery, choice: SlotChoice = {}): string[] {
  const { blockers = [], disk_blockers = [], fabric_blockers = [], bindings } = candidate;
  const settled = [...(choice.nvme_device ? disk_blockers : []), ...(choice.fabric_vf_pci_address ? fabric_blockers : [])];
  const left = blockers.filter((blocker) => !settled.includes(blocker));
  const policy = choice.destructive_wipe_policy || bindings?.destructive_wipe_policy;
  const possible = policiesOf(candidate, discovery, choice);
  if (policy && !possible.includes(policy)) left.push(`The disk cannot be wiped by ${policy}; it can by ${possible.join(" or ")}.`);
  return left;
}

/** The choices of the slots to approve, as the API takes them. */
export function choicesOf(chosen: Chosen, indexes: number[]): (SlotChoice & { slot_index: number })[] {
  return indexes.flatMap((slot_index) => {
    const choice = chosen[slot_index] ?? {};
    const given = CHOICES.filter((field) => choice[field]).map((field) => [field, choice[field]]);
    return given.length > 0 ? [{ slot_index, ...Object.fromEntries(given) }] : [];
  });
}
