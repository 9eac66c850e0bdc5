/** What an earlier launch asked for, as far as it still makes sense; and what does not, in words. Pure. */
import type { Allocation, Image, Sku } from "../../api/types";
import { plural } from "../../lib/words";
import { imagesFor } from "./choice";
import { ANYWHERE, type Where, type WhereKind, labelsOf, neighbours } from "./request";

export interface Again {
  where: Where;
  /** As they are typed. */
  labels: string;
  /** A sentence for each thing that is not as it was. */
  left: string[];
}

/** `all` are the allocations that have not ended. */
export function againOf({ config, metadata }: Allocation, all: Allocation[], offer: { skus: Sku[]; images: Image[] }): Again {
  const left = offerChanges(config ?? {}, offer);
  const { labels, lost } = writable(metadata?.labels ?? {});
  if (lost.length > 0) left.push(`Labels that cannot be typed here are left out: ${lost.join(", ")}.`);
  const asked = config?.placement;
  if (!asked) {
    left.push("Where the earlier one was asked to run was not kept then: choose it again if it matters.");
    return { where: ANYWHERE, labels, left };
  }
  const near = new Set(neighbours(all, config?.region_code ?? "").map(({ id }) => id));
  const { affinity = "", anti_affinity = [], anti_affinity_label: label = "", affinity_label: mate = "", require_prewarmed: prewarmed = false } = asked;
  const same = near.has(affinity) ? affinity : "";
  const away = anti_affinity.filter((id) => near.has(id));
  if (same !== affinity) left.push("The allocation that it was to be beside is not on a node any more.");
  const gone = anti_affinity.length - away.length;
  if (gone > 0) left.push(`${plural(gone, "allocation")} that it was to be away from ${gone === 1 ? "is" : "are"} not on a node any more.`);
  const said: WhereKind[] = [];
  if (same) said.push("same");
  if (mate) said.push("mate");
  if (away.length > 0) said.push("away");
  if (label) said.push("label");
  const [kind = "anywhere"] = said;
  // the form takes one of them
  if (said.length > 1) left.push("It was asked to run where several things hold; the first of them is chosen here.");
  return { where: { kind, same, mate, away, label, prewarmed }, labels, left };
}

function offerChanges({ sku: code = "", gpu_count = 0, image = "" }: NonNullable<Allocation["config"]>, { skus, images }: { skus: Sku[]; images: Image[] }): string[] {
  const sku = skus.find((one) => one.code === code);
  if (!sku) return [`${code} is not on sale any more: another product is chosen.`];
  const left = [];
  if (!sku.allowed_gpu_counts.includes(gpu_count)) left.push(`${code} is not sold with ${plural(gpu_count, "GPU")} any more: another number is chosen.`);
  if (!imagesFor(images, code).some(({ slug }) => slug === image)) left.push(`The image ${image} cannot be launched on ${code} any more: another one is chosen, if there is one.`);
  return left;
}

/** Labels as text, and the keys of those whose value would not be read again as it is. */
function writable(all: Record<string, string>): { labels: string; lost: string[] } {
  const same = (key: string) => labelsOf(`${key}=${all[key]}`)?.[key] === all[key];
  const keys = Object.keys(all);
  return { labels: keys.filter(same).map((key) => `${key}=${all[key]}`).join(", "), lost: keys.filter((key) => !same(key)) };
}
