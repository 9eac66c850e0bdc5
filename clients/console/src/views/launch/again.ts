/** The request of an earlier launch as far as it still applies, and a text for what does not. Pure. */
import type { Allocation, Image, Sku } from "../../api/types";
import { plural } from "../../lib/text";
import { imagesFor } from "./choice";
import { ANYWHERE, type Where, type WhereKind, labelsOf, neighbours } from "./request";

export interface Again {
  where: Where;
  /** As typed. */
  labels: string;
  /** A sentence for each difference from the earlier launch. */
  left: string[];
}

/** `all` are the allocations that have not ended. */
export function againOf({ config, metadata }: Allocation, all: Allocation[], offer: { skus: Sku[]; images: Image[] }): Again {
  const left = offerChanges(config ?? {}, offer);
  const { labels, lost } = writable(metadata?.labels ?? {});
  if (lost.length > 0) left.push(`These labels cannot be entered here and are left out: ${lost.join(", ")}.`);
  if (config?.user_data) left.push("User data is not copied; enter it again.");
  const requested = config?.placement;
  if (!requested) {
    left.push("The placement of the earlier launch was not recorded. Choose it again.");
    return { where: ANYWHERE, labels, left };
  }
  const near = new Set(neighbours(all, config?.region_code ?? "").map(({ id }) => id));
  const { affinity = "", anti_affinity = [], anti_affinity_label = "", affinity_label = "", require_prewarmed: prewarmed = false } = requested;
  const same = near.has(affinity) ? affinity : "";
  const away = anti_affinity.filter((id) => near.has(id));
  if (same !== affinity) left.push("The allocation of the affinity is no longer on a node.");
  const gone = anti_affinity.length - away.length;
  if (gone > 0) left.push(`${plural(gone, "allocation")} of the anti-affinity ${gone === 1 ? "is" : "are"} no longer on a node.`);
  const kinds: WhereKind[] = [];
  if (same) kinds.push("affinity");
  if (affinity_label) kinds.push("affinity_label");
  if (away.length > 0) kinds.push("anti_affinity");
  if (anti_affinity_label) kinds.push("anti_affinity_label");
  const [kind = "anywhere"] = kinds;
  // the form has one constraint
  if (kinds.length > 1) left.push("The earlier launch had several placement constraints. This form takes one; the first is chosen.");
  return { where: { kind, affinity: same, affinity_label, anti_affinity: away, anti_affinity_label, prewarmed }, labels, left };
}

function offerChanges({ sku: code = "", gpu_count = 0, image = "" }: NonNullable<Allocation["config"]>, { skus, images }: { skus: Sku[]; images: Image[] }): string[] {
  const sku = skus.find((one) => one.code === code);
  if (!sku) return [`The SKU ${code} is no longer offered. Another one is chosen.`];
  const left = [];
  if (!sku.allowed_gpu_counts.includes(gpu_count)) left.push(`${code} is no longer offered with ${plural(gpu_count, "GPU")}. Another count is chosen.`);
  if (!imagesFor(images, code).some(({ slug }) => slug === image)) left.push(`The image ${image} is no longer available for ${code}. Another one is chosen, if there is one.`);
  return left;
}

/** Labels as text, and the keys of those that the form cannot represent. */
function writable(all: Record<string, string>): { labels: string; lost: string[] } {
  const same = (key: string) => labelsOf(`${key}=${all[key]}`)?.[key] === all[key];
  const keys = Object.keys(all);
  return { labels: keys.filter(same).map((key) => `${key}=${all[key]}`).join(", "), lost: keys.filter((key) => !same(key)) };
}
