/** What a slot's wipe says of itself. Pure. */
import type { Slot } from "../../api/types";

/** The slot was approved and its disk is not proven empty yet: the first wipe is under way. Later wipes begin from a known health. */
export function isFirstWipe({ status, health_state, allocation_id }: Slot): boolean {
  return status === "cleanup" && health_state === "unknown" && !allocation_id;
}

/** The share that a step's text ends with, as in "Wiping the disk. (40 %)", from 0 to 100. */
export function percentIn(text: string): number | undefined {
  const found = /\((\d{1,3}) %\)$/.exec(text);
  return found ? Math.min(100, Number(found[1])) : undefined;
}

/** A step's text without its share. */
export function withoutPercent(text: string): string {
  return text.replace(/ ?\(\d{1,3} %\)$/, "");
}
