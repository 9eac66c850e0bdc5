/** What an explanation is asked of. */
import type { PlacementConstraints } from "./types";

/** A launch of which an explanation is asked; one without image and constraints may run anywhere. */
export interface Asked {
  region_code: string;
  sku: string;
  gpu_count: number;
  image_digest?: string | undefined;
  placement?: PlacementConstraints | undefined;
}

/** The same as the parts of a query. */
export function queryOf({ placement = {}, ...asked }: Asked) {
  return {
    ...asked,
    "placement.affinity": placement.affinity,
    "placement.affinity_label": placement.affinity_label,
    "placement.anti_affinity": placement.anti_affinity,
    "placement.anti_affinity_label": placement.anti_affinity_label,
    "placement.require_prewarmed": placement.require_prewarmed,
  };
}
