/** Query of a placement explanation. */
import type { PlacementConstraints } from "./types";

/** The launch to explain. */
export interface ExplanationQuery {
  region_code: string;
  sku: string;
  gpu_count: number;
  image_digest?: string | undefined;
  placement?: PlacementConstraints | undefined;
}

/** The same as the parts of a query. */
export function queryOf({ placement = {}, ...asked }: ExplanationQuery) {
  return {
    ...asked,
    "placement.affinity": placement.affinity,
    "placement.affinity_label": placement.affinity_label,
    "placement.anti_affinity": placement.anti_affinity,
    "placement.anti_affinity_label": placement.anti_affinity_label,
    "placement.require_prewarmed": placement.require_prewarmed,
  };
}
