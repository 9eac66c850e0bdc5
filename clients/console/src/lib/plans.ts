/** Text about plans. */
import type { PlannedPlacement } from "../api/types";

/** A planned placement as text. */
export function placementText({ hostname = "", slot_indexes = [] }: PlannedPlacement): string {
  if (slot_indexes.length === 0) return `${hostname}, bare metal`;
  return `${hostname}, ${slot_indexes.length === 1 ? "slot" : "slots"} ${slot_indexes.join(", ")}`;
}
