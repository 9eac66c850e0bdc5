/** Which nodes the list shows, and their health at a glance. Pure. */
import type { InventoryNode, NodePlacement } from "../../api/types";
import type { Tone } from "../../ui/basics";
import type { Part } from "../../ui/meter";
import { isSchedulable } from "./placement";

/** A node is in exactly one of these. */
export const HEALTH = ["schedulable", "out_of_service", "blocked", "lost", "waiting"] as const;
export type Health = (typeof HEALTH)[number];

export const HEALTH_LABELS: Record<Health, string> = {
  schedulable: "schedulable",
  out_of_service: "out of service",
  blocked: "not ready",
  lost: "lost",
  waiting: "waiting for their agent",
};
const TONES: Record<Health, Tone> = { schedulable: "good", out_of_service: "idle", blocked: "warn", lost: "bad", waiting: "idle" };

export type Placements = ReadonlyMap<string, NodePlacement>;

export function healthOf(node: InventoryNode, placement: NodePlacement | undefined): Health {
  const { state, schedulable } = node.status ?? {};
  if (state === "lost") return "lost";
  if (state === "pending") return "waiting";
  if (isSchedulable(node, placement)) return "schedulable";
  // what operators do not want is no fault, unless it is one besides
  return schedulable ? "out_of_service" : "blocked";
}

/** How many nodes are in which health. */
export function healthParts(nodes: InventoryNode[], placements: Placements): Part[] {
  const healths = nodes.map((node) => healthOf(node, placements.get(node.id ?? "")));
  return HEALTH.map((health) => ({
    label: HEALTH_LABELS[health],
    value: healths.filter((one) => one === health).length,
    tone: TONES[health],
    hollow: health === "waiting",
  }));
}

export interface Filter {
  /** Part of a hostname or id, or of what blocks a node. */
  search: string;
  region: string;
  mode: string;
  /** One of [HEALTH]. */
  health: string;
}

/** The nodes that a filter lets through; an empty choice lets all through. */
export function filtered(nodes: InventoryNode[], placements: Placements, { search, region, mode, health }: Filter): InventoryNode[] {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  return nodes.filter((node) => {
    const { id = "", config, status } = node;
    const text = [config?.hostname, id, status?.instance?.agent_address, ...(status?.blockers ?? [])].join(" ").toLowerCase();
    return (
      words.every((word) => text.includes(word)) &&
      (!region || config?.region_code === region) &&
      (!mode || config?.mode === mode) &&
      (!health || healthOf(node, placements.get(id)) === health)
    );
  });
}
