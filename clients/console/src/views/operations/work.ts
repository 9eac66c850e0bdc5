/** Allocations of all projects, gathered from what the fleet tells. Pure. */
import { type Searched, everyFilter, projectsFilter, wordsFilter } from "../../api/pages";
import type { Allocation, InventoryNode, Slot } from "../../api/types";
import type { Project } from "../../session/session";
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

const BUSY_STATES: string[] = ["reserved", "provisioning", "releasing"];

/** The same as a filter of the API. One that names a state leaves out none, so this one leaves out what has ended. */
export const UNDER_WAY = everyFilter(`(${[...BUSY_STATES.map((state) => `state = ${state}`), ...MOVING_POWERS.map((power) => `power = ${power}`)].join(" OR ")})`, "NOT state = released", "NOT state = failed");

/** Those that work is going on with, the one with the nearest deadline first. */
export function underWay(allocations: Allocation[]): Allocation[] {
  const deadline = ({ status }: Allocation) => Date.parse(status?.deadline ?? "") || Number.MAX_SAFE_INTEGER;
  const busy = ({ status }: Allocation) => BUSY_STATES.includes(status?.state ?? "") || MOVING_POWERS.includes(status?.power ?? "");
  return allocations.filter(busy).sort((a, b) => deadline(a) - deadline(b));
}

/** Two lists as one: a part of it has of both. */
function alternate(one: string[], other: string[]): string[] {
  return Array.from({ length: Math.max(one.length, other.length) }, (_, at) => [one[at], other[at]]).flatMap((pair) => pair.filter((each) => each !== undefined));
}

/** The filter of the API for every word of a search in name, SKU, image, creator, project or node; ids are whole. */
export function allocationsFilter(search: string, projects: Project[], nodes: InventoryNode[]): Searched {
  const of = (word: string) => {
    const hosts = nodes.filter(({ config }) => config?.hostname?.toLowerCase().includes(word.toLowerCase())).map(({ id }) => `node_id = ${id}`);
    return alternate(projectsFilter(projects, word), hosts);
  };
  return wordsFilter(["name", "display_name", "sku", "image", "creator"], search, { ids: ["id", "project_id", "node_id"], named: { of, nouns: "projects and nodes", instead: "Choose one with the filters." } });
}
