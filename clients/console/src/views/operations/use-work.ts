/** The allocations of all projects that have capacity now, as far as an operator can see them. */
import { useAdminAllocations } from "../../api/nodes";
import type { Allocation, InventoryNode } from "../../api/types";
import { type Fleet, useFleetWatch } from "../../api/watches";
import type { Watched } from "../../watch/use-watch";
import { placedOf } from "./work";

/** Most allocations that are looked up, each with a request of its own. */
export const MOST = 200;

export interface Work {
  watched: Watched<Fleet>;
  /** The newest first; without those that are not loaded yet. */
  allocations: Allocation[];
  /** Of all that have capacity. */
  count: number;
  nodeOf: (allocation: Allocation) => InventoryNode | undefined;
  /** The fleet is known, and at least one allocation where there are any. */
  loaded: boolean;
}

export function useWork(): Work {
  const watched = useFleetWatch();
  const fleet = watched.view;
  const placed = placedOf(Object.values(fleet?.slots ?? {}));
  // ids begin with the time at which they were made
  const ids = [...placed.keys()].sort().reverse();
  const asked = ids.slice(0, MOST);
  const found = useAdminAllocations(asked);
  const allocations = asked.flatMap((id) => found.get(id) ?? []);
  return { watched, allocations, count: ids.length, nodeOf: ({ id = "" }) => fleet?.nodes[placed.get(id) ?? ""], loaded: !!fleet && (ids.length === 0 || allocations.length > 0) };
}
