/** Allocations of all projects, gathered from what the fleet tells. Pure. */
import type { Allocation, InventoryNode, Slot } from "../../api/types";
import { MOVING_POWERS } from "../allocations/state";

/** Ids of the allocations that have slots, each with its node. */
export function placedOf(slots: Slot[]): Map<string, string> {
  return new Map(slots.flatMap(({ allocation_id, node_id }) => (allocation_id ? [[allocation_id, node_id ?? ""] as const] : [])));
}

export interface Blocked {
  reason: string;
  nodes: InventoryNode[];
}

/** Nodes by what keeps launches away from them, the most frequent first. A node can have several reasons. */
export function blockedBy(nodes: InventoryNode[], kept: (node: InventoryNode) => string | undefined): Blocked[] {
  const found = new Map<string, InventoryNode[]>();
  for (const node of nodes) {
    const { state, blockers = [] } = node.status ?? {};
    const why = kept(node);
    const own = state === "lost" ? ["its reports have stopped"] : state === "pending" ? ["its agent has not enrolled"] : blockers;
    for (const reason of new Set([...(why ? [why] : []), ...own])) found.set(reason, [...(found.get(reason) ?? []), node]);
  }
  return [...found].map(([reason, of]) => ({ reason, nodes: of })).sort((a, b) => b.nodes.length - a.nodes.length || a.reason.localeCompare(b.reason));
}

/** Those that work is going on with, the one with the nearest deadline first. */
export function underWay(allocations: Allocation[]): Allocation[] {
  const deadline = ({ status }: Allocation) => Date.parse(status?.deadline ?? "") || Number.MAX_SAFE_INTEGER;
  const busy = ({ status }: Allocation) =>
    ["reserved", "provisioning", "releasing"].includes(status?.state ?? "") || MOVING_POWERS.includes(status?.power ?? "");
  return allocations.filter(busy).sort((a, b) => deadline(a) - deadline(b));
}

export interface WorkFilter {
  /** Parts of name, id, project, SKU or node. */
  search: string;
  state: string;
}

export function workMatches(text: string[], { config, status }: Allocation, { search, state }: WorkFilter): boolean {
  const all = [config?.name, config?.sku, config?.image, ...text].join(" ").toLowerCase();
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  return words.every((word) => all.includes(word)) && (!state || status?.state === state);
}
