/** Which allocations a list lets through, and what can be done with several at once. Pure. */
import type { Allocation } from "../../api/types";
import { isBaremetal } from "./state";

export interface ListFilter {
  /** Parts of name, id, SKU, image, region or labels. */
  search: string;
  state: string;
}

export function filtered(allocations: Allocation[], { search, state }: ListFilter): Allocation[] {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  return allocations.filter(({ id, display_name, config, status, metadata }) => {
    const labels = Object.entries(metadata?.labels ?? {}).map(([key, value]) => `${key}=${value}`);
    const text = [display_name, config?.name, id, config?.sku, config?.image, config?.region_code, ...labels].join(" ").toLowerCase();
    return words.every((word) => text.includes(word)) && (!state || status?.state === state);
  });
}

export const VERBS = ["start", "stop", "release"] as const;
export type Verb = (typeof VERBS)[number];

/** Those of several that a verb applies to. */
export function open(verb: Verb, allocations: Allocation[]): Allocation[] {
  return allocations.filter((allocation) => {
    const { state, power } = allocation.status ?? {};
    if (verb === "release") return ["requested", "reserved", "provisioning", "active"].includes(state ?? "");
    if (state !== "active" || isBaremetal(allocation)) return false;
    return verb === "start" ? power === "stopped" : power === "running";
  });
}
