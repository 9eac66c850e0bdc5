/** The words of plans. */
import type { PlannedPlacement } from "../api/types";

/** Where placement would put something. */
export function placeText({ hostname = "", slot_indexes = [] }: PlannedPlacement): string {
  if (slot_indexes.length === 0) return `${hostname}, the whole node`;
  return `${hostname}, ${slot_indexes.length === 1 ? "slot" : "slots"} ${slot_indexes.join(", ")}`;
}
