/** Images that name no readiness checks. */
import type { Image, Sku } from "../api/types";

/** SKUs with GPUs that an image without readiness checks is offered for: nothing tries their GPUs in its VMs. */
export function uncheckedFor({ readiness_checks = [], compatible_skus = [] }: Image, skus: Sku[]): string[] {
  if (readiness_checks.length > 0) return [];
  return skus.filter(({ code, lab, capacity_shape }) => !lab && capacity_shape === "gpu_slice" && compatible_skus.includes(code)).map(({ code }) => code);
}
