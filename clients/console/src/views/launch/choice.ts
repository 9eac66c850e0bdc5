/** What can be launched now: pure decisions of the launch form. */
import { Problem, isUnschedulable } from "../../api/problem";
import type { Guardrails } from "../../api/guardrails";
import type { Availability, Image, PlacementExplanation, Region, Sku, UnavailableReason } from "../../api/types";
import { forbiddenOf } from "../../lib/forbidden";

export type Shape = "gpu_slice" | "baremetal";

/** The two shapes of a launch (H-25). */
export const SHAPES: { value: Shape; label: string; none: string }[] = [
  { value: "gpu_slice", label: "Virtual machine", none: "No SKU for virtual machines is available." },
  { value: "baremetal", label: "Bare metal", none: "No bare-metal SKU is available. A virtual machine also has dedicated GPUs and disks." },
];

/** Regions or SKUs as options. */
export function optionsOf(things: { code: string; display_name?: string }[]): { value: string; label: string }[] {
  return things.map(({ code, display_name }) => ({ value: code, label: display_name || code }));
}

export function skusOf(skus: Sku[], shape: Shape): Sku[] {
  return skus.filter((sku) => sku.capacity_shape === shape);
}

/** The shape of a SKU; that of most for one that is not offered. */
export function shapeOf(skus: Sku[], code: string): Shape {
  return skus.find((sku) => sku.code === code)?.capacity_shape === "baremetal" ? "baremetal" : "gpu_slice";
}

/** What decides where a form opens. */
export interface Opening {
  skus: Sku[];
  images: Image[];
  availability: Availability[];
}

/** The default region: the first enabled one where a launch fits, else one with nodes, else any enabled one. */
export function firstRegion(regions: Region[], opening?: Opening): string {
  const enabled = regions.filter((region) => region.enabled);
  const { skus = [], images = [], availability = [] } = opening ?? {};
  const launchable = new Set(skus.filter((sku) => isLaunchable(sku, images)).map(({ code }) => code));
  const fits = enabled.find(({ code }) => availability.some((a) => a.region_code === code && launchable.has(a.sku ?? "") && (a.fits ?? 0) > 0));
  const hasNodes = enabled.find(({ code }) => availability.some((a) => a.region_code === code && !(a.reasons ?? []).some(isWithoutNodes)));
  return (fits ?? hasNodes ?? enabled[0] ?? regions[0])?.code ?? "";
}

function isWithoutNodes({ reason, nodes }: UnavailableReason): boolean {
  return reason === "NO_CAPACITY" && !nodes;
}

/** It is enabled, and has a price and an image. */
function isLaunchable(sku: Sku, images: Image[]): boolean {
  return !sku.disabled && !!sku.price_per_gpu_hour && imagesFor(images, sku.code).length > 0;
}

/** Why a region is unavailable; it is shown all the same (H-28). */
export function regionProblem(region: Region, guardrails?: Guardrails): string | undefined {
  return region.enabled ? forbiddenOf(guardrails, "region", region.code) : `Closed: ${region.unavailable_reason || "no reason was given."}`;
}

/** What to say where the chosen region cannot be had: none was open, it was closed meanwhile, or the organisation does not allow it. */
export function closedNote(regions: Region[], code: string, guardrails?: Guardrails): string | undefined {
  const region = regions.find((one) => one.code === code);
  if (!region || !regionProblem(region, guardrails)) return undefined;
  const name = (one: Region) => one.display_name || one.code;
  const open = regions.filter((one) => !regionProblem(one, guardrails)).map(name);
  const way = open.length > 0 ? `Choose an open region: ${open.join(", ")}.` : "No other region is open.";
  const why = region.enabled ? "is not allowed by your organisation" : `is closed: ${(region.unavailable_reason || "no reason was given").replace(/\.$/, "")}`;
  return `${name(region)} ${why}. ${way}`;
}

/** Whether a dry run is worth it: without capacity the outcome is known. */
export function worthJudging(capacity: number | undefined): boolean {
  return (capacity ?? 0) > 0;
}

/** Label of the choice to queue a launch. */
export const WAIT = "Queue this launch if it does not fit now";

/** How long a launch may stay queued, in hours. */
export const WAITS = [1, 2, 8, 24, 72, 168];

/** Deadline of a queued launch. */
export function waitFor(hours: number, now: number): { deadline: string } {
  return { deadline: new Date(now + hours * 3_600_000).toISOString() };
}

/** The server has refused this request and would refuse it again; an unschedulable one until capacity changes. */
export function isRefused(problem: unknown): boolean {
  return problem instanceof Problem && (!problem.transient || isUnschedulable(problem));
}

/** How many fit and, if none, why; for one SKU, count and region. */
export function fitOf(availability: Availability[], region: string, sku: string, gpus: number): Availability | undefined {
  return availability.find((a) => a.region_code === region && a.sku === sku && a.gpu_count === gpus);
}

/**
 * How many launches without constraints fit now; undefined while unknown. Free capacity may belong to queued requests: the
 * explanation knows the queue, and decides as soon as there is one.
 */
export function capacityOf(fit: Availability | undefined, explanation: PlacementExplanation | undefined): number | undefined {
  if (!explanation) return fit?.fits;
  const { nodes_fit = 0, removed = [] } = explanation;
  // one fits on each of those nodes; how many more is unknown where free capacity goes to queued requests
  const shared = nodes_fit === 0 || removed.some(({ reason }) => reason === "QUEUED_AHEAD");
  return shared ? nodes_fit : Math.max(nodes_fit, fit?.fits ?? 0);
}

/** Whether so many fit now: there is capacity, or the dry run of all of them has passed (`judged`). */
export function fitsNow(capacity: number | undefined, count: number, judged: boolean | undefined): boolean {
  const known = capacity ?? 0;
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

/** What this launch could change. */
export function waysOf({ regions, skus, region, sku, gpus, count, waits, explanation }: Short): string[] {
  // without any node of the slot class, neither fewer GPUs nor the queue helps
  const kind = !explanation || (explanation.nodes ?? 0) > 0;
  const ways: [boolean, string][] = [
    [kind && !waits, `select “${WAIT}”`],
    [kind && count > 1, "reduce the count"],
    [kind && gpus > Math.min(...(sku?.allowed_gpu_counts ?? [])), "request fewer GPUs per allocation"],
    [!kind && skus.length > 1, "choose another SKU"],
    [regions.some(({ code, enabled }) => enabled && code !== region), "choose another region"],
    [kind && waits, "wait until capacity becomes free"],
  ];
  return ways.filter(([open]) => open).map(([, way]) => way);
}

/** Whether any size of a SKU fits in a region. */
export function anyFits(availability: Availability[], region: string, sku: string): boolean {
  return availability.some((a) => a.region_code === region && a.sku === sku && (a.fits ?? 0) > 0);
}

/** The default SKU: one that has a price and an image before one that has not, and of those one that fits. */
export function firstChoice(skus: Sku[], { availability, images }: Omit<Opening, "skus">, region: string): Sku | undefined {
  const launchable = skus.filter((sku) => isLaunchable(sku, images));
  return launchable.find((sku) => anyFits(availability, region, sku.code)) ?? launchable[0] ?? skus[0];
}

export function imagesFor(images: Image[], sku: string): Image[] {
  return images.filter((image) => image.status === "active" && image.compatible_skus?.includes(sku));
}
