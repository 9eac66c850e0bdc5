/** The launch request: one or several allocations and their placement. Pure. */
import type { Allocation, PlacementConstraints } from "../../api/types";
import { nameOf } from "../../lib/allocation-name";
import { isEnded } from "../allocations/state";
import type { Shape } from "./choice";

/** Maximum allocations in one launch. */
export const MAX_COUNT = 16;

/** The name itself, or the name with a number for each of several. */
export function namesOf(name: string, count: number): string[] {
  return count === 1 ? [name] : Array.from({ length: count }, (_, index) => `${name}-${index + 1}`);
}

/** What is wrong with names that allocations of the project have; names of ended ones are free. */
export function takenAmong(names: string[], all: Allocation[]): string | undefined {
  const used = new Set(all.filter((allocation) => !isEnded(allocation)).map(({ config }) => config?.name));
  const name = names.find((one) => used.has(one));
  return name && `An allocation of the project is already named ${name}. Choose another name.`;
}

export type WhereKind = "anywhere" | "affinity" | "affinity_label" | "anti_affinity" | "anti_affinity_label" | "spread";

/** The placement constraint of a launch; the values of the kinds that are not chosen are kept in the form. */
export interface Where {
  kind: WhereKind;
  /** Id of an allocation. */
  affinity: string;
  /** `key=value`. */
  affinity_label: string;
  /** Ids of allocations. */
  anti_affinity: string[];
  /** `key=value`. */
  anti_affinity_label: string;
  /** Only on nodes that have the image in their cache (CON-10). */
  prewarmed: boolean;
}

export const ANYWHERE: Where = { kind: "anywhere", affinity: "", affinity_label: "", anti_affinity: [], anti_affinity_label: "", prewarmed: false };

/** A placement constraint as parameters of an address; all empty when it is the `usual` one. */
export function paramsOf(where: Where, usual: Where = ANYWHERE): Record<string, string> {
  const { kind, affinity, affinity_label, anti_affinity, anti_affinity_label, prewarmed } = where;
  const value = { anywhere: "", spread: "", affinity, affinity_label, anti_affinity: anti_affinity.join(","), anti_affinity_label }[kind];
  const isUsual = JSON.stringify(where) === JSON.stringify(usual);
  return isUsual ? { placement: "", of: "", cached: "" } : { placement: kind, of: value, cached: prewarmed ? "1" : "" };
}

/** The constraint that an address names; nothing when it names none. */
export function whereOf(given: URLSearchParams): Where | undefined {
  const kind = given.get("placement") ?? "";
  if (!isKind(kind)) return undefined;
  const value = given.get("of") ?? "";
  const where: Where = { ...ANYWHERE, kind, prewarmed: given.get("cached") === "1" };
  if (kind === "anti_affinity") where.anti_affinity = value.split(",").filter(Boolean);
  else if (kind !== "anywhere" && kind !== "spread") where[kind] = value;
  return where;
}

function isKind(text: string): text is WhereKind {
  return ["anywhere", "affinity", "affinity_label", "anti_affinity", "anti_affinity_label", "spread"].includes(text);
}

/**
 * Without what does not apply: "one per node" for a single allocation, a cached image for bare metal, which boots none, and
 * allocations that are not among `others`, once they are known.
 */
export function sensible(where: Where, count: number, shape: Shape, others?: Allocation[]): Where {
  const kind = where.kind === "spread" && count === 1 ? "anywhere" : where.kind;
  const near = (id: string) => !others || others.some((other) => other.id === id);
  return { ...where, kind, affinity: near(where.affinity) ? where.affinity : "", anti_affinity: where.anti_affinity.filter(near), prewarmed: where.prewarmed && shape === "gpu_slice" };
}

/** "One per node" applies to several only. */
export function kindsFor(count: number): { value: WhereKind; label: string }[] {
  return [
    { value: "anywhere", label: "Anywhere" },
    { value: "affinity", label: "Affinity" },
    { value: "affinity_label", label: "Affinity to label" },
    { value: "anti_affinity", label: "Anti-affinity" },
    { value: "anti_affinity_label", label: "Anti-affinity to label" },
    ...(count > 1 ? [{ value: "spread" as const, label: "One per node" }] : []),
  ];
}

/** Allocations that affinity can name: those on a node of the region. */
export function neighbours(allocations: Allocation[], region: string): Allocation[] {
  const placed = ["reserved", "provisioning", "active"];
  return allocations
    .filter(({ config, status }) => config?.region_code === region && placed.includes(status?.state ?? ""))
    .sort((a, b) => nameOf(a).localeCompare(nameOf(b)));
}

const PAIR = /^[^=\s]+=\S*$/;

/** Labels as typed: `key=value`, separated by commas or spaces; nothing when one is invalid. */
export function labelsOf(text: string): Record<string, string> | undefined {
  const pairs = text.split(/[\s,]+/).filter(Boolean);
  if (!pairs.every((pair) => PAIR.test(pair))) return undefined;
  return Object.fromEntries(pairs.map((pair) => [pair.slice(0, pair.indexOf("=")), pair.slice(pair.indexOf("=") + 1)]));
}

/** What is missing in the placement constraint. */
export function whereProblem({ kind, affinity, affinity_label, anti_affinity, anti_affinity_label }: Where): string | undefined {
  if (kind === "affinity" && affinity === "") return "Choose an allocation.";
  if (kind === "anti_affinity" && anti_affinity.length === 0) return "Choose at least one allocation.";
  const pair = { affinity_label, anti_affinity_label }[kind as "affinity_label" | "anti_affinity_label"];
  if (pair !== undefined && !PAIR.test(pair.trim())) return "Enter the label as key=value.";
  return undefined;
}

/** The label that all allocations of one launch have. */
const LAUNCH_LABEL = "launch";

/** The constraints, and the labels that they need. */
export function placementOf(where: Where, name: string): { placement?: PlacementConstraints; labels: Record<string, string> } {
  const affine = affinityOf(where, name);
  return where.prewarmed ? { ...affine, placement: { ...affine.placement, require_prewarmed: true } } : affine;
}

function affinityOf({ kind, affinity, affinity_label, anti_affinity, anti_affinity_label }: Where, name: string): ReturnType<typeof placementOf> {
  switch (kind) {
    case "affinity":
      return { placement: { affinity }, labels: {} };
    case "affinity_label":
      return { placement: { affinity_label: affinity_label.trim() }, labels: {} };
    case "anti_affinity":
      return { placement: { anti_affinity }, labels: {} };
    case "anti_affinity_label":
      return { placement: { anti_affinity_label: anti_affinity_label.trim() }, labels: {} };
    case "spread":
      return { placement: { anti_affinity_label: `${LAUNCH_LABEL}=${name}` }, labels: { [LAUNCH_LABEL]: name } };
    default:
      return { labels: {} };
  }
}
