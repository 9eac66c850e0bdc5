/** What can be launched now: pure decisions of the launch form. */
import { Problem, isOfPlace } from "../../api/problem";
import type { Availability, Image, PlacementExplanation, Region, Sku } from "../../api/types";

export type Shape = "gpu_slice" | "baremetal";

/** The two ways one launch can go (H-25). */
export const SHAPES: { value: Shape; label: string; none: string }[] = [
  { value: "gpu_slice", label: "Virtual machine", none: "No virtual machines are on sale here." },
  { value: "baremetal", label: "Whole node", none: "Whole nodes are not on sale here. A virtual machine has its GPUs and disks to itself, too." },
];

/** Regions or products, to choose from by their names. */
export function optionsOf(things: { code: string; display_name?: string }[]): { value: string; label: string }[] {
  return things.map(({ code, display_name }) => ({ value: code, label: display_name || code }));
}

export function skusOf(skus: Sku[], shape: Shape): Sku[] {
  return skus.filter((sku) => sku.capacity_shape === shape);
}

/** The way that a product goes; one that is not on sale begins where most do. */
export function shapeOf(skus: Sku[], code: string): Shape {
  return skus.find((sku) => sku.code === code)?.capacity_shape === "baremetal" ? "baremetal" : "gpu_slice";
}

/** The region to begin with: the first in which something can be launched. */
export function firstRegion(regions: Region[]): string {
  return (regions.find(({ enabled }) => enabled) ?? regions[0])?.code ?? "";
}

/** Why a region cannot be chosen; it is shown all the same (H-28). */
export function regionProblem(region: Region): string | undefined {
  return region.enabled ? undefined : region.unavailable_reason || "Not available.";
}

/** Whether the server should be asked before the launch: what has no room is known, but not all is a matter of room. */
export function worthJudging(room: number | undefined): boolean {
  return (room ?? 0) > 0;
}

/** What one ticks to let a launch wait. */
export const WAIT = "Wait in line when it does not fit now";

/** How long a launch may wait in line, in hours. */
export const WAITS = [1, 2, 8, 24, 72, 168];

/** When a launch that may wait gives up. A little early, so that the longest wait is one that the server takes. */
export function waitFor(hours: number, now: number): { deadline: string } {
  return { deadline: new Date(now + hours * 3_600_000 - 60_000).toISOString() };
}

/** The server has said no to what is chosen, and would say it again; for want of a place, until there is more room. */
export function isRefused(problem: unknown): boolean {
  return problem instanceof Problem && (!problem.transient || isOfPlace(problem));
}

/** How many fit and, when none does, why not; of one product, count and region. */
export function fitOf(availability: Availability[], region: string, sku: string, gpus: number): Availability | undefined {
  return availability.find((a) => a.region_code === region && a.sku === sku && a.gpu_count === gpus);
}

/**
 * How many of a launch that may run anywhere would be launched now; nothing, while it is not known. What is free is not yet there for
 * everybody: the explanation, which knows who is before whom in line, decides as soon as there is one.
 */
export function roomOf(fit: Availability | undefined, explanation: PlacementExplanation | undefined): number | undefined {
  if (!explanation) return fit?.fits;
  const { nodes_fit = 0, removed = [] } = explanation;
  // on each of those nodes one fits; how many more is not told where some of what is free goes to those in line
  const shared = nodes_fit === 0 || removed.some(({ reason }) => reason === "WAITING_AHEAD");
  return shared ? nodes_fit : Math.max(nodes_fit, fit?.fits ?? 0);
}

/** Whether so many would be launched now: there is room, or the server, asked for all of them, says yes (`judged`). */
export function fitsNow(room: number | undefined, count: number, judged: boolean | undefined): boolean {
  const known = room ?? 0;
  return known >= count || (known > 0 && count > 1 && judged === true);
}

/** A launch that does not fit now. */
interface Short {
  regions: Region[];
  skus: Sku[];
  region: string;
  sku: Sku | undefined;
  gpus: number;
  count: number;
  waits: boolean;
  explanation: PlacementExplanation | undefined;
}

/** What could be done about it: only what is open to this launch. */
export function waysOf({ regions, skus, region, sku, gpus, count, waits, explanation }: Short): string[] {
  // where no node has GPUs of the kind, neither fewer of them nor waiting helps
  const kind = !explanation || (explanation.nodes ?? 0) > 0;
  const ways: [boolean, string][] = [
    [kind && !waits, `tick “${WAIT}”`],
    [kind && count > 1, "launch fewer at once"],
    [kind && gpus > Math.min(...(sku?.allowed_gpu_counts ?? [])), "ask for fewer GPUs"],
    [!kind && skus.length > 1, "choose another product"],
    [regions.some(({ code, enabled }) => enabled && code !== region), "choose another region"],
    [kind && waits, "wait for others to release theirs"],
  ];
  return ways.filter(([open]) => open).map(([, way]) => way);
}

/** Whether anything of a product fits in a region. */
export function anyFits(availability: Availability[], region: string, sku: string): boolean {
  return availability.some((a) => a.region_code === region && a.sku === sku && (a.fits ?? 0) > 0);
}

/** The choice to begin with: a product that fits before one that does not. */
export function firstChoice(skus: Sku[], availability: Availability[], region: string): Sku | undefined {
  return skus.find((sku) => anyFits(availability, region, sku.code)) ?? skus[0];
}

export function imagesFor(images: Image[], sku: string): Image[] {
  return images.filter((image) => image.status === "active" && image.compatible_skus?.includes(sku));
}
