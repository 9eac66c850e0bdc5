/** What is asked of the API: one allocation or several, and where they may run. Pure. */
import type { Allocation, PlacementConstraints } from "../../api/types";
import type { Shape } from "./choice";

/** Most allocations that are launched at once. */
export const MOST_AT_ONCE = 16;

/** One has its name; several have it with their number. */
export function namesOf(name: string, count: number): string[] {
  return count === 1 ? [name] : Array.from({ length: count }, (_, index) => `${name}-${index + 1}`);
}

export type WhereKind = "anywhere" | "same" | "mate" | "away" | "label" | "apart";

/** Where a launch may run; of each kind what was chosen last is kept while another one is looked at. */
export interface Where {
  kind: WhereKind;
  /** Id of the allocation to be beside. */
  same: string;
  /** `key=value` to be beside. */
  mate: string;
  /** Ids of the allocations to be away from. */
  away: string[];
  /** `key=value` to be away from. */
  label: string;
  /** Only on nodes that have the image in their cache (CON-10). */
  prewarmed: boolean;
}

export const ANYWHERE: Where = { kind: "anywhere", same: "", mate: "", away: [], label: "", prewarmed: false };

/**
 * Without what makes no sense: "one per node" for one only, a cached image for a whole node, which boots none, and what cannot be
 * chosen because it is not among `others`, once they are known.
 */
export function sensible(where: Where, count: number, shape: Shape, others?: Allocation[]): Where {
  const kind = where.kind === "apart" && count === 1 ? "anywhere" : where.kind;
  const near = (id: string) => !others || others.some((other) => other.id === id);
  return { ...where, kind, same: near(where.same) ? where.same : "", away: where.away.filter(near), prewarmed: where.prewarmed && shape === "gpu_slice" };
}

/** "One per node" is for several only. */
export function kindsFor(count: number): { value: WhereKind; label: string }[] {
  return [
    { value: "anywhere", label: "Anywhere" },
    { value: "same", label: "Beside another" },
    { value: "mate", label: "Beside label" },
    { value: "away", label: "Away from others" },
    { value: "label", label: "Away from label" },
    ...(count > 1 ? [{ value: "apart" as const, label: "One per node" }] : []),
  ];
}

/** Allocations that one can be beside, or away from: those of the region that are on a node. */
export function neighbours(allocations: Allocation[], region: string): Allocation[] {
  const placed = ["reserved", "provisioning", "active"];
  return allocations
    .filter(({ config, status }) => config?.region_code === region && placed.includes(status?.state ?? ""))
    .sort((a, b) => (a.config?.name ?? "").localeCompare(b.config?.name ?? ""));
}

const PAIR = /^[^=\s]+=\S*$/;

/** Labels as they are typed: `key=value`, apart by commas or spaces; nothing when one is none. */
export function labelsOf(text: string): Record<string, string> | undefined {
  const pairs = text.split(/[\s,]+/).filter(Boolean);
  if (!pairs.every((pair) => PAIR.test(pair))) return undefined;
  return Object.fromEntries(pairs.map((pair) => [pair.slice(0, pair.indexOf("=")), pair.slice(pair.indexOf("=") + 1)]));
}

/** What is not yet right about where it may run. */
export function whereProblem({ kind, same, mate, away, label }: Where): string | undefined {
  if (kind === "same" && same === "") return "Choose the allocation to be beside.";
  if (kind === "away" && away.length === 0) return "Choose the allocations to keep away from.";
  const pair = { mate, label }[kind as "mate" | "label"];
  if (pair !== undefined && !PAIR.test(pair.trim())) return "Write it as key=value.";
  return undefined;
}

/** The label that tells the allocations of one launch from all others. */
const TOGETHER = "launch";

/** The constraints, and the label that a launch needs of its own for them. */
export function placementOf(where: Where, name: string): { placement?: PlacementConstraints; labels: Record<string, string> } {
  const near = nearnessOf(where, name);
  return where.prewarmed ? { ...near, placement: { ...near.placement, require_prewarmed: true } } : near;
}

function nearnessOf({ kind, same, mate, away, label }: Where, name: string): ReturnType<typeof placementOf> {
  switch (kind) {
    case "same":
      return { placement: { affinity: same }, labels: {} };
    case "mate":
      return { placement: { affinity_label: mate.trim() }, labels: {} };
    case "away":
      return { placement: { anti_affinity: away }, labels: {} };
    case "label":
      return { placement: { anti_affinity_label: label.trim() }, labels: {} };
    case "apart":
      return { placement: { anti_affinity_label: `${TOGETHER}=${name}` }, labels: { [TOGETHER]: name } };
    default:
      return { labels: {} };
  }
}
