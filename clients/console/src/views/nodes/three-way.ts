/** Ledger, host and hypervisor of a node beside each other: the order of the rows, and what corrects each. Pure. */
import type { ComparisonRow, Slot } from "../../api/types";
import type { Tone } from "../../ui/basics";

type Verdict = NonNullable<ComparisonRow["verdict"]>;

/** What follows, for people, the most urgent first. */
const VERDICTS: [Verdict, string, Tone][] = [
  ["report", "Operator decides", "bad"],
  ["undo", "Undo: remove remains", "warn"],
  ["adopt", "Adopt into ledger", "warn"],
  ["finish", "Finish operation", "warn"],
  ["agrees", "Agrees", "good"],
];

export function verdictOf({ verdict }: Pick<ComparisonRow, "verdict">): [word: string, tone: Tone] {
  const [, word, tone] = VERDICTS.find(([one]) => one === verdict) ?? [verdict, "Unknown", "idle" as Tone];
  return [word, tone];
}

/** What the correction of a row does, for people: its button, and what is said before it. */
const CORRECTIONS: Partial<Record<NonNullable<ComparisonRow["correction"]>, [action: string, text: string]>> = {
  adopt: ["Adopt", "The ledger records the VM as stopped. Its owner can start it again."],
  finish: ["Finish", "The VM is started again."],
  undo: ["Undo", "Removes the remains on the host: VM, address, port, cloud-init disk and UEFI settings (NVRAM). Disks do not change."],
  report: ["Acknowledge", "Nothing is changed. The audit trail records that you have seen it."],
};

export function correctionOf({ correction }: ComparisonRow): { action: string; text: string } | undefined {
  const found = correction && CORRECTIONS[correction];
  return found && { action: found[0], text: found[1] };
}

/** What the host has of an allocation beside slots, as "port, NVRAM". */
export function filesOf({ has_reservation, has_port, has_partition, has_seed, has_nvram }: ComparisonRow): string {
  return [has_reservation && "address reserved", has_port && "port", has_partition && "partition", has_seed && "cloud-init disk", has_nvram && "NVRAM"].filter(Boolean).join(", ");
}

/** What is wrong with a VM that the host asks for its metrics. */
const GUESTS: Partial<Record<NonNullable<ComparisonRow["guest_state"]>, string>> = {
  no_gpu_tool: "VM has no nvidia-smi",
  gpu_tool_failed: "nvidia-smi fails in the VM",
  no_login: "VM is not reachable, or refuses the login",
  too_slow: "VM did not answer in time",
  malformed: "VM sent an invalid answer",
};

/** The same in words; empty where the VM was not asked, is not to be, or reported everything (D-80). */
export function guestOf({ guest_state: state = "unspecified" }: ComparisonRow): string {
  if (state === "unspecified" || state === "off" || state === "complete") return "";
  return GUESTS[state] ?? `VM: ${(state as string).replaceAll("_", " ")}`;
}

/** Differences first, those that wait for an operator before those that the platform ends by itself. */
export function sorted(rows: ComparisonRow[]): ComparisonRow[] {
  const rank = ({ verdict }: ComparisonRow) => {
    const found = VERDICTS.findIndex(([one]) => one === verdict);
    return found < 0 ? 0 : found;
  };
  return rows.toSorted((a, b) => rank(a) - rank(b) || (a.allocation_id ?? "").localeCompare(b.allocation_id ?? ""));
}

/** Whether nobody has the slot, and another driver of its host took a device that a repair of the slot binds again. */
export function isRebound({ status, allocation_id, drift = [] }: Slot): boolean {
  const isFree = (status === "available" || status === "disabled") && !allocation_id;
  // a disk that is away comes first, and what a domain has stays with it
  const stays = drift.some(({ kind, needs_wipe }) => needs_wipe || kind === "unknown_domain");
  return isFree && !stays && drift.some(({ kind }) => kind === "driver_rebound");
}

/** Whether a repair of a slot is accepted: its cleanup is blocked, a forced release left it without proof, or a device is to be bound again. */
export function isRepairable(slot: Slot): boolean {
  const { status, allocation_id, clean_generation, generation } = slot;
  return status === "cleanup_blocked" || (status === "disabled" && !allocation_id && clean_generation !== generation) || isRebound(slot);
}

/** What an operator can do about a row: release the allocation, or repair slots. Nothing where the platform acts, or where no call corrects it. */
export interface Actions {
  release: boolean;
  repair: Slot[];
}

export function actionsOf({ verdict, allocation_id, ledger_state, domain_state, journal_slot_ids = [] }: ComparisonRow, slots: Slot[]): Actions {
  if (verdict !== "report") return { release: false, repair: [] };
  const its = slots.filter(({ id = "", allocation_id: of }) => journal_slot_ids.includes(id) || (!!of && of === allocation_id));
  return { release: ledger_state === "active" && !domain_state, repair: its.filter(isRepairable) };
}
